//! The workers' side of a clause: contributions to the slots of a job, and the answers.
//!
//! A probe may meet a device that was used by other probes before. Slots are selected at random; one is reused only if
//! its last sum was completed, since then its other set is empty, and its rounds are counted in the probe's memory.

use std::fmt::Display;

use pktgen_core::time::Time;
use pktgen_wire::wire::frame::{Datagram, HEAD, Ip, SERVER_IP, Template, group_ip, worker_ip};
use pktgen_wire::wire::integers::emit_values;

use crate::format::{ELEMENTS, HEADER, Header, PORT, WORKER_PORT, frame_bytes, values};
use pktgen_engine::clause::checks::{one_copy_each, same, same_sums, wrapping_sum};
use pktgen_engine::clause::{ClauseBreach, ClauseProbe, ProbeFrame, ProbeGround, ProbeResult, ProbeStop};

/// Marks a slot whose state is unknown.
pub(super) const SPOILED: u64 = u64::MAX;
/// Packet numbers of later rounds are below this.
const NUMBERS: u64 = 1 << 31;

/// The position of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) slot: u16,
    pub(super) round: u64,
    /// Low bits of the job number, which the device echoes.
    pub(super) job: u8,
    pub(super) packet: u32,
}

impl Spot {
    pub(super) fn set(&self) -> bool {
        self.round % 2 == 1
    }
}

impl Display for Spot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "packet {}, slot {}, set {}", self.packet, self.slot, u8::from(self.set()))
    }
}

/// The contents of a contribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) values: Vec<i32>,
    pub(super) exponents: [i8; 2],
}

/// A received result.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) header: Header,
    pub(super) sums: Vec<i32>,
    pub(super) from: (Ip, u16),
    pub(super) to: (Ip, u16),
    pub(super) frame: ProbeFrame,
}

/// The workers of a job at a device.
pub(super) struct Switch<'p, 'a> {
    pub(super) probe: &'p mut ClauseProbe<'a>,
    pub(super) job: u16,
    pub(super) workers: Vec<u32>,
    pub(super) elements: u16,
    pub(super) pool: u16,
}

/// Returns the number of values in a packet.
pub(super) fn elements(ground: &ProbeGround) -> u16 {
    let said = ground.number("target.elements").or(ground.number("workload.elements"));
    ELEMENTS.into_iter().find(|n| Some(i64::from(*n)) == said).unwrap_or(256)
}

/// Returns the number of slots of the pool.
pub(super) fn pool(ground: &ProbeGround) -> u16 {
    ground.number("target.pool").and_then(|n| u16::try_from(n).ok()).unwrap_or(1)
}

/// Returns the jobs that have workers.
pub(super) fn jobs(ground: &ProbeGround) -> Vec<u16> {
    ground.clusters()
}

impl<'p, 'a> Switch<'p, 'a> {
    /// Selects the first job.
    pub(super) fn new(probe: &'p mut ClauseProbe<'a>) -> ProbeResult<Self> {
        Switch::of(probe, 0)
    }

    /// Selects the n-th job.
    pub(super) fn of(probe: &'p mut ClauseProbe<'a>, n: usize) -> ProbeResult<Self> {
        let job = jobs(probe.ground).get(n).copied().unwrap_or_default();
        let workers = probe.ground.members(job);
        let (elements, pool) = (elements(probe.ground), pool(probe.ground));
        if workers.is_empty() {
            return Err(ProbeStop::Undecidable("the experiment has no workers".into()));
        }
        Ok(Switch { probe, job, workers, elements, pool })
    }

    /// Begins a new sum in a slot with a known state.
    pub(super) fn begin(&mut self) -> ProbeResult<Spot> {
        self.begin_where(|_, _| true)
    }

    /// Does the same in a slot that satisfies `fits`.
    fn begin_where(&mut self, fits: impl Fn(&Self, u16) -> bool) -> ProbeResult<Spot> {
        let first = self.probe.below(usize::from(self.pool));
        let mut all = (0..usize::from(self.pool)).map(|i| ((first + i) % usize::from(self.pool)) as u16);
        match all.find(|slot| self.rounds(self.job, *slot).is_some() && fits(self, *slot)) {
            Some(slot) => Ok(self.open(slot)),
            None => Err(ProbeStop::Undecidable(
                "no slot of the pool is in the state that is needed; start the device anew".into(),
            )),
        }
    }

    /// Begins a new sum in a much later round of its slot, whose packet number has up to 31 bits. The set is that of the
    /// next round, and numbers still grow along the slot.
    pub(super) fn begin_later(&mut self) -> ProbeResult<Spot> {
        let spot = self.begin()?;
        let left = (NUMBERS / u64::from(self.pool)).saturating_sub(spot.round);
        let round = spot.round + 2 * self.probe.below((left / 4) as usize + 1) as u64;
        Ok(Spot { round, packet: self.packet(round, spot.slot), ..spot })
    }

    /// Begins a new sum in this slot, if its state is known.
    pub(super) fn begin_in(&mut self, slot: u16) -> Option<Spot> {
        self.rounds(self.job, slot)?;
        Some(self.open(slot))
    }

    /// Begins a new sum in a slot other than this one.
    pub(super) fn begin_elsewhere(&mut self, than: &Spot) -> ProbeResult<Spot> {
        let taken = than.slot;
        self.begin_where(|_, slot| slot != taken)
    }

    /// Begins a new sum in a slot in which another job's next sum is in the same set.
    pub(super) fn begin_beside(&mut self, other: u16) -> ProbeResult<Spot> {
        let parity = |rounds: Option<u64>| rounds.map(|rounds| rounds % 2);
        let beside = self.begin_where(|own, slot| parity(own.rounds(other, slot)) == parity(own.rounds(own.job, slot)));
        if beside.is_ok() {
            return beside;
        }
        // One more sum of this job, and the next one is in the same set.
        let spot = self.begin_where(|own, slot| own.rounds(other, slot).is_some())?;
        let (order, parts) = (self.any_order(), self.parts());
        self.send_all(&order, &spot, &parts)?;
        self.reach_results(&spot)?;
        Ok(self.begin_after(&spot))
    }

    /// Excludes another job's slot with this number from further use.
    pub(super) fn spoil(&mut self, other: u16, slot: u16) {
        self.probe.memory.insert(key(other, slot), SPOILED);
    }

    /// Returns the number of complete sums of a slot; `None` if its state is unknown.
    fn rounds(&self, job: u16, slot: u16) -> Option<u64> {
        let rounds = self.probe.memory.get(&key(job, slot)).copied().unwrap_or_default();
        (rounds != SPOILED).then_some(rounds)
    }

    /// Begins a sum of this job at the place of another job's.
    pub(super) fn begin_at(&mut self, other: &Spot) -> Spot {
        self.open(other.slot)
    }

    /// Begins the next sum in the same slot, in the other set.
    pub(super) fn begin_after(&mut self, spot: &Spot) -> Spot {
        self.open(spot.slot)
    }

    fn open(&mut self, slot: u16) -> Spot {
        let key = key(self.job, slot);
        let round = match self.probe.memory.insert(key, SPOILED) {
            Some(SPOILED) | None => 0,
            Some(round) => round,
        };
        Spot { slot, round, job: self.probe.bits() as u8, packet: self.packet(round, slot) }
    }

    /// Returns the packet number of a round of a slot.
    fn packet(&self, round: u64, slot: u16) -> u32 {
        (round as u32).wrapping_mul(u32::from(self.pool)).wrapping_add(u32::from(slot))
    }

    /// Records that the sum of this spot is complete, so that its slot can be reused.
    pub(super) fn end(&mut self, spot: &Spot) {
        self.probe.memory.insert(key(self.job, spot.slot), spot.round + 1);
    }

    /// Returns random contents with arbitrary bits.
    pub(super) fn part(&mut self) -> Part {
        let values = (0..self.elements).map(|_| self.probe.bits() as i32).collect();
        let exponents = [self.probe.bits() as i8, self.probe.bits() as i8];
        Part { values, exponents }
    }

    /// Returns random contents for every worker.
    pub(super) fn parts(&mut self) -> Vec<Part> {
        (0..self.workers.len()).map(|_| self.part()).collect()
    }

    /// Returns the header of a contribution.
    pub(super) fn header(&self, spot: &Spot, part: &Part) -> Header {
        let [exponent, attempt] = part.exponents;
        let (job, packet, set, slot) = (spot.job, spot.packet, spot.set(), spot.slot);
        Header { elements: self.elements, job, packet, set, slot, exponent, attempt }
    }

    /// Returns a contribution with this header as a frame from this address.
    pub(super) fn frame_from(&self, ip: Ip, header: &Header, part: &Part) -> Vec<u8> {
        let mut frame = vec![0; frame_bytes(self.elements)];
        Template::new((ip, WORKER_PORT), (SERVER_IP, PORT), frame.len()).emit(&mut frame);
        header.emit(&mut frame[HEAD..]);
        emit_values(&part.values, &mut frame[HEAD + HEADER..]);
        frame
    }

    /// Returns a contribution as a frame.
    pub(super) fn frame(&self, worker: u32, spot: &Spot, part: &Part) -> Vec<u8> {
        self.frame_from(worker_ip(worker), &self.header(spot, part), part)
    }

    /// Sends the contribution of the n-th worker of the job.
    pub(super) fn send(&mut self, n: usize, spot: &Spot, part: &Part) -> ProbeResult<()> {
        let worker = self.workers[n];
        let frame = self.frame(worker, spot, part);
        self.probe.send(worker, &frame)
    }

    /// Sends the contributions of these workers, in this order.
    pub(super) fn send_all(&mut self, order: &[usize], spot: &Spot, parts: &[Part]) -> ProbeResult<()> {
        order.iter().try_for_each(|n| self.send(*n, spot, &parts[*n]))
    }

    /// Returns the indices of all workers in the job in random order.
    pub(super) fn any_order(&mut self) -> Vec<usize> {
        self.probe.order(self.workers.len())
    }

    /// Returns all answers.
    pub(super) fn answers(&mut self) -> ProbeResult<Vec<Answer>> {
        let frames = self.probe.expect(|frames| !frames.is_empty())?;
        frames.into_iter().map(read).collect()
    }

    /// Checks that no frame arrives during `span`.
    pub(super) fn waits(&mut self, span: Time, why: &str) -> ProbeResult<()> {
        let out = self.probe.pass(span)?;
        if out.is_empty() { Ok(()) } else { Err(ClauseBreach::stop(format!("frames while {why}"), "none", out.len())) }
    }

    /// Checks that no frame arrives.
    pub(super) fn silent(&mut self, after: &str) -> ProbeResult<()> {
        self.probe.stays_silent(after)
    }

    /// Returns the copies of the single result of this spot; the sum must be complete.
    pub(super) fn results(&mut self, spot: &Spot) -> ProbeResult<Vec<Answer>> {
        let answers = self.answers()?;
        if answers.is_empty() {
            return Err(ClauseBreach::stop(format!("{spot}: results"), "a result", "none"));
        }
        self.end(spot);
        Ok(answers)
    }

    /// Does the same for clauses about what comes after the result.
    pub(super) fn reach_results(&mut self, spot: &Spot) -> ProbeResult<Vec<Answer>> {
        let answers = self.answers()?;
        if answers.is_empty() {
            let why =
                format!("{spot}: the contributions of all workers made no result, so what follows it cannot be tried");
            return Err(ProbeStop::Undecidable(why));
        }
        self.end(spot);
        Ok(answers)
    }

    /// Sends the contributions of these workers, the last missing ones, and checks that the result has the sum of all.
    pub(super) fn sums_to(&mut self, order: &[usize], spot: &Spot, parts: &[Part]) -> ProbeResult<()> {
        self.send_all(order, spot, parts)?;
        let answers = self.results(spot)?;
        has_sums(&answers, spot, &sum(parts))
    }

    /// Sends the contribution of the last worker and checks that the result has the sum of all.
    pub(super) fn sums_to_last(&mut self, last: usize, spot: &Spot, parts: &[Part]) -> ProbeResult<()> {
        self.sums_to(&[last], spot, parts)
    }

    /// Checks that each worker gets exactly one copy at its port, with its address or that of its job.
    pub(super) fn reaches(&self, answers: &[Answer], workers: &[u32], spot: &Spot) -> ProbeResult<()> {
        let group = (workers.len() == self.workers.len()).then(|| group_ip(self.job));
        let copies: Vec<_> = answers.iter().map(|answer| (answer.to.0, answer.frame.port)).collect();
        one_copy_each(spot, self.probe.ground, workers, group, &copies)
    }

    /// Checks that there is one answer, to this worker alone, that equals `first`.
    pub(super) fn answered_alone(&mut self, n: usize, spot: &Spot, first: &Answer) -> ProbeResult<()> {
        let answers = self.answers()?;
        if answers.is_empty() {
            return Err(ClauseBreach::stop(format!("{spot}: answers to a repeated contribution"), 1, 0));
        }
        self.reaches(&answers, &[self.workers[n]], spot)?;
        has_sums(&answers, spot, &first.sums)?;
        same(spot, "exponent of the answer", first.header.exponent, answers[0].header.exponent)
    }
}

/// Returns the key of a slot in the probe's memory.
pub(super) fn key(job: u16, slot: u16) -> u64 {
    u64::from(job) << 16 | u64::from(slot)
}

/// Returns the sum of these parts with wrap-around.
pub(super) fn sum(parts: &[Part]) -> Vec<i32> {
    wrapping_sum(parts.iter().map(|part| &part.values))
}

/// Checks that every copy has these sums.
pub(super) fn has_sums(answers: &[Answer], spot: &Spot, sums: &[i32]) -> ProbeResult<()> {
    answers.iter().try_for_each(|answer| same_sums(spot, "value", sums, &answer.sums))
}

/// Checks that every copy has the largest first exponent of these parts.
pub(super) fn has_exponent(answers: &[Answer], spot: &Spot, parts: &[Part]) -> ProbeResult<()> {
    let largest = parts.iter().map(|part| part.exponents[0]).max().unwrap_or(i8::MIN);
    answers.iter().try_for_each(|answer| same(spot, "first exponent", largest, answer.header.exponent))
}

/// Checks that none of these frames is a SwitchML packet of the device.
pub(super) fn has_no_result(frames: &[ProbeFrame], after: &str) -> ProbeResult<()> {
    let result = |frame: &&ProbeFrame| {
        let datagram = Datagram::parse(&frame.bytes).filter(|datagram| datagram.src == SERVER_IP);
        datagram.is_some_and(|datagram| Header::parse(datagram.payload).is_some())
    };
    match frames.iter().filter(result).count() {
        0 => Ok(()),
        count => Err(ClauseBreach::stop(format!("results after {after}"), "none", count)),
    }
}

fn read(frame: ProbeFrame) -> ProbeResult<Answer> {
    let no = |frame: &ProbeFrame| {
        let what = format!("a frame of {} bytes at port {}", frame.bytes.len(), frame.port);
        ClauseBreach::stop(what, "a SwitchML packet", "none")
    };
    let Some(datagram) = Datagram::parse(&frame.bytes) else { return Err(no(&frame)) };
    let Some(header) = Header::parse(datagram.payload) else { return Err(no(&frame)) };
    let bytes = values(datagram.payload, &header).as_chunks::<4>().0;
    let sums = bytes.iter().map(|four| i32::from_be_bytes(*four)).collect();
    let (from, to) = ((datagram.src, datagram.src_port), (datagram.dst, datagram.dst_port));
    Ok(Answer { header, sums, from, to, frame })
}
