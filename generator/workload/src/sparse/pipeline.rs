//! A pipeline in which a register is operated once per pass (LIBRA §3.4, §4): how often a packet must go through it.
//!
//! Two pairs of one register cannot both be added in one pass; the packet is recirculated for the other. There are two
//! ways to count, and [`Passes`] has both:
//!
//! - `extra`, the sum over registers of pairs beyond the first: one recirculation for every conflicting pair. This is how
//!   the paper counts: n gradients put into packets that have their registers cost "n times recirculation operations"
//!   (§3.4), whatever else those packets carry. Only so can a random layout need 10 per packet of 18 pairs (§5.4); by
//!   the other way, eleven of the 18 would have to share one register.
//! - `max - 1`, the largest number of pairs of one register beyond the first: a pass can serve one pair of every register,
//!   so this many recirculations suffice, if the program in the pipeline makes use of that. What the prototype's limit of
//!   one (§4) is about, since it speaks of a packet going through the pipeline twice: our reading.
//!
//! Called by the study `recirculations`; what the switch program itself does is the same rule.

use super::layout::Layout;
use super::packaging::Pair;

/// How a packet uses the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passes {
    /// Most pairs in one register: passes through a pipeline that serves one pair of every register in each. 0 of an empty
    /// packet.
    pub max: u32,
    /// Pairs beyond the first of their register: recirculations if each serves one pair.
    pub extra: u32,
}

impl Passes {
    /// Recirculations if each serves one pair of every register.
    pub fn recirculations(self) -> u32 {
        self.max.saturating_sub(1)
    }
}

/// Counts of registers, kept from packet to packet so that none has to be cleared.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    /// Packet that last used the register, above; its pairs there, below.
    counts: Vec<u64>,
    packet: u64,
}

/// Bits of a count; packets are numbered above.
const COUNT_BITS: u32 = 24;

/// Counts the pairs of `packet` in each register. Allocates only for a layout with more registers than ever before.
#[inline]
pub fn passes(packet: &[Pair], layout: &Layout, scratch: &mut Scratch) -> Passes {
    few(packet, layout).unwrap_or_else(|| many(packet, layout, scratch))
}

/// The count of a pipeline of at most 64 registers, none of which has more than two pairs: nearly every packet, whose
/// registers fit the bits of two words.
#[inline]
fn few(packet: &[Pair], layout: &Layout) -> Option<Passes> {
    if layout.registers() > u64::BITS {
        return None;
    }
    let (mut once, mut twice, mut more) = (0u64, 0u64, 0u64);
    for &(index, _) in packet {
        let register = 1 << layout.register_of(index);
        more |= twice & register;
        twice |= once & register;
        once |= register;
    }
    let max = u32::from(once != 0) + u32::from(twice != 0);
    (more == 0).then(|| Passes { max, extra: twice.count_ones() })
}

/// Any count.
fn many(packet: &[Pair], layout: &Layout, scratch: &mut Scratch) -> Passes {
    let registers = layout.registers() as usize;
    if scratch.counts.len() < registers {
        scratch.counts.resize(registers, 0);
    }
    scratch.packet += 1;
    let none = scratch.packet << COUNT_BITS;
    let (mut most, mut firsts) = (none, 0);
    for &(index, _) in packet {
        let Some(count) = scratch.counts.get_mut(layout.register_of(index) as usize) else { continue };
        // Counts of packets before are smaller than this packet's none.
        firsts += u32::from(*count <= none);
        *count = (*count).max(none) + 1;
        most = most.max(*count);
    }
    Passes { max: (most - none) as u32, extra: packet.len() as u32 - firsts }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::seed::Seed;

    proptest! {
        #[test]
        fn counts_as_a_map_does(
            packets in prop::collection::vec(prop::collection::vec(0u32..500, 0..40), 1..20),
            registers in 1u32..70,
            random: bool,
        ) {
            let layout = if random { Layout::random(registers, 10, Seed(1)) } else { Layout::heat(registers) };
            let mut scratch = Scratch::default();
            for indices in packets {
                let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
                for index in &indices {
                    *counts.entry(layout.register_of(*index)).or_default() += 1;
                }
                let packet: Vec<Pair> = indices.iter().map(|&index| (index, 1.0)).collect();
                let found = passes(&packet, &layout, &mut scratch);
                prop_assert_eq!(found.max, counts.values().copied().max().unwrap_or(0));
                prop_assert_eq!(found.extra, counts.values().map(|n| n - 1).sum::<u32>());
            }
        }
    }

    #[test]
    fn both_ways_of_counting() {
        let layout = Layout::heat(4);
        let of = |indices: &[u32]| {
            let packet: Vec<Pair> = indices.iter().map(|&index| (index, 0.0)).collect();
            let found = passes(&packet, &layout, &mut Scratch::default());
            (found.recirculations(), found.extra)
        };
        assert_eq!(of(&[]), (0, 0));
        assert_eq!(of(&[0, 1, 2, 3]), (0, 0));
        assert_eq!(of(&[0, 4, 1, 5]), (1, 2));
        assert_eq!(of(&[0, 4, 8, 1, 5]), (2, 3));
    }
}
