//! Tests of [`super`]: zones, Holm's procedure computed by hand, verdicts of samples.

use super::*;
use crate::rules::Band;

#[test]
fn holm_by_hand() {
    // 0.01 ≤ 0.05/4; 0.02 > 0.05/3, so it and all after it are judged at 0.05/3.
    let levels = holm(&[Some(0.03), Some(0.01), None, Some(0.02), Some(0.5)], 0.05);
    let third = 0.05 / 3.0;
    assert_eq!(levels, [third, 0.0125, 0.05, third, third]);
    // All pass: the last is judged at alpha.
    assert_eq!(holm(&[Some(0.04), Some(0.001), Some(0.02)], 0.05), [0.05, 0.05 / 3.0, 0.025]);
    assert!(holm(&[], 0.05).is_empty());
}

#[test]
fn an_interval_lies_in_one_zone_or_cannot_tell() {
    use Direction::{Equal, Higher, Lower};
    use Outcome::{Better, CannotTell, Same, Worse};
    for (lo, hi, direction, outcome) in [
        (-0.9, 0.9, Lower, Same),
        (0.2, 0.9, Lower, Same),
        (-1.0, 1.0, Higher, Same),
        (1.1, 2.0, Lower, Worse),
        (1.1, 2.0, Higher, Better),
        (-2.0, -1.1, Lower, Better),
        (-2.0, -1.1, Higher, Worse),
        (-2.0, -1.1, Equal, Worse),
        (1.1, 2.0, Equal, Worse),
        (0.5, 2.0, Lower, CannotTell),
        (1.0, 2.0, Lower, CannotTell),
        (-3.0, 3.0, Equal, CannotTell),
    ] {
        assert_eq!(zone(lo, hi, 1.0, direction), outcome, "[{lo}, {hi}] {direction:?}");
    }
    assert_eq!(zone(0.0, 0.0, 0.0, Lower), Same);
    assert_eq!(zone(1e-9, 1e-9, 0.0, Lower), Worse);
}

fn draft(pairs: &[(f64, f64)]) -> Draft {
    draft_within(pairs, Band::Relative(0.02))
}

fn draft_within(pairs: &[(f64, f64)], band: Band) -> Draft {
    let rules = Rules::built_in();
    let rule = &rules.rules[0];
    let differences = Differences::of(pairs, band);
    let mut judgement = blank(rule, "ns", &Labels::new(), &differences);
    judgement.pairs = pairs.len();
    Draft { judgement, differences, sample: None, clocks: [0.0; 2] }
}

fn judged(pairs: &[(f64, f64)]) -> Judgement {
    judge(vec![draft(pairs)], 0.05).remove(0)
}

/// Returns pairs whose ratios are `by` ± `spread`.
fn around(by: f64, spread: f64, n: usize) -> Vec<(f64, f64)> {
    (0..n)
        .map(|i| {
            let old = 1e6 + 1e5 * i as f64;
            (old, old * by * (1.0 + spread * [0.0, 1.0, -1.0, 0.5, -0.5][i % 5]))
        })
        .collect()
}

#[test]
fn samples_are_judged_as_people_would() {
    for (pairs, outcome) in [
        (around(1.05, 0.005, 10), Outcome::Worse),
        (around(1.05, 0.005, 5), Outcome::Worse),
        (around(1.05, 0.0, 5), Outcome::Worse),
        (around(0.95, 0.005, 10), Outcome::Better),
        (around(1.0, 0.005, 10), Outcome::Same),
        (around(1.01, 0.001, 10), Outcome::Same),
        (around(1.0, 0.0, 1), Outcome::Same),
        (around(1.02, 0.005, 10), Outcome::CannotTell),
        (around(1.0, 0.2, 10), Outcome::CannotTell),
        (around(1.05, 0.0, 4), Outcome::CannotTell),
        (around(1.05, 0.001, 4), Outcome::CannotTell),
        (around(1.5, 0.1, 2), Outcome::CannotTell),
    ] {
        let judgement = judged(&pairs);
        assert_eq!(judgement.outcome, outcome, "{pairs:?}: {judgement:?}");
        assert_eq!(judgement.why.is_empty(), outcome != Outcome::CannotTell, "{judgement:?}");
    }
    let effect = judged(&around(1.05, 0.0, 5)).effect.unwrap();
    assert!((effect.value - 0.05).abs() < 1e-12 && effect.lo == effect.hi && effect.level == 0.95, "{effect:?}");
}

#[test]
fn an_effect_of_exactly_the_tolerance_is_within_it_both_ways() {
    let of = |old: f64, new: f64, band| judge(vec![draft_within(&[(old, new); 5], band)], 0.05).remove(0).outcome;
    for base in 1..=400 {
        for (percent, share) in [(1, 0.01), (2, 0.02), (5, 0.05), (10, 0.1)] {
            // Quotients of integers are the nearest numbers to the decimals.
            let (old, new) = (f64::from(base) / 100.0, f64::from(base * (100 + percent)) / 1e4);
            let band = Band::Relative(share);
            assert_eq!([of(old, new, band), of(new, old, band)], [Outcome::Same; 2], "{old} {new} {percent} %");
            let beyond = new * (1.0 + 1e-9);
            assert_eq!([of(old, beyond, band), of(beyond, old, band)], [Outcome::Worse, Outcome::Better]);
        }
        let (old, new, band) = (f64::from(base) / 1e3, f64::from(base + 5) / 1e3, Band::Absolute(0.005));
        assert_eq!([of(old, new, band), of(new, old, band)], [Outcome::Same; 2], "{old} {new}");
        assert_eq!(of(old, new * (1.0 + 1e-9), band), Outcome::Worse);
    }
}

#[test]
fn ratios_beyond_all_numbers_are_judged_and_values_too_far_apart_are_named() {
    let of = |old: f64, new: f64| (1..=6).map(|i| (old, new * (1.0 - f64::from(i) / 1000.0))).collect::<Vec<_>>();
    for (small, large) in [(1e-300, 1e300), (5e-324, 1.7e308), (1e-310, 1e10)] {
        let outcomes = [of(small, large), of(large, small)].map(|pairs| judged(&pairs).outcome);
        assert_eq!(outcomes, [Outcome::Worse, Outcome::Better], "{small}");
    }
    // A difference, a sum, a square, and the tolerance overflow.
    let tolerance = vec![(-1.7e308, -1.6e308); 6];
    for pairs in [of(-1.7e308, 1.7e308), of(-1e308, -1.5e308), of(0.0, 1e200), tolerance] {
        let one = judged(&pairs);
        assert_eq!((one.outcome, one.effect, one.further), (Outcome::CannotTell, None, None), "{pairs:?}");
        assert!(one.shown_outcome().starts_with("cannot tell: the values are too far apart"), "{one:?}");
    }
    // It is none of the judgements that are made at once.
    let far = [(-1.7e308, 1.7e308); 6];
    let among = judge(vec![draft(&far), draft(&around(1.05, 0.005, 10))], 0.05).remove(1);
    assert_eq!((among.outcome, among.effect.unwrap().level), (Outcome::Worse, 0.95));
}

#[test]
fn what_cannot_be_told_says_how_many_seeds_would() {
    let close = judged(&around(1.0, 0.05, 5));
    let Some(Further::Seeds(more)) = close.further else { panic!("{close:?}") };
    assert!((5..100).contains(&more), "{more}");
    // This many more pairs of the same kind do give a verdict.
    assert_eq!(judged(&around(1.0, 0.05, 5 + more)).outcome, Outcome::Same);
    assert!(close.shown_outcome().contains(&format!("about {more} more seeds")), "{}", close.shown_outcome());
    let far: Vec<(f64, f64)> = [1.0, 100.0, 0.01, 30.0, 0.03].map(|ratio| (7.0, 7.0 * ratio)).to_vec();
    assert_eq!(judged(&far).further, Some(Further::MoreThan(FURTHER_MAX)));
    let few = judged(&around(1.5, 0.1, 2));
    assert_eq!(few.further, Some(Further::Seeds(3)));
    assert_eq!(few.shown_outcome(), "2 seeds: not compared, 5 are needed; at least 3 more seeds");
    assert_eq!(judged(&around(1.0, 0.0, 2)).shown_outcome(), "same: equal in all 2 pairs");
}

#[test]
fn values_of_one_side_only_are_the_reason_with_few_pairs_too() {
    let of = |pairs: usize, new_lacks: usize, old_lacks: usize| {
        let mut draft = draft(&around(0.5, 0.1, pairs));
        (draft.judgement.new_lacks, draft.judgement.old_lacks) = (new_lacks, old_lacks);
        judge(vec![draft], 0.05).remove(0)
    };
    for (pairs, new_lacks, old_lacks, why) in [
        (2, 6, 0, "in 6 of 8 pairs only the old run has a value"),
        (4, 0, 1, "in 1 of 5 pairs only the new run has a value"),
        (1, 2, 1, "in 2 of 4 pairs only the old run has a value, in 1 only the new one"),
        (6, 2, 0, "in 2 of 8 pairs only the old run has a value"),
    ] {
        let found = of(pairs, new_lacks, old_lacks);
        assert_eq!((found.outcome, found.further, found.why.as_str()), (Outcome::CannotTell, None, why));
        assert_eq!((found.shown_outcome(), found.is_of_too_few()), (format!("cannot tell: {why}"), false));
    }
    let few = of(2, 0, 0);
    assert_eq!((few.further, few.is_of_too_few()), (Some(Further::Seeds(3)), true));
}

#[test]
fn many_judgements_at_once_need_more_and_show_it() {
    let alone = judged(&around(1.03, 0.012, 8));
    assert_eq!(alone.outcome, Outcome::Worse);
    let mut drafts = vec![draft(&around(1.03, 0.012, 8))];
    drafts.extend((0..60).map(|_| draft(&around(1.0, 0.2, 8))));
    let among = judge(drafts, 0.05).remove(0);
    assert_eq!(among.outcome, Outcome::CannotTell, "{among:?}");
    let (one, many) = (alone.effect.unwrap(), among.effect.unwrap());
    assert!(many.lo < one.lo && one.hi < many.hi && many.level > 0.999, "{many:?}");
    // A single judgement would give a verdict; its interval is given, too.
    assert_eq!(many.alone.map(|end| end.signum()), [1.0, 1.0]);
    assert!((many.alone[0] - one.lo).abs() < 2e-3, "{many:?} {one:?}");
}

#[test]
fn a_clear_difference_is_told_at_any_level() {
    let of = |pairs: Vec<(f64, f64)>, alpha| judge(vec![draft(&pairs)], alpha).remove(0);
    for alpha in [1e-3, 1e-4, 1e-6, 1e-9] {
        let judgement = of(around(2.0, 0.01, 30), alpha);
        assert_eq!(judgement.outcome, Outcome::Worse, "{alpha}: {judgement:?}");
    }
    // What further seeds are said to decide, they decide.
    let open = of(around(1.0, 0.05, 8), 1e-7);
    let Some(Further::Seeds(more)) = open.further else { panic!("{open:?}") };
    assert_eq!(of(around(1.0, 0.05, 8 + more), 1e-7).outcome, Outcome::Same, "{more}");
}

#[test]
fn the_overall_verdict_is_by_required_judgements() {
    let of = |outcomes: &[(Outcome, bool)]| {
        let one = |(outcome, required): &(Outcome, bool)| {
            let mut judgement = judged(&around(1.0, 0.0, 3));
            (judgement.outcome, judgement.required) = (*outcome, *required);
            judgement
        };
        overall(&outcomes.iter().map(one).collect::<Vec<_>>())
    };
    use Outcome::{Better, CannotTell, Same, Worse};
    assert_eq!(of(&[(Same, true), (Better, true), (Worse, true), (CannotTell, true)]), Worse);
    assert_eq!(of(&[(Same, true), (Better, true), (CannotTell, true)]), CannotTell);
    assert_eq!(of(&[(Same, true), (Better, true), (Worse, false), (CannotTell, false)]), Better);
    assert_eq!(of(&[(Same, true), (Better, false)]), Same);
    assert_eq!(of(&[]), CannotTell);
}

/// Ages of about 1 ms, 5 % longer: the verdict depends on whether clocks may be apart by less than that.
#[test]
fn a_difference_that_may_be_that_of_clocks_is_none() {
    let with = |ns: f64| {
        let pairs = around(1.05, 0.005, 10);
        let mut draft = draft(&pairs);
        (draft.clocks, draft.differences) = ([ns, 2.0 * ns], draft.differences.off_by(&pairs, [ns, 2.0 * ns]));
        judge(vec![draft], 0.05).remove(0)
    };
    let (one, few, many) = (with(0.0), with(1_000.0), with(20_000.0));
    assert_eq!([one.outcome, few.outcome, many.outcome], [Outcome::Worse, Outcome::Worse, Outcome::CannotTell]);
    let width = |judgement: &Judgement| judgement.effect.map(|effect| effect.hi - effect.lo).unwrap();
    assert!(width(&one) < width(&few) && width(&few) < width(&many));
    assert!(many.why.contains("apart by 20.000 us in old runs and 40.000 us in new ones"), "{}", many.why);
    assert_eq!(many.further, None, "no seed brings clocks closer");
    // A bound as large as the ages leaves nothing known.
    let none = with(2_000_000.0);
    assert_eq!((none.outcome, none.effect.unwrap().hi), (Outcome::CannotTell, f64::INFINITY));
}
