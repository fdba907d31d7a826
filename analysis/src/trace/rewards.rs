//! How rewards change in the course of the run: their mean in each tenth of a worker's updates, in deviations of all rewards.

use pktgen_generator::registry::Named;

use super::sample::Sample;
use super::{Finding, Property};
use crate::stats::mean;

/// A difference that does not matter, in standard deviations.
const TOLERANCE: f64 = 0.15;
/// Means of n rewards have an error of 1/√n deviations; rewards of a tenth are alike, so fewer of them count.
const CHANCE: f64 = 4.0;

pub(super) struct Rewards;

impl Named for Rewards {
    fn name(&self) -> &'static str {
        "rewards"
    }
    fn about(&self) -> &'static str {
        "how rewards change in the course of the run, by tenths"
    }
}

impl Property for Rewards {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<Finding> {
        let one = tenths(original);
        let all: Vec<f64> = one.concat();
        let Some(middle) = mean(&all) else {
            return vec![Finding::not_applicable(self, "the original has no rewards")];
        };
        let deviation = (all.iter().map(|r| (r - middle).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
        if deviation == 0.0 {
            return vec![Finding::not_applicable(self, "all rewards of the original are equal")];
        }
        let other = tenths(scaled);
        let (mut most, mut fewest) = (0.0f64, usize::MAX);
        for (one, other) in one.iter().zip(&other) {
            let Some(was) = mean(one) else { continue };
            let Some(is) = mean(other) else { return vec![Finding::lost(self, "the scaled trace has no rewards")] };
            most = most.max((was - is).abs() / deviation);
            fewest = fewest.min(one.len()).min(other.len());
        }
        let limit = TOLERANCE + CHANCE / (fewest as f64).sqrt();
        vec![Finding::judged(self, "deviations between means, largest of tenths", most, limit)]
    }
}

/// Rewards by tenths of each worker's updates.
fn tenths(sample: &Sample) -> [Vec<f64>; 10] {
    let mut tenths: [Vec<f64>; 10] = Default::default();
    for own in &sample.workers {
        for (i, reward) in own.rewards.iter().enumerate().filter(|(_, reward)| !reward.is_nan()) {
            tenths[i * 10 / own.rewards.len()].push(f64::from(*reward));
        }
    }
    tenths
}
