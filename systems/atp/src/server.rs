//! ATP's parameter server (`server/ParameterServer.cc` of the public code): it adds up complete or partial sums that reach it. When it has
//! the contributions of all workers for a number, it answers with one result that the switch sends to all of them.
//!
//! Values of a number are kept until no worker can lack its result: workers send less than a window beyond the oldest
//! result that they lack, so a packet of one number shows that all workers have the results of two windows before it.

#[cfg(test)]
mod tests;

use pktgen_core::Result;
use pktgen_core::config::Section;
use pktgen_core::record::{Counter, PacketId, Received};
use pktgen_core::time::Time;
use pktgen_core::topology::NodeId;
use pktgen_engine::endpoint::roster::received_in_training;
use pktgen_engine::endpoint::rounds::ALL_WORKERS;
use pktgen_engine::endpoint::{Delivery, Facts, Host, Outgoing, Receiver, Server, ServerEnd};
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, group_ip, is_congestion_marked, set_udp_checksum};
use pktgen_wire::wire::integers::{add_values, emit_values, set_values};

use crate::format::{BYTES, ELEMENTS, Header, Name, PORT, SECOND, UDP_FRAME_BYTES, WORKER_PORT, values, values_mut};
use crate::hash::Moves;
use crate::keys;
use crate::workers::{read_aggregators, read_window};

/// State of a number.
#[derive(Debug, Default)]
struct Entry {
    /// The number plus 1; 0 means none.
    known: u32,
    bitmap: u32,
    sums: Vec<i32>,
    collided: bool,
    congested: bool,
    /// Packets that were accepted, for recognising copies.
    packets: Vec<PacketId>,
}

impl Entry {
    fn begin(&mut self, known: u32) {
        self.known = known;
        self.bitmap = 0;
        (self.collided, self.congested) = (false, false);
        self.packets.clear();
        self.sums.resize(ELEMENTS, 0);
    }
}

/// One job.
struct Job {
    /// Indexed by number modulo the length.
    entries: Vec<Entry>,
    /// One more than the highest complete number.
    complete_to: u32,
    moves: Moves,
    /// Headers of results.
    all: Template,
}

#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    parts: u64,
    duplicates: u64,
    collisions: u64,
    stale: u64,
    results: u64,
    results_again: u64,
}

/// The server.
pub(crate) struct AtpServer {
    facts: Facts,
    workers: u8,
    window: u32,
    service: Time,
    /// End of its current work.
    busy_until: Time,
    busy: Time,
    jobs: Vec<Job>,
    counts: Counts,
}

/// Opens the server.
pub(crate) fn open(section: &mut Section, facts: &Facts) -> Result<Receiver> {
    let service = keys::Server::service_time(section)?;
    let window = read_window(section)?;
    let aggregators = read_aggregators(section, window)?;
    let service = if facts.real_time { 0 } else { service.ps() };
    Ok(Receiver::passive(AtpServer::new(facts, window, aggregators, service)))
}

impl AtpServer {
    fn new(facts: &Facts, window: u16, aggregators: u16, service: Time) -> Self {
        let workers = facts.training.0;
        let jobs = (facts.workers.len() as u32).checked_div(workers).unwrap_or(0) as u16;
        let job = |job: u16| Job {
            entries: (0..usize::from(window) * 2).map(|_| Entry::default()).collect(),
            complete_to: 0,
            moves: Moves::new(job + 1, aggregators, facts.seed),
            all: Template::new((SERVER_IP, PORT), (group_ip(job), WORKER_PORT), UDP_FRAME_BYTES),
        };
        AtpServer {
            workers: workers as u8,
            window: u32::from(window),
            service,
            busy_until: 0,
            busy: 0,
            jobs: (0..jobs).map(job).collect(),
            facts: facts.clone(),
            counts: Counts::default(),
        }
    }

    /// Returns the bitmap of all workers of a job.
    fn whole(&self) -> u32 {
        (1u64 << self.workers).wrapping_sub(1) as u32
    }

    /// Returns the header of a packet that workers of a job may have sent, with its name.
    fn known(&self, frame: &Frame, pool: &Pool) -> Option<(Header, Name)> {
        let ours = matches!(frame.kind, Kind::Update | Kind::Request) && usize::from(frame.head) == HEAD;
        let header = Header::parse(pool.payload(frame)).filter(|_| ours)?;
        let name = Name::of(header.key);
        let job = self.jobs.get(usize::from(header.app.checked_sub(1)?))?;
        let fits = !header.ack && !header.overflow && header.workers == self.workers && header.seq == name.seq();
        let own = header.bitmap & !self.whole() == 0 && frame.cluster + 1 == header.app;
        // Its key is that of a contribution that it holds.
        let holds = |source: u8| header.bitmap.checked_shr(source.into()).is_some_and(|bits| bits & 1 == 1);
        let own = own && name.key() == header.key && holds(name.source);
        // No worker sends a window or more beyond the complete numbers.
        let near = name.number < job.complete_to.saturating_add(self.window);
        (fits && own && near).then_some((header, name))
    }

    fn receive(&mut self, frame: &Frame, pool: &mut Pool, host: &mut Host) {
        let Some((header, name)) = self.known(frame, pool) else {
            host.foreign += 1;
            return pool.release(frame.buffer);
        };
        self.counts.packets += 1;
        self.counts.collisions += u64::from(header.collision);
        let whole = self.whole();
        let job = &mut self.jobs[usize::from(frame.cluster)];
        job.moves.uses(header.aggregator);
        let count = job.entries.len();
        let entry = &mut job.entries[name.number as usize % count];
        match entry.known.cmp(&(name.number + 1)) {
            std::cmp::Ordering::Less => entry.begin(name.number + 1),
            std::cmp::Ordering::Equal => {}
            // All workers have its result.
            std::cmp::Ordering::Greater => {
                self.counts.stale += 1;
                if frame.kind != Kind::Update {
                    return pool.release(frame.buffer);
                }
                // Its transmission ends here, as that of any other packet. Whether it is a copy is not known: its number's packets are no
                // longer kept.
                return host.deliveries.push(delivered(frame, &header, self.facts.server, false));
            }
        }
        let again = frame.kind == Kind::Update && entry.packets.contains(&frame.packet);
        // A copy has no row, so the count is its only trace.
        host.frames_again += u64::from(again);
        let copy = again || frame.kind != Kind::Update;
        let before = entry.bitmap;
        // A result that is out named no other aggregator: workers that have it would not hear of one.
        entry.collided |= header.collision && entry.bitmap != whole;
        entry.congested |= header.congested || is_congestion_marked(pool.frame(frame));
        let accepted = take(entry, &header, pool.payload(frame), whole);
        self.counts.parts += u64::from(accepted && header.bitmap != whole);
        self.counts.duplicates += u64::from(!accepted);
        let (now_whole, resend) = (entry.bitmap == whole && before != whole, before == whole && header.resent);
        if now_whole {
            job.complete_to = job.complete_to.max(name.number + 1);
        }
        if !copy {
            entry.packets.push(frame.packet);
        }
        let at = self.busy_until.max(frame.t) + self.service;
        (self.busy_until, self.busy) = (at, self.busy + self.service);
        if now_whole || resend {
            self.counts.results += u64::from(now_whole);
            self.counts.results_again += u64::from(resend);
            self.answer(at, name.number, &header, frame, pool, host);
        }
        if copy {
            return pool.release(frame.buffer);
        }
        host.deliveries.push(delivered(frame, &header, self.facts.server, accepted));
    }

    /// Creates the result of a number, in a frame for all workers of the job.
    fn answer(&mut self, t: Time, number: u32, asked: &Header, frame: &Frame, pool: &mut Pool, host: &mut Host) {
        let job = &mut self.jobs[usize::from(frame.cluster)];
        let count = job.entries.len();
        let entry = &job.entries[number as usize % count];
        let moved = entry.collided.then(|| job.moves.next(asked.aggregator));
        let name = Name { number, attempt: 0, source: 0 };
        let header = Header {
            // The public server writes 1; the reason is unknown.
            bitmap: 1,
            ack: true,
            collision: moved.is_some(),
            congested: entry.congested,
            second: asked.aggregator.wrapping_add(SECOND),
            key: name.key(),
            tensor: moved.map_or(asked.tensor, u32::from),
            ..*asked
        };
        let buffer = pool.take();
        let bytes = &mut pool.bytes_mut(buffer)[..UDP_FRAME_BYTES];
        job.all.emit(bytes);
        header.emit(&mut bytes[HEAD..]);
        emit_values(&entry.sums, values_mut(&mut bytes[HEAD..]));
        if self.facts.udp_checksum {
            set_udp_checksum(bytes);
        }
        let first = u32::from(frame.cluster) * u32::from(self.workers);
        let frame = Frame {
            t,
            packet: PacketId::new(first, number, 0),
            buffer,
            worker: first,
            len: (HEAD + BYTES) as u16,
            cluster: frame.cluster,
            flow: ALL_WORKERS,
            head: HEAD as u8,
            kind: Kind::Result,
        };
        host.outgoing.push(Outgoing { node: self.facts.server, frame, record: None });
    }
}

/// Returns the delivery of a packet, whose bitmap has the number of its contributions.
fn delivered(frame: &Frame, header: &Header, server: NodeId, accepted: bool) -> Delivery {
    let count = header.bitmap.count_ones() as u16;
    Delivery { row: Received { count, accepted, ..received_in_training(frame, server) }, frame: *frame }
}

/// Accepts a packet's values: a complete sum replaces everything, a partial one is added if none of its contributions
/// is present. Returns whether it was accepted.
fn take(entry: &mut Entry, header: &Header, payload: &[u8], whole: u32) -> bool {
    let Some(values) = values(payload) else { return false };
    let replaces = header.bitmap == whole && entry.bitmap != whole;
    if !replaces && entry.bitmap & header.bitmap != 0 {
        return false;
    }
    match entry.bitmap {
        _ if replaces => set_values(&mut entry.sums, values),
        0 => set_values(&mut entry.sums, values),
        _ => add_values(&mut entry.sums, values),
    }
    entry.bitmap |= header.bitmap;
    true
}

impl Server for AtpServer {
    fn on_burst(&mut self, _node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            self.receive(frame, pool, host);
        }
    }

    fn end(&self, worked: Option<Time>) -> ServerEnd {
        let Counts { packets, parts, duplicates, collisions, stale, results, results_again } = self.counts;
        let counters = vec![
            Counter::sum("server.busy_ns", ((self.busy + worked.unwrap_or(0)) / 1000).max(0) as u64),
            Counter::sum("server.packets", packets),
            Counter::sum("server.parts", parts),
            Counter::sum("server.duplicates", duplicates),
            Counter::sum("server.collisions", collisions),
            Counter::sum("server.stale", stale),
            Counter::sum("server.results", results),
            Counter::sum("server.results_resent", results_again),
            Counter::sum("server.moves", self.jobs.iter().map(|job| job.moves.made).sum()),
        ];
        ServerEnd { unfinished: None, counters, held: 0 }
    }
}
