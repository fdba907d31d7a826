//! Nodes and links; construction and checks of the network from `[topology]`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::{DEFAULT, SHAPES};
use crate::config::Document;
use crate::plan::Plan;
use crate::registry::find;
use crate::time::{HORIZON, SECOND, Time, too_late};
use crate::units::{Rate, Size};
use crate::{Error, Result};

/// Reads `[topology]`, builds the network for these workers and checks it. Keys of unused shapes stay
/// valid, so that a sweep can visit several.
pub fn open(document: &mut Document, workers: &Population) -> Result<Topology> {
    let mut section = document.section("topology")?;
    let kind: String = section.get("kind", DEFAULT)?;
    let shape = find(SHAPES, "topology", &kind, &section.place("kind"))?;
    let topology = shape.build(&mut section, workers)?;
    for shape in SHAPES {
        section.allow(shape.keys());
    }
    document.close(section)?;
    topology.check(workers.len())?;
    Ok(topology)
}

/// Largest frame of a link: a jumbo frame (OLAF §12.1).
pub const FRAME_MAX: usize = 9036;

/// Index of a node.
pub type NodeId = u32;
/// Port number for an unreachable destination.
pub const NO_PORT: u16 = u16::MAX;
/// Number of nodes that rows of records can name: devices and servers must be among the first `NODES`.
pub const NODES: usize = u16::MAX as usize;

/// A worker joins another cluster (OLAF §7, "P4 Control Plane").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Time of the move.
    pub at: Time,
    /// The worker.
    pub worker: u32,
    /// The new cluster; a number without workers so far creates a cluster.
    pub cluster: u16,
}

/// The workers: the cluster of each, by worker id, and its changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Population {
    /// Cluster of worker `i` at the beginning.
    pub cluster_of: Vec<u16>,
    /// Moves, in the order of time.
    pub moves: Vec<Move>,
}

impl Population {
    /// A population of `clusters` clusters with `workers` workers each; ids are dense and ordered by cluster.
    pub fn regular(clusters: u16, workers: u32) -> Self {
        let cluster_of = (0..clusters).flat_map(|c| std::iter::repeat_n(c, workers as usize)).collect();
        Population { cluster_of, moves: Vec::new() }
    }

    /// Returns the number of workers.
    pub fn len(&self) -> usize {
        self.cluster_of.len()
    }

    /// Returns whether there are no workers.
    pub fn is_empty(&self) -> bool {
        self.cluster_of.is_empty()
    }

    /// Returns one more than the highest cluster that ever takes part in aggregation.
    pub fn clusters_ever(&self) -> usize {
        self.moves.iter().map(|m| usize::from(m.cluster) + 1).max().unwrap_or(0).max(self.clusters())
    }

    /// Returns one more than the highest cluster that takes part in aggregation at the beginning.
    pub fn clusters(&self) -> usize {
        let regular = self.cluster_of.iter().filter(|c| **c != crate::record::NO_CLUSTER);
        regular.max().map_or(0, |c| usize::from(*c) + 1)
    }
}

/// The role of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// A host with these workers.
    Host(Vec<u32>),
    /// A parameter server.
    Server,
    /// Monitors devices and controls them.
    Controller,
    /// A device that forwards and perhaps aggregates; it runs the program of `[target]`.
    Device,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name in records and reports.
    pub name: String,
    /// Its role.
    pub role: Role,
}

/// One direction of a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Sending node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// Line rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Time,
    /// Overhead of each frame beyond its bytes.
    pub overhead: Size,
    /// Slots of this link's queue if it differs from `[target] slots`.
    pub slots: Option<u32>,
}

impl Link {
    /// Refuses rates and delays with which no frame would arrive.
    fn check(&self) -> Result<(), String> {
        if self.rate.bps() == 0 {
            return Err("it has rate 0; a rate must be above 0".into());
        }
        if !(0..=HORIZON).contains(&self.delay) {
            let keys = "choose a delay of 0 or more and below that";
            return Err(too_late("the end of its delay", self.delay as f64, keys));
        }
        let bits = FRAME_MAX as f64 * 8.0 + self.overhead.bits() as f64;
        let longest = bits / self.rate.bps() as f64 * SECOND as f64;
        if longest > HORIZON as f64 {
            return Err(too_late("the end of one frame", longest, "raise the rate or lower topology.overhead"));
        }
        Ok(())
    }
}

/// A network. The port number of a link is its position among the links that leave the node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Topology {
    /// Nodes; the index is the id.
    pub nodes: Vec<Node>,
    /// Directed links.
    pub links: Vec<Link>,
    /// The top device of a network without a server: synchronous training aggregates there, and results return to the workers.
    pub top: Option<NodeId>,
    /// The plan from which the network was built, if any.
    pub plan: Option<Arc<Plan>>,
    /// By the ends of a link, the one nearer to the workers first: what a message costs on it, where φ counts it.
    pub costs: BTreeMap<(NodeId, NodeId), f64>,
    /// Devices that cannot aggregate (Λ of SOAR §2 has the others).
    pub unavailable: BTreeSet<NodeId>,
}

impl Topology {
    /// Adds a node and returns its id.
    pub fn add(&mut self, name: impl Into<String>, role: Role) -> NodeId {
        self.nodes.push(Node { name: name.into(), role });
        (self.nodes.len() - 1) as NodeId
    }

    /// Adds a cable: `up` from `a` to `b`, `down` from `b` to `a`.
    pub fn connect(&mut self, a: NodeId, b: NodeId, up: Rate, down: Rate, delay: Time, overhead: Size) {
        self.links.push(Link { from: a, to: b, rate: up, delay, overhead, slots: None });
        self.links.push(Link { from: b, to: a, rate: down, delay, overhead, slots: None });
    }

    /// Returns the links that leave `node`, in port order.
    pub fn ports(&self, node: NodeId) -> impl Iterator<Item = (usize, &Link)> {
        self.links.iter().enumerate().filter(move |(_, link)| link.from == node)
    }

    /// Returns the node called `name`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(|i| i as NodeId)
    }

    /// Returns all devices.
    pub fn devices(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().enumerate().filter(|(_, n)| n.role == Role::Device).map(|(i, _)| i as NodeId)
    }

    /// Returns the device of a network with exactly one, else the number of devices.
    pub fn only_device(&self) -> Result<NodeId, usize> {
        let mut devices = self.devices();
        match (devices.next(), devices.count()) {
            (Some(only), 0) => Ok(only),
            (first, others) => Err(usize::from(first.is_some()) + others),
        }
    }

    /// Returns the controller, if there is one.
    pub fn controller(&self) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.role == Role::Controller).map(|id| id as NodeId)
    }

    /// Returns the destination of updates: the first server, or the top device.
    pub fn sink(&self) -> Option<NodeId> {
        self.servers().next().or(self.top)
    }

    /// Returns the host of each worker, by worker id.
    pub fn host_of(&self, workers: usize) -> Vec<NodeId> {
        let mut host = vec![NodeId::MAX; workers];
        for (id, node) in self.nodes.iter().enumerate() {
            if let Role::Host(members) = &node.role {
                for &worker in members {
                    host[worker as usize] = id as NodeId;
                }
            }
        }
        host
    }

    /// Returns the first of these workers that does not sit on exactly one host, and on how many it does.
    pub(super) fn misplaced(&self, workers: usize) -> Option<(usize, u32)> {
        let mut seen = vec![0u32; workers];
        for node in &self.nodes {
            let Role::Host(members) = &node.role else { continue };
            for worker in members {
                if let Some(count) = seen.get_mut(*worker as usize) {
                    *count += 1;
                }
            }
        }
        seen.iter().position(|count| *count != 1).map(|worker| (worker, seen[worker]))
    }

    /// Refuses networks that cannot work; the error names the defect.
    pub fn check(&self, workers: usize) -> Result<()> {
        let fail = |what: String| Err(Error::config(format!("[topology]: {what}")));
        let mut names = HashSet::new();
        if let Some(twice) = self.nodes.iter().find(|node| !names.insert(&node.name)) {
            return fail(format!("two nodes are called \"{}\"; give each its own name", twice.name));
        }
        let is_host = |node: &Node| matches!(node.role, Role::Host(_));
        if let Some(id) = (NODES..self.nodes.len()).find(|id| !is_host(&self.nodes[*id])) {
            return fail(format!(
                "\"{}\" is node {id}; records number devices and servers below {NODES}, so have fewer, or have them before the hosts",
                self.nodes[id].name
            ));
        }
        for link in &self.links {
            let name = |id: NodeId| self.nodes.get(id as usize).map_or("?", |n| n.name.as_str());
            if link.from == link.to {
                return fail(format!("\"{}\" is linked to itself", name(link.from)));
            }
            link.check().map_err(|what| {
                Error::config(format!(
                    "[topology]: the link from \"{}\" to \"{}\": {what}",
                    name(link.from),
                    name(link.to)
                ))
            })?;
        }
        let exits = self.exits();
        for (id, node) in self.nodes.iter().enumerate() {
            let degree = exits.of(id as NodeId).len();
            if !matches!(node.role, Role::Device) && degree != 1 {
                return fail(format!("\"{}\" has {degree} links; a host or server has exactly 1", node.name));
            }
            // Ports are numbered below NO_PORT.
            if degree > usize::from(NO_PORT) {
                return fail(format!(
                    "\"{}\" has {degree} links; a device has at most {NO_PORT}, so put several workers on a host or use more devices",
                    node.name
                ));
            }
        }
        for node in &self.nodes {
            let Role::Host(members) = &node.role else { continue };
            if let Some(worker) = members.iter().find(|worker| **worker as usize >= workers) {
                return fail(format!("\"{}\" has worker {worker}; the workload has {workers}", node.name));
            }
        }
        if let Some((worker, hosts)) = self.misplaced(workers) {
            return fail(format!("worker {worker} sits on {hosts} hosts; every worker sits on exactly 1"));
        }
        self.check_reachable()
    }

    fn check_reachable(&self) -> Result<()> {
        let ends: Vec<_> = self.servers().chain(self.top).collect();
        if ends.is_empty() {
            return Err(Error::config("[topology]: there are 0 servers; give at least 1"));
        }
        if self.top.is_some() && ends.len() > 1 {
            return Err(Error::config(format!(
                "[topology]: there are {} servers beside a device on top; give one of the two",
                ends.len() - 1
            )));
        }
        let routes = self.routes();
        for (&server, (id, node)) in ends.iter().flat_map(|end| self.nodes.iter().enumerate().map(move |at| (end, at)))
        {
            let lost = |id: NodeId| routes.port(id, server) == NO_PORT || routes.port(server, id) == NO_PORT;
            if matches!(node.role, Role::Host(_)) && lost(id as NodeId) {
                return Err(Error::config(format!(
                    "[topology]: there is no way between \"{}\" and \"{}\"; add links",
                    node.name, self.nodes[server as usize].name
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Topology {
        let mut t = Topology::default();
        let host = t.add("h", Role::Host(vec![0]));
        let sw = t.add("sw", Role::Device);
        let ps = t.add("ps", Role::Server);
        let rate = Rate::from_bps(1000);
        t.connect(host, sw, rate, rate, 0, Size::default());
        t.connect(sw, ps, rate, rate, 0, Size::default());
        t
    }

    #[test]
    fn the_only_device_is_found_or_devices_are_counted() {
        assert_eq!((chain().only_device(), Topology::default().only_device()), (Ok(1), Err(0)));
        let mut two = chain();
        two.add("other", Role::Device);
        assert_eq!(two.only_device(), Err(2));
    }

    #[test]
    fn routes_take_the_shortest_way() {
        let routes = chain().routes();
        assert_eq!((routes.port(0, 2), routes.port(2, 0)), (0, 0));
        assert_eq!([0, 1, 2].map(|to| routes.port(1, to)), [0, NO_PORT, 1]);
        chain().check(1).unwrap();
    }

    #[test]
    fn a_section_may_have_the_keys_of_every_shape() {
        let base = "[topology]\nrate = \"20Gbps\"\nleaves = 2\nserver = \"ps\"\n";
        for kind in ["bottleneck", "multi_hop"] {
            let mut document = Document::parse(&format!("{base}kind = \"{kind}\""), "x.toml").unwrap();
            open(&mut document, &Population::regular(2, 2)).unwrap();
            document.finish(&[]).unwrap();
            assert!(document.resolved().contains("leaves = 2") && document.resolved().contains("rate = \"20Gbps\""));
        }
        let says = |text: &str, part: &str| {
            let mut document = Document::parse(&format!("{base}{text}"), "x.toml").unwrap();
            let message = open(&mut document, &Population::regular(2, 2)).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        };
        says("leavs = 3", "did you mean \"leaves\"");
        says("kind = \"custom\"", "topology.hosts: worker 0 sits on 0 hosts");
        says("kind = \"custom\"\nhosts = [\"h 0-3\"]", "has 0 links");
        says("delay = \"2500h\"", "26 days");
        says("overhead = \"1000000GB\"\ningress_rate = \"1kbps\"", "topology.overhead");
    }

    #[test]
    fn impossible_networks_are_refused_by_name() {
        let says = |t: &Topology, workers, part: &str| {
            let message = t.check(workers).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        };
        says(&chain(), 2, "worker 1 sits on 0 hosts");
        says(&chain(), 0, "\"h\" has worker 0; the workload has 0");
        let mut t = chain();
        t.links[0].rate = Rate::from_bps(0);
        says(&t, 1, "rate 0");
        let mut t = chain();
        t.nodes[1].name = "h".into();
        says(&t, 1, "two nodes");
        let mut t = chain();
        t.links.truncate(2);
        says(&t, 1, "\"ps\" has 0 links");
        let mut t = chain();
        t.add("ps2", Role::Server);
        t.connect(1, 3, Rate::from_bps(1), Rate::from_bps(1), 0, Size::default());
        t.check(1).unwrap();
        t.top = Some(1);
        says(&t, 1, "2 servers beside a device on top");
        let mut t = chain();
        t.nodes[2].role = Role::Controller;
        says(&t, 1, "0 servers");
    }
}
