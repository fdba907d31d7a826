//! How the tests of shards run sweeps and compare them. In the folder of a test, `whole/sweep` is from one process,
//! `parts-N/I` are its shards, and `joined-N/sweep` is joined of them: the same name, so that printed labels agree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pktgen_workload::study::TIMES;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::reported::without_provenance;

/// A folder with the experiment `x.toml`.
pub fn folder(experiment: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), experiment).expect("writable");
    folder
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(folder).args(args);
    command
}

pub fn pktgen(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().expect("the binary runs")
}

pub fn succeeds(folder: &Path, args: &[&str]) -> String {
    let output = pktgen(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the messages of a command that is refused as wrong usage.
pub fn refused(folder: &Path, args: &[&str]) -> String {
    let output = pktgen(folder, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn with_set<'a>(args: &[&'a str], set: &[&'a str]) -> Vec<&'a str> {
    args.iter().copied().chain(set.iter().flat_map(|set| ["--set", set])).collect()
}

/// Runs the sweep in one process.
pub fn unsharded(folder: &Path, set: &[&str]) {
    let output = pktgen(folder, &with_set(&["-q", "replay", "x.toml", "--out", "whole/sweep"], set));
    // Exit code 1: in small sweeps somewhere Olaf is worse than FIFO. They must be so in shards, too.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(folder.join("whole/sweep/report.json").exists());
}

/// Runs a shard; returns its output.
pub fn shard(folder: &Path, shard: &str, out: &str, set: &[&str]) -> Value {
    let told = succeeds(folder, &with_set(&["--json", "replay", "x.toml", "--shard", shard, "--out", out], set));
    serde_json::from_str(&told).expect("one object of JSON")
}

/// Begins a shard with one run at a time.
pub fn begin(folder: &Path, shard: &str, out: &str) -> Child {
    let args = ["--json", "replay", "x.toml", "--jobs", "1", "--shard", shard, "--out", out];
    command(folder, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

/// Runs all shards of `n`; returns their output.
pub fn parts(folder: &Path, n: u64, set: &[&str]) -> Vec<Value> {
    (1..=n).map(|i| shard(folder, &format!("{i}/{n}"), &format!("parts-{n}/{i}"), set)).collect()
}

/// Returns their folders.
pub fn of_parts(n: u64) -> Vec<String> {
    (1..=n).map(|i| format!("parts-{n}/{i}")).collect()
}

/// Joins shards and reports; returns the messages.
pub fn join(folder: &Path, n: u64, parts: &[String], more: &[&str]) -> String {
    let out = format!("joined-{n}/sweep");
    fs::create_dir_all(folder.join(format!("joined-{n}"))).expect("a folder");
    let parts = parts.iter().map(String::as_str);
    let args: Vec<&str> = ["merge", "-o", &out].into_iter().chain(more.iter().copied()).chain(parts).collect();
    let output = pktgen(folder, &args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    pktgen(folder, &["-q", "report", &out]);
    said
}

/// Checks that the sweep joined from `n` shards equals that of one process: every file of every run, `sweep.json`, the
/// printed metrics, and the report.
pub fn same_sweep(folder: &Path, n: u64) {
    let joined = folder.join(format!("joined-{n}"));
    let (ours, theirs) = (contents(&joined.join("sweep")), contents(&folder.join("whole/sweep")));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs), "the same files");
    for (name, bytes) in &ours {
        assert!(*bytes == theirs[name], "{} differs", name.display());
    }
    assert!(ours.contains_key(Path::new("report.json")) && ours.contains_key(Path::new("sweep.json")));
    let lines = |folder: &Path| {
        let lines = String::from_utf8(pktgen(folder, &["-q", "analyze", "sweep", "--json"]).stdout).expect("UTF-8");
        lines
            .lines()
            .filter(|line| !TIMES.iter().any(|time| line.contains(time)))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let metrics = lines(&joined);
    assert!(metrics.len() > 50 && metrics == lines(&folder.join("whole")), "the same metrics");
}

/// Every file below a folder, without the creation time of manifests and the time that studies took: nothing else differs
/// between two executions of a run in virtual time.
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mut bytes = fs::read(&path).expect("readable");
            if path.ends_with("manifest.json") {
                let mut manifest: Value = serde_json::from_slice(&bytes).expect("JSON");
                manifest["created_unix_ns"] = 0.into();
                manifest["command"] = 0.into();
                manifest["digest"] = 0.into();
                if let Some(findings) = manifest.get_mut("findings").and_then(Value::as_array_mut) {
                    findings.retain(|finding| TIMES.iter().all(|time| finding["metric"] != *time));
                }
                bytes = manifest.to_string().into_bytes();
            }
            if path.ends_with("sweep.json") {
                // Digests of manifests, in which times of studies differ.
                let mut sweep: Value = serde_json::from_slice(&bytes).expect("JSON");
                sweep["digest"] = 0.into();
                for run in sweep["runs"].as_array_mut().expect("runs") {
                    run["manifest"] = run["manifest"].is_string().into();
                }
                bytes = sweep.to_string().into_bytes();
            }
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let bytes = without_provenance(&name, bytes);
            files.insert(path.strip_prefix(folder).expect("below the folder").to_owned(), bytes);
        }
    }
    files
}
