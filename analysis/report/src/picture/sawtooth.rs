//! The age of one cluster over time, exact in the first view, with the variants side by side.
//!
//! A run may have more teeth than a chart has pixels. Outside the first view, the smallest and the largest age of each
//! of [`BUCKETS`] intervals represent all: no peak is lost, and the page notes this.

use std::collections::BTreeSet;

use pktgen_core::registry::Named;
use pktgen_records::age::Sawtooth;
use pktgen_records::human::show;

use super::Picture;
use crate::chart::{Chart, Kind, Series, first_charts, not_drawn};
use crate::sweep::data::{Labels, RunSummary, SweepData};
use crate::sweep::settings::{at, none_of, settings, unread, variant};

/// Maximum number of variants in one chart: the lines cross at every tooth.
const SAWTEETH_MAX: usize = 3;
/// Teeth of the sparsest series in the first view, and maximum for the densest.
const TEETH_WANTED: usize = 20;
const TEETH_MAX: usize = 300;
/// Number of intervals represented by their smallest and largest age: about one per pixel of the chart.
const BUCKETS: usize = 600;
/// Maximum number of teeth that are all drawn exactly.
const EXACT_MAX: usize = 1200;
/// Maximum number of charts of further clusters, for the first setting.
const FURTHER_MAX: usize = 9;

/// See the module documentation.
pub(super) struct Sawteeth;

impl Named for Sawteeth {
    fn name(&self) -> &'static str {
        "sawtooth"
    }

    fn about(&self) -> &'static str {
        "Age-of-Model of a cluster over time, exact, with zoom; the variants side by side"
    }
}

impl Picture for Sawteeth {
    fn heading(&self) -> &'static str {
        "Age-of-Model over time"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let baseline = sweep.manifest.report.baseline.as_deref();
        let all = settings(sweep);
        let groups: Vec<_> = all.iter().map(|(rest, runs)| (rest, runs, clusters(runs))).collect();
        let firsts = groups.iter().filter_map(|(rest, runs, ids)| Some((rest, runs, *ids.first()?)));
        let mut charts = first_charts(firsts, |(rest, runs, id)| draw(rest, runs, baseline, id), "setting");
        if let Some(last) = charts.last_mut() {
            last.remark(&unread(&sweep.runs));
        }
        if let Some((rest, runs, ids)) = groups.first() {
            let others = ids.iter().skip(1).take(FURTHER_MAX);
            let further = others.filter_map(|id| draw(rest, runs, baseline, *id));
            let mut further: Vec<Chart> = further.map(|chart| Chart { folded: true, ..chart }).collect();
            // The sawteeth of the first clusters alone are kept, and clusters without deliveries have none.
            let all: BTreeSet<&u32> = runs.iter().flat_map(|run| &run.clusters).collect();
            let more = all.len().saturating_sub(ids.len().min(1 + FURTHER_MAX));
            let own = if further.is_empty() { charts.first_mut() } else { further.last_mut() };
            if let Some(last) = own.filter(|_| !ids.is_empty()) {
                last.remark(&not_drawn(more, "cluster", "."));
            }
            charts.extend(further);
        }
        charts
    }

    fn is_of_first_seed(&self, sweep: &SweepData) -> bool {
        sweep.units.contains_key("aom_mean/cluster")
    }
}

/// Returns the numbers of the runs' clusters that have teeth.
fn clusters(runs: &[&RunSummary]) -> Vec<u32> {
    let sawteeth = runs.iter().flat_map(|run| &run.kept.sawteeth);
    let mut ids: Vec<u32> = sawteeth.filter(|own| !own.teeth.is_empty()).map(|own| own.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Draws the baseline and the first other variants, for the cluster `id`; runs without it have no line.
fn draw(rest: &Labels, runs: &[&RunSummary], baseline: Option<&str>, id: u32) -> Option<Chart> {
    // Teeth are extracted for the first seed only, so this uses its runs.
    let mut drawn: Vec<(&str, &Sawtooth)> = Vec::new();
    for run in runs {
        let own = run.kept.sawteeth.iter().find(|own| own.id == id && !own.teeth.is_empty());
        drawn.extend(own.map(|own| (variant(run), own)));
    }
    drawn.sort_by_key(|(name, _)| Some(*name) != baseline);
    let others = drawn.len().saturating_sub(SAWTEETH_MAX);
    drawn.truncate(SAWTEETH_MAX);
    let sawteeth: Vec<&Sawtooth> = drawn.iter().map(|(_, own)| *own).collect();
    let (from, to) = window(&sawteeth)?;
    let exact = sawteeth.iter().all(|own| own.teeth.len() <= EXACT_MAX);
    let series = drawn.iter().map(|(name, own)| Series {
        name: (*name).to_owned(),
        points: if exact { points(own, own.start.0, own.end_ps) } else { thinned(own, from, to) },
        ..Default::default()
    });
    let mut chart = Chart {
        kind: Kind::Line,
        title: format!("Age of the model of cluster {id} over time{}, first seed{}", at(rest), left_out(others)),
        note: note(&sawteeth, exact),
        x: ("time in the run".to_owned(), "ns"),
        y: ("age".to_owned(), "ns"),
        series: series.collect(),
        zoom: Some((from as f64 / 1000.0, to as f64 / 1000.0)),
        ..Default::default()
    };
    let without = runs.iter().filter(|run| has_no_teeth(run, id)).map(|run| variant(run).to_owned());
    chart.remark(&none_of(without.collect(), "variant", "deliveries that lower the age"));
    Some(chart)
}

/// Whether no delivery of a run whose teeth are known lowered the age of the cluster. Where the first cluster alone is known, it stands
/// for the others only if the run has no peaks at all.
fn has_no_teeth(run: &RunSummary, id: u32) -> bool {
    let (sawteeth, peaks) = (&run.kept.sawteeth, &run.kept.peak_cdf);
    let own = sawteeth.iter().find(|own| own.id == id);
    !sawteeth.is_empty() && own.map_or(peaks.is_empty(), |own| own.teeth.is_empty())
}

fn left_out(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " (1 more variant is not drawn)".to_owned(),
        _ => format!(" ({others} more variants are not drawn)"),
    }
}

fn note(sawteeth: &[&Sawtooth], exact: bool) -> String {
    if exact {
        return "Every delivery is drawn; the first view is from the middle of the run.".to_owned();
    }
    let longest = sawteeth.iter().map(|own| own.end_ps.saturating_sub(own.start.0)).max().unwrap_or(0);
    let span = show("ns", longest as f64 / 1000.0 / BUCKETS as f64);
    format!(
        "In the first view, from the middle of the run, every delivery is drawn. Before and after it, lines join the \
         smallest and the largest age in each of {BUCKETS} equal spans of the run (at most {span} each): no peak is left out."
    )
}

/// Returns a window in the middle of the runs in which the sparsest series has enough teeth to be visible and the densest not too many.
fn window(all: &[&Sawtooth]) -> Option<(i64, i64)> {
    let sparsest = &all.iter().min_by_key(|own| own.teeth.len())?.teeth;
    let middle = sparsest.len() / 2;
    let first = middle.saturating_sub(TEETH_WANTED / 2);
    let last = (first + TEETH_WANTED).min(sparsest.len() - 1);
    let from = sparsest[first].t_ps.saturating_sub(sparsest[first].before_ps.max(0) / 2);
    let mut to = sparsest[last].t_ps.max(from.saturating_add(1));
    for own in all {
        let start = own.teeth.partition_point(|tooth| tooth.t_ps < from);
        if let Some(limit) = own.teeth.get(start + TEETH_MAX) {
            to = to.min(limit.t_ps);
        }
    }
    Some((from, to))
}

/// In f64, since damaged times may have any value.
fn ns(t: i64, age_ps: f64) -> (f64, f64) {
    (t as f64 / 1000.0, age_ps.max(0.0) / 1000.0)
}

/// Returns the age between `from` and `to` as a line, limited to these and to the window.
fn points(own: &Sawtooth, from: i64, to: i64) -> Vec<(f64, f64)> {
    let (from, to) = (from.max(own.start.0), to.min(own.end_ps));
    if from > to {
        return Vec::new();
    }
    let teeth = own.inside(from, to);
    let mut line = Vec::with_capacity(2 * teeth.len() + 2);
    line.push(ns(from, own.age_ps(from)));
    for tooth in teeth {
        line.push(ns(tooth.t_ps, tooth.before_ps as f64));
        line.push(ns(tooth.t_ps, tooth.after_ps as f64));
    }
    line.push(ns(to, own.age_ps(to)));
    line.dedup();
    line
}

/// Returns a line that is exact between `from` and `to`; before and after, it has the smallest and the largest age of
/// each of [`BUCKETS`] equal intervals of the window, in chronological order.
fn thinned(own: &Sawtooth, from: i64, to: i64) -> Vec<(f64, f64)> {
    let whole = own.end_ps as f64 - own.start.0 as f64;
    let edge = |i: usize| own.start.0 + (whole / BUCKETS as f64 * i as f64) as i64;
    let mut line = Vec::with_capacity(2 * BUCKETS + 2 * TEETH_MAX);
    let mut done = false;
    for i in 0..BUCKETS {
        let (start, end) = (edge(i), if i + 1 == BUCKETS { own.end_ps } else { edge(i + 1) });
        extremes(own, start, end.min(from), &mut line);
        if end >= from && !done {
            line.extend(points(own, from, to));
            done = true;
        }
        extremes(own, start.max(to), end, &mut line);
    }
    line.dedup();
    line
}

/// Appends the smallest and the largest age between `from` and `to`.
fn extremes(own: &Sawtooth, from: i64, to: i64, found: &mut Vec<(f64, f64)>) {
    if from >= to {
        return;
    }
    let line = points(own, from, to);
    let least = line.iter().enumerate().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let most = line.iter().enumerate().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let (Some(least), Some(most)) = (least, most) else { return };
    let (first, second) = if least.0 <= most.0 { (least.1, most.1) } else { (most.1, least.1) };
    found.extend([*first, *second]);
}

#[cfg(test)]
#[path = "sawtooth_tests.rs"]
mod tests;
