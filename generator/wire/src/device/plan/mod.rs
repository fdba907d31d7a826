//! The configuration of a device's control plane before a run, one file per kind of device.
//!
//! The output is JSON in terms of the papers; a device's own syntax is added only where it is public.

pub mod generic;

use serde_json::{Value, json};

use super::addressing::Addresses;
use super::{Facts, Profile};
use crate::Result;
use crate::registry::Named;

/// Input of a plan.
pub struct Job<'a> {
    /// The device.
    pub profile: &'a Profile,
    /// Requirements of the experiment.
    pub facts: &'a Facts,
    /// Addresses of the experiment at the device.
    pub addresses: &'a Addresses,
}

/// A file in a device's own syntax: its name and text.
pub type SyntaxFile = (String, String);

/// A device-specific syntax.
pub struct Syntax {
    /// Name, the value of `--syntax`.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Writes the files; refuses what the syntax cannot express.
    pub write: fn(&Job) -> Result<Vec<SyntaxFile>>,
}

/// The template of an experiment for a kind of device, written by `pktgen init`.
pub struct DeviceTemplate {
    /// Whether there is a parameter server.
    pub server: bool,
    /// Default number of workers.
    pub workers: u32,
    /// Default rate of all workers together.
    pub rate: &'static str,
    /// Whether frames are in the device's own layout.
    pub strict: bool,
    /// Sections from `[workload]` to `[target]`, which is left open. `WORKERS`, `CLUSTERS`, `PER_CLUSTER` and `RATE` are filled in.
    pub text: &'static str,
}

/// Makes the entries of one kind of device.
pub trait Planner: Named + Sync {
    /// Returns the template of an experiment for such a device; `None` if any experiment fits.
    fn template(&self) -> Option<&'static DeviceTemplate> {
        None
    }

    /// Returns whether an acknowledgement of the server is for all workers of its cluster, by the device's multicast groups.
    fn groups_acks(&self) -> bool {
        false
    }

    /// Returns the entries.
    fn plan(&self, job: &Job) -> Value;

    /// Returns its public device-specific syntaxes.
    fn syntaxes(&self) -> &'static [Syntax] {
        &[]
    }

    /// Returns the reason for the lack of another syntax, or an empty text.
    fn unpublished(&self) -> &'static str {
        ""
    }
}

/// Returns the whole plan: the part common to all devices, and the entries of this one.
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

/// Returns every used port, with its users and its rate.
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

/// Returns the entry of a worker in all plans.
pub fn worker_entry(job: &Job, worker: u32) -> Value {
    let station = job.addresses.workers[worker as usize];
    json!({
        "worker": worker,
        "ip": station.ip.to_string(),
        "mac": station.mac.to_string(),
        "port": job.profile.port_of(worker),
    })
}

/// Returns the multicast group of every cluster, with its members.
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

/// Returns the entry of a station, or null.
pub fn station(station: Option<super::Station>) -> Value {
    station.map_or(Value::Null, |own| json!({ "ip": own.ip.to_string(), "mac": own.mac.to_string() }))
}
