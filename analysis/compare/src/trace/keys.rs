//! Skew of parameters: the share of all updates that goes to the hottest keys, as in LIBRA's Figure 5, at shares of the
//! original's keys; and whether the hottest keys are the same.

use std::collections::{HashMap, HashSet};

use pktgen_core::registry::Named;

use super::sample::Sample;
use super::{PropertyFinding, TraceProperty};

/// Points at which curves are compared, as shares of the original's keys.
const SHARES: [f64; 6] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3];
/// Share of the original's keys that are hot and must stay hot.
const HOT: f64 = 0.01;
/// Difference of shares that does not matter.
const TOLERANCE: f64 = 0.03;
/// Tolerated share of the hottest keys that are replaced: near the limit, counts are nearly equal.
const OTHERS: f64 = 0.2;

pub(super) struct Keys;

impl Named for Keys {
    fn name(&self) -> &'static str {
        "keys"
    }
    fn about(&self) -> &'static str {
        "inequality of parameters: share of updates of the hottest keys, and their identity"
    }
}

impl TraceProperty for Keys {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding> {
        if original.keys.is_empty() {
            return vec![PropertyFinding::not_applicable(self, "the original has no keys")];
        }
        if scaled.keys.is_empty() {
            return vec![PropertyFinding::lost(self, "the scaled trace has no keys")];
        }
        let (one, other) = (hottest(&original.keys), hottest(&scaled.keys));
        let at = |share: f64| ((share * one.len() as f64).round() as usize).max(1);
        let difference = |share: &f64| (part(&one, at(*share)) - part(&other, at(*share))).abs();
        let most = SHARES.iter().map(difference).fold(0.0, f64::max);
        let was: HashSet<u64> = one[..at(HOT)].iter().map(|(_, key)| *key).collect();
        let kept = other.iter().take(at(HOT)).filter(|(_, key)| was.contains(key)).count();
        let gone = (was.len() - kept) as f64 / was.len() as f64;
        vec![
            PropertyFinding::judged(self, "difference of the share of the hottest 0.1 to 30 %", most, TOLERANCE),
            PropertyFinding::judged(self, "share of the hottest 1 % that are others", gone, OTHERS),
        ]
    }
}

/// Returns counts and keys, the hottest first; ties by key.
fn hottest(keys: &HashMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut all: Vec<_> = keys.iter().map(|(key, count)| (*count, *key)).collect();
    all.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    all
}

/// Returns the share of all updates that goes to the first `n` keys.
fn part(all: &[(u64, u64)], n: usize) -> f64 {
    let sum = |part: &[(u64, u64)]| part.iter().map(|(count, _)| count).sum::<u64>() as f64;
    sum(&all[..n.min(all.len())]) / sum(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_keys_that_vanish_are_replaced() {
        let sample = |keys: std::ops::Range<u64>| Sample {
            keys: keys.map(|key| (key, 1000 - key)).collect(),
            ..Sample::default()
        };
        let gone = |scaled: Sample| Keys.compare(&sample(0..1000), &scaled)[1].value;
        assert_eq!(gone(sample(0..1000)), Some(0.0));
        assert_eq!(gone(sample(5..1000)), Some(0.5));
        // Only 4 of the 10 hottest keys are left, and no others.
        assert_eq!(gone(sample(0..4)), Some(0.6));
    }

    #[test]
    fn the_hottest_come_first() {
        let all = hottest(&[(7, 1), (5, 6), (6, 1), (1, 2)].into());
        assert_eq!(all, [(6, 5), (2, 1), (1, 6), (1, 7)]);
        assert_eq!((part(&all, 1), part(&all, 2), part(&all, 9)), (0.6, 0.8, 1.0));
    }
}
