//! Run dirs: the streams, the manifest, and packets on request.
//!
//! During a run the streams are Arrow IPC, readable up to their last batch even if the run is killed; when it is finished they become
//! Parquet. [`recover`] does the same for a killed run. [`frames`] is the other kind of run dir: all frames received on an interface.

mod claim;
pub mod frames;
pub mod lateness;
mod names;
mod ordered;
mod run_dir;
mod stream;

pub use claim::{Claim, DEMO, claim, hold};
pub use names::Names;
pub(crate) use run_dir::{CAPTURE, PartDirs};
pub use run_dir::{DeviceRows, Records, RunDir, ServerRows, Sides, Wanted, WorkerRows};
pub(crate) use run_dir::{join_records, write_controls, write_manifest};
pub(crate) use stream::check_finished;

use std::path::Path;

use pktgen_core::Result;

/// Makes the run dir of a killed run readable, and returns the rows of each stream. With `no_verify`, ignores the manifest's digest.
pub fn recover(dir: &Path, no_verify: bool) -> Result<[u64; 3]> {
    run_dir::recover_with(dir, no_verify, check_finished)
}

/// The same for a copy of a run dir whose files [`check_finished`] did not refuse.
pub(crate) fn recover_copy(dir: &Path) -> Result<[u64; 3]> {
    run_dir::recover_with(dir, false, |_| Ok(()))
}
