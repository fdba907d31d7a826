//! ATP: its packets; it has no run yet.
#![forbid(unsafe_code)]

pub mod format;

use pktgen_engine::catalogue::System;

/// The system.
pub static SYSTEM: System = System { formats: &[&format::AtpMl], ..System::new("atp") };
