//! ATP: synchronous aggregation in switches, best effort: what finds its aggregator taken is summed by the parameter server.
//!
//! [`program`] is what the switch does, `workers` what hosts do, `server` what the parameter server does, `hash` where packets find
//! their aggregators, `queue` how the switch marks congestion. docs/atp.md says what is public and what is chosen here.
#![forbid(unsafe_code)]

pub mod format;
mod hash;
mod program;
mod queue;
#[cfg(test)]
mod rig;
mod server;
mod workers;

use pktgen_engine::catalogue::System;

/// The system.
pub static SYSTEM: System = System {
    formats: &[&format::AtpMl, &format::AtpUdp],
    workers: &[&workers::AtpKind],
    programs: &[&program::AtpKind],
    queues: &[&queue::AtpQueue],
    ..System::new("atp")
};
