//! A map of bounded size that keeps its latest entries.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// The latest entries of a map.
pub(super) struct Recent<K, V, S = RandomState> {
    young: HashMap<K, V, S>,
    old: HashMap<K, V, S>,
    /// At least the latest this many entries are remembered, at most twice as many.
    pub(super) kept: usize,
    forgot: bool,
}

impl<K: Eq + Hash, V: Copy, S: BuildHasher + Default> Recent<K, V, S> {
    /// Creates a map that remembers at least the latest `kept` entries.
    pub(super) fn new(kept: usize) -> Self {
        Recent { young: HashMap::default(), old: HashMap::default(), kept, forgot: false }
    }

    pub(super) fn put(&mut self, key: K, value: V) {
        if self.young.len() == self.kept {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.forgot |= !old.is_empty();
        }
        self.young.insert(key, value);
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    /// Whether it no longer has all that was put into it.
    pub(super) fn forgot(&self) -> bool {
        self.forgot
    }

    pub(super) fn take(&mut self, key: &K) -> Option<V> {
        let old = self.old.remove(key);
        self.young.remove(key).or(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_is_forgotten() {
        let mut recent: Recent<u32, u32> = Recent::new(4);
        (0..20).for_each(|i| recent.put(i, i * i));
        assert_eq!((recent.get(&19), recent.get(&16), recent.get(&2)), (Some(361), Some(256), None));
        assert!(recent.forgot());
        let mut recent: Recent<u32, u32> = Recent::new(4);
        (0..8).for_each(|i| recent.put(i, i));
        assert!(!recent.forgot());
    }
}
