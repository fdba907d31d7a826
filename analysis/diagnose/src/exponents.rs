//! Exponents of contributions, of which results have the largest (SwitchML): workers scale the next block by it.

use std::collections::HashMap;

use crate::sums::Key;

/// Exponents of the contributions to each sum of a job.
pub(crate) struct Exponents {
    /// Number of workers, all of which contribute to every sum.
    workers: usize,
    given: HashMap<Key, Given>,
}

/// Exponents of the contributions to a sum, by address.
#[derive(Default)]
struct Given {
    from: HashMap<u32, i8>,
    /// A worker gave two: its packets use the number again.
    is_used_again: bool,
}

impl Exponents {
    pub(crate) fn new(workers: usize) -> Self {
        Exponents { workers, given: HashMap::new() }
    }

    /// Records the exponent in a contribution from this address.
    pub(crate) fn give(&mut self, key: Key, from: u32, exponent: i8) {
        let given = self.given.entry(key).or_default();
        given.is_used_again |= *given.from.entry(from).or_insert(exponent) != exponent;
    }

    /// Returns what is wrong with the exponent of a result, and the addresses without whose contributions it would be right; `None` if it
    /// is right, or those of all workers are not known.
    pub(crate) fn wrong(&self, key: Key, exponent: i8) -> Option<(String, Vec<u32>)> {
        let given = self.given.get(&key).filter(|given| given.from.len() == self.workers && !given.is_used_again)?;
        let largest = *given.from.values().max()?;
        if exponent == largest {
            return None;
        }
        let is_of_some = given.from.values().any(|own| *own == exponent);
        let above = given.from.iter().filter(|(_, own)| is_of_some && **own > exponent);
        let says = format!("its exponent is {exponent}, and the largest of its contributions is {largest}");
        Some((says, above.map(|(from, _)| *from).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponent_is_wrong_only_if_those_of_all_workers_are_known() {
        let (key, other) = ((0, 7, 1), (0, 8, 1));
        let mut all = Exponents::new(2);
        all.give(key, 1, -6);
        assert_eq!(all.wrong(key, 5), None, "one is missing");
        all.give(key, 2, 5);
        all.give(key, 1, -6);
        assert_eq!((all.wrong(key, 5), all.wrong(other, 9)), (None, None));
        for exponent in [-6, 4, 6, i8::MIN] {
            let (says, lacks) = all.wrong(key, exponent).unwrap();
            assert!(says.ends_with("is 5"), "{exponent}");
            assert_eq!(lacks, if exponent == -6 { vec![2] } else { Vec::new() }, "{exponent}");
        }
        all.give(key, 2, 3);
        assert_eq!(all.wrong(key, 3), None, "another sum of the same number");
    }
}
