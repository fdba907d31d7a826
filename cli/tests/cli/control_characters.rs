//! Names with control characters: shown in every output, sent unescaped to no terminal, and in no file except as JSON.

use std::fs;
use std::path::Path;

use crate::support::pktgen;
use serde_json::Value;

/// Escape sequences that set a colour and a title, the same with C1 characters, and one that reverses text.
const NAMES: [&str; 2] = ["A\u{1b}[31m\u{9b}31m\u{7f}", "B\u{1b}]0;x\u{7}\u{202e}"];

fn is_clean(what: &str, text: &[u8]) {
    let text = std::str::from_utf8(text).unwrap_or_else(|_| panic!("{what} is no UTF-8"));
    let bad = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
    assert!(!text.contains(bad), "{what}: {text:?}");
}

/// Returns the output of a command after checking its exit code.
fn prints(folder: &Path, words: &[&str], code: i32) -> String {
    let output = pktgen(folder, words);
    is_clean(&format!("stdout of {words:?}"), &output.stdout);
    is_clean(&format!("stderr of {words:?}"), &output.stderr);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    said
}

/// Runs two variants with two seeds.
fn ran(folder: &Path) {
    let [a, b] = NAMES.map(|name| serde_json::to_string(name).expect("JSON").replace('\u{7f}', "\\u007f"));
    let text = format!(
        "name = {a}\nabout = {b}\n[workload]\nclusters = 2\nworkers_per_cluster = 2\nupdates = 50\nbytes = \"256B\"\n\
         [schedule]\nkind = \"poisson\"\noffered = \"40Mbps\"\n[topology]\nrate = \"20Mbps\"\n[target]\nprogram = \"olaf\"\n\
         queue = \"olaf\"\n[transport]\nkind = \"virtual\"\n[sweep]\nseeds = \"1..2\"\n[[sweep.variants]]\nname = {a}\n\
         [[sweep.variants]]\nname = {b}\n\"target.queue\" = \"fifo\"\n"
    );
    fs::write(folder.join("x.toml"), text).expect("writable");
    let said = prints(folder, &["replay", "x.toml", "--out", "out"], 0);
    assert!(said.contains("A\\u001b[31m\\u009b31m\\u007f"), "{said}");
    for entry in fs::read_dir(folder.join("out")).expect("a folder") {
        is_clean("a folder's name", entry.expect("an entry").file_name().as_encoded_bytes());
    }
}

#[test]
fn names_of_variants_are_shown_in_every_form_of_a_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    ran(folder);
    prints(folder, &["replay", "x.toml", "--no-report", "--out", "old"], 0);
    prints(folder, &["report", "out", "--history", "h.jsonl"], 0);
    prints(folder, &["history", "h.jsonl", "--all"], 0);
    prints(folder, &["history", "h.jsonl", "-o", "h.html"], 0);
    prints(folder, &["report", "out", "--plots", "plots"], 0);
    prints(folder, &["report", "out", "--baseline", "old", "-o", "c.xml"], 0);
    prints(folder, &["report", "out", "--baseline", "old", "-o", "c.html"], 0);
    prints(folder, &["report", "out", "--baseline", "old", "-o", "c.md"], 0);
    prints(folder, &["analyze", "out", "--json"], 0);
    let plots = fs::read_dir(folder.join("plots")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (svg, png): (Vec<_>, Vec<_>) = plots.partition(|path| path.extension().is_some_and(|end| end == "svg"));
    assert!(svg.len() > 3 && png.iter().all(|path| fs::metadata(path).expect("a file").len() > 1000), "{png:?}");
    let pages = ["out/report.html", "out/report.md", "h.html", "c.xml", "c.html", "c.md"].map(|name| folder.join(name));
    for path in pages.iter().chain(&svg) {
        is_clean(&path.display().to_string(), &fs::read(path).expect("a file"));
    }
    // JSON has the exact names.
    let printed = prints(folder, &["history", "h.jsonl", "--json"], 0).trim_end().replace('\n', ",");
    let written = fs::read_to_string(folder.join("out/report.json")).expect("a file");
    for json in [format!("[{printed}]"), written] {
        let value: Value = serde_json::from_str(&json).unwrap_or_else(|why| panic!("{why}: {json}"));
        let text = value.to_string();
        assert!(NAMES.iter().all(|name| text.contains(&Value::from(*name).to_string())), "{text}");
    }
}

#[test]
fn errors_show_what_they_quote() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    ran(folder);
    let hostile = "evil\u{1b}[2J\r.pcap";
    fs::write(folder.join(hostile), "no capture").expect("writable");
    for words in [
        &["replay", "x.toml", "--set", "target.program=\"\u{1b}[31mred\""][..],
        &["replay", "x.toml", "--set", "schedule.offered=\"\u{1b}[31m\""],
        &["replay", "x.toml", "--set", "\u{1b}[31m=1"],
        &["replay", "absent\u{1b}[31m.toml"],
        &["analyze", hostile],
    ] {
        let said = prints(folder, words, 2);
        assert!(said.contains("\\u001b["), "{words:?}: {said}");
    }
    prints(folder, &["report", "--\u{9b}31m"], 2);
    prints(folder, &["verify\u{1b}[31m"], 2);
}
