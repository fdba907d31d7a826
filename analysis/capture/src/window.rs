//! Detects duplicates among a worker's latest packets, in constant memory.

/// Number of sequence numbers remembered behind the highest.
const SPAN: u32 = 1024;
const WORDS: usize = SPAN as usize / 64;

/// Bits of the latest sequence numbers, and which update uses each, if packets contain the generation time.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    /// One above the highest number seen; 0 if none was.
    next: u64,
    bits: [u64; WORDS],
    /// By sequence number: a digest of the generation time.
    marks: Vec<u16>,
    /// Latest generation time seen.
    newest: Option<i64>,
}

/// State of a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Not seen before.
    New,
    /// Seen before.
    Again,
    /// Seen before with another update: numbers restarted.
    Anew,
    /// Too old to be recognised.
    Late,
}

impl Window {
    /// Returns whether no number was seen.
    pub(super) fn is_empty(&self) -> bool {
        self.next == 0
    }

    /// Records the sequence number of an update generated at `generation`.
    #[inline]
    pub(super) fn see(&mut self, seq: u32, generation: i64) -> Known {
        let seq = u64::from(seq);
        let digest = ((generation as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16;
        // Compared within the window: other transmissions of the same update may have come before this one.
        let is_newest = Some(generation) > self.newest;
        self.newest = self.newest.max(Some(generation));
        let mut anew = false;
        if seq >= self.next {
            self.forget_up_to(seq);
            self.next = seq + 1;
        } else if self.next - seq > u64::from(SPAN) {
            if !is_newest {
                return Known::Late;
            }
            // Only after a restart can a number be this old and belong to the newest update.
            (self.next, self.bits, anew) = (seq + 1, [0; WORDS], true);
        }
        // Small tables suffice: if there are many workers, most send little.
        let place = seq as usize % SPAN as usize;
        if place >= self.marks.len() {
            self.marks.resize((place + 1).next_power_of_two(), 0);
        }
        let (word, bit) = ((seq / 64) as usize % WORDS, 1u64 << (seq % 64));
        let before = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        let own = &mut self.marks[place];
        let known = match before {
            true if *own == digest => Known::Again,
            true => Known::Anew,
            false if anew => Known::Anew,
            false => Known::New,
        };
        *own = digest;
        known
    }

    /// Clears the bits from the next number up to `seq`, which were used by older numbers.
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
            // Numbers never begin anew.
            let mut window = Window { newest: Some(i64::MAX), ..Window::default() };
            let (mut seen, mut highest) = (HashMap::new(), 0);
            for (seq, generation) in steps {
                highest = highest.max(seq);
                let expected = match (highest - seq >= SPAN, seen.insert(seq, generation)) {
                    (true, _) => Known::Late,
                    (false, None) => Known::New,
                    (false, Some(before)) if before == generation => Known::Again,
                    (false, Some(_)) => Known::Anew,
                };
                prop_assert_eq!(window.see(seq, generation), expected, "{}", seq);
            }
        }
    }

    /// A worker that restarts with number 0, and one whose 32-bit numbers wrap around: neither sends copies.
    #[test]
    fn numbers_that_begin_anew_are_no_copies() {
        let mut window = Window::default();
        let mut see = |seq: u32, generation: i64| window.see(seq, generation);
        assert!((0..5000).all(|seq| see(seq, seq.into()) == Known::New));
        assert_eq!(see(10, 10), Known::Late, "an old copy");
        assert_eq!((see(0, 6000), see(1, 6001), see(0, 6000)), (Known::Anew, Known::New, Known::Again));
        assert_eq!((see(u32::MAX, 7000), see(0, 7001), see(1, 7002)), (Known::New, Known::Anew, Known::New));
        // Within the remembered range, the generation time decides.
        assert_eq!((see(0, 8000), see(1, 8001), see(1, 8001)), (Known::Anew, Known::Anew, Known::Again));
    }
}
