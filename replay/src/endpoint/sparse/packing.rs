//! What a worker of sparse training sends in an iteration, packet by packet: a pure function of the run's seed.
//!
//! Workers send from it, and the ledger asks it what a packet held. Packets are numbered over the whole run; hot and cold
//! ones apart (`docs/libra.md`).

use std::sync::Arc;

use pktgen_generator::record::PacketId;
use pktgen_generator::sparse::layout::Layout;
use pktgen_generator::sparse::packaging::{Estimate, Packaging, Packer};
use pktgen_generator::sparse::{Batch, Sparse};
use pktgen_generator::wire::libra::{COLD_PAIR, HOT_PAIR, HOT_PAIRS, emit_cold, emit_hot};

use crate::endpoint::Pairs;

/// How gradients become packets.
#[derive(Clone)]
pub(super) struct Rules {
    pub sparse: Arc<Sparse>,
    pub layout: Layout,
    pub packaging: Packaging,
    /// From what Algorithm 1 estimates how many packets there are.
    pub estimate: Estimate,
    pub max_recirculations: u32,
    /// Does a switch sum the hot ones?
    pub hot: bool,
    /// Pairs of a cold packet.
    pub cold_pairs: usize,
    /// Do workers pull before each iteration but the first?
    pub pulls: bool,
}

/// The hot or the cold packets of one worker's iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heat {
    Hot,
    Cold,
}

/// What the packet with some place in an iteration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// Asks for the keys of this push.
    Pull(u32),
    Push(u32),
    End,
}

/// How many packets of each kind an iteration has on one side.
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

    /// What is at this place: pulls come first, the end last.
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

/// The packets of one worker in one iteration.
#[derive(Debug, Default)]
pub(super) struct Packed {
    hot: Vec<(u32, f32)>,
    /// Where hot packets begin; one longer than they are.
    starts: Vec<u32>,
    cold: Vec<(u64, f32)>,
    cold_pairs: usize,
    pub shape: [Shape; 2],
}

impl Packed {
    /// All pairs.
    pub fn pairs(&self) -> u64 {
        (self.hot.len() + self.cold.len()) as u64
    }

    pub fn shape(&self, heat: Heat) -> Shape {
        self.shape[heat as usize]
    }

    fn hot_packet(&self, push: u32) -> &[(u32, f32)] {
        let at = push as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(from), Some(to)) => &self.hot[*from as usize..*to as usize],
            _ => &[],
        }
    }

    fn cold_packet(&self, push: u32) -> &[(u64, f32)] {
        let from = (push as usize * self.cold_pairs).min(self.cold.len());
        &self.cold[from..(from + self.cold_pairs).min(self.cold.len())]
    }

    /// Bytes of the pairs of a push.
    pub fn len(&self, heat: Heat, push: u32) -> usize {
        match heat {
            Heat::Hot => self.hot_packet(push).len() * HOT_PAIR,
            Heat::Cold => self.cold_packet(push).len() * COLD_PAIR,
        }
    }

    /// Writes the pairs of a push.
    pub fn write(&self, heat: Heat, push: u32, bytes: &mut [u8]) {
        match heat {
            Heat::Hot => emit_hot(self.hot_packet(push), bytes),
            Heat::Cold => emit_cold(self.cold_packet(push), bytes),
        }
    }
}

/// Packs iterations, with memory that is used again.
pub(super) struct Packing {
    pub rules: Rules,
    packer: Packer,
    batch: Batch,
}

impl Packing {
    pub fn new(rules: Rules) -> Self {
        let packer = Packer::new(HOT_PAIRS, rules.layout.registers())
            .estimating(rules.estimate)
            .recirculating_at_most(rules.max_recirculations);
        Packing { packer, rules, batch: Batch::default() }
    }

    /// Packs an iteration of `worker` into `into`.
    pub fn pack(&mut self, worker: u32, iteration: u32, into: &mut Packed) {
        let Rules { sparse, layout, packaging, hot, cold_pairs, pulls, .. } = &self.rules;
        sparse.batch(worker, iteration, &mut self.batch);
        into.hot.clear();
        into.starts.clear();
        into.cold.clear();
        into.starts.push(0);
        if *hot {
            for packet in self.packer.pack(&self.batch.hot, layout, *packaging).iter() {
                into.hot.extend_from_slice(packet);
                into.starts.push(into.hot.len() as u32);
            }
        } else {
            let known = sparse.hot_of(sparse.job_of(worker));
            into.cold.extend(self.batch.hot.iter().map(|(index, value)| (known.key_of(*index), *value)));
        }
        into.cold.extend_from_slice(&self.batch.cold);
        into.cold_pairs = *cold_pairs;
        let pushes = [into.starts.len() - 1, into.cold.len().div_ceil(*cold_pairs)];
        let asks = *pulls && iteration > 0;
        let ends = !*pulls || iteration + 1 == sparse.iterations();
        into.shape =
            pushes.map(|n| Shape { pulls: if asks { n as u32 } else { 0 }, pushes: n as u32, ends: u32::from(ends) });
        if !*hot {
            into.shape[Heat::Hot as usize] = Shape::default();
        }
    }
}

/// One worker, as far as it was followed: the first numbers of its iterations, and the packets of one of them.
#[derive(Default)]
struct Followed {
    /// Hot and cold numbers before each iteration that is known, and after the last.
    before: Vec<[u32; 2]>,
    /// Which iteration `packed` is.
    at: u32,
    packed: Packed,
}

/// What pushes hold, for the ledger.
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

    /// The iteration and place of a packet; what is needed of the worker is packed.
    fn find(&mut self, packet: PacketId) -> Option<(Heat, u32)> {
        let worker = packet.worker();
        let own = self.workers.get_mut(worker as usize)?;
        let (number, heat) = (packet.seq() >> 1, if packet.seq() & 1 == 1 { Heat::Cold } else { Heat::Hot });
        if own.before.is_empty() {
            self.packing.pack(worker, 0, &mut own.packed);
            own.before = vec![[0; 2], own.packed.shape.map(Shape::total)];
        }
        while own.before.last()?[heat as usize] <= number {
            let next = own.before.len() as u32 - 1;
            if next == self.packing.rules.sparse.iterations() {
                return None;
            }
            self.packing.pack(worker, next, &mut own.packed);
            own.at = next;
            let (before, shape) = (own.before.last()?, own.packed.shape);
            let after = [before[0] + shape[0].total(), before[1] + shape[1].total()];
            own.before.push(after);
        }
        let iteration = own.before.partition_point(|before| before[heat as usize] <= number) as u32 - 1;
        if own.at != iteration {
            self.packing.pack(worker, iteration, &mut own.packed);
            own.at = iteration;
        }
        Some((heat, number - own.before[iteration as usize][heat as usize]))
    }
}

impl Pairs for Contents {
    fn payload(&mut self, packet: PacketId) -> &[u8] {
        self.room.clear();
        if let Some((heat, place)) = self.find(packet) {
            let packed = &self.workers[packet.worker() as usize].packed;
            if let Some(Item::Push(push)) = packed.shape(heat).item(place) {
                self.room.resize(packed.len(heat, push), 0);
                packed.write(heat, push, &mut self.room);
            }
        }
        &self.room
    }

    fn hot(&mut self, packet: PacketId) -> &[(u32, f32)] {
        let Some((Heat::Hot, place)) = self.find(packet) else { return &[] };
        let packed = &self.workers[packet.worker() as usize].packed;
        match packed.shape(Heat::Hot).item(place) {
            Some(Item::Push(push)) => packed.hot_packet(push),
            _ => &[],
        }
    }

    fn slots(&self) -> usize {
        if self.packing.rules.hot { self.packing.rules.sparse.hot().len() as usize } else { 0 }
    }
}
