//! Finds where the mean of a series changed: the largest jump of means, and the stretch that differs most from the values around it (a
//! change that was taken back hides from a single jump), each tested against random orders of the same values. This is circular binary
//! segmentation (Olshen et al., Biostatistics 2004) after the plain one.
//!
//! Called by [`super::history`]. A change is reported for a series without one with a probability of [`ALPHA`].
//! Deterministic: the seed of the permutations is a constant.

use serde::Serialize;

use pktgen_records::stats::{self, SplitMix};

/// Probability that a series without a change is reported to have one.
pub(crate) const ALPHA: f64 = 0.01;
/// The part of it for single jumps; the rest is for stretches.
const SPLIT_ALPHA: f64 = 0.009;
/// Number of ends of stretches that are compared at most.
const GRID: usize = 150;
/// Number of permutations that a series is compared with.
const PERMUTATIONS: usize = 9999;
/// Differences below this share of the values are rounding.
pub(crate) const ROUNDING: f64 = 1e-12;
/// Minimum number of values on each side of a change.
const SIDE_MIN: usize = 2;

/// Minimum number of values for a significant change: with fewer, more than [`ALPHA`] of all orders contain a step as
/// large as one in the middle.
pub(crate) const RUNS_MIN: usize = 10;
/// The same for a stretch: [`shortest_stretch`] of fewer is `None`.
pub(crate) const STRETCH_RUNS_MIN: usize = 16;

/// A change of the mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Position of the first value after it.
    pub at: usize,
    /// Mean of the values since the previous change, or since the start.
    pub before: f64,
    /// Mean of the values up to the next change, or to the end.
    pub after: f64,
    /// Share of permutations with a jump, or a stretch, at least as large.
    pub p: f64,
    /// How it was found.
    #[serde(skip)]
    found: Found,
}

/// A part of a series and the two ends, within it, of the values whose mean differs from that of the others: a stretch, or all after a jump.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Found {
    part: [usize; 2],
    ends: [usize; 2],
}

/// Returns the changes of `values`, in order.
pub fn changes(values: &[f64]) -> Vec<Change> {
    let mut found: Vec<(usize, f64, Found)> = Vec::new();
    // Each part between changes is searched again.
    let mut parts = vec![(0, values.len())];
    while let Some((from, to)) = parts.pop() {
        if let Some((at, p)) = largest(&values[from..to]) {
            let one = Found { part: [from, to], ends: [from + at[0], at.get(1).map_or(to, |end| from + end)] };
            found.extend(at.iter().map(|at| (from + at, p, one)));
            let ends = std::iter::once(from).chain(at.iter().map(|at| from + at)).chain([to]);
            let ends: Vec<_> = ends.collect();
            parts.extend(ends.windows(2).map(|part| (part[0], part[1])));
        }
    }
    found.sort_by_key(|(at, ..)| *at);
    let mean = |from: usize, to: usize| stats::mean(&values[from..to]).unwrap_or(f64::NAN);
    let ends: Vec<usize> = found.iter().map(|(at, ..)| *at).chain([values.len()]).collect();
    let mut start = 0;
    let mut out = Vec::new();
    for (i, (at, p, found)) in found.into_iter().enumerate() {
        out.push(Change { at, before: mean(start, at), after: mean(at, ends[i + 1]), p, found });
        start = at;
    }
    out
}

/// Splits `changes` of values, each of which may be off by up to its error, into those that remain with any such errors, and the others. Of
/// several steps that errors may explain one by one, but not together, the largest remains.
pub(crate) fn beyond(values: &[f64], errors: &[f64], changes: Vec<Change>) -> (Vec<Change>, Vec<Change>) {
    if errors.iter().all(|error| *error == 0.0) {
        return (changes, Vec::new());
    }
    let inner = changes.iter().map(|change| change.at);
    let ends: Vec<usize> = std::iter::once(0).chain(inner).chain([values.len()]).collect();
    // Whether two parts between changes differ, without what is between them.
    let differ = |a: usize, b: usize, errors: &[f64]| {
        let both = |of: &[f64]| [&of[ends[a]..ends[a + 1]], &of[ends[b]..ends[b + 1]]].concat();
        let values = both(values);
        remains(&values, &both(errors), [ends[a + 1] - ends[a], values.len()])
    };
    let exact = vec![0.0; values.len()];
    // The ends of a stretch, and jumps between parts too short to be compared, are judged as they were found; both ends at once.
    let mut judged: Vec<(Found, bool)> = Vec::new();
    let as_found = |(i, change): (usize, &Change)| {
        let found @ Found { part: [from, to], ends } = change.found;
        if let Some((_, is_beyond)) = judged.iter().find(|(other, _)| *other == found) {
            return *is_beyond;
        }
        let is_beyond = (ends[1] < to || !differ(i, i + 1, &exact))
            && remains(&values[from..to], &errors[from..to], ends.map(|end| end - from));
        judged.push((found, is_beyond));
        is_beyond
    };
    let mut is_beyond: Vec<bool> = changes.iter().enumerate().map(as_found).collect();
    let step = |change: &usize| (changes[*change].after - changes[*change].before).abs();
    // The first of the parts that errors may explain up to the current one.
    let mut first = 0;
    for part in 1..=changes.len() {
        if is_beyond[part - 1] {
            first = part;
        } else if let Some(other) = (first..part).rev().find(|other| differ(*other, part, errors)) {
            let largest = (other..part).max_by(|a, b| step(a).total_cmp(&step(b))).unwrap_or(other);
            is_beyond[largest] = true;
            first = largest + 1;
        }
    }
    let (beyond, within): (Vec<_>, Vec<_>) = changes.into_iter().zip(is_beyond).partition(|(_, is_beyond)| *is_beyond);
    let plain = |of: Vec<(Change, bool)>| of.into_iter().map(|(change, _)| change).collect();
    (plain(beyond), plain(within))
}

/// Whether the mean of the values between two ends still differs significantly from that of the others after all values were moved towards each
/// other by their errors. The test is the one that finds such ends: that of a jump if the second one is the end of the values.
fn remains(values: &[f64], errors: &[f64], [from, to]: [usize; 2]) -> bool {
    let rise = |values: &[f64]| sums(values).map_or(0.0, |sums| sums[to] - sums[from]);
    let towards = rise(values).signum();
    let moved = |(i, (value, error)): (usize, (&f64, &f64))| {
        value + towards * if (from..to).contains(&i) { -*error } else { *error }
    };
    let nearer: Vec<f64> = values.iter().zip(errors).enumerate().map(moved).collect();
    let (rise, n) = (rise(&nearer), nearer.len());
    let size = difference(rise, to - from, n);
    let share = || if to == n { share_of_jumps(&nearer, size) } else { share_of_stretches(&nearer, size) };
    towards * rise > 0.0 && share().is_some()
}

/// Returns the changes of a part, with the share of random orders that have one at least as large: its largest jump or, if there is no
/// significant one, the stretch that differs most from what is around it, whose mean comes and goes.
fn largest(values: &[f64]) -> Option<(Vec<usize>, f64)> {
    let split = jump(values).and_then(|(at, size)| {
        let p = share_of_jumps(values, size)?;
        Some((vec![at], p))
    });
    split.or_else(|| {
        let (ends, size) = stretch(values)?;
        let p = share_of_stretches(values, size)?;
        Some((moved(values, ends).into(), p))
    })
}

/// Returns the share of random orders with a jump of at least `size`; `None` if it is not significant.
fn share_of_jumps(values: &[f64], size: f64) -> Option<f64> {
    as_large(values, size, SPLIT_ALPHA, |order| jump(order).map(|(_, size)| size))
}

/// Returns the share of random orders with a stretch of at least `size`; `None` if it is not significant.
fn share_of_stretches(values: &[f64], size: f64) -> Option<f64> {
    as_large(values, size, ALPHA - SPLIT_ALPHA, |order| stretch(order).map(|(_, size)| size))
}

/// Returns the share of random orders of the values whose difference is at least `size`; `None` if it is above `alpha`.
fn as_large(values: &[f64], size: f64, alpha: f64, of: impl Fn(&[f64]) -> Option<f64>) -> Option<f64> {
    let mut order = values.to_vec();
    let mut random = SplitMix::new(0x6368_616e_6765_7300);
    let most = (alpha * (PERMUTATIONS + 1) as f64) as usize;
    let mut as_large = 1;
    for _ in 0..PERMUTATIONS {
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i + 1));
        }
        // The same difference in another order differs by rounding errors only.
        as_large += usize::from(of(&order).is_some_and(|other| other >= size * (1.0 - 1e-9)));
        if as_large > most {
            return None;
        }
    }
    Some(as_large as f64 / (PERMUTATIONS + 1) as f64)
}

/// Returns the sums of the first values less their mean, from that of none on; `None` if all values are the same.
fn sums(values: &[f64]) -> Option<Vec<f64>> {
    let mean = stats::mean(values)?;
    let spread = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
    let mut sum = 0.0;
    let all = values.iter().map(|value| {
        sum += value - mean;
        sum
    });
    (spread > ROUNDING * mean.abs()).then(|| std::iter::once(0.0).chain(all).collect())
}

/// Returns the difference of `of` values that sum up to `sum` from the other ones of `n`, in relation to their numbers.
fn difference(sum: f64, of: usize, n: usize) -> f64 {
    f64::abs(sum) / (of as f64 * (n - of) as f64 / n as f64).sqrt()
}

/// Returns where the means before and after differ most in relation to their lengths, and by how much; `None` if nothing differs.
fn jump(values: &[f64]) -> Option<(usize, f64)> {
    let (sums, n) = (sums(values)?, values.len());
    let places = SIDE_MIN..(n + 1).saturating_sub(SIDE_MIN);
    places.map(|at| (at, difference(sums[at], at, n))).reduce(|best, own| if own.1 > best.1 { own } else { best })
}

/// Returns the ends of the stretch whose mean differs most from that of all other values, which are on both sides, and by how much. Of long
/// series only ends on a grid are compared.
fn stretch(values: &[f64]) -> Option<([usize; 2], f64)> {
    let (sums, n) = (sums(values)?, values.len());
    let step = n.div_ceil(GRID);
    let last = n.checked_sub(SIDE_MIN)?;
    (SIDE_MIN..=last)
        .step_by(step)
        .flat_map(|from| (from + SIDE_MIN.max(step)..=last).step_by(step).map(move |to| [from, to]))
        .map(|[from, to]| ([from, to], difference(sums[to] - sums[from], to - from, n)))
        .reduce(|best, own| if own.1 > best.1 { own } else { best })
}

/// Returns the length of the shortest stretch of `n` values that can be significant; `None` if none can.
pub(crate) fn shortest_stretch(n: usize) -> Option<usize> {
    let mut lengths = SIDE_MIN.max(n.div_ceil(GRID))..(n + 1).saturating_sub(2 * SIDE_MIN);
    lengths.find(|length| stretch_share(n, *length) <= ALPHA - SPLIT_ALPHA)
}

/// Returns the share of all orders of `n` values in which those of a stretch, or all others, are neighbours within the series. Whatever the
/// values, these have a stretch as large: no stretch of this length has a smaller share.
fn stretch_share(n: usize, length: usize) -> f64 {
    let places = |length: usize| (n - length).saturating_sub(2 * SIDE_MIN - 1);
    let orders: f64 = (0..length).map(|i| (n - i) as f64 / (i + 1) as f64).product();
    (places(length) + places(n - length)) as f64 / orders
}

/// Moves the ends of a stretch by less than a step of the grid to where its mean differs most.
fn moved(values: &[f64], ends: [usize; 2]) -> [usize; 2] {
    let (Some(sums), n) = (sums(values), values.len()) else { return ends };
    let (step, last) = (n.div_ceil(GRID), n - SIDE_MIN);
    let near = |at: usize| (at + 1).saturating_sub(step).max(SIDE_MIN)..=(at + step - 1).min(last);
    let all = near(ends[0]).flat_map(|from| near(ends[1]).map(move |to| [from, to]));
    let of = |[from, to]: &[usize; 2]| difference(sums[*to] - sums[*from], to - from, n);
    all.filter(|[from, to]| *to >= from + SIDE_MIN).max_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or(ends)
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
    fn a_change_that_was_taken_back_has_two_ends() {
        let mut dice = Dice::new(7);
        for lengths in [[10, 10, 10], [6, 6, 6], [20, 5, 20], [10, 10, 20], [300, 90, 310]] {
            let [a, b, c] = lengths;
            for height in [-30.0, 30.0] {
                let is_high = |i: usize| if (a..a + b).contains(&i) { height } else { 0.0 };
                let series: Vec<f64> = (0..a + b + c).map(|i| 430.0 + is_high(i) + noise(&mut dice)).collect();
                let found: Vec<_> = changes(&series).iter().map(|change| change.at).collect();
                assert_eq!(found, [a, a + b], "{lengths:?}, {height}");
            }
        }
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
    fn the_shortest_significant_stretch_is_that_of_all_orders() {
        for (n, length) in [(10, 2), (12, 5), (12, 6), (13, 8)] {
            let series = |high: u32| (0..n).map(|i| f64::from((high >> i) & 1)).collect::<Vec<_>>();
            let orders: Vec<u32> = (0..1u32 << n).filter(|high: &u32| high.count_ones() as usize == length).collect();
            let of = |high: u32| stretch(&series(high)).map_or(0.0, |(_, size)| size);
            let size = of(((1u32 << length) - 1) << SIDE_MIN);
            let as_large = orders.iter().filter(|high| of(**high) >= size * (1.0 - 1e-9)).count();
            let share = as_large as f64 / orders.len() as f64;
            assert!((share - stretch_share(n, length)).abs() < 1e-12, "{n} {length}: {share}");
        }
        for n in 0..STRETCH_RUNS_MIN {
            assert_eq!(shortest_stretch(n), None, "{n}");
        }
        let shortest = [STRETCH_RUNS_MIN, 20, 30, 80].map(shortest_stretch);
        assert_eq!(shortest, [Some(7), Some(5), Some(4), Some(3)]);
    }

    #[test]
    fn a_change_that_errors_may_be_is_none() {
        let mut dice = Dice::new(13);
        let plain = |of: &[Change]| of.iter().map(|change| change.at).collect::<Vec<_>>();
        let of = |values: &[f64], errors: &[f64]| {
            let (beyond, within) = beyond(values, errors, changes(values));
            (plain(&beyond), plain(&within))
        };
        for height in [10.0, -10.0] {
            let step: Vec<f64> = (0..40).map(|i| if i < 20 { 100.0 } else { 100.0 + height }).collect();
            // Errors of both sides count, and either side may have all of it.
            for [before, after] in [[5.0, 5.0], [10.0, 0.0], [0.0, 10.0], [9.0, 4.0]] {
                let errors: Vec<f64> = (0..40).map(|i| if i < 20 { before } else { after }).collect();
                assert_eq!(of(&step, &errors), (vec![], vec![20]), "{height}, {before}, {after}");
                let errors: Vec<f64> = errors.iter().map(|error| 0.7 * error).collect();
                assert_eq!(of(&step, &errors), (vec![20], vec![]), "{height}, {before}, {after}");
            }
            assert_eq!(of(&step, &[0.0; 40]), (vec![20], vec![]));
            // What errors leave is no more than noise.
            let noisy: Vec<f64> = step.iter().map(|value| value + noise(&mut dice)).collect();
            assert_eq!(of(&noisy, &[4.95; 40]), (vec![], vec![20]), "{height}");
            assert_eq!(of(&noisy, &[1.0; 40]), (vec![20], vec![]), "{height}");
            // One that was taken back, whose first end is not significant alone; and each of two steps by itself.
            let back: Vec<f64> = (0..20).map(|i| if (3..8).contains(&i) { 100.0 + height } else { 100.0 }).collect();
            assert_eq!(of(&back, &[1.0; 20]), (vec![3, 8], vec![]), "{height}");
            assert_eq!(of(&back, &[6.0; 20]), (vec![], vec![3, 8]), "{height}");
            let stairs: Vec<f64> = (0..60).map(|i| 100.0 + height * [0.0, 1.0, 4.0][i / 20]).collect();
            assert_eq!(of(&stairs, &[6.0; 60]), (vec![40], vec![20]), "{height}");
        }
    }

    #[test]
    fn steps_that_errors_explain_one_by_one_but_not_together_are_a_change() {
        for height in [10.0, -10.0] {
            let of = |steps: [f64; 3], error: f64| {
                let stairs: Vec<f64> = (0..60).map(|i| 100.0 + height * steps[i / 20]).collect();
                let (beyond, within) = beyond(&stairs, &[error; 60], changes(&stairs));
                [beyond, within].map(|of| of.iter().map(|one| one.at).collect::<Vec<_>>())
            };
            // The larger step is the change, wherever it is; one back is none.
            assert_eq!(of([0.0, 1.1, 2.0], 6.0), [vec![20], vec![40]], "{height}");
            assert_eq!(of([0.0, 0.9, 2.0], 6.0), [vec![40], vec![20]], "{height}");
            assert_eq!(of([0.0, 0.5, 1.5], 6.0), [vec![40], vec![20]], "{height}");
            assert_eq!(of([0.0, 1.0, 2.0], 11.0), [vec![], vec![20, 40]], "{height}");
            assert_eq!(of([0.0, 1.0, 0.0], 6.0), [vec![], vec![20, 40]], "{height}");
            assert_eq!(of([0.0, 1.1, 2.0], 0.1), [vec![20, 40], vec![]], "{height}");
        }
    }

    #[test]
    fn both_ends_of_a_stretch_are_significant_beyond_errors_or_none() {
        for height in [10.0, -10.0] {
            let is_high = |i: usize| if (3..8).contains(&i) { height } else { 0.0 };
            let back: Vec<f64> = (0..20).map(|i| 100.0 + is_high(i) + (i * 7 % 5) as f64 * 0.5 - 1.0).collect();
            let found = changes(&back);
            assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [3, 8], "{height}");
            for (error, remain) in [(0.1, 2), (1.0, 2), (4.99, 0), (6.0, 0)] {
                let (beyond, within) = beyond(&back, &[error; 20], found.clone());
                assert_eq!((beyond.len(), within.len()), (remain, 2 - remain), "{height}, {error}");
            }
        }
    }

    #[test]
    fn short_and_constant_series_have_none() {
        for series in [&[][..], &[1.0], &[1.0, 9.0], &[1.0, 1.0, 9.0, 9.0], &[3.0; 40]] {
            assert!(changes(series).is_empty(), "{series:?}");
        }
    }
}
