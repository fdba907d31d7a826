//! Flags that a command would ignore are refused, results that are folders are told, and names may be of any bytes.

use std::ffi::OsStr;
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
    for words in [&["--stats", "1s"][..], &["--metrics", "127.0.0.1:0"], &["--speed", "2"], &["--for", "0s"]] {
        refuses(dir, &[&["capture", "--iface", "absent0"][..], words].concat(), &words[..1]);
    }
}

#[test]
fn a_folder_is_told_in_json_and_names_may_be_of_any_bytes() {
    let folder = folder(2);
    let dir = folder.path();
    let output = pktgen(dir, &["replay", "x.toml", "--no-report", "--json"]);
    let said = text(&output.stdout);
    assert!(said.contains("\"schema\":\"folder/1\"") && said.contains("runs/"), "{said}");
    let name = OsStr::from_bytes(b"t\xff.parquet");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.current_dir(dir).args(["--json", "-q", "trace", "synth", "x.toml", "-o"]).arg(name);
    assert_eq!(command.output().expect("it runs").status.code(), Some(0));
}
