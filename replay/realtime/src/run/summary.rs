//! A run in real time in one line: what its process sent and received.

use std::fmt;

use pktgen_core::time::{NS, Time};

use crate::driver::real_time::RealOutcome;

/// What one process sent and received.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Frames that each end sent and received, by the end's name.
    pub ends: Vec<(String, u64, u64)>,
    /// Updates that the workers sent, their bytes, and the time from the first to the last.
    pub updates: Option<(u64, u64, Time)>,
    /// Mean rate that the workers achieved, in packets/s.
    pub achieved_pps: Option<f64>,
    /// How late updates left, in ns: median, 99 %, latest; none without deadlines.
    pub late_ns: Option<[u64; 3]>,
    /// Workers that react received nothing.
    pub unanswered: bool,
}

impl Summary {
    /// Of a run whose workers react to what comes back, or do not; `paced` by deadlines, or not.
    pub(super) fn of(outcome: &RealOutcome, reacts: bool, paced: bool) -> Self {
        let late = &outcome.lateness;
        let workers = outcome.frames.iter().find(|(end, _)| end == "workers");
        Summary {
            ends: outcome.frames.iter().map(|(end, own)| (end.clone(), own.sent, own.received)).collect(),
            updates: outcome.offered,
            achieved_pps: outcome.achieved_pps,
            late_ns: (paced && !late.is_empty())
                .then(|| [late.value_at_quantile(0.5), late.value_at_quantile(0.99), late.max()]),
            unanswered: reacts && workers.is_some_and(|(_, own)| own.sent > 0 && own.received == 0),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends =
            self.ends.iter().map(|(end, sent, received)| format!("{end}: sent {sent} frames, received {received}"));
        write!(f, "{}", ends.collect::<Vec<_>>().join("; "))?;
        if let Some((updates, bytes, span)) = self.updates {
            write!(f, "; {updates} updates of {bytes} B in {:.3} s", span as f64 / 1e12)?;
        }
        if let (Some(pps), Some((updates @ 1.., bytes, _))) = (self.achieved_pps, self.updates) {
            let mbps = pps * bytes as f64 * 8.0 / updates as f64 / 1e6;
            write!(f, " ({pps:.0} packets/s, {mbps:.3} Mbit/s)")?;
        }
        if let Some([median, most, latest]) = self.late_ns.map(|late| late.map(|ns| ns as f64 * NS as f64 / 1e6)) {
            write!(f, "; late by {median:.1} us (median), {most:.1} us (99 %), {latest:.1} us (most)")?;
        }
        if self.unanswered {
            write!(f, "; no answer came: are the device and the server running, and do frames come back?")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_was_sent_how_fast_and_how_late() {
        let whole = Summary {
            ends: vec![("workers".into(), 11, 7)],
            updates: Some((11, 1100, 1_000_000_000_000)),
            achieved_pps: Some(10.0),
            late_ns: Some([1500, 20_000, 3_000_000]),
            unanswered: false,
        };
        assert_eq!(
            whole.to_string(),
            "workers: sent 11 frames, received 7; 11 updates of 1100 B in 1.000 s (10 packets/s, 0.008 Mbit/s); late by 1.5 us \
             (median), 20.0 us (99 %), 3000.0 us (most)"
        );
        let device = [("device.down".to_owned(), 7, 11), ("device.up".to_owned(), 11, 7)];
        let part = Summary { ends: device.into(), updates: None, achieved_pps: None, late_ns: None, unanswered: false };
        assert_eq!(part.to_string(), "device.down: sent 7 frames, received 11; device.up: sent 11 frames, received 7");
        let alone = Summary { ends: vec![("workers".into(), 4, 0)], unanswered: true, ..part };
        assert!(alone.to_string().starts_with("workers: sent 4 frames, received 0; no answer came"), "{alone}");
    }
}
