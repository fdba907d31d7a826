//! The outcome and the progress of a run in real time.

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

/// Maximum lateness that the histogram distinguishes.
const LATE_MAX_NS: u64 = 3_600_000_000_000;

/// The fact with the lateness of the workers' first frame, in ns.
pub(crate) const FIRST_LATE: &str = "start.first_late_ns";

/// The progress of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Updates sent.
    pub sent: u64,
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
}

impl RoleTally {
    /// Records a burst received at `now`, of frames that are longer on the cable by `beside`.
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

/// Excess length of a frame on the cable over that in the process, possibly negative: the same for all frames of one kind.
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

/// Acknowledgements at the workers' interface.
#[derive(Debug, Clone)]
pub(super) struct AckTally {
    /// Number of members by cluster, and number of workers.
    members: Vec<u32>,
    workers: usize,
    /// Number of workers reached.
    seen: u64,
    /// Acknowledgements whose Ethernet address does not match their IP address.
    elsewhere: u64,
}

impl AckTally {
    pub(super) fn of(workers: &Population) -> Self {
        AckTally { members: members(workers), workers: workers.len(), seen: 0, elsewhere: 0 }
    }

    /// Counts an acknowledgement with our addresses.
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
    /// Workers addressed by acknowledgements, summed over acknowledgements, if each is for a whole cluster.
    pub acks_due: u64,
    /// Workers reached by them, and those that arrived with a foreign Ethernet address.
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
    let RoleTally { frames: sent, bytes, last_bytes, first, last } = tally;
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
