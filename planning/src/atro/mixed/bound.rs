//! An upper bound on the number of workers, by ports and by flows, with its proof.
//!
//! Let w, i, d be the workers, links in and links out of a switch, f the flows of a link. Every flow of a worker or of an
//! aggregator ends at an aggregator or at the server, so N = Σ (inputs − 1) over aggregators in use + f into the server.
//!
//! By ports: an aggregator has w + i + 1 ≤ η and inputs w + Σ f, so N ≤ 1 + Σ (η − 2) + Σ (f − 1) over the links of common switches to
//! aggregators and the server. Of a common switch w + i + d ≤ η and, since every link has a flow, w + i ≤ Σ f out ≤ Σ c. Summed
//! over all of them, links between common switches count once out and once in, which leaves Σ (f − 1) ≤ Σ (min(η − d, Σ c) − d).

use super::super::capacities::Capacities;

/// Returns how many workers a common switch with this many ports and `links` upward links of `flows` in total adds.
pub(super) fn worth(ports: u64, links: u64, flows: u64) -> i64 {
    ports.saturating_sub(links).min(flows) as i64 - links as i64
}

/// Returns the maximum number of workers that a switch may add, whatever its links.
pub(super) fn potential(capacities: &Capacities, switch: usize) -> i64 {
    let ports = capacities.ports(switch);
    if ports < 2 {
        return 0;
    }
    if capacities.inventory.switches[switch].aggregates {
        return ports as i64 - 2;
    }
    let mut most = 0;
    let (mut links, mut sum) = (0, 0u64);
    for flows in widest(capacities, switch) {
        (links, sum) = (links + 1, sum.saturating_add(flows));
        if links >= ports || flows == 0 {
            break;
        }
        most = most.max(worth(ports, links, sum));
    }
    most
}

/// Returns the flows on the possible upward links of a switch, the widest first.
fn widest(capacities: &Capacities, switch: usize) -> Vec<u64> {
    let others = (0..=capacities.switches()).filter(|&other| other != switch);
    let usable = others.filter(|&other| other == capacities.switches() || capacities.ports(other) > 1);
    let mut flows: Vec<u64> = usable.map(|other| capacities.flows(switch, other)).collect();
    flows.sort_unstable_by(|a, b| b.cmp(a));
    flows
}

/// Returns the useful switches: fast enough, with more ports than their own flow needs.
pub(super) fn usable(capacities: &Capacities) -> Vec<usize> {
    (0..capacities.switches()).filter(|&switch| capacities.ports(switch) > 1).collect()
}

/// Returns an upper bound on the number of workers.
pub(super) fn upper(capacities: &Capacities) -> u64 {
    if !capacities.hosts_are_fast_enough() {
        return 0;
    }
    let usable = usable(capacities);
    let aggregates = |switch: usize| capacities.inventory.switches[switch].aggregates;
    let to_server = |switch: usize| capacities.flows(switch, capacities.switches());
    if capacities.inventory.layers == 1 {
        let alone = |&switch: &usize| {
            let inputs = capacities.ports(switch) - 1;
            match (aggregates(switch), to_server(switch)) {
                (true, 1..) => inputs,
                (_, flows) => flows.min(inputs),
            }
        };
        return usable.iter().map(alone).max().unwrap_or(0);
    }
    let last = |&switch: &usize| if aggregates(switch) { to_server(switch).min(1) } else { to_server(switch) };
    let into_server = usable.iter().map(last).max().unwrap_or(0);
    if into_server == 0 {
        return 0;
    }
    let by_ports = 1 + usable.iter().map(|&switch| potential(capacities, switch)).sum::<i64>();
    let aggregators = usable.iter().filter(|&&switch| aggregates(switch));
    let merged = aggregators.map(|&switch| inputs(capacities, switch, &usable).saturating_sub(1));
    merged.fold(into_server, u64::saturating_add).min(by_ports.max(0) as u64)
}

/// Returns the maximum number of flows into an aggregator: one on each port of a host or an aggregator, more on those of common switches.
fn inputs(capacities: &Capacities, aggregator: usize, usable: &[usize]) -> u64 {
    let ports = capacities.ports(aggregator) - 1;
    let commons = usable.iter().filter(|&&switch| !capacities.inventory.switches[switch].aggregates);
    let mut flows: Vec<u64> = commons.map(|&switch| capacities.flows(switch, aggregator)).collect();
    flows.sort_unstable_by(|a, b| b.cmp(a));
    flows.iter().take(ports as usize).fold(ports, |sum, flows| sum.saturating_add(flows.saturating_sub(1)))
}
