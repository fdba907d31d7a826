//! Statistics of intervals: the activity of a run between two looks, each sampled at one moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pktgen_core::time::Time;

use super::late::{LateCounts, LateLooks};

/// The roles of a run in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sees {
    /// Whether it has the workers.
    pub(crate) sends: bool,
    /// Whether it has the software device.
    pub(crate) device: bool,
    /// Whether it has the server.
    pub(crate) server: bool,
    /// Whether it has workers that receive the results.
    pub(crate) results: bool,
    /// Whether frames have deadlines.
    pub(crate) paced: bool,
    /// Whether packets say how many updates they represent.
    pub(crate) counted: bool,
    /// Whether updates carry generation times, so that there are ages.
    pub(crate) dated: bool,
}

impl Sees {
    /// Returns whether it has a role in which deliveries end.
    pub(super) fn receives(self) -> bool {
        self.server || self.results
    }
}

/// Counts at one moment, or between two. None: not known to this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveTotals {
    /// Updates that left.
    pub sent: Option<u64>,
    /// Packets that arrived at their destination, or at the role closest to the server.
    pub received: Option<u64>,
    /// Updates that they represent.
    pub represented: Option<u64>,
    /// Their bytes.
    pub received_bytes: Option<u64>,
    /// Frames lost outside the device.
    pub lost: Option<u64>,
    /// Attempts to send that the kernel or a card refused.
    pub refused: Option<u64>,
}

/// Counts before it is determined which of them are known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RawTotals {
    pub(super) t: Time,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) represented: u64,
    pub(super) received_bytes: u64,
    pub(super) lost: u64,
    pub(super) refused: u64,
    /// Deliveries that the other counts exclude.
    pub(super) unread: u64,
}

impl RawTotals {
    pub(super) fn since(&self, before: &RawTotals) -> RawTotals {
        RawTotals {
            t: self.t - before.t,
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
            represented: self.represented.saturating_sub(before.represented),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            lost: self.lost.saturating_sub(before.lost),
            refused: self.refused.saturating_sub(before.refused),
            unread: self.unread.saturating_sub(before.unread),
        }
    }

    /// Returns the counts known to a process that sees `sees`.
    pub(super) fn known(&self, sees: Sees) -> LiveTotals {
        let when = |known: bool, value: u64| known.then_some(value);
        let complete = sees.receives() && self.unread == 0;
        LiveTotals {
            sent: when(sees.sends, self.sent),
            received: when(complete || (sees.device && !sees.sends && !sees.server), self.received),
            represented: when(complete && sees.counted, self.represented),
            received_bytes: when(complete, self.received_bytes),
            lost: when(sees.device || sees.server, self.lost),
            refused: when(sees.sends, self.refused),
        }
    }
}

/// Counts of a launched device since it was ready, and the time of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Time since the anchor.
    pub t: Time,
    /// Counts by name.
    pub counts: BTreeMap<String, u64>,
}

/// Storage of the latest device counts.
pub(crate) type DeviceSlot = Arc<Mutex<Option<DeviceCounts>>>;

/// The activity of a run between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsInterval {
    /// Its beginning, since the anchor.
    pub begin: Time,
    /// Its end: the moment of `total`.
    pub end: Time,
    /// Whether it is the run's last.
    pub last: bool,
    /// Counts in the interval.
    pub during: LiveTotals,
    /// Counts since the beginning of the run, or since the last reset.
    pub total: LiveTotals,
    /// Lateness of its frames, in ns: median, 99 %, maximum; none without deadlines, or without frames.
    pub late_ns: Option<[u64; 3]>,
    /// Deliveries that were not read in time.
    pub unread: Option<u64>,
    /// Counts of a launched device that reports them.
    pub device: Option<DeviceCounts>,
    /// Frames waiting in the software device's ports at the last count.
    pub queued: Option<u64>,
}

/// The state of a run at a look.
pub(super) struct Look<'a> {
    /// Time of the look.
    pub(super) t: Time,
    /// Whether the run has ended.
    pub(super) over: bool,
    /// Frames waiting in the software device's ports.
    pub(super) queued: u64,
    pub(super) totals: &'a RawTotals,
    /// Counts at the last reset.
    pub(super) base: &'a RawTotals,
    pub(super) sees: Sees,
    pub(super) late: &'a LateCounts,
}

/// Divides a run into intervals.
pub(super) struct Intervals {
    every: Time,
    /// Planned end of the current interval.
    next: Time,
    before: RawTotals,
    looks: LateLooks,
    ended: bool,
}

impl Intervals {
    pub(super) fn new(every: Time) -> Self {
        Intervals { every, next: every, before: RawTotals::default(), looks: LateLooks::default(), ended: false }
    }

    /// Returns the interval that is complete by now.
    pub(super) fn turn(&mut self, look: &Look, device: impl FnOnce() -> Option<DeviceCounts>) -> Option<StatsInterval> {
        let Look { t, over, queued, totals: raw, base, sees, late } = *look;
        let due = t >= self.next && raw.t > self.before.t;
        if self.ended || !(due || over) {
            return None;
        }
        self.ended = over;
        self.next = (t / self.every + 1) * self.every;
        let interval = StatsInterval {
            begin: self.before.t,
            end: raw.t,
            last: over,
            during: raw.since(&self.before).known(sees),
            total: raw.since(base).known(sees),
            late_ns: self.looks.since(late).filter(|_| sees.sends && sees.paced),
            unread: sees.receives().then_some(raw.unread - self.before.unread),
            device: device(),
            queued: sees.device.then_some(queued),
        };
        self.before = *raw;
        Some(interval)
    }
}
