//! The axes and columns of a sweep's main table.

use pktgen_records::human::{Scale, scale_for};
use pktgen_records::metric::iterations::{EFFECTIVE_TIME, ITERATION_TIME, ITERATIONS};
use serde::Serialize;

use crate::sweep::data::SweepData;

/// Metrics of the main table if the experiment specifies none.
const DEFAULT_METRICS: [&str; 8] =
    ["received", "loss", "merged", "subsumed", "outranked", "absorbed", "aom_mean/cluster", "aom_mean/worker"];
/// The same for synchronous training.
const DEFAULT_OF_TRAINING: [&str; 8] = [
    ITERATION_TIME,
    "over_ideal",
    "degraded_share",
    "sources_mean",
    EFFECTIVE_TIME,
    "result_latency_mean",
    "recovery_time_max",
    "loss",
];

/// Maximum number of columns of an experiment's own metric.
const KEYS_MAX: usize = 6;

/// A value column.
#[derive(Debug, Clone, Serialize)]
pub struct Heading {
    /// Key of the metric, such as `aom_mean/cluster`.
    pub key: String,
    /// Unit of the values in the model.
    pub unit: String,
    /// Scale for displaying the values.
    pub scale: Scale,
}

/// Returns the label axes of the points, in the planned order.
pub(crate) fn axes(sweep: &SweepData) -> Vec<String> {
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

/// Whether any run has iterations.
pub(crate) fn is_synchronous(sweep: &SweepData) -> bool {
    sweep.units.contains_key(ITERATIONS)
}

/// Whether any run is a study.
pub(crate) fn is_study(sweep: &SweepData) -> bool {
    sweep.runs.iter().any(|run| !run.study_keys.is_empty())
}

/// Returns the metrics of the main table.
pub(crate) fn metric_keys(sweep: &SweepData) -> Vec<String> {
    let named = &sweep.manifest.report.metrics;
    if named.is_empty() && is_study(sweep) {
        let mut keys: Vec<String> = Vec::new();
        for key in sweep.runs.iter().flat_map(|run| run.study_keys.iter()) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        return keys;
    }
    let default = if is_synchronous(sweep) { DEFAULT_OF_TRAINING } else { DEFAULT_METRICS };
    if named.is_empty() {
        let own = sweep.user_metrics();
        default
            .into_iter()
            .chain(own.iter().map(|metric| metric.name.as_str()))
            .flat_map(|key| keys_of(sweep, key))
            .collect()
    } else {
        named.iter().flat_map(|key| keys_of(sweep, key)).collect()
    }
}

/// Returns the key of a metric; for an experiment's own metric the keys of its lines, possibly none, since lines of
/// single clusters or workers have no keys.
fn keys_of(sweep: &SweepData, key: &str) -> Vec<String> {
    if !sweep.user_metrics().iter().any(|metric| metric.name == key) {
        return vec![key.to_owned()];
    }
    let own = |known: &&String| known.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    sweep.units.keys().filter(own).take(KEYS_MAX).cloned().collect()
}

/// Returns how the values of `key` are displayed.
pub(crate) fn heading(sweep: &SweepData, key: &str) -> Heading {
    let unit = sweep.units.get(key).cloned().unwrap_or_default();
    let values = sweep.points.iter().filter_map(|point| point.cells.get(key));
    let largest = values.map(|cell| cell.median.abs()).fold(0.0, f64::max);
    Heading { key: key.to_owned(), scale: scale_for(&unit, largest), unit }
}
