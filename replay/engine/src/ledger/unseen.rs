//! Observations about a device that keeps no books: hardware (design §2.6).
//!
//! Only sent and received packets are known. A packet that claims to be one update delivers it; one that claims to be a
//! sum delivers the member by which it is identified; its other members are unknown. A result of all workers of a job
//! delivers the packet of each. The rest is unaccounted for: merged, replaced or lost.

use std::collections::{HashMap, HashSet};

use pktgen_core::record::{PacketId, SumOk, Unseen};
use pktgen_core::topology::{Move, Population};

use super::fates::FateCounts;
use super::pairs::PairSums;
use super::results::Results;
use super::updates::Updates;
use super::{Receipt, below_cluster, head_cluster};
use crate::target::sparse::Adder;

/// Verdicts on sums by the members that lanes prove.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proven {
    /// Correct sums.
    pub right: u64,
    /// Packets that claimed to be one update, and are correct sums of several.
    pub unsaid: u64,
    /// Wrong sums.
    pub wrong: u64,
    /// Packets that claimed to be one update, and are wrong sums.
    pub wrong_single: u64,
    /// Correct sums of another number of updates than their packets say.
    pub miscounted: u64,
    /// Those of fewer.
    pub overcounted: u64,
    /// Packets whose lanes match no set of updates.
    pub contradict: u64,
    /// The smallest error that would have been found in every element; none if no sum of several was checked.
    pub smallest: Option<f64>,
}

/// Digests of what was sent as the updates that arrived.
#[derive(Default)]
struct Delivered {
    /// First transmissions, by worker and number; 0 if it has not arrived.
    first: Vec<Vec<u64>>,
    /// Others, by id.
    others: HashMap<u64, u64>,
}

impl Delivered {
    fn get(&self, packet: PacketId) -> Option<u64> {
        let own = self.first.get(packet.worker() as usize).and_then(|own| own.get(packet.seq() as usize));
        let listed = own.copied().filter(|digest| *digest != 0 && packet.attempt() == 0);
        listed.or_else(|| self.others.get(&packet.0).copied())
    }

    /// Adds a packet of a worker that has `generated` so many updates, which bounds its list.
    fn insert(&mut self, packet: PacketId, generated: u64, digest: u64) {
        let (worker, seq) = (packet.worker() as usize, packet.seq() as usize);
        if packet.attempt() > 0 || seq as u64 >= generated {
            self.others.insert(packet.0, digest);
            return;
        }
        if self.first.len() <= worker {
            self.first.resize_with(worker + 1, Vec::new);
        }
        let own = &mut self.first[worker];
        if own.len() <= seq {
            own.resize(seq + 1, 0);
        }
        own[seq] = digest;
    }
}

/// What arrived from a device without books.
pub(super) struct BlackBox {
    /// Whether the device may merge or replace updates.
    pub merges: bool,
    /// Whether results are packets at a server, which adds what devices did not.
    at_server: bool,
    pub cluster_of: Vec<u16>,
    clusters: Vec<Vec<u32>>,
    /// Workers that move, with each of their clusters.
    moving: HashSet<(u32, u16)>,
    /// Ids of results of all workers of a job that arrived.
    arrived: HashSet<u64>,
    /// Ids of packets that arrived by themselves at a server, which adds what devices did not.
    singles: HashSet<u64>,
    /// Ids of further transmissions that results of all workers took.
    taken: HashSet<u64>,
    /// Updates that arrived: their copies are compared with what was sent.
    delivered: Delivered,
    /// Packets without id that arrived, by worker and digest.
    unnamed: HashMap<(u32, u64), PacketId>,
    /// Packets that arrived again.
    pub repeated: u64,
    /// Packets that claim to be one update, or must be, and differ from it.
    pub different: u64,
    /// Packets that are sums of unknown members.
    sums: u64,
    /// Sums whose members lanes prove, and the smallest error that would have shown.
    proven: u64,
    smallest: Option<f64>,
    /// Right sums of another number of updates than their packets say, and those of fewer.
    miscounted: [u64; 2],
    /// Packets whose lanes match no set of updates.
    contradict: u64,
    /// Packets of sums by key that workers judged.
    by_key: u64,
}

impl BlackBox {
    pub(super) fn new(workers: &Population, merges: bool, at_server: bool) -> Self {
        let mut clusters = vec![Vec::new(); workers.clusters_ever()];
        for (worker, cluster) in (0u32..).zip(&workers.cluster_of) {
            if let Some(own) = clusters.get_mut(usize::from(*cluster)) {
                own.push(worker);
            }
        }
        let moves = workers.moves.iter();
        let of_move = |own: &Move| {
            let first = workers.cluster_of.get(own.worker as usize).map(|cluster| (own.worker, *cluster));
            first.into_iter().chain([(own.worker, own.cluster)])
        };
        BlackBox {
            merges,
            at_server,
            cluster_of: workers.cluster_of.clone(),
            clusters,
            moving: moves.flat_map(of_move).collect(),
            arrived: HashSet::new(),
            singles: HashSet::new(),
            taken: HashSet::new(),
            delivered: Delivered::default(),
            unnamed: HashMap::new(),
            repeated: 0,
            different: 0,
            sums: 0,
            proven: 0,
            smallest: None,
            miscounted: [0; 2],
            contradict: 0,
            by_key: 0,
        }
    }

    /// Returns the observations for the manifest, if it adds with `adder`.
    pub(super) fn facts(&self, adder: Option<&Adder>) -> Unseen {
        let workers = self.clusters.iter().map(Vec::len).max().unwrap_or(0);
        let off = adder.filter(|_| self.by_key > 0).map(|adder| adder.error().share(workers as u32));
        Unseen {
            merges: self.merges,
            at_server: self.at_server,
            duplicates: self.repeated,
            damaged: self.different,
            unchecked: self.sums,
            checked_by_lanes: self.proven,
            lanes_contradict: self.contradict,
            miscounted: self.miscounted[0],
            overcounted: self.miscounted[1],
            smallest_error: self.smallest.map(|error| format!("{error:.2e}")),
            checked_by_key: self.by_key,
            allowed_error: off.map(|share| format!("{share:.1e}")),
            ..Unseen::default()
        }
    }

    /// Records sums that were checked by the members that lanes prove.
    pub(super) fn proven(&mut self, proven: &Proven) {
        self.sums = self.sums.saturating_sub(proven.right + proven.wrong);
        // A device that only forwards must not add, however well.
        let explained = proven.wrong_single + if self.merges { proven.unsaid } else { 0 };
        self.different = self.different.saturating_sub(explained);
        self.proven += proven.right + proven.wrong + proven.unsaid + proven.wrong_single;
        self.smallest = proven.smallest;
        self.miscounted = [proven.miscounted, proven.overcounted];
        self.contradict = proven.contradict;
    }

    /// Records a packet of hot pairs, whose members are not listed; workers may know its content. The sum has the id of
    /// a packet that was sent.
    pub(super) fn hot(&mut self, pairs: &mut PairSums, receipt: &Receipt, counts: &mut FateCounts) -> SumOk {
        counts.stranger_if(!pairs.was_sent(receipt.packet));
        *if receipt.judged == SumOk::Unknown { &mut self.sums } else { &mut self.by_key } += 1;
        receipt.judged
    }

    /// Records a packet of cold pairs.
    pub(super) fn cold(&mut self, pairs: &mut PairSums, receipt: &Receipt, counts: &mut FateCounts) -> SumOk {
        self.repeated += u64::from(pairs.has_arrived(receipt.packet));
        pairs.received(receipt, counts)
    }

    /// Records frames with results that workers had, and copies without rows.
    pub(super) fn came_again(&mut self, frames: u64) {
        self.repeated += frames;
    }

    /// Records a packet of updates.
    pub(super) fn update(&mut self, updates: &mut Updates, receipt: &Receipt, counts: &mut FateCounts) -> SumOk {
        let alone = receipt.count == 1;
        let is = updates.digests_in(receipt);
        let Some(sent) = updates.digests_of(receipt.packet) else {
            let known = self.delivered.get(receipt.packet);
            counts.stranger_if(known.is_none());
            self.repeated += u64::from(known.is_some());
            // A copy is of the same update as the first, also if that one was damaged.
            self.different += u64::from(known.is_some_and(|sent| self.differs(receipt, is.both(), sent)));
            return SumOk::Unknown;
        };
        let generated = counts.of(receipt.packet).generated;
        self.delivered.insert(receipt.packet, generated, sent.both());
        self.different += u64::from(self.differs(receipt, is.both(), sent.both()));
        self.sums += u64::from(!alone && self.merges);
        updates.deliver_one(receipt.packet, alone, counts);
        // The gradients are right also under a changed header.
        if alone && is.gradients.is_some() && is.gradients == sent.gradients { SumOk::Yes } else { SumOk::Unknown }
    }

    /// Returns whether a packet differs from the update that it names, by digests of both. Of a sum only the cluster is that of its newest
    /// member in any case; a device that only forwards leaves every packet one update, whatever its header says.
    fn differs(&self, receipt: &Receipt, is: u64, sent: u64) -> bool {
        let cluster = head_cluster(is);
        // Devices write the cluster of a worker that moves from their tables.
        let moves_to = |cluster| self.moving.contains(&(receipt.packet.worker(), cluster));
        let is_cluster = cluster == head_cluster(sent) || cluster.is_some_and(moves_to);
        !is_cluster
            || match receipt.count {
                1 => below_cluster(is) != below_cluster(sent),
                _ => !self.merges,
            }
    }

    /// Records a packet without id: it holds the content of a packet under way, of one that arrived before, or of none.
    pub(super) fn unnamed_update(
        &mut self,
        updates: &mut Updates,
        worker: u32,
        digest: u64,
        counts: &mut FateCounts,
    ) -> (SumOk, Option<(PacketId, u16)>) {
        if let Some(packet) = updates.known_as(worker, digest) {
            self.unnamed.insert((worker, digest), packet);
            updates.deliver_one(packet, true, counts);
            return (SumOk::Yes, Some((packet, 1)));
        }
        if let Some(again) = self.unnamed.get(&(worker, digest)) {
            self.repeated += 1;
            return (SumOk::Unknown, Some((*again, 1)));
        }
        self.sums += u64::from(self.merges);
        self.different += u64::from(!self.merges);
        (SumOk::Unknown, None)
    }

    /// Records a result at the workers of a job, or at a server, where a packet of one worker delivers itself.
    pub(super) fn result(&mut self, results: &mut Results, receipt: &Receipt, counts: &mut FateCounts) -> SumOk {
        let packet = receipt.packet;
        let Some(workers) = self.workers_of(packet) else {
            return self.again(false, counts);
        };
        let (id, seq) = (result_id(workers, packet.seq()), packet.seq());
        if usize::from(receipt.count) != workers.len() {
            // Its correctness does not depend on its members, which remain unknown.
            let right = results.is_sum_of_some(workers, receipt);
            self.sums += u64::from(right.is_none());
            if self.at_server && receipt.count == 1 {
                self.single(results, packet, id, counts);
            }
            return SumOk::of(right);
        }
        let came_alone = |worker| self.came_alone(worker, seq);
        let Some(right) = results.received_of_all(workers, seq, &receipt.carried, &came_alone, counts) else {
            let known = self.arrived.contains(&id.0) || workers.iter().any(|worker| self.has_single(*worker, seq));
            return self.again(known, counts);
        };
        self.arrived.insert(id.0);
        if self.at_server {
            self.taken.extend(results.members().iter().filter(|member| member.attempt() > 0).map(|member| member.0));
        }
        if receipt.judged == SumOk::No { SumOk::No } else { right }
    }

    /// Records a packet that arrives by itself at a server, of the block whose result has this id. One that arrived by itself before is a copy,
    /// one that was never sent a stranger. If a result of all workers took its transmission, that held another one of its worker that is under
    /// way (packets may overtake each other behind the device), or else this one is a copy.
    fn single(&mut self, results: &mut Results, packet: PacketId, result: PacketId, counts: &mut FateCounts) {
        if self.singles.contains(&packet.0) {
            self.again(true, counts);
        } else if results.deliver_one(packet, counts) {
            self.singles.insert(packet.0);
        } else if self.taken.contains(&packet.0) || packet.attempt() == 0 && self.arrived.contains(&result.0) {
            // By worker, both orders have the same counts: one in the result, and one alone.
            match results.deliver_first(packet, counts) {
                Some(other) => _ = (self.singles.insert(packet.0), self.taken.insert(other.0)),
                None => _ = self.again(true, counts),
            }
        } else {
            self.again(false, counts);
        }
    }

    /// Returns the workers of a job.
    fn workers_of(&self, packet: PacketId) -> Option<&[u32]> {
        let cluster = *self.cluster_of.get(packet.worker() as usize)?;
        self.clusters.get(usize::from(cluster)).map(Vec::as_slice)
    }

    /// Returns the workers of a job, if a result is of all of them.
    pub(super) fn all_of(&self, receipt: &Receipt) -> Option<&[u32]> {
        self.workers_of(receipt.packet).filter(|workers| usize::from(receipt.count) == workers.len())
    }

    /// Returns whether a packet of this block arrived by itself from a worker, and no result of all workers of its job has arrived: the first
    /// such result may hold it, too.
    pub(super) fn came_alone(&self, worker: u32, seq: u32) -> bool {
        let whole = |workers: &[u32]| self.arrived.contains(&result_id(workers, seq).0);
        // The usual result is a copy or was whole before, which one look-up tells; attempts take up to 256.
        !self.workers_of(PacketId::new(worker, seq, 0)).is_some_and(whole) && self.has_single(worker, seq)
    }

    /// Returns whether a transmission of this block arrived by itself from a worker.
    fn has_single(&self, worker: u32, seq: u32) -> bool {
        let mut attempts = (0..=u8::MAX).map(|attempt| PacketId::new(worker, seq, attempt));
        !self.singles.is_empty() && attempts.any(|id| self.singles.contains(&id.0))
    }

    /// Records a packet that is not under way: a copy of a known one, or one that was never sent.
    fn again(&mut self, known: bool, counts: &mut FateCounts) -> SumOk {
        self.repeated += u64::from(known);
        counts.stranger_if(!known);
        SumOk::Unknown
    }
}

/// Returns the id of a result of these workers, who have the same numbers.
fn result_id(workers: &[u32], seq: u32) -> PacketId {
    PacketId::new(workers[0], seq, 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{updates, whole};
    use super::super::*;
    use super::{Delivered, Unseen};
    use pktgen_core::topology::{Move, Population};

    fn bytes(value: f32) -> Vec<u8> {
        value.to_le_bytes().to_vec()
    }

    fn id(worker: u32, seq: u32) -> PacketId {
        PacketId::new(worker, seq, 0)
    }

    #[test]
    fn what_nobody_saw_is_a_line_of_its_own_and_the_balance_closes() {
        let workers = Population { cluster_of: vec![0, 0, 0], moves: Vec::new() };
        let mut ledger =
            Ledger::open(3, updates(1), Evidence::Nothing { workers: &workers, merges: true, at_server: false });
        for (worker, seq) in [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)] {
            ledger.sent(id(worker, seq), None, &bytes((worker + 10 * seq) as f32));
        }
        ledger.withheld(2);
        assert_eq!(ledger.received(&whole(id(0, 0), 1, &bytes(0.0))), SumOk::Yes);
        assert_eq!(ledger.received(&whole(id(1, 0), 2, &bytes(3.0))), SumOk::Unknown, "a sum of whom, nobody says");
        assert_eq!(ledger.received(&whole(id(0, 1), 1, &bytes(7.0))), SumOk::Unknown, "not what was sent");
        assert_eq!(ledger.received(&whole(id(0, 1), 1, &bytes(7.0))), SumOk::Unknown);
        assert_eq!(ledger.strangers(), 0, "it came again");
        ledger.received(&whole(id(0, 9), 1, &bytes(7.0)));
        assert_eq!(ledger.strangers(), 1, "nobody sent it");
        let balance = total(&ledger.close());
        let fates = (balance.delivered_alone, balance.delivered_merged, balance.unaccounted, balance.in_flight);
        assert_eq!((fates, balance.sent, balance.unknown), ((2, 1, 2, 0), 5, 0));
        let expected = Unseen { merges: true, duplicates: 1, damaged: 2, unchecked: 1, ..Unseen::default() };
        assert_eq!((ledger.unseen(), Ledger::open(1, updates(1), Evidence::Books).unseen()), (Some(expected), None));
    }

    /// Returns the damaged packets and the duplicates if an update of 1.0 leaves under `head`, and these arrive: head, count
    /// and value of each.
    fn damaged(merges: bool, head: u64, arrivals: &[(u64, u16, f32)]) -> (u64, u64) {
        damaged_of(Vec::new(), merges, head, arrivals)
    }

    /// Returns the same if the worker moves.
    fn damaged_of(moves: Vec<Move>, merges: bool, head: u64, arrivals: &[(u64, u16, f32)]) -> (u64, u64) {
        let workers = Population { cluster_of: vec![0], moves };
        let mut ledger = Ledger::open(1, updates(1), Evidence::Nothing { workers: &workers, merges, at_server: false });
        assert!(ledger.compares_heads());
        ledger.sent_with_head(id(0, 0), None, head, &bytes(1.0));
        for (head, count, value) in arrivals {
            let value = bytes(*value);
            ledger.received(&Receipt { head: *head, ..whole(id(0, 0), *count, &value) });
        }
        assert_eq!((ledger.strangers(), total(&ledger.close()).sent), (0, 1));
        ledger.unseen().map(|facts| (facts.damaged, facts.duplicates)).unwrap()
    }

    #[test]
    fn a_changed_header_is_damage() {
        let digest = |(cluster, generation, reward)| head_digest(cluster, generation, reward);
        let head = digest((Some(1), 5, Some(0.5)));
        for merges in [false, true] {
            assert_eq!(damaged(merges, head, &[(head, 1, 1.0)]), (0, 0));
            for other in [(Some(17), 5, Some(0.5)), (Some(1), 6, Some(0.5)), (Some(1), 5, Some(0.25))] {
                assert_eq!(damaged(merges, head, &[(digest(other), 1, 1.0)]), (1, 0), "{other:?}");
                assert_eq!(damaged(merges, head, &[(head, 1, 1.0), (digest(other), 1, 1.0)]), (1, 1), "{other:?}");
            }
            // No header was sent, and none came.
            assert_eq!(damaged(merges, 0, &[(0, 1, 1.0)]), (0, 0));
        }
        // A sum has the cluster of its newest member, also in copies, and the mean of rewards.
        for (other, wrong) in [((Some(1), 5, Some(0.25)), 0), ((Some(17), 5, Some(0.5)), 1)] {
            assert_eq!(damaged(true, head, &[(digest(other), 2, 3.0)]), (wrong, 0), "{other:?}");
            assert_eq!(damaged(true, head, &[(head, 1, 1.0), (digest(other), 2, 3.0)]), (wrong, 1), "{other:?}");
        }
        // Cluster 0 is another one than none.
        let first = digest((Some(0), 5, Some(0.5)));
        assert_eq!(damaged(true, first, &[(digest((None, 5, None)), 2, 3.0)]), (1, 0));
        // A device has the new cluster of a worker in its table when an update arrives that left before.
        let moves = || vec![Move { at: 6, worker: 0, cluster: 2 }];
        for (cluster, wrong) in [(1, 0), (2, 0), (3, 1)] {
            for (merges, count) in [(false, 1), (true, 1), (true, 2)] {
                let arrives = (digest((Some(cluster), 5, Some(0.5))), count, 1.0);
                assert_eq!(damaged_of(moves(), merges, head, &[arrives]), (wrong, 0), "{cluster} {count}");
            }
        }
        // An update without a reward has 0 in its header, and traffic of no cluster has no header.
        assert_eq!(digest((Some(1), 5, None)), digest((Some(1), 5, Some(0.0))));
        assert_eq!((digest((None, 5, None)), digest((Some(NO_CLUSTER), 5, None))), (0, 0));
    }

    /// The order of a good and a bad copy does not matter.
    #[test]
    fn copies_are_compared_with_what_was_sent() {
        let (good, bad, two) = ((0, 1, 1.0), (0, 1, 1.5), (0, 2, 1.0));
        for merges in [false, true] {
            assert_eq!(damaged(merges, 0, &[good, good, good]), (0, 2));
            assert_eq!(damaged(merges, 0, &[good, bad]), (1, 1));
            assert_eq!(damaged(merges, 0, &[bad, good]), (1, 1));
            assert_eq!(damaged(merges, 0, &[bad, bad, good]), (2, 2));
            // A sum whose members are not known.
            assert_eq!(damaged(merges, 0, &[good, two]), (u64::from(!merges), 1));
        }
        let workers = Population { cluster_of: vec![0, 0], moves: Vec::new() };
        let nothing = Evidence::Nothing { workers: &workers, merges: false, at_server: false };
        let mut ledger = Ledger::open(2, updates(1), nothing);
        for worker in [0, 1] {
            ledger.sent(id(worker, 0), None, &bytes(worker as f32));
        }
        // A packet of worker 1 that names the update of worker 0, which had arrived.
        for value in [0.0, 1.0] {
            ledger.received(&whole(id(0, 0), 1, &bytes(value)));
        }
        assert_eq!((ledger.damaged(), ledger.repeated(), total(&ledger.close()).unaccounted), (1, 1, 1));
    }

    #[test]
    fn what_arrived_is_known_by_worker_and_number_and_further_attempts_apart() {
        let mut delivered = Delivered::default();
        let packets = [(id(1, 2), 3), (PacketId::new(1, 2, 1), 3), (id(1, u32::MAX), 3), (id(0, 0), 1)];
        for (digest, (packet, generated)) in (1..).zip(packets) {
            assert_eq!(delivered.get(packet), None);
            delivered.insert(packet, generated, digest);
            assert_eq!(delivered.get(packet), Some(digest));
        }
        assert_eq!(packets.map(|(packet, _)| delivered.get(packet)), [1, 2, 3, 4].map(Some));
        let others = [id(1, 1), id(1, 3), id(2, 0), PacketId::new(0, 0, 1)];
        assert_eq!(others.map(|packet| delivered.get(packet)), [None; 4]);
        // A number that no worker counted up to needs no list.
        assert_eq!((delivered.first[1].len(), delivered.others.len()), (3, 2));
    }

    #[test]
    fn a_device_that_only_forwards_has_no_sums() {
        let of = |merges: bool, proven: Option<Proven>| {
            let workers = Population { cluster_of: vec![0, 0], moves: Vec::new() };
            let mut ledger =
                Ledger::open(2, updates(1), Evidence::Nothing { workers: &workers, merges, at_server: false });
            for (worker, seq) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                ledger.sent(id(worker, seq), None, &bytes((worker + 10 * seq) as f32));
            }
            // A sum, a number of updates that is wrong, and a packet as it was sent.
            assert_eq!(ledger.received(&whole(id(1, 0), 2, &bytes(3.0))), SumOk::Unknown);
            assert_eq!(ledger.received(&whole(id(0, 1), 2, &bytes(10.0))), SumOk::Unknown);
            assert_eq!(ledger.received(&whole(id(1, 1), 1, &bytes(11.0))), SumOk::Yes);
            assert_eq!([1, 2].map(|count| ledger.says_it_is_one(count)), [true, !merges]);
            let sum = bytes(3.0);
            assert_eq!(ledger.expected(&whole(id(0, 0), 2, &sum)).is_some(), !merges);
            proven.into_iter().for_each(|proven| ledger.proven(&proven));
            ledger.close();
            ledger.unseen().map(|facts| (facts.damaged, facts.unchecked)).unwrap()
        };
        assert_eq!((of(true, None), of(false, None)), ((0, 2), (2, 0)));
        // Lanes that prove a sum right prove that the device added; a wrong one is counted as that.
        let proven = Proven { unsaid: 1, wrong_single: 1, ..Proven::default() };
        assert_eq!(of(false, Some(proven)), (1, 0));
    }

    /// Test content: every contribution is its worker's number and 1.
    struct Numbers;

    impl Content for Numbers {
        fn add(&mut self, members: &[PacketId], sums: &mut [i32]) -> usize {
            members.iter().for_each(|packet| sums[0] += packet.worker() as i32 + 1);
            1
        }
        fn elements(&self) -> usize {
            1
        }
    }

    #[test]
    fn results_of_all_workers_and_of_some_are_checked() {
        let workers = Population { cluster_of: vec![0, 0, 1], moves: Vec::new() };
        let mut ledger = Ledger::open(
            3,
            Subject::Results { content: Box::new(Numbers), exact: false },
            Evidence::Nothing { workers: &workers, merges: true, at_server: false },
        );
        for (worker, seq) in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (1, 2), (0, 3), (1, 3)] {
            ledger.sent(id(worker, seq), None, &[]);
        }
        // Sent again, and still in flight.
        ledger.sent(PacketId::new(1, 0, 1), None, &[]);
        assert_eq!(ledger.received(&whole(id(0, 0), 2, &3i32.to_be_bytes())), SumOk::Yes);
        let sum = 3i32.to_be_bytes();
        let judged = Receipt { judged: SumOk::No, ..whole(id(0, 3), 2, &sum) };
        assert_eq!(ledger.received(&judged), SumOk::No, "its worker found something else wrong");
        assert_eq!(ledger.received(&whole(id(0, 1), 1, &1i32.to_be_bytes())), SumOk::Yes, "of one of them");
        assert_eq!(ledger.received(&whole(id(0, 1), 1, &4i32.to_be_bytes())), SumOk::No, "of none of them");
        assert_eq!(ledger.received(&whole(id(2, 0), 1, &3i32.to_be_bytes())), SumOk::Yes, "a job of one worker");
        assert_eq!(ledger.received(&whole(id(0, 2), 2, &4i32.to_be_bytes())), SumOk::No);
        ledger.received(&whole(id(0, 0), 2, &3i32.to_be_bytes()));
        assert_eq!(ledger.strangers(), 0);
        let balance = total(&ledger.close());
        let fates = (balance.delivered_alone, balance.delivered_merged, balance.unaccounted);
        assert_eq!((fates, balance.sent, balance.unknown), ((1, 6, 3), 10, 0));
    }

    /// ATP: what found no aggregator arrives by itself, and whole sums of the same block may follow.
    #[test]
    fn single_packets_at_a_server_deliver_themselves() {
        let workers = Population { cluster_of: vec![0, 0], moves: Vec::new() };
        let nothing = Evidence::Nothing { workers: &workers, merges: true, at_server: true };
        let subject = Subject::Results { content: Box::new(Numbers), exact: false };
        let mut ledger = Ledger::open(2, subject, nothing);
        for (worker, seq) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            ledger.sent(id(worker, seq), None, &[]);
        }
        assert_eq!(ledger.received(&whole(id(0, 0), 2, &3i32.to_be_bytes())), SumOk::Yes);
        assert_eq!(ledger.received(&whole(id(0, 1), 1, &1i32.to_be_bytes())), SumOk::Yes);
        assert_eq!(ledger.received(&whole(id(1, 1), 1, &2i32.to_be_bytes())), SumOk::Yes);
        ledger.received(&whole(id(0, 1), 2, &3i32.to_be_bytes()));
        assert_eq!(ledger.strangers(), 0, "copies of what came");
        let balance = total(&ledger.close());
        let fates = (balance.delivered_alone, balance.delivered_merged, balance.unaccounted);
        assert_eq!((fates, balance.sent, balance.unknown), ((2, 2, 0), 4, 0));
    }

    /// A switch passes a packet on and adds it as well: the sum is checked, and delivers the packets of the other workers.
    #[test]
    fn a_whole_sum_may_hold_packets_that_arrived_by_themselves() {
        let workers = Population { cluster_of: vec![0, 0, 0], moves: Vec::new() };
        let ledger = || {
            let nothing = Evidence::Nothing { workers: &workers, merges: true, at_server: true };
            let subject = Subject::Results { content: Box::new(Numbers), exact: false };
            let mut ledger = Ledger::open(3, subject, nothing);
            [0, 1, 2].into_iter().for_each(|worker| ledger.sent(id(worker, 0), None, &[]));
            assert_eq!(ledger.received(&whole(id(0, 0), 1, &1i32.to_be_bytes())), SumOk::Yes);
            ledger
        };
        let fates = |ledger: &mut Ledger| {
            let balance = total(&ledger.close());
            (balance.delivered_alone, balance.delivered_merged, balance.unaccounted)
        };
        for (value, verdict) in [(6i32, SumOk::Yes), (7, SumOk::No)] {
            let (mut ledger, sum) = (ledger(), value.to_be_bytes());
            let result = whole(id(2, 0), 3, &sum);
            let due = ledger.expected(&result).expect("members");
            assert_eq!((due.members.len(), due.values), (3, PayloadValues::Integers(vec![6])));
            assert_eq!((ledger.received(&result), ledger.repeated()), (verdict, 0));
            // A copy does not deliver what a worker sent again.
            ledger.sent(PacketId::new(1, 0, 1), None, &[]);
            assert_eq!((ledger.expected(&result), ledger.received(&result)), (None, SumOk::Unknown));
            assert_eq!((ledger.repeated(), ledger.strangers(), fates(&mut ledger)), (1, 0, (1, 2, 1)));
        }
        // Worker 2 sent nothing of block 1.
        let mut ledger = ledger();
        [0, 1].into_iter().for_each(|worker| ledger.sent(id(worker, 1), None, &[]));
        assert_eq!(ledger.received(&whole(id(0, 1), 3, &6i32.to_be_bytes())), SumOk::Unknown);
        assert_eq!((ledger.strangers(), fates(&mut ledger)), (1, (1, 0, 4)));
    }

    /// A single packet names a transmission: one that was sent, also if it comes again or a sum of all may have held it, or one that was not.
    #[test]
    fn single_packets_at_a_server_name_transmissions_that_were_sent() {
        let workers = Population { cluster_of: vec![0, 0], moves: Vec::new() };
        let again = PacketId::new(1, 0, 1);
        for (at_server, has_come, packet, wanted) in [
            (true, false, id(1, 0), (1, 0, 0)),
            (true, true, id(1, 0), (1, 1, 0)),
            (true, false, id(1, 9), (0, 0, 1)),
            (true, false, again, (0, 0, 1)),
            (true, true, again, (1, 0, 1)),
            // Partial results at workers name any worker of the job.
            (false, false, id(1, 0), (0, 0, 0)),
            (false, false, id(1, 9), (0, 0, 0)),
        ] {
            let nothing = Evidence::Nothing { workers: &workers, merges: true, at_server };
            let subject = Subject::Results { content: Box::new(Numbers), exact: false };
            let mut ledger = Ledger::open(2, subject, nothing);
            [0, 1].into_iter().for_each(|worker| ledger.sent(id(worker, 0), None, &[]));
            for packet in has_come.then_some(id(1, 0)).into_iter().chain([packet]) {
                ledger.received(&whole(packet, 1, &2i32.to_be_bytes()));
            }
            let alone = total(&ledger.close()).delivered_alone;
            assert_eq!((alone, ledger.repeated(), ledger.strangers()), wanted, "{packet:?} {has_come}");
        }
        // A sum of all took the first transmission of worker 1 or the second: whichever arrives by itself, the other one was in the sum. If both
        // arrive, one of them is a copy.
        let never = PacketId::new(1, 0, 2);
        for (singles, wanted) in [
            (&[id(1, 0)][..], (0, 0, 1)),
            (&[again][..], (0, 0, 1)),
            (&[id(1, 0), again][..], (1, 0, 1)),
            (&[again, id(1, 0)][..], (1, 0, 1)),
            (&[id(1, 0), id(1, 0), again, again][..], (3, 0, 1)),
            (&[id(0, 0), id(0, 0)][..], (2, 0, 0)),
            (&[never, never, PacketId::new(0, 0, 1)][..], (0, 3, 0)),
        ] {
            let nothing = Evidence::Nothing { workers: &workers, merges: true, at_server: true };
            let mut ledger = Ledger::open(2, Subject::Results { content: Box::new(Numbers), exact: false }, nothing);
            [id(0, 0), id(1, 0), again].into_iter().for_each(|packet| ledger.sent(packet, None, &[]));
            ledger.received(&whole(id(0, 0), 2, &3i32.to_be_bytes()));
            for packet in singles {
                let value = packet.worker() as i32 + 1;
                assert_eq!(ledger.received(&whole(*packet, 1, &value.to_be_bytes())), SumOk::Yes);
            }
            let found = (ledger.repeated(), ledger.strangers());
            let balance = total(&ledger.close());
            assert_eq!((found.0, found.1, balance.delivered_alone), wanted, "{singles:?}");
            assert_eq!((balance.delivered_merged, balance.unaccounted), (2, 1 - wanted.2), "{singles:?}");
        }
    }

    /// Pushes whose contents do not matter.
    struct Pushes;

    impl Pairs for Pushes {
        fn payload(&mut self, _: PacketId) -> &[u8] {
            &[]
        }
        fn hot(&mut self, _: PacketId) -> &[(u32, f32)] {
            &[]
        }
        fn slots(&self) -> usize {
            1
        }
        fn part(&self) -> usize {
            1
        }
        fn write(&self, _: &[(u32, f32)], _: &mut Vec<u8>) {}
    }

    #[test]
    fn a_result_that_names_an_unknown_worker_is_a_stranger() {
        let mut ledger = Ledger::open(2, Subject::Pairs(Box::new(Pushes), Adder::Exact), Evidence::Books);
        let receipt = Receipt { heat: Some(Heat::Hot), part: Some(0), ..whole(id(1 << 20, 0), 0, &[]) };
        assert_eq!((ledger.received(&receipt), ledger.strangers()), (SumOk::Unknown, 1));
    }

    #[test]
    fn sums_by_key_are_of_pushes_that_were_sent_and_cold_pushes_may_come_again() {
        let workers = Population { cluster_of: vec![0, 0], moves: Vec::new() };
        let subject = Subject::Pairs(Box::new(Pushes), Adder::Exact);
        let mut ledger =
            Ledger::open(2, subject, Evidence::Nothing { workers: &workers, merges: true, at_server: false });
        ledger.sent(id(0, 0), Some(Heat::Hot), &[]);
        ledger.sent(id(0, 1), Some(Heat::Cold), &[]);
        ledger.sent(PacketId::new(0, 1, 1), Some(Heat::Cold), &[]);
        let of = |packet, heat, judged| Receipt { heat: Some(heat), judged, ..whole(packet, 1, &[]) };
        assert_eq!(ledger.received(&of(id(0, 0), Heat::Hot, SumOk::Yes)), SumOk::Yes);
        assert_eq!(ledger.strangers(), 0);
        assert_eq!(ledger.received(&of(id(1, 0), Heat::Hot, SumOk::Yes)), SumOk::Yes);
        assert_eq!(ledger.strangers(), 1, "nobody sent what identifies this sum");
        // A transmission that comes twice came again; a further transmission did not.
        for packet in [id(0, 1), id(0, 1), PacketId::new(0, 1, 1)] {
            ledger.received(&of(packet, Heat::Cold, SumOk::Unknown));
        }
        assert_eq!((ledger.unseen().map(|unseen| unseen.duplicates), ledger.strangers()), (Some(1), 1));
    }
}
