//! `pktgen trace convert` as a command: every example, exit codes, remaining files, and a run that is restored exactly
//! from its capture. The requirements of each format are tested with the importers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{example_groups, pktgen};
use pktgen_workload::trace::{IMPORTERS, Reader, recognise};
use pktgen_workload::workload::Update;

fn succeeds(folder: &Path, args: &[&str]) -> String {
    let output = pktgen(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Checks for exit code 2, these words, nothing on stdout, no new file, and unchanged existing files.
fn refuses(folder: &Path, args: &[&str], words: &[&str]) {
    let files = || {
        let mut all: Vec<_> = fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
        all.sort();
        all.into_iter().map(|path| (fs::read(&path).unwrap_or_default(), path)).collect::<Vec<_>>()
    };
    let before = files();
    let output = pktgen(folder, &[&["trace", "convert"], args].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}");
    for word in words {
        assert!(message.contains(word), "{args:?}: \"{word}\" is not in: {message}");
    }
    assert!(files() == before, "{args:?}: files were left behind or changed");
}

fn examples() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/examples")).expect("the examples")
}

/// Returns all updates of a trace with their values.
fn read(path: &Path) -> Vec<(Update, Vec<f32>)> {
    let mut reader = Reader::open(path).expect("a trace");
    let mut all = Vec::new();
    while let Some(block) = reader.next_block().expect("whole") {
        all.extend(block.updates.iter().enumerate().map(|(i, update)| (*update, block.values(i).to_vec())));
    }
    all
}

#[test]
fn every_importer_has_an_example_that_becomes_a_trace() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let at = |name: &str| examples().join(name).display().to_string();
    let mut seen = BTreeSet::new();
    // The numbers of updates are in docs/import.md, whose outputs are checked.
    for files in example_groups() {
        let importer = recognise(&files[0]).expect("an importer");
        let mut words = vec!["--json", "trace", "convert", "--out", "t.parquet"];
        words.extend(files.iter().map(|file| file.to_str().expect("UTF-8")));
        for flag in importer.flags() {
            words.extend(match *flag {
                "--split" => &["--split", "9036B"][..],
                "--wire" => &["--wire", "olaf"],
                _ => std::slice::from_ref(flag),
            });
        }
        let line: serde_json::Value = serde_json::from_str(&succeeds(dir, &words)).expect("one object");
        assert_eq!(line["trace"].as_str(), Some("t.parquet"), "{line}");
        assert!(line["updates"].as_u64() > Some(0), "{line}");
        assert_eq!(line["details"]["importer"].as_str(), Some(importer.name()), "{line}");
        seen.insert(importer.name());
        succeeds(dir, &["trace", "check", "t.parquet"]);
    }
    let without = IMPORTERS.iter().map(|importer| importer.name()).filter(|name| !seen.contains(name));
    assert_eq!(without.collect::<Vec<_>>(), [""; 0], "importers without an example in traces/examples");
    // The same with text output, and a run of the result.
    let text = succeeds(dir, &["trace", "convert", &at("olaf.pcapng"), "-o", "t.parquet"]);
    assert!(text.starts_with("t.parquet: 60 updates, converted\n") && text.contains("6 retransmission"), "{text}");
}

#[test]
fn what_a_run_sent_comes_back_from_its_capture() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let experiment = "[workload]\nclusters = 3\nworkers_per_cluster = 2\nupdates = 40\n\
                      [schedule]\nkind = \"poisson\"\noffered = \"30Gbps\"\n[topology]\nrate = \"10Gbps\"\n";
    fs::write(dir.join("x.toml"), experiment).expect("writable");
    succeeds(dir, &["trace", "synth", "x.toml", "--values", "-o", "synth.parquet"]);
    succeeds(dir, &["replay", "x.toml", "--no-report", "--out", "run", "--set", "capture.pcap=true"]);
    let text = succeeds(dir, &["trace", "convert", "run/sent.pcapng", "-o", "back.parquet"]);
    let (sent, back) = (read(&dir.join("synth.parquet")), read(&dir.join("back.parquet")));
    assert_eq!(sent.len(), 240);
    assert!(sent == back, "{text}: row {:?}", sent.iter().zip(&back).position(|(a, b)| a != b));
    // The server received aggregates, which do not name their members.
    refuses(dir, &["run/capture.pcapng", "-o", "never.parquet"], &["packet ", "an aggregate of ", "before the device"]);
}

/// Trio-ML numbers the workers of each job from 0, ATP those of all jobs.
#[test]
fn captures_of_several_jobs_come_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    for (system, topology, elements) in [("trio_ml", "rack", 256), ("atp", "star", 62)] {
        let experiment = format!(
            "[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = 2000\nworkers = 2\njobs = 2\niterations = 2\n\
             elements = {elements}\ncompute = \"1ms\"\n[topology]\nkind = \"{topology}\"\n\
             [target]\nprogram = \"{system}\"\n[endpoint]\nworkers = \"{system}\"\n"
        );
        fs::write(dir.join("x.toml"), experiment).expect("writable");
        succeeds(dir, &["replay", "x.toml", "--no-report", "--out", system, "--set", "capture.pcap=true"]);
        let sent = format!("{system}/sent.pcapng");
        succeeds(dir, &["trace", "convert", &sent, "-o", "back.parquet"]);
        let back = read(&dir.join("back.parquet"));
        for worker in 0..4 {
            let own: Vec<_> = back.iter().filter(|(update, _)| update.worker == worker).collect();
            assert!(own.len() >= 2 * 2000 / elements, "{system}: {} updates of worker {worker}", own.len());
            assert!(own.iter().all(|(update, _)| u32::from(update.cluster) == worker / 2), "{system}: worker {worker}");
        }
    }
}

#[test]
fn damage_is_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    for name in ["updates.csv", "updates.arrow", "updates.parquet", "olaf.pcapng", "ranks.0.et"] {
        let whole = fs::read(examples().join(name)).expect("an example");
        fs::write(dir.join(name), &whole[..whole.len() - 5]).expect("writable");
    }
    let csv = fs::read_to_string(examples().join("updates.csv")).expect("text");
    fs::write(dir.join("updates.csv"), csv.replace("120,0,0", "120,zero,0")).expect("writable");
    fs::write(dir.join("notes.txt"), "no trace").expect("writable");
    fs::write(dir.join("old.parquet"), "what was there").expect("writable");
    for out in ["new.parquet", "old.parquet"] {
        for (input, words) in [
            ("updates.csv", &["updates.csv: line 6 (row 4): column \"worker\": \"zero\"", "0 to 4294967295"][..]),
            ("updates.arrow", &["updates.arrow: damaged at byte", "truncated"]),
            ("updates.parquet", &["updates.parquet: "]),
            ("olaf.pcapng", &["olaf.pcapng: damaged at byte"]),
            ("ranks.0.et", &["ranks.0.et: byte ", "truncated"]),
            ("notes.txt", &["notes.txt: ", "--format", "csv, "]),
        ] {
            let words: Vec<_> = words.iter().map(|word| word.replace("csv, ", "csv (.csv)")).collect();
            refuses(dir, &[input, "-o", out], &words.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
    let head = "t_ps,cluster,worker,seq,bytes,values\n1,0,0,0,";
    for (row, words) in [
        ("76,1 2 3 4 5 6", &["6 values need a frame of ", "and it says 76"][..]),
        (",0.5;;1", &["column \"values\": \"\" is not a finite number"]),
    ] {
        fs::write(dir.join("row.csv"), format!("{head}{row}\n")).expect("writable");
        refuses(dir, &["row.csv", "-o", "t.parquet"], words);
    }
    fs::write(dir.join("row.csv"), format!("{head},1;1e-50;2;\n")).expect("writable");
    let said = succeeds(dir, &["trace", "convert", "row.csv", "-o", "row.parquet"]);
    assert!(said.contains("to 32 bits: 1 of the numbers"), "{said}");
    refuses(dir, &["notes.txt", "-o", "t.parquet", "--format", "tsv"], &["--format", "there is no importer \"tsv\""]);
    refuses(dir, &["updates.csv", "-o", "t.parquet", "--wire", "olav"], &["--wire", "did you mean \"olaf\""]);
    refuses(dir, &["updates.csv", "-o", "t.parquet", "--split", "1B"], &["--split", "76 B to 9036 B"]);
    refuses(dir, &["updates.csv", "-o", "t.parquet", "--split", "900B"], &["--split", "csv has no use for it"]);
    refuses(dir, &["-o", "t.parquet"], &["INPUTS"]);
}
