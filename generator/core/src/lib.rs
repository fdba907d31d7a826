//! The vocabulary of all stages: what an experiment, a record and a network are.
//!
//! This crate knows no wire format, no workload and no system. It never opens a socket, reads a clock or starts a
//! thread: time and randomness are arguments. Its only `unsafe` is a hint to the caches ([`prefetch()`]).
//!
//! Map: [`units`], [`time`] and [`seed`] are what numbers are in; [`config`] reads experiment files; [`record`] says what a
//! run leaves behind, [`column`] and [`definition`] what columns and numbers mean; [`topology`] wires devices, [`tree`] and
//! [`plan`] say which of them aggregate; [`study`] is what is measured without a network, [`user_metric`] what an experiment measures by SQL; [`registry`] looks names up, [`index`]
//! numbers; [`arrow`] is what of arrow-rs is called; [`footer`] looks at Parquet files before decoders do; [`whole`] writes files
//! that are whole or not there, [`regular`] refuses input without an end; [`shard`] divides work; [`quiet`] calls what may panic;
//! [`json_kind`] is what a kind of printed JSON is, [`object`] an object of a file; [`quantile`] has the ranks of quantiles;
//! [`age`] is the Age-of-Model accumulator; [`printable`] takes control characters out of text.

pub mod age;
pub mod arrow;
pub mod column;
pub mod config;
pub mod definition;
pub mod error;
pub mod footer;
pub mod index;
pub mod json_kind;
pub mod object;
pub mod plan;
mod prefetch;
pub mod printable;
pub mod quantile;
pub mod quiet;
pub mod record;
pub mod registry;
pub mod regular;
pub mod rows;
pub mod seed;
pub mod shard;
pub mod study;
pub mod time;
pub mod topology;
pub mod tree;
pub mod units;
pub mod user_metric;
pub mod whole;

pub use error::{Error, Result};
pub use prefetch::prefetch;
