//! `pktgen analyze` of captures, as pipelines call it: a run's own packets give the run's own numbers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pktgen_generator::pcap::{Form, Writer, WriterOptions};
use pktgen_generator::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
use pktgen_generator::wire::olaf::{Header, PORT, WORKER_PORT};

fn pktgen(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pktgen")).current_dir(folder).args(args).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines of `analyze --json` by metric and labels, as they were printed.
fn lines(folder: &Path, args: &[&str]) -> BTreeMap<String, String> {
    let output = pktgen(folder, &[&["analyze", "--json"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    stdout
        .lines()
        .map(|line| {
            let line = value(line);
            (format!("{} {}", line["metric"].as_str().expect("a name"), line["labels"]), line["value"].to_string())
        })
        .collect()
}

/// 9 workers in 3 clusters that offer half more than the link carries.
const EXPERIMENT: &str = r#"
name = "captured"
[workload]
clusters = 3
workers_per_cluster = 3
updates = 300
[schedule]
kind = "poisson"
offered = "60Gbps"
[topology]
rate = "40Gbps"
[capture]
pcap = true
"#;

fn run(folder: &Path, name: &str, sets: &[&str]) {
    fs::write(folder.join("x.toml"), EXPERIMENT).expect("writable");
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let output = pktgen(folder, &[&["replay", "x.toml", "--no-report", "--out", name][..], &sets].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Metrics that captures have and run dirs have not.
const OWN: [&str; 8] = [
    "captured",
    "captured_packets",
    "captured_bytes",
    "represented",
    "missing",
    "missing_share",
    "numbered",
    "numbers_missing",
];

/// Compares what both have; returns what only the run dir has.
fn same(ours: &BTreeMap<String, String>, theirs: &BTreeMap<String, String>) -> Vec<String> {
    for (key, value) in ours {
        let metric = key.split(' ').next().unwrap_or_default();
        if !OWN.contains(&metric) && metric != "numbers_missing_share" {
            assert_eq!(Some(value), theirs.get(key), "{key}");
        }
    }
    let missing = theirs.keys().filter(|key| !ours.contains_key(*key));
    let mut names: Vec<_> = missing.map(|key| key.split(' ').next().unwrap_or_default().to_owned()).collect();
    names.dedup();
    names
}

/// What only books, the server's gate and the ledger know; and rewards, which the reader of captures does not keep.
const ELSEWHERE: [&str; 27] = [
    "absorbed",
    "accepted",
    "balance_unknown",
    "device",
    "device_latency_max",
    "device_latency_mean",
    "device_latency_p50",
    "device_latency_p99",
    "downlink_bytes_per_delivered_update",
    "in_flight",
    "outranked",
    "reward_at",
    "reward_by_time",
    "reward_end",
    "reward_start",
    "subsumed",
    "sums_ok",
    "sums_wrong",
    "unaccounted",
    "withheld",
    "withheld_share",
    "dropped",
    "loss",
    "flow_never_delivered",
    "flows_never_delivered",
    "aom",
    "states",
];

#[test]
fn the_packets_of_a_run_give_the_numbers_of_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    // A queue that forwards and drops: every number that a capture has is the run's, down to the last digit.
    run(folder, "fifo", &["target.program=forward", "target.queue=fifo", "target.slots=8"]);
    let theirs = lines(folder, &["fifo"]);
    let files = ["fifo/capture.pcapng", "--sent", "fifo/sent.pcapng", "--forwards"];
    let ours = lines(folder, &files);
    assert!(
        theirs["loss {}"].parse::<f64>().expect("a share") > 0.05,
        "the run loses something: {}",
        theirs["loss {}"]
    );
    assert_eq!((&ours["loss {}"], &ours["dropped {}"]), (&theirs["loss {}"], &theirs["dropped {}"]));
    for key in [
        "aom_mean {\"flow\":\"cluster\"}",
        "aom_p99 {\"flow\":\"cluster\",\"id\":2}",
        "aom_peak_p99 {\"flow\":\"worker\",\"id\":7}",
        "aom_fairness {\"flow\":\"worker\"}",
        "host_latency_p99 {}",
        "throughput_bps {}",
        "elements_per_s {}",
        "duplicates {}",
    ] {
        assert!(ours.contains_key(key), "{key} is not in {:?}", ours.keys());
    }
    let only = same(&ours, &theirs);
    assert!(only.iter().all(|name| ELSEWHERE.contains(&name.as_str())), "{only:?}");
    // Packed, and cut behind the headers: the same.
    let sent = fs::read(folder.join("fifo/sent.pcapng")).expect("a capture");
    fs::write(folder.join("sent.zst"), zstd::encode_all(&sent[..], 1).expect("packed")).expect("writable");
    assert_eq!(lines(folder, &["fifo/capture.pcapng", "--sent", "sent.zst", "--forwards"]), ours);
    // From the server's side alone less is told, and nothing else.
    let alone = lines(folder, &["fifo/capture.pcapng"]);
    assert!(!alone.contains_key("loss {}") && !alone.contains_key("sent {}"));
    for key in ["received {}", "throughput_bps {}", "aggregation_mean {}", "elements_per_s {}"] {
        assert_eq!(alone[key], theirs[key], "{key}");
    }
}

#[test]
fn aggregates_are_counted_and_their_members_not_guessed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    run(folder, "olaf", &["target.program=olaf", "target.queue=olaf", "target.slots=8"]);
    let (theirs, ours) =
        (lines(folder, &["olaf"]), lines(folder, &["olaf/capture.pcapng", "--sent", "olaf/sent.pcapng"]));
    assert!(theirs["merged {}"].parse::<f64>().expect("a number") > 0.0);
    let only = same(&ours, &theirs);
    let by_worker = |name: &String| name.starts_with("aom");
    assert!(only.iter().all(|name| ELSEWHERE.contains(&name.as_str()) || by_worker(name)), "{only:?}");
    for key in ["aom_mean {\"flow\":\"cluster\"}", "merged {}", "aggregation_mean {}", "host_latency_mean {}"] {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
    assert!(!ours.keys().any(|key| key.starts_with("aom") && key.contains("worker")));
    // sent = in what arrived + subsumed + outranked + dropped + in flight.
    let number = |lines: &BTreeMap<String, String>, key: &str| lines[key].parse::<f64>().expect("a number");
    let gone = ["subsumed {}", "outranked {}", "dropped {}", "in_flight {}"]
        .map(|key| number(&theirs, key))
        .iter()
        .sum::<f64>();
    assert_eq!(number(&ours, "missing {}"), gone);
}

#[test]
fn shards_of_a_capture_join_and_others_read_the_tables() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    run(folder, "run", &["target.program=olaf", "target.queue=olaf"]);
    let files = ["run/capture.pcapng", "--sent", "run/sent.pcapng"];
    let whole = lines(folder, &files);
    for shard in ["1/2", "2/2"] {
        let dir = format!("part-{}", &shard[..1]);
        lines(folder, &[&files[..], &["--shard", shard, "--tables", &dir, "--run", "r1"]].concat());
    }
    let merged = pktgen(folder, &["merge", "part-1", "part-2", "-o", "all"]);
    assert!(merged.status.success(), "{}", text(&merged.stderr));
    assert_eq!(lines(folder, &["all"]), whole);
    for cluster in 0..3 {
        for side in ["sent", "received"] {
            let part = folder.join(format!("all/{side}/run=r1/cluster={cluster}/part-0.parquet"));
            assert!(part.is_file(), "{}", part.display());
        }
    }
    let half = pktgen(folder, &["merge", "part-1", "-o", "half"]);
    assert_eq!(half.status.code(), Some(2));
    assert!(text(&half.stderr).contains("2/2"), "{}", text(&half.stderr));
}

/// Most memory that a process had, in KiB, asked for until it ended.
fn peak_of(mut child: std::process::Child) -> (bool, u64) {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|kib| kib.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().expect("a child") {
            return (status.success(), peak);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A gigabyte in `make test`, ten in `make test-long`: the memory is the same.
#[test]
fn memory_stays_flat_however_large_a_capture_is() {
    let gigabytes: u64 = std::env::var("PKTGEN_CAPTURE_GB").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("large.pcap");
    let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcap)).expect("a file");
    let mut frame = vec![0xa5; 256];
    let packets = gigabytes * 1_000_000_000 / 272;
    for i in 0..packets {
        let (worker, seq) = ((i % 27) as u32, (i / 27) as u32);
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), 256).emit(&mut frame);
        let t = i as i64 * 51_200;
        let generation = t - 1_000_000 - (i.wrapping_mul(2_654_435_761) >> 12 & 0xf_ffff) as i64;
        let cluster = (worker / 3) as u16;
        let header =
            Header { flags: 0, cluster, count: 1, worker, seq, generation, attempt: 0, elements: 46, reward: 0.0 };
        header.emit_update(&mut frame[HEAD..]);
        writer.packet(0, t, &frame, 256).expect("a packet");
    }
    writer.finish().expect("a whole file");
    let out = fs::File::create(folder.path().join("out")).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(folder.path()).args(["-q", "analyze", "--json", "--memory", "32", "large.pcap"]);
    let (fine, peak_kib) = peak_of(command.stdout(out).spawn().expect("the binary runs"));
    let printed = fs::read_to_string(folder.path().join("out")).expect("metrics");
    assert!(fine && printed.contains(&format!("\"received\",\"unit\":\"packets\",\"value\":{packets}.0")), "{printed}");
    // A GB holds 3.7 million packets, and as many of four numbers of eight bytes.
    assert!(peak_kib > 0 && peak_kib < 400 << 10, "{peak_kib} KiB for {gigabytes} GB");
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    fs::write(folder.join("x.pcap"), b"no capture at all").expect("writable");
    fs::create_dir(folder.join("empty")).expect("writable");
    let refusals: [(&[&str], &str); 7] = [
        (&["x.pcap"], "neither pcap nor pcapng"),
        (&["x.pcap", "empty"], "empty is no capture"),
        (&["absent.pcap"], "absent.pcap"),
        (&["x.pcap", "--format", "olav"], "did you mean \"olaf\""),
        (&["x.pcap", "--offset", "soon"], "--offset soon"),
        (&["x.pcap", "--anchor", "nowhere"], "nowhere/manifest.json"),
        (&["x.pcap", "--shard", "1/2"], "--tables"),
    ];
    for (args, word) in refusals {
        let output = pktgen(folder, &[&["analyze"], args].concat());
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)) && said.contains(word), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
