//! The packets of a worker in an iteration of sparse training: a pure function of the run's seed.
//!
//! Workers send from it, and the ledger uses it to look up the contents of packets. Packets are numbered over the whole
//! run, separately for each destination (`docs/libra.md`): hot ones go to the switch of a rack, cold ones to a server.

use std::sync::Arc;

use crate::format::{COLD_PAIR, HOT_PAIR, HOT_PAIRS, RESULT_PAIRS, emit_cold, emit_hot, heat_of};
pub(super) use pktgen_core::record::Heat;
use pktgen_core::record::PacketId;
use pktgen_workload::sparse::layout::Layout;
use pktgen_workload::sparse::packaging::{Estimate, Packaging, Packer};
use pktgen_workload::sparse::shards::Shards;
use pktgen_workload::sparse::{Batch, Sparse};

use super::destinations::Destinations;
use pktgen_engine::endpoint::Pairs;

/// How gradients are distributed over packets.
#[derive(Clone)]
pub(super) struct Rules {
    pub sparse: Arc<Sparse>,
    pub layout: Layout,
    /// Assignment of parameters to servers.
    pub shards: Arc<Shards>,
    pub packaging: Packaging,
    /// The basis of Algorithm 1's estimate of the number of packets.
    pub estimate: Estimate,
    pub max_recirculations: u32,
    /// Whether a switch adds up the hot ones.
    pub hot: bool,
    /// Number of pairs in a cold packet.
    pub cold_pairs: usize,
    /// Whether workers pull before each iteration except the first.
    pub pulls: bool,
}

/// The kind of a packet by its index in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// Requests the keys of this push.
    Pull(u32),
    Push(u32),
    End,
}

/// Numbers of packets of each kind in an iteration towards one destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub pulls: u32,
    pub pushes: u32,
    pub ends: u32,
}

impl Shape {
    pub fn total(self) -> u32 {
        self.pulls + self.pushes + self.ends
    }

    /// Returns the packet at this index: pulls are first, the end is last.
    pub fn item(self, place: u32) -> Option<Item> {
        if place < self.pulls {
            return Some(Item::Pull(place));
        }
        match place - self.pulls {
            push if push < self.pushes => Some(Item::Push(push)),
            _ if place < self.total() => Some(Item::End),
            _ => None,
        }
    }
}

/// The packets of a worker to one destination in an iteration.
#[derive(Debug, Default)]
pub(super) struct Part {
    hot: Vec<(u32, f32)>,
    cold: Vec<(u64, f32)>,
    /// Where packets begin in either list, with one more entry than packets.
    starts: Vec<u32>,
    pub shape: Shape,
}

impl Part {
    fn clear(&mut self) {
        self.hot.clear();
        self.cold.clear();
        self.starts.clear();
        self.starts.push(0);
    }

    fn range(&self, push: u32) -> std::ops::Range<usize> {
        match self.starts.get(push as usize..) {
            Some(&[from, to, ..]) => from as usize..to as usize,
            _ => 0..0,
        }
    }

    /// Returns all pairs for a switch.
    pub fn hot(&self) -> &[(u32, f32)] {
        &self.hot
    }

    /// Returns the length of the pairs of a push in bytes.
    pub fn len(&self, push: u32) -> usize {
        self.range(push).len() * if self.cold.is_empty() { HOT_PAIR } else { COLD_PAIR }
    }

    /// Writes the pairs of a push.
    pub fn write(&self, push: u32, bytes: &mut [u8]) {
        match self.cold.is_empty() {
            true => emit_hot(&self.hot[self.range(push)], bytes),
            false => emit_cold(&self.cold[self.range(push)], bytes),
        }
    }
}

/// The packets of one worker in one iteration, by the index of their destination.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub parts: Vec<Part>,
}

impl Packed {
    /// Returns the number of all pairs.
    pub fn pairs(&self) -> u64 {
        self.parts.iter().map(|part| (part.hot.len() + part.cold.len()) as u64).sum()
    }
}

/// Packs iterations, reusing memory.
pub(super) struct Packing {
    pub rules: Rules,
    packer: Packer,
    batch: Batch,
    /// Hot pairs by rack, if there are several.
    by_rack: Vec<Vec<(u32, f32)>>,
}

impl Packing {
    pub fn new(rules: Rules) -> Self {
        let packer = Packer::new(HOT_PAIRS, rules.layout.registers())
            .estimating(rules.estimate)
            .recirculating_at_most(rules.max_recirculations);
        let racks = rules.shards.racks() as usize;
        let by_rack = vec![Vec::new(); if racks > 1 { racks } else { 0 }];
        Packing { packer, rules, batch: Batch::default(), by_rack }
    }

    /// Packs an iteration of `worker` into `into`.
    pub fn pack(&mut self, worker: u32, iteration: u32, into: &mut Packed) {
        let Packing { rules, packer, batch, by_rack } = self;
        let Rules { sparse, layout, shards, packaging, hot, cold_pairs, pulls, .. } = &*rules;
        let (job, racks) = (sparse.job_of(worker), shards.racks() as usize);
        sparse.batch(worker, iteration, batch);
        into.parts.resize_with(racks + shards.servers() as usize, Part::default);
        into.parts.iter_mut().for_each(Part::clear);
        let (switches, servers) = into.parts.split_at_mut(racks);
        if *hot {
            by_rack.iter_mut().for_each(Vec::clear);
            if !by_rack.is_empty() {
                batch.hot.iter().for_each(|pair| by_rack[shards.rack_of(job, pair.0) as usize].push(*pair));
            }
            for (rack, part) in (0u32..).zip(switches) {
                let pairs = by_rack.get(rack as usize).unwrap_or(&batch.hot);
                let layout = shards.layout(job, rack).unwrap_or(layout);
                for packet in packer.pack(pairs, layout, *packaging).iter() {
                    part.hot.extend_from_slice(packet);
                    part.starts.push(part.hot.len() as u32);
                }
            }
        } else {
            let known = sparse.hot_of(job);
            for (index, value) in &batch.hot {
                let key = known.key_of(*index);
                servers[shards.server_of(key) as usize].cold.push((key, *value));
            }
        }
        for pair in &batch.cold {
            servers[shards.server_of(pair.0) as usize].cold.push(*pair);
        }
        for part in servers {
            let len = part.cold.len() as u32;
            part.starts.extend((0..len).step_by(*cold_pairs).skip(1).chain((len > 0).then_some(len)));
        }
        let asks = *pulls && iteration > 0;
        let ends = !*pulls || iteration + 1 == sparse.iterations();
        for (at, part) in into.parts.iter_mut().enumerate() {
            let pushes = part.starts.len() as u32 - 1;
            part.shape = match at < racks && !*hot {
                true => Shape::default(),
                false => Shape { pulls: if asks { pushes } else { 0 }, pushes, ends: u32::from(ends) },
            };
        }
    }
}

/// The known part of one worker's run: the first numbers of its iterations, and the packets of one of them.
#[derive(Default)]
struct Followed {
    /// Numbers of each destination before each known iteration, and after the last.
    before: Vec<Vec<u32>>,
    /// The iteration in `packed`.
    at: u32,
    packed: Packed,
}

impl Followed {
    /// Adds the packed iteration after the known ones.
    fn add(&mut self) {
        if let Some(last) = self.before.last() {
            let after = last.iter().zip(&self.packed.parts).map(|(before, part)| before + part.shape.total()).collect();
            self.before.push(after);
        }
    }
}

/// Contents of pushes, for the ledger.
pub(super) struct Contents {
    packing: Packing,
    workers: Vec<Followed>,
    room: Vec<u8>,
}

impl Contents {
    pub fn new(rules: Rules) -> Self {
        let workers = (0..rules.sparse.workers()).map(|_| Followed::default()).collect();
        Contents { packing: Packing::new(rules), workers, room: Vec::new() }
    }

    /// Returns the packets of the worker to the packet's destination in its iteration, and the packet's index.
    fn find(&mut self, packet: PacketId) -> Option<(&Part, u32)> {
        let worker = packet.worker();
        let own = self.workers.get_mut(worker as usize)?;
        let destinations = Destinations::of(&self.packing.rules.shards);
        let (to, number) = destinations.find(packet.seq())?;
        let to = destinations.place(to);
        if own.before.is_empty() {
            self.packing.pack(worker, 0, &mut own.packed);
            own.before = vec![vec![0; own.packed.parts.len()]];
            own.add();
        }
        while own.before.last()?[to] <= number {
            let next = own.before.len() as u32 - 1;
            if next == self.packing.rules.sparse.iterations() {
                return None;
            }
            self.packing.pack(worker, next, &mut own.packed);
            own.at = next;
            own.add();
        }
        let iteration = own.before.partition_point(|before| before[to] <= number) as u32 - 1;
        if own.at != iteration {
            self.packing.pack(worker, iteration, &mut own.packed);
            own.at = iteration;
        }
        Some((&own.packed.parts[to], number - own.before[iteration as usize][to]))
    }
}

impl Pairs for Contents {
    fn payload(&mut self, packet: PacketId) -> &[u8] {
        let mut room = std::mem::take(&mut self.room);
        room.clear();
        if let Some((part, place)) = self.find(packet)
            && let Some(Item::Push(push)) = part.shape.item(place)
        {
            room.resize(part.len(push), 0);
            part.write(push, &mut room);
        }
        self.room = room;
        &self.room
    }

    fn hot(&mut self, packet: PacketId) -> &[(u32, f32)] {
        match self.find(packet).map(|(part, place)| (part, part.shape.item(place))) {
            Some((part, Some(Item::Push(push)))) if heat_of(packet.seq()) == Heat::Hot => &part.hot[part.range(push)],
            _ => &[],
        }
    }

    fn part(&self) -> usize {
        RESULT_PAIRS
    }

    fn write(&self, pairs: &[(u32, f32)], out: &mut Vec<u8>) {
        let from = out.len();
        out.resize(from + pairs.len() * HOT_PAIR, 0);
        emit_hot(pairs, &mut out[from..]);
    }

    fn slots(&self) -> usize {
        if self.packing.rules.hot { self.packing.rules.sparse.hot().len() as usize } else { 0 }
    }
}
