//! Third-party devices: DPDK's pipeline with programs in its language, the kernel's bridge with a token bucket, Open
//! vSwitch; each between interfaces of its own, and each run compared with the device's own counters.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::support::bench::{Counts, Device, cabled, lockstep, program};
use crate::support::netns::Net;
use crate::support::wired::{is_whole, manifest, pktgen, said};
use pktgen_testing::{Need, installed, skip, undisturbed};
use serde_json::{Value, json};

/// One test at a time: devices and runs need the cores.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../devices")
}

/// Returns the path of an experiment for tests of devices.
fn experiment(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/support/bench/{name}.toml")).display().to_string()
}

fn runs(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    output
}

/// Returns DPDK's pipeline, built from its sources at first use; none, with a skip, if DPDK is not installed.
fn swx(what: &str) -> Option<&'static Path> {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let there = Command::new("pkg-config").args(["--exists", "libdpdk"]).status().is_ok_and(|status| status.success());
    if !there {
        skip(Need::Dpdk, what, "pkg-config finds no libdpdk");
        return None;
    }
    let made = MADE.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("devices-{}", std::process::id()));
        runs(Command::new("make").arg("-C").arg(folder()).arg("swx").arg(format!("OUT={}", out.display())));
        out.join("swx")
    });
    Some(made)
}

/// The running pipeline with one of its programs.
struct Pipeline {
    device: Device,
    counters: PathBuf,
}

/// Writes the tables from the plan of an experiment's device.
fn tables(swx: &Path, plan: &[&str], set: &[&str], scratch: &Path) -> PathBuf {
    let words = [&["device", "plan"], plan].concat();
    let (plan, tables) = (scratch.join("plan.json"), scratch.join("tables.txt"));
    fs::write(&plan, runs(&mut pktgen(&[], &words, set)).stdout).expect("writable");
    fs::write(&tables, runs(Command::new(swx.join("tables")).arg(&plan)).stdout).expect("writable");
    tables
}

impl Pipeline {
    /// Starts the pipeline with a program and its tables.
    fn start(net: &Net, swx: &Path, spec: &str, ports: &str, tables: &Path) -> Pipeline {
        let counters = tables.with_file_name("counters.json");
        let path = |path: &Path| path.display().to_string();
        let (spec, tables, file) = (path(&swx.join(spec)), path(tables), path(&counters));
        let words = ["--ports", ports, "--spec", &spec, "--tables", &tables, "--counters", &file];
        Pipeline { device: Device::start_in(net, "e", &swx.join("swx"), &words), counters }
    }

    /// Stops it and returns its counters. Their file had them already, since the pipeline was idle.
    fn stop(self) -> Counts {
        let text = fs::read(&self.counters).expect("a file of counters");
        let before: Value = serde_json::from_slice(&text).expect("JSON");
        let counts = self.device.stop();
        for name in ["packets", "results", "updates", "acks"] {
            if let Some(value) = before.get(name) {
                assert_eq!(value.as_f64(), Some(counts.of(name)), "{name} in {before}");
            }
        }
        counts
    }
}

/// Runs an experiment in the namespace `h`. Returns its metrics; none if the machine disturbed it.
fn run(net: &Net, name: &str, set: &[&str], out: &Path) -> Option<impl Fn(&str) -> f64 + use<>> {
    let words = ["replay", &experiment(name), "--no-probe", "--out", &out.display().to_string()];
    let output = pktgen(&net.inside("h"), &words, set).stdin(Stdio::null()).output().expect("it runs");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
    if !is_whole(&manifest(out)) {
        return None;
    }
    assert!(output.status.success(), "{}", said(&output));
    let lines = runs(&mut pktgen(&[], &["analyze", "--json", &out.display().to_string()], &[])).stdout;
    let lines = String::from_utf8(lines).expect("UTF-8");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    Some(move |name: &str| {
        let of = |line: &&Value| line["metric"] == name && line["labels"] == json!({});
        lines.iter().find(of).and_then(|line| line["value"].as_f64()).unwrap_or_else(|| panic!("no {name}"))
    })
}

fn net(tag: &str, what: &str) -> Option<Net> {
    cabled(tag).inspect_err(|why| skip(Need::Netns, what, why)).ok()
}

#[test]
fn switchml_in_the_language_of_a_pipeline_sums_right() {
    let what = "SwitchML in DPDK's pipeline";
    let _alone = alone();
    let (Some(swx), true, Some(net)) = (swx(what), installed(Need::Python, what), net("swxsums", what)) else { return };
    for elements in [64, 256] {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let set = format!("workload.elements={elements}");
        let tables = tables(swx, &["tofino-switchml", &experiment("switchml")], &[&set], scratch.path());
        let found = undisturbed(what, |i| {
            let device = Pipeline::start(&net, swx, "switchml.spec", "e0", &tables);
            let metric = run(&net, "switchml", &[&set], &scratch.path().join(i.to_string()))?;
            Some((metric, device.stop()))
        });
        let Some((metric, counts)) = found else { continue };
        let sent = metric("sent");
        assert_eq!((metric("sums_wrong"), metric("unaccounted"), metric("duplicates")), (0.0, 0.0, 0.0), "{elements}");
        assert_eq!((counts.of("packets"), counts.of("results")), (sent, sent / 4.0), "{elements}");
        // One copy to the port that leads to all workers.
        assert_eq!((counts.of("port0_in"), counts.of("port0_out")), (sent, sent / 4.0), "{elements}");
    }
}

/// The aggregators in C, which tests call right, keep the rules of their pages that single packets show.
#[test]
fn aggregators_in_c_keep_the_rules_of_their_pages() {
    if installed(Need::Python, "rules of the aggregators in C") {
        let said = runs(Command::new("python3").arg(folder().join("lockstep/rules.py")).arg(lockstep()));
        let right = String::from_utf8_lossy(&said.stdout).matches(": right\n").count();
        assert_eq!(right, 5, "{said:?}");
    }
}

/// A wrong option ends the device before it opens a socket, with exit code 2, and the message names option, value and range.
#[test]
fn devices_in_c_refuse_wrong_options() {
    let (bench, none): (&[&str], &[&str]) = (&["--in", "lo"], &[]);
    for (device, before, option, value, range) in [
        (program(), bench, "--mbps", "fast", "not a number from 0 to 1e+06"),
        (program(), bench, "--wrong", "10%", "not a number from 0 to 1"),
        (program(), bench, "--strangers", "1.5", "not a number from 0 to 1"),
        (program(), bench, "--slots", "0", "not a whole number from 1 to 64"),
        (program(), bench, "--needs", "4x", "not a whole number from 0 to 32"),
        (program(), bench, "--seed", "-1", "not a whole number from 0 to 18446744073709551615"),
        (program(), bench, "--first", "10.0.0.300", "not an IPv4 address, 0.0.0.0 to 255.255.255.255"),
        (lockstep(), none, "--ports", "33", "not a whole number from 1 to 32"),
        (lockstep(), none, "--up", "1", "not below --ports, 1"),
    ] {
        let output = Command::new(device).args(before).args([option, value]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{option} {value}: {}", said(&output));
        let expected = format!("{option} {value}: {range}");
        assert!(said(&output).contains(&expected), "{expected}: {}", said(&output));
    }
    let output = Command::new(program()).args(["--in", "lo", "stray"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("stray: not an option"), "{}", said(&output));
}

/// A lossy device stands before the pipeline, on the way there or on the way back, so that workers retransmit packets
/// that the pipeline has received, before and after a sum is complete.
#[test]
fn repeated_packets_of_switchml_are_in_no_sum_twice() {
    let what = "repeated packets in DPDK's pipeline";
    let _alone = alone();
    let (Some(swx), true) = (swx(what), installed(Need::Python, what)) else { return };
    let cables = [(("h", "h0"), ("b", "b0")), (("b", "b1"), ("e", "e0"))];
    let net = Net::make("swxlost", &["h", "b", "e"], &cables);
    let Ok(net) = net.inspect_err(|why| skip(Need::Netns, what, why)) else { return };
    for (ends, counter) in [(["b0", "b1"], "duplicates_dropped"), (["b1", "b0"], "duplicates_answered")] {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let words = ["--in", ends[0], "--out", ends[1], "--fault", "drop", "--share", "0.05", "--seed", "7"];
        let tables = tables(swx, &["tofino-switchml", &experiment("switchml")], &[], scratch.path());
        let found = undisturbed(what, |i| {
            let loser = Device::start_in(&net, "b", program(), &words);
            let device = Pipeline::start(&net, swx, "switchml.spec", "e0", &tables);
            let metric = run(&net, "switchml", &["endpoint.retransmit=20ms"], &scratch.path().join(i.to_string()))?;
            Some((metric, device.stop(), loser.stop()))
        });
        let Some((metric, counts, lost)) = found else { continue };
        assert_eq!(metric("sums_wrong"), 0.0, "{counter}");
        assert!(lost.of("dropped") > 0.0 && counts.of(counter) > 0.0, "{counter}: {lost:?} {counts:?}");
    }
}

#[test]
fn olaf_in_the_language_of_a_pipeline_identifies_updates_and_multicasts_acks() {
    let what = "OLAF's identification in DPDK's pipeline";
    let _alone = alone();
    let (Some(swx), true, Some(net)) = (swx(what), installed(Need::Python, what), net("swxolaf", what)) else { return };
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let tables = tables(swx, &["alveo-u55c-olaf", &experiment("olaf")], &[], scratch.path());
    let set = ["transport.on_wire=strict", "target.program=forward", "target.queue=fifo", "transport.tap=tap.pcapng"];
    let found = undisturbed(what, |i| {
        let device = Pipeline::start(&net, swx, "olaf.spec", "e0,e1", &tables);
        let out = scratch.path().join(i.to_string());
        let metric = run(&net, "olaf", &set, &out)?;
        Some((metric, device.stop(), out))
    });
    let Some((metric, counts, out)) = found else { return };
    let sent = metric("sent");
    assert_eq!((metric("received"), metric("damaged"), metric("duplicates")), (sent, 0.0, 0.0));
    assert_eq!((counts.of("updates"), counts.of("acks"), counts.of("other")), (sent, sent, 0.0));
    let groups = multicast(&fs::read(out.join("tap-workers.pcapng")).expect("a tap"));
    assert_eq!(groups as f64, sent, "each ACK at the workers' interface is for a group");
}

/// Counts the frames from OLAF's server to groups 239.20.0.0 to 239.20.0.2, by their addresses.
fn multicast(capture: &[u8]) -> usize {
    let to_group = |bytes: &&[u8]| bytes[..7] == [10, 20, 255, 1, 239, 20, 0] && bytes[7] < 3;
    capture.windows(8).filter(to_group).count()
}

/// Returns whether the kernel has the scheduler, by assigning it to an interface.
fn has_tbf(net: &Net) -> bool {
    let inside = net.inside("e");
    let words = ["tc", "qdisc", "add", "dev", "e1", "root", "tbf", "rate", "1mbit", "burst", "2000", "limit", "3000"];
    let made = Command::new(&inside[0]).args(&inside[1..]).args(words).output();
    let _ = Command::new(&inside[0]).args(&inside[1..]).args(["tc", "qdisc", "del", "dev", "e1", "root"]).output();
    let why = match made {
        Ok(output) if output.status.success() => return true,
        Ok(output) => said(&output),
        Err(e) => e.to_string(),
    };
    skip(Need::Tbf, "the kernel's bridge and token bucket", why);
    false
}

/// Frames of 256 bytes take 1 ms at 2 Mbit/s, much longer than the delays of the kernel's timers. 1.5 times this rate is offered.
#[test]
fn a_token_bucket_loses_what_our_fifo_loses() {
    let (_alone, Some(net)) = (alone(), net("tbf", "the kernel's bridge and token bucket")) else { return };
    if !has_tbf(&net) {
        return;
    }
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let words = ["--in", "e0", "--out", "e1", "--rate", "2mbit", "--frame", "256", "--slots", "8"];
    let same = [
        "target.program=forward",
        "target.queue=fifo",
        "target.slot_in_transmission=false",
        "topology.rate=2Mbps",
        "schedule.offered=3Mbps",
    ];
    let more =
        ["target.kind=software", r#"transport.kind="virtual""#, "transport.interfaces=[]", "transport.wait=spin"];
    let ours = run(&net, "olaf", &[&same[..], &more].concat(), &scratch.path().join("ours"));
    let ours = ours.expect("virtual time")("loss");
    assert!(ours > 0.25, "more is offered than the link takes: {ours}");
    undisturbed("losses of a token bucket are those of our FIFO", |i| {
        let device = Device::start_in(&net, "e", &folder().join("kernel/bridge"), &words);
        let kernel = run(&net, "olaf", &same, &scratch.path().join(i.to_string()));
        let (counts, kernel) = (device.stop(), kernel?);
        assert_eq!(kernel("sent") - kernel("received"), counts.of("queue_dropped"), "{counts:?}");
        ((kernel("loss") - ours).abs() < 0.04).then_some(())
    });
}

fn has_ovs(what: &str) -> bool {
    let there = ["/usr/sbin/ovs-vswitchd", "/usr/bin/ovs-vswitchd"].iter().any(|path| Path::new(path).exists());
    if !there {
        skip(Need::Ovs, what, "no ovs-vswitchd");
    }
    there
}

#[test]
fn open_vswitch_forwards() {
    let what = "Open vSwitch as a forwarder";
    let _alone = alone();
    let (true, Some(net)) = (has_ovs(what), net("ovs", what)) else { return };
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let state = scratch.path().join("state");
    let words = ["--ports", "e0,e1", "--run", &state.display().to_string()];
    // On a busy machine, the switch loses frames before it reads them.
    let whole = undisturbed(what, |i| {
        let device = Device::start_in(&net, "e", &folder().join("kernel/ovs"), &words);
        let metric = run(&net, "olaf", &FORWARD, &scratch.path().join(i.to_string()));
        let (counts, metric) = (device.stop(), metric?);
        assert_eq!((metric("duplicates"), metric("damaged")), (0.0, 0.0));
        assert!(counts.of("port0_in") >= metric("sent") && counts.of("port1_out") >= metric("received"), "{counts:?}");
        assert!(metric("received") > 0.0 && !state.exists(), "its folder is gone");
        (metric("unaccounted") == 0.0).then_some(metric("received"))
    });
    assert!(whole.is_none_or(|received| received == 1350.0), "{whole:?}");
}

const FORWARD: [&str; 3] = ["target.program=forward", "target.queue=fifo", "schedule.offered=2Mbps"];

/// Runs an experiment whose device is this command, in a namespace whose interfaces pktgen makes itself.
fn launched(net: &Net, name: &str, launch: &Value, set: &[&str], scratch: &Path) -> Output {
    let text = fs::read_to_string(experiment(name)).expect("an experiment");
    let lines = launch.as_object().expect("keys").iter().map(|(key, value)| format!("{key} = {value}\n"));
    let file = scratch.join("experiment.toml");
    fs::write(&file, format!("{text}\n[target.launch]\n{}", lines.collect::<String>())).expect("writable");
    let out = scratch.join(format!("{}-{name}", launch["ports"].as_array().map_or(0, Vec::len)));
    let words =
        ["replay", &file.display().to_string(), "--allow-launch", "--no-report", "--out", &out.display().to_string()];
    let output = pktgen(&net.inside("h"), &words, set).output().expect("it runs");
    let _ = fs::remove_dir_all(out);
    output
}

#[test]
fn devices_of_others_are_launched() {
    let (_alone, what) = (alone(), "devices of others that pktgen starts");
    let made = Net::make("launched", &["h"], &[]).inspect_err(|why| skip(Need::Netns, what, why));
    let Ok(net) = made else { return };
    let users = Command::new("unshare").args(["--user", "true"]).output().expect("unshare runs");
    if !users.status.success() {
        return skip(Need::Userns, what, said(&users));
    }
    let scratch = tempfile::tempdir().expect("a temporary folder");
    // A device runs as a separate user, who must read its tables.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
    let path = |path: &Path| path.display().to_string();
    let two = |command: Value| json!({ "command": command, "ports": ["e0", "e1"], "ready": "forward" });
    let bridge = two(json!([path(&folder().join("kernel/bridge")), "--in", "e0", "--out", "e1"]));
    let mut devices = vec![("olaf", bridge, FORWARD.to_vec())];
    if has_ovs(what) {
        let ovs = json!([path(&folder().join("kernel/ovs")), "--ports", "e0,e1", "--run", "/run/ovs"]);
        devices.push(("olaf", two(ovs), FORWARD.to_vec()));
    }
    if let (Some(swx), true) = (swx(what), installed(Need::Python, what)) {
        let tables = tables(swx, &["tofino-switchml", &experiment("switchml")], &[], scratch.path());
        let (program, spec, tables) = (path(&swx.join("swx")), path(&swx.join("switchml.spec")), path(&tables));
        let command =
            json!([program, "--ports", "e0", "--spec", spec, "--tables", tables, "--counters", "/run/counters.json"]);
        // The pipeline compiles its program at the start.
        let file = json!({ "command": command, "ports": ["e0"], "ready": "file", "file": "/run/counters.json", "timeout": "60s" });
        devices.push(("switchml", file, Vec::new()));
    }
    for (name, launch, set) in devices {
        let output = launched(&net, name, &launch, &set, scratch.path());
        assert!(output.status.success(), "{launch}: {}", said(&output));
    }
}
