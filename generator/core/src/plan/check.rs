//! Checks of a plan: every flow must be feasible, and every worker must reach the server.

use std::collections::{BTreeMap, BTreeSet};

use super::{FlowSource, PLAN_VERSION, Plan, PlanFlow, PlanRole};

impl Plan {
    /// Returns an error with the reason if the plan cannot be carried out.
    pub fn check(&self) -> Result<(), String> {
        if self.version != PLAN_VERSION {
            return Err(format!("it has version {}; this is version {PLAN_VERSION}", self.version));
        }
        let servers = self.nodes.iter().filter(|node| node.role == PlanRole::Server).count();
        if servers != 1 {
            return Err(format!("there are {servers} servers; a plan has one"));
        }
        self.check_workers()?;
        self.check_links()?;
        self.check_flows()?;
        self.check_ends()?;
        self.check_promises()
    }

    /// Links point the way of their flows, φ is what the flows cost, and links carry them at the rate.
    fn check_promises(&self) -> Result<(), String> {
        let messages = self.messages();
        let loads = || self.links.iter().zip(&messages);
        if let Some((link, _)) = loads().find(|(_, [up, down])| *up == 0 && *down > 0) {
            let [from, to] = [link.from, link.to].map(|end| &self.nodes[end].name);
            return Err(format!(
                "the link from \"{from}\" to \"{to}\": its flows run the other way; `from` is the end nearer to the workers"
            ));
        }
        let own = self.utilisation_of(&messages);
        // Sums in another order differ by rounding.
        if let Some(phi) = self.phi.filter(|phi| phi.is_nan() || (phi - own).abs() > 1e-9 * own) {
            return Err(format!("phi: {phi}; its flows cost {own} on its links; give that, or leave phi out"));
        }
        let highest = loads().filter_map(|(link, [up, down])| link.rate_bps.checked_div(up + down)).min();
        match (self.rate_bps, highest) {
            (Some(rate), Some(highest)) if !(1..=highest).contains(&rate) => Err(format!(
                "rate_bps: {rate} is not from 1 to {highest}, the highest at which its links carry its flows; give such a rate, \
                 or leave it out"
            )),
            _ => Ok(()),
        }
    }

    /// Checks that each worker is on exactly one host, and that no worker number is missing.
    fn check_workers(&self) -> Result<(), String> {
        let (mut names, mut on) = (BTreeSet::new(), BTreeMap::new());
        for node in &self.nodes {
            let name = &node.name;
            if !names.insert(name) {
                return Err(format!("two nodes are called \"{name}\""));
            }
            if node.role != PlanRole::Host && !node.workers.is_empty() {
                return Err(format!("\"{name}\" is no host and has workers"));
            }
            for worker in &node.workers {
                if let Some(other) = on.insert(*worker, name) {
                    return Err(format!("worker {worker} is on \"{other}\" and on \"{name}\""));
                }
            }
        }
        match (0..).zip(on.keys()).find(|(expected, worker)| expected != *worker) {
            Some((missing, _)) => Err(format!("worker {missing} is on no host")),
            None if on.is_empty() => Err("it has no workers".into()),
            None => Ok(()),
        }
    }

    /// Checks that links join different nodes, at most once, and that hosts and the server have one link each.
    fn check_links(&self) -> Result<(), String> {
        let mut degrees = vec![0u32; self.nodes.len()];
        for link in &self.links {
            for end in [link.from, link.to] {
                *degrees.get_mut(end).ok_or_else(|| format!("there is no node {end}"))? += 1;
            }
            let [from, to] = [link.from, link.to].map(|end| &self.nodes[end].name);
            if link.from == link.to {
                return Err(format!("\"{from}\" is linked to itself"));
            }
            if link.rate_bps == 0 {
                return Err(format!("the link from \"{from}\" to \"{to}\" has rate 0"));
            }
            if link.cost.is_some_and(|cost| !(cost.is_finite() && cost >= 0.0)) {
                let cost = link.cost.unwrap_or_default();
                return Err(format!(
                    "the link from \"{from}\" to \"{to}\" has cost {cost}; a cost is a number from 0 on"
                ));
            }
        }
        if self.cables().len() != 2 * self.links.len() {
            return Err("two links join the same nodes; there is at most one between any two".into());
        }
        let ends = self.nodes.iter().zip(degrees);
        let unfit = ends
            .filter(|(node, _)| matches!(node.role, PlanRole::Host | PlanRole::Server))
            .find(|(_, degree)| *degree != 1);
        match unfit {
            Some((node, degree)) => Err(format!("\"{}\" has {degree} links; a host or server has one", node.name)),
            None => Ok(()),
        }
    }

    /// Checks that flows follow links through forwarding switches, and that every worker and every aggregator with input sends one.
    fn check_flows(&self) -> Result<(), String> {
        let (cables, hosts) = (self.cables(), self.hosts());
        let (mut outputs, mut inputs) = (vec![0u32; self.nodes.len()], vec![0u32; self.nodes.len()]);
        let mut sent = vec![0u32; hosts.len()];
        for (number, flow) in self.flows.iter().enumerate() {
            let fail = |why: String| format!("flow {number}: {why}");
            let [first, .., last] = flow.path[..] else { return Err(fail("its path has fewer than two nodes".into())) };
            self.check_source(flow, first, &hosts).map_err(fail)?;
            match flow.source {
                FlowSource::Worker(worker) => sent[worker as usize] += 1,
                FlowSource::Aggregator(node) => outputs[node] += 1,
            }
            if let Some(pair) = flow.path.windows(2).find(|pair| !cables.contains_key(&(pair[0], pair[1]))) {
                return Err(fail(format!("no link joins nodes {} and {}", pair[0], pair[1])));
            }
            let between = &flow.path[1..flow.path.len() - 1];
            if let Some(node) = between.iter().find(|node| self.nodes[**node].role != PlanRole::Common) {
                return Err(fail(format!("\"{}\" on its way does not forward", self.nodes[*node].name)));
            }
            if between.iter().collect::<BTreeSet<_>>().len() != between.len() {
                return Err(fail("it passes a node twice".into()));
            }
            if !matches!(self.nodes[last].role, PlanRole::Aggregator | PlanRole::Server) {
                return Err(fail(format!("\"{}\" at its end does not take it", self.nodes[last].name)));
            }
            inputs[last] += 1;
        }
        if let Some(worker) = sent.iter().position(|sent| *sent != 1) {
            return Err(format!("worker {worker} sends {} flows; each sends one", sent[worker]));
        }
        for (node, (inputs, outputs)) in self.nodes.iter().zip(inputs.into_iter().zip(outputs)) {
            if node.role != PlanRole::Server && outputs != u32::from(inputs > 0) {
                let name = &node.name;
                return Err(format!(
                    "\"{name}\" takes {inputs} flows and emits {outputs}; it emits one if it takes any"
                ));
            }
        }
        Ok(())
    }

    /// Checks that a flow begins at its source.
    fn check_source(&self, flow: &PlanFlow, first: usize, hosts: &[Option<usize>]) -> Result<(), String> {
        match flow.source {
            FlowSource::Worker(worker) => match hosts.get(worker as usize) {
                Some(Some(host)) if *host == first => Ok(()),
                _ => Err(format!("worker {worker} is not on node {first}")),
            },
            FlowSource::Aggregator(node) => match self.nodes.get(node).map(|node| node.role) {
                Some(PlanRole::Aggregator) if node == first => Ok(()),
                _ => Err(format!("node {node} is no aggregator at which it begins")),
            },
        }
    }

    /// Refuses cycles of aggregators, which never reach the server.
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
        Ok(())
    }
}
