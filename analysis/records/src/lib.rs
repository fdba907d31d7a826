//! NUMBERS: metrics computed from run dirs, without access to the replay itself.
//!
//! This crate contains the reading of records, the fates of packets, ages, metrics and statistics. It contains neither output formats
//! (tables, charts, verdicts in words) nor captures nor comparisons of implementations: those crates depend on this one. It must not
//! compute numbers from formatted text, print, or use `unsafe`. Invalid input gives an error message, never a panic.
//!
//! Map: [`run`] reads a run dir ([`rounds`] its synchronous training, [`stream`] its streams, [`stream_file`] their files, [`batches`] any
//! file batch by batch). One [`pass`] over the streams computes everything that depends on order: [`fates`] resolves [`packets`]
//! ([`provenance`] by their lanes alone, [`model`] in a simple way for tests). [`age`] is the Age-of-Model of all clusters and workers;
//! [`goal`] the progress of a run to a goal. [`memory`] limits memory, and [`column`] has lists that spill to a file. [`resolved`]
//! combines all of this; [`metric`] converts it into [`Line`]s ([`analyze`] calls it, [`labels`] are shared labels, [`user`] an
//! experiment's own metrics). [`stats`] has medians and intervals, [`quantile`] and [`over_time`] exact quantiles of more numbers than fit
//! into memory; [`human`] has display units; [`canonical`] compares runs of different versions. [`testing`] constructs runs.
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
pub use plausible::clocks_within;
pub use resolved::{Analysis, Options};
