//! Clauses on results: their recipients and their headers.

use super::switch::{Answer, Spot, Switch, has_sums, sum};
use crate::format::{HEADER, PORT, WORKER_PORT};
use pktgen_engine::clause::checks::{dotted, headers_fit, number16, same, station};
use pktgen_engine::clause::{Clause, ClauseBreach, ClauseProbe, ProbeGround, ProbeResult};
use pktgen_wire::wire::frame::{SERVER_IP, mac_of, set_ip_checksum, set_udp_checksum};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "switchml-receivers",
        title: "a result goes to every worker once, and to nobody else",
        rule: "One copy at each worker's port, to its address or to the job's group, and no other frame.",
        stimulus: "one contribution of each worker, in random order",
        observation: "all ports, until the device is silent, and for certify.late",
        oracle: "one copy for each worker of the job, and none later",
        error: "a copy that comes unasked later than certify.late is not found",
        probe: receivers,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-echo",
        title: "a result names the contributions that it answers, and is their sum",
        rule: "Size, job, packet number, set and slot of a result are those of the contributions; its values are their sums, however large the packet number is.",
        stimulus: "contributions with random job numbers to random slots, in a later round of the slot, so that packet numbers have up to 31 bits; after the result a random one again",
        oracle: "the same fields, and 32-bit sums made by the certifier",
        probe: echo,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-addresses",
        title: "results come from the address and port that contributions go to",
        rule: "A result is from the device's address and port 0xBEE0, and to the workers' port 4000.",
        stimulus: "one contribution of each worker; after the result a random one again",
        oracle: "the addresses of the experiment or of its profile",
        repeats: 2,
        probe: addresses,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-headers",
        title: "headers of results are right",
        rule: "Lengths in IPv4 and UDP are those of the frame, the IPv4 checksum is right, the UDP checksum right or 0.",
        stimulus: "one contribution of each worker without a UDP checksum, after the result a random one again; the same with one",
        oracle: "headers made by the certifier",
        repeats: 2,
        probe: headers,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-ethernet",
        title: "the workers' cards accept results",
        rule: "The Ethernet destination of a result is the worker's, or that of the job's group (RFC 1112, §6.4); its source is the device's.",
        stimulus: "one contribution of each worker; after the result a random one again",
        oracle: "the addresses of the experiment or of its profile",
        repeats: 2,
        probe: ethernet,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-fields",
        title: "the IPv4 header of a result is the device's own",
        rule: "Type of service and identification of a result are 0, its time to live is 64, whatever those of contributions are (p4lang/p4app-switchML, udp_sender).",
        stimulus: "one contribution of each worker, each with other values in these fields; after the result a random one again",
        oracle: "0, 0 and 64",
        repeats: 2,
        probe: fields,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-complete",
        title: "no result before all have contributed",
        rule: "A sum under way makes no frame.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "contributions of all workers but one, a pause for each, then the last",
        oracle: "no frame before the last contribution; then the sum",
        probe: complete,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-straggler",
        title: "a late worker is waited for",
        rule: "A sum waits for all workers, however late one is.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "contributions of all workers but one; that one's after certify.late",
        observation: "all ports, for certify.late and until the device is silent",
        oracle: "no frame before the last contribution; then the sum",
        repeats: 2,
        error: "a timeout longer than certify.late is not found",
        probe: straggler,
        ..Clause::BASE
    },
];

/// A worker and its frame.
type Contribution = (u32, Vec<u8>);

/// Performs a sum of random parts of all workers with changed headers; returns its results and the last contribution.
fn dressed(
    switch: &mut Switch,
    spot: Spot,
    dress: impl Fn(&mut Switch, &mut [u8]),
) -> ProbeResult<(Spot, Vec<Answer>, Contribution)> {
    let (order, parts) = (switch.any_order(), switch.parts());
    let mut last = (0, Vec::new());
    for n in order {
        let worker = switch.workers[n];
        let mut frame = switch.frame(worker, &spot, &parts[n]);
        dress(switch, &mut frame);
        switch.probe.send(worker, &frame)?;
        last = (worker, frame);
    }
    let answers = switch.results(&spot)?;
    Ok((spot, answers, last))
}

/// Does the same, including the answer to the repeated last contribution.
fn with_answer(switch: &mut Switch, dress: impl Fn(&mut Switch, &mut [u8])) -> ProbeResult<(Spot, Vec<Answer>)> {
    let spot = switch.begin()?;
    let (spot, mut answers, (worker, frame)) = dressed(switch, spot, dress)?;
    switch.probe.send(worker, &frame)?;
    answers.extend(switch.answers()?);
    Ok((spot, answers))
}

fn ethernet(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let (spot, answers) = with_answer(&mut switch, |_, _| ())?;
    for answer in &answers {
        let (to, from) = answer.frame.bytes[..12].split_at(6);
        same(&spot, "Ethernet destination of the result", station(&mac_of(answer.to.0)), station(to))?;
        same(&spot, "Ethernet source of the result", station(&mac_of(SERVER_IP)), station(from))?;
    }
    Ok(())
}

fn fields(probe: &mut ClauseProbe) -> ProbeResult<()> {
    /// Offsets in an Ethernet frame.
    const SERVICE: usize = 15;
    const ID: usize = 18;
    const TTL: usize = 22;
    let mut switch = Switch::new(probe)?;
    let (spot, answers) = with_answer(&mut switch, |switch, frame| {
        let [service, ttl, id @ ..] = switch.probe.bits().to_be_bytes();
        (frame[SERVICE], frame[TTL]) = (service | 4, (ttl | 2) & !64);
        frame[ID..ID + 2].copy_from_slice(&id);
        set_ip_checksum(frame);
    })?;
    for answer in &answers {
        let bytes = &answer.frame.bytes;
        same(&spot, "type of service of the result", 0, bytes[SERVICE])?;
        same(&spot, "identification of the result", 0, number16(bytes, ID))?;
        same(&spot, "time to live of the result", 64, bytes[TTL])?;
    }
    Ok(())
}

fn receivers(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (spot, answers, _) = dressed(&mut switch, spot, |_, _| ())?;
    let workers = switch.workers.clone();
    switch.reaches(&answers, &workers, &spot)?;
    let late = switch.probe.ground.late;
    switch.waits(late, "a sum is complete and nobody asks again")
}

fn echo(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin_later()?;
    let (order, parts) = (switch.any_order(), switch.parts());
    switch.send_all(&order, &spot, &parts)?;
    let mut answers = switch.results(&spot)?;
    switch.send(order[0], &spot, &parts[order[0]])?;
    answers.extend(switch.answers()?);
    for Answer { header, .. } in &answers {
        same(&spot, "values of the result", switch.elements, header.elements)?;
        same(&spot, "job of the result", spot.job, header.job)?;
        same(&spot, "packet number of the result", spot.packet, header.packet)?;
        same(&spot, "set of the result", u8::from(spot.set()), u8::from(header.set))?;
        same(&spot, "slot of the result", spot.slot, header.slot)?;
    }
    has_sums(&answers, &spot, &sum(&parts))
}

fn addresses(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let (spot, answers) = with_answer(&mut switch, |_, _| ())?;
    for answer in &answers {
        same(&spot, "source address of the result", dotted(SERVER_IP), dotted(answer.from.0))?;
        same(&spot, "source port of the result", PORT, answer.from.1)?;
        same(&spot, "destination port of the result", WORKER_PORT, answer.to.1)?;
    }
    Ok(())
}

fn headers(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    for with in [false, true] {
        let (spot, answers) = with_answer(&mut switch, |_, frame| {
            if with {
                set_udp_checksum(frame);
            }
        })?;
        let right = |answer: &Answer| headers_fit(&spot, &answer.frame.bytes, HEADER + answer.sums.len() * 4);
        answers.iter().try_for_each(right)?;
    }
    Ok(())
}

fn complete(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts) = (switch.any_order(), switch.parts());
    let Some((last, others)) = order.split_last() else {
        return Err(ClauseBreach::stop(spot.to_string(), "workers", "none"));
    };
    for (count, n) in others.iter().enumerate() {
        switch.send(*n, &spot, &parts[*n])?;
        switch.silent(&format!("{} of {} contributions", count + 1, order.len()))?;
    }
    switch.sums_to_last(*last, &spot, &parts)
}

fn straggler(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts) = (switch.any_order(), switch.parts());
    let Some((last, others)) = order.split_last() else {
        return Err(ClauseBreach::stop(spot.to_string(), "workers", "none"));
    };
    switch.send_all(others, &spot, &parts)?;
    let late = switch.probe.ground.late;
    switch.waits(late, "one contribution is missing")?;
    switch.sums_to_last(*last, &spot, &parts)
}
