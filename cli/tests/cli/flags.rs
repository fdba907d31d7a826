//! Flags that a command would ignore are refused, results that are folders are told, and names may be of any bytes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::stats::folder;
use crate::support::{pktgen, text};

fn refuses(folder: &Path, args: &[&str], words: &[&str]) {
    let output = pktgen(folder, args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(words.iter().all(|word| said.contains(word)), "{args:?} should name {words:?}: {said}");
}

#[test]
fn what_would_have_no_effect_is_refused() {
    let folder = folder(2);
    let dir = folder.path();
    for (set, words) in
        [("wrokload.updates=5", &["wrokload", "workload"][..]), ("workload.repeat=0", &["workload.repeat"])]
    {
        refuses(dir, &["trace", "synth", "x.toml", "-o", "t.parquet", "--set", set], words);
    }
    refuses(dir, &["query", "run", "--tables", "-o", "t.csv"], &["--tables", "--out"]);
    refuses(dir, &["certify", "--markdown", "--json"], &["--markdown and --json: choose one"]);
    for words in [&["--stats", "1s"][..], &["--metrics", "127.0.0.1:0"], &["--speed", "2"], &["--for", "0s"]] {
        refuses(dir, &[&["capture", "--iface", "absent0"][..], words].concat(), &words[..1]);
    }
}

#[test]
fn keys_that_tune_sets_itself_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    for (set, more) in [
        ("schedule.pps=5", &["--pps", "100k"][..]),
        ("capture.until=1s", &["--pps", "100k"]),
        ("workload.updates=5", &[]),
        ("workload.repeat=5", &[]),
        ("transport.kind=udp", &[]),
        ("transport.zero_copy=true", &[]),
        ("workload.bytes=1500B", &["--bytes", "64B"]),
    ] {
        let (key, written) = (set.split('=').next().unwrap_or_default(), format!("--set {set}"));
        let args = [&["tune", "absent0", "--set", set][..], more].concat();
        refuses(dir, &args, &[written.as_str(), key]);
    }
    // The size has no flag of its own then: what is missing is the interface.
    let output = pktgen(dir, &["tune", "absent0", "--set", "workload.bytes=1500B"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let shipped = include_str!("../../../configs/wires/rates.toml");
    assert!(shipped.contains("\nbytes = \"256B\"\n"), "the default of --bytes");
}

#[test]
fn flags_that_another_argument_leaves_without_use_are_refused() {
    let folder = folder(2);
    let dir = folder.path();
    for name in ["run", "rows"] {
        fs::create_dir(dir.join(name)).expect("a folder");
    }
    fs::write(dir.join("rows/tables.json"), "{}").expect("writable");
    let of_runs: [&[&str]; 4] = [&["--age", "oldest"], &["--memory", "9"], &["--no-verify"], &["--rules", "r.toml"]];
    for flag in of_runs {
        refuses(dir, &[&["report", "--history", "h.jsonl"][..], flag].concat(), &[flag[0], "a history without RUN"]);
    }
    let of_a_test: [&[&str]; 4] = [&["x.toml"], &["--clause", "1"], &["--seed", "1"], &["--allow-launch"]];
    for other in of_a_test {
        for list in ["--list", "--markdown"] {
            refuses(dir, &[&["certify", list][..], other].concat(), &[list, "cannot be used with"]);
        }
    }
    let cases: [(&[&str], &[&str]); 8] = [
        (&["diagnose", "run", "--allow-launch"], &["--allow-launch", "a run has ended"]),
        (&["diagnose", "x.toml", "--no-verify"], &["--no-verify", "no files yet"]),
        (&["analyze", "run", "--wrong", "--age", "oldest"], &["--wrong: cannot be combined", "--age"]),
        (&["analyze", "run", "--wrong", "--memory", "9"], &["--wrong: cannot be combined", "--memory"]),
        (&["analyze", "rows", "--memory", "9"], &["--memory", "not for tables"]),
        (&["replay", "x.toml", "--dry-run", "--rank", "0/2", "--out", "o"], &["--dry-run", "--rank"]),
        (&["replay", "x.toml", "--role", "workers", "--jobs", "2"], &["--role", "--jobs"]),
        (&["replay", "x.toml", "--find-rate", "--jobs", "2"], &["--find-rate", "--jobs"]),
    ];
    cases.iter().for_each(|(args, words)| refuses(dir, args, words));
}

#[test]
fn a_folder_is_told_in_json_and_names_may_be_of_any_bytes() {
    let folder = folder(2);
    let dir = folder.path();
    let output = pktgen(dir, &["replay", "x.toml", "--no-report", "--json"]);
    let said = text(&output.stdout);
    assert!(said.contains("\"schema\":\"folder/1\"") && said.contains("runs/"), "{said}");
    let output = pktgen(dir, &["completions", "bash", "--out", "shell", "--json"]);
    let said = text(&output.stdout);
    assert!(said.contains("\"schema\":\"folder/1\"") && said.contains("shell/pktgen.bash"), "{said}");
    let name = OsStr::from_bytes(b"t\xff.parquet");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(dir).args(["--json", "-q", "trace", "synth", "x.toml", "-o"]).arg(name);
    assert_eq!(command.output().expect("it runs").status.code(), Some(0));
}

#[test]
fn a_search_prints_the_configuration_of_the_named_run() {
    let folder = folder(2);
    let prints = |words: &[&str]| {
        let set = ["replay", "x.toml", "--print-config", "--set", "sweep.axes.target.queue=[\"fifo\",\"olaf\"]"];
        let output = pktgen(folder.path(), &[&set[..], words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let named = ["--run", "queue=olaf,seed=1"];
    let second = prints(&named);
    assert_ne!(second, prints(&[]));
    assert_eq!(prints(&[&named[..], &["--find-rate"]].concat()), second);
}

#[test]
fn the_help_of_parts_without_workers_has_no_flags_that_steer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (part, steers) in [("target", false), ("capture", false), ("replay", true)] {
        let help = text(&pktgen(folder.path(), &[part, "--help"]).stdout);
        assert!(help.contains("--stats-to"), "{part}: {help}");
        for flag in ["--control", "--hold"] {
            assert_eq!(help.contains(flag), steers, "{part} {flag}: {help}");
        }
    }
}

#[test]
fn help_has_every_kind_of_component_and_verdict() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = |args: &[&str]| text(&pktgen(folder.path(), args).stdout);
    let (help, all) = (said(&["list", "--help"]), said(&["list"]));
    let kinds: Vec<_> = all.lines().filter(|line| !line.starts_with(' ')).collect();
    assert!(kinds.len() > 15, "{kinds:?}");
    for kind in kinds {
        assert!(help.contains(&format!(" {kind}")), "{kind}: {help}");
    }
    let help = said(&["certify", "--help"]);
    for verdict in ["passed", "failed", "not decidable", "not applicable", "measured"] {
        assert!(help.contains(verdict), "{verdict}: {help}");
    }
}
