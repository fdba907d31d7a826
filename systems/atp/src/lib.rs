//! ATP: its packets; it has no run yet.
#![forbid(unsafe_code)]

use pktgen_engine::catalogue::System;
use pktgen_generator::wire;

/// The system.
pub static SYSTEM: System = System { formats: &[&wire::atp_ml::AtpMl], ..System::new("atp") };
