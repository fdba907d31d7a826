//! What moves frames in a run.

use pktgen_core::topology::Topology;

use crate::dialect::Traffic;
use crate::driver::fates::Faults;
use crate::endpoint::{Declaration, Facts, Receiver, Workers};
use crate::groups::Regroup;
use crate::ledger::Ledger;
use crate::target::device::Device;

/// What moves frames in a run, before a driver takes it.
pub struct Parts {
    /// The network.
    pub topology: Topology,
    /// The devices, by node.
    pub devices: Vec<Option<Device>>,
    /// The workers.
    pub workers: Box<dyn Workers>,
    /// What is known of them.
    pub declared: Declaration,
    /// The server.
    pub receiver: Receiver,
    /// The account.
    pub ledger: Ledger,
    /// Most gradients of an update.
    pub elements: usize,
    /// Bytes of the largest frame, ACKs included.
    pub frame_bytes: usize,
    /// What the control plane does.
    pub changes: Vec<Regroup>,
    /// What hosts and devices know.
    pub facts: Facts,
    /// What happens to frames on links, in virtual time.
    pub faults: Option<Faults>,
}

impl Parts {
    /// Who sends, and what: for what stands around wires.
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
