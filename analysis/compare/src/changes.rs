//! Finds where the mean of a series changed: the largest jump of means, tested against random orders of the same values.
//!
//! Called by [`super::history`]. A change is reported for a series without one with a probability of [`ALPHA`].
//! Deterministic: the seed of the permutations is a constant.

use serde::Serialize;

use pktgen_records::stats::{self, SplitMix};

/// Probability that a series without a change is reported to have one.
pub(crate) const ALPHA: f64 = 0.01;
/// Number of permutations that a series is compared with.
const PERMUTATIONS: usize = 1999;
/// Minimum number of values on each side of a change.
const SIDE_MIN: usize = 2;

/// Minimum number of values for a significant change: with fewer, more than [`ALPHA`] of all orders contain a step as
/// large as one in the middle.
pub(crate) const RUNS_MIN: usize = 10;

/// A change of the mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Position of the first value after it.
    pub at: usize,
    /// Mean of the values since the previous change, or since the start.
    pub before: f64,
    /// Mean of the values up to the next change, or to the end.
    pub after: f64,
    /// Share of permutations with a jump at least this large.
    pub p: f64,
}

/// Returns the changes of `values`, in order.
pub fn changes(values: &[f64]) -> Vec<Change> {
    let mut found: Vec<(usize, f64)> = Vec::new();
    // Each part between changes is searched again.
    let mut parts = vec![(0, values.len())];
    while let Some((from, to)) = parts.pop() {
        if let Some((at, p)) = largest(&values[from..to]) {
            found.push((from + at, p));
            parts.extend([(from, from + at), (from + at, to)]);
        }
    }
    found.sort_by_key(|(at, _)| *at);
    let mean = |from: usize, to: usize| stats::mean(&values[from..to]).unwrap_or(f64::NAN);
    let ends: Vec<usize> = found.iter().map(|(at, _)| *at).chain([values.len()]).collect();
    let mut start = 0;
    let mut out = Vec::new();
    for (i, (at, p)) in found.iter().enumerate() {
        out.push(Change { at: *at, before: mean(start, *at), after: mean(*at, ends[i + 1]), p: *p });
        start = *at;
    }
    out
}

/// Returns the largest change of a part if at most [`ALPHA`] of random orders have such a jump.
fn largest(values: &[f64]) -> Option<(usize, f64)> {
    let (at, size) = jump(values)?;
    let mut order = values.to_vec();
    let mut random = SplitMix::new(0x6368_616e_6765_7300);
    let most = (ALPHA * (PERMUTATIONS + 1) as f64) as usize;
    let mut as_large = 1;
    for _ in 0..PERMUTATIONS {
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i + 1));
        }
        // The same split in another order differs by rounding errors only.
        as_large += usize::from(jump(&order).is_some_and(|(_, other)| other >= size * (1.0 - 1e-9)));
        if as_large > most {
            return None;
        }
    }
    Some((at, as_large as f64 / (PERMUTATIONS + 1) as f64))
}

/// Returns where the means before and after differ most in relation to their lengths, and by how much; `None` if nothing differs.
fn jump(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    let mean = stats::mean(values)?;
    let mut sum = 0.0;
    let mut best = (0, 0.0);
    for (i, value) in values.iter().enumerate().take(n.saturating_sub(SIDE_MIN)) {
        sum += value - mean;
        let k = i + 1;
        let size = f64::abs(sum) / (k as f64 * (n - k) as f64 / n as f64).sqrt();
        if k >= SIDE_MIN && size > best.1 {
            best = (k, size);
        }
    }
    let spread = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
    (best.0 > 0 && spread > 1e-12 * mean.abs()).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_records::testing::Dice;

    /// Returns approximately normal noise.
    fn noise(dice: &mut Dice) -> f64 {
        (0..12).map(|_| dice.uniform()).sum::<f64>() - 6.0
    }

    #[test]
    fn planted_steps_are_found_where_they_are() {
        let mut dice = Dice::new(5);
        let series: Vec<f64> = (0..60).map(|i| 100.0 + [0.0, 5.0, 2.0][i / 20] + 0.5 * noise(&mut dice)).collect();
        let found = changes(&series);
        let places: Vec<usize> = found.iter().map(|change| change.at).collect();
        assert_eq!(places, [20, 40], "{found:?}");
        assert!((found[0].before - 100.0).abs() < 0.5 && (found[0].after - 105.0).abs() < 0.5, "{found:?}");
        assert!((found[1].after - 102.0).abs() < 0.5 && found.iter().all(|change| change.p <= ALPHA));
        // A step of two deviations among thirty values, in nearly all of 100 series, within two places.
        let mut near = 0;
        for _ in 0..100 {
            let series: Vec<f64> = (0..30).map(|i| if i < 15 { 0.0 } else { 2.0 } + noise(&mut dice)).collect();
            near += usize::from(changes(&series).iter().any(|change| change.at.abs_diff(15) <= 2));
        }
        assert!(near >= 85, "{near} of 100");
    }

    #[test]
    fn pure_noise_has_changes_as_rarely_as_stated() {
        let mut dice = Dice::new(11);
        let trials = 2000;
        let alarms = (0..trials)
            .filter(|trial| {
                let series: Vec<f64> =
                    (0..24).map(|_| if trial % 2 == 0 { noise(&mut dice) } else { dice.exponential() }).collect();
                !changes(&series).is_empty()
            })
            .count();
        // 20 are expected of 2000; 35 or more occur by chance less than once in a thousand.
        assert!((6..35).contains(&alarms), "{alarms} of {trials}");
    }

    #[test]
    fn a_change_needs_ten_runs() {
        let step = |n: usize| -> Vec<f64> { (0..n).map(|i| if i < n / 2 { 1.0 } else { 9.0 }).collect() };
        for n in 0..RUNS_MIN {
            assert!(changes(&step(n)).is_empty(), "{n}");
        }
        assert_eq!(changes(&step(RUNS_MIN)).len(), 1);
    }

    #[test]
    fn short_and_constant_series_have_none() {
        for series in [&[][..], &[1.0], &[1.0, 9.0], &[1.0, 1.0, 9.0, 9.0], &[3.0; 40]] {
            assert!(changes(series).is_empty(), "{series:?}");
        }
    }
}
