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
        /// Hosts with their workers: `"name FIRST-LAST"`.
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
    let rate = |text: &str| text.parse::<Rate>().map_err(|e| e.to_string());
    let up = rate(rates[0])?;
    Ok((node(a)?, node(b)?, up, rates.get(1).map_or(Ok(up), |r| rate(r))?))
}
