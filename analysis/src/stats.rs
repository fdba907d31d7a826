//! Medians, bootstrap intervals over seeds, quantiles and Jain's index.
//!
//! Called by [`crate::sweep`] and the metrics. Deterministic: the bootstrap's seed is a constant.

use pktgen_generator::index::mix;
use serde::{Deserialize, Serialize};

/// Resamples of a bootstrap.
pub const RESAMPLES: usize = 2000;

/// A median with its 95 % bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The median over the seeds.
    pub median: f64,
    /// Lower end of the interval.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// How many seeds.
    pub n: usize,
}

impl Interval {
    /// Is `value` inside, ends included?
    pub fn holds(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
#[derive(Debug, Clone)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Uniform in `0..n`; the bias of the multiplication is below 2⁻³² for the sizes here.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (((self.next_u64() >> 32) * n as u64) >> 32) as usize
    }
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

/// The median of `values`; none if there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| median_of_sorted(&sorted))
}

/// The median of `values` with its 95 % percentile-bootstrap interval; none if there are no values.
pub fn interval(values: &[f64]) -> Option<Interval> {
    let n = values.len();
    let median = median(values)?;
    if values.iter().all(|value| *value == values[0]) {
        return Some(Interval { median, lo: median, hi: median, n });
    }
    let mut random = SplitMix::new(0x7061_6972_6564);
    let mut sample = vec![0.0; n];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            sample.fill_with(|| values[random.below(n)]);
            sample.sort_unstable_by(f64::total_cmp);
            median_of_sorted(&sample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| medians[((share * RESAMPLES as f64) as usize).min(RESAMPLES - 1)];
    Some(Interval { median, lo: at(0.025), hi: at(0.975), n })
}

/// The value at quantile `q` of sorted values, by nearest rank; none if there are none.
pub fn quantile_of_sorted<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The mean; none of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Jain's index `μ²/(μ²+σ²)` with the population variance: 1 if all are equal, 1/n if one has all.
pub fn jain(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64;
    let whole = mean * mean + variance;
    (whole > 0.0).then(|| mean * mean / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles_by_hand() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        let sorted: Vec<u32> = (1..=100).collect();
        assert_eq!(quantile_of_sorted(&sorted, 0.99), Some(99));
        assert_eq!(quantile_of_sorted(&sorted, 0.5), Some(50));
        assert_eq!(quantile_of_sorted(&sorted, 0.0), Some(1));
        assert_eq!(quantile_of_sorted::<u32>(&[], 0.5), None);
    }

    #[test]
    fn the_interval_of_five_is_their_range_of_likely_medians() {
        // Of 5 values, the resampled median is the smallest with probability 0.0579 (at least 3 of 5
        // draws hit it), so the 2.5 % point is the smallest and the 97.5 % point the largest.
        let five = interval(&[5.0, 1.0, 2.0, 4.0, 3.0]).unwrap();
        assert_eq!(five, Interval { median: 3.0, lo: 1.0, hi: 5.0, n: 5 });
        // Of 25 values 1..=25, the interval is 8..=18 up to one rank by the binomial.
        let values: Vec<f64> = (1..=25).map(f64::from).collect();
        let wide = interval(&values).unwrap();
        assert!((7.0..=9.0).contains(&wide.lo) && (17.0..=19.0).contains(&wide.hi), "{wide:?}");
        assert_eq!(interval(&values), Some(wide));
        assert_eq!(interval(&[7.0]), Some(Interval { median: 7.0, lo: 7.0, hi: 7.0, n: 1 }));
        assert!(wide.holds(13.0) && !wide.holds(2.0));
    }

    #[test]
    fn jains_index() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), Some(1.0));
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]).unwrap() - 0.25).abs() < 1e-12);
        // (1+3)²/(2·(1+9)) = 0.8.
        assert!((jain(&[1.0, 3.0]).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!((jain(&[]), jain(&[0.0])), (None, None));
    }
}
