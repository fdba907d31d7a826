//! Requirements for a switch that implements Libra (docs/certify.md): clauses over hot packets of synchronous training,
//! in the terms of docs/libra.md.

mod acks;
#[cfg(test)]
mod naive;
mod refused;
mod repeated;
mod results;
mod sums;
mod switch;
#[cfg(test)]
mod tests;

use pktgen_core::config::Value;
use pktgen_core::time::{MS, SECOND, Time, US};
use pktgen_core::units::Span;
use pktgen_engine::clause::{Clause, ClauseGroup, ClauseSuite, ProbeGround};
use pktgen_wire::wire::frame::HEAD;

use crate::format::{HEADER, HOT_FRAME_MAX, RESULT_PAIRS};

/// The suite.
pub(crate) static SUITE: ClauseSuite = ClauseSuite {
    name: "libra",
    format: "libra",
    programs: &[],
    layout: None,
    version: 5,
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
    refuses: far_workers,
    load: None,
};

/// Common parts of most clauses.
const BASE: Clause = Clause {
    precondition: "synchronous training of three iterations or more with 66 hot parameters or more",
    exempt: unfit,
    ..Clause::BASE
};

/// Number of iterations of a clause.
const ITERATIONS: i64 = 3;

/// Number of hot parameters of a clause.
const HOT_LEAST: u32 = switch::PARAMETERS + 2;

/// Returns why clauses do not apply to an experiment.
fn unfit(ground: &ProbeGround) -> Option<String> {
    if ground.word("endpoint.mode") == "async" {
        return Some("asynchronous training has no results".to_owned());
    }
    let listed = matches!(ground.keys.get("topology.server"), Some(Value::List(names)) if names.len() > 1);
    if listed || ground.number("topology.servers").is_some_and(|servers| servers > 1) {
        return Some("several parameter servers: clauses number packets as for one".to_owned());
    }
    if let Some(iterations) = ground.number("workload.iterations").filter(|iterations| *iterations < ITERATIONS) {
        return Some(format!("workload.iterations = {iterations}: clauses take up to {ITERATIONS}"));
    }
    let hot = ground.hot.filter(|hot| *hot < HOT_LEAST)?;
    Some(format!("{hot} hot parameters (workload.hot, workload.scale): clauses push up to {HOT_LEAST}"))
}

/// A timeout on wires within which a host may not acknowledge results.
const SHORT: Time = 20 * MS;

/// Returns a note if results are sent again before a host may be able to acknowledge.
fn short_timeout(ground: &ProbeGround) -> Option<String> {
    let timeout = Some(switch::result_timeout(ground)).filter(|timeout| ground.patience > 0 && *timeout < SHORT)?;
    Some(format!(
        "target.result_timeout = {}: a host may be late for longer, and then results come again although they arrived; with {} or more \
         that is rare, if the device has the same timeout",
        Span::from_ps(timeout),
        Span::from_ps(SHORT)
    ))
}

/// `target.result_timeout` over the time of results on links with which all clauses can be decided: clauses look every eighth of it, and
/// `libra-result-resent` needs acks within half of it.
const TIMES: Time = 5;

/// Returns the time in which results of a clause, and the ack of an end before them, come to workers by the links; 0 if frames are observed
/// at the device.
fn on_links(ground: &ProbeGround) -> Time {
    let mut lengths = vec![HOT_FRAME_MAX; (switch::PARAMETERS as usize).div_ceil(RESULT_PAIRS)];
    lengths.push(HEAD + HEADER);
    ground.to_workers(&lengths)
}

/// Returns the remedy for links on which results take this long.
fn remedy(takes: Time) -> String {
    let fits = rounded(takes.saturating_mul(TIMES));
    // The maximum of the setting.
    let longer =
        if fits.ps() > SECOND { String::new() } else { format!("raise target.result_timeout to {fits} or more, ") };
    format!("{longer}lower topology.delay, or use faster links to workers")
}

/// Returns a time in whole µs, not less.
fn rounded(time: Time) -> Span {
    Span::from_ps(time.saturating_add(US - 1) / US * US)
}

/// Returns why clauses miss results in virtual time: these come after the last look for them.
fn far_workers(ground: &ProbeGround) -> Option<String> {
    let timeout = switch::result_timeout(ground);
    let (takes, looks) = (on_links(ground), switch::looks_for(timeout));
    if takes <= looks || unfit(ground).is_some() {
        return None;
    }
    Some(format!(
        "target.result_timeout = {}: results take {} to their workers by the delays and rates of the topology's links, and clauses look for \
         them for {}, five eighths of the timeout; {}",
        Span::from_ps(timeout),
        rounded(takes),
        Span::from_ps(looks),
        remedy(takes)
    ))
}

/// Returns the remedy if results take so long on links that `libra-result-resent` cannot be decided with this timeout.
fn slow_links(ground: &ProbeGround) -> Option<String> {
    let takes = on_links(ground);
    (takes.saturating_mul(TIMES) > switch::result_timeout(ground)).then(|| remedy(takes))
}
