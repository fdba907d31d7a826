//! Hosts: the workers that send updates, and the server that receives them.
//!
//! Both are state machines without I/O: a driver asks them for what is due (`pull`) and hands them what arrived (`on_burst`);
//! they answer through [`Host`].

mod all_reduce;
pub mod gate;
pub(crate) mod learner;
pub mod open_loop;
pub(crate) mod overflow;
pub mod raw;
pub(crate) mod retransmit;
pub mod roster;
pub mod rounds;
pub mod sender;
pub mod server;
mod step;

use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::{Answers, Counter, Fault, Iteration, PacketId, Received, Reply, Sent, State, Training};
use pktgen_core::registry::Named;
use pktgen_core::seed::Seed;
use pktgen_core::shard::Shard;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::{NodeId, Population, Racks};
use pktgen_workload::lanes::Lanes;
use pktgen_workload::learner::Learning;
use pktgen_workload::workload::Source;
use pktgen_workload::workload::raw::RawFlows;

use crate::frame::{Frame, Heads, Kind, Pool};
use crate::target::flows::Flows;
use crate::target::sparse::SparsePlace;

pub use overflow::Registers;
pub use server::UpdateServer;

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
    /// Frames that match no known worker.
    pub foreign: u64,
}

/// The workers of a run, or of a process's share of it.
pub trait Workers: Send {
    /// When they next send without input; [`NEVER`](pktgen_core::time::NEVER) if they do not.
    fn next_wake(&self) -> Time;

    /// Sends what is due at or before `until`, at most a burst.
    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host);

    /// Takes frames that arrived at `node`.
    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host);

    /// Notes that the frame of an update leaves its host at `t`. Called for workers that react ([`Declaration::reacts`]).
    fn left(&mut self, _packet: PacketId, _t: Time) {}

    /// Returns whether results are outstanding, so that silence is not the end.
    fn waits(&self) -> bool {
        false
    }

    /// Returns what is known at the end of the run.
    fn end(&self) -> WorkersEnd;
}

/// What workers know at the end of a run.
#[derive(Debug, Default)]
pub struct WorkersEnd {
    /// Why their source ended early, if it did.
    pub failure: Option<String>,
    /// What they still wait for although nothing is due, if anything.
    pub unfinished: Option<String>,
    /// By worker: whole sums that came back to it; empty where none do.
    pub answers: Vec<Answers>,
    /// Elements that did not fit an integer when they were scaled.
    pub clipped: u64,
    /// Results of a server that are not the sums of all contributions.
    pub wrong_results: u64,
    /// Copies of results that differ, if any do.
    pub unlike_results: Option<Fault>,
    /// What they counted; several values of a name become one by its rule.
    pub counters: Vec<Counter>,
}

/// What receives updates, and the controller of a network beside it.
pub trait Server: Send {
    /// When it next sends without input; [`NEVER`](pktgen_core::time::NEVER) if it does not.
    fn next_wake(&self) -> Time {
        NEVER
    }

    /// When it next checks the network, as long as workers train; [`NEVER`](pktgen_core::time::NEVER) if it does not.
    fn watches(&self) -> Time {
        NEVER
    }

    /// Sends what is due at or before `until`, at most a burst.
    fn pull(&mut self, _until: Time, _pool: &mut Pool, _host: &mut Host) {}

    /// Takes frames that arrived at `node`.
    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host);

    /// Returns what is known at the end of the run; `worked` is the time that its thread was busy, measured in real time only.
    fn end(&self, worked: Option<Time>) -> ServerEnd;
}

/// What a server knows at the end of a run.
#[derive(Debug, Default)]
pub struct ServerEnd {
    /// What it still waits for although nothing is due, if anything.
    pub unfinished: Option<String>,
    /// What it counted; several values of a name become one by its rule.
    pub counters: Vec<Counter>,
    /// Frames that it keeps.
    pub held: usize,
}

/// Sums of absolute errors, and of what they are errors of.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ScalingError {
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
    fn error(&mut self, _members: &[PacketId], _sums: &[i32]) -> ScalingError {
        ScalingError::default()
    }
    /// Most elements of a contribution.
    fn elements(&self) -> usize;
    /// Whether a sum left 32 bits during the last addition.
    fn left_range(&self) -> bool {
        false
    }
    /// What devices make of sums that leave 32 bits.
    fn registers(&self) -> Registers {
        Registers::Wrap
    }
}

/// The pairs that workers of sparse training send, as a pure function.
pub trait Pairs: Send {
    /// The pairs of a push, as they lie in its payload; none if there is no such push.
    fn payload(&mut self, packet: PacketId) -> &[u8];
    /// The pairs of a hot push; none if there is no such push.
    fn hot(&mut self, packet: PacketId) -> &[(u32, f32)];
    /// Hot parameters of a job.
    fn slots(&self) -> usize;
    /// Most pairs in a packet of a result.
    fn part(&self) -> usize;
    /// Appends pairs of a result as they lie in its packets.
    fn write(&self, pairs: &[(u32, f32)], out: &mut Vec<u8>);
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
    /// The switch in the middle, which is notified of the active switch.
    pub switch: NodeId,
    /// The switches that can sum, the first of them active at the beginning.
    pub aggregators: Arc<[NodeId]>,
}

/// What an endpoint knows of the run.
#[derive(Clone)]
pub struct Facts {
    /// The workers' kind.
    pub kind: &'static dyn WorkerKind,
    /// What frames are.
    pub protocol: &'static Protocol,
    /// Workers of each job and packets per worker and iteration, in synchronous training; else 0.
    pub training: (u32, u32),
    /// Workers and clusters.
    pub workers: Arc<Population>,
    /// Host of each worker.
    pub host_of: Arc<Vec<NodeId>>,
    /// The server's node, of several the first.
    pub server: NodeId,
    /// The parameter servers, and their racks.
    pub racks: Arc<Racks>,
    /// The flows of a plan, where devices go by one.
    pub flows: Option<Arc<Flows>>,
    /// Standby switches and their controller, where there are any.
    pub standby: Option<Standby>,
    /// Whether UDP checksums are filled in.
    pub udp_checksum: bool,
    /// The run's seed.
    pub seed: Seed,
    /// The host link of the workers: rate in bit/s of the slowest.
    pub host_rate_bps: u64,
    /// Whether time passes by itself.
    pub real_time: bool,
    /// Whether the device is not of this program.
    pub external: bool,
    /// Longest time from sending an update to its ACK where nothing waits.
    pub round_trip: Time,
    /// Whether workers' states are recorded.
    pub states: bool,
    /// Whose workers are in this process, where several have a run's.
    pub share: Shard,
    /// What makes the lanes of updates, where they carry any.
    pub lanes: Option<Arc<Lanes>>,
    /// What agents learn, where they do.
    pub learning: Option<Arc<Learning>>,
    /// The flows of frames that are sent as they are.
    pub raw: Option<Arc<RawFlows>>,
}

/// What frames of a wire protocol are to the harness.
pub struct Protocol {
    /// The wire format.
    pub format: &'static str,
    /// Advice that makes its frames smaller: "lower" some key.
    pub smaller: &'static str,
    /// Frames are sent as they are: they have no format of ours, and no names.
    pub whole: bool,
    /// See [`identify`](Protocol::identify).
    pub identify: fn(&[u8], &Facts) -> Option<Identity>,
    /// See [`values`](Protocol::values).
    pub values: fn(&[u8]) -> &[u8],
    /// See [`element_bytes`](Protocol::element_bytes).
    pub element_bytes: fn(PacketId) -> usize,
    /// Rebuilds heads where only payloads travel and a job has so many workers; none where nothing in a payload says who sent it.
    pub heads: fn(u32) -> Option<Heads>,
}

impl Behaviour {
    /// Workers that send updates to a server and wait for nothing.
    pub const ASYNCHRONOUS: Self = Behaviour {
        synchronous: false,
        has_server: true,
        several_servers: false,
        needs_results: false,
        listens: false,
        learns: false,
        program: None,
        common: &[],
        ours: &[],
    };
}

impl Protocol {
    /// Returns what a frame off a wire is; none if it is of no known host. `bytes` holds whole headers.
    #[inline]
    pub fn identify(&self, bytes: &[u8], facts: &Facts) -> Option<Identity> {
        (self.identify)(bytes, facts)
    }

    /// Returns the values in a payload that are verified, as they lie there; none if there are none.
    #[inline]
    pub fn values<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        (self.values)(payload)
    }

    /// Returns how many gradients these [`values`](Self::values) of a packet are.
    #[inline]
    pub fn elements(&self, packet: PacketId, values: &[u8]) -> u64 {
        (values.len() / (self.element_bytes)(packet)) as u64
    }
}

/// What workers of a kind need around them, and what they do.
#[derive(Debug, Clone, Copy)]
pub struct Behaviour {
    /// They train in iterations, and wait for results.
    pub synchronous: bool,
    /// They send to a server.
    pub has_server: bool,
    /// They divide their parameters among the servers, where there are several.
    pub several_servers: bool,
    /// Results come from a device.
    pub needs_results: bool,
    /// They go by the state of queues that acknowledgements bring.
    pub listens: bool,
    /// They take up the models that acknowledgements bring.
    pub learns: bool,
    /// The program that devices run where the experiment does not say; none if the catalogue's default will do.
    pub program: Option<&'static str>,
    /// Keys that `[endpoint]` and the `[target]` of an external device have in common: one value counts.
    pub common: &'static [&'static str],
    /// Switches that are on in our own program; an external device has them off unless the experiment says otherwise.
    pub ours: &'static [&'static str],
}

/// What is known of workers before they send.
#[derive(Debug, Clone, Default)]
pub struct Declaration {
    /// What arrives changes what they send. If not, they may be asked ahead of time or late, and their frames are the same.
    pub reacts: bool,
    /// What they train, where they train in iterations.
    pub training: Option<Training>,
    /// Packets per worker and iteration, where they train in iterations and every one is as long as the other; else 0.
    pub packets: u32,
    /// Most elements that a packet contributes to a sum, where that is not the gradients of an update.
    pub elements: Option<usize>,
    /// Bytes of the largest frame that devices sum, where others are forwarded only.
    pub summed_bytes: Option<usize>,
    /// Bytes of their largest frame, where it is not that of the workload's updates.
    pub frame_bytes: Option<usize>,
    /// What devices need to know of sums by key.
    pub sparse: Option<SparsePlace>,
}

/// What payloads of workers are to the account.
pub enum Payloads {
    /// Updates, one by one.
    Updates,
    /// Contributions to results, which can be made again.
    Results(Box<dyn Content>),
    /// Pairs that are summed by key.
    Pairs(Box<dyn Pairs>),
}

/// Workers that are ready to run.
pub struct Crew {
    /// The state machine.
    pub workers: Box<dyn Workers>,
    /// What is known of them beforehand.
    pub declared: Declaration,
    /// What their payloads are.
    pub payloads: Payloads,
}

/// A server that is ready to run.
pub struct Receiver {
    /// The state machine.
    pub server: Box<dyn Server>,
    /// It may send without input, or look after the network.
    pub timers: bool,
    /// It answers every message with its whole sum.
    pub answers_all: bool,
}

impl WorkersEnd {
    /// What speaks against the run's numbers; `whole` if it ended by itself.
    pub fn faults(&self, whole: bool) -> impl Iterator<Item = Fault> {
        let unfinished = self.unfinished.clone().filter(|_| whole).map(|why| Fault::Unfinished { why });
        let wrong = (self.wrong_results > 0).then_some(Fault::WrongResults { results: self.wrong_results });
        unfinished.into_iter().chain(wrong).chain(self.unlike_results.clone())
    }
}

impl Crew {
    /// Workers that send updates one by one.
    pub fn of_updates(workers: impl Workers + 'static, reacts: bool) -> Self {
        let declared = Declaration { reacts, ..Declaration::default() };
        Crew { workers: Box::new(workers), declared, payloads: Payloads::Updates }
    }
}

impl Receiver {
    /// A server that acts on input only.
    pub fn passive(server: impl Server + 'static) -> Self {
        Receiver { server: Box::new(server), timers: false, answers_all: false }
    }
}

/// Makes workers.
pub trait WorkerKind: Named + Sync {
    /// The keys of `[endpoint]` that [`open`](Self::open) reads: they stay valid when a sweep also visits other kinds.
    fn keys(&self) -> KeyTables;

    /// What their frames are.
    fn protocol(&self) -> &'static Protocol;

    /// What they need and do.
    fn behaviour(&self) -> Behaviour;

    /// Reads its keys from `[endpoint]`.
    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew>;

    /// The keys of `[endpoint]` that [`server`](Self::server) reads.
    fn server_keys(&self) -> KeyTables {
        &[]
    }

    /// Opens what stands at the server, where it is not the one that answers updates one by one.
    fn server(&self, _section: &mut Section, _facts: &Facts) -> Result<Option<Receiver>> {
        Ok(None)
    }
}
