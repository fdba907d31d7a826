//! Tests of packets that seem to arrive before they were generated.

use super::*;

/// The server's clock is 20 µs behind, and updates take 5 µs.
#[test]
fn the_uncertainty_of_an_offset_changes_no_latency() {
    let dir = tempfile::tempdir().unwrap();
    let update = |n: i64| {
        let t_gen = n * 100_000_000;
        let t_sent = t_gen + 50_000;
        Sent { worker: (n % 3) as u32, seq: (n / 3) as u32, t_gen, t_sent, arrives: Some(t_sent + 5_000_000) }
    };
    let updates: Vec<_> = (0..30).map(update).collect();
    let names = captures(dir.path(), &updates, [1 << 60, 1 << 60], -20_000_000);
    let plan = |error_ps| CapturePlan { offset: Some(Offset { ps: 0, error_ps }), ..both(&names) };
    let is_invalid = |measured: &Measured| measured.notes.iter().any(|note| note.note == "invalid");
    let exact = analysed(&plan(0));
    let tables = TablesPlan { dir: dir.path().join("tables"), run: "run".into(), form: TableForm::Parquet };
    let wide = analysed(&CapturePlan { tables: Some(tables), ..plan(30_000_000) });
    for measured in [&exact, &wide] {
        let of = |metric| value(&measured.lines, metric);
        assert_eq!((of("host_latency_p50"), of("host_latency_max")), (Some(-15_000.0), Some(-15_000.0)));
    }
    assert!(is_invalid(&exact) && !is_invalid(&wide), "{:?} {:?}", exact.notes, wide.notes);
    // The offset was given: another one is needed. Without one, the clocks are the same by the notes in the files.
    let advised = |measured: &Measured, advice: &str| {
        let invalid = measured.notes.iter().filter(|note| note.note == "invalid");
        invalid.filter(|note| note.text.contains(&format!("the clocks do not agree ({advice}"))).count()
    };
    let without = analysed(&both(&names));
    assert_eq!((advised(&exact, "another --offset"), advised(&exact, "--offset")), (2, 0), "{:?}", exact.notes);
    assert_eq!((advised(&without, "another --offset"), advised(&without, "--offset")), (0, 2), "{:?}", without.notes);
    // Rates are of the same times.
    let of = |measured: &Measured| -> Vec<Option<f64>> {
        measured.lines.iter().filter(|line| line.metric == "throughput_bps").map(|line| line.value).collect()
    };
    assert_eq!(of(&exact), of(&wide));
    let ages: Vec<_> = wide.lines.iter().filter(|line| line.metric.starts_with("aom_")).collect();
    assert!(!ages.is_empty() && ages.iter().all(|line| line.value.is_none_or(|age| age >= 0.0)), "{ages:?}");
    let again = analyze_tables(&dir.path().join("tables"), all().protocols.formats, false, false).unwrap();
    assert!(again.lines == wide.lines && again.notes == wide.notes);
}
