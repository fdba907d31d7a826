//! Where hot parameters live in the registers of a switch (LIBRA §3.4, "Parameter layout in switch registers").
//!
//! A register is an array of slots, and a packet can operate on it once per pass through the pipeline. A hot parameter
//! is known by its heat rank, from 0. Asked by the packer at workers, by the count of passes, and by the switch, which
//! must all have the same layout.

use rand::RngExt;

use crate::seed::Seed;

/// Places of the hot parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    registers: u32,
    /// `2^64 / registers`, rounded up: a remainder by two multiplications, since divisions would be half of the time
    /// of packing (Lemire, Kaser and Kurz 2019; exact for 32-bit numbers).
    reciprocal: u64,
    /// Register and slot of every index of a random layout, or of one of some indices; empty for the layout by heat.
    places: Vec<(u32, u32)>,
}

impl Layout {
    /// By heat (LIBRA §3.4, Figure 8): rank i is in register `i mod registers`, slot `i / registers`. No register is
    /// taken as one.
    pub fn heat(registers: u32) -> Self {
        let registers = registers.max(1);
        let reciprocal = (u64::MAX / u64::from(registers)).wrapping_add(1);
        Layout { registers, reciprocal, places: Vec::new() }
    }

    /// At random: `registers · slots` indices on as many places, each order equally likely. The baseline of LIBRA §5.4.
    pub fn random(registers: u32, slots: u32, seed: Seed) -> Self {
        let mut layout = Layout::heat(registers);
        let places = (0..slots).flat_map(|slot| (0..layout.registers).map(move |register| (register, slot)));
        layout.places = places.collect();
        let mut stream = seed.stream("sparse layout", u64::from(registers), u64::from(slots));
        for last in (1..layout.places.len()).rev() {
            layout.places.swap(last, stream.random_range(0..=last));
        }
        layout
    }

    /// The same of these indices only, in the order of their heat: the first lies where index 0 lies here, and so on.
    pub fn among(&self, indices: &[u32]) -> Self {
        let mut places = vec![(0, 0); indices.iter().max().map_or(0, |last| *last as usize + 1)];
        for (own, index) in (0..).zip(indices) {
            places[*index as usize] = (self.register_of(own), self.slot_of(own));
        }
        Layout { places, ..*self }
    }

    /// Number of registers, at least one.
    pub fn registers(&self) -> u32 {
        self.registers
    }

    /// Register of `index`. Beyond a random layout's places the rule of heat goes on.
    #[inline]
    pub fn register_of(&self, index: u32) -> u32 {
        match self.places.get(index as usize) {
            Some(&(register, _)) => register,
            None => {
                let fraction = self.reciprocal.wrapping_mul(u64::from(index));
                ((u128::from(fraction) * u128::from(self.registers)) >> 64) as u32
            }
        }
    }

    /// Slot of `index` in its register.
    #[inline]
    pub fn slot_of(&self, index: u32) -> u32 {
        match self.places.get(index as usize) {
            Some(&(_, slot)) => slot,
            None => index / self.registers,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heat_is_remainder_and_quotient(registers in 1u32.., index: u32, few in 1u32..100) {
            for registers in [registers, few, u32::MAX] {
                let layout = Layout::heat(registers);
                prop_assert_eq!(layout.register_of(index), index % registers);
                prop_assert_eq!(layout.slot_of(index), index / registers);
            }
        }

        #[test]
        fn random_is_a_bijection(registers in 1u32..70, slots in 1u32..50, seed: u64) {
            let layout = Layout::random(registers, slots, Seed(seed));
            let place = |i| (layout.register_of(i), layout.slot_of(i));
            let all: BTreeSet<_> = (0..registers * slots).map(place).collect();
            prop_assert_eq!(all.len() as u32, registers * slots);
            prop_assert!(all.iter().all(|&(register, slot)| register < registers && slot < slots));
            prop_assert_eq!(layout, Layout::random(registers, slots, Seed(seed)));
        }
    }

    #[test]
    fn some_indices_lie_as_if_there_were_no_others() {
        for layout in [Layout::heat(3), Layout::random(3, 4, Seed(1))] {
            let some = [2, 5, 6, 9, 11];
            let among = layout.among(&some);
            for (own, index) in (0..).zip(some) {
                let place = (layout.register_of(own), layout.slot_of(own));
                assert_eq!((among.register_of(index), among.slot_of(index)), place);
            }
        }
    }

    #[test]
    fn random_is_uniform_and_differs_by_seed() {
        let mut counts = [0u32; 12];
        for seed in 0..2400 {
            let layout = Layout::random(4, 3, Seed(seed));
            counts[(layout.register_of(5) * 3 + layout.slot_of(5)) as usize] += 1;
        }
        // 200 expected, a deviation of 13.5.
        assert!(counts.iter().all(|n| (140..260).contains(n)), "{counts:?}");
        assert_ne!(Layout::random(8, 100, Seed(1)), Layout::random(8, 100, Seed(2)));
        assert_eq!(Layout::heat(0).register_of(7), 0);
        // What lies beyond its places has a register too.
        assert_eq!(Layout::random(4, 3, Seed(1)).register_of(14), 2);
    }
}
