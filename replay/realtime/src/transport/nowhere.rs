//! A missing end of a cable: that of a device without a server above it.

use pktgen_core::Result;

use super::{Arrival, Found, Submitted, Wire, WireCounters};

/// Accepts nothing, and yields nothing.
pub(crate) struct Nowhere;

impl Wire for Nowhere {
    fn send(&mut self, _frames: &[&[u8]]) -> Result<Submitted> {
        Ok(Submitted::default())
    }

    fn receive(&mut self, _most: usize, _each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        Ok(Found::default())
    }

    fn wait(&mut self, _timeout_ns: u64) -> Result<()> {
        Ok(())
    }

    fn counters(&mut self) -> WireCounters {
        WireCounters::default()
    }

    fn mode(&self) -> String {
        "none".into()
    }
}
