//! Records which numbers of a sender have arrived: each counts once, despite losses, copies and overtaking.
//!
//! A sender has nothing in flight beyond a window after its oldest unacknowledged packet. So if a number is the highest
//! that arrived, everything at least a window below it has arrived, too, and only the last `window` numbers must be
//! remembered, one bit each (the "local recording" of LIBRA §3.6). Numbers may be skipped.

/// The arrivals of one sender.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    bits: Vec<u64>,
    window: u32,
    /// One more than the highest number that arrived.
    next: u32,
}

impl Seen {
    /// Creates an empty record of a sender with this window.
    pub(super) fn new(window: u32) -> Self {
        Seen { bits: vec![0; window.div_ceil(64) as usize], window, next: 0 }
    }

    /// Whether a sender that skips no numbers can have sent this one. Everything before its window has arrived.
    #[inline]
    pub(super) fn can_be(&self, number: u32) -> bool {
        number < self.next.saturating_add(self.window)
    }

    /// Whether this number has arrived.
    #[inline]
    pub(super) fn has(&self, number: u32) -> bool {
        if number >= self.next {
            return false;
        }
        let (word, bit) = self.place(number);
        self.next - number > self.window || self.bits[word] & bit != 0
    }

    /// Records that `number` arrived; returns whether it is the first time.
    #[inline]
    pub(super) fn first(&mut self, number: u32) -> bool {
        if self.has(number) {
            return false;
        }
        if number >= self.next {
            if number - self.next >= self.window {
                self.bits.fill(0);
            } else {
                for passed in self.next..number {
                    let (word, bit) = self.place(passed);
                    self.bits[word] &= !bit;
                }
            }
            self.next = number + 1;
        }
        let (word, bit) = self.place(number);
        self.bits[word] |= bit;
        true
    }

    #[inline]
    fn place(&self, number: u32) -> (usize, u64) {
        let at = number % self.window;
        ((at / 64) as usize, 1 << (at % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// A sender with a window over a wire that loses, copies and delays: each number is new once.
        #[test]
        fn every_number_is_new_once(window in 1u32..200, wire in prop::collection::vec((0u32..400, 0u8..4), 1..2000)) {
            let mut seen = Seen::new(window);
            let mut model = BTreeSet::new();
            // Numbers below it are acknowledged.
            let mut oldest = 0;
            for (ahead, fate) in wire {
                // Any packet that was ever sent may arrive again; new ones come from the window.
                let number = match fate {
                    0 => ahead.min(oldest),
                    1 => continue,
                    _ => oldest + ahead % window,
                };
                prop_assert!(seen.can_be(number));
                prop_assert_eq!(seen.has(number), model.contains(&number), "number {} of {}", number, oldest);
                prop_assert_eq!(seen.first(number), model.insert(number));
                while model.contains(&oldest) {
                    oldest += 1;
                }
            }
        }
    }

    #[test]
    fn numbers_that_are_left_out_are_passed_over() {
        let mut seen = Seen::new(4);
        assert!(seen.first(0) && seen.first(3) && seen.first(2) && !seen.first(3));
        assert!(seen.first(9) && seen.has(2), "what is a window behind has arrived");
        assert!(!seen.has(6) && seen.first(6) && !seen.first(6) && seen.first(8));
        assert!(seen.can_be(13) && !seen.can_be(14));
    }
}
