//! Addresses on the cable, where a device has its own (docs/device.md).

use pktgen_generator::device::{Addresses, Place, Translator};

use super::End;

/// The addresses of a run, for its wires.
#[derive(Debug, Clone)]
pub struct Outer {
    /// Of the profile, for the run's workers.
    pub addresses: Addresses,
    /// The run's wire format.
    pub format: &'static str,
}

impl Outer {
    /// What exchanges addresses at `end`.
    pub fn translator(&self, end: End) -> Translator {
        let place = match end {
            End::Workers => Place::Workers,
            End::DeviceDown => Place::DeviceDown,
            End::DeviceUp => Place::DeviceUp,
            End::Server => Place::Server,
        };
        Translator::new(&self.addresses, self.format, place)
    }
}
