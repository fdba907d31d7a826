//! The components shared by all systems: updates that are sent, forwarded and received one by one.

use pktgen_wire::device::plan;

use crate::catalogue::System;
use crate::endpoint::{learner, open_loop, raw, retransmit};
use crate::target::{program, queue};

/// These components as a system.
pub static SYSTEM: System = System {
    planners: &[&plan::generic::Generic],
    workers: &[&open_loop::OpenLoopKind, &retransmit::RetransmitKind, &learner::LearnerKind, &raw::RawKind],
    programs: &[&program::forward::ForwardKind],
    queues: &[&queue::fifo::FifoDiscipline],
    ..System::new("plain")
};
