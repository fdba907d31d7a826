//! Clauses on acknowledgements.

use super::BASE;
use super::results::is_well_addressed;
use super::switch::{Answer, Switch, with_switch};
use crate::format::HEADER;
use pktgen_engine::clause::checks::{headers_fit, same};
use pktgen_engine::clause::{Clause, ProbeResult};
use pktgen_wire::wire::frame::{ETHERNET_MIN, set_udp_checksum};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "libra-ack",
        title: "every push is acknowledged, once",
        rule: "A push is answered with an ack to its worker: kind 2, and all else of the header as in the push (§3.6, docs/libra.md).",
        stimulus: "one to three pushes of each worker, in random order; one of each, after the ack of the one before",
        oracle: "one ack of six bytes for each push, to the address of its worker",
        repeats: 5,
        probe: |probe| with_switch(probe, acks),
        ..BASE
    },
    Clause {
        id: "libra-ack-end",
        title: "an end is acknowledged at once",
        rule: "An end is acknowledged when it arrives, whoever has not ended the iteration yet (docs/libra.md).",
        stimulus: "a push of each worker; the ends of all, one after the other",
        oracle: "one ack for each end before the next is sent, also for the last, which results follow",
        repeats: 3,
        probe: |probe| with_switch(probe, ends),
        ..BASE
    },
    Clause {
        id: "libra-ack-addresses",
        title: "acks come from the address that pushes go to",
        rule: "An ack is from the address and port 0x11b4 that the push went to, to the worker's address and port 0x11b5; Ethernet addresses are those of both (docs/libra.md).",
        stimulus: "a push of each worker; ends",
        oracle: "the addresses of the experiment or of its profile",
        repeats: 2,
        probe: |probe| with_switch(probe, addresses),
        ..BASE
    },
    Clause {
        id: "libra-ack-headers",
        title: "headers of acks are right",
        rule: "Lengths in IPv4 and UDP are those of an ack, six bytes of payload; the IPv4 checksum is right, the UDP checksum right or 0 (RFC 791, RFC 768).",
        stimulus: "a push of each worker without a UDP checksum, and ends; the same with one",
        oracle: "headers made by the certifier",
        repeats: 2,
        probe: |probe| with_switch(probe, headers),
        ..BASE
    },
];

fn acks(switch: &mut Switch) -> ProbeResult<()> {
    let mut sent = Vec::new();
    for _ in 0..1 + switch.probe.below(3) {
        sent.extend(switch.push_all()?.into_iter().map(|push| (push.rank, push.header)));
    }
    let mut answers = switch.acked(&sent)?;
    // One by one, since workers of one number could get each other's acks.
    for rank in switch.any_order() {
        let pairs = switch.some();
        let push = switch.push(rank, pairs)?;
        answers.extend(switch.acked(&[(rank, push.header)])?);
    }
    switch.finish_all()?;
    let long = answers.iter().find(|answer| answer.frame.bytes.len() > ETHERNET_MIN);
    let Some(len) = long.map(|answer| answer.frame.bytes.len()) else { return Ok(()) };
    same(&"an ack", "bytes of the frame, padding included", ETHERNET_MIN, len)
}

fn ends(switch: &mut Switch) -> ProbeResult<()> {
    switch.push_acked()?;
    let (others, last) = switch.any_order_and_last();
    for rank in others {
        let end = switch.end(rank)?;
        switch.acked(&[(rank, end)])?;
    }
    switch.finish_acked(last)?;
    Ok(())
}

/// Returns the acks of a push of each worker, and of the ends that follow.
fn pushed(switch: &mut Switch, with_checksum: bool) -> ProbeResult<Vec<Answer>> {
    let mut sent = Vec::new();
    for rank in switch.any_order() {
        let pairs = switch.some();
        let push = switch.made(rank, pairs);
        switch.counts(&push);
        let mut frame = switch.frame_of(&push);
        if with_checksum {
            set_udp_checksum(&mut frame);
        }
        switch.send_frame(rank, &frame)?;
        sent.push((rank, push.header));
    }
    let mut answers = switch.acked(&sent)?;
    let (others, last) = switch.any_order_and_last();
    for rank in others {
        let end = switch.end(rank)?;
        answers.extend(switch.acked(&[(rank, end)])?);
    }
    answers.extend(switch.finish_acked(last)?);
    Ok(answers)
}

fn addresses(switch: &mut Switch) -> ProbeResult<()> {
    pushed(switch, false)?.iter().try_for_each(|answer| is_well_addressed("an ack", answer))
}

fn headers(switch: &mut Switch) -> ProbeResult<()> {
    for with_checksum in [false, true] {
        for answer in pushed(switch, with_checksum)? {
            headers_fit(&format!("an ack at port {}", answer.frame.port), &answer.frame.bytes, HEADER)?;
        }
    }
    Ok(())
}
