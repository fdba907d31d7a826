//! Change of gaps during the run: their mean in each tenth of a worker's updates.

use pktgen_core::registry::Named;
use pktgen_records::stats::mean;

use super::sample::Sample;
use super::{PropertyFinding, TraceProperty};

/// Tolerance of the ratio's logarithm: about a tenth.
const TOLERANCE: f64 = 0.1;
/// Minimum number of gaps of a worker: two in each tenth.
const LEAST: usize = 20;
/// Means of n gaps with a coefficient of variation v have an error of v/√n; gaps within a tenth are correlated, so fewer of them count.
const CHANCE: f64 = 4.0;
/// Reasons why there is no mean, or no ratio of means.
const NONE_OF_ORIGINAL: &str = "the original has no worker with 20 gaps, or a tenth in which no time passes";
const NONE_OF_SCALED: &str = "the scaled trace has no worker with 20 gaps, or a tenth in which no time passes";

pub(super) struct Pace;

impl Named for Pace {
    fn name(&self) -> &'static str {
        "pace"
    }
    fn about(&self) -> &'static str {
        "trend of gaps in the course of the run, by tenths"
    }
}

impl TraceProperty for Pace {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding> {
        let [one, other] = [original, scaled].map(|sample| tenths(&sample.gaps()));
        vec![match (one, other) {
            (None, _) => PropertyFinding::not_applicable(self, NONE_OF_ORIGINAL),
            (_, None) => PropertyFinding::lost(self, NONE_OF_SCALED),
            (Some((one, error)), Some((other, _))) => {
                let most = one.iter().zip(&other).map(|(a, b)| (a / b).ln().abs()).fold(0.0, f64::max);
                PropertyFinding::judged(
                    self,
                    "log ratio of mean gaps, largest of tenths",
                    most,
                    TOLERANCE + CHANCE * error,
                )
            }
        }]
    }
}

/// Returns the mean gap of each tenth over all workers, and its relative error by chance.
fn tenths(gaps: &[Vec<f64>]) -> Option<([f64; 10], f64)> {
    let mut all: [Vec<f64>; 10] = Default::default();
    for own in gaps.iter().filter(|own| own.len() >= LEAST) {
        own.iter().enumerate().for_each(|(i, gap)| all[i * 10 / own.len()].push(*gap));
    }
    let means = all.each_ref().map(|gaps| mean(gaps).unwrap_or(0.0));
    let error = |(gaps, mean): (&Vec<f64>, &f64)| {
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        variance.sqrt() / mean / (gaps.len() as f64).sqrt()
    };
    // A tenth in which no time passes has no ratio.
    means.iter().all(|mean| *mean > 0.0).then(|| (means, all.iter().zip(&means).map(error).fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests {
    use super::super::sample::Own;
    use super::*;

    #[test]
    fn tenths_are_of_each_worker() {
        let slower: Vec<f64> = (0..100).map(|i| f64::from(i / 10 + 1)).collect();
        let (means, error) = tenths(&[slower.clone(), slower[..19].to_vec(), slower.repeat(1)]).unwrap();
        assert_eq!(means, std::array::from_fn(|i| i as f64 + 1.0));
        assert_eq!(error, 0.0);
        assert!(tenths(&[slower[..19].to_vec()]).is_none());
    }

    #[test]
    fn a_tenth_in_which_no_time_passes_is_a_reason() {
        let sample = |still: usize| {
            let times = (0..=40).map(|i| if i < still { 0 } else { (i - still) as i64 }).collect();
            Sample { workers: vec![Own { times, ..Own::default() }], ..Sample::default() }
        };
        let statistic = |one, other| Pace.compare(&sample(one), &sample(other)).remove(0).statistic;
        for reason in [statistic(5, 0), statistic(0, 5)] {
            assert!(reason.contains("a tenth in which no time passes"), "{reason}");
        }
        assert!(statistic(0, 0).starts_with("log ratio"));
    }
}
