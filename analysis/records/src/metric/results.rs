//! Results of synchronous training at the workers (TRIO §6.2, §6.3), and counters of device programs.
//!
//! Latency and recovery time are measured from a worker's own contribution to the first result of that block. A result lacks sources
//! because the device gave up on them, so its time is the recovery time (Figure 14). Workers that received a result before sending
//! anything did not wait and are in neither. If only a part of the blocks was recorded (`every:N`), the times are those of this part.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Label, Timing};
use pktgen_core::record::Family;
use pktgen_core::registry::Named;

use super::Metric;
use super::latency::describe;
use crate::labels::SYNCHRONOUS;
use crate::line::{Line, NS};
use crate::quantile::Slice;
use crate::resolved::Analysis;
use crate::rounds::ResultColumns;
use crate::stats;

/// See the module documentation.
pub(super) struct Results;

const fn recorded(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).source("TRIO §6.2, Figure 14").needs(RECORDED)
}

const fn time(metric: &'static str, definition: &'static str) -> Definition {
    recorded(metric, NS, Better::Lower, definition).timed(Timing::OneClock)
}

const fn counted(metric: &'static str, unit: &'static str, better: Better, definition: &'static str) -> Definition {
    Definition::new(metric, unit, better, definition).needs(SYNCHRONOUS)
}

/// Requirement for metrics of recorded blocks.
const RECORDED: &str = "synchronous training, capture.records = \"full\" or \"every:N\"";

const LATENCY: [Definition; 4] = [
    time(
        "result_latency_mean",
        "Mean time from a worker's contribution to the first result of its block, for results with all sources.",
    ),
    time(
        "result_latency_p50",
        "Median time from a contribution to the first result of its block, for results with all sources.",
    ),
    time(
        "result_latency_p99",
        "99th percentile of the time from a contribution to the first result of its block, for results with all sources.",
    ),
    time(
        "result_latency_max",
        "Maximum time from a contribution to the first result of its block, for results with all sources.",
    ),
];
pub(crate) const RECOVERY: [Definition; 4] = [
    time(
        "recovery_time_min",
        "Minimum time from a worker's contribution to the first result of its block, for results that lack sources.",
    ),
    time(
        "recovery_time_mean",
        "Mean time from a contribution to the first result of its block, for results that lack sources.",
    ),
    time(
        "recovery_time_p99",
        "99th percentile of the time from a contribution to the first result of its block, for results that lack sources.",
    ),
    time(
        "recovery_time_max",
        "Maximum time from a contribution to the first result of its block, for results that lack sources.",
    ),
];
const OVER_TIMEOUT: [Definition; 2] = [
    recorded(
        "recovery_over_timeout_min",
        "ratio",
        Better::Lower,
        "`recovery_time_min` divided by the device's timeout.",
    ),
    recorded(
        "recovery_over_timeout_max",
        "ratio",
        Better::Lower,
        "`recovery_time_max` divided by the device's timeout.",
    ),
];
const COUNTS: [Definition; 3] = [
    recorded("results", "results", Better::Neither, "Results received by workers (rows of `results`)."),
    recorded("results_degraded", "results", Better::Lower, "Results received by workers that lack sources."),
    recorded(
        "results_again",
        "results",
        Better::Lower,
        "Repeated results: the worker already had a result of the block.",
    ),
];
const COUNTERS: [Definition; 10] = [
    counted(
        "replies",
        "results",
        Better::Neither,
        "Results received by workers, independent of what was recorded; not counted for sums by key.",
    ),
    counted("clipped", "elements", Better::Lower, "Gradients clipped because they did not fit 32 bits after scaling; retransmissions are not counted again."),
    counted(
        "scaling_error",
        "ratio",
        Better::Lower,
        "Relative error of workers' means against those of the same workers' unscaled gradients: Σ|error| / Σ|exact| over every 64th \
         block, to 1e-9; workers that a partial result lacks are not in it.",
    )
    .source("design §4"),
    counted(
        "aggregation_latency_mean",
        NS,
        Better::Lower,
        "Mean time of a packet in devices, as counted by their programs; no value where they count none, as in real time.",
    )
    .timed(Timing::OneClock)
    .source("TRIO §6.3, Figure 15"),
    counted(
        "aggregation_rate",
        "elements/s",
        Better::Higher,
        "Mean number of gradients per packet, divided by `aggregation_latency_mean`.",
    )
    .source("TRIO §6.3, Figure 15"),
    device(
        "count",
        "Counters of devices, servers and controllers; of several the sum, or the largest (docs/records.md, Counters).",
    ),
    device("ps", "Total times counted by the programs of devices; names end in `_ps`."),
    device("ns", "Times measured by devices and servers; names end in `_ns`.").timed(Timing::OneClock),
    device("ppm", "Shares reported by devices, in millionths; names end in `_ppm`."),
    device("bytes", "Memory and traffic of devices; names end in `_bytes`."),
];

const COUNTER: [Label; 1] = [Label::new("counter", "the counter's name")];

const fn device(unit: &'static str, definition: &'static str) -> Definition {
    Definition::new("device", unit, Better::Neither, definition).labels(&COUNTER)
}

impl Named for Results {
    fn name(&self) -> &'static str {
        "results"
    }

    fn about(&self) -> &'static str {
        "synchronous training: latency of results, recovery from stragglers, counters of devices"
    }
}

impl Metric for Results {
    fn definitions(&self) -> Vec<Definition> {
        [&LATENCY[..], &RECOVERY, &OVER_TIMEOUT, &COUNTS, &COUNTERS].concat()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        // Sums by key come back in an arbitrary number of packets, which workers do not record.
        let of_blocks = run.manifest.family() != Family::Pairs;
        if let Some(results) = run.rounds.as_ref().and_then(|rounds| rounds.results.as_ref()) {
            let timeout_ps = run.manifest.training.as_ref().and_then(|training| training.timeout_ps);
            times(results, timeout_ps, of_blocks, out)?;
        }
        let counters = &run.manifest.counters;
        if run.rounds.is_some() {
            out.push(Line::new("replies", "results", of_blocks.then_some(counters.replies as f64)));
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

/// Returns the unit indicated by the name of a counter.
fn unit(counter: &str) -> &'static str {
    const UNITS: [(&str, &str); 4] = [("_ps", "ps"), ("_ns", "ns"), ("_ppm", "ppm"), ("_bytes", "bytes")];
    UNITS.iter().find(|(end, _)| counter.ends_with(end)).map_or("count", |(_, unit)| unit)
}

fn times(results: &ResultColumns, timeout_ps: Option<i64>, of_blocks: bool, out: &mut Vec<Line>) -> Result<()> {
    let n = results.t_recv_ps.len();
    let wait_ps = |row: usize| Some(results.t_recv_ps[row].saturating_sub(results.t_sent_ps[row]?));
    let waits = |degraded: bool| -> Vec<i64> {
        let first = (0..n).filter(|row| !results.again[*row] && results.degraded[*row] == degraded);
        first.filter_map(wait_ps).collect()
    };
    describe(&LATENCY, &Slice(&waits(false)), out)?;
    recovery(waits(true), timeout_ps, out);
    let count = |flags: &[bool]| flags.iter().filter(|flag| **flag).count();
    let counts = [n, count(&results.degraded), count(&results.again)];
    let counts = counts.map(|n| of_blocks.then_some(n as f64));
    out.extend(COUNTS.iter().zip(counts).map(|(definition, n)| Line::of(definition, n)));
    Ok(())
}

/// Outputs recovery times in absolute terms and in timeouts: the paper finds at most two (§6.2, Figure 14).
fn recovery(mut waits_ps: Vec<i64>, timeout_ps: Option<i64>, out: &mut Vec<Line>) {
    waits_ps.sort_unstable();
    let ns: Vec<f64> = waits_ps.iter().map(|ps| *ps as f64 / 1000.0).collect();
    let (least, most) = (ns.first().copied(), ns.last().copied());
    let values = [least, stats::mean(&ns), stats::quantile_of_sorted(&ns, 0.99), most];
    out.extend(RECOVERY.iter().zip(values).map(|(definition, value)| Line::of(definition, value)));
    let timeout = timeout_ps.filter(|timeout| *timeout > 0).map(|timeout| timeout as f64 / 1000.0);
    let over = |ns: Option<f64>| ns.zip(timeout).map(|(ns, timeout)| ns / timeout);
    out.extend(OVER_TIMEOUT.iter().zip([least, most]).map(|(definition, ns)| Line::of(definition, over(ns))));
}

/// Outputs the mean time of packets in devices, and gradients of a packet per that time (§6.3, Figure 15).
fn aggregation(run: &Analysis, out: &mut Vec<Line>) {
    let device = &run.manifest.counters.device;
    // Programs that count no times (in real time, or without a model of the chip) have a sum of 0.
    let measured = |(time_ps, packets): &(&u64, &u64)| **time_ps > 0 && **packets > 0;
    let both = device.get("packet_time_ps").zip(device.get("packets")).filter(measured);
    let ns = both.map(|(time_ps, packets)| *time_ps as f64 / 1000.0 / *packets as f64);
    out.push(Line::new("aggregation_latency_mean", NS, ns));
    let training = run.manifest.training.as_ref().filter(|training| training.blocks > 0);
    let elements = training.map(|training| training.elements as f64 / f64::from(training.blocks));
    let rate = ns.zip(elements).map(|(ns, elements)| elements / ns * 1e9);
    out.push(Line::new("aggregation_rate", "elements/s", rate));
}
