//! Clauses on slots and their sets: reuse, many at once, and several jobs.

use std::collections::BTreeSet;

use super::switch::{Answer, Part, Spot, Switch, has_exponent, has_sums, jobs, sum};
use pktgen_engine::clause::checks::same;
use pktgen_engine::clause::{Clause, ClauseBreach, ClauseProbe, ProbeGround, ProbeResult};

/// Number of rounds of one slot.
const ROUNDS: usize = 16;
/// Maximum number of random slots in use at once.
const SLOTS: usize = 8;
/// Number of bits of a slot's number.
const SLOT_BITS: u16 = 14;

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "switchml-reuse",
        title: "a slot is used again and again, its sets in turn",
        rule: "Every round of a slot makes its own sum, in the other set than the one before; nothing is left of earlier rounds.",
        stimulus: "16 rounds of one slot, each in a random order",
        oracle: "the sum and the largest first exponent of each round",
        repeats: 3,
        probe: reuse,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-slots",
        title: "slots are apart",
        rule: "Sums that are under way at once in different slots do not touch each other.",
        precondition: "a pool of two slots or more",
        exempt: single,
        stimulus: "contributions to slot 0, to the slots whose number is a power of 2, to the last slot of the pool, and to up to 8 random ones, all in random order",
        oracle: "one result for each slot, with its sum and largest first exponent, once to each worker; no other frame",
        probe: apart,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-sets",
        title: "sets are apart",
        rule: "The next round of a slot leaves the result of this one as it is until it is complete.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "a round; all but one contribute to the next, whose exponents and values are larger; the one asks again",
        oracle: "the first result, then the sum of the next round",
        probe: sets,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-jobs",
        title: "jobs are apart",
        rule: "Two jobs that use the same slots at once get their own sums (ours: target.jobs = \"several\").",
        precondition: "two jobs",
        exempt: ProbeGround::one_job,
        stimulus: "contributions of both jobs to the same slots, in turn; after its result a random one of each job again",
        oracle: "results of each job with the sums and the largest first exponent of its workers, to its workers only; for each repeated one a copy to its worker alone",
        probe: both_jobs,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-foreign-job",
        title: "a worker of another job takes part in no sum",
        rule: "The source address says which job a contribution is of, whatever the packet says (p4lang/p4app-switchML).",
        precondition: "two jobs",
        exempt: ProbeGround::one_job,
        stimulus: "contributions of all workers of a job but one; one of another job's worker to the same slot; the last",
        oracle: "no frame before the last contribution; then the sum of the job's own workers",
        probe: foreign,
        ..Clause::BASE
    },
];

fn single(ground: &ProbeGround) -> Option<String> {
    (ground.number("target.pool") == Some(1)).then(|| "target.pool = 1".to_owned())
}

fn reuse(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let mut spot = switch.begin()?;
    for round in 0..ROUNDS {
        let (order, parts) = (switch.any_order(), switch.parts());
        switch.send_all(&order, &spot, &parts)?;
        let answers = switch.results(&spot)?;
        has_sums(&answers, &spot, &sum(&parts))?;
        has_exponent(&answers, &spot, &parts)?;
        if round + 1 < ROUNDS {
            spot = switch.begin_after(&spot);
        }
    }
    Ok(())
}

/// Begins sums in slots of which any two differ where a device that ignores a bit mixes them, in the last one, and in random ones.
fn distant(switch: &mut Switch) -> ProbeResult<Vec<Spot>> {
    let mut spots = vec![switch.begin()?];
    let powers = (0..SLOT_BITS).map(|bit| 1u16 << bit).filter(|slot| *slot < switch.pool);
    let slots: BTreeSet<u16> = powers.chain([0, switch.pool.saturating_sub(1)]).collect();
    for slot in slots {
        spots.extend(switch.begin_in(slot));
    }
    // Fewer in a small pool.
    spots.extend((1..SLOTS).map_while(|_| switch.begin().ok()));
    Ok(spots)
}

/// Sends contributions spot by worker, and checks one result of each spot against its sum.
fn apart(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spots = distant(&mut switch)?;
    let parts: Vec<_> = spots.iter().map(|_| switch.parts()).collect();
    let workers = switch.workers.len();
    let all: Vec<_> = (0..spots.len()).flat_map(|spot| (0..workers).map(move |n| (spot, n))).collect();
    for (spot, n) in switch.probe.shuffled(&all) {
        switch.send(n, &spots[spot], &parts[spot][n])?;
    }
    let answers = switch.answers()?;
    for (spot, parts) in spots.iter().zip(&parts) {
        let own: Vec<_> = answers.iter().filter(|it| it.header.slot == spot.slot).cloned().collect();
        if own.is_empty() {
            return Err(ClauseBreach::stop(format!("{spot}: results"), "a result", "none"));
        }
        has_sums(&own, spot, &sum(parts))?;
        has_exponent(&own, spot, parts)?;
        let all = switch.workers.clone();
        switch.reaches(&own, &all, spot)?;
        switch.end(spot);
    }
    let strays = answers.iter().filter(|it| !spots.iter().any(|spot| spot.slot == it.header.slot)).count();
    same(&"sums of several slots", "results of other slots", 0, strays)
}

fn sets(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, mut parts) = (switch.any_order(), switch.parts());
    parts.iter_mut().for_each(|part| part.exponents = [-100, -100]);
    switch.send_all(&order, &spot, &parts)?;
    let first = switch.reach_results(&spot)?;
    let next = switch.begin_after(&spot);
    let (order, mut new) = (switch.any_order(), switch.parts());
    new.iter_mut().for_each(|part| part.exponents = [100, 100]);
    let Some((behind, others)) = order.split_last() else { return Ok(()) };
    switch.send_all(others, &next, &new)?;
    switch.silent("contributions to the next round")?;
    switch.send(*behind, &spot, &parts[*behind])?;
    switch.answered_alone(*behind, &spot, &first[0])?;
    switch.send(*behind, &next, &new[*behind])?;
    let answers = switch.results(&next)?;
    has_sums(&answers, &next, &sum(&new))?;
    same(&next, "set of the result", u8::from(next.set()), u8::from(answers[0].header.set))
}

fn both_jobs(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let second_job = jobs(probe.ground)[1];
    let mut first = Switch::of(probe, 0)?;
    let spot = first.begin_beside(second_job)?;
    let (parts, order) = (first.parts(), first.any_order());
    let Some((last, others)) = order.split_last() else { return Ok(()) };
    first.send_all(others, &spot, &parts)?;
    let mut second = Switch::of(probe, 1)?;
    let there = second.begin_at(&spot);
    let (other_parts, other_order) = (second.parts(), second.any_order());
    second.send_all(&other_order, &there, &other_parts)?;
    let answers = second.results(&there)?;
    has_sums(&answers, &there, &sum(&other_parts))?;
    has_exponent(&answers, &there, &other_parts)?;
    let workers = second.workers.clone();
    second.reaches(&answers, &workers, &there)?;
    asks_again(&mut second, &there, &other_parts, &answers[0])?;
    let mut first = Switch::of(probe, 0)?;
    first.send(*last, &spot, &parts[*last])?;
    let answers = first.results(&spot)?;
    has_sums(&answers, &spot, &sum(&parts))?;
    has_exponent(&answers, &spot, &parts)?;
    let workers = first.workers.clone();
    first.reaches(&answers, &workers, &spot)?;
    asks_again(&mut first, &spot, &parts, &answers[0])
}

/// Sends a random contribution again, and checks that its worker alone is answered.
fn asks_again(switch: &mut Switch, spot: &Spot, parts: &[Part], result: &Answer) -> ProbeResult<()> {
    let n = switch.probe.below(parts.len());
    switch.send(n, spot, &parts[n])?;
    switch.answered_alone(n, spot, result)
}

fn foreign(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let second_job = jobs(probe.ground)[1];
    let stranger = probe.ground.members(second_job)[0];
    let mut switch = Switch::of(probe, 0)?;
    // The other job's slot is in use afterwards if the jobs have separate slots.
    let spot = switch.begin_beside(second_job)?;
    switch.spoil(second_job, spot.slot);
    let (order, parts, other) = (switch.any_order(), switch.parts(), switch.part());
    let Some((last, others)) = order.split_last() else { return Ok(()) };
    switch.send_all(others, &spot, &parts)?;
    let frame = switch.frame(stranger, &spot, &other);
    switch.probe.send(stranger, &frame)?;
    switch.silent("a contribution of another job's worker")?;
    switch.sums_to_last(*last, &spot, &parts)
}
