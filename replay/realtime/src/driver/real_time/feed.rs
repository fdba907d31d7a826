//! Workers of an open loop, ahead of time: a separate thread turns updates into frames, in chunks, and the chunks
//! return with the departure times of their frames, for the records.
//!
//! The sending thread ([`super::pump`]) then only waits, submits and notes the time. With several queues there is one for each: a round of
//! frames is divided among them by worker, and all rows go to the records in the order of their frames' departures.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;
use pktgen_core::record::{Fault, Sent};
use pktgen_core::time::{HORIZON, MS, NEVER, NS, Time};
use pktgen_core::{Error, Result};
use rtrb::{Consumer, Producer, RingBuffer};

use super::attached::{CALLS, CallNotes, Calls};
use super::{RealOutcome, Shared};
use crate::capture::WorkerRows;
use crate::endpoint::{Host, Workers};
use crate::frame::{BURST, Frame, Pool};
use crate::live::SentBy;
use crate::steer::Follower;
/// Number of circulating rounds.
const CHUNKS: usize = 8;
/// Maximum frames of a round, and approximate bytes.
const FRAMES: usize = 2048;
const BYTES: usize = 2 << 20;
/// At top speed, rounds of small frames are reduced by this factor, so that all fit the cache of the core that makes
/// them, unless a call takes more. Larger frames do not fit anyway: measured at 1500 B, shorter rounds were slower.
const PART_AT_TOP: usize = 4;
const SMALL: usize = 256;
/// Maximum time span of a round, so that rows of a slow run reach the disk.
const SPAN: Time = 100 * MS;
/// Sleep of the thread without work.
const NAP: Duration = Duration::from_micros(500);

/// In [`Chunk::sent`]: the run ended before the frame left.
pub(super) const UNSENT: Time = NEVER;
/// In [`Chunk::sent`]: the frame was too late and was not sent.
pub(super) const SKIPPED: Time = Time::MIN;

/// The part of a round for one queue: frames in the order of their due times.
pub(super) struct Chunk {
    /// The pool of the round's frames; none while it is not being sent.
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) frames: Vec<Frame>,
    rows: Vec<Sent>,
    /// Departure of each frame.
    pub(super) sent: Vec<Time>,
    /// Whether the host delayed it.
    pub(super) by_host: Vec<bool>,
}

impl Chunk {
    /// A chunk of `count` frames that have not left.
    #[cfg(test)]
    pub(super) fn undated(count: usize) -> Self {
        Chunk {
            pool: None,
            frames: Vec::new(),
            rows: Vec::new(),
            sent: vec![UNSENT; count],
            by_host: vec![false; count],
        }
    }
}

/// A round, from the feeder's view.
struct Round {
    pool: Arc<Pool>,
    /// Due time of its first frame.
    first: Time,
    /// The part of each queue; none while it is being sent.
    parts: Vec<Option<Chunk>>,
}

/// The feeder's side of a queue.
struct Lane {
    full: Producer<Chunk>,
    spent: Consumer<Chunk>,
    lateness: Histogram<u64>,
    /// Lateness of frames that the host did not delay.
    others: Histogram<u64>,
    /// The round whose rows are written next, counted from the earliest under way, and the position in it.
    round: usize,
    at: usize,
    /// For frames attached to the wire: the calls in which they leave.
    calls: Option<Calls>,
}

/// The next row of a queue.
enum Next {
    /// A row with its departure, or due time if it was skipped; [`Time::MIN`] if it was not sent.
    Row(Time),
    /// All sent frames are written.
    Nothing,
    /// A part has not returned yet.
    Unknown,
}

/// The sending thread's ends of the rings.
pub(super) struct Chunks {
    pub(super) full: Consumer<Chunk>,
    pub(super) spent: Producer<Chunk>,
    /// For frames attached to the wire: no chunks come, and calls are noted here.
    pub(super) calls: Option<CallNotes>,
}

/// Fills chunks, and writes returned chunks to the records.
pub(super) struct Feeder {
    workers: Box<dyn Workers>,
    host: Host,
    until: Time,
    /// Maximum frames of a round.
    most: usize,
    free: Vec<Round>,
    /// Rounds being sent, earliest first. A queue returns its parts in order.
    under_way: VecDeque<Round>,
    lanes: Vec<Lane>,
    /// This process runs every n-th worker.
    stride: u32,
    /// Whether deadlines are meaningful.
    paced: bool,
    skipped: u64,
    /// Departure of the last frame whose row is written.
    latest: Time,
    /// Whether it was cut off by `until`.
    cut: bool,
    /// Publishes live statistics, if set.
    shown: Option<Arc<SentBy>>,
    /// Steering of the schedule, if permitted.
    steered: Option<Follower>,
    /// Whether there are cores for writing rows of attached frames while these leave.
    rows_aside: bool,
}

impl Feeder {
    pub(super) fn new(
        workers: Box<dyn Workers>,
        frame_bytes: usize,
        until: Time,
        paced: bool,
        (queues, stride): (usize, u32),
        attached: bool,
        large_calls: bool,
    ) -> Result<(Self, Vec<Chunks>)> {
        let part = if paced || large_calls || frame_bytes > SMALL { 1 } else { PART_AT_TOP };
        let most = (BYTES / part / frame_bytes.max(1)).clamp(BURST, FRAMES / part);
        let chunk = || Chunk {
            pool: None,
            frames: Vec::with_capacity(most),
            rows: Vec::with_capacity(most),
            sent: Vec::with_capacity(most),
            by_host: Vec::with_capacity(most),
        };
        let round = || Round {
            pool: Arc::new(Pool::new(frame_bytes, most)),
            first: NEVER,
            parts: (0..queues).map(|_| Some(chunk())).collect(),
        };
        let lane = |_| -> Result<(Lane, Chunks)> {
            let (full, to_send) = RingBuffer::new(CHUNKS);
            let (done, spent) = RingBuffer::new(CHUNKS);
            let (notes, noted) = if attached { RingBuffer::new(CALLS) } else { RingBuffer::new(1) };
            let calls = attached.then(|| Calls::new(noted));
            let (lateness, others) = (super::histogram()?, super::histogram()?);
            let lane = Lane { full, spent, lateness, others, round: 0, at: 0, calls };
            Ok((lane, Chunks { full: to_send, spent: done, calls: attached.then_some(notes) }))
        };
        let (lanes, chunks): (Vec<_>, Vec<_>) = (0..queues).map(lane).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let mut feeder = Feeder {
            workers,
            host: Host::default(),
            until,
            most,
            free: (0..CHUNKS).map(|_| round()).collect(),
            under_way: VecDeque::with_capacity(CHUNKS),
            lanes,
            stride,
            paced,
            skipped: 0,
            latest: 0,
            cut: false,
            shown: None,
            steered: None,
            rows_aside: true,
        };
        // Before time begins, so that the first frames are not late.
        feeder.fill_all()?;
        Ok((feeder, chunks))
    }

    /// Publishes live statistics to `sent`.
    pub(super) fn show(&mut self, sent: Arc<SentBy>) {
        sent.counted(0);
        self.shown = Some(sent);
    }

    /// Sets whether rows of attached frames may be written while these leave; else they are written afterwards, so as
    /// not to slow them down.
    pub(super) fn write_aside(&mut self, aside: bool) {
        self.rows_aside = aside;
    }

    /// Sets the steering of the schedule.
    pub(super) fn follow(&mut self, steered: Option<Follower>) {
        self.steered = steered;
    }

    /// Returns the due time of what is scheduled for `t`.
    #[inline]
    fn due(&self, t: Time) -> Time {
        self.steered.as_ref().map_or(t, |follower| follower.due(t))
    }

    /// Works until every frame has left or the run ends.
    pub(super) fn run(&mut self, shared: &Shared, rows: &mut WorkerRows) -> Result<()> {
        if self.lanes.iter().any(|lane| lane.calls.is_some()) {
            return self.follow_calls(shared, rows);
        }
        loop {
            // Read before the rings: what was sent earlier returns earlier.
            let pumps_over = shared.pumps.load(Ordering::Acquire) == 0;
            let now = if shared.clock.file().is_some() { NEVER } else { shared.clock.now() };
            self.take_back();
            // After the returned chunks: a change is published to this thread first.
            if let Some(follower) = &mut self.steered {
                follower.look(self.under_way.front().map_or(Time::MIN, |round| round.first));
            }
            let idle = !self.write(pumps_over, shared, rows)?;
            self.tell_counted(pumps_over, now);
            let more = !shared.ending() && self.fill_all()?;
            if !more {
                shared.fed_all.store(true, Ordering::Release);
            }
            // Parts that did not return keep their place: their updates were never generated.
            if pumps_over || !more && self.free.len() == CHUNKS {
                return Ok(());
            }
            if idle {
                std::thread::sleep(NAP);
            }
        }
    }

    /// Runs with frames attached to the wires: rows are generated when the frames may already have left.
    fn follow_calls(&mut self, shared: &Shared, rows: &mut WorkerRows) -> Result<()> {
        loop {
            // Read before the notes: earlier notes are then read.
            let pumps_over = shared.pumps.load(Ordering::Acquire) == 0;
            let now = shared.clock.now();
            let left: u64 = self.calls().map(Calls::hear).sum();
            if let Some(shown) = &self.shown {
                // Raw frames belong to one cluster.
                shown.count_all(0, left);
                shown.counted(if pumps_over { NEVER } else { now });
            }
            let idle = if rows.keeps_none() {
                self.calls().for_each(Calls::forget);
                true
            } else if self.rows_aside || pumps_over {
                !self.write_dated(shared, rows)?
            } else {
                true
            };
            if pumps_over && !self.calls().any(|calls| calls.outstanding()) {
                self.take_back_dated(true);
                return self.write(true, shared, rows).map(drop);
            }
            if idle {
                std::thread::sleep(NAP);
            }
        }
    }

    /// Generates rows and writes those whose frames left. Returns whether there were any.
    fn write_dated(&mut self, shared: &Shared, rows: &mut WorkerRows) -> Result<bool> {
        if !self.fill_all()? && self.under_way.is_empty() && self.calls().any(|calls| calls.outstanding()) {
            return Err(Error::Invalid("frames left that are not of the schedule; please report this".into()));
        }
        self.take_back_dated(false);
        self.write(false, shared, rows)
    }

    fn calls(&mut self) -> impl Iterator<Item = &mut Calls> {
        self.lanes.iter_mut().filter_map(|lane| lane.calls.as_mut())
    }

    /// Publishes the time up to which all departures are counted, as of `now`: that of the last written row, or of a
    /// part that is due later.
    fn tell_counted(&self, over: bool, now: Time) {
        let Some(shown) = &self.shown else { return };
        let next = |lane: &Lane| self.under_way.get(lane.round).map_or(NEVER, |round| self.due(round.first));
        let first = self.lanes.iter().map(next).min().unwrap_or(NEVER);
        // Without deadlines frames leave before they are due.
        let until = if self.paced || first == NEVER { first.max(self.latest) } else { self.latest };
        shown.counted(if over { NEVER } else { until.min(now) });
    }

    /// Returns the lateness of a queue's frames: median, 99 %, maximum.
    pub(super) fn late_ns(&self, queue: usize) -> Option<[u64; 3]> {
        let lateness = self.lanes.get(queue).map(|lane| &lane.lateness).filter(|all| self.paced && !all.is_empty())?;
        Some([lateness.value_at_quantile(0.5), lateness.value_at_quantile(0.99), lateness.max()])
    }

    pub(super) fn count(&mut self, outcome: &mut RealOutcome) -> Result<()> {
        let wrong = |e| Error::Invalid(format!("histograms of lateness do not add up: {e}"));
        for lane in &self.lanes {
            outcome.lateness.add(&lane.lateness).map_err(wrong)?;
            if self.paced {
                let others = match &mut outcome.lateness_of_others {
                    Some(others) => others,
                    none => none.insert(super::histogram()?),
                };
                others.add(&lane.others).map_err(wrong)?;
            }
        }
        outcome.skipped = self.skipped;
        outcome.cut = self.cut;
        outcome.faults.extend(self.workers.end().failure.map(|why| Fault::WorkersStopped { why }));
        Ok(())
    }

    /// Fills free rounds. Returns false at the end of the updates.
    fn fill_all(&mut self) -> Result<bool> {
        while self.workers.next_wake() <= self.until && self.workers.next_wake() != NEVER {
            let Some(mut round) = self.free.pop() else { return Ok(true) };
            self.fill(&mut round)?;
            for (lane, part) in self.lanes.iter_mut().zip(&mut round.parts) {
                let Some(mut chunk) = part.take() else { continue };
                chunk.sent.resize(chunk.frames.len(), UNSENT);
                chunk.by_host.resize(chunk.frames.len(), false);
                if let Some(calls) = &mut lane.calls {
                    calls.wait(chunk);
                    continue;
                }
                chunk.pool = Some(round.pool.clone());
                let full = lane.full.push(chunk);
                full.map_err(|_| Error::Invalid("more chunks than there are; please report this".into()))?;
            }
            self.under_way.push_back(round);
        }
        self.cut = self.workers.next_wake() != NEVER;
        Ok(false)
    }

    fn fill(&mut self, round: &mut Round) -> Result<()> {
        let Round { pool, parts, first } = round;
        *first = self.workers.next_wake();
        let pool = Arc::get_mut(pool).ok_or_else(held)?;
        // Without deadlines a schedule runs faster than stated.
        let span = if self.paced { SPAN } else { HORIZON };
        let until = self.workers.next_wake().saturating_add(span).min(self.until).min(NEVER - 1);
        let mut count = 0;
        while count + BURST <= self.most && self.workers.next_wake() <= until {
            self.workers.pull(until, pool, &mut self.host);
            for outgoing in self.host.outgoing.drain(..) {
                // By worker, so that each worker's frames stay in order, counted among those of this process, so that each queue has some.
                let lane = (outgoing.frame.worker / self.stride) as usize % parts.len();
                if let (Some(row), Some(chunk)) = (outgoing.record, &mut parts[lane]) {
                    chunk.frames.push(outgoing.frame);
                    chunk.rows.push(row);
                    count += 1;
                }
            }
        }
        Ok(())
    }

    /// Takes back parts that queues have sent.
    fn take_back(&mut self) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let mut rounds = self.under_way.iter_mut();
            while let Ok(mut chunk) = lane.spent.pop() {
                chunk.pool = None;
                if let Some(round) = rounds.find(|round| round.parts[number].is_none()) {
                    round.parts[number] = Some(chunk);
                }
            }
        }
    }

    /// Takes back attached frames that have left; at the end, `over`, also partly sent chunks.
    fn take_back_dated(&mut self, over: bool) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let mut rounds = self.under_way.iter_mut();
            while let Some(chunk) = lane.calls.as_mut().and_then(|calls| calls.dated(over)) {
                if let Some(round) = rounds.find(|round| round.parts[number].is_none()) {
                    round.parts[number] = Some(chunk);
                }
            }
        }
    }

    /// Writes rows to the records by departure time, as far as it is known for all queues: a part that is still being sent holds the
    /// others back, and returns by itself. At the end, `over`, no more parts return. Returns whether anything was done.
    fn write(&mut self, over: bool, shared: &Shared, rows: &mut WorkerRows) -> Result<bool> {
        let (mut any, mut late_max) = (false, 0);
        loop {
            // The queue with the earliest row, and the limit of its precedence.
            let (mut first, mut until) = (None::<(Time, usize)>, Time::MAX);
            for number in 0..self.lanes.len() {
                let t = match self.next(number, over) {
                    Next::Row(t) => t,
                    Next::Nothing => continue,
                    Next::Unknown => return self.finish(any, late_max, shared),
                };
                match first {
                    Some((earliest, _)) if earliest <= t => until = until.min(t),
                    _ => {
                        until = first.map_or(until, |(later, _)| later);
                        first = Some((t, number));
                    }
                }
            }
            let Some((_, number)) = first else { return self.finish(any, late_max, shared) };
            late_max = late_max.max(self.write_part(number, until, rows)?);
            any = true;
        }
    }

    /// Ends [`write`](Self::write): frees rounds that are written for all queues.
    fn finish(&mut self, any: bool, late_max: u64, shared: &Shared) -> Result<bool> {
        shared.live.late_ns.fetch_max(late_max, Ordering::Relaxed);
        let mut freed = false;
        while !self.under_way.is_empty() && self.lanes.iter().all(|lane| lane.round > 0) {
            self.lanes.iter_mut().for_each(|lane| lane.round -= 1);
            if let Some(round) = self.under_way.pop_front() {
                self.recycle(round)?;
                freed = true;
            }
        }
        Ok(any || freed)
    }

    /// Returns the next row of a queue after those that were written.
    fn next(&mut self, number: usize, over: bool) -> Next {
        let lane = &mut self.lanes[number];
        while let Some(round) = self.under_way.get(lane.round) {
            match &round.parts[number] {
                None if !over => return Next::Unknown,
                Some(chunk) if lane.at < chunk.sent.len() => {
                    return Next::Row(match chunk.sent[lane.at] {
                        UNSENT => Time::MIN,
                        SKIPPED => chunk.frames[lane.at].t,
                        t_sent => t_sent,
                    });
                }
                _ => (lane.round, lane.at) = (lane.round + 1, 0),
            }
        }
        Next::Nothing
    }

    /// Writes rows of a queue's part, for frames that left at `until` or before. Returns the maximum lateness in ns.
    fn write_part(&mut self, number: usize, until: Time, rows: &mut WorkerRows) -> Result<u64> {
        let lane = &mut self.lanes[number];
        let part = self.under_way.get(lane.round).and_then(|round| round.parts[number].as_ref());
        let Some(chunk) = part else { return Ok(0) };
        let mut late_max = 0;
        let all = chunk.rows.iter().zip(&chunk.frames).zip(&chunk.sent).zip(&chunk.by_host).skip(lane.at);
        let steered = self.steered.is_some();
        for (((row, frame), t_sent), by_host) in all {
            // The sending thread knows the due time, if steering changed it.
            let (t_due, moved) = (frame.t, if steered { frame.t - row.t_due } else { 0 });
            let t_sent = match *t_sent {
                UNSENT => {
                    lane.at += 1;
                    continue;
                }
                SKIPPED if t_due > until => break,
                SKIPPED => {
                    self.skipped += 1;
                    None
                }
                t_sent if t_sent > until => break,
                t_sent => {
                    let late_ns = ((t_sent - t_due) / NS).max(0) as u64;
                    if self.paced {
                        late_max = late_max.max(late_ns);
                        lane.lateness.saturating_record(late_ns);
                        if !by_host {
                            lane.others.saturating_record(late_ns);
                        }
                    }
                    if let Some(shown) = self.shown.as_ref().filter(|_| lane.calls.is_none()) {
                        shown.count(row.tenant(), late_ns);
                    }
                    self.latest = t_sent;
                    Some(t_sent)
                }
            };
            lane.at += 1;
            if let Some(shown) = &self.shown {
                shown.generated(row.tenant(), row.t_gen + moved);
            }
            rows.sent(&Sent { t_sent, t_gen: row.t_gen + moved, t_due: row.t_due + moved, ..*row })?;
        }
        Ok(late_max)
    }

    /// Empties a round for reuse; an incomplete one is not reused.
    fn recycle(&mut self, mut round: Round) -> Result<()> {
        if round.parts.iter().any(Option::is_none) {
            return Ok(());
        }
        let Round { pool, parts, .. } = &mut round;
        let pool = Arc::get_mut(pool).ok_or_else(held)?;
        for chunk in parts.iter_mut().rev().flatten() {
            // In reverse, so that buffers are taken in ascending order again.
            chunk.frames.drain(..).rev().for_each(|frame| pool.release(frame.buffer));
            chunk.rows.clear();
            chunk.sent.clear();
            chunk.by_host.clear();
        }
        self.free.push(round);
        Ok(())
    }
}

/// The error if frames are still referenced after all queues returned their parts.
fn held() -> Error {
    Error::Invalid("frames of a round are still held; please report this".into())
}
