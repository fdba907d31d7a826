//! The outcome and the progress of a run in real time.

use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use pktgen_core::record::{Counters, EndCounts, Fault, Note, QueueCounts, WIRES_CHECKSUMS_WRONG};
use pktgen_core::time::{NS, Time};
use pktgen_core::topology::Population;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{group_of, mac_of, target_ip, worker_of};

use super::Shared;
use super::frames::ByBuffer;
use crate::frame::Frame;
use crate::ledger::Ledger;
use crate::transport::middleware::ChecksumTally;
use crate::transport::{Wire, WireCounters};

/// Maximum lateness that the histogram distinguishes.
const LATE_MAX_NS: u64 = 3_600_000_000_000;

/// The fact with the lateness of the workers' first frame, in ns.
pub(crate) const FIRST_LATE: &str = "start.first_late_ns";

/// The progress of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Updates sent.
    pub sent: u64,
    /// Those of earlier runs of a sweep among them.
    pub sent_before: u64,
    /// Packets that arrived at the role closest to the server.
    pub received: u64,
    /// Send attempts of the workers that the kernel or a card refused.
    pub refused: u64,
    /// Frames lost outside the device.
    pub lost: u64,
    /// Frames waiting in the software device's ports, at the last check.
    pub queued: u64,
    /// Maximum lateness since progress was last reported, in ns; 0 in virtual time.
    pub late_ns: u64,
    /// Time since the anchor.
    pub t: Time,
    /// Whether a run in real time has ended.
    pub over: bool,
}

/// Traffic that a role sent or received, with its times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RoleTally {
    /// Frames.
    pub(crate) frames: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Bytes of the last frame, which ends the time and has no duration.
    pub(crate) last_bytes: u64,
    /// Times of the first and of the last frame.
    pub(crate) first: Option<Time>,
    pub(crate) last: Time,
    /// Time between the due times of these two frames, in a schedule with deadlines.
    pub(crate) due: Option<Time>,
}

impl RoleTally {
    /// Records a burst received at `now`, of frames that are longer on the cable by their `beside`.
    #[inline]
    pub(super) fn burst(&mut self, now: Time, burst: &[Frame], beside: &ByBuffer<Beside>) {
        let Some(last) = burst.last() else { return };
        let on_cable = |frame: &Frame| beside.of(frame.buffer).with(u64::from(frame.len));
        self.frames += burst.len() as u64;
        self.bytes += burst.iter().map(on_cable).sum::<u64>();
        self.last_bytes = on_cable(last);
        self.first.get_or_insert(now);
        self.last = now;
    }
}

/// Excess length of a frame on the cable over that in the process, possibly negative: what translation takes off or adds, and the padding
/// of a short frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Beside(i64);

impl Beside {
    /// The excess of a frame that has `len` bytes in the process.
    pub(super) fn of(on_cable: usize, len: usize) -> Self {
        Beside(on_cable as i64 - len as i64)
    }

    /// Returns the bytes on the cable of `frames` frames with `len` bytes in total.
    pub(super) fn with_all(self, len: u64, frames: u64) -> u64 {
        len.saturating_add_signed(self.0.saturating_mul(frames as i64))
    }

    /// Returns the bytes on the cable of one frame.
    pub(super) fn with(self, len: u64) -> u64 {
        self.with_all(len, 1)
    }
}

/// Workers that acknowledgements are for, or came to, by cluster: what one cluster has too many, another one lacks all the same. Counted
/// together where workers change clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AcksByCluster {
    of: Vec<u64>,
    together: bool,
}

impl AcksByCluster {
    pub(super) fn new(workers: &Population) -> Self {
        let together = !workers.moves.is_empty();
        AcksByCluster { of: vec![0; if together { 1 } else { workers.clusters_ever() }], together }
    }

    #[inline]
    pub(super) fn count(&mut self, cluster: u16, workers: u64) {
        let at = if self.together { 0 } else { usize::from(cluster) };
        if let Some(own) = self.of.get_mut(at) {
            *own += workers;
        }
    }

    pub(super) fn add(&mut self, other: &AcksByCluster) {
        self.of.resize(self.of.len().max(other.of.len()), 0);
        self.of.iter_mut().zip(&other.of).for_each(|(own, more)| *own += more);
    }

    /// Of all clusters.
    pub(crate) fn total(&self) -> u64 {
        self.of.iter().sum()
    }

    /// Of these as many as are `due` to each cluster.
    pub(crate) fn of_due(&self, due: &AcksByCluster) -> u64 {
        self.of.iter().zip(&due.of).map(|(own, due)| own.min(due)).sum()
    }
}

/// Acknowledgements as they came to the workers' interface.
#[derive(Debug, Clone)]
pub(super) struct AckTally {
    /// Members by cluster, and the cluster of each worker, at first.
    members: Vec<u32>,
    cluster_of: Vec<u16>,
    /// Workers that they came to.
    seen: AcksByCluster,
    /// Those whose Ethernet address is not that of their IP address.
    elsewhere: u64,
}

impl AckTally {
    pub(super) fn of(workers: &Population) -> Self {
        AckTally {
            members: members(workers),
            cluster_of: workers.cluster_of.clone(),
            seen: AcksByCluster::new(workers),
            elsewhere: 0,
        }
    }

    /// Counts an acknowledgement with our addresses.
    #[inline]
    pub(super) fn count(&mut self, frame: &[u8]) {
        let to = target_ip(frame);
        if frame[..6] != mac_of(to) {
            self.elsewhere += 1;
            return;
        }
        if let Some(cluster) = group_of(to) {
            self.seen.count(cluster, self.members.get(usize::from(cluster)).copied().map_or(0, u64::from));
        } else if let Some(worker) = worker_of(to, self.cluster_of.len()) {
            self.seen.count(self.cluster_of[worker as usize], 1);
        }
    }

    pub(super) fn add_to(&self, outcome: &mut RealOutcome) {
        outcome.acks_seen.add(&self.seen);
        outcome.acks_elsewhere += self.elsewhere;
    }
}

/// Returns the number of workers of each cluster at the beginning.
pub(super) fn members(workers: &Population) -> Vec<u32> {
    let mut members = vec![0; workers.clusters_ever()];
    for cluster in &workers.cluster_of {
        if let Some(own) = members.get_mut(usize::from(*cluster)) {
            *own += 1;
        }
    }
    members
}

/// The outcome of a run in real time.
pub(crate) struct RealOutcome {
    /// Totals.
    pub counters: Counters,
    /// The account, not yet settled.
    pub ledger: Ledger,
    /// Lateness of frames, in ns.
    pub lateness: Histogram<u64>,
    /// Lateness of frames that the host did not delay; none if they are not distinguished.
    pub lateness_of_others: Option<Histogram<u64>>,
    /// Frames that were too late and were not sent.
    pub skipped: u64,
    /// Reasons against the run's numbers.
    pub faults: Vec<Fault>,
    /// Notes for readers.
    pub notes: Vec<Note>,
    /// Counts of each queue, for ends with several.
    pub queues: Vec<QueueCounts>,
    /// Facts for the manifest.
    pub facts: Vec<(String, String)>,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Whether the configured end came first.
    pub cut: bool,
    /// Updates that the workers sent.
    pub offered: Option<RoleTally>,
    /// Counts of each end, by name.
    pub frames: Vec<(String, WireCounters)>,
    /// Traffic received by device and server.
    pub tallies: Vec<(&'static str, RoleTally)>,
    /// Workers that acknowledgements are for, each apart, if each is for all of its cluster.
    pub acks_due: AcksByCluster,
    /// Workers that they came to, and those that came with the Ethernet address of another.
    pub acks_seen: AcksByCluster,
    pub acks_elsewhere: u64,
}

impl RealOutcome {
    pub(super) fn new(facts: Vec<(String, String)>, shared: &Shared, ledger: Ledger) -> Result<Self> {
        Ok(RealOutcome {
            counters: Counters { end_ps: shared.clock.now(), ..Counters::default() },
            facts,
            interrupted: shared.stop.load(Ordering::Relaxed),
            ..RealOutcome::empty(ledger)?
        })
    }

    /// Returns an outcome without counts.
    pub(crate) fn empty(ledger: Ledger) -> Result<Self> {
        Ok(RealOutcome {
            counters: Counters::default(),
            ledger,
            lateness: histogram()?,
            lateness_of_others: None,
            skipped: 0,
            faults: Vec::new(),
            notes: Vec::new(),
            queues: Vec::new(),
            facts: Vec::new(),
            interrupted: false,
            cut: false,
            offered: None,
            frames: Vec::new(),
            tallies: Vec::new(),
            acks_due: AcksByCluster::default(),
            acks_seen: AcksByCluster::default(),
            acks_elsewhere: 0,
        })
    }

    /// Records the checksums of a device's frames.
    pub(super) fn checksums(&mut self, found: &ChecksumTally) {
        if found.wrong() > 0 {
            self.counters.device.insert(WIRES_CHECKSUMS_WRONG.to_owned(), found.wrong());
        }
        if found.unfinished() > 0 {
            self.notes.push(Note::ChecksumsUnfinished { frames: found.unfinished() });
        }
    }
}

/// Makes a histogram of lateness in ns.
pub(super) fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LATE_MAX_NS, 3)
        .map_err(|e| Error::Invalid(format!("a histogram of lateness cannot be made: {e}")))
}

/// Records the rate of the workers between their first frame and their last.
pub(super) fn rate(tally: RoleTally, outcome: &mut RealOutcome) {
    outcome.offered = Some(tally);
    let RoleTally { frames: sent, bytes, last_bytes, first, last, .. } = tally;
    let (bytes, span) = (bytes - last_bytes, last - first.unwrap_or(last));
    let seconds = span as f64 / 1e12;
    if seconds > 0.0 {
        // The last frame has no duration: `bytes` are those of the others.
        let (packets, bits) = ((sent - 1) as f64 / seconds, bytes as f64 * 8.0 / seconds);
        outcome.facts.push(("rate.achieved".into(), format!("{packets:.1} packets/s, {bits:.0} bit/s")));
    }
}

/// Records the lateness of the first frame, by which senders with a common start are compared.
pub(super) fn first_late(late: Option<Time>, outcome: &mut RealOutcome) {
    outcome.facts.extend(late.map(|late| (FIRST_LATE.to_owned(), (late / NS).to_string())));
}

/// Records the notes and the losses of a wire.
pub(super) fn lost(name: &str, wire: &mut dyn Wire, outcome: &mut RealOutcome) {
    outcome.facts.extend(wire.notes());
    tell_lost(name, wire.counters(), outcome);
}

/// Records the counts of an end.
pub(super) fn tell_lost(name: &str, counters: WireCounters, outcome: &mut RealOutcome) {
    outcome.frames.push((name.to_owned(), counters));
    let frames = EndCounts {
        sent: counters.sent,
        received: counters.received,
        dropped_out: counters.send_dropped,
        dropped_unread: counters.receive_dropped,
    };
    outcome.facts.push((EndCounts::fact(name), frames.to_string()));
    if counters.receive_dropped + counters.send_dropped > 0 {
        let (out, before_read) = (counters.send_dropped, counters.receive_dropped);
        outcome.faults.push(Fault::FramesLost { end: name.to_owned(), out, before_read });
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::topology::Move;

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
}
