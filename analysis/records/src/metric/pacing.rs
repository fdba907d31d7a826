//! Frames delayed by the host in real time, and the lateness of the others.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Timing};
use pktgen_core::registry::Named;

use super::Metric;
use crate::line::{Line, NS, SHARE};
use crate::resolved::Analysis;

/// See the module documentation.
pub(super) struct Pacing;

const BY_HOST: Definition = Definition::new(
    "late_by_host",
    SHARE,
    Better::Neither,
    "Share of open-loop frames delayed by the host: due while the sending thread did not run for more than 1 µs of \
     a wait, or for longer than a usual call, or while such frames were still leaving.",
)
.needs("real time with deadlines");

const OTHERS: Definition = Definition::new(
    "late_others_p99",
    NS,
    Better::Lower,
    "99th percentile of the lateness of frames that the host did not delay.",
)
.timed(Timing::OneClock)
.needs("real time with deadlines");

impl Named for Pacing {
    fn name(&self) -> &'static str {
        "pacing"
    }

    fn about(&self) -> &'static str {
        "real time: frames delayed by the host, and lateness of the others"
    }
}

impl Metric for Pacing {
    fn definitions(&self) -> Vec<Definition> {
        vec![BY_HOST, OTHERS]
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let Some(pacing) = &run.manifest.pacing else { return Ok(()) };
        out.extend(pacing.share_by_host().map(|share| Line::of(&BY_HOST, share)));
        out.extend(pacing.others_late_ns.map(|[_, p99, _]| Line::of(&OTHERS, p99 as f64)));
        Ok(())
    }
}
