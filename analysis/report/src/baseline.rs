//! Compares every run with the baseline's run of the same seed at the same point.
//!
//! Called by [`crate::sweep`]. If one run of a pair has no value, the comparison has none: nothing is extrapolated.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pktgen_core::definition::{Better, Definition};
use pktgen_records::labels::FLOW;
use pktgen_records::metric::goal::TIME_TO_GOAL;
use pktgen_records::metric::is_one_way;
use pktgen_records::metric::iterations::{EFFECTIVE_TIME, ITERATION_TIME, USEFUL_RATE};
use pktgen_records::metric::learning::REWARD_END;

use crate::sweep::common::Common;
use crate::sweep::data::{Labels, Lack, RunSummary, VARIANT};

/// A metric derived by comparison: its key, its unit, the key that it is computed from, and the function of our value and the baseline's.
type Derived = (&'static str, &'static str, &'static str, fn(f64, f64) -> f64);

/// Ratio of the baseline's time to the goal to ours (OLAF §8.2).
pub(crate) const SPEEDUP: &str = "speedup";

/// Ratio of the baseline's iteration time to ours (TRIO §6.2, Figure 13).
pub(crate) const ITERATION_SPEEDUP: &str = "iteration_speedup";
/// The same per iteration's worth of samples: the ratio of the times to any target (TRIO §6.2, Figure 12).
pub(crate) const TARGET_SPEEDUP: &str = "target_speedup";

/// Ratio of our useful gradients per second to the baseline's (LIBRA §5.2, Figure 12).
pub(crate) const THROUGHPUT_RATIO: &str = "throughput_ratio";

const DERIVED: [Derived; 8] = [
    ("aom_cut/cluster", "share", "aom_mean/cluster", |ours, theirs| 1.0 - ours / theirs),
    ("aom_cut/worker", "share", "aom_mean/worker", |ours, theirs| 1.0 - ours / theirs),
    ("received_ratio", "ratio", "received", |ours, theirs| ours / theirs),
    (SPEEDUP, "ratio", TIME_TO_GOAL, |ours, theirs| theirs / ours),
    (ITERATION_SPEEDUP, "ratio", ITERATION_TIME, |ours, theirs| theirs / ours),
    (TARGET_SPEEDUP, "ratio", EFFECTIVE_TIME, |ours, theirs| theirs / ours),
    (THROUGHPUT_RATIO, "ratio", USEFUL_RATE, |ours, theirs| ours / theirs),
    ("reward_gain", "share", REWARD_END, |ours, theirs| ours / theirs - 1.0),
];

const fn derived(metric: &'static str, unit: &'static str, definition: &'static str) -> Definition {
    Definition::new(metric, unit, Better::Higher, definition).needs("report.baseline")
}

/// Definitions of the metrics derived by comparison; [`DERIVED`] computes them.
pub(crate) const DEFINITIONS: [Definition; 7] = [
    derived("aom_cut", "share", "Reduction of `aom_mean` against the baseline: 1 − ours / theirs.").labels(&[FLOW]),
    Definition {
        better: Better::Neither,
        ..derived("received_ratio", "ratio", "`received` divided by the baseline's.")
    },
    derived(SPEEDUP, "ratio", "The baseline's `time_to_goal` divided by ours.").source("design §4, OLAF §8.2"),
    derived(ITERATION_SPEEDUP, "ratio", "The baseline's `iteration_time_mean` divided by ours.")
        .source("TRIO §6.2, Figure 13"),
    derived(
        TARGET_SPEEDUP,
        "ratio",
        "The baseline's `effective_iteration_time` divided by ours: the ratio of the times to any target.",
    )
    .source("TRIO §6.2, Figure 12"),
    derived(THROUGHPUT_RATIO, "ratio", "`useful_elements_per_s` divided by the baseline's.")
        .source("LIBRA §5.2, Figure 12"),
    derived("reward_gain", "share", "Increase of `reward_end` over the baseline: ours / theirs − 1.")
        .source("OLAF §8.2"),
];

/// Maximum number of points listed in a sentence.
const POINTS_MAX: usize = 6;

/// Returns the keys of the metrics derived by comparison.
pub(crate) fn keys() -> impl Iterator<Item = String> {
    DERIVED.iter().map(|(key, ..)| (*key).to_owned())
}

/// Whether `run` belongs to the variant `baseline`.
fn is_of(run: &RunSummary, baseline: &str) -> bool {
    run.labels.get(VARIANT).is_some_and(|variant| variant == baseline)
}

/// Returns what a run shares with its partners: its labels except the variant, and the seed.
fn pairing(run: &RunSummary) -> (Labels, u64) {
    let labels = run.labels.iter().filter(|(axis, _)| *axis != VARIANT);
    (labels.map(|(axis, value)| (axis.clone(), value.clone())).collect(), run.seed)
}

/// Adds comparisons with the valid runs of `baseline` to the other valid runs, without steered ones, paired by seed and all axes except the variant.
pub(crate) fn compare(
    runs: &mut [RunSummary],
    units: &mut BTreeMap<String, String>,
    baseline: &str,
    common: &mut Common,
) {
    let values = |run: &RunSummary| DERIVED.map(|(_, _, of, _)| run.scalars.get(of));
    let usable = |run: &RunSummary| run.validity.is_valid() && !run.is_steered();
    let theirs = runs.iter().filter(|run| is_of(run, baseline) && usable(run));
    let base: HashMap<_, _> = theirs.map(|run| (pairing(run), (values(run), run.clocks_within()))).collect();
    let keys = DERIVED.map(|(key, ..)| Arc::<str>::from(key));
    for run in runs.iter_mut().filter(|run| !is_of(run, baseline) && usable(run)) {
        let Some((theirs, their_clocks)) = base.get(&pairing(run)) else { continue };
        let clocks = [run.clocks_within(), *their_clocks];
        for (((key, unit, of, compared), shared), theirs) in DERIVED.iter().zip(&keys).zip(theirs) {
            let (ours, theirs) = match (run.scalars.get(of), *theirs) {
                (Some(ours), Some(theirs)) => (ours, theirs),
                (None, Some(_)) => {
                    run.lacks.push((*key, Lack::Own));
                    continue;
                }
                (Some(_), None) => {
                    run.lacks.push((*key, Lack::Baseline));
                    continue;
                }
                (None, None) => continue,
            };
            let value = compared(ours, theirs);
            let is_apart = clocks != [0.0; 2] && is_one_way(of);
            let ends = if is_apart { extremes(*compared, [ours, theirs], clocks) } else { [value; 2] };
            if theirs > 0.0 && value.is_finite() && ends.iter().all(|end| end.is_finite()) {
                run.scalars.insert(shared.clone(), value);
                units.insert((*key).to_owned(), (*unit).to_owned());
                run.apart.extend(is_apart.then_some((*key, ends)));
            } else {
                // A ratio to a baseline of 0 is undefined.
                run.lacks.push((*key, if ours == theirs && !is_apart { Lack::Equal } else { Lack::Ratio }));
            }
        }
        common.share(run);
    }
}

/// Returns the least and the largest value of `compared` if ours and theirs are off by up to these bounds; a time is not below 0.
fn extremes(compared: fn(f64, f64) -> f64, [ours, theirs]: [f64; 2], bounds: [f64; 2]) -> [f64; 2] {
    let around = |value: f64, bound: f64| [(value - bound).max(0.0), value + bound];
    let theirs = around(theirs, bounds[1]);
    let all = around(ours, bounds[0]).into_iter().flat_map(|ours| theirs.map(|theirs| compared(ours, theirs)));
    all.fold([f64::INFINITY, f64::NEG_INFINITY], |[least, largest], value| [least.min(value), largest.max(value)])
}

/// Returns one sentence per variant with runs that missed the goal: which runs, by how much, and the consequence.
pub(crate) fn missed_goals(runs: &[RunSummary]) -> Vec<String> {
    let mut variants: Vec<(&str, Vec<&RunSummary>)> = Vec::new();
    for run in runs.iter().filter(|run| run.goal.is_some()) {
        let name = run.labels.get(VARIANT).map_or("", String::as_str);
        match variants.iter_mut().find(|(other, _)| *other == name) {
            Some((_, runs)) => runs.push(run),
            None => variants.push((name, vec![run])),
        }
    }
    variants.into_iter().filter_map(|(name, runs)| missed(name, &runs)).collect()
}

fn missed(variant: &str, runs: &[&RunSummary]) -> Option<String> {
    let missing: Vec<_> = runs.iter().filter(|run| run.goal.is_some_and(|goal| goal.short > 0)).collect();
    let goals = || missing.iter().filter_map(|run| run.goal);
    let (least, most) = (goals().map(|goal| goal.short).min()?, goals().map(|goal| goal.short).max()?);
    let goal = goals().next()?;
    let mut points: Vec<String> = Vec::new();
    for run in &missing {
        let rest: Labels =
            run.labels.iter().filter(|(axis, _)| *axis != VARIANT).map(|(a, v)| (a.clone(), v.clone())).collect();
        let point = crate::sweep::data::describe(&rest);
        if !points.contains(&point) {
            points.push(point);
        }
    }
    let more = points.len().saturating_sub(POINTS_MAX);
    points.truncate(POINTS_MAX);
    if more > 0 {
        points.push(format!("{more} more"));
    }
    let short = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let who = if variant.is_empty() { "The goal" } else { variant };
    let (updates, workers, n, all) = (goal.updates, goal.workers, missing.len(), runs.len());
    Some(format!(
        "{who}: {n} of {all} runs did not reach {updates} updates of every worker ({short} of {workers} workers were \
         short), at {}; they have no time to goal and no speedup, since nothing is extrapolated.",
        points.join("; ")
    ))
}

#[cfg(test)]
#[path = "baseline_tests.rs"]
mod tests;
