//! A simple switch over bytes for tests of the clauses, correct or with a planted defect.

use std::collections::{BTreeMap, BTreeSet};

use pktgen_core::Result;
use pktgen_core::time::{MS, NEVER, Time, US};
use pktgen_wire::wire::frame::{Datagram, HEAD, SERVER_IP, Template, group_ip, set_ip_checksum, worker_ip};

use pktgen_engine::clause::{EachFrame, ProbeBench, ProbeWitness};

pub(super) const WORKERS: usize = 4;
pub(super) const JOBS: u8 = 2;
pub(super) const HOT: u32 = 30_000;
const TIMEOUT: Time = MS;
pub(super) const SERVER: u16 = 100;
const PORT: u16 = 0x11b4;

/// The defect of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    None,
    LosesPair18,
    LastWins,
    DropsNegative,
    NeedsOrder,
    KeepsSums,
    NoEmptyResult,
    NoAck,
    AcksTwice,
    AckForgetsAttempt,
    AckOfEndLate,
    AckFromWorker,
    AckWrongPort,
    AckWrongLength,
    AckWrongStation,
    AckCarriesPairs,
    AddsResent,
    AddsCopies,
    DropsResent,
    ForgetsIteration,
    InOrderOnly,
    ForgetsSoon,
    EndsCountTwice,
    OldEndsCount,
    CompletesEarly,
    SkipsLastWorker,
    SendsTwice,
    LongParts,
    OverlappingParts,
    ConstantParts,
    NumbersRestart,
    ForgetsJob,
    NoOpener,
    LastOpener,
    OpenerStays,
    ResultFromWorker,
    ResultWrongLength,
    NeverResends,
    ResendsToAll,
    ResendsForever,
    ResendsEmpty,
    JobsShare,
    AnyJob,
    TakesCold,
    EatsCold,
    FlipsCold,
    FlipsBack,
    LosesBack,
    PassesHot,
    NumbersFrom5,
    TakesStrangers,
    WrapsIndex,
    AcksIndex,
    AcksOneTooMany,
    ReadsTruncated,
    IgnoresLengths,
    AnyKind,
    AnyPort,
    AnyProtocol,
    AckToOther,
    AckToOtherToo,
    EndAckFromWorker,
    NoAckOfLastEnd,
    WrongToFirst,
    OtherJobToo,
    ResendsToOther,
    ResendsToServerToo,
    ResendsTwice,
    ResendsFirstPart,
    ResendsEarly,
    ResendsAtOnce,
    ResendsWrongStation,
    AnyAckIsForAll,
    ResendsAcked,
    PassesBadChecksum,
    PassesNoHops,
    PassesWrongStation,
    SevenBits,
}

/// Defects, and the clauses that must detect each.
pub(super) const PLANTED: &[(Defect, &[&str])] = &[
    (Defect::LosesPair18, &["libra-sizes"]),
    (Defect::LastWins, &["libra-order", "libra-cancel"]),
    (Defect::DropsNegative, &["libra-sum", "libra-cancel"]),
    (Defect::NeedsOrder, &["libra-order"]),
    (Defect::KeepsSums, &["libra-reuse"]),
    (Defect::NoEmptyResult, &["libra-empty"]),
    (Defect::NoAck, &["libra-ack"]),
    (Defect::AcksTwice, &["libra-ack"]),
    (Defect::AckForgetsAttempt, &["libra-resent", "libra-first-lost"]),
    (Defect::AckOfEndLate, &["libra-ack-end"]),
    (Defect::AckFromWorker, &["libra-ack-addresses"]),
    (Defect::AckWrongPort, &["libra-ack-addresses"]),
    (Defect::AckWrongLength, &["libra-ack-headers"]),
    (Defect::AckWrongStation, &["libra-ack-addresses"]),
    (Defect::AckCarriesPairs, &["libra-ack"]),
    (Defect::AddsResent, &["libra-resent", "libra-late"]),
    (Defect::AddsCopies, &["libra-copied"]),
    (Defect::DropsResent, &["libra-first-lost"]),
    (Defect::ForgetsIteration, &["libra-late"]),
    (Defect::InOrderOnly, &["libra-reordered"]),
    (Defect::ForgetsSoon, &["libra-window"]),
    (Defect::EndsCountTwice, &["libra-end-again"]),
    (Defect::OldEndsCount, &["libra-end-again"]),
    (Defect::CompletesEarly, &["libra-complete"]),
    (Defect::SkipsLastWorker, &["libra-receivers"]),
    (Defect::SendsTwice, &["libra-receivers"]),
    (Defect::LongParts, &["libra-parts"]),
    (Defect::OverlappingParts, &["libra-parts"]),
    (Defect::ConstantParts, &["libra-parts"]),
    (Defect::NumbersRestart, &["libra-numbers"]),
    (Defect::ForgetsJob, &["libra-numbers"]),
    (Defect::NoOpener, &["libra-opener"]),
    (Defect::LastOpener, &["libra-opener"]),
    (Defect::OpenerStays, &["libra-opener"]),
    (Defect::ResultFromWorker, &["libra-result-addresses"]),
    (Defect::ResultWrongLength, &["libra-result-headers"]),
    (Defect::NeverResends, &["libra-result-resent"]),
    (Defect::ResendsToAll, &["libra-result-resent"]),
    (Defect::ResendsForever, &["libra-result-resent"]),
    (Defect::ResendsEmpty, &["libra-result-resent"]),
    (Defect::JobsShare, &["libra-jobs"]),
    (Defect::AnyJob, &["libra-job"]),
    (Defect::TakesCold, &["libra-cold"]),
    (Defect::EatsCold, &["libra-cold"]),
    (Defect::FlipsCold, &["libra-cold"]),
    (Defect::FlipsBack, &["libra-back"]),
    (Defect::LosesBack, &["libra-back"]),
    (Defect::PassesHot, &["libra-kept"]),
    (Defect::NumbersFrom5, &["libra-numbers"]),
    (Defect::TakesStrangers, &["libra-stranger"]),
    (Defect::WrapsIndex, &["libra-index"]),
    (Defect::AcksIndex, &["libra-index"]),
    (Defect::AcksOneTooMany, &["libra-index"]),
    (Defect::ReadsTruncated, &["libra-truncated"]),
    (Defect::IgnoresLengths, &["libra-lengths"]),
    (Defect::AnyKind, &["libra-kind"]),
    (Defect::AnyPort, &["libra-port"]),
    (Defect::AnyProtocol, &["libra-not-udp"]),
    (Defect::AckToOther, &["libra-ack"]),
    (Defect::AckToOtherToo, &["libra-ack"]),
    (Defect::EndAckFromWorker, &["libra-ack-addresses"]),
    (Defect::NoAckOfLastEnd, &["libra-ack-end"]),
    (Defect::WrongToFirst, &["libra-sum"]),
    (Defect::OtherJobToo, &["libra-receivers", "libra-jobs"]),
    (Defect::ResendsToOther, &["libra-result-resent"]),
    (Defect::ResendsToServerToo, &["libra-result-resent"]),
    (Defect::ResendsTwice, &["libra-result-resent"]),
    (Defect::ResendsFirstPart, &["libra-result-resent"]),
    (Defect::ResendsEarly, &["libra-result-resent"]),
    (Defect::ResendsAtOnce, &["libra-result-resent"]),
    (Defect::ResendsWrongStation, &["libra-result-resent"]),
    (Defect::AnyAckIsForAll, &["libra-result-resent"]),
    (Defect::ResendsAcked, &["libra-result-resent"]),
    (Defect::PassesBadChecksum, &["libra-cold", "libra-back"]),
    (Defect::PassesNoHops, &["libra-cold", "libra-back"]),
    (Defect::PassesWrongStation, &["libra-cold", "libra-back"]),
    (Defect::SevenBits, &["libra-registers"]),
];

/// A result that some workers have not acknowledged.
#[derive(Clone)]
pub(super) struct Kept {
    job: u8,
    payload: Vec<u8>,
    missing: BTreeSet<usize>,
    /// The worker whose ack came last.
    acked: Option<usize>,
    attempt: u8,
    due: Time,
}

#[derive(Default)]
struct Job {
    registers: BTreeMap<u32, f32>,
    opener: Option<u64>,
    ended: BTreeSet<usize>,
    ends: usize,
    iteration: u32,
    made: u32,
}

/// A switch over bytes, with a port for every worker and one for the server.
pub(super) struct Naive {
    defect: Defect,
    /// Results go to each worker's address instead of the job's group.
    unicast: bool,
    /// All workers are on one cable, port 0, and the server on another, port 1.
    pub(super) on_cables: bool,
    /// Drops packets that are this many or more behind a worker's lowest missing one.
    pub(super) window: Option<u32>,
    /// Registers of a job.
    pub(super) registers: u32,
    jobs: Vec<Job>,
    taken: BTreeSet<(usize, u32)>,
    order: Vec<(usize, u32)>,
    pub(super) kept: BTreeMap<(u8, u32), Kept>,
    held: Vec<(usize, Vec<u8>)>,
    out: Vec<(Time, u16, Vec<u8>)>,
    now: Time,
    passed: u32,
}

pub(super) fn naive(defect: Defect) -> Naive {
    let jobs = (0..JOBS).map(|_| Job::default()).collect();
    Naive {
        defect,
        unicast: false,
        on_cables: false,
        window: None,
        registers: HOT,
        jobs,
        taken: BTreeSet::new(),
        order: Vec::new(),
        kept: BTreeMap::new(),
        held: Vec::new(),
        out: Vec::new(),
        now: 0,
        passed: 0,
    }
}

/// Returns a switch whose workers share a cable or have a port each, and get results by unicast or in their group.
pub(super) fn naive_on(on_cables: bool, unicast: bool, defect: Defect) -> Naive {
    Naive { on_cables, unicast, ..naive(defect) }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Naive {
    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    /// Changes what a faulty router would in a packet that passes.
    fn route(&self, left: &mut [u8]) {
        match self.defect {
            Defect::PassesBadChecksum => left[24] ^= 1,
            Defect::PassesNoHops => {
                left[22] = 0;
                set_ip_checksum(left);
            }
            Defect::PassesWrongStation => left[2] ^= 1,
            _ => {}
        }
    }

    fn take(&mut self, port: u16, frame: &[u8]) {
        let mut bytes = frame.to_vec();
        if self.is(Defect::AnyProtocol) {
            (bytes[12], bytes[13], bytes[14], bytes[23]) = (8, 0, 0x45, 17);
        }
        let Some(datagram) = Datagram::parse(&bytes) else { return };
        let mut p = datagram.payload.to_vec();
        if port == SERVER {
            self.passed += 1;
            let mut left = frame.to_vec();
            match self.defect {
                Defect::FlipsBack if self.passed.is_multiple_of(10) => left[HEAD + 5] ^= 0x40,
                Defect::LosesBack if self.passed.is_multiple_of(20) => return,
                _ => self.route(&mut left),
            }
            return self.out.push((self.now, (datagram.dst - worker_ip(0)) as u16, left));
        }
        let is_ours = datagram.dst_port == PORT || self.is(Defect::AnyPort);
        let is_cold = p.len() >= 6 && p[5] & 1 == 1;
        if is_ours && is_cold && self.is(Defect::EatsCold) {
            return;
        }
        if !is_ours || is_cold && !self.is(Defect::TakesCold) {
            self.passed += 1;
            let mut left = frame.to_vec();
            if self.is(Defect::FlipsCold) && self.passed.is_multiple_of(10) {
                left[HEAD + 9] ^= 1;
            }
            self.route(&mut left);
            self.out.push((self.now, SERVER, left));
            return;
        }
        if self.is(Defect::PassesHot) {
            self.out.push((self.now, SERVER, frame.to_vec()));
        }
        if self.is(Defect::IgnoresLengths) {
            p = bytes[HEAD..].to_vec();
            p.truncate(6 + (p.len() - 6) / 8 * 8);
        }
        if self.is(Defect::ReadsTruncated) && p.len() >= 6 {
            p.truncate(6 + (p.len() - 6) / 8 * 8);
        }
        let from = datagram.src.wrapping_sub(worker_ip(0)) as usize;
        let strange = from >= WORKERS * usize::from(JOBS);
        if strange && !self.is(Defect::TakesStrangers) || p.len() < 6 {
            return;
        }
        let worker = if strange { usize::from(port) } else { from };
        let own = (worker / WORKERS) as u8;
        if p[1] != own && !self.is(Defect::AnyJob) {
            return;
        }
        let mut kind = p[0] >> 5;
        if self.is(Defect::AnyKind) && kind > 5 {
            kind = 0;
        }
        if kind < 2 && self.is_beyond(worker, word(&p, 2)) {
            return;
        }
        match kind {
            0 => self.push(worker, own, &p),
            1 if p.len() == 10 => self.end(worker, own, &p),
            2 => self.confirmed(worker, own, word(&p, 2)),
            _ => {}
        }
    }

    /// Returns whether a number is beyond the window of a worker, which begins at its lowest missing one.
    fn is_beyond(&self, worker: usize, number: u32) -> bool {
        self.window.is_some_and(|window| {
            let lowest = (0..number).step_by(2).find(|lower| !self.taken.contains(&(worker, *lower)));
            lowest.is_some_and(|lowest| number - lowest >= 2 * window)
        })
    }

    fn push(&mut self, worker: usize, job: u8, p: &[u8]) {
        if !(p.len() - 6).is_multiple_of(8) || p.len() > 6 + 18 * 8 {
            return;
        }
        let mut pairs: Vec<_> = p[6..].chunks(8).map(|b| (word(b, 0), f32::from_bits(word(b, 4)))).collect();
        if self.is(Defect::WrapsIndex) {
            pairs.iter_mut().for_each(|(index, _)| *index %= 0x8000_0000);
        }
        let most = self.registers + u32::from(self.is(Defect::AcksOneTooMany));
        if pairs.iter().any(|(index, _)| *index >= most) && !self.is(Defect::AcksIndex) {
            return;
        }
        if self.is(Defect::AcksOneTooMany) {
            pairs.retain(|(index, _)| *index < self.registers);
        }
        if self.is(Defect::SevenBits) {
            pairs.iter_mut().for_each(|(index, _)| *index &= 127);
        }
        if self.is(Defect::LosesPair18) {
            pairs.truncate(17);
        }
        let (number, attempt) = (word(p, 2), p[0] & 15);
        let floor = self.order.iter().filter(|(own, _)| *own == worker).map(|(_, number)| *number).max();
        if self.is(Defect::InOrderOnly) && floor.is_some_and(|floor| number < floor) && attempt == 0 {
            return self.answer(worker, p);
        }
        let is_new = match self.defect {
            Defect::AddsResent => attempt > 0 || !self.taken.contains(&(worker, number)),
            Defect::AddsCopies => attempt == 0 || !self.taken.contains(&(worker, number)),
            Defect::DropsResent => attempt == 0 && !self.taken.contains(&(worker, number)),
            Defect::ForgetsSoon => {
                !self.order.iter().rev().filter(|(own, _)| *own == worker).take(16).any(|(_, own)| *own == number)
            }
            _ => !self.taken.contains(&(worker, number)),
        };
        let defect = self.defect;
        let at = if self.is(Defect::JobsShare) { 0 } else { usize::from(job) };
        if is_new {
            self.taken.insert((worker, number));
            self.order.push((worker, number));
            let own = &mut self.jobs[at];
            let packet = (worker as u64) << 40 | u64::from(attempt) << 32 | u64::from(number);
            if own.opener.is_none() || defect == Defect::LastOpener {
                own.opener = Some(packet);
            }
            let opened_by = own.opener.unwrap_or(0) >> 40;
            for (index, value) in pairs {
                let value = match defect {
                    Defect::DropsNegative => value.max(0.0),
                    // Loses packets after a push of the last worker.
                    Defect::NeedsOrder if opened_by == 3 && worker != 3 => 0.0,
                    _ => value,
                };
                let sum = own.registers.entry(index).or_default();
                *sum = if defect == Defect::LastWins { value } else { *sum + value };
            }
        }
        self.answer(worker, p);
    }

    fn answer(&mut self, worker: usize, p: &[u8]) {
        let copies = match self.defect {
            Defect::NoAck if worker % WORKERS == 1 => 0,
            Defect::AcksTwice => 2,
            _ => 1,
        };
        let mut ack = p[..6].to_vec();
        ack[0] = ack[0] & 31 | 2 << 5;
        if self.is(Defect::AckForgetsAttempt) {
            ack[0] &= 7 << 5;
        }
        if self.is(Defect::AckCarriesPairs) {
            ack.extend(&p[6..]);
        }
        let is_wrong = self.is(Defect::AckFromWorker) || self.is(Defect::EndAckFromWorker) && p[0] >> 5 == 1;
        let from = if is_wrong { worker_ip(worker as u32) } else { SERVER_IP };
        let to = if self.is(Defect::AckWrongPort) { PORT } else { PORT + 1 };
        let other = (worker / WORKERS * WORKERS + (worker + 1) % WORKERS) as u32;
        let acked = if self.is(Defect::AckToOther) { other } else { worker as u32 };
        let mut frame = framed((from, PORT), (worker_ip(acked), to), &ack);
        match self.defect {
            Defect::AckWrongLength => frame[39] += 1,
            Defect::AckWrongStation => frame[2] ^= 1,
            _ => {}
        }
        for _ in 0..copies {
            self.out.push((self.now, worker as u16, frame.clone()));
        }
        if self.is(Defect::AckToOtherToo) {
            self.out.push((self.now, other as u16, framed((from, PORT), (worker_ip(other), to), &ack)));
        }
    }

    fn end(&mut self, worker: usize, job: u8, p: &[u8]) {
        let (number, iteration, rank) = (word(p, 2), word(p, 6), worker % WORKERS);
        let again = !self.taken.insert((worker, number));
        let is_last = self.jobs[usize::from(job)].ended.len() == WORKERS - 1;
        match self.defect {
            Defect::AckOfEndLate => self.held.push((worker, p.to_vec())),
            Defect::NoAckOfLastEnd if is_last && !again => {}
            _ => self.answer(worker, p),
        }
        let defect = self.defect;
        let at = if defect == Defect::JobsShare { 0 } else { usize::from(job) };
        let own = &mut self.jobs[at];
        // Numbers distinguish ends; those of a finished iteration do not count.
        if !again || defect == Defect::EndsCountTwice {
            own.ends += 1;
        }
        if again && !(defect == Defect::OldEndsCount && iteration < own.iteration) && defect != Defect::EndsCountTwice {
            return;
        }
        own.ended.insert(rank);
        let needed = if defect == Defect::CompletesEarly { WORKERS - 1 } else { WORKERS };
        let all = if defect == Defect::EndsCountTwice { own.ends } else { own.ended.len() };
        if all >= needed {
            self.finish(job, iteration);
            for (worker, p) in std::mem::take(&mut self.held) {
                self.answer(worker, &p);
            }
        }
    }

    /// Returns when results are sent again for the first time.
    fn timeout(&self) -> Time {
        match self.defect {
            Defect::ResendsEarly => TIMEOUT - 50 * US,
            Defect::ResendsAtOnce => TIMEOUT / 100,
            _ => TIMEOUT,
        }
    }

    fn finish(&mut self, job: u8, iteration: u32) {
        let (defect, timeout) = (self.defect, self.timeout());
        let at = if defect == Defect::JobsShare { 0 } else { usize::from(job) };
        let own = &mut self.jobs[at];
        let pairs: Vec<_> = own.registers.iter().filter(|(_, sum)| **sum != 0.0).map(|(i, sum)| (*i, *sum)).collect();
        let (size, step) = match defect {
            Defect::LongParts => (20, 20),
            Defect::OverlappingParts => (16, 15),
            _ => (16, 16),
        };
        let mut parts: Vec<&[(u32, f32)]> = pairs.chunks(step).collect();
        if defect == Defect::OverlappingParts {
            parts = (0..pairs.len()).step_by(step).map(|at| &pairs[at..(at + size).min(pairs.len())]).collect();
        }
        if parts.is_empty() && defect != Defect::NoEmptyResult {
            parts.push(&[]);
        }
        if defect == Defect::NumbersRestart {
            own.made = 0;
        }
        let opener = if defect == Defect::NoOpener { None } else { own.opener };
        let count = if defect == Defect::ConstantParts { 1000 } else { parts.len() as u16 };
        for (part, pairs) in parts.iter().enumerate() {
            let mut p = vec![3 << 5, if defect == Defect::ForgetsJob { 9 } else { job }];
            p.extend((2 * own.made + if defect == Defect::NumbersFrom5 { 10 } else { 0 }).to_be_bytes());
            p.extend((part as u16).to_be_bytes());
            p.extend(count.to_be_bytes());
            p.extend(iteration.to_be_bytes());
            p.extend(opener.unwrap_or(u64::MAX).to_be_bytes());
            for (index, sum) in *pairs {
                p.extend(index.to_be_bytes());
                p.extend(sum.to_be_bytes());
            }
            let kept = Kept {
                job,
                payload: p,
                missing: (0..WORKERS).collect(),
                acked: None,
                attempt: 0,
                due: self.now + timeout,
            };
            self.kept.insert((job, 2 * own.made), kept);
            own.made += 1;
        }
        if defect != Defect::KeepsSums {
            own.registers.clear();
        }
        if defect != Defect::OpenerStays {
            own.opener = None;
        }
        (own.ended, own.ends, own.iteration) = (BTreeSet::new(), 0, iteration + 1);
        if defect == Defect::ForgetsIteration {
            self.taken.clear();
        }
        let new: Vec<_> = self
            .kept
            .values()
            .filter(|one| one.job == job && one.attempt == 0 && one.due == self.now + timeout)
            .cloned()
            .collect();
        new.iter().for_each(|kept| self.send_result(kept));
    }

    fn send_result(&mut self, kept: &Kept) {
        let from = if self.is(Defect::ResultFromWorker) { SERVER_IP + 1 } else { SERVER_IP };
        let group = group_ip(kept.job.into());
        for rank in 0..WORKERS {
            let worker = usize::from(kept.job) * WORKERS + rank;
            // One copy to the group is on the cable of all.
            let is_there = self.on_cables && !self.unicast && rank > 0;
            if is_there || self.is(Defect::SkipsLastWorker) && rank == WORKERS - 1 {
                continue;
            }
            let mut payload = kept.payload.clone();
            if self.is(Defect::WrongToFirst) && rank == 0 && payload.len() > 22 {
                payload[26] ^= 0x80;
            }
            let to = if self.unicast { worker_ip(worker as u32) } else { group };
            let mut frame = framed((from, PORT), (to, PORT + 1), &payload);
            if self.is(Defect::ResultWrongLength) {
                frame[39] = frame[39].wrapping_sub(1);
            }
            self.out.push((self.now, worker as u16, frame.clone()));
            if self.is(Defect::SendsTwice) && rank == 0 {
                self.out.push((self.now, worker as u16, frame));
            }
        }
        if self.is(Defect::OtherJobToo) {
            let other = 1 - kept.job;
            let frame = framed((from, PORT), (group_ip(other.into()), PORT + 1), &kept.payload);
            self.out.push((self.now, u16::from(other) * WORKERS as u16, frame));
        }
    }

    fn confirmed(&mut self, worker: usize, job: u8, number: u32) {
        if self.is(Defect::ResendsForever) {
            return;
        }
        let (defect, rank) = (self.defect, worker % WORKERS);
        for ((_, own), kept) in self.kept.iter_mut().filter(|((own, _), _)| *own == job) {
            if *own == number || defect == Defect::AnyAckIsForAll {
                kept.missing.remove(&rank);
                kept.acked = Some(rank);
            }
        }
        // A switch that counts acks by worker resends all parts until it has the last.
        let waits = |rank: &usize| self.kept.iter().any(|((own, _), kept)| *own == job && kept.missing.contains(rank));
        let keeps = defect == Defect::ResendsAcked && (0..WORKERS).any(|rank| waits(&rank));
        if !keeps {
            self.kept.retain(|_, kept| !kept.missing.is_empty());
        }
    }

    /// Sends the first result that is due by this time again.
    fn resend(&mut self, until: Time) -> bool {
        if self.is(Defect::NeverResends) {
            return false;
        }
        let (to_all, empty) = (self.is(Defect::ResendsToAll), self.is(Defect::ResendsEmpty));
        let defect = self.defect;
        let comes = |kept: &&mut Kept| {
            let part = u16::from_be_bytes([kept.payload[6], kept.payload[7]]);
            kept.attempt < 15 && !(defect == Defect::ResendsFirstPart && part > 0)
        };
        let due = self.kept.values_mut().filter(comes).min_by_key(|kept| kept.due);
        let Some(kept) = due.filter(|kept| kept.due <= until) else { return false };
        kept.attempt += 1;
        self.now = self.now.max(kept.due);
        kept.due += TIMEOUT << kept.attempt.min(4);
        let mut payload = kept.payload.clone();
        payload[0] = 3 << 5 | 16 | kept.attempt;
        if empty {
            payload.truncate(22);
        }
        let ranks: Vec<_> = match defect {
            _ if to_all => (0..WORKERS).collect(),
            Defect::ResendsAcked if kept.missing.is_empty() => kept.acked.into_iter().collect(),
            _ => kept.missing.iter().copied().collect(),
        };
        for rank in ranks {
            let rank = if defect == Defect::ResendsToOther { (rank + 1) % WORKERS } else { rank };
            let worker = usize::from(kept.job) * WORKERS + rank;
            let mut frame = framed((SERVER_IP, PORT), (worker_ip(worker as u32), PORT + 1), &payload);
            match defect {
                Defect::ResendsWrongStation => frame[2] ^= 1,
                Defect::ResendsToServerToo => self.out.push((self.now, SERVER, frame.clone())),
                Defect::ResendsTwice => self.out.push((self.now, worker as u16, frame.clone())),
                _ => {}
            }
            self.out.push((self.now, worker as u16, frame));
        }
        true
    }
}

impl Naive {
    fn leave(&mut self, each: EachFrame) {
        let port_of = |port: u16| if self.on_cables { u16::from(port == SERVER) } else { port };
        self.out.drain(..).for_each(|(t, port, bytes)| each(t, port_of(port), &bytes));
    }
}

fn framed(from: (u32, u16), to: (u32, u16), payload: &[u8]) -> Vec<u8> {
    let len = HEAD + payload.len();
    let mut frame = vec![0; len.max(60)];
    Template::new(from, to, len).emit(&mut frame);
    frame[HEAD..len].copy_from_slice(payload);
    set_ip_checksum(&mut frame);
    frame
}

impl ProbeWitness for Naive {}

impl ProbeBench for Naive {
    fn now(&mut self) -> Time {
        self.now
    }
    fn frame_in(&mut self, port: u16, bytes: &[u8]) -> Result<()> {
        self.now += US;
        self.take(if self.on_cables && port == 1 { SERVER } else { port }, bytes);
        Ok(())
    }
    fn pass(&mut self, span: Time, each: EachFrame) -> Result<()> {
        let until = self.now + span;
        while self.resend(until) {}
        self.now = until;
        self.leave(each);
        Ok(())
    }
    fn settle(&mut self, each: EachFrame) -> Result<()> {
        // On cables silence is a pause.
        while !self.on_cables && self.resend(NEVER / 4) {}
        self.leave(each);
        Ok(())
    }
}
