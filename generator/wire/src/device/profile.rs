//! A profile, read from TOML.

use crate::config::{Document, Section};
use crate::record::plan_hash;
use crate::registry::{find, suggest};
use crate::units::Rate;
use crate::{Error, Result};

use super::Protocols;
use super::addressing::Addressing;
use super::limit::Limit;
use super::plan::Planner;

/// Names of the parts of a frame that a device may rewrite or keep.
pub const FIELDS: &[&str] = &[
    "eth_src",
    "eth_dst",
    "vlan",
    "ip_tos",
    "ip_id",
    "ip_ttl",
    "ip_checksum",
    "ip_src",
    "ip_dst",
    "udp_src",
    "udp_dst",
    "udp_checksum",
    "header",
    "payload",
    "queue_status",
];

/// Sections and top-level keys of a profile.
const TOP: &[&str] = &["name", "about", "plan", "addressing", "frames", "limits", "ports", "counters"];

/// Ports of a device: `[ports]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfilePorts {
    /// Rate of each port.
    pub rate: Rate,
    /// Number of ports.
    pub count: u32,
    /// Number of the first port.
    pub first: u32,
    /// Pattern of port names: `{}` stands for the number.
    pub names: String,
    /// Workers that share a port, behind one card.
    pub workers_per_port: u32,
    /// Number of the server's port; by default the last one.
    pub server: u32,
    /// Bytes on the cable beside a frame: FCS, preamble, gap.
    pub overhead: u64,
}

impl ProfilePorts {
    fn read(section: &mut Section) -> Result<Self> {
        let rate: Rate = section.get("rate", "100Gbps")?;
        let count = section.get_in("count", 32u32, 1..=4096u32)?;
        let first: u32 = section.get_in("first", 1u32, 0..=4096u32)?;
        let names: String = section.get("names", "{}")?;
        if !names.contains("{}") {
            return Err(Error::config(format!(
                "{}: \"{names}\" calls all ports alike; put {{}} where the number goes",
                section.place("names")
            )));
        }
        if rate.bps() == 0 {
            return Err(Error::config(format!("{}: a port with {rate} carries nothing", section.place("rate"))));
        }
        let workers_per_port = section.get_in("workers_per_port", 1u32, 1..=u32::MAX)?;
        let server = section.get_in("server", first + count - 1, first..=first + count - 1)?;
        let overhead = section.get_in("overhead_bytes", 24u32, 0..=1000u64)?;
        Ok(ProfilePorts { rate, count, first, names, workers_per_port, server, overhead })
    }

    /// Returns the name of port `number`.
    pub fn name(&self, number: u32) -> String {
        self.names.replace("{}", &number.to_string())
    }
}

/// A counter of the device or its neighbours, and its expected value after a run: `[[counters.of]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileCounter {
    /// Its name on the device.
    pub name: String,
    /// How to read it.
    pub read: String,
    /// Its expected value: one of `COUNTED`.
    pub is: &'static str,
}

/// Expected values of counters.
pub(super) const COUNTED: &[&str] = &["frames_sent", "frames_to_server", "results", "zero"];

impl ProfileCounter {
    fn read(mut section: Section) -> Result<Self> {
        let choices: Vec<_> = COUNTED.iter().map(|name| (*name, *name, "")).collect();
        let counter = ProfileCounter {
            name: section.get("name", "")?,
            read: section.get("read", "")?,
            is: section.choose("is", "frames_sent", &choices)?,
        };
        section.end()?;
        Ok(counter)
    }
}

/// Expectations, limits and rewriting rules of a device.
#[derive(Clone)]
pub struct Profile {
    /// Name.
    pub name: String,
    /// One-line description.
    pub about: String,
    /// The configuration of its control plane.
    pub planner: &'static dyn Planner,
    /// Addresses.
    pub addressing: Addressing,
    /// Wire formats that it supports; empty for all.
    pub formats: Vec<String>,
    /// Parts of a frame that it rewrites.
    pub rewrites: Vec<String>,
    /// Parts of a frame that it leaves unchanged.
    pub keeps: Vec<String>,
    /// Limits.
    pub limits: Vec<Limit>,
    /// Ports.
    pub ports: ProfilePorts,
    /// Counters.
    pub counters: Vec<ProfileCounter>,
    /// Hash of its text, if it was read from one: experiments name their profiles only.
    pub hash: String,
}

impl Profile {
    /// Reads the text of a profile in a file called `file`.
    pub fn parse(text: &str, file: &str, known: &Protocols) -> Result<Self> {
        let profile = Self::read(Document::parse(text, file)?, known)?;
        Ok(Profile { hash: plan_hash(text, std::iter::empty()), ..profile })
    }

    /// Reads a profile that refers to formats and planners of `known`.
    pub fn read(mut document: Document, known: &Protocols) -> Result<Self> {
        let name = document.top("name", "unnamed")?;
        let about = document.top("about", "")?;
        let plan = document.top("plan", "generic")?;
        let planner = find(known.planners, "plan", &plan, &format!("{}: plan", document.name()))?;
        let mut section = document.section("addressing")?;
        let addressing = Addressing::read(&mut section)?;
        document.close(section)?;
        let mut section = document.section("frames")?;
        let formats: Vec<String> = section.get_list("formats", &[])?;
        formats
            .iter()
            .try_for_each(|name| find(known.formats, "wire format", name, &section.place("formats")).map(drop))?;
        let rewrites = fields(&mut section, "rewrites")?;
        let keeps = fields(&mut section, "keeps")?;
        if let Some(both) = rewrites.iter().find(|field| keeps.contains(field)) {
            return Err(Error::config(format!(
                "{}: the device rewrites \"{both}\" and keeps it; take it out of one of the lists",
                section.place("keeps")
            )));
        }
        document.close(section)?;
        let mut section = document.section("limits")?;
        let limits = section.get_sections("of")?.into_iter().map(Limit::read).collect::<Result<_>>()?;
        document.close(section)?;
        let mut section = document.section("ports")?;
        let ports = ProfilePorts::read(&mut section)?;
        document.close(section)?;
        let mut section = document.section("counters")?;
        let counters = section.get_sections("of")?.into_iter().map(ProfileCounter::read).collect::<Result<_>>()?;
        document.close(section)?;
        document.finish(TOP)?;
        let hash = String::new();
        Ok(Profile { name, about, planner, addressing, formats, rewrites, keeps, limits, ports, counters, hash })
    }

    /// Returns the default port number of a worker.
    pub(crate) fn port_number(&self, worker: u32) -> u32 {
        self.ports.first.saturating_add(worker / self.ports.workers_per_port)
    }

    /// Returns the port of a worker.
    pub fn port_of(&self, worker: u32) -> String {
        let written = self.addressing.port_of(worker).map(str::to_owned);
        written.unwrap_or_else(|| self.ports.name(self.port_number(worker)))
    }

    /// Returns the port of the server.
    pub(crate) fn server_port(&self) -> String {
        self.ports.name(self.ports.server)
    }
}

/// Reads a list of parts of a frame.
fn fields(section: &mut Section, key: &str) -> Result<Vec<String>> {
    let list: Vec<String> = section.get_list(key, &[])?;
    match list.iter().find(|name| !FIELDS.contains(&name.as_str())) {
        None => Ok(list),
        Some(name) => Err(Error::config(format!(
            "{}: \"{name}\" is no part of a frame{}; there are: {}",
            section.place(key),
            suggest(name, FIELDS),
            FIELDS.join(", ")
        ))),
    }
}
