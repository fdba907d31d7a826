//! Summary of a run in real time, one line per role: traffic of its process.

use std::fmt;

use pktgen_core::time::{NS, SECOND};
use serde::Serialize;

use crate::capture::lateness::by_host;
use crate::driver::real_time::{RealOutcome, RoleTally};

/// Traffic of the roles of one process.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// In the order of the frames' path.
    pub roles: Vec<RoleSummary>,
    /// Whether workers that react received nothing.
    pub unanswered: bool,
}

/// Traffic of one role. None: unknown, or from too few frames.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoleSummary {
    /// Workers, device or server.
    pub role: &'static str,
    /// Frames of any kind that its ends sent.
    pub frames_sent: u64,
    /// Frames of any kind that its ends received.
    pub frames_received: u64,
    /// Basis of the following values: updates that workers sent, frames that a device received from the workers, or
    /// that a server received.
    pub counted: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time from the first of them to the last.
    pub duration_s: Option<f64>,
    /// Their mean rate in that time.
    pub pps: Option<f64>,
    /// With a schedule: this rate in relation to the one at which they were due.
    #[serde(skip)]
    of_due: Option<f64>,
    /// The same in bits.
    pub bps: Option<f64>,
    /// Median of their lateness.
    pub late_p50_ns: Option<u64>,
    /// 99 % of their lateness.
    pub late_p99_ns: Option<u64>,
    /// Maximum lateness.
    pub late_max_ns: Option<u64>,
    /// Number of them delayed by the host.
    pub late_by_host: Option<u64>,
    /// 99 % of the lateness of the others.
    pub late_others_p99_ns: Option<u64>,
}

impl RoleSummary {
    /// The summary of this role's ends, whose names begin with the role.
    fn of(role: &'static str, tally: &RoleTally, outcome: &RealOutcome) -> Self {
        let own = || outcome.frames.iter().filter(|(end, _)| end.starts_with(role)).map(|(_, counters)| counters);
        let span = tally.first.map(|first| tally.last - first).filter(|span| *span > 0);
        let rate = |n: u64| span.map(|span| n as f64 * SECOND as f64 / span as f64);
        RoleSummary {
            role,
            frames_sent: own().map(|counters| counters.sent).sum(),
            frames_received: own().map(|counters| counters.received).sum(),
            counted: tally.frames,
            bytes: tally.bytes,
            duration_s: span.map(|span| span as f64 / SECOND as f64),
            pps: rate(tally.frames.saturating_sub(1)),
            of_due: None,
            bps: rate((tally.bytes - tally.last_bytes) * 8),
            late_p50_ns: None,
            late_p99_ns: None,
            late_max_ns: None,
            late_by_host: None,
            late_others_p99_ns: None,
        }
    }

    /// Returns the share of a requested rate that they reached; by their mean rate if they have no schedule.
    pub(super) fn share_of(&self, pps: f64) -> Option<f64> {
        self.of_due.or_else(|| Some(self.pps? / pps))
    }
}

/// Returns the rate of frames in relation to the one at which they were due, `skipped` ones included. Both are between
/// the first frame and the last: a schedule of unequal distances has another rate there than on average.
fn of_due(tally: &RoleTally, skipped: u64) -> Option<f64> {
    let RoleTally { frames, first, last, due, .. } = *tally;
    let (span, due) = (last - first?, due?);
    (span > 0 && due > 0).then(|| frames as f64 / (frames + skipped) as f64 * due as f64 / span as f64)
}

impl Summary {
    /// The summary of a run; `reacts` if its workers react to arrivals, `paced` with deadlines.
    pub(super) fn of(outcome: &RealOutcome, reacts: bool, paced: bool) -> Self {
        let mut roles = Vec::new();
        if let Some((tally, late)) = outcome.offered.as_ref().map(|tally| (tally, &outcome.lateness)) {
            let known = paced && !late.is_empty();
            let apart = outcome.lateness_of_others.as_ref().filter(|_| known).map(|others| by_host(late, others));
            roles.push(RoleSummary {
                of_due: of_due(tally, outcome.skipped),
                late_p50_ns: known.then(|| late.value_at_quantile(0.5)),
                late_p99_ns: known.then(|| late.value_at_quantile(0.99)),
                late_max_ns: known.then(|| late.max()),
                late_by_host: apart.as_ref().map(|own| own.late_by_host),
                late_others_p99_ns: apart.and_then(|own| own.others_late_ns).map(|[_, p99, _]| p99),
                ..RoleSummary::of("workers", tally, outcome)
            });
        }
        roles.extend(outcome.tallies.iter().map(|(role, tally)| RoleSummary::of(role, tally, outcome)));
        let workers = outcome.frames.iter().find(|(end, _)| end == "workers");
        let unanswered = reacts && workers.is_some_and(|(_, own)| own.sent > 0 && own.received == 0);
        Summary { roles, unanswered }
    }
}

impl Summary {
    /// Returns the workers' line.
    pub(super) fn workers(&self) -> Option<&RoleSummary> {
        self.roles.iter().find(|role| role.role == "workers")
    }
}

impl fmt::Display for RoleSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RoleSummary { role, frames_sent, frames_received, counted, bytes, .. } = self;
        let what = if *role == "workers" { "updates sent" } else { "frames heard" };
        write!(f, "{role}: sent {frames_sent} frames, received {frames_received}; {counted} {what}, {bytes} B")?;
        if let (Some(duration), Some(pps), Some(bps)) = (self.duration_s, self.pps, self.bps) {
            write!(f, " in {duration:.3} s ({pps:.0} packets/s, {:.3} Mbit/s)", bps / 1e6)?;
        }
        if let (Some(p50), Some(p99), Some(most)) = (self.late_p50_ns, self.late_p99_ns, self.late_max_ns) {
            let [p50, p99, most] = [p50, p99, most].map(|ns| ns as f64 * NS as f64 / 1e6);
            write!(f, "; late by {p50:.1} us (median), {p99:.1} us (99 %), {most:.1} us (most)")?;
        }
        if let Some(by_host) = self.late_by_host {
            write!(f, "; {by_host} late by the host")?;
        }
        if let Some(p99) = self.late_others_p99_ns {
            write!(f, ", 99 % of the others within {:.2} us", p99 as f64 / 1e3)?;
        }
        Ok(())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.roles.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))?;
        if self.unanswered {
            f.write_str("\nno answer came: are the device and the server running, and do frames come back?")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_compared_with_that_of_the_due_times() {
        // Ten frames at unequal distances.
        let due = 98_450_000;
        let in_time = RoleTally { frames: 10, first: Some(7), last: due + 7, due: Some(due), ..RoleTally::default() };
        assert_eq!(of_due(&in_time, 0), Some(1.0));
        assert_eq!(of_due(&RoleTally { last: 2 * due + 7, ..in_time }, 0), Some(0.5));
        assert_eq!(of_due(&in_time, 10), Some(0.5));
        assert_eq!([of_due(&RoleTally { due: None, ..in_time }, 0), of_due(&RoleTally::default(), 0)], [None; 2]);
    }

    #[test]
    fn a_line_says_what_a_role_moved_how_fast_and_how_late() {
        let workers = RoleSummary {
            role: "workers",
            frames_sent: 11,
            frames_received: 7,
            counted: 11,
            bytes: 1100,
            duration_s: Some(1.0),
            pps: Some(10.0),
            of_due: None,
            bps: Some(8000.0),
            late_p50_ns: Some(1500),
            late_p99_ns: Some(20_000),
            late_max_ns: Some(3_000_000),
            late_by_host: Some(2),
            late_others_p99_ns: Some(49),
        };
        let line = "workers: sent 11 frames, received 7; 11 updates sent, 1100 B in 1.000 s (10 packets/s, 0.008 Mbit/s); late by \
                    1.5 us (median), 20.0 us (99 %), 3000.0 us (most); 2 late by the host, 99 % of the others within 0.05 us";
        assert_eq!(workers.to_string(), line);
        assert_eq!(workers.share_of(20.0), Some(0.5));
        assert_eq!(RoleSummary { of_due: Some(0.9), ..workers.clone() }.share_of(20.0), Some(0.9));
        let device = RoleSummary {
            role: "device",
            duration_s: None,
            pps: None,
            bps: None,
            late_p50_ns: None,
            late_by_host: None,
            late_others_p99_ns: None,
            ..workers.clone()
        };
        assert_eq!(device.to_string(), "device: sent 11 frames, received 7; 11 frames heard, 1100 B");
        let both = Summary { roles: vec![workers, device.clone()], unanswered: true }.to_string();
        assert!(both.starts_with(&format!("{line}\n{device}\nno answer came")), "{both}");
    }
}
