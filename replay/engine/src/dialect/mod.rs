//! Dialects: frames in the layout that devices expect, without a header of ours (docs/strict.md). One per file of a system.
//!
//! A dialect translates our frames into those of a device, and a device's frames back into frames with our header,
//! using only knowledge that is really available at that end. It sees frames only, no wires.

use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::time::Time;
use pktgen_core::topology::Population;
use pktgen_wire::wire::frame::is_whole;

/// The senders and their traffic.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// Workers and clusters.
    pub workers: Arc<Population>,
    /// The wire format.
    pub format: &'static str,
    /// Packets per worker and iteration, in synchronous training; else 0.
    pub packets: u32,
    /// Maximum number of packets of a worker under way.
    pub window: u32,
    /// Whether every worker sends each of its updates once, in order, regardless of what comes back.
    pub plain: bool,
}

/// Translates frames of one wire format at one end of a cable.
pub trait Dialect: Send {
    /// Returns the number of copies that a frame becomes: several if its receivers must be addressed one by one. At most a burst.
    fn copies(&self, _frame: &[u8]) -> usize {
        1
    }

    /// Translates one of our frames into `out`, which has room for the run's largest frame, and returns the length;
    /// `None` if the frame is sent unchanged. A frame that the wire did not accept is translated again.
    fn outward(&mut self, frame: &[u8], out: &mut [u8]) -> Option<usize>;

    /// Translates one of several copies.
    fn copy(&mut self, frame: &[u8], _copy: usize, out: &mut [u8]) -> Option<usize> {
        self.outward(frame, out)
    }

    /// Translates a frame of a device, found at `now`, into one with our header in `out`. `None` if it is not of this format, and for frames that
    /// hosts drop or hold back: those shorter than their IPv4 or UDP length, and fragments.
    fn inward(&mut self, frame: &[u8], now: Time, out: &mut [u8]) -> Option<usize> {
        if is_whole(frame, 0) { self.inward_whole(frame, now, out) } else { None }
    }

    /// The same for a frame that holds all of its datagram. Called by [`inward`](Dialect::inward) only.
    fn inward_whole(&mut self, frame: &[u8], now: Time, out: &mut [u8]) -> Option<usize>;
}

/// The registration of a dialect.
#[derive(Debug)]
pub struct DialectKind {
    /// The value of the key.
    pub word: &'static str,
    /// The wire format whose frames it translates.
    pub format: &'static str,
    /// The wire format on the cable.
    pub on_wire: &'static str,
    /// Its name in profiles of devices.
    pub device: &'static str,
    /// Maximum growth of a frame, in bytes.
    pub growth: usize,
    /// Returns the length on the wire of an update that has this length with our header.
    pub length: fn(usize) -> usize,
    /// Whether payloads do not identify updates: only addresses identify the sender.
    pub headless: bool,
    /// Opens it at one end; `None` if devices expect our layout.
    pub open: fn(&Traffic) -> OpenedDialect,
}

/// A dialect at one end; `None` if nothing is to be translated.
pub(crate) type OpenedDialect = Result<Option<Box<dyn Dialect>>>;

/// Dialects for foreign devices.
pub type Dialects = &'static [&'static DialectKind];

#[cfg(test)]
mod tests {
    use pktgen_wire::wire::frame::{SERVER_IP, Template, worker_ip};

    use super::*;

    /// Takes every frame.
    struct Any;

    impl Dialect for Any {
        fn outward(&mut self, _frame: &[u8], _out: &mut [u8]) -> Option<usize> {
            None
        }

        fn inward_whole(&mut self, frame: &[u8], _now: Time, _out: &mut [u8]) -> Option<usize> {
            Some(frame.len())
        }
    }

    #[test]
    fn frames_that_hosts_would_not_take_are_of_no_format() {
        let mut frame = [0; 100];
        Template::new((SERVER_IP, 1), (worker_ip(0), 2), frame.len()).emit(&mut frame);
        assert_eq!(Any.inward(&frame, 0, &mut []), Some(100));
        assert_eq!(Any.inward(&frame[..99], 0, &mut []), None, "shorter than its packet");
        // Lengths of IPv4 and UDP, and fragments: the first, and a later one.
        for (at, byte) in [(16, 8), (38, 8), (20, 0x20), (21, 5)] {
            let mut wrong = frame;
            wrong[at] |= byte;
            assert_eq!(Any.inward(&wrong, 0, &mut []), None, "{at}");
        }
    }
}
