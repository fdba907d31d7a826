//! Devices in Verilog (`devices/rtl`): against their naive models and through the lockstep, and between interfaces of
//! their own, where each run is compared with the device's counters.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::support::bench::{Device, cabled};
use crate::support::netns::Net;
use crate::support::wired::{is_whole, manifest, pktgen, said};
use pktgen_testing::{Need, skip, undisturbed};
use serde_json::Value;

/// One test at a time: devices and runs need the cores.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Builds a target of `devices/rtl`; returns the output folder.
fn made(target: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../devices/rtl");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rtl");
    let output = Command::new("make")
        .arg("-C")
        .arg(&sources)
        .args([target, &format!("OUT={}", out.display()), "PACKETS=20000"])
        .output()
        .expect("make runs");
    assert!(output.status.success(), "{}", said(&output));
    out
}

/// Returns the devices, built from their sources at first use; none, with a skip, without Verilator.
fn devices(what: &str) -> Option<&'static Path> {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    if let Err(why) = Command::new("verilator").arg("--version").output() {
        skip(Need::Verilator, what, why);
        return None;
    }
    Some(MADE.get_or_init(|| made("all")))
}

/// Runs an experiment of the tests of devices in the namespace `h`. Returns its metrics and the manifest; none if the machine disturbed it.
fn run(net: &Net, name: &str, set: &[&str], out: &Path) -> Option<(impl Fn(&str) -> f64 + use<>, Value)> {
    let experiment = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/support/bench/{name}.toml"));
    let words = ["replay", &experiment.display().to_string(), "--no-probe", "--out", &out.display().to_string()];
    let output = pktgen(&net.inside("h"), &words, set).output().expect("it runs");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
    let manifest = manifest(out);
    if !is_whole(&manifest) {
        return None;
    }
    assert!(output.status.success(), "{}", said(&output));
    let lines = pktgen(&[], &["analyze", "--json", &out.display().to_string()], &[]).output().expect("it runs").stdout;
    let lines = String::from_utf8(lines).expect("UTF-8");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let metric = move |name: &str| {
        let of = |line: &&Value| line["metric"] == name && line["labels"] == serde_json::json!({});
        lines.iter().find(of).and_then(|line| line["value"].as_f64()).unwrap_or_else(|| panic!("no {name}"))
    };
    Some((metric, manifest))
}

/// 20,000 packets each, with repeats and losses, against models of the protocols; two million sums of floats against the host's; the
/// lockstep. `make test-long` does it with five times as many, and asks whether this finds Verilog with a rule broken.
#[test]
fn verilog_does_what_its_models_do() {
    let what = "Verilog against its models";
    let _alone = alone();
    if devices(what).is_some() {
        made("test");
    }
}

/// The tops without the harness, on another simulator.
#[test]
fn verilog_passes_the_tests_of_cocotb() {
    let _alone = alone();
    match Command::new("iverilog").arg("-V").output() {
        Ok(_) => drop(made("cocotb")),
        Err(why) => skip(Need::Cocotb, "the Verilog of devices/rtl by cocotb", why),
    }
}

#[test]
fn switchml_in_verilog_sums_right() {
    let what = "SwitchML in Verilog";
    let _alone = alone();
    let (Some(devices), Ok(net)) = (devices(what), cabled("rtlsums").inspect_err(|why| skip(Need::Netns, what, why)))
    else {
        return;
    };
    for elements in [64, 256] {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let counters = scratch.path().join("counters.json");
        let (file, set) = (counters.display().to_string(), format!("elements={elements}"));
        // Addresses of the profile tofino-switchml.
        let words = ["--packet", "e0", "--counters", &file, "--set", "first=10.40.0.1", "--set", "address=10.40.0.254"];
        let more = ["--set", "mac=02:40:0a:28:00:fe", "--set", "group=239.40.0.0", "--set", "pool=32", "--set", &set];
        let arguments = [&words[..], &more].concat();
        let set = format!("workload.elements={elements}");
        let found = undisturbed(what, |i| {
            let device = Device::start_in(&net, "e", &devices.join("switchml"), &arguments);
            let (metric, _) = run(&net, "switchml", &[&set], &scratch.path().join(i.to_string()))?;
            Some((metric, device.stop()))
        });
        let Some((metric, counts)) = found else { continue };
        let sent = metric("sent");
        assert_eq!((metric("sums_wrong"), metric("unaccounted"), metric("duplicates")), (0.0, 0.0, 0.0), "{elements}");
        let counted = (counts.of("packets"), counts.of("results"), counts.of("frames_out"));
        assert_eq!(counted, (sent, sent / 4.0, sent / 4.0), "{elements}: {counts:?}");
        let text = fs::read(&counters).expect("a file of counters");
        let last: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(last["results"].as_f64(), Some(counts.of("results")));
    }
}

/// Experiments whose device is Verilog in lockstep, without its command.
const IN_LOCKSTEP: [(&str, &str); 2] = [
    (
        "switchml",
        r#"
name = "switch"
workload = { kind = "dense", model = "resnet50", scale = 0.002, workers = 4, iterations = 3, elements = 256, compute = "1ms" }
topology = { kind = "rack" }
endpoint = { workers = "switchml", pool = 32 }
target = { kind = "external", check = false, pool = 32 }
"#,
    ),
    (
        "olaf",
        r#"
name = "card"
workload = { kind = "rl", clusters = 8, workers_per_cluster = 3, updates = 10, bytes = "256B" }
schedule = { kind = "constant", offered = "1Mbps" }
topology = { kind = "bottleneck", rate = "4Mbps" }

[target]
kind = "external"
program = "olaf"
queue = "olaf"
slots = 5
slot_in_transmission = false
reward_filter = false
merged_reward = "max"
"#,
    ),
];

/// Every repeat starts a new device.
#[test]
fn verilog_conforms() {
    let what = "certificates of Verilog";
    let _alone = alone();
    let Some(devices) = devices(what) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, experiment) in IN_LOCKSTEP {
        let words = match name {
            "olaf" => {
                "--lockstep --ports 2 --rate 4e6 --set workers=24 --set per_cluster=3 --set slots=5 --set server_port=1"
            }
            _ => "--lockstep --ports 4 --set pool=32",
        };
        let program = devices.join(name).display().to_string();
        let command: Vec<_> = std::iter::once(program.as_str()).chain(words.split(' ')).collect();
        let command = format!("target.lockstep.command={}", serde_json::json!(command));
        let (file, out) = (folder.path().join(format!("{name}.toml")), folder.path().join(name).display().to_string());
        fs::write(&file, experiment).expect("writable");
        let words = ["certify", &file.display().to_string(), "--allow-launch", "--repeats", "1", "--out", &out];
        let output = pktgen(&[], &words, &[&command]).output().expect("it runs");
        assert!(output.status.success(), "{name}: {}", said(&output));
    }
}

#[test]
fn devices_in_verilog_refuse_wrong_options() {
    let Some(devices) = devices("options of devices in Verilog") else { return };
    for (option, value, range) in [
        ("--rate", "40Gbps", "not a number from 0 to 1e+13"),
        ("--store", "64k", "not a whole number from 64 to 1000000000"),
        ("--room", "1e3", "not a whole number from 1 to 1000000000"),
        ("--ports", "33", "not a whole number from 1 to 32"),
    ] {
        let output =
            Command::new(devices.join("olaf")).args(["--packet", "lo", option, value]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{option} {value}: {}", said(&output));
        let expected = format!("{option} {value}: {range}");
        assert!(said(&output).contains(&expected), "{expected}: {}", said(&output));
    }
}

/// The link carries half of the offered load. Lanes prove the members of sums.
#[test]
fn olaf_in_verilog_merges_right() {
    let what = "OLAF's queue in Verilog";
    let _alone = alone();
    let (Some(devices), Ok(net)) = (devices(what), cabled("rtlolaf").inspect_err(|why| skip(Need::Netns, what, why)))
    else {
        return;
    };
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let trace = scratch.path().join("trace").display().to_string();
    // Addresses of the profile alveo-u55c-olaf.
    let words =
        ["--packet", "e0,e1", "--rate", "5e6", "--trace", &trace, "--set", "workers=9", "--set", "first=10.20.0.1"];
    let more = ["--set", "server=10.20.255.1", "--set", "group=239.20.0.0"];
    let arguments = [&words[..], &more].concat();
    let set = ["transport.on_wire=strict", "format.lanes=true"];
    let found = undisturbed(what, |i| {
        let device = Device::start_in(&net, "e", &devices.join("olaf"), &arguments);
        let (metric, manifest) = run(&net, "olaf", &set, &scratch.path().join(i.to_string()))?;
        Some((metric, manifest, device.stop()))
    });
    let Some((metric, manifest, counts)) = found else { return };
    let (sent, received) = (metric("sent"), metric("received"));
    assert_eq!((metric("sums_wrong"), metric("damaged"), metric("duplicates")), (0.0, 0.0, 0.0));
    assert_eq!(
        (counts.of("updates"), counts.of("departed"), counts.of("acks")),
        (sent, received, received),
        "{counts:?}"
    );
    assert!(counts.of("merged") > 100.0, "{counts:?}");
    let notes = manifest["validity"]["notes"].to_string();
    assert!(notes.contains("sums_checked_by_lanes"), "{notes}");
    // The trace has a line for each decision and each departure, and contributions of departures are those that were not dropped.
    let trace = fs::read_to_string(trace).expect("a trace");
    let of = |action: &str| trace.lines().filter(|line| line.split('\t').nth(1) == Some(action)).count() as f64;
    assert_eq!((of("merged"), of("departed")), (counts.of("merged"), received));
    let departed = trace.lines().filter(|line| line.contains("departed")).filter_map(|line| line.split('\t').nth(3));
    let members: f64 = departed.map(|count| count.parse::<f64>().expect("a number")).sum();
    let gone = ["subsumed", "queue_full", "outranked", "reward_low"].map(|name| counts.of(name)).iter().sum::<f64>();
    assert_eq!(members + gone, sent, "{counts:?}");
}
