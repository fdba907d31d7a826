//! What clauses know about the device under test and its surroundings.

use std::sync::Arc;

use pktgen_core::config::{Document, Value};
use pktgen_core::time::{NEVER, Serialiser, Time};
use pktgen_core::topology::{Link, Population};

/// The known properties of the device under test and its surroundings.
#[derive(Debug, Clone)]
pub struct ProbeGround {
    /// Workers, and the cluster or job of each.
    pub workers: Arc<Population>,
    /// The device's port towards each worker.
    pub port_of: Vec<u16>,
    /// The device's port towards the server, if there is one.
    pub server: Option<u16>,
    /// Bytes of the largest frame that the experiment permits.
    pub frame_bytes: usize,
    /// Time for which a late worker stays silent.
    pub late: Time,
    /// Maximum wait for an expected frame once the device is silent; 0 if silence is certain.
    pub patience: Time,
    /// On wires, the link behind the device's output towards the server, according to the experiment.
    pub output: Option<Link>,
    /// The links of the device's ports, if frames are observed at their far ends; empty if at the device itself, or on wires.
    pub links: Vec<Link>,
    /// Number of hot parameters of a job in sparse training.
    pub hot: Option<u32>,
    /// The experiment with all defaults: the declared properties of the device.
    pub keys: Document,
}

impl ProbeGround {
    /// Returns an integer of the experiment.
    pub fn number(&self, key: &str) -> Option<i64> {
        match self.keys.get(key) {
            Some(Value::Integer(n)) => Some(*n),
            _ => None,
        }
    }

    /// Returns the time that a frame of `bytes` occupies the device's output, according to the experiment; on wires only.
    pub fn busy(&self, bytes: usize) -> Option<Time> {
        self.output.as_ref().map(|link| lasts(link, bytes))
    }

    /// Returns the time from the start of a frame of `bytes` at a port to its observation; 0 if it is observed at the device.
    pub fn on_link(&self, port: u16, bytes: usize) -> Time {
        self.links.get(usize::from(port)).map_or(0, |link| lasts(link, bytes) + link.delay)
    }

    /// Returns the time within which this many frames that leave at once through one port are observed: the longest of all ports.
    pub fn on_links(&self, frames: usize) -> Time {
        self.links.iter().map(|link| until_last(link, frames, self.frame_bytes)).max().unwrap_or(0)
    }

    /// Returns the time within which frames of these lengths that leave at once through one port are observed at workers: the longest of
    /// their ports.
    pub fn to_workers(&self, lengths: &[usize]) -> Time {
        let links = self.port_of.iter().filter_map(|port| self.links.get(usize::from(*port)));
        let takes = |link: &Link| lengths.iter().fold(link.delay, |t, bytes| t.saturating_add(lasts(link, *bytes)));
        links.map(takes).max().unwrap_or(0).min(NEVER / 4)
    }

    /// Returns a flag of the experiment; false if it is not set.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.keys.get(key), Some(Value::Bool(true)))
    }

    /// Returns a text of the experiment; empty if it is not set.
    pub fn word(&self, key: &str) -> &str {
        match self.keys.get(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the device's port towards a worker.
    pub fn port_towards(&self, worker: u32) -> u16 {
        self.port_of.get(worker as usize).copied().unwrap_or_default()
    }

    /// Returns the workers of a cluster or job, in order.
    pub fn members(&self, cluster: u16) -> Vec<u32> {
        let all = self.workers.cluster_of.iter().enumerate();
        all.filter(|(_, own)| **own == cluster).map(|(worker, _)| worker as u32).collect()
    }

    /// Returns why a clause for two workers of a job does not apply, if it does not.
    pub fn alone(&self) -> Option<String> {
        (self.of_first_job() < 2).then(|| "the first job has one worker".to_owned())
    }

    /// Returns why a clause for two jobs does not apply, if it does not.
    pub fn one_job(&self) -> Option<String> {
        self.alone().or_else(|| (self.clusters().len() < 2).then(|| "the experiment has one job".to_owned()))
    }

    /// Returns the number of workers of the first cluster or job.
    pub fn of_first_job(&self) -> usize {
        self.clusters().first().map_or(0, |job| self.members(*job).len())
    }

    /// Returns the clusters or jobs that have workers.
    pub fn clusters(&self) -> Vec<u16> {
        let mut all: Vec<u16> = (0..self.workers.clusters() as u16).collect();
        all.retain(|cluster| self.workers.cluster_of.contains(cluster));
        all
    }
}

/// Returns the time that a frame of `bytes` occupies a link.
fn lasts(link: &Link, bytes: usize) -> Time {
    Serialiser::new(link.rate, link.overhead).take(bytes as u32)
}

/// Returns the time until the last of this many frames of `bytes` is at the far end of a link.
fn until_last(link: &Link, frames: usize, bytes: usize) -> Time {
    lasts(link, bytes).saturating_mul(frames as Time).saturating_add(link.delay).min(NEVER / 4)
}
