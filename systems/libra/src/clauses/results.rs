//! Clauses on results: destinations, times and headers.

use std::collections::{BTreeMap, BTreeSet};

use super::BASE;
use super::switch::{Answer, Switch, result_timeout, told, with_switch};
use crate::format::{HEADER, HOT_FRAME_MAX, HOT_PAIR, PORT, RESULT_HEAD, WORKER_PORT};
use pktgen_core::record::PacketId;
use pktgen_core::units::Span;
use pktgen_engine::clause::checks::{dotted, headers_fit, one_copy_each, same, station};
use pktgen_engine::clause::{Clause, ClauseBreach, ProbeResult, ProbeStop};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, group_ip, mac_of};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "libra-complete",
        title: "results leave when all workers have ended the iteration",
        rule: "Results leave after the last worker's end, and not before (§3.1).",
        stimulus: "a push of each worker; the ends of all but one; the last end",
        oracle: "no result before the last end; the sums of all after it",
        repeats: 3,
        probe: |probe| with_switch(probe, complete),
        ..BASE
    },
    Clause {
        id: "libra-receivers",
        title: "every worker gets every result, once",
        rule: "Each part of the results goes to every worker of the job, and to nobody else (§3.1).",
        stimulus: "pushes of all workers to three times as many parameters as fit a result; ends",
        oracle: "one copy of each part at the port of each worker, to its address or to that of its job",
        repeats: 3,
        probe: |probe| with_switch(probe, receivers),
        ..BASE
    },
    Clause {
        id: "libra-parts",
        title: "results are in parts that say so",
        rule: "Parts are counted from 0, and each says how many there are; a parameter is in one of them; no packet is longer than 192 bytes (§3.4, docs/libra.md).",
        stimulus: "pushes of all workers to three times as many parameters as fit a result; ends",
        oracle: "parts 0 to n − 1 of n with 16 pairs at most, and no parameter in two of them",
        repeats: 3,
        probe: |probe| with_switch(probe, parts),
        ..BASE
    },
    Clause {
        id: "libra-numbers",
        title: "numbers of results go on",
        rule: "The parts of an iteration have consecutive even numbers, from 0 on over all iterations of the job; job and iteration are those of the ends; attempt 0 (docs/libra.md).",
        stimulus: "three iterations with pushes of all workers",
        oracle: "twice the number of results that the device made for the job before, and 2 more for each part",
        repeats: 2,
        probe: |probe| with_switch(probe, numbers),
        ..BASE
    },
    Clause {
        id: "libra-opener",
        title: "results name the push that opened the sums",
        rule: "The opener of all parts is the first push that was added to the empty registers: worker, attempt and number; all ones if there was none (docs/libra.md).",
        stimulus: "a push of each worker, the first of them resent; ends; an iteration without pushes",
        oracle: "worker << 40, attempt << 32, number of the first push",
        repeats: 3,
        probe: |probe| with_switch(probe, opener),
        ..BASE
    },
    Clause {
        id: "libra-result-addresses",
        title: "results go from the device to the workers' port",
        rule: "A result is from the device's address and port 0x11b4 to port 0x11b5; Ethernet addresses are the device's, and the worker's or its group's (RFC 1112, docs/libra.md).",
        stimulus: "a push of each worker; ends",
        oracle: "the addresses of the experiment or of its profile",
        repeats: 2,
        probe: |probe| with_switch(probe, addresses),
        ..BASE
    },
    Clause {
        id: "libra-result-headers",
        title: "headers of results are right",
        rule: "Lengths in IPv4 and UDP are those of the result, the IPv4 checksum is right, the UDP checksum right or 0 (RFC 791, RFC 768).",
        stimulus: "pushes of all workers to three times as many parameters as fit a result; ends",
        oracle: "headers made by the certifier",
        repeats: 2,
        probe: |probe| with_switch(probe, headers),
        ..BASE
    },
    Clause {
        id: "libra-result-resent",
        title: "a worker that did not acknowledge a result gets it again",
        rule: "A result that a worker has not acknowledged within target.result_timeout is sent to it again, with another attempt; those that have acknowledged it get no copy, and nobody does after the last ack (§3.6).",
        precondition: "synchronous training of three iterations or more, two workers or more",
        exempt: |ground| super::unfit(ground).or_else(|| ground.alone()),
        stimulus: "a push of each worker; ends; acks of all workers but one; its ack after a copy",
        observation: "all ports, for the timeout and once more as long",
        oracle: "the same sums with an attempt above 0 to that worker alone; nothing after its ack",
        repeats: 2,
        probe: |probe| with_switch(probe, resent),
        ..BASE
    },
];

fn complete(switch: &mut Switch) -> ProbeResult<()> {
    switch.push_acked()?;
    let (others, last) = switch.any_order_and_last();
    let mut ends = Vec::new();
    for rank in others {
        ends.push((rank, switch.end(rank)?));
    }
    let answers = switch.answers(ends.len())?;
    let results = answers.iter().filter(|answer| answer.head.is_some()).count();
    same(&switch.at("results"), &format!("after {} of {} ends", ends.len(), switch.workers.len()), 0, results)?;
    switch.are_acks(&answers, &ends)?;
    switch.finish(&[last])?;
    Ok(())
}

/// Performs an iteration whose sums need several parts; returns its results.
fn long(switch: &mut Switch) -> ProbeResult<Vec<Answer>> {
    for _ in 0..3 {
        for rank in switch.any_order() {
            let pairs = switch.pairs(18);
            switch.push(rank, pairs)?;
        }
        switch.settles()?;
    }
    // Parameters that are certainly in no other packet of this kind.
    for first in [0, 24, 48] {
        let rank = switch.probe.below(switch.workers.len());
        let count = switch.pairs(16).len() as u32;
        let pairs = (first..first + count).map(|index| (index, 1024.0)).collect();
        switch.push(rank, pairs)?;
    }
    switch.settles()?;
    switch.finish_all()
}

/// Groups results of the first attempt by the port that they left from.
fn by_port(results: &[Answer]) -> BTreeMap<u16, Vec<&Answer>> {
    let mut ports: BTreeMap<u16, Vec<&Answer>> = BTreeMap::new();
    for answer in results.iter().filter(|answer| answer.header.attempt == 0) {
        ports.entry(answer.frame.port).or_default().push(answer);
    }
    ports
}

fn receivers(switch: &mut Switch) -> ProbeResult<()> {
    let results = long(switch)?;
    let numbers: BTreeSet<u32> = results.iter().map(|answer| answer.header.seq).collect();
    for number in numbers {
        let own = results.iter().filter(|answer| answer.header.seq == number && answer.header.attempt == 0);
        let copies: Vec<_> = own.map(|answer| (answer.to.0, answer.frame.port)).collect();
        let at = format!("result {number}");
        one_copy_each(&at, switch.probe.ground, &switch.workers, Some(group_ip(switch.job)), &copies)?;
    }
    Ok(())
}

fn parts(switch: &mut Switch) -> ProbeResult<()> {
    let results = long(switch)?;
    for (port, own) in by_port(&results) {
        let at = format!("results at port {port}");
        let (mut seen, mut indices) = (BTreeSet::new(), BTreeSet::new());
        for answer in &own {
            let Some(head) = answer.head else { continue };
            same(&at, &format!("parts that part {} says there are", head.part), own.len(), usize::from(head.parts))?;
            same(&at, &format!("copies of part {}", head.part), true, seen.insert(head.part))?;
            for (index, _) in &answer.pairs {
                same(&at, &format!("parts with parameter {index}"), true, indices.insert(*index))
                    .map_err(|_| ClauseBreach::stop(format!("{at}: parts with parameter {index}"), 1, 2))?;
            }
            let bytes = HEAD + HEADER + RESULT_HEAD + answer.pairs.len() * HOT_PAIR;
            if bytes > HOT_FRAME_MAX {
                let what = format!("{at}: bytes of part {}", head.part);
                return Err(ClauseBreach::stop(what, format!("{HOT_FRAME_MAX} at most"), bytes));
            }
        }
    }
    Ok(())
}

fn numbers(switch: &mut Switch) -> ProbeResult<()> {
    for _ in 0..3 {
        switch.push_all()?;
        switch.settles()?;
        let (iteration, first) = (switch.iteration(), switch.next_result());
        let results = switch.finish_all()?;
        for (port, own) in by_port(&results) {
            for answer in own {
                let Some(head) = answer.head else { continue };
                let at = format!("part {} of iteration {iteration} at port {port}", head.part);
                same(&at, "number", first + 2 * u32::from(head.part), answer.header.seq)?;
                same(&at, "job", switch.job as u8, answer.header.job)?;
            }
        }
    }
    Ok(())
}

fn opener(switch: &mut Switch) -> ProbeResult<()> {
    let mut opener = None;
    for rank in switch.any_order() {
        let pairs = switch.some();
        let push = switch.made(rank, pairs);
        switch.counts(&push);
        let attempt = if opener.is_none() { switch.probe.below(3) as u8 } else { 0 };
        switch.send(&push, attempt)?;
        opener.get_or_insert(PacketId::new(switch.workers[rank], push.header.seq, attempt));
        // The first is added before another one arrives.
        switch.settles()?;
    }
    for opener in [opener, None] {
        for answer in switch.finish_all()? {
            let Some(head) = answer.head else { continue };
            let at = format!("opener of part {} of iteration {}", head.part, head.iteration);
            let words = |opener: Option<PacketId>| {
                opener.map_or("none".to_owned(), |it| {
                    format!("worker {}, number {}, attempt {}", it.worker(), it.seq(), it.attempt())
                })
            };
            same(&at, "the push", words(opener), words(head.opener))?;
        }
    }
    Ok(())
}

fn addresses(switch: &mut Switch) -> ProbeResult<()> {
    switch.push_all()?;
    switch.settles()?;
    for answer in switch.finish_all()? {
        let at = format!("a result at port {}", answer.frame.port);
        same(&at, "source address", dotted(SERVER_IP), dotted(answer.from.0))?;
        same(&at, "source port", PORT, answer.from.1)?;
        same(&at, "destination port", WORKER_PORT, answer.to.1)?;
        let (to, from) = answer.frame.bytes[..12].split_at(6);
        same(&at, "Ethernet destination", station(&mac_of(answer.to.0)), station(to))?;
        same(&at, "Ethernet source", station(&mac_of(SERVER_IP)), station(from))?;
    }
    Ok(())
}

fn headers(switch: &mut Switch) -> ProbeResult<()> {
    for answer in long(switch)? {
        let at = format!("a result at port {}", answer.frame.port);
        headers_fit(&at, &answer.frame.bytes, HEADER + RESULT_HEAD + answer.pairs.len() * HOT_PAIR)?;
    }
    Ok(())
}

fn resent(switch: &mut Switch) -> ProbeResult<()> {
    switch.push_all()?;
    switch.settles()?;
    let (others, last) = switch.any_order_and_last();
    for rank in &others {
        switch.end(*rank)?;
    }
    let ended = switch.probe.now();
    switch.end(last)?;
    let results = switch.results()?;
    switch.has_sums(&results)?;
    switch.confirm(&results, &others)?;
    let took = switch.probe.now() - ended;
    let worker = switch.workers[last];
    let port = switch.probe.ground.port_towards(worker);
    let (timeout, patience) = (result_timeout(switch.probe.ground), switch.probe.ground.patience);
    if took > timeout / 2 {
        return Err(ProbeStop::Undecidable(format!(
            "results were acknowledged {} after the last end, and come again after {}",
            Span::from_ps(took),
            Span::from_ps(timeout)
        )));
    }
    let (mut copies, mut waited) = (Vec::new(), 0);
    while waited < 2 * timeout + patience && copies.is_empty() {
        copies.extend(switch.copies(timeout / 2)?);
        waited += timeout / 2;
    }
    let at = format!("result {}", results.first().map_or(0, |answer| answer.header.seq));
    let Some(first) = copies.first() else {
        let expected = format!("a copy for worker {worker} within {}", Span::from_ps(2 * timeout));
        return Err(ClauseBreach::stop(at, expected, format!("none within {}", Span::from_ps(waited))));
    };
    for copy in &copies {
        let at = told(&copy.header);
        same(&at, "port of a copy", port, copy.frame.port)?;
        same(&at, "attempt above 0", true, copy.header.attempt > 0)?;
        let sent = results.iter().find(|answer| answer.header.seq == copy.header.seq && answer.frame.port == port);
        let alike = sent.is_some_and(|sent| sent.head == copy.head && sent.pairs == copy.pairs);
        same(&at, "the same sums as before", true, alike)?;
    }
    let first = first.clone();
    switch.confirm(&results, &[last])?;
    // One may be in flight.
    switch.copies(timeout / 4)?;
    match switch.copies(8 * timeout)?.first() {
        None => Ok(()),
        Some(copy) => Err(ClauseBreach::stop(
            format!("copies of {} after its ack", told(&first.header)),
            "none",
            format!("{} at port {}", told(&copy.header), copy.frame.port),
        )),
    }
}
