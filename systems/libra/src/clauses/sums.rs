//! Clauses on sums.

use std::collections::BTreeSet;

use super::switch::{PARAMETERS, Pairs, room, with_switch};
use super::{BASE, switch::Switch};
use pktgen_engine::clause::checks::{orders, same};
use pktgen_engine::clause::{Clause, ProbeResult};

/// Description of the permitted error of additions.
const ORACLE: &str = "exact sums made by the certifier; of n values within (n − 1) · 2⁻²⁴ of the sum of their sizes with target.add = \"exact\", 0.25 % for each addition \
                      with \"tables\" (§3.5)";
const ERROR: &str = "a sum that is wrong by less than the additions may be off is not found";

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "libra-sum",
        title: "sums are right",
        rule: "A result has, for every hot parameter, the sum of what the workers pushed (§3.1, §3.5).",
        stimulus: "one to three pushes of each worker, in random order, with random parameters and gradients of 2⁻⁸ to 2⁸ of both signs; the ends of all",
        oracle: ORACLE,
        error: ERROR,
        repeats: 10,
        probe: |probe| with_switch(probe, sum),
        ..BASE
    },
    Clause {
        id: "libra-order",
        title: "the order of arrival is without effect",
        rule: "The same pushes make the same sums in whatever order they arrive, within what additions are off (§3.5).",
        stimulus: "the same push of each worker in all orders, at most 24 and as many as the experiment has iterations, each in one; the ends in the same order",
        oracle: ORACLE,
        error: "where there are more orders, a random choice of them is tried",
        repeats: 3,
        probe: |probe| with_switch(probe, order),
        ..BASE
    },
    Clause {
        id: "libra-sizes",
        title: "packets of every size are summed",
        rule: "A push has up to 18 pairs: 192 bytes, which is what the switch parses (§3.4).",
        stimulus: "pushes of 1, 2, 17 and 18 pairs, from each worker, of parameters that follow each other, so that no register is needed twice (Figure 8); ends",
        oracle: ORACLE,
        error: ERROR,
        repeats: 2,
        probe: |probe| with_switch(probe, sizes),
        ..BASE
    },
    Clause {
        id: "libra-cancel",
        title: "signs are added",
        rule: "Gradients of opposite signs cancel (§3.5).",
        stimulus: "from each worker the same gradient of three parameters, every other worker's negative; ends",
        oracle: ORACLE,
        error: ERROR,
        repeats: 3,
        probe: |probe| with_switch(probe, cancel),
        ..BASE
    },
    Clause {
        id: "libra-reuse",
        title: "nothing is left of earlier iterations",
        rule: "The sums of an iteration are those of its own pushes (§3.1).",
        stimulus: "three iterations: pushes of all workers, pushes of one worker to other parameters, and no push",
        oracle: ORACLE,
        error: ERROR,
        repeats: 2,
        probe: |probe| with_switch(probe, reuse),
        ..BASE
    },
    Clause {
        id: "libra-empty",
        title: "an iteration without pushes has a result",
        rule: "Results tell workers that the iteration is over, also if nothing was pushed: one part, without pairs (docs/libra.md).",
        stimulus: "the ends of all workers",
        oracle: "part 0 of 1 without pairs, or with sums that are 0",
        repeats: 2,
        probe: |probe| with_switch(probe, empty),
        ..BASE
    },
    Clause {
        id: "libra-registers",
        title: "every hot parameter has a register of its own",
        rule: "The device has a register for every hot parameter, from index 0 to the last one (§3.3, §3.4).",
        stimulus: "a push of one pair for each of the first, the last, and all hot parameters whose index is a power of 2, each of a random worker; the ends of all",
        oracle: "an ack for each push; exact sums made by the certifier, within what additions may be off (§3.5)",
        error: "registers of parameters at other indices are not compared",
        repeats: 2,
        probe: |probe| with_switch(probe, registers),
        ..BASE
    },
];

fn sum(switch: &mut Switch) -> ProbeResult<()> {
    let mut pushes = 0;
    for _ in 0..1 + switch.probe.below(3) {
        pushes += switch.push_all()?.len();
    }
    switch.awaits(pushes)?;
    switch.finish_all()?;
    Ok(())
}

fn order(switch: &mut Switch) -> ProbeResult<()> {
    let parts: Vec<Pairs> = (0..switch.workers.len()).map(|_| switch.some()).collect();
    let all = orders(switch.probe, switch.workers.len());
    let most = switch.probe.ground.number("workload.iterations").unwrap_or(i64::MAX);
    for order in switch.probe.shuffled(&all).into_iter().take(most.max(1) as usize) {
        for rank in &order {
            switch.push(*rank, parts[*rank].clone())?;
        }
        switch.awaits(order.len())?;
        switch.finish(&order)?;
    }
    Ok(())
}

fn sizes(switch: &mut Switch) -> ProbeResult<()> {
    let (most, mut pushes) = (room(switch.probe.ground), 0);
    for size in [1, 2, 17, 18] {
        for rank in switch.any_order() {
            let pairs = switch.pairs(size.min(most));
            switch.push(rank, pairs)?;
            pushes += 1;
        }
    }
    switch.awaits(pushes)?;
    switch.finish_all()?;
    Ok(())
}

fn cancel(switch: &mut Switch) -> ProbeResult<()> {
    let pairs = switch.pairs(3);
    for rank in switch.any_order() {
        let sign = if rank % 2 == 0 { 1.0 } else { -1.0 };
        let own = pairs.iter().map(|(index, value)| (*index, sign * value)).collect();
        switch.push(rank, own)?;
    }
    switch.awaits(switch.workers.len())?;
    switch.finish_all()?;
    Ok(())
}

fn reuse(switch: &mut Switch) -> ProbeResult<()> {
    let pushes = switch.push_all()?.len();
    switch.awaits(pushes)?;
    switch.finish_all()?;
    let rank = switch.probe.below(switch.workers.len());
    switch.push(rank, vec![(PARAMETERS + 1, 1.0)])?;
    switch.awaits(1)?;
    switch.finish_all()?;
    switch.finish_all()?;
    Ok(())
}

fn empty(switch: &mut Switch) -> ProbeResult<()> {
    let results = switch.finish_all()?;
    for answer in &results {
        let Some(head) = answer.head else { continue };
        let at = switch.at("the result of an empty iteration");
        same(&at, "part", 0, head.part)?;
        same(&at, "parts", 1, head.parts)?;
    }
    Ok(())
}

fn registers(switch: &mut Switch) -> ProbeResult<()> {
    let hot = switch.probe.ground.hot.unwrap_or(PARAMETERS);
    let powers = (0..u32::BITS).map(|bit| 1u32 << bit).filter(|index| *index < hot);
    let indices: BTreeSet<u32> = powers.chain([0, hot - 1]).collect();
    let indices: Vec<u32> = indices.into_iter().collect();
    let mut sent = Vec::new();
    for index in switch.probe.shuffled(&indices) {
        let rank = switch.probe.below(switch.workers.len());
        let value = switch.gradient();
        let push = switch.push(rank, vec![(index, value)])?;
        sent.push((rank, push.header));
    }
    switch.acked(&sent)?;
    switch.finish_all()?;
    Ok(())
}
