//! First in, first out, with a fixed number of slots: the baseline.

use std::collections::VecDeque;

use pktgen_core::config::Section;
use pktgen_core::record::{Action, Reason};
use pktgen_core::registry::Named;
use pktgen_core::time::Time;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::update::Status;

use super::{Discipline, Queue};
use crate::frame::{Frame, Pool};
use crate::target::books::Books;

/// `queue = "fifo"`.
pub struct FifoDiscipline;

impl Named for FifoDiscipline {
    fn name(&self) -> &'static str {
        "fifo"
    }
    fn about(&self) -> &'static str {
        "first in, first out; drops what finds it full"
    }
}

impl Discipline for FifoDiscipline {
    fn keys(&self) -> &'static [&'static str] {
        &["slots", "slot_in_transmission"]
    }

    fn open(&self, section: &mut Section, _clusters: usize, slots: Option<u32>) -> Result<Box<dyn Queue>> {
        let (slots, hold) = read_slots(section, slots)?;
        Ok(Box::new(Fifo::new(slots, hold)))
    }
}

/// Reads `slots` and `slot_in_transmission`, which all disciplines share.
pub fn read_slots(section: &mut Section, own: Option<u32>) -> Result<(u32, bool)> {
    let slots: u32 = section.get("slots", 8u32)?;
    let hold: bool = section.get("slot_in_transmission", true)?;
    let slots = own.unwrap_or(slots);
    if slots == 0 || slots > 1 << 20 {
        return Err(Error::config(format!(
            "{}: {slots} slots; a queue has 1 to {}",
            section.place("slots"),
            1u32 << 20
        )));
    }
    Ok((slots, hold))
}

/// The queue.
pub struct Fifo {
    frames: VecDeque<Frame>,
    slots: usize,
    hold: bool,
    locked: bool,
}

impl Fifo {
    /// With `slots` slots; `hold` says whether the frame in transmission keeps its slot.
    pub fn new(slots: u32, hold: bool) -> Self {
        // Long ones grow when they are used: a network may have thousands.
        let begin = (slots as usize).min(1024);
        Fifo { frames: VecDeque::with_capacity(begin), slots: slots as usize, hold, locked: false }
    }

    fn occupancy(&self) -> usize {
        self.frames.len() + usize::from(self.locked && self.hold)
    }
}

impl Queue for Fifo {
    fn enqueue(&mut self, burst: &[Frame], pool: &mut Pool, books: &mut Books) {
        for frame in burst {
            if self.occupancy() >= self.slots {
                books.dropped(frame.t, frame, Reason::QueueFull, None);
                pool.release(frame.buffer);
            } else {
                books.passes(frame.t, frame, Action::Queued);
                self.frames.push_back(*frame);
            }
        }
    }

    fn dequeue(&mut self, _t: Time, _pool: &mut Pool) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.locked = true;
        Some(frame)
    }

    fn release(&mut self) {
        self.locked = false;
    }

    fn status(&mut self, _t: Time) -> Status {
        Status { occupancy: self.occupancy() as u32, active: 0, capacity: self.slots as u32 }
    }

    fn waiting(&self) -> usize {
        self.frames.len()
    }
}
