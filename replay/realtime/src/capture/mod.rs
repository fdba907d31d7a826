//! Run dirs: the three streams, the manifest, and the packets themselves where asked for.
//!
//! While a run is under way the streams are Arrow IPC, readable up to their last batch even if the run
//! is killed; when it is finished they become Parquet. [`recover`] does the same for a killed one. [`frames`] is the
//! other kind of run dir: everything that was received on an interface.

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
pub use run_dir::{DeviceRows, Records, RunDir, ServerRows, Sides, Wanted, WorkerRows, recover};
pub(crate) use run_dir::{join_records, write_controls, write_manifest};
