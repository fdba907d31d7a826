//! Resolved configurations of runs, by key, and their differences.
//!
//! Called by `verdict` for the runs of a point, and by comparisons for pairs of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::config::Document;
use pktgen_core::units::{canonical, respelled};

use super::data::{PointSummary, SweepData, describe};

/// Sections and keys that affect neither the runs nor the meaning of their metrics, except [`MEANING`].
const ASIDE: [&str; 8] = ["name", "about", "seed", "sweep.", "metrics.", "report.", "paper.", "verify."];
/// Keys that define metrics: what runs are compared with, and over which clusters.
const MEANING: [&str; 2] = ["report.baseline", "report.groups"];

/// A key, its first and its second value.
pub type Difference = (String, String, String);

/// Returns the keys of a resolved configuration; `None` if it cannot be read.
pub fn keys(config: &str) -> Option<BTreeMap<String, String>> {
    if config.is_empty() {
        return None;
    }
    let mut leaves = Document::parse(config, "manifest.json").ok()?.leaves();
    let is_aside =
        |key: &str| ASIDE.iter().any(|aside| key == *aside || aside.ends_with('.') && key.starts_with(aside));
    leaves.retain(|key, _| MEANING.contains(&key.as_str()) || !is_aside(key));
    Some(leaves)
}

/// Returns the differences of two configurations: key, first and second value; "–" if a side has none.
pub fn differences(first: &str, second: &str) -> Option<Vec<Difference>> {
    let (first, second) = (keys(first)?, keys(second)?);
    let all: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let value =
        |side: &BTreeMap<String, String>, key: &String| side.get(key).cloned().unwrap_or_else(|| "–".to_owned());
    let pairs = all.into_iter().map(|key| (key.clone(), value(&first, key), value(&second, key)));
    // Numbers and quantities are the same in any spelling.
    let spelled = |text: &String| respelled(text, canonical);
    Some(pairs.filter(|(_, first, second)| first != second && spelled(first) != spelled(second)).collect())
}

/// Returns a caution if the runs of a point have different configurations, so that they are not seeds of one setting.
pub(crate) fn mixed(sweep: &SweepData) -> Option<String> {
    let mut points = sweep.points.iter().filter_map(|point| Some((point, of_point(sweep, point)?)));
    let (point, found) = points.next()?;
    let (key, a, b) = found.first()?;
    let more = |count: usize, what: &str| match count {
        1 => format!("1 more {what}"),
        _ => format!("{count} more {what}s"),
    };
    let keys = match found.len() - 1 {
        0 => String::new(),
        others => format!(", and {}", more(others, "key")),
    };
    let also = match points.count() {
        0 => String::new(),
        others => format!(", as at {}", more(others, "point")),
    };
    Some(format!(
        "Caution: the runs at {} have different configurations ({key}: {a}, {b}{keys}){also}, so they are not seeds of one setting; \
         report each folder alone, or make the runs with --set, whose keys become axes.",
        describe(&point.labels)
    ))
}

/// Returns the differences of the first two configurations of a point that differ.
fn of_point(sweep: &SweepData, point: &PointSummary) -> Option<Vec<Difference>> {
    let configs = point.runs.iter().filter_map(|run| sweep.runs.get(*run)).map(|run| &run.config);
    let mut distinct: Vec<&Arc<str>> = Vec::new();
    // An unreadable run has none. Equal ones are stored once.
    for config in configs.filter(|config| !config.is_empty()) {
        if !distinct.iter().any(|known| Arc::ptr_eq(known, config)) {
            distinct.push(config);
        }
    }
    let (first, others) = distinct.split_first()?;
    others.iter().filter_map(|other| differences(first, other)).find(|found| !found.is_empty())
}
