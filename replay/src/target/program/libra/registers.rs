//! The registers of one job: an array of slots per register, a slot per hot parameter (LIBRA §3.4, Figure 8).

use std::sync::Arc;

use pktgen_generator::sparse::layout::Layout;
use pktgen_generator::wire::libra::{HOT_PAIRS, hot_pairs};

use crate::target::sparse::Adder;

/// Where the parameter with each index is, counted over all registers: the table of LIBRA §3.5 that "maps the index of
/// a parameter to its position". All jobs have the same.
pub(super) fn places(layout: &Layout, hot: u32) -> Arc<[u32]> {
    let place = |index| (layout.register_of(index), layout.slot_of(index));
    let slots = (0..hot).map(|index| place(index).1 + 1).max().unwrap_or(0);
    (0..hot).map(place).map(|(register, slot)| register * slots + slot).collect()
}

/// The pairs of a packet.
pub(super) struct Read {
    pairs: [(u32, f32); HOT_PAIRS],
    len: usize,
}

impl Read {
    /// Of these bytes, if no index reaches `hot`.
    #[inline]
    pub(super) fn of(bytes: &[u8], hot: u32) -> Option<Self> {
        let mut read = Read { pairs: [(0, 0.0); HOT_PAIRS], len: 0 };
        let mut largest = 0;
        for (pair, found) in read.pairs.iter_mut().zip(hot_pairs(bytes)) {
            *pair = found;
            largest = largest.max(found.0);
            read.len += 1;
        }
        (largest < hot || read.len == 0).then_some(read)
    }

    /// In the packet's order.
    #[inline]
    pub(super) fn pairs(&self) -> &[(u32, f32)] {
        &self.pairs[..self.len]
    }
}

/// The registers.
pub(super) struct Registers {
    places: Arc<[u32]>,
    values: Vec<f32>,
}

impl Registers {
    /// All 0, at these places.
    pub(super) fn new(places: Arc<[u32]>) -> Self {
        let room = places.iter().max().map_or(0, |last| *last as usize + 1);
        Registers { places, values: vec![0.0; room] }
    }

    /// Adds the pairs of a packet, in its order.
    #[inline]
    pub(super) fn add(&mut self, pairs: &[(u32, f32)], adder: &Adder) {
        match adder {
            Adder::Exact => self.add_each(pairs, |x, y| x + y),
            Adder::Tables(tables) => self.add_each(pairs, |x, y| tables.add(x, y)),
        }
    }

    #[inline]
    fn add_each(&mut self, pairs: &[(u32, f32)], add: impl Fn(f32, f32) -> f32) {
        for &(index, value) in pairs {
            if let Some(place) = self.places.get(index as usize)
                && let Some(register) = self.values.get_mut(*place as usize)
            {
                *register = add(*register, value);
            }
        }
    }

    /// The value of a parameter; 0 for an index that has none.
    #[inline]
    pub(super) fn get(&self, index: u32) -> f32 {
        self.places.get(index as usize).map_or(0.0, |place| self.values[*place as usize])
    }

    /// Writes the value of a parameter, where a switch is given another one's state.
    pub(super) fn set(&mut self, index: u32, value: f32) {
        if let Some(place) = self.places.get(index as usize) {
            self.values[*place as usize] = value;
        }
    }

    /// All, by index.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        (0..).zip(self.places.iter().map(|place| self.values[*place as usize]))
    }

    /// Those that are not 0, by index.
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        self.iter().filter(|(_, value)| *value != 0.0)
    }

    /// All are 0 again.
    pub(super) fn clear(&mut self) {
        self.values.fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_generator::seed::Seed;

    #[test]
    fn every_parameter_has_a_place_of_its_own_that_is_its_registers() {
        for layout in [Layout::heat(7), Layout::heat(1), Layout::heat(200), Layout::random(7, 15, Seed(3))] {
            let places = places(&layout, 100);
            let mut sorted = places.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 100);
            let slots = (0..100).map(|i| layout.slot_of(i)).max().unwrap() + 1;
            assert!((0..100).all(|i| places[i as usize] / slots == layout.register_of(i)));
            let mut registers = Registers::new(places);
            registers.add(&[(5, 1.5), (99, 2.0), (5, 0.25), (100, 9.0)], &Adder::Exact);
            assert!(registers.used().eq([(5, 1.75), (99, 2.0)]));
            assert_eq!((registers.get(99), registers.get(98), registers.get(1000)), (2.0, 0.0, 0.0));
            registers.clear();
            assert_eq!(registers.used().count(), 0);
        }
    }
}
