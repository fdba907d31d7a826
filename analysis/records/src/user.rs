//! Metrics of an experiment's own, if the build supports them: the interface to `pktgen_query`, which depends on this crate.
//!
//! Called by [`crate::analyze`].

use std::fmt;
use std::path::Path;

use pktgen_core::Error;
use pktgen_core::record::Manifest;
use pktgen_core::user_metric::UserMetric;

use crate::line::{Line, Note};
use crate::memory::MemoryBound;
use crate::metric::METRICS;
use crate::resolved::UserAnswers;

/// Computes an experiment's own metrics.
pub trait UserMetrics: fmt::Debug + Sync {
    /// Returns the lines of `metric` for the run in `dir`, whose files were checked against their digests if requested.
    fn lines(&self, dir: &Path, metric: &UserMetric, memory: MemoryBound) -> Result<Vec<Line>, Unanswered>;
}

/// Why a metric has no lines.
#[derive(Debug)]
pub enum Unanswered {
    /// The run lacks necessary records.
    NotRecorded(String),
    /// Its SELECT is invalid, failed, or did not return a metric.
    Failed(Error),
}

/// Lines and notes of a run's own metrics.
#[derive(Debug, Clone, Default)]
pub struct UserLines {
    /// At least one line of every metric, without a value if it has none.
    pub lines: Vec<Line>,
    /// Metrics without values, with the reasons.
    pub notes: Vec<Note>,
}

impl UserLines {
    /// Computes the lines of the run in `dir`, in the order of their names.
    pub(crate) fn of(dir: &Path, manifest: &Manifest, answers: UserAnswers, memory: MemoryBound) -> UserLines {
        let mut own = UserLines::default();
        for metric in &manifest.metrics {
            let name = &metric.name;
            let found = match answers {
                _ if is_taken(name) => Err(Unanswered::Failed(Error::config("the name is that of another metric"))),
                UserAnswers::By(answers) => answers.lines(dir, metric, memory),
                UserAnswers::NotBuilt => {
                    Err(Unanswered::NotRecorded("this build has no SQL (docs/build.md)".to_owned()))
                }
                UserAnswers::LeftOut => continue,
            };
            let (note, why) = match found {
                Ok(lines) => {
                    own.lines.extend(lines);
                    continue;
                }
                Err(Unanswered::NotRecorded(why)) => ("metric_not_computed", why),
                Err(Unanswered::Failed(fault)) => ("metric_failed", fault.to_string()),
            };
            own.notes.push(Note { note, text: format!("metrics.{name} has no value: {why}") });
            own.lines.push(Line::of_user(metric, None));
        }
        own
    }
}

/// Whether a metric with this name already exists.
pub fn is_taken(name: &str) -> bool {
    METRICS.iter().flat_map(|metric| metric.definitions()).any(|definition| definition.metric == name)
}
