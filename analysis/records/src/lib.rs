//! NUMBERS from run dirs: what replay left behind (never replay itself), read, resolved and measured.
//!
//! Here live the reading of records, what became of every packet, ages, metrics by family of account, and statistics. Here must not live
//! a form for readers (a table, a chart, a verdict in words), a capture, or a comparison of implementations: those crates stand on this one.
//! It must not compute a number from printed text, print anything, or use `unsafe`. Bad input gives a message, never a panic.
//!
//! Map: [`run`] reads a run dir ([`rounds`] its synchronous training, [`stream`] its streams, [`stream_file`] their files, [`batches`] any file batch by batch); one [`pass`]
//! over the streams feeds all that is ordered: [`fates`] resolves [`packets`] ([`provenance`] by their lanes alone, [`model`] plainly, for tests);
//! [`age`] is the Age-of-Model of all clusters and workers; [`goal`] how far a run to a goal came. [`memory`] bounds what that takes,
//! [`column`] are lists that spill to a file. [`resolved`] has all of it together; [`metric`] turns it into [`Line`]s ([`analyze`] drives it, [`labels`] are what they share, [`user`] those of an experiment's own); [`stats`] has medians and
//! intervals, [`quantile`] and [`over_time`] exact quantiles of more numbers than fit memory; [`human`] has units for people; [`canonical`]
//! is one version's run against another's. [`testing`] has runs made by hand.
#![forbid(unsafe_code)]

pub mod age;
pub mod analyze;
mod arrivals;
pub mod batches;
pub mod canonical;
pub mod column;
mod columns;
pub mod fates;
mod firsts;
pub mod frame;
pub mod goal;
pub mod human;
mod keyed;
pub mod labels;
mod learning;
pub mod line;
pub mod memory;
pub mod metric;
pub mod model;
pub mod over_time;
mod packets;
mod pass;
mod places;
mod plausible;
pub mod provenance;
pub mod quantile;
pub mod resolved;
pub mod rounds;
pub mod run;
pub mod stats;
pub mod stream;
pub mod stream_file;
pub mod student;
pub mod summary;
mod table;
pub mod testing;
pub mod testing_rounds;
pub mod user;

#[cfg(test)]
mod metric_tests;
#[cfg(test)]
mod move_tests;
#[cfg(test)]
mod registry_tests;

pub use analyze::{analyze_run, analyze_run_with};
pub use line::{Line, Measured, Note};
pub use metric::METRICS;
pub use resolved::{Analysis, Options};
