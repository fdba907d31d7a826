//! The interface of the driver to a device in another process, in virtual time (docs/lockstep.md).
//!
//! The driver is conservative: it passes frames in the order of their times, lets the device advance before any event
//! that an earlier frame of the device could change, and never goes back behind the device's time.

use pktgen_core::Result;
use pktgen_core::time::Time;

/// Progress of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advanced {
    /// All events up to and including this instant are done.
    pub t: Time,
    /// The earliest possible departure without a further frame; [`NEVER`](pktgen_core::time::NEVER) if there is none.
    pub next: Time,
}

/// A device in another process. An error ends the run and describes the device's misbehaviour.
pub trait Remote: Send {
    /// Delivers `frame` at `port`: its last bit arrives at `t`.
    fn frame_in(&mut self, t: Time, port: u16, frame: &[u8]) -> Result<()>;

    /// Advances it up to `until`, but not beyond the first departure; calls `each` with the departing frames: port
    /// and frame.
    fn advance(&mut self, until: Time, each: &mut dyn FnMut(u16, &[u8])) -> Result<Advanced>;

    /// Returns the number of departed frames with a wrong IPv4 or UDP checksum.
    fn checksums_wrong(&self) -> u64;

    /// Ends it; returns its counters.
    fn end(&mut self) -> Result<Vec<(String, u64)>>;
}
