//! The memory of gaps: autocorrelation at small lags, all workers together.

use pktgen_core::registry::Named;

use super::sample::Sample;
use super::{PropertyFinding, TraceProperty};

const LAGS: usize = 10;
/// Difference that does not matter.
const TOLERANCE: f64 = 0.05;
/// The autocorrelation of n independent gaps has a standard deviation of 1/√n; that of the original is an estimate, too.
const CHANCE: f64 = 3.0;

pub(super) struct Autocorrelation;

impl Named for Autocorrelation {
    fn name(&self) -> &'static str {
        "autocorrelation"
    }
    fn about(&self) -> &'static str {
        "autocorrelation of a worker's gaps, lags 1 to 10"
    }
}

impl TraceProperty for Autocorrelation {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding> {
        let [one, other] = [original, scaled].map(|sample| correlations(&sample.gaps()));
        vec![match (one, other) {
            (None, _) => PropertyFinding::not_applicable(self, "no worker of the original has enough gaps that differ"),
            (_, None) => PropertyFinding::lost(self, "no worker of the scaled trace has enough gaps that differ"),
            (Some((one, n)), Some((other, m))) => {
                let most = one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                let limit = TOLERANCE + CHANCE / (n.min(m) as f64).sqrt();
                PropertyFinding::judged(self, "largest difference at lags 1 to 10", most, limit)
            }
        }]
    }
}

/// Returns the autocorrelation at each lag, weighted by the variance of each worker, and the number of gaps; `None` if
/// no worker has twice as many gaps as lags, or none varies by a hundredth.
fn correlations(gaps: &[Vec<f64>]) -> Option<([f64; LAGS], usize)> {
    let (mut products, mut squares, mut n) = ([0.0; LAGS], 0.0, 0);
    for own in gaps.iter().filter(|own| own.len() >= 2 * LAGS) {
        let off: Vec<_> = own.iter().map(|gap| gap - 1.0).collect();
        squares += off.iter().map(|x| x * x).sum::<f64>();
        for (lag, sum) in products.iter_mut().enumerate() {
            *sum += off.iter().zip(&off[lag + 1..]).map(|(a, b)| a * b).sum::<f64>();
        }
        n += own.len();
    }
    (squares > 1e-4 * n as f64).then(|| (products.map(|sum| sum / squares), n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternating_gaps_have_a_memory() {
        let gaps = [0.5, 1.5].repeat(500);
        let (found, n) = correlations(&[gaps.clone(), vec![1.0]]).unwrap();
        assert_eq!(n, 1000);
        assert!((found[0] + 0.999).abs() < 1e-9 && (found[1] - 0.998).abs() < 1e-9, "{found:?}");
        assert!(correlations(&[vec![1.0; 100]]).is_none());
        assert!(correlations(&[gaps[..10].to_vec()]).is_none());
    }
}
