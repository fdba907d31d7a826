//! What is kept of a run for pictures.

use pktgen_records::age::Sawtooth;

use crate::chart::Network;

/// How much of a run is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Nothing: only its values count.
    Values,
    /// Curves, and the sawtooth of its first cluster.
    Curves,
    /// The sawteeth of its clusters and its network, too.
    All,
}

/// What is kept of a run.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Sawteeth of its clusters; of the first only, unless everything was kept.
    pub sawteeth: Vec<Sawtooth>,
    /// Age against the share of the time for which it is not exceeded, all clusters together, in ns.
    pub age_cdf: Cdf,
    /// The same of the peaks, against the share of peaks.
    pub peak_cdf: Cdf,
    /// Time in devices, in ns.
    pub device_cdf: Cdf,
    /// Time from worker to server, in ns.
    pub host_cdf: Cdf,
    /// Time from a worker's contribution to its result, in ns.
    pub result_cdf: Cdf,
    /// How late frames left, in ns.
    pub lateness_cdf: Cdf,
    /// Mean age of each cluster in each of [`crate::picture::keep::BINS`] equal spans of the run, in ns; and when the first begins and how
    /// long each is, in ns.
    pub over_time: Option<OverTime>,
    /// Its network with loads.
    pub network: Option<Network>,
}

/// Points of cumulative shares: value, share of those at most so large.
pub(crate) type Cdf = Vec<(f64, f64)>;

/// Ages of clusters over time.
#[derive(Debug, Clone, Default)]
pub struct OverTime {
    /// When the first span begins, and how long each is, in ns.
    pub from_ns: f64,
    /// How long each span is, in ns.
    pub step_ns: f64,
    /// Clusters, and their mean age in each span; none where the cluster's window has not begun or is over.
    pub clusters: Vec<(u32, Vec<Option<f64>>)>,
}

/// A worker in a window of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerStates {
    /// Who.
    pub worker: u32,
    /// The cluster in which it began.
    pub cluster: u16,
    /// Its decisions.
    pub decisions: Vec<Decision>,
    /// What ACKs reported of the queue, N/Qmax, where that changed: since when, and how much. The first entry is what it
    /// knew when the window began, the last one repeats what it knew when the window ended.
    pub heard: Vec<(i64, f64)>,
}

/// What a worker did about an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// When, in ps.
    pub t_ps: i64,
    /// P_s.
    pub p_send: f64,
    /// It kept the update back.
    pub withheld: bool,
}
