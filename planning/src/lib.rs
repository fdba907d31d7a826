//! Planners: where to aggregate, how to wire, which way to route.
//!
//! A placer is pure: a network in, a [`Plan`](pktgen_core::plan::Plan) and what it promises out. Its study makes the
//! figures of its paper. To add one: a new file here, its `mod` line and its entry in [`PLACERS`]. Called by the CLI's
//! `place`, and by `replay` for experiments with a study.
#![forbid(unsafe_code)]

pub mod atro;
pub mod emit;
pub mod picture;
pub mod soar;

use std::sync::LazyLock;

use pktgen_core::registry::Named;
use pktgen_workload::study::{self, Study};

/// One placer.
pub trait Placer: Named + Sync {
    /// What its paper's figures are made with.
    fn study(&self) -> &'static dyn Study;
}

/// Every placer, by name.
pub static PLACERS: &[&dyn Placer] = &[&soar::Soar, &atro::Atro];

/// Every study: those without a network, and those of the placers.
pub static STUDIES: LazyLock<Vec<&'static dyn Study>> =
    LazyLock::new(|| study::STUDIES.iter().copied().chain(PLACERS.iter().map(|placer| placer.study())).collect());
