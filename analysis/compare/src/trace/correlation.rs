//! Correlation between workers: of their counts in common windows of 5 mean gaps, over pairs of workers.
//!
//! Workers that learn together slow down together; copies must do so to the same degree. A mean over pairs does not
//! reveal that each worker has one twin among hundreds, so twins are counted, too.

use std::collections::BTreeMap;

use pktgen_core::registry::Named;
use pktgen_records::stats::mean;

use super::sample::{Own, Sample};
use super::{PropertyFinding, TraceProperty};

/// Length of a window, in mean gaps of all workers.
const SIZE: f64 = 5.0;
/// Maximum number of windows, evenly spaced over the run, and the minimum for a result.
const WINDOWS: usize = 256;
const LEAST: usize = 10;
/// Maximum number of workers among which twins are searched, since every pair is compared.
const WORKERS: usize = 1000;
/// Odd, so that no two clusters are mapped to one number; 2¹⁶ divided by the golden ratio, so that the selected ones have no period.
const SPREAD: u16 = 40503;
/// Two workers with a higher correlation than this are twins.
const TWIN: f64 = 0.98;
/// Differences of mean correlations that do not matter, and the effect of chance for n windows: the standard deviation
/// of one pair is 1/√n, and all pairs share the windows.
const TOLERANCE: f64 = 0.1;
const CHANCE: f64 = 1.0;
/// Tolerated difference of the share of workers with a twin.
const TWINS: f64 = 0.02;

pub(super) struct Correlation;

impl Named for Correlation {
    fn name(&self) -> &'static str {
        "correlation"
    }
    fn about(&self) -> &'static str {
        "correlation between workers' counts, within and across clusters; identical workers"
    }
}

impl TraceProperty for Correlation {
    fn compare(&self, original: &Sample, scaled: &Sample) -> Vec<PropertyFinding> {
        let [one, other] = [original, scaled].map(|sample| Pairs::of(&sample.workers));
        let Some(one) = one else {
            return vec![PropertyFinding::not_applicable(
                self,
                "the original has too few workers, or updates, that vary",
            )];
        };
        let Some(other) = other else {
            return vec![PropertyFinding::lost(self, "the scaled trace has too few workers, or updates, that vary")];
        };
        let limit = TOLERANCE + CHANCE / (one.windows.min(other.windows) as f64).sqrt();
        let kinds =
            [("pairs of a cluster", one.within, other.within), ("pairs of two clusters", one.across, other.across)];
        let means = kinds.into_iter().filter_map(|(what, one, other)| {
            let one = one?;
            let Some(other) = other else {
                return Some(PropertyFinding::lost(self, &format!("no {what} in the scaled trace")));
            };
            let statistic = format!("difference of mean over {what} ({one:.2}, {other:.2})");
            Some(PropertyFinding::judged(self, &statistic, (one - other).abs(), limit))
        });
        let twins = (one.twins - other.twins).abs();
        means
            .chain([PropertyFinding::judged(self, "difference of the share of workers with a twin", twins, TWINS)])
            .collect()
    }
}

/// Results for all pairs.
struct Pairs {
    within: Option<f64>,
    across: Option<f64>,
    /// Share of workers with a twin.
    twins: f64,
    windows: usize,
}

impl Pairs {
    /// Computes the results; `None` if fewer than two workers vary.
    fn of(workers: &[Own]) -> Option<Pairs> {
        let gap = mean(&workers.iter().filter_map(|own| own.mean_gap()).collect::<Vec<_>>())?;
        let first = workers.iter().filter_map(|own| own.times.first()).min()?;
        let last = workers.iter().filter_map(|own| own.times.last()).max()?;
        let span = (last - first) as f64;
        let windows = ((span / (gap * SIZE)) as usize).min(WINDOWS);
        if windows < LEAST {
            return None;
        }
        let counts = |own: &Own| {
            let below = |t: f64| own.times.partition_point(|at| ((at - first) as f64) < t) as f64;
            let begin = |i: usize| span * i as f64 / windows as f64;
            standardise((0..windows).map(|i| below(begin(i) + gap * SIZE) - below(begin(i))).collect())
        };
        let series: Vec<_> = workers.iter().filter_map(|own| counts(own).map(|series| (own.cluster, series))).collect();
        (series.len() >= 2).then(|| Pairs::correlate(&series, windows))
    }

    fn correlate(series: &[(u16, Vec<f64>)], windows: usize) -> Pairs {
        let mut clusters: BTreeMap<u16, (f64, Vec<f64>)> = BTreeMap::new();
        let mut whole = (0.0, vec![0.0; windows]);
        for (cluster, own) in series {
            let new = || (0.0, vec![0.0; windows]);
            for (count, sum) in [clusters.entry(*cluster).or_insert_with(new), &mut whole] {
                *count += 1.0;
                sum.iter_mut().zip(own).for_each(|(sum, x)| *sum += x);
            }
        }
        // For vectors of length 1, the square of the sum is their number plus twice the sum over pairs.
        let pairs = |(n, sum): &(f64, Vec<f64>)| (n * (n - 1.0), sum.iter().map(|x| x * x).sum::<f64>() - n);
        let all = pairs(&whole);
        let within = clusters.values().map(pairs).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let ratio = |(n, sum): (f64, f64)| (n > 0.0).then(|| sum / n);
        let looked = looked_at(series);
        let mut twin = vec![false; looked.len()];
        for (i, one) in looked.iter().enumerate() {
            for (j, other) in looked.iter().enumerate().skip(i + 1) {
                if !(twin[i] && twin[j]) && one.iter().zip(*other).map(|(a, b)| a * b).sum::<f64>() > TWIN {
                    (twin[i], twin[j]) = (true, true);
                }
            }
        }
        Pairs {
            within: ratio(within),
            across: ratio((all.0 - within.0, all.1 - within.1)),
            twins: twin.iter().filter(|twin| **twin).count() as f64 / looked.len() as f64,
            windows,
        }
    }
}

/// Selects whole clusters, since twins are often neighbours, until there are enough workers.
fn looked_at(series: &[(u16, Vec<f64>)]) -> Vec<&Vec<f64>> {
    let mut clusters: BTreeMap<u16, Vec<&Vec<f64>>> = BTreeMap::new();
    series.iter().for_each(|(cluster, own)| clusters.entry(cluster.wrapping_mul(SPREAD)).or_default().push(own));
    clusters.into_values().flatten().take(WORKERS).collect()
}

/// Returns the deviations from the mean as a vector of length 1; `None` if all are equal.
fn standardise(mut counts: Vec<f64>) -> Option<Vec<f64>> {
    let mean = mean(&counts)?;
    counts.iter_mut().for_each(|count| *count -= mean);
    let length = counts.iter().map(|x| x * x).sum::<f64>().sqrt();
    (length > 0.0).then(|| counts.iter().map(|x| x / length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_by_hand() {
        let series = |cluster: u16, counts: &[f64]| (cluster, standardise(counts.to_vec()).unwrap());
        let (up, down) = ([1.0, 2.0, 3.0], [6.0, 4.0, 2.0]);
        let pairs = Pairs::correlate(&[series(0, &up), series(0, &up), series(1, &down)], 3);
        assert!((pairs.within.unwrap() - 1.0).abs() < 1e-12 && (pairs.across.unwrap() + 1.0).abs() < 1e-12);
        assert!((pairs.twins - 2.0 / 3.0).abs() < 1e-12);
        assert!(standardise(vec![2.0; 9]).is_none());
    }
}
