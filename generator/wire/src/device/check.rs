//! Checks of an experiment against a device.

use std::collections::BTreeMap;

use super::addressing::{Addresses, Hop};
use super::facts::Facts;
use super::limit::LIMITS;
use super::profile::Profile;
use crate::{Error, Result};

/// A finding of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileFinding {
    /// What was checked: a limit, or a key of the profile.
    pub what: String,
    /// Whether the device cannot do it; else the finding is a note.
    pub refused: bool,
    /// Value, limit, its source, and the remedy.
    pub text: String,
}

/// The result of all checks of an experiment against a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Names of the checks that passed.
    pub kept: Vec<String>,
    /// The other findings.
    pub findings: Vec<ProfileFinding>,
}

impl Checked {
    fn refuse(&mut self, what: &str, text: String) {
        self.findings.push(ProfileFinding { what: what.into(), refused: true, text });
    }

    /// Returns the texts of the refusals.
    pub fn refusals(&self) -> impl Iterator<Item = &str> {
        self.findings.iter().filter(|finding| finding.refused).map(|finding| finding.text.as_str())
    }

    /// Returns an error with all refusals, if there are any.
    pub fn into_result(self) -> Result<Self> {
        let texts: Vec<_> = self.refusals().collect();
        if texts.is_empty() { Ok(self) } else { Err(Error::config(texts.join("\n"))) }
    }
}

/// Checks `facts` against `profile`.
pub fn check(profile: &Profile, facts: &Facts) -> Checked {
    let mut checked = Checked::default();
    of_format(profile, facts, &mut checked);
    for limit in &profile.limits {
        let Some(kind) = LIMITS.iter().find(|kind| kind.name == limit.of) else { continue };
        let Some(value) = (kind.value)(facts, profile) else { continue };
        if !limit.refuses(value) {
            checked.kept.push(format!("{} {value}, {} ({})", kind.about, limit.allows(), limit.source));
            continue;
        }
        let text = format!(
            "{}: {} {value}, and {} takes {} ({}); {}",
            facts.experiment,
            kind.about,
            profile.name,
            limit.allows(),
            limit.source,
            (kind.remedy)(facts)
        );
        checked.findings.push(ProfileFinding { what: limit.of.into(), refused: !limit.note, text });
    }
    of_ports(profile, facts, &mut checked);
    if facts.has_server && profile.addressing.server.is_none() {
        let text = "the experiment has a parameter server and the profile no address for it; give addressing.server and \
                    addressing.server_mac";
        checked.refuse("addressing.server", format!("{}: {text}", profile.name));
    }
    match profile.addressing.resolve(&facts.workers) {
        Err(why) => checked.refuse("addressing", format!("{}: {why}", profile.name)),
        Ok(addresses) => of_addresses(profile, facts, &addresses, &mut checked),
    }
    checked
}

fn of_format(profile: &Profile, facts: &Facts, checked: &mut Checked) {
    // A device of a format reads each of its layouts, if its profile does not name one of them.
    let mut names = [&facts.format, &facts.on_wire].into_iter();
    if let Some(name) = names.find(|name| profile.formats.is_empty() || profile.formats.contains(name)) {
        checked.kept.push(format!("wire format: {name}"));
        return;
    }
    let sent = if facts.on_wire.is_empty() { &facts.format } else { &facts.on_wire };
    let text = format!(
        "{}: its workers send {sent}, and {} supports {}; choose another profile, another layout (transport.on_wire), or other \
         workers (endpoint.workers)",
        facts.experiment,
        profile.name,
        profile.formats.join(", ")
    );
    checked.refuse("format", text);
}

/// Checks that there are enough ports, and that the server's port is no worker's.
fn of_ports(profile: &Profile, facts: &Facts, checked: &mut Checked) {
    let ports = &profile.ports;
    let numbers = (0..facts.workers.len() as u32).filter(|worker| profile.addressing.port_of(*worker).is_none());
    let Some(last) = numbers.map(|worker| profile.port_number(worker)).max() else {
        return of_server_port(profile, facts, checked);
    };
    // The server has a separate port, usually the last one.
    let room = match (facts.has_server, ports.server) {
        (true, server) if server >= last => server.saturating_sub(ports.first),
        _ => ports.count,
    };
    let needed = last - ports.first + 1;
    if needed <= room {
        checked.kept.push(format!("ports for workers: {needed}, at most {room}"));
        return of_server_port(profile, facts, checked);
    }
    let text = format!(
        "{}: {} workers need {needed} ports, {} to each, and {} has {room} for them; lower the number of workers, raise \
         ports.workers_per_port where several are behind one card, or ports.count",
        facts.experiment,
        facts.workers.len(),
        ports.workers_per_port,
        profile.name
    );
    checked.refuse("ports", text);
}

/// Checks that no worker is at the server's port.
fn of_server_port(profile: &Profile, facts: &Facts, checked: &mut Checked) {
    if !facts.has_server {
        return;
    }
    let server = profile.server_port();
    let Some(worker) = (0..facts.workers.len() as u32).find(|worker| profile.port_of(*worker) == server) else {
        return;
    };
    let text = format!(
        "{}: worker {worker} and the server are both at port {server}; change ports.server, ports.count, \
         ports.workers_per_port or addressing.hosts",
        profile.name
    );
    checked.refuse("ports", text);
}

/// Highest number of a multicast group: a Tofino's replication engine has 16 bits for it.
const GROUP_ID_MAX: u64 = 0xffff;

/// Checks that addresses are different and of the right kind, and that device and experiment have the same clusters.
fn of_addresses(profile: &Profile, facts: &Facts, addresses: &Addresses, checked: &mut Checked) {
    let name = &profile.name;
    let mut ips = BTreeMap::new();
    let mut macs = BTreeMap::new();
    let worker = |(number, station)| (format!("worker {number}"), station);
    let stations = addresses.workers.iter().enumerate().map(worker);
    let fixed = [("the server", &addresses.server), ("the device", &addresses.device)];
    let fixed = fixed.iter().filter_map(|(who, station)| Some(((*who).to_owned(), station.as_ref()?)));
    let before = checked.findings.len();
    for (who, station) in stations.chain(fixed) {
        if let Some(other) = ips.insert(station.ip, who.clone()) {
            let text =
                format!("{name}: {other} and {who} both have {}; addresses must differ: change addressing", station.ip);
            checked.refuse("addressing", text);
        }
        let shared = profile.addressing.shared_mac && who.starts_with("worker");
        if let Some(other) =
            macs.insert(station.mac, who.clone()).filter(|other| !(shared && other.starts_with("worker")))
        {
            let text = format!(
                "{name}: {other} and {who} both have {}; Ethernet addresses must differ: change addressing, or set \
                 addressing.shared_mac = true if one card sends for all workers",
                station.mac
            );
            checked.refuse("addressing", text);
        }
        if station.mac.is_group() || station.ip.is_group() {
            let text = format!(
                "{name}: {who} has {} and {}, and one of them is of a multicast group; give it an address of its own",
                station.ip, station.mac
            );
            checked.refuse("addressing", text);
        }
        if station.mac.is_nobodys() || station.ip.is_nobodys() {
            let text = format!(
                "{name}: {who} has {} and {}, and one of them can be no interface's; give it an address of its own in addressing",
                station.ip, station.mac
            );
            checked.refuse("addressing", text);
        }
        // One such message is sufficient: further workers would repeat it.
        if checked.findings.len() > before {
            break;
        }
    }
    let last_group = u64::from(profile.addressing.group_ids) + addresses.groups.len().saturating_sub(1) as u64;
    if last_group > GROUP_ID_MAX {
        checked.refuse(
            "addressing",
            format!("{name}: multicast groups up to number {last_group}, and there are {GROUP_ID_MAX}; lower addressing.group_ids"),
        );
    }
    if addresses.hop == Hop::Device && addresses.device.is_none() {
        checked
            .refuse("addressing", format!("{name}: frames go to a device without an address; give addressing.device"));
    }
    of_exceptions(profile, facts, checked);
    if checked.findings.len() == before {
        let (ips, macs) = (ips.len(), macs.len());
        checked.kept.push(format!("addresses: {ips} IPv4 and {macs} Ethernet addresses, all different"));
    }
}

/// Checks the profile's exceptions for single workers.
fn of_exceptions(profile: &Profile, facts: &Facts, checked: &mut Checked) {
    let workers = facts.workers.len();
    let mut seen = BTreeMap::new();
    for (place, host) in profile.addressing.hosts.iter().enumerate() {
        let worker = host.worker;
        if let Some(first) = seen.insert(worker, place) {
            let text = format!(
                "{}: addressing.hosts has worker {worker} twice, in entries {first} and {place}; join them",
                profile.name
            );
            checked.refuse("addressing.hosts", text);
        }
        let Some(cluster) = facts.workers.cluster_of.get(worker as usize) else {
            let text = format!(
                "{}: addressing.hosts: worker {worker} does not exist, {} has workers 0 to {}; remove the entry",
                profile.name,
                facts.experiment,
                workers.saturating_sub(1)
            );
            checked.refuse("addressing.hosts", text);
            continue;
        };
        if let Some(other) = host.cluster.filter(|other| other != cluster) {
            let text = format!(
                "{}: worker {worker} is in cluster {cluster}, and {} has it in cluster {other}; the device would merge it \
                 with others; correct addressing.hosts or the workload",
                facts.experiment, profile.name
            );
            checked.refuse("addressing.hosts", text);
        }
    }
}
