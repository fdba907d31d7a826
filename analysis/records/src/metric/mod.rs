//! Metrics: one file per family, each giving lines from a resolved run.
//!
//! To add one: a new file here, its `mod` line and its entry in [`METRICS`]. Called by
//! [`crate::analyze`].

pub mod aggregation;
pub mod aom;
mod counts;
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
use pktgen_core::definition::Definition;
use pktgen_core::registry::Named;

use crate::line::Line;
use crate::resolved::Analysis;

/// A family of metrics.
pub trait Metric: Named + Sync {
    /// What its lines are: every line of [`compute`](Self::compute) is of one of them.
    fn definitions(&self) -> Vec<Definition>;
    /// Keys ([`Line::key`]) of the lines that reports can tabulate, whether or not a run has them.
    fn keys(&self) -> Vec<String> {
        self.definitions().iter().flat_map(Definition::keys).collect()
    }
    /// Appends its lines for `run` to `out`; none if the run was not recorded in full and it needs that.
    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()>;
}

/// All metrics, in the order of their lines. What only synchronous training has comes first: there it is the answer.
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
