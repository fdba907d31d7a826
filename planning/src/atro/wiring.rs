//! Creates a plan for a number of workers: cables, cross-connects of the optical device, routes, and their rate.

use pktgen_core::plan::{FlowSource, PLAN_VERSION, Plan, PlanFlow, PlanLink, PlanNode, PlanRole};
use pktgen_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::attach::attach;
use super::cluster::Cluster;
use super::criterion::{bound_flows, most_workers};
use super::infeasible;
use super::inventory::Inventory;
use super::mixed;
use super::shapes::{self, Candidate};
use super::skeleton::{Route, SERVER, Skeleton};
use super::validate::validate;

/// A port of a node of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The node, by its number in the plan.
    pub node: usize,
    /// The port, from 0.
    pub port: u64,
}

/// Two ports joined by the optical device (ATRO Figure 1): one cross-connect per link of the plan, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossConnect {
    /// The end closer to the workers.
    pub from: Port,
    /// The end closer to the server.
    pub to: Port,
}

/// A wiring with routes, and its quality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wiring {
    /// Nodes, cables, flows.
    pub plan: Plan,
    /// Cross-connects of the optical device.
    pub cross_connects: Vec<CrossConnect>,
    /// Maximum number of flows on a link, m.
    pub flows_per_link: u64,
    /// The rate of each worker in wire bits per second, both directions of a link together within its capacity.
    pub rate_bps: u64,
    /// Upper bound of the rate of any wiring.
    pub bound_bps: u64,
    /// Whether the rate is that bound.
    pub optimal: bool,
    /// Whether the bound is proved; otherwise it is that of all known shapes, which the program confirmed wherever it was run.
    pub proved: bool,
    /// Why the solver settled nothing, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solver_failure: Option<String>,
}

/// Returns the best wiring for this many workers. With `rates`, the rate is the largest possible one of them (QSR, ATRO
/// §III-C); otherwise ⌊capacity / m⌋.
pub fn wire(cluster: &Cluster, workers: u64, rates: &[u64]) -> Result<Wiring> {
    wire_hosts(cluster, workers, rates, u64::MAX)
}

/// Does the same for hosts that send no faster than `host_bps`.
pub(super) fn wire_hosts(cluster: &Cluster, workers: u64, rates: &[u64], host_bps: u64) -> Result<Wiring> {
    infeasible::check(cluster, workers)?;
    let limit = bound_flows(cluster, workers, false);
    let proved = bound_flows(cluster, workers, true) == limit;
    let rate = |m: u64| rate_of(cluster, rates, m, host_bps);
    let bound_bps = rate(limit)?;
    let by_shapes = match best_skeleton(cluster, workers, limit) {
        None => None,
        // What is tried below may do with fewer flows per link.
        Some((m, _)) if !shapes::are_all_tried(cluster) && rate(m).is_err() => None,
        Some((m, mut whole)) => {
            let rate_bps = rate(m)?;
            let written = |whole: &Skeleton| write(whole, &|_, _| m, workers, cluster.capacity_bps, rate_bps);
            let mut all = written(&whole)?;
            // No switch is used in vain (ATRO §III-C): the available number may exceed the minimum.
            while let Some(fewer) = with_fewer(cluster, &all.0)
                && let Some(smaller) = skeleton(&fewer, workers, m)
            {
                let own = written(&smaller)?;
                if own.0.links.len() >= all.0.links.len() {
                    break;
                }
                (all, whole) = (own, smaller);
            }
            let (plan, cross_connects, _) = with_fewest(all, whole.lean_by(&|_, _| m, workers), written)?;
            validate(&plan, cluster, m)
                .map_err(|why| Error::Invalid(format!("the wiring for {workers} workers is wrong: {why}")))?;
            let optimal = rate_bps == bound_bps;
            let flows_per_link = m;
            let solver_failure = None;
            Some(Wiring { plan, cross_connects, flows_per_link, rate_bps, bound_bps, optimal, proved, solver_failure })
        }
    };
    if shapes::are_all_tried(cluster) || by_shapes.as_ref().is_some_and(|wiring| wiring.optimal) {
        return by_shapes.ok_or_else(|| not_found(workers, &[]));
    }
    // All shapes of fewer switches, and the methods for unequal ones, may find better wirings than trees.
    let fewer = shapes::all_tried_within(cluster).and_then(|fewer| wire_hosts(&fewer, workers, rates, host_bps).ok());
    let mut inventory = Inventory::of_cluster(cluster, workers);
    inventory.hosts.iter_mut().for_each(|host| host.rate_bps = host.rate_bps.min(host_bps));
    let constructed = mixed::construct(&inventory, rates)?;
    let all = [constructed, fewer, by_shapes].into_iter().flatten();
    let best = all.max_by_key(|wiring| wiring.rate_bps).ok_or_else(|| not_found(workers, rates))?;
    let optimal = best.rate_bps == bound_bps;
    Ok(Wiring { bound_bps, optimal, proved, ..best })
}

/// Returns a cluster with one switch less than a plan uses, if all shapes are tried.
fn with_fewer(cluster: &Cluster, plan: &Plan) -> Option<Cluster> {
    let is_switch = |role: PlanRole| matches!(role, PlanRole::Common | PlanRole::Aggregator);
    let used = plan.nodes.iter().filter(|node| is_switch(node.role)).count() as u64;
    let switches = used.checked_sub(1).filter(|left| *left > 0 && shapes::are_all_tried(cluster))?;
    Some(Cluster { switches, aggregators: cluster.aggregators.min(switches), ..*cluster })
}

fn not_found(workers: u64, rates: &[u64]) -> Error {
    let remedy = if rates.is_empty() { "" } else { "; rates: add a smaller one" };
    Error::Invalid(format!("no wiring was found for {workers} workers, although one may exist{remedy}"))
}

/// Returns the minimum number of flows per link, from `limit` on, with which a skeleton holds this many workers, and that skeleton.
fn best_skeleton(cluster: &Cluster, workers: u64, limit: u64) -> Option<(u64, Skeleton)> {
    let at = |m: u64| skeleton(cluster, workers, m).map(|whole| (m, whole));
    if shapes::are_all_tried(cluster) {
        return (limit..=workers).find_map(at);
    }
    // The bound may be far below: the distance is doubled, then bisected.
    let mut step = 0;
    let mut best = loop {
        let m = (limit + step).min(workers);
        match at(m) {
            Some(found) => break found,
            None if m == workers => return None,
            None => step = (2 * step).max(1),
        }
    };
    let mut low = limit + step / 2 + u64::from(step > 0);
    while low < best.0 {
        let middle = low + (best.0 - low) / 2;
        match at(middle) {
            Some(found) => best = found,
            None => low = middle + 1,
        }
    }
    Some(best)
}

/// Returns the rate with `m` flows per link.
fn rate_of(cluster: &Cluster, rates: &[u64], m: u64, host_bps: u64) -> Result<u64> {
    let most = (cluster.capacity_bps / m).min(host_bps);
    let rate = if rates.is_empty() { Some(most) } else { rates.iter().copied().filter(|rate| *rate <= most).max() };
    rate.filter(|rate| *rate > 0).ok_or_else(|| {
        let capacity = cluster.capacity_bps;
        let why = match rates.iter().min() {
            Some(least) => {
                format!("rates: the smallest, {least} bit/s, is not from 1 to {most} bit/s; add a smaller one")
            }
            None => format!("capacity: {capacity} bit/s is less than 1 bit/s for each of {m} flows; raise it"),
        };
        Error::config(format!("{why} (the fewest flows on the busiest link of {capacity} bit/s are {m})"))
    })
}

/// Returns a skeleton that holds this many workers.
fn skeleton(cluster: &Cluster, workers: u64, m: u64) -> Option<Skeleton> {
    let holds = |whole: &Skeleton| whole.workers(m).is_some_and(|most| most >= workers);
    let by_tree = |commons: u64| -> Option<Candidate> {
        shapes::trees(cluster, m, commons).find(|candidate| candidate.workers >= workers)
    };
    if cluster.aggregators > 0 && by_tree(cluster.commons()).is_some() {
        // Only as many common switches as necessary.
        let (mut low, mut high) = (0, cluster.commons());
        while low < high {
            let middle = low + (high - low) / 2;
            if by_tree(middle).is_some() { high = middle } else { low = middle + 1 }
        }
        let whole = by_tree(high).map(|candidate| attach(cluster, m, &candidate));
        if let Some(whole) = whole.filter(|whole| holds(whole)) {
            return Some(whole);
        }
    }
    let plain = shapes::plain(cluster);
    if holds(&plain) {
        return Some(plain);
    }
    if most_workers(cluster, m).workers < workers || cluster.aggregators == 0 {
        return None;
    }
    let mut candidates = shapes::candidates(cluster, m)?;
    candidates.retain(|candidate| candidate.workers >= workers);
    candidates.iter().map(|candidate| attach(cluster, m, candidate)).find(|whole| holds(whole))
}

/// Returns the routes of exactly this many workers: those on common switches are removed first, then routes that no longer have inputs.
fn trim(mut routes: Vec<Route>, workers: u64) -> Vec<Route> {
    let mut left = workers;
    routes.sort_by_key(|route| !route.from_worker);
    routes.retain(|route| {
        let kept = !route.from_worker || left > 0;
        left -= u64::from(kept && route.from_worker);
        kept
    });
    loop {
        let fed: std::collections::HashSet<usize> =
            routes.iter().filter_map(|route| route.path.last().copied()).collect();
        let before = routes.len();
        // A route of an aggregator without inputs; a worker's own aggregator is the end of its route.
        routes.retain(|route| route.from_worker || fed.contains(&route.path[0]));
        if routes.len() == before {
            return routes;
        }
    }
}

/// A plan, its cross-connects, and the number in the skeleton of each switch of the plan.
pub(super) type Written = (Plan, Vec<CrossConnect>, Vec<usize>);

/// Returns the plan with fewer links: `all`, or that of a skeleton without links that the workers do not need. There, flows may need some that
/// carried nothing before.
pub(super) fn with_fewest(
    all: Written,
    lean: Option<Skeleton>,
    written: impl Fn(&Skeleton) -> Result<Written>,
) -> Result<Written> {
    let lean = lean.map(|lean| written(&lean)).transpose()?;
    Ok(lean.filter(|lean| lean.0.links.len() < all.0.links.len()).unwrap_or(all))
}

/// Creates the plan with `most` flows on each link from a switch to the one above: the server, the used switches, the hosts; all links have the
/// same rate.
pub(super) fn write(
    whole: &Skeleton,
    most: &dyn Fn(usize, usize) -> u64,
    workers: u64,
    capacity_bps: u64,
    rate: u64,
) -> Result<Written> {
    let lost = || Error::Invalid(format!("no wiring was found for {workers} workers, although one was"));
    let routes = trim(whole.routes_by(most).ok_or_else(lost)?, workers);
    let mut used: Vec<usize> = routes.iter().flat_map(|route| route.path.iter().copied()).collect();
    used.sort_by_key(|&switch| (switch != SERVER, !whole.aggregates(switch), switch));
    used.dedup();
    let mut number = std::collections::HashMap::new();
    let mut nodes = Vec::new();
    for &switch in &used {
        let (name, role) = match (switch, whole.aggregates(switch)) {
            (SERVER, _) => ("ps".to_owned(), PlanRole::Server),
            (_, true) => (format!("agg{}", nodes.len() - 1), PlanRole::Aggregator),
            (_, false) => (format!("cs{}", nodes.len() - 1), PlanRole::Common),
        };
        number.insert(switch, nodes.len());
        nodes.push(PlanNode { name, role, workers: Vec::new() });
    }
    let mut flows = Vec::new();
    for route in &routes {
        let mut path: Vec<usize> = route.path.iter().map(|switch| number[switch]).collect();
        let source = if route.from_worker {
            let worker = flows.len() as u32;
            path.insert(0, nodes.len());
            nodes.push(PlanNode { name: format!("host{worker}"), role: PlanRole::Host, workers: vec![worker] });
            FlowSource::Worker(worker)
        } else {
            FlowSource::Aggregator(path[0])
        };
        flows.push(PlanFlow { source, path });
    }
    let (links, cross_connects) = cables(capacity_bps, &flows, nodes.len());
    let plan =
        Plan { version: PLAN_VERSION, placer: "atro".into(), nodes, links, flows, rate_bps: Some(rate), phi: None };
    plan.check().map_err(|why| Error::Invalid(format!("the wiring for {workers} workers is no plan: {why}")))?;
    Ok((plan, cross_connects, used))
}

/// Returns a cable for every pair of nodes that a flow passes, with the next free port at both ends.
fn cables(rate_bps: u64, flows: &[PlanFlow], nodes: usize) -> (Vec<PlanLink>, Vec<CrossConnect>) {
    let (mut links, mut cross_connects) = (Vec::new(), Vec::new());
    let mut ports = vec![0; nodes];
    let mut next = |node: usize| {
        ports[node] += 1;
        Port { node, port: ports[node] - 1 }
    };
    let mut seen = std::collections::HashSet::new();
    for pair in flows.iter().flat_map(|flow| flow.path.windows(2)) {
        if seen.insert((pair[0], pair[1])) {
            let (from, to) = (pair[0], pair[1]);
            links.push(PlanLink { from, to, rate_bps, cost: None });
            cross_connects.push(CrossConnect { from: next(from), to: next(to) });
        }
    }
    (links, cross_connects)
}
