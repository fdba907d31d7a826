//! Clauses on blocks that lack a worker: when they time out, and their partial results (§5).

use pktgen_core::units::Span;

use super::blocks::{WINDOW, whole_window};
use super::results::{has_right_stations, is_well_addressed};
use super::router::{BLOCKS, Router, Spot, blocks_in_time, counts, has_sums, timeout, with_router};
use crate::format::HEADER;
use pktgen_engine::clause::checks::{headers_fit, same, wrapping_sum};
use pktgen_engine::clause::{Clause, ClauseBreach, ProbeGround, ProbeResult, ProbeStop};

/// Common parts of these clauses.
const AGING: Clause = Clause {
    precondition: "target.mitigation = true; two workers or more",
    exempt: never_ages,
    observation: "all ports, for four timeouts at most and the time on their links",
    error: "on wires a device that is late by less than the host's own lateness is not found",
    ..Clause::BASE
};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "trio-ml-aged",
        title: "a block that lacks a worker ages in time",
        rule: "A block that no packet touched for the timeout ages: its partial result leaves one to two timeouts behind the last contribution (§5, Figure 14).",
        stimulus: "at a random moment, contributions of all workers but one",
        oracle: "a result of the block, one to two timeouts later; a tenth of a timeout and half a millisecond more are the chip's, and in virtual time the time on the port's link does not count",
        probe: |probe| with_router(probe, in_time),
        ..AGING
    },
    Clause {
        id: "trio-ml-partial",
        title: "a partial result says what it lacks",
        rule: "The result of a block that aged has the sum of those that contributed, their number in src_cnt, degraded 1 and age_op 1 (§5), and a source of the job in src_id (ours: docs/trio.md).",
        stimulus: "at a random moment, contributions of one to all but one of the workers to each of up to 16 blocks anywhere in 32 bits, in random order",
        oracle: "for each block 32-bit sums made by the certifier; that number, 1 and 1; once to each worker; in virtual time and in lockstep at the time of trio-ml-aged",
        probe: |probe| with_router(probe, partial),
        ..AGING
    },
    Clause {
        id: "trio-ml-partial-receivers",
        title: "a partial result goes to every worker, in right headers",
        rule: "A partial result goes where a whole one would: once to each worker of the job, the straggler too (§5). Its headers are as right as those of a whole one.",
        stimulus: "contributions of all workers but one",
        oracle: "one copy for each worker of the job; addresses of the experiment, headers made by the certifier; final as in the contributions",
        repeats: 2,
        probe: |probe| with_router(probe, receivers),
        ..AGING
    },
    Clause {
        id: "trio-ml-touched",
        title: "a block that is touched does not age",
        rule: "A lookup sets the REF flag of the record that it finds (§5), also for a packet that is then refused (docs/trio.md): a block ages only if none of its packets comes for a timeout.",
        stimulus: "three quarters of a timeout apart: contributions of all workers but one, two copies of one of them, two contributions of that worker with the generation before, and its right one",
        observation: "all ports, until the device is silent",
        oracle: "no frame before the last contribution; then the whole sum",
        repeats: 2,
        probe: |probe| with_router(probe, touched),
        ..AGING
    },
    Clause {
        id: "trio-ml-after-aging",
        title: "a block that aged has room for the next iteration",
        rule: "Nothing of a block that aged is left: the next generation is summed from zero, and is whole (§4, §5).",
        stimulus: "contributions of all workers but one, which age; then those of all with the next generation",
        oracle: "32-bit sums made by the certifier, of the next generation; all workers, 0 and 0",
        repeats: 3,
        probe: |probe| with_router(probe, after),
        ..AGING
    },
    Clause {
        id: "trio-ml-patient",
        title: "without mitigation a late worker is waited for",
        rule: "Without timer threads a block waits for all its workers, however late one is (§4).",
        precondition: "target.mitigation = false; two workers or more",
        exempt: |ground| ground.alone().or_else(|| timeout(ground).map(|_| "target.mitigation = true".to_owned())),
        stimulus: "contributions of all workers but one; that one's after certify.late",
        observation: "all ports, for certify.late and until the device is silent",
        oracle: "no frame before the last contribution; then the whole sum",
        repeats: 2,
        error: "a timeout longer than certify.late is not found",
        probe: |probe| with_router(probe, patient),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-late",
        title: "a contribution to a block that aged is in no other sum",
        rule: "The partial result ends the record of a block that aged (§5): a contribution that comes after it opens a new record, which ages, or is dropped (docs/trio.md). It is not in the sum of the next generation (§4), which also ends a record that is open.",
        stimulus: "contributions of all workers but one, which age; then that one's, to the same block and generation; after three timeouts those of all with the next generation; the same with another block, without these three timeouts",
        observation: "all ports, for four timeouts at most, for three more behind the late contribution, until the device is silent, and for three timeouts",
        oracle: "for three timeouts no result behind the partial one, or a partial one with the late contribution alone: its gradients, src_cnt 1, degraded 1 and age_op 1; then the next generation's sum and number of workers, whatever comes of the late contribution",
        repeats: 3,
        probe: |probe| with_router(probe, late),
        ..AGING
    },
    Clause {
        id: "trio-ml-released",
        title: "blocks that aged or are whole make room for others",
        rule: "Only blocks under way count in block_curr_cnt: block_cnt_max others may be under way afterwards (§4, Figure 17).",
        precondition: "target.mitigation = true; two workers or more; a target.block_cnt_max of 256 or less, and of no more blocks than arrive within an eighth of the timeout at 1 µs for each contribution",
        exempt: |ground| never_ages(ground).or_else(|| many_blocks(ground)),
        stimulus: "twice: contributions of all workers but any one to each of target.block_cnt_max blocks, which age, then those of all to as many others; then those of all to as many once more, the last worker's behind the others'",
        observation: "all ports, for three timeouts behind each window that ages, and until the device is silent",
        oracle: "a partial result of each block that lacks a worker; no frame before the last worker's contributions to the others; then one result for each, with its sum, once to each worker",
        repeats: 1,
        probe: |probe| with_router(probe, released),
        ..AGING
    },
];

fn never_ages(ground: &ProbeGround) -> Option<String> {
    ground.alone().or_else(|| timeout(ground).is_none().then(|| "target.mitigation = false".to_owned()))
}

/// Returns why not all blocks that may be under way are tested at once.
fn many_blocks(ground: &ProbeGround) -> Option<String> {
    let (most, tested) = (ground.number("target.block_cnt_max"), blocks_in_time(ground, WINDOW));
    match most {
        Some(most) if most <= tested as i64 => None,
        Some(most) => Some(format!("target.block_cnt_max = {most}; {tested} or fewer are tested")),
        None => Some("target.block_cnt_max is not set".to_owned()),
    }
}

fn in_time(router: &mut Router) -> ProbeResult<()> {
    router.any_phase()?;
    let spot = router.begin();
    let ((others, _), parts) = (router.any_order_and_last(), router.parts());
    let (behind, first) = others.split_last().map_or((0, &others[..]), |(last, others)| (*last, others));
    router.send_all(first, &spot, &parts)?;
    let before = router.probe.now();
    router.send(behind, &spot, &parts[behind])?;
    let (_, least, most) = router.aged(&spot, before)?;
    router.ages_in_time(&spot, least, most)
}

fn partial(router: &mut Router) -> ProbeResult<()> {
    router.any_phase()?;
    let workers = router.workers.len();
    let most = router.probe.ground.number("target.block_cnt_max").map_or(BLOCKS, |most| (most as usize).min(BLOCKS));
    let count = blocks_in_time(router.probe.ground, most);
    let (mut spots, mut parts, mut orders, mut all) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for at in 0..count {
        let fresh = router.begin();
        let mut order = router.any_order();
        order.truncate(1 + router.probe.below(workers - 1));
        all.extend(order.iter().map(|n| (at, *n)));
        spots.push(Spot { block: router.probe.bits() & !0xffff | fresh.block, ..fresh });
        parts.push(router.parts());
        orders.push(order);
    }
    // The moments before and after the last contribution to each block.
    let mut touched = vec![(0, 0); count];
    for (at, n) in router.probe.shuffled(&all) {
        let before = router.probe.now();
        router.send(n, &spots[at], &parts[at][n])?;
        touched[at] = (before, router.probe.last_sent());
    }
    let answers = router.all_aged(&spots)?;
    for (at, answers) in answers.iter().enumerate() {
        counts(answers, &spots[at], orders[at].len(), workers)?;
        has_sums(answers, &spots[at], &wrapping_sum(orders[at].iter().map(|n| &parts[at][*n])))?;
        router.reaches(answers, &spots[at])?;
        router.one_ages_in_time(answers, &spots[at], touched[at], count)?;
    }
    Ok(())
}

fn receivers(router: &mut Router) -> ProbeResult<()> {
    let spot = router.begin();
    let ((others, _), parts) = (router.any_order_and_last(), router.parts());
    for n in others {
        let mut header = router.header(n, &spot, &parts[n]);
        header.last = true;
        let frame = router.frame_with(n, &header, &parts[n]);
        router.send_frame(n, &frame)?;
    }
    let before = router.probe.now();
    let (answers, ..) = router.aged(&spot, before)?;
    router.reaches(&answers, &spot)?;
    is_well_addressed(&answers, &spot)?;
    has_right_stations(&answers, &spot)?;
    for answer in &answers {
        same(&spot, "final of the result", 1, u8::from(answer.header.last))?;
        headers_fit(&spot, &answer.frame.bytes, HEADER + answer.sums.len() * 4)?;
    }
    Ok(())
}

fn touched(router: &mut Router) -> ProbeResult<()> {
    let Some(timeout) = timeout(router.probe.ground) else { return Ok(()) };
    let mut spot = router.begin();
    spot.generation = spot.generation.max(1);
    let earlier = Spot { generation: spot.generation - 1, ..spot };
    let ((others, last), parts, other) = (router.any_order_and_last(), router.parts(), router.part());
    let again = others[router.probe.below(others.len())];
    // Two of each kind that is in no sum: a block that they do not touch lacks packets for more than two timeouts.
    let mut frames: Vec<_> = others.iter().map(|n| (*n, router.frame(*n, &spot, &parts[*n]))).collect();
    let (copy, stale) = (router.frame(again, &spot, &parts[again]), router.frame(last, &earlier, &other));
    frames.extend([(again, copy.clone()), (again, copy), (last, stale.clone()), (last, stale)]);
    for (n, frame) in &frames {
        router.begins_anew();
        router.send_frame(*n, frame)?;
        let left = router.probe.last_sent();
        let out = router.pass(timeout * 3 / 4)?;
        let gap = router.probe.now() - left;
        if gap >= timeout {
            return Err(ProbeStop::Undecidable(format!(
                "two packets of a block were {} apart, and target.timeout is {}",
                Span::from_ps(gap),
                Span::from_ps(timeout)
            )));
        }
        if !out.is_empty() {
            let after = format!("{spot}: frames while packets come three quarters of a timeout apart");
            return Err(ClauseBreach::stop(after, "none", out.len()));
        }
    }
    router.begins_anew();
    let answers = router.sums_to(&[last], &spot, &parts)?;
    counts(&answers, &spot, parts.len(), parts.len())
}

/// Lets a block age that lacks one worker; returns the block, that worker, and the parts of all workers.
fn age_one(router: &mut Router) -> ProbeResult<(Spot, usize, Vec<Vec<i32>>)> {
    let spot = router.begin();
    let ((others, last), parts) = (router.any_order_and_last(), router.parts());
    router.send_all(&others, &spot, &parts)?;
    let before = router.probe.now();
    router.aged(&spot, before)?;
    Ok((spot, last, parts))
}

fn after(router: &mut Router) -> ProbeResult<()> {
    let (spot, ..) = age_one(router)?;
    router.sums_next(&spot)
}

fn patient(router: &mut Router) -> ProbeResult<()> {
    let spot = router.begin();
    let ((others, last), parts) = (router.any_order_and_last(), router.parts());
    router.send_all(&others, &spot, &parts)?;
    let late = router.probe.ground.late;
    let out = router.pass(late)?;
    if !out.is_empty() {
        return Err(ClauseBreach::stop(format!("{spot}: frames while one contribution is missing"), "none", out.len()));
    }
    let answers = router.sums_to(&[last], &spot, &parts)?;
    counts(&answers, &spot, parts.len(), parts.len())
}

fn late(router: &mut Router) -> ProbeResult<()> {
    for is_open in [false, true] {
        let (spot, last, parts) = age_one(router)?;
        router.send(last, &spot, &parts[last])?;
        if !is_open {
            let answers = router.late_results(&spot)?;
            has_sums(&answers, &spot, &parts[last])?;
            counts(&answers, &spot, 1, parts.len())?;
        }
        router.sums_next(&spot)?;
    }
    // The record of the late contribution may be kept until then.
    router.ages_all()
}

fn released(router: &mut Router) -> ProbeResult<()> {
    let count = router.probe.ground.number("target.block_cnt_max").map_or(1, |most| most as usize);
    for _ in 0..2 {
        let spots: Vec<_> = (0..count).map(|_| router.begin()).collect();
        for spot in &spots {
            // Any of them, so that none is a permanent straggler.
            let ((others, _), parts) = (router.any_order_and_last(), router.parts());
            router.send_all(&others, spot, &parts)?;
        }
        router.all_aged(&spots)?;
        whole_window(router, count)?;
    }
    whole_window(router, count)
}
