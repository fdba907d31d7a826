//! Trio-ML in its simplest form: lists searched from the front, sums in 64 bits, timers one by one.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::Header;
use pktgen_core::record::{Action, PacketId, Reason};
use pktgen_core::time::{MS, Time};

use super::super::table::part_of;
use super::rig::{Input, Plain, Row, key};

pub struct Job {
    /// Source and number of workers.
    pub sources: Vec<(u8, u8)>,
    pub timeout_ms: i64,
}

pub struct Naive {
    pub jobs: Vec<Job>,
    pub blocks_max: usize,
    pub gradients_max: usize,
    pub timers: i64,
    pub mitigation: bool,
    pub tombstones: bool,
    pub rows: Vec<Row>,
    pub results: Vec<Plain>,
    pub late: u64,
    /// Whether the current packet is late.
    comes_late: bool,
    pub open: Vec<Record>,
    finished: BTreeMap<(u8, u32), u16>,
    now: Time,
}

#[derive(Clone)]
pub struct Record {
    job: u8,
    block: u32,
    generation: u16,
    opener: PacketId,
    opener_source: u8,
    from: BTreeSet<u8>,
    workers: u32,
    sums: Vec<i64>,
    touched: bool,
    last: bool,
    degraded: bool,
    aged: bool,
    /// Whether a late packet opened it.
    late: bool,
}

/// Whether `a` is at most half the range ahead of `b`.
fn ahead(a: u16, b: u16) -> bool {
    let distance = (i32::from(a) - i32::from(b)).rem_euclid(65536);
    (1..32768).contains(&distance)
}

impl Naive {
    pub fn new(jobs: Vec<Job>) -> Self {
        Naive {
            jobs,
            blocks_max: 4095,
            gradients_max: 32,
            timers: 3,
            mitigation: true,
            tombstones: false,
            rows: Vec::new(),
            results: Vec::new(),
            late: 0,
            comes_late: false,
            open: Vec::new(),
            finished: BTreeMap::new(),
            now: -1,
        }
    }

    /// Processes every tick after the last call and up to `t`, in chronological order.
    pub fn pass(&mut self, t: Time) {
        if !self.mitigation {
            return;
        }
        let mut ticks = Vec::new();
        let timeouts: BTreeSet<i64> = self.jobs.iter().map(|job| job.timeout_ms).collect();
        for timeout_ms in timeouts {
            let period = timeout_ms * MS;
            for round in (self.now / period - 1).max(0)..=t / period {
                for part in 0..self.timers {
                    let at = round * period + part * period / self.timers;
                    if at > self.now && at <= t {
                        let first = self.jobs.iter().position(|job| job.timeout_ms == timeout_ms);
                        ticks.push((at, first, timeout_ms, part));
                    }
                }
            }
        }
        ticks.sort_unstable();
        for (at, _, timeout_ms, part) in ticks {
            for record in std::mem::take(&mut self.open) {
                let own = self.jobs[usize::from(record.job)].timeout_ms == timeout_ms
                    && i64::from(part_of(record.job, record.block, self.timers as u32)) == part;
                match (own, record.touched) {
                    (false, _) => self.open.push(record),
                    (true, true) => self.open.push(Record { touched: false, ..record }),
                    (true, false) => self.close(at, Record { aged: true, degraded: true, ..record }),
                }
            }
        }
        self.now = t;
    }

    fn close(&mut self, t: Time, record: Record) {
        if !self.is_finished(record.job, record.block, record.generation) {
            self.finished.insert((record.job, record.block), record.generation);
        }
        let all: u32 = self.jobs[usize::from(record.job)].sources.iter().map(|s| u32::from(s.1)).sum();
        let header = Header {
            job: record.job,
            block: record.block,
            age_op: u8::from(record.aged),
            last: record.last,
            degraded: record.degraded || record.workers < all,
            source: record.opener_source,
            sources: record.workers as u8,
            generation: record.generation,
            elements: record.sums.len() as u16,
        };
        self.results.push(Plain { header: key(&header), values: record.sums.iter().map(|s| *s as i32).collect() });
        self.rows.push((t, record.opener, Action::Departed, None, None));
    }

    /// Whether the block was finished in this generation or in a later one.
    fn is_finished(&self, job: u8, block: u32, generation: u16) -> bool {
        self.finished.get(&(job, block)).is_some_and(|finished| !ahead(generation, *finished))
    }

    fn reason(&mut self, input: &Input) -> Result<Option<usize>, Reason> {
        let h = &input.header;
        self.comes_late = false;
        if h.age_op > 1 {
            return Err(Reason::Malformed);
        }
        let Some(job) = self.jobs.get(usize::from(h.job)) else { return Err(Reason::UnknownJob) };
        let found = self.open.iter().position(|r| (r.job, r.block) == (h.job, h.block));
        if let Some(i) = found {
            self.open[i].touched = true;
        }
        let Some((_, workers)) = job.sources.iter().find(|s| s.0 == h.source) else {
            return Err(Reason::UnknownSource);
        };
        if !(1..=*workers).contains(&h.sources) || input.values.len() > self.gradients_max {
            return Err(Reason::WrongCount);
        }
        match found {
            Some(i) if self.open[i].generation == h.generation => {
                if self.open[i].from.contains(&h.source) {
                    Err(Reason::Duplicate)
                } else if self.open[i].sums.len() != input.values.len() {
                    Err(Reason::WrongCount)
                } else {
                    Ok(Some(i))
                }
            }
            Some(i) if ahead(h.generation, self.open[i].generation) => {
                self.comes_late = self.is_finished(h.job, h.block, h.generation);
                self.late += u64::from(self.comes_late);
                let old = self.open.remove(i);
                self.close(input.t, Record { aged: true, degraded: true, ..old });
                Ok(None)
            }
            Some(_) => Err(Reason::Stale),
            None => {
                let late = self.is_finished(h.job, h.block, h.generation);
                self.late += u64::from(late);
                self.comes_late = late;
                if late && self.tombstones {
                    return Err(Reason::Late);
                }
                let under_way = self.open.iter().filter(|r| r.job == h.job).count();
                if under_way < self.blocks_max {
                    return Ok(None);
                }
                match self.open.iter().position(|r| r.job == h.job && r.late).filter(|_| !late) {
                    None => Err(Reason::TableFull),
                    Some(oldest) => {
                        let old = self.open.remove(oldest);
                        self.close(input.t, Record { aged: true, degraded: true, ..old });
                        Ok(None)
                    }
                }
            }
        }
    }

    pub fn offer(&mut self, input: &Input) {
        self.pass(input.t);
        let h = &input.header;
        let place = match self.reason(input) {
            Err(reason) => return self.rows.push((input.t, input.packet, Action::Dropped, None, Some(reason))),
            Ok(Some(i)) => {
                self.rows.push((input.t, input.packet, Action::Merged, Some(self.open[i].opener), None));
                i
            }
            Ok(None) => {
                self.rows.push((input.t, input.packet, Action::Queued, None, None));
                self.open.push(Record {
                    job: h.job,
                    block: h.block,
                    generation: h.generation,
                    opener: input.packet,
                    opener_source: h.source,
                    from: BTreeSet::new(),
                    workers: 0,
                    sums: vec![0; input.values.len()],
                    touched: true,
                    last: false,
                    degraded: false,
                    aged: false,
                    late: self.comes_late,
                });
                self.open.len() - 1
            }
        };
        let record = &mut self.open[place];
        record.from.insert(h.source);
        record.workers += u32::from(h.sources);
        record.sums.iter_mut().zip(&input.values).for_each(|(sum, value)| *sum += i64::from(*value));
        record.last |= h.last;
        record.degraded |= h.degraded;
        record.aged |= h.age_op == 1;
        if record.from.len() == self.jobs[usize::from(h.job)].sources.len() {
            let record = self.open.remove(place);
            self.close(input.t, record);
        }
    }
}
