//! What all workers of synchronous training have in common, whatever they send: where they are, which of them a frame is for, whose
//! turn it is, and which way a frame goes by its addresses.

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
    /// The workers that the frame at hand is for.
    pub hearers: Vec<u32>,
    /// Their timers.
    pub calendar: Calendar,
}

impl Roster {
    /// Of jobs with `workers_per_job` workers each.
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

    /// The next worker whose time comes by `until`, and the time; none if the host has a burst to send.
    pub fn due(&self, until: Time, host: &Host) -> Option<(Time, u32)> {
        let (t, worker) = self.calendar.first();
        (host.outgoing.len() < BURST && t != NEVER && t <= until).then_some((t, worker))
    }

    /// Finds the workers of `job` that `frame` at `node` is for.
    pub fn find_hearers(&mut self, node: NodeId, job: u16, frame: &[u8]) {
        // A frame may say anything: of a job that is not there nobody hears.
        let (first, all) = (u32::from(job).saturating_mul(self.workers_per_job), self.host_of.len() as u32);
        let jobs_own: Range<u32> = first.min(all)..first.saturating_add(self.workers_per_job).min(all);
        let (here, to) = (self.at_node.get(node as usize), target_ip(frame));
        self.hearers.clear();
        match (group_of(to), here) {
            (Some(_), Some(here)) => self.hearers.extend(here.iter().filter(|worker| jobs_own.contains(worker))),
            // Nothing says at which host: all workers of the job.
            (Some(_), None) => self.hearers.extend(jobs_own),
            (None, _) => {
                let is_here = |worker: &u32| here.is_none() || self.host_of[*worker as usize] == node;
                let only = worker_of(to, self.host_of.len());
                self.hearers.extend(only.filter(|worker| jobs_own.contains(worker) && is_here(worker)));
            }
        }
    }
}

/// Which way a frame goes.
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
    /// By the addresses of `frame`; none if it matches no worker.
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

    /// The job.
    pub fn job(self, facts: &Facts) -> u16 {
        match self {
            FrameDirection::From(worker) | FrameDirection::To(worker) => facts.workers.cluster_of[worker as usize],
            FrameDirection::ToJob(job) => job,
        }
    }

    /// What a frame is that goes this way.
    pub fn identity(self, kind: Kind, packet: PacketId, facts: &Facts) -> Identity {
        let (worker, flow) = match self {
            FrameDirection::From(worker) => (worker, facts.server),
            FrameDirection::To(worker) => (worker, facts.host_of[worker as usize]),
            FrameDirection::ToJob(_) => (0, ALL_WORKERS),
        };
        Identity { packet, worker, cluster: self.job(facts), flow, kind }
    }
}

/// The row of a frame of training that arrived at `node`.
pub fn received_in_training(frame: &Frame, node: NodeId) -> Received {
    Received { cluster: None, job: Some(frame.cluster), ..received(frame, node) }
}

/// The row of a frame that arrived at `node`, as far as its place in the run shows: one update, accepted.
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
        // Whose results are recorded is among the nodes that rows can name: the plan sees to it.
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
