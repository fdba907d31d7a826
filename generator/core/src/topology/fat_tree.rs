//! The variant of a fat tree that ATRO compares with (§IV-A): pods of two edge switches with many hosts and two aggregation
//! switches; aggregation switch j of each pod is connected to its own half of the cores.
//!
//! Workers are dealt to edge switches one after the other, a host each; the server is on the last, each further one on the one before. Routes take the first of several
//! shortest ways.

use super::{Population, Role, Shape, Topology, hosts_of_racks};
use crate::config::{KeyTables, Section, settings};
use crate::registry::Named;
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// `kind = "fat_tree"`.
pub struct FatTree;

impl Named for FatTree {
    fn name(&self) -> &'static str {
        "fat_tree"
    }
    fn about(&self) -> &'static str {
        "pods of two edge switches with hosts and two aggregation switches, below cores"
    }
}

settings! {
    /// What it reads from `[topology]`.
    struct Settings {
        /// Groups of two edge and two aggregation switches.
        pods: u32 = 4 in 1..=1000;
        /// Switches above them, an even number.
        cores: u32 = 4 in 2..=1000;
        /// Hosts that an edge switch has room for.
        edge_hosts: u32 = 12 in 1..=1000;
        /// Parameter servers.
        servers: u32 = 1 in 1..=1000;
        /// Rate of every cable.
        rate: Rate = "100Gbps";
        /// Time on each cable, one way.
        delay: Span = "1us";
        /// What a frame takes on a cable beside its bytes.
        overhead: Size = "24B";
    }
}

impl Shape for FatTree {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let Settings { pods, cores, edge_hosts, servers, rate, delay, overhead } = Settings::read(section)?;
        if !cores.is_multiple_of(2) {
            return Err(Error::config(format!(
                "{}: {cores}; each of two aggregation switches has half of the cores, so give an even number",
                section.place("cores")
            )));
        }
        let mut t = Topology::default();
        let edges: Vec<_> = (0..2 * pods).map(|i| t.add(format!("edge{i}"), Role::Device)).collect();
        let middle: Vec<_> = (0..2 * pods).map(|i| t.add(format!("aggregation{i}"), Role::Device)).collect();
        let top: Vec<_> = (0..cores).map(|i| t.add(format!("core{i}"), Role::Device)).collect();
        hosts_of_racks(&mut t, &edges, edge_hosts, servers, workers, (rate, delay.ps(), overhead))
            .map_err(|why| Error::config(format!("{}: {why}", section.place("edge_hosts"))))?;
        let switches = [edges, middle, top].concat();
        for (below, above) in cables(pods as usize, cores as usize) {
            t.connect(switches[below], switches[above], rate, rate, delay.ps(), overhead);
        }
        Ok(t)
    }
}

/// Which switches are joined; edges come first, then aggregation switches, then cores, of which there is an even number.
pub fn cables(pods: usize, cores: usize) -> impl Iterator<Item = (usize, usize)> {
    let (middle, top, half) = (2 * pods, 4 * pods, cores / 2);
    let below = (0..middle).flat_map(move |edge| (0..2).map(move |j| (edge, middle + edge / 2 * 2 + j)));
    below.chain((0..middle).flat_map(move |i| (0..half).map(move |core| (middle + i, top + i % 2 * half + core))))
}
