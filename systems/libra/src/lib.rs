//! Libra: sums of sparse gradients by key, hot ones in a switch and cold ones at parameter servers (LIBRA §3).
//!
//! [`program`] is what the switch does, `workers` what hosts and servers do; PS-lite is the same without the switch. docs/libra.md says
//! what the paper says and what is chosen here.
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
