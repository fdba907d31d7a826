//! Clauses on results: their recipients and their headers.

use super::router::{Answer, Router, Spot, counts, with_router};
use crate::format::{HEADER, PORT};
use pktgen_engine::clause::checks::{dotted, headers_fit, same, station};
use pktgen_engine::clause::{Clause, ClauseBreach, ProbeGround, ProbeResult};
use pktgen_wire::wire::frame::{SERVER_IP, mac_of, set_udp_checksum};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "trio-ml-receivers",
        title: "a result goes to every worker once, and to nobody else",
        rule: "One copy at each worker's port, to its address or to the job's group, and no other frame (§4, \"Result packet\").",
        stimulus: "one contribution of each worker, in random order",
        observation: "all ports, until the device is silent, and for three timeouts; without mitigation for certify.late",
        oracle: "one copy for each worker of the job, and none later",
        probe: |probe| with_router(probe, receivers),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-echo",
        title: "a result names the block that it is of",
        rule: "Job, block, generation and number of gradients of a result are those of the contributions (Figure 8).",
        stimulus: "one contribution of each worker",
        oracle: "the same fields",
        probe: |probe| with_router(probe, echo),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-counts",
        title: "a whole result says that it is whole",
        rule: "src_cnt of a result to which all have contributed is the number of the job's workers, degraded and age_op are 0 (§4, §5); src_id is a source of the job (ours: docs/trio.md).",
        stimulus: "one contribution of each worker",
        oracle: "the number of workers, 0 and 0; any source of the job",
        probe: |probe| with_router(probe, whole),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-final",
        title: "the last block of a model stays the last",
        rule: "A result is final if contributions are, and else it is not (Figure 8).",
        stimulus: "contributions that all say final; the same without",
        oracle: "the flag of the contributions",
        repeats: 2,
        probe: |probe| with_router(probe, last),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-complete",
        title: "no result before all have contributed",
        rule: "A sum under way makes no frame before the timeout (§4).",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "contributions of all workers but one, a quarter of the timeout, then the last",
        oracle: "no frame before the last contribution; then the sum",
        probe: |probe| with_router(probe, complete),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-addresses",
        title: "results come from the address that contributions go to",
        rule: "A result is from the device's address (out_src_addr, Figure 17) and goes to port 12000 (§4).",
        stimulus: "one contribution of each worker",
        oracle: "the addresses of the experiment or of its profile",
        repeats: 2,
        probe: |probe| with_router(probe, addresses),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-headers",
        title: "headers of results are right",
        rule: "Lengths in IPv4 and UDP are those of the result, the IPv4 checksum is right, the UDP checksum right or 0 (RFC 791, RFC 768).",
        stimulus: "one contribution of each worker without a UDP checksum; the same with one",
        oracle: "headers made by the certifier",
        repeats: 2,
        probe: |probe| with_router(probe, headers),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-ethernet",
        title: "the workers' cards accept results",
        rule: "The Ethernet destination of a result is the worker's, or that of the job's group (RFC 1112, §6.4); its source is the device's.",
        stimulus: "one contribution of each worker",
        oracle: "the addresses of the experiment or of its profile",
        repeats: 2,
        probe: |probe| with_router(probe, ethernet),
        ..Clause::BASE
    },
];

fn receivers(router: &mut Router) -> ProbeResult<()> {
    let spot = router.begin();
    let (order, parts) = (router.any_order(), router.parts());
    router.send_all(&order, &spot, &parts)?;
    let answers = router.answers_of(&[spot])?;
    router.reaches(&answers, &spot)?;
    if super::router::timeout(router.probe.ground).is_none() {
        let late = router.probe.ground.late;
        let more = router.pass(late)?.len();
        same(&spot, "frames after the result", 0, more)?;
    }
    router.ages_nothing(&spot, "whose result has left")
}

fn echo(router: &mut Router) -> ProbeResult<()> {
    let spot = router.begin();
    let (order, parts) = (router.any_order(), router.parts());
    router.send_all(&order, &spot, &parts)?;
    let answers = router.answers()?;
    if answers.is_empty() {
        return Err(ClauseBreach::stop(format!("{spot}: results"), "a result", "none"));
    }
    for Answer { header, .. } in &answers {
        same(&spot, "job of the result", spot.job, header.job)?;
        same(&spot, "block of the result", spot.block, header.block)?;
        same(&spot, "generation of the result", spot.generation, header.generation)?;
        same(&spot, "gradients of the result", router.elements, header.elements)?;
    }
    Ok(())
}

fn whole(router: &mut Router) -> ProbeResult<()> {
    let (spot, answers) = router.whole()?;
    let all = router.workers.len();
    counts(&answers, &spot, all, all)
}

fn last(router: &mut Router) -> ProbeResult<()> {
    for is_last in [true, false] {
        let spot = router.begin();
        let (order, parts) = (router.any_order(), router.parts());
        for n in order {
            let mut header = router.header(n, &spot, &parts[n]);
            header.last = is_last;
            let frame = router.frame_with(n, &header, &parts[n]);
            router.send_frame(n, &frame)?;
        }
        for answer in router.results(&spot)? {
            same(&spot, "final of the result", u8::from(is_last), u8::from(answer.header.last))?;
        }
    }
    Ok(())
}

fn complete(router: &mut Router) -> ProbeResult<()> {
    let spot = router.begin();
    let ((others, last), parts) = (router.any_order_and_last(), router.parts());
    router.send_all(&others, &spot, &parts)?;
    router.silent(&format!("{} of {} contributions", others.len(), parts.len()))?;
    router.sums_to(&[last], &spot, &parts)?;
    Ok(())
}

fn addresses(router: &mut Router) -> ProbeResult<()> {
    let (spot, answers) = router.whole()?;
    is_well_addressed(&answers, &spot)
}

/// Checks that addresses and ports are those of the device and of the workers.
pub(super) fn is_well_addressed(answers: &[Answer], spot: &Spot) -> ProbeResult<()> {
    answers.iter().try_for_each(|answer| {
        same(spot, "source address of the result", dotted(SERVER_IP), dotted(answer.from.0))?;
        same(spot, "destination port of the result", PORT, answer.to.1)
    })
}

fn headers(router: &mut Router) -> ProbeResult<()> {
    for with_checksum in [false, true] {
        let spot = router.begin();
        let (order, parts) = (router.any_order(), router.parts());
        for n in order {
            let mut frame = router.frame(n, &spot, &parts[n]);
            if with_checksum {
                set_udp_checksum(&mut frame);
            }
            router.send_frame(n, &frame)?;
        }
        for answer in router.results(&spot)? {
            headers_fit(&spot, &answer.frame.bytes, HEADER + answer.sums.len() * 4)?;
        }
    }
    Ok(())
}

fn ethernet(router: &mut Router) -> ProbeResult<()> {
    let (spot, answers) = router.whole()?;
    has_right_stations(&answers, &spot)
}

/// Checks that Ethernet addresses are those of the device and of the recipient.
pub(super) fn has_right_stations(answers: &[Answer], spot: &Spot) -> ProbeResult<()> {
    answers.iter().try_for_each(|answer| {
        let (to, from) = answer.frame.bytes[..12].split_at(6);
        same(spot, "Ethernet destination of the result", station(&mac_of(answer.to.0)), station(to))?;
        same(spot, "Ethernet source of the result", station(&mac_of(SERVER_IP)), station(from))
    })
}
