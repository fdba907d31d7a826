//! Runs in real time in one process: balances close, sums are right, and the device acts exactly as the same objects do
//! in virtual time on the same frames at the same times.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pktgen_core::age::Sawtooth;
use pktgen_core::arrow::array::{Array, AsArray, PrimitiveArray, RecordBatch};
use pktgen_core::arrow::datatypes::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use pktgen_core::config::Document;
use pktgen_core::record::{Manifest, PacketId, RunState};
use pktgen_core::seed::Seed;
use pktgen_core::time::{NEVER, SECOND};
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::{Context, Outbox};
use pktgen_engine::target::device::Device;
use pktgen_realtime::driver::real_time::Progress;
use pktgen_realtime::live::View;
use pktgen_realtime::plan::prepare;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::frame::HEAD;
use pktgen_workload::workload;
use pktgen_workload::workload::build::Builder;

/// Returns an experiment that sends for a third of a second at three times the output's rate.
fn text(kind: &str, target: &str, endpoint: &str) -> String {
    format!(
        "name = \"real\"\n[workload]\nupdates = 400\n[schedule]\njitter = 0.3\noffered = \"60Mbps\"\n\
         [topology]\nrate = \"30Mbps\"\n[target]\n{target}\n[endpoint]\n{endpoint}\n\
         [transport]\nkind = \"{kind}\"\nlinger = \"100ms\"\n[capture]\nstates = true\n"
    )
}

/// Runs go one after the other: each has at least as many threads as the host has cores, and the tests depend on time.
static ONE: Mutex<()> = Mutex::new(());

fn run(text: &str, dir: &Path) -> Manifest {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let experiment = Experiment::open(all(), Document::parse(text, "test").unwrap()).unwrap();
    experiment.execute(dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
    serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap()
}

fn rows(dir: &Path, stream: &str) -> Vec<RecordBatch> {
    let file = File::open(dir.join(format!("{stream}.parquet"))).unwrap();
    ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect()
}

/// Returns time, packet, action and other packet of every row of the books.
fn books(dir: &Path) -> Vec<(i64, u64, u8, Option<u64>)> {
    let mut all = Vec::new();
    for batch in rows(dir, "books") {
        let t = batch.column_by_name("t_ps").unwrap().as_primitive::<Int64Type>();
        let packet = batch.column_by_name("packet_in").unwrap().as_primitive::<UInt64Type>();
        let action = batch.column_by_name("action").unwrap().as_primitive::<UInt8Type>();
        let other = batch.column_by_name("packet_out").unwrap().as_primitive::<UInt64Type>();
        for i in 0..batch.num_rows() {
            let out = (!other.is_null(i)).then(|| other.value(i));
            all.push((t.value(i), packet.value(i), action.value(i), out));
        }
    }
    all
}

/// Returns the ids of the sent packets, in order.
fn sent(dir: &Path) -> Vec<PacketId> {
    let mut all = Vec::new();
    for batch in rows(dir, "sent") {
        let worker = batch.column_by_name("worker").unwrap().as_primitive::<UInt32Type>();
        let seq = batch.column_by_name("seq").unwrap().as_primitive::<UInt32Type>();
        all.extend((0..batch.num_rows()).map(|i| PacketId::new(worker.value(i), seq.value(i), 0)));
    }
    all
}

/// Returns their departure times.
fn times(dir: &Path) -> Vec<i64> {
    let batches = rows(dir, "sent");
    let of =
        |batch: &RecordBatch| batch.column_by_name("t_sent_ps").unwrap().as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(of).collect()
}

/// Returns columns of times.
fn times_of<'a>(batch: &'a RecordBatch, names: [&str; 2]) -> [&'a PrimitiveArray<Int64Type>; 2] {
    names.map(|name| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>())
}

/// Returns the frames that the server of `dir` received, in order.
fn received(dir: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(&dir.join("capture.pcapng")).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next().unwrap() {
        assert_eq!(packet.len as usize, packet.bytes.len());
        frames.push(packet.bytes.to_vec());
    }
    frames
}

/// Rows of books: time, packet, action and other packet.
type Rows = Vec<(i64, u64, u8, Option<u64>)>;

/// Returns the books and the frames of a new device that receives the updates of `dir` in the order in which they were
/// sent, each at the time of its first row in the books of `dir`.
fn again(text: &str, dir: &Path) -> (Rows, Vec<Vec<u8>>) {
    let mut at: BTreeMap<u64, i64> = BTreeMap::new();
    for (t, packet, _, other) in books(dir) {
        at.entry(packet).or_insert(t);
        if let Some(other) = other {
            at.entry(other).or_insert(t);
        }
    }
    let mut document = Document::parse(text, "test").unwrap();
    let mut source = workload::open(&mut document, Seed(1)).unwrap().source;
    let mut parts = prepare(all(), Document::parse(text, "test").unwrap(), 1).unwrap().parts;
    let mut device: Device = parts.devices.iter_mut().find_map(Option::take).unwrap();
    let (mut pool, mut books, mut out, mut touched) =
        (Pool::new(parts.frame_bytes, 64), Books { node: 1, ..Default::default() }, Outbox::default(), Vec::new());
    let mut frames = Vec::new();
    let mut builder = Builder::new(&parts.facts.workers, false);
    for packet in sent(dir) {
        let update = *source.peek().unwrap();
        let buffer = pool.take();
        builder.next(source.as_mut(), &update, 0, &mut pool.bytes_mut(buffer)[..update.bytes as usize]);
        assert_eq!(packet, PacketId::new(update.worker, update.seq, 0));
        let (t, len, kind) = (at[&packet.0], update.bytes as u16, Kind::Update);
        let (worker, cluster, flow) = (update.worker, update.cluster, parts.facts.server);
        let frame = Frame { t, packet, buffer, worker, len, cluster, flow, head: HEAD as u8, kind };
        device
            .program
            .on_burst(&[frame], &mut Context::new(&mut pool, &mut books, &mut device.ports, &mut out, &mut touched));
        for (_, frame) in out.frames.drain(..) {
            frames.push(pool.frame(&frame).to_vec());
            pool.release(frame.buffer);
        }
    }
    device.ports.iter_mut().for_each(|port| port.advance(NEVER - 1, &mut pool, &mut books, &mut out));
    frames.extend(out.frames.iter().map(|(_, frame)| pool.frame(frame).to_vec()));
    let rows = books.rows.iter().map(|b| (b.t, b.packet_in.0, b.action as u8, b.packet_out.map(|p| p.0)));
    (rows.collect(), frames)
}

fn is_sound(kind: &str, manifest: &Manifest) {
    assert!(manifest.validity.is_valid(), "{kind}: {:?}", manifest.validity);
    let (balance, counters) = (&manifest.balance, &manifest.counters);
    assert_eq!((balance.unknown, balance.in_flight, counters.sums_wrong), (0, 0, 0));
    assert_eq!((counters.sums_ok, counters.acks_sent), (counters.packets_received, counters.packets_received));
    // Their number depends on how often the machine interrupts the run.
    assert!(counters.packets_received > 0 && manifest.host.contains_key("lateness"));
}

#[test]
fn the_device_does_on_wires_what_it_does_in_virtual_time() {
    for kind in ["ring", "udp"] {
        for target in ["program = \"forward\"\nqueue = \"fifo\"", "reward_threshold = 1.0"] {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("run");
            let text = text(kind, target, "").replace("states = true", "states = true\npcap = true");
            let manifest = run(&text, &dir);
            is_sound(kind, &manifest);
            assert_eq!((manifest.balance.generated, manifest.balance.sent), (10_800, 10_800));
            assert!(manifest.balance.dropped_total() > 100);
            let recorded = books(&dir);
            let (rows, frames) = again(&text, &dir);
            assert_eq!(rows, recorded, "{kind}, {target}");
            // Over UDP the kernel writes the headers; only the bytes after them are the device's.
            let head = if kind == "udp" { HEAD } else { 0 };
            let own = |frames: Vec<Vec<u8>>| frames.into_iter().map(|f| f[head..].to_vec()).collect::<Vec<_>>();
            assert!(own(frames) == own(received(&dir)), "{kind}, {target}: every byte that the server received");
            assert!(dir.join("lateness.hlog").exists());
            // Each frame is late because of the host or for other reasons; the latter have quantiles if there are any.
            let pacing = manifest.pacing.expect("an open loop with deadlines");
            assert!(pacing.frames == 10_800 && pacing.late_by_host <= pacing.frames, "{pacing:?}");
            assert_eq!(pacing.others_late_ns.is_some(), pacing.late_by_host < pacing.frames, "{pacing:?}");
        }
    }
}

#[test]
fn workers_react_on_wires() {
    let folder = tempfile::tempdir().unwrap();
    let control = run(
        &text("ring", "slots = 4\nreward_filter = false", "workers = \"transmission_control\"\ndelta_t = \"20ms\""),
        &folder.path().join("control"),
    );
    is_sound("ring", &control);
    let balance = &control.balance;
    assert!(balance.withheld > 1000 && balance.generated == balance.withheld + balance.sent, "{balance:?}");
    let again = run(
        &text("ring", "program = \"forward\"\nqueue = \"fifo\"", "workers = \"retransmit\"\ntimeout = \"400us\""),
        &folder.path().join("retransmit"),
    );
    is_sound("ring", &again);
    assert!(again.balance.retransmitted > 100, "{:?}", again.balance);
}

/// As in reports, a cluster ages up to its last generation, also if its workers withheld it: here all behind the first congested answer.
#[test]
fn the_live_mean_age_goes_on_to_withheld_generations() {
    let choices = vec![format!("\"{}\"", "0".repeat(400)); 27].join(", ");
    let endpoint = format!("workers = \"transmission_control\"\ndelta_t = \"100s\"\nchoices = [{choices}]");
    let text = text("ring", "slots = 4\nreward_filter = false", &endpoint);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    let view = Arc::new(View::default());
    let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap().watched_by(view.clone());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    experiment.execute(&dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
    drop(alone);
    let glance = view.look(&Progress { t: 100 * SECOND, over: true, ..Progress::default() }).unwrap();
    // The newest generation of each cluster, and the newest that left.
    let mut newest: BTreeMap<u16, [i64; 2]> = BTreeMap::new();
    for batch in rows(&dir, "sent") {
        let cluster = batch.column_by_name("cluster").unwrap().as_primitive::<UInt16Type>();
        let [generation, left] = times_of(&batch, ["t_gen_ps", "t_sent_ps"]);
        for i in 0..batch.num_rows() {
            let of = newest.entry(cluster.value(i)).or_default();
            let t = generation.value(i);
            *of = [of[0].max(t), if left.is_null(i) { of[1] } else { of[1].max(t) }];
        }
    }
    assert!(newest.values().any(|[due, left]| due > left), "{newest:?}");
    let mut ages: BTreeMap<u16, Sawtooth> = BTreeMap::new();
    for batch in rows(&dir, "received") {
        let cluster = batch.column_by_name("cluster").unwrap().as_primitive::<UInt16Type>();
        let [t, generation] = times_of(&batch, ["t_recv_ps", "newest_gen_ps"]);
        for i in 0..batch.num_rows() {
            let age = ages.entry(cluster.value(i)).or_default();
            // A view knows no earlier generation than that of the first arrival.
            if !age.started() {
                age.generated(generation.value(i));
            }
            age.delivered(t.value(i), generation.value(i));
        }
    }
    for (cluster, age) in &mut ages {
        age.advance(newest[cluster][0]);
        assert_eq!(glance.clusters[usize::from(*cluster)].age_mean_ps, age.mean(), "cluster {cluster}");
    }
}

#[test]
fn a_run_without_records_settles_nothing_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("ring", "", "").replace("states = true", "records = \"none\"");
    let manifest = run(&text, &folder.path().join("run"));
    assert!(manifest.validity.faults.iter().any(|fault| fault.code() == "not_settled"), "{:?}", manifest.validity);
    assert!(manifest.counters.packets_received > 0);
}

#[test]
fn what_real_time_cannot_do_is_refused() {
    let base = text("ring", "", "");
    for (change, part) in
        [("[capture]\ngoal = 3", "capture.goal"), ("[capture]\npcap = false\n[sweep]\nseeds = \"1\"", "")]
    {
        let text = base.replace("[capture]\nstates = true", change);
        let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
        match experiment.prepare(&experiment.runs[0]) {
            Err(error) => assert!(!part.is_empty() && error.to_string().contains(part), "{error}"),
            Ok(_) => assert!(part.is_empty(), "{change}"),
        }
    }
    for (kind, more, part) in [
        ("xdp_live", "late = \"abort\"\nlate_limit = \"10us\"", "in quanta of 50us"),
        ("xdp_live", "late = \"abort\"\nlate_limit = \"1ms\"", ""),
        // For a device alone it does not matter: the frames it reads may have been sent elsewhere.
        ("pcap", "[endpoint]\nworkers = \"transmission_control\"", ""),
        ("af_xdp", "[workload]\nbytes = \"6000B\"", "which carries 3840"),
    ] {
        let text = format!(
            "name = \"x\"\n[schedule]\noffered = \"60Mbps\"\n[topology]\nrate = \"30Mbps\"\n[transport]\nkind = \"{kind}\"\n{more}\n"
        );
        let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
        match experiment.prepare(&experiment.runs[0]) {
            Err(error) => assert!(!part.is_empty() && error.to_string().contains(part), "{error}"),
            Ok(_) => assert!(part.is_empty(), "{kind}, {more}"),
        }
    }
    let multi = base.replace("[topology]\nrate = \"30Mbps\"", "[topology]\nkind = \"multi_hop\"");
    let experiment = Experiment::open(all(), Document::parse(&multi, "test").unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = experiment.execute(&folder.path().join("run"), 1, &AtomicBool::new(false), &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains("one device"), "{error}");
    let files = text("pcap", "", "workers = \"transmission_control\"");
    let experiment = Experiment::open(all(), Document::parse(&files, "test").unwrap()).unwrap();
    let error = experiment.execute(&folder.path().join("files"), 1, &AtomicBool::new(false), &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains("nothing comes back from files"), "{error}");
}

#[test]
fn a_run_that_is_aborted_ends_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    for (number, endpoint) in
        ["workers = \"open_loop\"", "workers = \"retransmit\"\ntimeout = \"5ms\""].iter().enumerate()
    {
        // No host wakes within a nanosecond of every deadline.
        let text = text("ring", "", endpoint).replace("linger", "late = \"abort\"\nlate_limit = \"1ns\"\nlinger");
        let manifest = run(&text, &folder.path().join(number.to_string()));
        let verdict = &manifest.validity;
        assert!(verdict.faults.iter().any(|fault| fault.code() == "too_late_aborted"), "{verdict:?}");
        assert!(manifest.balance.sent < 10_800 && manifest.balance.unknown == 0, "{:?}", manifest.balance);
    }
}

/// With a thread per queue, the same frames are sent as on one queue, the records are sorted by time and keep each
/// worker's order, and each queue has its share; the shares add up to the whole.
#[test]
fn queues_divide_the_work_and_nothing_else() {
    // A queue that drops nothing: arrivals do not depend on the sending times.
    const EVERYTHING: &str = "program = \"forward\"\nqueue = \"fifo\"\nslots = 16384";
    // Longer than a busy host interrupts a thread.
    let patient = |queues: u32| {
        let keys = format!("queues = {queues}\nlinger = \"2s\"");
        text("ring", EVERYTHING, "").replace("linger = \"100ms\"", &keys)
    };
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    run(&patient(1), &one);
    for queues in [2, 3] {
        let several = folder.path().join(queues.to_string());
        let manifest = run(&patient(queues), &several);
        is_sound("ring", &manifest);
        // The sort is stable: each worker's rows stay in order.
        let by_worker = |dir: &Path| {
            let mut all = sent(dir);
            all.sort_by_key(|packet| packet.worker());
            all
        };
        assert_eq!(by_worker(&several), by_worker(&one));
        assert!(times(&several).is_sorted(), "rows are written by the time at which frames left");
        let of = |end: &str| manifest.queues.iter().filter(|queue| queue.end == end).cloned().collect::<Vec<_>>();
        let workers = of("workers");
        assert_eq!(workers.iter().map(|queue| queue.queue).collect::<Vec<_>>(), (0..queues).collect::<Vec<_>>());
        // 27 workers, assigned to the queues in turn.
        let shares: Vec<_> =
            (0..queues).map(|queue| (0..27).filter(|worker| worker % queues == queue).count() as u64 * 400).collect();
        assert_eq!(workers.iter().map(|queue| queue.sent).collect::<Vec<_>>(), shares);
        assert!(workers.iter().all(|queue| queue.late_ns.is_some_and(|[mid, most, max]| mid <= most && most <= max)));
        // A queue of the ring is a cable of its own.
        assert_eq!(of("device.down").iter().map(|queue| queue.received).collect::<Vec<_>>(), shares);
        let told: u64 = of("server").iter().map(|queue| queue.received).sum();
        assert_eq!((told, manifest.counters.packets_received), (10_800, 10_800));
        assert!(manifest.queues.iter().all(|queue| queue.dropped == 0), "{:?}", manifest.queues);
        assert!(manifest.host["frames.workers"].starts_with("sent 10800,"), "{}", manifest.host["frames.workers"]);
    }
}

/// Frames that are skipped because they are late also have a place in time: rows of all queues stay in one order, and the balance closes.
#[test]
fn queues_that_skip_what_is_late_close_their_balance() {
    let keys = "queues = 3\nlate = \"skip\"\nlate_limit = \"1us\"\nlinger = \"2s\"";
    let folder = tempfile::tempdir().unwrap();
    let manifest = run(&text("ring", "", "").replace("linger = \"100ms\"", keys), &folder.path().join("run"));
    let balance = &manifest.balance;
    assert_eq!((balance.unknown, balance.in_flight), (0, 0), "{balance:?}");
    assert_eq!(manifest.counters.sums_ok, manifest.counters.packets_received);
    assert!(balance.sent < 10_800, "a host that is never 1 us late: {balance:?}");
    assert!(!manifest.validity.why().contains("vanished"), "{:?}", manifest.validity);
}

/// Workers that react are one endpoint: one thread sends, and every role still receives on all its queues.
#[test]
fn workers_that_react_send_on_one_queue() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("ring", "", "workers = \"retransmit\"\ntimeout = \"5ms\"").replace("linger", "queues = 2\nlinger");
    let manifest = run(&text, &folder.path().join("run"));
    assert!(manifest.balance.unknown == 0 && manifest.balance.in_flight == 0, "{:?}", manifest.balance);
    assert!(manifest.host["wire.workers"].contains("sends on this one"), "{}", manifest.host["wire.workers"]);
    let device: Vec<_> = manifest.queues.iter().filter(|queue| queue.end == "device.down").collect();
    assert!(device.len() == 2 && device[1].received == 0, "{device:?}");
    let said = manifest
        .validity
        .notes
        .iter()
        .any(|note| note.to_string().contains("queue 0 of the 2 of device.down received all"));
    assert!(said, "{:?}", manifest.validity);
}

#[test]
fn the_last_update_of_a_slow_run_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name = \"slow\"\n[workload]\nclusters = 1\nworkers_per_cluster = 1\nupdates = 4\n[schedule]\nperiod = \"300ms\"\n\
        [topology]\nrate = \"1Mbps\"\n[transport]\nkind = \"ring\"\nlinger = \"100ms\"\n";
    let manifest = run(text, &folder.path().join("run"));
    assert!(manifest.validity.is_valid(), "{:?}", manifest.validity);
    assert_eq!((manifest.balance.sent, manifest.balance.delivered_alone), (4, 4));
}

#[test]
fn whoever_stops_a_run_need_not_wait_for_its_end() {
    for endpoint in ["workers = \"open_loop\"", "workers = \"retransmit\"\ntimeout = \"5ms\""] {
        let folder = tempfile::tempdir().unwrap();
        let text = text("ring", "", endpoint).replace("updates = 400", "updates = 400\nrepeat = 1000");
        let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
        let stop = AtomicBool::new(false);
        // Requests the end as soon as some frames were sent.
        let asked = |_: usize, progress: Progress| stop.store(progress.sent > 100, Ordering::Relaxed);
        let finished = experiment.execute(&folder.path().join("run"), 1, &stop, &asked).unwrap();
        assert_eq!(finished[0].state, RunState::Interrupted);
        // Of 400,000 updates of each of 27 workers.
        let sent = finished[0].balance.sent;
        assert!((100..5_400_000).contains(&sent), "{endpoint}: {sent}");
    }
}

/// Between the runs of a sweep it is that of the end of the run before.
#[test]
fn progress_between_runs_has_the_time_of_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("ring", "", "workers = \"open_loop\"").replace("updates = 400", "updates = 40");
    let text = text + "[sweep]\nseeds = \"1..2\"\n";
    let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
    let told = Mutex::new(Vec::new());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let hear = |runs: usize, progress: Progress| told.lock().unwrap().push((runs, progress));
    let finished = experiment.execute(&folder.path().join("runs"), 1, &AtomicBool::new(false), &hear).unwrap();
    drop(alone);
    let told = told.into_inner().unwrap();
    let mut sent = 0;
    for (number, run) in finished.iter().enumerate() {
        let next = told.iter().position(|(runs, _)| *runs > number).unwrap();
        let (end, between) = (told[next - 1].1, told[next].1);
        assert!(end.over && end.t > 0 && end.sent_before == sent, "{end:?}");
        sent += run.balance.sent;
        assert_eq!(between, Progress { sent, ..end });
    }
    assert_eq!(finished.len(), 2);
}

/// What observers see of a run ends when the next one of a sweep begins, which may be in virtual time.
#[test]
fn a_run_in_virtual_time_is_not_shown_as_the_run_before() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("ring", "", "workers = \"open_loop\"").replace("updates = 400", "updates = 40");
    let variants =
        "[[sweep.variants]]\nname = \"wire\"\n[[sweep.variants]]\nname = \"twin\"\ntransport.kind = \"virtual\"\n";
    let view = Arc::new(View::default());
    let experiment = Experiment::open(all(), Document::parse(&(text + variants), "test").unwrap()).unwrap();
    let experiment = experiment.watched_by(view.clone());
    let seen = Mutex::new(Vec::new());
    let hear = |runs: usize, progress: Progress| {
        let shown = view.look(&progress).map(|glance| (glance.name, progress.over));
        seen.lock().unwrap().push((runs, shown));
    };
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    experiment.execute(&folder.path().join("runs"), 1, &AtomicBool::new(false), &hear).unwrap();
    drop(alone);
    let seen = seen.into_inner().unwrap();
    let over = seen.iter().position(|(runs, _)| *runs == 1).unwrap();
    assert_eq!(seen[over].1, Some(("wire,seed=1".to_owned(), true)), "the end, until the next run begins");
    let later = &seen[over + 1..];
    assert!(later.len() > 1 && later.iter().all(|(_, shown)| shown.is_none()), "{later:?}");
}

/// All workers are at the end of one cable: an answer for a cluster comes once, and all of its workers hear it.
#[test]
fn an_answer_for_a_cluster_is_heard_by_all_of_it() {
    let text = "name = \"group\"\nworkload = { clusters = 1, workers_per_cluster = 3, updates = 20, bytes = \"256B\" }\n\
        schedule = { kind = \"constant\", period = \"10ms\", jitter = 0.3 }\ntopology = { kind = \"star\", rate = \"1Gbps\" }\n\
        target = { program = \"olaf\", queue = \"olaf\" }\nendpoint = { workers = \"transmission_control\" }\n\
        transport = { kind = \"ring\" }\n";
    let folder = tempfile::tempdir().unwrap();
    let counters = run(text, &folder.path().join("run")).counters;
    assert!(counters.acks_sent > 0 && counters.acks_received == counters.acks_sent, "{counters:?}");
}
