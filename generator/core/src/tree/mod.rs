//! Weighted trees of switches, among which SOAR chooses those that aggregate (SOAR §2).
//!
//! Every switch has a link to its parent, the root to the destination. [`file`](mod@file) reads and writes trees as
//! JSON, [`make`] builds those of the paper. Used by the placers of `pktgen-planning`.

pub mod file;
pub mod make;
#[cfg(test)]
mod tests;

use crate::plan::{FlowSource, PLAN_VERSION, Plan, PlanFlow, PlanLink, PlanNode, PlanRole};
use crate::units::Rate;

/// No parent: the link leads to the destination.
pub const ROOT: u32 = u32::MAX;

/// Rate of the links between switches and their servers, which φ does not include.
const HOST_BPS: u64 = 100_000_000_000;

/// Maximum number of messages in total: integers are exact as f64 up to this value.
pub const LOAD_MAX: u64 = 1 << 53;

/// A switch as input.
#[derive(Debug, Clone, PartialEq)]
pub struct Switch {
    /// Its id.
    pub id: u64,
    /// The id of its parent; none for the root.
    pub parent: Option<u64>,
    /// Rate of the link to the parent, or to the destination for the root, in messages per second.
    pub rate: f64,
    /// Servers on it, each of which sends one message.
    pub load: i64,
    /// Whether it may aggregate.
    pub available: bool,
}

/// A checked tree. Switches are identified by their index in input order.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    ids: Vec<u64>,
    parent: Vec<u32>,
    /// As given: the inverse of ρ may be another number.
    rate: Vec<f64>,
    rho: Vec<f64>,
    load: Vec<u64>,
    available: Vec<bool>,
    /// Parents before children.
    order: Vec<u32>,
    depth: Vec<u32>,
    /// Children of `i`: `children[first_child[i]..first_child[i + 1]]`.
    first_child: Vec<u32>,
    children: Vec<u32>,
    /// Messages that originate in each subtree.
    below: Vec<u64>,
}

impl Tree {
    /// Checks and connects switches; the error names the defective switch.
    pub fn new(switches: &[Switch]) -> Result<Self, String> {
        if switches.is_empty() {
            return Err("it has no switches; give at least one".into());
        }
        if switches.len() >= ROOT as usize {
            return Err(format!("it has {} switches; at most {} are supported", switches.len(), ROOT - 1));
        }
        let parent = parents(switches)?;
        let mut total = 0u64;
        for switch in switches {
            let id = switch.id;
            if !(switch.rate.is_finite() && switch.rate > 0.0 && (1.0 / switch.rate).is_finite()) {
                return Err(format!(
                    "node {id}: rate {:?}; a rate must be a number above 0, and so must its inverse",
                    switch.rate
                ));
            }
            let load = u64::try_from(switch.load)
                .map_err(|_| format!("node {id}: load {}; a load is a count of servers, from 0 on", switch.load))?;
            total = total.saturating_add(load);
        }
        if total > LOAD_MAX {
            return Err(format!("its loads are {total} in all; at most {LOAD_MAX} are supported"));
        }
        let (first_child, children) = children_of(&parent);
        let mut tree = Tree {
            ids: switches.iter().map(|switch| switch.id).collect(),
            rate: switches.iter().map(|switch| switch.rate).collect(),
            rho: switches.iter().map(|switch| 1.0 / switch.rate).collect(),
            load: switches.iter().map(|switch| switch.load as u64).collect(),
            available: switches.iter().map(|switch| switch.available).collect(),
            order: Vec::with_capacity(switches.len()),
            depth: vec![0; switches.len()],
            first_child,
            children,
            parent,
            below: Vec::new(),
        };
        tree.walk()?;
        tree.below = tree.sums_below();
        tree.all_red()?;
        // The way of a message that is not sent costs nothing, which infinity times zero is not.
        match tree.rho.iter().sum::<f64>().is_finite() {
            true => Ok(tree),
            false => {
                Err("a message takes longer on its links than a number can say: give rates in a smaller unit".into())
            }
        }
    }

    /// φ if no switch aggregates, the most that any choice costs; refuses one that no number holds, as loads may give it that
    /// the tree was not made with.
    pub fn all_red(&self) -> Result<f64, String> {
        let red: f64 = self.rho.iter().zip(&self.below).map(|(rho, below)| rho * *below as f64).sum();
        match red.is_finite() {
            true => Ok(red),
            false => Err("its messages take longer than a number can say: give rates in a smaller unit".into()),
        }
    }

    /// Orders switches from the root on; those that are not reached are not connected to it.
    fn walk(&mut self) -> Result<(), String> {
        let roots: Vec<_> = (0..self.len()).filter(|&v| self.parent[v] == ROOT).collect();
        let [root] = roots[..] else {
            let ids: Vec<_> = roots.iter().take(3).map(|&v| self.ids[v].to_string()).collect();
            return Err(match roots.len() {
                0 => "no node has parent null: the root's link leads to the destination, so give one".into(),
                n => format!(
                    "{n} nodes have parent null ({}): it is disconnected; one root has the link to the destination",
                    ids.join(", ")
                ),
            });
        };
        self.order.push(root as u32);
        let mut at = 0;
        while let Some(&v) = self.order.get(at) {
            for place in self.first_child[v as usize]..self.first_child[v as usize + 1] {
                let child = self.children[place as usize];
                self.depth[child as usize] = self.depth[v as usize] + 1;
                self.order.push(child);
            }
            at += 1;
        }
        if self.order.len() < self.len() {
            let mut reached = vec![false; self.len()];
            self.order.iter().for_each(|&v| reached[v as usize] = true);
            let lost: Vec<_> =
                (0..self.len()).filter(|&v| !reached[v]).take(3).map(|v| self.ids[v].to_string()).collect();
            return Err(format!(
                "{} nodes are not connected to the root (first {}): their parents form a circle",
                self.len() - self.order.len(),
                lost.join(", ")
            ));
        }
        Ok(())
    }

    fn sums_below(&self) -> Vec<u64> {
        let mut below = self.load.clone();
        for &v in self.order.iter().skip(1).rev() {
            below[self.parent[v as usize] as usize] += below[v as usize];
        }
        below
    }

    /// Returns the number of switches.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Returns whether it has no switches; always false, as [`new`](Self::new) refuses an empty tree.
    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }

    /// Returns the id of a switch.
    pub fn id(&self, v: u32) -> u64 {
        self.ids[v as usize]
    }

    /// Returns the parent; [`ROOT`] for the root.
    pub fn parent(&self, v: u32) -> u32 {
        self.parent[v as usize]
    }

    /// Returns the time of one message on the link to the parent (ρ, SOAR §2).
    pub fn rho(&self, v: u32) -> f64 {
        self.rho[v as usize]
    }

    /// Rate of the link to the parent, as given.
    pub fn rate(&self, v: u32) -> f64 {
        self.rate[v as usize]
    }

    /// Servers on a switch.
    pub fn load(&self, v: u32) -> u64 {
        self.load[v as usize]
    }

    /// Returns the messages that originate in the subtree of a switch.
    pub fn below(&self, v: u32) -> u64 {
        self.below[v as usize]
    }

    /// Returns whether a switch may aggregate.
    pub fn is_available(&self, v: u32) -> bool {
        self.available[v as usize]
    }

    /// Returns the number of links between a switch and the root.
    pub fn depth(&self, v: u32) -> u32 {
        self.depth[v as usize]
    }

    /// Returns all switches, parents before children.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Returns the children of a switch.
    pub fn children(&self, v: u32) -> &[u32] {
        &self.children[self.first_child[v as usize] as usize..self.first_child[v as usize + 1] as usize]
    }

    /// Returns the same tree with other available switches.
    pub fn with_available(&self, available: Vec<bool>) -> Self {
        assert_eq!(available.len(), self.len(), "one entry for each switch");
        Tree { available, ..self.clone() }
    }

    /// Returns the same tree with other loads.
    pub fn with_load(&self, load: Vec<u64>) -> Self {
        assert_eq!(load.len(), self.len(), "one entry for each switch");
        let mut tree = Tree { load, ..self.clone() };
        tree.below = tree.sums_below();
        tree
    }

    /// Returns the messages on the link of each switch to its parent, where `blue` switches send one for all they
    /// receive, and none without input (SOAR §2, Algorithm 1).
    pub fn messages(&self, blue: &[bool]) -> Vec<u64> {
        let mut messages = self.load.clone();
        for &v in self.order.iter().rev() {
            let v = v as usize;
            if blue[v] {
                messages[v] = messages[v].min(1);
            }
            if self.parent[v] != ROOT {
                messages[self.parent[v] as usize] += messages[v];
            }
        }
        messages
    }

    /// Returns the network utilisation φ (SOAR §2, equation 1).
    pub fn phi(&self, blue: &[bool]) -> f64 {
        self.messages(blue).iter().zip(&self.rho).map(|(messages, rho)| *messages as f64 * rho).sum()
    }

    /// Refuses rates that links of a [`plan`](Self::plan) cannot have in bit/s.
    pub fn check_plan(&self, unit: Rate) -> Result<(), String> {
        let bps = unit.bps() as f64;
        let fits = |v: &usize| (1.0..u64::MAX as f64).contains(&(bps * self.rate[*v]).round());
        match (0..self.len()).find(|v| !fits(v)) {
            None => Ok(()),
            Some(v) => Err(format!(
                "node {}: rate {:e}; a link of rate 1 has {unit} in a plan, so rates are from {:.0e} to {:.1e}; give rates in units \
                 of {unit}",
                self.ids[v],
                self.rate[v],
                1.0 / bps,
                u64::MAX as f64 / bps
            )),
        }
    }

    /// What is sent where: a host on every switch with servers, a flow for each server and each blue switch with input.
    /// Switch `v` is node `v` and its link upwards link `v`; a link of rate 1 becomes one of `unit`, if
    /// [`check_plan`](Self::check_plan) takes it.
    pub fn plan(&self, placer: &str, blue: &[bool], unit: Rate) -> Plan {
        let server = self.len();
        let role = |v: usize| if blue[v] { PlanRole::Aggregator } else { PlanRole::Common };
        let switch = |v: usize| PlanNode { name: format!("s{}", self.ids[v]), role: role(v), workers: Vec::new() };
        let mut nodes: Vec<_> = (0..self.len()).map(switch).collect();
        nodes.push(PlanNode { name: "ps".into(), role: PlanRole::Server, workers: Vec::new() });
        let up = |v: usize| if self.parent[v] == ROOT { server } else { self.parent[v] as usize };
        let rate = |v: usize| (unit.bps() as f64 * self.rate[v]).round().max(1.0) as u64;
        let link = |v: usize| PlanLink { from: v, to: up(v), rate_bps: rate(v), cost: Some(self.rho[v]) };
        let mut links: Vec<_> = (0..self.len()).map(link).collect();
        let path = |first: usize, mut at: usize| {
            let mut path = vec![first, at];
            while at != server && !blue[at] {
                at = up(at);
                path.push(at);
            }
            path
        };
        let (mut flows, mut next) = (Vec::new(), 0u32);
        for (v, &is_blue) in blue.iter().enumerate() {
            if self.load[v] > 0 {
                let workers: Vec<_> = (next..next + self.load[v] as u32).collect();
                next += workers.len() as u32;
                let host = nodes.len();
                links.push(PlanLink { from: host, to: v, rate_bps: HOST_BPS, cost: None });
                let flow = |worker: &u32| PlanFlow { source: FlowSource::Worker(*worker), path: path(host, v) };
                flows.extend(workers.iter().map(flow));
                nodes.push(PlanNode { name: format!("h{}", self.ids[v]), role: PlanRole::Host, workers });
            }
            if is_blue && self.below[v] > 0 {
                flows.push(PlanFlow { source: FlowSource::Aggregator(v), path: path(v, up(v)) });
            }
        }
        let phi = Some(self.phi(blue));
        Plan { version: PLAN_VERSION, placer: placer.to_owned(), nodes, links, flows, rate_bps: None, phi }
    }
}

/// Returns the index of each parent.
fn parents(switches: &[Switch]) -> Result<Vec<u32>, String> {
    let mut ids: Vec<_> = switches.iter().enumerate().map(|(v, switch)| (switch.id, v as u32)).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(format!("two nodes have id {}; give each its own", pair[0].0));
    }
    let find = |switch: &Switch| match switch.parent {
        None => Ok(ROOT),
        Some(id) if id == switch.id => Err(format!("node {id} is its own parent")),
        Some(id) => ids
            .binary_search_by_key(&id, |(own, _)| *own)
            .map(|place| ids[place].1)
            .map_err(|_| format!("node {}: its parent {id} does not exist", switch.id)),
    };
    switches.iter().map(find).collect()
}

/// Returns the start of each switch's children in a list, and the list.
fn children_of(parent: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0u32; parent.len() + 1];
    parent.iter().filter(|p| **p != ROOT).for_each(|p| first[*p as usize + 1] += 1);
    for v in 0..parent.len() {
        first[v + 1] += first[v];
    }
    let mut next = first.clone();
    let mut children = vec![0u32; first[parent.len()] as usize];
    for (v, p) in parent.iter().enumerate().filter(|(_, p)| **p != ROOT) {
        children[next[*p as usize] as usize] = v as u32;
        next[*p as usize] += 1;
    }
    (first, children)
}
