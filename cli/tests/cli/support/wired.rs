//! Code shared by the tests of training on wires: experiments of `configs/wires`, run by the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pktgen_records::run::RunData;
use pktgen_records::{Analysis, Options};
use pktgen_testing::undisturbed;
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::sight::{Datagram, Look, look};
use serde_json::Value;

use crate::support::serving::Serving;

/// The path of an experiment.
pub fn config(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../configs/wires/{name}.toml")).display().to_string()
}

/// A command of pktgen behind `before`, with settings.
pub fn pktgen(before: &[String], words: &[&str], set: &[&str]) -> Command {
    let binary = env!("CARGO_BIN_EXE_pktgen").to_owned();
    let mut all = before.iter().chain([&binary]);
    let mut command = Command::new(all.next().expect("a program"));
    command.args(all).args(words).args(set.iter().flat_map(|set| ["--set", set]));
    command
}

/// Returns all output of a process.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The manifest of a run dir; of a whole run the records must have the same verdict.
pub fn manifest(dir: &Path) -> Value {
    let text = std::fs::read(dir.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&text).expect("JSON");
    if manifest["part"].is_null() && manifest["state"] != "running" {
        let analysis = Analysis::open(dir, Options::default()).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let found = serde_json::to_value(analysis.validity()).expect("JSON");
        assert_eq!(found, manifest["validity"], "{}: the records' verdict and the manifest's", dir.display());
    }
    manifest
}

/// A number of a manifest.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A whole run in one process.
pub fn replay(before: &[String], name: &str, out: &Path, set: &[&str]) -> Output {
    let words = ["-q", "replay", &config(name), "--no-report", "--out", &out.display().to_string()];
    pktgen(before, &words, set).output().expect("it runs")
}

/// A part of an experiment that serves, `"target"` or `"capture"`, ready.
pub fn serving(before: &[String], part: &str, experiment: &[&str], out: &Path, set: &[&str]) -> Serving {
    let out = out.display().to_string();
    let words = [&[part], experiment, &["--out", &out, "--idle", "3s", "--for", "300s"]].concat();
    Serving::start(pktgen(before, &words, set), part)
}

/// Runs the parts of an experiment, its file and `--run` of a sweep, and joins them: workers, device and, with a third space, server.
/// Returns the folder of the whole run, which is beside theirs; none if the machine disturbed it.
pub fn in_parts(folder: &Path, spaces: &[Vec<String>], experiment: &[&str], set: &[&str]) -> Option<PathBuf> {
    let names = &["workers", "device", "server"][..spaces.len()];
    let dirs: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    // Each part is ready before the one that sends to it starts.
    let others = ["target", "capture"].into_iter().zip(&spaces[1..]).zip(&dirs[1..]).rev();
    let others: Vec<Serving> = others.map(|((part, space), dir)| serving(space, part, experiment, dir, set)).collect();
    let out = dirs[0].display().to_string();
    let words = [&["-q", "replay"], experiment, &["--role", "workers", "--out", &out]].concat();
    let workers = pktgen(&spaces[0], &words, set).output().expect("it runs");
    assert!(matches!(workers.status.code(), Some(0 | 1)), "{set:?}: {}", said(&workers));
    let ended: Vec<i32> = others.into_iter().map(Serving::end).collect();
    let whole = folder.join("whole");
    // In an order that is not theirs.
    let mut merge = pktgen(&[], &["-q", "merge", "-o", &whole.display().to_string()], &[]);
    let merged = merge.args(dirs.iter().rev()).output().expect("it runs");
    assert!(matches!(merged.status.code(), Some(0 | 1)), "{set:?}: {}", said(&merged));
    is_whole(&manifest(&whole)).then(|| {
        let all = workers.status.success() && ended.iter().all(|code| *code == 0) && merged.status.success();
        assert!(all, "{set:?}: {:?}, {ended:?}: {}", workers.status, said(&merged));
        whole
    })
}

/// Datagrams of a capture, none of which is cut.
pub fn datagrams(file: &Path, mut each: impl FnMut(&Datagram, usize)) -> usize {
    let mut reader = Reader::open(file).unwrap_or_else(|e| panic!("{e}"));
    let mut count = 0;
    while let Some(packet) = reader.next().expect("a packet") {
        let Look::Udp(datagram) = look(packet.link_type, packet.bytes) else { panic!("packet {count}") };
        each(&datagram, packet.bytes.len());
        count += 1;
    }
    count
}

/// Faults of a run on a machine that pauses for a moment.
const STOOD_STILL: [&str; 5] = ["frames_lost", "vanished_lost", "workers_stopped", "too_late_aborted", "unfinished"];

/// Whether a run is invalid, and only the machine is to blame.
pub fn is_disturbed(manifest: &Value) -> bool {
    let faults = manifest["validity"]["faults"].as_array().expect("faults");
    let is_of_machine = |fault: &Value| {
        let own = if fault["code"] == "in_part" { &fault["fault"] } else { fault };
        own["code"].as_str().is_some_and(|code| STOOD_STILL.contains(&code))
    };
    !faults.is_empty() && faults.iter().all(is_of_machine)
}

/// Whether a run is valid; if not, only the machine may be to blame.
pub fn is_whole(manifest: &Value) -> bool {
    let validity = &manifest["validity"];
    assert!(validity["valid"] == true || is_disturbed(manifest), "{validity}");
    validity["valid"] == true
}

/// Returns the longest pause of arrivals in the trials of a search for a rate that lost frames, in ms, until the last frame left; 0 if none
/// lost any. A token bucket whose rate is not exceeded loses frames only behind a pause in which it overflows: the machine stood still.
pub fn pause_ms(search: &Path) -> f64 {
    let entries = std::fs::read_dir(search).into_iter().flatten().flatten();
    let trials = entries.map(|entry| entry.path()).filter(|dir| dir.join("manifest.json").exists());
    let lossy = trials.filter(|dir| manifest(dir)["balance"]["unaccounted"].as_u64() > Some(0));
    let pause = |dir: std::path::PathBuf| {
        let streams = RunData::open(&dir).expect("a run dir").records.expect("all records");
        let records = streams.whole().expect("readable");
        let left = records.sent.t_sent_ps.iter().flatten().max();
        let mut times: Vec<i64> = records.received.t_recv_ps.iter().chain(left).copied().collect();
        times.sort_unstable();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    };
    lossy.map(pause).max().unwrap_or(0) as f64 / 1e9
}

/// Returns the packets of SwitchML ahead of so many blocks.
pub fn lead(window: u64, blocks: u64) -> u64 {
    if window < 2 * blocks { window } else { blocks }
}

/// Training over SwitchML, until a run is valid, in which every sum is right; `check` sees its folder, and how many packets an iteration has.
pub fn trained(before: &[String], set: &[&str], check: fn(&Path, u64)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let all = [&["transport.tap=tap.pcapng", "workload.scale=0.005"][..], set].concat();
    undisturbed("SwitchML on wires", |i| {
        let out = folder.path().join(i.to_string());
        let output = replay(before, "switchml", &out, &all);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{set:?}: {}", said(&output));
        let manifest = manifest(&out);
        assert_eq!(number(&manifest["counters"]["sums_wrong"]), 0, "{set:?}");
        if !is_whole(&manifest) {
            return None;
        }
        let (blocks, window) = (number(&manifest["training"]["blocks"]), number(&manifest["training"]["window"]));
        let packets = blocks + lead(window, blocks);
        assert_eq!(number(&manifest["counters"]["sums_ok"]), packets * 5, "{}", manifest["counters"]);
        check(&out, packets);
        Some(())
    });
}
