//! ATP: best-effort synchronous aggregation in switches: the parameter server adds up packets whose aggregator is taken.
//!
//! [`program`] is the switch, `workers` the hosts, `server` the parameter server, `hash` assigns aggregators to
//! packets, and `queue` marks congestion. docs/atp.md explains what is public and what is our choice.
#![forbid(unsafe_code)]

pub mod format;
mod hash;
mod keys;
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
