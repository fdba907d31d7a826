//! Age-of-Model of one cluster or worker (here a "flow"), from a stream of generations and deliveries.
//!
//! Finds the same segments that [`pktgen_records::age`] finds in tables. The beginning of a flow is known only at the
//! end: the updates generated first are not necessarily captured first.

use pktgen_core::Result;
use pktgen_records::age::{FlowAge, Sums};
use pktgen_records::column::{NumberList, PairList, Shared};

/// No time; times in captures are far from this value.
const NEVER: i64 = i64::MIN;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct FlowMeter {
    /// First and last generation; the first is later than the last if there was none.
    generated: (i64, i64),
    last_delivery: i64,
    /// Newest generation delivered.
    fresh: i64,
    /// Age at the beginning of the open segment; [`NEVER`] in the segment that the first delivery began, whose
    /// beginning is known only at the end.
    since: i64,
    /// Time and generation of the first delivery.
    first: Option<(i64, i64)>,
    /// End of the segment that began with the first delivery, once it is closed.
    second: Option<i64>,
    sums: Sums,
    /// Beginnings and ends, alternating.
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
    /// Records that an update was generated at `t`.
    #[inline]
    pub(super) fn generated(&mut self, t: i64) {
        let (first, last) = self.generated;
        self.generated = (first.min(t), last.max(t));
    }

    /// Records that an update generated at `generation` was delivered at `t`. Returns how many more numbers are stored.
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

    /// Handles the first and the second delivery that lower the age.
    #[cold]
    fn begin(&mut self, t: i64, generation: i64, age: i64) -> usize {
        if self.first.is_none() {
            self.first = Some((t, generation));
        } else {
            (self.second, self.since) = (Some(age), t - generation);
        }
        0
    }

    /// Moves the numbers to `file`; returns their count.
    pub(super) fn spill(&mut self, file: &Shared) -> Result<usize> {
        self.segments.spill(file)
    }

    /// Returns the age over the whole time; `None` if nothing of the flow was captured.
    pub(super) fn age(mut self, id: u32) -> Result<Option<FlowAge>> {
        let (start, last_generated) = self.generated;
        if start > last_generated {
            return Ok(None);
        }
        let mut end = last_generated;
        let mut open = (0, start);
        if let Some((t, generation)) = self.first {
            end = end.max(self.last_delivery);
            // The first delivery lowers the age unless it is the update with which the flow began.
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
        // The end of the window is not a peak.
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
