//! What became of every packet: books and deliveries, read once and in order, move packets from state to state.
//!
//! Called by [`crate::resolved`], batch by batch. Fates are terminal (design §2.6): a member of an aggregate inherits the fate of the packet
//! that carries it. `crate::model` is the same over whole columns, without anything clever, for tests.

mod table;
mod tally;
mod unseen;

use pktgen_core::index::NOWHERE;
use pktgen_core::record::{Action, Family, NO_CLUSTER, PacketId, Reason};

use crate::column::NumberList;
use crate::columns::{BookColumns, NO_PACKET, ReceivedColumns};
use crate::keyed::Keyed;
use crate::packets::{PacketTable, State};

pub use table::{frame_bytes, frames};
pub(crate) use tally::Tallies;
pub use tally::{add, difference};
pub(crate) use unseen::Unseen;

/// What became of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its worker kept it back.
    Withheld,
    /// No terminal event was recorded.
    InFlight,
    /// Delivered as the only member of its packet.
    DeliveredAlone,
    /// Delivered as a member of an aggregate.
    DeliveredMerged,
    /// Replaced by a newer update of the same worker.
    Subsumed,
    /// Discarded for a higher reward.
    Outranked,
    /// Dropped.
    Dropped(Reason),
    /// Unknown: the device is hardware.
    Unaccounted,
}

/// Codes of fates but drops, whose codes follow. The first stands for a packet to which nothing happened.
const FATES: [Fate; 8] = {
    use Fate::{DeliveredAlone, DeliveredMerged, InFlight, Outranked, Subsumed, Unaccounted, Withheld};
    [InFlight, InFlight, DeliveredAlone, DeliveredMerged, Subsumed, Outranked, Unaccounted, Withheld]
};

impl Fate {
    #[inline]
    pub(crate) fn code(self) -> u8 {
        match self {
            Fate::InFlight => 1,
            Fate::DeliveredAlone => 2,
            Fate::DeliveredMerged => 3,
            Fate::Subsumed => 4,
            Fate::Outranked => 5,
            Fate::Unaccounted => 6,
            Fate::Withheld => 7,
            Fate::Dropped(reason) => FATES.len() as u8 + reason as u8,
        }
    }

    #[inline]
    pub(crate) fn coded(code: u8) -> Fate {
        let dropped = || Fate::Dropped(Reason::ALL[usize::from(code) - FATES.len()]);
        FATES.get(usize::from(code)).copied().unwrap_or_else(dropped)
    }

    /// Names of fates in tables, in the order of their codes there; drops are told apart by their reasons.
    pub const NAMES: [&'static str; 8] = [
        "withheld",
        "in_flight",
        "delivered_alone",
        "delivered_merged",
        "subsumed",
        "outranked",
        "dropped",
        "unaccounted",
    ];

    /// Its code in tables: the place of its name.
    pub fn place(self) -> u8 {
        match self {
            Fate::Withheld => 0,
            Fate::InFlight => 1,
            Fate::DeliveredAlone => 2,
            Fate::DeliveredMerged => 3,
            Fate::Subsumed => 4,
            Fate::Outranked => 5,
            Fate::Dropped(_) => 6,
            Fate::Unaccounted => 7,
        }
    }
}

/// Returns whether `cluster` is one of updates rather than of background traffic.
#[inline]
pub fn is_update(cluster: u16) -> bool {
    cluster != NO_CLUSTER
}

/// What is called for a row of `received`: the packets, the row, its packet if that is known, and the updates that it delivered.
pub(crate) type Delivered<'a> = &'a mut dyn FnMut(&PacketTable, usize, Option<u32>, &[u32]);

/// How a packet ended: when, and in which packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) t_ps: i64,
    pub(crate) carrier: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(crate) packets: PacketTable,
    family: Family,
    keyed: Keyed,
    /// Time in devices, from arrival to departure, one entry per packet and device passed, in ps.
    pub(crate) device_ps: NumberList,
    /// Deliveries of a packet that had been delivered before.
    pub(crate) duplicates: u64,
    /// Statements of the records that contradict each other, in updates.
    pub(crate) contradictions: u64,
    /// Members of the packet that was delivered last.
    members: Vec<u32>,
    /// How each packet ended, by number; kept on request.
    ends: Option<Vec<End>>,
    /// When it is.
    now: i64,
}

impl Resolver {
    /// The packets are all read.
    pub(crate) fn new(packets: PacketTable, family: Family) -> Resolver {
        let contradictions = packets.twice();
        Resolver {
            packets,
            family,
            keyed: Keyed::default(),
            device_ps: NumberList::default(),
            duplicates: 0,
            contradictions,
            members: Vec::new(),
            ends: None,
            now: 0,
        }
    }

    /// Keeps how packets end.
    pub(crate) fn with_ends(self) -> Resolver {
        let none = End { t_ps: 0, carrier: NOWHERE };
        Resolver { ends: Some(vec![none; self.packets.numbers()]), ..self }
    }

    /// How a packet ended; none of those that are in flight, and if it is not known.
    pub(crate) fn end_of(&self, packet: u32) -> Option<End> {
        let open = matches!(self.packets.fate(packet), Fate::InFlight | Fate::Withheld);
        self.ends.as_ref()?.get(packet as usize).filter(|end| !open && end.carrier != NOWHERE).copied()
    }

    /// The packet called `id`; being mentioned proves that it was sent.
    #[inline]
    fn find(&mut self, id: u64) -> Option<u32> {
        let packet = self.packets.number(id);
        match packet {
            Some(packet) => self.packets.mention(packet),
            None => self.contradictions += 1,
        }
        packet
    }

    /// The same of a packet that arrived: one without a name contradicts nothing.
    fn named(&mut self, id: u64) -> Option<u32> {
        if id == NO_PACKET { None } else { self.find(id) }
    }

    /// The transmission that a result holds of the packet it is known by: the one that has as many members as it, else the first that is
    /// under way (the rule of the ledger, `replay/engine/src/ledger/results.rs`).
    fn sent_as(&self, id: u64, count: u16) -> u64 {
        let known = PacketId(id);
        let attempts = known.attempt()..=self.packets.last_attempt().max(known.attempt());
        let attempts = attempts.map(|attempt| PacketId::new(known.worker(), known.seq(), attempt).0);
        let mut lone = None;
        for attempt in attempts {
            let Some(packet) = self.packets.number(attempt).filter(|packet| self.packets.state(*packet) == State::Open)
            else {
                continue;
            };
            if self.circle(packet).count() == usize::from(count) {
                return attempt;
            }
            lone.get_or_insert(attempt);
        }
        lone.unwrap_or(id)
    }

    /// The packets that travel with `packet`, which is the first of them.
    fn circle(&self, packet: u32) -> impl Iterator<Item = u32> + '_ {
        let next = move |at: &u32| Some(self.packets.next(*at)).filter(|next| *next != packet);
        std::iter::successors(Some(packet), next)
    }

    /// What devices did.
    pub(crate) fn read_books(&mut self, books: &BookColumns) {
        for row in 0..books.t_ps.len() {
            let Some(packet) = self.find(books.packet_in[row]) else { continue };
            let other = match books.packet_out[row] {
                NO_PACKET => None,
                id => self.find(id),
            };
            let here = (books.node[row], books.t_ps[row]);
            self.now = here.1;
            self.packets.arrive(packet, here);
            if let Some(other) = other {
                self.packets.arrive(other, here);
            }
            // Codes were checked when the file was read.
            match Action::ALL[usize::from(books.action[row])] {
                // Said of a sum by the device that goes on with it.
                Action::Arrived if other == Some(packet) => {
                    self.contradictions += u64::from(!self.keyed.taken_over(packet as usize, here.0));
                }
                Action::Queued | Action::Bypassed | Action::Arrived => {}
                Action::Departed => self.depart(packet, here),
                Action::Merged => self.merge(packet, other, here.0),
                Action::Subsumed => self.end(packet, Fate::Subsumed),
                Action::Outranked => self.end(packet, Fate::Outranked),
                Action::Dropped => match Reason::ALL[usize::from(books.reason[row])] {
                    Reason::DeviceLost if self.keyed.lost(packet as usize, here.0) => {}
                    reason => self.end(packet, Fate::Dropped(reason)),
                },
            }
        }
    }

    /// All books are read.
    pub(crate) fn close_books(&mut self) {
        self.keyed.close();
    }

    fn depart(&mut self, packet: u32, here: (u16, i64)) {
        if let Some(since) = self.packets.depart(packet)
            && self.packets.is_update(packet)
        {
            self.device_ps.push(here.1.saturating_sub(since));
        }
        self.keyed.departed(packet as usize, here.0);
    }

    fn merge(&mut self, packet: u32, other: Option<u32>, node: u16) {
        self.revive(packet);
        match other {
            Some(other) if other == packet || self.keyed.is_opener(other as usize) => self.add(packet, other, node),
            Some(other) if self.is_open(packet) && self.is_open(other) => {
                self.packets.join(other, packet);
                self.packets.set_state(packet, State::Joined);
            }
            Some(_) => self.contradictions += 1,
            // The unknown id was counted when it was looked up.
            None => {}
        }
    }

    fn is_open(&self, packet: u32) -> bool {
        self.packets.state(packet) == State::Open
    }

    /// `packet` is added, by key, to the sum that `opener` opened.
    fn add(&mut self, packet: u32, opener: u32, node: u16) {
        let again = match self.packets.state(packet) {
            State::Open => false,
            State::Joined => !self.keyed.is_elsewhere(packet as usize, node),
            State::Absent | State::Delivered | State::Ended => return self.contradictions += 1,
        };
        let packets = self.packets.numbers();
        let added = self.keyed.add(packet as usize, opener as usize, node, again, packets);
        self.contradictions += u64::from(!added);
        self.packets.set_state(packet, State::Joined);
        self.packets.set_fate(packet, Fate::InFlight);
    }

    fn settle_one(&mut self, member: u32, fate: Fate, carrier: u32) {
        self.packets.set_fate(member, fate);
        if let Some(ends) = &mut self.ends {
            ends[member as usize] = End { t_ps: self.now, carrier };
        }
    }

    /// Gives all that travel with `packet` the fate `fate`.
    fn settle(&mut self, packet: u32, fate: Fate) {
        let mut member = packet;
        loop {
            self.settle_one(member, fate, packet);
            member = self.packets.next(member);
            if member == packet {
                break;
            }
        }
    }

    /// What was dropped may have been a copy: then the packet itself goes on.
    fn revive(&mut self, packet: u32) {
        if self.packets.state(packet) == State::Ended && self.may_be_copy(self.packets.fate(packet)) {
            self.packets.set_state(packet, State::Open);
        }
    }

    fn may_be_copy(&self, fate: Fate) -> bool {
        // Networks may copy packets with pairs, and a drop that may be of a copy says nothing of the original.
        self.family == Family::Pairs && matches!(fate, Fate::Dropped(reason) if reason.may_be_copy())
    }

    fn end(&mut self, packet: u32, fate: Fate) {
        if self.is_open(packet) {
            self.settle(packet, fate);
            self.packets.set_state(packet, State::Ended);
        } else if !self.may_be_copy(fate) {
            self.contradictions += 1;
        }
    }

    /// What the server received. Calls `each` for every row with its packet, if that is known, and the updates that it delivered.
    pub(crate) fn read_received(&mut self, received: &ReceivedColumns, unseen: Option<&Unseen>, each: Delivered) {
        for row in 0..received.packet.len() {
            self.members.clear();
            self.now = received.t_recv_ps[row];
            let packet = match unseen {
                Some(unseen) => self.arrived(received, row, unseen),
                None => self.received(received, row),
            };
            each(&self.packets, row, packet, &self.members);
        }
    }

    fn received(&mut self, received: &ReceivedColumns, row: usize) -> Option<u32> {
        let (id, count) = (received.packet[row], received.count[row]);
        let packet = match self.family {
            // A result does not say which transmission of a packet is in it.
            Family::Results => self.named(self.sent_as(id, count)),
            Family::Updates | Family::Pairs => self.named(id),
        }?;
        if !self.keyed.is_opener(packet as usize) {
            self.deliver(packet, count, is_update(received.cluster[row]));
        } else if received.last[row] {
            self.deliver_sum(packet);
        }
        Some(packet)
    }

    /// A worker has all of a sum by key.
    fn deliver_sum(&mut self, opener: u32) {
        let Some(members) = self.keyed.deliver(opener as usize) else { return self.contradictions += 1 };
        self.members.extend_from_slice(members);
        let fate = if self.members.len() == 1 { Fate::DeliveredAlone } else { Fate::DeliveredMerged };
        for at in 0..self.members.len() {
            self.settle_one(self.members[at], fate, opener);
        }
    }

    fn deliver(&mut self, packet: u32, count: u16, update: bool) {
        self.revive(packet);
        match self.packets.state(packet) {
            State::Open => {}
            State::Delivered => return self.duplicates += 1,
            State::Absent | State::Joined | State::Ended => return self.contradictions += 1,
        }
        let alone = self.packets.next(packet) == packet;
        self.settle(packet, if alone { Fate::DeliveredAlone } else { Fate::DeliveredMerged });
        self.packets.set_state(packet, State::Delivered);
        let mut members = std::mem::take(&mut self.members);
        members.extend(self.circle(packet));
        // What the packet says about itself must be what the books say; background says nothing, nor does a part of a sum.
        if update && count > 0 {
            self.contradictions += (members.len() as u64).abs_diff(u64::from(count));
        }
        self.members = members;
    }

    /// All is read: what is not known by now will not be.
    pub(crate) fn finish(&mut self, unseen: bool) {
        if unseen {
            for number in 0..self.packets.numbers() as u32 {
                if self.packets.state(number) != State::Absent && self.packets.fate(number) == Fate::InFlight {
                    self.packets.set_fate(number, Fate::Unaccounted);
                }
            }
            return;
        }
        for member in self.keyed.lost_members() {
            self.packets.set_fate(member, Fate::Dropped(Reason::DeviceLost));
        }
    }
}

#[cfg(test)]
#[path = "fates_tests.rs"]
mod tests;
