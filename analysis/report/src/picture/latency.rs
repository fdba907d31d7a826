//! Latencies as cumulative shares: in devices, from worker to server, and of results.

use pktgen_core::registry::Named;

use super::Picture;
use super::age_cdf::{curves, of};
use crate::chart::Chart;
use crate::sweep::data::SweepData;

/// See the module documentation.
pub(super) struct Latency;

impl Named for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn about(&self) -> &'static str {
        "CDF of the time in devices, from worker to server, and from contribution to result"
    }
}

impl Picture for Latency {
    fn heading(&self) -> &'static str {
        "Latency"
    }

    fn charts(&self, sweep: &SweepData) -> Vec<Chart> {
        let device = of("Time of packets in a device (CDF)", "time in the device", "share of packets");
        let host = of("Time from worker to server (CDF)", "time from worker to server", "share of packets");
        let result = of("Time from contribution to result (CDF)", "time to the result", "share of results");
        let mut charts = curves(sweep, &device, |kept| &kept.device_cdf);
        charts.extend(curves(sweep, &host, |kept| &kept.host_cdf));
        charts.extend(curves(sweep, &result, |kept| &kept.result_cdf));
        charts
    }

    fn is_of_first_seed(&self, sweep: &SweepData) -> bool {
        let means = ["device_latency_mean", "host_latency_mean", "result_latency_mean"];
        means.iter().any(|mean| sweep.units.contains_key(*mean))
    }
}
