//! Medians, bootstrap intervals over enough seeds, quantiles and Jain's index.
//!
//! Called by `pktgen_report::sweep` and the metrics. Deterministic: the bootstrap's seed is a constant.

use pktgen_core::quantile::nearest_rank;
use pktgen_core::record::{Bound, Published};
use pktgen_core::seed::mix;
use serde::{Deserialize, Serialize};

/// Number of resamples of a bootstrap.
pub const RESAMPLES: usize = 2000;

/// Minimum number of seeds, or pairs of runs of one seed, for any inference: an interval, better, worse, inside, outside.
pub const SEEDS_MIN: usize = 5;

/// A 95 % interval. Created only by [`estimate`], from [`SEEDS_MIN`] seeds or from runs without chance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

/// A median over seeds, with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median over the seeds.
    pub median: f64,
    /// Its 95 % bootstrap interval; `None` with fewer than [`SEEDS_MIN`] seeds.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// The number of seeds.
    pub n: usize,
    /// Whether no run used random numbers, so that any seed gives this value: the interval is the value.
    pub exact: bool,
}

impl Estimate {
    /// Whether `value` is inside the interval, including the ends; `None` without an interval.
    pub fn holds(&self, value: f64) -> Option<bool> {
        self.interval.map(|interval| interval.lo <= value && value <= interval.hi)
    }

    /// Returns the interval if it has a width.
    pub fn spread(&self) -> Option<Interval> {
        self.interval.filter(|interval| interval.lo < interval.hi)
    }
}

/// Describes why `n` seeds are not compared.
pub fn too_few(n: usize) -> String {
    match n {
        1 => "one seed: not compared".to_owned(),
        _ => format!("{n} seeds: not compared, {SEEDS_MIN} are needed"),
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small and portable.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Creates a generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// Returns the next number.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Returns a uniform number in `0..n`; the bias of the multiplication is below 2⁻³² for the sizes used here.
    pub fn below(&mut self, n: usize) -> usize {
        (((self.next_u64() >> 32) * n as u64) >> 32) as usize
    }
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { sorted[half - 1].midpoint(sorted[half]) }
}

/// Returns the median of `values`; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| median_of_sorted(&sorted))
}

/// Returns the median of `values`, one per seed, with its 95 % percentile-bootstrap interval; `None` without values.
/// `exact`: the runs state that no chance was involved, which is ignored unless all values are equal.
pub fn estimate(values: &[f64], exact: bool) -> Option<Estimate> {
    let n = values.len();
    let median = median(values)?;
    let same = values.iter().all(|value| *value == values[0]);
    let exact = exact && same;
    let interval = match (n >= SEEDS_MIN || exact, same) {
        (false, _) => None,
        (true, true) => Some(Interval { lo: median, hi: median }),
        (true, false) => Some(bootstrap(values)),
    };
    Some(Estimate { median, interval, n, exact })
}

fn bootstrap(values: &[f64]) -> Interval {
    let mut random = SplitMix::new(0x7061_6972_6564);
    let mut sample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            sample.fill_with(|| values[random.below(values.len())]);
            sample.sort_unstable_by(f64::total_cmp);
            median_of_sorted(&sample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| medians[((share * RESAMPLES as f64) as usize).min(RESAMPLES - 1)];
    Interval { lo: at(0.025), hi: at(0.975) }
}

/// Returns the value at quantile `q` of sorted values, by nearest rank; `None` without values.
pub fn quantile_of_sorted<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    sorted.get(nearest_rank(q, sorted.len()) - 1).copied()
}

/// Returns the mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns Jain's index `μ²/(μ²+σ²)` with the population variance: 1 if all are equal, 1/n if one has everything.
pub fn jain(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64;
    let whole = mean * mean + variance;
    (whole > 0.0).then(|| mean * mean / whole)
}

/// Whether the interval reaches the published value of `metric`, which was rounded for print, or, for a bound, whether the
/// median is on the correct side. `None` with too few seeds, or without a value.
pub fn agrees(ours: &Estimate, published: &Published, metric: &str) -> Option<bool> {
    let Interval { lo, hi } = ours.interval?;
    let (value, (least, most)) = (*published.values.get(metric)?, published.printed(metric)?);
    Some(match published.bound {
        None => lo <= most && least <= hi,
        Some(Bound::Above) => ours.median >= value,
        Some(Bound::Below) => ours.median <= value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles_by_hand() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert!(median(&[1e308, 1.2e308]).is_some_and(|middle| (middle / 1.1e308 - 1.0).abs() < 1e-12));
        let sorted: Vec<u32> = (1..=100).collect();
        assert_eq!(quantile_of_sorted(&sorted, 0.99), Some(99));
        assert_eq!(quantile_of_sorted(&sorted, 0.5), Some(50));
        assert_eq!(quantile_of_sorted(&sorted, 0.07), Some(7));
        assert_eq!(quantile_of_sorted(&sorted, 0.0), Some(1));
        assert_eq!(quantile_of_sorted::<u32>(&[], 0.5), None);
    }

    #[test]
    fn the_interval_of_five_is_their_range_of_likely_medians() {
        // Of 5 values, the resampled median is the smallest with probability 0.0579 (at least 3 of 5
        // draws hit it), so the 2.5 % point is the smallest and the 97.5 % point the largest.
        let five = estimate(&[5.0, 1.0, 2.0, 4.0, 3.0], false).unwrap();
        assert_eq!(five, Estimate { median: 3.0, interval: Some(Interval { lo: 1.0, hi: 5.0 }), n: 5, exact: false });
        // Of 25 values 1..=25, the interval is 8..=18 up to one rank by the binomial.
        let values: Vec<f64> = (1..=25).map(f64::from).collect();
        let wide = estimate(&values, false).unwrap();
        let ends = wide.interval.unwrap();
        assert!((7.0..=9.0).contains(&ends.lo) && (17.0..=19.0).contains(&ends.hi), "{wide:?}");
        assert_eq!(estimate(&values, false), Some(wide));
        assert_eq!((wide.holds(13.0), wide.holds(2.0)), (Some(true), Some(false)));
    }

    #[test]
    fn print_rounds() {
        let printed = |text: &str| {
            let mut row = Published::default();
            row.insert("m", text.parse().unwrap(), text);
            row
        };
        let ours = estimate(&[0.88002; 10], true).unwrap();
        let agreed = ["0.88", "0.87", "0.8801"].map(|text| agrees(&ours, &printed(text), "m"));
        assert_eq!(agreed, [Some(true), Some(false), Some(false)]);
        // [1.465, 1.57]: 1.60 is 1.595 or more, 1.6 is 1.55 or more.
        let ours = estimate(&[1.45, 1.48, 1.50, 1.52, 1.55, 1.59], false).unwrap();
        let agreed = ["1.60", "1.6", "2.0", "2"].map(|text| agrees(&ours, &printed(text), "m"));
        assert_eq!(agreed, [Some(false), Some(true), Some(false), Some(true)], "{ours:?}");
        let bound = Published { bound: Some(Bound::Below), ..printed("1.4") };
        assert_eq!((agrees(&ours, &bound, "m"), agrees(&ours, &bound, "other")), (Some(false), None));
    }

    #[test]
    fn few_seeds_have_no_interval_unless_nothing_was_left_to_chance() {
        for n in 1..SEEDS_MIN {
            let few = estimate(&vec![7.0; n], false).unwrap();
            assert_eq!((few.median, few.interval, few.n), (7.0, None, n));
            assert_eq!((few.holds(7.0), few.holds(8.0)), (None, None), "neither inside nor outside");
            let exact = estimate(&vec![7.0; n], true).unwrap();
            assert!(exact.exact && exact.holds(7.0) == Some(true) && exact.holds(8.0) == Some(false));
        }
        // The claim that no chance was involved is ignored if the values differ.
        assert_eq!(estimate(&[7.0, 8.0], true).unwrap().interval, None);
        let json = serde_json::to_value(estimate(&[7.0], false)).unwrap();
        assert_eq!(json, serde_json::json!({"median": 7.0, "n": 1, "exact": false}));
        assert_eq!(too_few(1), "one seed: not compared");
        assert_eq!(too_few(3), "3 seeds: not compared, 5 are needed");
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
