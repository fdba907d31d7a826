//! Libra: sums of sparse gradients by key, with hot ones in a switch and cold ones at parameter servers (LIBRA §3).
//!
//! [`program`] is the switch, `workers` the hosts and servers; PS-lite is the same without the switch. docs/libra.md
//! explains what the paper specifies and what is our choice.
#![forbid(unsafe_code)]

mod clauses;
pub mod format;
mod plan;
pub mod program;
mod workers;

use pktgen_engine::catalogue::System;

/// The system.
pub static SYSTEM: System = System {
    formats: &[&format::Libra],
    planners: &[&plan::Libra],
    workers: &[&workers::LibraKind, &workers::PsLiteKind],
    programs: &[&program::LibraKind],
    suites: &[&clauses::SUITE],
    ..System::new("libra")
};
