//! Gradients as a pure function of the update: model, seed → values.
//!
//! A pool of numbers with the shape of measured reinforcement-learning gradients (signs even, log2 of
//! the magnitude normal around −11 with deviation 3: 98 % between −18 and −4) is drawn once; an
//! update takes a window of it, times a factor of its own. So content differs from update to
//! update, costs one pass of a multiplication, and anyone can compute it again from worker and seq.

use rand_distr::{Distribution, Normal};

use crate::seed::{Seed, mix};

/// Windows start at one of this many places.
pub(crate) const STARTS: usize = 1 << 12;

/// The numbers that all gradients of a run are windows of.
#[derive(Debug, Clone)]
pub struct GradientPool {
    numbers: Vec<f32>,
}

impl GradientPool {
    /// A pool for updates of up to `elements` gradients.
    pub fn new(seed: Seed, elements: usize) -> Self {
        let mut stream = seed.stream("gradient.pool", 0, 0);
        let (Ok(sign), Ok(log2)) = (Normal::new(0.0f64, 1.0), Normal::new(-11.0f64, 3.0)) else {
            unreachable!("both deviations are positive")
        };
        let mut draw = || {
            let magnitude = log2.sample(&mut stream).exp2();
            if sign.sample(&mut stream) < 0.0 { -magnitude as f32 } else { magnitude as f32 }
        };
        GradientPool { numbers: (0..STARTS + elements).map(|_| draw()).collect() }
    }

    /// The window of update `seq` of `worker`. Gradients in another form are made from it; each is
    /// `number * factor` in f32.
    #[inline]
    pub fn window(&self, worker: u32, seq: u32) -> Window<'_> {
        let key = mix(u64::from(worker) << 32 | u64::from(seq));
        let start = key as usize % STARTS;
        // 0.5 to 1.5, with 23 bits to tell updates with the same window apart.
        let factor = f32::from_bits((key >> 41) as u32 & 0x7f_ffff | 0x3f80_0000) - 0.5;
        Window { start, numbers: &self.numbers[start..], factor }
    }

    /// Writes the gradients of update `seq` of `worker` into `values`, little-endian f32s.
    #[inline]
    pub fn fill(&self, worker: u32, seq: u32, values: &mut [u8]) {
        let Window { numbers, factor, .. } = self.window(worker, seq);
        let (values, _) = values.as_chunks_mut::<4>();
        for (value, number) in values.iter_mut().zip(numbers) {
            *value = (number * factor).to_le_bytes();
        }
    }

    /// The numbers from place `start` on.
    pub(crate) fn from(&self, start: usize) -> &[f32] {
        &self.numbers[start..]
    }
}

/// Writes recorded gradients into `values`, little-endian f32s, again and again until it is full: real values in every lane, also where a
/// frame has more of them than the recording. There is at least one.
#[inline]
pub(crate) fn tile(recorded: &[f32], values: &mut [u8]) {
    let numbers = values.as_chunks_mut::<4>().0;
    match recorded.get(..numbers.len()) {
        Some(recorded) => numbers.iter_mut().zip(recorded).for_each(|(value, number)| *value = number.to_le_bytes()),
        None => tile_again(recorded, values),
    }
}

#[inline(never)]
fn tile_again(recorded: &[f32], values: &mut [u8]) {
    for part in values.chunks_mut(recorded.len() * 4) {
        for (value, number) in part.as_chunks_mut::<4>().0.iter_mut().zip(recorded) {
            *value = number.to_le_bytes();
        }
    }
}

/// What the gradients of an update are made of.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    /// Where it starts in the pool.
    pub start: usize,
    /// The numbers from there on, at least as many as the pool was made for.
    pub numbers: &'a [f32],
    /// What each is multiplied with, from 0.5 to 1.5.
    pub factor: f32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn updates_have_distinct_repeatable_content() {
        let pool = GradientPool::new(Seed(1), 46);
        let mut seen = HashSet::new();
        let mut values = vec![0u8; 46 * 4];
        for worker in 0..27 {
            for seq in 0..500 {
                pool.fill(worker, seq, &mut values);
                assert!(seen.insert(values.clone()), "worker {worker} seq {seq}");
            }
        }
        pool.fill(3, 7, &mut values);
        assert!(seen.contains(&values));
    }

    #[test]
    fn the_pool_has_the_measured_shape() {
        let pool = GradientPool::new(Seed(1), 4096);
        let mut logs: Vec<f32> = pool.numbers.iter().map(|x| x.abs().log2()).collect();
        logs.sort_by(f32::total_cmp);
        let quantile = |q: f64| logs[(q * (logs.len() - 1) as f64) as usize];
        assert!((-19.0..-17.0).contains(&quantile(0.01)), "{}", quantile(0.01));
        assert!((-5.0..-3.0).contains(&quantile(0.99)), "{}", quantile(0.99));
        let negative = pool.numbers.iter().filter(|x| **x < 0.0).count();
        assert!((0.45..0.55).contains(&(negative as f64 / logs.len() as f64)));
    }
}
