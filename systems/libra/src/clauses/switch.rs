//! The workers' side of a clause: pushes and ends of a job, and the answers.
//!
//! Numbers of workers and iterations continue over all probes of a device that is not restarted. Every begun iteration
//! is ended, and its results are acknowledged, since results without acknowledgement are sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use pktgen_core::time::{MS, Time};
use pktgen_core::units::Span;
use pktgen_engine::clause::checks::{dotted, reaches, same};
use pktgen_engine::clause::{ClauseBreach, ClauseProbe, ProbeFrame, ProbeGround, ProbeResult, ProbeStop};
use pktgen_engine::target::sparse::Adder;
use pktgen_wire::wire::frame::{Datagram, ETHERNET_MIN, HEAD, Ip, SERVER_IP, Template, group_ip, worker_ip};
use pktgen_workload::addition::AdditionError;

use crate::format::{
    HEADER, HOT_PAIR, HOT_PAIRS, Header, Kind, PORT, ResultHead, WORKER_PORT, emit_hot, hot_pairs, pairs,
};

/// Number of parameters that most clauses push; they do not apply to experiments with less than two more hot ones.
pub(super) const PARAMETERS: u32 = 64;
/// Keys in a probe's memory besides the next number of each worker.
const ITERATION: u64 = 1 << 32;
const UNFINISHED: u64 = 2 << 32;
const RESULTS: u64 = 3 << 32;
const ENDS: u64 = 4 << 32;
/// Largest window of a worker.
const WINDOW_MOST: i64 = 1 << 16;
/// Number of packets that are sent before answers are read.
pub(super) const AT_ONCE: usize = 64;
/// Numbers of results that an unfinished iteration can have used.
const DRAINED_MOST: u32 = 256;

/// Pairs of a packet.
pub(super) type Pairs = Vec<(u32, f32)>;

/// A packet that was returned to a worker.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) header: Header,
    /// Present in results.
    pub(super) head: Option<ResultHead>,
    pub(super) pairs: Pairs,
    pub(super) from: (Ip, u16),
    pub(super) to: (Ip, u16),
    pub(super) frame: ProbeFrame,
}

/// A sent push.
#[derive(Debug, Clone)]
pub(super) struct Push {
    /// The worker's index in the job.
    pub(super) rank: usize,
    pub(super) header: Header,
    pub(super) pairs: Pairs,
}

/// The expected sum of a parameter in an iteration.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    exact: f64,
    size: f64,
    members: u32,
}

/// The workers of a job at a device.
pub(super) struct Switch<'p, 'a> {
    pub(super) probe: &'p mut ClauseProbe<'a>,
    pub(super) job: u16,
    pub(super) workers: Vec<u32>,
    /// The expected sums of the iteration.
    cells: BTreeMap<u32, Cell>,
}

/// Returns the time after which a result without acknowledgement is sent again.
pub(super) fn result_timeout(ground: &ProbeGround) -> Time {
    ground.word("target.result_timeout").parse::<Span>().map_or(MS, Span::ps)
}

/// Number of times per `target.result_timeout` that clauses look for results: for half of it, and once more for superfluous copies.
const LOOKS: Time = 8;

/// Returns the time for which clauses look for results in virtual time.
pub(super) fn looks_for(timeout: Time) -> Time {
    timeout / LOOKS * (LOOKS / 2 + 1)
}

/// Returns the number of packets that a worker may have without an ack.
pub(super) fn window_of(ground: &ProbeGround) -> usize {
    ground.number("endpoint.window").unwrap_or(1).clamp(1, WINDOW_MOST) as usize
}

/// Returns the maximum number of consecutive indices in a packet without two in one register.
pub(super) fn room(ground: &ProbeGround) -> usize {
    // Only by heat are consecutive parameters in different registers (LIBRA §3.4, Figure 8).
    if ground.word("endpoint.layout") == "random" {
        return 1;
    }
    let registers = ground.number("endpoint.registers").unwrap_or(HOT_PAIRS as i64);
    registers.clamp(1, HOT_PAIRS as i64) as usize
}

/// Executes a clause with the workers of the first job.
pub(super) fn with_switch(
    probe: &mut ClauseProbe,
    act: impl FnOnce(&mut Switch) -> ProbeResult<()>,
) -> ProbeResult<()> {
    if probe.memory.insert(UNFINISHED, 1).is_some() {
        for n in 0..probe.ground.clusters().len() {
            Switch::of(probe, n)?.drain()?;
        }
    }
    let mut switch = Switch::of(probe, 0)?;
    act(&mut switch)?;
    switch.probe.memory.remove(&UNFINISHED);
    Ok(())
}

impl<'p, 'a> Switch<'p, 'a> {
    /// Selects the n-th job.
    pub(super) fn of(probe: &'p mut ClauseProbe<'a>, n: usize) -> ProbeResult<Self> {
        let job = probe.ground.clusters().get(n).copied().unwrap_or_default();
        let workers = probe.ground.members(job);
        if workers.is_empty() {
            return Err(ProbeStop::Undecidable("the experiment has no workers".into()));
        }
        Ok(Switch { probe, job, workers, cells: BTreeMap::new() })
    }

    /// Returns the number of the current iteration.
    pub(super) fn iteration(&self) -> u32 {
        self.probe.memory.get(&(ITERATION + u64::from(self.job))).copied().unwrap_or(0) as u32
    }

    /// Returns the number of the next result.
    pub(super) fn next_result(&self) -> u32 {
        2 * self.probe.memory.get(&(RESULTS + u64::from(self.job))).copied().unwrap_or(0) as u32
    }

    /// Returns the next number of a worker.
    pub(super) fn number(&mut self, rank: usize) -> u32 {
        let next = self.probe.memory.entry(u64::from(self.workers[rank])).or_default();
        *next += 2;
        (*next - 2) as u32
    }

    /// Lets the next packet of a worker have the number that was returned last.
    pub(super) fn takes_back(&mut self, rank: usize) {
        self.probe.memory.entry(u64::from(self.workers[rank])).and_modify(|next| *next -= 2);
    }

    /// Returns the permitted error of sums.
    fn error(&self) -> AdditionError {
        match self.probe.ground.word("target.add") {
            "exact" => AdditionError::F32,
            _ => Adder::tables().error(),
        }
    }

    /// Returns a gradient of magnitude 2⁻⁸ to 2⁸.
    pub(super) fn gradient(&mut self) -> f32 {
        let bits = self.probe.bits();
        let exponent = 127 - 8 + bits % 16;
        f32::from_bits((bits & 0x8000_0000) | exponent << 23 | (self.probe.bits() & 0x7f_ffff))
    }

    /// Returns `count` random gradients of consecutive parameters, at most as many as fit into a packet.
    pub(super) fn pairs(&mut self, count: usize) -> Pairs {
        let count = count.min(room(self.probe.ground));
        let first = self.probe.below(PARAMETERS as usize - count + 1) as u32;
        (0..count as u32).map(|n| (first + n, self.gradient())).collect()
    }

    /// Returns random gradients of a random number of parameters.
    pub(super) fn some(&mut self) -> Pairs {
        let count = 1 + self.probe.below(HOT_PAIRS);
        self.pairs(count)
    }

    /// Returns the indices of all workers in the job in random order.
    pub(super) fn any_order(&mut self) -> Vec<usize> {
        self.probe.order(self.workers.len())
    }

    /// Returns the same with the last one separate.
    pub(super) fn any_order_and_last(&mut self) -> (Vec<usize>, usize) {
        self.probe.order_and_last(self.workers.len())
    }

    /// Returns a packet of a worker with this header as a frame.
    pub(super) fn frame(&self, rank: usize, header: &Header, rest: &[u8]) -> Vec<u8> {
        self.frame_from((worker_ip(self.workers[rank]), WORKER_PORT), PORT, header, rest)
    }

    /// Does the same from another address or to another port.
    pub(super) fn frame_from(&self, from: (Ip, u16), port: u16, header: &Header, rest: &[u8]) -> Vec<u8> {
        let len = HEAD + HEADER + rest.len();
        let mut frame = vec![0; len.max(ETHERNET_MIN)];
        Template::new(from, (SERVER_IP, port), len).emit(&mut frame);
        header.emit(&mut frame[HEAD..]);
        frame[HEAD + HEADER..len].copy_from_slice(rest);
        frame
    }

    /// Returns a push as a frame.
    pub(super) fn frame_of(&self, push: &Push) -> Vec<u8> {
        self.frame(push.rank, &push.header, &bytes_of(&push.pairs))
    }

    /// Sends this frame from a worker.
    pub(super) fn send_frame(&mut self, rank: usize, frame: &[u8]) -> ProbeResult<()> {
        self.probe.send(self.workers[rank], frame)
    }

    /// Creates a push without sending it.
    pub(super) fn made(&mut self, rank: usize, pairs: Pairs) -> Push {
        let header = Header { kind: Kind::Push, attempt: 0, job: self.job as u8, seq: self.number(rank) };
        Push { rank, header, pairs }
    }

    /// Sends it with this attempt.
    pub(super) fn send(&mut self, push: &Push, attempt: u8) -> ProbeResult<Header> {
        let header = Header { attempt, ..push.header };
        let frame = self.frame(push.rank, &header, &bytes_of(&push.pairs));
        self.send_frame(push.rank, &frame)?;
        Ok(header)
    }

    /// Adds it to the expected sums of the iteration.
    pub(super) fn counts(&mut self, push: &Push) {
        for (index, value) in &push.pairs {
            let cell = self.cells.entry(*index).or_default();
            cell.exact += f64::from(*value);
            cell.size += f64::from(value.abs());
            cell.members += 1;
        }
    }

    /// Sends these pairs of a worker once.
    pub(super) fn push(&mut self, rank: usize, pairs: Pairs) -> ProbeResult<Push> {
        let push = self.made(rank, pairs);
        self.counts(&push);
        self.send(&push, 0)?;
        Ok(push)
    }

    /// Sends some pairs of each worker in random order.
    pub(super) fn push_all(&mut self) -> ProbeResult<Vec<Push>> {
        let order = self.any_order();
        let push = |rank| {
            let pairs = self.some();
            self.push(rank, pairs)
        };
        order.into_iter().map(push).collect()
    }

    /// Does the same and checks that each is acknowledged.
    pub(super) fn push_acked(&mut self) -> ProbeResult<()> {
        let sent: Vec<_> = self.push_all()?.into_iter().map(|push| (push.rank, push.header)).collect();
        self.acked(&sent).map(|_| ())
    }

    /// Ends the iteration for a worker.
    pub(super) fn end(&mut self, rank: usize) -> ProbeResult<Header> {
        let header = Header { kind: Kind::End, attempt: 0, job: self.job as u8, seq: self.number(rank) };
        let sent = u64::from(self.iteration()) << 32 | u64::from(header.seq);
        self.probe.memory.insert(ENDS + u64::from(self.workers[rank]), sent);
        self.send_end(rank, &header)?;
        Ok(header)
    }

    /// Sends an end with this header.
    pub(super) fn send_end(&mut self, rank: usize, header: &Header) -> ProbeResult<()> {
        let frame = self.frame(rank, header, &self.iteration().to_be_bytes());
        self.send_frame(rank, &frame)
    }

    /// Returns all frames, waiting until at least this many have come to workers.
    pub(super) fn frames(&mut self, at_least: usize) -> ProbeResult<Vec<ProbeFrame>> {
        let server = self.probe.ground.server;
        let count = |frames: &[ProbeFrame]| frames.iter().filter(|frame| Some(frame.port) != server).count();
        self.probe.expect(|frames| count(frames) >= at_least)
    }

    /// Returns the answers to workers while no result is expected.
    pub(super) fn answers(&mut self, at_least: usize) -> ProbeResult<Vec<Answer>> {
        let frames = self.frames(at_least)?;
        self.at_workers(frames)
    }

    /// Waits for the acks of so many pushes, whatever they are: a slow device may add a push later than it is silent.
    pub(super) fn awaits(&mut self, pushes: usize) -> ProbeResult<()> {
        self.frames(pushes).map(|_| ())
    }

    /// Returns the frames that arrived at workers.
    fn at_workers(&self, frames: Vec<ProbeFrame>) -> ProbeResult<Vec<Answer>> {
        let server = self.probe.ground.server;
        frames.into_iter().filter(|frame| Some(frame.port) != server).map(read).collect()
    }

    /// Checks that exactly these packets are acknowledged, each to its worker, and nothing else arrives.
    pub(super) fn acked(&mut self, sent: &[(usize, Header)]) -> ProbeResult<Vec<Answer>> {
        let answers = self.answers(sent.len())?;
        self.are_acks(&answers, sent)?;
        Ok(answers)
    }

    /// Checks that these answers are the acks of these packets.
    pub(super) fn are_acks(&self, answers: &[Answer], sent: &[(usize, Header)]) -> ProbeResult<()> {
        let mut left: Vec<&Answer> = answers.iter().collect();
        for (rank, header) in sent {
            let port = self.probe.ground.port_towards(self.workers[*rank]);
            let ack = Header { kind: Kind::Ack, ..*header };
            let worker = self.workers[*rank];
            let alike = |answer: &&Answer| answer.frame.port == port && answer.header == ack;
            let own = left.iter().position(|answer| alike(answer) && answer.to.0 == worker_ip(worker));
            let Some(at) = own else {
                let at = format!("the answer to {} of worker {worker}", told(header));
                if let Some(answer) = left.iter().find(|answer| alike(answer)) {
                    same(&at, "destination address", dotted(worker_ip(worker)), dotted(answer.to.0))?;
                }
                let observed = match left.iter().find(|answer| answer.header.seq == header.seq) {
                    Some(answer) => format!("{} at port {}", told(&answer.header), answer.frame.port),
                    None => format!("{} other packets", left.len()),
                };
                return Err(ClauseBreach::stop(at, format!("{} at port {port}", told(&ack)), observed));
            };
            left.remove(at);
        }
        match left.first() {
            None => Ok(()),
            Some(answer) => Err(ClauseBreach::stop(
                format!("packets that come back of {} to the device", sent.len()),
                format!("{} acks", sent.len()),
                format!("{} more, the first {} at port {}", left.len(), told(&answer.header), answer.frame.port),
            )),
        }
    }

    /// Checks that no frame arrives.
    pub(super) fn silent(&mut self, after: &str) -> ProbeResult<()> {
        match self.answers(0)?.first() {
            None => Ok(()),
            Some(answer) => Err(ClauseBreach::stop(
                format!("packets that come back after {after}"),
                "none",
                format!("{} at port {}", told(&answer.header), answer.frame.port),
            )),
        }
    }

    /// Ends the iteration for all workers, the last ones in this order; checks that its results are the sums of all counted pushes.
    pub(super) fn finish(&mut self, order: &[usize]) -> ProbeResult<Vec<Answer>> {
        let results = self.results_after(order)?;
        self.has_sums(&results)?;
        Ok(results)
    }

    /// Does the same in random order.
    pub(super) fn finish_all(&mut self) -> ProbeResult<Vec<Answer>> {
        let order = self.any_order();
        self.finish(&order)
    }

    /// Sends the last missing end, and checks its ack and the results; returns the ack.
    pub(super) fn finish_acked(&mut self, last: usize) -> ProbeResult<Vec<Answer>> {
        let (end, mut seen) = (self.end(last)?, Vec::new());
        let results = self.results_seen(&mut seen)?;
        self.confirm(&results, &(0..self.workers.len()).collect::<Vec<_>>())?;
        seen.extend(self.probe.settle()?);
        self.has_sums(&results)?;
        let mut acks = self.at_workers(seen)?;
        acks.retain(|answer| answer.head.is_none());
        self.are_acks(&acks, &[(last, end)])?;
        Ok(acks)
    }

    /// Ends the iteration for these workers, the last missing ones; returns its results, which are acknowledged.
    pub(super) fn results_after(&mut self, order: &[usize]) -> ProbeResult<Vec<Answer>> {
        order.iter().try_for_each(|rank| self.end(*rank).map(|_| ()))?;
        let results = self.results()?;
        self.confirm(&results, &(0..self.workers.len()).collect::<Vec<_>>())?;
        self.settles()?;
        Ok(results)
    }

    /// Discards remaining acks and copies.
    pub(super) fn settles(&mut self) -> ProbeResult<()> {
        self.probe.settle().map(|_| ())
    }

    /// Returns the results of an iteration that all have ended, without acknowledging them; the next one begins.
    pub(super) fn results(&mut self) -> ProbeResult<Vec<Answer>> {
        self.results_seen(&mut Vec::new())
    }

    /// Does the same; appends all received frames to `seen`.
    pub(super) fn results_seen(&mut self, seen: &mut Vec<ProbeFrame>) -> ProbeResult<Vec<Answer>> {
        let (timeout, iteration) = (result_timeout(self.probe.ground), self.iteration());
        let step = timeout / LOOKS;
        let most = (step * (LOOKS / 2)).max(self.probe.ground.patience);
        let (mut results, mut waited) = (Vec::new(), 0);
        loop {
            let frames = self.probe.pass(step)?;
            seen.extend_from_slice(&frames);
            waited += step;
            results.extend(self.of_iteration(frames, iteration)?);
            if waited >= most || self.has_every_part(&results) {
                break;
            }
        }
        // Superfluous copies.
        let frames = self.probe.pass(step)?;
        seen.extend_from_slice(&frames);
        results.extend(self.of_iteration(frames, iteration)?);
        self.probe.memory.insert(ITERATION + u64::from(self.job), u64::from(iteration) + 1);
        self.note_results(&results);
        if results.is_empty() {
            let waited = Span::from_ps(waited);
            return Err(ClauseBreach::stop(self.at("results"), "sums", format!("none within {waited}")));
        }
        Ok(results)
    }

    /// Records that the device created these results of one iteration.
    fn note_results(&mut self, results: &[Answer]) {
        let parts = results.iter().filter_map(|answer| answer.head).map(|head| head.parts).max().unwrap_or(0);
        *self.probe.memory.entry(RESULTS + u64::from(self.job)).or_default() += u64::from(parts);
    }

    /// Returns the results of this iteration among these frames.
    fn of_iteration(&self, frames: Vec<ProbeFrame>, iteration: u32) -> ProbeResult<Vec<Answer>> {
        let mut results = Vec::new();
        for answer in self.at_workers(frames)? {
            let Some(head) = answer.head else { continue };
            same(&self.at("a result"), "iteration", iteration, head.iteration)?;
            results.push(answer);
        }
        Ok(results)
    }

    fn has_every_part(&self, results: &[Answer]) -> bool {
        let parts = results.iter().filter_map(|answer| answer.head).map(|head| head.parts).max().unwrap_or(1);
        self.workers.iter().all(|worker| {
            let own = self.results_of(*worker, results).filter_map(|answer| answer.head);
            own.map(|head| head.part).collect::<BTreeSet<_>>().len() >= usize::from(parts)
        })
    }

    /// Returns the results among these that reach a worker: those to its address or to that of its job.
    pub(super) fn results_of<'r>(&self, worker: u32, results: &'r [Answer]) -> impl Iterator<Item = &'r Answer> {
        let (ground, group) = (self.probe.ground, Some(group_ip(self.job)));
        results.iter().filter(move |answer| reaches(ground, worker, group, (answer.to.0, answer.frame.port)))
    }

    /// Acknowledges results from these workers, each number once.
    pub(super) fn confirm(&mut self, results: &[Answer], ranks: &[usize]) -> ProbeResult<()> {
        let numbers: BTreeSet<u32> = results.iter().map(|answer| answer.header.seq).collect();
        self.confirm_numbers(&numbers, ranks)
    }

    /// Acknowledges the results with these numbers from these workers.
    fn confirm_numbers(&mut self, numbers: &BTreeSet<u32>, ranks: &[usize]) -> ProbeResult<()> {
        for rank in ranks {
            for &seq in numbers {
                let header = Header { kind: Kind::Ack, attempt: 0, job: self.job as u8, seq };
                let frame = self.frame(*rank, &header, &[]);
                self.send_frame(*rank, &frame)?;
            }
        }
        Ok(())
    }

    /// Returns all packets during `span`, wherever they leave.
    pub(super) fn copies(&mut self, span: Time) -> ProbeResult<Vec<Answer>> {
        self.probe.pass(span)?.into_iter().map(read).collect()
    }

    /// Returns a description of the iteration as a place in a message.
    pub(super) fn at(&self, what: &str) -> String {
        format!("{what} of job {}", self.job)
    }

    /// Checks that results have the sums of the counted pushes; the next iteration begins without any.
    pub(super) fn has_sums(&mut self, results: &[Answer]) -> ProbeResult<()> {
        let (cells, error) = (std::mem::take(&mut self.cells), self.error());
        for worker in &self.workers {
            let mut came = BTreeSet::new();
            for (index, value) in self.results_of(*worker, results).flat_map(|answer| &answer.pairs) {
                came.insert(*index);
                let cell = cells.get(index).copied().unwrap_or_default();
                if !error.allows((*value).into(), cell.exact, cell.size, cell.members) {
                    return Err(ClauseBreach::stop(
                        self.at(&format!("parameter {index} in results at worker {worker}")),
                        format!("{} of {} pushes", cell.exact, cell.members),
                        value,
                    ));
                }
            }
            let missing = cells
                .iter()
                .find(|(index, cell)| !came.contains(index) && !error.allows(0.0, cell.exact, cell.size, cell.members));
            if let Some((index, cell)) = missing {
                return Err(ClauseBreach::stop(
                    self.at(&format!("parameter {index} in results at worker {worker}")),
                    format!("{} of {} pushes", cell.exact, cell.members),
                    "it is in none",
                ));
            }
        }
        Ok(())
    }

    /// Ends iterations that an earlier probe left unfinished, whatever their results.
    fn drain(&mut self) -> ProbeResult<()> {
        for rank in 0..self.workers.len() {
            self.fill_gaps(rank)?;
        }
        let first = self.next_result();
        let mut last: Option<u32> = None;
        // The device may have finished the first of them before: only the second one certainly has results now.
        for _ in 0..2 {
            for rank in 0..self.workers.len() {
                self.end_at_last(rank)?;
            }
            let results = self.own_results(result_timeout(self.probe.ground) / 4 + self.probe.ground.patience)?;
            last = last.max(results.iter().map(|answer| answer.header.seq).max());
            self.confirm(&results, &(0..self.workers.len()).collect::<Vec<_>>())?;
            self.settles()?;
            let next = self.iteration() + 1;
            self.probe.memory.insert(ITERATION + u64::from(self.job), next.into());
        }
        let Some(last) = last.filter(|last| *last >= first && *last - first < DRAINED_MOST) else { return Ok(()) };
        // Results of finished iterations that the earlier probe did not acknowledge.
        let numbers: BTreeSet<u32> = (first..=last).step_by(2).collect();
        self.confirm_numbers(&numbers, &(0..self.workers.len()).collect::<Vec<_>>())?;
        self.settles()?;
        self.probe.memory.insert(RESULTS + u64::from(self.job), u64::from(last / 2) + 1);
        Ok(())
    }

    /// Sends a worker's last numbers again: packets a window or more behind one that was lost may be dropped
    /// (docs/libra.md). Whatever the device lacks is a push of nothing, or the end of the iteration.
    fn fill_gaps(&mut self, rank: usize) -> ProbeResult<()> {
        let next = self.probe.memory.get(&u64::from(self.workers[rank])).copied().unwrap_or(0) as u32;
        let first = next.saturating_sub(2 * 2 * window_of(self.probe.ground) as u32);
        for (n, seq) in (first..next).step_by(2).enumerate() {
            // An end whose results never came is of an iteration that is over for the certifier alone.
            let end = self.probe.memory.get(&(ENDS + u64::from(self.workers[rank]))).copied();
            let (kind, rest) = match end.filter(|sent| *sent as u32 == seq) {
                Some(sent) => (Kind::End, ((sent >> 32) as u32).to_be_bytes().to_vec()),
                None => (Kind::Push, bytes_of(&[(0, 0.0)])),
            };
            let header = Header { kind, attempt: 1, job: self.job as u8, seq };
            let frame = self.frame(rank, &header, &rest);
            self.send_frame(rank, &frame)?;
            // No more at once than fit into a host's buffers.
            if n % AT_ONCE == AT_ONCE - 1 {
                self.settles()?;
            }
        }
        self.settles()
    }

    /// Ends the iteration for a worker; sends its end again if it was sent before.
    fn end_at_last(&mut self, rank: usize) -> ProbeResult<()> {
        match self.sent_end(rank) {
            Some(seq) => {
                let header = Header { kind: Kind::End, attempt: 1, job: self.job as u8, seq };
                self.send_end(rank, &header)
            }
            None => self.end(rank).map(drop),
        }
    }

    /// Returns the number of the end that a worker has sent in the iteration.
    fn sent_end(&self, rank: usize) -> Option<u32> {
        let sent = *self.probe.memory.get(&(ENDS + u64::from(self.workers[rank])))?;
        (sent >> 32 == u64::from(self.iteration())).then_some(sent as u32)
    }

    /// Returns the results of the job that arrive during `span`.
    fn own_results(&mut self, span: Time) -> ProbeResult<Vec<Answer>> {
        let (frames, job) = (self.probe.pass(span)?, self.job as u8);
        let answers = frames.into_iter().filter_map(|frame| read(frame).ok());
        Ok(answers.filter(|answer| answer.head.is_some() && answer.header.job == job).collect())
    }
}

/// Converts pairs to bytes.
pub(super) fn bytes_of(pairs: &[(u32, f32)]) -> Vec<u8> {
    let mut bytes = vec![0; pairs.len() * HOT_PAIR];
    emit_hot(pairs, &mut bytes);
    bytes
}

/// Describes a header.
pub(super) fn told(header: &Header) -> impl Display {
    let Header { kind, attempt, job, seq } = header;
    format!("{} {seq}, attempt {attempt}, job {job}", kind.name())
}

/// Parses a frame at a worker's port.
fn read(frame: ProbeFrame) -> ProbeResult<Answer> {
    let no = |frame: &ProbeFrame| {
        let what = format!("a frame of {} bytes at port {}", frame.bytes.len(), frame.port);
        ClauseBreach::stop(what, "a Libra packet", "none")
    };
    let Some(datagram) = Datagram::parse(&frame.bytes) else { return Err(no(&frame)) };
    let Some(header) = Header::parse(datagram.payload) else { return Err(no(&frame)) };
    let head = (header.kind == Kind::Result).then(|| ResultHead::parse(datagram.payload));
    let Some(head) = head.map_or(Some(None), |head| head.map(Some)) else { return Err(no(&frame)) };
    let pairs = if head.is_some() { hot_pairs(pairs(datagram.payload)).collect() } else { Vec::new() };
    let (from, to) = ((datagram.src, datagram.src_port), (datagram.dst, datagram.dst_port));
    Ok(Answer { header, head, pairs, from, to, frame })
}
