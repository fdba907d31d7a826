//! Multicast groups: the ports of every device towards the workers of every cluster, and their changes by moves (OLAF
//! §7). Used when a run is planned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::topology::{Move, NO_PORT, NodeId, Routes, Topology};

use crate::endpoint::Facts;

/// One device's ports towards the workers of each cluster, each port once. In a large network most devices have workers
/// of few clusters below them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupPorts {
    clusters: usize,
    /// Clusters with ports, in order, and the ends of their port lists.
    ends: Vec<(u16, u32)>,
    ports: Vec<u16>,
}

impl GroupPorts {
    /// A table of `clusters` clusters without ports.
    fn of_none(clusters: usize) -> Self {
        GroupPorts { clusters, ..Self::default() }
    }

    /// Returns the number of clusters.
    pub fn clusters(&self) -> usize {
        self.clusters
    }

    /// Returns the ports towards the workers of a cluster; `None` if there is no such cluster.
    #[inline]
    pub fn get(&self, cluster: u16) -> Option<&[u16]> {
        match self.ends.binary_search_by_key(&cluster, |(of, _)| *of) {
            Ok(at) => Some(&self.ports[self.start(at)..self.ends[at].1 as usize]),
            Err(_) => (usize::from(cluster) < self.clusters).then_some(&[]),
        }
    }

    #[inline]
    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before].1 as usize)
    }

    /// Sets the ports of a cluster.
    pub fn set(&mut self, cluster: u16, ports: &[u16]) {
        let (at, old) = match self.ends.binary_search_by_key(&cluster, |(of, _)| *of) {
            Ok(at) => (at, self.ends[at].1 as usize - self.start(at)),
            Err(at) => {
                self.ends.insert(at, (cluster, self.start(at) as u32));
                (at, 0)
            }
        };
        let start = self.start(at);
        self.ports.splice(start..start + old, ports.iter().copied());
        self.ends[at..].iter_mut().for_each(|(_, end)| *end = *end + ports.len() as u32 - old as u32);
    }
}

/// Converts lists of ports by cluster.
impl From<Vec<Vec<u16>>> for GroupPorts {
    fn from(all: Vec<Vec<u16>>) -> Self {
        let mut table = GroupPorts::of_none(all.len());
        (0..).zip(&all).filter(|(_, ports)| !ports.is_empty()).for_each(|(cluster, ports)| table.set(cluster, ports));
        table
    }
}

/// A contributor to an aggregate of a synchronous job at a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contributor {
    /// Its source id: the number of the worker in the job or, for a device, of the first worker below it, so that ids
    /// are those of the job at every level.
    pub id: u8,
    /// The worker; none for a device.
    pub worker: Option<u32>,
    /// Number of workers that it represents.
    pub workers: u8,
}

/// A device's configuration for one synchronous job, set by the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobPlace {
    /// Contributors at this device, by id.
    pub sources: Vec<Contributor>,
    /// Id under which this device contributes to the one above it; none at the top.
    pub own: Option<u8>,
    /// Ports towards the job's workers, each once.
    pub ports: Vec<u16>,
    /// The port towards each of `sources`, in their order.
    pub port_of: Vec<u16>,
}

/// A control-plane event (OLAF §7, "P4 Control Plane"): a worker joins another cluster.
#[derive(Debug, Clone)]
pub struct Regroup {
    /// The move.
    pub change: Move,
    /// The cluster that it leaves.
    pub from: u16,
    /// By node, the new ports towards the workers of the left and of the joined cluster.
    pub ports: Vec<[Vec<u16>; 2]>,
}

/// The members of each cluster, and the paths from the server to them.
pub struct Groups {
    /// By worker: the nodes on the path from the server, and the port at each. An ACK never turns back.
    ways: Vec<Vec<(NodeId, u16)>>,
    members: Vec<BTreeSet<u32>>,
    nodes: usize,
    /// In real time all workers are at the end of one cable: a frame for a group leaves once.
    together: bool,
}

impl Groups {
    /// The groups of a network at the beginning of a run.
    pub fn new(topology: &Topology, routes: &Routes, facts: &Facts) -> Self {
        let nodes = topology.nodes.len();
        let exits = topology.exits();
        let way = |host: &NodeId| {
            let (mut at, mut way) = (facts.server, Vec::new());
            loop {
                let port = routes.port(at, *host);
                if port == NO_PORT {
                    break;
                }
                way.push((at, port));
                at = topology.links[exits.of(at)[usize::from(port)] as usize].to;
            }
            way
        };
        let mut members = vec![BTreeSet::new(); facts.workers.clusters_ever()];
        for (worker, &cluster) in facts.workers.cluster_of.iter().enumerate() {
            if let Some(own) = members.get_mut(usize::from(cluster)) {
                own.insert(worker as u32);
            }
        }
        Groups { ways: facts.host_of.iter().map(way).collect(), members, nodes, together: facts.real_time }
    }

    /// Limits the ports of a group to those through which a frame leaves.
    fn limit(&self, ports: &mut Vec<u16>) {
        if self.together {
            ports.truncate(1);
        }
    }

    /// Returns the ports towards the members of `cluster`, by node.
    fn ports_of(&self, cluster: usize) -> Vec<Vec<u16>> {
        let mut ports = vec![Vec::new(); self.nodes];
        for (node, port) in self.members[cluster].iter().flat_map(|worker| &self.ways[*worker as usize]) {
            add(&mut ports[*node as usize], *port);
        }
        ports.iter_mut().for_each(|own| self.limit(own));
        ports
    }

    /// Returns, for each node and cluster, the ports away from the server towards workers of the cluster.
    pub fn tables(&self) -> Vec<Arc<GroupPorts>> {
        // In a large network few nodes are on a path from the server to a worker; all others share one table.
        let nothing = GroupPorts::of_none(self.members.len());
        let mut tables: BTreeMap<NodeId, GroupPorts> = BTreeMap::new();
        for (cluster, members) in (0..).zip(&self.members) {
            let mut ports: BTreeMap<NodeId, Vec<u16>> = BTreeMap::new();
            for (node, port) in members.iter().flat_map(|worker| &self.ways[*worker as usize]) {
                add(ports.entry(*node).or_default(), *port);
            }
            for (node, mut ports) in ports {
                self.limit(&mut ports);
                tables.entry(node).or_insert_with(|| nothing.clone()).set(cluster, &ports);
            }
        }
        let nothing = Arc::new(nothing);
        let mut all = vec![nothing.clone(); self.nodes];
        tables.into_iter().for_each(|(node, table)| all[node as usize] = Arc::new(table));
        all
    }

    /// Returns each node's configuration for each job, on the path from the workers to the top.
    pub fn jobs(&self) -> Vec<Vec<JobPlace>> {
        let mut jobs = vec![vec![JobPlace::default(); self.members.len()]; self.nodes];
        for (job, members) in self.members.iter().enumerate() {
            for (index, &worker) in members.iter().enumerate() {
                let way = &self.ways[worker as usize];
                for (hop, (node, port)) in way.iter().enumerate() {
                    let place: &mut JobPlace = &mut jobs[*node as usize][job];
                    let below = way.get(hop + 1).map(|(node, _)| *node);
                    // Members come in order, so the first worker below a device is the first one seen.
                    let first = match below {
                        Some(below) => *jobs_first(members, &self.ways, below).get_or_insert(index),
                        None => index,
                    };
                    match place.sources.iter_mut().find(|s| usize::from(s.id) == first) {
                        Some(source) => source.workers = source.workers.saturating_add(1),
                        None => {
                            place.sources.push(Contributor {
                                id: first as u8,
                                worker: below.is_none().then_some(worker),
                                workers: 1,
                            });
                            place.port_of.push(*port);
                        }
                    }
                    if hop > 0 {
                        place.own = jobs_first(members, &self.ways, *node).map(|first| first as u8);
                    }
                }
            }
            for (node, ports) in self.ports_of(job).into_iter().enumerate() {
                jobs[node][job].ports = ports;
            }
        }
        jobs
    }

    /// The changes of the devices' configuration at each move.
    pub fn changes(mut self, facts: &Facts) -> Vec<Regroup> {
        let mut cluster_of = facts.workers.cluster_of.clone();
        let regroup = |change: &Move| {
            let from = std::mem::replace(&mut cluster_of[change.worker as usize], change.cluster);
            self.members[usize::from(from)].remove(&change.worker);
            self.members[usize::from(change.cluster)].insert(change.worker);
            let (left, joined) = (self.ports_of(usize::from(from)), self.ports_of(usize::from(change.cluster)));
            Regroup { change: *change, from, ports: left.into_iter().zip(joined).map(|(a, b)| [a, b]).collect() }
        };
        facts.workers.moves.iter().map(regroup).collect()
    }
}

/// Inserts a port into a sorted list.
fn add(ports: &mut Vec<u16>, port: u16) {
    if let Err(place) = ports.binary_search(&port) {
        ports.insert(place, port);
    }
}

/// Returns the number in its job of the first worker whose path leads through `node`.
fn jobs_first(members: &BTreeSet<u32>, ways: &[Vec<(NodeId, u16)>], node: NodeId) -> Option<usize> {
    members.iter().position(|worker| ways[*worker as usize].iter().any(|(at, _)| *at == node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_core::topology::{Population, Role};
    use pktgen_core::units::{Rate, Size};

    #[test]
    fn ports_of_groups_are_what_was_set_last() {
        let (mut table, mut plain) = (GroupPorts::of_none(5), vec![Vec::new(); 5]);
        for step in 0..200u64 {
            let draw = |n: u64| step.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17 * n as u32) % 5;
            let (cluster, ports) =
                (draw(1) as usize, (0..draw(2) as u16).map(|port| port + step as u16).collect::<Vec<_>>());
            table.set(cluster as u16, &ports);
            plain[cluster] = ports;
            let all: Vec<_> = (0..6).map(|cluster| table.get(cluster).map(<[u16]>::to_vec)).collect();
            assert_eq!(all, plain.iter().cloned().map(Some).chain([None]).collect::<Vec<_>>(), "step {step}");
            let made: Vec<_> =
                (0..6).map(|cluster| GroupPorts::from(plain.clone()).get(cluster).map(<[u16]>::to_vec)).collect();
            assert_eq!(made, all);
        }
    }

    #[test]
    fn a_job_knows_the_port_of_each_source() {
        // Workers 0, 2 and 3 are of job 0; hosts are connected from the last to the first.
        let mut topology = Topology::default();
        let device = topology.add("switch", Role::Device);
        topology.top = Some(device);
        let rate = Rate::from_bps(1_000_000_000);
        for worker in (0..4u32).rev() {
            let host = topology.add(format!("w{worker}"), Role::Host(vec![worker]));
            topology.connect(host, device, rate, rate, 0, Size::default());
        }
        let workers = Population { cluster_of: vec![0, 1, 0, 0], moves: Vec::new() };
        let facts = Facts {
            host_of: Arc::new(topology.host_of(4)),
            server: device,
            ..Facts::of_test(&crate::endpoint::open_loop::OpenLoopKind, workers)
        };
        let jobs = &Groups::new(&topology, &topology.routes(), &facts).jobs()[device as usize];
        let workers = |job: &JobPlace| job.sources.iter().map(|source| source.worker).collect::<Vec<_>>();
        assert_eq!((workers(&jobs[0]), &jobs[0].port_of), (vec![Some(0), Some(2), Some(3)], &vec![3, 1, 0]));
        assert_eq!((workers(&jobs[1]), &jobs[1].port_of, &jobs[1].ports), (vec![Some(1)], &vec![2], &vec![2]));
        let ports = |facts: &Facts| {
            let groups = Groups::new(&topology, &topology.routes(), facts);
            let all = groups.tables()[device as usize].get(0).map(<[u16]>::len);
            (all, groups.jobs()[device as usize][0].ports.len())
        };
        assert_eq!(ports(&facts), (Some(3), 3));
        // One cable leads to all workers.
        assert_eq!(ports(&Facts { real_time: true, ..facts }), (Some(1), 1));
    }
}
