//! Clauses on the identity of a sum (block, generation and job) and on repeated contributions.

use super::router::{Router, Spot, blocks_in_time, counts, has_sums, with_router};
use pktgen_engine::clause::checks::wrapping_sum;
use pktgen_engine::clause::{Clause, ProbeGround, ProbeResult};

/// Number of blocks in progress in addition to one.
const BITS: u32 = 32;
/// Maximum number of blocks of a window that are tested.
pub(super) const WINDOW: usize = 256;

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "trio-ml-blocks",
        title: "blocks are apart",
        rule: "All 32 bits of a block's number tell it from others (Figure 8).",
        precondition: "target.block_cnt_max of 33 or more",
        exempt: |ground| few_blocks(ground, BITS as usize + 1),
        stimulus: "contributions of all workers to a block and to those whose numbers differ from it in one bit: one to each of them per round, in random order",
        oracle: "one result for each block, with its sum, once to each worker",
        repeats: 2,
        probe: |probe| with_router(probe, apart),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-window",
        title: "a window of blocks may be under way",
        rule: "The device holds the blocks of a window until their last contributions come (§4); of larger windows 256 blocks, and no more than arrive within an eighth of the timeout at 1 µs each.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "contributions of all workers but one to all blocks of a window; then the last one's",
        oracle: "no frame before the last worker's contributions; then one result for each block, with its sum, once to each worker",
        repeats: 2,
        probe: |probe| with_router(probe, window),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-again",
        title: "a contribution counts once",
        rule: "src_id tells contributions that come again while their block is under way: they change nothing and are not answered (§4).",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "contributions of some workers, each again one to three times, then those of the others",
        oracle: "no frame before the last contribution; then the sum, each contribution once, and the number of workers",
        probe: |probe| with_router(probe, again),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-older",
        title: "a contribution of an earlier iteration is in no sum",
        rule: "The generation tells iterations: a packet of an earlier one than its block's changes nothing (§4).",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "contributions of all workers but one to a block; one of that worker with the generation before; its right one",
        oracle: "no frame before the last contribution; then the sum of the right contributions",
        probe: |probe| with_router(probe, older),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-newer",
        title: "a later iteration has a sum of its own",
        rule: "The generation tells iterations: nothing of a block that is under way is in the sum of the next iteration (§4).",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "contributions of all workers but one to a block; then those of all with the next generation; the same of generation 65535, which 0 follows",
        oracle: "the next generation's sum and number of workers, whatever comes of the earlier one",
        probe: |probe| with_router(probe, newer),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-jobs",
        title: "jobs are apart",
        rule: "Job and block name a sum (§4): blocks of one number and generation of two jobs do not touch each other.",
        precondition: "two jobs; two workers or more",
        exempt: ProbeGround::one_job,
        stimulus: "contributions of all workers of the first job but one; those of the second job to the same block and generation; the last",
        oracle: "results of each job with the sums of its workers, to its workers only",
        probe: |probe| with_router(probe, both_jobs),
        ..Clause::BASE
    },
];

/// Returns why fewer blocks than `least` can be in progress.
fn few_blocks(ground: &ProbeGround, least: usize) -> Option<String> {
    let most = ground.number("target.block_cnt_max")?;
    (most < least as i64).then(|| format!("target.block_cnt_max = {most}"))
}

fn apart(router: &mut Router) -> ProbeResult<()> {
    // Far from the blocks of other probes, whichever bit differs.
    let fresh = router.begin();
    let block = (1 + fresh.block) << 20 | 1 << 19 | router.probe.below(1 << 19) as u32;
    let mut spots = vec![Spot { block, ..fresh }; BITS as usize + 1];
    (0..BITS).zip(&mut spots[1..]).for_each(|(bit, spot)| spot.block ^= 1 << bit);
    let parts: Vec<_> = spots.iter().map(|_| router.parts()).collect();
    let mut orders: Vec<_> = spots.iter().map(|_| router.any_order().into_iter()).collect();
    // All are under way together, and each is touched in every round: with many workers they age no earlier.
    for _ in 0..router.workers.len() {
        let begun = router.probe.now();
        for spot in router.probe.order(spots.len()) {
            if let Some(n) = orders[spot].next() {
                router.send(n, &spots[spot], &parts[spot][n])?;
            }
        }
        router.touched_since(begun)?;
    }
    router.all_sums(&spots, &parts)
}

fn window(router: &mut Router) -> ProbeResult<()> {
    let number = |key| router.probe.ground.number(key).and_then(|n| usize::try_from(n).ok()).unwrap_or(WINDOW);
    let count = number("endpoint.window").min(number("target.block_cnt_max")).clamp(1, WINDOW);
    let count = blocks_in_time(router.probe.ground, count);
    whole_window(router, count)
}

/// Lets all contribute to this many blocks, which are under way until the last worker's contributions.
pub(super) fn whole_window(router: &mut Router, count: usize) -> ProbeResult<()> {
    let spots: Vec<_> = (0..count).map(|_| router.begin()).collect();
    let (others, last) = router.any_order_and_last();
    let parts: Vec<_> = spots.iter().map(|_| router.parts()).collect();
    for (spot, parts) in spots.iter().zip(&parts) {
        router.send_all(&others, spot, parts)?;
    }
    router.silent("contributions of all workers but one")?;
    for (spot, parts) in spots.iter().zip(&parts) {
        router.send(last, spot, &parts[last])?;
    }
    router.all_sums(&spots, &parts)
}

fn again(router: &mut Router) -> ProbeResult<()> {
    let spot = router.begin();
    let ((others, last), parts) = (router.any_order_and_last(), router.parts());
    let some = 1 + router.probe.below(others.len());
    for (at, n) in others.iter().enumerate() {
        router.send(*n, &spot, &parts[*n])?;
        for _ in 0..if at < some { 1 + router.probe.below(3) } else { 0 } {
            router.send(*n, &spot, &parts[*n])?;
        }
    }
    router.silent("contributions of some workers that came again")?;
    let answers = router.sums_to(&[last], &spot, &parts)?;
    counts(&answers, &spot, parts.len(), parts.len())
}

fn older(router: &mut Router) -> ProbeResult<()> {
    let mut spot = router.begin();
    spot.generation = spot.generation.max(1);
    let ((others, last), parts, other) = (router.any_order_and_last(), router.parts(), router.part());
    router.send_all(&others, &spot, &parts)?;
    let mut before = spot;
    before.generation -= 1;
    router.send(last, &before, &other)?;
    router.silent("a contribution of an earlier generation")?;
    router.sums_to(&[last], &spot, &parts)?;
    Ok(())
}

fn newer(router: &mut Router) -> ProbeResult<()> {
    // The generation has 16 bits: after the maximum, it is 0.
    let own = router.begin();
    for spot in [own, Spot { generation: u16::MAX, ..router.begin() }] {
        let ((others, _), parts) = (router.any_order_and_last(), router.parts());
        router.send_all(&others, &spot, &parts)?;
        router.sums_next(&spot)?;
    }
    // The earlier generations may be kept until then.
    router.ages_all()
}

fn both_jobs(first: &mut Router) -> ProbeResult<()> {
    let ((others, last), parts) = (first.any_order_and_last(), first.parts());
    let job = first.job;
    let mut second = Router::of(first.probe, 1)?;
    let (order, other) = (second.any_order(), second.parts());
    let there = second.begin_beside(job);
    let spot = Spot { job: job as u8, ..there };
    first.send_all(&others, &spot, &parts)?;
    let mut second = Router::of(first.probe, 1)?;
    second.send_all(&order, &there, &other)?;
    let answers = second.results_beside(&there)?;
    has_sums(&answers, &there, &wrapping_sum(&other))?;
    second.reaches(&answers, &there)?;
    let answers = first.sums_to(&[last], &spot, &parts)?;
    first.reaches(&answers, &spot)
}
