//! Workers of synchronous training, for any protocol: compute, send the blocks of the model within a window, receive
//! results, repeat (Trio §4 "Window-based streaming aggregation").
//!
//! An iteration is computation, then communication. A worker ends it when it has a result of every block, whether or not it contributed:
//! blocks whose result came before it sent them are skipped (§5: a straggler gets the partial results, too). One engine drives all workers
//! of a run; [`RoundProtocol`] covers the differences between Trio-ML and SwitchML.

mod content;
mod copies;
mod keys;
mod layout;
mod patience;
mod settings;
mod worker;

use pktgen_core::record::{Counter, PacketId, Received, Reply, Sent, SumOk};
use pktgen_core::time::Time;
use pktgen_core::topology::NodeId;
use pktgen_wire::wire::frame::{ETHERNET_MIN, HEAD, Template, set_udp_checksum, target_port};
use pktgen_workload::dense::Dense;

use super::roster::{self, FrameDirection, Roster};
use super::{
    Behaviour, Content, Crew, Declaration, Delivery, Facts, Host, Identity, Outgoing, Payloads, Workers, WorkersEnd,
};
use crate::frame::{BURST, Frame, Kind, Pool};

use content::ResultCheck;
pub use content::{Contributions, Summing};
use copies::Copies;
pub use copies::PartialResults;
pub use keys::{Again, Scaled, Scalings, Trained};
pub use layout::{Layout, Scaling, read_scale, read_scaling};
use patience::Patience;
pub use settings::{Order, Settings, WindowControl, dense_of};
use worker::{ATTEMPT_MAX, Arrived, Worker};

/// Destination of a frame for all workers of its job.
pub const ALL_WORKERS: NodeId = NodeId::MAX;

/// Maximum number of frames of one worker that wait for its link: enough to keep it busy, few enough to stay in the cache.
const UNSENT_MAX: u32 = 8;

/// The header of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultHead {
    /// Job; none if the protocol does not name it.
    pub job: Option<u16>,
    /// Block, numbered over all iterations.
    pub seq: u32,
    /// Number of its sources.
    pub count: u16,
    /// Whether sources of the job are missing.
    pub degraded: bool,
    /// Largest exponent of all workers.
    pub exponent: i8,
    /// Whether a packet on its way met congestion.
    pub congested: bool,
}

/// A contribution of a worker.
#[derive(Debug, Clone, Copy)]
pub struct Contribution {
    /// The worker.
    pub worker: u32,
    /// Its job.
    pub job: u16,
    /// Its number in the job.
    pub source: u8,
    /// The iteration.
    pub iteration: u32,
    /// The block of the model.
    pub block: u32,
    /// The block, numbered over all iterations.
    pub seq: u32,
    /// 0 for the first transmission.
    pub attempt: u8,
    /// The exponent of its block, taken from the result of an earlier packet, if gradients are scaled by exponents.
    pub told: i8,
}

/// The protocol-specific part of the workers.
pub trait RoundProtocol: Send {
    /// Returns the headers of a worker's frames of `frame_bytes`, without padding.
    fn template(&self, worker: u32, frame_bytes: usize) -> Template;
    /// Returns the length of the frame of a block, without padding.
    fn frame_bytes(&self, dense: &Dense, block: u32) -> usize;
    /// Writes a contribution into a payload; returns the number of clipped elements.
    fn emit(&self, layout: &Layout, what: &Contribution, payload: &mut [u8]) -> u32;
    /// Reads a result; `None` if it is not one.
    fn parse(&self, layout: &Layout, payload: &[u8]) -> Option<ResultHead>;
    /// Returns whether it is a notice of the device instead of a result.
    fn is_notice(&self, _payload: &[u8]) -> bool {
        false
    }
    /// Called when the result of a block reaches a worker for the first time.
    fn heard(&mut self, _worker: u32, _payload: &[u8]) {
        // Most protocols ignore it: results do not affect later packets.
    }
    /// Returns how devices sum packets.
    fn summing(&self) -> Summing;
    /// Returns the possible reasons for missing results other than losses.
    fn delays(&self) -> &'static str;
}

/// Workers of synchronous training, without a server.
pub const BEHAVIOUR: Behaviour = Behaviour {
    synchronous: true,
    has_server: false,
    several_servers: false,
    needs_results: true,
    listens: false,
    learns: false,
    program: None,
    common: &[],
    ours: &[],
};

/// As [`BEHAVIOUR`], with a server that receives what devices do not sum, and answers when it has all contributions.
pub const SERVED: Behaviour = Behaviour { has_server: true, ..BEHAVIOUR };

/// The workers of a run.
pub struct Rounds<P> {
    protocol: P,
    settings: Settings,
    layout: Layout,
    facts: Facts,
    workers: Vec<Worker>,
    roster: Roster,
    templates: Vec<Template>,
    /// Delivered results: further copies are not further results.
    copies: Copies,
    /// Tells copies from further partial results at each worker.
    partial: PartialResults,
    /// Checks the server's results, if contributions are delivered to a server.
    check: Option<ResultCheck>,
    /// Detects waiting of a device without books.
    patience: Option<Patience>,
    clipped: u64,
}

/// Returns the identity of a frame of a synchronous protocol, by its addresses: a contribution of a worker, or a result
/// for a job or one worker, at their `port`. `packet` returns the packet id, given the sending worker, or `None` for
/// results, and the first worker of its job.
pub fn direction(
    bytes: &[u8],
    facts: &Facts,
    port: u16,
    packet: impl FnOnce(Option<u32>, u32) -> PacketId,
) -> Option<Identity> {
    let side = FrameDirection::of(bytes, facts)?;
    if !matches!(side, FrameDirection::From(_)) && target_port(bytes) != port {
        return None;
    }
    let (worker, kind) = match side {
        FrameDirection::From(worker) => (Some(worker), Kind::Update),
        _ => (None, Kind::Result),
    };
    let packet = packet(worker, u32::from(side.job(facts)) * facts.training.0);
    Some(side.identity(kind, packet, facts))
}

impl<P: RoundProtocol> Rounds<P> {
    /// Workers that use `protocol`.
    pub fn new(protocol: P, layout: Layout, settings: Settings, facts: &Facts) -> Self {
        let dense = layout.dense.clone();
        let count = dense.workers();
        let mut rounds = Rounds {
            templates: (0..count).map(|w| protocol.template(w, protocol.frame_bytes(&dense, 0))).collect(),
            workers: (0..count).map(|w| Worker::new(w, &layout, &settings)).collect(),
            roster: Roster::new(facts, dense.workers_per_job()),
            copies: Copies::new(
                usize::from(dense.jobs()) * layout.packets() as usize,
                facts.external,
                settings.retransmit.is_some(),
            ),
            partial: PartialResults::default(),
            check: facts.kind.behaviour().has_server.then(|| {
                ResultCheck::new(Contributions::new(layout.clone(), protocol.summing()), dense.workers_per_job())
            }),
            patience: facts.external.then(|| Patience::new(dense.workers_per_job())),
            protocol,
            settings,
            layout,
            facts: facts.clone(),
            clipped: 0,
        };
        let mut host = Host::default();
        for worker in 0..count {
            rounds.workers[worker as usize].begin(0, &rounds.layout, &rounds.settings, &mut host);
            rounds.reschedule(worker);
        }
        rounds
    }

    /// The workers, ready to run.
    pub fn crew(self) -> Crew
    where
        P: 'static,
    {
        let content = Contributions::new(self.layout.clone(), self.protocol.summing());
        let content = if self.check.is_some() { content.partial() } else { content };
        let declared = Declaration {
            reacts: true,
            training: Some(self.settings.training.clone()),
            packets: self.layout.packets(),
            elements: Some(content.elements()),
            frame_bytes: Some(self.protocol.frame_bytes(&self.layout.dense, 0).max(ETHERNET_MIN)),
            retransmit: self.settings.retransmit,
            ..Declaration::default()
        };
        Crew { workers: Box::new(self), declared, payloads: Payloads::Results(Box::new(content)) }
    }

    /// Returns what to do if workers wait for results in vain.
    fn remedy(&self) -> String {
        let waiting = self.workers.iter().filter(|worker| !worker.is_done());
        let given_up = waiting.filter(|worker| worker.has_given_up()).count();
        match self.settings.retransmit {
            None => "endpoint.retransmit sends again".to_owned(),
            Some(_) if given_up > 0 => format!(
                "{given_up} of them have sent a block again {ATTEMPT_MAX} times, the most: raise endpoint.retransmit, or have fewer losses"
            ),
            Some(_) => "the run ended before all was sent again".to_owned(),
        }
    }

    /// Sets a worker's timer.
    fn reschedule(&mut self, worker: u32) {
        let wake = self.workers[worker as usize].wake(&self.settings);
        self.roster.calendar.set(worker, wake);
    }

    /// Sends the frames that `worker` may send at `t`.
    fn send(&mut self, worker: u32, t: Time, pool: &mut Pool, host: &mut Host) {
        // At most a burst in total; the remainder is due at once.
        while host.outgoing.len() < BURST {
            let Some((block, attempt)) = self.workers[worker as usize].next(t, &self.settings) else { break };
            self.send_block(worker, block, attempt, t, pool, host);
        }
        self.end_if_all(worker, t, host);
        self.reschedule(worker);
    }

    /// Ends the iteration of `worker` if it is complete.
    fn end_if_all(&mut self, worker: u32, t: Time, host: &mut Host) {
        let Rounds { workers, layout, settings, patience, .. } = self;
        let known = host.iterations.len();
        workers[worker as usize].end_if_all(t, layout, settings, host);
        if let Some(patience) = patience {
            host.iterations[known..].iter().for_each(|row| patience.ended(row));
        }
    }

    fn send_block(&mut self, worker: u32, block: u32, attempt: u8, t: Time, pool: &mut Pool, host: &mut Host) {
        let own = &self.workers[worker as usize];
        let what = Contribution {
            worker,
            job: own.job,
            source: own.source,
            iteration: own.iteration,
            block,
            seq: own.iteration * self.layout.packets() + block,
            attempt,
            told: own.told(&self.layout, block),
        };
        let content = self.protocol.frame_bytes(&self.layout.dense, block);
        let bytes = content.max(ETHERNET_MIN);
        let buffer = pool.take();
        let (frame_bytes, padding) = pool.bytes_mut(buffer)[..bytes].split_at_mut(content);
        padding.fill(0);
        self.templates[worker as usize].emit_to_fit(frame_bytes);
        let clipped = self.protocol.emit(&self.layout, &what, &mut frame_bytes[HEAD..]);
        // A retransmission has the same gradients.
        self.clipped += if attempt == 0 { u64::from(clipped) } else { 0 };
        if self.facts.udp_checksum {
            set_udp_checksum(frame_bytes);
        }
        let frame = Frame {
            t,
            packet: PacketId::new(worker, what.seq, attempt),
            buffer,
            worker,
            len: bytes as u16,
            cluster: what.job,
            flow: self.facts.server,
            head: HEAD as u8,
            kind: Kind::Update,
        };
        let record = Sent {
            t_gen: own.t_ready,
            t_due: t,
            t_sent: None,
            cluster: None,
            job: Some(what.job),
            worker,
            seq: what.seq,
            attempt,
            block: Some(block),
            bytes: bytes as u32,
            reward: None,
            heat: None,
        };
        host.outgoing.push(Outgoing { node: self.facts.host_of[worker as usize], frame, record: Some(record) });
    }

    /// Handles a result that arrived at `node`.
    fn receive(&mut self, node: NodeId, frame: &Frame, pool: &mut Pool, host: &mut Host) {
        let head = match frame.kind {
            Kind::Result => self.protocol.parse(&self.layout, pool.payload(frame)),
            _ => None,
        };
        // If the protocol does not name the job, its multicast group determines it.
        let job = frame.cluster;
        let head = head.filter(|head| job < self.layout.dense.jobs() && head.job.is_none_or(|own| own == job));
        let Some(head) = head else {
            host.foreign += u64::from(frame.kind != Kind::Result || !self.protocol.is_notice(pool.payload(frame)));
            return pool.release(frame.buffer);
        };
        self.roster.find_hearers(node, job, pool.frame(frame));
        // A result at a host without the workers that it is addressed to is unmatched.
        if self.roster.hearers.is_empty() {
            host.foreign += 1;
            return pool.release(frame.buffer);
        }
        // A result that requires all workers is impossible without the contributions of its receivers.
        let (iteration, block) = (head.seq / self.layout.packets(), head.seq % self.layout.packets());
        let has_all = |w: &u32| self.workers[*w as usize].contributed(iteration, block);
        if self.settings.order.needs_all() && !self.roster.hearers.iter().all(has_all) {
            host.foreign += 1;
            return pool.release(frame.buffer);
        }
        let (mut taken, mut again) = (false, false);
        for i in 0..self.roster.hearers.len() {
            let worker = self.roster.hearers[i];
            let arrived = self.hear(worker, &head, frame, host);
            if arrived == Arrived::First {
                taken = true;
                self.protocol.heard(worker, pool.payload(frame));
            }
            again |= self.partial.is_copy((worker, frame.packet), head.degraded, arrived == Arrived::Again);
            self.reschedule(worker);
        }
        host.frames_again += u64::from(again);
        self.deliver(node, &head, frame, taken, pool, host);
    }

    fn hear(&mut self, worker: u32, head: &ResultHead, frame: &Frame, host: &mut Host) -> Arrived {
        let own = &mut self.workers[worker as usize];
        let (blocks, t) = (self.layout.packets(), frame.t);
        let block = head.seq % blocks;
        let t_sent = own.sent_at(head.seq / blocks, block, t);
        let arrived = own.arrived(head, t, blocks, &self.settings);
        host.replies.push(Reply {
            t_recv: t,
            t_sent,
            worker,
            job: frame.cluster,
            seq: head.seq,
            packet: frame.packet,
            count: head.count,
            degraded: head.degraded,
            again: arrived == Arrived::Again,
        });
        self.end_if_all(worker, t, host);
        arrived
    }

    /// Delivers the first copy of a result, unless its parts are delivered to a server; `taken` if a worker that it reached had none of its
    /// block.
    fn deliver(
        &mut self,
        node: NodeId,
        head: &ResultHead,
        frame: &Frame,
        taken: bool,
        pool: &mut Pool,
        host: &mut Host,
    ) {
        let (blocks, per_job) = (self.layout.packets(), self.layout.dense.workers_per_job());
        let (iteration, block) = (head.seq / blocks, head.seq % blocks);
        let slot = usize::from(frame.cluster) * blocks as usize + block as usize;
        let values = || self.facts.protocol.values(pool.payload(frame));
        let worker = self.roster.hearers[0];
        if !self.copies.is_first((slot, frame.packet), worker, head, values) {
            return pool.release(frame.buffer);
        }
        if let Some(check) = &mut self.check {
            check.look(frame.cluster, head, values());
            return pool.release(frame.buffer);
        }
        // A result does not contain the generation times of its parts.
        let mut row = Received { newest_seq: head.seq, count: head.count, ..roster::received_in_training(frame, node) };
        // Workers at other hosts receive copies: it is too late only if all workers of the job have a result of the block.
        let mut own = self.workers.iter().skip(usize::from(frame.cluster) * per_job as usize).take(per_job as usize);
        row.accepted = taken || own.any(|worker| worker.needs(iteration, block));
        // Workers scale by it: a wrong one spoils what is sent a window later.
        let of_all = u32::from(head.count) == per_job;
        if self.facts.external && of_all && !self.layout.has_exponent(frame.cluster, head.seq, head.exponent) {
            row.sum_ok = SumOk::No;
        }
        host.deliveries.push(Delivery { row, frame: *frame });
    }
}

/// The counter of results of a server with sums that 32 bits do not hold.
pub const RESULTS_OVERFLOWED: &str = "results_overflowed";

impl<P> Rounds<P> {
    fn counters(&self) -> Vec<Counter> {
        let mut counters: Vec<Counter> = self.patience.iter().filter_map(Patience::counter).collect();
        if let Some(check) = &self.check {
            let windows = self.workers.iter().map(Worker::window);
            counters.extend([
                Counter::sum("results_right", check.right),
                Counter::sum("results_wrong", check.wrong),
                Counter::sum("windows_halved", windows.clone().map(|(_, halved)| u64::from(halved)).sum()),
                Counter::largest("window_at_end", windows.map(|(now, _)| u64::from(now)).max().unwrap_or(0)),
            ]);
            let overflowed = check.overflowed();
            counters.extend((overflowed > 0).then(|| Counter::sum(RESULTS_OVERFLOWED, overflowed)));
        }
        counters
    }
}

impl<P: RoundProtocol> Workers for Rounds<P> {
    fn next_wake(&self) -> Time {
        self.roster.calendar.first().0
    }

    fn waits(&self) -> bool {
        !self.workers.iter().all(Worker::is_done)
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        while let Some((t, worker)) = self.roster.due(until, host) {
            self.send(worker, t, pool, host);
        }
    }

    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            self.receive(node, frame, pool, host);
        }
    }

    fn left(&mut self, packet: PacketId, t: Time) {
        let worker = packet.worker();
        self.workers[worker as usize].left(packet, self.layout.packets(), t, &self.settings);
        self.reschedule(worker);
    }

    fn end(&self) -> WorkersEnd {
        let waiting = self.workers.iter().filter(|worker| !worker.is_done());
        let (count, least) = waiting.fold((0, u32::MAX), |(n, least), worker| (n + 1, least.min(worker.iteration)));
        let unfinished = (count > 0).then(|| {
            format!(
                "{count} workers wait for results that do not come, the first in iteration {least} of {}: packets or results were lost, or \
                 {}; {}",
                self.layout.dense.iterations(),
                self.protocol.delays(),
                self.remedy()
            )
        });
        let check = self.check.as_ref();
        WorkersEnd {
            unfinished,
            clipped: self.clipped,
            scaling_error_ppb: check.and_then(ResultCheck::scaling_error_ppb),
            wrong_results: check.map_or(0, |check| check.wrong),
            unlike_results: self.copies.fault(),
            counters: self.counters(),
            ..WorkersEnd::default()
        }
    }
}
