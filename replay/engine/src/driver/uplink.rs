//! The network interface of a host or server in virtual time.

use pktgen_core::time::{HORIZON, Serialiser, Time};
use pktgen_core::topology::Link;

use crate::frame::Frame;
use crate::target::meter::Meter;

/// An unlimited queue before the one link of a host or server.
pub(super) struct Uplink {
    /// The link, as an index into the topology's.
    pub(super) link: u32,
    wire: Serialiser,
    delay: Time,
    /// Time from which the link is idle.
    pub(super) free_at: Time,
    /// Load of the link, if it is measured.
    pub(super) meter: Option<Box<Meter>>,
}

impl Uplink {
    /// An uplink before `link`, which is number `index` of the topology.
    pub(super) fn new(index: u32, link: &Link, metered: bool) -> Self {
        Uplink {
            link: index,
            wire: Serialiser::new(link.rate, link.overhead),
            delay: link.delay,
            free_at: 0,
            meter: metered.then(|| Box::new(Meter::new(link.overhead))),
        }
    }

    /// Sends `frame`; returns when it leaves, and when it arrives.
    #[inline]
    pub(super) fn send(&mut self, frame: &Frame) -> (Time, Time) {
        let leaves = self.free_at.max(frame.t);
        let lasts = self.wire.take(u32::from(frame.len));
        if let Some(meter) = &mut self.meter {
            meter.offered(frame);
            meter.carried(frame);
            // The number of waiting frames is estimated from this frame's duration: their sizes are no longer known.
            meter.waiting(((leaves - frame.t) as u64).div_ceil(lasts.max(1) as u64));
        }
        // Capped at twice the horizon, when the run has been stopped long ago, so that nothing wraps.
        self.free_at = (leaves + lasts).min(2 * HORIZON);
        (leaves, self.free_at + self.delay)
    }
}
