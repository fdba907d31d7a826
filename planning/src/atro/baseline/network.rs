//! The fixed networks of the comparison, and flows on them (ATRO §IV-A).

use std::collections::BTreeMap;

use pktgen_core::seed::Stream;
use pktgen_core::topology::{fat_tree, leaf_spine};
use rand::RngExt;
use rand::seq::SliceRandom;

/// The kind of network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// 10 leaves with 14 hosts each, 10 spines, full mesh.
    LeafSpine,
    /// 4 pods of 2 edges with 12 hosts each and 2 aggregation switches; 4 cores.
    FatTree,
}

impl Topology {
    /// All topologies with their names.
    pub const ALL: [(&'static str, Topology); 2] =
        [("leaf_spine", Topology::LeafSpine), ("fat_tree", Topology::FatTree)];
}

/// Switches and links; racks are the first switches.
#[derive(Debug, Clone)]
pub struct Network {
    racks: usize,
    rack_hosts: usize,
    neighbours: Vec<Vec<usize>>,
    /// Hops between switches.
    hops: Vec<Vec<u32>>,
}

impl Network {
    /// Number of ports of every switch; on a fat tree not all have a link (ATRO §IV-A).
    pub(crate) const PORTS: u64 = 24;

    /// Returns the network of the paper's comparison.
    pub fn of(topology: Topology) -> Self {
        match topology {
            Topology::LeafSpine => Network::new(10, 14, 20, leaf_spine::cables(10, 10)),
            Topology::FatTree => Network::new(8, 12, 20, fat_tree::cables(4, 2, 4)),
        }
    }

    fn new(racks: usize, rack_hosts: usize, switches: usize, links: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut neighbours = vec![Vec::new(); switches];
        for (a, b) in links {
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        let hops = (0..switches).map(|from| distances(&neighbours, from)).collect();
        Network { racks, rack_hosts, neighbours, hops }
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> usize {
        self.neighbours.len()
    }

    /// Returns the number of switches with hosts, which are the first ones.
    pub fn racks(&self) -> usize {
        self.racks
    }

    /// Returns the number of hosts of a rack.
    pub fn rack_hosts(&self) -> usize {
        self.rack_hosts
    }

    /// Returns the total number of hosts.
    pub fn hosts(&self) -> usize {
        self.racks * self.rack_hosts
    }

    /// Returns the number of hops between two switches.
    pub fn hops(&self, from: usize, to: usize) -> u32 {
        self.hops[from][to]
    }

    /// Returns the switches one hop closer to another one.
    pub fn nearer(&self, from: usize, to: usize) -> impl Iterator<Item = usize> + '_ {
        self.neighbours[from].iter().copied().filter(move |&next| self.hops(next, to) < self.hops(from, to))
    }
}

fn distances(neighbours: &[Vec<usize>], from: usize) -> Vec<u32> {
    let mut hops = vec![u32::MAX; neighbours.len()];
    hops[from] = 0;
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for &next in &neighbours[at] {
            if hops[next] == u32::MAX {
                hops[next] = hops[at] + 1;
                queue.push_back(next);
            }
        }
    }
    hops
}

/// Positions of workers and the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hosts {
    /// Number of workers of each rack.
    pub workers: Vec<u64>,
    /// The server's rack.
    pub server: usize,
}

/// Selects different hosts for workers and server at random.
pub(super) fn draw_hosts(network: &Network, workers: usize, stream: &mut Stream) -> Hosts {
    let mut hosts: Vec<usize> = (0..network.hosts()).map(|host| host / network.rack_hosts()).collect();
    hosts.shuffle(stream);
    let mut count = vec![0; network.racks()];
    for rack in &hosts[1..=workers] {
        count[*rack] += 1;
    }
    Hosts { workers: count, server: hosts[0] }
}

/// Selects this many aggregating switches at random.
pub(super) fn draw_aggregators(network: &Network, aggregators: usize, stream: &mut Stream) -> Vec<usize> {
    let mut switches: Vec<usize> = (0..network.switches()).collect();
    switches.shuffle(stream);
    switches.truncate(aggregators);
    switches.sort_unstable();
    switches
}

/// Flows on links between switches, and on the server's link.
#[derive(Debug, Default)]
pub(super) struct Load {
    links: BTreeMap<(usize, usize), u64>,
    server: u64,
}

impl Load {
    /// Adds a flow along one of the shortest paths, at random.
    pub fn send(&mut self, network: &Network, from: usize, to: usize, stream: &mut Stream) {
        self.send_all(network, (from, to), 1, stream);
    }

    /// Adds several flows along one of the shortest paths, at random but the same for all.
    pub fn send_all(&mut self, network: &Network, ends: (usize, usize), flows: u64, stream: &mut Stream) {
        let (mut at, to) = ends;
        while at != to {
            let ways = network.nearer(at, to).count();
            let Some(next) = network.nearer(at, to).nth(stream.random_range(0..ways.max(1))) else { return };
            *self.links.entry((at.min(next), at.max(next))).or_insert(0) += flows;
            at = next;
        }
    }

    /// Adds a flow into the server.
    pub(crate) fn enter_server(&mut self) {
        self.enter_server_with(1);
    }

    /// Adds several flows into the server.
    pub(crate) fn enter_server_with(&mut self, flows: u64) {
        self.server += flows;
    }

    /// Returns the number of flows, each counted once for every link between switches that it passes.
    #[cfg(test)]
    pub(crate) fn flow_hops(&self) -> u64 {
        self.links.values().sum()
    }

    /// Returns the number of flows on the server's link.
    #[cfg(test)]
    pub(crate) fn entering(&self) -> u64 {
        self.server
    }

    /// Returns the number of flows on the busiest link; a worker's own link has one.
    pub fn busiest(&self) -> u64 {
        self.links.values().copied().max().unwrap_or(0).max(self.server).max(1)
    }
}
