//! What moves frames in a run.

use pktgen_generator::topology::Topology;

use crate::endpoint::{Endpoint, Facts};
use crate::groups::Regroup;
use crate::ledger::Ledger;
use crate::target::device::Device;
use crate::transport::middleware::{Faults, Traffic};

/// What moves frames in a run, before a driver takes it.
pub struct Parts {
    /// The network.
    pub topology: Topology,
    /// The devices, by node.
    pub devices: Vec<Option<Device>>,
    /// The workers.
    pub senders: Box<dyn Endpoint>,
    /// The server.
    pub receiver: Box<dyn Endpoint>,
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
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            workers: self.facts.workers.clone(),
            format: self.facts.kind.format(),
            packets: self.senders.packets(),
            window: self.senders.training().map_or(0, |training| training.window),
            plain: !self.senders.reacts() && self.facts.flows.is_none(),
        }
    }
}
