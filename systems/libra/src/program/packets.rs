//! Handling of each kind of packet for the switch.

use crate::format::{HEADER, HOT_PAIR, Header, Kind as Wire, RESULT_HEAD, RESULT_PAIRS, ResultHead, emit_hot};
use pktgen_core::record::{Action, PacketId, Reason};
use pktgen_core::time::Time;
use pktgen_core::topology::NodeId;
use pktgen_wire::wire::frame::{HEAD, Template, set_udp_checksum};
use pktgen_workload::sparse::pipeline::{Passes, passes};

use super::Libra;
use super::job::Verdict;
use super::line::To;
use super::ranks::Ranks;
use super::records::Seen;
use super::results::{Kept, RESENDS, delay};
use pktgen_engine::frame::{Frame, Kind};
use pktgen_engine::target::context::Context;

/// How a result is sent: its head, number and attempt.
#[derive(Clone, Copy)]
struct Sending {
    t: Time,
    job: u16,
    number: u32,
    /// The only recipient, if it is one worker.
    alone: Option<u32>,
    /// The packet that caused it to leave, if no packet opened the sum.
    asked: PacketId,
    /// Its destination in frames.
    flow: NodeId,
}

impl Libra {
    /// Parses the pairs of a packet into `self.pairs`; returns its number of passes through the pipeline, or `None` if it was dropped.
    #[inline]
    fn read(&mut self, job: u8, frame: &Frame, context: &mut Context) -> Option<Passes> {
        let (job, known, rack) = (u16::from(job), &self.known, self.rack);
        let read = self.pairs.read(&context.pool.payload(frame)[HEADER..], self.hot);
        let several = known.shards.racks() > 1;
        if !read || (several && self.pairs.get().iter().any(|(index, _)| known.shards.rack_of(job, *index) != rack)) {
            context.drop(*frame, Reason::Malformed);
            return None;
        }
        // A register can be read and written once per pass (LIBRA §4).
        let found = passes(self.pairs.get(), known.layout(job, rack), &mut self.scratch);
        if found.recirculations() > self.known.max_recirculations {
            self.counts.too_many_passes += 1;
            context.drop(*frame, Reason::Malformed);
            return None;
        }
        Some(found)
    }

    /// Adds gradients (LIBRA §3.5) to their registers unless they were added before, and acknowledges them in any case (§3.6).
    #[inline]
    pub(super) fn push(&mut self, worker: u32, header: &Header, frame: &Frame, context: &mut Context) {
        self.counts.packets += 1;
        let Some(found) = self.read(header.job, frame, context) else { return };
        let (Some(member), Some(job)) =
            (self.members.get_mut(worker as usize), self.jobs.get_mut(usize::from(header.job)))
        else {
            return context.drop(*frame, Reason::UnknownJob);
        };
        // A packet that is not added need not be recirculated.
        let mut t = frame.t;
        match job.judge(self.settings.writes, worker, header, &member.record) {
            Verdict::Beyond => {
                self.counts.beyond += 1;
                return context.drop(*frame, Reason::TableFull);
            }
            Verdict::Copy => self.counts.copies += 1,
            Verdict::Duplicate { mistaken } => {
                self.counts.duplicates += 1;
                if mistaken {
                    self.counts.mistaken += 1;
                    member.record.take(header.seq >> 1, header.attempt);
                }
                context.books.dropped(frame.t, frame, Reason::Duplicate, None);
            }
            Verdict::Take { again } => {
                t = self.again.last_pass(t, found.max, frame.len, self.settings.latency);
                self.counts.add(found, self.pairs.get().len());
                match again {
                    true => self.counts.repeated += 1,
                    false => member.record.take(header.seq >> 1, header.attempt),
                }
                if let Some(bloom) = &mut job.bloom {
                    bloom.insert(worker, header.seq);
                }
                let opener = *job.opener.get_or_insert(frame.packet);
                job.registers.add(self.pairs.get(), &self.settings.adder);
                context.books.yields(frame.t, frame.packet, Action::Merged, opener);
            }
        }
        let frame = Frame { t: t.saturating_add(self.settings.look_up(header.attempt)), ..*frame };
        self.acknowledge(worker, header, &frame, context);
    }

    /// Replaces the frame by the ACK of its contents.
    #[inline]
    fn acknowledge(&mut self, worker: u32, header: &Header, frame: &Frame, context: &mut Context) {
        self.counts.acks += 1;
        let ack = Header { kind: Wire::Ack, seq: self.seq(header.seq >> 1), ..*header };
        self.reply(worker, frame, HEAD + HEADER, context, |payload| ack.emit(payload));
    }

    /// Sends the frame back to its worker with length `len` and the contents written by `write` after its headers, one pass from now.
    #[inline]
    fn reply(&mut self, worker: u32, frame: &Frame, len: usize, context: &mut Context, write: impl FnOnce(&mut [u8])) {
        let Some(member) = self.members.get_mut(worker as usize) else { return context.pool.release(frame.buffer) };
        let (cluster, flow) = (member.job, member.host.unwrap_or(frame.flow));
        let answer = Frame { worker, len: len as u16, cluster, flow, kind: Kind::Control, ..context.unshare(frame) };
        let bytes = &mut context.pool.bytes_mut(answer.buffer)[..len];
        member.alone.emit_to_fit(bytes);
        write(&mut bytes[HEAD..]);
        if self.place.udp_checksum {
            set_udp_checksum(bytes);
        }
        let to = To::Port(member.port);
        self.send(answer, to);
    }

    /// Records that a worker has pushed all of its iteration.
    pub(super) fn end(&mut self, worker: u32, header: &Header, frame: &Frame, context: &mut Context) {
        let Some(iteration) = context.pool.payload(frame)[HEADER..].first_chunk().map(|b| u32::from_be_bytes(*b))
        else {
            return context.drop(*frame, Reason::Malformed);
        };
        let (Some(member), Some(job)) =
            (self.members.get_mut(worker as usize), self.jobs.get_mut(usize::from(header.job)))
        else {
            return context.drop(*frame, Reason::UnknownJob);
        };
        let newer = member.ended.is_none_or(|last| iteration > last);
        // No worker ends an iteration before the others have ended the previous one, if this switch knows everything that was sent.
        if newer && job.ended.contains(member.rank) && !member.record.is_open() {
            return context.drop(*frame, Reason::Malformed);
        }
        match member.record.look(header.seq >> 1) {
            Seen::Beyond => {
                self.counts.beyond += 1;
                return context.drop(*frame, Reason::TableFull);
            }
            Seen::New => member.record.take(header.seq >> 1, header.attempt),
            Seen::Taken(_) => {}
        }
        if newer {
            self.counts.ends += 1;
            member.ended = Some(iteration);
            job.results.has_all(member.rank);
        }
        let rank = member.rank;
        let over = self.count_end(worker, rank, header.job, iteration, newer);
        let Some(job) = self.jobs.get(usize::from(header.job)) else { return };
        let all = newer && job.ended.len() == job.workers;
        self.trim_timers();
        let asked = *frame;
        if iteration >= self.known.sparse.iterations() && !self.have_all_left(header.job.into()) {
            return context.pool.release(frame.buffer);
        }
        if over {
            context.share(frame);
        }
        self.acknowledge(worker, header, frame, context);
        if over {
            self.tell_over(worker, header.job, iteration, asked, context);
        }
        if all {
            self.finish(header.job.into(), iteration, &asked, context);
        }
    }

    /// Whether no worker of this job waits for anything. Only then may one leave: its reports would be lost with the switch.
    fn have_all_left(&self, job: u16) -> bool {
        let last = self.known.sparse.iterations();
        let mut own = self.members.iter().filter(|member| member.job == job);
        own.all(|member| member.ended.is_some_and(|iteration| iteration >= last))
    }

    /// Records an end of `iteration`. Returns true if the iteration was over before this switch began: others have
    /// ended a later one and so had its results, and this worker's missing ones were lost with another switch.
    fn count_end(&mut self, worker: u32, rank: u32, job: u8, iteration: u32, newer: bool) -> bool {
        let number = u16::from(job);
        let Some(job) = self.jobs.get_mut(usize::from(number)) else { return false };
        let first = u32::from(number) * self.known.sparse.workers_per_job();
        let own = (first..first + job.workers).filter(|other| *other != worker);
        let ended = |other: u32| self.members.get(other as usize).and_then(|member| member.ended);
        let behind = own.clone().any(|other| ended(other).is_some_and(|last| last > iteration));
        if newer {
            for other in own.filter(|other| ended(*other).is_some_and(|last| last < iteration)) {
                job.ended.remove(self.known.sparse.rank_of(other));
            }
            // A worker that leaves reports this with an iteration that does not exist.
            if !behind && iteration < self.known.sparse.iterations() {
                job.ended.insert(rank);
            } else {
                job.ended.remove(rank);
            }
        }
        ended(worker) == Some(iteration) && behind && job.finished.is_none_or(|finished| finished < iteration)
    }

    /// Sends an empty result to a worker that waits for a lost one.
    fn tell_over(&mut self, worker: u32, number: u8, iteration: u32, asked: Frame, context: &mut Context) {
        let (Some(member), Some(job)) = (self.members.get_mut(worker as usize), self.jobs.get(usize::from(number)))
        else {
            return context.pool.release(asked.buffer);
        };
        if member.missed.replace(iteration) != Some(iteration) {
            self.counts.missed += 1;
        }
        let next = job.results.next();
        let seq = self.seq(next.wrapping_sub(1));
        self.reply(worker, &asked, HEAD + HEADER + RESULT_HEAD, context, |payload| {
            Header { kind: Wire::Result, attempt: 0, job: number, seq }.emit(payload);
            ResultHead { part: 0, parts: 1, iteration, opener: None }.emit(payload);
        });
    }

    /// Ends an iteration that all workers ended: sends its sums to all of them and clears the registers.
    fn finish(&mut self, number: u16, iteration: u32, asked: &Frame, context: &mut Context) {
        let Some(job) = self.jobs.get_mut(usize::from(number)) else { return };
        job.finished = Some(iteration);
        job.ended = Ranks::default();
        let opener = job.opener.take();
        let parts = job.registers.used().count().div_ceil(RESULT_PAIRS).max(1) as u16;
        let (latency, missing) = (self.settings.latency, Ranks::first(job.workers));
        let due = asked.t.saturating_add(latency).saturating_add(self.settings.result_timeout);
        let mut used = job.registers.used();
        let first = job.results.next();
        for part in 0..parts {
            let mut pairs = [(0, 0.0); RESULT_PAIRS];
            let mut len = 0;
            for (room, pair) in pairs.iter_mut().zip(&mut used) {
                *room = pair;
                len += 1;
            }
            job.results.keep(Kept::new(opener, ((part, parts), iteration), missing, due, &pairs[..len]));
        }
        drop(used);
        job.registers.clear();
        // Packets that the network delays beyond this are new to a filter again.
        if let Some(bloom) = job.bloom.as_mut().filter(|_| !self.known.asynchronous) {
            bloom.clear();
        }
        self.counts.sums += u64::from(opener.is_some());
        for part in 0..parts {
            let number_of = first.wrapping_add(part.into());
            self.timers.push(due, number, number_of, 0);
            self.counts.results += 1;
            let sending = Sending {
                t: asked.t,
                job: number,
                number: number_of,
                alone: None,
                asked: asked.packet,
                flow: asked.flow,
            };
            self.send_result(sending, To::Everyone { first: part == 0 }, context);
        }
    }

    /// Sends a stored result.
    fn send_result(&mut self, sending: Sending, to: To, context: &mut Context) {
        let Sending { t, job: number, alone, asked, flow, .. } = sending;
        let seq = self.seq(sending.number);
        let Some(job) = self.jobs.get_mut(usize::from(number)) else { return };
        let Some(kept) = job.results.get(sending.number) else { return };
        let len = HEAD + HEADER + RESULT_HEAD + kept.pairs().len() * HOT_PAIR;
        let buffer = context.pool.take();
        let Some(bytes) = context.pool.bytes_mut(buffer).get_mut(..len) else {
            self.counts.no_room += 1;
            return context.pool.release(buffer);
        };
        let headers: &mut Template = match alone.and_then(|worker| self.members.get_mut(worker as usize)) {
            Some(member) => &mut member.alone,
            None => &mut job.all,
        };
        headers.emit_to_fit(bytes);
        Header { kind: Wire::Result, attempt: kept.attempt, job: number as u8, seq }.emit(&mut bytes[HEAD..]);
        let (part, parts) = kept.part;
        ResultHead { part, parts, iteration: kept.iteration, opener: kept.opener }.emit(&mut bytes[HEAD..]);
        emit_hot(kept.pairs(), &mut bytes[HEAD + HEADER + RESULT_HEAD..]);
        if self.place.udp_checksum {
            set_udp_checksum(bytes);
        }
        let packet = kept.opener.unwrap_or(asked);
        let frame = Frame {
            t,
            packet,
            buffer,
            worker: alone.unwrap_or(packet.worker()),
            len: len as u16,
            cluster: number,
            flow,
            head: HEAD as u8,
            // A result without a sum contains nothing from workers: it has no place in the ledger.
            kind: if kept.opener.is_some() { Kind::Result } else { Kind::Control },
        };
        self.send(frame, to);
    }

    /// Sends a result that was not acknowledged in time to each worker that lacks it (LIBRA §3.6).
    pub(super) fn resend(&mut self, number: u16, result: u32, context: &mut Context) {
        let Some(job) = self.jobs.get_mut(usize::from(number)) else { return };
        let Some(kept) = job.results.get(result) else { return };
        let missing = kept.missing;
        if kept.attempt >= RESENDS {
            self.counts.given_up += u64::from(missing.len());
            kept.missing = Ranks::default();
            job.results.trim();
            return;
        }
        kept.attempt += 1;
        let attempt = kept.attempt;
        let wait = delay(self.settings.result_timeout, attempt);
        // The CPU has the copies (§3.6).
        let t = self.now.saturating_add(self.settings.cpu_latency);
        kept.due = t.saturating_add(self.settings.latency).saturating_add(wait);
        self.timers.push(kept.due, number, result, attempt);
        let before = u32::from(number) * self.known.sparse.workers_per_job();
        for rank in missing.iter() {
            let worker = before + rank;
            let Some((port, host)) = self.members.get(worker as usize).map(|own| (own.port, own.host)) else {
                continue;
            };
            self.counts.resent += 1;
            let asked = PacketId::new(worker, 0, 0);
            let flow = host.unwrap_or(self.place.server);
            let sending = Sending { t, job: number, number: result, alone: Some(worker), asked, flow };
            self.send_result(sending, To::Port(port), context);
        }
    }

    /// Records that a worker has a result.
    pub(super) fn acknowledged(&mut self, worker: u32, header: &Header, frame: &Frame, context: &mut Context) {
        self.counts.confirmed += 1;
        if let (Some(member), Some(job)) =
            (self.members.get(worker as usize), self.jobs.get_mut(usize::from(header.job)))
        {
            job.results.acknowledged(member.rank, header.seq >> 1);
        }
        self.trim_timers();
        context.pool.release(frame.buffer);
    }

    /// Forgets timers of results that all workers have, so that they cause no wake-ups.
    fn trim_timers(&mut self) {
        let jobs = &mut self.jobs;
        self.timers
            .trim(|job, number| jobs.get_mut(usize::from(job)).is_some_and(|job| job.results.get(number).is_some()));
    }

    /// Answers a worker's pull: returns its packet with the values of the registers.
    pub(super) fn pull(&mut self, worker: u32, header: &Header, frame: &Frame, context: &mut Context) {
        let Some(found) = self.read(header.job, frame, context) else { return };
        let (Some(member), Some(job)) = (self.members.get_mut(worker as usize), self.jobs.get(usize::from(header.job)))
        else {
            return context.drop(*frame, Reason::UnknownJob);
        };
        match member.record.look(header.seq >> 1) {
            Seen::Beyond => {
                self.counts.beyond += 1;
                return context.drop(*frame, Reason::TableFull);
            }
            // Repeated pulls are answered again; they are recorded so that the numbers have no gaps.
            Seen::New => member.record.take(header.seq >> 1, header.attempt),
            Seen::Taken(_) => {}
        }
        self.counts.pulls += 1;
        self.pairs.fill(|index| job.registers.get(index));
        let pairs = self.pairs;
        let t = self.again.last_pass(frame.t, found.max, frame.len, self.settings.latency);
        let frame = Frame { t, ..*frame };
        self.reply(worker, &frame, usize::from(frame.len), context, |payload| {
            emit_hot(pairs.get(), &mut payload[HEADER..]);
        });
    }
}
