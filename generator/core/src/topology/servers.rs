//! Parameter servers and their racks: the device to which each server is connected (LIBRA §6, "Multi-rack switches").

use super::{NodeId, Role, Topology};

/// The parameter servers of a network, by number, and their adjacent devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Racks {
    /// The node of each server.
    pub servers: Vec<NodeId>,
    /// The device of each rack, in the order of their first servers.
    pub devices: Vec<NodeId>,
    /// The rack of each server.
    pub rack_of: Vec<u16>,
}

impl Racks {
    /// Returns the number of the first server of a rack.
    pub fn first_server(&self, rack: usize) -> usize {
        self.rack_of.iter().position(|of| usize::from(*of) == rack).unwrap_or(0)
    }
}

impl Topology {
    /// Returns all parameter servers.
    pub fn servers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().enumerate().filter(|(_, n)| n.role == Role::Server).map(|(i, _)| i as NodeId)
    }

    /// Returns the parameter servers with their racks.
    pub fn racks(&self) -> Racks {
        let mut racks = Racks::default();
        for server in self.servers() {
            let Some((_, link)) = self.ports(server).next() else { continue };
            let known = racks.devices.iter().position(|device| *device == link.to);
            let rack = known.unwrap_or(racks.devices.len());
            if known.is_none() {
                racks.devices.push(link.to);
            }
            racks.servers.push(server);
            racks.rack_of.push(rack as u16);
        }
        racks
    }

    /// Returns the devices of which one at a time sums for one parameter server (LIBRA §6: those of its rack): the adjacent device or,
    /// under a controller, the neighbours of that device; the first of them is active at the beginning.
    pub fn aggregators(&self) -> Vec<NodeId> {
        let Some(&beside) = self.racks().devices.first() else { return Vec::new() };
        match self.controller() {
            None => vec![beside],
            Some(_) => {
                let ends = self.ports(beside).map(|(_, link)| link.to);
                ends.filter(|node| self.nodes[*node as usize].role == Role::Device).collect()
            }
        }
    }
}

/// Returns the name of a parameter server in shapes that can have several.
pub(super) fn name_of(server: u32) -> String {
    if server == 0 { "ps".into() } else { format!("ps{server}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Rate, Size};

    #[test]
    fn a_rack_is_what_is_around_a_device() {
        let mut t = Topology::default();
        assert_eq!((t.racks(), t.aggregators()), (Racks::default(), Vec::new()));
        let tors = ["a", "b"].map(|name| t.add(name, Role::Device));
        for (server, tor) in [tors[1], tors[0], tors[1]].into_iter().enumerate() {
            let node = t.add(name_of(server as u32), Role::Server);
            t.connect(tor, node, Rate::from_bps(1), Rate::from_bps(1), 0, Size::default());
        }
        let racks = t.racks();
        assert_eq!(
            (&racks.servers[..], &racks.devices[..], &racks.rack_of[..]),
            (&[2, 3, 4][..], &[1, 0][..], &[0, 1, 0][..])
        );
        assert_eq!((racks.first_server(0), racks.first_server(1)), (0, 1));
        assert_eq!((t.nodes[2].name.as_str(), t.nodes[4].name.as_str(), t.aggregators()), ("ps", "ps2", vec![1]));
    }
}
