//! Inequality of workers and clusters: the Wasserstein distance of the distributions of their rates, relative to the
//! mean rate (the mean difference of equal quantiles).

use std::collections::BTreeMap;

use pktgen_core::registry::Named;
use pktgen_records::stats::mean;

use super::sample::Sample;
use super::{PropertyFinding, TraceProperty};

/// Number of quantiles that are compared.
const POINTS: usize = 1000;
/// Difference of rates that does not matter, relative to the mean rate. A worker that is copied once more than another,
/// because numbers do not divide evenly, changes the distribution, too.
const TOLERANCE: f64 = 0.05;

pub(super) struct Rates;

impl Named for Rates {
    fn name(&self) -> &'static str {
        "rates"
    }
    fn about(&self) -> &'static str {
        "inequality of the rates of workers and of clusters"
    }
}

impl TraceProperty for Rates {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding> {
        let (one, other) = (rates(original), rates(scaled));
        let sides = ["mean difference of workers' rates", "mean difference of clusters' rates"];
        let compared = one.into_iter().zip(other).zip(sides).map(|((one, other), statistic)| match (one, other) {
            (one, _) if one.len() < 2 => None,
            (_, other) if other.is_empty() => {
                Some(PropertyFinding::lost(self, "no worker of the scaled trace has a rate"))
            }
            (one, other) => Some(PropertyFinding::judged(self, statistic, distance(one, other), TOLERANCE)),
        });
        let findings: Vec<_> = compared.flatten().collect();
        if findings.is_empty() {
            vec![PropertyFinding::not_applicable(self, "the original has one worker")]
        } else {
            findings
        }
    }
}

/// Returns the rates of workers, and the mean rate of the workers of each cluster.
fn rates(sample: &Sample) -> [Vec<f64>; 2] {
    let mut clusters: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    for own in &sample.workers {
        if let Some(gap) = own.mean_gap() {
            clusters.entry(own.cluster).or_default().push(1.0 / gap);
        }
    }
    let of_clusters = clusters.values().filter_map(|rates| mean(rates)).collect();
    [clusters.into_values().flatten().collect(), of_clusters]
}

/// Returns the mean difference of equal quantiles of the two, each relative to its mean.
fn distance(mut one: Vec<f64>, mut other: Vec<f64>) -> f64 {
    for rates in [&mut one, &mut other] {
        rates.sort_unstable_by(f64::total_cmp);
        let mean = mean(rates).unwrap_or(1.0);
        rates.iter_mut().for_each(|rate| *rate /= mean);
    }
    let at = |rates: &[f64], i: usize| rates[(2 * i + 1) * rates.len() / (2 * POINTS)];
    (0..POINTS).map(|i| (at(&one, i) - at(&other, i)).abs()).sum::<f64>() / POINTS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        assert_eq!(distance(vec![1.0, 3.0], vec![30.0, 10.0, 10.0, 30.0]), 0.0);
        assert!((distance(vec![1.0, 3.0], vec![7.0]) - 0.5).abs() < 1e-12);
    }
}
