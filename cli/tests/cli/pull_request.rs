//! `scripts/pull-request`: two builds run alternately, and one comment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use pktgen_testing::{Need, installed};

use crate::support::{root, text};

const EXPERIMENT: &str = r#"name = "small"
[workload]
kind = "rl"
clusters = 3
workers_per_cluster = 2
updates = 60
[schedule]
kind = "poisson"
offered = "10Gbps"
[topology]
kind = "bottleneck"
rate = "5Gbps"
[target]
program = "olaf"
queue = "olaf"
slots = 4
"#;

fn compared(folder: &Path, head: &Path, more: &[&str]) -> Output {
    let mut script = Command::new("python3");
    script.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(folder).arg(root().join("scripts/pull-request"));
    script.args(["before", "x.toml", "--seeds", "6", "--base-binary", env!("CARGO_BIN_EXE_pktgen"), "--head-binary"]);
    script.arg(head).args(more).output().expect("python3")
}

/// Loads the script as a module and runs the examples of its functions.
const EXAMPLES: &str = "
import doctest, sys, types
from importlib.machinery import SourceFileLoader
path = sys.argv[1]
sys.path.insert(0, path.rsplit('/', 1)[0])
module = types.ModuleType('pull_request')
module.__file__ = path
SourceFileLoader('pull_request', path).exec_module(module)
sys.exit(doctest.testmod(module).failed)
";

/// Verdicts that contradict their numbers, names that become markup, the order of rows, and what does not fit.
#[test]
fn the_examples_of_the_script_hold() {
    if !installed(Need::Python, "examples of scripts/pull-request") {
        return;
    }
    let mut python = Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1").args(["-c", EXAMPLES]).arg(root().join("scripts/pull-request"));
    let done = python.output().expect("python3");
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
}

#[test]
fn a_change_is_judged_and_told_in_one_comment() {
    if !installed(Need::Python, "results in a pull request") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    fs::write(folder.join("x.toml"), EXPERIMENT).expect("writable");
    let own = Path::new(env!("CARGO_BIN_EXE_pktgen"));
    let same = compared(folder, own, &["--out", "same", "--strict"]);
    assert_eq!(same.status.code(), Some(0), "{}{}", text(&same.stdout), text(&same.stderr));
    let comment = fs::read_to_string(folder.join("same/comment.md")).expect("a comment");
    assert!(
        comment.starts_with("<!-- pktgen: pull-request -->\n### Results of this change against before: 1 same\n"),
        "{comment}"
    );
    // A build with fewer slots.
    let head = folder.join("head");
    let wrapper = format!(
        "#!/bin/sh\n[ \"$2\" = replay ] && set -- \"$@\" --set target.slots=2\nexec '{}' \"$@\"\n",
        own.display()
    );
    fs::write(&head, wrapper).expect("writable");
    fs::set_permissions(&head, fs::Permissions::from_mode(0o755)).expect("executable");
    let worse = compared(folder, &head, &["--out", "worse"]);
    assert_eq!(worse.status.code(), Some(1), "{}{}", text(&worse.stdout), text(&worse.stderr));
    let comment = fs::read_to_string(folder.join("worse/comment.md")).expect("a comment");
    assert!(comment.contains("| small | worse |") && comment.contains("target.slots: 4 → 2"), "{comment}");
    assert!(comment.contains("| worse | loss | all | +"), "{comment}");
    for end in ["html", "md", "json", "xml"] {
        assert!(folder.join(format!("worse/1-x/compare.{end}")).exists(), "{end}");
    }
    // Entries for which the comment has no room are counted.
    let short = compared(
        folder,
        &head,
        &["--out", "short", "--limit", "500", "--set", "name=\"a rather long name of an experiment\""],
    );
    assert_eq!(short.status.code(), Some(1), "{}", text(&short.stderr));
    let comment = fs::read_to_string(folder.join("short/comment.md")).expect("a comment");
    assert!(
        comment.chars().count() <= 500 && comment.contains("left out, since a comment has at most 500"),
        "{comment}"
    );
    let broken = compared(folder, Path::new("/bin/false"), &["--out", "broken"]);
    assert_eq!(broken.status.code(), Some(1), "{}", text(&broken.stderr));
    let comment = fs::read_to_string(folder.join("broken/comment.md")).expect("a comment");
    assert!(
        comment.contains("| x.toml | failed |") && comment.contains("\nhead: false -q replay x.toml … exits with 1"),
        "{comment}"
    );
    assert!(!comment.contains("base: "), "{comment}");
    let neither = compared(folder, own, &["--out", "neither", "--set", "topology.rate=none"]);
    assert_eq!(neither.status.code(), Some(1), "{}", text(&neither.stderr));
    let comment = fs::read_to_string(folder.join("neither/comment.md")).expect("a comment");
    for side in ["base", "head"] {
        assert!(comment.contains(&format!("\n{side}: pktgen -q replay x.toml … exits with 2")), "{side}: {comment}");
    }
    let few = compared(folder, own, &["--seeds", "2"]);
    assert!(few.status.code() == Some(2) && text(&few.stderr).contains("at least 6 seeds"), "{}", text(&few.stderr));
}
