//! REPORTS: analyses the runs of a folder together and presents them in tables, charts and verdicts.
//!
//! This crate contains sweeps, the contents of reports, their charts and their output formats. It contains neither metrics of single runs
//! (`pktgen-records`) nor captures (`pktgen-capture`) nor the comparison of implementations (`pktgen-compare`, which depends on this
//! crate). It must not compute numbers from formatted text, print, or use `unsafe`.
//!
//! Map: [`sweep`] analyses all runs of a folder (`baseline` compares them with the baseline's, `group` summarises clusters, `headings` are
//! columns of tables). [`model`] is the contents of a report ([`picture`] creates its [`chart`]s, `verdict` and [`answer`] its sentences,
//! `lead` its first screen, [`made`] the provenance of the runs, [`check`] finds mistakes in the experiment, [`definitions`] has the
//! metrics' definitions). [`report`] has its output formats ([`plot`] draws), [`summary`] that of the terminal.
#![forbid(unsafe_code)]

pub mod answer;
mod baseline;
pub mod chart;
pub mod check;
pub mod definitions;
mod group;
mod headings;
mod lead;
pub mod made;
pub mod model;
pub mod picture;
pub mod plot;
pub mod report;
pub mod summary;
pub mod sweep;
mod verdict;

#[cfg(test)]
mod form_tests;
#[cfg(test)]
mod training_tests;

pub use model::Model;
pub use picture::CHARTS;
pub use report::{JSON, REPORTS};
pub use summary::summary;
pub use sweep::data::SweepData;
pub use sweep::run_dirs;
pub use verdict::{cautions, remarks};
