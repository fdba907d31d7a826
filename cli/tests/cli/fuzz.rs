//! Arbitrary bytes as a capture, trace, run dir or experiment: no panic, no hang, bounded memory.
//!
//! The cases run in a separate process of this binary, with a limit on its memory; a file names the case in progress when it ended.
//! `PROPTEST_CASES` sets the number of cases; `FUZZ_SEED` sets the first seed, `FUZZ_TARGET` selects a single target.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};

use crate::fuzzing::mutate::Random;
use crate::fuzzing::{Samples, TARGETS, Target};
use pktgen_testing::HANG;

/// Address space of a process that reads files of a few hundred kilobytes, in KiB: most of it is code and stacks.
const MEMORY_KIB: u64 = 2 << 20;
/// Environment variable with the folder of the process that runs the cases.
const FOLDER: &str = "PKTGEN_TEST_FUZZ_FOLDER";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns the command with a limit on its memory.
fn limited(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("bash");
    let line = format!("ulimit -v {MEMORY_KIB} -c 0; exec \"$0\" \"$@\"");
    command.args(["-c", &line]).arg(program).args(args).stdin(Stdio::null());
    command
}

#[test]
fn any_bytes_give_an_answer_or_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let this = std::env::current_exe().expect("this test");
    let mut command = limited(&this, &["--exact", "fuzz::the_cases", "--ignored", "--nocapture"]);
    let output = command.env(FOLDER, folder.path()).output().expect("it runs");
    if !output.status.success() {
        let doing = std::fs::read_to_string(folder.path().join("doing")).unwrap_or_default();
        // Keep the folder for inspection.
        let kept = folder.keep();
        panic!("{}: {doing}, in {}\n{}", output.status, kept.display(), said(&output));
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs all cases in a process with limited memory.
#[test]
#[ignore = "started by the other test, with a limit on its memory"]
fn the_cases() {
    let folder = PathBuf::from(std::env::var(FOLDER).expect("a folder"));
    let only = std::env::var("FUZZ_TARGET").unwrap_or_default();
    for target in TARGETS.iter().filter(|target| only.is_empty() || target.name == only) {
        let own = folder.join(target.name.replace(' ', "-"));
        std::fs::create_dir_all(&own).expect("writable");
        cases(target, (target.prepare)(&own), &folder.join("doing"));
    }
}

/// Runs the cases in another thread, with a time limit for each, and passes on its panic.
fn cases(target: &'static Target, samples: Samples, doing: &Path) {
    let (first, count) = (number("FUZZ_SEED", 0), number("PROPTEST_CASES", 256) / target.one_of);
    let doing = doing.to_owned();
    let (tick, ticks) = channel();
    let worker = std::thread::spawn(move || {
        for seed in first..first + count {
            std::fs::write(&doing, format!("FUZZ_TARGET=\"{}\" FUZZ_SEED={seed}", target.name)).expect("writable");
            (target.attempt)(&samples, &mut Random(seed));
            let _ = tick.send(seed);
        }
    });
    loop {
        match ticks.recv_timeout(HANG) {
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("{}: hang guard: a case takes more than {HANG:?}", target.name),
        }
    }
    if let Err(panic) = worker.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A few cases through the binary: exit codes and output.
#[test]
fn the_binary_ends_with_a_message() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let binary = Path::new(env!("CARGO_BIN_EXE_pktgen"));
    let (mut random, guard) = (Random(number("FUZZ_SEED", 0)), HANG.as_secs().to_string());
    for target in TARGETS {
        let own = folder.path().join(target.name.replace(' ', "-"));
        std::fs::create_dir_all(&own).expect("writable");
        let samples = (target.prepare)(&own);
        for _ in 0..number("PROPTEST_CASES", 256) / 32 {
            let which = random.below(samples.groups.len());
            let path = samples.change(which, &mut random).display().to_string();
            let dir = Path::new(&path).parent().expect("a folder").display().to_string();
            let out = own.join("out.parquet").display().to_string();
            let other = random.below(2) == 0;
            let words = match (target.name, other) {
                ("captures", _) => vec!["analyze", &path],
                ("traces", false) => vec!["trace", "check", &path],
                ("traces", true) | ("imports", _) => vec!["trace", "convert", &path, "--out", &out],
                ("experiments", _) => vec!["replay", &path, "--print-config"],
                ("profiles", _) => vec!["device", "show", &path],
                ("run dirs", false) => vec!["analyze", &dir],
                ("unfinished run dirs", _) => vec!["analyze", "--recover", &dir],
                _ => vec!["report", &dir],
            };
            let output =
                limited(Path::new("timeout"), &[&[&*guard, &binary.display().to_string()], &words[..]].concat())
                    .output()
                    .expect("it runs");
            let text = said(&output);
            assert!(matches!(output.status.code(), Some(0..=3)), "{words:?}: {}: {text}", output.status);
            assert!(!text.contains("panicked") && !text.contains("memory allocation"), "{words:?}: {text}");
            samples.restore(which);
        }
    }
}
