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
    /// The remainder of [`wire`](Self::wire) when the link was last idle.
    idle_remainder: u64,
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
            idle_remainder: 0,
            meter: metered.then(|| Box::new(Meter::new(link.overhead))),
        }
    }

    /// Sends `frame`; returns when it leaves, and when it arrives.
    #[inline]
    pub(super) fn send(&mut self, frame: &Frame) -> (Time, Time) {
        let leaves = self.free_at.max(frame.t);
        let bytes = u32::from(frame.len);
        if let Some(meter) = &mut self.meter {
            meter.offered(frame);
            meter.carried(frame);
            if leaves > frame.t {
                // The number of waiting frames is estimated from the length of this one: theirs are no longer known.
                meter.waiting(self.wire.frames_in(leaves - frame.t, bytes, self.idle_remainder));
            } else {
                self.idle_remainder = self.wire.remainder();
            }
        }
        let lasts = self.wire.take(bytes);
        // Capped at twice the horizon, when the run has been stopped long ago, so that nothing wraps.
        self.free_at = (leaves + lasts).min(2 * HORIZON);
        (leaves, self.free_at + self.delay)
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::PacketId;
    use pktgen_core::units::{Rate, Size};

    use super::*;
    use crate::frame::{Kind, Pool};

    /// Frames of 746,666.67 ps, four at once: three wait, also behind the fraction that earlier ones left.
    #[test]
    fn frames_that_last_no_whole_picoseconds_are_counted_exactly() {
        let (rate, overhead) = (Rate::from_bps(3_000_000_000), Size::from_bytes(24));
        let link = Link { from: 0, to: 1, rate, delay: 0, overhead, slots: None };
        let mut uplink = Uplink::new(0, &link, true);
        let buffer = Pool::new(64, 1).take();
        let (packet, kind) = (PacketId::new(0, 0, 0), Kind::Update);
        for t in [0, 10_000_000, 20_000_000] {
            let frame = Frame { t, packet, buffer, worker: 0, len: 256, cluster: 0, flow: 0, head: 42, kind };
            for waiting in 0..4 {
                uplink.send(&frame);
                let most = uplink.meter.as_ref().unwrap().load.queue_max;
                assert_eq!(most, if t == 0 { waiting } else { 3 });
            }
        }
        // A frame that comes a picosecond before the link is idle waits.
        uplink.meter = Some(Box::new(Meter::new(overhead)));
        let t = uplink.free_at - 1;
        uplink.send(&Frame { t, packet, buffer, worker: 0, len: 256, cluster: 0, flow: 0, head: 42, kind });
        assert_eq!(uplink.meter.unwrap().load.queue_max, 1);
    }
}
