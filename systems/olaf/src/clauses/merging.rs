//! Clauses on merges: what is added and how, and the header of the sum.

use std::ops::Range;

use pktgen_core::time::Time;
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, has_udp_checksum, set_ip_checksum, set_udp_checksum};

use super::card::{AHEAD, Card, Left, Sent, from, merged, most_lanes, update_bytes};
use super::passing::free;
use super::{BASE, SEND, behind, cramped, hasty, merging};
use crate::strict::{PORT, UPDATE_HEAD, WORKER_PORT};
use pktgen_engine::clause::checks::{checksum_is_finished, number16, same, station};
use pktgen_engine::clause::{Clause, ClauseBreach, ClauseProbe, ProbeGround, ProbeResult, ProbeStop};

const DOWN_TOO: &str =
    "all ports, until the device is silent; not decidable if what is ahead left before the last frame went in";

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "olaf-merge",
        title: "updates of a cluster merge",
        rule: "An update that finds another worker's of its cluster waiting is added to it (Algorithm 1, lines 10 to 15).",
        stimulus: "two updates ahead; updates of two workers of another cluster, with whole numbers",
        observation: DOWN_TOO,
        oracle: "one update, with the sums of the gradients (a sum, not a mean: ours); no frame at the workers' ports",
        repeats: 10,
        probe: |probe| many(probe, 2),
        ..BASE
    },
    Clause {
        id: "olaf-merge-many",
        title: "so do more than two",
        rule: "Every further update of the cluster is added, whoever sent it.",
        precondition: "a queue that merges; three clusters, three workers in each; three slots (two if target.slot_in_transmission = false)",
        exempt: |ground| behind(ground, 3, 3),
        stimulus: "two updates ahead; updates of up to eight workers of another cluster, in random order",
        observation: DOWN_TOO,
        oracle: "one update, with the sums of the gradients; no frame at the workers' ports",
        probe: |probe| many(probe, 8),
        ..BASE
    },
    Clause {
        id: "olaf-merge-long",
        title: "a merge has no largest number of members",
        rule: "Every further update of the cluster is added, however many are in the merge.",
        precondition: "a queue that merges; three clusters, two workers in each; three slots (two if target.slot_in_transmission = false); an output that is slow enough for more than four updates; no target.engine_rate",
        exempt: |ground| behind(ground, 3, 2).or_else(|| hasty(ground)).or_else(|| brief(ground)),
        stimulus: "two updates ahead; updates of two workers of another cluster in turn, with one reward: 300, or as many as go in while the two ahead last",
        oracle: "one update, with the sums of the gradients and that reward",
        repeats: 2,
        probe: long,
        ..BASE
    },
    Clause {
        id: "olaf-merge-first",
        title: "the first that waits is merged, too",
        rule: "An update that waits right behind the one in transmission is merged as all others (Algorithm 1, lines 10 to 15; §12.1).",
        precondition: "a queue that merges; two clusters, two workers in each; two slots (one if target.slot_in_transmission = false)",
        exempt: |ground| merging(ground, 2, 2).or_else(|| cramped(ground, 2)),
        stimulus: "an update to an idle device; at once updates of two workers of another cluster",
        observation: "the server's port, until the device is silent; not decidable if the second update began to leave before the third went in",
        oracle: "the first update; one with the sums of the others",
        probe: first,
        ..BASE
    },
    Clause {
        id: "olaf-merge-reward",
        title: "a merge has the mean reward",
        rule: "The reward of a merge is the mean of its members' (ours; target.merged_reward = \"max\": the maximum).",
        stimulus: "two updates ahead; updates of two, three or four members of another cluster, with rewards whose means are exact",
        oracle: "the mean, or the maximum",
        probe: reward,
        ..BASE
    },
    Clause {
        id: "olaf-merge-address",
        title: "a merge is known by its newest member",
        rule: "A merge has the source address of the member that arrived last (ours: docs/strict.md).",
        stimulus: "two updates ahead; updates of two workers of another cluster",
        oracle: "the address of the second",
        probe: address,
        ..BASE
    },
    Clause {
        id: "olaf-headers",
        title: "headers of updates are right",
        rule: "Lengths in IPv4 and UDP are those of the frame, checksums are right (UDP's may be 0), ports are those of updates, Ethernet addresses are those of the IPv4 addresses, and a hop is left (RFC 791, RFC 768, RFC 1122).",
        stimulus: "two updates ahead; updates of two workers of another cluster and one of a third, if there is one and a slot for it, all with UDP checksums; the same without",
        oracle: "headers made by the certifier, for the merge and the update",
        repeats: 2,
        probe: headers,
        ..BASE
    },
    Clause {
        id: "olaf-merge-apart",
        title: "clusters do not mix",
        rule: "Updates are merged with those of their own cluster only, and each cluster keeps its place (§4, \"Dequeue Process\").",
        precondition: "a queue that merges; four clusters, two workers in each; three slots (two if target.slot_in_transmission = false)",
        exempt: |ground| behind(ground, 4, 2),
        stimulus: "two updates ahead; updates of two workers of each other cluster, in random order",
        oracle: "one update for each cluster, with its sums, in the order of their first updates",
        probe: apart,
        ..BASE
    },
    Clause {
        id: "olaf-rounding",
        title: "merges are binary32 additions in the order of arrival",
        rule: "Each merge is one IEEE 754 addition per gradient, rounded to nearest (ours; the paper is silent).",
        stimulus: "10⁸, 1, −10⁸ and 1 in all orders, every gradient with another number first",
        oracle: "the additions of the certifier, one after the other",
        repeats: 1,
        probe: rounding,
        ..BASE
    },
    Clause {
        id: "olaf-special",
        title: "infinities, NaN, zeros and denormal numbers add up as such",
        rule: "Infinities stay, opposite ones make a NaN, NaN stays NaN, denormal numbers are not flushed to 0 (IEEE 754).",
        stimulus: "all pairs of ±∞, NaN, ±0, ±the smallest denormal and normal numbers and ±1, a gradient each",
        oracle: "the additions of the certifier; any NaN is as good as another",
        repeats: 2,
        probe: special,
        ..BASE
    },
    Clause {
        id: "olaf-merge-sizes",
        title: "updates of every size are added whole",
        rule: "A merge is the sum of all gradients of its members, however many an update has (Algorithm 1, lines 10 to 15; §7, \"Packet Format\").",
        stimulus: "two updates ahead, as large as the experiment's largest frame; updates of two workers of another cluster: with 4 gradients, with as many as fit that \
                   frame, and with half as many",
        oracle: "one update of that size, with the sums of the gradients",
        repeats: 2,
        probe: sizes,
        ..BASE
    },
];

/// Number of gradients of an update in a frame of Ethernet's shortest length.
const FEWEST: usize = 4;

/// Merges updates of up to `most` workers of a cluster into one.
fn many(probe: &mut ClauseProbe, most: usize) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    card.congest()?;
    let members: Vec<_> = card.clusters[0].iter().take(most).copied().collect();
    let all: Vec<_> = members.iter().map(|worker| card.update(*worker)).collect();
    card.send_all(&all)?;
    card.leaves(&[merged(&all, false)])?;
    card.leaves_nothing_down()
}

/// Number of members of the longest merge in other clauses, of two workers.
const SHORT: usize = 4;

/// Returns the number of updates in a long merge: more than fit into a byte if these can be sent while the two ahead are in transmission.
fn members_of_long(ground: &ProbeGround) -> usize {
    const MOST: usize = 300;
    let lasts = ground.busy(update_bytes(ground)).filter(|_| ground.patience > 0).map(|one| one * AHEAD as Time);
    lasts.map_or(MOST, |lasts| (lasts / SEND) as usize).min(MOST)
}

/// Returns why no merge can be longer than those of other clauses.
fn brief(ground: &ProbeGround) -> Option<String> {
    let count = members_of_long(ground);
    (count <= SHORT).then(|| {
        format!("{count} updates can go in while the two ahead last: a slower output (topology.rate) lets more in")
    })
}

fn long(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut count = members_of_long(probe.ground).max(SHORT + 1);
    loop {
        match long_of(probe, count) {
            // In virtual time a device has an output of its own, and a settled one has nothing left of this attempt.
            Err(ProbeStop::Undecidable(_)) if probe.ground.patience == 0 && count / 2 > SHORT => count /= 2,
            ended => return ended,
        }
    }
}

/// Merges so many updates of two workers.
fn long_of(probe: &mut ClauseProbe, count: usize) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    card.congest()?;
    let members = card.clusters[0].clone();
    let (lanes, reward) = (card.lanes, card.reward());
    let mut part = |n: usize| {
        // Small enough that every sum is exact.
        let values = (0..lanes).map(|_| card.probe.below(100_001) as f32 - 5e4).collect();
        Sent { worker: members[n % 2], reward, values }
    };
    let all: Vec<_> = (0..count).map(&mut part).collect();
    card.send_all(&all)?;
    let expected = Sent { reward, ..merged(&all, false) };
    let left = card.leaves(std::slice::from_ref(&expected))?;
    match left[0].update.reward.to_bits() == reward.to_bits() {
        true => Ok(()),
        false => Err(ClauseBreach::stop(format!("reward of a merge of {count}"), reward, left[0].update.reward)),
    }
}

fn first(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    let (alone, pair) = (card.clusters[1][0], card.clusters[0].clone());
    let all = [alone, pair[0], pair[1]].map(|worker| card.update(worker));
    card.shield = 1;
    card.send_all(&all)?;
    let last = card.probe.last_sent();
    let left = card.left(2)?;
    // The second left the queue when transmission of the first ended: with three departures, the output's own distance before the second.
    let begun = match &left[..] {
        [_, second, third] => Some(second.frame.t - (third.frame.t - second.frame.t)),
        _ => left.get(1).map(|second| second.frame.t),
    };
    if begun.is_some_and(|begun| begun <= last) {
        return Err(ProbeStop::Undecidable(
            "the output was not busy long enough: the second update began to leave before the third went in; a slower output (topology.rate) keeps \
             it busy"
                .into(),
        ));
    }
    let expected = [all[0].clone(), merged(&all[1..], false)];
    if left.len() != expected.len() {
        return Err(card.unless_late(ClauseBreach::stop("updates that left", expected.len(), left.len())));
    }
    left.iter()
        .zip(&expected)
        .enumerate()
        .try_for_each(|(n, (left, expected))| super::card::has_values(n, &left.update.values, &expected.values))
}

fn reward(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    card.congest()?;
    let largest = card.probe.ground.word("target.merged_reward") == "max";
    let count = 2 + card.probe.below(3);
    // After merging, updates of the same workers are added, too.
    let members: Vec<_> = (0..count).map(|n| card.clusters[0][n % 2]).collect();
    let all: Vec<_> = members.iter().map(|worker| card.update(*worker)).collect();
    card.send_all(&all)?;
    let expected = merged(&all, largest);
    let left = card.left(1)?;
    let [one] = &left[..] else {
        return Err(card.miscounted(1, left.len()));
    };
    if one.update.reward.to_bits() == expected.reward.to_bits() {
        return Ok(());
    }
    let breach = ClauseBreach::stop(format!("reward of a merge of {count}"), expected.reward, one.update.reward);
    let other = merged(&all, !largest).reward.to_bits() == one.update.reward.to_bits();
    Err(if other {
        breach.fits(["target.merged_reward = \"max\"", "target.merged_reward = \"mean\""][usize::from(largest)])
    } else {
        breach
    })
}

fn address(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    card.congest()?;
    let members = card.clusters[0].clone();
    let both = [card.update(members[0]), card.update(members[1])];
    card.send_all(&both)?;
    let left = card.left(1)?;
    let [one] = &left[..] else {
        return Err(card.miscounted(1, left.len()));
    };
    from(0, one, members[1])
}

fn headers(probe: &mut ClauseProbe) -> ProbeResult<()> {
    for with in [true, false] {
        let mut card = Card::new(probe);
        card.congest()?;
        let pair = card.clusters[0].clone();
        let other = card.clusters.get(1).filter(|_| free(&card) >= 2).map(|members| members[0]);
        let all: Vec<_> = pair.iter().take(2).copied().chain(other).map(|worker| card.update(worker)).collect();
        for update in &all {
            let mut frame = Card::frame(update);
            if with {
                set_udp_checksum(&mut frame);
            }
            card.probe.send(update.worker, &frame)?;
        }
        let expected: Vec<_> = [merged(&all[..2], false)].into_iter().chain(all[2..].iter().cloned()).collect();
        let left = card.leaves(&expected)?;
        left.iter().enumerate().try_for_each(|(n, update)| right(n, update))?;
    }
    Ok(())
}

/// Checks that the headers of an update follow from its addresses and its length; its UDP checksum may be absent.
fn right(n: usize, left: &Left) -> ProbeResult<()> {
    const FIELDS: [(&str, Range<usize>); 8] = [
        ("Ethernet destination", 0..6),
        ("Ethernet source", 6..12),
        ("length in the IPv4 header", 16..18),
        ("checksum of the IPv4 header", 24..26),
        ("source port", 34..36),
        ("destination port", 36..38),
        ("length in the UDP header", 38..40),
        ("checksum of the UDP header", 40..42),
    ];
    let observed = &left.frame.bytes;
    let len = HEAD + UPDATE_HEAD + left.update.values.len() * 4;
    let mut expected = observed[..len].to_vec();
    Template::new((left.from, WORKER_PORT), (SERVER_IP, PORT), len).emit(&mut expected);
    // Header fields other than addresses and lengths are the sender's choice.
    expected[15..24].copy_from_slice(&observed[15..24]);
    expected[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    set_ip_checksum(&mut expected);
    checksum_is_finished(observed)?;
    if has_udp_checksum(observed) {
        set_udp_checksum(&mut expected);
    }
    for (what, at) in FIELDS {
        if observed[at.clone()] != expected[at.clone()] {
            let shown = |frame: &[u8]| match what {
                _ if at.len() == 6 => station(&frame[at.clone()]),
                _ if what.starts_with("checksum") => format!("{:04x}", number16(frame, at.start)),
                _ => number16(frame, at.start).to_string(),
            };
            return Err(ClauseBreach::stop(format!("{what} of update {n}"), shown(&expected), shown(observed)));
        }
    }
    // A router may not send what has no hops left (RFC 1122, §3.2.1.7).
    same(&format!("update {n}"), "time to live above 0", true, observed[22] > 0)
}

fn apart(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    card.judges_ahead = true;
    card.congest()?;
    let count = free(&card).min(card.clusters.len());
    let pairs: Vec<_> = card.clusters[..count].iter().map(|members| [members[0], members[1]]).collect();
    let turns: Vec<usize> = (0..count).flat_map(|cluster| [cluster, cluster]).collect();
    let turns = card.probe.shuffled(&turns);
    let mut sent: Vec<(usize, Vec<Sent>)> = Vec::new();
    for cluster in turns {
        let of = sent.iter().position(|(own, _)| *own == cluster);
        let update = card.update(pairs[cluster][usize::from(of.is_some())]);
        card.send(&update)?;
        match of {
            Some(at) => sent[at].1.push(update),
            None => sent.push((cluster, vec![update])),
        }
    }
    let expected: Vec<_> = sent.iter().map(|(_, all)| merged(all, false)).collect();
    card.leaves(&expected).map(drop)
}

/// Returns all different orders of four numbers.
fn orders(terms: [f32; 4]) -> Vec<[f32; 4]> {
    let mut all: Vec<[f32; 4]> = Vec::new();
    for n in 0..256 {
        let at = [n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6];
        let order = at.map(|i| terms[i]);
        if (0..4).all(|i| at.contains(&i)) && !all.contains(&order) {
            all.push(order);
        }
    }
    all
}

fn rounding(probe: &mut ClauseProbe) -> ProbeResult<()> {
    for order in orders([1e8, 1.0, -1e8, 1.0]) {
        let mut card = Card::new(probe);
        card.congest()?;
        let (lanes, reward) = (card.lanes, card.reward());
        let part = |n: usize, worker| Sent { worker, reward, values: (0..lanes).map(|i| order[(n + i) % 4]).collect() };
        let members = card.clusters[0].clone();
        let all: Vec<_> = (0..4).map(|n| part(n, members[n % 2])).collect();
        card.send_all(&all)?;
        card.leaves(&[merged(&all, false)])?;
    }
    Ok(())
}

fn special(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let tiny = f32::from_bits(1);
    let numbers = [f32::INFINITY, f32::NAN, 0.0, tiny, f32::MIN_POSITIVE, 1.0];
    let both: Vec<f32> = numbers.iter().flat_map(|number| [*number, -number]).collect();
    let pairs: Vec<_> = both.iter().flat_map(|a| both.iter().map(move |b| (*a, *b))).collect();
    let lanes = Card::new(probe).lanes;
    for some in pairs.chunks(lanes) {
        let mut card = Card::new(probe);
        card.congest()?;
        let (members, reward) = (card.clusters[0].clone(), card.reward());
        let one = Sent { worker: members[0], reward, values: some.iter().map(|pair| pair.0).collect() };
        let other = Sent { worker: members[1], reward, values: some.iter().map(|pair| pair.1).collect() };
        card.send_all(&[one.clone(), other.clone()])?;
        card.leaves(&[merged(&[one, other], false)])?;
    }
    Ok(())
}

fn sizes(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let most = most_lanes(probe.ground);
    let fewest = FEWEST.min(most);
    for size in [fewest, (most / 2).max(fewest), most] {
        let mut card = Card::new(probe);
        // What is ahead keeps the output busy for as long as the members take on their way in.
        card.lanes = most;
        card.congest()?;
        card.lanes = size;
        let members = card.clusters[0].clone();
        let both = [card.update(members[0]), card.update(members[1])];
        card.send_all(&both)?;
        card.leaves(&[merged(&both, false)])?;
    }
    Ok(())
}
