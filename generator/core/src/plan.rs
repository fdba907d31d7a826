//! A plan: which switches aggregate, how nodes are connected, and the path of each flow.
//!
//! Placers write it (`pktgen place … --emit`), the topology `plan` reads it, and the program `reduce` follows it. A
//! flow starts at a worker, or at an aggregator with input, and ends at the next aggregator on its path or at the
//! server; the load of each link is therefore known in advance, in whole numbers.

mod check;
mod network;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::object::{self, Object};
use crate::regular::check_regular;
use crate::{Error, Result};

/// Version of the file.
pub const PLAN_VERSION: u32 = 1;

/// The role of a node in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanRole {
    /// A host with workers.
    Host,
    /// A switch that forwards.
    Common,
    /// A switch that aggregates.
    Aggregator,
    /// The parameter server, or the destination.
    Server,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanNode {
    /// Name in records and reports.
    pub name: String,
    /// Its role.
    pub role: PlanRole,
    /// The workers of a host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<u32>,
}

/// A cable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanLink {
    /// The end closer to the workers.
    pub from: usize,
    /// The end closer to the server.
    pub to: usize,
    /// Line rate of each direction.
    pub rate_bps: u64,
    /// Cost of one message on this link in the units of φ; none if φ does not count the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// The sender of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowSource {
    /// A worker.
    Worker(u32),
    /// An aggregator, by node.
    Aggregator(usize),
}

/// One message of every round, from its sender to its receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFlow {
    /// Its sender.
    pub source: FlowSource,
    /// Nodes on its path: the host of the worker or the aggregator first, the receiving aggregator or server last.
    pub path: Vec<usize>,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// The placer.
    pub placer: String,
    /// Nodes; the index is the id.
    #[serde(deserialize_with = "object::list")]
    pub nodes: Vec<PlanNode>,
    /// Cables.
    #[serde(deserialize_with = "object::list")]
    pub links: Vec<PlanLink>,
    /// Flows.
    #[serde(deserialize_with = "object::list")]
    pub flows: Vec<PlanFlow>,
    /// The rate of each flow that the plan promises, in wire bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// The network utilisation φ that the plan promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phi: Option<f64>,
}

impl Plan {
    /// Reads and checks a plan.
    pub fn read(path: &Path) -> Result<Self> {
        check_regular(path)?;
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        let Object(plan): Object<Plan> = serde_json::from_str(&text)
            .map_err(|e| Error::config(format!("{}: it is not a plan of pktgen place: {e}", path.display())))?;
        plan.check().map_err(|why| Error::config(format!("{}: {why}", path.display())))?;
        Ok(plan)
    }

    /// Returns the host of each worker; `None` for missing numbers below the highest.
    pub fn hosts(&self) -> Vec<Option<usize>> {
        let mut hosts = Vec::new();
        for (id, node) in self.nodes.iter().enumerate() {
            for &worker in &node.workers {
                let worker = worker as usize;
                hosts.resize(hosts.len().max(worker + 1), None);
                hosts[worker] = Some(id);
            }
        }
        hosts
    }

    /// Returns the index of the link between two nodes, for both directions.
    pub fn cables(&self) -> BTreeMap<(usize, usize), usize> {
        let both = |(i, link): (usize, &PlanLink)| [((link.from, link.to), i), ((link.to, link.from), i)];
        self.links.iter().enumerate().flat_map(both).collect()
    }

    /// Returns the messages of one round on each link, towards the server and away from it (SOAR §2, `msg_e`).
    pub fn messages(&self) -> Vec<[u64; 2]> {
        self.messages_of(|_| 1)
    }

    /// Returns the messages on each link, if flow `i` carries `times(i)` messages.
    pub fn messages_of(&self, times: impl Fn(usize) -> u64) -> Vec<[u64; 2]> {
        let cables = self.cables();
        let mut messages = vec![[0; 2]; self.links.len()];
        for (i, flow) in self.flows.iter().enumerate() {
            for pair in flow.path.windows(2) {
                if let Some(&link) = cables.get(&(pair[0], pair[1])) {
                    messages[link][usize::from(self.links[link].from != pair[0])] += times(i);
                }
            }
        }
        messages
    }

    /// Returns the clusters whose messages each flow carries, in order: an aggregator sums per cluster, so it emits one
    /// message for each cluster that it receives. `cluster_of` is by worker.
    pub fn clusters(&self, cluster_of: &[u16]) -> Vec<Vec<u16>> {
        let flows = self.whole(cluster_of, |_| 0).into_iter();
        flows.map(|own| own.into_iter().map(|(cluster, _)| cluster).collect()).collect()
    }

    /// Returns the clusters of each flow with the number of messages whose parts are complete: the least of those that
    /// `generated` has for the workers in it.
    pub fn whole(&self, cluster_of: &[u16], generated: impl Fn(usize) -> u64) -> Vec<Vec<(u16, u64)>> {
        let mut flow_of = vec![None; self.nodes.len()];
        for (i, flow) in self.flows.iter().enumerate() {
            if let FlowSource::Aggregator(node) = flow.source {
                flow_of[node] = Some(i);
            }
        }
        let mut whole = vec![Vec::new(); self.flows.len()];
        for (i, flow) in self.flows.iter().enumerate() {
            let FlowSource::Worker(worker) = flow.source else { continue };
            let Some(&cluster) = cluster_of.get(worker as usize) else { continue };
            let messages = generated(worker as usize);
            let mut next = Some(i);
            while let Some(flow) = next {
                let own: &mut Vec<(u16, u64)> = &mut whole[flow];
                match own.binary_search_by_key(&cluster, |(cluster, _)| *cluster) {
                    // An earlier flow through this node already registered as few for the cluster up to the server.
                    Ok(at) if own[at].1 <= messages => break,
                    Ok(at) => own[at].1 = messages,
                    Err(place) => own.insert(place, (cluster, messages)),
                }
                next = self.flows[flow].path.last().and_then(|end| flow_of[*end]);
            }
        }
        whole
    }

    /// Returns φ of the messages of the plan (SOAR §2, equation 1).
    pub fn utilisation(&self) -> f64 {
        self.utilisation_of(&self.messages())
    }

    /// Returns φ for these messages on the links.
    pub fn utilisation_of(&self, messages: &[[u64; 2]]) -> f64 {
        let costs = self.links.iter().zip(messages);
        costs.filter_map(|(link, [up, down])| Some((up + down) as f64 * link.cost?)).sum()
    }
}

#[cfg(test)]
mod tests;
