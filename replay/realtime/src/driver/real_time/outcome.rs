//! What a run in real time came to, and how far it is.

use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use pktgen_core::record::{Counters, Fault, Note, QueueCounts, WIRES_CHECKSUMS_WRONG};
use pktgen_core::time::{NS, Time};
use pktgen_core::topology::Population;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{group_of, mac_of, target_ip, worker_of};

use super::Shared;
use crate::frame::Frame;
use crate::ledger::Ledger;
use crate::transport::middleware::ChecksumTally;
use crate::transport::{Wire, WireCounters};

/// Longest lateness that the histogram distinguishes.
const LATE_MAX_NS: u64 = 3_600_000_000_000;

/// The fact of workers that says how late their first frame left, in ns.
pub(crate) const FIRST_LATE: &str = "start.first_late_ns";

/// How far a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Updates sent.
    pub sent: u64,
    /// Packets that arrived at the role that is furthest towards the server.
    pub received: u64,
    /// Attempts of the workers to send that the kernel or a card refused.
    pub refused: u64,
    /// Frames lost outside the device.
    pub lost: u64,
    /// Frames that wait in the software device's ports, where it was last looked at.
    pub queued: u64,
    /// The latest frame since progress was last reported, in ns; 0 in virtual time.
    pub late_ns: u64,
    /// Time since the anchor.
    pub t: Time,
    /// The run in real time has ended: nothing more comes.
    pub over: bool,
}

/// What a role sent, or received, and when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RoleTally {
    /// Frames.
    pub(crate) frames: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Bytes of the last, which ends the time and has none of its own.
    pub(crate) last_bytes: u64,
    /// When the first was, and the last.
    pub(crate) first: Option<Time>,
    pub(crate) last: Time,
}

impl RoleTally {
    /// A burst that was received at `now`, of frames that are longer by `beside` on the cable.
    #[inline]
    pub(super) fn burst(&mut self, now: Time, burst: &[Frame], beside: Beside) {
        let Some(last) = burst.last() else { return };
        self.frames += burst.len() as u64;
        self.bytes += burst.iter().map(|frame| beside.with(u64::from(frame.len))).sum::<u64>();
        self.last_bytes = beside.with(u64::from(last.len));
        self.first.get_or_insert(now);
        self.last = now;
    }
}

/// By how many bytes a frame on the cable is longer than in the process, or shorter: the same for all frames of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Beside(i64);

impl Beside {
    /// Of a frame that has `len` bytes in the process.
    pub(super) fn of(on_cable: usize, len: usize) -> Self {
        Beside(on_cable as i64 - len as i64)
    }

    /// Bytes on the cable of a frame of `len` bytes, or of so many frames together.
    pub(super) fn with_all(self, len: u64, frames: u64) -> u64 {
        len.saturating_add_signed(self.0.saturating_mul(frames as i64))
    }

    /// The same of one frame.
    pub(super) fn with(self, len: u64) -> u64 {
        self.with_all(len, 1)
    }
}

/// Acknowledgements as they came to the workers' interface.
#[derive(Debug, Clone)]
pub(super) struct AckTally {
    /// Members by cluster, and the number of workers.
    members: Vec<u32>,
    workers: usize,
    /// Workers that they came to.
    seen: u64,
    /// Those whose Ethernet address is not that of their IP address.
    elsewhere: u64,
}

impl AckTally {
    pub(super) fn of(workers: &Population) -> Self {
        AckTally { members: members(workers), workers: workers.len(), seen: 0, elsewhere: 0 }
    }

    /// Counts an acknowledgement, with our addresses.
    #[inline]
    pub(super) fn count(&mut self, frame: &[u8]) {
        let to = target_ip(frame);
        if frame[..6] != mac_of(to) {
            self.elsewhere += 1;
            return;
        }
        self.seen += match group_of(to) {
            Some(cluster) => self.members.get(usize::from(cluster)).copied().map_or(0, u64::from),
            None => u64::from(worker_of(to, self.workers).is_some()),
        };
    }

    pub(super) fn add_to(&self, outcome: &mut RealOutcome) {
        outcome.acks_seen += self.seen;
        outcome.acks_elsewhere += self.elsewhere;
    }
}

/// Workers of each cluster, at first.
pub(super) fn members(workers: &Population) -> Vec<u32> {
    let mut members = vec![0; workers.clusters_ever()];
    for cluster in &workers.cluster_of {
        if let Some(own) = members.get_mut(usize::from(*cluster)) {
            *own += 1;
        }
    }
    members
}

/// How a run in real time ended.
pub(crate) struct RealOutcome {
    /// Totals.
    pub counters: Counters,
    /// The account, to be settled.
    pub ledger: Ledger,
    /// How late frames left, in ns.
    pub lateness: Histogram<u64>,
    /// The same of those that the host did not make late; none where that is not told apart.
    pub lateness_of_others: Option<Histogram<u64>>,
    /// Frames that were too late and were not sent.
    pub skipped: u64,
    /// Reasons against the run's numbers.
    pub faults: Vec<Fault>,
    /// What its reader should know.
    pub notes: Vec<Note>,
    /// What each queue did, of ends that have several.
    pub queues: Vec<QueueCounts>,
    /// Facts for the manifest.
    pub facts: Vec<(String, String)>,
    /// The user stopped it.
    pub interrupted: bool,
    /// The configured end came first.
    pub cut: bool,
    /// Updates that the workers sent.
    pub offered: Option<RoleTally>,
    /// What each end counted, by its name.
    pub frames: Vec<(String, WireCounters)>,
    /// What device and server received.
    pub tallies: Vec<(&'static str, RoleTally)>,
    /// Workers that acknowledgements are for, each apart, if each is for all of its cluster.
    pub acks_due: u64,
    /// Workers that they came to, and those that came with the Ethernet address of another.
    pub acks_seen: u64,
    pub acks_elsewhere: u64,
}

impl RealOutcome {
    pub(super) fn new(facts: Vec<(String, String)>, shared: &Shared, ledger: Ledger) -> Result<Self> {
        Ok(RealOutcome {
            counters: Counters { end_ps: shared.clock.now(), ..Counters::default() },
            ledger,
            lateness: histogram()?,
            lateness_of_others: None,
            skipped: 0,
            faults: Vec::new(),
            notes: Vec::new(),
            queues: Vec::new(),
            facts,
            interrupted: shared.stop.load(Ordering::Relaxed),
            cut: false,
            offered: None,
            frames: Vec::new(),
            tallies: Vec::new(),
            acks_due: 0,
            acks_seen: 0,
            acks_elsewhere: 0,
        })
    }

    /// What checksums of a device's frames came to.
    pub(super) fn checksums(&mut self, found: &ChecksumTally) {
        if found.wrong() > 0 {
            self.counters.device.insert(WIRES_CHECKSUMS_WRONG.to_owned(), found.wrong());
        }
        if found.unfinished() > 0 {
            self.notes.push(Note::ChecksumsUnfinished { frames: found.unfinished() });
        }
    }
}

/// A histogram of lateness in ns.
pub(super) fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LATE_MAX_NS, 3)
        .map_err(|e| Error::Invalid(format!("a histogram of lateness cannot be made: {e}")))
}

/// What workers achieved in the time between their first frame and their last.
pub(super) fn rate(tally: RoleTally, outcome: &mut RealOutcome) {
    outcome.offered = Some(tally);
    let RoleTally { frames: sent, bytes, last_bytes, first, last } = tally;
    let (bytes, span) = (bytes - last_bytes, last - first.unwrap_or(last));
    let seconds = span as f64 / 1e12;
    if seconds > 0.0 {
        // The last frame ends the time and has none of its own: `bytes` are those of the others.
        let (packets, bits) = ((sent - 1) as f64 / seconds, bytes as f64 * 8.0 / seconds);
        outcome.facts.push(("rate.achieved".into(), format!("{packets:.1} packets/s, {bits:.0} bit/s")));
    }
}

/// How late the first frame left: what senders that begin together are compared by.
pub(super) fn first_late(late: Option<Time>, outcome: &mut RealOutcome) {
    outcome.facts.extend(late.map(|late| (FIRST_LATE.to_owned(), (late / NS).to_string())));
}

/// What a wire has to tell, and what it lost.
pub(super) fn lost(name: &str, wire: &mut dyn Wire, outcome: &mut RealOutcome) {
    outcome.facts.extend(wire.notes());
    tell_lost(name, wire.counters(), outcome);
}

/// The same of what an end counted.
pub(super) fn tell_lost(name: &str, counters: WireCounters, outcome: &mut RealOutcome) {
    outcome.frames.push((name.to_owned(), counters));
    outcome.facts.push((
        format!("frames.{name}"),
        format!(
            "sent {}, received {}, dropped on the way out {}, dropped before they were read {}",
            counters.sent, counters.received, counters.send_dropped, counters.receive_dropped
        ),
    ));
    if counters.receive_dropped + counters.send_dropped > 0 {
        let (out, before_read) = (counters.send_dropped, counters.receive_dropped);
        outcome.faults.push(Fault::FramesLost { end: name.to_owned(), out, before_read });
    }
}
