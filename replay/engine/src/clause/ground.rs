//! What clauses know of the device under test, and of what stands around it.

use std::sync::Arc;

use pktgen_core::config::{Document, Value};
use pktgen_core::time::{Serialiser, Time};
use pktgen_core::topology::{Link, Population};

/// What clauses know of the device under test.
#[derive(Debug, Clone)]
pub struct ProbeGround {
    /// Workers, and the cluster or job of each.
    pub workers: Arc<Population>,
    /// The device's port towards each worker.
    pub port_of: Vec<u16>,
    /// The device's port towards the server, where there is one.
    pub server: Option<u16>,
    /// Bytes of the largest frame that the experiment has room for.
    pub frame_bytes: usize,
    /// How long a late worker stays away.
    pub late: Time,
    /// How long what must come is awaited, once the device is silent; 0 where silence is certain.
    pub patience: Time,
    /// On wires, the link behind the device's output towards the server, as the experiment has it.
    pub output: Option<Link>,
    /// The experiment with all defaults: what the device is said to be and to do.
    pub keys: Document,
}

impl ProbeGround {
    /// A whole number of the experiment.
    pub fn number(&self, key: &str) -> Option<i64> {
        match self.keys.get(key) {
            Some(Value::Integer(n)) => Some(*n),
            _ => None,
        }
    }

    /// On wires, how long the device's output is busy with a frame of so many bytes, by the experiment.
    pub fn busy(&self, bytes: usize) -> Option<Time> {
        self.output.as_ref().map(|link| Serialiser::new(link.rate, link.overhead).take(bytes as u32))
    }

    /// A switch of the experiment; false if it is not set.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.keys.get(key), Some(Value::Bool(true)))
    }

    /// A word of the experiment; empty if it is not set.
    pub fn word(&self, key: &str) -> &str {
        match self.keys.get(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// The device's port towards a worker.
    pub fn port_towards(&self, worker: u32) -> u16 {
        self.port_of.get(worker as usize).copied().unwrap_or_default()
    }

    /// The workers of a cluster or job, in order.
    pub fn members(&self, cluster: u16) -> Vec<u32> {
        let all = self.workers.cluster_of.iter().enumerate();
        all.filter(|(_, own)| **own == cluster).map(|(worker, _)| worker as u32).collect()
    }

    /// Why a clause that takes two workers of a job does not apply.
    pub fn alone(&self) -> Option<String> {
        (self.of_first_job() < 2).then(|| "the first job has one worker".to_owned())
    }

    /// Why a clause that takes two jobs does not apply.
    pub fn one_job(&self) -> Option<String> {
        self.alone().or_else(|| (self.clusters().len() < 2).then(|| "the experiment has one job".to_owned()))
    }

    /// Workers of the first cluster or job.
    pub fn of_first_job(&self) -> usize {
        self.clusters().first().map_or(0, |job| self.members(*job).len())
    }

    /// The clusters or jobs that have workers.
    pub fn clusters(&self) -> Vec<u16> {
        let mut all: Vec<u16> = (0..self.workers.clusters() as u16).collect();
        all.retain(|cluster| self.workers.cluster_of.contains(cluster));
        all
    }
}
