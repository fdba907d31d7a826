//! Conformance of aggregating devices (docs/certify.md): carries out the clauses of a system on a bench, and reports
//! for each whether it holds.
//!
//! Clauses are listed by their systems ([`pktgen_engine::clause`]). A [`ProgramBench`] has a program in virtual time, a [`LockstepBench`] another process there, a [`WireBench`]
//! whatever is at the other end of interfaces. [`certify`] carries clauses out; [`Certificate`] is what comes of it, [`CertificateTable`] what
//! comes of all runs of a sweep, [`methodology`] the page of all clauses.
#![forbid(unsafe_code)]

mod certificate;
mod evidence;
mod ground;
mod junit;
mod link;
mod lockstep;
mod measure;
mod page;
mod profile;
mod program;
mod progress;
mod run;
mod settings;
mod table;
mod trial;
mod wires;

pub use certificate::{Certificate, ClauseOutcome, ClauseVerdict};
pub use lockstep::LockstepBench;
pub use measure::MeasuredNumber;
pub use page::methodology;
pub use profile::{CertifyProfile, MeasurePlan};
pub use program::ProgramBench;
pub use progress::CertificateProgress;
pub use run::{CertifyOptions, certify};
pub use settings::CertifySettings;
pub use table::{CertificateTable, CertifiedRun};
pub use wires::WireBench;
