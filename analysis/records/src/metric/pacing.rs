//! Which frames the host made late in real time, and how late the others left.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition};
use pktgen_core::registry::Named;

use super::Metric;
use crate::line::{Line, NS, SHARE};
use crate::resolved::Analysis;

/// See the module.
pub(super) struct Pacing;

const BY_HOST: Definition = Definition::new(
    "late_by_host",
    SHARE,
    Better::Neither,
    "Share of the frames of an open loop that the host made late: due while the thread that sends did not run for more than 1 µs in which it only \
     waited, or beyond a usual call, or while such frames still left.",
)
.needs("real time with deadlines");

const OTHERS: Definition = Definition::new(
    "late_others_p99",
    NS,
    Better::Lower,
    "How late the frames left that the host did not make late: 99 % left within this time.",
)
.needs("real time with deadlines");

impl Named for Pacing {
    fn name(&self) -> &'static str {
        "pacing"
    }

    fn about(&self) -> &'static str {
        "real time: which frames the host made late, and how late the others were"
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
