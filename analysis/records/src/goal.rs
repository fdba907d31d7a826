//! Runs to a goal: when did every worker have N updates represented at the parameter server?
//!
//! Called by [`crate::analyze`] once per run; the definition is design §4, "speedup". An update is one sequence
//! number of one worker, however often it was sent: a second delivered attempt adds nothing. It is represented
//! when it is delivered, alone or as a member of an aggregate; merging counts, being subsumed does not.

use pktgen_core::record::Manifest;

use crate::age::numbers;
use crate::fates::{Tallies, is_update};
use crate::firsts::Firsts;

const PS_PER_NS: f64 = 1000.0;

/// How far a run came.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Updates that every worker must have represented.
    pub updates: u32,
    /// Workers that must.
    pub workers: usize,
    /// Workers that have.
    pub workers_at_goal: usize,
    /// When the last of them got there, in ps; none if not all did.
    pub t_ps: Option<i64>,
    /// What only records tell.
    pub detail: Option<Detail>,
    /// What records and counters disagree about; none if they agree, or if only one of them has a value.
    pub conflict: Option<String>,
}

/// What only records tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// Updates that were represented, of all workers.
    pub represented: usize,
    /// Worker, and when it was there in ps; by number.
    pub by_worker: Vec<(u32, Option<i64>)>,
}

impl Goal {
    /// How far the run came: from its records where there are any, else from its counters. None if it had no goal.
    pub(crate) fn find(manifest: &Manifest, recorded: Option<(&Firsts, &Tallies)>) -> Option<Goal> {
        let updates = manifest.goal?;
        let counted = || Goal {
            updates,
            workers: manifest.clusters.iter().filter(|cluster| is_update(**cluster)).count(),
            workers_at_goal: manifest.counters.workers_at_goal as usize,
            t_ps: manifest.counters.goal_ps,
            detail: None,
            conflict: None,
        };
        let Some((firsts, tallies)) = recorded else { return Some(counted()) };
        let mut recorded = from_records(updates, manifest, firsts, tallies);
        // A killed run has no counters to compare with, nor the workers' balances.
        if !manifest.balance_by_worker.is_empty() {
            recorded.conflict = conflict(&recorded, &counted());
        }
        Some(recorded)
    }

    /// Workers that did not get there.
    pub fn short(&self) -> usize {
        self.workers.saturating_sub(self.workers_at_goal)
    }

    /// When every worker was there, in ns.
    pub(crate) fn time_ns(&self) -> Option<f64> {
        self.t_ps.map(|t| t as f64 / PS_PER_NS)
    }
}

fn from_records(updates: u32, manifest: &Manifest, firsts: &Firsts, tallies: &Tallies) -> Goal {
    let mut firsts = firsts.firsts.clone();
    let represented = firsts.len();
    firsts.sort_unstable();
    // The workers that the manifest gives a cluster, and those that sent updates nevertheless.
    let planned = manifest.clusters.iter().zip(0u32..).filter(|(cluster, _)| is_update(**cluster));
    let workers = numbers(planned.map(|(_, worker)| worker).chain(tallies.senders())).into_iter();
    let by_worker: Vec<_> = workers.map(|worker| (worker, nth(&firsts, worker, updates))).collect();
    let times = by_worker.iter().map(|(_, t)| *t);
    Goal {
        updates,
        workers: by_worker.len(),
        workers_at_goal: times.clone().flatten().count(),
        t_ps: times.reduce(|last, t| Some(last?.max(t?))).flatten(),
        detail: Some(Detail { represented, by_worker }),
        conflict: None,
    }
}

/// The time of the `n`-th of `worker` in sorted `firsts`; a goal of nothing is reached at the start.
fn nth(firsts: &[(u32, i64)], worker: u32, n: u32) -> Option<i64> {
    let from = firsts.partition_point(|(other, _)| *other < worker);
    let Some(before) = (n as usize).checked_sub(1) else { return Some(0) };
    firsts.get(from + before).filter(|(other, _)| *other == worker).map(|(_, t)| *t)
}

fn conflict(recorded: &Goal, counted: &Goal) -> Option<String> {
    if (recorded.t_ps, recorded.workers_at_goal) == (counted.t_ps, counted.workers_at_goal) {
        return None;
    }
    let say = |goal: &Goal| {
        let when = goal.t_ps.map_or("not reached by all".to_owned(), |t| format!("reached by all at {t} ps"));
        format!("{} workers at the goal, {when}", goal.workers_at_goal)
    };
    Some(format!("records and counters disagree about the goal: {}; but {}", say(recorded), say(counted)))
}

#[cfg(test)]
#[path = "goal_tests.rs"]
mod tests;
