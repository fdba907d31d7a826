//! Frames of unknown senders, by the device's own counters.

use crate::cause::WORKER_UNKNOWN;
use crate::counted::UNKNOWN;
use crate::evidence::Evidence;
use crate::finding::{CauseFound, Certainty, EvidenceItem};

/// A device refuses frames for other reasons, too.
const REFUSED: &str = "refused";

/// Adds what the device counted of unknown senders: evidence of workers that other rules found, a cause of its own, or what is not known.
pub(crate) fn look(evidence: &Evidence, found: &mut Vec<CauseFound>, unknown: &mut Vec<String>) {
    // Books of software devices have drops by reason.
    let Some((name, frames)) = counted(evidence).filter(|_| evidence.manifest.external.is_some()) else { return };
    let proof = EvidenceItem::new(format!("device counter {name}"), format!("{frames} frames of unknown senders"));
    if let Some(own) = found.iter_mut().find(|found| found.cause == &WORKER_UNKNOWN) {
        if own.proofs.iter().all(|other| other.at != proof.at) {
            own.proofs.push(proof);
        }
        return;
    }
    // Nothing but frames of the run's workers and its server reaches a device in lockstep; on a cable other hosts send, too.
    if evidence.is_lockstep() {
        let explains = frames.min(evidence.left());
        found.push(CauseFound::new(&WORKER_UNKNOWN, Certainty::Likely, explains, vec![proof]));
    } else if evidence.manifest.balance.unaccounted > 0 {
        unknown.push(format!(
            "who sent the {frames} frames that the device counts as {name}: workers of the run, or other hosts; compare its tables with pktgen \
             device plan, or {}",
            evidence.next_step(false)
        ));
    }
}

/// Returns the device's first counter of unknown senders that is above 0.
fn counted(evidence: &Evidence) -> Option<(&'static str, u64)> {
    let names = UNKNOWN.iter().filter(|name| **name != REFUSED);
    names.filter_map(|name| evidence.device(&[*name])).find(|(_, frames)| *frames > 0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pktgen_core::record::{Manifest, PacketId};

    use super::*;
    use crate::evidence::manifest;

    /// The run of a device with these counters, in which each worker sends 60 frames.
    fn run(clock: &str, counters: &[(&str, u64)]) -> Evidence {
        let mut manifest = Manifest { external: Some("profile".to_owned()), ..manifest(&[0, 0]) };
        manifest.clocks.insert("sent.t_sent_ps".to_owned(), clock.to_owned());
        manifest.counters.device.extend(counters.iter().map(|(name, frames)| ((*name).to_owned(), *frames)));
        manifest.balance.unaccounted = 60;
        let mut evidence = Evidence::of(Path::new(""), manifest);
        for (worker, seq) in (0..2).flat_map(|worker| (0..60).map(move |seq| (worker, seq))) {
            evidence.sent.packet.push(PacketId::new(worker, seq, 0));
            evidence.sent.sent_ps.push(Some(i64::from(seq)));
        }
        evidence
    }

    /// Returns the causes, and the number of undecided questions.
    fn says(evidence: &Evidence) -> (Vec<(&'static str, Certainty, u64)>, usize) {
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        look(evidence, &mut found, &mut unknown);
        (found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect(), unknown.len())
    }

    #[test]
    fn frames_of_unknown_senders_are_a_cause_or_undecided() {
        let deaf = (vec![("worker_unknown", Certainty::Likely, 60)], 0);
        let none = (vec![], 0);
        assert_eq!(says(&run("virtual", &[("device.unknown_worker", 60)])), deaf);
        // Each name counts, and 0 under another one hides nothing.
        assert_eq!(says(&run("virtual", &[("unknown_source", 0), ("unknown", 60)])), deaf);
        assert_eq!(says(&run("virtual", &[("device.unknown_worker", 0)])), none);
        assert_eq!(says(&run("virtual", &[("device.refused", 60)])), none);
        // On a cable other hosts may send, and a run that lacks nothing has no unknown worker.
        let mut real = run("host", &[("unknown_source", 60)]);
        assert_eq!(says(&real), (vec![], 1));
        real.manifest.balance.unaccounted = 0;
        assert_eq!(says(&real), none);
    }

    #[test]
    fn the_counter_is_evidence_of_workers_that_are_found() {
        let evidence = run("virtual", &[("device.unknown_worker", 60)]);
        let mut found = vec![CauseFound::new(&WORKER_UNKNOWN, Certainty::Possible, 60, Vec::new())];
        let mut unknown = Vec::new();
        (0..2).for_each(|_| look(&evidence, &mut found, &mut unknown));
        assert_eq!((found.len(), unknown.len()), (1, 0));
        assert!(found[0].proofs.len() == 1 && found[0].proofs[0].says.starts_with("60 "), "{:?}", found[0].proofs);
    }
}
