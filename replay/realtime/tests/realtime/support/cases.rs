//! The transports that carry frames in real time, each way of receiving separately, and the operations on them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pktgen_core::{Error, Result};
use pktgen_realtime::clock::Stopwatch;
use pktgen_realtime::transport::{End, Ports, TRANSPORTS, TransportPlan, Wire};

use super::frames::{fill, length};
use super::namespace::FOUR;
use pktgen_testing::{HANG, Need, skip};

/// A transport, configured.
#[derive(Clone, Copy)]
pub struct Case {
    pub kind: &'static str,
    /// af_packet: by blocks instead of by calls.
    pub receive_ring: bool,
    /// udp: the kernel segments messages.
    pub segmented: bool,
    /// Frames that may be in transit without loss: 256 fit the ring of a veth with a program.
    pub window: u64,
    /// A frame of this length is refused where the MTU is 1500.
    pub too_long: usize,
}

pub const RING: Case = Case { kind: "ring", receive_ring: false, segmented: false, window: 128, too_long: usize::MAX };
pub const UDP: Case = Case { kind: "udp", window: 64, too_long: 70_000, ..RING };
pub const UDP_SEGMENTED: Case = Case { segmented: true, ..UDP };
pub const PACKET_CALLS: Case = Case { kind: "af_packet", window: 512, too_long: 1600, ..RING };
pub const PACKET_BLOCKS: Case = Case { receive_ring: true, ..PACKET_CALLS };
pub const XDP: Case = Case { kind: "af_xdp", window: 192, too_long: 1600, ..RING };
pub const LIVE: Case = Case { kind: "xdp_live", ..XDP };

impl Case {
    /// Opens all four ends with changed settings; returns errors.
    pub fn try_open(self, frame_max: usize, change: impl FnOnce(&mut TransportPlan)) -> Result<Vec<Box<dyn Wire>>> {
        let kind = *TRANSPORTS.iter().find(|kind| kind.name() == self.kind).expect("it is listed");
        let mut plan = TransportPlan::of(kind);
        plan.interfaces = FOUR.map(str::to_owned).to_vec();
        plan.receive_ring = self.receive_ring;
        plan.segmented = self.segmented;
        // Frames are updates of OLAF.
        plan.heads = (pktgen_registry::all().workers[0].protocol().heads)(0);
        change(&mut plan);
        Ok(kind.open(&plan, &End::ALL, frame_max)?.into_iter().map(Ports::whole).collect())
    }

    /// Opens all four ends with default settings; none, and a line with the reason, if this host cannot.
    pub fn open(self, frame_max: usize) -> Option<Vec<Box<dyn Wire>>> {
        self.or_skip(self.try_open(frame_max, |_| ()))
    }

    fn need(self) -> Need {
        match self.kind {
            "af_xdp" | "xdp_live" => Need::Xdp,
            "af_packet" => Need::Netns,
            kind => panic!("{kind} needs nothing"),
        }
    }

    /// Returns the opened wires; none, and a line with the reason, if this host cannot.
    pub fn or_skip<T>(self, opened: Result<T>) -> Option<T> {
        match opened {
            Ok(opened) => Some(opened),
            // A program refused by the verifier is our mistake, not the host's.
            Err(Error::Host(why)) if !why.contains("verifier") => {
                skip(self.need(), &format!("{} in real time", self.kind), why);
                None
            }
            Err(error) => panic!("{}: {error}", self.kind),
        }
    }
}

/// Number of frames offered at once: odd, so that the ends of rings coincide with every place of a burst.
pub const BURST: u64 = 61;

/// Returns two of the wires.
pub fn two(wires: &mut [Box<dyn Wire>], from: End, to: End) -> (&mut dyn Wire, &mut dyn Wire) {
    let [a, b] = wires.get_disjoint_mut([from as usize, to as usize]).expect("two ends");
    (&mut **a, &mut **b)
}

/// Offers all frames until they are accepted.
pub fn send_all(wire: &mut dyn Wire, frames: &[&[u8]]) {
    let (mut sent, watch) = (0, Stopwatch::start());
    while sent < frames.len() {
        sent += wire.send(&frames[sent..]).expect("sends").taken;
        assert!(watch.elapsed() < HANG, "hang guard: {}: {sent} of {} were taken", wire.mode(), frames.len());
    }
}

/// Sends `count` different frames of up to `max` bytes from one thread while another receives them, at most `window`
/// apart: each must arrive unchanged and in order.
pub fn carry(from: &mut dyn Wire, to: &mut dyn Wire, count: u64, window: u64, max: usize) {
    let (sent_before, received_before) = (from.counters(), to.counters());
    let (seen, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut frames = vec![vec![0; max]; BURST as usize];
            for first in (0..count).step_by(BURST as usize) {
                let numbers = first..count.min(first + BURST);
                while numbers.end > seen.load(Ordering::Acquire) + window {
                    // Wake the driver during a long wait: it may have been too busy to be woken before.
                    from.send(&[]).expect("wakes");
                    std::thread::yield_now();
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                }
                let lengths = numbers.clone().map(|number| length(number, max));
                frames.iter_mut().zip(numbers).for_each(|(f, number)| fill(&mut f[..length(number, max)], number));
                let list: Vec<&[u8]> = frames.iter().zip(lengths).map(|(frame, length)| &frame[..length]).collect();
                send_all(from, &list);
            }
            from.flush(1_000_000_000).expect("flushes");
        });
        let receive = std::panic::AssertUnwindSafe(|| receive_all(to, count, max, &seen));
        let result = std::panic::catch_unwind(receive);
        stopped.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let (sent, received) = (from.counters(), to.counters());
    assert_eq!(sent.sent - sent_before.sent, count);
    assert_eq!(received.received - received_before.received, count);
    assert_eq!(
        (sent.send_dropped, received.receive_dropped),
        (sent_before.send_dropped, received_before.receive_dropped)
    );
}

/// Receives `count` frames and compares each with the expected one.
fn receive_all(to: &mut dyn Wire, count: u64, max: usize, seen: &AtomicU64) {
    let (mut next, mut expected, mut idle) = (0, vec![0; max], Stopwatch::start());
    while next < count {
        let before = next;
        to.receive(48, &mut |arrival| {
            let expected = &mut expected[..length(next, max)];
            fill(expected, next);
            let len = arrival.bytes.len();
            assert!(arrival.bytes == expected, "frame {next}: {len} B of {}, or other content", expected.len());
            assert_eq!((arrival.len, arrival.lost), (len, false));
            next += 1;
        })
        .expect("receives");
        seen.store(next, Ordering::Release);
        if next > before {
            idle = Stopwatch::start();
        } else {
            to.wait(1_000_000).expect("waits");
            assert!(idle.elapsed() < HANG, "hang guard: frame {next} of {count} never came: {:?}", to.counters());
        }
    }
}

/// Receives until nothing has arrived for as long as a busy host lets the kernel's threads wait; returns the number of frames.
pub fn drain(to: &mut dyn Wire, each: &mut dyn FnMut(&[u8])) -> u64 {
    let (mut got, mut idle) = (0, 0);
    while idle < 15 {
        to.wait(20_000_000).expect("waits");
        let more = to.receive(64, &mut |arrival| each(arrival.bytes)).expect("receives").frames;
        idle = if more == 0 { idle + 1 } else { 0 };
        got += more as u64;
    }
    got
}
