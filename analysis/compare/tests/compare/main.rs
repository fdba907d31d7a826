//! The tests of the analysis as other crates use it; one module per subject.

mod fidelity;
