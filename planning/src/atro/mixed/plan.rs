//! Finds the highest rate at which the workers fit, and the plan for it.

use std::collections::BTreeSet;

use pktgen_core::plan::{Plan, PlanRole};
use pktgen_core::{Error, Result};

use super::super::capacities::Capacities;
use super::super::inventory::Inventory;
use super::super::milp::{MilpForm, MilpQuestion, check_size, program};
use super::super::skeleton::Skeleton;
use super::super::solver::{MilpReply, solve_flows};
use super::super::validate::validate_inventory;
use super::super::wiring::{CrossConnect, Wiring, wire_hosts, with_fewest, write};
use super::bound::{upper, usable};
use super::build;
use super::graph::{Graph, Numbered};
use super::improve::{SWITCHES_MAX, improve};
use super::search::{Answer, search};

/// What decides whether workers fit at a rate.
const SEARCH: &str = "exhaustive search";
const SOLVER: &str = "the solver";

/// A solver for cases in which the search gives up.
#[derive(Debug, Clone)]
pub struct SolverAsk {
    /// Its command.
    pub command: String,
    /// Seconds for one question.
    pub seconds: u32,
}

impl SolverAsk {
    /// Returns what to do if the solver had too little time.
    pub fn unsettled(&self) -> String {
        format!("{} did not settle it in {} s: raise --seconds", self.command, self.seconds)
    }
}

/// Returns the best wiring of an inventory. With `rates`, the rate is the largest possible one of them (QSR, ATRO §III-C).
pub fn wire_inventory(inventory: &Inventory, rates: &[u64], ask: Option<&SolverAsk>) -> Result<Wiring> {
    inventory.check()?;
    let wiring = match inventory.cluster() {
        Some(cluster) => {
            let slowest = inventory.slowest_host_bps();
            let mut wiring = wire_hosts(&cluster, inventory.hosts.len() as u64, rates, slowest)?;
            let switches = in_order(&wiring.plan, inventory);
            dress(&mut wiring.plan, &switches, inventory);
            wiring
        }
        None => Mixed { inventory, rates: candidates(inventory, rates)?, ask }.wire()?,
    };
    let invalid =
        |why: String| Error::Invalid(format!("the wiring for {} workers is wrong: {why}", inventory.hosts.len()));
    wiring.plan.check().map_err(invalid)?;
    validate_inventory(&wiring.plan, inventory).map_err(invalid)?;
    Ok(wiring)
}

/// Returns the best wiring found by construction and local search; `None` if there is none or there are too many switches for these.
pub(crate) fn construct(inventory: &Inventory, rates: &[u64]) -> Result<Option<Wiring>> {
    if inventory.switches.len() > SWITCHES_MAX {
        return Ok(None);
    }
    let mixed = Mixed { inventory, rates: candidates(inventory, rates)?, ask: None };
    let above = mixed.possible();
    let Some((number, graph)) = (above > 0).then(|| mixed.constructed(above)).flatten() else { return Ok(None) };
    mixed.written(&mixed.at(number), graph, mixed.rates[above - 1]).map(Some)
}

/// Returns all possible maximum rates in ascending order: ⌊b/k⌋ for a rate b of some link and k of the workers, limited
/// by the slowest host.
fn candidates(inventory: &Inventory, rates: &[u64]) -> Result<Vec<u64>> {
    let slowest = inventory.slowest_host_bps();
    let ports = inventory.switches.iter().map(|switch| switch.rate_bps);
    let links: BTreeSet<u64> =
        ports.chain(inventory.links.values().copied()).chain([inventory.server_bps, slowest]).collect();
    let shares = |rate: u64| (1..=inventory.hosts.len() as u64).map(move |flows| rate / flows);
    let all: BTreeSet<u64> = match rates.is_empty() {
        true => links.into_iter().flat_map(shares).collect(),
        false => rates.iter().copied().collect(),
    };
    let kept: Vec<u64> = all.into_iter().filter(|rate| (1..=slowest).contains(rate)).collect();
    match kept.is_empty() {
        true => Err(Error::config(format!(
            "rates: none is from 1 bit/s to the {slowest} bit/s of the slowest host; add one"
        ))),
        false => Ok(kept),
    }
}

struct Mixed<'a> {
    inventory: &'a Inventory,
    /// Candidate rates in ascending order.
    rates: Vec<u64>,
    ask: Option<&'a SolverAsk>,
}

impl Mixed<'_> {
    fn workers(&self) -> u64 {
        self.inventory.hosts.len() as u64
    }

    fn at(&self, number: usize) -> Capacities<'_> {
        Capacities::new(self.inventory, self.rates[number])
    }

    /// Returns how many of the rates do not exceed the proved bound: a rate is possible if a higher one is.
    fn possible(&self) -> usize {
        self.rates.partition_point(|&rate| upper(&Capacities::new(self.inventory, rate)) >= self.workers())
    }

    fn wire(&self) -> Result<Wiring> {
        let possible = self.possible();
        if possible == 0 {
            return Err(self.too_many());
        }
        let (mut best, mut solver_failure) = (self.constructed(possible), None);
        let (mut above, mut refuted_by) = (possible, SEARCH);
        let from = best.as_ref().map_or(0, |(number, _)| number + 1);
        for number in from..possible {
            let (answer, by) = match self.settle(number) {
                // What was found stays, whatever became of the solver.
                Err(Error::Host(why)) if best.is_some() => {
                    solver_failure = Some(why);
                    break;
                }
                answer => answer?,
            };
            match answer {
                Answer::Found(graph) => best = Some((number, graph)),
                Answer::Refuted => {
                    (above, refuted_by) = (number, by);
                    break;
                }
                Answer::Unknown => break,
            }
        }
        let Some((number, graph)) = best else { return Err(self.none(above, refuted_by)) };
        Ok(Wiring { solver_failure, ..self.written(&self.at(number), graph, self.rates[above - 1])? })
    }

    /// Returns the highest rate below `above` at which a wiring is constructed, found by bisection.
    fn constructed(&self, above: usize) -> Option<(usize, Graph)> {
        let holds = |number: usize| {
            let capacities = self.at(number);
            let start = build::best(&capacities, self.workers())?;
            let (workers, graph) = improve(&capacities, start, self.workers());
            (workers >= self.workers()).then_some((number, graph))
        };
        let mut best = holds(above - 1);
        if best.is_some() {
            return best;
        }
        let (mut low, mut high) = (0, above - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match holds(middle) {
                Some(found) => (best, low) = (Some(found), middle + 1),
                None => high = middle,
            }
        }
        best
    }

    /// Decides whether the workers fit at a rate, and returns by what: exhaustive search, otherwise the solver.
    fn settle(&self, number: usize) -> Result<(Answer, &'static str)> {
        let capacities = self.at(number);
        let answer = search(&capacities, self.workers());
        let (Answer::Unknown, Some(ask)) = (&answer, self.ask) else { return Ok((answer, SEARCH)) };
        check_size(capacities.switches()).map_err(|why| Error::Host(format!("{why}; leave the solver out")))?;
        let folder = tempfile::tempdir().map_err(Error::io("create", &std::env::temp_dir()))?;
        let file = folder.path().join("atro.lp");
        let text = program(&capacities, MilpForm::Counted, MilpQuestion::Fits(self.workers()));
        std::fs::write(&file, text).map_err(Error::io("write", &file))?;
        let (reply, flows) = solve_flows(&ask.command, &file, ask.seconds)?;
        let answer = match reply {
            MilpReply::Infeasible => Answer::Refuted,
            MilpReply::Unknown => Answer::Unknown,
            MilpReply::Optimal(_) => {
                let mut graph = Graph::new(capacities.switches());
                for (from, to) in flows {
                    let to = to.unwrap_or(capacities.switches());
                    if let Some(up) = graph.up.get_mut(from) {
                        up.push(to);
                    }
                }
                match graph.workers(&capacities).is_some_and(|workers| workers >= self.workers()) {
                    true => Answer::Found(graph),
                    false => Answer::Unknown,
                }
            }
        };
        Ok((answer, SOLVER))
    }

    fn written(&self, capacities: &Capacities, graph: Graph, bound_bps: u64) -> Result<Wiring> {
        let lean = self.lean(capacities, graph);
        let shorter = self.laid(capacities, &self.shortened(capacities, lean.clone())).ok();
        let lean = self.laid(capacities, &lean)?;
        // The flows of the shorter one may need links that the other one leaves out.
        let shorter = shorter.filter(|shorter| shorter.0.links.len() <= lean.0.links.len());
        let (mut plan, cross_connects, switches) = shorter.unwrap_or(lean);
        let rate_bps = capacities.rate_bps;
        dress(&mut plan, &switches, self.inventory);
        let flows_per_link = plan.messages().iter().map(|[up, down]| up + down).max().unwrap_or(0);
        let optimal = rate_bps == bound_bps;
        let (proved, solver_failure) = (true, None);
        Ok(Wiring { plan, cross_connects, flows_per_link, rate_bps, bound_bps, optimal, proved, solver_failure })
    }

    /// Returns the plan of a graph, in which links carry anything, with the number of each switch in the inventory.
    fn laid(&self, capacities: &Capacities, graph: &Graph) -> Result<(Plan, Vec<CrossConnect>, Vec<usize>)> {
        let lost = || Error::Invalid(format!("no wiring was found for {} workers, although one was", self.workers()));
        let Numbered { skeleton, of } = graph.numbered(capacities).ok_or_else(lost)?;
        let most = |a: usize, b: usize| capacities.flows(of[a], of[b]);
        let workers = self.workers();
        let written = |whole: &Skeleton| write(whole, &most, workers, u64::MAX, capacities.rate_bps);
        let (plan, cross_connects, used) = with_fewest(written(&skeleton)?, skeleton.lean_by(&most, workers), written)?;
        Ok((plan, cross_connects, used.iter().map(|&number| of[number]).collect()))
    }

    /// Removes switches as long as the workers fit with the links below them at a neighbour (ATRO §III-C).
    fn shortened(&self, capacities: &Capacities, mut graph: Graph) -> Graph {
        let usable = usable(capacities);
        if usable.len() > SWITCHES_MAX {
            return graph;
        }
        let holds = |graph: &Graph| graph.workers(capacities).is_some_and(|workers| workers >= self.workers());
        loop {
            let before = graph.clone();
            for &switch in usable.iter().rev().filter(|&&switch| before.feeds(switch)) {
                let shorter = graph.without(switch).find(holds);
                graph = shorter.unwrap_or(graph);
            }
            if graph == before {
                return graph;
            }
            graph = self.lean(capacities, graph);
        }
    }

    /// Removes switches that are not necessary for the workers and have nothing below them.
    fn lean(&self, capacities: &Capacities, mut graph: Graph) -> Graph {
        for switch in usable(capacities).into_iter().rev() {
            if !graph.uses(switch) || graph.feeds(switch) {
                continue;
            }
            let up = std::mem::take(&mut graph.up[switch]);
            if graph.workers(capacities).is_none_or(|workers| workers < self.workers()) {
                graph.up[switch] = up;
            }
        }
        graph
    }

    fn too_many(&self) -> Error {
        let (workers, least) = (self.workers(), self.rates[0]);
        let most = upper(&self.at(0));
        Error::config(format!(
            "workers: no ports or links left for {workers}: at most {most} fit, at {least} bit/s each; give fewer workers, or more \
             switches, ports, or lower rates"
        ))
    }

    /// Returns the error for workers without a wiring; `by` refuted the rate `above`.
    fn none(&self, above: usize, by: &str) -> Error {
        let workers = self.workers();
        match above {
            0 => Error::config(format!(
                "workers: {workers} do not fit at {} bit/s each, by {by}; give fewer workers, or more switches, ports or \
                 layers",
                self.rates[0]
            )),
            _ => {
                let remedy = match self.ask {
                    None => "give more layers, or a solver (--solver cbc)".to_owned(),
                    Some(ask) => ask.unsettled(),
                };
                Error::Invalid(format!("no wiring was found for {workers} workers, although one may exist; {remedy}"))
            }
        }
    }
}

/// Returns the switches of a plan that has only numbers: the first aggregating ones and the first others.
fn in_order(plan: &Plan, inventory: &Inventory) -> Vec<usize> {
    let of_kind = |aggregates: bool| {
        (0..inventory.switches.len()).filter(move |&number| inventory.switches[number].aggregates == aggregates)
    };
    let (mut aggregators, mut commons) = (of_kind(true), of_kind(false));
    let number = |role: PlanRole| match role {
        PlanRole::Aggregator => aggregators.next(),
        PlanRole::Common => commons.next(),
        PlanRole::Host | PlanRole::Server => None,
    };
    plan.nodes.iter().map(|node| node.role).map(number).map(|number| number.unwrap_or(inventory.server())).collect()
}

/// Gives nodes the names of the inventory, and links their rates; `switches` has the number of each node before the hosts.
fn dress(plan: &mut Plan, switches: &[usize], inventory: &Inventory) {
    let hosts: Vec<Option<usize>> =
        plan.nodes.iter().map(|node| node.workers.first().map(|&worker| worker as usize)).collect();
    for (node, entry) in plan.nodes.iter_mut().enumerate() {
        match (entry.role, hosts[node]) {
            (PlanRole::Host, Some(host)) => entry.name.clone_from(&inventory.hosts[host].name),
            (PlanRole::Aggregator | PlanRole::Common, _) => {
                entry.name.clone_from(&inventory.switches[switches[node]].name);
            }
            _ => {}
        }
    }
    let number = |node: usize| switches.get(node).copied().unwrap_or(inventory.server());
    for link in &mut plan.links {
        link.rate_bps = match hosts[link.from] {
            Some(host) => inventory.host_bps(host, number(link.to)),
            None => inventory.link_bps(number(link.from), number(link.to)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{GBPS, cluster};
    use super::*;

    #[test]
    fn a_solver_is_not_asked_about_too_many_switches() {
        let ask = SolverAsk { command: "no-such-solver".into(), seconds: 1 };
        let why = |switches: u64| {
            let inventory = Inventory::of_cluster(&cluster(switches, 4, 24, 5), 90);
            let mixed = Mixed { inventory: &inventory, rates: vec![50 * GBPS], ask: Some(&ask) };
            mixed.settle(0).unwrap_err().to_string()
        };
        assert!(why(20).contains("no-such-solver"));
        assert!(why(1_001).contains("the program of 1001 switches") && why(1_001).contains("at most 1000"));
    }

    #[test]
    fn a_refusal_names_what_refuted_the_rate() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("solver.sh");
        std::fs::write(&script, "for last; do :; done; echo Infeasible > \"$last\"").unwrap();
        let ask = SolverAsk { command: format!("sh {}", script.display()), seconds: 1 };
        for (cluster, workers, by) in [(cluster(20, 4, 24, 5), 90, SOLVER), (cluster(2, 2, 24, 5), 1_000, SEARCH)] {
            let inventory = Inventory::of_cluster(&cluster, workers);
            let mixed = Mixed { inventory: &inventory, rates: vec![50 * GBPS], ask: Some(&ask) };
            let answer = mixed.settle(0).unwrap();
            assert_eq!(answer, (Answer::Refuted, by));
            let said = mixed.none(0, answer.1).to_string();
            assert!(said.contains(&format!("do not fit at 50000000000 bit/s each, by {by}; give fewer")), "{said}");
        }
    }

    #[test]
    fn without_a_wiring_the_remedy_is_a_solver_or_more_of_its_time() {
        let inventory = Inventory::of_cluster(&cluster(4, 4, 8, 5), 9);
        let ask = SolverAsk { command: "cbc".into(), seconds: 2 };
        let none = |ask| Mixed { inventory: &inventory, rates: vec![50 * GBPS], ask }.none(1, SEARCH);
        let found = none(Some(&ask));
        assert_eq!(found.exit_code(), 1);
        let solver = "; cbc did not settle it in 2 s: raise --seconds";
        assert!(found.to_string().ends_with(solver) && !found.to_string().contains("--solver"), "{found}");
        assert!(none(None).to_string().ends_with("give more layers, or a solver (--solver cbc)"));
    }
}
