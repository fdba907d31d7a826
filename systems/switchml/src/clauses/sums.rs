//! Clauses on sums and exponents.

use pktgen_wire::wire::frame::refit;

use super::switch::{Part, Switch, has_sums};
use crate::format::{PORT, PORTS, WORKER_PORT};
use pktgen_engine::clause::checks::{EDGES, orders, same};
use pktgen_engine::clause::{Clause, ClauseBreach, ClauseProbe, ProbeGround, ProbeResult};

pub(super) static CLAUSES: &[Clause] = &[
    Clause {
        id: "switchml-sum",
        title: "sums are bit-exact",
        rule: "Every value of a result is the sum of the workers' values at its place.",
        stimulus: "one contribution of each worker, in random order, with random values of 32 bits",
        oracle: "32-bit sums made by the certifier",
        error: "a wrong value agrees by chance with probability 2⁻³²",
        repeats: 10,
        probe: sum,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-order",
        title: "the order of arrival is without effect",
        rule: "The same contributions make the same result in whatever order they arrive.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "the same random contributions in all orders, at most 24 of them",
        oracle: "32-bit sums made by the certifier",
        error: "of more than 4 workers a random choice of 24 orders is tried",
        repeats: 2,
        probe: order,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-wrap",
        title: "sums wrap around",
        rule: "Sums are modulo 2³², in two's complement; they do not saturate.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "the largest and smallest numbers, from each pair of workers in turn, zeros from all others",
        oracle: "32-bit sums made by the certifier",
        repeats: 3,
        probe: wrap,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-cancel",
        title: "what overflows on the way cancels",
        rule: "A sum that leaves 32 bits and comes back is what it would be if it had not left them.",
        precondition: "two workers or more",
        exempt: ProbeGround::alone,
        stimulus: "2³¹ − 1, 1, −2³¹ + 1, 1 and zeros, every lane with another worker first, in all orders",
        oracle: "sums of 64 bits, cut to 32",
        repeats: 2,
        probe: cancel,
        ..Clause::BASE
    },
    Clause {
        id: "switchml-exponent",
        title: "the exponent is the largest of all",
        rule: "The first exponent of a result is the maximum of those of the contributions, as signed bytes.",
        stimulus: "contributions with random exponents, in some repeats all negative; after the result a random one again",
        oracle: "the maximum made by the certifier",
        repeats: 8,
        error: "with 2 workers an unsigned maximum is found in a repeat with probability 1/2, a first or last one, too",
        probe: |probe| exponent(probe, 0),
        ..Clause::BASE
    },
    Clause {
        id: "switchml-exponent-2",
        title: "so is the second exponent",
        rule: "The second exponent of a result is the maximum of those of the contributions, as signed bytes.",
        stimulus: "contributions with random exponents, in some repeats all negative; after the result a random one again",
        oracle: "the maximum made by the certifier",
        repeats: 8,
        error: "with 2 workers an unsigned maximum is found in a repeat with probability 1/2, a first or last one, too",
        probe: |probe| exponent(probe, 1),
        ..Clause::BASE
    },
    Clause {
        id: "switchml-ports",
        title: "the device has sixteen ports",
        rule: "Contributions to each port from 0xBEE0 to 0xBEEF are summed (p4lang/p4app-switchML, udp_receiver).",
        stimulus: "for each port a contribution of each worker, in random order",
        oracle: "32-bit sums made by the certifier",
        repeats: 1,
        probe: |probe| (0..PORTS).try_for_each(|n| changed(probe, &|frame| refit(frame, (WORKER_PORT, PORT + n)))),
        ..Clause::BASE
    },
    Clause {
        id: "switchml-trailer",
        title: "what follows the IPv4 packet is no part of it",
        rule: "Bytes behind the IPv4 packet, as padding or a frame check sequence that a card left, change nothing (RFC 894).",
        stimulus: "one contribution of each worker, each with four bytes behind it that its lengths leave out",
        oracle: "32-bit sums made by the certifier",
        repeats: 2,
        probe: |probe| changed(probe, &|frame| frame.extend([0xff, 0, 0xff, 1])),
        ..Clause::BASE
    },
];

fn sum(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts) = (switch.any_order(), switch.parts());
    switch.sums_to(&order, &spot, &parts)
}

fn order(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let parts = switch.parts();
    for order in orders(switch.probe, parts.len()) {
        let spot = switch.begin()?;
        switch.sums_to(&order, &spot, &parts)?;
    }
    Ok(())
}

fn zeros(switch: &Switch) -> Vec<Part> {
    let none = Part { values: vec![0; usize::from(switch.elements)], exponents: [0; 2] };
    vec![none; switch.workers.len()]
}

fn wrap(probe: &mut ClauseProbe) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let workers = switch.workers.len();
    let first = switch.probe.below(workers);
    for n in 0..workers.min(4) {
        let (one, other) = ((first + n) % workers, (first + n + 1) % workers);
        let mut parts = zeros(&switch);
        for lane in 0..usize::from(switch.elements) {
            let [a, b] = EDGES[(lane + n) % EDGES.len()];
            (parts[one].values[lane], parts[other].values[lane]) = (a, b);
        }
        let spot = switch.begin()?;
        let order = switch.any_order();
        switch.sums_to(&order, &spot, &parts)?;
    }
    Ok(())
}

fn cancel(probe: &mut ClauseProbe) -> ProbeResult<()> {
    const TERMS: [i32; 4] = [i32::MAX, 1, -i32::MAX, 1];
    let mut switch = Switch::new(probe)?;
    let workers = switch.workers.len();
    let mut parts = zeros(&switch);
    for lane in 0..usize::from(switch.elements) {
        for (i, term) in TERMS.iter().take(workers).enumerate() {
            parts[(lane + i) % workers].values[lane] = *term;
        }
    }
    for order in orders(switch.probe, workers) {
        let spot = switch.begin()?;
        switch.sums_to(&order, &spot, &parts)?;
    }
    Ok(())
}

/// Returns exponents of workers: arbitrary, all negative, or extreme.
fn exponents(switch: &mut Switch) -> Vec<[i8; 2]> {
    let form = switch.probe.below(3);
    let one = |bits: u32| match form {
        0 => bits as i8,
        1 => (bits as i8) | i8::MIN,
        _ => [i8::MIN, -1, 0, 1, i8::MAX][(bits % 5) as usize],
    };
    (0..switch.workers.len()).map(|_| [one(switch.probe.bits()), one(switch.probe.bits())]).collect()
}

fn exponent(probe: &mut ClauseProbe, which: usize) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let mut parts = switch.parts();
    for (part, own) in parts.iter_mut().zip(exponents(&mut switch)) {
        part.exponents = own;
    }
    let order = switch.any_order();
    switch.send_all(&order, &spot, &parts)?;
    let mut answers = switch.results(&spot)?;
    switch.send(order[0], &spot, &parts[order[0]])?;
    answers.extend(switch.answers()?);
    let Some(largest) = parts.iter().map(|part| part.exponents[which]).max() else {
        return Err(ClauseBreach::stop(spot.to_string(), "workers", "none"));
    };
    answers.iter().try_for_each(|answer| {
        let own = [answer.header.exponent, answer.header.attempt][which];
        same(&spot, ["first exponent", "second exponent"][which], largest, own)
    })
}

/// Checks that contributions are added up if only irrelevant parts were changed.
fn changed(probe: &mut ClauseProbe, change: &dyn Fn(&mut Vec<u8>)) -> ProbeResult<()> {
    let mut switch = Switch::new(probe)?;
    let spot = switch.begin()?;
    let (order, parts) = (switch.any_order(), switch.parts());
    for n in order {
        let worker = switch.workers[n];
        let mut frame = switch.frame(worker, &spot, &parts[n]);
        change(&mut frame);
        switch.probe.send(worker, &frame)?;
    }
    let answers = switch.results(&spot)?;
    has_sums(&answers, &spot, &super::switch::sum(&parts))
}
