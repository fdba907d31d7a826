//! Rates at the parameter server, and what answers cost on the way down.
//!
//! Rates over receptions run from the first to the last one, so what came with the first one is not
//! counted: n packets are n − 1 gaps. Elements are counted over the whole run, by counters alone, so that
//! they mean the same whatever was recorded.

use pktgen_generator::Result;
use pktgen_generator::registry::Named;

use super::Metric;
use crate::analyze::{Analysis, Resolved};
use crate::fates::is_update;
use crate::line::Line;

/// See the module.
pub(super) struct Throughput;

impl Named for Throughput {
    fn name(&self) -> &'static str {
        "throughput"
    }

    fn about(&self) -> &'static str {
        "bits, updates and gradient elements per second at the parameter server; downlink bytes per update"
    }
}

impl Metric for Throughput {
    fn keys(&self) -> Vec<String> {
        ["throughput_bps", "updates_per_s", "elements_per_s", "downlink_bytes_per_delivered_update"]
            .map(str::to_owned)
            .into()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let counters = &run.manifest.counters;
        if let Some(resolved) = &run.resolved {
            at_server(resolved, out);
        }
        // Counters know it whatever was recorded.
        let (first, last) = counters.received_ps.unwrap_or((0, 0));
        let seconds = positive((last - first) as f64 * 1e-12);
        let elements = seconds.map(|s| (counters.elements_delivered - counters.first_elements) as f64 / s);
        out.push(Line::new("elements_per_s", "elements/s", elements));
        let balance = run.balance();
        let delivered = balance.delivered_alone + balance.delivered_merged;
        let downlink = (delivered > 0).then(|| counters.downlink_bytes as f64 / delivered as f64);
        out.push(Line::new("downlink_bytes_per_delivered_update", "bytes", downlink));
        Ok(())
    }
}

/// Rates between the first packet at the server and the last.
fn at_server(resolved: &Resolved, out: &mut Vec<Line>) {
    let received = &resolved.records.received;
    let rows = || (0..received.t_recv_ps.len()).filter(|row| is_update(received.cluster[*row]));
    let first = rows().min_by_key(|row| received.t_recv_ps[*row]);
    let last = rows().map(|row| received.t_recv_ps[row]).max();
    let rate = |amount: &dyn Fn(usize) -> u64| {
        let first = first?;
        let seconds = positive(last?.saturating_sub(received.t_recv_ps[first]) as f64 * 1e-12)?;
        let all: u64 = rows().map(amount).sum();
        Some((all - amount(first)) as f64 / seconds)
    };
    out.push(Line::new("throughput_bps", "bps", rate(&|row| u64::from(received.bytes[row]) * 8)));
    out.push(Line::new("updates_per_s", "updates/s", rate(&|row| u64::from(received.count[row]))));
}

fn positive(seconds: f64) -> Option<f64> {
    (seconds > 0.0).then_some(seconds)
}
