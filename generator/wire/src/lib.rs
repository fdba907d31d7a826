//! Bytes on the wire: formats, capture files, profiles of devices.
//!
//! This crate defines the layout of packets and the meaning of their headers, in terms of [`pktgen_core`]. It never opens a
//! socket, reads a clock, starts a thread or uses `unsafe`, and knows no workload.
//!
//! Map: [`wire`] has the formats, their common parts, and layouts as data; [`pcap`] reads and writes captures; [`device`] has
//! profiles of hardware, and configurations of control planes.
#![forbid(unsafe_code)]

pub mod device;
pub mod pcap;
pub mod wire;

use pktgen_core::{Error, Result, config, record, registry, regular, time, topology, units};
