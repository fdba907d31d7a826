//! The history of a benchmark: one JSON line per run, and changes of its metrics.
//!
//! Called by the CLI's `report --history` and `history`. A line is appended in one write under a lock. A run that is
//! already present is not written again, and a repeated line is not read. Incomplete lines are reported and left unchanged.

mod pages;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use pktgen_core::record::{Manifest, RunState};
use pktgen_core::regular::check_regular;
use pktgen_core::seed::mix;
use pktgen_core::units::{canonical, respelled};
use pktgen_core::{Error, Result};
use pktgen_records::human::{self, day, title};
use pktgen_records::run::read_json;
use pktgen_records::stats::{Estimate, SEEDS_MIN};
use pktgen_report::made::RunProvenance;
use pktgen_report::sweep::data::{Labels, PointSummary, RunSummary, SweepData, canonical_labels, clock_error};
use pktgen_report::sweep::run_dirs;
use serde::{Deserialize, Serialize};

use super::changes::{self, Change, RUNS_MIN, STRETCH_RUNS_MIN};
use super::settings;
use super::text::point;

pub use pages::page;

/// Version of the lines; others are ignored.
pub const VERSION: u32 = 1;

/// One line: a run dir or a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`VERSION`].
    pub version: u32,
    /// Identifies the run: a hash of its manifests.
    pub run: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Tool version and commit.
    pub tool: String,
    /// Creation time of its first run, in ns since 1970.
    pub created_unix_ns: u64,
    /// Whether all runs are valid.
    pub valid: bool,
    /// Number of runs that were steered: their rates are their own.
    #[serde(default, skip_serializing_if = "is_none")]
    pub steered: usize,
    /// Settings that were changed in addition to the experiment file, except seeds, as `key=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Unit of each metric.
    pub units: BTreeMap<String, String>,
    /// Its points.
    pub points: Vec<Point>,
}

/// A point of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Axis → value.
    pub labels: Labels,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Identifies its configuration without seeds; empty in lines of builds that did not record it.
    #[serde(default)]
    pub settings: String,
    /// Median over the seeds that have a value, by metric.
    pub medians: BTreeMap<String, f64>,
    /// Number of seeds without a value, such as a goal that was missed, by metric; without metrics that all seeds have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lacking: BTreeMap<String, usize>,
    /// Maximum error of the median by the clocks of workers and servers, by metric; without metrics that have none, and unknown in lines of
    /// builds that did not record it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clock_errors: BTreeMap<String, f64>,
}

/// The contents of a history file.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Its entries, by date.
    pub entries: Vec<Entry>,
    /// Descriptions of lines that could not be read, one sentence each.
    pub damaged: Vec<String>,
    /// Number of lines that could not be read; `damaged` also tells of repeated ones.
    pub unread: usize,
}

/// What series leave out.
#[derive(Debug, Clone, Default)]
pub struct LeftOut {
    /// One sentence per damaged line and per reason.
    pub lines: Vec<String>,
    /// Number of entries of invalid runs that are newer than all that are shown of one of their points.
    pub newest_invalid: usize,
}

/// Numbers of entries that are left out at a point.
#[derive(Debug, Clone, Copy, Default)]
struct Excluded {
    invalid: usize,
    newest_invalid: usize,
    steered: usize,
}

/// A metric at a point over time.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// Name of the experiment.
    pub experiment: String,
    /// Key of the metric.
    pub metric: String,
    /// Unit of its values.
    pub unit: String,
    /// The point, in its last spelling.
    pub labels: Labels,
    /// Its values, by date.
    pub values: Vec<Value>,
    /// Number of runs of this point after the first value in which no seed has a value.
    #[serde(skip_serializing_if = "is_none")]
    pub without: usize,
    /// Number of entries of this point that are left out, since runs of them are invalid.
    #[serde(skip_serializing_if = "is_none")]
    pub invalid: usize,
    /// Number of these that are newer than all that are shown of this point.
    #[serde(skip_serializing_if = "is_none")]
    pub newest_invalid: usize,
    /// Number of other entries of this point that are left out, since runs of them were steered.
    #[serde(skip_serializing_if = "is_none")]
    pub steered: usize,
    /// Number of lines of the file that could not be read, of whatever point.
    #[serde(skip_serializing_if = "is_none")]
    pub unread: usize,
    /// Where its mean changed.
    pub changes: Vec<Change>,
    /// Where its values differ by no more than the clocks of workers and servers may be apart: these are no changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub of_clocks: Vec<Change>,
}

/// A value of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Value {
    /// Day, as 2026-05-17.
    pub day: String,
    /// Tool version and commit.
    pub tool: String,
    /// Hash of the run.
    pub run: String,
    /// The median over the seeds that have a value.
    pub value: f64,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Number of seeds without a value; absent if all have one.
    #[serde(skip_serializing_if = "is_none")]
    pub lacking: usize,
    /// Maximum error of the value by the clocks of workers and servers; absent if there is none.
    #[serde(skip_serializing_if = "is_exact")]
    pub clock_error: f64,
    /// Identifies its configuration.
    pub settings: String,
    /// Settings that were changed in addition to the experiment file.
    pub overrides: Vec<String>,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

fn is_exact(error: &f64) -> bool {
    *error == 0.0
}

/// Identifies the runs in a folder before they are analysed.
#[derive(Debug)]
pub struct Runs {
    hash: [u64; 2],
    first: Manifest,
}

/// The part of a manifest that shows whether a run has ended.
#[derive(Deserialize)]
struct Stated {
    state: RunState,
}

impl Runs {
    /// Reads the runs in `dir`; refuses runs that have not ended, whose numbers would still change.
    pub fn of(dir: &Path, no_verify: bool) -> Result<Runs> {
        let mut hash = [0x6c62_272e_07bb_0142u64, 0x62b8_2175_6295_c58d];
        let mut first: Option<Manifest> = None;
        for run in run_dirs(dir, no_verify)? {
            run.check(no_verify)?;
            let path = run.dir.join("manifest.json");
            let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
            if serde_json::from_slice::<Stated>(&bytes).is_ok_and(|run| run.state == RunState::Running) {
                let what = "the run was killed, or is still under way; a history keeps what has ended (a killed run: pktgen \
                            analyze --recover)";
                return Err(Error::data(&run.dir, what));
            }
            if first.is_none() {
                first = Some(read_json(&path, "a run dir")?);
            }
            for byte in bytes {
                hash[0] = (hash[0] ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                hash[1] = mix(hash[1] ^ u64::from(byte));
            }
        }
        let first = first.ok_or_else(|| Error::data(dir, "there is no run to remember"))?;
        Ok(Runs { hash, first })
    }
}

/// Reasons for drops, and the unit of each.
type Reasons<'a> = BTreeMap<&'a str, &'a str>;

/// Number of drops, and the beginning of the metrics that count those of one reason.
const DROPPED: &str = "dropped";
const OF_REASON: &str = "dropped/";

/// A metric at a point of an entry.
struct Median<'a> {
    metric: &'a str,
    unit: &'a str,
    value: f64,
    lacking: usize,
    clock_error: f64,
}

impl Point {
    /// Whether `metric` counts drops of a reason for which nothing was dropped: it has no key, and is 0.
    fn has_no_drops(&self, metric: &str) -> bool {
        let has = |metric: &str| self.medians.contains_key(metric);
        metric.starts_with(OF_REASON) && has(DROPPED) && !has(metric)
    }

    /// Returns its medians, and 0 for each of the `reasons` for which nothing was dropped.
    fn all<'a>(&'a self, entry: &'a Entry, reasons: Option<&Reasons<'a>>) -> Vec<Median<'a>> {
        let lacking = |metric: &str| self.lacking.get(metric).copied().unwrap_or(0);
        let own = self.medians.iter().map(|(metric, value)| {
            let (unit, lacking) = (entry.unit(metric), lacking(metric));
            let clock_error = self.clock_errors.get(metric).copied().unwrap_or(0.0);
            Median { metric, unit, value: *value, lacking, clock_error }
        });
        let without = reasons.into_iter().flatten().filter(|(metric, _)| self.has_no_drops(metric));
        let zero = |metric, unit| Median { metric, unit, value: 0.0, lacking: lacking(DROPPED), clock_error: 0.0 };
        let zeros = without.map(|(&metric, &unit)| zero(metric, unit));
        own.chain(zeros).collect()
    }
}

impl Entry {
    /// Whether series have its values: its runs are valid, and their rates those of the experiment.
    fn is_shown(&self) -> bool {
        self.valid && self.steered == 0
    }

    /// Returns the points, each with the name of the experiment.
    fn places(&self) -> impl Iterator<Item = (&str, Labels)> {
        self.points.iter().map(move |point| (self.experiment.as_str(), canonical_labels(&point.labels)))
    }

    /// Returns the unit of a metric. A metric of the user's may have had another one in other entries.
    fn unit(&self, metric: &str) -> &str {
        self.units.get(metric).map_or("", String::as_str)
    }

    /// Creates the entry of the runs in `dir`, analysed as `sweep`; `before` was read before the analysis. Refuses runs
    /// that have changed since.
    pub fn of(dir: &Path, before: Runs, sweep: &SweepData) -> Result<Entry> {
        let Runs { hash, first } = before;
        if Runs::of(dir, sweep.options.no_verify)?.hash != hash {
            let what = "its runs changed while they were analysed, so nothing is written to the history; make the report again";
            return Err(Error::data(dir, what));
        }
        let point = |point: &PointSummary| Point {
            labels: point.labels.clone(),
            seeds: point.runs.iter().map(|run| sweep.runs[*run].seed).collect(),
            settings: settings::of_runs(point.runs.iter().map(|run| &*sweep.runs[*run].config)),
            medians: finite_medians(&point.cells),
            lacking: lacking(&point.cells, point.runs.len()),
            clock_errors: clock_errors(point, &sweep.runs),
        };
        Ok(Entry {
            version: VERSION,
            run: format!("{:016x}{:016x}", mix(hash[0]), hash[1]),
            experiment: sweep.manifest.experiment.clone(),
            tool: first.tool,
            created_unix_ns: first.created_unix_ns,
            valid: sweep.runs.iter().all(|run| run.validity.is_valid()),
            steered: sweep.runs.iter().filter(|run| run.is_steered()).count(),
            overrides: RunProvenance::of(sweep).changed().into_iter().map(str::to_owned).collect(),
            units: sweep.units.clone(),
            points: sweep.points.iter().map(point).collect(),
        })
    }

    /// Appends the entry to `path`; returns false if it is already present. Also returns descriptions of damaged lines.
    pub fn append(&self, path: &Path) -> Result<(bool, Vec<String>)> {
        check_regular(path)?;
        let open = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file: File = open.map_err(Error::io("open history", path))?;
        // Other processes that append wait until this one has finished.
        file.lock().map_err(Error::io("lock history", path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io("read history", path))?;
        let history = parse(&bytes, path)?;
        if history.entries.iter().any(|entry| entry.run == self.run) {
            return Ok((false, history.damaged));
        }
        let fault = |fault| Error::Invalid(format!("the history's line could not be written: {fault}"));
        let mut line = serde_json::to_vec(self).map_err(fault)?;
        line.push(b'\n');
        // Starts a new line if the last one is incomplete.
        if bytes.last().is_some_and(|last| *last != b'\n') {
            line.insert(0, b'\n');
        }
        file.write_all(&line).map_err(Error::io("append to history", path))?;
        Ok((true, history.damaged))
    }
}

/// Returns the medians that JSON can hold: an own metric may be infinite.
fn finite_medians(cells: &BTreeMap<String, Estimate>) -> BTreeMap<String, f64> {
    let finite = cells.iter().filter(|(_, cell)| cell.median.is_finite());
    finite.map(|(key, cell)| (key.clone(), cell.median)).collect()
}

/// Returns the number of `seeds` without a value, by metric, where there are any.
fn lacking(cells: &BTreeMap<String, Estimate>, seeds: usize) -> BTreeMap<String, usize> {
    let some = cells.iter().filter(|(_, cell)| cell.n < seeds);
    some.map(|(key, cell)| (key.clone(), seeds - cell.n)).collect()
}

/// Returns the maximum error of the point's medians by clocks, by metric, where there is any.
fn clock_errors(point: &PointSummary, runs: &[RunSummary]) -> BTreeMap<String, f64> {
    let all = point.cells.keys().map(|key| (key, clock_error(point.runs.iter().map(|run| &runs[*run]), key)));
    let some = all.filter(|(_, error)| *error > 0.0 && error.is_finite());
    some.map(|(key, error)| (key.clone(), error)).collect()
}

/// Reads the history in `path`.
pub fn read(path: &Path) -> Result<History> {
    check_regular(path)?;
    parse(&std::fs::read(path).map_err(Error::io("read history", path))?, path)
}

/// Beginning of every line written by this module, including incomplete ones.
const BEGINNING: &[u8] = b"{\"version\":";

fn parse(bytes: &[u8], path: &Path) -> Result<History> {
    let mut history = History::default();
    let (mut runs, mut repeated): (HashSet<String>, usize) = Default::default();
    for (i, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let mut damaged = |what: String| {
            history.unread += 1;
            history.damaged.push(format!("{}:{}: skipped: {what}", path.display(), i + 1));
        };
        match serde_json::from_slice::<Entry>(line) {
            // Histories of two branches that were joined have the lines of both twice.
            Ok(entry) if entry.version == VERSION && runs.contains(&entry.run) => repeated += 1,
            Ok(entry) if entry.version == VERSION => {
                runs.insert(entry.run.clone());
                history.entries.push(entry);
            }
            Ok(entry) => damaged(format!("version {} is not {VERSION}, which is known here", entry.version)),
            Err(fault) => damaged(format!("it is no whole line of a history ({fault})")),
        }
    }
    if repeated > 0 {
        let what = match repeated {
            1 => "one line is skipped: its run is in the file already".to_owned(),
            _ => format!("{repeated} lines are skipped: their runs are in the file already"),
        };
        history.damaged.push(format!("{}: {what}", path.display()));
    }
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let nothing_read = history.entries.is_empty() && !history.damaged.is_empty();
    if nothing_read && !lines.any(|line| line.starts_with(BEGINNING)) {
        return Err(Error::data(path, "it is no history: none of its lines was written by pktgen report --history"));
    }
    history.entries.sort_by_key(|entry| entry.created_unix_ns);
    Ok(history)
}

impl History {
    /// Returns the series of these metrics, or of all.
    pub fn series(&self, metrics: &[String]) -> Vec<Series> {
        let mut all: BTreeMap<(&str, Labels, &str, &str), Series> = BTreeMap::new();
        let mut of_point: BTreeMap<(&str, Labels), Vec<&Point>> = BTreeMap::new();
        let (reasons, excluded) = (self.reasons(), self.excluded());
        for entry in self.entries.iter().filter(|entry| entry.is_shown()) {
            for point in &entry.points {
                let place = (entry.experiment.as_str(), canonical_labels(&point.labels));
                of_point.entry(place.clone()).or_default().push(point);
                for Median { metric, unit, value, lacking, clock_error } in point.all(entry, reasons.get(&place)) {
                    if !metrics.is_empty() && !metrics.iter().any(|wanted| wanted == metric) {
                        continue;
                    }
                    let key = (place.0, place.1.clone(), metric, unit);
                    let series = all.entry(key).or_insert_with(|| Series {
                        experiment: entry.experiment.clone(),
                        metric: metric.to_owned(),
                        unit: unit.to_owned(),
                        labels: Labels::new(),
                        values: Vec::new(),
                        without: 0,
                        invalid: 0,
                        newest_invalid: 0,
                        steered: 0,
                        unread: self.unread,
                        changes: Vec::new(),
                        of_clocks: Vec::new(),
                    });
                    series.labels.clone_from(&point.labels);
                    let (tool, run, day) = (entry.tool.clone(), entry.run.clone(), day(entry.created_unix_ns));
                    let (seeds, settings) = (point.seeds.clone(), point.settings.clone());
                    let overrides = entry.overrides.clone();
                    let value = Value { day, tool, run, value, seeds, lacking, clock_error, settings, overrides };
                    series.values.push(value);
                }
            }
        }
        let with_changes = |mut series: Series| {
            let (values, errors): (Vec<f64>, Vec<f64>) =
                series.values.iter().map(|value| (value.value, value.clock_error)).unzip();
            (series.changes, series.of_clocks) = changes::beyond(&values, &errors, changes::changes(&values));
            let place = (series.experiment.as_str(), canonical_labels(&series.labels));
            let points = of_point.get(&place).map_or(&[][..], Vec::as_slice);
            let metric = &series.metric;
            let lacks = |point: &&&Point| !point.medians.contains_key(metric) && !point.has_no_drops(metric);
            series.without = points.iter().skip_while(lacks).filter(lacks).count();
            let excluded = excluded.get(&place).copied().unwrap_or_default();
            (series.invalid, series.newest_invalid) = (excluded.invalid, excluded.newest_invalid);
            series.steered = excluded.steered;
            series
        };
        let mut all: Vec<Series> = all.into_values().map(with_changes).collect();
        all.sort_by(|a, b| a.key().cmp(&b.key()));
        all
    }

    /// Returns the reasons for drops at each point, and their units.
    fn reasons(&self) -> BTreeMap<(&str, Labels), Reasons<'_>> {
        let mut reasons: BTreeMap<(&str, Labels), Reasons> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.is_shown()) {
            for point in &entry.points {
                let own = point.medians.keys().filter(|metric| metric.starts_with(OF_REASON));
                let own = own.map(|metric| (metric.as_str(), entry.unit(metric)));
                reasons.entry((entry.experiment.as_str(), canonical_labels(&point.labels))).or_default().extend(own);
            }
        }
        reasons
    }

    /// Returns the numbers of entries that are left out, by point.
    fn excluded(&self) -> BTreeMap<(&str, Labels), Excluded> {
        let mut all: BTreeMap<(&str, Labels), Excluded> = BTreeMap::new();
        for (entry, place) in self.entries.iter().flat_map(|entry| entry.places().map(move |place| (entry, place))) {
            let at = all.entry(place).or_default();
            match (entry.is_shown(), entry.valid) {
                (true, _) => at.newest_invalid = 0,
                (false, true) => at.steered += 1,
                (false, false) => (at.invalid, at.newest_invalid) = (at.invalid + 1, at.newest_invalid + 1),
            }
        }
        all
    }

    /// Describes what series leave out.
    pub fn left_out(&self) -> LeftOut {
        let (mut followed, mut newest_invalid) = (BTreeSet::new(), 0);
        for entry in self.entries.iter().rev() {
            if entry.is_shown() {
                followed.extend(entry.places());
            } else if !entry.valid && entry.places().any(|place| !followed.contains(&place)) {
                newest_invalid += 1;
            }
        }
        let newest = match newest_invalid {
            0 => String::new(),
            n => format!(", {n} of them newer than all that are shown of a point"),
        };
        let mut lines = self.damaged.clone();
        for (left_out, what, more) in [(self.invalid(), "invalid", newest.as_str()), (self.steered(), "steered", "")] {
            match left_out {
                0 => {}
                1 => lines.push(format!("1 entry of {what} runs is left out{more}")),
                entries => lines.push(format!("{entries} entries of {what} runs are left out{more}")),
            }
        }
        LeftOut { lines, newest_invalid }
    }

    /// Returns the metrics that any entry has.
    pub fn metrics(&self) -> Vec<String> {
        let points = self.entries.iter().flat_map(|entry| &entry.points);
        let mut metrics: Vec<String> = points.flat_map(|point| point.medians.keys().cloned()).collect();
        metrics.sort_unstable();
        metrics.dedup();
        metrics
    }

    /// Returns the number of entries that are excluded from series, since runs of them are invalid.
    pub fn invalid(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.valid).count()
    }

    /// Returns the number of other entries that are excluded from series, since runs of them were steered.
    pub fn steered(&self) -> usize {
        self.entries.iter().filter(|entry| entry.valid && entry.steered > 0).count()
    }
}

/// Bars of eight heights.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum number of values in one line of the terminal.
const DRAWN_MAX: usize = 60;

/// Whether values from `least` to `most` differ by no more than rounding, which is no change ([`changes`]).
fn is_flat(least: f64, most: f64) -> bool {
    most - least <= changes::ROUNDING * least.abs().max(most.abs())
}

/// Draws values as a line of small bars, from the least to the largest.
pub(crate) fn sparkline(values: &[f64]) -> String {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    let height = |value: &f64| {
        let share = if is_flat(least, most) { 0.5 } else { (value - least) / (most - least) };
        BARS[((share * 8.0) as usize).min(7)]
    };
    values.iter().map(height).collect()
}

/// Returns overrides, `key=value`, with the numbers and quantities of the values in canonical spelling.
fn spelled(overrides: &[String]) -> Vec<String> {
    let one = |text: &String| match text.split_once('=') {
        Some((key, value)) => format!("{key}={}", respelled(value, canonical)),
        None => text.clone(),
    };
    overrides.iter().map(one).collect()
}

impl Series {
    /// Returns what series are sorted by.
    fn key(&self) -> (&str, &Labels, &str, &str) {
        (&self.experiment, &self.labels, &self.metric, &self.unit)
    }

    /// Describes the changes in words, and then differences that clocks may explain.
    fn told(&self) -> Vec<String> {
        let changes = self.changes.iter().map(|change| self.described("change", change));
        let of_clocks = self.of_clocks.iter().map(|change| {
            format!("{}: the clocks of workers and server may explain it", self.described("difference", change))
        });
        changes.chain(of_clocks).collect()
    }

    fn described(&self, what: &str, change: &Change) -> String {
        let value = &self.values[change.at];
        let by = 100.0 * (change.after - change.before) / change.before.abs();
        // At least one digit that is not 0.
        let decimals = if by == 0.0 { 1.0 } else { (-by.abs().log10().floor()).clamp(1.0, 9.0) } as usize;
        let by = if by.is_finite() { format!(" ({by:+.decimals$} %)").replace('-', "−") } else { String::new() };
        let values = two(&self.unit, change.before, change.after).join(" → ");
        format!("{what} at {} ({}): {values}{by}, p = {:.4}", value.day, value.tool, change.p)
    }

    fn name(&self) -> String {
        format!("{}: {} at {}", self.experiment, title(&self.metric), point(&self.labels))
    }

    /// Whether there are too few runs for a change to be significant.
    fn is_short(&self) -> bool {
        self.values.len() < RUNS_MIN
    }

    /// Whether there are too few runs for a change that was taken back to be significant, and the values differ.
    fn is_short_for_stretches(&self) -> bool {
        let values: Vec<f64> = self.values.iter().map(|value| value.value).collect();
        values.len() < STRETCH_RUNS_MIN && !is_flat(extreme(&values, f64::min), extreme(&values, f64::max))
    }

    /// Returns notes for readers: too few runs, runs with other settings or other seeds than the last one, or seeds without a value.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let (n, Some(last)) = (self.values.len(), self.values.last()) else { return remarks };
        if self.is_short() {
            remarks.push(format!("{}: too few to detect a change ({RUNS_MIN} are needed)", counted(n)));
        } else if self.is_short_for_stretches() {
            let needed = format!("({STRETCH_RUNS_MIN} are needed)");
            remarks.push(format!("{}: too few to detect a change that was taken back {needed}", counted(n)));
        }
        let others = |differs: &dyn Fn(&Value) -> bool| self.values.iter().filter(|value| differs(value)).count();
        let overrides = spelled(&last.overrides);
        let settings = others(&|value| value.settings != last.settings || spelled(&value.overrides) != overrides);
        if settings > 0 {
            let mut sets: Vec<String> = Vec::new();
            for value in &self.values {
                let set =
                    if value.overrides.is_empty() { "none".to_owned() } else { spelled(&value.overrides).join(", ") };
                if !sets.contains(&set) {
                    sets.push(set);
                }
            }
            let which = if sets.len() > 1 { format!(" (overrides: {})", sets.join("; ")) } else { String::new() };
            remarks.push(format!("{settings} of {} of other settings than the last{which}", counted(n)));
        }
        let seeds = others(&|value| value.seeds != last.seeds);
        if seeds > 0 {
            remarks.push(format!("{seeds} of {} of other seeds than the last", counted(n)));
        }
        let few = others(&|value| value.seeds.len() < SEEDS_MIN);
        if few > 0 {
            remarks.push(format!("{few} of {} of fewer than {SEEDS_MIN} seeds", counted(n)));
        }
        let lacking = others(&|value| value.lacking > 0);
        if lacking > 0 {
            remarks.push(format!(
                "{lacking} of {} have seeds without a value, such as a goal that was missed: their medians are of the others",
                counted(n)
            ));
        }
        if self.without > 0 {
            remarks.push(format!(
                "{} more without any value, such as a goal that every seed missed: not in the series",
                counted(self.without)
            ));
        }
        let newest = match self.newest_invalid {
            0 => String::new(),
            n => format!(", {n} of them newer than all that are"),
        };
        for (left_out, what, more) in [(self.invalid, "invalid", newest.as_str()), (self.steered, "steered", "")] {
            if left_out > 0 {
                remarks.push(format!("{} more {what}: not in the series{more}", counted(left_out)));
            }
        }
        remarks
    }
}

/// Formats series for the terminal, with what they leave out.
pub fn text(series: &[Series], left_out: &LeftOut) -> String {
    let mut out = if series.is_empty() { "no series\n".to_owned() } else { String::new() };
    for one in series {
        let values: Vec<f64> = one.values.iter().map(|value| value.value).collect();
        let drawn = &values[values.len().saturating_sub(DRAWN_MAX)..];
        let last = one.values.last().map(|value| human::show(&one.unit, value.value)).unwrap_or_default();
        // Writing to a String cannot fail.
        let (runs, from, to) = (counted(values.len()), extreme(&values, f64::min), extreme(&values, f64::max));
        let range = two(&one.unit, from, to).join(" to ");
        let _ = writeln!(out, "{} ({runs})\n  {}  {last} ({range})", one.name(), sparkline(drawn));
        one.remarks().iter().for_each(|remark| out.push_str(&format!("  {remark}\n")));
        one.told().iter().for_each(|change| out.push_str(&format!("  {change}\n")));
    }
    left_out.lines.iter().for_each(|line| out.push_str(&format!("warning: {line}\n")));
    out
}

fn counted(runs: usize) -> String {
    format!("{runs} run{}", if runs == 1 { "" } else { "s" })
}

fn extreme(values: &[f64], pick: fn(f64, f64) -> f64) -> f64 {
    values.iter().copied().reduce(pick).unwrap_or(0.0)
}

/// Formats two values with three significant digits, each in a suitable unit; if they would look the same, with more digits
/// and in one unit.
fn two(unit: &str, one: f64, other: f64) -> [String; 2] {
    let texts = [one, other].map(|value| human::show(unit, value));
    if texts[0] != texts[1] || is_flat(one.min(other), one.max(other)) {
        return texts;
    }
    // So exactly that each differs from its value by at most a hundredth of their difference.
    let scale = human::scale_for(unit, one.abs().max(other.abs()));
    let most = (one - other).abs() * scale.factor / 100.0;
    let finer = scale.finer(0..=20, |scale| {
        [one, other].into_iter().all(|value| (scale.shown(value) - value * scale.factor).abs() <= most)
    });
    [one, other].map(|value| finer.show(value))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
