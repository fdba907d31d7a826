//! Frames on links with faults: lost, passed twice, or held; and results that were lost.

use pktgen_core::Result;
use pktgen_core::record::{Action, Book, PacketId, Reason};
use pktgen_core::time::{NEVER, Time};

use super::super::faults::Strike;
use super::{Place, Simulation, lend};
use crate::frame::{Frame, Kind};
use crate::recorder::Recorder;

impl Simulation {
    /// Handles the arrival of `frame` over `link`, which has faults.
    pub(super) fn arrive_perhaps(&mut self, link: usize, frame: Frame, recorder: &mut dyn Recorder) -> Result<()> {
        let Some(faults) = &mut self.faults else { return Ok(()) };
        match faults.strike(link, &frame) {
            Strike::Lost(node) => {
                if let Place::Device(device) = &mut self.places[node as usize] {
                    lend(self.shares_rows, &mut self.rows, &mut device.books.rows);
                    device.books.dropped(frame.t, &frame, Reason::Fault, None);
                }
                self.pool.release(frame.buffer);
                // A device of another process keeps no books.
                if matches!(self.places[node as usize], Place::Device(_)) {
                    self.settle_device(node, recorder)?;
                }
            }
            Strike::Held => {}
            Strike::Passes => self.arrive(link, frame, recorder)?,
            Strike::Twice => self.arrive_twice(link, frame, recorder)?,
        }
        self.release_held(link, frame.t, recorder)
    }

    /// Handles the arrival of `frame` and of a copy.
    fn arrive_twice(&mut self, link: usize, frame: Frame, recorder: &mut dyn Recorder) -> Result<()> {
        // A copy of the bytes: a device may write to either frame.
        self.pool.share(frame.buffer);
        let buffer = self.pool.unshare(frame.buffer);
        // Accounts that count each worker once drop the copy of a contribution: nobody sent it, so it gets no row.
        let unsent = frame.kind == Kind::Update && !self.unsettled && self.ledger.counts_once();
        let packet = if unsent { PacketId::NOBODY } else { frame.packet };
        self.arrive(link, frame, recorder)?;
        self.arrive(link, Frame { buffer, packet, ..frame }, recorder)
    }

    /// Books results of which every copy was dropped, at the end of a run that ended by itself. Before the end it is not known: a switch
    /// may send a result again under the same id.
    pub(super) fn book_lost_results(&mut self, recorder: &mut dyn Recorder) -> Result<()> {
        for (packet_in, (node, reason)) in std::mem::take(&mut self.results_dropped) {
            if self.ledger.is_result_under_way(packet_in) {
                let (t, action) = (self.counters.end_ps, Action::Dropped);
                let row = Book { t, node, packet_in, action, packet_out: None, reason: Some(reason) };
                self.ledger.book(&row);
                recorder.book(&row)?;
            }
        }
        Ok(())
    }

    /// Releases frames on `link` that have been held long enough.
    pub(super) fn release_held(&mut self, link: usize, t: Time, recorder: &mut dyn Recorder) -> Result<()> {
        while let Some((frame, twice)) = self.faults.as_mut().and_then(|faults| faults.release(link, t)) {
            match twice {
                true => self.arrive_twice(link, frame, recorder)?,
                false => self.arrive(link, frame, recorder)?,
            }
        }
        let next = self.faults.as_ref().map_or(NEVER, |faults| faults.next().0);
        self.calendar.set(self.faults_slot, next);
        Ok(())
    }
}
