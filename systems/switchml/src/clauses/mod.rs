//! Requirements for a device that implements SwitchML (docs/certify.md): clauses over the packets of the public client,
//! in the terms of docs/switchml.md.

mod load;
mod performance;
mod refused;
mod repeated;
mod results;
mod slots;
mod sums;
mod switch;
#[cfg(test)]
mod tests;

use pktgen_engine::clause::{ClauseGroup, ClauseSuite};

/// The suite.
pub(crate) static SUITE: ClauseSuite = ClauseSuite {
    name: "switchml",
    format: "switchml",
    programs: &[],
    layout: None,
    version: 8,
    terms: &[
        ("contribution", "a packet of a worker with its values for one sum"),
        ("result", "a packet of the device with the sum of all workers of a job"),
        ("slot, set", "where a sum is made; every slot has two sets, used in turn"),
        ("round", "one use of a slot: all workers contribute, the result goes to all"),
        ("under way", "a sum to which some, but not all workers have contributed"),
        (
            "offered",
            "contributions that are due by a paced schedule: each worker's in order, workers in turn; a worker sends one no sooner than it has the result one window before",
        ),
        (
            "forwarded",
            "contributions in right results that every worker of the job had when the trial was over and its wait; all others are lost, unsent ones and those in wrong sums, too",
        ),
        ("window", "slots that are used at once: all of the pool"),
    ],
    groups: &[
        ClauseGroup { title: "Sums", clauses: sums::CLAUSES },
        ClauseGroup { title: "Results", clauses: results::CLAUSES },
        ClauseGroup { title: "Repeated contributions", clauses: repeated::CLAUSES },
        ClauseGroup { title: "Slots and sets", clauses: slots::CLAUSES },
        ClauseGroup { title: "What takes part in no sum", clauses: refused::CLAUSES },
        ClauseGroup { title: "Performance", clauses: performance::CLAUSES },
    ],
    before: |_| None,
    refuses: |_| None,
    load: Some(&load::LOAD),
};
