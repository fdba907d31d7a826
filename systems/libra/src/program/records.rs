//! A switch's memory of accepted packets, so that none is added twice (LIBRA §3.6, "repeat-write-error").
//!
//! A worker never sends a packet `window` or more numbers after its oldest one without an ACK. So at most `window`
//! numbers from the lowest missing one on can be in use, and everything below is old, however late it arrives: a ring
//! suffices. It also stores the attempts, to distinguish a copy made by the network from a further attempt.

/// State of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// It was not accepted.
    New,
    /// It was accepted with this attempt; `None` if that is forgotten.
    Taken(Option<u8>),
    /// No worker that observes its window sends it yet.
    Beyond,
}

/// The record of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Lowest number that was not accepted.
    floor: u32,
    /// One more than the highest accepted number.
    top: u32,
    /// For the last numbers below `top`: the accepted attempt plus one; 0 if none was accepted.
    ring: Vec<u8>,
    /// If numbers begin anywhere: the window; numbers at least a window before an arriving one were acknowledged by a
    /// switch that died with its state.
    open: Option<u32>,
}

impl Record {
    /// Creates a record of at least this many numbers.
    pub(super) fn new(numbers: u32) -> Self {
        Record { floor: 0, top: 0, ring: vec![0; numbers.next_power_of_two() as usize], open: None }
    }

    #[inline]
    fn at(&self, number: u32) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    /// Returns the lowest remembered number, and the one after the highest.
    pub(super) fn span(&self) -> (u32, u32) {
        (self.top.saturating_sub(self.ring.len() as u32), self.top)
    }

    /// Returns the state of `number`.
    #[inline]
    pub(super) fn look(&self, number: u32) -> Seen {
        if number >= self.top {
            let fits = u64::from(number) < u64::from(self.floor) + self.ring.len() as u64;
            return if fits || self.open.is_some() { Seen::New } else { Seen::Beyond };
        }
        if number < self.span().0 {
            return Seen::Taken(None);
        }
        match self.ring[self.at(number)] {
            0 if number >= self.floor => Seen::New,
            0 => Seen::Taken(None),
            attempt => Seen::Taken(Some(attempt - 1)),
        }
    }

    /// Records that `number` was accepted with this attempt, after [`look`](Self::look) returned that it is new.
    #[inline]
    pub(super) fn take(&mut self, number: u32, attempt: u8) {
        if let Some(window) = self.open {
            self.skip(number, window);
        }
        while self.top <= number {
            let at = self.at(self.top);
            self.ring[at] = 0;
            self.top += 1;
        }
        let at = self.at(number);
        self.ring[at] = attempt + 1;
        while self.floor < self.top && self.ring[self.at(self.floor)] != 0 {
            self.floor += 1;
        }
    }

    /// Declares that the numbers of a worker with this window begin anywhere from now on.
    pub(super) fn open(&mut self, window: u32) {
        self.open = Some(window);
    }

    /// Whether numbers begin anywhere.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Declares everything at least a window before `number` old: a worker that sends it received ACKs for those, from any switch.
    fn skip(&mut self, number: u32, window: u32) {
        let ring = self.ring.len() as u32;
        if number >= self.top.saturating_add(ring) {
            self.ring.fill(0);
            self.top = number;
        }
        let floor = self.floor.max((number + 1).saturating_sub(window));
        // Numbers below that were not accepted never will be.
        while self.top < floor {
            let at = self.at(self.top);
            self.ring[at] = 0;
            self.top += 1;
        }
        self.floor = floor;
    }

    /// Returns floor and top, for moving to another switch.
    pub(super) fn bounds(&self) -> (u32, u32) {
        (self.floor, self.top)
    }

    /// Returns the ring's entry of `number`, for moving.
    pub(super) fn raw(&self, number: u32) -> u8 {
        self.ring[self.at(number)]
    }

    /// Takes over the limits of another switch; refuses impossible ones.
    pub(super) fn set_bounds(&mut self, floor: u32, top: u32) -> bool {
        let fits = floor <= top && (top - floor) as usize <= self.ring.len();
        if fits {
            (self.floor, self.top) = (floor, top);
        }
        fits
    }

    /// Takes over a ring's entry of `number`.
    pub(super) fn set_raw(&mut self, number: u32, raw: u8) {
        let at = self.at(number);
        self.ring[at] = raw.min(16);
    }
}

/// The Bloom filter of one job in the pipeline (LIBRA §3.6).
///
/// It never forgets a packet, but mistakes some for known ones: these are acknowledged and in no sum. In synchronous
/// training it is cleared with the registers: packets that the network delays beyond this are new again. In
/// asynchronous training there is no such moment: it fills up until it considers every resent packet known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bloom {
    pub(super) words: Vec<u64>,
    bits: u32,
    hashes: u32,
}

impl Bloom {
    /// Creates a filter with this many bits; a packet sets `hashes` of them.
    pub(super) fn new(bits: u32, hashes: u32) -> Self {
        Bloom { words: vec![0; bits.div_ceil(64) as usize], bits, hashes }
    }

    /// Returns the bits of a packet (our choice: all follow from two halves of one hash; the paper specifies none).
    fn places(&self, worker: u32, seq: u32) -> impl Iterator<Item = u32> + use<> {
        let mut x = u64::from(worker) << 32 | u64::from(seq);
        // The finaliser of MurmurHash3, after a constant so that 0 is not mapped to itself.
        x = (x ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        x ^= x >> 33;
        let (first, step, bits) = (x as u32, (x >> 32) as u32 | 1, self.bits);
        (0..self.hashes).map(move |i| first.wrapping_add(i.wrapping_mul(step)) % bits)
    }

    /// Adds a packet.
    pub(super) fn insert(&mut self, worker: u32, seq: u32) {
        for place in self.places(worker, seq) {
            self.words[place as usize / 64] |= 1 << (place % 64);
        }
    }

    /// Whether a packet was added. True may be wrong, false is always correct.
    pub(super) fn contains(&self, worker: u32, seq: u32) -> bool {
        self.places(worker, seq).all(|place| self.words[place as usize / 64] >> (place % 64) & 1 == 1)
    }

    /// Forgets all packets.
    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// A worker that observes its window, and packets that arrive in any order, arbitrarily often and late: the
        /// ring agrees with a map.
        #[test]
        fn a_ring_knows_what_a_map_of_everything_knows(
            window in 1u32..20, room in 0u32..9, steps in prop::collection::vec((0u32..1000, 0u8..16, any::<bool>()), 1..300),
        ) {
            let (mut record, mut taken) = (Record::new(window + room), BTreeMap::new());
            for (draw, attempt, late) in steps {
                let oldest = (0..).find(|n| !taken.contains_key(n)).unwrap();
                let number = if late { draw % (oldest + 1) } else { oldest + draw % window };
                match taken.get(&number) {
                    None => {
                        prop_assert_eq!(record.look(number), Seen::New);
                        record.take(number, attempt);
                        taken.insert(number, attempt);
                    }
                    Some(first) => match record.look(number) {
                        Seen::Taken(Some(attempt)) => prop_assert_eq!(attempt, *first),
                        seen => prop_assert_eq!((seen, number < record.span().0), (Seen::Taken(None), true)),
                    },
                }
            }
            let oldest = (0..).find(|n| !taken.contains_key(n)).unwrap();
            let room = (window + room).next_power_of_two();
            prop_assert_eq!(record.look(oldest + room), Seen::Beyond);
            prop_assert_eq!(record.look(oldest + room - 1) == Seen::Beyond, false);
        }
    }

    proptest! {
        /// A record that begins anywhere never considers a packet new that a worker with this window can no longer send.
        #[test]
        fn what_is_a_window_behind_is_old_wherever_numbers_begin(
            window in 1u32..20, room in 0u32..100, first in 0u32..500, steps in prop::collection::vec(0u32..1000, 1..200),
        ) {
            let (mut record, mut taken, mut highest) = (Record::new(window + room), BTreeMap::new(), None);
            record.open(window);
            for draw in steps {
                let number = first + draw % 97 + highest.unwrap_or(0) / 2;
                let old = highest.is_some_and(|highest: u32| number + window <= highest);
                let seen = record.look(number);
                prop_assert_eq!(seen == Seen::New, !old && !taken.contains_key(&number), "{} {:?}", number, highest);
                if seen == Seen::New {
                    record.take(number, 0);
                    taken.insert(number, 0);
                    highest = highest.max(Some(number));
                }
            }
        }
    }

    #[test]
    fn a_filter_forgets_nothing_and_errs_as_often_as_theory_says() {
        let (bits, hashes, packets) = (1u32 << 14, 3, 3000u32);
        let mut bloom = Bloom::new(bits, hashes);
        (0..packets).for_each(|i| bloom.insert(i % 8, i / 8 * 2));
        assert!((0..packets).all(|i| bloom.contains(i % 8, i / 8 * 2)));
        let wrong = (0..100_000u32).filter(|i| bloom.contains(i % 8, 1_000_000 + i * 2)).count() as f64 / 1e5;
        let theory = (1.0 - (-f64::from(hashes * packets) / f64::from(bits)).exp()).powi(hashes as i32);
        assert!((wrong / theory - 1.0).abs() < 0.1, "{wrong} instead of {theory}");
        bloom.clear();
        assert!(!bloom.contains(0, 0));
    }
}
