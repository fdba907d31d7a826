//! What devices know of sparse training: the control plane configures it before a job begins (LIBRA §3.4, §3.5).

use std::fmt;
use std::sync::{Arc, OnceLock};

use pktgen_workload::sparse::Sparse;
use pktgen_workload::sparse::float::Tables;
use pktgen_workload::sparse::layout::Layout;
use pktgen_workload::sparse::shards::Shards;

/// What the control plane configures in a switch that sums hot parameters.
#[derive(Clone)]
pub struct SparsePlace {
    /// Jobs, workers, hot parameters.
    pub sparse: Arc<Sparse>,
    /// In which register each hot parameter is, on a switch that has all of them.
    pub layout: Layout,
    /// Which servers there are, and what the switches of their racks have.
    pub shards: Arc<Shards>,
    /// Hot packets that a worker may have unacknowledged.
    pub window: u32,
    /// Whether workers pull, instead of waiting for each other.
    pub asynchronous: bool,
    /// How often a packet may go through the pipeline again.
    pub max_recirculations: u32,
}

impl SparsePlace {
    /// Hot parameters of a job that the switch of a rack has, of the job with most.
    pub fn hot(&self, rack: u32) -> u32 {
        self.shards.hot_most(rack).unwrap_or(self.sparse.hot().len())
    }

    /// In which register each hot parameter of a job is on the switch of a rack.
    #[inline]
    pub fn layout(&self, job: u16, rack: u32) -> &Layout {
        self.shards.layout(job, rack).unwrap_or(&self.layout)
    }
}

impl fmt::Debug for SparsePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sparse training of {} hot parameters", self.sparse.hot().len())
    }
}

/// How a switch adds floating-point numbers.
#[derive(Clone)]
pub enum Adder {
    /// As a processor does.
    Exact,
    /// By looking up logarithms (LIBRA §3.5). All jobs and switches share the tables, which never change (§6).
    Tables(Arc<Tables>),
}

/// The tables, made when they are first asked for.
static TABLES: OnceLock<Arc<Tables>> = OnceLock::new();

impl Adder {
    /// The one that looks up.
    pub fn tables() -> Self {
        Adder::Tables(TABLES.get_or_init(|| Arc::new(Tables::new())).clone())
    }

    /// Bytes of its tables on a switch.
    pub fn bytes(&self) -> u64 {
        match self {
            Adder::Exact => 0,
            Adder::Tables(tables) => tables.bytes() as u64,
        }
    }

    /// The sum.
    #[inline]
    pub fn add(&self, x: f32, y: f32) -> f32 {
        match self {
            Adder::Exact => x + y,
            Adder::Tables(tables) => tables.add(x, y),
        }
    }

    /// Adds pairs to the sums at their indices, one after the other; what has no sum is left out.
    #[inline]
    pub fn add_all(&self, sums: &mut [f32], pairs: &[(u32, f32)]) {
        match self {
            Adder::Exact => pktgen_simd::add_each(sums, pairs, |x, y| x + y),
            Adder::Tables(tables) => pktgen_simd::add_all(tables, sums, pairs),
        }
    }
}
