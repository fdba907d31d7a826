//! Studies: what is measured without a network ([`Study`]).
//!
//! To add one: a new file here, its `mod` line and its entry in [`STUDIES`]. Called by `pktgen-realtime` when an experiment
//! with a study is run.

mod float_sum;
mod hot_precision;
mod negotiation;
mod recirculations;

pub use pktgen_core::study::{Finding, Study, TIME, TIME_TAKEN, TIMES, Task, Watch};

/// Every study, by name.
pub static STUDIES: &[&dyn Study] =
    &[&float_sum::FloatSum, &negotiation::Negotiation, &hot_precision::HotPrecision, &recirculations::Recirculations];
