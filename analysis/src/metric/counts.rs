//! Counts of updates by fate, from the records or, where those are not complete, from the counters.

use pktgen_generator::Result;
use pktgen_generator::record::Reason;
use pktgen_generator::registry::Named;

use super::Metric;
use crate::analyze::Analysis;
use crate::fates::is_update;
use crate::line::{Line, PACKETS, SHARE, UPDATES};

/// See the module.
pub(super) struct Counts;

impl Named for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn about(&self) -> &'static str {
        "updates by fate, received and accepted packets, retransmissions, and whether the balance closes"
    }
}

/// Keys but the drops by reason.
const KEYS: [&str; 20] = [
    "sent",
    "received",
    "loss",
    "dropped",
    "merged",
    "absorbed",
    "subsumed",
    "outranked",
    "in_flight",
    "withheld",
    "withheld_share",
    "accepted",
    "retransmissions",
    "balance_unknown",
    "sums_ok",
    "sums_wrong",
    "duplicates",
    "sent/background",
    "received/background",
    "dropped/background",
];

impl Metric for Counts {
    fn keys(&self) -> Vec<String> {
        let reasons = Reason::ALL.iter().map(|reason| format!("dropped/{}", reason.name()));
        KEYS.map(str::to_owned).into_iter().chain(reasons).collect()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let balance = run.balance();
        let counters = &run.manifest.counters;
        let received = match &run.resolved {
            Some(resolved) => {
                resolved.records.received.cluster.iter().filter(|cluster| is_update(**cluster)).count() as u64
            }
            None => counters.packets_received,
        };
        let dropped = balance.dropped_total();
        let updates = |metric, n: u64| Line::new(metric, UPDATES, n as f64);
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        // What left the network without a packet of its own and without being lost; OLAF's Table 1 calls
        // it "aggregated". Negative only if packets were duplicated.
        let absorbed = balance.sent as f64 - (received + dropped + balance.in_flight) as f64;
        out.push(updates("sent", balance.sent));
        out.push(Line::new("received", PACKETS, received as f64));
        out.push(Line::new("loss", SHARE, share(dropped, balance.sent)));
        out.push(updates("dropped", dropped));
        out.extend(balance.dropped.iter().map(|(reason, n)| updates("dropped", *n).with("reason", reason.as_str())));
        out.push(updates("merged", balance.delivered_merged));
        out.push(Line::new("absorbed", UPDATES, absorbed));
        out.push(updates("subsumed", balance.subsumed));
        out.push(updates("outranked", balance.outranked));
        out.push(updates("in_flight", balance.in_flight));
        out.push(updates("retransmissions", balance.retransmitted));
        out.push(updates("withheld", balance.withheld));
        out.push(Line::new("withheld_share", SHARE, share(balance.withheld, balance.generated)));
        out.push(Line::new("accepted", SHARE, share(accepted(run), received)));
        out.push(Line::new("balance_unknown", UPDATES, run.unknown()));
        out.push(Line::new("sums_ok", PACKETS, counters.sums_ok as f64));
        out.push(Line::new("sums_wrong", PACKETS, counters.sums_wrong as f64));
        if let Some(resolved) = &run.resolved {
            out.push(Line::new("duplicates", PACKETS, resolved.fates.duplicates as f64));
        }
        background(run, out);
        Ok(())
    }
}

/// Packets that the server's reward gate accepted.
fn accepted(run: &Analysis) -> u64 {
    let Some(resolved) = &run.resolved else { return run.manifest.counters.accepted };
    let received = &resolved.records.received;
    received
        .accepted
        .iter()
        .zip(&received.cluster)
        .filter(|(accepted, cluster)| **accepted && is_update(**cluster))
        .count() as u64
}

/// Traffic that belongs to no cluster, where there is any.
fn background(run: &Analysis, out: &mut Vec<Line>) {
    let balance = run.balance_where(|cluster| !is_update(cluster));
    let received = match &run.resolved {
        Some(resolved) => {
            let clusters = &resolved.records.received.cluster;
            clusters.iter().filter(|cluster| !is_update(**cluster)).count() as u64
        }
        None => balance.delivered_alone.saturating_add(balance.delivered_merged),
    };
    if balance.sent > 0 || received > 0 {
        for (metric, n) in [("sent", balance.sent), ("received", received), ("dropped", balance.dropped_total())] {
            out.push(Line::new(metric, PACKETS, n as f64).with("traffic", "background"));
        }
    }
}
