//! Stamps of packets by the clock of the kernel or of a card, and the offset of that clock from the run's.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The column of arrival times in `stamps`, as named by `clocks` and `stamp_clocks` of the manifest.
pub const STAMPS_RECEIVED: &str = "stamps.received_ns";

/// The column of departure times in `stamps`.
pub const STAMPS_SENT: &str = "stamps.sent_ns";

/// Offset of a stamp clock from the run's clock, before and after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampClock {
    /// Its reading at time 0 of the run, in ns, as derived before the run and after it.
    pub zero_ns: [i64; 2],
    /// Maximum error of either reading, in ns.
    pub error_ns: u64,
}

impl StampClock {
    /// Returns its reading at time 0, halfway between both values, and the maximum error: half of their difference plus
    /// `error_ns`. A clock that drifts in one direction lies between the two.
    pub fn zero(&self) -> (i64, u64) {
        let [before, after] = self.zero_ns;
        let half = (i128::from(after) - i128::from(before)) / 2;
        let middle = (i128::from(before) + half).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        let apart = after.abs_diff(before);
        (middle, (apart - apart / 2).saturating_add(self.error_ns))
    }

    /// Returns the offset for a run whose time 0 is `later`.
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
        /// Both readings, including their errors, are within the reported error.
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
