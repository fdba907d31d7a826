//! A plan: which switches aggregate, how nodes are wired, and which way each flow takes.
//!
//! Placers write it (`pktgen place … --emit`), the topology `plan` reads it, and the program `reduce` follows it. A flow
//! leaves a worker, or an aggregator that has input, and ends at the next aggregator on its way or at the server; what
//! crosses a link is therefore known before anything is sent, as whole numbers.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Version of the file.
pub const PLAN_VERSION: u32 = 1;

/// What a node of a plan is.
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
    /// What it is.
    pub role: PlanRole,
    /// The workers of a host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<u32>,
}

/// A cable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanLink {
    /// The end nearer to the workers.
    pub from: usize,
    /// The end nearer to the server.
    pub to: usize,
    /// Line rate of either direction.
    pub rate_bps: u64,
    /// What one message costs here in the units of φ; none where φ does not count the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// Who emits a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowSource {
    /// A worker.
    Worker(u32),
    /// An aggregator, by node.
    Aggregator(usize),
}

/// One message of every round: from where it is made to where it is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFlow {
    /// Who emits it.
    pub source: FlowSource,
    /// Nodes on its way: the host of the worker or the aggregator first, the aggregator or server that takes it last.
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
    pub nodes: Vec<PlanNode>,
    /// Cables.
    pub links: Vec<PlanLink>,
    /// Flows.
    pub flows: Vec<PlanFlow>,
    /// The rate of each flow that the plan promises, in wire bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// The network utilisation φ that the plan promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phi: Option<f64>,
}

impl Plan {
    /// Reads and checks one.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        let plan: Plan = serde_json::from_str(&text)
            .map_err(|e| Error::config(format!("{}: it is not a plan of pktgen place: {e}", path.display())))?;
        plan.check().map_err(|why| Error::config(format!("{}: {why}", path.display())))?;
        Ok(plan)
    }

    /// Of each worker, its host; none if a number below the highest is missing.
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

    /// Which cable joins two nodes, in either direction, and which flows run along which.
    fn cables(&self) -> BTreeMap<(usize, usize), usize> {
        let both = |(i, link): (usize, &PlanLink)| [((link.from, link.to), i), ((link.to, link.from), i)];
        self.links.iter().enumerate().flat_map(both).collect()
    }

    /// Messages of one round on each link, towards the server and away from it (SOAR §2, `msg_e`).
    pub fn messages(&self) -> Vec<[u64; 2]> {
        let cables = self.cables();
        let mut messages = vec![[0; 2]; self.links.len()];
        for pair in self.flows.iter().flat_map(|flow| flow.path.windows(2)) {
            if let Some(&link) = cables.get(&(pair[0], pair[1])) {
                messages[link][usize::from(self.links[link].from != pair[0])] += 1;
            }
        }
        messages
    }

    /// φ of what the plan sends (SOAR §2, equation 1).
    pub fn utilisation(&self) -> f64 {
        let costs = self.links.iter().zip(self.messages());
        costs.filter_map(|(link, [up, down])| Some((up + down) as f64 * link.cost?)).sum()
    }

    /// Follows every flow: what is promised must be possible, and every worker must reach the server.
    pub fn check(&self) -> Result<(), String> {
        if self.version != PLAN_VERSION {
            return Err(format!("it has version {}; this is version {PLAN_VERSION}", self.version));
        }
        let known = |id: usize| self.nodes.get(id).ok_or_else(|| format!("there is no node {id}"));
        for link in &self.links {
            (known(link.from)?, known(link.to)?);
            if link.from == link.to {
                return Err(format!("\"{}\" is linked to itself", self.nodes[link.from].name));
            }
        }
        let cables = self.cables();
        if cables.len() != 2 * self.links.len() {
            return Err("two links join the same nodes; there is at most one between any two".into());
        }
        let mut outputs = vec![0u32; self.nodes.len()];
        let mut inputs = vec![0u32; self.nodes.len()];
        let hosts = self.hosts();
        let mut sent = vec![0u32; hosts.len()];
        for (number, flow) in self.flows.iter().enumerate() {
            let fail = |why: String| Err(format!("flow {number}: {why}"));
            let [first, .., last] = flow.path[..] else { return fail("its path has fewer than two nodes".into()) };
            match flow.source {
                FlowSource::Worker(worker) => match hosts.get(worker as usize) {
                    Some(Some(host)) if *host == first => sent[worker as usize] += 1,
                    _ => return fail(format!("worker {worker} is not on node {first}")),
                },
                FlowSource::Aggregator(node) => match known(node)?.role {
                    PlanRole::Aggregator if node == first => outputs[node] += 1,
                    _ => return fail(format!("node {node} is no aggregator at which it begins")),
                },
            }
            if let Some(pair) = flow.path.windows(2).find(|pair| !cables.contains_key(&(pair[0], pair[1]))) {
                return fail(format!("no link joins nodes {} and {}", pair[0], pair[1]));
            }
            let between = &flow.path[1..flow.path.len() - 1];
            if let Some(node) = between.iter().find(|node| self.nodes[**node].role != PlanRole::Common) {
                return fail(format!("\"{}\" on its way does not forward", self.nodes[*node].name));
            }
            if !matches!(self.nodes[last].role, PlanRole::Aggregator | PlanRole::Server) {
                return fail(format!("\"{}\" at its end does not take it", self.nodes[last].name));
            }
            inputs[last] += 1;
        }
        if let Some(worker) = sent.iter().zip(&hosts).position(|(sent, host)| *sent != 1 || host.is_none()) {
            return Err(format!("worker {worker} sends {} flows; each sends one", sent[worker]));
        }
        if let Some(node) =
            (0..self.nodes.len()).find(|&node| outputs[node] != u32::from(inputs[node] > 0) && !self.is_server(node))
        {
            let (name, inputs, outputs) = (&self.nodes[node].name, inputs[node], outputs[node]);
            return Err(format!("\"{name}\" takes {inputs} flows and emits {outputs}; it emits one if it takes any"));
        }
        self.check_ends()
    }

    fn is_server(&self, node: usize) -> bool {
        self.nodes[node].role == PlanRole::Server
    }

    /// Aggregators that feed each other in a circle never reach the server.
    fn check_ends(&self) -> Result<(), String> {
        let mut next = vec![None; self.nodes.len()];
        for flow in &self.flows {
            if let (FlowSource::Aggregator(node), Some(last)) = (flow.source, flow.path.last()) {
                next[node] = Some(*last);
            }
        }
        for start in 0..next.len() {
            let (mut at, mut steps) = (start, 0);
            while let Some(node) = next[at] {
                (at, steps) = (node, steps + 1);
                if steps > next.len() {
                    return Err(format!("what \"{}\" emits never reaches the server", self.nodes[start].name));
                }
            }
        }
        match self.nodes.iter().filter(|node| node.role == PlanRole::Server).count() {
            1 => Ok(()),
            n => Err(format!("there are {n} servers; a plan has one")),
        }
    }
}
