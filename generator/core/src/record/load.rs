//! What a device without books was offered, and what came of it: counted at the host's ends of its cables.

use serde::{Deserialize, Serialize};

use crate::time::{MS, SECOND, Time};

/// Bits on a cable in a time. The time is that from the first frame to the last, so the bits are those of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedBits {
    /// Bits of frames, from the Ethernet header on.
    pub bits: u64,
    /// The time in ps.
    pub ps: i64,
}

/// Longest time that a thread was away from its socket, and so the first frame seems later than it was.
const AWAY: Time = 10 * MS;
/// By how much clocks and rates of links differ, as a divisor.
const TOLERANCE: u64 = 20;

impl CarriedBits {
    /// Mean rate; 0 where it has none.
    pub fn bps(&self) -> u64 {
        if self.ps > 0 { (u128::from(self.bits) * SECOND as u128 / self.ps as u128) as u64 } else { 0 }
    }

    /// Returns whether a link of `bps` could not have carried this: 5 % and 10 ms are allowed for.
    pub fn exceeds(&self, bps: u64) -> bool {
        let time = u128::from((self.ps.max(0) + AWAY) as u64);
        let most = u128::from(bps) + u128::from(bps / TOLERANCE);
        u128::from(self.bits) * SECOND as u128 > most * time
    }
}

/// What was offered to the link that a topology declares towards the server, and what arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceLoad {
    /// Rate of the link.
    pub link_bps: u64,
    /// What workers sent.
    pub offered: CarriedBits,
    /// What the server received.
    pub arrived: CarriedBits,
    /// Whether the device is declared to merge updates of several workers that wait together.
    pub merges: bool,
}

/// Acknowledgements of the server at the workers' interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckCopies {
    /// Acknowledgements that the server sent.
    pub acks: u64,
    /// Workers that they are for, each acknowledgement apart.
    pub expected: u64,
    /// Workers that they came to: one, or all of a group that they were addressed to.
    pub seen: u64,
    /// Acknowledgements whose Ethernet address is not that of their IP address.
    #[serde(default)]
    pub elsewhere: u64,
    /// Whether an acknowledgement is for all workers of its cluster.
    pub group: bool,
}

/// A rate for sentences.
pub(super) fn mbps(bps: u64) -> String {
    format!("{:.3} Mbit/s", bps as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_its_rate_and_what_came_late_to_be_seen() {
        let rate = 20_000_000;
        let carried = |mbit: f64, ms: i64| CarriedBits { bits: (mbit * 1e6) as u64, ps: ms * MS };
        assert_eq!(carried(2.0, 100).bps(), rate);
        assert_eq!(CarriedBits::default().bps(), 0);
        for (bits, exceeds) in [
            (carried(2.0, 100), false),
            (carried(2.3, 100), false),
            (carried(2.4, 100), true),
            (carried(20.9, 1000), false),
            (carried(21.3, 1000), true),
            (carried(0.1, 0), false),
            (CarriedBits::default(), false),
        ] {
            assert_eq!(bits.exceeds(rate), exceeds, "{bits:?}");
        }
    }
}
