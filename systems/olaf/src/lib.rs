//! OLAF: opportunistic aggregation of updates that wait for the same link (OLAF §4 to §7).
//!
//! [`queue`] is its queue, [`program`] the rest of its card, [`workers`] its transmission control, and [`dialect`] its frames as
//! published, without this project's header. docs/olaf.md explains what the paper specifies and what is our choice.
#![forbid(unsafe_code)]

mod clauses;
mod dialect;
pub mod format;
mod plan;
mod program;
pub mod queue;
pub mod strict;
mod workers;

use pktgen_engine::catalogue::System;

/// The system.
pub static SYSTEM: System = System {
    formats: &[&format::Olaf, &strict::OlafStrict],
    planners: &[&plan::Olaf],
    workers: &[&workers::TransmissionControlKind],
    programs: &[&program::OlafKind],
    queues: &[&queue::OlafDiscipline],
    dialects: &[&dialect::KIND],
    suites: &[&clauses::SUITE],
    ..System::new("olaf")
};
