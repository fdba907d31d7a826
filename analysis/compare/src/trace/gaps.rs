//! The distribution of gaps: the Kolmogorov–Smirnov distance between all gaps of the two traces, each relative to its worker's mean.
//!
//! Gaps are pooled over workers: a test per worker would need a correction for hundreds of tests and could no longer detect a change
//! common to all. The workers of the two traces have no ids in common, and means are compared by `rates`.

use pktgen_core::registry::Named;

use super::sample::Sample;
use super::{PropertyFinding, TraceProperty};

/// Distance that does not matter: a burst of every twentieth update may be moved.
const TOLERANCE: f64 = 0.05;
/// Kolmogorov's 1 % point: the difference of two samples of one distribution is this times √(1/n + 1/m).
const CHANCE: f64 = 1.63;
/// Gaps are compared with this many steps per mean: times are whole picoseconds, and scaling rounds them.
const PARTS: f64 = 1000.0;

pub(super) struct Gaps;

impl Named for Gaps {
    fn name(&self) -> &'static str {
        "gaps"
    }
    fn about(&self) -> &'static str {
        "distribution of the time between a worker's updates (Kolmogorov-Smirnov, all workers)"
    }
}

impl TraceProperty for Gaps {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding> {
        let [mut one, mut other] = [original, scaled].map(|sample| {
            let gaps = sample.gaps().concat();
            gaps.into_iter().map(|gap| (gap * PARTS).round() / PARTS).collect::<Vec<_>>()
        });
        vec![match (one.len(), other.len()) {
            (0, _) => PropertyFinding::not_applicable(self, "no worker of the original has two updates"),
            (_, 0) => PropertyFinding::lost(self, "no worker of the scaled trace has gaps"),
            (n, m) => {
                let limit = TOLERANCE + CHANCE * (1.0 / n as f64 + 1.0 / m as f64).sqrt();
                PropertyFinding::judged(self, "distance of distributions (KS)", distance(&mut one, &mut other), limit)
            }
        }]
    }
}

/// Returns the largest difference of the two empirical distributions.
fn distance(one: &mut [f64], other: &mut [f64]) -> f64 {
    one.sort_unstable_by(f64::total_cmp);
    other.sort_unstable_by(f64::total_cmp);
    let (mut i, mut j, mut most) = (0, 0, 0.0f64);
    while i < one.len() && j < other.len() {
        let at = one[i].min(other[j]);
        // Both skip all equal values, so that ties count once.
        while i < one.len() && one[i] <= at {
            i += 1;
        }
        while j < other.len() && other[j] <= at {
            j += 1;
        }
        most = most.max((i as f64 / one.len() as f64 - j as f64 / other.len() as f64).abs());
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        assert_eq!(distance(&mut [1.0, 2.0], &mut [2.0, 1.0, 1.0, 2.0]), 0.0);
        assert_eq!(distance(&mut [1.0, 2.0], &mut [3.0]), 1.0);
        // Below 1.5: a half and a quarter.
        assert_eq!(distance(&mut [1.0, 2.0], &mut [1.0, 2.0, 2.0, 2.0]), 0.25);
        let third = distance(&mut [1.0, 1.0, 1.0], &mut [0.0, 1.0, 2.0]);
        assert!((third - 1.0 / 3.0).abs() < 1e-12, "{third}");
    }
}
