//! A cable within this process, in real time: two rings of bytes, one per direction. Frames are copied in and out, so
//! that nothing but the sent bytes is shared. With several queues there is one pair of rings per queue.

use std::time::Duration;

use pktgen_core::registry::Named;
use pktgen_core::{Error, Result};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{Arrival, Capabilities, End, Found, Ports, Submitted, Transport, TransportPlan, Wire, WireCounters};

/// `kind = "ring"`.
pub struct Ring;

/// Bytes in flight in one direction.
const RING_BYTES: usize = 1 << 21;
/// Bytes of the length before each frame.
const HEAD: usize = 4;

impl Named for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }
    fn about(&self) -> &'static str {
        "rings in this process, in real time: workers, device and server are threads"
    }
}

impl Transport for Ring {
    fn capabilities(&self) -> Capabilities {
        Capabilities { in_process: true, ..Capabilities::CABLES }
    }

    fn has_queues(&self) -> bool {
        true
    }

    fn check_together(&self, _plan: &TransportPlan, ends: &[End]) -> Result<()> {
        if ends == End::LOWER || ends == End::ALL {
            return Ok(());
        }
        Err(Error::config("transport.kind = \"ring\" joins roles of one process; this role is alone in its own"))
    }

    fn open(&self, plan: &TransportPlan, ends: &[End], frame_max: usize) -> Result<Vec<Ports>> {
        self.check_together(plan, ends)?;
        let cables = |[a, b]: [End; 2]| {
            let queues = (0..plan.queues).map(|_| cable(RING_BYTES, frame_max));
            let (at_a, at_b): (Vec<_>, Vec<_>) = queues.unzip();
            (Ports::new(a, at_a), Ports::new(b, at_b))
        };
        let (workers, down) = cables([End::Workers, End::DeviceDown]);
        if ends == End::LOWER {
            return Ok(vec![workers, down]);
        }
        let (up, server) = cables([End::DeviceUp, End::Server]);
        Ok(vec![workers, down, up, server])
    }
}

pub(super) fn cable(bytes: usize, frame_max: usize) -> (Box<dyn Wire>, Box<dyn Wire>) {
    let (to_b, from_a) = RingBuffer::new(bytes);
    let (to_a, from_b) = RingBuffer::new(bytes);
    let end =
        |out, incoming| Box::new(RingEnd { out, incoming, frame: vec![0; frame_max], counters: Default::default() });
    (end(to_b, from_b), end(to_a, from_a))
}

/// One end.
struct RingEnd {
    out: Producer<u8>,
    incoming: Consumer<u8>,
    /// Buffer for a contiguous frame from the ring.
    frame: Vec<u8>,
    counters: WireCounters,
}

impl Wire for RingEnd {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        for (taken, frame) in frames.iter().enumerate() {
            let Ok(mut room) = self.out.write_chunk(HEAD + frame.len()) else { return Ok(Submitted::all(taken)) };
            let (first, second) = room.as_mut_slices();
            let room_left = scatter(&(frame.len() as u32).to_le_bytes(), (first, second));
            scatter(frame, room_left);
            room.commit_all();
            self.counters.sent += 1;
        }
        Ok(Submitted::all(frames.len()))
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        // Callers read the clock once per call, so what is sent during it is left for the next one.
        let mut readable = self.incoming.slots();
        for taken in 0..most {
            if readable == 0 {
                return Ok(Found::some(taken));
            }
            // Head and frame are committed together, so both are there.
            let Ok(head) = self.incoming.read_chunk(HEAD) else { unreachable!("a frame has a head") };
            let mut len = [0; HEAD];
            gather(head.as_slices(), &mut len);
            head.commit_all();
            let len = u32::from_le_bytes(len) as usize;
            readable -= HEAD + len;
            let Ok(chunk) = self.incoming.read_chunk(len) else { unreachable!("a frame follows its head") };
            gather(chunk.as_slices(), &mut self.frame[..len]);
            chunk.commit_all();
            self.counters.received += 1;
            each(Arrival { bytes: &self.frame[..len], len, stamp_ns: None, lost: false });
        }
        Ok(Found::some(most))
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        // There is no wake-up: short sleeps, so that arrivals wait only briefly.
        if self.incoming.is_empty() {
            std::thread::sleep(Duration::from_nanos(timeout_ns.min(50_000)));
        }
        Ok(())
    }

    fn counters(&mut self) -> WireCounters {
        self.counters
    }

    fn mode(&self) -> String {
        format!("two rings of {RING_BYTES} bytes in this process")
    }
}

/// Writes `from` to the front of two slices; returns the rest of them.
fn scatter<'a>(from: &[u8], (first, second): (&'a mut [u8], &'a mut [u8])) -> (&'a mut [u8], &'a mut [u8]) {
    let (now, later) = from.split_at(from.len().min(first.len()));
    let (to, first) = first.split_at_mut(now.len());
    to.copy_from_slice(now);
    let (to, second) = second.split_at_mut(later.len());
    to.copy_from_slice(later);
    (first, second)
}

fn gather((first, second): (&[u8], &[u8]), into: &mut [u8]) {
    into[..first.len()].copy_from_slice(first);
    into[first.len()..].copy_from_slice(second);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// A small ring wraps around and fills up; it never loses, reorders or changes accepted frames.
        #[test]
        fn carries_frames_in_order(steps in prop::collection::vec((any::<bool>(), 1usize..60, any::<u8>()), 0..200)) {
            let (mut a, mut b) = cable(256, 64);
            let mut under_way: VecDeque<Vec<u8>> = VecDeque::new();
            for (send, len, fill) in steps {
                if send {
                    let frame = vec![fill; len];
                    let taken = a.send(&[&frame]).unwrap().taken;
                    let room = 256 - under_way.iter().map(|f| f.len() + HEAD).sum::<usize>();
                    prop_assert_eq!(taken, usize::from(room >= len + HEAD));
                    if taken == 1 {
                        under_way.push_back(frame);
                    }
                } else {
                    let mut got = Vec::new();
                    let n = b.receive(2, &mut |arrival| got.push(arrival.bytes.to_vec())).unwrap().frames;
                    prop_assert_eq!(n, under_way.len().min(2));
                    let expected: Vec<_> = under_way.drain(..n).collect();
                    prop_assert_eq!(got, expected);
                }
            }
            prop_assert_eq!(a.counters().sent, b.counters().received + under_way.len() as u64);
        }
    }

    /// A time that a caller reads during a call is after the sending of all of its frames.
    #[test]
    fn frames_sent_during_a_call_are_left_for_the_next_one() {
        let (mut a, mut b) = cable(256, 64);
        assert_eq!(a.send(&[&[0; 8], &[1; 8]]).unwrap().taken, 2);
        let mut got = Vec::new();
        let found = b.receive(64, &mut |arrival| {
            got.push(arrival.bytes[0]);
            assert_eq!(a.send(&[&[2; 8]]).unwrap().taken, 1);
        });
        assert_eq!((found.unwrap().frames, got), (2, vec![0, 1]));
        assert_eq!(b.receive(64, &mut |arrival| assert_eq!(arrival.bytes, [2; 8])).unwrap().frames, 2);
        assert_eq!(b.receive(64, &mut |_| {}).unwrap().frames, 0);
    }
}
