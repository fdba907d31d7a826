//! Device programs: what happens to a packet.

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
    /// Frames arrived, each at its `t`. Every frame is emitted, dropped or kept.
    fn on_burst(&mut self, burst: &[Frame], context: &mut Context);

    /// When it is next called although nothing arrives; [`NEVER`] if it has no timers.
    fn next_wake(&self) -> Time {
        NEVER
    }

    /// It is `t`, the time that it asked for.
    fn on_timer(&mut self, _t: Time, _context: &mut Context) {}

    /// Returns what workers must fit into.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Frames that it keeps.
    fn held(&self) -> usize {
        0
    }

    /// What it counted, for the manifest.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// The control plane moves a worker; the device is at `node`.
    fn regroup(&mut self, _regroup: &Regroup, _node: usize) {}
}

/// What a program has room and time for.
#[derive(Clone, Default)]
pub struct Limits {
    /// After how long it gives up waiting for contributions; none if it never does.
    pub timeout: Option<Time>,
    /// Blocks of a job that may be under way, and the key of `[target]` that says so; none if there is no limit.
    pub room: Option<(u32, &'static str)>,
    /// Jobs that it serves, and how it would serve more; none if it serves all.
    pub jobs: Option<(u16, &'static str)>,
    /// How it adds floating-point numbers, where it sums pairs.
    pub adder: Option<Adder>,
}

/// What a program knows of its place in the network.
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
    /// The parameter server; of synchronous runs without one, the device on top.
    pub server: NodeId,
    /// Of each synchronous job: who contributes here.
    pub jobs: Arc<Vec<JobPlace>>,
    /// What sparse training needs, where it is that.
    pub sparse: Option<SparsePlace>,
    /// The devices that sum for a server, the first of them at the beginning; of several racks' only the device itself, if it
    /// is one.
    pub aggregators: Arc<Vec<NodeId>>,
    /// Its place between racks, where sparse training goes through several devices.
    pub racks: Option<RackPlace>,
    /// What it does with the flows of a plan, where there is one.
    pub flows: Option<Arc<NodeFlows>>,
    /// Bytes of the largest frame.
    pub frame_bytes: usize,
    /// Whether time passes by itself. Models of a chip's time are for virtual time only.
    pub real_time: bool,
    /// Whether UDP checksums are filled in.
    pub udp_checksum: bool,
}

impl Place {
    /// The rack whose device it is; 0 if it is the only one, or of no rack.
    pub fn rack(&self) -> u32 {
        self.racks.as_ref().and_then(|racks| racks.own).unwrap_or(0)
    }

    /// A device without routes, for programs that need none: the parameter server is itself.
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

/// What a device does to updates, as far as packets at the receiver show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It forwards: every packet is one update.
    Single,
    /// It merges what waits together: where updates are lost, it must have had something to merge.
    MergesUnderLoad,
    /// It sums so many contributions of a cluster into one result.
    Sums(u32),
    /// Unknown: packets do not say how many updates they represent.
    Unknown,
    /// Another process receives, and says what it misses.
    Elsewhere,
}

/// Makes programs.
pub trait ProgramKind: Named + Sync {
    /// Whether it looks up workers and clusters, and sends what is no update around the queue.
    fn identifies(&self) -> bool {
        false
    }

    /// The keys of `[target]` that [`open`](Self::open) reads: they stay valid when a sweep also visits other programs.
    fn keys(&self) -> KeyTables {
        &[]
    }

    /// The wire format that it processes; none for any.
    fn format(&self) -> Option<&'static str> {
        None
    }

    /// The queue that devices have if the experiment does not say.
    fn queue(&self) -> &'static str;

    /// Whether it follows the flows of a plan.
    fn needs_flows(&self) -> bool {
        false
    }

    /// What is to be seen where it works, where a cluster has so many workers.
    fn expected(&self, _per_cluster: u32) -> Expected {
        Expected::Single
    }

    /// Reads its keys from `[target]` and makes the program of one device.
    fn open(&self, section: &mut Section, place: Place) -> Result<Box<dyn Program>>;
}
