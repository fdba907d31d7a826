//! SwitchML: synchronous aggregation in the slots of a programmable switch, over UDP and RoCEv2.
//!
//! [`program`] is the switch, `workers` the hosts, and `dialect` the frames of the public client. docs/switchml.md
//! explains what is published and what is our choice.
#![forbid(unsafe_code)]

mod clauses;
mod dialect;
pub mod format;
mod plan;
pub mod program;
pub mod roce;
mod workers;

use pktgen_engine::catalogue::System;

/// The system.
pub static SYSTEM: System = System {
    formats: &[&format::SwitchMl, &roce::SwitchMlRoce],
    planners: &[&plan::SwitchMl],
    workers: &[&workers::SwitchMlKind],
    programs: &[&program::SwitchMlKind],
    dialects: &[&dialect::KIND, &dialect::roce::KIND],
    suites: &[&clauses::SUITE],
    ..System::new("switchml")
};
