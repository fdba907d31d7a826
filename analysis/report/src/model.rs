//! The contents of a report, independent of its output format: built once from a sweep and rendered by every report.
//!
//! Called by the CLI's `report`. The order is that of readers' questions: may the numbers be used (validity), what is
//! the answer (verdict), the numbers with the published ones, then fitted parameters and deviations.

use pktgen_core::definition::Better;
use pktgen_core::record::Bound;
use pktgen_core::user_metric::UserMetric;
use pktgen_records::age::AgeOf;
use pktgen_records::human::Scale;
use pktgen_records::stats::{Estimate, Interval, agrees};
use serde::Serialize;

use crate::answer::placing;
use crate::chart::Chart;
use crate::headings::{Heading, axes, heading, metric_keys};
use crate::lead::{self, Lead};
use crate::made::RunProvenance;
use crate::sweep::data::{Labels, PointSummary, RunSummary, SweepData, name_of, published_at, why_invalid};
use crate::verdict::{Verdict, compare, verdict};
use crate::{check, picture};

/// A report's content.
#[derive(Debug, Clone, Serialize)]
pub struct Model {
    /// The tool that made the runs: version and commit.
    pub tool: String,
    /// Name of the experiment.
    pub title: String,
    /// Description from the experiment file.
    pub about: String,
    /// What made the runs, when, where and how.
    pub made: RunProvenance,
    /// Whether the numbers may be used, and the answer.
    pub verdict: Verdict,
    /// Unknown names in the experiment's `[report]` and `[paper]`, one sentence each.
    pub warnings: Vec<String>,
    /// Invalid runs, with their reasons.
    pub invalid: Vec<RunNote>,
    /// Remarks of runs that do not invalidate them.
    pub remarks: Vec<RunNote>,
    /// Label columns of the main table.
    pub axes: Vec<String>,
    /// Value columns of the main table.
    pub columns: Vec<Heading>,
    /// One row per point.
    pub rows: Vec<TableRow>,
    /// Kind of the values in the table.
    pub legend: String,
    /// Published values outside our intervals, or that cannot be compared, one sentence each.
    pub disagreements: Vec<String>,
    /// Number of published values outside our intervals.
    pub outside: usize,
    /// Parameters fitted to reach published values.
    pub fitted: Vec<String>,
    /// Notes of the experiment, and on missing pictures.
    pub notes: Vec<String>,
    /// Charts.
    pub charts: Vec<Chart>,
    /// The first screen of the page.
    #[serde(skip)]
    pub(crate) lead: Lead,
    /// The chart that shows the answer, as an index of `charts`.
    #[serde(skip)]
    pub(crate) lead_chart: Option<usize>,
}

/// A note on a run, or on several runs with the same note.
#[derive(Debug, Clone, Serialize)]
pub struct RunNote {
    /// The first run (folder, labels and seed), and the number of others.
    pub run: String,
    /// The reasons or remarks.
    pub reasons: Vec<String>,
}

/// A row of the main table.
#[derive(Debug, Clone, Serialize)]
pub struct TableRow {
    /// Labels of the point.
    pub labels: Labels,
    /// Number of runs.
    pub runs: usize,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// A cell of the main table.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cell {
    /// Median and interval of our runs.
    pub ours: Option<Estimate>,
    /// The published value.
    pub paper: Option<Paper>,
}

impl Cell {
    /// Returns how many of a row's `runs` have a value, if not all: " (11 of 20 runs)".
    pub(crate) fn shown_runs(&self, runs: usize) -> String {
        let some = self.ours.filter(|ours| ours.n < runs);
        some.map_or(String::new(), |ours| format!(" ({} of {runs} runs)", ours.n))
    }

    /// Returns the scale of a column, with enough digits to show whether our interval contains the published value, and
    /// that an exact value which does not agree with it differs.
    pub fn scale(&self, scale: Scale) -> Scale {
        let Some(paper) = &self.paper else { return scale };
        let missed = paper.inside == Some(false);
        let interval = |ours: Estimate| match ours.spread() {
            // With a bound the median is compared.
            Some(_) if missed && !paper.sign.is_empty() => Some(Interval { lo: ours.median, hi: ours.median }),
            spread => spread.or(ours.interval.filter(|_| missed)),
        };
        self.ours.and_then(interval).map_or(scale, |interval| placing(paper.value, interval, scale))
    }
}

/// A published value for comparison with ours.
#[derive(Debug, Clone, Serialize)]
pub struct Paper {
    /// The value, in the metric's unit.
    pub value: f64,
    /// Sign before a value that is a bound.
    pub sign: &'static str,
    /// Ours − paper.
    pub difference: Option<f64>,
    /// Whether our interval contains it, or our value satisfies the bound. `None` if it is not compared because of too few seeds.
    pub inside: Option<bool>,
    /// Table or section.
    pub source: String,
}

impl Model {
    /// Builds the model of `sweep`.
    pub fn build(sweep: &SweepData) -> Model {
        let keys = metric_keys(sweep);
        let columns: Vec<Heading> = keys.iter().map(|key| heading(sweep, key)).collect();
        let row = |point: &PointSummary| TableRow {
            labels: point.labels.clone(),
            runs: point.runs.len(),
            cells: columns.iter().map(|column| cell(sweep, point, &column.key)).collect(),
        };
        let rows: Vec<TableRow> = sweep.points.iter().map(row).collect();
        let comparison = compare(sweep);
        let made = RunProvenance::of(sweep);
        let charts = picture::all(sweep);
        Model {
            lead: Lead::of(sweep),
            lead_chart: lead_chart(sweep, &charts),
            tool: format!("pktgen {} ({})", made.version, made.commit),
            title: sweep.manifest.experiment.clone(),
            about: sweep.manifest.about.clone(),
            made,
            verdict: verdict(sweep, &comparison),
            warnings: check::warnings(sweep),
            invalid: noted(&sweep.runs, why_invalid),
            remarks: noted(&sweep.runs, remarks_of),
            axes: axes(sweep),
            legend: legend(&rows),
            columns,
            rows,
            outside: comparison.outside,
            disagreements: comparison.lines,
            fitted: sweep.manifest.report.fitted.clone(),
            notes: notes(sweep).into_iter().chain(picture::missing(sweep, &charts)).collect(),
            charts,
        }
    }
}

/// Returns the chart of the answer, or else the first one that shows measurements.
fn lead_chart(sweep: &SweepData, charts: &[Chart]) -> Option<usize> {
    let keys = lead::drawn(sweep);
    let shows = |chart: &Chart| keys.first().is_some_and(|(key, _)| chart.keys.contains(key));
    charts.iter().position(shows).or_else(|| charts.iter().position(|chart| chart.picture != "paper" && !chart.folded))
}

/// Describes the values of the main table.
fn legend(rows: &[TableRow]) -> String {
    let shown: Vec<&Estimate> = rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.ours.as_ref()).collect();
    let paper = if rows.iter().flat_map(|row| &row.cells).any(|cell| cell.paper.is_some()) {
        "; published values below ours"
    } else {
        ""
    };
    let values = picture::medians(shown.iter().copied());
    let exact = match shown.iter().any(|one| one.exact) {
        true => " Exact: no random number was drawn, so every seed gives the same.",
        false => "",
    };
    format!("{}{paper}.{exact}", first_upper(&values))
}

fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Collects the notes that `wanted` returns for runs; runs with the same notes share one.
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

fn remarks_of(run: &RunSummary) -> Vec<String> {
    let own = run.validity.notes.iter().map(|note| note.to_string());
    own.chain(run.notes.iter().map(|note| note.text.clone())).collect()
}

/// Returns the experiment's notes, descriptions of its own metrics, and how ages were computed if not by default.
fn notes(sweep: &SweepData) -> Vec<String> {
    let mut notes = sweep.manifest.report.notes.clone();
    notes.extend(sweep.user_metrics().into_iter().map(|metric| {
        let UserMetric { name, sql, about, better, .. } = metric;
        let better = if *better == Better::Neither { "" } else { &format!(", {} is better", better.name()) };
        let about = if about.is_empty() { "" } else { &format!(": {about}") };
        let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{name} is a metric of the experiment's own{better}{about} ({sql})")
    }));
    notes.extend(ages_note(sweep));
    notes
}

/// Returns how ages were computed, if not by default.
pub fn ages_note(sweep: &SweepData) -> Option<String> {
    let age_of = sweep.options.age_of;
    (age_of != AgeOf::default())
        .then(|| format!("Age-of-Model counted with --age {}: {}.", age_of.name(), age_of.about()))
}

fn cell(sweep: &SweepData, point: &PointSummary, key: &str) -> Cell {
    let ours = point.cells.get(key).copied();
    let paper = published_at(&sweep.manifest.paper, key, point).and_then(|published| {
        let value = *published.values.get(key)?;
        let compared = sweep.of_valid(point, key);
        let difference = compared.map(|ours| ours.median - value);
        let inside = compared.and_then(|ours| agrees(&ours, published, key));
        let sign = Bound::sign(published.bound);
        Some(Paper { value, sign, difference, inside, source: published.source.clone() })
    });
    // What is compared is shown; without valid runs, all.
    let ours = if paper.is_some() { sweep.of_valid(point, key).or(ours) } else { ours };
    Cell { ours, paper }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounded numbers agree with the exact ones about a published value.
    #[test]
    fn rounding_does_not_put_a_published_value_on_the_other_side() {
        let scale = Scale { factor: 100.0, unit: "%", difference_unit: "points", decimals: Some(1) };
        let cell = |lo: f64, hi: f64, value: f64| {
            let interval = Some(Interval { lo, hi });
            let source = String::new();
            let paper = Paper { value, sign: "", difference: None, inside: None, source };
            Cell { ours: Some(Estimate { median: (lo + hi) / 2.0, interval, n: 5, exact: false }), paper: Some(paper) }
        };
        for (lo, hi, value, ends) in [
            (0.301, 0.402, 0.35, ["30.1", "40.2"]),
            // 40.2 is outside, and 40.16 would be rounded to it.
            (0.301, 0.4016, 0.402, ["30.10", "40.16"]),
            (0.3014, 0.402, 0.301, ["30.14", "40.20"]),
            (0.301, 0.402, 0.402, ["30.1", "40.2"]),
        ] {
            let shown = cell(lo, hi, value).scale(scale);
            assert_eq!([shown.number(lo), shown.number(hi)], ends, "{value}");
        }
        assert_eq!(Cell::default().scale(scale), scale);
        // An exact value that does not agree is not shown as equal.
        let mut exact = cell(0.998_64, 0.998_64, 0.9987);
        assert_eq!(exact.scale(scale), scale);
        exact.paper.as_mut().unwrap().inside = Some(false);
        let shown = exact.scale(scale);
        assert_eq!([shown.number(0.998_64), shown.number(0.9987)], ["99.86", "99.87"]);
        // A bound is missed by the median.
        let mut bound = cell(0.85, 0.95, 0.9);
        bound.ours.as_mut().unwrap().median = 0.899_96;
        let paper = bound.paper.as_mut().unwrap();
        (paper.sign, paper.inside) = ("> ", Some(false));
        let shown = bound.scale(scale);
        assert_ne!(shown.number(0.899_96), shown.number(0.9));
    }
}
