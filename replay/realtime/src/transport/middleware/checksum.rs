//! Checks of the checksums of a foreign device's frames. Hosts drop frames with wrong checksums; wires pass them on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pktgen_core::Result;
use pktgen_wire::wire::frame::{Checksums, checksums};

use super::filter::{Fetch, Filter, Filtered};
use crate::transport::{Arrival, Wire};

/// The first frames of a wire are all checked, later ones one in [`ONE_OF`]: a sum over 1,500 bytes takes as long as
/// all other processing of a frame.
const ALL_UNTIL: u64 = 1 << 14;
/// See [`ALL_UNTIL`]. A prime: rounds of workers and slots are no multiple of it.
const ONE_OF: u64 = 17;

/// Findings at the wires of a process.
#[derive(Debug, Default)]
pub struct ChecksumTally {
    wrong: AtomicU64,
    unfinished: AtomicU64,
}

impl ChecksumTally {
    /// Returns the number of frames with a wrong checksum.
    pub fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Returns the number of frames whose checksum a host left to an interface.
    pub fn unfinished(&self) -> u64 {
        self.unfinished.load(Ordering::Relaxed)
    }
}

/// Wraps a wire to count arrivals with a wrong checksum.
pub fn checked(wire: Box<dyn Wire>, tally: Arc<ChecksumTally>) -> Box<dyn Wire> {
    Box::new(Filtered::new(wire, Checked { seen: 0, tally }))
}

/// Checks the checksums of arriving frames.
struct Checked {
    seen: u64,
    tally: Arc<ChecksumTally>,
}

impl Checked {
    fn look(&mut self, frame: &[u8]) {
        self.seen += 1;
        if self.seen > ALL_UNTIL && !self.seen.is_multiple_of(ONE_OF) {
            return;
        }
        let count = match checksums(frame) {
            Checksums::Fit => return,
            Checksums::Unfinished => &self.tally.unfinished,
            Checksums::Wrong => &self.tally.wrong,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Filter for Checked {
    fn inward(&mut self, most: usize, fetch: &mut Fetch<'_>, each: &mut dyn FnMut(Arrival<'_>)) -> Result<usize> {
        fetch(most, &mut |arrival| {
            self.look(arrival.bytes);
            each(arrival);
        })
    }

    fn mode(&self) -> String {
        "checksums read".into()
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use pktgen_wire::wire::frame::{Template, set_udp_checksum};

    use super::*;
    use crate::transport::{Found, Submitted, WireCounters};

    /// Test wire: this many frames, every n-th of them damaged.
    struct Damaged {
        frames: VecDeque<bool>,
        good: Vec<u8>,
        bad: Vec<u8>,
    }

    impl Wire for Damaged {
        fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
            Ok(Submitted::all(frames.len()))
        }
        fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
            let count = most.min(self.frames.len());
            for bad in self.frames.drain(..count) {
                let bytes = if bad { &self.bad } else { &self.good };
                each(Arrival { bytes, len: bytes.len(), stamp_ns: None, lost: false });
            }
            Ok(Found::some(count))
        }
        fn wait(&mut self, _timeout_ns: u64) -> Result<()> {
            Ok(())
        }
        fn counters(&mut self) -> WireCounters {
            WireCounters::default()
        }
        fn mode(&self) -> String {
            "damaged".into()
        }
    }

    fn found(frames: usize, every: usize, byte: usize, value: [u8; 2]) -> (u64, u64) {
        let mut good = vec![0; 256];
        Template::new((0x0a00_0001, 1), (0x0a00_0002, 2), 256).emit(&mut good);
        set_udp_checksum(&mut good);
        let mut bad = good.clone();
        bad[byte..byte + 2].copy_from_slice(&value);
        let frames = (0..frames).map(|n| n % every == 0).collect();
        let tally = Arc::new(ChecksumTally::default());
        let mut wire = checked(Box::new(Damaged { frames, good, bad }), tally.clone());
        while wire.receive(64, &mut |_| {}).unwrap().frames > 0 {}
        (tally.wrong(), tally.unfinished())
    }

    #[test]
    fn all_of_the_first_frames_are_read_and_some_of_the_others() {
        assert_eq!(found(1000, 10, 100, [1, 2]), (100, 0), "a payload that is not the one that was summed");
        assert_eq!(found(1000, 10, 24, [1, 2]), (100, 0), "IPv4");
        assert_eq!(found(1000, 10, 40, [0, 0]), (0, 0), "no UDP checksum");
        // 10.0.0.1 + 10.0.0.2 + 17 + 222 bytes.
        assert_eq!(found(1000, 10, 40, (0x1403u16 + 17 + 222).to_be_bytes()), (0, 100), "left to an interface");
        let (wrong, _) = found(200_000, 64, 100, [1, 2]);
        let expected = 256 + (200_000 - 16_384) / 64 / 17;
        assert!(wrong.abs_diff(expected) <= 2, "{wrong} for {expected}");
    }
}
