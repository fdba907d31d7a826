//! Tests of [`super`]: examples computed by hand, and agreement of probabilities and intervals.

use pktgen_records::testing::Dice;

use super::*;

fn of(values: &[f64]) -> Differences {
    let pairs: Vec<(f64, f64)> = values.iter().map(|value| (100.0, 100.0 + value)).collect();
    Differences::of(&pairs, Band::Absolute(1.0))
}

#[test]
fn ratios_where_they_exist_and_differences_elsewhere() {
    let ratio = Differences::of(&[(2.0, 4.0), (4.0, 2.0), (0.0, 0.0)], Band::Relative(0.02));
    assert_eq!((ratio.kind, ratio.band), (EffectKind::Ratio, 0.02f64.ln_1p()));
    assert_eq!(ratio.values, [2f64.ln(), -(2f64.ln()), 0.0]);
    assert!((ratio.shown(ratio.values[0]) - 1.0).abs() < 1e-12 && (ratio.shown(ratio.band) - 0.02).abs() < 1e-12);
    // One pair without a ratio: all are compared by difference, with 2 % of the mean size of the old values.
    let difference = Differences::of(&[(2.0, 4.0), (0.0, 1.0)], Band::Relative(0.02));
    assert_eq!(
        (difference.kind, difference.values.as_slice(), difference.band),
        (EffectKind::Difference, &[2.0, 1.0][..], 0.02)
    );
    // The first quotient is infinite, the second has few digits.
    let far = Differences::of(&[(1e-300, 1e300), (1e10, 1e-310)], Band::Relative(0.02)).values;
    let decades = far.iter().map(|value| value / 10f64.ln());
    assert!(decades.zip([600.0, -320.0]).all(|(decades, wanted)| (decades - wanted).abs() < 1e-9), "{far:?}");
    let absolute = Differences::of(&[(2.0, 4.0)], Band::Absolute(0.5));
    assert_eq!((absolute.kind, absolute.band, absolute.shown(0.25)), (EffectKind::Difference, 0.5, 0.25));
}

#[test]
fn the_same_in_every_pair_is_certain_and_rounding_is_nothing() {
    let sample = Sample::of(&of(&[5.0; 4]), 99, 1.0).unwrap();
    assert_eq!((sample.interval(0.05), sample.above(4.9), sample.above(5.0)), ((5.0, 5.0), 0.0, 1.0));
    let third = 0.1 + 0.2 - 0.3;
    let nothing = Sample::of(&of(&[third, 0.0, -third]), 99, 1.0).unwrap();
    assert!(nothing.is_nothing() && nothing.is_judged());
    // One pair without a difference is judged; one with a difference is not.
    assert!(Sample::of(&of(&[0.0]), 99, 1.0).unwrap().is_judged());
    assert!(
        !Sample::of(&of(&[1.0; 4]), 99, 1.0).unwrap().is_judged()
            && Sample::of(&of(&[1.0; 5]), 99, 1.0).unwrap().is_judged()
    );
    // Unless no chance was involved and every pair agrees.
    assert!(Sample::of(&of(&[1.0]).exactly(true), 99, 1.0).unwrap().is_judged());
    assert!(!Sample::of(&of(&[1.0, 2.0]).exactly(true), 99, 1.0).unwrap().is_judged());
    assert!(Sample::of(&of(&[]), 99, 1.0).is_none());
}

#[test]
fn the_interval_is_never_narrower_than_students_and_longer_where_values_lean() {
    let mut dice = Dice::new(3);
    for _ in 0..50 {
        let values: Vec<f64> = (0..8).map(|_| dice.exponential()).collect();
        let sample = Sample::of(&of(&values), 1999, 1.0).unwrap();
        let (lo, hi) = sample.interval(0.05);
        let half = pktgen_records::student::quantile(0.025, 7.0) * sample.deviation / 8f64.sqrt();
        assert!(lo <= sample.mean - half + 1e-12 && hi >= sample.mean + half - 1e-12);
        assert_eq!(Sample::of(&of(&values), 1999, 1.0).unwrap().interval(0.05), (lo, hi), "deterministic");
    }
    let values = [0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 6.0];
    let sample = Sample::of(&of(&values), 9999, 1.0).unwrap();
    let (lo, hi) = sample.interval(0.05);
    assert!(hi - sample.mean > 1.5 * (sample.mean - lo), "{lo} {} {hi}", sample.mean);
}

#[test]
fn nearly_equal_values_have_an_interval_with_an_end() {
    // Nine of ten resamples of these have hardly any spread.
    let mut values = vec![-10.0, -10.0, -10.001, -10.0, -9.999, -10.0, -10.0, -10.001, -10.0, -9.5];
    let sample = Sample::of(&of(&values), 9999, 1.0).unwrap();
    let (lo, hi) = sample.interval(0.001);
    assert!(lo > -11.0 && hi < -9.0, "{lo} {hi}");
    values[9] = -10.0;
    assert!(Sample::of(&of(&values), 9999, 1.0).unwrap().interval(0.05).1 < -9.99);
}

#[test]
fn chances_and_intervals_say_the_same() {
    let mut dice = Dice::new(8);
    for n in [3, 5, 9, 20] {
        for _ in 0..40 {
            let values: Vec<f64> = (0..n).map(|_| dice.exponential() - 0.7).collect();
            let sample = Sample::of(&of(&values), 1999, 1.0).unwrap();
            let x = 2.0 * dice.uniform() - 1.0;
            for alpha in [0.1, 0.05, 0.01] {
                let (lo, hi) = sample.interval(alpha);
                assert_eq!(sample.above(x) <= alpha / 2.0, lo > x, "{n} {alpha} {x} {lo}");
                assert_eq!(sample.below(x) <= alpha / 2.0, hi < x, "{n} {alpha} {x} {hi}");
            }
        }
    }
}

#[test]
fn small_levels_have_an_end_and_enough_resamples() {
    assert_eq!([1, 125, 1250, 5000].map(|n| resamples(n, 0.05)), [9_999, 10_000, 99_999, 99_999]);
    assert_eq!([(1, 1e-4), (60, 0.01)].map(|(n, alpha)| resamples(n, alpha)), [40_000, 24_000]);
    assert_eq!(
        [(1, 1e-4), (2500, 0.05), (2501, 0.05), (1, 1e-9)].map(|(n, alpha)| extends(n, alpha)),
        [false, false, true, true]
    );
    // The numbers of docs/compare.md: resamples from the end on, that of the end included.
    let beyond = |n: usize| rank_of_end(0.05 / n as f64, resamples(n, 0.05));
    assert_eq!([1249, 1250, 1251, 2500, 2501].map(beyond), [2, 2, 1, 1, 0]);
    let mut dice = Dice::new(11);
    for n in [5, 8, 30] {
        let values: Vec<f64> = (0..n).map(|_| dice.exponential()).collect();
        let sample = Sample::of(&of(&values), RESAMPLES_MAX, 1.0).unwrap();
        let mut last = sample.interval(1e-3);
        for alpha in [1e-4, 2e-5, 1.9e-5, 1e-5, 1e-7, 1e-12] {
            let (lo, hi) = sample.interval(alpha);
            assert!(lo.is_finite() && hi.is_finite() && lo <= last.0 && hi >= last.1, "{n} {alpha}: {lo} {hi}");
            let width = hi - lo;
            for (x, inside) in [(lo - 1e-6 * width, false), (lo + 1e-6 * width, true)] {
                assert_eq!(sample.above(x) > alpha / 2.0, inside, "{n} {alpha} {x} {lo}");
            }
            for (x, inside) in [(hi + 1e-6 * width, false), (hi - 1e-6 * width, true)] {
                assert_eq!(sample.below(x) > alpha / 2.0, inside, "{n} {alpha} {x} {hi}");
            }
            last = (lo, hi);
        }
    }
}

#[test]
fn further_seeds_are_as_many_as_the_formula_needs() {
    let (low, high, beyond) = Default::default();
    let sample = Sample { n: 5, mean: 0.0, deviation: 1.0, exact: false, low, high, all: 0, beyond, shift: 0.0 };
    // Clear of both ends, each missed with 10 %: about ((1.96 + 1.28)/0.5)² = 42.0 pairs in all, a little more for t.
    let more = sample.further(0.5, 0.05, 1000).unwrap();
    assert!((37..=41).contains(&more), "{more}");
    // Clear of one end, outside of the band or near its end: about ((1.96 + 0.84)/0.5)² = 31.4.
    for mean in [100.5, -100.5, 99.5, -99.5] {
        let more = Sample { mean, ..sample.clone() }.further(100.0, 0.05, 1000).unwrap();
        assert!((27..=30).contains(&more), "{mean}: {more}");
    }
    assert_eq!(sample.further(0.01, 0.05, 1000), None);
    assert_eq!(sample.further(50.0, 0.05, 1000), Some(1));
    assert_eq!(sample.further(0.0, 0.05, 1000), None);
}

/// One pair in ten differs, by nearly three times the tolerance: resamples without such pairs keep the interval wide. By simulation, 80 % of
/// samples with 42, 34 and 20 more pairs have a verdict.
#[test]
fn further_seeds_of_uneven_pairs_are_as_many_as_simulations_need() {
    for (n, needed) in [(10, 42), (20, 34), (30, 20)] {
        for by in [2.8, -2.8] {
            let values: Vec<f64> = (0..n).map(|i| if i % 10 == 3 { by } else { 0.0 }).collect();
            let more = Sample::of(&of(&values), 9999, 1.0).unwrap().further(1.0, 0.05, 1000).unwrap();
            assert!((needed / 2..=3 * needed).contains(&more), "{n} {by}: {more}");
        }
    }
}

#[test]
fn further_seeds_of_normal_differences_are_those_of_students_distribution() {
    let mut dice = Dice::new(7);
    for n in [30, 60] {
        for _ in 0..20 {
            let normal = |_| (0..12).map(|_| dice.uniform()).sum::<f64>() - 6.0;
            let values: Vec<f64> = (0..n).map(normal).map(|value| 3.0 * value).collect();
            let sample = Sample::of(&of(&values), 1999, 1.0).unwrap();
            let (lo, hi) = sample.interval(0.05);
            if lo > 1.0 || hi < -1.0 || lo >= -1.0 && hi <= 1.0 {
                continue;
            }
            let more = |sample: &Sample| sample.further(1.0, 0.05, 1000).unwrap_or(1000);
            let plain = more(&Sample { beyond: [0.0; 2], ..sample.clone() });
            assert!((plain..=plain + plain / 5 + 8).contains(&more(&sample)), "{n}: {plain} {}", more(&sample));
        }
    }
}

#[test]
fn clocks_that_are_apart_shift_the_ends_of_an_interval() {
    let pairs: Vec<(f64, f64)> = [3.0, 4.0, 5.0, 4.5, 3.5].map(|value| (100.0, 100.0 + value)).to_vec();
    let sample = |band: Band, bounds: [f64; 2]| {
        Sample::of(&Differences::of(&pairs, band).off_by(&pairs, bounds), 999, 1.0).unwrap()
    };
    let [one, apart] = [[0.0; 2], [1.0, 0.5]].map(|bounds| sample(Band::Absolute(1.0), bounds));
    let ((lo, hi), (least, most)) = (one.interval(0.05), apart.interval(0.05));
    assert!((lo - 1.5 - least).abs() < 1e-12 && (hi + 1.5 - most).abs() < 1e-12);
    assert_eq!((apart.above(1.0), apart.below(5.0)), (one.above(2.5), one.below(3.5)));
    assert_eq!(apart.shifted(), (2.5, 5.5));
    // By ratio: the true values are at worst 101 and 99.5 + the difference, in the logarithm and a little less than the bound.
    let ratio = sample(Band::Relative(0.02), [1.0, 0.5]).shifted();
    let worst = |old: f64, new: f64| {
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| ((b + new) / (a + old)).ln()).collect();
        stats::mean(&logs).unwrap()
    };
    assert!(ratio.0 <= worst(1.0, -0.5) && ratio.0 > worst(1.0, -0.5) - 1e-3, "{ratio:?}");
    assert!(ratio.1 >= worst(-1.0, 0.5) && ratio.1 < worst(-1.0, 0.5) + 1e-3, "{ratio:?}");
    let equal = Differences::of(&[(7.0, 7.0)], Band::Absolute(1.0)).off_by(&[(7.0, 7.0)], [0.0, 2.0]);
    assert!(!Sample::of(&equal, 99, 1.0).unwrap().is_nothing(), "equal values of clocks that are apart may differ");
}
