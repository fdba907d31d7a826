//! Wirings where switches differ in ports, or links in rates (docs/atro.md).
//!
//! No closed form holds there. An upper bound is proved, a construction and a local search look for a wiring that meets it,
//! and where none is found an exhaustive search, or a solver, settles what lies between.

mod bound;
mod build;
mod graph;
mod improve;
mod plan;
mod search;
#[cfg(test)]
mod tests;

pub(super) use plan::construct;
pub use plan::{SolverAsk, wire_inventory};
