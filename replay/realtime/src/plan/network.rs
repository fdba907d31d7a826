//! The properties of the network that endpoints use.

use pktgen_core::record::NO_CLUSTER;
use pktgen_core::time::{Serialiser, Time};
use pktgen_core::topology::{Link, NodeId, Population, Role, Routes, Topology};

use crate::endpoint::Standby;

/// Returns the controller of a network, and the switches that it monitors.
pub(super) fn standby(topology: &Topology) -> Option<Standby> {
    let controller = topology.controller()?;
    let switch = topology.racks().devices.first().copied().unwrap_or(0);
    Some(Standby { controller, switch, aggregators: topology.aggregators().into() })
}

/// Returns the maximum time from sending a frame of `update` bytes to the arrival of its ACK of `ack` bytes without queueing. Hosts of
/// background traffic alone send no updates, and have a part in it only if no host does.
pub(super) fn round_trip(topology: &Topology, routes: &Routes, workers: &Population, update: u32, ack: u32) -> Time {
    let (exits, no_updates) = (topology.exits(), workers.clusters() == 0);
    let Some(server) = topology.sink() else { return 0 };
    let one_way = |from: NodeId, to: NodeId, bytes: u32| -> Time {
        let (mut at, mut time) = (from, 0);
        while at != to {
            let port = routes.port(at, to);
            let Some(link) = exits.of(at).get(usize::from(port)) else { return 0 };
            let link = &topology.links[*link as usize];
            time += Serialiser::new(link.rate, link.overhead).take(bytes) + link.delay;
            at = link.to;
        }
        time
    };
    let sends_updates = |worker: &u32| no_updates || workers.cluster_of[*worker as usize] != NO_CLUSTER;
    let has_part = |role: &Role| matches!(role, Role::Host(members) if members.iter().any(sends_updates));
    let hosts = topology.nodes.iter().enumerate().filter(|(_, n)| has_part(&n.role));
    hosts.map(|(id, _)| one_way(id as NodeId, server, update) + one_way(server, id as NodeId, ack)).max().unwrap_or(0)
}

/// Returns the rate of the slowest link from a host.
pub(super) fn host_rate_bps(topology: &Topology) -> u64 {
    let from_host = |link: &&Link| matches!(topology.nodes[link.from as usize].role, Role::Host(_));
    topology.links.iter().filter(from_host).map(|link| link.rate.bps()).min().unwrap_or(0)
}
