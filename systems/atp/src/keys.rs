//! The keys that ATP's workers, server, switch and queue read.

use pktgen_core::config::{above, settings, spans};
use pktgen_core::time::SECOND;
use pktgen_core::units::Span;

use crate::hash::AGGREGATORS_MAX;

/// Number of packets of the largest window, which is also the first one (`max_agtr_size_per_thread`, `MAX_BYTES`).
pub(crate) const WINDOW: u32 = 100;
/// The public program marks from 1,000 cells of 80 bytes on; a packet of 316 bytes has four.
const MARK_AT: u32 = 250;
/// Maximum number of frames at a port: 20 MB, like typical shared buffers.
pub(crate) const SLOTS: u32 = 65_536;

settings! {
    /// What workers read from `[endpoint]`, beside what all of synchronous training do.
    pub(crate) keys Workers {
        /// Maximum window: packets in flight, counted from the oldest one without a result.
        window: u32 = WINDOW in 1..=u32::from(AGGREGATORS_MAX);
        /// Aggregators of the switch that packets are hashed to; at least `window`.
        aggregators: u32 = (u32::from(AGGREGATORS_MAX)) in 1..=u32::from(AGGREGATORS_MAX);
        /// Whether the window adapts to congestion marks in results.
        congestion_control: bool = true;
        /// Retransmission timeout of a packet without a result. The public client waits for 50 ms before the first
        /// result of a tensor.
        retransmit: Span = "200us" in above(Span::from_ps(0));
    }
}

settings! {
    /// What the server reads, too.
    pub(crate) keys Server {
        /// Service time of the server per packet.
        service_time: Span = "0ns" in spans(0..=SECOND);
    }
}

settings! {
    /// What the switch reads from `[target]`.
    pub(crate) keys Switch {
        /// Aggregators of the switch; 0: all packets are forwarded.
        aggregators: u32 = (u32::from(AGGREGATORS_MAX)) in 0..=u32::from(AGGREGATORS_MAX);
    }
}

settings! {
    /// What the queue reads from `[target]`.
    pub(crate) keys Queueing {
        /// Queue length in frames, unless the topology has its own.
        slots: u32 = SLOTS in 1..=1 << 20;
        /// Whether the frame in transmission keeps its slot.
        slot_in_transmission: bool = true;
        /// Congestion mark: a departing frame is marked if at least this many frames wait behind it.
        mark_at: u32 = MARK_AT in 0..=1 << 20;
    }
}
