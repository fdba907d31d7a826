//! The account of all updates: their fates, and the correctness of sums.
//!
//! The ledger receives what workers sent, what devices wrote in their books and what the server received, in the order
//! of events. It keeps the members of every packet under way, recomputes every sum in the books' order, and counts
//! fates per worker. It compares each payload once, bit for bit, with its own sum.
//!
//! The account is of one of three families: updates, results and sums by key. Its evidence is the books of devices, or
//! nothing beyond received packets. Both are known before the first packet is sent.

mod chains;
mod expected;
mod fates;
mod goal;
mod pairs;
mod results;
mod table;
mod unseen;
mod updates;

use pktgen_core::prefetch;
use pktgen_core::record::{Balance, Book, Family, Heat, NO_CLUSTER, PacketId, Received, SumOk, Unseen};
use pktgen_core::time::Time;
use pktgen_core::topology::Population;
use pktgen_wire::wire::{integers, update};

use crate::endpoint::{Content, Pairs};
use crate::target::sparse::Adder;

pub use expected::{DuePacket, PayloadValues};
use fates::FateCounts;
pub use fates::total;
pub use goal::Goal;
pub use pairs::Exactness;
use pairs::PairSums;
use results::Results;
use unseen::BlackBox;
pub use unseen::Proven;
use updates::Updates;

/// The subject of an account, with its parameters.
pub enum Subject {
    /// Updates of at most `elements` gradients; with 0 no sums are kept.
    Updates {
        /// Maximum number of gradients of an update.
        elements: usize,
        /// The goal of the run, if it has one.
        goal: Option<Goal>,
        /// Whether packets reach the server with their ids. Strict layouts have none (docs/strict.md).
        named: bool,
    },
    /// Contributions to results, which can be recomputed.
    Results {
        /// The contributions.
        content: Box<dyn Content>,
        /// Whether ids of results are exact, as in virtual time: on a wire a result may not name its transmission.
        exact: bool,
    },
    /// Pairs that a switch sums by key, and its adder.
    Pairs(Box<dyn Pairs>, Adder),
}

impl Subject {
    /// Returns its family.
    pub fn family(&self) -> Family {
        match self {
            Subject::Updates { .. } => Family::Updates,
            Subject::Results { .. } => Family::Results,
            Subject::Pairs(..) => Family::Pairs,
        }
    }
}

/// Evidence of an account in addition to sent and received packets.
pub enum Evidence<'a> {
    /// The books of devices.
    Books,
    /// Nothing: the device is hardware.
    Nothing {
        /// Workers and their jobs.
        workers: &'a Population,
        /// Whether the device may merge or replace updates, or only forwards them.
        merges: bool,
        /// Whether results are packets at a server, which adds what devices did not.
        at_server: bool,
    },
}

enum Account {
    Updates(Updates),
    Results(Results),
    Pairs(PairSums),
}

/// A received packet.
#[derive(Debug, Clone, Copy)]
pub struct Receipt<'a> {
    /// Its id.
    pub packet: PacketId,
    /// Number of represented updates, according to its header.
    pub count: u16,
    /// Sequence number in its header. Results of one block have the same, and so have their members.
    pub seq: u32,
    /// Where its content is summed, in sums by key: switch or server.
    pub heat: Option<Heat>,
    /// Number of the part, if it is one of an aggregate of several packets.
    pub part: Option<u32>,
    /// Whether it completes that aggregate at a worker.
    pub last: bool,
    /// Whether its content is correct, if its endpoint can determine it.
    pub judged: SumOk,
    /// Digest of its header ([`head_digest`]); 0 if headers are not compared.
    pub head: u64,
    /// Its payload.
    pub carried: Carried<'a>,
}

impl<'a> Receipt<'a> {
    /// Makes the receipt of a row, with the values of its packet.
    #[inline]
    pub fn of(row: &Received, values: &'a [u8]) -> Self {
        let Received { packet, count, newest_seq: seq, heat, part, last, sum_ok, .. } = *row;
        let (last, carried) = (last == Some(true), Carried::Bytes(values));
        Receipt { packet, count, seq, heat, part, last, judged: sum_ok, head: 0, carried }
    }
}

/// Returns the fields of an update's header that devices keep in one number: the cluster, from 1, in the highest 16 bits, and below it a
/// digest of the others; 0 for traffic of no cluster, which has no header.
pub fn head_digest(cluster: Option<u16>, generation: Time, reward: Option<f32>) -> u64 {
    let Some(cluster) = cluster.filter(|cluster| *cluster != NO_CLUSTER) else { return 0 };
    let mut fields = [0; 12];
    fields[..8].copy_from_slice(&generation.to_le_bytes());
    // A header has a reward of 0 if its update has none.
    fields[8..].copy_from_slice(&reward.unwrap_or(0.0).to_le_bytes());
    (u64::from(cluster + 1) << CLUSTER_AT) | below_cluster(update::digest(&fields))
}

/// The lowest bit of the cluster in the digest of a header.
const CLUSTER_AT: u32 = 48;

/// Returns the cluster in the digest of a header; `None` if there is no header.
fn head_cluster(head: u64) -> Option<u16> {
    ((head >> CLUSTER_AT) as u16).checked_sub(1)
}

/// Returns a digest without the bits of the cluster.
fn below_cluster(digest: u64) -> u64 {
    digest & ((1 << CLUSTER_AT) - 1)
}

/// The payload of a received packet.
#[derive(Debug, Clone, Copy)]
pub enum Carried<'a> {
    /// The whole payload.
    Bytes(&'a [u8]),
    /// Its digest, which is all that records contain.
    Digest(u64),
}

/// The account of a run.
pub struct Ledger {
    family: Family,
    account: Account,
    counts: FateCounts,
    /// State of a device without books.
    black_box: Option<Box<BlackBox>>,
}

impl Carried<'_> {
    /// Returns the digest of the payload.
    #[inline]
    fn digest(&self) -> u64 {
        match self {
            Carried::Bytes(bytes) => update::digest(bytes),
            Carried::Digest(digest) => *digest,
        }
    }

    /// Returns whether it equals these gradients in payload encoding.
    #[inline]
    fn is_gradients(&self, values: &[f32]) -> bool {
        match self {
            Carried::Bytes(bytes) => {
                let (numbers, _) = bytes.as_chunks::<4>();
                numbers.len() == values.len()
                    && numbers.iter().zip(values).all(|(bytes, value)| *bytes == value.to_le_bytes())
            }
            Carried::Digest(digest) => {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                update::digest(&bytes) == *digest
            }
        }
    }

    /// Returns whether it equals these integer sums in payload encoding.
    #[inline]
    fn is_sums(&self, sums: &[i32]) -> bool {
        match self {
            Carried::Bytes(bytes) => {
                let (values, rest) = bytes.as_chunks::<4>();
                // Without an early exit, so that the loop is vectorised.
                let differ =
                    values.iter().zip(sums).fold(0, |differ, (value, sum)| differ | (i32::from_be_bytes(*value) ^ sum));
                differ == 0 && rest.is_empty() && values.len() == sums.len()
            }
            Carried::Digest(digest) => {
                let mut bytes = vec![0; sums.len() * 4];
                integers::emit_values(sums, &mut bytes);
                update::digest(&bytes) == *digest
            }
        }
    }

    #[inline]
    fn is_bytes(&self, own: &[u8]) -> bool {
        match self {
            Carried::Bytes(bytes) => *bytes == own,
            Carried::Digest(digest) => update::digest(own) == *digest,
        }
    }
}

impl Ledger {
    /// Opens the account of `workers` workers.
    pub fn open(workers: usize, subject: Subject, evidence: Evidence) -> Self {
        let family = subject.family();
        let account = match subject {
            Subject::Updates { elements, goal, named } => {
                Account::Updates(Updates::new(workers, elements, goal, named, matches!(evidence, Evidence::Books)))
            }
            Subject::Results { content, exact } => Account::Results(Results::new(workers, content, exact)),
            Subject::Pairs(pairs, adder) => Account::Pairs(PairSums::new(workers, pairs, adder)),
        };
        let black_box = match evidence {
            Evidence::Books => None,
            Evidence::Nothing { workers, merges, at_server } => {
                Some(Box::new(BlackBox::new(workers, merges, at_server)))
            }
        };
        Ledger { family, account, counts: FateCounts::new(workers), black_box }
    }

    /// Returns the family of the account.
    pub(crate) fn family(&self) -> Family {
        self.family
    }

    /// Returns the number of workers in the account.
    pub fn workers(&self) -> usize {
        self.counts.by_worker.len()
    }

    /// Returns whether it can recompute contributions by itself.
    pub fn knows_content(&self) -> bool {
        self.family != Family::Updates
    }

    /// Returns whether a packet can be in one sum only, once.
    pub(crate) fn counts_once(&self) -> bool {
        self.family == Family::Results
    }

    /// Records that a worker generated an update and withholds it.
    #[inline]
    pub fn withheld(&mut self, worker: u32) {
        let fates = &mut self.counts.by_worker[worker as usize];
        fates.generated += 1;
        fates.withheld += 1;
    }

    /// Records that a further attempt was due and was withheld.
    #[inline]
    pub fn withheld_again(&mut self, worker: u32) {
        let fates = &mut self.counts.by_worker[worker as usize];
        fates.retransmitted += 1;
        fates.withheld += 1;
    }

    /// Records that an update left its worker, with these gradients (little-endian f32s); `heat` says where it is summed, in sums by key.
    #[inline]
    pub fn sent(&mut self, packet: PacketId, heat: Option<Heat>, gradients: &[u8]) {
        self.sent_with_head(packet, heat, 0, gradients);
    }

    /// Records the same of an update with the digest of its header ([`head_digest`]), if headers are compared.
    #[inline]
    pub fn sent_with_head(&mut self, packet: PacketId, heat: Option<Heat>, head: u64, gradients: &[u8]) {
        let fates = self.counts.of(packet);
        let again = u64::from(packet.attempt() > 0);
        fates.generated += 1 - again;
        fates.retransmitted += again;
        fates.sent += 1;
        match &mut self.account {
            Account::Updates(own) => {
                own.sent(packet, gradients, &mut self.counts);
                // Nothing more is known of it until it arrives.
                if self.black_box.is_some() {
                    own.leaves(packet);
                    own.keep_head(packet, head);
                }
            }
            Account::Results(own) => own.sent(packet, &mut self.counts),
            Account::Pairs(own) => own.sent(packet, heat, &mut self.counts),
        }
    }

    /// Fetches what is kept of a worker, for networks that no cache holds.
    #[inline]
    pub(crate) fn fetch(&self, worker: u32) {
        self.counts.by_worker.get(worker as usize).into_iter().for_each(prefetch);
        if let Account::Updates(own) = &self.account {
            own.fetch(worker);
        }
    }

    /// A device wrote this row.
    #[inline]
    pub fn book(&mut self, row: &Book) {
        match &mut self.account {
            Account::Updates(own) => own.book(row, &mut self.counts),
            Account::Results(own) => own.book(row, &mut self.counts),
            Account::Pairs(own) => own.book(row, &mut self.counts),
        }
    }

    /// Records that a packet reached the server, or the workers of its job.
    #[inline]
    pub fn received(&mut self, receipt: &Receipt) -> SumOk {
        let counts = &mut self.counts;
        match (&mut self.account, &mut self.black_box) {
            (Account::Updates(own), None) => own.received(receipt, counts),
            (Account::Updates(own), Some(device)) => device.update(own, receipt, counts),
            (Account::Results(own), None) => own.received(receipt, counts),
            (Account::Results(own), Some(device)) => device.result(own, receipt, counts),
            // Hot packets are summed, without a list of members.
            (Account::Pairs(own), Some(device)) if receipt.heat == Some(Heat::Hot) => device.hot(own, receipt, counts),
            (Account::Pairs(own), Some(device)) => device.cold(own, receipt, counts),
            (Account::Pairs(own), None) => own.received(receipt, counts),
        }
    }

    /// Returns what an arriving packet should hold; `None` if it is not under way, if its members are unknown, or if
    /// its pairs are summed by key.
    pub fn expected(&mut self, receipt: &Receipt) -> Option<DuePacket> {
        match (&mut self.account, &self.black_box) {
            (Account::Updates(own), Some(device)) if device.merges && (receipt.count != 1 || own.is_nameless()) => None,
            (Account::Updates(own), _) => own.expected(receipt.packet),
            (Account::Results(own), None) => own.expected(receipt),
            (Account::Results(own), Some(device)) => {
                let (workers, seq) = (device.all_of(receipt)?, receipt.packet.seq());
                own.expected_of_all(workers, seq, &|worker| device.came_alone(worker, seq))
            }
            (Account::Pairs(_), _) => None,
        }
    }

    /// Records the arrival of a packet without id whose newest member is of `worker`, with gradients of this digest.
    /// Returns the verdict and, if known, its id and the number of represented updates.
    #[inline]
    pub fn received_unnamed(&mut self, worker: u32, digest: u64) -> (SumOk, Option<(PacketId, u16)>) {
        match (&mut self.account, &mut self.black_box) {
            (Account::Updates(own), None) => own.received_unnamed(worker, digest, &mut self.counts),
            (Account::Updates(own), Some(device)) => device.unnamed_update(own, worker, digest, &mut self.counts),
            _ => (SumOk::Unknown, None),
        }
    }

    /// Records frames with results that workers had, and copies without rows.
    #[inline]
    pub fn came_again(&mut self, frames: u64) {
        if let Some(device) = &mut self.black_box {
            device.came_again(frames);
        }
    }

    /// Records sums that were checked by the members that lanes prove.
    #[inline]
    pub fn proven(&mut self, proven: &Proven) {
        if let Some(device) = &mut self.black_box {
            device.proven(proven);
        }
    }

    /// Ends the run: packets still under way are in flight or, without books, unaccounted for. Returns the balance of each worker.
    pub fn close(&mut self) -> Vec<Balance> {
        match &mut self.account {
            Account::Updates(own) => own.close(&mut self.counts),
            Account::Results(own) => own.close(&mut self.counts),
            Account::Pairs(own) => own.close(&mut self.counts),
        }
        let all = &mut self.counts.by_worker;
        if self.black_box.is_some() {
            for fates in all.iter_mut() {
                fates.unaccounted += std::mem::take(&mut fates.in_flight);
            }
        }
        all.iter().map(fates::Fates::balance).collect()
    }

    /// Returns whether a result is under way, or a part of one; false for other families. Of a sum by key the rows of a dropped result
    /// would be those of a dropped copy of the packet that opened it, which do not decide its fate.
    pub(crate) fn is_result_under_way(&mut self, packet: PacketId) -> bool {
        match &mut self.account {
            Account::Results(own) => own.is_under_way(packet),
            Account::Updates(_) | Account::Pairs(_) => false,
        }
    }

    /// Returns the goal and its progress.
    #[inline]
    pub fn goal(&self) -> Option<&Goal> {
        match &self.account {
            Account::Updates(own) => own.goal.as_ref(),
            _ => None,
        }
    }

    /// Returns whether headers of received updates are compared with those sent: without books, if they have ids.
    pub fn compares_heads(&self) -> bool {
        matches!((&self.account, &self.black_box), (Account::Updates(own), Some(_)) if !own.is_nameless())
    }

    /// Returns whether packets reach the server without their ids.
    pub fn is_nameless(&self) -> bool {
        matches!(&self.account, Account::Updates(own) if own.is_nameless())
    }

    /// Returns whether a packet with this count in its header is one update, or must be.
    pub fn says_it_is_one(&self, count: u16) -> bool {
        match (&self.account, &self.black_box) {
            // A forwarded packet is one update, whatever its header says.
            (Account::Updates(_), Some(device)) if !device.merges => true,
            // A strict layout has no count.
            (Account::Updates(own), Some(_)) if own.is_nameless() => false,
            _ => count == 1,
        }
    }

    /// Returns the rows about packets that were never sent, or that had already ended; 0 in a sound run.
    pub fn strangers(&self) -> u64 {
        self.counts.strangers
    }

    /// Returns the observations about a device without books; `None` for one that keeps books.
    pub fn unseen(&self) -> Option<Unseen> {
        let adder = match &self.account {
            Account::Pairs(own) => Some(own.adder()),
            _ => None,
        };
        self.black_box.as_ref().map(|device| device.facts(adder))
    }

    /// Returns the packets that arrived again, if the device keeps no books.
    pub fn repeated(&self) -> u64 {
        self.black_box.as_ref().map_or(0, |device| device.repeated)
    }

    /// Returns the packets of one update that differ from what was sent, if the device keeps no books.
    pub fn damaged(&self) -> u64 {
        self.black_box.as_ref().map_or(0, |device| device.different)
    }

    /// Returns the cluster of each worker, if the device keeps no books.
    pub fn unseen_clusters(&self) -> Option<&[u16]> {
        self.black_box.as_ref().map(|device| &device.cluster_of[..])
    }

    /// Returns how often updates are in sums; `None` without sums by key or without books. Known when the account is closed.
    pub fn exactness(&self) -> Option<Exactness> {
        match (&self.account, &self.black_box) {
            (Account::Pairs(own), None) => Some(own.exactness()),
            _ => None,
        }
    }

    /// Returns the results with sums that exceed 32 bits.
    pub fn overflowed(&self) -> u64 {
        match &self.account {
            Account::Results(own) => own.overflowed(),
            _ => 0,
        }
    }

    /// Returns the error of scaling, in 10⁻⁹; `None` if nothing was scaled.
    pub fn scaling_error_ppb(&self) -> Option<u64> {
        match &self.account {
            Account::Results(own) => own.scaling_error_ppb(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::{Action, Reason};

    use super::*;

    pub(super) fn updates(elements: usize) -> Subject {
        Subject::Updates { elements, goal: None, named: true }
    }

    pub(super) fn whole(packet: PacketId, count: u16, bytes: &[u8]) -> Receipt<'_> {
        let (heat, judged, carried) = (None, SumOk::Unknown, Carried::Bytes(bytes));
        Receipt { packet, count, seq: packet.seq(), heat, part: None, last: false, judged, head: 0, carried }
    }

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
        let mut ledger = Ledger::open(4, updates(2), Evidence::Books);
        for worker in 0..4 {
            ledger.sent(id(worker), None, &bytes(&[worker as f32, 1.0]));
        }
        ledger.book(&row(id(0), Action::Merged, Some(id(1))));
        ledger.book(&row(id(1), Action::Merged, Some(id(2))));
        assert_eq!(ledger.received(&whole(id(2), 3, &bytes(&[3.0, 3.0]))), SumOk::Yes);
        ledger.book(&row(id(3), Action::Dropped, None));
        let balances = ledger.close();
        assert!(balances[..3].iter().all(|b| b.delivered_merged == 1 && b.unknown == 0));
        assert_eq!(balances[3].dropped_total(), 1);
        assert_eq!(ledger.strangers(), 0);
    }

    #[test]
    fn a_wrong_sum_count_or_stranger_is_seen() {
        let mut ledger = Ledger::open(3, updates(1), Evidence::Books);
        for worker in 0..3 {
            ledger.sent(id(worker), None, &bytes(&[1.0]));
        }
        assert_eq!(ledger.received(&whole(id(0), 1, &bytes(&[1.0000001]))), SumOk::No);
        assert_eq!(ledger.received(&whole(id(1), 2, &bytes(&[1.0]))), SumOk::No);
        assert_eq!(ledger.received(&whole(id(1), 1, &bytes(&[1.0]))), SumOk::Unknown);
        assert_eq!(ledger.strangers(), 1);
        let balance = total(&ledger.close());
        assert_eq!((balance.in_flight, balance.delivered_alone, balance.unknown), (1, 2, 0));
    }
}
