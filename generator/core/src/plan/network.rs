//! The default plan of a network: shortest paths to the server, along which switches aggregate.

use std::collections::BTreeSet;

use crate::topology::{Node, NodeId, Role, Topology};
use crate::{Error, Result};

use super::{FlowSource, PLAN_VERSION, Plan, PlanFlow, PlanLink, PlanNode, PlanRole};

impl Plan {
    /// Returns the plan of `topology`: the devices called `aggregators`, or every available one if `None`, sum what reaches them on the
    /// shortest paths to the server. `ports` has the port towards the server by node; `takes_part` selects workers.
    pub fn of_network(
        topology: &Topology,
        ports: &[u16],
        aggregators: Option<&[String]>,
        takes_part: impl Fn(u32) -> bool,
    ) -> Result<Plan> {
        let sums = aggregating(topology, aggregators)?;
        let mut ends = vec![Vec::new(); topology.nodes.len()];
        for link in &topology.links {
            ends[link.from as usize].push(link.to as usize);
        }
        let next: Vec<Option<usize>> =
            ends.iter().zip(ports).map(|(ends, port)| ends.get(usize::from(*port)).copied()).collect();
        let mut plan = Plan {
            version: PLAN_VERSION,
            placer: "network".into(),
            nodes: nodes(topology, &sums, &takes_part),
            links: links(topology, &next),
            flows: Vec::new(),
            rate_bps: None,
            phi: None,
        };
        let mut emits = vec![false; sums.len()];
        for node in 0..plan.nodes.len() {
            for worker in plan.nodes[node].workers.clone() {
                let mut source = FlowSource::Worker(worker);
                let mut from = node;
                loop {
                    let path = path(from, &next, &sums);
                    let end = path.last().copied().unwrap_or(from);
                    plan.flows.push(PlanFlow { source, path });
                    if !sums[end] || std::mem::replace(&mut emits[end], true) {
                        break;
                    }
                    (source, from) = (FlowSource::Aggregator(end), end);
                }
            }
        }
        Ok(plan)
    }
}

/// Returns which nodes aggregate.
fn aggregating(topology: &Topology, names: Option<&[String]>) -> Result<Vec<bool>> {
    let mut sums = vec![false; topology.nodes.len()];
    let Some(names) = names else {
        let available = topology.devices().filter(|id| !topology.unavailable.contains(id));
        available.for_each(|id| sums[id as usize] = true);
        return Ok(sums);
    };
    for name in names {
        match topology.find(name).filter(|id| topology.nodes[*id as usize].role == Role::Device) {
            Some(id) if topology.unavailable.contains(&id) => {
                return Err(Error::config(format!(
                    "target.aggregators: \"{name}\" is not available as an aggregator; leave it out, or set its available to true in \
                     the file of topology.tree"
                )));
            }
            Some(id) => sums[id as usize] = true,
            None => {
                return Err(Error::config(format!("target.aggregators: \"{name}\" is no device of the topology")));
            }
        }
    }
    Ok(sums)
}

fn nodes(topology: &Topology, sums: &[bool], takes_part: &impl Fn(u32) -> bool) -> Vec<PlanNode> {
    let node = |(node, sums): (&Node, &bool)| {
        let (role, workers) = match &node.role {
            Role::Host(workers) => {
                (PlanRole::Host, workers.iter().copied().filter(|worker| takes_part(*worker)).collect())
            }
            Role::Server => (PlanRole::Server, Vec::new()),
            Role::Controller => (PlanRole::Host, Vec::new()),
            Role::Device if *sums => (PlanRole::Aggregator, Vec::new()),
            Role::Device => (PlanRole::Common, Vec::new()),
        };
        PlanNode { name: node.name.clone(), role, workers }
    };
    topology.nodes.iter().zip(sums).map(node).collect()
}

/// Returns each link once; the end closer to the workers comes first if a shortest path uses the link.
fn links(topology: &Topology, next: &[Option<usize>]) -> Vec<PlanLink> {
    let ends = topology.links.iter().map(|link| (link.from as usize, link.to as usize, link.rate.bps()));
    let leads = |from: usize, to: usize| next[from] == Some(to);
    let kept = ends.filter(|(from, to, _)| leads(*from, *to) || (from < to && !leads(*to, *from)));
    // Of parallel links the first is taken, as in routes.
    let mut seen = BTreeSet::new();
    let kept = kept.filter(|(from, to, _)| seen.insert((*from, *to)));
    let cost = |from: usize, to: usize| topology.costs.get(&(from as NodeId, to as NodeId)).copied();
    kept.map(|(from, to, rate_bps)| PlanLink { from, to, rate_bps, cost: cost(from, to) }).collect()
}

/// Returns the path from `node` to the next aggregator, or to the server.
fn path(node: usize, next: &[Option<usize>], sums: &[bool]) -> Vec<usize> {
    let mut path = vec![node];
    let mut at = node;
    while let Some(to) = next[at] {
        path.push(to);
        at = to;
        if sums[to] {
            break;
        }
    }
    path
}
