//! Requirements of an experiment on a device: the facts for checks of limits and for plans.

use std::sync::Arc;

use crate::topology::Population;

/// The place of a hot parameter (LIBRA §3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotParameter {
    /// Heat rank: its index in packets.
    pub index: u32,
    /// Its key.
    pub key: u64,
    /// Register.
    pub register: u32,
    /// Slot in the register.
    pub slot: u32,
}

/// Requirements of an experiment on a device.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Name of the experiment.
    pub experiment: String,
    /// Wire format, by its name in profiles.
    pub format: String,
    /// Format of the frames on the wire: another one if a layout of the device is configured.
    pub on_wire: String,
    /// UDP port of the workers in the layout on the wire, and the port that they send to, if both are fixed.
    pub ports: Option<(u16, u16)>,
    /// Workers and clusters (or jobs).
    pub workers: Arc<Population>,
    /// Whether there is a parameter server.
    pub has_server: bool,
    /// Bytes of the largest frame, without a VLAN tag.
    pub frame_bytes: u64,
    /// Bytes of the largest frame that the device sums, if it differs.
    pub summed_bytes: Option<u64>,
    /// Gradients, or pairs, of such a frame.
    pub elements: u64,
    /// Maximum number of packets of a worker under way, if it waits for results.
    pub window: Option<u64>,
    /// Blocks of a job that the device may have in progress, if the experiment states them.
    pub blocks: Option<u64>,
    /// Iterations, if workers train in iterations.
    pub iterations: Option<u64>,
    /// Slots of the device's queue, if the experiment states them.
    pub queue_slots: Option<u64>,
    /// Registers of the layout of hot parameters.
    pub registers: Option<u64>,
    /// Hot parameters of a job.
    pub hot: Option<u64>,
    /// Their places, by job.
    pub hot_parameters: Vec<Vec<HotParameter>>,
    /// Time in ms without progress after which a block is given up.
    pub timeout_ms: Option<u64>,
    /// Advice for smaller frames: "lower" some key.
    pub smaller: String,
}

impl Facts {
    /// Returns the workers of each cluster.
    pub fn clusters(&self) -> Vec<Vec<u32>> {
        let mut clusters = vec![Vec::new(); self.workers.clusters_ever()];
        for (worker, cluster) in self.workers.cluster_of.iter().enumerate() {
            if let Some(own) = clusters.get_mut(usize::from(*cluster)) {
                own.push(worker as u32);
            }
        }
        clusters
    }
}
