//! The effect over pairs and its uncertainty: the mean of the paired differences (of logarithms if the effect is
//! relative), with a studentised bootstrap interval that is never narrower than Student's.
//!
//! Called by [`super::judge`] and [`super::rank`]. `docs/compare.md` explains the choice of this interval and its
//! measured coverage. Deterministic: the bootstrap's seed is a constant.

use pktgen_records::stats::{self, SEEDS_MIN, SplitMix};
use serde::Serialize;

use super::rules::Band;
use pktgen_records::student;

/// Minimum spread of a resample, as a share of the sample's spread. Otherwise, nearly identical values would give
/// resamples without spread and an unbounded interval.
const LEAST_SPREAD: f64 = 0.1;
/// Spread of paired values, relative to their size, that is attributed to rounding.
const ROUNDING: f64 = 1e-12;

/// Probability that the recommended number of pairs does not give a verdict.
const UNDECIDED: f64 = 0.2;

/// Smallest and largest number of resamples.
const RESAMPLES_MIN: usize = 9_999;
const RESAMPLES_MAX: usize = 99_999;

/// Returns the number of resamples for this many simultaneous judgements: enough for two resamples beyond each end at the
/// smallest level, `alpha` divided by the number of judgements, up to a maximum.
pub(crate) fn resamples(judgements: usize, alpha: f64) -> usize {
    ((4.0 * judgements as f64 / alpha).round() as usize).clamp(RESAMPLES_MIN, RESAMPLES_MAX)
}

/// Whether intervals at the smallest level end beyond all resamples, so that their ends are extended.
pub(crate) fn extends(judgements: usize, alpha: f64) -> bool {
    rank_of_end(alpha / judgements.max(1) as f64, resamples(judgements, alpha)) == 0
}

/// Returns which of the outermost resamples is the end of an interval at level `alpha`; 0: beyond all of them.
fn rank_of_end(alpha: f64, resamples: usize) -> usize {
    (alpha / 2.0 * (resamples + 1) as f64) as usize
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

/// Paired values as differences, with the tolerance on the same scale.
#[derive(Debug, Clone)]
pub(crate) struct Differences {
    /// How they were computed.
    pub(crate) kind: EffectKind,
    /// One per pair.
    pub(crate) values: Vec<f64>,
    /// Values from −band to band are within the tolerance.
    pub(crate) band: f64,
    /// Spread attributed to rounding.
    noise: f64,
    /// Whether no run of the pairs involved chance.
    exact: bool,
    /// Maximum amount by which clocks that are apart shift the mean.
    shift: f64,
}

impl Differences {
    /// Computes the differences of `pairs` of old and new; `band` is the tolerance. If pairs have no ratio (a zero, a
    /// negative value), a relative tolerance is that share of the mean size of the old values.
    pub(crate) fn of(pairs: &[(f64, f64)], band: Band) -> Differences {
        let ratio = pairs.iter().all(|(old, new)| old == new || (*old > 0.0 && *new > 0.0));
        if let (Band::Relative(share), true) = (band, ratio) {
            let log = |(old, new): &(f64, f64)| if old == new { 0.0 } else { log_ratio(*old, *new) };
            let values = pairs.iter().map(log).collect();
            let (kind, band) = (EffectKind::Ratio, share.ln_1p());
            return Differences { kind, values, band, noise: ROUNDING, exact: false, shift: 0.0 };
        }
        let sizes: Vec<f64> = pairs.iter().map(|(old, _)| old.abs()).collect();
        let band = match band {
            Band::Relative(share) => share * stats::mean(&sizes).unwrap_or(0.0),
            Band::Absolute(amount) => amount,
        };
        let largest = pairs.iter().map(|(old, new)| old.abs().max(new.abs())).fold(0.0, f64::max);
        let values = pairs.iter().map(|(old, new)| new - old).collect();
        Differences { kind: EffectKind::Difference, values, band, noise: ROUNDING * largest, exact: false, shift: 0.0 }
    }

    /// Lets all old values of `pairs` be off by up to the first of `bounds`, and all new ones by up to the second, as if clocks are apart.
    pub(crate) fn off_by(self, pairs: &[(f64, f64)], bounds: [f64; 2]) -> Differences {
        let log = |bound: f64, value: f64| match bound {
            0.0 => 0.0,
            _ if bound < value => -(-bound / value).ln_1p(),
            _ => f64::INFINITY,
        };
        let shift = match self.kind {
            EffectKind::Ratio => {
                let logs: Vec<f64> =
                    pairs.iter().map(|(old, new)| log(bounds[0], *old) + log(bounds[1], *new)).collect();
                stats::mean(&logs).unwrap_or(0.0)
            }
            EffectKind::Difference => bounds[0] + bounds[1],
        };
        Differences { shift, ..self }
    }

    /// Marks these as differences of runs without chance if `exact`: one pair suffices.
    pub(crate) fn exactly(self, exact: bool) -> Differences {
        Differences { exact, ..self }
    }

    /// Returns the largest effect within the tolerance: the tolerance itself, and rounding beyond it.
    pub(crate) fn limit(&self) -> f64 {
        self.band + self.noise
    }

    /// Converts `value` from the scale of the differences to a share of the old value or an amount.
    pub(crate) fn shown(&self, value: f64) -> f64 {
        match self.kind {
            EffectKind::Ratio => value.exp_m1(),
            EffectKind::Difference => value,
        }
    }
}

/// Returns the logarithm of new over old, also of a quotient that is beyond all numbers or has few digits.
fn log_ratio(old: f64, new: f64) -> f64 {
    let ratio = new / old;
    if ratio.is_normal() { ratio.ln() } else { new.ln() - old.ln() }
}

/// A sample of differences: its mean and its uncertainty.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// Number of differences.
    pub(crate) n: usize,
    /// Their mean.
    pub(crate) mean: f64,
    /// Standard deviation; 0 if the differences are equal up to rounding.
    pub(crate) deviation: f64,
    /// Whether no chance was involved and the differences are equal in all pairs.
    pub(crate) exact: bool,
    /// Distances of the resamples' means from the sample's mean, in standard errors: the outermost on each side, outermost first.
    low: Vec<f64>,
    high: Vec<f64>,
    /// Number of resamples; 0 if all differences are equal or too few.
    all: usize,
    /// Shares of resamples as far from the mean as the nearer and the farther end of the tolerance; 0 without resamples.
    beyond: [f64; 2],
    /// Maximum distance of the mean from that of clocks that agree.
    shift: f64,
}

impl Sample {
    /// Resamples `differences` this many times, for judgements at levels up to `alpha`; `None` without differences, or if their sums or
    /// squares overflow.
    pub(crate) fn of(differences: &Differences, resamples: usize, alpha: f64) -> Option<Sample> {
        let values = &differences.values;
        let (n, mean) = (values.len(), stats::mean(values).filter(|mean| mean.is_finite())?);
        let shift = differences.shift;
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
        if most - least <= differences.noise {
            // All equal; values that differ from 0 by rounding only become 0.
            let mean = if mean.abs() <= differences.noise { 0.0 } else { mean };
            let (low, high, beyond) = Default::default();
            return Some(Sample {
                n,
                mean,
                deviation: 0.0,
                exact: differences.exact,
                low,
                high,
                all: 0,
                beyond,
                shift,
            });
        }
        let (_, deviation) = moments(values.iter().copied(), n);
        if !deviation.is_finite() {
            return None;
        }
        let resamples = if n < SEEDS_MIN { 0 } else { resamples };
        let studentised = studentised(values, mean, LEAST_SPREAD * deviation, resamples);
        let error = deviation / (n as f64).sqrt();
        let ends = [mean.abs() - differences.band, mean.abs() + differences.band];
        let beyond = ends.map(|distance| share_beyond(&studentised, mean.signum() * distance / error));
        // No other resample is the end of an interval, and a probability above `alpha` fails at every level.
        let (low, high) = outermost(studentised, rank_of_end(alpha, resamples) + 1);
        Some(Sample { n, mean, deviation, exact: false, low, high, all: resamples, beyond, shift })
    }

    /// Whether there are enough pairs, or nothing that chance could explain.
    pub(crate) fn is_judged(&self) -> bool {
        self.n >= SEEDS_MIN || self.exact || self.is_nothing()
    }

    /// Whether there is no difference at all.
    pub(crate) fn is_nothing(&self) -> bool {
        self.deviation == 0.0 && self.mean == 0.0 && self.shift == 0.0
    }

    fn error(&self) -> f64 {
        self.deviation / (self.n as f64).sqrt()
    }

    fn freedom(&self) -> f64 {
        self.n as f64 - 1.0
    }

    /// Returns the probability of a mean like this one if the true mean is not above `x`: the larger of Student's and the bootstrap's. Of
    /// one above half of the sample's `alpha` it is only known that it is above.
    pub(crate) fn above(&self, x: f64) -> f64 {
        let x = x + self.shift;
        if self.deviation == 0.0 || x.is_infinite() {
            return if self.mean > x { 0.0 } else { 1.0 };
        }
        let t = (self.mean - x) / self.error();
        let beyond = self.high.iter().take_while(|one| **one >= t).count();
        student::tail(t, self.freedom()).max(self.share(beyond, t))
    }

    /// Returns the same if the true mean is not below `x`.
    pub(crate) fn below(&self, x: f64) -> f64 {
        let x = x - self.shift;
        if self.deviation == 0.0 || x.is_infinite() {
            return if self.mean < x { 0.0 } else { 1.0 };
        }
        let t = (self.mean - x) / self.error();
        let beyond = self.low.iter().take_while(|one| **one <= t).count();
        student::tail(-t, self.freedom()).max(self.share(beyond, t))
    }

    /// Returns the share of resamples beyond `t`, counting the sample itself. Beyond all of the largest number of resamples
    /// it falls as in Student's distribution, stretched to pass through the outermost resample.
    fn share(&self, beyond: usize, t: f64) -> f64 {
        let all = self.all;
        if beyond == 0 && all >= RESAMPLES_MAX {
            let (low, high) = self.outermost();
            return student::tail(t / if t < 0.0 { low } else { high }, self.freedom());
        }
        if all == 0 { 0.0 } else { (beyond + 1) as f64 / (all + 1) as f64 }
    }

    /// Returns the smallest and the largest resample, in multiples of Student's quantile for the share of one resample.
    fn outermost(&self) -> (f64, f64) {
        let unit = student::quantile(1.0 / (self.all + 1) as f64, self.freedom());
        let (low, high) = (self.low.first().map_or(0.0, |t| t.min(0.0)), self.high.first().map_or(0.0, |t| t.max(0.0)));
        (low / unit, high / unit)
    }

    /// Returns the interval that misses the true mean with probability `alpha`, half of it on each side; where clocks are apart, of
    /// clocks that agree.
    pub(crate) fn interval(&self, alpha: f64) -> (f64, f64) {
        if self.deviation == 0.0 {
            return self.shifted();
        }
        let t = student::quantile(alpha / 2.0, self.freedom());
        let (mut low, mut high) = (-t, t);
        if self.all > 0 {
            let ends = match rank_of_end(alpha, self.all) {
                0 => {
                    let (low, high) = self.outermost();
                    (low * t, high * t)
                }
                k => (self.low[k - 1], self.high[k - 1]),
            };
            (low, high) = (low.min(ends.0), high.max(ends.1));
        }
        let (lo, hi) = self.shifted();
        (lo - high * self.error(), hi - low * self.error())
    }

    /// Returns the least and the greatest mean of clocks that agree, without any other uncertainty.
    pub(crate) fn shifted(&self) -> (f64, f64) {
        (self.mean - self.shift, self.mean + self.shift)
    }

    /// Returns how many more pairs would show with a probability of about 80 % on which side of the ends of `band`, the sample's tolerance, the
    /// true mean is, if mean and spread stay the same; `None` if more than `most` are needed. A mean within the band must be clear of both
    /// ends. Resamples beyond an end become fewer by the same factor with each pair (a large deviation): where they are many for the
    /// distance, since few pairs differ by much, they decide, and Student's distribution elsewhere.
    pub(crate) fn further(&self, band: f64, alpha: f64, most: usize) -> Option<usize> {
        let (near, far) = (band - self.mean.abs(), band + self.mean.abs());
        let tells = |more: usize| {
            let n = (self.n + more) as f64;
            let (error, t) = (self.deviation / n.sqrt(), student::quantile(alpha / 2.0, n - 1.0));
            let misses = |distance: f64, beyond: f64| {
                let beyond = beyond.powf(n / self.n as f64);
                if beyond > alpha / 2.0 {
                    return 1.0;
                }
                let errors = distance / error;
                let is_uneven = beyond > student::tail(errors, n - 1.0);
                student::tail(if is_uneven { student::quantile(beyond, n - 1.0) } else { errors } - t, n - 1.0)
            };
            let [at_near, at_far] = self.beyond;
            let clear = |distance: f64, beyond: f64| misses(distance - self.shift, beyond);
            let missed = if near > 0.0 { clear(near, at_near) + clear(far, at_far) } else { clear(-near, at_near) };
            missed <= UNDECIDED
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

/// Returns the `kept` smallest and the `kept` largest values, outermost first; selection is much cheaper than sorting.
fn outermost(mut values: Vec<f64>, kept: usize) -> (Vec<f64>, Vec<f64>) {
    let kept = kept.min(values.len());
    if kept == 0 {
        return Default::default();
    }
    let first_high = values.len() - kept;
    values.select_nth_unstable_by(kept - 1, f64::total_cmp);
    let mut low = values[..kept].to_vec();
    values.select_nth_unstable_by(first_high, f64::total_cmp);
    let mut high = values.split_off(first_high);
    low.sort_unstable_by(f64::total_cmp);
    high.sort_unstable_by(|a, b| b.total_cmp(a));
    (low, high)
}

/// Returns the share of resamples at least as far from 0 as `t`, on its side; 0 without resamples.
fn share_beyond(resamples: &[f64], t: f64) -> f64 {
    if resamples.is_empty() {
        return 0.0;
    }
    let beyond = resamples.iter().filter(|one| if t < 0.0 { **one <= t } else { **one >= t }).count();
    beyond as f64 / resamples.len() as f64
}

/// Returns mean and standard deviation.
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
