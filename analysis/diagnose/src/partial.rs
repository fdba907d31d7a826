//! Partial results of synchronous training: contributions that left in time and are in no result.

use std::collections::{BTreeMap, HashMap};

use crate::cause::{NO_CARRIER, RESULTS_LOST, SEND_REFUSED, WORKER_UNKNOWN};
use crate::evidence::Evidence;
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::hosts::is_counted;
use crate::links::LostOnLinks;
use crate::sums::{Taken, is_in_time, names};

/// Fewest results that lack a worker before the device is said not to take it.
const FEW: u64 = 20;
/// Fewest times at which contributions are lost: a host or a device that stands still makes many blocks partial, once.
const TIMES_MIN: usize = 3;

/// Contributions that left in time and are not in the first result of their block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) contributions: u64,
    /// Results that lack them.
    results: u64,
    /// Times at which they were lost: blocks that overlap are of one.
    times: usize,
    /// The first block that lacks one.
    first: u32,
}

/// A block: when contributions to it left, and its first result.
#[derive(Default)]
struct Block {
    left_ps: Vec<i64>,
    result: Option<(i64, u16)>,
}

impl LeftOut {
    /// Compares each partial result with what had left in time for it.
    pub(crate) fn of(evidence: &Evidence) -> LeftOut {
        let (sent, results) = (&evidence.sent, &evidence.results);
        let mut out = LeftOut::default();
        let Some(timeout) = evidence.timeout_ps().filter(|_| results.degraded.contains(&true)) else { return out };
        let mut blocks: HashMap<(u16, u32), Block> = HashMap::new();
        for (packet, t) in sent.packet.iter().zip(&sent.sent_ps) {
            if let Some(t) = t.filter(|_| packet.attempt() == 0) {
                blocks.entry((evidence.cluster(packet.worker()), packet.seq())).or_default().left_ps.push(t);
            }
        }
        for (row, seq) in results.seq.iter().enumerate() {
            let key = (evidence.cluster(results.worker[row]), *seq);
            let Some(block) = blocks.get_mut(&key) else { continue };
            let own = (results.recv_ps[row], results.count[row]);
            block.result = Some(block.result.map_or(own, |known| known.min(own)));
        }
        let mut lives: Vec<_> =
            blocks.iter().filter_map(|((_, seq), block)| out.add(*seq, block, timeout.into())).collect();
        lives.sort_unstable();
        out.first = lives.first().map_or(0, |(.., seq)| *seq);
        let mut until = i64::MIN;
        for (from, to, _) in lives {
            out.times += usize::from(from > until);
            until = until.max(to);
        }
        // Wrong results may say another number of sources than they hold. Rows do not name them.
        if out.results <= evidence.wrong_results() { LeftOut::default() } else { out }
    }

    /// Counts what the result of a block lacks. Returns the block's life, if it lacks anything.
    fn add(&mut self, seq: u32, block: &Block, timeout: i128) -> Option<(i64, i64, u32)> {
        let ((end, sources), first) = (block.result?, *block.left_ps.iter().min()?);
        let after = |t: i64| i128::from(t) - i128::from(first);
        let in_time = block.left_ps.iter().filter(|t| is_in_time(after(**t), after(end), timeout)).count();
        let lacks = (in_time as u64).saturating_sub(sources.into());
        self.contributions += lacks;
        self.results += u64::from(lacks > 0);
        (lacks > 0).then_some((first, end, seq))
    }

    /// Finds what takes contributions away, some of one worker or all; `taken` is whose contributions results hold, as far as a capture
    /// tells.
    pub(crate) fn look(
        &self,
        evidence: &Evidence,
        taken: &BTreeMap<u32, Taken>,
        on_links: LostOnLinks,
        found: &mut Vec<CauseFound>,
        unknown: &mut Vec<String>,
    ) {
        // What did not get out of the host is not lost behind it.
        let stayed = [&SEND_REFUSED, &NO_CARRIER];
        if self.contributions == 0
            || evidence.has_faulty_links()
            || found.iter().any(|found| stayed.contains(&found.cause))
            || is_counted(found, self.contributions, on_links)
        {
            return;
        }
        let never = never_taken(taken);
        let gone: u64 = never.as_ref().map_or(0, |never| never.explains);
        found.extend(never);
        let rest = self.contributions.saturating_sub(gone);
        if rest < TIMES_MIN as u64 || self.times < TIMES_MIN || gone > 0 && rest * 100 < gone {
            return;
        }
        let says = format!(
            "{} results lack {} contributions that had left in the first quarter of target.timeout and of the time from the first contribution of \
             their block to the result; the first is block {}",
            self.results, self.contributions, self.first
        );
        let proofs = vec![EvidenceItem::new("sent.parquet, results.parquet", says)];
        found.push(CauseFound::new(&RESULTS_LOST, Certainty::Possible, rest, proofs));
        unknown.push(if taken.is_empty() {
            format!("whose contributions partial results lack: {}", evidence.next_step(false))
        } else {
            format!(
                "where contributions are lost that partial results lack, on the way to the device or in it: {}",
                evidence.have_counted()
            )
        });
    }
}

/// Workers of which no result holds a contribution, though theirs left in time and results hold those of others.
fn never_taken(taken: &BTreeMap<u32, Taken>) -> Option<CauseFound> {
    let gone: Vec<_> = taken.iter().filter(|(_, own)| own.held == 0 && own.later == 0 && own.left_out >= FEW).collect();
    let others = taken.values().map(|own| own.held).max().unwrap_or(0);
    if gone.is_empty() || others < FEW {
        return None;
    }
    let addresses: Vec<u32> = gone.iter().map(|(from, _)| **from).collect();
    let lacking = gone.iter().map(|(_, own)| own.left_out).sum();
    let says = format!(
        "no result holds a contribution of {}, of which {lacking} had left in time; results hold up to {others} of each of the others",
        names(&addresses)
    );
    let proofs = vec![
        EvidenceItem::new("tap of the workers, sums made again", says),
        EvidenceItem::new("device table", format!("the entries of {}", names(&addresses))),
    ];
    Some(CauseFound::new(&WORKER_UNKNOWN, Certainty::Certain, lacking, proofs))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pktgen_core::record::{PacketId, Training};

    use super::*;
    use crate::evidence::manifest;

    /// A run of blocks of 100 µs, one at a time, to which three workers contribute; the last is late by `late_us`. `takes` says which
    /// contributions the device takes, by block and worker; results come after `way_us` more.
    fn run((late_us, way_us): (i64, i64), takes: impl Fn(u32, u32) -> bool) -> Evidence {
        let mut evidence = Evidence::of(Path::new(""), manifest(&[0; 3]));
        evidence.manifest.training = Some(Training { timeout_ps: Some(100_000_000), ..Training::default() });
        for seq in 0..40u32 {
            let start = i64::from(seq) * 1_000_000_000;
            let late = |worker: u32| if worker == 2 { late_us } else { 0 };
            for worker in 0..3 {
                evidence.sent.packet.push(PacketId::new(worker, seq, 0));
                evidence.sent.sent_ps.push(Some(start + late(worker) * 1_000_000));
            }
            let sources = (0..3).filter(|worker| late(*worker) < 100 && takes(seq, *worker)).count() as u16;
            for worker in 0..3 {
                evidence.results.worker.push(worker);
                evidence.results.seq.push(seq);
                evidence.results.recv_ps.push(start + (100 + way_us) * 1_000_000);
                evidence.results.count.push(sources);
                evidence.results.again.push(false);
                evidence.results.degraded.push(sources < 3);
            }
        }
        evidence
    }

    fn causes(evidence: &Evidence, taken: &BTreeMap<u32, Taken>) -> Vec<(&'static str, Certainty, u64)> {
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        LeftOut::of(evidence).look(evidence, taken, LostOnLinks::NONE, &mut found, &mut unknown);
        found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect()
    }

    fn taken(all: [(u64, u64); 3]) -> BTreeMap<u32, Taken> {
        (1..).zip(all).map(|(from, (held, left_out))| (from, Taken { held, left_out, later: 0 })).collect()
    }

    #[test]
    fn contributions_that_left_in_time_and_are_in_no_result_are_lost() {
        let some = run((0, 10), |seq, worker| seq % 10 != 3 || worker != 1);
        assert_eq!(LeftOut::of(&some), LeftOut { contributions: 4, results: 4, times: 4, first: 3 });
        assert_eq!(causes(&some, &BTreeMap::new()), [("results_lost", Certainty::Possible, 4)]);
        assert_eq!(causes(&some, &taken([(40, 0), (36, 4), (40, 0)])), [("results_lost", Certainty::Possible, 4)]);
        let all = run((0, 10), |_, worker| worker != 1);
        let mut never = taken([(40, 0), (0, 40), (40, 0)]);
        assert_eq!(causes(&all, &never), [("worker_unknown", Certainty::Certain, 40)]);
        // Results behind the first one of their block hold this worker's: the device knows it.
        never.entry(2).or_default().later = 40;
        assert_eq!(causes(&all, &never), [("results_lost", Certainty::Possible, 40)]);
    }

    /// A result that says fewer sources than it holds is a wrong sum, and lacks nothing.
    #[test]
    fn wrong_sums_do_not_show_that_contributions_were_lost() {
        let mut run = run((0, 10), |seq, worker| seq % 10 != 3 || worker != 1);
        for (wrong, causes_found) in [(0, 1), (3, 1), (4, 0), (40, 0)] {
            run.manifest.counters.sums_wrong = wrong;
            assert_eq!(causes(&run, &BTreeMap::new()).len(), causes_found, "{wrong}");
        }
    }

    #[test]
    fn a_straggler_is_no_loss_and_neither_is_a_host_that_stood_still_once() {
        for late in [0, 24, 60, 99] {
            assert_eq!(causes(&run((late, 10), |_, _| true), &BTreeMap::new()), [], "{late}");
        }
        // Left out rightly, whatever a capture would say.
        for late in [100, 105, 300] {
            let straggler = run((late, if late == 105 { 700 } else { 10 }), |_, _| true);
            assert!(straggler.results.degraded.contains(&true));
            assert_eq!(causes(&straggler, &taken([(40, 0), (40, 0), (0, 0)])), [], "{late}");
        }
        let once = run((0, 10), |seq, worker| seq != 7 || worker == 0);
        assert_eq!(LeftOut::of(&once).contributions, 2);
        assert_eq!(causes(&once, &BTreeMap::new()), []);
    }
}
