//! How near sums are to the exact ones (LIBRA §5.5, Table 2): `1 − |approx − exact| / |exact|` of a pair.
//!
//! A pair whose exact sum is 0 has no precision and is counted apart. A sum that is off by more than itself has a
//! negative one; the paper does not say whether it counts such as 0, so there is a mean of either kind. Called by the
//! study `float_sum`.

use pktgen_core::quantile::nearest_rank;

/// The precision of one sum; none if the exact one is 0.
pub fn of_sum(approx: f32, exact: f64) -> Option<f64> {
    (exact != 0.0).then(|| 1.0 - (f64::from(approx) - exact).abs() / exact.abs())
}

/// Precisions of many sums.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Precision {
    /// Sorted.
    sums: Vec<f64>,
    /// Pairs whose exact sum is 0.
    pub without: u64,
}

impl Precision {
    /// That of `add` on pairs, against their exact sums: two f32 whose exponents differ by less than 29 have an exact
    /// one in f64, and the rounding of others is far below any error here.
    pub fn of(pairs: impl Iterator<Item = (f32, f32)>, add: impl Fn(f32, f32) -> f32) -> Self {
        let mut precision = Precision::default();
        for (x, y) in pairs {
            match of_sum(add(x, y), f64::from(x) + f64::from(y)) {
                Some(sum) => precision.sums.push(sum),
                None => precision.without += 1,
            }
        }
        precision.sums.sort_unstable_by(f64::total_cmp);
        precision
    }

    /// The median of what each sum counts as, which grows with its precision; of an even number the mean of the middle
    /// two. NaN if there are none.
    fn median_of(&self, counts_as: impl Fn(f64) -> f64) -> f64 {
        let n = self.sums.len();
        match n {
            0 => f64::NAN,
            _ => (counts_as(self.sums[(n - 1) / 2]) + counts_as(self.sums[n / 2])) / 2.0,
        }
    }

    /// Half of the sums are at most as precise. NaN if there are none.
    pub fn median(&self) -> f64 {
        self.median_of(|sum| sum)
    }

    /// The quantile `q` by nearest rank, as of all metrics. NaN if there are no sums.
    pub fn quantile(&self, q: f64) -> f64 {
        self.sums.get(nearest_rank(q, self.sums.len()) - 1).copied().unwrap_or(f64::NAN)
    }

    /// The mean of what each sum counts as.
    fn mean_of(&self, counts_as: impl Fn(f64) -> f64) -> f64 {
        self.sums.iter().map(|sum| counts_as(*sum)).sum::<f64>() / self.sums.len() as f64
    }

    /// The mean, negative precisions as they are.
    pub fn mean(&self) -> f64 {
        self.mean_of(|sum| sum)
    }

    /// The median of `exp(precision − 1)`, which is 1/e for a sum that became 0.
    pub(crate) fn median_exp(&self) -> f64 {
        self.median_of(|sum| (sum - 1.0).exp())
    }

    /// The mean of the same.
    pub(crate) fn mean_exp(&self) -> f64 {
        self.mean_of(|sum| (sum - 1.0).exp())
    }

    /// The mean with negative precisions counted as 0.
    pub(crate) fn mean_clamped(&self) -> f64 {
        self.mean_of(|sum| sum.max(0.0))
    }
}
