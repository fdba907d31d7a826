//! The outcome and the progress of a run in real time.

use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use pktgen_core::record::{Counters, EndCounts, Fault, Note, QueueCounts, WIRES_CHECKSUMS_WRONG};
use pktgen_core::time::{NS, Time};
use pktgen_core::{Error, Result};

use super::Shared;
use super::frames::ByBuffer;
use crate::acks::AcksAtEnds;
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
    /// Acknowledgements at the server and at the workers.
    pub acks: AcksAtEnds,
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
            acks: AcksAtEnds::default(),
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
