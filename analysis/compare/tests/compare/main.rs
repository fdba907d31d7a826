//! The tests of comparison as other crates use it; one module per subject.

mod fidelity;
