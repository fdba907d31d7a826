//! Frames between wires and state machines: what a frame is by its bytes, and frames that wait to be sent.

use std::collections::VecDeque;

use pktgen_core::Result;
use pktgen_core::time::{NEVER, Time};
use pktgen_wire::wire::frame::HEAD;

use crate::endpoint::{Facts, Identity};
use crate::frame::{BURST, Buffer, Frame, Pool};
use crate::transport::{Arrival, Submitted, Wire};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Takes a frame off a wire into the pool, its time still open; none if it matches no known worker.
pub(super) fn take(arrival: &Arrival, pool: &mut Pool, facts: &Facts) -> Option<Frame> {
    let bytes = unpadded(arrival.bytes);
    if bytes.len() < HEAD || bytes.len() > pool.stride() {
        return None;
    }
    let Identity { packet, worker, cluster, flow, kind } = facts.protocol.identify(bytes, facts)?;
    let buffer = pool.take();
    pool.bytes_mut(buffer)[..bytes.len()].copy_from_slice(bytes);
    Some(Frame { t: 0, packet, buffer, worker, len: bytes.len() as u16, cluster, flow, head: HEAD as u8, kind })
}

/// A frame without what follows its IPv4 packet: Ethernet has no frames below 60 bytes, and cards fill shorter ones up.
fn unpadded(bytes: &[u8]) -> &[u8] {
    let Some([0x08, 0x00, _, _, high, low]) = bytes.get(ETHERNET - 2..ETHERNET + 4) else { return bytes };
    let len = ETHERNET + usize::from(u16::from_be_bytes([*high, *low]));
    if len < HEAD { bytes } else { bytes.get(..len).unwrap_or(bytes) }
}

/// When frames arrived that are still in their buffers, as the kernel or a card stamped them.
#[derive(Default)]
pub(super) struct Noted(Vec<Option<i64>>);

impl Noted {
    /// This frame was stamped, or not.
    #[inline]
    pub(super) fn keep(&mut self, buffer: Buffer, stamp_ns: Option<u64>) {
        let at = buffer.number();
        if at >= self.0.len() {
            self.0.resize((at + 1).next_power_of_two(), None);
        }
        self.0[at] = stamp_ns.and_then(|ns| i64::try_from(ns).ok());
    }

    /// The stamp of the frame that is in this buffer.
    #[inline]
    pub(super) fn of(&self, buffer: Buffer) -> Option<i64> {
        self.0.get(buffer.number()).copied().flatten()
    }
}

/// Frames that wait for their time on one wire, in order.
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

    /// When the first is due.
    pub(super) fn next(&self) -> Time {
        self.frames.front().map_or(NEVER, |(frame, _)| frame.t)
    }

    /// Takes the first.
    pub(super) fn pop(&mut self) -> Option<(Frame, T)> {
        self.frames.pop_front()
    }

    /// Submits what is due at `now`, at most a burst; `each` sees what was taken, whose buffers are then released, and
    /// whether a fault took it.
    #[inline]
    pub(super) fn send_due(
        &mut self,
        now: Time,
        wire: &mut dyn Wire,
        pool: &mut Pool,
        mut each: impl FnMut(Frame, T, bool) -> Result<()>,
    ) -> Result<Submitted> {
        let due = self.frames.iter().take(BURST).take_while(|(frame, _)| frame.t <= now).count();
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

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_wire::wire::frame::Template;

    #[test]
    fn what_follows_the_packet_is_no_part_of_it() {
        for len in [HEAD, 48, 59, 60, 1500] {
            let mut frame = vec![0; len];
            Template::new((0x0a00_0001, 1), (0x0a00_0002, 2), len).emit(&mut frame);
            let whole = frame.clone();
            frame.resize(len.max(60) + 4, 0xee);
            assert_eq!(unpadded(&frame), whole);
            assert_eq!(unpadded(&whole), whole);
            assert_eq!(unpadded(&whole[..HEAD - 1]), &whole[..HEAD - 1], "cut, and left to others to refuse");
        }
        let mut frame = vec![0; 60];
        assert_eq!(unpadded(&frame).len(), 60, "no IPv4 packet");
        Template::new((0x0a00_0001, 1), (0x0a00_0002, 2), 48).emit(&mut frame);
        frame[16..18].copy_from_slice(&3u16.to_be_bytes());
        assert_eq!(unpadded(&frame).len(), 60, "a length that cannot be");
    }
}
