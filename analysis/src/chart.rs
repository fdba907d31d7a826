//! The data of a report's pictures, chosen and thinned so that they can be read.
//!
//! Called by [`crate::model`]; [`crate::plot`] draws them. One picture per setting of the axes other
//! than the variant, with the variants side by side.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::age::Tooth;
use crate::model::describe;
use crate::stats;
use crate::sweep::{Labels, RunSummary, SweepData, VARIANT};
use crate::{curve, state_chart};

/// Most pictures of one kind, and most series in one picture: more cannot be read.
pub(crate) const CHARTS_MAX: usize = 8;
pub(crate) const SERIES_MAX: usize = 8;
/// Most variants in one sawtooth: lines that cross at every tooth.
const SAWTEETH_MAX: usize = 3;
/// Teeth of the sparsest series in a sawtooth's window, and most of the densest.
const TEETH_WANTED: usize = 20;
const TEETH_MAX: usize = 300;

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Straight lines between points.
    Line,
    /// Horizontal up to the next point, then up: cumulative shares.
    Step,
    /// Bars; x is the position in the chart's categories.
    Bars,
}

/// A picture's data.
#[derive(Debug, Clone, Serialize)]
pub struct Chart {
    /// How to draw it.
    pub kind: Kind,
    /// What it shows.
    pub title: String,
    /// What x is, and its unit (`ns`, `share`, or empty).
    pub x: (String, &'static str),
    /// What y is, and its unit.
    pub y: (String, &'static str),
    /// Names of the bars' groups.
    pub categories: Vec<String>,
    /// What is compared.
    pub series: Vec<Series>,
}

/// One line, or the bars of one colour.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Intervals around its points, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
    /// Points that are crossed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(f64, f64)>,
}

/// An interval of y at an x.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Span {
    /// Where.
    pub x: f64,
    /// Its lower end.
    pub lo: f64,
    /// Its upper end.
    pub hi: f64,
}

/// All pictures of a sweep.
pub fn all(sweep: &SweepData) -> Vec<Chart> {
    let groups = settings(sweep);
    let baseline = sweep.manifest.report.baseline.as_deref();
    let mut charts = curve::all(sweep);
    charts.extend(groups.iter().filter_map(|(rest, runs)| sawtooth(rest, runs, baseline)).take(CHARTS_MAX));
    charts.extend(aggregation(sweep).into_iter().take(CHARTS_MAX));
    charts.extend(groups.iter().filter_map(|(rest, runs)| cluster_bars(rest, runs)).take(CHARTS_MAX));
    charts.extend(state_chart::all(sweep));
    charts
}

fn variant(run: &RunSummary) -> &str {
    run.labels.get(VARIANT).map_or("ours", String::as_str)
}

/// The runs by their labels without the variant, in the order of first appearance.
fn settings(sweep: &SweepData) -> Vec<(Labels, Vec<&RunSummary>)> {
    let mut groups: Vec<(Labels, Vec<&RunSummary>)> = Vec::new();
    for run in &sweep.runs {
        let mut rest = run.labels.clone();
        rest.remove(VARIANT);
        match groups.iter_mut().find(|(labels, _)| *labels == rest) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((rest, vec![run])),
        }
    }
    groups
}

/// The runs of each variant, in the order of first appearance.
fn variants<'a>(runs: &[&'a RunSummary]) -> Vec<(&'a str, Vec<&'a RunSummary>)> {
    let mut groups: Vec<(&str, Vec<&RunSummary>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(name, _)| *name == variant(run)) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((variant(run), vec![run])),
        }
    }
    groups
}

pub(crate) fn at(rest: &Labels) -> String {
    if rest.is_empty() { String::new() } else { format!(" at {}", describe(rest)) }
}

/// The baseline and the first other variants.
fn sawtooth(rest: &Labels, runs: &[&RunSummary], baseline: Option<&str>) -> Option<Chart> {
    // Teeth are kept for the first seed only, so this takes its runs.
    let mut runs: Vec<_> = runs.iter().filter(|run| !run.teeth.is_empty()).collect();
    runs.sort_by_key(|run| Some(variant(run)) != baseline);
    let others = runs.len().saturating_sub(SAWTEETH_MAX);
    runs.truncate(SAWTEETH_MAX);
    let (from, to) = window(&runs.iter().map(|run| run.teeth.as_slice()).collect::<Vec<_>>())?;
    let series = runs.iter().map(|run| Series {
        name: variant(run).to_owned(),
        points: zigzag(&run.teeth, from, to),
        ..Default::default()
    });
    Some(Chart {
        kind: Kind::Line,
        title: format!("Age of one cluster's model over time{}, first seed{}", at(rest), left_out(others)),
        x: ("time in the run".to_owned(), "ns"),
        y: ("age".to_owned(), "ns"),
        categories: Vec::new(),
        series: series.collect(),
    })
}

fn left_out(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " (1 more variant is not drawn)".to_owned(),
        _ => format!(" ({others} more variants are not drawn)"),
    }
}

/// A window in the middle of the runs in which the sparsest series has enough teeth to be seen and the
/// densest not so many that they blur.
fn window(all: &[&[Tooth]]) -> Option<(i64, i64)> {
    let sparsest = all.iter().min_by_key(|teeth| teeth.len())?;
    let middle = sparsest.len() / 2;
    let first = middle.saturating_sub(TEETH_WANTED / 2);
    let last = (first + TEETH_WANTED).min(sparsest.len() - 1);
    let from = sparsest[first].t_ps.saturating_sub(sparsest[first].before_ps.max(0) / 2);
    let mut to = sparsest[last].t_ps.max(from.saturating_add(1));
    for teeth in all {
        let start = teeth.partition_point(|tooth| tooth.t_ps < from);
        if let Some(limit) = teeth.get(start + TEETH_MAX) {
            to = to.min(limit.t_ps);
        }
    }
    Some((from, to))
}

/// The age between `from` and `to` as a line, cut at both ends.
fn zigzag(teeth: &[Tooth], from: i64, to: i64) -> Vec<(f64, f64)> {
    // In f64: damaged times may be anything.
    let ns = |t: i64, age: i64, later: i64, earlier: i64| {
        let passed = later as f64 - earlier as f64;
        (t as f64 / 1000.0, (age as f64 + passed).max(0.0) / 1000.0)
    };
    let start = teeth.partition_point(|tooth| tooth.t_ps < from);
    let end = teeth.partition_point(|tooth| tooth.t_ps <= to);
    let mut points = Vec::with_capacity(2 * (end - start) + 2);
    match (teeth.get(start), start.checked_sub(1).map(|before| teeth[before])) {
        (_, Some(last)) => points.push(ns(from, last.after_ps, from, last.t_ps)),
        (Some(next), None) => points.push(ns(from, next.before_ps, from, next.t_ps)),
        (None, None) => {}
    }
    for tooth in &teeth[start..end] {
        points.push(ns(tooth.t_ps, tooth.before_ps, 0, 0));
        points.push(ns(tooth.t_ps, tooth.after_ps, 0, 0));
    }
    if let Some(last) = end.checked_sub(1).map(|last| teeth[last]) {
        points.push(ns(to, last.after_ps, to, last.t_ps));
    }
    points
}

/// Per variant that aggregates: cumulative shares of the aggregation count, one line per other setting.
fn aggregation(sweep: &SweepData) -> Vec<Chart> {
    let runs: Vec<_> = sweep.runs.iter().collect();
    let mut charts = Vec::new();
    for (name, runs) in variants(&runs) {
        let mut groups: Vec<(Labels, Vec<&RunSummary>)> = Vec::new();
        for run in runs {
            match groups.iter_mut().find(|(labels, _)| *labels == run.labels) {
                Some((_, runs)) => runs.push(run),
                None => groups.push((run.labels.clone(), vec![run])),
            }
        }
        let series: Vec<Series> = groups.iter().map(|(labels, runs)| cumulative(labels, runs)).collect();
        let aggregates = series.iter().any(|series| series.points.iter().any(|(n, _)| *n > 1.0));
        if aggregates {
            charts.push(Chart {
                kind: Kind::Step,
                title: format!("Updates per received packet (CDF), {name}, all seeds{}", cut_note(series.len())),
                x: ("updates in a packet, at most".to_owned(), ""),
                y: ("share of packets".to_owned(), "share"),
                categories: Vec::new(),
                series: series.into_iter().take(SERIES_MAX).collect(),
            });
        }
    }
    charts
}

fn cut_note(series: usize) -> String {
    if series > SERIES_MAX { format!(" (first {SERIES_MAX} of {series} settings)") } else { String::new() }
}

/// The mean over the seeds of the cumulative shares, as corners of a step line.
fn cumulative(labels: &Labels, runs: &[&RunSummary]) -> Series {
    let mut rest = labels.clone();
    rest.remove(VARIANT);
    let mut mass: BTreeMap<u64, f64> = BTreeMap::new();
    for run in runs {
        let mut below = 0.0;
        for (n, share) in &run.aggregation_cdf {
            *mass.entry(*n).or_default() += (share - below) / runs.len() as f64;
            below = *share;
        }
    }
    let mut share = 0.0;
    let points = mass.into_iter().map(|(n, mass)| {
        share += mass;
        (n as f64, share)
    });
    let name = if rest.is_empty() { "all".to_owned() } else { describe(&rest) };
    Series { name, points: points.collect(), ..Default::default() }
}

/// Average age of each cluster, the variants side by side, medians over the seeds.
fn cluster_bars(rest: &Labels, runs: &[&RunSummary]) -> Option<Chart> {
    let mut ids: Vec<u64> = runs.iter().flat_map(|run| run.cluster_aom_ns.iter().map(|(id, _)| *id)).collect();
    ids.sort_unstable();
    ids.dedup();
    // More bars than this are a texture; the table has the mean.
    ids.truncate(40);
    if ids.is_empty() {
        return None;
    }
    let bars = |runs: &[&RunSummary]| {
        let value = |id: &u64| {
            let of_id =
                |run: &&RunSummary| run.cluster_aom_ns.iter().find(|(other, _)| other == id).map(|(_, age)| *age);
            stats::median(&runs.iter().filter_map(of_id).collect::<Vec<_>>())
        };
        ids.iter().enumerate().filter_map(|(x, id)| Some((x as f64, value(id)?))).collect()
    };
    let series = variants(runs).into_iter().take(SERIES_MAX);
    Some(Chart {
        kind: Kind::Bars,
        title: format!("Average Age-of-Model per cluster{}, median over seeds", at(rest)),
        x: ("cluster".to_owned(), ""),
        y: ("average age".to_owned(), "ns"),
        categories: ids.iter().map(u64::to_string).collect(),
        series: series
            .map(|(name, runs)| Series { name: name.to_owned(), points: bars(&runs), ..Default::default() })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teeth(period: i64, n: i64) -> Vec<Tooth> {
        (1..=n).map(|i| Tooth { t_ps: i * period, before_ps: period + 7, after_ps: 7 }).collect()
    }

    #[test]
    fn a_window_shows_the_sparse_series_and_does_not_blur_the_dense_one() {
        let (sparse, dense) = (teeth(10_000, 1000), teeth(5_000, 2000));
        let (from, to) = window(&[&sparse, &dense]).unwrap();
        let inside = |teeth: &[Tooth]| teeth.iter().filter(|tooth| (from..=to).contains(&tooth.t_ps)).count();
        assert_eq!(inside(&sparse), TEETH_WANTED + 1);
        assert!(inside(&dense) <= TEETH_MAX + 1 && from > 4_000_000 && to < 6_000_000);
        let (from, to) = window(&[&teeth(10_000, 100), &teeth(10, 100_000)]).unwrap();
        assert!(teeth(10, 100_000).iter().filter(|tooth| (from..=to).contains(&tooth.t_ps)).count() <= TEETH_MAX + 1);
        assert_eq!(window(&[]), None);
    }

    #[test]
    fn a_sawtooth_shows_the_baseline_and_two_others() {
        let run = |name: &str| RunSummary {
            labels: [(VARIANT.to_owned(), name.to_owned())].into(),
            teeth: teeth(10_000, 50),
            ..Default::default()
        };
        let runs = ["a", "b", "base", "c"].map(run);
        let chart = sawtooth(&Labels::new(), &runs.iter().collect::<Vec<_>>(), Some("base")).unwrap();
        let names: Vec<_> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["base", "a", "b"]);
        assert!(chart.title.ends_with("(1 more variant is not drawn)"), "{}", chart.title);
    }

    #[test]
    fn a_zigzag_is_cut_at_both_ends() {
        let points = zigzag(&teeth(10_000, 5), 15_000, 25_000);
        // 5 ns after the tooth at 10 ns the age is 5.007 ns; the tooth at 20 ns; 5 ns after it.
        assert_eq!(points, [(15.0, 5.007), (20.0, 10.007), (20.0, 0.007), (25.0, 5.007)]);
    }

    #[test]
    fn cumulative_shares_are_means_over_seeds() {
        let run = |cdf: &[(u64, f64)]| RunSummary { aggregation_cdf: cdf.to_vec(), ..Default::default() };
        let (a, b) = (run(&[(1, 0.5), (2, 1.0)]), run(&[(1, 0.25), (4, 1.0)]));
        let series = cumulative(&Labels::new(), &[&a, &b]);
        assert_eq!(series.points, [(1.0, 0.375), (2.0, 0.625), (4.0, 1.0)]);
    }
}
