//! Frames that are attached to a wire once and sent by number: they leave unchanged and in order, and a run at top
//! speed has a row for each of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pktgen_core::Result;
use pktgen_core::arrow::array::AsArray;
use pktgen_core::arrow::datatypes::{Int64Type, UInt32Type};
use pktgen_core::config::Document;
use pktgen_core::record::Manifest;
use pktgen_realtime::run::Experiment;
use pktgen_realtime::transport::{AttachedFrames, End, TRANSPORTS, TransportPlan};
use pktgen_registry::all;
use pktgen_testing::HANG;

use crate::support::cases::{LIVE, drain};
use crate::support::namespace::{FOUR, cables, in_namespace, ip};

/// Returns frames of these lengths, all different.
fn frames(lengths: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let made = lengths.zip(0u64..).map(|(length, number)| {
        (0..length as u64).map(|i| (i ^ number.wrapping_mul(0x9e37_79b9) >> (i % 5 * 8)) as u8).collect()
    });
    made.collect()
}

/// Attaches frames for the workers; none if they do not fit.
fn attach(kind: &str, frames: &[&[u8]]) -> Option<Box<dyn AttachedFrames>> {
    let kind = *TRANSPORTS.iter().find(|it| it.name() == kind).expect("it is listed");
    let plan = TransportPlan { interfaces: FOUR.map(str::to_owned).to_vec(), ..TransportPlan::of(kind) };
    kind.attach(&plan, frames).expect("attaches")
}

#[test]
fn attached_frames_leave_unchanged_and_in_order() {
    in_namespace(module_path!(), "attached_frames_leave_unchanged_and_in_order", || {
        cables(1500, "");
        // Copied in the program, by the kernel's helper function, and truncated where they are shorter than the longest.
        let of_one_length = [60, 61, 255, 256, 257, 1514].map(|length| frames(std::iter::repeat_n(length, 100)));
        let mixed = frames((0..100).map(|i| 60 + i * 14));
        for set in of_one_length.iter().chain([&mixed]) {
            let Some(mut wires) = LIVE.open(1514) else { return };
            let to = &mut *wires[End::DeviceDown as usize];
            let slices: Vec<&[u8]> = set.iter().map(Vec::as_slice).collect();
            let mut from = attach("xdp_live", &slices).expect("they fit");
            assert!(from.mode().contains("100 frames attached once"), "{}", from.mode());
            let (mut at, mut due, mut came) = (0, 0, 0);
            for count in [1, 7, 92, 60, 40, 100] {
                assert_eq!(from.send(at, count).unwrap().taken, count);
                at = (at + count) % 100;
                due += count;
                drain(to, &mut |bytes| {
                    assert!(
                        bytes == slices[came % 100],
                        "frame {came}: {} B of {}",
                        bytes.len(),
                        slices[came % 100].len()
                    );
                    came += 1;
                });
                assert_eq!(came, due);
            }
            assert!(from.send(99, 2).is_err(), "there is no frame 100");
            assert_eq!((from.counters().sent, from.counters().send_dropped), (due as u64, 0));
        }
        // A length that no live frame can have, and frames that other wires need to be given again.
        let long = [0; 1515];
        let Some(_wires) = LIVE.open(1514) else { return };
        for (kind, frame) in [("xdp_live", &long[..]), ("xdp_live", &long[..13]), ("af_xdp", &long[..60])] {
            assert!(attach(kind, &[frame]).is_none(), "{kind}, {} B", frame.len());
        }
    });
}

/// Returns worker, number and departure time of each row.
fn rows(dir: &Path) -> Vec<(u32, u32, i64)> {
    let mut all = Vec::new();
    let file = File::open(dir.join("sent.parquet")).unwrap();
    for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap) {
        let number = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<UInt32Type>().clone();
        let (worker, seq) = (number("worker"), number("seq"));
        let t_sent = batch.column_by_name("t_sent_ps").unwrap().as_primitive::<Int64Type>();
        all.extend((0..batch.num_rows()).map(|i| (worker.value(i), seq.value(i), t_sent.value(i))));
    }
    all
}

/// Runs raw frames over one cable, and compares the sent frames with the received ones and with the rows. All frames
/// fit the receiver's ring, however late the receiver reads.
fn run(dir: &Path, repeat: usize, pacing: &str, records: &str, queues: usize) {
    let name = dir.display();
    let text = format!(
        "name = \"top\"\n[workload]\nkind = \"raw\"\nflows = 4\npackets = 200\nsizes = [60, 1514]\nrepeat = {repeat}\n\
         [schedule]\noffered = \"20Mbps\"\n[target]\nkind = \"external\"\n[capture]\nrecords = \"{records}\"\n[transport]\n\
         kind = \"xdp_live\"\npacing = \"{pacing}\"\nqueues = {queues}\ninterfaces = [\"{}\", \"\", \"\", \"{}\"]\n",
        FOUR[0], FOUR[1]
    );
    let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
    experiment.execute(dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
    let manifest: Manifest = serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    let total = 800 * repeat;
    let mode = manifest.host.get("attached.workers");
    let attached = mode.is_some_and(|mode| mode.contains(&format!("{} frames attached once", total / queues)));
    assert_eq!(attached, pacing == "top", "{name}: {mode:?}");
    let counted = &manifest.host["frames.workers"];
    assert!(counted.starts_with(&format!("sent {total},")), "{name}: {counted}");
    let counted = &manifest.host["frames.server"];
    assert!(counted.contains(&format!("received {total},")), "{name}: {counted}");
    if records == "none" {
        return assert_eq!(rows(dir), [], "{name}");
    }
    assert!(manifest.incidents.faults.is_empty(), "{name}: {:?}", manifest.incidents.faults);
    let (rows, mut next, mut last) = (rows(dir), BTreeMap::new(), 0);
    assert_eq!(rows.len(), total, "{name}");
    for (worker, seq, t_sent) in rows {
        let due = next.entry(worker).or_insert(0);
        assert_eq!(seq, *due, "{name}: of worker {worker}");
        assert!(t_sent >= last, "{name}: in the order in which they left");
        (*due, last) = (*due + 1, t_sent);
    }
    assert_eq!(next, (0..4).map(|worker| (worker, total as u32 / 4)).collect());
}

#[test]
fn a_run_of_attached_frames_has_a_row_for_each() {
    in_namespace(module_path!(), "a_run_of_attached_frames_has_a_row_for_each", || {
        cables(1500, "");
        if LIVE.open(1514).is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        run(&folder.path().join("once"), 1, "top", "full", 1);
        run(&folder.path().join("thrice"), 3, "top", "full", 1);
        run(&folder.path().join("none"), 3, "top", "none", 1);
        run(&folder.path().join("paced"), 1, "deadlines", "full", 1);
    });
}

#[test]
fn each_of_several_queues_has_its_own_attached() {
    in_namespace(module_path!(), "each_of_several_queues_has_its_own_attached", || {
        cables(1500, "numrxqueues 2 numtxqueues 2");
        if LIVE.or_skip(LIVE.try_open(1514, |plan| plan.queues = 2)).is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        run(&folder.path().join("queues"), 3, "top", "full", 2);
    });
}

/// What the device's interface hears of others does not keep a run alive.
#[test]
fn a_run_does_not_wait_for_frames_of_others() {
    in_namespace(module_path!(), "a_run_does_not_wait_for_frames_of_others", || {
        cables(1500, "");
        ip(&format!("addr add 10.9.0.1/24 dev {}", FOUR[0]));
        ip(&format!("neigh add 10.9.0.2 lladdr 02:00:00:00:00:99 dev {}", FOUR[0]));
        let (text, folder) = (
            format!(
                "workload.updates = 20\nworkload.bytes = \"256B\"\nschedule.offered = \"10Mbps\"\n[target]\nqueue = \"fifo\"\n\
                 [transport]\nkind = \"af_packet\"\ninterfaces = {FOUR:?}\nlinger = \"100ms\"\n"
            ),
            tempfile::tempdir().unwrap(),
        );
        let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let socket = UdpSocket::bind("10.9.0.1:0").expect("an address");
                let pause = Duration::from_millis(20);
                for _ in 0..HANG.as_millis() / pause.as_millis() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    socket.send_to(&[0; 40], "10.9.0.2:9").expect("a neighbour");
                    std::thread::sleep(pause);
                }
                panic!("the run does not end beside them");
            });
            let finished = experiment.execute(&folder.path().join("run"), 1, &AtomicBool::new(false), &|_, _| {});
            over.store(true, Ordering::Relaxed);
            finished.unwrap();
        });
        let manifest: Manifest =
            serde_json::from_slice(&std::fs::read(folder.path().join("run/manifest.json")).unwrap()).unwrap();
        assert!(manifest.counters.foreign > 0, "they were there: {:?}", manifest.counters);
    });
}
