//! One direction of a wire with faults (a `Lane` in the code): its frames under way, and counts of faults.

use std::collections::VecDeque;
use std::fmt;

use pktgen_core::time::Time;

use super::{FaultStreams, Faults, FrameFault};
use crate::frame::BURST;
use crate::transport::Arrival;

/// Counts of injected faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Frames that passed by.
    pub(super) frames: u64,
    /// Lost frames.
    pub(super) lost: u64,
    /// Duplicated frames.
    pub(super) duplicated: u64,
    /// Delayed frames.
    pub(super) reordered: u64,
    /// Frames with a flipped bit.
    pub(super) corrupted: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { frames, lost, duplicated, reordered, corrupted } = self;
        write!(f, "{frames} frames: {lost} lost, {duplicated} duplicated, {reordered} reordered, {corrupted} corrupted")
    }
}

/// A copied frame, to be passed on later or changed.
#[derive(Debug, Clone, Copy)]
struct Kept {
    slot: usize,
    bytes: usize,
    len: usize,
    stamp_ns: Option<u64>,
    lost: bool,
    /// Remaining number of times to pass it on.
    copies: u8,
    /// Held until this number of frames has passed by.
    due: u64,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Lane {
    fates: FaultStreams,
    /// Faults of the next frames, as far as they were drawn: a frame that was offered and not taken keeps its own.
    drawn: VecDeque<FrameFault>,
    by: u64,
    hold: Time,
    /// In the order of their due numbers.
    held: VecDeque<Kept>,
    /// Frames to be passed on before anything else.
    ready: VecDeque<Kept>,
    memory: Vec<u8>,
    stride: usize,
    free: Vec<usize>,
    /// When a frame last passed by, for held frames that wait for the next.
    active: Time,
    pub(super) tally: Tally,
}

impl Lane {
    /// A lane for frames of up to `frame_max` bytes.
    pub(super) fn new(fates: FaultStreams, faults: &Faults, frame_max: usize) -> Self {
        // At most `by` are held and one more is about to be; a burst may have to wait until it is requested.
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

    /// Returns the bytes of the largest frame that it can keep.
    pub(super) fn frame_max(&self) -> usize {
        self.stride
    }

    /// Returns how many of the next `most` frames pass unchanged, before one is changed or a held one comes between. At most [`BURST`].
    pub(super) fn clean(&mut self, most: usize) -> usize {
        let before = self.held.front().map_or(u64::MAX, |kept| kept.due - self.tally.frames);
        let most = most.min(BURST).min(usize::try_from(before).unwrap_or(usize::MAX));
        while self.drawn.len() < most {
            self.drawn.push_back(self.fates.draw());
        }
        self.drawn.iter().take(most).take_while(|fate| fate.is_clean()).count()
    }

    /// Records that `count` unchanged frames passed.
    pub(super) fn passed(&mut self, count: usize) {
        self.drawn.drain(..count);
        self.tally.frames += count as u64;
        self.release();
    }

    /// Applies faults to the next frame. Returns whether it is lost, if it is to be passed on now; `None` if it was
    /// kept. To be followed by [`release`](Self::release).
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

    /// Keeps an unchanged frame until it can be passed on.
    pub(super) fn keep(&mut self, arrival: &Arrival, lost: bool) {
        let kept = self.copy(arrival, lost);
        self.ready.push_back(kept);
    }

    /// Copies a frame. One that is longer than any of this run is unmatched: it keeps its length, without its bytes.
    fn copy(&mut self, arrival: &Arrival, lost: bool) -> Kept {
        let Some(slot) = self.free.pop() else { unreachable!("there are slots for all that can be under way") };
        let bytes = if arrival.bytes.len() <= self.stride { arrival.bytes } else { &[] };
        self.memory[slot * self.stride..][..bytes.len()].copy_from_slice(bytes);
        Kept { slot, bytes: bytes.len(), len: arrival.len, stamp_ns: arrival.stamp_ns, lost, copies: 1, due: 0 }
    }

    /// Releases held frames that enough others have overtaken.
    pub(super) fn release(&mut self) {
        while self.held.front().is_some_and(|kept| kept.due <= self.tally.frames) {
            self.ready.extend(self.held.pop_front());
        }
    }

    /// Releases all held frames.
    pub(super) fn release_all(&mut self) {
        self.ready.extend(self.held.drain(..));
    }

    /// Releases all held frames if nothing passed by for long enough.
    pub(super) fn expire(&mut self, now: Time) {
        if now - self.active >= self.hold {
            self.release_all();
        }
    }

    /// Returns the time until [`expire`](Self::expire) releases frames, if any are held.
    pub(super) fn patience(&self, now: Time) -> Option<Time> {
        self.holds().then(|| (self.active + self.hold - now).max(0))
    }

    /// Records that a frame passed by just now.
    pub(super) fn touch(&mut self, now: Time) {
        self.active = now;
    }

    /// Returns whether frames are held.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns whether frames are ready to be passed on.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Offers ready frames, in order, until `each` refuses one.
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

    /// Returns the number of frames under way in it.
    pub(super) fn under_way(&self) -> usize {
        self.held.iter().chain(&self.ready).map(|kept| usize::from(kept.copies)).sum()
    }
}
