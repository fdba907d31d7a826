//! The gradients of a block as a pure function of worker, iteration and block: floats, whole numbers, exponent.
//!
//! Blocks are windows of the gradient pool, as the updates of every workload, so anyone can compute them again.
//! Called by endpoints once per packet, by the ledger when it compares sums, and by the open-loop source.

use super::Dense;
use super::fixed::{self, Block};
use crate::gradient::{GradientPool, STARTS, Window};
use crate::seed::Seed;

/// The pool and what is known of its windows.
#[derive(Debug)]
pub(super) struct Content {
    pool: GradientPool,
    /// Largest magnitude of a whole packet's window, by where it starts: it decides whether anything can be clipped,
    /// and gives the exponent, without a look at the numbers.
    peaks: Vec<f32>,
}

impl Content {
    /// For packets of up to `elements` gradients.
    pub(super) fn new(seed: Seed, elements: usize) -> Self {
        let pool = GradientPool::new(seed, elements);
        let peaks = (0..STARTS).map(|start| fixed::peak(&pool.from(start)[..elements])).collect();
        Content { pool, peaks }
    }
}

impl Dense {
    /// Number of a block at its worker, over all iterations: its sequence number, unless a protocol has another.
    #[inline]
    pub fn number(&self, iteration: u32, block: u32) -> u32 {
        // Within 32 bits for all that the workload has; what it does not have has some content, too.
        iteration.wrapping_mul(self.blocks()).wrapping_add(block)
    }

    #[inline]
    fn window(&self, worker: u32, iteration: u32, block: u32) -> Window<'_> {
        let window = self.content.pool.window(worker, self.number(iteration, block));
        let elements = usize::from(self.elements_of(block));
        Window { numbers: &window.numbers[..elements], ..window }
    }

    #[inline]
    fn block(&self, worker: u32, iteration: u32, block: u32) -> Block<'_> {
        let Window { start, numbers, factor } = self.window(worker, iteration, block);
        Block { numbers, factor, peak: self.content.peaks[start] }
    }

    /// Writes the gradients of a block into `out`, as many as it has room for; the rest stays as it is.
    #[inline]
    pub fn floats(&self, worker: u32, iteration: u32, block: u32, out: &mut [f32]) {
        let Window { numbers, factor, .. } = self.window(worker, iteration, block);
        out.iter_mut().zip(numbers).for_each(|(to, number)| *to = number * factor);
    }

    /// The same as little-endian bytes, as OLAF's packets carry them.
    #[inline]
    pub(crate) fn floats_le(&self, worker: u32, iteration: u32, block: u32, out: &mut [u8]) {
        let elements = usize::from(self.elements_of(block)) * 4;
        let length = out.len().min(elements);
        self.content.pool.fill(worker, self.number(iteration, block), &mut out[..length]);
    }

    /// Writes the gradients of a block times `scale`, rounded as [`fixed`] defines it, into `out`, as many as it has
    /// room for. Returns how many of these are clipped.
    #[inline]
    pub fn fixed(&self, worker: u32, iteration: u32, block: u32, scale: f32, out: &mut [i32]) -> u32 {
        self.block(worker, iteration, block).write(scale, out)
    }

    /// The same as big-endian bytes: as Trio-ML's and SwitchML's packets carry them.
    #[inline]
    pub fn fixed_be(&self, worker: u32, iteration: u32, block: u32, scale: f32, out: &mut [u8]) -> u32 {
        self.block(worker, iteration, block).write_be(scale, out)
    }

    /// The block's exponent, which is [`fixed::exponent_of`] its gradients.
    #[inline]
    pub fn exponent(&self, worker: u32, iteration: u32, block: u32) -> i8 {
        let Block { numbers, factor, peak } = self.block(worker, iteration, block);
        // A shorter block may not hold what is largest in a whole window.
        let peak = if numbers.len() == usize::from(self.elements_per_packet()) { peak } else { fixed::peak(numbers) };
        // The product is monotone, so the largest number has the largest gradient.
        fixed::exponent_of_peak(peak * factor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dense, DensePlan};
    use super::*;
    use crate::dense::fixed::{ATP_SCALE, exponent_of, quantise, scale_of};
    use std::collections::HashSet;

    fn dense() -> Dense {
        let plan = DensePlan { elements_total: 1000, elements_per_packet: 300, iterations: 50, ..DensePlan::default() };
        Dense::new(plan, Seed(4)).unwrap()
    }

    #[test]
    fn all_forms_of_a_block_are_of_the_same_gradients() {
        let dense = dense();
        let mut contents = HashSet::new();
        for (worker, iteration, block) in (0..6).flat_map(|w| (0..50).flat_map(move |i| (0..4).map(move |b| (w, i, b))))
        {
            let elements = usize::from(dense.elements_of(block));
            assert_eq!(elements, if block == 3 { 100 } else { 300 });
            let mut floats = vec![9.0; 302];
            dense.floats(worker, iteration, block, &mut floats);
            assert!(floats[elements..].iter().all(|x| *x == 9.0), "only what the block has");
            floats.truncate(elements);
            assert!(contents.insert(floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>()));
            let mut bytes = vec![9; 4 * 302];
            dense.floats_le(worker, iteration, block, &mut bytes);
            assert_eq!(bytes[..4 * elements], floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
            assert!(bytes[4 * elements..].iter().all(|b| *b == 9));
            let exponent = dense.exponent(worker, iteration, block);
            assert_eq!(exponent, exponent_of(&floats));
            // The last two clip.
            for scale in [ATP_SCALE, scale_of(exponent, 6) as f32, 1e14, f32::INFINITY] {
                let (mut expected, mut numbers) = (vec![0; elements], vec![9; 302]);
                let clipped = quantise(&floats, scale, &mut expected);
                assert_eq!(dense.fixed(worker, iteration, block, scale, &mut numbers), clipped);
                assert_eq!(clipped > 0, scale >= 1e14);
                assert_eq!((&numbers[..elements], &numbers[elements..]), (&expected[..], &[9; 202][..302 - elements]));
                let mut bytes = vec![9; 4 * 302];
                assert_eq!(dense.fixed_be(worker, iteration, block, scale, &mut bytes), clipped);
                assert_eq!(bytes[..4 * elements], expected.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<_>>());
                assert!(bytes[4 * elements..].iter().all(|b| *b == 9));
            }
        }
    }

    #[test]
    fn what_there_is_not_does_no_harm() {
        let dense = dense();
        let mut out = [1; 8];
        assert_eq!(dense.fixed(u32::MAX, u32::MAX, 4, 1.0, &mut out), 0);
        assert_eq!(out, [1; 8], "a block that is none has no elements");
        dense.fixed(u32::MAX, u32::MAX, 0, ATP_SCALE, &mut out);
        assert_ne!(out, [1; 8]);
        assert_eq!(dense.exponent(0, 0, u32::MAX), -126);
    }
}
