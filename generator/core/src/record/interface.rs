//! Counters of a network interface during a run, in addition to the run's own counts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Counts of an interface between the beginning and the end of a run, over all its users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounts {
    /// The part of a merged run that read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Role and side: `workers`, `device.down`, `device.up`, `server`.
    pub end: String,
    /// Name of the interface.
    pub interface: String,
    /// Frames that the run handed over, by its own count; none if it has no such count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Frames that the run received there, by its own count.
    #[serde(default)]
    pub received: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped on the way out.
    pub tx_dropped: u64,
    /// Errors on the way out.
    pub tx_errors: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets dropped on the way in.
    pub rx_dropped: u64,
    /// Errors on the way in.
    pub rx_errors: u64,
    /// Changes of the carrier state.
    pub carrier_changes: u64,
    /// Operational state at the end: `up`, `down`, `lowerlayerdown`, ...; empty if unknown.
    pub state: String,
    /// MTU at the end, without the Ethernet header; 0 if unknown.
    pub mtu: u32,
}

impl InterfaceCounts {
    /// Returns the end, with the part that read it if its name is no part of it, as of a rank: `rank-1.workers`.
    pub fn place(&self) -> String {
        match &self.part {
            Some(part) if !self.end.starts_with(part) => format!("{part}.{}", self.end),
            _ => self.end.clone(),
        }
    }

    /// Returns whether it dropped more than 1 % of the frames that the run handed over, so that the run's count misleads.
    pub fn contradicts(&self) -> bool {
        let sent = self.sent.unwrap_or(0);
        let missing = sent.saturating_sub(self.tx_packets);
        missing > sent / 100 && self.tx_dropped + self.tx_errors > 0
    }

    /// Returns the run's frames that were transmitted: others use the interface, too, and the kernel may have dropped some.
    pub fn sent_of_run(&self) -> u64 {
        self.sent.map_or(self.tx_packets, |sent| sent.min(self.tx_packets))
    }

    /// Returns the frames that arrived, of any kind.
    pub fn came(&self) -> u64 {
        self.rx_packets.max(self.received)
    }
}

impl fmt::Display for InterfaceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InterfaceCounts { interface, tx_packets, tx_dropped, tx_errors, carrier_changes, state, mtu, .. } = self;
        write!(
            f,
            "{interface} counted {tx_packets} packets sent, {tx_dropped} dropped, {tx_errors} errors; state {state}, \
             {carrier_changes} carrier changes, MTU {mtu}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_ranks_have_their_rank() {
        let place = |part: Option<&str>, end: &str| {
            InterfaceCounts { part: part.map(str::to_owned), end: end.to_owned(), ..InterfaceCounts::default() }.place()
        };
        assert_eq!([place(None, "workers"), place(Some("rank-1"), "workers")], ["workers", "rank-1.workers"]);
        assert_eq!(place(Some("device"), "device.up"), "device.up");
    }
}
