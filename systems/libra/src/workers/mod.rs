//! Sparse training: workers that push pairs of key and value to a switch and a server, and receive sums (LIBRA §2.1, §3; `docs/libra.md`).
//!
//! One engine drives all workers of a run. [`packing`] computes what they send, [`destinations`] where to, [`lane`]
//! tracks acknowledgements, [`worker`] the progress of each in its iteration, and [`proof`] checks the sums of a device
//! without a ledger; [`server`] is the parameter server of these runs, [`servers`] several of them.

mod controller;
mod destinations;
mod lane;
mod packing;
mod proof;
mod reliable;
mod repeats;
mod seen;
mod server;
mod servers;
mod settings;
mod worker;

use std::collections::BTreeSet;

use crate::format::{self, COLD_PAIR, HEADER, Header, PORT, ResultHead, WORKER_PORT};
use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::{PacketId, Received, Sent, SumOk};
use pktgen_core::registry::Named;
use pktgen_core::shard::Shard;
use pktgen_core::time::Time;
use pktgen_core::topology::NodeId;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{HEAD, Template, server_ip, set_udp_checksum, target_port, worker_ip};
use pktgen_workload::workload::Source;

use destinations::{Destination, Destinations};
use packing::{Contents, Heat, Item, Packing};
use pktgen_engine::endpoint::roster::{self, FrameDirection, Roster};
use pktgen_engine::endpoint::{
    Behaviour, Crew, Declaration, Delivery, Facts, Host, Identity, Outgoing, Payloads, Protocol, Receiver, WorkerKind,
    Workers, WorkersEnd,
};
use pktgen_engine::frame::{BURST, Frame, Kind, Pool};
use pktgen_engine::target::sparse::SparsePlace;
use proof::Proof;
use repeats::Repeats;
use settings::Settings;
use worker::{Due, ResultArrival, Worker};

/// `workers = "libra"`.
pub(crate) struct LibraKind;

/// `workers = "ps_lite"`.
pub(crate) struct PsLiteKind;

impl Named for LibraKind {
    fn name(&self) -> &'static str {
        "libra"
    }
    fn about(&self) -> &'static str {
        "sparse training: hot parameters are summed by a switch, cold ones by the server"
    }
}

impl Named for PsLiteKind {
    fn name(&self) -> &'static str {
        "ps_lite"
    }
    fn about(&self) -> &'static str {
        "sparse training: all parameters are summed by the server"
    }
}

static PROTOCOL: Protocol = Protocol {
    format: "libra",
    smaller: "lower endpoint.cold_bytes",
    whole: false,
    identify,
    values: format::pairs,
    // A packet id contains the sequence number of its header.
    element_bytes: |packet| match format::heat_of(packet.seq()) {
        Heat::Hot => format::HOT_PAIR,
        Heat::Cold => COLD_PAIR,
    },
    heads: |_| None,
};

/// The common parts of both kinds.
macro_rules! speaks_libra {
    ($needs_results:expr, $program:expr, $common:expr) => {
        fn keys(&self) -> KeyTables {
            &[settings::Written::KEYS, settings::Shared::KEYS, reliable::Written::KEYS]
        }

        fn protocol(&self) -> &'static Protocol {
            &PROTOCOL
        }

        fn behaviour(&self) -> Behaviour {
            let (needs_results, program) = ($needs_results, $program);
            Behaviour {
                synchronous: true,
                several_servers: true,
                needs_results,
                program: Some(program),
                common: $common,
                ..Behaviour::ASYNCHRONOUS
            }
        }

        fn server_keys(&self) -> KeyTables {
            &[server::service::Written::KEYS, reliable::Written::KEYS, controller::watch::Beats::KEYS]
        }

        fn server(&self, section: &mut Section, facts: &Facts) -> Result<Option<Receiver>> {
            let asynchronous = settings::is_asynchronous(section)?;
            servers::open(section, facts, asynchronous).map(Some)
        }
    };
}

impl WorkerKind for LibraKind {
    speaks_libra!(true, "libra", &["add"]);

    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        let settings = Settings::read(section, facts, source.as_ref(), self, true)?;
        if settings.rules.sparse.jobs() > u16::from(u8::MAX) {
            return Err(Error::config("workload.jobs: a packet has 8 bits for the job; give at most 255"));
        }
        Ok(SparseWorkers::new(settings, facts).crew())
    }
}

impl WorkerKind for PsLiteKind {
    speaks_libra!(false, "forward", &[]);

    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        let settings = Settings::read(section, facts, source.as_ref(), self, false)?;
        Ok(SparseWorkers::new(settings, facts).crew())
    }
}

/// Identifies a frame from a wire.
fn identify(bytes: &[u8], facts: &Facts) -> Option<Identity> {
    let payload = &bytes[HEAD..];
    let header = Header::parse(payload)?;
    let side = FrameDirection::of(bytes, facts)?;
    // A worker has one port: what goes to another one reaches no worker.
    if !matches!(side, FrameDirection::From(_)) && target_port(bytes) != WORKER_PORT {
        return None;
    }
    let own = |worker| PacketId::new(worker, header.seq, header.attempt);
    if let FrameDirection::From(worker) = side {
        let kind = if header.kind == format::Kind::Push { Kind::Update } else { Kind::Request };
        return Some(side.identity(kind, own(worker), facts));
    }
    let is_result = header.kind == format::Kind::Result && !header.is_cold();
    let opener = if is_result { ResultHead::parse(payload)?.opener } else { None };
    // Results of a device without a ledger are checked whether or not they contain the opener of the sum, without which nothing was added.
    let kind = if opener.is_some() || is_result && facts.external { Kind::Result } else { Kind::Control };
    let worker = if let FrameDirection::To(worker) = side { worker } else { 0 };
    let identity = side.identity(kind, opener.unwrap_or_else(|| own(worker)), facts);
    Some(Identity { cluster: u16::from(header.job), ..identity })
}

/// The most recently delivered sums of a job and a switch: copies of their parts are not further deliveries, nor are
/// those of earlier sums.
#[derive(Debug, Clone, Default)]
struct Delivered {
    /// Number of their first result.
    first: u32,
    parts: Vec<bool>,
    /// Numbers of the first results of all sums that a worker has completely.
    over: BTreeSet<u32>,
}

impl Delivered {
    /// Whether this is the first copy of a result.
    fn is_new(&mut self, number: u32, head: &ResultHead) -> bool {
        let first = number.wrapping_sub(head.part.into());
        if self.parts.is_empty() || first > self.first {
            self.first = first;
            self.parts = vec![false; usize::from(head.parts)];
        }
        let part = self.parts.get_mut(usize::from(head.part)).filter(|_| first == self.first);
        part.is_some_and(|part| !std::mem::replace(part, true))
    }

    /// Records that a worker has all of a sum; returns whether it is the first one.
    fn is_over(&mut self, number: u32, head: &ResultHead) -> bool {
        self.over.insert(number.wrapping_sub(head.part.into()))
    }
}

/// The workers of a run.
struct SparseWorkers {
    settings: Settings,
    facts: Facts,
    packing: Packing,
    workers: Vec<Worker>,
    roster: Roster,
    destinations: Destinations,
    /// The server that packets to each destination are addressed to, and its node: switches are on the path to these.
    ends: Vec<(u32, NodeId)>,
    /// By worker and server.
    templates: Vec<Template>,
    /// By job and switch.
    delivered: Vec<Delivered>,
    /// Whether a worker may have sent its end as often as it may, in vain.
    nudged_in_vain: bool,
    /// The expected sums of a device without a ledger, if all workers are in this process and none proceeds alone.
    proof: Option<Proof>,
    repeats: Repeats,
}

impl SparseWorkers {
    fn new(settings: Settings, facts: &Facts) -> Self {
        let mut packing = Packing::new(settings.rules.clone());
        let (count, shards) = (settings.rules.sparse.workers(), settings.rules.shards.clone());
        let destinations = Destinations::of(&shards);
        let end = |to: Destination| {
            let server = if to.heat == Heat::Cold { to.number } else { shards.first_server(to.number) };
            (server, facts.racks.servers.get(server as usize).copied().unwrap_or(facts.server))
        };
        let template = |(worker, server)| {
            Template::new((worker_ip(worker), WORKER_PORT), (server_ip(server), PORT), HEAD + HEADER)
        };
        let pairs = (0..count).flat_map(|worker| (0..shards.servers()).map(move |server| (worker, server)));
        let per_job = settings.rules.sparse.workers_per_job();
        let sums = usize::from(settings.rules.sparse.jobs()) * shards.racks() as usize;
        let provable = facts.external
            && settings.rules.hot
            && !settings.rules.pulls
            && !settings.failover
            && facts.share == Shard::WHOLE;
        let mut workers = SparseWorkers {
            workers: (0..count).map(|worker| Worker::new(worker, &mut packing)).collect(),
            templates: pairs.map(template).collect(),
            destinations,
            ends: destinations.all().map(end).collect(),
            roster: Roster::new(facts, per_job),
            delivered: vec![Delivered::default(); sums],
            nudged_in_vain: false,
            proof: provable.then(|| Proof::new(sums, per_job, &settings.adder)),
            repeats: Repeats::default(),
            packing,
            settings,
            facts: facts.clone(),
        };
        for worker in 0..count {
            workers.prove(worker);
            workers.reschedule(worker, 0);
        }
        workers
    }

    /// Adds a worker's contributions to each switch in the iteration that it began to the expected sums.
    fn prove(&mut self, worker: u32) {
        let Some(proof) = &mut self.proof else { return };
        let own = &self.workers[worker as usize];
        let switches = self.destinations.count(Heat::Hot) as usize;
        for (switch, part) in own.packed.parts.iter().take(switches).enumerate() {
            proof.begin(usize::from(own.job) * switches + switch, own.iteration(), part.hot());
        }
    }

    /// Notes that the sums of a job may or may not contain what a worker gave up.
    fn note_given_up(&mut self, worker: u32) {
        let own = &self.workers[worker as usize];
        if let Some(proof) = self.proof.as_mut().filter(|_| own.given_up() > 0) {
            let switches = self.destinations.count(Heat::Hot) as usize;
            let first = usize::from(own.job) * switches;
            (first..first + switches).for_each(|sum| proof.give_up(sum));
        }
    }

    /// Ends the iteration of `worker` if nothing is missing; returns whether it was ended.
    fn end_if_all(&mut self, worker: u32, t: Time, host: &mut Host) -> bool {
        let SparseWorkers { workers, packing, settings, .. } = self;
        let own = &mut workers[worker as usize];
        let Some(row) = own.end_if_all(t, packing, settings.failover) else { return false };
        let is_over = own.is_done();
        host.iterations.push(row);
        if !is_over {
            self.prove(worker);
        }
        true
    }

    /// Returns the workers, ready to run.
    fn crew(self) -> Crew {
        let rules = &self.settings.rules;
        let control = if self.facts.standby.is_some() { HEAD + HEADER + format::control::CONTROL_MAX } else { 0 };
        let place = || SparsePlace {
            sparse: rules.sparse.clone(),
            layout: rules.layout.clone(),
            shards: rules.shards.clone(),
            window: self.settings.window(Heat::Hot),
            asynchronous: rules.pulls,
            max_recirculations: rules.max_recirculations,
        };
        let declared = Declaration {
            reacts: true,
            training: Some(self.settings.training.clone()),
            elements: rules.hot.then_some(format::HOT_PAIRS),
            summed_bytes: rules.hot.then_some(format::HOT_FRAME_MAX),
            frame_bytes: Some(self.settings.cold_bytes.max(format::HOT_FRAME_MAX).max(control)),
            sparse: rules.hot.then(place),
            ..Declaration::default()
        };
        let pairs = Contents::new(rules.clone());
        Crew { workers: Box::new(self), declared, payloads: Payloads::Pairs(Box::new(pairs)) }
    }

    /// Sets a worker's timer, at `now` at the earliest.
    fn reschedule(&mut self, worker: u32, now: Time) {
        let wake = self.workers[worker as usize].wake(&self.settings);
        self.roster.calendar.set(worker, wake.max(now));
    }

    /// Sends everything that `worker` may send at `t`.
    fn act(&mut self, worker: u32, t: Time, pool: &mut Pool, host: &mut Host) {
        while host.outgoing.len() < BURST {
            if let Some(due) = self.workers[worker as usize].due(t, &self.settings) {
                self.send(worker, &due, t, pool, host);
                continue;
            }
            // An iteration without anything to send or to wait for ends immediately.
            if !self.end_if_all(worker, t, host) {
                break;
            }
        }
        self.note_given_up(worker);
        self.nudged_in_vain |= self.workers[worker as usize].has_nudged_in_vain();
        self.reschedule(worker, t);
    }

    /// Lets workers whose ends were in vain send them again: another worker proceeds, so results may come.
    fn nudge_again(&mut self, t: Time) {
        for worker in 0..self.workers.len() as u32 {
            let own = &mut self.workers[worker as usize];
            if own.has_nudged_in_vain() {
                own.nudge_again(t, &self.settings);
                self.reschedule(worker, t);
            }
        }
    }

    fn send(&mut self, worker: u32, due: &Due, t: Time, pool: &mut Pool, host: &mut Host) {
        let own = &self.workers[worker as usize];
        let at = self.destinations.place(due.to);
        let part = &own.packed.parts[at];
        let rest = match due.item {
            Item::Push(push) | Item::Pull(push) => part.len(push),
            Item::End => 4,
        };
        let kind = match due.item {
            Item::Push(_) => format::Kind::Push,
            Item::Pull(_) => format::Kind::Pull,
            Item::End => format::Kind::End,
        };
        let seq = self.destinations.seq(due.to, due.number);
        let header = Header { kind, attempt: due.attempt, job: own.job as u8, seq };
        let head = self.template(worker, at);
        let frame = frame(&mut self.templates[head], header, rest, t, pool);
        let bytes = &mut pool.bytes_mut(frame.buffer)[HEAD + HEADER..usize::from(frame.len)];
        match due.item {
            Item::Push(push) => part.write(push, bytes),
            Item::Pull(push) => {
                part.write(push, bytes);
                let size = if due.to.heat == Heat::Hot { format::HOT_PAIR } else { COLD_PAIR };
                bytes.chunks_mut(size).for_each(|pair| pair[size - 4..].fill(0));
            }
            Item::End => bytes.copy_from_slice(&own.iteration().to_be_bytes()),
        }
        let packet = PacketId::new(worker, seq, due.attempt);
        let is_update = matches!(due.item, Item::Push(_));
        self.repeats.requests += u64::from(!is_update && due.attempt > 0);
        let record = is_update.then_some(Sent {
            t_gen: own.t_ready,
            t_due: t,
            t_sent: None,
            cluster: None,
            job: Some(own.job),
            worker,
            seq,
            attempt: due.attempt,
            block: Some(own.iteration()),
            bytes: u32::from(frame.len),
            reward: None,
            heat: Some(due.to.heat),
        });
        let kind = if is_update { Kind::Update } else { Kind::Request };
        let frame = Frame { packet, worker, cluster: own.job, flow: self.ends[at].1, kind, ..frame };
        self.emit(frame, record, pool, host);
    }

    /// Returns the index of the headers of packets from a worker to the destination with this index.
    #[inline]
    fn template(&self, worker: u32, place: usize) -> usize {
        (worker * self.destinations.count(Heat::Cold) + self.ends[place].0) as usize
    }

    fn emit(&self, frame: Frame, record: Option<Sent>, pool: &mut Pool, host: &mut Host) {
        if self.facts.udp_checksum {
            set_udp_checksum(&mut pool.bytes_mut(frame.buffer)[..usize::from(frame.len)]);
        }
        host.outgoing.push(Outgoing { node: self.facts.host_of[frame.worker as usize], frame, record });
    }

    /// Handles an arrival at `node`.
    fn receive(&mut self, node: NodeId, frame: &Frame, pool: &mut Pool, host: &mut Host) {
        let header = Header::parse(pool.payload(frame));
        let is_ours = |header: &Header| u16::from(header.job) < self.settings.rules.sparse.jobs();
        let header = header.filter(|header| matches!(frame.kind, Kind::Result | Kind::Control) && is_ours(header));
        let Some(header) = header else {
            host.foreign += 1;
            return pool.release(frame.buffer);
        };
        self.roster.find_hearers(node, u16::from(header.job), pool.frame(frame));
        // What reaches a host without the workers that it is addressed to is unmatched.
        if self.roster.hearers.is_empty() {
            host.foreign += 1;
            return pool.release(frame.buffer);
        }
        let (mut all, mut again) = (false, false);
        for i in 0..self.roster.hearers.len() {
            let arrival = self.hear(self.roster.hearers[i], &header, frame, pool, host);
            all |= arrival.completes;
            again |= arrival.again;
            self.repeats.add(arrival);
        }
        host.frames_again += u64::from(again);
        self.deliver(node, &header, all, frame, pool, host);
    }

    /// Handles a packet for a worker; returns what it means as a result of a switch.
    fn hear(&mut self, worker: u32, header: &Header, frame: &Frame, pool: &mut Pool, host: &mut Host) -> ResultArrival {
        let (t, mut arrival, mut proceeds) = (frame.t, ResultArrival::default(), false);
        let SparseWorkers { workers, packing, .. } = self;
        let own = &mut workers[worker as usize];
        let acknowledge = match header.kind {
            format::Kind::Ack => {
                host.acks_received += 1;
                proceeds = own.acknowledged(header.seq, t, packing);
                false
            }
            format::Kind::Result if header.is_cold() => own.cold_result(header.seq, t, packing),
            // The switch returns pulls.
            format::Kind::Pull => {
                proceeds = own.acknowledged(header.seq, t, packing);
                false
            }
            format::Kind::Result => match ResultHead::parse(pool.payload(frame)) {
                Some(head) => {
                    arrival = own.hot_result(header, &head, !format::pairs(pool.payload(frame)).is_empty());
                    true
                }
                None => false,
            },
            _ => {
                host.foreign += 1;
                false
            }
        };
        if acknowledge && let Some((to, _)) = self.destinations.find(header.seq) {
            let at = self.destinations.place(to);
            let ack = Header { kind: format::Kind::Ack, attempt: 0, ..*header };
            let head = self.template(worker, at);
            let answer = self::frame(&mut self.templates[head], ack, 0, t, pool);
            let packet = PacketId::new(worker, header.seq, 0);
            let (cluster, flow) = (self.workers[worker as usize].job, self.ends[at].1);
            let answer = Frame { packet, worker, cluster, flow, kind: Kind::Request, ..answer };
            self.emit(answer, None, pool, host);
        }
        self.end_if_all(worker, t, host);
        if self.settings.failover {
            self.workers[worker as usize].waits(t, &self.settings);
        }
        if proceeds && std::mem::take(&mut self.nudged_in_vain) {
            self.nudge_again(t);
        }
        self.reschedule(worker, t);
        arrival
    }

    /// Delivers the first copy of a part of a sum; others must have the same bytes. With `all`, the sum is delivered,
    /// since this part completes it at a worker.
    fn deliver(&mut self, node: NodeId, header: &Header, all: bool, frame: &Frame, pool: &mut Pool, host: &mut Host) {
        let from =
            self.destinations.find(header.seq).filter(|(from, _)| from.heat == Heat::Hot && frame.kind == Kind::Result);
        let head = from.and_then(|(switch, number)| {
            let sum = usize::from(header.job) * self.destinations.count(Heat::Hot) as usize + switch.number as usize;
            Some((ResultHead::parse(pool.payload(frame))?, number, sum)).filter(|_| sum < self.delivered.len())
        });
        let Some((head, number, sum)) = head else { return pool.release(frame.buffer) };
        let known = &mut self.delivered[sum];
        let (accepted, last) = (known.is_new(number, &head), all && known.is_over(number, &head));
        let pairs = || format::hot_pairs(format::pairs(pool.payload(frame)));
        let sum_ok = self.proof.as_mut().map_or(SumOk::Unknown, |proof| proof.judge(sum, &head, pairs(), all));
        // Without an opener nothing was added. A device without a ledger that omits it where there is a sum, or sends a wrong part, is
        // recorded.
        let is_recorded = self.proof.is_some() && (sum_ok == SumOk::No || pairs().next().is_some());
        let opener = head.opener.or(is_recorded.then_some(frame.packet));
        let Some(opener) = opener.filter(|_| accepted || last || sum_ok == SumOk::No) else {
            return pool.release(frame.buffer);
        };
        let row = Received {
            packet: opener,
            job: Some(u16::from(header.job)),
            newest_worker: opener.worker(),
            newest_seq: opener.seq(),
            // A part does not contain how many updates it represents.
            count: 0,
            accepted,
            sum_ok,
            heat: Some(Heat::Hot),
            part: Some(head.part.into()),
            last: Some(last),
            ..roster::received_in_training(frame, node)
        };
        host.deliveries.push(Delivery { row, frame: *frame });
    }
}

/// Creates a frame with a Libra header and space for `rest` more bytes; its source and kind are still open.
fn frame(template: &mut Template, header: Header, rest: usize, t: Time, pool: &mut Pool) -> Frame {
    let (buffer, len) = (pool.take(), HEAD + HEADER + rest);
    let bytes = &mut pool.bytes_mut(buffer)[..len];
    template.emit_to_fit(bytes);
    header.emit(&mut bytes[HEAD..]);
    Frame {
        t,
        packet: PacketId(0),
        buffer,
        worker: 0,
        len: len as u16,
        cluster: 0,
        flow: 0,
        head: HEAD as u8,
        kind: Kind::Control,
    }
}

impl Workers for SparseWorkers {
    fn next_wake(&self) -> Time {
        self.roster.calendar.first().0
    }

    fn waits(&self) -> bool {
        !self.workers.iter().all(Worker::is_done)
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        while let Some((t, worker)) = self.roster.due(until, host) {
            self.act(worker, t, pool, host);
        }
    }

    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            self.receive(node, frame, pool, host);
        }
    }

    fn left(&mut self, packet: PacketId, t: Time) {
        if let Some(worker) = self.workers.get_mut(packet.worker() as usize) {
            worker.left(packet, t);
        }
    }

    fn end(&self) -> WorkersEnd {
        let waiting = self.workers.iter().filter(|worker| !worker.is_done());
        let given_up: u32 = self.workers.iter().map(Worker::given_up).sum();
        let (count, least) = waiting.fold((0, u32::MAX), |(n, least), worker| (n + 1, least.min(worker.iteration())));
        let unfinished = (count > 0).then(|| {
            format!(
                "{count} workers did not finish, the first in iteration {least} of {}: {given_up} packets were sent in vain as often as they \
                 may be, or results did not come (the drops by reason tell which; raise endpoint.timeout where nothing was lost, and restart a \
                 device that served an earlier run)",
                self.settings.rules.sparse.iterations()
            )
        });
        let mut counters = self.proof.as_ref().map(Proof::counters).unwrap_or_default();
        // A device of ours has counters of its own.
        counters.extend(self.repeats.counters().filter(|_| self.facts.external));
        WorkersEnd { unfinished, counters, ..WorkersEnd::default() }
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::config::Document;
    use pktgen_core::seed::Seed;
    use pktgen_core::topology::Population;
    use pktgen_engine::driver::admit::admit;
    use pktgen_wire::wire::frame::{FRAME_MAX, group_ip};
    use pktgen_workload::workload;

    use super::*;
    use crate::format::{HOT_PAIR, RESULT_HEAD};

    #[test]
    fn what_does_not_go_to_the_port_of_workers_is_none_of_theirs() {
        let workers = Population::regular(1, 2);
        let facts = Facts { real_time: true, external: true, ..Facts::of_test(&LibraKind, workers) };
        let known = |from: (u32, u16), to: (u32, u16), kind: format::Kind| {
            let mut frame = [0; HEAD + HEADER];
            Template::new(from, to, frame.len()).emit_to_fit(&mut frame);
            Header { kind, attempt: 0, job: 0, seq: 1 }.emit(&mut frame[HEAD..]);
            identify(&frame, &facts).is_some()
        };
        let server = (server_ip(0), PORT);
        for ip in [worker_ip(1), group_ip(0)] {
            for kind in [format::Kind::Ack, format::Kind::Result] {
                assert!(known(server, (ip, WORKER_PORT), kind));
                assert!(!known(server, (ip, WORKER_PORT + 1), kind) && !known(server, (ip, PORT), kind));
            }
        }
        assert!(known((worker_ip(1), WORKER_PORT), server, format::Kind::Push));
    }

    #[test]
    fn what_reaches_a_host_without_its_workers_is_unmatched() {
        let text = "[workload]\nkind = \"sparse\"\nmodel = \"custom\"\nparameters = 1000\nhot = 50\nhot_share = 0.6\n\
            curve = \"zipf\"\npairs = 5\nworkers = 2\njobs = 2\niterations = 3\n";
        let source = workload::open(&mut Document::parse(text, "test").unwrap(), Seed(1)).unwrap().source;
        // Node n has worker n - 1: the first two are of job 0.
        let facts = Facts { external: true, ..Facts::of_test(&LibraKind, source.population().clone()) };
        let mut workers = LibraKind.open(&mut Section::of("endpoint", &[]), &facts, source).unwrap().workers;
        let (mut pool, mut host) = (Pool::new(FRAME_MAX, 8), Host::default());
        // Returns the unmatched frames, the rows and the acknowledgements of a packet of job 0.
        let mut comes = |node: NodeId, ip: u32, kind: format::Kind, seq: u32| {
            let is_sum = kind == format::Kind::Result && seq.is_multiple_of(2);
            let mut bytes = vec![0; HEAD + HEADER + if is_sum { RESULT_HEAD + HOT_PAIR } else { 0 }];
            Template::new((server_ip(0), PORT), (ip, WORKER_PORT), bytes.len()).emit_to_fit(&mut bytes);
            Header { kind, attempt: 0, job: 0, seq }.emit(&mut bytes[HEAD..]);
            if is_sum {
                let opener = Some(PacketId::new(0, 0, 0));
                ResultHead { part: 0, parts: 1, iteration: 0, opener }.emit(&mut bytes[HEAD..]);
                format::emit_hot(&[(0, 1.0)], &mut bytes[HEAD + HEADER + RESULT_HEAD..]);
            }
            let frame = admit(&bytes, &mut pool, &facts).expect("a packet of the run");
            workers.on_burst(node, &[frame], &mut pool, &mut host);
            let rows = host.deliveries.len();
            host.deliveries.drain(..).for_each(|delivery| pool.release(delivery.frame.buffer));
            host.outgoing.drain(..).for_each(|sent| pool.release(sent.frame.buffer));
            assert_eq!(pool.in_use(), 0);
            (std::mem::take(&mut host.foreign), rows, std::mem::take(&mut host.acks_received))
        };
        for (n, ip) in [(0, group_ip(0)), (1, worker_ip(0))] {
            // At another job's host, and at that of the worker.
            assert_eq!(comes(3, ip, format::Kind::Result, 4 * n), (1, 0, 0), "{n}");
            assert_eq!(comes(1, ip, format::Kind::Result, 4 * n + 2), (0, 1, 0), "{n}");
        }
        // At the host of another worker of the job.
        assert_eq!(comes(2, worker_ip(0), format::Kind::Result, 8), (1, 0, 0));
        assert_eq!(comes(2, worker_ip(0), format::Kind::Result, 1), (1, 0, 0), "the server's answer");
        assert_eq!(comes(2, worker_ip(0), format::Kind::Ack, 0), (1, 0, 0));
        assert_eq!(comes(1, worker_ip(0), format::Kind::Ack, 0), (0, 0, 1));
    }
}
