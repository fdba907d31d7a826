//! Tests of [`super`]: any damage of a run dir is reported without a panic.

use pktgen_core::record::{Action, Manifest};

use super::*;
use crate::testing::{Story, small_run};

fn fault(dir: &Path) -> String {
    RunData::open(dir).map(|_| ()).unwrap_err().to_string()
}

fn run_dir(story: &Story, change: impl Fn(&mut Manifest)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = story.manifest();
    change(&mut manifest);
    story.write_with(dir.path(), &manifest);
    dir
}

#[test]
fn what_was_written_is_read() {
    let mut story = small_run(false, 1_000_000);
    story.sent(9, 5, None, 3);
    let dir = run_dir(&story, |_| {});
    let records = RunData::open(dir.path()).unwrap().records.unwrap().whole().unwrap();
    assert_eq!(records.sent.t_gen_ps, story.records.sent.t_gen_ps);
    assert_eq!(records.sent.t_sent_ps, story.records.sent.t_sent_ps);
    assert_eq!(records.books.packet_in, story.records.books.packet_in);
    assert_eq!(records.books.packet_out, story.records.books.packet_out);
    assert_eq!(records.books.reason, story.records.books.reason);
    assert_eq!(records.received.packet, story.records.received.packet);
    assert_eq!(records.received.count, story.records.received.count);
}

#[test]
fn manifests_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    assert!(fault(dir.path()).contains("manifest.json: it is missing: the folder is not a run dir"));
    std::fs::write(dir.path().join("manifest.json"), "{\"version\": 1").unwrap();
    assert!(fault(dir.path()).contains("not JSON"));
    let story = small_run(false, 1000);
    assert!(fault(run_dir(&story, |manifest| manifest.version = 7).path()).contains("version 7 is newer than 2"));
    let killed = fault(run_dir(&story, |manifest| manifest.state = RunState::Running).path());
    assert!(killed.contains("was killed") && killed.contains("`pktgen analyze --recover "), "{killed}");
}

#[test]
fn unfinished_runs_are_recognised() {
    let story = small_run(false, 1000);
    let whole = run_dir(&story, |_| {});
    assert!(!is_unfinished(whole.path()).unwrap());
    assert!(is_unfinished(run_dir(&story, |manifest| manifest.state = RunState::Running).path()).unwrap());
    // Files that a user adds to its folder.
    for name in ["mine.arrows", "sent.arrows"] {
        std::fs::write(whole.path().join(name), "").unwrap();
        assert!(!is_unfinished(whole.path()).unwrap(), "{name}");
    }
    assert!(is_unfinished(&whole.path().join("absent")).is_err());
}

#[test]
fn without_full_records_no_stream_is_needed() {
    let dir = run_dir(&small_run(false, 1000), |manifest| manifest.records = "none".into());
    std::fs::remove_file(dir.path().join("books.parquet")).unwrap();
    assert!(RunData::open(dir.path()).unwrap().records.is_none());
    let missing = run_dir(&small_run(false, 1000), |_| {});
    std::fs::remove_file(missing.path().join("books.parquet")).unwrap();
    assert!(
        fault(missing.path()).contains("books.parquet: it is missing although the manifest says records = \"full\"")
    );
}

#[test]
fn foreign_and_damaged_streams_are_named() {
    let dir = run_dir(&small_run(true, 1000), |_| {});
    let (sent, books) = (dir.path().join("sent.parquet"), dir.path().join("books.parquet"));
    let whole = std::fs::read(&sent).unwrap();
    // The stream of another name: a column is missing.
    std::fs::copy(&books, &sent).unwrap();
    let foreign = fault(dir.path());
    assert!(foreign.contains("sent.parquet") && foreign.contains("t_gen_ps"), "{foreign}");
    std::fs::write(&sent, b"not parquet at all").unwrap();
    assert!(fault(dir.path()).contains("not a complete Parquet file"));
    for part in 0..24 {
        std::fs::write(&sent, &whole[..whole.len() * part / 24]).unwrap();
        assert!(fault(dir.path()).contains("sent.parquet"), "{part}");
    }
    std::fs::write(&sent, &whole).unwrap();
    assert!(RunData::open(dir.path()).is_ok());
}

#[test]
fn flipped_bits_never_panic() {
    let dir = run_dir(&small_run(true, 1000), |_| {});
    let sent = dir.path().join("sent.parquet");
    let whole = std::fs::read(&sent).unwrap();
    let mut dice = crate::stats::SplitMix::new(7);
    let mut refused = 0;
    for _ in 0..300 {
        let mut damaged = whole.clone();
        let at = dice.next_u64() as usize % damaged.len();
        damaged[at] ^= 1 << (dice.next_u64() % 8);
        std::fs::write(&sent, &damaged).unwrap();
        // Data pages have no checksum, so some damage only changes numbers: all code after the reader must survive this, too.
        let run = RunData::open(dir.path());
        refused += usize::from(run.is_err());
        if let Ok(run) = run {
            let _ = crate::Analysis::new(run, crate::Options::default()).and_then(|analysis| analysis.lines());
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn types_empty_values_and_codes_are_checked() {
    use polars::prelude::*;
    let dir = run_dir(&small_run(false, 1000), |_| {});
    let rewrite = |columns: Vec<Column>| {
        crate::testing::write(&dir.path().join("books.parquet"), columns);
        fault(dir.path())
    };
    let books = |action: u8, reason: Option<u8>, node: Column| {
        vec![
            Column::new("t_ps".into(), [1i64]),
            node,
            Column::new("packet_in".into(), [1u64]),
            Column::new("action".into(), [action]),
            Column::new("packet_out".into(), [None::<u64>]),
            Column::new("reason".into(), [reason]),
        ]
    };
    let node = || Column::new("node".into(), [0u16]);
    let last = Action::ALL.len() - 1;
    assert!(rewrite(books(99, None, node())).contains(&format!("row 0: action 99 is not in 0..={last}")));
    assert!(rewrite(books(4, Some(77), node())).contains("row 0: reason 77 is not in 0..="));
    assert!(rewrite(books(4, None, node())).contains("dropped without a reason"));
    assert!(rewrite(books(1, None, node())).contains("merged without saying by which"));
    assert!(
        rewrite(books(0, None, Column::new("node".into(), ["sw1"]))).contains("column \"node\" holds Utf8, not UInt16")
    );
    assert!(rewrite(books(0, None, Column::new("node".into(), [None::<u16>]))).contains("\"node\" has 1 empty values"));
}
