//! Drivers: they carry frames between endpoints, devices and links over time.
//!
//! `virtual_time` is the engine's discrete-event simulation; [`real_time`] runs the same programs, queues and endpoints as
//! threads on wires.

pub mod real_time;

pub(crate) use pktgen_engine::driver::{admit, virtual_time};
