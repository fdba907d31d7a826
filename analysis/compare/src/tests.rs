//! Tests of whole comparisons of runs constructed by hand.

use std::sync::Arc;

use pktgen_core::record::{Fault, Group, MANIFEST_VERSION, Note, ReportPlan, SweepManifest, Validity};
use pktgen_records::Options;
use pktgen_report::sweep::data::{Labels, PointSummary, RunSummary};

use super::*;

pub(crate) const AOM: &str = "aom_mean/cluster";

fn labels(text: &str) -> Labels {
    let parts = text.split(',').filter_map(|part| part.split_once('='));
    parts.map(|(axis, value)| (axis.to_owned(), value.to_owned())).collect()
}

pub(crate) fn run(at: &str, seed: u64, scalars: &[(&str, f64)]) -> RunSummary {
    RunSummary {
        dir: format!("{at}-{seed}"),
        labels: Arc::new(labels(at)),
        seed,
        validity: Validity::default(),
        scalars: scalars.iter().map(|(key, value)| ((*key).into(), *value)).collect(),
        ..Default::default()
    }
}

pub(crate) fn side(name: &str, runs: Vec<RunSummary>) -> Side {
    let manifest = SweepManifest {
        shard: None,
        version: MANIFEST_VERSION,
        experiment: "x".to_owned(),
        about: String::new(),
        overrides: Vec::new(),
        axes: Vec::new(),
        runs: Vec::new(),
        report: ReportPlan::default(),
        paper: Vec::new(),
    };
    let mut points: Vec<PointSummary> = Vec::new();
    for run in &runs {
        if !points.iter().any(|point| point.labels == *run.labels) {
            points.push(PointSummary { labels: Labels::clone(&run.labels), ..Default::default() });
        }
    }
    let unit = |key: &str| match key {
        AOM => "ns",
        "loss" => "share",
        _ => "updates",
    };
    let keys = runs.iter().flat_map(|run| run.scalars.iter().map(|(key, _)| key));
    let units = keys.map(|key| (key.to_string(), unit(key).to_owned())).collect();
    Side { name: name.to_owned(), sweep: SweepData { manifest, options: Options::default(), units, runs, points } }
}

/// Returns runs at two rates with seeds 1 to `seeds`; ages are multiplied by `by` ± half a percent.
fn sweep(name: &str, by: f64, seeds: u64) -> Side {
    let one = |rate: u64, seed: u64| {
        let shake = 1.0 + 0.005 * ((seed * 7 + rate + name.len() as u64) % 5) as f64 / 4.0;
        let at = format!("rate={rate}");
        run(&at, seed, &[(AOM, 1e4 * (rate + seed) as f64 * by * shake), ("loss", 0.25)])
    };
    side(name, [20, 40].into_iter().flat_map(|rate| (1..=seeds).map(move |seed| one(rate, seed))).collect())
}

fn against(old: &Side, new: &Side) -> Comparison {
    Comparison::of(&[old.clone(), new.clone()], Some(0), &Rules::built_in()).unwrap()
}

#[test]
fn the_same_runs_are_the_same_and_scaled_ones_are_not() {
    let old = sweep("old", 1.0, 10);
    let same = against(&old, &old);
    assert_eq!((same.outcome, same.fails(true)), (Some(Outcome::Same), false));
    assert!(same.versus[0].judgements.iter().all(|one| one.effect.is_some_and(|effect| effect.value == 0.0)));
    assert_eq!(same.versus[0].judgements.len(), 4, "two metrics at two points; the other rules have nothing");
    let worse = against(&old, &sweep("new", 1.05, 10));
    assert_eq!((worse.outcome, worse.fails(false)), (Some(Outcome::Worse), true));
    let better = against(&old, &sweep("new", 0.95, 10));
    assert_eq!((better.outcome, better.fails(true)), (Some(Outcome::Better), false));
    assert!(better.lines[2].contains("new against old: BETTER; 0 worse, 2 better, 2 same"), "{:?}", better.lines);
    let few = against(&old, &sweep("new", 1.05, 2));
    assert_eq!((few.outcome, few.fails(false), few.fails(true)), (Some(Outcome::CannotTell), false, true));
    assert!(few.lines[2].ends_with("cannot tell. 2 seeds: not compared, 5 are needed."), "{:?}", few.lines);
}

#[test]
fn few_pairs_claim_nothing_in_any_form_and_runs_without_chance_are_exact() {
    let old = sweep("old", 1.0, 4);
    for seeds in 1..5 {
        let few = against(&old, &sweep("new", 1.5, seeds));
        assert!(few.versus[0].judgements.iter().filter(|one| one.metric == AOM).all(|one| one.effect.is_none()));
        let said = pktgen_records::stats::too_few(seeds as usize);
        for form in extensions() {
            let text = few.render(form).unwrap().unwrap();
            assert!(text.contains(&said), "{form}: {text}");
            assert!(
                !text.contains("<failure") && !text.contains("\"better\"") && !text.contains("\"worse\""),
                "{form}"
            );
        }
        let order = Comparison::of(&[old.clone(), sweep("n", 1.5, seeds)], None, &Rules::built_in()).unwrap();
        assert!(
            order.rankings.iter().all(|one| !one.compared && one.places.iter().all(|place| place.shown() == "1–2"))
        );
        assert!(order.lines.iter().any(|line| line.contains(&format!("at all points: {said}."))), "{:?}", order.lines);
    }
    let exact = |name: &str, by: f64| {
        let mut side = sweep(name, by, 1);
        side.sweep.runs.iter_mut().for_each(|run| run.exact = true);
        side
    };
    let worse = against(&exact("old", 1.0), &exact("new", 1.5));
    assert_eq!(worse.outcome, Some(Outcome::Worse));
    let judgement = &worse.versus[0].judgements[0];
    assert_eq!((judgement.exact, judgement.shown_outcome().as_str()), (true, "worse (exact)"));
    // One exact side alone is not enough.
    assert_eq!(against(&sweep("old", 1.0, 1), &exact("new", 1.5)).outcome, Some(Outcome::CannotTell));
    // Values that differ between seeds are not exact, even if all pairs differ by the same.
    let differs = |name: &str, by: f64| {
        let runs = (1..=2).map(|seed| run("", seed, &[("received", 10.0 * seed as f64 + by)]));
        let mut side = side(name, runs.collect());
        side.sweep.runs.iter_mut().for_each(|run| run.exact = true);
        side
    };
    let sides = [differs("a", 0.0), differs("b", 1.0)];
    let rules = Rules::parse("[[rule]]\nmetric = \"received\"\ndirection = \"lower\"\ntolerance = 0.1", "x").unwrap();
    let found = Comparison::of(&sides, Some(0), &rules).unwrap();
    let judgement = &found.versus[0].judgements[0];
    assert_eq!(
        (judgement.exact, judgement.shown_outcome()),
        (false, "2 seeds: not compared, 5 are needed; at least 3 more seeds".into())
    );
    assert!(!Comparison::of(&sides, None, &rules).unwrap().rankings[0].compared);
    let order = Comparison::of(&[exact("a", 1.0), exact("b", 1.5)], None, &Rules::built_in()).unwrap();
    assert_eq!(order.rankings[0].places.iter().map(Standing::shown).collect::<Vec<_>>(), ["1", "2"]);
}

#[test]
fn what_differs_between_configurations_comes_first() {
    let of = |name: &str, slots: u32| {
        let mut side = sweep(name, 1.0, 5);
        side.sweep.runs.iter_mut().for_each(|run| run.config = format!("[target]\nslots = {slots}\n").into());
        side
    };
    let differ = against(&of("old", 8), &of("new", 6));
    assert_eq!(differ.lines[1], "Configurations of old and new: target.slots: 8 → 6.");
    for form in extensions() {
        let text = differ.render(form).unwrap().unwrap();
        assert!(text.contains("target.slots: 8 → 6") && text.contains("unknown"), "{form}");
    }
    assert_eq!(against(&of("old", 8), &of("new", 8)).lines[1], "Configurations of old and new: the same.");
    assert_eq!(against(&sweep("old", 1.0, 5), &of("new", 8)).lines[1], "Configurations of old and new: not recorded.");
}

#[test]
fn cautions_of_the_runs_and_files_that_differ_come_before_the_verdict() {
    let (old, mut new) = (sweep("old", 1.0, 5), sweep("new", 1.0, 5));
    for run in &mut new.sweep.runs {
        run.validity.notes.extend([Note::LimitDecided { share_percent: 95 }, Note::NotVerified {}]);
        run.config = "[target]\nslots = 8\n".into();
        run.network = Some(7);
    }
    let mut old = old;
    old.sweep.runs.iter_mut().for_each(|run| run.config = "[target]\nslots = 8\n".into());
    let found = against(&old, &new);
    assert!(found.lines[1].starts_with("new: Caution, 10 of 10 runs: transport.limit"), "{:?}", found.lines);
    assert!(found.lines[2].starts_with("new: Note, 10 of 10 runs: its files were not compared"), "{:?}", found.lines);
    let plans = "Configurations of old and new: no key differs; the plan of the network is another in 10 of 10 pairs.";
    assert_eq!(found.lines[3], plans);
    for form in extensions() {
        let text = found.render(form).unwrap().unwrap();
        assert!(text.contains("Caution, 10 of 10 runs") && text.contains("the plan of the network"), "{form}");
    }
}

#[test]
fn a_run_without_drops_of_a_reason_has_none_of_it() {
    let counted = |name: &str, drops: f64| {
        let with = |seed: u64| {
            let dropped = ("dropped", drops);
            let own = [dropped, ("dropped/queue_full", drops)];
            run("rate=1", seed, if drops > 0.0 { &own } else { &own[..1] })
        };
        side(name, (1..=6).map(with).collect())
    };
    let text = "[[rule]]\nmetric = \"dropped/queue_full\"\ndirection = \"lower\"\ntolerance = \"2%\"\n";
    let rules = Rules::parse(text, "x").unwrap();
    let found = Comparison::of(&[counted("old", 0.0), counted("new", 600.0)], Some(0), &rules).unwrap();
    assert_eq!(found.outcome, Some(Outcome::Worse), "{:?}", found.lines);
}

#[test]
fn what_has_no_partner_is_counted_and_named() {
    let (old, mut new) = (sweep("old", 1.0, 5), sweep("new", 1.0, 6));
    new.sweep.runs.push(run("rate=99", 1, &[(AOM, 1.0)]));
    new.sweep.runs.push(run("rate=20", 3, &[(AOM, 1.0)]));
    new.sweep.runs.retain(|run| run.dir != "rate=40-2");
    let comparison = against(&old, &new);
    let pairing = &comparison.versus[0].pairing;
    assert_eq!((pairing.pairs, pairing.points), (9, 2));
    let mut named: Vec<(&str, &str)> =
        pairing.unpaired.iter().map(|one| (one.implementation.as_str(), one.run.split(' ').next().unwrap())).collect();
    named.sort_unstable();
    let wanted =
        [("new", "rate=20-3"), ("new", "rate=20-6"), ("new", "rate=40-6"), ("new", "rate=99-1"), ("old", "rate=40-2")];
    assert_eq!(named, wanted);
    let line = comparison.lines.iter().find(|line| line.contains("in none")).unwrap();
    assert!(line.starts_with("9 pairs; 5 runs are in none") && line.contains("and 2 more"), "{line}");
    let twice = pairing.unpaired.iter().find(|one| one.run.starts_with("rate=20-3")).unwrap();
    assert!(twice.why.contains("has the same labels and seed"), "{}", twice.why);
    for form in extensions() {
        let text = comparison.render(form).unwrap().unwrap();
        assert!(text.contains("rate=99") && text.contains("rate=40-2"), "{form}");
    }
}

#[test]
fn nothing_in_common_is_refused_with_the_reason() {
    let old = sweep("old", 1.0, 3);
    let refused =
        |new: &Side| Comparison::of(&[old.clone(), new.clone()], Some(0), &Rules::built_in()).unwrap_err().to_string();
    let mut seeds = sweep("new", 1.0, 3);
    seeds.sweep.runs.iter_mut().for_each(|run| run.seed += 10);
    assert!(
        refused(&seeds).contains("no seed in common (3 seeds from 1 to 3 and 3 seeds from 11 to 13)"),
        "{}",
        refused(&seeds)
    );
    let elsewhere = side("new", vec![run("rate=30", 1, &[(AOM, 1.0)])]);
    assert!(
        refused(&elsewhere).contains("no point in common (the first are rate=20 and rate=30)"),
        "{}",
        refused(&elsewhere)
    );
    let advised = [&seeds, &elsewhere].map(|new| refused(new).contains("--set sweep.seeds"));
    assert_eq!(advised, [true, false], "the seeds of other points are the same");
    let crossed = side("new", vec![run("rate=20", 9, &[(AOM, 1.0)]), run("rate=30", 1, &[(AOM, 1.0)])]);
    assert!(refused(&crossed).contains("no point has a seed in common"), "{}", refused(&crossed));
    let rules =
        Rules::parse("[[rule]]\nmetric = \"received\"\ndirection = \"lower\"\ntolerance = 0", "r.toml").unwrap();
    let message = Comparison::of(&[old.clone(), old.clone()], Some(0), &rules).unwrap_err().to_string();
    assert!(message.contains("no run has any of the metrics received"), "{message}");
}

#[test]
fn invalid_runs_come_first_and_are_left_out() {
    let (old, mut new) = (sweep("old", 1.0, 5), sweep("new", 1.0, 5));
    new.sweep.runs[1].validity = invalid("its balance misses <3> updates");
    new.sweep.runs[1].scalars.insert(AOM, 1e12);
    let comparison = against(&old, &new);
    assert!(!comparison.valid && comparison.fails(false) && comparison.verdict() == "invalid");
    assert!(comparison.lines[0].starts_with("INVALID: 1 of 20 runs"), "{:?}", comparison.lines);
    assert_eq!(comparison.versus[0].pairing.pairs, 9);
    assert_eq!(comparison.versus[0].pairing.unpaired.len(), 2, "and its partner");
    for form in extensions() {
        let text = comparison.render(form).unwrap().unwrap();
        assert!(text.contains("its balance misses"), "{form}");
        assert!(!["html", "xml"].contains(&form) || text.contains("&lt;3&gt;"), "{form}");
    }
    // Even if all are invalid there is a result.
    new.sweep.runs.iter_mut().for_each(|run| run.validity = invalid(""));
    assert_eq!(against(&old, &new).verdict(), "invalid");
}

#[test]
fn a_value_that_only_the_old_run_has_is_no_success() {
    let goal = |name: &str, missed: u64| {
        let one = |seed: u64| {
            let scalars: &[(&str, f64)] = if seed <= missed { &[] } else { &[("time_to_goal", 5.0)] };
            run("", seed, scalars)
        };
        side(name, (1..=8).map(one).collect())
    };
    let judgement = |old, new| against(&goal("old", old), &goal("new", new)).versus[0].judgements[0].clone();
    assert_eq!(judgement(0, 0).outcome, Outcome::Same);
    let missing = judgement(0, 2);
    assert_eq!((missing.outcome, missing.pairs, missing.new_lacks), (Outcome::CannotTell, 6, 2));
    assert!(missing.why.contains("in 2 of 8 pairs only the old run has a value"), "{}", missing.why);
    assert_eq!(judgement(0, 8).outcome, Outcome::CannotTell);
    let won = judgement(3, 0);
    assert_eq!((won.outcome, won.old_lacks), (Outcome::CannotTell, 3));
    assert!(won.why.contains("in 3 of 8 pairs only the new run has a value"), "{}", won.why);
    assert_eq!(text::cells(&won)[6], "5 of 8");
    // Pairs in which both missed it are counted, too.
    let both = judgement(2, 2);
    assert_eq!(
        (both.outcome, both.pairs, both.both_lack, text::cells(&both)[6].as_str()),
        (Outcome::Same, 6, 2, "6 of 8")
    );
    assert!(judgement(2, 3).why.contains("in 1 of 8 pairs"));
}

fn judgement_of(metric: &str, outcome: Outcome, [lo, hi]: [f64; 2], tolerance: f64) -> judge::Judgement {
    let old = sweep("old", 1.0, 6);
    let mut judgement = against(&old, &old).versus[0].judgements[0].clone();
    let effect = judge::Effect { value: (lo + hi) / 2.0, lo, hi, level: 0.95, alone: [lo, hi], median: lo };
    (judgement.metric, judgement.unit, judgement.outcome) = (metric.into(), "share".into(), outcome);
    (judgement.kind, judgement.band) = (effect::EffectKind::Difference, [-tolerance, tolerance]);
    judgement.effect = Some(effect);
    judgement
}

#[test]
fn judgements_have_one_order() {
    let mut all = Vec::new();
    for (i, metric) in ["aom_mean/cluster", "loss", "received"].into_iter().enumerate() {
        for effect in [0.0, 0.1, -0.2, 5.0] {
            for (outcome, tolerance) in [(Outcome::Worse, 0.05), (Outcome::Worse, 0.0), (Outcome::CannotTell, 1.0)] {
                all.push(judgement_of(metric, outcome, [effect; 2], tolerance * (1.0 + i as f64)));
            }
        }
    }
    for a in &all {
        for b in &all {
            assert_eq!(text::by_severity(a, b), text::by_severity(b, a).reverse());
            let after = |x, y| text::by_severity(x, y).is_gt();
            assert!(all.iter().all(|c| after(a, b) || after(b, c) || !after(a, c)));
        }
    }
    // 0.3 is six times the tolerance, and 0.5 half of it.
    let [large, small] =
        [judgement_of("loss", Outcome::Worse, [0.3; 2], 0.05), judgement_of("received", Outcome::Worse, [0.5; 2], 1.0)];
    assert!(text::by_severity(&large, &small).is_lt());
}

#[test]
fn shown_intervals_end_where_the_verdict_says() {
    let shown = |hi, tolerance| judgement_of("loss", Outcome::CannotTell, [0.001, hi], tolerance).shown_effect();
    assert!(shown(0.005_309, 0.005).ends_with("[0.10, 0.53]"), "{}", shown(0.005_309, 0.005));
    assert!(shown(0.005_309, 0.01).ends_with("[0.1, 0.5]"), "{}", shown(0.005_309, 0.01));
    assert!(shown(0.005, 0.005).ends_with("[0.1, 0.5]"), "{}", shown(0.005, 0.005));
}

#[test]
fn metrics_that_nobody_has_cannot_be_told() {
    let rules = "[[rule]]\nmetric = \"received\"\ndirection = \"higher\"\ntolerance = \"1%\"\n\
                 [[rule]]\nmetric = \"loss\"\ndirection = \"lower\"\ntolerance = \"1pp\"";
    let old = sweep("old", 1.0, 4);
    let rules = Rules::parse(rules, "r.toml").unwrap();
    let comparison = Comparison::of(&[old.clone(), old], Some(0), &rules).unwrap();
    assert_eq!(comparison.outcome, Some(Outcome::CannotTell));
    let judgement = &comparison.versus[0].judgements[0];
    assert_eq!((judgement.metric.as_str(), judgement.why.as_str()), ("received", "no run has this metric"));
}

#[test]
fn metrics_that_reports_define_otherwise_are_withheld() {
    let of = |name: &str, clusters: &[u16], baseline: &str| {
        let own = [("aom_mean/cluster/near", 5.0), ("aom_cut/cluster", 0.5), ("loss", 0.25)];
        let mut side = side(name, (1..=6).map(|seed| run("", seed, &own)).collect());
        let group = Group { name: "near".to_owned(), clusters: clusters.to_vec() };
        let plan = ReportPlan { baseline: Some(baseline.to_owned()), groups: vec![group], ..ReportPlan::default() };
        side.sweep.manifest.report = plan;
        side
    };
    let rule = |metric: &str| format!("[[rule]]\nmetric = \"{metric}\"\ndirection = \"lower\"\ntolerance = \"1%\"\n");
    let rules = ["aom_mean/cluster/near", "aom_cut/cluster", "loss"].map(rule).concat();
    let rules = Rules::parse(&rules, "r.toml").unwrap();
    let outcomes = |other: Side| {
        let all = [of("old", &[0, 1], "FIFO"), other];
        let found = Comparison::of(&all, Some(0), &rules).unwrap();
        let ranked = Comparison::of(&all, None, &rules).unwrap().rankings.len();
        (found.versus[0].judgements.iter().map(|one| one.outcome).collect::<Vec<_>>(), ranked, found.notes)
    };
    use Outcome::{CannotTell, Same};
    assert_eq!(outcomes(of("new", &[1, 0], "FIFO")).0, [Same; 3]);
    let (groups, ranked, notes) = outcomes(of("new", &[2], "FIFO"));
    assert_eq!((groups.as_slice(), ranked), ([CannotTell, Same, Same].as_slice(), 2));
    let wanted = "aom_mean/cluster/near is not defined alike (old: clusters 0, 1, new: cluster 2): it is not compared.";
    assert!(notes.iter().any(|note| note == wanted), "{notes:?}");
    let (baseline, ranked, notes) = outcomes(of("new", &[0, 1], "Slow"));
    assert_eq!((baseline.as_slice(), ranked), ([Same, CannotTell, Same].as_slice(), 2));
    assert!(notes.iter().any(|note| note.contains("(old: against FIFO, new: against Slow)")), "{notes:?}");
}

#[test]
fn own_metrics_without_values_are_noted() {
    let of = |name: &str| {
        let mut side = sweep(name, 1.0, 5);
        let metric = pktgen_core::user_metric::UserMetric {
            name: "quotient".to_owned(),
            sql: "SELECT 1.0 / 0.0 AS value".to_owned(),
            unit: "ratio".to_owned(),
            better: pktgen_core::definition::Better::Lower,
            about: String::new(),
        };
        side.sweep.runs.iter_mut().for_each(|run| run.user_metrics = std::sync::Arc::new(vec![metric.clone()]));
        side.sweep.units.insert("quotient".to_owned(), "ratio".to_owned());
        side
    };
    let found = against(&of("old"), &of("new"));
    let note = "metrics.quotient has no value in any run: it is not compared.";
    assert!(found.notes.iter().any(|one| one == note), "{:?}", found.notes);
}

#[test]
fn variants_may_be_what_is_compared() {
    let named = |name: &str, variant: &str, by: f64| {
        let mut side = sweep(name, by, 5);
        side.sweep
            .runs
            .iter_mut()
            .for_each(|run| drop(Arc::make_mut(&mut run.labels).insert("variant".into(), variant.into())));
        side
    };
    let comparison = against(&named("a", "fifo", 1.0), &named("b", "olaf", 0.9));
    assert_eq!(comparison.outcome, Some(Outcome::Better));
    assert!(comparison.notes.iter().any(|note| note.contains("fifo (old) and olaf (new)")), "{:?}", comparison.notes);
    // With the same variant on both sides, it is an ordinary label.
    assert_eq!(against(&named("a", "fifo", 1.0), &named("b", "fifo", 0.9)).versus[0].pairing.across, None);
    let mut other = named("b", "olaf", 0.9);
    other.sweep.runs.iter_mut().for_each(|run| run.workload = "another".into());
    assert!(
        against(&named("a", "fifo", 1.0), &other)
            .notes
            .iter()
            .any(|note| note.contains("in 10 of 10 pairs the workload"))
    );
}

#[test]
fn several_are_ranked_and_share_places_if_nobody_can_tell() {
    let sides = [sweep("a", 1.0, 10), sweep("b2", 1.001, 10), sweep("c", 0.9, 10), sweep("d", 1.2, 10)];
    let comparison = Comparison::of(&sides, Some(0), &Rules::built_in()).unwrap();
    assert_eq!(comparison.versus.len(), 3);
    assert_eq!(comparison.outcome, Some(Outcome::Worse), "one of them is");
    let all = &comparison.rankings[0];
    assert_eq!((all.metric.as_str(), &all.labels, all.seeds), (AOM, &None, 10));
    let places: Vec<(&str, String)> =
        all.places.iter().map(|place| (place.implementation.as_str(), place.shown())).collect();
    assert_eq!(places[0], ("c", "1".to_owned()));
    assert_eq!(places[3], ("d", "4".to_owned()));
    assert!(places[1].1 == "2–3" && places[2].1 == "2–3", "{places:?}");
    // Loss is the same everywhere: every place is possible for all.
    let loss = comparison.rankings.iter().find(|ranking| ranking.metric == "loss").unwrap();
    assert!(loss.places.iter().all(|place| (place.best, place.worst) == (1, 4)));
    assert!(comparison.lines.iter().any(|line| line.contains("at all points: 1 c, 2–3")), "{:?}", comparison.lines);
    // Without a baseline there is a ranking and no verdict.
    let order = Comparison::of(&sides, None, &Rules::built_in()).unwrap();
    assert_eq!((order.outcome, order.fails(true), order.verdict()), (None, false, "no baseline"));
    assert!(order.versus.iter().all(|versus| versus.judgements.is_empty()) && order.rankings.len() == 6);
    for form in extensions() {
        assert!(!order.render(form).unwrap().unwrap().is_empty());
    }
    assert!(Comparison::of(&sides[..1], None, &Rules::built_in()).is_err());
}

#[test]
fn markdown_says_the_verdict_first_and_tables_are_whole() {
    let comparison = against(&sweep("old|x", 1.0, 10), &sweep("new", 1.05, 10));
    let text = comparison.render("md").unwrap().unwrap();
    assert!(text.starts_with("**WORSE**: new against old\\|x\n"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 + 4);
    assert!(rows.iter().all(|row| row.replace("\\|", "").matches('|').count() == 9), "{text}");
    let order: Vec<bool> = rows[2..].iter().map(|row| row.ends_with("| worse |")).collect();
    assert_eq!(order, [true, true, false, false], "{text}");
    assert!(text.contains("AoM mean, cluster | rate 20 |") && text.contains("| 2%, lower | 10 | worse |"), "{text}");
    assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
    // Many judgements: the important ones are outside, all are inside.
    let many = |name: &str, by: f64| {
        let runs = (0..20).flat_map(|at| (1..=5).map(move |seed| (at, seed)));
        let one = |(at, seed): (u64, u64)| {
            run(&format!("rate={at}"), seed, &[(AOM, if at == 7 { by } else { 1.0 } * seed as f64)])
        };
        side(name, runs.map(one).collect())
    };
    let text = against(&many("old", 1.0), &many("new", 1.5)).render("md").unwrap().unwrap();
    let (outside, inside) = text.split_once("<details>").unwrap();
    assert_eq!(outside.matches("rate 7 |").count(), 1);
    assert_eq!((outside.matches("| same |").count(), inside.matches("| same |").count()), (0, 19));
    // More than are shown outside: the worst are first, and the total is stated.
    let many = |name: &str, by: &dyn Fn(u64) -> f64| {
        let runs = (0..20).flat_map(|at| (1..=5).map(move |seed| (at, seed)));
        side(name, runs.map(|(at, seed)| run(&format!("rate={at}"), seed, &[(AOM, by(at) * seed as f64)])).collect())
    };
    let slower = |at: u64| if at < 10 { 0.5 } else { 1.0 + 0.1 * at as f64 };
    let text = against(&many("old", &|_| 1.0), &many("new", &slower)).render("md").unwrap().unwrap();
    let (outside, _) = text.split_once("<details>").unwrap();
    assert!(outside.contains("8 of 20 that are not the same, the worst first:"), "{outside}");
    let rows: Vec<&str> = outside.lines().filter(|line| line.starts_with("| AoM")).collect();
    assert!(rows.len() == 8 && rows.iter().all(|row| row.ends_with("| worse |")), "{outside}");
    assert!(rows[0].contains("rate 19") && rows[7].contains("rate 12"), "{outside}");
}

#[test]
fn pages_fetch_nothing_and_draw_every_judgement() {
    let comparison = against(&sweep("old", 1.0, 10), &sweep("n<w", 1.05, 10));
    let page = comparison.render("html").unwrap().unwrap();
    let without_namespace = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for scheme in ["http://", "https://", "url(", "@import", "src=", "href="] {
        assert!(!without_namespace.contains(scheme), "{scheme}");
    }
    assert!(page.contains("n&lt;w") && !page.contains("n<w"));
    assert_eq!((page.matches("<figure>").count(), page.matches("class=\"zone\"").count()), (2, 4));
    assert_eq!((page.matches("class=\"dot worse\"").count(), page.matches("class=\"dot same\"").count()), (2, 2));
    assert!(!page.contains("NaN") && !page.contains("inf"));
    assert!(page.find("class=\"verdict worse\"").unwrap() < page.find("<figure>").unwrap());
}

#[test]
fn junit_has_a_case_per_judgement_and_escapes() {
    let comparison = against(&sweep("o&d", 1.0, 2), &sweep("<n\"w>\u{1}", 1.05, 2));
    let text = comparison.render("xml").unwrap().unwrap();
    assert_eq!((text.matches("<testcase ").count(), text.matches("<skipped ").count()), (5, 2), "{text}");
    assert!(text.contains("&lt;n&quot;w&gt;\\u0001 against o&amp;d") && !text.contains('\u{1}'), "{text}");
    let worse = against(&sweep("old", 1.0, 10), &sweep("new", 1.05, 10)).render("xml").unwrap().unwrap();
    assert!(worse.contains("tests=\"5\" failures=\"2\" errors=\"0\" skipped=\"0\""), "{worse}");
    assert!(
        worse.contains("name=\"AoM mean, cluster (aom_mean/cluster) at rate 20\"")
            && worse.contains("<failure message=\"worse: effect +")
    );
    // A rule that is not required fails nothing.
    let rules = "[[rule]]\nmetric = \"aom_mean/cluster\"\ndirection = \"lower\"\ntolerance = \"2%\"\nrequired = false\n\
                 [[rule]]\nmetric = \"loss\"\ndirection = \"lower\"\ntolerance = \"1pp\"";
    let sides = [sweep("old", 1.0, 10), sweep("new", 1.05, 10)];
    let comparison = Comparison::of(&sides, Some(0), &Rules::parse(rules, "r.toml").unwrap()).unwrap();
    assert_eq!(comparison.outcome, Some(Outcome::Same));
    assert!(comparison.render("xml").unwrap().unwrap().contains("failures=\"0\""));
}

#[test]
fn json_holds_it_all() {
    let comparison = against(&sweep("old", 1.0, 10), &sweep("new", 1.05, 10));
    let value: serde_json::Value = serde_json::from_str(&comparison.render("json").unwrap().unwrap()).unwrap();
    assert_eq!(
        (&value["schema"], &value["outcome"], &value["valid"]),
        (&"comparison/1".into(), &"worse".into(), &true.into())
    );
    let first = &value["versus"][0]["judgements"][0];
    assert_eq!((&first["metric"], &first["outcome"], &first["kind"]), (&AOM.into(), &"worse".into(), &"ratio".into()));
    let effect = first["effect"]["value"].as_f64().unwrap();
    assert!((effect - 0.05).abs() < 0.01, "{effect}");
    assert!(comparison.render("pdf").is_none());
}

#[test]
fn the_terminal_lists_the_worst_first() {
    let mut new = sweep("new", 1.0, 10);
    for run in new.sweep.runs.iter_mut().filter(|run| run.dir.starts_with("rate=40")) {
        run.scalars.insert(AOM, 1.1 * run.scalars[AOM]);
    }
    let text = against(&sweep("old", 1.0, 10), &new).summary("x.html");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("Valid") && lines[2].contains("WORSE") && lines[2].contains("at rate 40"), "{text}");
    let heads = lines.iter().position(|line| line.starts_with("metric ")).unwrap();
    assert!(lines[heads + 1].contains("rate 40") && lines[heads + 1].ends_with("worse"), "{text}");
}

pub(crate) fn invalid(why: &str) -> Validity {
    Validity { faults: vec![Fault::Told { said: why.into() }], notes: Vec::new() }
}

#[test]
fn ages_of_devices_that_hide_members_are_compared_by_lanes_or_not_at_all() {
    let lanes = "lanes_aom_mean/cluster";
    let of = |name: &str, age: f64, by_lanes: Option<f64>, hides_members: bool| {
        let one = |seed: u64| {
            let shake = 1.0 + 0.001 * (seed % 3) as f64;
            let mut values = vec![(AOM, age * shake), ("loss", 0.25)];
            values.extend(by_lanes.map(|age| (lanes, age * shake)));
            RunSummary { hides_members, ..run("rate=20", seed, &values) }
        };
        side(name, (1..=8).map(one).collect())
    };
    let judged = |found: &Comparison| -> Vec<String> {
        found.versus[0].judgements.iter().map(|one| one.metric.clone()).collect()
    };
    // A sum counts as one of its members: an implementation that merges more appears older although it is newer.
    let forwards = of("forwards", 100.0, Some(100.0), false);
    let found = against(&forwards, &of("merges", 140.0, Some(60.0), true));
    assert_eq!((found.outcome, judged(&found)), (Some(Outcome::Better), vec![lanes.to_owned(), "loss".to_owned()]));
    assert!(found.notes.iter().any(|note| note.contains("by the lanes of payloads")), "{:?}", found.notes);
    // Without lanes the members are unknown.
    let found = against(&of("forwards", 100.0, None, false), &of("merges", 140.0, None, true));
    assert_eq!((found.outcome, judged(&found)), (Some(Outcome::Same), vec!["loss".to_owned()]));
    assert!(found.notes.iter().any(|note| note.contains("is not compared")), "{:?}", found.notes);
    // Ledgers list the members of packets merged by software devices.
    let found = against(&forwards, &of("merges", 60.0, Some(140.0), false));
    assert_eq!(found.outcome, Some(Outcome::Better), "{:?}", found.lines);
}

#[test]
fn what_a_merging_device_does_not_say_is_not_compared() {
    let of = |name: &str, known: bool| {
        let one = |seed: u64| {
            let mut values = vec![("iteration_time_mean", 1e9 + seed as f64)];
            values.extend([("loss", 0.25), ("elements_per_s", 1e6)].into_iter().filter(|_| known));
            let summary = run("rate=20", seed, &values);
            RunSummary { hides_losses: !known, hides_members: !known, hides_elements: !known, ..summary }
        };
        side(name, (1..=8).map(one).collect())
    };
    for (old, new) in [(of("books", true), of("hardware", false)), (of("hardware", false), of("books", true))] {
        let found = against(&old, &new);
        let judged: Vec<_> = found.versus[0].judgements.iter().map(|one| one.metric.as_str()).collect();
        assert!(!judged.contains(&"loss") && !judged.contains(&"elements_per_s"), "{judged:?}");
        for metric in ["loss", "elements_per_s"] {
            let what = format!("{metric} is not compared");
            assert!(found.notes.iter().any(|note| note.starts_with(&what)), "{:?}", found.notes);
        }
    }
    // Nobody has them: nothing is said.
    let found = against(&of("a", false), &of("b", false));
    assert!(
        !found.notes.iter().any(|note| note.starts_with("loss") || note.starts_with("elements")),
        "{:?}",
        found.notes
    );
}

/// Returns times to a goal of seeds 1 to 10 at two rates; the runs in `missed` have none.
fn goals(name: &str, by: f64, missed: &[(u64, u64)]) -> Side {
    let mut side = sweep(name, by, 10);
    for run in &mut side.sweep.runs {
        let rate: u64 = run.labels["rate"].parse().unwrap();
        if !missed.contains(&(rate, run.seed)) {
            let time = run.scalars[AOM];
            run.scalars.insert("time_to_goal", time);
        }
    }
    side.sweep.units.insert("time_to_goal".to_owned(), "ns".to_owned());
    side
}

#[test]
fn who_misses_a_goal_is_placed_before_nobody_who_reached_it() {
    let order = |fast: &[(u64, u64)]| {
        let sides = [goals("a", 1.0, &[]), goals("fast", 0.5, fast), goals("slow", 2.0, &[])];
        let rankings = Comparison::of(&sides, None, &Rules::built_in()).unwrap().rankings;
        let of_goal = |ranking: Ranking| (ranking.metric == "time_to_goal").then_some(ranking);
        rankings.into_iter().filter_map(of_goal).collect::<Vec<_>>()
    };
    let shown = |ranking: &Ranking| {
        let one = |place: &Standing| format!("{} {} {}", place.shown(), place.implementation, place.lacking);
        ranking.places.iter().map(one).collect::<Vec<_>>()
    };
    let all = order(&[]);
    assert!(all.len() == 3 && all.iter().all(|one| shown(one) == ["1 fast 0", "2 a 0", "3 slow 0"]), "{all:?}");
    // One missed goal at one of two points: not first there nor over all points, but first at the other point.
    let one = order(&[(20, 3)]);
    for ranking in &one {
        let at_40 = ranking.labels == Some(labels("rate=40"));
        let wanted =
            if at_40 { ["1 fast 0", "2 a 0", "3 slow 0"] } else { ["1–2 a 0", "1–3 fast 1", "2–3 slow 0"] };
        assert_eq!(
            (shown(ranking).as_slice(), ranking.seeds),
            (&wanted.map(str::to_owned)[..], if at_40 { 10 } else { 9 })
        );
    }
    // All missed at one point: the point stays, and the mean over all points notes that it excludes the point.
    let never: Vec<(u64, u64)> = (1..=10).map(|seed| (20, seed)).collect();
    let never = order(&never);
    assert_eq!(never.len(), 3);
    assert_eq!((never[0].points_left_out, never[0].labels.is_none()), (1, true));
    assert_eq!(shown(&never[0]), ["1–2 a 0", "1–3 fast 10", "2–3 slow 0"]);
    let at_20 = never.iter().find(|one| one.labels == Some(labels("rate=20"))).unwrap();
    assert_eq!(shown(at_20), ["1–2 a 0", "1–3 fast 10", "2–3 slow 0"]);
    assert!(at_20.places[1].value.is_none() && at_20.places[0].value.is_some());
    let said = Comparison::of(
        &[goals("a", 1.0, &[]), goals("fast", 0.5, &[(20, 3)]), goals("slow", 2.0, &[])],
        None,
        &Rules::built_in(),
    );
    let said = said.unwrap();
    assert!(said.summary("x").contains("(1 without a value)"), "{}", said.summary("x"));
    assert!(said.notes.iter().any(|note| note.contains("placed before none")), "{:?}", said.notes);
}

#[test]
fn quantities_in_other_units_are_the_same_point_and_seeds_of_one_workload_are_named() {
    let spelled = |name: &str, rate: &str, workload: &str| {
        let mut side = sweep(name, 1.0, 6);
        side.sweep.runs.retain(|run| *run.labels == labels("rate=20"));
        for run in &mut side.sweep.runs {
            run.labels = Arc::new(labels(&format!("topology.rate={rate}")));
            run.workload = workload.to_owned();
        }
        side
    };
    let pairing = |old: &Side, new: &Side| against(old, new).versus.remove(0).pairing;
    let one = pairing(&spelled("old", "20Gbps", "w"), &spelled("new", "20000Mbps", "w"));
    assert_eq!((one.pairs, one.points, one.one_workload, one.unpaired.len()), (6, 1, 1, 0));
    let both = [spelled("a", "20Gbps", ""), spelled("b", "20000Mbps", "")];
    assert_eq!(Comparison::of(&both, None, &Rules::built_in()).unwrap().rankings[0].seeds, 6);
    let of_each = |name: &str| {
        let mut side = spelled(name, "20Gbps", "");
        side.sweep.runs.iter_mut().for_each(|run| run.workload = format!("w{}", run.seed));
        side
    };
    assert_eq!(pairing(&of_each("old"), &of_each("new")).one_workload, 0);
    let said = against(&spelled("old", "20Gbps", "w"), &spelled("new", "20Gbps", "w"));
    assert!(said.summary("x").contains("Note: new against old: at 1 of 1 point all seeds replay the same workload"));
}
