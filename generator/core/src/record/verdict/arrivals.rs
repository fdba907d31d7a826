//! What the incidents of a run say of missing counters and rows, after a process was killed.

use super::{Balance, Fault, Incidents, Note};

impl Incidents {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty() && self.notes.is_empty()
    }

    /// Returns the number of sums of which is not known whether they are wrong, since rows of a killed part are missing.
    pub fn unproven_sums(&self) -> Option<u64> {
        self.notes.iter().find_map(|note| if let Note::Unproven { packets } = note { Some(*packets) } else { None })
    }

    /// Returns whether counters of arrivals are missing: a process was killed, and not only ones that send, or one that receives never began.
    pub(super) fn lacks_counters(&self) -> bool {
        self.receiver_absent || (!self.only_senders_killed && self.faults.iter().any(Fault::is_kill))
    }

    /// Returns whether nothing is known of arrivals: their counters are missing, and no row of them is left. What did not arrive has no
    /// number then.
    pub fn lacks_arrivals(&self, balance: &Balance) -> bool {
        self.lacks_counters() && balance.delivered_alone + balance.delivered_merged == 0
    }
}
