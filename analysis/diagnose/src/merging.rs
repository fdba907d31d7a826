//! Devices that merge updates under load: finds that none are merged, that some workers' never are, and that answers do not come back.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pktgen_core::Result;
use pktgen_core::record::{AckCopies, NO_CLUSTER};

use crate::cause::{
    ACKS_LOST, ACKS_TO_SOME, COPIES, DEVICE_DROPS, NOT_MERGED, WORKER_NOT_MERGED, WORKER_UNKNOWN, WRONG_DESTINATION,
};
use crate::counted::{DOWN_GIVEN, UP_TAKEN};
use crate::crossing::{Crossing, OfSource};
use crate::evidence::Evidence;
use crate::finding::{CauseFound, Certainty, EvidenceItem};
use crate::floats;
use crate::links::LostOnLinks;
use crate::meetings::meetings;

/// Minimum number of packets for a statement.
const FEW: u64 = 20;
/// Packets of several updates explain losses if they hold at least one in this many of the missing updates.
const HELD_SHARE: u64 = 4;

/// Ends of a worker's updates: packets that contain one, and others; by worker id or by address.
struct Share {
    who: String,
    /// Its worker id, if known.
    worker: Option<u32>,
    /// Its cluster; `None` if the worker is unknown.
    cluster: Option<u16>,
    sent: u64,
    alone: u64,
    merged: u64,
}

/// Packets of one update, and how many of them met one of another worker of their cluster in the queue.
struct Met {
    packets: u64,
    met: u64,
}

impl Met {
    /// Returns how sure it is that more of them met another than those of workers that are merged, which late hosts and links behind the device
    /// make seem to have met one; `None` if no more did, by a clock on which no host is late.
    fn above(&self, merged: &Met, is_real: bool) -> Option<Certainty> {
        if merged.packets < FEW {
            return Some(Certainty::Possible);
        }
        let is_above = 2 * self.met * (merged.packets + 1) > 3 * self.packets * (merged.met + 1);
        match (is_above, is_real) {
            (true, _) => Some(Certainty::Certain),
            (false, true) => Some(Certainty::Possible),
            (false, false) => None,
        }
    }
}

/// Finds problems of merging; `on_links` frames were lost on links, as shown by counters of their ends.
pub(crate) fn look(
    evidence: &Evidence,
    crossing: Option<&Crossing>,
    on_links: LostOnLinks,
    found: &mut Vec<CauseFound>,
) -> Result<()> {
    let shares = shares(evidence, crossing);
    let (alone, merged) =
        shares.iter().fold((0, 0), |(alone, merged), share| (alone + share.alone, merged + share.merged));
    let (left, came) = (evidence.left(), alone + merged);
    // Counts do not say in which cluster a worker was that moved.
    let moved = evidence.moved();
    // The only worker of a cluster has nothing to be merged with: its updates are replaced.
    let clusters: BTreeSet<u16> = shares.iter().filter_map(|share| share.cluster).collect();
    let may_merge = (!moved.is_empty() || clusters.len() < shares.len()) && !has_proven_sums(evidence);
    if may_merge && merged == 0 && came >= 50 && came + left / 10 < left && !on_links.may_explain(left - came) {
        let says = format!("all {came} packets hold one update each, and {left} were sent");
        // If rewards are compared, a correct device may drop what it does not merge (OLAF §3).
        let compares = evidence.flag("target", "reward_filter");
        // A device that merges nothing drops what it has no space for. One that need not merge has drops of its own if it counted them.
        let is_own = |found: &CauseFound| compares && found.certainty == Certainty::Certain;
        found.retain(|found| found.cause != &DEVICE_DROPS || is_own(found));
        found.push(CauseFound::new(
            &NOT_MERGED,
            if compares { Certainty::Possible } else { Certainty::Likely },
            left - came,
            vec![EvidenceItem::new("received.parquet", says)],
        ));
    }
    if merged == 0 {
        return Ok(());
    }
    // The only worker of a cluster whose packets arrive has nothing to be merged with.
    let comes = |other: &Share| other.alone + other.merged > 0;
    let stays = |own: &Share| own.worker.is_none_or(|worker| !moved.contains(&worker));
    let mate = |own: &Share, other: &Share| {
        other.who != own.who && other.cluster == own.cluster && comes(other) && stays(other)
    };
    let has_mates = |own: &Share| stays(own) && (own.cluster.is_none() || shares.iter().any(|other| mate(own, other)));
    let mut never: Vec<_> = shares.iter().filter(|own| own.merged == 0 && own.alone >= FEW && has_mates(own)).collect();
    // A worker may never meet a mate, as with constant gaps.
    let met = if never.is_empty() { HashMap::new() } else { meetings(evidence, &moved) };
    let met = |own: &Share| own.worker.and_then(|worker| met.get(&worker)).copied().unwrap_or(0);
    let met_in_cluster = |own: &Share| {
        let others = shares.iter().filter(|other| other.merged == 0 && other.cluster == own.cluster);
        others.map(met).sum::<u64>()
    };
    never.retain(|own| met(own) > 0 && met_in_cluster(own) >= FEW);
    let mean = came as f64 / shares.len().max(1) as f64;
    let gone: Vec<_> =
        shares.iter().filter(|own| own.sent >= FEW && own.alone + own.merged == 0 && mean > 16.0).collect();
    let members = if never.is_empty() && gone.is_empty() { None } else { floats::workers_of_members(evidence)? };
    // Packets name the worker of their newest member: one that is always an older member is merged, too.
    if let Some(members) = &members {
        never.retain(|own| own.worker.and_then(|worker| members.get(&worker)).is_none_or(|most| *most < 2));
    }
    if !never.is_empty() {
        let met = |shares: &[&Share]| Met {
            packets: shares.iter().map(|own| own.alone).sum(),
            met: shares.iter().map(|own| met(own)).sum(),
        };
        let others: Vec<&Share> = shares.iter().filter(|own| own.merged > 0).collect();
        let certainty = met(&never).above(&met(&others), evidence.is_real());
        found.extend(certainty.map(|certainty| not_merged(&never, met(&never), (merged, came), certainty)));
    }
    let leaks = found.iter().find(|found| found.cause == &DEVICE_DROPS).map_or(0, |found| found.explains);
    found.extend(unknown(evidence, &shares, gone, members.as_ref(), (mean, leaks)));
    Ok(())
}

/// Returns the cause of workers whose updates are `never` merged, though some met others, while so many of all packets hold several.
fn not_merged(
    never: &[&Share],
    Met { packets, met }: Met,
    (merged, came): (u64, u64),
    certainty: Certainty,
) -> CauseFound {
    let names = never.iter().map(|own| own.who.as_str()).collect::<Vec<_>>().join(", ");
    let says = format!(
        "all {packets} packets of {names} hold one update, and {met} of them were in the queue with another of their cluster; {merged} of {came} \
         packets hold several"
    );
    let proofs = vec![
        EvidenceItem::new("received.parquet", says),
        EvidenceItem::new("device table", format!("the cluster of {names}")),
    ];
    CauseFound::new(&WORKER_NOT_MERGED, certainty, packets, proofs)
}

/// Whether lanes prove sums of several updates: a device may leave the number in packets at 1.
fn has_proven_sums(evidence: &Evidence) -> bool {
    evidence.manifest.unseen.as_ref().is_some_and(|unseen| unseen.smallest_error.is_some())
}

/// Finds workers whose ids are in no packet: they are unknown to the device, or others always send after them, as lanes show by `members`. Each
/// of the others is named by `mean` packets; the device `leaks` this many frames by its own counters.
fn unknown(
    evidence: &Evidence,
    shares: &[Share],
    mut gone: Vec<&Share>,
    members: Option<&HashMap<u32, usize>>,
    (mean, leaks): (f64, u64),
) -> Option<CauseFound> {
    if gone.is_empty() || gone.len() == shares.len() || !evidence.moved().is_empty() {
        return None;
    }
    let mut certainty = Certainty::Likely;
    if let Some(members) = members {
        gone.retain(|own| own.worker.is_some_and(|worker| !members.contains_key(&worker)));
    } else if evidence.text("transport", "on_wire") == "strict" {
        certainty = Certainty::Possible;
    } else {
        // Packets contain their number of updates: it exceeds the updates of the others only if some belong to these workers.
        let mut held: BTreeMap<u16, u64> = BTreeMap::new();
        for (packet, count) in evidence.arrived.packet.iter().zip(&evidence.arrived.count) {
            let cluster = packet.map_or(NO_CLUSTER, |packet| evidence.cluster(packet.worker()));
            *held.entry(cluster).or_default() += u64::from(*count);
        }
        let of_cluster = |own: &Share| own.cluster.and_then(|cluster| held.get(&cluster)).copied().unwrap_or(0);
        let named = |own: &Share| {
            let others = shares.iter().filter(|other| other.cluster == own.cluster && other.alone + other.merged > 0);
            others.map(|other| other.sent).sum::<u64>()
        };
        gone.retain(|own| of_cluster(own) <= named(own));
        // If many updates are replaced, their number is less conclusive.
        if gone.iter().any(|own| of_cluster(own) * 2 < named(own)) {
            certainty = Certainty::Possible;
        }
    }
    let frames: u64 = gone.iter().map(|own| own.sent).sum();
    // The frames that the device does not account for are those that they sent.
    if leaks.abs_diff(frames).saturating_mul(50) <= frames {
        certainty = Certainty::Likely;
    }
    let names: Vec<_> = gone.iter().map(|own| own.who.as_str()).collect();
    let says = format!(
        "no packet is of {}, who sent {frames}; others are the newest of {mean:.0} packets each",
        names.join(", ")
    );
    let proofs = vec![EvidenceItem::new("received.parquet", says)];
    (!names.is_empty()).then(|| CauseFound::new(&WORKER_UNKNOWN, certainty, frames, proofs))
}

fn shares(evidence: &Evidence, crossing: Option<&Crossing>) -> Vec<Share> {
    let mut sent: BTreeMap<u32, u64> = BTreeMap::new();
    for (packet, t) in evidence.sent.packet.iter().zip(&evidence.sent.sent_ps) {
        *sent.entry(packet.worker()).or_default() += u64::from(t.is_some());
    }
    let strict = evidence.text("transport", "on_wire") == "strict";
    match (strict, crossing) {
        // No packet contains its number of updates: it is one if the packet equals one that was sent. Addresses identify workers.
        (true, Some(crossing)) => {
            let mut sources: Vec<_> = crossing.by_source.iter().collect();
            sources.sort_unstable();
            let all = sources.len() == evidence.manifest.clusters.len();
            let of = |(worker, (ip, own)): (usize, (&u32, &OfSource))| {
                let [a, b, c, d] = ip.to_be_bytes();
                let cluster = all.then(|| evidence.cluster(worker as u32));
                let worker = all.then_some(worker as u32);
                Share {
                    who: format!("{a}.{b}.{c}.{d}"),
                    worker,
                    cluster,
                    sent: own.sent,
                    alone: own.same,
                    merged: own.other,
                }
            };
            sources.into_iter().enumerate().map(of).collect()
        }
        // By contents only: a packet that equals none that was sent contains several updates.
        (true, None) if !has_proven_sums(evidence) => {
            let came = evidence.arrived.packet.len() as u64;
            let alone = evidence.arrived.packet.iter().flatten().count() as u64;
            let sent = sent.values().sum();
            let who = "all workers".to_owned();
            vec![Share { who, worker: None, cluster: None, sent, alone, merged: came - alone }]
        }
        // Where lanes prove sums without ids, addresses identify the worker of the newest member, and contents single updates.
        _ => {
            let mut of: BTreeMap<u32, Share> = sent
                .into_iter()
                .map(|(worker, sent)| {
                    let cluster = Some(evidence.cluster(worker));
                    let who = format!("worker {worker}");
                    (worker, Share { who, worker: Some(worker), cluster, sent, alone: 0, merged: 0 })
                })
                .collect();
            let arrived = &evidence.arrived;
            for (row, (packet, count)) in arrived.packet.iter().zip(&arrived.count).enumerate() {
                let by_address = || arrived.newest.get(row).copied().filter(|_| strict);
                let worker = packet.map(|packet| packet.worker()).or_else(by_address);
                let Some(share) = worker.and_then(|worker| of.get_mut(&worker)) else { continue };
                let several = if strict { packet.is_none() } else { *count > 1 };
                *if several { &mut share.merged } else { &mut share.alone } += 1;
            }
            of.into_values().collect()
        }
    }
}

/// Returns what is not known of a device that is set up to forward if packets say, or prove by lanes, that they hold several updates: those
/// that did not come may be in them. Numbers beyond all that was sent are wrong, and those that hold few of the missing updates may be damage.
pub(crate) fn not_only_forwarded(evidence: &Evidence) -> Option<String> {
    // Copies hold nothing that the first one does not hold.
    let arrived = evidence.arrived.count.iter().enumerate();
    let counts: Vec<u16> = arrived.filter(|(at, _)| !came_again(evidence, *at)).map(|(_, count)| *count).collect();
    let several = counts.iter().filter(|count| **count > 1).count();
    let stated: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    // Updates beyond one for each packet.
    let more = stated.saturating_sub(counts.len() as u64);
    let missing = evidence.left().saturating_sub(counts.len() as u64);
    let says = if several == 1 { "packet says that it holds" } else { "packets say that they hold" };
    let what = match several {
        _ if has_proven_sums(evidence) => "lanes prove sums of several updates".to_owned(),
        1.. if stated <= evidence.left() && more * HELD_SHARE >= missing => format!("{several} {says} several updates"),
        _ => return None,
    };
    Some(format!(
        "which updates are lost: {what}, so the device does not only forward; say what it does (target.program, target.queue), or set it up to \
         forward, and run again"
    ))
}

/// Whether an arrival is of a transmission that had arrived.
fn came_again(evidence: &Evidence, at: usize) -> bool {
    evidence.join.sent(at).is_some() && evidence.join.first(at).is_none()
}

/// Finds packets that arrived more than once.
pub(crate) fn copies(evidence: &Evidence, crossing: Option<&Crossing>) -> Option<CauseFound> {
    let counted = match &evidence.manifest.unseen {
        Some(unseen) => unseen.duplicates,
        None if evidence.manifest.external.is_some() => 0,
        // Where the device keeps books, rows show them.
        None => (0..evidence.arrived.packet.len()).filter(|at| came_again(evidence, *at)).count() as u64,
    };
    let seen = crossing.map(|crossing| &crossing.copies).filter(|copies| copies.frames > 0);
    let frames = counted.max(seen.map_or(0, |copies| copies.frames));
    if frames == 0 || evidence.is_results() {
        return None;
    }
    let proof = seen.map(|copies| EvidenceItem::packet("tap of the server", copies.first, copies.says.clone()));
    // Copies of Libra's results have no rows.
    let at = if evidence.manifest.unseen.is_some() { "manifest.json, unseen.duplicates" } else { "received.parquet" };
    let proofs = [EvidenceItem::new(at, format!("{frames} packets came again"))].into_iter().chain(proof).collect();
    Some(CauseFound::new(&COPIES, Certainty::Certain, frames, proofs))
}

/// Finds answers that the server sent and that did not arrive; `on_links` were lost on links, as shown by counters of their ends.
pub(crate) fn answers(evidence: &Evidence, on_links: LostOnLinks) -> Option<CauseFound> {
    let counters = &evidence.manifest.counters;
    let missing = counters.acks_sent.saturating_sub(counters.acks_received);
    // The way back ends where an interface went down, and files have none.
    let is_up = |end: &str| evidence.interfaces(end).all(|counts| counts.state != "down");
    let has_way_back = !evidence.is_over_files() && ["device.up", "device.down", "workers"].into_iter().all(is_up);
    let whole = evidence.manifest.part.is_none() && has_way_back;
    if !whole || evidence.is_killed() || missing == 0 || on_links.may_explain(missing) {
        return None;
    }
    let (sent, counted, senders) = (counters.acks_sent, counters.acks_received, evidence.senders());
    // Each sender counts its own copy of what goes to a group: fewer came than were counted.
    let says = match senders > 1 && !evidence.forwards() {
        true => format!(
            "{sent} answers were sent, and {senders} senders counted {counted} copies of them: at least {missing} did not come"
        ),
        false => format!("{sent} answers were sent, {counted} came"),
    };
    let mut proofs = vec![EvidenceItem::new("manifest.json, counters", says)];
    let (took, gave) = (evidence.device(UP_TAKEN), evidence.device(DOWN_GIVEN));
    proofs.extend(
        [took, gave]
            .into_iter()
            .flatten()
            .map(|(name, n)| EvidenceItem::new(format!("device counter {name}"), n.to_string())),
    );
    let dropped = counters.acks_dropped;
    proofs.extend((dropped > 0).then(|| EvidenceItem::new("counter acks_dropped", format!("{dropped} in the device"))));
    let shown = dropped > 0 || took.zip(gave).is_some_and(|((_, took), (_, gave))| took > gave);
    // A few may be in flight when a run ends.
    let certainty = match (shown, missing > (counters.acks_sent / 100).max(5)) {
        (true, _) => Certainty::Certain,
        (false, true) => Certainty::Likely,
        (false, false) => Certainty::Possible,
    };
    Some(CauseFound::new(&ACKS_LOST, certainty, missing, proofs))
}

/// Returns what is not known of the answers in a run of several senders: each of them counts a copy of what goes to a cluster's group, so
/// all came only if every sender counted every answer. A forwarder passes an answer to one worker, and so to one sender.
pub(crate) fn unknown_answers(evidence: &Evidence) -> Option<String> {
    let (counters, senders) = (&evidence.manifest.counters, evidence.senders() as u64);
    let (sent, counted) = (counters.acks_sent, counters.acks_received);
    let counts_copies = senders > 1 && !evidence.forwards() && !evidence.is_killed();
    (counts_copies && counted >= sent && counted < sent.saturating_mul(senders)).then(|| {
        format!(
            "how many answers came: {sent} were sent, and {senders} senders counted {counted}, each its own copies of those to a group; run with one sender"
        )
    })
}

/// Finds answers of which no copy left the device at any of its ports, unless they were `found` by the counts of both ends. Workers at several
/// ports count each copy.
fn lost_at_ports(acks: &AckCopies, found: &[CauseFound]) -> Option<CauseFound> {
    let known = found.iter().any(|found| found.cause == &ACKS_LOST);
    // A few may be in the device when a run ends.
    if known || acks.lost <= (acks.acks / 100).max(5) {
        return None;
    }
    let says = format!("{} answers reached the device, and no copy of {} of them left it", acks.acks, acks.lost);
    let proof = EvidenceItem::new("manifest.json, acks", says);
    Some(CauseFound::new(&ACKS_LOST, Certainty::Likely, acks.lost, vec![proof]))
}

/// Finds answers that did not reach all their workers, or reached some more than once; the captures showed `shown` of them at Ethernet
/// addresses of no worker.
pub(crate) fn copies_of_answers(evidence: &Evidence, shown: u64, found: &mut Vec<CauseFound>) {
    let Some(acks) = evidence.manifest.unseen.as_ref().and_then(|unseen| unseen.acks) else { return };
    if acks.elsewhere > shown * 2 {
        let says = format!("{} answers came with the Ethernet address of another", acks.elsewhere);
        let proof = EvidenceItem::new("manifest.json, acks", says);
        found.push(CauseFound::new(&WRONG_DESTINATION, Certainty::Certain, acks.elsewhere, vec![proof]));
    }
    if acks.again > 0 {
        let says = format!("{} answers more left the device than are for the workers at its ports", acks.again);
        // Without groups, a device may have sent answers also to workers that they are not addressed to.
        let certainty = if acks.group { Certainty::Certain } else { Certainty::Likely };
        // Neither are these among the transmissions that a cause explains.
        found.push(CauseFound::new(&COPIES, certainty, 0, vec![EvidenceItem::new("manifest.json, acks", says)]));
    }
    // A forwarder passes each answer to the worker that it is addressed to.
    if !acks.group || evidence.forwards() || acks.acks == 0 {
        return;
    }
    let received = evidence.manifest.counters.acks_received;
    let counted = acks.acks.saturating_sub(received);
    let (lost, of_counted) = (counted.max(acks.lost), counted * acks.expected.div_ceil(acks.acks));
    let of_lost = of_counted.max(acks.lost_copies).min(acks.expected);
    let at_ports = lost_at_ports(&acks, found);
    found.extend(at_ports);
    let lacks = acks.expected.saturating_sub(acks.seen + acks.elsewhere + of_lost);
    // Copies are not among the transmissions that a cause explains.
    if lacks * 100 > acks.expected {
        // Workers at several ports count each copy: which of them lack the same answers is then not known.
        let counts_copies = received > acks.acks;
        let says = format!(
            "the {} answers {} are for {} workers, and came to {}",
            acks.acks.saturating_sub(lost),
            if counts_copies && lost == 0 { "of the server" } else { "that came" },
            acks.expected - of_lost,
            acks.seen
        );
        let proofs = vec![
            EvidenceItem::new("manifest.json, acks", says),
            EvidenceItem::new("device table", "the members of the multicast groups"),
        ];
        // A device that only forwards passes an answer to one worker.
        let merges = found.iter().all(|found| found.cause != &NOT_MERGED);
        let certainty = match (merges, counts_copies) {
            (true, false) => Certainty::Certain,
            (true, true) => Certainty::Likely,
            (false, _) => Certainty::Possible,
        };
        found.push(CauseFound::new(&ACKS_TO_SOME, certainty, 0, proofs));
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::{Manifest, PacketId, Unseen};

    use super::*;
    use crate::evidence::manifest;

    /// Returns the causes if worker 0 is merged with nobody, and 1 and 3 with others. Workers send so long after each other, every 1000 ps; one
    /// in eight packets takes 5 ps, and the others 50.
    fn causes_of(config: &str, behind: i64) -> Vec<(&'static str, Certainty)> {
        let mut manifest = manifest(&[0, 0, 1, 1]);
        manifest.config = config.to_owned();
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
        for (worker, seq) in (0..4).flat_map(|worker| (0..40).map(move |seq| (worker, seq))) {
            let (packet, sent) = (PacketId::new(worker, seq, 0), i64::from(seq) * 1000 + i64::from(worker) * behind);
            evidence.sent.packet.push(packet);
            evidence.sent.sent_ps.push(Some(sent));
            if worker != 2 {
                evidence.arrived.recv_ps.push(sent + if seq % 8 == 0 { 5 } else { 50 });
                evidence.arrived.packet.push(Some(packet));
                evidence.arrived.count.push(1 + u16::from(worker != 0));
            }
        }
        evidence.join = crate::join::Join::new(&evidence.sent.packet, evidence.arrived.packet.iter().copied());
        let mut found = Vec::new();
        look(&evidence, None, LostOnLinks::NONE, &mut found).unwrap();
        found.iter().map(|found| (found.cause.code, found.certainty)).collect()
    }

    fn causes(config: &str) -> Vec<&'static str> {
        causes_of(config, 10).into_iter().map(|(code, _)| code).collect()
    }

    /// Returns the causes if half of the updates of four workers arrive, alone, with those in `before` found first.
    fn causes_of_half(manifest: Manifest, before: &[(&'static crate::cause::Cause, Certainty)]) -> Vec<&'static str> {
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
        for (worker, seq) in (0..4).flat_map(|worker| (0..40).map(move |seq| (worker, seq))) {
            evidence.sent.packet.push(PacketId::new(worker, seq, 0));
            evidence.sent.sent_ps.push(Some(i64::from(seq)));
            if seq % 2 == 0 {
                evidence.arrived.packet.push(Some(PacketId::new(worker, seq, 0)));
                evidence.arrived.count.push(1);
            }
        }
        let mut found: Vec<_> =
            before.iter().map(|(cause, certainty)| CauseFound::new(cause, *certainty, 80, Vec::new())).collect();
        look(&evidence, None, LostOnLinks::NONE, &mut found).unwrap();
        found.iter().map(|found| found.cause.code).collect()
    }

    /// Each sender counts a copy of an answer to a group.
    #[test]
    fn copies_are_none_of_the_missing_updates() {
        let mut evidence = Evidence::of(std::path::Path::new(""), manifest(&[0, 0]));
        for at in 0..400u32 {
            let packet = PacketId::new(at % 2, at / 2, 0);
            evidence.sent.packet.push(packet);
            evidence.sent.sent_ps.push(Some(at.into()));
            // 40 are lost, and 36 come twice.
            let times = if at % 10 == 5 { 0 } else { 1 + usize::from(at % 10 == 0 && at < 360) };
            evidence.arrived.packet.extend(std::iter::repeat_n(Some(packet), times));
            evidence.arrived.count.extend(std::iter::repeat_n(1, times));
        }
        evidence.join = crate::join::Join::new(&evidence.sent.packet, evidence.arrived.packet.iter().copied());
        evidence.arrived.count[0] = 2;
        assert_eq!(not_only_forwarded(&evidence), None);
        evidence.arrived.count[0] = 11;
        assert!(not_only_forwarded(&evidence).is_some());
    }

    #[test]
    fn answers_of_several_senders_are_known_if_all_counted_all() {
        let of = |senders: usize, counted: u64, program: &str| {
            let mut manifest = manifest(&[0, 0]);
            manifest.config = format!("[target]\nprogram = \"{program}\"\n");
            (manifest.counters.acks_sent, manifest.counters.acks_received) = (450, counted);
            for rank in 0..senders {
                manifest.host.insert(format!("rank-{rank}.rank.role"), format!("workers {}/{senders}", rank + 1));
            }
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            let lost = answers(&evidence, LostOnLinks::NONE).map(|lost| {
                assert_eq!(lost.proofs[0].says.contains("at least 150"), senders > 1, "{}", lost.proofs[0].says);
                (lost.cause.code, lost.explains)
            });
            (lost, unknown_answers(&evidence).is_some())
        };
        assert_eq!([of(3, 675, "iswitch"), of(2, 450, "iswitch")], [(None, true); 2]);
        assert_eq!([of(3, 1350, "iswitch"), of(1, 450, "iswitch"), of(2, 450, "forward")], [(None, false); 3]);
        assert_eq!([of(3, 300, "iswitch"), of(1, 300, "iswitch")], [(Some(("acks_lost", 150)), false); 2]);
    }

    #[test]
    fn answers_that_workers_have_twice_are_copies() {
        let found = |again: u64, group: bool| {
            let mut manifest = manifest(&[0, 0]);
            manifest.counters.acks_received = 450;
            let acks = AckCopies { acks: 450, expected: 900, seen: 900, again, group, ..AckCopies::default() };
            manifest.unseen = Some(Unseen { merges: true, acks: Some(acks), ..Unseen::default() });
            let mut found = Vec::new();
            copies_of_answers(&Evidence::of(std::path::Path::new(""), manifest), 0, &mut found);
            found.iter().map(|found| (found.cause.code, found.certainty)).collect::<Vec<_>>()
        };
        assert_eq!(found(0, true), []);
        assert_eq!(found(3, true), [("copies", Certainty::Certain)]);
        assert_eq!(found(3, false), [("copies", Certainty::Likely)]);
    }

    /// Three clusters of three workers in a star, of which each counts its copies: the answers of one cluster do not leave the device.
    #[test]
    fn answers_that_leave_at_no_port_are_lost() {
        let found = |seen: u64, lost: u64, lost_copies: u64| {
            let mut manifest = manifest(&[0, 0, 0, 1, 1, 1, 2, 2, 2]);
            (manifest.counters.acks_sent, manifest.counters.acks_received) = (300, seen);
            let acks = AckCopies {
                acks: 300,
                expected: 900,
                seen,
                lost,
                lost_copies,
                group: true,
                at_device: true,
                ..AckCopies::default()
            };
            manifest.unseen = Some(Unseen { merges: true, acks: Some(acks), ..Unseen::default() });
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            let mut found: Vec<_> = answers(&evidence, LostOnLinks::NONE).into_iter().collect();
            copies_of_answers(&evidence, 0, &mut found);
            found.iter().map(|found| (found.cause.code, found.certainty)).collect::<Vec<_>>()
        };
        let (lost, to_some) = (("acks_lost", Certainty::Likely), ("acks_to_some", Certainty::Likely));
        assert_eq!(found(600, 100, 300), [lost]);
        assert_eq!(found(600, 0, 0), [to_some]);
        assert_eq!(found(500, 100, 300), [lost, to_some]);
        assert_eq!(found(0, 300, 900), [lost]);
        assert_eq!(found(90, 270, 810), [lost], "few copies are fewer than the answers");
        assert_eq!(found(894, 2, 6), [], "in flight at the end");
    }

    #[test]
    fn files_have_no_way_back_on_which_answers_are_lost() {
        let lost = |kind: &str| {
            let mut manifest = manifest(&[0, 0]);
            manifest.config = format!("[transport]\nkind = \"{kind}\"\n");
            (manifest.counters.acks_sent, manifest.counters.acks_received) = (1120, 0);
            answers(&Evidence::of(std::path::Path::new(""), manifest), LostOnLinks::NONE).map(|lost| lost.explains)
        };
        assert_eq!(["pcap", "ring", "udp"].map(lost), [None, Some(1120), Some(1120)]);
    }

    #[test]
    fn sums_that_lanes_prove_are_merged_whatever_packets_say() {
        let causes = |smallest: Option<&str>| {
            let mut manifest = manifest(&[0, 0, 1, 1]);
            let smallest_error = smallest.map(str::to_owned);
            manifest.unseen = Some(Unseen { merges: true, smallest_error, ..Unseen::default() });
            causes_of_half(manifest, &[])
        };
        assert_eq!(causes(None), ["not_merged"]);
        assert_eq!(causes(Some("1.0e-5")), Vec::<&str>::new());
    }

    /// Packets without ids whose sums lanes prove: worker 2 sends, and none is of it. Half of the others' are sums, but those of `alone`.
    #[test]
    fn addresses_and_lanes_tell_workers_apart_without_ids() {
        let causes = |smallest: Option<&str>, alone: u32| {
            let mut manifest = manifest(&[0, 0, 1, 1]);
            manifest.config = "[transport]\non_wire = \"strict\"\n".to_owned();
            let smallest_error = smallest.map(str::to_owned);
            manifest.unseen = Some(Unseen { merges: true, smallest_error, ..Unseen::default() });
            let mut evidence = Evidence::of(std::path::Path::new(""), manifest);
            for (worker, seq) in (0..4).flat_map(|worker| (0..40).map(move |seq| (worker, seq))) {
                let packet = PacketId::new(worker, seq, 0);
                evidence.sent.packet.push(packet);
                evidence.sent.sent_ps.push(Some(i64::from(seq)));
                if worker != 2 {
                    evidence.arrived.packet.push((worker == alone || seq % 2 == 0).then_some(packet));
                    evidence.arrived.newest.push(worker);
                    evidence.arrived.count.push(1);
                }
            }
            let mut found = Vec::new();
            look(&evidence, None, LostOnLinks::NONE, &mut found).unwrap();
            found.iter().map(|found| (found.cause.code, found.certainty, found.explains)).collect::<Vec<_>>()
        };
        let unknown = ("worker_unknown", Certainty::Possible, 40);
        assert_eq!(causes(Some("1.0e-5"), 9), [unknown]);
        // Worker 0 may have met no mate.
        assert_eq!(causes(Some("1.0e-5"), 0), [unknown]);
        assert_eq!(causes(None, 9), []);
    }

    #[test]
    fn a_device_of_clusters_of_one_worker_has_nothing_to_merge() {
        assert_eq!(causes_of_half(manifest(&[0, 0, 1, 1]), &[]), ["not_merged"]);
        assert_eq!(causes_of_half(manifest(&[0, 1, 2, 3]), &[]), Vec::<&str>::new());
    }

    /// Drops of a device that should have merged are due to that; where it need not merge, those that it counted are a cause.
    #[test]
    fn counted_drops_stay_beside_merges_that_are_only_possible() {
        let causes = |config: &str, certainty| {
            let manifest = Manifest { config: config.to_owned(), ..manifest(&[0, 0, 1, 1]) };
            causes_of_half(manifest, &[(&DEVICE_DROPS, certainty)])
        };
        let compares = "[target]\nreward_filter = true\n";
        assert_eq!(causes(compares, Certainty::Certain), ["device_drops", "not_merged"]);
        assert_eq!(causes(compares, Certainty::Likely), ["not_merged"]);
        assert_eq!(causes("", Certainty::Certain), ["not_merged"]);
    }

    /// With constant gaps a worker whose mate sends when its updates have left is never merged, and those of the other cluster are.
    #[test]
    fn workers_that_never_meet_a_mate_are_rightly_alone() {
        // All packets of the other cluster hold several, so none of one update is there to compare with.
        assert_eq!(causes_of("", 10), [("worker_not_merged", Certainty::Possible)]);
        assert_eq!(causes_of("", 45), []);
    }

    /// Of merged workers, six in thirty packets of one update seem to have met one that waited.
    #[test]
    fn meetings_are_more_than_those_of_lateness() {
        use Certainty::{Certain, Possible};
        let above = |met, is_real| Met { packets: 150, met }.above(&Met { packets: 30, met: 6 }, is_real);
        assert_eq!([30, 50, 51, 90].map(|met| above(met, true)), [Possible, Possible, Certain, Certain].map(Some));
        assert_eq!([30, 50, 51, 90].map(|met| above(met, false)), [None, None, Some(Certain), Some(Certain)]);
        for is_real in [true, false] {
            let above = |met, packets| Met { packets: 150, met }.above(&Met { packets, met: 0 }, is_real);
            assert_eq!([above(20, 30), above(150, 19)], [Some(Certain), Some(Possible)], "enough to compare with");
        }
    }

    #[test]
    fn a_worker_whose_mate_moved_away_is_rightly_alone() {
        assert!(causes("").contains(&"worker_not_merged"));
        let moved = causes("[[workload.moves]]\nat = \"0s\"\nworker = 1\ncluster = 1\n");
        assert_eq!(moved, Vec::<&str>::new());
    }
}
