//! `manifest.json`: everything needed to repeat or distrust a run.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::code::Reason;
use super::counter::{Counter, CounterRule, count, is_zero};
use super::digest::FileDigests;
use super::interface::InterfaceCounts;
use super::lanes::Layout;
use super::published::Published;
use super::row::Received;
use super::shard::SweepShard;
use super::stamps::StampClock;
use super::verdict::{Incidents, Note, Unseen, Validity};
use crate::config::Document;
use crate::plan::Plan;
use crate::study::Finding;
use crate::user_metric::UserMetric;

/// Version of the manifest; a reader refuses a newer one.
pub const MANIFEST_VERSION: u32 = 2;

/// The fates of all updates. `generated` counts updates, the others transmissions: an update that is sent twice has two
/// fates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Updates that workers generated.
    pub generated: u64,
    /// Transmissions, first or further ones, that workers withheld.
    pub withheld: u64,
    /// Transmissions, sent or withheld, of updates whose first one was due before.
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
    /// Discarded in favour of a higher reward.
    pub outranked: u64,
    /// Dropped, by reason; reasons that did not occur are absent.
    pub dropped: BTreeMap<String, u64>,
    /// Under way when the run ended.
    pub in_flight: u64,
    /// Unknown: the device is hardware and keeps no books (design §2.6).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unaccounted: u64,
    /// The remainder; a run in which it is not 0 is invalid.
    pub unknown: i64,
}

impl Balance {
    /// Adds `n` drops for `reason`.
    pub fn add_dropped(&mut self, reason: Reason, n: u64) {
        if n > 0 {
            *self.dropped.entry(reason.name().to_owned()).or_default() += n;
        }
    }

    /// Returns the number of all drops.
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

/// Totals that are complete regardless of what was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Packets at the parameter server that carried updates.
    pub packets_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Acknowledgements that the server sent.
    pub acks_sent: u64,
    /// Acknowledgements that arrived at hosts.
    pub acks_received: u64,
    /// Bytes of acknowledgements over all links on the way down.
    pub downlink_bytes: u64,
    /// Acknowledgements that were dropped on the way.
    pub acks_dropped: u64,
    /// Packets whose payload was bit for bit the sum of their members.
    pub sums_ok: u64,
    /// Packets whose payload was not.
    pub sums_wrong: u64,
    /// Packets that the server could not assign to an update.
    pub foreign: u64,
    /// Gradient elements that reached the server, counted once per represented update.
    pub elements_delivered: u64,
    /// Arrival of the first and of the last packet with updates at the server, in ps.
    #[serde(default)]
    pub received_ps: Option<(i64, i64)>,
    /// Gradient elements of the first packet with updates.
    #[serde(default)]
    pub first_elements: u64,
    /// End of the run, in ps.
    pub end_ps: i64,
    /// Packets whose content their receiver took: those with `accepted` in `received`.
    #[serde(default)]
    pub accepted: u64,
    /// Time at which the last worker reached the goal, in ps.
    #[serde(default)]
    pub goal_ps: Option<i64>,
    /// Workers that reached the goal.
    #[serde(default)]
    pub workers_at_goal: u32,
    /// Counters of devices, servers and controllers; values of several are combined by the counter's rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device: BTreeMap<String, u64>,
    /// Names in `device` whose rule is the largest value; all others are sums.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub device_largest: BTreeSet<String>,
    /// Results that arrived at workers of synchronous training.
    #[serde(default)]
    pub replies: u64,
    /// Frames with results of which a worker had a result of the same block already, or this very one if it is partial (Trio-ML) or results
    /// have attempts (Libra); a frame for several workers counts once. Copies of packets at ATP's server, which have no rows, count too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frames_again: u64,
    /// Elements that exceeded a 32-bit integer when gradients were scaled, and were clipped; not those of retransmissions.
    #[serde(default)]
    pub clipped: u64,
    /// Error of the means that workers compute from results, compared with the gradients before scaling: the sum of
    /// errors in 10⁻⁹ of the sum of the true values, over every 64th block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling_error_ppb: Option<u64>,
    /// Load of the links of a plan, in the plan's order: towards the server and away from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<[LinkLoad; 2]>,
    /// Whole sums returned to each worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answers>,
}

/// Load and queue of one direction of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkLoad {
    /// Messages that crossed the link: updates, sums, and whole sums on their way back.
    pub messages: u64,
    /// Wire bits offered to the link, overhead included.
    pub bits: u64,
    /// When the last message of the first round came and when the last frame did, in ps.
    pub offered_ps: Option<(i64, i64)>,
    /// Of these bits, those that had come by the former.
    pub first_bits: u64,
    /// Maximum number of waiting frames.
    pub queue_max: u64,
}

impl LinkLoad {
    /// Counts a frame that is to cross the link at `t`; `first_round` if it is a message of the first round.
    #[inline]
    pub fn offered(&mut self, t: i64, bits: u64, first_round: bool) {
        self.bits += bits;
        let (first, last) = self.offered_ps.get_or_insert((t, t));
        *last = t;
        if first_round || t == *first {
            (*first, self.first_bits) = (t, self.bits);
        }
    }

    /// Bits per second that wanted to cross it: those after the first round, by the time in which they came. From the end
    /// of a round to the end of another is a whole number of periods, however the messages of a round are spread.
    pub fn offered_bps(&self) -> Option<f64> {
        let (first, last) = self.offered_ps.filter(|(first, last)| last > first)?;
        Some((self.bits - self.first_bits) as f64 * 1e12 / (last - first) as f64)
    }
}

/// Whole sums returned to one worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Their number.
    pub messages: u64,
    /// Arrival of the first, in ps.
    pub first_ps: i64,
    /// Arrival of the last, in ps.
    pub last_ps: i64,
    /// Wire bits of those after the first, overhead included; missing in older manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_bits: Option<u64>,
}

impl Answers {
    /// Counts one more of `bits` on the wire, at `t`.
    #[inline]
    pub fn add(&mut self, t: i64, bits: u64) {
        let later = self.later_bits.get_or_insert(0);
        if self.messages == 0 {
            self.first_ps = t;
        } else {
            *later += bits;
        }
        self.last_ps = t;
        self.messages += 1;
    }
}

/// The plan of a run, with its assumptions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Whether the server answers with the whole sums.
    pub allreduce: bool,
    /// Wire bits of a message, overhead included; of the largest, if sizes differ.
    pub message_bits: u64,
    /// Rates of the links away from the server, in the plan's order; empty if each is that towards it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down_bps: Vec<u64>,
}

impl Planned {
    /// Returns the rates of both directions of each link, towards the server first.
    pub fn rates_bps(&self) -> impl Iterator<Item = [u64; 2]> + '_ {
        let links = self.plan.links.iter().enumerate();
        links.map(move |(i, link)| [link.rate_bps, self.down_bps.get(i).copied().unwrap_or(link.rate_bps)])
    }
}

impl Counters {
    /// Counts a packet at its receiver; each of its elements counts once per represented update.
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

    /// Adds a counter of a device, a server or a controller.
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
            (&mut self.frames_again, other.frames_again),
            (&mut self.clipped, other.clipped),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
        self.scaling_error_ppb = self.scaling_error_ppb.max(other.scaling_error_ppb);
        for (name, value) in &other.device {
            let largest = [&self.device_largest, &other.device_largest].iter().any(|names| names.contains(name));
            let rule = if largest { CounterRule::Largest } else { CounterRule::Sum };
            count(&mut self.device, &mut self.device_largest, name, rule, *value);
        }
        match (&mut self.received_ps, other.received_ps) {
            (Some((first, last)), Some((others_first, others_last))) => {
                match others_first.cmp(first) {
                    Ordering::Less => (*first, self.first_elements) = (others_first, other.first_elements),
                    // Of two at the same time, the one with more elements counts as the first.
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

/// Parameters of synchronous training, for metrics that compare with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Name of the model.
    pub model: String,
    /// Number of jobs.
    pub jobs: u16,
    /// Workers of each job.
    pub workers: u32,
    /// Iterations of each worker.
    pub iterations: u32,
    /// Packets per worker and iteration.
    pub blocks: u32,
    /// Gradient elements of the model.
    pub elements: u64,
    /// Computation time of an iteration, in ps.
    pub compute_ps: i64,
    /// Rate of a worker's link.
    pub host_rate_bps: u64,
    /// An iteration without stragglers over an ideal network: compute + 2(n−1)/n · size/rate (§6.1 "Ideal setup": a ring).
    pub ideal_ps: i64,
    /// Blocks that a worker may have outstanding.
    pub window: u32,
    /// Time without progress after which a block is given up; none if never.
    pub timeout_ps: Option<i64>,
    /// Iterations without stragglers until the target accuracy, if the experiment states it.
    pub iterations_to_target: Option<u64>,
}

/// Progress of a run dir.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Being written, or killed: streams are Arrow IPC and readable up to their last batch.
    #[default]
    Running,
    /// Ended early by the user; everything up to then is complete.
    Interrupted,
    /// Complete.
    Finished,
}

/// One of several processes that carry out a run together, as started by a launcher.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: u32,
    /// Number of processes.
    pub of: u32,
    /// Its share of the workers, as `1/2`; none if it has no workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// The name of its host.
    pub host: String,
    /// Boot id, PID namespace and PID: another process with the same first two can check whether this one is running.
    pub boot_id: String,
    /// See `boot_id`.
    pub pid_space: String,
    /// See `boot_id`.
    pub pid: u32,
}

/// Counts of one queue of an end, where an end has several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueCounts {
    /// The end: `workers`, `device.down`, `device.up`, `server`; `capture` for an interface that is only recorded.
    pub end: String,
    /// Number of the queue.
    pub queue: u32,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames that it received.
    pub received: u64,
    /// Frames lost, on the way out or before they were read.
    pub dropped: u64,
    /// Times at which the wire accepted nothing, or the receivers of its frames had no room.
    pub full_waits: u64,
    /// Lateness of its frames in ns: median, 99 %, maximum; only where deadlines are meaningful.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<[u64; 3]>,
}

/// Frames with deadlines, and those delayed by the host because the sending thread did not get its core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacingCounts {
    /// Frames sent.
    pub frames: u64,
    /// Frames delayed by the host.
    pub late_by_host: u64,
    /// Lateness of the others in ns: median, 99 %, maximum; none without others, or for several senders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_late_ns: Option<[u64; 3]>,
}

impl PacingCounts {
    /// Combines the counts of two senders.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        PacingCounts {
            frames: self.frames + other.frames,
            late_by_host: self.late_by_host + other.late_by_host,
            others_late_ns: None,
        }
    }

    /// Returns the share of frames delayed by the host; `None` without frames.
    pub fn share_by_host(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.late_by_host as f64 / self.frames as f64)
    }
}

/// The manifest of a run dir.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// [`MANIFEST_VERSION`] of the writer.
    pub version: u32,
    /// Tool version and commit.
    pub tool: String,
    /// Experiment name.
    pub experiment: String,
    /// Family of the account; manifests of older builds imply it ([`Manifest::family`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// The label of this run in its sweep: axis → value; `variant` names the variant.
    pub labels: BTreeMap<String, String>,
    /// Seed.
    pub seed: u64,
    /// Progress.
    pub state: RunState,
    /// Wall-clock time of the run's anchor in ns since 1970; 0 in virtual time.
    pub anchor_unix_ns: u64,
    /// Creation time in ns since 1970. This and `command` may differ between identical runs.
    pub created_unix_ns: u64,
    /// SHA-256 of the trace file, or of the resolved workload and schedule for synthetic ones; empty for studies.
    pub trace_hash: String,
    /// The resolved configuration as TOML.
    pub config: String,
    /// Command line of the run, word by word; empty if there was none. May differ between identical runs, as
    /// `created_unix_ns` does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Values set outside the experiment file, by `--set`, a flag or the environment, as `key=value`; shown beside the file's description.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Whether another seed, or the same one again, may give other numbers. False if no random number was drawn in
    /// virtual time or in a study: one run is sufficient then.
    #[serde(default = "unless_stated")]
    pub uses_chance: bool,
    /// Clock domain of every timestamp column.
    pub clocks: BTreeMap<String, String>,
    /// Offsets of stamp clocks from the run's clock, by column; times of columns without an entry are not comparable with the run's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stamp_clocks: BTreeMap<String, StampClock>,
    /// Facts about the host that matter for real time; in virtual time, the control socket alone.
    pub host: BTreeMap<String, String>,
    /// Names of the topology's nodes, by index.
    pub nodes: Vec<String>,
    /// Share of transmissions that were recorded: "full", "every:N" or "none".
    pub records: String,
    /// Cluster of each worker, at the beginning.
    pub clusters: Vec<u16>,
    /// Metrics defined by the experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<UserMetric>,
    /// Part of a run: `workers`, `device`, `server`, or `frames` of an interface; none for a whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The launched process that wrote this manifest; none if there was only one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
    /// Profile name of the hardware device, if there was one: it keeps no books.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
    /// Hash of the device's profile, which the configuration only names; none without one, and in manifests of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_hash: Option<String>,
    /// Training parameters, in synchronous runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Training>,
    /// The plan along which devices reduce, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Planned>,
    /// Layout of the lanes of updates, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<Layout>,
    /// Represented updates per worker at the server that end the run, if it has such a goal.
    #[serde(default)]
    pub goal: Option<u32>,
    /// Name of the study, if it is one: a study has no streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<String>,
    /// Findings of the study.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Counts of each queue, for ends with several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueCounts>,
    /// Frames delayed by the host, for an open loop with deadlines in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingCounts>,
    /// Kernel counters of the interfaces of real-time ends during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceCounts>,
    /// The fates of all updates.
    pub balance: Balance,
    /// The balance of each worker.
    pub balance_by_worker: Vec<Balance>,
    /// Totals.
    pub counters: Counters,
    /// Rows of the records about packets that are not in flight.
    #[serde(default)]
    pub strangers: u64,
    /// Observations about a device that keeps no books.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<Unseen>,
    /// Incidents that the process reported and no account shows.
    #[serde(default, skip_serializing_if = "Incidents::is_empty")]
    pub incidents: Incidents,
    /// The verdict over all facts ([`super::judge`]).
    pub validity: Validity,
    /// Digests of the files of the run dir; empty until the run ends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: FileDigests,
}

/// The subject of a run's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Updates on their way to a server.
    Updates,
    /// Contributions to results that come back to workers.
    Results,
    /// Pairs of key and value, summed by key.
    Pairs,
}

impl Manifest {
    /// Returns the family of the account. In manifests of older builds it follows from two facts: only runs of pairs
    /// have the setting `cold_bytes`, and only runs of pairs and of results train.
    pub fn family(&self) -> Family {
        let is_cold = |line: &str| line.split_once(" = ").is_some_and(|(key, _)| key == "cold_bytes");
        match (self.family, &self.training) {
            (Some(family), _) => family,
            (None, Some(_)) if self.config.lines().any(is_cold) => Family::Pairs,
            (None, Some(_)) => Family::Results,
            (None, None) => Family::Updates,
        }
    }

    /// Returns whether its version recorded neither the command nor overrides: none are listed, and there may have been some.
    pub fn predates_overrides(&self) -> bool {
        self.version < 2 && self.command.is_empty() && self.overrides.is_empty()
    }

    /// Returns whether times are of clocks that run by themselves; in virtual time, lockstep included, they are exact.
    pub fn is_real_time(&self) -> bool {
        self.clocks.get("sent.t_sent_ps").is_some_and(|clock| clock != "virtual")
    }

    /// Returns whether times at the server and at workers are of one clock. The tool that joins the parts of a run records if they are not.
    pub fn has_one_clock(&self) -> bool {
        let received = self.clocks.get("received.t_recv_ps");
        received.is_none() || received == self.clocks.get("sent.t_sent_ps")
    }

    /// Returns whether frames left at top speed, without waiting for their schedule: their generation times mean nothing, and nothing has an
    /// age. Runs of older versions have no such note, or a sentence in its place; joined ones have those of their parts.
    pub fn is_at_top_speed(&self) -> bool {
        let asked = |config: Document| config.get("transport.pacing") == Some(&"top".into());
        let is_virtual = self.clocks.get("sent.t_sent_ps").is_some_and(|clock| clock == "virtual");
        let noted = self.validity.notes.iter().any(|note| matches!(note, Note::TopSpeed {}));
        noted || !is_virtual && Document::parse(&self.config, "config").is_ok_and(asked)
    }
}

/// Default of manifests that did not record it: randomness is possible.
fn unless_stated() -> bool {
    true
}

/// `sweep.json`: the runs in a folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SweepManifest {
    /// [`MANIFEST_VERSION`] of the writer.
    pub version: u32,
    /// Experiment name and one line about it.
    pub experiment: String,
    /// Description of the experiment.
    pub about: String,
    /// Values set outside the experiment file, as in the manifests.
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
    /// The part of a sweep that these runs are; none if they are the whole sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<SweepShard>,
}

/// One run of a sweep.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SweepRun {
    /// Folder, relative to the sweep's folder.
    pub dir: String,
    /// Axis → value.
    pub labels: BTreeMap<String, String>,
    /// Seed.
    pub seed: u64,
    /// The digest of its manifest ([`manifest_digest`](super::digest::manifest_digest)); none until the sweep ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
}

/// Content of a report of the sweep: `[report]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportPlan {
    /// Question at the top, instead of the one that follows from the metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Metrics of the main table, in order.
    pub metrics: Vec<String>,
    /// The variant with which others are compared.
    pub baseline: Option<String>,
    /// Named groups of clusters, whose ages are reported too.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Parameters fitted to reach published values, each with its sensitivity, as text.
    pub fitted: Vec<String>,
    /// Differences from the paper with reasons, and other remarks for readers.
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

    /// Three flows whose messages come at 0, 30 and 40 ps of every 100 ps: 3,000 bits per 100 ps.
    #[test]
    fn the_load_of_a_link_is_that_of_a_period_however_a_round_is_spread() {
        for rounds in [2i64, 5, 20] {
            let (mut spread, mut at_once) = (LinkLoad::default(), LinkLoad::default());
            for round in 0..rounds {
                for t in [0, 30, 40] {
                    spread.offered(100 * round + t, 1000, round == 0);
                    at_once.offered(100 * round, 1000, round == 0);
                }
            }
            assert_eq!([spread, at_once].map(|load| load.offered_bps()), [Some(3e13); 2], "{rounds} rounds");
        }
        let mut single = LinkLoad::default();
        [0, 30, 40].into_iter().for_each(|t| single.offered(t, 1000, true));
        assert_eq!((single.bits, single.offered_bps()), (3000, None), "a single round has no rate");
    }
}
