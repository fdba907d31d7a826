//! Predictions of the twin for points that were not measured, including the uncertainty of its parameters.

use pktgen_core::Result;
use pktgen_core::config::{Document, Origin};
use pktgen_records::student::quantile;
use serde::Serialize;

use crate::answer::CalibrationAnswer;
use crate::settings::PredictPoint;
use crate::target::{PointLabels, TargetValue};
use crate::twin::{Evaluated, Twin};

/// A metric at a point that was not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The settings at the point.
    pub point: String,
    /// The metric.
    pub metric: String,
    /// The point of the sweep.
    pub at: PointLabels,
    /// The mean over the plausible settings and their seeds; none if a run has no value.
    pub value: Option<f64>,
    /// The interval of 95 % of the mean of many runs.
    pub mean: Option<[f64; 2]>,
    /// The interval of 95 % of one run.
    pub run: Option<[f64; 2]>,
}

/// Applies a point to an experiment.
pub fn at_point(document: &Document, point: &PredictPoint) -> Result<Document> {
    let mut own = document.clone();
    for (key, value) in &point.set {
        own.set(key, value.clone(), Origin::Flag(format!("{key}={}", value.to_label())))?;
    }
    Ok(own)
}

/// Runs the plausible settings at a point.
pub fn predict(
    answer: &CalibrationAnswer,
    targets: &[TargetValue],
    point: &PredictPoint,
    twin: &mut dyn Twin,
) -> Result<Vec<Prediction>> {
    let evaluated = twin.evaluate(&answer.drawn)?;
    let of = |(i, target): (usize, &TargetValue)| {
        let found = spread(&evaluated, i);
        // `more`: the variance of single runs around their mean, for one of them.
        let around = |found: Spread, more: f64| {
            let half = half(found.of_mean + more, found.of_run / found.seeds + more, found.seeds);
            [found.mean - half, found.mean + half]
        };
        Prediction {
            point: point.name(),
            metric: target.metric.clone(),
            at: target.at.clone(),
            value: found.map(|found| found.mean),
            mean: found.map(|found| around(found, 0.0)),
            run: found.map(|found| around(found, found.of_run)),
        }
    };
    Ok(targets.iter().enumerate().map(of).collect())
}

/// Returns half of a 95 % interval with this variance, of which the part `of_seeds` is known from `seeds` runs (Welch, Satterthwaite).
fn half(variance: f64, of_seeds: f64, seeds: f64) -> f64 {
    let freedom = if of_seeds > 0.0 { (variance / of_seeds).powi(2) * (seeds - 1.0) } else { f64::INFINITY };
    quantile(0.025, freedom.clamp(1.0, 1e6)) * variance.sqrt()
}

#[derive(Clone, Copy)]
struct Spread {
    mean: f64,
    /// Variance of the mean: of settings, and of the twin's seeds.
    of_mean: f64,
    /// Variance of single runs.
    of_run: f64,
    /// Number of seeds.
    seeds: f64,
}

fn spread(evaluated: &[Evaluated], target: usize) -> Option<Spread> {
    let each = |one: &Evaluated| one.values[target].iter().copied().collect::<Option<Vec<f64>>>();
    let runs = evaluated.iter().map(each).collect::<Option<Vec<_>>>()?;
    let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let means: Vec<f64> = runs.iter().map(|values| mean_of(values)).collect();
    let mean = mean_of(&means);
    let settings = means.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (means.len() as f64 - 1.0).max(1.0);
    let seeds = runs.first()?.len() as f64;
    let within: f64 =
        runs.iter().zip(&means).flat_map(|(values, mean)| values.iter().map(move |x| (x - mean).powi(2))).sum();
    let of_run = within / ((seeds - 1.0) * runs.len() as f64).max(1.0);
    Some(Spread { mean, of_mean: settings + of_run / seeds, of_run, seeds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_as_wide_as_few_seeds_make_them() {
        assert!((half(1.0, 1.0, 5.0) - 2.776_445).abs() < 1e-4);
        assert!((half(1.0, 0.0, 5.0) - 1.959_966).abs() < 1e-4);
        assert!((half(4.0, 1.0, 2.0) - 2.0 * quantile(0.025, 16.0)).abs() < 1e-9);
    }
}
