//! Checks the paper's constraints, (6) to (20), on a plan; shares no code with the planner.
//!
//! Plans do not contain layers, so the check is whether a valid assignment exists (equations 18 to 20). The program allows a worker to
//! send nothing; here each sends one flow, as in the paper's text, none ends in a worker and none leaves the server.

use std::collections::BTreeMap;

use pktgen_core::plan::{FlowSource, Plan, PlanRole};

use super::cluster::Cluster;
use super::inventory::Inventory;

/// Checks that a plan is a wiring of the cluster with at most `m` flows on each link.
pub(crate) fn validate(plan: &Plan, cluster: &Cluster, m: u64) -> Result<(), String> {
    roles(plan)?;
    counts(plan, cluster)?;
    links(plan, &|_| cluster.ports, &|_, _| cluster.capacity_bps)?;
    flows(plan, m, cluster.layers)
}

/// Checks that a plan is a wiring of the switches and hosts with these names, including all hosts.
pub(super) fn validate_inventory(plan: &Plan, inventory: &Inventory) -> Result<(), String> {
    roles(plan)?;
    let ends = ends(plan, inventory)?;
    let ports = |node: usize| match ends[node] {
        End::Switch(switch) => inventory.switches[switch].ports,
        End::Host(_) => 1,
    };
    let rate = |a: usize, b: usize| match (ends[a], ends[b]) {
        (End::Switch(a), End::Switch(b)) => inventory.link_bps(a, b),
        (End::Host(host), End::Switch(switch)) | (End::Switch(switch), End::Host(host)) => {
            if switch == inventory.server() { 0 } else { inventory.host_bps(host, switch) }
        }
        (End::Host(_), End::Host(_)) => 0,
    };
    links(plan, &ports, &rate)?;
    flows(plan, u64::MAX, inventory.layers)
}

/// Checks everything about flows, independent of the rates of links.
fn flows(plan: &Plan, m: u64, most_layers: u64) -> Result<(), String> {
    let loads = loads(plan)?;
    capacities(plan, &loads, m)?;
    balances(plan, &loads)?;
    layers(plan, &loads, most_layers)
}

/// The inventory item of a plan's node; the server counts as the switch after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Switch(usize),
    Host(usize),
}

/// Finds each node by its name: every host once, no switch twice, and each with its role.
fn ends(plan: &Plan, inventory: &Inventory) -> Result<Vec<End>, String> {
    let switches: BTreeMap<_, _> =
        inventory.switches.iter().enumerate().map(|(number, switch)| (switch.name.as_str(), number)).collect();
    let hosts: BTreeMap<_, _> =
        inventory.hosts.iter().enumerate().map(|(number, host)| (host.name.as_str(), number)).collect();
    let mut taken = std::collections::BTreeSet::new();
    let mut ends = Vec::with_capacity(plan.nodes.len());
    for (node, entry) in plan.nodes.iter().enumerate() {
        let switch = |aggregates: bool| {
            let number = switches.get(entry.name.as_str()).copied();
            number.filter(|&number| inventory.switches[number].aggregates == aggregates).map(End::Switch)
        };
        let end = match entry.role {
            PlanRole::Server => Some(End::Switch(inventory.server())),
            PlanRole::Host => hosts.get(entry.name.as_str()).copied().map(End::Host),
            PlanRole::Common => switch(false),
            PlanRole::Aggregator => switch(true),
        };
        let end = end.ok_or_else(|| format!("{} is none of the cluster in that role", named(plan, node)))?;
        if !taken.insert(end) {
            return Err(format!("{} is there twice", named(plan, node)));
        }
        ends.push(end);
    }
    match (0..inventory.hosts.len()).find(|&host| !taken.contains(&End::Host(host))) {
        Some(host) => Err(format!("the host \"{}\" is missing", inventory.hosts[host].name)),
        None => Ok(ends),
    }
}

/// Number of flows on each directed pair of nodes, y of equation 3.
type Loads = BTreeMap<(usize, usize), u64>;

fn named(plan: &Plan, node: usize) -> String {
    format!("node {node} \"{}\"", plan.nodes[node].name)
}

/// Checks the numbers of switches of each kind.
fn counts(plan: &Plan, cluster: &Cluster) -> Result<(), String> {
    let count = |role: PlanRole| plan.nodes.iter().filter(|node| node.role == role).count() as u64;
    let (aggregators, commons) = (count(PlanRole::Aggregator), count(PlanRole::Common));
    if aggregators > cluster.aggregators || aggregators + commons > cluster.switches {
        return Err(format!(
            "{aggregators} aggregators and {commons} common switches are more than there are: {} switches, {} of which \
             aggregate",
            cluster.switches, cluster.aggregators
        ));
    }
    Ok(())
}

/// Checks that there is one server, and one worker per host.
fn roles(plan: &Plan) -> Result<(), String> {
    let servers = plan.nodes.iter().filter(|node| node.role == PlanRole::Server).count();
    if servers != 1 {
        return Err(format!("there are {servers} servers, not 1"));
    }
    let mut workers = std::collections::BTreeSet::new();
    for (node, entry) in plan.nodes.iter().enumerate() {
        let expected = usize::from(entry.role == PlanRole::Host);
        if entry.workers.len() != expected || !entry.workers.iter().all(|worker| workers.insert(*worker)) {
            return Err(format!("{} has workers {:?}, not {expected} of its own", named(plan, node), entry.workers));
        }
    }
    if workers.iter().copied().ne(0..workers.len() as u32) {
        return Err("workers are not numbered from 0 on".into());
    }
    Ok(())
}

/// Equations (2), (6), (7), (8): at most one link between two nodes, no more links than ports, hosts and server at one switch.
fn links(plan: &Plan, ports: &dyn Fn(usize) -> u64, rate_bps: &dyn Fn(usize, usize) -> u64) -> Result<(), String> {
    let mut degrees = vec![0u64; plan.nodes.len()];
    let mut pairs = std::collections::BTreeSet::new();
    let switch = |node: usize| matches!(plan.nodes[node].role, PlanRole::Common | PlanRole::Aggregator);
    for link in &plan.links {
        let (a, b) = (link.from.min(link.to), link.from.max(link.to));
        if b >= plan.nodes.len() || a == b {
            return Err(format!("a link joins {a} and {b}, which are not two nodes"));
        }
        if !pairs.insert((a, b)) {
            return Err(format!("two links join {} and {}", named(plan, a), named(plan, b)));
        }
        if !switch(a) && !switch(b) {
            return Err(format!("a link joins {} and {} without a switch", named(plan, a), named(plan, b)));
        }
        let most_bps = rate_bps(a, b);
        if link.rate_bps > most_bps {
            return Err(format!("a link carries {} bit/s, more than {most_bps}", link.rate_bps));
        }
        degrees[a] += 1;
        degrees[b] += 1;
    }
    for (node, &degree) in degrees.iter().enumerate() {
        if switch(node) && degree > ports(node) {
            return Err(format!("{} has {degree} links and {} ports", named(plan, node), ports(node)));
        }
        if !switch(node) && degree != 1 {
            return Err(format!("{} has {degree} links, not 1", named(plan, node)));
        }
    }
    Ok(())
}

/// Follows every flow to an aggregator or the server, on existing links (16, 17), through common switches only.
fn loads(plan: &Plan) -> Result<Loads, String> {
    let linked: std::collections::BTreeSet<(usize, usize)> =
        plan.links.iter().flat_map(|link| [(link.from, link.to), (link.to, link.from)]).collect();
    let mut loads = Loads::new();
    let mut sent = BTreeMap::new();
    for flow in &plan.flows {
        let [first, middle @ .., last] = flow.path.as_slice() else { return Err("a flow has no way".into()) };
        if flow.path.iter().any(|&node| node >= plan.nodes.len()) {
            return Err(format!("a flow passes {:?}, which are not all nodes", flow.path));
        }
        let right = match flow.source {
            FlowSource::Worker(worker) => plan.nodes[*first].workers.contains(&worker),
            FlowSource::Aggregator(node) => node == *first && plan.nodes[node].role == PlanRole::Aggregator,
        };
        if !right {
            return Err(format!("{:?} does not emit at {}", flow.source, named(plan, *first)));
        }
        *sent.entry(*first).or_insert(0u64) += 1;
        if let Some(&node) = middle.iter().find(|&&node| plan.nodes[node].role != PlanRole::Common) {
            return Err(format!("a flow passes through {}, which does not forward", named(plan, node)));
        }
        if !matches!(plan.nodes[*last].role, PlanRole::Aggregator | PlanRole::Server) {
            return Err(format!("a flow ends in {}", named(plan, *last)));
        }
        for pair in flow.path.windows(2) {
            if !linked.contains(&(pair[0], pair[1])) {
                return Err(format!("no link joins {} and {}", named(plan, pair[0]), named(plan, pair[1])));
            }
            *loads.entry((pair[0], pair[1])).or_insert(0) += 1;
        }
    }
    for (node, entry) in plan.nodes.iter().enumerate() {
        let sent = sent.get(&node).copied().unwrap_or(0);
        if entry.role == PlanRole::Host && sent != 1 {
            return Err(format!("{} sends {sent} flows, not 1", named(plan, node)));
        }
    }
    Ok(loads)
}

/// Equation (14): sums return along the same links, so both directions of the reduction together are at most `m` flows;
/// and no link is unused (§III-C). The rate is the resulting one.
fn capacities(plan: &Plan, loads: &Loads, m: u64) -> Result<(), String> {
    for link in &plan.links {
        let load = |a: usize, b: usize| loads.get(&(a, b)).copied().unwrap_or(0);
        let both = load(link.from, link.to) + load(link.to, link.from);
        let place = format!("the link of {} and {}", named(plan, link.from), named(plan, link.to));
        if both > m {
            return Err(format!("{place} has {both} flows, more than {m}"));
        }
        if both == 0 {
            return Err(format!("{place} is unused"));
        }
        let rate = plan.rate_bps.unwrap_or(0);
        if rate == 0 || rate.saturating_mul(both) > link.rate_bps {
            return Err(format!("{place} has {both} flows of {rate} bit/s, more than its {} bit/s", link.rate_bps));
        }
    }
    Ok(())
}

/// Equations (9), (10), (13): an aggregator emits one flow if it receives any, a common switch as many as it receives;
/// nothing leaves the server or enters a host.
fn balances(plan: &Plan, loads: &Loads) -> Result<(), String> {
    let mut through = vec![(0u64, 0u64); plan.nodes.len()];
    for (&(from, to), &load) in loads {
        through[from].1 += load;
        through[to].0 += load;
    }
    for (node, &(taken, emitted)) in through.iter().enumerate() {
        let right = match plan.nodes[node].role {
            PlanRole::Host => taken == 0 && emitted == 1,
            PlanRole::Common => taken == emitted && taken > 0,
            PlanRole::Aggregator => taken > 0 && emitted == 1,
            PlanRole::Server => taken > 0 && emitted == 0,
        };
        if !right {
            return Err(format!("{} takes {taken} flows and emits {emitted}", named(plan, node)));
        }
    }
    Ok(())
}

/// Equations (18) to (20): switches have layers from 1 to L that decrease along every flow, with 1 for the one next to the server.
fn layers(plan: &Plan, loads: &Loads, most: u64) -> Result<(), String> {
    let server = plan.nodes.iter().position(|node| node.role == PlanRole::Server).unwrap_or(0);
    let mut layer: Vec<u64> = plan.nodes.iter().map(|node| u64::from(node.role != PlanRole::Server)).collect();
    // As many rounds as switches suffice unless there is a loop.
    for _ in 0..=plan.nodes.len() {
        let mut settled = true;
        for &(from, to) in loads.keys() {
            if plan.nodes[from].role != PlanRole::Host && layer[from] <= layer[to] {
                layer[from] = layer[to] + 1;
                settled = false;
            }
        }
        if let Some(node) = layer.iter().position(|&layer| layer > most) {
            return Err(format!("{} is in layer {} of {most}, or flows run in a loop", named(plan, node), layer[node]));
        }
        if settled {
            break;
        }
    }
    match loads.keys().find(|&&(from, to)| to == server && layer[from] != 1) {
        Some(&(from, _)) => Err(format!("{} is next to the server and in layer {}", named(plan, from), layer[from])),
        None => Ok(()),
    }
}
