//! Capacity of an inventory at a fixed rate: ports and flows as integers (ATRO equations 7 and 14).

use super::inventory::Inventory;

/// Ports and flows if every worker sends at one rate.
#[derive(Debug, Clone, Copy)]
pub struct Capacities<'a> {
    /// Available ports and rates.
    pub inventory: &'a Inventory,
    /// The rate of each worker, above 0.
    pub rate_bps: u64,
}

impl<'a> Capacities<'a> {
    /// Creates the capacities of an inventory at a rate.
    pub fn new(inventory: &'a Inventory, rate_bps: u64) -> Self {
        Capacities { inventory, rate_bps: rate_bps.max(1) }
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> usize {
        self.inventory.switches.len()
    }

    /// Returns the number of aggregating switches, which are the first ones.
    pub fn aggregators(&self) -> usize {
        self.inventory.switches.iter().filter(|switch| switch.aggregates).count()
    }

    /// Returns the number of ports of a switch; 0 if it is slower than the rate.
    pub fn ports(&self, switch: usize) -> u64 {
        let switch = &self.inventory.switches[switch];
        if switch.rate_bps < self.rate_bps { 0 } else { switch.ports }
    }

    /// Returns the maximum number of flows on the link of two switches, or of a switch and the server, both directions together: ⌊b/r⌋.
    pub fn flows(&self, a: usize, b: usize) -> u64 {
        self.inventory.link_bps(a, b) / self.rate_bps
    }

    /// Whether all hosts can send at the rate.
    pub(super) fn hosts_are_fast_enough(&self) -> bool {
        self.inventory.slowest_host_bps() >= self.rate_bps
    }
}
