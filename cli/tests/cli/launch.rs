//! Devices that are commands: started, probed and ended by pktgen, leaving nothing behind, however the run ends.
//!
//! `PKTGEN_LAUNCH_KILLS` sets how often a run is killed (make test-long: 100).

mod certify;
mod counters;
mod rounds;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::bench;
use crate::support::netns::Net;
use crate::support::wired::{is_whole, manifest, pause_ms, pktgen, said};
use pktgen_testing::{Need, eventually, skip, undisturbed};
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::frame::{Checksums, checksums};
use serde_json::json;

/// A network for the host's ends, and an experiment in a separate folder, in which its device is started.
struct Bench {
    net: Net,
    folder: tempfile::TempDir,
}

/// Prepares the bench's experiment `of` with the keys `launch` for its device.
fn prepare(tag: &str, of: &str, launch: &str) -> Option<Bench> {
    let net = Net::make(tag, &["h"], &[]).inspect_err(|why| skip(Need::Netns, "launched devices", why)).ok()?;
    let users = Command::new("unshare").args(["--user", "true"]).output().expect("unshare runs");
    if !users.status.success() {
        skip(Need::Userns, "launched devices", said(&users));
        return None;
    }
    let bench = Bench { net, folder: tempfile::tempdir().expect("a temporary folder") };
    bench.write(of, launch);
    Some(bench)
}

impl Bench {
    fn write(&self, of: &str, launch: &str) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/support/bench/{of}.toml"));
        let text = fs::read_to_string(source).expect("an experiment");
        fs::write(self.experiment(), format!("{text}\n[target.launch]\n{launch}\n")).expect("writable");
    }

    fn experiment(&self) -> PathBuf {
        self.folder.path().join("experiment.toml")
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn command(&self, words: &[&str], set: &[&str]) -> Command {
        let experiment = self.experiment().display().to_string();
        let words: Vec<_> =
            words.iter().map(|word| if *word == "EXPERIMENT" { experiment.as_str() } else { word }).collect();
        let mut command = pktgen(&self.net.inside("h"), &words, set);
        command.current_dir(self.folder.path());
        command
    }

    fn check(&self, set: &[&str]) -> Output {
        let words = ["target", "check", "EXPERIMENT", "--allow-launch"];
        self.command(&words, set).output().expect("it runs")
    }

    fn replay(&self, set: &[&str]) -> Output {
        let _ = fs::remove_dir_all(self.out());
        let out = self.out().display().to_string();
        let words = ["replay", "EXPERIMENT", "--allow-launch", "--no-report", "--out", &out];
        self.command(&words, set).output().expect("it runs")
    }

    /// Runs against the device until the machine does not disturb it.
    fn whole(&self, set: &[&str]) -> Option<Output> {
        undisturbed("a run against a launched device", |_| {
            let output = self.replay(set);
            let ran = matches!(output.status.code(), Some(0 | 1)) && self.out().join("manifest.json").exists();
            assert!(ran, "{}", said(&output));
            is_whole(&manifest(&self.out())).then_some(output)
        })
    }

    /// Returns the remains of a device: processes started in the test's folder, interfaces, files.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            if fs::read_link(entry.path().join("cwd")).is_ok_and(|at| at == self.folder.path()) {
                let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                left.push(format!(
                    "process {:?}: {}",
                    entry.file_name(),
                    String::from_utf8_lossy(&words).replace('\0', " ")
                ));
            }
        }
        let inside = self.net.inside("h");
        let links =
            Command::new(&inside[0]).args(&inside[1..]).args(["ls", "/sys/class/net"]).output().expect("ls runs");
        let links = String::from_utf8_lossy(&links.stdout).into_owned();
        left.extend(links.split_whitespace().filter(|link| *link != "lo").map(|link| format!("interface {link}")));
        let file = self.file();
        left.extend(
            [PathBuf::from("/run").join(&file), PathBuf::from("/tmp").join(&file)]
                .iter()
                .filter(|path| path.exists())
                .map(|path| format!("file {}", path.display())),
        );
        left
    }

    /// Returns the name of the file that [`sh`](Self::sh) writes into several folders.
    fn file(&self) -> String {
        format!("pktgen-left-{}", self.folder.path().file_name().expect("a name").to_string_lossy())
    }

    /// Returns the keys of a device that is a script between two ports.
    fn sh(&self, script: &str) -> String {
        self.sh_at(&["e0", "e1"], script)
    }

    /// Returns the keys of a device that is a script: it leaves files wherever it can, and `DEVICE` is the bench's program.
    fn sh_at(&self, ports: &[&str], script: &str) -> String {
        let file = self.file();
        let script = script.replace("DEVICE", &bench::program().display().to_string());
        let script = format!("for d in /run /tmp /dev/shm /etc; do echo x > $d/{file}; done 2>/dev/null; {script}");
        let command = json!(["sh", "-c", script]);
        format!("command = {command}\nports = {}", json!(ports))
    }
}

/// A forwarder.
const FORWARD: &str = "exec DEVICE --in e0 --out e1 --fault forward";
/// Settings that declare the device as forwarding.
const DECLARED: [&str; 2] = ["target.program=forward", "target.queue=fifo"];

/// Returns a shell command that waits until more than so many frames, those of a run, have come to e0.
fn awaits(frames: u32) -> String {
    format!("while awk '$1 == \"e0:\" {{ exit ($3 > {frames}) }}' /proc/net/dev; do sleep 0.1; done")
}

fn script(tag: &str, script: &str, more: &str) -> Option<Bench> {
    let bench = prepare(tag, "olaf", "command = [\"true\"]")?;
    bench.write("olaf", &format!("{}\n{more}", bench.sh(script)));
    Some(bench)
}

#[test]
fn a_forwarder_is_ready_when_a_marked_frame_comes_out() {
    let Some(bench) = script("launchforward", FORWARD, "") else { return };
    let output = bench.check(&DECLARED);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for part in ["marked frames came out at h1", "h0 - e0, h1 - e1"] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    assert_eq!(bench.left(), Vec::<String>::new());
    let Some(output) = bench.whole(&DECLARED) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let manifest = manifest(&bench.out());
    assert_eq!(manifest["validity"]["valid"], json!(true));
    assert!(said(&output).contains("declared to forward"), "{}", said(&output));
    assert!(manifest["host"]["device.ready"].as_str().is_some_and(|text| text.contains("marked frames")), "{manifest}");
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Packets that a device sends by kernel sockets have their UDP checksums, as on a cable, although a veth leaves them
/// to the receiver. Foreign packets keep arriving, and the run ends all the same.
#[test]
fn datagrams_of_sockets_have_their_checksums() {
    const SENDS: &str = "ip addr add 10.20.255.254/24 dev e1; (while sleep 0.05; do \
                         ip neigh replace 10.20.255.1 lladdr 02:20:0a:14:ff:01 dev e1; \
                         bash -c 'echo from a socket > /dev/udp/10.20.255.1/9'; done) &";
    let Some(bench) = script("launchsockets", &format!("{SENDS} {FORWARD}"), "") else { return };
    let set = [&DECLARED[..], &["transport.tap=tap.pcapng", "transport.linger=1s"]].concat();
    let output = bench.replay(&set);
    let manifest = manifest(&bench.out());
    let notes = manifest["validity"]["notes"].to_string();
    assert!(!notes.contains("checksums_"), "{notes} {}", said(&output));
    let mut reader = Reader::open(&bench.out().join("tap-server.pcapng")).expect("a tap");
    let mut found = 0;
    while let Some(packet) = reader.next().expect("a packet") {
        if packet.bytes.windows(13).any(|bytes| bytes == b"from a socket") {
            let written = &packet.bytes[40..42];
            assert!(checksums(packet.bytes) == Checksums::Fit && written != [0, 0], "{written:02x?}");
            found += 1;
        }
    }
    assert!(found > 0, "no datagram of the socket came: {}", said(&output));
}

#[test]
fn nothing_is_started_without_permission() {
    let Some(bench) = script("launchask", FORWARD, "") else { return };
    for words in
        [&["target", "check", "EXPERIMENT"][..], &["replay", "EXPERIMENT"], &["replay", "EXPERIMENT", "--find-rate"]]
    {
        let output = bench.command(words, &DECLARED).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains("--allow-launch"), "{words:?}: {}", said(&output));
    }
    let output = bench.command(&["replay", "EXPERIMENT", "--dry-run"], &DECLARED).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "a dry run starts nothing: {}", said(&output));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn a_device_that_is_not_ready_gets_a_verdict() {
    let Some(bench) = script("launchverdict", FORWARD, "") else { return };
    let cases = [
        ("echo broken >&2; exit 3", "timeout = \"5s\"", 1, &["exit code 3", "broken"][..]),
        ("kill -9 $$", "timeout = \"5s\"", 1, &["signal 9"]),
        ("exit 0", "timeout = \"5s\"", 1, &["exit code 0"]),
        ("exec DEVICE --in e0 --out e1 --fault mute", "timeout = \"1s\"", 1, &["none of", "came out at h1"]),
        ("exec sleep 1000", "timeout = \"1s\"", 1, &["none of", "within 1s"]),
        ("while :; do echo more; done", "timeout = \"1s\"", 1, &["none of", "more"]),
        ("exec DEVICE --in e0 --out e1 --fault flood", "", 1, &["floods"]),
        (
            FORWARD,
            "tables = [\"sh\", \"-c\", \"echo no such table >&2; exit 4\"]",
            1,
            &["tables", "exit code 4", "no such table"],
        ),
        (
            FORWARD,
            "tables = [\"sleep\", \"60\"]\ntimeout = \"1s\"",
            1,
            &["target.launch.tables: no end within 1s", "target.launch.timeout"],
        ),
        (FORWARD, "ready = \"file\"\nfile = \"/run/absent\"\ntimeout = \"1s\"", 1, &["/run/absent"]),
        (
            "exec sleep 1000",
            "timeout = \"1s\"\ncounters = [\"echo\", '{\"in\": 7, \"out\": 0}']",
            1,
            &["none of", "it counted: in 7, out 0"],
        ),
    ];
    for (script, more, code, says) in cases {
        bench.write("olaf", &format!("{}\n{more}", bench.sh(script)));
        for output in [bench.check(&DECLARED), bench.replay(&DECLARED)] {
            assert_eq!(output.status.code(), Some(code), "{script}: {}", said(&output));
            says.iter().for_each(|part| assert!(said(&output).contains(part), "{script}: {part}: {}", said(&output)));
        }
        assert!(!bench.out().join("manifest.json").exists(), "{script}: there is no run");
        // Several runs leave nothing behind, either.
        let output = bench.replay(&[&DECLARED[..], &["sweep.seeds=1..2"]].concat());
        assert_eq!(output.status.code(), Some(code), "{script}: {}", said(&output));
        assert!(!bench.out().exists(), "{script}: a folder of runs that never began");
        assert_eq!(bench.left(), Vec::<String>::new(), "{script}");
    }
}

#[test]
fn what_cannot_be_launched_is_refused() {
    let Some(bench) = script("launchrefused", FORWARD, "") else { return };
    let cases = [
        ("command = [\"/absent/device\"]\nports = [\"e0\", \"e1\"]", "cannot execute /absent/device"),
        ("ports = [\"e0\", \"e1\"]", "target.launch.command"),
        ("comand = [\"true\"]\nports = [\"e0\", \"e1\"]", "did you mean \"command\""),
        ("command = [\"true\"]\nuser = 4294967295", "target.launch.user"),
        ("command = [\"true\"]\nports = [\"e0\"]", "target.launch.ports"),
        ("command = [\"true\"]\nports = [\"e0\", \"an interface\"]", "an interface"),
        ("command = [\"true\"]\nports = [\"e0\", \"e0\"]", "\"e0\" is named twice"),
        ("command = [\"true\"]\nready = \"file\"", "target.launch.file"),
        ("command = [\"true\"]\nredy = \"file\"", "did you mean \"ready\""),
        ("command = [\"true\"]\nready = \"never\"", "forward, round, file"),
    ];
    for (launch, says) in cases {
        bench.write("olaf", launch);
        let output = bench.check(&DECLARED);
        assert_eq!(output.status.code(), Some(2), "{launch}: {}", said(&output));
        assert!(said(&output).contains(says), "{launch}: {}", said(&output));
    }
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Two processes with the same names of cables: the second reports who has them, and removes nothing.
#[test]
fn names_of_cables_are_held_by_one_process() {
    let Some(bench) = script("launchnames", FORWARD, "") else { return };
    let out = bench.folder.path().join("first").display().to_string();
    let words = ["replay", "EXPERIMENT", "--allow-launch", "--no-report", "--out", &out];
    let mut first = bench.command(&words, &[&DECLARED[..], &["workload.updates=30000"]].concat());
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    eventually("the first run begins", || Path::new(&out).join("manifest.json").exists());
    let second = bench.check(&DECLARED);
    let held = format!("h0 is held by process {}", first.id());
    assert!(second.status.code() == Some(2) && said(&second).contains(&held), "{held}: {}", said(&second));
    assert!(first.try_wait().expect("a process").is_none(), "the first goes on");
    let asked = Command::new("kill").args(["-INT", &first.id().to_string()]).status().expect("kill runs");
    assert!(asked.success());
    first.wait().expect("it ends");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn a_file_shows_that_a_device_is_ready() {
    let more = "ready = \"file\"\nfile = \"/run/is-ready\"";
    let Some(bench) = script("launchfile", &format!("sleep 0.3; touch /run/is-ready; {FORWARD}"), more) else { return };
    let output = bench.check(&DECLARED);
    assert!(output.status.code() == Some(0) && said(&output).contains("/run/is-ready is there"), "{}", said(&output));
    assert!(!Path::new("/run/is-ready").exists(), "the device's own");
}

#[test]
fn a_device_that_dies_during_a_run_ends_it() {
    let ends = format!("{}; echo out of memory >&2; kill -9 $!; exit 7", awaits(1000));
    let dies = format!("DEVICE --in e0 --out e1 --fault forward & {ends}");
    let Some(bench) = script("launchdies", &dies, "") else { return };
    // A minute of updates.
    let output = bench.replay(&[&DECLARED[..], &["workload.updates=30000"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let manifest = manifest(&bench.out());
    let codes: Vec<_> =
        manifest["validity"]["faults"].as_array().expect("faults").iter().map(|f| f["code"].clone()).collect();
    assert!(codes.contains(&json!("device_ended")) && !codes.contains(&json!("interrupted")), "{codes:?}");
    assert!(said(&output).contains("exit code 7") && said(&output).contains("out of memory"), "{}", said(&output));
    assert!(
        manifest["balance"]["generated"].as_u64().is_some_and(|n| n < 200_000),
        "it ended early: {}",
        manifest["balance"]
    );
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// The frames forwarded until then arrived, and the rest are lost.
#[test]
fn a_device_that_hangs_during_a_run_loses_what_it_was_sent() {
    let hangs = format!("DEVICE --in e0 --out e1 --fault forward & {}; kill -STOP $!; sleep 1000", awaits(10_000));
    let Some(bench) = script("launchstops", &hangs, "") else { return };
    let output = bench.replay(&[&DECLARED[..], &["workload.updates=4000"]].concat());
    let manifest = manifest(&bench.out());
    let count = |of: &serde_json::Value| of.as_u64().unwrap_or(0);
    let (balance, received) = (&manifest["balance"], count(&manifest["counters"]["packets_received"]));
    let sent = count(&balance["sent"]);
    assert!(received > 0 && received < sent, "{received} of {sent}: {}", said(&output));
    assert_eq!(count(&balance["delivered_alone"]), received, "{balance}");
    assert_eq!(count(&balance["unaccounted"]), sent - received, "{balance}");
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Every trial starts a new device. The bucket has half the rate of that in `foreign.rs`, and the host may be the limit here.
#[test]
fn a_rate_is_found_with_a_device_for_every_trial() {
    let limited = "exec DEVICE --in e0 --out e1 --fault limit --pps 2000 --burst 128 --for 600";
    let Some(bench) = script("launchrate", limited, "") else { return };
    // A host that stalls loses frames of trials below the limit: then the rate is too low, or there is none. It is never too high.
    let found = undisturbed("a rate with a device for every trial", |i| {
        let out = bench.folder.path().join(format!("rate{i}"));
        let text = out.display().to_string();
        let words = ["replay", "EXPERIMENT", "--allow-launch", "--find-rate", "--out", &text];
        let trials = ["--from", "500", "--to", "4000", "--trial", "2s", "--precision", "0.2", "--confirm", "1"];
        let output = bench.command(&[&words[..], &trials[..]].concat(), &DECLARED).output().expect("it runs");
        let code = output.status.code();
        assert!(code == Some(0) || code == Some(1) && said(&output).contains("no rate passed"), "{}", said(&output));
        let found: serde_json::Value =
            serde_json::from_slice(&fs::read(out.join("find-rate.json")).expect("find-rate.json")).expect("JSON");
        let pps = found["pps"].as_f64().unwrap_or(0.0);
        let pause = pause_ms(&out);
        // Frames are 0.5 ms apart or more, and the bucket is full after 64 ms: other losses are none of a machine that stood still.
        let disturbed = found["limited_by"] == "host" || pause >= 40.0;
        assert!(pps <= 2200.0 && (pps >= 1600.0 || disturbed), "{pps}, a pause of {pause} ms: {}", said(&output));
        assert!(found["trials"].as_array().is_some_and(|trials| trials.len() > 2), "{found}");
        (pps >= 500.0).then_some(out)
    });
    let Some(out) = found else { return };
    let kept: Vec<_> =
        fs::read_dir(out).expect("trials").flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    assert!(!kept.is_empty());
    for trial in kept {
        assert!(
            manifest(&trial)["host"]["device.ready"].as_str().is_some_and(|text| text.contains("marked frames")),
            "{trial:?}"
        );
    }
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn a_device_that_does_not_end_is_killed_and_that_is_said() {
    let stubborn = "trap '' TERM; DEVICE --in e0 --out e1 --fault forward; sleep 1000";
    let Some(bench) = script("launchstays", stubborn, "") else { return };
    let output = bench.check(&DECLARED);
    assert!(output.status.code() == Some(1) && said(&output).contains("SIGTERM"), "{}", said(&output));
    let Some(output) = bench.whole(&DECLARED) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(manifest(&bench.out())["validity"]["notes"].to_string().contains("device_stop"));
    assert_eq!(bench.left(), Vec::<String>::new());
    // A device that a command ends, and one whose command fails.
    for (stop, code, says) in [
        ("kill -9 -1", 0, "as requested"),
        ("echo no socket >&2; kill -9 -1; exit 5", 1, "target.launch.stop: exit code 5: no socket"),
    ] {
        bench.write("olaf", &format!("{}\nstop = [\"sh\", \"-c\", \"{stop}\"]", bench.sh(stubborn)));
        let output = bench.check(&DECLARED);
        assert!(output.status.code() == Some(code) && said(&output).contains(says), "{stop}: {}", said(&output));
    }
}

/// Processes that a command leaves behind, at its end or at SIGTERM, end as any device does.
#[test]
fn daemons_are_requested_to_end() {
    let daemon = "DEVICE --in e0 --out e1 --fault forward & exit 0";
    let Some(bench) = script("launchdaemon", daemon, "stays = false") else { return };
    let output = bench.check(&DECLARED);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    // In the process group of the command, and in one of its own.
    for sleep in ["sleep 1000", "setsid sleep 1000"] {
        let stubborn = format!("(trap '' TERM; exec {sleep}) & {daemon}");
        bench.write("olaf", &format!("{}\nstays = false", bench.sh(&stubborn)));
        let output = bench.check(&DECLARED);
        let says = said(&output);
        assert!(output.status.code() == Some(1) && says.contains("SIGTERM"), "{sleep}: {says}");
    }
    // A command that SIGTERM ends, before a process of its group.
    let behind = "(trap '' TERM; exec sleep 1000) & DEVICE --in e0 --out e1 --fault forward & wait";
    bench.write("olaf", &bench.sh(behind));
    let output = bench.check(&DECLARED);
    assert!(output.status.code() == Some(1) && said(&output).contains("SIGTERM"), "{}", said(&output));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// A device is root in its network and has no privileges outside it.
#[test]
fn a_device_has_rights_in_its_network_only() {
    let tells = "grep -h -e ^CapEff -e ^NoNewPrivs -e ^Cpus_allowed_list /proc/self/status; touch /etc/pktgen-left 2>&1; \
                 ls /proc | grep -c '^[0-9]'; exit 3";
    let Some(bench) = script("launchrights", tells, "cores = [0]") else { return };
    let output = bench.check(&DECLARED);
    let said = said(&output);
    assert!(said.contains("CapEff:\t0000000000003400"), "{said}");
    assert!(said.contains("NoNewPrivs:\t1") && said.contains("Cpus_allowed_list:\t0 "), "{said}");
    assert!(said.contains("Read-only file system") || said.contains("Permission denied"), "{said}");
    assert!(!Path::new("/etc/pktgen-left").exists());
}

/// Returns the mounts that this process sees, except the networks of other tests.
fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").expect("readable");
    text.lines().filter(|line| !line.contains(" nsfs ")).map(str::to_owned).collect()
}

#[test]
fn nothing_is_left_when_pktgen_is_killed() {
    let Some(bench) = script("launchkilled", &format!("sleep 1000 & {FORWARD}"), "") else { return };
    let kills = std::env::var("PKTGEN_LAUNCH_KILLS").map_or(20, |text| text.parse().expect("a number"));
    let before = mounts();
    let mut seen = 0;
    for i in 0..kills {
        let _ = fs::remove_dir_all(bench.out());
        let out = bench.out().display().to_string();
        let words = ["-q", "replay", "EXPERIMENT", "--allow-launch", "--no-report", "--out", &out];
        let set = [&DECLARED[..], &["workload.updates=1000"]].concat();
        let mut run =
            bench.command(&words, &set).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // At random times from before the first namespace until frames flow, the same ones in each test.
        std::thread::sleep(Duration::from_micros(1000 + pktgen_core::seed::mix(i) % 400_000));
        seen += u32::from(!bench.left().is_empty());
        run.kill().expect("it runs");
        run.wait().expect("it was killed");
        eventually("nothing is left", || bench.left().is_empty());
    }
    assert!(seen > 0, "there was something to be left at some of the moments");
    assert_eq!(mounts(), before);
}
