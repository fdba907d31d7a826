//! Workers that react to arrivals. Sends updates when they are due, and records their lateness; receives ACKs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use pktgen_core::Result;
use pktgen_core::record::{Counters, Fault, PacketId, Sent};
use pktgen_core::time::{NEVER, NS, Time};
use pktgen_wire::wire::frame::HEAD;
use pktgen_wire::wire::update::{digest, is_ack};

use super::frames::{ByBuffer, Waiting};
use super::shared::PATIENCE;
use super::{AckTally, Beside, RealOutcome, RoleTally, Shared, first_late, histogram, lost, rate};
use crate::capture::WorkerRows;
use crate::driver::admit::{admit, strangers};
use crate::endpoint::{Delivery, Facts, Host, Workers};
use crate::frame::{BURST, Frame, Pool};
use crate::live::{Delivered, Feed, SentBy};
use crate::steer::Cap;
use crate::transport::{Found, Late, Wire};

/// Maximum time between two calls of the endpoint.
const AHEAD: Time = 10_000_000 * NS;
/// Maximum time for the last frames to leave.
const FLUSH_NS: u64 = 1_000_000_000;
/// Maximum number of built frames that wait.
const BUILT_MAX: usize = 1024;

/// The workers.
pub(super) struct WorkersRole<'a> {
    workers: Box<dyn Workers>,
    facts: Facts,
    wire: Box<dyn Wire>,
    pool: Pool,
    host: Host,
    /// Frames, with the rows of those that are updates.
    waiting: Waiting<Option<Sent>>,
    batch: Vec<Frame>,
    rows: WorkerRows<'a>,
    until: Time,
    /// Updates that left, and their bytes.
    sent: u64,
    bytes: u64,
    /// Departure of the first update.
    first: Time,
    /// Its lateness.
    first_late: Option<Time>,
    last_update: Time,
    /// Departure of the last frame, of any kind.
    last: Time,
    lateness: Histogram<u64>,
    skipped: u64,
    unanswered: Unanswered,
    fault: Option<Fault>,
    cut: bool,
    flushed: bool,
    last_bytes: u64,
    /// Excess length of updates on the cable, and of the received frames being processed.
    beside: Option<Beside>,
    beside_received: ByBuffer<Beside>,
    acks: AckTally,
    counters: Counters,
    /// Publishes live statistics: of sent updates and, if results end here, of results.
    shown: Option<(Arc<SentBy>, Option<Feed>)>,
    /// Limit on departing frames, if they are steered.
    cap: Option<Cap>,
}

/// Detects workers that only retransmit unanswered updates.
#[derive(Debug, Default)]
struct Unanswered {
    since: Time,
    attempts: u8,
}

impl Unanswered {
    /// Retransmissions of an update, and multiples of patience, after which no answer is expected.
    const MOST: u8 = 6;
    const LONG: Time = 5;

    /// Records a departure; a new update may be answered.
    fn left(&mut self, packet: PacketId, t: Time) {
        match packet.attempt() {
            0 => *self = Unanswered { since: t, attempts: 0 },
            attempt => self.attempts = self.attempts.max(attempt),
        }
    }

    fn is_vain(&self, now: impl FnOnce() -> Time, patience: Time) -> bool {
        self.attempts >= Self::MOST && now() - self.since >= patience * Self::LONG
    }
}

impl<'a> WorkersRole<'a> {
    pub(super) fn new(
        workers: Box<dyn Workers>,
        wire: Box<dyn Wire>,
        frame_bytes: usize,
        rows: WorkerRows<'a>,
        until: Time,
        facts: Facts,
    ) -> Result<Self> {
        Ok(WorkersRole {
            acks: AckTally::of(&facts.workers),
            facts,
            counters: Counters::default(),
            workers,
            wire,
            pool: Pool::new(frame_bytes, 2 * BUILT_MAX),
            host: Host::default(),
            waiting: Waiting::new(),
            batch: Vec::with_capacity(BURST),
            rows,
            until,
            sent: 0,
            bytes: 0,
            first: NEVER,
            first_late: None,
            last_update: 0,
            last: 0,
            lateness: histogram()?,
            skipped: 0,
            unanswered: Unanswered::default(),
            fault: None,
            cut: false,
            flushed: false,
            last_bytes: 0,
            beside: None,
            beside_received: ByBuffer::default(),
            shown: None,
            cap: None,
        })
    }

    /// Sets the limit on departing frames.
    pub(super) fn cap(&mut self, cap: Option<Cap>) {
        self.cap = cap;
    }

    /// Sets the feeds of live statistics.
    pub(super) fn show(&mut self, sent: Arc<SentBy>, results: Option<Feed>) {
        sent.counted(0);
        self.shown = Some((sent, results));
    }

    pub(super) fn run(&mut self, shared: &Shared) -> Result<()> {
        shared.wait_for_the_beginning();
        let mut quiet_since = 0;
        loop {
            let patience = shared.plan.linger.max(PATIENCE);
            let vain = self.unanswered.is_vain(|| shared.clock.now(), patience) && self.workers.waits();
            let stopped = shared.ending() || self.cut || self.fault.is_some() || vain;
            let heard = self.hear(shared, stopped)?;
            let now = shared.clock.now();
            if !stopped {
                self.build(now)?;
            }
            let sent = self.send(shared, now)?;
            if let Some((shown, _)) = &self.shown {
                // Later departures of this thread have later times.
                shown.counted(now);
            }
            if heard > 0 {
                self.unanswered = Unanswered { since: now, attempts: 0 };
            }
            if heard + sent > 0 {
                quiet_since = now;
                shared.live.sent.store(self.sent, Ordering::Relaxed);
            }
            let next = self.waits_until(now).min(if stopped { NEVER } else { self.workers.next_wake() });
            if shared.failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            // Workers that wait for results have not sent everything: results may be followed by a long computation,
            // for which the device has to stay.
            let quiet = now - quiet_since.max(self.last);
            let expects = !stopped && self.workers.waits() && quiet < patience;
            if (next == NEVER && !expects) || self.fault.is_some() {
                if !self.flushed {
                    self.flushed = true;
                    self.wire.flush(FLUSH_NS)?;
                    shared.sent_all();
                }
                if shared.over(quiet_since.max(self.last)) {
                    return Ok(());
                }
            }
            if heard + sent == 0 {
                shared.idle(self.wire.as_mut(), next.min(now + AHEAD))?;
            }
        }
    }

    /// Returns when the first waiting frame may leave.
    fn waits_until(&self, now: Time) -> Time {
        match (&self.cap, self.waiting.next()) {
            (Some(cap), next) if next < NEVER => next.max(cap.next(now)),
            (_, next) => next,
        }
    }

    /// Builds due frames. The endpoint is called only at the due time, since its output may still change.
    fn build(&mut self, now: Time) -> Result<()> {
        let until = now;
        if until > self.until {
            self.cut |= self.workers.next_wake() > self.until && self.workers.next_wake() != NEVER;
        }
        let until = until.min(self.until);
        while self.waiting.len() < BUILT_MAX && self.workers.next_wake() <= until {
            self.workers.pull(until, &mut self.pool, &mut self.host);
            self.keep()?;
        }
        Ok(())
    }

    /// Takes the endpoint's output.
    fn keep(&mut self) -> Result<()> {
        for row in self.host.withheld.drain(..) {
            // As in reports, a cluster ages up to its last generation, also if that is never sent.
            if let Some((shown, _)) = &self.shown {
                shown.generated(row.tenant(), row.t_gen);
            }
            self.rows.sent(&row)?;
        }
        for row in self.host.states.drain(..) {
            self.rows.state(&row)?;
        }
        for row in self.host.iterations.drain(..) {
            self.rows.iteration(&row)?;
        }
        self.counters.replies += self.host.replies.len() as u64;
        for row in self.host.replies.drain(..) {
            self.rows.reply(&row)?;
        }
        self.receive_results()?;
        for outgoing in self.host.outgoing.drain(..) {
            self.waiting.push(outgoing.frame, outgoing.record);
        }
        Ok(())
    }

    /// Records results at the workers.
    fn receive_results(&mut self) -> Result<()> {
        for Delivery { mut row, frame } in self.host.deliveries.drain(..) {
            let bytes = self.pool.frame(&frame);
            let payload = &bytes[HEAD..];
            let values = self.facts.protocol.values(payload);
            row.digest = Some(digest(values));
            row.bytes = self.beside_received.of(frame.buffer).with(u64::from(row.bytes)) as u32;
            self.counters.delivered(&row, self.facts.protocol.elements(row.packet, values));
            if let Some((_, Some(shown))) = &mut self.shown {
                let lanes = self.facts.lanes.as_ref();
                shown.delivered(Delivered::of(&row, lanes.and_then(|lanes| lanes.members(bytes))));
            }
            if self.rows.keeps_packets() {
                self.rows.packet(row.t_recv, self.wire.on_cable(bytes), row.bytes)?;
            }
            self.rows.received(&row, bytes)?;
            self.pool.release(frame.buffer);
        }
        Ok(())
    }

    fn send(&mut self, shared: &Shared, now: Time) -> Result<usize> {
        let plan = shared.plan;
        while plan.late != Late::CatchUp && now - self.waiting.next() > plan.late_limit {
            if plan.late == Late::Abort {
                let late_us = (now - self.waiting.next()) / (1000 * NS);
                self.fault = Some(Fault::TooLateAborted { late_us });
                return Ok(0);
            }
            let Some((frame, row)) = self.waiting.pop() else { break };
            if let Some(row) = row {
                self.rows.sent(&row)?;
                if let Some((shown, _)) = &self.shown {
                    shown.generated(row.tenant(), row.t_gen);
                }
                // For its endpoint it counts as sent and lost.
                self.workers.left(frame.packet, now);
            }
            self.pool.release(frame.buffer);
            self.skipped += 1;
        }
        if self.beside.is_none()
            && let Some((frame, Some(_))) = self.waiting.head()
        {
            let bytes = self.pool.frame(frame);
            self.beside = Some(Beside::of(self.wire.on_cable(bytes).len(), bytes.len()));
        }
        // Just before the call that submits.
        let t_sent = shared.clock.now();
        let most = self.cap.as_mut().map_or(BURST, |cap| cap.allowed(t_sent));
        // For a frame held back by a cap, lateness counts from its release.
        let free_at = self.cap.as_ref().map_or(Time::MIN, Cap::free_at);
        let (rows, lateness, workers) = (&mut self.rows, &mut self.lateness, &mut self.workers);
        let (bytes, last_bytes, late_ns) = (&mut self.bytes, &mut self.last_bytes, &shared.live.late_ns);
        let (first_late, shown) = (&mut self.first_late, self.shown.as_ref().map(|(sent, _)| sent));
        let unanswered = &mut self.unanswered;
        let mut updates = 0;
        let sent = self.waiting.send_due((t_sent, most), self.wire.as_mut(), &mut self.pool, |frame, row, _| {
            let late = ((t_sent - frame.t.max(free_at)) / NS).max(0) as u64;
            lateness.saturating_record(late);
            late_ns.fetch_max(late, Ordering::Relaxed);
            // Other frames than updates have no row, and the endpoint needs no notification.
            let Some(row) = row else { return Ok(()) };
            updates += 1;
            if let Some(shown) = shown {
                shown.generated(row.tenant(), row.t_gen);
                shown.count(row.tenant(), late);
            }
            first_late.get_or_insert(t_sent - frame.t);
            *last_bytes = u64::from(frame.len);
            *bytes += *last_bytes;
            workers.left(frame.packet, t_sent);
            unanswered.left(frame.packet, t_sent);
            rows.sent(&Sent { t_sent: Some(t_sent), ..row })
        })?;
        if sent.taken > 0 {
            self.last = t_sent;
            if let Some(cap) = &mut self.cap {
                cap.left(sent.taken);
            }
        } else if most > 0 && self.waiting.next() <= t_sent {
            shared.live.refused.fetch_add(u64::from(sent.refused), Ordering::Relaxed);
        }
        if updates > 0 {
            self.sent += updates;
            self.first = self.first.min(t_sent);
            self.last_update = t_sent;
        }
        Ok(sent.taken)
    }

    fn hear(&mut self, shared: &Shared, stopped: bool) -> Result<usize> {
        let (pool, batch, host, facts) = (&mut self.pool, &mut self.batch, &mut self.host, &self.facts);
        let (acks, beside) = (&mut self.acks, &mut self.beside_received);
        let _: Found = self.wire.receive(BURST, &mut |arrival| match admit(arrival.bytes, pool, facts) {
            Some(frame) => {
                beside.keep(frame.buffer, Beside::of(arrival.len, usize::from(frame.len)));
                if is_ack(pool.payload(&frame)) {
                    acks.count(arrival.bytes);
                }
                batch.push(frame);
            }
            None => host.foreign += strangers(arrival.bytes),
        })?;
        // A run does not wait for foreign frames.
        let heard = self.batch.len();
        if heard > 0 {
            // Read after they were found, so that no arrival precedes its departure; frames due before their arrival
            // are decided without them.
            let now = shared.clock.now();
            if !stopped {
                self.build(now)?;
            }
            self.tell(now)?;
        }
        Ok(heard)
    }

    /// Passes the frames received at `now` to the endpoint.
    fn tell(&mut self, now: Time) -> Result<()> {
        for frame in self.batch.drain(..) {
            let frame = Frame { t: now, ..frame };
            self.workers.on_burst(frame.flow, &[frame], &mut self.pool, &mut self.host);
        }
        self.keep()
    }

    pub(super) fn count(&mut self, outcome: &mut RealOutcome) {
        let end = self.workers.end();
        self.counters.clipped = end.clipped;
        self.counters.scaling_error_ppb = end.scaling_error_ppb;
        end.counters.iter().for_each(|own| self.counters.count(own));
        outcome.counters.add(&self.counters);
        outcome.counters.acks_received += self.host.acks_received;
        outcome.counters.frames_again += self.host.frames_again;
        outcome.counters.foreign += self.host.foreign;
        outcome.lateness = self.lateness.clone();
        outcome.skipped = self.skipped;
        outcome.cut = self.cut;
        outcome.notes.extend(end.note.clone());
        outcome.faults.extend(self.fault.take());
        outcome.faults.extend(end.faults(!self.cut && !outcome.interrupted));
        outcome.faults.extend(end.failure.map(|why| Fault::WorkersStopped { why }));
        let first = (self.sent > 0).then_some(self.first);
        self.acks.add_to(&mut outcome.acks);
        let (beside, last) = (self.beside.unwrap_or_default(), self.last_update);
        let (bytes, last_bytes) =
            (beside.with_all(self.bytes, self.sent), beside.with_all(self.last_bytes, self.sent.min(1)));
        // Answers move due times: they are no rate that was requested.
        rate(RoleTally { frames: self.sent, bytes, last_bytes, first, last, due: None }, outcome);
        first_late(self.first_late, outcome);
        lost("workers", self.wire.as_mut(), outcome);
    }
}
