//! WHAT is sent and WHEN.
//!
//! This crate knows units, seeds, experiment files, the record schema, topologies, wire formats,
//! traces, workloads and schedules. It never opens a socket, reads a clock, starts a thread or uses
//! `unsafe`: time and randomness are arguments.
//!
//! Map: [`units`] and [`time`] are the vocabulary; [`config`] reads experiment files; [`record`]
//! says what a run leaves behind; [`control`] is OLAF's transmission control; [`topology`] wires devices; [`wire`] turns updates into bytes;
//! [`workload`] says what is sent, [`schedule`] when; [`lanes`] are gradients that say which updates a packet holds; [`dense`] is the workload of synchronous training; [`learner`] has agents that learn in the loop; [`trace`] keeps both in files; [`pcap`] reads and writes
//! captures; [`arrow`] is what of arrow-rs is called; [`footer`] looks at Parquet files before decoders do; [`whole`] writes files that are whole or not there, [`regular`] refuses input without an end; [`age`] is the Age-of-Model accumulator; [`definition`] and
//! [`column`] say what numbers and columns mean; [`device`] has profiles of hardware; [`printable`] takes control characters out of text.
#![forbid(unsafe_code)]

pub mod age;
pub mod arrow;
pub mod column;
pub mod config;
pub mod control;
pub mod definition;
pub mod dense;
pub mod device;
pub mod error;
pub mod footer;
pub mod gradient;
pub mod index;
pub mod lanes;
pub mod learner;
pub mod pcap;
pub mod plan;
pub mod printable;
pub mod quiet;
pub mod record;
pub mod registry;
pub mod regular;
pub mod schedule;
pub mod seed;
pub mod shard;
pub mod sparse;
pub mod study;
pub mod time;
pub mod topology;
pub mod trace;
pub mod training;
pub mod tree;
pub mod units;
pub mod whole;
pub mod wire;
pub mod workload;

pub use error::{Error, Result};
