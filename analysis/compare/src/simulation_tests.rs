//! Simulations with fixed seeds of the coverage of intervals and the rate of wrong verdicts, which `docs/compare.md` quotes.

use pktgen_records::stats;
use pktgen_records::testing::Dice;

use super::effect::{Differences, Sample};
use super::judge::{Outcome, judged_together};
use super::rules::{Band, Rules};

/// Number of trials of each case. The share that covers has a standard deviation of about 0.5 points.
const TRIALS: usize = 2000;
const RESAMPLES: usize = 1999;

fn normal(dice: &mut Dice) -> f64 {
    (-2.0 * dice.uniform().ln()).sqrt() * (std::f64::consts::TAU * dice.uniform()).cos()
}

/// A distribution: name, random draw, mean.
type Distribution = (&'static str, fn(&mut Dice) -> f64, f64);

fn distributions() -> [Distribution; 3] {
    [
        ("normal", normal, 0.0),
        // Deviation of the logarithm 0.5: skewness 1.75.
        ("lognormal", |dice| (0.5 * normal(dice)).exp(), 0.125f64.exp()),
        // Skewness 2.
        ("exponential", Dice::exponential, 1.0),
    ]
}

/// Returns the share of trials in which the interval of `n` differences contains the true mean.
fn coverage(distribution: &Distribution, n: usize, alpha: f64) -> f64 {
    let mut dice = Dice::new(40 + n as u64);
    let covered = (0..TRIALS)
        .filter(|_| {
            // Pairs of 0 and the difference, so that they are compared by difference.
            let pairs: Vec<(f64, f64)> = (0..n).map(|_| (0.0, (distribution.1)(&mut dice))).collect();
            let sample = Sample::of(&Differences::of(&pairs, Band::Absolute(0.1)), RESAMPLES, 1.0).unwrap();
            let (lo, hi) = sample.interval(alpha);
            lo <= distribution.2 && distribution.2 <= hi
        })
        .count();
    covered as f64 / TRIALS as f64
}

#[test]
fn intervals_of_95_percent_cover_the_truth_in_93_to_98() {
    for distribution in &distributions() {
        for n in [5, 10, 30] {
            let covered = coverage(distribution, n, 0.05);
            assert!((0.93..=0.985).contains(&covered), "{} of {n}: {covered}", distribution.0);
        }
    }
}

/// Five values of a skewed distribution hide its tail: their coverage is 97.7 %, as the documentation states.
#[test]
fn intervals_of_99_percent_cover_the_truth_in_98_or_more_from_10_pairs_on() {
    for distribution in &distributions() {
        for n in [5, 10, 30] {
            let covered = coverage(distribution, n, 0.01);
            let least = if n < 10 { 0.97 } else { 0.98 };
            assert!(covered >= least, "{} of {n}: {covered}", distribution.0);
        }
    }
}

/// Reason against the percentile bootstrap: its coverage, and that of the interval of medians in tables of reports.
#[test]
fn the_percentile_bootstrap_of_medians_covers_93_percent_or_so() {
    let medians = [0.0, 1.0, std::f64::consts::LN_2];
    for (distribution, truth) in distributions().iter().zip(medians) {
        for n in [5, 10, 30] {
            let mut dice = Dice::new(70 + n as u64);
            let covered = (0..500)
                .filter(|_| {
                    let values: Vec<f64> = (0..n).map(|_| (distribution.1)(&mut dice)).collect();
                    stats::estimate(&values, false).unwrap().holds(truth) == Some(true)
                })
                .count() as f64
                / 500.0;
            assert!((0.90..=0.98).contains(&covered), "{} of {n}: {covered}", distribution.0);
        }
    }
}

/// Returns pairs whose ratios of new to old are around `by`, with the noise of two lognormal runs.
fn runs(dice: &mut Dice, by: f64, noise: f64, n: usize) -> Vec<(f64, f64)> {
    (0..n).map(|_| ((noise * normal(dice)).exp(), by * (noise * normal(dice)).exp())).collect()
}

/// Returns the verdicts of `trials` reports of `metrics` judgements each.
fn reports(by: f64, noise: f64, n: usize, metrics: usize, trials: usize) -> Vec<Vec<Outcome>> {
    let mut dice = Dice::new(99);
    let rules = Rules::built_in();
    let report = |dice: &mut Dice| {
        let pairs: Vec<_> = (0..metrics).map(|_| runs(dice, by, noise, n)).collect();
        judged_together(&rules.rules[0], &pairs)
    };
    (0..trials).map(|_| report(&mut dice)).collect()
}

fn share(reports: &[Vec<Outcome>], wanted: Outcome) -> f64 {
    reports.iter().filter(|outcomes| outcomes.contains(&wanted)).count() as f64 / reports.len() as f64
}

#[test]
fn runs_of_the_same_thing_are_hardly_ever_called_different() {
    for (n, noise) in [(5, 0.01), (10, 0.05), (5, 0.3)] {
        let reports = reports(1.0, noise, n, 8, 200);
        let (worse, better) = (share(&reports, Outcome::Worse), share(&reports, Outcome::Better));
        assert!(worse <= 0.05 && better <= 0.05, "{n} {noise}: {worse} {better}");
    }
    // If the spread is small compared with the tolerance, they are judged the same.
    let quiet = reports(1.0, 0.004, 10, 8, 100);
    assert!(share(&quiet, Outcome::CannotTell) < 0.05 && share(&quiet, Outcome::Same) == 1.0);
}

/// The hardest case: the true effect of every metric is at the end of the tolerance. Any verdict but "cannot tell" is
/// luck; a report with any "worse" is wrong.
#[test]
fn a_change_of_just_the_tolerance_is_called_worse_in_at_most_5_of_100_reports() {
    for n in [5, 10] {
        let reports = reports(1.02, 0.03, n, 8, 400);
        let worse = share(&reports, Outcome::Worse);
        assert!(worse <= 0.06, "{n}: {worse}");
    }
}

#[test]
fn a_planted_regression_of_5_percent_is_called_worse() {
    for (n, noise) in [(10, 0.01), (30, 0.02)] {
        let reports = reports(1.05, noise, n, 4, 100);
        let all = reports.iter().filter(|outcomes| outcomes.iter().all(|one| *one == Outcome::Worse)).count();
        assert!(all >= 95, "{n} {noise}: {all}");
        assert_eq!(share(&reports, Outcome::Better), 0.0);
    }
    // With twenty times that noise, the verdict is "cannot tell".
    let loud = reports(1.05, 0.2, 5, 4, 100);
    assert!(share(&loud, Outcome::CannotTell) > 0.95);
}

/// The numbers of seeds in docs/compare.md: a spread, and seeds for one judgement and for 20.
#[test]
fn as_many_seeds_as_are_recommended_decide_in_80_percent() {
    for (spread, seeds) in [(0.005, [5, 8]), (0.01, [7, 12]), (0.02, [14, 26]), (0.05, [72, 130])] {
        for (n, alpha) in seeds.into_iter().zip([0.05, 0.05 / 20.0]) {
            let mut dice = Dice::new(17);
            let (mut same, mut worse, trials) = (0, 0, 400);
            for _ in 0..trials {
                let ratios = (0..n).map(|_| (1.0, (spread * normal(&mut dice)).exp()));
                let differences = Differences::of(&ratios.collect::<Vec<_>>(), Band::Relative(0.02));
                let sample = Sample::of(&differences, RESAMPLES, 1.0).unwrap();
                let ((lo, hi), limit) = (sample.interval(alpha), differences.limit());
                same += usize::from(-limit <= lo && hi <= limit);
                worse += usize::from(lo + 1.04f64.ln() > limit);
            }
            let least = 0.75 * f64::from(trials);
            assert!(same as f64 >= least && worse as f64 >= least, "{spread} {n}: {same} {worse}");
        }
    }
}
