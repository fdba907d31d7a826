//! The variant of a fat tree that ATRO compares with (§IV-A): pods of two edge switches with many hosts and two aggregation
//! switches; aggregation switch j of each pod is connected to its own half of the cores.
//!
//! Workers are dealt to edge switches one after the other, a host each; the server is on the last, each further one on the one before. Routes take the first of several
//! shortest ways.

use super::{Population, Role, Shape, Topology, hosts_of_racks};
use crate::config::Section;
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

impl Shape for FatTree {
    fn keys(&self) -> &'static [&'static str] {
        &["pods", "cores", "edge_hosts", "servers", "rate", "delay", "overhead"]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let pods: u32 = section.get_in("pods", 4u32, 1..=1000u32)?;
        let cores: u32 = section.get_in("cores", 4u32, 2..=1000u32)?;
        let edge_hosts: u32 = section.get_in("edge_hosts", 12u32, 1..=1000u32)?;
        let servers: u32 = section.get_in("servers", 1u32, 1..=1000u32)?;
        let rate: Rate = section.get("rate", "100Gbps")?;
        let delay: Span = section.get("delay", "1us")?;
        let overhead: Size = section.get("overhead", "24B")?;
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
