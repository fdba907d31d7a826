//! The differences between runs with different seeds, and the resulting uncertainty of a target's value.

use crate::alike::{correlations, is_alike, shrunk};
use crate::target::{Known, TargetValue};
use crate::twin::Evaluated;

/// Covariance of the targets over seeds, at one setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Noise {
    /// Rows one after the other.
    pub(crate) covariance: Vec<f64>,
    /// Seeds of each setting.
    pub(crate) seeds: usize,
    /// For each target, the part of its variance that seeds do not share between settings.
    pub(crate) own: Vec<f64>,
    /// Number of settings that it is estimated from.
    settings: usize,
    /// For each target the first one that it copies.
    copies: Vec<Option<usize>>,
    /// Evidence that two targets have the same information: the product of their correlations over seeds and over settings.
    alike: Vec<f64>,
}

impl Noise {
    /// Estimates the covariance from the differences between the seeds of each setting. `copies` are for each target the first one that
    /// it copies.
    pub(crate) fn of(copies: Vec<Option<usize>>, evaluated: &[&Evaluated]) -> Self {
        let targets = copies.len();
        let seeds = evaluated.iter().flat_map(|one| one.values.iter().map(Vec::len)).max().unwrap_or(0);
        let mut sums = vec![0.0; targets * targets];
        let mut counts = vec![0.0f64; targets * targets];
        for one in evaluated {
            let left: Vec<Vec<Option<f64>>> = one.values.iter().map(|values| deviations(values)).collect();
            for i in 0..targets {
                for j in 0..=i {
                    let products: Vec<f64> =
                        left[i].iter().zip(&left[j]).filter_map(|(a, b)| Some((*a)? * (*b)?)).collect();
                    if products.len() >= 2 {
                        sums[i * targets + j] += products.iter().sum::<f64>();
                        counts[i * targets + j] += products.len() as f64 - 1.0;
                    }
                }
            }
        }
        let mut covariance = vec![0.0; targets * targets];
        for i in 0..targets {
            for j in 0..=i {
                let value = sums[i * targets + j] / counts[i * targets + j].max(1.0);
                covariance[i * targets + j] = value;
                covariance[j * targets + i] = value;
            }
        }
        let own = (0..targets).map(|target| own(evaluated, target)).collect();
        let alike = correlations(&(0..targets).map(|target| moves(evaluated, target)).collect::<Vec<_>>());
        let mut noise = Noise { covariance, seeds, own, settings: evaluated.len(), copies, alike };
        noise.shrink(targets);
        noise
    }

    /// Shrinks correlations, except those of targets with the same information. Copies have none: they do not count.
    fn shrink(&mut self, targets: usize) {
        let freedom: Vec<f64> = (0..targets).map(|i| self.freedom(i, targets)).collect();
        let deviations: Vec<f64> = (0..targets).map(|i| self.variance(i, targets).sqrt()).collect();
        let counted = self.copies.iter().filter(|of| of.is_none()).count();
        for i in 0..targets {
            for j in 0..targets {
                if i == j {
                    continue;
                }
                let (at, both) = (i * targets + j, deviations[i] * deviations[j]);
                let correlation = if both > 0.0 { self.covariance[at] / both } else { 0.0 };
                self.alike[at] *= correlation;
                let is_copy = self.copies[i].is_some() || self.copies[j].is_some();
                let left = shrunk(correlation, self.alike[at], [freedom[i], freedom[j]], counted);
                self.covariance[at] = if is_copy { 0.0 } else { left * both };
            }
        }
    }

    fn variance(&self, i: usize, targets: usize) -> f64 {
        self.covariance[i * targets + i]
    }

    /// Returns the degrees of freedom of a target's variance: the part that seeds share between settings is known from
    /// the seeds of one setting.
    fn freedom(&self, i: usize, targets: usize) -> f64 {
        let (whole, own) = (self.variance(i, targets), self.own[i].min(self.variance(i, targets)));
        let seeds = self.seeds.max(2) as f64 - 1.0;
        let parts = (whole - own).powi(2) / seeds + own.powi(2) / (seeds * self.settings.max(1) as f64);
        if parts > 0.0 { (whole * whole / parts).max(1.0) } else { f64::INFINITY }
    }

    /// Returns the covariance of the targets before any emulator: of their values, and of the twin's mean over its
    /// seeds. `floors` are additional deviations, added to the variances; `scattered` are the variances that emulators
    /// treat as noise of single settings: seeds draw that part anew at each setting, so emulators average over it.
    pub(crate) fn known(&self, targets: &[TargetValue], floors: &[f64], scattered: &[f64]) -> KnownCovariance {
        let n = targets.len();
        let own: Vec<(f64, f64)> = (0..n)
            .map(|i| match targets[i].known {
                Known::Repeats { n: runs, deviation } => (deviation, runs as f64),
                Known::Once | Known::Printed { .. } => (self.variance(i, n).sqrt(), 1.0),
            })
            .collect();
        let mut values = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                let both = (self.variance(i, n) * self.variance(j, n)).sqrt();
                // Points are measured independently.
                let alike = match (i == j, targets[i].at == targets[j].at && both > 0.0) {
                    (true, _) => 1.0,
                    (false, true) => self.covariance[i * n + j] / both,
                    (false, false) => 0.0,
                };
                values[i * n + j] = alike * own[i].0 * own[j].0 / (own[i].1 * own[j].1).sqrt();
            }
        }
        let seeds = self.seeds.max(1) as f64;
        // Use the smaller of the two estimates: the part that seeds share is rather over- than underestimated.
        let common: Vec<f64> = (0..n)
            .map(|i| {
                let anew = scattered[i].min(self.own[i] / seeds);
                (1.0 - anew * seeds / self.variance(i, n).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0).sqrt()
            })
            .collect();
        let twin: Vec<f64> =
            (0..n * n).map(|at| common[at / n] * common[at % n] * self.covariance[at] / seeds).collect();
        let mut whole: Vec<f64> = values.iter().zip(&twin).map(|(value, twin)| value + twin).collect();
        let mut noise = vec![0.0; n];
        for i in 0..n {
            if let Known::Printed { half } = targets[i].known {
                // The variance of a uniform rounding error.
                whole[i * n + i] += half * half / 3.0;
            }
            noise[i] = whole[i * n + i].sqrt();
            whole[i * n + i] += floors[i] * floors[i];
        }
        let freedom = (0..n).map(|i| self.freedom(i, n)).collect();
        let at_one_point = |at: usize| targets[at / n].at == targets[at % n].at;
        let alike = (0..n * n).map(|at| if at_one_point(at) { self.alike[at] } else { 0.0 }).collect();
        KnownCovariance { whole, noise, values, twin, freedom, copies: self.copies.clone(), alike }
    }
}

/// See [`Noise::known`].
#[derive(Debug, Clone)]
pub(crate) struct KnownCovariance {
    /// All of it.
    pub(crate) whole: Vec<f64>,
    /// For each target its deviation without the floor.
    pub(crate) noise: Vec<f64>,
    /// The uncertainty from single runs and repeats of the targets' values.
    pub(crate) values: Vec<f64>,
    /// The uncertainty from the twin's seeds.
    pub(crate) twin: Vec<f64>,
    /// For each target the degrees of freedom of its variance over the twin's seeds.
    pub(crate) freedom: Vec<f64>,
    /// For each target the first one that it copies.
    pub(crate) copies: Vec<Option<usize>>,
    /// Evidence that two targets of a point have the same information.
    alike: Vec<f64>,
}

impl KnownCovariance {
    /// Returns whether a target copies another one, and does not count.
    pub(crate) fn is_copy(&self, target: usize) -> bool {
        self.copies[target].is_some()
    }

    /// Returns the number of targets that count.
    pub(crate) fn counted(&self) -> usize {
        self.copies.iter().filter(|of| of.is_none()).count()
    }

    /// Returns targets with nearly the same information, in groups of two and more; without copies.
    pub(crate) fn alike(&self) -> Vec<Vec<usize>> {
        let n = self.copies.len();
        let is_near = |a: usize, b: usize| is_alike(self.alike[a * n + b], [self.freedom[a], self.freedom[b]]);
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for i in (0..n).filter(|i| !self.is_copy(*i)) {
            match groups.iter().position(|group| is_near(group[0], i)) {
                Some(group) => groups[group].push(i),
                None => groups.push(vec![i]),
            }
        }
        groups.retain(|group| group.len() > 1);
        groups
    }
}

/// Returns the differences of a target's means over the seeds from their mean over the settings; 0 without a value.
fn moves(evaluated: &[&Evaluated], target: usize) -> Vec<f64> {
    let mean = |one: &&Evaluated| {
        let there: Vec<f64> = one.values[target].iter().flatten().copied().collect();
        (!there.is_empty()).then(|| there.iter().sum::<f64>() / there.len() as f64)
    };
    let means: Vec<Option<f64>> = evaluated.iter().map(mean).collect();
    deviations(&means).into_iter().map(Option::unwrap_or_default).collect()
}

/// Returns the variance of a target over seeds, without the part that each seed adds at all settings alike.
fn own(evaluated: &[&Evaluated], target: usize) -> f64 {
    let whole = |one: &&Evaluated| deviations(&one.values[target]).into_iter().collect::<Option<Vec<f64>>>();
    let rows: Vec<Vec<f64>> = evaluated.iter().filter_map(whole).collect();
    let seeds = rows.iter().map(Vec::len).min().unwrap_or(0);
    if rows.len() < 2 || seeds < 2 {
        return 0.0;
    }
    let alike = |seed: usize| rows.iter().map(|row| row[seed]).sum::<f64>() / rows.len() as f64;
    let squares = |seed: usize| rows.iter().map(|row| (row[seed] - alike(seed)).powi(2)).sum::<f64>();
    (0..seeds).map(squares).sum::<f64>() / ((rows.len() - 1) * (seeds - 1)) as f64
}

/// Returns the differences from the mean.
fn deviations(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let there: Vec<f64> = values.iter().flatten().copied().collect();
    let mean = there.iter().sum::<f64>() / there.len().max(1) as f64;
    values.iter().map(|value| value.map(|value| value - mean)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::PointLabels;

    #[test]
    fn noise_is_that_of_seeds_not_of_settings() {
        let one = |values: [[f64; 3]; 2]| Evaluated {
            setting: vec![],
            values: values.iter().map(|row| row.iter().copied().map(Some).collect()).collect(),
            invalid: 0,
            why: None,
        };
        let all = [one([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]), one([[101.0, 102.0, 103.0], [5.0, 15.0, 25.0]])];
        let noise = Noise::of(vec![None; 2], &all.iter().collect::<Vec<_>>());
        assert_eq!((noise.covariance[0], noise.covariance[3], noise.seeds), (1.0, 100.0, 3));
        // Two degrees of freedom of two targets: a half. Settings move them in opposite directions.
        assert!((noise.covariance[1] - 4.75).abs() < 1e-12);
        let target = |known| TargetValue {
            metric: "m".into(),
            at: PointLabels::new(),
            value: 0.0,
            bound: None,
            known,
            weight: 1.0,
        };
        let targets = [target(Known::Repeats { n: 4, deviation: 2.0 }), target(Known::Printed { half: 3.0 })];
        // Both settings have the same differences, which are the seeds'.
        assert_eq!(noise.own, [0.0, 0.0]);
        let known = noise.known(&targets, &[0.5, 0.0], &[9.0, 9.0]);
        // 2²/4, 1/3 and 0.5²; 100, 3²/3 and 100/3.
        assert!((known.whole[0] - (1.0 + 1.0 / 3.0 + 0.25)).abs() < 1e-12);
        assert!((known.whole[3] - (100.0 + 3.0 + 100.0 / 3.0)).abs() < 1e-12);
        // Without the floor of 0.5.
        assert!((known.noise[0] - (1.0 + 1.0 / 3.0f64).sqrt()).abs() < 1e-12);
    }
}
