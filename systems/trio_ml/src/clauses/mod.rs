//! Requirements for a device that implements Trio-ML (docs/certify.md): clauses over the packets of Figures 7 and 8, in
//! the terms of docs/trio.md.

mod blocks;
mod refused;
mod results;
mod router;
mod stragglers;
mod sums;
#[cfg(test)]
mod tests;

use pktgen_core::time::{MS, Time};
use pktgen_core::units::Span;
use pktgen_engine::clause::{ClauseGroup, ClauseSuite, ProbeGround};

/// The suite.
pub(crate) static SUITE: ClauseSuite = ClauseSuite {
    name: "trio_ml",
    format: "trio_ml",
    programs: &[],
    layout: None,
    version: 9,
    terms: &[
        ("contribution", "a packet of a worker with its gradients of one block"),
        ("result", "a packet of the device with the sum of a block; partial: of some of the workers"),
        ("block", "a part of the model that fits a packet; block and generation, the iteration, name a sum"),
        ("under way", "a sum to which some, but not all workers have contributed"),
        ("timeout", "target.timeout; a block that no packet touched for as long ages (§5)"),
        (
            "frame",
            "what leaves the device, but for notifications of stragglers with target.mitigation = true (§5, docs/trio.md)",
        ),
    ],
    groups: &[
        ClauseGroup { title: "Sums", clauses: sums::CLAUSES },
        ClauseGroup { title: "Results", clauses: results::CLAUSES },
        ClauseGroup { title: "Blocks, generations and jobs", clauses: blocks::CLAUSES },
        ClauseGroup { title: "Stragglers", clauses: stragglers::CLAUSES },
        ClauseGroup { title: "What takes part in no sum", clauses: refused::CLAUSES },
    ],
    before: short_timeout,
    refuses: |_| None,
    load: None,
};

/// A timeout on wires within which a bench on a busy host may not deliver a block's contributions.
const SHORT: Time = 100 * MS;

/// Returns a note if blocks time out before a host may be able to send.
fn short_timeout(ground: &ProbeGround) -> Option<String> {
    let timeout = router::timeout(ground).filter(|timeout| ground.patience > 0 && *timeout < SHORT)?;
    Some(format!(
        "target.timeout = {}: a host may be late for longer, and clauses are not decidable where it was; with {} or more they \
         are, if the device has the same timeout",
        Span::from_ps(timeout),
        Span::from_ps(2 * SHORT)
    ))
}
