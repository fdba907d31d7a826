//! What comes next of many workers, in the order of time; ties go to the lower worker.
//!
//! A heap of all is larger than the nearest caches, and each step down its levels waits for the one before. Here a small heap holds what
//! is due in the present slice of time; later slices are lists without order. What is later than all of them is in one more list.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::prefetch;
use crate::time::Time;

/// Time and worker; the earliest is the largest.
pub(super) type Due = Reverse<(Time, u32)>;

/// Up to so many are in one heap: it stays in the caches of a core.
pub(super) const FEW: usize = 16_384;
/// Entries of a slice on the mean, at most.
const PER_SLICE: usize = 32;
/// The first levels of the heap.
const SOON: usize = 7;

/// Invariant: `near` has exactly what is of slice `now` or before.
#[derive(Default)]
pub(super) struct Upcoming {
    near: BinaryHeap<Due>,
    /// The present slice; the maximum if all is near.
    now: u64,
    /// Slices last 2 to the power of this, in ps.
    shift: u32,
    /// The slices after `now`, by the lowest bits of their numbers.
    slices: Vec<Vec<Due>>,
    /// Entries in `slices`.
    listed: usize,
    /// Later than those, and the first slice of them.
    far: Vec<Due>,
    far_from: u64,
    /// Memory of slices that are over.
    spare: Vec<Vec<Due>>,
    few: usize,
}

fn slice_of(t: Time, shift: u32) -> u64 {
    (t.max(0) as u64) >> shift
}

impl Upcoming {
    /// Up to `few` are in one heap.
    pub(super) fn new(all: Vec<Due>, few: usize) -> Self {
        Upcoming { far: all, few, ..Upcoming::default() }
    }

    /// Takes the earliest; `again` says when its worker is due again, if it is.
    #[inline]
    pub(super) fn step(&mut self, again: impl FnOnce(u32) -> Option<Time>) -> Option<(Time, u32)> {
        if self.near.is_empty() {
            self.open();
        }
        let mut top = self.near.peek_mut()?;
        let Reverse((time, worker)) = *top;
        let Some(t) = again(worker) else {
            PeekMut::pop(top);
            return Some((time, worker));
        };
        let slice = slice_of(t, self.shift);
        if slice <= self.now {
            *top = Reverse((t, worker));
        } else {
            PeekMut::pop(top);
            self.put_off(slice, Reverse((t, worker)));
        }
        Some((time, worker))
    }

    /// Workers that are probably next; none if all are near.
    #[inline]
    pub(super) fn soon(&self) -> impl Iterator<Item = u32> + '_ {
        let most = if self.now == u64::MAX { 0 } else { SOON };
        self.near.as_slice().iter().take(most).map(|Reverse((_, worker))| *worker)
    }

    #[inline]
    fn put_off(&mut self, slice: u64, due: Due) {
        if slice - self.now >= self.slices.len() as u64 {
            self.far_from = self.far_from.min(slice);
            return self.far.push(due);
        }
        let here = slice as usize & (self.slices.len() - 1);
        let list = &mut self.slices[here];
        if list.capacity() == 0 {
            *list = self.spare.pop().unwrap_or_default();
        }
        list.push(due);
        self.listed += 1;
    }

    /// Fills the near heap, which is empty, with the next slice that is not.
    #[inline(never)]
    fn open(&mut self) {
        if self.listed + self.far.len() <= self.few {
            let mut all = std::mem::take(&mut self.far);
            self.slices.drain(..).for_each(|list| all.extend(list));
            (self.listed, self.now, self.near) = (0, u64::MAX, all.into());
            return;
        }
        loop {
            if self.listed == 0 {
                self.divide();
            } else {
                self.now += 1;
            }
            if self.now >= self.far_from {
                self.far_from = u64::MAX;
                for due in std::mem::take(&mut self.far) {
                    self.put_off(slice_of(due.0.0, self.shift), due);
                }
            }
            let mask = self.slices.len() - 1;
            let list = std::mem::take(&mut self.slices[self.now as usize & mask]);
            if !list.is_empty() {
                self.listed -= list.len();
                self.spare.push(std::mem::replace(&mut self.near, list.into()).into_vec());
                return prefetch(self.slices[(self.now + 1) as usize & mask].as_slice());
            }
        }
    }

    /// Chooses slices for what is put off, all of which is in `far`: they reach at least twice as far as it does.
    fn divide(&mut self) {
        let ends = |(first, last): (Time, Time), due: &Due| (first.min(due.0.0), last.max(due.0.0));
        let (first, last) = self.far.iter().fold((Time::MAX, 0), ends);
        let many = (self.far.len() / PER_SLICE).max(1);
        self.shift = (last.abs_diff(first) / many as u64).max(1).ilog2();
        let slices = (4 * many).next_power_of_two().max(self.slices.len());
        self.slices.resize_with(slices, Vec::new);
        self.now = slice_of(first, self.shift);
        self.far_from = self.now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn takes_what_one_heap_takes(
            first in prop::collection::vec(0i64..5000, 1..200),
            gaps in prop::collection::vec(prop_oneof![8 => 0i64..3000, 2 => 0i64..200_000, 1 => Just(Time::MAX / 2)], 0..800),
            few in 0usize..40,
        ) {
            let all: Vec<Due> = first.iter().zip(0u32..).map(|(t, worker)| Reverse((*t, worker))).collect();
            let (mut plain, mut upcoming) = (BinaryHeap::from(all.clone()), Upcoming::new(all, few));
            let mut gaps = gaps.into_iter();
            loop {
                let expected = plain.pop().map(|Reverse(due)| due);
                let again = expected.and_then(|(t, _)| gaps.next().map(|gap| t.saturating_add(gap)));
                prop_assert_eq!(upcoming.step(|_| again), expected);
                let Some((_, worker)) = expected else { break };
                plain.extend(again.map(|t| Reverse((t, worker))));
            }
        }
    }
}
