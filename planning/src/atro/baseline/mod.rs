//! Schemes on a fixed network for comparison with ATRO (ATRO §IV-A), in our interpretation (docs/atro.md). To add one:
//! a new file here, its `mod` line and its entry in [`BASELINES`].

mod aro;
mod network;
mod paring;
mod spar;
#[cfg(test)]
mod tests;

use pktgen_core::registry::Named;
use pktgen_core::seed::{Seed, Stream};
use pktgen_core::{Error, Result};

use network::{Hosts, draw_hosts};
pub use network::{Network, Topology};

/// The input of a scheme.
#[derive(Debug, Clone)]
pub struct BaselineCase {
    /// The network.
    pub network: Network,
    /// Number of workers; the server is one more host.
    pub workers: u64,
    /// Number of switches that aggregate.
    pub aggregators: u64,
    /// Line rate of every link.
    pub capacity_bps: u64,
}

/// One scheme.
pub trait Baseline: Named + Sync {
    /// Returns the number of flows on the busiest link, both directions together.
    fn busiest(&self, case: &BaselineCase, seed: Seed) -> u64;

    /// Returns the rate with this number of flows.
    fn rate_bps(&self, capacity_bps: u64, busiest: u64) -> u64 {
        capacity_bps / busiest
    }
}

/// Every scheme, by name.
pub static BASELINES: &[&dyn Baseline] = &[&aro::Aro, &paring::Paring, &spar::Spar];

impl BaselineCase {
    /// Refuses a case that does not fit the network.
    pub fn check(&self) -> Result<()> {
        let (hosts, switches) = (self.network.hosts() as u64, self.network.switches() as u64);
        let range = |name: &str, value: u64, least: u64, most: u64, what: &str| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(Error::config(format!("{name}: {value} is not from {least} to {most}, {what}; give another number")))
        };
        range("workers", self.workers, 1, hosts - 1, "the hosts of the network less one for the server")?;
        range("aggregators", self.aggregators, 0, switches, "the switches of the network")?;
        range("capacity in bit/s", self.capacity_bps, 1, u64::MAX, "what a link can carry")
    }

    /// Selects hosts for workers and server at random (ATRO §IV-A, ARO and SPAR).
    fn hosts(&self, stream: &mut Stream) -> Hosts {
        draw_hosts(&self.network, self.workers as usize, stream)
    }
}
