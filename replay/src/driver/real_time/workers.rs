//! The workers' role: sends updates when they are due, and says how late it was; hears ACKs.

use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use pktgen_generator::record::Sent;
use pktgen_generator::time::{NEVER, NS, Time};
use pktgen_generator::{Error, Result};

use super::frames::{Waiting, take};
use super::{RealOutcome, Shared, lost};
use crate::capture::WorkerRows;
use crate::endpoint::{Endpoint, Facts, Host};
use crate::frame::{BURST, Frame, Pool};
use crate::transport::{Late, Wire};

/// How far ahead updates of an open loop are built.
const AHEAD: Time = 10_000_000 * NS;
/// How long the last frames may take to leave.
const FLUSH_NS: u64 = 1_000_000_000;
/// Frames that may wait, built.
const BUILT_MAX: usize = 1024;

/// The workers.
pub(super) struct Workers<'a> {
    endpoint: Box<dyn Endpoint>,
    react: bool,
    wire: Box<dyn Wire>,
    pool: Pool,
    host: Host,
    waiting: Waiting<Sent>,
    batch: Vec<Frame>,
    rows: WorkerRows<'a>,
    until: Time,
    sent: u64,
    bytes: u64,
    first: Time,
    last: Time,
    pub(super) lateness: Histogram<u64>,
    pub(super) skipped: u64,
    pub(super) faults: Vec<String>,
    pub(super) cut: bool,
}

impl<'a> Workers<'a> {
    pub(super) fn new(
        endpoint: Box<dyn Endpoint>,
        wire: Box<dyn Wire>,
        frame_bytes: usize,
        rows: WorkerRows<'a>,
        until: Time,
    ) -> Result<Self> {
        let lateness = Histogram::new_with_bounds(1, 60_000_000_000, 3)
            .map_err(|e| Error::Invalid(format!("a histogram of lateness cannot be made: {e}")))?;
        Ok(Workers {
            react: endpoint.reacts(),
            endpoint,
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
            last: 0,
            lateness,
            skipped: 0,
            faults: Vec::new(),
            cut: false,
        })
    }

    pub(super) fn run(&mut self, shared: &Shared, facts: &Facts, progress: &dyn Fn(u64)) -> Result<()> {
        let (mut quiet_since, mut told) = (0, 0);
        loop {
            let now = shared.clock.now();
            let heard = self.hear(now, facts)?;
            self.build(now)?;
            let sent = self.send(shared, now)?;
            if heard + sent > 0 {
                quiet_since = now;
            }
            if self.sent - told > 1 << 14 {
                told = self.sent;
                progress(told);
            }
            let stopped = shared.stop.load(Ordering::Relaxed) || self.cut;
            let next = self.waiting.next().min(if stopped { NEVER } else { self.endpoint.next_wake() });
            if next == NEVER || !self.faults.is_empty() {
                if !shared.sent_all.load(Ordering::Acquire) {
                    self.wire.flush(FLUSH_NS)?;
                    shared.sent_all.store(true, Ordering::Release);
                }
                if shared.over(quiet_since.max(self.last)) {
                    progress(self.sent);
                    return Ok(());
                }
            }
            if heard + sent == 0 {
                shared.idle(self.wire.as_mut(), next.min(now + AHEAD))?;
            }
        }
    }

    /// Builds what is due soon. What reacts may still change: it is asked when its time has come.
    fn build(&mut self, now: Time) -> Result<()> {
        let until = if self.react { now } else { now + AHEAD };
        if until > self.until {
            self.cut |= self.endpoint.next_wake() > self.until && self.endpoint.next_wake() != NEVER;
        }
        let until = until.min(self.until);
        while self.waiting.len() < BUILT_MAX && self.endpoint.next_wake() <= until {
            self.endpoint.pull(until, &mut self.pool, &mut self.host);
            self.keep()?;
        }
        Ok(())
    }

    /// What came out of the endpoint.
    fn keep(&mut self) -> Result<()> {
        for row in self.host.withheld.drain(..) {
            self.rows.sent(&row)?;
        }
        for row in self.host.states.drain(..) {
            self.rows.state(&row)?;
        }
        for outgoing in self.host.outgoing.drain(..) {
            if let Some(row) = outgoing.record {
                self.waiting.push(outgoing.frame, row);
            }
        }
        Ok(())
    }

    fn send(&mut self, shared: &Shared, now: Time) -> Result<usize> {
        let plan = shared.plan;
        while plan.late != Late::CatchUp && now - self.waiting.next() > plan.late_limit {
            if plan.late == Late::Abort {
                let late_us = (now - self.waiting.next()) / (1000 * NS);
                self.faults.push(format!("aborted: a frame was {late_us} us late, above transport.late_limit"));
                return Ok(0);
            }
            let Some((frame, row)) = self.waiting.pop() else { break };
            self.rows.sent(&row)?;
            self.pool.release(frame.buffer);
            self.skipped += 1;
        }
        // Just before the call that submits.
        let t_sent = shared.clock.now();
        let (rows, lateness, endpoint) = (&mut self.rows, &mut self.lateness, &mut self.endpoint);
        let (react, bytes) = (self.react, &mut self.bytes);
        let sent = self.waiting.send_due(t_sent, self.wire.as_mut(), &mut self.pool, |frame, row| {
            lateness.saturating_record(((t_sent - frame.t) / NS).max(0) as u64);
            *bytes += u64::from(frame.len);
            if react {
                endpoint.left(frame.packet, t_sent);
            }
            rows.sent(&Sent { t_sent: Some(t_sent), ..row })
        })?;
        if sent > 0 {
            self.sent += sent as u64;
            self.first = self.first.min(t_sent);
            self.last = t_sent;
        }
        Ok(sent)
    }

    fn hear(&mut self, now: Time, facts: &Facts) -> Result<usize> {
        let (pool, batch, host) = (&mut self.pool, &mut self.batch, &mut self.host);
        let heard = self.wire.receive(BURST, &mut |arrival| match take(&arrival, pool, facts) {
            Some(frame) => batch.push(frame),
            None => host.foreign += 1,
        })?;
        for frame in self.batch.drain(..) {
            let frame = Frame { t: now, ..frame };
            self.endpoint.on_burst(frame.flow, &[frame], &mut self.pool, &mut self.host);
        }
        self.keep()?;
        Ok(heard)
    }

    pub(super) fn count(&mut self, outcome: &mut RealOutcome) {
        outcome.counters.acks_received = self.host.acks_received;
        outcome.counters.foreign += self.host.foreign;
        if let Some(why) = self.endpoint.failure() {
            outcome.faults.push(format!("the workers stopped early: {why}"));
        }
        let seconds = (self.last - self.first.min(self.last)) as f64 / 1e12;
        if seconds > 0.0 {
            let rate =
                format!("{:.0} packets/s, {:.0} bit/s", self.sent as f64 / seconds, self.bytes as f64 * 8.0 / seconds);
            outcome.facts.push(("rate.achieved".into(), rate));
        }
        lost("workers", self.wire.counters(), outcome);
    }
}
