//! The account of a device that keeps no books: hardware (design §2.6).
//!
//! What workers sent and what arrived is all that is known. A packet that says that it is one update has delivered it; one
//! that says that it is a sum has delivered the member that it is known by, and who else is in it nobody says. A result of all
//! workers of a job has delivered the packet of each. The rest is unaccounted for: merged, replaced or lost.

use std::collections::{HashMap, HashSet};

use pktgen_generator::record::{PacketId, SumOk, Unseen};
use pktgen_generator::topology::Population;

use super::{Fate, Ledger};
use crate::settle::Proven;

/// What is known beside the groups under way.
pub(super) struct BlackBox {
    /// May the device merge or replace updates?
    merges: bool,
    cluster_of: Vec<u16>,
    clusters: Vec<Vec<u32>>,
    /// Ids that arrived.
    arrived: HashSet<u64>,
    /// What arrived without a name, by worker and digest.
    unnamed: HashMap<(u32, u64), PacketId>,
    /// Packets that arrived again.
    repeated: u64,
    /// Packets that say that they are one update and carry something else.
    different: u64,
    /// Packets that are sums of nobody knows what.
    sums: u64,
    /// Those whose members lanes prove, and the least error that they would have shown.
    proven: u64,
    smallest: Option<f64>,
}

impl Ledger {
    /// The same of a device that keeps no books, which may merge or replace updates or only forwards them.
    pub fn without_books(mut self, workers: &Population, merges: bool) -> Self {
        let mut clusters = vec![Vec::new(); workers.clusters_ever()];
        for (worker, cluster) in (0u32..).zip(&workers.cluster_of) {
            if let Some(own) = clusters.get_mut(usize::from(*cluster)) {
                own.push(worker);
            }
        }
        let cluster_of = workers.cluster_of.clone();
        let arrived = HashSet::new();
        self.black_box = Some(Box::new(BlackBox {
            merges,
            cluster_of,
            clusters,
            arrived,
            unnamed: HashMap::new(),
            repeated: 0,
            different: 0,
            sums: 0,
            proven: 0,
            smallest: None,
        }));
        self
    }

    /// What is known of the device by what arrived; none of one that keeps books.
    pub fn unseen(&self) -> Option<Unseen> {
        let own = self.black_box.as_ref()?;
        Some(Unseen {
            merges: own.merges,
            duplicates: own.repeated,
            damaged: own.different,
            unchecked: own.sums,
            checked_by_lanes: own.proven,
            smallest_error: own.smallest.map(|error| format!("{error:.2e}")),
        })
    }

    /// The cluster of each worker, if the device keeps no books.
    pub fn unseen_clusters(&self) -> Option<&[u16]> {
        self.black_box.as_ref().map(|own| &own.cluster_of[..])
    }

    /// Does a packet whose header says this count say that it is one update?
    pub fn says_it_is_one(&self, count: u16) -> bool {
        match (&self.black_box, self.is_nameless()) {
            // A strict layout has no count: what is only forwarded is one update.
            (Some(own), true) => !own.merges,
            _ => count == 1,
        }
    }

    /// Sums were checked by the members that lanes prove.
    pub fn proven(&mut self, proven: &Proven) {
        let Some(own) = &mut self.black_box else { return };
        own.sums = own.sums.saturating_sub(proven.right + proven.wrong);
        own.different = own.different.saturating_sub(proven.unsaid + proven.wrong_single);
        own.proven += proven.right + proven.wrong + proven.unsaid + proven.wrong_single;
        own.smallest = proven.smallest;
    }

    /// So many results came to workers that had them already.
    pub fn came_again(&mut self, results: u64) {
        if let Some(own) = &mut self.black_box {
            own.repeated += results;
        }
    }

    /// A packet left a worker, and nothing more is known of it until it arrives.
    #[inline]
    pub fn left_unseen(&mut self, packet: PacketId) {
        if self.black_box.is_some() {
            self.leaves(packet);
        }
    }

    /// A packet without a name arrived: it holds what `packet` does, or nothing that was sent and has not arrived.
    pub(super) fn unseen_unnamed(
        &mut self,
        worker: u32,
        digest: u64,
        packet: Option<PacketId>,
    ) -> (SumOk, Option<(PacketId, u16)>) {
        let Some(own) = &mut self.black_box else { return (SumOk::Unknown, None) };
        if let Some(packet) = packet {
            own.arrived.insert(packet.0);
            own.unnamed.insert((worker, digest), packet);
            self.deliver_unseen(packet, true);
            return (SumOk::Yes, Some((packet, 1)));
        }
        if let Some(again) = own.unnamed.get(&(worker, digest)) {
            own.repeated += 1;
            return (SumOk::Unknown, Some((*again, 1)));
        }
        own.sums += u64::from(own.merges);
        own.different += u64::from(!own.merges);
        (SumOk::Unknown, None)
    }

    /// A packet of updates arrived.
    pub(super) fn unseen_delivered(
        &mut self,
        packet: PacketId,
        count: u16,
        same: impl FnOnce(&[f32]) -> bool,
    ) -> SumOk {
        let (Some(own), Some(group)) = (&mut self.black_box, self.groups.get_mut(packet)) else {
            return self.unseen_again(packet);
        };
        own.arrived.insert(packet.0);
        let start = group.first as usize * self.stride;
        let sum = &self.values[start..start + usize::from(group.elements)];
        let alone = count == 1;
        let known = self.stride > 0 && alone;
        let right = known && same(sum);
        own.different += u64::from(known && !right);
        own.sums += u64::from(!alone);
        self.deliver_unseen(packet, alone);
        if right { SumOk::Yes } else { SumOk::Unknown }
    }

    /// A result arrived at the workers of a job.
    pub(super) fn unseen_result(&mut self, packet: PacketId, count: u16, same: impl FnOnce(&[i32]) -> bool) -> SumOk {
        let Some(own) = &mut self.black_box else { return SumOk::Unknown };
        let cluster = own.cluster_of.get(packet.worker() as usize).map(|cluster| usize::from(*cluster));
        let Some(workers) = cluster.and_then(|cluster| own.clusters.get(cluster)) else {
            return self.unseen_again(packet);
        };
        if usize::from(count) != workers.len() {
            own.sums += 1;
            return SumOk::Unknown;
        }
        let (seq, groups) = (packet.seq(), &mut self.groups);
        let mut first_attempt = |worker: &u32| {
            (0..=u8::MAX).map(|attempt| PacketId::new(*worker, seq, attempt)).find(|id| groups.get_mut(*id).is_some())
        };
        let members: Vec<_> = workers.iter().filter_map(&mut first_attempt).collect();
        // What a result is known by: all of a job have the same numbers.
        let known = PacketId::new(workers[0], seq, 0);
        if members.len() < workers.len() {
            return self.unseen_again(known);
        }
        own.arrived.insert(known.0);
        self.sums.fill(0);
        let Some(content) = &mut self.content else { return SumOk::Unknown };
        let elements = content.add(&members, &mut self.sums);
        let right = same(&self.sums[..elements]);
        members.iter().for_each(|member| self.deliver_unseen(*member, members.len() == 1));
        if right { SumOk::Yes } else { SumOk::No }
    }

    /// One transmission is delivered; nobody else with it.
    fn deliver_unseen(&mut self, packet: PacketId, alone: bool) {
        if let Some(group) = self.groups.remove(packet) {
            self.fates[packet.worker() as usize].count(Fate::Delivered, alone);
            self.free.push(group.first);
        }
    }

    /// A packet arrived that is not under way.
    fn unseen_again(&mut self, packet: PacketId) -> SumOk {
        match &mut self.black_box {
            Some(own) if own.arrived.contains(&packet.0) => own.repeated += 1,
            _ => self.strangers += 1,
        }
        SumOk::Unknown
    }

    /// What has not arrived in the end, nobody can account for.
    pub(super) fn close_unseen(&mut self) {
        if self.black_box.is_some() {
            for fates in &mut self.fates {
                fates.unaccounted += std::mem::take(&mut fates.in_flight);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::Unseen;
    use pktgen_generator::topology::Population;

    fn bytes(value: f32) -> Vec<u8> {
        value.to_le_bytes().to_vec()
    }

    fn id(worker: u32, seq: u32) -> PacketId {
        PacketId::new(worker, seq, 0)
    }

    #[test]
    fn what_nobody_saw_is_a_line_of_its_own_and_the_balance_closes() {
        let workers = Population { cluster_of: vec![0, 0, 0], moves: Vec::new() };
        let mut ledger = Ledger::new(3, 1, None).without_books(&workers, true);
        for (worker, seq) in [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)] {
            ledger.sent(id(worker, seq), &bytes((worker + 10 * seq) as f32));
        }
        ledger.withheld(2);
        assert_eq!(ledger.received(id(0, 0), 1, 0, &bytes(0.0)), SumOk::Yes);
        assert_eq!(ledger.received(id(1, 0), 2, 0, &bytes(3.0)), SumOk::Unknown, "a sum of whom, nobody says");
        assert_eq!(ledger.received(id(0, 1), 1, 0, &bytes(7.0)), SumOk::Unknown, "not what was sent");
        assert_eq!(ledger.received(id(0, 1), 1, 0, &bytes(7.0)), SumOk::Unknown);
        assert_eq!(ledger.strangers(), 0, "it came again");
        ledger.received(id(0, 9), 1, 0, &bytes(7.0));
        assert_eq!(ledger.strangers(), 1, "nobody sent it");
        let balance = total(&ledger.close());
        let fates = (balance.delivered_alone, balance.delivered_merged, balance.unaccounted, balance.in_flight);
        assert_eq!((fates, balance.sent, balance.unknown), ((2, 1, 2, 0), 5, 0));
        let expected = Unseen { merges: true, duplicates: 1, damaged: 1, unchecked: 1, ..Unseen::default() };
        assert_eq!((ledger.unseen(), Ledger::new(1, 1, None).unseen()), (Some(expected), None));
    }

    /// Every contribution is its worker's number and 1.
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
    fn a_result_of_all_workers_is_checked_and_one_of_some_is_not() {
        let workers = Population { cluster_of: vec![0, 0, 1], moves: Vec::new() };
        let mut ledger = Ledger::of_results(3, Box::new(Numbers)).without_books(&workers, true);
        for (worker, seq) in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (1, 2)] {
            ledger.sent(id(worker, seq), &[]);
        }
        // Sent again, and in flight still.
        ledger.sent(PacketId::new(1, 0, 1), &[]);
        assert_eq!(ledger.received(id(0, 0), 2, 0, &3i32.to_be_bytes()), SumOk::Yes);
        assert_eq!(ledger.received(id(0, 1), 1, 0, &1i32.to_be_bytes()), SumOk::Unknown, "of some");
        assert_eq!(ledger.received(id(2, 0), 1, 0, &3i32.to_be_bytes()), SumOk::Yes, "a job of one worker");
        assert_eq!(ledger.received(id(0, 2), 2, 0, &4i32.to_be_bytes()), SumOk::No);
        ledger.received(id(0, 0), 2, 0, &3i32.to_be_bytes());
        assert_eq!(ledger.strangers(), 0);
        let balance = total(&ledger.close());
        let fates = (balance.delivered_alone, balance.delivered_merged, balance.unaccounted);
        assert_eq!((fates, balance.sent, balance.unknown), ((1, 4, 3), 8, 0));
    }
}
