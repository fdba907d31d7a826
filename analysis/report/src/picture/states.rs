//! Charts of workers under transmission control (OLAF §5): their probability of sending, the queue as reported by ACKs,
//! and withheld updates.
//!
//! [`crate::sweep`] extracts what charts need from each run.

use pktgen_core::registry::Named;
use pktgen_records::fates::is_update;
use pktgen_records::resolved::Analysis;
use pktgen_records::run::StateColumns;

use super::Picture;
use crate::chart::{CHARTS_MAX, Chart, Kind, Series, note_further};
use crate::sweep::data::SweepData;
use crate::sweep::kept::{Decision, WorkerStates};
use crate::sweep::settings::at;

/// Maximum number of workers in a chart: more lines cannot be distinguished.
const WORKERS_MAX: usize = 4;
/// Number of decisions of the busiest worker in a chart's window, and maximum number of changes of the congestion reported to a worker.
const DECISIONS_WANTED: usize = 60;
const CHANGES_MAX: usize = 400;

/// Points of a chart.
type Points = Vec<(f64, f64)>;

/// Returns the first workers of a few clusters, evenly selected from all that have decisions, in a window in the middle of the run, and
/// the number of all that have decisions.
pub(crate) fn thinned(run: &Analysis) -> (Vec<WorkerStates>, usize) {
    let Some(states) = &run.states else { return Default::default() };
    let (chosen, all) = chosen(&run.manifest.clusters, states);
    let mut workers: Vec<WorkerStates> =
        chosen.into_iter().map(|(worker, cluster)| history(states, worker, cluster)).collect();
    let Some((from, to)) = window(&workers) else { return Default::default() };
    for worker in &mut workers {
        worker.decisions.retain(|decision| (from..=to).contains(&decision.t_ps));
        let before = worker.heard.partition_point(|(t, _)| *t <= from);
        let first = before.checked_sub(1).map_or(0.0, |last| worker.heard[last].1);
        let inside = worker.heard[before..].iter().copied().take_while(|(t, _)| *t <= to);
        worker.heard = std::iter::once((from, first)).chain(inside).collect();
        let last = worker.heard[worker.heard.len() - 1].1;
        worker.heard.push((to, last));
    }
    (workers, all)
}

/// Returns worker and cluster: the first worker with decisions in each of a few clusters; and the number of workers with decisions.
fn chosen(clusters: &[u16], states: &StateColumns) -> (Vec<(u32, u16)>, usize) {
    let mut decided = vec![false; clusters.len()];
    for (worker, _) in states.worker.iter().zip(&states.p_send).filter(|(_, p_send)| p_send.is_some()) {
        if let Some(decided) = decided.get_mut(*worker as usize) {
            *decided = true;
        }
    }
    let (mut firsts, mut all) = (Vec::<(u16, u32)>::new(), 0);
    for ((&cluster, _), worker) in clusters.iter().zip(&decided).zip(0u32..).filter(|((_, decided), _)| **decided) {
        if !is_update(cluster) {
            continue;
        }
        all += 1;
        if !firsts.iter().any(|(other, _)| *other == cluster) {
            firsts.push((cluster, worker));
        }
    }
    firsts.sort_unstable();
    let n = firsts.len().min(WORKERS_MAX);
    let spread = |i: usize| if n > 1 { i * (firsts.len() - 1) / (n - 1) } else { 0 };
    ((0..n).map(|i| firsts[spread(i)]).map(|(cluster, worker)| (worker, cluster)).collect(), all)
}

fn history(states: &StateColumns, worker: u32, cluster: u16) -> WorkerStates {
    let mut out = WorkerStates { worker, cluster, ..Default::default() };
    let mut rows: Vec<usize> = (0..states.t_ps.len()).filter(|row| states.worker[*row] == worker).collect();
    rows.sort_by_key(|row| states.t_ps[*row]);
    for row in rows {
        let t_ps = states.t_ps[row];
        if let Some(p_send) = states.p_send[row].filter(|p_send| p_send.is_finite()) {
            let withheld = states.sent[row] == Some(false);
            out.decisions.push(Decision { t_ps, p_send: f64::from(p_send), withheld });
        }
        // A queue without slots has not been reported by any ACK.
        let heard = match states.capacity[row] {
            0 => 0.0,
            slots => f64::from(states.active[row]) / f64::from(slots),
        };
        if out.heard.last().is_none_or(|(_, last)| *last != heard) {
            out.heard.push((t_ps, heard));
        }
    }
    out
}

/// Returns the window of the middle decisions of the busiest worker, shortened if it has too many reports of congestion.
fn window(workers: &[WorkerStates]) -> Option<(i64, i64)> {
    let decisions = &workers.iter().max_by_key(|worker| worker.decisions.len())?.decisions;
    let first = (decisions.len() / 2).saturating_sub(DECISIONS_WANTED / 2);
    let last = (first + DECISIONS_WANTED).min(decisions.len().checked_sub(1)?);
    let (mut from, mut to) = (decisions[first].t_ps, decisions[last].t_ps);
    if decisions.len() <= DECISIONS_WANTED {
        // All of them, so that no first decision is cut off.
        let all = || workers.iter().flat_map(|worker| &worker.decisions).map(|decision| decision.t_ps);
        (from, to) = (all().min()?, all().max()?);
    }
    for worker in workers {
        let start = worker.heard.partition_point(|(t, _)| *t <= from);
        if let Some((limit, _)) = worker.heard.get(start + CHANGES_MAX) {
            to = to.min(*limit);
        }
    }
    Some((from, to))
}

/// See the module documentation.
pub(super) struct States;

impl Named for States {
    fn name(&self) -> &'static str {
        "states"
    }

    fn about(&self) -> &'static str {
        "workers under transmission control: probability of sending, congestion as reported by ACKs"
    }
}

impl Picture for States {
    fn heading(&self) -> &'static str {
        "Workers under transmission control"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        all(sweep)
    }
}

/// Returns two charts for the first run of each point that recorded its states.
fn all(sweep: &SweepData) -> Vec<Chart> {
    let first = |runs: &[usize]| runs.iter().map(|run| &sweep.runs[*run]).find(|run| !run.states.is_empty());
    let runs: Vec<_> = sweep.points.iter().filter_map(|point| first(&point.runs)).collect();
    let charts = runs.iter().take(CHARTS_MAX).flat_map(|run| {
        let at = format!("{}, seed {}{}", at(&run.labels), run.seed, some_of(run.states.len(), run.deciders));
        let series = |points: &dyn Fn(&WorkerStates) -> (Points, Points)| {
            let of = |worker: &WorkerStates| {
                let (points, marks) = points(worker);
                let name = format!("worker {} of cluster {}", worker.worker, worker.cluster);
                Series { name, points, marks, ..Default::default() }
            };
            run.states.iter().map(of).collect()
        };
        let chart = |title: String, y: &str, series: Vec<Series>| Chart {
            kind: Kind::Line,
            title,
            x: ("time in the run".to_owned(), "ns"),
            y: (y.to_owned(), ""),
            series,
            ..Default::default()
        };
        [
            chart(format!("Probability of sending{at}; crosses were withheld"), "P_s", series(&decided)),
            chart(
                format!("Congestion as reported to workers by ACKs{at}; above 1 there are more clusters than slots"),
                "N/Qmax",
                series(&|worker| (steps(&worker.heard), Vec::new())),
            ),
        ]
    });
    let mut charts: Vec<Chart> = charts.collect();
    note_further(&mut charts, runs.len().saturating_sub(CHARTS_MAX), "point");
    charts
}

/// Returns " (4 of 20 workers)" for the title of a chart with `shown` of `all` workers; empty if it has all.
fn some_of(shown: usize, all: usize) -> String {
    if all > shown { format!(" ({shown} of {all} workers)") } else { String::new() }
}

fn ns(t_ps: i64) -> f64 {
    t_ps as f64 / 1000.0
}

/// Returns all decisions, and those to withhold.
fn decided(worker: &WorkerStates) -> (Points, Points) {
    let point = |decision: &Decision| (ns(decision.t_ps), decision.p_send);
    let withheld = worker.decisions.iter().filter(|decision| decision.withheld);
    (worker.decisions.iter().map(point).collect(), withheld.map(point).collect())
}

/// Returns a line that is level until the next change.
fn steps(heard: &[(i64, f64)]) -> Points {
    let mut points = Vec::with_capacity(2 * heard.len());
    for (i, &(t, level)) in heard.iter().enumerate() {
        if let Some(before) = i.checked_sub(1) {
            points.push((ns(t), heard[before].1));
        }
        points.push((ns(t), level));
    }
    points
}

#[cfg(test)]
#[path = "states_tests.rs"]
mod tests;
