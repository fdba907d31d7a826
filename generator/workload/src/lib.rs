//! WHAT is sent and WHEN.
//!
//! This crate knows workloads, schedules and traces, over the vocabulary of [`pktgen_core`] and the bytes of [`pktgen_wire`]. It never
//! opens a socket, reads a clock, starts a thread or uses `unsafe`: time and randomness are arguments.
//!
//! Map: [`workload`] says what is sent, [`schedule`] when; [`trace`] keeps both in files; [`lanes`] are gradients that say which
//! updates a packet holds; [`dense`] and [`sparse`] are synchronous training; [`learner`] has agents that learn in the loop;
//! [`control`] is the rule of OLAF's transmission control; [`addition`] bounds the error of sums of floats; [`study`] lists what
//! is measured without a network.
#![forbid(unsafe_code)]

pub mod addition;
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

use pktgen_core::{
    Error, Result, arrow, column, config, definition, footer, index, prefetch, quiet, record, registry, regular, seed,
    shard, time, topology, units, whole,
};
use pktgen_wire::{pcap, wire};
