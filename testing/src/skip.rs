//! The one way to skip a test. `scripts/skip` does the same for scripts; `scripts/skipped` lists what was skipped.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::need::{Need, parse};

/// Prints on standard error that `what` was not tested for lack of `need`, and appends it to the list of skips.
///
/// # Panics
/// If `PKTGEN_REQUIRE` contains the need, or an unknown name.
#[track_caller]
pub fn skip(need: Need, what: &str, why: impl Display) {
    // Keep it on one line, whatever a tool printed.
    let why = why.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let required =
        parse(&std::env::var("PKTGEN_REQUIRE").unwrap_or_default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(!required.contains(&need), "{}", refusal(need, what, &why));
    // Do not use a print macro: the harness captures the output of passing tests.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}: {why} ({})", need.name());
    let path = list();
    note(&path, &format!("{}\t{what}\t{why}\n", need.name())).unwrap_or_else(|error| {
        panic!("{}: {error}; PKTGEN_SKIPS names another file for the list of skips", path.display())
    });
}

/// Returns whether the program that `need` is named after runs; otherwise skips `what`.
#[track_caller]
pub fn installed(need: Need, what: &str) -> bool {
    let answer = std::process::Command::new(need.name()).arg("--version").stdin(std::process::Stdio::null()).output();
    answer.map_err(|error| skip(need, what, error)).is_ok()
}

fn refusal(need: Need, what: &str, why: &str) -> String {
    format!("{what}: PKTGEN_REQUIRE has {}, which is not here: {why}; needs {}", need.name(), need.provided_by())
}

/// Returns the path of the list of skips; a relative path is relative to the workspace's folder.
fn list() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    workspace.join(std::env::var_os("PKTGEN_SKIPS").unwrap_or_else(|| "target/skipped.txt".into()))
}

fn note(path: &Path, line: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    File::options().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_requires_what_exists() {
        parse(&std::env::var("PKTGEN_REQUIRE").unwrap_or_default()).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn a_refusal_has_the_remedy() {
        let said = refusal(Need::Z3, "properties of queues", "no such file");
        for part in ["properties of queues", "PKTGEN_REQUIRE has z3", "no such file", "apt-get install z3"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
