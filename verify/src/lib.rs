//! Formal checks of a configuration (OLAF §6, §12.2, §12.3): does a property hold for every behaviour?
//!
//! A property reads its section of an experiment file, writes a model as SMT-LIB 2 text, and has a solver, another
//! process, answer. Called by the CLI's `verify`. One file per property; [`PROPERTIES`] lists them.
//!
//! Map: [`setup`] reads `[verify]`; [`encode`] writes the model that `docs/verify.md` defines, with what `feedback` and [`bounds`]
//! knows beforehand; [`solver`] runs a solver and reads its answer ([`sexpr`]); [`reference`](mod@reference) executes one
//! behaviour exactly; [`candidates`] are behaviours worth a try; [`decide`] puts them together; [`rate`] searches the
//! largest rate; [`witness`] writes a behaviour as an experiment.
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
    /// Reads the experiment; nothing is solved yet.
    fn open(&self, document: Document) -> Result<Box<dyn Question>>;
}

/// A property of one configuration, as a list of cases (one per point of the lists in `[verify]`).
pub trait Question {
    /// Name of the experiment.
    fn name(&self) -> &str;
    /// How many cases there are.
    fn cases(&self) -> usize;
    /// Case `index` as SMT-LIB 2: the model, and each query between `push` and `pop`.
    fn script(&self, index: usize) -> String;
    /// Decides case `index`.
    fn check(&self, index: usize, solver: &Solver) -> Result<Case>;
    /// The largest update rate for which case `index` holds.
    fn max_rate(&self, index: usize, solver: &Solver, progress: &mut dyn FnMut(&Probe)) -> Result<RateReport>;
}

/// Every property, by name.
pub static PROPERTIES: &[&dyn Property] = &[&aom_fairness::AomFairness];
