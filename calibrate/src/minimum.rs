//! Minimises a smooth function in a box with COBYLA, which needs no derivatives.

use std::sync::{Mutex, PoisonError};

use cobyla::{RhoBeg, StopTols, minimize};

/// The optimiser has static state.
static ONE: Mutex<()> = Mutex::new(());

/// Searches from `start` within `bounds`; returns the place of the minimum of `function` and its value, never worse than at the start.
pub(crate) fn minimum(
    function: impl Fn(&[f64]) -> f64,
    start: &[f64],
    bounds: &[(f64, f64)],
    most: usize,
) -> (Vec<f64>, f64) {
    let at_start = function(start);
    // Constant dimensions are not passed to the optimiser.
    let free: Vec<usize> = (0..start.len()).filter(|i| bounds[*i].0 < bounds[*i].1).collect();
    if free.is_empty() {
        return (start.to_vec(), at_start);
    }
    let whole = |x: &[f64]| {
        let mut at = start.to_vec();
        free.iter().zip(x).for_each(|(i, x)| at[*i] = x.clamp(bounds[*i].0, bounds[*i].1));
        at
    };
    let range: Vec<(f64, f64)> = free.iter().map(|i| bounds[*i]).collect();
    let from: Vec<f64> = free.iter().zip(&range).map(|(i, (low, high))| start[*i].clamp(*low, *high)).collect();
    let steps = range.iter().map(|(low, high)| (high - low) / 8.0).collect();
    let tolerance = range.iter().map(|(low, high)| (high - low) * 1e-4).collect();
    let stop = StopTols { xtol_abs: tolerance, ftol_abs: 1e-6, ..StopTols::default() };
    let objective = |x: &[f64], _: &mut ()| {
        let value = function(&whole(x));
        // Its arithmetic does not support infinity.
        if value.is_finite() { value } else { f64::MAX.sqrt() }
    };
    let none: [fn(&[f64], &mut ()) -> f64; 0] = [];
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = match minimize(objective, &from, &range, &none, (), most, RhoBeg::Set(steps), Some(stop)) {
        Ok((_, x, _)) | Err((_, x, _)) => whole(&x),
    };
    let value = function(&found);
    if value < at_start { (found, value) } else { (start.to_vec(), at_start) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valley_within_and_at_the_edge_of_a_box() {
        let valley = |x: &[f64]| (x[0] - 0.3).powi(2) + 10.0 * (x[1] - x[0] * x[0]).powi(2);
        let (x, value) = minimum(valley, &[0.9, 0.9], &[(0.0, 1.0), (0.0, 1.0)], 400);
        assert!(value < 1e-4 && (x[0] - 0.3).abs() < 0.02, "{x:?} {value}");
        let (x, _) = minimum(|x| x[0] + x[1], &[0.5, 0.5], &[(0.2, 1.0), (0.5, 0.5)], 200);
        assert!((x[0] - 0.2).abs() < 1e-3 && x[1] == 0.5, "{x:?}");
    }
}
