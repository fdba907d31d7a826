//! A simple router over bytes, correct and with planted defects: every clause passes with the correct one and detects its defects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::seed::Seed;
use pktgen_core::time::{MS, NEVER, SECOND, Time, US};
use pktgen_core::topology::Population;
use pktgen_wire::wire::frame::{Datagram, HEAD, SERVER_IP, Template, group_ip, readdress, set_ip_checksum, worker_ip};

use super::SUITE;
use crate::format::{HEADER, Header, PORT, STRAGGLER};
use pktgen_engine::clause::{
    Clause, ClauseProbe, EachFrame, ProbeBench, ProbeGround, ProbeMemory, ProbeStop, ProbeWitness,
};

mod others;
mod planted;

use planted::{Defect, PLANTED};

const WORKERS: usize = 4;
const JOBS: u16 = 2;
const VALUES: usize = 60;
/// Maximum number of blocks under way.
const ROOM: usize = 40;
const TIMEOUT: Time = 10 * MS;
/// When timers with a period visit the blocks first.
const FIRST_VISIT: Time = MS / 10;

/// A sum in progress, or one whose result has left.
#[derive(Debug, Clone, Default)]
struct Record {
    generation: u16,
    bits: u32,
    count: u8,
    last: bool,
    sums: Vec<i32>,
    opened: Time,
    touched: Time,
    is_done: bool,
    /// A contribution opened it whose generation had its result.
    is_late: bool,
    /// A result leaves once more, as if it aged.
    ages_again: bool,
}

impl Record {
    fn add(&mut self, values: &[i32], defect: Defect) {
        for (sum, value) in self.sums.iter_mut().zip(values) {
            *sum = match defect {
                Defect::LastWins => *value,
                Defect::Saturates => sum.saturating_add(*value),
                Defect::OrderMatters if self.bits == 0b1000 => sum.wrapping_add(*value).wrapping_add(1),
                _ => sum.wrapping_add(*value),
            };
        }
    }
}

/// A router over bytes, with a port for every worker.
struct Naive {
    defect: Defect,
    /// Number of workers whose contributions make a block whole.
    workers: usize,
    timers: bool,
    /// Results go to each worker's address instead of the job's group.
    unicast: bool,
    /// All workers are on one cable, port 0, on which silence is a pause.
    on_cable: bool,
    records: BTreeMap<(u8, u32), Record>,
    out: Vec<(Time, u16, Vec<u8>)>,
    now: Time,
    /// When a block timed out last, and its sums.
    aged: (Time, Vec<i32>),
    /// A record that a later generation replaces is kept until it times out.
    keeps_old: bool,
    /// Its partial result leaves at once, as ours does (docs/trio.md).
    evicts: bool,
    /// Contributions to a generation that had its result are dropped, as with our `tombstones`.
    drops_late: bool,
    /// The last of them with `Defect::LateIntoNext`.
    late: Vec<i32>,
    /// Number of blocks that are not under way, but count as such.
    leaked: usize,
    /// Replaced records, and when they time out.
    old: Vec<(Time, (u8, u32), Record)>,
    /// Notifies jobs whose blocks timed out, with the next packet (docs/trio.md).
    notifies: bool,
    to_notify: Vec<u8>,
    /// Period of the timers; `None`: a block ages one and a half timeouts after its last packet.
    period: Option<Time>,
}

/// A parsed contribution.
struct Read {
    job: u8,
    block: u32,
    source: u8,
    sources: u8,
    generation: u16,
    last: bool,
    values: Vec<i32>,
}

impl Naive {
    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    fn read(&self, frame: &[u8]) -> Option<Read> {
        let mut frame = frame.to_vec();
        if self.is(Defect::AnyProtocol) {
            (frame[12], frame[13], frame[14], frame[23]) = (8, 0, 0x45, 17);
        }
        let datagram = Datagram::parse(&frame)?;
        if datagram.dst_port != PORT && !self.is(Defect::AnyPort) {
            return None;
        }
        let mut p = if self.is(Defect::IgnoresLengths) { frame[HEAD..].to_vec() } else { datagram.payload.to_vec() };
        if p.len() < HEADER {
            return None;
        }
        let size = usize::from(u16::from_be_bytes([p[10], p[11]]) & 0xfff);
        if self.is(Defect::ReadsTruncated) || self.is(Defect::ReadsLonger) && p.len() > HEADER + 4 * size {
            p.resize(HEADER + 4 * size, 0);
        }
        if p.len() != HEADER + 4 * size || self.is(Defect::OneSize) && size != VALUES {
            return None;
        }
        let mut values: Vec<_> = p[HEADER..].chunks(4).map(|b| i32::from_be_bytes([b[0], b[1], b[2], b[3]])).collect();
        if self.is(Defect::HeadOnly) {
            values.iter_mut().skip(34).for_each(|value| *value = 0);
        }
        let block = u32::from_be_bytes([p[1], p[2], p[3], p[4]]);
        let read = Read {
            job: if self.is(Defect::JobsShare) { 0 } else { p[0] },
            block: match self.defect {
                Defect::Blocks16 => block & 0xffff,
                Defect::BlocksTop => block & !(1 << 31),
                _ => block,
            },
            source: if self.is(Defect::AnySource) { p[6] % WORKERS as u8 } else { p[6] },
            sources: p[7],
            generation: u16::from_be_bytes([p[8], p[9]]),
            last: p[5] & 8 != 0,
            values,
        };
        let is_known = read.job < JOBS as u8 || self.is(Defect::AnyJob);
        let is_source = usize::from(read.source) < WORKERS;
        let counts = read.sources == 1 || self.is(Defect::TakesCount);
        (is_known && is_source && counts).then_some(read)
    }

    /// Opens a block for a source that does not belong to the job.
    fn open_for_stranger(&mut self, frame: &[u8]) {
        let Some(datagram) = Datagram::parse(frame).filter(|it| it.dst_port == PORT && it.payload.len() >= HEADER)
        else {
            return;
        };
        let (p, now) = (datagram.payload, self.now);
        let key = (p[0], u32::from_be_bytes([p[1], p[2], p[3], p[4]]));
        if usize::from(p[6]) >= WORKERS && self.records.get(&key).is_none_or(|record| record.is_done) {
            let generation = u16::from_be_bytes([p[8], p[9]]);
            let sums = vec![0; p.len() / 4 - 3];
            self.records.insert(key, Record { generation, opened: now, touched: now, sums, ..Record::default() });
        }
    }

    fn take(&mut self, frame: &[u8]) {
        if self.is(Defect::OpensForStrangers) {
            self.open_for_stranger(frame);
        }
        for job in std::mem::take(&mut self.to_notify) {
            self.notify(job);
        }
        let Some(it) = self.read(frame) else { return };
        let (key, now, defect) = ((it.job, it.block), self.now, self.defect);
        let under_way = self.leaked + self.records.values().filter(|record| !record.is_done).count();
        let room = if defect == Defect::FewBlocks { 16 } else { ROOM };
        if under_way >= room && self.records.get(&key).is_none_or(|one| one.is_done) {
            return;
        }
        let record = self.records.entry(key).or_insert_with(|| Record { is_done: true, ..Record::default() });
        let newer = match defect {
            Defect::ComparesUnsigned => it.generation > record.generation,
            _ => (it.generation.wrapping_sub(record.generation) as i16) > 0,
        };
        if !record.is_done && it.generation != record.generation && !newer && defect != Defect::TakesOlder {
            if !matches!(defect, Defect::StaleTouchNot | Defect::AgesFromOpening) {
                record.touched = now;
            }
            return;
        }
        let is_late = record.is_done && record.bits != 0 && it.generation == record.generation;
        if is_late && (self.drops_late || defect == Defect::LateIntoNext) {
            self.late = it.values;
            return;
        }
        let joins = defect == Defect::KeepsNewer || defect == Defect::LateJoined && record.is_late;
        let replaces = newer && !joins;
        if (self.keeps_old || self.evicts) && self.timers && replaces && !record.is_done {
            let ages = if self.evicts { now } else { record.touched + TIMEOUT * 3 / 2 };
            self.old.push((ages, key, record.clone()));
        }
        if record.is_done || replaces {
            let old = match defect {
                Defect::KeepsSums => std::mem::take(&mut record.sums),
                Defect::LateIntoNext => std::mem::take(&mut self.late),
                _ => Vec::new(),
            };
            let (generation, sums) = (it.generation, vec![0; it.values.len()]);
            *record = Record { generation, is_late, opened: now, sums, ..Record::default() };
            record.sums.iter_mut().zip(old).for_each(|(sum, old)| *sum = old);
        }
        let bit = 1 << it.source;
        record.touched = match defect {
            Defect::AgesFromOpening => record.opened,
            Defect::CopiesTouchNot if record.bits & bit != 0 => record.touched,
            _ => now,
        };
        if record.bits & bit != 0 && defect != Defect::CountsAgain {
            return;
        }
        record.add(&it.values, defect);
        record.bits |= bit;
        record.count = record.count.wrapping_add(1);
        record.last |= it.last;
        let early = u8::from(defect == Defect::CompletesEarly);
        if record.count == self.workers as u8 - early {
            (record.is_done, record.ages_again) = (true, defect == Defect::AgesWhole);
            let record = record.clone();
            self.answer(now, key, &record, false);
            self.leaked += usize::from(defect == Defect::LeaksWhole);
        }
    }

    /// Returns when a record times out.
    fn ages(&self, (_, block): (u8, u32), record: &Record) -> Time {
        match self.defect {
            _ if (record.is_done || !self.timers) && !record.ages_again => NEVER,
            Defect::AgesEvenBlocks if block % 2 == 1 => NEVER,
            Defect::NeverAges => NEVER,
            Defect::AgesEarly => record.touched + TIMEOUT / 2,
            Defect::AgesLate => record.touched + 4 * TIMEOUT,
            _ => match self.period {
                // The second visit after the last packet (§5, Figure 14).
                Some(period) => ((record.touched - FIRST_VISIT).div_euclid(period) + 2) * period + FIRST_VISIT,
                None => record.touched + TIMEOUT * 3 / 2,
            },
        }
    }

    /// Lets the first record time out that does so by this time.
    fn age(&mut self, until: Time) -> bool {
        let first = self.records.iter().map(|(key, record)| (self.ages(*key, record), *key)).min();
        let before = first.map_or(until, |(t, _)| t.min(until));
        if let Some(at) = self.old.iter().position(|(t, ..)| *t <= before) {
            let (t, key, record) = self.old.remove(at);
            self.now = self.now.max(t);
            self.answer(t, key, &record, true);
            return true;
        }
        let Some((t, key)) = first.filter(|(t, _)| *t <= until && *t != NEVER) else { return false };
        self.now = self.now.max(t);
        let (stays, is_kept) = (self.is(Defect::AgedStays) || self.is(Defect::KeepsAged), self.is(Defect::KeepsAged));
        let Some(record) = self.records.get_mut(&key) else { return false };
        let mut left = record.clone();
        // A record that stays is in progress for ever.
        record.ages_again = self.defect == Defect::AgedTwice && !record.is_done;
        if record.ages_again {
            record.touched = t - TIMEOUT;
        }
        (record.is_done, record.touched) = (!stays, if stays { NEVER / 2 } else { record.touched });
        if stays && !is_kept {
            record.generation = record.generation.wrapping_add(1);
        }
        if self.is(Defect::AgedMixesSums) {
            let (last, sums) = std::mem::replace(&mut self.aged, (t, left.sums.clone()));
            if t - last < TIMEOUT && sums.len() == left.sums.len() {
                left.sums = sums;
            }
        }
        self.answer(t, key, &left, true);
        self.leaked += usize::from(self.is(Defect::LeaksAged));
        if self.notifies {
            self.to_notify.push(key.0);
        }
        true
    }

    /// Notifies the workers of a job of a straggler.
    fn notify(&mut self, job: u8) {
        let len = HEAD + HEADER;
        let mut bytes = vec![0; len];
        Template::new((SERVER_IP, PORT), (group_ip(job.into()), PORT), len).emit(&mut bytes);
        Header { job, age_op: STRAGGLER, source: 1, ..Header::default() }.emit(&mut bytes[HEAD..]);
        set_ip_checksum(&mut bytes);
        self.distribute(self.now, job, false, bytes);
    }

    fn answer(&mut self, t: Time, (job, block): (u8, u32), record: &Record, aged: bool) {
        let len = HEAD + HEADER + 4 * record.sums.len();
        let mut bytes = vec![0; len];
        let from = if self.is(Defect::WorkersSource) { SERVER_IP + 1 } else { SERVER_IP };
        let to = if self.is(Defect::WrongPort) { PORT + 1 } else { PORT };
        Template::new((from, PORT), (group_ip(job.into()), to), len).emit(&mut bytes);
        let p = &mut bytes[HEAD..];
        p[0] = job;
        p[1..5].copy_from_slice(&if self.defect == Defect::ForgetsBlock { block ^ 1 } else { block }.to_be_bytes());
        let mark = aged && self.defect != Defect::AgedUnmarked;
        let degraded = aged && self.defect != Defect::AgedWhole || self.defect == Defect::AlwaysDegraded;
        let last = record.last && self.defect != Defect::NeverFinal && !(aged && self.defect == Defect::AgedLosesFinal);
        p[5] = u8::from(mark) << 4 | u8::from(last) << 3 | u8::from(degraded) << 2;
        p[6] = if self.is(Defect::NoSource) { u8::MAX } else { 0 };
        p[7] = match self.defect {
            Defect::CountsZero => 0,
            Defect::AgedWrongCount if aged => WORKERS as u8,
            _ => record.count,
        };
        let generation = if self.defect == Defect::ForgetsGeneration { 0 } else { record.generation };
        p[8..10].copy_from_slice(&generation.to_be_bytes());
        p[10..12].copy_from_slice(&(record.sums.len() as u16).to_be_bytes());
        for (at, sum) in p[HEADER..].chunks_mut(4).zip(&record.sums) {
            at.copy_from_slice(&sum.to_be_bytes());
        }
        if self.is(Defect::SwapsBytes) {
            bytes.swap(HEAD + HEADER, HEAD + HEADER + 1);
        }
        match self.defect {
            Defect::WrongLength => bytes[39] = bytes[39].wrapping_sub(1),
            Defect::NoHopsLeft => bytes[22] = 0,
            _ => {}
        }
        set_ip_checksum(&mut bytes);
        self.distribute(t, job, aged, bytes);
    }

    fn distribute(&mut self, t: Time, job: u8, aged: bool, bytes: Vec<u8>) {
        let first = usize::from(job) * WORKERS;
        let beside = self.records.values().any(|record| !record.is_done);
        for worker in first..first + WORKERS {
            // One copy to the group is on the cable of all.
            let is_there = self.on_cable && !self.unicast && worker > first;
            let skips = self.is(Defect::SkipsLastWorker) && worker == first + WORKERS - 1;
            if is_there || skips || self.is(Defect::AgedToOne) && aged && worker > first {
                continue;
            }
            let mut bytes = bytes.clone();
            if self.unicast {
                readdress(&mut bytes, worker_ip(worker as u32));
            }
            if self.is(Defect::WrongStation) || aged && self.is(Defect::AgedWrongStation) {
                bytes[2] ^= 1;
            }
            let twice = self.is(Defect::SendsTwice) || self.is(Defect::TwiceBesideOthers) && beside;
            if twice && worker == first {
                self.out.push((t, worker as u16, bytes.clone()));
            }
            self.out.push((t, worker as u16, bytes));
        }
        if self.is(Defect::OtherJobToo) && job < JOBS as u8 {
            let (other, mut bytes) = (1 - job, bytes);
            readdress(&mut bytes, group_ip(other.into()));
            bytes[HEAD] = other;
            self.out.push((t, u16::from(other) * WORKERS as u16, bytes));
        }
    }

    fn leave(&mut self, each: EachFrame) {
        let port_of = |port: u16| if self.on_cable { 0 } else { port };
        self.out.drain(..).for_each(|(t, port, bytes)| each(t, port_of(port), &bytes));
    }
}

impl ProbeWitness for Naive {}

impl ProbeBench for Naive {
    fn now(&mut self) -> Time {
        self.now
    }
    fn frame_in(&mut self, _port: u16, bytes: &[u8]) -> Result<()> {
        self.now += US;
        self.take(bytes);
        Ok(())
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        let until = self.now + span;
        while self.age(until) {}
        self.now = until;
        self.leave(each);
        Ok(())
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        while !self.on_cable && self.age(NEVER / 4) {}
        self.leave(each);
        Ok(())
    }
}

/// Returns the ground of a router with a port for every worker, or one cable for all.
fn ground(timers: bool, on_cable: bool) -> ProbeGround {
    ground_with(VALUES, timers, on_cable)
}

/// Does the same for blocks of so many gradients.
fn ground_with(elements: usize, timers: bool, on_cable: bool) -> ProbeGround {
    let text = format!(
        "[target]\ntimeout = \"10ms\"\nmitigation = {timers}\nblock_cnt_max = {ROOM}\n\
         [workload]\nelements = {elements}\n[endpoint]\nwindow = 32\n"
    );
    let workers = Population::regular(JOBS, WORKERS as u32);
    ProbeGround {
        port_of: (0..workers.len() as u16).map(|port| if on_cable { 0 } else { port }).collect(),
        workers: Arc::new(workers),
        server: None,
        late: 100 * MS,
        output: None,
        links: Vec::new(),
        patience: 0,
        frame_bytes: HEAD + HEADER + 4 * VALUES,
        hot: None,
        keys: Document::parse(&text, "test").unwrap(),
    }
}

/// Runs all repeats of a clause on one router that was used by clauses before; returns whether it holds.
fn holds(clause: &Clause, router: &mut Naive, memory: &mut ProbeMemory, seed: u64) -> bool {
    holds_on(&ground(router.timers, router.on_cable), clause, router, memory, seed)
}

/// Does the same for this ground.
fn holds_on(ground: &ProbeGround, clause: &Clause, router: &mut Naive, memory: &mut ProbeMemory, seed: u64) -> bool {
    assert_eq!((clause.exempt)(ground), None, "{}", clause.id);
    (0..clause.repeats).all(|repeat| {
        let mut probe = ClauseProbe::new(ground, memory, router, Seed(seed), (clause.id, repeat, 0)).unwrap();
        match (clause.probe)(&mut probe) {
            Ok(()) => true,
            Err(ProbeStop::Breach(_)) => false,
            Err(other) => panic!("{}: {other:?}", clause.id),
        }
    })
}

fn naive(defect: Defect) -> Naive {
    Naive {
        defect,
        workers: WORKERS,
        timers: true,
        unicast: false,
        on_cable: false,
        records: BTreeMap::new(),
        out: Vec::new(),
        now: 0,
        aged: (-TIMEOUT, Vec::new()),
        keeps_old: false,
        evicts: false,
        drops_late: false,
        late: Vec::new(),
        leaked: 0,
        old: Vec::new(),
        notifies: false,
        to_notify: Vec::new(),
        period: None,
    }
}

/// Returns the clauses that apply to a device with or without timers.
fn clauses(timers: bool) -> impl Iterator<Item = &'static Clause> {
    let ground = ground(timers, false);
    SUITE.numbered().map(|(_, clause)| clause).filter(move |clause| (clause.exempt)(&ground).is_none())
}

#[test]
fn a_whole_router_passes_every_clause_although_it_was_used_before() {
    for (seed, (on_cable, unicast)) in (0..20).flat_map(|seed| FORMS.map(|form| (seed, form))) {
        for timers in [true, false] {
            let mut router = Naive { timers, on_cable, unicast, ..naive(Defect::None) };
            let mut memory = ProbeMemory::new();
            for clause in clauses(timers) {
                let what = (clause.id, timers, on_cable, unicast);
                assert!(holds(clause, &mut router, &mut memory, seed), "{what:?}");
            }
        }
    }
}

/// A port or a cable for the workers; results to the group or to each.
const FORMS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn every_defect_is_found_by_the_clauses_that_name_it() {
    let mut misses = Vec::new();
    for (defect, ids) in PLANTED {
        for id in *ids {
            let Some((_, clause)) = SUITE.numbered().find(|(_, clause)| clause.id == *id) else {
                misses.push(format!("no clause {id}"));
                continue;
            };
            // On a cable a copy for the group is one for all, and none of them can be left out.
            for on_cable in [false, true] {
                let router = || Naive { on_cable, unicast: on_cable, ..naive(*defect) };
                let missed =
                    (0..20).filter(|seed| holds(clause, &mut router(), &mut ProbeMemory::new(), *seed)).count();
                if missed > 0 {
                    misses.push(format!("{defect:?}, cable {on_cable}: missed by {id} with {missed} of 20 seeds"));
                }
            }
        }
    }
    assert!(misses.is_empty(), "{misses:#?}");
}

/// Ethernet pads frames of one gradient only.
#[test]
fn contributions_that_are_too_long_are_found_in_small_blocks() {
    let (_, clause) = SUITE.numbered().find(|(_, clause)| clause.id == "trio-ml-longer").unwrap();
    assert!((clause.exempt)(&ground_with(1, true, false)).is_some_and(|why| why.contains("one gradient")));
    for (seed, (elements, on_cable)) in
        (0..20).flat_map(|seed| [2, 3, 4].into_iter().flat_map(move |n| [(seed, (n, false)), (seed, (n, true))]))
    {
        let ground = ground_with(elements, true, on_cable);
        for (defect, passes) in [(Defect::None, true), (Defect::ReadsLonger, false)] {
            let mut router = Naive { on_cable, unicast: on_cable, ..naive(defect) };
            let found = holds_on(&ground, clause, &mut router, &mut ProbeMemory::new(), seed);
            assert_eq!(found, passes, "{defect:?} {elements} {on_cable} {seed}");
        }
    }
}

#[test]
fn a_result_that_comes_again_is_found_without_timers_too() {
    let (_, clause) = SUITE.numbered().find(|(_, clause)| clause.id == "trio-ml-receivers").unwrap();
    for (seed, (on_cable, unicast)) in (0..20).flat_map(|seed| FORMS.map(|form| (seed, form))) {
        let mut router = Naive { timers: false, on_cable, unicast, ..naive(Defect::AgesWhole) };
        assert!(!holds(clause, &mut router, &mut ProbeMemory::new(), seed), "{seed} {on_cable} {unicast}");
    }
}

/// A correct router whose frames a host receives late.
struct Delayed {
    router: Naive,
    by: Time,
    held: Vec<(Time, u16, Vec<u8>)>,
}

impl Delayed {
    fn hold(&mut self, each: EachFrame, act: impl FnOnce(&mut Naive, EachFrame) -> Result<()>) -> Result<()> {
        let (by, held) = (self.by, &mut self.held);
        act(&mut self.router, &mut |t, port, bytes| held.push((t + by, port, bytes.to_vec())))?;
        let now = self.router.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held).into_iter().partition(|(t, ..)| *t <= now);
        self.held = later;
        due.iter().for_each(|(t, port, bytes)| each(*t, *port, bytes));
        Ok(())
    }
}

impl ProbeWitness for Delayed {}

impl ProbeBench for Delayed {
    fn now(&mut self) -> Time {
        self.router.now
    }
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        self.router.frame_in(port, bytes)
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        self.hold(each, |router, each| router.pass(span, each))
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        self.hold(each, |router, each| router.settle(each))
    }
}

/// Results that arrive almost a timeout late, within the patience of the certificate.
#[test]
fn a_late_host_is_no_breach_of_jobs() {
    let (_, clause) = SUITE.numbered().find(|(_, clause)| clause.id == "trio-ml-jobs").unwrap();
    let ground = ProbeGround { patience: SECOND, ..ground(true, true) };
    for seed in 0..10 {
        let router = Naive { on_cable: true, ..naive(Defect::None) };
        let mut bench = Delayed { router, by: TIMEOUT * 9 / 10, held: Vec::new() };
        let mut memory = ProbeMemory::new();
        let mut probe = ClauseProbe::new(&ground, &mut memory, &mut bench, Seed(seed), (clause.id, 0, 0)).unwrap();
        let ended = (clause.probe)(&mut probe);
        assert!(matches!(ended, Err(ProbeStop::Undecidable(_))), "{ended:?}");
    }
}

/// A device with timers, although the experiment declares none, is detected by the clause for that.
#[test]
fn every_clause_finds_a_defect() {
    let found: BTreeSet<_> = PLANTED.iter().flat_map(|(_, ids)| *ids).copied().collect();
    let without: Vec<_> = clauses(true).map(|clause| clause.id).filter(|id| !found.contains(id)).collect();
    assert!(without.is_empty(), "no defect fails {without:?}");
    let patient = clauses(false).find(|clause| clause.id == "trio-ml-patient").expect("a clause");
    let (ground, mut router, mut memory) = (ground(false, false), naive(Defect::None), ProbeMemory::new());
    let mut probe = ClauseProbe::new(&ground, &mut memory, &mut router, Seed(1), (patient.id, 0, 0)).unwrap();
    assert!(matches!((patient.probe)(&mut probe), Err(ProbeStop::Breach(_))));
}
