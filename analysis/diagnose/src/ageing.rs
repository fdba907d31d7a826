//! Times after which a device goes on without workers that are late: one to two timeouts after the last packet of a block (Trio §5).

use std::cmp::Reverse;
use std::collections::HashMap;

use pktgen_core::record::Note;

use crate::cause::TIMEOUT_WRONG;
use crate::evidence::Evidence;
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::frame::Quick;

/// Fewest such results of a device in virtual time, whose clock is that of the run.
const FEW: u64 = 3;
/// Fewest in real time.
const FEW_REAL: u64 = 20;

/// Job and block.
type Key = (u16, u32);
type ByBlock<T> = HashMap<Key, T, Quick>;

/// The first result of a block at any worker.
struct First {
    came_ps: i64,
    degraded: bool,
    /// No result before it held it up on the link to its worker.
    alone: bool,
}

/// When contributions left.
struct Left {
    /// The first one to a block, at the earliest.
    since_ps: i64,
    /// The first one of all later iterations to the same block of the model; `i64::MAX` if there is none.
    later_ps: i64,
}

/// Results at the wrong time, each with its block and the time that the device waited.
#[derive(Default)]
struct WrongTimes {
    results: u64,
    first: Option<(Key, i64)>,
}

impl WrongTimes {
    fn add(&mut self, key: Key, waited_ps: i64) {
        self.results += 1;
        let own = (key, waited_ps);
        self.first = Some(self.first.map_or(own, |known| known.min(own)));
    }

    /// Returns the evidence, of `partial` results, if there are at least `few`.
    fn proof(&self, few: u64, partial: u64, says: &str) -> Option<EvidenceItem> {
        let ((_, seq), waited_ps) = self.first.filter(|_| self.results >= few)?;
        let (results, us) = (self.results, waited_ps / 1_000_000);
        let says =
            format!("{results} of {partial} partial results came {says}; the first is block {seq}, after {us} us");
        Some(EvidenceItem::new("sent.parquet, results.parquet", says))
    }
}

/// Finds partial results that came sooner, or in lockstep later, than a device with the declared timeout makes them.
pub(crate) fn look(evidence: &Evidence) -> Option<CauseFound> {
    let training = evidence.manifest.training.as_ref()?;
    let (timeout, blocks) = (training.timeout_ps?, Some(training.blocks).filter(|blocks| *blocks > 0)?);
    let has_clock = |note: &Note| matches!(note, Note::StampClock { .. });
    let is_unclear =
        evidence.is_real() && (evidence.senders() > 1 || evidence.manifest.validity.notes.iter().any(has_clock));
    // Without workers that were removed from their job, blocks are complete at once.
    if !evidence.results.degraded.contains(&true) || is_unclear || evidence.flag("target", "remove_stragglers") {
        return None;
    }
    let longest = evidence.sent.bytes.iter().copied().max().unwrap_or(0);
    let rate_bps = i64::try_from(training.host_rate_bps).unwrap_or(i64::MAX).max(1);
    let frame_ps = i64::from(longest).saturating_mul(8_000_000_000_000) / rate_bps;
    let firsts = first_results(evidence, frame_ps.saturating_mul(2));
    let (left, touched) = contributions(evidence, blocks);
    let has_short_ways = has_short_ways(evidence);
    let last_before = |(job, seq): Key, came_ps: i64| {
        let all = touched.get(&(job, seq % blocks))?;
        all[..all.partition_point(|t| *t < came_ps)].last().copied()
    };
    // From the last contribution of a complete block to its result: cables, and what the device needs.
    let whole = firsts.iter().filter(|(_, first)| !first.degraded && has_short_ways);
    let way_ps = whole.filter_map(|(key, first)| Some(first.came_ps - last_before(*key, first.came_ps)?)).max();
    // The clock of a device in real time is another one.
    let (least, few) = if evidence.is_real() { (timeout / 10 * 9, FEW_REAL) } else { (timeout, FEW) };
    let (mut partial, mut early, mut late) = (0, WrongTimes::default(), WrongTimes::default());
    for (key, first) in firsts.iter().filter(|(_, first)| first.degraded) {
        partial += 1;
        let Some(own) = left.get(key) else { continue };
        let waited = first.came_ps - own.since_ps;
        // A later generation ends its block's record at once (docs/trio.md).
        let is_evicted = own.later_ps < first.came_ps;
        if (0..least).contains(&waited) && !is_evicted {
            early.add(*key, waited);
        }
        let Some(way_ps) = way_ps.filter(|_| first.alone) else { continue };
        let waited = last_before(*key, first.came_ps).map(|last| first.came_ps - last - way_ps);
        if let Some(waited) = waited.filter(|waited| waited / 3 > timeout) {
            late.add(*key, waited);
        }
    }
    let us = timeout / 1_000_000;
    let early_by = format!("before target.timeout = {us} us from the first contribution of their block");
    let late_by = format!("later than three times target.timeout = {us} us after the last packet of their block");
    let proofs = [early.proof(few, partial, &early_by), late.proof(few, partial, &late_by)];
    let proofs: Vec<_> = proofs.into_iter().flatten().collect();
    let certainty = if evidence.is_real() { Certainty::Likely } else { Certainty::Certain };
    let explains = early.results + late.results;
    (!proofs.is_empty()).then(|| CauseFound::new(&TIMEOUT_WRONG, certainty, explains, proofs))
}

/// Whether nothing but the link to its worker holds a result up: in lockstep, without losses, with one device at all workers.
fn has_short_ways(evidence: &Evidence) -> bool {
    let engines = evidence.config.get("topology").and_then(|topology| topology.get("engines"));
    evidence.is_lockstep()
        && !evidence.has_faulty_links()
        && ["rack", "star"].contains(&evidence.text("topology", "kind"))
        && engines.and_then(toml::Value::as_integer).is_none_or(|engines| engines == 1)
}

/// Returns the first result of each block; one is alone if none came within `gap_ps` before it.
fn first_results(evidence: &Evidence, gap_ps: i64) -> ByBlock<First> {
    let results = &evidence.results;
    let mut firsts: ByBlock<First> = HashMap::default();
    // Rows are in the order of time. Copies that come at once are at several workers.
    let (mut before, mut now) = (i64::MIN, i64::MIN);
    for (row, t) in results.recv_ps.iter().enumerate() {
        if *t != now {
            (before, now) = (now, *t);
        }
        let key = (evidence.cluster(results.worker[row]), results.seq[row]);
        let alone = t.saturating_sub(before) > gap_ps;
        firsts.entry(key).or_insert(First { came_ps: *t, degraded: results.degraded[row], alone });
    }
    firsts
}

/// Returns, by job and block of all iterations, when its contributions and those of later iterations left; and, by job
/// and block of the model, when packets of any iteration left, in order: each of them keeps a record of that block from
/// ageing (§5).
fn contributions(evidence: &Evidence, blocks: u32) -> (ByBlock<Left>, ByBlock<Vec<i64>>) {
    let sent = &evidence.sent;
    let (mut left, mut touched) = (ByBlock::default(), ByBlock::<Vec<i64>>::default());
    for (row, (packet, t)) in sent.packet.iter().zip(&sent.sent_ps).enumerate() {
        let Some(t) = *t else { continue };
        let (job, seq) = (evidence.cluster(packet.worker()), packet.seq());
        // A host stamps a frame behind the call that sends it: it may have left from the time on at which it was due.
        let since = sent.due_ps.get(row).copied().filter(|due| evidence.is_real() && *due < t).unwrap_or(t);
        let own = left.entry((job, seq)).or_insert(Left { since_ps: i64::MAX, later_ps: i64::MAX });
        own.since_ps = since.min(own.since_ps);
        touched.entry((job, seq % blocks)).or_default().push(t);
    }
    touched.values_mut().for_each(|all| all.sort_unstable());
    // From the last iteration to the first one.
    let mut all: Vec<_> = left.iter_mut().collect();
    all.sort_unstable_by_key(|(key, _)| Reverse(**key));
    let mut later: ByBlock<i64> = HashMap::default();
    for ((job, seq), own) in all {
        let first = later.entry((*job, seq % blocks)).or_insert(i64::MAX);
        own.later_ps = *first;
        *first = own.since_ps.min(*first);
    }
    (left, touched)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pktgen_core::record::{PacketId, Training};

    use super::*;
    use crate::evidence::manifest;

    const MS: i64 = 1_000_000_000;

    /// A run of one block per iteration, 100 ms each, with a timeout of 10 ms: of three workers the last one is a straggler. Partial results come
    /// `after` that many ms; the straggler's contributions leave after `straggler` ms. The last block is complete.
    fn run(after: impl Fn(u32) -> i64, straggler: i64, config: &str) -> Evidence {
        run_of(40, after, straggler, config)
    }

    /// The same, with that many blocks before the complete one.
    fn run_of(iterations: u32, after: impl Fn(u32) -> i64, straggler: i64, config: &str) -> Evidence {
        let mut manifest = manifest(&[0; 3]);
        manifest.external = Some("lockstep".to_owned());
        manifest.config = format!("[topology]\nkind = \"rack\"\n{config}");
        manifest.training = Some(Training {
            timeout_ps: Some(10 * MS),
            blocks: 1,
            iterations,
            host_rate_bps: 100_000_000_000,
            ..Training::default()
        });
        let mut evidence = Evidence::of(Path::new(""), manifest);
        for seq in 0..=iterations {
            let (start, is_whole) = (i64::from(seq) * 100 * MS, seq == iterations);
            for worker in 0..3 {
                let left = start + if worker == 2 && !is_whole { straggler * MS } else { 0 };
                evidence.sent.packet.push(PacketId::new(worker, seq, 0));
                evidence.sent.sent_ps.push(Some(left));
                evidence.sent.due_ps.push(left);
                evidence.sent.bytes.push(256);
                evidence.results.worker.push(worker);
                evidence.results.seq.push(seq);
                evidence.results.recv_ps.push(start + if is_whole { MS / 100 } else { after(seq) * MS });
                evidence.results.count.push(if is_whole { 3 } else { 2 });
                evidence.results.again.push(false);
                evidence.results.degraded.push(!is_whole);
            }
        }
        evidence
    }

    fn found(evidence: &Evidence) -> Option<(Certainty, u64)> {
        look(evidence).map(|found| (found.certainty, found.explains))
    }

    #[test]
    fn partial_results_come_after_one_to_two_timeouts() {
        for (after, explains) in [(0, 40), (1, 40), (9, 40), (10, 0), (15, 0), (20, 0), (29, 0), (31, 40), (60, 40)] {
            let expected = (explains > 0).then_some((Certainty::Certain, explains));
            assert_eq!(found(&run(|_| after, 95, "")), expected, "{after} ms");
        }
        // Blocks that are complete at once, of a device that waits otherwise.
        let some = run(|seq| if seq % 10 == 3 { 1 } else { 15 }, 95, "");
        let proof = look(&some).expect("a cause").proofs.remove(0).says;
        assert!(proof.contains("4 of 40") && proof.contains("block 3, after 1000 us"), "{proof}");
        assert_eq!(found(&run(|seq| if seq < 2 { 1 } else { 15 }, 95, "")), None, "too few");
    }

    /// What keeps blocks from ageing, what ends them sooner, and what holds results up.
    #[test]
    fn right_devices_are_not_blamed() {
        assert_eq!(found(&run(|_| 1, 95, "[target]\nremove_stragglers = true\n")), None);
        // A packet of the straggler touches the record, also one of an earlier iteration.
        assert_eq!(found(&run(|_| 45, 30, "")), None);
        let mut stale = run(|_| 45, 95, "");
        (0..40u32).for_each(|seq| {
            stale.sent.packet.push(PacketId::new(2, seq, 1));
            stale.sent.sent_ps.push(Some((i64::from(seq + 1) * 100 + 30) * MS));
        });
        assert_eq!(found(&stale), None, "the first block alone has no earlier one");
        for config in ["[transport]\nfault_loss = 0.1\n", "engines = 2\n"] {
            assert_eq!(found(&run(|_| 60, 95, config)), None, "{config}");
            assert_eq!(found(&run(|_| 1, 95, config)), Some((Certainty::Certain, 40)), "{config}");
        }
        // Long cables, as the result of the complete block shows.
        let mut far = run(|_| 45, 95, "");
        far.results.recv_ps.iter_mut().rev().take(3).for_each(|t| *t += 25 * MS);
        assert_eq!((found(&run(|_| 45, 95, "")), found(&far)), (Some((Certainty::Certain, 40)), None));
        // A slow link holds results up that come one behind the other.
        let mut slow = run(|_| 60, 95, "");
        slow.manifest.training.as_mut().expect("training").host_rate_bps = 10_000;
        assert_eq!(found(&slow), None);
        // Contributions to the next iteration end the records of every other one. Their own blocks wait long.
        let mut evicted = run(|_| 5, 95, "");
        (0..40u32).step_by(2).for_each(|seq| {
            evicted.sent.packet.push(PacketId::new(0, seq + 1, 0));
            evicted.sent.sent_ps.push(Some((i64::from(seq) * 100 + 4) * MS));
        });
        assert_eq!(found(&evicted), None);
    }

    /// Of 20,000 iterations, the last one has a contribution that leaves early. It ends its block of every iteration from
    /// the 10,000th on.
    #[test]
    fn iterations_far_ahead_end_blocks() {
        let mut evidence = run_of(20_000, |_| 5, 95, "");
        let certain = |explains| Some((Certainty::Certain, explains));
        assert_eq!(found(&evidence), certain(20_000));
        evidence.sent.packet.push(PacketId::new(0, 20_000, 0));
        evidence.sent.sent_ps.push(Some((10_000 * 100 + 4) * MS));
        assert_eq!(found(&evidence), certain(10_000));
        *evidence.sent.sent_ps.last_mut().expect("a packet") = Some((10_000 * 100 + 5) * MS);
        assert_eq!(found(&evidence), certain(10_001), "not before the result");
        // Of another block, and of another job.
        evidence.manifest.training.as_mut().expect("training").blocks = 2;
        assert_eq!(found(&evidence), certain(15_001));
        *evidence.sent.packet.last_mut().expect("a packet") = PacketId::new(3, 20_000, 0);
        evidence.manifest.clusters.push(1);
        assert_eq!(found(&evidence), certain(20_000));
    }

    /// Clocks of devices are a little fast, and hosts stamp late.
    #[test]
    fn in_real_time_only_much_too_early_results_count() {
        let real = |after: i64, due_before: i64| {
            let mut evidence = run(|_| after, 95, "");
            evidence.manifest.clocks.insert("sent.t_sent_ps".to_owned(), "monotonic".to_owned());
            evidence.sent.due_ps.iter_mut().for_each(|due| *due -= due_before * MS);
            found(&evidence)
        };
        assert_eq!((real(8, 0), real(9, 0), real(60, 0)), (Some((Certainty::Likely, 40)), None, None));
        assert_eq!(real(8, 1), None);
    }
}
