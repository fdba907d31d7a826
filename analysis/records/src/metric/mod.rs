//! Metrics: one file per family, each computing lines from a resolved run.
//!
//! To add one: a new file here, its `mod` line and its entry in [`METRICS`]. Called by
//! [`crate::analyze`].

pub mod aggregation;
pub mod aom;
pub mod counts;
mod exactness;
pub mod fairness;
pub mod findings;
pub mod goal;
pub mod iterations;
mod lanes;
pub mod latency;
pub mod learning;
mod pacing;
mod plan;
mod queues;
pub(crate) mod results;
pub(crate) mod stamps;
mod states;
pub mod throughput;

use pktgen_core::Result;
use pktgen_core::definition::{Definition, Timing};
use pktgen_core::registry::Named;

use crate::line::Line;
use crate::resolved::Analysis;

/// Returns whether values of this key are as wrong as the clocks of workers and server are apart.
pub fn is_one_way(key: &str) -> bool {
    let name = key.split('/').next();
    let mut known = METRICS.iter().flat_map(|metric| metric.definitions());
    known.any(|definition| Some(definition.metric) == name && definition.timing == Some(Timing::OneWay))
}

/// A family of metrics.
pub trait Metric: Named + Sync {
    /// Returns the definitions of its lines: every line of [`compute`](Self::compute) has one of them.
    fn definitions(&self) -> Vec<Definition>;
    /// Returns the keys ([`Line::key`]) of the lines that reports can list, whether or not a run has them.
    fn keys(&self) -> Vec<String> {
        self.definitions().iter().flat_map(Definition::keys).collect()
    }
    /// Appends its lines for `run` to `out`; none if it requires full records and the run has none.
    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()>;
}

/// All metrics, in the order of their lines. Those of synchronous training come first, since they are its main results.
pub static METRICS: &[&dyn Metric] = &[
    &iterations::Iterations,
    &results::Results,
    &plan::Plan,
    &counts::Counts,
    &exactness::Exactness,
    &aom::Aom,
    &fairness::Fairness,
    &aggregation::Aggregation,
    &throughput::Throughput,
    &latency::Latency,
    &goal::Goal,
    &learning::Learning,
    &states::States,
    &lanes::Lanes,
    &queues::Queues,
    &pacing::Pacing,
    &stamps::Stamps,
    &findings::Findings,
];
