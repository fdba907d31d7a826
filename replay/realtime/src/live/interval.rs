//! Statistics of intervals: what a run did between two looks, each sampled at one moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pktgen_core::time::Time;

use super::late::{LateCounts, LateLooks};

/// What this process sees of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sees {
    /// It has the workers.
    pub(crate) sends: bool,
    /// It has the software device.
    pub(crate) device: bool,
    /// It has the server.
    pub(crate) server: bool,
    /// It has workers, which get the results: there is no server.
    pub(crate) results: bool,
    /// Frames have deadlines.
    pub(crate) paced: bool,
}

impl Sees {
    /// It has the role in which deliveries end.
    pub(super) fn receives(self) -> bool {
        self.server || self.results
    }
}

/// Counts at one moment, or of the time between two. None: not known to this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveTotals {
    /// Updates that left.
    pub sent: Option<u64>,
    /// Packets that arrived at the role that is furthest towards the server.
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

/// The same before it is known whether they mean anything.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RawTotals {
    pub(super) t: Time,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) represented: u64,
    pub(super) received_bytes: u64,
    pub(super) lost: u64,
    pub(super) refused: u64,
    /// Deliveries that the others leave out.
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

    /// What a process that sees `sees` knows of it.
    pub(super) fn known(&self, sees: Sees) -> LiveTotals {
        let when = |known: bool, value: u64| known.then_some(value);
        let complete = sees.receives() && self.unread == 0;
        LiveTotals {
            sent: when(sees.sends, self.sent),
            received: when(complete || (sees.device && !sees.sends && !sees.server), self.received),
            represented: when(complete, self.represented),
            received_bytes: when(complete, self.received_bytes),
            lost: when(sees.device || sees.server, self.lost),
            refused: when(sees.sends, self.refused),
        }
    }
}

/// What a launched device counted since it was ready, and when that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Since the anchor.
    pub t: Time,
    /// By name.
    pub counts: BTreeMap<String, u64>,
}

/// Where the latest of them are kept.
pub(crate) type DeviceSlot = Arc<Mutex<Option<DeviceCounts>>>;

/// What a run did between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsInterval {
    /// It begins, since the anchor.
    pub begin: Time,
    /// It ends: the moment of `total`.
    pub end: Time,
    /// It is the run's last.
    pub last: bool,
    /// What was counted in it.
    pub during: LiveTotals,
    /// What was counted since the run began, or since that was reset.
    pub total: LiveTotals,
    /// How late its frames left, in ns: median, 99 %, latest; none without deadlines, or without frames.
    pub late_ns: Option<[u64; 3]>,
    /// Deliveries that were not looked at in time.
    pub unread: Option<u64>,
    /// Of a launched device that counts.
    pub device: Option<DeviceCounts>,
    /// Frames that waited in the software device's ports when they were last counted.
    pub queued: Option<u64>,
}

/// What a look at a run found.
pub(super) struct Look<'a> {
    /// When.
    pub(super) t: Time,
    /// The run has ended.
    pub(super) over: bool,
    /// Frames that wait in the software device's ports.
    pub(super) queued: u64,
    pub(super) totals: &'a RawTotals,
    /// What was counted when totals were reset.
    pub(super) base: &'a RawTotals,
    pub(super) sees: Sees,
    pub(super) late: &'a LateCounts,
}

/// Cuts a run into intervals.
pub(super) struct Intervals {
    every: Time,
    /// When the present one is to end.
    next: Time,
    before: RawTotals,
    looks: LateLooks,
    ended: bool,
}

impl Intervals {
    pub(super) fn new(every: Time) -> Self {
        Intervals { every, next: every, before: RawTotals::default(), looks: LateLooks::default(), ended: false }
    }

    /// The interval that is over by now.
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
