//! The timer threads that find timed-out blocks (Trio §5): when each visits which part of the table.
//!
//! N threads have the period T of the timeout and start T/N apart, so that part k of the table is visited once in every period, at k·T/N.
//! The times of ticks do not depend on whether there is something to visit; without records there are no ticks, so a simulation can end.

use pktgen_core::time::{NEVER, Time};

/// The timer threads of one timeout.
#[derive(Debug, Clone)]
pub(crate) struct Scanner {
    period: Time,
    timers: Time,
    /// Number of the next tick; meaningless without records.
    next: i64,
    /// Number of records to visit.
    records: u32,
}

impl Scanner {
    /// Creates `timers` threads with this period, below 1000 s.
    pub fn new(period: Time, timers: u32) -> Self {
        Scanner { period, timers: Time::from(timers), next: 0, records: 0 }
    }

    /// Returns the timeout.
    pub fn period(&self) -> Time {
        self.period
    }

    /// Returns the time of a tick: part `tick % N` in period `tick / N`.
    fn at(&self, tick: i64) -> Time {
        tick / self.timers * self.period + tick % self.timers * self.period / self.timers
    }

    /// Returns the first tick after `t`. A tick at `t` is over: timers come before arrivals.
    fn after(&self, t: Time) -> i64 {
        let (periods, rest) = (t.div_euclid(self.period), t.rem_euclid(self.period));
        periods * self.timers + ((rest + 1) * self.timers + self.period - 1) / self.period
    }

    /// Records that a record was created at `t`.
    #[inline]
    pub fn created(&mut self, t: Time) {
        if self.records == 0 {
            self.next = self.after(t);
        }
        self.records += 1;
    }

    /// Records that a record was removed.
    #[inline]
    pub fn removed(&mut self) {
        self.records -= 1;
    }

    /// Returns when the next thread starts.
    #[inline]
    pub fn due(&self) -> Time {
        if self.records == 0 { NEVER } else { self.at(self.next) }
    }

    /// Starts the next thread; returns the part that it visits.
    pub fn tick(&mut self) -> u32 {
        let part = self.next % self.timers;
        self.next += 1;
        part as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nobody_is_woken_without_records() {
        let mut scanner = Scanner::new(100, 4);
        assert_eq!(scanner.due(), NEVER);
        scanner.created(50);
        assert_eq!((scanner.due(), scanner.tick()), (75, 3), "the tick at 50 has been");
        assert_eq!((scanner.due(), scanner.tick()), (100, 0));
        scanner.removed();
        assert_eq!(scanner.due(), NEVER);
        scanner.created(1024);
        assert_eq!((scanner.due(), scanner.tick()), (1025, 1));
    }

    proptest! {
        #[test]
        fn each_part_is_visited_once_in_every_period(period in 1i64..1000, timers in 1u32..50, from in 0i64..5000) {
            let mut scanner = Scanner::new(period, timers);
            scanner.created(from);
            let mut last = vec![None; timers as usize];
            let mut t = from;
            for _ in 0..4 * timers {
                let due = scanner.due();
                prop_assert!(due >= t && due > from && due <= t.max(from) + period);
                t = due;
                let part = scanner.tick();
                if let Some(before) = last[part as usize].replace(due) {
                    prop_assert_eq!(due - before, period);
                }
                prop_assert_eq!(due.rem_euclid(period), Time::from(part) * period / Time::from(timers));
            }
            prop_assert!(last.iter().all(Option::is_some));
        }
    }
}
