//! Bytes on the wire: formats, files of captures, profiles of devices.
//!
//! This crate says how packets are laid out and what their headers mean, over the vocabulary of [`pktgen_core`]. It never opens a
//! socket, reads a clock, starts a thread or uses `unsafe`, and knows no workload.
//!
//! Map: [`wire`] has the formats, what all share, and layouts as data; [`pcap`] reads and writes captures; [`device`] has
//! profiles of hardware, and configurations of control planes.
#![forbid(unsafe_code)]

pub mod device;
pub mod pcap;
pub mod wire;

use pktgen_core::{Error, Result, config, record, registry, regular, time, topology, units};
