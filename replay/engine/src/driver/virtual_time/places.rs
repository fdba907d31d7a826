//! Conversion of a network and its devices to places, lines and slots of a simulation.

use std::collections::VecDeque;

use pktgen_core::topology::{Link, Node, NodeId, Role, Topology};

use super::super::uplink::Uplink;
use super::remote::RemotePlace;
use super::{Line, Place, Slot};
use crate::target::device::Device;
use crate::target::remote::Remote;

/// Adds a slot; returns its number.
pub(super) fn add_slot(slots: &mut Vec<Slot>, slot: Slot) -> u32 {
    slots.push(slot);
    slots.len() as u32 - 1
}

/// Returns the place of each node; the ports of devices get slots. Links are measured if `metered`.
pub(super) fn places(
    topology: &Topology,
    devices: &mut [Option<Device>],
    mut remote: Option<(NodeId, Box<dyn Remote>)>,
    metered: bool,
    slots: &mut Vec<Slot>,
) -> Vec<Place> {
    let exits = topology.exits();
    let mut place = |(id, node): (usize, &Node)| {
        let id = id as NodeId;
        let links: Vec<_> = exits.of(id).iter().map(|link| (*link, &topology.links[*link as usize])).collect();
        let uplink = |(index, link): (u32, &Link)| Uplink::new(index, link, metered);
        match node.role {
            Role::Host(_) => Place::Host(uplink(links[0])),
            Role::Server | Role::Controller => Place::Server(uplink(links[0])),
            Role::Device => {
                if let Some((_, remote)) = remote.take_if(|(node, _)| *node == id) {
                    return Place::Remote(Box::new(RemotePlace::new(remote, id, topology, metered)));
                }
                let Some(mut device) = devices[id as usize].take() else { unreachable!("devices are built") };
                device.first_slot = slots.len() as u32;
                slots.extend((0..links.len() as u16).map(|port| Slot::Port { node: id, port }));
                for (port, (_, link)) in device.ports.iter_mut().zip(&links) {
                    if metered {
                        port.measure(link.overhead);
                    }
                }
                Place::Device(Box::new(device))
            }
        }
    };
    topology.nodes.iter().enumerate().map(&mut place).collect()
}

/// Returns the lines of all links; those with events get slots, ordered by destination node.
pub(super) fn lines(topology: &Topology, react: bool, slots: &mut Vec<Slot>) -> Vec<Line> {
    let line = |link: &Link| {
        let to_host = matches!(topology.nodes[link.to as usize].role, Role::Host(_));
        Line { to: link.to, frames: VecDeque::new(), slot: 0, lazy: to_host && !react }
    };
    let mut lines: Vec<_> = topology.links.iter().map(line).collect();
    let mut order: Vec<_> = (0..lines.len()).filter(|&i| !lines[i].lazy).collect();
    order.sort_by_key(|&i| topology.links[i].to);
    for index in order {
        lines[index].slot = slots.len() as u32;
        slots.push(Slot::Arrival { link: index as u32 });
    }
    lines
}

/// Returns the host, if there is only one.
pub(super) fn lazy_host(topology: &Topology) -> Option<NodeId> {
    let mut hosts = topology.nodes.iter().enumerate().filter(|(_, n)| matches!(n.role, Role::Host(_)));
    match (hosts.next(), hosts.next()) {
        (Some((only, _)), None) => Some(only as NodeId),
        _ => None,
    }
}
