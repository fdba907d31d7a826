//! A source again and again: a trace that loops until a run reaches its end.

use super::{Known, Source, Update};
use crate::Result;
use crate::schedule::Pass;
use crate::time::{HORIZON, Time, too_late};
use crate::topology::Population;

/// Opens the same source anew.
pub(super) type Reopen = Box<dyn Fn() -> Result<Box<dyn Source>> + Send>;

/// Passes of one source, one after the other. Sequence numbers go on; times go on one mean gap after the last.
pub(super) struct Repeat {
    reopen: Reopen,
    source: Box<dyn Source>,
    population: Population,
    /// Passes still to come after this one; none for no end.
    left: Option<u32>,
    /// What is added to times and to each worker's sequence numbers in this pass.
    shift: Time,
    base: Vec<u64>,
    /// Of this pass: one more than each worker's last sequence number, updates, first and last time.
    next: Vec<u64>,
    count: u64,
    first: Time,
    last: Time,
    head: Option<Update>,
    failure: Option<String>,
}

impl Repeat {
    /// `passes` in all; 0 for no end.
    pub(super) fn new(source: Box<dyn Source>, passes: u32, reopen: Reopen) -> Self {
        let population = source.population().clone();
        let workers = population.len();
        let first = source.peek().map_or(0, |u| u.t_gen);
        let mut repeat = Repeat {
            reopen,
            source,
            population,
            left: (passes > 0).then(|| passes - 1),
            shift: 0,
            base: vec![0; workers],
            next: vec![0; workers],
            count: 0,
            first,
            last: first,
            head: None,
            failure: None,
        };
        repeat.load();
        repeat
    }

    fn load(&mut self) {
        if self.source.peek().is_none() && self.source.failure().is_none() {
            self.begin_pass();
        }
        self.head = None;
        let Some(update) = self.source.peek() else { return };
        let Ok(seq) = u32::try_from(u64::from(update.seq) + self.base[update.worker as usize]) else {
            self.failure = Some(used_up(update.worker));
            return;
        };
        self.head = Some(Update { t_gen: update.t_gen.saturating_add(self.shift), seq, ..*update });
        if self.head.is_some_and(|u| u.t_gen > HORIZON) {
            self.failure = Some(beyond_time());
            self.head = None;
        }
    }

    fn begin_pass(&mut self) {
        match &mut self.left {
            Some(0) => return,
            Some(left) => *left -= 1,
            None => {}
        }
        let rest = self.source.known().rest;
        match (self.reopen)() {
            Ok(source) => self.source = source,
            Err(error) => {
                self.failure = Some(error.to_string());
                return;
            }
        }
        let first = self.source.peek().map_or(0, |u| u.t_gen);
        let moved = self.first - first;
        self.shift = (self.shift + moved).saturating_add(shift(self.count, (self.first, self.last), rest));
        for (base, next) in self.base.iter_mut().zip(&mut self.next) {
            *base += std::mem::take(next);
        }
        (self.first, self.last, self.count) = (first, first, 0);
    }
}

/// What is added to times from one pass to the next: its span and a mean gap. One update has no gap: where nothing says how long it
/// lasts, a pass of one repeats a tick later.
pub(super) fn shift(count: u64, (first, last): (Time, Time), rest: Option<Time>) -> Time {
    let gap = Pass { count, bits: 0, first, last }.gap();
    (last - first).saturating_add(rest.filter(|_| first == last).unwrap_or(gap))
}

const FEWER: &str = "lower workload.repeat, or end the run with capture.until or capture.goal";

/// Why a worker has no more updates.
pub(super) fn used_up(worker: u32) -> String {
    format!("worker {worker} has used all its {} packet numbers; {FEWER}", u32::MAX)
}

/// Why there is none.
pub(super) fn beyond_time() -> String {
    too_late("the next update of a repeated workload", HORIZON as f64, FEWER)
}

// Only pulled: passes shift times and numbers, and their count is in nothing that they say.
impl Source for Repeat {
    fn population(&self) -> &Population {
        &self.population
    }

    fn known(&self) -> Known {
        self.source.known().changed()
    }

    fn peek(&self) -> Option<&Update> {
        self.head.as_ref()
    }

    fn take(&mut self, values: &mut [u8]) {
        if let Some(update) = self.source.peek().filter(|_| self.head.is_some()) {
            self.next[update.worker as usize] = u64::from(update.seq) + 1;
            self.last = update.t_gen;
            self.count += 1;
            self.source.take(values);
            self.load();
        }
    }

    fn passes(&self) -> Option<u32> {
        self.source.passes()?;
        self.left?.checked_add(1)
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref().or(self.source.failure())
    }
}
