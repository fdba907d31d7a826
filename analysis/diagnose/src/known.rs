//! What is known of a run's frames beside its captures: wire formats, and the profile of its device.

use std::collections::{HashMap, HashSet};

use pktgen_core::topology::Population;
use pktgen_wire::device::{CableEnd, Hop, Profile, Protocols, shipped};
use pktgen_wire::wire::sight::Datagram;
use pktgen_wire::wire::{Format, Formats};

use crate::evidence::Evidence;

/// Formats and profile.
pub(crate) struct Known {
    pub(crate) formats: Formats,
    /// The run's, if it can be read.
    profile: Option<Profile>,
}

/// Addresses of a run as its profile has them: what frames on its cables must have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addressed {
    /// Where workers send to.
    pub(crate) receiver: Option<u32>,
    /// The server's Ethernet address, if frames to it must have that.
    pub(crate) server_station: Option<[u8; 6]>,
    /// Ethernet addresses of the members of each group, by its address.
    pub(crate) members: HashMap<u32, HashSet<[u8; 6]>>,
}

/// A format whose UDP ports the profile exchanges for others: the workers' port, and the one that they send to.
#[derive(Clone, Copy)]
pub(crate) struct PortsOnCable {
    format: &'static dyn Format,
    ours: (u16, u16),
    on_cable: (Option<u16>, Option<u16>),
}

impl Known {
    pub(crate) fn of(evidence: &Evidence, protocols: &Protocols) -> Known {
        let profile = shipped::open(evidence.text("target", "profile"), "target.profile", protocols).ok();
        Known { formats: protocols.formats, profile }
    }

    /// Parts of a frame that the device must leave as they are.
    pub(crate) fn keeps(&self) -> &[String] {
        self.profile.as_ref().map_or(&[], |profile| &profile.keeps)
    }

    /// The groups that results may go to.
    pub(crate) fn groups(&self, evidence: &Evidence) -> Option<HashSet<u32>> {
        let base = self.profile.as_ref()?.addressing.groups;
        let clusters = evidence.manifest.clusters.iter().max().map_or(0, |last| u32::from(*last));
        Some((0..=clusters).filter_map(|cluster| Some(base.after(cluster)?.0)).collect())
    }

    /// Addresses on the cables; none where frames have others there than the profile's.
    pub(crate) fn addresses(&self, evidence: &Evidence) -> Option<Addressed> {
        if !evidence.flag("transport", "readdress") {
            return None;
        }
        let profile = self.profile.as_ref()?;
        let population = Population { cluster_of: evidence.manifest.clusters.clone(), moves: Vec::new() };
        let all = profile.addressing.resolve(&population).ok()?;
        // A device that routes and leaves Ethernet's destination as it is may be right: then frames to the server keep the device's.
        let written = all.hop == Hop::Direct || profile.rewrites.iter().any(|field| field == "eth_dst");
        let mut members: HashMap<u32, HashSet<[u8; 6]>> = HashMap::new();
        for (worker, cluster) in all.workers.iter().zip(&population.cluster_of) {
            if let Some(group) = all.groups.get(usize::from(*cluster)) {
                members.entry(group.ip.0).or_default().insert(worker.mac.0);
            }
        }
        Some(Addressed {
            receiver: all.peer(CableEnd::Workers).map(|peer| peer.ip.0),
            server_station: all.server.filter(|_| written).map(|server| server.mac.0),
            members,
        })
    }

    /// The run's format, if the profile has other ports than it has.
    pub(crate) fn ports(&self, evidence: &Evidence) -> Option<PortsOnCable> {
        let profile = self.profile.as_ref()?;
        let on_cable = (profile.addressing.worker_port, profile.addressing.port);
        let listed = |name: &str| profile.formats.is_empty() || profile.formats.iter().any(|own| own == name);
        let all = || self.formats.iter().copied().filter(|format| listed(format.name()));
        let system = evidence.text("endpoint", "workers");
        let format = all().find(|format| !system.is_empty() && format.name().starts_with(system));
        let format = format.or_else(|| all().next().filter(|_| all().count() == 1))?;
        let ours = format.facts().ports.filter(|_| on_cable != (None, None))?;
        Some(PortsOnCable { format, ours, on_cable })
    }
}

impl PortsOnCable {
    /// A datagram with the format's own ports, if it has one of the profile's.
    pub(crate) fn inside<'a>(&self, datagram: &Datagram<'a>) -> Option<(&'static dyn Format, Datagram<'a>)> {
        let [dst_port, src_port] = [datagram.dst_port, datagram.src_port].map(|port| self.exchanged(port));
        let known = dst_port.is_some() || src_port.is_some();
        let (dst_port, src_port) = (dst_port.unwrap_or(datagram.dst_port), src_port.unwrap_or(datagram.src_port));
        known.then_some((self.format, Datagram { dst_port, src_port, ..*datagram }))
    }

    fn exchanged(&self, port: u16) -> Option<u16> {
        exchanged(port, self.ours, self.on_cable)
    }
}

/// The format's own port for one on the cable.
fn exchanged(port: u16, ours: (u16, u16), (workers, receiver): (Option<u16>, Option<u16>)) -> Option<u16> {
    if receiver == Some(port) { Some(ours.1) } else { (workers == Some(port)).then_some(ours.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_the_profile_are_exchanged_for_those_of_the_format() {
        let of = |port| exchanged(port, (1, 2), (Some(13100), Some(13000)));
        assert_eq!([13000, 13100, 2].map(of), [Some(2), Some(1), None]);
        assert_eq!(exchanged(2, (1, 2), (None, None)), None);
    }
}
