//! Determines how every packet ended: the ledger and the deliveries, read once and in order, move packets from state to state.
//!
//! Called by [`crate::resolved`], batch by batch. Fates are terminal (design §2.6): a member of an aggregate inherits
//! the fate of the packet that carries it. For tests, `crate::model` does the same over whole columns in a simple way.

mod table;
mod tally;
mod unseen;

use pktgen_core::index::NOWHERE;
use pktgen_core::record::{Action, Family, Manifest, NO_CLUSTER, PacketId, Reason};

use crate::column::NumberList;
use crate::columns::{BookColumns, NO_PACKET, ReceivedColumns};
use crate::keyed::Keyed;
use crate::packets::{PacketTable, State};

pub use table::{frame_bytes, frames};
pub(crate) use tally::Tallies;
pub use tally::{add, difference};
pub(crate) use unseen::Unseen;

/// How a packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Withheld by its worker.
    Withheld,
    /// No terminal event was recorded.
    InFlight,
    /// Delivered as the only member of its packet.
    DeliveredAlone,
    /// Delivered as a member of an aggregate.
    DeliveredMerged,
    /// Replaced by a newer update of the same worker.
    Subsumed,
    /// Discarded in favour of a higher reward.
    Outranked,
    /// Dropped.
    Dropped(Reason),
    /// Unknown: the device is hardware.
    Unaccounted,
}

/// Codes of fates other than drops, whose codes follow. The first stands for a packet without events.
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

    /// Names of fates in tables, in the order of their codes there; drops are distinguished by their reasons.
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

    /// Returns its code in tables: the index of its name.
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

/// Whether `cluster` denotes updates, not background traffic.
#[inline]
pub fn is_update(cluster: u16) -> bool {
    cluster != NO_CLUSTER
}

/// Called for each row of `received` with the packets, the row, its packet if known, and the updates in it, also if it had
/// delivered them before.
pub(crate) type Delivered<'a> = &'a mut dyn FnMut(&PacketTable, usize, Option<u32>, &[u32]);

/// When a packet ended, and in which packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) t_ps: i64,
    pub(crate) carrier: u32,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(crate) packets: PacketTable,
    family: Family,
    /// Whether ids of results are exact, as in virtual time.
    exact: bool,
    keyed: Keyed,
    /// Time in devices, from arrival to departure, one entry per packet and device passed, in ps.
    pub(crate) device_ps: NumberList,
    /// Deliveries of a packet that had been delivered before.
    pub(crate) duplicates: u64,
    /// Updates for which the records contradict each other.
    pub(crate) contradictions: u64,
    /// Members of the most recent arrival.
    members: Vec<u32>,
    /// How each packet ended, by number; recorded on request.
    ends: Option<Vec<End>>,
    /// Time of the current event.
    now: i64,
}

impl Resolver {
    /// Creates a resolver after all packets have been read; `exact` says whether results name their transmissions.
    pub(crate) fn new(packets: PacketTable, family: Family, exact: bool) -> Resolver {
        let contradictions = packets.twice();
        Resolver {
            packets,
            family,
            exact,
            keyed: Keyed::default(),
            device_ps: NumberList::default(),
            duplicates: 0,
            contradictions,
            members: Vec::new(),
            ends: None,
            now: 0,
        }
    }

    /// Creates a resolver of a run.
    pub(crate) fn of(packets: PacketTable, manifest: &Manifest) -> Resolver {
        Resolver::new(packets, manifest.family(), !manifest.is_real_time())
    }

    /// Enables recording of how packets end.
    pub(crate) fn with_ends(self) -> Resolver {
        let none = End { t_ps: 0, carrier: NOWHERE };
        Resolver { ends: Some(vec![none; self.packets.numbers()]), ..self }
    }

    /// Returns how a packet ended; `None` if it is in flight or unknown.
    pub(crate) fn end_of(&self, packet: u32) -> Option<End> {
        let open = matches!(self.packets.fate(packet), Fate::InFlight | Fate::Withheld);
        self.ends.as_ref()?.get(packet as usize).filter(|end| !open && end.carrier != NOWHERE).copied()
    }

    /// Returns the packet with `id`; an event proves that it was sent.
    #[inline]
    fn find(&mut self, id: u64) -> Option<u32> {
        let packet = self.packets.number(id);
        match packet {
            Some(packet) => self.packets.mention(packet),
            None => self.contradictions += 1,
        }
        packet
    }

    /// Returns the same for a packet that arrived: one without an id is not a contradiction.
    fn named(&mut self, id: u64) -> Option<u32> {
        if id == NO_PACKET { None } else { self.find(id) }
    }

    /// Returns the transmission contained in a result that is known by the id of a packet: the one with as many members
    /// as the result, or else the first in flight (the rule of the ledger, `replay/engine/src/ledger/results.rs`).
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

    /// Returns the packets that travel with `packet`, beginning with it.
    fn circle(&self, packet: u32) -> impl Iterator<Item = u32> + '_ {
        let next = move |at: &u32| Some(self.packets.next(*at)).filter(|next| *next != packet);
        std::iter::successors(Some(packet), next)
    }

    /// Processes events in devices.
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
                // A device records this for a sum that it takes over.
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

    /// Ends the events in devices.
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

    /// Adds `packet` to the sum by key opened by `opener`.
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
        // A drop before was that of a copy.
        if let Some(ends) = &mut self.ends {
            ends[packet as usize].carrier = NOWHERE;
        }
    }

    fn settle_one(&mut self, member: u32, fate: Fate, carrier: u32) {
        self.packets.set_fate(member, fate);
        if let Some(ends) = &mut self.ends {
            ends[member as usize] = End { t_ps: self.now, carrier };
        }
    }

    /// Gives `packet` and all packets that travel with it the fate `fate`.
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

    /// Reopens a packet whose drop may have been that of a copy.
    fn revive(&mut self, packet: u32) {
        if self.packets.state(packet) == State::Ended && self.may_be_copy(self.packets.fate(packet)) {
            self.packets.set_state(packet, State::Open);
        }
    }

    fn may_be_copy(&self, fate: Fate) -> bool {
        // Networks may copy packets with pairs, and a drop that may be that of a copy does not end the original.
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

    /// Processes arrivals at the server. Calls `each` for every row with its packet, if known, and the updates in it.
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
            // On a wire a result does not contain which transmission of a packet it includes.
            Family::Results if !self.exact => self.named(self.sent_as(id, count)),
            Family::Results | Family::Updates | Family::Pairs => self.named(id),
        }?;
        if !self.keyed.is_opener(packet as usize) {
            // A wrong sum is a fault of its own, also if it has another number of members.
            self.deliver(packet, count, is_update(received.cluster[row]) && !received.wrong[row]);
        } else if received.last[row] {
            self.deliver_sum(packet);
        }
        Some(packet)
    }

    /// Records that a worker has received all of a sum by key.
    fn deliver_sum(&mut self, opener: u32) {
        let Some(members) = self.keyed.deliver(opener as usize) else { return self.contradictions += 1 };
        self.members.extend_from_slice(members);
        let fate = if self.members.len() == 1 { Fate::DeliveredAlone } else { Fate::DeliveredMerged };
        for at in 0..self.members.len() {
            self.settle_one(self.members[at], fate, opener);
        }
    }

    fn deliver(&mut self, packet: u32, count: u16, counted: bool) {
        self.revive(packet);
        match self.packets.state(packet) {
            State::Open => {}
            State::Delivered => {
                self.duplicates += 1;
                return self.carry(packet);
            }
            State::Absent | State::Joined | State::Ended => return self.contradictions += 1,
        }
        let alone = self.packets.next(packet) == packet;
        self.settle(packet, if alone { Fate::DeliveredAlone } else { Fate::DeliveredMerged });
        self.packets.set_state(packet, State::Delivered);
        self.carry(packet);
        // A count must match the ledger; background traffic and parts of sums have none.
        if counted && count > 0 {
            self.contradictions += (self.members.len() as u64).abs_diff(u64::from(count));
        }
    }

    /// Lists the members of an arrival: its packet and all that travel with it.
    fn carry(&mut self, packet: u32) {
        let mut members = std::mem::take(&mut self.members);
        members.extend(self.circle(packet));
        self.members = members;
    }

    /// Ends all input: whatever is unknown now stays unknown.
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
