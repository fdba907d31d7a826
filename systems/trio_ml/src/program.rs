//! Trio-ML: in-network aggregation with straggler mitigation on a Trio router (Trio §4, §5, §6.3, A.1).
//!
//! Contributions of a job's sources are added up per block; the Result goes down to all workers of the job or, on a device below another,
//! up as one more contribution. Timer threads give up blocks that were not touched for a while. The outcome of a packet is decided when it
//! arrives, in the order of arrival; the chip ([`Chip`]) determines the processing time: a Result leaves when the threads of all its
//! members have ended. docs/trio.md explains what the paper specifies and what is our choice.

mod job;
mod late;
mod mask;
mod outlet;
mod settings;
mod stragglers;
mod table;
#[cfg(test)]
mod tests;
mod timers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::format::{AGED, Header, PORT, values};
use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::{Action, Counter, Reason};
use pktgen_core::registry::Named;
use pktgen_core::time::{MS, NEVER, Time};
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::target_port;
use pktgen_wire::wire::integers::{add_values, set_values};

use crate::chip::{self, Chip, ChipSettings};
use job::JobRecord;
use late::is_newer;
use pktgen_engine::frame::{Frame, Kind};
use pktgen_engine::target::context::Context;
use pktgen_engine::target::program::{Expected, Limits, Place, Program, ProgramKind};
use settings::Settings;
use stragglers::SlowTimer;
use table::{BlockRecord, Table};
use timers::Scanner;

/// `program = "trio_ml"`.
pub(crate) struct TrioMlKind;

impl Named for TrioMlKind {
    fn name(&self) -> &'static str {
        "trio_ml"
    }
    fn about(&self) -> &'static str {
        "sums blocks of gradients per job, gives up on stragglers, multicasts results"
    }
}

impl ProgramKind for TrioMlKind {
    fn keys(&self) -> KeyTables {
        &[settings::Timeouts::KEYS, settings::Written::KEYS, chip::Which::KEYS, chip::Written::KEYS]
    }

    fn format(&self) -> Option<&'static str> {
        Some("trio_ml")
    }

    fn expected(&self, per_cluster: u32) -> Expected {
        Expected::Sums(per_cluster)
    }

    fn queue(&self) -> &'static str {
        "fifo"
    }

    fn open(&self, section: &mut Section, place: Place) -> Result<Box<dyn Program>> {
        let settings = Settings::read(section, &place)?;
        let chip = ChipSettings::read(section, place.real_time)?.map(Chip::new);
        check(&place)?;
        Ok(Box::new(TrioMl::new(settings, chip, place)))
    }
}

/// Checks that the jobs fit the header's 8-bit fields (Figure 8).
fn check(place: &Place) -> Result<()> {
    if place.jobs.len() > 256 {
        return Err(Error::config(format!(
            "workload.clusters: {} jobs; a Trio-ML packet names one of 256; use fewer, or another target.program",
            place.jobs.len()
        )));
    }
    for (id, job) in place.jobs.iter().enumerate() {
        let workers: u32 = job.sources.iter().map(|source| u32::from(source.workers)).sum();
        if workers > 255 {
            return Err(Error::config(format!(
                "workload.workers_per_cluster: job {id} has {workers} workers at this device; a Trio-ML packet counts up \
                 to 255; use fewer"
            )));
        }
    }
    Ok(())
}

/// Counters for the manifest.
#[derive(Default)]
struct Counts {
    results: u64,
    degraded: u64,
    aged: u64,
    /// Total time from opening to giving up of all blocks that timed out.
    aged_after_ps: u64,
    evicted: u64,
    late: u64,
    duplicates: u64,
    packets: u64,
    packet_time_ps: u64,
    records_max: u64,
    notifications: u64,
    late_evicted: u64,
    permanent_stragglers: u64,
    temporary_stragglers: u64,
    removed_stragglers: u64,
    readmitted_stragglers: u64,
}

/// Outcome of a contribution.
enum Way {
    /// It opens a new record; the packet may be late.
    Open { late: bool },
    /// It joins the record of its block.
    Join(u32),
    /// The record of its block belongs to an earlier iteration; the packet may be late all the same.
    Replace { old: u32, late: bool },
    /// It opens a record in the place of one that a late packet opened.
    MakeRoom(u32),
}

struct TrioMl {
    place: Place,
    settings: Settings,
    /// By id; `None` for jobs without workers here.
    jobs: Vec<Option<JobRecord>>,
    table: Table,
    /// One set of timer threads for each timeout of the device's jobs.
    scanners: Vec<Scanner>,
    slow: SlowTimer,
    chip: Option<Chip>,
    /// Results that the chip is still creating: departure times, in the order of decision.
    leaving: BinaryHeap<Reverse<(Time, u64, u32)>>,
    decided: u64,
    counts: Counts,
}

impl TrioMl {
    fn new(settings: Settings, chip: Option<Chip>, place: Place) -> Self {
        let mut scanners: Vec<Scanner> = Vec::new();
        let mut jobs: Vec<Option<JobRecord>> = Vec::new();
        for (id, at) in place.jobs.iter().enumerate() {
            let job = (!at.sources.is_empty()).then(|| {
                let mut job = JobRecord::new(id as u8, at, &settings, place.jobs.len());
                let class = scanners.iter().position(|scanner| scanner.period() == job.timeout());
                job.class = class.unwrap_or_else(|| {
                    scanners.push(Scanner::new(job.timeout(), settings.timers));
                    scanners.len() - 1
                });
                job
            });
            jobs.push(job);
        }
        TrioMl {
            table: Table::new(settings.block_grad_max, settings.timers, scanners.len().max(1)),
            slow: SlowTimer::new(settings.mitigation.then_some(settings.straggler_interval)),
            leaving: BinaryHeap::new(),
            decided: 0,
            counts: Counts::default(),
            place,
            settings,
            jobs,
            scanners,
            chip,
        }
    }

    /// Returns when the first Result leaves.
    #[inline]
    fn leaves(&self) -> Time {
        self.leaving.peek().map_or(NEVER, |Reverse((t, ..))| *t)
    }

    /// Returns when the next timer thread starts, and the index of its timeout.
    #[inline]
    fn scans(&self) -> (Time, usize) {
        if !self.settings.mitigation {
            return (NEVER, 0);
        }
        let due = self.scanners.iter().enumerate().map(|(class, scanner)| (scanner.due(), class));
        due.min().unwrap_or((NEVER, 0))
    }

    /// Processes all scheduled events up to and including `t`: Results leave before timers tick.
    fn advance(&mut self, t: Time, context: &mut Context) {
        loop {
            let (leaves, (scans, class), slow) = (self.leaves(), self.scans(), self.slow.due(self.table.live()));
            let now = leaves.min(scans).min(slow);
            if now > t || now == NEVER {
                return;
            }
            if leaves == now {
                if let Some(Reverse((_, _, index))) = self.leaving.pop() {
                    self.send(now, index, context);
                }
            } else if scans == now {
                self.scan(now, class, context);
            } else {
                self.judge_stragglers(now, context);
            }
        }
    }

    /// Lets a timer thread visit its part of the table (§5): a record whose REF flag is clear has timed out; the flag
    /// of others is cleared.
    fn scan(&mut self, t: Time, class: usize, context: &mut Context) {
        let part = self.scanners[class].tick();
        let mut at = self.table.first(class, part);
        while let Some(index) = at {
            at = self.table.next(index);
            let record = self.table.get_mut(index);
            if std::mem::take(&mut record.referenced) {
                continue;
            }
            record.aged = true;
            let (id, received, late) = (record.job, record.rcvd_mask, record.late);
            self.counts.aged += 1;
            self.counts.aged_after_ps += (t - record.block_start_time) as u64;
            if let Some(job) = &mut self.jobs[usize::from(id)]
                && !late
            {
                // Sources that were on time did not miss the second record of a block that a straggler opened.
                job.watch.aged(job.src_mask.minus(&received));
            }
            self.give_up(t, index, context);
        }
    }

    /// Ends a record before it is complete: its partial Result is sent by a thread of its own (§5).
    fn give_up(&mut self, t: Time, index: u32, context: &mut Context) {
        let record = self.table.get_mut(index);
        record.degraded = true;
        let (summed, gradients) = (record.summed, record.grad_cnt);
        let done = self.chip.as_mut().map_or(t, |chip| chip.result_apart(t, summed, gradients));
        self.finish(t, index, done, context);
    }

    /// Removes a record from the table at `t`; its Result leaves the device when it is `done`.
    fn finish(&mut self, t: Time, index: u32, done: Time, context: &mut Context) {
        let BlockRecord { job, block, generation, .. } = *self.table.get(index);
        self.table.remove(index);
        if let Some(job) = &mut self.jobs[usize::from(job)] {
            job.block_curr_cnt -= 1;
            job.finished.remember(block, generation);
            self.scanners[job.class].removed();
        }
        if done <= t {
            return self.send(t, index, context);
        }
        self.leaving.push(Reverse((done, self.decided, index)));
        self.decided += 1;
    }

    /// Sends a Result.
    fn send(&mut self, t: Time, index: u32, context: &mut Context) {
        let record = self.table.get(index);
        if let Some(job) = &mut self.jobs[usize::from(record.job)] {
            let degraded = outlet::result(t, record, self.table.sums(index), job, &self.place, context);
            self.counts.results += 1;
            self.counts.degraded += u64::from(degraded);
        }
        self.table.release(index);
    }

    /// Handles a tick of the slow timer (§5, "Advanced straggler mitigation").
    fn judge_stragglers(&mut self, t: Time, context: &mut Context) {
        self.slow.tick(t);
        for (id, job) in self.jobs.iter_mut().enumerate() {
            let Some(job) = job else { continue };
            let verdict = job.watch.judge(job.src_mask, &self.settings);
            for &source in &verdict.permanent {
                outlet::notify(t, id as u8, source, job, &self.place, context);
            }
            verdict.removed.iter().for_each(|source| job.src_mask.remove(*source));
            verdict.readmitted.iter().for_each(|source| job.src_mask.insert(*source));
            job.src_cnt = job.src_mask.count() as u8;
            let counts = &mut self.counts;
            counts.notifications += verdict.permanent.len() as u64;
            counts.permanent_stragglers += verdict.permanent.len() as u64;
            counts.temporary_stragglers += verdict.temporary;
            counts.removed_stragglers += verdict.removed.len() as u64;
            counts.readmitted_stragglers += verdict.readmitted.len() as u64;
        }
    }

    /// Returns how a contribution is handled, or why it is refused (§4, "Trio-ML aggregation Microcode program workflow").
    #[inline]
    fn judge(&mut self, header: &Header, is_copy: bool) -> Result<Way, Reason> {
        if header.age_op > AGED {
            return Err(Reason::Malformed);
        }
        let Some(job) = self.jobs.get_mut(usize::from(header.job)).and_then(Option::as_mut) else {
            return Err(Reason::UnknownJob);
        };
        let found = self.table.find(header.job, header.block);
        if let Some(index) = found {
            // §5: every lookup that finds a record sets its REF flag, whatever the outcome of the packet.
            self.table.get_mut(index).referenced = true;
        }
        // Figure 17: the mask contains the participants.
        if !job.src_mask.has(header.source) {
            // No block waits for a removed source; its contributions still count (our choice).
            if !job.watch.hear(header.source) {
                return Err(Reason::UnknownSource);
            }
            self.slow.heard = true;
        }
        // An impossible count would make that of the Result wrong, which receivers divide by (§5).
        let workers = job.workers_of[usize::from(header.source)];
        if header.sources == 0 || header.sources > workers || header.elements > job.block_grad_max {
            return Err(Reason::WrongCount);
        }
        // Behind the checks that a copy fails as its original does.
        if is_copy {
            self.counts.duplicates += 1;
            return Err(Reason::Duplicate);
        }
        let Some(index) = found else {
            let late = job.finished.knows(header.block, header.generation);
            self.counts.late += u64::from(late);
            if late && self.settings.tombstones {
                return Err(Reason::Late);
            }
            // §4: the limit on blocks shares memory between jobs.
            if job.block_curr_cnt < job.block_cnt_max {
                return Ok(Way::Open { late });
            }
            // Late records are useless and must not block those that are needed (our choice).
            let oldest = if late { None } else { job.oldest_late(&self.table) };
            return oldest.map(Way::MakeRoom).ok_or(Reason::TableFull);
        };
        let record = self.table.get(index);
        // §4: the generation distinguishes blocks of consecutive iterations.
        if header.generation != record.generation {
            if !is_newer(header.generation, record.generation) {
                return Err(Reason::Stale);
            }
            // A late packet of an even earlier iteration may have opened the record.
            let late = job.finished.knows(header.block, header.generation);
            self.counts.late += u64::from(late);
            return Ok(Way::Replace { old: index, late });
        }
        // §4: the source identifies retransmissions.
        if record.rcvd_mask.has(header.source) {
            self.counts.duplicates += 1;
            return Err(Reason::Duplicate);
        }
        if header.elements != record.grad_cnt { Err(Reason::WrongCount) } else { Ok(Way::Join(index)) }
    }

    /// Handles an update.
    #[inline]
    fn contribute(&mut self, frame: &Frame, context: &mut Context) {
        // §4: packets to other UDP ports are not Trio-ML.
        let is_own = target_port(context.pool.frame(frame)) == PORT;
        let Some(header) = Header::parse(context.pool.payload(frame)).filter(|_| is_own) else {
            return context.drop(*frame, Reason::Malformed);
        };
        let index = match self.judge(&header, frame.is_copy()) {
            Ok(Way::Join(index)) => {
                let opener = self.table.get(index).opener;
                context.books.yields(frame.t, frame.packet, Action::Merged, opener);
                add_values(self.table.sums_mut(index), values(context.pool.payload(frame), &header));
                index
            }
            Ok(Way::Open { late }) => self.open(frame, &header, late, context),
            Ok(Way::Replace { old, late }) => {
                // The paper does not specify this; its servers have finished the earlier iteration, so its partial sum leaves.
                self.counts.evicted += 1;
                self.table.get_mut(old).aged = true;
                self.give_up(frame.t, old, context);
                self.open(frame, &header, late, context)
            }
            Ok(Way::MakeRoom(late)) => {
                self.counts.late_evicted += 1;
                self.table.get_mut(late).aged = true;
                self.give_up(frame.t, late, context);
                self.open(frame, &header, false, context)
            }
            Err(reason) => {
                if let Some(chip) = &mut self.chip {
                    chip.refuse(frame.t);
                }
                return context.drop(*frame, reason);
            }
        };
        context.pool.release(frame.buffer);
        self.account(frame.t, index, &header, context);
    }

    /// Creates the record of a block for its first packet (§4, "Block records").
    fn open(&mut self, frame: &Frame, header: &Header, late: bool, context: &mut Context) -> u32 {
        let mut record = BlockRecord::new(header.job, header.block, frame.packet, frame.t);
        record.generation = header.generation;
        record.grad_cnt = header.elements;
        record.source = header.source;
        record.late = late;
        let mut class = 0;
        if let Some(job) = &mut self.jobs[usize::from(header.job)] {
            job.block_curr_cnt += 1;
            job.block_total_cnt += 1;
            class = job.class;
            self.scanners[class].created(frame.t);
        }
        let index = self.table.insert(record, class);
        if let (true, Some(job)) = (late, &mut self.jobs[usize::from(header.job)]) {
            job.opened_late((index, header.block, frame.packet), &self.table);
        }
        self.counts.records_max = self.counts.records_max.max(u64::from(self.table.live()));
        context.books.passes(frame.t, frame, Action::Queued);
        set_values(self.table.sums_mut(index), values(context.pool.payload(frame), header));
        index
    }

    /// Records a contribution that is in the sums: it counts, takes its time, and may complete the block.
    #[inline]
    fn account(&mut self, t: Time, index: u32, header: &Header, context: &mut Context) {
        let record = self.table.get_mut(index);
        record.rcvd_mask.insert(header.source);
        record.rcvd_cnt += 1;
        // Fits into 8 bits: no source states more workers than it represents, and all represent at most 255.
        record.src_cnt += header.sources;
        record.last |= header.last;
        record.degraded |= header.degraded;
        record.aged |= header.age_op == AGED;
        let summed = self.chip.as_mut().map_or(t, |chip| chip.add(t, header.elements)).max(record.summed);
        record.summed = summed;
        let received = record.rcvd_mask;
        // §4: complete when all sources of the job are included; then this thread creates the Result.
        let job = self.jobs[usize::from(header.job)].as_ref();
        let complete = job.is_some_and(|job| job.src_mask.minus(&received).is_empty());
        let mut done = summed;
        if let Some(chip) = &mut self.chip {
            if complete {
                done = chip.result(summed, header.elements);
            }
            chip.end(done);
        }
        self.counts.packets += 1;
        self.counts.packet_time_ps += (done - t) as u64;
        if complete {
            self.finish(t, index, done, context);
        }
    }
}

impl Program for TrioMl {
    fn on_burst(&mut self, burst: &[Frame], context: &mut Context) {
        for frame in burst {
            self.advance(frame.t, context);
            if self.slow.is_overdue(frame.t) {
                self.judge_stragglers(frame.t, context);
            }
            match frame.kind {
                Kind::Update => self.contribute(frame, context),
                Kind::Result => outlet::pass_down(frame, &self.jobs, context),
                Kind::Plain | Kind::Control | Kind::Request => context.drop(*frame, Reason::Malformed),
            }
        }
    }

    fn next_wake(&self) -> Time {
        self.leaves().min(self.scans().0).min(self.slow.due(self.table.live()))
    }

    fn on_timer(&mut self, t: Time, context: &mut Context) {
        self.advance(t, context);
    }

    fn limits(&self) -> Limits {
        let room = Some((u32::from(self.settings.block_cnt_max), "target.block_cnt_max"));
        let elements = Some((self.settings.block_grad_max, "target.block_grad_max"));
        // Without mitigation nothing ages.
        let timeout = self.scanners.iter().map(Scanner::period).min().filter(|_| self.settings.mitigation);
        // Every lookup sets the REF flag, and the longest timer decides: the device above waits longer.
        let below = Time::from(self.settings.timeout_ms) * MS;
        let key = |silence: Time| if silence > below { "target.top_timeout" } else { "target.timeout" };
        let longest = timeout.and(self.scanners.iter().map(Scanner::period).max());
        let silence = longest.map(|silence| (silence, key(silence)));
        let final_results = self.settings.tombstones.then_some("target.tombstones");
        Limits { timeout, silence, final_results, room, elements, ..Limits::default() }
    }

    fn counters(&self) -> Vec<Counter> {
        let counts = &self.counts;
        vec![
            Counter::sum("blocks", self.jobs.iter().flatten().map(|job| job.block_total_cnt).sum()),
            Counter::sum("results", counts.results),
            Counter::sum("degraded", counts.degraded),
            Counter::sum("aged", counts.aged),
            Counter::sum("aged_after_ps", counts.aged_after_ps),
            Counter::sum("evicted", counts.evicted),
            Counter::sum("late", counts.late),
            Counter::sum("duplicates", counts.duplicates),
            Counter::sum("packets", counts.packets),
            Counter::sum("packet_time_ps", counts.packet_time_ps),
            Counter::largest("records_max", counts.records_max),
            Counter::sum("notifications", counts.notifications),
            Counter::sum("late_evicted", counts.late_evicted),
            Counter::sum("permanent_stragglers", counts.permanent_stragglers),
            Counter::sum("temporary_stragglers", counts.temporary_stragglers),
            Counter::sum("removed_stragglers", counts.removed_stragglers),
            Counter::sum("readmitted_stragglers", counts.readmitted_stragglers),
        ]
    }
}
