//! The moving parts of a run.

use pktgen_core::topology::Topology;

use crate::dialect::Traffic;
use crate::driver::fates::Faults;
use crate::endpoint::{Declaration, Facts, Receiver, Workers};
use crate::groups::Regroup;
use crate::ledger::Ledger;
use crate::target::device::Device;

/// The parts that move frames in a run, before a driver takes them.
pub struct Parts {
    /// The network.
    pub topology: Topology,
    /// The devices, by node.
    pub devices: Vec<Option<Device>>,
    /// The workers.
    pub workers: Box<dyn Workers>,
    /// Properties of the workers.
    pub declared: Declaration,
    /// The server.
    pub receiver: Receiver,
    /// The account.
    pub ledger: Ledger,
    /// Maximum number of gradients of an update.
    pub elements: usize,
    /// Bytes of the largest frame, ACKs included.
    pub frame_bytes: usize,
    /// Events of the control plane.
    pub changes: Vec<Regroup>,
    /// The knowledge of hosts and devices.
    pub facts: Facts,
    /// Faults of links, in virtual time.
    pub faults: Option<Faults>,
}

impl Parts {
    /// Returns the senders and their traffic, for components around wires.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            workers: self.facts.workers.clone(),
            format: self.facts.protocol.format,
            packets: self.declared.packets,
            window: self.declared.training.as_ref().map_or(0, |training| training.window),
            plain: !self.declared.reacts && self.facts.flows.is_none(),
        }
    }
}
