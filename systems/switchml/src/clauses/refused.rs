//! Clauses on frames that must not contribute to a sum: from strangers, for missing slots, truncated, or of another type.

use super::switch::{Part, Spot, Switch, has_no_result};
use crate::format::{HEADER, PORT, WORKER_PORT};
use pktgen_engine::clause::{Clause, ClauseProbe, LONGER, ProbeGround, ProbeResult, STRANGERS, checks};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, refit, worker_ip};

/// Number of slots that 14 bits can identify.
const NAMED: i64 = 1 << 14;
/// Numbers of values that a device might assume for an undefined size code.
const COUNTS: [usize; 6] = [0, 1, 32, 64, 128, 256];

/// Common parts of these clauses.
const REFUSED: Clause = Clause {
    precondition: "two workers or more",
    exempt: ProbeGround::alone,
    oracle: "no frame before the last contribution; then the sum of the right contributions",
    ..Clause::BASE
};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "switchml-unknown-source",
        title: "strangers take part in no sum",
        rule: "A contribution from an address that is no worker's changes nothing and is not answered.",
        stimulus: "contributions of all workers but one; one from each of the next two addresses behind the workers', one from a further one; the last",
        probe: |probe| refuse(probe, "contributions of no worker", strangers),
        ..REFUSED
    },
    Clause {
        id: "switchml-beyond-pool",
        title: "slots beyond the pool touch none of it",
        rule: "A contribution to a slot beyond the pool changes no sum of another slot.",
        precondition: "two workers or more; target.pool below 16,384",
        exempt: whole_pool,
        stimulus: "contributions of all workers but the first; that one's to slots beyond the pool that differ in a bit, or by the pool; its right one",
        probe: beyond,
        ..REFUSED
    },
    Clause {
        id: "switchml-truncated",
        title: "truncated contributions take part in no sum",
        rule: "A contribution that is shorter than its size says changes nothing, whatever of it is there.",
        stimulus: "contributions of all workers but one; that one's, cut within its header, its last values or all of them, with lengths to match and, of the last, with those of a whole one; the last",
        probe: cuts,
        ..REFUSED
    },
    Clause {
        id: "switchml-longer",
        title: "contributions that are too long take part in no sum",
        rule: "A contribution that is longer than its size says changes nothing (ours: docs/switchml.md; the length of a packet follows from its size).",
        stimulus: "contributions of all workers but one; that one's with 1 to 64 bytes more, with lengths to match; the last",
        probe: |probe| refuse(probe, "a contribution that is too long", longer),
        ..REFUSED
    },
    Clause {
        id: "switchml-lengths",
        title: "contributions whose lengths lie take part in no sum",
        rule: "A contribution whose IPv4 and UDP lengths leave values out changes nothing, although the bytes are there.",
        stimulus: "contributions of all workers but one; that one's with shorter lengths in both headers; the last",
        probe: |probe| refuse(probe, "a contribution with wrong lengths", lengths),
        ..REFUSED
    },
    Clause {
        id: "switchml-size",
        title: "other sizes take part in no sum",
        rule: "A packet whose size code is neither 64 nor 256 values changes nothing (p4lang/p4app-switchML drops 32 and 128).",
        stimulus: "contributions of all workers but one; that one's with each other size code and 0, 1, 32, 64, 128 and 256 values, as many as there is room for; the last",
        probe: sizes,
        ..REFUSED
    },
    Clause {
        id: "switchml-type",
        title: "other types take part in no sum",
        rule: "A packet whose type is not 1 changes nothing.",
        stimulus: "contributions of all workers but one; that one's with another type; the last",
        probe: |probe| refuse(probe, "a packet of another type", kind),
        ..REFUSED
    },
    Clause {
        id: "switchml-port",
        title: "other ports take part in no sum",
        rule: "A datagram to a port that is not the device's changes nothing.",
        stimulus: "contributions of all workers but one; that one's to a port outside of 0xBEE0 to 0xBEEF; the last",
        probe: |probe| refuse(probe, "a datagram to another port", port),
        ..REFUSED
    },
    Clause {
        id: "switchml-not-udp",
        title: "what is no UDP over IPv4 takes part in no sum",
        rule: "A frame of another Ethernet type, IP version, header length or protocol changes nothing, whatever bytes it has (RFC 791, RFC 768). The device drops it or passes it on.",
        stimulus: "contributions of all workers but one; that one's with each of some other values in these fields; the last",
        oracle: "no result before the last contribution; then the sum of the right contributions",
        probe: not_udp,
        ..REFUSED
    },
];

fn whole_pool(ground: &ProbeGround) -> Option<String> {
    ground.alone().or_else(|| match ground.number("target.pool") {
        Some(pool) if pool < NAMED => None,
        pool => Some(format!("target.pool = {}", pool.map_or("unknown".to_owned(), |pool| pool.to_string()))),
    })
}

/// Lets all but one contribute, sends frames of that one that must have no effect, and then its correct contribution.
fn refuse(
    probe: &mut ClauseProbe,
    what: &str,
    make: impl Fn(&mut Switch, usize, &Spot, &Part) -> Vec<Vec<u8>>,
) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts, other) = (switch.any_order(), switch.parts(), switch.part());
    let Some((last, others)) = order.split_last() else { return Ok(()) };
    switch.send_all(others, &spot, &parts)?;
    let frames = make(&mut switch, *last, &spot, &other);
    let worker = switch.workers[*last];
    frames.iter().try_for_each(|frame| switch.probe.send(worker, frame))?;
    switch.silent(what)?;
    switch.sums_to_last(*last, &spot, &parts)
}

/// Returns contributions from the first two addresses after those of workers, and from another one.
fn strangers(switch: &mut Switch, _n: usize, spot: &Spot, part: &Part) -> Vec<Vec<u8>> {
    let beyond = switch.probe.ground.workers.len() as u32;
    let further = 2 + switch.probe.below(STRANGERS as usize - 2) as u32;
    let from = |n| switch.frame_from(worker_ip(beyond + n), &switch.header(spot, part), part);
    [0, 1, further].map(from).to_vec()
}

/// Truncated in the header, at the end of the values, or anywhere in them; and there with the lengths of a whole packet.
fn cuts(probe: &mut ClauseProbe) -> ProbeResult<()> {
    (0..4).try_for_each(|form| {
        refuse(probe, "a truncated contribution", |switch, n, spot, part| vec![truncated(switch, n, spot, part, form)])
    })
}

fn truncated(switch: &mut Switch, n: usize, spot: &Spot, part: &Part, form: usize) -> Vec<u8> {
    let mut frame = switch.frame(switch.workers[n], spot, part);
    let whole = frame.len() - HEAD;
    let left = match form {
        0 => switch.probe.below(HEADER),
        1 => whole - 4 * (1 + switch.probe.below(4)),
        _ => HEADER + switch.probe.below(whole - HEADER),
    };
    frame.truncate(HEAD + left);
    if form < 3 {
        refit(&mut frame, (WORKER_PORT, PORT));
    }
    frame
}

fn longer(switch: &mut Switch, n: usize, spot: &Spot, part: &Part) -> Vec<Vec<u8>> {
    let more = [1, 4, 1 + switch.probe.below(LONGER)];
    let contribution = switch.frame(switch.workers[n], spot, part);
    let with = |more: usize| {
        let mut frame = [&contribution[..], &vec![0xa5; more]].concat();
        refit(&mut frame, (WORKER_PORT, PORT));
        frame
    };
    more.map(with).to_vec()
}

fn lengths(switch: &mut Switch, n: usize, spot: &Spot, part: &Part) -> Vec<Vec<u8>> {
    let mut frame = switch.frame(switch.workers[n], spot, part);
    let said = frame.len() - 4 * (1 + switch.probe.below(usize::from(switch.elements)));
    let mut head = vec![0; said];
    Template::new((worker_ip(switch.workers[n]), WORKER_PORT), (SERVER_IP, PORT), said).emit(&mut head);
    frame[..HEAD].copy_from_slice(&head[..HEAD]);
    vec![frame]
}

/// All size codes except those of 64 and 256 values.
fn sizes(probe: &mut ClauseProbe) -> ProbeResult<()> {
    [0, 2, 4, 5, 6, 7].into_iter().try_for_each(|code| {
        refuse(probe, "contributions with another size code", |switch, n, spot, part| size(switch, n, spot, part, code))
    })
}

/// Returns contributions with this size code and each number of values that a device might assume for it.
fn size(switch: &mut Switch, n: usize, spot: &Spot, part: &Part, code: u8) -> Vec<Vec<u8>> {
    let mut frame = switch.frame(switch.workers[n], spot, part);
    frame[HEAD] = (frame[HEAD] & 0xf8) | code;
    let room = frame.len() + LONGER;
    let with = |count: usize| {
        let mut frame = frame.clone();
        frame.resize(HEAD + HEADER + 4 * count, 0xa5);
        refit(&mut frame, (WORKER_PORT, PORT));
        frame
    };
    COUNTS.into_iter().map(with).filter(|frame| frame.len() <= room).collect()
}

fn kind(switch: &mut Switch, n: usize, spot: &Spot, part: &Part) -> Vec<Vec<u8>> {
    let mut frame = switch.frame(switch.workers[n], spot, part);
    let other = (2 + switch.probe.below(15) as u8) % 16;
    frame[HEAD] = (frame[HEAD] & 0x0f) | other << 4;
    vec![frame]
}

fn port(switch: &mut Switch, n: usize, spot: &Spot, part: &Part) -> Vec<Vec<u8>> {
    let mut frame = switch.frame(switch.workers[n], spot, part);
    let other = 1024 + (switch.probe.bits() % 40_000) as u16;
    refit(&mut frame, (WORKER_PORT, other));
    vec![frame]
}

fn not_udp(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts, other) = (switch.any_order(), switch.parts(), switch.part());
    let Some((last, others)) = order.split_last() else { return Ok(()) };
    switch.send_all(others, &spot, &parts)?;
    let worker = switch.workers[*last];
    let plain = switch.frame(worker, &spot, &other);
    checks::not_udp(|| plain.clone()).try_for_each(|frame| switch.probe.send(worker, &frame))?;
    let out = switch.probe.settle()?;
    has_no_result(&out, "frames that are no UDP over IPv4")?;
    switch.sums_to_last(*last, &spot, &parts)
}

fn beyond(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts, other) = (switch.any_order(), switch.parts(), switch.part());
    // Always the same worker: a device that has those slots must never receive the contributions of all.
    let others: Vec<usize> = order.into_iter().filter(|n| *n != 0).collect();
    switch.send_all(&others, &spot, &parts)?;
    let (slot, pool) = (u32::from(spot.slot), u32::from(switch.pool));
    let upper = (0..14).map(|bit| slot ^ (1 << bit)).filter(|other| *other >= pool);
    let aliases: Vec<u32> = upper.chain((pool < NAMED as u32 - slot).then_some(slot + pool)).collect();
    for slot in aliases {
        let there = Spot { slot: slot as u16, ..spot };
        switch.send(0, &there, &other)?;
    }
    switch.silent("contributions to slots beyond the pool")?;
    switch.sums_to_last(0, &spot, &parts)
}
