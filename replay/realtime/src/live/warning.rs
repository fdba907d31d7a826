//! Warnings about the last second.

use std::fmt;

use pktgen_core::time::{SECOND, Time};

use super::ClusterTotals;
use crate::driver::real_time::Progress;
use crate::target::program::Expected;

/// Minimum number of updates or packets in a window for a warning.
const ENOUGH: u64 = 100;

/// A deviation of a cluster from expectations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warning {
    /// Number of the cluster.
    pub cluster: u16,
    /// The kind of deviation.
    pub what: WarningKind,
    /// Updates sent in the last window.
    pub sent: u64,
    /// Packets received in the last window.
    pub packets: u64,
    /// Length of the window.
    pub length: Time,
}

/// Kinds of warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarningKind {
    /// Updates are sent, and nothing arrives.
    Silence,
    /// Packets arrive with one update each, although aggregation was expected.
    NoAggregation,
}

impl Warning {
    /// Returns the warning about a cluster behind a device with the expected effect `expected`, for a window of this length.
    pub(super) fn of(expected: Expected, cluster: u16, last: &ClusterTotals, length: Time) -> Option<Self> {
        let ClusterTotals { sent, packets, updates, .. } = *last;
        let single = packets >= ENOUGH && updates == packets;
        // A tenth may still be under way.
        let missing = sent - sent / 10 > updates;
        let what = match expected {
            Expected::Elsewhere | Expected::SumsByKey => return None,
            _ if sent >= ENOUGH && packets == 0 => WarningKind::Silence,
            Expected::MergesUnderLoad if single && missing => WarningKind::NoAggregation,
            Expected::Sums(2..) if single => WarningKind::NoAggregation,
            _ => return None,
        };
        Some(Warning { cluster, what, sent, packets, length })
    }
}

/// A window in which the workers' wire accepted nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Refused attempts to send.
    pub attempts: u64,
    /// Its length.
    pub length: Time,
}

impl Refused {
    /// Returns the refusal between two looks at a run, if frames were due and none was accepted.
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
