//! Estimates of a metric at settings that were not run: a plane through those that were, and a Gaussian process for the residuals (Matérn
//! 5/2, one length per parameter), with its own uncertainty. Lengths and noise are those with the highest likelihood.

use crate::cholesky::Cholesky;
use crate::minimum::minimum;

/// Shortest and longest length of a parameter's influence, in widths of the region.
const LENGTHS: (f64, f64) = (0.1, 30.0);
/// Range of the share of the variance that may be noise of single values.
const NOISES: (f64, f64) = (1e-7, 1.0);
/// Maximum number of evaluations of the likelihood.
const STEPS: usize = 120;

/// A box of settings, in shares of the ranges: the part of the whole under consideration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Region(pub(crate) Vec<(f64, f64)>);

impl Region {
    /// Returns the region of all of `dimensions` ranges.
    pub(crate) fn whole(dimensions: usize) -> Self {
        Region(vec![(0.0, 1.0); dimensions])
    }

    /// Returns whether `at` is inside, or outside by at most the share `beyond` of the width.
    pub(crate) fn holds(&self, at: &[f64], beyond: f64) -> bool {
        self.0.iter().zip(at).all(|((low, high), x)| {
            let more = beyond * (high - low) + 1e-12;
            (low - more..=high + more).contains(x)
        })
    }

    /// Returns the setting at these shares of the region.
    pub(crate) fn at(&self, shares: &[f64]) -> Vec<f64> {
        self.0.iter().zip(shares).map(|((low, high), share)| low + share * (high - low)).collect()
    }

    fn shares(&self, at: &[f64]) -> Vec<f64> {
        self.0.iter().zip(at).map(|((low, high), x)| (x - low) / (high - low).max(1e-9)).collect()
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Emulator {
    region: Region,
    points: Vec<Vec<f64>>,
    /// The plane: its value at the origin, and its slopes.
    plane: Vec<f64>,
    shape: Shape,
    factor: Cholesky,
    /// The inverse covariance times the residuals of the plane.
    weights: Vec<f64>,
    /// Variance of the residuals of the plane.
    variance: f64,
}

/// The parameters of a fit.
#[derive(Debug, Clone)]
struct Shape {
    lengths: Vec<f64>,
    noise: f64,
}

impl Emulator {
    /// Fits an emulator to values at settings within `region`; none if there are fewer than the number of parameters plus two.
    /// Choices alone have one setting in each branch, which is enough.
    pub(crate) fn fit(region: &Region, points: &[&[f64]], values: &[f64]) -> Option<Self> {
        let dimensions = region.0.len();
        if points.len() < if dimensions == 0 { 1 } else { dimensions + 2 } {
            return None;
        }
        let points: Vec<Vec<f64>> = points.iter().map(|at| region.shares(at)).collect();
        let plane = plane(&points, values)?;
        let left: Vec<f64> = points.iter().zip(values).map(|(at, value)| value - on_plane(&plane, at)).collect();
        let scale = left.iter().map(|it| it * it).sum::<f64>() / left.len() as f64;
        let size = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        // The plane explains everything: the residuals are rounding errors.
        let scale = scale.max((size * 1e-9).powi(2)).max(f64::MIN_POSITIVE);
        let unit: Vec<f64> = left.iter().map(|it| it / scale.sqrt()).collect();
        let shape_of = |logs: &[f64]| Shape {
            lengths: logs[..dimensions].iter().map(|log| log.exp()).collect(),
            noise: logs[dimensions].exp(),
        };
        let unlikely = |logs: &[f64]| negative_likelihood(&points, &unit, &shape_of(logs));
        let mut bounds = vec![(LENGTHS.0.ln(), LENGTHS.1.ln()); dimensions];
        bounds.push((NOISES.0.ln(), NOISES.1.ln()));
        // Starts: a smooth function with little noise, and almost only noise.
        let starts = [(1.0f64, 1e-3f64), (4.0, 0.3)];
        let found = starts.map(|(length, noise)| {
            let mut start = vec![length.ln(); dimensions];
            start.push(noise.ln());
            minimum(unlikely, &start, &bounds, STEPS)
        });
        let logs = if found[0].1 <= found[1].1 { &found[0].0 } else { &found[1].0 };
        let shape = shape_of(logs);
        let factor = Cholesky::of(covariance(&points, &shape), points.len())?;
        let variance = scale * factor.quadratic(&mut unit.clone()) / unit.len() as f64;
        let mut weights = left;
        factor.solve(&mut weights);
        Some(Emulator { region: region.clone(), points, plane, shape, factor, weights, variance })
    }

    /// Returns the variance of the noise of single values.
    pub(crate) fn scattered(&self) -> f64 {
        self.variance * self.shape.noise
    }

    /// Returns for each of its values the error of an emulator of the others, in deviations up to a factor (Rasmussen and Williams 2006,
    /// equation 5.12).
    pub(crate) fn left_out(&self) -> Vec<f64> {
        let inverse = |i: usize| {
            let mut unit = vec![0.0; self.weights.len()];
            unit[i] = 1.0;
            self.factor.quadratic(&mut unit)
        };
        self.weights.iter().enumerate().map(|(i, weight)| weight / inverse(i).sqrt()).collect()
    }

    /// Returns the expected value at a setting, and its variance.
    pub(crate) fn at(&self, at: &[f64]) -> (f64, f64) {
        let at = self.region.shares(at);
        let mut near: Vec<f64> = self.points.iter().map(|point| kernel(point, &at, &self.shape.lengths)).collect();
        let mean = on_plane(&self.plane, &at) + near.iter().zip(&self.weights).map(|(k, w)| k * w).sum::<f64>();
        let known = self.factor.quadratic(&mut near);
        (mean, self.variance * (1.0 - known).max(0.0))
    }

    /// Returns the variance of the difference of the values at two settings, which is small where both have the same error (Rasmussen and
    /// Williams 2006, equation 2.24: the covariance at both).
    pub(crate) fn difference(&self, a: &[f64], b: &[f64]) -> f64 {
        let (a, b, lengths) = (self.region.shares(a), self.region.shares(b), &self.shape.lengths);
        let nearer = |point: &Vec<f64>| kernel(point, &a, lengths) - kernel(point, &b, lengths);
        let mut nearer: Vec<f64> = self.points.iter().map(nearer).collect();
        let known = self.factor.quadratic(&mut nearer);
        self.variance * (2.0 - 2.0 * kernel(&a, &b, lengths) - known).max(0.0)
    }
}

/// The Matérn 5/2 kernel.
fn kernel(a: &[f64], b: &[f64], lengths: &[f64]) -> f64 {
    let squares: f64 = a.iter().zip(b).zip(lengths).map(|((a, b), length)| ((a - b) / length).powi(2)).sum();
    let r = (5.0 * squares).sqrt();
    (1.0 + r + r * r / 3.0) * (-r).exp()
}

fn covariance(points: &[Vec<f64>], shape: &Shape) -> Vec<f64> {
    let n = points.len();
    let mut rows = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            rows[i * n + j] = kernel(&points[i], &points[j], &shape.lengths);
        }
        rows[i * n + i] += shape.noise + 1e-9;
    }
    rows
}

/// Returns -2 times the logarithm of the likelihood, up to a constant, with the best variance.
fn negative_likelihood(points: &[Vec<f64>], unit: &[f64], shape: &Shape) -> f64 {
    let n = points.len();
    let Some(factor) = Cholesky::of(covariance(points, shape), n) else { return f64::INFINITY };
    let variance = factor.quadratic(&mut unit.to_vec()) / n as f64;
    n as f64 * variance.max(f64::MIN_POSITIVE).ln() + factor.log_determinant()
}

/// Returns the least-squares plane: its value at the origin, and its slopes.
fn plane(points: &[Vec<f64>], values: &[f64]) -> Option<Vec<f64>> {
    let n = points.first()?.len() + 1;
    let (mut normal, mut right) = (vec![0.0; n * n], vec![0.0; n]);
    for (at, value) in points.iter().zip(values) {
        let row: Vec<f64> = std::iter::once(1.0).chain(at.iter().copied()).collect();
        for i in 0..n {
            right[i] += row[i] * value;
            (0..n).for_each(|j| normal[i * n + j] += row[i] * row[j]);
        }
    }
    // A constant parameter has no slope.
    (0..n).for_each(|i| normal[i * n + i] += 1e-9 * points.len() as f64);
    Cholesky::of(normal, n)?.solve(&mut right);
    Some(right)
}

fn on_plane(plane: &[f64], at: &[f64]) -> f64 {
    plane[0] + plane[1..].iter().zip(at).map(|(slope, x)| slope * x).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::Sequence;

    fn fitted(n: usize, function: impl Fn(&[f64]) -> f64) -> Emulator {
        let mut sequence = Sequence::new(2, 0);
        let points: Vec<Vec<f64>> = (0..n).map(|_| sequence.next_point()).collect();
        let values: Vec<f64> = points.iter().map(|at| function(at)).collect();
        let points: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
        Emulator::fit(&Region::whole(2), &points, &values).expect("a fit")
    }

    #[test]
    fn a_smooth_function_is_known_between_its_points_and_less_outside() {
        let wave = |at: &[f64]| 3.0 + (4.0 * at[0]).sin() + at[1] * at[1];
        let emulator = fitted(40, wave);
        for i in 0..50 {
            let at = [0.1 + 0.016 * f64::from(i), 0.9 - 0.015 * f64::from(i)];
            let (mean, variance) = emulator.at(&at);
            assert!((mean - wave(&at)).abs() < 0.02, "{at:?}: {mean} {}", wave(&at));
            assert!((mean - wave(&at)).abs() < 5.0 * variance.sqrt() + 1e-3);
        }
        assert!(emulator.at(&[3.0, 3.0]).1 > 10.0 * emulator.at(&[0.5, 0.5]).1);
    }

    #[test]
    fn the_error_of_a_difference_lacks_what_both_values_have_in_common() {
        // Steep along the first number, a line along the second.
        let emulator = fitted(20, |at| 0.3 / (at[0] + 0.03) + at[1]);
        for at in [0.5, 0.7] {
            let (low, high) = ([at, 0.0], [at, 1.0]);
            let apart = emulator.difference(&low, &high);
            assert!(apart < 0.6 * (emulator.at(&low).1 + emulator.at(&high).1), "{at}: {apart}");
            assert!((apart - emulator.difference(&high, &low)).abs() < 1e-9, "{at}");
            assert!(emulator.difference(&low, &low) < 1e-12, "{at}");
        }
    }

    #[test]
    fn a_plane_is_exact_and_a_constant_has_no_slope() {
        let emulator = fitted(12, |at| 7.0 - 2.0 * at[0] + 5.0 * at[1]);
        assert!((emulator.at(&[0.25, 0.75]).0 - 10.25).abs() < 1e-5);
        assert!((fitted(12, |_| 4.0).at(&[0.9, 0.1]).0 - 4.0).abs() < 1e-6);
    }

    #[test]
    fn too_few_points_are_none() {
        let points: [&[f64]; 3] = [&[0.0, 0.0], &[1.0, 0.0], &[0.0, 1.0]];
        assert!(Emulator::fit(&Region::whole(2), &points, &[1.0, 2.0, 3.0]).is_none());
    }
}
