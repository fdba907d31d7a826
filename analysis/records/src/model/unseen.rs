//! Fates if the device is hardware without a ledger (design §2.6): the same rules as those of the ledger (`replay/engine/src/ledger`),
//! applied to the records alone. Packets that did not arrive under their own id are unaccounted for.

use pktgen_core::record::{Family, Heat, Manifest, PacketId};

use super::{Fates, Resolver, State};
use crate::fates::{Fate, Unseen};
use crate::run::Records;
use pktgen_core::index::NOWHERE;

impl Fates {
    /// Resolves the fates of a run whose device was hardware.
    pub(crate) fn resolve_unseen(records: &Records, manifest: &Manifest, family: Family) -> Fates {
        let mut resolver = Resolver::new(records, family, true);
        let unseen = Unseen::of(manifest);
        resolver.fates.member_start.push(0);
        for row in 0..records.received.packet.len() {
            resolver.arrived(records, row, &unseen);
            resolver.fates.member_start.push(resolver.fates.members.len());
        }
        for fate in &mut resolver.fates.fate {
            if *fate == Fate::InFlight {
                *fate = Fate::Unaccounted;
            }
        }
        resolver.fates
    }
}

impl Resolver {
    fn arrived(&mut self, records: &Records, row: usize, unseen: &Unseen) {
        let id = PacketId(records.received.packet[row]);
        let count = usize::from(records.received.count[row]);
        if self.family == Family::Results {
            let packet = self.of_block(id, unseen);
            self.fates.received_packet.push(packet.map_or(NOWHERE, |packet| packet as u32));
            let workers = unseen.workers_of(id);
            let is_whole = !workers.is_empty() && workers.len() == count;
            if packet.is_some() && is_whole {
                self.result(id, count, workers);
            } else if packet.is_some() && unseen.at_server && count == 1 {
                self.single(id, records, records.received.t_recv_ps[row]);
            }
            return;
        }
        let packet = self.named(id.0);
        self.fates.received_packet.push(packet.map_or(NOWHERE, |packet| packet as u32));
        let Some(packet) = packet else { return };
        // A hot packet is a sum with unknown members.
        let by_key = self.family == Family::Pairs;
        if by_key && records.received.heat[row] == Heat::Hot as u8 {
            return;
        }
        match self.state[packet] {
            State::Open => self.deliver_unseen(packet, count == 1 || by_key),
            _ => {
                self.fates.duplicates += 1;
                self.fates.members.push(packet as u32);
            }
        }
    }

    /// Returns the packet that a result is known by: an external device may use the id of any worker of the job,
    /// whether or not it sent the block.
    fn of_block(&mut self, id: PacketId, unseen: &Unseen) -> Option<usize> {
        let of_job = unseen.workers_of(id).iter().map(|worker| PacketId::new(*worker, id.seq(), 0).0);
        let known = std::iter::once(id.0).chain(of_job).find_map(|id| self.index.get(&id));
        known.map(|packet| *packet as usize).or_else(|| self.named(id.0))
    }

    /// Records that a result of all workers of its job has delivered the first open transmission of each. The first such result may hold
    /// packets that arrived by themselves, too.
    fn result(&mut self, id: PacketId, count: usize, workers: &[u32]) {
        let open = |worker: &u32| self.transmissions(*worker, id.seq()).find(|packet| self.is_under_way(*packet));
        let members: Vec<_> = workers.iter().filter_map(open).collect();
        let is_complete = members.len() == workers.len();
        let has_come = |worker: &u32, fate: Fate| self.has_come(*worker, id.seq(), fate);
        let came_alone = |worker: &u32| has_come(worker, Fate::DeliveredAlone);
        let has_whole = || workers.iter().any(|worker| has_come(worker, Fate::DeliveredMerged));
        let others_came = || workers.iter().all(|worker| open(worker).is_some() || came_alone(worker));
        if is_complete || !members.is_empty() && others_came() && !has_whole() {
            members.iter().for_each(|member| self.deliver_unseen(*member, count == 1));
        } else if workers.iter().any(came_alone) || has_whole() {
            // It came again only if packets of this block had come.
            self.fates.duplicates += 1;
        } else {
            self.fates.contradictions += 1;
        }
    }

    /// Records that a single packet at a server has delivered itself, came again, or names a transmission that was never sent. If a sum of all
    /// workers took its transmission, that held another one of its worker that is under way, or else this one is a copy.
    fn single(&mut self, id: PacketId, records: &Records, now: i64) {
        let own = self.index.get(&id.0).map(|own| *own as usize);
        if let Some(own) = own.filter(|own| self.is_under_way(*own)) {
            return self.deliver_unseen(own, true);
        }
        let Some(own) = own.filter(|own| self.state[*own] == State::Delivered) else {
            self.fates.contradictions += 1;
            return;
        };
        let is_sent = |packet: usize| records.sent.t_sent_ps[packet].is_some_and(|t| t <= now);
        let is_other = |packet: &usize| self.is_under_way(*packet) && is_sent(*packet);
        let other = self.transmissions(id.worker(), id.seq()).find(is_other);
        match other.filter(|_| self.fates.fate[own] == Fate::DeliveredMerged) {
            Some(other) => {
                // The sum held this one.
                self.fates.fate[other] = Fate::DeliveredMerged;
                self.state[other] = State::Delivered;
                self.deliver_unseen(own, true);
            }
            None => self.fates.duplicates += 1,
        }
    }

    fn is_under_way(&self, packet: usize) -> bool {
        self.state[packet] == State::Open && self.fates.fate[packet] != Fate::Withheld
    }

    /// Returns the transmissions of a block by a worker.
    fn transmissions(&self, worker: u32, seq: u32) -> impl Iterator<Item = usize> {
        let attempts = (0..=u8::MAX).map(move |attempt| PacketId::new(worker, seq, attempt).0);
        attempts.map_while(move |id| self.index.get(&id)).map(|packet| *packet as usize)
    }

    /// Whether a transmission of this block by this worker was delivered with this fate.
    fn has_come(&self, worker: u32, seq: u32, fate: Fate) -> bool {
        let mut all = self.transmissions(worker, seq);
        all.any(|packet| self.state[packet] == State::Delivered && self.fates.fate[packet] == fate)
    }

    fn deliver_unseen(&mut self, packet: usize, alone: bool) {
        self.fates.fate[packet] = if alone { Fate::DeliveredAlone } else { Fate::DeliveredMerged };
        self.state[packet] = State::Delivered;
        self.fates.members.push(packet as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Story;

    #[test]
    fn what_arrived_is_known_and_the_rest_is_unaccounted_for() {
        let mut story = Story::new();
        for worker in 0..4 {
            story.sent(worker, 0, (worker != 3).then_some(0), 0);
        }
        // One alone, and again; one that contains another.
        story.received(5, 0, 0, 1).received(6, 0, 0, 1).received(7, 1, 0, 2);
        let fates = Fates::resolve_unseen(&story.records, &story.manifest(), Family::Updates);
        assert_eq!(fates.fate, [Fate::DeliveredAlone, Fate::DeliveredMerged, Fate::Unaccounted, Fate::Withheld]);
        let balance = fates.balance();
        assert_eq!((balance.unaccounted, balance.unknown, fates.duplicates, fates.contradictions), (1, 0, 1, 0));
        assert_eq!(Fates::resolve(&story.records).balance().unknown, 1, "with books that sum would be a contradiction");
    }

    #[test]
    fn a_result_of_all_of_which_one_sent_nothing_is_a_contradiction() {
        let mut story = Story::new();
        story.sent_seq(0, 4, 0, Some(0), 0).sent_seq(1, 4, 0, Some(0), 0).sent_seq(0, 5, 0, Some(0), 0);
        for (t, seq) in [(5, 4), (6, 5), (7, 4)] {
            story.received_seq(t, 0, seq, 0, 2);
        }
        let fates = Fates::resolve_unseen(&story.records, &story.manifest(), Family::Results);
        assert_eq!((fates.duplicates, fates.contradictions), (1, 1), "block 4 came again");
    }

    /// ATP: what found no aggregator arrives by itself.
    #[test]
    fn single_packets_at_a_server_deliver_themselves() {
        let mut story = Story::new();
        (0..4).for_each(|worker| _ = story.sent_seq(worker, 0, 0, Some(0), 0).sent_seq(worker, 1, 0, Some(0), 0));
        story.received_seq(5, 0, 0, 0, 4);
        (0..4).for_each(|worker| _ = story.received_seq(6, worker, 1, 0, 1));
        story.received_seq(7, 0, 1, 0, 4);
        let mut manifest = story.manifest();
        let of = |manifest: &Manifest| {
            let fates = Fates::resolve_unseen(&story.records, manifest, Family::Results);
            let balance = fates.balance();
            (balance.delivered_merged, balance.delivered_alone, balance.unaccounted, fates.contradictions)
        };
        assert_eq!(of(&manifest), (8, 0, 0, 0), "results at workers: the last one delivers");
        manifest.unseen = Some(pktgen_core::record::Unseen { at_server: true, ..Default::default() });
        assert_eq!(of(&manifest), (4, 4, 0, 0), "the last one came again");
    }

    #[test]
    fn a_whole_sum_may_hold_packets_that_arrived_by_themselves() {
        let mut story = Story::new();
        (0..4).for_each(|worker| _ = story.sent_seq(worker, 0, 0, Some(0), 0));
        story.sent_again(1, 0, 1, 1, 0).received_seq(5, 0, 0, 0, 1).received_seq(6, 3, 0, 0, 4);
        let mut manifest = story.manifest();
        manifest.unseen = Some(pktgen_core::record::Unseen { at_server: true, ..Default::default() });
        let of = |story: &Story| {
            let fates = Fates::resolve_unseen(&story.records, &manifest, Family::Results);
            let balance = fates.balance();
            let delivered = (balance.delivered_alone, balance.delivered_merged, balance.unaccounted);
            (delivered, fates.duplicates, fates.contradictions)
        };
        assert_eq!(of(&story), ((1, 3, 1), 0, 0));
        story.received_seq(7, 3, 0, 0, 4);
        assert_eq!(of(&story), ((1, 3, 1), 1, 0), "a copy does not deliver what a worker sent again");
    }

    /// Those of another attempt, and of a block that nobody sent, were never sent.
    #[test]
    fn single_packets_at_a_server_name_transmissions_that_were_sent() {
        let of = |attempt: u8, times: i64| {
            let mut story = Story::new();
            (0..4).for_each(|worker| _ = story.sent_seq(worker, 0, 0, Some(0), 0));
            (0..times).for_each(|time| _ = story.attempt_received(5 + time, PacketId::new(1, 0, attempt), 0, true));
            let mut manifest = story.manifest();
            manifest.unseen = Some(pktgen_core::record::Unseen { at_server: true, ..Default::default() });
            let fates = Fates::resolve_unseen(&story.records, &manifest, Family::Results);
            (fates.balance().delivered_alone, fates.duplicates, fates.contradictions)
        };
        assert_eq!((of(0, 1), of(0, 2), of(1, 1)), ((1, 0, 0), (1, 1, 0), (0, 0, 1)));
    }

    /// Worker 1 sent twice, and a sum of all came first.
    #[test]
    fn single_packets_may_arrive_after_the_sum() {
        let of = |singles: &[PacketId]| {
            let mut story = Story::new();
            (0..4).for_each(|worker| _ = story.sent_seq(worker, 0, 0, Some(0), 0));
            story.sent_again(1, 0, 1, 1, 0).received_seq(5, 3, 0, 0, 4);
            singles.iter().for_each(|packet| _ = story.attempt_received(6, *packet, 0, true));
            let mut manifest = story.manifest();
            manifest.unseen = Some(pktgen_core::record::Unseen { at_server: true, ..Default::default() });
            let fates = Fates::resolve_unseen(&story.records, &manifest, Family::Results);
            (fates.fate[1], fates.fate[4], fates.duplicates, fates.contradictions)
        };
        let [first, again, never, other] =
            [(1, 0), (1, 1), (1, 2), (0, 0)].map(|(worker, attempt)| PacketId::new(worker, 0, attempt));
        let (alone, merged, open) = (Fate::DeliveredAlone, Fate::DeliveredMerged, Fate::Unaccounted);
        assert_eq!(of(&[first]), (alone, merged, 0, 0), "the sum held the other one");
        assert_eq!(of(&[again]), (merged, alone, 0, 0));
        assert_eq!(of(&[first, again]), (alone, merged, 1, 0), "one of them was in the sum");
        assert_eq!(of(&[again, first]), (merged, alone, 1, 0));
        assert_eq!(of(&[first, first, again, again]), (alone, merged, 3, 0));
        assert_eq!(of(&[other, other]), (merged, open, 2, 0));
        assert_eq!(of(&[never, never]), (merged, open, 0, 2));
        // Worker 1 sends again only after the single packet came, which was in the sum then.
        let mut story = Story::new();
        (0..4).for_each(|worker| _ = story.sent_seq(worker, 0, 0, Some(0), 0));
        story.sent_again(1, 0, 1, 7, 0).received_seq(5, 3, 0, 0, 4).attempt_received(6, first, 0, true);
        let mut manifest = story.manifest();
        manifest.unseen = Some(pktgen_core::record::Unseen { at_server: true, ..Default::default() });
        let fates = Fates::resolve_unseen(&story.records, &manifest, Family::Results);
        assert_eq!((fates.fate[1], fates.fate[4], fates.duplicates, fates.contradictions), (merged, open, 1, 0));
    }

    #[test]
    fn a_partial_result_may_name_a_worker_of_the_job_that_sent_nothing() {
        let mut story = Story::new();
        (0..4).for_each(|worker| _ = story.sent(worker, 0, (worker != 3).then_some(0), 0));
        story.sent_seq(0, 1, 0, Some(0), 0);
        story.received(5, 3, 0, 3).received_seq(6, 3, 1, 0, 1).received_seq(7, 3, 9, 0, 1);
        let fates = Fates::resolve_unseen(&story.records, &story.manifest(), Family::Results);
        assert_eq!((fates.balance().unaccounted, fates.contradictions), (4, 1), "nobody sent block 9");
        assert_eq!(
            &fates.received_packet[..2].iter().map(|packet| *packet != NOWHERE).collect::<Vec<_>>(),
            &[true, true]
        );
    }
}
