//! Sparse training: pairs that a switch adds up over an iteration, one register per hot parameter.
//!
//! The first packet that a switch takes into an empty memory opens a sum (it is merged into itself); the sum is known by
//! it and departs in many packets, each with a part of the registers. The ledger keeps registers of its own, adds what
//! the books name in their order, and compares every part bit for bit. A sum counts as delivered when its first part
//! arrives. What is cold travels alone. Networks make copies: a drop as a duplicate or by a fault says nothing of the
//! original.

use pktgen_generator::record::{PacketId, Reason, SumOk};
use pktgen_generator::wire::libra::{self, HOT_PAIR, RESULT_PAIRS};

use super::table::Table;
use super::{Fate, Fates, Ledger};
use crate::endpoint::Pairs;
use crate::target::sparse::Adder;

/// Where a transmission is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    UnderWay,
    /// In the sum with this number.
    Summed(u32),
    Delivered,
    Dropped(Reason),
}

/// What a switch has added up under one name.
struct Sum {
    opener: PacketId,
    values: Vec<f32>,
    members: Vec<PacketId>,
    /// What departs, in order; made when the first part arrives.
    set: Vec<(u32, f32)>,
    /// Parts that have not arrived; none before the first has.
    left: Option<usize>,
    over: bool,
    /// The device that has it.
    node: u16,
    /// Its results left: what the same packet opens now is another sum.
    departed: bool,
    /// The next sum that the same packet opened, if a copy of it came when this one had departed.
    next: Option<u32>,
}

/// Sums that a packet opened: the first whose parts have not all arrived, and the last.
#[derive(Debug, Clone, Copy)]
struct Opened {
    first: u32,
    last: u32,
}

/// How often updates are in sums that must be there once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exactness {
    /// Updates that are in sums more than once.
    pub twice: u64,
    /// Updates of which every transmission was taken for a duplicate.
    pub never: u64,
}

/// What became of an update, whatever the transmission.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    sums: u32,
    duplicate: bool,
    /// It was in a sum that died with its device.
    lost: bool,
}

/// The account of pairs.
pub(super) struct Sparse {
    pairs: Box<dyn Pairs>,
    adder: Adder,
    states: Table<State>,
    counted: Table<Counted>,
    sums: Vec<Sum>,
    opened: Table<Opened>,
    exactness: Exactness,
}

impl Ledger {
    /// For workers that send the pairs that `pairs` knows, to a switch that adds with `adder`.
    pub fn of_pairs(workers: usize, pairs: Box<dyn Pairs>, adder: Adder) -> Self {
        let sparse = Sparse {
            pairs,
            adder,
            states: Table::new(workers),
            counted: Table::new(workers),
            sums: Vec::new(),
            opened: Table::new(workers),
            exactness: Exactness::default(),
        };
        Ledger { sparse: Some(sparse), ..Ledger::new(workers, 0, None) }
    }

    /// How often updates are in sums; none where nothing is summed by key. Known when the account is closed.
    pub fn exactness(&self) -> Option<Exactness> {
        self.sparse.as_ref().map(|sparse| sparse.exactness)
    }
}

/// The update that a transmission is of.
fn update(packet: PacketId) -> PacketId {
    PacketId::new(packet.worker(), packet.seq(), 0)
}

// Every function that is told something returns false if that cannot be.
impl Sparse {
    /// A packet left its worker.
    pub(super) fn sent(&mut self, packet: PacketId) -> bool {
        self.counted.insert(update(packet), Counted::default());
        self.states.insert(packet, State::UnderWay)
    }

    /// `packet` was added at `node` to the registers of the sum that `opener` opened.
    pub(super) fn merged(&mut self, packet: PacketId, opener: PacketId, node: u16, fates: &mut [Fates]) -> bool {
        let Some(state) = self.states.get_mut(packet).map(|state| *state) else { return false };
        let own = &mut fates[packet.worker() as usize];
        let again = match state {
            State::UnderWay => false,
            // A copy of it was lost before.
            // Or the device that had added it is gone, and another one gets a copy.
            State::Dropped(reason) if reason.may_be_copy() || reason == Reason::DeviceLost => {
                own.dropped[reason as usize] -= 1;
                false
            }
            State::Dropped(_) => return false,
            // A copy, which the switch did not take for one.
            State::Summed(_) | State::Delivered => true,
        };
        let number = match self.opened.get_mut(opener) {
            // A copy of the opener is added to its own sum again.
            Some(opened) if packet != opener || !self.sums[opened.last as usize].departed => opened.last,
            _ if packet == opener => self.open(opener, node),
            _ => return false,
        };
        let sum = &mut self.sums[number as usize];
        // It may have moved to a standby device.
        sum.node = node;
        if !again {
            sum.members.push(packet);
        }
        for (index, value) in libra::hot_pairs(self.pairs.payload(packet)) {
            if let Some(register) = sum.values.get_mut(index as usize) {
                *register = self.adder.add(*register, value);
            }
        }
        if !again {
            self.states.set(packet, State::Summed(number));
        }
        if let Some(counted) = self.counted.get_mut(update(packet)) {
            counted.sums += 1;
        }
        true
    }

    /// A sum begins.
    fn open(&mut self, opener: PacketId, node: u16) -> u32 {
        let (values, number) = (vec![0.0; self.pairs.slots()], self.sums.len() as u32);
        let (members, set) = (Vec::new(), Vec::new());
        let (left, over, departed, next) = (None, false, false, None);
        self.sums.push(Sum { opener, values, members, set, left, over, node, departed, next });
        match self.opened.get_mut(opener) {
            None => _ = self.opened.insert(opener, Opened { first: number, last: number }),
            Some(opened) => {
                self.sums[opened.last as usize].next = Some(number);
                let arrived = self.sums[opened.first as usize].left == Some(0);
                *opened = Opened { first: if arrived { number } else { opened.first }, last: number };
            }
        }
        number
    }

    /// Something that is known by `packet` left `node`: perhaps the results of a sum.
    pub(super) fn departed(&mut self, packet: PacketId, node: u16) {
        if let Some(opened) = self.opened.get_mut(packet) {
            let sum = &mut self.sums[opened.last as usize];
            sum.departed |= sum.node == node;
        }
    }

    /// `packet` was dropped.
    pub(super) fn dropped(&mut self, packet: PacketId, reason: Reason, fates: &mut [Fates]) -> bool {
        if reason == Reason::Duplicate
            && let Some(counted) = self.counted.get_mut(update(packet))
        {
            counted.duplicate = true;
        }
        match self.states.get_mut(packet).map(|state| *state) {
            Some(State::UnderWay) => {
                self.states.set(packet, State::Dropped(reason));
                fates[packet.worker() as usize].count(Fate::Dropped(reason), true);
                true
            }
            Some(_) if reason.may_be_copy() => true,
            // The device that held the sum is gone.
            Some(State::Summed(number)) if self.sums[number as usize].opener == packet => {
                self.end_sum(number, State::Dropped(reason), Fate::Dropped(reason), fates)
            }
            _ => false,
        }
    }

    fn end_sum(&mut self, number: u32, state: State, fate: Fate, fates: &mut [Fates]) -> bool {
        let sum = &mut self.sums[number as usize];
        let alone = sum.members.len() == 1;
        for member in std::mem::take(&mut sum.members) {
            if state == State::Dropped(Reason::DeviceLost)
                && let Some(counted) = self.counted.get_mut(update(member))
            {
                // It may be added by another device.
                (counted.sums, counted.lost) = (counted.sums - 1, true);
            }
            self.states.set(member, state);
            fates[member.worker() as usize].count(fate, alone);
        }
        !std::mem::replace(&mut sum.over, true)
    }

    /// Part `part` of what is known by `packet` arrived; `same` compares it with bytes.
    pub(super) fn received(
        &mut self,
        packet: PacketId,
        part: u32,
        same: impl FnOnce(&[u8]) -> bool,
        fates: &mut [Fates],
    ) -> Option<SumOk> {
        let Some(Opened { first, last }) = self.opened.get_mut(packet).map(|opened| *opened) else {
            return self.received_alone(packet, same, fates);
        };
        if !self.sums[first as usize].over {
            self.end_sum(first, State::Delivered, Fate::Delivered, fates);
        }
        let sum = &mut self.sums[first as usize];
        let left = sum.left.unwrap_or_else(|| {
            let values = std::mem::take(&mut sum.values);
            sum.set = (0u32..).zip(values).filter(|(_, value)| *value != 0.0).collect();
            parts(sum.set.len())
        });
        let from = (part as usize).saturating_mul(RESULT_PAIRS);
        let right = (part as usize) < parts(sum.set.len()) && {
            let mut bytes = [0; RESULT_PAIRS * HOT_PAIR];
            let pairs = &sum.set[from..sum.set.len().min(from + RESULT_PAIRS)];
            libra::emit_hot(pairs, &mut bytes);
            same(&bytes[..pairs.len() * HOT_PAIR])
        };
        sum.left = Some(left.saturating_sub(1));
        if left == 1 {
            sum.set = Vec::new();
            self.opened.set(packet, Opened { first: sum.next.unwrap_or(first), last });
        }
        Some(verdict(right))
    }

    /// A packet arrived that is in no sum.
    fn received_alone(
        &mut self,
        packet: PacketId,
        same: impl FnOnce(&[u8]) -> bool,
        fates: &mut [Fates],
    ) -> Option<SumOk> {
        let own = &mut fates[packet.worker() as usize];
        match self.states.get_mut(packet)? {
            State::UnderWay => own.count(Fate::Delivered, true),
            State::Dropped(reason) if reason.may_be_copy() => {
                own.dropped[*reason as usize] -= 1;
                own.count(Fate::Delivered, true);
            }
            State::Delivered => {}
            _ => return None,
        }
        self.states.set(packet, State::Delivered);
        Some(verdict(same(self.pairs.payload(packet))))
    }

    /// The run is over: what is still under way is in flight.
    pub(super) fn close(&mut self, fates: &mut [Fates]) {
        for packet in self.states.ids() {
            let over = |number: u32| self.sums[number as usize].over;
            let open = match self.states.get_mut(packet) {
                Some(State::UnderWay) => true,
                Some(State::Summed(number)) => !over(*number),
                _ => false,
            };
            if open {
                fates[packet.worker() as usize].count(Fate::InFlight, true);
                self.states.set(packet, State::Delivered);
            }
        }
        let mut exactness = Exactness::default();
        for packet in self.counted.ids() {
            let Some(Counted { sums, duplicate, lost }) = self.counted.get_mut(packet).map(|counted| *counted) else {
                continue;
            };
            let hot = packet.seq() & 1 == 0;
            exactness.twice += u64::from(sums > 1);
            exactness.never += u64::from(hot && sums == 0 && duplicate && !lost);
        }
        self.exactness = exactness;
    }
}

fn verdict(yes: bool) -> SumOk {
    if yes { SumOk::Yes } else { SumOk::No }
}

/// In how many packets the registers depart of which so many are not 0 (`docs/libra.md`): as many per packet as fit, by index;
/// one packet without pairs if all are 0.
fn parts(set: usize) -> usize {
    set.div_ceil(RESULT_PAIRS).max(1)
}
