//! Mapping of schedule times to run times under changing speed: a sequence of pieces, each with constant speed.

use std::collections::VecDeque;

use pktgen_core::time::{NEVER, Time};

/// A piece: speed and position in the schedule from one time on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WarpPiece {
    /// Time of the schedule at its beginning.
    pub(super) schedule: Time,
    /// Its beginning in the time of the run.
    pub(super) run: Time,
    /// Time of the schedule per time of the run; 0 while nothing is due.
    pub(super) speed: f64,
}

impl WarpPiece {
    /// The first piece of a run: as scheduled, or held.
    pub(super) fn first(held: bool) -> Self {
        WarpPiece { schedule: 0, run: 0, speed: if held { 0.0 } else { 1.0 } }
    }

    /// Returns the due time of what is scheduled for `t`.
    #[inline]
    fn due(&self, t: Time) -> Time {
        let ahead = t - self.schedule;
        if self.speed == 1.0 {
            return self.run.saturating_add(ahead);
        }
        let after = (ahead as f64 / self.speed).ceil();
        // An update before the beginning of a held run has no other due time.
        if self.speed == 0.0 {
            if ahead < 0 { self.run } else { NEVER }
        } else if after < NEVER as f64 / 2.0 {
            self.run.saturating_add(after as Time)
        } else {
            NEVER
        }
    }

    /// Returns the latest time of the schedule that is due at `now`.
    #[inline]
    pub(super) fn reach(&self, now: Time) -> Time {
        let after = now - self.run;
        if self.speed == 0.0 {
            self.schedule - 1
        } else if self.speed == 1.0 {
            self.schedule + after
        } else {
            self.schedule.saturating_add((after as f64 * self.speed).floor() as Time)
        }
    }

    /// Returns the next piece, from `at` on with this speed.
    pub(super) fn then(&self, at: Time, speed: f64) -> WarpPiece {
        let schedule = if self.speed == 0.0 { self.schedule } else { self.reach(at) };
        WarpPiece { schedule, run: at, speed }
    }
}

/// The pieces of a run that may still be needed.
#[derive(Debug)]
pub(crate) struct Warp(VecDeque<WarpPiece>);

impl Warp {
    pub(super) fn new(first: WarpPiece, room: usize) -> Self {
        let mut pieces = VecDeque::with_capacity(room);
        pieces.push_back(first);
        Warp(pieces)
    }

    /// Adds a piece that begins after all others.
    #[inline]
    pub(super) fn add(&mut self, piece: WarpPiece) {
        self.0.push_back(piece);
    }

    /// Returns the due time of what is scheduled for `t`; [`NEVER`] while that is held.
    #[inline]
    pub(crate) fn due(&self, t: Time) -> Time {
        let last = self.0.iter().rev().find(|piece| piece.schedule <= t);
        last.or(self.0.front()).map_or(t, |piece| piece.due(t))
    }

    /// Returns the latest time of the schedule that is due at `now`.
    #[inline]
    pub(crate) fn reach(&self, now: Time) -> Time {
        let last = self.0.iter().rev().find(|piece| piece.run <= now);
        last.or(self.0.front()).map_or(now, |piece| piece.reach(now))
    }

    /// Returns the speed at `now`.
    #[inline]
    pub(super) fn speed(&self, now: Time) -> f64 {
        let last = self.0.iter().rev().find(|piece| piece.run <= now);
        last.or(self.0.front()).map_or(1.0, |piece| piece.speed)
    }

    /// Discards pieces before `t` of the schedule.
    #[inline]
    pub(crate) fn forget(&mut self, t: Time) {
        while self.0.get(1).is_some_and(|next| next.schedule <= t) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::time::MS;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_schedule_is_faster_slower_and_held_from_an_instant_on() {
        let mut warp = Warp::new(WarpPiece::first(false), 8);
        let mut last = WarpPiece::first(false);
        for (at, speed) in [(10, 2.0), (20, 0.0), (50, 0.5)] {
            last = last.then(at * MS, speed);
            warp.add(last);
        }
        // 10 ms as scheduled, 20 ms of the schedule in the next 10, then a pause of 30, then half speed.
        for (schedule, run) in [(0, 0), (9, 9), (10, 10), (12, 11), (28, 19), (30, 50), (31, 52), (40, 70)] {
            assert_eq!(warp.due(schedule * MS), run * MS, "{schedule}");
        }
        for (run, schedule) in [(5, 5), (15, 20), (52, 31)] {
            assert_eq!(warp.reach(run * MS), schedule * MS, "{run}");
        }
        for held in [20, 30, 49] {
            assert_eq!(warp.reach(held * MS), 30 * MS - 1, "{held}");
        }
        warp.forget(30 * MS);
        assert_eq!(warp.0.len(), 1);
        assert_eq!(warp.due(31 * MS), 52 * MS);
    }

    #[test]
    fn what_is_held_at_the_beginning_begins_when_it_is_let_go() {
        let first = WarpPiece::first(true);
        let mut warp = Warp::new(first, 8);
        assert_eq!((warp.due(0), warp.reach(1_000_000)), (NEVER, -1));
        warp.add(first.then(7 * MS, 1.0));
        assert_eq!((warp.due(0), warp.due(MS), warp.reach(9 * MS)), (7 * MS, 8 * MS, 2 * MS));
    }

    proptest! {
        /// What is due by `now` agrees with `reach`, and due times are monotonic in the schedule.
        #[test]
        fn due_and_reach_agree(
            changes in prop::collection::vec((1i64..50_000_000, prop_oneof![Just(0.0), Just(1.0), 0.01f64..50.0]), 0..12),
            asked in prop::collection::vec(0i64..1_000_000_000, 1..20),
        ) {
            let (mut last, mut warp) = (WarpPiece::first(false), Warp::new(WarpPiece::first(false), 16));
            for (after, speed) in changes {
                last = last.then(last.run + after, speed);
                warp.add(last);
            }
            let mut asked = asked;
            asked.sort_unstable();
            let mut before = 0;
            for t in asked {
                let due = warp.due(t);
                prop_assert!(due >= before);
                before = due;
                if due < NEVER {
                    // One picosecond for each rounding.
                    prop_assert!(warp.reach(due) >= t - 1, "{t} is due at {due}, and reach is {}", warp.reach(due));
                    prop_assert!(warp.reach(due - 2) <= t, "{t} is due at {due}, and before it {}", warp.reach(due - 2));
                }
            }
        }
    }
}
