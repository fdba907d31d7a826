//! The 256-bit mask of a job's or block's sources (Trio A.1, `src_mask_0` to `src_mask_3`).

/// A set of source ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mask([u64; 4]);

impl Mask {
    /// Whether it contains the source.
    #[inline]
    pub fn has(&self, source: u8) -> bool {
        self.0[usize::from(source >> 6)] >> (source & 63) & 1 != 0
    }

    /// Adds a source.
    #[inline]
    pub fn insert(&mut self, source: u8) {
        self.0[usize::from(source >> 6)] |= 1 << (source & 63);
    }

    /// Removes a source.
    pub fn remove(&mut self, source: u8) {
        self.0[usize::from(source >> 6)] &= !(1 << (source & 63));
    }

    /// Returns the sources that are not in `other`.
    #[inline]
    pub fn minus(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Returns the number of sources.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns its sources in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |source| self.has(*source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_mask_is_a_set(steps in prop::collection::vec((any::<u8>(), any::<bool>()), 0..300)) {
            let (mut mask, mut set) = (Mask::default(), BTreeSet::new());
            for (source, add) in steps {
                if add {
                    mask.insert(source);
                    set.insert(source);
                } else {
                    mask.remove(source);
                    set.remove(&source);
                }
            }
            prop_assert_eq!(mask.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!((mask.count() as usize, mask.is_empty()), (set.len(), set.is_empty()));
            let mut some = Mask::default();
            set.iter().filter(|s| **s % 2 == 0).for_each(|s| some.insert(*s));
            prop_assert!(mask.minus(&some).iter().all(|s| s % 2 == 1));
        }
    }
}
