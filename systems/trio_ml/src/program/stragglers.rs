//! Who straggles for a moment, and who for good (Trio §5, "Advanced straggler mitigation").
//!
//! The paper sketches a second kind of timer thread that runs less often, looks at how often each server straggled and
//! notifies the others; everything else here is our choice. A source that missed at least a share of its job's aged
//! blocks in the interval is a permanent straggler, one that missed fewer a temporary one.

use pktgen_core::time::{NEVER, Time};

use super::mask::Mask;
use super::settings::Settings;

/// What is counted of a job between two slow ticks.
#[derive(Default)]
pub(crate) struct StragglerCounts {
    /// Blocks that aged.
    aged: u32,
    /// Of these, how many each source missed; by source, empty until one aged.
    misses: Vec<u32>,
    /// Sources that were taken out of the job.
    removed: Mask,
    /// Those of them that have sent since.
    heard: Mask,
}

/// What a slow tick found out about a job.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct StragglerReport {
    /// Sources that are out of service.
    pub permanent: Vec<u8>,
    /// Sources that missed something.
    pub temporary: u64,
    /// Sources to be taken out of the job.
    pub removed: Vec<u8>,
    /// Sources that take part again.
    pub readmitted: Vec<u8>,
}

impl StragglerCounts {
    /// A block aged without these sources.
    pub fn aged(&mut self, missing: Mask) {
        self.misses.resize(256, 0);
        self.aged += 1;
        missing.iter().for_each(|source| self.misses[usize::from(source)] += 1);
    }

    /// A packet came from a source that is not in the job's mask; true if it was taken out of it.
    pub fn hear(&mut self, source: u8) -> bool {
        let known = self.removed.has(source);
        if known {
            self.heard.insert(source);
        }
        known
    }

    /// The slow tick: who is what, of the sources in `mask`. Counting begins anew.
    pub fn judge(&mut self, mask: Mask, settings: &Settings) -> StragglerReport {
        let mut verdict = StragglerReport { readmitted: self.heard.iter().collect(), ..Default::default() };
        verdict.readmitted.iter().for_each(|source| self.removed.remove(*source));
        self.heard = Mask::default();
        let limit = f64::from(self.aged) * settings.straggler_misses;
        for source in mask.iter() {
            let missed = self.misses.get(usize::from(source)).copied().unwrap_or(0);
            if missed > 0 && self.aged >= settings.straggler_min && f64::from(missed) >= limit {
                verdict.permanent.push(source);
            } else if missed > 0 {
                verdict.temporary += 1;
            }
        }
        // A job without sources would never be one again: where all would go, all stay.
        if settings.remove_stragglers && verdict.permanent.len() < mask.count() as usize {
            verdict.removed.clone_from(&verdict.permanent);
            verdict.removed.iter().for_each(|source| self.removed.insert(*source));
        }
        self.aged = 0;
        self.misses.fill(0);
        verdict
    }
}

/// When the slow timer ticks: at whole multiples of its interval. It does not tick while nothing is under way; a tick that
/// falls into such a pause is made up for when the next packet comes.
pub(crate) struct SlowTimer {
    interval: Time,
    next: Time,
    /// A source that was taken out has sent since the last tick.
    pub heard: bool,
}

impl SlowTimer {
    /// Ticks every `interval`; never where there is none.
    pub fn new(interval: Option<Time>) -> Self {
        SlowTimer { interval: interval.unwrap_or(NEVER), next: interval.unwrap_or(NEVER), heard: false }
    }

    /// When to wake for the next tick, with `live` records under way.
    #[inline]
    pub fn due(&self, live: u32) -> Time {
        if live > 0 || self.heard { self.next } else { NEVER }
    }

    /// Whether a tick has been missed by `t`, when a packet comes.
    #[inline]
    pub(crate) fn is_overdue(&self, t: Time) -> bool {
        self.next <= t
    }

    /// It ticks at `t`.
    pub fn tick(&mut self, t: Time) {
        self.next = (t.div_euclid(self.interval) + 1).saturating_mul(self.interval);
        self.heard = false;
    }
}
