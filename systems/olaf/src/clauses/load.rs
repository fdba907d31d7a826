//! Workers of a card in a performance trial: updates whose gradients identify their sender and number.
//!
//! Member j of a cluster has two gradients of its own: the count of its updates and the sum of their numbers. A merge
//! adds both, so a departing packet shows its contents. Updates are sent when they are due, by the workers in turn,
//! with random order among those due at the same time.

use std::collections::BTreeMap;

use pktgen_core::age::Sawtooth;
use pktgen_core::seed::mix;
use pktgen_core::time::Time;
use pktgen_engine::clause::{LoadAccount, LoadModel, LoadWorkers, OfferedLoad, ProbeGround, ProbeMemory};
use pktgen_wire::wire::frame::{Datagram, HEAD, SERVER_IP, Template, any_worker, worker_ip};
use pktgen_wire::wire::update::UPDATE_HEAD;

use crate::strict::{self, PORT, Update, WORKER_PORT};

/// Numbers of a worker's updates, before they begin again: sums of sixteen are exact in 32 bits.
const NUMBERS: u64 = 1 << 20;

/// The load model of devices.
pub(super) static LOAD: LoadModel = LoadModel {
    unit: "updates",
    longest: |ground, _| (ground.clusters().len() as u64, "a cluster's second update would replace or merge"),
    step: |_| 1,
    open: |ground, _, load| Ok(Box::new(Updates::new(ground, load)?)),
};

/// Fate of an update, as far as departures show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Missing,
    Unmerged,
    Merged,
    Wrong,
}

/// A sending worker.
struct Sender {
    port: u16,
    cluster: usize,
    /// Index of its gradients.
    lane: usize,
    frame: Vec<u8>,
}

/// A packet that left.
struct Departure {
    t: Time,
    cluster: usize,
    is_right: bool,
    /// The first and the last update in it.
    first: u64,
    last: u64,
}

/// The sending workers and the fates of their updates.
struct Updates {
    load: OfferedLoad,
    /// Number of slots in which updates may wait.
    slots: usize,
    senders: Vec<Sender>,
    /// Clusters by worker.
    cluster_of: BTreeMap<u32, usize>,
    /// Senders of each cluster, by their index in it.
    members: Vec<Vec<usize>>,
    server: u16,
    /// When each update left its worker, and its fate.
    sent: Vec<Time>,
    fates: Vec<Fate>,
    departures: Vec<Departure>,
    open: u64,
    values: Vec<f32>,
    account: LoadAccount,
}

impl Updates {
    fn new(ground: &ProbeGround, load: OfferedLoad) -> Result<Self, String> {
        let server = ground.server.ok_or("the experiment has no server")?;
        let lanes = ground.frame_bytes.saturating_sub(HEAD + UPDATE_HEAD) / 4;
        let most = if load.shares { lanes / 2 } else { 1 };
        let clusters: Vec<_> = ground.clusters().into_iter().map(|cluster| ground.members(cluster)).collect();
        let longest = clusters.iter().map(|own| own.len().min(most)).max().unwrap_or_default();
        let slots = ground.number("target.slots").and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let mut own = Updates {
            slots: slots.saturating_sub(usize::from(ground.flag("target.slot_in_transmission"))).max(1),
            senders: Vec::new(),
            cluster_of: BTreeMap::new(),
            members: vec![Vec::new(); clusters.len()],
            server,
            sent: Vec::with_capacity(load.count() as usize),
            fates: Vec::with_capacity(load.count() as usize),
            departures: Vec::with_capacity(load.count() as usize),
            open: 0,
            values: vec![0.0; lanes],
            account: LoadAccount { offered: load.count(), ..LoadAccount::default() },
            load,
        };
        let mut all: Vec<(usize, usize, u32)> = Vec::new();
        for place in 0..longest {
            let of = |(cluster, members): (usize, &Vec<u32>)| Some((place, cluster, *members.get(place)?));
            all.extend(clusters.iter().enumerate().filter_map(of));
        }
        if own.load.shares {
            all.sort_by_key(|(.., worker)| mix(own.load.draw ^ u64::from(*worker)));
        }
        for (place, cluster, worker) in all {
            own.members[cluster].push(own.senders.len());
            let port = ground.port_towards(worker);
            own.senders.push(Sender { port, cluster, lane: place * 2, frame: frame(worker, place * 2, lanes) });
            own.cluster_of.insert(worker, cluster);
        }
        if own.senders.is_empty() || lanes < 2 {
            return Err(format!("updates of {} bytes have no room for two gradients", ground.frame_bytes));
        }
        Ok(own)
    }

    /// Returns the update of a sender with this number, if it was sent and has not left.
    fn find(&self, sender: usize, number: u64) -> Option<u64> {
        let (senders, sender) = (self.senders.len() as u64, sender as u64);
        // The latest one of this number.
        let sent = (self.sent.len() as u64 + senders - 1 - sender) / senders;
        let at = number.checked_sub(1).filter(|at| *at < NUMBERS)?;
        let n = (at + sent.checked_sub(at + 1)? / NUMBERS * NUMBERS) * senders + sender;
        (self.fates.get(n as usize) == Some(&Fate::Missing)).then_some(n)
    }

    /// Returns the updates in a packet of this cluster; `None` if it does not show them.
    fn contents(&self, cluster: usize) -> Option<Vec<u64>> {
        let mut all = Vec::new();
        for &sender in &self.members[cluster] {
            let lane = self.senders[sender].lane;
            let (count, sum) = (f64::from(self.values[lane]), f64::from(self.values[lane + 1]));
            if count == 0.0 && sum == 0.0 {
                continue;
            }
            // The updates of one worker in a merge have consecutive numbers.
            let first = (sum - count * (count - 1.0) / 2.0) / count;
            if count < 1.0 || count != count.trunc() || first < 1.0 || first != first.trunc() {
                return None;
            }
            for number in first as u64..first as u64 + count as u64 {
                all.push(self.find(sender, number)?);
            }
        }
        (!all.is_empty()).then_some(all)
    }

    /// Records a packet of this cluster that left at `t`.
    fn depart(&mut self, cluster: usize, reward: f32, t: Time) {
        let Some(all) = self.contents(cluster) else { return };
        // Unused gradients stay 0.
        let used = self.members[cluster].len() * 2;
        let is_right = reward == 0.0 && self.values[used..].iter().all(|value| *value == 0.0);
        let fate = match (is_right, all.len()) {
            (false, _) => Fate::Wrong,
            (true, 1) => Fate::Unmerged,
            (true, _) => Fate::Merged,
        };
        for &n in &all {
            self.fates[n as usize] = fate;
        }
        let count = all.len() as u64;
        self.open -= count;
        let of = match fate {
            Fate::Unmerged => &mut self.account.forwarded,
            Fate::Merged => &mut self.account.merged,
            _ => &mut self.account.wrong,
        };
        *of += count;
        if fate == Fate::Unmerged {
            self.account.latency.add(t - self.sent[all[0] as usize]);
        }
        let (first, last) =
            (all.iter().min().copied().unwrap_or_default(), all.iter().max().copied().unwrap_or_default());
        self.departures.push(Departure { t, cluster, is_right, first, last });
    }

    /// Returns the Age-of-Model of each cluster that sent, from its first update to the end of the schedule: a
    /// departing packet is as old as its newest update (design §4).
    fn ages(&self) -> Vec<f64> {
        let end = self.load.length();
        let mut ages = vec![Sawtooth::default(); self.members.len()];
        for (age, members) in ages.iter_mut().zip(&self.members) {
            let first = members.first().and_then(|first| self.sent.get(*first));
            first.into_iter().for_each(|t| age.generated(*t));
        }
        let mut departures: Vec<_> = self.departures.iter().filter(|own| own.is_right && own.t <= end).collect();
        departures.sort_by_key(|own| own.t);
        departures.iter().for_each(|own| ages[own.cluster].delivered(own.t, self.sent[own.last as usize]));
        ages.iter_mut().for_each(|age| age.advance(end));
        ages.iter().filter_map(Sawtooth::mean).collect()
    }

    /// Returns the next update of a cluster after this one, if one was sent.
    fn next_of(&self, cluster: usize, n: u64) -> Option<u64> {
        let senders = self.senders.len() as u64;
        let (round, at) = (n / senders, (n % senders) as usize);
        let members = &self.members[cluster];
        let later = members.iter().find(|sender| **sender > at).map(|sender| round * senders + *sender as u64);
        let next = later.or_else(|| members.first().map(|first| (round + 1) * senders + *first as u64))?;
        (next < self.sent.len() as u64).then_some(next)
    }

    /// Returns for each departure the updates between which its place was taken: the first of its cluster after its
    /// previous departure, and the first in the packet.
    fn places(&self) -> Vec<(u64, u64)> {
        let mut last: Vec<Option<u64>> = vec![None; self.members.len()];
        let of = |departure: &Departure| {
            let before = last[departure.cluster].replace(departure.last);
            let begin = self.members[departure.cluster].first().map(|sender| *sender as u64);
            let least = before.map_or(begin, |before| self.next_of(departure.cluster, before));
            (least.unwrap_or_default(), departure.first)
        };
        self.departures.iter().map(of).collect()
    }

    /// Distinguishes replaced from lost updates if the order of departures, which is that of places, shows it. If a
    /// departure after the cluster's next packet took its place before the next update, the missing update had a place.
    /// If a departure before that packet took its place after the missing update, the missing one had none.
    fn tell_missing(&self, account: &mut LoadAccount) {
        let mut of: Vec<Vec<usize>> = vec![Vec::new(); self.members.len()];
        self.departures.iter().enumerate().for_each(|(at, departure)| of[departure.cluster].push(at));
        let places = self.places();
        let mut latest_before = vec![0; places.len()];
        for at in 1..places.len() {
            latest_before[at] = places[at - 1].0.max(latest_before[at - 1]);
        }
        let mut first_behind = vec![u64::MAX; places.len()];
        for at in (1..places.len()).rev() {
            first_behind[at - 1] = places[at].1.min(first_behind[at]);
        }
        for n in (0..self.sent.len() as u64).filter(|n| self.fates[*n as usize] == Fate::Missing) {
            let cluster = self.senders[(n % self.senders.len() as u64) as usize].cluster;
            let own = &of[cluster];
            let next = own.get(own.partition_point(|at| self.departures[*at].last < n)).copied();
            let shows = next.zip(self.next_of(cluster, n));
            match shows.map(|(next, until)| (first_behind[next] < until, latest_before[next] > n)) {
                Some((true, false)) => account.replaced += 1,
                // It is lost, without further distinction.
                Some((false, true)) => {}
                _ => account.untold += 1,
            }
        }
    }
}

/// Returns a worker's update without its number.
fn frame(worker: u32, lane: usize, lanes: usize) -> Vec<u8> {
    let mut frame = vec![0; HEAD + strict::UPDATE_HEAD + lanes * 4];
    Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), frame.len()).emit(&mut frame);
    Update { reward: 0.0, elements: lanes as u16 }.emit(&mut frame[HEAD..]);
    put(&mut frame, lane, 1.0);
    frame
}

fn put(frame: &mut [u8], lane: usize, value: f32) {
    let at = HEAD + strict::UPDATE_HEAD + lane * 4;
    if let Some(bytes) = frame.get_mut(at..at + 4) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

impl LoadWorkers for Updates {
    fn next(&mut self) -> Option<Time> {
        self.load.due(self.sent.len() as u64)
    }

    fn send(&mut self, t: Time) -> (u16, &[u8]) {
        let (n, senders) = (self.sent.len(), self.senders.len());
        self.sent.push(t);
        self.fates.push(Fate::Missing);
        self.open += 1;
        let sender = &mut self.senders[n % senders];
        put(&mut sender.frame, sender.lane + 1, ((n / senders) as u64 % NUMBERS + 1) as f32);
        (sender.port, &sender.frame)
    }

    fn take(&mut self, t: Time, port: u16, bytes: &[u8]) {
        let is_ours = |it: &Datagram| it.dst == SERVER_IP && it.dst_port == PORT && port == self.server;
        let Some(datagram) = Datagram::parse(bytes).filter(is_ours) else { return };
        let Some(update) = Update::parse(datagram.payload) else { return };
        let cluster = any_worker(datagram.src).and_then(|worker| self.cluster_of.get(&worker).copied());
        let (Some(cluster), true) = (cluster, usize::from(update.elements) == self.values.len()) else { return };
        let fours = datagram.payload[strict::UPDATE_HEAD..].as_chunks::<4>().0;
        self.values.iter_mut().zip(fours).for_each(|(value, four)| *value = f32::from_le_bytes(*four));
        self.account.last_back = Some(t);
        self.depart(cluster, update.reward, t);
    }

    fn is_complete(&self) -> bool {
        self.open == 0
    }

    fn account(&mut self) -> LoadAccount {
        let mut account = self.account.clone();
        let last = self.fates.iter().rposition(|fate| *fate != Fate::Unmerged);
        account.last_lost = last.and_then(|n| self.load.due(n as u64));
        account.unsent = account.offered - self.sent.len() as u64;
        self.tell_missing(&mut account);
        account.ages = self.ages();
        account
    }

    fn asks(&mut self) -> Vec<(u16, Vec<u8>)> {
        Vec::new()
    }

    fn leave(&mut self, _memory: &mut ProbeMemory) {}

    /// If every update is late by less than this, a device that serves the schedule's rate starts each one before the next of its
    /// cluster arrives, and before more wait than there are slots for.
    fn apart(&self) -> Time {
        // Updates of workers that share a cluster meet in any case.
        if self.load.shares {
            return Time::MAX;
        }
        let gaps = self.load.phases.iter().map(|phase| phase.gap_ps).filter(|gap| *gap > 0.0);
        (gaps.fold(f64::INFINITY, f64::min) * self.senders.len().min(self.slots) as f64) as Time
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
