//! SPAR (Luo et al., ICC 2023): racks chosen as aggregators greedily, workers sent to them.
//!
//! Our reading: the racks with most workers aggregate, that of the server apart, which sends nothing upwards. Workers of a
//! chosen rack merge there, those of the server's rack go straight to it, and each other goes to the chosen rack with the
//! fewest so far. Each aggregator sends one flow, which is not merged again.

use pktgen_generator::registry::Named;
use pktgen_generator::seed::Seed;
use rand::seq::SliceRandom;

use super::network::Load;
use super::{Baseline, Case};

/// See the module.
pub(super) struct Spar;

impl Named for Spar {
    fn name(&self) -> &'static str {
        "spar"
    }

    fn about(&self) -> &'static str {
        "SPAR, our reading: the fullest racks aggregate, for random hosts"
    }
}

impl Baseline for Spar {
    fn busiest(&self, case: &Case, seed: Seed) -> u64 {
        let mut stream = seed.stream("atro.spar", 0, 0);
        let (network, hosts) = (&case.network, case.hosts(&mut stream));
        let mut racks: Vec<usize> = (0..network.racks()).filter(|&rack| rack != hosts.server).collect();
        racks.shuffle(&mut stream);
        racks.sort_by_key(|&rack| std::cmp::Reverse(hosts.workers[rack]));
        racks.truncate(case.aggregators as usize);
        let mut chosen: Vec<(u64, usize)> = racks.iter().map(|&rack| (hosts.workers[rack], rack)).collect();
        let mut load = Load::default();
        for (rack, &workers) in hosts.workers.iter().enumerate().filter(|&(rack, _)| !racks.contains(&rack)) {
            for _ in 0..workers {
                let fewest = chosen.iter_mut().filter(|_| rack != hosts.server).min();
                let Some((taken, to)) = fewest else {
                    load.send(network, rack, hosts.server, &mut stream);
                    load.enter_server();
                    continue;
                };
                *taken += 1;
                load.send(network, rack, *to, &mut stream);
            }
        }
        for (_, rack) in chosen.into_iter().filter(|&(taken, _)| taken > 0) {
            load.send(network, rack, hosts.server, &mut stream);
            load.enter_server();
        }
        load.busiest()
    }
}
