//! Baselines against the published means, a closed form, and ATRO.

use pktgen_generator::registry::find;

use super::super::testing::cluster;
use super::super::{most_workers, wire};
use super::network::draw_aggregators;
use super::*;

const GBPS: u64 = 1_000_000_000;

fn case(topology: Topology, workers: u64, aggregators: u64) -> Case {
    Case { network: Network::of(topology), workers, aggregators, capacity_bps: 100 * GBPS }
}

fn mean(name: &str, case: &Case, seeds: u64) -> f64 {
    let baseline = find(BASELINES, "baseline", name, "test").unwrap();
    let rates = (0..seeds).map(|seed| baseline.rate_bps(case.capacity_bps, baseline.busiest(case, Seed(seed))));
    rates.map(|rate| rate as f64 / 1e9).sum::<f64>() / seeds as f64
}

#[test]
fn networks_are_those_of_the_paper() {
    for (topology, hosts, links, widest) in [(Topology::LeafSpine, 140, 100, 2), (Topology::FatTree, 96, 32, 4)] {
        let network = Network::of(topology);
        assert_eq!((network.switches(), network.hosts()), (20, hosts));
        let pairs = (0..20).flat_map(|a| (0..a).map(move |b| (a, b)));
        assert_eq!(pairs.clone().filter(|&(a, b)| network.hops(a, b) == 1).count(), links);
        let racks = (0..network.racks()).flat_map(|a| (0..a).map(move |b| (a, b)));
        assert_eq!(racks.map(|(a, b)| network.hops(a, b)).max(), Some(widest));
        assert!(pairs.into_iter().all(|(a, b)| network.hops(a, b) <= 4));
    }
}

/// ATRO's 50 Gbit/s over the ratios of Figure 3 are 13.26, 5.17; 7.08, 3.29; 8.10, 7.43: only ARO, exact given its input, is
/// held to them, the others to what this reading of them gives.
#[test]
fn means_are_where_they_were() {
    for (name, topology, expected, within) in [
        ("aro", Topology::LeafSpine, 12.5, 1.0),
        ("aro", Topology::FatTree, 5.3, 0.4),
        ("paring", Topology::LeafSpine, 7.2, 0.2),
        ("paring", Topology::FatTree, 3.3, 0.2),
        ("spar", Topology::LeafSpine, 8.2, 0.3),
        ("spar", Topology::FatTree, 6.9, 0.2),
    ] {
        let found = mean(name, &case(topology, 90, 4), 200);
        assert!((found - expected).abs() < within, "{name} on {topology:?}: {found}");
    }
}

#[test]
fn aro_is_its_closed_form_on_a_leaf_spine() {
    let network = Network::of(Topology::LeafSpine);
    for seed in 0..300 {
        let mut stream = Seed(seed).stream("test", 0, 0);
        let (workers, aggregators) = (30 + seed as usize % 100, seed as usize % 9);
        let hosts = draw_hosts(&network, workers, &mut stream);
        let aggregators = draw_aggregators(&network, aggregators, &mut stream);
        assert_eq!(aro::fewest(&network, &hosts, &aggregators), closed_form(&hosts, &aggregators), "seed {seed}");
    }
}

/// `spines` aggregating spines; each leaf but the server's sends one flow if it aggregates, else one per worker.
fn closed_form(hosts: &Hosts, aggregators: &[usize]) -> u64 {
    let spines = aggregators.iter().filter(|&&switch| switch >= 10).count() as u64;
    let sends: Vec<u64> = (0..10)
        .filter(|&leaf| leaf != hosts.server)
        .map(|leaf| hosts.workers[leaf].min(if aggregators.contains(&leaf) { 1 } else { u64::MAX }))
        .collect();
    let beyond = |k: u64, m: u64| sends.iter().map(|n| n.saturating_sub(k * m)).sum::<u64>();
    let fits = |m: u64| {
        if aggregators.contains(&hosts.server) {
            return beyond(spines, m) <= (10 - spines) * m;
        }
        (0..=spines).any(|k| hosts.workers[hosts.server] + k + beyond(k, m) <= m)
    };
    (1..=200).find(|&m| fits(m)).unwrap()
}

#[test]
fn no_baseline_is_above_atro() {
    for topology in [Topology::LeafSpine, Topology::FatTree] {
        for (workers, aggregators) in [(60, 4), (80, 4), (90, 1), (90, 2), (90, 4), (90, 8), (95, 3)] {
            let case = case(topology, workers, aggregators);
            let atro = wire(&cluster(20, aggregators, 24, 5), workers, &[]).unwrap();
            for baseline in BASELINES {
                for seed in 0..40 {
                    let busiest = baseline.busiest(&case, Seed(seed));
                    assert!(baseline.rate_bps(case.capacity_bps, busiest) <= atro.rate_bps, "{}", baseline.name());
                    assert!(most_workers(&cluster(20, aggregators, 24, 5), busiest).workers >= workers);
                }
            }
        }
    }
}

#[test]
fn seeds_repeat_and_cases_are_checked() {
    for baseline in BASELINES {
        let case = case(Topology::FatTree, 90, 4);
        assert_eq!(baseline.busiest(&case, Seed(7)), baseline.busiest(&case, Seed(7)));
    }
    let fails = |workers: u64, aggregators: u64, part: &str| {
        let message = case(Topology::FatTree, workers, aggregators).check().unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    fails(96, 4, "workers: 96 is not from 1 to 95");
    fails(0, 4, "workers: 0 is not");
    fails(9, 21, "aggregators: 21 is not from 0 to 20");
    case(Topology::LeafSpine, 139, 20).check().unwrap();
}
