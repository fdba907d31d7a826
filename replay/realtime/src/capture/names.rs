//! Ids of packets that arrived without ids, as found by settling.

use std::path::Path;

use pktgen_core::Result;
use pktgen_core::record::{FileDigests, Name};

use super::stream::Stream;

/// The stream `names` of a run dir.
pub struct Names(Stream<Name>);

impl Names {
    /// Creates it in `dir`.
    pub fn create(dir: &Path) -> Result<Self> {
        Ok(Names(Stream::create(dir)?))
    }

    /// Appends the id of the next packet of `received`.
    pub fn push(&mut self, name: &Name) -> Result<()> {
        self.0.push(name)
    }

    /// Ends the stream; adds its digest to `files`.
    pub fn finish(self, dir: &Path, files: &mut FileDigests) -> Result<()> {
        self.0.finish(dir, files).map(drop)
    }
}
