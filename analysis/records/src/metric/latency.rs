//! Latency in devices and from host to host (design §4).
//!
//! Device: from a packet's last bit in to its departure, over all packets that departed themselves, at every device
//! that they passed. Host: from sending to reception of the packet that names an aggregate.

use pktgen_core::Result;
use pktgen_core::definition::{Better, Definition, Timing};
use pktgen_core::registry::Named;

use super::Metric;
use crate::labels::FULL;
use crate::line::{Line, NS};
use crate::quantile::{Values, nearest_ranks};
use crate::resolved::Analysis;

/// See the module documentation.
pub(super) struct Latency;

impl Named for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn about(&self) -> &'static str {
        "time in devices and from worker to server: mean, p50, p99, max"
    }
}

const fn device(metric: &'static str, definition: &'static str) -> Definition {
    Definition::new(metric, NS, Better::Lower, definition).timed(Timing::OneClock).source("design §4").needs(FULL)
}

const fn host(metric: &'static str, definition: &'static str) -> Definition {
    Definition::new(metric, NS, Better::Lower, definition).timed(Timing::OneWay).source("design §4").needs(HOST_NEEDS)
}

const HOST_NEEDS: &str = "capture.records = \"full\"; or captures of both sides";

/// Definitions for devices.
const DEVICE: [Definition; 4] = [
    device(
        "device_latency_mean",
        "Mean time in a device, from a packet's last bit in to its departure (`departed`), over packets and devices.",
    ),
    device("device_latency_p50", "Median time in a device, from a packet's last bit in to its departure."),
    device(
        "device_latency_p99",
        "99th percentile of the time in a device, from a packet's last bit in to its departure.",
    ),
    device("device_latency_max", "Maximum time in a device, from a packet's last bit in to its departure."),
];
/// Definitions for hosts.
pub const HOST: [Definition; 4] = [
    host(
        "host_latency_mean",
        "Mean time from the sending of `received.packet`, which names an aggregate, to reception.",
    ),
    host(
        "host_latency_p50",
        "Median time from the sending of `received.packet`, which names an aggregate, to reception.",
    ),
    host(
        "host_latency_p99",
        "99th percentile of the time from the sending of `received.packet`, which names an aggregate, to reception.",
    ),
    host(
        "host_latency_max",
        "Maximum time from the sending of `received.packet`, which names an aggregate, to reception.",
    ),
];

impl Metric for Latency {
    fn definitions(&self) -> Vec<Definition> {
        [DEVICE, HOST].concat()
    }

    fn compute(&self, run: &Analysis, out: &mut Vec<Line>) -> Result<()> {
        let Some(resolved) = &run.resolved else { return Ok(()) };
        describe(&DEVICE, resolved.device_ps(), out)?;
        describe(&HOST, resolved.host_ps(), out)
    }
}

/// Outputs mean, p50, p99 and maximum of spans with these four definitions.
pub fn describe(four: &[Definition; 4], spans_ps: &dyn Values, out: &mut Vec<Line>) -> Result<()> {
    let ns = |ps: i64| ps as f64 / 1000.0;
    let mut total = 0i128;
    spans_ps.scan(&mut |part| total += part.iter().map(|span| i128::from(*span)).sum::<i128>())?;
    let mean = (!spans_ps.is_empty()).then(|| total as f64 / spans_ps.len() as f64 / 1000.0);
    let ranks = nearest_ranks(spans_ps, [0.5, 0.99, 1.0])?.map(|ranks| ranks.map(ns));
    let values = [mean, ranks.map(|r| r[0]), ranks.map(|r| r[1]), ranks.map(|r| r[2])];
    out.extend(four.iter().zip(values).map(|(definition, value)| Line::of(definition, value)));
    Ok(())
}
