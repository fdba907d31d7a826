use std::path::Path;

use proptest::prelude::*;

use super::super::row::{NO_CLUSTER, Received, Row, Sent};
use super::super::{Balance, Counters, SumOk, Validity};
use super::*;
use crate::arrow::array::{Int64Array, UInt16Array, UInt64Array};

/// Writes the manifest of a run of version 1 beside its files.
fn manifest(dir: &Path, trains: bool, by_key: bool) {
    let training = trains.then(|| {
        serde_json::json!({
            "model": "x", "jobs": 3, "workers": 2, "iterations": 1, "blocks": 1, "elements": 1, "compute_ps": 0, "host_rate_bps": 1,
            "ideal_ps": 0, "window": 1, "timeout_ps": null, "iterations_to_target": null,
        })
    });
    let config = if by_key { "[endpoint]\ncold_bytes = 1500\n" } else { "[endpoint]\nwindow = 1\n" };
    let json = serde_json::json!({
        "version": 2, "tool": "test", "experiment": "story", "labels": {}, "seed": 1, "state": "finished", "anchor_unix_ns": 0,
        "created_unix_ns": 0, "trace_hash": "", "config": config, "clocks": {}, "host": {}, "nodes": [], "records": "full",
        "clusters": [], "balance": Balance::default(), "balance_by_worker": [], "counters": Counters::default(), "validity": Validity::default(),
        "training": training,
    });
    std::fs::write(dir.join("manifest.json"), json.to_string()).unwrap();
}

/// Makes a batch of columns of version 1.
fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), false);
    let schema = Schema::new_with_metadata(
        columns.iter().map(field).collect::<Vec<_>>(),
        [("pktgen.version".to_owned(), "1".to_owned())],
    );
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

/// Returns the columns `wanted` of `rows` in the current version.
fn current<R: Row>(rows: &[R], wanted: &[&str]) -> Vec<ArrayRef> {
    let all = RecordBatch::try_new(R::schema(), R::arrays(rows)).unwrap();
    wanted.iter().map(|name| all[name].clone()).collect()
}

fn read(dir: &Path, stream: &str, old: RecordBatch, wanted: &[&str]) -> Vec<ArrayRef> {
    let edition = Edition::of(&dir.join(format!("{stream}.parquet")), stream, &old.schema()).unwrap();
    let sources = edition.sources(wanted);
    let places: Vec<_> = sources.iter().map(|name| old.schema().index_of(name).unwrap()).collect();
    let found = edition.read(old.project(&places).unwrap(), wanted).unwrap();
    assert!(found.schema().fields().iter().map(|field| field.name().as_str()).eq(wanted.iter().copied()));
    found.columns().to_vec()
}

proptest! {
    #[test]
    fn packets_of_version_1_read_as_their_rows(
        trains: bool, by_key: bool,
        drawn in prop::collection::vec((0u32..9, 0u32..50, 0u16..3, any::<bool>(), 0u32..1 << 16, any::<bool>()), 0..40),
    ) {
        let by_key = by_key && trains;
        let rows: Vec<Received> = drawn.into_iter().map(|(worker, seq, tenant, is_part, number, last)| {
            let is_part = is_part && by_key;
            let packet = PacketId::new(worker, seq, 0);
            let heat = if seq % 2 == 0 { Heat::Hot } else { Heat::Cold };
            Received {
                t_recv: 5, packet, cluster: (!trains).then_some(tenant), job: trains.then_some(tenant), newest_worker: worker,
                newest_seq: if is_part { seq } else { number }, newest_gen: 0, count: u16::from(!is_part), bytes: 9, reward: None,
                accepted: true, sum_ok: SumOk::Unknown, node: 0, digest: None, heat: by_key.then_some(heat),
                part: is_part.then_some(number), last: is_part.then_some(last),
            }
        }).collect();
        let newest = |row: &Received| match (row.part, row.last) {
            (Some(part), Some(true)) => part + (1 << 31),
            (Some(part), _) => part,
            _ => row.newest_seq,
        };
        let old = batch(vec![
            ("t_recv_ps", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.t_recv)))),
            ("packet", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.packet.0)))),
            ("cluster", Arc::new(UInt16Array::from_iter_values(rows.iter().map(Received::tenant)))),
            ("newest_seq", Arc::new(UInt32Array::from_iter_values(rows.iter().map(newest)))),
            ("count", Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.count)))),
        ]);
        let dir = tempfile::tempdir().unwrap();
        manifest(dir.path(), trains, by_key);
        for wanted in [
            &["t_recv_ps", "packet", "cluster", "job", "newest_seq", "count", "heat", "part", "last"][..],
            &["last"], &["newest_seq", "t_recv_ps"], &["heat"], &["cluster"], &["job", "part"],
        ] {
            prop_assert_eq!(read(dir.path(), RECEIVED, old.clone(), wanted), current(&rows, wanted));
        }
    }

    #[test]
    fn transmissions_of_version_1_read_as_their_rows(
        trains: bool, by_key: bool, drawn in prop::collection::vec((0u32..9, 0u32..50, 0u16..3), 0..40),
    ) {
        let by_key = by_key && trains;
        let rows: Vec<Sent> = drawn.into_iter().map(|(worker, seq, tenant)| {
            let heat = if seq % 2 == 0 { Heat::Hot } else { Heat::Cold };
            Sent {
                t_gen: 0, t_due: 0, t_sent: None, cluster: (!trains).then_some(tenant), job: trains.then_some(tenant), worker, seq,
                attempt: 0, block: None, bytes: 9, reward: None, heat: by_key.then_some(heat),
            }
        }).collect();
        let old = batch(vec![
            ("cluster", Arc::new(UInt16Array::from_iter_values(rows.iter().map(Sent::tenant)))),
            ("seq", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.seq)))),
        ]);
        let dir = tempfile::tempdir().unwrap();
        manifest(dir.path(), trains, by_key);
        for wanted in [&["cluster", "job", "seq", "heat"][..], &["heat"], &["seq"]] {
            prop_assert_eq!(read(dir.path(), SENT, old.clone(), wanted), current(&rows, wanted));
        }
    }
}

#[test]
fn jobs_of_iterations_have_a_column_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    manifest(dir.path(), true, false);
    let jobs: ArrayRef = Arc::new(UInt16Array::from(vec![2, 0]));
    let old = batch(vec![("cluster", jobs.clone())]);
    let edition = Edition::of(&dir.path().join("iterations.parquet"), ITERATIONS, &old.schema()).unwrap();
    assert_eq!(edition.columns(&old.schema()), ["job"]);
    assert_eq!(read(dir.path(), ITERATIONS, old, &["job"]), [jobs]);
}

#[test]
fn versions_are_told_by_what_the_file_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sent.parquet");
    let of = |schema: &Schema| Edition::of(&path, SENT, schema);
    // Neither the current version nor a rewritten table needs the manifest.
    let bare = Schema::new(Sent::schema().fields().clone());
    for schema in [Sent::schema().as_ref(), &bare] {
        assert!(of(schema).unwrap().older.is_none());
        assert!(of(schema).unwrap().columns(schema).iter().eq(schema.fields().iter().map(|field| field.name())));
    }
    let newer = Sent::STREAM.schema(SCHEMA_VERSION + 1);
    assert!(of(&newer).unwrap_err().contains("newer than 2"), "{:?}", of(&newer));
    let old = batch(vec![("cluster", Arc::new(UInt16Array::from(vec![NO_CLUSTER])) as ArrayRef)]);
    assert!(of(&old.schema()).unwrap_err().contains("manifest.json beside it"));
}

#[test]
fn columns_of_other_types_are_named() {
    let dir = tempfile::tempdir().unwrap();
    manifest(dir.path(), true, true);
    let old = batch(vec![
        ("cluster", Arc::new(UInt16Array::from(vec![1])) as ArrayRef),
        ("seq", Arc::new(Int64Array::from(vec![1]))),
    ]);
    let edition = Edition::of(&dir.path().join("sent.parquet"), SENT, &old.schema()).unwrap();
    assert!(edition.read(old.clone(), &["heat"]).unwrap_err().to_string().contains("\"seq\" does not hold UInt32"));
    assert!(edition.read(old, &["worker"]).unwrap_err().to_string().contains("worker"));
}
