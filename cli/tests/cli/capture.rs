//! Captures numbered frames, sent by this test binary itself, from a veth pair in a network namespace that the test
//! makes and removes. If that is not permitted, prints SKIPPED and the reason.

use crate::support::netns::new_name;
use crate::support::tools;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use pktgen_core::arrow::array::{Array, AsArray};
use pktgen_core::arrow::datatypes::{Int64Type, UInt32Type};
use pktgen_core::arrow::ipc::reader::StreamReader;
use pktgen_testing::{Need, happens, skip, undisturbed};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
use serde_json::Value;

/// The sender.
#[path = "../../../replay/realtime/examples/blast.rs"]
#[allow(dead_code, reason = "its main is not used here")]
mod blast;

const SIZE: usize = 256;
const SNAP: usize = 128;
/// Environment variable with the arguments of a sending process.
const ARGS: &str = "PKTGEN_TEST_BLAST";

/// A namespace with a veth pair, tx0 and rx0; removed when it goes out of scope.
struct Space {
    name: String,
    folder: tempfile::TempDir,
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output().map_err(|e| format!("ip does not run: {e}"))?;
    let said = || format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(said()) }
}

impl Space {
    fn make() -> Result<Space, String> {
        let name = new_name("capture");
        ip(&["netns", "add", &name])?;
        let space = Space { name, folder: tempfile::tempdir().map_err(|e| e.to_string())? };
        let pair = ["link", "add", "tx0", "type", "veth", "peer", "name", "rx0"];
        ip(&[&["-n", &space.name][..], &pair].concat())?;
        for interface in ["tx0", "rx0"] {
            // Without IPv6 the kernel sends nothing of its own on them.
            let key = format!("net.ipv6.conf.{interface}.disable_ipv6=1");
            let _ = space.inside("sysctl").args(["-q", "-w", &key]).output();
            ip(&["-n", &space.name, "link", "set", interface, "up"])?;
        }
        Ok(space)
    }

    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn capture(&self, name: &str, args: &[&str]) -> Command {
        self.capture_at("rx0", name, args)
    }

    fn capture_at(&self, interface: &str, name: &str, args: &[&str]) -> Command {
        let mut command = self.inside(env!("CARGO_BIN_EXE_pktgen"));
        command.args(["--json", "capture", "--iface", interface]);
        command.arg("--out").arg(self.dir(name)).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a capture and waits until it listens.
    fn start(&self, name: &str, args: &[&str]) -> Child {
        self.listening(name, self.capture(name, args))
    }

    fn listening(&self, name: &str, mut capture: Command) -> Child {
        let mut child = capture.spawn().expect("it starts");
        let anchored = |text: String| serde_json::from_str::<Value>(&text).is_ok_and(|m| m["anchor_unix_ns"] != 0);
        let listens = || std::fs::read_to_string(self.dir(name).join("manifest.json")).is_ok_and(anchored);
        if happens(|| listens() || child.try_wait().expect("a child").is_some()) && listens() {
            return child;
        }
        let _ = child.kill();
        let output = child.wait_with_output().expect("it ends");
        panic!("the capture does not listen: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts to count at rx0, and waits until it does; returns what follows on its stderr, too.
    fn counting(&self) -> (Child, BufReader<ChildStderr>) {
        let mut command = self.inside(env!("CARGO_BIN_EXE_pktgen"));
        command.args(["--json", "capture", "--iface", "rx0", "--count-only"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut says = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut said = String::new();
        while !said.contains("ready") {
            assert!(says.read_line(&mut said).expect("text") > 0, "it does not count: {said}");
        }
        (child, says)
    }

    /// Returns the frames that rx0 has received, by the kernel's count.
    fn received(&self) -> u64 {
        let output = self.inside("cat").arg("/sys/class/net/rx0/statistics/rx_packets").output().expect("cat runs");
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_default()
    }

    /// Sends frames by the live-frames transport and returns how many reached the capture's interface.
    fn send(&self, count: u64, pps: u64) -> u64 {
        let output = self.sender(count, pps);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let field = |name: &str| -> u64 {
            let words = said.split_whitespace().find_map(|word| word.strip_prefix(name));
            words.unwrap_or_else(|| panic!("{name} in {said}")).parse().expect("a number")
        };
        assert_eq!(field("sent="), count);
        count - field("dropped=")
    }

    fn sender(&self, count: u64, pps: u64) -> Output {
        let this = std::env::current_exe().expect("this test");
        let mut command = self.inside(&this.display().to_string());
        command.args(["--exact", "capture::a_sender", "--ignored", "--nocapture"]);
        command.env(ARGS, format!("tx0 xdp_live {SIZE} {count} {pps}")).output().expect("it runs")
    }

    /// Tests whether this host can send and capture in this way. An error means that it cannot, which is no failure.
    fn probe(&self, kind: &str) -> Result<(), String> {
        self.ethtool(&["-K", "rx0", "gro", "on"])?;
        let sent = self.sender(1, 0);
        let captured = self.capture("probe", &["-q", "--kind", kind, "--for", "10ms"]).output().expect("it runs");
        for output in [sent, captured] {
            let text = String::from_utf8_lossy(&output.stderr);
            if let Some(why) = text.lines().find(|line| line.contains("this host cannot")) {
                return Err(why.to_owned());
            }
            assert!(output.status.success(), "{text}");
        }
        self.set_gro(kind)
    }

    /// Frames get from tx0 to rx0 only if rx0 has GRO or a program; af_xdp installs one.
    fn set_gro(&self, kind: &str) -> Result<(), String> {
        self.ethtool(&["-K", "rx0", "gro", if kind == "af_xdp" { "off" } else { "on" }])
    }

    fn ethtool(&self, args: &[&str]) -> Result<(), String> {
        let output = self.inside("ethtool").args(args).output();
        match output.map_err(|e| format!("ethtool does not run: {e}"))? {
            output if output.status.success() => Ok(()),
            output => Err(format!("ethtool: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// Starts the same binary as the sender in a namespace.
#[test]
#[ignore = "started by the other tests, inside their namespace"]
#[expect(clippy::print_stdout, reason = "tells who started it")]
fn a_sender() {
    let args: Vec<String> =
        std::env::var(ARGS).expect("arguments for the sender").split(' ').map(str::to_owned).collect();
    let sent = blast::blast(&args);
    println!("{}", sent.unwrap_or_else(|why| panic!("{why}")));
}

/// Returns a namespace with a veth pair; none, with a reason, if this host cannot have one.
fn space(kind: &str) -> Option<Space> {
    let made = Space::make().and_then(|space| space.probe(kind).map(|()| space));
    made.map_err(|why| skip(Need::Netns, &format!("capture by {kind} from a veth pair"), why)).ok()
}

fn signal(child: &Child, name: &str) {
    // Uses the shell's built-in kill: a minimal machine has no other.
    let line = format!("kill {name} {}", child.id());
    assert!(Command::new("bash").args(["-c", &line]).status().expect("bash runs").success());
}

fn manifest(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).expect("a manifest")).expect("JSON")
}

/// Returns the numbers of the frames of a stream, up to its last complete batch, after checking all other contents.
fn numbers(dir: &Path, stamped: bool) -> Vec<u64> {
    let mut head = vec![0xa5; SIZE];
    Template::new((worker_ip(1), 9000), (SERVER_IP, 9000), SIZE).emit(&mut head);
    let file = std::fs::File::open(dir.join("frames.arrows")).expect("a stream");
    let reader = StreamReader::try_new(std::io::BufReader::new(file), None).expect("an Arrow stream");
    let (mut numbers, mut last) = (Vec::new(), 0);
    for batch in reader {
        let batch = batch.expect("a batch");
        let times = batch.column(0).as_primitive::<Int64Type>();
        let (lens, bytes) = (batch.column(2).as_primitive::<UInt32Type>(), batch.column(3).as_binary::<i32>());
        assert_eq!(batch.column(1).null_count(), if stamped { 0 } else { batch.num_rows() });
        for row in 0..batch.num_rows() {
            assert!(times.value(row) >= last, "time runs forwards");
            last = times.value(row);
            let frame = bytes.value(row);
            assert_eq!((lens.value(row) as usize, frame.len()), (SIZE, SNAP));
            assert_eq!(frame[..HEAD], head[..HEAD]);
            assert!(frame[HEAD + 8..].iter().all(|byte| *byte == 0xa5));
            numbers.push(u64::from_le_bytes(frame[HEAD..HEAD + 8].try_into().expect("8 bytes")));
        }
    }
    assert!(numbers.is_sorted_by(|a, b| a < b), "each frame once, and in order");
    numbers
}

fn said(output: &Output) -> (Option<i32>, Value, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {text}"));
    (output.status.code(), line, text)
}

/// 200,000 frames arrive whole and in order. If a machine that pauses for a moment loses some, they must be counted
/// exactly; then the test is repeated more slowly: at the last rate the ring holds more than three seconds.
fn everything_arrives(kind: &str, space: &Space, extra: &[&str]) -> Option<PathBuf> {
    const COUNT: u64 = 200_000;
    undisturbed(&format!("{kind} captures everything"), |attempt| {
        let pps = [300_000, 100_000, 50_000, 20_000][attempt.min(3)];
        let name = format!("{kind}{attempt}");
        // Long enough for a busy host to start the sender: a capture that has ended counts nothing.
        let args = [&["-q", "--kind", kind, "--idle", "8s", "--ring", "65536"], extra].concat();
        let capture = space.start(&name, &args);
        let arrived = space.send(COUNT, pps);
        let (code, line, text) = said(&capture.wait_with_output().expect("it ends"));
        let seen = numbers(&space.dir(&name), kind != "af_xdp");
        let lost = line["lost"].as_u64().expect("a count");
        assert_eq!(seen.len() as u64, line["capture"]["captured"].as_u64().expect("a count"));
        assert_eq!(seen.len() as u64 + lost, arrived, "{line}");
        assert_eq!((code, &line["valid"]), (Some(i32::from(lost > 0)), &Value::from(lost == 0)), "{text}");
        if lost == 0 && arrived == COUNT {
            let manifest = manifest(&space.dir(&name));
            assert_eq!((&manifest["state"], &manifest["validity"]["valid"]), (&"finished".into(), &true.into()));
            assert_eq!(manifest["host"]["driver"], "veth");
            assert!(manifest["host"]["wire.capture"].as_str().expect("a mode").contains("copy"));
            assert_eq!(manifest["capture"]["cut"], COUNT);
            assert_eq!(manifest["capture"]["bytes"], COUNT * SIZE as u64);
            return Some(space.dir(&name));
        }
        None
    })
}

/// While the capture is stopped, its ring overflows: its count equals the number of missing frames.
fn loss_is_counted(kind: &str, space: &Space) {
    let name = format!("{kind}-overload");
    // As above, for the second sender.
    let capture = space.start(&name, &["-q", "--kind", kind, "--idle", "8s", "--ring", "4096"]);
    signal(&capture, "-STOP");
    let mut arrived = space.send(100_000, 0);
    signal(&capture, "-CONT");
    arrived += space.send(50_000, 200_000);
    let (code, line, text) = said(&capture.wait_with_output().expect("it ends"));
    let lost = line["lost"].as_u64().expect("a count");
    assert!(code == Some(1) && lost > 50_000 && text.contains("invalid capture"), "{code:?} {line} {text}");
    let manifest = manifest(&space.dir(&name));
    assert_eq!(manifest["validity"]["valid"], false);
    let reason = manifest["validity"]["faults"][0]["text"].as_str().expect("a reason");
    assert!(reason.starts_with(&format!("{lost} frames were lost")), "{reason}");
    let captured = line["capture"]["captured"].as_u64().expect("a count");
    assert_eq!(captured + lost, arrived, "{line}");
    // The second sender starts again from 0.
    let file = std::fs::File::open(space.dir(&name).join("frames.arrows")).expect("a stream");
    let rows = StreamReader::try_new(file, None).expect("a stream").map(|b| b.expect("a batch").num_rows() as u64);
    assert_eq!(rows.sum::<u64>(), captured);
}

/// After an interruption with or without a limit, or a kill, the data on disk is readable.
fn ends_are_clean(kind: &str, space: &Space) {
    for (name, signal_name, limit, code, state) in [
        ("open", "-INT", None, Some(0), "finished"),
        ("limited", "-INT", Some("--for=60s"), Some(1), "interrupted"),
        ("killed", "-KILL", None, None, "running"),
    ] {
        let name = format!("{kind}-{name}");
        let args: Vec<&str> = ["-q", "--kind", kind, "--ring", "65536"].into_iter().chain(limit).collect();
        let capture = space.start(&name, &args);
        let arrived = space.send(20_000, 100_000);
        // Data older than a second is on disk, once the writer had a core.
        let frames = space.dir(&name).join("frames.arrows");
        let written = happens(|| frames.metadata().is_ok_and(|file| file.len() > 100 * SNAP as u64));
        std::thread::sleep(Duration::from_millis(2500));
        assert!(written, "hang guard: {name}: nothing is written");
        signal(&capture, signal_name);
        let output = capture.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), code, "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let seen = numbers(&space.dir(&name), kind != "af_xdp").len() as u64;
        let manifest = manifest(&space.dir(&name));
        assert_eq!(manifest["state"], state);
        let lost = manifest["capture"]["kernel_dropped"].as_u64().expect("a count");
        assert!(seen + lost == arrived || name.ends_with("killed") && seen > 0, "{name}: {seen} of {arrived}, {lost}");
    }
}

#[test]
fn af_xdp_captures_everything_or_says_what_not() {
    let Some(space) = space("af_xdp") else { return };
    if let Some(dir) = everything_arrives("af_xdp", &space, &["--pcapng"]) {
        assert_pcapng(&dir);
        damage_is_found(&dir, "capture.pcapng");
        damage_is_found(&dir, "frames.arrows");
    }
    loss_is_counted("af_xdp", &space);
    ends_are_clean("af_xdp", &space);
}

#[test]
fn af_packet_captures_everything_or_says_what_not() {
    let Some(space) = space("af_packet") else { return };
    everything_arrives("af_packet", &space, &[]);
    loss_is_counted("af_packet", &space);
    ends_are_clean("af_packet", &space);
    hears_nothing_that_is_sent("af_packet", &space);
}

/// Kernel times in ns: with a precision of µs, all would be multiples of 1000.
#[cfg(feature = "libpcap")]
fn assert_nanoseconds(dir: &Path) {
    let file = std::fs::File::open(dir.join("frames.arrows")).expect("a stream");
    let (mut odd, mut last) = (0, 0);
    for batch in StreamReader::try_new(file, None).expect("an Arrow stream") {
        for stamp in batch.expect("a batch").column(1).as_primitive::<Int64Type>().values() {
            odd += u64::from(stamp % 1000 != 0);
            last = *stamp;
        }
    }
    assert!(odd > 100_000, "{odd} of 200,000 stamps are no whole µs");
    let manifest = manifest(dir);
    assert!(manifest["clocks"]["frames.stamp_ns"].as_str().expect("a domain").contains("CLOCK_REALTIME"));
    let began = manifest["anchor_unix_ns"].as_i64().expect("ns");
    assert!((0..60_000_000_000).contains(&(last - began)), "{last} is within a minute after {began}");
}

#[cfg(feature = "libpcap")]
#[test]
fn libpcap_captures_everything_or_says_what_not() {
    let Some(space) = space("libpcap") else { return };
    if let Some(dir) = everything_arrives("libpcap", &space, &[]) {
        assert_nanoseconds(&dir);
    }
    loss_is_counted("libpcap", &space);
    ends_are_clean("libpcap", &space);
    hears_nothing_that_is_sent("libpcap", &space);
}

/// Frames sent by the interface are no arrivals, and an empty capture that has to wait for frames is no success.
fn hears_nothing_that_is_sent(kind: &str, space: &Space) {
    let quiet = space.capture_at("tx0", "own", &["-q", "--kind", kind, "--for", "3s", "--idle", "1s"]);
    let child = space.listening("own", quiet);
    // The host itself sends ARP requests, which listeners receive, unlike the frames of our transports.
    ip(&["-n", &space.name, "addr", "add", "192.0.2.1/24", "dev", "tx0"]).expect("an address");
    let ask = "echo hello > /dev/udp/192.0.2.2/9";
    assert!(space.inside("bash").args(["-c", ask]).status().expect("bash runs").success());
    let (code, line, text) = said(&child.wait_with_output().expect("it ends"));
    assert_eq!((code, &line["capture"]["captured"]), (Some(1), &Value::from(0)), "{text}");
    assert!(text.contains("no frame came at tx0"), "{text}");
    let arrived = space.inside("cat").arg("/sys/class/net/rx0/statistics/rx_packets").output().expect("a count");
    assert_ne!(String::from_utf8_lossy(&arrived.stdout).trim(), "0", "something was sent");
    // With a time limit instead of an idle limit, an empty capture is a valid result.
    let output = space.capture_at("tx0", "timed", &["-q", "--kind", kind, "--for", "100ms"]).output().expect("it runs");
    let (code, line, text) = said(&output);
    assert_eq!((code, &line["capture"]["captured"]), (Some(0), &Value::from(0)), "{text}");
}

#[test]
fn the_page_has_every_flag_of_a_recording() {
    let output = Command::new(env!("CARGO_BIN_EXE_pktgen")).args(["capture", "--help"]).output().expect("it runs");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    let (_, section) = help.split_once("Recording an interface:\n").expect("the flags of a recording");
    let options = section.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
    let flags = options.filter_map(|line| line.trim_start().strip_prefix("--")?.split([' ', '=']).next());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/capture.md");
    let page = std::fs::read_to_string(page).expect("docs/capture.md");
    let flags: Vec<&str> = flags.collect();
    assert!(flags.len() >= 12 && flags.contains(&"queues"), "{help}");
    for flag in flags {
        assert!(page.contains(&format!("--{flag}")), "docs/capture.md has no --{flag}");
    }
}

/// On any interface: the build is the cause, and the message states the remedy.
#[cfg(not(feature = "libpcap"))]
#[test]
fn a_build_without_libpcap_says_so() {
    let mut pktgen = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    let output = pktgen.args(["capture", "--iface", "absent0", "--kind", "libpcap"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    for part in ["without libpcap", "libpcap-dev", "--features libpcap", "--kind af_packet"] {
        assert!(text.contains(part), "{part} is in: {text}");
    }
}

/// Checks the packets of a pcapng file: one per frame, each truncated, each with its full length.
fn assert_pcapng(dir: &Path) {
    let bytes = std::fs::read(dir.join("capture.pcapng")).expect("a pcapng file");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
    let (mut at, mut packets) = (0, 0u64);
    while at < bytes.len() {
        if word(at) == 6 {
            assert_eq!((word(at + 20), word(at + 24)), (SNAP, SIZE));
            let number = at + 28 + HEAD;
            assert_eq!(bytes[number..number + 8], packets.to_le_bytes());
            packets += 1;
        }
        at += word(at + 4);
    }
    assert_eq!(packets, 200_000);
    tools::agree(&dir.join("capture.pcapng"));
}

#[test]
fn a_count_ends_it_and_parquet_takes_the_streams_place() {
    let Some(space) = space("af_xdp") else { return };
    let args = ["-q", "--count", "5000", "--parquet", "--ring", "65536"];
    let capture = space.start("counted", &args);
    assert_eq!(space.send(20_000, 100_000), 20_000);
    let (code, line, text) = said(&capture.wait_with_output().expect("it ends"));
    assert_eq!((code, &line["capture"]["captured"]), (Some(0), &Value::from(5000)), "{text}");
    let dir = space.dir("counted");
    assert!(dir.join("frames.parquet").exists() && !dir.join("frames.arrows").exists());
    damage_is_found(&dir, "frames.parquet");
}

/// A capture whose files have no room left ends by itself, and says so.
#[test]
fn a_full_disk_ends_it() {
    let Some(space) = space("af_packet") else { return };
    let (name, mut command) = ("full", space.inside("bash"));
    let out = space.dir(name).display().to_string();
    let args = format!("-q capture --iface rx0 --kind af_packet --out {out}");
    let line = format!("ulimit -f 64; exec {} {args}", env!("CARGO_BIN_EXE_pktgen"));
    command.args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut capture = space.listening(name, command);
    space.send(5000, 50_000);
    let ended = happens(|| capture.try_wait().expect("a child").is_some());
    let _ = capture.kill();
    let output = capture.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(ended, "hang guard: the capture goes on without its file: {text}");
    assert!(output.status.code() == Some(1) && text.contains("frames.arrows"), "{:?}: {text}", output.status);
    let manifest = manifest(&space.dir(name));
    assert_eq!(manifest["state"], "interrupted");
    let faults = manifest["validity"]["faults"].to_string();
    assert!(faults.contains("writer_failed") && faults.contains("capture_interrupted"), "{faults}");
}

/// On a disk that is full to the last byte there is still room for the manifest.
#[test]
fn a_disk_full_to_the_last_byte_has_room_for_the_verdict() {
    let Some(space) = space("af_packet") else { return };
    let (disk, copy) = (space.dir("disk"), space.dir("copy"));
    [&disk, &copy].into_iter().for_each(|folder| std::fs::create_dir(folder).expect("a folder"));
    let (pktgen, out) = (env!("CARGO_BIN_EXE_pktgen"), disk.join("full").display().to_string());
    // Only this shell and its children see the mount.
    let line = format!(
        "mount -t tmpfs -o size=600k none {} || exit 99; {pktgen} -q capture --iface rx0 --kind af_packet --out {out}; \
         code=$?; cp {out}/manifest.json {}; exit $code",
        disk.display(),
        copy.display()
    );
    let mut command = space.inside("bash");
    let mut shell = command.args(["-c", &line]).stderr(Stdio::piped()).spawn().expect("it starts");
    let seen = PathBuf::from(format!("/proc/{}/root{out}/manifest.json", shell.id()));
    let anchored = |text: String| serde_json::from_str::<Value>(&text).is_ok_and(|m| m["anchor_unix_ns"] != 0);
    let listens = || std::fs::read_to_string(&seen).is_ok_and(anchored);
    let began = happens(|| listens() || shell.try_wait().expect("a child").is_some());
    space.send(20_000, 50_000);
    let ended = happens(|| shell.try_wait().expect("a child").is_some());
    let _ = shell.kill();
    let output = shell.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(began && ended && output.status.code() == Some(1), "{:?}: {text}", output.status);
    assert!(text.contains("frames.arrows") && text.contains("No space left"), "{text}");
    let manifest = manifest(&copy);
    assert_eq!(manifest["state"], "interrupted");
    let faults = manifest["validity"]["faults"].to_string();
    assert!(faults.contains("writer_failed") && faults.contains("capture_interrupted"), "{faults}");
}

/// A capture whose interface goes down, or is deleted, ends by itself, and says so.
#[test]
fn an_interface_that_is_gone_ends_it() {
    let Some(space) = space("af_xdp") else { return };
    // Deleted last: no interface is left then.
    for (name, kind, change) in [
        ("packet-down", "af_packet", ["set", "rx0", "down"].as_slice()),
        ("xdp-down", "af_xdp", &["set", "rx0", "down"]),
        ("xdp-gone", "af_xdp", &["del", "rx0"]),
    ] {
        let mut capture = space.start(name, &["-q", "--kind", kind]);
        assert!(space.inside("ip").arg("link").args(change).status().expect("ip runs").success());
        let ended = happens(|| capture.try_wait().expect("a child").is_some());
        let _ = capture.kill();
        let output = capture.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(ended, "hang guard: the capture goes on without its interface: {text}");
        assert!(output.status.code() == Some(3) && text.contains("rx0: cannot receive"), "{name}: {text}");
        let manifest = manifest(&space.dir(name));
        assert_eq!(manifest["state"], "interrupted", "{name}");
        let faults = manifest["validity"]["faults"].to_string();
        assert!(faults.contains("role_failed"), "{name}: {faults}");
        // Its counters are gone as well.
        assert_eq!(faults.contains("capture_doubt"), name == "xdp-gone", "{name}: {faults}");
        let _ = space.inside("ip").args(["link", "set", "rx0", "up"]).output();
    }
}

/// Sends frames of a protocol that no host takes, two each millisecond, for at most 30 s.
const OF_NO_PROTOCOL: &str = "
import socket, time
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('tx0', 0))
for _ in range(60_000):
    out.send(bytes.fromhex('020000000002' '020000000001' '88b5') + bytes(50))
    time.sleep(0.0005)
";

/// Frames that come before a capture has its socket are dropped by the host, and are no losses of the capture.
#[test]
fn frames_before_it_are_no_losses() {
    let Some(space) = space("af_xdp") else { return };
    let mut sender = space.inside("python3").args(["-c", OF_NO_PROTOCOL]).spawn().expect("Python runs");
    let sends = happens(|| space.received() > 100);
    let ended = ["af_packet", "af_xdp"].map(|kind| {
        let capture = space.start(kind, &["-q", "--kind", kind, "--count", "200", "--idle", "20s"]);
        said(&capture.wait_with_output().expect("it ends"))
    });
    let _ = sender.kill();
    let _ = sender.wait();
    assert!(sends, "hang guard: nothing is sent");
    for (code, line, text) in ended {
        assert_eq!((code, &line["capture"]["interface_dropped"]), (Some(0), &Value::from(0)), "{text}");
    }
}

/// Sends a frame of each of these lengths, whose sum is 16,115.
const OF_LENGTHS: &str = "
import socket
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('tx0', 0))
for length in (60, 3520, 3521, 9014):
    out.send(bytes.fromhex('020000000002' '020000000001' '88b5') + bytes(length - 14))
";

/// Long frames are in several buffers of the driver, all of which count.
#[test]
fn a_count_has_all_bytes_of_long_frames() {
    let Some(space) = space("af_xdp") else { return };
    for interface in ["tx0", "rx0"] {
        ip(&["-n", &space.name, "link", "set", interface, "mtu", "9000"]).expect("an MTU");
    }
    let (child, _says) = space.counting();
    let before = space.received();
    assert!(space.inside("python3").args(["-c", OF_LENGTHS]).status().expect("Python runs").success());
    let arrived = happens(|| space.received() >= before + 4);
    signal(&child, "-INT");
    let output = child.wait_with_output().expect("it ends");
    let counted: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(arrived, "hang guard: {counted}");
    assert_eq!((&counted["frames"], &counted["bytes"]), (&4.into(), &16_115.into()), "{counted}");
}

/// Sends four frames with a tag around a protocol that no host takes, which the interface counts as dropped.
const DROPPED: &str = "
import socket
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('tx0', 0))
for _ in range(4):
    out.send(bytes.fromhex('020000000002' '020000000001' '8100' '004d' '88b5') + bytes(50))
";

/// The counters of an interface are found under its new name, and not those of another that has the old one.
#[test]
fn a_renamed_interface_keeps_its_counters() {
    let Some(space) = space("af_packet") else { return };
    let mut capture = space.start("renamed", &["-q", "--kind", "af_packet", "--count", "8"]);
    let send = || assert!(space.inside("python3").args(["-c", DROPPED]).status().expect("Python runs").success());
    send();
    // Before Linux 6.2 only an interface that is down can be renamed.
    if let Err(why) = ip(&["-n", &space.name, "link", "set", "rx0", "name", "rx1"]) {
        let _ = capture.kill().and_then(|()| capture.wait());
        return skip(Need::Netns, "a capture whose interface is renamed", why);
    }
    ip(&["-n", &space.name, "link", "add", "rx0", "type", "veth", "peer", "name", "other0"]).expect("a namesake");
    send();
    let (code, line, text) = said(&capture.wait_with_output().expect("it ends"));
    // The last ones may be counted after they were taken.
    let dropped = line["capture"]["interface_dropped"].as_u64().expect("a count");
    assert!(code == Some(1) && dropped >= 4 && text.contains("the interface itself dropped"), "{code:?} {line} {text}");
}

/// A count ends with its interface, too, with what it has.
#[test]
fn an_interface_that_is_gone_ends_a_count() {
    let Some(space) = space("af_xdp") else { return };
    // Deleted last: no interface is left then.
    for change in [["set", "rx0", "down"].as_slice(), &["del", "rx0"]] {
        let (mut child, mut says) = space.counting();
        assert!(space.inside("ip").arg("link").args(change).status().expect("ip runs").success());
        let ended = happens(|| child.try_wait().expect("a child").is_some());
        let _ = child.kill();
        let output = child.wait_with_output().expect("it ends");
        let mut text = String::new();
        says.read_to_string(&mut text).expect("text");
        assert!(ended, "hang guard: the count goes on without its interface: {text}");
        assert!(output.status.code() == Some(3) && text.contains("rx0: cannot receive"), "{change:?}: {text}");
        let counted: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(counted["frames"], 0, "{counted}");
        let _ = space.inside("ip").args(["link", "set", "rx0", "up"]).output();
    }
}

/// Changes a byte of a file in the run dir: a reader refuses it by name, or reports that it did not read it.
fn damage_is_found(dir: &Path, file: &str) {
    let analyze = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
        let output = command.args(["analyze", "--json"]).arg(dir).args(more).output().expect("it runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let refusal = format!("{file}: its content is not what was written");
    let said = analyze(&[]);
    assert!(!said.contains(&refusal) && !said.contains("unverified"), "{said}");
    let path = dir.join(file);
    let whole = std::fs::read(&path).expect("a file");
    let mut bytes = whole.clone();
    bytes[whole.len() / 2] ^= 1;
    std::fs::write(&path, bytes).expect("writable");
    assert!(analyze(&[]).contains(&refusal), "{}", analyze(&[]));
    std::fs::write(&path, whole).expect("writable");
    assert!(analyze(&["--no-verify"]).contains("\"not_verified\""), "{}", analyze(&["--no-verify"]));
}

#[test]
fn what_cannot_be_captured_is_refused() {
    let Some(space) = space("af_xdp") else { return };
    let run = |args: &[&str]| {
        let output = space.capture("refused", args).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // One socket would receive half of the frames.
    space.ethtool(&["-L", "rx0", "rx", "2"]).expect("two queues");
    let (code, text) = run(&["--kind", "af_xdp", "--for", "100ms"]);
    assert!(code == Some(3) && text.contains("2 receive queues") && text.contains("af_packet"), "{code:?} {text}");
    for (args, wanted, part) in [
        (&["--snap", "10"][..], 2, "--snap 10"),
        (&["--count", "0"], 2, "--count 0"),
        (&["--ring", "10", "--kind", "af_packet"], 2, "--ring 10"),
        (&["--for", "5"], 2, "no unit"),
        (&["--kind", "pigeon"], 2, "af_packet"),
    ] {
        let (code, text) = run(args);
        assert!(code == Some(wanted) && text.contains(part), "{args:?}: {code:?} {text}");
    }
    let mut absent = space.inside(env!("CARGO_BIN_EXE_pktgen"));
    let output = absent.args(["capture", "--iface", "absent0", "--for", "1s"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && text.contains("absent0"), "{text}");
    // The default route: AF_XDP would disconnect the host.
    let route = ["-n", &space.name, "route", "add", "default", "dev", "tx0"];
    ip(&["-n", &space.name, "addr", "add", "192.0.2.1/24", "dev", "tx0"]).and_then(|()| ip(&route)).expect("a route");
    let mut own = space.inside(env!("CARGO_BIN_EXE_pktgen"));
    let output = own.args(["capture", "--iface", "tx0", "--for", "1s"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && text.contains("--allow-default-route"), "{text}");
    assert!(!space.dir("refused").exists(), "nothing was written");
}
