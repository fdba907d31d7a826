//! `pktgen dump --canonical`: two equal runs give the same lines, which agree with `pktgen analyze`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pktgen_core::record::digest::file_digest;

use crate::support::{SMALL, pktgen};

fn prints(folder: &Path, args: &[&str]) -> String {
    let output = pktgen(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), SMALL).expect("writable");
    for out in ["a", "b"] {
        prints(folder.path(), &["-q", "replay", "x.toml", "--no-report", "--out", out]);
    }
    folder
}

#[test]
fn the_same_run_twice_gives_the_same_lines() {
    let folder = folder();
    let dir = folder.path();
    let dump = prints(dir, &["dump", "--canonical", "a"]);
    assert_eq!(dump, prints(dir, &["dump", "--canonical", "b"]));
    let runs: Vec<&str> = dump.lines().filter_map(|line| line.strip_prefix("run\t")).collect();
    assert_eq!(runs, ["queue=fifo,seed=1", "queue=olaf,seed=1"]);
    assert_eq!(dump.lines().filter(|line| *line == "valid\ttrue").count(), 2);
    assert!(dump.contains("columns\tbooks\tt_ps\tnode\tpacket_in\taction\tpacket_out\treason\n"), "{dump}");
    assert!(dump.contains("\tmerged\t") && dump.contains("\tdropped\t-\tqueue_full"), "codes by name");
    // A dump of a single run names no subfolder.
    let single = prints(dir, &["dump", "--canonical", "a/queue=olaf,seed=1"]);
    let (head, rest) = single.split_once('\n').expect("lines");
    assert_eq!(head, "run\t.");
    assert!(dump.ends_with(rest), "the second run of the folder");
    // Digests are those of the lines, and change with them.
    let digests = prints(dir, &["dump", "--canonical", "--digest", "a"]);
    assert_eq!(digests, prints(dir, &["dump", "--canonical", "--digest", "b"]));
    let parts: Vec<&str> = digests.lines().map(|line| line.split('\t').nth(1).expect("a part")).collect();
    let own = ["sent", "books", "received", "metrics", "verdict"];
    assert_eq!(parts, [&["queue=fifo,seed=1"], &own[..], &["queue=olaf,seed=1"], &own[..]].concat());
    prints(dir, &["dump", "--canonical", "a", "-o", "a.txt"]);
    assert_eq!(fs::read_to_string(dir.join("a.txt")).expect("written"), dump);
}

/// Returns the digest of a part's printed lines, as docs/dump.md defines it.
fn digest_of(folder: &Path, name: &str, lines: &[&str]) -> String {
    let is_stream = lines[0].starts_with("columns\t");
    let rows = lines.len() - usize::from(is_stream);
    let path = folder.join("part.txt");
    fs::write(&path, format!("{}{}\n", if is_stream { "" } else { "\n" }, lines.join("\n"))).expect("writable");
    format!("digest\t{name}\t{rows}\t{}", file_digest(&path).expect("a file").sha256)
}

#[test]
fn digests_are_those_of_the_printed_lines() {
    let folder = folder();
    let dir = folder.path();
    // One row in ten, on which there is a remark.
    let every = ["--set", "capture.records=\"every:10\""];
    prints(dir, &[&["-q", "replay", "x.toml", "--no-report", "--out", "few"], &every[..]].concat());
    for run in ["a/queue=olaf,seed=1", "few/queue=olaf,seed=1"] {
        let dump = prints(dir, &["dump", "--canonical", run]);
        let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
        for line in dump.lines().filter(|line| !line.starts_with("run\t")) {
            let mut fields = line.split('\t');
            let name = match fields.next().expect("a kind") {
                "columns" => fields.next().expect("a stream"),
                "metric" => "metrics",
                "valid" | "fault" | "note" | "remark" => "verdict",
                stream => stream,
            };
            match parts.last_mut().filter(|(last, _)| last == name) {
                Some((_, lines)) => lines.push(line),
                None => parts.push((name.to_owned(), vec![line])),
            }
        }
        let own: Vec<String> = parts.iter().map(|(name, lines)| digest_of(dir, name, lines)).collect();
        let digests = prints(dir, &["dump", "--canonical", "--digest", run]);
        assert_eq!(digests.lines().skip(1).collect::<Vec<_>>(), own, "{run}");
    }
}

#[test]
fn metrics_are_those_of_analyze() {
    let folder = folder();
    let run = "a/queue=olaf,seed=1";
    let dump = prints(folder.path(), &["dump", "--canonical", run]);
    let metrics = dump.lines().filter(|line| line.starts_with("metric\t")).count();
    let json = prints(folder.path(), &["-q", "--json", "analyze", run]);
    assert_eq!(metrics, json.lines().count());
    for line in json.lines() {
        // As written: parsing a number may round it.
        let between = |from: &str, to: &str| line.split_once(from)?.1.split_once(to).map(|(text, _)| text);
        let metric = between("\"metric\":\"", "\"").expect("a metric");
        let value = between("\"value\":", ",\"labels\"").expect("a value").replace("null", "-");
        let has = |own: &str| own.starts_with(&format!("metric\t{metric}\t")) && own.ends_with(&format!("\t{value}"));
        assert!(dump.lines().any(has), "{metric} {value}");
    }
}

#[test]
fn exit_codes_are_those_of_every_command() {
    let folder = folder();
    let dir = folder.path();
    let code = |args: &[&str]| pktgen(dir, args).status.code();
    assert_eq!(code(&["dump", "a"]), Some(2), "--canonical is required");
    assert_eq!(code(&["dump", "--canonical", "nowhere"]), Some(2));
    assert_eq!(code(&["dump", "--canonical", "a", "-o", "no/folder/a.txt"]), Some(1));
    // The name of the output is checked before anything is read.
    let said = |args: &[&str]| String::from_utf8_lossy(&pktgen(dir, args).stderr).into_owned();
    let manifest = "a/queue=olaf,seed=1/manifest.json";
    let fault = said(&["dump", "--canonical", "nowhere", "-o", manifest]);
    assert!(fault.contains(manifest) && fault.contains("which would be lost"), "{fault}");
    // Nothing is left behind by a dump that fails, and a file that was there remains.
    fs::write(dir.join("kept.txt"), "before").expect("writable");
    assert_eq!(code(&["dump", "--canonical", "nowhere", "-o", "kept.txt"]), Some(2));
    assert_eq!(fs::read_to_string(dir.join("kept.txt")).expect("there"), "before");
    assert!(!dir.join("kept.txt.pktgen.partial").exists());
    // An unreadable run is named, and the others are printed; damage is found.
    let path = dir.join("a/queue=fifo,seed=1/sent.parquet");
    let mut bytes = fs::read(&path).expect("a stream");
    bytes[40] ^= 1;
    fs::write(&path, bytes).expect("writable");
    let output = pktgen(dir, &["dump", "--canonical", "a"]);
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("queue=fifo,seed=1 was not read") && out.starts_with("run\tqueue=olaf,seed=1\n"), "{said}");
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let folder = folder();
    let mut dump = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    dump.current_dir(folder.path()).args(["dump", "--canonical", "a"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = dump.spawn().expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true));
}

#[test]
fn runs_are_not_read_once_the_reader_is_gone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    fs::write(dir.join("x.toml"), SMALL.replace("updates = 40", "updates = 400")).expect("writable");
    prints(dir, &["-q", "replay", "x.toml", "--no-report", "--out", "a"]);
    // The second run cannot be read, which a dump that reaches it reports.
    fs::remove_file(dir.join("a/queue=olaf,seed=1/sent.parquet")).expect("there");
    assert_eq!(pktgen(dir, &["dump", "--canonical", "a"]).status.code(), Some(1));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut dump = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    let output = dump.current_dir(dir).args(["dump", "--canonical", "a"]).stdout(writer).output().expect("it runs");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()), (Some(0), String::new()));
}

#[test]
fn a_part_of_a_run_has_streams_and_its_own_verdict() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = SMALL.replace("60Gbps", "6Mbps").replace("20Gbps", "20Mbps");
    fs::write(folder.path().join("x.toml"), config.split("[sweep]").next().expect("a head")).expect("writable");
    let set = ["--set", "transport.kind=pcap", "--set", r#"transport.files=["w.pcapng",""]"#];
    let words = ["-q", "replay", "x.toml", "--role", "workers", "--out", "w"];
    prints(folder.path(), &[&words[..], &set].concat());
    let dump = prints(folder.path(), &["dump", "--canonical", "w"]);
    assert!(dump.contains("\nnote\tpart\t{\"part\":\"workers\"}\n"), "{dump}");
    assert_eq!(dump.lines().filter(|line| line.starts_with("sent\t")).count(), 240);
    assert!(!dump.contains("metric\t"), "{dump}");
    // A killed part has no streams yet, as a killed run.
    let path = folder.path().join("w/manifest.json");
    let text = fs::read_to_string(&path).expect("a manifest");
    fs::write(&path, text.replace("\"state\": \"finished\"", "\"state\": \"running\"")).expect("writable");
    let output = pktgen(folder.path(), &["dump", "--canonical", "w", "--no-verify"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{said}");
    assert!(said.contains("the part was killed") && said.contains("--recover"), "{said}");
}
