//! WHAT is sent and WHEN.
//!
//! This crate knows wire formats, traces, workloads and schedules, over the vocabulary of [`pktgen_core`] and the formats of [`pktgen_wire`], whose
//! modules are found here too. It never opens a socket, reads a clock, starts a thread or uses `unsafe`: time and randomness are arguments.
//!
//! Map: [`control`] is OLAF's transmission control; [`wire`] turns updates into bytes;
//! [`workload`] says what is sent, [`schedule`] when; [`lanes`] are gradients that say which updates a packet holds; [`dense`] is the workload of synchronous training; [`learner`] has agents that learn in the loop; [`trace`] keeps both in files; [`pcap`] reads and writes
//! captures; [`device`] has profiles of hardware; [`study`] lists what is measured without a network.
#![forbid(unsafe_code)]

pub mod control;
pub mod dense;
pub mod gradient;
pub mod lanes;
pub mod learner;
pub mod schedule;
pub mod sparse;
pub mod study;
pub mod trace;
pub mod training;
pub mod workload;

pub use pktgen_core::{
    Error, Result, age, arrow, column, config, definition, error, footer, index, plan, printable, quiet, record,
    registry, regular, rows, seed, shard, time, topology, tree, units, whole,
};
pub use pktgen_wire::{device, pcap, wire};
