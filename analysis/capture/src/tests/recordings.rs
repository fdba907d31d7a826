//! Tests of run dirs of recorded interfaces.

use std::fs::File;
use std::sync::Arc;

use pktgen_core::arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, UInt32Array};
use pktgen_core::arrow::ipc::writer::StreamWriter;
use pktgen_core::record::digest::{file_digest, seal};
use pktgen_core::record::{Balance, Counters, Fault, Validity};

use super::*;

/// Writes the run dir of a recording that was killed: no digests, and the verdict of its beginning.
fn killed(dir: &Path) {
    let none = serde_json::Map::new();
    let validity = Validity { faults: vec![Fault::UnderWay {}], notes: Vec::new() };
    let manifest = serde_json::json!({
        "version": 2, "tool": "", "experiment": "capture", "labels": none, "seed": 0, "state": "running", "anchor_unix_ns": 0,
        "created_unix_ns": 0, "trace_hash": "", "config": "", "clocks": none, "host": none, "nodes": [], "records": "none",
        "clusters": [], "part": "frames",
        "balance": Balance::default(), "balance_by_worker": [], "counters": Counters::default(), "validity": validity,
    });
    std::fs::create_dir(dir).unwrap();
    std::fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
    let frames = &some(0, 100)[1];
    let t: ArrayRef = Arc::new(Int64Array::from_iter_values(frames.iter().map(|(t, _)| *t)));
    let stamps: ArrayRef = Arc::new(Int64Array::from(vec![None::<i64>; frames.len()]));
    let lens: ArrayRef = Arc::new(UInt32Array::from_iter_values(frames.iter().map(|(_, frame)| frame.len() as u32)));
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values(frames.iter().map(|(_, frame)| frame)));
    let columns = [("t_recv_ps", t), ("stamp_ns", stamps), ("len", lens), ("bytes", bytes)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = File::create(dir.join("frames.arrows")).unwrap();
    let mut stream = StreamWriter::try_new(file, &batch.schema()).unwrap();
    stream.write(&batch).unwrap();
    stream.finish().unwrap();
}

#[test]
fn frames_beside_the_manifest_of_a_run_are_no_capture() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    killed(&run);
    assert!(is_capture(&run), "a capture that was killed");
    let manifest = run.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let of_run = text.replace(r#""part":"frames","#, "");
    assert_ne!(of_run, text);
    std::fs::write(&manifest, of_run).unwrap();
    assert!(!is_capture(&run), "a run");
    std::fs::remove_file(&manifest).unwrap();
    assert!(is_capture(&run), "refused by the name of its manifest");
}

#[test]
fn only_the_listed_stream_of_a_recording_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    killed(&run);
    let (manifest, listed) = (run.join("manifest.json"), run.join("frames.parquet"));
    std::fs::write(&listed, "of this recording").unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    value["files"] = serde_json::json!({ "frames.parquet": file_digest(&listed).unwrap() });
    std::fs::write(&manifest, seal(&value.to_string())).unwrap();
    let error = |no_verify: bool| {
        let plan = CapturePlan::new(all().protocols.formats, vec![run.clone()], Vec::new());
        analyze_captures(&CapturePlan { no_verify, ..plan }, &mut |_, _| {}).map(drop).unwrap_err().to_string()
    };
    let refusal = error(false);
    assert!(refusal.contains("frames.arrows: the manifest does not list it"), "{refusal}");
    let refusal = error(true);
    assert!(refusal.contains("frames.parquet"), "the listed one is read: {refusal}");
}

#[test]
fn tables_have_the_verdict_of_their_recording() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("killed");
    killed(&run);
    let formats = all().protocols.formats;
    for no_verify in [false, true] {
        let plan = CapturePlan { no_verify, ..CapturePlan::new(formats, vec![run.clone()], Vec::new()) };
        let direct = analysed(&plan);
        assert_eq!(value(&direct.lines, "received"), Some(20.0));
        let unsure = if no_verify { "not_verified" } else { "unverified" };
        for code in ["invalid", unsure] {
            assert!(direct.notes.iter().any(|note| note.note == code), "{code}: {:?}", direct.notes);
        }
        let written = |name: &str, shard: Shard| {
            let folder = dir.path().join(format!("{name}-{no_verify}"));
            let tables = TablesPlan { dir: folder.clone(), run: "x".into(), form: TableForm::Parquet };
            analysed(&CapturePlan { tables: Some(tables), shard, ..plan.clone() });
            folder
        };
        let whole = written("whole", Shard::WHOLE);
        let shards = [1, 2].map(|i| written(&format!("shard-{i}"), Shard::new(i, 2).unwrap()));
        let joined = dir.path().join(format!("joined-{no_verify}"));
        merge_tables(&shards, &joined, false).unwrap();
        for tables in [whole, joined] {
            assert_eq!(analyze_tables(&tables, formats, false, false).unwrap().notes, direct.notes, "{tables:?}");
        }
    }
}
