//! Sweeps of synchronous training: comparisons, verdict, table and pictures.

use std::collections::BTreeMap;
use std::path::Path;

use pktgen_records::stats::Interval;
use pktgen_records::testing_rounds::training;

use crate::chart::Kind;
use crate::summary::summary;
use crate::{Model, REPORTS, SweepData};

/// Creates five seeds each of SwitchML (baseline), which waits for stragglers, and Trio-ML, whose results lack a source. At the first
/// value of `axis`, SwitchML takes 26 us for two iterations and Trio-ML 13, at the second 52 and 26.
fn sweep(dir: &Path, axis: &str, values: [&str; 2], metrics: &[&str]) -> SweepData {
    let mut runs = Vec::new();
    for variant in ["SwitchML", "Trio-ML"] {
        for (i, value) in values.into_iter().enumerate() {
            for seed in 1..=5 {
                let labels: BTreeMap<String, String> =
                    [("variant".to_owned(), variant.to_owned()), (axis.to_owned(), value.to_owned())].into();
                let mut story = training();
                let iterations = &mut story.rounds.iterations;
                let factor = (i as i64 + 1) * if variant == "SwitchML" { 2 } else { 1 };
                for row in 0..4 {
                    // Both iterations of both workers, one after another.
                    let second = row as i64 % 2;
                    iterations.t_start_ps[row] = second * 6_500_000 * factor;
                    iterations.t_end_ps[row] = (second + 1) * 6_500_000 * factor;
                    iterations.sources[row] = if variant == "SwitchML" { 4 } else { 3 };
                }
                let name = format!("{variant}-{i}-{seed}");
                story.write_labelled(&dir.join(&name), &labels, seed);
                runs.push(serde_json::json!({ "dir": name, "labels": labels, "seed": seed }));
            }
        }
    }
    let sweep = serde_json::json!({
        "version": 1, "experiment": "stragglers", "about": "", "axes": [["variant", ["SwitchML", "Trio-ML"]], [axis, values]],
        "runs": runs, "paper": [],
        "report": { "metrics": metrics, "baseline": "SwitchML", "fitted": [], "notes": [] },
    });
    std::fs::write(dir.join("sweep.json"), sweep.to_string()).unwrap();
    SweepData::open(dir, &mut |_, _| {}).unwrap()
}

#[test]
fn iterations_are_compared_and_ages_are_not_mentioned() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = sweep(dir.path(), "workload.straggling", ["0.08", "0.16"], &[]);
    let trio = sweep.runs.iter().find(|run| run.dir == "Trio-ML-1-2").unwrap();
    // Half of the time, and three of four contributions.
    assert_eq!((trio.scalars["iteration_speedup"], trio.scalars["target_speedup"]), (2.0, 1.5));
    let model = Model::build(&sweep);
    assert!(model.verdict.valid && !model.verdict.worse && model.invalid.is_empty());
    let said = model.verdict.lines.join("\n");
    for sentence in [
        "Trio-ML against SwitchML: speedup of iterations 2 at straggling 0.08, 2 at straggling 0.16 (medians); faster at all 2 points.",
        "to any accuracy (per contribution in results) 1.500 at straggling 0.08",
    ] {
        assert!(said.contains(sentence), "{sentence} is not in\n{said}");
    }
    assert!(!said.contains("Age-of-Model") && !said.contains("no run could be paired"), "{said}");
    assert!(model.warnings.is_empty(), "{:?}", model.warnings);
    assert!(model.remarks.iter().any(|note| note.reasons[0].contains("no Age-of-Model")), "{:?}", model.remarks);
    let columns: Vec<&str> = model.columns.iter().map(|column| column.key.as_str()).collect();
    assert_eq!(columns[..3], ["iteration_time_mean", "over_ideal", "degraded_share"]);
    assert!(model.columns.iter().all(|column| !column.unit.is_empty()), "{:?}", model.columns);
    let text = summary(&model, "report.html");
    assert!(text.contains("iteration time mean [µs]") && text.contains("time/ideal"), "{text}");
    for report in REPORTS {
        assert!(report.render(&model).unwrap().contains("speedup of iterations"), "{}", report.name());
    }
}

#[test]
fn a_slower_variant_is_called_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut sweep = sweep(dir.path(), "p", ["0", "1"], &[]);
    let cell = sweep.points[3].cells.get_mut("iteration_speedup").unwrap();
    (cell.median, cell.interval) = (0.6, Some(Interval { lo: 0.5, hi: 0.9 }));
    let cell = sweep.points[2].cells.get_mut("iteration_speedup").unwrap();
    cell.interval = Some(Interval { lo: 0.9, hi: 3.0 });
    let said = Model::build(&sweep).verdict.lines.join("\n");
    let wanted = "2 [0.900, 3] at p 0, 0.600 [0.500, 0.900] at p 1 (medians, 95 % intervals); slower at 1, \
                  undecided at 1 of 2 points, each by its own 95 % interval.";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn iteration_time_is_drawn_beside_one_ideal() {
    let dir = tempfile::tempdir().unwrap();
    let mut sweep = sweep(dir.path(), "workload.straggling", ["0.08", "0.16"], &[]);
    let names = |sweep: &SweepData| -> Vec<String> {
        let chart =
            Model::build(sweep).charts.into_iter().find(|chart| chart.title.starts_with("Iteration time,")).unwrap();
        assert_eq!((chart.kind, chart.x.0.as_str(), chart.y.1), (Kind::Line, "workload.straggling", "ns"));
        assert_eq!(chart.series[0].points, [(0.08, 13_000.0), (0.16, 26_000.0)]);
        assert!(chart.series.iter().all(|series| series.points.len() == 2 && series.spans.len() == 2));
        chart.series.into_iter().map(|series| series.name).collect()
    };
    assert_eq!(names(&sweep), ["SwitchML", "ideal", "Trio-ML"]);
    // A variant of that name is another line.
    let mut renamed = sweep.clone();
    for variant in renamed.points.iter_mut().filter_map(|point| point.labels.get_mut("variant")) {
        if *variant == "SwitchML" {
            *variant = "ideal".to_owned();
        }
    }
    assert_eq!(names(&renamed), ["ideal", "ideal time", "Trio-ML"]);
    // Different ideals are separate lines.
    let cell = sweep.points[2].cells.get_mut("ideal_iteration_time").unwrap();
    cell.median += 1.0;
    assert_eq!(names(&sweep), ["SwitchML", "SwitchML, ideal", "Trio-ML", "Trio-ML, ideal"]);
    let titles: Vec<String> = Model::build(&sweep).charts.into_iter().map(|chart| chart.title).collect();
    assert!(titles.iter().all(|title| !title.contains("Age") && !title.contains("age of")), "{titles:?}");
}

#[test]
fn other_times_are_drawn_where_the_table_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = ["recovery_time_mean", "result_latency_mean", "elements_per_s"];
    let sweep = sweep(dir.path(), "target.timeout", ["5ms", "10ms"], &metrics);
    let charts = Model::build(&sweep).charts;
    let recovery = charts.iter().find(|chart| chart.title.starts_with("Time to recover from stragglers")).unwrap();
    assert_eq!((recovery.x.0.as_str(), recovery.x.1), ("target.timeout", "ns"));
    let longest = recovery.series.iter().find(|series| series.name == "Trio-ML, longest").unwrap();
    assert_eq!((longest.points.as_slice(), recovery.series.len()), ([(5e6, 4000.0), (10e6, 4000.0)].as_slice(), 6));
    let has = |title: &str| charts.iter().any(|chart| chart.title.starts_with(title));
    // There are no charts of metrics without values, nor of metrics that the table lacks.
    assert!(has("Latency of results") && !has("Aggregation throughput") && !has("Iteration time"));
}

#[test]
fn a_single_training_is_reported() {
    for records in ["full", "every:8", "none"] {
        let dir = tempfile::tempdir().unwrap();
        let story = training();
        let mut manifest = story.manifest();
        manifest.records = records.to_owned();
        story.write_with(dir.path(), &manifest);
        let model = Model::build(&SweepData::open(dir.path(), &mut |_, _| {}).unwrap());
        assert!(model.verdict.valid, "{records}: {:?}", model.invalid);
        assert!(model.rows[0].cells[0].ours.is_some_and(|cell| cell.median == 14_000.0), "{records}");
        for report in REPORTS {
            assert!(!report.render(&model).unwrap().is_empty());
        }
    }
}
