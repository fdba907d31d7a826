//! The registers of one job, and the pairs of a packet to be added to them.

use crate::format::{HOT_PAIRS, hot_pairs};

use pktgen_engine::target::sparse::Adder;

/// The pairs of the current packet.
#[derive(Clone, Copy, Default)]
pub(super) struct Pairs {
    pairs: [(u32, f32); HOT_PAIRS],
    len: usize,
}

impl Pairs {
    /// Parses pairs from these bytes; returns false if an index reaches `hot`.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8], hot: u32) -> bool {
        let (mut largest, mut len) = (0, 0);
        for (pair, found) in self.pairs.iter_mut().zip(hot_pairs(bytes)) {
            *pair = found;
            largest = largest.max(found.0);
            len += 1;
        }
        self.len = len;
        largest < hot || len == 0
    }

    /// Replaces the values of the same indices.
    pub(super) fn fill(&mut self, value: impl Fn(u32) -> f32) {
        self.pairs[..self.len].iter_mut().for_each(|pair| pair.1 = value(pair.0));
    }

    /// Returns the pairs in the packet's order.
    #[inline]
    pub(super) fn get(&self) -> &[(u32, f32)] {
        &self.pairs[..self.len]
    }
}

/// The registers by the index of their parameter: their layout affects how often a packet is recirculated, which
/// `pipeline` computes, but not the sums.
pub(super) struct Registers {
    values: Vec<f32>,
}

impl Registers {
    /// Creates `hot` registers with value 0.
    pub(super) fn new(hot: u32) -> Self {
        Registers { values: vec![0.0; hot as usize] }
    }

    /// Adds the pairs of a packet in its order.
    #[inline]
    pub(super) fn add(&mut self, pairs: &[(u32, f32)], adder: &Adder) {
        adder.add_all(&mut self.values, pairs);
    }

    /// Returns the value of a parameter; 0 for an index without a register.
    #[inline]
    pub(super) fn get(&self, index: u32) -> f32 {
        self.values.get(index as usize).copied().unwrap_or(0.0)
    }

    /// Sets the value of a parameter, when the state of another switch is taken over.
    pub(super) fn set(&mut self, index: u32, value: f32) {
        if let Some(register) = self.values.get_mut(index as usize) {
            *register = value;
        }
    }

    /// Returns all registers by index.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        (0..).zip(self.values.iter().copied())
    }

    /// Returns the nonzero registers by index.
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        self.iter().filter(|(_, value)| *value != 0.0)
    }

    /// Sets all registers to 0.
    pub(super) fn clear(&mut self) {
        self.values.fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_added_to_its_own_register() {
        let mut registers = Registers::new(100);
        registers.add(&[(5, 1.5), (99, 2.0), (5, 0.25), (100, 9.0)], &Adder::Exact);
        assert!(registers.used().eq([(5, 1.75), (99, 2.0)]));
        assert_eq!((registers.get(99), registers.get(98), registers.get(1000)), (2.0, 0.0, 0.0));
        registers.clear();
        assert_eq!(registers.used().count(), 0);
    }
}
