//! Frames attached to a wire: a closed set that is sent at top speed, pass by pass, is prepared once and then sent by number.
//!
//! The sending thread notes time and number of frames of each call; the feeder generates the rows of the same schedule,
//! at its own speed, and dates them by those notes.

use std::collections::VecDeque;

use pktgen_core::Result;
use pktgen_core::time::{HORIZON, Time};
use pktgen_workload::workload::Source;
use rtrb::{Consumer, Producer};

use super::feed::Chunk;
use crate::transport::{AttachedFrames, TransportPlan};

/// Maximum bytes of a set, with each frame rounded up to a cache line.
const BYTES: usize = 1 << 28;
const LINE: usize = 64;
/// Smaller sets are repeated up to this number of frames, so that calls are large enough.
const LEAST: usize = 4096;
/// Maximum number of calls that wait for the feeder.
pub(super) const CALLS: usize = 1 << 16;

/// The frames of one pass, or of several short passes.
pub(crate) struct FrameSet {
    bytes: Vec<u8>,
    /// End of each frame, and its worker.
    ends: Vec<(usize, u32)>,
    /// Frames in all passes.
    total: u64,
    /// Frames of one pass.
    pass: usize,
}

impl FrameSet {
    /// The frames of `source`, which sends raw frames; `None` if they do not repeat, are too many, or if numbers or
    /// time do not suffice for all passes.
    pub(crate) fn of(mut source: Box<dyn Source>) -> Option<Self> {
        let passes = source.passes()?;
        let mut set = FrameSet { bytes: Vec::new(), ends: Vec::new(), total: 0, pass: 0 };
        let (mut counts, mut room) = (vec![0u64; source.population().len()], 0);
        let first = source.peek()?.t_gen;
        let mut last = first;
        while let Some(update) = source.peek().copied().filter(|_| source.passes() == Some(passes)) {
            let (from, bytes) = (set.bytes.len(), update.bytes as usize);
            room += bytes.next_multiple_of(LINE);
            if room > BYTES {
                return None;
            }
            set.bytes.resize(from + bytes, 0);
            source.take(&mut set.bytes[from..]);
            set.ends.push((set.bytes.len(), update.worker));
            counts[update.worker as usize] += 1;
            last = update.t_gen;
        }
        // One more span: one pass follows the other after a mean gap.
        let span = i128::from(last - first) * 2 * i128::from(passes);
        let numbers = counts.iter().max()? * u64::from(passes);
        if source.failure().is_some() || span > i128::from(HORIZON - first) || numbers > u64::from(u32::MAX) {
            return None;
        }
        set.pass = set.ends.len();
        set.total = set.pass as u64 * u64::from(passes);
        Some(set)
    }

    /// Attaches the frames of each of `lanes` queues, if all support it: the worker numbered w, counted by `stride`,
    /// sends on queue w mod `lanes`.
    pub(crate) fn attach(&self, plan: &TransportPlan, lanes: usize, stride: u32) -> Result<Option<Vec<Attached>>> {
        let mut all = Vec::with_capacity(lanes);
        for lane in 0..lanes {
            let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
            let own = starts.zip(&self.ends).filter(|(_, (_, worker))| (worker / stride) as usize % lanes == lane);
            let mut frames: Vec<&[u8]> = own.map(|(from, (to, _))| &self.bytes[from..*to]).collect();
            let total = frames.len() as u64 * (self.total / self.pass as u64);
            let pass = frames.len();
            while pass > 0 && frames.len() < LEAST && (frames.len() as u64) < total {
                frames.extend_from_within(..pass);
            }
            let Some(port) = plan.kind.attach(plan, &frames)? else { return Ok(None) };
            let mut sum = 0;
            let sums = frames.iter().map(|frame| {
                sum += frame.len() as u64;
                sum
            });
            all.push(Attached { port, sums: std::iter::once(0).chain(sums).collect(), total, sent: 0 });
        }
        Ok(Some(all))
    }
}

/// The frames attached for one queue, and the progress of sending.
pub(crate) struct Attached {
    pub(super) port: Box<dyn AttachedFrames>,
    /// Cumulative bytes of the frames.
    sums: Vec<u64>,
    /// Total number of frames to be sent.
    total: u64,
    sent: u64,
}

impl Attached {
    /// Returns the next frames, at most `most`: number of the first, and count. `None` at the end.
    #[inline]
    pub(super) fn next(&self, most: usize) -> Option<(usize, usize)> {
        let set = self.sums.len() - 1;
        let left = self.total - self.sent;
        if left == 0 {
            return None;
        }
        let at = (self.sent % set as u64) as usize;
        Some((at, (set - at).min(most).min(usize::try_from(left).unwrap_or(most))))
    }

    /// Records that `taken` frames left. Returns their bytes, and those of the last.
    #[inline]
    pub(super) fn left(&mut self, at: usize, taken: usize) -> (u64, u64) {
        self.sent += taken as u64;
        let to = at + taken;
        (self.sums[to] - self.sums[at], self.sums[to] - self.sums[to.saturating_sub(1)])
    }
}

/// A call: its time, and the number of frames that left.
pub(super) type Call = (Time, u32);

/// The sending thread's notes of its calls.
pub(super) type CallNotes = Producer<Call>;

/// Rows of one wire that wait for the calls in which their frames leave.
pub(super) struct Calls {
    noted: Consumer<Call>,
    known: VecDeque<Call>,
    chunks: VecDeque<Chunk>,
    /// Number of dated rows of the first chunk.
    at: usize,
}

impl Calls {
    pub(super) fn new(noted: Consumer<Call>) -> Self {
        Calls { noted, known: VecDeque::with_capacity(1 << 12), chunks: VecDeque::new(), at: 0 }
    }

    /// Reads new notes. Returns the number of frames that left.
    pub(super) fn hear(&mut self) -> u64 {
        let mut all = 0;
        while let Ok((t, left)) = self.noted.pop() {
            self.known.push_back((t, left));
            all += u64::from(left);
        }
        all
    }

    /// Returns whether frames without rows have left.
    pub(super) fn outstanding(&self) -> bool {
        !self.known.is_empty()
    }

    /// Adds rows of frames that leave later than all before.
    pub(super) fn wait(&mut self, chunk: Chunk) {
        self.chunks.push_back(chunk);
    }

    /// Returns the next chunk whose frames have all left; at the end, `over`, one of which some have left.
    pub(super) fn dated(&mut self, over: bool) -> Option<Chunk> {
        let chunk = self.chunks.front_mut()?;
        while self.at < chunk.sent.len()
            && let Some((t, left)) = self.known.front_mut()
        {
            let count = (chunk.sent.len() - self.at).min(*left as usize);
            chunk.sent[self.at..self.at + count].fill(*t);
            self.at += count;
            *left -= count as u32;
            if *left == 0 {
                self.known.pop_front();
            }
        }
        if self.at == chunk.sent.len() || over && self.at > 0 {
            self.at = 0;
            return self.chunks.pop_front();
        }
        None
    }

    /// Discards frames that left: they get no rows.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::config::Document;
    use pktgen_core::seed::Seed;
    use pktgen_workload::workload::open;
    use rtrb::RingBuffer;

    use super::*;
    use crate::transport::{Submitted, WireCounters};

    /// Test wire: only places are used.
    struct Nothing;

    impl AttachedFrames for Nothing {
        fn send(&mut self, _first: usize, _count: usize) -> Result<Submitted> {
            Ok(Submitted::default())
        }
        fn counters(&mut self) -> WireCounters {
            WireCounters::default()
        }
        fn mode(&self) -> String {
            String::new()
        }
    }

    fn set(workload: &str) -> Option<FrameSet> {
        let text = format!("[workload]\n{workload}\n[schedule]\noffered = \"1Mbps\"\n");
        FrameSet::of(open(&mut Document::parse(&text, "x.toml").unwrap(), Seed(1)).unwrap().source)
    }

    #[test]
    fn a_set_is_one_pass_of_what_repeats() {
        let made = "kind = \"raw\"\nflows = 2\npackets = 50\nsizes = [60, 61]\n";
        let once = set(made).unwrap();
        let thrice = set(&format!("{made}repeat = 3")).unwrap();
        assert_eq!((once.pass, once.total, thrice.pass, thrice.total), (100, 100, 100, 300));
        assert_eq!((&once.bytes, &once.ends), (&thrice.bytes, &thrice.ends));
        assert_eq!(once.bytes.len(), 50 * 121);
        // Limits of a flow's numbers and of time, and workloads that are not raw.
        assert!(set(&format!("{made}repeat = 90000000")).is_none());
        assert!(set("kind = \"raw\"\nflows = 1\npackets = 1000\nrepeat = 4294967\n").is_none());
        assert!(set(&format!("{made}repeat = 3\nmoves = []")).is_some());
        assert!(set("updates = 10\nclusters = 1\n").is_none());
    }

    /// For any number of accepted frames, they go in order, pass after pass, to the last.
    #[test]
    fn passes_follow_each_other() {
        let mut attached = Attached { port: Box::new(Nothing), sums: vec![0, 60, 160, 175], total: 8, sent: 0 };
        let mut numbers = Vec::new();
        let mut bytes = 0;
        for (most, takes) in [(2, 2), (2, 0), (9, 1), (9, 2), (9, 9), (1, 1), (9, 9), (9, 9)] {
            let Some((at, count)) = attached.next(most) else { break };
            let taken = count.min(takes);
            numbers.extend(at..at + taken);
            let (more, last) = attached.left(at, taken);
            bytes += more;
            assert!(taken == 0 || last == [60, 100, 15][at + taken - 1]);
        }
        assert_eq!((numbers, bytes, attached.next(9)), (vec![0, 1, 2, 0, 1, 2, 0, 1], 2 * 175 + 160, None));
    }

    #[test]
    fn rows_are_dated_by_the_calls_in_which_their_frames_left() {
        let (mut notes, noted) = RingBuffer::new(8);
        let mut calls = Calls::new(noted);
        let chunk = |count| Chunk::undated(count);
        [3, 0, 4].into_iter().for_each(|count| calls.wait(chunk(count)));
        notes.push((10, 2)).unwrap();
        assert_eq!(calls.hear(), 2);
        assert!(calls.dated(false).is_none() && !calls.outstanding(), "of the first chunk one frame has not left");
        notes.push((20, 2)).unwrap();
        notes.push((30, 1)).unwrap();
        assert_eq!(calls.hear(), 3);
        assert_eq!(calls.dated(false).unwrap().sent, [10, 10, 20]);
        assert!(calls.dated(false).unwrap().sent.is_empty());
        assert!(calls.dated(false).is_none());
        // The run ended before the others left.
        assert_eq!(calls.dated(true).unwrap().sent, [20, 30, super::super::feed::UNSENT, super::super::feed::UNSENT]);
        assert!(calls.dated(true).is_none());
    }
}
