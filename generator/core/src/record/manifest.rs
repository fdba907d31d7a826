//! `manifest.json`: everything needed to repeat or distrust a run.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::code::Reason;
use super::counter::{Counter, CounterRule, count};
use super::digest::FileDigests;
use super::interface::InterfaceCounts;
use super::lanes::Layout;
use super::row::Received;
use super::shard::SweepShard;
use super::stamps::StampClock;
use super::verdict::{Incidents, Unseen, Validity};
use crate::plan::Plan;
use crate::study::Finding;
use crate::user_metric::UserMetric;

/// Version of the manifest; a reader refuses a newer one.
pub const MANIFEST_VERSION: u32 = 2;

/// Where every update went. `generated` and `withheld` count updates, the others transmissions: an update that is
/// sent twice has two fates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Updates that workers generated.
    pub generated: u64,
    /// Kept back by the worker.
    pub withheld: u64,
    /// Transmissions of updates that had been sent before.
    #[serde(default)]
    pub retransmitted: u64,
    /// Transmissions.
    pub sent: u64,
    /// Delivered as the only member of their packet.
    pub delivered_alone: u64,
    /// Delivered as members of an aggregate.
    pub delivered_merged: u64,
    /// Replaced by a newer update of the same worker.
    pub subsumed: u64,
    /// Discarded for a higher reward.
    pub outranked: u64,
    /// Dropped, by reason; reasons that did not occur are absent.
    pub dropped: BTreeMap<String, u64>,
    /// Still under way when the run ended.
    pub in_flight: u64,
    /// Unknown: the device is hardware and keeps no books (design §2.6).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unaccounted: u64,
    /// What is left over; 0 or the run is invalid.
    pub unknown: i64,
}

pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Balance {
    /// Adds `n` drops for `reason`.
    pub fn add_dropped(&mut self, reason: Reason, n: u64) {
        if n > 0 {
            *self.dropped.entry(reason.name().to_owned()).or_default() += n;
        }
    }

    /// All drops.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Computes `unknown`: `generated + retransmitted = withheld + sent` and `sent` = all fates.
    pub fn close(&mut self) {
        let fates = self.delivered_alone
            + self.delivered_merged
            + self.subsumed
            + self.outranked
            + self.dropped_total()
            + self.in_flight
            + self.unaccounted;
        let generation = (self.generated + self.retransmitted) as i64 - (self.withheld + self.sent) as i64;
        self.unknown = (self.sent as i64 - fates as i64).abs() + generation.abs();
    }
}

/// Totals that are complete whatever was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Packets at the parameter server that carried updates.
    pub packets_received: u64,
    /// Their sum of bytes.
    pub bytes_received: u64,
    /// Acknowledgements that the server sent, and the frame bytes of all copies on last hops.
    pub acks_sent: u64,
    /// Acknowledgements that arrived at hosts.
    pub acks_received: u64,
    /// Bytes of acknowledgements over all links on the way down.
    pub downlink_bytes: u64,
    /// Acknowledgements that were dropped on the way.
    pub acks_dropped: u64,
    /// Packets whose payload was the sum of their members, bit for bit.
    pub sums_ok: u64,
    /// Packets whose payload was not.
    pub sums_wrong: u64,
    /// Packets that the server could not place in any update.
    pub foreign: u64,
    /// Gradient elements that reached the server, counted once per represented update.
    pub elements_delivered: u64,
    /// When the first packet with updates reached the server and when the last did, in ps.
    #[serde(default)]
    pub received_ps: Option<(i64, i64)>,
    /// Gradient elements of the first.
    #[serde(default)]
    pub first_elements: u64,
    /// When the run ended, in ps.
    pub end_ps: i64,
    /// Packets that the server's reward gate accepted.
    #[serde(default)]
    pub accepted: u64,
    /// When every worker had reached the goal, in ps.
    #[serde(default)]
    pub goal_ps: Option<i64>,
    /// Workers that reached the goal.
    #[serde(default)]
    pub workers_at_goal: u32,
    /// What programs of devices, servers and controllers counted; values of several became one by the counter's rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device: BTreeMap<String, u64>,
    /// Names in `device` whose rule is the largest value; all others are sums.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub device_largest: BTreeSet<String>,
    /// Results that arrived at workers of synchronous training.
    #[serde(default)]
    pub replies: u64,
    /// Elements that did not fit a 32-bit integer when gradients were scaled, and were clipped.
    #[serde(default)]
    pub clipped: u64,
    /// How far the means that workers make of results are from those of the gradients before they were scaled: sum of
    /// errors in 10⁻⁹ of the sum of what they are errors of, over every 64th block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling_error_ppb: Option<u64>,
    /// What the links of a plan carried, in the plan's order: towards the server and away from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<[LinkLoad; 2]>,
    /// By worker: whole sums that came back to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answers>,
}

/// What one direction of a link carried, and what waited for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkLoad {
    /// Messages that crossed it: updates, sums, and whole sums on their way back.
    pub messages: u64,
    /// Wire bits that wanted to cross it, overhead included.
    pub bits: u64,
    /// When the first of them came and when the last did, in ps.
    pub offered_ps: Option<(i64, i64)>,
    /// Of these bits, those that came with the first.
    pub first_bits: u64,
    /// Most frames that waited.
    pub queue_max: u64,
}

impl LinkLoad {
    /// Bits per second that wanted to cross it: those after the first, by the time in which they came.
    pub fn offered_bps(&self) -> Option<f64> {
        let (first, last) = self.offered_ps.filter(|(first, last)| last > first)?;
        Some((self.bits - self.first_bits) as f64 * 1e12 / (last - first) as f64)
    }
}

/// Whole sums that came back to a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// How many.
    pub messages: u64,
    /// When the first came, in ps.
    pub first_ps: i64,
    /// When the last came.
    pub last_ps: i64,
}

impl Answers {
    /// One more, at `t`.
    #[inline]
    pub fn add(&mut self, t: i64) {
        if self.messages == 0 {
            self.first_ps = t;
        }
        self.last_ps = t;
        self.messages += 1;
    }
}

/// The plan that a run carried out: what it promised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Whether the server answers with the whole sums.
    pub allreduce: bool,
    /// Wire bits of a message, overhead included.
    pub message_bits: u64,
}

impl Counters {
    /// A packet reached its receiver; each of its elements counts once per represented update.
    #[inline]
    pub fn delivered(&mut self, row: &Received, elements: u64) {
        self.packets_received += 1;
        self.bytes_received += u64::from(row.bytes);
        self.accepted += u64::from(row.accepted);
        let (t, elements) = (row.t_recv, elements * u64::from(row.count));
        self.elements_delivered += elements;
        match &mut self.received_ps {
            Some((_, last)) => *last = t,
            None => (self.received_ps, self.first_elements) = (Some((t, t)), elements),
        }
    }

    /// Adds what a device, a server or a controller counted.
    pub fn count(&mut self, counter: &Counter) {
        let Counter { name, rule, value } = *counter;
        count(&mut self.device, &mut self.device_largest, name, rule, value);
    }

    /// Adds the counts of another part of the same run; the order of parts does not matter.
    pub fn add(&mut self, other: &Counters) {
        let pairs = [
            (&mut self.packets_received, other.packets_received),
            (&mut self.bytes_received, other.bytes_received),
            (&mut self.acks_sent, other.acks_sent),
            (&mut self.acks_received, other.acks_received),
            (&mut self.downlink_bytes, other.downlink_bytes),
            (&mut self.acks_dropped, other.acks_dropped),
            (&mut self.sums_ok, other.sums_ok),
            (&mut self.sums_wrong, other.sums_wrong),
            (&mut self.foreign, other.foreign),
            (&mut self.elements_delivered, other.elements_delivered),
            (&mut self.accepted, other.accepted),
            (&mut self.replies, other.replies),
            (&mut self.clipped, other.clipped),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
        for (name, value) in &other.device {
            let largest = [&self.device_largest, &other.device_largest].iter().any(|names| names.contains(name));
            let rule = if largest { CounterRule::Largest } else { CounterRule::Sum };
            count(&mut self.device, &mut self.device_largest, name, rule, *value);
        }
        match (&mut self.received_ps, other.received_ps) {
            (Some((first, last)), Some((others_first, others_last))) => {
                match others_first.cmp(first) {
                    Ordering::Less => (*first, self.first_elements) = (others_first, other.first_elements),
                    // Of two at the same time the one with more elements is the first.
                    Ordering::Equal => self.first_elements = self.first_elements.max(other.first_elements),
                    Ordering::Greater => {}
                }
                *last = (*last).max(others_last);
            }
            (None, others) => (self.received_ps, self.first_elements) = (others, other.first_elements),
            (Some(_), None) => {}
        }
        self.end_ps = self.end_ps.max(other.end_ps);
    }
}

/// What synchronous training is about, for metrics that compare with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Name of the model.
    pub model: String,
    /// Jobs side by side.
    pub jobs: u16,
    /// Workers of each.
    pub workers: u32,
    /// Iterations of each worker.
    pub iterations: u32,
    /// Packets per worker and iteration.
    pub blocks: u32,
    /// Gradients of the model.
    pub elements: u64,
    /// Computation of an iteration, in ps.
    pub compute_ps: i64,
    /// Rate of a worker's link.
    pub host_rate_bps: u64,
    /// An iteration without stragglers over an ideal network: compute + 2(n−1)/n · size/rate (§6.1 "Ideal setup": a ring).
    pub ideal_ps: i64,
    /// Blocks that a worker may have outstanding.
    pub window: u32,
    /// After how long a block without news is given up; none if never.
    pub timeout_ps: Option<i64>,
    /// Iterations without stragglers to the accuracy that is wanted, if the experiment states it.
    pub iterations_to_target: Option<u64>,
}

/// How far a run dir got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Being written, or killed: streams are Arrow IPC and readable up to their last batch.
    Running,
    /// Ended early by the user; everything up to then is complete.
    Interrupted,
    /// Complete.
    Finished,
}

/// One of several processes that have a run together, as a launcher started them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// Which one, from 0.
    pub rank: u32,
    /// Of how many.
    pub of: u32,
    /// Which share of the workers it has, as `1/2`; none if it has none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// The name of its host.
    pub host: String,
    /// That host's boot, its namespace of processes, and the process: another process with the same first two can check whether it runs.
    pub boot_id: String,
    /// See `boot_id`.
    pub pid_space: String,
    /// See `boot_id`.
    pub pid: u32,
}

/// What one queue of an end of a cable did, where an end has several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueCounts {
    /// The end: `workers`, `device.down`, `device.up`, `server`; `capture` for an interface that is only recorded.
    pub end: String,
    /// The queue's number there.
    pub queue: u32,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames that it received.
    pub received: u64,
    /// Frames that it lost, on the way out and before they were read.
    pub dropped: u64,
    /// Times at which its wire took nothing, or those that it hands frames over to had no room.
    pub full_waits: u64,
    /// How late its frames left in ns: median, 99 %, latest; where deadlines mean something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<[u64; 3]>,
}

/// Frames that had deadlines, and which of them the host made late: the thread that sends was kept from its core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacingCounts {
    /// Frames that left.
    pub frames: u64,
    /// Those that the host made late.
    pub late_by_host: u64,
    /// How late the others left in ns: median, 99 %, latest; none if there are no others, or those of several senders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_late_ns: Option<[u64; 3]>,
}

impl PacingCounts {
    /// Of several senders together.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        PacingCounts {
            frames: self.frames + other.frames,
            late_by_host: self.late_by_host + other.late_by_host,
            others_late_ns: None,
        }
    }

    /// The share that the host made late; none without frames.
    pub fn share_by_host(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.late_by_host as f64 / self.frames as f64)
    }
}

/// The manifest of a run dir.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// [`MANIFEST_VERSION`] of the writer.
    pub version: u32,
    /// Tool version and commit.
    pub tool: String,
    /// Experiment name.
    pub experiment: String,
    /// What its account is of; manifests of older builds say so in other ways ([`Manifest::family`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// The label of this run in its sweep: axis → value; `variant` names the variant.
    pub labels: BTreeMap<String, String>,
    /// Seed.
    pub seed: u64,
    /// How far it got.
    pub state: RunState,
    /// Wall-clock time of the run's anchor in ns since 1970; 0 in virtual time.
    pub anchor_unix_ns: u64,
    /// When the run was made, ns since 1970. This and `command` may differ between identical runs.
    pub created_unix_ns: u64,
    /// SHA-256 of the trace file, or of the resolved workload and schedule for synthetic ones; empty for studies.
    pub trace_hash: String,
    /// The resolved configuration as TOML.
    pub config: String,
    /// The command line that made it, word by word; empty if none did. May differ between identical runs, as
    /// `created_unix_ns` does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What was set beside the experiment file, by `--set`, a flag or the environment, as `key=value`; shown beside what the
    /// file says of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// May another seed, or the same one again, give other numbers? Not where no random number was drawn in virtual time or
    /// in a study: then one run says all.
    #[serde(default = "unless_stated")]
    pub uses_chance: bool,
    /// Clock domain of every timestamp column.
    pub clocks: BTreeMap<String, String>,
    /// How clocks of stamps stood to the run's, by column; times of one that is not here must not be compared with the run's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stamp_clocks: BTreeMap<String, StampClock>,
    /// Facts about the host that matter for real time; empty in virtual time.
    pub host: BTreeMap<String, String>,
    /// Names of the topology's nodes, by index.
    pub nodes: Vec<String>,
    /// How many of the transmissions were recorded: "full", "every:N" or "none".
    pub records: String,
    /// Cluster of each worker, at the beginning.
    pub clusters: Vec<u16>,
    /// Metrics of the experiment's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<UserMetric>,
    /// Which part of a run this is: `workers`, `device`, `server`, or `frames` of an interface; none for a whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Which of the processes that a launcher started wrote it; none if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
    /// The hardware that was the device, by its profile's name: there are no books then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
    /// What is trained, in synchronous runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Training>,
    /// The plan along which devices reduce, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Planned>,
    /// What the lanes of updates say, if they carry any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<Layout>,
    /// Updates that every worker must have represented at the server, if the run is one to a goal.
    #[serde(default)]
    pub goal: Option<u32>,
    /// Which study this is, if it is one: then there are no streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<String>,
    /// What the study found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What each queue did, of ends that have several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueCounts>,
    /// Which frames the host made late, of an open loop with deadlines in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingCounts>,
    /// What the interfaces of real-time ends counted during the run, by the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceCounts>,
    /// Where every update went.
    pub balance: Balance,
    /// The same per worker.
    pub balance_by_worker: Vec<Balance>,
    /// Totals.
    pub counters: Counters,
    /// Rows of the records about packets that are not under way.
    #[serde(default)]
    pub strangers: u64,
    /// What is known of a device that keeps no books.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<Unseen>,
    /// What the process reported of itself: facts that no account shows.
    #[serde(default, skip_serializing_if = "Incidents::is_empty")]
    pub incidents: Incidents,
    /// The verdict over all of it ([`super::judge`]).
    pub validity: Validity,
    /// The files of the run dir as they were written; none until the run ends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: FileDigests,
}

/// What the account of a run is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Updates, on their way to a server.
    Updates,
    /// Contributions to results that come back to workers.
    Results,
    /// Pairs of key and value, which are summed by key.
    Pairs,
}

impl Manifest {
    /// What its account is of. Only runs of pairs have packets of cold ones, whose size is a setting, and only runs of pairs and of
    /// results train: that is how manifests of older builds tell.
    pub fn family(&self) -> Family {
        let is_cold = |line: &str| line.split_once(" = ").is_some_and(|(key, _)| key == "cold_bytes");
        match (self.family, &self.training) {
            (Some(family), _) => family,
            (None, Some(_)) if self.config.lines().any(is_cold) => Family::Pairs,
            (None, Some(_)) => Family::Results,
            (None, None) => Family::Updates,
        }
    }
}

/// Manifests of builds that did not record it leave chance open.
fn unless_stated() -> bool {
    true
}

/// `sweep.json`: what a folder of run dirs holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SweepManifest {
    /// [`MANIFEST_VERSION`] of the writer.
    pub version: u32,
    /// Experiment name and one line about it.
    pub experiment: String,
    /// What the experiment shows.
    pub about: String,
    /// What was set beside the experiment file, as in the manifests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Sweep axes (dotted keys) with their values in the order of the file; `variant` first if any.
    pub axes: Vec<(String, Vec<String>)>,
    /// The runs, in order.
    pub runs: Vec<SweepRun>,
    /// `[report]` of the experiment.
    pub report: ReportPlan,
    /// `[paper]` of the experiment.
    pub paper: Vec<Published>,
    /// Of which sweep these runs are a part; none if they are all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<SweepShard>,
}

/// One run of a sweep.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SweepRun {
    /// Folder, relative to the sweep's.
    pub dir: String,
    /// Axis → value.
    pub labels: BTreeMap<String, String>,
    /// Seed.
    pub seed: u64,
    /// The digest of its manifest ([`manifest_digest`](super::digest::manifest_digest)); none until the sweep ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
}

/// What a report of the sweep shows: `[report]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportPlan {
    /// The question that stands first, instead of the one that follows from the metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Metrics of the main table, in order.
    pub metrics: Vec<String>,
    /// The variant that others are compared with.
    pub baseline: Option<String>,
    /// Named groups of clusters, whose ages are reported too.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Parameters fitted to reach published values, each with its sensitivity, as text.
    pub fitted: Vec<String>,
    /// Where we differ and why, and anything else a reader must know.
    pub notes: Vec<String>,
}

/// Clusters that a report summarises together: `[[report.groups]]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Name, such as `S1`.
    pub name: String,
    /// Its clusters.
    pub clusters: Vec<u16>,
}

/// One published row: `[[paper.rows]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Labels of the runs that it belongs to.
    pub at: BTreeMap<String, String>,
    /// Table or section.
    pub source: String,
    /// Metric → published value, in the metric's unit.
    pub values: BTreeMap<String, f64>,
    /// They are bounds: the text says "more than" or "less than".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

/// On which side of a published value the paper is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// More than it.
    Above,
    /// Less than it.
    Below,
}

impl Bound {
    /// As reports write it before the value.
    pub const fn sign(bound: Option<Bound>) -> &'static str {
        match bound {
            None => "",
            Some(Bound::Above) => "> ",
            Some(Bound::Below) => "< ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_closes_or_says_by_how_much_not() {
        let mut balance = Balance { generated: 10, withheld: 1, sent: 9, ..Default::default() };
        balance.delivered_alone = 3;
        balance.delivered_merged = 2;
        balance.add_dropped(Reason::QueueFull, 4);
        balance.close();
        assert_eq!(balance.unknown, 0);
        balance.in_flight = 1;
        balance.close();
        assert_eq!(balance.unknown, 1);
        (balance.in_flight, balance.delivered_alone, balance.unaccounted) = (0, 1, 2);
        balance.close();
        assert_eq!(balance.unknown, 0, "what nobody knows is a line of its own");
    }
}
