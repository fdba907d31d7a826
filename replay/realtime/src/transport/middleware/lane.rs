//! One direction of a wire with faults (a `Lane` in the code): frames that are under way in it, and what happened so far.

use std::collections::VecDeque;
use std::fmt;

use pktgen_core::time::Time;

use super::{FaultStreams, Faults, FrameFault};
use crate::frame::BURST;
use crate::transport::Arrival;

/// What was injected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Frames that came by.
    pub(super) frames: u64,
    /// Taken away.
    pub(super) lost: u64,
    /// Passed on once more.
    pub(super) duplicated: u64,
    /// Held back.
    pub(super) reordered: u64,
    /// With a flipped bit.
    pub(super) corrupted: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { frames, lost, duplicated, reordered, corrupted } = self;
        write!(f, "{frames} frames: {lost} lost, {duplicated} duplicated, {reordered} reordered, {corrupted} corrupted")
    }
}

/// A frame that was copied, because it goes on later or changed.
#[derive(Debug, Clone, Copy)]
struct Kept {
    slot: usize,
    bytes: usize,
    len: usize,
    stamp_ns: Option<u64>,
    lost: bool,
    /// How often it is still to be passed on.
    copies: u8,
    /// Held back until so many frames have come by.
    due: u64,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Lane {
    fates: FaultStreams,
    /// Fates of the frames that come next, as far as they are known: one that was offered and not taken keeps its own.
    drawn: VecDeque<FrameFault>,
    by: u64,
    hold: Time,
    /// In the order in which they are due.
    held: VecDeque<Kept>,
    /// To be passed on before anything else.
    ready: VecDeque<Kept>,
    memory: Vec<u8>,
    stride: usize,
    free: Vec<usize>,
    /// When a frame last came by, as far as held frames wait for the next.
    active: Time,
    pub(super) tally: Tally,
}

impl Lane {
    /// For frames of up to `frame_max` bytes.
    pub(super) fn new(fates: FaultStreams, faults: &Faults, frame_max: usize) -> Self {
        // At most `by` are held and one more is about to be; a burst may have to wait until it is asked for.
        let slots = faults.by as usize + 1 + BURST;
        Lane {
            fates,
            drawn: VecDeque::with_capacity(BURST),
            by: faults.by,
            hold: faults.hold,
            held: VecDeque::with_capacity(slots),
            ready: VecDeque::with_capacity(slots),
            memory: vec![0; slots * frame_max],
            stride: frame_max,
            free: (0..slots).collect(),
            active: 0,
            tally: Tally::default(),
        }
    }

    /// Bytes of the largest frame that it can keep.
    pub(super) fn frame_max(&self) -> usize {
        self.stride
    }

    /// How many of the next `most` frames pass as they are, before one is changed or a held one comes between. At most
    /// [`BURST`].
    pub(super) fn clean(&mut self, most: usize) -> usize {
        let before = self.held.front().map_or(u64::MAX, |kept| kept.due - self.tally.frames);
        let most = most.min(BURST).min(usize::try_from(before).unwrap_or(usize::MAX));
        while self.drawn.len() < most {
            self.drawn.push_back(self.fates.draw());
        }
        self.drawn.iter().take(most).take_while(|fate| fate.is_clean()).count()
    }

    /// So many clean frames went by.
    pub(super) fn passed(&mut self, count: usize) {
        self.drawn.drain(..count);
        self.tally.frames += count as u64;
        self.release();
    }

    /// The next frame comes by. Returns whether it is lost, if it is to be passed on as it is; none if it was kept.
    /// Afterwards, [`release`](Self::release).
    pub(super) fn strike(&mut self, arrival: &Arrival) -> Option<bool> {
        let fate = self.drawn.pop_front().unwrap_or_else(|| self.fates.draw());
        self.tally.frames += 1;
        if fate.lost || arrival.lost {
            self.tally.lost += u64::from(fate.lost);
            return Some(true);
        }
        if fate.is_clean() {
            return Some(false);
        }
        let mut kept = self.copy(arrival, false);
        if let Some(place) = fate.flip.filter(|_| kept.bytes > 0) {
            let bit = (place * (kept.bytes * 8) as f64) as usize;
            self.memory[kept.slot * self.stride + bit / 8] ^= 1 << (bit % 8);
            self.tally.corrupted += 1;
        }
        kept.copies += u8::from(fate.duplicated);
        self.tally.duplicated += u64::from(fate.duplicated);
        if fate.held {
            self.tally.reordered += 1;
            kept.due = self.tally.frames + self.by;
            self.held.push_back(kept);
        } else {
            self.ready.push_back(kept);
        }
        None
    }

    /// Keeps a frame until it can be passed on, as it is.
    pub(super) fn keep(&mut self, arrival: &Arrival, lost: bool) {
        let kept = self.copy(arrival, lost);
        self.ready.push_back(kept);
    }

    /// A frame that is longer than any of this run is unmatched: it keeps its length and loses its bytes.
    fn copy(&mut self, arrival: &Arrival, lost: bool) -> Kept {
        let Some(slot) = self.free.pop() else { unreachable!("there are slots for all that can be under way") };
        let bytes = if arrival.bytes.len() <= self.stride { arrival.bytes } else { &[] };
        self.memory[slot * self.stride..][..bytes.len()].copy_from_slice(bytes);
        Kept { slot, bytes: bytes.len(), len: arrival.len, stamp_ns: arrival.stamp_ns, lost, copies: 1, due: 0 }
    }

    /// Lets go of held frames that enough others have overtaken.
    pub(super) fn release(&mut self) {
        while self.held.front().is_some_and(|kept| kept.due <= self.tally.frames) {
            self.ready.extend(self.held.pop_front());
        }
    }

    /// Lets go of all held frames.
    pub(super) fn release_all(&mut self) {
        self.ready.extend(self.held.drain(..));
    }

    /// Lets go of them if nothing came by for long enough.
    pub(super) fn expire(&mut self, now: Time) {
        if now - self.active >= self.hold {
            self.release_all();
        }
    }

    /// How long until [`expire`](Self::expire) lets go, if frames are held.
    pub(super) fn patience(&self, now: Time) -> Option<Time> {
        self.holds().then(|| (self.active + self.hold - now).max(0))
    }

    /// A frame came by just now.
    pub(super) fn touch(&mut self, now: Time) {
        self.active = now;
    }

    /// Whether frames are held back.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether frames are to be passed on.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Offers what is ready, in order, until `each` refuses one.
    pub(super) fn pass_on<E>(&mut self, mut each: impl FnMut(Arrival<'_>) -> Result<bool, E>) -> Result<(), E> {
        while let Some(kept) = self.ready.front_mut() {
            let bytes = &self.memory[kept.slot * self.stride..][..kept.bytes];
            if !each(Arrival { bytes, len: kept.len, stamp_ns: kept.stamp_ns, lost: kept.lost })? {
                break;
            }
            kept.copies -= 1;
            if kept.copies == 0 {
                self.free.push(kept.slot);
                self.ready.pop_front();
            }
        }
        Ok(())
    }

    /// Frames that are under way in it.
    pub(super) fn under_way(&self) -> usize {
        self.held.iter().chain(&self.ready).map(|kept| usize::from(kept.copies)).sum()
    }
}
