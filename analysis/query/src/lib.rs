//! SQL over run dirs, sweeps and tables of captures: one SELECT over documented tables, in bounded memory.
//!
//! This crate contains the columns of tables, the checks of statements, scans that decode only what a plan needs, and
//! the output formats of answers. It contains neither metrics nor file formats of runs (`pktgen_records`) nor
//! command-line options. It must not write files, and executes only reading statements.
//!
//! Map: [`tables`] lists tables and columns, [`memory`] limits memory, `threads` checks the numbers of threads. [`Database`] opens a folder and executes statements: `statement`
//! checks the text (`scopes` which tables its parts name, `sides` the joins, whose kinds `operators` lists, `windows` and `refusals` expressions, with the list of
//! `aggregates`, the `names` of tables and columns, the `columns` that FROM has, and visits of `outer` expressions), `rewrite` writes it for polars (`own_tables` its subqueries, `numbers` its numbers, `texts` functions of texts, `values` its VALUES), `source` reads rows ([`fates`] those of fates), `scan` presents them to polars (`choice` selects rows), `grouped`
//! accumulates `groups` batch by batch where possible, `joined` skips rows that no join keeps (by `keys`), `exact` has functions for sums, quotients, remainders and texts, `nested`
//! executes nested queries with them, [`output`] writes answers, and [`user`] converts them to metrics. [`metrics`] has built-in metrics
//! as queries. Without the feature `sql`, only the tables and these texts exist.
#![forbid(unsafe_code)]

pub mod metrics;
pub mod tables;

#[cfg(feature = "sql")]
mod aggregates;
#[cfg(feature = "sql")]
mod choice;
#[cfg(feature = "sql")]
mod columns;
#[cfg(feature = "sql")]
mod database;
#[cfg(feature = "sql")]
mod duplicates;
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
mod names;
#[cfg(feature = "sql")]
mod nested;
#[cfg(feature = "sql")]
mod numbers;
#[cfg(feature = "sql")]
mod operators;
#[cfg(feature = "sql")]
mod order;
#[cfg(feature = "sql")]
mod outer;
#[cfg(feature = "sql")]
pub mod output;
#[cfg(feature = "sql")]
mod own_tables;
#[cfg(feature = "sql")]
mod place;
#[cfg(feature = "sql")]
mod refusals;
#[cfg(feature = "sql")]
mod rewrite;
#[cfg(feature = "sql")]
mod scan;
#[cfg(feature = "sql")]
mod scopes;
#[cfg(feature = "sql")]
mod sides;
#[cfg(feature = "sql")]
mod source;
#[cfg(feature = "sql")]
mod statement;
#[cfg(feature = "sql")]
mod texts;
#[cfg(feature = "sql")]
mod threads;
#[cfg(feature = "sql")]
pub mod user;
#[cfg(feature = "sql")]
mod values;
#[cfg(feature = "sql")]
mod windows;

#[cfg(all(test, feature = "sql"))]
mod answer_tests;
#[cfg(all(test, feature = "sql"))]
mod batch_tests;
#[cfg(all(test, feature = "sql"))]
mod number_tests;

#[cfg(feature = "sql")]
pub use database::{Database, Options};
#[cfg(feature = "sql")]
pub use output::{AnswerForm, QueryAnswer};
