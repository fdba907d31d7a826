//! Results of synchronous training at the workers (TRIO §6.2, §6.3), and what the programs of devices counted.
//!
//! Latency and recovery time are from a worker's own contribution to the first result of that block. A result that
//! lacks sources came because the device gave up on them, so its time is that of the recovery (Figure 14). Workers
//! that got a result before they had sent anything waited for nothing, and are in neither. Where a part of the blocks
//! was recorded (`every:N`), the times are theirs.

use pktgen_generator::Result;
use pktgen_generator::registry::Named;

use super::Metric;
use super::latency::describe;
use crate::analyze::Analysis;
use crate::line::{Line, NS};
use crate::quantile::Slice;
use crate::rounds::ResultColumns;
use crate::stats;

/// See the module.
pub(super) struct Results;

const LATENCY: [&str; 4] = ["result_latency_mean", "result_latency_p50", "result_latency_p99", "result_latency_max"];
pub(crate) const RECOVERY: [&str; 4] =
    ["recovery_time_min", "recovery_time_mean", "recovery_time_p99", "recovery_time_max"];
const OVER_TIMEOUT: [&str; 2] = ["recovery_over_timeout_min", "recovery_over_timeout_max"];
const COUNTS: [&str; 3] = ["results", "results_degraded", "results_again"];
const COUNTERS: [&str; 5] = ["replies", "clipped", "scaling_error", "aggregation_latency_mean", "aggregation_rate"];

impl Named for Results {
    fn name(&self) -> &'static str {
        "results"
    }

    fn about(&self) -> &'static str {
        "synchronous training: latency of results, recovery from stragglers, and what devices counted"
    }
}

impl Metric for Results {
    fn keys(&self) -> Vec<String> {
        let names = LATENCY.iter().chain(&RECOVERY).chain(&OVER_TIMEOUT).chain(&COUNTS).chain(&COUNTERS);
        names.map(|name| (*name).to_owned()).collect()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        if let Some(results) = run.rounds.as_ref().and_then(|rounds| rounds.results.as_ref()) {
            let timeout_ps = run.manifest.training.as_ref().and_then(|training| training.timeout_ps);
            times(results, timeout_ps, out)?;
        }
        let counters = &run.manifest.counters;
        if run.rounds.is_some() {
            out.push(Line::new("replies", "results", counters.replies as f64));
            out.push(Line::new("clipped", "elements", counters.clipped as f64));
            let error = counters.scaling_error_ppb.map(|ppb| ppb as f64 * 1e-9);
            out.push(Line::new("scaling_error", "ratio", error));
            aggregation(run, out);
        }
        let device = counters.device.iter();
        out.extend(device.map(|(name, n)| Line::new("device", unit(name), *n as f64).with("counter", name.as_str())));
        Ok(())
    }
}

/// What the name of a counter says about its unit.
fn unit(counter: &str) -> &'static str {
    if counter.ends_with("_ps") { "ps" } else { "count" }
}

fn times(results: &ResultColumns, timeout_ps: Option<i64>, out: &mut Vec<Line>) -> Result<()> {
    let n = results.t_recv_ps.len();
    let wait_ps = |row: usize| Some(results.t_recv_ps[row].saturating_sub(results.t_sent_ps[row]?));
    let waits = |degraded: bool| -> Vec<i64> {
        let first = (0..n).filter(|row| !results.again[*row] && results.degraded[*row] == degraded);
        first.filter_map(wait_ps).collect()
    };
    describe(LATENCY, &Slice(&waits(false)), out)?;
    recovery(waits(true), timeout_ps, out);
    let count = |flags: &[bool]| flags.iter().filter(|flag| **flag).count();
    let counts = [n, count(&results.degraded), count(&results.again)];
    out.extend(COUNTS.into_iter().zip(counts).map(|(name, n)| Line::new(name, "results", n as f64)));
    Ok(())
}

/// In absolute terms, and in timeouts: the paper finds at most two (§6.2, Figure 14).
fn recovery(mut waits_ps: Vec<i64>, timeout_ps: Option<i64>, out: &mut Vec<Line>) {
    waits_ps.sort_unstable();
    let ns: Vec<f64> = waits_ps.iter().map(|ps| *ps as f64 / 1000.0).collect();
    let (least, most) = (ns.first().copied(), ns.last().copied());
    let values = [least, stats::mean(&ns), stats::quantile_of_sorted(&ns, 0.99), most];
    out.extend(RECOVERY.into_iter().zip(values).map(|(name, value)| Line::new(name, NS, value)));
    let timeout = timeout_ps.filter(|timeout| *timeout > 0).map(|timeout| timeout as f64 / 1000.0);
    let over = |ns: Option<f64>| ns.zip(timeout).map(|(ns, timeout)| ns / timeout);
    out.extend(OVER_TIMEOUT.into_iter().zip([least, most]).map(|(name, ns)| Line::new(name, "ratio", over(ns))));
}

/// How long packets spent in devices on the mean, and gradients of a packet by that time (§6.3, Figure 15).
fn aggregation(run: &Analysis, out: &mut Vec<Line>) {
    let device = &run.manifest.counters.device;
    let both = device.get("packet_time_ps").zip(device.get("packets")).filter(|(_, packets)| **packets > 0);
    let ns = both.map(|(time_ps, packets)| *time_ps as f64 / 1000.0 / *packets as f64);
    out.push(Line::new("aggregation_latency_mean", NS, ns));
    let training = run.manifest.training.as_ref().filter(|training| training.blocks > 0);
    let elements = training.map(|training| training.elements.div_ceil(u64::from(training.blocks)));
    let rate = ns.zip(elements).filter(|(ns, _)| *ns > 0.0).map(|(ns, elements)| elements as f64 / ns * 1e9);
    out.push(Line::new("aggregation_rate", "elements/s", rate));
}
