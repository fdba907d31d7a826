//! Shortest paths: the port of each node towards every other.
//!
//! Hosts and servers have one cable and do not forward, so the route to one is the route to the adjacent device: tables
//! contain devices only, and are computed for requested destinations only.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use super::{NO_PORT, NodeId, Topology};

/// Marks a node that is not a device.
const NONE: u32 = u32::MAX;
/// Up to this number of nodes, the routes of a node are stored as a list.
const LISTED: usize = 1024;

/// Outgoing links of each node, in port order.
#[derive(Debug, Clone)]
pub struct Exits {
    starts: Vec<u32>,
    links: Vec<u32>,
}

impl Exits {
    /// Returns the outgoing links of `node`, as indices of the topology's links.
    #[inline]
    pub fn of(&self, node: NodeId) -> &[u32] {
        &self.links[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }
}

/// Groups items by key; `keys` yields the key of each item, below `count`.
fn grouped(count: usize, keys: impl Iterator<Item = usize> + Clone) -> Exits {
    let mut starts = vec![0u32; count + 1];
    keys.clone().for_each(|key| starts[key + 1] += 1);
    (0..count).for_each(|key| starts[key + 1] += starts[key]);
    let (mut next, mut links) = (starts.clone(), vec![0; starts[count] as usize]);
    for (item, key) in keys.enumerate() {
        links[next[key] as usize] = item as u32;
        next[key] += 1;
    }
    Exits { starts, links }
}

/// Access to a node: the adjacent device, and its port towards the node. A device is adjacent to itself.
#[derive(Debug, Clone, Copy)]
struct Home {
    device: u32,
    port: u16,
}

/// The routes of a network whose hosts and servers have one cable each.
#[derive(Debug)]
pub struct Routes {
    /// Device number of each node; [`NONE`] for others.
    number: Vec<u32>,
    home: Vec<Home>,
    /// Neighbour of each node that is not a device.
    beside: Vec<NodeId>,
    /// Links between devices, grouped by the device they lead to: start of each group in `from`.
    into: Vec<u32>,
    /// The device at which a link starts, and its port there.
    from: Vec<(u32, u16)>,
    /// Port at each device, by destination; computed on first use.
    rows: Vec<OnceLock<Box<[u16]>>>,
}

impl Topology {
    /// Returns the outgoing links of each node.
    pub fn exits(&self) -> Exits {
        grouped(self.nodes.len(), self.links.iter().map(|link| link.from as usize))
    }

    /// Computes routes along shortest paths; of several first links, the one with the lowest port is taken.
    pub fn routes(&self) -> Arc<Routes> {
        let mut number = vec![NONE; self.nodes.len()];
        let mut devices = 0;
        for node in self.devices() {
            number[node as usize] = devices;
            devices += 1;
        }
        let home = |device: &u32| Home { device: *device, port: NO_PORT };
        let mut home: Vec<Home> = number.iter().map(home).collect();
        let mut beside = vec![NodeId::MAX; self.nodes.len()];
        let mut ports = vec![0u16; self.nodes.len()];
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for link in &self.links {
            let (a, b) = (link.from as usize, link.to as usize);
            let port = ports[a];
            ports[a] += 1;
            if number[a] == NONE && beside[a] == NodeId::MAX {
                beside[a] = link.to;
            }
            match (number[a], number[b]) {
                (NONE, _) => {}
                (device, NONE) if home[b].device == NONE => home[b] = Home { device, port },
                (_, NONE) => {}
                (device, end) => {
                    from.push((device, port));
                    to.push(end as usize);
                }
            }
        }
        let into = grouped(devices as usize, to.into_iter());
        let from = into.links.iter().map(|link| from[*link as usize]).collect();
        let rows = (0..devices).map(|_| OnceLock::new()).collect();
        Arc::new(Routes { number, home, beside, into: into.starts, from, rows })
    }
}

impl Routes {
    /// Returns the port of `node` towards `to`; [`NO_PORT`] if `to` is unreachable.
    #[inline]
    pub fn port(&self, node: NodeId, to: NodeId) -> u16 {
        let Some(home) = self.home.get(to as usize) else { return NO_PORT };
        match self.number[node as usize] {
            NONE => self.only_port(node, to),
            _ if home.device == NONE => NO_PORT,
            device if device == home.device => home.port,
            device => self.row(home.device)[device as usize],
        }
    }

    /// Returns the only port of a host or server, if `to` is reachable.
    fn only_port(&self, node: NodeId, to: NodeId) -> u16 {
        let beside = self.beside[node as usize];
        let reaches = |device: NodeId| self.number[device as usize] != NONE && self.port(device, to) != NO_PORT;
        let leads = node != to && beside != NodeId::MAX && (beside == to || reaches(beside));
        if leads { 0 } else { NO_PORT }
    }

    /// Returns the routes of `node`.
    pub fn at(self: &Arc<Self>, node: NodeId) -> Ways {
        let nodes = self.number.len();
        Ways(match nodes <= LISTED {
            true => Known::Listed((0..nodes as NodeId).map(|to| self.port(node, to)).collect()),
            false => Known::Asked { routes: self.clone(), node },
        })
    }

    /// Returns the port of each device towards this one.
    #[inline]
    fn row(&self, to: u32) -> &[u16] {
        self.rows[to as usize].get_or_init(|| self.search(to))
    }

    /// Searches breadth first from the destination.
    fn search(&self, to: u32) -> Box<[u16]> {
        let mut ports = vec![NO_PORT; self.rows.len()];
        let mut seen = vec![false; self.rows.len()];
        seen[to as usize] = true;
        let mut queue = VecDeque::from([to]);
        while let Some(at) = queue.pop_front() {
            let [first, end] = [at, at + 1].map(|device| self.into[device as usize] as usize);
            for &(from, port) in &self.from[first..end] {
                if !std::mem::replace(&mut seen[from as usize], true) {
                    ports[from as usize] = port;
                    queue.push_back(from);
                }
            }
        }
        ports.into()
    }
}

/// The routes of one node.
#[derive(Debug, Clone)]
pub struct Ways(Known);

#[derive(Debug, Clone)]
enum Known {
    Listed(Arc<[u16]>),
    Asked { routes: Arc<Routes>, node: NodeId },
}

impl Ways {
    /// Returns the port towards `to`; [`NO_PORT`] if `to` is unreachable.
    #[inline]
    pub fn port(&self, to: NodeId) -> u16 {
        match &self.0 {
            Known::Listed(ports) => ports.get(to as usize).copied().unwrap_or(NO_PORT),
            Known::Asked { routes, node } => routes.port(*node, to),
        }
    }
}

impl Default for Ways {
    fn default() -> Self {
        Vec::new().into()
    }
}

/// Routes from a list by destination.
impl From<Vec<u16>> for Ways {
    fn from(ports: Vec<u16>) -> Self {
        Ways(Known::Listed(ports.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;
    use crate::units::{Rate, Size};
    use proptest::prelude::*;

    /// Reference implementation: breadth first from every node, over all nodes.
    fn plainly(t: &Topology) -> Vec<Vec<u16>> {
        let n = t.nodes.len();
        let mut routes = vec![vec![NO_PORT; n]; n];
        for to in 0..n {
            let mut hops = vec![usize::MAX; n];
            hops[to] = 0;
            let mut queue = VecDeque::from([to]);
            while let Some(at) = queue.pop_front() {
                for link in t.links.iter().filter(|link| link.to as usize == at) {
                    let from = link.from as usize;
                    // Hosts and servers do not forward for others.
                    let passes = at == to || t.nodes[at].role == Role::Device;
                    if passes && hops[from] == usize::MAX {
                        hops[from] = hops[at] + 1;
                        let port = t.ports(from as NodeId).position(|(_, other)| std::ptr::eq(other, link));
                        routes[from][to] = port.unwrap() as u16;
                        queue.push_back(from);
                    }
                }
            }
        }
        routes
    }

    /// A random network of devices, with ends attached to them, to each other or to nothing.
    fn network(devices: usize, cables: &[(usize, usize)], ends: &[usize]) -> Topology {
        let mut t = Topology::default();
        let rate = Rate::from_bps(1000);
        let join = |t: &mut Topology, a: NodeId, b: NodeId| t.connect(a, b, rate, rate, 0, Size::default());
        let nodes: Vec<_> = (0..devices).map(|i| t.add(format!("s{i}"), Role::Device)).collect();
        for (a, b) in cables.iter().map(|(a, b)| (nodes[a % devices], nodes[b % devices])) {
            if a != b {
                join(&mut t, a, b);
            }
        }
        let mut alone = None;
        for (i, at) in ends.iter().enumerate() {
            let end = t.add(format!("h{i}"), if i % 3 == 0 { Role::Server } else { Role::Host(Vec::new()) });
            match (nodes.get(*at), alone.take()) {
                (Some(&device), other) => {
                    join(&mut t, end, device);
                    alone = other;
                }
                (None, Some(other)) => join(&mut t, end, other),
                (None, None) => alone = Some(end),
            }
        }
        t
    }

    proptest! {
        #[test]
        fn ways_are_those_of_a_plain_search(
            devices in 1usize..9,
            cables in prop::collection::vec((0usize..9, 0usize..9), 0..20),
            ends in prop::collection::vec(0usize..10, 0..9),
        ) {
            let t = network(devices, &cables, &ends);
            let (routes, wanted, exits) = (t.routes(), plainly(&t), t.exits());
            for node in 0..t.nodes.len() as NodeId {
                let asked = Ways(Known::Asked { routes: routes.clone(), node });
                let listed = routes.at(node);
                for to in 0..t.nodes.len() as NodeId {
                    let port = wanted[node as usize][to as usize];
                    prop_assert_eq!((asked.port(to), listed.port(to)), (port, port), "from {} to {}", node, to);
                }
                prop_assert_eq!(asked.port(NodeId::MAX), NO_PORT);
                let links: Vec<_> = t.ports(node).map(|(link, _)| link as u32).collect();
                prop_assert_eq!(exits.of(node), &links);
            }
        }
    }
}
