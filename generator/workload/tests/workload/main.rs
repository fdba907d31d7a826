//! Tests of workloads, layouts and traces through their public interface; one module per subject.

mod dense;
mod tempo;
mod trace_scale;
