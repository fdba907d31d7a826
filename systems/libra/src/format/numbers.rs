//! Sequence numbers of a worker that sends to several servers and to the switches of their racks (our choice).
//!
//! Each receiver counts a worker's packets without gaps, and no two packets of a worker have the same number: receiver
//! r of n has r, n + r, 2 n + r, … above the bit that marks cold. With one server these are 0, 1, 2, …

use pktgen_core::record::Heat;

/// Converts between numbers of a receiver and sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    receivers: u32,
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers::new(1)
    }
}

impl Numbers {
    /// Creates the conversion for `receivers` servers; 0 counts as one. There are at most as many switches.
    pub const fn new(receivers: u32) -> Self {
        Numbers { receivers: if receivers == 0 { 1 } else { receivers } }
    }

    /// Returns the sequence number of the `number`-th packet to or from `receiver`, which is a switch if the packet is hot.
    #[inline]
    pub const fn seq(self, receiver: u32, number: u32, heat: Heat) -> u32 {
        number.wrapping_mul(self.receivers).wrapping_add(receiver) << 1 | heat as u32
    }

    /// Returns receiver and number of a sequence number.
    #[inline]
    pub const fn split(self, seq: u32) -> (u32, u32) {
        let place = seq >> 1;
        // Most runs have one server: no division is necessary.
        if self.receivers == 1 { (0, place) } else { (place % self.receivers, place / self.receivers) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn one_server_counts_as_ever() {
        let one = Numbers::default();
        assert_eq!([0, 1, 2].map(|number| one.seq(0, number, Heat::Hot)), [0, 2, 4]);
        assert_eq!((one.seq(0, 7, Heat::Cold), one.split(15)), (15, (0, 7)));
        let three = Numbers::new(3);
        assert_eq!([0, 1].map(|number| three.seq(2, number, Heat::Cold)), [5, 11]);
    }

    proptest! {
        #[test]
        fn every_packet_has_a_number_of_its_own(receivers in 1u32..70) {
            let numbers = Numbers::new(receivers);
            let all = (0..receivers).flat_map(|r| (0..40).flat_map(move |n| [(r, n, Heat::Hot), (r, n, Heat::Cold)]));
            let mut seen = HashSet::new();
            for (receiver, number, heat) in all {
                let seq = numbers.seq(receiver, number, heat);
                prop_assert_eq!((numbers.split(seq), super::super::heat_of(seq)), ((receiver, number), heat));
                prop_assert!(seen.insert(seq));
            }
            // Every number occurs.
            prop_assert!((0..receivers * 80).all(|seq| seen.contains(&seq)));
        }
    }
}
