//! AoM fairness: Jain's index over the time averages of clusters, or of workers (design §4).
//!
//! A flow that never delivered is included with the average of its ever growing age, half of its window, so that
//! starvation cannot make a run look fair. Only flows without a window have no average and are excluded: those that
//! generated once (or all at one time) and never delivered. `flows_never_delivered` counts both.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition};
use pktgen_core::registry::Named;

use super::Metric;
use crate::age::FlowAge;
use crate::labels::{AGED, FLOW};
use crate::line::Line;
use crate::resolved::Analysis;
use crate::stats;

/// See the module documentation.
pub(super) struct Fairness;

const FAIRNESS: Definition = Definition::new(
    "aom_fairness",
    "index",
    Better::Higher,
    "Jain's index over the average Age-of-Model of clusters, or of workers, μ² / (μ² + σ²): 1 if all are equal, 1/n if one has all of it.",
)
.labels(&[FLOW])
.source("design §4")
.needs(AGED);

impl Named for Fairness {
    fn name(&self) -> &'static str {
        "fairness"
    }

    fn about(&self) -> &'static str {
        "Jain's index over the average Age-of-Model of clusters, or of workers: 1 if all are equal"
    }
}

impl Metric for Fairness {
    fn definitions(&self) -> Vec<Definition> {
        vec![FAIRNESS]
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        out.extend(run.ages().map(|ages| line("cluster", &ages.clusters)));
        out.extend(run.ages_of_workers().map(|workers| line("worker", workers)));
        Ok(())
    }
}

/// Returns the line of all clusters or all workers.
pub fn line(flow: &'static str, ages: &[FlowAge]) -> Line {
    let means: Vec<f64> = ages.iter().filter_map(|age| age.mean_ns).collect();
    Line::of(&FAIRNESS, stats::jain(&means)).with("flow", flow)
}
