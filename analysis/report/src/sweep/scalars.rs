//! Scalars of a run by the keys of its lines: a list of numbers, beside a list of keys that runs of a sweep share.
//!
//! Called by [`super`]. A sweep of a thousand runs has as many lists of numbers, and few of keys.

use std::collections::BTreeSet;
use std::ops::Index;
use std::sync::Arc;

use super::common::first;

/// Keys in ascending order.
pub(super) type KeyList = Arc<Vec<Arc<str>>>;

/// Scalars by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scalars {
    keys: KeyList,
    /// One of each key.
    values: Vec<f64>,
}

impl Scalars {
    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.place(key).ok().map(|at| self.values[at])
    }

    /// Sets the value of `key`.
    pub fn insert(&mut self, key: impl Into<Arc<str>>, value: f64) {
        let key = key.into();
        match self.place(&key) {
            Ok(at) => self.values[at] = value,
            Err(at) => {
                Arc::make_mut(&mut self.keys).insert(at, key);
                self.values.insert(at, value);
            }
        }
    }

    /// Returns keys and values in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, f64)> {
        self.keys.iter().zip(self.values.iter().copied())
    }

    /// Replaces its list of keys by an equal one in `known`, or adds it there.
    pub(super) fn share(&mut self, known: &mut BTreeSet<KeyList>) {
        first(known, &mut self.keys);
        self.values.shrink_to_fit();
    }

    fn place(&self, key: &str) -> Result<usize, usize> {
        self.keys.binary_search_by(|known| (**known).cmp(key))
    }
}

impl FromIterator<(Arc<str>, f64)> for Scalars {
    /// Of equal keys, the last one counts.
    fn from_iter<I: IntoIterator<Item = (Arc<str>, f64)>>(all: I) -> Scalars {
        let mut values = Scalars::default();
        all.into_iter().for_each(|(key, value)| values.insert(key, value));
        values
    }
}

impl Index<&str> for Scalars {
    type Output = f64;

    /// Panics without a value of `key`; see [`Scalars::get`].
    fn index(&self, key: &str) -> &f64 {
        match self.place(key) {
            Ok(at) => &self.values[at],
            Err(_) => panic!("no value of {key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pktgen_records::testing::Dice;

    use super::*;

    #[test]
    fn values_are_those_of_a_map() {
        let mut dice = Dice::new(7);
        let mut below = |n: f64| (n * dice.uniform()) as u64;
        let (mut own, mut map) = (Scalars::default(), BTreeMap::new());
        for _ in 0..2000 {
            let key = format!("metric/{}", below(40.0));
            let value = below(1000.0) as f64;
            own.insert(key.as_str(), value);
            map.insert(key.clone(), value);
            assert_eq!(own.get(&key), map.get(&key).copied());
            assert!(own.iter().map(|(key, value)| (&**key, value)).eq(map.iter().map(|(key, v)| (key.as_str(), *v))));
        }
        let again: Scalars = map.iter().rev().map(|(key, value)| (Arc::from(key.as_str()), *value)).collect();
        assert_eq!(own, again);
    }

    #[test]
    fn equal_keys_are_stored_once_until_a_run_has_another() {
        let mut known = BTreeSet::new();
        let mut run = |value: f64| {
            let mut values: Scalars = [("a".into(), value), ("b".into(), value)].into_iter().collect();
            values.share(&mut known);
            values
        };
        let (one, mut two) = (run(1.0), run(2.0));
        assert!(Arc::ptr_eq(&one.keys, &two.keys));
        two.insert("c", 3.0);
        assert_eq!((one.get("c"), two["c"], one["a"], two["a"]), (None, 3.0, 1.0, 2.0));
    }
}
