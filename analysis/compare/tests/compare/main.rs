//! Tests of comparison through its public interface; one module per subject.

mod fidelity;
