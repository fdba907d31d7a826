//! Planners: where to aggregate, how to wire, and how to route.
//!
//! A placer is a pure function from a network to a [`Plan`](pktgen_core::plan::Plan) and its promise. Its study
//! reproduces the figures of its paper. To add one: a new file here, its `mod` line and its entry in [`PLACERS`].
//! Called by the CLI's `place`, and by `replay` for experiments with a study.
#![forbid(unsafe_code)]

pub mod atro;
pub mod emit;
pub mod picture;
pub mod soar;

use std::sync::LazyLock;

use pktgen_core::registry::Named;
use pktgen_workload::study::{self, Study};

/// A placement algorithm.
pub trait Placer: Named + Sync {
    /// Returns the study that reproduces its paper's figures.
    fn study(&self) -> &'static dyn Study;
}

/// All placers.
pub static PLACERS: &[&dyn Placer] = &[&soar::Soar, &atro::Atro];

/// All studies: those without a network, and those of the placers.
pub static STUDIES: LazyLock<Vec<&'static dyn Study>> =
    LazyLock::new(|| study::STUDIES.iter().copied().chain(PLACERS.iter().map(|placer| placer.study())).collect());
