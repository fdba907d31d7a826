//! Reduction along a plan: every message is summed where the plan says (SOAR §2; ATRO §III-A; docs/reduce.md).
#![forbid(unsafe_code)]

mod program;

use pktgen_engine::catalogue::System;

/// The system.
pub static SYSTEM: System = System { programs: &[&program::ReduceKind], ..System::new("reduce") };
