//! Aggregation on the fly with a threshold, for asynchronous reinforcement learning (docs/iswitch.md).
#![forbid(unsafe_code)]

mod program;

use pktgen_engine::catalogue::System;

/// The system.
pub static SYSTEM: System = System { programs: &[&program::IswitchKind], ..System::new("iswitch") };
