//! Metrics from lanes: how many packets they explain, where updates went, and ages, all without the device's help.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Timing};
use pktgen_core::registry::Named;

use super::Metric;
use crate::age::FlowAge;
use crate::labels::FLOW;
use crate::line::{Line, NS, PACKETS, SHARE, UPDATES};
use crate::provenance::Answer;
use crate::resolved::Analysis;
use crate::stats;

/// See the module documentation.
pub(super) struct Lanes;

const fn of(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).needs("format.lanes, capture.records = \"full\"")
}

const DEFINITIONS: [Definition; 13] = [
    of("lanes_decoded", PACKETS, Better::Higher, "Received packets whose lanes identify their members."),
    of(
        "lanes_ambiguous",
        SHARE,
        Better::Lower,
        "Share of received packets whose lanes are ambiguous, or give only the number of members.",
    ),
    of(
        "lanes_contradictions",
        PACKETS,
        Better::Lower,
        "Received packets whose lanes match no set of updates; 0, or an assumption fails.",
    ),
    of(
        "lanes_wrong",
        PACKETS,
        Better::Lower,
        "Decoded packets whose members are not those in the books; 0, or lanes are wrong.",
    ),
    of(
        "lanes_sent",
        UPDATES,
        Better::Neither,
        "Transmissions accounted for by lanes: delivered alone or merged, overtaken, missing or unclear.",
    ),
    of(
        "lanes_alone",
        UPDATES,
        Better::Neither,
        "Transmissions accounted for by lanes that were delivered as the only member of a packet.",
    ),
    of(
        "lanes_merged",
        UPDATES,
        Better::Neither,
        "Transmissions accounted for by lanes that were delivered inside aggregates.",
    ),
    of(
        "lanes_overtaken",
        UPDATES,
        Better::Neither,
        "Transmissions accounted for by lanes that were not delivered while a newer one of the worker was: subsumed, outranked or lost.",
    ),
    of(
        "lanes_missing",
        UPDATES,
        Better::Lower,
        "Transmissions accounted for by lanes that were not delivered, nor a newer one of the worker: lost, outranked or in flight at the end.",
    ),
    of("lanes_aggregation_mean", "updates per packet", Better::Neither, "Mean number of updates in a decoded packet."),
    of(
        "lanes_unclear",
        UPDATES,
        Better::Lower,
        "Transmissions accounted for by lanes that may be members of ambiguous packets, or are older than one of their worker that may be.",
    ),
    of("lanes_unidentified", UPDATES, Better::Lower, "Members of ambiguous packets, as far as their number is known."),
    of(
        "lanes_aom_mean",
        NS,
        Better::Lower,
        "aom_mean by the generation times of decoded members; the mean over clusters, or over workers.",
    )
    .labels(&[FLOW])
    .timed(Timing::OneWay)
    .needs("format.lanes, capture.records = \"full\"; not transport.pacing = \"top\""),
];

impl Named for Lanes {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn about(&self) -> &'static str {
        "members of packets decoded from payloads, without the device's books: decoded, ambiguous, separate balance"
    }
}

impl Metric for Lanes {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let (Some(found), Some(resolved)) = (&run.provenance, &run.resolved) else { return Ok(()) };
        let packets = found.packets(|answer| *answer != Answer::Other);
        let decoded = found.packets(|answer| *answer == Answer::Known);
        let ambiguous = found.packets(|answer| matches!(answer, Answer::Ambiguous(_)));
        let account = &found.account;
        out.push(Line::new("lanes_decoded", PACKETS, decoded as f64));
        out.push(Line::new("lanes_ambiguous", SHARE, (packets > 0).then(|| ambiguous as f64 / packets as f64)));
        let contradictions = found.packets(|answer| *answer == Answer::Contradiction);
        out.push(Line::new("lanes_contradictions", PACKETS, contradictions as f64));
        let books = run.manifest.external.is_none();
        let wrong = books.then(|| resolved.lanes_wrong() as f64);
        out.push(Line::new("lanes_wrong", PACKETS, wrong));
        for (metric, updates) in [
            ("lanes_sent", account.sent),
            ("lanes_alone", account.alone),
            ("lanes_merged", account.merged),
            ("lanes_overtaken", account.overtaken),
            ("lanes_missing", account.missing),
            ("lanes_unclear", account.unclear),
            ("lanes_unidentified", found.unidentified()),
        ] {
            out.push(Line::new(metric, UPDATES, updates as f64));
        }
        let each = (decoded > 0).then(|| (account.alone + account.merged) as f64 / decoded as f64);
        out.push(Line::new("lanes_aggregation_mean", "updates per packet", each));
        if let Some(ages) = found.ages.as_ref().filter(|_| !run.lacks_arrivals()) {
            for (flow, ages) in [("cluster", &ages.clusters), ("worker", &ages.workers)] {
                let means: Vec<f64> = ages.iter().filter_map(|age: &FlowAge| age.mean_ns).collect();
                out.push(Line::new("lanes_aom_mean", NS, stats::mean(&means)).with("flow", flow));
            }
        }
        Ok(())
    }
}
