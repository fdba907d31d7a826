//! A sweep as data: what is kept of runs and points, and how they are named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::record::{Published, SweepManifest, Validity};
use pktgen_core::user_metric::UserMetric;
use pktgen_records::resolved::Options;
use pktgen_records::stats::Estimate;

use crate::sweep::kept::{Kept, WorkerStates};

/// The label that names a variant, and that a baseline is a value of.
pub const VARIANT: &str = "variant";
/// Labels of a run or a point: axis → value.
pub type Labels = BTreeMap<String, String>;

/// What reports need of one run.
#[derive(Debug, Clone, Default)]
pub struct RunSummary {
    /// Folder, relative to the sweep's.
    pub dir: String,
    /// Axis → value.
    pub labels: Labels,
    /// Seed.
    pub seed: u64,
    /// Whether its numbers may be used. Runs that could not be read are invalid too, and have no numbers.
    pub validity: Validity,
    /// What a reader of its values must know.
    pub notes: Vec<String>,
    /// Values by [`Line::key`], and the metrics that compare with the baseline. Runs of a sweep share the keys.
    pub scalars: BTreeMap<Arc<str>, f64>,
    /// Clusters that it has, by number.
    pub clusters: Vec<u32>,
    /// Average Age-of-Model of each cluster, in ns.
    pub cluster_aom_ns: Vec<(u64, f64)>,
    /// Share of received packets that represent at most so many updates.
    pub aggregation_cdf: Vec<(u64, f64)>,
    /// What pictures need of its records; of the first seed only.
    pub kept: Kept,
    /// How far it came; none unless it had a goal.
    pub goal: Option<GoalSummary>,
    /// What its tables show by default, if it is a study.
    pub study_keys: Vec<String>,
    /// What identifies its workload and schedule.
    pub workload: String,
    /// What identifies the plan of its network; none without a plan.
    pub network: Option<u64>,
    /// Nothing was left to chance, by its manifest: any seed gives these values.
    pub exact: bool,
    /// The resolved configuration.
    pub config: String,
    /// What made it, when and where.
    pub made: RunMade,
    /// Its device may merge, and nothing but lanes of payloads says which updates a packet of it holds.
    pub hides_members: bool,
    /// Metrics of its experiment's own.
    pub user_metrics: Vec<UserMetric>,
    /// What some of its workers under transmission control knew and did, for plots.
    pub states: Vec<WorkerStates>,
}

/// Metrics with a line for each reason that there is: a run with the sum and without such a line has none of that reason.
const BY_REASON: [&str; 1] = ["dropped"];

impl RunSummary {
    /// A value by the key of its line.
    pub fn value(&self, key: &str) -> Option<f64> {
        let own = self.scalars.get(key).copied();
        own.or_else(|| {
            let (sum, _) = key.split_once('/')?;
            (BY_REASON.contains(&sum) && self.scalars.contains_key(sum)).then_some(0.0)
        })
    }
}

/// Gives runs the counts of reasons that others of them have and they have not.
pub(crate) fn with_all_reasons(runs: &mut [RunSummary]) {
    let is_of_reason = |key: &&Arc<str>| key.split_once('/').is_some_and(|(sum, _)| BY_REASON.contains(&sum));
    let keys: BTreeSet<Arc<str>> =
        runs.iter().flat_map(|run| run.scalars.keys().filter(is_of_reason).cloned()).collect();
    for run in runs {
        for key in &keys {
            if let Some(value) = run.value(key) {
                run.scalars.insert(key.clone(), value);
            }
        }
    }
}

/// What made a run, when and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunMade {
    /// Tool, version and commit.
    pub tool: String,
    /// In ns since 1970.
    pub unix_ns: u64,
    /// What is known of the host; nothing in virtual time.
    pub host: BTreeMap<String, String>,
    /// The command line; empty if it was not recorded.
    pub command: Vec<String>,
}

/// How far a run to a goal came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoalSummary {
    /// Updates that every worker must have represented.
    pub updates: u32,
    /// Workers that must.
    pub workers: usize,
    /// Workers that have not.
    pub short: usize,
}

/// One point of a sweep.
#[derive(Debug, Clone, Default)]
pub struct PointSummary {
    /// Axis → value.
    pub labels: Labels,
    /// Its runs, as positions in [`SweepData::runs`].
    pub runs: Vec<usize>,
    /// Median and interval over the seeds, by key.
    pub cells: BTreeMap<String, Estimate>,
}

/// A sweep, analysed.
#[derive(Debug, Clone)]
pub struct SweepData {
    /// What it is.
    pub manifest: SweepManifest,
    /// How it was analysed.
    pub options: Options,
    /// Unit of each key.
    pub units: BTreeMap<String, String>,
    /// Its runs, in the manifest's order.
    pub runs: Vec<RunSummary>,
    /// Its points, in the order of their first runs.
    pub points: Vec<PointSummary>,
}

impl SweepData {
    /// Metrics of the experiment's own, in the order of their names; of several by one name that of the first run.
    pub fn user_metrics(&self) -> Vec<&UserMetric> {
        let mut metrics: BTreeMap<&str, &UserMetric> = BTreeMap::new();
        for metric in self.runs.iter().flat_map(|run| &run.user_metrics) {
            metrics.entry(&metric.name).or_insert(metric);
        }
        metrics.into_values().collect()
    }
}

/// The setting that a run belongs to.
pub(crate) fn without_variant(labels: &Labels) -> Labels {
    let mut rest = labels.clone();
    rest.remove(VARIANT);
    rest
}

/// A run in messages: its folder, labels and seed.
pub fn name_of(run: &RunSummary) -> String {
    let dir = if ["", "."].contains(&run.dir.as_str()) { "run" } else { &run.dir };
    format!("{dir} ({}, seed {})", describe(&run.labels), run.seed)
}

/// `axis=value, …` for sentences.
pub fn describe(labels: &Labels) -> String {
    let parts: Vec<String> = labels.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    if parts.is_empty() { "all defaults".to_owned() } else { parts.join(", ") }
}

/// Whether the published row belongs to the point. All of its labels must be the point's.
pub(crate) fn matches(published: &Published, point: &PointSummary) -> bool {
    published.at.iter().all(|(axis, value)| point.labels.get(axis) == Some(value))
}

/// Why its numbers may not be used.
pub fn why_invalid(run: &RunSummary) -> Vec<String> {
    run.validity.faults.iter().map(|fault| fault.to_string()).collect()
}
