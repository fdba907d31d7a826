//! Trio-ML: synchronous aggregation in a router's packet processors (TRIO §4 to §6).
//!
//! [`program`] is the router, `chip` its processing time, `workers` the hosts. docs/trio.md explains what the paper
//! specifies and what is our choice.
#![forbid(unsafe_code)]

mod chip;
mod clauses;
mod dialect;
pub mod format;
mod plan;
pub mod program;
mod workers;

use pktgen_engine::catalogue::System;

/// The system.
pub static SYSTEM: System = System {
    formats: &[&format::TrioMl],
    planners: &[&plan::TrioMl],
    workers: &[&workers::TrioMlKind],
    programs: &[&program::TrioMlKind],
    dialects: &[&dialect::KIND],
    suites: &[&clauses::SUITE],
    ..System::new("trio_ml")
};
