//! Reduction along a plan: every message is added up where the plan specifies (SOAR §2; ATRO §III-A; docs/reduce.md).
#![forbid(unsafe_code)]

mod program;

use pktgen_engine::catalogue::System;

/// The system.
pub static SYSTEM: System = System { programs: &[&program::ReduceKind], ..System::new("reduce") };
