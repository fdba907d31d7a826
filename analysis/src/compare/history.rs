//! The history of a benchmark: one JSON line per run, and where its metrics moved.
//!
//! Called by the CLI's `report --history` and `history`. A line is written in one piece behind all others, under a lock; a
//! run that is there is not written again; what is no whole line is reported and left alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use pktgen_generator::index::mix;
use pktgen_generator::record::Manifest;
use pktgen_generator::{Error, Result};
use serde::{Deserialize, Serialize};

use super::changes::{self, Change};
use super::html;
use crate::human::{self, title};
use crate::model::describe;
use crate::plot::escape;
use crate::run::read_json;
use crate::sweep::{Labels, SweepData, run_dirs};

/// Version of the lines; others are not read.
pub const VERSION: u32 = 1;

/// One line: a run dir or a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`VERSION`].
    pub version: u32,
    /// What identifies the run: a hash of its manifests.
    pub run: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Tool version and commit.
    pub tool: String,
    /// When the first of its runs was made, ns since 1970.
    pub created_unix_ns: u64,
    /// Are all runs valid?
    pub valid: bool,
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
    /// Median over them, by metric.
    pub medians: BTreeMap<String, f64>,
}

/// A history file, read.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Its entries, by date.
    pub entries: Vec<Entry>,
    /// What could not be read, a sentence each.
    pub damaged: Vec<String>,
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
    /// The point.
    pub labels: Labels,
    /// Its values, by date.
    pub values: Vec<Value>,
    /// Where its mean moved.
    pub changes: Vec<Change>,
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
    /// The median over the seeds.
    pub value: f64,
}

impl Entry {
    /// The line of the runs in `dir`, which `sweep` analyses.
    pub fn of(dir: &Path, sweep: &SweepData) -> Result<Entry> {
        let mut hash = [0x6c62_272e_07bb_0142u64, 0x62b8_2175_6295_c58d];
        let mut first: Option<Manifest> = None;
        for dir in run_dirs(dir)? {
            let path = dir.join("manifest.json");
            let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
            for byte in bytes {
                hash[0] = (hash[0] ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                hash[1] = mix(hash[1] ^ u64::from(byte));
            }
            if first.is_none() {
                first = Some(read_json(&path, "a run dir")?);
            }
        }
        let first = first.ok_or_else(|| Error::data(dir, "there is no run to remember"))?;
        let point = |point: &crate::sweep::PointSummary| Point {
            labels: point.labels.clone(),
            seeds: point.runs.iter().map(|run| sweep.runs[*run].seed).collect(),
            medians: point.cells.iter().map(|(key, cell)| (key.clone(), cell.median)).collect(),
        };
        Ok(Entry {
            version: VERSION,
            run: format!("{:016x}{:016x}", mix(hash[0]), hash[1]),
            experiment: sweep.manifest.experiment.clone(),
            tool: first.tool,
            created_unix_ns: first.created_unix_ns,
            valid: sweep.runs.iter().all(|run| run.validity.is_valid()),
            units: sweep.units.clone(),
            points: sweep.points.iter().map(point).collect(),
        })
    }

    /// Writes it behind the other lines of `path`, unless it is there: then the answer is no. Also says what is damaged.
    pub fn append(&self, path: &Path) -> Result<(bool, Vec<String>)> {
        let open = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file: File = open.map_err(Error::io("open history", path))?;
        // Others who append wait until we have.
        file.lock().map_err(Error::io("lock history", path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io("read history", path))?;
        let history = parse(&bytes, path);
        if history.entries.iter().any(|entry| entry.run == self.run) {
            return Ok((false, history.damaged));
        }
        let fault = |fault| Error::Invalid(format!("the history's line could not be written: {fault}"));
        let mut line = serde_json::to_vec(self).map_err(fault)?;
        line.push(b'\n');
        // A line that was torn must not become part of ours.
        if bytes.last().is_some_and(|last| *last != b'\n') {
            line.insert(0, b'\n');
        }
        file.write_all(&line).map_err(Error::io("append to history", path))?;
        Ok((true, history.damaged))
    }
}

/// Reads the history in `path`.
pub fn read(path: &Path) -> Result<History> {
    Ok(parse(&std::fs::read(path).map_err(Error::io("read history", path))?, path))
}

fn parse(bytes: &[u8], path: &Path) -> History {
    let mut history = History::default();
    for (i, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let mut damaged = |what: String| {
            history.damaged.push(format!("{}:{}: skipped: {what}", path.display(), i + 1));
        };
        match serde_json::from_slice::<Entry>(line) {
            Ok(entry) if entry.version == VERSION => history.entries.push(entry),
            Ok(entry) => damaged(format!("version {} is not {VERSION}, which is known here", entry.version)),
            Err(fault) => damaged(format!("it is no whole line of a history ({fault})")),
        }
    }
    history.entries.sort_by_key(|entry| entry.created_unix_ns);
    history
}

impl History {
    /// The series of these metrics, or of all.
    pub fn series(&self, metrics: &[String]) -> Vec<Series> {
        let mut all: BTreeMap<(&str, &Labels, &str), Series> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.valid) {
            for point in &entry.points {
                for (metric, value) in &point.medians {
                    if !metrics.is_empty() && !metrics.contains(metric) {
                        continue;
                    }
                    let key = (entry.experiment.as_str(), &point.labels, metric.as_str());
                    let series = all.entry(key).or_insert_with(|| Series {
                        experiment: entry.experiment.clone(),
                        metric: metric.clone(),
                        unit: entry.units.get(metric).cloned().unwrap_or_default(),
                        labels: point.labels.clone(),
                        values: Vec::new(),
                        changes: Vec::new(),
                    });
                    let (tool, run, day) = (entry.tool.clone(), entry.run.clone(), day(entry.created_unix_ns));
                    series.values.push(Value { day, tool, run, value: *value });
                }
            }
        }
        let with_changes = |mut series: Series| {
            let values: Vec<f64> = series.values.iter().map(|value| value.value).collect();
            series.changes = changes::changes(&values);
            series
        };
        all.into_values().map(with_changes).collect()
    }

    /// Metrics that any entry has.
    pub fn metrics(&self) -> Vec<String> {
        let points = self.entries.iter().flat_map(|entry| &entry.points);
        let mut metrics: Vec<String> = points.flat_map(|point| point.medians.keys().cloned()).collect();
        metrics.sort_unstable();
        metrics.dedup();
        metrics
    }

    /// Entries that are left out of series.
    pub fn invalid(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.valid).count()
    }
}

/// The day of a time in ns since 1970 (Gregorian, UTC).
pub(crate) fn day(unix_ns: u64) -> String {
    let days = (unix_ns / 86_400_000_000_000) as i64 + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Years begin in March here, so that the day that comes and goes is the last.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + next)
}

/// Eight heights.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Most values that a line of the terminal draws.
const DRAWN_MAX: usize = 60;

/// The values as a line of small bars, from the least to the largest.
pub fn sparkline(values: &[f64]) -> String {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    let height = |value: &f64| {
        let share = if most > least { (value - least) / (most - least) } else { 0.5 };
        BARS[((share * 8.0) as usize).min(7)]
    };
    values.iter().map(height).collect()
}

impl Series {
    /// The change in words.
    fn told(&self, change: &Change) -> String {
        let (show, value) = (|value| human::show(&self.unit, value), &self.values[change.at]);
        let by = 100.0 * (change.after / change.before - 1.0);
        let by = if by.is_finite() { format!(" ({by:+.1} %)").replace('-', "−") } else { String::new() };
        let (before, after) = (show(change.before), show(change.after));
        format!("change at {} ({}): {before} → {after}{by}, p = {:.4}", value.day, value.tool, change.p)
    }

    fn name(&self) -> String {
        format!("{}: {} at {}", self.experiment, title(&self.metric), describe(&self.labels))
    }
}

/// Series for the terminal.
pub fn text(series: &[Series]) -> String {
    let mut out = String::new();
    for one in series {
        let values: Vec<f64> = one.values.iter().map(|value| value.value).collect();
        let drawn = &values[values.len().saturating_sub(DRAWN_MAX)..];
        let last = one.values.last().map(|value| human::show(&one.unit, value.value)).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{} ({} runs)\n  {}  {last}", one.name(), values.len(), sparkline(drawn));
        one.changes.iter().for_each(|change| out.push_str(&format!("  {}\n", one.told(change))));
    }
    out
}

/// Series as one self-contained page.
pub fn page(series: &[Series]) -> String {
    let changed = series.iter().filter(|one| !one.changes.is_empty()).count();
    let mut out = format!(
        "<section class=\"verdict fine\" aria-label=\"Verdict\">\n<p>{changed} of {} series have a change.</p>\n<p>A series \
         without one is told to have one with a chance of {} %.</p>\n</section>\n",
        series.len(),
        100.0 * changes::ALPHA
    );
    series.iter().for_each(|one| out.push_str(&figure(one)));
    html::framed("History", &out)
}

/// A series as a line, changes as vertical lines, with the means between them.
fn figure(series: &Series) -> String {
    const SIZE: (f64, f64) = (720.0, 160.0);
    let values: Vec<f64> = series.values.iter().map(|value| value.value).collect();
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    let margin = if most > least { 0.1 * (most - least) } else { least.abs().max(1.0) };
    let (least, most) = (least - margin, most + margin);
    let x = |i: usize| 90.0 + (i as f64 + 0.5) / values.len() as f64 * (SIZE.0 - 110.0);
    let y = |value: f64| 130.0 - (value - least) / (most - least) * 120.0;
    let name = escape(&series.name());
    let mut out = format!(
        "<figure>\n<figcaption>{name}</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{name}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n",
        SIZE.0, SIZE.1
    );
    for value in [least + margin, most - margin] {
        let (at, text) = (y(value), escape(&human::show(&series.unit, value)));
        let _ = writeln!(out, "<line class=\"grid\" x1=\"90\" y1=\"{at:.1}\" x2=\"710\" y2=\"{at:.1}\"/>");
        let _ = writeln!(out, "<text x=\"82\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", at + 4.0);
    }
    let points: Vec<String> =
        values.iter().enumerate().map(|(i, value)| format!("{:.1},{:.1}", x(i), y(*value))).collect();
    let _ = writeln!(out, "<polyline class=\"line s0\" points=\"{}\"/>", points.join(" "));
    for (i, change) in series.changes.iter().enumerate() {
        let at = (x(change.at) + x(change.at - 1)) / 2.0;
        let end = series.changes.get(i + 1).map_or(values.len(), |next| next.at);
        let _ = writeln!(out, "<line class=\"axis\" x1=\"{at:.1}\" y1=\"10\" x2=\"{at:.1}\" y2=\"130\"/>");
        let (from, to, level) = (x(change.at), x(end - 1), y(change.after));
        let _ = writeln!(
            out,
            "<line class=\"line s1\" x1=\"{from:.1}\" y1=\"{level:.1}\" x2=\"{to:.1}\" y2=\"{level:.1}\"/>"
        );
    }
    if let (Some(first), Some(last)) = (series.values.first(), series.values.last()) {
        let _ = writeln!(out, "<text x=\"90\" y=\"150\">{}</text>", escape(&first.day));
        let _ = writeln!(out, "<text x=\"710\" y=\"150\" text-anchor=\"end\">{}</text>", escape(&last.day));
    }
    out.push_str("</svg>\n");
    series.changes.iter().for_each(|change| out.push_str(&format!("<p>{}</p>\n", escape(&series.told(change)))));
    out.push_str("</figure>\n");
    out
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
