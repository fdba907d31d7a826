//! Jobs of the server's captures, with or without results.

use std::collections::BTreeSet;

use pktgen_core::index::IdMap;
use pktgen_wire::wire::{Captured, FORMATS_MAX, Formats};

use super::super::Event;

/// Jobs of formats whose packets name one.
pub(super) struct Jobs {
    /// Whether packets of a format name a job that sums, and not a tensor of one.
    named: [bool; FORMATS_MAX],
    /// Whether a result of each job, by format, was captured.
    answered: IdMap<(u8, u16), bool>,
}

impl Jobs {
    pub(super) fn new(formats: Formats) -> Self {
        let mut named = [false; FORMATS_MAX];
        for (named, format) in named.iter_mut().zip(formats) {
            *named = format.facts().updates == Captured::OfJobs;
        }
        Jobs { named, answered: IdMap::default() }
    }

    /// Returns the job of a packet, if it names one.
    fn of(&self, event: &Event) -> Option<(u8, u16)> {
        let is_named = self.named.get(usize::from(event.format)).is_some_and(|named| *named);
        is_named.then_some((event.format, event.sight.cluster))
    }

    #[inline]
    pub(super) fn contribution(&mut self, event: &Event) {
        if let Some(job) = self.of(event) {
            self.answered.entry(job).or_insert(false);
        }
    }

    #[inline]
    pub(super) fn result(&mut self, event: &Event) {
        if let Some(job) = self.of(event) {
            self.answered.insert(job, true);
        }
    }

    /// Returns the names of the formats of jobs without a result.
    pub(super) fn silent(&self, formats: Formats) -> BTreeSet<String> {
        let silent = self.answered.iter().filter(|(_, answered)| !**answered);
        silent.filter_map(|((format, _), _)| Some(formats.get(usize::from(*format))?.name().to_owned())).collect()
    }
}
