//! The common part of all workers of synchronous training: their hosts, the receivers of a frame, their timers, and the
//! direction of a frame according to its addresses.

use std::ops::Range;
use std::sync::Arc;

use pktgen_core::record::{PacketId, Received, SumOk};
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::NodeId;
use pktgen_wire::wire::frame::{SERVER_IP, group_of, source_ip, target_ip, worker_of};

use super::rounds::ALL_WORKERS;
use super::{Facts, Host, Identity};
use crate::driver::calendar::Calendar;
use crate::frame::{BURST, Frame, Kind};

/// The workers of a run. Job `j` has the ids from `j · workers_per_job` on.
pub struct Roster {
    workers_per_job: u32,
    host_of: Arc<Vec<NodeId>>,
    /// Workers of each node.
    at_node: Vec<Vec<u32>>,
    /// The receivers of the current frame.
    pub hearers: Vec<u32>,
    /// Their timers.
    pub calendar: Calendar,
}

impl Roster {
    /// A roster for jobs with `workers_per_job` workers each.
    pub fn new(facts: &Facts, workers_per_job: u32) -> Self {
        let mut at_node: Vec<Vec<u32>> = Vec::new();
        for (worker, node) in facts.host_of.iter().enumerate() {
            at_node.resize(at_node.len().max(*node as usize + 1), Vec::new());
            at_node[*node as usize].push(worker as u32);
        }
        Roster {
            workers_per_job,
            calendar: Calendar::new(facts.host_of.len()),
            host_of: facts.host_of.clone(),
            at_node,
            hearers: Vec::new(),
        }
    }

    /// Returns the next worker that is due by `until`, with its time; `None` if the host already has a burst to send.
    pub fn due(&self, until: Time, host: &Host) -> Option<(Time, u32)> {
        let (t, worker) = self.calendar.first();
        (host.outgoing.len() < BURST && t != NEVER && t <= until).then_some((t, worker))
    }

    /// Determines the workers of `job` that receive `frame` at `node`.
    pub fn find_hearers(&mut self, node: NodeId, job: u16, frame: &[u8]) {
        // A frame may name any job: an unknown job has no receivers.
        let (first, all) = (u32::from(job).saturating_mul(self.workers_per_job), self.host_of.len() as u32);
        let jobs_own: Range<u32> = first.min(all)..first.saturating_add(self.workers_per_job).min(all);
        let (here, to) = (self.at_node.get(node as usize), target_ip(frame));
        self.hearers.clear();
        match (group_of(to), here) {
            (Some(_), Some(here)) => self.hearers.extend(here.iter().filter(|worker| jobs_own.contains(worker))),
            // The host is unknown: all workers of the job.
            (Some(_), None) => self.hearers.extend(jobs_own),
            (None, _) => {
                let is_here = |worker: &u32| here.is_none() || self.host_of[*worker as usize] == node;
                let only = worker_of(to, self.host_of.len());
                self.hearers.extend(only.filter(|worker| jobs_own.contains(worker) && is_here(worker)));
            }
        }
    }
}

/// The direction of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameDirection {
    /// From a worker.
    From(u32),
    /// To a worker.
    To(u32),
    /// To all workers of a job.
    ToJob(u16),
}

impl FrameDirection {
    /// Returns the direction by the addresses of `frame`; `None` if it matches no worker.
    pub fn of(frame: &[u8], facts: &Facts) -> Option<FrameDirection> {
        let (workers, to) = (facts.workers.len(), target_ip(frame));
        if let Some(worker) = worker_of(source_ip(frame), workers) {
            return Some(FrameDirection::From(worker));
        }
        if source_ip(frame) != SERVER_IP {
            return None;
        }
        match group_of(to) {
            Some(job) => Some(FrameDirection::ToJob(job)),
            None => worker_of(to, workers).map(FrameDirection::To),
        }
    }

    /// Returns the job.
    pub fn job(self, facts: &Facts) -> u16 {
        match self {
            FrameDirection::From(worker) | FrameDirection::To(worker) => facts.workers.cluster_of[worker as usize],
            FrameDirection::ToJob(job) => job,
        }
    }

    /// Returns the identity of a frame with this direction.
    pub fn identity(self, kind: Kind, packet: PacketId, facts: &Facts) -> Identity {
        let (worker, flow) = match self {
            FrameDirection::From(worker) => (worker, facts.server),
            FrameDirection::To(worker) => (worker, facts.host_of[worker as usize]),
            FrameDirection::ToJob(_) => (0, ALL_WORKERS),
        };
        Identity { packet, worker, cluster: self.job(facts), flow, kind }
    }
}

/// Returns the row of a frame of training that arrived at `node`.
pub fn received_in_training(frame: &Frame, node: NodeId) -> Received {
    Received { cluster: None, job: Some(frame.cluster), ..received(frame, node) }
}

/// Returns the row of a frame that arrived at `node`, derived from its metadata alone: one update, accepted.
pub fn received(frame: &Frame, node: NodeId) -> Received {
    Received {
        t_recv: frame.t,
        packet: frame.packet,
        cluster: Some(frame.cluster),
        job: None,
        newest_worker: frame.packet.worker(),
        newest_seq: frame.packet.seq(),
        newest_gen: 0,
        count: 1,
        bytes: u32::from(frame.len),
        reward: None,
        accepted: true,
        sum_ok: SumOk::Unknown,
        // Nodes with recorded results are among those that rows can name: the plan ensures it.
        node: if node == ALL_WORKERS { 0 } else { node as u16 },
        digest: None,
        heat: None,
        part: None,
        last: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_not_there_has_no_hearers() {
        let nodes = [5, 6, 7, 8];
        let at_node =
            (0..9).map(|node| nodes.iter().position(|it| *it == node).map(|w| w as u32).into_iter().collect());
        let mut roster = Roster {
            workers_per_job: 2,
            host_of: Arc::new(nodes.to_vec()),
            at_node: at_node.collect(),
            hearers: Vec::new(),
            calendar: Calendar::new(nodes.len()),
        };
        let mut frame = [0u8; 64];
        frame[30..34].copy_from_slice(&[239, 192, 0, 1]);
        for (job, wanted) in [(0, &[0, 1][..]), (1, &[2, 3]), (2, &[]), (7, &[]), (u16::MAX, &[])] {
            roster.find_hearers(ALL_WORKERS, job, &frame);
            assert_eq!(roster.hearers, wanted, "{job}");
        }
    }
}
