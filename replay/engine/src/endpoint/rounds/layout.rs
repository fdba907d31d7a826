//! The assignment of the model to the packets of an iteration, and the scaling of gradients to integers.
//!
//! Trio-ML multiplies all gradients with one number (§4, "the scaling approach proposed by ATP") and packet i carries block i. SwitchML
//! can do the same, or follow its public client: packet i carries the exponent of block i's gradients, the switch answers with the largest
//! exponent of all workers, and packet i + W carries the block, scaled accordingly. So one more window is sent, whose data do not count.

use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::Section;
use pktgen_workload::dense::tensor::lead;
use pktgen_workload::dense::{Dense, fixed};
use pktgen_workload::lanes::Lanes;

use super::keys::{Scaled, Scalings};

/// The scaling of gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// By one number.
    Fixed(f32),
    /// By the largest factor that fits 32 bits, from the largest exponent of a block among all workers.
    Exponents,
}

/// The packets of an iteration.
#[derive(Clone)]
pub struct Layout {
    /// What is trained.
    pub dense: Arc<Dense>,
    scaling: Scaling,
    /// Packets ahead of the model.
    lead: u32,
    /// Generator of the lanes of packets, if they have any.
    pub lanes: Option<Arc<Lanes>>,
}

impl Layout {
    /// A layout; with exponents, the model follows after `window` packets.
    pub fn new(dense: Arc<Dense>, scaling: Scaling, window: u32) -> Self {
        let lead = if scaling == Scaling::Exponents { lead(window, dense.blocks()) } else { 0 };
        Layout { dense, scaling, lead, lanes: None }
    }

    /// Returns the layout with lanes.
    pub fn with_lanes(self, lanes: &Option<Arc<Lanes>>) -> Self {
        Layout { lanes: lanes.clone(), ..self }
    }

    /// Returns the packets of an iteration.
    pub fn packets(&self) -> u32 {
        self.dense.blocks() + self.lead
    }

    /// Returns the packets ahead of the model.
    pub fn lead(&self) -> u32 {
        self.lead
    }

    /// Returns the block that packet `index` carries; `None` if its data do not count.
    #[inline]
    pub fn block_of(&self, index: u32) -> Option<u32> {
        index.checked_sub(self.lead)
    }

    /// Returns the exponent in packet `index` of a worker: that of the block that follows `lead` packets later.
    pub fn exponent(&self, worker: u32, iteration: u32, index: u32) -> i8 {
        match self.scaling {
            Scaling::Fixed(_) => 0,
            Scaling::Exponents if index < self.dense.blocks() => self.dense.exponent(worker, iteration, index),
            Scaling::Exponents => i8::MIN,
        }
    }

    /// Whether a result of all workers of a job has the largest of their exponents.
    pub(crate) fn has_exponent(&self, job: u16, seq: u32, exponent: i8) -> bool {
        if self.scaling != Scaling::Exponents {
            return true;
        }
        let (iteration, index) = (seq / self.packets(), seq % self.packets());
        let per_job = self.dense.workers_per_job();
        let first = u32::from(job) * per_job;
        (first..first + per_job).map(|worker| self.exponent(worker, iteration, index)).max() == Some(exponent)
    }

    /// Returns the scaling factor for this exponent.
    #[inline]
    pub fn scale_told(&self, exponent: i8) -> f32 {
        match self.scaling {
            Scaling::Fixed(scale) => scale,
            Scaling::Exponents => fixed::scale_of(exponent, self.dense.workers_per_job()) as f32,
        }
    }

    /// Returns the scaling factor of block `block` for all workers of `worker`'s job.
    pub fn scale_of(&self, worker: u32, iteration: u32, block: u32) -> f32 {
        if let Scaling::Fixed(scale) = self.scaling {
            return scale;
        }
        let per_job = self.dense.workers_per_job();
        let first = worker / per_job * per_job;
        let exponents = (first..first + per_job).map(|worker| self.dense.exponent(worker, iteration, block));
        self.scale_told(exponents.max().unwrap_or(0))
    }
}

/// Reads the factor of fixed scaling.
pub fn read_scale(section: &mut Section) -> Result<f32> {
    let scale = Scaled::scale(section)?;
    section.factor("scale", scale)
}

/// Reads how gradients are scaled. With exponents the factor is not read, so that it is noted as a key without effect.
pub fn read_scaling(section: &mut Section) -> Result<Scaling> {
    Ok(if Scalings::scaling(section)? { Scaling::Exponents } else { Scaling::Fixed(read_scale(section)?) })
}

#[cfg(test)]
mod tests {
    use pktgen_core::seed::Seed;
    use pktgen_workload::dense::DensePlan;

    use super::*;

    /// A packet waits for the one a lead before it: that is the one before in its slot, if there is one in the iteration.
    #[test]
    fn no_slot_is_used_again_before_its_result() {
        let plan = DensePlan { elements_total: 640, elements_per_packet: 64, ..DensePlan::default() };
        let dense = Arc::new(Dense::new(plan, Seed(3)).unwrap());
        for pool in 1..40 {
            let layout = Layout::new(dense.clone(), Scaling::Exponents, pool);
            assert!(
                layout.lead() == pool || layout.packets() <= pool,
                "a pool of {pool} for {} packets",
                layout.packets()
            );
        }
    }

    #[test]
    fn a_scale_that_32_bits_do_not_hold_is_refused() {
        let read = |scale: f64| read_scale(&mut Section::of("endpoint", &[("scale", scale.into())]));
        for scale in [1e-46, 1e-40] {
            let why = read(scale).unwrap_err().to_string();
            let parts = ["endpoint.scale", &format!("{scale:e}"), "1.1754944e-38"];
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        }
        assert_eq!(read(1e-37).unwrap(), 1e-37);
    }

    #[test]
    fn only_fixed_scaling_reads_the_factor() {
        for (scaling, reads) in [("exponents", false), ("fixed", true)] {
            let mut section = Section::of("endpoint", &[("scaling", scaling.into()), ("scale", 2.0.into())]);
            let expected = if reads { Scaling::Fixed(2.0) } else { Scaling::Exponents };
            assert_eq!(read_scaling(&mut section).unwrap(), expected);
            assert_eq!(section.asked().iter().any(|key| key == "scale"), reads, "{scaling}");
        }
    }

    #[test]
    fn exponents_make_the_most_of_the_integers_and_never_overflow() {
        let plan = DensePlan { elements_total: 6400, elements_per_packet: 64, ..DensePlan::default() };
        let dense = Arc::new(Dense::new(plan, Seed(3)).unwrap());
        let layout = Layout::new(dense.clone(), Scaling::Exponents, 16);
        assert_eq!((layout.packets(), layout.block_of(15), layout.block_of(16)), (116, None, Some(0)));
        for block in 0..100 {
            let scale = layout.scale_of(0, 2, block);
            let told = (0..6).map(|worker| layout.exponent(worker, 2, block)).max().unwrap();
            assert_eq!(scale, layout.scale_told(told), "what the switch answers is what all reckon with");
            let (mut sums, mut values) = ([0i64; 64], [0i32; 64]);
            let mut largest = 0;
            for worker in 0..6 {
                assert_eq!(dense.fixed(worker, 2, block, scale, &mut values), 0);
                largest = largest.max(values.iter().map(|value| value.unsigned_abs()).max().unwrap());
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += i64::from(value));
            }
            assert!(sums.iter().all(|sum| sum.abs() <= i64::from(i32::MAX)));
            // At least half of a sixth of the range is used.
            assert!(largest >= (i32::MAX as u32) / 13, "{largest}");
        }
        // Block 7 of iteration 2 of the first job: all but the largest are wrong, also where no block is.
        let largest = (0..6).map(|worker| layout.exponent(worker, 2, 7)).max().unwrap();
        assert_eq!([-1, 0, 1].map(|off| layout.has_exponent(0, 2 * 116 + 7, largest + off)), [false, true, false]);
        assert_eq!([i8::MIN, 0].map(|told| layout.has_exponent(0, 2 * 116 + 100, told)), [true, false]);
        assert_eq!(layout.exponent(0, 2, 100), i8::MIN, "what no block has wins nowhere");
    }
}
