//! Devices in other processes in virtual time: `devices/lockstep` compared with ours, under link faults, and misbehaving.

use std::path::Path;
use std::process::{Command, Output};

use pktgen_testing::eventually;
use serde_json::{Value, json};

use crate::support::bench::{SWITCHML, lockstep};
use crate::support::wired::{datagrams, manifest, number, pktgen, said};

/// OLAF: nine workers in three clusters before a link that is too slow for them.
const OLAF: &str = r#"
name = "lockstep-olaf"
[workload]
kind = "rl"
clusters = 3
workers_per_cluster = 3
updates = 400
bytes = "256B"
[schedule]
kind = "constant"
jitter = 0.3
offered = "10Mbps"
line_rate = "100Mbps"
[topology]
kind = "bottleneck"
rate = "4Mbps"
[target]
program = "olaf"
queue = "olaf"
slots = 8
slot_in_transmission = false
reward_filter = false
"#;

const SWITCHML_DEVICE: &[&str] = &["--ports", "4", "--protocol", "switchml", "--workers", "4"];

/// Offset of the reward in our header of an update.
const REWARD: usize = 26;
const OLAF_WORDS: &[&str] = &["--ports", "2", "--up", "1", "--workers", "9", "--per-cluster", "3", "--slots", "8"];
const OLAF_DEVICE: &[&str] = &[
    "--ports",
    "2",
    "--up",
    "1",
    "--workers",
    "9",
    "--per-cluster",
    "3",
    "--slots",
    "8",
    "--protocol",
    "olaf-strict",
    "--mbps",
    "4",
];

/// Returns settings that replace our device by one with these arguments.
fn device(words: &[&str]) -> Vec<String> {
    let words: Vec<_> = [&[lockstep().to_str().expect("a path")], words].concat();
    vec!["target.kind=external".into(), format!("target.lockstep.command={}", json!(words))]
}

/// A run of an experiment in `folder`.
struct Ran {
    folder: tempfile::TempDir,
    output: Output,
}

impl Ran {
    fn of(experiment: &str, set: &[String], more: &[&str]) -> Ran {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("experiment.toml");
        std::fs::write(&path, experiment).expect("it is written");
        let (path, out) = (path.display().to_string(), folder.path().join("run").display().to_string());
        let words = [&["-q", "replay", &path, "--no-report", "--out", &out], more].concat();
        let set: Vec<_> = set.iter().map(String::as_str).collect();
        let output = pktgen(&[], &words, &set).output().expect("it runs");
        Ran { folder, output }
    }

    fn coupled(experiment: &str, words: &[&str], set: &[&str]) -> Ran {
        let set = [&device(words)[..], &set.iter().map(|own| (*own).to_owned()).collect::<Vec<_>>()].concat();
        Ran::of(experiment, &set, &["--allow-launch"])
    }

    fn ours(experiment: &str, set: &[&str]) -> Ran {
        Ran::of(experiment, &set.iter().map(|own| (*own).to_owned()).collect::<Vec<_>>(), &[])
    }

    fn dir(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }

    /// Returns its manifest, after asserting that the run is valid.
    fn valid(&self) -> Value {
        assert_eq!(self.output.status.code(), Some(0), "{}", said(&self.output));
        let manifest = manifest(&self.dir());
        assert_eq!(manifest["validity"]["valid"], json!(true), "{}", manifest["validity"]);
        manifest
    }
}

/// Returns the payloads that reached the server, or the workers, as in our frames.
fn payloads(ran: &Ran) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    datagrams(&ran.dir().join("capture.pcapng"), |datagram, _| all.push(datagram.payload.to_vec()));
    all
}

fn sorted(mut all: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    all.sort();
    all
}

#[test]
fn a_switch_of_another_process_makes_the_same_sums() {
    let ours = Ran::ours(SWITCHML, &["capture.pcap=true"]);
    let own = ours.valid();
    let coupled = Ran::coupled(SWITCHML, SWITCHML_DEVICE, &["capture.pcap=true"]);
    let manifest = coupled.valid();
    assert_eq!(manifest["external"], json!("lockstep"));
    for key in ["replies", "packets_received", "sums_ok", "sums_wrong", "foreign"] {
        assert_eq!(manifest["counters"][key], own["counters"][key], "{key}");
    }
    let balance = &manifest["balance"];
    assert_eq!((&balance["unaccounted"], &manifest["counters"]["sums_wrong"]), (&Value::Null, &json!(0)), "{balance}");
    assert_eq!((&balance["sent"], &balance["delivered_merged"]), (&own["balance"]["sent"], &own["balance"]["sent"]));
    let device = &manifest["counters"]["device"];
    assert_eq!(device["device.received"], balance["sent"]);
    assert_eq!(device["device.results"], manifest["counters"]["packets_received"]);
    let (ours, theirs) = (sorted(payloads(&ours)), sorted(payloads(&coupled)));
    assert!(!ours.is_empty() && ours == theirs, "{} and {} results", ours.len(), theirs.len());
}

/// The same seed and device give the same run, whatever the load of the machine.
#[test]
fn a_coupled_run_is_the_same_again() {
    let again = || {
        let ran = Ran::coupled(OLAF, OLAF_DEVICE, &["capture.pcap=true", "transport.fault_loss=0.05"]);
        let manifest = ran.valid();
        (payloads(&ran), manifest["counters"].clone(), manifest["balance"].clone())
    };
    assert_eq!(again(), again());
}

/// A device may act at an instant that it announces, and need not: the run ends with the last frame, and `capture.until` cuts off only what
/// would still leave.
#[test]
fn instants_at_which_nothing_leaves_are_no_part_of_a_run() {
    let is_cut = |manifest: &Value| manifest["validity"]["notes"].to_string().contains("\"cut_off\"");
    let end_of = |words: &[&str], set: &[&str]| {
        let manifest = Ran::coupled(SWITCHML, words, set).valid();
        (number(&manifest["counters"]["end_ps"]), is_cut(&manifest))
    };
    let idle = [SWITCHML_DEVICE, &["--idle-ms", "1000"]].concat();
    let own = end_of(SWITCHML_DEVICE, &[]);
    assert_eq!((end_of(&idle, &[]), own.1), (own, false));
    let until = |at: u64| format!("capture.until={at}ps");
    assert_eq!(end_of(&idle, &[&until(own.0 + 1000)]), own);
    assert_eq!(end_of(&idle, &[&until(own.0 - 1)]), (own.0 - 1, true));
    // A queue so slow that nothing is on a link for most of the time still has updates.
    let slow = [OLAF_DEVICE, &["--mbps", "0.1", "--idle-ms", "1"]].concat();
    let of = |set: &[&str]| manifest(&Ran::coupled(OLAF, &slow, set).dir());
    let whole = number(&of(&[])["counters"]["end_ps"]);
    assert!(is_cut(&of(&[&until(whole - 10_000_000_000)])));
}

/// Algorithm 1 in C and ours: the same packets in the same order.
#[test]
fn a_queue_of_another_process_merges_the_same_updates() {
    let ours = Ran::ours(OLAF, &["capture.pcap=true"]);
    let own = ours.valid();
    let words = [&["--protocol", "olaf", "--mbps", "4"], OLAF_WORDS].concat();
    let coupled = Ran::coupled(OLAF, &words, &["capture.pcap=true", "transport.on_wire=ours"]);
    let (manifest, balance) = (coupled.valid(), &own["balance"]);
    let device = &manifest["counters"]["device"];
    assert!(number(&device["device.merged"]) > 100, "{device}");
    assert_eq!(device["device.replaced"], balance["subsumed"], "{device} {balance}");
    let (ours, theirs) = (payloads(&ours), payloads(&coupled));
    assert_eq!((ours.len(), json!(ours.len())), (theirs.len(), own["counters"]["packets_received"].clone()));
    // The mean of rewards is rounded differently by each; all else is the same, bit for bit.
    let reward = |payload: &[u8]| f32::from_le_bytes(payload[REWARD..REWARD + 4].try_into().expect("four bytes"));
    for (i, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!((&ours[..REWARD], &ours[REWARD + 4..]), (&theirs[..REWARD], &theirs[REWARD + 4..]), "packet {i}");
        let (ours, theirs) = (reward(ours), reward(theirs));
        assert!((ours - theirs).abs() <= 1e-6 * ours.abs().max(1.0), "packet {i}: {ours} {theirs}");
    }
}

/// Links lose and duplicate frames: workers retransmit, and no sum is wrong.
#[test]
fn sums_are_right_over_links_with_faults() {
    let set = ["endpoint.retransmit=100us", "transport.fault_loss=0.01", "transport.fault_duplicate=0.01"];
    let ran = Ran::coupled(SWITCHML, SWITCHML_DEVICE, &set);
    let manifest = ran.valid();
    let (balance, counters) = (&manifest["balance"], &manifest["counters"]);
    assert!(number(&balance["retransmitted"]) > 0 && number(&counters["device"]["device.repeated"]) > 0, "{manifest}");
    assert_eq!(number(&counters["sums_wrong"]), 0);
    // Our device keeps books, and they close over the same links.
    for set in [&[][..], &set] {
        let ours = Ran::ours(SWITCHML, set).valid();
        assert_eq!(counters["sums_ok"], ours["counters"]["sums_ok"], "{set:?}");
    }
}

/// Strict OLAF: packets are identified by their contents; lanes prove their members.
#[test]
fn strict_updates_of_a_coupled_queue_are_named() {
    let words = [&["--protocol", "olaf-strict", "--mbps", "4", "--overhead", "26"], OLAF_WORDS].concat();
    for lanes in ["false", "true"] {
        let set = ["target.reward_filter=false".to_owned(), format!("format.lanes={lanes}")];
        let set: Vec<_> = set.iter().map(String::as_str).collect();
        let ran = Ran::coupled(OLAF, &words, &set);
        let manifest = ran.valid();
        let count = |what: &str| {
            let (dir, sql) = (ran.dir().display().to_string(), format!("SELECT {what}"));
            let output = pktgen(&[], &["query", &dir, &sql, "--json", "-q"], &[]).output().expect("it runs");
            let row: Result<Value, _> = serde_json::from_slice(&output.stdout);
            number(&row.unwrap_or_else(|why| panic!("{why}: {}", said(&output)))["n"])
        };
        // The restored header has the time of arrival.
        let named = count("COUNT(newest_gen_ps) AS n FROM received");
        let generated = "COUNT(*) AS n FROM received WHERE newest_gen_ps IN (SELECT t_gen_ps FROM sent)";
        assert!(named > 0 && count(generated) == named, "{named} named, {} generated", count(generated));
        let unseen = &manifest["unseen"];
        let checked = number(&unseen["checked_by_lanes"]);
        assert_eq!(checked > 100, lanes == "true", "{unseen}");
        assert_eq!(number(&manifest["counters"]["sums_wrong"]), 0, "{manifest}");
    }
}

/// The header that a run restored is no content of strict packets: their capture has no counts and ages.
#[test]
fn captures_of_strict_updates_show_no_restored_numbers() {
    let ran = Ran::coupled(OLAF, OLAF_DEVICE, &["capture.pcap=true"]);
    ran.valid();
    let [received, sent] = ["capture.pcapng", "sent.pcapng"].map(|name| ran.dir().join(name).display().to_string());
    let output = pktgen(&[], &["analyze", &received, "--sent", &sent, "--json"], &[]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for metric in ["aggregation_mean", "aom_mean", "merged", "updates_per_s"] {
        assert!(!text.contains(&format!("\"{metric}\"")), "{metric}: {text}");
    }
    assert!(text.contains("olaf_strict") && !text.contains("senders_incomplete"), "{text}");
}

/// A device that adds wrongly is detected, as on a wire.
#[test]
fn wrong_sums_of_a_coupled_switch_are_found() {
    let ran = Ran::coupled(SWITCHML, &[SWITCHML_DEVICE, &["--wrong", "0.05", "--seed", "7"]].concat(), &[]);
    assert_eq!(ran.output.status.code(), Some(1), "{}", said(&ran.output));
    let manifest = manifest(&ran.dir());
    let counters = &manifest["counters"];
    assert!(number(&counters["sums_wrong"]) > 0);
    assert_eq!(counters["sums_wrong"], counters["device"]["device.wrong"]);
}

/// A result of some workers is either the sum of as many of them, or wrong.
#[test]
fn partial_results_of_a_coupled_router_are_checked() {
    let trio = SWITCHML.replace("\"switchml\"\npool = 32", "\"trio_ml\"\nwindow = 32");
    let trio = trio.replace("compute = \"1ms\"", "compute = \"1ms\"\nstraggler_probability = 0.3\ntypical = \"30ms\"");
    let words = ["--ports", "4", "--protocol", "trio-ml", "--workers", "4", "--timeout-ms", "10"];
    let manifest_of = |words: &[&str]| manifest(&Ran::coupled(&trio, words, &[]).dir());
    let right = manifest_of(&words);
    let (counters, unseen) = (&right["counters"], &right["unseen"]);
    assert_eq!(right["validity"]["valid"], json!(true), "{}", right["validity"]);
    assert!(number(&right["balance"]["unaccounted"]) > 50, "some aged: {}", right["balance"]);
    assert_eq!((&counters["sums_ok"], &unseen["unchecked"]), (&counters["packets_received"], &json!(0)), "{unseen}");
    let aged = |manifest: &Value| !manifest["validity"]["notes"].to_string().contains("nothing_aged");
    // Without a timeout it waits for all, and for longer than three of its declared timeouts; declared without, that is right.
    let set = ["workload.typical=300ms", "workload.iterations=6", "target.mitigation=false"];
    let [patient, declared] = [2, 3].map(|keys| manifest(&Ran::coupled(&trio, &words[..6], &set[..keys]).dir()));
    assert!(aged(&right) && !aged(&patient), "{}", patient["validity"]);
    assert!(aged(&declared) && declared["training"]["timeout_ps"].is_null(), "{}", declared["validity"]);
    assert_eq!(declared["validity"]["valid"], json!(true), "{}", declared["validity"]);
    let wrong = manifest_of(&[&words[..], &["--wrong", "0.2", "--seed", "7"]].concat());
    let counters = &wrong["counters"];
    assert!(number(&counters["sums_wrong"]) > 50, "{counters}");
    assert_eq!(counters["sums_wrong"], counters["device"]["device.wrong"]);
}

/// A router that goes on without workers before its timeout is named, and a right one is not, also on links so slow that contributions come
/// after the result of their block: each gives another partial result.
#[test]
fn timeouts_of_a_coupled_router_are_checked() {
    let trio = SWITCHML.replace("\"switchml\"\npool = 32", "\"trio_ml\"\nwindow = 32");
    let trio = trio.replace("compute = \"1ms\"", "compute = \"1ms\"\nstraggler_probability = 0.3\ntypical = \"30ms\"");
    let [as_is, slow]: [&[&str]; 2] = [&[], &["topology.host_rate=20Mbps"]];
    for (timeout_ms, set, told) in
        [("4", as_is, "cause: timeout_wrong"), ("10", as_is, "nothing is wrong"), ("10", slow, "nothing is wrong")]
    {
        let words = ["--ports", "4", "--protocol", "trio-ml", "--workers", "4", "--timeout-ms", timeout_ms];
        let ran = Ran::coupled(&trio, &words, set);
        let manifest = ran.valid();
        assert_eq!(manifest["unseen"]["duplicates"], json!(0), "{timeout_ms} {set:?}: {}", manifest["unseen"]);
        let diagnosis = pktgen(&[], &["diagnose", &ran.dir().display().to_string()], &[]).output().expect("it runs");
        assert!(said(&diagnosis).starts_with(told), "{timeout_ms} {set:?}: {}", said(&diagnosis));
    }
}

/// A result of one gradient has 60 bytes, as of our router, whether the device pads it or not.
#[test]
fn short_results_of_a_coupled_router_have_the_length_of_ours() {
    let trio = SWITCHML.replace("\"switchml\"\npool = 32", "\"trio_ml\"\nwindow = 32").replace("= 256", "= 100");
    let trio = trio.replace("model = \"resnet50\"\nscale = 0.002", "model = \"custom\"\nparameters = 301");
    let bytes = |manifest: Value| ["bytes_received", "downlink_bytes"].map(|key| number(&manifest["counters"][key]));
    let ours = bytes(Ran::ours(&trio, &[]).valid());
    // Three iterations of 3 results of 100 gradients, and one of 1.
    assert_eq!(ours[0], 3 * (3 * 454 + 60));
    for copies in ["same", "padded"] {
        let words =
            ["--ports", "4", "--protocol", "trio-ml", "--workers", "4", "--timeout-ms", "10", "--copies", copies];
        assert_eq!(bytes(Ran::coupled(&trio, &words, &[]).valid()), ours, "{copies}");
    }
}

/// Sparse training: four workers before a switch, and a parameter server.
const LIBRA: &str = r#"
name = "lockstep-libra"
[workload]
kind = "sparse"
model = "oa"
scale = 0.05
workers = 4
iterations = 5
compute = "1ms"
[topology]
kind = "star"
[endpoint]
workers = "libra"
timeout = "20ms"
[target]
program = "libra"
add = "exact"
"#;

/// Hot sums of a device without books name none of their updates; our switch has books of them.
#[test]
fn what_sums_by_key_without_books_hold_is_not_known() {
    let values = |ran: &Ran| {
        ran.valid();
        let words = ["analyze", "--json", &ran.dir().display().to_string()];
        let output = pktgen(&[], &words, &[]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        ["merged", "downlink_bytes_per_delivered_update"].map(|metric| {
            let line = lines.iter().find(|line| line["metric"] == metric).unwrap_or_else(|| panic!("{metric}: {text}"));
            line["value"].as_f64()
        })
    };
    let words = ["--ports", "5", "--up", "4", "--protocol", "libra", "--workers", "4", "--timeout-ms", "20"];
    assert_eq!(values(&Ran::coupled(LIBRA, &words, &[])), [None; 2]);
    assert!(values(&Ran::ours(LIBRA, &[])).iter().all(|value| value.is_some_and(|value| value > 0.0)));
}

/// Libra in C: its hot sums are right over links that lose and duplicate frames, and wrong additions are detected.
#[test]
fn hot_sums_of_a_coupled_switch_are_checked() {
    let words = ["--ports", "5", "--up", "4", "--protocol", "libra", "--workers", "4", "--timeout-ms", "20"];
    for set in [&[][..], &["transport.fault_loss=0.02", "transport.fault_duplicate=0.02"]] {
        let manifest = Ran::coupled(LIBRA, &words, set).valid();
        let unseen = &manifest["unseen"];
        assert!(number(&unseen["checked_by_key"]) > 300 && unseen["unchecked"] == json!(0), "{unseen}");
        assert_eq!(number(&manifest["counters"]["sums_wrong"]), 0, "{manifest}");
    }
    for (wrong, counter) in [
        (&["--wrong", "0.2"][..], "hot_sums_off"),
        (&["--twice", "0.2"], "hot_sums_off"),
        (&["--stale", "1"], "hot_sums_foreign"),
        (&["--needs", "3"], "hot_sums_early"),
    ] {
        let ran = Ran::coupled(LIBRA, &[&words[..], wrong, &["--seed", "7"]].concat(), &[]);
        assert_eq!(ran.output.status.code(), Some(1), "{wrong:?}: {}", said(&ran.output));
        let counters = &manifest(&ran.dir())["counters"];
        assert!(number(&counters["sums_wrong"]) > 0, "{wrong:?}: {counters}");
        assert!(counters["device"].get(counter).is_some_and(|count| number(count) > 0), "{wrong:?}: {counters}");
    }
}

/// A switch with a timeout below the round trip sends all results again to workers that have them.
#[test]
fn results_that_a_coupled_switch_repeats_are_counted() {
    for (timeout, answer) in [("20", "nothing is wrong"), ("1", "cannot tell")] {
        let words = ["--ports", "5", "--up", "4", "--protocol", "libra", "--workers", "4", "--timeout-ms", timeout];
        let ran = Ran::coupled(LIBRA, &words, &["topology.delay=2ms"]);
        let manifest = ran.valid();
        let (device, balance) = (&manifest["counters"]["device"], &manifest["balance"]);
        let again = device.get("workers.results_again").map_or(0, number);
        assert_eq!(again > 1000, timeout == "1", "{timeout}: {device}");
        assert_eq!((number(&balance["retransmitted"]), device.get("workers.results_late")), (0, None), "{device}");
        let text = said(&pktgen(&[], &["diagnose", &ran.dir().display().to_string()], &[]).output().expect("it runs"));
        assert!(text.starts_with(answer), "{timeout}: {text}");
        assert_eq!(text.contains(&format!("why the device sent {again} results again")), timeout == "1", "{text}");
    }
}

/// Every returned frame is compared with the run, not only the first copy; bytes after a packet are no part of it.
#[test]
fn copies_of_a_coupled_switch_are_checked() {
    for (copies, code, told, cause) in [
        ("same", 0, "", "nothing is wrong"),
        ("padded", 0, "", "nothing is wrong"),
        ("value", 1, "unlike_results", "cause: results_unlike"),
        ("slot", 1, "nothing_matched", "cause: results_unmatched"),
        ("port", 1, "nothing_matched", "cause: results_unmatched"),
        ("checksum", 0, "checksums_wrong", "cause: bad_checksum"),
    ] {
        let ran = Ran::coupled(SWITCHML, &[SWITCHML_DEVICE, &["--copies", copies]].concat(), &[]);
        assert_eq!(ran.output.status.code(), Some(code), "{copies}: {}", said(&ran.output));
        let validity = &manifest(&ran.dir())["validity"];
        let first = ["faults", "notes"].iter().find_map(|kind| {
            let mut codes = validity[kind].as_array()?.iter().map(|own| own["code"].as_str().unwrap_or_default());
            codes.find(|code| *code != "no_books").map(str::to_owned)
        });
        assert_eq!(first.unwrap_or_default(), told, "{copies}: {validity}");
        let diagnosis = pktgen(&[], &["diagnose", &ran.dir().display().to_string()], &[]).output().expect("it runs");
        let text = said(&diagnosis);
        assert!(text.starts_with(cause), "{copies}: {text}");
        assert!(!text.contains("results_lost"), "{copies}: {text}");
    }
}

/// Frames with a wrong IPv4 or UDP length, and fragments, are neither results nor acknowledgements, whatever the layout.
#[test]
fn frames_that_hosts_would_not_take_are_unmatched() {
    for (experiment, device, came) in
        [(SWITCHML, SWITCHML_DEVICE, "packets_received"), (OLAF, OLAF_DEVICE, "acks_received")]
    {
        for copies in ["total", "length", "fragment"] {
            let ran = Ran::coupled(experiment, &[device, &["--copies", copies]].concat(), &[]);
            let counters = &manifest(&ran.dir())["counters"];
            assert!(number(&counters["foreign"]) > 100, "{came}, {copies}: {counters}");
            assert_eq!(counters[came], json!(0), "{copies}: {counters}");
        }
    }
}

/// A correct queue is accepted whatever it merges, and facts unknown to a run are reported: members without lanes,
/// losses without counters.
#[test]
fn right_queues_are_not_blamed() {
    let words = [&["--protocol", "olaf-strict", "--mbps", "1", "--overhead", "26"], OLAF_WORDS].concat();
    for (lanes, answer) in [("true", "nothing is wrong"), ("false", "cannot tell: nothing wrong was found")] {
        let lanes = format!("format.lanes={lanes}");
        let ran = Ran::coupled(OLAF, &words, &["target.reward_filter=false", &lanes]);
        ran.valid();
        let dir = ran.dir().display().to_string();
        let text = said(&pktgen(&[], &["diagnose", &dir], &[]).output().expect("it runs"));
        assert!(text.starts_with(answer), "{lanes}: {text}");
        let wrong = pktgen(&[], &["analyze", "--wrong", &dir], &[]).output().expect("it runs");
        let all = "packets are what they should be";
        assert_eq!(said(&wrong).contains(all), answer == "nothing is wrong", "{lanes}: {}", said(&wrong));
    }
}

/// With equal constant gaps updates may never meet in the queue, and a right queue merges none of theirs. One that does not know two workers
/// passes on theirs while others of their cluster wait.
#[test]
fn updates_that_never_meet_are_rightly_alone() {
    for (workers, jitter, answer) in [("9", "0.0", "nothing is wrong"), ("7", "0.3", "cause: worker_not_merged")] {
        let words = [OLAF_WORDS, &["--protocol", "olaf", "--mbps", "8", "--workers", workers]].concat();
        let jitter = format!("schedule.jitter={jitter}");
        let set = ["transport.on_wire=ours", "topology.rate=100Mbps", "format.lanes=true", jitter.as_str()];
        let ran = Ran::coupled(OLAF, &words, &set);
        ran.valid();
        let dir = ran.dir().display().to_string();
        let text = said(&pktgen(&[], &["diagnose", &dir], &[]).output().expect("it runs"));
        assert!(text.starts_with(answer), "{workers} workers: {text}");
    }
}

/// OLAF's device sends an answer to all workers of its cluster (§7), and this one to the worker that it is addressed to: right without a
/// profile that says so.
#[test]
fn answers_of_a_coupled_queue_are_counted_for_their_cluster() {
    let card = ["target.profile=alveo-u55c-olaf", "transport.readdress=false"];
    let to_some = "acks_to_some (device, certain";
    for (profile, workers, answer) in [(&card[..], 3, to_some), (&[][..], 1, "nothing is wrong")] {
        let ran = Ran::coupled(OLAF, OLAF_DEVICE, &[&["format.lanes=true"], profile].concat());
        let manifest = ran.valid();
        let (acks, notes) = (&manifest["unseen"]["acks"], manifest["validity"]["notes"].to_string());
        let [sent, expected, seen] = ["acks", "expected", "seen"].map(|count| number(&acks[count]));
        // A worker is due those from its first update on.
        let most = workers * sent;
        assert!(sent > 100 && seen == sent && (most - 9 * (workers - 1)..=most).contains(&expected), "{acks}");
        assert_eq!(notes.contains("acks_missing"), workers > 1, "{notes}");
        // Those that a link before it lost are not counted.
        assert_eq!(notes.contains(&format!("acknowledgements: {sent} reached the device,")), workers > 1, "{notes}");
        let text = said(&pktgen(&[], &["diagnose", &ran.dir().display().to_string()], &[]).output().expect("it runs"));
        assert!(text.contains(answer), "{workers}: {text}");
    }
}

/// Process numbers return: the folder of a killed run with the same number is no obstacle.
#[test]
fn a_run_starts_beside_what_a_killed_run_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("experiment.toml");
    std::fs::write(&path, SWITCHML).expect("it is written");
    let (path, out) = (path.display().to_string(), folder.path().join("run").display().to_string());
    let first = ["sh", "-c", r#"mkdir "$TMPDIR/pktgen-lockstep-$$-0" && exec "$@""#, "sh"].map(str::to_owned);
    let (words, set) =
        (["-q", "replay", &path, "--no-report", "--out", &out, "--allow-launch"], device(SWITCHML_DEVICE));
    let set: Vec<_> = set.iter().map(String::as_str).collect();
    let output = pktgen(&first, &words, &set).env("TMPDIR", folder.path()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let left = std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let left = left.filter(|name| name.to_string_lossy().starts_with("pktgen-lockstep-")).count();
    assert_eq!(left, 1, "its own folder is removed");
}

/// In a star an answer leaves at the port of each worker of its cluster: copies at one port do not hide that others are missing, and none
/// leaves twice.
#[test]
fn answers_of_a_coupled_queue_are_counted_at_each_port() {
    let star = OLAF.replace("\"bottleneck\"\nrate = \"4Mbps\"", "\"star\"");
    let words = ["--ports", "10", "--up", "9", "--workers", "9", "--per-cluster", "3", "--slots", "8"];
    let set = ["target.profile=alveo-u55c-olaf", "transport.readdress=false", "format.lanes=true"];
    for (acks, updates, answer) in [
        ("group", "400", "nothing is wrong"),
        ("group", "20", "nothing is wrong"),
        ("some", "400", "cause: acks_to_some"),
        ("twice", "400", "cause: copies"),
    ] {
        let words = [&words[..], &["--protocol", "olaf-strict", "--mbps", "4", "--acks", acks]].concat();
        let updates = format!("workload.updates={updates}");
        let ran = Ran::coupled(&star, &words, &[&set[..], &[&updates]].concat());
        let manifest = ran.valid();
        let copies = &manifest["unseen"]["acks"];
        let [sent, expected, seen] = ["acks", "expected", "seen"].map(|count| number(&copies[count]));
        // None before the first update of a worker, from which the device learns its port.
        assert!(sent > 50 && (3 * sent - 27..=3 * sent).contains(&expected), "{acks}: {copies}");
        // The last of nine workers has none.
        assert_eq!(seen < expected - expected / 20, acks == "some", "{acks}: {copies}");
        assert_eq!(copies["again"].as_u64().is_some_and(|again| again > expected / 2), acks == "twice", "{copies}");
        let text = said(&pktgen(&[], &["diagnose", &ran.dir().display().to_string()], &[]).output().expect("it runs"));
        assert!(text.starts_with(answer), "{acks}: {text}");
    }
}

/// A device's violation ends the run, which reports it and remains readable.
#[test]
fn devices_that_misbehave_end_the_run() {
    for (how, part) in [
        ("die", "ended during the run (exit status: 7)"),
        ("hang", "does not answer within 5s"),
        ("silent", "closed the connection"),
        ("back", "goes back in time"),
        ("beyond", "up to which it was to act"),
        ("not-done", "says that it advanced to"),
        ("next-back", "goes back in time"),
        ("port", "leaves by port 4, and it has 4"),
        ("two-times", "frames of one answer leave at"),
        ("cut", "another length than it must have"),
        ("long", "a message has 65537 bytes"),
        ("unknown", "a message of kind 99"),
        ("flood", "more than 65536 frames leave at one instant"),
    ] {
        let words = [SWITCHML_DEVICE, &["--break", how, "--after", "50"]].concat();
        // The limit holds for the start of the device, too. Only these two use it up.
        let limit: &[&str] = if ["hang", "silent"].contains(&how) { &["target.lockstep.timeout=5s"] } else { &[] };
        let ran = Ran::coupled(SWITCHML, &words, limit);
        let text = said(&ran.output);
        assert_eq!(ran.output.status.code(), Some(1), "{how}: {text}");
        assert!(text.contains(part) && text.contains("C aggregators"), "{how}: {text}");
        let manifest = manifest(&ran.dir());
        assert_eq!(manifest["state"], json!("finished"), "{how}");
        assert_eq!(manifest["validity"]["faults"][0]["code"], json!("role_failed"), "{how}: {}", manifest["validity"]);
        assert!(number(&manifest["balance"]["sent"]) > 0, "{how}");
        let diagnosis = pktgen(&[], &["diagnose", &ran.dir().display().to_string()], &[]).output().expect("it runs");
        assert!(said(&diagnosis).starts_with("cause: lockstep_broken"), "{how}: {}", said(&diagnosis));
    }
}

/// A device advances to the end of time with the last frame if nothing leaves for it.
#[test]
fn a_wrong_end_has_the_time_of_the_last_frame() {
    let trio = SWITCHML.replace("\"switchml\"\npool = 32", "\"trio_ml\"\nwindow = 32");
    let device = lockstep().to_str().expect("a path");
    let words = ["sh", "-c", "\"$@\"; exit 1", "sh", device, "--ports", "4", "--protocol", "trio-ml", "--workers", "4"];
    let words = [&words[..], &["--timeout-ms", "10", "--mute"]].concat();
    let set = ["target.kind=external".to_owned(), format!("target.lockstep.command={}", json!(words))];
    let text = said(&Ran::of(&trio, &set, &["--allow-launch"]).output);
    assert!(text.contains("it ended with exit status: 1"), "{text}");
    assert!(text.contains(", after ") && !text.contains("2305843009"), "{text}");
}

#[test]
fn what_cannot_begin_leaves_nothing() {
    let refused = |set: &[String], more: &[&str], code: i32, part: &str| {
        let ran = Ran::of(SWITCHML, set, more);
        let text = said(&ran.output);
        assert_eq!(ran.output.status.code(), Some(code), "{text}");
        assert!(text.contains(part), "{part:?}: {text}");
        assert!(!ran.dir().exists(), "{part:?}: a folder");
    };
    let allowed = ["--allow-launch"];
    refused(&device(SWITCHML_DEVICE), &[], 2, "add --allow-launch");
    refused(&device(&["--ports", "3"]), &allowed, 3, "it has 3 ports, and this network gives it 4 links");
    refused(&device(&[SWITCHML_DEVICE, &["--break", "version-2"]].concat()), &allowed, 3, "it speaks version 2");
    refused(&device(&["--ports", "0"]), &allowed, 3, "ended before it connected");
    let set = |command: &str| vec!["target.kind=external".into(), format!("target.lockstep.command={command}")];
    refused(&set("[\"/no/such/program\"]"), &allowed, 3, "cannot be started");
    refused(&set("[]"), &allowed, 2, "names no device");
    let late = [set("[\"sleep\", \"100\"]"), vec!["target.lockstep.timeout=200ms".into()]].concat();
    refused(&late, &allowed, 3, "did not connect within 200ms");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let taken = folder.path().join("notes.txt");
    std::fs::write(&taken, "of somebody").expect("it is written");
    let set = ["target.kind=external".into(), format!("target.lockstep.socket={}", taken.display())];
    refused(&set, &[], 2, "it is there already");
    assert_eq!(std::fs::read_to_string(&taken).expect("it is left"), "of somebody");
    let more = |set: &str| [device(SWITCHML_DEVICE), set.split(' ').map(str::to_owned).collect()].concat();
    let several = more("topology.engines=2 endpoint.workers=trio_ml");
    refused(&several, &allowed, 2, "one process is one device, and this network has 3");
    refused(&more("target.lockstep.comand=x"), &allowed, 2, "unknown key \"target.lockstep.comand\"");
    Ran::of(SWITCHML, &more("target.kind=software"), &[]).valid();
}

/// A device that is started by hand, and one that does not end on request.
#[test]
fn a_device_by_hand_connects_to_the_socket() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("socket").display().to_string();
    // Compiled before the run waits for it.
    let device = lockstep();
    let started = std::thread::spawn({
        let socket = socket.clone();
        move || {
            eventually("the socket", || Path::new(&socket).exists());
            Command::new(device).args(SWITCHML_DEVICE).env("PKTGEN_LOCKSTEP", socket).status().expect("it runs")
        }
    });
    let set = [
        "target.kind=external".to_owned(),
        format!("target.lockstep.socket={socket}"),
        "target.lockstep.timeout=100s".to_owned(),
    ];
    let ran = Ran::of(SWITCHML, &set, &[]);
    ran.valid();
    assert!(started.join().expect("a status").success());
    assert!(!Path::new(&socket).exists(), "the socket is removed");
    let words = [SWITCHML_DEVICE, &["--break", "slow-end"]].concat();
    let ran = Ran::coupled(SWITCHML, &words, &["target.lockstep.timeout=5s"]);
    let text = said(&ran.output);
    assert!(ran.output.status.code() == Some(1) && text.contains("did not end within 5s"), "{text}");
}
