//! The server's role: receives, answers at once, records.

use std::sync::atomic::Ordering;

use pktgen_core::Result;
use pktgen_core::record::{Counters, Fault};
use pktgen_core::time::Time;
use pktgen_wire::wire::frame::TAGS_MAX;
use pktgen_wire::wire::update::digest;

use super::frames::{ByBuffer, Waiting};
use super::shared::PATIENCE;
use super::{AcksByCluster, Beside, LOOK, RealOutcome, RoleTally, Shared, lost, members};
use crate::capture::ServerRows;
use crate::driver::admit::{admit, strangers};
use crate::endpoint::{Facts, Host, Server};
use crate::frame::{BURST, Frame, Kind, Pool};
use crate::live::{Delivered, Feed};
use crate::transport::{Found, Wire};

/// The server.
pub(super) struct ServerRole<'a> {
    server: Box<dyn Server>,
    facts: Facts,
    wire: Box<dyn Wire>,
    waiting: Waiting<()>,
    pool: Pool,
    host: Host,
    batch: Vec<Frame>,
    rows: ServerRows<'a>,
    /// Arrival stamps of the frames being processed, by the kernel or a card, if they are recorded.
    stamps: Option<ByBuffer<Option<i64>>>,
    counters: Counters,
    /// Time that it was busy.
    busy: Time,
    tally: RoleTally,
    /// Excess length on the cable of the frames being processed.
    beside: ByBuffer<Beside>,
    /// Number of members by cluster, and of members addressed by sent acknowledgements.
    members: Vec<u32>,
    acks_due: AcksByCluster,
    /// When losses were last looked at.
    looked: Time,
    /// Publishes live statistics, if set.
    shown: Option<Feed>,
}

impl<'a> ServerRole<'a> {
    pub(super) fn new(
        server: Box<dyn Server>,
        facts: Facts,
        wire: Box<dyn Wire>,
        frame_bytes: usize,
        rows: ServerRows<'a>,
    ) -> Self {
        // A device may tag raw frames.
        let room = if facts.raw.is_some() { frame_bytes + TAGS_MAX } else { frame_bytes };
        ServerRole {
            server,
            members: members(&facts.workers),
            acks_due: AcksByCluster::new(&facts.workers),
            beside: ByBuffer::default(),
            facts,
            wire,
            waiting: Waiting::new(),
            pool: Pool::new(room, 1024),
            host: Host::default(),
            batch: Vec::with_capacity(BURST),
            stamps: rows.keeps_stamps().then(ByBuffer::default),
            rows,
            counters: Counters::default(),
            busy: 0,
            tally: RoleTally::default(),
            looked: 0,
            shown: None,
        }
    }

    /// Publishes live statistics to `feed`.
    pub(super) fn show(&mut self, feed: Feed) {
        self.shown = Some(feed);
    }

    pub(super) fn run(&mut self, shared: &Shared) -> Result<()> {
        let (mut quiet_since, mut moved) = (0, 0);
        loop {
            let now = shared.clock.now();
            let (pool, batch, foreign, facts) = (&mut self.pool, &mut self.batch, &mut self.host.foreign, &self.facts);
            let (stamps, beside) = (&mut self.stamps, &mut self.beside);
            let Found { frames: found, ended } =
                self.wire.receive(BURST, &mut |arrival| match admit(arrival.bytes, pool, facts) {
                    Some(frame) => {
                        beside.keep(frame.buffer, Beside::of(arrival.len, usize::from(frame.len)));
                        if let Some(stamps) = stamps {
                            stamps.keep(frame.buffer, arrival.stamp_ns.and_then(|ns| i64::try_from(ns).ok()));
                        }
                        batch.push(frame);
                    }
                    None => *foreign += strangers(arrival.bytes),
                })?;
            // A run does not wait for foreign frames.
            let found = if self.batch.is_empty() { 0 } else { found };
            if found > 0 {
                let now = shared.clock.now();
                self.batch.iter_mut().for_each(|frame| frame.t = now);
                self.tally.burst(now, &self.batch, &self.beside);
                self.server.on_burst(self.facts.server, &self.batch, &mut self.pool, &mut self.host);
                self.batch.clear();
                self.busy += shared.clock.now() - now;
                self.record()?;
                shared.live.received.store(self.counters.packets_received, Ordering::Relaxed);
            }
            if self.server.next_wake() <= now {
                let from = shared.clock.now();
                self.server.pull(now, &mut self.pool, &mut self.host);
                self.busy += shared.clock.now() - from;
                self.record()?;
            }
            let sent =
                self.waiting.send_due((now, BURST), self.wire.as_mut(), &mut self.pool, |_, (), _| Ok(()))?.taken;
            if shared.is_cut_off(now) {
                return Ok(());
            }
            if found + sent > 0 || self.waiting.next() > now {
                moved = now;
            }
            // Due frames that are not accepted for long wait for a peer that is gone.
            if found + sent > 0 || (self.waiting.len() > 0 && now - moved < PATIENCE) {
                quiet_since = now;
                self.look(shared, now)?;
            } else if shared.over(quiet_since) || ended {
                return Ok(());
            } else {
                self.look(shared, now)?;
                shared.idle(self.wire.as_mut(), self.server.next_wake())?;
            }
        }
    }

    /// Reports losses periodically: reading them takes a system call.
    fn look(&mut self, shared: &Shared, now: Time) -> Result<()> {
        if now - self.looked > LOOK {
            self.looked = now;
            // A ring tells of an interface that went down only here, if nothing waits (`wait = "spin"`).
            self.wire.wait(0)?;
            shared.live.lost_server.store(self.wire.counters().receive_dropped, Ordering::Relaxed);
        }
        Ok(())
    }

    fn record(&mut self) -> Result<()> {
        for outgoing in self.host.outgoing.drain(..) {
            self.counters.downlink_bytes += u64::from(outgoing.frame.len);
            if outgoing.frame.kind == Kind::Control {
                let cluster = outgoing.frame.cluster;
                self.acks_due.count(cluster, self.members.get(usize::from(cluster)).copied().map_or(0, u64::from));
            }
            self.waiting.push(outgoing.frame, ());
        }
        for delivery in self.host.deliveries.drain(..) {
            let (mut row, frame) = (delivery.row, delivery.frame);
            let payload = self.pool.payload(&frame);
            let values = self.facts.protocol.values(payload);
            row.digest = Some(digest(values));
            row.bytes = self.beside.of(frame.buffer).with(u64::from(row.bytes)) as u32;
            self.counters.delivered(&row, self.facts.protocol.elements(row.packet, values));
            let bytes = self.pool.frame(&frame);
            if let Some(shown) = &mut self.shown {
                let lanes = self.facts.lanes.as_ref();
                shown.delivered(Delivered::of(&row, lanes.and_then(|lanes| lanes.members(bytes))));
            }
            if self.rows.keeps_packets() {
                self.rows.packet(row.t_recv, self.wire.on_cable(bytes), row.bytes)?;
            }
            self.rows.received(&row, bytes)?;
            if let Some(stamps) = &self.stamps {
                self.rows.stamped(&row, stamps.of(frame.buffer))?;
            }
            self.pool.release(frame.buffer);
        }
        Ok(())
    }

    pub(super) fn count(&mut self, outcome: &mut RealOutcome) {
        self.counters.acks_sent = self.host.acks_sent;
        self.counters.foreign = self.host.foreign;
        self.counters.frames_again = self.host.frames_again;
        let end = self.server.end(Some(self.busy));
        end.counters.iter().for_each(|own| self.counters.count(own));
        outcome.counters.add(&self.counters);
        if !outcome.cut && !outcome.interrupted {
            outcome.faults.extend(end.unfinished.map(|why| Fault::Unfinished { why }));
        }
        outcome.tallies.push(("server", self.tally));
        outcome.acks.due.add(&self.acks_due);
        lost("server", self.wire.as_mut(), outcome);
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::topology::{NodeId, Population};

    use super::*;
    use crate::capture::{Records, RunDir, Wanted};
    use crate::endpoint::ServerEnd;
    use crate::endpoint::open_loop::OpenLoopKind;
    use crate::ledger::{Evidence, Ledger, Subject};
    use crate::transport::Nowhere;

    /// Test server without frames.
    struct Idle;

    impl Server for Idle {
        fn on_burst(&mut self, _node: NodeId, _burst: &[Frame], _pool: &mut Pool, _host: &mut Host) {}
        fn end(&self, _worked: Option<Time>) -> ServerEnd {
            ServerEnd::default()
        }
    }

    /// Copies at a server that writes no rows of them, beside those at workers.
    #[test]
    fn copies_at_the_server_are_those_of_the_run() {
        const WANTED: Wanted = Wanted { records: Records::None, server: true, ..Wanted::ROWS };
        let dir = tempfile::tempdir().unwrap();
        let mut run = RunDir::bare(dir.path(), WANTED);
        let rows = run.sides().unwrap().server.unwrap();
        let facts = Facts::of_test(&OpenLoopKind, Population::regular(1, 2));
        let mut role = ServerRole::new(Box::new(Idle), facts, Box::new(Nowhere), 100, rows);
        role.host.frames_again = 3;
        let subject = Subject::Updates { elements: 0, goal: None, named: true };
        let mut outcome = RealOutcome::empty(Ledger::open(2, subject, Evidence::Books)).unwrap();
        outcome.counters.frames_again = 2;
        role.count(&mut outcome);
        assert_eq!(outcome.counters.frames_again, 5);
    }
}
