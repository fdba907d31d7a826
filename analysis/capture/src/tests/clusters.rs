//! Tests of tables of many clusters.

use super::super::replay::open_parts;
use super::*;

/// Number of clusters, whose parts at both sides are more files than a process may have open by default.
const MANY: u16 = 600;

#[test]
fn tables_of_many_clusters_are_read_with_few_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let update = |cluster: u16| {
        let (worker, generation) = (u32::from(cluster), i64::from(cluster) * 1000);
        let mut frame = frame_of(&Sent { worker, seq: 0, t_gen: generation, t_sent: 0, arrives: None }, 1);
        let header =
            Header { flags: 0, cluster, count: 1, worker, seq: 0, generation, attempt: 0, elements: 2, reward: 0.0 };
        header.emit_update(&mut frame[HEAD..]);
        frame
    };
    let names = ["sent.pcapng", "received.pcapng"].map(|name| dir.path().join(name));
    for (name, later) in names.iter().zip([500, 600]) {
        let frames: Vec<_> = (0..MANY).map(|cluster| (i64::from(cluster) * 1000 + later, update(cluster))).collect();
        write(name, &frames);
    }
    let out = dir.path().join("tables");
    let tables = TablesPlan { dir: out.clone(), run: "run".into(), form: TableForm::Parquet };
    let measured = analysed(&CapturePlan { tables: Some(tables), ..both(&names) });
    assert_eq!(open_parts(&out, all().protocols.formats).unwrap(), (2 * usize::from(MANY), 0));
    let again = analyze_tables(&out, all().protocols.formats, false, false).unwrap();
    assert_eq!(value(&again.lines, "sent"), Some(f64::from(MANY)));
    assert!(again.lines == measured.lines);
}

/// Three clusters in four shards: one is of no cluster, and its packets are of a known format all the same.
#[test]
fn a_shard_without_a_cluster_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["sent.pcapng", "received.pcapng"].map(|name| dir.path().join(name));
    names.iter().zip(some(0, 100)).for_each(|(name, frames)| write(name, &frames));
    let has = |measured: &Measured, code: &str| measured.notes.iter().any(|note| note.note == code);
    let whole = analysed(&both(&names));
    let mut folders = Vec::new();
    for i in 1..=4 {
        let folder = dir.path().join(format!("shard-{i}"));
        let tables = TablesPlan { dir: folder.clone(), run: "x".into(), form: TableForm::Parquet };
        let shard = Shard::new(i, 4).unwrap();
        let part = analysed(&CapturePlan { tables: Some(tables), shard, ..both(&names) });
        let again = analyze_tables(&folder, all().protocols.formats, false, false).unwrap();
        for measured in [&part, &again] {
            assert!(has(measured, "shard") && !has(measured, "nothing_found"), "{i}: {:?}", measured.notes);
        }
        folders.push(folder);
    }
    let joined = dir.path().join("joined");
    merge_tables(&folders, &joined, false).unwrap();
    let joined = analyze_tables(&joined, all().protocols.formats, false, false).unwrap();
    assert!(joined.lines == whole.lines && joined.notes == whole.notes);
    // No packet of the whole capture is of a known format.
    let mut frame = some(0, 100)[1][0].1.clone();
    frame[34..38].copy_from_slice(&[0, 80, 0, 80]);
    names.iter().for_each(|name| write(name, &[(1000, frame.clone())]));
    let shard = Shard::new(2, 4).unwrap();
    assert!(has(&analysed(&CapturePlan { shard, ..both(&names) }), "nothing_found"));
}

/// The last updates of a cluster are lost, and those of another arrive meanwhile: the capture of the server ran.
#[test]
fn a_shard_does_not_compare_spans() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["sent.pcapng", "received.pcapng"].map(|name| dir.path().join(name));
    let update =
        |n: i64| Sent { worker: (n % 2) as u32, seq: (n / 2) as u32, t_gen: n * 1000, t_sent: 0, arrives: None };
    let frames = |later: i64, last: i64| -> Vec<(i64, Vec<u8>)> {
        let kept = (0..200).filter(|n| n % 2 == 0 || *n < last);
        kept.map(|n| (n * 1000 + later, frame_of(&update(n), 1))).collect()
    };
    let spans_differ = |plan: &CapturePlan| analysed(plan).notes.iter().any(|note| note.note == "spans_differ");
    let plan = both(&names);
    write(&names[0], &frames(500, 200));
    write(&names[1], &frames(600, 120));
    assert!(!spans_differ(&plan));
    for i in 1..=2 {
        let shard = Shard::new(i, 2).unwrap();
        assert!(!spans_differ(&CapturePlan { shard, ..plan.clone() }), "{i}");
    }
    // All ends early: the whole says so.
    write(&names[1], &frames(600, 120)[..100]);
    assert!(spans_differ(&plan));
}
