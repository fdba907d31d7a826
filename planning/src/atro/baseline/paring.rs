//! PARING (Qiu et al., ToN 2024): places tasks, and builds a Steiner tree over workers, aggregators and server by hops.
//!
//! Our interpretation: the server's rack is the one with the minimum sum of hops; a worker reaches it via the aggregator that adds the
//! fewest, and the hosts with the fewest are used. Used aggregators are connected to the server by a minimum spanning tree. Only node
//! degrees matter, not bandwidth (ATRO §IV-A), and paths are random shortest ones.

use pktgen_core::registry::Named;
use pktgen_core::seed::Seed;

use super::network::{Load, Network, draw_aggregators};
use super::{Baseline, BaselineCase};

/// See the module documentation.
pub(super) struct Paring;

impl Named for Paring {
    fn name(&self) -> &'static str {
        "paring"
    }

    fn about(&self) -> &'static str {
        "PARING, our reading: placed workers and a tree of random aggregators by hops"
    }
}

impl Baseline for Paring {
    fn busiest(&self, case: &BaselineCase, seed: Seed) -> u64 {
        let mut stream = seed.stream("atro.paring", 0, 0);
        let network = &case.network;
        let aggregators = draw_aggregators(network, case.aggregators as usize, &mut stream);
        let placements = (0..network.racks()).map(|server| place(network, &aggregators, server, case.workers));
        let Some(best) = placements.min_by_key(|placement| placement.hops) else { return 1 };
        let mut load = Load::default();
        let mut used = Vec::new();
        for &(rack, workers, by) in &best.racks {
            for _ in 0..workers {
                load.send(network, rack, by.unwrap_or(best.server), &mut stream);
                if by.is_none() {
                    load.enter_server();
                }
            }
            used.extend(by);
        }
        used.sort_unstable();
        used.dedup();
        for (aggregator, parent) in spanning_tree(network, &used, best.server) {
            load.send(network, aggregator, parent.unwrap_or(best.server), &mut stream);
            if parent.is_none() {
                load.enter_server();
            }
        }
        load.busiest()
    }
}

/// A placement of server and workers.
struct Placement {
    server: usize,
    /// Rack, number of workers there, and their aggregator.
    racks: Vec<(usize, u64, Option<usize>)>,
    hops: u64,
}

/// Selects the closest hosts to a server in a rack.
fn place(network: &Network, aggregators: &[usize], server: usize, workers: u64) -> Placement {
    let mut racks: Vec<(u32, usize, Option<usize>)> = (0..network.racks())
        .map(|rack| {
            let by = |&aggregator: &usize| network.hops(rack, aggregator) + network.hops(aggregator, server);
            let nearest = aggregators.iter().min_by_key(|aggregator| by(aggregator));
            let direct = network.hops(rack, server);
            match nearest.filter(|aggregator| by(aggregator) <= direct) {
                Some(aggregator) => (by(aggregator), rack, Some(*aggregator)),
                None => (direct, rack, None),
            }
        })
        .collect();
    racks.sort_by_key(|&(hops, rack, _)| (hops, rack));
    let (mut left, mut sum, mut taken) = (workers, 0, Vec::new());
    for (hops, rack, by) in racks {
        let here = left.min(network.rack_hosts() as u64 - u64::from(rack == server));
        taken.push((rack, here, by.filter(|_| here > 0)));
        sum += here * u64::from(hops);
        left -= here;
    }
    Placement { server, racks: taken, hops: sum }
}

/// Returns a minimum spanning tree by hops, beginning at the server: each aggregator with its parent, `None` if that is the server.
fn spanning_tree(network: &Network, aggregators: &[usize], server: usize) -> Vec<(usize, Option<usize>)> {
    let mut tree: Vec<(usize, Option<usize>)> = Vec::new();
    let mut left = aggregators.to_vec();
    // The server is one hop below its rack's switch.
    let hops = |from: usize, to: Option<usize>| to.map_or(network.hops(from, server) + 1, |to| network.hops(from, to));
    while !left.is_empty() {
        let parents = || std::iter::once(None).chain(tree.iter().map(|&(node, _)| Some(node)));
        let nearest = (0..left.len())
            .flat_map(|i| parents().map(move |parent| (i, parent)))
            .min_by_key(|&(i, parent)| hops(left[i], parent));
        let Some((i, parent)) = nearest else { break };
        tree.push((left.remove(i), parent));
    }
    tree
}
