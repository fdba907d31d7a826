//! docs/evidence.md is the output of `scripts/evidence` for the numbers in docs/evidence.json, the published numbers and the configs.

use pktgen_testing::{Need, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the folders of configs with published results.
fn systems() -> Vec<String> {
    let lists =
        fs::read_dir(root().join("docs/published")).expect("the lists").map(|list| list.expect("an entry").path());
    let lists = lists.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let names = lists.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned());
    names.chain(["verify".to_owned()]).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs the script; none, with a printed reason, if it cannot run.
fn evidence(root: &Path, arguments: &[&str]) -> Option<Output> {
    let script = root.join("scripts/evidence");
    let output = Command::new("python3").env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args(arguments).output();
    let why = match output {
        Ok(output) if output.status.code() == Some(3) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Ok(output) => return Some(output),
        Err(e) => format!("python3: {e}"),
    };
    skip(Need::Python, "docs/evidence.md is what scripts/evidence makes", why);
    None
}

/// Returns the names (`olaf/table1`) of all configs that belong in the table.
fn configs() -> Vec<String> {
    let mut names = Vec::new();
    for system in systems() {
        for entry in fs::read_dir(root().join("configs").join(&system)).expect("configs") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|e| e == "toml") {
                names.push(format!("{system}/{}", path.file_stem().expect("a name").to_string_lossy()));
            }
        }
    }
    assert!(names.len() > 30, "{names:?}");
    names
}

#[test]
fn the_table_is_what_the_numbers_and_the_configs_make() {
    let Some(output) = evidence(&root(), &["--check"]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_config_is_in_the_table() {
    let page = fs::read_to_string(root().join("docs/evidence.md")).expect("the page");
    for name in configs() {
        let row = format!("| [{name}](../configs/{name}.toml) | ");
        assert!(
            page.lines().any(|line| line.starts_with(&row)),
            "{name} is not in docs/evidence.md: run scripts/evidence"
        );
    }
}

/// Published numbers without a result of ours are in the table, too.
#[test]
fn every_published_number_is_in_the_table_once() {
    let Some(output) = evidence(&root(), &["--json"]) else { return };
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let verdicts: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let page = fs::read_to_string(root().join("docs/evidence.md")).expect("the page");
    assert!(verdicts.len() > 100, "{}", verdicts.len());
    for entry in verdicts {
        let id = entry["id"].as_str().expect("an id");
        let row = format!("| `{id}` | ");
        assert_eq!(page.lines().filter(|line| line.starts_with(&row)).count(), 1, "{id}");
    }
}

/// Returns a copy of the script's inputs that can be modified.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut names: Vec<_> = systems().iter().map(|system| format!("configs/{system}")).collect();
    names.extend(["docs", "docs/published", "scripts"].map(str::to_owned));
    for name in names {
        fs::create_dir_all(folder.path().join(&name)).expect("a folder");
        for entry in fs::read_dir(root().join(&name)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                fs::copy(&path, folder.path().join(&name).join(path.file_name().expect("a name"))).expect("copied");
            }
        }
    }
    folder
}

fn edit(folder: &Path, file: &str, from: &str, to: &str) {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).expect("readable");
    assert!(text.contains(from), "{file} says {from}");
    fs::write(path, text.replacen(from, to, 1)).expect("writable");
}

#[test]
fn edited_tables_numbers_and_configs_are_noticed() {
    let whole = copy();
    let Some(output) = evidence(whole.path(), &["--check"]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let edits = [
        ("docs/evidence.md", " | differs | ", " | agrees | "),
        ("docs/evidence.json", "\"valid\": true", "\"valid\": false"),
        // An executed config, and a published number.
        ("configs/olaf/table1.toml", "updates = 500", "updates = 501"),
        ("docs/published/olaf.toml", "value = 6109", "value = 6110"),
    ];
    for (file, from, to) in edits {
        let spoiled = copy();
        edit(spoiled.path(), file, from, to);
        let output = evidence(spoiled.path(), &["--check"]).expect("it ran before");
        assert_eq!(output.status.code(), Some(1), "{file} with {to}");
    }
    let more = copy();
    fs::write(more.path().join("configs/olaf/new.toml"), "name = \"new\"\n").expect("writable");
    let output = evidence(more.path(), &["--check"]).expect("it ran before");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("it lacks olaf/new"), "{output:?}");
}

/// A result counts as reproduced only if it was run with the current inputs.
#[test]
fn what_changed_since_it_was_run_is_not_shown_as_run() {
    let folder = copy();
    edit(folder.path(), "configs/olaf/table1-unlike.toml", "updates = 500", "updates = 501");
    let none = folder.path().join("none");
    fs::create_dir(&none).expect("a folder");
    let Some(output) = evidence(folder.path(), &[&none.display().to_string()]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(folder.path().join("docs/evidence.md")).expect("the page");
    let rows: Vec<_> =
        page.lines().filter(|line| line.starts_with("| `olaf/table1/") && line.contains("/loss`")).collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert!(
        rows.iter().all(|row| row.contains("olaf/table1-unlike: changed since it was run | not run |")),
        "{rows:?}"
    );
}
