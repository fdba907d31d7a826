//! What a device writes down about every packet it handles.

use pktgen_core::record::{Action, Book, PacketId, Reason};
use pktgen_core::time::Time;

use crate::frame::Frame;

/// Rows of one device, drained by the driver; the order is the order in which things happened.
#[derive(Debug, Default)]
pub struct Books {
    /// The device that writes.
    pub node: u16,
    /// The rows.
    pub rows: Vec<Book>,
    /// Control frames that were dropped; they have no rows.
    pub control_dropped: u64,
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
        // A copy that a network made: its original has a row.
        if packet_in == PacketId::NOBODY {
            return;
        }
        self.rows.push(Book { t, node: self.node, packet_in, action, packet_out, reason });
    }

    /// `frame` waits, departs or goes around the queue.
    #[inline]
    pub fn passes(&mut self, t: Time, frame: &Frame, action: Action) {
        if frame.is_booked() {
            self.push(t, frame.packet, action, None, None);
        }
    }

    /// `lost` became part of `stays`, or was subsumed or outranked by it.
    #[inline]
    pub fn yields(&mut self, t: Time, lost: PacketId, action: Action, stays: PacketId) {
        self.push(t, lost, action, Some(stays), None);
    }

    /// What became of `packet` and all that was added to it is lost.
    pub fn lost(&mut self, t: Time, packet: PacketId, reason: Reason) {
        self.push(t, packet, Action::Dropped, None, Some(reason));
    }

    /// `frame` is dropped; `winner` is what it lost against, if anything.
    #[inline]
    pub fn dropped(&mut self, t: Time, frame: &Frame, reason: Reason, winner: Option<PacketId>) {
        if frame.is_booked() {
            self.push(t, frame.packet, Action::Dropped, winner, Some(reason));
        } else {
            self.control_dropped += 1;
        }
    }
}
