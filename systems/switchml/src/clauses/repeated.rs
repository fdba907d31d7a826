//! Clauses on repeated contributions: because they or their results were lost, or because a worker restarted.

use super::switch::{Answer, Spot, Switch};
use pktgen_engine::clause::{Clause, ClauseProbe, ProbeGround, ProbeResult, ProbeStop};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "switchml-again-under-way",
        title: "a contribution counts once",
        rule: "A contribution that comes again while its sum is under way changes nothing and is not answered.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "contributions of some workers, each again one to three times, then those of the others",
        oracle: "no frame before the last contribution; then the sum, each contribution once",
        probe: under_way,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-again-complete",
        title: "a worker that asks again is answered alone",
        rule: "A contribution that comes again after its sum is complete is answered with the result, to its worker only.",
        stimulus: "all contributions; after the result a random one again, up to three times",
        oracle: "for each one copy to that worker, with values and exponent of the first result",
        probe: completed,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-again-all",
        title: "every worker may ask again",
        rule: "Each worker whose result was lost gets it, in whatever order they ask.",
        stimulus: "all contributions; after the result all again, in random order",
        oracle: "for each one copy to its worker, with values and exponent of the first result",
        probe: everyone,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-lost-result",
        title: "the last result is kept while others go on",
        rule: "A worker that lost a result gets it although all others contribute to the next round of the slot, whose sum is right.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "a round; contributions of all but one to the next round; the first contribution of that one again, then its next",
        oracle: "one copy of the first result to that worker alone; then the sum of the next round",
        probe: lost,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-restart",
        title: "a worker that begins anew repeats without harm",
        rule: "A worker that sends all contributions of its window again gets complete results, and counts once in all others.",
        precondition: "two workers or more, a pool of three slots or more",
        exempt: small,
        stimulus: "a complete sum, one under way with and one without the worker's contribution; then all three from that worker; then the rest",
        oracle: "the first answered to it alone; the sums of the others",
        probe: restart,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-late",
        title: "a contribution of an earlier round is refused",
        rule: "A contribution that arrives after its worker has gone on changes nothing (ours: docs/switchml.md, `check`).",
        precondition: "two workers or more; target.check = true: the device compares packet numbers",
        exempt: unchecked,
        stimulus: "a round; a contribution to the next round; that worker's first one again; the rest of the next round",
        oracle: "no frame before the last contribution; then the sum of the next round",
        probe: |probe| late(probe).map_err(unchecked_fits),
        ..Clause::BASE
    },
    Clause {
        id: "switchml-stale",
        title: "another packet's contribution is refused",
        rule: "A contribution with another packet number than that of the sum under way changes nothing (ours: `check`).",
        precondition: "two workers or more; target.check = true: the device compares packet numbers",
        exempt: unchecked,
        stimulus: "contributions of all but one; one of that worker with the number of two rounds before; its right one",
        oracle: "no frame before the last contribution; then the sum",
        probe: |probe| stale(probe).map_err(unchecked_fits),
        ..Clause::BASE
    },
];

fn small(ground: &ProbeGround) -> Option<String> {
    ground.alone().or_else(|| {
        let pool = ground.number("target.pool").unwrap_or_default();
        (pool < 3).then(|| format!("target.pool = {pool}"))
    })
}

fn unchecked(ground: &ProbeGround) -> Option<String> {
    ground.alone().or_else(|| {
        let why = "target.check = false: the device is not said to compare packet numbers";
        (!ground.flag("target.check")).then(|| why.to_owned())
    })
}

/// Adds the setting that fits a device that does not compare packet numbers.
fn unchecked_fits(stop: ProbeStop) -> ProbeStop {
    stop.fits("target.check = false")
}

fn under_way(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts) = (switch.any_order(), switch.parts());
    let (first, rest) = order.split_at(1 + switch.probe.below(order.len() - 1));
    switch.send_all(first, &spot, &parts)?;
    switch.silent("some of the contributions")?;
    for n in first {
        for _ in 0..=switch.probe.below(3) {
            switch.send(*n, &spot, &parts[*n])?;
        }
    }
    switch.silent("contributions that came again under way")?;
    switch.sums_to(rest, &spot, &parts)
}

/// Performs a complete sum; returns its spot, its parts, and a result.
fn round(switch: &mut Switch) -> ProbeResult<(Spot, Vec<super::switch::Part>, Answer)> {
    let spot = switch.begin()?;
    let (order, parts) = (switch.any_order(), switch.parts());
    switch.send_all(&order, &spot, &parts)?;
    let answers = switch.reach_results(&spot)?;
    match answers.into_iter().next() {
        Some(answer) => Ok((spot, parts, answer)),
        None => Err(ProbeStop::Undecidable("there was no result to ask for again".into())),
    }
}

fn completed(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let (spot, parts, result) = round(&mut switch)?;
    let n = switch.probe.below(parts.len());
    for _ in 0..=switch.probe.below(3) {
        switch.send(n, &spot, &parts[n])?;
        switch.answered_alone(n, &spot, &result)?;
    }
    Ok(())
}

fn everyone(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let (spot, parts, result) = round(&mut switch)?;
    for n in switch.any_order() {
        switch.send(n, &spot, &parts[n])?;
        switch.answered_alone(n, &spot, &result)?;
    }
    Ok(())
}

fn lost(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let (spot, parts, result) = round(&mut switch)?;
    let next = switch.begin_after(&spot);
    let (order, new) = (switch.any_order(), switch.parts());
    let Some((behind, others)) = order.split_last() else { return Ok(()) };
    switch.send_all(others, &next, &new)?;
    switch.silent("contributions of all but one to the next round")?;
    switch.send(*behind, &spot, &parts[*behind])?;
    switch.answered_alone(*behind, &spot, &result)?;
    switch.sums_to_last(*behind, &next, &new)
}

fn restart(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let (done, old, result) = round(&mut switch)?;
    // A contribution to the other set of the first one's slot removes the worker's place in that sum.
    let (with, without) = (switch.begin_elsewhere(&done)?, switch.begin_elsewhere(&done)?);
    let (one, two) = (switch.parts(), switch.parts());
    let order = switch.any_order();
    let Some((worker, others)) = order.split_last() else { return Ok(()) };
    // With two workers, the other one is missing, since the sum would be complete otherwise.
    let (some, rest) = others.split_at(others.len() - 1);
    switch.send_all(some, &with, &one)?;
    switch.send(*worker, &with, &one[*worker])?;
    switch.send_all(some, &without, &two)?;
    switch.silent("contributions of some workers")?;
    switch.send(*worker, &done, &old[*worker])?;
    switch.answered_alone(*worker, &done, &result)?;
    switch.send(*worker, &with, &one[*worker])?;
    switch.send(*worker, &without, &two[*worker])?;
    switch.silent("what a worker sent that began anew")?;
    switch.sums_to(rest, &with, &one)?;
    switch.sums_to(rest, &without, &two)
}

fn late(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let (spot, parts, _) = round(&mut switch)?;
    let next = switch.begin_after(&spot);
    let (order, new) = (switch.any_order(), switch.parts());
    let Some((first, others)) = order.split_first() else { return Ok(()) };
    switch.send(*first, &next, &new[*first])?;
    switch.send(*first, &spot, &parts[*first])?;
    switch.silent("a contribution of an earlier round")?;
    switch.sums_to(others, &next, &new)
}

fn stale(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts, other) = (switch.any_order(), switch.parts(), switch.part());
    let Some((last, others)) = order.split_last() else { return Ok(()) };
    switch.send_all(others, &spot, &parts)?;
    let old = Spot { packet: spot.packet.wrapping_sub(2 * u32::from(switch.pool)), ..spot };
    switch.send(*last, &old, &other)?;
    switch.silent("a contribution with an earlier packet number")?;
    switch.sums_to_last(*last, &spot, &parts)
}
