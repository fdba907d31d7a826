//! Clauses on packets that arrive repeatedly, late or out of order (LIBRA §3.6).

use super::BASE;
use super::switch::{AT_ONCE, Switch, window_of, with_switch};
use crate::format::Header;
use pktgen_engine::clause::{Clause, ProbeGround, ProbeResult};

const ORACLE: &str = "an ack for each copy, with its attempt; sums that hold each push once";

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "libra-resent",
        title: "what was added and comes again is acknowledged and not added",
        rule: "A resent packet that was added before is only acknowledged: its ack was lost (§3.6, \"repeat-write-error\").",
        stimulus: "a push of each worker; some of them resent, with attempts from 1 to 15",
        oracle: ORACLE,
        repeats: 5,
        probe: |probe| with_switch(probe, resent),
        ..BASE
    },
    Clause {
        id: "libra-copied",
        title: "copies that the network makes are not added",
        rule: "A packet that comes twice with the same attempt is added once (docs/libra.md, repeat_writes = \"strict\").",
        precondition: "synchronous training of three iterations or more with 66 hot parameters or more, target.repeat_writes = \"strict\"",
        exempt: lax,
        stimulus: "a push of each worker; some of them twice",
        oracle: ORACLE,
        repeats: 5,
        probe: |probe| with_switch(probe, copied),
        ..BASE
    },
    Clause {
        id: "libra-first-lost",
        title: "a resent packet whose first transmission was lost is added",
        rule: "A resent packet that was not added before is added and acknowledged (§3.6).",
        stimulus: "a push of each worker, some of which come as attempt 1 to 15 only",
        oracle: ORACLE,
        repeats: 5,
        probe: |probe| with_switch(probe, first_lost),
        ..BASE
    },
    Clause {
        id: "libra-late",
        title: "what comes late is in no later sum",
        rule: "A resent packet of an earlier iteration, which was added there, is acknowledged and not added (§3.6).",
        precondition: "synchronous training of three iterations or more with 66 hot parameters or more, target.repeat_writes other than \"bloom\"",
        exempt: forgetful,
        stimulus: "an iteration; then resent pushes of it, and pushes of the next",
        oracle: ORACLE,
        repeats: 3,
        probe: |probe| with_switch(probe, late),
        ..BASE
    },
    Clause {
        id: "libra-reordered",
        title: "numbers may come in any order within the window",
        rule: "Pushes may arrive in any order; a worker has up to endpoint.window packets without an ack (§3.6).",
        stimulus: "of each worker as many pushes as its window holds, at most 64, the last number first, the others in random order",
        oracle: "an ack for each push; sums of all of them",
        repeats: 2,
        probe: |probe| with_switch(probe, reordered),
        ..BASE
    },
    Clause {
        id: "libra-window",
        title: "what was added long ago is known",
        rule: "A packet that was added is known for as long as its worker may resend it: while it is among the last endpoint.window numbers (§3.6).",
        stimulus: "a push of a worker; as many as its window holds less one after it; the first again, resent",
        oracle: ORACLE,
        repeats: 1,
        probe: |probe| with_switch(probe, window),
        ..BASE
    },
    Clause {
        id: "libra-end-again",
        title: "a repeated end counts once",
        rule: "An end that comes again is acknowledged, and is no end of another worker, nor of another iteration (docs/libra.md).",
        precondition: "synchronous training of three iterations or more with 66 hot parameters or more, two workers or more",
        exempt: |ground| super::unfit(ground).or_else(|| ground.alone()),
        stimulus: "a push of each worker; the ends of all but one, each three times; the last end; the end of another again",
        oracle: "an ack for each end, results after the last worker's end alone",
        repeats: 3,
        probe: |probe| with_switch(probe, end_again),
        ..BASE
    },
];

/// Returns why copies are added.
fn lax(ground: &ProbeGround) -> Option<String> {
    let writes = ground.word("target.repeat_writes");
    let is_lax = writes == "paper" || writes == "bloom";
    super::unfit(ground).or_else(|| {
        is_lax.then(|| {
            format!(
                "with target.repeat_writes = \"{writes}\" only packets that say that they were resent are looked up"
            )
        })
    })
}

/// Returns why late packets count as new.
fn forgetful(ground: &ProbeGround) -> Option<String> {
    let is_bloom = ground.word("target.repeat_writes") == "bloom";
    super::unfit(ground).or_else(|| is_bloom.then(|| "a Bloom filter is emptied with the registers".to_owned()))
}

/// Returns a random selection of workers, at least one.
fn chosen(switch: &mut Switch) -> Vec<usize> {
    let order = switch.any_order();
    let count = 1 + switch.probe.below(order.len());
    order[..count].to_vec()
}

/// Returns an attempt other than the first.
fn attempt(switch: &mut Switch) -> u8 {
    1 + switch.probe.below(15) as u8
}

fn resent(switch: &mut Switch) -> ProbeResult<()> {
    let pushes = switch.push_all()?;
    let mut sent: Vec<_> = pushes.iter().map(|push| (push.rank, push.header)).collect();
    let chosen = chosen(switch);
    for push in pushes.iter().filter(|push| chosen.contains(&push.rank)) {
        let attempt = attempt(switch);
        sent.push((push.rank, switch.send(push, attempt)?));
    }
    switch.acked(&sent)?;
    switch.finish_all()?;
    Ok(())
}

fn copied(switch: &mut Switch) -> ProbeResult<()> {
    let pushes = switch.push_all()?;
    let mut sent: Vec<_> = pushes.iter().map(|push| (push.rank, push.header)).collect();
    let chosen = chosen(switch);
    for push in pushes.iter().filter(|push| chosen.contains(&push.rank)) {
        sent.push((push.rank, switch.send(push, 0)?));
    }
    switch.acked(&sent)?;
    switch.finish_all()?;
    Ok(())
}

fn first_lost(switch: &mut Switch) -> ProbeResult<()> {
    let chosen = chosen(switch);
    let mut sent = Vec::new();
    for rank in switch.any_order() {
        let pairs = switch.some();
        let push = switch.made(rank, pairs);
        switch.counts(&push);
        let attempt = if chosen.contains(&rank) { attempt(switch) } else { 0 };
        sent.push((rank, switch.send(&push, attempt)?));
    }
    switch.acked(&sent)?;
    switch.finish_all()?;
    Ok(())
}

fn late(switch: &mut Switch) -> ProbeResult<()> {
    let before = switch.push_all()?;
    switch.awaits(before.len())?;
    switch.finish_all()?;
    let mut sent = Vec::new();
    for push in &before {
        let attempt = attempt(switch);
        sent.push((push.rank, switch.send(push, attempt)?));
    }
    sent.extend(switch.push_all()?.iter().map(|push| (push.rank, push.header)));
    switch.acked(&sent)?;
    switch.finish_all()?;
    Ok(())
}

fn reordered(switch: &mut Switch) -> ProbeResult<()> {
    let most = window_of(switch.probe.ground).min(AT_ONCE);
    let mut sent = Vec::new();
    for rank in switch.any_order() {
        let mut pushes = Vec::new();
        for _ in 0..most {
            let pairs = switch.pairs(2);
            pushes.push(switch.made(rank, pairs));
        }
        pushes.iter().for_each(|push| switch.counts(push));
        let last = pushes.pop();
        let others = switch.probe.shuffled(&pushes);
        for push in last.iter().chain(&others) {
            sent.push((rank, switch.send(push, 0)?));
        }
        switch.acked(&sent)?;
        sent.clear();
    }
    switch.finish_all()?;
    Ok(())
}

fn window(switch: &mut Switch) -> ProbeResult<()> {
    let rank = switch.probe.below(switch.workers.len());
    let pairs = switch.pairs(1);
    let first = switch.push(rank, pairs)?;
    switch.acked(&[(rank, first.header)])?;
    let mut sent = Vec::new();
    for _ in 1..window_of(switch.probe.ground) {
        let pairs = switch.pairs(1);
        let push = switch.push(rank, pairs)?;
        sent.push((rank, push.header));
        // No more at once than fit into a host's buffers.
        if sent.len() == AT_ONCE {
            switch.acked(&std::mem::take(&mut sent))?;
        }
    }
    switch.acked(&sent)?;
    let copy = switch.send(&first, 1)?;
    switch.acked(&[(rank, copy)])?;
    switch.finish_all()?;
    Ok(())
}

fn end_again(switch: &mut Switch) -> ProbeResult<()> {
    switch.push_acked()?;
    let (others, last) = switch.any_order_and_last();
    let mut old = Vec::new();
    for rank in others {
        let end = switch.end(rank)?;
        let mut sent = vec![(rank, end)];
        for attempt in [1, 2] {
            let copy = again(end, attempt);
            switch.send_end(rank, &copy)?;
            sent.push((rank, copy));
        }
        switch.acked(&sent)?;
        old.push((rank, again(end, 3), switch.iteration()));
    }
    switch.finish(&[last])?;
    // An end of a finished iteration before any end of the next one.
    for (rank, end, iteration) in old {
        let frame = switch.frame(rank, &end, &iteration.to_be_bytes());
        switch.send_frame(rank, &frame)?;
        switch.acked(&[(rank, end)])?;
    }
    switch.push_acked()?;
    // If those had counted, this one would be the last.
    let end = switch.end(last)?;
    switch.acked(&[(last, end)])?;
    let others: Vec<_> = switch.any_order().into_iter().filter(|rank| *rank != last).collect();
    switch.finish(&others)?;
    Ok(())
}

/// Returns the same header with another attempt.
fn again(header: Header, attempt: u8) -> Header {
    Header { attempt, ..header }
}
