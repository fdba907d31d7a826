//! How far settings are from the targets: emulators of all metrics in a region, and the distance that they make.

use std::cell::RefCell;

use pktgen_core::record::Bound;

use crate::cholesky::Cholesky;
use crate::emulator::{Emulator, Region};
use crate::noise::{KnownCovariance, Noise};
use crate::target::TargetValue;
use crate::twin::Evaluated;

/// Most settings of a fit: those nearest to the middle of the region.
const MOST: usize = 160;
/// How far outside of the region settings still tell about it, in widths.
const BEYOND: f64 = 0.25;

/// Emulators of all targets in a region, and the noise there.
pub(crate) struct Fit<'a> {
    pub(crate) region: Region,
    targets: &'a [TargetValue],
    emulators: Vec<Emulator>,
    pub(crate) known: KnownCovariance,
    scratch: RefCell<Vec<f64>>,
}

/// A setting that was run, with the shares of its numbers.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) shares: Vec<f64>,
    pub(crate) evaluated: Evaluated,
}

impl Place {
    /// The same with some of the targets.
    pub(crate) fn only(&self, targets: &[usize]) -> Self {
        let values = targets.iter().map(|i| self.evaluated.values[*i].clone()).collect();
        Place { shares: self.shares.clone(), evaluated: Evaluated { values, ..self.evaluated.clone() } }
    }

    /// The mean of a target over the seeds; none if a seed has none.
    pub(crate) fn mean(&self, target: usize) -> Option<f64> {
        let values = &self.evaluated.values[target];
        let sum: Option<f64> = values.iter().copied().sum();
        sum.filter(|_| !values.is_empty()).map(|sum| sum / values.len() as f64)
    }
}

impl<'a> Fit<'a> {
    /// Of what was run in and around `region`; none if that is too little.
    pub(crate) fn of(region: Region, targets: &'a [TargetValue], places: &[Place], floors: &[f64]) -> Option<Self> {
        let mut near: Vec<&Place> = places.iter().filter(|place| region.holds(&place.shares, BEYOND)).collect();
        let from_middle = |place: &Place| -> f64 {
            let each = region.0.iter().zip(&place.shares);
            each.map(|((low, high), x)| ((x - (low + high) / 2.0) / (high - low).max(1e-9)).powi(2)).sum()
        };
        if near.len() > MOST {
            near.sort_by(|a, b| from_middle(a).total_cmp(&from_middle(b)));
            near.truncate(MOST);
        }
        let emulator = |target: usize| {
            let with = near.iter().filter_map(|place| Some((place.shares.as_slice(), place.mean(target)?)));
            let (points, values): (Vec<&[f64]>, Vec<f64>) = with.unzip();
            Emulator::fit(&region, &points, &values)
        };
        let emulators = (0..targets.len()).map(emulator).collect::<Option<Vec<_>>>()?;
        let noise = Noise::of(targets.len(), &near.iter().map(|place| &place.evaluated).collect::<Vec<_>>());
        let scattered: Vec<f64> = emulators.iter().map(Emulator::scattered).collect();
        let known = noise.known(targets, floors, &scattered);
        Some(Fit { region, targets, emulators, known, scratch: RefCell::default() })
    }

    /// Value and variance of a target at a setting.
    pub(crate) fn emulated(&self, target: usize, shares: &[f64]) -> (f64, f64) {
        self.emulators[target].at(shares)
    }

    /// How far a setting is from the targets: the square of the distance in deviations, which are of what is known and of the emulators.
    pub(crate) fn distance(&self, shares: &[f64]) -> f64 {
        let n = self.targets.len();
        let mut covariance = self.known.whole.clone();
        let mut left = self.scratch.borrow_mut();
        left.clear();
        for (i, target) in self.targets.iter().enumerate() {
            let (mean, variance) = self.emulators[i].at(shares);
            covariance[i * n + i] += variance;
            left.push(residual(target, mean) * target.weight.sqrt());
        }
        match Cholesky::of(covariance, n) {
            Some(factor) => factor.quadratic(&mut left),
            None => f64::INFINITY,
        }
    }

    /// The largest part that an emulator has in the variance of a target.
    pub(crate) fn unsure(&self, shares: &[f64]) -> f64 {
        let n = self.targets.len();
        let part = |i: usize| {
            let emulated = self.emulators[i].at(shares).1;
            emulated / (emulated + self.known.whole[i * n + i])
        };
        (0..n).map(part).fold(0.0, f64::max)
    }

    /// Degrees of freedom of the variance of number `k` at a setting, by how much each target says of it (Welch, Satterthwaite): few
    /// repeats and few seeds tell little of their deviation.
    pub(crate) fn freedom(&self, shares: &[f64], k: usize) -> f64 {
        let n = self.targets.len();
        let width = self.region.0[k].1 - self.region.0[k].0;
        let at = |step: f64| {
            let mut moved = shares.to_vec();
            moved[k] += step * width;
            moved
        };
        let (low, high) = (at(-0.05), at(0.05));
        let (mut whole, mut parts) = (0.0, 0.0);
        for i in 0..n {
            let slope = self.emulators[i].at(&high).0 - self.emulators[i].at(&low).0;
            let variance = self.known.whole[i * n + i].max(f64::MIN_POSITIVE);
            let says = slope * slope / variance;
            whole += says;
            for (part, freedom) in &self.known.variances[i] {
                parts += (says * part / variance).powi(2) / freedom;
            }
        }
        if parts > 0.0 { (whole * whole / parts).max(1.0) } else { f64::INFINITY }
    }
}

/// What a target's value has more than `mean`; nothing where that is on the right side of a bound.
pub(crate) fn residual(target: &TargetValue, mean: f64) -> f64 {
    match target.bound {
        Some(Bound::Above) if mean >= target.value => 0.0,
        Some(Bound::Below) if mean <= target.value => 0.0,
        _ => target.value - mean,
    }
}
