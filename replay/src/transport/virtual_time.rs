//! Virtual time: the discrete-event driver moves frames; see [`crate::driver`].

use pktgen_generator::registry::Named;
use pktgen_generator::wire::frame::FRAME_MAX;

use super::Transport;

/// `kind = "virtual"`.
pub struct VirtualTime;

impl Named for VirtualTime {
    fn name(&self) -> &'static str {
        "virtual"
    }
    fn about(&self) -> &'static str {
        "a discrete-event simulation in this process, bit-identical per seed and build"
    }
}

impl Transport for VirtualTime {
    fn frame_max(&self) -> usize {
        FRAME_MAX
    }
}
