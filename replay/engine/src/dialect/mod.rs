//! Ways to write frames as devices expect them, without a header of ours (docs/strict.md): one per file of a system.
//!
//! A dialect makes of a frame of ours that of a device, and of a device's frame one with our header again, from what is known at
//! that end can really know. It sees frames only, no wires.

use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::time::Time;
use pktgen_core::topology::Population;

/// Who sends, and what.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// Workers and clusters.
    pub workers: Arc<Population>,
    /// The wire format.
    pub format: &'static str,
    /// Packets per worker and iteration, in synchronous training; else 0.
    pub packets: u32,
    /// Packets of a worker that may be under way there.
    pub window: u32,
    /// Whether every worker sends each of its updates once, in order, whatever comes back.
    pub plain: bool,
}

/// Translates frames of one wire format at one end.
pub trait Dialect: Send {
    /// How many frames a device makes of one of ours: several where its receivers have to be addressed one by one. At most a burst.
    fn copies(&self, _frame: &[u8]) -> usize {
        1
    }

    /// A frame of ours as a device expects it, in `out`, which has room for the run's largest. Returns its length; none if
    /// the frame goes as it is. A frame that was not taken is translated again.
    fn outward(&mut self, frame: &[u8], out: &mut [u8]) -> Option<usize>;

    /// One of several copies.
    fn copy(&mut self, frame: &[u8], _copy: usize, out: &mut [u8]) -> Option<usize> {
        self.outward(frame, out)
    }

    /// A frame of a device, which was found at `now`, with our header, in `out`. None if it is none of this format's.
    fn inward(&mut self, frame: &[u8], now: Time, out: &mut [u8]) -> Option<usize>;
}

/// A dialect, as it is listed.
#[derive(Debug)]
pub struct DialectKind {
    /// The value of the key.
    pub word: &'static str,
    /// Whose frames it translates.
    pub format: &'static str,
    /// The wire format of what lies on the cable.
    pub on_wire: &'static str,
    /// What profiles of devices call it.
    pub device: &'static str,
    /// By how many bytes a frame grows, at most.
    pub growth: usize,
    /// Nothing in a payload says which update it is: addresses say who sent it.
    pub headless: bool,
    /// Opens it at one end; none where our layout is what devices expect anyway.
    pub open: fn(&Traffic) -> OpenedDialect,
}

/// A dialect at one end, if there is anything to translate.
pub(crate) type OpenedDialect = Result<Option<Box<dyn Dialect>>>;

/// Ways to write frames for devices of others.
pub type Dialects = &'static [&'static DialectKind];
