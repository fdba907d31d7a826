//! What a switch that speaks Libra must do (docs/certify.md): clauses over hot packets of synchronous training, in docs/libra.md's words.

mod acks;
mod refused;
mod repeated;
mod results;
mod sums;
mod switch;
#[cfg(test)]
mod tests;

use pktgen_core::time::{MS, Time};
use pktgen_core::units::Span;
use pktgen_engine::clause::{Clause, ClauseGroup, ClauseSuite, ProbeGround};

/// The suite.
pub(crate) static SUITE: ClauseSuite = ClauseSuite {
    name: "libra",
    format: "libra",
    layout: None,
    version: 1,
    terms: &[
        ("push", "a packet of a worker with hot pairs: index and gradient"),
        ("end", "a packet by which a worker says that all its pushes of the iteration were acknowledged"),
        ("ack", "the device's answer to a push or an end"),
        ("result", "a packet of the device with sums of an iteration, one of its parts"),
        ("number", "the sequence number of a packet; those of hot packets are even, and go up by 2"),
        ("resent", "sent again with the same number, another attempt and the resent bit"),
    ],
    groups: &[
        ClauseGroup { title: "Sums", clauses: sums::CLAUSES },
        ClauseGroup { title: "Acknowledgements", clauses: acks::CLAUSES },
        ClauseGroup { title: "Repeated and late packets", clauses: repeated::CLAUSES },
        ClauseGroup { title: "Results", clauses: results::CLAUSES },
        ClauseGroup { title: "What takes part in no sum", clauses: refused::CLAUSES },
    ],
    before: short_timeout,
    load: None,
};

/// What most clauses have in common.
const BASE: Clause = Clause {
    id: "",
    title: "",
    rule: "",
    precondition: "synchronous training of three iterations or more",
    exempt: unfit,
    stimulus: "",
    observation: "all ports, until the device is silent",
    oracle: "",
    repeats: 5,
    error: "a device that is a function of its frames is judged without error",
    probe: |_| Ok(()),
    measure: None,
};

/// Iterations of a clause.
const ITERATIONS: i64 = 3;

/// Why clauses do not apply to an experiment at all.
fn unfit(ground: &ProbeGround) -> Option<String> {
    if ground.word("endpoint.mode") == "async" {
        return Some("asynchronous training has no results".to_owned());
    }
    let iterations = ground.number("workload.iterations").filter(|iterations| *iterations < ITERATIONS)?;
    Some(format!("workload.iterations = {iterations}: clauses take up to {ITERATIONS}"))
}

/// A timeout on wires within which a host may not acknowledge results.
const SHORT: Time = 20 * MS;

/// What is to be known where results are sent again sooner than a host can be late.
fn short_timeout(ground: &ProbeGround) -> Option<String> {
    let timeout = Some(switch::result_timeout(ground)).filter(|timeout| ground.patience > 0 && *timeout < SHORT)?;
    Some(format!(
        "target.result_timeout = {}: a host may be late for longer, and then results come again although they arrived; with {} or more \
         that is rare, if the device has the same timeout",
        Span::from_ps(timeout),
        Span::from_ps(SHORT)
    ))
}
