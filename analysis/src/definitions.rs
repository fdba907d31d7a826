//! Every metric with what it means: what lines are made here, and who else asks for their definitions.
//!
//! Called by `pktgen explain`, which docs/schema.md is written by, and by tests: a line that nobody defined is a mistake.

use pktgen_generator::definition::{Definition, Label};
use pktgen_generator::record::Reason;

use crate::line::Line;
use crate::metric::METRICS;
use crate::{baseline, capture, group};

/// Whose age it is.
pub(crate) const FLOW: Label = Label::one_of("flow", &["cluster", "worker"], "of clusters, or of workers");
/// Of workers alone.
pub(crate) const WORKER: Label = Label::one_of("flow", &["worker"], "of workers");
/// Which flow.
pub(crate) const ONE: Label = Label::new("id", "number of the flow");
/// Which flow, or all.
pub(crate) const ONE_OR_MEAN: Label =
    Label::new("id", "number of the flow; without it, the mean over flows").optional();
/// Which bin.
pub(crate) const COUNT: Label = Label::new("n", "number of updates");
/// Why.
pub(crate) const REASON: Label = Label::one_of("reason", &Reason::NAMES, "drop reason; without it, all").optional();
/// Of what traffic.
pub(crate) const TRAFFIC: Label = Label::one_of("traffic", &["background"], "not of updates");
/// Which job.
pub(crate) const JOB: Label =
    Label::new("job", "number of the job, where there are several; without it, all").optional();

/// What a run must have recorded.
pub(crate) const FULL: &str = "capture.records = \"full\"";
/// Where a device keeps no books.
pub(crate) const BLACK_BOX: &str = "target.kind = \"external\"";
/// What it must be.
pub(crate) const SYNCHRONOUS: &str = "synchronous training";

/// Metrics that are made together.
#[derive(Debug, Clone)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Its metrics.
    pub definitions: Vec<Definition>,
}

/// All families: those of [`METRICS`], and what captures and reports add.
pub fn families() -> Vec<Family> {
    let of = |name, about, definitions: &[Definition]| Family { name, about, definitions: definitions.to_vec() };
    let own = METRICS.iter().map(|metric| of(metric.name(), metric.about(), &metric.definitions()));
    let more = [
        of("captures", "captures: what is in them, and what a capture alone can say", &capture::DEFINITIONS),
        of("groups", "reports: the groups of clusters of [[report.groups]]", &group::DEFINITIONS),
        of(
            "comparison",
            "reports: a run beside the baseline's run of the same seed at the same point",
            &baseline::DEFINITIONS,
        ),
    ];
    own.chain(more).collect()
}

/// What a line is; none if nobody defined it. The label `run` is that of several runs and says nothing of the metric.
pub fn definition_of(line: &Line) -> Option<Definition> {
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let labels: Vec<(&str, String)> = line
        .labels
        .iter()
        .filter(|(name, _)| *name != "run")
        .map(|(name, value)| (name.as_str(), text(value)))
        .collect();
    let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let all = families().into_iter().flat_map(|family| family.definitions);
    all.into_iter().find(|definition| definition.covers(&line.metric, &line.unit, &labels))
}

#[cfg(test)]
#[path = "definitions_tests.rs"]
mod tests;
