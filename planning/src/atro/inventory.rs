//! Available hardware with different switches, ports and rates: η of each node (ATRO equation 7), b of each link (equation 14).

use std::collections::{BTreeMap, BTreeSet};

use pktgen_core::{Error, Result};

use super::cluster::{Cluster, SIZE_MAX, within};

/// The name of the parameter server in plans.
pub(super) const SERVER_NAME: &str = "ps";

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Name in plans.
    pub name: String,
    /// Number of ports, η.
    pub ports: u64,
    /// Rate of each port.
    pub rate_bps: u64,
    /// Whether it aggregates.
    pub aggregates: bool,
}

/// A host with one port and one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Name in plans.
    pub name: String,
    /// Rate of its port.
    pub rate_bps: u64,
}

/// Switches, hosts, and the server, each with its ports and rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// Switches, those that aggregate first.
    pub switches: Vec<Switch>,
    /// Hosts, one for each worker.
    pub hosts: Vec<Host>,
    /// Rate of the server's port.
    pub server_bps: u64,
    /// Pairs of switches, or a switch and the server (the number after the last switch), whose link is slower than their ports.
    pub links: BTreeMap<(usize, usize), u64>,
    /// Number of layers, L of equation 18.
    pub layers: u64,
    /// Number of ports of the optical device, if limited.
    pub device_ports: Option<u64>,
}

impl Inventory {
    /// Creates an inventory of equal switches and hosts.
    pub fn of_cluster(cluster: &Cluster, workers: u64) -> Self {
        let Cluster { switches, aggregators, ports, layers, capacity_bps } = *cluster;
        let switch = |number: u64| Switch {
            name: switch_name(number, aggregators),
            ports,
            rate_bps: capacity_bps,
            aggregates: number < aggregators,
        };
        let host = |number: u64| Host { name: format!("host{number}"), rate_bps: capacity_bps };
        Inventory {
            switches: (0..switches).map(switch).collect(),
            hosts: (0..workers).map(host).collect(),
            server_bps: capacity_bps,
            links: BTreeMap::new(),
            layers,
            device_ports: None,
        }
    }

    /// Returns the number of the server as an end of links.
    pub fn server(&self) -> usize {
        self.switches.len()
    }

    /// Returns the rate of a link between two switches, or a switch and the server: that of the slower port, or the limit of the pair.
    pub fn link_bps(&self, a: usize, b: usize) -> u64 {
        let port = |end: usize| self.switches.get(end).map_or(self.server_bps, |switch| switch.rate_bps);
        let ports = port(a).min(port(b));
        self.links.get(&(a.min(b), a.max(b))).map_or(ports, |own| ports.min(*own))
    }

    /// Returns the rate of a link between a host and a switch.
    pub(super) fn host_bps(&self, host: usize, switch: usize) -> u64 {
        self.hosts[host].rate_bps.min(self.switches[switch].rate_bps)
    }

    /// Returns the rate of the slowest host, which no AllReduce exceeds: all workers send at one rate (ATRO §III-A).
    pub(super) fn slowest_host_bps(&self) -> u64 {
        self.hosts.iter().map(|host| host.rate_bps).min().unwrap_or(0)
    }

    /// Returns this inventory as a cluster if all switches and links are equal; only hosts may be slower.
    pub fn cluster(&self) -> Option<Cluster> {
        let first = self.switches.first()?;
        let alike = |switch: &Switch| (switch.ports, switch.rate_bps) == (first.ports, first.rate_bps);
        let free = self.links.is_empty() && self.server_bps >= first.rate_bps;
        (free && self.switches.iter().all(alike)).then(|| Cluster {
            switches: self.switches.len() as u64,
            aggregators: self.switches.iter().filter(|switch| switch.aggregates).count() as u64,
            ports: first.ports,
            layers: self.layers,
            capacity_bps: first.rate_bps,
        })
    }

    /// Returns the number of ports of all switches, hosts, and the server: with an optical device of this size every wiring is possible.
    pub fn ports(&self) -> u64 {
        self.switches.iter().map(|switch| switch.ports).sum::<u64>() + self.hosts.len() as u64 + 1
    }

    /// Refuses an impossible inventory, with the setting to change.
    pub fn check(&self) -> Result<()> {
        within("switches", self.switches.len() as u64, 1, SIZE_MAX)?;
        within("workers", self.hosts.len() as u64, 1, SIZE_MAX)?;
        within("layers", self.layers, 1, SIZE_MAX)?;
        let mut names = BTreeSet::from([SERVER_NAME]);
        for switch in &self.switches {
            within(&format!("ports of {}", switch.name), switch.ports, 2, SIZE_MAX)?;
            within(&format!("rate of {} in bit/s", switch.name), switch.rate_bps, 1, u64::MAX)?;
        }
        // After the switches: the default is the rate of the fastest one.
        within("rate of the server in bit/s", self.server_bps, 1, u64::MAX)?;
        for host in &self.hosts {
            within(&format!("rate of {} in bit/s", host.name), host.rate_bps, 1, u64::MAX)?;
        }
        let all = self.switches.iter().map(|switch| &switch.name).chain(self.hosts.iter().map(|host| &host.name));
        match all.into_iter().find(|name| !names.insert(name)) {
            Some(name) => Err(Error::config(format!("name: \"{name}\" is taken; give every switch and host its own"))),
            None => Ok(()),
        }
    }
}

/// Returns the default name of a switch by its number.
pub(super) fn switch_name(number: u64, aggregators: u64) -> String {
    format!("{}{number}", if number < aggregators { "agg" } else { "cs" })
}
