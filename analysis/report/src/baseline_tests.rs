//! Tests of [`super`]: pairs, and runs that missed their goal.

use pktgen_core::record::Note;

use super::*;
use crate::sweep::data::GoalSummary;

/// Returns a run of `variant` at `rate` with a time to the goal, or with the number of workers that missed it.
fn run(variant: &str, rate: &str, seed: u64, time: Result<f64, usize>) -> RunSummary {
    let mut run = RunSummary { dir: format!("{variant}-{rate}-{seed}"), seed, ..Default::default() };
    run.labels = Arc::new([(VARIANT.to_owned(), variant.to_owned()), ("rate".to_owned(), rate.to_owned())].into());
    run.goal = Some(GoalSummary { updates: 200, workers: 30, short: time.err().unwrap_or(0) });
    if let Ok(time) = time {
        run.scalars.insert(TIME_TO_GOAL, time);
    }
    run
}

fn speedups(runs: &[RunSummary]) -> Vec<Option<f64>> {
    runs.iter().map(|run| run.scalars.get(SPEEDUP)).collect()
}

#[test]
fn the_page_on_experiments_names_all_of_these_metrics() {
    let page = include_str!("../../../docs/experiments.md");
    for (key, ..) in DERIVED {
        assert!(page.contains(&format!("`{key}`")), "{key}");
    }
}

/// A steered run has no partner: its rate is its own.
#[test]
fn steered_runs_are_compared_with_nothing() {
    for steered in 0..2 {
        let mut runs = [run("FIFO", "5", 1, Ok(900.0)), run("Olaf", "5", 1, Ok(300.0))];
        runs[steered].validity.notes.push(Note::Steered { changes: 1 });
        compare(&mut runs, &mut BTreeMap::new(), "FIFO", &mut Common::default());
        assert_eq!(speedups(&runs), [None, None], "{steered}");
    }
}

#[test]
fn speedup_is_paired_and_never_extrapolated() {
    let mut runs = [
        run("FIFO", "5", 1, Ok(900.0)),
        run("FIFO", "5", 2, Err(3)),
        run("FIFO", "40", 1, Ok(500.0)),
        run("FIFO", "40", 2, Ok(0.0)),
        run("Olaf", "5", 1, Ok(300.0)),
        run("Olaf", "5", 2, Ok(200.0)),
        run("Olaf", "40", 1, Err(1)),
        run("Olaf", "40", 2, Ok(1.0)),
        run("Olaf", "40", 3, Ok(1.0)),
    ];
    let mut units = BTreeMap::new();
    compare(&mut runs, &mut units, "FIFO", &mut Common::default());
    // A missed goal on either side, a time of 0 and a missing partner give no value.
    assert_eq!(speedups(&runs), [None, None, None, None, Some(3.0), None, None, None, None]);
    assert_eq!(units[SPEEDUP], "ratio");
    let lacks = |i: usize| runs[i].lacks.as_slice();
    let found = [lacks(4), lacks(5), lacks(6), lacks(7), lacks(8)];
    let wanted: [&[(&str, Lack)]; 5] =
        [&[], &[(SPEEDUP, Lack::Baseline)], &[(SPEEDUP, Lack::Own)], &[(SPEEDUP, Lack::Ratio)], &[]];
    assert_eq!(found, wanted);
    let missed = missed_goals(&runs);
    assert_eq!(missed.len(), 2, "{missed:?}");
    assert!(
        missed[0].starts_with(
            "FIFO: 1 of 4 runs did not reach 200 updates of every worker (3 of 30 workers were short), at rate=5;"
        ),
        "{missed:?}"
    );
    assert!(missed[1].starts_with("Olaf: 1 of 5 runs") && missed[1].contains("nothing is extrapolated"), "{missed:?}");
}

/// Packets where the baseline receives none are no ratio, and no missing value.
#[test]
fn pairs_without_a_ratio_are_counted() {
    let received = |variant: &str, seed: u64, packets: f64| {
        let mut run = run(variant, "5", seed, Err(1));
        run.scalars.insert("received", packets);
        run
    };
    let of =
        |variant: &str, packets: [f64; 3]| [1, 2, 3].map(|seed| received(variant, seed, packets[seed as usize - 1]));
    let mut runs = [of("FIFO", [0.0, 0.0, 10.0]), of("Olaf", [50.0, 0.0, 9.0])].concat();
    compare(&mut runs, &mut BTreeMap::new(), "FIFO", &mut Common::default());
    let lacks: Vec<&[(&str, Lack)]> = runs[3..].iter().map(|run| run.lacks.as_slice()).collect();
    let wanted: [&[(&str, Lack)]; 3] = [&[("received_ratio", Lack::Ratio)], &[("received_ratio", Lack::Equal)], &[]];
    assert_eq!(lacks, wanted);
    assert_eq!(runs[5].scalars["received_ratio"], 0.9);
}

/// Times from workers to a server are as wrong as their clocks are apart, each in its own direction.
#[test]
fn comparisons_of_one_way_times_have_the_ends_that_clocks_may_give() {
    let compared = |bounds: [u64; 2]| {
        let mut runs = [run("FIFO", "5", 1, Ok(900.0)), run("Olaf", "5", 1, Ok(300.0))];
        for (run, ns) in runs.iter_mut().zip(bounds) {
            run.scalars.insert("received", 10.0);
            run.validity.notes.extend((ns > 0).then_some(Note::ClocksWithin { ns }));
        }
        compare(&mut runs, &mut BTreeMap::new(), "FIFO", &mut Common::default());
        let [_, own] = runs;
        (own.scalars.get(SPEEDUP), own.apart, own.lacks)
    };
    assert_eq!(compared([0, 0]), (Some(3.0), vec![], vec![]));
    assert_eq!(compared([100, 100]), (Some(3.0), vec![(SPEEDUP, [2.0, 5.0])], vec![]));
    assert_eq!(compared([100, 0]), (Some(3.0), vec![(SPEEDUP, [800.0 / 300.0, 1000.0 / 300.0])], vec![]));
    // The time may be none at all.
    assert_eq!(compared([0, 300]), (None, vec![], vec![(SPEEDUP, Lack::Ratio)]));
}

#[test]
fn nothing_is_compared_with_an_invalid_run() {
    let mut runs = [
        run("FIFO", "5", 1, Ok(900.0)),
        run("FIFO", "5", 2, Ok(900.0)),
        run("Olaf", "5", 1, Ok(300.0)),
        run("Olaf", "5", 2, Ok(300.0)),
        run("FIFO", "5", 3, Ok(900.0)),
        run("Olaf", "5", 3, Ok(300.0)),
        run("FIFO", "5", 4, Ok(900.0)),
        run("Olaf", "5", 4, Err(1)),
    ];
    // A baseline's, one with a value, and one that could not be read and has none.
    for i in [1, 5, 7] {
        runs[i].validity.faults.push(pktgen_core::record::Fault::Interrupted {});
    }
    compare(&mut runs, &mut BTreeMap::new(), "FIFO", &mut Common::default());
    assert_eq!(speedups(&runs), [None, None, Some(3.0), None, None, None, None, None]);
    assert!(runs.iter().all(|run| run.lacks.is_empty()));
}

#[test]
fn runs_without_a_goal_say_nothing_about_it() {
    let mut runs = [run("FIFO", "5", 1, Ok(9.0)), run("Olaf", "5", 1, Ok(3.0))];
    assert!(missed_goals(&runs).is_empty());
    runs.iter_mut().for_each(|run| run.goal = None);
    assert!(missed_goals(&runs).is_empty());
    let many: Vec<_> = (1..=9).map(|rate| run("FIFO", &rate.to_string(), 1, Err(rate))).collect();
    let sentence = &missed_goals(&many)[0];
    assert!(
        sentence.contains("(1 to 9 of 30 workers were short), at rate=1; ") && sentence.contains("rate=6; 3 more;")
    );
    let mut alone = run("", "5", 1, Err(30));
    alone.labels = Arc::default();
    assert!(missed_goals(&[alone])[0].starts_with("The goal: 1 of 1 runs"));
}

#[test]
fn the_verdict_says_the_speedup_and_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    pktgen_records::testing::write_sweep(dir.path(), 2);
    let mut sweep = crate::SweepData::open(dir.path(), &mut |_, _| {}).unwrap();
    sweep.manifest.report.metrics.push(SPEEDUP.to_owned());
    for point in &mut sweep.points {
        point.cells.remove("aom_cut/cluster");
    }
    let ends = Some(pktgen_records::stats::Interval { lo: 2.0, hi: 3.0 });
    let interval = pktgen_records::stats::Estimate { median: 2.5, interval: ends, n: 5, exact: false };
    sweep.points[2].cells.insert(SPEEDUP.to_owned(), interval);
    sweep.runs[0].goal = Some(GoalSummary { updates: 200, workers: 4, short: 2 });
    let model = crate::Model::build(&sweep);
    let all = model.verdict.lines.join("\n");
    assert!(
        all.contains(
            "olaf against fifo: speedup to the goal 2.500 [2, 3] at rate 20 (medians, 95 % intervals); faster."
        ),
        "{all}"
    );
    assert!(!all.contains("no run could be paired"), "{all}");
    assert!(all.contains("fifo: 1 of 1 runs did not reach 200 updates"), "{all}");
    // Missed goals that the baseline reached: no verdict, in no form, and the table has the number of runs with a value.
    let mut missed = sweep.clone();
    missed.points[2].lacking.insert(SPEEDUP, crate::sweep::data::Lacking { own: 3, ..Default::default() });
    missed.points[2].runs = (0..8).collect();
    let hidden = crate::Model::build(&missed);
    let all = hidden.verdict.lines.join("\n");
    assert!(
        all.contains("intervals); undecided: in 3 of 8 pairs only the baseline has a value.")
            && !all.contains("faster"),
        "{all}"
    );
    for report in crate::REPORTS.iter().filter(|report| report.extension() != "json") {
        assert!(report.render(&hidden).unwrap().contains("(5 of 8 runs)"), "{}", report.name());
    }
    assert!(crate::summary::summary(&hidden, "").contains("2.500 (5 of 8 runs)"));
    let chart = model.charts.iter().find(|chart| chart.title.starts_with("Speedup over the baseline")).unwrap();
    assert_eq!((chart.series.len(), chart.series[0].points.as_slice()), (1, [(20.0, 2.5)].as_slice()));
    assert_eq!((chart.series[0].spans[0].lo, chart.series[0].spans[0].hi), (2.0, 3.0));
    for report in crate::REPORTS {
        let text = report.render(&model).unwrap();
        assert!(text.contains("nothing is extrapolated"), "{}", report.name());
    }
}

#[test]
fn what_comparing_adds_is_defined() {
    let defined: Vec<String> = DEFINITIONS.iter().flat_map(pktgen_core::definition::Definition::keys).collect();
    assert_eq!(keys().collect::<Vec<_>>(), defined);
    for (key, unit, ..) in DERIVED {
        assert!(DEFINITIONS.iter().any(|known| known.has_key(key) && known.unit == unit), "{key} in {unit}");
    }
}
