//! ATP's switch, which works like its public P4 program (`p4src/p4ml.p4`).
//!
//! A packet contains the aggregator that its worker hashed it to. An aggregator belongs to the packets of one job and number from the
//! first of them until the result passes on its way back: so it is taken for a round trip to the parameter server. A packet whose
//! aggregator is taken by others is marked as a collision and goes on to the server, which adds it up. A retransmitted packet takes the
//! contents of the aggregator with it and frees it. The switch itself takes no time here; docs/atp.md lists our choices.

mod aggregators;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};

use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::{Action, Counter, PacketId, Reason};
use pktgen_core::registry::Named;
use pktgen_core::{Error, Result};
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::target::context::Context;
use pktgen_engine::target::program::{Expected, Place, Program, ProgramKind};
use pktgen_wire::wire::frame::{
    HEAD, has_udp_checksum, is_congestion_marked, refit, set_source, set_udp_checksum, source_ip, worker_ip, worker_of,
};

use crate::format::{BYTES, Header, Name, PORT, WORKER_PORT, values_mut};
use crate::keys;
use aggregators::{Aggregators, Outcome, Part};

/// Number of bits in a bitmap.
pub(crate) const WORKERS_MAX: usize = 32;

/// `program = "atp"`.
pub(crate) struct AtpKind;

impl Named for AtpKind {
    fn name(&self) -> &'static str {
        "atp"
    }
    fn about(&self) -> &'static str {
        "ATP's switch: sums in hashed aggregators, forwards colliding packets to the server"
    }
}

impl ProgramKind for AtpKind {
    fn keys(&self) -> KeyTables {
        &[keys::Switch::KEYS]
    }

    fn format(&self) -> Option<&'static str> {
        Some("atp_udp")
    }

    fn expected(&self, _per_cluster: u32) -> Expected {
        Expected::MergesUnderLoad
    }

    fn queue(&self) -> &'static str {
        "atp"
    }

    fn open(&self, section: &mut Section, place: Place) -> Result<Box<dyn Program>> {
        let count = keys::Switch::aggregators(section)?;
        for (number, job) in place.jobs.iter().enumerate() {
            if job.sources.iter().any(|source| source.worker.is_none()) {
                return Err(Error::config(format!(
                    "{}: \"atp\" on node {} has another device between it and workers of job {number}; this version sums at one \
                     device on the way, so use topology.kind = \"star\"",
                    section.place("program"),
                    place.node
                )));
            }
            if job.sources.len() > WORKERS_MAX {
                return Err(Error::config(format!(
                    "{}: job {number} has {} workers, and a bitmap {WORKERS_MAX} bits; give workload.workers_per_cluster = \
                     {WORKERS_MAX} or less",
                    section.place("program"),
                    job.sources.len()
                )));
            }
        }
        Ok(Box::new(Atp::new(place, count as u16)))
    }
}

/// Identity of a worker.
#[derive(Debug, Clone, Copy)]
struct Member {
    worker: u32,
    job: u16,
    source: u8,
}

#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    whole: u64,
    collisions: u64,
    flushed: u64,
    duplicates: u64,
    late: u64,
    results: u64,
}

struct Atp {
    aggregators: Aggregators,
    /// By worker; `None` for those that are not below this switch.
    members: Vec<Option<Member>>,
    /// Number of workers below this switch, by job.
    sizes: Vec<u8>,
    /// By job: numbers whose result has passed.
    passed: Vec<Numbers>,
    /// By worker: numbers whose first transmission arrived. The public program has neither; the ledger needs both.
    seen: Vec<Numbers>,
    /// Retransmitted packets that arrived, for the same reason.
    resent: Recent,
    counts: Counts,
    place: Place,
}

/// A bit for each number of a job's packets on the wire, valid for the last half of all numbers.
#[derive(Clone)]
struct Numbers {
    bits: Vec<u64>,
    /// The latest number.
    latest: usize,
}

impl Numbers {
    fn new() -> Self {
        Numbers { bits: vec![0; (1 << 16) / 64], latest: Self::COUNT }
    }

    /// Number of numbers; 0 is unused.
    const COUNT: usize = u16::MAX as usize;

    fn has(&self, seq: u16) -> bool {
        self.bits[usize::from(seq) / 64] >> (seq % 64) & 1 == 1
    }

    /// It is remembered until half of all numbers later, whether that one comes or is lost on its way.
    fn add(&mut self, seq: u16) {
        let ahead = (usize::from(seq) + Self::COUNT - self.latest) % Self::COUNT;
        if ahead <= Self::COUNT / 2 {
            for number in self.latest + 1..=self.latest + ahead {
                let old = (number - 1 + Self::COUNT / 2) % Self::COUNT + 1;
                self.bits[old / 64] &= !(1 << (old % 64));
            }
            self.latest = usize::from(seq).max(1);
        }
        self.bits[usize::from(seq) / 64] |= 1 << (seq % 64);
    }
}

/// The latest packets that arrived, as many as a network can hold copies of.
struct Recent {
    ids: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Recent {
    const MOST: usize = 1 << 13;

    fn new() -> Self {
        // Twice the capacity, so that nothing is reallocated when it is full.
        Recent { ids: HashSet::with_capacity(2 * Self::MOST), order: VecDeque::with_capacity(Self::MOST) }
    }

    /// Records a packet; returns whether it is new.
    fn is_first(&mut self, packet: PacketId) -> bool {
        if !self.ids.insert(packet.0) {
            return false;
        }
        if self.order.len() == Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        self.order.push_back(packet.0);
        true
    }
}

impl Atp {
    fn new(place: Place, aggregators: u16) -> Self {
        let mut members = vec![None; place.workers.len()];
        for (job, at) in place.jobs.iter().enumerate() {
            for source in &at.sources {
                if let Some(worker) = source.worker
                    && let Some(own) = members.get_mut(worker as usize)
                {
                    *own = Some(Member { worker, job: job as u16, source: source.id });
                }
            }
        }
        Atp {
            aggregators: Aggregators::new(aggregators),
            seen: vec![Numbers::new(); members.len()],
            resent: Recent::new(),
            members,
            sizes: place.jobs.iter().map(|job| job.sources.len() as u8).collect(),
            passed: vec![Numbers::new(); place.jobs.len()],
            counts: Counts::default(),
            place,
        }
    }

    /// Returns the header of a worker's packet and the worker, or why it is refused.
    #[inline]
    fn identify(&self, frame: &Frame, pool: &Pool) -> Result<(Header, Member), Reason> {
        let header = header_of(frame, pool).filter(|header| !header.ack).ok_or(Reason::Malformed)?;
        let worker = worker_of(source_ip(pool.frame(frame)), self.members.len()).ok_or(Reason::UnknownSource)?;
        let member = self.members[worker as usize].ok_or(Reason::UnknownSource)?;
        if header.app != member.job + 1 {
            return Err(Reason::UnknownJob);
        }
        if header.bitmap != 1 << member.source {
            return Err(Reason::UnknownSource);
        }
        if header.workers != self.sizes[usize::from(member.job)] {
            return Err(Reason::WrongCount);
        }
        Ok((header, member))
    }

    /// Handles a packet of a worker.
    fn take(&mut self, frame: &Frame, context: &mut Context) {
        self.counts.packets += 1;
        let (mut header, member) = match self.identify(frame, context.pool) {
            Ok(found) => found,
            Err(reason) => return context.drop(*frame, reason),
        };
        // Floats that do not fit into integers are handled by the server.
        if header.overflow {
            return self.to_server(*frame, context);
        }
        header.congested |= is_congestion_marked(context.pool.frame(frame));
        if header.resent && (frame.is_copy() || !self.resent.is_first(frame.packet)) {
            self.counts.duplicates += 1;
            return context.pool.release(frame.buffer);
        }
        if !header.resent && self.came_before(&header, member, frame, context) {
            return;
        }
        let values = &*values_mut(context.pool.payload_mut(frame));
        let part = Part { header: &header, packet: frame.packet, values };
        match self.aggregators.offer(&part) {
            Outcome::Opens => {
                context.books.passes(frame.t, frame, Action::Arrived);
                context.pool.release(frame.buffer);
            }
            Outcome::Joins(first) => {
                context.books.yields(frame.t, frame.packet, Action::Merged, first);
                context.pool.release(frame.buffer);
            }
            Outcome::Whole(first) => {
                self.counts.whole += 1;
                self.leave_with(first, header, frame, context);
            }
            Outcome::Flushed(first) => {
                self.counts.flushed += 1;
                self.leave_with(Some(first), header, frame, context);
            }
            Outcome::FlushedBy(first) => {
                self.counts.flushed += 1;
                self.leave_as(first, header, frame, context);
            }
            Outcome::Passes => self.to_server(*frame, context),
            Outcome::Collides => {
                self.counts.collisions += 1;
                let own = Frame { buffer: context.pool.unshare(frame.buffer), ..*frame };
                emit(&Header { collision: true, ..header }, &own, context.pool);
                self.to_server(own, context);
            }
        }
    }

    /// Handles a first transmission that arrived before (a copy made by a network) or whose result has passed: it ends
    /// here, whereas the public program would let some of these occupy an aggregator in vain. For a complete sum, a
    /// copy sends the sum to the server once more.
    fn came_before(&mut self, header: &Header, member: Member, frame: &Frame, context: &mut Context) -> bool {
        let seen = &mut self.seen[member.worker as usize];
        if seen.has(header.seq) {
            self.counts.duplicates += 1;
            if !self.aggregators.is_whole(header) {
                context.pool.release(frame.buffer);
                return true;
            }
            // Its contents were already recorded under another id, so it has no place in the ledger.
            let again = Frame { kind: Kind::Request, ..*frame };
            self.write(*header, &again, context);
            self.to_server(again, context);
            return true;
        }
        seen.add(header.seq);
        let late = self.passed[usize::from(member.job)].has(header.seq);
        if late {
            self.counts.late += 1;
            context.drop(*frame, Reason::Late);
        }
        late
    }

    /// Sends the packet with the sum; the packet that represented the sum joins it.
    fn leave_with(&mut self, before: Option<PacketId>, header: Header, frame: &Frame, context: &mut Context) {
        if let Some(before) = before {
            context.books.yields(frame.t, before, Action::Merged, frame.packet);
        }
        self.write(header, frame, context);
        self.to_server(*frame, context);
    }

    /// Sends the packet, which is already in the sum, with the sum under the id of the packet that represents it.
    fn leave_as(&mut self, first: PacketId, header: Header, frame: &Frame, context: &mut Context) {
        context.books.dropped(frame.t, frame, Reason::Duplicate, Some(first));
        let worker = first.worker();
        let source = self.members.get(worker as usize).copied().flatten().map_or(0, |member| member.source);
        let name = Name { number: Name::of(header.key).number, attempt: first.attempt(), source };
        let frame = Frame { packet: first, worker, ..*frame };
        let bytes = &mut context.pool.bytes_mut(frame.buffer)[..usize::from(frame.len)];
        set_source(bytes, worker_ip(worker));
        refit(bytes, (WORKER_PORT, PORT));
        self.write(Header { key: name.key(), ..header }, &frame, context);
        self.to_server(frame, context);
    }

    /// Writes the contents of the aggregator and its bitmap into a packet.
    fn write(&self, header: Header, frame: &Frame, context: &mut Context) {
        let (bitmap, congested) = self.aggregators.read(values_mut(context.pool.payload_mut(frame)));
        emit(&Header { bitmap, congested: header.congested || congested, ..header }, frame, context.pool);
    }

    fn to_server(&self, frame: Frame, context: &mut Context) {
        let port = self.place.routes.port(self.place.server);
        context.emit(port, frame);
    }

    /// Sends a packet of the server to all workers of its job and frees its aggregator.
    fn back(&mut self, frame: &Frame, context: &mut Context) {
        let header = header_of(frame, context.pool).filter(|header| header.ack && frame.cluster + 1 == header.app);
        let Some(header) = header.filter(|_| usize::from(frame.cluster) < self.passed.len()) else {
            return context.drop(*frame, Reason::Malformed);
        };
        // A request for floats frees nothing.
        if !header.asks_for_floats() {
            self.passed[usize::from(frame.cluster)].add(header.seq);
            if let Some(first) = self.aggregators.free(header.app, header.seq, header.aggregator) {
                context.books.lost(frame.t, first, Reason::Late);
            }
        }
        self.counts.results += 1;
        let ports = self.place.jobs.get(usize::from(frame.cluster)).map_or(&[][..], |job| &job.ports);
        let Some((last, others)) = ports.split_last() else {
            return context.drop(*frame, Reason::NoRoute);
        };
        for &port in others {
            let copy = context.share(frame);
            context.emit_around(port, copy);
        }
        context.emit_around(*last, *frame);
    }
}

/// Returns the header of a packet with the standard headers before it.
#[inline]
fn header_of(frame: &Frame, pool: &Pool) -> Option<Header> {
    let whole = usize::from(frame.head) == HEAD && usize::from(frame.len) == HEAD + BYTES;
    if whole { Header::parse(pool.payload(frame)) } else { None }
}

/// Writes a header into an existing packet.
fn emit(header: &Header, frame: &Frame, pool: &mut Pool) {
    let bytes = &mut pool.bytes_mut(frame.buffer)[..usize::from(frame.len)];
    header.emit(&mut bytes[HEAD..]);
    if has_udp_checksum(bytes) {
        set_udp_checksum(bytes);
    }
}

impl Program for Atp {
    fn on_burst(&mut self, burst: &[Frame], context: &mut Context) {
        for frame in burst {
            match frame.kind {
                Kind::Update => self.take(frame, context),
                Kind::Result => self.back(frame, context),
                Kind::Plain | Kind::Control | Kind::Request => {
                    let port = self.place.routes.port(frame.flow);
                    context.emit(port, *frame);
                }
            }
        }
    }

    fn counters(&self) -> Vec<Counter> {
        vec![
            Counter::sum("packets", self.counts.packets),
            Counter::sum("sums_whole", self.counts.whole),
            Counter::sum("collisions", self.counts.collisions),
            Counter::sum("sums_flushed", self.counts.flushed),
            Counter::sum("duplicates", self.counts.duplicates),
            Counter::sum("late", self.counts.late),
            Counter::sum("results", self.counts.results),
            Counter::largest("aggregators_max", self.aggregators.in_use_max as u64),
            Counter::sum("aggregators_at_end", self.aggregators.in_use as u64),
        ]
    }
}
