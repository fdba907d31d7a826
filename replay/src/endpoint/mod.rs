//! Hosts: the workers that send updates, and the server that receives them.
//!
//! An endpoint is a state machine: the driver asks it for what is due ([`Endpoint::pull`]) and hands it
//! what arrived ([`Endpoint::on_burst`]); it answers through [`Host`].

mod all_reduce;
mod gate;
mod learner;
mod open_loop;
mod retransmit;
mod roster;
pub(crate) mod rounds;
mod sender;
pub mod server;
mod sparse;
mod step;
mod switchml;
mod transmission_control;
mod trio_ml;

use std::sync::Arc;

use pktgen_generator::Result;
use pktgen_generator::config::Section;
use pktgen_generator::lanes::Lanes;
use pktgen_generator::learner::Learning;
use pktgen_generator::record::{Answers, Iteration, PacketId, Received, Reply, Sent, State, Training};
use pktgen_generator::registry::Named;
use pktgen_generator::seed::Seed;
use pktgen_generator::shard::Shard;
use pktgen_generator::time::{NEVER, Time};
use pktgen_generator::topology::{NodeId, Population};
use pktgen_generator::wire::olaf;
use pktgen_generator::workload::Source;

use crate::frame::{Frame, Kind, Pool};
use crate::target::flows::Flows;
use crate::target::sparse::SparsePlace;
use crate::transport::{Heads, SMALLER};

pub use server::Server;

/// A frame that an endpoint sends from `node` at `frame.t`, with its row in `sent` if it is an update.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing {
    /// The host that it leaves.
    pub node: NodeId,
    /// The frame.
    pub frame: Frame,
    /// The row, `t_sent` still open.
    pub record: Option<Sent>,
}

/// An update that reached the server, with its row; the driver verifies the sum, then releases it.
#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    /// The row, `sum_ok` still open.
    pub row: Received,
    /// The frame.
    pub frame: Frame,
}

/// What endpoints answer into.
#[derive(Debug, Default)]
pub struct Host {
    /// Frames to send.
    pub outgoing: Vec<Outgoing>,
    /// Rows of updates that workers keep back.
    pub withheld: Vec<Sent>,
    /// What workers know and do, where it is recorded.
    pub states: Vec<State>,
    /// Updates received.
    pub deliveries: Vec<Delivery>,
    /// Iterations of synchronous training that ended.
    pub iterations: Vec<Iteration>,
    /// Results of synchronous training that arrived at workers.
    pub replies: Vec<Reply>,
    /// Acknowledgements that arrived at workers.
    pub acks_received: u64,
    /// Acknowledgements that the server sent.
    pub acks_sent: u64,
    /// Packets that nobody can place.
    pub foreign: u64,
}

/// Workers or a server.
pub trait Endpoint: Send {
    /// When it wants to send without being asked.
    fn next_wake(&self) -> Time;

    /// May it want to send without being asked, or to look after the network? Of a server: workers always may.
    fn has_timers(&self) -> bool {
        false
    }

    /// Does what arrives change what it sends? If not, it may be asked ahead of time or late, and its frames
    /// are the same.
    fn reacts(&self) -> bool;

    /// Does it wait for what arrives, although it wants to send nothing by itself? Then its silence is not its end.
    fn expects(&self) -> bool {
        false
    }

    /// When it wants to look after the network, which it does as long as workers train; [`NEVER`]
    /// if it does not.
    fn watches(&self) -> Time {
        NEVER
    }

    /// Sends what is due at or before `until`, at most a burst.
    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host);

    /// Frames arrived at `node`.
    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host);

    /// A frame that it sent leaves its host at `t`. Told to endpoints that react.
    fn left(&mut self, _packet: PacketId, _t: Time) {}

    /// Why its source ended early, if it did.
    fn failure(&self) -> Option<String> {
        None
    }

    /// What it still waits for although it has nothing to send; none if it is done.
    fn unfinished(&self) -> Option<String> {
        None
    }

    /// What every contribution to a result is, where workers take part in synchronous aggregation: sums are verified
    /// against it.
    fn content(&self) -> Option<Box<dyn Content>> {
        None
    }

    /// What every push holds, in sparse training: sums are verified against it.
    fn pairs(&self) -> Option<Box<dyn Pairs>> {
        None
    }

    /// What devices must know of sparse training.
    fn sparse(&self) -> Option<SparsePlace> {
        None
    }

    /// What it trains, where it does.
    fn training(&self) -> Option<Training> {
        None
    }

    /// Packets per worker and iteration, where it trains in iterations; else 0.
    fn packets(&self) -> u32 {
        0
    }

    /// Bytes of its largest frame, where those of the workload's updates are not what it sends.
    fn frame_bytes(&self) -> Option<usize> {
        None
    }

    /// It worked for so long, by a clock: told at the end of runs in real time.
    fn worked(&mut self, _time: Time) {}

    /// What it counted, by its name in the manifest.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Frames that it keeps.
    fn held(&self) -> usize {
        0
    }

    /// By worker: whole sums that came back to it; empty where none do.
    fn answers(&self) -> &[Answers] {
        &[]
    }

    /// Does it answer every message with its whole sum?
    fn answers_all(&self) -> bool {
        false
    }

    /// Elements that did not fit an integer when they were scaled.
    fn clipped(&self) -> u64 {
        0
    }
}

/// Sums of absolute errors, and of what they are errors of.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Error {
    /// Of the errors.
    pub off: f64,
    /// Of the exact values.
    pub of: f64,
}

/// The integers that workers contribute, as a pure function.
pub trait Content: Send {
    /// Adds the contributions of `members` to `sums`, with wrap-around; returns how many elements the last one has.
    fn add(&mut self, members: &[PacketId], sums: &mut [i32]) -> usize;
    /// How far the mean that a worker makes of `sums` (Trio §5: divided by the sources in them) is from that of the
    /// gradients of `members` before they were scaled.
    fn error(&mut self, _members: &[PacketId], _sums: &[i32]) -> Error {
        Error::default()
    }
    /// Most elements of a contribution.
    fn elements(&self) -> usize;
}

/// The pairs that workers of sparse training send, as a pure function.
pub trait Pairs: Send {
    /// The pairs of a push, as they lie in its payload; none if there is no such push.
    fn payload(&mut self, packet: PacketId) -> &[u8];
    /// The pairs of a hot push; none if there is no such push.
    fn hot(&mut self, packet: PacketId) -> &[(u32, f32)];
    /// Hot parameters of a job.
    fn slots(&self) -> usize;
}

/// What a frame off a wire is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Which packet; of a result, the one that it is known by.
    pub packet: PacketId,
    /// Worker that it comes from or goes to.
    pub worker: u32,
    /// Cluster.
    pub cluster: u16,
    /// Where it goes.
    pub flow: NodeId,
    /// What it is.
    pub kind: Kind,
}

/// Standby switches and who watches them (LIBRA §3.6, "Failover mechanism").
#[derive(Debug, Clone)]
pub struct Standby {
    /// The controller's node.
    pub controller: NodeId,
    /// The switch in the middle, which is told who sums.
    pub switch: NodeId,
    /// The switches that can sum, the first of them active at the beginning.
    pub aggregators: Arc<[NodeId]>,
}

/// What an endpoint knows of the run.
#[derive(Clone)]
pub struct Facts {
    /// The workers' kind, which knows what frames are.
    pub kind: &'static dyn WorkerKind,
    /// Workers of each job and packets per worker and iteration, in synchronous training; else 0.
    pub training: (u32, u32),
    /// Workers and clusters.
    pub workers: Arc<Population>,
    /// Host of each worker.
    pub host_of: Arc<Vec<NodeId>>,
    /// The server's node.
    pub server: NodeId,
    /// The flows of a plan, where devices go by one.
    pub flows: Option<Arc<Flows>>,
    /// Standby switches and their controller, where there are any.
    pub standby: Option<Standby>,
    /// Fill in UDP checksums?
    pub udp_checksum: bool,
    /// The run's seed.
    pub seed: Seed,
    /// The host link of the workers: rate in bit/s of the slowest.
    pub host_rate_bps: u64,
    /// Does time pass by itself?
    pub real_time: bool,
    /// Longest time from sending an update to its ACK where nothing waits.
    pub round_trip: Time,
    /// Are workers' states recorded?
    pub states: bool,
    /// Whose workers are in this process, where several have a run's.
    pub share: Shard,
    /// What makes the lanes of updates, where they carry any.
    pub lanes: Option<Arc<Lanes>>,
    /// What agents learn, where they do.
    pub learning: Option<Arc<Learning>>,
}

/// Makes worker endpoints.
pub trait WorkerKind: Named + Sync {
    /// The keys of `[endpoint]` that [`open`](Self::open) reads: they stay valid when a sweep also visits other kinds.
    fn keys(&self) -> &'static [&'static str];

    /// The wire format that it speaks.
    fn format(&self) -> &'static str {
        "olaf"
    }

    /// How the head of a frame is rebuilt where only the payload travels.
    fn heads(&self, _facts: &Facts) -> Heads {
        Heads::Olaf
    }

    /// What makes its frames smaller, as an advice: "lower" some key.
    fn smaller(&self) -> &'static str {
        SMALLER
    }

    /// What a frame off a wire is; none if it is nobody's. `bytes` holds whole headers.
    fn identify(&self, bytes: &[u8], facts: &Facts) -> Option<Identity> {
        sender::identify(bytes, facts)
    }

    /// The values in a payload that are verified, as they lie there; none if there are none.
    fn values<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        olaf::gradients(payload)
    }

    /// How many bytes of these [`values`](Self::values) are one gradient, in a packet.
    fn element_bytes(&self, _packet: PacketId) -> usize {
        4
    }

    /// Does it train in iterations, and wait for results?
    fn is_synchronous(&self) -> bool {
        false
    }

    /// Does it send to a server?
    fn has_server(&self) -> bool {
        !self.is_synchronous()
    }

    /// Do results come from a device?
    fn needs_results(&self) -> bool {
        self.is_synchronous()
    }

    /// The program that devices run if the experiment does not say.
    fn program(&self) -> &'static str {
        self.format()
    }

    /// The keys of `[endpoint]` that [`server`](Self::server) reads.
    fn server_keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// What stands at the server, where it is not the one that answers updates one by one.
    fn server(&self, _section: &mut Section, _facts: &Facts) -> Result<Option<Box<dyn Endpoint>>> {
        Ok(None)
    }

    /// Does it go by the state of queues that ACKs bring?
    fn listens(&self) -> bool {
        false
    }

    /// Do workers take up the models that ACKs bring?
    fn learns(&self) -> bool {
        false
    }

    /// Reads its keys from `[endpoint]`.
    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Box<dyn Endpoint>>;
}

/// Every worker endpoint, by name.
pub static ENDPOINTS: &[&dyn WorkerKind] = &[
    &open_loop::OpenLoopKind,
    &transmission_control::TransmissionControlKind,
    &retransmit::RetransmitKind,
    &trio_ml::TrioMlKind,
    &switchml::SwitchMlKind,
    &sparse::LibraKind,
    &sparse::PsLiteKind,
    &learner::LearnerKind,
];
