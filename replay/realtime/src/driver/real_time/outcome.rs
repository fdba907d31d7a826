//! What a run in real time came to, and how far it is.

use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use pktgen_core::record::{Counters, Fault, Note, QueueCounts};
use pktgen_core::time::{NS, Time};
use pktgen_core::{Error, Result};

use super::Shared;
use crate::frame::Frame;
use crate::ledger::Ledger;
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
    /// A burst that was received at `now`.
    #[inline]
    pub(super) fn burst(&mut self, now: Time, burst: &[Frame]) {
        let Some(last) = burst.last() else { return };
        self.frames += burst.len() as u64;
        self.bytes += burst.iter().map(|frame| u64::from(frame.len)).sum::<u64>();
        self.last_bytes = u64::from(last.len);
        self.first.get_or_insert(now);
        self.last = now;
    }
}

/// How a run in real time ended.
pub(crate) struct RealOutcome {
    /// Totals.
    pub counters: Counters,
    /// The account, to be settled.
    pub ledger: Ledger,
    /// How late frames left, in ns.
    pub lateness: Histogram<u64>,
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
}

impl RealOutcome {
    pub(super) fn new(facts: Vec<(String, String)>, shared: &Shared, ledger: Ledger) -> Result<Self> {
        Ok(RealOutcome {
            counters: Counters { end_ps: shared.clock.now(), ..Counters::default() },
            ledger,
            lateness: histogram()?,
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
        })
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
