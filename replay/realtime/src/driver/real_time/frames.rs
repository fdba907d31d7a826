//! Frames between wires and state machines: values of received frames, and frames waiting to be sent.

use std::collections::VecDeque;

use pktgen_core::Result;
use pktgen_core::time::{NEVER, Time};

use crate::frame::{BURST, Buffer, Frame, Pool};
use crate::transport::{Submitted, Wire};

/// A value for each received frame that is still in its buffer.
#[derive(Default)]
pub(super) struct ByBuffer<T>(Vec<T>);

impl<T: Copy + Default> ByBuffer<T> {
    /// Stores the value of the frame in this buffer.
    #[inline]
    pub(super) fn keep(&mut self, buffer: Buffer, value: T) {
        let at = buffer.number();
        if at >= self.0.len() {
            self.0.resize((at + 1).next_power_of_two(), T::default());
        }
        self.0[at] = value;
    }

    /// Returns the value of the frame in this buffer.
    #[inline]
    pub(super) fn of(&self, buffer: Buffer) -> T {
        self.0.get(buffer.number()).copied().unwrap_or_default()
    }
}

/// Frames that wait for their departure on one wire, in order.
#[derive(Default)]
pub(super) struct Waiting<T> {
    frames: VecDeque<(Frame, T)>,
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Self {
        Waiting { frames: VecDeque::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, frame: Frame, tag: T) {
        self.frames.push_back((frame, tag));
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the due time of the first frame.
    pub(super) fn next(&self) -> Time {
        self.frames.front().map_or(NEVER, |(frame, _)| frame.t)
    }

    /// Returns the first frame.
    pub(super) fn head(&self) -> Option<&(Frame, T)> {
        self.frames.front()
    }

    /// Removes the first frame.
    pub(super) fn pop(&mut self) -> Option<(Frame, T)> {
        self.frames.pop_front()
    }

    /// Submits frames due at `now`, at most `most` and a burst; calls `each` with those taken, whose buffers are then
    /// released, and whether a fault dropped them.
    #[inline]
    pub(super) fn send_due(
        &mut self,
        (now, most): (Time, usize),
        wire: &mut dyn Wire,
        pool: &mut Pool,
        mut each: impl FnMut(Frame, T, bool) -> Result<()>,
    ) -> Result<Submitted> {
        let due = self.frames.iter().take(most.min(BURST)).take_while(|(frame, _)| frame.t <= now).count();
        if due == 0 {
            return Ok(Submitted::default());
        }
        let mut slices: [&[u8]; BURST] = [&[]; BURST];
        for (slice, (frame, _)) in slices.iter_mut().zip(&self.frames).take(due) {
            *slice = pool.frame(frame);
        }
        let sent = wire.send(&slices[..due])?;
        for (i, (frame, tag)) in self.frames.drain(..sent.taken).enumerate() {
            each(frame, tag, sent.lost >> i & 1 == 1)?;
            pool.release(frame.buffer);
        }
        Ok(sent)
    }
}
