//! NUMBERS and verdicts, from run dirs.
//!
//! This crate reads what replay leaves behind (never replay itself), resolves what became of every
//! packet, computes metrics, compares sweeps and renders reports. It must not compute a number from
//! printed text, print anything, or use `unsafe`. Bad input gives a message, never a panic.
//!
//! Map: [`capture`] analyses what was recorded on wires (with [`quantile`] for more numbers than fit memory); [`run`] reads a run dir ([`rounds`] its synchronous training); [`fates`] resolves packets ([`provenance`] by their lanes alone); [`age`] is the Age-of-Model of all flows;
//! [`goal`] how far a run to a goal came; [`resolved`] has all of it together; [`metric`] turns it into [`Line`]s ([`analyze`] drives it); [`stats`]
//! has medians and intervals; [`sweep`] analyses all runs of a folder (`baseline` compares them, `group` speaks of
//! clusters together, `headings` are columns of tables); [`model`] is what a report says ([`picture`] makes its [`chart`]s, [`human`] has its units, [`check`]
//! the experiment's mistakes, [`definitions`] what metrics mean), [`report`] its forms ([`plot`] draws), [`summary`] the terminal's; [`compare`] sets
//! implementations against each other, [`trace`] a scaled trace against its original, [`canonical`] one version's run against
//! another's.
#![forbid(unsafe_code)]

pub mod compare;
pub mod trace;

pub use pktgen_capture as capture;
pub use pktgen_records::{
    Analysis, Line, METRICS, Measured, Note, Options, age, analyze, analyze_run, analyze_run_with, batches, canonical,
    fates, goal, human, labels, line, metric, over_time, provenance, quantile, resolved, rounds, run, stats, testing,
    testing_rounds,
};
pub use pktgen_report::{
    CHARTS, Model, REPORTS, SweepData, answer, chart, check, definitions, made, model, picture, plot, report, run_dirs,
    summary, sweep,
};
