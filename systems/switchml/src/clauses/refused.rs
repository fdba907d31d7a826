//! Clauses on frames that take part in no sum: of strangers, for slots that are not there, cut, of another kind.

use super::switch::{Part, Spot, Switch};
use super::{BASE, alone};
use crate::format::{HEADER, PORT, WORKER_PORT};
use pktgen_engine::clause::{Clause, ClauseProbe, ProbeGround, ProbeResult};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, refit, worker_ip};

/// Slots that 14 bits name.
const NAMED: i64 = 1 << 14;

/// What these clauses have in common.
const REFUSED: Clause = Clause {
    precondition: "two workers or more",
    exempt: alone,
    oracle: "no frame before the last contribution; then the sum of the right contributions",
    ..BASE
};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "switchml-unknown-source",
        title: "strangers take part in no sum",
        rule: "A contribution from an address that is no worker's changes nothing and is not answered.",
        stimulus: "contributions of all workers but one; one from another address; the last",
        probe: |probe| refuse(probe, "a contribution of no worker", stranger),
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
        stimulus: "contributions of all workers but one; that one's, cut within its header, its last values or all of them, with lengths to match; the last",
        probe: cuts,
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
        stimulus: "contributions of all workers but one; that one's with each other size code; the last",
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
];

fn whole_pool(ground: &ProbeGround) -> Option<String> {
    alone(ground).or_else(|| match ground.number("target.pool") {
        Some(pool) if pool < NAMED => None,
        pool => Some(format!("target.pool = {}", pool.map_or("unknown".to_owned(), |pool| pool.to_string()))),
    })
}

/// All contribute but one; then something of that one that must be without effect; then the right contribution.
fn refuse(
    probe: &mut ClauseProbe,
    what: &str,
    make: impl Fn(&mut Switch, usize, &Spot, &Part) -> Vec<u8>,
) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts, other) = (switch.any_order(), switch.parts(), switch.part());
    let Some((last, others)) = order.split_last() else { return Ok(()) };
    switch.send_all(others, &spot, &parts)?;
    let frame = make(&mut switch, *last, &spot, &other);
    let worker = switch.workers[*last];
    switch.probe.send(worker, &frame)?;
    switch.silent(what)?;
    switch.sums_to_last(*last, &spot, &parts)
}

fn stranger(switch: &mut Switch, _n: usize, spot: &Spot, part: &Part) -> Vec<u8> {
    let beyond = switch.probe.ground.workers.len() as u32 + switch.probe.bits() % 100;
    switch.frame_from(worker_ip(beyond), &switch.header(spot, part), part)
}

/// Cut in its header, at the end of its values, or anywhere in them.
fn cuts(probe: &mut ClauseProbe) -> ProbeResult<()> {
    (0..3).try_for_each(|form| {
        refuse(probe, "a truncated contribution", |switch, n, spot, part| truncated(switch, n, spot, part, form))
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
    let payload = frame[HEAD..HEAD + left].to_vec();
    frame.truncate(HEAD + left);
    Template::new((worker_ip(switch.workers[n]), WORKER_PORT), (SERVER_IP, PORT), frame.len()).emit(&mut frame);
    frame[HEAD..].copy_from_slice(&payload);
    frame
}

fn lengths(switch: &mut Switch, n: usize, spot: &Spot, part: &Part) -> Vec<u8> {
    let mut frame = switch.frame(switch.workers[n], spot, part);
    let said = frame.len() - 4 * (1 + switch.probe.below(usize::from(switch.elements)));
    let mut head = vec![0; said];
    Template::new((worker_ip(switch.workers[n]), WORKER_PORT), (SERVER_IP, PORT), said).emit(&mut head);
    frame[..HEAD].copy_from_slice(&head[..HEAD]);
    frame
}

/// All size codes but those of 64 and 256 values.
fn sizes(probe: &mut ClauseProbe) -> ProbeResult<()> {
    [0, 2, 4, 5, 6, 7].into_iter().try_for_each(|code| {
        refuse(probe, "a contribution with another size code", |switch, n, spot, part| {
            size(switch, n, spot, part, code)
        })
    })
}

fn size(switch: &mut Switch, n: usize, spot: &Spot, part: &Part, code: u8) -> Vec<u8> {
    let mut frame = switch.frame(switch.workers[n], spot, part);
    frame[HEAD] = (frame[HEAD] & 0xf8) | code;
    frame
}

fn kind(switch: &mut Switch, n: usize, spot: &Spot, part: &Part) -> Vec<u8> {
    let mut frame = switch.frame(switch.workers[n], spot, part);
    let other = (2 + switch.probe.below(15) as u8) % 16;
    frame[HEAD] = (frame[HEAD] & 0x0f) | other << 4;
    frame
}

fn port(switch: &mut Switch, n: usize, spot: &Spot, part: &Part) -> Vec<u8> {
    let mut frame = switch.frame(switch.workers[n], spot, part);
    let other = 1024 + (switch.probe.bits() % 40_000) as u16;
    refit(&mut frame, (WORKER_PORT, other));
    frame
}

fn beyond(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts, other) = (switch.any_order(), switch.parts(), switch.part());
    // Always the same worker: a device that has those slots must never have the contributions of all.
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
