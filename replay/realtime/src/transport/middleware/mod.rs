//! What may stand between a role and its wire: a tap, a rate limit, faults, other addresses.
//!
//! Each kind is a filter over frames; one wrapper makes a [`Wire`] of it and of the wire behind it, on every transport. It reads its own keys of `[transport]`; an
//! end that nothing is configured for keeps its bare wire, and pays nothing.
//!
//! [`wrap`] builds them around each other in the order of the list, the first next to the cable: a tap sees what its
//! role sees. So a tap of the device has the frames that the device handed over and a fault then lost, and not those
//! that a fault lost on their way in; beside a tap of the other end it shows what happened between them. What gives frames
//! other addresses, and what translates them into those of devices, comes last: all others, as the cable, see what a device sees.
//! Next to the cable, where the device is one of others, and configured by nothing: [`checked`].

mod checksum;
mod fault;
mod filter;
mod lane;
pub(crate) mod on_wire;
mod plan;
mod rate_limit;
mod readdress;
mod tap;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod wrapping_tests;

use std::path::Path;
use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section};
use pktgen_core::registry::Named;
use pktgen_core::seed::Seed;
use pktgen_core::time::Time;

use super::{End, Wire};
use crate::clock::RunClock;
use crate::dialect::{DialectKind, Dialects, Traffic};

pub use checksum::{ChecksumTally, checked};
pub use pktgen_engine::driver::fates::{FaultStreams, Faults, FrameFault};
pub use plan::{MiddlewarePlan, wrap};
pub(crate) use rate_limit::HELD_SHARE;
pub use readdress::Outer;

/// A run, as far as a wrapper has to know it.
#[derive(Debug, Clone)]
pub struct Site<'a> {
    /// The run's clock, started: a tap stamps with it.
    pub clock: RunClock,
    /// The run's seed: it decides every fault.
    pub seed: Seed,
    /// Bytes of the run's largest frame.
    pub frame_max: usize,
    /// Where files go whose name is relative: the run dir.
    pub folder: &'a Path,
    /// What it carries.
    pub traffic: Traffic,
    /// Addresses on the wire, where they are not ours.
    pub outer: Option<Arc<Outer>>,
    /// How frames are written there, where that is not as in the process.
    pub dialect: Option<&'static DialectKind>,
}

/// A kind of middleware, as it is listed and configured.
pub trait Middleware: Named + Sync {
    /// The keys of `[transport]` that [`read`](Self::read) reads.
    fn keys(&self) -> KeyTables;

    /// What runs must go by that ask for it.
    fn declares(&self) -> Declared;

    /// Reads them; none if they ask for nothing. `linger` is how long roles go on after the last frame.
    fn read(&self, section: &mut Section, linger: Time) -> Result<Option<Arc<dyn Layer>>>;
}

/// What a kind of middleware declares: runs are held against it before anything is sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Declared {
    /// It is of one wire: queues of an end that it filters have no threads of their own to send.
    pub one_wire: bool,
    /// It goes by time that passes, so it filters no files, whose time stands still while a role works.
    pub by_time: bool,
    /// It exchanges addresses: it needs a profile that has them, and cables that carry frames with their heads.
    pub addresses: bool,
    /// It acts in virtual time too, where there are no wires.
    pub virtual_time: bool,
    /// It acts there at the edge of a device of another process.
    pub at_edge: bool,
}

/// A configured middleware, ready to go around the wires of a run.
pub trait Layer: Send + Sync {
    /// Which of `all` ways to write frames of `format` on the wire it asks for; none where it leaves their layout.
    fn dialect(&self, _format: &str, _all: Dialects) -> Result<Option<&'static DialectKind>> {
        Ok(None)
    }

    /// Wraps the wire of `end`, or gives it back where it has nothing to do.
    fn wrap(&self, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>>;
}

/// Every kind, from the cable outwards.
pub static MIDDLEWARE: &[&dyn Middleware] =
    &[&fault::Fault, &rate_limit::RateLimit, &tap::Tap, &readdress::Readdress, &on_wire::OnWire];
