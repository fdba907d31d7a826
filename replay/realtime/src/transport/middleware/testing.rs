//! A wire in memory for tests of middleware.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pktgen_core::Result;
use pktgen_core::seed::Seed;
use pktgen_core::topology::Population;

use super::Site;
use crate::clock::RunClock;
use crate::dialect::Traffic;
use crate::transport::{Arrival, Found, Submitted, Wire, WireCounters};

/// The state of the wire, visible to a test.
pub(super) struct Bench {
    /// What was sent, in order.
    pub(super) sent: Vec<Vec<u8>>,
    /// Frames to arrive.
    pub(super) incoming: VecDeque<Vec<u8>>,
    /// Number of frames that it still accepts.
    pub(super) room: usize,
    /// Bits of the next frames that arrive marked as lost.
    pub(super) marks: u64,
    /// Calls of `wait` and `flush`, with their time.
    pub(super) calls: Vec<(&'static str, u64)>,
    /// A byte in front of frames on the cable, if any.
    pub(super) prefix: Option<u8>,
    /// Whether its file has ended.
    pub(super) ended: bool,
    /// Whether it reports refusals.
    pub(super) refuses: bool,
}

/// The simple wire.
pub(super) struct Memory(Arc<Mutex<Bench>>, Vec<u8>);

impl Memory {
    pub(super) fn new() -> (Self, Arc<Mutex<Bench>>) {
        let (sent, incoming, calls) = (Vec::new(), VecDeque::new(), Vec::new());
        let bench =
            Bench { sent, incoming, room: usize::MAX, marks: 0, calls, prefix: None, ended: false, refuses: false };
        let bench = Arc::new(Mutex::new(bench));
        (Memory(bench.clone(), Vec::new()), bench)
    }
}

impl Wire for Memory {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        let mut bench = self.0.lock().unwrap();
        let taken = frames.len().min(bench.room);
        bench.room -= taken;
        bench.sent.extend(frames[..taken].iter().map(|frame| frame.to_vec()));
        Ok(Submitted { taken, lost: 0b101, refused: bench.refuses })
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        let mut bench = self.0.lock().unwrap();
        for taken in 0..most {
            let Some(bytes) = bench.incoming.pop_front() else {
                return Ok(Found { frames: taken, ended: bench.ended });
            };
            each(Arrival { bytes: &bytes, len: bytes.len(), stamp_ns: Some(7), lost: bench.marks & 1 == 1 });
            bench.marks >>= 1;
        }
        Ok(Found { frames: most, ended: bench.ended })
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        self.0.lock().unwrap().calls.push(("wait", timeout_ns));
        Ok(())
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        self.0.lock().unwrap().calls.push(("flush", timeout_ns));
        Ok(())
    }

    fn on_cable<'a>(&'a mut self, frame: &'a [u8]) -> &'a [u8] {
        let Some(prefix) = self.0.lock().unwrap().prefix else { return frame };
        self.1 = [&[prefix], frame].concat();
        &self.1
    }

    fn counters(&mut self) -> WireCounters {
        let sent = self.0.lock().unwrap().sent.len() as u64;
        WireCounters { sent, send_dropped: 3, received: 5, receive_dropped: 9 }
    }

    fn mode(&self) -> String {
        "memory".into()
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        vec![("memory".into(), "noted".into())]
    }
}

/// A frame that contains its number.
pub(super) fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; len.max(4)];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// A run that writes no files.
pub(super) fn site() -> Site<'static> {
    within(Path::new("/nonexistent"))
}

/// A run in `folder`.
pub(super) fn within(folder: &Path) -> Site<'_> {
    let workers = Arc::new(Population::regular(2, 3));
    let traffic = Traffic { workers, format: "olaf", packets: 0, window: 0, plain: true };
    Site { clock: RunClock::start(), seed: Seed(1), frame_max: 128, folder, traffic, outer: None, dialect: None }
}
