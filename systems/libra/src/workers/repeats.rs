//! What was sent again between workers and a switch without a ledger, as far as no row shows it.

use pktgen_core::record::{Counter, REQUESTS_RESENT, RESULTS_AGAIN, RESULTS_LATE};

use super::worker::ResultArrival;

/// Numbers of repeated packets. Those of pushes are in the balance.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Ends and pulls that workers sent again.
    pub(super) requests: u64,
    /// Results that a worker first had in a further attempt.
    late: u64,
    /// Further attempts of results that a worker had.
    again: u64,
}

impl Repeats {
    /// Adds the arrival of a result at a worker.
    pub(super) fn add(&mut self, arrival: ResultArrival) {
        self.late += u64::from(arrival.late);
        self.again += u64::from(arrival.further);
    }

    /// Returns those that are not 0.
    pub(super) fn counters(&self) -> impl Iterator<Item = Counter> {
        let all = [(REQUESTS_RESENT, self.requests), (RESULTS_LATE, self.late), (RESULTS_AGAIN, self.again)];
        all.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| Counter::sum(name, count))
    }
}
