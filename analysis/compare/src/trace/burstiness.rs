//! Bursts: the index of dispersion (variance over mean) of a worker's counts in windows of 2 to 20 of its mean gaps. It is 1 for
//! independent exponential gaps and 0 for a clock. Windows are per worker, because sums over workers grow with their number.

use pktgen_core::registry::Named;

use super::sample::{Own, Sample};
use super::{PropertyFinding, TraceProperty};

/// Lengths of windows, in mean gaps.
const SIZES: [f64; 4] = [2.0, 5.0, 10.0, 20.0];
/// Minimum number of windows of a length for a worker to count.
const WINDOWS: usize = 8;
/// Added to each index: below this, arrivals are as regular as a clock, and ratios have no meaning.
const FLOOR: f64 = 0.05;
/// Tolerance of the ratio's logarithm: about a fifth.
const TOLERANCE: f64 = 0.2;
/// The logarithm of the variance of n counts has a standard deviation of about √(2/n).
const CHANCE: f64 = 2.6;

pub(super) struct Burstiness;

impl Named for Burstiness {
    fn name(&self) -> &'static str {
        "burstiness"
    }
    fn about(&self) -> &'static str {
        "index of dispersion of a worker's counts in windows of 2, 5, 10 and 20 mean gaps"
    }
}

impl TraceProperty for Burstiness {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding> {
        let mut findings = Vec::new();
        for size in SIZES {
            let [one, other] = [original, scaled].map(|sample| dispersion(&sample.workers, size));
            let Some((one, n)) = one else { continue };
            findings.push(match other {
                None => PropertyFinding::lost(self, &format!("too few windows of {size} gaps in the scaled trace")),
                Some((other, m)) => {
                    let ratio = ((other + FLOOR) / (one + FLOOR)).ln().abs();
                    let limit = TOLERANCE + CHANCE * (2.0 / n as f64 + 2.0 / m as f64).sqrt();
                    PropertyFinding::judged(self, &format!("log ratio, windows of {size} gaps"), ratio, limit)
                }
            });
        }
        if findings.is_empty() {
            findings.push(PropertyFinding::not_applicable(self, "no worker of the original has enough updates"));
        }
        findings
    }
}

/// Returns the mean over workers and the number of windows.
fn dispersion(workers: &[Own], size: f64) -> Option<(f64, usize)> {
    let (mut sum, mut used, mut windows) = (0.0, 0, 0);
    for own in workers {
        let Some(gap) = own.mean_gap() else { continue };
        let n = ((own.times.len() - 1) as f64 / size) as usize;
        if n < WINDOWS {
            continue;
        }
        let mut counts = vec![0u32; n];
        for t in &own.times {
            let window = (t - own.times[0]) as f64 / (gap * size);
            if let Some(count) = counts.get_mut(window as usize) {
                *count += 1;
            }
        }
        let mean = counts.iter().sum::<u32>() as f64 / n as f64;
        let squares = counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>();
        sum += squares / (n - 1) as f64 / mean;
        (used, windows) = (used + 1, windows + n);
    }
    (used > 0).then(|| (sum / f64::from(used), windows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_none_and_pairs_have_two() {
        let clock = Own { times: (0..1001).map(|i| i * 10).collect(), ..Own::default() };
        let (index, windows) = dispersion(&[clock], 5.0).unwrap();
        assert!(index < 1e-9 && windows == 200, "{index} {windows}");
        // Bursts of 20 every 20 gaps: windows of 10 have 20 or none.
        let bursts = Own { times: (0..2001).map(|i| i / 20 * 200 + 5).collect(), ..Own::default() };
        let (index, _) = dispersion(&[bursts], 10.0).unwrap();
        assert!((index - 10.0).abs() < 0.5, "{index}");
    }
}
