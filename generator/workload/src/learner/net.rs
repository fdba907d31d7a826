//! A small network: layers that see all of the one before, tanh between them.

use rand_distr::{Distribution, StandardNormal};

use crate::seed::Stream;

/// The shape; weights are apart. Of each layer first the weights of every input, then the offsets.
#[derive(Debug, Clone)]
pub struct Net {
    /// Inputs, hidden layers, outputs.
    sizes: Vec<usize>,
}

impl Net {
    /// With these numbers of inputs, of each hidden layer, and of outputs.
    pub fn new(sizes: Vec<usize>) -> Self {
        Net { sizes }
    }

    /// Weights and offsets in all.
    pub fn parameters(&self) -> usize {
        self.layers().map(|(inputs, outputs)| (inputs + 1) * outputs).sum()
    }

    /// What all layers give, in all.
    pub fn units(&self) -> usize {
        self.sizes[1..].iter().sum()
    }

    /// What the last layer gives.
    pub fn outputs(&self) -> usize {
        self.sizes.last().copied().unwrap_or(0)
    }

    fn layers(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> + ExactSizeIterator<Item = (usize, usize)> {
        self.sizes.windows(2).map(|pair| (pair[0], pair[1]))
    }

    /// Weights to begin with: normal, so that sums of them have a deviation near 1; those of the outputs are a tenth of
    /// that, so that a policy begins with chance. Offsets are 0.
    pub fn first(&self, stream: &mut Stream) -> Vec<f32> {
        let mut weights = Vec::with_capacity(self.parameters());
        let last = self.sizes.len() - 2;
        for (layer, (inputs, outputs)) in self.layers().enumerate() {
            let scale = if layer == last { 0.1 } else { 1.0 } / (inputs as f64).sqrt();
            for _ in 0..inputs * outputs {
                let normal: f64 = StandardNormal.sample(stream);
                weights.push((normal * scale) as f32);
            }
            weights.extend(std::iter::repeat_n(0.0, outputs));
        }
        weights
    }

    /// What every layer gives for `input`, one after the other; the last ones are the outputs.
    pub fn forward(&self, weights: &[f32], input: &[f32], units: &mut [f32]) {
        let (mut before, mut weights, mut units) = (input, weights, units);
        let last = self.sizes.len() - 2;
        for (layer, (inputs, outputs)) in self.layers().enumerate() {
            let (own, later) = weights.split_at((inputs + 1) * outputs);
            let (now, rest) = std::mem::take(&mut units).split_at_mut(outputs);
            let (rows, offsets) = own.split_at(inputs * outputs);
            now.copy_from_slice(offsets);
            for (row, x) in rows.chunks_exact(outputs).zip(before) {
                now.iter_mut().zip(row).for_each(|(unit, weight)| *unit += weight * x);
            }
            if layer != last {
                now.iter_mut().for_each(|unit| *unit = unit.tanh());
            }
            (before, weights, units) = (now, later, rest);
        }
    }

    /// Adds to `gradient` what the weights do to a number of which `slope` is the derivative by the outputs, at `input`,
    /// where the layers give `units`.
    pub fn backward(&self, weights: &[f32], input: &[f32], units: &[f32], slope: &[f32], gradient: &mut [f32]) {
        let (mut end, mut given) = (weights.len(), units.len());
        let mut slope = slope.to_vec();
        for (layer, (inputs, outputs)) in self.layers().enumerate().rev() {
            let start = end - (inputs + 1) * outputs;
            given -= outputs;
            let before = if layer == 0 { input } else { &units[given - inputs..given] };
            let (rows, offsets) = gradient[start..end].split_at_mut(inputs * outputs);
            offsets.iter_mut().zip(&slope).for_each(|(sum, d)| *sum += d);
            for (row, x) in rows.chunks_exact_mut(outputs).zip(before) {
                row.iter_mut().zip(&slope).for_each(|(sum, d)| *sum += x * d);
            }
            if layer > 0 {
                let rows = weights[start..end].chunks_exact(outputs).zip(before);
                // The derivative of tanh is 1 − tanh².
                let through =
                    |(row, x): (&[f32], &f32)| (1.0 - x * x) * row.iter().zip(&slope).map(|(w, d)| w * d).sum::<f32>();
                slope = rows.map(through).collect();
            }
            end = start;
        }
    }
}
