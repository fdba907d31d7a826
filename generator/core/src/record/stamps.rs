//! Stamps of packets by a clock other than the run's: what the kernel or a card noted, and how its clock stands to the run's.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The column of `stamps` that says when a packet arrived, as the manifest's `clocks` and `stamp_clocks` name it.
pub const STAMPS_RECEIVED: &str = "stamps.received_ns";

/// The column of `stamps` that says when a frame left.
pub const STAMPS_SENT: &str = "stamps.sent_ns";

/// How a clock of stamps stood to the run's clock, before the run and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampClock {
    /// What it showed at time 0 of the run, in ns, by the reading before and by the one after.
    pub zero_ns: [i64; 2],
    /// Both were read within so many ns.
    pub error_ns: u64,
}

impl StampClock {
    /// What it showed at time 0, halfway between the readings, and how far that may be off: half of what lies between them, and
    /// what the worse of them may be off. Between the readings a clock that keeps its direction is nowhere else.
    pub fn zero(&self) -> (i64, u64) {
        let [before, after] = self.zero_ns;
        let half = (i128::from(after) - i128::from(before)) / 2;
        let middle = (i128::from(before) + half).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        let apart = after.abs_diff(before);
        (middle, (apart - apart / 2).saturating_add(self.error_ns))
    }

    /// The same for a run whose time 0 is `later`.
    pub fn shifted(&self, later: Time) -> Self {
        let ns = later / crate::time::NS;
        StampClock { zero_ns: self.zero_ns.map(|zero| zero.saturating_add(ns)), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Both readings, as far as they may be off, are within the reported error.
        #[test]
        fn the_middle_is_as_far_off_as_it_says(before: i64, more in -1_000_000_000i64..1_000_000_000, error_ns in 0u64..1_000_000) {
            let after = before.saturating_add(more);
            let (zero, within) = StampClock { zero_ns: [before, after], error_ns }.zero();
            for reading in [before, after] {
                prop_assert!(i128::from(zero.abs_diff(reading)) + i128::from(error_ns) <= i128::from(within));
            }
            prop_assert!(within <= more.unsigned_abs() / 2 + 1 + error_ns);
        }
    }

    #[test]
    fn a_run_that_counts_from_later_finds_the_clock_further_on() {
        let clock = StampClock { zero_ns: [100, 104], error_ns: 7 };
        assert_eq!(clock.zero(), (102, 9));
        assert_eq!(clock.shifted(50_000).zero(), (152, 9));
        assert_eq!(clock.shifted(-50_999).zero(), (52, 9));
    }
}
