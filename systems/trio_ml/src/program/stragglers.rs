//! Distinguishes temporary and permanent stragglers (Trio §5, "Advanced straggler mitigation").
//!
//! The paper outlines a second kind of timer thread that runs less often, checks how often each server straggled and
//! notifies the others; everything else is our choice. A source that missed at least a given share of its job's
//! timed-out blocks in the interval is a permanent straggler, one that missed fewer a temporary one.

use pktgen_core::time::{NEVER, Time};

use super::mask::Mask;
use super::settings::Settings;

/// Counters of a job between two slow ticks.
#[derive(Default)]
pub(crate) struct StragglerCounts {
    /// Number of blocks that timed out.
    aged: u32,
    /// How many of these each source missed; by source, empty until a block times out.
    misses: Vec<u32>,
    /// Sources that were removed from the job.
    removed: Mask,
    /// Removed sources that have sent since.
    heard: Mask,
}

/// Result of a slow tick for a job.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct StragglerReport {
    /// Sources that are out of service.
    pub permanent: Vec<u8>,
    /// Number of sources that missed some blocks.
    pub temporary: u64,
    /// Sources to be removed from the job.
    pub removed: Vec<u8>,
    /// Sources that participate again.
    pub readmitted: Vec<u8>,
}

impl StragglerCounts {
    /// Records that a block timed out without these sources.
    pub fn aged(&mut self, missing: Mask) {
        self.misses.resize(256, 0);
        self.aged += 1;
        missing.iter().for_each(|source| self.misses[usize::from(source)] += 1);
    }

    /// Records a packet of a source that is not in the job's mask; returns whether the source was removed from it.
    pub fn hear(&mut self, source: u8) -> bool {
        let known = self.removed.has(source);
        if known {
            self.heard.insert(source);
        }
        known
    }

    /// Handles a slow tick: classifies the sources in `mask` and resets the counters.
    pub fn judge(&mut self, mask: Mask, settings: &Settings) -> StragglerReport {
        let mut verdict = StragglerReport { readmitted: self.heard.iter().collect(), ..Default::default() };
        verdict.readmitted.iter().for_each(|source| self.removed.remove(*source));
        self.heard = Mask::default();
        for source in mask.iter() {
            let missed = self.misses.get(usize::from(source)).copied().unwrap_or(0);
            // A quotient is rounded as the setting is; a product may lie above an exact share.
            let share = f64::from(missed) / f64::from(self.aged);
            if missed > 0 && self.aged >= settings.straggler_min && share >= settings.straggler_misses {
                verdict.permanent.push(source);
            } else if missed > 0 {
                verdict.temporary += 1;
            }
        }
        // A job without sources could never resume: if none would be left, readmitted ones included, all stay.
        let sources = mask.count() as usize + verdict.readmitted.len();
        if settings.remove_stragglers && verdict.permanent.len() < sources {
            verdict.removed.clone_from(&verdict.permanent);
            verdict.removed.iter().for_each(|source| self.removed.insert(*source));
        }
        self.aged = 0;
        self.misses.fill(0);
        verdict
    }
}

/// The slow timer, which ticks at multiples of its interval, but not while nothing is in progress; a tick missed in
/// such a pause is made up for when the next packet arrives.
pub(crate) struct SlowTimer {
    interval: Time,
    next: Time,
    /// Whether a removed source has sent since the last tick.
    pub heard: bool,
}

impl SlowTimer {
    /// Creates a timer that ticks every `interval`, or never.
    pub fn new(interval: Option<Time>) -> Self {
        SlowTimer { interval: interval.unwrap_or(NEVER), next: interval.unwrap_or(NEVER), heard: false }
    }

    /// Returns when to wake for the next tick, with `live` records in progress.
    #[inline]
    pub fn due(&self, live: u32) -> Time {
        if live > 0 || self.heard { self.next } else { NEVER }
    }

    /// Whether a tick was missed by `t`, when a packet arrives.
    #[inline]
    pub(crate) fn is_overdue(&self, t: Time) -> bool {
        self.next <= t
    }

    /// Handles the tick at `t`.
    pub fn tick(&mut self, t: Time) {
        self.next = (t.div_euclid(self.interval) + 1).saturating_mul(self.interval);
        self.heard = false;
    }
}
