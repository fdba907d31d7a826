//! Middleware between a role and its wire: a tap, a rate limit, faults, addresses, layouts.
//!
//! To add one: a new file here, its `mod` line and its entry in [`MIDDLEWARE`]. Each kind is a filter over frames; one
//! wrapper makes a [`Wire`] of it and of the wire behind it, on every transport. A kind reads its keys of `[transport]`; an end without middleware keeps its bare wire, without overhead.
//!
//! [`wrap`] nests them in the order of the list, the first next to the cable: a tap sees what its role sees. So a tap of the device
//! contains frames that the device sent and a fault then lost, but not those that a fault lost on arrival; a comparison with a tap of the
//! other end shows what happened between them. Exchange of addresses and translation for devices come last: all others, like the cable,
//! see what a device sees. Next to the cable of a foreign device, without configuration: [`checked`].

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
use pktgen_core::config::{KeyTables, Section, Value};
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

/// Properties of a run for wrappers.
#[derive(Debug, Clone)]
pub struct Site<'a> {
    /// The run's clock, started: the source of a tap's stamps.
    pub clock: RunClock,
    /// The run's seed, which determines all faults.
    pub seed: Seed,
    /// Bytes of the run's largest frame.
    pub frame_max: usize,
    /// Folder of files with relative names: the run dir.
    pub folder: &'a Path,
    /// Its traffic.
    pub traffic: Traffic,
    /// Addresses on the wire, if they differ from ours.
    pub outer: Option<Arc<Outer>>,
    /// The dialect on the wire, if there is one.
    pub dialect: Option<&'static DialectKind>,
}

/// A registered kind of middleware.
pub trait Middleware: Named + Sync {
    /// Returns the keys of `[transport]` that [`read`](Self::read) reads.
    fn keys(&self) -> KeyTables;

    /// Returns its requirements on runs.
    fn declares(&self) -> Declared;

    /// Returns settings of `[transport]` with which it wraps an end and leaves a single frame as it is: tests of all kinds use them.
    fn sample(&self) -> Vec<(&'static str, Value)>;

    /// Reads its keys; `None` if they configure nothing. `linger` is how long roles continue after the last frame.
    fn read(&self, section: &mut Section, linger: Time) -> Result<Option<Arc<dyn Layer>>>;
}

/// Requirements and properties of a kind of middleware: runs are checked against it before anything is sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Declared {
    /// Whether it supports one wire only: queues of an end that it filters have no separate sending threads.
    pub one_wire: bool,
    /// Whether it depends on real time, so that it cannot filter files, whose time stands still while a role works.
    pub by_time: bool,
    /// Whether it exchanges addresses: it needs a profile with addresses, and cables that carry whole frames.
    pub addresses: bool,
    /// Whether it also applies in virtual time, without wires.
    pub virtual_time: bool,
    /// Whether it applies in virtual time at the edge of a device in another process.
    pub at_edge: bool,
}

/// A configured middleware, to be put around the wires of a run.
pub trait Layer: Send + Sync {
    /// Returns the dialect of `all` that it requests for frames of `format`; `None` if it does not change their layout.
    fn dialect(&self, _format: &str, _all: Dialects) -> Result<Option<&'static DialectKind>> {
        Ok(None)
    }

    /// Refuses workers whose largest frame has `frame_max` bytes on the wire, if it could never leave.
    fn check(&self, _frame_max: usize) -> Result<()> {
        Ok(())
    }

    /// Returns the name of the files that it writes, relative to the run dir or absolute, as in the configuration; `None` if it writes none.
    fn file(&self) -> Option<String> {
        None
    }

    /// Wraps the wire of `end`, or returns it unchanged if there is nothing to do.
    fn wrap(&self, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>>;
}

/// All kinds, from the cable outwards.
pub static MIDDLEWARE: &[&dyn Middleware] =
    &[&fault::Fault, &rate_limit::RateLimit, &tap::Tap, &readdress::Readdress, &on_wire::OnWire];
