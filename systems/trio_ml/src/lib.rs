//! Trio-ML: synchronous aggregation in a router's packet processors (TRIO §4 to §6).
//!
//! [`program`] is what the router does, `chip` how long it takes, `workers` what hosts do. docs/trio.md says what the paper says and
//! what is chosen here.
#![forbid(unsafe_code)]

mod chip;
mod dialect;
pub mod program;
mod workers;

use pktgen_engine::catalogue::System;
use pktgen_generator::device::plan;
use pktgen_generator::wire;

/// The system.
pub static SYSTEM: System = System {
    formats: &[&wire::trio_ml::TrioMl],
    planners: &[&plan::trio_ml::TrioMl],
    workers: &[&workers::TrioMlKind],
    programs: &[&program::TrioMlKind],
    dialects: &[&dialect::KIND],
    ..System::new("trio_ml")
};
