//! `pktgen analyze` on captures, as pipelines call it: the captured packets of a run give the same numbers as the run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::wired::{is_whole, manifest};
use crate::support::{peak_kib, pktgen, text};
use pktgen_testing::undisturbed;
use pktgen_wire::pcap::{Form, Precision, Reader, Writer, WriterOptions};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
use pktgen_wire::wire::update::{Header, PORT, WORKER_PORT};

/// Returns the lines of `analyze --json` by metric and labels, as printed.
fn lines(folder: &Path, args: &[&str]) -> BTreeMap<String, String> {
    let output = pktgen(folder, &[&["analyze", "--json"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    parsed(&text(&output.stdout))
}

fn parsed(stdout: &str) -> BTreeMap<String, String> {
    let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    stdout
        .lines()
        .map(|line| {
            let line = value(line);
            (format!("{} {}", line["metric"].as_str().expect("a name"), line["labels"]), line["value"].to_string())
        })
        .collect()
}

/// 9 workers in 3 clusters that offer 1.5 times the capacity of the link.
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

/// Metrics of captures that run dirs lack.
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

/// Compares the metrics that both have; returns those that only the run dir has.
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

/// Metrics from books, the server's gate and the ledger only; and rewards, which the reader of captures does not keep.
const ELSEWHERE: [&str; 29] = [
    "absorbed",
    "accepted",
    "aggregated",
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
    "unrepresented",
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
    // A queue that forwards and drops: every number of a capture equals the run's, to the last digit.
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
    // Compressed, and truncated after the headers: the same result.
    let sent = fs::read(folder.join("fifo/sent.pcapng")).expect("a capture");
    fs::write(folder.join("sent.zst"), zstd::encode_all(&sent[..], 1).expect("packed")).expect("writable");
    assert_eq!(lines(folder, &["fifo/capture.pcapng", "--sent", "sent.zst", "--forwards"]), ours);
    // The server's side alone gives fewer metrics and no other ones.
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
    // sent = members of received packets + subsumed + outranked + dropped + in flight.
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
    let clocks = pktgen(folder, &["merge", "part-1", "part-2", "-o", "clocks", "--clock-error", "1us"]);
    let said = text(&clocks.stderr);
    assert!(clocks.status.code() == Some(2) && said.contains("--clock-error is for parts of a run"), "{said}");
    // A changed file is accepted only on request.
    let sides = fs::read_dir(folder.join("part-1/received/run=r1")).expect("clusters");
    let cluster = sides.map(|entry| entry.expect("a folder").path()).next().expect("a cluster");
    let (part, kept) = (cluster.join("part-0.parquet"), cluster.join("kept"));
    fs::rename(&part, &kept).expect("movable");
    fs::write(&part, [fs::read(&kept).expect("readable"), vec![0]].concat()).expect("writable");
    fs::remove_file(&kept).expect("removable");
    let merge = |flags: &[&str]| pktgen(folder, &[&["merge", "part-1", "part-2", "-o", "changed"], flags].concat());
    let refused = merge(&[]);
    assert!(!refused.status.success() && !folder.join("changed").exists(), "{}", text(&refused.stderr));
    let merged = merge(&["--no-verify"]);
    assert!(merged.status.success() && text(&merged.stderr).contains("not checked"), "{}", text(&merged.stderr));
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
    let (fine, peak_kib) = peak_kib(command.stdout(out).spawn().expect("the binary runs"));
    let printed = fs::read_to_string(folder.path().join("out")).expect("metrics");
    assert!(fine && printed.contains(&format!("\"received\",\"unit\":\"packets\",\"value\":{packets}.0")), "{printed}");
    // A GB holds 3.7 million packets, with four numbers of eight bytes for each.
    assert!(peak_kib > 0 && peak_kib < 400 << 10, "{peak_kib} KiB for {gigabytes} GB");
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    fs::write(folder.join("x.pcap"), b"no capture at all").expect("writable");
    fs::create_dir(folder.join("empty")).expect("writable");
    let refusals: [(&[&str], &str); 8] = [
        (&["x.pcap"], "neither pcap nor pcapng"),
        (&["x.pcap", "empty"], "empty is not a capture"),
        (&["absent.pcap"], "no such file or folder: absent.pcap"),
        (&["x.pcap", "--format", "olav"], "did you mean \"olaf\""),
        (&["x.pcap", "--offset", "soon"], "--offset soon"),
        (&["x.pcap", "--offset=-1699999995s"], "at most 106 days: editcap -t SECONDS"),
        (&["x.pcap", "--anchor", "nowhere"], "no such file or folder: nowhere"),
        (&["x.pcap", "--shard", "1/2"], "--tables"),
    ];
    for (args, word) in refusals {
        let output = pktgen(folder, &[&["analyze"], args].concat());
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)) && said.contains(word), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// Synchronous training in which one of four servers straggles, so that most sums lack a source.
const TRIO: &str = r#"
name = "trio"
[workload]
kind = "dense"
model = "custom"
parameters = 20480
workers = 4
iterations = 10
elements = 1024
compute = "3.7ms"
compute_jitter = 0.02
typical = "1s"
stragglers = "fixed"
straggler_probability = 1.0
straggler_delay = [1.0, 1.2]
delay_points = 1
[topology]
kind = "rack"
engines = 1
[endpoint]
workers = "trio_ml"
[target]
program = "trio_ml"
timers = 100
timeout = "2ms"
[capture]
pcap = true
"#;

const SWITCHML: &str = r#"
name = "switchml"
[workload]
kind = "dense"
model = "custom"
parameters = 20480
workers = 4
iterations = 10
elements = 256
compute = "1ms"
[topology]
kind = "rack"
[endpoint]
workers = "switchml"
pool = 16
retransmit = "1ms"
[target]
program = "switchml"
[transport]
kind = "virtual"
fault_loss = 0.01
[capture]
pcap = true
"#;

const LIBRA: &str = r#"
name = "libra"
[workload]
kind = "sparse"
model = "oa"
pairs = 1500
workers = 4
iterations = 5
compute = "100us"
[topology]
kind = "star"
[endpoint]
workers = "libra"
timeout = "100us"
[target]
program = "libra"
[transport]
kind = "virtual"
fault_loss = 0.01
[capture]
pcap = true
"#;

/// Metrics of run dirs of synchronous and sparse training that captures of their packets lack.
const NOT_OF_RESULTS: [&str; 8] = [
    "duplicates",
    "host_latency_max",
    "host_latency_mean",
    "host_latency_p50",
    "host_latency_p99",
    "results",
    "replies",
    "clipped",
];
/// Metrics that Libra's results do not give, as they do not state how many updates they represent.
const NOT_OF_SUMS_BY_KEY: [&str; 8] = [
    "received",
    "merged",
    "represented",
    "aggregation_mean",
    "aggregation_count",
    "throughput_bps",
    "updates_per_s",
    "elements_per_s",
];

/// Runs `experiment` as `name`; returns its metrics, those of its captures, and the notes about the latter.
fn both_sides(folder: &Path, name: &str, experiment: &str, sets: &[&str]) -> [BTreeMap<String, String>; 2] {
    fs::write(folder.join(format!("{name}.toml")), experiment).expect("writable");
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let toml = format!("{name}.toml");
    let output = pktgen(folder, &[&["replay", &toml, "--no-report", "--out", name][..], &sets].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let files = [format!("{name}/capture.pcapng"), format!("{name}/sent.pcapng")];
    let notes = text(&pktgen(folder, &["analyze", &files[0], "--sent", &files[1]]).stderr);
    assert!(!notes.contains("earlier than the one before"), "{notes}");
    [lines(folder, &[name]), lines(folder, &[&files[0], "--sent", &files[1]])]
}

/// Returns the names of the metrics that a run dir and its captures share, after asserting that they are equal.
fn shared(theirs: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) -> Vec<String> {
    same(ours, theirs);
    let name = |key: &String| key.split(' ').next().unwrap_or_default().to_owned();
    let mut names: Vec<_> = ours.keys().filter(|key| theirs.contains_key(*key)).map(name).collect();
    names.dedup();
    names
}

#[test]
fn results_are_counted_by_their_sources() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let cases: [(&str, &str, &[&str], f64); 3] = [
        ("straggling", TRIO, &[], 3.0),
        ("engines", TRIO, &["topology.engines=2", "workload.stragglers=none"], 4.0),
        ("switchml", SWITCHML, &[], 4.0),
    ];
    for (name, experiment, sets, sources) in cases {
        let [theirs, ours] = both_sides(folder, name, experiment, sets);
        let number = |lines: &BTreeMap<String, String>, key: &str| lines[key].parse::<f64>().expect(key);
        assert_eq!(
            shared(&theirs, &ours),
            [
                "aggregation_cdf",
                "aggregation_count",
                "aggregation_mean",
                "elements_per_s",
                "merged",
                "received",
                "retransmissions",
                "sent",
                "throughput_bps",
                "updates_per_s"
            ],
            "{name}"
        );
        assert!(number(&ours, "received {}") > 100.0, "{name}");
        assert_eq!(number(&ours, "aggregation_mean {}"), sources, "{name}");
        // Sent and in no result: dropped, or never answered. A retransmitted packet was dropped, and is not another update.
        let gone =
            number(&theirs, "dropped {}") + number(&theirs, "in_flight {}") - number(&ours, "retransmissions {}");
        assert_eq!(number(&ours, "missing {}"), gone, "{name}");
        assert!(NOT_OF_RESULTS.iter().all(|name| !ours.contains_key(&format!("{name} {{}}"))), "{:?}", ours.keys());
        // Tables give the same result.
        let [capture, sent, dir] = ["capture.pcapng", "sent.pcapng", "tables"].map(|file| format!("{name}/{file}"));
        assert_eq!(lines(folder, &[&capture, "--sent", &sent, "--tables", &dir]), ours, "{name}");
        assert_eq!(lines(folder, &[&dir]), ours, "{name}");
    }
}

/// Counts of `keys` in the run dir and in the captures of a run in real time; a run disturbed by a busy machine is repeated.
fn counts_on_wires(
    folder: &Path,
    name: &str,
    experiment: &str,
    sets: &[&str],
    keys: &[&str],
) -> Option<[Vec<String>; 2]> {
    fs::write(folder.join("wires.toml"), experiment).expect("writable");
    let all = [&["transport.kind=ring", "transport.tap=tap.pcapng"], sets].concat();
    let sets: Vec<&str> = all.iter().flat_map(|set| ["--set", set]).collect();
    let out = &undisturbed("counts on wires", |number| {
        let out = format!("{name}-{number}");
        let output = pktgen(folder, &[&["replay", "wires.toml", "--no-report", "--out", &out][..], &sets].concat());
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
        is_whole(&manifest(&folder.join(&out))).then_some(out)
    })?;
    let [capture, sent] = ["capture.pcapng", "tap-workers.pcapng"].map(|file| format!("{out}/{file}"));
    let of = |lines: BTreeMap<String, String>| {
        keys.iter().map(|key| lines.get(*key).cloned().unwrap_or_else(|| "no line".into())).collect::<Vec<_>>()
    };
    let forwards: &[&str] = if name.ends_with("forwards") { &["--forwards"] } else { &[] };
    // The replay already reported whether the run is valid.
    let theirs = parsed(&text(&pktgen(folder, &["analyze", "--json", out]).stdout));
    Some([of(theirs), of(lines(folder, &[&[&*capture, "--sent", &sent], forwards].concat()))])
}

/// Without our header, a late second copy of a result is taken for the next one of its slot (docs/strict.md): no packet is repeated here.
const UNHURRIED: &str = "endpoint.retransmit=10s";

#[test]
fn strict_layouts_on_wires_count_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let keys = ["sent {}", "received {}", "merged {}", "aggregation_mean {}", "aggregation_count {\"n\":4}"];
    let plain = ["workload.stragglers=none"];
    for (name, experiment, sets) in [
        ("trio", TRIO, &plain[..]),
        ("switchml", SWITCHML, &["transport.fault_loss=0"]),
        ("switchml-strict", SWITCHML, &["transport.fault_loss=0", UNHURRIED, "transport.on_wire=strict"]),
    ] {
        let Some([theirs, ours]) = counts_on_wires(folder, name, experiment, sets, &keys) else { return };
        assert_eq!(ours, theirs, "{name}");
        // On a busy machine sums of Trio-ML age out.
        assert!(ours[3] == "4.0" || name == "trio", "{name}: {ours:?}");
    }
    // RoCE results go to single workers and do not show whether they are copies.
    let roce = ["transport.fault_loss=0", UNHURRIED, "transport.on_wire=roce"];
    let Some([theirs, ours]) = counts_on_wires(folder, "roce", SWITCHML, &roce, &keys) else { return };
    assert_eq!((&ours[0], &ours[1..]), (&theirs[0], &["no line"; 4].map(str::to_owned)[..]));
    // Strict updates of OLAF state how many they represent only where a device forwards.
    let slow = ["schedule.offered=40Mbps", "topology.rate=20Mbps", "transport.on_wire=strict"];
    let merging = [&slow[..], &["target.program=olaf", "target.queue=olaf"]].concat();
    let Some([theirs, ours]) = counts_on_wires(folder, "olaf", EXPERIMENT, &merging, &keys) else { return };
    assert_eq!((&ours[..2], &ours[2..]), (&theirs[..2], &["no line"; 3].map(str::to_owned)[..]));
    let forwarding = [&slow[..], &["target.program=forward", "target.queue=fifo"]].concat();
    let Some([theirs, ours]) = counts_on_wires(folder, "olaf-forwards", EXPERIMENT, &forwarding, &keys) else { return };
    assert_eq!(ours[..4], theirs[..4]);
}

#[test]
fn what_results_do_not_say_has_no_number() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let [theirs, ours] = both_sides(folder, "libra", LIBRA, &[]);
    assert_eq!(shared(&theirs, &ours), ["retransmissions", "sent"]);
    for name in NOT_OF_RESULTS.iter().chain(&NOT_OF_SUMS_BY_KEY) {
        assert!(!ours.keys().any(|key| key.starts_with(&format!("{name} "))), "{name}: {ours:?}");
    }
    assert!(!ours.keys().any(|key| key.starts_with("missing")), "{ours:?}");
    // The run dir knows which updates are in a sum, and that none of its packets has so many of them.
    for key in ["aggregation_mean {}", "updates_per_s {}", "absorbed {}"] {
        assert_eq!(theirs[key], "null", "{key}");
    }
    assert!(theirs["merged {}"].parse::<f64>().expect("a number") > 0.0);
    let notes = text(&pktgen(folder, &["analyze", "libra/capture.pcapng"]).stderr);
    assert!(
        notes.contains("do not say how many updates they represent") && !notes.contains("numbers_missing"),
        "{notes}"
    );
    // No header of Trio-ML shows which results for retransmitted contributions are copies.
    let again = ["transport.kind=virtual", "transport.fault_loss=0.02", "endpoint.retransmit=5ms"];
    let [theirs, ours] = both_sides(folder, "again", TRIO, &again);
    assert_eq!(shared(&theirs, &ours), ["retransmissions", "sent"]);
    assert_ne!(ours["retransmissions {}"], "0.0");
    // For SwitchML the contributions alone give their number.
    let [_, _] = both_sides(folder, "switchml", SWITCHML, &[]);
    let alone = lines(folder, &["switchml/capture.pcapng"]);
    assert_eq!(alone["received {}"], "960.0");
    assert!(!["merged {}", "aggregation_mean {}", "elements_per_s {}"].iter().any(|key| alone.contains_key(*key)));
    let notes = text(&pktgen(folder, &["analyze", "switchml/capture.pcapng"]).stderr);
    assert!(notes.contains("--sent FILE adds the workers' side"), "{notes}");
}

#[test]
fn times_are_judged_by_their_resolution() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let file = |name: &str, precision: Precision, back: i64| {
        let options = WriterOptions { precision, ..WriterOptions::new(Form::Pcap) };
        let mut writer = Writer::create(&folder.join(name), options).expect("a file");
        let mut frame = vec![0; 256];
        for seq in 0..500u32 {
            Template::new((worker_ip(1), WORKER_PORT), (SERVER_IP, PORT), 256).emit(&mut frame);
            let generation = 10_000_000 + i64::from(seq) * 1_234_567;
            let header = Header {
                flags: 0,
                cluster: 0,
                count: 1,
                worker: 1,
                seq,
                generation,
                attempt: 0,
                elements: 46,
                reward: 0.0,
            };
            header.emit_update(&mut frame[HEAD..]);
            writer.packet(0, generation + 51_200 - back, &frame, 256).expect("a packet");
        }
        writer.finish().expect("a whole file");
    };
    // As tcpdump and scapy write them by default.
    file("micro.pcap", Precision::Micro, 0);
    let output = pktgen(folder, &["analyze", "micro.pcap", "--json", "--metric", "aom_p99"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the file has 1 µs stamps: latencies and ages are exact to 1 µs"), "{said}");
    assert!(!said.contains("clocks do not agree"), "{said}");
    assert!(text(&output.stdout).lines().count() >= 2);
    // Stamps of today, later than the senders' anchor: the origin of generation times is unknown, so no fault is reported.
    let today =
        WriterOptions { anchor_unix_ns: 1_700_000_000_000_000_000, noted: false, ..WriterOptions::new(Form::Pcapng) };
    let mut writer = Writer::create(&folder.join("today.pcapng"), today).expect("a file");
    let mut reader = Reader::open(&folder.join("micro.pcap")).expect("a capture");
    let mut t = 0;
    while let Some(packet) = reader.next().expect("a packet") {
        writer.packet(0, t, packet.bytes, packet.len).expect("a packet");
        t += 1_000;
    }
    writer.finish().expect("a whole file");
    let output = pktgen(folder, &["analyze", "today.pcapng"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("--anchor RUN (the senders' run dir)") && !said.contains("before they were generated"),
        "{said}"
    );
    // With the anchor, faults are reported.
    let anchored = pktgen(folder, &["-q", "analyze", "today.pcapng", "--anchor", "1700000000000000000"]);
    assert_eq!(anchored.status.code(), Some(1));
    // The same in nanoseconds needs no tolerance.
    file("nano.pcap", Precision::Nano, 0);
    let said = text(&pktgen(folder, &["analyze", "nano.pcap"]).stderr);
    assert!(!said.contains("exact to"), "{said}");
    // A difference that no resolution explains remains a fault.
    for (name, precision) in [("early.pcap", Precision::Micro), ("early-ns.pcap", Precision::Nano)] {
        file(name, precision, 5_000_000);
        let output = pktgen(folder, &["-q", "analyze", name]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("were received before they were generated"), "{said}");
    }
}

/// Writes a capture of `packets` updates with the destination port `port`.
pub(crate) fn updates(path: &Path, packets: u32, port: u16) {
    let mut writer = Writer::create(path, WriterOptions::new(Form::Pcap)).expect("a file");
    let mut frame = vec![0; 256];
    for seq in 0..packets {
        Template::new((worker_ip(1), if port == PORT { WORKER_PORT } else { port }), (SERVER_IP, port), 256)
            .emit(&mut frame);
        let generation = i64::from(seq) * 1_000_000;
        let (cluster, worker, elements) = (0, 1, 46);
        let header = Header { flags: 0, cluster, count: 1, worker, seq, generation, attempt: 0, elements, reward: 0.0 };
        header.emit_update(&mut frame[HEAD..]);
        writer.packet(0, generation + 51_200, &frame, 256).expect("a packet");
    }
    writer.finish().expect("a whole file");
}

#[test]
fn captures_come_through_pipes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    run(folder, "run", &["target.program=forward", "target.queue=fifo"]);
    let [server, sender] = ["run/capture.pcapng", "run/sent.pcapng"];
    let whole = lines(folder, &[server, "--sent", sender]);
    let piped = |line: &str| {
        let line = line.replace("PKTGEN", env!("CARGO_BIN_EXE_pktgen"));
        Command::new("bash").current_dir(folder).args(["-c", &line]).output().expect("bash runs")
    };
    for line in [
        format!("PKTGEN -q analyze --json - --sent {sender} < {server}"),
        format!("cat {server} | PKTGEN -q analyze --json - --sent {sender}"),
        format!("gzip -c {server} | PKTGEN -q analyze --json - --sent {sender}"),
        format!("PKTGEN -q analyze --json <(cat {server}) --sent <(gzip -c {sender})"),
        format!("mkfifo f; cat {server} > f & PKTGEN -q analyze --json f --sent {sender}"),
    ] {
        let output = piped(&line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        let found = text(&output.stdout);
        assert_eq!(found.lines().count(), whole.len(), "{line}");
        let sent = format!("\"metric\":\"sent\",\"unit\":\"updates\",\"value\":{}", whole["sent {}"]);
        assert!(found.contains(&sent), "{found}");
    }
    // Messages have the names as given, and a waiting command names what it waits for.
    let output = piped("echo no capture at all | PKTGEN -q analyze -");
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("pktgen: -: neither pcap nor pcapng"), "{said}");
    let told = "for i in {1..3000}; do grep -q 'waiting for packets from -' told && break; sleep 0.1; done";
    assert!(piped(&format!("touch told; ({told}; cat {server}) | PKTGEN analyze - 2>told")).status.success());
    let said = fs::read_to_string(folder.join("told")).expect("messages");
    assert!(said.contains("waiting for packets from -"), "{said}");
    assert_eq!(piped("PKTGEN -q analyze - - < run/sent.pcapng").status.code(), Some(2));
}

#[test]
fn people_choose_metrics_and_read_units() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    run(folder, "run", &[]);
    let printed = |args: &[&str]| {
        let output = pktgen(folder, &[&["analyze", "run"], args].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (few, said) = printed(&[]);
    assert!(!few.contains("id=") && !few.contains(" n=") && few.contains(" µs"), "{few}");
    assert!(said.contains("more lines, of single clusters, workers and bins"), "{said}");
    let (all, _) = printed(&["--all"]);
    assert!(all.starts_with(&few) && all.contains("flow=worker id=8"), "{all}");
    let (ages, _) = printed(&["--metric", "aom_p*", "--metric", "loss"]);
    assert!(ages.lines().all(|line| line.starts_with("aom_p") || line.starts_with("loss")), "{ages}");
    assert!(ages.contains("id=8") && ages.contains("loss"), "{ages}");
    // The verdict and a few numbers come first; with chosen metrics there is nothing else.
    let (summary, lines) = all.split_once("\n\n").expect("a summary");
    assert!(summary.starts_with("run: valid\n  sent ") && summary.contains("  Age-of-Model     mean "), "{summary}");
    // JSON has the same lines, all of them.
    let (json, _) = printed(&["--json"]);
    assert_eq!(json.lines().count(), lines.lines().count());
}
