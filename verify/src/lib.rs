//! Formal checks of a configuration (OLAF §6, §12.2, §12.3): whether a property holds for every behaviour.
//!
//! A property reads its section of an experiment file, writes a model as SMT-LIB 2 text, and runs a solver as a
//! separate process. Called by the CLI's `verify`. One file per property; [`PROPERTIES`] lists them.
//!
//! Map: [`setup`] reads `[verify]`; [`encode`] writes the model defined in `docs/verify.md`, using `feedback` and
//! [`bounds`]; [`solver`] runs a solver and reads its answer ([`sexpr`]); [`reference`](mod@reference) executes one
//! behaviour exactly; [`candidates`] are behaviours to try first; [`decide`] combines these; [`rate`] searches the
//! maximum rate; [`witness`] writes a behaviour as an experiment.
#![forbid(unsafe_code)]

mod aom_fairness;
pub mod bounds;
pub mod candidates;
pub mod decide;
pub mod encode;
mod feedback;
pub mod rate;
pub mod reference;
pub mod setup;
pub mod sexpr;
pub mod solver;
pub mod witness;

#[cfg(test)]
mod tests;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::registry::Named;

pub use decide::{BehaviourSource, Case, CheckedQuery, FoundBehaviour, Proof};
pub use rate::{Probe, RateReport};
pub use solver::Solver;

/// A property that can be verified.
pub trait Property: Named + Sync {
    /// Reads the experiment without solving anything.
    fn open(&self, document: Document) -> Result<Box<dyn Question>>;
}

/// A property of one configuration, as a list of cases (one per point of the lists in `[verify]`).
pub trait Question {
    /// Returns the name of the experiment.
    fn name(&self) -> &str;
    /// Returns the number of cases.
    fn cases(&self) -> usize;
    /// Returns case `index` as SMT-LIB 2: the model, and each query between `push` and `pop`.
    fn script(&self, index: usize) -> String;
    /// Decides case `index`.
    fn check(&self, index: usize, solver: &Solver) -> Result<Case>;
    /// Returns the maximum update rate for which case `index` holds.
    fn max_rate(&self, index: usize, solver: &Solver, progress: &mut dyn FnMut(&Probe)) -> Result<RateReport>;
}

/// All properties.
pub static PROPERTIES: &[&dyn Property] = &[&aom_fairness::AomFairness];
