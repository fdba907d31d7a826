//! Sparse training: pairs that a switch adds up over an iteration, one register per hot parameter.
//!
//! The first packet that a switch puts into empty memory opens a sum (it is merged into itself); the sum has its id and departs in many
//! packets, each with a part of the registers. The ledger has registers of its own, adds the packets named by the books in their order,
//! and compares every part bit for bit. A sum is delivered when a worker has all of its parts. It may be lost with its device, or move to
//! another device: the fates of its members are known when the account is closed. Cold packets travel alone. Networks make copies: a drop
//! as a duplicate or by a fault does not decide the fate of the original.

use pktgen_core::record::{Action, Book, Heat, PacketId, Reason, SumOk};

use super::fates::{Fate, FateCounts, Fates};
use super::table::Table;
use super::{Carried, Receipt};
use crate::endpoint::Pairs;
use crate::target::sparse::Adder;

/// State of a transmission.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    UnderWay,
    /// In the sum with this number.
    Summed(u32),
    Delivered,
    Dropped(Reason),
}

/// The sum of a switch under one id.
struct Sum {
    values: Vec<f32>,
    members: u32,
    /// The departing pairs, in order; computed when the first part arrives.
    set: Option<Vec<(u32, f32)>>,
    /// Whether a worker has all of it.
    over: bool,
    /// Its device.
    node: u16,
    /// Whether its results left: the same packet then opens another sum.
    departed: bool,
    /// Whether its device is lost. Results under way may still complete it.
    lost: bool,
    /// The next sum that the same packet opened.
    next: Option<u32>,
}

impl Sum {
    /// Returns whether a packet that opened it is added to it again at `node`.
    fn goes_on(&self, node: u16) -> bool {
        self.node == node && !(self.departed || self.lost || self.over)
    }

    /// Returns whether part number `part` consists of these bytes.
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

/// The sums that a packet opened: the first, and the last.
#[derive(Debug, Clone, Copy)]
struct Opened {
    first: u32,
    last: u32,
}

/// Counts of updates that are not in sums exactly once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exactness {
    /// Updates that are in sums more than once.
    pub twice: u64,
    /// Updates whose every transmission was taken for a duplicate.
    pub never: u64,
}

/// State of an update, over all transmissions.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    sums: u32,
    duplicate: bool,
    /// Whether it was in a sum that was lost with its device.
    lost: bool,
}

/// The account of pairs.
pub(super) struct PairSums {
    pairs: Box<dyn Pairs>,
    /// Buffer for a packet's pairs.
    room: Vec<u8>,
    adder: Adder,
    states: Table<State>,
    counted: Table<Counted>,
    sums: Vec<Sum>,
    opened: Table<Opened>,
    /// Transmissions in the sum of a replaced device that were added again by another one.
    moved: Vec<(PacketId, u32)>,
    exactness: Exactness,
}

/// Returns the update of a transmission.
fn update(packet: PacketId) -> PacketId {
    PacketId::new(packet.worker(), packet.seq(), 0)
}

impl PairSums {
    /// The account of `workers` workers that send the pairs known to `pairs`, to a switch with this `adder`.
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

    /// Returns the switch's adder.
    pub(super) fn adder(&self) -> &Adder {
        &self.adder
    }

    /// Returns how often updates are in sums. Known when the account is closed.
    pub(super) fn exactness(&self) -> Exactness {
        self.exactness
    }

    /// Records a row of a device's books.
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

    /// Whether this transmission was sent.
    pub(super) fn was_sent(&mut self, packet: PacketId) -> bool {
        self.states.get_mut(packet).is_some()
    }

    /// Whether this transmission has arrived.
    pub(super) fn has_arrived(&mut self, packet: PacketId) -> bool {
        self.states.get_mut(packet).is_some_and(|state| *state == State::Delivered)
    }

    /// Records the arrival of a part of a sum; the receipt says whether it completes the sum at a worker.
    #[inline]
    pub(super) fn received(&mut self, receipt: &Receipt, counts: &mut FateCounts) -> SumOk {
        let verdict = self.compared(receipt, &mut counts.by_worker);
        counts.stranger_if(verdict.is_none());
        verdict.unwrap_or(SumOk::Unknown)
    }
}

// Functions that record an event return false, or `None`, if the event is impossible.
impl PairSums {
    /// Records that a packet left its worker.
    pub(super) fn sent(&mut self, packet: PacketId, heat: Option<Heat>, counts: &mut FateCounts) {
        let fresh = self.under_way(packet, heat);
        counts.stranger_if(!fresh);
    }

    fn under_way(&mut self, packet: PacketId, heat: Option<Heat>) -> bool {
        // Only hot packets are summed.
        if heat == Some(Heat::Hot) {
            self.counted.insert(update(packet), Counted::default());
        }
        self.states.insert(packet, State::UnderWay)
    }

    /// Records that `packet` was added at `node` to the registers of the sum that `opener` opened.
    fn merged(&mut self, packet: PacketId, opener: PacketId, node: u16, fates: &mut [Fates]) -> bool {
        let Some(state) = self.states.get_mut(packet).map(|state| *state) else { return false };
        let again = match state {
            State::UnderWay => false,
            // A copy was lost before.
            State::Dropped(reason) if reason.may_be_copy() => {
                fates[packet.worker() as usize].dropped[reason as usize] -= 1;
                false
            }
            State::Dropped(_) => return false,
            State::Summed(known) => {
                // A device without the other device's sum adds it for the first time.
                let sum = &mut self.sums[known as usize];
                let elsewhere = sum.lost || sum.node != node;
                if elsewhere {
                    sum.members -= 1;
                    self.moved.push((packet, known));
                }
                !elsewhere
            }
            // A copy that the switch did not recognise.
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

    /// Opens a sum.
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

    /// Records that a packet with the id `packet` left `node`: perhaps the results of a sum.
    fn departed(&mut self, packet: PacketId, node: u16) {
        if let Some(opened) = self.opened.get_mut(packet) {
            let sum = &mut self.sums[opened.last as usize];
            sum.departed |= sum.node == node;
        }
    }

    /// Records that `node` continues the last sum that `packet` opened, which another device had.
    fn taken_over(&mut self, packet: PacketId, node: u16) -> bool {
        let Some(opened) = self.opened.get_mut(packet) else { return false };
        let sum = &mut self.sums[opened.last as usize];
        (sum.node, sum.lost) = (node, false);
        true
    }

    /// Records that `packet` was dropped.
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

    /// Records that `node` has lost the sums that `packet` opened.
    fn lost(&mut self, packet: PacketId, node: u16) -> bool {
        let mut at = self.opened.get_mut(packet).map(|opened| opened.first);
        let known = at.is_some();
        while let Some(number) = at {
            let sum = &mut self.sums[number as usize];
            // A sum that moved earlier survives.
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

    /// Returns the sum, of those from `first` on, to which this part belongs, and whether it is correct; `None` if workers have them all.
    fn compare(&mut self, first: u32, part: u32, carried: &Carried) -> Option<(u32, bool)> {
        let mut likely = None;
        // A growing sum has sent nothing, unless it moved between its end and its departure.
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

    /// Records the arrival of a packet that is in no sum.
    fn received_alone(&mut self, packet: PacketId, carried: &Carried, fates: &mut [Fates]) -> Option<SumOk> {
        // A damaged result may name anybody.
        let own = fates.get_mut(packet.worker() as usize)?;
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

    /// Ends the run: packets still under way are in flight.
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

    /// Records that a transmission was in a lost sum.
    fn uncount(&mut self, packet: PacketId) {
        if let Some(counted) = self.counted.get_mut(update(packet)) {
            (counted.sums, counted.lost) = (counted.sums.saturating_sub(1), true);
        }
    }
}

/// Returns the number of packets in which `set` nonzero registers depart (`docs/libra.md`): `most` per packet, by
/// index; one packet without pairs if all are 0.
fn parts(set: usize, most: usize) -> usize {
    set.div_ceil(most).max(1)
}
