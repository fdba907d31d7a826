//! Virtual time: the discrete-event driver moves frames; see [`crate::driver`].

use pktgen_core::registry::Named;
use pktgen_core::{Error, Result};

use super::{Capabilities, End, Ports, Transport, TransportPlan};

/// `kind = "virtual"`.
pub(crate) struct VirtualTime;

impl Named for VirtualTime {
    fn name(&self) -> &'static str {
        "virtual"
    }
    fn about(&self) -> &'static str {
        "a discrete-event simulation in this process, bit-identical per seed and build"
    }
}

impl Transport for VirtualTime {
    fn capabilities(&self) -> Capabilities {
        Capabilities { real_time: false, stamps_received: true, zero_copy: true, heads: false, ..Capabilities::CABLES }
    }

    fn open(&self, _plan: &TransportPlan, _ends: &[End], _frame_max: usize) -> Result<Vec<Ports>> {
        Err(Error::config("transport.kind = \"virtual\" has no wires: the driver carries frames"))
    }
}
