//! Counts of updates by fate, from the records or, if these are incomplete, from the counters.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition};
use pktgen_core::record::{Balance, Reason};
use pktgen_core::registry::Named;

use super::Metric;
use crate::labels::{BLACK_BOX, FULL, REASON, TRAFFIC};
use crate::line::{Line, PACKETS, SHARE, UPDATES};
use crate::resolved::Analysis;

/// See the module documentation.
pub(super) struct Counts;

impl Named for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn about(&self) -> &'static str {
        "updates by fate, received and accepted packets, retransmissions, and whether the balance closes"
    }
}

const fn updates(metric: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, UPDATES, better, definition)
}

const fn background(metric: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, PACKETS, better, definition).labels(&[TRAFFIC]).needs("traffic without a cluster")
}

const DEFINITIONS: [Definition; 25] = [
    updates("sent", Better::Neither, "Transmissions of updates by workers, including retransmissions."),
    Definition::new("received", PACKETS, Better::Neither, "Packets with updates received by the parameter server; no value if a part that receives was killed, and no row of it is left."),
    Definition::new("loss", SHARE, Better::Lower, "Share of sent updates that were dropped, without subsumed and outranked ones, and without repeats of what a device or a server had already (`duplicate`). For a device without books: share that did not arrive if it only forwards; no value if it may merge, or if a part that receives was killed and no row of it is left.")
        .source("design §4"),
    updates("dropped", Better::Lower, "Sent updates that were dropped; with a label, for that reason.").labels(&[REASON]),
    updates(
        "merged",
        Better::Neither,
        "Updates delivered inside aggregates; no value for a device that merges and keeps no books, whose packets name one of them, or none (sums by key).",
    ),
    updates(
        "absorbed",
        Better::Neither,
        "Updates that left without a packet of their own and without being lost: sent − received − dropped − in flight; no value \
         for sums by key, which leave in many packets.",
    )
    .source("OLAF Table 1"),
    updates(
        "aggregated",
        Better::Neither,
        "Updates that arrived in a packet with others, minus one per packet: represented − received. Subsumed and \
         outranked updates are not counted; no value for sums by key.",
    )
    .source("OLAF Table 1"),
    Definition::new("unrepresented", SHARE, Better::Lower, "Share of sent updates that no packet at the server represents: dropped, subsumed or outranked; no value for sums by key.")
        .source("OLAF Table 1"),
    updates("subsumed", Better::Neither, "Updates replaced by a newer update of the same worker."),
    updates("outranked", Better::Neither, "Updates discarded in favour of one with a higher reward."),
    updates("in_flight", Better::Neither, "Updates in flight at the end of the run."),
    updates(
        "unaccounted",
        Better::Neither,
        "Updates with an unknown fate, because the device keeps no books (hardware). 0 with a software device.",
    )
    .source("design §2.6"),
    updates("withheld", Better::Neither, "Transmissions withheld by workers: by transmission control, or because they were late (`transport.late = \"skip\"`).")
        .source("OLAF §5"),
    Definition::new("withheld_share", SHARE, Better::Neither, "Share of transmissions that were due (generated updates and retransmissions) that workers withheld.")
        .source("OLAF §5"),
    Definition::new("accepted", SHARE, Better::Neither, "Share of received packets whose content was taken: others were refused by the server's reward gate or, in training, had arrived before (at least in part) or came too late.")
        .source("OLAF §2.1"),
    updates("retransmissions", Better::Lower, "Transmissions of updates that had been sent before."),
    updates("balance_unknown", Better::Lower, "Updates missing from the account; 0, or the run is invalid."),
    Definition::new("sums_ok", PACKETS, Better::Neither, "Packets whose payload was the sum of their members: bit for bit, or, if members are known by lanes only, in any order of additions."),
    Definition::new("sums_wrong", PACKETS, Better::Lower, "Packets whose payload was not the sum of their members; 0, or the run is invalid. No value if sums could not be checked."),
    Definition::new("sums_unchecked", PACKETS, Better::Lower, "Sums that were not checked, because their members are unknown.").needs(BLACK_BOX),
    Definition::new("damaged", PACKETS, Better::Lower, "Packets of one update, or behind a device that only forwards, that differ from what was sent, and sums of another cluster; 0, or the run is invalid.").needs(BLACK_BOX),
    Definition::new("duplicates", PACKETS, Better::Lower, "Packets that arrived more than once.").needs(FULL),
    background("sent", Better::Neither, "Packets of background traffic sent (traffic without a cluster)."),
    background("received", Better::Neither, "Packets of background traffic that arrived."),
    background("dropped", Better::Lower, "Packets of background traffic that were dropped."),
];

impl Metric for Counts {
    fn definitions(&self) -> Vec<Definition> {
        DEFINITIONS.to_vec()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let balance = run.balance();
        let counters = &run.manifest.counters;
        let received = match &run.resolved {
            Some(resolved) => resolved.arrivals().packets,
            None => counters.packets_received,
        };
        let dropped = balance.dropped_total();
        let updates = |metric, n: u64| Line::new(metric, UPDATES, n as f64);
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        // Updates that left the network without a packet of their own and without being lost. Negative only
        // if packets were duplicated.
        let absorbed = balance.sent as f64 - (received + dropped + balance.in_flight) as f64;
        let known = run.manifest.external.is_none();
        // A sum by key leaves in many packets, each of which is a part of it.
        let whole = known && !run.has_sums_by_key();
        let is_lost = run.lacks_arrivals();
        let of_arrivals = |n: f64| (!is_lost).then_some(n);
        out.push(updates("sent", balance.sent));
        out.push(Line::new("received", PACKETS, of_arrivals(received as f64)));
        out.push(Line::new("loss", SHARE, loss(run, &balance)));
        out.push(updates("dropped", dropped));
        out.extend(balance.dropped.iter().map(|(reason, n)| updates("dropped", *n).with("reason", reason.as_str())));
        let merged = (!run.lacks_members()).then_some(balance.delivered_merged as f64);
        out.push(Line::new("merged", UPDATES, merged.and_then(of_arrivals)));
        out.push(Line::new("absorbed", UPDATES, whole.then_some(absorbed).and_then(of_arrivals)));
        let represented = balance.delivered_alone + balance.delivered_merged;
        let aggregated = whole.then_some(represented as f64 - received as f64);
        out.push(Line::new("aggregated", UPDATES, aggregated.and_then(of_arrivals)));
        let missing = share(balance.sent.saturating_sub(represented + balance.in_flight), balance.sent);
        out.push(Line::new("unrepresented", SHARE, missing.filter(|_| whole)));
        out.push(updates("subsumed", balance.subsumed));
        out.push(updates("outranked", balance.outranked));
        out.push(updates("in_flight", balance.in_flight));
        out.push(updates("unaccounted", balance.unaccounted));
        out.push(updates("retransmissions", balance.retransmitted));
        out.push(updates("withheld", balance.withheld));
        out.push(Line::new(
            "withheld_share",
            SHARE,
            share(balance.withheld, balance.generated + balance.retransmitted),
        ));
        out.push(Line::new("accepted", SHARE, share(accepted(run), received)));
        out.push(Line::new("balance_unknown", UPDATES, run.unknown()));
        out.push(Line::new("sums_ok", PACKETS, counters.sums_ok as f64));
        out.push(Line::new("sums_wrong", PACKETS, checked(run).then_some(counters.sums_wrong as f64)));
        if let Some(unseen) = &run.manifest.unseen {
            out.push(Line::new("sums_unchecked", PACKETS, unseen.unchecked as f64));
            out.push(Line::new("damaged", PACKETS, unseen.damaged as f64));
        }
        if let Some(resolved) = &run.resolved {
            let unseen = run.manifest.unseen.as_ref().map(|unseen| unseen.duplicates);
            let again = unseen.unwrap_or(resolved.duplicates());
            out.push(Line::new("duplicates", PACKETS, of_arrivals(again as f64)));
        }
        of_no_cluster(run, out);
        Ok(())
    }
}

/// Whether the losses of a run are known: hardware that may merge does not report them.
pub fn knows_loss(run: &Analysis) -> bool {
    run.manifest.unseen.as_ref().map_or(run.manifest.external.is_none(), |unseen| !unseen.merges)
}

/// Returns the share of a balance's sent updates that were lost; `None` if that is not known. A device without books that only forwards has
/// lost all missing packets, unless nothing is known of arrivals.
pub fn loss(run: &Analysis, balance: &Balance) -> Option<f64> {
    if !knows_loss(run) || balance.sent == 0 {
        return None;
    }
    let lost = match &run.manifest.unseen {
        Some(_) if run.manifest.incidents.lacks_arrivals(&run.balance()) => return None,
        Some(_) => balance.unaccounted,
        None => balance.dropped_total() - repeats(run, balance)?,
    };
    Some(lost as f64 / balance.sent as f64)
}

/// Returns the number of updates that were dropped because the device or the server already had them. These are not
/// lost, except those that a device mistook for repeated ones: only their number in the whole run is known, so a part of the
/// run has no value if these may be others'.
fn repeats(run: &Analysis, balance: &Balance) -> Option<u64> {
    let duplicates = |balance: &Balance| balance.dropped.get(Reason::Duplicate.name()).copied().unwrap_or(0);
    let mistaken = run.manifest.counters.device.get("never_counted").copied().unwrap_or(0);
    let own = duplicates(balance);
    if own == 0 || mistaken == 0 {
        return Some(own);
    }
    (own == duplicates(&run.balance())).then(|| own.saturating_sub(mistaken))
}

/// Whether every kind of packet was checked. For unchecked kinds there is no number of wrong packets.
fn checked(run: &Analysis) -> bool {
    let counters = &run.manifest.counters;
    if run.manifest.incidents.unproven_sums().is_some() {
        return false;
    }
    match &run.manifest.unseen {
        Some(unseen) => {
            counters.sums_wrong > 0 || unseen.unchecked == 0 || unseen.checked_by_lanes + unseen.checked_by_key > 0
        }
        None => run.manifest.external.is_none(),
    }
}

/// Returns the number of packets whose content their receiver took.
fn accepted(run: &Analysis) -> u64 {
    run.resolved.as_ref().map_or(run.manifest.counters.accepted, |resolved| resolved.arrivals().accepted)
}

/// Outputs traffic without a cluster, if any.
fn of_no_cluster(run: &Analysis, out: &mut Vec<Line>) {
    let balance = run.balance_where(false);
    let received = match &run.resolved {
        Some(resolved) => resolved.arrivals().background,
        None => balance.delivered_alone.saturating_add(balance.delivered_merged),
    };
    if balance.sent > 0 || received > 0 {
        for (metric, n) in [("sent", balance.sent), ("received", received), ("dropped", balance.dropped_total())] {
            out.push(Line::new(metric, PACKETS, n as f64).with("traffic", "background"));
        }
    }
}
