//! What workers under transmission control knew and decided (OLAF §5), where the run recorded their states.

use pktgen_generator::Result;
use pktgen_generator::registry::Named;

use super::Metric;
use crate::analyze::Analysis;
use crate::line::{Line, NS, SHARE};
use crate::stats;

/// See the module.
pub(super) struct States;

impl Named for States {
    fn name(&self) -> &'static str {
        "states"
    }

    fn about(&self) -> &'static str {
        "transmission control: mean probability of sending, share of decisions in congestion, age of the last ACK"
    }
}

impl Metric for States {
    fn keys(&self) -> Vec<String> {
        ["p_send_mean", "congested_share", "ack_age_mean"].map(str::to_owned).into()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let Some(states) = &run.states else { return Ok(()) };
        // A decision is what a worker does about an update; entries about ACKs have no probability.
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
