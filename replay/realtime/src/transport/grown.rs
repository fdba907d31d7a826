//! Extension of narrow counters: libpcap counts losses in 32 bits, which wrap, and may start at any value.

/// A 32-bit counter that is read repeatedly, and its growth since the first reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grown {
    last: u32,
    /// Growth since the first reading.
    pub total: u64,
    /// Whether it was ever lower than before without having wrapped.
    pub backwards: bool,
}

impl Grown {
    /// Starts at the current value: earlier counts belong to other users, or are garbage.
    pub fn from(start: u32) -> Self {
        Grown { last: start, total: 0, backwards: false }
    }

    /// Takes a new reading. It is read about once per second, in which it cannot grow by half of its range: such a step is backwards.
    pub fn advance(&mut self, now: u32) {
        let step = now.wrapping_sub(self.last);
        self.last = now;
        if step <= u32::MAX / 2 {
            self.total += u64::from(step);
        } else {
            self.backwards = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It returns the sum of all steps, for any wrapping.
        #[test]
        fn a_counter_that_wraps_tells_what_was_added(start: u32, steps in prop::collection::vec(0u32..=u32::MAX / 2, 0..40)) {
            let (mut wide, mut grown) = (u64::from(start), Grown::from(start));
            for step in steps {
                wide += u64::from(step);
                grown.advance(wide as u32);
                prop_assert_eq!(grown.total, wide - u64::from(start));
            }
            prop_assert!(!grown.backwards);
        }

        /// A step backwards adds nothing, is remembered, and later steps count.
        #[test]
        fn a_counter_that_is_set_back_is_doubted(start in 1u32.., back in 1u32..=u32::MAX / 2, then in 0u32..1000) {
            let back = back.min(start);
            let mut grown = Grown::from(start);
            grown.advance(start - back);
            grown.advance((start - back).wrapping_add(then));
            prop_assert_eq!((grown.total, grown.backwards), (u64::from(then), true));
        }
    }
}
