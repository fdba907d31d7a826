//! The Age-of-Model of one cluster or worker (a "flow" here), from a stream of generations and deliveries.
//!
//! Finds the segments that [`pktgen_records::age`] finds in tables. What it must not know before the end is when the flow began:
//! updates that were generated first need not be the first that are seen.

use pktgen_core::Result;
use pktgen_records::age::{FlowAge, Sums};
use pktgen_records::column::{NumberList, PairList, Shared};

/// No time: those of captures are far from it.
const NEVER: i64 = i64::MIN;

/// See the module.
#[derive(Debug)]
pub(super) struct FlowMeter {
    /// First and last generation; the first is later than the last if there was none.
    generated: (i64, i64),
    last_delivery: i64,
    /// Freshest generation that was delivered.
    fresh: i64,
    /// Age with which the open segment began; never, in the one that the first delivery began: its beginning is known in the end.
    since: i64,
    /// The first delivery: when, and its generation.
    first: Option<(i64, i64)>,
    /// End of the segment that the first delivery began, once it is closed.
    second: Option<i64>,
    sums: Sums,
    /// Beginnings and ends, in turns.
    segments: NumberList,
}

impl Default for FlowMeter {
    fn default() -> Self {
        FlowMeter {
            generated: (i64::MAX, i64::MIN),
            last_delivery: NEVER,
            fresh: NEVER,
            since: NEVER,
            first: None,
            second: None,
            sums: Sums::default(),
            segments: NumberList::default(),
        }
    }
}

impl FlowMeter {
    /// An update was generated at `t`.
    #[inline]
    pub(super) fn generated(&mut self, t: i64) {
        let (first, last) = self.generated;
        self.generated = (first.min(t), last.max(t));
    }

    /// An update generated at `generation` was delivered at `t`. Returns how many numbers it keeps more.
    #[inline]
    pub(super) fn delivered(&mut self, t: i64, generation: i64) -> usize {
        self.last_delivery = self.last_delivery.max(t);
        if generation <= self.fresh {
            return 0;
        }
        let age = t.wrapping_sub(self.fresh);
        self.fresh = generation;
        if self.since == NEVER {
            return self.begin(t, generation, age);
        }
        self.segments.push_pair([self.since, age]);
        self.sums.add(self.since, age, true);
        self.since = t - generation;
        2
    }

    /// The first and the second delivery that lower the age.
    #[cold]
    fn begin(&mut self, t: i64, generation: i64, age: i64) -> usize {
        if self.first.is_none() {
            self.first = Some((t, generation));
        } else {
            (self.second, self.since) = (Some(age), t - generation);
        }
        0
    }

    /// Its numbers go to `file`; returns how many they are.
    pub(super) fn spill(&mut self, file: &Shared) -> Result<usize> {
        self.segments.spill(file)
    }

    /// Its age over all; none if nothing of it was seen.
    pub(super) fn age(mut self, id: u32) -> Result<Option<FlowAge>> {
        let (start, last_generated) = self.generated;
        if start > last_generated {
            return Ok(None);
        }
        let mut end = last_generated;
        let mut open = (0, start);
        if let Some((t, generation)) = self.first {
            end = end.max(self.last_delivery);
            // The first delivery lowers the age unless it is of the very update with which the flow began.
            let begin = if generation > start {
                self.close(0, t - start);
                t - generation
            } else {
                0
            };
            let since = match self.second {
                Some(age) => {
                    self.close(begin, age);
                    self.since
                }
                None => begin,
            };
            open = (since, self.fresh);
        }
        // The window's end is no peak.
        let (since, last) = (open.0, end - open.1);
        self.sums.add(since, last, false);
        self.segments.push_pair([since, last]);
        self.sums.age(id, self.first.is_some(), &PairList(&self.segments)).map(Some)
    }

    fn close(&mut self, from: i64, to: i64) {
        self.segments.push_pair([from, to]);
        self.sums.add(from, to, true);
    }
}
