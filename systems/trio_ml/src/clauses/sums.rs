//! Clauses on sums.

use super::router::{Router, elements, with_router};
use pktgen_engine::clause::checks::{EDGES, orders};
use pktgen_engine::clause::{Clause, ProbeGround, ProbeResult};

/// Numbers of gradients in the part of a packet that the router's threads hold locally, 192 bytes, and around it (§4).
const SIZES: [u16; 8] = [1, 2, 33, 34, 35, 36, 50, 51];
/// Number of iterations of one block.
const ROUNDS: u16 = 16;

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "trio-ml-sum",
        title: "sums are bit-exact",
        rule: "Every gradient of a result is the sum of the workers' gradients at its place (§4).",
        stimulus: "one contribution of each worker, in random order, with random gradients of 32 bits",
        oracle: "32-bit sums made by the certifier",
        error: "a wrong gradient agrees by chance with probability 2⁻³²",
        repeats: 10,
        probe: |probe| with_router(probe, sum),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-order",
        title: "the order of arrival is without effect",
        rule: "The same contributions make the same result in whatever order they arrive (§4).",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "the same random contributions in all orders, at most 24 of them",
        oracle: "32-bit sums made by the certifier",
        error: "of more than 4 workers a random choice of 24 orders is tried",
        repeats: 2,
        probe: |probe| with_router(probe, order),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-wrap",
        title: "sums wrap around",
        rule: "Sums are of 32-bit adds, modulo 2³² (§6.3); they do not saturate.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "the largest and smallest numbers, from each pair of workers in turn, zeros from all others",
        oracle: "32-bit sums made by the certifier",
        repeats: 3,
        probe: |probe| with_router(probe, wrap),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-sizes",
        title: "a block has as many gradients as its packets say",
        rule: "grad_cnt is the number of gradients; head and tail of a packet are summed alike (§4).",
        precondition: "blocks of two gradients or more",
        exempt: |ground: &ProbeGround| (elements(ground) < 2).then(|| "blocks have one gradient".to_owned()),
        stimulus: "blocks of 1, 2, 33 to 36, 50 and 51 gradients, around the 192 bytes of a head, of one less than the largest, and of that",
        oracle: "32-bit sums made by the certifier, of as many gradients",
        repeats: 2,
        probe: |probe| with_router(probe, sizes),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-reuse",
        title: "nothing is left of earlier iterations",
        rule: "A block's sum begins anew in each generation (§4).",
        stimulus: "16 generations of one block, each in a random order, beyond the last of 16 bits",
        oracle: "the sum of each generation",
        repeats: 3,
        probe: |probe| with_router(probe, reuse),
        ..Clause::BASE
    },
];

fn sum(router: &mut Router) -> ProbeResult<()> {
    let spot = router.begin();
    let (order, parts) = (router.any_order(), router.parts());
    router.sums_to(&order, &spot, &parts)?;
    Ok(())
}

fn order(router: &mut Router) -> ProbeResult<()> {
    let parts = router.parts();
    for order in orders(router.probe, parts.len()) {
        let spot = router.begin();
        router.sums_to(&order, &spot, &parts)?;
    }
    Ok(())
}

fn wrap(router: &mut Router) -> ProbeResult<()> {
    let workers = router.workers.len();
    let first = router.probe.below(workers);
    for n in 0..workers.min(4) {
        let (one, other) = ((first + n) % workers, (first + n + 1) % workers);
        let mut parts = vec![vec![0; usize::from(router.elements)]; workers];
        for lane in 0..usize::from(router.elements) {
            [parts[one][lane], parts[other][lane]] = EDGES[(lane + n) % EDGES.len()];
        }
        let spot = router.begin();
        let order = router.any_order();
        router.sums_to(&order, &spot, &parts)?;
    }
    Ok(())
}

fn sizes(router: &mut Router) -> ProbeResult<()> {
    let most = router.elements;
    let smaller = SIZES.into_iter().filter(|size| *size < most - 1);
    for size in smaller.chain([most - 1, most]) {
        let spot = router.begin();
        let order = router.any_order();
        let parts: Vec<_> = (0..router.workers.len()).map(|_| router.part_of(size)).collect();
        router.sums_to(&order, &spot, &parts)?;
    }
    Ok(())
}

fn reuse(router: &mut Router) -> ProbeResult<()> {
    let mut spot = router.begin();
    spot.generation = u16::MAX - ROUNDS / 2;
    for _ in 0..ROUNDS {
        let (order, parts) = (router.any_order(), router.parts());
        router.sums_to(&order, &spot, &parts)?;
        spot.generation = spot.generation.wrapping_add(1);
    }
    Ok(())
}
