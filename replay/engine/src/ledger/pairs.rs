//! Sparse training: pairs that a switch adds up over an iteration, one register per hot parameter.
//!
//! The first packet that a switch takes into an empty memory opens a sum (it is merged into itself); the sum is known by
//! it and departs in many packets, each with a part of the registers. The ledger keeps registers of its own, adds what
//! the books name in their order, and compares every part bit for bit. A sum is delivered when a worker has all of its
//! parts. It may be lost with its device, or move to another one: what becomes of its members is known when the account
//! is closed. What is cold travels alone. Networks make copies: a drop as a duplicate or by a fault says nothing of the
//! original.

use pktgen_core::record::{Action, Book, Heat, PacketId, Reason, SumOk};

use super::fates::{Fate, FateCounts, Fates};
use super::table::Table;
use super::{Carried, Receipt};
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
    values: Vec<f32>,
    members: u32,
    /// What departs, in order; made when the first part arrives.
    set: Option<Vec<(u32, f32)>>,
    /// A worker has all of it.
    over: bool,
    /// The device that has it.
    node: u16,
    /// Its results left: what the same packet opens now is another sum.
    departed: bool,
    /// Its device is gone. What is under way to workers may still be enough.
    lost: bool,
    /// The next sum that the same packet opened.
    next: Option<u32>,
}

impl Sum {
    /// Whether a packet that opened it is added to it again at `node`.
    fn goes_on(&self, node: u16) -> bool {
        self.node == node && !(self.departed || self.lost || self.over)
    }

    /// Whether its part number `part` is made of these bytes.
    fn has(&mut self, part: u32, pairs: &dyn Pairs, room: &mut Vec<u8>, carried: &Carried) -> bool {
        let values = &mut self.values;
        let set = self
            .set
            .get_or_insert_with(|| (0u32..).zip(std::mem::take(values)).filter(|(_, value)| *value != 0.0).collect());
        let most = pairs.part();
        let from = (part as usize).saturating_mul(most);
        (part as usize) < parts(set.len(), most) && {
            room.clear();
            pairs.write(&set[from..set.len().min(from + most)], room);
            carried.is_bytes(room)
        }
    }
}

/// Sums that a packet opened: the first, and the last.
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
pub(super) struct PairSums {
    pairs: Box<dyn Pairs>,
    /// Room for a packet's pairs.
    room: Vec<u8>,
    adder: Adder,
    states: Table<State>,
    counted: Table<Counted>,
    sums: Vec<Sum>,
    opened: Table<Opened>,
    /// Transmissions that were in a sum whose device was replaced, and were added again by another one.
    moved: Vec<(PacketId, u32)>,
    exactness: Exactness,
}

/// The update that a transmission is of.
fn update(packet: PacketId) -> PacketId {
    PacketId::new(packet.worker(), packet.seq(), 0)
}

impl PairSums {
    /// Of `workers` workers that send the pairs that `pairs` knows, to a switch that adds with `adder`.
    pub(super) fn new(workers: usize, pairs: Box<dyn Pairs>, adder: Adder) -> Self {
        PairSums {
            pairs,
            room: Vec::new(),
            adder,
            states: Table::new(workers),
            counted: Table::new(workers),
            sums: Vec::new(),
            opened: Table::new(workers),
            moved: Vec::new(),
            exactness: Exactness::default(),
        }
    }

    /// How the switch adds.
    pub(super) fn adder(&self) -> &Adder {
        &self.adder
    }

    /// How often updates are in sums. Known when the account is closed.
    pub(super) fn exactness(&self) -> Exactness {
        self.exactness
    }

    /// A device wrote this row.
    #[inline]
    pub(super) fn book(&mut self, row: &Book, counts: &mut FateCounts) {
        let fates = &mut counts.by_worker;
        let known = match (row.action, row.packet_out) {
            (Action::Merged, Some(opener)) => self.merged(row.packet_in, opener, row.node, fates),
            (Action::Dropped, _) => {
                self.dropped(row.packet_in, row.reason.unwrap_or(Reason::Malformed), row.node, fates)
            }
            (Action::Arrived, Some(opener)) => self.taken_over(opener, row.node),
            (Action::Departed, _) => {
                self.departed(row.packet_in, row.node);
                true
            }
            (Action::Queued | Action::Bypassed | Action::Arrived, _) => true,
            _ => false,
        };
        counts.stranger_if(!known);
    }

    /// A part of what is known by a packet arrived, the last that a worker missed if the receipt says so.
    #[inline]
    pub(super) fn received(&mut self, receipt: &Receipt, counts: &mut FateCounts) -> SumOk {
        let verdict = self.compared(receipt, &mut counts.by_worker);
        counts.stranger_if(verdict.is_none());
        verdict.unwrap_or(SumOk::Unknown)
    }
}

// Every function that records an event returns false, or none, if that cannot be.
impl PairSums {
    /// A packet left its worker.
    pub(super) fn sent(&mut self, packet: PacketId, heat: Option<Heat>, counts: &mut FateCounts) {
        let fresh = self.under_way(packet, heat);
        counts.stranger_if(!fresh);
    }

    fn under_way(&mut self, packet: PacketId, heat: Option<Heat>) -> bool {
        // Only what is hot is summed.
        if heat == Some(Heat::Hot) {
            self.counted.insert(update(packet), Counted::default());
        }
        self.states.insert(packet, State::UnderWay)
    }

    /// `packet` was added at `node` to the registers of the sum that `opener` opened.
    fn merged(&mut self, packet: PacketId, opener: PacketId, node: u16, fates: &mut [Fates]) -> bool {
        let Some(state) = self.states.get_mut(packet).map(|state| *state) else { return false };
        let again = match state {
            State::UnderWay => false,
            // A copy of it was lost before.
            State::Dropped(reason) if reason.may_be_copy() => {
                fates[packet.worker() as usize].dropped[reason as usize] -= 1;
                false
            }
            State::Dropped(_) => return false,
            State::Summed(known) => {
                // A device that has nothing of another one's sum adds it for the first time.
                let sum = &mut self.sums[known as usize];
                let elsewhere = sum.lost || sum.node != node;
                if elsewhere {
                    sum.members -= 1;
                    self.moved.push((packet, known));
                }
                !elsewhere
            }
            // A copy, which the switch did not take for one.
            State::Delivered => true,
        };
        let number = match self.opened.get_mut(opener).map(|opened| opened.last) {
            // A copy of the opener is added to its own sum again.
            Some(last) if packet != opener || self.sums[last as usize].goes_on(node) => last,
            _ if packet == opener => self.open(opener, node),
            _ => return false,
        };
        let sum = &mut self.sums[number as usize];
        sum.members += u32::from(!again);
        self.adder.add_all(&mut sum.values, self.pairs.hot(packet));
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
        let (over, departed, lost) = (false, false, false);
        self.sums.push(Sum { values, members: 0, set: None, over, node, departed, lost, next: None });
        match self.opened.get_mut(opener) {
            None => _ = self.opened.insert(opener, Opened { first: number, last: number }),
            Some(opened) => {
                self.sums[opened.last as usize].next = Some(number);
                opened.last = number;
            }
        }
        number
    }

    /// Something that is known by `packet` left `node`: perhaps the results of a sum.
    fn departed(&mut self, packet: PacketId, node: u16) {
        if let Some(opened) = self.opened.get_mut(packet) {
            let sum = &mut self.sums[opened.last as usize];
            sum.departed |= sum.node == node;
        }
    }

    /// `node` goes on with the last sum that `packet` opened, which another device had.
    fn taken_over(&mut self, packet: PacketId, node: u16) -> bool {
        let Some(opened) = self.opened.get_mut(packet) else { return false };
        let sum = &mut self.sums[opened.last as usize];
        (sum.node, sum.lost) = (node, false);
        true
    }

    /// `packet` was dropped.
    fn dropped(&mut self, packet: PacketId, reason: Reason, node: u16, fates: &mut [Fates]) -> bool {
        if reason == Reason::DeviceLost {
            return self.lost(packet, node);
        }
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
            Some(_) => reason.may_be_copy(),
            None => false,
        }
    }

    /// `node` has the sums no more that `packet` opened.
    fn lost(&mut self, packet: PacketId, node: u16) -> bool {
        let mut at = self.opened.get_mut(packet).map(|opened| opened.first);
        let known = at.is_some();
        while let Some(number) = at {
            let sum = &mut self.sums[number as usize];
            // What moved before lives on.
            sum.lost |= sum.node == node;
            at = sum.next;
        }
        known
    }

    fn compared(&mut self, receipt: &Receipt, fates: &mut [Fates]) -> Option<SumOk> {
        let Receipt { packet, part, last, carried, .. } = receipt;
        let Some(Opened { first, .. }) = self.opened.get_mut(*packet).map(|opened| *opened) else {
            return self.received_alone(*packet, carried, fates);
        };
        let (number, right) = self.compare(first, (*part)?, carried)?;
        if *last {
            let sum = &mut self.sums[number as usize];
            (sum.over, sum.set) = (true, Some(Vec::new()));
        }
        Some(SumOk::of(Some(right)))
    }

    /// Which of the sums from `first` on this part is of, and whether it is right; none if workers have them all.
    fn compare(&mut self, first: u32, part: u32, carried: &Carried) -> Option<(u32, bool)> {
        let mut likely = None;
        // One that still grows has sent nothing, unless it moved between its end and its departure.
        let orders: [fn(&Sum) -> bool; 3] =
            [|sum| sum.departed && !sum.lost, |sum| sum.lost, |sum| !sum.departed && !sum.lost];
        for wanted in orders {
            let mut at = Some(first).filter(|_| likely.is_none());
            while let Some(number) = at {
                let sum = &mut self.sums[number as usize];
                at = sum.next;
                if sum.over || !wanted(sum) {
                    continue;
                }
                if sum.has(part, self.pairs.as_ref(), &mut self.room, carried) {
                    return Some((number, true));
                }
                likely = likely.or(Some(number));
            }
        }
        likely.map(|number| (number, false))
    }

    /// A packet arrived that is in no sum.
    fn received_alone(&mut self, packet: PacketId, carried: &Carried, fates: &mut [Fates]) -> Option<SumOk> {
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
        Some(SumOk::of(Some(carried.is_bytes(self.pairs.payload(packet)))))
    }

    /// The run is over: what is still under way is in flight.
    pub(super) fn close(&mut self, counts: &mut FateCounts) {
        let fates = &mut counts.by_worker;
        for packet in self.states.ids() {
            let Some(state) = self.states.get_mut(packet).map(|state| *state) else { continue };
            let own = &mut fates[packet.worker() as usize];
            match state {
                State::UnderWay => own.count(Fate::InFlight, true),
                State::Summed(number) => {
                    let sum = &self.sums[number as usize];
                    let (alone, gone) = (sum.members == 1, sum.lost && !sum.over);
                    let fate = match (sum.over, sum.lost) {
                        (true, _) => Fate::Delivered,
                        (false, true) => Fate::Dropped(Reason::DeviceLost),
                        (false, false) => Fate::InFlight,
                    };
                    own.count(fate, alone);
                    if gone {
                        self.uncount(packet);
                    }
                }
                State::Delivered | State::Dropped(_) => continue,
            }
            self.states.set(packet, State::Delivered);
        }
        for (packet, number) in std::mem::take(&mut self.moved) {
            if !self.sums[number as usize].over {
                self.uncount(packet);
            }
        }
        let mut exactness = Exactness::default();
        for packet in self.counted.ids() {
            let Some(Counted { sums, duplicate, lost }) = self.counted.get_mut(packet).map(|counted| *counted) else {
                continue;
            };
            exactness.twice += u64::from(sums > 1);
            exactness.never += u64::from(sums == 0 && duplicate && !lost);
        }
        self.exactness = exactness;
    }

    /// A transmission was in a sum that was lost.
    fn uncount(&mut self, packet: PacketId) {
        if let Some(counted) = self.counted.get_mut(update(packet)) {
            (counted.sums, counted.lost) = (counted.sums.saturating_sub(1), true);
        }
    }
}

/// In how many packets the registers depart of which so many are not 0 (`docs/libra.md`): as many per packet as fit, by index;
/// one packet without pairs if all are 0.
fn parts(set: usize, most: usize) -> usize {
    set.div_ceil(most).max(1)
}
