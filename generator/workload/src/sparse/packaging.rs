//! Gradients of hot parameters into packets at a worker (LIBRA §3.4, Algorithm 1).
//!
//! Algorithm 1 estimates how many packets are needed and puts every gradient into the first one that is not full and
//! does not yet carry its register. What fits into none is put aside (G') and packed into further packets in its order,
//! without looking at registers.
//!
//! Searching costs nothing here, because two things only move forward. A packet that was passed over for a register was
//! full or had that register, and stays so: the search goes on behind the last packet that took it. And every gradient
//! of a packet was passed on by each packet before it, which so is full or has that register as well: no packet has
//! more pairs than one before it, and the full ones are the first ones. Both hold, too, if a packet may carry a register
//! several times.
//!
//! Called by worker endpoints and by the study `recirculations`.

use super::layout::Layout;

/// A gradient: index of a hot parameter (its heat rank) and value.
pub type Pair = (u32, f32);

/// Most pairs in a packet of 192 bytes, all that a switch's parser can see (LIBRA §3.4, footnote 2).
pub const PAIRS_MAX: usize = 18;

/// How gradients are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packaging {
    /// One packet after another, in the order given.
    RankOrder,
    /// LIBRA §3.4, Algorithm 1.
    Algorithm1,
}

/// From what Algorithm 1 estimates the number of packets. The paper does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// Pairs that a packet has room for.
    Capacity,
    /// Pairs that it can have without a register twice: fewer than its room where there are fewer registers.
    Registers,
}

/// Packets of a batch.
#[derive(Debug, Clone, Default)]
pub struct Packets {
    /// Room of all packets; never shrinks, so that a batch reuses that of the one before it.
    pairs: Vec<Pair>,
    /// Where in `pairs` a packet begins, and how many it has.
    spans: Vec<(u32, u32)>,
    set_aside: usize,
}

impl Packets {
    /// Number of packets.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Pairs of packet `i`, in the order in which they were put there; none if there is no such packet.
    pub fn packet(&self, i: usize) -> &[Pair] {
        let span = self.spans.get(i).map(|&(start, pairs)| start as usize..start as usize + pairs as usize);
        span.and_then(|span| self.pairs.get(span)).unwrap_or_default()
    }

    /// Every packet, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[Pair]> {
        (0..self.len()).map(|i| self.packet(i))
    }

    /// How many gradients Algorithm 1 had to pack without looking at registers: |G'|.
    pub(crate) fn set_aside(&self) -> usize {
        self.set_aside
    }

    fn clear(&mut self) {
        self.spans.clear();
        self.set_aside = 0;
    }

    /// Opens a packet with room for `capacity` pairs behind the room of the last.
    #[inline]
    fn open(&mut self, capacity: usize) {
        let start = self.spans.last().map_or(0, |&(start, _)| start as usize + capacity);
        if self.pairs.len() < start + capacity {
            self.pairs.resize(start + capacity, Pair::default());
        }
        self.spans.push((start as u32, 0));
    }

    /// Appends to packet `packet`; says how many it then has.
    #[inline]
    fn put(&mut self, packet: usize, pair: Pair) -> u32 {
        let Some((start, pairs)) = self.spans.get_mut(packet) else { return 0 };
        if let Some(place) = self.pairs.get_mut((*start + *pairs) as usize) {
            *place = pair;
            *pairs += 1;
        }
        *pairs
    }
}

/// The last packet that took a register, and how often it did.
#[derive(Debug, Clone, Copy, Default)]
struct Reach {
    packet: u32,
    times: u32,
}

/// Packs batch after batch in memory of its own; nothing is allocated once it has seen the largest.
#[derive(Debug, Clone)]
pub struct Packer {
    capacity: usize,
    registers: u32,
    estimate: Estimate,
    /// How often a packet may carry a register, where that is limited.
    times_max: Option<u32>,
    reach: Vec<Reach>,
    aside: Vec<Pair>,
    packets: Packets,
}

impl Packer {
    /// For packets of up to `capacity` pairs, and a switch with `registers` registers; none of either is taken as one.
    pub fn new(capacity: usize, registers: u32) -> Self {
        Packer {
            capacity: capacity.max(1),
            registers: registers.max(1),
            estimate: Estimate::Capacity,
            times_max: None,
            reach: Vec::new(),
            aside: Vec::new(),
            packets: Packets::default(),
        }
    }

    /// Estimates the number of packets from `estimate`.
    pub fn estimating(mut self, estimate: Estimate) -> Self {
        self.estimate = estimate;
        self
    }

    /// Makes no packet that must be recirculated more often than this (LIBRA §4: once), which costs packets: those in
    /// rank order are closed early, and G' goes to the first packet in which its register has a pass left.
    pub fn recirculating_at_most(mut self, recirculations: u32) -> Self {
        self.times_max = Some(recirculations.saturating_add(1));
        self
    }

    /// Packs `gradients`, in that order.
    pub fn pack(&mut self, gradients: &[Pair], layout: &Layout, how: Packaging) -> &Packets {
        self.packets.clear();
        let registers = self.registers.max(layout.registers()) as usize;
        if self.reach.len() < registers {
            self.reach.resize(registers, Reach::default());
        }
        match how {
            Packaging::RankOrder => self.in_order(gradients, layout),
            Packaging::Algorithm1 => self.orchestrate(gradients, layout),
        }
        &self.packets
    }

    /// LIBRA §3.4, Algorithm 1, with its line numbers.
    fn orchestrate(&mut self, gradients: &[Pair], layout: &Layout) {
        let pairs = match self.estimate {
            Estimate::Capacity => self.capacity,
            Estimate::Registers => self.capacity.min(self.registers as usize),
        };
        // Line 1. None of these packets stays empty: what is set aside found its register, or no room, in all of them.
        let estimated = gradients.len().div_ceil(pairs);
        // Lines 2 to 18.
        let mut aside = std::mem::take(&mut self.aside);
        aside.clear();
        self.first_fit(gradients, layout, estimated, 1, &mut aside);
        // Lines 19 and 20.
        self.packets.set_aside = aside.len();
        match self.times_max {
            None => self.in_order(&aside, layout),
            Some(times) => self.first_fit(&aside, layout, usize::MAX, times, &mut Vec::new()),
        }
        self.aside = aside;
    }

    /// Puts every gradient into the first of up to `packets_max` new packets that has room and carries its register less
    /// than `times_max` times; else `aside`.
    fn first_fit(
        &mut self,
        gradients: &[Pair],
        layout: &Layout,
        packets_max: usize,
        times_max: u32,
        aside: &mut Vec<Pair>,
    ) {
        let (packets, reach) = (&mut self.packets, &mut self.reach);
        // The first packet with room; behind the last it is the next one to be opened.
        let mut first_open = packets.len() as u32;
        let end = packets.len().saturating_add(packets_max);
        reach.fill(Reach { packet: first_open, times: 0 });
        for &pair in gradients {
            let Some(reach) = reach.get_mut(layout.register_of(pair.0) as usize) else { continue };
            if reach.times == times_max {
                *reach = Reach { packet: reach.packet + 1, times: 0 };
            }
            if reach.packet < first_open {
                *reach = Reach { packet: first_open, times: 0 };
            }
            let packet = reach.packet as usize;
            if packet == packets.len() {
                if packet == end {
                    aside.push(pair);
                    continue;
                }
                packets.open(self.capacity);
            }
            reach.times += 1;
            if packets.put(packet, pair) as usize == self.capacity {
                first_open = reach.packet + 1;
            }
        }
    }

    /// Fills new packets one after another.
    fn in_order(&mut self, gradients: &[Pair], layout: &Layout) {
        let packets = &mut self.packets;
        let Some(times_max) = self.times_max else {
            for chunk in gradients.chunks(self.capacity) {
                packets.open(self.capacity);
                for &pair in chunk {
                    packets.put(packets.len() - 1, pair);
                }
            }
            return;
        };
        self.reach.fill(Reach { packet: u32::MAX, times: 0 });
        let mut pairs = self.capacity;
        for &pair in gradients {
            let Some(reach) = self.reach.get_mut(layout.register_of(pair.0) as usize) else { continue };
            let last = (packets.len() as u32).wrapping_sub(1);
            if pairs == self.capacity || (reach.packet == last && reach.times == times_max) {
                packets.open(self.capacity);
            }
            let last = packets.len() as u32 - 1;
            let before = if reach.packet == last { reach.times } else { 0 };
            *reach = Reach { packet: last, times: before + 1 };
            pairs = packets.put(last as usize, pair) as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seed::Seed;
    use crate::sparse::pipeline::{Scratch, passes};

    /// Algorithm 1 as printed: `open` is P1, `packets` is P.
    fn printed(gradients: &[Pair], layout: &Layout, capacity: usize, estimated: usize) -> (Vec<Vec<Pair>>, Vec<Pair>) {
        let mut packets: Vec<Vec<Pair>> = vec![Vec::new(); estimated];
        let mut open: Vec<usize> = (0..estimated).collect();
        let mut aside = Vec::new();
        for &gradient in gradients {
            let k = layout.register_of(gradient.0);
            let has_k = |p: usize| packets[p].iter().any(|pair| layout.register_of(pair.0) == k);
            let candidates: Vec<usize> = open.iter().copied().filter(|&p| !has_k(p)).collect();
            let Some(&packet) = candidates.first() else {
                aside.push(gradient);
                continue;
            };
            packets[packet].push(gradient);
            if packets[packet].len() == capacity {
                open.retain(|&p| p != packet);
            }
        }
        (packets, aside)
    }

    /// The same with further packets for what was set aside; at most `times` pairs of a register in one of those.
    fn naive(gradients: &[Pair], layout: &Layout, capacity: usize, estimated: usize, times: usize) -> Vec<Vec<Pair>> {
        let (mut packets, aside) = printed(gradients, layout, capacity, estimated);
        if times == usize::MAX {
            packets.extend(aside.chunks(capacity).map(<[Pair]>::to_vec));
            return packets;
        }
        for gradient in aside {
            let register = |pair: &Pair| layout.register_of(pair.0);
            let copies = |p: &Vec<Pair>| p.iter().filter(|pair| register(pair) == register(&gradient)).count();
            let fits = |p: &Vec<Pair>| p.len() < capacity && copies(p) < times;
            match packets[estimated..].iter_mut().find(|p| fits(p)) {
                Some(packet) => packet.push(gradient),
                None => packets.push(vec![gradient]),
            }
        }
        packets
    }

    fn naive_in_order(gradients: &[Pair], layout: &Layout, capacity: usize, times: usize) -> Vec<Vec<Pair>> {
        let mut packets: Vec<Vec<Pair>> = Vec::new();
        for &gradient in gradients {
            let register = |pair: &Pair| layout.register_of(pair.0);
            let copies = |p: &Vec<Pair>| p.iter().filter(|pair| register(pair) == register(&gradient)).count();
            match packets.last_mut().filter(|p| p.len() < capacity && copies(p) < times) {
                Some(packet) => packet.push(gradient),
                None => packets.push(vec![gradient]),
            }
        }
        packets
    }

    fn copy(packets: &Packets) -> Vec<Vec<Pair>> {
        packets.iter().map(<[Pair]>::to_vec).collect()
    }

    /// Batches of indices: anything, and batches in which a few registers have nearly everything.
    fn batches() -> impl Strategy<Value = Vec<Vec<u32>>> {
        let any = prop::collection::vec(0u32..400, 0..300);
        let skewed = prop::collection::vec((0u32..12, 0u32..30).prop_map(|(a, b)| a / 5 + 12 * b), 0..300);
        let ascending = prop::collection::btree_set(0u32..2000, 0..400).prop_map(|set| set.into_iter().collect());
        prop::collection::vec(prop_oneof![any, skewed, ascending], 1..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn packs_as_printed(
            batches in batches(),
            capacity in 1usize..24,
            registers in prop_oneof![1u32..4, 1u32..40, Just(12)],
            random: bool,
            by_registers: bool,
            limit in prop::option::of(0u32..3),
        ) {
            let layout = if random { Layout::random(registers, 600, Seed(7)) } else { Layout::heat(registers) };
            let estimate = if by_registers { Estimate::Registers } else { Estimate::Capacity };
            let mut packer = Packer::new(capacity, registers).estimating(estimate);
            if let Some(limit) = limit {
                packer = packer.recirculating_at_most(limit);
            }
            let times = limit.map_or(usize::MAX, |limit| limit as usize + 1);
            let mut scratch = Scratch::default();
            // One packer for all: nothing of a batch may be left for the next.
            for batch in batches {
                let gradients: Vec<Pair> = batch.iter().enumerate().map(|(i, &index)| (index, i as f32)).collect();
                let per_packet = if by_registers { capacity.min(registers as usize) } else { capacity };
                let estimated = gradients.len().div_ceil(per_packet);
                let want = naive(&gradients, &layout, capacity, estimated, times);
                let packets = packer.pack(&gradients, &layout, Packaging::Algorithm1);
                prop_assert_eq!(copy(packets), want);
                prop_assert_eq!(packets.set_aside(), printed(&gradients, &layout, capacity, estimated).1.len());
                prop_assert!(packets.iter().all(|packet| (1..=capacity).contains(&packet.len())));
                let fits = |packet: &[Pair], scratch: &mut Scratch| {
                    limit.is_none_or(|limit| passes(packet, &layout, scratch).max <= limit + 1)
                };
                prop_assert!(packets.iter().all(|packet| fits(packet, &mut scratch)));
                let packets = packer.pack(&gradients, &layout, Packaging::RankOrder);
                prop_assert_eq!(copy(packets), naive_in_order(&gradients, &layout, capacity, times));
                prop_assert!(packets.iter().all(|packet| fits(packet, &mut scratch)));
                let all: Vec<Pair> = packets.iter().flatten().copied().collect();
                prop_assert_eq!(all, gradients);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_set_aside() {
        let gradients: Vec<Pair> = [0, 2, 4, 1, 6].iter().map(|&i| (i, 0.5)).collect();
        let indices = |packets: &Packets| -> Vec<Vec<u32>> {
            packets.iter().map(|packet| packet.iter().map(|pair| pair.0).collect()).collect()
        };
        let mut packer = Packer::new(3, 2);
        // Two packets are estimated; each takes one of register 0.
        let packets = packer.pack(&gradients, &Layout::heat(2), Packaging::Algorithm1);
        assert_eq!(indices(packets), [vec![0, 1], vec![2], vec![4, 6]]);
        assert_eq!(packets.set_aside(), 2);
        let mut packer = packer.recirculating_at_most(0);
        let packets = packer.pack(&gradients, &Layout::heat(2), Packaging::Algorithm1);
        assert_eq!(indices(packets), [vec![0, 1], vec![2], vec![4], vec![6]]);
        assert!(packer.pack(&[], &Layout::heat(2), Packaging::Algorithm1).is_empty());
        assert_eq!(packer.pack(&[], &Layout::heat(2), Packaging::RankOrder).packet(0), []);
        // More registers than were announced.
        assert_eq!(packer.pack(&gradients, &Layout::heat(100), Packaging::Algorithm1).len(), 2);
        assert_eq!(PAIRS_MAX, 18);
    }

    #[test]
    fn memory_is_reused() {
        let gradients: Vec<Pair> = (0..5000).map(|i| (i * 7 % 3001, 0.0)).collect();
        let mut packer = Packer::new(PAIRS_MAX, 9);
        let layout = Layout::heat(9);
        let room = |packer: &Packer| {
            let packets = &packer.packets;
            [packets.pairs.capacity(), packets.spans.capacity(), packer.aside.capacity(), packer.reach.capacity()]
        };
        packer.pack(&gradients, &layout, Packaging::Algorithm1);
        let before = room(&packer);
        for size in [1, 4000, 5000, 17] {
            packer.pack(&gradients[..size], &layout, Packaging::Algorithm1);
            packer.pack(&gradients[..size], &layout, Packaging::RankOrder);
        }
        assert_eq!(room(&packer), before);
    }
}
