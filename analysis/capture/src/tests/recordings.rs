//! Tests of run dirs of recorded interfaces.

use std::fs::File;
use std::sync::Arc;

use pktgen_core::arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, UInt32Array};
use pktgen_core::arrow::ipc::writer::StreamWriter;
use pktgen_core::record::{Balance, Counters, Fault, Validity};

use super::*;

/// Writes the run dir of a recording that was killed: no digests, and the verdict of its beginning.
fn killed(dir: &Path) {
    let none = serde_json::Map::new();
    let validity = Validity { faults: vec![Fault::UnderWay {}], notes: Vec::new() };
    let manifest = serde_json::json!({
        "version": 2, "tool": "", "experiment": "capture", "labels": none, "seed": 0, "state": "running", "anchor_unix_ns": 0,
        "created_unix_ns": 0, "trace_hash": "", "config": "", "clocks": none, "host": none, "nodes": [], "records": "none",
        "clusters": [], "balance": Balance::default(), "balance_by_worker": [], "counters": Counters::default(), "validity": validity,
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
