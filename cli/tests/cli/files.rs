//! The files of a run: damage to them is noticed, output that could not be written is an error, and each folder belongs to one run.
//!
//! `make test-long` raises the numbers of changes, pairs and kills by environment variables.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::support::{SMALL, text};
use pktgen_testing::{Need, skip};
use tempfile::TempDir;

/// [`SMALL`] in real time, within one process.
const RING: &str = r#"
name = "ring"
[workload]
clusters = 2
workers_per_cluster = 3
updates = 40
[schedule]
kind = "poisson"
offered = "20Mbps"
[topology]
rate = "20Mbps"
[target]
program = "olaf"
queue = "olaf"
[transport]
kind = "ring"
wait = "block"
"#;

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(folder).args(args).stdin(Stdio::null());
    command
}

fn pktgen(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().expect("the binary runs")
}

fn succeeds(folder: &Path, args: &[&str]) -> String {
    let output = pktgen(folder, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs the command, and checks for this exit code, all of these words on stderr, and no panic.
fn refuses(folder: &Path, args: &[&str], code: i32, words: &[&str]) -> String {
    let output = pktgen(folder, args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "{args:?} should say {word:?}: {said}");
    }
    said
}

/// Returns a folder with both experiments.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), SMALL).expect("writable");
    fs::write(folder.path().join("ring.toml"), RING).expect("writable");
    folder
}

/// Returns the number of repetitions from the environment, or `usual`.
fn times(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A small deterministic random number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Returns all output on the runs in `dir`: exit code, results and notes.
fn all_said(folder: &Path, dir: &str) -> (Option<i32>, String, String) {
    let lines = pktgen(folder, &["-q", "analyze", dir, "--json"]);
    let report = pktgen(folder, &["-q", "report", dir, "--json", "--out", "r.md"]);
    let code = lines.status.code().max(report.status.code());
    (code, text(&lines.stdout) + &text(&report.stdout), text(&lines.stderr) + &text(&report.stderr))
}

#[test]
fn no_changed_byte_changes_a_number_in_silence() {
    let folder = folder();
    succeeds(folder.path(), &["replay", "x.toml", "--out", "s", "--no-report"]);
    succeeds(folder.path(), &["replay", "ring.toml", "--out", "r", "--no-report"]);
    let before = ["s", "r"].map(|dir| all_said(folder.path(), dir));
    assert!(before.iter().all(|said| said.0 == Some(0) && said.2.is_empty()), "{before:?}");
    let mut places: Vec<(usize, PathBuf)> = Vec::new();
    for name in ["sent.parquet", "books.parquet", "received.parquet", "manifest.json"] {
        places.push((0, Path::new("s").join("queue=olaf,seed=1").join(name)));
        places.push((1, Path::new("r").join(name)));
    }
    places.extend([(0, "s/sweep.json".into()), (1, "r/sweep.json".into()), (1, "r/lateness.hlog".into())]);
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut same) = (0, 0);
    for _ in 0..times("PKTGEN_DAMAGE", 100) {
        let (run, name) = &places[dice.below(places.len() as u64) as usize];
        let path = folder.path().join(name);
        let whole = fs::read(&path).expect("readable");
        let mut bytes = whole.clone();
        let at = dice.below(bytes.len() as u64) as usize;
        bytes[at] = match dice.below(3) {
            0 => bytes[at] ^ (1 << dice.below(8)),
            1 => b'0' + dice.below(10) as u8,
            _ => dice.below(256) as u8,
        };
        fs::write(&path, &bytes).expect("writable");
        let after = all_said(folder.path(), ["s", "r"][*run]);
        fs::write(&path, &whole).expect("writable");
        let file = name.file_name().expect("a name").to_string_lossy();
        let at = format!("{} byte {at}: {:?} {}", name.display(), after.0, after.2);
        assert!(!after.2.contains("panicked"), "{at}");
        match after.0 {
            Some(0) => {
                assert!(after == before[*run], "{at}");
                same += 1;
            }
            code => {
                assert!(matches!(code, Some(1 | 2)) && after.2.contains(&*file), "{at}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "{refused} refused, {same} the same");
}

/// A command never overwrites the records that another one reads.
#[test]
fn files_of_a_run_are_not_written_over() {
    let folder = folder();
    let dir = folder.path();
    succeeds(dir, &["replay", "ring.toml", "--out", "r", "--no-report"]);
    let all = "SELECT * FROM sent";
    for args in [
        &["query", "r", all, "--format", "parquet", "-o", "r/sent.parquet"][..],
        &["dump", "--canonical", "r", "-o", "r/manifest.json"],
        &["report", "r", "--out", "r/sweep.json"],
        &["analyze", "r", "--table", "r/received.parquet"],
    ] {
        refuses(dir, args, 2, &[args[args.len() - 1], "choose another name or folder"]);
    }
    let there = command(&dir.join("r"), &["query", ".", all, "--format", "parquet", "-o", "sent.parquet"]).output();
    assert_eq!(there.expect("the binary runs").status.code(), Some(2));
    succeeds(dir, &["analyze", "r"]);
    succeeds(dir, &["query", "r", all, "--format", "parquet", "-o", "r/own.parquet"]);
}

/// A report replaces neither the history to which its line is appended nor the rules, and is refused before the line is written.
#[test]
fn a_history_is_not_written_over() {
    let folder = folder();
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "s", "--no-report"]);
    succeeds(dir, &["report", "s", "--history", "h.json", "--out", "s.md"]);
    let kept = fs::read(dir.join("h.json")).expect("a history");
    fs::copy(dir.join("h.json"), dir.join("s/report.json")).expect("a copy");
    fs::copy(dir.join("h.json"), dir.join("s/compare.json")).expect("a copy");
    fs::write(dir.join("rules.toml"), succeeds(dir, &["report", "--print-rules"])).expect("writable");
    for (args, words) in [
        (&["report", "s", "--history", "h.json", "--out", "h.json"][..], &["h.json", "would be lost"][..]),
        (&["report", "s", "--history", "new.json", "--out", "new.json"], &["new.json", "two outputs"]),
        (&["report", "s", "--history", "s/report.json"], &["s/report.json", "would be lost"]),
        (&["report", "s", "--baseline", "b", "--history", "h.json", "-o", "h.json"], &["h.json", "would be lost"]),
        (&["report", "b", "s", "--baseline", "b", "--history", "s/compare.json"], &["s/compare.json", "would be lost"]),
        (
            &["report", "s", "--baseline", "b", "--history", "rules.toml", "--rules", "rules.toml"],
            &["rules.toml", "would be lost"],
        ),
    ] {
        refuses(dir, args, 2, words);
    }
    assert!(!dir.join("new.json").exists());
    for path in ["h.json", "s/report.json", "s/compare.json"] {
        assert_eq!(fs::read(dir.join(path)).expect("a history"), kept, "{path}");
    }
}

/// Also in shards and parts of runs.
#[test]
fn overrides_without_effect_are_told() {
    let folder = folder();
    let dir = folder.path();
    let over = ["--set", "transport.kind=pcap", "--set", r#"transport.files=["w.pcapng", "s.pcapng"]"#];
    for (args, over) in [
        (&["replay", "x.toml", "--shard", "1/1", "--out", "a"][..], &over[..0]),
        (&["replay", "ring.toml", "--role", "workers", "--out", "w"], &over[..]),
        (&["target", "ring.toml", "--out", "d"], &over[..]),
        (&["capture", "ring.toml", "--out", "s"], &over[..]),
    ] {
        let output = pktgen(dir, &[args, over, &["--set", "topology.leaves=4"]].concat());
        let said = text(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}");
        let told = "without effect, since nothing that was chosen reads it: topology.leaves (--set topology.leaves=4)";
        assert_eq!(said.matches(told).count(), 1, "{args:?}: {said}");
    }
}

/// A synthesised trace does not replace a trace that its workload reads.
#[test]
fn traces_that_are_read_are_not_written_over() {
    let folder = folder();
    let dir = folder.path();
    for name in ["a.parquet", "t.parquet"] {
        succeeds(dir, &["trace", "synth", "ring.toml", "-o", name]);
    }
    let kept = fs::read(dir.join("t.parquet")).expect("a trace");
    for read in ["workload.trace=t.parquet", r#"workload.trace=["a.parquet", "t.parquet"]"#] {
        let args = ["trace", "synth", "ring.toml", "--set", read, "--seed", "9", "-o", "t.parquet"];
        refuses(dir, &args, 2, &["t.parquet", "would be lost"]);
    }
    assert_eq!(fs::read(dir.join("t.parquet")).expect("a trace"), kept);
    succeeds(dir, &["trace", "synth", "ring.toml", "--set", "workload.trace=t.parquet", "-o", "other.parquet"]);
}

/// Tables of captures list their parts: missing, changed or added ones are refused.
#[test]
fn tables_of_captures_that_were_changed_are_refused() {
    let folder = folder();
    let dir = folder.path();
    succeeds(dir, &["replay", "ring.toml", "--out", "r", "--no-report", "--set", "capture.pcap=true"]);
    for form in ["parquet", "arrow"] {
        let tables = format!("tables-{form}");
        succeeds(dir, &["analyze", "r/capture.pcapng", "--tables", &tables, "--form", form]);
        let whole = succeeds(dir, &["analyze", &tables]);
        let cluster = dir.join(&tables).join("received/run=capture/cluster=1");
        let part = cluster.join(format!("part-0.{form}"));
        let bytes = fs::read(&part).expect("a part");
        let refused = |words: &[&str]| {
            for args in [&["analyze", &tables][..], &["query", &tables, "SELECT COUNT(*) FROM received"]] {
                refuses(dir, args, 1, words);
            }
        };
        fs::write(cluster.join(format!("part-1.{form}")), &bytes).expect("writable");
        refused(&["part-1.", "tables.json does not list it"]);
        fs::remove_file(cluster.join(format!("part-1.{form}"))).expect("removable");
        let other = dir.join(&tables).join("received/run=other");
        fs::create_dir(&other).expect("a folder");
        refused(&["run=other", "tables.json is of run=capture and does not list it"]);
        fs::remove_dir(&other).expect("removable");
        fs::remove_file(&part).expect("removable");
        refused(&["part-0.", "it is missing"]);
        succeeds(dir, &["-q", "analyze", &tables, "--no-verify"]);
        fs::write(&part, &bytes).expect("writable");
        let index = dir.join(&tables).join("tables.json");
        let text = fs::read_to_string(&index).expect("text");
        fs::write(&index, text.replacen("\"run\": \"capture\"", "\"run\": \"captura\"", 1)).expect("writable");
        refused(&["tables.json: its content is not what was written"]);
        fs::write(&index, text).expect("writable");
        assert_eq!(succeeds(dir, &["analyze", &tables]), whole);
    }
}

#[test]
fn changed_files_are_refused_by_name_and_read_if_wanted() {
    let folder = folder();
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "s", "--no-report"]);
    succeeds(dir, &["replay", "x.toml", "--out", "old", "--no-report"]);
    let path = dir.join("s/queue=olaf,seed=1/received.parquet");
    let mut bytes = fs::read(&path).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("writable");
    let words = ["received.parquet: its content is not what was written (sha256 ", "the manifest says ", "--no-verify"];
    refuses(dir, &["analyze", "s/queue=olaf,seed=1"], 1, &words);
    // Exit code 1 of a diagnosis says that a cause was found.
    refuses(dir, &["diagnose", "s/queue=olaf,seed=1"], 2, &words);
    let missing = dir.join("s/queue=fifo,seed=1/received.parquet");
    fs::rename(&missing, dir.join("kept")).expect("renamed");
    refuses(
        dir,
        &["diagnose", "s/queue=fifo,seed=1"],
        2,
        &["received.parquet: it is missing, and the manifest lists it"],
    );
    fs::rename(dir.join("kept"), &missing).expect("renamed");
    // Files that were not compared leave open what is in them.
    let diagnosed = |args: &[&str]| pktgen(dir, &[&["diagnose", "s/queue=fifo,seed=1", "--json"][..], args].concat());
    assert!(!text(&diagnosed(&[]).stdout).contains("\"not_verified\""));
    let unsure = diagnosed(&["--no-verify"]);
    assert!(text(&unsure.stdout).contains("\"not_verified\"") && unsure.status.code() != Some(0), "{unsure:?}");
    refuses(dir, &["analyze", "s"], 1, &words);
    assert!(text(&pktgen(dir, &["report", "s"]).stdout).starts_with("INVALID: 1 of 2 runs"));
    assert!(fs::read_to_string(dir.join("s/report.md")).expect("a report").contains(words[0]));
    refuses(dir, &["report", "s", "--baseline", "old"], 1, &[]);
    // Deliberately changed by another tool: a manifest with another seed.
    let path = dir.join("old/queue=fifo,seed=1/manifest.json");
    let text = fs::read_to_string(&path).expect("readable").replacen("\"seed\": 1", "\"seed\": 7", 1);
    fs::write(&path, text).expect("writable");
    refuses(dir, &["analyze", "old"], 1, &["fifo,seed=1/manifest.json: its content is not what was written"]);
    let note = "its files were not compared with their digests (--no-verify)";
    let output = pktgen(dir, &["analyze", "old", "--no-verify", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"note\":\"not_verified\""));
    succeeds(dir, &["report", "old", "--no-verify"]);
    for name in ["report.html", "report.md", "report.json"] {
        assert!(fs::read_to_string(dir.join("old").join(name)).expect("a report").contains(note), "{name}");
    }
    // Removed digests are reported missing; if there never were any, there is only a note.
    let path = dir.join("old/queue=olaf,seed=1/manifest.json");
    let sealed = fs::read_to_string(&path).expect("readable");
    let mut manifest: serde_json::Value = serde_json::from_str(&sealed).expect("JSON");
    fs::write(&path, manifest.to_string()).expect("writable");
    let alone = ["analyze", "old/queue=olaf,seed=1"];
    refuses(dir, &alone, 1, &["manifest.json: its content is not what was written"]);
    for key in ["files", "digest"] {
        manifest.as_object_mut().expect("an object").remove(key);
    }
    fs::write(&path, manifest.to_string()).expect("writable");
    refuses(dir, &alone, 0, &["unverified: the manifest has no digests"]);
    // Invalid UTF-8 is not JSON.
    fs::write(&path, b"{\"version\": 1, \"x\": \"\xff\"}").expect("writable");
    refuses(dir, &alone, 2, &["manifest.json: it is not JSON"]);
}

/// The digests are compared before any stream is opened.
#[test]
fn every_stream_that_was_cut_or_is_missing_is_refused_by_its_digest() {
    let folder = folder();
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "s", "--no-report"]);
    let alone = ["analyze", "s/queue=fifo,seed=1"];
    for name in ["sent", "books", "received"] {
        let path = dir.join(format!("s/queue=fifo,seed=1/{name}.parquet"));
        let whole = fs::read(&path).expect("readable");
        fs::write(&path, &whole[..whole.len() - 50]).expect("writable");
        refuses(dir, &alone, 1, &[&format!("{name}.parquet: its content is not what was written")]);
        fs::remove_file(&path).expect("removable");
        refuses(dir, &alone, 1, &[&format!("{name}.parquet: it is missing, and the manifest lists it")]);
        refuses(dir, &[&alone[..], &["--no-verify"]].concat(), 2, &[&format!("{name}.parquet: it is missing")]);
        fs::write(&path, &whole).expect("writable");
    }
    succeeds(dir, &alone);
}

/// Exit code 1 of a diagnosis says that a cause was found.
#[test]
fn a_diagnosis_of_files_that_cannot_be_read_ends_with_2() {
    let folder = folder();
    let dir = folder.path();
    fs::create_dir(dir.join("broken")).expect("a folder");
    fs::write(dir.join("broken/sweep.json"), [0xff]).expect("writable");
    refuses(dir, &["diagnose", "broken"], 2, &["sweep.json"]);
    let one = SMALL.split("[sweep]").next().expect("text");
    fs::write(dir.join("one.toml"), one).expect("writable");
    succeeds(dir, &["replay", "one.toml", "--out", "one", "--no-report"]);
    let path = dir.join("one/manifest.json");
    let manifest = fs::read_to_string(&path).expect("readable");
    fs::write(&path, manifest.replacen("\"seed\": 1", "\"seed\": 7", 1)).expect("writable");
    refuses(dir, &["diagnose", "one"], 2, &["manifest.json: its content is not what was written (", "sweep.json says"]);
    fs::remove_file(&path).expect("removable");
    refuses(dir, &["diagnose", "one"], 2, &["one/manifest.json: it is missing, and sweep.json lists it"]);
    fs::write(&path, manifest).expect("writable");
    fs::write(dir.join("one/sweep.json"), [0xff]).expect("writable");
    refuses(dir, &["diagnose", "one"], 2, &["sweep.json: it is not JSON"]);
}

/// Arguments of every command that prints, in a folder with a run `r` and a sweep `s`.
const PRINTING: [&[&str]; 22] = [
    &["--help"],
    &["--version"],
    &["replay", "--help"],
    &["list"],
    &["dissector"],
    &["explain", "--all"],
    &["explain", "loss"],
    &["analyze", "s"],
    &["analyze", "s", "--json"],
    &["report", "s"],
    &["report", "s", "--json"],
    &["report", "s", "--baseline", "t"],
    &["report", "--print-rules"],
    &["history", "h.jsonl"],
    &["replay", "ring.toml", "--print-config"],
    &["replay", "x.toml", "--dry-run"],
    &["replay", "x.toml", "--out", "printed"],
    &["replay", "x.toml", "--out", "printed-2", "--no-report"],
    &["device", "list"],
    &["doctor"],
    &["trace", "info", "t.parquet"],
    &["trace", "info", "t.parquet", "--json"],
];

#[test]
fn results_that_cannot_be_written_are_an_error() {
    let folder = folder();
    let dir = folder.path();
    for out in ["s", "t"] {
        succeeds(dir, &["replay", "x.toml", "--out", out, "--no-report"]);
    }
    succeeds(dir, &["report", "s", "--history", "h.jsonl"]);
    succeeds(dir, &["trace", "synth", "ring.toml", "-o", "t.parquet"]);
    for args in PRINTING {
        let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = command(dir, args).stdout(full).stderr(Stdio::piped()).output().expect("the binary runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("pktgen: cannot write to standard output: No space left on device"), "{args:?}: {said}");
    }
    // A reader that stops early causes no error.
    for args in [&["dissector"][..], &["explain", "--all"], &["analyze", "s", "--json"], &["--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = command(dir, args).stdout(writer).stderr(Stdio::piped()).output().expect("the binary runs");
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
    }
}

/// A link to nothing: root may write everywhere.
#[test]
fn a_folder_of_runs_that_cannot_be_made_is_no_full_one() {
    let folder = folder();
    std::os::unix::fs::symlink("nowhere/at/all", folder.path().join("runs")).expect("a link");
    let said = refuses(folder.path(), &["replay", "x.toml", "--no-report"], 1, &["cannot create folder runs:"]);
    assert!(!said.contains("all exist"), "{said}");
}

/// Returns the names of the files in `dir` that a failed write left behind.
fn torn(dir: &Path) -> Vec<String> {
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name().to_string_lossy().into_owned();
    fs::read_dir(dir).expect("a folder").map(name).filter(|name| name.ends_with(".partial")).collect()
}

#[test]
fn files_that_cannot_be_written_are_an_error_and_leave_nothing_torn() {
    let folder = folder();
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "s", "--no-report"]);
    let full = "No space left on device";
    refuses(dir, &["analyze", "s", "--table", "/dev/full"], 1, &["/dev/full", full]);
    for (kind, link) in ["html", "md", "json"].map(|kind| (kind, dir.join(format!("full.{kind}")))) {
        std::os::unix::fs::symlink("/dev/full", &link).expect("a link");
        refuses(dir, &["report", "s", "--out", &format!("full.{kind}")], 1, &[full]);
    }
    // Beyond the file size limit, which is one block here.
    let limited = |args: &str| {
        let line = format!("ulimit -f 1; exec {} {args}", env!("CARGO_BIN_EXE_pktgen"));
        Command::new("sh").current_dir(dir).args(["-c", &line]).output().expect("a shell")
    };
    for args in ["analyze s --table m.parquet", "report s --out x.html", "replay x.toml --out limited --no-report"] {
        let output = limited(args);
        assert_eq!(output.status.code(), Some(1), "{args}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("File too large"), "{args}: {}", text(&output.stderr));
    }
    assert!(!dir.join("m.parquet").exists() && !dir.join("x.html").exists());
    assert_eq!(torn(dir), [""; 0]);
    assert_ne!(pktgen(dir, &["analyze", "limited"]).status.code(), Some(0));
}

/// As in `(echo before; pktgen ... -o /dev/stdout; echo after) > all.txt`.
#[test]
fn a_file_behind_standard_output_keeps_what_others_write() {
    let folder = folder();
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "s", "--no-report"]);
    let dump = ["dump", "--canonical", "s", "--digest"];
    let path = dir.join("all.txt");
    let mut file = fs::File::create(&path).expect("writable");
    file.write_all(b"before\n").expect("writable");
    let mut own = command(dir, &[&dump[..], &["-o", "/dev/stdout"]].concat());
    assert!(own.stdout(file.try_clone().expect("a descriptor")).status().expect("the binary runs").success());
    file.write_all(b"after\n").expect("writable");
    let expected = format!("before\n{}after\n", succeeds(dir, &dump));
    assert_eq!(fs::read_to_string(&path).expect("readable"), expected);
}

/// Waits for `child`; returns its exit code and its messages.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("its end");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_folder_is_of_one_run() {
    let folder = folder();
    let dir = folder.path();
    let begin =
        |args: &[&str]| command(dir, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a run");
    let pairs = times("PKTGEN_PAIRS", 10);
    for n in 0..pairs {
        let out = format!("out-{n}");
        let mut ends = Vec::new();
        for seed in ["seed=1", "seed=2"] {
            let experiment = if n % 2 == 0 { "ring.toml" } else { "x.toml" };
            ends.push(begin(&["replay", experiment, "--set", seed, "--out", &out, "--no-report"]));
        }
        let ends: Vec<_> = ends.into_iter().map(ended).collect();
        let mut codes: Vec<_> = ends.iter().map(|end| end.0).collect();
        codes.sort();
        assert_eq!(codes, [Some(0), Some(2)], "{ends:?}");
        let refusal = ends.iter().find(|end| end.0 == Some(2)).map(|end| end.1.as_str()).unwrap_or_default();
        let known = ["the folder is not empty", "another process is about to write into the folder"];
        assert!(known.iter().any(|why| refusal.contains(why)) && refusal.contains(&out), "{refusal}");
        succeeds(dir, &["analyze", &out]);
        assert_eq!(torn(&dir.join(&out)), [""; 0]);
    }
    // Runs without a given folder get one each.
    for _ in 0..pairs.div_ceil(4) {
        let all: Vec<_> = (0..4).map(|_| begin(&["replay", "x.toml", "--no-report"])).collect();
        for (code, said) in all.into_iter().map(ended) {
            assert_eq!(code, Some(0), "{said}");
        }
    }
    let made = fs::read_dir(dir.join("runs")).expect("runs").count() as u64;
    assert_eq!(made, pairs.div_ceil(4) * 4);
    // A refused run leaves no folder behind.
    refuses(dir, &["replay", "x.toml", "--set", "topology.rate=0Gbps"], 2, &[]);
    assert_eq!(fs::read_dir(dir.join("runs")).expect("runs").count() as u64, made);
}

#[test]
fn what_a_killed_sweep_had_finished_is_whole_and_the_rest_has_words() {
    let folder = folder();
    let dir = folder.path();
    let mut dice = Dice(7);
    let mut alive = 0;
    for n in 0..times("PKTGEN_KILLS", 8) {
        let out = format!("k{n}");
        let sets = ["--set", "workload.updates=400", "--set", "sweep.seeds=1..20"];
        let args = [&["-q", "replay", "x.toml", "--no-report", "--jobs", "1", "--out", &out][..], &sets].concat();
        let mut child = command(dir, &args).stderr(Stdio::null()).spawn().expect("a run");
        std::thread::sleep(Duration::from_millis(20 + dice.below(300)));
        alive += u64::from(child.try_wait().expect("a state").is_none());
        let _ = child.kill();
        let _ = child.wait();
        if !dir.join(&out).join("sweep.json").exists() {
            continue;
        }
        let finished: Vec<_> = fs::read_dir(dir.join(&out))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| {
                fs::read_to_string(path.join("manifest.json"))
                    .is_ok_and(|text| text.contains("\"state\": \"finished\""))
            })
            .collect();
        for run in &finished {
            succeeds(dir, &["analyze", &run.display().to_string()]);
        }
        let output = pktgen(dir, &["analyze", &out, "--recover", "--json"]);
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0..=2)) && !said.contains("panicked"), "{said}");
        for line in said.lines().filter(|line| line.contains("was not analysed")) {
            assert!(line.contains("the run never began: its sweep ended before"), "{line}");
        }
        assert!(!said.contains("was not recovered"), "{said}");
        assert!(text(&output.stdout).matches("\"metric\":\"sent\"").count() >= finished.len(), "{said}");
        // Recovery is complete: a second analysis gives the same, and nothing is unverified.
        let again = pktgen(dir, &["analyze", &out, "--json"]);
        assert_eq!((text(&again.stdout), again.status.code()), (text(&output.stdout), output.status.code()));
        assert!(!text(&again.stderr).contains("unverified"), "{}", text(&again.stderr));
        fs::remove_dir_all(dir.join(&out)).expect("removable");
    }
    assert!(alive > 0, "no run was killed while it was under way");
}

/// Needs root for a separate file system in a separate mount namespace.
#[test]
fn a_full_disk_is_an_error_and_keeps_what_was_written() {
    let folder = folder();
    let dir = folder.path();
    fs::create_dir(dir.join("disk")).expect("writable");
    let script = r#"
        mount -t tmpfs -o size=600k none disk || exit 77
        "$0" -q replay x.toml --set sweep.seeds=1 --set workload.updates=20000 --jobs 1 --no-report --out disk/s 2>said
        echo $? >code
        cp -r disk/s kept || exit 1
    "#;
    let mut own = Command::new("unshare");
    own.current_dir(dir).args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_pktgen")]);
    match own.output() {
        Ok(output) if output.status.success() => {}
        // 77: no mount; 1 without a code: no namespace.
        Ok(output) if output.status.code() != Some(77) && dir.join("code").exists() => {
            panic!("{}", text(&output.stderr))
        }
        Ok(output) => return skip(Need::Mounts, "a full disk", text(&output.stderr)),
        Err(error) => return skip(Need::Mounts, "a full disk", format!("unshare does not run: {error}")),
    }
    let said = fs::read_to_string(dir.join("said")).expect("what it said");
    assert_eq!(fs::read_to_string(dir.join("code")).expect("a code").trim(), "1", "{said}");
    assert!(said.contains("No space left on device") && said.contains("disk/s/"), "{said}");
    // With free space again, all data that reached the disk is there.
    let output = pktgen(dir, &["analyze", "kept", "--recover", "--json"]);
    let said = text(&output.stderr);
    // Streams are written concurrently: any of them may have been the first to reach the disk.
    let rows =
        said.split("recovered ").nth(1).and_then(|rest| rest.split(" rows").next()).unwrap_or_else(|| panic!("{said}"));
    assert!(rows.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum::<u64>() > 0, "{said}");
    assert!(text(&output.stdout).contains("\"metric\":\"sent\""), "{said}");
    for run in fs::read_dir(dir.join("kept")).expect("runs").map(|entry| entry.expect("an entry").path()) {
        assert!(run.is_file() || torn(&run).is_empty(), "{}", run.display());
    }
}

/// Neither a stream nor its Parquet file has room: the verdict says so, and what was written can be recovered.
#[test]
fn a_run_in_real_time_that_cannot_close_its_files_says_why() {
    let folder = folder();
    let dir = folder.path();
    let sets = "--set workload.updates=6000 --set schedule.offered=400Mbps --set topology.rate=400Mbps";
    let args = format!("replay ring.toml --no-report --out full {sets}");
    let line = format!("trap '' XFSZ; ulimit -f 64; exec {} {args}", env!("CARGO_BIN_EXE_pktgen"));
    let output = Command::new("bash").current_dir(dir).args(["-c", &line]).output().expect("bash runs");
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains(".arrows"), "{:?}: {said}", output.status);
    // A part of a batch is not kept: the manifest may need its room.
    let streams = fs::read_dir(dir.join("full")).expect("a folder").map(|entry| entry.expect("an entry").path());
    for stream in streams.filter(|path| path.extension().is_some_and(|own| own == "arrows")) {
        assert!(stream.metadata().expect("a file").len() < 64 << 10, "{}", stream.display());
    }
    let manifest = || fs::read_to_string(dir.join("full/manifest.json")).expect("a manifest");
    let failed = manifest();
    assert!(failed.contains("\"role_failed\"") && failed.contains("\"running\""), "{failed}");
    let said = text(&pktgen(dir, &["analyze", "full", "--recover"]).stderr);
    let recovered = manifest();
    assert!(said.contains("recovered "), "{said}");
    assert!(recovered.contains("\"role_failed\"") && recovered.contains("\"interrupted\""), "{recovered}");
}

/// A limit on file sizes stands in for a full disk.
#[test]
fn a_recovery_that_cannot_write_is_no_wrong_request() {
    let folder = folder();
    let dir = folder.path();
    succeeds(dir, &["replay", "ring.toml", "--no-report", "--out", "full"]);
    // As a killed run leaves it.
    fs::remove_file(dir.join("full/sweep.json")).expect("removable");
    let path = dir.join("full/manifest.json");
    let running = fs::read_to_string(&path).expect("readable").replace("\"finished\"", "\"running\"");
    fs::write(&path, pktgen_core::record::digest::seal(&running)).expect("writable");
    let line = format!("trap '' XFSZ; ulimit -f 1; exec {} analyze full --recover", env!("CARGO_BIN_EXE_pktgen"));
    let output = Command::new("bash").current_dir(dir).args(["-c", &line]).output().expect("bash runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("full was not recovered: cannot write "), "{said}");
    assert!(said.contains("full was not analysed"), "{said}");
}

#[test]
fn a_sweep_stays_in_its_folder() {
    let folder = folder();
    let dir = folder.path();
    succeeds(dir, &["replay", "x.toml", "--out", "s", "--no-report"]);
    succeeds(dir, &["replay", "ring.toml", "--out", "away", "--no-report"]);
    let path = dir.join("s/sweep.json");
    let sweep = fs::read_to_string(&path).expect("readable");
    let absolute = dir.join("away").display().to_string();
    for other in ["../away", "x/../../away", &absolute] {
        let led = sweep.replace("queue=olaf,seed=1", other);
        fs::write(&path, pktgen_core::record::digest::seal(&led)).expect("writable");
        for args in [&["analyze", "s"][..], &["analyze", "s", "--recover"], &["report", "s"]] {
            let said = text(&pktgen(dir, args).stderr);
            let told = text(&pktgen(dir, args).stdout) + &said;
            assert_ne!(pktgen(dir, args).status.code(), Some(0), "{args:?} {other}");
            assert!(told.replace("\n  ", " ").contains("leads out of the sweep's"), "{args:?} {other}: {told}");
        }
    }
}
