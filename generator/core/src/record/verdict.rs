//! The only judge of validity: derives faults and notes from the facts of a run.
//!
//! Called by `replay`, `merge` and `analysis`. A fault makes a run invalid, a note does not; sentences are made here.

mod arrivals;
mod files;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::counter::is_zero;
use super::interface::InterfaceCounts;
use super::lanes::Layout;
use super::load::{AckCopies, DeviceLoad, copies_told, mbps};
use super::manifest::{Balance, Family, Manifest, RunState};
use crate::time::{NS, Time};

/// Declares findings: name, code in files, fields with their attributes, sentence.
macro_rules! findings {
    ($(#[$about:meta])* $name:ident {
        $($(#[doc = $doc:literal])* $variant:ident = $code:literal { $($(#[$of:meta])* $field:ident: $type:ty),* } => $text:literal $(, $arg:expr)*;)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "code")]
        #[expect(missing_docs, reason = "the sentences below say what the fields are")]
        pub enum $name {
            $($(#[doc = $doc])* #[serde(rename = $code)] $variant { $($(#[$of])* $field: $type),* },)+
        }

        impl $name {
            /// All codes with their descriptions.
            pub const CODES: &'static [(&'static str, &'static str)] = &[$(($code, concat!($($doc),*))),+];

            /// Returns the code in files and outputs.
            pub const fn code(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $code,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                match self { $(Self::$variant { $($field),* } => write!(f, $text $(, $arg)*),)+ }
            }
        }
    };
}

findings! {
    /// A reason not to use the numbers of a run.
    Fault {
        /// Updates are missing from the balance, or rows name packets that were never sent.
        BalanceOpen = "balance_open" { unknown: i64, strangers: u64 } =>
            "the balance does not close: {unknown} unknown, {strangers} rows about unknown packets";
        /// The records say other than the manifest.
        RecordsDisagree = "records_disagree" { updates: u64 } =>
            "records, or records and counters, disagree about {updates} updates (balance_unknown)";
        /// The records of results say other than the counter.
        ResultsDisagree = "results_disagree" { rows: u64, replies: u64 } =>
            "records and counters disagree about results at workers: {rows} rows, but {replies} replies";
        /// The records and the goal of the run disagree.
        GoalDisagrees = "goal_disagrees" { why: String } => "{why}";
        /// Payloads that are not the sum of their members.
        WrongSums = "wrong_sums" { packets: u64 } => "{packets} packets carried a wrong sum";
        /// Results of a server that are not the sums of all contributions.
        WrongResults = "wrong_results" { results: u64 } => "{results} results of the server are not the sums of their contributions";
        /// Copies of results that hold something else than the first.
        UnlikeResults = "unlike_results" { results: u64, worker: u32, block: u32 } =>
            "{results} results differ from the first copy of the same sum, which another worker received, or this one before; the first at \
             worker {worker}, block {block}: the device sends workers different sums, or changes what it repeats";
        /// Packets of one update that hold something else, and sums under another cluster.
        Damaged = "damaged" { packets: u64 } =>
            "{packets} packets carry something else than the one update that they state, or that a device that only forwards must leave \
             unchanged: the device aggregates without stating it, although target.program says that it forwards, damages them, or changes headers";
        /// Nothing came back from a device.
        NothingReceived = "nothing_received" { sent: u64 } =>
            "nothing came back: {sent} transmissions were sent and none arrived; check cables, the device's tables and transport.interfaces";
        /// What came back from a device is nothing of the run.
        NothingMatched = "nothing_matched" { sent: u64, frames: u64 } =>
            "{sent} transmissions were sent, and none of the {frames} frames that came matches an update or a result of this run; compare \
             addresses, ports and headers with docs/device.md";
        /// Packets in flight between roles at the end of a run in real time.
        Vanished = "vanished" { updates: u64 } => "{updates} updates vanished between the roles; raise transport.linger?";
        /// The same where frames are known to be lost.
        VanishedLost = "vanished_lost" { updates: u64 } => "{updates} updates vanished between the roles";
        /// The account needs records that were not kept.
        NotSettled = "not_settled" { records: String } =>
            "the balance was not settled: it needs capture.records = \"full\", not \"{records}\"";
        /// Rows of updates that the workload does not make.
        NotOfWorkload = "not_of_workload" { updates: u64 } => "{updates} updates were sent that the workload does not have";
        /// The run was longer than times can represent.
        BeyondHorizon = "beyond_horizon" {} =>
            "the run went beyond 26 days and was stopped there; raise the rates, lower the delays, send less, or end it before with \
             capture.until; workers may retransmit without end if all their packets are lost; a device in lockstep says next = -1 when \
             nothing will leave";
        /// Frames were not given back to the pool.
        Leaked = "leaked" { frames: u64 } => "{frames} frames were never released";
        /// The workers ended early.
        WorkersStopped = "workers_stopped" { why: String } => "the workers stopped early: {why}";
        /// An endpoint did not finish.
        Unfinished = "unfinished" { why: String } => "{why}";
        /// The run has not ended.
        UnderWay = "under_way" {} => "the run has not ended";
        /// The user ended the run.
        Interrupted = "interrupted" {} => "the run was interrupted";
        /// The process was killed.
        Killed = "killed" {} => "the run was killed; its counters are missing and its last rows may be";
        /// An end lost frames outside the device.
        FramesLost = "frames_lost" { end: String, out: u64, before_read: u64 } =>
            "{end} lost frames outside the device: {out} on the way out, {before_read} before they were read";
        /// A role could not go on; the records are complete up to then.
        RoleFailed = "role_failed" { why: String } => "{why}";
        /// A launched device ended during the run.
        DeviceEnded = "device_ended" { why: String } => "{why}";
        /// A frame was later than the experiment allows.
        TooLateAborted = "too_late_aborted" { late_us: i64 } => "aborted: a frame was {} late, above transport.late_limit", if *late_us == 0 { "less than 1 us".to_owned() } else { format!("{late_us} us") };
        /// A fault of one part of a joined run.
        InPart = "in_part" { part: String, fault: Box<Fault> } => "{part}: {fault}";
        /// A capture lost frames.
        CaptureLost = "capture_lost" { kernel: u64, writer: u64, longest_away_ps: i64 } =>
            "{} frames were lost: {kernel} in the kernel (ring full or frame too long; raise --ring), {writer} because the writer was \
             behind (raise --buffer, or write to a faster disk); the ring had to buffer frames for up to {:.1} ms",
            kernel + writer, *longest_away_ps as f64 / 1e9;
        /// An interface dropped frames.
        InterfaceDropped = "interface_dropped" { frames: u64 } => "the interface itself dropped {frames} frames";
        /// It is not known whether the capture is whole.
        CaptureDoubt = "capture_doubt" { why: String } => "{why}";
        /// The capture could not be written.
        WriterFailed = "writer_failed" { why: String } => "the writer failed: {why}";
        /// The capture ended before its limit.
        CaptureInterrupted = "capture_interrupted" {} => "the capture was interrupted before its limit";
        /// The run could not be analysed.
        NotAnalysed = "not_analysed" { why: String } => "not analysed: {why}";
        /// What an older version of the tool said.
        Told = "told" { said: String } => "{said}";
    }
}

findings! {
    /// Something that a reader of a valid run must know.
    Note {
        /// The device keeps no books.
        NoBooks = "no_books" { sent: u64, unaccounted: u64 } =>
            "the device keeps no books: {unaccounted} of {sent} transmissions are unaccounted for (merged, replaced or \
             lost)";
        /// The device keeps no books and forwards.
        Lost = "lost" { sent: u64, lost: u64 } =>
            "the device keeps no books and is declared to forward: {lost} of {sent} transmissions did not arrive and count as lost";
        /// More arrived than the link that was declared carries.
        AboveLink = "above_link" { arrived_bps: u64, link_bps: u64, merged: bool } =>
            "more arrived than the link of the topology carries: {} of {}{}; what is said of the device does not hold (its rate, its \
             tables, topology.rate)",
            mbps(*arrived_bps), mbps(*link_bps), if *merged { "" } else { ", and no packet held more than one update" };
        /// A device that merges under load merged nothing under load.
        NothingMerged = "nothing_merged" { offered_bps: u64, link_bps: u64 } =>
            "nothing was merged: {} were offered to a link of {}, and no packet that arrived held more than one update; what is said of \
             the device does not hold (target.program, its tables, topology.rate)", mbps(*offered_bps), mbps(*link_bps);
        /// A device with a timeout never went on without a worker that was late.
        NothingAged = "nothing_aged" { waited_us: u64, timeout_us: u64 } =>
            "no result lacked a worker, though others waited {waited_us} us for it and target.timeout is {timeout_us} us: the device does \
             not go on without workers that are late, or after a longer time; set target.mitigation = false if it is not to";
        /// Acknowledgements that did not come to all workers that they are for.
        AcksMissing = "acks_missing" { acks: u64, expected: u64, seen: u64, elsewhere: u64, group: bool, forwards: bool, #[serde(default, skip_serializing_if = "std::ops::Not::not")] at_device: bool } =>
            "acknowledgements: {}, {}; look at the device's {}",
            if *at_device { format!("{acks} reached the device") } else { format!("the server sent {acks}") },
            copies_told([*expected, *seen, *elsewhere], *group),
            match (group, forwards) {
                (true, true) => "multicast groups, if it has any: one that only forwards passes them to one worker",
                (true, false) => "multicast groups",
                (false, _) => "tables",
            };
        /// The sender's own limit was what decided its rate.
        LimitDecided = "limit_decided" { share_percent: u64 } =>
            "transport.limit decided the rate: it held frames back for {share_percent} % of the time in which workers sent; raise it, or \
             set transport.limit = \"none\", to measure the device";
        /// The layout does not say how many updates a packet holds.
        MembersHidden = "members_hidden" {} =>
            "packets do not say which updates they hold, and a merged one cannot be told from its newest: Age-of-Model and updates per \
             packet have no value; format.lanes gives them one (docs/provenance.md)";
        /// Sums whose members are not known.
        NotChecked = "sums_not_checked" { packets: u64, #[serde(default, skip_serializing_if = "std::ops::Not::not")] provable: bool } =>
            "{packets} sums were not checked: their members are not known{}", if *provable { " (format.lanes = \"which\" proves them)" } else { "" };
        /// Sums that differ from what the rows explain, of a run with a killed part.
        Unproven = "sums_unproven" { packets: u64 } =>
            "{packets} sums differ from what the rows explain, and the last rows of a killed part are missing: whether they are right is not \
             known";
        /// Sums that 32 bits do not hold.
        Overflowed = "sums_overflowed" { packets: u64 } =>
            "{packets} packets of results have sums that 32 bits do not hold: registers wrap around, or stop at the end, and workers have \
             another number; lower endpoint.scale";
        /// Gradients of workers that learn became infinite or undefined.
        Diverged = "learning_diverged" { worker: u32, iteration: u32 } =>
            "learning diverged: the first gradient that is not finite is of worker {worker} in iteration {iteration}; lower endpoint.learning_rate";
        /// Sums by key whose members are not known, or beyond the range of the adder.
        KeysNotChecked = "keys_not_checked" { packets: u64 } =>
            "{packets} packets of hot sums were not checked: whose pairs they hold is not known (asynchronous training, pushes that workers \
             gave up, workers in several processes, or results of an iteration that was over), or values are too large for target.add";
        /// Sums by key that were checked.
        KeysChecked = "keys_checked" { packets: u64, allowed: String } =>
            "{packets} packets of hot sums were checked by key: in a synchronous iteration each is of all workers of the job; what is off by \
             more than {allowed} of the sizes of what was added is found, in any order of additions";
        /// Lanes that no set of updates explains.
        LanesContradict = "lanes_contradict" { packets: u64 } =>
            "the lanes of {packets} packets are explained by no set of updates: the device adds otherwise than format.lanes_merge says or \
             changes headers or payloads, updates wait longer than format.lanes_window, packets were copied, or clocks of hosts are apart (docs/provenance.md)";
        /// Right sums of another number of updates than their packets say.
        CountsWrong = "counts_wrong" { packets: u64, more: u64 } =>
            "{packets} packets say another number of updates than their lanes prove ({more} of them a larger one): metrics of that number \
             (aggregation_mean, updates_per_s) are wrong by as much, and lanes_aggregation_mean is right";
        /// Sums that were checked by lanes.
        CheckedByLanes = "sums_checked_by_lanes" { packets: u64, smallest: String } =>
            "{packets} sums were checked by the members that their lanes prove, in any order of additions: an error of {smallest} or \
             more is found in every element whose sum is within the range of f32";
        /// Packets that arrived more than once.
        Duplicates = "duplicates" { packets: u64 } => "{packets} packets arrived again";
        /// Frames of a device of others that hosts would drop.
        ChecksumsWrong = "checksums_wrong" { frames: u64 } =>
            "{frames} frames of the device have a wrong checksum of IPv4 or UDP: the run took them, and hosts drop them";
        /// Frames whose UDP checksum a host left to an interface.
        ChecksumsUnfinished = "checksums_unfinished" { frames: u64 } =>
            "{frames} frames have a UDP checksum that their host left to an interface, which did not write it: nothing is known of it; switch \
             that off on the device's port (ethtool -K PORT tx off)";
        /// Frames that match no known worker.
        Unmatched = "unmatched" { packets: u64 } => "{packets} packets that came match no update or result of this run";
        /// The run ended at its limit.
        CutOff = "cut_off" { in_flight: u64 } => "cut off by capture.until; {in_flight} updates were in flight";
        /// A switch counted updates more or less than once.
        CountedUnlikeOnce = "counted_unlike_once" { twice: u64, never: u64 } =>
            "the switch counted {twice} updates more than once, and took {never} for duplicates that it had not counted";
        /// Frames that were too late to be sent.
        TooLate = "too_late" { frames: u64 } => "{frames} frames were too late and were not sent";
        /// Generation times mean nothing.
        TopSpeed = "top_speed" {} => "frames left as fast as they could: generation times are the schedule's, so there is no Age-of-Model";
        /// The run was changed while it lasted.
        Steered = "steered" { changes: u64 } =>
            "it was steered while it lasted ({changes} changes, in controls.parquet): its rate is not the experiment's, and it has no \
             partner in comparisons";
        /// The run is a part.
        Part = "part" { part: String } => "the {part} part of a run; pktgen merge joins the parts and closes the balance";
        /// A clock of stamps cannot be compared.
        StampClock = "stamp_clock" { column: String, why: String } => "{column} cannot be compared with the run's times: {why}";
        /// Stamps stay where they are.
        StampsElsewhere = "stamps_elsewhere" {} => "stamps of what was sent are of several clocks, and stay in the senders' run dirs";
        /// Parts of several hosts.
        DifferentHosts = "different_hosts" {} => "the parts are of different hosts: their times were joined by their wall clocks";
        /// Wall clocks are apart by a known limit.
        ClocksWithin = "clocks_within" { ns: u64 } =>
            "workers and server are on different hosts, whose wall clocks are {:.3} us apart at most: one-way ages and latencies may be \
             off by as much", *ns as f64 / 1000.0;
        /// Wall clocks differ by an unknown amount.
        ClocksUnknown = "clocks_unknown" { why: String } =>
            "one-way ages and latencies are withheld: workers and server are on different hosts, and the offset of their clocks is unknown \
             ({why}); synchronise both by PTP (ptp4l, phc2sys) or chronyd, or give a bound that holds: pktgen merge --clock-error 1us";
        /// Strict layouts carry no ids, and the device keeps no books.
        Headless = "headless" {} =>
            "no ids are on the wire: packets are named by what they hold (docs/strict.md, docs/raw.md)";
        /// Workers need more blocks than the device has room for.
        Room = "room" { why: String } => "{why}";
        /// Workers send again so early that a device may not stop waiting.
        EarlyRetransmission = "early_retransmission" { every: String, key: String, silence: String } =>
            "endpoint.retransmit = {every} is below twice {key} = {silence}: packets that are sent again, also refused ones, keep blocks \
             that wait for others from ageing, so lost packets or results may prolong iterations a lot, or end the run; raise \
             endpoint.retransmit, or lower {key}";
        /// Devices drop packets of finished blocks, which workers send again if their result is lost.
        FinalResults = "final_results" { key: String } =>
            "endpoint.retransmit repairs no lost result: with {key} = true, packets of finished blocks are dropped, so a worker whose result \
             is lost waits for ever; if results may be lost, set {key} = false";
        /// No device says how full its queue is.
        NoCongestionSignal = "no_congestion_signal" { program: String, queue: String } =>
            "workers react to congested queues and no device reports one: program \"{program}\" with queue \"{queue}\" stamps \
             no count of clusters into ACKs, so every update is sent";
        /// States were asked for and there are none.
        StatesUnused = "states_unused" {} => "capture.states has no effect: these workers do not track a queue";
        /// A thread's core is far from its card.
        FarCore = "far_core" { core: usize, interface: String, node: u32, cores: Vec<usize> } =>
            "core {core} is on another NUMA node than {interface}, which is on node {node} with cores {cores:?}: frames cross between \
             them; choose others in transport.cores";
        /// More threads than cores.
        SharedCores = "shared_cores" { threads: usize, cores: usize } =>
            "{threads} threads that send and receive share {cores} cores: more queues are no faster then";
        /// One queue had all frames.
        OneQueue = "one_queue" { queue: u32, of: usize, end: String, verb: String, frames: u64, why: String } =>
            "queue {queue} of the {of} of {end} {verb} all {frames} frames: {why}";
        /// A cable went down and up during the run.
        CarrierChanged = "carrier_changed" { end: String, interface: String, changes: u64, state: String } =>
            "{end}: the carrier of {interface} came or went {changes} times (now {state}): losses and ages are not the device's alone";
        /// An interface dropped frames that were handed over to it.
        InterfaceDisagrees = "interface_disagrees" { end: String, interface: String, sent: u64, counted: u64, dropped: u64 } =>
            "{end}: {sent} frames were handed over to {interface}, which counted {counted} packets sent and {dropped} dropped: rows of \
             sent name frames that did not leave";
        /// Longer frames may arrive than the socket takes.
        ShortSocket = "short_socket" { most: u64, mtu: u64 } =>
            "the socket takes frames up to {most} B, and {mtu} B may arrive: longer ones count as dropped";
        /// Nothing says what the files held when they were written.
        Unverified = "unverified" {} =>
            "unverified: the manifest has no digests (an older version wrote it, or the run was killed), so damaged files cannot be detected";
        /// A launched device did not end as it should.
        DeviceStop = "device_stop" { why: String } => "{why}";
        /// What a launched device counted cannot be used, or not all of it.
        DeviceCounters = "device_counters" { why: String } => "{why}";
        /// The reader disabled the comparison of digests.
        NotVerified = "not_verified" {} => "its files were not compared with their digests (--no-verify)";
        /// The same of a part of the run.
        OfPart = "of_part" { part: String, note: Box<Note> } => "{part}: {note}";
        /// What an older version of the tool said.
        Told = "told" { said: String } => "{said}";
    }
}

/// Incidents that a process reports while it runs and no account shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incidents {
    /// Faults of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Notes for readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// Whether parts were killed, and none of those whose counters say what arrived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_senders_killed: bool,
    /// Whether a part that receives ended before its time began: nothing is known of arrivals there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub receiver_absent: bool,
}

/// Observations about a device that keeps no books, from received packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Whether it may merge or replace updates, according to its declared program.
    pub merges: bool,
    /// Whether results are packets at a server, which adds what devices did not: those of one worker deliver themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_server: bool,
    /// Packets received again.
    pub duplicates: u64,
    /// Packets that claim to be one update, or must be behind a device that only forwards, and carry something else.
    pub damaged: u64,
    /// Sums whose members are not known.
    pub unchecked: u64,
    /// Sums checked by the members that lanes prove.
    #[serde(default)]
    pub checked_by_lanes: u64,
    /// Packets whose lanes match no set of updates.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lanes_contradict: u64,
    /// Right sums of another number of updates than their packets say, as lanes prove.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub miscounted: u64,
    /// Those of fewer updates than their packets say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overcounted: u64,
    /// The smallest error that would have shown in every element within the range of f32 of those that lanes checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_error: Option<String>,
    /// Packets of sums by key whose values were checked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checked_by_key: u64,
    /// Tolerance of those checks, relative to the sizes of the summands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_error: Option<String>,
    /// Offered and received load of the link that the topology declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<DeviceLoad>,
    /// Acknowledgements at the workers' interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acks: Option<AckCopies>,
}

/// Counter of frames with a wrong IPv4 or UDP checksum, of a device in lockstep.
pub const CHECKSUMS_WRONG: &str = "lockstep.checksums_wrong";
/// The same counter on wires.
pub const WIRES_CHECKSUMS_WRONG: &str = "wires.checksums_wrong";
/// Fact of a host: datagrams that its sockets discarded during the run for a wrong checksum, those of others included.
pub const UDP_CHECKSUM_ERRORS: &str = "udp.checksum_errors";
/// Counter of ns that a device waited for workers, for one that never went on without them.
pub const WAITS_FOR_ALL: &str = "waits_for_all_ns";
/// Prefix of counter names of a device in lockstep, and of those of a launched device that pktgen's own counters have.
pub const LOCKSTEP_COUNTER: &str = "device.";

/// The facts on which the verdict of a run depends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether it is one part of a run, whose account is settled when parts are joined.
    pub part: bool,
    /// Whether it is a run in real time whose roles ended regularly.
    pub real_time: bool,
    /// Whether the user ended it early.
    pub interrupted: bool,
    /// The fates of all updates.
    pub balance: Balance,
    /// Rows about packets that are not in flight.
    pub strangers: u64,
    /// Packets at the server plus results at workers.
    pub arrived: u64,
    /// Packets whose payload was not the sum of their members.
    pub sums_wrong: u64,
    /// Packets at the server that match no update.
    pub unmatched: u64,
    /// Updates that a switch counted more than once, and updates that it never counted.
    pub unlike_once: (u64, u64),
    /// Frames of a foreign device with a wrong checksum.
    pub checksums_wrong: u64,
    /// Time in ns that a device waited for workers, for one that never went on without them.
    pub waited_ns: u64,
    /// Configured timeout in ps after which it should go on.
    pub timeout_ps: Option<Time>,
    /// The subject of the account.
    pub family: Option<Family>,
    /// Observations about a device that keeps no books.
    pub unseen: Option<Unseen>,
    /// Layout of the lanes by which payloads identify the updates that they hold.
    pub lanes: Option<Layout>,
    /// Counters of interfaces.
    pub interfaces: Vec<InterfaceCounts>,
    /// Incidents that the process reported.
    pub incidents: Incidents,
}

impl Facts {
    /// Extracts the facts from a manifest.
    pub fn of(manifest: &Manifest) -> Facts {
        let counters = &manifest.counters;
        let count = |name: &str| counters.device.get(name).copied().unwrap_or(0);
        Facts {
            part: manifest.part.is_some(),
            real_time: manifest.is_real_time(),
            interrupted: manifest.state == RunState::Interrupted,
            balance: manifest.balance.clone(),
            strangers: manifest.strangers,
            arrived: counters.packets_received + counters.replies,
            sums_wrong: counters.sums_wrong,
            unmatched: counters.foreign,
            interfaces: manifest.interfaces.clone(),
            unlike_once: (count("counted_twice"), count("never_counted")),
            checksums_wrong: count(CHECKSUMS_WRONG) + count(WIRES_CHECKSUMS_WRONG),
            waited_ns: count(WAITS_FOR_ALL),
            timeout_ps: manifest.training.as_ref().and_then(|training| training.timeout_ps),
            family: Some(manifest.family()),
            unseen: manifest.unseen.clone(),
            lanes: manifest.lanes,
            incidents: match manifest.version {
                // Manifests of these versions hold only the sentences.
                0 | 1 => Incidents {
                    faults: manifest.validity.faults.clone(),
                    notes: manifest.validity.notes.clone(),
                    ..Incidents::default()
                },
                _ => manifest.incidents.clone(),
            },
        }
    }
}

/// Decides whether the numbers of a run may be used.
pub fn judge(facts: &Facts) -> Validity {
    let Incidents { mut faults, mut notes, .. } = facts.incidents.clone();
    let balance = &facts.balance;
    let mut first = Vec::new();
    if balance.unknown != 0 || facts.strangers > 0 {
        first.push(Fault::BalanceOpen { unknown: balance.unknown, strangers: facts.strangers });
    }
    if facts.sums_wrong > 0 {
        first.push(Fault::WrongSums { packets: facts.sums_wrong });
    }
    let early = facts.interrupted || faults.iter().any(Fault::ends_early);
    if facts.real_time && !facts.part && !early && facts.unseen.is_none() && balance.in_flight > 0 {
        let updates = balance.in_flight;
        // If frames are known to be lost, that is the reason; else a role ended too soon.
        let known = faults.iter().any(Fault::loses_frames);
        first.insert(0, if known { Fault::VanishedLost { updates } } else { Fault::Vanished { updates } });
    }
    if let Some(unseen) = facts.unseen.as_ref().filter(|_| !facts.part) {
        judge_unseen(facts, unseen, &mut first, &mut notes);
    }
    if facts.interrupted && !faults.iter().any(Fault::is_kill) {
        faults.push(Fault::Interrupted {});
    }
    notes.extend(facts.interfaces.iter().filter(|counts| counts.contradicts()).map(|counts| {
        Note::InterfaceDisagrees {
            end: counts.place(),
            interface: counts.interface.clone(),
            sent: counts.sent.unwrap_or_default(),
            counted: counts.tx_packets,
            dropped: counts.tx_dropped + counts.tx_errors,
        }
    }));
    notes.extend(facts.interfaces.iter().filter(|counts| counts.carrier_changes > 0).map(|counts| {
        Note::CarrierChanged {
            end: counts.place(),
            interface: counts.interface.clone(),
            changes: counts.carrier_changes,
            state: counts.state.clone(),
        }
    }));
    let (twice, never) = facts.unlike_once;
    if twice + never > 0 {
        notes.insert(0, Note::CountedUnlikeOnce { twice, never });
    }
    first.append(&mut faults);
    Validity { faults: first, notes }
}

/// Judges a device that keeps no books.
fn judge_unseen(facts: &Facts, unseen: &Unseen, faults: &mut Vec<Fault>, notes: &mut Vec<Note>) {
    let Balance { sent, unaccounted, .. } = facts.balance;
    if sent > 0 && facts.arrived == 0 && !facts.incidents.lacks_counters() {
        let frames = facts.unmatched;
        let fault = if frames > 0 { Fault::NothingMatched { sent, frames } } else { Fault::NothingReceived { sent } };
        faults.insert(0, fault);
    }
    if unseen.damaged > 0 {
        faults.push(Fault::Damaged { packets: unseen.damaged });
    }
    let mut told = doubts(facts, unseen);
    let missing = match unseen.merges {
        true => Note::NoBooks { sent, unaccounted },
        false => Note::Lost { sent, lost: unaccounted },
    };
    told.extend((!facts.incidents.lacks_arrivals(&facts.balance)).then_some(missing));
    if unseen.lanes_contradict > 0 {
        told.push(Note::LanesContradict { packets: unseen.lanes_contradict });
    }
    if unseen.miscounted > 0 {
        told.push(Note::CountsWrong { packets: unseen.miscounted, more: unseen.overcounted });
    }
    // Sums with unexplained lanes are unchecked, too; copies and single updates with such lanes are not among these.
    match unseen.unchecked {
        0 => {}
        packets if facts.family == Some(Family::Pairs) => told.push(Note::KeysNotChecked { packets }),
        packets => told.push(Note::NotChecked { packets, provable: facts.would_lanes_prove() }),
    }
    if let Some(allowed) = unseen.allowed_error.clone() {
        told.push(Note::KeysChecked { packets: unseen.checked_by_key, allowed });
    }
    if let Some(smallest) = unseen.smallest_error.clone() {
        told.push(Note::CheckedByLanes { packets: unseen.checked_by_lanes, smallest });
    }
    if unseen.duplicates > 0 {
        told.push(Note::Duplicates { packets: unseen.duplicates });
    }
    if facts.checksums_wrong > 0 {
        told.push(Note::ChecksumsWrong { frames: facts.checksums_wrong });
    }
    if facts.unmatched > 0 {
        told.push(Note::Unmatched { packets: facts.unmatched });
    }
    notes.splice(0..0, told);
}

/// Returns the notes that suggest that something other than the declared setup was measured.
fn doubts(facts: &Facts, unseen: &Unseen) -> Vec<Note> {
    let mut told = Vec::new();
    let merged =
        facts.balance.delivered_merged + unseen.unchecked + unseen.checked_by_lanes + unseen.checked_by_key > 0;
    if let Some(load) = &unseen.load {
        let (link_bps, overloaded) = (load.link_bps, load.offered.exceeds(load.link_bps));
        if load.arrived.exceeds(link_bps) {
            let merged = merged || !load.merges || !overloaded;
            told.push(Note::AboveLink { arrived_bps: load.arrived.bps(), link_bps, merged });
        } else if load.merges && overloaded && !merged && facts.arrived > 0 {
            told.push(Note::NothingMerged { offered_bps: load.offered.bps(), link_bps });
        }
    }
    // A record expires within two timeouts; the third allows for host delays.
    if let Some(timeout) = facts.timeout_ps.filter(|timeout| facts.waited_ns as Time * NS > 3 * timeout) {
        told.push(Note::NothingAged { waited_us: facts.waited_ns / 1000, timeout_us: (timeout / NS / 1000) as u64 });
    }
    if let Some(acks) = unseen.acks.as_ref().filter(|acks| lacks(acks.expected, acks.seen) || acks.elsewhere > 0) {
        let AckCopies { acks, expected, seen, elsewhere, group, at_device, .. } = *acks;
        told.push(Note::AcksMissing { acks, expected, seen, elsewhere, group, forwards: !unseen.merges, at_device });
    }
    if facts.hides_members() && facts.lanes.is_none() {
        told.push(Note::MembersHidden {});
    }
    told
}

/// Returns whether more than 1 % is missing: the last ones may be in flight when a run ends.
const fn lacks(expected: u64, seen: u64) -> bool {
    expected.saturating_sub(seen).saturating_mul(100) > expected
}

impl Note {
    /// Returns whether something other than the declared setup was measured; outputs show such notes beside the verdict.
    pub fn is_doubt(&self) -> bool {
        match self {
            Note::AboveLink { .. }
            | Note::NothingMerged { .. }
            | Note::NothingAged { .. }
            | Note::LimitDecided { .. }
            | Note::CarrierChanged { .. }
            | Note::CountedUnlikeOnce { .. }
            | Note::CountsWrong { .. }
            | Note::LanesContradict { .. }
            | Note::TooLate { .. }
            | Note::Steered { .. } => true,
            // A forwarder passes each only to the addressed worker.
            Note::AcksMissing { acks, seen, elsewhere, forwards, .. } => {
                !forwards || *elsewhere > 0 || lacks(*acks, *seen)
            }
            Note::OfPart { note, .. } => note.is_doubt(),
            _ => false,
        }
    }

    /// Returns the question that the note leaves undecided; `None` if it affects no answer.
    pub fn leaves_open(&self) -> Option<&'static str> {
        Some(match self {
            Note::OfPart { note, .. } => return note.leaves_open(),
            Note::AboveLink { .. } => "which link was measured",
            Note::NothingMerged { .. } => "whether the device merges",
            Note::NothingAged { .. } => "whether the device goes on without workers that are late",
            Note::AcksMissing { .. } if self.is_doubt() => "whether workers know what became of their updates",
            Note::LimitDecided { .. } => "how fast the device is",
            Note::MembersHidden {} => "which updates a packet holds",
            Note::NotChecked { .. } | Note::KeysNotChecked { .. } | Note::Unproven { .. } => {
                "whether these sums are right"
            }
            Note::LanesContradict { .. } => "which updates these packets hold, and whether they are right",
            // A device may leave the number at 1.
            Note::CountsWrong { more: 1.., .. } => "whether the device counts contributions that it does not add",
            Note::CountedUnlikeOnce { .. } => "whether sums have every contribution once",
            Note::Unmatched { .. } => "whose packets these are",
            Note::Duplicates { .. } => "why they came again",
            Note::CarrierChanged { .. } => "what of it the outage changed",
            Note::InterfaceDisagrees { .. } => "which frames left",
            Note::DeviceCounters { .. } => "what the device counted",
            Note::Unverified {} | Note::NotVerified {} => "whether the files are as they were written",
            Note::Told { .. } => "what this means for the run",
            _ => return None,
        })
    }
}

impl Fault {
    /// Returns whether frames were lost outside the device.
    pub fn loses_frames(&self) -> bool {
        match self {
            Fault::FramesLost { .. } => true,
            Fault::InPart { fault, .. } => fault.loses_frames(),
            _ => false,
        }
    }

    /// Returns whether a process was killed.
    pub fn is_kill(&self) -> bool {
        match self {
            Fault::Killed {} => true,
            Fault::InPart { fault, .. } => fault.is_kill(),
            _ => false,
        }
    }

    /// Returns whether it ended the run before everything was sent.
    pub fn ends_early(&self) -> bool {
        match self {
            Fault::RoleFailed { .. } => true,
            Fault::InPart { fault, .. } => fault.ends_early(),
            _ => false,
        }
    }
}

/// The verdict: whether the numbers may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validity {
    /// Reasons against it.
    pub faults: Vec<Fault>,
    /// Remarks for readers of a valid run.
    pub notes: Vec<Note>,
}

impl Validity {
    /// Returns the notes that are shown beside every verdict.
    pub fn cautions(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| note.is_doubt())
    }

    /// Returns whether there is no fault.
    pub fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns the faults in one line.
    pub fn why(&self) -> String {
        self.faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
