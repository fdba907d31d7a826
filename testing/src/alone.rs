//! Runs a test in a process of its own: starts the test binary again with that test only.

use std::path::Path;
use std::process::{Command, Stdio};

/// Environment variable that is set in the inner process.
const INSIDE: &str = "PKTGEN_TEST_INSIDE";

/// Returns whether this is the process that was started for one test.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Returns the harness's name for the test `name` of the module `path` (as given by `module_path!()`).
pub fn full_name(path: &str, name: &str) -> String {
    path.split_once("::").map_or(name.to_owned(), |(_, module)| format!("{module}::{name}"))
}

/// Runs this test binary with the command prefix `before` in `folder`, with the test `full` only.
///
/// # Panics
/// If that test fails.
#[track_caller]
pub fn again(before: &[&str], folder: &Path, full: &str) {
    let program = std::env::current_exe().expect("this test").display().to_string();
    let words = [before, &[&program, "--exact", full, "--nocapture", "--test-threads=1"]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).env(INSIDE, "1").stderr(Stdio::inherit());
    let output = command.output().unwrap_or_else(|e| panic!("{}: {e}", words[0]));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{full}, inside: {}\n{said}", output.status);
}

/// Runs `body` in a process of its own in `folder`; `name` is the calling test, in the module `path`.
#[track_caller]
pub fn in_own_process(path: &str, name: &str, folder: &Path, body: impl FnOnce()) {
    if is_inside() { body() } else { again(&[], folder, &full_name(path, name)) }
}
