//! What devices know of sparse training: the control plane configures it before a job begins (LIBRA §3.4, §3.5).

use std::sync::Arc;

use pktgen_generator::sparse::Sparse;
use pktgen_generator::sparse::layout::Layout;

/// What a switch that sums hot parameters is told.
#[derive(Clone)]
pub struct SparsePlace {
    /// Jobs, workers, hot parameters.
    pub sparse: Arc<Sparse>,
    /// In which register each hot parameter is.
    pub layout: Layout,
    /// Hot packets that a worker may have unacknowledged.
    pub window: u32,
    /// Do workers pull, instead of waiting for each other?
    pub asynchronous: bool,
    /// How often a packet may go through the pipeline again.
    pub max_recirculations: u32,
}

/// How a switch adds floating-point numbers.
#[derive(Clone)]
pub enum Adder {
    /// As a processor does.
    Exact,
}

impl Adder {
    /// The sum.
    #[inline]
    pub fn add(&self, x: f32, y: f32) -> f32 {
        match self {
            Adder::Exact => x + y,
        }
    }
}
