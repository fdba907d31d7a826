//! Load of a device without books: offered and arrived, counted at the host's ends of its cables.

use serde::{Deserialize, Serialize};

use super::counter::is_zero;
use crate::time::{MS, SECOND, Time};

/// Bits on a cable during a period. The period runs from the first frame to the last, so the bits of the first are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedBits {
    /// Bits of frames, from the Ethernet header on.
    pub bits: u64,
    /// The period in ps.
    pub ps: i64,
}

/// Longest absence of a thread from its socket, by which the first frame may appear too late.
const AWAY: Time = 10 * MS;
/// Tolerance for clocks and link rates, as a divisor.
const TOLERANCE: u64 = 20;

impl CarriedBits {
    /// Returns the mean rate; 0 without a period.
    pub fn bps(&self) -> u64 {
        if self.ps > 0 { (u128::from(self.bits) * SECOND as u128 / self.ps as u128) as u64 } else { 0 }
    }

    /// Returns whether a link of `bps` cannot have carried this; tolerates 5 % and 10 ms.
    pub fn exceeds(&self, bps: u64) -> bool {
        let time = u128::from((self.ps.max(0) + AWAY) as u64);
        let most = u128::from(bps) + u128::from(bps / TOLERANCE);
        u128::from(self.bits) * SECOND as u128 > most * time
    }
}

/// Load of the link that a topology declares towards the server: offered and arrived.
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

/// Acknowledgements of the server at the workers' interface, or in lockstep at the device's ports to the workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckCopies {
    /// Acknowledgements that the server sent, or in lockstep those that reached the device.
    pub acks: u64,
    /// Expected copies: workers addressed, summed over acknowledgements.
    pub expected: u64,
    /// Copies seen: one worker per acknowledgement, or all of the group that it was addressed to.
    pub seen: u64,
    /// Acknowledgements whose Ethernet address does not match their IP address.
    #[serde(default)]
    pub elsewhere: u64,
    /// Whether an acknowledgement is for all workers of its cluster.
    pub group: bool,
    /// In lockstep: copies at workers that had this acknowledgement.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub again: u64,
    /// In lockstep: acknowledgements of which no copy left, unless ports to the same cluster lack different ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Expected copies of these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_copies: u64,
    /// Whether all of this was counted at the device's ports, as in lockstep.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_device: bool,
}

/// Returns the copies of acknowledgements for messages: those expected, seen, and seen with the address of another.
pub(super) fn copies_told([expected, seen, elsewhere]: [u64; 3], group: bool) -> String {
    let of_all = if group { " (each is for all workers of its cluster)" } else { "" };
    match (seen, elsewhere) {
        (0, 0) => "and none came to a worker that it is for".to_owned(),
        (_, 0) => format!("workers should have had {expected} copies and had {seen}{of_all}"),
        _ => format!(
            "workers should have had {expected} copies and had {seen}{of_all}; {elsewhere} came with the Ethernet address of another"
        ),
    }
}

/// Formats a rate for messages.
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
