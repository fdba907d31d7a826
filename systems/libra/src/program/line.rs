//! Frames in the pipeline, in the order of departure.
//!
//! A recirculated frame leaves after others that arrived later, so the line is sorted by time; at equal times the first
//! arrival leaves first.

use std::collections::VecDeque;

use pktgen_core::time::{NEVER, Time};

use pktgen_engine::frame::Frame;

/// Destination of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// To one worker.
    Port(u16),
    /// To all workers of its job.
    Everyone {
        /// Whether it is the first result of its sum.
        first: bool,
    },
}

/// The line.
#[derive(Debug, Default)]
pub(super) struct Line {
    frames: VecDeque<(Frame, To)>,
}

impl Line {
    /// Adds a frame that leaves at `frame.t`.
    #[inline]
    pub(super) fn push(&mut self, frame: Frame, to: To) {
        insert(&mut self.frames, (frame, to), |(frame, _)| frame.t);
    }

    /// Returns when the next one leaves.
    #[inline]
    pub(super) fn next(&self) -> Time {
        self.frames.front().map_or(NEVER, |(frame, _)| frame.t)
    }

    /// Returns when the last one leaves.
    #[cfg(test)]
    pub(super) fn last(&self) -> Time {
        self.frames.back().map_or(0, |(frame, _)| frame.t)
    }

    /// Returns the next one that leaves by `t`.
    #[inline]
    pub(super) fn pop(&mut self, t: Time) -> Option<(Frame, To)> {
        self.frames.pop_front_if(|(frame, _)| frame.t <= t)
    }
}

/// Inserts into a queue sorted by `key`, after equal ones. Usually the new one is the last.
#[inline]
pub(super) fn insert<T, K: Ord>(queue: &mut VecDeque<T>, item: T, key: impl Fn(&T) -> K) {
    let at = key(&item);
    match queue.back() {
        Some(last) if key(last) > at => {
            let place = queue.partition_point(|other| key(other) <= at);
            queue.insert(place, item);
        }
        _ => queue.push_back(item),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_times_leave_in_the_order_of_arrival(times in prop::collection::vec(0u8..20, 0..200)) {
            let mut queue: VecDeque<(u8, usize)> = VecDeque::new();
            let mut naive: Vec<(u8, usize)> = Vec::new();
            for (number, t) in times.into_iter().enumerate() {
                insert(&mut queue, (t, number), |(t, _)| *t);
                let place = naive.iter().rposition(|(other, _)| *other <= t).map_or(0, |place| place + 1);
                naive.insert(place, (t, number));
                prop_assert!(queue.iter().eq(&naive));
            }
        }
    }
}
