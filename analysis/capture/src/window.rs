//! Which of a worker's latest packets were seen before: duplicates in flat memory.

/// Sequence numbers that are remembered behind the highest.
const SPAN: u32 = 1024;
const WORDS: usize = SPAN as usize / 64;

/// Bits of the latest sequence numbers; later attempts have bits of their own where there are any.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    /// One above the highest number seen; 0 if none was.
    next: u64,
    bits: [u64; WORDS],
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It was not there before.
    New,
    /// It was.
    Again,
    /// Too old to tell.
    Late,
}

impl Window {
    /// Takes note of a number.
    #[inline]
    pub(super) fn see(&mut self, seq: u32) -> Known {
        let seq = u64::from(seq);
        if seq >= self.next {
            self.forget_up_to(seq);
            self.next = seq + 1;
        } else if self.next - seq > u64::from(SPAN) {
            return Known::Late;
        }
        let (word, bit) = ((seq / 64) as usize % WORDS, 1u64 << (seq % 64));
        let before = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        if before { Known::Again } else { Known::New }
    }

    /// The bits from the next number up to `seq` stood for older ones.
    #[inline]
    fn forget_up_to(&mut self, seq: u64) {
        if seq - self.next >= u64::from(SPAN) {
            self.bits = [0; WORDS];
            return;
        }
        for number in self.next..=seq {
            self.bits[(number / 64) as usize % WORDS] &= !(1 << (number % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn it_knows_what_a_set_knows(steps in prop::collection::vec(prop_oneof![0u32..40, 0u32..3000, any::<u32>()], 1..300)) {
            let (mut window, mut seen, mut highest) = (Window::default(), HashSet::new(), 0);
            for seq in steps {
                highest = highest.max(seq);
                let expected = match (highest - seq >= SPAN, seen.insert(seq)) {
                    (true, _) => Known::Late,
                    (false, true) => Known::New,
                    (false, false) => Known::Again,
                };
                prop_assert_eq!(window.see(seq), expected, "{}", seq);
            }
        }
    }
}
