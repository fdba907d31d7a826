//! Requirements for a device that implements OLAF (docs/certify.md): Algorithm 1 rule by rule with strict frames, in
//! the terms of docs/olaf.md.

mod acks;
mod aside;
mod card;
mod load;
mod merging;
mod passing;
mod performance;
mod rules;
#[cfg(test)]
mod tests;

use pktgen_core::time::{SECOND, Time, US};
use pktgen_core::units::Rate;
use pktgen_engine::clause::{Clause, ClauseGroup, ClauseSuite, ProbeGround};

/// The suite.
pub(crate) static SUITE: ClauseSuite = ClauseSuite {
    name: "olaf",
    format: "olaf",
    programs: &[OLAF, "forward"],
    layout: Some("strict"),
    version: 9,
    terms: &[
        ("update", "a packet of a worker with a reward and gradients"),
        ("cluster", "workers whose updates may be merged; the device knows it by the source address"),
        (
            "ahead",
            "two updates of two other clusters that are sent first: one is in transmission, one waits, and all that follows waits behind them",
        ),
        ("waiting", "in the queue towards the server, and not in transmission"),
        ("merged", "an update that stands for several; unmerged: for one"),
        ("offered", "updates that are due by a paced schedule, workers in turn"),
        ("replaced", "a newer update of the worker took its place; lost: it never had a place, or lost it"),
    ],
    groups: &[
        ClauseGroup { title: "Passing", clauses: passing::CLAUSES },
        ClauseGroup { title: "Merging", clauses: merging::CLAUSES },
        ClauseGroup { title: "Replacing and dropping", clauses: rules::CLAUSES },
        ClauseGroup { title: "Acknowledgements", clauses: acks::CLAUSES },
        ClauseGroup { title: "What is no update", clauses: aside::CLAUSES },
        ClauseGroup { title: "Performance", clauses: performance::CLAUSES },
    ],
    before: too_fast,
    refuses: |_| None,
    load: Some(&load::LOAD),
};

/// Common parts of most clauses.
const BASE: Clause = Clause {
    precondition: "a queue that merges (target.queue = \"olaf\"); three clusters, two workers in each; three slots (two if target.slot_in_transmission = false)",
    exempt: |ground| behind(ground, 3, 2),
    observation: "the server's port, until the device is silent; not decidable if what is ahead left before the last frame went in",
    ..Clause::BASE
};

/// Number of updates in a usual stimulus, and the time that a busy host needs to send one.
const STIMULUS: Time = 4;
const SEND: Time = 50 * US;

/// Returns whether the output is too fast for a bench to keep it busy; the two updates ahead must last until the stimulus is sent.
fn too_fast(ground: &ProbeGround) -> Option<String> {
    let (bytes, link) = (card::update_bytes(ground), ground.output.as_ref()?);
    let (one, least) = (ground.busy(bytes)?, STIMULUS * SEND / card::AHEAD as Time);
    if one >= least || said(ground, "target.queue", "").is_some() {
        return None;
    }
    let most = (bytes as i64 * 8 + link.overhead.bits() as i64) * (SECOND / least);
    Some(format!(
        "topology.rate = \"{}\" is too fast for this bench: an update of {bytes} B takes {:.1} µs, and {} µs are needed so that the two ahead \
         last while {STIMULUS} go in; clauses on updates that wait will not be decidable, or only some of their repeats; the device's output and \
         topology.rate should be at most about {}",
        link.rate,
        one as f64 / US as f64,
        least / US,
        Rate::from_bps(most as u64 / 100_000 * 100_000)
    ))
}

/// Value of the program and queue keys that the clauses are about.
const OLAF: &str = "olaf";

/// Returns why a clause on merges does not apply: the device is not declared to merge, or there are too few clusters or workers.
fn merging(ground: &ProbeGround, clusters: usize, workers: usize) -> Option<String> {
    said(ground, "target.queue", "merge updates").or_else(|| few(ground, clusters, workers))
}

/// Returns why a clause on what waits behind the two ahead does not apply: it is none on merges here, or the queue has no slot for a third update.
fn behind(ground: &ProbeGround, clusters: usize, workers: usize) -> Option<String> {
    merging(ground, clusters, workers).or_else(|| cramped(ground, card::AHEAD + 1))
}

/// Returns the declared number of slots.
fn slots(ground: &ProbeGround) -> i64 {
    ground.number("target.slots").unwrap_or(8)
}

/// Returns the number of updates that the device can hold at once, with the one in transmission.
fn places(ground: &ProbeGround) -> usize {
    let slots = usize::try_from(slots(ground)).unwrap_or_default();
    slots.saturating_add(usize::from(!ground.flag("target.slot_in_transmission")))
}

/// Returns why a clause does not apply whose stimulus takes this many places at once; the device drops what has none (Algorithm 1, line 22).
fn cramped(ground: &ProbeGround, needed: usize) -> Option<String> {
    let places = places(ground);
    (places < needed).then(|| {
        let held = ground.flag("target.slot_in_transmission");
        format!(
            "target.slots = {}, target.slot_in_transmission = {held}: the device holds {places} updates at once, and {needed} are needed",
            slots(ground)
        )
    })
}

/// Returns why a clause does not apply whose updates would wait for the device's engine, or be dropped there, instead of in the queue.
fn hasty(ground: &ProbeGround) -> Option<String> {
    let rate = ground.word("target.engine_rate");
    (!rate.is_empty()).then(|| format!("target.engine_rate = {rate}: updates wait for the engine before the queue"))
}

/// Returns why a clause on acknowledgements does not apply.
fn acknowledging(ground: &ProbeGround, clusters: usize, workers: usize) -> Option<String> {
    said(ground, "target.program", "handle acknowledgements").or_else(|| few(ground, clusters, workers))
}

/// Returns that the device is not declared to do this, if the key has another value; an absent key means OLAF.
fn said(ground: &ProbeGround, key: &str, what: &str) -> Option<String> {
    let word = ground.word(key);
    (!word.is_empty() && word != OLAF).then(|| format!("{key} = \"{word}\": the device is not said to {what}"))
}

/// Returns why there are too few clusters or workers.
fn few(ground: &ProbeGround, clusters: usize, workers: usize) -> Option<String> {
    let sizes: Vec<_> = ground.clusters().iter().map(|cluster| ground.members(*cluster).len()).collect();
    let fewest = sizes.iter().min().copied().unwrap_or_default();
    match (sizes.len() < clusters, fewest < workers) {
        (true, _) => Some(format!("the experiment has {} clusters", sizes.len())),
        (_, true) => Some(format!("a cluster has {fewest} workers")),
        _ if ground.server.is_none() => Some("the experiment has no server".into()),
        _ => None,
    }
}
