//! The workers' side of a clause: contributions to the blocks of a job, and the answers.
//!
//! A probe may meet a device that was used by other probes before, so every block is a new one. A block in progress times out (§5): the
//! absence of frames is checked only for a share of the timeout, and a probe that was too slow for this gives no result.

use std::collections::BTreeSet;
use std::fmt::Display;

use pktgen_core::time::{MS, Time, US};
use pktgen_core::units::Span;
use pktgen_engine::clause::checks::{number16, one_copy_each, same, same_sums, wrapping_sum};
use pktgen_engine::clause::{ClauseBreach, ClauseProbe, ProbeFrame, ProbeGround, ProbeResult, ProbeStop};
use pktgen_wire::wire::frame::{Datagram, ETHERNET_MIN, HEAD, Ip, SERVER_IP, Template, group_ip, source_ip, worker_ip};
use pktgen_wire::wire::integers::emit_values;

use crate::format::{AGED, HEADER, Header, PORT, STRAGGLER, frame_bytes, values};

/// Number of blocks that time out together.
pub(super) const BLOCKS: usize = 16;

/// Key in a probe's memory besides the next block of each job: an earlier probe may have left blocks in progress.
const UNFINISHED: u64 = u64::MAX;
/// The same: the device may have removed a straggler, of which it notified the workers.
const REMOVED: u64 = u64::MAX - 1;
/// Additional time that a device may take for a partial result beyond the timeouts.
const SLACK: Time = MS / 2;

/// A block of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) job: u8,
    pub(super) block: u32,
    pub(super) generation: u16,
}

impl Spot {
    fn name(&self) -> (u8, u32, u16) {
        (self.job, self.block, self.generation)
    }
}

impl Display for Spot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "job {}, block {}, generation {}", self.job, self.block, self.generation)
    }
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

impl Answer {
    pub(super) fn is_of(&self, spot: &Spot) -> bool {
        (self.header.job, self.header.block, self.header.generation) == spot.name()
    }
}

/// The workers of a job at a device.
pub(super) struct Router<'p, 'a> {
    pub(super) probe: &'p mut ClauseProbe<'a>,
    pub(super) job: u16,
    pub(super) workers: Vec<u32>,
    /// Number of gradients of a whole block.
    pub(super) elements: u16,
    /// When the first contribution to the blocks in progress was sent.
    since: Option<Time>,
}

/// Returns the timeout after which an untouched block is given up; `None` without mitigation.
pub(super) fn timeout(ground: &ProbeGround) -> Option<Time> {
    let timeout = ground.word("target.timeout").parse::<Span>().ok()?.ps();
    ground.flag("target.mitigation").then_some(timeout)
}

/// Returns the time within which so many blocks in progress have timed out, and their results have come; `None` without mitigation.
pub(super) fn aging(ground: &ProbeGround, blocks: usize) -> Option<Time> {
    // At most one copy per worker and block, through one port.
    timeout(ground).map(|timeout| 3 * timeout + ground.on_links(blocks * ground.workers.len()))
}

/// Returns how many of `most` blocks of the first job get their contributions long before the first can time out, at one frame per
/// microsecond.
pub(super) fn blocks_in_time(ground: &ProbeGround, most: usize) -> usize {
    let workers = ground.of_first_job().max(1);
    let fit = timeout(ground).map_or(most, |timeout| (timeout / 8 / US) as usize / workers);
    most.min(fit).max(1)
}

/// Returns the number of gradients of a whole block in the experiment.
pub(super) fn elements(ground: &ProbeGround) -> u16 {
    let room = (ground.frame_bytes.saturating_sub(HEAD + HEADER) / 4) as i64;
    ground.number("workload.elements").unwrap_or(room).clamp(1, room.max(1)) as u16
}

/// Executes a clause with the workers of the first job.
pub(super) fn with_router(
    probe: &mut ClauseProbe,
    act: impl FnOnce(&mut Router) -> ProbeResult<()>,
) -> ProbeResult<()> {
    if probe.memory.insert(UNFINISHED, 1).is_some()
        && let Some(span) = aging(probe.ground, BLOCKS)
    {
        probe.pass(span)?;
    }
    let acted = act(&mut Router::of(probe, 0)?);
    let ground = probe.ground;
    let notified = probe.log().iter().any(|frame| !frame.inward && is_notice(ground, frame));
    if notified && ground.flag("target.remove_stragglers") {
        probe.memory.insert(REMOVED, 1);
    }
    if matches!(acted, Err(ProbeStop::Breach(_))) && probe.memory.contains_key(&REMOVED) {
        return Err(ProbeStop::Undecidable(
            "target.remove_stragglers = true, and the device notified of a straggler, without which blocks may be complete; use a \
             target.straggler_interval longer than the certificate, or remove_stragglers = false, if the device has the same"
                .into(),
        ));
    }
    acted?;
    probe.memory.remove(&UNFINISHED);
    Ok(())
}

impl<'p, 'a> Router<'p, 'a> {
    /// Selects the n-th job.
    pub(super) fn of(probe: &'p mut ClauseProbe<'a>, n: usize) -> ProbeResult<Self> {
        let job = probe.ground.clusters().get(n).copied().unwrap_or_default();
        let workers = probe.ground.members(job);
        let elements = elements(probe.ground);
        if workers.is_empty() {
            return Err(ProbeStop::Undecidable("the experiment has no workers".into()));
        }
        Ok(Router { probe, job, workers, elements, since: None })
    }

    /// Returns a new block.
    pub(super) fn begin(&mut self) -> Spot {
        let next = self.probe.memory.entry(u64::from(self.job)).or_default();
        let block = *next as u32;
        *next += 1;
        // Small numbers, as in the first iterations.
        Spot { job: self.job as u8, block, generation: (self.probe.bits() % 256) as u16 }
    }

    /// Returns a block that neither this job nor the other used before.
    pub(super) fn begin_beside(&mut self, other: u16) -> Spot {
        let spot = self.begin();
        let next = |router: &Self, job: u16| router.probe.memory.get(&u64::from(job)).copied().unwrap_or_default();
        let block = u64::from(spot.block).max(next(self, other));
        for job in [self.job, other] {
            self.probe.memory.insert(u64::from(job), block + 1);
        }
        Spot { block: block as u32, ..spot }
    }

    /// Returns this many random gradients.
    pub(super) fn part_of(&mut self, elements: u16) -> Vec<i32> {
        (0..elements).map(|_| self.probe.bits() as i32).collect()
    }

    /// Returns random gradients of a whole block.
    pub(super) fn part(&mut self) -> Vec<i32> {
        self.part_of(self.elements)
    }

    /// Returns random gradients of every worker.
    pub(super) fn parts(&mut self) -> Vec<Vec<i32>> {
        (0..self.workers.len()).map(|_| self.part()).collect()
    }

    /// Returns the header of a contribution of the n-th worker.
    pub(super) fn header(&self, n: usize, spot: &Spot, part: &[i32]) -> Header {
        Header {
            job: spot.job,
            block: spot.block,
            source: n as u8,
            sources: 1,
            generation: spot.generation,
            elements: part.len() as u16,
            ..Header::default()
        }
    }

    /// Returns a contribution with this header as a frame of the n-th worker.
    pub(super) fn frame_with(&self, n: usize, header: &Header, part: &[i32]) -> Vec<u8> {
        let len = frame_bytes(part.len() as u16);
        let mut frame = vec![0; len.max(ETHERNET_MIN)];
        Template::new((worker_ip(self.workers[n]), PORT), (SERVER_IP, PORT), len).emit(&mut frame);
        header.emit(&mut frame[HEAD..]);
        emit_values(part, &mut frame[HEAD + HEADER..len]);
        frame
    }

    /// Returns a contribution of the n-th worker as a frame.
    pub(super) fn frame(&self, n: usize, spot: &Spot, part: &[i32]) -> Vec<u8> {
        self.frame_with(n, &self.header(n, spot, part), part)
    }

    /// Sends this frame from the n-th worker.
    pub(super) fn send_frame(&mut self, n: usize, frame: &[u8]) -> ProbeResult<()> {
        let now = self.probe.now();
        self.since.get_or_insert(now);
        self.probe.send(self.workers[n], frame)
    }

    /// Sends a contribution of the n-th worker.
    pub(super) fn send(&mut self, n: usize, spot: &Spot, part: &[i32]) -> ProbeResult<()> {
        let frame = self.frame(n, spot, part);
        self.send_frame(n, &frame)
    }

    /// Sends the contributions of these workers, in this order.
    pub(super) fn send_all(&mut self, order: &[usize], spot: &Spot, parts: &[Vec<i32>]) -> ProbeResult<()> {
        order.iter().try_for_each(|n| self.send(*n, spot, &parts[*n]))
    }

    /// Returns the indices of all workers in the job in random order.
    pub(super) fn any_order(&mut self) -> Vec<usize> {
        self.probe.order(self.workers.len())
    }

    /// Returns the same with the last one separate.
    pub(super) fn any_order_and_last(&mut self) -> (Vec<usize>, usize) {
        self.probe.order_and_last(self.workers.len())
    }

    /// Passes a random time of up to two timeouts: each timer visits its part of the blocks at its own time, and a fresh device has the
    /// same times in all repeats.
    pub(super) fn any_phase(&mut self) -> ProbeResult<()> {
        let most = timeout(self.probe.ground).map_or(0, |timeout| (2 * timeout / US) as usize);
        let moment = self.probe.below(most.max(1)) as Time * US;
        self.probe.pass(moment).map(drop)
    }

    /// Returns the frames that leave during `span`, without notices.
    pub(super) fn pass(&mut self, span: Time) -> ProbeResult<Vec<ProbeFrame>> {
        let frames = self.probe.pass(span)?;
        Ok(without_notices(self.probe.ground, frames))
    }

    /// Returns all frames that result from those sent, without notices.
    pub(super) fn settle(&mut self) -> ProbeResult<Vec<ProbeFrame>> {
        let frames = self.probe.settle()?;
        Ok(without_notices(self.probe.ground, frames))
    }

    /// Returns how long a block that was just touched cannot time out.
    fn calm(&self) -> Option<Time> {
        timeout(self.probe.ground).map(|timeout| timeout / 4)
    }

    /// Returns the answers that arrive while nothing can time out.
    fn soon(&mut self) -> ProbeResult<Vec<ProbeFrame>> {
        match self.calm() {
            Some(span) => self.pass(span),
            None => self.settle(),
        }
    }

    /// Checks that no result arrives; other frames may.
    pub(super) fn makes_no_result(&mut self, after: &str) -> ProbeResult<()> {
        let results = self.soon()?.into_iter().filter_map(|frame| read(frame).ok());
        match results.filter(|answer| answer.from.0 == SERVER_IP).count() {
            0 => Ok(()),
            count => {
                self.in_time()?;
                Err(ClauseBreach::stop(format!("results after {after}"), "none", count))
            }
        }
    }

    /// Checks that no frame arrives.
    pub(super) fn silent(&mut self, after: &str) -> ProbeResult<()> {
        let out = self.soon()?;
        match out.first() {
            None => Ok(()),
            Some(frame) => {
                self.in_time()?;
                Err(ClauseBreach::stop(
                    format!("frames after {after}"),
                    "none",
                    format!("{}, the first of {} bytes at port {}", out.len(), frame.bytes.len(), frame.port),
                ))
            }
        }
    }

    /// Checks that no result of this block, of which `what` holds, leaves for three timeouts; later frames open it.
    pub(super) fn ages_nothing(&mut self, spot: &Spot, what: &str) -> ProbeResult<()> {
        if let Some(span) = aging(self.probe.ground, 1) {
            let out = self.pass(span)?;
            let results = out.into_iter().filter_map(|frame| read(frame).ok());
            let own = results.filter(|answer| answer.from.0 == SERVER_IP && answer.is_of(spot)).count();
            if own > 0 {
                return Err(ClauseBreach::stop(format!("{spot}: results of a block {what}"), "none", own));
            }
        }
        self.begins_anew();
        Ok(())
    }

    /// Waits until what is in progress must have timed out: nothing of it leaves during later probes.
    pub(super) fn ages_all(&mut self) -> ProbeResult<()> {
        if let Some(span) = aging(self.probe.ground, BLOCKS) {
            self.pass(span)?;
        }
        self.begins_anew();
        Ok(())
    }

    /// Declares that later frames belong to a block that was just touched, or to a new one.
    pub(super) fn begins_anew(&mut self) {
        self.since = None;
    }

    /// Declares that all blocks in progress were touched from `t` on; checks that none can have timed out before.
    pub(super) fn touched_since(&mut self, t: Time) -> ProbeResult<()> {
        self.in_time()?;
        self.since = Some(t);
        Ok(())
    }

    /// Checks that nothing in progress can have timed out.
    fn in_time(&mut self) -> ProbeResult<()> {
        let now = self.probe.now();
        match (timeout(self.probe.ground), self.since) {
            (Some(timeout), Some(since)) if now - since >= timeout => Err(ProbeStop::Undecidable(format!(
                "a block may have aged: contributions took {} and target.timeout is {}; use a longer one, if the \
                 device has the same",
                Span::from_ps(now - since),
                Span::from_ps(timeout)
            ))),
            _ => Ok(()),
        }
    }

    /// Returns all answers; nothing is in progress afterwards.
    pub(super) fn answers(&mut self) -> ProbeResult<Vec<Answer>> {
        self.answers_until(|frames| frames.next().is_some())
    }

    /// Does the same, waiting for results of all these blocks.
    pub(super) fn answers_of(&mut self, spots: &[Spot]) -> ProbeResult<Vec<Answer>> {
        self.answers_until(|frames| {
            let came: BTreeSet<_> = frames.filter_map(named).collect();
            spots.iter().all(|spot| came.contains(&spot.name()))
        })
    }

    fn answers_until(
        &mut self,
        is_enough: impl Fn(&mut dyn Iterator<Item = &ProbeFrame>) -> bool,
    ) -> ProbeResult<Vec<Answer>> {
        self.in_time()?;
        self.since = None;
        let ground = self.probe.ground;
        let others = |frame: &&ProbeFrame| !is_notice(ground, frame);
        let frames = self.probe.expect(|frames| is_enough(&mut frames.iter().filter(others)))?;
        without_notices(ground, frames).into_iter().map(read).collect()
    }

    /// Returns the copies of the result of this block, to which all have contributed.
    pub(super) fn results(&mut self, spot: &Spot) -> ProbeResult<Vec<Answer>> {
        let answers = self.answers_of(std::slice::from_ref(spot))?;
        own(&answers, spot, "a result", || "none".to_owned())
    }

    /// Does the same while other blocks are in progress.
    pub(super) fn results_beside(&mut self, spot: &Spot) -> ProbeResult<Vec<Answer>> {
        let Some(calm) = self.calm() else { return self.results(spot) };
        self.in_time()?;
        let ground = self.probe.ground;
        let most = (3 * calm).max(ground.patience) + ground.on_links(ground.workers.len());
        let mut waited = 0;
        while waited < most {
            let frames = self.pass(calm)?;
            waited += calm;
            let answers: Vec<_> = frames.into_iter().map(read).collect::<ProbeResult<_>>()?;
            let own: Vec<_> = answers.into_iter().filter(|answer| answer.is_of(spot)).collect();
            if !own.is_empty() {
                return Ok(own);
            }
        }
        Err(ClauseBreach::stop(
            format!("{spot}: results"),
            "a result",
            format!("none within {}", Span::from_ps(waited)),
        ))
    }

    /// Checks the results of these blocks, each with its sum and once at each worker; nothing is in progress afterwards.
    pub(super) fn all_sums(&mut self, spots: &[Spot], parts: &[Vec<Vec<i32>>]) -> ProbeResult<()> {
        let answers = self.answers_of(spots)?;
        for (spot, parts) in spots.iter().zip(parts) {
            let own = own(&answers, spot, "a result", || "none".to_owned())?;
            has_sums(&own, spot, &wrapping_sum(parts))?;
            self.reaches(&own, spot)?;
        }
        Ok(())
    }

    /// Sends the contributions of these workers, the last missing ones, and checks that the result has the sum of all.
    pub(super) fn sums_to(&mut self, order: &[usize], spot: &Spot, parts: &[Vec<i32>]) -> ProbeResult<Vec<Answer>> {
        self.send_all(order, spot, parts)?;
        let answers = self.results(spot)?;
        has_sums(&answers, spot, &wrapping_sum(parts))?;
        Ok(answers)
    }

    /// Lets all contribute to the next generation of a block, and checks that its result is whole, with their sum alone.
    pub(super) fn sums_next(&mut self, spot: &Spot) -> ProbeResult<()> {
        let next = Spot { generation: spot.generation.wrapping_add(1), ..*spot };
        let (order, parts) = (self.any_order(), self.parts());
        let answers = self.sums_to(&order, &next, &parts)?;
        counts(&answers, &next, parts.len(), parts.len())
    }

    /// Lets all contribute to a new block in random order; returns its results.
    pub(super) fn whole(&mut self) -> ProbeResult<(Spot, Vec<Answer>)> {
        let spot = self.begin();
        let (order, parts) = (self.any_order(), self.parts());
        self.send_all(&order, &spot, &parts)?;
        let answers = self.results(&spot)?;
        Ok((spot, answers))
    }

    /// Lets a block without some workers time out: returns its partial results, and limits of the time from the last
    /// contribution to the departure of these. Others of earlier generations or blocks may come before.
    pub(super) fn aged(&mut self, spot: &Spot, before: Time) -> ProbeResult<(Vec<Answer>, Time, Time)> {
        self.in_time()?;
        let timeout = timeout(self.probe.ground).unwrap_or(MS);
        let (sent, ground) = (self.probe.last_sent(), self.probe.ground);
        let on_links = ground.on_links(ground.workers.len());
        let (mut frames, mut waited): (Vec<ProbeFrame>, Time) = (Vec::new(), 0);
        let has_come = |frames: &[ProbeFrame]| frames.iter().filter_map(named).any(|name| name == spot.name());
        while !has_come(&frames) && waited < 4 * timeout + ground.patience + on_links {
            frames.extend(self.pass(timeout / 4)?);
            waited += timeout / 4;
        }
        // The copies for other ports.
        frames.extend(self.pass(timeout / 4 + on_links)?);
        self.since = None;
        let answers: Vec<_> = frames.into_iter().map(read).collect::<ProbeResult<_>>()?;
        let expected = format!("a partial result within {}", Span::from_ps(2 * timeout));
        let own = own(&answers, spot, &expected, || format!("none within {}", Span::from_ps(waited)))?;
        let left = |frame: &ProbeFrame| frame.t - ground.on_link(frame.port, frame.bytes.len());
        let first = own.iter().map(|answer| left(&answer.frame)).min().unwrap_or(before);
        Ok((own, (first - sent).max(0), first - before))
    }

    /// Lets blocks without some workers time out; returns the partial results of each.
    pub(super) fn all_aged(&mut self, spots: &[Spot]) -> ProbeResult<Vec<Vec<Answer>>> {
        self.in_time()?;
        let span = aging(self.probe.ground, spots.len()).unwrap_or(3 * MS);
        let frames = self.pass(span + self.probe.ground.patience)?;
        self.since = None;
        let answers: Vec<_> = frames.into_iter().map(read).collect::<ProbeResult<_>>()?;
        let of =
            |spot: &Spot| own(&answers, spot, "a partial result", || format!("none within {}", Span::from_ps(span)));
        spots.iter().map(of).collect()
    }

    /// Returns the results of this block, if any, that leave until what was just sent must have timed out.
    pub(super) fn late_results(&mut self, spot: &Spot) -> ProbeResult<Vec<Answer>> {
        let span = aging(self.probe.ground, 1).unwrap_or(3 * MS);
        let frames = self.pass(span + self.probe.ground.patience)?;
        self.since = None;
        let answers: Vec<_> = frames.into_iter().map(read).collect::<ProbeResult<_>>()?;
        Ok(answers.into_iter().filter(|answer| answer.is_of(spot)).collect())
    }

    /// Checks the time of a partial result: not before the timeout, nor after twice as long (§5).
    pub(super) fn ages_in_time(&self, spot: &Spot, least: Time, most: Time) -> ProbeResult<()> {
        let Some(timeout) = timeout(self.probe.ground) else { return Ok(()) };
        let wrong = |observed: Time| {
            Err(ClauseBreach::stop(
                format!("{spot}: time from the last contribution to the partial result"),
                format!("{} to {}", Span::from_ps(timeout), Span::from_ps(2 * timeout)),
                Span::from_ps(observed),
            ))
        };
        let host = self.probe.ground.patience;
        if most < timeout {
            wrong(most)
        } else if least <= 2 * timeout + timeout / 10 + SLACK {
            Ok(())
        } else if host == 0 {
            wrong(least)
        } else {
            Err(ProbeStop::Undecidable(format!(
                "the partial result came after {}, of which the host may have had a part",
                Span::from_ps(least)
            )))
        }
    }

    /// Checks the time of one of the partial results of `blocks` blocks, whose last contribution went in between these moments. On wires
    /// a host may receive some of many late.
    pub(super) fn one_ages_in_time(
        &self,
        answers: &[Answer],
        spot: &Spot,
        (before, sent): (Time, Time),
        blocks: usize,
    ) -> ProbeResult<()> {
        let ground = self.probe.ground;
        let starts = answers.iter().map(|Answer { frame, .. }| frame.t - ground.on_link(frame.port, frame.bytes.len()));
        let Some(first) = starts.min().filter(|_| ground.patience == 0) else { return Ok(()) };
        // Results of the other blocks may be ahead of it on its link.
        let least = first - sent - ground.on_links(blocks * ground.workers.len());
        self.ages_in_time(spot, least.max(0), first - before)
    }

    /// Checks that each worker gets exactly one copy at its port, with its address or that of its job.
    pub(super) fn reaches(&self, answers: &[Answer], spot: &Spot) -> ProbeResult<()> {
        let copies: Vec<_> = answers.iter().map(|answer| (answer.to.0, answer.frame.port)).collect();
        one_copy_each(spot, self.probe.ground, &self.workers, Some(group_ip(self.job)), &copies)
    }
}

/// Returns the results of this block, which must be among these.
fn own(all: &[Answer], spot: &Spot, expected: &str, none: impl FnOnce() -> String) -> ProbeResult<Vec<Answer>> {
    let observed = match all.first() {
        None => none(),
        Some(Answer { header, .. }) => format!(
            "{} of other blocks, the first of job {}, block {}, generation {}",
            all.len(),
            header.job,
            header.block,
            header.generation
        ),
    };
    let own: Vec<_> = all.iter().filter(|answer| answer.is_of(spot)).cloned().collect();
    if own.is_empty() {
        return Err(ClauseBreach::stop(format!("{spot}: results"), expected, observed));
    }
    Ok(own)
}

/// Checks that every copy has these sums.
pub(super) fn has_sums(answers: &[Answer], spot: &Spot, sums: &[i32]) -> ProbeResult<()> {
    answers.iter().try_for_each(|answer| same_sums(spot, "gradient", sums, &answer.sums))
}

/// Checks that every copy has this number of the job's workers, the corresponding flag, and a source of the job.
pub(super) fn counts(answers: &[Answer], spot: &Spot, sources: usize, of: usize) -> ProbeResult<()> {
    answers.iter().try_for_each(|Answer { header, .. }| {
        same(spot, "src_cnt of the result", sources, usize::from(header.sources))?;
        same(spot, "degraded of the result", u8::from(sources < of), u8::from(header.degraded))?;
        let age_op = if sources < of { AGED } else { 0 };
        same(spot, "age_op of the result", age_op, header.age_op)?;
        if usize::from(header.source) < of {
            return Ok(());
        }
        let expected = format!("a source of the job, 0 to {}", of.saturating_sub(1));
        Err(ClauseBreach::stop(format!("{spot}: src_id of the result"), expected, header.source))
    })
}

fn header_of(frame: &ProbeFrame) -> Option<Header> {
    Header::parse(Datagram::parse(&frame.bytes)?.payload)
}

/// Returns job, block and generation of a frame; `None` for other frames.
fn named(frame: &ProbeFrame) -> Option<(u8, u32, u16)> {
    header_of(frame).map(|header| (header.job, header.block, header.generation))
}

/// Returns the frames without those that notify a job of a straggler: with mitigation they may come at any time (docs/trio.md).
fn without_notices(ground: &ProbeGround, mut frames: Vec<ProbeFrame>) -> Vec<ProbeFrame> {
    frames.retain(|frame| !is_notice(ground, frame));
    frames
}

/// Returns whether a frame notifies a job of a straggler.
fn is_notice(ground: &ProbeGround, frame: &ProbeFrame) -> bool {
    let jobs = ground.workers.clusters();
    let is = |header: Header| header.age_op == STRAGGLER && header.elements == 0 && usize::from(header.job) < jobs;
    timeout(ground).is_some() && header_of(frame).is_some_and(is)
}

fn read(frame: ProbeFrame) -> ProbeResult<Answer> {
    let no = |frame: &ProbeFrame| {
        let what = format!("a frame of {} bytes at port {}", frame.bytes.len(), frame.port);
        ClauseBreach::stop(what, "a Trio-ML packet", "none")
    };
    let Some(datagram) = Datagram::parse(&frame.bytes) else {
        // A datagram whose length does not fit its packet is named so; Ethernet's padding may follow.
        if source_ip(&frame.bytes) != 0 {
            let (room, ip, udp) = (
                frame.bytes.len() - 14,
                usize::from(number16(&frame.bytes, 16)),
                usize::from(number16(&frame.bytes, 38)),
            );
            let at = format!("a frame of {} bytes at port {}", frame.bytes.len(), frame.port);
            same(&at, "length in the IPv4 header", ip.min(room), ip)?;
            same(&at, "length in the UDP header", ip.saturating_sub(20), udp)?;
        }
        return Err(no(&frame));
    };
    let Some(header) = Header::parse(datagram.payload) else { return Err(no(&frame)) };
    let bytes = values(datagram.payload, &header).as_chunks::<4>().0;
    let sums = bytes.iter().map(|four| i32::from_be_bytes(*four)).collect();
    let (from, to) = ((datagram.src, datagram.src_port), (datagram.dst, datagram.dst_port));
    Ok(Answer { header, sums, from, to, frame })
}
