//! The distance of settings from the targets, by emulators of all metrics in a region.

use std::cell::RefCell;

use pktgen_core::record::Bound;

use crate::alike::{copies, correlations, shrunk};
use crate::cholesky::Cholesky;
use crate::emulator::{Emulator, Region};
use crate::noise::{KnownCovariance, Noise};
use crate::target::{Known, PointLabels, TargetValue};
use crate::twin::Evaluated;

/// Maximum number of settings in a fit: those nearest to the middle of the region.
const MOST: usize = 160;
/// Maximum distance from the region, in widths, of settings that are used for it.
const BEYOND: f64 = 0.25;

/// Emulators of all targets in a region, and the noise there.
pub(crate) struct Fit<'a> {
    pub(crate) region: Region,
    targets: &'a [TargetValue],
    emulators: Vec<Emulator>,
    pub(crate) known: KnownCovariance,
    /// Correlations of the emulators' errors.
    errors: Vec<f64>,
    scratch: RefCell<Vec<f64>>,
}

/// A setting that was run, as shares of the ranges of its numbers.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) shares: Vec<f64>,
    pub(crate) evaluated: Evaluated,
    /// Its place in the order in which the settings of all branches were run, from 1.
    pub(crate) number: usize,
}

impl Place {
    /// Returns the same with only these targets.
    pub(crate) fn only(&self, targets: &[usize]) -> Self {
        let values = targets.iter().map(|i| self.evaluated.values[*i].clone()).collect();
        let evaluated = Evaluated { values, ..self.evaluated.clone() };
        Place { shares: self.shares.clone(), evaluated, number: self.number }
    }

    /// Returns the mean of a target over the seeds; none if a seed has no value.
    pub(crate) fn mean(&self, target: usize) -> Option<f64> {
        let values = &self.evaluated.values[target];
        let sum: Option<f64> = values.iter().copied().sum();
        sum.filter(|_| !values.is_empty()).map(|sum| sum / values.len() as f64)
    }
}

impl<'a> Fit<'a> {
    /// Fits the runs in and around `region`; none if there are too few.
    pub(crate) fn of(region: Region, targets: &'a [TargetValue], places: &[Place], floors: &[f64]) -> Option<Self> {
        let mut near: Vec<&Place> = places.iter().filter(|place| region.holds(&place.shares, BEYOND)).collect();
        let from_middle = |place: &Place| -> f64 {
            let each = region.0.iter().zip(&place.shares);
            each.map(|((low, high), x)| ((x - (low + high) / 2.0) / (high - low).max(1e-9)).powi(2)).sum()
        };
        // At an end of its range, a region of a whole number holds two values, and an emulator needs more: those beside it.
        let needed = region.0.len() + 2;
        if near.len() < needed {
            near = places.iter().collect();
            near.sort_by(|a, b| from_middle(a).total_cmp(&from_middle(b)));
            near.truncate(needed);
        }
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
        let evaluated: Vec<&Evaluated> = near.iter().map(|place| &place.evaluated).collect();
        let noise = Noise::of(copies(targets, &evaluated), &evaluated);
        let scattered: Vec<f64> = emulators.iter().map(Emulator::scattered).collect();
        let known = noise.known(targets, floors, &scattered);
        let errors = errors(&emulators, &near, &known);
        Some(Fit { region, targets, emulators, known, errors, scratch: RefCell::default() })
    }

    /// Returns the covariance of the targets at a setting, with the errors of the emulators, and the emulated means.
    fn covariance(&self, shares: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.targets.len();
        let (means, variances): (Vec<f64>, Vec<f64>) = self.emulators.iter().map(|one| one.at(shares)).unzip();
        let mut covariance = self.known.whole.clone();
        for i in 0..n {
            for j in 0..n {
                covariance[i * n + j] += match i == j {
                    true => variances[i],
                    false => self.errors[i * n + j] * variances[i].sqrt() * variances[j].sqrt(),
                };
            }
        }
        (covariance, means)
    }

    /// Returns value and variance of a target at a setting.
    pub(crate) fn emulated(&self, target: usize, shares: &[f64]) -> (f64, f64) {
        self.emulators[target].at(shares)
    }

    /// Returns the variance of the difference of a target's values at two settings.
    pub(crate) fn difference(&self, target: usize, a: &[f64], b: &[f64]) -> f64 {
        self.emulators[target].difference(a, b)
    }

    /// Returns the squared distance of a setting from the targets, in deviations that include the uncertainty of the emulators.
    pub(crate) fn distance(&self, shares: &[f64]) -> f64 {
        let (covariance, means) = self.covariance(shares);
        let mut left = self.scratch.borrow_mut();
        left.clear();
        left.extend((0..means.len()).map(|i| self.residual(i, means[i])));
        match Cholesky::of(covariance, means.len()) {
            Some(factor) => factor.quadratic(&mut left),
            None => f64::INFINITY,
        }
    }

    /// Returns the weighted residual of a target; 0 of a copy.
    fn residual(&self, i: usize, mean: f64) -> f64 {
        let target = &self.targets[i];
        if self.known.is_copy(i) { 0.0 } else { residual(target, mean) * target.weight.sqrt() }
    }

    /// Returns the largest share of an emulator in the variance of a target.
    pub(crate) fn unsure(&self, shares: &[f64]) -> f64 {
        let n = self.targets.len();
        let part = |i: usize| {
            let emulated = self.emulators[i].at(shares).1;
            emulated / (emulated + self.known.whole[i * n + i])
        };
        (0..n).filter(|i| !self.known.is_copy(*i)).map(part).fold(0.0, f64::max)
    }

    /// Returns the degrees of freedom of the variance of number `k` at a setting with the least distance (Welch, Satterthwaite): few
    /// repeats and few seeds give poor estimates of their deviation. Near there, the number is a sum of the targets' residuals, weighted
    /// by influence: if one target depends on two numbers, the targets of the other number count too.
    pub(crate) fn freedom(&self, shares: &[f64], k: usize) -> f64 {
        let Some(influence) = self.influence(shares, k) else { return f64::INFINITY };
        let n = self.targets.len();
        let row = |of: &[f64], i: usize| -> f64 {
            let products = influence.iter().zip(&of[i * n..(i + 1) * n]).map(|(a, c)| a * c);
            influence[i] * products.sum::<f64>()
        };
        let whole: f64 = (0..n).map(|i| row(&self.known.whole, i)).sum();
        // Points are measured independently; the twin's seeds are the same for all points.
        let mut twin = VariancePart::default();
        let mut measured: Vec<(&PointLabels, VariancePart)> = Vec::new();
        for (i, target) in self.targets.iter().enumerate() {
            let of_seeds = self.known.freedom[i];
            twin.add(row(&self.known.twin, i), of_seeds);
            let own = row(&self.known.values, i);
            match target.known {
                Known::Once | Known::Printed { .. } => twin.add(own, of_seeds),
                // Its deviation was given.
                Known::Repeats { n: 1, .. } => {}
                Known::Repeats { n: runs, .. } => {
                    if measured.iter().all(|(at, _)| **at != target.at) {
                        measured.push((&target.at, VariancePart::default()));
                    }
                    let point = measured.iter_mut().find(|(at, _)| **at == target.at);
                    point.into_iter().for_each(|(_, part)| part.add(own, runs as f64 - 1.0));
                }
            }
        }
        let parts = twin.uncertainty() + measured.iter().map(|(_, part)| part.uncertainty()).sum::<f64>();
        if parts > 0.0 { (whole * whole / parts).max(1.0) } else { f64::INFINITY }
    }

    /// Returns by how much each target's deviation moves number `k` at the least distance (generalised least squares);
    /// none if no target depends on it.
    fn influence(&self, shares: &[f64], k: usize) -> Option<Vec<f64>> {
        let (n, numbers) = (self.targets.len(), shares.len());
        let slopes: Vec<Vec<f64>> = (0..numbers).map(|number| self.slopes(shares, number)).collect();
        let factor = Cholesky::of(self.covariance(shares).0, n)?;
        let solved: Vec<Vec<f64>> = slopes
            .iter()
            .map(|slopes| {
                let mut solved = slopes.clone();
                factor.solve(&mut solved);
                solved
            })
            .collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut information: Vec<f64> =
            slopes.iter().flat_map(|a| solved.iter().map(|b| dot(a, b)).collect::<Vec<_>>()).collect();
        if information[k * numbers + k] <= 0.0 {
            return None;
        }
        // Numbers on which no target depends stay where they are.
        (0..numbers).for_each(|i| information[i * numbers + i] = information[i * numbers + i] * (1.0 + 1e-9) + 1e-9);
        let mut weights = vec![0.0; numbers];
        weights[k] = 1.0;
        Cholesky::of(information, numbers)?.solve(&mut weights);
        let weight = |i: usize| self.targets[i].weight.sqrt();
        let influence =
            |i: usize| weights.iter().zip(&solved).map(|(w, solved)| w * solved[i]).sum::<f64>() * weight(i);
        Some((0..n).map(influence).collect())
    }

    /// Returns by how much number `k` changes the residual of each target, over the width of the region.
    fn slopes(&self, shares: &[f64], k: usize) -> Vec<f64> {
        let width = self.region.0[k].1 - self.region.0[k].0;
        let off = |i: usize, step: f64| {
            let mut moved = shares.to_vec();
            moved[k] += step * width;
            self.residual(i, self.emulators[i].at(&moved).0)
        };
        (0..self.targets.len()).map(|i| (off(i, -0.05) - off(i, 0.05)) / 0.1).collect()
    }
}

/// Returns the correlations of the emulators' errors, by those at settings that were left out; 0 of copies.
fn errors(emulators: &[Emulator], near: &[&Place], known: &KnownCovariance) -> Vec<f64> {
    let n = emulators.len();
    let of = |target: usize| -> Vec<f64> {
        let mut errors = emulators[target].left_out().into_iter();
        // An emulator has the settings with a value.
        near.iter().map(|place| place.mean(target).and_then(|_| errors.next()).unwrap_or_default()).collect()
    };
    let mut out = correlations(&(0..n).map(of).collect::<Vec<_>>());
    let freedom = [near.len() as f64; 2];
    for (at, correlation) in out.iter_mut().enumerate() {
        let is_copy = known.is_copy(at / n) || known.is_copy(at % n);
        *correlation = if is_copy { 0.0 } else { shrunk(*correlation, correlation.powi(2), freedom, known.counted()) };
    }
    out
}

/// An estimated part of a variance, of targets that were measured together.
#[derive(Default)]
struct VariancePart {
    sum: f64,
    size: f64,
    uncertain: f64,
}

impl VariancePart {
    /// Adds the share of a target, which may be negative if it is correlated with another one.
    fn add(&mut self, share: f64, freedom: f64) {
        self.sum += share;
        self.size += share.abs();
        self.uncertain += share.abs() / freedom;
    }

    /// Returns its square divided by its degrees of freedom, which lie between those of its targets.
    fn uncertainty(&self) -> f64 {
        if self.size > 0.0 { self.sum * self.sum * self.uncertain / self.size } else { 0.0 }
    }
}

/// Returns the target's value minus `mean`; 0 if `mean` is on the right side of a bound.
pub(crate) fn residual(target: &TargetValue, mean: f64) -> f64 {
    match target.bound {
        Some(Bound::Above) if mean >= target.value => 0.0,
        Some(Bound::Below) if mean <= target.value => 0.0,
        _ => target.value - mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::Sequence;

    /// Of a sum of two numbers and of the first of them, each with so many repeats and such a deviation.
    fn freedoms(sum: Known, first: Known) -> [f64; 2] {
        let target = |metric: &str, known| TargetValue {
            metric: metric.into(),
            at: PointLabels::new(),
            value: 0.5,
            bound: None,
            known,
            weight: 1.0,
        };
        let targets = [target("sum", sum), target("first", first)];
        let mut sequence = Sequence::new(2, 0);
        let place = |_| {
            let shares = sequence.next_point();
            let values = [shares[0] + shares[1], shares[0]].map(|value| vec![Some(value); 2]).to_vec();
            let evaluated = Evaluated { setting: shares.clone(), values, invalid: 0, why: None };
            Place { shares, evaluated, number: 0 }
        };
        let places: Vec<Place> = (0..16).map(place).collect();
        let fit = Fit::of(Region::whole(2), &targets, &places, &[1e-9; 2]).expect("a fit");
        [0, 1].map(|k| fit.freedom(&[0.5, 0.5], k))
    }

    #[test]
    fn what_is_known_by_a_difference_is_known_as_well_as_its_worse_part() {
        let well = Known::Repeats { n: 1000, deviation: 0.1 };
        let badly = Known::Repeats { n: 3, deviation: 0.1 };
        let [first, second] = freedoms(well, badly);
        assert!((first - 2.0).abs() < 0.01 && (second - 2.0).abs() < 0.1, "{first} {second}");
        let [first, second] = freedoms(badly, well);
        assert!((first - 999.0).abs() < 1.0 && (second - 2.0).abs() < 0.1, "{first} {second}");
    }

    #[test]
    fn one_error_of_an_emulator_does_not_count_twice() {
        let known = Known::Repeats { n: 10, deviation: 1e-4 };
        let target = |scale: f64| TargetValue {
            metric: "m".into(),
            at: PointLabels::new(),
            value: 3.0 * scale,
            bound: None,
            known,
            weight: 1.0,
        };
        let place = |i: u32| {
            let x = 0.125 * f64::from(i);
            let steep = 0.3 / (x + 0.03);
            // The second is nearly twice the first, and no copy.
            let values = [steep, 2.0 * steep + 1e-6 * f64::from(i % 3)].map(|value| vec![Some(value); 2]).to_vec();
            let evaluated = Evaluated { setting: vec![x], values, invalid: 0, why: None };
            Place { shares: vec![x], evaluated, number: 0 }
        };
        let places: Vec<Place> = (0..9).map(place).collect();
        let distance = |targets: &[usize]| {
            let values: Vec<TargetValue> = targets.iter().map(|i| target([1.0, 2.0][*i])).collect();
            let places: Vec<Place> = places.iter().map(|place| place.only(targets)).collect();
            let fit = Fit::of(Region::whole(1), &values, &places, &[1e-6; 2]).expect("a fit");
            let (mean, variance) = fit.emulated(0, &[0.06]);
            assert!(variance > 1e-4 && (mean - values[0].value).abs() > 0.01, "{mean} {variance}");
            fit.distance(&[0.06])
        };
        let (one, two) = (distance(&[0]), distance(&[0, 1]));
        assert!((0.9..1.2).contains(&(two / one)), "{one} {two}");
    }
}
