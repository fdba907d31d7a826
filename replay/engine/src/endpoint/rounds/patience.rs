//! Detects whether a device waits for late workers despite its declared timeout (Trio §5).
//!
//! Used by [`super`] for devices without books. Between the times at which two workers of a job are ready to send, nothing may update the
//! blocks that the first has sent: if this is longer than a timeout and its tick, they must expire with degraded results.

use std::collections::BTreeMap;

use pktgen_core::record::{Counter, Iteration, WAITS_FOR_ALL};
use pktgen_core::time::{NS, Time};

/// State of an iteration that not all workers of its job have ended.
#[derive(Debug, Default)]
struct Open {
    ready: Vec<Time>,
    degraded: bool,
}

/// Waiting times of iterations without degraded results.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Workers of a job.
    workers: usize,
    open: BTreeMap<(u16, u32), Open>,
    /// The two longest waits: one may be due to a host that stopped.
    longest: [Time; 2],
    /// Whether some result lacked sources: the device does not wait for all.
    ages: bool,
}

impl Patience {
    pub(super) fn new(workers: u32) -> Self {
        Patience { workers: workers as usize, ..Patience::default() }
    }

    /// Handles the end of a worker's iteration.
    pub(super) fn ended(&mut self, row: &Iteration) {
        self.ages |= row.degraded > 0;
        let key = (row.job, row.iteration);
        let open = self.open.entry(key).or_default();
        open.ready.push(row.t_ready);
        open.degraded |= row.degraded > 0;
        if open.ready.len() < self.workers {
            return;
        }
        let Some(Open { mut ready, degraded }) = self.open.remove(&key) else { return };
        ready.sort_unstable();
        let gap = ready.windows(2).map(|two| two[1] - two[0]).max().filter(|_| !degraded).unwrap_or(0);
        let [first, second] = self.longest;
        self.longest = if gap > first { [gap, first] } else { [first, second.max(gap)] };
    }

    /// Returns the second-longest wait, if the device never continued without a worker.
    pub(super) fn counter(&self) -> Option<Counter> {
        let waited = self.longest[1];
        (!self.ages && waited > 0).then(|| Counter::largest(WAITS_FOR_ALL, (waited / NS) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(iteration: u32, t_ready: Time, degraded: u32) -> Iteration {
        Iteration {
            t_start: 0,
            t_ready,
            t_end: t_ready,
            delay: 0,
            worker: 0,
            job: 0,
            iteration,
            sent: 1,
            skipped: 0,
            degraded,
            sources: 1,
            elements: 1,
            missed: false,
        }
    }

    fn counted(rows: &[Iteration]) -> Option<u64> {
        let mut patience = Patience::new(3);
        rows.iter().for_each(|own| patience.ended(own));
        patience.counter().map(|counter| counter.value)
    }

    #[test]
    fn the_second_longest_gap_counts_unless_anything_aged() {
        let ns = |t: Time| t * NS;
        let waits = |iteration, late| [ns(0), ns(5), ns(late)].map(|t| row(iteration, t, 0)).to_vec();
        assert_eq!(counted(&waits(0, 105)), None, "one may be the host's");
        let two = [waits(0, 105), waits(2, 35), waits(1, 65)].concat();
        assert_eq!(counted(&two), Some(60), "of gaps of 100, 60 and 30 ns");
        let aged = [&two[..], &[row(3, 0, 0), row(3, 0, 1), row(3, ns(500), 0)]].concat();
        assert_eq!(counted(&aged), None);
        assert_eq!(counted(&two[..8]), Some(30), "an iteration that not all have ended says nothing");
    }
}
