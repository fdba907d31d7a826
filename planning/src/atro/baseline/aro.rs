//! ARO (Luo et al., ToN 2024): routes on a Clos network, through aggregators, with the fewest flows on the busiest link.
//!
//! Our interpretation, exact: every link points towards the server along shortest paths. For each set of used aggregators (the others are
//! removed), each of them receives any number of flows and emits one; a number of flows per link is possible if a maximum flow carries all
//! workers and all outputs. The rate is one of 100 equal steps (QSR with N = 100, ATRO §IV-A).

use pktgen_core::registry::Named;
use pktgen_core::seed::Seed;

use super::super::flow;
use super::network::{Hosts, Network, draw_aggregators};
use super::{Baseline, BaselineCase};

/// See the module documentation.
pub(super) struct Aro;

/// Number of steps of the rate.
const STEPS: u64 = 100;

impl Named for Aro {
    fn name(&self) -> &'static str {
        "aro"
    }

    fn about(&self) -> &'static str {
        "ARO, our reading: the best routes on a fixed network with random hosts and aggregators"
    }
}

impl Baseline for Aro {
    fn busiest(&self, case: &BaselineCase, seed: Seed) -> u64 {
        let mut stream = seed.stream("atro.aro", 0, 0);
        let hosts = case.hosts(&mut stream);
        let aggregators = draw_aggregators(&case.network, case.aggregators as usize, &mut stream);
        fewest(&case.network, &hosts, &aggregators)
    }

    fn rate_bps(&self, capacity_bps: u64, busiest: u64) -> u64 {
        (u128::from(capacity_bps) * u128::from(STEPS / busiest) / u128::from(STEPS)) as u64
    }
}

/// Returns the minimum number of flows on the busiest link.
pub(super) fn fewest(network: &Network, hosts: &Hosts, aggregators: &[usize]) -> u64 {
    let workers: u64 = hosts.workers.iter().sum();
    // Flows always pass a switch with workers or the server below it; they never pass an aggregator without our hosts in its rack.
    let (racks, free): (Vec<usize>, Vec<usize>) = aggregators.iter().partition(|&&switch| switch < network.racks());
    let mut best = workers;
    for set in 0..1u32 << free.len() {
        let used = |switch: usize| {
            racks.contains(&switch) && (switch == hosts.server || hosts.workers[switch] > 0)
                || free.iter().position(|&other| other == switch).is_some_and(|i| set >> i & 1 == 1)
        };
        let gone = |switch: usize| free.contains(&switch) && !used(switch);
        let fits = |m: u64| carries(network, hosts, m, &used, &gone);
        if best > 1 && fits(best - 1) {
            let (mut low, mut high) = (0, best - 1);
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                if fits(middle) { high = middle } else { low = middle }
            }
            best = high;
        }
    }
    best
}

/// Whether `m` flows per link carry all workers and all outputs of used aggregators.
fn carries(
    network: &Network,
    hosts: &Hosts,
    m: u64,
    used: &dyn Fn(usize) -> bool,
    gone: &dyn Fn(usize) -> bool,
) -> bool {
    let (switches, server) = (network.switches(), hosts.server);
    // The node at which a flow enters a switch: for an aggregator, the sink. Its output leaves from its own node.
    let (source, sink) = (switches, switches + 1);
    let mut net = flow::Network::new(switches + 2);
    let entry = |switch: usize| if used(switch) { sink } else { switch };
    let mut demand = 0;
    for switch in 0..switches {
        let workers = hosts.workers.get(switch).copied().unwrap_or(0);
        if workers > 0 {
            net.add(source, entry(switch), workers);
        }
        let output = u64::from(used(switch));
        if output > 0 {
            net.add(source, switch, output);
        }
        demand += workers + output;
        for next in network.nearer(switch, server).filter(|&next| !gone(next) && !gone(switch)) {
            net.add(switch, entry(next), m);
        }
    }
    net.add(server, sink, m);
    net.run(source, sink) == demand
}
