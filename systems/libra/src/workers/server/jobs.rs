//! The pushes of a job's workers, by iteration.

use std::collections::VecDeque;

use super::sums::Sums;

/// An iteration that not all workers have ended.
#[derive(Debug, Default)]
struct Open {
    sums: Sums,
    /// Number of workers that ended it.
    ends: u32,
    pushed: Pushed,
}

/// The pushes that results answer: the pairs of all pushes one after another, and the worker, number and length of
/// each, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    pub(super) pairs: Vec<u8>,
    pub(super) pushes: Vec<(u32, u32, u32)>,
}

/// A job.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) workers: u32,
    /// The first iteration that not all workers have ended.
    first: u32,
    /// This iteration and those after it: a worker without cold pushes in an iteration need not wait for the server,
    /// and may be in the next one before others have ended this one.
    open: VecDeque<Open>,
    spare: Vec<Open>,
}

impl Job {
    fn open(&mut self, iteration: u32) -> &mut Open {
        let at = iteration.saturating_sub(self.first) as usize;
        while self.open.len() <= at {
            self.open.push_back(self.spare.pop().unwrap_or_default());
        }
        &mut self.open[at]
    }

    /// Adds the pairs of a push of a worker in `iteration`, which will be answered.
    #[inline]
    pub(super) fn push(&mut self, iteration: u32, worker: u32, number: u32, pairs: &[u8]) {
        let open = self.open(iteration);
        open.sums.add(pairs);
        open.pushed.pairs.extend_from_slice(pairs);
        open.pushed.pushes.push((worker, number, pairs.len() as u32));
    }

    /// Adds the pairs of a push that will not be answered, since workers pull.
    #[inline]
    pub(super) fn keep(&mut self, pairs: &[u8]) {
        self.open(0).sums.add(pairs);
    }

    /// Replaces these values by the current sums.
    #[inline]
    pub(super) fn read(&mut self, pairs: &mut [u8]) {
        self.open(0).sums.fill(pairs);
    }

    /// Records that a worker ended `iteration`.
    pub(super) fn end(&mut self, iteration: u32) {
        self.open(iteration).ends += 1;
    }

    /// Returns the pushes of the first open iteration if all workers have ended it, with the sums as values; the sums are forgotten.
    pub(super) fn close(&mut self) -> Option<Pushed> {
        if self.open.front().is_none_or(|open| open.ends < self.workers) {
            return None;
        }
        let mut open = self.open.pop_front()?;
        self.first += 1;
        open.sums.fill(&mut open.pushed.pairs);
        open.sums.clear();
        open.ends = 0;
        let pushed = std::mem::take(&mut open.pushed);
        self.spare.push(open);
        Some(pushed)
    }

    /// Reuses the memory of the result of [`close`](Self::close).
    pub(super) fn reuse(&mut self, mut pushed: Pushed) {
        if let Some(open) = self.spare.last_mut() {
            pushed.pairs.clear();
            pushed.pushes.clear();
            open.pushed = pushed;
        }
    }
}
