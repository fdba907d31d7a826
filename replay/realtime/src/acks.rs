//! Acknowledgements at both sides of a device: the workers that they are for, and those that they come to.

use std::collections::HashMap;

use pktgen_core::topology::Population;
use pktgen_wire::wire::frame::{HEAD, group_of, is_whole, mac_of, source_ip, target_ip, worker_of};
use pktgen_wire::wire::update::{Ack, is_ack};

/// Workers that acknowledgements are for, or came to, by cluster, or in lockstep by worker: what one has too many, another one lacks all the
/// same. Counted together where workers change clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AcksByCluster {
    of: Vec<u64>,
    together: bool,
}

impl AcksByCluster {
    pub(crate) fn new(workers: &Population) -> Self {
        let together = !workers.moves.is_empty();
        AcksByCluster { of: vec![0; if together { 1 } else { workers.clusters_ever() }], together }
    }

    #[inline]
    pub(crate) fn count(&mut self, cluster: u16, workers: u64) {
        let at = if self.together { 0 } else { usize::from(cluster) };
        if let Some(own) = self.of.get_mut(at) {
            *own += workers;
        }
    }

    pub(crate) fn add(&mut self, other: &AcksByCluster) {
        self.of.resize(self.of.len().max(other.of.len()), 0);
        self.of.iter_mut().zip(&other.of).for_each(|(own, more)| *own += more);
    }

    /// Of all clusters or workers.
    pub(crate) fn total(&self) -> u64 {
        self.of.iter().sum()
    }

    /// Of these as many as are `due` to each cluster or worker.
    pub(crate) fn of_due(&self, due: &AcksByCluster) -> u64 {
        self.of.iter().zip(&due.of).map(|(own, due)| own.min(due)).sum()
    }
}

/// Whom an acknowledgement is for.
enum Receiver {
    /// All workers of a cluster.
    Group(u16),
    Worker(u32),
    /// A host whose card discards it: the Ethernet address is not that of its IP address.
    Elsewhere,
    Unknown,
}

impl Receiver {
    /// Returns whom an acknowledgement with our addresses is for, in a run with this number of workers.
    #[inline]
    fn of(frame: &[u8], workers: usize) -> Receiver {
        let to = target_ip(frame);
        if frame[..6] != mac_of(to) {
            return Receiver::Elsewhere;
        }
        let worker = || worker_of(to, workers).map_or(Receiver::Unknown, Receiver::Worker);
        group_of(to).map_or_else(worker, Receiver::Group)
    }
}

/// Acknowledgements as they came to the workers' interface.
#[derive(Debug, Clone)]
pub(crate) struct AckTally {
    /// Members by cluster, and the cluster of each worker, at first.
    members: Vec<u32>,
    cluster_of: Vec<u16>,
    /// Workers that they came to.
    seen: AcksByCluster,
    /// Frames to the group of a cluster, and to one worker.
    frames: [u64; 2],
    /// Those whose Ethernet address is not that of their IP address.
    elsewhere: u64,
}

impl AckTally {
    pub(crate) fn of(workers: &Population) -> Self {
        AckTally {
            members: members(workers),
            cluster_of: workers.cluster_of.clone(),
            seen: AcksByCluster::new(workers),
            frames: [0; 2],
            elsewhere: 0,
        }
    }

    /// Counts an acknowledgement with our addresses.
    #[inline]
    pub(crate) fn count(&mut self, frame: &[u8]) {
        match Receiver::of(frame, self.cluster_of.len()) {
            Receiver::Group(cluster) => {
                let members = self.members.get(usize::from(cluster)).copied().map_or(0, u64::from);
                self.seen.count(cluster, members);
                self.frames[0] += 1;
            }
            Receiver::Worker(worker) => {
                self.seen.count(self.cluster_of[worker as usize], 1);
                self.frames[1] += 1;
            }
            Receiver::Elsewhere => self.elsewhere += 1,
            Receiver::Unknown => {}
        }
    }

    pub(crate) fn add_to(&self, ends: &mut AcksAtEnds) {
        ends.seen.add(&self.seen);
        ends.frames.iter_mut().zip(self.frames).for_each(|(own, more)| *own += more);
        ends.elsewhere += self.elsewhere;
    }
}

/// Acknowledgements at both sides of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AcksAtEnds {
    /// Workers that they are for, each apart, if each is for all of its cluster.
    pub(crate) due: AcksByCluster,
    /// Workers that they came to.
    pub(crate) seen: AcksByCluster,
    /// Frames that came to the group of a cluster, and to one worker.
    pub(crate) frames: [u64; 2],
    /// Those that came with the Ethernet address of another.
    pub(crate) elsewhere: u64,
    /// Whether all of these were counted at the device's ports, not at those of the hosts.
    pub(crate) at_device: bool,
    /// In lockstep, unless workers change clusters.
    pub(crate) again: Again,
    pub(crate) lost: LostAcks,
}

impl AcksAtEnds {
    /// Whether all that came were for all workers of a cluster.
    pub(crate) fn go_to_groups(&self) -> bool {
        self.frames[0] > 0 && self.frames[1] == 0
    }
}

/// Copies of acknowledgements at workers that had them: if each is for all of its cluster, and if each is for the worker in its address,
/// unless about all of its cluster came to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) of_cluster: u64,
    pub(crate) of_worker: u64,
}

/// Acknowledgements of which no copy left a device, and the copies that were due of these, if each is for all of its cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LostAcks {
    pub(crate) acks: u64,
    pub(crate) copies: u64,
}

/// Returns whether a frame holds an acknowledgement that its host takes.
#[inline]
pub(crate) fn is_ack_frame(frame: &[u8]) -> bool {
    frame.get(HEAD..).is_some_and(is_ack) && is_whole(frame, 0)
}

/// Acknowledgements that reach a device from the server, and those that leave it towards the workers, each at its port.
#[derive(Debug, Clone)]
pub(crate) struct AcksThrough {
    workers: Vec<WorkerAcks>,
    /// Members by cluster if workers change clusters.
    moving: Option<Vec<u32>>,
    /// From the server.
    sent: u64,
    /// The same by cluster.
    of_cluster: Vec<u64>,
    /// That left for the group of a cluster, by port and cluster.
    to_group: HashMap<(u16, u16), u64>,
    elsewhere: u64,
    /// That left for no worker, or at a port that is not its.
    astray: u64,
}

/// Acknowledgements of one worker.
#[derive(Debug, Clone)]
struct WorkerAcks {
    /// Its cluster, at first.
    cluster: u16,
    /// The device's port to it.
    port: u16,
    /// From the server to its address.
    sent: u64,
    /// Those of its cluster before its first frame, from which a device may learn its port.
    before: Option<u64>,
    /// That left to its address, at its port.
    came: u64,
}

impl AcksThrough {
    /// `port_of` has the device's port to each worker.
    pub(crate) fn of(workers: &Population, port_of: Vec<u16>) -> Self {
        let own = |(cluster, port): (&u16, u16)| WorkerAcks { cluster: *cluster, port, sent: 0, before: None, came: 0 };
        AcksThrough {
            workers: workers.cluster_of.iter().zip(port_of).map(own).collect(),
            moving: (!workers.moves.is_empty()).then(|| members(workers)),
            sent: 0,
            of_cluster: vec![0; workers.clusters_ever()],
            to_group: HashMap::new(),
            elsewhere: 0,
            astray: 0,
        }
    }

    /// Notes a frame of a worker, in our layout.
    pub(crate) fn note_worker(&mut self, frame: &[u8]) {
        if let Some(worker) = worker_of(source_ip(frame), self.workers.len()) {
            let own = &mut self.workers[worker as usize];
            own.before.get_or_insert(self.of_cluster.get(usize::from(own.cluster)).copied().unwrap_or(0));
        }
    }

    /// Counts an acknowledgement among the server's frames, in our layout.
    pub(crate) fn count_sent(&mut self, frame: &[u8]) {
        if let Some(ack) = frame.get(HEAD..).and_then(Ack::parse) {
            self.sent += 1;
            if let Some(own) = self.of_cluster.get_mut(usize::from(ack.header.cluster)) {
                *own += 1;
            }
            if let Some(worker) = worker_of(target_ip(frame), self.workers.len()) {
                self.workers[worker as usize].sent += 1;
            }
        }
    }

    /// Counts an acknowledgement among frames that leave `port` towards the workers, in our layout.
    pub(crate) fn count_came(&mut self, port: u16, frame: &[u8]) {
        if !is_ack_frame(frame) {
            return;
        }
        match Receiver::of(frame, self.workers.len()) {
            Receiver::Group(cluster) => *self.to_group.entry((port, cluster)).or_default() += 1,
            Receiver::Worker(worker) => {
                let own = &mut self.workers[worker as usize];
                *if own.port == port { &mut own.came } else { &mut self.astray } += 1;
            }
            Receiver::Elsewhere => self.elsewhere += 1,
            Receiver::Unknown => self.astray += 1,
        }
    }

    /// Returns the number of acknowledgements from the server, and what is known of them at both sides.
    pub(crate) fn ends(&self) -> (u64, AcksAtEnds) {
        let frames: [u64; 2] = [self.to_group.values().sum(), self.workers.iter().map(|own| own.came).sum()];
        let mut ends = AcksAtEnds { frames, elsewhere: self.elsewhere, at_device: true, ..AcksAtEnds::default() };
        let AcksAtEnds { due, seen, again, .. } = &mut ends;
        if let Some(members) = &self.moving {
            let of = |cluster: usize| members.get(cluster).copied().map_or(0, u64::from);
            let sent = self.of_cluster.iter().enumerate();
            due.of.push(sent.map(|(cluster, sent)| sent * of(cluster)).sum());
            let to_groups = self.to_group.iter().map(|((_, cluster), came)| came * of(usize::from(*cluster)));
            seen.of.push(to_groups.sum::<u64>() + self.workers.iter().map(|own| own.came).sum::<u64>());
        } else {
            for own in &self.workers {
                let all = self.of_cluster.get(usize::from(own.cluster)).copied().unwrap_or(0);
                let to_group = self.to_group.get(&(own.port, own.cluster)).copied().unwrap_or(0);
                let came = to_group + own.came;
                due.of.push(own.before.map_or(0, |before| all - before));
                seen.of.push(came);
                again.of_cluster += came.saturating_sub(all);
                // A device may send each to all workers of its cluster one by one; or some to the group, and others to the worker in
                // their address.
                let of_each = came.saturating_mul(10) >= all.saturating_mul(9);
                let own = if of_each { all } else { all.min(to_group + own.sent) };
                again.of_worker += came.saturating_sub(own);
            }
            ends.lost = self.lost(&ends);
        }
        (self.sent, ends)
    }

    /// Returns the acknowledgements of which no copy left: those to a cluster's group are the same at each port, and those to single workers
    /// others. What left for addresses of others, or for a group beyond what was sent to it, may be one of these.
    fn lost(&self, ends: &AcksAtEnds) -> LostAcks {
        let mut clusters = vec![(0u64, 0u64); self.of_cluster.len()];
        for ((_, cluster), frames) in &self.to_group {
            if let Some((_, left)) = clusters.get_mut(usize::from(*cluster)) {
                *left = (*left).max(*frames);
            }
        }
        for (own, of_worker) in self.workers.iter().zip(&ends.due.of) {
            if let Some((due, left)) = clusters.get_mut(usize::from(own.cluster)) {
                *due = (*due).max(*of_worker);
                *left += own.came;
            }
        }
        let beyond: u64 = clusters.iter().map(|(due, left)| left.saturating_sub(*due)).sum();
        let none_of = |(due, left): &(u64, u64)| due.saturating_sub(*left);
        let lacking: u64 = clusters.iter().map(none_of).sum();
        let missing = self.workers.iter().zip(ends.due.of.iter().zip(&ends.seen.of));
        let copies = missing.map(|(own, (due, seen))| {
            due.saturating_sub(*seen).min(clusters.get(usize::from(own.cluster)).map_or(0, none_of))
        });
        let copies: u64 = copies.sum();
        let acks = lacking.saturating_sub(beyond + self.elsewhere + self.astray);
        let share = u128::from(copies) * u128::from(acks) / u128::from(lacking.max(1));
        LostAcks { acks, copies: share as u64 }
    }
}

/// Returns the number of workers of each cluster at the beginning.
pub(crate) fn members(workers: &Population) -> Vec<u32> {
    let mut members = vec![0; workers.clusters_ever()];
    for cluster in &workers.cluster_of {
        if let Some(own) = members.get_mut(usize::from(*cluster)) {
            *own += 1;
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use pktgen_core::topology::Move;
    use pktgen_wire::wire::frame::worker_ip;
    use pktgen_wire::wire::update::{Header, Status};

    use super::*;

    /// What of acknowledgements of clusters 0, 1 and 1 comes to two workers of each cluster if their copies go to these groups: those that
    /// count of those that are due.
    fn seen(groups: &[u16], workers: &Population) -> (u64, u64) {
        let (mut tally, mut due) = (AckTally::of(workers), AcksByCluster::new(workers));
        for cluster in [0, 1, 1] {
            due.count(cluster, 2);
        }
        for group in groups {
            let to = 0xefc0_0000 | u32::from(*group);
            let mut frame = [0; 60];
            frame[..6].copy_from_slice(&mac_of(to));
            frame[30..34].copy_from_slice(&to.to_be_bytes());
            assert_eq!(target_ip(&frame), to);
            tally.count(&frame);
        }
        (tally.seen.of_due(&due), due.total())
    }

    #[test]
    fn acknowledgements_of_one_cluster_do_not_count_for_another() {
        let workers = Population::regular(2, 2);
        assert_eq!(seen(&[0, 1, 1], &workers), (6, 6));
        assert_eq!(seen(&[0, 0, 0], &workers), (2, 6));
        assert_eq!(seen(&[0, 0, 1, 1], &workers), (6, 6));
        // Where a worker changes its cluster, its acknowledgements are of either.
        let moved = Population { moves: vec![Move { at: 0, worker: 0, cluster: 1 }], ..workers };
        assert_eq!(seen(&[0, 0, 0], &moved), (6, 6));
    }

    /// An acknowledgement for `to`, of a cluster.
    fn frame(to: u32, cluster: u16) -> Vec<u8> {
        let mut frame = vec![0; HEAD + 64];
        frame[..6].copy_from_slice(&mac_of(to));
        frame[30..34].copy_from_slice(&to.to_be_bytes());
        let header = Header {
            flags: 0,
            cluster,
            count: 1,
            worker: 0,
            seq: 0,
            generation: 0,
            attempt: 0,
            elements: 0,
            reward: 0.0,
        };
        Ack { header, status: Status::default() }.emit(&mut frame[HEAD..]);
        frame
    }

    /// A frame of a worker.
    fn update(worker: u32) -> Vec<u8> {
        let mut frame = vec![0; HEAD + 64];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[23] = 17;
        frame[26..30].copy_from_slice(&worker_ip(worker).to_be_bytes());
        frame
    }

    fn group(cluster: u32) -> u32 {
        0xefc0_0000 | cluster
    }

    /// A device that learns ports from traffic knows no port of a worker before its first frame.
    #[test]
    fn acknowledgements_are_due_to_workers_that_have_sent() {
        let mut acks = AcksThrough::of(&Population::regular(1, 2), vec![0, 1]);
        acks.note_worker(&update(0));
        acks.count_sent(&frame(worker_ip(0), 0));
        acks.count_came(0, &frame(group(0), 0));
        acks.note_worker(&update(1));
        acks.count_sent(&frame(worker_ip(0), 0));
        acks.note_worker(&update(1));
        for port in [0, 1] {
            acks.count_came(port, &frame(group(0), 0));
        }
        let ends = acks.ends().1;
        assert_eq!((ends.due.total(), ends.seen.of_due(&ends.due)), (3, 3));
    }

    /// A worker has an acknowledgement twice; each is for one of the three of its cluster, or for all.
    #[test]
    fn copies_at_workers_that_had_them_are_counted() {
        let again = |port_of: [u16; 3], to: &[(u16, u32)]| {
            let mut acks = AcksThrough::of(&Population::regular(1, 3), port_of.to_vec());
            (0..3).for_each(|worker| acks.count_sent(&frame(worker_ip(worker), 0)));
            to.iter().for_each(|(port, to)| acks.count_came(*port, &frame(*to, 0)));
            let Again { of_cluster, of_worker } = acks.ends().1.again;
            (of_cluster, of_worker)
        };
        let one_each = [0, 1, 2].map(|worker| (0, worker_ip(worker)));
        assert_eq!(again([0; 3], &one_each), (0, 0));
        assert_eq!(again([0; 3], &[one_each, one_each].concat()), (0, 3), "fewer than all of their cluster");
        assert_eq!(again([0; 3], &[one_each; 3].concat()), (0, 0), "each to all workers, one by one");
        assert_eq!(again([0; 3], &[(0, group(0)); 3]), (0, 0));
        // The first went to the group, the others to a worker.
        assert_eq!(again([0; 3], &[(0, group(0)), one_each[1], one_each[2]]), (0, 0));
        assert_eq!(again([0; 3], &[(0, group(0)); 4]), (3, 3), "once more at three workers");
        let ports = [0, 1, 2].map(|port| (port, group(0)));
        assert_eq!(again([0, 1, 2], &[ports; 3].concat()), (0, 0));
        assert_eq!(again([0, 1, 2], &[&[ports; 3].concat()[..], &ports[..1]].concat()), (1, 1));
    }

    /// Ten acknowledgements to each of two clusters of two workers, each at its port.
    #[test]
    fn acknowledgements_of_which_no_copy_leaves_are_lost() {
        let lost = |to: &[(u16, u32, usize)]| {
            let mut acks = AcksThrough::of(&Population::regular(2, 2), vec![0, 1, 2, 3]);
            (0..4).for_each(|worker| acks.note_worker(&update(worker)));
            for at in 0..20 {
                acks.count_sent(&frame(worker_ip(0), at % 2));
            }
            for (port, to, times) in to {
                (0..*times).for_each(|_| acks.count_came(*port, &frame(*to, 0)));
            }
            let LostAcks { acks, copies } = acks.ends().1.lost;
            (acks, copies)
        };
        let second = [(2, group(1), 10), (3, group(1), 10)];
        let and_first = |to: &[(u16, u32, usize)]| lost(&[to, &second[..]].concat());
        assert_eq!((lost(&[]), and_first(&[])), ((20, 40), (10, 20)), "all, and those of a cluster");
        assert_eq!(and_first(&[(0, group(0), 6), (1, group(0), 6)]), (4, 8));
        assert_eq!(and_first(&[(0, group(0), 6)]), (4, 8), "the other six come to one of them");
        assert_eq!(and_first(&[(0, group(0), 10)]), (0, 0), "all to one of them");
        assert_eq!(and_first(&[(0, worker_ip(0), 5), (1, worker_ip(1), 5)]), (0, 0), "each to one of them");
        // To the group of the others, to a port of another, and to nobody.
        assert_eq!(and_first(&second), (0, 0));
        assert_eq!(and_first(&[(3, worker_ip(0), 10)]), (0, 0));
        assert_eq!(and_first(&[(0, 0x0102_0304, 10)]), (0, 0));
    }

    /// A device is one with groups if it sends all acknowledgements to them.
    #[test]
    fn acknowledgements_to_groups_are_told_from_those_to_workers() {
        let (workers, to_one) = (Population::regular(1, 2), frame(worker_ip(0), 0));
        for (to, wanted) in [(vec![], false), (vec![group(0)], true), (vec![group(0), worker_ip(1)], false)] {
            let (mut tally, mut through) = (AckTally::of(&workers), AcksThrough::of(&workers, vec![0, 0]));
            through.count_sent(&to_one);
            for to in to {
                tally.count(&frame(to, 0));
                through.count_came(0, &frame(to, 0));
            }
            let mut ends = AcksAtEnds::default();
            tally.add_to(&mut ends);
            assert_eq!([ends.go_to_groups(), through.ends().1.go_to_groups()], [wanted; 2]);
        }
    }

    /// Acknowledgements of two clusters of two workers pass a device, to a group or to one worker.
    #[test]
    fn acknowledgements_are_counted_at_both_sides_of_a_device() {
        let worker = worker_ip(0);
        let seen_at = |port_of: [u16; 4], to: &[(u16, u32)], moves: Vec<Move>| {
            let mut acks = AcksThrough::of(&Population { moves, ..Population::regular(2, 2) }, port_of.to_vec());
            (0..4).for_each(|worker| acks.note_worker(&update(worker)));
            for cluster in [0, 1] {
                acks.count_sent(&frame(worker, cluster));
            }
            for (port, to) in to {
                acks.count_came(*port, &frame(*to, 0));
            }
            // Updates and short frames are none.
            acks.count_sent(&[0; HEAD + 64]);
            acks.count_came(0, &[0; 20]);
            let (sent, ends) = acks.ends();
            assert_eq!((sent, ends.due.total(), ends.elsewhere), (2, 4, 0));
            ends.seen.of_due(&ends.due)
        };
        let seen = |to: [u32; 2]| seen_at([0; 4], &to.map(|to| (0, to)), Vec::new());
        assert_eq!(seen([group(0), group(1)]), 4);
        assert_eq!(seen([worker, worker]), 1, "what one worker has too often, another one lacks");
        assert_eq!(seen([group(1), group(1)]), 2);
        // A port for each worker: a copy at one does not hide another that is missing.
        let seen = |to: &[(u16, u32)], moves| seen_at([0, 1, 2, 3], to, moves);
        let all = [(0, group(0)), (1, group(0)), (2, group(1)), (3, group(1))];
        assert_eq!([seen(&all, Vec::new()), seen(&all[..3], Vec::new())], [4, 3]);
        assert_eq!(seen(&[all[0], all[0], all[2], all[2]], Vec::new()), 2, "twice at two ports");
        assert_eq!(seen(&[(1, group(1)), (1, worker)], Vec::new()), 0, "at ports without these workers");
        // Where a worker changes its cluster, its acknowledgements are of either.
        let moves = vec![Move { at: 0, worker: 0, cluster: 1 }];
        assert_eq!(seen(&[(0, group(1)), (1, group(0))], moves), 4);
    }
}
