//! Data extracted from a run for charts.

use pktgen_records::age::Sawtooth;

use crate::chart::Network;

/// How much is extracted from a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Nothing; only values are needed.
    Values,
    /// Curves, and the sawtooth of its first cluster.
    Curves,
    /// Also the sawteeth of all clusters and the network.
    All,
}

/// Data extracted from a run.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Sawteeth of its clusters; only of the first unless everything was extracted.
    pub sawteeth: Vec<Sawtooth>,
    /// Age against the share of the time for which it is not exceeded, for all clusters together, in ns.
    pub age_cdf: Cdf,
    /// The same for peaks, against the share of peaks.
    pub peak_cdf: Cdf,
    /// Time in devices, in ns.
    pub device_cdf: Cdf,
    /// Time from worker to server, in ns.
    pub host_cdf: Cdf,
    /// Time from a worker's contribution to its result, in ns.
    pub result_cdf: Cdf,
    /// Lateness of frames, in ns.
    pub lateness_cdf: Cdf,
    /// Mean age of each cluster in each of [`crate::picture::keep::BINS`] equal intervals of the run.
    pub over_time: Option<OverTime>,
    /// Its network with loads.
    pub network: Option<Network>,
}

/// Points of cumulative shares: a value, and the share of values up to it.
pub(crate) type Cdf = Vec<(f64, f64)>;

/// Ages of clusters over time.
#[derive(Debug, Clone, Default)]
pub struct OverTime {
    /// Beginning of the first interval, in ns.
    pub from_ns: f64,
    /// Length of each interval, in ns.
    pub step_ns: f64,
    /// Clusters with their mean age in each interval; `None` if the cluster's window has not begun or is over.
    pub clusters: Vec<(u32, Vec<Option<f64>>)>,
}

/// States of a worker in a window of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerStates {
    /// Its id.
    pub worker: u32,
    /// The cluster in which it began.
    pub cluster: u16,
    /// Its decisions.
    pub decisions: Vec<Decision>,
    /// Changes of the queue's congestion N/Qmax reported by ACKs: time and value. The first entry is the value known at
    /// the beginning of the window, the last one repeats that known at its end.
    pub heard: Vec<(i64, f64)>,
}

/// A decision of a worker about an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// When, in ps.
    pub t_ps: i64,
    /// P_s.
    pub p_send: f64,
    /// Whether it withheld the update.
    pub withheld: bool,
}
