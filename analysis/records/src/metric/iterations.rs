//! Iterations of synchronous training (TRIO §6.2): their duration, compared with the ideal, and the sources of their results.
//!
//! The time of an iteration is measured per worker, from the beginning of its computation to the last result. A result
//! that lacks sources ends an iteration earlier but contributes less to the training (§5): `sources_mean` is the share
//! of all contributions that are in results, and `effective_iteration_time` is the time per complete iteration's worth
//! of samples. This is our model of Figure 12, whose curves come from real training: accuracy depends on how many
//! contributions have been averaged, regardless of the results that contained them.

use std::collections::BTreeMap;

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Timing};
use pktgen_core::record::{Family, Training};
use pktgen_core::registry::Named;

use super::{Metric, exactness};
use crate::fates::is_update;
use crate::labels::{JOB, SYNCHRONOUS};
use crate::line::{Line, NS, SHARE};
use crate::resolved::Analysis;
use crate::rounds::IterationColumns;
use crate::stats;

/// See the module documentation.
pub(super) struct Iterations;

/// The metric whose ratio is iteration_speedup.
pub const ITERATION_TIME: &str = "iteration_time_mean";
/// The metric whose ratio is target_speedup.
pub const EFFECTIVE_TIME: &str = "effective_iteration_time";
/// An iteration without stragglers over an ideal network.
pub const IDEAL_TIME: &str = "ideal_iteration_time";
/// The metric whose ratio is aggregation throughput in comparisons of sparse training.
pub const USEFUL_RATE: &str = "useful_elements_per_s";
/// Number of iterations; every synchronous run has this metric, even if it is 0.
pub const ITERATIONS: &str = "iterations";

const fn of(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).labels(&[JOB]).needs(SYNCHRONOUS)
}

/// Metrics derived from the sources of results.
const OF_SOURCES: [&str; 4] = ["degraded_share", "sources_mean", EFFECTIVE_TIME, "time_to_target"];

/// In the order of their lines.
const DEFINITIONS: [Definition; 18] = [
    of(ITERATION_TIME, NS, Better::Lower, "Mean iteration time: per worker, from the start of its first iteration to the end of its last, divided by their number; mean over workers.").timed(Timing::OneClock).source("TRIO §6.2"),
    of("over_ideal", "ratio", Better::Lower, "`iteration_time_mean` divided by `ideal_iteration_time`.").source("TRIO §6.2"),
    of("degraded_share", SHARE, Better::Lower, "Share of results that lack sources; for sums by key 0, or no value if updates are missing or counted twice.").source("TRIO §5"),
    of("sources_mean", SHARE, Better::Higher, "Share of all contributions that are in results; for sums by key 1, or no value if updates are missing or counted twice.").source("TRIO §5"),
    of(EFFECTIVE_TIME, NS, Better::Lower, "Time per iteration's worth of samples: `iteration_time_mean` divided by `sources_mean`. A model: accuracy depends on the number of contributions averaged so far.").timed(Timing::OneClock).source("TRIO §6.2, Figure 12"),
    of("time_to_target", NS, Better::Lower, "`effective_iteration_time` times `endpoint.iterations_to_target`; no value if that key is not set.").timed(Timing::OneClock).source("TRIO §6.2, Figure 12"),
    of(USEFUL_RATE, "elements/s", Better::Higher, "Non-zero gradients of all workers (of sparse models all pairs), divided by the time from the start of the first iteration to the end of the last.").source("LIBRA §5.2"),
    of(IDEAL_TIME, NS, Better::Neither, "Time of an iteration without stragglers on an ideal network: computation and a ring all-reduce over loss-free links.").timed(Timing::OneClock).source("TRIO §6.1"),
    of("waiting_bound", NS, Better::Neither, "Minimum time lost by an iteration that lacks a straggler throughout: one timeout per window of blocks.").timed(Timing::OneClock).source("TRIO §5"),
    of("iteration_time_p50", NS, Better::Lower, "Median iteration time, over iterations and workers.").timed(Timing::OneClock).source("TRIO §6.2"),
    of("iteration_time_p99", NS, Better::Lower, "99th percentile of iteration times, over iterations and workers.").timed(Timing::OneClock).source("TRIO §6.2"),
    of("iteration_time_max", NS, Better::Lower, "Maximum iteration time, over iterations and workers.").timed(Timing::OneClock).source("TRIO §6.2"),
    of("communication_time_mean", NS, Better::Lower, "Mean time from computed gradients to the last result, over iterations without missed ones.").timed(Timing::OneClock),
    of("delay_mean", NS, Better::Neither, "Mean straggler delay per iteration.").timed(Timing::OneClock).source("TRIO §6.1"),
    of("straggled_share", SHARE, Better::Neither, "Share of iterations with a straggler delay.").source("TRIO §6.1"),
    of("skipped_share", SHARE, Better::Lower, "Share of blocks that were not sent, because their result had already arrived."),
    of("missed_share", SHARE, Better::Lower, "Share of iterations that took no part: all results had arrived before they began, so that nothing was computed, or (sums by key) a switch that failed lost their pushes."),
    of(ITERATIONS, "iterations", Better::Neither, "Completed iterations of all workers."),
];

impl Named for Iterations {
    fn name(&self) -> &'static str {
        "iterations"
    }

    fn about(&self) -> &'static str {
        "synchronous training: iteration times against the ideal, delays, missing sources of results"
    }
}

impl Metric for Iterations {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let (Some(rounds), Some(training)) = (&run.rounds, &run.manifest.training) else { return Ok(()) };
        let iterations = &rounds.iterations;
        let all: Vec<usize> = (0..iterations.worker.len()).collect();
        let from = out.len();
        out.extend(lines(iterations, &all, training));
        let mut jobs: Vec<u16> = run.manifest.clusters.iter().copied().filter(|job| is_update(*job)).collect();
        jobs.sort_unstable();
        jobs.dedup();
        for &job in jobs.iter().filter(|_| jobs.len() > 1) {
            let of_job: Vec<usize> = all.iter().copied().filter(|row| iterations.job[*row] == job).collect();
            out.extend(lines(iterations, &of_job, training).map(|line| line.with("job", job)));
        }
        // Results of sums by key do not contain their sources: either all are complete, or it is unknown which result lacks one.
        if run.manifest.family() == Family::Pairs && !exactness::are_whole(run) {
            let lacking = out[from..].iter_mut().filter(|line| OF_SOURCES.contains(&&*line.metric));
            lacking.for_each(|line| line.value = None);
        }
        Ok(())
    }
}

/// Returns all lines over `rows`, in the order of [`DEFINITIONS`].
fn lines(iterations: &IterationColumns, rows: &[usize], training: &Training) -> impl Iterator<Item = Line> {
    let sum = |of: &dyn Fn(usize) -> u64| rows.iter().map(|row| u128::from(of(*row))).sum::<u128>() as f64;
    let count = |of: &dyn Fn(usize) -> bool| rows.iter().filter(|row| of(**row)).count() as f64;
    let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    // Every block has one result that counts, whether the worker had sent it or not.
    let results = sum(&|row| u64::from(iterations.sent[row]) + u64::from(iterations.skipped[row]));
    let mean = mean_time_ns(iterations, rows);
    let ideal = training.ideal_ps as f64 / 1000.0;
    let sources = share(sum(&|row| iterations.sources[row]), results * f64::from(training.workers));
    let effective = mean.zip(sources).and_then(|(mean, sources)| share(mean, sources));
    let to_target = |n: u64| effective.map(|effective| effective * n as f64);
    let mut times: Vec<f64> = rows.iter().map(|row| took_ns(iterations, *row)).collect();
    times.sort_unstable_by(f64::total_cmp);
    let took_part = rows.iter().filter(|row| !iterations.missed[**row]);
    let communication: Vec<f64> =
        took_part.map(|row| span_ns(iterations.t_ready_ps[*row], iterations.t_end_ps[*row])).collect();
    let delays: Vec<f64> = rows.iter().map(|row| iterations.delay_ps[*row] as f64 / 1000.0).collect();
    let n = rows.len() as f64;
    let values = [
        mean,
        mean.and_then(|mean| share(mean, ideal)),
        share(sum(&|row| u64::from(iterations.degraded[row])), results),
        sources,
        effective,
        training.iterations_to_target.and_then(to_target),
        useful_per_s(iterations, rows),
        Some(ideal),
        waiting_bound_ns(training),
        stats::quantile_of_sorted(&times, 0.5),
        stats::quantile_of_sorted(&times, 0.99),
        times.last().copied(),
        stats::mean(&communication),
        stats::mean(&delays),
        share(count(&|row| iterations.delay_ps[row] > 0), n),
        share(sum(&|row| u64::from(iterations.skipped[row])), results),
        share(count(&|row| iterations.missed[row]), n),
        Some(n),
    ];
    DEFINITIONS.iter().zip(values).map(|(definition, value)| Line::of(definition, value))
}

/// Returns the nonzero gradients of all workers per second, from the beginning of the first iteration to the end of the
/// last (LIBRA §5.2: additional traffic is not counted).
fn useful_per_s(iterations: &IterationColumns, rows: &[usize]) -> Option<f64> {
    let start = rows.iter().map(|row| iterations.t_start_ps[*row]).min()?;
    let end = rows.iter().map(|row| iterations.t_end_ps[*row]).max()?;
    let elements: u128 = rows.iter().map(|row| u128::from(iterations.elements[*row])).sum();
    let seconds = span_ns(start, end) / 1e9;
    (seconds > 0.0).then(|| elements as f64 / seconds)
}

/// Returns the minimum loss of an iteration that lacks a straggler throughout: each window of blocks waits for one timeout (§5).
fn waiting_bound_ns(training: &Training) -> Option<f64> {
    let windows = training.blocks.div_ceil(training.window.max(1));
    training.timeout_ps.map(|timeout| f64::from(windows) * timeout as f64 / 1000.0)
}

fn span_ns(from_ps: i64, to_ps: i64) -> f64 {
    // In f64, since damaged times may have any value.
    (to_ps as f64 - from_ps as f64) / 1000.0
}

fn took_ns(iterations: &IterationColumns, row: usize) -> f64 {
    span_ns(iterations.t_start_ps[row], iterations.t_end_ps[row])
}

/// Returns the mean over the workers of each worker's mean: from the beginning of its first iteration to the end of its
/// last, so that time between iterations is included.
fn mean_time_ns(iterations: &IterationColumns, rows: &[usize]) -> Option<f64> {
    let mut workers: BTreeMap<u32, (u64, i64, i64)> = BTreeMap::new();
    for &row in rows {
        let (start, end) = (iterations.t_start_ps[row], iterations.t_end_ps[row]);
        let (n, first, last) = workers.entry(iterations.worker[row]).or_insert((0, start, end));
        (*n, *first, *last) = (*n + 1, start.min(*first), end.max(*last));
    }
    let means: Vec<f64> = workers.values().map(|(n, first, last)| span_ns(*first, *last) / *n as f64).collect();
    stats::mean(&means)
}
