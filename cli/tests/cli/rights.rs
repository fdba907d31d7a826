//! Capabilities of the threads of a run in real time, as the kernel lists them, and files that our script may remove.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::netns::Net;
use pktgen_testing::{Need, skip};

/// A thread, and its sets of capabilities.
#[derive(Debug)]
struct Thread {
    name: String,
    number: u32,
    effective: u64,
    permitted: u64,
}

/// Returns all threads of a process.
fn threads(process: u32) -> Vec<Thread> {
    let of = |task: fs::DirEntry| {
        let number = task.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned();
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let set = |key: &str| u64::from_str_radix(status.lines().find_map(|l| l.strip_prefix(key))?.trim(), 16).ok();
        Some(Thread { name, number, effective: set("CapEff:")?, permitted: set("CapPrm:")? })
    };
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(of).collect()
}

/// Threads of a run while its workers send, from when those with these names have begun and each has given up what it does not need; none if that never was.
fn settled(run: &mut Child, names: &[&str]) -> Vec<Vec<Thread>> {
    let (process, mut found) = (run.id(), Vec::new());
    // A thread that has just begun has its parent's permitted capabilities, for as long as it waits for a core.
    let begins = |all: &Vec<Thread>| all.iter().any(|thread| thread.permitted != 0 && thread.number != process);
    while (found.len() < 10 || found.last().is_some_and(begins)) && run.try_wait().expect("a child").is_none() {
        let all = threads(process);
        // They start one after the other, each briefly with the name of its parent, and end in the same way.
        let works = |all: &[Thread]| names.iter().all(|name| all.iter().any(|thread| thread.name == *name));
        let sending = works(&all) && works(&threads(process));
        // Threads start with the capabilities of their parent.
        if sending && (!found.is_empty() || all.iter().all(|thread| thread.effective == 0)) {
            found.push(all);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    found
}

#[test]
fn no_thread_has_rights_while_frames_are_sent() {
    let cables = [(("all", "w0"), ("all", "d0")), (("all", "d1"), ("all", "s0"))];
    let net = match Net::make("harm-rights", &["all"], &cables) {
        Ok(net) => net,
        Err(why) => return skip(Need::Netns, "rights of the threads of a run", why),
    };
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/wires/live.toml").display().to_string();
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (words, whole) in [(&["replay", "--no-report"][..], true), (&["replay", "--role", "workers"], false)] {
        let out = folder.path().join(if whole { "whole" } else { "part" });
        let before = net.inside("all");
        let mut command = Command::new(&before[0]);
        command.args(&before[1..]).arg(env!("CARGO_BIN_EXE_pktgen")).args(words).args([&config, "--out"]).arg(&out);
        command.args(["--metrics", "127.0.0.1:9400", "--set", "transport.kind=af_packet"]);
        command.args(["--set", "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]", "--set", "workload.updates=9000"]);
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let roles: &[&str] = if whole { &["device", "server", "books", "received"] } else { &[] };
        let names = [&["workers", "feeder", "sent", "metrics"], roles].concat();
        let found = settled(&mut run, &names);
        let process = run.id();
        // It would send for nine seconds, also on a host on which the looks take as long.
        if run.try_wait().expect("a child").is_none() {
            assert!(Command::new("kill").args(["-INT", &process.to_string()]).status().expect("kill runs").success());
        }
        let output = run.wait_with_output().expect("a child");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{words:?}: {said}");
        assert!(found.len() >= 10, "{words:?}: {names:?} without rights, ten times: {found:?}");
        for all in &found {
            all.iter().for_each(|own| assert_eq!(own.effective, 0, "{words:?}: {} in {all:?}", own.name));
        }
        // A new thread may have its parent's permitted capabilities until it has dropped them.
        let last: BTreeMap<_, _> = found.iter().flatten().map(|thread| (thread.number, thread)).collect();
        for Thread { name, number, permitted, .. } in last.values() {
            // The first thread opens the wires of the next run of a sweep, and writes files at the end: CAP_DAC_OVERRIDE,
            // CAP_DAC_READ_SEARCH.
            let may_again = if *number != process {
                0
            } else if whole {
                u64::MAX
            } else {
                0b110
            };
            assert!(permitted & !may_again == 0, "{words:?}: {name} could take up {permitted:x}");
        }
    }
}

/// As `sudo` does in a home that nobody else may enter.
#[test]
fn a_capture_ends_in_a_folder_of_another_user() {
    let cables = [(("all", "w0"), ("all", "d0"))];
    let net = match Net::make("harm-home", &["all"], &cables) {
        Ok(net) => net,
        Err(why) => return skip(Need::Netns, "a capture in the folder of another user", why),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::chown(folder.path(), Some(1000), Some(1000)).expect("root");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("root");
    let before = net.inside("all");
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).arg(env!("CARGO_BIN_EXE_pktgen")).current_dir(folder.path());
    command.args(["capture", "--iface", "w0", "--out", "cap", "--for", "300ms"]);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = fs::read_to_string(folder.path().join("cap/manifest.json")).expect("a manifest");
    assert!(manifest.contains("\"state\": \"finished\""), "{manifest}");
}

#[test]
fn a_script_removes_only_what_it_made() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("precious"), "kept").expect("writable");
    let mut script = Command::new(root.join("scripts/testbed"));
    script.env("OUT", folder.path()).env("PKTGEN", env!("CARGO_BIN_EXE_pktgen"));
    let output = script.output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("choose another OUT"), "{:?}: {said}", output.status);
    assert_eq!(fs::read_to_string(folder.path().join("precious")).expect("still there"), "kept");
}
