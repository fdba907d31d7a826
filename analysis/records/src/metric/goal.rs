//! Time to a goal (design §4, "speedup"): the time until N updates of every worker had been represented at the server.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Timing};
use pktgen_core::registry::Named;

use super::Metric;
use crate::labels::{ONE, WORKER};
use crate::line::{Line, NS, UPDATES};
use crate::resolved::Analysis;

/// See the module documentation.
pub(super) struct Goal;

/// The metric whose ratio is the speedup.
pub const TIME_TO_GOAL: &str = "time_to_goal";

const DEFINITIONS: [Definition; 4] = [
    Definition::new(
        TIME_TO_GOAL,
        NS,
        Better::Lower,
        "Time at which every worker had `capture.goal` different updates represented at the server; no value if not all did.",
    )
    .timed(Timing::OneWay)
    .source("design §4, OLAF §8.2")
    .needs("capture.goal"),
    Definition::new(TIME_TO_GOAL, NS, Better::Lower, "Time at which this worker had `capture.goal` different updates represented at the server.")
        .labels(&[WORKER, ONE])
        .timed(Timing::OneWay)
        .source("design §4, OLAF §8.2")
        .needs("capture.goal and capture.records = \"full\""),
    Definition::new("workers_at_goal", "workers", Better::Higher, "Workers that reached the goal.").needs("capture.goal"),
    Definition::new("represented", UPDATES, Better::Higher, "Different updates represented in packets at the server.")
        .needs("capture.goal and capture.records = \"full\"; or a capture"),
];

impl Named for Goal {
    fn name(&self) -> &'static str {
        "goal"
    }

    fn about(&self) -> &'static str {
        "time until every worker had capture.goal updates represented at the server, per worker and in total"
    }
}

impl Metric for Goal {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let Some(goal) = &run.goal else { return Ok(()) };
        out.push(Line::new(TIME_TO_GOAL, NS, goal.time_ns()));
        out.push(Line::new("workers_at_goal", "workers", goal.workers_at_goal as f64));
        let Some(detail) = &goal.detail else { return Ok(()) };
        out.push(Line::new("represented", UPDATES, detail.represented as f64));
        out.extend(detail.by_worker.iter().map(|(worker, t)| {
            let ns = t.map(|t| t as f64 / 1000.0);
            Line::new(TIME_TO_GOAL, NS, ns).with("flow", "worker").with("id", *worker)
        }));
        Ok(())
    }
}
