//! The books of a device about every packet that it handles.

use pktgen_core::record::{Action, Book, PacketId, Reason};
use pktgen_core::time::Time;

use crate::frame::{Frame, Kind};

/// Rows of one device, drained by the driver, in the order of events.
#[derive(Debug, Default)]
pub struct Books {
    /// The device.
    pub node: u16,
    /// The rows.
    pub rows: Vec<Book>,
    /// Control frames that were dropped; they have no rows.
    pub control_dropped: u64,
    /// Frames with results that were dropped, if a driver collects them.
    pub results_dropped: Option<Vec<(PacketId, Reason)>>,
}

impl Books {
    #[inline]
    fn push(
        &mut self,
        t: Time,
        packet_in: PacketId,
        action: Action,
        packet_out: Option<PacketId>,
        reason: Option<Reason>,
    ) {
        // A copy made by the network: its original has a row.
        if packet_in == PacketId::NOBODY {
            return;
        }
        self.rows.push(Book { t, node: self.node, packet_in, action, packet_out, reason });
    }

    /// Records that `frame` waits, departs or goes around the queue.
    #[inline]
    pub fn passes(&mut self, t: Time, frame: &Frame, action: Action) {
        if frame.is_booked() {
            self.push(t, frame.packet, action, None, None);
        }
    }

    /// Records that `lost` became part of `stays`, or was subsumed or outranked by it.
    #[inline]
    pub fn yields(&mut self, t: Time, lost: PacketId, action: Action, stays: PacketId) {
        self.push(t, lost, action, Some(stays), None);
    }

    /// Records the loss of `packet` and of everything that was added to it.
    pub fn lost(&mut self, t: Time, packet: PacketId, reason: Reason) {
        self.push(t, packet, Action::Dropped, None, Some(reason));
    }

    /// Records that `frame` is dropped; `winner` is the packet that displaced it, if any.
    #[inline]
    pub fn dropped(&mut self, t: Time, frame: &Frame, reason: Reason, winner: Option<PacketId>) {
        if frame.is_booked() {
            self.push(t, frame.packet, Action::Dropped, winner, Some(reason));
        } else {
            self.control_dropped += 1;
            if let Some(results) = &mut self.results_dropped
                && frame.kind == Kind::Result
                && frame.packet != PacketId::NOBODY
            {
                results.push((frame.packet, reason));
            }
        }
    }
}
