//! A device that another process is, in virtual time (docs/lockstep.md): what the driver asks of it.
//!
//! The driver is conservative: it hands over frames in the order of their times, asks the device to advance before
//! anything happens that an earlier frame of the device could change, and never goes back behind what the device has reached.

use pktgen_core::Result;
use pktgen_core::time::Time;

/// How far a device has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advanced {
    /// All up to and including this instant has happened.
    pub t: Time,
    /// The earliest instant at which anything can leave without a further frame; [`NEVER`](pktgen_core::time::NEVER) if nothing will.
    pub next: Time,
}

/// A device of another process. An error ends the run there; it says what the device did wrong.
pub trait Remote: Send {
    /// The last bit of `frame` arrived at `port` at `t`.
    fn frame_in(&mut self, t: Time, port: u16, frame: &[u8]) -> Result<()>;

    /// Lets it act up to `until`, but not beyond the first instant at which a frame leaves; `each` gets what leaves there: port
    /// and frame.
    fn advance(&mut self, until: Time, each: &mut dyn FnMut(u16, &[u8])) -> Result<Advanced>;

    /// Frames that left with a wrong checksum of IPv4 or UDP.
    fn checksums_wrong(&self) -> u64;

    /// Ends it; returns what it counted.
    fn end(&mut self) -> Result<Vec<(String, u64)>>;
}
