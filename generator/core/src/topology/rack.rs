//! Servers on the forwarding engines of one router, without a parameter server: Trio-ML's testbed (§6.1, Figure 11).
//!
//! With one engine, all servers are on it. With several, each has an equal share of the servers, and a further engine
//! is on top: in the paper PFE1 and PFE2 have three servers each and PFE4 is the top-level aggregator.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Population, Role, Shape, Topology};
use crate::config::{KeyTables, Section, above, settings};
use crate::record::NO_CLUSTER;
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
        engines: u32 = 1 in 1..=u32::MAX;
        /// Hosts of the workers; 0: one host per worker.
        hosts: u32 = 0;
        /// Link rate of a host.
        host_rate: Rate = "100Gbps" in above(Rate::from_bps(0));
        /// Link rate between engines.
        fabric_rate: Rate = "400Gbps" in above(Rate::from_bps(0));
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
        if engines as usize > workers.len() {
            return Err(Error::config(format!(
                "{}: {engines} engines for {} workers; give no more than there are workers",
                section.place("engines"),
                workers.len()
            )));
        }
        let mut t = Topology::default();
        let leaves: Vec<_> = (1..=engines).map(|i| t.add(format!("PFE{i}"), Role::Device)).collect();
        let (mut on, mut flows) = (vec![Vec::new(); leaves.len()], vec![Vec::new(); leaves.len()]);
        let mut members = vec![0usize; usize::from(u16::MAX) + 1];
        let of_job = |job: u16| workers.cluster_of.iter().filter(|c| **c == job).count();
        let sizes: Vec<usize> = (0..workers.clusters() as u16).map(of_job).collect();
        for (worker, &job) in workers.cluster_of.iter().enumerate() {
            // Every job has an equal share of its workers on each engine.
            let index = &mut members[usize::from(job)];
            let size = sizes.get(usize::from(job)).copied().unwrap_or(1).max(1);
            let leaf = leaves[(*index * engines as usize / size).min(engines as usize - 1)];
            *index += 1;
            let side = if job == NO_CLUSTER { &mut flows } else { &mut on };
            side[leaf as usize].push(worker as u32);
        }
        let seats = seats_on(&on, &flows, hosts);
        for (&leaf, seats) in leaves.iter().zip(seats) {
            // Hosts are named after their first worker.
            for members in seats {
                let host = t.add(format!("w{}", members[0]), Role::Host(members));
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

/// Returns the members of the hosts of each engine. Workers sit as they do without flows; flows have the hosts that workers leave,
/// or share those of the workers of their engine; where it has none, they have one host.
fn seats_on(on: &[Vec<u32>], flows: &[Vec<u32>], hosts: u32) -> Vec<Vec<Vec<u32>>> {
    let total = |of: &[Vec<u32>]| of.iter().map(Vec::len).sum::<usize>();
    let of_workers = super::hosts_of(total(on), hosts);
    let left = super::hosts_of(total(on) + total(flows), hosts) - of_workers;
    let least = |members: &[u32]| members.len().min(1);
    let own = hosts_on(on, on.iter().map(|workers| least(workers)).collect(), of_workers);
    // Beside workers, flows may share their hosts.
    let alone = flows.iter().zip(&own).map(|(flows, own)| if *own == 0 { least(flows) } else { 0 }).collect();
    let beside = hosts_on(flows, alone, left);
    (0..on.len()).map(|engine| super::seats(&on[engine], &flows[engine], own[engine] + beside[engine])).collect()
}

/// Returns the number of hosts on each engine, `hosts` in all: at least these `shares`, and each further one where there is none, or
/// where most members share a host.
fn hosts_on(on: &[Vec<u32>], mut shares: Vec<usize>, hosts: usize) -> Vec<usize> {
    let shared = |engine: usize, hosts: usize| {
        (hosts == 0, ((on[engine].len() as u64) << 24) / hosts.max(1) as u64, Reverse(engine))
    };
    let used = (0..on.len()).filter(|engine| !on[*engine].is_empty());
    let mut order: BinaryHeap<_> = used.map(|engine| shared(engine, shares[engine])).collect();
    for _ in shares.iter().sum::<usize>()..hosts {
        let Some((.., Reverse(engine))) = order.pop() else { break };
        shares[engine] += 1;
        order.push(shared(engine, shares[engine]));
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    fn build(engines: u32, jobs: u16, workers: u32) -> Result<Topology> {
        build_with(engines, 0, &Population::regular(jobs, workers))
    }

    fn build_with(engines: u32, hosts: u32, workers: &Population) -> Result<Topology> {
        let keys = [("engines", engines), ("hosts", hosts)].map(|(key, n)| (key, Value::Integer(i64::from(n))));
        Rack.build(&mut Section::of("topology", &keys), workers)
    }

    #[test]
    fn there_are_as_many_hosts_as_are_asked_for() {
        for (engines, hosts, workers, on) in [
            (1, 7, 8, vec![7]),
            (2, 8, 12, vec![4, 4]),
            (2, 3, 6, vec![2, 1]),
            (3, 4, 12, vec![2, 1, 1]),
            (2, 4, 12, vec![2, 2]),
            // A host has one link, so every engine needs one.
            (2, 1, 4, vec![1, 1]),
            (2, 9, 4, vec![2, 2]),
        ] {
            let t = build_with(engines, hosts, &Population::regular(1, workers)).unwrap();
            t.check(workers as usize).unwrap();
            let uplinks = usize::from(engines > 1);
            let found: Vec<_> = (0..engines).map(|engine| t.ports(engine).count() - uplinks).collect();
            assert_eq!(found, on, "{hosts} hosts of {workers} workers on {engines} engines");
        }
        // 4 and 2 workers on the engines: two on each host.
        let uneven = Population { cluster_of: vec![0, 0, 0, 0, 1, 2], moves: Vec::new() };
        let t = build_with(2, 3, &uneven).unwrap();
        t.check(6).unwrap();
        assert_eq!([0, 1].map(|engine| t.ports(engine).count() - 1), [2, 1]);
        // Flows beside workers need no host of their own on every engine.
        let beside = Population { cluster_of: [vec![0; 6], vec![NO_CLUSTER; 4]].concat(), moves: Vec::new() };
        for hosts in [2, 6, 7, 8, 10] {
            let t = build_with(2, hosts, &beside).unwrap();
            t.check(10).unwrap();
            let found: usize = (0..2).map(|engine| t.ports(engine).count() - 1).sum();
            assert_eq!(found, hosts as usize);
        }
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
    fn a_device_has_no_more_links_than_port_numbers() {
        let workers = |count: u32| (build(1, 1, count).unwrap(), count as usize);
        let (t, count) = workers(65_535);
        t.check(count).unwrap();
        let (t, count) = workers(65_536);
        let message = t.check(count).unwrap_err().to_string();
        assert!(message.contains("\"PFE1\" has 65536 links; a device has at most 65535"), "{message}");
        build_with(1, 40_000, &Population::regular(1, 65_536)).unwrap().check(count).unwrap();
    }

    #[test]
    fn every_job_is_on_all_engines() {
        let t = build(2, 2, 2).unwrap();
        let on = |leaf: &str| t.ports(t.find(leaf).unwrap()).count() - 1;
        assert_eq!((on("PFE1"), on("PFE2")), (2, 2));
        for (engines, part) in [(0, "topology.engines: 0 is not from 1 "), (5, "no more than there are workers")] {
            let message = build(engines, 1, 4).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
