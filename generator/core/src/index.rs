//! A map from ids to dense indices, with a fixed and cheap hash.
//!
//! Used by analysis (packet ids, clusters and workers) and lanes. The hash is not random, so that results do not depend
//! on the process; ids are not chosen by an adversary.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::seed::mix;

/// A map of ids, or of tuples of them.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Ids to dense indices.
pub type Index = IdMap<u64, u32>;

/// Marks a missing dense index.
pub const NOWHERE: u32 = u32::MAX;

/// Mixes ids, so that ids that differ in few bits have distant hashes; different ids have different hashes.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}

/// An empty index with capacity for `n` ids.
pub fn with_room(n: usize) -> Index {
    Index::with_capacity_and_hasher(n, BuildHasherDefault::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_do_not_collide() {
        let hash = |value: u64| {
            let mut hasher = IdHasher::default();
            hasher.write_u64(value);
            hasher.finish()
        };
        let mut seen: Vec<_> = (0..4096u64).flat_map(|i| [hash(i), hash(i << 40)]).map(|h| h & 0xFFFF).collect();
        seen.sort_unstable();
        seen.dedup();
        // 8191 different ids in 65536 buckets: random hashing leaves about 7700 distinct ones.
        assert!(seen.len() > 6000, "{}", seen.len());
    }
}
