//! Fat trees: each pod has `pod_switches` edge switches with hosts and as many aggregation switches, fully connected within the pod;
//! aggregation switch j of each pod is connected to its own share of the cores. The default is the variant that ATRO compares with
//! (§IV-A), with two of each. The k-ary fat tree of k-port switches has k pods, `pod_switches` and `edge_hosts` k/2, and (k/2)² cores.
//!
//! Workers are assigned to edge switches in turn, one host each; the server is on the last edge switch, each further
//! server on the previous one. Routes take the first of several shortest paths.

use super::{NODES, Population, Role, Shape, Topology, hosts_of_racks};
use crate::config::{KeyTables, Section, above, settings};
use crate::registry::Named;
use crate::units::{Rate, Size, Span};
use crate::{Error, Result};

/// `kind = "fat_tree"`.
pub struct FatTree;

impl Named for FatTree {
    fn name(&self) -> &'static str {
        "fat_tree"
    }
    fn about(&self) -> &'static str {
        "pods of edge switches with hosts and aggregation switches, below cores"
    }
}

settings! {
    /// Keys of `[topology]`.
    struct Settings {
        /// Pods: groups of edge and aggregation switches.
        pods: u32 = 4 in 1..=1000;
        /// Edge switches per pod; the number of aggregation switches is the same.
        pod_switches: u32 = 2 in 1..=128;
        /// Core switches, a multiple of `pod_switches`.
        cores: u32 = 4 in 1..=1 << 14;
        /// Host ports per edge switch.
        edge_hosts: u32 = 12 in 1..=1000;
        /// Parameter servers.
        servers: u32 = 1 in 1..=1000;
        /// Rate of every link.
        rate: Rate = "100Gbps" in above(Rate::from_bps(0));
        /// Propagation delay of each link, one way.
        delay: Span = "1us";
        /// Per-frame overhead on a link, beyond the frame's bytes.
        overhead: Size = "24B";
    }
}

impl Shape for FatTree {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn build(&self, section: &mut Section, workers: &Population) -> Result<Topology> {
        let Settings { pods, pod_switches, cores, edge_hosts, servers, rate, delay, overhead } =
            Settings::read(section)?;
        if !cores.is_multiple_of(pod_switches) {
            return Err(Error::config(format!(
                "{}: {cores}; each of the {pod_switches} aggregation switches of a pod has as many of the cores, so give a multiple of \
                 pod_switches",
                section.place("cores")
            )));
        }
        let switches = u64::from(pods) * u64::from(pod_switches) * 2 + u64::from(cores) + u64::from(servers);
        if switches > NODES as u64 {
            return Err(Error::config(format!(
                "{}: {switches} switches and servers; at most {NODES} are supported, so lower pods, pod_switches or cores",
                section.place("pods")
            )));
        }
        let mut t = Topology::default();
        let edges: Vec<_> = (0..pod_switches * pods).map(|i| t.add(format!("edge{i}"), Role::Device)).collect();
        let middle: Vec<_> = (0..pod_switches * pods).map(|i| t.add(format!("aggregation{i}"), Role::Device)).collect();
        let top: Vec<_> = (0..cores).map(|i| t.add(format!("core{i}"), Role::Device)).collect();
        hosts_of_racks(&mut t, &edges, edge_hosts, servers, workers, (rate, delay.ps(), overhead))
            .map_err(|why| Error::config(format!("{}: {why}", section.place("edge_hosts"))))?;
        let switches = [edges, middle, top].concat();
        for (below, above) in cables(pods as usize, pod_switches as usize, cores as usize) {
            t.connect(switches[below], switches[above], rate, rate, delay.ps(), overhead);
        }
        Ok(t)
    }
}

/// Pairs of connected switches; edges come first, then aggregation switches, `per_pod` of each in a pod, then cores, a multiple of that.
pub fn cables(pods: usize, per_pod: usize, cores: usize) -> impl Iterator<Item = (usize, usize)> {
    let (middle, top, share) = (per_pod * pods, 2 * per_pod * pods, cores / per_pod);
    let below =
        (0..middle).flat_map(move |edge| (0..per_pod).map(move |j| (edge, middle + edge / per_pod * per_pod + j)));
    let above = move |i| (0..share).map(move |core| (middle + i, top + i % per_pod * share + core));
    below.chain((0..middle).flat_map(above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;
    use crate::topology::{NO_PORT, NodeId};

    #[test]
    fn a_k_ary_fat_tree_has_switches_of_k_ports() {
        let keys =
            [("pods", 8), ("pod_switches", 4), ("cores", 16), ("edge_hosts", 4)].map(|(k, v)| (k, Value::Integer(v)));
        let t = FatTree.build(&mut Section::of("topology", &keys), &Population::regular(1, 127)).unwrap();
        t.check(127).unwrap();
        let exits = t.exits();
        let switches: Vec<_> = t.devices().collect();
        assert_eq!((switches.len(), t.nodes.len()), (80, 80 + 128));
        assert!(switches.iter().all(|id| exits.of(*id).len() == 8));
        // Between hosts of two pods there are six hops, and every host reaches every other.
        let routes = t.routes();
        let hops = |from: NodeId, to: NodeId| {
            let (mut at, mut hops) = (from, 0);
            while at != to {
                let port = routes.port(at, to);
                assert_ne!(port, NO_PORT);
                at = t.links[exits.of(at)[usize::from(port)] as usize].to;
                hops += 1;
            }
            hops
        };
        let hosts: Vec<_> = t.host_of(127);
        let longest = hosts.iter().flat_map(|a| hosts.iter().map(move |b| (*a, *b))).map(|(a, b)| hops(a, b)).max();
        assert_eq!(longest, Some(6));
        let odd = [("pod_switches", Value::Integer(3))];
        let why =
            FatTree.build(&mut Section::of("topology", &odd), &Population::regular(1, 1)).unwrap_err().to_string();
        assert!(why.contains("multiple of pod_switches"), "{why}");
    }
}
