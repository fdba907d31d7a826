//! `[addressing]` of a profile, and the addresses that follow from it for the workers of an experiment.

use crate::config::Section;
use crate::topology::Population;
use crate::wire::frame::mac_of;
use crate::{Error, Result};

use super::address::{Address, Mac};

/// Bytes of an 802.1Q tag.
pub(super) const TAG: usize = 4;

/// Returns the bytes that the tag of a VLAN adds to a frame; 0 for VLAN 0, which has no tag.
#[inline]
pub fn tag_bytes(vlan: u16) -> usize {
    if vlan > 0 { TAG } else { 0 }
}

/// The addresses of one participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// IPv4.
    pub ip: Address,
    /// Ethernet.
    pub mac: Mac,
}

/// The owner of the next hop's Ethernet address in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// The receiver: the device bridges, or is the receiver.
    Direct,
    /// The device: it routes.
    Device,
}

/// One of the four ends of the two cables of a run, at which a frame is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CableEnd {
    /// The workers' end, towards the device.
    Workers,
    /// The device's end, towards the workers.
    DeviceDown,
    /// The device's end, towards the server.
    DeviceUp,
    /// The server's end.
    Server,
}

/// Settings of one worker that differ from the rule: `[[addressing.hosts]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The worker.
    pub worker: u32,
    /// Its address.
    pub ip: Option<Address>,
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// The port of the device to which it is connected.
    pub port: Option<String>,
    /// Its cluster in the device's tables.
    pub cluster: Option<u16>,
}

/// `[addressing]`, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressing {
    /// Address of worker 0; the other workers follow in order.
    pub workers: Address,
    /// Ethernet address of worker 0; the others follow.
    pub worker_macs: Mac,
    /// All workers have the Ethernet address of worker 0: one card sends for all.
    pub shared_mac: bool,
    /// The parameter server.
    pub server: Option<Station>,
    /// The device, where it has addresses of its own.
    pub device: Option<Station>,
    /// Whether workers send to the device, not to the server.
    pub to_device: bool,
    /// Next hop.
    pub hop: Hop,
    /// Multicast group of cluster 0; the others follow.
    pub groups: Address,
    /// Number of that group in the device; the others follow.
    pub group_ids: u32,
    /// VLAN, 1 to 4094; 0 for none.
    pub vlan: u16,
    /// UDP port of the workers; none for the format's own.
    pub worker_port: Option<u16>,
    /// UDP port that they send to; none for the format's own.
    pub port: Option<u16>,
    /// Exceptions for some workers.
    pub hosts: Vec<Exception>,
}

/// Highest VLAN.
const VLAN_MAX: u16 = 4094;

impl Addressing {
    /// Reads the section.
    pub(super) fn read(section: &mut Section) -> Result<Self> {
        let station = |section: &mut Section, ip: &str, mac: &str| -> Result<Option<Station>> {
            match (section.get_opt(ip)?, section.get_opt(mac)?) {
                (Some(ip), Some(mac)) => Ok(Some(Station { ip, mac })),
                (None, None) => Ok(None),
                _ => Err(Error::config(format!(
                    "{}: {ip} and {mac} belong together; give both, or neither",
                    section.place(ip)
                ))),
            }
        };
        let to: Vec<_> = vec![("server", false, ""), ("device", true, "")];
        let hops = [("direct", Hop::Direct, ""), ("device", Hop::Device, "")];
        let addressing = Addressing {
            workers: section.get("workers", "10.0.0.1")?,
            worker_macs: section.get("worker_macs", "02:00:0a:00:00:01")?,
            shared_mac: section.get("shared_mac", false)?,
            server: station(section, "server", "server_mac")?,
            device: station(section, "device", "device_mac")?,
            to_device: section.choose("to", "server", &to)?,
            hop: section.choose("next_hop", "direct", &hops)?,
            groups: section.get("groups", "239.192.0.0")?,
            group_ids: section.get("group_ids", 1u32)?,
            vlan: section.get_in("vlan", 0u32, 0..=VLAN_MAX)?,
            worker_port: section.get_opt("worker_port")?,
            port: section.get_opt("port")?,
            hosts: section.get_sections("hosts")?.into_iter().map(exception).collect::<Result<_>>()?,
        };
        for (key, port) in [("worker_port", addressing.worker_port), ("port", addressing.port)] {
            if port == Some(0) {
                return Err(Error::config(format!("{}: UDP ports are from 1 to 65535", section.place(key))));
            }
        }
        if addressing.device.is_none() && (addressing.to_device || addressing.hop == Hop::Device) {
            return Err(Error::config(format!(
                "{}: frames go to the device, which has no address; give device and device_mac",
                section.place("device")
            )));
        }
        if addressing.server.is_none() && !addressing.to_device {
            return Err(Error::config(format!(
                "{}: workers send to the server, which has no address; give server and server_mac, or to = \"device\"",
                section.place("server")
            )));
        }
        Ok(addressing)
    }

    fn exception(&self, worker: u32) -> Option<&Exception> {
        self.hosts.iter().find(|host| host.worker == worker)
    }

    /// Returns the device's port of a worker, if the profile states it.
    pub fn port_of(&self, worker: u32) -> Option<&str> {
        self.exception(worker).and_then(|host| host.port.as_deref())
    }

    /// Returns all addresses, or an error for those that do not fit 32 or 48 bits.
    pub fn resolve(&self, workers: &Population) -> Result<Addresses, String> {
        let worker = |worker: u32| {
            let (own, step) = (self.exception(worker), if self.shared_mac { 0 } else { worker });
            let ip = own.and_then(|own| own.ip).or_else(|| self.workers.after(worker));
            let mac = own.and_then(|own| own.mac).or_else(|| self.worker_macs.after(step));
            let (Some(ip), Some(mac)) = (ip, mac) else {
                return Err(format!(
                    "worker {worker} is beyond the last address after {} and {}; begin lower",
                    self.workers, self.worker_macs
                ));
            };
            Ok(Station { ip, mac })
        };
        let group = |cluster: u32| {
            let ip = self.groups.after(cluster).filter(|ip| ip.is_group());
            let wrong =
                || format!("{} plus {cluster} is no multicast group; use 224.0.0.0 to 239.255.255.255", self.groups);
            ip.map(|ip| Station { ip, mac: Mac(mac_of(ip.0)) }).ok_or_else(wrong)
        };
        Ok(Addresses {
            workers: (0..workers.len() as u32).map(worker).collect::<Result<_, _>>()?,
            groups: (0..workers.clusters_ever() as u32).map(group).collect::<Result<_, _>>()?,
            server: self.server,
            device: self.device,
            to_device: self.to_device,
            hop: self.hop,
            vlan: self.vlan,
            worker_port: self.worker_port,
            port: self.port,
        })
    }
}

fn exception(mut section: Section) -> Result<Exception> {
    let worker = section.get_opt("worker")?;
    let Some(worker) = worker else {
        return Err(Error::config(format!("{}: say which worker this is about: worker = N", section.place("worker"))));
    };
    let (ip, mac) = (section.get_opt("ip")?, section.get_opt("mac")?);
    let host = Exception { worker, ip, mac, port: section.get_opt("port")?, cluster: section.get_opt("cluster")? };
    section.end()?;
    Ok(host)
}

/// The addresses of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// Addresses of the workers.
    pub workers: Vec<Station>,
    /// Addresses of the clusters' multicast groups.
    pub groups: Vec<Station>,
    /// Address of the parameter server.
    pub server: Option<Station>,
    /// Address of the device.
    pub device: Option<Station>,
    /// Whether workers send to the device.
    pub to_device: bool,
    /// Next hop.
    pub hop: Hop,
    /// VLAN; 0 for none.
    pub vlan: u16,
    /// UDP port of the workers, if it differs from the format's.
    pub worker_port: Option<u16>,
    /// UDP port to which workers send, if it differs from the format's.
    pub port: Option<u16>,
}

impl Addresses {
    /// Appends up to `count` free addresses after those of the workers, for hosts that are not part of the run.
    pub fn with_strangers(mut self, count: u32) -> Self {
        let Some(last) = self.workers.last().copied() else { return self };
        for n in 1..=count {
            let (Some(ip), Some(mac)) = (last.ip.after(n), last.mac.after(n)) else { break };
            let others = [self.server, self.device].into_iter().flatten();
            if others.chain(self.workers.iter().copied()).any(|own| own.ip == ip) {
                break;
            }
            self.workers.push(Station { ip, mac });
        }
        self
    }

    /// Returns the counterpart of the workers on their cable, or of the server on its cable.
    pub fn peer(&self, place: CableEnd) -> Option<Station> {
        match place {
            CableEnd::Workers | CableEnd::DeviceDown if self.to_device => self.device,
            _ => self.server.or(self.device),
        }
    }
}
