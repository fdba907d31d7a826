//! What the incidents of a run say of missing counters and rows, after a process was killed, and what its facts say of the members of packets.

use super::{Balance, Facts, Family, Fault, Incidents, Note};
use crate::record::lanes::Detail;

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

impl Facts {
    /// Returns whether packets may hold several updates without identifying them.
    pub fn hides_members(&self) -> bool {
        self.unseen.as_ref().is_some_and(|unseen| unseen.merges) && self.incidents.notes.contains(&Note::Headless {})
    }

    /// Returns whether lanes would name the members of sums that were not checked. Sums of integers are recomputed without lanes: of those of
    /// some workers of a job, every choice is tried unless there are too many.
    pub(super) fn would_lanes_prove(&self) -> bool {
        self.family != Some(Family::Results) && self.lanes.is_none_or(|lanes| lanes.detail != Detail::Which)
    }
}
