//! A server that processes one message after another: the time of each, and when it is free again.

use pktgen_core::Result;
use pktgen_core::config::{Section, settings, spans};
use pktgen_core::time::{HORIZON, SECOND, Time};
use pktgen_core::units::Span;

/// Pairs per second of a server. A parameter, not in the paper: one thread looks up about 10⁷ keys per second in a hash table (our guess),
/// and this corresponds to ten of them. A machine of the testbed has 64 cores (LIBRA §5.1): 64 threads are the maximum, which
/// `configs/libra/figure18.toml` uses. Figures 12 to 14 are fitted with 2.5 of them; a link of 100 Gbit/s delivers 10⁹ pairs.
const RATE: i64 = 100_000_000;

settings! {
    /// What says how long a message takes.
    pub(crate) struct Written {
        /// Service rate of a server in pairs per second; 0: unlimited. Not in the paper.
        service_rate: i64 = RATE in 0..=SECOND, "0 pairs per second are no limit";
        /// Service time per message, in addition to that of its pairs.
        service_per_packet: Span = "0ns" in spans(0..=SECOND);
    }
}

/// A first-in first-out server.
#[derive(Debug, Clone)]
pub(super) struct Service {
    /// Pairs per second; 0 if they take no time.
    rate: i64,
    per_packet: Time,
    free_at: Time,
    /// Total processing time.
    busy: Time,
    /// Number of pairs added or read.
    pairs: u64,
}

impl Service {
    /// Reads `service_rate` and `service_per_packet`. In real time a server takes its actual time.
    pub(super) fn read(section: &mut Section, real_time: bool) -> Result<Self> {
        let Written { service_rate, service_per_packet } = Written::read(section)?;
        if real_time {
            return Ok(Service::new(0, 0));
        }
        Ok(Service::new(service_rate, service_per_packet.ps()))
    }

    pub(super) fn new(rate: i64, per_packet: Time) -> Self {
        Service { rate, per_packet, free_at: 0, busy: 0, pairs: 0 }
    }

    /// Returns when a message with `pairs` pairs that is available at `t` is processed.
    #[inline]
    pub(super) fn serve(&mut self, t: Time, pairs: usize) -> Time {
        let per_pair = if self.rate > 0 { pairs as Time * SECOND / self.rate } else { 0 };
        self.pairs += pairs as u64;
        self.busy += per_pair + self.per_packet;
        // Limited to twice the horizon, where the run has long been stopped, so that nothing overflows.
        self.free_at = (self.free_at.max(t) + per_pair + self.per_packet).min(2 * HORIZON);
        self.free_at
    }

    /// Returns the processing time, including that of queued messages.
    pub(super) fn busy(&self) -> Time {
        self.busy
    }

    /// Returns the number of pairs added or read.
    pub(super) fn pairs(&self) -> u64 {
        self.pairs
    }
}
