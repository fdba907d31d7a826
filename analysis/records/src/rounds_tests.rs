//! Tests of synchronous training: its streams, its metrics computed by hand, and metrics that it lacks.

use pktgen_core::arrow::datatypes::SchemaRef;
use pktgen_core::record::{Balance, Counters, Fault, Iteration, RunState};
use proptest::prelude::*;

use super::*;
use crate::metric_tests::{lines_of, measured, value};
use crate::testing::Story;
use crate::testing_rounds::training;
use crate::{Analysis, Line, Options, analyze_run};

fn counted(manifest: &mut Manifest) {
    manifest.counters.clipped = 5;
    manifest.counters.device = [("packets".to_owned(), 4), ("packet_time_ps".to_owned(), 1_000_000)].into();
}

#[test]
fn every_line_by_hand() {
    let lines = lines_of(&training(), counted);
    for (key, expected) in [
        // Worker 0: 26 us for 2 iterations; worker 1: 30 us, including the wait between them.
        ("iteration_time_mean", 14_000.0),
        ("over_ideal", 1.75),
        ("degraded_share", 4.0 / 8.0),
        ("sources_mean", 12.0 / 16.0),
        ("effective_iteration_time", 14_000.0 / 0.75),
        ("time_to_target", 100.0 * 14_000.0 / 0.75),
        ("ideal_iteration_time", 8_000.0),
        ("iteration_time_p50", 10_000.0),
        ("iteration_time_p99", 16_000.0),
        ("iteration_time_max", 16_000.0),
        // 4, 6 and 2 us; the missed one is not counted.
        ("communication_time_mean", 4_000.0),
        ("delay_mean", 9_000.0 / 4.0),
        ("straggled_share", 0.5),
        ("skipped_share", 3.0 / 8.0),
        ("missed_share", 0.25),
        ("iterations", 4.0),
        // No gradient of these iterations counts as useful.
        ("useful_elements_per_s", 0.0),
        ("result_latency_mean", 2_000.0),
        ("result_latency_p50", 1_000.0),
        ("result_latency_p99", 3_000.0),
        ("result_latency_max", 3_000.0),
        ("recovery_time_min", 3_000.0),
        ("recovery_time_mean", 3_500.0),
        ("recovery_time_p99", 4_000.0),
        ("recovery_time_max", 4_000.0),
        ("recovery_over_timeout_min", 1.5),
        ("recovery_over_timeout_max", 2.0),
        ("results", 7.0),
        ("results_degraded", 4.0),
        ("results_again", 2.0),
        ("replies", 7.0),
        ("clipped", 5.0),
        ("aggregation_latency_mean", 250.0),
        // 2999 gradients in two packets are 1499.5 each.
        ("aggregation_rate", 5.998e9),
        ("device/packets", 4.0),
        ("device/packet_time_ps", 1e6),
        // Metrics of any run.
        ("sent", 4.0),
        ("dropped/queue_full", 1.0),
        ("balance_unknown", 0.0),
        ("aggregation_mean", 1.5),
    ] {
        let found = value(&lines, key).unwrap_or(f64::NAN);
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{key}: {found}, not {expected}");
    }
    // The main result comes first.
    let first: Vec<&str> = lines.iter().take(3).map(|line| line.metric.as_ref()).collect();
    assert_eq!(first, ["iteration_time_mean", "over_ideal", "degraded_share"]);
}

#[test]
fn what_is_not_stated_is_not_said() {
    let lines = lines_of(&training(), |manifest| {
        let training = manifest.training.as_mut().unwrap();
        (training.timeout_ps, training.iterations_to_target, training.ideal_ps) = (None, None, 0);
    });
    for key in [
        "time_to_target",
        "recovery_over_timeout_min",
        "recovery_over_timeout_max",
        "over_ideal",
        "aggregation_latency_mean",
        "aggregation_rate",
    ] {
        assert_eq!(value(&lines, key), None, "{key}");
    }
    assert_eq!((value(&lines, "recovery_time_max"), value(&lines, "iterations")), (Some(4_000.0), Some(4.0)));
    assert!(lines.iter().all(|line| line.metric != "device"));
}

#[test]
fn a_time_that_no_program_counted_is_not_0() {
    let lines = lines_of(&training(), |manifest| {
        manifest.counters.device = [("packets".to_owned(), 4), ("packet_time_ps".to_owned(), 0)].into();
    });
    for key in ["aggregation_latency_mean", "aggregation_rate"] {
        assert_eq!(value(&lines, key), None, "{key}");
    }
}

#[test]
fn no_age_is_made_up_whatever_was_recorded() {
    for (records, notes, results) in [
        ("full", ["age_of_model_not_defined"].as_slice(), true),
        ("every:4", &["age_of_model_not_defined", "records_not_full"], true),
        ("none", &["age_of_model_not_defined", "records_not_full"], false),
    ] {
        let measured = measured(&training(), |manifest| {
            manifest.records = records.to_owned();
            // With every:4, any number of 7 results may have been recorded.
            manifest.counters.replies = if records == "full" { 7 } else { 28 };
        });
        let found: Vec<&str> = measured.notes.iter().map(|note| note.note).collect();
        assert_eq!(found, notes, "{records}: {:?}", measured.notes);
        let lines = &measured.lines;
        let aged = |line: &&Line| line.metric.starts_with("aom") || line.metric.contains("never_delivered");
        assert_eq!(lines.iter().find(aged), None, "{records}");
        assert_eq!(lines.iter().any(|line| line.metric == "result_latency_mean"), results, "{records}");
        assert_eq!(value(lines, "iteration_time_mean"), Some(14_000.0));
        assert_eq!(value(lines, "balance_unknown"), Some(0.0));
    }
    // Without training there are no metrics of it.
    let mut plain = training();
    plain.training = None;
    let measured = measured(&plain, |manifest| manifest.counters.replies = 0);
    assert!(measured.notes.is_empty() && measured.lines.iter().any(|line| line.metric == "aom_mean"));
    assert!(measured.lines.iter().all(|line| line.metric != "iterations" && line.metric != "replies"));
}

#[test]
fn jobs_are_told_apart() {
    let mut story = training();
    story.training.as_mut().unwrap().jobs = 2;
    story.sent_seq(2, 0, 0, Some(0), 1).sent_seq(3, 0, 0, Some(0), 1);
    // Job 1: a worker with an iteration of 2 us and all sources, one with none.
    let row = Iteration { worker: 2, job: 1, t_start: 1, t_ready: 1, t_end: 2_000_001, delay: 0, ..job_row() };
    story.iteration(row);
    let lines = lines_of(&story, |manifest| assert_eq!(manifest.clusters, [0, 0, 1, 1]));
    assert_eq!(value(&lines, "iteration_time_mean/0"), Some(14_000.0));
    assert_eq!((value(&lines, "iteration_time_mean/1"), value(&lines, "sources_mean/1")), (Some(2_000.0), Some(1.0)));
    assert_eq!(value(&lines, "iteration_time_mean"), Some((13_000.0 + 15_000.0 + 2_000.0) / 3.0));
    // 12 of 16 contributions and 4 of 4.
    assert_eq!((value(&lines, "sources_mean"), value(&lines, "iterations/1")), (Some(0.8), Some(1.0)));
    let job = lines.iter().find(|line| line.key().as_deref() == Some("over_ideal/1")).unwrap();
    assert_eq!(job.to_json(), r#"{"metric":"over_ideal","unit":"ratio","value":0.25,"labels":{"job":1}}"#);
    let dir = tempfile::tempdir().unwrap();
    crate::line::write_table(&lines, &dir.path().join("lines.parquet")).unwrap();
    let notes = measured(&story, |_| {}).notes;
    assert!(notes.iter().any(|note| note.note == "iterations_short" && note.text.starts_with("5 of 8")), "{notes:?}");
}

fn job_row() -> Iteration {
    Iteration {
        t_start: 0,
        t_ready: 0,
        t_end: 0,
        delay: 0,
        worker: 0,
        job: 0,
        iteration: 0,
        sent: 1,
        skipped: 1,
        degraded: 0,
        sources: 4,
        elements: 0,
        missed: false,
    }
}

#[test]
fn an_empty_training_has_lines_without_values() {
    let story = Story { training: training().training, ..Default::default() };
    let lines = lines_of(&story, |_| {});
    for key in ["iteration_time_mean", "iteration_time_max", "sources_mean", "straggled_share", "result_latency_mean"] {
        assert_eq!(value(&lines, key), None, "{key}");
    }
    assert_eq!((value(&lines, "iterations"), value(&lines, "results")), (Some(0.0), Some(0.0)));
    assert_eq!(value(&lines, "ideal_iteration_time"), Some(8_000.0));
}

#[test]
fn results_and_counters_must_agree_unless_the_run_was_killed() {
    let open = |change: &dyn Fn(&mut Manifest)| {
        let dir = tempfile::tempdir().unwrap();
        let story = training();
        let mut manifest = story.manifest();
        change(&mut manifest);
        story.write_with(dir.path(), &manifest);
        Analysis::open(dir.path(), Options::default()).unwrap().validity()
    };
    assert!(open(&|_| {}).is_valid());
    let conflict = open(&|manifest| manifest.counters.replies = 8);
    assert!(conflict.why().contains("7 rows, but 8 replies"), "{conflict:?}");
    let killed = open(&|manifest| {
        manifest.state = RunState::Interrupted;
        manifest.incidents.faults.push(Fault::Killed {});
        (manifest.balance, manifest.counters) = (Balance::default(), Counters::default());
        manifest.balance_by_worker.clear();
    });
    assert_eq!(killed.faults, [Fault::Killed {}]);
}

#[test]
fn streams_that_are_missing_or_damaged_are_named() {
    let dir = tempfile::tempdir().unwrap();
    training().write(dir.path());
    let fault = || analyze_run(dir.path()).unwrap_err().to_string();
    let (iterations, results) = (dir.path().join("iterations.parquet"), dir.path().join("results.parquet"));
    let whole = std::fs::read(&results).unwrap();
    std::fs::remove_file(&results).unwrap();
    assert!(fault().contains("results.parquet: it is missing although the manifest describes a training"));
    std::fs::copy(&iterations, &results).unwrap();
    assert!(fault().contains("results.parquet") && fault().contains("is this a stream of a pktgen run?"));
    use polars::prelude::*;
    let columns = vec![
        Column::new("t_recv_ps".into(), [1i64]),
        Column::new("t_sent_ps".into(), [None::<i64>]),
        Column::new("degraded".into(), [None::<bool>]),
        Column::new("again".into(), [false]),
    ];
    crate::testing::write(&results, columns);
    assert!(fault().contains("column \"degraded\" has empty values"), "{}", fault());
    for part in 0..12 {
        std::fs::write(&results, &whole[..whole.len() * part / 12]).unwrap();
        assert!(fault().contains("results.parquet"), "{part}");
    }
}

#[test]
fn what_is_read_is_what_runs_write() {
    use pktgen_core::record::{Iteration, Reply, Row};
    let names = ITERATION_NAMES.iter().map(|name| (Iteration::schema(), *name));
    for (schema, name) in names.chain(RESULT_NAMES.iter().map(|name| (Reply::schema(), *name))) {
        let field = schema.field_with_name(name).unwrap();
        assert_eq!(field.is_nullable(), name == "t_sent_ps", "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    training().write(dir.path());
    // The constructed streams of these tests have the types of real ones.
    for (schema, stream, names) in
        [(Iteration::schema(), "iterations", ITERATION_NAMES.as_slice()), (Reply::schema(), "results", &RESULT_NAMES)]
    {
        use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
        let file = std::fs::File::open(dir.path().join(format!("{stream}.parquet"))).unwrap();
        let ours = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        for name in names {
            let field = |schema: &SchemaRef| schema.field_with_name(name).unwrap().data_type().clone();
            assert_eq!(field(ours.schema()), field(&schema), "{name}");
        }
    }
}

/// Generates any row, of up to four workers in up to three jobs.
fn any_row() -> impl Strategy<Value = Iteration> {
    let times = (0i64..1000, 0i64..50, 0i64..50, 0i64..3);
    (times, 0u32..4, 0u16..3, (0u32..5, 0u32..5, 0u32..5, 0u64..30), any::<bool>()).prop_map(
        |((t_start, compute, wait, delay), worker, job, (sent, skipped, degraded, sources), missed)| Iteration {
            t_start,
            t_ready: t_start + compute,
            t_end: t_start + compute + wait,
            delay,
            worker,
            job,
            iteration: 0,
            sent,
            skipped,
            degraded,
            sources,
            elements: 0,
            missed,
        },
    )
}

/// Computes the metrics row by row, as defined.
fn naive(rows: &[Iteration], workers: u32) -> Vec<(&'static str, Option<f64>)> {
    let over = |part: f64, whole: f64| if whole > 0.0 { Some(part / whole) } else { None };
    let mut means = Vec::new();
    for worker in 0..4 {
        let own: Vec<&Iteration> = rows.iter().filter(|row| row.worker == worker).collect();
        let (first, last) = (own.iter().map(|row| row.t_start).min(), own.iter().map(|row| row.t_end).max());
        means.extend(first.zip(last).map(|(first, last)| (last - first) as f64 / own.len() as f64 / 1000.0));
    }
    let mut results = 0.0;
    let (mut sources, mut degraded, mut skipped) = (0.0, 0.0, 0.0);
    let (mut straggled, mut missed, mut communication) = (0.0, 0.0, 0.0);
    for row in rows {
        results += f64::from(row.sent + row.skipped);
        sources += row.sources as f64;
        degraded += f64::from(row.degraded);
        skipped += f64::from(row.skipped);
        straggled += if row.delay > 0 { 1.0 } else { 0.0 };
        match row.missed {
            true => missed += 1.0,
            false => communication += (row.t_end - row.t_ready) as f64 / 1000.0,
        }
    }
    let n = rows.len() as f64;
    let mean = over(means.iter().sum(), means.len() as f64);
    let whole = over(sources, results * f64::from(workers));
    vec![
        ("iteration_time_mean", mean),
        ("communication_time_mean", over(communication, n - missed)),
        ("degraded_share", over(degraded, results)),
        ("skipped_share", over(skipped, results)),
        ("missed_share", over(missed, n)),
        ("straggled_share", over(straggled, n)),
        ("sources_mean", whole),
        ("effective_iteration_time", mean.zip(whole).and_then(|(mean, whole)| over(mean, whole))),
        ("iterations", Some(n)),
    ]
}

fn analysis_of(rows: &[Iteration]) -> Vec<Line> {
    let mut story = Story { training: training().training, ..Default::default() };
    for (worker, job) in [(0, 0), (1, 1), (2, 2), (3, 0)] {
        story.sent(worker, 0, Some(0), job);
    }
    for row in rows {
        story.iteration(*row);
    }
    let run = crate::run::RunData {
        dir: "".into(),
        manifest: story.manifest(),
        records: Some(story.records.into()),
        states: None,
        rounds: Some(story.rounds),
        lanes: None,
        names: None,
        verified: Default::default(),
        stamps: None,
    };
    Analysis::new(run, Options::default()).and_then(|analysis| analysis.lines()).unwrap()
}

proptest! {
    #[test]
    fn iterations_are_what_a_naive_count_says(rows in prop::collection::vec(any_row(), 0..30)) {
        let lines = analysis_of(&rows);
        let mut settings = vec![(String::new(), rows.clone())];
        for job in 0..3u16 {
            let own = rows.iter().filter(|row| row.job == job).copied().collect();
            settings.push((format!("/{job}"), own));
        }
        for (job, rows) in settings {
            for (key, expected) in naive(&rows, 2) {
                let found = value(&lines, &format!("{key}{job}"));
                prop_assert_eq!(found.is_some(), expected.is_some(), "{}{}", key, &job);
                let (found, expected) = (found.unwrap_or(0.0), expected.unwrap_or(0.0));
                prop_assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{}{}: {} {}", key, &job, found, expected);
            }
        }
    }

    #[test]
    fn damaged_rows_never_panic(
        times in prop::collection::vec((any::<i64>(), any::<i64>(), any::<u64>(), any::<u32>()), 0..20),
    ) {
        let mut story = training();
        for (a, b, c, d) in times {
            let row = Iteration {
                t_start: a, t_ready: b, t_end: b ^ a, delay: a, sent: d, skipped: d, sources: c, worker: d, ..job_row()
            };
            story.iteration(row).result(a, Some(b), d % 2 == 0, d % 3 == 0);
        }
        lines_of(&story, |manifest| {
            manifest.training.as_mut().unwrap().timeout_ps = Some(i64::MIN);
            manifest.counters.device = [("packets".to_owned(), u64::MAX), ("packet_time_ps".to_owned(), 0)].into();
        });
    }
}
