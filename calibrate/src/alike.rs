//! Targets with the same information: copies of another target, which count once, and correlations that few seeds leave uncertain.

use crate::target::{Known, TargetValue};
use crate::twin::Evaluated;

/// Factor for correlations: they are estimates themselves, and the difference of two metrics with the same information would look well known.
const SHRUNK: f64 = 0.95;
/// Power of the evidence that two targets have the same information: of 0.99 it leaves 0.92, of 0.9 less than a half, of chance nothing.
const EVIDENCE: i32 = 16;
/// Evidence from which on two targets have nearly the same information.
const ALIKE: f64 = 0.98;
/// Degrees of freedom below which chance has such evidence too often: three seeds have two.
const FEW: f64 = 3.0;
/// Share of a metric's range up to which values of a copy differ by rounding.
const ROUNDED: f64 = 1e-9;
/// Share of a deviation up to which that of a copy differs by rounding.
const EQUAL: f64 = 1e-6;

/// Returns for each target the first one that it copies: a line of that target's values has its values in all runs, and its target value.
pub(crate) fn copies(targets: &[TargetValue], evaluated: &[&Evaluated]) -> Vec<Option<usize>> {
    let mut copies: Vec<Option<usize>> = Vec::new();
    for copy in 0..targets.len() {
        let of = (0..copy).find(|of| copies[*of].is_none() && is_copy(targets, [*of, copy], evaluated));
        copies.push(of);
    }
    copies
}

fn is_copy(targets: &[TargetValue], [of, copy]: [usize; 2], evaluated: &[&Evaluated]) -> bool {
    let (a, b) = (&targets[of], &targets[copy]);
    // Points are measured independently, and a bound is no value.
    if a.at != b.at || a.bound.is_some() || b.bound.is_some() || a.weight != b.weight {
        return false;
    }
    let mut pairs = Vec::new();
    for (x, y) in evaluated.iter().flat_map(|one| one.values[of].iter().zip(&one.values[copy])) {
        match (x, y) {
            (Some(x), Some(y)) => pairs.push((*x, *y)),
            (None, None) => {}
            _ => return false,
        }
    }
    let low = pairs.iter().copied().min_by(|x, y| x.0.total_cmp(&y.0));
    let high = pairs.iter().copied().max_by(|x, y| x.0.total_cmp(&y.0));
    let (Some(low), Some(high)) = (low, high) else { return false };
    // A line goes through any two values.
    if !pairs.iter().any(|(x, _)| *x != low.0 && *x != high.0) {
        return false;
    }
    let slope = (high.1 - low.1) / (high.0 - low.0);
    let is_on_line = |(x, y): (f64, f64)| {
        let off = y - low.1 - slope * (x - low.0);
        off.abs() <= ROUNDED * (high.1 - low.1).abs().max((y - low.1).abs())
    };
    slope != 0.0
        && pairs.iter().all(|pair| is_on_line(*pair))
        && is_on_line((a.value, b.value))
        && is_known_alike(a.known, b.known, slope.abs())
}

fn is_known_alike(a: Known, b: Known, slope: f64) -> bool {
    let is_equal = |a: f64, b: f64| (slope * a - b).abs() <= EQUAL * b;
    match (a, b) {
        (Known::Once, Known::Once) => true,
        (Known::Printed { half: a }, Known::Printed { half: b }) => is_equal(a, b),
        (Known::Repeats { n, deviation: a }, Known::Repeats { n: m, deviation: b }) => n == m && is_equal(a, b),
        _ => false,
    }
}

/// Returns the correlations of rows of deviations; 0 of a row without any.
pub(crate) fn correlations(rows: &[Vec<f64>]) -> Vec<f64> {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let sizes: Vec<f64> = rows.iter().map(|row| product(row, row).sqrt()).collect();
    let unit = |(row, size): (&Vec<f64>, &f64)| -> Vec<f64> {
        row.iter().map(|x| if *size > 0.0 { x / size } else { 0.0 }).collect()
    };
    let units: Vec<Vec<f64>> = rows.iter().zip(&sizes).map(unit).collect();
    units.iter().flat_map(|a| units.iter().map(|b| product(a, b)).collect::<Vec<_>>()).collect()
}

/// Shrinks a correlation with these degrees of freedom of both targets, of so many: with few it is mostly chance, and would make some
/// combination of metrics look well known. With evidence (`alike`, -1 to 1) that both have the same information it stays, since
/// otherwise that would count twice. The result is positive semidefinite, as a sum of products of such matrices, by element, with
/// coefficients that are not negative (Schur).
pub(crate) fn shrunk(correlation: f64, alike: f64, freedom: [f64; 2], targets: usize) -> f64 {
    let sure = |freedom: f64| if freedom.is_finite() { freedom / (freedom + targets as f64) } else { 1.0 };
    let [a, b] = freedom.map(sure);
    let same = ((1.0 + alike) / 2.0).max(0.0).powi(EVIDENCE);
    SHRUNK * correlation * (a.min(b) + ((1.0 - a) * (1.0 - b)).sqrt() * same)
}

/// Returns whether two targets have nearly the same information.
pub(crate) fn is_alike(alike: f64, freedom: [f64; 2]) -> bool {
    alike >= ALIKE && freedom.iter().all(|freedom| *freedom > FEW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::PointLabels;

    fn target(values: &[f64]) -> TargetValue {
        TargetValue::measured("m", &PointLabels::new(), values).expect("values")
    }

    #[test]
    fn a_copy_is_a_line_of_another_target_in_all_runs() {
        let loss = |received: f64| 1.0 - received / 320.0;
        let runs = [166.0, 182.0, 193.0, 203.0, 58.0, 81.0];
        let measured = [220.0, 225.0, 230.0];
        let evaluated = |other: &dyn Fn(f64) -> Option<f64>| Evaluated {
            setting: vec![],
            values: vec![runs.map(Some).to_vec(), runs.map(other).to_vec()],
            invalid: 0,
            why: None,
        };
        let lost = measured.map(loss);
        let none: [Option<usize>; 2] = [None; 2];
        let of = |second: TargetValue, other: &dyn Fn(f64) -> Option<f64>| {
            copies(&[target(&measured), second], &[&evaluated(other)])
        };
        assert_eq!(of(target(&lost), &|x| Some(loss(x))), [None, Some(0)]);
        assert_eq!(of(target(&measured.map(|x| 2.0 * x)), &|x| Some(2.0 * x)), [None, Some(0)]);
        // Not of all runs, without a value in one, of a target that contradicts it, of one with another deviation, of a bound.
        assert_eq!(of(target(&lost), &|x| Some(loss(x) + if x < 60.0 { 1e-4 } else { 0.0 })), none);
        assert_eq!(of(target(&lost), &|x| (x > 60.0).then(|| loss(x))), none);
        assert_eq!(of(target(&lost.map(|x| x + 1e-3)), &|x| Some(loss(x))), none);
        assert_eq!(of(target(&[lost[1]; 3]), &|x| Some(loss(x))), none);
        let bound = TargetValue { bound: Some(pktgen_core::record::Bound::Above), ..target(&lost) };
        assert_eq!(of(bound, &|x| Some(loss(x))), none);
        assert_eq!(of(target(&[7.0; 3]), &|_| Some(7.0)), none);
    }

    #[test]
    fn correlations_of_the_same_information_stay_and_others_shrink() {
        // Five seeds of eight targets.
        let of = |correlation: f64, alike: f64| shrunk(correlation, alike, [4.0; 2], 8);
        assert!((of(1.0, 1.0) - 0.95).abs() < 1e-12 && (of(-1.0, 1.0) + 0.95).abs() < 1e-12);
        assert!(of(0.995, 0.995) > 0.9, "{}", of(0.995, 0.995));
        // The same noise in opposite directions, and noise that is alike by chance.
        assert!((of(1.0, -1.0) - 0.95 / 3.0).abs() < 1e-12);
        assert!((of(0.3, 0.3) - 0.95 * 0.1).abs() < 0.01, "{}", of(0.3, 0.3));
        assert!((shrunk(0.3, 0.3, [f64::INFINITY; 2], 8) - 0.285).abs() < 1e-12);
        assert!(is_alike(0.99, [4.0, 4.1]) && !is_alike(0.99, [2.0, 9.0]) && !is_alike(0.9, [4.0; 2]));
    }

    #[test]
    fn rows_without_deviations_are_not_correlated() {
        let found = correlations(&[vec![1.0, -1.0, 0.0], vec![-2.0, 2.0, 0.0], vec![0.0; 3]]);
        let wanted = [1.0, -1.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }
}
