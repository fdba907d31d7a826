//! Sums by key.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::format::{COLD_PAIR, cold_pairs};

/// Keys are either already spread or consecutive: one multiplication spreads them over a table. Equal in every run.
#[derive(Debug, Clone, Copy, Default)]
struct Spread(u64);

impl Hasher for Spread {
    #[inline]
    fn write_u64(&mut self, key: u64) {
        self.0 = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The table uses the lowest bits, which the multiplication mixes least.
        self.0 ^ self.0 >> 32
    }
}

/// The sums of a job. They are never iterated over, so their order does not matter.
#[derive(Debug, Default)]
pub(super) struct Sums(HashMap<u64, f32, BuildHasherDefault<Spread>>);

impl Sums {
    /// Adds the pairs of a packet, given as bytes.
    #[inline]
    pub(super) fn add(&mut self, pairs: &[u8]) {
        for (key, value) in cold_pairs(pairs) {
            *self.0.entry(key).or_default() += value;
        }
    }

    /// Replaces the values of these keys by their sums; 0 for keys that were not pushed.
    #[inline]
    pub(super) fn fill(&self, pairs: &mut [u8]) {
        for pair in pairs.as_chunks_mut::<COLD_PAIR>().0 {
            let [a, b, c, d, e, f, g, h, ..] = *pair;
            let key = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            let sum = self.0.get(&key).copied().unwrap_or_default();
            pair[8..].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Forgets the sums but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
