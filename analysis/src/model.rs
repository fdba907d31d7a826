//! What a report says, before it has a form: built once from a sweep, rendered by every report.
//!
//! Called by the CLI's `report`. The order is the reader's: may I use this (validity), what is the
//! answer (verdict), the numbers beside the published ones, then what was fitted and what differs.

use std::collections::BTreeMap;

use pktgen_generator::record::Published;
use serde::Serialize;

use crate::chart::{self, Chart};
use crate::human::{Scale, scale_for};
use crate::stats::Interval;
use crate::sweep::{Labels, PointSummary, RunSummary, SweepData, VARIANT};

/// Metrics of the main table where the experiment names none.
const DEFAULT_METRICS: [&str; 8] =
    ["received", "loss", "merged", "subsumed", "outranked", "absorbed", "aom_mean/cluster", "aom_mean/worker"];

/// A report's content.
#[derive(Debug, Clone, Serialize)]
pub struct Model {
    /// Name of the experiment.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// May the numbers be used, and what do they say?
    pub verdict: Verdict,
    /// Invalid runs, with their reasons.
    pub invalid: Vec<RunNote>,
    /// Remarks of runs that do not invalidate them.
    pub remarks: Vec<RunNote>,
    /// Label columns of the main table.
    pub axes: Vec<String>,
    /// Value columns of the main table.
    pub columns: Vec<Heading>,
    /// One row per point.
    pub rows: Vec<Row>,
    /// Published values outside our intervals, one sentence each.
    pub disagreements: Vec<String>,
    /// Parameters fitted to reach published values.
    pub fitted: Vec<String>,
    /// Notes of the experiment.
    pub notes: Vec<String>,
    /// Pictures.
    pub charts: Vec<Chart>,
}

/// The answer.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// All runs are valid.
    pub valid: bool,
    /// Somewhere the Age-of-Model is clearly worse than the baseline's (95 % interval below 0).
    pub worse: bool,
    /// The answer in sentences.
    pub lines: Vec<String>,
}

/// What is said about one run, or about several alike.
#[derive(Debug, Clone, Serialize)]
pub struct RunNote {
    /// Which: the folder, labels and seed of the first, and how many more.
    pub run: String,
    /// What.
    pub reasons: Vec<String>,
}

/// A value column.
#[derive(Debug, Clone, Serialize)]
pub struct Heading {
    /// Key of the metric, such as `aom_mean/cluster`.
    pub key: String,
    /// Unit of the values in the model.
    pub unit: String,
    /// How to show them.
    pub scale: Scale,
}

/// A row of the main table.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Labels of the point.
    pub labels: Labels,
    /// How many runs.
    pub runs: usize,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// A cell of the main table.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cell {
    /// Median and interval of our runs.
    pub ours: Option<Interval>,
    /// The published value.
    pub paper: Option<Paper>,
}

/// A published value beside ours.
#[derive(Debug, Clone, Serialize)]
pub struct Paper {
    /// The value, in the metric's unit.
    pub value: f64,
    /// Ours − paper.
    pub difference: Option<f64>,
    /// Does our interval hold it?
    pub inside: bool,
    /// Table or section.
    pub source: String,
}

impl Model {
    /// Builds the model of `sweep`.
    pub fn build(sweep: &SweepData) -> Model {
        let keys = metric_keys(sweep);
        let columns: Vec<Heading> = keys.iter().map(|key| heading(sweep, key)).collect();
        let row = |point: &PointSummary| Row {
            labels: point.labels.clone(),
            runs: point.runs.len(),
            cells: columns.iter().map(|column| cell(sweep, point, &column.key)).collect(),
        };
        let rows: Vec<Row> = sweep.points.iter().map(row).collect();
        let comparison = compare(sweep);
        Model {
            title: sweep.manifest.experiment.clone(),
            about: sweep.manifest.about.clone(),
            verdict: verdict(sweep, &comparison),
            invalid: noted(&sweep.runs, why_invalid),
            remarks: noted(
                &sweep.runs,
                |run| if run.validity.valid { run.validity.reasons.clone() } else { Vec::new() },
            ),
            axes: axes(sweep),
            columns,
            rows,
            disagreements: comparison.lines,
            fitted: sweep.manifest.report.fitted.clone(),
            notes: sweep.manifest.report.notes.clone(),
            charts: chart::all(sweep),
        }
    }
}

impl Row {
    /// The labels in the order of `axes`, joined for one-line uses.
    pub fn name(&self, axes: &[String]) -> String {
        let values: Vec<&str> = axes.iter().map(|axis| self.labels.get(axis).map_or("–", String::as_str)).collect();
        if values.is_empty() { "run".to_owned() } else { values.join(" ") }
    }
}

/// What `wanted` says about the runs; those of which it says the same share a note.
fn noted(runs: &[RunSummary], wanted: fn(&RunSummary) -> Vec<String>) -> Vec<RunNote> {
    let mut notes: Vec<(RunNote, usize)> = Vec::new();
    for run in runs {
        let reasons = wanted(run);
        match notes.iter_mut().find(|(note, _)| note.reasons == reasons) {
            _ if reasons.is_empty() => {}
            Some((_, more)) => *more += 1,
            None => notes.push((RunNote { run: name_of(run), reasons }, 0)),
        }
    }
    let with_count = |(note, more): (RunNote, usize)| match more {
        0 => note,
        _ => RunNote { run: format!("{} and {more} more", note.run), ..note },
    };
    notes.into_iter().map(with_count).collect()
}

fn why_invalid(run: &RunSummary) -> Vec<String> {
    match (run.validity.valid, run.validity.reasons.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => vec!["it says so, without a reason".to_owned()],
        (false, false) => run.validity.reasons.clone(),
    }
}

fn name_of(run: &RunSummary) -> String {
    let dir = if run.dir.is_empty() { "run" } else { &run.dir };
    format!("{dir} ({}, seed {})", describe(&run.labels), run.seed)
}

/// `axis=value, …` for sentences.
pub(crate) fn describe(labels: &Labels) -> String {
    let parts: Vec<String> = labels.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    if parts.is_empty() { "all defaults".to_owned() } else { parts.join(", ") }
}

fn axes(sweep: &SweepData) -> Vec<String> {
    let used = |axis: &str| sweep.points.iter().any(|point| point.labels.contains_key(axis));
    let planned = sweep.manifest.axes.iter().map(|(axis, _)| axis.clone());
    let mut axes: Vec<String> = planned.filter(|axis| used(axis)).collect();
    for axis in sweep.points.iter().flat_map(|point| point.labels.keys()) {
        if !axes.contains(axis) {
            axes.push(axis.clone());
        }
    }
    axes
}

fn metric_keys(sweep: &SweepData) -> Vec<String> {
    let named = &sweep.manifest.report.metrics;
    if named.is_empty() { DEFAULT_METRICS.map(str::to_owned).to_vec() } else { named.clone() }
}

fn heading(sweep: &SweepData, key: &str) -> Heading {
    let unit = sweep.units.get(key).cloned().unwrap_or_default();
    let values = sweep.points.iter().filter_map(|point| point.cells.get(key));
    let largest = values.map(|cell| cell.median.abs()).fold(0.0, f64::max);
    Heading { key: key.to_owned(), scale: scale_for(&unit, largest), unit }
}

/// Does the published row belong to the point? All of its labels must be the point's.
fn matches(published: &Published, point: &PointSummary) -> bool {
    published.at.iter().all(|(axis, value)| point.labels.get(axis) == Some(value))
}

fn cell(sweep: &SweepData, point: &PointSummary, key: &str) -> Cell {
    let ours = point.cells.get(key).copied();
    let published = sweep.manifest.paper.iter().filter(|published| matches(published, point));
    let paper = published.into_iter().find_map(|published| {
        let value = *published.values.get(key)?;
        let difference = ours.map(|ours| ours.median - value);
        let inside = ours.is_some_and(|ours| ours.holds(value));
        Some(Paper { value, difference, inside, source: published.source.clone() })
    });
    Cell { ours, paper }
}

/// Our values against the published ones.
#[derive(Default)]
struct Comparison {
    /// A sentence per published value that our interval does not hold, or that cannot be compared.
    lines: Vec<String>,
    /// Values that could be compared.
    compared: usize,
    /// Those of them that our interval does not hold.
    outside: usize,
}

fn compare(sweep: &SweepData) -> Comparison {
    let mut comparison = Comparison::default();
    for published in &sweep.manifest.paper {
        let source = &published.source;
        let points: Vec<_> = sweep.points.iter().filter(|point| matches(published, point)).collect();
        if points.is_empty() {
            let at = describe(&published.at);
            comparison.lines.push(format!("{source}: no run is at {at}, so its values are compared with nothing"));
        }
        for point in points {
            for (key, &value) in &published.values {
                comparison.add(sweep, point, source, key, value);
            }
        }
    }
    comparison
}

impl Comparison {
    fn add(&mut self, sweep: &SweepData, point: &PointSummary, source: &str, key: &str, value: f64) {
        let at = describe(&point.labels);
        let Some(ours) = point.cells.get(key) else {
            self.lines.push(format!("{source}: {key} at {at} is published, but our runs have no such value"));
            return;
        };
        self.compared += 1;
        if ours.holds(value) {
            return;
        }
        self.outside += 1;
        let scale = heading(sweep, key).scale;
        let (median, lo, hi) = (scale.show(ours.median), scale.number(ours.lo), scale.number(ours.hi));
        let (paper, off) = (scale.show(value), scale.difference(ours.median - value));
        self.lines.push(format!("{source}: {key} at {at}: paper {paper}, ours {median} [{lo}, {hi}], {off}"));
    }
}

fn verdict(sweep: &SweepData, comparison: &Comparison) -> Verdict {
    let invalid = sweep.runs.iter().filter(|run| !run.validity.valid).count();
    let all = sweep.runs.len();
    let mut lines = vec![match invalid {
        0 => format!("Valid: all {all} runs closed their balance and did what they were asked."),
        _ => format!("INVALID: {invalid} of {all} runs are invalid; do not use these numbers before reading why."),
    }];
    let (compared_lines, worse) = against_baseline(sweep);
    lines.extend(compared_lines);
    let Comparison { compared, outside, .. } = comparison;
    if *compared > 0 {
        let inside = compared - outside;
        lines.push(format!(
            "Paper: {inside} of {compared} published values lie within our 95 % intervals, {outside} outside."
        ));
    }
    Verdict { valid: invalid == 0, worse, lines }
}

/// One sentence per variant about its Age-of-Model against the baseline's, and whether any point is worse.
fn against_baseline(sweep: &SweepData) -> (Vec<String>, bool) {
    let Some(baseline) = &sweep.manifest.report.baseline else { return (Vec::new(), false) };
    let mut cuts: BTreeMap<&str, Vec<Interval>> = BTreeMap::new();
    for point in &sweep.points {
        let variant = point.labels.get(VARIANT).map_or("", String::as_str);
        if let Some(cut) = point.cells.get("aom_cut/cluster") {
            cuts.entry(variant).or_default().push(*cut);
        }
    }
    if cuts.is_empty() {
        return (
            vec![format!("Baseline {baseline}: no run could be paired with a run of it, so nothing is compared.")],
            false,
        );
    }
    let percent = scale_for("share", 1.0);
    let mut worse_anywhere = false;
    let sentence = |(variant, cuts): (&str, &Vec<Interval>)| {
        let better = cuts.iter().filter(|cut| cut.lo > 0.0).count();
        let worse = cuts.iter().filter(|cut| cut.hi < 0.0).count();
        worse_anywhere |= worse > 0;
        let ends = |pick: fn(f64, f64) -> f64, start| cuts.iter().map(|cut| cut.median).fold(start, pick);
        let (least, most) =
            (percent.show(ends(f64::min, f64::INFINITY)), percent.show(ends(f64::max, f64::NEG_INFINITY)));
        let same = cuts.len() - better - worse;
        format!(
            "{variant} against {baseline}: mean Age-of-Model of clusters cut by {least} to {most} (medians); \
             better at {better}, worse at {worse}, undecided at {same} of {} points.",
            cuts.len()
        )
    };
    let lines = cuts.iter().map(|(variant, cuts)| (*variant, cuts)).map(sentence).collect();
    (lines, worse_anywhere)
}
