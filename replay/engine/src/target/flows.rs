//! The configuration of each node for the flows of a plan: the direction of flows, and those that end there.
//!
//! A flow is identified by its source, and a frame by its source address: that of a worker, or of a device. So data of one worker may pass
//! a switch twice, once alone and once within a sum. On the way back the destination identifies the flow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::plan::{FlowSource, Plan};
use pktgen_core::topology::{NO_PORT, NodeId, Topology};
use pktgen_wire::wire::frame::{Ip, device_ip, device_of, worker_ip, worker_of};

/// Marks an unknown flow.
const NOTHING: u32 = u32::MAX;

/// Numbers by id, from the lowest id with a number to the highest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Span {
    first: u32,
    numbers: Vec<u32>,
}

impl Span {
    fn of(pairs: &[(u32, u32)]) -> Span {
        let ids = || pairs.iter().map(|(id, _)| *id);
        let (Some(first), Some(last)) = (ids().min(), ids().max()) else { return Span::default() };
        let mut numbers = vec![NOTHING; (last - first) as usize + 1];
        for (id, number) in pairs {
            numbers[(id - first) as usize] = *number;
        }
        Span { first, numbers }
    }

    #[inline]
    fn get(&self, id: u32) -> Option<u32> {
        let number = self.numbers.get(id.wrapping_sub(self.first) as usize).copied()?;
        (number != NOTHING).then_some(number)
    }
}

/// Numbers by flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ByFlow {
    workers: Span,
    devices: Span,
}

/// The entries from which a [`ByFlow`] is made.
#[derive(Default)]
struct Pairs {
    workers: Vec<(u32, u32)>,
    devices: Vec<(u32, u32)>,
}

impl Pairs {
    fn push(&mut self, source: FlowSource, number: u32) {
        match source {
            FlowSource::Worker(worker) => self.workers.push((worker, number)),
            FlowSource::Aggregator(node) => self.devices.push((node as u32, number)),
        }
    }

    fn table(&self) -> ByFlow {
        ByFlow { workers: Span::of(&self.workers), devices: Span::of(&self.devices) }
    }
}

impl ByFlow {
    /// Returns the number of the flow whose source has this address.
    #[inline]
    fn get(&self, ip: Ip) -> Option<u32> {
        match device_of(ip) {
            Some(node) => self.devices.get(node),
            None => self.workers.get(worker_of(ip, usize::MAX)?),
        }
    }
}

/// A flow that ends at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    /// Address of its source.
    pub source: Ip,
    /// The port towards its source.
    pub port: u16,
}

/// The configuration of one node for flows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFlows {
    up: ByFlow,
    down: ByFlow,
    taken: ByFlow,
    inputs: Vec<Input>,
    /// By cluster: the inputs that carry its messages.
    members: Vec<Vec<u32>>,
    /// The output port of what the node emits.
    output: Option<u16>,
    levels: u32,
}

impl NodeFlows {
    /// Returns the output port of a flow from `source`.
    #[inline]
    pub fn up(&self, source: Ip) -> u16 {
        self.up.get(source).map_or(NO_PORT, |port| port as u16)
    }

    /// Returns whether a flow leaves through this port towards its end.
    pub fn leads_up(&self, port: u16) -> bool {
        let has = |span: &Span| span.numbers.contains(&u32::from(port));
        self.output == Some(port) || has(&self.up.workers) || has(&self.up.devices)
    }

    /// Returns the output port of an answer to `target`.
    #[inline]
    pub fn down(&self, target: Ip) -> u16 {
        self.down.get(target).map_or(NO_PORT, |port| port as u16)
    }

    /// Returns the index in [`inputs`](Self::inputs) of the flow from `source`, if it ends here.
    #[inline]
    pub fn taken(&self, source: Ip) -> Option<u32> {
        self.taken.get(source)
    }

    /// Returns the flows that end here.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns the inputs that carry messages of `cluster`.
    #[inline]
    pub fn members(&self, cluster: u16) -> &[u32] {
        self.members.get(usize::from(cluster)).map_or(&[], Vec::as_slice)
    }

    /// Returns the output port of what the node emits.
    pub fn output(&self) -> u16 {
        self.output.unwrap_or(NO_PORT)
    }

    /// Returns the largest number of nodes at which an update waits until it has left this one.
    pub fn levels(&self) -> u32 {
        self.levels
    }
}

/// The flows of a run.
#[derive(Debug, Clone)]
pub struct Flows {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Bits of a frame on a link besides its own; the most of any link.
    pub overhead_bits: u64,
    nodes: Vec<Arc<NodeFlows>>,
    /// By link of the topology: the plan's link, and whether it is the way back.
    links: Vec<Option<(u32, bool)>>,
}

/// State of a node while flows are traced.
#[derive(Default)]
struct Draft {
    up: Pairs,
    down: Pairs,
    taken: Pairs,
    known: NodeFlows,
}

impl Flows {
    /// Traces the flows of `plan` through `topology`, whose nodes are the plan's. `cluster_of` is by worker.
    pub fn new(plan: Arc<Plan>, topology: &Topology, cluster_of: &[u16]) -> Flows {
        let ports = ports(topology);
        let port = |from: usize, to: usize| ports[from].get(&to).copied().unwrap_or(NO_PORT);
        let mut drafts: Vec<Draft> = plan.nodes.iter().map(|_| Draft::default()).collect();
        let clusters = plan.clusters(cluster_of);
        for (flow, clusters) in plan.flows.iter().zip(&clusters) {
            let (source, path) = (flow.source, &flow.path);
            for at in 1..path.len() {
                let (before, here) = (path[at - 1], path[at]);
                let back = port(here, before);
                let draft = &mut drafts[here];
                if let Some(next) = path.get(at + 1) {
                    draft.up.push(source, u32::from(port(here, *next)));
                    draft.down.push(source, u32::from(back));
                    continue;
                }
                let input = draft.known.inputs.len() as u32;
                draft.taken.push(source, input);
                draft.known.inputs.push(Input { source: address(source), port: back });
                for &cluster in clusters {
                    let members = &mut draft.known.members;
                    members.resize(members.len().max(usize::from(cluster) + 1), Vec::new());
                    members[usize::from(cluster)].push(input);
                }
            }
            if let (FlowSource::Aggregator(node), [first, second, ..]) = (source, &path[..]) {
                drafts[node].known.output = Some(port(*first, *second));
            }
        }
        // With one input for each cluster there is nothing to wait for.
        let waits = |node: usize| drafts[node].known.members.iter().any(|members| members.len() > 1);
        let levels = levels(&plan, waits);
        for (draft, levels) in drafts.iter_mut().zip(levels) {
            draft.known.levels = levels;
        }
        let finish = |Draft { up, down, taken, known }: Draft| {
            Arc::new(NodeFlows { up: up.table(), down: down.table(), taken: taken.table(), ..known })
        };
        let cables = plan.cables();
        let link = |from: NodeId, to: NodeId| {
            let (from, to) = (from as usize, to as usize);
            cables.get(&(from, to)).map(|link| (*link as u32, plan.links[*link].from != from))
        };
        // Of parallel links the first is the plan's, as in routes.
        let mut seen = BTreeSet::new();
        let mut first = |from: NodeId, to: NodeId| link(from, to).filter(|_| seen.insert((from, to)));
        let links = topology.links.iter().map(|l| first(l.from, l.to)).collect();
        let overhead_bits = topology.links.iter().map(|link| link.overhead.bits()).max().unwrap_or(0);
        Flows { nodes: drafts.into_iter().map(finish).collect(), links, plan, overhead_bits }
    }

    /// Returns the configuration of the node.
    pub fn at(&self, node: NodeId) -> Arc<NodeFlows> {
        self.nodes.get(node as usize).cloned().unwrap_or_default()
    }

    /// Returns the plan's link of which link `index` of the topology is a direction, and whether it is the way back. Of
    /// parallel links only the first is in the plan.
    pub fn link(&self, index: u32) -> Option<(usize, bool)> {
        self.links.get(index as usize).copied().flatten().map(|(link, back)| (link as usize, back))
    }
}

/// Returns, for each node, the largest number of nodes at which an update waits until it has left the node.
fn levels(plan: &Plan, waits: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut next = vec![None; plan.nodes.len()];
    for flow in &plan.flows {
        if let FlowSource::Aggregator(node) = flow.source {
            next[node] = flow.path.last().copied();
        }
    }
    let mut levels: Vec<Option<u32>> = vec![None; plan.nodes.len()];
    for flow in plan.flows.iter().filter(|flow| matches!(flow.source, FlowSource::Worker(_))) {
        let (mut at, mut level) = (flow.path.last().copied(), 0);
        while let Some(node) = at {
            level += u32::from(waits(node));
            // An earlier flow waited as often.
            if levels[node].is_some_and(|known| known >= level) {
                break;
            }
            levels[node] = Some(level);
            at = next[node];
        }
    }
    levels.into_iter().map(Option::unwrap_or_default).collect()
}

fn address(source: FlowSource) -> Ip {
    match source {
        FlowSource::Worker(worker) => worker_ip(worker),
        FlowSource::Aggregator(node) => device_ip(node as NodeId),
    }
}

/// Returns, for each node, the port towards each neighbour.
fn ports(topology: &Topology) -> Vec<BTreeMap<usize, u16>> {
    let mut ports = vec![BTreeMap::new(); topology.nodes.len()];
    let mut next = vec![0u16; topology.nodes.len()];
    for link in &topology.links {
        let from = link.from as usize;
        ports[from].entry(link.to as usize).or_insert(next[from]);
        next[from] += 1;
    }
    ports
}

#[cfg(test)]
mod tests {
    use pktgen_core::topology::Role;
    use pktgen_core::units::{Rate, Size};

    use super::*;

    #[test]
    fn of_parallel_links_the_first_is_the_plans() {
        let mut topology = Topology::default();
        let host = topology.add("h", Role::Host(vec![0]));
        let [lower, upper] = ["s0", "s1"].map(|name| topology.add(name, Role::Device));
        let server = topology.add("ps", Role::Server);
        let rate = Rate::from_bps(1);
        // The third cable is listed from its other end.
        for (a, b) in [(host, lower), (lower, upper), (upper, lower), (upper, server)] {
            topology.connect(a, b, rate, rate, 0, Size::default());
        }
        let routes = topology.routes();
        let ports: Vec<u16> = (0..4).map(|node| routes.port(node, server)).collect();
        let plan = Plan::of_network(&topology, &ports, None, |_| true).unwrap();
        let flows = Flows::new(Arc::new(plan), &topology, &[0]);
        let of = |cable: u32| [flows.link(2 * cable), flows.link(2 * cable + 1)];
        assert_eq!([0, 1, 3].map(of), [0, 1, 2].map(|link| [Some((link, false)), Some((link, true))]));
        assert_eq!(of(2), [None; 2]);
    }

    #[test]
    fn levels_are_the_nodes_that_wait_for_parts() {
        let mut topology = Topology::default();
        let hosts = [("h0", vec![0, 1]), ("h1", vec![2]), ("h2", vec![3])];
        let hosts = hosts.map(|(name, workers)| topology.add(name, Role::Host(workers)));
        let [lower, alone, between, upper] = ["s0", "s1", "s2", "s3"].map(|name| topology.add(name, Role::Device));
        let server = topology.add("ps", Role::Server);
        let rate = Rate::from_bps(1);
        let cables = [(lower, between), (alone, upper), (between, upper), (upper, server)];
        for (a, b) in [(hosts[0], lower), (hosts[1], alone), (hosts[2], upper)].into_iter().chain(cables) {
            topology.connect(a, b, rate, rate, 0, Size::default());
        }
        let routes = topology.routes();
        let ports: Vec<u16> = (0..8).map(|node| routes.port(node, server)).collect();
        let plan = Arc::new(Plan::of_network(&topology, &ports, None, |_| true).unwrap());
        let levels = |cluster_of: &[u16]| {
            let flows = Flows::new(plan.clone(), &topology, cluster_of);
            [lower, alone, between, upper].map(|node| flows.at(node).levels())
        };
        assert_eq!(levels(&[0; 4]), [1, 0, 1, 2]);
        // Workers of different clusters do not wait for each other.
        assert_eq!(levels(&[0, 1, 0, 1]), [0, 0, 0, 1]);
    }
}
