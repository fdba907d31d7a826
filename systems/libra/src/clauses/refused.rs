//! Clauses on frames that must not contribute to a sum (cold, from strangers, of other jobs, truncated, of another
//! type), and on separate jobs.

use super::BASE;
use super::results::reach_all;
use super::switch::{Pairs, Push, Switch, bytes_of, with_switch};
use crate::format::{HEADER, HOT_PAIR, HOT_PAIRS, Header, Kind, PORT, WORKER_PORT};
use pktgen_engine::clause::{Clause, ClauseBreach, ProbeFrame, ProbeGround, ProbeResult, checks};
use pktgen_wire::wire::frame::{ETHERNET_MIN, HEAD, SERVER_IP, Template, refit, worker_ip};

const ORACLE: &str = "no ack and no other packet to a worker; the sums of the right pushes";

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "libra-jobs",
        title: "jobs do not mix",
        rule: "Each job has registers, ends and results of its own (§6, \"Multi-tenant training\").",
        precondition: "synchronous training of three iterations or more with 66 hot parameters or more, two jobs",
        exempt: |ground| super::unfit(ground).or_else(|| ground.one_job()),
        stimulus: "pushes of all workers of two jobs to the same parameters; the ends of one job, then of the other",
        oracle: "results of each job after its own ends, with its own sums, to its own workers",
        repeats: 3,
        probe: |probe| with_switch(probe, jobs),
        ..BASE
    },
    Clause {
        id: "libra-job",
        title: "a packet with another job's number is dropped",
        rule: "The job byte of a packet must be that of its worker's job; else it is neither added nor acknowledged (docs/libra.md).",
        stimulus: "a push of each worker; pushes with the job numbers that differ in one bit, and the next; ends",
        oracle: ORACLE,
        repeats: 3,
        probe: |probe| with_switch(probe, |switch| refuse(switch, "pushes with another job's number", other_jobs)),
        ..BASE
    },
    Clause {
        id: "libra-cold",
        title: "cold packets pass",
        rule: "Packets whose number is odd are for the parameter server: they go there as they came, and are neither added nor acknowledged (§3.1).",
        precondition: "synchronous training of three iterations or more with 66 hot parameters or more, a server",
        exempt: no_server,
        stimulus: "a push of each worker; 48 cold pushes, every other of as many bytes as three hot pairs have; ends",
        oracle: "the cold packets at the server's port, payload and addresses as they came, in right headers; the sums of the hot ones",
        repeats: 3,
        probe: |probe| with_switch(probe, cold),
        ..BASE
    },
    Clause {
        id: "libra-back",
        title: "what the server sends to workers passes",
        rule: "Cold acknowledgements and results of the parameter server go to their worker as they came (§3.1).",
        precondition: "synchronous training of three iterations or more with 66 hot parameters or more, a server",
        exempt: no_server,
        stimulus: "a push of each worker; 48 packets of the server to workers: cold acks, and cold results of up to 18 pairs; ends",
        oracle: "each packet at the port of its worker, payload and addresses as they came, in right headers, and nothing else",
        repeats: 3,
        probe: |probe| with_switch(probe, back),
        ..BASE
    },
    Clause {
        id: "libra-kept",
        title: "hot packets end at the device",
        rule: "Hot pushes, ends and acks are for the device: none of them reaches the server (§3.1, docs/libra.md).",
        precondition: "synchronous training of three iterations or more with 66 hot parameters or more, a server",
        exempt: no_server,
        stimulus: "pushes of all workers, some of them resent; ends; acks of the results",
        oracle: "no frame at the server's port",
        repeats: 2,
        probe: |probe| with_switch(probe, kept),
        ..BASE
    },
    Clause {
        id: "libra-stranger",
        title: "strangers take part in no sum",
        rule: "Who sent a packet is known by its source address; one of no worker is neither added nor acknowledged (docs/libra.md). The device drops it or passes it on.",
        stimulus: "a push of each worker; pushes from addresses behind the workers'; ends",
        oracle: ORACLE,
        repeats: 3,
        probe: |probe| with_switch(probe, |switch| refuse(switch, "pushes of strangers", strangers)),
        ..BASE
    },
    Clause {
        id: "libra-index",
        title: "what has no register is not acknowledged",
        rule: "Acknowledged means added: a push with an index without a register is neither (docs/libra.md). A device may have registers behind those of the hot parameters.",
        stimulus: "a push of each worker; pushes to the first parameter behind the hot ones, to 2³¹ and 2³² − 1, alone and behind one that is hot; ends",
        oracle: "no ack and no other packet to a worker; the sums of the right pushes; or, for the first parameter behind the hot ones, an ack and its sum",
        repeats: 2,
        probe: |probe| with_switch(probe, index),
        ..BASE
    },
    Clause {
        id: "libra-truncated",
        title: "truncated pushes are dropped",
        rule: "A push is whole pairs of eight bytes; one that ends within a pair or within the header is neither added nor acknowledged (docs/libra.md).",
        stimulus: "a push of each worker; pushes that are cut within the last pair and within the header, with lengths to match; ends",
        oracle: ORACLE,
        repeats: 3,
        probe: |probe| with_switch(probe, |switch| refuse(switch, "truncated pushes", cuts)),
        ..BASE
    },
    Clause {
        id: "libra-lengths",
        title: "pushes whose lengths lie are not added whole",
        rule: "A push whose IPv4 and UDP lengths leave pairs out has no more than what they leave, although the bytes are there (RFC 768).",
        stimulus: "a push of each worker; pushes of several pairs with lengths that end within a pair; ends",
        oracle: ORACLE,
        repeats: 3,
        probe: |probe| with_switch(probe, |switch| refuse(switch, "pushes with wrong lengths", lengths)),
        ..BASE
    },
    Clause {
        id: "libra-kind",
        title: "packets of no kind are dropped",
        rule: "A packet whose kind is not known, or that only a device sends, is neither added nor acknowledged (docs/libra.md).",
        stimulus: "a push of each worker; packets with hot pairs of kinds 3, 6 and 7; ends",
        oracle: ORACLE,
        repeats: 2,
        probe: |probe| with_switch(probe, |switch| refuse(switch, "packets of no kind", kinds)),
        ..BASE
    },
    Clause {
        id: "libra-port",
        title: "other ports take part in no sum",
        rule: "A datagram to another port than 0x11b4 is none of the device's: it goes where it is addressed (docs/libra.md).",
        stimulus: "a push of each worker; pushes to other ports; ends",
        oracle: ORACLE,
        repeats: 2,
        probe: |probe| with_switch(probe, |switch| refuse(switch, "datagrams to another port", ports)),
        ..BASE
    },
    Clause {
        id: "libra-not-udp",
        title: "what is no UDP over IPv4 takes part in no sum",
        rule: "A frame of another Ethernet type, IP version, header length or protocol changes nothing, whatever bytes it has (RFC 791, RFC 768). The device drops it or passes it on.",
        stimulus: "a push of each worker; pushes with each of some other values in these fields; ends",
        oracle: ORACLE,
        repeats: 2,
        probe: |probe| with_switch(probe, |switch| refuse(switch, "frames that are no UDP over IPv4", not_udp)),
        ..BASE
    },
];

/// Returns why nothing is forwarded to a server.
fn no_server(ground: &ProbeGround) -> Option<String> {
    super::unfit(ground).or_else(|| ground.server.is_none().then(|| "there is no server".to_owned()))
}

/// Returns frames of a worker that must have no effect.
type Make = fn(&mut Switch, usize) -> Vec<Vec<u8>>;

/// Lets all push, sends frames of one of them that must be neither acknowledged nor added, and ends the iteration.
fn refuse(switch: &mut Switch, what: &str, make: Make) -> ProbeResult<()> {
    switch.push_acked()?;
    let rank = switch.probe.below(switch.workers.len());
    are_refused(switch, rank, what, make)?;
    switch.finish_all()?;
    Ok(())
}

/// Sends frames of a worker that must not be acknowledged.
fn are_refused(switch: &mut Switch, rank: usize, what: &str, make: Make) -> ProbeResult<()> {
    for frame in make(switch, rank) {
        switch.send_frame(rank, &frame)?;
        switch.silent(what)?;
    }
    Ok(())
}

fn index(switch: &mut Switch) -> ProbeResult<()> {
    switch.push_acked()?;
    let rank = switch.probe.below(switch.workers.len());
    are_refused(switch, rank, "pushes to parameters that are not hot", beyond)?;
    if let Some(hot) = switch.probe.ground.hot {
        let other = switch.pairs(1)[0];
        is_added_if_acked(switch, rank, vec![(hot, 1.0)])?;
        is_added_if_acked(switch, rank, vec![other, (hot, 1.0)])?;
    }
    switch.finish_all()?;
    Ok(())
}

/// Pushes to a parameter that may have a register: the sums must hold what is acknowledged, and nothing else.
fn is_added_if_acked(switch: &mut Switch, rank: usize, pairs: Pairs) -> ProbeResult<()> {
    let push = switch.made(rank, pairs);
    let header = switch.send(&push, 0)?;
    let answers = switch.answers(1)?;
    if answers.is_empty() {
        switch.takes_back(rank);
        return Ok(());
    }
    switch.counts(&push);
    switch.are_acks(&answers, &[(rank, header)])
}

/// Returns a push of one pair with the next number of a worker, which the next correct push uses again.
fn unsent(switch: &mut Switch, rank: usize) -> Push {
    let pairs = switch.pairs(1);
    let push = switch.made(rank, pairs);
    switch.takes_back(rank);
    push
}

fn other_jobs(switch: &mut Switch, rank: usize) -> Vec<Vec<u8>> {
    let push = unsent(switch, rank);
    let own = push.header.job;
    let others = (0..8).map(|bit| own ^ 1 << bit).chain([own.wrapping_add(1)]);
    others.map(|job| switch.frame(rank, &Header { job, ..push.header }, &bytes_of(&push.pairs))).collect()
}

fn strangers(switch: &mut Switch, rank: usize) -> Vec<Vec<u8>> {
    let push = unsent(switch, rank);
    let all = switch.probe.ground.workers.len() as u32;
    let from = |worker: u32| (worker_ip(all + worker), WORKER_PORT);
    let numbers = [0, 1 + switch.probe.below(30) as u32];
    // The strangers' numbers begin with 0.
    let header = Header { seq: 0, ..push.header };
    numbers.map(|worker| switch.frame_from(from(worker), PORT, &header, &bytes_of(&push.pairs))).to_vec()
}

fn beyond(switch: &mut Switch, rank: usize) -> Vec<Vec<u8>> {
    let push = unsent(switch, rank);
    let of = |pairs: &[(u32, f32)]| switch.frame(rank, &push.header, &bytes_of(pairs));
    [1 << 31, u32::MAX]
        .into_iter()
        .flat_map(|index| [of(&[(index, 1.0)]), of(&[push.pairs[0], (index, 1.0)])])
        .collect()
}

fn cuts(switch: &mut Switch, rank: usize) -> Vec<Vec<u8>> {
    let push = Push { pairs: switch.pairs(4), ..unsent(switch, rank) };
    let whole = switch.frame_of(&push);
    let payload = HEADER + push.pairs.len() * HOT_PAIR;
    let within = 1 + switch.probe.below(HEADER - 1);
    let at_end = payload - 1 - switch.probe.below(HOT_PAIR - 1);
    let cut = |left: usize| {
        let mut frame = whole[..HEAD + left].to_vec();
        refit(&mut frame, (WORKER_PORT, PORT));
        frame
    };
    [within, at_end].map(cut).to_vec()
}

fn lengths(switch: &mut Switch, rank: usize) -> Vec<Vec<u8>> {
    let push = Push { pairs: switch.pairs(4), ..unsent(switch, rank) };
    let mut frame = switch.frame_of(&push);
    let said = HEAD + HEADER + switch.probe.below(push.pairs.len()) * HOT_PAIR + 1 + switch.probe.below(HOT_PAIR - 1);
    let mut head = vec![0; said];
    Template::new((worker_ip(switch.workers[rank]), WORKER_PORT), (SERVER_IP, PORT), said).emit(&mut head);
    frame[..HEAD].copy_from_slice(&head[..HEAD]);
    vec![frame]
}

fn kinds(switch: &mut Switch, rank: usize) -> Vec<Vec<u8>> {
    let push = unsent(switch, rank);
    let frame = switch.frame_of(&push);
    let of = |kind: u8| {
        let mut frame = frame.clone();
        frame[HEAD] = kind << 5;
        frame
    };
    [3, 6, 7].map(of).to_vec()
}

fn ports(switch: &mut Switch, rank: usize) -> Vec<Vec<u8>> {
    let push = unsent(switch, rank);
    let other = 13_000 + (switch.probe.bits() % 40_000) as u16;
    let from = (worker_ip(switch.workers[rank]), WORKER_PORT);
    [PORT + 1, PORT - 1, other].map(|port| switch.frame_from(from, port, &push.header, &bytes_of(&push.pairs))).to_vec()
}

fn not_udp(switch: &mut Switch, rank: usize) -> Vec<Vec<u8>> {
    let push = unsent(switch, rank);
    let plain = switch.frame_of(&push);
    checks::not_udp(|| plain.clone()).collect()
}

fn jobs(switch: &mut Switch) -> ProbeResult<()> {
    switch.push_acked()?;
    {
        let mut other = Switch::of(switch.probe, 1)?;
        other.push_acked()?;
        let results = other.finish_all()?;
        reach_all(&other, &results)?;
    }
    let results = switch.finish_all()?;
    reach_all(switch, &results)
}

/// Number of forwarded packets in a clause: a fault in one of twenty is detected.
const PASSING: usize = 48;

fn cold(switch: &mut Switch) -> ProbeResult<()> {
    switch.push_acked()?;
    let server = switch.probe.ground.server.unwrap_or_default();
    for number in 0..PASSING {
        // 24 bytes are three hot or two cold pairs.
        let bytes = if number % 2 == 0 { 24 } else { 12 * (1 + switch.probe.below(HOT_PAIRS)) };
        let rank = switch.probe.below(switch.workers.len());
        let header = Header { kind: Kind::Push, attempt: 0, job: switch.job as u8, seq: cold_number(switch) };
        let rest: Vec<u8> = (0..bytes).map(|_| switch.probe.bits() as u8).collect();
        let frame = switch.frame(rank, &header, &rest);
        switch.send_frame(rank, &frame)?;
        passes(switch, "a cold push", &frame[..HEAD + HEADER + bytes], server)?;
    }
    switch.finish_all()?;
    Ok(())
}

/// Returns the number of a cold packet.
fn cold_number(switch: &mut Switch) -> u32 {
    (switch.probe.bits() % 1024) * 2 + 1
}

/// Checks that the frame sent last leaves unchanged at this port alone; padding is not compared.
fn passes(switch: &mut Switch, what: &str, sent: &[u8], port: u16) -> ProbeResult<()> {
    let came = switch.probe.expect(|frames| !frames.is_empty())?;
    // A router may change the Ethernet source and the time to live; the destination is that of the next host, as the bench sees it.
    let alike = |left: &ProbeFrame| left.port == port && left.bytes.get(26..sent.len()) == sent.get(26..);
    if let [left] = &came[..]
        && alike(left)
    {
        let at = format!("{what} of {} bytes", sent.len());
        checks::same(&at, "Ethernet destination", checks::station(&sent[..6]), checks::station(&left.bytes[..6]))?;
        return checks::headers_fit(&at, &left.bytes, sent.len() - HEAD);
    }
    let observed = match came.first() {
        None => "none".to_owned(),
        Some(left) => format!("{} frames, the first of {} bytes at port {}", came.len(), left.bytes.len(), left.port),
    };
    Err(ClauseBreach::stop(format!("{what} of {} bytes", sent.len()), format!("as it came, at port {port}"), observed))
}

fn back(switch: &mut Switch) -> ProbeResult<()> {
    // A device may learn the positions of workers from their packets.
    switch.push_acked()?;
    let server = switch.probe.ground.server.unwrap_or_default();
    for number in 0..PASSING {
        let rank = switch.probe.below(switch.workers.len());
        let worker = switch.workers[rank];
        let (kind, bytes) =
            if number % 2 == 0 { (Kind::Ack, 0) } else { (Kind::Result, 12 * (1 + switch.probe.below(HOT_PAIRS))) };
        let len = HEAD + HEADER + bytes;
        let mut frame = vec![0; len.max(ETHERNET_MIN)];
        Template::new((SERVER_IP, PORT), (worker_ip(worker), WORKER_PORT), len).emit(&mut frame);
        let seq = cold_number(switch);
        Header { kind, attempt: 0, job: switch.job as u8, seq }.emit(&mut frame[HEAD..]);
        frame[HEAD + HEADER..len].iter_mut().for_each(|byte| *byte = switch.probe.bits() as u8);
        switch.probe.send_to(server, &frame)?;
        let port = switch.probe.ground.port_towards(worker);
        passes(switch, &format!("a cold {} of the server", kind.name()), &frame[..len], port)?;
    }
    switch.finish_all()?;
    Ok(())
}

fn kept(switch: &mut Switch) -> ProbeResult<()> {
    let server = switch.probe.ground.server;
    let pushes = switch.push_all()?;
    for push in &pushes {
        switch.send(push, 1)?;
    }
    let mut frames = switch.frames(2 * pushes.len())?;
    for rank in switch.any_order() {
        switch.end(rank)?;
    }
    let results = switch.results_seen(&mut frames)?;
    switch.has_sums(&results)?;
    switch.confirm(&results, &(0..switch.workers.len()).collect::<Vec<_>>())?;
    frames.extend(switch.probe.settle()?);
    let passed = frames.iter().filter(|frame| Some(frame.port) == server).count();
    checks::same(&"hot packets", "frames at the server's port", 0, passed)
}
