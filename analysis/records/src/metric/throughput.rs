//! Rates at the parameter server, and the cost of answers in the other direction.
//!
//! Rates of receptions are computed from the first to the last one, excluding the data of the first: n packets have n − 1 gaps. Elements
//! are counted over the whole run from counters alone, so that their meaning does not depend on what was recorded.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition};
use pktgen_core::registry::Named;

use super::Metric;
pub use crate::arrivals::AtServer;
use crate::arrivals::positive;
use crate::labels::FULL;
use crate::line::Line;
use crate::resolved::Analysis;

/// See the module documentation.
pub(super) struct Throughput;

const DEFINITIONS: [Definition; 4] = [
    Definition::new("throughput_bps", "bps", Better::Higher, "Bits per second of frames received by the parameter server and, of hot sums, by workers, from the first packet to the last, without those of the first; with hot sums no value if the offset of the clocks of workers and server is unknown.")
        .needs(FULL),
    Definition::new("updates_per_s", "updates/s", Better::Higher, "Updates per second at the parameter server, from the first packet to the last, without those of the first: each packet counts for the updates that it represents, a retransmitted copy again; no value for sums by key, and where packets do not contain how many updates they represent.")
        .needs(FULL),
    Definition::new(
        "elements_per_s",
        "elements/s",
        Better::Higher,
        "Gradient elements per second at the parameter server, from the first packet to the last, without those of the first, \
         as packets have them: each packet counts for the updates that it represents, a retransmitted copy again; without a \
         server, of results at their first arrival. Packets of fixed size (SwitchML, ATP) count whole, also those ahead of the \
         model, and zeros behind its end; useful_elements_per_s counts the gradients of models alone. No value where packets \
         do not contain how many updates they represent.",
    )
    .source("design §4"),
    Definition::new(
        "downlink_bytes_per_delivered_update",
        "bytes",
        Better::Lower,
        "Bytes of acknowledgements and results to workers on all links, divided by delivered updates; no value for a device \
         that merges and keeps no books.",
    ),
];

impl Named for Throughput {
    fn name(&self) -> &'static str {
        "throughput"
    }

    fn about(&self) -> &'static str {
        "bits, updates and gradient elements per second at the parameter server; downlink bytes per update"
    }
}

impl Metric for Throughput {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let counters = &run.manifest.counters;
        if let Some(resolved) = &run.resolved {
            resolved.arrivals().seen.lines(out);
        }
        // Counters contain this regardless of what was recorded.
        let rest = counters.elements_delivered - counters.first_elements;
        let elements = elements(counters.received_ps.unwrap_or((0, 0)), rest);
        out.push(if run.hides_elements() { Line { value: None, ..elements } } else { elements });
        let mut withhold = |metrics: &[&str]| {
            out.iter_mut().filter(|line| metrics.contains(&&*line.metric)).for_each(|line| line.value = None);
        };
        // A part of a sum by key does not contain how many updates it represents, nor does a packet that hides its members.
        if run.has_sums_by_key() || run.hides_members() {
            withhold(&["updates_per_s", "elements_per_s"]);
        }
        // Arrivals at workers and at the server are in one order only by one clock.
        if run.resolved.as_ref().is_some_and(|resolved| resolved.arrivals().hot > 0) && !run.manifest.has_one_clock() {
            withhold(&["throughput_bps"]);
        }
        let balance = run.balance();
        let delivered = balance.delivered_alone + balance.delivered_merged;
        let downlink =
            (delivered > 0 && !run.lacks_members()).then(|| counters.downlink_bytes as f64 / delivered as f64);
        out.push(Line::new("downlink_bytes_per_delivered_update", "bytes", downlink));
        Ok(())
    }
}

/// Returns elements per second: `rest` are those that arrived after the first packet.
pub fn elements((first, last): (i64, i64), rest: u64) -> Line {
    let seconds = positive((last - first) as f64 * 1e-12);
    Line::new("elements_per_s", "elements/s", seconds.map(|s| rest as f64 / s))
}
