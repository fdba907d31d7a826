//! Counts of updates by fate, from the records or, where those are not complete, from the counters.

use pktgen_generator::Result;
use pktgen_generator::registry::Named;

use super::Metric;
use crate::analyze::{Analysis, Resolved};
use crate::fates::{self, Fate, is_update};
use crate::line::{Line, PACKETS, SHARE, UPDATES};

/// See the module.
pub(super) struct Counts;

impl Named for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn about(&self) -> &'static str {
        "sent, received, lost, merged, subsumed, outranked, in flight, and whether the balance closes"
    }
}

impl Metric for Counts {
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
        let loss = (balance.sent > 0).then(|| dropped as f64 / balance.sent as f64);
        // What left the network without a packet of its own and without being lost; OLAF's Table 1 calls
        // it "aggregated". Negative only if packets were duplicated.
        let absorbed = balance.sent as f64 - (received + dropped + balance.in_flight) as f64;
        out.push(updates("sent", balance.sent));
        out.push(Line::new("received", PACKETS, received as f64));
        out.push(Line::new("loss", SHARE, loss));
        out.push(updates("dropped", dropped));
        out.extend(balance.dropped.iter().map(|(reason, n)| updates("dropped", *n).with("reason", reason.as_str())));
        out.push(updates("merged", balance.delivered_merged));
        out.push(Line::new("absorbed", UPDATES, absorbed));
        out.push(updates("subsumed", balance.subsumed));
        out.push(updates("outranked", balance.outranked));
        out.push(updates("in_flight", balance.in_flight));
        out.push(updates("withheld", balance.withheld));
        out.push(Line::new("balance_unknown", UPDATES, unknown(run)));
        out.push(Line::new("sums_ok", PACKETS, counters.sums_ok as f64));
        out.push(Line::new("sums_wrong", PACKETS, counters.sums_wrong as f64));
        if let Some(resolved) = &run.resolved {
            out.push(Line::new("duplicates", PACKETS, resolved.fates.duplicates as f64));
            background(resolved, out);
        }
        Ok(())
    }
}

/// What nobody can account for: in the records, and between them and the counters of the run.
fn unknown(run: &Analysis) -> f64 {
    let theirs = &run.manifest.balance;
    match &run.resolved {
        Some(resolved) => {
            let ours = resolved.fates.balance();
            ours.unknown.unsigned_abs() as f64
                + theirs.unknown.unsigned_abs() as f64
                + fates::difference(&ours, theirs) as f64
        }
        None => theirs.unknown.unsigned_abs() as f64,
    }
}

/// Traffic that belongs to no cluster, where there is any.
fn background(resolved: &Resolved, out: &mut Vec<Line>) {
    let (sent, received) = (&resolved.records.sent, &resolved.records.received);
    let packets = || sent.cluster.iter().zip(&resolved.fates.fate).filter(|(cluster, _)| !is_update(**cluster));
    let sent = packets().filter(|(_, fate)| **fate != Fate::Withheld).count();
    let dropped = packets().filter(|(_, fate)| matches!(fate, Fate::Dropped(_))).count();
    let received = received.cluster.iter().filter(|cluster| !is_update(**cluster)).count();
    if sent + received > 0 {
        for (metric, n) in [("sent", sent), ("received", received), ("dropped", dropped)] {
            out.push(Line::new(metric, PACKETS, n as f64).with("traffic", "background"));
        }
    }
}
