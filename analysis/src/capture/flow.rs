//! The Age-of-Model of one flow, from a stream of generations and deliveries.
//!
//! Finds the segments that [`crate::age`] finds in tables. What it must not know before the end is when the flow began:
//! updates that were generated first need not be the first that are seen.

use pktgen_generator::Result;

use crate::age::{FlowAge, Sums};
use crate::column::{Column, Shared};
use crate::quantile::Values;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct FlowMeter {
    /// First and last generation.
    generated: Option<(i64, i64)>,
    /// The first delivery: when, and its generation.
    first: Option<(i64, i64)>,
    last_delivery: i64,
    /// Freshest generation that was delivered.
    fresh: i64,
    /// Age with which the open segment began; none of the one that the first delivery began, whose beginning is known in the end.
    since: Option<i64>,
    /// End of the segment that the first delivery began, once it is closed.
    second: Option<i64>,
    sums: Sums,
    from: Column,
    /// Ends, all of them peaks.
    to: Column,
}

impl FlowMeter {
    /// An update was generated at `t`.
    #[inline]
    pub(super) fn generated(&mut self, t: i64) {
        self.generated = Some(match self.generated {
            Some((first, last)) => (first.min(t), last.max(t)),
            None => (t, t),
        });
    }

    /// An update generated at `generation` was delivered at `t`. Returns how many numbers it keeps more.
    #[inline]
    pub(super) fn delivered(&mut self, t: i64, generation: i64) -> usize {
        self.last_delivery = self.last_delivery.max(t);
        if self.first.is_none() {
            (self.first, self.fresh, self.last_delivery) = (Some((t, generation)), generation, t);
            return 0;
        }
        if generation <= self.fresh {
            return 0;
        }
        let age = t - self.fresh;
        match self.since {
            Some(since) => {
                self.from.push(since);
                self.to.push(age);
                self.sums.add(since, age, true);
            }
            None => self.second = Some(age),
        }
        (self.fresh, self.since) = (generation, Some(t - generation));
        2
    }

    /// Its numbers go to `file`; returns how many they are.
    pub(super) fn spill(&mut self, file: &Shared) -> Result<usize> {
        Ok(self.from.spill(file)? + self.to.spill(file)?)
    }

    /// Its age over all; none if nothing of it was seen.
    pub(super) fn age(mut self, id: u32) -> Result<Option<FlowAge>> {
        let Some((start, last_generated)) = self.generated else { return Ok(None) };
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
            if let Some(age) = self.second {
                self.close(begin, age);
            }
            open = (self.since.unwrap_or(begin), self.fresh);
        }
        let peaks = self.to;
        // The window's end is no peak.
        let (since, last) = (open.0, end - open.1);
        self.sums.add(since, last, false);
        self.from.push(since);
        let ends = WithLast { peaks: &peaks, last: [last] };
        self.sums.age(id, self.first.is_some(), [&self.from, &ends, &peaks]).map(Some)
    }

    fn close(&mut self, from: i64, to: i64) {
        self.from.push(from);
        self.to.push(to);
        self.sums.add(from, to, true);
    }
}

/// The peaks, and the age at the end.
struct WithLast<'a> {
    peaks: &'a Column,
    last: [i64; 1],
}

impl Values for WithLast<'_> {
    fn len(&self) -> usize {
        self.peaks.len() + 1
    }

    fn ends(&self) -> Result<Option<(i64, i64)>> {
        let [last] = self.last;
        Ok(Some(self.peaks.ends()?.map_or((last, last), |(low, high)| (low.min(last), high.max(last)))))
    }

    fn scan(&self, each: &mut dyn FnMut(&[i64])) -> Result<()> {
        self.peaks.scan(each)?;
        each(&self.last);
        Ok(())
    }
}
