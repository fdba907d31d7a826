//! SwitchML's switch, the baseline of the Trio paper (§6.1 "SwitchML setup"), which works like its public P4 program.
//!
//! A packet is identified by its source address. Its values go into a slot of the job's pool; when the packets of all
//! workers have arrived, the sum goes to every worker in one multicast, and a worker that sends again although the sum
//! is complete is answered alone. The switch works at line rate: the only time that it takes is that of its pipeline.
//! `slots` has the registers; `docs/switchml.md` lists our choices.

mod slots;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::format::{ELEMENTS, HEADER, Header, POOL_MAX, PORT, PORTS, WORKER_PORT, WORKERS_MAX, frame_bytes, values};
use pktgen_core::config::{KeyTables, Section, settings, spans};
use pktgen_core::record::{Action, Counter, Reason};
use pktgen_core::registry::Named;
use pktgen_core::time::{NEVER, SECOND, Time};
use pktgen_core::topology::NO_PORT;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, group_ip, source_ip, target_port, worker_ip, worker_of};
use pktgen_wire::wire::integers::emit_values;

use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::groups::JobPlace;
use pktgen_engine::target::context::Context;
use pktgen_engine::target::program::{Expected, Limits, Place, Program, ProgramKind};
use slots::{Slots, Verdict};

/// `program = "switchml"`.
pub(crate) struct SwitchMlKind;

impl Named for SwitchMlKind {
    fn name(&self) -> &'static str {
        "switchml"
    }
    fn about(&self) -> &'static str {
        "SwitchML's switch: sums packets of all workers, in two sets of slots"
    }
}

impl ProgramKind for SwitchMlKind {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn format(&self) -> Option<&'static str> {
        Some("switchml")
    }

    fn expected(&self, per_cluster: u32) -> Expected {
        Expected::Sums(per_cluster)
    }

    fn queue(&self) -> &'static str {
        "fifo"
    }

    fn open(&self, section: &mut Section, place: Place) -> Result<Box<dyn Program>> {
        let settings = settings(section, &place)?;
        let jobs = served(section, &place, settings.jobs)?;
        Ok(Box::new(SwitchMl::new(place, settings, &jobs)))
    }
}

settings! {
    /// What it reads from `[target]`, for frames that hold so many values.
    #[derive(Debug, Clone, Copy)]
    struct Settings(sent: u16) {
        /// Slots per set.
        pool: u16 = 512 said "512; of an external device: endpoint.pool" in 1..=POOL_MAX, "the registers of the switch hold no more of two sets";
        /// Values per packet, 64 or 256; must match the workers.
        elements: u16 = sent said "what workers send, else 256" in 64..=256;
        /// Number of jobs served.
        jobs: bool = "one" of [("one", false, "as the public controller has it"), ("several", true, "a pool each")];
        /// Processing time per packet.
        pipeline_latency: Span = "1us" in spans(..=SECOND);
        /// Whether packets that would enter the sum of another block are refused; the public program does not refuse them.
        check: bool = true said "true; of an external device: false";
    }
}

fn settings(section: &mut Section, place: &Place) -> Result<Settings> {
    // The number of values in the largest frame of the run, if it is a SwitchML packet.
    let sent = ELEMENTS.into_iter().find(|n| frame_bytes(*n) == place.frame_bytes);
    let mut settings = Settings::read(section, sent.unwrap_or(256))?;
    let elements = settings.elements;
    if !ELEMENTS.contains(&elements) || sent.is_some_and(|sent| sent != elements) {
        return Err(Error::config(format!(
            "{}: {elements} values; the switch sums 64 or 256 per packet, and it must be what workers send{}",
            section.place("elements"),
            sent.map_or(String::new(), |n| format!(": {n}"))
        )));
    }
    if place.real_time {
        // In real time, the host's processing replaces that of the chip.
        settings.pipeline_latency = Span::from_ps(0);
    }
    Ok(settings)
}

/// Returns the jobs that are configured here: all that have workers, or the first of them ("one session at a time").
fn served(section: &Section, place: &Place, several: bool) -> Result<Vec<u16>> {
    let level = |job: &JobPlace| job.own.is_some() || job.sources.iter().any(|source| source.worker.is_none());
    if let Some(job) = place.jobs.iter().position(level) {
        return Err(Error::config(format!(
            "{}: \"switchml\" on node {} is one of several devices on the way of job {job}; SwitchML's public code has no \
             hierarchy (Trio paper, §6.1), so give topology.engines = 1, or program = \"trio_ml\"",
            section.place("program"),
            place.node
        )));
    }
    let jobs = place.jobs.iter().enumerate().filter(|(_, job)| !job.sources.is_empty());
    let jobs: Vec<u16> = jobs.map(|(job, _)| job as u16).take(if several { usize::MAX } else { 1 }).collect();
    for &job in &jobs {
        let workers = place.jobs[usize::from(job)].sources.len();
        if workers > WORKERS_MAX {
            return Err(Error::config(format!(
                "{}: \"switchml\" sums for 1 to {WORKERS_MAX} workers, one bit each, and job {job} has {workers}; give \
                 workload.workers_per_cluster = {WORKERS_MAX} or less",
                section.place("program")
            )));
        }
    }
    Ok(jobs)
}

/// Identity of a known worker.
#[derive(Debug, Clone)]
struct Member {
    job: u16,
    /// Index in the job.
    source: u8,
    port: u16,
    /// Headers of packets sent to it alone.
    alone: Template,
}

/// One job.
struct Job {
    slots: Slots,
    /// Headers of packets sent to all workers.
    all: Template,
}

/// Destination of a result.
#[derive(Debug, Clone, Copy)]
enum To {
    Everyone,
    Port(u16),
}

#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    results: u64,
    answered: u64,
    dropped: u64,
    stale: u64,
}

struct SwitchMl {
    place: Place,
    settings: Settings,
    /// By number; `None` if it is not configured.
    jobs: Vec<Option<Job>>,
    /// By worker.
    members: Vec<Option<Member>>,
    /// Results in the pipeline, in the order of departure.
    pending: VecDeque<(Frame, To)>,
    now: Time,
    counts: Counts,
}

impl SwitchMl {
    fn new(place: Place, settings: Settings, served: &[u16]) -> Self {
        let bytes = frame_bytes(settings.elements);
        let mut jobs: Vec<Option<Job>> = place.jobs.iter().map(|_| None).collect();
        let mut members = vec![None; place.workers.len()];
        for &job in served {
            let at = &place.jobs[usize::from(job)];
            let slots = Slots::new(settings.pool, settings.elements, at.sources.len() as u8, settings.check);
            let all = Template::new((SERVER_IP, PORT), (group_ip(job), WORKER_PORT), bytes);
            jobs[usize::from(job)] = Some(Job { slots, all });
            for (source, worker) in at.sources.iter().enumerate().filter_map(|(i, s)| Some((i as u8, s.worker?))) {
                let port = at.port_of.get(usize::from(source)).copied().unwrap_or(NO_PORT);
                let alone = Template::new((SERVER_IP, PORT), (worker_ip(worker), WORKER_PORT), bytes);
                if let Some(member) = members.get_mut(worker as usize) {
                    *member = Some(Member { job, source, port, alone });
                }
            }
        }
        SwitchMl { place, settings, jobs, members, pending: VecDeque::new(), now: 0, counts: Counts::default() }
    }

    /// Returns the worker and the header of a packet for a slot, or why it is refused.
    #[inline]
    fn identify(&self, frame: &Frame, pool: &Pool) -> Result<(u32, Header), Reason> {
        // Frames with options or tags before UDP: the P4 parser does not accept these either.
        if frame.kind != Kind::Update || usize::from(frame.head) != HEAD || usize::from(frame.len) < HEAD {
            return Err(Reason::Malformed);
        }
        let ports = PORT..PORT + PORTS;
        if !ports.contains(&target_port(pool.frame(frame))) {
            return Err(Reason::Malformed);
        }
        let header = Header::parse(pool.payload(frame)).ok_or(Reason::Malformed)?;
        let worker = worker_of(source_ip(pool.frame(frame)), self.members.len()).ok_or(Reason::UnknownSource)?;
        if self.jobs.get(usize::from(frame.cluster)).is_none_or(Option::is_none) {
            return Err(Reason::UnknownJob);
        }
        match &self.members[worker as usize] {
            Some(member) if member.job == frame.cluster => {}
            _ => return Err(Reason::UnknownSource),
        }
        if header.elements != self.settings.elements {
            return Err(Reason::WrongCount);
        }
        if header.slot >= self.settings.pool {
            return Err(Reason::TableFull);
        }
        Ok((worker, header))
    }

    #[inline]
    fn take(&mut self, frame: &Frame, context: &mut Context) {
        self.counts.packets += 1;
        let (worker, header) = match self.identify(frame, context.pool) {
            Ok(found) => found,
            Err(reason) => return context.drop(*frame, reason),
        };
        let (Some(member), Some(job)) = (&self.members[worker as usize], &mut self.jobs[usize::from(frame.cluster)])
        else {
            return context.drop(*frame, Reason::UnknownSource);
        };
        let added = values(context.pool.payload(frame), &header);
        match job.slots.offer(member.source, &header, frame, added, context.books) {
            Verdict::Kept => context.pool.release(frame.buffer),
            Verdict::Last => {
                self.counts.results += 1;
                let result = write(job, &job.all, &header, frame, context);
                self.send(Frame { worker, ..result }, To::Everyone);
            }
            Verdict::Answer => {
                self.counts.answered += 1;
                context.books.dropped(frame.t, frame, Reason::Duplicate, None);
                let (result, port) = (write(job, &member.alone, &header, frame, context), member.port);
                self.send(Frame { worker, ..result }, To::Port(port));
            }
            Verdict::Duplicate => {
                self.counts.dropped += 1;
                context.drop(*frame, Reason::Duplicate);
            }
            Verdict::Stale => {
                self.counts.stale += 1;
                context.drop(*frame, Reason::Stale);
            }
        }
    }

    /// Puts a result into the pipeline.
    fn send(&mut self, result: Frame, to: To) {
        self.pending
            .push_back((Frame { t: result.t.saturating_add(self.settings.pipeline_latency.ps()), ..result }, to));
    }

    /// Sends everything that is due by `t`.
    fn leave(&mut self, t: Time, context: &mut Context) {
        while let Some((frame, to)) = self.pending.pop_front_if(|(frame, _)| frame.t <= t) {
            let port = match to {
                To::Port(port) => port,
                To::Everyone => {
                    context.books.passes(frame.t, &Frame { kind: Kind::Update, ..frame }, Action::Departed);
                    let ports = self.place.jobs.get(usize::from(frame.cluster)).map_or(&[][..], |job| &job.ports);
                    let Some((last, others)) = ports.split_last() else {
                        context.drop(frame, Reason::NoRoute);
                        continue;
                    };
                    for &port in others {
                        let copy = context.share(&frame);
                        context.emit_around(port, copy);
                    }
                    *last
                }
            };
            context.emit_around(port, frame);
        }
    }
}

/// Writes the sum over the packet that requested it, like the switch.
fn write(job: &Job, headers: &Template, asked: &Header, frame: &Frame, context: &mut Context) -> Frame {
    let (packet, header, sums) = job.slots.answer(asked);
    let result = Frame { packet, kind: Kind::Result, ..context.unshare(frame) };
    let bytes = &mut context.pool.bytes_mut(result.buffer)[..usize::from(result.len)];
    headers.emit(bytes);
    header.emit(&mut bytes[HEAD..]);
    emit_values(sums, &mut bytes[HEAD + HEADER..]);
    result
}

impl Program for SwitchMl {
    fn on_burst(&mut self, burst: &[Frame], context: &mut Context) {
        for frame in burst {
            // Rows are in chronological order, even if a caller's frames are not; those of a driver have one clock.
            self.now = self.now.max(frame.t);
            let frame = Frame { t: self.now, ..*frame };
            self.leave(frame.t, context);
            self.take(&frame, context);
        }
        self.leave(self.now, context);
    }

    fn next_wake(&self) -> Time {
        self.pending.front().map_or(NEVER, |(frame, _)| frame.t)
    }

    fn on_timer(&mut self, t: Time, context: &mut Context) {
        self.now = self.now.max(t);
        self.leave(t, context);
    }

    fn limits(&self) -> Limits {
        let one = (1, "target.jobs = \"several\" gives each a pool of its own");
        let jobs = (!self.settings.jobs).then_some(one);
        Limits { room: Some((u32::from(self.settings.pool), "target.pool")), jobs, ..Limits::default() }
    }

    fn counters(&self) -> Vec<Counter> {
        let slots = || self.jobs.iter().flatten().map(|job| &job.slots);
        vec![
            Counter::sum("packets", self.counts.packets),
            Counter::sum("results", self.counts.results),
            Counter::sum("duplicates_answered", self.counts.answered),
            Counter::sum("duplicates_dropped", self.counts.dropped),
            Counter::sum("stale", self.counts.stale),
            Counter::sum("overwritten", slots().map(|own| own.overwritten).sum()),
            Counter::largest("slots_max", slots().map(|own| own.in_use_max).max().unwrap_or(0)),
        ]
    }
}
