//! The keys that ATP's workers, server, switch and queue read.

use pktgen_core::config::{above, settings, spans};
use pktgen_core::time::SECOND;
use pktgen_core::units::Span;

use crate::hash::AGGREGATORS_MAX;

/// Packets of the largest window, and of the first one (`max_agtr_size_per_thread`, `MAX_BYTES`).
pub(crate) const WINDOW: u32 = 100;
/// The public program marks from 1,000 cells of 80 bytes on; a packet of 316 bytes has four.
const MARK_AT: u32 = 250;
/// Frames that a port can hold: 20 MB, as shared buffers have.
pub(crate) const SLOTS: u32 = 65_536;

settings! {
    /// What workers read from `[endpoint]`, beside what all of synchronous training do.
    pub(crate) keys Workers {
        /// Packets from the oldest one without a result on that may be under way, at most.
        window: u32 = WINDOW in 1..=u32::from(AGGREGATORS_MAX);
        /// Aggregators of the switch that packets are hashed to, at least as many as `window`.
        aggregators: u32 = (u32::from(AGGREGATORS_MAX)) in 1..=u32::from(AGGREGATORS_MAX);
        /// Lets the window follow the marks of results.
        congestion_control: bool = true;
        /// Time without a result after which a packet is sent again. The public client waits for 50 ms before the first result
        /// of a tensor.
        retransmit: Span = "200us" in above(Span::from_ps(0));
    }
}

settings! {
    /// What the server reads, too.
    pub(crate) keys Server {
        /// Time that it takes for a packet.
        service_time: Span = "0ns" in spans(0..=SECOND);
    }
}

settings! {
    /// What the switch reads from `[target]`.
    pub(crate) keys Switch {
        /// Aggregators of the switch; without any it forwards all.
        aggregators: u32 = (u32::from(AGGREGATORS_MAX)) in 0..=u32::from(AGGREGATORS_MAX);
    }
}

settings! {
    /// What the queue reads from `[target]`.
    pub(crate) keys Queueing {
        /// Frames that a queue has room for, where the topology does not say.
        slots: u32 = SLOTS in 1..=1 << 20;
        /// Whether the frame in transmission keeps its slot.
        slot_in_transmission: bool = true;
        /// Frames behind one that is marked when it leaves.
        mark_at: u32 = MARK_AT in 0..=1 << 20;
    }
}
