//! Updates: gradients that devices add up in their books' order. Each packet under way has a place for its sum, which
//! is reused when it has arrived or joined another, and is compared bit for bit with what arrives.

use std::collections::{HashMap, VecDeque};

use pktgen_core::record::{Book, PacketId, SumOk};
use pktgen_wire::wire::update;

use super::chains::{Chains, Group, Step};
use super::fates::{Fate, FateCounts};
use super::{DuePacket, Goal, PayloadValues, Receipt, below_cluster};

/// Number of packets of a worker that are compared first if ids are lost: twice as many as a cable usually loses in a row.
const LOOK: usize = 2048;

/// Packets that left devices, or workers whose device keeps no books, and have not arrived.
enum Departed {
    /// By worker, oldest first: the content of a packet may change while it is under way.
    InOrder(Vec<VecDeque<PacketId>>),
    /// By worker and digest, oldest first: no known event changes the content.
    ByContent(HashMap<(u32, u64), VecDeque<PacketId>>),
}

/// Digests of the header and, if sums are kept, of the gradients of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digests {
    pub head: u64,
    pub gradients: Option<u64>,
}

impl Digests {
    /// Returns one digest of both, with the cluster where that of the header has it; never 0.
    pub(super) fn both(self) -> u64 {
        (self.head ^ below_cluster(self.gradients.unwrap_or(0))) | 1
    }
}

/// The account of updates.
pub(super) struct Updates {
    chains: Chains,
    /// Sums of packets under way, by their place.
    values: Vec<f32>,
    stride: usize,
    /// Digests of these sums, by place, once computed and until the sum changes: 16 bytes for each packet that may be under way at once.
    digests: Vec<Option<u64>>,
    /// Digests of headers, by place, if they are compared.
    heads: Vec<u64>,
    /// The gradients of one packet.
    bytes: Vec<u8>,
    /// The goal of the run, if it has one.
    pub goal: Option<Goal>,
    /// Packets that left devices, if ids do not reach the server.
    departed: Option<Departed>,
}

impl Updates {
    /// The account of `workers` workers whose updates have at most `elements` gradients; 0 keeps no sums. `has_books`: devices keep books.
    pub(super) fn new(workers: usize, elements: usize, goal: Option<Goal>, named: bool, has_books: bool) -> Self {
        let departed = (!named).then(|| match has_books {
            true => Departed::InOrder(vec![VecDeque::new(); workers]),
            false => Departed::ByContent(HashMap::new()),
        });
        Updates {
            chains: Chains::new(workers),
            values: Vec::new(),
            stride: elements,
            digests: Vec::new(),
            heads: Vec::new(),
            bytes: Vec::new(),
            goal,
            departed,
        }
    }

    /// Returns whether packets reach the server without their ids.
    pub(super) fn is_nameless(&self) -> bool {
        self.departed.is_some()
    }

    #[inline]
    pub(super) fn fetch(&self, worker: u32) {
        self.chains.fetch(worker);
    }

    #[inline]
    pub(super) fn sent(&mut self, packet: PacketId, gradients: &[u8], counts: &mut FateCounts) {
        let (numbers, _) = gradients.as_chunks::<4>();
        let (place, fresh) = self.chains.open(packet, numbers.len().min(self.stride) as u16);
        let start = place as usize * self.stride;
        if self.values.len() < self.chains.places() * self.stride {
            self.values.resize(self.chains.places() * self.stride, 0.0);
        }
        for (value, bytes) in self.values[start..start + self.stride].iter_mut().zip(numbers) {
            *value = f32::from_le_bytes(*bytes);
        }
        self.changes(place);
        counts.stranger_if(!fresh);
    }

    /// Forgets the digest of a sum that changes.
    #[inline]
    fn changes(&mut self, place: u32) {
        if let Some(digest) = self.digests.get_mut(place as usize) {
            *digest = None;
        }
    }

    #[inline]
    pub(super) fn book(&mut self, row: &Book, counts: &mut FateCounts) {
        match Step::of(row) {
            Step::Stays => {}
            Step::Leaves => self.leaves(row.packet_in),
            Step::Joins(out) => match self.chains.join(row.packet_in, out) {
                Some((sum, part)) => self.add(sum, part),
                None => counts.strangers += 1,
            },
            Step::Ends(fate) => self.end(row.packet_in, fate, counts),
        }
    }

    /// Adds the sum of one group to another's.
    fn add(&mut self, sum: Group, part: Group) {
        let (a, b) = (sum.place as usize * self.stride, part.place as usize * self.stride);
        let (low, high) = self.values.split_at_mut(a.max(b));
        let (into, from) = if a < b { (&mut low[a..], &high[..]) } else { (&mut high[..], &low[b..]) };
        for (s, p) in into.iter_mut().zip(from).take(usize::from(sum.elements)) {
            *s += *p;
        }
        self.changes(sum.place);
    }

    /// Returns the sum of a group.
    #[inline]
    fn sum(&self, group: Group) -> &[f32] {
        let start = group.place as usize * self.stride;
        &self.values[start..start + usize::from(group.elements)]
    }

    #[inline]
    pub(super) fn received(&mut self, receipt: &Receipt, counts: &mut FateCounts) -> SumOk {
        let Some(group) = self.chains.group(receipt.packet) else {
            counts.strangers += 1;
            return SumOk::Unknown;
        };
        let verdict = if self.stride == 0 || group.broken {
            SumOk::Unknown
        } else {
            let right = u32::from(receipt.count) == group.count && receipt.carried.is_gradients(self.sum(group));
            SumOk::of(Some(right))
        };
        self.end(receipt.packet, Fate::Delivered, counts);
        verdict
    }

    /// Returns the expected content of a packet under way.
    pub(super) fn expected(&mut self, packet: PacketId) -> Option<DuePacket> {
        let group = self.chains.group(packet)?;
        let members = self.chains.members(group).collect();
        let values = match self.stride == 0 || group.broken {
            true => PayloadValues::Unkept,
            false => PayloadValues::Floats(self.sum(group).to_vec()),
        };
        Some(DuePacket { members, values })
    }

    /// Keeps the digest of the header of a packet that left its worker.
    pub(super) fn keep_head(&mut self, packet: PacketId, head: u64) {
        if head == 0 && self.heads.is_empty() {
            return;
        }
        let Some(group) = self.chains.group(packet) else { return };
        self.heads.resize(self.chains.places(), 0);
        self.heads[group.place as usize] = head;
    }

    /// Returns the digests of what was sent as a packet under way.
    pub(super) fn digests_of(&mut self, packet: PacketId) -> Option<Digests> {
        let place = self.chains.group(packet)?.place as usize;
        let gradients = if self.stride > 0 { self.digest_of(packet) } else { None };
        Some(Digests { head: self.heads.get(place).copied().unwrap_or(0), gradients })
    }

    /// Returns the digests of a received packet.
    pub(super) fn digests_in(&self, receipt: &Receipt) -> Digests {
        Digests { head: receipt.head, gradients: (self.stride > 0).then(|| receipt.carried.digest()) }
    }

    /// Records that a packet leaves a device, or a worker whose device keeps no books.
    #[inline]
    pub(super) fn leaves(&mut self, packet: PacketId) {
        match &mut self.departed {
            None => {}
            Some(Departed::InOrder(all)) => {
                if let Some(own) = all.get_mut(packet.worker() as usize) {
                    own.push_back(packet);
                }
            }
            Some(Departed::ByContent(_)) => {
                let digest = self.digest_of(packet);
                if let (Some(digest), Some(Departed::ByContent(all))) = (digest, &mut self.departed) {
                    all.entry((packet.worker(), digest)).or_default().push_back(packet);
                }
            }
        }
    }

    /// Returns the packet that arrived, given the worker of its newest member and the digest of its gradients: the first packet of that
    /// worker that left the device with the same content, bit for bit; `None` if there is none, and what left stays under way.
    pub(super) fn known_as(&mut self, worker: u32, digest: u64) -> Option<PacketId> {
        let mut own = match self.departed.as_mut()? {
            Departed::ByContent(all) => {
                let own = all.get_mut(&(worker, digest))?;
                let packet = own.pop_front();
                if own.is_empty() {
                    all.remove(&(worker, digest));
                }
                return packet;
            }
            Departed::InOrder(all) => std::mem::take(all.get_mut(worker as usize)?),
        };
        let mut found = own.iter().take(LOOK).position(|packet| self.digest_of(*packet) == Some(digest));
        if found.is_none() {
            // Behind more than that in a row.
            found =
                own.iter().skip(LOOK).position(|packet| self.digest_of(*packet) == Some(digest)).map(|at| at + LOOK);
        }
        let packet = found.and_then(|at| own.remove(at));
        // What so many have overtaken is lost, and must not use up the reach of those after it.
        own.drain(..found.map_or(0, |at| at.saturating_sub(LOOK / 2)));
        if let Some(Departed::InOrder(all)) = &mut self.departed {
            all[worker as usize] = own;
        }
        packet
    }

    /// Returns the digest of a packet under way, if known. A lost packet is compared with each arrival behind it.
    fn digest_of(&mut self, packet: PacketId) -> Option<u64> {
        let group = self.chains.group(packet).filter(|group| !group.broken)?;
        let place = group.place as usize;
        if let Some(Some(digest)) = self.digests.get(place) {
            return Some(*digest);
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes.extend(self.sum(group).iter().flat_map(|value| value.to_le_bytes()));
        let digest = update::digest(&bytes);
        self.bytes = bytes;
        if self.digests.len() < self.chains.places() {
            self.digests.resize(self.chains.places(), None);
        }
        self.digests[place] = Some(digest);
        Some(digest)
    }

    /// Records the arrival of a packet without id. Returns the verdict and, if known, its id and the number of represented updates.
    pub(super) fn received_unnamed(
        &mut self,
        worker: u32,
        digest: u64,
        counts: &mut FateCounts,
    ) -> (SumOk, Option<(PacketId, u16)>) {
        let Some(packet) = self.known_as(worker, digest) else { return (SumOk::Unknown, None) };
        let count = self.chains.group(packet).map_or(0, |group| group.count);
        self.end(packet, Fate::Delivered, counts);
        (SumOk::Yes, Some((packet, u16::try_from(count).unwrap_or(u16::MAX))))
    }

    /// Counts a fate for every member of `packet`.
    pub(super) fn end(&mut self, packet: PacketId, fate: Fate, counts: &mut FateCounts) {
        let goal = &mut self.goal;
        let known = self.chains.end(packet, |member, alone| {
            if let (Some(goal), Fate::Delivered) = (&mut *goal, fate) {
                goal.represented(member);
            }
            counts.by_worker[member.worker() as usize].count(fate, alone);
        });
        counts.stranger_if(!known);
    }

    /// Counts one transmission as delivered.
    pub(super) fn deliver_one(&mut self, packet: PacketId, alone: bool, counts: &mut FateCounts) {
        self.chains.end(packet, |member, _| counts.of(member).count(Fate::Delivered, alone));
    }

    pub(super) fn close(&mut self, counts: &mut FateCounts) {
        for packet in self.chains.ids() {
            self.end(packet, Fate::InFlight, counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::Action;

    use super::super::{Evidence, Ledger, Subject};
    use super::*;

    fn id(worker: u32, seq: u32) -> PacketId {
        PacketId::new(worker, seq, 0)
    }

    fn bytes(value: f32) -> Vec<u8> {
        value.to_le_bytes().to_vec()
    }

    fn book(packet_in: PacketId, action: Action, packet_out: Option<PacketId>) -> Book {
        Book { t: 0, node: 0, packet_in, action, packet_out, reason: None }
    }

    /// Worker 0 sends 1, 2, 3 and worker 1 sends 10; 2 and 10 are merged.
    fn ledger() -> Ledger {
        let subject = Subject::Updates { elements: 1, goal: None, named: false };
        let mut ledger = Ledger::open(2, subject, Evidence::Books);
        for (packet, value) in [(id(0, 0), 1.0), (id(0, 1), 2.0), (id(1, 0), 10.0), (id(0, 2), 3.0)] {
            ledger.sent(packet, None, &bytes(value));
        }
        ledger.book(&book(id(0, 0), Action::Departed, None));
        ledger.book(&book(id(0, 1), Action::Merged, Some(id(1, 0))));
        ledger.book(&book(id(1, 0), Action::Departed, None));
        ledger.book(&book(id(0, 2), Action::Departed, None));
        ledger
    }

    fn receive(ledger: &mut Ledger, worker: u32, value: f32) -> SumOk {
        ledger.received_unnamed(worker, update::digest(&bytes(value))).0
    }

    #[test]
    fn a_packet_is_known_by_what_it_holds() {
        let mut ledger = ledger();
        assert_eq!([(0, 1.0), (1, 12.0), (0, 3.0)].map(|(w, v)| receive(&mut ledger, w, v)), [SumOk::Yes; 3]);
        let balances = ledger.close();
        assert_eq!(
            (balances[0].delivered_alone, balances[0].delivered_merged, balances[1].delivered_merged),
            (2, 1, 1)
        );
        assert!(balances.iter().all(|b| b.in_flight == 0 && b.unknown == 0) && ledger.strangers() == 0);
    }

    /// Whatever it was compared with before.
    #[test]
    fn a_packet_is_known_by_its_latest_content() {
        let mut ledger = ledger();
        assert_eq!(receive(&mut ledger, 0, 3.0), SumOk::Yes, "behind 1.0");
        ledger.sent(id(1, 1), None, &bytes(20.0));
        ledger.book(&book(id(1, 1), Action::Merged, Some(id(0, 0))));
        ledger.book(&book(id(0, 0), Action::Departed, None));
        assert_eq!([1.0, 21.0].map(|value| receive(&mut ledger, 0, value)), [SumOk::Unknown, SumOk::Yes]);
        // Its place is that of another packet now.
        ledger.sent(id(0, 3), None, &bytes(5.0));
        ledger.book(&book(id(0, 3), Action::Departed, None));
        assert_eq!([21.0, 5.0].map(|value| receive(&mut ledger, 0, value)), [SumOk::Unknown, SumOk::Yes]);
    }

    /// A digest is computed once for each packet that is lost.
    #[test]
    fn digests_of_lost_packets_are_kept_by_place() {
        let (mut updates, mut counts) = (Updates::new(1, 1, None, false, true), FateCounts::new(1));
        for seq in 0..100 {
            updates.sent(id(0, seq), &bytes(seq as f32), &mut counts);
            updates.leaves(id(0, seq));
        }
        assert_eq!(updates.known_as(0, 7), None);
        assert_eq!(updates.digests.iter().flatten().count(), 100);
        let last = update::digest(&bytes(99.0));
        assert_eq!(updates.known_as(0, last), Some(id(0, 99)));
        updates.end(id(0, 99), Fate::Delivered, &mut counts);
        updates.sent(id(0, 100), &bytes(100.0), &mut counts);
        assert_eq!((updates.digests.len(), updates.digests.iter().flatten().count()), (100, 99));
    }

    /// Lost ones do not use up the reach of those after them.
    #[test]
    fn any_number_of_lost_ones_is_passed_over() {
        let subject = Subject::Updates { elements: 1, goal: None, named: false };
        let mut ledger = Ledger::open(1, subject, Evidence::Books);
        for seq in 0..6000 {
            ledger.sent(id(0, seq), None, &bytes(seq as f32));
            ledger.book(&book(id(0, seq), Action::Departed, None));
            // One of two, and then three thousand in a row.
            if seq % 2 == 1 && seq < 3000 || seq == 5999 {
                assert_eq!(receive(&mut ledger, 0, seq as f32), SumOk::Yes, "{seq}");
            }
        }
        assert_eq!((ledger.close()[0].in_flight, ledger.strangers()), (4499, 0));
    }

    #[test]
    fn a_lost_one_is_passed_over_and_what_nobody_sent_is_unknown() {
        let mut ledger = ledger();
        assert_eq!(receive(&mut ledger, 0, 3.0), SumOk::Yes, "the first of worker 0 was lost");
        for (worker, value) in [(0, 3.0), (1, 10.0), (0, 12.0), (9, 1.0)] {
            assert_eq!(receive(&mut ledger, worker, value), SumOk::Unknown, "{worker} {value}");
        }
        let balances = ledger.close();
        assert_eq!((balances[0].delivered_alone, balances[0].in_flight, balances[1].in_flight), (1, 2, 1));
    }
}
