//! Trio-ML as a whole, in virtual time: engines in a hierarchy and alone agree, jobs do not disturb each other,
//! stragglers are given up in time, and a scaled run keeps the times of the whole one.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pktgen_core::arrow::array::{Array, AsArray, RecordBatch};
use pktgen_core::arrow::datatypes::{Int64Type, UInt16Type, UInt32Type};
use pktgen_core::config::Document;
use pktgen_core::record::{Manifest, Note};
use pktgen_core::time::MS;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_trio_ml::format::{Header, values};
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::frame::HEAD;

/// Returns an experiment of `jobs` jobs of `workers` workers each, with the further settings `more`.
fn text(jobs: u32, workers: u32, engines: u32, more: &str) -> String {
    format!(
        "name = \"t\"\n[topology]\nkind = \"rack\"\nengines = {engines}\n[endpoint]\nworkers = \"trio_ml\"\nwindow = 64\n\
         [capture]\npcap = true\n[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = 20000\nelements = 100\n\
         jobs = {jobs}\nworkers = {workers}\niterations = 3\ncompute = \"20ms\"\ncompute_jitter = 0.2\n{more}"
    )
}

fn run(text: &str, dir: &Path) -> Manifest {
    let experiment = Experiment::open(all(), Document::parse(text, "test").unwrap()).unwrap();
    experiment.execute(dir, 1, &AtomicBool::new(false), &|_, _| {}).unwrap();
    serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap()
}

fn is_sound(manifest: &Manifest) {
    let (balance, counters) = (&manifest.balance, &manifest.counters);
    assert!(manifest.validity.is_valid(), "{:?}", manifest.validity);
    assert_eq!((balance.unknown, balance.in_flight, counters.sums_wrong, counters.clipped), (0, 0, 0, 0));
    assert_eq!(counters.sums_ok, counters.packets_received);
}

/// Returns the gradients of every result with all sources, by job, generation and block.
fn full_results(dir: &Path, workers: u8) -> BTreeMap<(u8, u16, u32), Vec<u8>> {
    let mut reader = Reader::open(&dir.join("capture.pcapng")).unwrap();
    let mut results = BTreeMap::new();
    while let Some(packet) = reader.next().unwrap() {
        let payload = &packet.bytes[HEAD..];
        let header = Header::parse(payload).unwrap();
        if header.sources == workers {
            assert!(!header.degraded && header.age_op == 0);
            results.insert((header.job, header.generation, header.block), values(payload, &header).to_vec());
        }
    }
    results
}

#[test]
fn engines_in_a_hierarchy_and_alone_agree() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for engines in [1, 2, 3] {
        let dir = folder.path().join(engines.to_string());
        is_sound(&run(&text(1, 6, engines, ""), &dir));
        all.push(full_results(&dir, 6));
    }
    assert_eq!(all[0].len(), 3 * 200);
    assert!(all[0] == all[1] && all[0] == all[2]);
}

#[test]
fn jobs_side_by_side_have_the_results_that_they_have_alone() {
    let folder = tempfile::tempdir().unwrap();
    let stragglers = "straggler_probability = 0.3\nstragglers = \"each\"\n";
    let (alone, three) = (folder.path().join("alone"), folder.path().join("three"));
    is_sound(&run(&text(1, 4, 2, ""), &alone));
    let manifest = run(&text(3, 4, 2, stragglers), &three);
    is_sound(&manifest);
    assert!(manifest.counters.device["degraded"] > 100, "{:?}", manifest.counters.device);
    let (alone, three) = (full_results(&alone, 4), full_results(&three, 4));
    let shared: Vec<_> = three.iter().filter(|(key, _)| key.0 == 0).collect();
    assert!(shared.len() > 20);
    assert!(shared.iter().all(|(key, sums)| alone[*key] == **sums));
}

/// A frame with one gradient has 58 bytes and is padded to the 60 of Ethernet; those around it are not.
#[test]
fn results_have_their_length_on_the_cable() {
    let folder = tempfile::tempdir().unwrap();
    let lengths = |name: &str, more: &str| {
        let dir = folder.path().join(name);
        let text = text(1, 3, 1, more).replace("parameters = 20000", "parameters = 301");
        let manifest = run(&text, &dir);
        is_sound(&manifest);
        let mut received = Vec::new();
        for batch in rows(&dir, "received") {
            received.extend(batch.column_by_name("bytes").unwrap().as_primitive::<UInt32Type>().values());
        }
        assert_eq!(manifest.counters.bytes_received, received.iter().copied().map(u64::from).sum::<u64>(), "{name}");
        let mut reader = Reader::open(&dir.join("capture.pcapng")).unwrap();
        let mut captured = Vec::new();
        while let Some(packet) = reader.next().unwrap() {
            assert_eq!(packet.bytes.len(), packet.len as usize);
            captured.push(packet.len);
        }
        [received, captured].map(|mut all| {
            all.sort_unstable();
            all
        })
    };
    let results = [vec![60; 3], vec![454; 9]].concat();
    assert_eq!(lengths("virtual", ""), [results.clone(), results.clone()]);
    // No block is old because a host was busy.
    let ring = "[target]\ntimeout = \"250ms\"\n[transport]\nkind = \"ring\"\n";
    assert_eq!(lengths("ring", ring), [results.clone(), results]);
}

#[test]
fn two_hundred_and_fifty_five_sources() {
    let folder = tempfile::tempdir().unwrap();
    for engines in [1, 3] {
        let dir = folder.path().join(engines.to_string());
        is_sound(&run(&text(1, 255, engines, ""), &dir));
        assert_eq!(full_results(&dir, 255).len(), 3 * 200);
    }
    let too_many = Experiment::open(all(), Document::parse(&text(1, 256, 1, ""), "test").unwrap()).unwrap();
    let message = too_many.prepare(&too_many.runs[0]).err().unwrap().to_string();
    assert!(message.contains("workload.workers") && message.contains("255"), "{message}");
}

fn rows(dir: &Path, stream: &str) -> Vec<RecordBatch> {
    let file = File::open(dir.join(format!("{stream}.parquet"))).unwrap();
    ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect()
}

/// Returns, for every degraded result, the time from sending to the partial result, and its number of sources.
fn recoveries(dir: &Path) -> Vec<(i64, u16)> {
    let mut all = Vec::new();
    for batch in rows(dir, "results") {
        let received = batch.column_by_name("t_recv_ps").unwrap().as_primitive::<Int64Type>();
        let sent = batch.column_by_name("t_sent_ps").unwrap().as_primitive::<Int64Type>();
        let count = batch.column_by_name("count").unwrap().as_primitive::<UInt16Type>();
        let degraded = batch.column_by_name("degraded").unwrap().as_boolean();
        for i in (0..batch.num_rows()).filter(|i| degraded.value(*i) && !sent.is_null(*i)) {
            all.push((received.value(i) - sent.value(i), count.value(i)));
        }
    }
    all
}

/// Figure 14: recovery takes (1, 2] times the timeout, plus the unloaded time of a packet (two links and the chip).
#[test]
fn servers_recover_within_twice_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/trio/figure14.toml");
    let flags = ["sweep.seeds=1..5".to_owned()];
    let experiment = Experiment::open(all(), Document::load(&config, &flags).unwrap()).unwrap();
    for finished in experiment.execute(&folder.path().join("out"), 2, &AtomicBool::new(false), &|_, _| {}).unwrap() {
        assert!(finished.validity.is_valid(), "{:?}", finished.validity);
        let timeout: i64 = finished.labels["target.timeout"].trim_end_matches("ms").parse::<i64>().unwrap() * MS;
        let recoveries = recoveries(&finished.dir);
        assert_eq!(recoveries.len(), 3 * 20 * 10, "three servers, twenty packets, ten times");
        for (took, sources) in recoveries {
            assert!(timeout < took && took <= 2 * timeout + MS / 2 && sources == 3, "{took} ps, {sources} sources");
        }
    }
}

/// Mean over workers of an iteration's time, in ms.
fn iteration_ms(manifest: &Manifest, dir: &Path) -> f64 {
    let (mut last, mut workers) = (BTreeMap::new(), 0);
    for batch in rows(dir, "iterations") {
        let worker = batch.column_by_name("worker").unwrap().as_primitive::<UInt32Type>();
        let end = batch.column_by_name("t_end_ps").unwrap().as_primitive::<Int64Type>();
        for i in 0..batch.num_rows() {
            workers += usize::from(last.insert(worker.value(i), end.value(i)).is_none());
        }
    }
    let n = f64::from(manifest.training.as_ref().unwrap().iterations);
    last.values().map(|end| *end as f64 / n).sum::<f64>() / workers as f64 / MS as f64
}

/// Scaling model, rates and window together keeps times: figure13.toml relies on it.
#[test]
fn a_hundredth_in_size_takes_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let scaled = |name: &str, scale: f64, rate: &str, fabric: &str, window: u32, probability: f64| {
        let text = format!(
            "name = \"t\"\n[topology]\nkind = \"rack\"\nengines = 2\nhost_rate = \"{rate}\"\nfabric_rate = \"{fabric}\"\n\
             [target]\nchip = \"none\"\n[endpoint]\nworkers = \"trio_ml\"\nwindow = {window}\n[capture]\nrecords = \"none\"\n\
             [workload]\nkind = \"dense\"\nmodel = \"resnet50\"\nscale = {scale}\niterations = 6\ncompute = \"100ms\"\n\
             straggler_probability = {probability}\n"
        );
        let dir = folder.path().join(name);
        let manifest = run(&text, &dir);
        is_sound(&manifest);
        iteration_ms(&manifest, &dir)
    };
    for probability in [0.0, 0.5] {
        let name = |size: &str| format!("{size}-{probability}");
        let whole = scaled(&name("whole"), 1.0, "100Gbps", "400Gbps", 4095, probability);
        let small = scaled(&name("small"), 0.01, "1Gbps", "4Gbps", 41, probability);
        assert!((small / whole - 1.0).abs() < 0.03, "{small} ms beside {whole} ms at p = {probability}");
    }
}

/// A device would drop every packet with more gradients than a block has there.
#[test]
fn packets_beyond_a_block_are_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let text = text(1, 4, 1, "[target]\nblock_grad_max = 99\n");
    let experiment = Experiment::open(all(), Document::parse(&text, "test").unwrap()).unwrap();
    let refused = experiment.execute(&folder.path().join("run"), 1, &AtomicBool::new(false), &|_, _| {}).unwrap_err();
    let why = refused.to_string();
    let parts = ["workload.elements", "100", "target.block_grad_max = 99"];
    assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    is_sound(&run(&text.replace("99", "100"), &folder.path().join("fits")));
}

/// Without mitigation no block ages, so one that finds no room is never complete. With it, a run goes on, and notes it.
#[test]
fn windows_beyond_the_room_are_refused_where_nothing_ages() {
    let folder = tempfile::tempdir().unwrap();
    let text = text(1, 4, 1, "[target]\nblock_cnt_max = 8\nmitigation = false\n");
    let refusal = |text: &str| {
        let experiment = Experiment::open(all(), Document::parse(text, "test").unwrap()).unwrap();
        experiment.prepare(&experiment.runs[0]).err().map(|why| why.to_string())
    };
    let why = refusal(&text).unwrap();
    assert!(why.contains("target.block_cnt_max = 8") && why.contains("endpoint.window"), "{why}");
    assert_eq!(refusal(&text.replace("mitigation = false", "mitigation = true")), None);
    let waits = run(&text.replace("block_cnt_max = 8", "block_cnt_max = 64"), &folder.path().join("fits"));
    is_sound(&waits);
    assert_eq!(waits.training.unwrap().timeout_ps, None);
}

/// Late partial results of the lower engines must not exclude a block that others wait for from the top table, and
/// removed sources must not leave a block without any contributor. Otherwise all workers would wait for ever.
#[test]
fn no_block_is_lost_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let stragglers = "straggler_probability = 0.4\nstragglers = \"each\"\n";
    let small = format!("{stragglers}[target]\nblock_cnt_max = 64\n");
    let removing = format!("{stragglers}[target]\nremove_stragglers = true\nstraggler_interval = \"20ms\"\n");
    let again = format!("{stragglers}[target]\nblock_cnt_max = 8\n");
    for (number, (more, retransmit)) in
        [(small, ""), (removing, ""), (again, "retransmit = \"50ms\"\n")].iter().enumerate()
    {
        for seed in 1..4 {
            let dir = folder.path().join(format!("{number}-{seed}"));
            let text = text(1, 6, 2, more).replace("window = 64\n", &format!("window = 64\n{retransmit}"));
            let manifest = run(&text.replace("name = \"t\"", &format!("name = \"t\"\nseed = {seed}")), &dir);
            let (balance, counters) = (&manifest.balance, &manifest.counters);
            assert!(manifest.validity.is_valid(), "{number}, seed {seed}: {:?}", manifest.validity);
            assert_eq!((balance.unknown, counters.sums_wrong), (0, 0));
            assert_eq!(balance.retransmitted > 0, !retransmit.is_empty(), "{balance:?}");
        }
    }
}

/// Each packet of a block sets the REF flag of its record: those that come again within an interval of the timers keep it from ageing.
#[test]
fn early_retransmissions_are_noted_and_exhausted_attempts_reported() {
    let folder = tempfile::tempdir().unwrap();
    let lossy = text(1, 3, 1, "[transport]\nfault_loss = 1.0\nfault_at = \"down\"\n");
    let lossy = lossy.replace("parameters = 20000", "parameters = 500");
    for (retransmit, is_early) in [("5ms", true), ("19ms", true), ("20ms", false)] {
        let text = lossy.replace("window = 64\n", &format!("window = 64\nretransmit = \"{retransmit}\"\n"));
        let validity = run(&text, &folder.path().join(retransmit)).validity;
        let noted = validity.notes.iter().any(|note| matches!(note, Note::EarlyRetransmission { .. }));
        assert_eq!(noted, is_early, "{retransmit}: {:?}", validity.notes);
        let faults: String = validity.faults.iter().map(ToString::to_string).collect();
        assert!(
            faults.contains("3 of them have sent a block again 127 times, the most: raise"),
            "{retransmit}: {faults}"
        );
        assert!(!faults.contains("endpoint.retransmit sends again"), "{retransmit}: {faults}");
    }
    let faults = run(&lossy, &folder.path().join("never")).validity.faults;
    assert!(faults.iter().any(|fault| fault.to_string().contains("endpoint.retransmit sends again")), "{faults:?}");
}

/// With tombstones, the device drops what is sent again for a finished block, so a lost result never comes again.
#[test]
fn retransmissions_of_finished_blocks_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let lossy = "[transport]\nfault_loss = 0.1\nfault_at = \"down\"\n";
    for (number, (tombstones, retransmit, faults, noted)) in [
        (true, "retransmit = \"50ms\"\n", lossy, true),
        (true, "retransmit = \"50ms\"\n", "", true),
        (true, "", "", false),
        (false, "retransmit = \"50ms\"\n", lossy, false),
    ]
    .iter()
    .enumerate()
    {
        let text = text(1, 2, 1, &format!("[target]\ntombstones = {tombstones}\n{faults}"));
        let text = text.replace("window = 64\n", &format!("window = 64\n{retransmit}"));
        let validity = run(&text, &folder.path().join(number.to_string())).validity;
        let is_noted = validity.notes.iter().any(|note| note.code() == "final_results");
        assert_eq!((is_noted, validity.is_valid()), (*noted, number != 0), "{number}: {validity:?}");
        let unfinished = validity.faults.iter().find(|fault| fault.code() == "unfinished");
        assert!(unfinished.is_none_or(|fault| fault.to_string().contains("target.tombstones")), "{validity:?}");
    }
}

/// Results of the engines come to the device above at each retransmission, and it waits twice as long as they do.
#[test]
fn early_retransmissions_are_those_within_the_longest_timer() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (retransmit, more, early)) in [
        ("20ms", "", Some("target.top_timeout")),
        ("39ms", "", Some("target.top_timeout")),
        ("40ms", "", None),
        ("20ms", "[target]\ntop_timeout = \"10ms\"\n", None),
        ("19ms", "[target]\ntop_timeout = \"10ms\"\n", Some("target.timeout")),
        ("1ms", "[target]\nmitigation = false\n", None),
    ]
    .iter()
    .enumerate()
    {
        let retransmit = format!("window = 64\nretransmit = \"{retransmit}\"\n");
        let text = text(1, 2, 2, more).replace("window = 64\n", &retransmit);
        let validity = run(&text, &folder.path().join(number.to_string())).validity;
        let noted = validity.notes.iter().find_map(|note| match note {
            Note::EarlyRetransmission { key, .. } => Some(key.as_str()),
            _ => None,
        });
        assert_eq!(noted, *early, "{number}: {:?}", validity.notes);
    }
}

/// A link's copy of a contribution may come after the result of its block, when retransmissions open another record.
#[test]
fn copies_of_links_are_in_no_sum() {
    let folder = tempfile::tempdir().unwrap();
    for engines in [1, 2] {
        let text = text(1, 6, engines, "[transport]\nfault_duplicate = 0.1\n");
        let text = text.replace("window = 64\n", "window = 64\nretransmit = \"1ms\"\n");
        let manifest = run(&text, &folder.path().join(engines.to_string()));
        let (balance, counters) = (&manifest.balance, &manifest.counters);
        assert!(manifest.validity.is_valid(), "{engines} engines: {:?}", manifest.validity);
        assert_eq!((balance.unknown, counters.sums_wrong), (0, 0));
        assert!(balance.retransmitted > 0 && counters.device["duplicates"] > 0, "{balance:?}");
    }
}

/// Each retransmission of a block whose result was lost opens another record.
#[test]
fn contributions_to_results_that_no_worker_has_are_lost() {
    let folder = tempfile::tempdir().unwrap();
    let lossy = text(1, 1, 1, "[transport]\nfault_loss = 0.2\nfault_at = \"down\"\n");
    let lossy = lossy.replace("window = 64\n", "window = 64\nretransmit = \"50ms\"\n");
    let whole = run(&lossy, &folder.path().join("whole"));
    is_sound(&whole);
    let balance = &whole.balance;
    assert!(balance.retransmitted > 0, "{balance:?}");
    assert_eq!((balance.delivered_alone, balance.dropped["fault"]), (600, balance.retransmitted));
    // A run that was cut off may have copies under way.
    let cut = lossy.replace("pcap = true\n", "pcap = true\nuntil = \"40ms\"\n");
    let balance = run(&cut, &folder.path().join("cut")).balance;
    assert!(balance.in_flight > 0 && balance.dropped.is_empty(), "{balance:?}");
    // Results that never left the device: a window of them.
    let balance = run(&text(1, 1, 1, "[target]\nbypass_slots = 0\n"), &folder.path().join("full")).balance;
    assert_eq!((balance.dropped["bypass_full"], balance.in_flight), (64, 0));
}
