//! Numbers of updates represented by the packets at the parameter server.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition};
use pktgen_core::record::Family;
use pktgen_core::registry::Named;

use super::Metric;
use crate::labels::{COUNT, FULL};
use crate::line::{Line, PACKETS, SHARE};
use crate::resolved::Analysis;

/// See the module documentation.
pub(super) struct Aggregation;

const fn counts(metric: &'static str, unit: &'static str, definition: &'static str) -> Definition {
    Definition::new(metric, unit, Better::Neither, definition).source("design §4").needs(FULL)
}

const DEFINITIONS: [Definition; 3] = [
    counts(
        "aggregation_count",
        PACKETS,
        "Received packets that represent n updates; not for sums by key, whose results do not carry the number.",
    )
    .labels(&[COUNT]),
    counts("aggregation_cdf", SHARE, "Share of received packets that represent at most n updates.").labels(&[COUNT]),
    counts(
        "aggregation_mean",
        "updates per packet",
        "Mean number of updates that a received packet represents; no value for sums by key, whose results do not carry the number.",
    ),
];

impl Named for Aggregation {
    fn name(&self) -> &'static str {
        "aggregation"
    }

    fn about(&self) -> &'static str {
        "histogram, cumulative shares and mean of the number of updates per received packet"
    }
}

impl Metric for Aggregation {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let Some(resolved) = &run.resolved else { return Ok(()) };
        if resolved.family == Family::Pairs || run.hides_members() {
            out.push(Line::of(&DEFINITIONS[2], None));
            return Ok(());
        }
        lines(&resolved.arrivals().by_count, out);
        Ok(())
    }
}

/// Outputs the lines for `bins[n]` packets of n updates each.
pub fn lines(bins: &[u64], out: &mut Vec<Line>) {
    let packets: u64 = bins.iter().sum();
    let updates: u64 = bins.iter().zip(0u64..).map(|(packets, count)| packets * count).sum();
    let used = || bins.iter().enumerate().filter(|(_, packets)| **packets > 0);
    out.extend(used().map(|(n, packets)| Line::new("aggregation_count", PACKETS, *packets as f64).with("n", n)));
    let mut below = 0;
    for (n, in_bin) in used() {
        below += in_bin;
        out.push(Line::new("aggregation_cdf", SHARE, below as f64 / packets as f64).with("n", n));
    }
    let mean = (packets > 0).then(|| updates as f64 / packets as f64);
    out.push(Line::new("aggregation_mean", "updates per packet", mean));
}
