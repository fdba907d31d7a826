//! Tests of runs in which workers and a server receive at the same time.

use std::fs::OpenOptions;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pktgen_core::arrow::array::AsArray;
use pktgen_core::arrow::datatypes::{Int64Type, UInt16Type, UInt32Type};
use pktgen_core::record::{Balance, Counters, NO_CLUSTER, PacketId, RECEIVED, SumOk, Validity};
use pktgen_testing::eventually;
use proptest::prelude::*;

use super::*;
use crate::capture::recover;

impl Wanted {
    /// All rows of the streams that every run has.
    pub(crate) const ROWS: Wanted = Wanted {
        records: Records::Full,
        states: false,
        rounds: false,
        server: false,
        pcap: false,
        pcap_sent: false,
        lanes: None,
        payloads: false,
        stamps: false,
        departures: false,
        at_once: false,
    };
}

impl RunDir {
    /// A run dir without a manifest.
    pub(crate) fn bare(dir: &Path, wanted: Wanted) -> Self {
        RunDir {
            dir: dir.to_owned(),
            clock: RunClock::start(),
            records: wanted.records,
            sent: Stream::create(dir).unwrap(),
            books: Stream::create(dir).unwrap(),
            received: Stream::create(dir).unwrap(),
            received_server: None,
            server: wanted.server,
            states: None,
            rounds: wanted.rounds.then(|| Rounds::create(dir, wanted.at_once).unwrap()),
            lanes: None,
            stamps: None,
            stamps_received: false,
            pcap: None,
            pcap_sent: None,
            sent_elsewhere: false,
        }
    }
}

fn run_dir(dir: &Path, rounds: bool, server: bool) -> RunDir {
    RunDir::bare(dir, Wanted { rounds, server, ..Wanted::ROWS })
}

/// A row: its time, its node, and its number there.
type Row = (Time, u16, u32);

fn row((t_recv, node, newest_seq): Row) -> Received {
    Received {
        t_recv,
        packet: PacketId::new(1, newest_seq, 0),
        cluster: Some(NO_CLUSTER),
        job: None,
        newest_worker: 1,
        newest_seq,
        newest_gen: 0,
        count: 1,
        bytes: 100,
        reward: None,
        accepted: true,
        sum_ok: SumOk::Unknown,
        node,
        digest: Some(7),
        heat: None,
        part: None,
        last: None,
    }
}

fn read(dir: &Path) -> Vec<Row> {
    let file = std::fs::File::open(dir.join(format!("{RECEIVED}.parquet"))).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let mut rows = Vec::new();
    for batch in reader.map(std::result::Result::unwrap) {
        let times = batch["t_recv_ps"].as_primitive::<Int64Type>();
        let nodes = batch["node"].as_primitive::<UInt16Type>();
        let seqs = batch["newest_seq"].as_primitive::<UInt32Type>();
        rows.extend((0..batch.num_rows()).map(|i| (times.value(i), nodes.value(i), seqs.value(i))));
    }
    rows
}

/// Rows at a node, with these gaps between them.
fn rows(node: u16, gaps: &[u8], times: usize) -> Vec<Row> {
    let mut t = 0;
    let all = gaps.iter().cycle().take(gaps.len() * times).enumerate();
    all.map(|(i, gap)| {
        t += Time::from(*gap);
        (t, node, i as u32)
    })
    .collect()
}

fn joined(workers: &[Row], server: &[Row]) -> Vec<Row> {
    let mut all = [workers, server].concat();
    all.sort_by_key(|row| row.0);
    all
}

fn write(run: &mut RunDir, workers: &[Row], server: &[Row]) {
    let mut sides = run.sides().unwrap();
    workers.iter().for_each(|own| sides.workers.received(&row(*own), &[]).unwrap());
    let rows = sides.server.as_mut().unwrap();
    server.iter().for_each(|own| rows.received(&row(*own), &[]).unwrap());
}

fn files(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn both_streams_are_one_by_time(
        workers in prop::collection::vec(0u8..4, 0..60),
        server in prop::collection::vec(0u8..4, 0..60),
        times in prop::sample::select(vec![(1, 1), (200, 1), (1, 200), (150, 170)]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (workers, server) = (rows(1, &workers, times.0), rows(9, &server, times.1));
        let mut run = run_dir(dir.path(), true, true);
        write(&mut run, &workers, &server);
        run.close().unwrap();
        prop_assert_eq!(read(dir.path()), joined(&workers, &server));
        let names = ["books.parquet", "iterations.parquet", "received.parquet", "results.parquet", "sent.parquet"];
        prop_assert_eq!(files(dir.path()), names);
    }
}

#[test]
fn other_runs_have_one_stream() {
    for (rounds, server) in [(true, false), (false, true)] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = run_dir(dir.path(), rounds, server);
        let mut sides = run.sides().unwrap();
        assert_eq!(sides.server.is_some(), server);
        match &mut sides.server {
            Some(server) => server.received(&row((5, 2, 0)), &[]).unwrap(),
            None => sides.workers.received(&row((5, 2, 0)), &[]).unwrap(),
        }
        assert!(!files(dir.path()).iter().any(|name| name.contains("server")));
        run.close().unwrap();
        assert_eq!(read(dir.path()), [(5, 2, 0)]);
    }
}

/// Streams of any length are the same bytes whether written during the run or at its end; an abandoned one has no Parquet.
#[test]
fn parquet_is_the_same_at_once_and_at_the_end() {
    for count in [0, 1, 4095, 4096, 4097, 100_000] {
        let made = [false, true].map(|at_once| {
            let dir = tempfile::tempdir().unwrap();
            let mut stream = Stream::create(dir.path()).unwrap().at_once(at_once);
            rows(3, &[2, 0, 7], count / 3).iter().for_each(|own| stream.push(&row(*own)).unwrap());
            let mut digests = FileDigests::new();
            let rows = stream.finish(dir.path(), &mut digests).unwrap();
            assert_eq!(files(dir.path()), ["received.parquet"]);
            (rows, digests, std::fs::read(dir.path().join("received.parquet")).unwrap())
        });
        assert!(made[0] == made[1] && made[0].0 == (count / 3 * 3) as u64, "{count} rows");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut stream = Stream::create(dir.path()).unwrap().at_once(true);
    rows(3, &[1], 20_000).iter().for_each(|own| stream.push(&row(*own)).unwrap());
    drop(stream);
    // Its thread ends by itself.
    eventually("its thread ends", || files(dir.path()) == ["received.arrows"]);
    assert_eq!(recover_received(dir.path(), &mut FileDigests::new()).unwrap(), 16_384);
}

/// A killed run: its streams as on disk, the server's cut in the middle of a batch.
#[test]
fn both_streams_of_a_killed_run_are_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let (workers, server) = (rows(1, &[3], 10_000), rows(9, &[1, 2], 5_000));
    let mut run = run_dir(dir.path(), true, true);
    write(&mut run, &workers, &server);
    run.received.end().unwrap();
    run.received_server.unwrap().end().unwrap();
    let path = running_path(dir.path(), RECEIVED_SERVER);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1000).unwrap();
    let whole = 8192;
    assert_eq!(recover_received(dir.path(), &mut FileDigests::new()).unwrap(), 10_000 + whole);
    assert_eq!(read(dir.path()), joined(&workers, &server[..whole as usize]));
    assert!(!path.exists());
    // Killed while the streams were removed: nothing is lost.
    std::fs::write(&path, "rest").unwrap();
    assert_eq!(recover_received(dir.path(), &mut FileDigests::new()).unwrap(), 10_000 + whole);
    assert_eq!((read(dir.path()).len(), path.exists()), (10_000 + whole as usize, false));
}

/// Writes a manifest in the state "finished".
fn write_finished(dir: &Path, part: Option<&str>) {
    let manifest = serde_json::json!({
        "version": 2, "tool": "test", "experiment": "lo", "labels": {}, "seed": 1, "state": "finished", "part": part,
        "anchor_unix_ns": 0, "created_unix_ns": 0, "trace_hash": "", "config": "", "clocks": {}, "host": {}, "nodes": [],
        "records": "none", "clusters": [], "balance": Balance::default(), "balance_by_worker": [],
        "counters": Counters::default(), "validity": Validity::default(),
    });
    write_manifest(dir, &manifest).unwrap();
}

/// The frames of an interface have streams and a manifest of their own.
#[test]
fn a_capture_is_not_recovered() {
    let folder = tempfile::tempdir().unwrap();
    write_finished(folder.path(), Some("frames"));
    assert!(recover(folder.path(), false).unwrap_err().to_string().contains("frames of an interface"));
    assert_eq!(files(folder.path()), ["manifest.json"]);
}

/// Whatever else lies in its folder.
#[test]
fn a_run_that_has_ended_is_not_recovered() {
    let folder = tempfile::tempdir().unwrap();
    write_finished(folder.path(), None);
    std::fs::write(running_path(folder.path(), RECEIVED), "mine").unwrap();
    let manifest = || std::fs::read(folder.path().join("manifest.json")).unwrap();
    let before = manifest();
    let refusal = recover(folder.path(), false).unwrap_err().to_string();
    assert!(refusal.contains("the run has ended"), "{refusal}");
    assert_eq!((manifest(), files(folder.path())), (before, vec!["manifest.json".into(), "received.arrows".into()]));
}

/// Writes a manifest of a run in progress.
fn write_running(dir: &Path, created_unix_ns: u64) {
    write_finished(dir, None);
    let manifest: Manifest = serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    write_manifest(dir, &Manifest { state: RunState::Running, created_unix_ns, ..manifest }).unwrap();
}

#[test]
fn recovery_refuses_a_stream_of_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    write_running(dir, 1);
    let mut stream = Stream::<Received>::create(dir).unwrap();
    stream.push(&row((1, 0, 0))).unwrap();
    stream.end().unwrap();
    write_running(dir, 2);
    let refusal = recover(dir, false).unwrap_err().to_string();
    assert!(refusal.contains("received.arrows") && refusal.contains("another run"), "{refusal}");
    assert!(running_path(dir, RECEIVED).exists());
    write_running(dir, 1);
    assert_eq!(recover(dir, false).unwrap(), [0, 0, 1]);
}

/// Streams of older versions do not name their run.
#[test]
fn recovery_reads_streams_without_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut stream = Stream::<Received>::create(dir).unwrap();
    stream.push(&row((1, 0, 0))).unwrap();
    stream.end().unwrap();
    write_running(dir, 2);
    assert_eq!(recover(dir, false).unwrap(), [0, 0, 1]);
}

/// Temporary files of older versions, which ended in `.partial`.
#[test]
fn recovery_removes_half_files_of_streams() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    write_running(dir, 0);
    for name in ["sent.parquet.partial", "states.parquet.partial", "mine.parquet.partial"] {
        std::fs::write(dir.join(name), "PAR1").unwrap();
    }
    recover(dir, false).unwrap();
    let left = ["books.parquet", "manifest.json", "mine.parquet.partial", "received.parquet", "sent.parquet"];
    assert_eq!(files(dir), left);
}

/// The process was killed after it had written the whole file, and before it removed the other one.
#[test]
fn recovery_keeps_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, mut files) = (folder.path(), FileDigests::new());
    let mut stream = Stream::<Received>::create(dir).unwrap();
    let early = std::fs::read(running_path(dir, RECEIVED)).unwrap();
    stream.push(&row((1, 0, 0))).unwrap();
    stream.finish(dir, &mut files).unwrap();
    std::fs::write(running_path(dir, RECEIVED), early).unwrap();
    assert_eq!(recover_stream::<Received>(dir, &mut files).unwrap(), 1, "the rows of the whole file");
    assert_eq!((read(dir), running_path(dir, RECEIVED).exists()), (vec![(1, 0, 0)], false));
}

/// It would be taken for a whole stream, and the rows of the run would be removed.
#[test]
fn recovery_refuses_files_of_others_with_the_name_of_a_stream() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = folder.path();
    write_running(dir, 0);
    Stream::<Sent>::create(dir).unwrap().end().unwrap();
    let mut stream = Stream::<Received>::create(elsewhere.path()).unwrap();
    stream.push(&row((1, 0, 0))).unwrap();
    stream.finish(elsewhere.path(), &mut FileDigests::new()).unwrap();
    let copy = |name: &str| std::fs::copy(elsewhere.path().join("received.parquet"), dir.join(name)).unwrap();
    // Names have some of its columns.
    for name in ["sent.parquet", "states.parquet", "names.parquet"] {
        copy(name);
        let refusal = recover(dir, false).unwrap_err().to_string();
        assert!(refusal.contains(name) && refusal.contains("move it out of the folder"), "{refusal}");
        assert!(dir.join(name).exists() && running_path(dir, "sent").exists());
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    // One with other names stays as it is, and a whole stream of the run is its own.
    copy("mine.parquet");
    copy("received.parquet");
    assert_eq!(recover(dir, false).unwrap(), [0, 0, 1]);
    let left = ["books.parquet", "manifest.json", "mine.parquet", "received.parquet", "sent.parquet"];
    assert_eq!(files(dir), left);
}
