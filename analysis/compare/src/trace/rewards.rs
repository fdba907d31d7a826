//! Change of rewards during the run: their mean in each tenth of a worker's updates, in standard deviations of all
//! rewards; and how many updates have one.

use pktgen_core::registry::Named;
use pktgen_records::stats::mean;

use super::sample::Sample;
use super::{PropertyFinding, TraceProperty};

/// Difference that does not matter, in standard deviations.
const TOLERANCE: f64 = 0.15;
/// Means of n rewards have an error of 1/√n standard deviations; rewards within a tenth are correlated, so fewer of them count.
const CHANCE: f64 = 4.0;

/// Tolerated difference in the share of updates with a reward.
const SHARE: f64 = 0.02;

pub(super) struct Rewards;

impl Named for Rewards {
    fn name(&self) -> &'static str {
        "rewards"
    }
    fn about(&self) -> &'static str {
        "trend of rewards in the course of the run, by tenths; share of updates with a reward"
    }
}

impl TraceProperty for Rewards {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding> {
        let [one, other] = [original, scaled].map(tenths);
        let all: Vec<f64> = one.concat();
        let Some(middle) = mean(&all) else {
            return vec![PropertyFinding::not_applicable(self, "the original has no rewards")];
        };
        if other.iter().all(Vec::is_empty) {
            return vec![PropertyFinding::lost(self, "the scaled trace has no rewards")];
        }
        let share = |tenths: &[Vec<f64>], sample: &Sample| tenths.concat().len() as f64 / sample.updates() as f64;
        let moved = (share(&one, original) - share(&other, scaled)).abs();
        let shares = PropertyFinding::judged(self, "difference of the share of updates with a reward", moved, SHARE);
        let is_first = |reward: &f64| *reward == all[0];
        if all.iter().all(is_first) {
            let trend = if other.iter().flatten().all(is_first) {
                PropertyFinding::not_applicable(self, "all rewards of the original are equal")
            } else {
                PropertyFinding::lost(self, "all rewards of the original are equal; the scaled trace has others")
            };
            return vec![trend, shares];
        }
        let deviation = (all.iter().map(|r| (r - middle).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
        // With few updates, some tenths have none.
        let both = one.iter().zip(&other).filter_map(|(a, b)| Some((mean(a)?, mean(b)?, a.len().min(b.len()))));
        let (mut most, mut fewest) = (0.0f64, usize::MAX);
        for (was, is, n) in both {
            most = most.max((was - is).abs() / deviation);
            fewest = fewest.min(n);
        }
        if fewest == usize::MAX {
            return vec![PropertyFinding::lost(self, "no tenth of the run has rewards in both traces"), shares];
        }
        let limit = TOLERANCE + CHANCE / (fewest as f64).sqrt();
        vec![PropertyFinding::judged(self, "deviations between means, largest of tenths", most, limit), shares]
    }
}

/// Returns the rewards by tenths of each worker's updates.
fn tenths(sample: &Sample) -> [Vec<f64>; 10] {
    let mut tenths: [Vec<f64>; 10] = Default::default();
    for own in &sample.workers {
        for (i, reward) in own.rewards.iter().enumerate().filter(|(_, reward)| !reward.is_nan()) {
            tenths[i * 10 / own.rewards.len()].push(f64::from(*reward));
        }
    }
    tenths
}

#[cfg(test)]
mod tests {
    use super::super::PropertyOutcome;
    use super::super::sample::Own;
    use super::*;

    #[test]
    fn equal_rewards_stay_as_they_are() {
        let sample = |rewards: Vec<f32>| {
            let times = (0..40).collect();
            Sample { workers: vec![Own { times, rewards, ..Own::default() }], ..Sample::default() }
        };
        let original = sample(vec![1.0; 40]);
        let outcome = |rewards: Vec<f32>| Rewards.compare(&original, &sample(rewards))[0].outcome;
        assert_eq!(outcome(vec![1.0; 40]), PropertyOutcome::NotApplicable);
        assert_eq!(outcome(vec![2.0; 40]), PropertyOutcome::Fail);
        assert_eq!(outcome([vec![1.0; 39], vec![1.5]].concat()), PropertyOutcome::Fail);
    }
}
