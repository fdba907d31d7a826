//! An arbitrary network, listed explicitly: `devices = ["SW1", ...]`, `hosts = ["h 0-26", ...]`, `links = ["h SW1
//! 100Gbps", ...]`; `server` may name several.

use super::{NodeId, Population, Role, Shape, Topology};
use crate::config::{KeyTables, Section, settings};
use crate::registry::Named;
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// `kind = "custom"`.
pub(crate) struct Custom;

impl Named for Custom {
    fn name(&self) -> &'static str {
        "custom"
    }
    fn about(&self) -> &'static str {
        "hosts, devices and links listed in the experiment file"
    }
}

settings! {
    /// Keys of `[topology]`.
    struct Settings {
        /// Hosts with their workers, flows of background traffic last: `"name FIRST-LAST"`.
        hosts: Vec<String> = [];
        /// Names of devices.
        devices: Vec<String> = [];
        /// Name of the server; several names are separated by spaces.
        server: String = "ps";
        /// Links: `"NODE NODE RATE [RATE BACK]"`, the node nearer to the workers first.
        links: Vec<String> = [];
        /// Propagation delay of each link, one way.
        delay: Span = "0ps";
        /// Per-frame overhead on a link, beyond the frame's bytes.
        overhead: Size = "0B";
    }
}

impl Shape for Custom {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let Settings { hosts, devices, server, links, delay, overhead } = Settings::read(section)?;
        let mut t = Topology::default();
        for device in devices {
            t.add(device, Role::Device);
        }
        for name in server.split_whitespace() {
            t.add(name, Role::Server);
        }
        for host in &hosts {
            let (name, members) = parse_host(host, workers).ok_or_else(|| {
                Error::config(format!(
                    "{}: \"{host}\" is not a host; write \"name FIRST-LAST\" with worker ids from 0 to {}",
                    section.place("hosts"),
                    workers.len().saturating_sub(1)
                ))
            })?;
            t.add(name, Role::Host(members));
        }
        if let Some((worker, seats)) = t.misplaced(workers.len()) {
            return Err(Error::config(format!(
                "{}: worker {worker} sits on {seats} hosts; every worker sits on exactly 1: list the workers 0 to {}{}",
                section.place("hosts"),
                workers.len() - 1,
                super::flows_among(workers)
            )));
        }
        for link in &links {
            let (a, b, up, down) = parse_link(&t, link).map_err(|why| {
                Error::config(format!(
                    "{}: \"{link}\": {why}; write \"NODE NODE RATE [RATE BACK]\", the first node being nearer to the workers",
                    section.place("links")
                ))
            })?;
            t.connect(a, b, up, down, delay.ps(), overhead);
        }
        Ok(t)
    }
}

/// Parses `name 0-8` or `name 3`.
fn parse_host(text: &str, workers: &Population) -> Option<(String, Vec<u32>)> {
    let (name, range) = text.split_once(' ')?;
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && (last as usize) < workers.len()).then(|| (name.to_owned(), (first..=last).collect()))
}

fn parse_link(t: &Topology, text: &str) -> Result<(NodeId, NodeId, Rate, Rate), String> {
    let parts: Vec<_> = text.split_whitespace().collect();
    let (a, b, rates) = match parts[..] {
        [a, b, ref rates @ ..] if (1..=2).contains(&rates.len()) => (a, b, rates),
        _ => return Err(format!("it has {} words", parts.len())),
    };
    let node = |name: &str| t.find(name).ok_or_else(|| format!("there is no node \"{name}\""));
    let rate = |text: &str| match text.parse::<Rate>() {
        Ok(rate) if rate.bps() == 0 => Err(format!("{text} is not above 0bps")),
        read => read.map_err(|e| e.to_string()),
    };
    let up = rate(rates[0])?;
    Ok((node(a)?, node(b)?, up, rates.get(1).map_or(Ok(up), |r| rate(r))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;
    use crate::record::NO_CLUSTER;

    #[test]
    fn hosts_have_every_worker_once_flows_included() {
        let build = |hosts: &[&str]| {
            let workers = Population { cluster_of: vec![0, NO_CLUSTER, NO_CLUSTER], moves: Vec::new() };
            Custom.build(&mut Section::of("topology", &[("hosts", Value::from(hosts))]), &workers)
        };
        let refused = |hosts: &[&str]| build(hosts).unwrap_err().to_string();
        let why = refused(&["h 0-0"]);
        assert!(why.contains("topology.hosts: worker 1 sits on 0 hosts") && why.contains("workers 0 to 2"), "{why}");
        assert!(why.contains("2 of them flows of background traffic (workload.background_flows)"), "{why}");
        assert!(refused(&["h 0-2", "i 2"]).contains("worker 2 sits on 2 hosts"));
        assert_eq!(build(&["h 0-1", "i 2"]).unwrap().nodes.len(), 3);
    }
}
