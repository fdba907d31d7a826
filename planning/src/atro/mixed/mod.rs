//! Wirings of switches with different ports, or links with different rates (docs/atro.md).
//!
//! There is no closed form. An upper bound is proved, a construction and a local search try to reach it, and if they
//! fail, an exhaustive search or a solver decides the remaining range.

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
