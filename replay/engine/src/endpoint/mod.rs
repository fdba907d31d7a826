//! Hosts: the workers that send updates, and the server that receives them.
//!
//! Both are state machines without I/O: a driver requests due frames (`pull`) and passes arrivals (`on_burst`); they
//! return frames and rows in [`Host`].

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

use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::{Answers, Counter, Fault, Iteration, Note, PacketId, Received, Reply, Sent, State, Training};
use pktgen_core::registry::Named;
use pktgen_core::seed::Seed;
use pktgen_core::shard::Shard;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::{NodeId, Population, Racks};
use pktgen_core::{Error, Result};
use pktgen_workload::lanes::Lanes;
use pktgen_workload::learner::Learning;
use pktgen_workload::workload::Source;
use pktgen_workload::workload::raw::RawFlows;

use crate::frame::{Frame, Heads, Kind, Pool};
use crate::target::flows::Flows;
use crate::target::sparse::SparsePlace;

pub use pktgen_wire::wire::Registers;
pub use server::UpdateServer;

/// A frame that an endpoint sends from `node` at `frame.t`, with its row in `sent` if it is an update.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing {
    /// The sending host.
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

/// Output of endpoints.
#[derive(Debug, Default)]
pub struct Host {
    /// Frames to send.
    pub outgoing: Vec<Outgoing>,
    /// Rows of updates that workers withhold.
    pub withheld: Vec<Sent>,
    /// States and decisions of workers, if they are recorded.
    pub states: Vec<State>,
    /// Updates received.
    pub deliveries: Vec<Delivery>,
    /// Completed iterations of synchronous training.
    pub iterations: Vec<Iteration>,
    /// Results of synchronous training that arrived at workers.
    pub replies: Vec<Reply>,
    /// Frames with results of which a worker had a result of the same block already, or this very one if it is partial (Trio-ML) or results
    /// have attempts (Libra), and copies at a server that writes no rows of them.
    pub frames_again: u64,
    /// Acknowledgements that arrived at workers.
    pub acks_received: u64,
    /// Acknowledgements that the server sent.
    pub acks_sent: u64,
    /// Frames that match no known worker.
    pub foreign: u64,
}

/// The workers of a run, or of a process's share of it.
pub trait Workers: Send {
    /// Returns when they next send without input; [`NEVER`](pktgen_core::time::NEVER) if they do not.
    fn next_wake(&self) -> Time;

    /// Sends frames due at or before `until`, at most a burst.
    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host);

    /// Processes frames that arrived at `node`.
    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host);

    /// Notes that the frame of an update leaves its host at `t`. Called for workers that react ([`Declaration::reacts`]).
    fn left(&mut self, _packet: PacketId, _t: Time) {}

    /// Returns whether results are outstanding, so that silence is not the end.
    fn waits(&self) -> bool {
        false
    }

    /// Returns the state of the workers at the end of the run.
    fn end(&self) -> WorkersEnd;
}

/// State of the workers at the end of a run.
#[derive(Debug, Default)]
pub struct WorkersEnd {
    /// Reason of an early end of their source, if it ended early.
    pub failure: Option<String>,
    /// What they still wait for although nothing is due, if anything.
    pub unfinished: Option<String>,
    /// By worker: whole sums that returned to it; empty if there are none.
    pub answers: Vec<Answers>,
    /// Elements that exceeded an integer when they were scaled.
    pub clipped: u64,
    /// Error of the means of a server's results, relative to the gradients before scaling, in 10⁻⁹; none without such results.
    pub scaling_error_ppb: Option<u64>,
    /// Results of a server that are not the sums of all contributions.
    pub wrong_results: u64,
    /// A note for readers of the run, if there is one.
    pub note: Option<Note>,
    /// Copies of results that differ, if any do.
    pub unlike_results: Option<Fault>,
    /// Their counters; several values of a name are combined by the counter's rule.
    pub counters: Vec<Counter>,
}

/// The receiver of updates, including the network's controller.
pub trait Server: Send {
    /// Returns when it next sends without input; [`NEVER`](pktgen_core::time::NEVER) if it does not.
    fn next_wake(&self) -> Time {
        NEVER
    }

    /// Returns when it next checks the network while workers train; [`NEVER`](pktgen_core::time::NEVER) if it does not.
    fn watches(&self) -> Time {
        NEVER
    }

    /// Sends frames due at or before `until`, at most a burst.
    fn pull(&mut self, _until: Time, _pool: &mut Pool, _host: &mut Host) {}

    /// Processes frames that arrived at `node`.
    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host);

    /// Returns the state at the end of the run; `worked` is the time that its thread was busy, measured in real time only.
    fn end(&self, worked: Option<Time>) -> ServerEnd;
}

/// State of a server at the end of a run.
#[derive(Debug, Default)]
pub struct ServerEnd {
    /// What it still waits for although nothing is due, if anything.
    pub unfinished: Option<String>,
    /// Its counters; several values of a name are combined by the counter's rule.
    pub counters: Vec<Counter>,
    /// Frames that it still holds.
    pub held: usize,
}

/// Sums of absolute errors and of the exact values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ScalingError {
    /// Sum of the errors.
    pub off: f64,
    /// Sum of the exact values.
    pub of: f64,
}

impl ScalingError {
    /// It is measured in every n-th block of a worker, counted over all iterations.
    pub(crate) const SAMPLED: u32 = 64;

    pub(crate) fn add(&mut self, more: ScalingError) {
        self.off += more.off;
        self.of += more.of;
    }

    /// Returns Σ|error| in 10⁻⁹ of Σ|exact|; `None` if nothing was scaled.
    pub(crate) fn ppb(self) -> Option<u64> {
        (self.of > 0.0).then(|| (self.off / self.of * 1e9).round() as u64)
    }
}

/// The integers that workers contribute, as a pure function.
pub trait Content: Send {
    /// Adds the contributions of `members` to `sums`, which are 0, with wrap-around; returns how many elements the last one has. A system
    /// whose devices combine contributions in another way writes what they make of all members; verdicts on partial results and on overflow
    /// add members one by one, and are of sums only.
    fn add(&mut self, members: &[PacketId], sums: &mut [i32]) -> usize;
    /// Returns the error of the mean that a worker computes from `sums` (Trio §5: divided by the number of sources),
    /// compared with that of the gradients of `members` before scaling; nothing for blocks in which it is not measured.
    fn error(&mut self, _members: &[PacketId], _sums: &[i32]) -> ScalingError {
        ScalingError::default()
    }
    /// Returns the maximum number of elements of a contribution.
    fn elements(&self) -> usize;
    /// Returns whether a sum exceeded 32 bits during the last addition, or may do so in another order if registers saturate.
    fn left_range(&self) -> bool {
        false
    }
    /// Returns the behaviour of devices on sums that exceed 32 bits.
    fn registers(&self) -> Registers {
        Registers::Wrap
    }
}

/// The pairs that workers of sparse training send, as a pure function.
pub trait Pairs: Send {
    /// Returns the pairs of a push in payload encoding; empty if there is no such push.
    fn payload(&mut self, packet: PacketId) -> &[u8];
    /// Returns the pairs of a hot push; empty if there is no such push.
    fn hot(&mut self, packet: PacketId) -> &[(u32, f32)];
    /// Returns the number of hot parameters of a job.
    fn slots(&self) -> usize;
    /// Returns the maximum number of pairs in a packet of a result.
    fn part(&self) -> usize;
    /// Appends pairs of a result in payload encoding.
    fn write(&self, pairs: &[(u32, f32)], out: &mut Vec<u8>);
}

/// The identity of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its packet; for a result, the one that identifies it.
    pub packet: PacketId,
    /// Worker that sent it or receives it.
    pub worker: u32,
    /// Cluster.
    pub cluster: u16,
    /// Its destination.
    pub flow: NodeId,
    /// Its kind.
    pub kind: Kind,
}

/// Standby switches and their controller (LIBRA §3.6, "Failover mechanism").
#[derive(Debug, Clone)]
pub struct Standby {
    /// The controller's node.
    pub controller: NodeId,
    /// The central switch, which is notified of the active switch.
    pub switch: NodeId,
    /// The switches that can sum; the first is active at the beginning.
    pub aggregators: Arc<[NodeId]>,
}

/// The knowledge of an endpoint about the run.
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
    /// The node of the first server.
    pub server: NodeId,
    /// The parameter servers, and their racks.
    pub racks: Arc<Racks>,
    /// The flows of a plan, if devices follow one.
    pub flows: Option<Arc<Flows>>,
    /// Standby switches and their controller, if there are any.
    pub standby: Option<Standby>,
    /// Whether UDP checksums are filled in.
    pub udp_checksum: bool,
    /// The run's seed.
    pub seed: Seed,
    /// Rate of the slowest host link of the workers, in bit/s.
    pub host_rate_bps: u64,
    /// Whether the run is in real time.
    pub real_time: bool,
    /// Whether the device is external.
    pub external: bool,
    /// Maximum time from sending an update to its ACK without queueing.
    pub round_trip: Time,
    /// Whether workers' states are recorded.
    pub states: bool,
    /// The share of workers in this process, if several processes carry out the run.
    pub share: Shard,
    /// Generator of the lanes of updates, if they have any.
    pub lanes: Option<Arc<Lanes>>,
    /// The agents' task, if they learn.
    pub learning: Option<Arc<Learning>>,
    /// The flows of raw frames.
    pub raw: Option<Arc<RawFlows>>,
}

impl Facts {
    /// Facts for tests: a run in virtual time, with the server at node 0, and the host of each worker from node 1 on.
    pub fn of_test(kind: &'static dyn WorkerKind, workers: Population) -> Facts {
        Facts {
            kind,
            protocol: kind.protocol(),
            training: (0, 0),
            host_of: Arc::new((1..=workers.len() as u32).collect()),
            workers: Arc::new(workers),
            server: 0,
            racks: Arc::default(),
            flows: None,
            standby: None,
            udp_checksum: false,
            seed: Seed(1),
            host_rate_bps: 1_000_000_000,
            real_time: false,
            external: false,
            round_trip: 0,
            states: false,
            share: Shard::WHOLE,
            lanes: None,
            learning: None,
            raw: None,
        }
    }
}

/// Operations and properties of frames of a wire protocol.
pub struct Protocol {
    /// The wire format.
    pub format: &'static str,
    /// Advice for smaller frames: "lower" some key.
    pub smaller: &'static str,
    /// Whether frames are sent unchanged: they have no header of ours, and no ids.
    pub whole: bool,
    /// See [`identify`](Protocol::identify).
    pub identify: fn(&[u8], &Facts) -> Option<Identity>,
    /// See [`values`](Protocol::values).
    pub values: fn(&[u8]) -> &[u8],
    /// See [`element_bytes`](Protocol::element_bytes).
    pub element_bytes: fn(PacketId) -> usize,
    /// Rebuilds heads for transports of payloads only, given the number of workers of a job; `None` if payloads do not
    /// identify the sender.
    pub heads: fn(u32) -> Option<Heads>,
}

impl Behaviour {
    /// Workers that send updates to a server and do not wait.
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
    /// Returns the identity of a received frame; `None` if its host is unknown. `bytes` holds whole headers.
    #[inline]
    pub fn identify(&self, bytes: &[u8], facts: &Facts) -> Option<Identity> {
        (self.identify)(bytes, facts)
    }

    /// Returns the values in a payload that are verified, in payload encoding; empty if there are none.
    #[inline]
    pub fn values<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        (self.values)(payload)
    }

    /// Returns the number of gradients in these [`values`](Self::values) of a packet.
    #[inline]
    pub fn elements(&self, packet: PacketId, values: &[u8]) -> u64 {
        (values.len() / (self.element_bytes)(packet)) as u64
    }
}

/// Requirements and properties of a kind of workers.
#[derive(Debug, Clone, Copy)]
pub struct Behaviour {
    /// Whether they train in iterations and wait for results.
    pub synchronous: bool,
    /// Whether they send to a server.
    pub has_server: bool,
    /// Whether they divide their parameters among several servers.
    pub several_servers: bool,
    /// Whether results come from a device.
    pub needs_results: bool,
    /// Whether they use the queue status in acknowledgements.
    pub listens: bool,
    /// Whether they adopt the models in acknowledgements.
    pub learns: bool,
    /// Default program of devices; none for the catalogue's default.
    pub program: Option<&'static str>,
    /// Keys that `[endpoint]` and the `[target]` of an external device share: they must agree, and a missing one is copied.
    pub common: &'static [&'static str],
    /// Flags that are on in our programs; off for an external device unless the experiment sets them.
    pub ours: &'static [&'static str],
}

/// Properties of workers that are known before they send.
#[derive(Debug, Clone, Default)]
pub struct Declaration {
    /// Whether arrivals change what they send. If not, they may be pulled early or late without changing their frames.
    pub reacts: bool,
    /// Training parameters, if they train in iterations.
    pub training: Option<Training>,
    /// Packets per worker and iteration, if they train in iterations and all have as many; else 0.
    pub packets: u32,
    /// Maximum number of elements that a packet contributes to a sum, if it is not the gradients of an update.
    pub elements: Option<usize>,
    /// Bytes of the largest frame that devices sum, if others are only forwarded.
    pub summed_bytes: Option<usize>,
    /// Bytes of their largest frame, if it is not that of the workload's updates.
    pub frame_bytes: Option<usize>,
    /// Configuration of devices for sums by key.
    pub sparse: Option<SparsePlace>,
    /// Time without a result after which they send a block again; none if never.
    pub retransmit: Option<Time>,
}

/// Meaning of the workers' payloads for the account.
pub enum Payloads {
    /// Updates, one by one.
    Updates,
    /// Contributions to results, which can be recomputed.
    Results(Box<dyn Content>),
    /// Pairs that are summed by key.
    Pairs(Box<dyn Pairs>),
}

/// Workers that are ready to run.
pub struct Crew {
    /// The state machine.
    pub workers: Box<dyn Workers>,
    /// Their known properties.
    pub declared: Declaration,
    /// Meaning of their payloads.
    pub payloads: Payloads,
}

/// A server that is ready to run.
pub struct Receiver {
    /// The state machine.
    pub server: Box<dyn Server>,
    /// Whether it may send without input, or monitors the network.
    pub timers: bool,
    /// Whether it answers every message with its whole sum.
    pub answers_all: bool,
}

impl WorkersEnd {
    /// Returns the faults of the run; `whole` if it ended by itself.
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

/// Refuses background traffic beside workers in a closed loop: they pull no updates, so it would never be sent.
pub fn refuse_traffic_beside(source: &dyn Source, who: &str) -> Result<()> {
    if source.known().beside {
        return Err(Error::config(format!(
            "workload.background_rate: endpoint.workers = \"{who}\" sends its iterations and no background traffic beside them; leave it \
             out, or use endpoint.workers = \"open_loop\", which does not wait for results"
        )));
    }
    Ok(())
}

/// Makes workers.
pub trait WorkerKind: Named + Sync {
    /// The keys of `[endpoint]` that [`open`](Self::open) reads: they stay valid when a sweep also visits other kinds.
    fn keys(&self) -> KeyTables;

    /// Returns the protocol of their frames.
    fn protocol(&self) -> &'static Protocol;

    /// Returns their requirements and properties.
    fn behaviour(&self) -> Behaviour;

    /// Reads its keys from `[endpoint]`.
    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew>;

    /// The keys of `[endpoint]` that [`server`](Self::server) reads.
    fn server_keys(&self) -> KeyTables {
        &[]
    }

    /// Opens a special server; `None` for the server that answers updates one by one.
    fn server(&self, _section: &mut Section, _facts: &Facts) -> Result<Option<Receiver>> {
        Ok(None)
    }
}
