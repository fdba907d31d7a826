//! What processes counted at the sockets of an end, where no interface has counters of the run's frames.

use std::collections::BTreeMap;

use pktgen_core::record::{EndCounts, Fault, RunState, UDP_CHECKSUM_ERRORS};
use pktgen_core::units::Span;

use crate::evidence::Evidence;

/// Frames of an end, by the counts of all processes that have it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketCounts {
    /// Number of processes.
    pub(crate) processes: u64,
    /// Frames that were handed over.
    pub(crate) handed_over: u64,
    /// Frames that left.
    pub(crate) sent: u64,
    /// Frames that were read.
    pub(crate) received: u64,
    /// Frames that the sockets dropped.
    dropped: u64,
    /// Upper bound of those dropped for a wrong checksum; `None` if that was not counted, or sockets of which end dropped them is not known.
    damaged: Option<u64>,
}

impl SocketCounts {
    /// Returns the counts of an end; `None` if no process recorded any.
    pub(crate) fn of(evidence: &Evidence, end: &str) -> Option<SocketCounts> {
        let name = EndCounts::fact(end);
        let host = &evidence.manifest.host;
        let mut all: Option<SocketCounts> = None;
        for (fact, says) in host {
            // Facts of a part of the run have its name in front.
            let Some(part) = fact.strip_suffix(&name).filter(|part| part.is_empty() || part.ends_with('.')) else {
                continue;
            };
            let Ok(own) = says.parse::<EndCounts>() else { continue };
            let damaged = damaged_at(host, part, own.dropped_unread);
            let before = all.unwrap_or(SocketCounts { damaged: Some(0), ..SocketCounts::default() });
            all = Some(SocketCounts {
                processes: before.processes + 1,
                handed_over: before.handed_over + own.sent,
                // An answer of the peer's host says that nothing took a frame that had been sent.
                sent: before.sent + own.sent.saturating_sub(own.dropped_out),
                received: before.received + own.received,
                dropped: before.dropped + own.dropped_unread,
                damaged: before.damaged.zip(damaged).map(|(before, own)| before + own),
            });
        }
        all
    }

    /// Returns the frames that arrived at sockets, those with a wrong checksum only if not `whole`.
    pub(crate) fn arrived(&self, whole: bool) -> u64 {
        let damaged = if whole { self.damaged.unwrap_or(0) } else { 0 };
        self.received + self.dropped - damaged
    }
}

/// Returns how many of the frames that an end of a part `dropped` may have had a wrong checksum. A host counts the errors of all its sockets:
/// if several ends there dropped more than these, whose they are is not known.
fn damaged_at(host: &BTreeMap<String, String>, part: &str, dropped: u64) -> Option<u64> {
    let errors = errors_of(host, part)?;
    let all = dropped_beside(host, part);
    let is_known = errors == 0 || dropped == 0 || all == dropped || all <= errors;
    is_known.then(|| errors.min(dropped))
}

/// Returns the count of checksum errors of the host of a part.
fn errors_of(host: &BTreeMap<String, String>, part: &str) -> Option<u64> {
    host.get(&format!("{part}{UDP_CHECKSUM_ERRORS}"))?.parse().ok()
}

/// Returns the frames that sockets of all ends dropped on the host of a part, as far as processes there counted checksum errors.
fn dropped_beside(host: &BTreeMap<String, String>, part: &str) -> u64 {
    let boot = |part: &str| host.get(&format!("{part}clock.boot_id"));
    // Machines that are not known may be the same one.
    let is_here = |other: &str| boot(other).zip(boot(part)).is_none_or(|(other, own)| other == own);
    let dropped = |(fact, says): (&String, &String)| {
        let at = fact.find(&EndCounts::fact(""))?;
        let other = fact.get(..at).filter(|other| other.is_empty() || other.ends_with('.'))?;
        let is_counted = is_here(other) && errors_of(host, other).is_some_and(|errors| errors > 0);
        let counts = says.parse::<EndCounts>().ok().filter(|_| is_counted)?;
        Some(counts.dropped_unread)
    };
    host.iter().filter_map(dropped).sum()
}

/// Returns the frames of an end that its sockets may have dropped for a wrong checksum; `None` if that is not known.
pub(crate) fn damaged(evidence: &Evidence, end: &str) -> Option<u64> {
    SocketCounts::of(evidence, end)?.damaged
}

/// Whether frames are datagrams, of which the kernel drops those with a wrong checksum.
pub(crate) fn are_datagrams(evidence: &Evidence) -> bool {
    evidence.text("transport", "kind") == "udp"
}

/// Whether all that came was read: a process that ended early left datagrams in its sockets.
pub(crate) fn read_all(evidence: &Evidence) -> bool {
    let failed = || evidence.faults().any(|fault| matches!(fault, Fault::RoleFailed { .. } | Fault::Interrupted {}));
    evidence.manifest.state == RunState::Finished && !evidence.is_cut() && !evidence.is_killed() && !failed()
}

/// Whether a socket of the end `to` may have been closed before all frames of `from` came: its host answered that nothing takes them, or it is
/// of workers, and answers may have come after they ended.
pub(crate) fn may_have_closed(evidence: &Evidence, [from, to]: [&str; 2]) -> bool {
    let refused = |counts: SocketCounts| counts.sent < counts.handed_over;
    let is_refused = || SocketCounts::of(evidence, from).is_some_and(refused);
    are_datagrams(evidence) && (to == "workers" && !is_quick(evidence) || is_refused())
}

/// Whether rows show that frames take a small part only of the time for which workers wait for answers.
fn is_quick(evidence: &Evidence) -> bool {
    let Ok(linger) = evidence.text("transport", "linger").parse::<Span>() else { return false };
    let last_sent = evidence.sent.sent_ps.iter().flatten().max();
    let last_came = evidence.arrived.recv_ps.iter().chain(&evidence.results.recv_ps).max();
    last_sent.zip(last_came).is_some_and(|(sent, came)| came.saturating_sub(*sent) <= linger.ps() / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::manifest;

    #[test]
    fn counts_of_an_end_are_those_of_all_its_processes() {
        let mut manifest = manifest(&[0; 2]);
        let mut add = |fact: &str, says: &str| drop(manifest.host.insert(fact.to_owned(), says.to_owned()));
        let says = |sent: u64, received: u64, dropped_out: u64, dropped_unread: u64| {
            EndCounts { sent, received, dropped_out, dropped_unread }.to_string()
        };
        add("rank-0.frames.workers", &says(100, 90, 5, 8));
        add("rank-0.udp.checksum_errors", "3");
        add("rank-1.frames.workers", &says(200, 190, 0, 2));
        add("rank-1.udp.checksum_errors", "7");
        add("rank-0.clock.boot_id", "a");
        add("rank-1.clock.boot_id", "b");
        add("frames.server", &says(9, 8, 0, 1));
        add("frames.device.up", "none");
        let evidence = Evidence::of(std::path::Path::new(""), manifest);
        let workers = SocketCounts::of(&evidence, "workers").expect("counts");
        let sent = SocketCounts { processes: 2, handed_over: 300, sent: 295, ..SocketCounts::default() };
        assert_eq!(workers, SocketCounts { received: 280, dropped: 10, damaged: Some(5), ..sent });
        assert_eq!([true, false].map(|whole| workers.arrived(whole)), [285, 290]);
        let server = SocketCounts::of(&evidence, "server").expect("counts");
        assert_eq!((server.arrived(true), server.damaged), (9, None));
        assert_eq!((SocketCounts::of(&evidence, "device.up"), SocketCounts::of(&evidence, "up")), (None, None));
    }

    #[test]
    fn sockets_may_have_closed_before_late_frames_came() {
        let of = |dropped_out: u64, came_ms: i64, config: &str| {
            let mut manifest = manifest(&[0; 2]);
            manifest.config = format!("[transport]\nkind = \"udp\"\n{config}");
            let says = EndCounts { sent: 2700, received: 2700, dropped_out, dropped_unread: 0 }.to_string();
            manifest.host.insert(EndCounts::fact("device.down"), says);
            let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
            evidence.sent.sent_ps = vec![Some(0)];
            evidence.arrived.recv_ps = vec![came_ms * 1_000_000_000];
            may_have_closed(&evidence, ["device.down", "workers"])
        };
        let linger = "linger = \"200ms\"\n";
        assert!(!of(0, 5, linger) && of(3, 5, linger) && of(0, 150, linger));
        assert!(of(0, 5, "linger = \"1ms\"\n") && !of(0, 150, "linger = \"1s\"\n"));
        // Where the time is not known, no frame is known to have come early enough.
        assert!(of(0, 5, "") && of(0, 5, "linger = \"soon\"\n"));
    }

    #[test]
    fn errors_that_several_ends_of_a_host_may_have_are_of_none_for_certain() {
        let damaged = |boots: [&str; 2], errors: u64, dropped: [u64; 2]| {
            let mut manifest = manifest(&[0; 2]);
            for ((part, end), (boot, dropped)) in
                [("device", "device.down"), ("server", "server")].into_iter().zip(boots.into_iter().zip(dropped))
            {
                let says = EndCounts { sent: 0, received: 0, dropped_out: 0, dropped_unread: dropped }.to_string();
                manifest.host.insert(format!("{part}.{}", EndCounts::fact(end)), says);
                manifest.host.insert(format!("{part}.{UDP_CHECKSUM_ERRORS}"), errors.to_string());
                manifest.host.insert(format!("{part}.clock.boot_id"), boot.to_owned());
            }
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            ["device.down", "server"].map(|end| super::damaged(&evidence, end))
        };
        assert_eq!(damaged(["a", "a"], 142, [142, 100]), [None, None]);
        assert_eq!(damaged(["a", "b"], 142, [142, 100]), [Some(142), Some(100)]);
        assert_eq!(damaged(["a", "a"], 142, [142, 0]), [Some(142), Some(0)]);
        assert_eq!(damaged(["a", "a"], 142, [40, 100]), [Some(40), Some(100)]);
        assert_eq!(damaged(["a", "a"], 0, [40, 100]), [Some(0), Some(0)]);
    }
}
