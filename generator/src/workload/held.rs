//! A trace in memory: its updates with the times and numbers that they have in the replay, and its gradients. Traces that fit are
//! held so ([`super::trace_file`]): replaying them decodes nothing, also when they repeat.

use super::repeat::{beyond_time, shift, used_up};
use super::{Source, Update};
use crate::gradient::{Pool, tile};
use crate::time::{HORIZON, Time};
use crate::topology::Population;

/// Bytes of a trace that are held at most; larger ones are read while they are replayed.
const BYTES_MAX: u64 = 256 << 20;

/// Does a trace of so many updates and gradients fit?
pub(super) fn fits(updates: u64, values: u64) -> bool {
    let bytes = updates.saturating_mul(size_of::<Update>() as u64 + 4).saturating_add(values.saturating_mul(4));
    bytes <= BYTES_MAX
}

/// What is the same of every pass.
pub(super) struct Facts {
    pub(super) population: Population,
    pub(super) frame_max: u32,
    pub(super) rest: Option<Time>,
    /// Gradients of updates that have none in the trace.
    pub(super) pool: Pool,
}

/// Updates that are held.
pub(super) struct Held {
    facts: Facts,
    /// Those before `at` are already what they are in the next pass: so nothing is made per update but what changes.
    updates: Vec<Update>,
    /// How many gradients each has, and all of them.
    lengths: Vec<u32>,
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
            updates: Vec::new(),
            lengths: Vec::new(),
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
        self.updates.push(update);
        self.values.extend_from_slice(values);
        self.lengths.push(values.len() as u32);
        self.counts[update.worker as usize] += 1;
        self.end = self.updates.len();
    }

    /// Why there are no more.
    pub(super) fn end(&mut self, failure: Option<String>) {
        self.failure = failure;
    }

    /// As if a worker had sent so many already.
    #[cfg(test)]
    pub(super) fn use_up(&mut self, worker: u32, numbers: u32) {
        self.used[worker as usize] = numbers.into();
        self.updates.iter_mut().filter(|update| update.worker == worker).for_each(|update| update.seq += numbers);
    }

    fn begin_pass(&mut self) {
        match &mut self.left {
            _ if self.failure.is_some() => return,
            Some(0) => return,
            Some(left) => *left -= 1,
            None => {}
        }
        (self.at, self.from) = (0, 0);
        let mut all_fit = self.updates.last().is_some_and(|last| last.t_gen <= HORIZON);
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
        for (i, update) in self.updates.iter().enumerate() {
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

impl Source for Held {
    fn population(&self) -> &Population {
        &self.facts.population
    }

    fn frame_max(&self) -> u32 {
        self.facts.frame_max
    }

    #[inline]
    fn peek(&self) -> Option<&Update> {
        self.updates[..self.end].get(self.at)
    }

    #[inline]
    fn take(&mut self, values: &mut [u8]) {
        let Some(update) = self.updates[..self.end].get_mut(self.at) else { return };
        let to = self.from + self.lengths[self.at] as usize;
        match &self.values[self.from..to] {
            // Every pass has the same content.
            [] => {
                let seq = update.seq.wrapping_sub(self.used[update.worker as usize] as u32);
                self.facts.pool.fill(update.worker, seq, values);
            }
            recorded => tile(recorded, values),
        }
        update.t_gen += self.shift;
        update.seq = update.seq.wrapping_add(self.counts[update.worker as usize]);
        (self.at, self.from) = (self.at + 1, to);
        if self.at == self.end {
            self.begin_pass();
        }
    }

    fn repeat(&mut self, passes: u32) -> bool {
        let (Some(first), Some(last)) = (self.updates.first(), self.updates.last()) else { return false };
        self.left = passes.checked_sub(1);
        self.shift = shift(self.updates.len() as u64, (first.t_gen, last.t_gen), self.facts.rest);
        true
    }

    fn rest(&self) -> Option<Time> {
        self.facts.rest
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref().filter(|_| self.at == self.end)
    }
}
