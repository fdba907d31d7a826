//! Clauses on updates that replace another one and on dropped updates.

use super::card::{Card, Sent, alike, merged, threshold};
use super::passing::{fits_slots, free};
use super::{BASE, behind, few, merging, slots};
use pktgen_engine::clause::{Clause, ClauseProbe, ProbeGround, ProbeResult};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "olaf-replace",
        title: "a worker's newer update takes the place of its older one",
        rule: "An unmerged update that waits is replaced by the next one of its worker (Algorithm 1, lines 7 to 9).",
        stimulus: "two updates ahead; two or three updates of one worker",
        oracle: "the last of them",
        probe: replace,
        ..BASE
    },
    Clause {
        id: "olaf-replace-merged",
        title: "a merge is not replaced",
        rule: "Once an update is merged, the next one of a member is added to it.",
        stimulus: "two updates ahead; updates of two workers of a cluster; another one of either",
        oracle: "one update, with the sums of all three",
        probe: replace_merged,
        ..BASE
    },
    Clause {
        id: "olaf-replace-then-merge",
        title: "what takes a place can be merged",
        rule: "An update that took the place of an older one is unmerged: another worker's is added to it, and nothing of the older.",
        stimulus: "two updates ahead; two updates of one worker; one of another worker of its cluster",
        oracle: "one update, with the sums of the last two",
        probe: replace_then_merge,
        ..BASE
    },
    Clause {
        id: "olaf-place",
        title: "places are kept",
        rule: "What is replaced or merged stays where it is in the queue (§4, \"Dequeue Process\").",
        precondition: "a queue that merges; four clusters, two workers in each, four slots",
        exempt: |ground| merging(ground, 4, 2).or_else(|| scarce(ground)),
        stimulus: "two updates ahead; an update of each of two clusters; another one of the first cluster, of the same or another worker",
        oracle: "the first cluster's update before the second's",
        probe: place,
        ..BASE
    },
    Clause {
        id: "olaf-full",
        title: "without a slot an update is dropped",
        rule: "An update whose cluster does not wait is dropped if all slots are taken (Algorithm 1, line 22).",
        precondition: "a queue that merges; at least three slots, and two clusters more than slots",
        exempt: roomy,
        stimulus: "two updates ahead; one update of each other cluster",
        oracle: "as many updates as there are slots, in order, the others never",
        probe: full,
        ..BASE
    },
    Clause {
        id: "olaf-full-merge",
        title: "a full queue still merges",
        rule: "An update whose cluster waits needs no slot.",
        precondition: "a queue that merges; at least three slots, and two clusters more than slots, two workers in each",
        exempt: |ground| roomy(ground).or_else(|| few(ground, 3, 2)),
        stimulus: "two updates ahead; updates of as many clusters as there are slots; one more of a cluster that waits",
        oracle: "that cluster's sums, all others unchanged",
        probe: full_merge,
        ..BASE
    },
    Clause {
        id: "olaf-reward-higher",
        title: "a much higher reward takes the place",
        rule: "An update whose reward is higher than the waiting one's by more than the threshold takes its place (§3).",
        precondition: "target.reward_filter = true; three slots (two if target.slot_in_transmission = false)",
        exempt: unfiltered,
        stimulus: "two updates ahead; an update; one of another worker with a reward above it by more than the threshold",
        oracle: "the second update",
        probe: |probe| outrank(probe, true),
        ..BASE
    },
    Clause {
        id: "olaf-reward-lower",
        title: "a much lower reward is dropped",
        rule: "An update whose reward is lower than the waiting one's by more than the threshold is dropped (§3).",
        precondition: "target.reward_filter = true; three slots (two if target.slot_in_transmission = false)",
        exempt: unfiltered,
        stimulus: "two updates ahead; an update; one of another worker with a reward below it by more than the threshold",
        oracle: "the first update",
        probe: |probe| outrank(probe, false),
        ..BASE
    },
    Clause {
        id: "olaf-reward-own",
        title: "rewards do not protect an older update",
        rule: "A worker's newer update takes the place of its unmerged one whatever the rewards are (ours: rule 1 before rule 2).",
        stimulus: "two updates ahead; an update; one of the same worker with a much lower reward",
        oracle: "the second update",
        probe: own,
        ..BASE
    },
];

/// Returns the difference of rewards of which one is much higher.
fn far(ground: &ProbeGround) -> f32 {
    let own = threshold(ground);
    // More than the rounding of 32 bits.
    own + (own / (1 << 20) as f32).max(1.0)
}

fn unfiltered(ground: &ProbeGround) -> Option<String> {
    behind(ground, 3, 2)
        .or_else(|| (!ground.flag("target.reward_filter")).then(|| "target.reward_filter = false".to_owned()))
        .or_else(|| threshold(ground).is_infinite().then(|| "target.reward_threshold is beyond 32 bits".to_owned()))
}

fn scarce(ground: &ProbeGround) -> Option<String> {
    let slots = slots(ground);
    (slots < 4).then(|| format!("target.slots = {slots}"))
}

fn roomy(ground: &ProbeGround) -> Option<String> {
    let (slots, clusters) = (slots(ground), ground.clusters().len() as i64);
    merging(ground, 3, 1)
        .or_else(|| (clusters < slots + 2 || slots < 3).then(|| format!("{slots} slots for {clusters} clusters")))
}

/// Sends two updates ahead; returns the workers of another cluster.
fn congested<'p, 'a>(probe: &'p mut ClauseProbe<'a>) -> ProbeResult<(Card<'p, 'a>, Vec<u32>)> {
    let mut card = Card::new(probe);
    card.congest()?;
    let members = card.clusters[0].clone();
    Ok((card, members))
}

fn replace(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let (mut card, members) = congested(probe)?;
    let all: Vec<_> = (0..2 + card.probe.below(2)).map(|_| card.update(members[0])).collect();
    card.send_all(&all)?;
    card.leaves_whole(&all[all.len() - 1..])
}

fn replace_merged(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let (mut card, members) = congested(probe)?;
    let again = card.probe.below(2);
    let all: Vec<_> = [0, 1, again].map(|n| card.update(members[n])).to_vec();
    card.send_all(&all)?;
    card.leaves(&[merged(&all, false)]).map(drop)
}

fn replace_then_merge(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let (mut card, members) = congested(probe)?;
    let all: Vec<_> = [0, 0, 1].map(|n| card.update(members[n])).to_vec();
    card.send_all(&all)?;
    card.leaves(&[merged(&all[1..], false)]).map(drop)
}

fn place(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let (mut card, members) = congested(probe)?;
    let second = card.clusters[1][0];
    let other = card.probe.below(2);
    let all = [card.update(members[0]), card.update(second), card.update(members[other])];
    card.send_all(&all)?;
    let [first, between, last] = all;
    let expected = if other == 0 { last } else { merged(&[first, last], false) };
    card.leaves(&[expected, between]).map(drop)
}

/// Returns an update of each of `count` clusters.
fn of_clusters(card: &mut Card, count: usize) -> Vec<Sent> {
    let workers: Vec<_> = card.clusters.iter().take(count).map(|members| members[0]).collect();
    workers.into_iter().map(|worker| card.update(worker)).collect()
}

fn full(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let (mut card, _) = congested(probe)?;
    // On wires, hosts may sleep, and a frame is observed when all of it has left; a lockstep process reports when it begins to leave.
    (card.judges_ahead, card.judges_room) = (true, card.probe.ground.patience > 0);
    let all = of_clusters(&mut card, usize::MAX);
    card.send_all(&all)?;
    let room = free(&card);
    match card.leaves(&all[..room]) {
        Ok(_) => Ok(()),
        Err(stop) => Err(fits_slots(&card, room, stop)),
    }
}

fn full_merge(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let (mut card, _) = congested(probe)?;
    let room = free(&card);
    let mut all = of_clusters(&mut card, room);
    card.send_all(&all)?;
    let at = card.probe.below(all.len());
    let more = card.clusters[at][1];
    let more = card.update(more);
    card.send(&more)?;
    all[at] = merged(&[all[at].clone(), more], false);
    card.leaves(&all).map(drop)
}

fn outrank(probe: &mut ClauseProbe, higher: bool) -> ProbeResult<()> {
    let (mut card, members) = congested(probe)?;
    let far = far(card.probe.ground);
    let mut both = [card.update(members[0]), card.update(members[1])];
    both[usize::from(higher)].reward += far;
    card.send_all(&both)?;
    let sums = merged(&both, false).values;
    let ended = card.leaves_whole(&both[usize::from(higher)..][..1]);
    // Neither took the other's place.
    let is_merge = matches!(&card.observed[..], [one] if alike(&one.values, &sums));
    ended.map_err(|stop| if is_merge { stop.fits("target.reward_filter = false") } else { stop })
}

fn own(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let (mut card, members) = congested(probe)?;
    let far = far(card.probe.ground);
    let mut both = [card.update(members[0]), card.update(members[0])];
    both[0].reward += far;
    card.send_all(&both)?;
    card.leaves_whole(&both[1..])
}
