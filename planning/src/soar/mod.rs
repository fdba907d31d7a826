//! SOAR: selects k aggregating switches of a tree with minimum network utilisation φ (SOAR §4, §6; `docs/soar.md`).
//!
//! [`gather`](mod@gather) solves the problem exactly, [`printed`] in the paper's own steps, [`strategy`] has strategies
//! for comparison, [`online`] several consecutive workloads, [`loads`] draws the loads of leaves, [`bytes`] the sizes
//! of messages, and [`study`] reproduces the figures.

pub mod bytes;
pub mod gather;
pub mod loads;
pub mod online;
pub mod printed;
pub mod strategy;
pub mod study;
#[cfg(test)]
mod tests;

use pktgen_core::registry::Named;
use pktgen_core::tree::Tree;
use pktgen_workload::study::Study;

use super::Placer;

/// The placer.
pub struct Soar;

impl Named for Soar {
    fn name(&self) -> &'static str {
        "soar"
    }
    fn about(&self) -> &'static str {
        "placement of k aggregating switches in a tree with the least total time of messages on all links (SOAR, exact)"
    }
}

impl Placer for Soar {
    fn study(&self) -> &'static dyn Study {
        &study::SoarStudy
    }
}

/// A set of aggregating switches, and its cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// By switch.
    pub blue: Vec<bool>,
    /// The network utilisation (SOAR §2, equation 1).
    pub phi: f64,
}

impl Placement {
    /// Computes the cost of a placement.
    pub fn of(tree: &Tree, blue: Vec<bool>) -> Self {
        Placement { phi: tree.phi(&blue), blue }
    }

    /// Returns the switches that aggregate.
    pub fn switches(&self) -> impl Iterator<Item = u32> + '_ {
        self.blue.iter().enumerate().filter(|(_, blue)| **blue).map(|(v, _)| v as u32)
    }

    /// Returns their ids in ascending order.
    pub fn ids(&self, tree: &Tree) -> Vec<u64> {
        let mut ids: Vec<_> = self.switches().map(|v| tree.id(v)).collect();
        ids.sort_unstable();
        ids
    }
}

/// The reason for selecting a switch: the best placement without it.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The id of a switch that aggregates.
    pub id: u64,
    /// The best placement in which it does not.
    pub without: Placement,
}

impl Alternative {
    /// Returns how much more it costs than the exact placement `best`; 0 for sums that only rounding makes unequal.
    pub fn more(&self, best: &Placement) -> f64 {
        let more = self.without.phi - best.phi;
        if more > gather::TIE * best.phi { more } else { 0.0 }
    }
}

/// Returns for each switch of an exact placement the best placement without it (one more solution each).
pub fn explain(
    tree: &Tree,
    k: usize,
    placement: &Placement,
    mut progress: impl FnMut(),
) -> Result<Vec<Alternative>, String> {
    let mut alternatives = Vec::new();
    for v in placement.switches() {
        let mut available: Vec<_> = (0..tree.len() as u32).map(|v| tree.is_available(v)).collect();
        available[v as usize] = false;
        let without = gather::solve(&tree.with_available(available), k, gather::MEMORY)?;
        alternatives.push(Alternative { id: tree.id(v), without });
        progress();
    }
    Ok(alternatives)
}
