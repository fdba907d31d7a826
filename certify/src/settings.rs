//! `[certify]`: how long benches wait, and how often clauses are carried out.

use pktgen_core::Result;
use pktgen_core::config::{Document, above, above_to, settings, spans};
use pktgen_core::time::{MS, SECOND, Time};
use pktgen_core::units::Span;

/// How long a late worker stays away, where nothing is said: on wires, and in virtual time.
const LATE: [Time; 2] = [500 * MS, 100 * MS];

settings! {
    /// What `[certify]` says.
    #[derive(Debug, Clone, Copy)]
    pub struct CertifySettings {
        /// On wires, the device is silent when no frame has come for so long.
        silence: Span = "20ms" in spans(MS..=10 * SECOND), "a shorter one ends while a device still answers";
        /// How long a late worker stays away.
        late: Option<Span> said "500ms on wires, 100ms in virtual time" in spans(MS..=3600 * SECOND);
        /// On wires, how long frames that must come are awaited.
        patience: Span = "1s" in spans(..=600 * SECOND);
        /// Repeats of each clause; `--repeats` wins.
        repeats: Option<u32> said "what each clause says" in 1..=1_000_000;
        /// A device that sends for so long after the last frame went in is not silent, and is not waited for.
        flood: Span = "5s" in spans(above(0));
        /// Length of a trial of performance.
        trial: Option<Span> said "1s on wires, 10ms in virtual time; --profile full: 60s, 100ms" in spans(MS..=3600 * SECOND);
        /// Time of trials that decides about a rate (RFC 9971: Goal Duration Sum).
        sum: Option<Span> said "certify.trial; two with certify.exceed above 0" in spans(MS..=100_000 * SECOND);
        /// Share of that time that trials with too much loss may take (RFC 9971: Goal Exceed Ratio).
        exceed: Option<f64> said "0; --profile full: 0.5" in 0.0..1.0;
        /// Share of a trial that may be lost (RFC 9971: Goal Loss Ratio).
        loss: f64 = 0.0 in 0.0..1.0;
        /// The bounds of the throughput are at most so far apart, as a share of the lower one.
        precision: Option<f64> said "0.05; --profile full: 0.01" in 0.001..=1.0;
        /// First rate to try, in contributions or updates per second.
        from: f64 = 1000.0 in above_to(0.0, 1e8);
        /// Goal: the throughput, in contributions or updates per second, is at least this.
        throughput: Option<f64> in above(0.0);
        /// Goal: 99 % of latencies at half the throughput are at most this.
        latency: Option<Span> in spans(above(0));
        /// Goal: the shortest of the longest bursts without loss has at least so many.
        burst: Option<u64> in above(0);
        /// Goal: the longest recovery is at most this.
        recovery: Option<Span> in spans(above(0));
    }
}

impl CertifySettings {
    /// What an experiment says.
    pub fn of(document: &mut Document) -> Result<Self> {
        let mut section = document.section("certify")?;
        let own = Self::read(&mut section)?;
        document.close(section)?;
        Ok(own)
    }

    /// How long a late worker stays away, on wires or in virtual time.
    pub fn late(&self, on_wires: bool) -> Time {
        self.late.map_or(LATE[usize::from(!on_wires)], Span::ps)
    }
}
