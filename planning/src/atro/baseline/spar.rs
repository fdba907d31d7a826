//! SPAR (Luo et al., ICC 2023): selects racks as aggregators greedily, and routes workers' requests to them.
//!
//! Our interpretation: aggregators are racks (ATRO §IV-A), possibly that of the server. The greedy algorithm adds the rack that brings all
//! racks closest to an aggregator, in hops, so that a fat tree first gets one per pod: the goal is to reduce upward traffic of racks
//! (§IV-B2). Requests of a rack that does not aggregate go to the closest aggregator (among these the one with the fewest workers) on one
//! of the shortest paths ("selects one randomly"). An aggregator sends one flow to the server, merged again only in the server's rack.

use pktgen_core::registry::Named;
use pktgen_core::seed::{Seed, Stream};
use rand::seq::SliceRandom;

use super::network::{Hosts, Load, Network};
use super::{Baseline, BaselineCase};

/// See the module documentation.
pub(super) struct Spar;

impl Named for Spar {
    fn name(&self) -> &'static str {
        "spar"
    }

    fn about(&self) -> &'static str {
        "SPAR, our reading: the racks nearest to all others aggregate, for random hosts"
    }
}

impl Baseline for Spar {
    fn busiest(&self, case: &BaselineCase, seed: Seed) -> u64 {
        let mut stream = seed.stream("atro.spar", 0, 0);
        let hosts = case.hosts(&mut stream);
        let racks = choose(&case.network, case.aggregators as usize, &mut stream);
        load(&case.network, &hosts, &racks, &mut stream).busiest()
    }
}

/// Selects the aggregators rack by rack, each with the minimum number of hops from all racks to their closest aggregator; ties at random.
pub(super) fn choose(network: &Network, aggregators: usize, stream: &mut Stream) -> Vec<usize> {
    let mut left: Vec<usize> = (0..network.racks()).collect();
    left.shuffle(stream);
    let mut nearest = vec![u32::MAX; network.racks()];
    let mut chosen = Vec::new();
    while chosen.len() < aggregators {
        let with = |new: usize| {
            (0..nearest.len()).map(|rack| u64::from(nearest[rack].min(network.hops(rack, new)))).sum::<u64>()
        };
        let Some(best) = (0..left.len()).min_by_key(|&i| with(left[i])) else { break };
        let new = left.remove(best);
        nearest.iter_mut().enumerate().for_each(|(rack, hops)| *hops = (*hops).min(network.hops(rack, new)));
        chosen.push(new);
    }
    chosen
}

/// Returns the flows on all links if the `chosen` racks aggregate.
pub(super) fn load(network: &Network, hosts: &Hosts, chosen: &[usize], stream: &mut Stream) -> Load {
    let mut load = Load::default();
    // Aggregators, each with the number of workers that it merges.
    let mut taken: Vec<(u64, usize)> = chosen.iter().map(|&rack| (hosts.workers[rack], rack)).collect();
    for (rack, &workers) in hosts.workers.iter().enumerate().filter(|&(rack, _)| !chosen.contains(&rack)) {
        match taken.iter_mut().min_by_key(|(taken, to)| (network.hops(rack, *to), *taken)) {
            Some((taken, to)) => {
                load.send_all(network, (rack, *to), workers, stream);
                *taken += workers;
            }
            None => {
                load.send_all(network, (rack, hosts.server), workers, stream);
                load.enter_server_with(workers);
            }
        }
    }
    let merged = chosen.contains(&hosts.server);
    for (_, rack) in taken.into_iter().filter(|&(taken, _)| taken > 0) {
        load.send(network, rack, hosts.server, stream);
        // Flows reaching an aggregating rack of the server enter the server as one flow.
        if !merged {
            load.enter_server();
        }
    }
    if merged {
        load.enter_server();
    }
    load
}
