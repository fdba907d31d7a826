//! The configuration of a device's control plane before a run, one file per kind of device.
//!
//! Always as JSON, in words of the papers; in a device's own syntax only where that is public.

pub mod generic;

use serde_json::{Value, json};

use super::addressing::Addresses;
use super::{Facts, Profile};
use crate::Result;
use crate::registry::Named;

/// What a plan is made for.
pub struct Job<'a> {
    /// The device.
    pub profile: &'a Profile,
    /// What the experiment asks.
    pub facts: &'a Facts,
    /// Its addresses there.
    pub addresses: &'a Addresses,
}

/// A file in a device's own syntax: its name and text.
pub type SyntaxFile = (String, String);

/// A syntax of a device's own.
pub struct Syntax {
    /// Name, as `--syntax` takes it.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Writes the files; refuses what the syntax has no words for.
    pub write: fn(&Job) -> Result<Vec<SyntaxFile>>,
}

/// An experiment for a kind of device, as `pktgen init` writes it.
pub struct DeviceTemplate {
    /// Whether there is a parameter server.
    pub server: bool,
    /// How many workers there are, unless the user says it.
    pub workers: u32,
    /// Rate of all workers together, unless the user says it.
    pub rate: &'static str,
    /// Whether frames are in the device's own layout.
    pub strict: bool,
    /// Sections from `[workload]` to `[target]`, which is left open. `WORKERS`, `CLUSTERS`, `PER_CLUSTER` and `RATE` are filled in.
    pub text: &'static str,
}

/// Makes the entries of one kind of device.
pub trait Planner: Named + Sync {
    /// An experiment for such a device; none where any will do.
    fn template(&self) -> Option<&'static DeviceTemplate> {
        None
    }

    /// Whether an acknowledgement of the server is for all workers of its cluster, by the device's multicast groups.
    fn groups_acks(&self) -> bool {
        false
    }

    /// The entries.
    fn plan(&self, job: &Job) -> Value;

    /// Syntaxes of its own that are public.
    fn syntaxes(&self) -> &'static [Syntax] {
        &[]
    }

    /// Why there is no other syntax, where there is none.
    fn unpublished(&self) -> &'static str {
        ""
    }
}

/// The whole plan: what is common to all devices, and the entries of this one.
pub fn plan(job: &Job) -> Value {
    let Job { profile, facts, addresses } = job;
    let mut whole = json!({
        "device": profile.name,
        "experiment": facts.experiment,
        "format": facts.format,
        "vlan": (addresses.vlan > 0).then_some(addresses.vlan),
        "ports": ports(job),
        "entries": profile.planner.plan(job),
    });
    let planner = profile.planner;
    if planner.syntaxes().is_empty() {
        whole["syntax"] = json!(planner.unpublished());
    }
    whole
}

/// Every port that is used, who is there, and its rate.
fn ports(job: &Job) -> Vec<Value> {
    let rate = job.profile.ports.rate.to_string();
    let mut ports: Vec<(String, Vec<String>)> = Vec::new();
    let mut put = |port: String, who: String| match ports.iter_mut().find(|(name, _)| *name == port) {
        Some((_, all)) => all.push(who),
        None => ports.push((port, vec![who])),
    };
    for worker in 0..job.addresses.workers.len() as u32 {
        put(job.profile.port_of(worker), format!("worker {worker}"));
    }
    if job.facts.has_server {
        put(job.profile.server_port(), "server".into());
    }
    ports.into_iter().map(|(port, hosts)| json!({ "port": port, "rate": rate, "hosts": hosts })).collect()
}

/// A worker as all plans name it.
pub fn worker_entry(job: &Job, worker: u32) -> Value {
    let station = job.addresses.workers[worker as usize];
    json!({
        "worker": worker,
        "ip": station.ip.to_string(),
        "mac": station.mac.to_string(),
        "port": job.profile.port_of(worker),
    })
}

/// The multicast group of every cluster, with its members.
pub fn groups(job: &Job) -> Vec<Value> {
    let group = |(cluster, members): (usize, &Vec<u32>)| {
        let members: Vec<_> = members.iter().map(|worker| worker_entry(job, *worker)).collect();
        let group = job.addresses.groups[cluster];
        json!({
            "cluster": cluster,
            "id": u64::from(job.profile.addressing.group_ids) + cluster as u64,
            "ip": group.ip.to_string(),
            "mac": group.mac.to_string(),
            "members": members,
        })
    };
    job.facts.clusters().iter().enumerate().map(group).collect()
}

/// A station, or null.
pub fn station(station: Option<super::Station>) -> Value {
    station.map_or(Value::Null, |own| json!({ "ip": own.ip.to_string(), "mac": own.mac.to_string() }))
}
