//! Third-party devices at the interfaces of a run: results for a forwarder, a dropper, a duplicator, a corrupter, a
//! reorderer, right and wrong adders, a mute device, and no device; each compared with the device's own counters.
//!
//! `PKTGEN_BENCH_REPEATS` sets how often healthy devices are tried (make test-long: 50, with both cores busy).

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::support::bench::{Counts, Device, cabled};
use crate::support::netns::Net;
use crate::support::wired::{is_disturbed, manifest, pause_ms, pktgen, said};
use pktgen_testing::{Need, skip, undisturbed};
use serde_json::{Value, json};

/// One test at a time: devices and runs need the cores.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns the path of an experiment of this folder.
fn experiment(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/support/bench/{name}.toml")).display().to_string()
}

/// A figure of `pktgen analyze`, computed from the device's counters and the run's number of transmissions.
type Figure = (&'static str, fn(&Seen) -> Option<f64>);

/// A test case, and its expected result.
struct Cell {
    what: String,
    experiment: &'static str,
    set: Vec<String>,
    /// Arguments of the device's command line; none: no device is connected.
    device: Option<Vec<String>>,
    /// The exit code, which also shows whether the run is valid.
    code: i32,
    figures: Vec<Figure>,
    /// Expected messages on the terminal.
    says: fn(&Seen) -> Vec<String>,
}

/// The result of a test case.
struct Seen {
    code: Option<i32>,
    said: String,
    manifest: Value,
    metrics: HashMap<String, f64>,
    device: Counts,
}

impl Seen {
    fn sent(&self) -> f64 {
        self.metrics.get("sent").copied().unwrap_or(f64::NAN)
    }

    /// Returns the deviations from the expected result.
    fn misses(&self, cell: &Cell) -> Vec<String> {
        let mut misses = Vec::new();
        let mut hold = |what: String, right: bool| {
            if !right {
                misses.push(format!("{}: {what}", cell.what));
            }
        };
        hold(format!("exit code {:?}, and should be {}", self.code, cell.code), self.code == Some(cell.code));
        let valid = &self.manifest["validity"]["valid"];
        hold(format!("the manifest says valid: {valid}"), valid == &json!(cell.code == 0));
        for (name, expected) in &cell.figures {
            let (found, expected) = (self.metrics.get(*name).copied(), expected(self));
            let same = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9 * expected.abs(),
                (found, expected) => found == expected,
            };
            hold(format!("{name} is {found:?}, and should be {expected:?}"), same);
        }
        for part in (cell.says)(self) {
            hold(format!("{part:?} is not on the terminal"), self.said.contains(&part));
        }
        if !misses.is_empty() {
            misses.push(format!("    {}\n    {:?}", self.said.trim_end().replace('\n', "\n    "), self.device));
        }
        misses
    }
}

/// Returns the lines of `pktgen analyze` that cover the whole run and have a value.
fn metrics(dir: &Path) -> HashMap<String, f64> {
    let output = pktgen(&[], &["analyze", "--json", &dir.display().to_string()], &[]).output().expect("it runs");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let whole = lines.filter(|line| line["labels"] == json!({}));
    let whole = whole.filter_map(|line| Some((line["metric"].as_str()?.to_owned(), line["value"].as_f64()?)));
    whole.chain(wrong(dir)).collect()
}

/// Returns the results of `pktgen analyze --wrong` for a run: how many packets are wrong, how many could not be
/// checked, and for how many of the listed ones the differing values are known.
fn wrong(dir: &Path) -> Vec<(String, f64)> {
    let words = ["analyze", "--wrong", "--json", "--most", "1000000", &dir.display().to_string()];
    let output = pktgen(&[], &words, &[]).output().expect("it runs");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let mut lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let Some(all) = lines.next() else { return Vec::new() };
    let told = lines.filter(|packet| packet["first_differing"].as_array().is_some_and(|values| !values.is_empty()));
    let told = told.count() as f64;
    let of = |name: &str| all[name].as_f64().expect("a number");
    assert_eq!(output.status.code(), Some(i32::from(of("found") > 0.0)), "{all}");
    vec![("wrong.found".into(), of("found")), ("wrong.unchecked".into(), of("unchecked")), ("wrong.told".into(), told)]
}

/// Runs a cell; repeats it if the device reports losing frames itself, or only the machine makes it invalid, since a busy machine is not
/// under test.
fn tried(net: &Net, cell: &Cell) -> Seen {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for i in 0.. {
        let out = folder.path().join(i.to_string());
        let device = cell.device.as_ref().map(|words| {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            Device::start(net, &words)
        });
        // The test covers wrong devices in a run, without a probe that would prevent it.
        let words = ["replay", &experiment(cell.experiment), "--no-probe", "--out", &out.display().to_string()];
        let set: Vec<_> = cell.set.iter().map(String::as_str).collect();
        let output = pktgen(&net.inside("h"), &words, &set).output().expect("it runs");
        let device = device.map_or_else(Counts::none, Device::stop);
        let manifest = if out.join("manifest.json").exists() { manifest(&out) } else { Value::Null };
        let faults = manifest["validity"]["faults"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        // No device makes the host lose frames.
        let lost = faults.iter().any(|fault| fault["code"] == "frames_lost");
        let disturbed = lost || cell.code == 0 && !faults.is_empty() && is_disturbed(&manifest);
        if i < 5 && (disturbed || is_overrun(&device)) {
            continue;
        }
        let metrics = metrics(&out);
        return Seen { code: output.status.code(), said: said(&output), manifest, metrics, device };
    }
    unreachable!("the last try returns")
}

/// Runs cells, and reports all deviations.
fn hold(net: &Net, cells: &[Cell]) {
    let misses: Vec<_> = cells.iter().flat_map(|cell| tried(net, cell).misses(cell)).collect();
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

const SILENT: fn(&Seen) -> Vec<String> = |_| Vec::new();
const NOTHING_BACK: fn(&Seen) -> Vec<String> = |_| vec!["nothing came back".into()];
const ZERO: fn(&Seen) -> Option<f64> = |_| Some(0.0);
const NO_VALUE: fn(&Seen) -> Option<f64> = |_| None;
const DROPPED: fn(&Seen) -> Option<f64> = |seen| Some(seen.device.of("dropped"));
const LOST: fn(&Seen) -> Option<f64> = |seen| Some(seen.device.of("dropped") / seen.sent());
const DUPLICATED: fn(&Seen) -> Option<f64> = |seen| Some(seen.device.of("duplicated"));
const CORRUPTED: fn(&Seen) -> Option<f64> = |seen| Some(seen.device.of("corrupted"));

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// OLAF in one layout, with or without lanes.
#[derive(Clone, Copy)]
struct Olaf {
    strict: bool,
    lanes: bool,
}

impl Olaf {
    const ALL: [Olaf; 4] = [
        Olaf { strict: false, lanes: false },
        Olaf { strict: false, lanes: true },
        Olaf { strict: true, lanes: false },
        Olaf { strict: true, lanes: true },
    ];

    /// Returns a cell with the given device and declared program.
    fn cell(self, what: &str, program: &str, device: Option<&[&str]>, code: i32) -> Cell {
        let (layout, lanes) = (if self.strict { "strict" } else { "ours" }, self.lanes);
        let queue = if program == "forward" { "fifo" } else { "olaf" };
        let words = |more: &[&str]| owned(&[&["--in", "e0", "--out", "e1", "--seed", "7"], more].concat());
        Cell {
            what: format!("olaf, {layout}, {} lanes, {program}: {what}", if lanes { "with" } else { "without" }),
            experiment: "olaf",
            set: vec![
                format!("transport.on_wire={layout}"),
                format!("format.lanes={lanes}"),
                format!("target.program={program}"),
                format!("target.queue={queue}"),
            ],
            device: device.map(words),
            code,
            figures: Vec::new(),
            says: SILENT,
        }
    }

    /// Returns the arguments of the aggregator for this layout, on a link that is too slow for all updates.
    fn adder(self) -> Vec<&'static str> {
        let protocol = if self.strict { "olaf-strict" } else { "olaf" };
        vec!["--protocol", protocol, "--first", "10.20.0.1", "--workers", "9", "--per-cluster", "3", "--mbps", "4"]
    }

    /// Returns the expected number of wrong sums behind an adder: known only where lanes prove members.
    fn sums(self) -> fn(&Seen) -> Option<f64> {
        if self.lanes { ZERO } else { NO_VALUE }
    }

    fn forwarding(self) -> Vec<Cell> {
        let mut forward = self.cell("forwarder", "forward", Some(&["--fault", "forward"]), 0);
        forward.figures =
            vec![("received", |seen| Some(seen.sent())), ("unaccounted", ZERO), ("loss", ZERO), ("duplicates", ZERO)];
        forward.figures.extend::<[Figure; 2]>([("wrong.found", ZERO), ("wrong.unchecked", ZERO)]);
        forward.says = |_| vec!["unaccounted".into(), "sent".into()];
        let mut drop = self.cell("dropper", "forward", Some(&["--fault", "drop"]), 0);
        drop.figures = vec![("unaccounted", DROPPED), ("loss", LOST)];
        drop.says = |seen| vec![format!("{}", seen.device.of("dropped"))];
        let mut may_merge = self.cell("dropper", "olaf", Some(&["--fault", "drop"]), 0);
        // Received packets are the sent ones, so every sum is known.
        may_merge.figures = vec![("unaccounted", DROPPED), ("sums_wrong", ZERO), ("lanes_wrong", NO_VALUE)];
        let mut reorder = self.cell("reorderer", "olaf", Some(&["--fault", "reorder"]), 0);
        reorder.figures = vec![("unaccounted", ZERO), ("sums_wrong", ZERO), ("duplicates", ZERO)];
        vec![forward, drop, may_merge, reorder]
    }

    fn damaging(self) -> Vec<Cell> {
        let mut duplicate = self.cell("duplicator", "olaf", Some(&["--fault", "duplicate"]), 0);
        duplicate.figures = vec![("unaccounted", ZERO), ("duplicates", DUPLICATED), ("wrong.found", ZERO)];
        duplicate.says = |seen| vec![format!("{} packets arrived again", seen.device.of("duplicated"))];
        // The expected contents of each packet are known if lanes name its members, if our header names one update, or
        // if nothing may be added.
        let found = i32::from(self.lanes || !self.strict);
        let mut corrupt = self.cell("corrupter", "olaf", Some(&["--fault", "corrupt"]), found);
        if self.lanes {
            corrupt.figures = vec![("sums_wrong", CORRUPTED), ("wrong.found", CORRUPTED), ("wrong.told", CORRUPTED)];
        }
        corrupt.says = |seen| vec![format!("{}", seen.device.of("corrupted"))];
        let mut corrupt_forward = self.cell("corrupter", "forward", Some(&["--fault", "corrupt"]), 1);
        corrupt_forward.set.push("capture.pcap=true".into());
        corrupt_forward.figures = vec![("wrong.found", CORRUPTED), ("wrong.unchecked", ZERO)];
        if !self.strict {
            // Our header identifies the expected update.
            corrupt_forward.figures.push(("wrong.told", CORRUPTED));
        }
        vec![duplicate, corrupt, corrupt_forward]
    }

    fn adding(self) -> Vec<Cell> {
        let mut right = self.cell("right adder", "olaf", Some(&self.adder()), 0);
        right.figures = vec![("sums_wrong", self.sums()), ("lanes_wrong", NO_VALUE), ("duplicates", ZERO)];
        right.figures.push(("wrong.found", ZERO));
        let mut wrong = self.cell(
            "wrong adder",
            "olaf",
            Some(&[&self.adder()[..], &["--wrong", "0.05"]].concat()),
            self.lanes.into(),
        );
        if self.lanes {
            right.figures.extend::<[Figure; 3]>([
                ("lanes_contradictions", ZERO),
                ("lanes_ambiguous", ZERO),
                ("lanes_merged", |seen| Some(seen.sent() - seen.metrics.get("lanes_alone")? - gone(&seen.device))),
            ]);
            wrong.says = |_| vec!["wrong sum".into()];
        } else {
            wrong.figures = vec![("sums_wrong", NO_VALUE)];
        }
        // What makes the run invalid is listed, however right the sums are.
        let mut undeclared = self.cell("right adder", "forward", Some(&self.adder()), 1);
        undeclared.figures = vec![("wrong.found", |seen| seen.metrics.get("damaged").copied())];
        vec![right, wrong, undeclared]
    }

    fn silent(self) -> Vec<Cell> {
        let mut mute = self.cell("mute", "olaf", Some(&["--fault", "mute"]), 1);
        let mut none = self.cell("nothing plugged in", "forward", None, 1);
        (mute.says, none.says) = (NOTHING_BACK, NOTHING_BACK);
        vec![mute, none]
    }
}

/// Returns the number of updates that the adder took and that are in none of its packets.
fn gone(device: &Counts) -> f64 {
    device.of("replaced") + device.of("full")
}

fn net(tag: &str) -> Option<Net> {
    cabled(tag).inspect_err(|why| skip(Need::Netns, "devices between veth pairs", why)).ok()
}

#[test]
fn olaf_through_devices_that_forward() {
    let (_alone, Some(net)) = (alone(), net("benchforward")) else { return };
    hold(&net, &Olaf::ALL.into_iter().flat_map(Olaf::forwarding).collect::<Vec<_>>());
}

#[test]
fn olaf_through_devices_that_copy_and_damage() {
    let (_alone, Some(net)) = (alone(), net("benchdamage")) else { return };
    hold(&net, &Olaf::ALL.into_iter().flat_map(Olaf::damaging).collect::<Vec<_>>());
}

#[test]
fn olaf_through_devices_that_add() {
    let (_alone, Some(net)) = (alone(), net("benchadd")) else { return };
    hold(&net, &Olaf::ALL.into_iter().flat_map(Olaf::adding).collect::<Vec<_>>());
}

#[test]
fn olaf_through_nothing() {
    let (_alone, Some(net)) = (alone(), net("benchnone")) else { return };
    hold(&net, &Olaf::ALL.into_iter().flat_map(Olaf::silent).collect::<Vec<_>>());
}

/// Raw frames have no names: the fate of each is known by its content.
#[test]
fn raw_frames_through_devices_of_others() {
    let (_alone, Some(net)) = (alone(), net("benchraw")) else { return };
    let cell = |what: &str, fault: &str, code: i32, figures: Vec<Figure>| Cell {
        what: format!("raw: {what}"),
        experiment: "raw",
        set: vec!["capture.pcap=true".into()],
        device: Some(owned(&["--in", "e0", "--out", "e1", "--seed", "7", "--fault", fault])),
        code,
        figures,
        says: SILENT,
    };
    let all: fn(&Seen) -> Option<f64> = |seen| Some(seen.sent());
    let sent: fn(&Seen) -> Option<f64> = |_| Some(1200.0);
    let mut none = cell("nothing plugged in", "forward", 1, Vec::new());
    (none.device, none.says) = (None, NOTHING_BACK);
    hold(
        &net,
        &[
            cell(
                "forwarder",
                "forward",
                0,
                vec![
                    ("sent", sent),
                    ("received", all),
                    ("loss", ZERO),
                    ("wrong.found", ZERO),
                    ("wrong.unchecked", ZERO),
                ],
            ),
            cell("dropper", "drop", 0, vec![("unaccounted", DROPPED), ("loss", LOST), ("wrong.found", ZERO)]),
            cell("duplicator", "duplicate", 0, vec![("unaccounted", ZERO), ("duplicates", DUPLICATED)]),
            cell("reorderer", "reorder", 0, vec![("unaccounted", ZERO), ("received", all), ("wrong.found", ZERO)]),
            cell("corrupter", "corrupt", 1, vec![("unaccounted", CORRUPTED), ("wrong.found", CORRUPTED)]),
            none,
        ],
    );
}

/// A protocol of synchronous training: its name here, and its switch.
struct Training {
    name: &'static str,
    switch: &'static [&'static str],
}

const SWITCHML: Training = Training {
    name: "switchml",
    switch: &["--protocol", "switchml", "--first", "10.40.0.1", "--workers", "4", "--group", "239.40.0.0"],
};
const TRIO_ML: Training = Training {
    name: "trio-ml",
    switch: &["--protocol", "trio-ml", "--first", "10.50.0.1", "--workers", "4", "--group", "239.50.0.0"],
};

impl Training {
    fn cell(&self, what: &str, lanes: bool, more: Option<&[&str]>, code: i32) -> Cell {
        let words = |more: &[&str]| owned(&[&["--in", "e0", "--seed", "7"], self.switch, more].concat());
        Cell {
            what: format!("{}, {} lanes: {what}", self.name, if lanes { "with" } else { "without" }),
            experiment: self.name,
            set: vec![format!("format.lanes={lanes}")],
            device: more.map(words),
            code,
            figures: Vec::new(),
            says: SILENT,
        }
    }

    /// A copy of a result is one packet, although it reaches each of the four workers.
    fn cells(&self, lanes: bool) -> Vec<Cell> {
        let mut right = self.cell("right adder", lanes, Some(&[]), 0);
        right.figures = vec![("sums_wrong", ZERO), ("unaccounted", ZERO), ("duplicates", ZERO), ("wrong.found", ZERO)];
        let mut duplicate = self.cell("duplicator", lanes, Some(&["--fault", "duplicate"]), 0);
        duplicate.figures = vec![("sums_wrong", ZERO), ("unaccounted", ZERO)];
        duplicate.says = |seen| vec![format!("{} packets arrived again", seen.device.of("duplicated"))];
        let mut reorder = self.cell("reorderer", lanes, Some(&["--fault", "reorder"]), 0);
        reorder.figures = vec![("sums_wrong", ZERO), ("unaccounted", ZERO)];
        let mut corrupt = self.cell("corrupter", lanes, Some(&["--fault", "corrupt"]), 1);
        corrupt.set.push("capture.pcap=true".into());
        corrupt.figures = vec![("sums_wrong", CORRUPTED), ("wrong.found", CORRUPTED), ("wrong.told", CORRUPTED)];
        corrupt.says = |seen| vec![format!("{} packets", seen.device.of("corrupted")), "wrong sum".into()];
        let mut wrong = self.cell("wrong adder", lanes, Some(&["--wrong", "0.05"]), 1);
        let sums: fn(&Seen) -> Option<f64> = |seen| Some(seen.device.of("wrong"));
        wrong.figures = vec![("sums_wrong", sums), ("wrong.found", sums)];
        wrong.says = |_| vec!["wrong sum".into()];
        let drop = self.cell("dropper", lanes, Some(&["--fault", "drop"]), 1);
        let mut mute = self.cell("mute", lanes, Some(&["--fault", "mute"]), 1);
        let mut none = self.cell("nothing plugged in", lanes, None, 1);
        (mute.says, none.says) = (NOTHING_BACK, NOTHING_BACK);
        vec![right, duplicate, reorder, corrupt, wrong, drop, mute, none]
    }
}

#[test]
fn switchml_through_a_switch_of_others() {
    let (_alone, Some(net)) = (alone(), net("benchswitch")) else { return };
    let mut cells: Vec<_> = [false, true].into_iter().flat_map(|lanes| SWITCHML.cells(lanes)).collect();
    let mut again = SWITCHML.cell("dropper, and workers that send again", false, Some(&["--fault", "drop"]), 0);
    again.set.push("endpoint.retransmit=20ms".into());
    again.figures = vec![("sums_wrong", ZERO)];
    cells.push(again);
    hold(&net, &cells);
}

#[test]
fn trio_ml_through_a_router_of_others() {
    let (_alone, Some(net)) = (alone(), net("benchtrio")) else { return };
    hold(&net, &[false, true].into_iter().flat_map(|lanes| TRIO_ML.cells(lanes)).collect::<Vec<_>>());
}

/// Returns a number that `make test-long` sets.
fn of_environment(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// Load on every core until it goes out of scope.
struct Load(Arc<AtomicBool>);

impl Load {
    fn new() -> Load {
        let on = Arc::new(AtomicBool::new(true));
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let on = on.clone();
            std::thread::spawn(move || while on.load(Ordering::Relaxed) {});
        }
        Load(on)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn healthy_devices_are_never_accused() {
    let (_alone, Some(net)) = (alone(), net("benchhealthy")) else { return };
    let repeats = of_environment("PKTGEN_BENCH_REPEATS");
    let _load = repeats.map(|_| Load::new());
    for _ in 0..repeats.unwrap_or(2) {
        let mut cells: Vec<_> = Olaf::ALL.into_iter().filter_map(|olaf| olaf.forwarding().into_iter().next()).collect();
        cells.extend(Olaf::ALL.into_iter().filter_map(|olaf| olaf.adding().into_iter().next()));
        cells.extend([SWITCHML, TRIO_ML].iter().map(|training| training.cell("right adder", true, Some(&[]), 0)));
        hold(&net, &cells);
    }
}

/// Searches for the highest rate; returns the exit code, the messages, the result, and the pause in trials that lost frames, in ms.
fn searched(net: &Net, set: &[&str], words: &[&str]) -> (Option<i32>, String, Value, f64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("rate");
    let experiment = experiment("olaf");
    let text = out.display().to_string();
    let words = [&["replay", &experiment, "--no-probe", "--find-rate", "--out", &text], words].concat();
    let output = pktgen(&net.inside("h"), &words, set).output().expect("it runs");
    let found = std::fs::read(out.join("find-rate.json")).ok();
    let found = found.map_or(Value::Null, |text| serde_json::from_slice(&text).expect("JSON"));
    (output.status.code(), said(&output), found, pause_ms(&out))
}

/// Whether the device reports losing frames on its own interfaces.
fn is_overrun(device: &Counts) -> bool {
    device.of("overrun") + device.of("unsent") > 0.0
}

/// A pause of arrivals in which the machine stood still: frames are 0.25 ms apart, and the bucket is full after 32 ms.
const PAUSE_MS: f64 = 20.0;

const FORWARD: [&str; 2] = ["target.program=forward", "target.queue=fifo"];

/// The device's bucket has 4,000 tokens/s, one per frame, and holds 128: 32 ms, so that shorter stalls of the host do not
/// affect it. In a trial of 2 s that is 4,064 packets/s without a loss; the search stops within 1 %.
#[test]
fn the_rate_of_a_token_bucket_is_found() {
    let (_alone, Some(net)) = (alone(), net("benchrate")) else { return };
    let device = ["--in", "e0", "--out", "e1", "--fault", "limit", "--pps", "4000", "--burst", "128"];
    for i in 0..of_environment("PKTGEN_BENCH_SEARCHES").unwrap_or(1) {
        undisturbed("the rate of a token bucket", |_| {
            let device = Device::start(&net, &[&device[..], &["--for", "600"]].concat());
            let words = ["--from", "3000", "--to", "6000", "--trial", "2s", "--precision", "0.01", "--confirm", "1"];
            // Trials pace, whatever the experiment says.
            let set = [&FORWARD[..], &["transport.pacing=top"]].concat();
            let (code, said, found, pause) = searched(&net, &set, &words);
            let device = device.stop();
            assert!(device.of("dropped") > 0.0, "a rate above the limit was tried");
            assert_eq!(code, Some(0), "{i}: {said}");
            let pps = found["pps"].as_f64().expect("a rate");
            // Longer stalls lose frames of trials below the limit: then the rate found is too low, and only then. It is never too high.
            let disturbed = found["limited_by"] == "host" || pause >= PAUSE_MS || is_overrun(&device);
            assert!(pps <= 4200.0 && (pps >= 3800.0 || disturbed), "{i}: {pps}, a pause of {pause} ms: {said}");
            (pps >= 3800.0).then_some(())
        });
    }
}

/// The same bucket in the tables of RFC 2544: its rate, and its depth as the longest burst.
#[test]
fn a_token_bucket_in_the_tables_of_rfc_2544() {
    let (_alone, Some(net)) = (alone(), net("benchtables")) else { return };
    let device = ["--in", "e0", "--out", "e1", "--fault", "limit", "--pps", "4000", "--burst", "128", "--for", "600"];
    let experiment = experiment("raw");
    let found = undisturbed("the tables of RFC 2544", |_| {
        let device = Device::start(&net, &device);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out = folder.path().join("tables").display().to_string();
        let words = ["replay", &experiment, "--no-probe", "--json", "--out", &out, "--find-rate", "--rfc2544", "128"];
        let limits = ["--trial", "500ms", "--from", "3000", "--to", "12000", "--confirm", "1", "--repeats", "1"];
        let set = ["transport.linger=200ms"];
        let output = pktgen(&net.inside("h"), &[&words[..], &limits].concat(), &set).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let device = device.stop();
        assert!(device.of("dropped") > 0.0, "rates above the limit were tried");
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        // If the host stalls, frames are lost in trials, and the rate found is too low or is the host's own; it is never too high.
        let row = &found["rows"][0];
        let pause = pause_ms(&Path::new(&out).join("128/throughput"));
        let disturbed = row["limited_by"] == "host" || pause >= PAUSE_MS || is_overrun(&device);
        assert!(disturbed || row["throughput_pps"].as_f64() >= Some(3800.0), "a pause of {pause} ms: {row}");
        (row["limited_by"] != "host" && row["throughput_pps"].as_f64() >= Some(4000.0)).then_some(found)
    });
    let Some(found) = found else { return };
    let row = &found["rows"][0];
    assert_eq!(
        (&found["schema"], &row["bytes"], &row["limited_by"]),
        (&json!("rfc2544/1"), &json!(128), &json!("device"))
    );
    // 4,000 per second plus the 128 that the bucket holds, in half a second.
    let pps = row["throughput_pps"].as_f64().expect("a rate");
    assert!((4000.0..=4300.0).contains(&pps), "{row}");
    assert_eq!(row["throughput_bps"].as_f64(), Some(pps * 1024.0));
    let burst = row["burst_frames"].as_u64().expect("a burst");
    assert!((128..=192).contains(&burst) && row["burst_is_bound"] == json!(false), "{row}");
    let losses = row["losses"].as_array().expect("losses");
    let last_two = losses.iter().rev().take(2).all(|at| at["loss"] == json!(0.0));
    assert!(losses.len() > 2 && last_two && losses[0]["loss"].as_f64() > Some(0.2), "{row}");
    assert!(row["latency"]["mean_ns"].as_f64() > Some(0.0), "{row}");
    assert_eq!(found["shortened"].as_array().map(Vec::len), Some(5), "{found}");
    // Rates that the workers did not send have no loss.
    let device = Device::start(&net, &["--in", "e0", "--out", "e1", "--for", "600"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("slow").display().to_string();
    let words = ["replay", &experiment, "--no-probe", "--json", "--out", &out, "--find-rate", "--rfc2544", "128"];
    let limits = ["--trial", "500ms", "--from", "500", "--to", "4000", "--confirm", "1", "--repeats", "1"];
    let set = ["transport.limit=1Mbps", "transport.linger=200ms"];
    let mut slow = pktgen(&net.inside("h"), &[&words[..], &limits].concat(), &set);
    let output = slow.output().expect("it runs");
    drop(device);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let row = &found["rows"][0];
    assert_eq!((&row["limited_by"], &row["losses"][0]["loss"]), (&json!("host"), &Value::Null), "{row}");
    // A workload with frames of its own has no sizes to be set.
    let trace = ["workload.frames=nowhere.pcap"];
    let words = ["replay", &experiment, "--no-probe", "--out", "never", "--find-rate", "--rfc2544"];
    let output = pktgen(&net.inside("h"), &words, &trace).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn the_tables_of_rfc_2544_begin_with_a_probe() {
    let (_alone, Some(net)) = (alone(), net("benchabsent")) else { return };
    let (experiment, folder) = (experiment("raw"), tempfile::tempdir().expect("a temporary folder"));
    let out = folder.path().join("tables");
    let text = out.display().to_string();
    let words = ["replay", &experiment, "--out", &text, "--find-rate", "--rfc2544", "128", "--trial", "500ms"];
    let output = pktgen(&net.inside("h"), &words, &[]).output().expect("it runs");
    let said = said(&output);
    assert!(output.status.code() == Some(1) && said.contains("does not pass the probe"), "{said}");
    assert!(!out.join("128").exists(), "no trial began");
}

#[test]
fn no_rate_is_found_where_nothing_comes_back_or_nobody_can_know() {
    let (_alone, Some(net)) = (alone(), net("benchnorate")) else { return };
    let words = ["--from", "1000", "--to", "2000", "--trial", "500ms"];
    let (code, said, found, _) = searched(&net, &FORWARD, &words);
    assert!(code == Some(1) && said.contains("nothing came back"), "{code:?}: {said}");
    assert!(found["trials"].as_array().is_none_or(|trials| trials.len() <= 1), "it ends at once: {found}");
    // Merged updates are not lost, and without lanes the two cannot be told apart.
    let (code, said, ..) = searched(&net, &[], &words);
    assert!(code == Some(2) && said.contains("format.lanes"), "{code:?}: {said}");
}
