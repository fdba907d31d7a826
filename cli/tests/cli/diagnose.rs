//! `pktgen diagnose`: predetermined causes are found in runs through a third-party device with one or two faults, none is reported for
//! healthy runs, and no undecidable cause is reported. `devices/faults` tries all causes at three intensities each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::bench;
use crate::support::netns::Net;
use crate::support::wired::{manifest, pktgen, said};
use pktgen_testing::{Need, skip, undisturbed};
use serde_json::{Value, json};

/// Returns a network for the host's ends; none if devices cannot be launched.
fn net(tag: &str) -> Option<Net> {
    let net = Net::make(tag, &["h"], &[]).inspect_err(|why| skip(Need::Netns, "launched devices", why)).ok()?;
    let users = Command::new("unshare").args(["--user", "true"]).output().expect("unshare runs");
    if !users.status.success() {
        skip(Need::Userns, "launched devices", said(&users));
        return None;
    }
    Some(net)
}

/// A device with faults, and the causes that must be found.
struct Cell {
    causes: &'static [&'static str],
    experiment: &'static str,
    device: &'static str,
    set: &'static [&'static str],
    /// A separate cable with faults, behind the device or before it.
    cable: Cable,
}

#[derive(Clone, Copy)]
enum Cable {
    None,
    Before(&'static str),
    Behind(&'static str),
}

/// Command that reads the device's counters from the file that the device writes.
const COUNTERS: &str = "sleep 0.1; cat /run/counters.json";

const FORWARDS: &[&str] = &["target.program=forward", "target.queue=fifo"];
/// Proof of which updates a packet holds.
const LANES: &[&str] = &["format.lanes=true"];
const OLAF: &str = "--first 10.20.0.1 --workers 9";
const ADDER: &str = "--protocol olaf --first 10.20.0.1 --workers 9 --per-cluster 3 --group 239.20.0.0 --mbps 4";
const SWITCH: &str = "--protocol switchml --first 10.40.0.1 --workers 4 --group 239.40.0.0";
const ROUTER: &str = "--protocol trio-ml --first 10.50.0.1 --workers 4 --group 239.50.0.0";

fn forward(causes: &'static [&'static str], device: &'static str) -> Cell {
    Cell { causes, experiment: "olaf", device, set: FORWARDS, cable: Cable::None }
}

fn switch(causes: &'static [&'static str], device: &'static str) -> Cell {
    Cell { causes, experiment: "switchml", device, set: &[], cable: Cable::None }
}

fn raw(causes: &'static [&'static str], device: &'static str, set: &'static [&'static str]) -> Cell {
    Cell { causes, experiment: "raw", device, set, cable: Cable::None }
}

fn router(causes: &'static [&'static str], device: &'static str) -> Cell {
    Cell { causes, experiment: "trio-ml", device, set: &[], cable: Cable::None }
}

/// Returns an OLAF aggregator with more arguments after those of [`ADDER`].
fn aggregator(causes: &'static [&'static str], more: &str) -> Cell {
    Cell { causes, experiment: "olaf", device: format!("{ADDER} {more}").leak(), set: LANES, cable: Cable::None }
}

/// Returns the cell with a separate cable.
fn over(cell: Cell, cable: Cable) -> Cell {
    Cell { cable, ..cell }
}

/// Makes the cable; the kernel sends no packets of its own over it.
const CABLE: &str = "ip link add c0 type veth peer name c1
for end in c0 c1; do ip link set $end addrgenmode none; ip link set $end up; done\n";

/// Runs a cell; returns its folder, and the diagnosis with its exit code.
fn diagnosed(net: &Net, cell: &Cell, tap: bool) -> (tempfile::TempDir, Value, Option<i32>) {
    diagnosed_by(net, cell, tap, COUNTERS)
}

/// The same with other counters of the device.
fn diagnosed_by(net: &Net, cell: &Cell, tap: bool, counters: &str) -> (tempfile::TempDir, Value, Option<i32>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/support/bench/{}.toml", cell.experiment));
    let (ports, protocol) = match cell.experiment {
        "olaf" => (&["e0", "e1"][..], if cell.device.contains("--protocol") { "" } else { OLAF }),
        "raw" => (&["e0", "e1"][..], ""),
        "trio-ml" => (&["e0"][..], ROUTER),
        _ => (&["e0"][..], SWITCH),
    };
    let out = if ports.len() == 2 { "--out e1" } else { "" };
    let counts = "/run/counters.json";
    let program = bench::program().display();
    let (cable, ends) = match cell.cable {
        Cable::None => (String::new(), format!("--in e0 {out}")),
        Cable::Before(words) => {
            (format!("{CABLE}{program} --seed 9 --in e0 --out c0 {words} &"), format!("--in c1 {out}"))
        }
        Cable::Behind(words) => {
            (format!("{CABLE}{program} --seed 9 --in c1 --out e1 {words} &"), "--in e0 --out c0".to_owned())
        }
    };
    let script = format!("{cable}\nexec {program} {ends} --seed 7 --counters {counts} {protocol} {}", cell.device);
    let launch = format!(
        "command = {}\nports = {}\nready = \"file\"\nfile = \"{counts}\"\ncounters = {}\n",
        json!(["sh", "-c", script]),
        json!(ports),
        json!(["sh", "-c", counters])
    );
    let mut text = fs::read_to_string(source).expect("an experiment");
    if tap {
        text = text.replace("[transport]\n", "[transport]\ntap = \"tap.pcapng\"\n");
    }
    let experiment = folder.path().join("experiment.toml");
    fs::write(&experiment, format!("{text}\n[target.launch]\n{launch}")).expect("writable");
    let (experiment, run) = (experiment.display().to_string(), folder.path().join("run"));
    let words = ["-q", "replay", &experiment, "--allow-launch", "--no-report", "--out", &run.display().to_string()];
    fs::write(folder.path().join("pattern.pcap"), pattern()).expect("writable");
    let set: Vec<_> =
        cell.set.iter().map(|set| set.replace("{folder}", &folder.path().display().to_string())).collect();
    let set: Vec<_> = set.iter().map(String::as_str).collect();
    let replay = pktgen(&net.inside("h"), &words, &set).output().expect("it runs");
    assert!(run.join("manifest.json").exists(), "{}: {}", cell.device, said(&replay));
    let (found, code) = diagnosis(&run);
    (folder, found, code)
}

/// Returns a capture of four typical frames: TCP without a checksum, as offload leaves it, ARP, IPv6, and UDP without a
/// checksum over IPv4.
fn pattern() -> Vec<u8> {
    let ip = |protocol: u8, payload: &[u8]| {
        let mut ip =
            vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 1, 0, 0, 64, protocol, 0, 0, 192, 168, 0, 1, 192, 168, 0, 2];
        ip.extend_from_slice(payload);
        ip
    };
    let udp = [&[3, 232, 7, 208, 0, 48, 0, 0][..], &[7; 40]].concat();
    let frames =
        [(0x0800u16, ip(6, &[9; 60])), (0x0806, vec![1; 46]), (0x86dd, vec![0x60; 80]), (0x0800, ip(17, &udp))];
    let mut file = [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for (n, (kind, payload)) in frames.iter().enumerate() {
        let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &kind.to_be_bytes(), payload].concat();
        let len = frame.len() as u32;
        file.extend([0, n as u32, len, len].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    file
}

fn diagnosis(run: &Path) -> (Value, Option<i32>) {
    let output = pktgen(&[], &["diagnose", &run.display().to_string(), "--json"], &[]).output().expect("it runs");
    let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
    (found, output.status.code())
}

fn codes(found: &Value) -> Vec<&str> {
    let causes = found["causes"].as_array().expect("causes");
    causes.iter().map(|cause| cause["code"].as_str().expect("a code")).collect()
}

/// Returns whether a cell's result is due to a busy host that was late or lost frames, or to its device. A device that
/// keeps updates for so long was not running.
fn is_busy(found: &Value) -> bool {
    const STOOD_STILL_PS: u64 = 50_000_000_000;
    let parts = found["breakdown"]["parts"].as_array();
    let in_device = parts.and_then(|parts| parts.iter().find(|part| part["place"] == "device"));
    let stood = in_device.and_then(|part| part["mean_ps"].as_u64()).is_some_and(|mean| mean > STOOD_STILL_PS);
    stood || codes(found).iter().any(|code| ["host_late", "host_overrun", "device_overrun"].contains(code))
}

/// Tries cells; reports those whose diagnosis is wrong.
fn hold(tag: &str, cells: &[Cell]) {
    let Some(net) = net(tag) else { return };
    let mut misses = Vec::new();
    for cell in cells {
        let is_right = |found: &Value, code: Option<i32>| {
            let named = codes(found);
            let first = named.first().is_some_and(|first| cell.causes.contains(first));
            let all = cell.causes.iter().all(|cause| named.iter().take(3).any(|code| code == cause));
            let evidence = found["causes"][0]["evidence"].as_array().is_some_and(|proofs| !proofs.is_empty());
            first && all && evidence && (code == Some(1) || code == Some(4))
        };
        let wrong = undisturbed(&format!("the diagnosis of {}", cell.device), |_| {
            let (_folder, found, code) = diagnosed(&net, cell, true);
            let right = is_right(&found, code);
            (right || !is_busy(&found)).then(|| (!right).then_some((found, code)))
        });
        if let Some(Some((found, code))) = wrong {
            misses.push(format!("{}: {:?} wanted, exit code {code:?}: {found}", cell.device, cell.causes));
        }
    }
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

#[test]
fn faults_of_a_forwarder_are_found() {
    hold(
        "diagforward",
        &[
            forward(&["dropped_at_random"], "--fault drop --share 0.1"),
            forward(&["device_stopped"], "--after 700"),
            forward(&["worker_unknown"], "--lacks 2"),
            forward(&["bits_flipped"], "--fault corrupt --share 0.1"),
            forward(&["truncated"], "--cut 0.1"),
            forward(&["copies"], "--fault duplicate --share 0.1"),
            forward(&["wrong_destination"], "--station 0.1"),
            forward(&["wrong_destination"], "--station 1"),
            forward(&["length_wrong"], "--length 0.1"),
            forward(&["wrong_destination"], "--astray 0.3"),
            forward(&["device_silent"], "--fault mute"),
        ],
    );
}

#[test]
fn faults_of_aggregators_are_found() {
    hold(
        "diagadders",
        &[
            switch(&["contribution_missing"], "--early 0.1"),
            switch(&["stale_sum"], "--stale 0.1"),
            switch(&["waits_for_others"], "--needs 5"),
            switch(&["wrong_destination"], "--group 239.99.0.0"),
            switch(&["strangers"], "--strangers 0.6"),
            switch(&["byte_order"], "--swap 0.2"),
            router(&["adds_wrongly"], "--wrong 0.15"),
            router(&["worker_unknown"], "--lacks 1"),
            aggregator(&["worker_unknown"], "--lacks 2"),
            Cell { set: &[], ..forward(&["not_merged", "device_drops"], "--fault drop --share 0.5") },
            aggregator(&["worker_not_merged"], "--workers 7"),
        ],
    );
}

/// Frames to many destinations; a length limit that only some flows exceed gives no more information than that.
#[test]
fn faults_of_raw_traffic_are_found() {
    const ANYWHERE: &[&str] = &["workload.vary=[\"ip_dst=random:10.0.0.1..10.0.3.254\"]"];
    hold(
        "diagraw",
        &[
            raw(&["bits_flipped"], "--fault corrupt --share 0.1", ANYWHERE),
            raw(&["truncated"], "--cut 0.1", ANYWHERE),
            raw(&["too_long", "worker_unknown"], "--longest 300", &[]),
            raw(&["wrong_destination"], "--address 0.2", &[]),
        ],
    );
}

#[test]
fn two_faults_at_once_are_both_found() {
    hold(
        "diagpairs",
        &[
            forward(&["worker_unknown", "bits_flipped"], "--lacks 2 --fault corrupt --share 0.1"),
            forward(&["copies", "acks_lost"], "--fault duplicate --share 0.2 --acks 0.3"),
        ],
    );
}

#[test]
fn healthy_runs_have_no_cause_and_shares_that_add_up() {
    const PATTERN: &[&str] = &[
        "workload.pattern={folder}/pattern.pcap",
        "workload.packets=1200",
        "workload.vary=[]",
        "workload.sizes=[]",
        "workload.flows=4",
    ];
    let Some(net) = net("diaghealthy") else { return };
    let cells = [
        forward(&[], ""),
        aggregator(&[], ""),
        over(aggregator(&[], ""), Cable::Behind("")),
        switch(&[], ""),
        router(&[], ""),
        raw(&[], "", &["workload.vary=[\"ip_dst=random:10.0.0.1..10.0.3.254\"]"]),
        raw(&[], "", PATTERN),
    ];
    for cell in &cells {
        let tried = undisturbed(&format!("the diagnosis of a healthy device, {}", cell.device), |_| {
            Some(diagnosed(&net, cell, true)).filter(|(_, found, _)| !is_busy(found))
        });
        let Some((_folder, found, code)) = tried else { continue };
        assert_eq!((codes(&found), code), (vec![], Some(0)), "{}: {found}", cell.device);
        let breakdown = &found["breakdown"];
        let parts = breakdown["parts"].as_array().expect("parts");
        assert_eq!(parts.iter().filter_map(|part| part["share_ppm"].as_u64()).sum::<u64>(), 1_000_000, "{found}");
        let ended: u64 = breakdown["ended"].as_array().expect("ends").iter().filter_map(|end| end[1].as_u64()).sum();
        assert!(breakdown["came"].as_u64().expect("a number") + ended > 0, "{found}");
    }
}

#[test]
fn what_only_a_capture_shows_is_not_guessed() {
    let Some(net) = net("diagunknown") else { return };
    let tried = undisturbed("the diagnosis of a switch without a capture", |_| {
        Some(diagnosed(&net, &switch(&[], "--early 0.5"), false)).filter(|(_, found, _)| !is_busy(found))
    });
    let Some((_folder, found, code)) = tried else { return };
    assert_eq!(code, Some(4), "{found}");
    assert_eq!(found["answer"], "cannot_tell", "{found}");
    assert!(found["unknown"].to_string().contains("transport.tap"), "{found}");
}

#[test]
fn what_is_lost_on_a_link_or_in_the_device_is_found_by_balances() {
    const AGAIN: &[&str] = &["endpoint.retransmit=20ms"];
    hold(
        "diaglinks",
        &[
            over(aggregator(&["link_lost"], ""), Cable::Behind("--fault drop --share 0.05")),
            over(aggregator(&["link_lost"], ""), Cable::Behind("--acks 0.1")),
            over(aggregator(&["link_lost"], ""), Cable::Before("--acks 0.1")),
            over(forward(&["link_lost"], ""), Cable::Before("--fault drop --share 0.1")),
            over(Cell { set: AGAIN, ..switch(&["link_lost"], "") }, Cable::Before("--acks 0.05")),
            over(aggregator(&["link_lost", "device_drops"], "--fault drop --share 0.3"), Cable::Behind("--bursts 0.5")),
            aggregator(&["device_drops"], "--fault drop --share 0.1"),
            Cell { device: ADDER.replace(" --group 239.20.0.0", "").leak(), ..aggregator(&["acks_to_some"], "") },
        ],
    );
}

/// Updates are merged, replaced or lost: without counters these cannot be told apart, and without lanes no sums are checked.
#[test]
fn a_run_whose_books_have_holes_is_not_said_to_be_right() {
    let Some(net) = net("diagholes") else { return };
    let open = |found: &Value, code: &str| {
        let cautions = found["cautions"].as_array().expect("cautions");
        cautions.iter().any(|caution| caution["code"] == code && caution["open"].is_string())
    };
    // In bursts more updates are merged, and some sums have too many members to be told apart.
    let undecided = |cell: &Cell, counters: &str, checked: bool| {
        let tried = |_| {
            let (folder, found, code) = diagnosed_by(&net, cell, true, counters);
            let right = (codes(&found), code) == (vec![], Some(4)) && found["symptoms"] == json!([]);
            let cautions = found["cautions"].as_array().expect("cautions");
            let late = cautions.iter().any(|caution| caution["code"] == "late_by_host") || is_busy(&found);
            assert!(right || late, "{found}");
            assert!(!right || found["answer"] == "cannot_tell", "{found}");
            (right && !(checked && late && open(&found, "sums_not_checked"))).then_some((folder, found))
        };
        undisturbed("runs whose books have holes", tried)
    };
    let lossy = over(aggregator(&[], ""), Cable::Behind("--fault drop --share 0.1"));
    let Some((_folder, found)) = undecided(&lossy, "echo '{}'", false) else { return };
    assert!(found["unknown"].to_string().contains("nothing counts what it sent"), "{found}");
    let silent = aggregator(&[], "--fault drop --share 0.1");
    let in_and_out = "sleep 0.1; sed 's/,\"dropped.*/}/' /run/counters.json";
    let Some((_folder, found)) = undecided(&silent, in_and_out, false) else { return };
    assert!(found["unknown"].to_string().contains("what became of the updates"), "{found}");
    let unchecked = Cell { set: &[], ..aggregator(&[], "") };
    let Some((_folder, found)) = undecided(&unchecked, COUNTERS, false) else { return };
    assert!(open(&found, "sums_not_checked"), "{found}");
    // The device's counters may be supplied later.
    let renamed = "sleep 0.1; sed 's/\"\\([a-z]\\)/\"x_\\1/g' /run/counters.json";
    let Some((folder, found)) = undecided(&aggregator(&[], ""), renamed, true) else { return };
    assert!(found["unknown"].to_string().contains("--device"), "{found}");
    let run = folder.path().join("run");
    let counted = manifest(&run)["counters"]["device"].as_object().expect("counters").clone();
    let named = |name: &str| name.strip_prefix("x_").unwrap_or(name).to_owned();
    let mut counted: serde_json::Map<_, _> = counted.into_iter().map(|(name, n)| (named(&name), n)).collect();
    let file = folder.path().join("counted.json");
    let told = |counted: &serde_json::Map<String, Value>| {
        fs::write(&file, Value::from(counted.clone()).to_string()).expect("writable");
        let (run, file) = (run.display().to_string(), file.display().to_string());
        let output = pktgen(&[], &["diagnose", &run, "--device", &file, "--json"], &[]).output().expect("it runs");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
        (found, output.status.code())
    };
    let (found, code) = told(&counted);
    assert_eq!((codes(&found), code), (vec![], Some(0)), "{found}");
    let sent = counted["sent"].as_u64().expect("a number");
    counted.insert("sent".into(), json!(sent + 40));
    let (found, code) = told(&counted);
    assert_eq!((codes(&found), code), (vec!["link_lost"], Some(1)), "{found}");
    // Counters that cover more than this run give no information about it.
    counted.insert("received".into(), json!(50_000));
    let (found, code) = told(&counted);
    assert_eq!((codes(&found), code), (vec![], Some(4)), "{found}");
}

/// Runs an experiment in virtual time with settings; returns the diagnosis with its exit code.
fn diagnosed_in_virtual_time(text: &str, set: &[&str]) -> (Value, Option<i32>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiment = folder.path().join("experiment.toml");
    fs::write(&experiment, text).expect("writable");
    let (experiment, run) = (experiment.display().to_string(), folder.path().join("run"));
    let words = ["-q", "replay", &experiment, "--no-report", "--out", &run.display().to_string()];
    let replay = pktgen(&[], &words, set).output().expect("it runs");
    assert!(run.join("manifest.json").exists(), "{text}: {}", said(&replay));
    diagnosis(&run)
}

/// Twice as much is offered as the workers' link carries.
const OVERLOADED: &str = "[workload]\nkind = \"rl\"\nclusters = 2\nworkers_per_cluster = 2\nupdates = 5000\nbytes = \"256B\"\n\
                          [schedule]\nkind = \"constant\"\noffered = \"2Gbps\"\n[topology]\ningress_rate = \"1Gbps\"\n\
                          rate = \"40Gbps\"\n";

const TRAINING: &str = "[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = 1000\nworkers = 2\niterations = 2\n\
                        compute = \"10us\"\nelements = 256\n[topology]\nkind = \"rack\"\n[endpoint]\nworkers = \"switchml\"\n";

/// In real time, with captures of both ends.
const TAPPED: &str = "[workload]\nkind = \"rl\"\nclusters = 2\nworkers_per_cluster = 2\nupdates = 50\nbytes = \"256B\"\n\
                      [schedule]\nkind = \"constant\"\noffered = \"20Mbps\"\n[topology]\nrate = \"100Mbps\"\n\
                      [transport]\nkind = \"ring\"\ntap = \"tap.pcapng\"\n";

#[test]
fn no_host_is_late_and_no_cable_is_unplugged_in_virtual_time() {
    let (found, code) = diagnosed_in_virtual_time(OVERLOADED, &[]);
    assert_eq!((codes(&found), code), (vec![], Some(0)), "{found}");
    let (found, code) = diagnosed_in_virtual_time(TRAINING, &["transport.fault_loss=1.0"]);
    assert_eq!((codes(&found), code), (vec![], Some(4)), "{found}");
    assert!(found["unknown"].to_string().contains("transport.fault_*"), "{found}");
}

#[test]
fn background_traffic_alone_is_right() {
    let text = "[workload]\nkind = \"background\"\n[schedule]\nkind = \"constant\"\noffered = \"1Gbps\"\n";
    let (found, code) = diagnosed_in_virtual_time(text, &[]);
    assert_eq!((&found["answer"], code), (&json!("healthy"), Some(0)), "{found}");
    let (found, code) = diagnosed_in_virtual_time(text, &["transport.fault_loss=1.0"]);
    assert_eq!((codes(&found), code), (vec!["device_silent"], Some(4)), "{found}");
}

/// Nothing is wrong with a run that ended before the first arrival, or before the first update.
#[test]
fn a_run_that_was_cut_before_anything_came_is_right() {
    for (text, set) in [
        (TRAINING, &["capture.until=10.05us"][..]),
        (TRAINING, &["capture.until=1us", "workload.compute=0s"][..]),
        (OVERLOADED, &["capture.until=3us"][..]),
        (OVERLOADED, &["capture.until=1ns"][..]),
    ] {
        let (found, code) = diagnosed_in_virtual_time(text, set);
        assert_eq!((&found["answer"], code), (&json!("healthy"), Some(0)), "{set:?}: {found}");
        assert_eq!(found["cautions"][0]["code"], "cut_off", "{set:?}: {found}");
    }
}

/// Its rows show what came; its counters are missing, and no device is silent for that.
#[test]
fn a_killed_run_that_was_recovered_is_undecided() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (experiment, run) = (folder.path().join("experiment.toml"), folder.path().join("run"));
    fs::write(&experiment, OVERLOADED).expect("writable");
    let (experiment, out) = (experiment.display().to_string(), run.display().to_string());
    let words = ["-q", "replay", &experiment, "--no-report", "--out", &out];
    let replay = pktgen(&[], &words, &[]).output().expect("it runs");
    assert!(replay.status.success(), "{}", said(&replay));
    recover_as_killed(&run);
    let (found, code) = diagnosis(&run);
    assert_eq!((codes(&found), code), (vec![], Some(4)), "{found}");
    assert!(found["unknown"].to_string().contains("the run was killed") && found["breakdown"].is_null(), "{found}");
}

/// Makes a run one that was killed and recovered: without `sweep.json` and counters.
fn recover_as_killed(run: &Path) {
    fs::remove_file(run.join("sweep.json")).expect("removable");
    let mut running = manifest(run);
    running["state"] = "running".into();
    running["counters"]["packets_received"] = 0.into();
    let running = pktgen_core::record::digest::seal(&running.to_string());
    fs::write(run.join("manifest.json"), running).expect("writable");
    let recovered = pktgen(&[], &["analyze", &run.display().to_string(), "--recover"], &[]).output().expect("it runs");
    assert_eq!(recovered.status.code(), Some(1), "{}", said(&recovered));
}

/// A damaged capture lacks frames that were not lost, and those of a killed run end at different frames.
#[test]
fn captures_that_are_damaged_or_of_a_killed_run_are_named_and_not_examined() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (experiment, run) = (folder.path().join("experiment.toml"), folder.path().join("run"));
    fs::write(&experiment, TAPPED).expect("writable");
    let (experiment, out) = (experiment.display().to_string(), run.display().to_string());
    let replay = pktgen(&[], &["-q", "replay", &experiment, "--no-report", "--out", &out], &[]).output();
    let replay = replay.expect("it runs");
    assert!(run.join("manifest.json").exists(), "{}", said(&replay));
    let taps = ["workers", "server"].map(|end| run.join(format!("tap-{end}.pcapng")).display().to_string());
    let unread = || {
        let (found, _) = diagnosis(&run);
        let caution = found["cautions"].as_array()?.iter().find(|caution| caution["code"] == "taps_unread")?;
        Some(caution["text"].as_str()?.to_owned())
    };
    assert_eq!(unread(), None);
    let whole = fs::read(&taps[0]).expect("readable");
    fs::write(&taps[0], &whole[..whole.len() - 3]).expect("writable");
    let damaged = unread().expect("a caution");
    assert!(taps.iter().all(|tap| damaged.contains(tap)) && damaged.contains("damaged at byte"), "{damaged}");
    // The other one is not needed for this.
    let of_server = fs::read(&taps[1]).expect("readable");
    fs::remove_file(&taps[1]).expect("removable");
    let damaged = unread().expect("a caution");
    assert!(damaged.contains(&taps[0]) && !damaged.contains(&taps[1]), "{damaged}");
    assert!(damaged.contains("damaged at byte"), "{damaged}");
    fs::write(&taps[1], of_server).expect("writable");
    fs::write(&taps[0], &whole).expect("writable");
    recover_as_killed(&run);
    let killed = unread().expect("a caution");
    assert!(taps.iter().all(|tap| killed.contains(tap)) && killed.contains("the run was killed"), "{killed}");
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/diagnose.md")
}

#[test]
fn the_page_has_the_causes_of_the_registry() {
    let output = pktgen(&[], &["diagnose", "--list"], &[]).output().expect("it runs");
    let fresh = String::from_utf8(output.stdout).expect("UTF-8");
    let shown = fs::read_to_string(page()).expect("docs/diagnose.md");
    let (before, rest) = shown.split_once("| code | where |").expect("the table of causes");
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let after = if after.is_empty() { String::new() } else { format!("\n{after}") };
        fs::write(page(), format!("{before}{}\n{after}", fresh.trim_end())).expect("writable");
        return;
    }
    assert!(
        shown.contains(fresh.trim_end()),
        "docs/diagnose.md is old; run with UPDATE_DOCS=1 and review the difference"
    );
}

/// Causes that `devices/faults` does not try are listed.
#[test]
fn the_page_has_the_causes_without_a_cell() {
    let output = pktgen(&[], &["diagnose", "--list"], &[]).output().expect("it runs");
    let table = String::from_utf8(output.stdout).expect("UTF-8");
    let codes = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let cells = Path::new(env!("CARGO_MANIFEST_DIR")).join("../devices/faults");
    let cells = fs::read_to_string(cells).expect("devices/faults");
    let untried: Vec<&str> = codes.filter(|code| !cells.contains(&format!("\"{code}\""))).collect();
    assert!(!untried.is_empty());
    let shown = fs::read_to_string(page()).expect("docs/diagnose.md");
    let (_, rest) = shown.split_once("Codes without a cell: ").expect("the list");
    let listed: Vec<&str> = rest.split("\n\n").next().expect("a paragraph").split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, untried);
}

#[test]
fn arguments_and_damaged_runs_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().display().to_string();
    for (words, code, says) in [
        (&["diagnose"][..], 2, "RUN|EXPERIMENT"),
        (&["diagnose", &dir][..], 2, "manifest.json"),
        (&["diagnose", &dir, "--set", "seed=1"][..], 2, "--set"),
        (&["diagnose", "no-such.toml"][..], 2, "no-such.toml"),
    ] {
        let output = pktgen(&[], words, &[]).output().expect("it runs");
        assert!(output.status.code() == Some(code) && said(&output).contains(says), "{words:?}: {}", said(&output));
    }
}
