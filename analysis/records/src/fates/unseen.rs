//! Fates if the device is hardware without a ledger (design §2.6): the same rules as those of the ledger (`replay/engine/src/ledger`),
//! applied to the records alone. Packets that did not arrive under their own id are unaccounted for.

use pktgen_core::record::{Family, Heat, Manifest, PacketId};

use super::{Fate, Resolver, State};
use crate::columns::ReceivedColumns;

/// What a resolver must know about such a run.
#[derive(Debug)]
pub(crate) struct Unseen {
    cluster_of: Vec<u16>,
    clusters: Vec<Vec<u32>>,
    /// Whether results are packets at a server, which adds what devices did not.
    pub(crate) at_server: bool,
}

impl Unseen {
    /// Reads the clusters of workers.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let mut clusters: Vec<Vec<u32>> = Vec::new();
        for (worker, cluster) in (0u32..).zip(&manifest.clusters) {
            let cluster = usize::from(*cluster);
            if clusters.len() <= cluster {
                clusters.resize(cluster + 1, Vec::new());
            }
            clusters[cluster].push(worker);
        }
        let at_server = manifest.unseen.as_ref().is_some_and(|unseen| unseen.at_server);
        Unseen { cluster_of: manifest.clusters.clone(), clusters, at_server }
    }

    /// Returns the workers of the job of a packet's worker; empty for an unknown worker.
    pub(crate) fn workers_of(&self, id: PacketId) -> &[u32] {
        let cluster = self.cluster_of.get(id.worker() as usize).map(|cluster| usize::from(*cluster));
        cluster.and_then(|cluster| self.clusters.get(cluster)).map_or(&[], Vec::as_slice)
    }
}

impl Resolver {
    pub(super) fn arrived(&mut self, received: &ReceivedColumns, row: usize, unseen: &Unseen) -> Option<u32> {
        let id = PacketId(received.packet[row]);
        let count = usize::from(received.count[row]);
        if self.family == Family::Results {
            let packet = self.of_block(id, unseen)?;
            self.result(id, count, unseen);
            return Some(packet);
        }
        let packet = self.named(id.0)?;
        // Hot pairs are sums, and nothing lists their members.
        let by_key = self.family == Family::Pairs;
        if by_key && received.heat[row] == Heat::Hot as u8 {
            return Some(packet);
        }
        match self.packets.state(packet) {
            State::Open => self.deliver_unseen(packet, count == 1 || by_key),
            _ => {
                self.duplicates += 1;
                self.members.push(packet);
            }
        }
        Some(packet)
    }

    /// Returns the packet that a result is known by: an external device may use the id of any worker of the job,
    /// whether or not it sent the block.
    fn of_block(&mut self, id: PacketId, unseen: &Unseen) -> Option<u32> {
        let of_job = unseen.workers_of(id).iter().map(|worker| PacketId::new(*worker, id.seq(), 0).0);
        let known = std::iter::once(id.0).chain(of_job).find_map(|id| self.packets.number(id));
        known.or_else(|| self.named(id.0))
    }

    /// Records that a result of all workers of its job has delivered the first open transmission of each, and a single packet at a server
    /// itself. The first such result may hold packets that arrived by themselves, too.
    fn result(&mut self, id: PacketId, count: usize, unseen: &Unseen) {
        let workers = unseen.workers_of(id);
        if workers.is_empty() || workers.len() != count {
            if unseen.at_server && count == 1 {
                self.single(id);
            }
            return;
        }
        let open = |worker: &u32| self.transmissions(*worker, id.seq()).find(|packet| self.is_under_way(*packet));
        let members: Vec<u32> = workers.iter().filter_map(open).collect();
        let is_complete = members.len() == workers.len();
        let has_come = |worker: &u32, fate: Fate| self.has_come(*worker, id.seq(), fate);
        let came_alone = |worker: &u32| has_come(worker, Fate::DeliveredAlone);
        let has_whole = || workers.iter().any(|worker| has_come(worker, Fate::DeliveredMerged));
        let others_came = || workers.iter().all(|worker| open(worker).is_some() || came_alone(worker));
        if is_complete || !members.is_empty() && others_came() && !has_whole() {
            members.iter().for_each(|member| self.deliver_unseen(*member, count == 1));
        } else if workers.iter().any(came_alone) || has_whole() {
            // It came again only if packets of this block had come.
            self.duplicates += 1;
        } else {
            self.contradictions += 1;
        }
    }

    /// Records that a single packet at a server has delivered itself, came again, or names a transmission that was never sent. If a sum of all
    /// workers took its transmission, that held another one of its worker that is under way, or else this one is a copy.
    fn single(&mut self, id: PacketId) {
        let own = self.packets.number(id.0);
        if let Some(own) = own.filter(|own| self.is_under_way(*own)) {
            return self.deliver_unseen(own, true);
        }
        let Some(own) = own.filter(|own| self.packets.state(*own) == State::Delivered) else {
            self.contradictions += 1;
            return;
        };
        let is_sent = |packet: u32| self.packets.t_sent(packet).is_some_and(|t| t <= self.now);
        let is_other = |packet: &u32| self.is_under_way(*packet) && is_sent(*packet);
        let other = self.transmissions(id.worker(), id.seq()).find(is_other);
        match other.filter(|_| self.packets.fate(own) == Fate::DeliveredMerged) {
            Some(other) => self.exchange(own, other),
            None => self.duplicates += 1,
        }
    }

    /// Records that a sum held `other` in place of `own`, which arrives by itself.
    fn exchange(&mut self, own: u32, other: u32) {
        self.settle_one(other, Fate::DeliveredMerged, other);
        if let Some(ends) = &mut self.ends {
            ends[other as usize].t_ps = ends[own as usize].t_ps;
        }
        self.packets.set_state(other, State::Delivered);
        self.deliver_unseen(own, true);
    }

    fn is_under_way(&self, packet: u32) -> bool {
        self.packets.state(packet) == State::Open && self.packets.fate(packet) != Fate::Withheld
    }

    /// Returns the transmissions of a block by a worker.
    fn transmissions(&self, worker: u32, seq: u32) -> impl Iterator<Item = u32> {
        (0..=u8::MAX).map_while(move |attempt| self.packets.number(PacketId::new(worker, seq, attempt).0))
    }

    /// Whether a transmission of this block by this worker was delivered with this fate.
    fn has_come(&self, worker: u32, seq: u32, fate: Fate) -> bool {
        let mut all = self.transmissions(worker, seq);
        all.any(|packet| self.packets.state(packet) == State::Delivered && self.packets.fate(packet) == fate)
    }

    fn deliver_unseen(&mut self, packet: u32, alone: bool) {
        self.settle_one(packet, if alone { Fate::DeliveredAlone } else { Fate::DeliveredMerged }, packet);
        self.packets.set_state(packet, State::Delivered);
        self.members.push(packet);
    }
}
