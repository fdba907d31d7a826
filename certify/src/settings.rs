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
        /// On wires: time without a frame after which the device counts as silent.
        silence: Span = "20ms" in spans(MS..=10 * SECOND), "a shorter one ends while a device still answers";
        /// Delay of a late worker.
        late: Option<Span> said "500ms on wires, 100ms in virtual time" in spans(MS..=3600 * SECOND);
        /// On wires: timeout for expected frames.
        patience: Span = "1s" in spans(..=600 * SECOND);
        /// Repeats of each clause; `--repeats` takes precedence.
        repeats: Option<u32> said "what each clause says" in 1..=1_000_000;
        /// Time after the last stimulus for which a device may keep sending; then it is not waited for.
        flood: Span = "5s" in spans(above(0));
        /// Duration of a performance trial.
        trial: Option<Span> said "1s on wires, 10ms in virtual time; --profile full: 60s, 100ms" in spans(MS..=3600 * SECOND);
        /// Total trial time that decides a rate (RFC 9971: Goal Duration Sum).
        sum: Option<Span> said "certify.trial; two with certify.exceed above 0" in spans(MS..=100_000 * SECOND);
        /// Maximum share of that time in trials with too much loss (RFC 9971: Goal Exceed Ratio).
        exceed: Option<f64> said "0; --profile full: 0.5" in 0.0..1.0;
        /// Maximum loss in a trial (RFC 9971: Goal Loss Ratio).
        loss: f64 = 0.0 in 0.0..1.0;
        /// Maximum distance of the throughput's bounds, as a share of the lower one.
        precision: Option<f64> said "0.05; --profile full: 0.01" in 0.001..=1.0;
        /// First rate to try, in contributions or updates per second.
        from: f64 = 1000.0 in above_to(0.0, 1e8);
        /// Goal: minimum throughput, in contributions or updates per second.
        throughput: Option<f64> in above(0.0);
        /// Goal: maximum of the 99th percentile of latencies at half the throughput.
        latency: Option<Span> in spans(above(0));
        /// Goal: minimum, over all repeats, of the longest burst without loss.
        burst: Option<u64> in above(0);
        /// Goal: maximum recovery time.
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
