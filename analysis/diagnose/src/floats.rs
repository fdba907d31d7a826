//! Finds wrong sums of updates whose members are proved by lanes, by recomputing them from the captured contributions of workers.

use std::collections::HashMap;

use pktgen_core::Result;
use pktgen_core::arrow::array::{Array, AsArray};
use pktgen_core::arrow::datatypes::{UInt16Type, UInt32Type};
use pktgen_core::record::{LANES, NO_CLUSTER, PAYLOADS};
use pktgen_wire::pcap::Reader;
use pktgen_workload::addition::AdditionError;
use pktgen_workload::lanes::{Answer as LanesSay, Arrived, Layout, Members, SentRows};

use crate::cause::{
    ADDS_WRONGLY, BITS_FLIPPED, BYTE_ORDER, CONTRIBUTION_MISSING, CONTRIBUTION_TWICE, Cause, FIELD_CHANGED,
    WORKER_NOT_MERGED, WRONG_CLUSTER,
};
use crate::evidence::{Arrived as Came, Evidence, each};
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::frame::Datagram;

/// Maximum number of bytes of updates in memory.
const HELD_MAX: usize = 256 << 20;
/// Maximum number of wrong packets that are examined.
const WRONG_MAX: usize = 256;
/// Number of updates before an arrival that are searched for the members of a sum of several clusters.
const RECENT: usize = 256;

/// A wrong packet: its row, the cause, and the number of wrong bits.
struct Wrong {
    row: usize,
    cause: &'static Cause,
    bits: u32,
    says: String,
    /// Whether lanes prove its members: only then the run counts it as a wrong sum.
    is_proved: bool,
}

/// Values of payloads: sent, by row of `sent`, and arrived, by row of `received`.
struct Payloads {
    sent: Vec<Vec<f32>>,
    came: Vec<Vec<f32>>,
}

/// Examines all packets that contain updates; returns false if the necessary data was not recorded.
pub(crate) fn look_at(evidence: &Evidence, found: &mut Vec<CauseFound>) -> Result<bool> {
    let kept = |stream: &str| evidence.dir.join(format!("{stream}.parquet")).exists();
    let layout = evidence.manifest.lanes.as_ref().filter(|layout| layout.proves_sums());
    let (Some(layout), Some(tap)) = (layout, evidence.tap("workers")) else { return Ok(false) };
    if !kept(PAYLOADS) || !kept(LANES) {
        return Ok(false);
    }
    let mut came: Vec<Vec<f32>> = Vec::new();
    each(&evidence.dir, PAYLOADS, &["part", "words"], &mut |batch| {
        let (parts, lists) = (batch["part"].as_primitive::<UInt16Type>(), batch["words"].as_list::<i32>());
        for (at, part) in parts.values().iter().enumerate() {
            if *part == 0 {
                came.push(Vec::new());
            }
            let words = lists.value(at);
            let values = words.as_primitive::<UInt32Type>().values().iter().map(|word| f32::from_bits(*word));
            came.last_mut().unwrap_or(&mut Vec::new()).extend(values);
        }
    })?;
    let len = came.first().map_or(0, Vec::len);
    let Some(sent) = sent(evidence, &tap, len)? else { return Ok(false) };
    let payloads = Payloads { sent, came };
    let heads = Heads::read(evidence)?;
    let members = heads.members(evidence, layout);
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (row, answer) in members.answers.iter().enumerate().take(payloads.came.len()) {
        let verdict = match answer {
            LanesSay::Known => {
                checked += 1;
                let wrong = payloads.of_members(row, members.of(row));
                // Lanes of several clusters may look like those of one.
                let mixed = wrong.as_ref().filter(|wrong| wrong.cause == &ADDS_WRONGLY);
                mixed.and_then(|_| payloads.of_clusters(evidence, row)).or(wrong)
            }
            LanesSay::Contradiction => payloads.of_clusters(evidence, row).or_else(|| heads.of_another(evidence, row)),
            _ => None,
        };
        wrong.extend(verdict.map(|wrong| Wrong { is_proved: *answer == LanesSay::Known, ..wrong }));
        if wrong.len() >= WRONG_MAX {
            break;
        }
    }
    conclude(&wrong, checked, evidence.manifest.counters.sums_wrong, found);
    Ok(!wrong.is_empty())
}

/// Returns the workers whose updates are in packets according to lanes, each with the number of updates in the largest of them; `None` if packets
/// have no such lanes.
pub(crate) fn workers_of_members(evidence: &Evidence) -> Result<Option<HashMap<u32, usize>>> {
    let layout = evidence.manifest.lanes.as_ref().filter(|layout| layout.proves_sums());
    let Some(layout) = layout.filter(|_| evidence.dir.join(format!("{LANES}.parquet")).exists()) else {
        return Ok(None);
    };
    let members = Heads::read(evidence)?.members(evidence, layout);
    let worker = |row: &u32| evidence.sent.packet.get(*row as usize).map(|packet| packet.worker());
    let mut largest: HashMap<u32, usize> = HashMap::new();
    for own in (0..members.answers.len()).map(|row| members.of(row)) {
        for worker in own.iter().filter_map(worker) {
            let most = largest.entry(worker).or_default();
            *most = (*most).max(own.len());
        }
    }
    Ok(Some(largest))
}

/// Returns the values of every transmission that was sent, by row of `sent`; `None` if the capture contains others.
fn sent(evidence: &Evidence, tap: &std::path::Path, len: usize) -> Result<Option<Vec<Vec<f32>>>> {
    let (mut frames, mut to, mut held) = (Vec::new(), None, 0);
    let mut reader = Reader::open(tap)?;
    while let Some(packet) = reader.next()? {
        let Some(datagram) = Datagram::read(packet.bytes) else { continue };
        if *to.get_or_insert(datagram.dst.0) != datagram.dst.0 {
            continue;
        }
        let Some(start) = datagram.payload.len().checked_sub(len * 4) else { return Ok(None) };
        let words = datagram.payload[start..].as_chunks::<4>().0;
        frames.push(words.iter().map(|word| f32::from_le_bytes(*word)).collect::<Vec<_>>());
        held += len * 4;
        if held > HELD_MAX {
            return Ok(None);
        }
    }
    let mut frames = frames.into_iter();
    let times = &evidence.sent.sent_ps;
    let all: Vec<_> = times.iter().map(|t| t.map_or(Some(Vec::new()), |_| frames.next())).collect();
    Ok(all.into_iter().collect::<Option<Vec<_>>>().filter(|_| frames.next().is_none()))
}

/// What packets say of themselves beside their values, by row of `lanes`.
struct Heads {
    clusters: Vec<u16>,
    /// Lanes, and where those of each packet start.
    words: Vec<u32>,
    starts: Vec<usize>,
}

impl Heads {
    fn read(evidence: &Evidence) -> Result<Heads> {
        let mut heads = Heads { clusters: Vec::new(), words: Vec::new(), starts: vec![0] };
        each(&evidence.dir, LANES, &["cluster", "words"], &mut |batch| {
            let clusters = batch["cluster"].as_primitive::<UInt16Type>().iter();
            heads.clusters.extend(clusters.map(|cluster| cluster.unwrap_or(NO_CLUSTER)));
            let lists = batch["words"].as_list::<i32>();
            for row in 0..lists.len() {
                heads.words.extend_from_slice(lists.value(row).as_primitive::<UInt32Type>().values());
                heads.starts.push(heads.words.len());
            }
        })?;
        Ok(heads)
    }

    fn members(&self, evidence: &Evidence, layout: &Layout) -> Members {
        let sent = &evidence.sent;
        let worker: Vec<u32> = sent.packet.iter().map(|packet| packet.worker()).collect();
        let seq: Vec<u32> = sent.packet.iter().map(|packet| packet.seq()).collect();
        let cluster: Vec<u16> = worker.iter().map(|worker| evidence.cluster(*worker)).collect();
        let rows = SentRows { t_sent_ps: &sent.sent_ps, cluster: &cluster, worker: &worker, seq: &seq };
        let manifest = &evidence.manifest;
        let arrived = self.arrivals(&evidence.arrived);
        Members::resolve(layout, &manifest.clusters, rows, arrived, manifest.is_real_time())
    }

    /// Returns the packets whose time and lanes are both known: streams of a killed server may end at different packets.
    fn arrivals<'a>(&'a self, came: &'a Came) -> impl Iterator<Item = Arrived<'a>> {
        let rows = came.recv_ps.iter().zip(&self.clusters).zip(self.starts.windows(2)).enumerate();
        rows.map(move |(row, ((t_recv_ps, cluster), ends))| Arrived {
            t_recv_ps: *t_recv_ps,
            cluster: *cluster,
            worker: self.newest(came, row),
            words: &self.words[ends[0]..ends[1]],
        })
    }

    /// Returns the worker of a packet's newest member by its header.
    fn newest(&self, came: &Came, row: usize) -> Option<u32> {
        came.packet.get(row).copied().flatten().map(|packet| packet.worker())
    }

    /// Finds a packet that names a cluster of which its newest member is not.
    fn of_another(&self, evidence: &Evidence, row: usize) -> Option<Wrong> {
        let (cluster, worker) = (*self.clusters.get(row)?, self.newest(&evidence.arrived, row)?);
        let own = *evidence.manifest.clusters.get(worker as usize)?;
        (own != cluster).then(|| {
            let says =
                format!("it names cluster {cluster}, and its newest member, worker {worker}, is in cluster {own}");
            Wrong { row, cause: &FIELD_CHANGED, bits: 0, says, is_proved: false }
        })
    }
}

/// Whether a value may be a sum of so many values, in any order of additions.
fn near(value: f32, sum: f64, size: f64, members: usize) -> bool {
    value == sum as f32 || AdditionError::F32.allows(value.into(), sum, size, members as u32)
}

impl Payloads {
    /// Returns what is wrong with a packet of these members; `None` if it is correct.
    fn of_members(&self, row: usize, members: &[u32]) -> Option<Wrong> {
        let came = &self.came[row];
        let own: Vec<&Vec<f32>> = members.iter().filter_map(|member| self.sent.get(*member as usize)).collect();
        if own.is_empty() || own.iter().any(|own| own.len() != came.len()) {
            return None;
        }
        let sum = |at: usize| own.iter().map(|own| f64::from(own[at])).sum::<f64>();
        let size = |at: usize| own.iter().map(|own| f64::from(own[at]).abs()).sum::<f64>();
        // The rule of the verdict: one member is itself, bit for bit.
        let is_right = |at: usize, value: f32| match own[..] {
            [one] => value.to_bits() == one[at].to_bits(),
            _ => near(value, sum(at), size(at), own.len()),
        };
        let differing: Vec<usize> = (0..came.len()).filter(|at| !is_right(*at, came[*at])).collect();
        let first = *differing.first()?;
        let odd =
            format!("value {first} is {}, and the sum of its {} members is {}", came[first], own.len(), sum(first));
        let wrong = |cause, says: String| Some(Wrong { row, cause, bits: 0, says, is_proved: true });
        let swapped = |at: usize| f32::from_bits(came[at].to_bits().swap_bytes());
        if differing.iter().all(|at| is_right(*at, swapped(*at))) && differing.len() > 2 {
            return wrong(&BYTE_ORDER, format!("{odd}: right if bytes are reversed"));
        }
        let with = |other: &&&Vec<f32>, sign: f64| {
            let more = sign.max(0.0);
            let is_so = |at: usize| {
                let value = f64::from(other[at]);
                near(came[at], sum(at) + sign * value, size(at) + more * value.abs(), own.len() + more as usize)
            };
            // Zeros change no sum.
            other.iter().any(|value| *value != 0.0) && (0..came.len()).all(is_so)
        };
        if own.iter().any(|other| with(&other, -1.0)) {
            return wrong(&CONTRIBUTION_MISSING, format!("{odd}: one member is not in it"));
        }
        if own.iter().any(|other| with(&other, 1.0)) {
            return wrong(&CONTRIBUTION_TWICE, format!("{odd}: one member is in it twice"));
        }
        if let [at] = differing[..] {
            let flips = (0..32).filter(|bit| is_right(at, f32::from_bits(came[at].to_bits() ^ 1 << bit)));
            return Some(Wrong {
                row,
                cause: &BITS_FLIPPED,
                bits: if flips.count() > 0 { 1 } else { 2 },
                says: odd,
                is_proved: true,
            });
        }
        wrong(&ADDS_WRONGLY, format!("{odd}, and {} more differ", differing.len() - 1))
    }

    /// Finds sums of two updates of different clusters if lanes contradict each other.
    fn of_clusters(&self, evidence: &Evidence, row: usize) -> Option<Wrong> {
        let (came, t) = (&self.came[row], *evidence.arrived.recv_ps.get(row)?);
        let sent = &evidence.sent;
        let end = sent.sent_ps.partition_point(|sent| sent.is_none_or(|sent| sent <= t));
        let recent = || (end.saturating_sub(RECENT)..end).filter(|at| self.sent[*at].len() == came.len());
        // Values beyond the range prove nothing of others than their rounded sum.
        let is_sum = |a: usize, b: usize| {
            (0..came.len()).all(|at| {
                let (a, b) = (f64::from(self.sent[a][at]), f64::from(self.sent[b][at]));
                let (sum, size) = (a + b, a.abs() + b.abs());
                came[at] == sum as f32 || !AdditionError::F32.is_open(size, 2) && near(came[at], sum, size, 2)
            })
        };
        let cluster = |at: usize| evidence.cluster(sent.packet[at].worker());
        let pair = recent().find_map(|a| recent().take_while(|b| *b < a).find(|b| is_sum(a, *b)).map(|b| (a, b)));
        let (a, b) = pair.filter(|(a, b)| cluster(*a) != cluster(*b))?;
        let of = |at: usize| {
            format!("number {} of worker {}, cluster {}", sent.packet[at].seq(), sent.packet[at].worker(), cluster(at))
        };
        let says = format!("it is the sum of {} and {}", of(a), of(b));
        Some(Wrong { row, cause: &WRONG_CLUSTER, bits: 0, says, is_proved: false })
    }
}

fn conclude(wrong: &[Wrong], checked: usize, reported: u64, found: &mut Vec<CauseFound>) {
    // One flipped bit may also be a wrong addition, which is assumed if others are wrong by more.
    let flips = wrong.iter().filter(|wrong| wrong.cause == &BITS_FLIPPED && wrong.bits == 1).count();
    let others = wrong.iter().filter(|wrong| wrong.cause == &ADDS_WRONGLY || wrong.bits > 1).count();
    let added = others * 4 > flips;
    let cause = |wrong: &Wrong| if wrong.cause == &BITS_FLIPPED && added { &ADDS_WRONGLY } else { wrong.cause };
    let mut causes: Vec<&'static Cause> = Vec::new();
    for wrong in wrong {
        if !causes.contains(&cause(wrong)) {
            causes.push(cause(wrong));
        }
    }
    let mixed = causes.contains(&&WRONG_CLUSTER);
    for known in found.iter_mut().filter(|found| mixed && found.cause == &WORKER_NOT_MERGED) {
        known.certainty = Certainty::Likely;
    }
    let proved = wrong.iter().filter(|wrong| wrong.is_proved).count() as u64;
    for own in causes {
        let those: Vec<&Wrong> = wrong.iter().filter(|wrong| cause(wrong) == own).collect();
        let n = those.len() as u64;
        let says = match own.code {
            // Such a packet proves no members to make it again of.
            "field_changed" => format!("{}; {n} packets are so", those[0].says),
            _ => format!("{}; {n} packets are wrong so, of {checked} that were made again", those[0].says),
        };
        // A sum of updates of two clusters that is correct in every value is proof; sums of more clusters are not recomputed.
        let certainty = match own.code {
            "wrong_cluster" => Certainty::Certain,
            "adds_wrongly" | "field_changed" if mixed => Certainty::Possible,
            "bits_flipped" if n < 4 => Certainty::Possible,
            _ => Certainty::Likely,
        };
        let proof = EvidenceItem::packet("received.parquet, by rows", those[0].row as u64 + 1, says);
        // Only packets of proved members have a share of the wrong sums.
        let of_proved = those.iter().filter(|wrong| wrong.is_proved).count() as u64;
        let explains = n - of_proved + reported.max(proved) * of_proved / proved.max(1);
        match found.iter_mut().find(|found| found.cause == own) {
            Some(known) => known.proofs.push(proof),
            None => found.push(CauseFound::new(own, certainty, explains, vec![proof])),
        }
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::PacketId;

    use super::*;
    use crate::evidence::manifest;

    fn heads(clusters: &[u16], starts: &[usize]) -> Heads {
        Heads { clusters: clusters.to_vec(), words: vec![1, 2, 3], starts: starts.to_vec() }
    }

    #[test]
    fn packets_without_a_time_or_lanes_are_left_out() {
        let read = |recv_ps: &[i64], clusters: &[u16], starts: &[usize]| -> Vec<(i64, u16, Vec<u32>)> {
            let came = Came { recv_ps: recv_ps.to_vec(), ..Came::default() };
            let heads = heads(clusters, starts);
            let packets = heads.arrivals(&came);
            packets.map(|packet| (packet.t_recv_ps, packet.cluster, packet.words.to_vec())).collect()
        };
        let both = [(5, 0, vec![1]), (9, 1, vec![2, 3])];
        assert_eq!(read(&[5, 9], &[0, 1], &[0, 1, 3]), both);
        assert_eq!(read(&[5], &[0, 1], &[0, 1, 3]), both[..1], "lanes are ahead");
        assert_eq!(read(&[5, 9], &[0], &[0, 1]), both[..1], "times are ahead");
    }

    /// Many roundings in one direction, sums beyond f32's range, and values of one update or of two.
    #[test]
    fn sums_are_judged_by_the_rule_of_the_verdict() {
        let u = 2f32.powi(-24);
        let of = |sent: Vec<Vec<f32>>, came: Vec<f32>| {
            let all: Vec<u32> = (0..sent.len() as u32).collect();
            Payloads { sent, came: vec![came] }.of_members(0, &all).map(|wrong| wrong.cause.code)
        };
        let up = (0..23).fold(1f32, |sum, _| sum + 1.02 * u);
        let mut small = vec![vec![1.02 * u, 1.0]; 23];
        small.push(vec![1.0, 1.0]);
        assert_eq!(of(small.clone(), vec![up, 24.0]), None);
        assert_eq!(of(small, vec![up, 24.5]), Some("bits_flipped"), "the first value is right");
        assert_eq!(of(vec![vec![3e38]; 2], vec![f32::INFINITY]), None);
        assert_eq!(of(vec![vec![3e38, 1.0]; 2], vec![f32::INFINITY, 2.5]), Some("bits_flipped"));
        let off = f32::from_bits(3f32.to_bits() + 5);
        assert!(of(vec![vec![1.0], vec![2.0]], vec![off]).is_some());
        assert_eq!(of(vec![vec![1.5]], vec![1.5]), None);
        assert_eq!(of(vec![vec![0.0]], vec![-0.0]), Some("bits_flipped"), "one update is itself");
    }

    /// Headers that contradict themselves have a cause, which has no share of the wrong sums.
    #[test]
    fn a_cluster_of_which_the_newest_member_is_not_is_a_changed_field() {
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest(&[0, 0, 1]));
        evidence.arrived.recv_ps = vec![5, 9];
        evidence.arrived.packet = vec![Some(PacketId::new(1, 7, 0)); 2];
        let heads = heads(&[0, 1], &[0, 1, 3]);
        let of = |heads: &Heads| -> Vec<Wrong> { (0..3).filter_map(|row| heads.of_another(&evidence, row)).collect() };
        let wrong = of(&heads);
        let [one] = &wrong[..] else { panic!("{} packets", wrong.len()) };
        assert_eq!((one.row, &*one.says), (1, "it names cluster 1, and its newest member, worker 1, is in cluster 0"));
        let mut found = Vec::new();
        conclude(&wrong, 0, 0, &mut found);
        let said: Vec<_> = found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect();
        assert_eq!(said, [("field_changed", Certainty::Likely, 1)]);
        let mut wrong = wrong;
        let of = |cause, is_proved| Wrong { row: 0, cause, bits: 9, says: String::new(), is_proved };
        wrong.extend([of(&ADDS_WRONGLY, true), of(&WRONG_CLUSTER, false)]);
        let conclude = |wrong: &[Wrong]| -> Vec<_> {
            let mut found = Vec::new();
            conclude(wrong, 1, 1000, &mut found);
            found.iter().map(|found| (found.cause.code, found.explains)).collect()
        };
        assert_eq!(conclude(&wrong), [("field_changed", 1), ("adds_wrongly", 1000), ("wrong_cluster", 1)]);
        // Half of the packets with proved members are sums of two clusters.
        wrong.push(of(&WRONG_CLUSTER, true));
        assert_eq!(conclude(&wrong), [("field_changed", 1), ("adds_wrongly", 500), ("wrong_cluster", 501)]);
    }
}
