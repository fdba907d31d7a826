//! Results that the switch's CPU stores until every worker has acknowledged them (LIBRA §3.6: "switches also forward
//! one copy to its local CPUs").
//!
//! A result without an ACK is sent again, individually to each worker that lacks it, after a timeout that doubles up to
//! 16 times its initial value, at most 15 times (our choice: the paper gives no numbers).

use std::collections::VecDeque;

use crate::format::{FRESH_SHIFT, RESULT_PAIRS};
use pktgen_core::record::PacketId;
use pktgen_core::time::{NEVER, Time};

use super::line::insert;
use super::ranks::Ranks;

/// Maximum number of times that a result is sent again.
pub(super) const RESENDS: u8 = 15;
/// Maximum number of results that are taken over: those of four iterations.
const SPAN_MAX: u32 = 1 << 18;
/// Number of times that the timeout doubles.
const DOUBLINGS: u8 = 4;

/// One packet with results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kept {
    /// The id of its sum; `None` if no packet was added.
    pub(super) opener: Option<PacketId>,
    /// Part number and number of parts of the iteration's results.
    pub(super) part: (u16, u16),
    pub(super) iteration: u32,
    /// The workers that have not acknowledged it.
    pub(super) missing: Ranks,
    /// How often it was sent again.
    pub(super) attempt: u8,
    /// When it is sent again.
    pub(super) due: Time,
    pairs: [(u32, f32); RESULT_PAIRS],
    len: u8,
}

impl Kept {
    /// Creates a packet with these pairs, at most as many as fit.
    pub(super) fn new(
        opener: Option<PacketId>,
        (part, iteration): ((u16, u16), u32),
        missing: Ranks,
        due: Time,
        pairs: &[(u32, f32)],
    ) -> Self {
        let mut kept =
            Kept { opener, part, iteration, missing, attempt: 0, due, pairs: [(0, 0.0); RESULT_PAIRS], len: 0 };
        for (room, pair) in kept.pairs.iter_mut().zip(pairs) {
            *room = *pair;
            kept.len += 1;
        }
        kept
    }

    /// Returns its pairs.
    pub(super) fn pairs(&self) -> &[(u32, f32)] {
        &self.pairs[..usize::from(self.len)]
    }
}

/// The results of one job, numbered over all iterations.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Results {
    /// Results from number `first` on, some of which no worker lacks any more.
    kept: VecDeque<Kept>,
    first: u32,
}

impl Results {
    /// Returns the number of the next result.
    pub(super) fn next(&self) -> u32 {
        self.first.wrapping_add(self.kept.len() as u32)
    }

    /// Stores the next result; returns its number.
    pub(super) fn keep(&mut self, kept: Kept) -> u32 {
        self.kept.push_back(kept);
        self.next().wrapping_sub(1)
    }

    /// Returns the result with this number while a worker lacks it.
    pub(super) fn get(&mut self, number: u32) -> Option<&mut Kept> {
        let at = number.wrapping_sub(self.first) as usize;
        self.kept.get_mut(at).filter(|kept| !kept.missing.is_empty())
    }

    /// Records that a worker has a result.
    pub(super) fn acknowledged(&mut self, rank: u32, number: u32) {
        if let Some(kept) = self.get(number) {
            kept.missing.remove(rank);
            self.trim();
        }
    }

    /// Records that a worker has all results: it could not have ended its next iteration otherwise.
    pub(super) fn has_all(&mut self, rank: u32) {
        self.kept.iter_mut().for_each(|kept| _ = kept.missing.remove(rank));
        self.trim();
    }

    /// Removes results that no worker lacks.
    pub(super) fn trim(&mut self) {
        while self.kept.pop_front_if(|kept| kept.missing.is_empty()).is_some() {
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Returns all results that a worker lacks, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Kept)> {
        let numbers = (0u32..).map(|at| self.first.wrapping_add(at));
        numbers.zip(&self.kept).filter(|(_, kept)| !kept.missing.is_empty())
    }

    /// Returns the openers of the stored sums, and whether one of `workers` is known to have all of each.
    pub(super) fn sums(&self, workers: u32) -> Vec<(PacketId, bool)> {
        let mut sums: Vec<(u32, PacketId, Ranks)> = Vec::new();
        for (number, kept) in self.iter() {
            let first = number.wrapping_sub(kept.part.0.into());
            let Some(opener) = kept.opener else { continue };
            match sums.last_mut().filter(|(last, ..)| *last == first) {
                Some((.., missing)) => missing.add(&kept.missing),
                None => sums.push((first, opener, kept.missing)),
            }
        }
        sums.into_iter().map(|(_, opener, missing)| (opener, missing.len() < workers)).collect()
    }

    /// Takes over the range of numbers stored by another switch, which must be known before the results; repeating this
    /// changes nothing. Returns false if other results are stored here.
    pub(super) fn span(&mut self, first: u32, next: u32) -> bool {
        let count = next.wrapping_sub(first);
        if self.next() == next && (self.first == first || self.kept.is_empty()) {
            return true;
        }
        let fits = self.kept.is_empty() && count <= SPAN_MAX;
        if fits {
            self.first = first;
            self.kept.resize(count as usize, Kept::new(None, ((0, 0), 0), Ranks::default(), 0, &[]));
        }
        fits
    }

    /// Takes over a result of another switch; returns false if its number is outside the range.
    pub(super) fn restore(&mut self, number: u32, kept: Kept) -> bool {
        let place = self.kept.get_mut(number.wrapping_sub(self.first) as usize);
        place.map(|place| *place = kept).is_some()
    }
}

/// Returns the first result number of a switch that restarts in this session, at most [`SESSION_MAX`](crate::format::SESSION_MAX); the number before is for workers that are behind.
pub(super) fn fresh_number(session: u32) -> u32 {
    (session << FRESH_SHIFT) + 1
}

/// Returns the wait after a result was sent for the `attempt`-th time again.
pub(super) fn delay(timeout: Time, attempt: u8) -> Time {
    timeout.saturating_mul(1 << attempt.min(DOUBLINGS))
}

/// Deadlines of results by job.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// One queue for each number of doublings, so that each is in chronological order.
    levels: [VecDeque<(Time, u16, u32)>; DOUBLINGS as usize + 1],
}

impl Timers {
    /// Adds a deadline `t` of a result of `job`. Equal times are in the order of jobs and numbers, also after moving.
    pub(super) fn push(&mut self, t: Time, job: u16, number: u32, attempt: u8) {
        insert(&mut self.levels[usize::from(attempt.min(DOUBLINGS))], (t, job, number), |timer| *timer);
    }

    /// Returns the next deadline.
    #[inline]
    pub(super) fn next(&self) -> Time {
        self.levels.iter().filter_map(VecDeque::front).map(|(t, ..)| *t).min().unwrap_or(NEVER)
    }

    /// Returns the next result that is due by `t`.
    pub(super) fn pop(&mut self, t: Time) -> Option<(u16, u32)> {
        let next = self.next();
        let level = self.levels.iter_mut().find(|level| level.front().is_some_and(|(at, ..)| *at == next))?;
        level.pop_front_if(|(at, ..)| *at <= t).map(|(_, job, number)| (job, number))
    }

    /// Removes the first entries as long as no worker lacks their results.
    pub(super) fn trim(&mut self, mut missed: impl FnMut(u16, u32) -> bool) {
        for level in &mut self.levels {
            while level.pop_front_if(|(_, job, number)| !missed(*job, *number)).is_some() {}
        }
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        self.levels.iter_mut().for_each(VecDeque::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Numbers, SESSION_MAX};
    use pktgen_core::record::Heat;

    #[test]
    fn results_are_kept_until_everybody_has_them() {
        let (mut results, opener) = (Results::default(), PacketId(7));
        for i in 0..3u8 {
            let kept =
                Kept::new(Some(opener), ((i.into(), 3), 0), Ranks::first(2), i64::from(i), &[(u32::from(i), 1.0)]);
            assert_eq!(results.keep(kept), u32::from(i));
        }
        results.acknowledged(0, 1);
        results.acknowledged(1, 1);
        results.acknowledged(1, 7);
        assert!(results.iter().map(|(number, _)| number).eq([0, 2]));
        assert!(results.get(1).is_none());
        let sums = results.sums(2);
        results.has_all(0);
        assert_eq!((sums, results.sums(2)), (vec![(opener, false)], vec![(opener, true)]));
        assert_eq!(results.get(0).map(|kept| (kept.missing.len(), kept.pairs().len())), Some((1, 1)));
        results.has_all(1);
        assert_eq!((results.iter().count(), results.next(), results.kept.len()), (0, 3, 0));
    }

    #[test]
    fn every_session_has_numbers_that_packets_contain() {
        let numbers = Numbers::default();
        for session in 1..=SESSION_MAX {
            let first = fresh_number(session);
            for number in [first - 1, first, first - 2 + (1 << FRESH_SHIFT)] {
                assert_eq!(number >> FRESH_SHIFT, session);
                assert_eq!(numbers.split(numbers.seq(0, number, Heat::Hot)), (0, number), "{session}");
            }
        }
        assert_ne!(
            numbers.split(numbers.seq(0, fresh_number(SESSION_MAX + 1), Heat::Hot)).1,
            fresh_number(SESSION_MAX + 1)
        );
    }

    #[test]
    fn timers_go_off_in_the_order_of_time() {
        let mut timers = Timers::default();
        for (t, number, attempt) in [(5, 0, 0), (5, 1, 0), (3, 2, 1), (9, 3, 200), (4, 4, 0)] {
            timers.push(t, 0, number, attempt);
        }
        timers.trim(|_, number| number != 2);
        assert_eq!((timers.next(), timers.pop(3)), (4, None));
        let all: Vec<_> = std::iter::from_fn(|| timers.pop(9)).map(|(_, number)| number).collect();
        assert_eq!(all, [4, 0, 1, 3]);
        assert_eq!(timers.next(), NEVER);
        assert_eq!([0, 1, 4, 15].map(|attempt| delay(10, attempt)), [10, 20, 160, 160]);
    }
}
