//! Leaves with hosts, each connected to every spine (ATRO §IV-A).
//!
//! Workers are dealt to leaves one after the other, a host each; the server is on the last leaf, each further one on the leaf before. Routes take the first of
//! several shortest ways.

use super::{Population, Role, Shape, Topology, hosts_of_racks};
use crate::config::Section;
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

impl Shape for LeafSpine {
    fn keys(&self) -> &'static [&'static str] {
        &["leaves", "spines", "leaf_hosts", "servers", "rate", "delay", "overhead"]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let leaves: u32 = section.get_in("leaves", 10u32, 1..=1000u32)?;
        let spines: u32 = section.get_in("spines", 10u32, 1..=1000u32)?;
        let leaf_hosts: u32 = section.get_in("leaf_hosts", 14u32, 1..=1000u32)?;
        let servers: u32 = section.get_in("servers", 1u32, 1..=1000u32)?;
        let rate: Rate = section.get("rate", "100Gbps")?;
        let delay: Span = section.get("delay", "1us")?;
        let overhead: Size = section.get("overhead", "24B")?;
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

/// Which switches are joined; leaves come first, then spines.
pub fn cables(leaves: usize, spines: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..leaves).flat_map(move |leaf| (leaves..leaves + spines).map(move |spine| (leaf, spine)))
}
