//! The binary from the user's view: its output, its files, its refusals.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::reported::without_provenance;
use crate::support::{pktgen, text};
use tempfile::TempDir;

fn succeeds(folder: &Path, args: &[&str]) -> String {
    let output = pktgen(folder, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs the binary, and checks the exit code, all of these words on stderr, and that there was no panic.
fn refuses(folder: &Path, args: &[&str], code: i32, words: &[&str]) {
    let output = pktgen(folder, args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "{args:?} should say {word:?}: {said}");
    }
}

/// A small experiment: 6 workers in 2 clusters, 40 updates each.
const SMALL: &str = r#"
name = "small"
[workload]
clusters = 2
workers_per_cluster = 3
updates = 40
[schedule]
kind = "poisson"
offered = "60Gbps"
[topology]
rate = "20Gbps"
"#;

fn folder(experiment: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), experiment).expect("writable");
    folder
}

/// Returns the lines of `analyze --json`, by metric and labels.
fn metrics(folder: &Path, run: &str) -> BTreeMap<String, Option<f64>> {
    let lines = succeeds(folder, &["analyze", run, "--json"]);
    lines
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("one object per line");
            let labels = line["labels"].as_object().expect("labels");
            let labels: Vec<_> =
                labels.iter().map(|(k, v)| format!("{k}={}", v.to_string().trim_matches('"'))).collect();
            (format!("{}[{}]", line["metric"].as_str().expect("a metric"), labels.join(",")), line["value"].as_f64())
        })
        .collect()
}

#[test]
fn a_run_says_all_that_the_design_promises() {
    let folder = folder(SMALL);
    succeeds(folder.path(), &["replay", "x.toml", "--out", "run"]);
    let metrics = metrics(folder.path(), "run");
    for name in [
        "sent[]",
        "received[]",
        "loss[]",
        "merged[]",
        "subsumed[]",
        "outranked[]",
        "balance_unknown[]",
        "aom_mean[flow=cluster]",
        "aom_mean[flow=worker]",
        "aom_peak_mean[flow=cluster]",
        "aom_p99[flow=cluster]",
        "aom_fairness[flow=cluster]",
        "flows_never_delivered[flow=cluster]",
        "aom_mean[flow=cluster,id=1]",
        "aom_mean[flow=worker,id=5]",
        "dropped[reason=reward_low]",
        "aggregation_count[n=1]",
    ] {
        assert!(metrics.contains_key(name), "{name} is missing; there are {:?}", metrics.keys().collect::<Vec<_>>());
    }
    assert_eq!(metrics["sent[]"], Some(240.0));
    assert_eq!(metrics["balance_unknown[]"], Some(0.0));
    let bins: f64 = metrics.iter().filter(|(k, _)| k.starts_with("aggregation_count[")).filter_map(|(_, v)| *v).sum();
    assert_eq!(Some(bins), metrics["received[]"]);
    for report in ["report.html", "report.md", "report.json"] {
        assert!(folder.path().join("run").join(report).exists(), "{report}");
    }
}

/// Returns every file of a run dir, with the manifest's creation time and command blanked.
fn contents(run: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(run)
        .expect("a run dir")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let mut bytes = fs::read(&path).expect("readable");
            if name == "manifest.json" {
                let mut manifest: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
                manifest["created_unix_ns"] = 0.into();
                manifest["command"] = 0.into();
                manifest["digest"] = 0.into();
                bytes = manifest.to_string().into_bytes();
            }
            let bytes = without_provenance(&name, bytes);
            (name, bytes)
        })
        .collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let folder = folder(SMALL);
    let mut all = Vec::new();
    for (out, seed) in [("a", "1"), ("b", "1"), ("c", "2")] {
        let seed = format!("seed={seed}");
        succeeds(folder.path(), &["replay", "x.toml", "--out", out, "--set", &seed, "--set", "capture.pcap=true"]);
        all.push(contents(&folder.path().join(out)));
    }
    assert_eq!(all[0].keys().collect::<Vec<_>>(), all[1].keys().collect::<Vec<_>>());
    for (name, bytes) in &all[0] {
        assert!(all[1][name] == *bytes, "{name} differs between two runs with the same seed");
    }
    for name in ["sent.parquet", "books.parquet", "received.parquet", "capture.pcapng"] {
        assert!(all[0][name] != all[2][name], "{name} is the same for another seed");
    }
}

#[test]
fn a_trace_goes_round() {
    let folder = folder(SMALL);
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "direct"]);
    succeeds(dir, &["trace", "synth", "x.toml", "-o", "t.parquet", "--values"]);
    succeeds(dir, &["trace", "check", "t.parquet"]);
    succeeds(dir, &["replay", "x.toml", "--out", "replayed", "--set", "workload.trace=t.parquet"]);
    let (a, b) = (metrics(dir, "direct"), metrics(dir, "replayed"));
    assert_eq!(a["sent[]"], b["sent[]"]);
    // The trace starts at its first update and is scaled to the same mean rate: ages agree closely.
    let (x, y) = (a["aom_mean[flow=cluster]"].expect("a value"), b["aom_mean[flow=cluster]"].expect("a value"));
    assert!((x / y - 1.0).abs() < 0.05, "{x} {y}");
    let scale = "trace scale t.parquet -o big.parquet --clusters 100 --workers 3 --rate 60Gbps";
    succeeds(dir, &scale.split(' ').collect::<Vec<_>>());
    let info: serde_json::Value =
        serde_json::from_str(&succeeds(dir, &["trace", "info", "big.parquet", "--json"])).expect("JSON");
    assert_eq!((info["clusters"].as_u64(), info["workers"].as_u64()), (Some(100), Some(300)));
    // Copies begin up to a gap later than the recorded workers and end with them: a few of 40 updates are missing.
    let updates = info["updates"].as_f64().expect("a number");
    assert!((updates / 12_000.0 - 1.0).abs() < 0.12, "{updates}");
    assert!((info["offered_bps"].as_f64().expect("a rate") / 60e9 - 1.0).abs() < 0.01);
    let csv = |reward: &str| {
        let rows = format!("t_ps,cluster,worker,seq,reward,g\n0,0,0,0,1.5,0.25\n10,0,1,0,{reward},0.5\n20,0,0,1,2,1\n");
        fs::write(dir.join("c.csv"), rows).expect("writable");
        succeeds(dir, &["trace", "convert", "c.csv", "-o", "c.parquet"]);
    };
    csv("-3");
    succeeds(dir, &["replay", "x.toml", "--out", "csv", "--set", "workload.trace=c.parquet"]);
    assert_eq!(metrics(dir, "csv")["sent[]"], Some(3.0));
    // A missing reward would be 0 on the wire.
    csv("");
    let replay = ["replay", "x.toml", "--out", "none", "--set", "workload.trace=c.parquet"];
    refuses(dir, &replay, 2, &["row 1", "no reward"]);
}

#[test]
fn multi_hop_runs_balance() {
    let folder = folder(SMALL);
    let set = ["topology.kind=multi_hop", "workload.clusters=4", "workload.bytes=1000B", "schedule.kind=constant"];
    let mut args = vec!["replay", "x.toml", "--out", "run"];
    for key in &set {
        args.extend(["--set", key]);
    }
    let folder_path = folder.path();
    fs::write(
        folder_path.join("x.toml"),
        SMALL.replace("rate = \"20Gbps\"", "").replace("offered = \"60Gbps\"", "period = \"100ms\""),
    )
    .expect("writable");
    succeeds(folder_path, &args);
    let metrics = metrics(folder_path, "run");
    assert_eq!((metrics["sent[]"], metrics["balance_unknown[]"]), (Some(480.0), Some(0.0)));
    assert_eq!(metrics["sums_wrong[]"], Some(0.0));
}

#[test]
fn background_goes_around_the_queue() {
    let folder = folder(
        &SMALL.replace("updates = 40", "updates = 40\nbackground_rate = \"4Gbps\"\nbackground_bytes = \"300B\""),
    );
    succeeds(folder.path(), &["replay", "x.toml", "--out", "run"]);
    let metrics = metrics(folder.path(), "run");
    assert_eq!(metrics["balance_unknown[]"], Some(0.0));
    let background = metrics["sent[traffic=background]"].expect("background was sent");
    assert!(background > 0.0);
    assert_eq!(metrics["received[traffic=background]"], Some(background), "nothing of it is lost or merged");
}

#[test]
fn a_cut_run_has_updates_in_flight_and_still_balances() {
    let folder = folder(SMALL);
    succeeds(folder.path(), &["replay", "x.toml", "--out", "run", "--set", "capture.until=4us"]);
    let metrics = metrics(folder.path(), "run");
    assert!(metrics["in_flight[]"] > Some(0.0));
    assert_eq!(metrics["balance_unknown[]"], Some(0.0));
}

#[test]
fn bad_experiments_are_refused_with_place_and_remedy() {
    let folder = folder(SMALL);
    let dir = folder.path();
    for (set, words) in [
        ("workload.clutsers=3", &["clutsers", "did you mean \"clusters\""][..]),
        ("topology.rate=20gbps", &["20gbps", "Gbps", "--set"]),
        ("topology.rate=0bps", &["topology.rate: 0bps is not above 0bps"]),
        ("topology.kind=ring", &["there is no topology \"ring\"", "bottleneck"]),
        ("target.slots=0", &["target.slots", "0 is not from 1 to"]),
        ("target.queue=olav", &["did you mean \"olaf\""]),
        ("workload.bytes=9037B", &["9036 B"]),
        ("schedule.period=1us", &["both given"]),
        ("capture.records=some", &["every:N"]),
        ("tarjet.slots=3", &["did you mean \"target\""]),
        ("seed=-1", &["seed"]),
        ("sweep.seeds=9..1", &["9..1", "1..30"]),
        ("target.kind=external", &["software"]),
    ] {
        refuses(dir, &["replay", "x.toml", "--out", "never", "--set", set], 2, words);
        assert!(!dir.join("never").exists(), "{set}: nothing is written before everything is checked");
    }
    fs::write(dir.join("broken.toml"), "name = \n").expect("writable");
    refuses(dir, &["replay", "broken.toml"], 2, &["broken.toml:1:", "TOML"]);
    refuses(dir, &["replay", "absent.toml"], 2, &["EXPERIMENT absent.toml", "cannot be read", "pktgen list configs"]);
    refuses(dir, &["trace", "synth", ".", "-o", "t.parquet"], 2, &["EXPERIMENT .", "cannot be read"]);
    refuses(dir, &["trace", "synth", "x.toml", "-o", "t.parquet", "--set", "seed=-1"], 2, &["seed = -1", "from 0 on"]);
    refuses(dir, &["replay", "x.toml", "--jobs", "0"], 2, &["--jobs", "1..=1024"]);
    refuses(dir, &["analyze", "run", "--age", "eldest"], 2, &["--age", "newest, oldest, mean"]);
    fs::write(dir.join("hop.toml"), "[topology]\nkind = \"custom\"\ndevices = [\"SW\"]\nhosts = [\"h 0-26\"]\nlinks = [\"h SW 1Gbps\"]\n[schedule]\nperiod = \"1us\"\n").expect("writable");
    refuses(dir, &["replay", "hop.toml"], 2, &["\"ps\" has 0 links"]);
}

#[test]
fn bad_traces_are_refused() {
    let folder = folder(SMALL);
    let dir = folder.path();
    succeeds(dir, &["trace", "synth", "x.toml", "-o", "t.parquet"]);
    let whole = fs::read(dir.join("t.parquet")).expect("readable");
    fs::write(dir.join("cut.parquet"), &whole[..whole.len() / 2]).expect("writable");
    let set = |name: &str| format!("workload.trace={name}");
    refuses(dir, &["replay", "x.toml", "--out", "n", "--set", &set("cut.parquet")], 2, &["cut.parquet", "truncated"]);
    refuses(dir, &["replay", "x.toml", "--out", "n", "--set", &set("absent.parquet")], 2, &["absent.parquet"]);
    succeeds(dir, &["replay", "x.toml", "--out", "run"]);
    refuses(
        dir,
        &["replay", "x.toml", "--out", "n", "--set", &set("run/books.parquet")],
        2,
        &["not a trace", "cluster"],
    );
    let mut changed = whole.clone();
    let middle = changed.len() / 3;
    changed[middle] ^= 0xff;
    fs::write(dir.join("t.parquet"), &changed).expect("writable");
    refuses(dir, &["trace", "check", "t.parquet"], 2, &["t.parquet"]);
    for (csv, words) in [
        ("a,b\n1,2\n", &["header", "t_ps,cluster,worker,seq,reward"][..]),
        ("t_ps,cluster,worker,seq,reward\n0,0,x,0,1\n", &["line 2", "worker", "\"x\""]),
        ("t_ps,cluster,worker,seq,reward\n0,0\n", &["line 2", "2 columns"]),
    ] {
        fs::write(dir.join("bad.csv"), csv).expect("writable");
        refuses(dir, &["trace", "convert", "bad.csv", "-o", "never.parquet"], 2, words);
        assert!(!dir.join("never.parquet").exists() && !dir.join("never.parquet.pktgen.partial").exists());
    }
}

#[test]
fn a_run_repeats_from_its_own_manifest() {
    let sweep = "[sweep]\nseeds = \"3\"\n[[sweep.variants]]\nname = \"FIFO\"\ntarget.program = \"forward\"\ntarget.queue = \"fifo\"\n\
                 [[sweep.variants]]\nname = \"Olaf\"\n[report]\nbaseline = \"FIFO\"\n";
    let folder = folder(&format!("{SMALL}{sweep}"));
    let dir = folder.path();
    pktgen(dir, &["replay", "x.toml", "--out", "sweep"]);
    let first = dir.join("sweep/Olaf,seed=3");
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(first.join("manifest.json")).expect("a manifest")).expect("JSON");
    fs::write(dir.join("again.toml"), manifest["config"].as_str().expect("TOML")).expect("writable");
    succeeds(dir, &["replay", "again.toml", "--out", "again"]);
    for stream in ["sent.parquet", "books.parquet", "received.parquet"] {
        assert!(
            fs::read(first.join(stream)).expect("there") == fs::read(dir.join("again").join(stream)).expect("there"),
            "{stream}"
        );
    }
}

#[test]
fn a_trace_that_contradicts_its_manifest_is_not_replayed() {
    let folder = folder(SMALL);
    let dir = folder.path();
    succeeds(dir, &["trace", "synth", "x.toml", "-o", "a.parquet"]);
    succeeds(dir, &["trace", "synth", "x.toml", "-o", "b.parquet", "--seed", "9"]);
    fs::copy(dir.join("b.parquet"), dir.join("a.parquet")).expect("writable");
    refuses(dir, &["replay", "x.toml", "--out", "n", "--set", "workload.trace=a.parquet"], 2, &["a.parquet", "hash"]);
}

#[test]
fn analysis_of_an_invalid_run_says_so_and_fails() {
    let folder = folder(SMALL);
    let dir = folder.path();
    refuses(
        dir,
        &["replay", "x.toml", "--out", "run", "--set", "topology.ingress_rate=1bps", "--set", "workload.updates=5000"],
        1,
        &["26 days"],
    );
    refuses(dir, &["analyze", "run"], 1, &["invalid", "26 days"]);
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let folder = folder(SMALL);
    let dir = folder.path();
    // A file in place of a folder refuses even root.
    fs::write(dir.join("file"), "").expect("writable");
    refuses(dir, &["replay", "x.toml", "--out", "file/run"], 1, &["file/run"]);
    fs::create_dir(dir.join("used")).expect("a folder");
    fs::write(dir.join("used/mine.txt"), "keep").expect("writable");
    refuses(dir, &["replay", "x.toml", "--out", "used"], 2, &["not empty", "--out"]);
    assert_eq!(fs::read_to_string(dir.join("used/mine.txt")).expect("still there"), "keep");
    refuses(dir, &["analyze", "used"], 2, &["manifest.json", "not a run dir"]);
    refuses(dir, &["trace", "synth", "x.toml", "-o", "/dev/null"], 2, &["/dev/null", "not a file"]);
}

/// A limit on file sizes stands in for a full disk: it needs no root, and writes fail the same way.
#[test]
fn a_full_disk_is_an_error_and_loses_nothing_written_before() {
    let folder = folder(SMALL);
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "run"]);
    let before = contents(&dir.join("run"));
    let limited = |args: &str, file: &str| {
        let line = format!("trap '' XFSZ; ulimit -f 4; exec {} {args}", env!("CARGO_BIN_EXE_pktgen"));
        let output = Command::new("bash").current_dir(dir).args(["-c", &line]).output().expect("bash runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args}: {said}");
        assert!(said.contains(file) && said.contains("cannot write") && !said.contains("panicked"), "{args}: {said}");
    };
    limited("replay x.toml --out full", "full/");
    limited("trace synth x.toml --values -o full.parquet", "full.parquet");
    limited("report run --out full.html", "full.html");
    assert!(!dir.join("full.parquet").exists(), "a half-written trace does not get its name");
    assert_eq!(contents(&dir.join("run")), before);
    // The output of the failed run is still readable, and is reported as incomplete.
    refuses(dir, &["analyze", "full", "--recover"], 1, &["invalid", "killed"]);
}

#[test]
fn json_and_lists_are_for_scripts() {
    let folder = folder(SMALL);
    let dir = folder.path();
    let lists = succeeds(dir, &["list", "--json"]);
    for kind in [
        "formats",
        "workloads",
        "schedules",
        "topologies",
        "programs",
        "queues",
        "endpoints",
        "transports",
        "metrics",
        "reports",
    ] {
        assert!(lists.contains(&format!("\"kind\":\"{kind}\"")), "{kind}");
    }
    let keys = succeeds(dir, &["list", "programs", "--keys", "--json"]);
    let pool = keys.lines().find(|line| line.contains("\"switchml\"") && line.contains("\"pool\"")).expect("its key");
    assert!(
        pool.contains("\"default\":\"512; of an external device: endpoint.pool\"")
            && pool.contains("\"range\":\"1 to 8192\""),
        "{pool}"
    );
    let pool = succeeds(dir, &["list", "endpoints", "--keys"]);
    assert!(pool.contains("[default: 512; 1 to 8192]") && !pool.contains("programs"), "{pool}");
    refuses(dir, &["list", "formatz"], 2, &["did you mean \"formats\""]);
    let config = succeeds(dir, &["replay", "x.toml", "--print-config", "--set", "target.slots=16"]);
    assert!(config.contains("slots = 16") && config.contains("updates = 40"), "{config}");
    let report = succeeds(dir, &["replay", "x.toml", "--out", "run", "--json"]);
    assert_eq!(report.lines().count(), 1);
    serde_json::from_str::<serde_json::Value>(&report).expect("JSON");
}

#[test]
fn every_shipped_config_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = 0;
    let mut folders = vec![root.join("configs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                // Configs of `pktgen verify`, rules of comparisons and profiles of hardware are no experiments;
                // cli/tests/cli/verify.rs, compare.rs and device.rs read them.
                folders
                    .extend((!["verify", "rules", "hardware"].iter().any(|name| path.ends_with(name))).then_some(path));
            } else if path.extension().is_some_and(|e| e == "toml") {
                let name = path.display().to_string();
                // Traces are relative to the project's folder.
                succeeds(&root, &["replay", &name, "--print-config"]);
                found += 1;
            }
        }
    }
    assert!(found >= 2);
}

/// FIFO and Olaf with five seeds, the minimum for a comparison; `{baseline}` is a placeholder.
const SWEEP: &str = r#"
[sweep]
seeds = "1..5"
[[sweep.variants]]
name = "FIFO"
target.program = "forward"
target.queue = "fifo"
[[sweep.variants]]
name = "Olaf"
target.program = "olaf"
target.queue = "olaf"
[report]
baseline = "{baseline}"
metrics = ["los", "aom_cut/cluster"]
[[paper.rows]]
source = "Table 9"
at.variant = "FIFO"
received = 1
"#;

fn sweep_folder(baseline: &str) -> TempDir {
    // A slow output: FIFO fills up, Olaf aggregates.
    folder(&format!("{}{}", SMALL.replace("20Gbps", "5Gbps"), SWEEP.replace("{baseline}", baseline)))
}

fn code(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = pktgen(folder, args);
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_terminal_shows_the_verdict_and_the_exit_code_follows_it() {
    let better = sweep_folder("FIFO");
    let (exit, out, notes) = code(better.path(), &["replay", "x.toml", "--out", "s"]);
    assert_eq!(exit, Some(0), "{out}{notes}");
    assert!(out.starts_with("Valid: all 10 runs") && out.contains("Olaf against FIFO"), "{out}");
    assert!(out.find("against").unwrap_or(usize::MAX) < out.find("AoM cut, cluster [%]").expect("a table"), "{out}");
    assert!(out.ends_with("1 published value lies outside our intervals: see s/report.html\n"), "{out}");
    assert!(notes.contains("warning: report.metrics: there is no metric \"los\", did you mean \"loss\"?"), "{notes}");
    // With the roles exchanged, FIFO is worse: in replay and in report.
    let worse = sweep_folder("Olaf");
    for args in [&["replay", "x.toml", "--out", "s"][..], &["report", "s"], &["report", "s", "--json"]] {
        let (exit, out, _) = code(worse.path(), args);
        assert_eq!(exit, Some(1), "{args:?}: {out}");
        assert!(out.replace("\n  ", " ").contains("intervals); worse."), "{out}");
    }
    assert_eq!(code(worse.path(), &["replay", "x.toml", "--out", "t", "--no-report"]).0, Some(0), "nothing compared");
    // A run that is invalid by its own verdict makes the whole sweep invalid.
    let path = better.path().join("s/Olaf,seed=2/manifest.json");
    let text = fs::read_to_string(&path).expect("readable");
    let mut manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    manifest["incidents"] = serde_json::json!({ "faults": [{ "code": "leaked", "frames": 1 }], "notes": [] });
    fs::write(&path, manifest.to_string()).expect("writable");
    let (exit, out, _) = code(better.path(), &["report", "s", "--no-verify"]);
    assert_eq!(exit, Some(1));
    assert!(out.starts_with("INVALID: 1 of 10 runs") && out.contains("Olaf,seed=2"), "{out}");
}

#[test]
fn analyze_says_what_it_can_of_a_sweep_and_names_the_rest() {
    let folder = sweep_folder("FIFO");
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "s", "--no-report"]);
    let whole = succeeds(dir, &["analyze", "s", "--json"]);
    let line: serde_json::Value = serde_json::from_str(whole.lines().next().expect("lines")).expect("JSON");
    assert_eq!(line["labels"]["run"], "s/FIFO,seed=1");
    fs::remove_dir_all(dir.join("s/Olaf,seed=3")).expect("removable");
    fs::write(dir.join("s/FIFO,seed=2/books.parquet"), "no").expect("writable");
    let (exit, out, said) = code(dir, &["analyze", "s", "--json", "--table", "m.parquet"]);
    assert_eq!(exit, Some(1), "{said}");
    let sent = |lines: &str| lines.matches("\"metric\":\"sent\"").count();
    assert_eq!((sent(&whole), sent(&out)), (10, 8));
    assert!(out.contains("Olaf,seed=2") && !out.contains("Olaf,seed=3") && dir.join("m.parquet").exists());
    assert!(said.contains("s/Olaf,seed=3 was not analysed") && said.contains("FIFO,seed=2/books.parquet"), "{said}");
    let text = fs::read_to_string(dir.join("s/sweep.json")).expect("readable");
    fs::write(dir.join("s/sweep.json"), text.replace("\"version\": 2", "\"version\": 99")).expect("writable");
    refuses(dir, &["analyze", "s"], 2, &["version 99 is newer"]);
}

#[test]
fn json_lines_have_the_form_of_the_design() {
    let folder = folder(SMALL);
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "run", "--no-report"]);
    let lines = succeeds(dir, &["analyze", "run", "--json"]);
    assert!(lines.lines().all(|line| line.starts_with("{\"schema\":\"metric/1\",\"metric\":\"")), "{lines}");
    let lines = lines.replace("\"schema\":\"metric/1\",", "");
    let of = |start: &str| lines.lines().find(|line| line.starts_with(start)).expect(start).to_owned();
    assert_eq!(of("{\"metric\":\"sent\""), "{\"metric\":\"sent\",\"unit\":\"updates\",\"value\":240.0,\"labels\":{}}");
    let id = lines.lines().find(|line| line.contains("\"id\":1")).expect("a flow with an id");
    assert!(id.starts_with("{\"metric\":\"aom_mean\",\"unit\":\"ns\",\"value\":"), "{id}");
    assert!(id.ends_with(",\"labels\":{\"flow\":\"cluster\",\"id\":1}}"), "{id}");
    assert!(of("{\"metric\":\"aggregation_count\"").ends_with(",\"labels\":{\"n\":1}}"));
    // The generation time of another member gives another age.
    let older = succeeds(dir, &["analyze", "run", "--json", "--age", "oldest"]);
    assert_ne!(lines, older.replace("\"schema\":\"metric/1\",", ""));
    assert_eq!(lines.lines().count(), older.lines().count());
    succeeds(dir, &["report", "run", "--age", "mean", "--out", "m.md"]);
    assert!(fs::read_to_string(dir.join("m.md")).expect("a report").contains("--age mean"));
}

#[test]
fn counts_do_not_depend_on_what_is_recorded() {
    let background = "updates = 40\nbackground_rate = \"4Gbps\"\nbackground_bytes = \"300B\"";
    let folder = folder(&SMALL.replace("updates = 40", background));
    let dir = folder.path();
    let mut all = Vec::new();
    for records in ["full", "every:8", "none"] {
        let set = format!("capture.records=\"{records}\"");
        succeeds(dir, &["replay", "x.toml", "--out", &format!("run-{records}"), "--set", &set, "--no-report"]);
        all.push(metrics(dir, &format!("run-{records}")));
    }
    assert!(all[0]["sent[traffic=background]"] > Some(0.0));
    for few in &all[1..] {
        assert!(few.len() >= 15);
        for (metric, value) in few {
            assert_eq!(all[0].get(metric), Some(value), "{metric}");
        }
    }
    let (_, _, said) = code(dir, &["analyze", "run-none"]);
    assert!(said.contains("Age-of-Model, latency and aggregation need capture.records = \"full\""), "{said}");
    let (_, _, said) = code(dir, &["analyze", "run-none", "--json"]);
    let note: serde_json::Value = serde_json::from_str(said.trim()).expect("one JSON object on stderr");
    assert_eq!(note["note"], "records_not_full");
}

#[test]
fn a_killed_run_is_recovered_whichever_stream_is_left() {
    let folder = folder(SMALL);
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "run", "--no-report"]);
    // A killed run has no sweep.json.
    fs::remove_file(dir.join("run/sweep.json")).expect("removable");
    let path = dir.join("run/manifest.json");
    let running = fs::read_to_string(&path).expect("readable").replace("\"finished\"", "\"running\"");
    let ran: serde_json::Value = serde_json::from_str(&running).expect("JSON");
    let rows = format!("run: recovered {} sent", ran["balance"]["sent"].as_u64().filter(|n| *n > 0).expect("sent"));
    fs::write(&path, pktgen_core::record::digest::seal(&running)).expect("writable");
    refuses(dir, &["analyze", "run"], 2, &["was killed", "`pktgen analyze --recover run`"]);
    let (exit, out, said) = code(dir, &["analyze", "run", "--recover"]);
    assert_eq!(exit, Some(1), "it is readable, and not whole: {said}");
    assert!(out.contains("aom_mean") && said.contains(&rows), "{said}");
    // A second recovery is unnecessary.
    assert!(!code(dir, &["analyze", "run", "--recover"]).2.contains("recovered"));
    // A list of wrong packets is of a recovered run, too.
    fs::write(&path, pktgen_core::record::digest::seal(&running)).expect("writable");
    assert!(code(dir, &["analyze", "run", "--recover", "--wrong"]).2.contains(&rows));
}

#[test]
fn only_what_a_demo_made_is_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    refuses(dir, &["demo", "--seeds", "x"], 2, &["--seeds x", "\"1..10\""]);
    refuses(dir, &["demo", "--seeds", "2,2"], 2, &["--seeds 2,2"]);
    assert!(!dir.join("runs").exists());
    // The remains of a demo that was killed at once.
    fs::create_dir_all(dir.join("runs/demo/half")).expect("a folder");
    fs::write(dir.join("runs/demo/made-by-demo"), "").expect("writable");
    succeeds(dir, &["demo", "--seeds", "1"]);
    assert!(!dir.join("runs/demo/half").exists());
    fs::write(dir.join("runs/demo/old"), "").expect("writable");
    succeeds(dir, &["demo", "--seeds", "2"]);
    assert!(!dir.join("runs/demo/old").exists() && dir.join("runs/demo/made-by-demo").exists());
    // Another demo is under way there.
    let held = fs::File::open(dir.join("runs/demo")).expect("a folder");
    held.lock().expect("a lock");
    refuses(dir, &["demo", "--seeds", "1"], 1, &["runs/demo", "still under way"]);
    assert!(dir.join("runs/demo/sweep.json").exists());
    drop(held);
    // Without the marker, or with another experiment, the folder is the user's.
    fs::remove_file(dir.join("runs/demo/made-by-demo")).expect("removable");
    let before = fs::read_dir(dir.join("runs/demo")).expect("a folder").count();
    refuses(dir, &["demo", "--seeds", "1"], 2, &["runs/demo", "--out"]);
    fs::write(dir.join("runs/demo/made-by-demo"), "").expect("writable");
    let text = fs::read_to_string(dir.join("runs/demo/sweep.json")).expect("readable");
    fs::write(dir.join("runs/demo/sweep.json"), text.replace("olaf-table1", "mine")).expect("writable");
    refuses(dir, &["demo", "--seeds", "1"], 2, &["runs/demo", "--out"]);
    assert_eq!(fs::read_dir(dir.join("runs/demo")).expect("a folder").count(), before + 1);
    refuses(dir, &["demo", "--seeds", "1", "--out", "runs/demo"], 2, &["not empty", "--out"]);
}

#[test]
fn run_folders_stay_below_runs_whatever_the_experiment_is_called() {
    for name in ["../../esc", "/tmp/esc", "..", "", "a/b\\c", "ü x"] {
        let folder = folder(&SMALL.replace("\"small\"", &format!("'{name}'")));
        let dir = folder.path().join("deep/er");
        fs::create_dir_all(&dir).expect("a folder");
        succeeds(&dir, &["replay", "../../x.toml", "--no-report"]);
        let made: Vec<_> = fs::read_dir(dir.join("runs")).expect("runs").collect();
        assert_eq!((made.len(), fs::read_dir(&dir).expect("a folder").count()), (1, 1), "{name}");
        assert!(
            dir.join("runs").read_dir().expect("runs").all(|e| e.expect("a run").path().join("manifest.json").exists())
        );
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "{name}");
    }
}

#[test]
fn traces_are_described_in_units_that_can_be_read() {
    let folder = folder(SMALL);
    let dir = folder.path();
    fs::write(dir.join("c.csv"), "t_ps,cluster,worker,seq,reward,g\n0,0,0,0,1.5,0.25\n386566718432000,0,0,1,2,1\n")
        .expect("writable");
    succeeds(dir, &["trace", "convert", "c.csv", "-o", "c.parquet"]);
    let info = succeeds(dir, &["trace", "info", "c.parquet"]);
    for part in ["span         0 ns to 387 s", "mean period 387 s to 387 s", "bit/s on the mean"] {
        assert!(info.contains(part), "{part} is not in\n{info}");
    }
    assert!(!info.contains("0.000"), "{info}");
}

#[test]
fn a_scaled_trace_is_compared_with_its_original() {
    let folder = folder(SMALL);
    let dir = folder.path();
    let rl =
        fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/rl-recorded.parquet")).expect("a trace");
    let rl = rl.to_str().expect("UTF-8");
    succeeds(dir, &["trace", "scale", rl, "-o", "fast.parquet", "--clusters", "12", "--time", "0.001"]);
    let text = succeeds(dir, &["trace", "check", rl, "fast.parquet"]);
    assert!(text.contains("all that applies was kept") && text.contains("not applicable"), "{text}");
    // Equalised rates make another run.
    succeeds(dir, &["trace", "scale", rl, "-o", "equal.parquet", "--skew", "0"]);
    let output = pktgen(dir, &["trace", "check", rl, "equal.parquet", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&self::text(&output.stdout)).expect("JSON");
    let rates = json["findings"].as_array().expect("a list").iter().find(|f| f["property"] == "rates").expect("rates");
    assert_eq!((json["passed"].as_bool(), rates["outcome"].as_str()), (Some(false), Some("fail")));
    assert_eq!(output.status.code(), Some(1));
    fs::write(dir.join("broken.parquet"), "PAR1").expect("writable");
    refuses(dir, &["trace", "check", rl, "broken.parquet"], 2, &["broken.parquet"]);
    refuses(dir, &["trace", "scale", rl, "-o", "x.parquet", "--skew", "9"], 2, &["--skew", "from 0 to 4"]);
    refuses(dir, &["trace", "scale", rl, "-o", "x.parquet", "--time=-1"], 2, &["--time"]);
}

#[test]
fn built_in_experiments_run_by_name_in_any_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let listed = succeeds(dir, &["list", "configs", "--json"]);
    assert!(listed.lines().count() > 50 && listed.contains("\"name\":\"olaf/table1\""), "{listed}");
    assert!(!succeeds(dir, &["list"]).contains("olaf/table1"), "only when asked for");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/olaf/table1.toml").display().to_string();
    let config = |name: &str| succeeds(dir, &["replay", name, "--print-config", "--set", "target.slots=5"]);
    assert_eq!(config("olaf/table1"), config(&file));
    refuses(dir, &["replay", "olaf/tabel1"], 2, &["did you mean \"olaf/table1\"?", "pktgen list configs"]);
    refuses(dir, &["replay", "olaf/table1", "--set", "target.slots=0"], 2, &["target.slots: 0 is not from 1"]);
    refuses(dir, &["list", "config"], 2, &["did you mean \"configs\"?"]);
    // A file of that name takes precedence.
    fs::create_dir(dir.join("olaf")).expect("writable");
    fs::write(dir.join("olaf/table1"), SMALL).expect("writable");
    assert!(config("olaf/table1").contains("name = \"small\""));
}

#[test]
fn completions_and_man_pages_are_those_of_the_commands() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let pages = succeeds(dir, &["completions", "man", "--out", "man"]);
    let help = succeeds(dir, &["--help"]);
    let commands = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let commands = commands.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    let mut count = 0;
    for command in commands.filter(|command| *command != "help") {
        let page = fs::read_to_string(dir.join(format!("man/pktgen-{command}.1"))).expect(command);
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
        count += 1;
    }
    assert!(count > 15 && pages.lines().count() > count, "{count} commands: {pages}");
    for (shell, file) in [("bash", "pktgen.bash"), ("zsh", "_pktgen"), ("fish", "pktgen.fish")] {
        succeeds(dir, &["completions", shell, "--out", "shell"]);
        let text = fs::read_to_string(dir.join("shell").join(file)).expect(file);
        assert!(text.contains("no-report") && text.contains("analyze"), "{text}");
    }
    refuses(dir, &["completions", "tcsh"], 2, &["possible values"]);
}
