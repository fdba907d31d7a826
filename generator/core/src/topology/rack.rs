//! Servers on the forwarding engines of one router, without a parameter server: Trio-ML's testbed (§6.1, Figure 11).
//!
//! With one engine, all servers are on it. With several, each has an equal share of the servers, and a further engine
//! is on top: in the paper PFE1 and PFE2 have three servers each and PFE4 is the top-level aggregator.

use super::{Population, Role, Shape, Topology};
use crate::config::{KeyTables, Section, settings};
use crate::registry::Named;
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// `kind = "rack"`.
pub struct Rack;

impl Named for Rack {
    fn name(&self) -> &'static str {
        "rack"
    }
    fn about(&self) -> &'static str {
        "servers on the forwarding engines of one router, no parameter server"
    }
}

settings! {
    /// Keys of `[topology]`.
    struct Settings {
        /// Forwarding engines with servers; several are connected by one engine above them.
        engines: u32 = 1;
        /// Hosts of the workers; 0: one host per worker.
        hosts: u32 = 0;
        /// Link rate of a host.
        host_rate: Rate = "100Gbps";
        /// Link rate between engines.
        fabric_rate: Rate = "400Gbps";
        /// Queue length towards the engine above: a router's packet memory holds a window of every engine (§5: up to
        /// 65,535 packets).
        fabric_slots: u32 = 65_536;
        /// Propagation delay of a host's link, one way.
        delay: Span = "0ps";
        /// Propagation delay between engines, one way.
        fabric_delay: Span = "0ps";
        /// Per-frame overhead on a link, beyond the frame's bytes.
        overhead: Size = "0B";
    }
}

impl Shape for Rack {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let Settings { engines, hosts, host_rate, fabric_rate, fabric_slots, delay, fabric_delay, overhead } =
            Settings::read(section)?;
        if engines == 0 || engines as usize > workers.len() {
            return Err(Error::config(format!(
                "{}: {engines} engines for {} workers; give at least 1 engine, and no more than there are workers",
                section.place("engines"),
                workers.len()
            )));
        }
        let mut t = Topology::default();
        let leaves: Vec<_> = (1..=engines).map(|i| t.add(format!("PFE{i}"), Role::Device)).collect();
        let per_host = super::per_host(workers.len(), hosts);
        let mut on = vec![Vec::new(); leaves.len()];
        let mut members = vec![0usize; usize::from(u16::MAX) + 1];
        let of_job = |job: u16| workers.cluster_of.iter().filter(|c| **c == job).count();
        let sizes: Vec<usize> = (0..workers.clusters() as u16).map(of_job).collect();
        for (worker, &job) in workers.cluster_of.iter().enumerate() {
            // Every job has an equal share of its workers on each engine.
            let index = &mut members[usize::from(job)];
            let size = sizes.get(usize::from(job)).copied().unwrap_or(1).max(1);
            let leaf = leaves[(*index * engines as usize / size).min(engines as usize - 1)];
            *index += 1;
            on[leaf as usize].push(worker as u32);
        }
        for (&leaf, workers) in leaves.iter().zip(&on) {
            // Hosts are named after their first worker.
            for members in workers.chunks(per_host) {
                let host = t.add(format!("w{}", members[0]), Role::Host(members.to_vec()));
                t.connect(host, leaf, host_rate, host_rate, delay.ps(), overhead);
            }
        }
        t.top = Some(leaves[0]);
        if engines > 1 {
            let top = t.add("top", Role::Device);
            for &leaf in &leaves {
                t.connect(leaf, top, fabric_rate, fabric_rate, fabric_delay.ps(), overhead);
                let uplink = t.links.len() - 2;
                t.links[uplink].slots = Some(fabric_slots);
            }
            t.top = Some(top);
        }
        Ok(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(engines: u32, jobs: u16, workers: u32) -> Result<Topology> {
        let mut section = Section::of("topology", &[("engines", crate::config::Value::Integer(i64::from(engines)))]);
        Rack.build(&mut section, &Population::regular(jobs, workers))
    }

    #[test]
    fn the_papers_testbed() {
        let t = build(2, 1, 6).unwrap();
        t.check(6).unwrap();
        let routes = t.routes();
        let top = t.find("top").unwrap();
        assert_eq!((t.top, t.sink(), t.servers().count()), (Some(top), Some(top), 0));
        let leaf_of = |worker: &str| {
            let host = t.find(worker).unwrap();
            let (_, link) = t.ports(host).next().unwrap();
            t.nodes[link.to as usize].name.clone()
        };
        assert_eq!(["w0", "w2", "w3", "w5"].map(leaf_of), ["PFE1", "PFE1", "PFE2", "PFE2"]);
        let flat = build(1, 2, 4).unwrap();
        flat.check(8).unwrap();
        assert_eq!((flat.nodes.len(), flat.top), (9, Some(0)));
        assert_ne!(routes.port(t.find("w0").unwrap(), top), super::super::NO_PORT);
    }

    #[test]
    fn every_job_is_on_all_engines() {
        let t = build(2, 2, 2).unwrap();
        let on = |leaf: &str| t.ports(t.find(leaf).unwrap()).count() - 1;
        assert_eq!((on("PFE1"), on("PFE2")), (2, 2));
        for engines in [0, 5] {
            let message = build(engines, 1, 4).unwrap_err().to_string();
            assert!(message.contains("at least 1 engine"), "{message}");
        }
    }
}
