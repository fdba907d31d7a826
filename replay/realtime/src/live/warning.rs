//! What a look at the last second gives reason to say.

use std::fmt;

use pktgen_core::time::{SECOND, Time};

use super::ClusterTotals;
use crate::driver::real_time::Progress;
use crate::target::program::Expected;

/// Fewer updates or packets than this in a window say nothing.
const ENOUGH: u64 = 100;

/// What is not as expected in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warning {
    /// Its number.
    pub cluster: u16,
    /// What is wrong.
    pub what: WarningKind,
    /// Of the last window: updates sent, packets that arrived, and its length.
    pub sent: u64,
    /// See above.
    pub packets: u64,
    /// See above.
    pub length: Time,
}

/// Kinds of warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarningKind {
    /// Updates are sent, and nothing comes.
    Silence,
    /// Packets come, each of one update, where there was something to aggregate.
    NoAggregation,
}

impl Warning {
    /// Returns what is wrong with a cluster behind a device of which `expected` is known, in a window of this length.
    pub(super) fn of(expected: Expected, cluster: u16, last: &ClusterTotals, length: Time) -> Option<Self> {
        let ClusterTotals { sent, packets, updates, .. } = *last;
        let single = packets >= ENOUGH && updates == packets;
        // A tenth may still be on its way.
        let missing = sent - sent / 10 > updates;
        let what = match expected {
            Expected::Elsewhere => return None,
            _ if sent >= ENOUGH && packets == 0 => WarningKind::Silence,
            Expected::MergesUnderLoad if single && missing => WarningKind::NoAggregation,
            Expected::Sums(2..) if single => WarningKind::NoAggregation,
            _ => return None,
        };
        Some(Warning { cluster, what, sent, packets, length })
    }
}

/// A window in which the workers' wire took nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Attempts to send that were refused.
    pub attempts: u64,
    /// Its length.
    pub length: Time,
}

impl Refused {
    /// Between two looks at a run, if frames were due and none was taken.
    pub(super) fn between(before: &Progress, now: &Progress) -> Option<Self> {
        let attempts = now.refused.saturating_sub(before.refused);
        (attempts > 0 && now.sent == before.sent).then_some(Refused { attempts, length: now.t - before.t })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.length as f64 / SECOND as f64;
        write!(
            f,
            "nothing leaves: the workers' wire refused {} attempts to send in {seconds:.1} s and took no frame; check cable, carrier and MTU",
            self.attempts
        )
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { cluster, what, sent, packets, length } = self;
        let seconds = *length as f64 / SECOND as f64;
        match what {
            WarningKind::Silence => write!(
                f,
                "cluster {cluster}: nothing arrives: {sent} updates were sent in {seconds:.1} s; are the cables, addresses and the \
                 device's entries right?"
            ),
            WarningKind::NoAggregation => write!(
                f,
                "cluster {cluster}: nothing is being aggregated: {packets} packets arrived in {seconds:.1} s, each of one update, \
                 while {sent} were sent; does the device know its workers as one cluster?"
            ),
        }
    }
}
