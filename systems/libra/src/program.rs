//! Libra's switch (LIBRA §3.4 to §3.6): it adds up hot parameters, acknowledges every packet that it accepts, and sends
//! the sums to the workers at the end of an iteration.
//!
//! The source address of a packet identifies its worker, as in SwitchML. `docs/libra.md` defines the protocol. `packets` handles each kind
//! of packet, `job` has the state of a job and of a worker, `registers` the sums, `records` prevents adding packets twice, `results` has
//! the copies that the CPU sends again, and `state` moves everything to a standby switch. Packets that are not for the switch are
//! forwarded to their destination. With standby switches, the device in the middle adds up nothing: it sends workers' packets for the
//! switch to the active one, and packets from there to the workers.

mod again;
mod failing;
mod failover;
mod job;
mod line;
mod packets;
mod ranks;
mod records;
mod registers;
mod resources;
mod results;
mod settings;
mod state;
#[cfg(test)]
mod tests;

use crate::format::{Header, Kind as Wire, Numbers, PORT};
use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::{Action, Counter, Heat, Reason};
use pktgen_core::registry::Named;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::NodeId;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{HEAD, group_of, source_ip, target_ip, target_port, worker_of};
use pktgen_workload::sparse::pipeline::{Passes, Scratch};

use again::Again;
use failing::Fails;
use failover::{Duty, Failover};
use job::{Job, Member};
use line::{Line, To};
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::target::context::Context;
use pktgen_engine::target::program::{Expected, Limits, Place, Program, ProgramKind};
use pktgen_engine::target::sparse::SparsePlace;
use registers::Pairs;
use resources::PUBLISHED_STAGES;
use results::Timers;
use settings::{Settings, Written};

/// `program = "libra"`.
pub(crate) struct LibraKind;

impl Named for LibraKind {
    fn name(&self) -> &'static str {
        "libra"
    }
    fn about(&self) -> &'static str {
        "sums hot parameters of sparse training in registers, forwards cold ones to the parameter server"
    }
}

impl ProgramKind for LibraKind {
    fn keys(&self) -> KeyTables {
        &[Written::KEYS, Fails::KEYS]
    }

    fn format(&self) -> Option<&'static str> {
        Some("libra")
    }

    fn expected(&self, _per_cluster: u32) -> Expected {
        Expected::SumsByKey
    }

    fn queue(&self) -> &'static str {
        "fifo"
    }

    fn open(&self, section: &mut Section, place: Place) -> Result<Box<dyn Program>> {
        Ok(Box::new(Libra::open(section, place)?))
    }
}

/// The role of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It adds up.
    Sums,
    /// It is between workers and the devices that add up.
    Steers,
    /// It is elsewhere.
    Forwards,
}

/// Outcome of a frame.
enum Way {
    /// It is forwarded to its destination.
    On,
    /// It is dropped.
    Drop(Reason),
    /// It is for the switch.
    Take(u32, Header),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    packets: u64,
    added: u64,
    pairs: u64,
    acks: u64,
    duplicates: u64,
    copies: u64,
    /// Packets that were added more than once, and packets that were never added although they were acknowledged.
    repeated: u64,
    mistaken: u64,
    beyond: u64,
    too_many_passes: u64,
    recirculations: u64,
    conflicts: u64,
    passes_max: u64,
    ends: u64,
    sums: u64,
    results: u64,
    resent: u64,
    given_up: u64,
    missed: u64,
    confirmed: u64,
    pulls: u64,
    no_room: u64,
}

impl Counts {
    /// Records that a packet with `pairs` pairs was added.
    #[inline]
    fn add(&mut self, passes: Passes, pairs: usize) {
        self.added += 1;
        self.pairs += pairs as u64;
        self.recirculations += u64::from(passes.recirculations());
        self.conflicts += u64::from(passes.extra);
        self.passes_max = self.passes_max.max(u64::from(passes.max));
    }
}

struct Libra {
    place: Place,
    settings: Settings,
    known: SparsePlace,
    role: Role,
    /// The device that adds up now.
    active: NodeId,
    /// The rack that it adds up for, and the numbering of packets to and from it.
    rack: u32,
    numbers: Numbers,
    hot: u32,
    members: Vec<Member>,
    jobs: Vec<Job>,
    line: Line,
    again: Again,
    timers: Timers,
    scratch: Scratch,
    pairs: Pairs,
    failover: Failover,
    now: Time,
    counts: Counts,
}

impl Libra {
    fn open(section: &mut Section, place: Place) -> Result<Self> {
        let Some(known) = place.sparse.clone() else {
            return Err(Error::config(format!(
                "{}: \"libra\" sums what workers of sparse training push; give endpoint.workers = \"libra\"",
                section.place("program")
            )));
        };
        let settings = Settings::read(section, &place, &known)?;
        let several = place.aggregators.len() > 1;
        let role = match place.aggregators.contains(&place.node) {
            true => Role::Sums,
            false if several => Role::Steers,
            false => Role::Forwards,
        };
        let active = place.aggregators.first().copied().unwrap_or(place.node);
        let first = active == place.node;
        let members =
            (0..known.sparse.workers()).map(|worker| Member::new(worker, &place, &known, &settings)).collect();
        // Only devices that add up need registers.
        let served = if role == Role::Sums { known.sparse.jobs() } else { 0 };
        let jobs = Job::all(served, &place, &known, &settings);
        let again = Again::new(settings.recirculation_rate);
        Ok(Libra {
            hot: known.sparse.hot().len(),
            rack: place.rack(),
            numbers: Numbers::new(known.shards.servers()),
            place,
            settings,
            known,
            role,
            active,
            members,
            jobs,
            line: Line::default(),
            again,
            timers: Timers::default(),
            scratch: Scratch::default(),
            pairs: Pairs::default(),
            failover: Failover::new(first),
            now: 0,
            counts: Counts::default(),
        })
    }

    /// Sets the device that adds up, as requested by the control plane. Devices that cannot are ignored.
    fn activate(&mut self, node: NodeId) {
        if self.place.aggregators.contains(&node) {
            self.active = node;
        }
    }

    /// Returns the sequence number of the packet with this number to or from this switch.
    #[inline]
    fn seq(&self, number: u32) -> u32 {
        self.numbers.seq(self.rack, number, Heat::Hot)
    }

    fn route(&self, node: NodeId) -> u16 {
        self.place.routes.port(node)
    }

    /// Determines the outcome of a frame.
    #[inline]
    fn identify(&self, frame: &Frame, pool: &Pool) -> Way {
        if matches!(frame.kind, Kind::Plain | Kind::Result) {
            return Way::On;
        }
        let update = frame.kind == Kind::Update;
        let or_on = |reason| if update { Way::Drop(reason) } else { Way::On };
        if usize::from(frame.head) != HEAD || usize::from(frame.len) < HEAD {
            return or_on(Reason::Malformed);
        }
        // Only packets to its port are for the switch (docs/libra.md, "A device of your own").
        if target_port(pool.frame(frame)) != PORT {
            return Way::On;
        }
        let Some(header) = Header::parse(pool.payload(frame)) else { return or_on(Reason::Malformed) };
        let (rack, number) = self.numbers.split(header.seq);
        if header.is_cold() || rack != self.rack {
            return Way::On;
        }
        match header.kind {
            Wire::Result | Wire::Control => return or_on(Reason::Malformed),
            kind if update != (kind == Wire::Push) => return or_on(Reason::Malformed),
            _ => {}
        }
        let Some(worker) = worker_of(source_ip(pool.frame(frame)), self.members.len()) else {
            return or_on(Reason::UnknownSource);
        };
        if u16::from(header.job) >= self.known.sparse.jobs() {
            return Way::Drop(Reason::UnknownJob);
        }
        match self.members[worker as usize].job == u16::from(header.job) {
            // From here on it is handled as by a single switch.
            true => Way::Take(worker, Header { seq: number << 1, ..header }),
            false => Way::Drop(Reason::UnknownSource),
        }
    }

    #[inline]
    fn take(&mut self, frame: &Frame, context: &mut Context) {
        if self.is_control(frame, context) {
            return self.control(frame, context);
        }
        if self.role == Role::Steers {
            return self.steer(frame, context);
        }
        let (worker, header) = match self.identify(frame, context.pool) {
            Way::Take(worker, header) if self.role == Role::Sums => (worker, header),
            Way::Drop(reason) if self.role == Role::Sums => return context.drop(*frame, reason),
            _ => return self.pass_on(frame, context),
        };
        if self.failover.duty != Duty::Active {
            self.failover.inactive += 1;
            return context.drop(*frame, Reason::Inactive);
        }
        match header.kind {
            Wire::Push => self.push(worker, &header, frame, context),
            Wire::End => self.end(worker, &header, frame, context),
            Wire::Pull => self.pull(worker, &header, frame, context),
            _ => self.acknowledged(worker, &header, frame, context),
        }
    }

    /// Forwards a frame that is not for this device to its destination; results of a rack's switch for all workers of a
    /// job go to every port with such a worker behind it.
    #[inline]
    fn pass_on(&self, frame: &Frame, context: &mut Context) {
        let racks = self.place.racks.as_ref().filter(|_| frame.goes_down());
        let ports = racks.and_then(|racks| {
            let bytes = context.pool.frame(frame);
            let (job, header) = (group_of(target_ip(bytes))?, Header::parse(bytes.get(HEAD..)?)?);
            racks.down.get(self.numbers.split(header.seq).0 as usize)?.get(job)
        });
        match ports {
            Some(ports) => multicast(ports, *frame, context),
            None => context.emit(self.route(frame.flow), *frame),
        }
    }

    /// Forwards frames between workers and several switches: hot packets go to the active one, and its packets to workers.
    fn steer(&self, frame: &Frame, context: &mut Context) {
        let bytes = context.pool.frame(frame);
        let hot = usize::from(frame.head) == HEAD
            && frame.kind != Kind::Plain
            && bytes.get(HEAD..).and_then(Header::parse).is_some_and(|h| !h.is_cold() && h.kind != Wire::Control);
        let target = target_ip(bytes);
        if hot && worker_of(source_ip(bytes), self.members.len()).is_some() {
            return context.emit(self.route(self.active), *frame);
        }
        match (group_of(target), worker_of(target, self.members.len())) {
            (Some(job), _) if hot => {
                let ports = self.place.jobs.get(usize::from(job)).map_or(&[][..], |job| &job.ports);
                multicast(ports, *frame, context);
            }
            (_, Some(worker)) if hot => context.emit(self.members[worker as usize].port, *frame),
            _ => context.emit(self.route(frame.flow), *frame),
        }
    }

    /// Lets a frame leave the pipeline after its last pass, which begins at `frame.t`.
    #[inline]
    fn send(&mut self, frame: Frame, to: To) {
        let t = frame.t.saturating_add(self.settings.latency);
        let t = t.saturating_add(self.settings.failing.delay(self.now));
        self.line.push(Frame { t, ..frame }, to);
    }

    /// Processes everything that is due by `t` in chronological order.
    #[inline]
    fn advance(&mut self, t: Time, context: &mut Context) {
        if self.settings.failing.is_gone(t) && self.role == Role::Sums && self.failover.duty != Duty::Dead {
            self.now = self.now.max(t);
            self.die(context);
        }
        loop {
            let (leaves, due) = (self.line.next(), self.next_timer());
            if leaves.min(due) > t {
                break;
            }
            // Rows are in chronological order, even if it is called late.
            self.now = self.now.max(leaves.min(due));
            if leaves <= due {
                if let Some((frame, to)) = self.line.pop(leaves) {
                    self.leave(frame, to, context);
                }
            } else if let Some((job, number)) = self.timers.pop(due) {
                self.resend(job, number, context);
            }
        }
        self.now = self.now.max(t);
    }

    /// Returns when a result is to be sent again; only the switch that adds up does this.
    #[inline]
    fn next_timer(&self) -> Time {
        if self.failover.duty == Duty::Active { self.timers.next() } else { NEVER }
    }

    #[inline]
    fn leave(&mut self, frame: Frame, to: To, context: &mut Context) {
        let frame = Frame { t: self.now, ..frame };
        match to {
            To::Port(port) => context.emit(port, frame),
            To::Everyone { first } => {
                if first && frame.kind == Kind::Result {
                    context.books.passes(frame.t, &Frame { kind: Kind::Update, ..frame }, Action::Departed);
                }
                let ports = self.jobs.get(usize::from(frame.cluster)).map_or(&[][..], |job| &job.ports);
                multicast(ports, frame, context);
            }
        }
    }
}

/// Sends one frame to several ports.
fn multicast(ports: &[u16], frame: Frame, context: &mut Context) {
    let Some((last, others)) = ports.split_last() else { return context.drop(frame, Reason::NoRoute) };
    for &port in others {
        let copy = context.share(&frame);
        context.emit(port, copy);
    }
    context.emit(*last, frame);
}

impl Program for Libra {
    fn on_burst(&mut self, burst: &[Frame], context: &mut Context) {
        for frame in burst {
            self.advance(frame.t.max(self.now), context);
            let frame = Frame { t: self.now, ..*frame };
            if !self.fails(&frame, context) {
                self.take(&frame, context);
            }
        }
        self.advance(self.now, context);
    }

    fn next_wake(&self) -> Time {
        self.line.next().min(self.next_timer())
    }

    fn on_timer(&mut self, t: Time, context: &mut Context) {
        self.advance(t.max(self.now), context);
    }

    fn limits(&self) -> Limits {
        let room = Some((self.settings.records, "target.records"));
        Limits { room, adder: Some(self.settings.adder.clone()), ..Limits::default() }
    }

    fn counters(&self) -> Vec<Counter> {
        let c = &self.counts;
        let (sums, memory) = (self.role == Role::Sums, &self.settings.resources);
        let of = |bytes: u64| if sums { bytes } else { 0 };
        vec![
            Counter::sum("packets", c.packets),
            Counter::sum("added", c.added),
            Counter::sum("pairs", c.pairs),
            Counter::sum("acks", c.acks),
            Counter::sum("duplicates", c.duplicates),
            Counter::sum("copies", c.copies),
            Counter::sum("repeated", c.repeated),
            Counter::sum("mistaken", c.mistaken),
            Counter::sum("beyond_window", c.beyond),
            Counter::sum("too_many_passes", c.too_many_passes),
            Counter::sum("recirculations", c.recirculations),
            Counter::sum("recirculated_bytes", self.again.bytes),
            Counter::largest("recirculation_wait_max_ns", (self.again.wait_max / 1000) as u64),
            Counter::sum("register_conflicts", c.conflicts),
            Counter::largest("passes_max", c.passes_max),
            Counter::sum("ends", c.ends),
            Counter::sum("sums", c.sums),
            Counter::sum("results", c.results),
            Counter::sum("results_resent", c.resent),
            Counter::sum("results_given_up", c.given_up),
            Counter::sum("results_missed", c.missed),
            Counter::sum("results_acknowledged", c.confirmed),
            Counter::sum("pulls", c.pulls),
            Counter::sum("no_room", c.no_room),
            Counter::sum("inactive", self.failover.inactive),
            Counter::sum("failing_lost", self.failover.lost),
            Counter::sum("sums_lost", self.failover.sums_lost),
            Counter::sum("memory_bytes", of(memory.total())),
            Counter::sum("memory_registers_bytes", of(memory.registers)),
            Counter::sum("memory_tables_bytes", of(memory.tables)),
            Counter::largest("memory_share_ppm", of(memory.share_ppm())),
            Counter::sum("memory_filters_bytes", of(memory.filters)),
            Counter::sum("memory_records_bytes", of(memory.records)),
            Counter::sum("memory_positions_bytes", of(memory.positions)),
            Counter::sum("memory_all_bytes", of(memory.all())),
            Counter::largest("memory_all_share_ppm", of(memory.all_share_ppm())),
            Counter::largest("stages_estimated", of(memory.stages.into())),
            Counter::largest("stages_published", of(PUBLISHED_STAGES.into())),
        ]
    }
}
