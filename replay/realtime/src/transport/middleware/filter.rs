//! A filter over frames, and the wire behind a filter, which passes on everything that the filter does not change.

use pktgen_core::Result;

use crate::transport::{Arrival, Found, Submitted, Wire, WireCounters};

/// Offers a burst to the next layer towards the cable.
pub(super) type Offer<'a> = dyn FnMut(&[&[u8]]) -> Result<Submitted> + 'a;
/// Fetches at most `usize` frames that have arrived there, and returns their number.
pub(super) type Fetch<'a> = dyn FnMut(usize, &mut dyn FnMut(Arrival<'_>)) -> Result<usize> + 'a;

/// Changes frames or their timing. By default frames pass unchanged.
pub(super) trait Filter: Send {
    /// Handles a departing burst, as in [`Wire::send`]. Whether more is refused is decided by the wire to which it was offered.
    fn outward(&mut self, frames: &[&[u8]], offer: &mut Offer<'_>) -> Result<Submitted> {
        offer(frames)
    }

    /// Handles an arriving burst, as in [`Wire::receive`].
    fn inward(&mut self, most: usize, fetch: &mut Fetch<'_>, each: &mut dyn FnMut(Arrival<'_>)) -> Result<usize> {
        fetch(most, each)
    }

    /// Returns a received frame as it was before [`inward`](Self::inward).
    fn on_cable<'a>(&'a mut self, frame: &'a [u8]) -> &'a [u8] {
        frame
    }

    /// Returns the time until the first held frame is due, in ns; `None` if none is held.
    fn due_ns(&self) -> Option<u64> {
        None
    }

    /// Sends held frames that are due, or all; returns whether none of these is left.
    fn release(&mut self, _all: bool, _offer: &mut Offer<'_>) -> Result<bool> {
        Ok(true)
    }

    /// Returns its mode, for the manifest.
    fn mode(&self) -> String;

    /// Returns notes for the manifest. Called once, after the last frame.
    fn notes(&mut self) -> Vec<(String, String)>;
}

/// A wire behind a filter.
pub(super) struct Filtered<F> {
    pub(super) filter: F,
    wire: Box<dyn Wire>,
}

impl<F: Filter> Filtered<F> {
    pub(super) fn new(wire: Box<dyn Wire>, filter: F) -> Self {
        Filtered { filter, wire }
    }

    fn release(&mut self, all: bool) -> Result<bool> {
        let Filtered { filter, wire } = self;
        filter.release(all, &mut |frames| wire.send(frames))
    }
}

impl<F: Filter> Wire for Filtered<F> {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        let Filtered { filter, wire } = self;
        let mut refused = false;
        let mut offer = |frames: &[&[u8]]| {
            let below = wire.send(frames)?;
            refused = below.refused;
            Ok(below)
        };
        let sent = match filter.release(false, &mut offer)? {
            true => filter.outward(frames, &mut offer)?,
            false => Submitted::default(),
        };
        Ok(Submitted { refused, ..sent })
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        self.release(false)?;
        let Filtered { filter, wire } = self;
        let mut ended = false;
        let mut fetch = |most: usize, each: &mut dyn FnMut(Arrival<'_>)| {
            let below = wire.receive(most, each)?;
            ended = below.ended;
            Ok(below.frames)
        };
        let frames = filter.inward(most, &mut fetch, each)?;
        Ok(Found { frames, ended: ended && filter.due_ns().is_none() })
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        self.wire.wait(self.filter.due_ns().map_or(timeout_ns, |due_ns| due_ns.min(timeout_ns)))
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        // Held frames that the wire refused are offered once more after a wait.
        if !self.release(true)? {
            self.wire.flush(timeout_ns)?;
            self.release(true)?;
        }
        self.wire.flush(timeout_ns)
    }

    fn on_cable<'a>(&'a mut self, frame: &'a [u8]) -> &'a [u8] {
        self.wire.on_cable(self.filter.on_cable(frame))
    }

    fn counters(&mut self) -> WireCounters {
        self.wire.counters()
    }

    fn mode(&self) -> String {
        format!("{}; {}", self.wire.mode(), self.filter.mode())
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let mut notes = self.wire.notes();
        notes.extend(self.filter.notes());
        notes
    }
}
