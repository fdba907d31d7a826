//! Predictions of the twin for points that were not measured, including the uncertainty of its parameters.

use pktgen_core::Result;
use pktgen_core::config::{Document, Origin};
use serde::Serialize;

use crate::answer::CalibrationAnswer;
use crate::settings::PredictPoint;
use crate::target::{PointLabels, TargetValue};
use crate::twin::{Evaluated, Twin};

/// Half of a 95 % interval, in deviations.
const HALF: f64 = 1.959_964;

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
        let around = |deviation: f64| found.map(|found| [found.mean - HALF * deviation, found.mean + HALF * deviation]);
        Prediction {
            point: point.name(),
            metric: target.metric.clone(),
            at: target.at.clone(),
            value: found.map(|found| found.mean),
            mean: found.and_then(|found| around(found.of_mean.sqrt())),
            run: found.and_then(|found| around((found.of_mean + found.of_run).sqrt())),
        }
    };
    Ok(targets.iter().enumerate().map(of).collect())
}

#[derive(Clone, Copy)]
struct Spread {
    mean: f64,
    /// Variance of the mean: of settings, and of the twin's seeds.
    of_mean: f64,
    /// Variance of single runs.
    of_run: f64,
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
    Some(Spread { mean, of_mean: settings + of_run / seeds, of_run })
}
