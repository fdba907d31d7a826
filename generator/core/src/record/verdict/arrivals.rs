//! What is known of arrivals from a device without books, after a process was killed.

use super::{Balance, Fault, Unseen};

impl Unseen {
    /// Returns whether counters of arrivals are missing: a process was killed, and not only ones that send.
    pub(super) fn lacks_counters(&self, faults: &[Fault]) -> bool {
        !self.only_senders_killed && faults.iter().any(Fault::is_kill)
    }

    /// Returns whether nothing is known of arrivals: their counters are missing, and no row of them is left. What did not arrive has no
    /// number then.
    pub fn lacks_arrivals(&self, faults: &[Fault], balance: &Balance) -> bool {
        self.lacks_counters(faults) && balance.delivered_alone + balance.delivered_merged == 0
    }
}
