//! A naive worker: what it received, what it sent, and the resulting rows of iterations.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pktgen_core::record::{Iteration, Sent};
use pktgen_core::time::{NS, Time};
use pktgen_workload::dense::Dense;

use super::setup::Setup;

/// The first result that a worker received.
struct Got {
    t: Time,
    count: u16,
    degraded: bool,
}

/// Transmissions of a block: the newest attempt, and when it left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Out {
    attempt: u8,
    first_left: Option<Time>,
    left: Option<Time>,
}

pub(super) struct Model {
    setup: Setup,
    dense: Arc<Dense>,
    id: u32,
    /// By iteration and block.
    got: BTreeMap<(u32, u32), Got>,
    out: BTreeMap<(u32, u32), Out>,
    /// The iteration that the worker must be in.
    iteration: u32,
    t_start: Time,
    /// That of the others, if it joined them.
    t_began: Time,
    pub t_ready: Time,
    delay: Time,
    held_up: Vec<(Time, Time)>,
    computes: bool,
    /// Rows that the endpoint must write next, without the counts of transmissions.
    rows: VecDeque<Iteration>,
    /// Number of iterations whose rows the endpoint wrote.
    written: u32,
    /// Durations of iterations without a sleep or a missing worker.
    undisturbed: Vec<Time>,
    last_t: Time,
    pub unsent: u32,
    pub link_free: Time,
}

impl Model {
    pub fn new(setup: &Setup, dense: &Arc<Dense>, id: u32) -> Self {
        let mut model = Model {
            setup: setup.clone(),
            dense: dense.clone(),
            id,
            got: BTreeMap::new(),
            out: BTreeMap::new(),
            iteration: 0,
            t_start: 0,
            t_began: 0,
            t_ready: 0,
            delay: 0,
            held_up: Vec::new(),
            computes: false,
            rows: VecDeque::new(),
            written: 0,
            undisturbed: Vec::new(),
            last_t: 0,
            unsent: 0,
            link_free: 0,
        };
        model.begin(0);
        model
    }

    pub fn job(&self) -> u32 {
        self.id / self.setup.per_job
    }

    pub fn is_done(&self) -> bool {
        self.iteration == self.setup.iterations && self.rows.is_empty()
    }

    fn results(&self, iteration: u32) -> impl Iterator<Item = &Got> {
        self.got.range((iteration, 0)..(iteration + 1, 0)).map(|(_, got)| got)
    }

    /// Returns whether it has no result of a block yet.
    pub fn needs(&self, seq: u32) -> bool {
        let at = (seq / self.setup.blocks, seq % self.setup.blocks);
        at.0 >= self.iteration && !self.got.contains_key(&at)
    }

    fn has_all(&self, iteration: u32) -> bool {
        self.results(iteration).count() as u32 == self.setup.blocks
    }

    fn begin(&mut self, t: Time) {
        while self.iteration < self.setup.iterations {
            self.t_start = t;
            if self.setup.missed == "compute" || !self.has_all(self.iteration) {
                let before = self.iteration.checked_sub(1);
                let others = before.and_then(|i| self.results(i).map(|got| got.t).max()).unwrap_or(0);
                let start = if self.setup.missed == "join" { others } else { t };
                self.t_began = start;
                let (mut at, compute) = (start, self.dense.compute_of(self.id, self.iteration));
                let sleeps = self.dense.stragglers().delays(self.id, self.iteration);
                self.held_up.clear();
                for point in 0..3 {
                    // Each third of the computation begins with a sleep, if there is one.
                    let sleep = if at < t { 0 } else { (sleeps[point as usize] * self.typical() as f64) as Time };
                    if sleep > 0 {
                        self.held_up.push((at, at + sleep));
                    }
                    at += sleep + (compute * (point + 1) / 3 - compute * point / 3);
                }
                (self.t_ready, self.delay) = (at.max(t), at - start - compute);
                self.computes = true;
                return;
            }
            (self.t_ready, self.delay) = (t, 0);
            self.end(t, true);
        }
    }

    /// At 1 Gbit/s, a bit takes 1000 ps.
    fn typical(&self) -> Time {
        let (n, bits) = (Time::from(self.setup.per_job), self.dense.elements_total() as Time * 32);
        let ring = self.dense.compute() + bits * 2 * (n - 1) * 1000 / n;
        match self.setup.measured {
            true => self.undisturbed.iter().copied().min().unwrap_or(ring),
            false => 4000 * NS,
        }
    }

    fn end(&mut self, t_end: Time, missed: bool) {
        let (degraded, sources) = self.results(self.iteration).fold((0, 0), |(degraded, sources), got| {
            (degraded + u32::from(got.degraded), sources + u64::from(got.count))
        });
        if !missed && self.delay == 0 && degraded == 0 {
            self.undisturbed.push(t_end - self.t_began);
        }
        self.rows.push_back(Iteration {
            t_start: self.t_start,
            t_ready: self.t_ready,
            t_end,
            delay: self.delay,
            worker: self.id,
            job: self.job() as u16,
            iteration: self.iteration,
            sent: 0,
            skipped: 0,
            degraded,
            sources,
            elements: 0,
            missed,
        });
        self.iteration += 1;
    }

    /// Advances the time to `now`.
    pub fn settle(&mut self, now: Time) {
        while self.iteration < self.setup.iterations && self.t_ready <= now {
            self.computes = false;
            if !self.has_all(self.iteration) {
                return;
            }
            let t_end = self.results(self.iteration).map(|got| got.t).fold(self.t_ready, Time::max);
            self.end(t_end, false);
            self.begin(t_end);
        }
    }

    /// Handles a result; returns whether it is the first, and when the worker had sent its contribution.
    pub fn result(&mut self, seq: u32, count: u16, degraded: bool, t: Time) -> (bool, Option<Time>) {
        let at = (seq / self.setup.blocks, seq % self.setup.blocks);
        let left = self.out.get(&at).and_then(|out| out.first_left).filter(|left| *left <= t);
        let left = left.filter(|_| at.0 == self.iteration);
        if !self.needs(seq) {
            return (false, left);
        }
        self.got.insert(at, Got { t, count, degraded });
        if self.setup.missed == "abandon" && self.computes && self.has_all(self.iteration) {
            // Delays that have begun count; later ones do not happen.
            self.held_up.retain(|(from, _)| *from <= t);
            self.delay = self.held_up.iter().map(|(from, to)| to - from).sum();
            self.t_ready = self.held_up.iter().map(|(_, to)| *to).fold(t, Time::max);
        }
        (true, left)
    }

    /// Checks that the endpoint may send this frame.
    pub fn sends(&mut self, t: Time, row: &Sent) {
        let blocks = self.setup.blocks;
        let at = (row.seq / blocks, row.seq % blocks);
        assert!(t >= self.last_t && t >= self.t_ready, "{row:?}");
        assert_eq!((at.0, row.block), (self.written, Some(at.1)), "of the iteration that it is in");
        assert!(!self.got.contains_key(&at), "what has a result needs no contribution: {row:?}");
        // The first window of slots leaves in order, before all else.
        let first = if self.setup.trio { 0 } else { blocks.min(self.setup.window) };
        let opened = self.out.range((at.0, 0)..(at.0, first)).count() as u32;
        assert!(opened == first || (at.1, row.attempt) == (opened, 0), "before block {opened}: {row:?}");
        (self.last_t, self.unsent) = (t, self.unsent + 1);
        if row.attempt > 0 {
            let last = self.out.get_mut(&at).unwrap();
            assert_eq!(last.attempt + 1, row.attempt);
            assert!(t >= last.left.take().unwrap() + self.setup.retransmit().unwrap(), "too early: {row:?}");
            last.attempt = row.attempt;
            return;
        }
        assert!(self.may_send(at.1), "beyond the window: {row:?}");
        let known = self.out.insert(at, Out { attempt: 0, first_left: None, left: None });
        assert!(known.is_none(), "sent twice: {row:?}");
    }

    /// Returns whether `block` of the iteration is within the window.
    fn may_send(&self, block: u32) -> bool {
        let (i, window) = (self.written, self.setup.window);
        if self.setup.trio {
            let outstanding = self.out.range((i, 0)..(i + 1, 0)).filter(|(at, _)| !self.got.contains_key(at)).count();
            return (outstanding as u32) < window;
        }
        block < window || self.got.contains_key(&(i, block - window))
    }

    pub fn left(&mut self, seq: u32, t: Time) {
        let out = self.out.get_mut(&(seq / self.setup.blocks, seq % self.setup.blocks)).unwrap();
        out.left = Some(t);
        out.first_left.get_or_insert(t);
        (self.unsent, self.link_free) = (self.unsent - 1, t);
    }

    /// Returns whether a contribution to this packet's sum has been handed over.
    pub fn contributed(&self, seq: u32) -> bool {
        self.out.contains_key(&(seq / self.setup.blocks, seq % self.setup.blocks))
    }

    /// Checks a row that the endpoint wrote.
    pub fn wrote(&mut self, row: &Iteration) {
        let blocks: Vec<u32> = self.out.range((row.iteration, 0)..(row.iteration + 1, 0)).map(|(at, _)| at.1).collect();
        let expected = self.rows.pop_front().expect("an iteration that has not ended");
        let own: u64 = blocks.iter().map(|block| u64::from(self.dense.elements_of(*block))).sum();
        let (sent, elements) = (blocks.len() as u32, self.dense.nonzero() * own / self.dense.elements_total());
        assert_eq!(*row, Iteration { sent, skipped: self.setup.blocks - sent, elements, ..expected });
        self.written += 1;
    }

    /// Checks that the worker has done all it could when nothing is due at `now`.
    pub fn is_idle(&self, now: Time) {
        assert!(self.rows.is_empty(), "rows are missing: {:?}", self.rows);
        let sending = self.iteration < self.setup.iterations && !self.computes;
        if sending && self.unsent == 0 && self.link_free <= now {
            let waits = (0..self.setup.blocks).find(|block| {
                let at = (self.iteration, *block);
                !self.out.contains_key(&at) && !self.got.contains_key(&at) && self.may_send(*block)
            });
            assert_eq!(waits, None, "worker {} could send this block of iteration {}", self.id, self.iteration);
        }
    }
}
