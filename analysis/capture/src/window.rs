//! Which of a worker's latest packets were seen before: duplicates in flat memory.

/// Sequence numbers that are remembered behind the highest.
const SPAN: u32 = 1024;
const WORDS: usize = SPAN as usize / 64;

/// Bits of the latest sequence numbers, and by which update each is used, where packets say when that was generated.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    /// One above the highest number seen; 0 if none was.
    next: u64,
    bits: [u64; WORDS],
    /// By number: a digest of the generation.
    marks: Vec<u16>,
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It was not there before.
    New,
    /// It was.
    Again,
    /// It was, of another update: numbers began anew.
    Anew,
    /// Too old to tell.
    Late,
}

/// What a number is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    digest: u16,
    /// It was generated after all that was seen of its worker before.
    is_newest: bool,
}

impl Mark {
    /// Of an update that was generated at `generation`, where the newest before was generated at `newest`.
    #[inline]
    pub(super) fn of(generation: i64, newest: i64) -> Mark {
        let digest = (generation as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        Mark { digest: digest as u16, is_newest: generation > newest }
    }
}

impl Window {
    /// Takes note of a number.
    #[inline]
    pub(super) fn see(&mut self, seq: u32, mark: Mark) -> Known {
        let seq = u64::from(seq);
        let mut anew = false;
        if seq >= self.next {
            self.forget_up_to(seq);
            self.next = seq + 1;
        } else if self.next - seq > u64::from(SPAN) {
            if !mark.is_newest {
                return Known::Late;
            }
            // Only numbers that begin anew are so old and of the newest update.
            (self.next, self.bits, anew) = (seq + 1, [0; WORDS], true);
        }
        // Most workers of many send little.
        let place = seq as usize % SPAN as usize;
        if place >= self.marks.len() {
            self.marks.resize((place + 1).next_power_of_two(), 0);
        }
        let (word, bit) = ((seq / 64) as usize % WORDS, 1u64 << (seq % 64));
        let before = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        let own = &mut self.marks[place];
        let known = match before {
            true if *own == mark.digest => Known::Again,
            true => Known::Anew,
            false if anew => Known::Anew,
            false => Known::New,
        };
        *own = mark.digest;
        known
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
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_knows_what_a_map_knows(steps in prop::collection::vec((prop_oneof![0u32..40, 0u32..3000, any::<u32>()], 0i64..3), 1..300)) {
            let (mut window, mut seen, mut highest) = (Window::default(), HashMap::new(), 0);
            for (seq, generation) in steps {
                highest = highest.max(seq);
                let expected = match (highest - seq >= SPAN, seen.insert(seq, generation)) {
                    (true, _) => Known::Late,
                    (false, None) => Known::New,
                    (false, Some(before)) if before == generation => Known::Again,
                    (false, Some(_)) => Known::Anew,
                };
                prop_assert_eq!(window.see(seq, Mark::of(generation, i64::MAX)), expected, "{}", seq);
            }
        }
    }

    /// A worker that begins again with number 0, and one whose numbers of 32 bits are over: neither sends copies.
    #[test]
    fn numbers_that_begin_anew_are_no_copies() {
        let (mut window, mut newest) = (Window::default(), i64::MIN);
        let mut see = |seq: u32, generation: i64| {
            let known = window.see(seq, Mark::of(generation, newest));
            newest = newest.max(generation);
            known
        };
        assert!((0..5000).all(|seq| see(seq, seq.into()) == Known::New));
        assert_eq!(see(10, 10), Known::Late, "an old copy");
        assert_eq!((see(0, 6000), see(1, 6001), see(0, 6000)), (Known::Anew, Known::New, Known::Again));
        assert_eq!((see(u32::MAX, 7000), see(0, 7001), see(1, 7002)), (Known::New, Known::Anew, Known::New));
        // Within what is remembered the generation tells.
        assert_eq!((see(0, 8000), see(1, 8001), see(1, 8001)), (Known::Anew, Known::Anew, Known::Again));
    }
}
