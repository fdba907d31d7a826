//! Steps of the parameter server's weights by a gradient.

/// The rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// `g_a = avg(g_a, g)`, `w = w + γ·g_a` (OLAF §2.1).
    Average,
    /// Adam (Kingma and Ba 2015, Algorithm 1) with its usual constants, uphill.
    Adam,
}

/// Decay of Adam's means of gradients and of their squares.
const KEEP: (f32, f32) = (0.9, 0.999);
const EPSILON: f32 = 1e-8;

/// State of a rule; empty before the first gradient.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// g_a, or Adam's mean of gradients.
    pub(super) average: Vec<f32>,
    /// Mean of squared gradients.
    square: Vec<f32>,
    /// Steps so far.
    steps: i32,
}

impl Step {
    /// Moves `weights` by the gradient `own`, with γ = `rate`; both have the same length, and weights may have grown.
    pub(super) fn take(self, memory: &mut Memory, weights: &mut [f32], own: &[f32], rate: f32) {
        let known = memory.average.len();
        if known < own.len() {
            memory.average.resize(own.len(), 0.0);
            memory.square.resize(own.len(), 0.0);
        }
        memory.steps = memory.steps.saturating_add(1);
        let Memory { average, square, steps } = memory;
        match self {
            // The first gradient of an element is taken as it is.
            Step::Average => {
                for (i, g) in own.iter().enumerate() {
                    average[i] = if i < known { (average[i] + g) / 2.0 } else { *g };
                    weights[i] += rate * average[i];
                }
            }
            Step::Adam => {
                let (begun, spread) = (1.0 - KEEP.0.powi(*steps), 1.0 - KEEP.1.powi(*steps));
                for (i, g) in own.iter().enumerate() {
                    average[i] = KEEP.0 * average[i] + (1.0 - KEEP.0) * g;
                    square[i] = KEEP.1 * square[i] + (1.0 - KEEP.1) * g * g;
                    weights[i] += rate * (average[i] / begun) / ((square[i] / spread).sqrt() + EPSILON);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_definitions() {
        let (mut memory, mut weights) = (Memory::default(), vec![1.0, 1.0]);
        Step::Average.take(&mut memory, &mut weights, &[2.0, -4.0], 0.5);
        assert_eq!(weights, [2.0, -1.0]);
        Step::Average.take(&mut memory, &mut weights, &[0.0, 0.0], 0.5);
        assert_eq!((weights, memory.average), (vec![2.5, -2.0], vec![1.0, -2.0]));

        // Adam's first step is the rate, whatever the gradient; the second by hand.
        let (mut memory, mut weights) = (Memory::default(), vec![0.0, 0.0]);
        Step::Adam.take(&mut memory, &mut weights, &[3.0, -0.01], 0.1);
        assert!((weights[0] - 0.1).abs() < 1e-6 && (weights[1] + 0.1).abs() < 1e-6, "{weights:?}");
        Step::Adam.take(&mut memory, &mut weights, &[1.0, 0.0], 0.1);
        let (mean, square) = ((0.9 * 0.3 + 0.1) / 0.19, (0.999 * 0.009 + 0.001) / (1.0 - 0.999f64.powi(2)));
        let expected = 0.1 + 0.1 * mean / square.sqrt();
        assert!((f64::from(weights[0]) - expected).abs() < 1e-5, "{} {expected}", weights[0]);
    }
}
