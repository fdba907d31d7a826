//! Knowledge and decisions of workers under transmission control (OLAF §5), if the run recorded their states.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Timing};
use pktgen_core::registry::Named;

use super::Metric;
use crate::line::{Line, NS, SHARE};
use crate::resolved::Analysis;
use crate::stats;

/// See the module documentation.
pub(super) struct States;

const fn decided(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).source("OLAF §5").needs("capture.states")
}

const DEFINITIONS: [Definition; 3] = [
    decided(
        "p_send_mean",
        "probability",
        Better::Neither,
        "Mean probability of sending, over the decisions of workers.",
    ),
    decided(
        "congested_share",
        SHARE,
        Better::Lower,
        "Share of decisions taken while more clusters were active than the queue has slots.",
    ),
    decided("ack_age_mean", NS, Better::Lower, "Mean age of the worker's last ACK, over decisions.")
        .timed(Timing::OneClock),
];

impl Named for States {
    fn name(&self) -> &'static str {
        "states"
    }

    fn about(&self) -> &'static str {
        "transmission control: mean probability of sending, share of decisions in congestion, age of the last ACK"
    }
}

impl Metric for States {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let Some(states) = &run.states else { return Ok(()) };
        // A decision is about an update; entries about ACKs have no probability.
        let decisions: Vec<(usize, f64)> =
            (states.p_send.iter().enumerate()).filter_map(|(row, p_send)| Some((row, f64::from((*p_send)?)))).collect();
        let p_send: Vec<f64> = decisions.iter().map(|(_, p_send)| *p_send).collect();
        let congested = |row: usize| u32::from(states.active[row]) > states.capacity[row];
        let in_congestion: Vec<f64> = decisions.iter().map(|(row, _)| f64::from(u8::from(congested(*row)))).collect();
        // Before the first ACK there is no age.
        let ages: Vec<f64> =
            decisions.iter().filter_map(|(row, _)| Some(states.ack_age_ps[*row]? as f64 / 1000.0)).collect();
        out.push(Line::new("p_send_mean", "probability", stats::mean(&p_send)));
        out.push(Line::new("congested_share", SHARE, stats::mean(&in_congestion)));
        out.push(Line::new("ack_age_mean", NS, stats::mean(&ages)));
        Ok(())
    }
}
