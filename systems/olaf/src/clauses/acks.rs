//! Clauses on acknowledgements of the server.

use pktgen_engine::clause::checks::{dotted, headers_fit, number16, one_copy_each, same, station};
use pktgen_wire::wire::frame::{
    Datagram, HEAD, SERVER_IP, Template, any_worker, group_ip, mac_of, set_udp_checksum, worker_ip,
};

use super::card::Card;
use super::passing::free;
use super::{BASE, acknowledging, behind, hasty};
use crate::strict::{ACK_HEAD, Ack, PORT, WORKER_PORT};
use pktgen_engine::clause::{Clause, ClauseBreach, ClauseProbe, ProbeFrame, ProbeResult};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "olaf-ack-workers",
        title: "every acknowledgement reaches its cluster",
        rule: "An ACK to a worker goes to all workers of its cluster, and to no other (§7, §10).",
        precondition: "target.program = \"olaf\"; two clusters, two workers in each",
        exempt: |ground| acknowledging(ground, 2, 2),
        stimulus: "an update of every worker; when all has left, an ACK of the server to a random worker of each cluster in turn, three times",
        observation: "all ports, until the device is silent, after each ACK",
        oracle: "one copy at the port of each worker of the cluster, to its address or to the cluster's group, and no other frame",
        probe: workers,
        ..BASE
    },
    Clause {
        id: "olaf-ack-state",
        title: "an acknowledgement has the queue's state",
        rule: "The device writes the slots in use (Qn) and the active clusters (N) of the queue towards the server into an ACK (§7).",
        precondition: "target.program = \"olaf\" and target.queue = \"olaf\"; three clusters; three slots (two if target.slot_in_transmission = false); no target.engine_rate",
        exempt: |ground| acknowledging(ground, 3, 1).or_else(|| behind(ground, 3, 1)).or_else(|| hasty(ground)),
        stimulus: "an update of every worker; when all has left, two updates ahead, updates of some other clusters, and at once an ACK of the server",
        observation: "all ports, until the device is silent",
        oracle: "Qn: the updates that wait, and at most one more; N: at least the clusters of this stimulus, at most all",
        probe: state,
        ..BASE
    },
    Clause {
        id: "olaf-ack-model",
        title: "the model of an acknowledgement is left alone",
        rule: "What an ACK carries behind the queue's state is as the server wrote it.",
        precondition: "target.program = \"olaf\"; two clusters",
        exempt: |ground| acknowledging(ground, 2, 1),
        stimulus: "an update of every worker; when all has left, an ACK of the server with random bits as model",
        observation: "all ports, until the device is silent",
        oracle: "the same bits",
        probe: model,
        ..BASE
    },
    Clause {
        id: "olaf-ack-headers",
        title: "headers of acknowledgements are right",
        rule: "An ACK comes from the server's address and port 48510 to port 48511 of a worker of its cluster or of the cluster's group; Ethernet addresses are those of both, lengths and checksums right (UDP's may be 0; RFC 791, RFC 768, RFC 1112).",
        precondition: "target.program = \"olaf\"; two clusters",
        exempt: |ground| acknowledging(ground, 2, 1),
        stimulus: "an update of every worker; when all has left, an ACK of the server with a UDP checksum, and one without",
        observation: "all ports, until the device is silent, after each ACK",
        oracle: "headers made by the certifier",
        repeats: 2,
        probe: headers,
        ..BASE
    },
];

/// Number of ACKs to each cluster: a device may lose some.
const ACK_ROUNDS: usize = 3;

/// Returns an ACK to a worker, with this model.
fn ack(worker: u32, model: &[u32]) -> Vec<u8> {
    let mut frame = vec![0; HEAD + ACK_HEAD + model.len() * 4];
    Template::new((SERVER_IP, PORT), (worker_ip(worker), WORKER_PORT), frame.len()).emit(&mut frame);
    Ack { occupancy: 0, active: 0, elements: model.len() as u16 }.emit(&mut frame[HEAD..]);
    let bytes = model.iter().flat_map(|value| value.to_le_bytes());
    frame[HEAD + ACK_HEAD..].iter_mut().zip(bytes).for_each(|(at, byte)| *at = byte);
    frame
}

/// Every worker sends an update and all updates leave: a device may learn its ports and the clusters from these.
fn introduced<'p, 'a>(probe: &'p mut ClauseProbe<'a>) -> ProbeResult<Card<'p, 'a>> {
    let mut card = Card::new(probe);
    for worker in 0..card.probe.ground.workers.len() as u32 {
        let update = card.update(worker);
        card.send(&update)?;
    }
    // What left later would be at the server's port behind an acknowledgement.
    let (server, least) = (card.probe.ground.server, card.clusters.len().min(1 + free(&card)));
    card.probe.expect(|frames| frames.iter().filter(|frame| Some(frame.port) == server).count() >= least)?;
    Ok(card)
}

/// Sends an acknowledgement from the server; returns the frames to workers, and the model that was sent.
fn answered(card: &mut Card, worker: u32) -> ProbeResult<(Vec<ProbeFrame>, Vec<u32>)> {
    let model = model_of(card);
    let (down, _) = answered_by(card, &ack(worker, &model))?;
    Ok((down, model))
}

/// Returns random bits as a model.
fn model_of(card: &mut Card) -> Vec<u32> {
    (0..card.lanes).map(|_| card.probe.bits()).collect()
}

/// Sends this ACK from the server; returns the frames to workers, and how many left towards the server.
fn answered_by(card: &mut Card, frame: &[u8]) -> ProbeResult<(Vec<ProbeFrame>, usize)> {
    let server = card.probe.ground.server.unwrap_or_default();
    card.probe.send_to(server, frame)?;
    let last = card.probe.last_sent();
    let frames = card.probe.expect(|frames| frames.iter().any(|frame| frame.port != server))?;
    let (up, down): (Vec<_>, Vec<_>) = frames.into_iter().partition(|frame| frame.port == server);
    card.was_busy(up.get(1).map(|frame| frame.t), last, "second")?;
    card.note_departures(&up);
    if down.is_empty() {
        return Err(ClauseBreach::stop("ACKs at the workers' ports", "one or more", 0));
    }
    Ok((down, up.len()))
}

fn read(frame: &ProbeFrame) -> ProbeResult<(Ack, Vec<u8>, u32)> {
    let datagram = Datagram::parse(&frame.bytes);
    let found = datagram.and_then(|it| Some((Ack::parse(it.payload)?, it.payload[ACK_HEAD..].to_vec(), it.dst)));
    found.ok_or_else(|| {
        ClauseBreach::stop(
            format!("a frame of {} bytes at port {}", frame.bytes.len(), frame.port),
            "a strict OLAF ACK",
            "none",
        )
    })
}

fn workers(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = introduced(probe)?;
    let clusters = card.clusters.clone();
    (0..ACK_ROUNDS).flat_map(|_| &clusters).try_for_each(|members| acknowledged(&mut card, members))
}

/// Checks that an ACK to one of these workers of a cluster reaches all of them and nobody else.
fn acknowledged(card: &mut Card, members: &[u32]) -> ProbeResult<()> {
    let (worker, model) = (members[card.probe.below(members.len())], model_of(card));
    let (down, up) = answered_by(card, &ack(worker, &model))?;
    let ground = card.probe.ground;
    let group = group_ip(ground.workers.cluster_of[worker as usize]);
    let at = format!("an ACK to worker {worker}");
    let copies = down.iter().map(|frame| Ok((read(frame)?.2, frame.port))).collect::<ProbeResult<Vec<_>>>()?;
    one_copy_each(&at, ground, members, Some(group), &copies)?;
    same(&at, "frames at the server's port", 0, up)
}

fn state(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = introduced(probe)?;
    card.congest()?;
    let most = free(&card).min(card.clusters.len());
    let count = 1 + card.probe.below(most.max(1));
    let all: Vec<_> = card.clusters.iter().take(count).map(|members| members[0]).collect();
    for worker in &all {
        let update = card.update(*worker);
        card.send(&update)?;
    }
    let (waiting, clusters) = (all.len() as u32 + 1, card.probe.ground.clusters().len());
    let (down, _) = answered(&mut card, all[0])?;
    for frame in &down {
        let (ack, ..) = read(frame)?;
        if !(waiting..=waiting + 1).contains(&ack.occupancy) {
            let expected = format!("{waiting} or {}", waiting + 1);
            return Err(card.unless_late(ClauseBreach::stop("slots in use (Qn) in the ACK", expected, ack.occupancy)));
        }
        let least = all.len() + 2;
        if !(least..=clusters).contains(&usize::from(ack.active)) {
            return Err(ClauseBreach::stop(
                "active clusters (N) in the ACK",
                format!("{least} to {clusters}"),
                ack.active,
            ));
        }
    }
    Ok(())
}

fn model(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = introduced(probe)?;
    let worker = card.clusters[0][0];
    let (down, sent) = answered(&mut card, worker)?;
    let sent: Vec<u8> = sent.iter().flat_map(|value| value.to_le_bytes()).collect();
    for frame in &down {
        let (_, model, _) = read(frame)?;
        if model != sent {
            let at = sent.iter().zip(&model).position(|(a, b)| a != b).unwrap_or(sent.len().min(model.len()));
            return Err(ClauseBreach::stop("the first other byte of the model in the ACK", "none", at));
        }
    }
    Ok(())
}

fn headers(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut card = introduced(probe)?;
    let worker = card.clusters[0][0];
    let group = group_ip(card.probe.ground.workers.cluster_of[worker as usize]);
    for with_checksum in [true, false] {
        let mut frame = ack(worker, &[0x3f80_0000]);
        if with_checksum {
            set_udp_checksum(&mut frame);
        }
        for found in answered_by(&mut card, &frame)?.0 {
            let (at, bytes) = (format!("an ACK at port {}", found.port), &found.bytes);
            let Some(datagram) = Datagram::parse(bytes) else {
                return Err(ClauseBreach::stop(at, "a UDP datagram over IPv4", "none"));
            };
            if datagram.dst != group && any_worker(datagram.dst).is_none() {
                let expected = format!("{} or a worker's", dotted(group));
                return Err(ClauseBreach::stop(format!("{at}: destination address"), expected, dotted(datagram.dst)));
            }
            same(&at, "destination port", WORKER_PORT, datagram.dst_port)?;
            same(&at, "source address", dotted(SERVER_IP), dotted(datagram.src))?;
            same(&at, "source port", PORT, number16(bytes, HEAD - 8))?;
            same(&at, "Ethernet destination", station(&mac_of(datagram.dst)), station(&bytes[..6]))?;
            same(&at, "Ethernet source", station(&mac_of(SERVER_IP)), station(&bytes[6..12]))?;
            headers_fit(&at, bytes, frame.len() - HEAD)?;
        }
    }
    Ok(())
}
