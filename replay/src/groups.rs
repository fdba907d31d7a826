//! Multicast groups: the ports of every device towards the workers of every cluster, and how moves change them
//! (OLAF §7). Called when a run is planned.

use std::sync::Arc;

use pktgen_generator::topology::{NO_PORT, NodeId, Topology};

use crate::driver::virtual_time::Regroup;
use crate::endpoint::Facts;

/// Of one device: for each cluster, the ports towards its workers, each once.
pub(crate) type GroupPorts = Vec<Vec<u16>>;

/// What the control plane tells the devices at each move.
pub(crate) fn changes(topology: &Topology, routes: &[Arc<Vec<u16>>], facts: &Facts) -> Vec<Regroup> {
    let mut cluster_of = facts.workers.cluster_of.clone();
    let regroup = |change: &pktgen_generator::topology::Move| {
        cluster_of[change.worker as usize] = change.cluster;
        Regroup { change: *change, group_ports: ports(topology, routes, &cluster_of, facts) }
    };
    facts.workers.moves.iter().map(regroup).collect()
}

/// For each node and cluster, the ports that lead away from the server to workers of the cluster, each once.
/// Only devices on the way from the server to a worker have one: an ACK never turns back.
pub(crate) fn ports(
    topology: &Topology,
    routes: &[Arc<Vec<u16>>],
    cluster_of: &[u16],
    facts: &Facts,
) -> Vec<Arc<GroupPorts>> {
    let nodes = topology.nodes.len();
    let ends: Vec<Vec<NodeId>> =
        (0..nodes).map(|node| topology.ports(node as NodeId).map(|(_, link)| link.to).collect()).collect();
    let mut ports = vec![vec![Vec::new(); facts.workers.clusters_ever()]; nodes];
    for (worker, &cluster) in cluster_of.iter().enumerate() {
        let host = facts.host_of[worker];
        let mut at = facts.server;
        while at != host {
            let port = routes[usize::from(at)][usize::from(host)];
            if port == NO_PORT {
                break;
            }
            if let Some(own) = ports[usize::from(at)].get_mut(usize::from(cluster))
                && !own.contains(&port)
            {
                own.push(port);
            }
            at = ends[usize::from(at)][usize::from(port)];
        }
    }
    for own in ports.iter_mut().flatten() {
        own.sort_unstable();
    }
    ports.into_iter().map(Arc::new).collect()
}
