//! Frames and their memory.
//!
//! A [`Frame`] is a small copyable handle with metadata; its bytes are in a [`Pool`], to which all frames of a driver belong. A multicast
//! frame is shared, not copied: the pool counts references. The code at which a frame's path ends releases it.

use std::sync::Arc;

use pktgen_core::record::PacketId;
use pktgen_core::time::Time;
use pktgen_core::topology::NodeId;
use pktgen_wire::wire::frame::HEAD;

/// Maximum number of frames in a burst.
pub const BURST: usize = 64;

/// Rebuilds the head of a frame of which only the payload was transmitted: from the payload, perhaps cut, its length on
/// the wire, and whether it goes down to workers. Returns false if the payload is not of the experiment. Called once
/// per datagram, so it must not allocate.
pub type Heads = Arc<dyn Fn(&[u8], usize, bool, &mut [u8; HEAD]) -> bool + Send + Sync>;

/// The kind of a frame, as known by its sender or by the device that parsed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A model update.
    Update,
    /// Traffic that belongs to no cluster.
    Plain,
    /// An acknowledgement or other control; not recorded in books.
    Control,
    /// A request or notification of workers to a device or the server; not recorded in books.
    Request,
    /// A result on its way to the workers: its members ended in the device that made it, according to its books.
    Result,
}

/// A frame under way. `t` is the time of its next event, usually its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Time of the next event.
    pub t: Time,
    /// Its packet id; meaningless for control.
    pub packet: PacketId,
    /// Its bytes.
    pub buffer: Buffer,
    /// Worker that sent it or receives it.
    pub worker: u32,
    /// Length in bytes.
    pub len: u16,
    /// Cluster.
    pub cluster: u16,
    /// Destination: an index into the topology's nodes. Routes are keyed by it.
    pub flow: NodeId,
    /// Where the UDP payload starts.
    pub head: u8,
    /// Its kind.
    pub kind: Kind,
}

impl Frame {
    /// Returns whether books record it.
    #[inline]
    pub(crate) fn is_booked(&self) -> bool {
        matches!(self.kind, Kind::Update | Kind::Plain)
    }

    /// Returns whether a link made it in virtual time. All such copies share one id and follow their originals. A copy has no place in the
    /// books: a device may neither add it to a sum nor let it represent one.
    #[inline]
    pub fn is_copy(&self) -> bool {
        self.packet == PacketId::NOBODY
    }

    /// Returns whether it is on its way to workers.
    #[inline]
    pub fn goes_down(&self) -> bool {
        matches!(self.kind, Kind::Control | Kind::Result)
    }
}

/// The handle of a buffer in a [`Pool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer(u32);

impl Buffer {
    /// Returns its number in its pool; the numbers in use stay low.
    #[inline]
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// Buffers of one size. An exhausted pool grows in steps, never per frame.
#[derive(Debug)]
pub struct Pool {
    memory: Vec<u8>,
    stride: usize,
    references: Vec<u32>,
    free: Vec<u32>,
}

impl Pool {
    /// A pool for frames of up to `frame_bytes`, with initial room for `count`.
    pub fn new(frame_bytes: usize, count: usize) -> Self {
        // Whole cache lines, so that no two frames share one.
        let stride = frame_bytes.next_multiple_of(64).max(64);
        let mut pool = Pool { memory: Vec::new(), stride, references: Vec::new(), free: Vec::new() };
        pool.grow(count.max(1));
        pool
    }

    fn grow(&mut self, count: usize) {
        let old = self.references.len();
        self.memory.resize((old + count) * self.stride, 0);
        self.references.resize(old + count, 0);
        // Last in, first out, from the low end: the buffers in use stay few and cached.
        self.free.extend((old as u32..(old + count) as u32).rev());
    }

    /// Takes a buffer, with one reference. Its bytes are undefined.
    #[inline]
    pub fn take(&mut self) -> Buffer {
        if self.free.is_empty() {
            self.grow(self.references.len());
        }
        let Some(index) = self.free.pop() else { unreachable!("the pool has just grown") };
        self.references[index as usize] = 1;
        Buffer(index)
    }

    /// Returns the bytes of a buffer.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Adds a reference to the same bytes.
    #[inline]
    pub fn share(&mut self, buffer: Buffer) {
        self.references[buffer.0 as usize] += 1;
    }

    /// Drops a reference.
    #[inline]
    pub fn release(&mut self, buffer: Buffer) {
        let references = &mut self.references[buffer.0 as usize];
        *references -= 1;
        if *references == 0 {
            self.free.push(buffer.0);
        }
    }

    /// Returns a buffer with these bytes and no other reference: the same one if it is not shared.
    #[inline]
    pub fn unshare(&mut self, buffer: Buffer) -> Buffer {
        if self.references[buffer.0 as usize] == 1 {
            return buffer;
        }
        let copy = self.take();
        let start = buffer.0 as usize * self.stride;
        self.memory.copy_within(start..start + self.stride, copy.0 as usize * self.stride);
        self.release(buffer);
        copy
    }

    /// Returns the whole buffer.
    #[inline]
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        let start = buffer.0 as usize * self.stride;
        &self.memory[start..start + self.stride]
    }

    /// Returns the whole buffer, mutable.
    #[inline]
    pub fn bytes_mut(&mut self, buffer: Buffer) -> &mut [u8] {
        let start = buffer.0 as usize * self.stride;
        &mut self.memory[start..start + self.stride]
    }

    /// Returns the bytes of a frame.
    #[inline]
    pub fn frame(&self, frame: &Frame) -> &[u8] {
        &self.bytes(frame.buffer)[..usize::from(frame.len)]
    }

    /// Returns the UDP payload of a frame.
    #[inline]
    pub fn payload(&self, frame: &Frame) -> &[u8] {
        &self.bytes(frame.buffer)[usize::from(frame.head)..usize::from(frame.len)]
    }

    /// Returns the UDP payload of a frame, mutable.
    #[inline]
    pub fn payload_mut(&mut self, frame: &Frame) -> &mut [u8] {
        &mut self.bytes_mut(frame.buffer)[usize::from(frame.head)..usize::from(frame.len)]
    }

    /// Returns the payloads of two different frames, the first mutable. Not inlined: inside a queue's merge that costs
    /// more registers than the call saves.
    pub fn payload_pair(&mut self, into: &Frame, from: &Frame) -> (&mut [u8], &[u8]) {
        let (a, b) = (into.buffer.0 as usize * self.stride, from.buffer.0 as usize * self.stride);
        let (into_bytes, from_bytes) = if a < b {
            let (low, high) = self.memory.split_at_mut(b);
            (&mut low[a..a + self.stride], &high[..self.stride])
        } else {
            let (low, high) = self.memory.split_at_mut(a);
            (&mut high[..self.stride], &low[b..b + self.stride])
        };
        (
            &mut into_bytes[usize::from(into.head)..usize::from(into.len)],
            &from_bytes[usize::from(from.head)..usize::from(from.len)],
        )
    }

    /// Returns the number of buffers in use. After a run that ended by itself it is 0, or one was leaked.
    pub fn in_use(&self) -> usize {
        self.references.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(buffer: Buffer) -> Frame {
        let packet = PacketId::new(0, 0, 0);
        Frame { t: 0, packet, buffer, worker: 0, len: 60, cluster: 0, flow: 0, head: 42, kind: Kind::Update }
    }

    #[test]
    fn shared_buffers_live_until_the_last_release() {
        let mut pool = Pool::new(60, 1);
        let a = pool.take();
        pool.share(a);
        pool.release(a);
        assert_eq!(pool.in_use(), 1);
        assert_eq!(pool.unshare(a), a, "a single holder keeps its buffer");
        pool.share(a);
        pool.bytes_mut(a).fill(7);
        let own = pool.unshare(a);
        pool.bytes_mut(own).fill(8);
        assert_eq!((pool.bytes(a)[0], pool.bytes(own)[0], pool.in_use()), (7, 8, 2));
        pool.release(own);
        let b = pool.take();
        assert_ne!(a, b);
        pool.release(a);
        pool.release(b);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn pairs_are_the_right_way_round() {
        let mut pool = Pool::new(60, 2);
        let (a, b) = (frame(pool.take()), frame(pool.take()));
        pool.payload_mut(&a).fill(1);
        pool.payload_mut(&b).fill(2);
        for (into, from, expected) in [(&a, &b, (1, 2)), (&b, &a, (2, 1))] {
            let (x, y) = pool.payload_pair(into, from);
            assert_eq!((x[0], y[0], x.len(), y.len()), (expected.0, expected.1, 18, 18));
        }
    }
}
