//! Stands in for `png` in a build without it: says how to get it.

use pktgen_generator::{Error, Result};

use crate::chart::Chart;

/// Can this build draw them?
pub const BUILT_IN: bool = false;

/// Cannot be made.
pub struct Painter(std::convert::Infallible);

impl Painter {
    /// Says that this build draws no PNG pictures.
    pub fn new() -> Result<Painter> {
        Err(Error::config(
            "this pktgen was built without PNG pictures: write SVG only (--plots-format svg), or build it with \
             --features png",
        ))
    }

    /// Never called: nobody has a painter.
    pub fn paint(&self, _: &Chart) -> Result<Vec<u8>> {
        match self.0 {}
    }
}
