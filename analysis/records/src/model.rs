//! Fates of all packets, computed over whole columns in memory: the simple model that [`crate::fates`] is tested against.
//!
//! Called only by tests and [`crate::testing`].

#[cfg(test)]
mod unseen;

use pktgen_core::record::{Action, Balance, Family, PacketId, Reason};

use crate::fates::{Fate, is_update};
use crate::keyed::Keyed;
use crate::run::{NO_PACKET, Records};
use pktgen_core::index::{self, Index, NOWHERE};

/// Fates of all packets of a run. A "packet" is a row number in `sent`.
#[derive(Debug, Clone, Default)]
pub struct Fates {
    /// The fate of each packet.
    pub fate: Vec<Fate>,
    /// Whether it is a later attempt of an update.
    pub repeated: Vec<bool>,
    /// The packet of each row of `received`; `u32::MAX` if no worker sent it.
    pub received_packet: Vec<u32>,
    /// Where the members of each row of `received` start in [`Fates::members`]; one longer than the rows.
    pub member_start: Vec<usize>,
    /// Members of received packets, also of those that had been delivered before.
    pub members: Vec<u32>,
    /// Time in devices, from arrival to departure, one entry per packet and device passed, in ps.
    pub device_latency_ps: Vec<i64>,
    /// Deliveries of a packet that had been delivered before.
    pub duplicates: u64,
    /// Updates for which the records contradict each other.
    pub contradictions: u64,
}

impl Fates {
    /// Resolves the fates of `records`.
    pub fn resolve(records: &Records) -> Fates {
        Fates::resolve_as(records, if has_sums_by_key(records) { Family::Pairs } else { Family::Updates }, true)
    }

    /// Resolves the fates of a run whose account is about `family`; `exact` says whether results name their transmissions.
    pub(crate) fn resolve_as(records: &Records, family: Family, exact: bool) -> Fates {
        let mut resolver = Resolver::new(records, family, exact);
        resolver.read_books(records);
        resolver.read_received(records);
        resolver.fates
    }

    /// Returns the members of row `row` of `received`.
    pub fn members_of(&self, row: usize) -> &[u32] {
        &self.members[self.member_start[row]..self.member_start[row + 1]]
    }

    /// Returns the balance over all packets; contradictions of the records are `unknown`.
    pub fn balance(&self) -> Balance {
        self.balance_of(|_| true)
    }

    /// Returns the balance over the packets selected by `wanted`.
    pub(crate) fn balance_of(&self, wanted: impl Fn(usize) -> bool) -> Balance {
        let mut tally = Tally::default();
        for (packet, fate) in self.fate.iter().enumerate().filter(|(packet, _)| wanted(*packet)) {
            tally.add(*fate, self.repeated[packet]);
        }
        let mut balance = tally.close();
        balance.unknown += self.contradictions as i64;
        balance
    }
}

/// A balance under construction.
#[derive(Debug, Clone, Default)]
struct Tally {
    balance: Balance,
    dropped: [u64; Reason::ALL.len()],
}

impl Tally {
    fn add(&mut self, fate: Fate, repeated: bool) {
        let balance = &mut self.balance;
        *if repeated { &mut balance.retransmitted } else { &mut balance.generated } += 1;
        match fate {
            Fate::Withheld => balance.withheld += 1,
            Fate::InFlight => balance.in_flight += 1,
            Fate::DeliveredAlone => balance.delivered_alone += 1,
            Fate::DeliveredMerged => balance.delivered_merged += 1,
            Fate::Subsumed => balance.subsumed += 1,
            Fate::Outranked => balance.outranked += 1,
            Fate::Dropped(reason) => self.dropped[reason as usize] += 1,
            Fate::Unaccounted => balance.unaccounted += 1,
        }
    }

    fn close(self) -> Balance {
        let mut balance = self.balance;
        for reason in Reason::ALL {
            balance.add_dropped(reason, self.dropped[reason as usize]);
        }
        balance.sent = balance.generated + balance.retransmitted - balance.withheld;
        balance.close();
        balance
    }
}

/// Whether devices recorded sums by key. Those are opened by a packet that is merged into itself.
pub fn has_sums_by_key(records: &Records) -> bool {
    let books = &records.books;
    let itself = books.packet_in.iter().zip(&books.packet_out).zip(&books.action);
    itself.into_iter().any(|((packet, out), action)| packet == out && *action == Action::Merged as u8)
}

/// State of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It travels under its own id, with its members.
    Open,
    /// It is a member of another packet.
    Joined,
    /// It was delivered.
    Delivered,
    /// It ended in another way.
    Ended,
}

struct Resolver {
    index: Index,
    state: Vec<State>,
    /// Members of each open packet as a linked list (first, last, next), so that merging is one link.
    first: Vec<u32>,
    last: Vec<u32>,
    next: Vec<u32>,
    /// Where and when each packet arrived at its present device.
    arrival: Vec<Option<(u16, i64)>>,
    /// Whether a packet is background traffic.
    plain: Vec<bool>,
    family: Family,
    /// Whether ids of results are exact, as in virtual time.
    exact: bool,
    keyed: Keyed,
    fates: Fates,
}

impl Resolver {
    fn new(records: &Records, family: Family, exact: bool) -> Resolver {
        let sent = &records.sent;
        let n = sent.worker.len();
        let mut index = index::with_room(n);
        let mut fates = Fates::default();
        for row in 0..n {
            let id = PacketId::new(sent.worker[row], sent.seq[row], sent.attempt[row]).0;
            // Two rows with one id cannot be distinguished later.
            fates.contradictions += u64::from(index.insert(id, row as u32).is_some());
        }
        fates.repeated = sent.attempt.iter().map(|attempt| *attempt > 0).collect();
        fates.fate = sent.t_sent_ps.iter().map(|t| if t.is_some() { Fate::InFlight } else { Fate::Withheld }).collect();
        Resolver {
            index,
            state: vec![State::Open; n],
            first: (0..n as u32).collect(),
            last: (0..n as u32).collect(),
            next: vec![NOWHERE; n],
            arrival: vec![None; n],
            plain: sent.cluster.iter().map(|cluster| !is_update(*cluster)).collect(),
            family,
            exact,
            keyed: Keyed::default(),
            fates,
        }
    }

    /// Returns the packet with `id`; an event proves that it was sent, regardless of its send time.
    fn find(&mut self, id: u64) -> Option<usize> {
        let packet = self.index.get(&id).map(|&packet| packet as usize);
        match packet {
            Some(packet) if self.fates.fate[packet] == Fate::Withheld => self.fates.fate[packet] = Fate::InFlight,
            Some(_) => {}
            None => self.fates.contradictions += 1,
        }
        packet
    }

    /// Returns the transmission contained in a result that is known by the id of a packet: the one with as many members
    /// as the result, or else the first in flight (the rule of the ledger, `replay/engine/src/ledger/results.rs`).
    fn sent_as(&self, id: u64, count: u16) -> u64 {
        let known = PacketId(id);
        let attempts = (known.attempt()..=u8::MAX).map(|attempt| PacketId::new(known.worker(), known.seq(), attempt).0);
        let under_way =
            attempts.filter(|id| self.index.get(id).is_some_and(|row| self.state[*row as usize] == State::Open));
        let mut lone = None;
        for attempt in under_way {
            let mut member = self.index.get(&attempt).map_or(NOWHERE, |row| self.first[*row as usize]);
            let mut members = 0;
            while member != NOWHERE {
                (member, members) = (self.next[member as usize], members + 1);
            }
            if members == u32::from(count) {
                return attempt;
            }
            lone.get_or_insert(attempt);
        }
        lone.unwrap_or(id)
    }

    /// Returns the same for a packet that arrived: one without an id is not a contradiction.
    fn named(&mut self, id: u64) -> Option<usize> {
        if id == NO_PACKET { None } else { self.find(id) }
    }

    fn read_books(&mut self, records: &Records) {
        let books = &records.books;
        for row in 0..books.t_ps.len() {
            let Some(packet) = self.find(books.packet_in[row]) else { continue };
            let other = match books.packet_out[row] {
                NO_PACKET => None,
                id => self.find(id),
            };
            let here = (books.node[row], books.t_ps[row]);
            self.arrive(packet, here);
            if let Some(other) = other {
                self.arrive(other, here);
            }
            // Codes were checked when the file was read.
            match Action::ALL[usize::from(books.action[row])] {
                // A device records this for a sum that it takes over.
                Action::Arrived if other == Some(packet) => {
                    self.fates.contradictions += u64::from(!self.keyed.taken_over(packet, here.0));
                }
                Action::Queued | Action::Bypassed | Action::Arrived => {}
                Action::Departed => self.depart(packet, here),
                Action::Merged => self.merge(packet, other, here.0),
                Action::Subsumed => self.end(packet, Fate::Subsumed),
                Action::Outranked => self.end(packet, Fate::Outranked),
                Action::Dropped => match Reason::ALL[usize::from(books.reason[row])] {
                    Reason::DeviceLost if self.keyed.lost(packet, here.0) => {}
                    reason => self.end(packet, Fate::Dropped(reason)),
                },
            }
        }
        self.keyed.close();
    }

    /// Records the arrival: the first event of a packet in a device is the arrival of its last bit.
    fn arrive(&mut self, packet: usize, here: (u16, i64)) {
        match self.arrival[packet] {
            Some((node, _)) if node == here.0 => {}
            _ => self.arrival[packet] = Some(here),
        }
    }

    fn depart(&mut self, packet: usize, here: (u16, i64)) {
        if let Some((_, since)) = self.arrival[packet].take()
            && !self.plain[packet]
        {
            self.fates.device_latency_ps.push(here.1.saturating_sub(since));
        }
        self.keyed.departed(packet, here.0);
    }

    fn merge(&mut self, packet: usize, other: Option<usize>, node: u16) {
        self.revive(packet);
        match other {
            Some(other) if other == packet || self.keyed.is_opener(other) => self.add(packet, other, node),
            Some(other) if self.state[packet] == State::Open && self.state[other] == State::Open => {
                self.next[self.last[other] as usize] = self.first[packet];
                self.last[other] = self.last[packet];
                self.state[packet] = State::Joined;
            }
            Some(_) => self.fates.contradictions += 1,
            // The unknown id was counted when it was looked up.
            None => {}
        }
    }

    /// Adds `packet` to the sum by key opened by `opener`.
    fn add(&mut self, packet: usize, opener: usize, node: u16) {
        let again = match self.state[packet] {
            State::Open => false,
            State::Joined => !self.keyed.is_elsewhere(packet, node),
            State::Delivered | State::Ended => return self.fates.contradictions += 1,
        };
        let packets = self.state.len();
        self.fates.contradictions += u64::from(!self.keyed.add(packet, opener, node, again, packets));
        (self.state[packet], self.fates.fate[packet]) = (State::Joined, Fate::InFlight);
    }

    /// Gives all members of `packet` the fate `fate`; returns their number.
    fn settle(&mut self, packet: usize, fate: Fate) -> usize {
        let (mut member, mut members) = (self.first[packet], 0);
        while member != NOWHERE {
            self.fates.fate[member as usize] = fate;
            members += 1;
            member = self.next[member as usize];
        }
        members
    }

    /// Reopens a packet whose drop may have been that of a copy.
    fn revive(&mut self, packet: usize) {
        if self.state[packet] == State::Ended && self.may_be_copy(self.fates.fate[packet]) {
            self.state[packet] = State::Open;
        }
    }

    fn may_be_copy(&self, fate: Fate) -> bool {
        // Networks may copy packets with pairs, and a drop that may be that of a copy does not end the original.
        self.family == Family::Pairs && matches!(fate, Fate::Dropped(reason) if reason.may_be_copy())
    }

    fn end(&mut self, packet: usize, fate: Fate) {
        if self.state[packet] == State::Open {
            self.settle(packet, fate);
            self.state[packet] = State::Ended;
        } else if !self.may_be_copy(fate) {
            self.fates.contradictions += 1;
        }
    }

    fn read_received(&mut self, records: &Records) {
        let received = &records.received;
        self.fates.member_start.push(0);
        for row in 0..received.packet.len() {
            let packet = match self.family {
                // On a wire a result does not contain which transmission of a packet it includes.
                Family::Results if !self.exact => self.named(self.sent_as(received.packet[row], received.count[row])),
                Family::Results | Family::Updates | Family::Pairs => self.named(received.packet[row]),
            };
            self.fates.received_packet.push(packet.map_or(NOWHERE, |packet| packet as u32));
            match packet {
                Some(packet) if !self.keyed.is_opener(packet) => {
                    let counted = is_update(received.cluster[row]) && !received.wrong[row];
                    self.deliver(packet, received.count[row], counted);
                }
                Some(packet) if received.last[row] => self.deliver_sum(packet),
                _ => {}
            }
            self.fates.member_start.push(self.fates.members.len());
        }
        for member in self.keyed.lost_members() {
            self.fates.fate[member as usize] = Fate::Dropped(Reason::DeviceLost);
        }
    }

    /// Records that a worker has received all of a sum by key.
    fn deliver_sum(&mut self, opener: usize) {
        let Some(members) = self.keyed.deliver(opener) else { return self.fates.contradictions += 1 };
        let fate = if members.len() == 1 { Fate::DeliveredAlone } else { Fate::DeliveredMerged };
        members.iter().for_each(|member| self.fates.fate[*member as usize] = fate);
        self.fates.members.extend_from_slice(members);
    }

    fn deliver(&mut self, packet: usize, count: u16, counted: bool) {
        self.revive(packet);
        match self.state[packet] {
            State::Open => {}
            State::Delivered => {
                self.fates.duplicates += 1;
                return self.carry(packet);
            }
            State::Joined | State::Ended => {
                self.fates.contradictions += 1;
                return;
            }
        }
        let alone = self.first[packet] == self.last[packet];
        let members = self.settle(packet, if alone { Fate::DeliveredAlone } else { Fate::DeliveredMerged });
        self.state[packet] = State::Delivered;
        // A count must match the ledger; background traffic, parts of sums and wrong sums have none.
        if counted && count > 0 {
            self.fates.contradictions += (members as u64).abs_diff(u64::from(count));
        }
        self.carry(packet);
    }

    /// Lists the members of an arrival.
    fn carry(&mut self, packet: usize) {
        let mut member = self.first[packet];
        while member != NOWHERE {
            self.fates.members.push(member);
            member = self.next[member as usize];
        }
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
