//! Hand-made runs for tests, of this crate and of those that stand on it: a story written event by event, in memory or as a run dir.

use std::collections::BTreeMap;
use std::path::Path;

use pktgen_core::record::{
    Action, Family, Manifest, NO_CLUSTER, PacketId, Reason, RunState, Training, Validity, digest,
};
use pktgen_core::registry::Named;
use polars::prelude::*;

use crate::model::{Fates, has_sums_by_key};
use crate::rounds::Rounds;
use crate::run::{NO_HEAT, NO_PACKET, NO_REASON, Records, StateColumns};
use crate::testing_rounds;

/// A run under construction. Packets are named by their worker; their sequence number is 0 unless
/// the `_seq` form says otherwise; cluster = the one given to `sent`.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// What devices and the server recorded.
    pub records: Records,
    /// What workers knew and did.
    pub states: Option<StateColumns>,
    /// The synchronous training, if it is one.
    pub training: Option<Training>,
    /// Its iterations and results.
    pub rounds: Rounds,
}

impl Story {
    /// Nothing has happened yet.
    pub fn new() -> Story {
        Story::default()
    }

    /// A worker generated an update at `t_gen` and sent it at `t_sent`, if it did.
    pub fn sent(&mut self, worker: u32, t_gen: i64, t_sent: Option<i64>, cluster: u16) -> &mut Story {
        self.sent_seq(worker, 0, t_gen, t_sent, cluster)
    }

    /// The same, of a sequence number.
    pub fn sent_seq(&mut self, worker: u32, seq: u32, t_gen: i64, t_sent: Option<i64>, cluster: u16) -> &mut Story {
        let sent = &mut self.records.sent;
        sent.t_gen_ps.push(t_gen);
        sent.t_sent_ps.push(t_sent);
        sent.cluster.push(cluster);
        sent.worker.push(worker);
        sent.seq.push(seq);
        sent.attempt.push(0);
        self
    }

    /// A later attempt of an update; what happens to it is added with `attempt_…`.
    pub fn sent_again(&mut self, worker: u32, seq: u32, attempt: u8, t: i64, cluster: u16) -> &mut Story {
        self.sent_seq(worker, seq, t, Some(t), cluster);
        *self.records.sent.attempt.last_mut().unwrap() = attempt;
        self
    }

    /// An attempt is received alone, in `cluster`, and refused by the reward gate unless `accepted`.
    pub fn attempt_received(&mut self, t: i64, packet: PacketId, cluster: u16, accepted: bool) -> &mut Story {
        let sent = &self.records.sent;
        let is_it = |row: &usize| PacketId::new(sent.worker[*row], sent.seq[*row], sent.attempt[*row]) == packet;
        let t_gen = (0..sent.seq.len()).find(is_it).map_or(0, |row| sent.t_gen_ps[row]);
        self.received_seq(t, packet.worker(), packet.seq(), t_gen, 1);
        let received = &mut self.records.received;
        *received.packet.last_mut().unwrap() = packet.0;
        *received.cluster.last_mut().unwrap() = cluster;
        *received.accepted.last_mut().unwrap() = accepted;
        self
    }

    /// What a worker knew and did: N, Qmax and, about an update, the ACK's age in ps, P_s and whether it was sent.
    pub fn state(&mut self, t: i64, worker: u32, queue: (u16, u32), did: Option<(i64, f32, bool)>) -> &mut Story {
        let states = self.states.get_or_insert_default();
        states.t_ps.push(t);
        states.worker.push(worker);
        states.active.push(queue.0);
        states.capacity.push(queue.1);
        states.ack_age_ps.push(did.map(|(age, _, _)| age).filter(|age| *age >= 0));
        states.p_send.push(did.map(|(_, p_send, _)| p_send));
        states.sent.push(did.map(|(_, _, sent)| sent));
        self
    }

    fn book(&mut self, t: i64, node: u16, packet: u64, action: Action, out: u64, reason: u8) -> &mut Story {
        let books = &mut self.records.books;
        books.t_ps.push(t);
        books.node.push(node);
        books.packet_in.push(packet);
        books.action.push(action as u8);
        books.packet_out.push(out);
        books.reason.push(reason);
        self
    }

    /// A worker's update is put into the queue of a node.
    pub fn queued(&mut self, t: i64, node: u16, packet: u32) -> &mut Story {
        self.book(t, node, id(packet, 0), Action::Queued, NO_PACKET, NO_REASON)
    }

    /// It leaves the queue.
    pub fn departed(&mut self, t: i64, node: u16, packet: u32) -> &mut Story {
        self.book(t, node, id(packet, 0), Action::Departed, NO_PACKET, NO_REASON)
    }

    /// It is merged into another worker's.
    pub fn merged(&mut self, t: i64, node: u16, packet: u32, out: u32) -> &mut Story {
        self.book(t, node, id(packet, 0), Action::Merged, id(out, 0), NO_REASON)
    }

    /// A newer one takes its place.
    pub fn subsumed(&mut self, t: i64, node: u16, packet: u32, out: u32) -> &mut Story {
        self.book(t, node, id(packet, 0), Action::Subsumed, id(out, 0), NO_REASON)
    }

    /// Another one takes its place because of a higher reward.
    pub fn outranked(&mut self, t: i64, node: u16, packet: u32, out: u32) -> &mut Story {
        self.book(t, node, id(packet, 0), Action::Outranked, id(out, 0), NO_REASON)
    }

    /// It is dropped.
    pub fn dropped(&mut self, t: i64, node: u16, packet: u32, reason: Reason) -> &mut Story {
        self.book(t, node, id(packet, 0), Action::Dropped, NO_PACKET, reason as u8)
    }

    /// The update of that sequence number finds the queue of the first node full.
    pub fn dropped_seq(&mut self, t: i64, packet: u32, seq: u32) -> &mut Story {
        self.book(t, 0, id(packet, seq), Action::Dropped, NO_PACKET, Reason::QueueFull as u8)
    }

    /// The update of that sequence number is merged into another worker's.
    pub fn merged_seq(&mut self, t: i64, packet: u32, out: u32, seq: u32) -> &mut Story {
        self.book(t, 0, id(packet, seq), Action::Merged, id(out, seq), NO_REASON)
    }

    /// A packet is merged into another one.
    pub fn merged_into(&mut self, t: i64, packet: PacketId, out: PacketId) -> &mut Story {
        self.book(t, 0, packet.0, Action::Merged, out.0, NO_REASON)
    }

    /// Received with the cluster and generation time of its `sent` row, or `t_gen` where it has none.
    pub fn received(&mut self, t: i64, packet: u32, t_gen: i64, count: u16) -> &mut Story {
        self.received_seq(t, packet, 0, t_gen, count)
    }

    /// The same, of a sequence number.
    pub fn received_seq(&mut self, t: i64, packet: u32, seq: u32, t_gen: i64, count: u16) -> &mut Story {
        let cluster = self.records.sent.worker.iter().position(|worker| *worker == packet);
        let cluster = cluster.map_or(NO_CLUSTER, |row| self.records.sent.cluster[row]);
        let received = &mut self.records.received;
        received.t_recv_ps.push(t);
        received.packet.push(id(packet, seq));
        received.cluster.push(cluster);
        received.newest_gen_ps.push(t_gen);
        received.count.push(count);
        received.bytes.push(256);
        received.accepted.push(true);
        received.heat.push(NO_HEAT);
        received.last.push(false);
        self
    }

    /// A manifest that agrees with the records.
    pub fn manifest(&self) -> Manifest {
        let fates = Fates::resolve(&self.records);
        let sent = &self.records.sent;
        let workers = 0..sent.worker.iter().max().map_or(0, |last| last + 1);
        let cluster = |worker| sent.worker.iter().position(|w| *w == worker).map_or(0, |row| sent.cluster[row]);
        let clusters: Vec<u16> = workers.clone().map(cluster).collect();
        let by_worker: Vec<_> = workers.map(|worker| fates.balance_of(|row| sent.worker[row] == worker)).collect();
        let json = serde_json::json!({
            "version": 2, "tool": "test", "experiment": "story", "labels": {}, "seed": 1, "state": "finished",
            "anchor_unix_ns": 0, "created_unix_ns": 0, "trace_hash": "", "config": "", "clocks": {}, "host": {},
            "nodes": ["sw1", "sw2", "ps"], "records": "full", "clusters": clusters,
            "balance": fates.balance(), "balance_by_worker": by_worker,
            "counters": pktgen_core::record::Counters::default(),
            "validity": Validity::default(),
        });
        let mut manifest: Manifest = serde_json::from_value(json).unwrap();
        manifest.state = RunState::Finished;
        manifest.family = has_sums_by_key(&self.records).then_some(Family::Pairs);
        manifest.training = self.training.clone();
        manifest.counters.replies = self.rounds.results.as_ref().map_or(0, |results| results.t_recv_ps.len()) as u64;
        let received = &self.records.received;
        let accepted =
            received.accepted.iter().zip(&received.cluster).filter(|(yes, cluster)| **yes && **cluster != NO_CLUSTER);
        manifest.counters.accepted = accepted.count() as u64;
        manifest.counters.packets_received = self.records.received.packet.len() as u64;
        manifest.counters.end_ps = self.records.received.t_recv_ps.last().copied().unwrap_or(0);
        manifest
    }

    /// Writes a run dir.
    pub fn write(&self, dir: &Path) {
        self.write_with(dir, &self.manifest());
    }

    /// Writes a run dir with the labels and the seed of a sweep's run.
    pub fn write_labelled(&self, dir: &Path, labels: &BTreeMap<String, String>, seed: u64) {
        let mut manifest = self.manifest();
        manifest.labels = labels.clone();
        manifest.seed = seed;
        self.write_with(dir, &manifest);
    }

    /// Writes a run dir with this manifest.
    pub fn write_with(&self, dir: &Path, manifest: &Manifest) {
        std::fs::create_dir_all(dir).unwrap();
        let text = digest::seal(&serde_json::to_string(manifest).unwrap());
        std::fs::write(dir.join("manifest.json"), text).unwrap();
        write(&dir.join("sent.parquet"), self.sent_columns());
        write(&dir.join("books.parquet"), self.book_columns());
        write(&dir.join("received.parquet"), self.received_columns());
        if let Some(states) = &self.states {
            write(&dir.join("states.parquet"), state_columns(states));
        }
        if self.training.is_some() {
            let results = self.rounds.results.clone().unwrap_or_default();
            write(&dir.join("iterations.parquet"), testing_rounds::iteration_columns(&self.rounds.iterations));
            write(&dir.join("results.parquet"), testing_rounds::result_columns(&results));
        }
    }

    fn sent_columns(&self) -> Vec<Column> {
        let sent = &self.records.sent;
        // Most stories have no rewards.
        let mut reward = sent.reward.clone();
        reward.resize(sent.attempt.len(), None);
        vec![
            Column::new("reward".into(), reward),
            Column::new("t_gen_ps".into(), &sent.t_gen_ps),
            Column::new("t_due_ps".into(), &sent.t_gen_ps),
            Column::new("t_sent_ps".into(), &sent.t_sent_ps),
            Column::new("cluster".into(), &sent.cluster),
            Column::new("job".into(), vec![None::<u16>; sent.cluster.len()]),
            Column::new("worker".into(), &sent.worker),
            Column::new("seq".into(), &sent.seq),
            Column::new("attempt".into(), &sent.attempt),
            Column::new("bytes".into(), vec![256u32; sent.attempt.len()]),
        ]
    }

    fn book_columns(&self) -> Vec<Column> {
        let books = &self.records.books;
        let out: Vec<_> = books.packet_out.iter().map(|&p| (p != NO_PACKET).then_some(p)).collect();
        let reason: Vec<_> = books.reason.iter().map(|&r| (r != NO_REASON).then_some(r)).collect();
        vec![
            Column::new("t_ps".into(), &books.t_ps),
            Column::new("node".into(), &books.node),
            Column::new("packet_in".into(), &books.packet_in),
            Column::new("action".into(), &books.action),
            Column::new("packet_out".into(), out),
            Column::new("reason".into(), reason),
        ]
    }

    fn received_columns(&self) -> Vec<Column> {
        let received = &self.records.received;
        let seqs: Vec<u32> = received.packet.iter().map(|packet| PacketId(*packet).seq()).collect();
        vec![
            Column::new("t_recv_ps".into(), &received.t_recv_ps),
            Column::new("packet".into(), &received.packet),
            Column::new("cluster".into(), &received.cluster),
            Column::new("job".into(), vec![None::<u16>; received.cluster.len()]),
            Column::new("newest_seq".into(), seqs),
            Column::new("newest_gen_ps".into(), &received.newest_gen_ps),
            Column::new("count".into(), &received.count),
            Column::new("bytes".into(), &received.bytes),
            Column::new("accepted".into(), &received.accepted),
            Column::new("heat".into(), received.heat.iter().map(|&h| (h != NO_HEAT).then_some(h)).collect::<Vec<_>>()),
            Column::new("last".into(), &received.last),
        ]
    }
}

fn state_columns(states: &StateColumns) -> Vec<Column> {
    vec![
        Column::new("t_ps".into(), &states.t_ps),
        Column::new("worker".into(), &states.worker),
        Column::new("active".into(), &states.active),
        Column::new("capacity".into(), &states.capacity),
        Column::new("ack_age_ps".into(), &states.ack_age_ps),
        Column::new("p_send".into(), &states.p_send),
        Column::new("sent".into(), &states.sent),
    ]
}

fn id(worker: u32, seq: u32) -> u64 {
    PacketId::new(worker, seq, 0).0
}

pub(crate) fn write(path: &Path, columns: Vec<Column>) {
    crate::table::write(path, &DataFrame::new_infer_height(columns).unwrap()).unwrap();
}

/// Names of the Rust files in a folder but `mod.rs`, sorted: what a registry must hold.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let rust = entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let names = rust.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let mut names: Vec<String> = names.filter(|name| name != "mod").collect();
    names.sort();
    names
}

/// Names of the entries of a registry, sorted.
pub fn names<T: Named + ?Sized>(list: &[&T]) -> Vec<String> {
    let mut names: Vec<String> = list.iter().map(|entry| entry.name().to_owned()).collect();
    names.sort();
    names
}

/// A small deterministic stream of random numbers for tests.
pub struct Dice(crate::stats::SplitMix);

impl Dice {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Dice {
        Dice(crate::stats::SplitMix::new(seed))
    }

    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }
}

/// A sweep folder: variants fifo (baseline) and olaf, `rate` 20 and 40, seeds 1 to `seeds`. Olaf
/// delivers twice as often as FIFO, aggregated in pairs; a published row for (olaf, 40) and one for
/// all of rate 20.
pub fn write_sweep(dir: &Path, seeds: u64) {
    let mut runs = Vec::new();
    for (variant, rate) in [("fifo", "20"), ("fifo", "40"), ("olaf", "20"), ("olaf", "40")] {
        for seed in 1..=seeds {
            let labels: BTreeMap<String, String> =
                [("variant".to_owned(), variant.to_owned()), ("rate".to_owned(), rate.to_owned())].into();
            let name = format!("{variant}-{rate}-{seed}");
            let period = 1_000_000 * (20 + seed as i64) / rate.parse::<i64>().unwrap() * 20;
            small_run(variant == "olaf", period).write_labelled(&dir.join(&name), &labels, seed);
            runs.push(serde_json::json!({ "dir": name, "labels": labels, "seed": seed }));
        }
    }
    let sweep = serde_json::json!({
        "version": 2, "experiment": "small|sweep", "about": "FIFO <against> Olaf",
        "axes": [["variant", ["fifo", "olaf"]], ["rate", ["20", "40"]]], "runs": runs,
        "report": {
            "metrics": ["received", "loss", "aom_mean/cluster", "aom_cut/cluster"], "baseline": "fifo",
            "fitted": ["burst of 125 packets"], "notes": ["a note"],
        },
        "paper": [
            { "at": { "variant": "olaf", "rate": "40" }, "source": "Table 9",
              "values": { "received": 1000.0, "loss": 0.0, "no_such_metric": 1.0 } },
            { "at": { "rate": "20" }, "source": "Figure 9", "values": { "loss": 0.5 } },
            { "at": { "rate": "99" }, "source": "Text", "values": { "loss": 0.5 } },
        ],
    });
    std::fs::write(dir.join("sweep.json"), sweep.to_string()).unwrap();
}

/// 40 updates of each of two workers (clusters 0 and 1 have two each), one per `period`. FIFO drops
/// every second update of a worker; with `aggregate` worker pairs merge and all are delivered.
pub fn small_run(aggregate: bool, period: i64) -> Story {
    let mut story = Story::new();
    for seq in 0..40u32 {
        let t = i64::from(seq) * period;
        for worker in 0..4 {
            story.sent_seq(worker, seq, t, Some(t), (worker / 2) as u16);
        }
        for worker in [0, 2] {
            let arrival = t + period / 2;
            if aggregate {
                story.merged_seq(arrival, worker, worker + 1, seq);
                story.received_seq(arrival + 100, worker + 1, seq, t, 2);
            } else if seq % 2 == 1 {
                story.dropped_seq(arrival, worker, seq).dropped_seq(arrival, worker + 1, seq);
            } else {
                story.received_seq(arrival + 100, worker, seq, t, 1).received_seq(arrival + 200, worker + 1, seq, t, 1);
            }
        }
    }
    story
}
