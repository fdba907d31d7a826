//! The list of all systems.
#![forbid(unsafe_code)]

pub use pktgen_engine::systems::all;
