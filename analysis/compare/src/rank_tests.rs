//! Tests of [`super`]: points at which not all implementations have runs.

use pktgen_core::record::Note;
use pktgen_records::age::AgeOf;

use crate::tests::{AOM, run, side};
use crate::{Comparison, Outcome, Rules, Side};

#[test]
fn points_that_not_all_have_are_in_no_ranking_and_said() {
    let of = |name: &str, rates: &[u64]| {
        let runs = rates.iter().flat_map(|rate| (1..=5).map(move |seed| (*rate, seed)));
        let one = |(rate, seed): (u64, u64)| run(&format!("rate={rate}"), seed, &[(AOM, (100 * rate + seed) as f64)]);
        side(name, runs.map(one).collect())
    };
    let ranked = |sides: &[Side]| Comparison::of(sides, None, &Rules::built_in()).unwrap();
    let nothing = ranked(&[of("a", &[20, 40]), of("b", &[20]), of("c", &[40])]);
    assert!(nothing.rankings.is_empty());
    assert!(nothing.summary("x").contains("Nothing is ranked: there is no point"), "{}", nothing.summary("x"));
    let some = ranked(&[of("a", &[20, 40, 60]), of("b", &[20, 40])]);
    assert_eq!((some.rankings.len(), some.rankings[0].points_left_out), (3, 1));
    assert!(!some.notes.iter().any(|note| note.contains("Nothing is ranked")), "{:?}", some.notes);
}

#[test]
fn a_run_without_a_value_counts_once_whichever_other_implementation_has_one() {
    let of = |name: &str, values: [Option<f64>; 6]| {
        let one = |(seed, value): (u64, Option<f64>)| match value {
            Some(value) => run("rate=20", seed, &[(AOM, value)]),
            None => run("rate=20", seed, &[]),
        };
        side(name, (1..).zip(values).map(one).collect())
    };
    // No implementation has a value for seed 4; only c has one for seed 5, and only b for seed 6.
    let sides = [
        of("a", [Some(328.0), Some(316.0), Some(324.0), None, None, None]),
        of("b", [Some(334.0), Some(324.0), Some(328.0), None, None, Some(330.0)]),
        of("c", [Some(338.0), None, Some(332.0), None, Some(320.0), None]),
    ];
    let found = Comparison::of(&sides, None, &Rules::built_in()).unwrap();
    let places = &found.rankings[0].places;
    let lacking = |name: &str| places.iter().find(|one| one.implementation == name).map(|one| one.lacking);
    assert_eq!(["a", "b", "c"].map(lacking), [Some(2), Some(1), Some(2)]);
}

#[test]
fn the_member_that_ages_are_counted_by_is_said_in_every_form() {
    let of = |name: &str, age_of: AgeOf| {
        let mut side = side(name, (1..=5).map(|seed| run("rate=20", seed, &[(AOM, seed as f64)])).collect());
        side.sweep.options.age_of = age_of;
        side
    };
    let compared = |age_of: AgeOf, baseline: Option<usize>| {
        Comparison::of(&[of("a", age_of), of("b", age_of)], baseline, &Rules::built_in()).unwrap()
    };
    for baseline in [None, Some(0)] {
        let oldest = compared(AgeOf::Oldest, baseline);
        for form in crate::extensions() {
            assert!(oldest.render(form).unwrap().unwrap().contains("--age oldest"), "{form}");
        }
        assert!(oldest.summary("x").contains("--age oldest"));
        assert!(!compared(AgeOf::default(), baseline).summary("x").contains("--age"));
    }
}

#[test]
fn ages_that_clocks_may_have_changed_share_a_place() {
    let of = |name: &str, age: f64, ns: u64| {
        let mut side = side(name, (1..=5).map(|seed| run("rate=20", seed, &[(AOM, age + seed as f64)])).collect());
        side.sweep.units.insert(AOM.to_owned(), "ns".to_owned());
        side.sweep.runs.iter_mut().for_each(|run| run.validity.notes.push(Note::ClocksWithin { ns }));
        side
    };
    let places = |ns: u64| {
        let found = Comparison::of(&[of("a", 1000.0, ns), of("b", 1100.0, ns)], None, &Rules::built_in()).unwrap();
        found.rankings[0].places.iter().map(|place| (place.best, place.worst)).collect::<Vec<_>>()
    };
    assert_eq!((places(20), places(60)), (vec![(1, 1), (2, 2)], vec![(1, 2), (1, 2)]));
}

/// In a geometric mean, a bound matters most to the smallest ages.
#[test]
fn means_over_points_are_off_by_what_their_values_are_off() {
    let of = |name: &str, factor: f64, ns: u64| {
        let points = [("rate=20", 1e3), ("rate=40", 1e5)];
        let runs = points
            .into_iter()
            .flat_map(|(at, age)| (1..=5).map(move |seed| run(at, seed, &[(AOM, factor * (age + seed as f64))])));
        let mut side = side(name, runs.collect());
        side.sweep.runs.iter_mut().for_each(|run| run.validity.notes.push(Note::ClocksWithin { ns }));
        side
    };
    let places = |ns: u64| {
        let found = Comparison::of(&[of("a", 1.0, ns), of("b", 1.1, ns)], None, &Rules::built_in()).unwrap();
        assert_eq!(found.rankings[0].labels, None);
        found.rankings[0].places.iter().map(|place| (place.best, place.worst)).collect::<Vec<_>>()
    };
    assert_eq!((places(60), places(120)), (vec![(1, 1), (2, 2)], vec![(1, 2), (1, 2)]));
}

#[test]
fn cuts_that_clocks_may_have_changed_are_judged_and_ranked_as_ages_are() {
    const CUT: &str = "aom_cut/cluster";
    let of = |name: &str, cut: f64, error: f64| {
        let one = |seed: u64| {
            let value = cut + seed as f64 / 1000.0;
            let mut run = run("rate=20", seed, &[(CUT, value)]);
            run.apart.push((CUT, [value - error, value + error / 2.0]));
            run
        };
        side(name, (1..=5).map(one).collect())
    };
    let rule = format!("[[rule]]\nmetric = \"{CUT}\"\ndirection = \"higher\"\ntolerance = \"1%\"\n");
    let rules = Rules::parse(&rule, "r.toml").unwrap();
    let found = |error: f64| {
        let sides = [of("a", 0.5, error), of("b", 0.6, error)];
        let outcome = Comparison::of(&sides, Some(0), &rules).unwrap().outcome.unwrap();
        let ranking = Comparison::of(&sides, None, &rules).unwrap().rankings.remove(0);
        (outcome, ranking.places.iter().map(|place| (place.best, place.worst)).collect::<Vec<_>>())
    };
    assert_eq!(found(0.02), (Outcome::Better, vec![(1, 1), (2, 2)]));
    assert_eq!(found(0.06), (Outcome::CannotTell, vec![(1, 2), (1, 2)]));
}

#[test]
fn runs_that_not_all_have_are_named_in_any_order_of_sides() {
    let of = |name: &str, seeds: std::ops::RangeInclusive<u64>, rate: u64| {
        let mut runs: Vec<_> = seeds.map(|seed| run("rate=20", seed, &[(AOM, (100 + seed) as f64)])).collect();
        runs.push(run(&format!("rate={rate}"), 3, &[(AOM, 1.0)]));
        side(name, runs)
    };
    let [a, b, c] = [of("a", 1..=7, 40), of("b", 2..=8, 40), of("c", 3..=9, 60)];
    let wanted: Vec<String> = ["20-1", "20-2", "40-3", "20-2", "20-8", "40-3", "20-8", "20-9", "60-3"]
        .into_iter()
        .zip(["a", "a", "a", "b", "b", "b", "c", "c", "c"])
        .map(|(run, side)| format!("rate={run} of {side}"))
        .collect();
    for sides in [[&a, &b, &c], [&b, &a, &c], [&c, &b, &a]].map(|sides| sides.map(Side::clone)) {
        for baseline in [None, Some(0)] {
            let found = Comparison::of(&sides, baseline, &Rules::built_in()).unwrap();
            let short = |one: &crate::Unpaired| {
                format!("{} of {}", one.run.split(' ').next().unwrap_or_default(), one.implementation)
            };
            assert_eq!(found.unranked.iter().map(short).collect::<Vec<_>>(), wanted);
            assert_eq!((found.rankings.len(), found.rankings[0].seeds), (1, 5));
            let line = found.lines.iter().find(|line| line.starts_with("Rankings use")).unwrap();
            assert!(line.contains("; 9 runs are left out: rate=20-1") && line.contains("and 6 more"), "{line}");
            assert!(line.ends_with("(the first: b has no run with its labels and seed)."), "{line}");
            let pairs = found.lines.iter().filter(|line| line.contains(" in none: ")).count();
            assert_eq!(pairs, if baseline.is_some() { 2 } else { 0 });
            for form in crate::extensions() {
                let text = found.render(form).unwrap().unwrap();
                assert!(text.contains("rate=40-3") && text.contains("rate=60-3"), "{form}");
            }
        }
    }
    // A run that is invalid leaves its partners without one.
    let mut invalid = [a.clone(), a.clone(), a.clone()];
    for (side, name) in invalid.iter_mut().zip(["x", "y", "z"]) {
        side.name = name.to_owned();
    }
    assert!(Comparison::of(&invalid, None, &Rules::built_in()).unwrap().unranked.is_empty());
    invalid[1].sweep.runs[0].validity = crate::tests::invalid("it was aborted");
    let unranked = Comparison::of(&invalid, None, &Rules::built_in()).unwrap().unranked;
    let why: Vec<&str> = unranked.iter().map(|one| one.why.as_str()).collect();
    assert_eq!(why, ["its partner in y was left out", "it is invalid", "its partner in y was left out"]);
    // Two sides with a baseline are not ranked.
    assert!(Comparison::of(&[a, b], Some(0), &Rules::built_in()).unwrap().unranked.is_empty());
}
