//! Statistics per interval (`--stats`) and per role: they add up to the run's records, and no frame arrives unsent.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{pktgen, text};

/// 18 workers in 3 clusters, for about `seconds`.
pub(crate) fn folder(seconds: u32) -> TempDir {
    let updates = 250 * seconds;
    let experiment = format!(
        "name = \"watched\"\n[workload]\nclusters = 3\nworkers_per_cluster = 6\nupdates = {updates}\nbytes = \"256B\"\n\
         [schedule]\nkind = \"poisson\"\noffered = \"9.2Mbps\"\n[topology]\nrate = \"5Mbps\"\n[target]\nprogram = \"olaf\"\n\
         queue = \"olaf\"\n[transport]\nkind = \"ring\"\nwait = \"block\"\n"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), experiment).expect("writable");
    folder
}

/// The files of a run over files.
const FILES: &str = r#"transport.files=["w.pcapng", "s.pcapng"]"#;

fn replay(folder: &Path, args: &[&str]) -> Output {
    pktgen(folder, &[&["replay", "x.toml", "--no-report"], args].concat())
}

/// Rows by name of their columns.
fn csv(path: &Path) -> Vec<Vec<(String, String)>> {
    let text = fs::read_to_string(path).expect("rows");
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().expect("names");
    lines.map(|cells| names.iter().cloned().zip(cells).collect()).collect()
}

fn cell(row: &[(String, String)], name: &str) -> String {
    row.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name}")).1.clone()
}

fn number(row: &[(String, String)], name: &str) -> f64 {
    cell(row, name).parse().unwrap_or_else(|_| panic!("{name}: {row:?}"))
}

#[test]
fn intervals_add_up_to_what_was_recorded_and_nothing_arrives_unsent() {
    let folder = folder(3);
    let output = replay(folder.path(), &["--out", "out", "--stats", "200ms", "--stats-to", "s.csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows = csv(&folder.path().join("s.csv"));
    // A host that is late has fewer and longer ones.
    assert!(rows.len() > 1, "{} rows", rows.len());
    let (mut ended, mut sums, mut timed) = (0.0, [0.0; 4], 0);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!((cell(row, "schema"), cell(row, "run")), ("stats/1".to_owned(), "seed=1".to_owned()));
        assert_eq!(number(row, "begin_s"), ended, "each begins where the one before it ends");
        ended = number(row, "end_s");
        assert!(ended > number(row, "begin_s"));
        assert_eq!(cell(row, "last"), (i + 1 == rows.len()).to_string());
        for (sum, name) in sums.iter_mut().zip(["sent", "received", "represented", "received_bytes"]) {
            *sum += number(row, name);
            assert_eq!(*sum, number(row, &format!("{name}_total")), "{name}");
        }
        assert!(sums[1] <= sums[0] && sums[2] <= sums[0], "{row:?}");
        // Of the frames whose records were written in it: perhaps none.
        let late = ["late_p50_ns", "late_p99_ns", "late_max_ns"].map(|name| cell(row, name));
        let late: Vec<f64> = late.iter().filter_map(|cell| cell.parse().ok()).collect();
        assert!(late.is_sorted() && [0, 3].contains(&late.len()), "{late:?}");
        timed += late.len();
        assert_eq!(
            (cell(row, "device"), cell(row, "unread")),
            (String::new(), "0".to_owned()),
            "no device is launched"
        );
    }
    let manifest: Value =
        serde_json::from_slice(&fs::read(folder.path().join("out/manifest.json")).expect("a manifest")).expect("JSON");
    let counters = &manifest["counters"];
    assert!(timed > 0);
    assert_eq!(Some(sums[0]), manifest["balance"]["sent"].as_f64());
    assert_eq!(Some(sums[1]), counters["packets_received"].as_f64());
    assert_eq!(Some(sums[3]), counters["bytes_received"].as_f64());
    // A line per role.
    let said = text(&output.stderr);
    for (role, frames) in [("workers", sums[0]), ("device", sums[0]), ("server", sums[1])] {
        let line = said.lines().find(|line| line.starts_with(&format!("{role}: sent "))).expect("a line");
        assert!(line.contains(&format!("; {frames} ")) && line.contains(" packets/s, "), "{line}");
        assert_eq!(line.contains("late by"), role == "workers", "{line}");
    }
}

#[test]
fn rows_and_roles_are_json_lines_of_their_kinds() {
    let folder = folder(1);
    let output = replay(folder.path(), &["--out", "out", "--stats", "500ms", "--json", "-q"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |schema: &str| lines.iter().filter(|line| line["schema"] == schema).collect::<Vec<_>>();
    let (rows, roles) = (of("stats/1"), of("role/1"));
    // On a busy host all intervals may be one.
    assert!(!rows.is_empty() && rows.iter().all(|row| row["device"].is_null() && row["sent"].is_u64()), "{rows:?}");
    assert_eq!(
        roles.iter().map(|role| role["role"].as_str()).collect::<Vec<_>>(),
        [Some("workers"), Some("device"), Some("server")]
    );
    for role in roles {
        let [frames, bytes] = ["counted", "bytes"].map(|name| role[name].as_u64().expect("a count"));
        assert_eq!(bytes, 256 * frames, "{role}");
        assert_eq!(role["late_p99_ns"].is_null(), role["role"] != "workers", "{role}");
    }
}

/// Sparse training over a ring; all parameters are hot, so only workers receive.
const HOT: &str = r#"
name = "hot"
[workload]
kind = "sparse"
parameters = 500
dense = 0
pairs = 100
hot = 500
curve = "zipf"
exponent = 0.3
workers = 4
iterations = 40
compute = "5ms"
[topology]
kind = "star"
[endpoint]
workers = "libra"
timeout = "50ms"
[target]
program = "libra"
result_timeout = "50ms"
[transport]
kind = "ring"
wait = "block"
"#;

/// Returns the rows and the manifest of a run with these settings.
fn watched(experiment: &str, set: &str) -> (Vec<Value>, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), experiment).expect("writable");
    let words = ["--out", "out", "--stats", "100ms", "--stats-to", "s.jsonl", "--set", set];
    let output = replay(folder.path(), &words);
    assert!(folder.path().join("out/manifest.json").exists(), "{}", text(&output.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a file");
    let rows = read("s.jsonl").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (rows, serde_json::from_str(&read("out/manifest.json")).expect("JSON"))
}

#[test]
fn sums_by_key_are_received_at_workers_and_at_the_server() {
    for set in ["workload.hot=500", "workload.hot=250"] {
        let (rows, manifest) = watched(HOT, set);
        for row in &rows {
            assert_eq!((&row["warnings"], &row["represented_total"]), (&json!([]), &Value::Null), "{row}");
        }
        let last = rows.last().expect("a row");
        assert_eq!(last["received_total"], manifest["counters"]["packets_received"], "{set}");
        assert_eq!(last["clusters"][0]["received_total"], last["received_total"], "{set}");
        assert!(last["received_total"].as_u64() > Some(0), "{last}");
        assert!(last["clusters"][0]["age_s"].is_null() && last["clusters"][0]["age_mean_s"].is_null(), "{last}");
    }
}

#[test]
fn pushes_to_a_server_alone_are_counted_as_updates() {
    let text = HOT.replace("program = \"libra\"\nresult_timeout = \"50ms\"", "program = \"forward\"");
    let text = text.replace("workers = \"libra\"", "workers = \"ps_lite\"");
    let (rows, manifest) = watched(&text, "workload.hot=250");
    let last = rows.last().expect("a row");
    assert!(last["received_total"].as_u64() > Some(0), "{last}");
    assert_eq!(last["represented_total"], last["received_total"], "{last}");
    assert_eq!(last["received_total"], manifest["counters"]["packets_received"], "{last}");
}

#[test]
fn runs_in_real_time_are_watched_beside_others_in_virtual_time() {
    let folder = folder(1);
    let path = folder.path().join("x.toml");
    let variant =
        |name: &str, kind: &str| format!("[[sweep.variants]]\nname = \"{name}\"\ntransport.kind = \"{kind}\"\n");
    let experiment = fs::read_to_string(&path).expect("an experiment");
    let write = |kind: &str| {
        let text = format!("{experiment}{}{}", variant("twin", "virtual"), variant("other", kind));
        fs::write(&path, text).expect("writable");
    };
    write("ring");
    let flags = ["--metrics", "127.0.0.1:0", "--control", "c.sock", "--stats", "200ms", "--stats-to", "s.jsonl"];
    let output = replay(folder.path(), &[&["--out", "out"][..], &flags].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows = fs::read_to_string(folder.path().join("s.jsonl")).expect("rows");
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["run"] == "other,seed=1"), "{rows:?}");
    // Of a part, the run that it is of: rings have no parts, which is found before the flags are judged.
    for (run, word) in [("other", "joins roles of one process"), ("twin", "--metrics: not supported in virtual time")] {
        let run = format!("{run},seed=1");
        let args = ["target", "x.toml", "--run", &run, "--out", "part", "--metrics", "127.0.0.1:0"];
        let output = pktgen(folder.path(), &args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(word), "{run}: {said}");
    }
    // No run supports them.
    write("virtual");
    for flag in [&flags[..2], &flags[2..4], &flags[4..6]] {
        let output = replay(folder.path(), &[&["--out", "none"], flag].concat());
        let (said, words) = (text(&output.stderr), format!("{}: not supported in virtual time", flag[0]));
        assert!(output.status.code() == Some(2) && said.contains(&words), "{flag:?}: {said}");
    }
}

#[test]
fn mistakes_of_the_experiment_are_found_before_observers_are_opened() {
    let folder = folder(1);
    let flags = ["--stats", "1s", "--stats-to", "s.jsonl", "--out", "out", "--set", "target.slotss=3"];
    for part in [
        &["replay", "x.toml"][..],
        &["replay", "x.toml", "--control", "c.sock"],
        &["replay", "x.toml", "--role", "workers", "--control", "c.sock"],
        &["replay", "x.toml", "--rank", "0/2"],
        &["target", "x.toml"],
    ] {
        let output = pktgen(folder.path(), &[part, &flags].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{part:?}: {said}");
        assert!(said.starts_with("pktgen: --set target.slotss=3: unknown key"), "{part:?}: {said}");
        let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1, "{part:?}: {left:?}");
    }
}

/// Rings, and files without names, have no parts that a process could open.
#[test]
fn parts_that_no_process_could_open_are_found_before_observers_are_opened() {
    let folder = folder(1);
    let flags = ["--stats", "1s", "--stats-to", "s.jsonl", "--out", "out"];
    let same = r#"transport.interfaces=["a", "b", "b", "c"]"#;
    for (set, word) in [
        (&["transport.kind=ring"][..], "joins roles of one process"),
        (&["transport.kind=pcap"], "transport.files has 0 names"),
        (&["transport.kind=af_packet", same], "names \"b\" for device.up"),
    ] {
        let set: Vec<_> = set.iter().flat_map(|set| ["--set", *set]).collect();
        let output = pktgen(folder.path(), &[&["target", "x.toml"][..], &flags, &set].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(word), "{set:?}: {said}");
        let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1, "{set:?}: {left:?}");
    }
}

/// The host refuses it after its observers were opened.
#[test]
fn a_run_that_does_not_begin_leaves_no_file_of_statistics() {
    let folder = folder(1);
    let written = |name: &str| fs::read_to_string(folder.path().join(name)).ok().map(|text| text.lines().count());
    fs::write(folder.path().join("mine.jsonl"), "").expect("writable");
    let part = |words: &[&str], name: &str| {
        let flags = ["--stats", "1s", "--stats-to", name, "--set", "transport.kind=pcap", "--set", FILES];
        pktgen(folder.path(), &[words, &["x.toml", "--out", "out"], &flags].concat())
    };
    for name in ["s.csv", "s.jsonl", "mine.jsonl"] {
        let output = part(&["target"], name);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("cannot open w.pcapng"), "{said}");
    }
    assert_eq!(["s.csv", "s.jsonl", "mine.jsonl"].map(written), [None, None, Some(0)]);
    // One that begins leaves a row at least.
    let output = part(&["replay", "--role", "workers"], "s.csv");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(written("s.csv") > Some(1), "{:?}", written("s.csv"));
}

#[test]
fn what_cannot_be_written_is_refused_before_the_run() {
    let folder = folder(1);
    fs::write(folder.path().join("there.csv"), "x").expect("writable");
    for (args, word) in [
        (&["--stats", "99ms"][..], "at least 100ms"),
        (&["--stats", "1s", "--stats-to", "x.txt"], ".csv, .jsonl"),
        (&["--stats", "1s", "--stats-to", "there.csv"], "there already"),
        (
            &["--stats", "1s", "--stats-to", "y.csv", "--set", "transport.kind=virtual"],
            "--stats: not supported in virtual time",
        ),
        (&["--tui", "--set", "transport.kind=virtual"], "--tui: not supported in virtual time"),
        (&["--metrics", "127.0.0.1:0", "--set", "transport.kind=virtual"], "--metrics: not supported in virtual time"),
        (&["--stats", "1s", "--dry-run"], "--dry-run"),
        (&["--stats-to", "x.csv"], "--stats"),
        (&["--hold"], "--control or --tui"),
        (&["--control", "--set", "transport.kind=virtual"], "virtual time"),
        (
            &["--role", "workers", "--control", "--set", "transport.kind=pcap", "--set", FILES],
            "--control: not supported in virtual time and over files",
        ),
        (
            &["--role", "workers", "--control", "--hold", "--set", "transport.kind=pcap", "--set", FILES],
            "--hold: not supported in virtual time",
        ),
        (&["--control", "--hold", "--set", "transport.kind=virtual"], "--hold: not supported in virtual time"),
        (&["--control", "there.csv"], "there already"),
    ] {
        let output = replay(folder.path(), &[&["--out", "out"], args].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(word), "{args:?}: {said}");
        assert!(!folder.path().join("out").exists() && !folder.path().join("y.csv").exists(), "{args:?}");
    }
    for part in ["target", "capture"] {
        for flag in ["--control", "--hold"] {
            let output = pktgen(folder.path(), &[part, "x.toml", "--out", "out", flag]);
            let (said, words) = (text(&output.stderr), format!("{flag}: only workers can be controlled"));
            assert!(output.status.code() == Some(2) && said.contains(&words), "{part} {flag}: {said}");
        }
    }
    for flag in [&["--tui"][..], &["--metrics", "127.0.0.1:0"], &["--stats", "1s"], &["--control"], &["--hold"]] {
        for of in [&["--dry-run"][..], &["--find-rate"], &["--shard", "1/2"]] {
            let output = pktgen(folder.path(), &[&["replay", "x.toml", "--out", "out"], of, flag].concat());
            let (said, word) = (text(&output.stderr), format!("{}: it is not for --dry-run", flag[0]));
            assert!(output.status.code() == Some(2) && said.contains(&word), "{of:?} {flag:?}: {said}");
            assert!(!folder.path().join("out").exists(), "{of:?} {flag:?}");
        }
    }
    // A full disk is reported, and the run is kept.
    let output = replay(folder.path(), &["--out", "full", "--stats", "200ms", "--stats-to", "full.csv"]);
    assert_eq!(output.status.code(), Some(0));
    std::os::unix::fs::symlink("/dev/full", folder.path().join("dev.csv")).expect("a link");
    let output = replay(folder.path(), &["--out", "kept", "--stats", "200ms", "--stats-to", "dev.csv"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("--stats-to dev.csv"), "{said}");
    assert!(folder.path().join("kept/manifest.json").exists());
}
