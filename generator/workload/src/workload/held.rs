//! A trace in memory: its updates with the times and numbers that they have in the replay, and its gradients. Traces that fit are
//! held so ([`super::trace_file`]): replaying them decodes nothing, also when they repeat.

use super::repeat::{beyond_time, shift, used_up};
use super::{Known, Source, Update};
use crate::gradient::{GradientPool, tile};
use crate::time::{HORIZON, Time};
use crate::topology::Population;

/// Bytes of a trace that are held at most; larger ones are read while they are replayed.
const BYTES_MAX: u64 = 256 << 20;

/// Whether a trace of so many updates and gradients fits.
pub(super) fn fits(updates: u64, values: u64) -> bool {
    let bytes = updates.saturating_mul(size_of::<Entry>() as u64).saturating_add(values.saturating_mul(4));
    bytes <= BYTES_MAX
}

/// What is the same of every pass.
pub(super) struct Facts {
    pub(super) population: Population,
    pub(super) frame_max: u32,
    pub(super) update_max: u32,
    pub(super) rest: Option<Time>,
    /// Gradients of updates that have none in the trace.
    pub(super) pool: GradientPool,
}

/// An update that is held.
struct Entry {
    update: Update,
    /// How many gradients it has.
    length: u32,
    /// How many numbers its worker uses in a pass: what is added to its own for the next, if there is one.
    step: u32,
}

/// Updates that are held.
pub(super) struct Held {
    facts: Facts,
    /// Those before `at` are already what they are in the next pass: so nothing is made per update but what changes.
    entries: Vec<Entry>,
    /// The gradients of all.
    values: Vec<f32>,
    /// The next update, and its first gradient.
    at: usize,
    from: usize,
    /// Where this pass ends: before the last update if there are no times or numbers for the rest.
    end: usize,
    /// Passes still to come after this one; none for no end.
    left: Option<u32>,
    /// From one pass to the next: what is added to times, and to the numbers of each worker.
    shift: Time,
    counts: Vec<u32>,
    /// Numbers of each worker that passes before this one used.
    used: Vec<u64>,
    failure: Option<String>,
}

impl Held {
    pub(super) fn new(facts: Facts) -> Self {
        let workers = facts.population.len();
        Held {
            facts,
            entries: Vec::new(),
            values: Vec::new(),
            at: 0,
            from: 0,
            end: 0,
            left: Some(0),
            shift: 0,
            counts: vec![0; workers],
            used: vec![0; workers],
            failure: None,
        }
    }

    /// The next update.
    pub(super) fn push(&mut self, update: Update, values: &[f32]) {
        self.entries.push(Entry { update, length: values.len() as u32, step: 0 });
        self.values.extend_from_slice(values);
        self.counts[update.worker as usize] += 1;
        self.end = self.entries.len();
    }

    /// Why there are no more.
    pub(super) fn end(&mut self, failure: Option<String>) {
        self.failure = failure;
    }

    /// As if a worker had sent so many already.
    #[cfg(test)]
    pub(super) fn use_up(&mut self, worker: u32, numbers: u32) {
        self.used[worker as usize] = numbers.into();
        let updates = self.entries.iter_mut().map(|entry| &mut entry.update);
        updates.filter(|update| update.worker == worker).for_each(|update| update.seq += numbers);
    }

    #[cold]
    fn begin_pass(&mut self) {
        match &mut self.left {
            _ if self.failure.is_some() => return,
            Some(0) => return,
            Some(left) => *left -= 1,
            None => {}
        }
        (self.at, self.from) = (0, 0);
        let mut all_fit = self.entries.last().is_some_and(|last| last.update.t_gen <= HORIZON);
        for (used, count) in self.used.iter_mut().zip(&self.counts) {
            *used += u64::from(*count);
            all_fit &= *used + u64::from(*count) <= u64::from(u32::MAX) + 1;
        }
        if !all_fit {
            self.shorten();
        }
    }

    /// The pass ends before the first update that has no time or number any more.
    fn shorten(&mut self) {
        let mut used = self.used.clone();
        for (i, Entry { update, .. }) in self.entries.iter().enumerate() {
            let next = &mut used[update.worker as usize];
            let why = match () {
                () if *next > u32::MAX.into() => used_up(update.worker),
                () if update.t_gen > HORIZON => beyond_time(),
                () => {
                    *next += 1;
                    continue;
                }
            };
            (self.end, self.failure) = (i, Some(why));
            return;
        }
    }
}

/// Gradients of an update that has none in the trace: every pass has the same.
#[inline(never)]
fn made(pool: &GradientPool, update: &Update, used: &[u64], values: &mut [u8]) {
    let seq = update.seq.wrapping_sub(used[update.worker as usize] as u32);
    pool.fill(update.worker, seq, values);
}

impl Source for Held {
    fn population(&self) -> &Population {
        &self.facts.population
    }

    fn known(&self) -> Known {
        Known { rest: self.facts.rest, update_max: self.facts.update_max, ..Known::pulled(self.facts.frame_max) }
    }

    #[inline]
    fn peek(&self) -> Option<&Update> {
        self.entries[..self.end].get(self.at).map(|entry| &entry.update)
    }

    #[inline]
    fn take(&mut self, values: &mut [u8]) {
        let Some(Entry { update, length, step }) = self.entries[..self.end].get_mut(self.at) else { return };
        let to = self.from + *length as usize;
        match &self.values[self.from..to] {
            [] => made(&self.facts.pool, update, &self.used, values),
            recorded => tile(recorded, values),
        }
        update.t_gen += self.shift;
        update.seq = update.seq.wrapping_add(*step);
        (self.at, self.from) = (self.at + 1, to);
        if self.at == self.end {
            self.begin_pass();
        }
    }

    fn repeat(&mut self, passes: u32) -> bool {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else { return false };
        self.left = passes.checked_sub(1);
        self.shift = shift(self.entries.len() as u64, (first.update.t_gen, last.update.t_gen), self.facts.rest);
        for Entry { update, step, .. } in &mut self.entries {
            *step = self.counts[update.worker as usize];
        }
        true
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref().filter(|_| self.at == self.end)
    }
}
