//! A trace in memory: its updates with the times and numbers that they have in the replay, and its gradients. Traces that fit are
//! held so ([`super::trace_file`]): replaying them decodes nothing, also when they repeat.

use super::{Source, Update};
use crate::gradient::{Pool, tile};
use crate::time::Time;
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
    updates: Vec<Update>,
    /// Where the gradients of each update end; they begin where those of the one before end.
    ends: Vec<u32>,
    values: Vec<f32>,
    at: usize,
    failure: Option<String>,
}

impl Held {
    pub(super) fn new(facts: Facts) -> Self {
        Held { facts, updates: Vec::new(), ends: Vec::new(), values: Vec::new(), at: 0, failure: None }
    }

    /// The next update.
    pub(super) fn push(&mut self, update: Update, values: &[f32]) {
        self.updates.push(update);
        self.values.extend_from_slice(values);
        self.ends.push(self.values.len() as u32);
    }

    /// Why there are no more.
    pub(super) fn end(&mut self, failure: Option<String>) {
        self.failure = failure;
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
        self.updates.get(self.at)
    }

    #[inline]
    fn take(&mut self, values: &mut [u8]) {
        let Some(update) = self.updates.get(self.at) else { return };
        let begin = self.at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        match &self.values[begin..self.ends[self.at] as usize] {
            [] => self.facts.pool.fill(update.worker, update.seq, values),
            recorded => tile(recorded, values),
        }
        self.at += 1;
    }

    fn rewind(&mut self) -> bool {
        self.at = 0;
        true
    }

    fn rest(&self) -> Option<Time> {
        self.facts.rest
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref().filter(|_| self.at == self.updates.len())
    }
}
