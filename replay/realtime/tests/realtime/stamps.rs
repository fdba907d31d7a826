//! Stamps in runs: the kernel's times of arrival compared with the run's own clock, converted by the offset that the run measured; and
//! refusals where stamps are unavailable. Tests that need interfaces run in a namespace, or print SKIPPED and the reason.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pktgen_core::arrow::array::{AsArray, RecordBatch};
use pktgen_core::arrow::datatypes::{Int64Type, UInt8Type, UInt32Type, UInt64Type};
use pktgen_core::config::Document;
use pktgen_core::record::{Manifest, PacketId, STAMPS_RECEIVED, STAMPS_SENT};
use pktgen_realtime::run::Experiment;
use pktgen_realtime::transport::{End, Stamps, TRANSPORTS, TransportPlan};
use pktgen_registry::all;

use crate::support::namespace::{FOUR, cables, in_namespace};

fn text(kind: &str, keys: &str) -> String {
    format!(
        "name = \"stamps\"\n[workload]\nclusters = 2\nworkers_per_cluster = 3\nupdates = 100\n[schedule]\noffered = \"5Mbps\"\n\
         [topology]\nrate = \"30Mbps\"\n[transport]\nkind = \"{kind}\"\nlinger = \"300ms\"\n{keys}\n"
    )
}

fn try_run(text: &str, dir: &Path) -> Result<Manifest, String> {
    let experiment =
        Document::parse(text, "test").and_then(|text| Experiment::open(all(), text)).map_err(|e| e.to_string())?;
    experiment.execute(dir, 1, &AtomicBool::new(false), &|_, _| {}).map_err(|e| e.to_string())?;
    Ok(serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap())
}

fn rows(dir: &Path, stream: &str) -> Vec<RecordBatch> {
    let file = File::open(dir.join(format!("{stream}.parquet"))).unwrap();
    ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect()
}

/// Returns a column of times; missing ones are none.
fn times(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().collect()
}

/// Returns the sending time of each packet, in ps.
fn sent(dir: &Path) -> HashMap<u64, i64> {
    let mut all = HashMap::new();
    for batch in rows(dir, "sent") {
        let worker = batch.column_by_name("worker").unwrap().as_primitive::<UInt32Type>();
        let seq = batch.column_by_name("seq").unwrap().as_primitive::<UInt32Type>();
        let attempt = batch.column_by_name("attempt").unwrap().as_primitive::<UInt8Type>();
        for (row, t) in times(&batch, "t_sent_ps").into_iter().enumerate() {
            all.insert(PacketId::new(worker.value(row), seq.value(row), attempt.value(row)).0, t.unwrap());
        }
    }
    all
}

/// Asserts that every packet received by the server has a stamp which, in the run's time, lies between sending and
/// reading, within the stated error of the run's clocks.
fn stamps_lie_between_sending_and_reading(kind: &str, keys: &str, folder: &Path) {
    let dir = folder.join("run");
    let manifest = try_run(&text(kind, keys), &dir).unwrap();
    assert!(manifest.clocks[STAMPS_RECEIVED].contains("CLOCK_REALTIME"), "{:?}", manifest.clocks);
    let (zero, error_ns) = manifest.stamp_clocks[STAMPS_RECEIVED].zero();
    assert!(error_ns < 100_000, "{:?}", manifest.stamp_clocks);
    let (sent, error_ps) = (sent(&dir), error_ns as i64 * 1000);
    let mut stamped = 0;
    for batch in rows(&dir, "stamps") {
        let packet = batch.column_by_name("packet").unwrap().as_primitive::<UInt64Type>();
        let (read, stamps) = (times(&batch, "t_ps"), times(&batch, "received_ns"));
        for row in 0..batch.num_rows() {
            let stamp = (stamps[row].expect("the kernel stamps what arrives") - zero) * 1000;
            assert!(stamp <= read[row].unwrap() + error_ps, "row {row}: {stamp}, read at {:?}", read[row]);
            assert!(stamp + error_ps >= sent[&packet.value(row)], "row {row}: {stamp}");
            stamped += 1;
        }
    }
    assert!(stamped > 0 && stamped == manifest.counters.packets_received, "{kind}: {stamped}");
}

#[test]
fn udp_sockets_tell_when_the_kernel_saw_a_packet() {
    let folder = tempfile::tempdir().unwrap();
    stamps_lie_between_sending_and_reading("udp", "stamps = \"kernel\"", folder.path());
}

/// Asserts that one of ten frames is marked, and that each mark has a stamp after its call and before the end of the run.
fn marked_frames_have_stamps_after_their_calls(kind: &str, keys: &str, folder: &Path) {
    let dir = folder.join("sent");
    let manifest = try_run(&text(kind, &format!("sent_stamps_every = 10\n{keys}")), &dir).unwrap();
    assert!(manifest.clocks[STAMPS_SENT].contains("CLOCK_REALTIME"), "{:?}", manifest.clocks);
    assert!(!manifest.clocks.contains_key(STAMPS_RECEIVED), "{:?}", manifest.clocks);
    let (zero, error_ns) = manifest.stamp_clocks[STAMPS_SENT].zero();
    assert!(error_ns < 100_000, "{:?}", manifest.stamp_clocks);
    let (error_ps, calls) = (error_ns as i64 * 1000, sent(&dir).into_values().collect::<Vec<_>>());
    let (mut marked, mut near) = (0, 0);
    for batch in rows(&dir, "stamps") {
        for (t, stamp) in times(&batch, "t_ps").into_iter().zip(times(&batch, "sent_ns")) {
            let (t, stamp) = (t.unwrap(), (stamp.expect("these cables stamp what they carry") - zero) * 1000);
            assert!(t <= stamp + error_ps && stamp <= manifest.counters.end_ps + error_ps, "{t}, {stamp}");
            marked += 1;
            near += u64::from(calls.iter().any(|call| (t - call).abs() < 50_000_000_000));
        }
    }
    // A mark whose stamp is late doubles the interval of the next ones.
    assert!(manifest.balance.sent == 600 && (1..=60).contains(&marked), "{kind}: {marked}");
    // The clock of the records and that of the mark differ little, except where the machine was interrupted.
    assert!(near * 2 > marked, "{near} of {marked}");
    // Without the setting there are no stamps.
    try_run(&text(kind, keys), &folder.join("none")).unwrap();
    assert!(!folder.join("none/stamps.parquet").exists());
}

#[test]
fn udp_sockets_tell_when_marked_frames_left() {
    let folder = tempfile::tempdir().unwrap();
    marked_frames_have_stamps_after_their_calls("udp", "", folder.path());
}

#[test]
fn packet_sockets_tell_when_marked_frames_left() {
    in_namespace(module_path!(), "packet_sockets_tell_when_marked_frames_left", || {
        cables(1500, "");
        let folder = tempfile::tempdir().unwrap();
        marked_frames_have_stamps_after_their_calls("af_packet", &interfaces(), folder.path());
    });
}

fn interfaces() -> String {
    format!("interfaces = {FOUR:?}")
}

#[test]
fn packet_sockets_tell_when_the_kernel_saw_a_packet() {
    in_namespace(module_path!(), "packet_sockets_tell_when_the_kernel_saw_a_packet", || {
        cables(1500, "");
        for ring in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let keys = format!("{}\nreceive_ring = {ring}\nstamps = \"kernel\"", interfaces());
            stamps_lie_between_sending_and_reading("af_packet", &keys, folder.path());
        }
    });
}

/// A virtual cable of the kernel has no card.
#[test]
fn stamps_of_a_card_are_refused_where_there_is_none() {
    in_namespace(module_path!(), "stamps_of_a_card_are_refused_where_there_is_none", || {
        cables(1500, "");
        let folder = tempfile::tempdir().unwrap();
        for ring in [false, true] {
            let keys = format!("{}\nreceive_ring = {ring}\nstamps = \"card\"", interfaces());
            let why = try_run(&text("af_packet", &keys), &folder.path().join("run")).unwrap_err();
            assert!(why.contains("transport.stamps = \"card\": the driver of pgs0 has no stamps of a card"), "{why}");
        }
    });
}

#[test]
fn what_has_no_card_and_who_has_no_server_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |text: &str| try_run(text, &folder.path().join("run")).unwrap_err();
    let why = run(&text("udp", "stamps = \"card\""));
    assert!(why.contains("the loopback interface has no card") && why.contains("use \"kernel\""), "{why}");
    let kind = TRANSPORTS.iter().find(|kind| kind.name() == "udp").copied().unwrap();
    let addresses = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "203.0.113.7:4"].map(|text| text.parse().unwrap());
    let heads = (all().workers[0].protocol().heads)(0);
    let plan = TransportPlan { addresses: addresses.into(), stamps: Stamps::Card, heads, ..TransportPlan::of(kind) };
    let why = kind.open(&plan, &[End::Server], 1500).err().expect("nobody's address").to_string();
    assert!(why.contains("no interface of this host has the address of server"), "{why}");
    let synchronous = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/wires/trio-ml.toml");
    let synchronous = std::fs::read_to_string(synchronous).unwrap();
    let why = run(&synchronous.replace("kind = \"ring\"", "kind = \"udp\"\nstamps = \"kernel\""));
    assert!(why.contains("what arrives at the server is stamped, and this run has none"), "{why}");
}
