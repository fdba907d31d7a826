//! Load and queue of a link, for comparison with a plan.

use pktgen_core::record::LinkLoad;
use pktgen_core::units::Size;

use crate::frame::{Frame, Kind};

/// The meter of one direction of a link.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    overhead_bits: u64,
    /// The number of the first message.
    first_number: Option<u32>,
    /// What was measured.
    pub load: LinkLoad,
}

impl Meter {
    /// A meter of a link with this overhead per frame.
    pub fn new(overhead: Size) -> Self {
        Meter { overhead_bits: overhead.bits(), ..Meter::default() }
    }

    /// Records a frame offered to the link, at `frame.t`.
    #[inline]
    pub fn offered(&mut self, frame: &Frame) {
        let bits = u64::from(frame.len) * 8 + self.overhead_bits;
        // Messages of the first round have the number of the first.
        let number = matches!(frame.kind, Kind::Update | Kind::Result).then(|| frame.packet.seq());
        self.first_number = self.first_number.or(number);
        self.load.offered(frame.t, bits, number.is_some() && number == self.first_number);
    }

    /// Records a frame that crosses the link.
    #[inline]
    pub fn carried(&mut self, frame: &Frame) {
        self.load.messages += u64::from(matches!(frame.kind, Kind::Update | Kind::Result));
    }

    /// Records the number of waiting frames.
    #[inline]
    pub fn waiting(&mut self, frames: u64) {
        self.load.queue_max = self.load.queue_max.max(frames);
    }
}
