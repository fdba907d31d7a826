//! Clauses on results: destinations, times and headers.

use std::collections::BTreeSet;

use super::BASE;
use super::switch::{Answer, Switch, result_timeout, told, with_switch};
use crate::format::{HEADER, HOT_FRAME_MAX, HOT_PAIR, PORT, RESULT_HEAD, WORKER_PORT};
use pktgen_core::record::PacketId;
use pktgen_core::time::Time;
use pktgen_core::units::Span;
use pktgen_engine::clause::checks::{dotted, headers_fit, one_copy_each, same, station};
use pktgen_engine::clause::{Clause, ClauseBreach, ProbeResult, ProbeStop};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, group_ip, mac_of, worker_ip};

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
        title: "results come from the address that pushes go to",
        rule: "A result is from the address and port 0x11b4 that pushes go to, to port 0x11b5; Ethernet addresses are those of that address, and the worker's or its group's (RFC 1112, docs/libra.md).",
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
        rule: "A result that a worker has not acknowledged within target.result_timeout is sent to its address again, once with each further attempt, in headers as right as before; nobody else gets a copy, and nobody does after the last ack or, in virtual time, within the timeout from the last end (§3.6).",
        precondition: "synchronous training of three iterations or more with 66 hot parameters or more, two workers or more",
        exempt: |ground| super::unfit(ground).or_else(|| ground.alone()),
        stimulus: "pushes of all workers to three times as many parameters as fit a result; ends; acks of all workers but one, and of one part from that one; its other acks after copies",
        observation: "all ports, for the timeout and once more as long",
        oracle: "the same sums of every other part with an attempt above 0 to that worker alone, none before the timeout; nothing after its ack",
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
    push_long(switch)?;
    switch.finish_all()
}

/// Sends pushes of all workers whose sums need several parts.
fn push_long(switch: &mut Switch) -> ProbeResult<()> {
    for _ in 0..3 {
        for rank in switch.any_order() {
            let pairs = switch.pairs(18);
            switch.push(rank, pairs)?;
        }
        switch.awaits(switch.workers.len())?;
    }
    // Parameters that are certainly in no other packet of this kind.
    let firsts = [0, 24, 48];
    for first in firsts {
        let rank = switch.probe.below(switch.workers.len());
        let count = switch.pairs(16).len() as u32;
        let pairs = (first..first + count).map(|index| (index, 1024.0)).collect();
        switch.push(rank, pairs)?;
    }
    switch.awaits(firsts.len())
}

/// Returns the results of the first attempt that reach each worker.
fn by_worker<'r>(switch: &Switch, results: &'r [Answer]) -> Vec<(u32, Vec<&'r Answer>)> {
    let own = |worker| switch.results_of(worker, results).filter(|answer| answer.header.attempt == 0);
    switch.workers.iter().map(|worker| (*worker, own(*worker).collect())).collect()
}

fn receivers(switch: &mut Switch) -> ProbeResult<()> {
    let results = long(switch)?;
    reach_all(switch, &results)
}

/// Checks that each worker of the job gets each result once, and nobody else does.
pub(super) fn reach_all(switch: &Switch, results: &[Answer]) -> ProbeResult<()> {
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
    for (worker, own) in by_worker(switch, &results) {
        let at = format!("results at worker {worker}");
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
        let pushes = switch.push_all()?.len();
        switch.awaits(pushes)?;
        let (iteration, first) = (switch.iteration(), switch.next_result());
        let results = switch.finish_all()?;
        for (worker, own) in by_worker(switch, &results) {
            for answer in own {
                let Some(head) = answer.head else { continue };
                let at = format!("part {} of iteration {iteration} at worker {worker}", head.part);
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
        switch.awaits(1)?;
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
    let pushes = switch.push_all()?.len();
    switch.awaits(pushes)?;
    switch.finish_all()?.iter().try_for_each(|answer| is_well_addressed("a result", answer))
}

/// Checks that an answer is from the address and port that pushes go to, to the workers' port, and that its Ethernet addresses fit.
pub(super) fn is_well_addressed(what: &str, answer: &Answer) -> ProbeResult<()> {
    let at = format!("{what} at port {}", answer.frame.port);
    same(&at, "source address", dotted(SERVER_IP), dotted(answer.from.0))?;
    same(&at, "source port", PORT, answer.from.1)?;
    same(&at, "destination port", WORKER_PORT, answer.to.1)?;
    let (to, from) = answer.frame.bytes[..12].split_at(6);
    same(&at, "Ethernet destination", station(&mac_of(answer.to.0)), station(to))?;
    same(&at, "Ethernet source", station(&mac_of(SERVER_IP)), station(from))
}

fn headers(switch: &mut Switch) -> ProbeResult<()> {
    long(switch)?.iter().try_for_each(|answer| has_right_headers("a result", answer))
}

/// Checks lengths and checksums of a result.
fn has_right_headers(what: &str, answer: &Answer) -> ProbeResult<()> {
    let at = format!("{what} at port {}", answer.frame.port);
    headers_fit(&at, &answer.frame.bytes, HEADER + RESULT_HEAD + answer.pairs.len() * HOT_PAIR)
}

fn resent(switch: &mut Switch) -> ProbeResult<()> {
    push_long(switch)?;
    let (others, last) = switch.any_order_and_last();
    for rank in &others {
        switch.end(*rank)?;
    }
    let ended = switch.probe.now();
    switch.end(last)?;
    let results = switch.results()?;
    switch.has_sums(&results)?;
    are_not_early(switch, &results, ended)?;
    switch.confirm(&results, &others)?;
    // One part is acknowledged by all.
    let numbers: BTreeSet<u32> = results.iter().map(|answer| answer.header.seq).collect();
    let acked = numbers.iter().nth(switch.probe.below(numbers.len())).filter(|_| numbers.len() > 1).copied();
    let (done, open): (Vec<_>, Vec<_>) = results.iter().cloned().partition(|answer| Some(answer.header.seq) == acked);
    switch.confirm(&done, &[last])?;
    let took = switch.probe.now() - ended;
    let worker = switch.workers[last];
    let (timeout, patience) = (result_timeout(switch.probe.ground), switch.probe.ground.patience);
    if took > timeout / 2 {
        let remedy = super::slow_links(switch.probe.ground).map(|it| format!("; {it}")).unwrap_or_default();
        return Err(ProbeStop::Undecidable(format!(
            "results were acknowledged {} after the last end, and come again after {}{remedy}",
            Span::from_ps(took),
            Span::from_ps(timeout)
        )));
    }
    let numbers: BTreeSet<u32> = open.iter().map(|answer| answer.header.seq).collect();
    let (mut copies, mut waited): (Vec<Answer>, _) = (Vec::new(), 0);
    let lacks =
        |copies: &[Answer]| numbers.iter().find(|seq| !copies.iter().any(|copy| copy.header.seq == **seq)).copied();
    while waited < 2 * timeout + patience && lacks(&copies).is_some() {
        copies.extend(switch.copies(timeout / 2)?);
        waited += timeout / 2;
    }
    if let Some(number) = lacks(&copies) {
        let expected = format!("a copy for worker {worker} within {}", Span::from_ps(2 * timeout));
        let observed = format!("none within {}", Span::from_ps(waited));
        return Err(ClauseBreach::stop(format!("result {number}"), expected, observed));
    }
    are_not_early(switch, &copies, ended)?;
    are_copies(switch, &copies, worker, &open)?;
    switch.confirm(&open, &[last])?;
    // One may be in flight.
    switch.copies(timeout / 4)?;
    match switch.copies(8 * timeout)?.first() {
        None => Ok(()),
        Some(copy) => Err(ClauseBreach::stop(
            format!("copies of result {} after its ack", copy.header.seq),
            "none",
            format!("{} at port {}", told(&copy.header), copy.frame.port),
        )),
    }
}

/// Checks that no result came again within the timeout, which begins after the last end was sent at `ended`. On wires, the clocks of the device
/// and of the host differ.
fn are_not_early(switch: &Switch, answers: &[Answer], ended: Time) -> ProbeResult<()> {
    let (timeout, is_virtual) = (result_timeout(switch.probe.ground), switch.probe.ground.patience == 0);
    let is_early = |answer: &&Answer| answer.header.attempt > 0 && answer.frame.t < ended.saturating_add(timeout);
    match answers.iter().find(is_early).filter(|_| is_virtual) {
        None => Ok(()),
        Some(copy) => Err(ClauseBreach::stop(
            format!("time of {}", told(&copy.header)),
            format!("{} after the last end, or later", Span::from_ps(timeout)),
            format!("{} after it", Span::from_ps(copy.frame.t - ended)),
        )),
    }
}

/// Checks that these are further transmissions of these results to this worker alone.
fn are_copies(switch: &Switch, copies: &[Answer], worker: u32, results: &[Answer]) -> ProbeResult<()> {
    let (port, mut attempts) = (switch.probe.ground.port_towards(worker), BTreeSet::new());
    for copy in copies {
        let at = told(&copy.header);
        same(&at, "port of a copy", port, copy.frame.port)?;
        same(&at, "destination address of a copy", dotted(worker_ip(worker)), dotted(copy.to.0))?;
        same(&at, "attempt above 0", true, copy.header.attempt > 0)?;
        if !attempts.insert((copy.header.seq, copy.header.attempt)) {
            return Err(ClauseBreach::stop(format!("{at}: copies"), 1, 2));
        }
        let Some(sent) = results.iter().find(|answer| answer.header.seq == copy.header.seq) else {
            return Err(ClauseBreach::stop(format!("{at}: a copy of what its worker has acknowledged"), "none", "one"));
        };
        same(&at, "the same sums as before", true, sent.head == copy.head && sent.pairs == copy.pairs)?;
        is_well_addressed("a copy", copy)?;
        has_right_headers("a copy", copy)?;
    }
    Ok(())
}
