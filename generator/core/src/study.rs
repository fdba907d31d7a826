//! Measurements without a network: an experiment with a section `[study]` instead of a workload.
//!
//! Sweeps, seeds, published values and reports work as for runs: every run of the sweep is one study, whose findings
//! are stored in the manifest and become metrics.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::config::{KeyTables, Section};
use crate::definition::{Better, Definition, Timing};
use crate::registry::Named;
use crate::seed::Seed;

/// Key of the metric for the duration of a study; the caller measures it, for studies that declare it.
pub const TIME: &str = "study_time";

/// Metrics of wall-clock time, which differ between runs.
pub const TIMES: [&str; 4] = [TIME, "gather_time", "colour_time", "colour_orders"];

/// Reads wall-clock nanoseconds from an arbitrary zero; provided by the caller of a study.
pub type Watch<'a> = &'a dyn Fn() -> u64;

/// The metric for the duration of a study.
pub const TIME_TAKEN: Definition =
    Definition::new(TIME, "ns", Better::Lower, "Wall-clock time of the study, on one core of this machine.")
        .timed(Timing::OneClock);

/// A result of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The number; none if it does not exist.
    pub value: Option<f64>,
    /// Labels that distinguish it from others of its name.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Finding {
    /// A finding without labels.
    pub fn new(metric: &str, unit: &str, value: f64) -> Self {
        let labels = BTreeMap::new();
        Finding { metric: metric.to_owned(), unit: unit.to_owned(), value: Some(value), labels }
    }
}

/// One kind of study.
pub trait Study: Named + Sync {
    /// Returns the keys of `[study]` that [`run`](Self::run) reads, without `kind`.
    fn keys(&self) -> KeyTables;

    /// Returns the metrics that it produces. Their names are their keys: findings in tables have no labels.
    fn metrics(&self) -> &'static [Definition];

    /// Reads its keys and returns the task, so that a resolved configuration can be shown without the work.
    fn read(&self, section: &mut Section) -> Result<Task>;

    /// Reads its keys and runs the task, with a clock that always shows 0.
    fn run(&self, section: &mut Section, seed: Seed) -> Result<Vec<Finding>> {
        self.read(section)?(seed, &|| 0)
    }
}

impl fmt::Debug for dyn Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A study that has read its keys.
pub type Task = Box<dyn FnOnce(Seed, Watch) -> Result<Vec<Finding>>>;
