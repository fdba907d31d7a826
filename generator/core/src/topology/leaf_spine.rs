//! Leaves with hosts, each connected to every spine (ATRO §IV-A).
//!
//! Workers are assigned to leaves in turn, one host each; the server is on the last leaf, each further server on the
//! previous one. Routes take the first of several shortest paths.

use super::{Population, Role, Shape, Topology, hosts_of_racks};
use crate::config::{KeyTables, Section, above, settings};
use crate::registry::Named;
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// `kind = "leaf_spine"`.
pub struct LeafSpine;

impl Named for LeafSpine {
    fn name(&self) -> &'static str {
        "leaf_spine"
    }
    fn about(&self) -> &'static str {
        "leaves with hosts, each connected to every spine"
    }
}

settings! {
    /// Keys of `[topology]`.
    struct Settings {
        /// Leaf switches, which have hosts.
        leaves: u32 = 10 in 1..=1000;
        /// Spine switches.
        spines: u32 = 10 in 1..=1000;
        /// Host ports per leaf.
        leaf_hosts: u32 = 14 in 1..=1000;
        /// Parameter servers.
        servers: u32 = 1 in 1..=1000;
        /// Rate of every link.
        rate: Rate = "100Gbps" in above(Rate::from_bps(0));
        /// Propagation delay of each link, one way.
        delay: Span = "1us";
        /// Per-frame overhead on a link, beyond the frame's bytes.
        overhead: Size = "24B";
    }
}

impl Shape for LeafSpine {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let Settings { leaves, spines, leaf_hosts, servers, rate, delay, overhead } = Settings::read(section)?;
        let mut t = Topology::default();
        let racks: Vec<_> = (0..leaves).map(|i| t.add(format!("leaf{i}"), Role::Device)).collect();
        let above: Vec<_> = (0..spines).map(|i| t.add(format!("spine{i}"), Role::Device)).collect();
        hosts_of_racks(&mut t, &racks, leaf_hosts, servers, workers, (rate, delay.ps(), overhead))
            .map_err(|why| Error::config(format!("{}: {why}", section.place("leaf_hosts"))))?;
        for (leaf, spine) in cables(racks.len(), above.len()) {
            t.connect(racks[leaf], above[spine - racks.len()], rate, rate, delay.ps(), overhead);
        }
        Ok(t)
    }
}

/// Pairs of connected switches; leaves come first, then spines.
pub fn cables(leaves: usize, spines: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..leaves).flat_map(move |leaf| (leaves..leaves + spines).map(move |spine| (leaf, spine)))
}
