//! SQL over run dirs, sweeps and tables of captures: one SELECT over documented tables, in bounded memory.
//!
//! Here live the tables' columns, what a statement may say, scans that decode only what a plan needs, and the forms of answers. Here must
//! not live a metric, a format of files of runs, or a flag: `pktgen_records` has the numbers, the command line prints. It must not write
//! a file, and executes nothing but reading.
//!
//! Map: [`tables`] says what there is, [`memory`] what may be held; [`Database`] opens a folder and answers: `statement` checks the text,
//! `source` reads rows ([`fates`] those of fates), `scan` is what polars sees of them (`choice` which rows), `grouped` gathers `groups` batch by
//! batch where it can, `joined` leaves out rows that no join keeps (`keys` says which), `exact` guards sums, `nested` those of nested queries, [`output`] writes
//! answers, [`user`] makes metrics of them.
//! [`metrics`] are built-in metrics as queries. Without the feature `sql` there are only the tables and these texts.
#![forbid(unsafe_code)]

pub mod metrics;
pub mod tables;

#[cfg(feature = "sql")]
mod choice;
#[cfg(feature = "sql")]
mod database;
#[cfg(feature = "sql")]
mod exact;
#[cfg(feature = "sql")]
mod fates;
#[cfg(feature = "sql")]
mod grouped;
#[cfg(feature = "sql")]
mod groups;
#[cfg(feature = "sql")]
mod joined;
#[cfg(feature = "sql")]
mod keys;
#[cfg(feature = "sql")]
mod memory;
#[cfg(feature = "sql")]
mod nested;
#[cfg(feature = "sql")]
pub mod output;
#[cfg(feature = "sql")]
mod scan;
#[cfg(feature = "sql")]
mod source;
#[cfg(feature = "sql")]
mod statement;
#[cfg(feature = "sql")]
pub mod user;

#[cfg(all(test, feature = "sql"))]
mod batch_tests;

#[cfg(feature = "sql")]
pub use database::{Database, Options};
#[cfg(feature = "sql")]
pub use output::{AnswerForm, QueryAnswer};
