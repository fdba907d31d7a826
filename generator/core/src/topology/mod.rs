//! Networks of hosts, devices and servers: the model of every experiment.
//!
//! A [`Topology`] is nodes and full-duplex links. Experiments name a shape from [`SHAPES`]; trees,
//! leaf-spines and planner output are further shapes that build the same type.

mod bottleneck;
mod custom;
pub mod fat_tree;
pub mod leaf_spine;
mod model;
mod multi_hop;
mod plan;
mod rack;
mod routes;
mod servers;
mod star;
mod tree;

use crate::Result;
use crate::config::{KeyTables, Section};
use crate::record::NO_CLUSTER;
use crate::registry::Named;
use crate::time::Time;
use crate::units::{Rate, Size};

pub use model::{FRAME_MAX, Link, Move, NO_PORT, NODES, Node, NodeId, Population, Role, Topology, open};
pub use routes::{Exits, Routes, Ways};
pub use servers::Racks;

/// Builds a topology from its section of an experiment file.
pub trait Shape: Named + Sync {
    /// Returns the keys of `[topology]` that [`build`](Self::build) reads: they stay valid when a sweep also visits other
    /// shapes.
    fn keys(&self) -> KeyTables;

    /// Reads its keys and builds the network for these workers.
    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology>;
}

/// The shape of experiments that name none.
pub const DEFAULT: &str = "bottleneck";

/// Every shape, by name.
pub static SHAPES: &[&dyn Shape] = &[
    &bottleneck::Bottleneck,
    &multi_hop::MultiHop,
    &custom::Custom,
    &rack::Rack,
    &star::Star,
    &leaf_spine::LeafSpine,
    &fat_tree::FatTree,
    &tree::OfTree,
    &plan::FromPlan,
];

/// Adds servers to racks from the last one backwards, and one host per worker, assigned to racks in turn.
fn hosts_of_racks(
    t: &mut Topology,
    racks: &[NodeId],
    rack_hosts: u32,
    servers: u32,
    workers: &Population,
    (rate, delay, overhead): (Rate, Time, Size),
) -> std::result::Result<(), String> {
    let room = racks.len() * rack_hosts as usize;
    let most = room.saturating_sub(servers as usize);
    if workers.len() + servers as usize > room {
        let flows = flows_among(workers);
        let (racks, workers) = (racks.len(), workers.len());
        let beside = if servers == 1 { "the server".into() } else { format!("{servers} servers") };
        return Err(format!(
            "{racks} racks of {rack_hosts} hosts have room for {most} workers beside {beside}, not for {workers}{flows}"
        ));
    }
    let mut left = vec![rack_hosts; racks.len()];
    for server in 0..servers {
        let rack = racks.len() - 1 - server as usize % racks.len();
        let node = t.add(servers::name_of(server), Role::Server);
        t.connect(racks[rack], node, rate, rate, delay, overhead);
        left[rack] -= 1;
    }
    let mut at = 0;
    for worker in 0..workers.len() as u32 {
        while left[at] == 0 {
            at = (at + 1) % racks.len();
        }
        let host = t.add(format!("w{worker}"), Role::Host(vec![worker]));
        t.connect(host, racks[at], rate, rate, delay, overhead);
        left[at] -= 1;
        at = (at + 1) % racks.len();
    }
    Ok(())
}

/// Returns the ids of the workers, and those of the flows of background traffic.
fn apart(workers: &Population) -> (Vec<u32>, Vec<u32>) {
    (0..workers.len() as u32).partition(|id| workers.cluster_of[*id as usize] != NO_CLUSTER)
}

/// Returns words for the flows of background traffic among the workers, empty if there are none.
fn flows_among(workers: &Population) -> String {
    match workers.cluster_of.iter().filter(|cluster| **cluster == NO_CLUSTER).count() {
        0 => String::new(),
        flows if flows == workers.len() => ", all of them flows of background traffic".to_owned(),
        flows => format!(", {flows} of them flows of background traffic (workload.background_flows)"),
    }
}

/// Returns the members of `hosts` hosts, at most one host for each. Workers sit as they do without flows; flows have the hosts
/// that workers leave, or share those of the workers.
fn seats(workers: &[u32], flows: &[u32], hosts: usize) -> Vec<Vec<u32>> {
    let of_workers = workers.len().min(hosts);
    let mut all: Vec<Vec<u32>> = split(workers, of_workers).map(<[u32]>::to_vec).collect();
    if hosts > of_workers {
        all.extend(split(flows, hosts - of_workers).map(<[u32]>::to_vec));
        all.sort_by_key(|members| members.first().copied());
    } else {
        all.iter_mut().zip(split(flows, of_workers)).for_each(|(members, more)| members.extend(more));
    }
    all
}

/// Returns the number of hosts with workers; with 0 hosts each worker has its own.
fn hosts_of(workers: usize, hosts: u32) -> usize {
    if hosts == 0 { workers } else { workers.min(hosts as usize) }
}

/// Splits workers into neighbours on each of `hosts`, which differ by at most one worker.
fn split(workers: &[u32], hosts: usize) -> impl Iterator<Item = &[u32]> {
    (0..hosts).map(move |i| &workers[i * workers.len() / hosts..(i + 1) * workers.len() / hosts])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    /// ATRO §IV-A: 20 switches of 24 ports; 140 and 96 hosts.
    #[test]
    fn racks_are_those_of_the_paper() {
        for (shape, hosts, most) in [(&leaf_spine::LeafSpine as &dyn Shape, 140, 4), (&fat_tree::FatTree, 96, 6)] {
            let build = |workers| shape.build(&mut Section::of("topology", &[]), &Population::regular(1, workers));
            let t = build(hosts - 1).unwrap();
            t.check(hosts as usize - 1).unwrap();
            let switches = || (0..t.nodes.len()).filter(|id| t.nodes[*id].role == Role::Device);
            assert_eq!(switches().count(), 20);
            assert!(switches().all(|id| t.ports(id as NodeId).count() <= 24));
            let why = build(hosts).unwrap_err().to_string();
            assert!(
                why.contains(&format!("room for {} workers beside the server, not for {hosts}", hosts - 1)),
                "{why}"
            );
            // The longest path between two hosts.
            let (routes, last) = (t.routes(), t.find("ps").unwrap());
            let hops = |mut at: NodeId| {
                let mut hops = 0;
                while at != last {
                    at = t.ports(at).nth(usize::from(routes.port(at, last))).unwrap().1.to;
                    hops += 1;
                }
                hops
            };
            assert_eq!(t.host_of(hosts as usize - 1).into_iter().map(hops).max(), Some(most));
        }
        let keys = [("leaves", Value::Integer(2)), ("leaf_hosts", Value::Integer(2))];
        let workers = Population { cluster_of: vec![0, 0, NO_CLUSTER, NO_CLUSTER], moves: Vec::new() };
        let why = leaf_spine::LeafSpine.build(&mut Section::of("topology", &keys), &workers).unwrap_err().to_string();
        let flows = "not for 4, 2 of them flows of background traffic (workload.background_flows)";
        assert!(why.contains("topology.leaf_hosts: ") && why.contains(flows), "{why}");
        let odd = fat_tree::FatTree
            .build(&mut Section::of("topology", &[("cores", Value::Integer(3))]), &Population::regular(1, 1));
        assert!(odd.unwrap_err().to_string().contains("multiple of pod_switches"));
    }

    /// Flows of background traffic do not displace workers, whatever their ids.
    #[test]
    fn workers_sit_on_the_same_hosts_beside_flows() {
        for (shape, keys) in [
            (&star::Star as &dyn Shape, vec![("hosts", Value::Integer(3))]),
            (&star::Star, vec![("hosts", Value::Integer(8))]),
            (&star::Star, Vec::new()),
            (&rack::Rack, vec![("hosts", Value::Integer(3))]),
            (&rack::Rack, vec![("engines", Value::Integer(2)), ("hosts", Value::Integer(3))]),
            (&rack::Rack, vec![("engines", Value::Integer(2)), ("hosts", Value::Integer(7))]),
            (&rack::Rack, vec![("engines", Value::Integer(2))]),
            (&tree::OfTree, vec![("size", Value::Integer(8))]),
        ] {
            // Which of six workers share a host.
            let shared = |cluster_of: &[u16]| {
                let workers = Population { cluster_of: cluster_of.to_vec(), moves: Vec::new() };
                let t = shape.build(&mut Section::of("topology", &keys), &workers).unwrap();
                t.check(workers.len()).unwrap();
                let (host, own) = (t.host_of(workers.len()), apart(&workers).0);
                let device = |node: NodeId| t.ports(node).map(|(_, link)| link.to).collect::<Vec<_>>();
                let first = |at: &u32| own.iter().position(|id| host[*id as usize] == host[*at as usize]);
                own.iter().map(|id| (first(id), device(host[*id as usize]))).collect::<Vec<_>>()
            };
            let (alone, none) = (shared(&[0; 6]), NO_CLUSTER);
            let what = format!("{} {keys:?}", shape.name());
            assert_eq!(shared(&[0, 0, 0, 0, 0, 0, none, none, none, none]), alone, "{what}");
            assert_eq!(shared(&[none, 0, 0, none, 0, 0, none, 0, 0]), alone, "{what}");
            // Without workers the flows have hosts, too.
            assert!(shared(&[none; 4]).is_empty(), "{what}");
        }
    }

    #[test]
    fn rates_of_links_are_above_0_by_their_keys() {
        let mut keys = 0;
        for shape in SHAPES {
            for key in crate::config::names_of(shape.keys()).filter(|key| key.ends_with("rate") || *key == "leaf_rates")
            {
                let value = if key == "leaf_rates" { Value::from(&["1bps", "0bps"][..]) } else { "0bps".into() };
                let built = shape.build(&mut Section::of("topology", &[(key, value)]), &Population::regular(1, 4));
                let why = built.unwrap_err().to_string();
                assert_eq!(why, format!("topology.{key}: 0bps is not above 0bps"), "{}", shape.name());
                keys += 1;
            }
        }
        assert_eq!(keys, 15);
        let (hosts, links) = (Value::from(&["h 0"][..]), Value::from(&["h d 0bps"][..]));
        let keys = [("hosts", hosts), ("devices", Value::from(&["d"][..])), ("links", links)];
        let custom = custom::Custom.build(&mut Section::of("topology", &keys), &Population::regular(1, 1));
        let why = custom.unwrap_err().to_string();
        assert!(why.starts_with("topology.links: \"h d 0bps\": 0bps is not above 0bps; write"), "{why}");
    }

    #[test]
    fn shapes_name_the_keys_that_they_read() {
        for shape in SHAPES {
            // A custom network lists the hosts of all workers.
            let hosts = ("hosts", Value::from(&["h 0-26"][..]));
            let keys = if shape.name() == "custom" { vec![hosts] } else { Vec::new() };
            let mut section = Section::of("topology", &keys);
            shape.build(&mut section, &Population::regular(9, 3)).unwrap();
            let mut asked: Vec<_> = section.asked().iter().map(String::as_str).collect();
            let mut named: Vec<_> = crate::config::names_of(shape.keys()).collect();
            asked.sort_unstable();
            named.sort_unstable();
            assert_eq!(asked, named, "{}", shape.name());
        }
    }
}
