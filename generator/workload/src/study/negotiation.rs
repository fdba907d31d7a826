//! `kind = "negotiation"`: how long workers take to agree on a scaling factor (LIBRA §5.5, Figure 17).
//!
//! A worker sends its largest exponent, a coordinator collects those of all and answers each. Our model: a fixed time of
//! hosts (kernel launches, copies, wake-ups: a negotiation stands between two phases of an iteration), a time per
//! worker at the coordinator, and the wires. The paper states two numbers, and the two times of hosts are fitted to
//! them; the wires alone take microseconds, and are told beside it.

use super::{Finding, Study, Task};
use crate::Result;
use crate::config::{KeyTables, Section, above, settings};
use crate::definition::{Better, Definition, Timing};
use crate::registry::Named;
use crate::time::SECOND;
use crate::units::{Rate, Span};

/// See the module.
pub(super) struct Negotiation;

/// The smallest Ethernet frame with preamble, FCS and gap: an exponent is one byte.
const FRAME_BITS: f64 = 84.0 * 8.0;
/// Picoseconds of a nanosecond.
const PS: f64 = 1000.0;

static METRICS: [Definition; 2] = [
    Definition::new(
        "negotiation_delay",
        "ns",
        Better::Lower,
        "Delay of agreeing on a scaling factor, per iteration: host processing (fitted) plus network.",
    )
    .timed(Timing::OneClock)
    .source("LIBRA Figure 17"),
    Definition::new(
        "negotiation_wire",
        "ns",
        Better::Lower,
        "Network part of `negotiation_delay`: a round trip and all frames.",
    )
    .timed(Timing::OneClock)
    .source("LIBRA Figure 17"),
];

impl Named for Negotiation {
    fn name(&self) -> &'static str {
        "negotiation"
    }

    fn about(&self) -> &'static str {
        "delay of agreeing on a scaling factor, per iteration, hosts fitted (LIBRA Figure 17)"
    }
}

settings! {
    /// What it reads from `[study]`.
    struct Settings {
        /// Workers that negotiate.
        workers: u32 = 8 in 1..=u32::MAX;
        /// Round-trip time of a minimum-size frame.
        round_trip: Span = "10us";
        /// Rate of the coordinator's link.
        rate: Rate = "100Gbps" in above(Rate::from_bps(0));
        /// Host processing time, independent of the number of workers; fitted.
        host_time: Span = "90ms";
        /// Processing time of the coordinator per worker; fitted.
        worker_time: Span = "1.25ms";
    }
}

impl Study for Negotiation {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn metrics(&self) -> &'static [Definition] {
        &METRICS
    }

    fn read(&self, section: &mut Section) -> Result<Task> {
        let Settings { workers, round_trip, rate, host_time, worker_time } = Settings::read(section)?;
        let [round_trip, host, each] = [round_trip, host_time, worker_time].map(|span| span.ps() as f64 / PS);
        let frame_ns = FRAME_BITS / rate.bps() as f64 * (SECOND as f64 / PS);
        // Requests queue at the coordinator's link, answers leave it one after another.
        let wire = round_trip + 2.0 * f64::from(workers) * frame_ns;
        let delay = host + f64::from(workers) * each + wire;
        let found = vec![Finding::new("negotiation_delay", "ns", delay), Finding::new("negotiation_wire", "ns", wire)];
        Ok(Box::new(move |_, _| Ok(found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn find(workers: i64) -> Vec<f64> {
        let mut section = Section::of("study", &[("workers", workers.into())]);
        Negotiation.run(&mut section, Seed(1)).unwrap().iter().filter_map(|finding| finding.value).collect()
    }

    #[test]
    fn the_two_published_delays_are_met_and_wires_take_microseconds() {
        for (workers, published) in [(8, 100e6), (32, 130e6)] {
            let [delay, wire] = find(workers)[..] else { panic!("two findings") };
            assert!((delay - published).abs() < 1e6, "{workers}: {delay}");
            assert!((10_000.0..11_000.0).contains(&wire), "{wire}");
        }
        // By hand: 84 bytes at 100 Gbit/s last 6.72 ns.
        assert!((find(1)[1] - 10_013.44).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for (key, value) in [("workers", 0i64.into()), ("rate", "0Gbps".into()), ("host_time", "much".into())] {
            let message = Negotiation.run(&mut Section::of("study", &[(key, value)]), Seed(1)).unwrap_err().to_string();
            assert!(message.contains(&format!("study.{key}")), "{message}");
        }
    }
}
