//! The tests of workloads, layouts and traces as other crates use them; one module per subject.

mod dense;
mod tempo;
mod trace_scale;
