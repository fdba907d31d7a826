//! Results of synchronous training: sums that reached no worker or only some, late or repeated ones.

use std::collections::{BTreeMap, HashMap};

use pktgen_core::record::PacketId;

use crate::cause::{
    COPIES, DEVICE_STOPPED, LOCKSTEP_BROKEN, RESULTS_LOST, RESULTS_TO_SOME, RESULTS_UNLIKE, RESULTS_UNMATCHED,
};
use crate::evidence::Evidence;
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::frame::Quick;
use crate::hosts::is_counted;
use crate::links::LostOnLinks;

/// Minimum number of results of others before a worker without any is conspicuous.
const FEW: u64 = 8;

/// Number of later sums that show that an earlier one is lost.
const OVERTAKEN: usize = 2;

/// A block: its contributions, the time of the last one, and the workers with its result.
#[derive(Default, Clone)]
struct Block {
    contributions: u32,
    last_ps: i64,
    results: u32,
    /// Minimum and maximum number of sources of workers' first results; `None` without results.
    sources: Option<(u16, u16)>,
}

/// Finds out why results are missing or too many; `came` frames with results are in the capture of the workers, if there is one.
pub(crate) fn look(evidence: &Evidence, came: u64, on_links: LostOnLinks, found: &mut Vec<CauseFound>) {
    let workers = evidence.manifest.clusters.len().max(1) as u32;
    let (sent, results) = (&evidence.sent, &evidence.results);
    let mut blocks: HashMap<u32, Block, Quick> = HashMap::default();
    let mut repeats = 0;
    for (packet, t) in sent.packet.iter().zip(&sent.sent_ps) {
        let Some(t) = *t else { continue };
        if packet.attempt() > 0 {
            repeats += 1;
            continue;
        }
        let block = blocks.entry(packet.seq()).or_default();
        block.contributions += 1;
        block.last_ps = block.last_ps.max(t);
    }
    let mut of_worker: BTreeMap<u32, u64> = (0..workers).map(|worker| (worker, 0)).collect();
    let mut again = 0u64;
    for row in 0..results.seq.len() {
        if results.again[row] {
            again += 1;
            continue;
        }
        *of_worker.entry(results.worker[row]).or_default() += 1;
        let block = blocks.entry(results.seq[row]).or_default();
        block.results += 1;
        let (own, (least, most)) = (results.count[row], block.sources.unwrap_or((u16::MAX, 0)));
        block.sources = Some((least.min(own), most.max(own)));
    }
    // Results that differ from the first copy are not copies.
    let unlike = evidence.unlike();
    if let Some(unlike) = unlike {
        let says = format!(
            "{} results differ from the first copy of their sum; the first at worker {}, block {}",
            unlike.results, unlike.worker, unlike.block
        );
        let proofs = vec![EvidenceItem::new("manifest.json, validity", says)];
        found.push(CauseFound::new(&RESULTS_UNLIKE, Certainty::Certain, unlike.results, proofs));
    }
    let again = again.saturating_sub(unlike.map_or(0, |unlike| unlike.results));
    // If results differ from their first copy, they may belong to other sums, and so may equal ones.
    let certainty = if unlike.is_some() { Certainty::Possible } else { Certainty::Certain };
    found.extend(copies(evidence, &blocks, (again, repeats)).map(|copies| CauseFound { certainty, ..copies }));
    found.extend(unequal(&blocks));
    let most = of_worker.values().max().copied().unwrap_or(0);
    let without: Vec<_> = of_worker.iter().filter(|(_, n)| **n == 0).map(|(worker, _)| worker.to_string()).collect();
    if most >= FEW && !without.is_empty() {
        let says = format!("worker {} had no result, and others up to {most}", without.join(", "));
        let proofs = vec![
            EvidenceItem::new("results.parquet", says),
            EvidenceItem::new("device table", "the members of the multicast group"),
        ];
        found.push(CauseFound::new(&RESULTS_TO_SOME, Certainty::Certain, most * without.len() as u64, proofs));
        return;
    }
    // A device that ended did not lose what it no longer answered.
    if found.iter().all(|found| found.cause != &LOCKSTEP_BROKEN) {
        missing(&blocks, workers, on_links, found);
    }
    let late = late_repeats(evidence, &blocks, workers, found);
    of_repeats(evidence, (late, again.min(late)), on_links, found);
    // Results of blocks without contributions belong to other sums or contain a wrong number.
    let odd: u32 = blocks.values().filter(|block| block.contributions == 0).map(|block| block.results).sum();
    unmatched(evidence, (came, u64::from(odd)), found);
}

/// Returns the contributions that request a result which came to others or not at all.
fn late_repeats(evidence: &Evidence, blocks: &HashMap<u32, Block, Quick>, workers: u32, found: &[CauseFound]) -> u64 {
    // A device that stopped answers nothing from then on: what workers request of it is not lost now and then.
    let stopped = found.iter().any(|found| found.cause == &DEVICE_STOPPED && found.certainty > Certainty::Possible);
    // A worker that repeats before all have contributed does not request a lost result.
    let late = |(packet, t): &(&PacketId, &Option<i64>)| {
        packet.attempt() > 0
            && blocks
                .get(&packet.seq())
                .is_some_and(|block| t.is_some_and(|t| t > block.last_ps) && !(stopped && block.results < workers))
    };
    evidence.sent.packet.iter().zip(&evidence.sent.sent_ps).filter(late).count() as u64
}

/// Finds results that came `again` without a reason, given the number of repeated contributions.
fn copies(
    evidence: &Evidence,
    blocks: &HashMap<u32, Block, Quick>,
    (again, repeats): (u64, u64),
) -> Option<CauseFound> {
    let workers = evidence.manifest.clusters.len().max(1) as u64;
    // A server that answers a repeated contribution answers all workers (ATP §3.2).
    let resent = evidence.manifest.counters.device.get("server.results_resent").copied().unwrap_or(0);
    let reasons = repeats.max(resent * workers);
    if again <= reasons {
        return None;
    }
    // A contribution after a partial result reopens its block (Trio-ML §5), which times out, too, and gives another
    // result for every worker. It may have been sent before that result arrived.
    let late = late_contributions(evidence);
    let aged: u64 =
        blocks.values().filter_map(|block| block.sources).map(|(least, _)| workers.saturating_sub(least.into())).sum();
    let without = again.saturating_sub(reasons + late.max(aged) * workers);
    (without > 0).then(|| {
        let says = format!(
            "{again} results came again; {repeats} contributions had been repeated, {late} left after a result of their block had come, and partial \
             results lacked {aged}"
        );
        CauseFound::new(&COPIES, Certainty::Certain, without, vec![EvidenceItem::new("results.parquet", says)])
    })
}

/// Finds blocks whose first results have different numbers of sources at different workers: the sources of the smaller
/// one were left out of the other.
fn unequal(blocks: &HashMap<u32, Block, Quick>) -> Option<CauseFound> {
    let differs = |block: &&Block| block.sources.is_some_and(|(least, most)| least < most);
    let odd = blocks.values().filter(differs).count() as u64;
    let first = blocks.iter().filter(|(_, block)| differs(block)).min_by_key(|(seq, _)| **seq)?;
    let (least, most) = first.1.sources?;
    // A partial result may be lost occasionally.
    (odd > FEW.max(blocks.len() as u64 / 20)).then(|| {
        let says = format!(
            "{odd} of {} sums came with different numbers of sources to different workers first; in block {} with {least} and {most}",
            blocks.len(),
            first.0
        );
        CauseFound::new(&RESULTS_TO_SOME, Certainty::Likely, odd, vec![EvidenceItem::new("results.parquet, count", says)])
    })
}

/// Returns the number of contributions sent after a result of their block had reached some worker.
fn late_contributions(evidence: &Evidence) -> u64 {
    let mut first: HashMap<u32, i64, Quick> = HashMap::default();
    for (seq, t) in evidence.results.seq.iter().zip(&evidence.results.recv_ps) {
        first.entry(*seq).and_modify(|known| *known = (*known).min(*t)).or_insert(*t);
    }
    let sent = evidence.sent.packet.iter().zip(&evidence.sent.sent_ps);
    let is_late = |(packet, t): &(&PacketId, &Option<i64>)| {
        packet.attempt() == 0 && t.is_some_and(|t| first.get(&packet.seq()).is_some_and(|first| t > *first))
    };
    sent.filter(is_late).count() as u64
}

/// Finds sums that arrived but that no worker could accept: they are not lost. `came` frames are in the capture, `odd`
/// results belong to blocks without contributions.
fn unmatched(evidence: &Evidence, (came, odd): (u64, u64), found: &mut Vec<CauseFound>) {
    let workers = evidence.manifest.clusters.len().max(1) as u64;
    // Each accepted frame is for one worker or for all.
    let taken = evidence.results.seq.len() as u64;
    let frames = evidence.manifest.counters.foreign.max(came.saturating_sub(taken)).max(odd.div_ceil(workers));
    let lost = [&RESULTS_LOST, &DEVICE_STOPPED];
    let explains = found.iter().filter(|found| lost.contains(&found.cause)).map(|found| found.explains).max();
    // One frame may be for all workers.
    let Some(explains) = explains.filter(|lost| frames > 0 && frames * workers * 2 >= *lost) else { return };
    // Frames on a cable may belong to others; in virtual time, all are the device's.
    let certainty = if evidence.is_real() { Certainty::Likely } else { Certainty::Certain };
    found
        .iter_mut()
        .filter(|found| lost.contains(&found.cause))
        .for_each(|found| found.certainty = Certainty::Possible);
    let says =
        format!("{frames} frames came that match no update or result of the run, and {explains} results did not");
    let proofs = vec![EvidenceItem::new("manifest.json, counters.foreign; tap of the workers", says)];
    found.push(CauseFound::new(&RESULTS_UNMATCHED, certainty, explains, proofs));
}

/// Finds blocks to which all contributed and whose result reached no worker or not all.
fn missing(blocks: &HashMap<u32, Block, Quick>, workers: u32, on_links: LostOnLinks, found: &mut Vec<CauseFound>) {
    let complete = || blocks.iter().filter(|(_, block)| block.contributions >= workers && block.results < workers);
    let all = complete().count() as u64;
    if all == 0 || is_counted(found, all, on_links) {
        return;
    }
    // A device processes frames in order: a sum overtaken by later ones is lost, but where it stops, nothing is.
    let mut answered: Vec<i64> =
        blocks.values().filter(|block| block.results >= workers).map(|block| block.last_ps).collect();
    answered.sort_unstable();
    let overtaken = |block: &Block| answered.len() - answered.partition_point(|t| *t <= block.last_ps) >= OVERTAKEN;
    let early = complete().filter(|(_, block)| overtaken(block)).count() as u64;
    let first = complete().min_by_key(|(seq, block)| (block.last_ps, **seq)).map_or(0, |(seq, _)| *seq);
    let partly = complete().filter(|(_, block)| block.results > 0).count();
    let says = format!(
        "{all} sums to which all {workers} workers contributed came to nobody or not to all ({partly}); the first is block {first}; {early} of them were complete before others that came"
    );
    let proofs = vec![EvidenceItem::new("sent.parquet, results.parquet", says)];
    match (early, all) {
        (0, 4..) => found.push(CauseFound::new(&DEVICE_STOPPED, Certainty::Likely, all * u64::from(workers), proofs)),
        (0, _) => {
            found.push(CauseFound::new(&RESULTS_LOST, Certainty::Possible, all * u64::from(workers), proofs.clone()));
            found.push(CauseFound::new(&DEVICE_STOPPED, Certainty::Possible, all * u64::from(workers), proofs));
        }
        _ => found.push(CauseFound::new(&RESULTS_LOST, Certainty::Likely, all * u64::from(workers), proofs)),
    }
}

/// Finds contributions that workers had to repeat. An unnecessary repetition gets a second result.
fn of_repeats(evidence: &Evidence, (repeats, again): (u64, u64), on_links: LostOnLinks, found: &mut Vec<CauseFound>) {
    let needed = repeats.saturating_sub(again);
    if needed >= 3 && !on_links.may_explain(needed) && !found.iter().any(|found| found.cause == &RESULTS_LOST) {
        let says = format!("{repeats} contributions were sent again; {again} of them had been in a result already");
        // With a server, workers also repeat what was overtaken (ATP §3.2).
        let certainty = if evidence.interface("server").is_some() { Certainty::Possible } else { Certainty::Likely };
        found.push(CauseFound::new(
            &RESULTS_LOST,
            certainty,
            needed,
            vec![EvidenceItem::new("sent.parquet, attempt", says)],
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::manifest;

    #[test]
    fn what_workers_request_of_a_device_that_stopped_is_not_lost_now_and_then() {
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest(&[0, 0]));
        for (seq, attempt) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            evidence.sent.packet.push(PacketId::new(0, seq, attempt));
            evidence.sent.sent_ps.push(Some(10 + 10 * i64::from(attempt)));
        }
        let block = |results| Block { contributions: 2, last_ps: 10, results, sources: None };
        let blocks = [(0, block(2)), (1, block(0))].into_iter().collect();
        assert_eq!(late_repeats(&evidence, &blocks, 2, &[]), 2);
        let stopped = |certainty| [CauseFound::new(&DEVICE_STOPPED, certainty, 2, Vec::new())];
        assert_eq!(late_repeats(&evidence, &blocks, 2, &stopped(Certainty::Possible)), 2);
        assert_eq!(late_repeats(&evidence, &blocks, 2, &stopped(Certainty::Likely)), 1);
    }
}
