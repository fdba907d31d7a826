//! The flags of `pktgen replay` for speed and repetition.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A small experiment: 6 workers, 240 updates; its schedule says a period.
const SMALL: &str = "name = \"small\"\n[workload]\nclusters = 2\nupdates = 40\n\
    [schedule]\nkind = \"poisson\"\nperiod = \"1ms\"\n[topology]\nrate = \"20Gbps\"\n";

fn pktgen(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(folder).args(args);
    // The environment says otherwise; flags win.
    command.env("PKTGEN_SET_SCHEDULE__SPEED", "3").output().expect("the binary runs")
}

fn config(folder: &Path, flags: &[&str]) -> Vec<String> {
    let output = pktgen(folder, &[&["replay", "x.toml", "--print-config"], flags].concat());
    assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

fn refused(folder: &Path, flags: &[&str], words: &[&str]) {
    let output = pktgen(folder, &[&["replay", "x.toml", "--out", "never"], flags].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
    assert!(words.iter().all(|word| said.contains(word)), "{flags:?} should say {words:?}: {said}");
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), SMALL).expect("writable");
    folder
}

#[test]
fn flags_win_over_file_and_environment() {
    let folder = folder();
    for (flags, there, gone) in [
        (&[][..], &["period = \"1ms\"", "speed = 3"][..], &["pps", "offered"][..]),
        (&["--speed", "0.0000002"], &["period = \"1ms\"", "speed = \"0.0000002\""], &["pps", "offered"]),
        (&["--pps", "2M", "--loop", "3"], &["period = \"1ms\"", "pps = \"2M\"", "repeat = 3"], &["speed", "offered"]),
        (&["--rate", "10Gbps"], &["offered = \"10Gbps\""], &["period", "speed", "pps"]),
    ] {
        let lines = config(folder.path(), flags);
        assert!(there.iter().all(|line| lines.iter().any(|l| l == line)), "{flags:?}: {lines:?}");
        assert!(
            !gone.iter().any(|key| lines.iter().any(|l| l.starts_with(&format!("{key} =")))),
            "{flags:?}: {lines:?}"
        );
    }
}

#[test]
fn wrong_flags_name_themselves_and_their_keys() {
    let folder = folder();
    for (flags, words) in [
        (&["--speed", "0"][..], &["--speed 0", "schedule.speed", "1e-9 to 1e9"][..]),
        (&["--speed", "fast"], &["--speed fast", "schedule.speed", "0.25"]),
        (&["--pps", "2X"], &["--pps 2X", "schedule.pps", "100k"]),
        (&["--pps", "0"], &["--pps 0", "schedule.pps"]),
        (&["--pps", "0.00001"], &["--pps 0.00001", "schedule.pps", "26 days"]),
        (&["--rate", "10"], &["--rate 10", "schedule.offered", "no unit"]),
        (&["--loop", "many"], &["--loop"]),
        (&["--speed", "2", "--pps", "1"], &["--speed", "--pps", "cannot be used with"]),
        (&["--rate", "1Gbps", "--pps", "1"], &["--rate", "--pps", "cannot be used with"]),
        (&["--speed", "2", "--rate", "1Gbps"], &["--speed", "--rate", "cannot be used with"]),
        (&["--top", "--speed", "2"], &["--top", "--speed", "cannot be used with"]),
        (&["--top", "--rate", "1Gbps"], &["--top", "--rate", "cannot be used with"]),
        (&["--top", "--pps", "1"], &["--top", "--pps", "cannot be used with"]),
        (&["--pps", "1", "--set", "schedule.speed=2"], &["--pps 1", "--set schedule.speed=2"]),
        (&["--loop", "0"], &["workload.repeat"]),
    ] {
        refused(folder.path(), flags, words);
    }
    assert!(!folder.path().join("never").exists());
}

#[test]
fn a_run_and_the_replay_of_its_trace_take_the_same_flags() {
    let folder = folder();
    let succeeds = |args: &[&str]| {
        let output = pktgen(folder.path(), args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    succeeds(&["trace", "synth", "x.toml", "-o", "t.parquet"]);
    succeeds(&["replay", "x.toml", "--no-report", "--out", "made", "--pps", "100k", "--loop", "2"]);
    let trace = "workload.trace=[\"t.parquet\", \"t.parquet\"]";
    succeeds(&["replay", "x.toml", "--no-report", "--out", "played", "--set", trace, "--speed", "1e3"]);
    for run in ["made", "played"] {
        let manifest = fs::read_to_string(folder.path().join(run).join("manifest.json")).expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(manifest["validity"]["valid"], true, "{run}: {manifest}");
    }
}
