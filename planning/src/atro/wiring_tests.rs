//! Tests of plans: at N(m) there is one, the validator accepts it, and refuses damaged ones.

use std::collections::HashSet;

use pktgen_core::plan::{FlowSource, Plan, PlanLink, PlanRole};
use proptest::prelude::*;

use super::cluster::SIZE_MAX;
use super::testing::{GBPS, arbitrary, cluster};
use super::*;

#[test]
fn the_papers_scale() {
    let paper = |aggregators: u64| cluster(20, aggregators, 24, 5);
    for (aggregators, workers, rate) in [
        (4, 60, 100.0),
        (4, 70, 100.0),
        (4, 80, 100.0),
        (4, 90, 50.0),
        (1, 90, 20.0),
        (2, 90, 33.3),
        (3, 90, 50.0),
        (5, 90, 100.0),
        (6, 90, 100.0),
    ] {
        let wiring = wire(&paper(aggregators), workers, &[]).unwrap();
        assert!((wiring.rate_bps as f64 / 1e9 - rate).abs() < 0.05, "{aggregators}, {workers}: {}", wiring.rate_bps);
        assert!(wiring.optimal && wiring.proved && wiring.bound_bps == wiring.rate_bps);
        validate(&wiring.plan, &paper(aggregators), wiring.flows_per_link).unwrap();
        let hosts = wiring.plan.nodes.iter().filter(|node| node.role == PlanRole::Host).count() as u64;
        assert_eq!(hosts, workers);
    }
}

#[test]
fn ten_thousand_workers() {
    let large = cluster(444 + 1778, 444, 24, 5);
    let wiring = wire(&large, 10_000, &[]).unwrap();
    assert_eq!((wiring.flows_per_link, wiring.optimal, wiring.proved), (2, true, true));
    assert_eq!(wiring.plan.hosts().len(), 10_000);
    // Larger than a flow through all possible links could hold.
    let larger = cluster(22_220, 4_440, 24, 5);
    let wiring = wire(&larger, 200_000, &[]).unwrap();
    assert_eq!((wiring.flows_per_link, wiring.plan.hosts().len()), (3, 200_000));
}

/// Clusters with scarce ports of aggregators, so that shapes other than trees are necessary.
#[test]
fn shapes_beyond_trees_are_wired() {
    for (switches, aggregators, ports, layers, m, most) in [
        (11, 1, 3, 4, 5, 12),
        (18, 1, 11, 6, 11, 120),
        (9, 2, 6, 3, 2, 20),
        (10, 2, 7, 5, 3, 34),
        (6, 1, 5, 6, 3, 14),
        (11, 2, 6, 5, 2, 20),
        (36, 2, 4, 4, 20, 72),
    ] {
        let cluster = cluster(switches, aggregators, ports, layers);
        assert_eq!(most_workers(&cluster, m).workers, most, "{cluster:?}");
        let wiring = wire(&cluster, most, &[]).unwrap();
        assert_eq!((wiring.flows_per_link, wiring.optimal), (m, true), "{cluster:?}");
    }
}

#[test]
fn every_link_has_one_cross_connect_and_every_port_one_end() {
    let wiring = wire(&cluster(20, 4, 24, 5), 90, &[]).unwrap();
    assert_eq!(wiring.cross_connects.len(), wiring.plan.links.len());
    let mut ports = HashSet::new();
    for (link, joined) in wiring.plan.links.iter().zip(&wiring.cross_connects) {
        assert_eq!((link.from, link.to), (joined.from.node, joined.to.node));
        for end in [joined.from, joined.to] {
            let switch = matches!(wiring.plan.nodes[end.node].role, PlanRole::Common | PlanRole::Aggregator);
            assert!(end.port < if switch { 24 } else { 1 });
            assert!(ports.insert((end.node, end.port)), "{end:?} twice");
        }
    }
}

#[test]
fn rates_may_be_given() {
    let paper = cluster(20, 2, 24, 5);
    let rate = |rates: &[u64]| wire(&paper, 90, rates).map(|wiring| wiring.rate_bps / GBPS);
    assert_eq!(rate(&[100 * GBPS, 40 * GBPS, 30 * GBPS, 10 * GBPS]).unwrap(), 30);
    assert_eq!(rate(&[33 * GBPS, 34 * GBPS]).unwrap(), 33);
    let message = rate(&[40 * GBPS]).unwrap_err().to_string();
    assert!(message.contains("rates") && message.contains("add a smaller one"), "{message}");
}

/// A switch of two ports adds no worker, so the others are left out.
#[test]
fn a_million_switches_of_two_ports_are_wired() {
    let wiring = wire(&cluster(1_000_000, 0, 2, 1_000_000), 1, &[]).unwrap();
    assert_eq!((wiring.plan.links.len(), wiring.optimal), (2, true));
}

/// Beyond 48 switches trees need five flows per link here, and another shape four.
#[test]
fn allowed_rates_count_for_every_method() {
    for switches in [48, 49] {
        let wiring = wire(&cluster(switches, 1, 4, 4), 15, &[25 * GBPS]).unwrap();
        assert_eq!((wiring.rate_bps, wiring.optimal), (25 * GBPS, true), "{switches}");
    }
    let message = wire(&cluster(49, 1, 4, 4), 15, &[26 * GBPS]).unwrap_err().to_string();
    assert!(message.contains("the smallest, 26000000000 bit/s, is not from 1 to 25000000000"), "{message}");
}

#[test]
fn what_cannot_be_is_explained() {
    let fails = |cluster: Cluster, workers: u64, parts: &[&str]| {
        let error = wire(&cluster, workers, &[]).unwrap_err();
        let message = error.to_string();
        assert!(parts.iter().all(|part| message.contains(part)) && error.exit_code() == 2, "{message}");
    };
    let paper = cluster(20, 4, 24, 5);
    fails(paper, 0, &["workers: 0 is not from 1"]);
    fails(paper, 442, &["no ports left for 442", "20 switches of 24 ports", "441", "more switches or ports"]);
    fails(cluster(20, 4, 24, 1), 90, &["layers: 1 are too few", "2 layers are enough"]);
    fails(cluster(3, 4, 24, 1), 9, &["aggregators: 4 is not from 0 to 3"]);
    fails(Cluster { capacity_bps: 0, ..paper }, 9, &["capacity", "0 is not from 1"]);
    fails(Cluster { capacity_bps: 1, ..paper }, 90, &["capacity: 1 bit/s", "raise it"]);
    fails(Cluster { ports: 1, ..paper }, 9, &["ports: 1 is not from 2"]);
    fails(Cluster { switches: 0, aggregators: 0, ..paper }, 9, &["switches: 0 is not from 1"]);
    fails(Cluster { layers: 0, ..paper }, 9, &["layers: 0 is not from 1"]);
    assert_eq!(wire(&paper, 441, &[]).unwrap().plan.hosts().len(), 441);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(25), ..ProptestConfig::default() })]
    /// Workers that fit with 48 switches, where all shapes are tried, fit with more, and not at a lower rate.
    #[test]
    fn beyond_what_is_searched_nothing_is_lost(
        aggregators in 1u64..6, ports in 4u64..17, layers in 3u64..7, more in 1u64..20, share in 0.05f64..1.0
    ) {
        let few = cluster(48, aggregators, ports, layers);
        let most = most_workers(&few, SIZE_MAX).workers;
        let workers = ((most as f64 * share) as u64).max(1);
        let many = Cluster { switches: few.switches + more, ..few };
        let (at_few, at_many) = (wire(&few, workers, &[]).unwrap(), wire(&many, workers, &[]).unwrap());
        prop_assert!(at_many.rate_bps >= at_few.rate_bps, "{many:?} {workers}");
        prop_assert!(at_many.rate_bps <= at_many.bound_bps && at_many.optimal == (at_many.rate_bps == at_many.bound_bps));
        prop_assert_eq!(validate(&at_many.plan, &many, at_many.flows_per_link), Ok(()));
    }
}

proptest! {
    /// At N(m) there is a valid plan; one more worker requires more flows per link or does not fit.
    #[test]
    fn plans_meet_the_criterion((cluster, m) in arbitrary(), fewer in 0u64..5) {
        let most = most_workers(&cluster, m).workers;
        let workers = most.saturating_sub(fewer).max(1);
        let wiring = wire(&cluster, workers, &[]).unwrap();
        prop_assert_eq!(validate(&wiring.plan, &cluster, wiring.flows_per_link), Ok(()));
        prop_assert_eq!(wiring.plan.check(), Ok(()));
        prop_assert_eq!(wiring.plan.hosts().len() as u64, workers);
        prop_assert!(wiring.rate_bps <= wiring.bound_bps);
        prop_assert!(wiring.flows_per_link <= m && wiring.optimal, "{:?}", cluster);
        prop_assert!(flows_per_link(&cluster, most + 1).map_or(true, |flows| flows > m));
    }

    /// Any single damage is detected.
    #[test]
    fn damaged_plans_are_refused((cluster, m) in arbitrary(), kind in 0usize..DAMAGES.len(), at in 0usize..1000) {
        let wiring = wire(&cluster, most_workers(&cluster, m).workers, &[]).unwrap();
        let mut plan = wiring.plan.clone();
        if DAMAGES[kind](&mut plan, at) {
            prop_assert!(validate(&plan, &cluster, wiring.flows_per_link).is_err(), "damage {} at {}", kind, at);
        }
    }

    /// A plan is refused for a smaller cluster.
    #[test]
    fn plans_of_more_than_there_is_are_refused((cluster, m) in arbitrary()) {
        let workers = most_workers(&cluster, m).workers;
        let wiring = wire(&cluster, workers, &[]).unwrap();
        let Cluster { switches, aggregators, ports, layers, .. } = cluster;
        for smaller in [
            Cluster { ports: ports - 1, ..cluster },
            Cluster { layers: layers - 1, ..cluster },
            Cluster { switches: switches - 1, aggregators: aggregators.min(switches - 1), ..cluster },
            Cluster { aggregators: aggregators.saturating_sub(1), ..cluster },
        ] {
            let fits = most_workers(&smaller, m).bound >= workers;
            prop_assert!(fits || validate(&wiring.plan, &smaller, m).is_err(), "{:?} {:?}", cluster, smaller);
        }
        let m = wiring.flows_per_link;
        prop_assert!(most_workers(&cluster, m - 1).bound >= workers || validate(&wiring.plan, &cluster, m - 1).is_err());
    }
}

/// A damage; returns whether it was possible.
type Damage = fn(&mut Plan, usize) -> bool;

const DAMAGES: [Damage; 13] = [
    |plan, at| {
        let at = at % plan.links.len();
        plan.links.remove(at);
        true
    },
    |plan, at| {
        let link = plan.links[at % plan.links.len()].clone();
        plan.links.push(PlanLink { from: link.to, to: link.from, ..link });
        true
    },
    |plan, at| {
        let at = at % plan.flows.len();
        plan.flows.remove(at);
        true
    },
    |plan, at| {
        let flow = plan.flows[at % plan.flows.len()].clone();
        plan.flows.push(flow);
        true
    },
    |plan, at| {
        let flows = plan.flows.len();
        plan.flows[at % flows].path.pop();
        true
    },
    |plan, at| {
        let flows = plan.flows.len();
        plan.flows[at % flows].path.reverse();
        true
    },
    // A switch of the other kind.
    |plan, at| {
        let nodes = plan.nodes.len();
        let node = &mut plan.nodes[at % nodes];
        node.role = match node.role {
            PlanRole::Common => PlanRole::Aggregator,
            PlanRole::Aggregator => PlanRole::Common,
            PlanRole::Host | PlanRole::Server => return false,
        };
        true
    },
    |plan, at| {
        let nodes = plan.nodes.len();
        plan.nodes[at % nodes].workers.push(0);
        true
    },
    // A link without flows.
    |plan, at| {
        let (from, to) = (at % plan.nodes.len(), (at / 7) % plan.nodes.len());
        let linked =
            plan.links.iter().any(|link| (link.from, link.to) == (from, to) || (link.to, link.from) == (from, to));
        if linked || from == to {
            return false;
        }
        let rate_bps = plan.links[0].rate_bps;
        plan.links.push(PlanLink { from, to, rate_bps, cost: None });
        true
    },
    // A higher rate than the busiest link permits.
    |plan, _| {
        plan.rate_bps = plan.rate_bps.map(|rate| 2 * rate + 1);
        true
    },
    |plan, at| {
        let links = plan.links.len();
        plan.links[at % links].rate_bps *= 2;
        true
    },
    // An aggregator's output goes to itself.
    |plan, at| {
        let flows = plan.flows.len();
        let flow = &mut plan.flows[at % flows];
        let FlowSource::Aggregator(node) = flow.source else { return false };
        *flow.path.last_mut().unwrap() = node;
        true
    },
    // Two workers exchange their positions.
    |plan, at| {
        let workers: Vec<usize> =
            (0..plan.flows.len()).filter(|&flow| matches!(plan.flows[flow].source, FlowSource::Worker(_))).collect();
        let (a, b) = (workers[at % workers.len()], workers[(at + 1) % workers.len()]);
        let source = plan.flows[a].source;
        plan.flows[a].source = std::mem::replace(&mut plan.flows[b].source, source);
        a != b
    },
];

#[test]
fn loops_are_refused() {
    // Two aggregators that feed each other, as in Figure 2, and one that serves the server.
    let mut wiring = wire(&cluster(3, 3, 4, 3), 6, &[]).unwrap();
    let plan = &mut wiring.plan;
    let aggregators: Vec<usize> =
        (0..plan.nodes.len()).filter(|&node| plan.nodes[node].role == PlanRole::Aggregator).collect();
    plan.rate_bps = Some(50 * GBPS);
    let [top, first, second] = aggregators[..] else { panic!("three aggregators") };
    for link in plan.links.iter_mut().filter(|link| link.from == first || link.from == second) {
        (link.from, link.to) = (first, second);
    }
    plan.links.dedup_by_key(|link| (link.from, link.to));
    for flow in &mut plan.flows {
        match flow.source {
            FlowSource::Aggregator(node) if node == first => flow.path = vec![first, second],
            FlowSource::Aggregator(node) if node == second => flow.path = vec![second, first],
            _ => {}
        }
    }
    assert!(plan.flows.iter().any(|flow| flow.path[0] == top));
    let why = validate(plan, &cluster(3, 3, 4, 3), 2).unwrap_err();
    assert!(why.contains("loop"), "{why}");
}

/// A switch has no second link up where one is sufficient; as many workers as fit need all links.
#[test]
fn links_that_the_workers_do_not_need_are_left_out() {
    for (switches, aggregators, ports, layers, workers, links) in [
        (20, 4, 24, 5, 90, 95),
        (20, 3, 24, 5, 90, 116),
        (5, 2, 6, 5, 12, 17),
        (5, 2, 6, 5, 13, 19),
        (9, 2, 6, 3, 19, 31),
        (9, 2, 6, 3, 20, 33),
    ] {
        let cluster = cluster(switches, aggregators, ports, layers);
        let wiring = wire(&cluster, workers, &[]).unwrap();
        assert_eq!((wiring.flows_per_link, wiring.plan.links.len()), (2, links), "{cluster:?}, {workers} workers");
    }
}

/// One more switch that may aggregate does not lead to more cables at the same rate (ATRO §III-C).
#[test]
fn more_aggregators_take_no_more_cables() {
    for (switches, ports) in [(3, 3), (4, 4), (5, 5), (6, 4), (8, 6), (20, 24)] {
        for workers in (1..=switches * (ports - 1)).step_by(if switches > 8 { 22 } else { 1 }) {
            let mut before: Option<Wiring> = None;
            for aggregators in 0..=switches.min(6) {
                let cluster = Cluster { switches, aggregators, ports, capacity_bps: 100_000_000_000, layers: 16 };
                let Ok(wiring) = wire(&cluster, workers, &[]) else { continue };
                if let Some(before) = before.filter(|before| before.rate_bps == wiring.rate_bps) {
                    let (fewer, more) = (before.plan.links.len(), wiring.plan.links.len());
                    assert!(
                        more <= fewer,
                        "{switches} switches of {ports} ports, {aggregators} aggregators, {workers} workers: {more} > {fewer}"
                    );
                }
                before = Some(wiring);
            }
        }
    }
}
