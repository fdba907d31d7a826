//! Sends the feeder's frames when they are due. This loop determines the precision of pacing: it reads the clock,
//! submits due frames, and notes the time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pktgen_core::record::{Fault, QueueCounts};
use pktgen_core::time::{NEVER, NS, Time};
use pktgen_core::{Error, Result};

use super::attached::Attached;
use super::feed::{Chunk, Chunks, SKIPPED};
use super::host_gaps::HostGaps;
use super::{AckTally, Beside, RealOutcome, RoleTally, Shared, first_late, tell_lost};
use crate::acks::is_ack_frame;
use crate::driver::admit::strangers;
use crate::frame::{BURST, Frame};
use crate::live::LaneFeed;
use crate::steer::{COPIES, Copies, Follower};
use crate::transport::gather::counts;
use crate::transport::{Late, Pacing, Submitted, Wait, Wire, WireCounters};

/// Maximum number of frames per call if many are due: few enough to stay in the cache, many where a call is expensive.
const BURST_MORE: usize = 256;
const BURST_MAX: usize = 2048;
/// The same for frames attached to the wire.
const ATTACHED_MAX: usize = 4096;
/// Arrivals are polled if nothing is due for this time, and at least after this number of frames.
const LISTEN_GAP: Time = 20_000 * NS;
const LISTEN_FRAMES: u64 = 256;
/// Maximum number of bursts per poll, so that sending goes on.
const LISTEN_BURSTS: usize = 16;
/// Maximum time for the last frames to leave.
const FLUSH_NS: u64 = 1_000_000_000;

/// Sleep of one of several threads when no frame is ready.
const HUNGRY: Duration = Duration::from_micros(20);

/// A wire that accepts nothing is retried after this time.
const FULL_GAP: Time = 10_000 * NS;

/// Notifies the feeder once that a thread sends no more, however it ends, even if it never began.
pub(super) struct Over<'a>(Option<&'a Shared<'a>>);

impl<'a> Over<'a> {
    pub(super) fn of(shared: &'a Shared<'a>) -> Self {
        Over(Some(shared))
    }

    fn tell(&mut self) {
        self.0.take().into_iter().for_each(Shared::pump_is_over);
    }
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.tell();
    }
}

/// The position of a schedule, and the due time of its next frame.
struct Place {
    reach: Time,
    due: Time,
}

/// The sender of one queue of the workers of an open loop.
pub(super) struct Pump {
    wire: Box<dyn Wire>,
    chunks: Chunks,
    /// Frames attached to the wire, sent instead of chunks.
    attached: Option<Attached>,
    /// Steering of the schedule, if permitted.
    steered: Option<Follower>,
    /// Publishes live statistics, if set.
    shown: Option<LaneFeed>,
    sent: u64,
    bytes: u64,
    listened: u64,
    acks: u64,
    copies: AckTally,
    foreign: u64,
    first: Option<Time>,
    /// Lateness of the first frame, if deadlines are meaningful.
    first_late: Option<Time>,
    last: Time,
    /// Due time of the last frame.
    last_due: Time,
    last_bytes: u64,
    /// Excess length of frames on the cable.
    beside: Option<Beside>,
    /// Number of times the feeder was not ready.
    starved: u64,
    /// Number of times the wire accepted nothing.
    full_waits: u64,
    /// Delays by the host.
    gaps: HostGaps,
    fault: Option<Fault>,
}

impl Pump {
    pub(super) fn new(wire: Box<dyn Wire>, chunks: Chunks, steered: Option<Follower>, copies: AckTally) -> Self {
        Pump {
            wire,
            chunks,
            attached: None,
            steered,
            shown: None,
            sent: 0,
            bytes: 0,
            listened: 0,
            acks: 0,
            copies,
            foreign: 0,
            first: None,
            first_late: None,
            last: 0,
            last_due: 0,
            last_bytes: 0,
            beside: None,
            starved: 0,
            full_waits: 0,
            gaps: HostGaps::default(),
            fault: None,
        }
    }

    /// Sets the frames attached for it.
    pub(super) fn attach(&mut self, attached: Attached) {
        self.attached = Some(attached);
    }

    /// Sets the feed of live statistics.
    pub(super) fn show(&mut self, shown: Option<LaneFeed>) {
        self.shown = shown;
    }

    /// Publishes that `count` frames left at `now`, or that none had.
    #[inline]
    fn left(&self, count: usize, now: Time) {
        if let Some(shown) = &self.shown {
            shown.left(count, now);
        }
    }

    pub(super) fn run(&mut self, shared: &Shared, mut over: Over) -> Result<()> {
        // Frames that are due at 0 wait for the beginning, too.
        shared.wait_for_the_beginning();
        match self.attached.take() {
            Some(mut attached) => {
                let result = self.send_attached(&mut attached, shared);
                self.attached = Some(attached);
                result?;
            }
            None => self.send_chunks(shared)?,
        }
        if self.fault.is_some() {
            shared.given_up.store(true, Ordering::Relaxed);
        }
        self.left(0, NEVER);
        self.wire.flush(FLUSH_NS)?;
        over.tell();
        let mut quiet_since = self.last;
        while !shared.over(quiet_since) {
            if self.listen()? > 0 {
                quiet_since = shared.clock.now();
            } else {
                shared.idle(self.wire.as_mut(), shared.clock.now() + LISTEN_GAP * 50)?;
            }
        }
        Ok(())
    }

    /// Sends the feeder's chunks.
    fn send_chunks(&mut self, shared: &Shared) -> Result<()> {
        let mut hungry = false;
        while !shared.ending() && self.fault.is_none() {
            // Read before the ring: chunks pushed before the flag are seen.
            let fed_all = shared.fed_all.load(Ordering::Acquire);
            match self.chunks.full.pop() {
                Ok(mut chunk) => {
                    hungry = false;
                    let result = self.send(&mut chunk, shared);
                    // The ring has room for all chunks.
                    let _ = self.chunks.spent.push(chunk);
                    result?;
                }
                Err(_) if fed_all => break,
                Err(_) => {
                    self.starved += u64::from(!hungry);
                    hungry = true;
                    self.gaps.forget();
                    self.left(0, shared.clock.now());
                    self.listen()?;
                    match shared.plan.wait {
                        // With several threads, the feeder may need the core. Yielding would give it to any process.
                        Wait::Block if shared.plan.queues > 1 => std::thread::sleep(HUNGRY),
                        _ => std::hint::spin_loop(),
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the attached frames as fast as the wire accepts them.
    fn send_attached(&mut self, attached: &mut Attached, shared: &Shared) -> Result<()> {
        while let Some((at, count)) = attached.next(ATTACHED_MAX).filter(|_| !shared.ending()) {
            let now = shared.clock.now();
            // A call that the feeder has no room to note would leave no rows.
            let room = self.chunks.calls.as_ref().is_some_and(|calls| !calls.is_full());
            let sent = if room { attached.port.send(at, count)? } else { Submitted::default() };
            if sent.taken == 0 {
                self.full_waits += 1;
                shared.live.refused.fetch_add(u64::from(sent.refused), Ordering::Relaxed);
                shared.idle_from(self.wire.as_mut(), now + FULL_GAP, now)?;
                continue;
            }
            if let Some(calls) = &mut self.chunks.calls {
                let _ = calls.push((now, sent.taken as u32));
            }
            let (bytes, last_bytes) = attached.left(at, sent.taken);
            self.bytes += bytes;
            self.note(sent.taken, last_bytes, now, shared);
            if self.sent - self.listened >= LISTEN_FRAMES {
                self.listen()?;
            }
        }
        Ok(())
    }

    /// Sends a chunk.
    fn send(&mut self, chunk: &mut Chunk, shared: &Shared) -> Result<()> {
        let plan = shared.plan;
        let paced = plan.pacing == Pacing::Deadlines;
        let most = match &self.steered {
            Some(follower) if follower.copies() => COPIES,
            _ if plan.kind.capabilities().quantum_ns > 0 => BURST_MAX,
            _ => BURST_MORE,
        };
        let mut at = 0;
        while let Some(next) = chunk.frames.get(at).map(|frame| frame.t) {
            let now = shared.clock.now();
            self.gaps.read(now);
            let Place { reach, due } = self.place(now, next, paced);
            if reach < next {
                if shared.ending() {
                    return Ok(());
                }
                self.rest(due, now, shared)?;
                continue;
            }
            if paced && plan.late != Late::CatchUp && now - due > plan.late_limit {
                if plan.late == Late::Abort {
                    let late_us = (now - due) / (1000 * NS);
                    self.fault = Some(Fault::TooLateAborted { late_us });
                    return Ok(());
                }
                chunk.sent[at] = SKIPPED;
                self.moved(&mut chunk.frames[at..=at]);
                at += 1;
                continue;
            }
            let count = chunk.frames[at..].iter().take(most).take_while(|frame| frame.t <= reach).count();
            if self.beside.is_none() {
                self.measure(chunk, at);
            }
            let sent = self.offer(chunk, at, count)?;
            let taken = sent.taken;
            chunk.sent[at..at + taken].fill(now);
            // The first frame of a call is the latest.
            if self.gaps.explains(now - due) {
                chunk.by_host[at..at + taken].fill(true);
            }
            self.bytes += chunk.frames[at..at + taken].iter().map(|frame| u64::from(frame.len)).sum::<u64>();
            if self.first.is_none() && taken > 0 && paced {
                self.first_late = Some(now - due);
            }
            self.moved(&mut chunk.frames[at..at + taken]);
            at += taken;
            let end = &chunk.frames[at.max(1) - 1];
            if taken > 0 {
                self.last_due = end.t;
            }
            self.note(taken, end.len.into(), now, shared);
            self.gaps.submitted(now, taken);
            if taken == 0 {
                self.full_waits += 1;
                self.gaps.forget();
                shared.live.refused.fetch_add(u64::from(sent.refused), Ordering::Relaxed);
                if shared.ending() {
                    return Ok(());
                }
                shared.idle_from(self.wire.as_mut(), now + FULL_GAP, now)?;
            }
            if self.sent - self.listened >= LISTEN_FRAMES {
                self.gaps.listens();
                self.listen()?;
            }
        }
        Ok(())
    }

    /// Returns the position of the schedule at `now`, and the due time of its `next` frame.
    #[inline]
    fn place(&mut self, now: Time, next: Time, paced: bool) -> Place {
        match &mut self.steered {
            // Without deadlines all frames are due.
            None => Place { reach: if paced { now } else { NEVER }, due: next },
            Some(follower) => {
                follower.look(next);
                match paced {
                    true => Place { reach: follower.reach(now), due: follower.due(next) },
                    false if follower.holds(now) => Place { reach: Time::MIN, due: NEVER },
                    false => Place { reach: NEVER, due: next },
                }
            }
        }
    }

    /// Stores the actual due times of frames of a steered schedule, for the records.
    #[inline]
    fn moved(&self, frames: &mut [Frame]) {
        if let Some(follower) = self.steered.as_ref().filter(|follower| follower.moves()) {
            frames.iter_mut().for_each(|frame| frame.t = follower.due(frame.t));
        }
    }

    /// Measures the excess length of frames on the cable: those of a schedule are of one kind.
    #[cold]
    fn measure(&mut self, chunk: &Chunk, at: usize) {
        let Some(pool) = &chunk.pool else { return };
        let frame = pool.frame(&chunk.frames[at]);
        self.beside = Some(Beside::of(self.wire.on_cable(frame).len(), frame.len()));
    }

    /// Submits `count` frames from `at` on.
    fn offer(&mut self, chunk: &Chunk, at: usize, count: usize) -> Result<Submitted> {
        let frames = &chunk.frames[at..at + count];
        let copies = match (&mut self.steered, &chunk.pool) {
            (Some(follower), Some(pool)) => follower.dated(pool, frames),
            _ => None,
        };
        let wire = self.wire.as_mut();
        if count <= BURST {
            submit::<BURST>(wire, chunk, frames, copies)
        } else if count <= BURST_MORE {
            submit::<BURST_MORE>(wire, chunk, frames, copies)
        } else {
            submit::<BURST_MAX>(wire, chunk, frames, copies)
        }
    }

    fn note(&mut self, taken: usize, last_bytes: u64, now: Time, shared: &Shared) {
        if taken > 0 {
            self.last_bytes = last_bytes;
            self.sent += taken as u64;
            self.first.get_or_insert(now);
            self.last = now;
            self.left(taken, now);
            shared.live.sent.fetch_add(taken as u64, Ordering::Relaxed);
        }
    }

    /// Idles: nothing is due before `next`.
    fn rest(&mut self, next: Time, now: Time, shared: &Shared) -> Result<()> {
        self.left(0, now);
        let gap = next - now;
        // Files have a separate time, which jumps.
        self.gaps.idle(now, gap <= LISTEN_GAP && shared.clock.file().is_none());
        if gap > LISTEN_GAP && self.listen()? > 0 {
            return Ok(());
        }
        shared.idle_from(self.wire.as_mut(), next, now)
    }

    /// Receives what came back, which an open loop only counts. Returns the number of acknowledgements: a run does not
    /// wait for foreign frames.
    fn listen(&mut self) -> Result<usize> {
        self.listened = self.sent;
        let (acks, copies, foreign) = (&mut self.acks, &mut self.copies, &mut self.foreign);
        let before = *acks;
        for _ in 0..LISTEN_BURSTS {
            let found = self.wire.receive(BURST, &mut |arrival| match is_ack_frame(arrival.bytes) {
                true => {
                    *acks += 1;
                    copies.count(arrival.bytes);
                }
                false => *foreign += strangers(arrival.bytes),
            })?;
            // A wire may pass on fewer than there are.
            if found.frames == 0 {
                break;
            }
        }
        Ok((*acks - before) as usize)
    }
}

/// Records the counts of all queues of the workers' end. `late_ns` returns the lateness of a queue.
pub(super) fn count(pumps: &mut [Pump], late_ns: impl Fn(usize) -> Option<[u64; 3]>, outcome: &mut RealOutcome) {
    let starved: u64 = pumps.iter().map(|pump| pump.starved).sum();
    if starved > 0 {
        outcome.facts.push(("workers.starved".into(), format!("{starved} times no frame was ready")));
    }
    let sent: u64 = pumps.iter().map(|pump| pump.sent).sum();
    let begun = pumps.iter().filter(|pump| pump.first.is_some()).min_by_key(|pump| pump.first);
    let first_due = begun.and_then(|pump| Some(pump.first? - pump.first_late?));
    if let Some(last) = pumps.iter().filter(|pump| pump.sent > 0).max_by_key(|pump| pump.last) {
        let beside = last.beside.unwrap_or_default();
        let bytes = beside.with_all(pumps.iter().map(|pump| pump.bytes).sum::<u64>(), sent);
        let first = pumps.iter().filter_map(|pump| pump.first).min();
        let due = first_due.map(|first_due| last.last_due - first_due);
        let (last_bytes, last) = (beside.with(last.last_bytes), last.last);
        super::rate(RoleTally { frames: sent, bytes, last_bytes, first, last, due }, outcome);
    } else {
        outcome.offered = Some(RoleTally::default());
    }
    first_late(begun.and_then(|pump| pump.first_late), outcome);
    let (several, mut total) = (pumps.len() > 1, WireCounters::default());
    for (queue, pump) in pumps.iter_mut().enumerate() {
        outcome.counters.acks_received += pump.acks;
        pump.copies.add_to(&mut outcome.acks);
        outcome.counters.foreign += pump.foreign;
        outcome.faults.extend(pump.fault.take());
        let notes = pump.wire.notes().into_iter();
        outcome
            .facts
            .extend(notes.map(|(name, said)| if several { (format!("{name}.{queue}"), said) } else { (name, said) }));
        let beside = pump.attached.as_mut().map(|attached| attached.port.counters()).unwrap_or_default();
        let counters = pump.wire.counters().plus(beside);
        total = total.plus(counters);
        if several {
            let queue_counts = counts("workers", queue as u32, counters);
            let full_waits = pump.full_waits;
            outcome.queues.push(QueueCounts { full_waits, late_ns: late_ns(queue), ..queue_counts });
        }
    }
    tell_lost("workers", total, outcome);
}

/// Submits frames of a chunk, or copies of them; at most `N`.
#[inline]
fn submit<const N: usize>(
    wire: &mut dyn Wire,
    chunk: &Chunk,
    frames: &[Frame],
    copies: Option<&Copies>,
) -> Result<Submitted> {
    let Some(pool) = &chunk.pool else { return Ok(Submitted::default()) };
    let mut slices: [&[u8]; N] = [&[]; N];
    match copies {
        None => slices.iter_mut().zip(frames).for_each(|(slice, frame)| *slice = pool.frame(frame)),
        Some(copies) => {
            let all = slices.iter_mut().zip(frames).enumerate();
            all.for_each(|(i, (slice, frame))| *slice = copies.frame(i, pool.frame(frame).len()));
        }
    }
    let sent = wire.send(&slices[..frames.len()])?;
    if sent.taken > frames.len() {
        return Err(Error::Invalid("a wire took more than it was offered; please report this".into()));
    }
    Ok(sent)
}
