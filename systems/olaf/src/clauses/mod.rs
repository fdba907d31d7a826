//! What a device that speaks OLAF must do (docs/certify.md): Algorithm 1 rule by rule, over strict frames, in docs/olaf.md's words.

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

use pktgen_engine::clause::{Clause, ClauseGroup, ClauseSuite, ProbeGround};

/// The suite.
pub(crate) static SUITE: ClauseSuite = ClauseSuite {
    name: "olaf",
    format: "olaf",
    layout: Some("strict"),
    version: 2,
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
    load: &load::LOAD,
};

/// What most clauses have in common.
const BASE: Clause = Clause {
    id: "",
    title: "",
    rule: "",
    precondition: "three clusters, two workers in each",
    exempt: |ground| few(ground, 3, 2),
    stimulus: "",
    observation: "the server's port, until the device is silent; not decidable if what is ahead left before the last frame went in",
    oracle: "",
    repeats: 5,
    error: "a device that is a function of its frames is judged without error",
    probe: |_| Ok(()),
    measure: None,
};

/// Why there are too few clusters or workers.
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
