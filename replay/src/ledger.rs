//! Where every update went, and whether every sum is right.
//!
//! The ledger sees what workers sent, what devices wrote in their books and what the server received,
//! in the order of events. It keeps the members of every packet under way, recomputes every
//! aggregate from the sent gradients in the books' order, and counts fates per worker. It looks at
//! a payload only once: to compare it, bit for bit, with its own sum.

mod black_box;
mod goal;
mod pairs;
mod result;
mod table;
mod unnamed;

use pktgen_generator::record::{Action, Balance, Book, PacketId, Reason, SumOk};
use pktgen_generator::wire::olaf;

use crate::endpoint::{Content, Error};

use black_box::BlackBox;
pub use goal::Goal;
pub use pairs::Exactness;
use table::Table;

/// No member.
const END: u32 = u32::MAX;

/// A packet under way: the chain of its members.
#[derive(Debug, Clone, Copy)]
struct Group {
    first: u32,
    last: u32,
    count: u32,
    elements: u16,
    /// Sums cannot be followed: members have different lengths.
    broken: bool,
}

/// Fates of one worker's updates.
#[derive(Debug, Clone, Copy, Default)]
struct Fates {
    generated: u64,
    withheld: u64,
    retransmitted: u64,
    sent: u64,
    alone: u64,
    merged: u64,
    subsumed: u64,
    outranked: u64,
    dropped: [u64; Reason::ALL.len()],
    in_flight: u64,
    unaccounted: u64,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Delivered,
    Subsumed,
    Outranked,
    Dropped(Reason),
    InFlight,
}

/// The account of a run.
pub struct Ledger {
    groups: Table<Group>,
    /// Members: packet and next of the chain; the index is also where their gradients are.
    members: Vec<PacketId>,
    next: Vec<u32>,
    free: Vec<u32>,
    values: Vec<f32>,
    stride: usize,
    fates: Vec<Fates>,
    /// What the run wants to reach, if anything.
    goal: Option<Goal>,
    /// What contributions to results are, in synchronous aggregation: nothing is kept of them then.
    content: Option<Box<dyn Content>>,
    /// What left devices, by worker, where names do not reach the server.
    departed: Option<unnamed::Departed>,
    /// Pairs that are summed by key, in sparse training.
    sparse: Option<pairs::Sparse>,
    /// Room for a sum of contributions, and for the members that it is of.
    sums: Vec<i32>,
    under_way: Vec<PacketId>,
    /// Errors of scaling.
    error: Error,
    /// Rows that speak of packets that are not under way.
    strangers: u64,
    /// The device keeps no books.
    black_box: Option<Box<BlackBox>>,
}

impl Ledger {
    /// For `workers` workers whose updates have at most `elements` gradients; 0 keeps no sums.
    pub fn new(workers: usize, elements: usize, goal: Option<Goal>) -> Self {
        Ledger {
            groups: Table::new(workers),
            members: Vec::new(),
            next: Vec::new(),
            free: Vec::new(),
            values: Vec::new(),
            stride: elements,
            fates: vec![Fates::default(); workers],
            goal,
            content: None,
            departed: None,
            sparse: None,
            sums: Vec::new(),
            under_way: Vec::new(),
            error: Error::default(),
            strangers: 0,
            black_box: None,
        }
    }

    /// For `workers` workers whose contributions are integers, as `content` says.
    pub fn of_results(workers: usize, content: Box<dyn Content>) -> Self {
        let sums = vec![0; content.elements()];
        Ledger { content: Some(content), sums, ..Ledger::new(workers, 0, None) }
    }

    /// Can it make contributions again by itself?
    pub fn knows_content(&self) -> bool {
        self.content.is_some() || self.sparse.is_some()
    }

    /// A worker generated an update and keeps it back.
    pub fn withheld(&mut self, worker: u32) {
        let fates = &mut self.fates[worker as usize];
        fates.generated += 1;
        fates.withheld += 1;
    }

    /// A further attempt was due and was kept back.
    pub fn withheld_again(&mut self, worker: u32) {
        let fates = &mut self.fates[worker as usize];
        fates.retransmitted += 1;
        fates.withheld += 1;
    }

    /// An update left its worker, with these gradients (little-endian f32s).
    #[inline]
    pub fn sent(&mut self, packet: PacketId, gradients: &[u8]) {
        let worker = packet.worker();
        let fates = &mut self.fates[worker as usize];
        let again = u64::from(packet.attempt() > 0);
        fates.generated += 1 - again;
        fates.retransmitted += again;
        fates.sent += 1;
        if let Some(sparse) = &mut self.sparse {
            self.strangers += u64::from(!sparse.sent(packet));
            return;
        }
        let member = match self.free.pop() {
            Some(member) => member,
            None => {
                self.members.push(packet);
                self.next.push(END);
                self.values.resize(self.values.len() + self.stride, 0.0);
                (self.members.len() - 1) as u32
            }
        };
        self.members[member as usize] = packet;
        self.next[member as usize] = END;
        let start = member as usize * self.stride;
        let room = &mut self.values[start..start + self.stride];
        let (numbers, _) = gradients.as_chunks::<4>();
        for (value, bytes) in room.iter_mut().zip(numbers) {
            *value = f32::from_le_bytes(*bytes);
        }
        let elements = numbers.len().min(self.stride) as u16;
        let group = Group { first: member, last: member, count: 1, elements, broken: false };
        if !self.groups.insert(packet, group) {
            self.strangers += 1;
        }
    }

    /// A device wrote this row.
    #[inline]
    pub fn book(&mut self, row: &Book) {
        if let Some(sparse) = &mut self.sparse {
            let known = match (row.action, row.packet_out) {
                (Action::Merged, Some(opener)) => sparse.merged(row.packet_in, opener, row.node, &mut self.fates),
                (Action::Dropped, _) => {
                    let reason = row.reason.unwrap_or(Reason::Malformed);
                    sparse.dropped(row.packet_in, reason, row.node, &mut self.fates)
                }
                (Action::Arrived, Some(opener)) => sparse.taken_over(opener, row.node),
                (Action::Departed, _) => {
                    sparse.departed(row.packet_in, row.node);
                    true
                }
                (Action::Queued | Action::Bypassed | Action::Arrived, _) => true,
                _ => false,
            };
            self.strangers += u64::from(!known);
            return;
        }
        match row.action {
            Action::Departed => self.leaves(row.packet_in),
            Action::Queued | Action::Bypassed | Action::Arrived => {}
            Action::Merged => self.merge(row),
            Action::Subsumed => self.end(row.packet_in, Fate::Subsumed),
            Action::Outranked => self.end(row.packet_in, Fate::Outranked),
            Action::Dropped => self.end(row.packet_in, Fate::Dropped(row.reason.unwrap_or(Reason::Malformed))),
        }
    }

    /// `packet_in`'s members join `packet_out`; their sums add up.
    fn merge(&mut self, row: &Book) {
        let (Some(part), Some(out)) = (self.groups.remove(row.packet_in), row.packet_out) else {
            self.strangers += 1;
            return;
        };
        let Some(sum) = self.groups.get_mut(out) else {
            self.strangers += 1;
            return;
        };
        // A group's sum is kept where its first member's gradients were.
        let (a, b) = (sum.first as usize * self.stride, part.first as usize * self.stride);
        let (low, high) = self.values.split_at_mut(a.max(b));
        let (into, from) = if a < b { (&mut low[a..], &high[..]) } else { (&mut high[..], &low[b..]) };
        for (s, p) in into.iter_mut().zip(from).take(usize::from(sum.elements)) {
            *s += *p;
        }
        self.next[sum.last as usize] = part.first;
        sum.last = part.last;
        sum.count += part.count;
        sum.broken |= part.broken || part.elements != sum.elements;
    }

    /// A packet reached the server with these gradients; `count` is what its header says, `part` which part of an
    /// aggregate of many packets it is.
    #[inline]
    pub fn received(&mut self, packet: PacketId, count: u16, part: u32, gradients: &[u8]) -> SumOk {
        if self.sparse.is_some() {
            return self.received_pairs(packet, part, |bytes| bytes == gradients);
        }
        if self.content.is_some() {
            return self.received_result(packet, count, |sums| result::same(sums, gradients));
        }
        self.delivered(packet, count, |sum| {
            let (numbers, _) = gradients.as_chunks::<4>();
            numbers.len() == sum.len() && numbers.iter().zip(sum).all(|(bytes, value)| *bytes == value.to_le_bytes())
        })
    }

    /// The same, of gradients that only a digest is kept of.
    pub fn received_digest(&mut self, packet: PacketId, count: u16, part: u32, digest: u64) -> SumOk {
        if self.sparse.is_some() {
            return self.received_pairs(packet, part, |bytes| olaf::digest(bytes) == digest);
        }
        if self.content.is_some() {
            return self.received_result(packet, count, |sums| result::digest_of(sums) == digest);
        }
        self.delivered(packet, count, |sum| {
            let bytes: Vec<u8> = sum.iter().flat_map(|value| value.to_le_bytes()).collect();
            olaf::digest(&bytes) == digest
        })
    }

    fn received_pairs(&mut self, packet: PacketId, part: u32, same: impl Fn(&[u8]) -> bool) -> SumOk {
        // What is hot is summed, and nobody knows of whom.
        if self.black_box.is_some() && packet.seq() & 1 == 0 {
            return SumOk::Unknown;
        }
        let verdict = self.sparse.as_mut().and_then(|sparse| sparse.received(packet, part, same, &mut self.fates));
        self.strangers += u64::from(verdict.is_none());
        verdict.unwrap_or(SumOk::Unknown)
    }

    #[inline]
    fn delivered(&mut self, packet: PacketId, count: u16, same: impl FnOnce(&[f32]) -> bool) -> SumOk {
        if self.black_box.is_some() {
            return self.unseen_delivered(packet, count, same);
        }
        let Some(group) = self.groups.get_mut(packet) else {
            self.strangers += 1;
            return SumOk::Unknown;
        };
        let verdict = if self.stride == 0 || group.broken {
            SumOk::Unknown
        } else {
            let start = group.first as usize * self.stride;
            let sum = &self.values[start..start + usize::from(group.elements)];
            if u32::from(count) == group.count && same(sum) { SumOk::Yes } else { SumOk::No }
        };
        self.end(packet, Fate::Delivered);
        verdict
    }

    /// Gives every member of `packet` its fate.
    fn end(&mut self, packet: PacketId, fate: Fate) {
        let Some(group) = self.groups.remove(packet) else {
            self.strangers += 1;
            return;
        };
        let alone = group.count == 1;
        let mut member = group.first;
        while member != END {
            let packet = self.members[member as usize];
            if let (Some(goal), Fate::Delivered) = (&mut self.goal, fate) {
                goal.represented(packet);
            }
            self.fates[packet.worker() as usize].count(fate, alone);
            self.free.push(member);
            member = std::mem::replace(&mut self.next[member as usize], END);
        }
    }

    /// Ends the run: what is still under way is in flight. Returns the balance of each worker.
    pub fn close(&mut self) -> Vec<Balance> {
        if let Some(sparse) = &mut self.sparse {
            sparse.close(&mut self.fates);
        }
        for packet in self.groups.ids() {
            self.end(packet, Fate::InFlight);
        }
        self.close_unseen();
        self.fates.iter().map(Fates::balance).collect()
    }

    /// The goal, as far as it was reached.
    pub fn goal(&self) -> Option<&Goal> {
        self.goal.as_ref()
    }

    /// Rows that spoke of packets nobody sent, or that had already ended; 0 in a sound run.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }
}

impl Fates {
    /// One more packet with this fate.
    #[inline]
    fn count(&mut self, fate: Fate, alone: bool) {
        match fate {
            Fate::Delivered if alone => self.alone += 1,
            Fate::Delivered => self.merged += 1,
            Fate::Subsumed => self.subsumed += 1,
            Fate::Outranked => self.outranked += 1,
            Fate::Dropped(reason) => self.dropped[reason as usize] += 1,
            Fate::InFlight => self.in_flight += 1,
        }
    }

    fn balance(&self) -> Balance {
        let mut balance = Balance {
            generated: self.generated,
            withheld: self.withheld,
            retransmitted: self.retransmitted,
            sent: self.sent,
            delivered_alone: self.alone,
            delivered_merged: self.merged,
            subsumed: self.subsumed,
            outranked: self.outranked,
            in_flight: self.in_flight,
            unaccounted: self.unaccounted,
            ..Default::default()
        };
        for reason in Reason::ALL {
            balance.add_dropped(reason, self.dropped[reason as usize]);
        }
        balance.close();
        balance
    }
}

/// The sum of balances.
pub fn total(parts: &[Balance]) -> Balance {
    let mut sum = Balance::default();
    for part in parts {
        sum.generated += part.generated;
        sum.withheld += part.withheld;
        sum.retransmitted += part.retransmitted;
        sum.sent += part.sent;
        sum.delivered_alone += part.delivered_alone;
        sum.delivered_merged += part.delivered_merged;
        sum.subsumed += part.subsumed;
        sum.outranked += part.outranked;
        sum.in_flight += part.in_flight;
        sum.unaccounted += part.unaccounted;
        for (reason, n) in &part.dropped {
            *sum.dropped.entry(reason.clone()).or_default() += n;
        }
        sum.unknown += part.unknown;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn id(worker: u32) -> PacketId {
        PacketId::new(worker, 0, 0)
    }

    fn row(packet_in: PacketId, action: Action, packet_out: Option<PacketId>) -> Book {
        Book {
            t: 0,
            node: 0,
            packet_in,
            action,
            packet_out,
            reason: (action == Action::Dropped).then_some(Reason::QueueFull),
        }
    }

    #[test]
    fn members_inherit_the_fate_of_their_carrier() {
        let mut ledger = Ledger::new(4, 2, None);
        for worker in 0..4 {
            ledger.sent(id(worker), &bytes(&[worker as f32, 1.0]));
        }
        ledger.book(&row(id(0), Action::Merged, Some(id(1))));
        ledger.book(&row(id(1), Action::Merged, Some(id(2))));
        assert_eq!(ledger.received(id(2), 3, 0, &bytes(&[3.0, 3.0])), SumOk::Yes);
        ledger.book(&row(id(3), Action::Dropped, None));
        let balances = ledger.close();
        assert!(balances[..3].iter().all(|b| b.delivered_merged == 1 && b.unknown == 0));
        assert_eq!(balances[3].dropped_total(), 1);
        assert_eq!(ledger.strangers(), 0);
    }

    #[test]
    fn a_wrong_sum_count_or_stranger_is_seen() {
        let mut ledger = Ledger::new(3, 1, None);
        for worker in 0..3 {
            ledger.sent(id(worker), &bytes(&[1.0]));
        }
        assert_eq!(ledger.received(id(0), 1, 0, &bytes(&[1.0000001])), SumOk::No);
        assert_eq!(ledger.received(id(1), 2, 0, &bytes(&[1.0])), SumOk::No);
        assert_eq!(ledger.received(id(1), 1, 0, &bytes(&[1.0])), SumOk::Unknown);
        assert_eq!(ledger.strangers(), 1);
        let balance = total(&ledger.close());
        assert_eq!((balance.in_flight, balance.delivered_alone, balance.unknown), (1, 2, 0));
    }
}
