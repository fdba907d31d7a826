//! The parameter server of sparse runs: adds up pairs that no switch adds up, one message after another, and answers
//! (LIBRA §2.1, §3.6; `docs/libra.md`).
//!
//! Every message is acknowledged or answered when the server has processed it; messages are processed in the order of
//! arrival, at a rate of pairs per second. So the output leaves in the order of processing, later than the requests:
//! until then it waits in `due` in a compact form.

mod jobs;
mod outbound;
mod results;
pub(super) mod service;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::format::{self, COLD_PAIR, HEADER, Header};
use pktgen_core::Result;
use pktgen_core::config::Section;
use pktgen_core::record::{Counter, Heat, Received};
use pktgen_core::time::{NEVER, NS, Time};
use pktgen_core::topology::NodeId;

use super::reliable::{self, Reliable};
use super::seen::Seen;
use jobs::Job;
use outbound::Outbound;
use pktgen_engine::endpoint::{Delivery, Facts, Host, Server, ServerEnd, roster};
use pktgen_engine::frame::{BURST, Frame, Kind, Pool};
use results::{Ready, Results};
use service::Service;

/// Counters of which several servers also report the maximum.
pub(super) const BUSY: &str = "server.busy_ns";
pub(super) const PAIRS: &str = "server.pairs";

/// Reads the server's keys. Workers of `asynchronous` runs pull; others get results when all have ended an iteration.
pub(crate) fn open(section: &mut Section, facts: &Facts, asynchronous: bool) -> Result<SparseServer> {
    let service = Service::read(section, facts.real_time)?;
    let reliable = Reliable::read(section)?;
    let workers = facts.workers.len();
    let mut jobs: Vec<_> = (0..facts.workers.clusters_ever()).map(|_| Job::default()).collect();
    for job in &facts.workers.cluster_of {
        if let Some(job) = jobs.get_mut(usize::from(*job)) {
            job.workers += 1;
        }
    }
    Ok(SparseServer {
        outbound: Outbound::new(facts, 0),
        asynchronous,
        service,
        due: VecDeque::new(),
        waiting: 0,
        seen: vec![Seen::new(reliable.window); workers],
        ended: vec![0; workers],
        jobs,
        results: Results::new(reliable, workers),
        ready: Vec::new(),
        counts: Counts::default(),
    })
}

/// Output that leaves when the server has processed it.
#[derive(Debug, Clone, Copy)]
enum Due {
    /// An acknowledgement to a worker of a sequence number.
    Ack(u32, u32),
    /// The values that were pulled.
    Answer(Frame),
    /// The result for a worker with a number.
    Result(u32, u32),
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    packets: u64,
    duplicates: u64,
    results: u64,
    results_resent: u64,
    queue_max: u64,
}

/// The server.
pub(crate) struct SparseServer {
    outbound: Outbound,
    asynchronous: bool,
    service: Service,
    /// In chronological order.
    due: VecDeque<(Time, Due)>,
    /// Number of workers' packets in processing.
    waiting: u64,
    /// Arrivals of each worker, by number.
    seen: Vec<Seen>,
    /// Number of iterations that each worker has ended.
    ended: Vec<u32>,
    jobs: Vec<Job>,
    results: Results,
    ready: Vec<Ready>,
    counts: Counts,
}

impl SparseServer {
    /// Sets its number among several servers.
    pub(super) fn at(mut self, facts: &Facts, number: u32) -> Self {
        self.outbound = Outbound::new(facts, number);
        self
    }

    /// Returns its node.
    pub(super) fn node(&self) -> NodeId {
        self.outbound.node
    }

    fn receive(&mut self, frame: &Frame, pool: &mut Pool, host: &mut Host) {
        let known = match self.known(pool.payload(frame), frame.worker) {
            None => false,
            Some((header, number)) => match header.kind {
                format::Kind::Push if frame.kind == Kind::Update => {
                    return self.push(&header, number, frame, pool, host);
                }
                format::Kind::Pull if self.asynchronous => {
                    return self.pull_values(&header, number, frame, pool);
                }
                format::Kind::End => self.end(&header, number, frame, pool.payload(frame)),
                format::Kind::Ack => {
                    // A duplicate is not an error.
                    self.results.acknowledged(frame.worker, number, &mut self.ready);
                    self.serve_ready(frame.t);
                    true
                }
                _ => false,
            },
        };
        host.foreign += u64::from(!known);
        pool.release(frame.buffer);
    }

    /// Returns the header of a packet that a worker of its job may have sent here, and its number among those.
    fn known(&self, payload: &[u8], worker: u32) -> Option<(Header, u32)> {
        let header = Header::parse(payload).filter(Header::is_cold)?;
        let number = self.outbound.number_of(header.seq)?;
        let job = self.outbound.job_of(worker)?;
        let can_be = header.kind == format::Kind::Ack || self.seen[worker as usize].can_be(number);
        (job == u16::from(header.job) && usize::from(job) < self.jobs.len() && can_be).then_some((header, number))
    }

    /// Queues output that is ready after processing `pairs` more pairs.
    fn serve(&mut self, t: Time, pairs: usize, due: Due) {
        self.due.push_back((self.service.serve(t, pairs), due));
    }

    /// Does the same for a packet of a worker.
    fn serve_packet(&mut self, t: Time, pairs: usize, due: Due) {
        self.counts.packets += 1;
        self.waiting += 1;
        self.counts.queue_max = self.counts.queue_max.max(self.waiting);
        self.serve(t, pairs, due);
    }

    /// Acknowledges every push, and adds it once (LIBRA §3.6). A repeated one is recognised by its number: its pairs take no time.
    fn push(&mut self, header: &Header, number: u32, frame: &Frame, pool: &Pool, host: &mut Host) {
        let worker = frame.worker as usize;
        let pairs = &pool.payload(frame)[HEADER..];
        let accepted = self.seen[worker].first(number);
        let job = &mut self.jobs[usize::from(header.job)];
        match (accepted, self.asynchronous) {
            (true, false) => job.push(self.ended[worker], frame.worker, number, pairs),
            (true, true) => job.keep(pairs),
            (false, _) => self.counts.duplicates += 1,
        }
        let taken = if accepted { pairs.len() / COLD_PAIR } else { 0 };
        self.serve_packet(frame.t, taken, Due::Ack(frame.worker, header.seq));
        host.deliveries.push(Delivery {
            row: Received {
                accepted,
                heat: Some(Heat::Cold),
                ..roster::received_in_training(frame, self.outbound.node)
            },
            frame: *frame,
        });
    }

    /// Answers a pull with the current sums, which are those at its turn.
    fn pull_values(&mut self, header: &Header, number: u32, frame: &Frame, pool: &mut Pool) {
        self.seen[frame.worker as usize].first(number);
        let answer = Frame { buffer: pool.unshare(frame.buffer), ..self.outbound.back(frame) };
        let payload = pool.payload_mut(&answer);
        Header { kind: format::Kind::Result, ..*header }.emit(payload);
        self.jobs[usize::from(header.job)].read(&mut payload[HEADER..]);
        let pairs = (payload.len() - HEADER) / COLD_PAIR;
        self.serve_packet(frame.t, pairs, Due::Answer(answer));
    }

    /// Records that a worker has pushed all of an iteration. When all workers of its job have, their pushes are
    /// answered with the sums. Returns false if it is impossible.
    fn end(&mut self, header: &Header, number: u32, frame: &Frame, payload: &[u8]) -> bool {
        let Some(iteration) = payload[HEADER..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) else {
            return false;
        };
        let worker = frame.worker as usize;
        let first = !self.seen[worker].has(number);
        if first && !self.asynchronous && iteration != self.ended[worker] {
            return false;
        }
        self.seen[worker].first(number);
        self.serve_packet(frame.t, 0, Due::Ack(frame.worker, header.seq));
        if first && !self.asynchronous {
            self.ended[worker] += 1;
            self.jobs[usize::from(header.job)].end(iteration);
            self.answer(usize::from(header.job), frame.t);
        }
        true
    }

    /// Answers the pushes of iterations that all workers of a job have ended, in the order of arrival.
    fn answer(&mut self, job: usize, t: Time) {
        while let Some(mut pushed) = self.jobs[job].close() {
            pushed.pairs = self.results.add(pushed.pairs, &pushed.pushes, &mut self.ready);
            self.jobs[job].reuse(pushed);
            self.serve_ready(t);
        }
    }

    /// Queues results among the arrivals.
    fn serve_ready(&mut self, t: Time) {
        let mut ready = std::mem::take(&mut self.ready);
        for (worker, number, bytes) in ready.drain(..) {
            self.serve(t, bytes / COLD_PAIR, Due::Result(worker, number));
        }
        self.ready = ready;
    }

    /// Sends the output that is ready by `until`, at most a burst.
    fn emit(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        while host.outgoing.len() < BURST && self.next_due() <= until {
            let Some((t, due)) = self.due.pop_front() else { return };
            self.waiting -= u64::from(!matches!(due, Due::Result(..)));
            let frame = match due {
                Due::Ack(worker, seq) => {
                    host.acks_sent += 1;
                    self.outbound.packet((t, worker), format::Kind::Ack, (0, seq), &[], pool)
                }
                Due::Answer(frame) => Frame { t, ..frame },
                Due::Result(worker, number) => {
                    let Some((attempt, pairs)) = self.results.leave(worker, number, t) else { continue };
                    self.counts.results += u64::from(attempt == 0);
                    self.counts.results_resent += u64::from(attempt > 0);
                    let what = (attempt, self.outbound.seq(number));
                    self.outbound.packet((t, worker), format::Kind::Result, what, pairs, pool)
                }
            };
            self.outbound.send(frame, pool, host);
        }
    }

    fn next_due(&self) -> Time {
        self.due.front().map_or(NEVER, |(t, _)| *t)
    }

    fn unfinished(&self) -> Option<String> {
        let (count, worker) = self.results.given_up?;
        Some(format!(
            "the server gave up {count} results that were sent {} times and never acknowledged, the first for worker {worker}: the \
             network loses too much, or endpoint.timeout is shorter than a round trip",
            1 + u32::from(reliable::RESENDS)
        ))
    }
}

impl Server for SparseServer {
    fn next_wake(&self) -> Time {
        self.next_due().min(self.results.next_timer())
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        while host.outgoing.len() < BURST {
            let timer = self.results.next_timer();
            if self.next_due() <= until.min(timer) {
                self.emit(until.min(timer), pool, host);
            } else if timer <= until {
                self.results.time_out(&mut self.ready);
                self.serve_ready(timer);
            } else {
                break;
            }
        }
    }

    fn on_burst(&mut self, _node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            self.receive(frame, pool, host);
            // A server without processing time answers immediately.
            self.emit(frame.t, pool, host);
        }
    }

    fn end(&self, worked: Option<Time>) -> ServerEnd {
        let Counts { packets, duplicates, results, results_resent, queue_max } = self.counts;
        let busy = self.service.busy() + worked.unwrap_or(0);
        let counters = vec![
            Counter::sum(BUSY, (busy / NS).max(0) as u64),
            Counter::sum("server.packets", packets),
            Counter::sum(PAIRS, self.service.pairs()),
            Counter::sum("server.duplicates", duplicates),
            Counter::sum("server.results", results),
            Counter::sum("server.results_resent", results_resent),
            Counter::largest("server.queue_max", queue_max),
        ];
        ServerEnd { unfinished: self.unfinished(), counters, held: 0 }
    }
}
