//! Code shared by the tests of all crates: visible skips, hang guards, tests in processes of their own.
#![forbid(unsafe_code)]

pub mod alone;
mod busy;
mod need;
mod patience;
mod skip;
mod stopwatch;

pub use busy::undisturbed;
pub use need::Need;
pub use patience::{HANG, eventually, happens};
pub use skip::{installed, skip};
pub use stopwatch::Stopwatch;
