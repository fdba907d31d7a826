//! Clauses on updates that pass unchanged.

use super::card::{AHEAD, Card, Sent, same, update_bytes};
use super::{BASE, cramped, few, places};
use pktgen_core::time::{Time, US};
use pktgen_engine::clause::{Clause, ClauseBreach, ClauseProbe, ProbeGround, ProbeResult, ProbeStop};

/// Number of updates sent at once to measure the speed of the output.
const AT_ONCE: usize = 4;
/// Minimum percentage of the transmission time of all but one of them: the output may not count the overhead of frames.
const SPAN: Time = 85;

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "olaf-pass",
        title: "an update alone passes unchanged",
        rule: "An update that finds the device idle leaves once, towards the server, with its address, reward and gradients (§7).",
        precondition: "a server",
        exempt: |ground| few(ground, 1, 1),
        stimulus: "one update with random bits as gradients",
        observation: "all ports, until the device is silent",
        oracle: "the same update at the server's port, and no frame at the workers'",
        probe: pass,
        ..BASE
    },
    Clause {
        id: "olaf-append",
        title: "updates of different clusters wait in order",
        rule: "An update whose cluster does not wait is appended (Algorithm 1, lines 16 to 19).",
        precondition: "four clusters; three slots (two if target.slot_in_transmission = false)",
        exempt: |ground| few(ground, 4, 1).or_else(|| cramped(ground, AHEAD + 1)),
        stimulus: "two updates ahead; one update of each other cluster, as many as there are slots for",
        oracle: "the same updates, in order",
        probe: append,
        ..BASE
    },
    Clause {
        id: "olaf-transmission",
        title: "the update in transmission is out of reach",
        rule: "An update that arrives while one of its cluster is in transmission is appended, and both leave as they were (§12.1).",
        stimulus: "an update to an idle device; at once one of another worker of its cluster; when all has left, two updates ahead and two of another cluster, which merge",
        observation: "the server's port, until the device is silent; not decidable if nothing merged or, on wires, the second went in too late",
        oracle: "both updates, in order",
        probe: transmission,
        ..BASE
    },
    Clause {
        id: "olaf-afterwards",
        title: "nothing is left of what has departed",
        rule: "When a cluster's update has departed the next one is appended as if it were the first.",
        stimulus: "two updates ahead and a merge; when all has left, the same with others, one update instead of the merge",
        observation: "the server's port, until the device is silent; not decidable if nothing merged, or what is ahead left before the last frame went in",
        oracle: "the last update as it was sent",
        repeats: 3,
        probe: afterwards,
        ..BASE
    },
    Clause {
        id: "olaf-output",
        title: "the output is no faster than it is said to be",
        rule: "Updates leave one after the other at topology.rate, so those that come at once wait (§4): an output that is faster, or a way around the queue, leaves nothing to merge.",
        precondition: "on wires; four clusters; four slots (three if target.slot_in_transmission = false)",
        exempt: |ground| few(ground, 4, 1).or_else(|| no_link(ground)).or_else(|| cramped(ground, AHEAD + 2)),
        stimulus: "an update of each of up to four clusters at once, as many as there are slots for",
        observation: "the server's port, until the device is silent; not decidable if another number left",
        oracle: "the last leaves no sooner behind the sending of the first than 85 % of the time of the others at topology.rate; no lateness of a host makes that shorter",
        probe: output,
        ..BASE
    },
];

fn pass(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    let worker = card.clusters[0][0];
    // Any bits except those of a NaN, whose payload arithmetic units may change.
    let number = |bits: u32| if f32::from_bits(bits).is_nan() { 1.0 } else { f32::from_bits(bits) };
    let values = (0..card.lanes).map(|_| number(card.probe.bits())).collect();
    let update = Sent { worker, reward: card.reward(), values };
    card.send(&update)?;
    card.leaves_whole(&[update])?;
    card.leaves_nothing_down()
}

/// Returns the number of free slots behind the two updates ahead.
pub(super) fn free(card: &Card) -> usize {
    places(card.probe.ground).saturating_sub(AHEAD)
}

fn append(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    card.congest()?;
    let clusters = card.clusters.clone();
    let all: Vec<_> = clusters.iter().take(free(&card)).map(|members| card.update(members[0])).collect();
    card.send_all(&all)?;
    let ended = card.leaves_whole(&all);
    ended.map_err(|stop| fits_slots(&card, all.len(), stop))
}

/// Returns the breach, with the fitting setting if one update more or less left than there are slots for.
pub(super) fn fits_slots(card: &Card, room: usize, stop: ProbeStop) -> ProbeStop {
    let held = card.probe.ground.flag("target.slot_in_transmission");
    match (held, card.observed.len()) {
        (true, left) if left == room + 1 => stop.fits("target.slot_in_transmission = false"),
        (false, left) if left + 1 == room => stop.fits("target.slot_in_transmission = true"),
        _ => stop,
    }
}

fn transmission(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    let members = card.clusters[0].clone();
    let both = [card.update(members[0]), card.update(members[1])];
    card.shield = 1;
    card.send_all(&both)?;
    let left = card.leaves(&both)?;
    card.in_time()?;
    left.iter().zip(&both).enumerate().try_for_each(|(n, (left, expected))| same(n, left, expected))?;
    Card::new(probe).merges_at_all()
}

/// Returns why there is no link with a known rate behind the output.
fn no_link(ground: &ProbeGround) -> Option<String> {
    ground.output.is_none().then(|| "in virtual time the output is as slow as it is by itself".into())
}

fn output(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    let count = card.clusters.len().min(AT_ONCE).min(1 + free(&card));
    let one = card.probe.ground.busy(update_bytes(card.probe.ground)).unwrap_or_default();
    let begun = card.probe.now();
    let all: Vec<_> = card.clusters.clone().iter().take(count).map(|members| card.update(members[0])).collect();
    card.send_all(&all)?;
    let left = card.left(count)?;
    let last = left.iter().map(|left| left.frame.t).max().filter(|_| left.len() == count);
    let Some(last) = last else {
        return Err(ProbeStop::Undecidable(format!("of {count} updates at once {} left", left.len())));
    };
    let least = one * (count as Time - 1) / 100 * SPAN;
    if last - begun >= least {
        return Ok(());
    }
    let what = format!("time from the first of {count} updates to the last one's departure");
    Err(ClauseBreach::stop(
        what,
        format!("{} µs at least at topology.rate; less is a faster output or a way around the queue", least / US),
        format!("{} µs", (last - begun) / US),
    ))
}

fn afterwards(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = Card::new(probe);
    let (all, members) = (card.clusters.clone(), card.clusters[0].clone());
    card.congest()?;
    let both = [card.update(members[0]), card.update(members[1])];
    card.send_all(&both)?;
    card.merged_at_all(1)?;
    card.clusters = all;
    card.congest()?;
    let next = card.update(members[1]);
    card.send(&next)?;
    card.leaves_whole(&[next])
}
