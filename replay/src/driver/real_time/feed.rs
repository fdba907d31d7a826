//! Workers of an open loop, ahead of time: updates become frames in chunks, on a thread of its own, and the chunks
//! come back with the times at which their frames left, for the records.
//!
//! The thread that sends ([`super::pump`]) then only waits, submits and notes the time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;
use pktgen_generator::record::Sent;
use pktgen_generator::time::{MS, NEVER, NS, Time};
use pktgen_generator::{Error, Result};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{RealOutcome, Shared};
use crate::capture::WorkerRows;
use crate::endpoint::{Endpoint, Host};
use crate::frame::{BURST, Frame, Pool};
use crate::live::SentBy;
/// Chunks that circulate.
const CHUNKS: usize = 8;
/// Most frames of a chunk, and about how many bytes.
const FRAMES: usize = 2048;
const BYTES: usize = 2 << 20;
/// A chunk spans at most this time, so that rows of a slow run reach the disk.
const SPAN: Time = 100 * MS;
/// How long the thread sleeps when there is nothing to do.
const NAP: Duration = Duration::from_micros(500);

/// In [`Chunk::sent`]: the run ended before it left.
pub(super) const UNSENT: Time = NEVER;
/// In [`Chunk::sent`]: it was too late, and was kept back.
pub(super) const SKIPPED: Time = Time::MIN;

/// Frames that are due one after the other.
pub(super) struct Chunk {
    pub(super) pool: Pool,
    pub(super) frames: Vec<Frame>,
    rows: Vec<Sent>,
    /// When each left.
    pub(super) sent: Vec<Time>,
}

/// What the sending thread holds of the circle.
pub(super) struct Chunks {
    pub(super) full: Consumer<Chunk>,
    pub(super) spent: Producer<Chunk>,
}

/// Fills chunks and empties them into the records.
pub(super) struct Feeder {
    endpoint: Box<dyn Endpoint>,
    host: Host,
    until: Time,
    /// Frames of a chunk.
    most: usize,
    free: Vec<Chunk>,
    full: Producer<Chunk>,
    spent: Consumer<Chunk>,
    /// Deadlines mean something.
    paced: bool,
    lateness: Histogram<u64>,
    skipped: u64,
    /// Cut off by `until`.
    cut: bool,
    /// Where those who look on hear of it.
    shown: Option<Arc<SentBy>>,
}

impl Feeder {
    pub(super) fn new(
        endpoint: Box<dyn Endpoint>,
        frame_bytes: usize,
        until: Time,
        paced: bool,
    ) -> Result<(Self, Chunks)> {
        let most = (BYTES / frame_bytes.max(1)).clamp(BURST, FRAMES);
        let (full, to_send) = RingBuffer::new(CHUNKS);
        let (done, spent) = RingBuffer::new(CHUNKS);
        let chunk = || Chunk {
            pool: Pool::new(frame_bytes, most),
            frames: Vec::with_capacity(most),
            rows: Vec::with_capacity(most),
            sent: Vec::with_capacity(most),
        };
        let mut feeder = Feeder {
            endpoint,
            host: Host::default(),
            until,
            most,
            free: (0..CHUNKS).map(|_| chunk()).collect(),
            full,
            spent,
            paced,
            lateness: super::histogram()?,
            skipped: 0,
            cut: false,
            shown: None,
        };
        // Before time begins, so that the first frames are not late.
        feeder.fill_all()?;
        Ok((feeder, Chunks { full: to_send, spent: done }))
    }

    /// Somebody looks on.
    pub(super) fn show(&mut self, sent: Arc<SentBy>) {
        self.shown = Some(sent);
    }

    /// Works until every frame has left or the run ends.
    pub(super) fn run(&mut self, shared: &Shared, rows: &mut WorkerRows) -> Result<()> {
        loop {
            let mut idle = true;
            // Read before the ring is: what was sent before comes back before.
            let pump_over = shared.pump_over.load(Ordering::Acquire);
            while let Ok(chunk) = self.spent.pop() {
                self.empty(chunk, shared, rows)?;
                idle = false;
            }
            let ending = shared.failed.load(Ordering::Relaxed) || shared.stop.load(Ordering::Relaxed);
            let more = !ending && self.fill_all()?;
            if !more {
                shared.fed_all.store(true, Ordering::Release);
            }
            // Chunks that nobody sent stay where they are: their updates were never generated.
            if pump_over || !more && self.free.len() == CHUNKS {
                return Ok(());
            }
            if idle {
                std::thread::sleep(NAP);
            }
        }
    }

    pub(super) fn count(&mut self, outcome: &mut RealOutcome) {
        outcome.lateness = self.lateness.clone();
        outcome.skipped = self.skipped;
        outcome.cut = self.cut;
        outcome.faults.extend(self.endpoint.failure().map(|why| format!("the workers stopped early: {why}")));
    }

    /// Fills what is free. False at the end of the updates.
    fn fill_all(&mut self) -> Result<bool> {
        while self.endpoint.next_wake() <= self.until && self.endpoint.next_wake() != NEVER {
            let Some(mut chunk) = self.free.pop() else { return Ok(true) };
            self.fill(&mut chunk);
            let full = self.full.push(chunk);
            full.map_err(|_| Error::Invalid("more chunks than there are; please report this".into()))?;
        }
        self.cut = self.endpoint.next_wake() != NEVER;
        Ok(false)
    }

    fn fill(&mut self, chunk: &mut Chunk) {
        let until = self.endpoint.next_wake().saturating_add(SPAN).min(self.until);
        while chunk.frames.len() + BURST <= self.most && self.endpoint.next_wake() <= until {
            self.endpoint.pull(until, &mut chunk.pool, &mut self.host);
            for outgoing in self.host.outgoing.drain(..) {
                if let Some(row) = outgoing.record {
                    chunk.frames.push(outgoing.frame);
                    chunk.rows.push(row);
                }
            }
        }
        chunk.sent.resize(chunk.frames.len(), UNSENT);
    }

    /// Takes the rows of a chunk into the records.
    fn empty(&mut self, mut chunk: Chunk, shared: &Shared, rows: &mut WorkerRows) -> Result<()> {
        let mut late_max = 0;
        for ((row, frame), t_sent) in chunk.rows.iter().zip(&chunk.frames).zip(&chunk.sent) {
            let t_sent = match *t_sent {
                UNSENT => continue,
                SKIPPED => {
                    self.skipped += 1;
                    None
                }
                t_sent => {
                    if self.paced {
                        let late_ns = ((t_sent - frame.t) / NS).max(0) as u64;
                        late_max = late_max.max(late_ns);
                        self.lateness.saturating_record(late_ns);
                    }
                    if let Some(shown) = &self.shown {
                        shown.count(row.cluster);
                    }
                    Some(t_sent)
                }
            };
            rows.sent(&Sent { t_sent, ..*row })?;
        }
        shared.live.late_ns.fetch_max(late_max, Ordering::Relaxed);
        // In reverse, so that buffers are taken in ascending order again.
        chunk.frames.iter().rev().for_each(|frame| chunk.pool.release(frame.buffer));
        chunk.frames.clear();
        chunk.rows.clear();
        chunk.sent.clear();
        self.free.push(chunk);
        Ok(())
    }
}
