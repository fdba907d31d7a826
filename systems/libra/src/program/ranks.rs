//! A set of workers of one job with one bit each.

/// Workers by their index in the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ranks(pub(super) [u64; 4]);

impl Ranks {
    /// Maximum number of workers of a job.
    pub(super) const MAX: u32 = 256;

    /// Returns the first `count` workers.
    pub(super) fn first(count: u32) -> Self {
        let word = |i: u32| match count.saturating_sub(i * 64) {
            0 => 0,
            n if n < 64 => (1 << n) - 1,
            _ => u64::MAX,
        };
        Ranks([word(0), word(1), word(2), word(3)])
    }

    /// Whether it contains a worker.
    pub(super) fn contains(&self, rank: u32) -> bool {
        self.0.get(rank as usize / 64).is_some_and(|word| word >> (rank % 64) & 1 == 1)
    }

    /// Adds a worker.
    pub(super) fn insert(&mut self, rank: u32) {
        if let Some(word) = self.0.get_mut(rank as usize / 64) {
            *word |= 1 << (rank % 64);
        }
    }

    /// Adds all workers in `others`.
    pub(super) fn add(&mut self, others: &Ranks) {
        self.0.iter_mut().zip(others.0).for_each(|(word, other)| *word |= other);
    }

    /// Removes a worker; returns whether it was in the set.
    pub(super) fn remove(&mut self, rank: u32) -> bool {
        let was = self.contains(rank);
        if was {
            self.0[rank as usize / 64] &= !(1 << (rank % 64));
        }
        was
    }

    /// Whether it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Returns the number of workers.
    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the workers in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = u32> {
        (0..Self::MAX).filter(move |rank| self.contains(*rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_each() {
        for count in [0, 1, 63, 64, 65, 128, 200, 255, 256] {
            let all = Ranks::first(count);
            assert_eq!((all.len(), all.is_empty()), (count, count == 0));
            assert!(all.iter().eq(0..count));
        }
        let mut some = Ranks::default();
        some.insert(70);
        some.insert(256);
        assert!(some.iter().eq([70]) && !some.contains(300));
        assert!(some.remove(70) && !some.remove(70) && !some.remove(256) && some.is_empty());
    }
}
