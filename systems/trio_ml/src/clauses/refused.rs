//! Clauses on frames that must not contribute to a sum: from strangers, of unknown jobs, truncated, or of another type.

use super::router::{Router, Spot, aging, elements, with_router};
use crate::format::{HEADER, PORT};
use pktgen_engine::clause::{Clause, ClauseBreach, LONGER, ProbeGround, ProbeResult, checks};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, refit, worker_ip};

/// Number of jobs that a header can identify.
const JOBS: usize = 256;

/// Common parts of these clauses.
const REFUSED: Clause = Clause {
    precondition: "two workers or more",
    exempt: ProbeGround::alone,
    oracle: "no frame before the last contribution; then the sum of the right contributions; the same where it comes before all of them to another block, which does not age for it",
    ..Clause::BASE
};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "trio-ml-unknown-source",
        title: "sources that are not the job's take part in no sum",
        rule: "A contribution whose src_id is not in the job's src_mask changes nothing (Figure 17).",
        precondition: "two to 254 workers",
        exempt: |ground| ground.alone().or_else(|| all_sources(ground)),
        stimulus: "contributions of all workers but one; that one's with the next src_id behind the job's, with a further one, and with those that differ from its own in one bit; the last",
        probe: |probe| with_router(probe, |router| refuse(router, "contributions of unknown sources", strangers)),
        ..REFUSED
    },
    Clause {
        id: "trio-ml-unknown-job",
        title: "jobs that are not configured open no block",
        rule: "A packet of a job without a record is in no sum, and makes no frame, then or later (§4).",
        precondition: "fewer than 256 jobs",
        exempt: |ground| (ground.workers.clusters() >= JOBS).then(|| "the experiment has 256 jobs".to_owned()),
        stimulus: "contributions of all workers with another job's number; three timeouts later a right block",
        oracle: "no frame of the first; then the sum",
        probe: |probe| with_router(probe, unknown_job),
        ..Clause::BASE
    },
    Clause {
        id: "trio-ml-represents",
        title: "a contribution that represents nobody takes part in no sum",
        rule: "src_cnt of a worker's contribution is 1; one of 0 or more would make receivers divide by a wrong number (ours: docs/trio.md).",
        stimulus: "contributions of all workers but one; that one's with src_cnt 0, 2 and 255; the last",
        probe: |probe| with_router(probe, |router| refuse(router, "contributions with a wrong src_cnt", represents)),
        ..REFUSED
    },
    Clause {
        id: "trio-ml-truncated",
        title: "truncated contributions take part in no sum",
        rule: "A contribution that is shorter than its grad_cnt says changes nothing, whatever of it is there.",
        stimulus: "contributions of all workers but one; that one's, cut within its header, its last gradients or all of them, with lengths to match; the last",
        probe: |probe| with_router(probe, |router| refuse(router, "truncated contributions", cuts)),
        ..REFUSED
    },
    Clause {
        id: "trio-ml-longer",
        title: "contributions that are too long take part in no sum",
        rule: "A contribution that is longer than its grad_cnt says changes nothing (ours: docs/trio.md; padding of Ethernet is outside of the datagram).",
        precondition: "two workers or more; blocks of two gradients or more",
        exempt: |ground| ground.alone().or_else(|| is_padded(ground)),
        stimulus: "contributions of all workers but one; that one's with 1, 4 and up to 64 bytes more, with lengths to match; the last",
        probe: |probe| with_router(probe, |router| refuse(router, "contributions that are too long", longer)),
        ..REFUSED
    },
    Clause {
        id: "trio-ml-lengths",
        title: "contributions whose lengths lie take part in no sum",
        rule: "A contribution whose IPv4 and UDP lengths leave gradients out changes nothing, although the bytes are there.",
        stimulus: "contributions of all workers but one; that one's with shorter lengths in both headers; the last",
        probe: |probe| with_router(probe, |router| refuse(router, "a contribution with wrong lengths", lengths)),
        ..REFUSED
    },
    Clause {
        id: "trio-ml-port",
        title: "other ports take part in no sum",
        rule: "A datagram to a port that is not the device's changes nothing (§4: packets of Trio-ML are those to its UDP port). The device drops it or passes it on.",
        stimulus: "contributions of all workers but one; that one's to another port; the last",
        oracle: "no result before the last contribution; then the sum of the right contributions; the same where it comes before all of them to another block",
        probe: |probe| with_router(probe, |router| ignore(router, "a datagram to another port", port)),
        ..REFUSED
    },
    Clause {
        id: "trio-ml-not-udp",
        title: "what is no UDP over IPv4 takes part in no sum",
        rule: "A frame of another Ethernet type, IP version, header length or protocol changes nothing, whatever bytes it has (RFC 791, RFC 768). The device drops it or passes it on.",
        stimulus: "contributions of all workers but one; that one's with each of some other values in these fields; the last",
        oracle: "no result before the last contribution; then the sum of the right contributions; the same where it comes before all of them to another block",
        probe: |probe| with_router(probe, |router| ignore(router, "frames that are no UDP over IPv4", not_udp)),
        ..REFUSED
    },
];

/// Returns why every `src_id` belongs to a worker.
fn all_sources(ground: &ProbeGround) -> Option<String> {
    let first = ground.of_first_job();
    (first > 254).then(|| format!("the first job has {first} workers"))
}

/// Returns why bytes after a contribution may be padding.
fn is_padded(ground: &ProbeGround) -> Option<String> {
    (elements(ground) < 2).then(|| "blocks have one gradient, and Ethernet pads them".to_owned())
}

/// Returns frames of a missing worker that must have no effect.
type Make = fn(&mut Router, usize, &Spot, &[i32]) -> Vec<Vec<u8>>;

/// Lets all but one contribute, sends frames of that one that must produce no frame, and then its correct contribution.
fn refuse(router: &mut Router, what: &str, make: Make) -> ProbeResult<()> {
    without_effect(router, make, |router| router.silent(what))
}

/// Does the same if the device may forward the frames.
fn ignore(router: &mut Router, what: &str, make: Make) -> ProbeResult<()> {
    without_effect(router, make, |router| router.makes_no_result(what))
}

fn without_effect(router: &mut Router, make: Make, then: impl Fn(&mut Router) -> ProbeResult<()>) -> ProbeResult<()> {
    let spot = router.begin();
    let ((others, last), parts, other) = (router.any_order_and_last(), router.parts(), router.part());
    router.send_all(&others, &spot, &parts)?;
    let frames = make(router, last, &spot, &other);
    frames.iter().try_for_each(|frame| router.send_frame(last, frame))?;
    then(router)?;
    router.sums_to(&[last], &spot, &parts)?;
    // Before any contribution it must not open a block: none times out, and the correct ones are added up.
    let spot = router.begin();
    let (order, parts) = (router.any_order(), router.parts());
    let frames = make(router, last, &spot, &other);
    frames.iter().try_for_each(|frame| router.send_frame(last, frame))?;
    then(router)?;
    router.ages_nothing(&spot, "that nobody contributed to")?;
    router.sums_to(&order, &spot, &parts)?;
    Ok(())
}

fn strangers(router: &mut Router, n: usize, spot: &Spot, part: &[i32]) -> Vec<Vec<u8>> {
    let count = router.workers.len();
    let further = count + router.probe.below(256 - count);
    let header = router.header(n, spot, part);
    // A device that does not check all bits mistakes these for the missing worker.
    let alike = (0..8).map(|bit| n ^ 1 << bit).chain([n + count]);
    let all: Vec<usize> = [count, further].into_iter().chain(alike).filter(|id| (count..256).contains(id)).collect();
    let of = |source: usize| {
        let mut header = header;
        header.source = source as u8;
        router.frame_with(n, &header, part)
    };
    all.into_iter().map(of).collect()
}

fn unknown_job(router: &mut Router) -> ProbeResult<()> {
    let configured = router.probe.ground.workers.clusters();
    let job = configured + router.probe.below(JOBS - configured);
    let spot = Spot { job: job as u8, ..router.begin() };
    let (order, parts) = (router.any_order(), router.parts());
    router.send_all(&order, &spot, &parts)?;
    let mut out = router.settle()?;
    if let Some(span) = aging(router.probe.ground, 1) {
        out.extend(router.pass(span)?);
    }
    if !out.is_empty() {
        return Err(ClauseBreach::stop(format!("{spot}: frames after contributions of an unknown job"), 0, out.len()));
    }
    router.begins_anew();
    let spot = router.begin();
    router.sums_to(&order, &spot, &parts)?;
    Ok(())
}

fn represents(router: &mut Router, n: usize, spot: &Spot, part: &[i32]) -> Vec<Vec<u8>> {
    let header = router.header(n, spot, part);
    let of = |sources| {
        let mut header = header;
        header.sources = sources;
        router.frame_with(n, &header, part)
    };
    [0, 2, 255].map(of).to_vec()
}

fn cuts(router: &mut Router, n: usize, spot: &Spot, part: &[i32]) -> Vec<Vec<u8>> {
    let whole = router.frame(n, spot, part);
    let payload = HEADER + part.len() * 4;
    let within = router.probe.below(HEADER);
    let at_end = payload - 4 * (1 + router.probe.below(part.len().min(4)));
    let anywhere = HEADER + router.probe.below(payload - HEADER);
    let cut = |left: usize| {
        let mut frame = whole[..HEAD + left].to_vec();
        refit(&mut frame, (PORT, PORT));
        frame
    };
    [within, at_end, anywhere].map(cut).to_vec()
}

fn longer(router: &mut Router, n: usize, spot: &Spot, part: &[i32]) -> Vec<Vec<u8>> {
    let more = [1, 4, 1 + router.probe.below(LONGER)];
    let whole = router.frame(n, spot, part);
    let with = |more: usize| {
        let mut frame = [&whole[..], &vec![0xa5; more]].concat();
        refit(&mut frame, (PORT, PORT));
        frame
    };
    more.map(with).to_vec()
}

fn lengths(router: &mut Router, n: usize, spot: &Spot, part: &[i32]) -> Vec<Vec<u8>> {
    let mut frame = router.frame(n, spot, part);
    let said = HEAD + HEADER + 4 * router.probe.below(part.len());
    let mut head = vec![0; said];
    Template::new((worker_ip(router.workers[n]), PORT), (SERVER_IP, PORT), said).emit(&mut head);
    frame[..HEAD].copy_from_slice(&head[..HEAD]);
    vec![frame]
}

fn port(router: &mut Router, n: usize, spot: &Spot, part: &[i32]) -> Vec<Vec<u8>> {
    let mut frame = router.frame(n, spot, part);
    let other = 13_000 + (router.probe.bits() % 40_000) as u16;
    refit(&mut frame, (PORT, other));
    vec![frame]
}

fn not_udp(router: &mut Router, n: usize, spot: &Spot, part: &[i32]) -> Vec<Vec<u8>> {
    let plain = router.frame(n, spot, part);
    checks::not_udp(|| plain.clone()).collect()
}
