//! First in, first out, with a fixed number of slots: the baseline.

use std::collections::VecDeque;

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::{Action, Reason};
use pktgen_core::registry::Named;
use pktgen_core::time::Time;
use pktgen_wire::wire::frame::mark_congestion;
use pktgen_wire::wire::update::Status;

use super::{Discipline, Marks, Queue, Slots};
use crate::frame::{Frame, Pool};
use crate::target::books::Books;

/// `queue = "fifo"`.
pub struct FifoDiscipline;

impl Named for FifoDiscipline {
    fn name(&self) -> &'static str {
        "fifo"
    }
    fn about(&self) -> &'static str {
        "first in, first out; drops frames when full"
    }
}

impl Discipline for FifoDiscipline {
    fn keys(&self) -> KeyTables {
        &[Slots::KEYS, Marks::KEYS]
    }

    fn open(&self, section: &mut Section, _clusters: usize, slots: Option<u32>) -> Result<Box<dyn Queue>> {
        let (slots, hold) = read_slots(section, slots, self.slots())?;
        let fifo = Fifo::new(slots, hold);
        Ok(Box::new(match Marks::mark_at(section)? {
            Some(at) => fifo.marking(at, mark_congestion),
            None => fifo,
        }))
    }
}

/// Reads `slots`, unless the port has its `own`, and `slot_in_transmission`, which all disciplines share.
pub fn read_slots(section: &mut Section, own: Option<u32>, default: u32) -> Result<(u32, bool)> {
    let slots = match own {
        Some(own) => own,
        None => Slots::slots(section, default)?,
    };
    Ok((slots, Slots::slot_in_transmission(section)?))
}

/// Marking of frames that leave while others wait.
#[derive(Debug, Clone, Copy)]
struct Marking {
    /// Minimum number of waiting frames.
    at: usize,
    mark: fn(&mut [u8]),
}

/// The queue.
pub struct Fifo {
    frames: VecDeque<Frame>,
    slots: usize,
    hold: bool,
    locked: bool,
    marking: Option<Marking>,
}

impl Fifo {
    /// A queue with `slots` slots; `hold` if the frame in transmission keeps its slot.
    pub fn new(slots: u32, hold: bool) -> Self {
        // Long queues grow when they are used: a network may have a hundred thousand.
        let begin = (slots as usize).min(16);
        Fifo { frames: VecDeque::with_capacity(begin), slots: slots as usize, hold, locked: false, marking: None }
    }

    /// Returns the queue with marking: `mark` is applied to frames that leave while at least `at` others wait.
    pub fn marking(self, at: u32, mark: fn(&mut [u8])) -> Self {
        Fifo { marking: Some(Marking { at: at as usize, mark }), ..self }
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

    fn dequeue(&mut self, _t: Time, pool: &mut Pool) -> Option<Frame> {
        let mut frame = self.frames.pop_front()?;
        if self.frames.is_empty() {
            // The next one waits in the same memory, which may still be in a cache.
            self.frames.clear();
        }
        self.locked = true;
        if let Some(marking) = self.marking.filter(|marking| self.frames.len() >= marking.at) {
            // The same bytes may be under way to other ports.
            frame.buffer = pool.unshare(frame.buffer);
            (marking.mark)(&mut pool.bytes_mut(frame.buffer)[..usize::from(frame.len)]);
        }
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

#[cfg(test)]
mod tests {
    use pktgen_core::record::PacketId;
    use pktgen_wire::wire::frame::{HEAD, Template, is_congestion_marked, set_ip_checksum, worker_ip};

    use super::*;
    use crate::frame::Kind;

    const BYTES: usize = HEAD + 8;

    fn frame(pool: &mut Pool, seq: u32) -> Frame {
        let buffer = pool.take();
        Template::new((worker_ip(0), 1), (worker_ip(1), 2), BYTES).emit(&mut pool.bytes_mut(buffer)[..BYTES]);
        let packet = PacketId::new(0, seq, 0);
        Frame { t: 0, packet, buffer, worker: 0, len: BYTES as u16, cluster: 0, flow: 0, head: 42, kind: Kind::Update }
    }

    /// A frame is marked by the number of frames behind it, in a copy of its bytes, with a correct checksum.
    #[test]
    fn what_leaves_a_long_queue_is_marked() {
        let (mut pool, mut books) = (Pool::new(BYTES, 8), Books::default());
        let mut queue = Fifo::new(8, false).marking(2, mark_congestion);
        let frames: Vec<_> = (0..4).map(|seq| frame(&mut pool, seq)).collect();
        pool.share(frames[0].buffer);
        queue.enqueue(&frames, &mut pool, &mut books);
        for marked in [true, true, false, false] {
            let left = queue.dequeue(0, &mut pool).unwrap();
            queue.release();
            let bytes = pool.frame(&left);
            assert_eq!(is_congestion_marked(bytes), marked);
            let mut again = bytes.to_vec();
            set_ip_checksum(&mut again);
            assert_eq!(again, bytes, "the checksum fits");
        }
        assert!(!is_congestion_marked(pool.frame(&frames[0])), "what others hold stays as it is");
    }

    #[test]
    fn a_queue_marks_nothing_by_default_and_only_whole_headers() {
        let (mut pool, mut books) = (Pool::new(BYTES, 8), Books::default());
        let mut queue = Fifo::new(8, false);
        let frames: Vec<_> = (0..4).map(|seq| frame(&mut pool, seq)).collect();
        queue.enqueue(&frames, &mut pool, &mut books);
        let left = queue.dequeue(0, &mut pool).unwrap();
        assert!(!is_congestion_marked(pool.frame(&left)));
        let mut other = [7u8; 20];
        mark_congestion(&mut other);
        assert_eq!(other, [7; 20]);
        mark_congestion(&mut []);
    }
}
