//! Third-party devices: `devices/bench`, compiled once, in a separate namespace between the ports of a host.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::netns::Net;

/// The host's ports `h0` and `h1`, and the device's, `e0` and `e1`, at the other ends.
pub fn cabled(tag: &str) -> Result<Net, String> {
    Net::make(tag, &["h", "e"], &[(("h", "h0"), ("e", "e0")), (("e", "e1"), ("h", "h1"))])
}

/// SwitchML: four workers, each on a port of its own.
pub const SWITCHML: &str = r#"
name = "lockstep-switchml"
[workload]
kind = "dense"
model = "resnet50"
scale = 0.002
workers = 4
iterations = 3
elements = 256
compute = "1ms"
[topology]
kind = "rack"
[endpoint]
workers = "switchml"
pool = 32
"#;

/// Returns the device's program on packet sockets, built from its sources at first use.
pub fn program() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        compiled("bench-device", &["bench/device.c", "bench/options.c", "bench/aggregate.c", "bench/faults.c"])
    })
}

/// The same aggregators in virtual time.
pub fn lockstep() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| compiled("lockstep-device", &["lockstep/lockstep.c", "bench/options.c", "bench/aggregate.c"]))
}

/// Compiles a program from these files of `devices`. Another process that runs it keeps the file that this one replaces.
fn compiled(name: &str, files: &[&str]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../devices");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (made, path) = (folder.join(format!("{name}-{}", std::process::id())), folder.join(name));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(sources.join("bench"))
        .arg("-o")
        .arg(&made)
        .args(files.iter().map(|file| sources.join(file)))
        .output()
        .expect("cc runs: it links Rust programs, too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&made, &path).expect("one folder");
    path
}

/// A running device.
pub struct Device(Child);

impl Device {
    /// Starts it in the namespace `e`, and waits until it is ready. It works for ten minutes at most; the last of equal options counts.
    pub fn start(net: &Net, words: &[&str]) -> Device {
        Device::start_in(net, "e", program(), &[&["--for", "600"], words].concat())
    }

    /// Starts a device of another program in a namespace, and waits until it is ready.
    pub fn start_in(net: &Net, space: &str, program: &Path, words: &[&str]) -> Device {
        let before = net.inside(space);
        let mut command = Command::new(&before[0]);
        command.args(&before[1..]).arg(program).args(words);
        let mut device = Device(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"));
        let mut line = String::new();
        BufReader::new(device.0.stderr.take().expect("stderr")).read_line(&mut line).expect("readable");
        assert_eq!(line.trim(), "ready", "{}: {words:?}", program.display());
        device
    }

    /// Ends the device; returns its counters.
    pub fn stop(mut self) -> Counts {
        let ended = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().expect("kill runs");
        assert!(ended.success(), "the device ended before its time");
        let mut text = String::new();
        self.0.stdout.take().expect("stdout").read_to_string(&mut text).expect("UTF-8");
        Counts(serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The counters of a device.
#[derive(Debug, Clone)]
pub struct Counts(Value);

impl Counts {
    /// Returns the counters for a missing device.
    pub fn none() -> Counts {
        Counts(Value::Null)
    }

    /// All of them, as one JSON object.
    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// Returns one of them; 0 if there is no device.
    pub fn of(&self, name: &str) -> f64 {
        if self.0.is_null() { 0.0 } else { self.0[name].as_f64().unwrap_or_else(|| panic!("no {name} in {}", self.0)) }
    }
}
