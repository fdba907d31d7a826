//! A simple switch over bytes, correct and with planted defects: every clause passes with the correct one and detects its defects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::seed::Seed;
use pktgen_core::time::{MS, Time};
use pktgen_core::topology::Population;
use pktgen_wire::wire::frame::{Datagram, SERVER_IP, Template, group_ip, set_ip_checksum, worker_ip, worker_of};

use super::SUITE;
use crate::format::{HEADER, PORT, WORKER_PORT};
use pktgen_engine::clause::{
    Clause, ClauseProbe, EachFrame, ProbeBench, ProbeGround, ProbeMemory, ProbeStop, ProbeWitness,
};

const WORKERS: u32 = 3;
const JOBS: u16 = 2;
const POOL: u16 = 16;
const VALUES: usize = 64;
const HEAD: usize = 42;

/// The defect of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    SwapsBytes,
    LastWins,
    FirstAdds,
    Saturates,
    OrderMatters,
    UnsignedExponent,
    SecondExponentOfLast,
    CountsAgain,
    NeverAnswers,
    AnswersAll,
    AnswersZeros,
    OneAnswer,
    SendsTwice,
    SkipsLastWorker,
    ForgetsJob,
    WrongLength,
    WrongSourcePort,
    CompletesEarly,
    GivesUp,
    OneSet,
    DropsResultOnReuse,
    SlotsAlias,
    KeepsBits,
    AnyoneIsZero,
    PoolAliases,
    ReadsTruncated,
    IgnoresLengths,
    AnySize,
    AnyType,
    AnyPort,
    NeverLate,
    AnyNumber,
    JobsShare,
    WorkersSource,
    WrongStation,
    EchoesService,
    KeepsChecksum,
    NextIsLast,
    ReadsLonger,
    SizeOfOne,
    AnyProtocol,
    EvenPorts,
    RefusesTrailer,
    AnswerForgetsJob,
    AnswerWrongPort,
    AnswerWrongLength,
    AnswerZeroExponents,
    AnswersFirstJob,
    RepeatsUnasked,
    TwiceBesideOthers,
    StrayBesideOthers,
    SixteenBitNumber,
    SpoilsLargeNumbers,
    EightBitSlots,
    RefusesLastSlot,
    KeepsExponent,
    SlotsShareExponents,
    JobsShareExponents,
}

/// Defects, and the clauses that must detect each.
const PLANTED: &[(Defect, &[&str])] = &[
    (Defect::SwapsBytes, &["switchml-sum"]),
    (Defect::LastWins, &["switchml-sum"]),
    (Defect::FirstAdds, &["switchml-reuse"]),
    (Defect::Saturates, &["switchml-wrap", "switchml-cancel"]),
    (Defect::OrderMatters, &["switchml-order"]),
    (Defect::UnsignedExponent, &["switchml-exponent"]),
    (Defect::SecondExponentOfLast, &["switchml-exponent-2"]),
    (Defect::CountsAgain, &["switchml-again-under-way"]),
    (Defect::NeverAnswers, &["switchml-again-complete", "switchml-lost-result", "switchml-restart"]),
    (Defect::AnswersAll, &["switchml-again-complete"]),
    (Defect::AnswersZeros, &["switchml-again-complete"]),
    (Defect::OneAnswer, &["switchml-again-all"]),
    (Defect::SendsTwice, &["switchml-receivers"]),
    (Defect::SkipsLastWorker, &["switchml-receivers"]),
    (Defect::ForgetsJob, &["switchml-echo"]),
    (Defect::WrongLength, &["switchml-headers"]),
    (Defect::WrongSourcePort, &["switchml-addresses"]),
    (Defect::CompletesEarly, &["switchml-complete"]),
    (Defect::GivesUp, &["switchml-straggler"]),
    (Defect::OneSet, &["switchml-reuse", "switchml-lost-result"]),
    (Defect::DropsResultOnReuse, &["switchml-sets", "switchml-lost-result"]),
    (Defect::SlotsAlias, &["switchml-slots"]),
    (Defect::KeepsBits, &["switchml-reuse"]),
    (Defect::AnyoneIsZero, &["switchml-unknown-source"]),
    (Defect::PoolAliases, &["switchml-beyond-pool"]),
    (Defect::ReadsTruncated, &["switchml-truncated"]),
    (Defect::IgnoresLengths, &["switchml-lengths"]),
    (Defect::AnySize, &["switchml-size"]),
    (Defect::AnyType, &["switchml-type"]),
    (Defect::AnyPort, &["switchml-port"]),
    (Defect::NeverLate, &["switchml-late"]),
    (Defect::AnyNumber, &["switchml-stale"]),
    (Defect::JobsShare, &["switchml-jobs", "switchml-foreign-job"]),
    (Defect::WorkersSource, &["switchml-ethernet"]),
    (Defect::WrongStation, &["switchml-ethernet"]),
    (Defect::EchoesService, &["switchml-fields"]),
    (Defect::KeepsChecksum, &["switchml-headers"]),
    (Defect::NextIsLast, &["switchml-unknown-source"]),
    (Defect::ReadsLonger, &["switchml-longer"]),
    (Defect::SizeOfOne, &["switchml-size"]),
    (Defect::AnyProtocol, &["switchml-not-udp"]),
    (Defect::EvenPorts, &["switchml-ports"]),
    (Defect::RefusesTrailer, &["switchml-trailer"]),
    (Defect::AnswerForgetsJob, &["switchml-echo"]),
    (Defect::AnswerWrongPort, &["switchml-addresses"]),
    (Defect::AnswerWrongLength, &["switchml-headers"]),
    (Defect::AnswerZeroExponents, &["switchml-exponent", "switchml-exponent-2"]),
    (Defect::AnswersFirstJob, &["switchml-jobs"]),
    (Defect::RepeatsUnasked, &["switchml-receivers"]),
    (Defect::TwiceBesideOthers, &["switchml-slots"]),
    (Defect::StrayBesideOthers, &["switchml-slots"]),
    (Defect::SixteenBitNumber, &["switchml-echo"]),
    (Defect::SpoilsLargeNumbers, &["switchml-echo"]),
    (Defect::RefusesLastSlot, &["switchml-slots"]),
    (Defect::KeepsExponent, &["switchml-reuse"]),
    (Defect::SlotsShareExponents, &["switchml-slots"]),
    (Defect::JobsShareExponents, &["switchml-jobs"]),
];

#[derive(Debug, Clone, Default)]
struct Cell {
    bits: u32,
    missing: u32,
    number: u32,
    sums: Vec<i32>,
    exponents: [i8; 2],
    answered: bool,
    since: Time,
}

/// A switch over bytes, with a port for every worker.
struct Naive {
    defect: Defect,
    /// Results go to each worker's address instead of the job's group.
    unicast: bool,
    /// All workers are on one cable, port 0.
    on_cable: bool,
    pool: u16,
    /// A result that is repeated, and when.
    again: Option<(Time, u16, Vec<u8>)>,
    cells: BTreeMap<(u16, u16, bool), Cell>,
    out: Vec<(u16, Vec<u8>)>,
    now: Time,
}

/// A parsed contribution.
struct Read {
    worker: u32,
    job: u16,
    set: bool,
    slot: u16,
    number: u32,
    exponents: [i8; 2],
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
        if !(PORT..PORT + 16).contains(&datagram.dst_port) && !self.is(Defect::AnyPort) {
            return None;
        }
        let worker = worker_of(datagram.src, (WORKERS * u32::from(JOBS)) as usize);
        let odd = datagram.dst_port % 2 == 1 && self.is(Defect::EvenPorts);
        let trailed = datagram.payload.len() + HEAD < frame.len() && self.is(Defect::RefusesTrailer);
        if odd || trailed {
            return None;
        }
        let next = self.is(Defect::NextIsLast) && datagram.src == worker_ip(WORKERS * u32::from(JOBS));
        let worker = if next { Some(WORKERS - 1) } else { worker };
        let worker = if self.is(Defect::AnyoneIsZero) { worker.or(Some(2)) } else { worker }?;
        let mut p = if self.is(Defect::IgnoresLengths) { frame[HEAD..].to_vec() } else { datagram.payload.to_vec() };
        if self.is(Defect::ReadsTruncated) && p.len() >= HEADER {
            p.resize(HEADER + 4 * VALUES, 0);
        }
        if self.is(Defect::ReadsLonger) && p.len() > HEADER + 4 * VALUES {
            p.truncate(HEADER + 4 * VALUES);
        }
        if self.is(Defect::SizeOfOne) && p.len() == HEADER + 4 && p[0] & 7 == 5 {
            p[0] = p[0] & 0xf8 | 1;
            p.resize(HEADER + 4 * VALUES, 0);
        }
        if p.len() != HEADER + 4 * VALUES || (p[0] & 7 != 1 && !self.is(Defect::AnySize)) {
            return None;
        }
        if p[0] >> 4 != 1 && !self.is(Defect::AnyType) {
            return None;
        }
        let slot = u16::from_be_bytes([p[6], p[7]]) & 0x3fff;
        let slot = match self.defect {
            Defect::PoolAliases => slot % self.pool,
            Defect::SlotsAlias => slot & !1,
            Defect::EightBitSlots => slot & 255,
            Defect::RefusesLastSlot if slot == self.pool - 1 => u16::MAX,
            _ => slot,
        };
        let job = (worker / WORKERS) as u16;
        let values = p[HEADER..].chunks(4).map(|b| i32::from_be_bytes([b[0], b[1], b[2], b[3]])).collect();
        Some(Read {
            worker,
            job: if self.is(Defect::JobsShare) { 0 } else { job },
            set: p[6] >> 7 == 1 && !self.is(Defect::OneSet),
            slot,
            number: u32::from_le_bytes([p[2], p[3], p[4], p[5]]),
            exponents: [p[8] as i8, p[9] as i8],
            values,
        })
        .filter(|it| it.slot < self.pool)
    }

    /// Whether the contribution would change a sum other than its own.
    fn refuses(&self, it: &Read, bit: u32) -> bool {
        let (own, other) = (self.cells.get(&(it.job, it.slot, it.set)), self.cells.get(&(it.job, it.slot, !it.set)));
        let late = other.is_some_and(|cell| cell.missing > 0 && cell.bits & bit != 0);
        let stale = own.is_some_and(|cell| cell.missing > 0 && cell.number != it.number);
        late && !self.is(Defect::NeverLate) || stale && !self.is(Defect::AnyNumber)
    }

    fn take(&mut self, frame: &[u8]) {
        let Some(it) = self.read(frame) else { return };
        let bit = 1 << (it.worker % WORKERS);
        if self.refuses(&it, bit) {
            return;
        }
        let defect = self.defect;
        if defect != Defect::KeepsBits && defect != Defect::OneSet {
            let other = self.cells.entry((it.job, it.slot, !it.set)).or_default();
            other.bits &= !bit;
            if defect == Defect::DropsResultOnReuse {
                other.sums.fill(0);
            }
        }
        let now = self.now;
        let cell = self.cells.entry((it.job, it.slot, it.set)).or_default();
        if defect == Defect::GivesUp && cell.missing > 0 && now - cell.since > 50 * MS {
            *cell = Cell::default();
        }
        let again = cell.bits & bit != 0;
        if again && cell.missing == 0 {
            let silent = defect == Defect::NeverAnswers || defect == Defect::OneAnswer && cell.answered;
            cell.answered = true;
            let sums = if defect == Defect::AnswersZeros { vec![0; VALUES] } else { cell.sums.clone() };
            let exponents = cell.exponents;
            if !silent {
                self.answer(frame, &it, &sums, exponents, defect != Defect::AnswersAll);
            }
            return;
        }
        if again && defect != Defect::CountsAgain {
            return;
        }
        add(cell, &it, bit, defect, now);
        self.share_exponents(&it);
        let early = u32::from(defect == Defect::CompletesEarly);
        let cell = self.cells.entry((it.job, it.slot, it.set)).or_default();
        if cell.missing == early {
            cell.missing = 0;
            let (sums, exponents) = (cell.sums.clone(), cell.exponents);
            self.answer(frame, &it, &sums, exponents, false);
        }
    }

    /// Mixes the exponent of a sum with those of other slots, or of other jobs.
    fn share_exponents(&mut self, it: &Read) {
        let defect = self.defect;
        let shares = |(job, slot, set): (u16, u16, bool)| match defect {
            Defect::SlotsShareExponents => (job, slot & 7, set) == (it.job, it.slot & 7, it.set),
            Defect::JobsShareExponents => (slot, set) == (it.slot, it.set),
            _ => false,
        };
        let others = self.cells.iter().filter(|(key, cell)| shares(**key) && !cell.sums.is_empty());
        let largest = others.map(|(_, cell)| cell.exponents[0]).max();
        if let (Some(largest), Some(own)) = (largest, self.cells.get_mut(&(it.job, it.slot, it.set))) {
            own.exponents[0] = own.exponents[0].max(largest);
        }
    }

    /// Returns a result to this address.
    fn result(&self, frame: &[u8], to: u32, sums: &[i32], exponents: [i8; 2], alone: bool) -> Vec<u8> {
        let is = |defect, later| self.is(defect) || alone && self.is(later);
        let mut bytes = frame.to_vec();
        bytes.resize(HEAD + HEADER + 4 * VALUES, 0);
        let from = if is(Defect::WrongSourcePort, Defect::AnswerWrongPort) { PORT + 1 } else { PORT };
        Template::new((SERVER_IP, from), (to, WORKER_PORT), bytes.len()).emit(&mut bytes);
        let exponents = if alone && self.is(Defect::AnswerZeroExponents) { [0, 0] } else { exponents };
        bytes[HEAD + 8] = exponents[0] as u8;
        bytes[HEAD + 9] = exponents[1] as u8;
        if is(Defect::ForgetsJob, Defect::AnswerForgetsJob) {
            bytes[HEAD + 1] = 0;
        }
        for (at, sum) in bytes[HEAD + HEADER..].chunks_mut(4).zip(sums) {
            at.copy_from_slice(&sum.to_be_bytes());
        }
        if self.is(Defect::SixteenBitNumber) {
            bytes[HEAD + 4..HEAD + 6].fill(0);
        }
        // The number is little-endian.
        if self.is(Defect::SpoilsLargeNumbers) && bytes[HEAD + 4..HEAD + 6] != [0, 0] {
            bytes[HEAD + HEADER] ^= 1;
        }
        if self.is(Defect::SwapsBytes) {
            bytes.swap(HEAD + HEADER, HEAD + HEADER + 1);
        }
        if is(Defect::WrongLength, Defect::AnswerWrongLength) {
            bytes[39] = bytes[39].wrapping_sub(1);
        }
        match self.defect {
            Defect::WorkersSource => bytes[6..12].copy_from_slice(&frame[6..12]),
            Defect::WrongStation => bytes[2] ^= 1,
            Defect::EchoesService => bytes[15] = frame[15],
            Defect::KeepsChecksum => bytes[40..42].copy_from_slice(&frame[40..42]),
            _ => {}
        }
        set_ip_checksum(&mut bytes);
        bytes
    }

    fn answer(&mut self, frame: &[u8], it: &Read, sums: &[i32], exponents: [i8; 2], alone: bool) {
        let asking = if self.is(Defect::AnswersFirstJob) { it.worker % WORKERS } else { it.worker };
        let first = u32::from(it.job) * WORKERS;
        let all = if alone { asking..asking + 1 } else { first..first + WORKERS };
        let beside = self.cells.values().any(|cell| cell.missing > 0);
        for worker in all {
            let to = if alone || self.unicast { worker_ip(worker) } else { group_ip(it.job) };
            // One copy to the group is on the cable of all.
            let is_there = self.on_cable && !alone && !self.unicast && worker > first;
            if is_there || self.is(Defect::SkipsLastWorker) && worker == first + WORKERS - 1 {
                continue;
            }
            let bytes = self.result(frame, to, sums, exponents, alone);
            let twice = self.is(Defect::SendsTwice) || beside && self.is(Defect::TwiceBesideOthers);
            if twice && worker == first {
                self.out.push((worker as u16, bytes.clone()));
            }
            if beside && self.is(Defect::StrayBesideOthers) && worker == first {
                let mut stray = bytes.clone();
                stray[HEAD + 7] ^= 0x80;
                self.out.push((worker as u16, stray));
            }
            if self.is(Defect::RepeatsUnasked) && worker == first {
                self.again = Some((self.now + 50 * MS, worker as u16, bytes.clone()));
            }
            self.out.push((worker as u16, bytes));
        }
    }
}

/// Adds a new contribution.
fn add(cell: &mut Cell, it: &Read, bit: u32, defect: Defect, now: Time) {
    let first = cell.bits == 0 || defect == Defect::KeepsBits && cell.missing == 0;
    if first {
        let old = if defect == Defect::FirstAdds { cell.sums.clone() } else { Vec::new() };
        let kept = defect == Defect::KeepsExponent && !cell.sums.is_empty();
        let exponents = if kept { cell.exponents } else { [i8::MIN; 2] };
        *cell = Cell { missing: WORKERS, sums: vec![0; VALUES], exponents, since: now, ..Cell::default() };
        cell.sums.iter_mut().zip(old).for_each(|(sum, old)| *sum = old);
    }
    cell.number = it.number;
    cell.missing = cell.missing.saturating_sub(1);
    for (sum, value) in cell.sums.iter_mut().zip(&it.values) {
        *sum = match defect {
            Defect::LastWins => *value,
            Defect::Saturates => sum.saturating_add(*value),
            Defect::OrderMatters if cell.bits == 0b100 => sum.wrapping_add(*value).wrapping_add(1),
            _ => sum.wrapping_add(*value),
        };
    }
    let [e0, e1] = it.exponents;
    let unsigned = if cell.bits == 0 { e0 } else { (cell.exponents[0] as u8).max(e0 as u8) as i8 };
    cell.exponents[0] = if defect == Defect::UnsignedExponent { unsigned } else { cell.exponents[0].max(e0) };
    cell.exponents[1] = if defect == Defect::SecondExponentOfLast { e1 } else { cell.exponents[1].max(e1) };
    cell.bits |= bit;
}

impl ProbeWitness for Naive {}

impl ProbeBench for Naive {
    fn now(&mut self) -> Time {
        self.now
    }
    fn frame_in(&mut self, _port: u16, bytes: &[u8]) -> Result<()> {
        self.now += 1;
        self.take(bytes);
        Ok(())
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        self.now += span;
        if let Some((_, port, bytes)) = self.again.take_if(|(t, ..)| *t <= self.now) {
            self.out.push((port, bytes));
        }
        self.settle(each)
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        let port_of = |port: u16| if self.on_cable { 0 } else { port };
        self.out.drain(..).for_each(|(port, bytes)| each(self.now, port_of(port), &bytes));
        Ok(())
    }
}

/// Returns the ground of a switch with a port for every worker, or one cable for all.
fn ground(on_cable: bool, pool: u16) -> ProbeGround {
    let text = format!("[target]\nelements = {VALUES}\npool = {pool}\ncheck = true\njobs = \"several\"\n");
    let workers = Population::regular(JOBS, WORKERS);
    ProbeGround {
        port_of: (0..workers.len() as u16).map(|port| if on_cable { 0 } else { port }).collect(),
        workers: Arc::new(workers),
        server: None,
        late: 100 * MS,
        output: None,
        links: Vec::new(),
        patience: 0,
        frame_bytes: 308,
        hot: None,
        keys: Document::parse(&text, "test").unwrap(),
    }
}

/// Runs all repeats of a clause on one switch that was used by clauses before; returns whether it holds.
fn holds(clause: &Clause, switch: &mut Naive, memory: &mut ProbeMemory, seed: u64) -> bool {
    let ground = ground(switch.on_cable, switch.pool);
    assert_eq!((clause.exempt)(&ground), None, "{}", clause.id);
    (0..clause.repeats).all(|repeat| {
        let mut probe = ClauseProbe::new(&ground, memory, switch, Seed(seed), (clause.id, repeat, 0)).unwrap();
        match (clause.probe)(&mut probe) {
            Ok(()) => true,
            Err(ProbeStop::Breach(_)) => false,
            Err(other) => panic!("{}: {other:?}", clause.id),
        }
    })
}

fn naive(defect: Defect) -> Naive {
    let cells = BTreeMap::new();
    Naive { defect, unicast: false, on_cable: false, pool: POOL, again: None, cells, out: Vec::new(), now: 0 }
}

/// Returns the clauses that are checked by probes.
fn correctness() -> impl Iterator<Item = &'static Clause> {
    SUITE.numbered().map(|(_, clause)| clause).filter(|clause| clause.measure.is_none())
}

#[test]
fn a_whole_switch_passes_every_clause_although_it_was_used_before() {
    for (seed, (on_cable, unicast)) in (0..20).flat_map(|seed| FORMS.map(|form| (seed, form))) {
        let mut switch = Naive { on_cable, unicast, ..naive(Defect::None) };
        let mut memory = ProbeMemory::new();
        for clause in correctness() {
            let what = (clause.id, on_cable, unicast);
            assert!(holds(clause, &mut switch, &mut memory, seed), "{what:?}");
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
                let switch = || Naive { on_cable, unicast: on_cable, ..naive(*defect) };
                let missed =
                    (0..20).filter(|seed| holds(clause, &mut switch(), &mut ProbeMemory::new(), *seed)).count();
                if missed > 0 {
                    misses.push(format!("{defect:?}, cable {on_cable}: missed by {id} with {missed} of 20 seeds"));
                }
            }
        }
    }
    assert!(misses.is_empty(), "{misses:#?}");
}

#[test]
fn every_clause_finds_a_defect() {
    let found: BTreeSet<_> = PLANTED.iter().flat_map(|(_, ids)| *ids).copied().collect();
    let without: Vec<_> = correctness().map(|clause| clause.id).filter(|id| !found.contains(id)).collect();
    assert!(without.is_empty(), "no defect fails {without:?}");
}

/// In a pool whose slot numbers need more than a byte, one repeat tells them apart.
#[test]
fn slots_of_a_large_pool_are_compared_in_each_repeat() {
    let (_, clause) = SUITE.numbered().find(|(_, clause)| clause.id == "switchml-slots").unwrap();
    let once = Clause { repeats: 1, ..*clause };
    for (seed, pool) in (0..20).flat_map(|seed| [257, 300, 512].map(|pool| (seed, pool))) {
        let found = |defect| !holds(&once, &mut Naive { pool, ..naive(defect) }, &mut ProbeMemory::new(), seed);
        assert!(!found(Defect::None), "{seed}, {pool}");
        assert!(found(Defect::EightBitSlots) && found(Defect::RefusesLastSlot), "{seed}, {pool}");
    }
}
