//! The effect over pairs and how sure it is: mean of the paired differences (of logarithms where the effect is
//! relative), with a studentised bootstrap interval that is never narrower than Student's.
//!
//! Called by [`super::judge`] and [`super::rank`]. `docs/compare.md` says why this interval and what it was measured to
//! cover. Deterministic: the bootstrap's seed is a constant.

use pktgen_records::stats::{self, SEEDS_MIN, SplitMix};
use serde::Serialize;

use super::rules::Band;
use pktgen_records::student;

/// The least spread that a resample is measured by, as a share of ours. Values that are nearly all alike would otherwise
/// give resamples without any, and an interval without an end.
const LEAST_SPREAD: f64 = 0.1;
/// Spread of paired values, relative to their size, that is rounding.
const ROUNDING: f64 = 1e-12;

/// Resamples for so many judgements at once: enough for several beyond the smallest level that one may be judged at.
pub(crate) fn resamples(judgements: usize) -> usize {
    (80 * judgements).clamp(9_999, 99_999)
}

/// How pairs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectKind {
    /// By the logarithm of new over old.
    Ratio,
    /// By new − old.
    Difference,
}

/// Paired values as differences, and the tolerance on the same scale.
#[derive(Debug, Clone)]
pub(crate) struct Differences {
    /// How they were made.
    pub(crate) kind: EffectKind,
    /// One per pair.
    pub(crate) values: Vec<f64>,
    /// From −band to band is within the tolerance.
    pub(crate) band: f64,
    /// Spread that is rounding.
    noise: f64,
    /// Nothing was left to chance in any run of the pairs.
    exact: bool,
}

impl Differences {
    /// Of `pairs` of old and new; `band` is the tolerance. A relative one of pairs that have no ratio (a zero, a
    /// negative value) is that share of the mean size of the old ones.
    pub(crate) fn of(pairs: &[(f64, f64)], band: Band) -> Differences {
        let ratio = pairs.iter().all(|(old, new)| old == new || (*old > 0.0 && *new > 0.0));
        if let (Band::Relative(share), true) = (band, ratio) {
            let log = |(old, new): &(f64, f64)| if old == new { 0.0 } else { (new / old).ln() };
            let values = pairs.iter().map(log).collect();
            return Differences { kind: EffectKind::Ratio, values, band: share.ln_1p(), noise: ROUNDING, exact: false };
        }
        let sizes: Vec<f64> = pairs.iter().map(|(old, _)| old.abs()).collect();
        let band = match band {
            Band::Relative(share) => share * stats::mean(&sizes).unwrap_or(0.0),
            Band::Absolute(amount) => amount,
        };
        let largest = pairs.iter().map(|(old, new)| old.abs().max(new.abs())).fold(0.0, f64::max);
        let values = pairs.iter().map(|(old, new)| new - old).collect();
        Differences { kind: EffectKind::Difference, values, band, noise: ROUNDING * largest, exact: false }
    }

    /// The same of runs that leave nothing to chance, if `exact`: one pair says all.
    pub(crate) fn exactly(self, exact: bool) -> Differences {
        Differences { exact, ..self }
    }

    /// `value`, on the scale of the differences, as people read it: a share of the old, or an amount.
    pub(crate) fn shown(&self, value: f64) -> f64 {
        match self.kind {
            EffectKind::Ratio => value.exp_m1(),
            EffectKind::Difference => value,
        }
    }
}

/// A sample of differences: its mean, and what chance makes of it.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// How many.
    pub(crate) n: usize,
    /// Their mean.
    pub(crate) mean: f64,
    /// Their standard deviation; 0 if they are the same but for rounding.
    pub(crate) deviation: f64,
    /// Nothing was left to chance, and the differences are the same in every pair.
    pub(crate) exact: bool,
    /// How many standard errors the means of resamples are from ours. Empty where all are the same, or too few.
    studentised: Vec<f64>,
}

impl Sample {
    /// Resamples `differences` so many times; none of nothing.
    pub(crate) fn of(differences: &Differences, resamples: usize) -> Option<Sample> {
        let values = &differences.values;
        let (n, mean) = (values.len(), stats::mean(values)?);
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
        if most - least <= differences.noise {
            // The same everywhere; what is only rounding away from 0 is 0.
            let mean = if mean.abs() <= differences.noise { 0.0 } else { mean };
            return Some(Sample { n, mean, deviation: 0.0, exact: differences.exact, studentised: Vec::new() });
        }
        let (_, deviation) = moments(values.iter().copied(), n);
        let studentised =
            if n < SEEDS_MIN { Vec::new() } else { studentised(values, mean, LEAST_SPREAD * deviation, resamples) };
        Some(Sample { n, mean, deviation, exact: false, studentised })
    }

    /// Returns whether there are pairs enough, or nothing that chance could explain.
    pub(crate) fn is_judged(&self) -> bool {
        self.n >= SEEDS_MIN || self.exact || self.is_nothing()
    }

    /// Returns whether there is no difference at all.
    pub(crate) fn is_nothing(&self) -> bool {
        self.deviation == 0.0 && self.mean == 0.0
    }

    fn error(&self) -> f64 {
        self.deviation / (self.n as f64).sqrt()
    }

    fn freedom(&self) -> f64 {
        self.n as f64 - 1.0
    }

    /// How probable a mean like ours is where the truth is not above `x`: the larger of Student's and the bootstrap's.
    pub(crate) fn above(&self, x: f64) -> f64 {
        if self.deviation == 0.0 {
            return if self.mean > x { 0.0 } else { 1.0 };
        }
        let t = (self.mean - x) / self.error();
        let beyond = self.studentised.iter().filter(|one| **one >= t).count();
        student::tail(t, self.freedom()).max(self.share(beyond))
    }

    /// The same where the truth is not below `x`.
    pub(crate) fn below(&self, x: f64) -> f64 {
        if self.deviation == 0.0 {
            return if self.mean < x { 0.0 } else { 1.0 };
        }
        let t = (self.mean - x) / self.error();
        let beyond = self.studentised.iter().filter(|one| **one <= t).count();
        student::tail(-t, self.freedom()).max(self.share(beyond))
    }

    /// `beyond` of the resamples as a share, ourselves counted with them.
    fn share(&self, beyond: usize) -> f64 {
        if self.studentised.is_empty() { 0.0 } else { (beyond + 1) as f64 / (self.studentised.len() + 1) as f64 }
    }

    /// The interval that leaves out the truth with chance `alpha`, half of it on each side.
    pub(crate) fn interval(&self, alpha: f64) -> (f64, f64) {
        if self.deviation == 0.0 {
            return (self.mean, self.mean);
        }
        let t = student::quantile(alpha / 2.0, self.freedom());
        let all = self.studentised.len();
        let (mut low, mut high) = (-t, t);
        if all > 0 {
            let k = (alpha / 2.0 * (all + 1) as f64) as usize;
            // Fewer resamples than the level asks for: it is not known where the end is.
            let ends = match k {
                0 => (f64::NEG_INFINITY, f64::INFINITY),
                _ => (nth(&self.studentised, k - 1), nth(&self.studentised, all - k)),
            };
            (low, high) = (low.min(ends.0), high.max(ends.1));
        }
        (self.mean - high * self.error(), self.mean - low * self.error())
    }

    /// How many more pairs would tell, with a chance of 80 %, on which side of `boundary` the truth is, if mean and
    /// spread stay as they are; none if more than `most` are needed.
    pub(crate) fn further(&self, boundary: f64, alpha: f64, most: usize) -> Option<usize> {
        let distance = (boundary - self.mean).abs();
        let tells = |more: usize| {
            let n = (self.n + more) as f64;
            let width = student::quantile(alpha / 2.0, n - 1.0) + student::quantile(0.2, n - 1.0);
            width * self.deviation / n.sqrt() <= distance
        };
        let least = SEEDS_MIN.saturating_sub(self.n).max(1);
        let (mut low, mut high) = (least, most.max(least));
        if !tells(high) {
            return None;
        }
        while low < high {
            let middle = (low + high) / 2;
            if tells(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }
}

/// The value that would be at `rank` if the values were sorted; finding it is much less work than sorting them.
fn nth(values: &[f64], rank: usize) -> f64 {
    let mut values = values.to_vec();
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

/// Mean and standard deviation.
fn moments(values: impl Iterator<Item = f64> + Clone, n: usize) -> (f64, f64) {
    let n = n as f64;
    let mean = values.clone().sum::<f64>() / n;
    let squares: f64 = values.map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

fn studentised(values: &[f64], mean: f64, least: f64, resamples: usize) -> Vec<f64> {
    let n = values.len();
    let mut random = SplitMix::new(0x636f_6d70_6172_6564);
    let mut all = Vec::with_capacity(resamples);
    let mut drawn = vec![0.0; n];
    for _ in 0..resamples {
        drawn.fill_with(|| values[random.below(n)]);
        let (its_mean, deviation) = moments(drawn.iter().copied(), n);
        all.push((its_mean - mean) / (deviation.max(least) / (n as f64).sqrt()));
    }
    all
}

#[cfg(test)]
#[path = "effect_tests.rs"]
mod tests;
