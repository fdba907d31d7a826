//! REPORTS: the runs of a folder analysed together, and what is said of them, in tables, charts and verdicts.
//!
//! Here live sweeps, what a report says, its pictures and its forms. Here must not live a metric of one run (`pktgen-records`), a
//! capture (`pktgen-capture`) or the comparison of implementations (`pktgen-compare`, which stands on this crate). It must not compute
//! a number from printed text, print anything, or use `unsafe`.
//!
//! Map: [`sweep`] analyses all runs of a folder (`baseline` compares them with the baseline's, `group` summarises clusters,
//! `headings` are columns of tables); [`model`] is what a report says ([`picture`] makes its [`chart`]s, `verdict` and [`answer`] its
//! sentences, `lead` its first screen, [`made`] says what made the runs, [`check`] names the experiment's mistakes, [`definitions`] what metrics mean);
//! [`report`] has its forms ([`plot`] draws), [`summary`] the terminal's.
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
pub use verdict::cautions;
