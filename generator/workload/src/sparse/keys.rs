//! Keys of parameters: 64 bits that say nothing of how often a parameter is updated.
//!
//! A key is a bijection of the rank, another for every job. Dense parameters have a range
//! of their own: the top bit set. Called by batches and by the hot set.

use crate::seed::{Seed, mix};

/// The top bit.
const DENSE: u64 = 1 << 63;
/// All others.
const MASK: u64 = DENSE - 1;
/// Odd factors: those of SplitMix64.
const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
/// The keys of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    tweak: u64,
}

impl Keys {
    /// Of a job.
    pub fn new(seed: Seed, job: u16) -> Self {
        Keys { tweak: mix(seed.bits() ^ mix(u64::from(job) + 1)) & MASK }
    }

    /// Key of the sparse parameter at `rank`, below 2^63.
    #[inline]
    pub fn sparse(self, rank: u64) -> u64 {
        let mut x = (rank & MASK) ^ self.tweak;
        for factor in FACTORS {
            // Each step is a bijection of 63 bits: a shift to the right, a product modulo 2^63.
            x = (x ^ (x >> 32)).wrapping_mul(factor) & MASK;
        }
        x ^ (x >> 32)
    }

    /// Key of the dense parameter `number`.
    #[inline]
    pub fn dense(self, number: u64) -> u64 {
        DENSE | self.sparse(number)
    }

    /// Whether it is the key of a dense parameter.
    #[cfg(test)]
    pub(super) fn is_dense(key: u64) -> bool {
        key & DENSE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// The inverse of an odd number, by Newton's iteration: each step doubles the bits that are right.
    fn inverse(odd: u64) -> u64 {
        (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
    }

    impl Keys {
        /// Rank of the sparse parameter, or number of the dense one, with `key`.
        pub(in crate::sparse) fn rank(self, key: u64) -> u64 {
            let mut x = key & MASK;
            x ^= x >> 32;
            for factor in FACTORS.into_iter().rev() {
                x = x.wrapping_mul(inverse(factor)) & MASK;
                x ^= x >> 32;
            }
            x ^ self.tweak
        }
    }

    proptest! {
        #[test]
        fn keys_have_a_way_back(rank in 0..=MASK, seed: u64, job in 0u16..256) {
            let keys = Keys::new(Seed(seed), job);
            prop_assert_eq!(keys.rank(keys.sparse(rank)), rank);
            prop_assert_eq!(keys.rank(keys.dense(rank)), rank);
            prop_assert!(!Keys::is_dense(keys.sparse(rank)) && Keys::is_dense(keys.dense(rank)));
        }
    }

    #[test]
    fn keys_differ_and_say_nothing_of_ranks() {
        let all: Vec<_> = (0..3).map(|job| Keys::new(Seed(1), job)).collect();
        let keys: HashSet<_> = all.iter().flat_map(|k| (0..10_000).map(|rank| k.sparse(rank))).collect();
        assert_eq!(keys.len(), 30_000, "jobs have keys of their own");
        // Neighbours in rank are as far apart as any, in every bit.
        for bit in 0..63 {
            let set = (0..10_000).filter(|rank| all[0].sparse(*rank) >> bit & 1 == 1).count();
            let flips = (0..10_000).filter(|r| (all[0].sparse(*r) ^ all[0].sparse(r + 1)) >> bit & 1 == 1).count();
            assert!((4700..5300).contains(&set) && (4700..5300).contains(&flips), "bit {bit}: {set}, {flips}");
        }
    }
}
