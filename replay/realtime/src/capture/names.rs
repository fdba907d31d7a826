//! Names of packets that arrived without them, as settling finds them.

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

    /// Appends the name of the next packet of `received`.
    pub fn push(&mut self, name: &Name) -> Result<()> {
        self.0.push(name)
    }

    /// Ends it; its digest joins `files`.
    pub fn finish(self, dir: &Path, files: &mut FileDigests) -> Result<()> {
        self.0.finish(dir, files).map(drop)
    }
}
