//! What a link carries and what waits for it, where a plan has said it beforehand.

use pktgen_core::record::LinkLoad;
use pktgen_core::units::Size;

use crate::frame::{Frame, Kind};

/// Of one direction of a link.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    overhead_bits: u64,
    /// What was measured.
    pub load: LinkLoad,
}

impl Meter {
    /// Of a link with this overhead per frame.
    pub fn new(overhead: Size) -> Self {
        Meter { overhead_bits: overhead.bits(), load: LinkLoad::default() }
    }

    /// A frame is to cross the link, at `frame.t`.
    #[inline]
    pub fn offered(&mut self, frame: &Frame) {
        let bits = u64::from(frame.len) * 8 + self.overhead_bits;
        let load = &mut self.load;
        load.bits += bits;
        match &mut load.offered_ps {
            Some((first, last)) => {
                load.first_bits += if frame.t == *first { bits } else { 0 };
                *last = frame.t;
            }
            None => (load.offered_ps, load.first_bits) = (Some((frame.t, frame.t)), bits),
        }
    }

    /// A frame crosses it.
    #[inline]
    pub fn carried(&mut self, frame: &Frame) {
        self.load.messages += u64::from(matches!(frame.kind, Kind::Update | Kind::Result));
    }

    /// So many wait for it.
    #[inline]
    pub fn waiting(&mut self, frames: u64) {
        self.load.queue_max = self.load.queue_max.max(frames);
    }
}
