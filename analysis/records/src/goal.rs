//! Runs to a goal: determines when N updates of every worker had been represented at the parameter server.
//!
//! Called by [`crate::analyze`] once per run; the definition is design §4, "speedup". An update is one sequence number
//! of one worker, however often it was sent: a second delivered attempt does not count. It is represented when it is
//! delivered, alone or as a member of an aggregate; merging counts, being subsumed does not.

use pktgen_core::record::Manifest;

use crate::age::numbers;
use crate::fates::{Tallies, is_update};
use crate::firsts::Firsts;

const PS_PER_NS: f64 = 1000.0;

/// Progress of a run towards its goal.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Number of updates of every worker that must be represented.
    pub updates: u32,
    /// Number of workers that must reach the goal.
    pub workers: usize,
    /// Number of workers that have reached it.
    pub workers_at_goal: usize,
    /// When the last of them reached it, in ps; `None` if not all did.
    pub t_ps: Option<i64>,
    /// Facts that only records contain.
    pub detail: Option<Detail>,
    /// Disagreement of records and counters; `None` if they agree or only one of them has a value.
    pub conflict: Option<String>,
}

/// Facts that only records contain.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// Number of represented updates of all workers.
    pub represented: usize,
    /// Worker, and when it reached the goal in ps; by number.
    pub by_worker: Vec<(u32, Option<i64>)>,
}

impl Goal {
    /// Determines the progress from the records if there are any, otherwise from the counters. `None` if the run had no goal.
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
        // A killed run has neither counters to compare with nor balances of workers.
        if !manifest.balance_by_worker.is_empty() {
            recorded.conflict = conflict(&recorded, &counted());
        }
        Some(recorded)
    }

    /// Returns the number of workers that did not reach the goal.
    pub fn short(&self) -> usize {
        self.workers.saturating_sub(self.workers_at_goal)
    }

    /// Returns when every worker had reached the goal, in ns.
    pub(crate) fn time_ns(&self) -> Option<f64> {
        self.t_ps.map(|t| t as f64 / PS_PER_NS)
    }
}

fn from_records(updates: u32, manifest: &Manifest, firsts: &Firsts, tallies: &Tallies) -> Goal {
    let mut firsts = firsts.firsts.clone();
    let represented = firsts.len();
    firsts.sort_unstable();
    // The workers that have a cluster in the manifest, and others that sent updates.
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

/// Returns the time of the `n`-th entry of `worker` in sorted `firsts`; a goal of 0 is reached at the start.
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
