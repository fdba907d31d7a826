//! Runs that do not reach their end: stopped by the user, or killed.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pktgen_testing::{Need, Stopwatch, happens, installed, undisturbed};

/// Long enough to be stopped in the middle: 54 million updates.
const LONG: &str = "name = \"long\"\n[workload]\nupdates = 2000000\n[schedule]\nkind = \"poisson\"\noffered = \"60Gbps\"\n[topology]\nrate = \"40Gbps\"\n\
    [endpoint]\nworkers = \"transmission_control\"\n[capture]\nstates = true\n";

/// Starts the long run in `folder` and waits until some of every stream is on disk.
fn start(folder: &Path) -> Child {
    start_with(folder, Stdio::inherit())
}

/// Starts it with this standard error.
fn start_with(folder: &Path, messages: Stdio) -> Child {
    fs::write(folder.join("x.toml"), LONG).expect("writable");
    let mut child = Command::new(env!("CARGO_BIN_EXE_pktgen"))
        .current_dir(folder)
        .args(["-q", "replay", "x.toml", "--out", "run"])
        .stderr(messages)
        .spawn()
        .expect("the binary runs");
    let size = |name: &str| fs::metadata(folder.join("run").join(name)).map_or(0, |m| m.len());
    let streams = ["sent.arrows", "books.arrows", "received.arrows", "states.arrows"];
    let written = happens(|| streams.iter().all(|name| size(name) > 1 << 20));
    if !written {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert!(written, "hang guard: the run wrote nothing");
    child
}

fn signal(child: &Child, name: &str) {
    // Uses the shell's built-in kill: a minimal machine has no other.
    let line = format!("kill {name} {}", child.id());
    let status = Command::new("bash").args(["-c", &line]).status().expect("bash runs");
    assert!(status.success());
}

/// Returns whether the process with this `/proc/PID/status` ignores SIGHUP.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("hexadecimal") & 1 == 1
}

/// Returns the signals that end a run; SIGHUP unless the tests run under `nohup`, and so what they start.
fn ends() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let hangup = (!ignores_hangup(&status)).then_some("-HUP");
    ["-INT", "-TERM"].into_iter().chain(hangup).collect()
}

/// Returns a socket without room for another byte, and its other end.
fn full() -> (UnixStream, UnixStream) {
    let (reader, mut writer) = UnixStream::pair().expect("sockets");
    writer.set_nonblocking(true).expect("a socket");
    for bytes in [&[0; 4096][..], &[0]] {
        while writer.write(bytes).is_ok_and(|written| written > 0) {}
    }
    writer.set_nonblocking(false).expect("a socket");
    (writer, reader)
}

fn pktgen(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pktgen")).current_dir(folder).args(args).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_interrupted_run_ends_cleanly_and_is_readable() {
    for name in ends() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut child = start(folder.path());
        signal(&child, name);
        assert_eq!(child.wait().expect("it ends").code(), Some(1), "{name}");
        let manifest = fs::read_to_string(folder.path().join("run/manifest.json")).expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(manifest["state"], "interrupted", "{name}");
        assert_eq!(manifest["balance"]["unknown"], 0, "{name}");
        let (code, lines, said) = pktgen(folder.path(), &["analyze", "run", "--json"]);
        assert!(
            code == 1 && said.contains("interrupted"),
            "the numbers are printed, and that they are not whole: {said}"
        );
        assert!(lines.contains("\"metric\":\"aom_mean\""));
    }
}

/// As `timeout` sends it: to the process, and to the process group, which the process is in.
#[test]
fn copies_of_a_signal_are_one_request() {
    for name in ends() {
        undisturbed("copies of a signal within a second", |_| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut child = start(folder.path());
            let line = format!("for i in {{1..20}}; do kill {name} {} || break; done", child.id());
            let watch = Stopwatch::start();
            Command::new("bash").args(["-c", &line]).status().expect("bash runs");
            let late = watch.elapsed() > Duration::from_secs(1);
            let code = child.wait().expect("it ends").code();
            let manifest = fs::read_to_string(folder.path().join("run/manifest.json")).expect("a manifest");
            let one = code == Some(1) && manifest.contains("\"state\": \"interrupted\"");
            assert!(one || late, "{name}: {code:?}: {manifest}");
            one.then_some(())
        });
    }
}

/// Under `nohup` a closed terminal ends nothing.
#[test]
fn a_hangup_that_is_ignored_at_the_start_stays_ignored() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("x.toml"), LONG).expect("writable");
    let line = format!("trap '' HUP; exec {} -q replay x.toml --out run", env!("CARGO_BIN_EXE_pktgen"));
    let mut child =
        Command::new("bash").current_dir(folder.path()).args(["-c", &line]).spawn().expect("the shell runs");
    let begun = happens(|| fs::metadata(folder.path().join("run/sent.arrows")).is_ok_and(|file| file.len() > 1 << 20));
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    signal(&child, "-HUP");
    signal(&child, "-TERM");
    let code = child.wait().expect("it ends").code();
    assert!(begun, "hang guard: the run wrote nothing");
    assert!(ignores_hangup(&status), "{status}");
    assert_eq!(code, Some(1));
}

/// Runs a command in a new terminal, with this handling of SIGHUP. What the command draws goes to standard output; the
/// terminal closes at the end of standard input.
const TERMINAL: &str = "
import os, select, signal, sys, termios
screen, terminal = os.openpty()
termios.tcsetwinsize(terminal, (30, 110))
if os.fork() == 0:
    os.close(terminal)
    while 0 not in select.select([0, screen], [], [])[0]:
        os.write(1, os.read(screen, 65536))
    os._exit(0)
os.close(screen)
os.login_tty(terminal)
signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
";

/// Returns whether the process with this `/proc/PID/stat` has a terminal.
fn has_terminal(stat: &str) -> bool {
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').nth(4).is_some_and(|terminal| terminal != "0")
}

/// SIGHUP ends the run; if it is ignored, the run goes on without a screen until SIGTERM.
#[test]
fn a_closed_terminal_does_not_stall_a_run_with_a_screen() {
    if !installed(Need::Python, "a terminal that closes") {
        return;
    }
    // Far longer than the test.
    let text = "[workload]\nupdates = 600000\nbytes = \"256B\"\n[schedule]\nkind = \"poisson\"\noffered = \"10Mbps\"\n\
        [topology]\nrate = \"20Mbps\"\n[transport]\nkind = \"ring\"\nwait = \"block\"\n";
    for (hangup, end) in [("SIG_DFL", None), ("SIG_IGN", Some("-TERM"))] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("x.toml"), text).expect("writable");
        let screen = folder.path().join("screen");
        let mut child = Command::new("python3")
            .current_dir(folder.path())
            .args(["-c", TERMINAL, hangup, env!("CARGO_BIN_EXE_pktgen")])
            .args(["replay", "x.toml", "--tui", "--no-report", "--out", "run"])
            .stdin(Stdio::piped())
            .stdout(File::create(&screen).expect("writable"))
            .spawn()
            .expect("Python runs");
        // Keys were read before the first screen is drawn.
        let drawn = happens(|| {
            let shown = fs::read(&screen).unwrap_or_default();
            let sent = fs::metadata(folder.path().join("run/sent.arrows")).is_ok_and(|file| file.len() > 0);
            sent && String::from_utf8_lossy(&shown).contains("pktgen")
        });
        drop(child.stdin.take());
        let stat = || fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let closed = happens(|| !has_terminal(&stat()));
        if let Some(name) = end {
            signal(&child, name);
        }
        let ended = happens(|| child.try_wait().expect("a child").is_some());
        let _ = child.kill();
        let status = child.wait().expect("it ends");
        assert!(drawn && closed && ended, "hang guard: {hangup}, a screen: {drawn}, it closed: {closed}");
        assert_eq!(status.code(), Some(1), "{hangup}");
        let manifest = fs::read_to_string(folder.path().join("run/manifest.json")).expect("a manifest");
        assert!(manifest.contains("\"state\": \"interrupted\""), "{hangup}: {manifest}");
    }
}

#[test]
fn a_second_request_ends_the_program_at_once() {
    for (first, second, between) in [("-TERM", "-TERM", 1100), ("-INT", "-INT", 1100), ("-INT", "-TERM", 0)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Standard error has no room, so the program waits after the end of the run.
        let (writer, _reader) = full();
        let mut child = start_with(folder.path(), Stdio::from(OwnedFd::from(writer)));
        signal(&child, first);
        let manifest = || fs::read_to_string(folder.path().join("run/manifest.json")).unwrap_or_default();
        let interrupted = happens(|| manifest().contains("\"state\": \"interrupted\""));
        std::thread::sleep(Duration::from_millis(between));
        signal(&child, second);
        let ended = happens(|| child.try_wait().expect("a child").is_some());
        let _ = child.kill();
        let status = child.wait().expect("it ends");
        assert!(interrupted && ended, "hang guard: {first} {second}, the run ended: {interrupted}");
        assert_eq!(status.code(), Some(130), "{first} {second}");
    }
}

/// The page of commands has the exit codes of the tests above and below.
#[test]
fn the_page_has_the_exit_code_of_a_signal() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands.md");
    let page = fs::read_to_string(page).expect("docs/commands.md");
    for part in [
        "| 130 | ended at once by a second Ctrl-C, SIGTERM or SIGHUP |",
        "Ctrl-C or SIGTERM ends a run cleanly",
        "Signals of one kind within 1 s",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_first_signal_ends_a_report() {
    for name in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("x.toml"), LONG.replace("2000000", "50")).expect("writable");
        // Standard output has no room, so the report cannot end.
        let (writer, _reader) = full();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
        command.current_dir(folder.path()).args(["-q", "replay", "x.toml", "--out", "run"]);
        let mut child = command.stdout(Stdio::from(OwnedFd::from(writer))).spawn().expect("the binary runs");
        let reports = happens(|| folder.path().join("run/report.html").exists());
        if reports {
            signal(&child, name);
        }
        let ended = reports && happens(|| child.try_wait().expect("a child").is_some());
        let _ = child.kill();
        let status = child.wait().expect("it ends");
        assert!(reports && ended, "hang guard: {name}, the report began: {reports}");
        assert_eq!(status.code(), Some(130), "{name}");
    }
}

#[test]
fn a_killed_run_is_readable_up_to_its_last_batch() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut child = start(folder.path());
    signal(&child, "-KILL");
    child.wait().expect("it ends");
    let (code, _, said) = pktgen(folder.path(), &["analyze", "run"]);
    assert!(code == 2 && said.contains("--recover"), "{said}");
    let (code, lines, said) = pktgen(folder.path(), &["analyze", "run", "--recover", "--json"]);
    assert!(code == 1 && said.contains("killed"), "{said}");
    let sent = lines.lines().find(|l| l.contains("\"metric\":\"sent\"")).expect("a count of what was sent");
    let sent: serde_json::Value = serde_json::from_str(sent).expect("JSON");
    assert!(sent["value"].as_f64().expect("a number") > 10_000.0, "{sent}");
    // What of the streams' last batches was not written cannot be accounted for; the missing counters are no part of it.
    let unknown = lines.lines().find(|l| l.contains("balance_unknown")).expect("a line");
    let unknown: serde_json::Value = serde_json::from_str(unknown).expect("JSON");
    assert!(
        unknown["value"].as_f64().expect("a number") < 0.5 * sent["value"].as_f64().expect("a number"),
        "{unknown}"
    );
    assert!(folder.path().join("run/states.parquet").exists() && lines.contains("\"metric\":\"p_send_mean\""));
}
