//! Results of synchronous training: sums that reached no worker or only some, late or repeated ones.

use std::collections::{BTreeMap, HashMap, HashSet};

use pktgen_core::record::PacketId;

use crate::cause::{
    ACKS_LOST, COPIES, DEVICE_ENDED, DEVICE_STOPPED, LOCKSTEP_BROKEN, NO_CARRIER, RESULTS_LOST, RESULTS_TO_SOME,
    RESULTS_UNLIKE, RESULTS_UNMATCHED, WORKER_UNKNOWN,
};
use crate::evidence::Evidence;
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::frame::Quick;
use crate::hosts::{dropped_on_way_back, is_counted};
use crate::links::LostOnLinks;

/// Minimum number of results of others before a worker without any is conspicuous.
const FEW: u64 = 8;

/// Maximum number of results of a server that may be under way when a run ends.
const UNDER_WAY: u64 = 8;

/// Number of later sums that show that an earlier one is lost.
const OVERTAKEN: usize = 2;

/// Job and number of a block: every job counts its blocks from 0.
type Key = (u16, u32);
type Blocks = HashMap<Key, Block, Quick>;
/// First results of each worker, by job.
type OfJobs = BTreeMap<u16, BTreeMap<u32, u64>>;

/// A block: its contributions, the time of the last one, and the workers with its result.
#[derive(Default, Clone)]
struct Block {
    /// Number of workers of its job.
    workers: u32,
    contributions: u32,
    last_ps: i64,
    results: u32,
    /// Minimum and maximum number of sources of workers' first results; `None` without results.
    sources: Option<(u16, u16)>,
}

impl Block {
    /// Whether all workers contributed.
    fn is_complete(&self) -> bool {
        self.contributions >= self.workers
    }

    /// Whether all workers have its result.
    fn is_answered(&self) -> bool {
        self.results >= self.workers
    }
}

/// Contributions and results of a run.
struct Tally {
    blocks: Blocks,
    of_jobs: OfJobs,
    /// Number of repeated contributions.
    repeats: u64,
    /// Number of results that came again.
    again: u64,
}

impl Tally {
    fn of(evidence: &Evidence) -> Tally {
        let (sent, results) = (&evidence.sent, &evidence.results);
        let mut of_jobs = OfJobs::new();
        for (worker, job) in (0u32..).zip(&evidence.manifest.clusters) {
            of_jobs.entry(*job).or_default().insert(worker, 0);
        }
        let mut tally = Tally { blocks: Blocks::default(), of_jobs, repeats: 0, again: 0 };
        for (packet, t) in sent.packet.iter().zip(&sent.sent_ps) {
            let Some(t) = *t else { continue };
            if packet.attempt() > 0 {
                tally.repeats += 1;
                continue;
            }
            let block = tally.block(evidence.cluster(packet.worker()), packet.seq());
            block.contributions += 1;
            block.last_ps = block.last_ps.max(t);
        }
        for row in 0..results.seq.len() {
            if results.again[row] {
                tally.again += 1;
                continue;
            }
            let (worker, own) = (results.worker[row], results.count[row]);
            let job = evidence.cluster(worker);
            *tally.of_jobs.entry(job).or_default().entry(worker).or_default() += 1;
            let block = tally.block(job, results.seq[row]);
            block.results += 1;
            let (least, most) = block.sources.unwrap_or((u16::MAX, 0));
            block.sources = Some((least.min(own), most.max(own)));
        }
        tally
    }

    fn block(&mut self, job: u16, seq: u32) -> &mut Block {
        let workers = self.of_jobs.get(&job).map_or(1, |own| own.len() as u32);
        self.blocks.entry((job, seq)).or_insert_with(|| Block { workers, ..Block::default() })
    }
}

/// Finds out why results are missing or too many; `came` frames with results are in the capture of the workers, if there is one.
/// `on_links`: frames lost on links in both directions, and `back` those on the way to the workers.
pub(crate) fn look(evidence: &Evidence, came: u64, [on_links, back]: [LostOnLinks; 2], found: &mut Vec<CauseFound>) {
    let Tally { mut blocks, of_jobs, repeats, again } = Tally::of(evidence);
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
    let unequal = unequal(&blocks).filter(|own| !is_counted(found, own.explains, on_links));
    found.extend(unequal);
    to_some(&of_jobs, &mut blocks, found);
    // A device that ended did not lose what it no longer answered.
    if found.iter().all(|found| found.cause != &LOCKSTEP_BROKEN) {
        unserved(&of_jobs, &mut blocks, on_links, found);
        let server = OfServer::of(evidence, repeats);
        missing(&blocks, server.as_ref(), on_links, found);
        if let Some(server) = server {
            server.look(back.and(dropped_on_way_back(evidence)), found);
        }
    }
    let late = late_repeats(evidence, &blocks, found);
    // Without one contribution, or without one frame with a result, all workers of a job repeat once.
    of_repeats(evidence, (late, again.min(late)), on_links.times(evidence.workers_of_job()), found);
    // Results of blocks without contributions belong to other sums or contain a wrong number.
    let odd: u32 = blocks.values().filter(|block| block.contributions == 0).map(|block| block.results).sum();
    unmatched(evidence, (came, u64::from(odd)), found);
}

/// Finds results that came again without a reason.
pub(crate) fn copies_of_results(evidence: &Evidence) -> Option<CauseFound> {
    let Tally { blocks, repeats, again, .. } = Tally::of(evidence);
    // Results that differ from the first copy are not copies.
    let unlike = evidence.unlike().map_or(0, |unlike| unlike.results);
    copies(evidence, &blocks, (again.saturating_sub(unlike), repeats))
}

/// Finds workers without any result beside others of their job; removes the blocks of these jobs.
fn to_some(of_jobs: &OfJobs, blocks: &mut Blocks, found: &mut Vec<CauseFound>) {
    let (mut proofs, mut explains) = (Vec::new(), 0);
    for (job, own) in of_jobs {
        let most = own.values().max().copied().unwrap_or(0);
        let without: Vec<_> = own.iter().filter(|(_, n)| **n == 0).map(|(worker, _)| worker.to_string()).collect();
        if most < FEW || without.is_empty() {
            continue;
        }
        let of = if of_jobs.len() > 1 { format!(" of job {job}") } else { String::new() };
        let says = format!("worker {} had no result, and others{of} up to {most}", without.join(", "));
        proofs.push(EvidenceItem::new("results.parquet", says));
        explains += most * without.len() as u64;
        blocks.retain(|(of, _), _| of != job);
    }
    if !proofs.is_empty() {
        proofs.push(EvidenceItem::new("device table", "the members of the multicast group"));
        found.push(CauseFound::new(&RESULTS_TO_SOME, Certainty::Certain, explains, proofs));
    }
}

/// Finds jobs without any result beside other jobs; removes their blocks.
fn unserved(of_jobs: &OfJobs, blocks: &mut Blocks, on_links: LostOnLinks, found: &mut Vec<CauseFound>) {
    let most = of_jobs.values().flat_map(BTreeMap::values).max().copied().unwrap_or(0);
    if most < FEW {
        return;
    }
    let (mut proofs, mut explains) = (Vec::new(), 0);
    for (job, _) in of_jobs.iter().filter(|(_, own)| own.values().all(|n| *n == 0)) {
        let complete = || blocks.iter().filter(|((of, _), block)| of == job && block.is_complete());
        let sums = complete().count() as u64;
        if sums == 0 || is_counted(found, sums, on_links) {
            continue;
        }
        explains += complete().map(|(_, block)| u64::from(block.workers)).sum::<u64>();
        let says = format!(
            "no sum of job {job} came, and others did: {sums} to which all its workers contributed; workers of other jobs had up to {most} results"
        );
        proofs.push(EvidenceItem::new("results.parquet", says));
        proofs.push(EvidenceItem::new("device table", format!("the entry of job {job}")));
        blocks.retain(|(of, _), _| of != job);
    }
    if explains > 0 {
        found.push(CauseFound::new(&WORKER_UNKNOWN, Certainty::Likely, explains, proofs));
    }
}

/// Names a block, with its job if there are several.
fn name(blocks: &Blocks, (job, seq): Key) -> String {
    let several = blocks.keys().any(|(other, _)| *other != job);
    if several { format!("block {seq} of job {job}") } else { format!("block {seq}") }
}

/// Returns the contributions that request a result which came to others or not at all.
fn late_repeats(evidence: &Evidence, blocks: &Blocks, found: &[CauseFound]) -> u64 {
    // A device that stopped answers nothing from then on: what workers request of it is not lost now and then.
    let stopped = found.iter().any(|found| found.cause == &DEVICE_STOPPED && found.certainty > Certainty::Possible);
    // A worker that repeats before all have contributed does not request a lost result.
    let late = |(packet, t): &(&PacketId, &Option<i64>)| {
        packet.attempt() > 0
            && blocks
                .get(&(evidence.cluster(packet.worker()), packet.seq()))
                .is_some_and(|block| t.is_some_and(|t| t > block.last_ps) && (!stopped || block.is_answered()))
    };
    evidence.sent.packet.iter().zip(&evidence.sent.sent_ps).filter(late).count() as u64
}

/// Finds results that came `again` without a reason, given the number of repeated contributions.
fn copies(evidence: &Evidence, blocks: &Blocks, (again, repeats): (u64, u64)) -> Option<CauseFound> {
    // Results are for all workers of a job.
    let workers = u64::from(blocks.values().map(|block| block.workers).max().unwrap_or(1));
    let reasons = repeats.max(evidence.resent());
    if again <= reasons {
        return None;
    }
    // A contribution after a partial result reopens its block (Trio-ML §5), which times out, too, and gives another
    // result for every worker. It may have been sent before that result arrived.
    let late = late_contributions(evidence);
    let lacks = |block: &Block| Some(block.workers.saturating_sub(block.sources?.0.into()));
    let aged: u64 = blocks.values().filter_map(lacks).map(u64::from).sum();
    let without = again.saturating_sub(reasons + late.max(aged) * workers);
    (without > 0).then(|| {
        // On wires the note `duplicates` counts frames. Those of results that are no copies are not known.
        let frames = match evidence.is_real() && evidence.unlike().is_none() {
            true => format!(" (frames: {})", frames_again(evidence)),
            false => String::new(),
        };
        let says = format!(
            "{again} results came again to workers{frames}; {repeats} contributions had been repeated, {late} left after a result of their block \
             had come, and partial results lacked {aged}"
        );
        CauseFound::new(&COPIES, Certainty::Certain, without, vec![EvidenceItem::new("results.parquet", says)])
    })
}

/// Returns the number of frames with results that came again: the workers that one frame reaches have it at one time.
fn frames_again(evidence: &Evidence) -> usize {
    let results = &evidence.results;
    let again = (0..results.seq.len()).filter(|row| results.again[*row]);
    let frames = again.map(|row| (evidence.cluster(results.worker[row]), results.seq[row], results.recv_ps[row]));
    frames.collect::<HashSet<_>>().len()
}

/// Finds blocks whose first results have different numbers of sources at different workers: the sources of the smaller
/// one were left out of the other.
fn unequal(blocks: &Blocks) -> Option<CauseFound> {
    let differs = |block: &&Block| block.sources.is_some_and(|(least, most)| least < most);
    let odd = blocks.values().filter(differs).count() as u64;
    let (first, block) = blocks.iter().filter(|(_, block)| differs(block)).min_by_key(|(key, _)| **key)?;
    let (least, most) = block.sources?;
    // A partial result may be lost occasionally.
    (odd > FEW.max(blocks.len() as u64 / 20)).then(|| {
        let says = format!(
            "{odd} of {} sums came with different numbers of sources to different workers first; in {} with {least} and {most}",
            blocks.len(),
            name(blocks, *first)
        );
        CauseFound::new(&RESULTS_TO_SOME, Certainty::Likely, odd, vec![EvidenceItem::new("results.parquet, count", says)])
    })
}

/// Returns the number of contributions sent after a result of their block had reached some worker.
fn late_contributions(evidence: &Evidence) -> u64 {
    let results = &evidence.results;
    let mut first: HashMap<Key, i64, Quick> = HashMap::default();
    for (row, t) in results.recv_ps.iter().enumerate() {
        let key = (evidence.cluster(results.worker[row]), results.seq[row]);
        first.entry(key).and_modify(|known| *known = (*known).min(*t)).or_insert(*t);
    }
    let sent = evidence.sent.packet.iter().zip(&evidence.sent.sent_ps);
    let is_late = |(packet, t): &(&PacketId, &Option<i64>)| {
        let key = (evidence.cluster(packet.worker()), packet.seq());
        packet.attempt() == 0 && t.is_some_and(|t| first.get(&key).is_some_and(|first| t > *first))
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

/// Results of a server (ATP): each leaves in one frame for all workers of its job.
struct OfServer {
    /// Different sums that it had and answered.
    sums: u64,
    /// Whether repeated contributions reached it, if there were any.
    reached: bool,
    /// Results that left it, repeated ones included, and those that came to the workers.
    left: u64,
    came: u64,
}

impl OfServer {
    /// Counts them; `None` without a server, and where not every counter is known. Of several senders each counts copies of its own.
    fn of(evidence: &Evidence, repeats: u64) -> Option<OfServer> {
        let counters = &evidence.manifest.counters;
        let of = |name: &str| counters.device.get(name).copied();
        let (sums, resent) = (of("server.results")?, of("server.results_resent").unwrap_or(0));
        let whole = evidence.manifest.part.is_none() && !evidence.is_killed() && evidence.senders() == 1;
        // Those at other addresses or ports came, too.
        let came = counters.replies / evidence.workers_of_job() + counters.foreign;
        whole.then_some(OfServer { sums, reached: resent > 0 || repeats == 0, left: sums + resent, came })
    }

    fn lost(&self) -> u64 {
        self.left.saturating_sub(self.came)
    }

    /// Whether more is lost than may be under way when a run ends.
    fn loses(&self) -> bool {
        self.lost() > UNDER_WAY.max(self.left / 1000)
    }

    /// Finds results that left and did not come; `elsewhere` frames were lost outside the device.
    fn look(&self, elsewhere: LostOnLinks, found: &mut Vec<CauseFound>) {
        // What leaves for a device that stopped, or for some workers only, is not lost now and then.
        let causes = [&DEVICE_STOPPED, &DEVICE_ENDED, &NO_CARRIER, &RESULTS_TO_SOME];
        let is_told = |found: &CauseFound| causes.contains(&found.cause) && found.certainty > Certainty::Possible;
        if !self.loses() || found.iter().any(is_told) || is_counted(found, self.lost(), elsewhere) {
            return;
        }
        let certainty = if self.lost() > self.left / 100 { Certainty::Likely } else { Certainty::Possible };
        let says = format!("{} results left the server, {} came", self.left, self.came);
        let proofs = vec![EvidenceItem::new("manifest.json, counters", says)];
        found.push(CauseFound::new(&ACKS_LOST, certainty, self.lost(), proofs));
    }
}

/// Finds blocks to which all contributed and whose result reached no worker or not all.
fn missing(blocks: &Blocks, server: Option<&OfServer>, on_links: LostOnLinks, found: &mut Vec<CauseFound>) {
    let complete = || blocks.iter().filter(|(_, block)| block.is_complete() && !block.is_answered());
    let all = complete().count() as u64;
    if all == 0 || is_counted(found, all, on_links) {
        return;
    }
    // A device processes frames in order: a sum overtaken by later ones is lost, but where it stops, nothing is.
    let mut answered: Vec<i64> =
        blocks.values().filter(|block| block.is_answered()).map(|block| block.last_ps).collect();
    answered.sort_unstable();
    let overtaken = |block: &Block| answered.len() - answered.partition_point(|t| *t <= block.last_ps) >= OVERTAKEN;
    let early = complete().filter(|(_, block)| overtaken(block)).count() as u64;
    let first = complete().min_by_key(|(key, block)| (block.last_ps, **key)).map_or((0, 0), |(key, _)| *key);
    let partly = complete().filter(|(_, block)| block.results > 0).count();
    let explains: u64 = complete().map(|(_, block)| u64::from(block.workers - block.results)).sum();
    let says = format!(
        "{all} sums to which all workers contributed came to nobody or not to all ({partly}); the first is {}; {early} of them were complete before others that came",
        name(blocks, first)
    );
    let proofs = vec![EvidenceItem::new("sent.parquet, results.parquet", says)];
    // A device that stopped passes nothing on, no repeated contribution either: a server that had all of these sums was not behind one.
    let behind = server.filter(|server| server.reached && server.sums >= all + answered.len() as u64);
    match (early, all) {
        // Its counters tell what it lost on the way back.
        _ if behind.is_some_and(OfServer::loses) => {}
        (0, 4..) if behind.is_none() => {
            found.push(CauseFound::new(&DEVICE_STOPPED, Certainty::Likely, explains, proofs));
        }
        (0, ..4) => {
            found.push(CauseFound::new(&RESULTS_LOST, Certainty::Possible, explains, proofs.clone()));
            found.push(CauseFound::new(&DEVICE_STOPPED, Certainty::Possible, explains, proofs));
        }
        _ => found.push(CauseFound::new(&RESULTS_LOST, Certainty::Likely, explains, proofs)),
    }
}

/// Finds contributions that workers had to repeat. An unnecessary repetition gets a second result.
fn of_repeats(evidence: &Evidence, (repeats, again): (u64, u64), on_links: LostOnLinks, found: &mut Vec<CauseFound>) {
    let needed = repeats.saturating_sub(again);
    let is_told = found.iter().any(|found| {
        found.cause == &RESULTS_LOST || found.cause == &ACKS_LOST && found.certainty > Certainty::Possible
    });
    let unexplained = on_links.unexplained(needed);
    if unexplained >= 3 && !is_told {
        let lost = match needed - unexplained {
            0 => String::new(),
            explained => format!("; frames that links lost explain {explained} of the others"),
        };
        let says =
            format!("{repeats} contributions were sent again; {again} of them had been in a result already{lost}");
        // With a server, workers also repeat what was overtaken (ATP §3.2), and any worker may repeat twice what was lost once.
        let may_be_more = evidence.interface("server").is_some() || on_links.may_explain(needed);
        let certainty = if may_be_more { Certainty::Possible } else { Certainty::Likely };
        found.push(CauseFound::new(
            &RESULTS_LOST,
            certainty,
            unexplained,
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
        let block = |results| Block { workers: 2, contributions: 2, last_ps: 10, results, sources: None };
        let blocks = [((0, 0), block(2)), ((0, 1), block(0))].into_iter().collect();
        assert_eq!(late_repeats(&evidence, &blocks, &[]), 2);
        let stopped = |certainty| [CauseFound::new(&DEVICE_STOPPED, certainty, 2, Vec::new())];
        assert_eq!(late_repeats(&evidence, &blocks, &stopped(Certainty::Possible)), 2);
        assert_eq!(late_repeats(&evidence, &blocks, &stopped(Certainty::Likely)), 1);
    }

    /// Two workers with so many `complete` blocks, of which the first ones are `answered`, and a server that had `sums` and repeated `resent`.
    fn behind_server(sums: u64, resent: u64, answered: u32, complete: u32) -> Vec<(&'static str, Certainty, u64)> {
        found_behind(sums, resent, [answered, complete], false)
    }

    /// With `repeats`, contributions without an answer are sent again.
    fn found_behind(
        sums: u64,
        resent: u64,
        [answered, complete]: [u32; 2],
        repeats: bool,
    ) -> Vec<(&'static str, Certainty, u64)> {
        let mut manifest = manifest(&[0, 0]);
        manifest.counters.device.insert("server.results".to_owned(), sums);
        manifest.counters.device.insert("server.results_resent".to_owned(), resent);
        manifest.counters.replies = 2 * u64::from(answered);
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
        for (seq, worker) in (0..complete).flat_map(|seq| [(seq, 0), (seq, 1)]) {
            let t = i64::from(seq) * 1000;
            evidence.sent.packet.push(PacketId::new(worker, seq, 0));
            evidence.sent.sent_ps.push(Some(t));
            if repeats && seq >= answered {
                evidence.sent.packet.push(PacketId::new(worker, seq, 1));
                evidence.sent.sent_ps.push(Some(t + 1_000_000));
            }
            if seq < answered {
                let results = &mut evidence.results;
                results.recv_ps.push(t + 500);
                results.worker.push(worker);
                results.seq.push(seq);
                results.again.push(false);
                results.count.push(2);
                results.degraded.push(false);
            }
        }
        let mut found = Vec::new();
        look(&evidence, 0, [LostOnLinks::NONE; 2], &mut found);
        found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect()
    }

    #[test]
    fn a_device_that_loses_answers_of_a_server_did_not_stop() {
        assert_eq!(behind_server(40, 0, 40, 40), []);
        assert_eq!(behind_server(40, 0, 20, 40), [("acks_lost", Certainty::Likely, 20)]);
        assert_eq!(behind_server(40, 8, 0, 40), [("acks_lost", Certainty::Likely, 48)]);
        assert_eq!(behind_server(20, 0, 20, 40), [("device_stopped", Certainty::Likely, 40)]);
        // The server had the sums; that contributions come again shows whether the device went on.
        let repeated = |resent: u64| found_behind(36, resent, [20, 36], true);
        assert!(repeated(0).contains(&("device_stopped", Certainty::Likely, 32)), "{:?}", repeated(0));
        assert!(repeated(0).iter().all(|(cause, ..)| *cause != "acks_lost"), "{:?}", repeated(0));
        assert!(repeated(32).iter().any(|(cause, ..)| *cause == "acks_lost"), "{:?}", repeated(32));
        // Too few to be more than what is under way at the end.
        assert_eq!(behind_server(25, 0, 20, 25), [("results_lost", Certainty::Likely, 10)]);
    }

    /// Every sum came at last, since it was repeated for all workers.
    #[test]
    fn answers_of_a_server_that_were_lost_are_among_its_counters() {
        assert_eq!(behind_server(100, 20, 100, 100), [("acks_lost", Certainty::Likely, 20)]);
        assert_eq!(behind_server(2000, 10, 2000, 2000), [("acks_lost", Certainty::Possible, 10)]);
        assert_eq!(behind_server(100, 8, 100, 100), []);
    }

    /// Four workers each repeat ten contributions, by the counters of whose link so many were lost.
    #[test]
    fn a_lost_contribution_is_repeated_by_all_workers() {
        let codes = |lost: u64| {
            let mut manifest = manifest(&[0; 4]);
            let counted = [("received", 1000 - lost), ("sent", 200)];
            manifest.counters.device.extend(counted.map(|(name, frames)| (name.to_owned(), frames)));
            manifest.family = Some(pktgen_core::record::Family::Results);
            manifest.interfaces = vec![pktgen_core::record::InterfaceCounts {
                end: "workers".to_owned(),
                sent: Some(1000),
                tx_packets: 1000,
                rx_packets: 200,
                ..Default::default()
            }];
            let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
            for (seq, worker) in (0..10).flat_map(|seq| (0..4).map(move |worker| (seq, worker))) {
                for attempt in [0, 1] {
                    evidence.sent.packet.push(PacketId::new(worker, seq, attempt));
                    evidence.sent.sent_ps.push(Some(i64::from(seq) * 1000 + i64::from(attempt) * 100));
                }
                let results = &mut evidence.results;
                results.recv_ps.push(i64::from(seq) * 1000 + 500);
                results.worker.push(worker);
                results.seq.push(seq);
                results.again.push(false);
                results.count.push(4);
                results.degraded.push(false);
            }
            let on_links = crate::links::Balances::of(&evidence).lost_both_ways();
            let mut found = Vec::new();
            look(&evidence, 0, [on_links, LostOnLinks::NONE], &mut found);
            found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect::<Vec<_>>()
        };
        assert!(codes(10).is_empty());
        // Those of half of the lost frames may be repeated twice.
        assert_eq!(codes(5), [("results_lost", Certainty::Possible, 20)]);
        assert_eq!(codes(4), [("results_lost", Certainty::Likely, 24)]);
    }

    /// Workers of a software device get a result again that its cable copied.
    #[test]
    fn results_that_a_cable_copied_are_copies() {
        let found = |again: u32, repeats: u32, is_real: bool| {
            let mut manifest = manifest(&[0, 0]);
            manifest.clocks.extend(is_real.then(|| ("sent.t_sent_ps".to_owned(), "host".to_owned())));
            let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
            for (seq, worker) in (0..10).flat_map(|seq| [(seq, 0), (seq, 1)]) {
                let attempts = if seq < repeats { 2 } else { 1 };
                for attempt in 0..attempts {
                    evidence.sent.packet.push(PacketId::new(worker, seq, attempt));
                    evidence.sent.sent_ps.push(Some(i64::from(seq) * 1000));
                }
                let frames = if seq < again { 2 } else { 1 };
                for frame in 0..frames {
                    let results = &mut evidence.results;
                    results.recv_ps.push(i64::from(seq) * 1000 + 500);
                    results.worker.push(worker);
                    results.seq.push(seq);
                    results.again.push(frame > 0);
                    results.count.push(2);
                    results.degraded.push(false);
                }
            }
            copies_of_results(&evidence)
        };
        let copies = |again, repeats| {
            found(again, repeats, false).map(|found| (found.cause.code, found.certainty, found.explains))
        };
        assert_eq!(copies(3, 0), Some(("copies", Certainty::Certain, 6)));
        assert_eq!([copies(0, 0), copies(3, 3)], [None; 2]);
        // On a wire, a frame is for both workers.
        for (is_real, frames) in [(true, " (frames: 3);"), (false, ";")] {
            let says = format!("6 results came again to workers{frames}");
            let proof = found(3, 0, is_real).expect("copies").proofs.remove(0);
            assert!(proof.says.starts_with(&says), "{}", proof.says);
        }
    }

    /// Two jobs of two workers with 40 blocks each; `sources` says by worker and block of how many a result is, if it comes.
    fn two_jobs(sources: impl Fn(u32, u32) -> Option<u16>) -> Vec<(&'static str, Certainty, u64)> {
        two_jobs_with("", sources)
    }

    /// The same with this experiment.
    fn two_jobs_with(config: &str, sources: impl Fn(u32, u32) -> Option<u16>) -> Vec<(&'static str, Certainty, u64)> {
        let mut manifest = manifest(&[0, 0, 1, 1]);
        manifest.config = config.to_owned();
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
        for seq in 0..40u32 {
            for worker in 0..4u32 {
                let t = i64::from(seq) * 1000;
                evidence.sent.packet.push(PacketId::new(worker, seq, 0));
                evidence.sent.sent_ps.push(Some(t));
                let Some(count) = sources(worker, seq) else { continue };
                let results = &mut evidence.results;
                results.recv_ps.push(t + 500);
                results.worker.push(worker);
                results.seq.push(seq);
                results.again.push(false);
                results.count.push(count);
                results.degraded.push(count < 2);
            }
        }
        let mut found = Vec::new();
        let on_links = match config {
            "" => LostOnLinks::NONE,
            _ => crate::links::Balances::of(&evidence).lost_both_ways(),
        };
        look(&evidence, 0, [on_links; 2], &mut found);
        found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect()
    }

    /// A worker that asks again for a lost result of Trio-ML gets one of its own contribution.
    #[test]
    fn losses_that_were_asked_for_make_results_unequal() {
        let sources = |worker, seq: u32| Some(if worker == 0 && seq.is_multiple_of(4) { 1 } else { 2 });
        assert_eq!(two_jobs(sources), [("results_to_some", Certainty::Likely, 10)]);
        assert_eq!(two_jobs_with("[transport]\nfault_loss = 0.05\n", sources), []);
    }

    #[test]
    fn blocks_of_different_jobs_with_one_number_are_different_blocks() {
        assert_eq!(two_jobs(|worker, _| Some(if worker < 2 { 1 } else { 2 })), []);
        assert_eq!(two_jobs(|worker, _| (worker < 2).then_some(2)), [("worker_unknown", Certainty::Likely, 80)]);
        assert_eq!(two_jobs(|worker, _| (worker != 3).then_some(2)), [("results_to_some", Certainty::Certain, 40)]);
        // Others are served on, so the device did not stop.
        let stops = two_jobs(|worker, seq| (worker < 2 || seq < 20).then_some(2));
        assert_eq!(stops, [("results_lost", Certainty::Likely, 40)]);
        // One worker of a job lacks one result.
        let lost = two_jobs(|worker, seq| ((worker, seq) != (2, 5)).then_some(2));
        assert_eq!(lost, [("results_lost", Certainty::Likely, 1)]);
    }

    #[test]
    fn repeats_of_every_job_request_the_results_of_that_job() {
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest(&[0, 1]));
        for (worker, attempt, t) in [(0, 0, 1000), (1, 0, 10), (1, 1, 20)] {
            evidence.sent.packet.push(PacketId::new(worker, 0, attempt));
            evidence.sent.sent_ps.push(Some(t));
        }
        let blocks = Tally::of(&evidence).blocks;
        assert_eq!(blocks.len(), 2);
        assert_eq!(late_repeats(&evidence, &blocks, &[]), 1);
    }
}
