//! The receiving thread: copies frames from the ring to columns until the capture ends.
//!
//! It never waits for the disk. If the writer has no empty block left, frames are still taken out of the ring and
//! counted as lost here: the count is exact, and the ring depends on this thread only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use pktgen_core::Result;
use pktgen_core::time::{MS, NS, SECOND, Time};
use rtrb::{Consumer, Producer};

use super::block::{Block, ROWS};
use super::{RecordingCounts, RecordingLimits};
use crate::clock::RunClock;
use crate::driver::real_time::FIRST_WAIT;
use crate::transport::{Arrival, RETIRE_MS, Wait, Wire};

/// Maximum number of frames per poll of the ring, and so per reading of the clock.
const BURST: usize = 64;
/// A partial block goes to the writer after this time, so that the files are at most a second behind.
const FLUSH: Time = 900 * MS;
/// Maximum sleep in ns while nothing arrives, before limits and signals are checked again.
const SLEEP_NS: u64 = 10_000_000;
/// Sleep while frames keep coming, instead of waiting for the next one: a wake-up for each costs the core that delivers
/// them, which on a veth is the sender's (measured there: a sixth of the sender's time).
const NAP: Duration = Duration::from_micros(50);
/// Frames count as still coming if the last was found within this time, in ps.
const LIVELY: Time = 10 * MS;
/// Wait for frames that the kernel still holds, at the end and before an interface counts as idle: two retire times of a ring's block.
const TAIL: Time = 2 * RETIRE_MS as Time * MS;

/// The block being filled, and the rings to and from the writer.
pub(super) struct Blocks {
    /// Filled blocks, to the writer.
    pub full: Producer<Block>,
    /// Empty ones, from the writer.
    pub empty: Consumer<Block>,
    /// The writer, which sleeps without work.
    pub writer: Option<Thread>,
    current: Option<Block>,
    /// Empty blocks held here. Last in, first out: its memory is still cached.
    spare: Vec<Block>,
    snap: usize,
    counts: RecordingCounts,
    /// The time of this burst, read when its first frame was found, and the stamp of that frame.
    now: Option<(Time, Option<u64>)>,
}

impl Blocks {
    /// Blocks for frames of which `snap` bytes are kept.
    pub fn new(full: Producer<Block>, empty: Consumer<Block>, snap: usize) -> Self {
        let spare = Vec::with_capacity(empty.buffer().capacity());
        Blocks { full, empty, writer: None, current: None, spare, snap, counts: RecordingCounts::default(), now: None }
    }

    /// Takes a frame.
    #[inline]
    fn take(&mut self, arrival: &Arrival<'_>, clock: &RunClock) {
        let (now, _) = *self.now.get_or_insert_with(|| (clock.now(), arrival.stamp_ns));
        let Some(block) = &mut self.current else {
            self.counts.writer_dropped += 1;
            return;
        };
        let kept = arrival.bytes.len().min(self.snap);
        block.push(now, arrival.stamp_ns, arrival.len, &arrival.bytes[..kept]);
        self.counts.captured += 1;
        self.counts.bytes += arrival.len as u64;
        self.counts.cut += u64::from(kept < arrival.len);
        if block.is_full() {
            self.next();
        }
    }

    /// Ensures that there is a current block, if any empty one is available.
    #[inline]
    fn ready(&mut self) {
        if self.current.is_none() {
            self.next();
        }
    }

    /// Passes the last block to the writer, which ends after it.
    pub fn close(mut self) {
        self.next();
    }

    /// Passes the current block to the writer and takes an empty one.
    fn next(&mut self) {
        if let Some(block) = self.current.take().filter(|block| block.rows() > 0) {
            // The ring has room for all blocks.
            let _ = self.full.push(block);
            if let Some(writer) = &self.writer {
                writer.unpark();
            }
        }
        while let Ok(block) = self.empty.pop() {
            self.spare.push(block);
        }
        self.current = self.spare.pop();
    }

    #[inline]
    fn flush_if_old(&mut self, now: Time) {
        if self.current.as_ref().and_then(Block::first).is_some_and(|first| now - first > FLUSH) {
            self.next();
        }
    }
}

/// Reason of a capture's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaptureEnd {
    /// A limit was reached.
    Limit,
    /// The user stopped it.
    Stopped,
    /// The writer failed.
    WriterGone,
    /// The wire failed.
    Failed,
}

/// Why receiving ended, and what was counted.
pub(super) type Pumped = (Result<CaptureEnd>, RecordingCounts);

/// Called about once per second with the time, what was counted and the wire.
type Watch<'a> = &'a mut dyn FnMut(Time, &RecordingCounts, &mut dyn Wire);

/// A wire and the blocks that are filled from it.
pub(super) struct Pump<'a> {
    pub wire: &'a mut dyn Wire,
    pub clock: &'a RunClock,
    pub limits: &'a RecordingLimits,
    pub blocks: &'a mut Blocks,
    /// Since when the wire holds frames.
    pub opened: Time,
}

impl Pump<'_> {
    /// Receives until a limit, one of `stops`, the end of the writer, or an error of the wire; returns what was counted, whatever ended it.
    /// Nothing follows the last poll, so that counters of lost frames can be read at once: the writer does not have the last block yet.
    pub fn run(mut self, stops: [&AtomicBool; 2], watch: Watch) -> Pumped {
        let ended = self.receive(stops, watch);
        // What waits in the ring came before the end, also before one by a failure.
        let drained = self.drain();
        let ended = ended.and_then(|end| drained.map(|()| end));
        self.blocks.counts.end_ps = self.clock.now();
        (ended, self.blocks.counts)
    }

    fn receive(&mut self, stops: [&AtomicBool; 2], watch: Watch) -> Result<CaptureEnd> {
        let (mut last, mut seen, mut next_watch, mut looked) = (0, false, SECOND, self.clock.now());
        // What came since the wire was opened waits like what comes during a sleep.
        let mut waited = Some((self.opened, looked));
        loop {
            let got = self.burst()?;
            if got > 0 {
                (last, seen) = (self.blocks.now.map_or(last, |(now, _)| now), true);
            }
            let now = if got > 0 { last } else { self.clock.now() };
            if let Some((asked, woken)) = waited.take() {
                looked = if got > 0 { self.held_since(asked, woken) } else { woken };
            }
            let counts = &mut self.blocks.counts;
            counts.longest_away_ps = counts.longest_away_ps.max(now - looked);
            looked = now;
            if self.limits.count.is_some_and(|count| counts.captured >= count)
                || self.limits.length.is_some_and(|length| now >= length)
                || self.limits.idle.is_some_and(|idle| now - last >= idle.max(if seen { TAIL } else { FIRST_WAIT }))
            {
                return Ok(CaptureEnd::Limit);
            }
            if stops.iter().any(|stop| stop.load(Ordering::Relaxed)) {
                return Ok(CaptureEnd::Stopped);
            }
            if self.blocks.full.is_abandoned() {
                return Ok(CaptureEnd::WriterGone);
            }
            self.blocks.flush_if_old(now);
            if now >= next_watch {
                // A ring tells of an interface that went down only here, if nothing else waits.
                self.wire.wait(0)?;
                watch(now, &self.blocks.counts, self.wire);
                next_watch = now + SECOND;
            }
            if got == 0 {
                match self.limits.wait {
                    Wait::Spin => std::hint::spin_loop(),
                    Wait::Block if seen && now - last < LIVELY => std::thread::sleep(NAP),
                    Wait::Block => {
                        self.wire.wait(SLEEP_NS)?;
                        waited = Some((now, self.clock.now()));
                    }
                }
            }
        }
    }

    /// Returns since when the ring has held the frames of this burst, after a wait from `asked` to `woken`: since the first one's stamp if
    /// that is of the host's clock, else since the wait was due to end.
    fn held_since(&self, asked: Time, woken: Time) -> Time {
        let anchor_ns = i128::from(self.clock.anchor_unix_ns());
        let stamp = self.blocks.now.and_then(|(_, stamp_ns)| stamp_ns);
        let arrived = stamp.and_then(|ns| Time::try_from((i128::from(ns) - anchor_ns) * i128::from(NS)).ok());
        let due = asked + SLEEP_NS as Time * NS;
        arrived.filter(|t| (asked..=woken).contains(t)).unwrap_or(due.min(woken))
    }

    /// Frames that may still be taken.
    #[inline]
    fn left(&self) -> u64 {
        self.limits.count.map_or(u64::MAX, |count| count.saturating_sub(self.blocks.counts.captured))
    }

    /// Polls the ring once.
    #[inline]
    fn burst(&mut self) -> Result<usize> {
        let left = self.left();
        let Pump { wire, clock, blocks, .. } = self;
        blocks.ready();
        blocks.now = None;
        let found = wire.receive(left.min(BURST as u64) as usize, &mut |arrival| blocks.take(&arrival, clock))?;
        Ok(found.frames)
    }

    /// Takes frames that had arrived at the end: a ring's last block is handed over with a delay.
    fn drain(&mut self) -> Result<()> {
        let until = self.clock.now() + TAIL;
        loop {
            let full = self.left() == 0;
            let got = if full { 0 } else { self.burst()? };
            let now = self.clock.now();
            // What waits in the ring came before the end. A ring that never empties is left after a second.
            if full || now >= until && got == 0 || now >= until + SECOND {
                return Ok(());
            }
            if got == 0 {
                self.wire.wait(MS as u64 / 1000)?;
            }
        }
    }
}

/// Minimum number of blocks.
const BLOCKS: usize = 4;

/// Returns the number of blocks for this buffer size, at least a few, and of frames in each, at least those of a burst.
pub(super) fn blocks_in(bytes: usize, snap: usize) -> (usize, usize) {
    let frames = bytes / Block::frame_size(snap);
    let rows = (frames / BLOCKS / BURST * BURST).clamp(BURST, ROWS);
    ((frames / rows).max(BLOCKS), rows)
}

const _: () = assert!(ROWS.is_multiple_of(BURST), "a block ends with a burst");

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use pktgen_core::time::NEVER;
    use rtrb::RingBuffer;

    use super::*;
    use crate::clock::FileClock;
    use crate::transport::{Found, Submitted, WireCounters};

    /// Receives one frame, when it is due. Each poll takes a millisecond of its clock, however busy the host is.
    struct Late<'a> {
        clock: FileClock,
        due: &'a AtomicI64,
        given: bool,
    }

    impl Wire for Late<'_> {
        fn send(&mut self, _frames: &[&[u8]]) -> Result<Submitted> {
            Ok(Submitted::default())
        }

        fn receive(&mut self, _most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
            self.clock.wait_until(self.clock.now() + MS);
            if self.given || self.clock.now() < self.due.load(Ordering::Relaxed) {
                return Ok(Found::default());
            }
            self.given = true;
            each(Arrival { bytes: &[7; 60], len: 60, stamp_ns: None, lost: false });
            Ok(Found::some(1))
        }

        fn wait(&mut self, _timeout_ns: u64) -> Result<()> {
            Ok(())
        }

        fn counters(&mut self) -> WireCounters {
            WireCounters::default()
        }

        fn mode(&self) -> String {
            "late".into()
        }
    }

    /// Sleeps for two seconds at each wait. With `stamp`, a frame is there then.
    struct Asleep {
        clock: FileClock,
        stamp: Option<Option<u64>>,
    }

    impl Wire for Asleep {
        fn send(&mut self, _frames: &[&[u8]]) -> Result<Submitted> {
            Ok(Submitted::default())
        }

        fn receive(&mut self, _most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
            let Some(stamp_ns) = self.stamp.take_if(|_| self.clock.now() >= SECOND) else {
                return Ok(Found::default());
            };
            each(Arrival { bytes: &[7; 60], len: 60, stamp_ns, lost: false });
            Ok(Found::some(1))
        }

        fn wait(&mut self, _timeout_ns: u64) -> Result<()> {
            self.clock.wait_until(self.clock.now() + 2 * SECOND);
            Ok(())
        }

        fn counters(&mut self) -> WireCounters {
            WireCounters::default()
        }

        fn mode(&self) -> String {
            "asleep".into()
        }
    }

    /// What arrives during a wait is in the ring from then on, and not from the end of the wait.
    #[test]
    fn frames_that_come_during_a_wait_are_held_since_they_came() {
        const ANCHOR_NS: u64 = 5_000_000_000;
        let (beyond, stopped) = (2 * SECOND - 10 * MS, AtomicBool::new(false));
        for (stamp, away) in [
            (Some(Some(ANCHOR_NS + 500_000_000)), 1500 * MS),
            (Some(Some(ANCHOR_NS)), 2 * SECOND),
            // Without a stamp, and with one of another clock.
            (Some(None), beyond),
            (Some(Some(37)), beyond),
            (Some(Some(ANCHOR_NS + 37_000_000_000)), beyond),
            (None, 0),
        ] {
            let (full, _filled) = RingBuffer::new(2);
            let (mut emptied, empty) = RingBuffer::new(2);
            assert!(emptied.push(Block::new(BURST, 64, true)).is_ok());
            let mut blocks = Blocks::new(full, empty, 64);
            let file = FileClock::new();
            let clock = RunClock::of_file(file.clone(), ANCHOR_NS);
            let limits = RecordingLimits { count: Some(1), length: Some(3 * SECOND), idle: None, wait: Wait::Block };
            let mut wire = Asleep { clock: file, stamp };
            let pump = Pump { wire: &mut wire, clock: &clock, limits: &limits, blocks: &mut blocks, opened: 0 };
            let (ended, counts) = pump.run([&stopped, &stopped], &mut |_, _, _| ());
            assert!(matches!(ended, Ok(CaptureEnd::Limit)), "{ended:?}");
            assert_eq!((counts.captured, counts.longest_away_ps), (u64::from(stamp.is_some()), away), "{stamp:?}");
        }
    }

    /// What came between the opening of the wire and the first poll was in the ring meanwhile; where nothing came, nothing was.
    #[test]
    fn the_ring_holds_frames_from_when_it_is_open() {
        const ANCHOR_NS: u64 = 5_000_000_000;
        for (stamp, away) in
            [(Some(Some(ANCHOR_NS + 900_000_000)), 100 * MS), (Some(None), SECOND + 300 * MS - 10 * MS), (None, 0)]
        {
            let (full, _filled) = RingBuffer::new(2);
            let (mut emptied, empty) = RingBuffer::new(2);
            assert!(emptied.push(Block::new(BURST, 64, true)).is_ok());
            let mut blocks = Blocks::new(full, empty, 64);
            let (file, stopped) = (FileClock::new(), AtomicBool::new(false));
            let clock = RunClock::of_file(file.clone(), ANCHOR_NS);
            file.wait_until(SECOND);
            let limits = RecordingLimits { count: Some(1), length: Some(3 * SECOND), idle: None, wait: Wait::Block };
            let mut wire = Asleep { clock: file, stamp };
            let pump = Pump { wire: &mut wire, clock: &clock, limits: &limits, blocks: &mut blocks, opened: -300 * MS };
            let (ended, counts) = pump.run([&stopped, &stopped], &mut |_, _, _| ());
            assert!(matches!(ended, Ok(CaptureEnd::Limit)), "{ended:?}");
            assert_eq!((counts.captured, counts.longest_away_ps), (u64::from(stamp.is_some()), away), "{stamp:?}");
        }
    }

    #[test]
    fn buffers_are_as_large_as_asked_for() {
        for bytes in [1 << 20, 8 << 20, 128 << 20, 4 << 30] {
            for snap in [14, 128, 1514, 9018, 65_549] {
                let (blocks, rows) = blocks_in(bytes, snap);
                let size = blocks * rows * Block::frame_size(snap);
                let least = BLOCKS * BURST * Block::frame_size(snap);
                assert!(size <= bytes.max(least) && size >= bytes / 2, "{bytes}, {snap}: {blocks} of {rows}");
                assert!(rows.is_multiple_of(BURST) && rows <= ROWS, "{rows}");
            }
        }
        assert_eq!(blocks_in(128 << 20, 128), (107, ROWS));
    }

    /// A frame that comes shortly after one watch is with the writer at the next one, a second later.
    #[test]
    fn a_frame_is_with_the_writer_within_a_second() {
        let (full, mut filled) = RingBuffer::new(2);
        let (mut emptied, empty) = RingBuffer::new(2);
        for _ in 0..2 {
            assert!(emptied.push(Block::new(BURST, 64, false)).is_ok());
        }
        let mut blocks = Blocks::new(full, empty, 64);
        let (file, due, stop) = (FileClock::new(), AtomicI64::new(NEVER), AtomicBool::new(false));
        let clock = RunClock::of_file(file.clone(), 0);
        let limits = RecordingLimits { count: None, length: None, idle: None, wait: Wait::Block };
        let mut wire = Late { clock: file, due: &due, given: false };
        let mut rows = None;
        let mut watch = |now: Time, _: &RecordingCounts, _: &mut dyn Wire| {
            if due.load(Ordering::Relaxed) == NEVER {
                due.store(now + 40 * MS, Ordering::Relaxed);
            } else {
                rows = filled.pop().ok().map(|block| block.rows());
                stop.store(true, Ordering::Relaxed);
            }
        };
        let pump = Pump { wire: &mut wire, clock: &clock, limits: &limits, blocks: &mut blocks, opened: 0 };
        let (ended, counts) = pump.run([&stop, &AtomicBool::new(false)], &mut watch);
        assert!(matches!(ended, Ok(CaptureEnd::Stopped)), "{ended:?}");
        assert_eq!((rows, counts.captured), (Some(1), 1));
    }
}
