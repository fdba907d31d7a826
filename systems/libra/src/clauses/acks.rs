//! Clauses on acknowledgements.

use super::BASE;
use super::switch::{Answer, Switch, with_switch};
use crate::format::{HEADER, PORT, WORKER_PORT};
use pktgen_engine::clause::checks::{dotted, headers_fit, same, station};
use pktgen_engine::clause::{Clause, ProbeResult};
use pktgen_wire::wire::frame::{SERVER_IP, mac_of, set_udp_checksum, worker_ip};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "libra-ack",
        title: "every push is acknowledged, once",
        rule: "A push is answered with an ack to its worker: kind 2, and all else of the header as in the push (§3.6, docs/libra.md).",
        stimulus: "one to three pushes of each worker, in random order",
        oracle: "one ack of six bytes for each push, at the port of its worker",
        repeats: 5,
        probe: |probe| with_switch(probe, acks),
        ..BASE
    },
    Clause {
        id: "libra-ack-end",
        title: "an end is acknowledged at once",
        rule: "An end is acknowledged when it arrives, whoever has not ended the iteration yet (docs/libra.md).",
        stimulus: "a push of each worker; the ends of all, one after the other",
        oracle: "one ack for each end before the next is sent",
        repeats: 3,
        probe: |probe| with_switch(probe, ends),
        ..BASE
    },
    Clause {
        id: "libra-ack-addresses",
        title: "acks go from the device to the worker",
        rule: "An ack is from the device's address and port 0x11b4 to the worker's address and port 0x11b5; Ethernet addresses are those of both (docs/libra.md).",
        stimulus: "a push of each worker",
        oracle: "the addresses of the experiment or of its profile",
        repeats: 2,
        probe: |probe| with_switch(probe, addresses),
        ..BASE
    },
    Clause {
        id: "libra-ack-headers",
        title: "headers of acks are right",
        rule: "Lengths in IPv4 and UDP are those of an ack, six bytes of payload; the IPv4 checksum is right, the UDP checksum right or 0 (RFC 791, RFC 768).",
        stimulus: "a push of each worker without a UDP checksum; the same with one",
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
    let answers = switch.acked(&sent)?;
    switch.finish_all()?;
    let long = answers.iter().find(|answer| answer.frame.bytes.len() > 60);
    long.map_or(Ok(()), |answer| same(&"an ack", "bytes of the frame, padding included", 60, answer.frame.bytes.len()))
}

fn ends(switch: &mut Switch) -> ProbeResult<()> {
    switch.push_acked()?;
    let (others, last) = switch.any_order_and_last();
    for rank in others {
        let end = switch.end(rank)?;
        switch.acked(&[(rank, end)])?;
    }
    switch.finish(&[last])?;
    Ok(())
}

/// Returns the acks of a push of each worker; the iteration ends afterwards.
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
    let answers = switch.acked(&sent)?;
    switch.finish_all()?;
    Ok(answers)
}

fn addresses(switch: &mut Switch) -> ProbeResult<()> {
    for answer in pushed(switch, false)? {
        let worker = switch.workers.iter().find(|worker| {
            switch.probe.ground.port_of.get(**worker as usize) == Some(&answer.frame.port)
                && worker_ip(**worker) == answer.to.0
        });
        let at = format!("an ack at port {}", answer.frame.port);
        same(&at, "a worker of this port has the destination address", true, worker.is_some())?;
        same(&at, "destination port", WORKER_PORT, answer.to.1)?;
        same(&at, "source address", dotted(SERVER_IP), dotted(answer.from.0))?;
        same(&at, "source port", PORT, answer.from.1)?;
        let (to, from) = answer.frame.bytes[..12].split_at(6);
        same(&at, "Ethernet destination", station(&mac_of(answer.to.0)), station(to))?;
        same(&at, "Ethernet source", station(&mac_of(SERVER_IP)), station(from))?;
    }
    Ok(())
}

fn headers(switch: &mut Switch) -> ProbeResult<()> {
    for with_checksum in [false, true] {
        for answer in pushed(switch, with_checksum)? {
            headers_fit(&format!("an ack at port {}", answer.frame.port), &answer.frame.bytes, HEADER)?;
        }
    }
    Ok(())
}
