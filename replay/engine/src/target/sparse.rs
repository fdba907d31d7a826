//! Configuration of devices for sparse training, set by the control plane before a job begins (LIBRA §3.4, §3.5).

use std::fmt;
use std::sync::{Arc, OnceLock};

use pktgen_workload::addition::AdditionError;
use pktgen_workload::sparse::Sparse;
use pktgen_workload::sparse::float::Tables;
use pktgen_workload::sparse::layout::Layout;
use pktgen_workload::sparse::shards::Shards;

/// Configuration of a switch that sums hot parameters.
#[derive(Clone)]
pub struct SparsePlace {
    /// Jobs, workers, hot parameters.
    pub sparse: Arc<Sparse>,
    /// The register of each hot parameter, on a switch that has all of them.
    pub layout: Layout,
    /// The servers, and the parameters on the switches of their racks.
    pub shards: Arc<Shards>,
    /// Maximum number of unacknowledged hot packets of a worker.
    pub window: u32,
    /// Whether workers pull instead of waiting for each other.
    pub asynchronous: bool,
    /// Maximum number of recirculations of a packet.
    pub max_recirculations: u32,
}

impl SparsePlace {
    /// Returns the number of hot parameters of a job on the switch of a rack, for the job with the most.
    pub fn hot(&self, rack: u32) -> u32 {
        self.shards.hot_most(rack).unwrap_or(self.sparse.hot().len())
    }

    /// Returns the register of each hot parameter of a job on the switch of a rack.
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

/// A switch's floating-point adder.
#[derive(Clone)]
pub enum Adder {
    /// Exact, as in a processor.
    Exact,
    /// By look-up of logarithms (LIBRA §3.5). All jobs and switches share the tables, which never change (§6).
    Tables(Arc<Tables>),
}

/// The tables, made on first use.
static TABLES: OnceLock<Arc<Tables>> = OnceLock::new();

impl Adder {
    /// The adder by look-up.
    pub fn tables() -> Self {
        Adder::Tables(TABLES.get_or_init(|| Arc::new(Tables::new())).clone())
    }

    /// Returns the bytes of its tables on a switch.
    pub fn bytes(&self) -> u64 {
        match self {
            Adder::Exact => 0,
            Adder::Tables(tables) => tables.bytes() as u64,
        }
    }

    /// Returns the sum of two numbers.
    #[inline]
    pub fn add(&self, x: f32, y: f32) -> f32 {
        match self {
            Adder::Exact => x + y,
            Adder::Tables(tables) => tables.add(x, y),
        }
    }

    /// Adds pairs to the sums at their indices, in order; ignores indices without a sum.
    #[inline]
    pub fn add_all(&self, sums: &mut [f32], pairs: &[(u32, f32)]) {
        match self {
            Adder::Exact => pktgen_simd::add_each(sums, pairs, |x, y| x + y),
            Adder::Tables(tables) => pktgen_simd::add_all(tables, sums, pairs),
        }
    }
}

impl Adder {
    /// Returns the maximum error of its sums.
    pub fn error(&self) -> AdditionError {
        match self {
            Adder::Exact => AdditionError::F32,
            Adder::Tables(_) => AdditionError::TABLES,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        /// For any two numbers within the range of the tables.
        #[test]
        fn an_addition_by_tables_is_off_by_no_more_than_is_said(
            (fractions, signs) in (any::<[u32; 2]>(), any::<[bool; 2]>()),
            exponent in 60u32..143,
            apart in 0u32..18,
        ) {
            let number = |fraction: u32, exponent: u32, sign: bool| {
                f32::from_bits(u32::from(sign) << 31 | exponent << 23 | fraction & 0x7f_ffff)
            };
            let x = number(fractions[0], exponent, signs[0]);
            let y = number(fractions[1], exponent - apart, signs[1]);
            let (exact, size) = (f64::from(x) + f64::from(y), f64::from(x.abs()) + f64::from(y.abs()));
            for (adder, x, y) in [(Adder::tables(), x, y), (Adder::tables(), y, x), (Adder::Exact, x, y)] {
                let sum = f64::from(adder.add(x, y));
                prop_assert!(adder.error().allows(sum, exact, size, 2), "{x} + {y} = {sum}: {}", (sum - exact).abs() / size);
            }
        }
    }
}
