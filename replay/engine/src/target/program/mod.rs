//! Device programs: packet processing.

pub(crate) mod forward;

use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::Counter;
use pktgen_core::registry::Named;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::{NodeId, Population, Ways};

use super::context::Context;
use super::flows::NodeFlows;
use super::sparse::{Adder, SparsePlace};
use crate::frame::Frame;
use crate::groups::{GroupPorts, JobPlace, Regroup};
use crate::racks::RackPlace;

/// A program on one device.
pub trait Program: Send {
    /// Processes arriving frames, each at its `t`. Every frame must be emitted, dropped or kept.
    fn on_burst(&mut self, burst: &[Frame], context: &mut Context);

    /// Returns when it is next called although nothing arrives; [`NEVER`] if it has no timers.
    fn next_wake(&self) -> Time {
        NEVER
    }

    /// Called at `t`, the requested time.
    fn on_timer(&mut self, _t: Time, _context: &mut Context) {}

    /// Returns the limits that workers must observe.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Returns the number of frames that it keeps.
    fn held(&self) -> usize {
        0
    }

    /// Returns its counters, for the manifest.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// Handles a move of a worker by the control plane; the device is at `node`.
    fn regroup(&mut self, _regroup: &Regroup, _node: usize) {}
}

/// The limits of a program.
#[derive(Clone, Default)]
pub struct Limits {
    /// Time after which it stops waiting for contributions; none if it never does.
    pub timeout: Option<Time>,
    /// Longest time without a packet of a block, also a refused one, after which it stops waiting, and the key of `[target]` that sets it;
    /// none if packets do not prolong the wait.
    pub silence: Option<(Time, &'static str)>,
    /// The key of `[target]` by which it drops packets of finished blocks, so that lost results never come again; none if it accepts them.
    pub final_results: Option<&'static str>,
    /// Maximum number of blocks of a job under way, and the key of `[target]` that sets it; none if there is no limit.
    pub room: Option<(u32, &'static str)>,
    /// Maximum number of elements of a packet, and the key of `[target]` that sets it; none if there is no limit.
    pub elements: Option<(u16, &'static str)>,
    /// Number of jobs that it serves, and advice to serve more; none if it serves all.
    pub jobs: Option<(u16, &'static str)>,
    /// Its floating-point adder, if it sums pairs.
    pub adder: Option<Adder>,
}

/// A program's knowledge of its place in the network.
#[derive(Debug, Clone)]
pub struct Place {
    /// The device's own node.
    pub node: NodeId,
    /// Port by destination node.
    pub routes: Ways,
    /// Workers and their clusters.
    pub workers: Arc<Population>,
    /// Ports towards the workers of each cluster, each port once.
    pub group_ports: Arc<GroupPorts>,
    /// The parameter server or, in synchronous runs without one, the top device.
    pub server: NodeId,
    /// By synchronous job: the contributors at this device.
    pub jobs: Arc<Vec<JobPlace>>,
    /// Configuration for sparse training, if it is that.
    pub sparse: Option<SparsePlace>,
    /// The devices that sum for a server, the first of them active at the beginning; with several racks, only the
    /// device itself, if it is one.
    pub aggregators: Arc<Vec<NodeId>>,
    /// Its configuration for racks, if sparse training uses several devices.
    pub racks: Option<RackPlace>,
    /// Its configuration for the flows of a plan, if there is one.
    pub flows: Option<Arc<NodeFlows>>,
    /// Bytes of the largest frame.
    pub frame_bytes: usize,
    /// Whether the run is in real time. Models of a chip's timing are for virtual time only.
    pub real_time: bool,
    /// Whether UDP checksums are filled in.
    pub udp_checksum: bool,
}

impl Place {
    /// Returns the rack of the device; 0 if it is the only one, or belongs to none.
    pub fn rack(&self) -> u32 {
        self.racks.as_ref().and_then(|racks| racks.own).unwrap_or(0)
    }

    /// A place without routes, for programs that need none; the device itself stands for the parameter server.
    pub fn bare(node: NodeId, workers: Population, jobs: Vec<JobPlace>, frame_bytes: usize) -> Self {
        Place {
            node,
            routes: Ways::default(),
            workers: Arc::new(workers),
            group_ports: Arc::default(),
            server: node,
            jobs: Arc::new(jobs),
            sparse: None,
            aggregators: Arc::default(),
            racks: None,
            flows: None,
            frame_bytes,
            real_time: false,
            udp_checksum: false,
        }
    }
}

/// The expected effect of a device on updates, as visible in packets at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It forwards: every packet is one update.
    Single,
    /// It merges waiting updates: where updates are lost, it must have had something to merge.
    MergesUnderLoad,
    /// It sums this number of contributions of a cluster into one result.
    Sums(u32),
    /// Unknown: packets do not say how many updates they represent.
    Unknown,
    /// It sums by key: packets do not say how many updates they represent, and sums leave when an iteration ends.
    SumsByKey,
    /// Another process receives, and reports missing updates.
    Elsewhere,
}

/// Makes programs.
pub trait ProgramKind: Named + Sync {
    /// Returns whether it looks up workers and clusters, and sends other packets around the queue.
    fn identifies(&self) -> bool {
        false
    }

    /// The keys of `[target]` that [`open`](Self::open) reads: they stay valid when a sweep also visits other programs.
    fn keys(&self) -> KeyTables {
        &[]
    }

    /// Returns the wire format that it processes; `None` for any.
    fn format(&self) -> Option<&'static str> {
        None
    }

    /// Returns the default queue of its devices.
    fn queue(&self) -> &'static str;

    /// Returns whether it follows the flows of a plan.
    fn needs_flows(&self) -> bool {
        false
    }

    /// Returns the expected effect, for clusters of `per_cluster` workers.
    fn expected(&self, _per_cluster: u32) -> Expected {
        Expected::Single
    }

    /// Reads its keys from `[target]` and makes the program of one device.
    fn open(&self, section: &mut Section, place: Place) -> Result<Box<dyn Program>>;
}
