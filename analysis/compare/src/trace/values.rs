//! Distribution of gradients: quantiles of the binary logarithm of magnitudes, the shares of exact zeros and of
//! negative numbers, and how many updates have values.

use pktgen_core::registry::Named;

use super::sample::Sample;
use super::{PropertyFinding, TraceProperty};

const QUANTILES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];
/// Tolerated difference in bits: a change of numbers by an eighth shifts quantiles by a fifth of a bit, and a bin is 1/16.
const TOLERANCE: f64 = 0.3;
/// Tolerated difference in the share of zeros among all numbers, of negative ones among nonzero numbers, and of updates without values.
const SHARE: f64 = 0.02;

pub(super) struct Values;

impl Named for Values {
    fn name(&self) -> &'static str {
        "values"
    }
    fn about(&self) -> &'static str {
        "distribution of gradients: quantiles of log2 of magnitudes, shares of zeros, of negative numbers and of updates with any"
    }
}

impl TraceProperty for Values {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding> {
        let (one, other) = (&original.magnitudes, &scaled.magnitudes);
        if one.zeros + one.others == 0 {
            return vec![PropertyFinding::not_applicable(self, "the original has no values")];
        }
        if other.zeros + other.others == 0 {
            return vec![PropertyFinding::lost(self, "the scaled trace has no values")];
        }
        let judged = |what: &str, share: [f64; 2]| {
            let moved = (share[0] - share[1]).abs();
            PropertyFinding::judged(self, &format!("difference of the share of {what}"), moved, SHARE)
        };
        let both = [original, scaled];
        let zeros = both.map(|s| s.magnitudes.zeros as f64 / (s.magnitudes.zeros + s.magnitudes.others) as f64);
        let with_values = both.map(|s| s.with_values as f64 / s.updates() as f64);
        let mut findings = vec![judged("updates with values", with_values), judged("zeros", zeros)];
        if one.others > 0 && other.others == 0 {
            findings.push(PropertyFinding::lost(self, "the scaled trace has zeros only"));
        } else if one.others > 0 {
            let negative = both.map(|s| s.magnitudes.negative as f64 / s.magnitudes.others as f64);
            findings.push(judged("negative numbers", negative));
            let moved = QUANTILES.map(|q| (one.quantile(q).unwrap_or(0.0) - other.quantile(q).unwrap_or(0.0)).abs());
            let most = moved.into_iter().fold(0.0, f64::max);
            findings.push(PropertyFinding::judged(
                self,
                "bits between quantiles, largest of 1 to 99 %",
                most,
                TOLERANCE,
            ));
        }
        findings
    }
}
