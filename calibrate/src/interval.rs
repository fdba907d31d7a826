//! Intervals of parameters: how far one can be moved, with the others refitted, before the distance grows by more than chance explains.

use pktgen_records::student::quantile;

use crate::fit::Fit;
use crate::minimum::minimum;
use crate::parameter::{NumberRange, Parameter, Space};

/// Points of a profile on each side of the best value.
const SIDE: usize = 16;
/// Maximum number of evaluations of the distance per point.
const STEPS: usize = 80;
/// Precision of an end, in widths of the region.
const EXACT: f64 = 0.002;

/// The profile of a number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Profile {
    /// Shares, and the least distance with the number there.
    pub(crate) curve: Vec<(f64, f64)>,
    /// Ends of the interval.
    pub(crate) ends: (f64, f64),
    /// Whether an end is that of the region, but not of the range.
    pub(crate) open: (bool, bool),
}

/// Returns the permitted growth of the distance: the 95 % quantile of F(1, ν) times `inflation`.
pub(crate) fn allowed(freedom: f64, inflation: f64) -> f64 {
    quantile(0.025, freedom.min(1e6)).powi(2) * inflation
}

/// Returns the profile of number `k` of `space` around `best`, with more starting settings `others`, and the permitted growth of the distance.
/// Only settings that can be run count: whole numbers are moved and refitted to whole values.
pub(crate) fn profile(fit: &Fit, space: &Space, best: &[f64], others: &[Vec<f64>], k: usize, allowed: f64) -> Profile {
    let region = &fit.region.0;
    let (low, high) = region[k];
    let mut least = fit.distance(best);
    let numbers: Vec<&NumberRange> = space.parameters.iter().filter_map(Parameter::numbers).collect();
    let nearest = |i: usize, share: f64| match numbers[i].whole {
        true => numbers[i].share(numbers[i].at(share)),
        false => share,
    };
    let others_whole: Vec<usize> = (0..numbers.len()).filter(|i| *i != k && numbers[*i].whole).collect();
    let at = |share: f64| -> f64 {
        let mut bounds = region.clone();
        bounds[k] = (share, share);
        let mut near: Vec<&Vec<f64>> = others.iter().collect();
        near.sort_by(|a, b| (a[k] - share).abs().total_cmp(&(b[k] - share).abs()));
        let starts = std::iter::once(best).chain(near.iter().take(2).map(|it| it.as_slice()));
        let from = |start: &[f64]| {
            let mut start = start.to_vec();
            start[k] = share;
            let (free, distance) = minimum(|x| fit.distance(x), &start, &bounds, STEPS);
            let at_whole = |near: &[f64]| {
                let (mut at, mut bounds) = (near.to_vec(), bounds.clone());
                for i in &others_whole {
                    at[*i] = nearest(*i, at[*i]);
                    bounds[*i] = (at[*i], at[*i]);
                }
                minimum(|x| fit.distance(x), &at, &bounds, STEPS).1
            };
            if others_whole.is_empty() { distance } else { at_whole(&start).min(at_whole(&free)) }
        };
        starts.map(from).fold(f64::INFINITY, f64::min)
    };
    let place = |i: usize, end: f64| nearest(k, best[k] + (end - best[k]) * i as f64 / SIDE as f64);
    let side = |end: f64| -> Vec<(f64, f64)> {
        let mut places: Vec<f64> = (1..=SIDE).map(|i| place(i, end)).filter(|share| *share != best[k]).collect();
        places.dedup();
        places.into_iter().map(|share| (share, at(share))).collect()
    };
    let (below, above) = (side(low), side(high));
    // The profile may have found a better setting than the search.
    least = below.iter().chain(&above).map(|(_, distance)| *distance).fold(least, f64::min);
    let within = |distance: f64| distance - least <= allowed;
    let exact = (high - low) * EXACT;
    let border_between = |inside, outside| between(inside, outside, exact, |x| nearest(k, x), |x| within(at(x)));
    let end = |side: &[(f64, f64)], border: f64| -> (f64, bool) {
        let Some(last) = side.iter().rposition(|(_, distance)| within(*distance)) else {
            return match side.first() {
                // The best value lies on the border.
                None => (border, true),
                Some((out, _)) => (border_between(best[k], *out), false),
            };
        };
        match side.get(last + 1) {
            None => (border, true),
            Some((out, _)) => (border_between(side[last].0, *out), false),
        }
    };
    let ((from, at_low), (to, at_high)) = (end(&below, low), end(&above, high));
    let curve =
        below.iter().rev().copied().chain([(best[k], fit.distance(best))]).chain(above.iter().copied()).collect();
    Profile { curve, ends: (from, to), open: (at_low && low > 1e-9, at_high && high < 1.0 - 1e-9) }
}

/// Returns where `within` changes, between a share inside and one outside, by the shares that `nearest` permits.
fn between(
    mut inside: f64,
    mut outside: f64,
    exact: f64,
    nearest: impl Fn(f64) -> f64,
    within: impl Fn(f64) -> bool,
) -> f64 {
    while (outside - inside).abs() > exact {
        let middle = nearest((inside + outside) / 2.0);
        // There is no whole number between the two.
        if middle == inside || middle == outside {
            break;
        }
        if within(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    (inside + outside) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::Region;
    use crate::fit::Place;
    use crate::parameter::ParameterRange;
    use crate::target::{Known, PointLabels, TargetValue};
    use crate::twin::Evaluated;

    /// A metric that equals the number, beyond its target everywhere in the region.
    #[test]
    fn a_best_value_on_the_border_of_a_region_leaves_the_interval_open() {
        let known = Known::Repeats { n: 3, deviation: 0.05 };
        let target =
            TargetValue { metric: "m".into(), at: PointLabels::new(), value: 0.2, bound: None, known, weight: 1.0 };
        let targets = [target];
        let place = |i: u32| {
            let x = 0.25 + 0.02 * f64::from(i);
            let values = vec![vec![Some(x); 2]];
            let evaluated = Evaluated { setting: vec![x], values, invalid: 0, why: None };
            Place { shares: vec![x], evaluated, number: 0 }
        };
        let places: Vec<Place> = (0..26).map(place).collect();
        let range = NumberRange { from: 0.0, to: 1.0, unit: String::new(), log: false, whole: false };
        let parameter = Parameter { key: "a".into(), variant: None, range: ParameterRange::Numbers(range) };
        let space = Space { parameters: vec![parameter] };
        let open = |low: f64| {
            let fit = Fit::of(Region(vec![(low, 0.7)]), &targets, &places, &[1e-6]).expect("a fit");
            profile(&fit, &space, &[low], &[], 0, 3.84).open
        };
        assert_eq!(open(0.3), (true, false));
        assert!(!open(0.0).0, "the end of the range is an end");
    }
}
