//! Available hardware: switches, how many of these aggregate, their ports, layers, and links.

use pktgen_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// A reconfigurable cluster (ATRO §III-A): every switch and host is linked to an optical device that joins any two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cluster {
    /// Number of switches, including those that aggregate.
    pub switches: u64,
    /// Number of switches that aggregate.
    pub aggregators: u64,
    /// Number of ports of each switch (η of equation 7); a host has one.
    pub ports: u64,
    /// Number of layers, L of equation 18.
    pub layers: u64,
    /// Line rate of every link, both directions together (equation 14).
    pub capacity_bps: u64,
}

/// More switches or ports than this are an input error and would exhaust memory.
pub(crate) const SIZE_MAX: u64 = 1_000_000;

/// Refuses a number outside its range.
pub(super) fn within(name: &str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let direction = if value < least { "more" } else { "fewer" };
    Err(Error::config(format!("{name}: {value} is not from {least} to {most}; give {direction}")))
}

impl Cluster {
    /// Refuses an impossible cluster, with the setting to change.
    pub fn check(&self) -> Result<()> {
        within("switches", self.switches, 1, SIZE_MAX)?;
        within("ports", self.ports, 2, SIZE_MAX)?;
        within("layers", self.layers, 1, SIZE_MAX)?;
        within("capacity in bit/s", self.capacity_bps, 1, u64::MAX)?;
        if self.aggregators > self.switches {
            return Err(Error::config(format!(
                "aggregators: {} is not from 0 to {}, the number of switches; give fewer aggregators or more switches",
                self.aggregators, self.switches
            )));
        }
        Ok(())
    }

    /// Returns the number of switches that only forward.
    pub(crate) fn commons(&self) -> u64 {
        self.switches - self.aggregators.min(self.switches)
    }

    /// Returns the number of switches of a full tree with this many layers: 1 + q + q² + …, with q = ports − 1.
    pub fn tree(&self, layers: u64) -> u64 {
        let q = self.ports.saturating_sub(1);
        let (mut sum, mut level) = (0u64, 1u64);
        for _ in 0..layers.min(SIZE_MAX) {
            sum = sum.saturating_add(level);
            level = level.saturating_mul(q);
            if sum > 2 * SIZE_MAX {
                break;
            }
        }
        sum
    }
}
