//! Every command of docs/operator-guide.md, as written there, with the experiment that the page shows: over a software
//! device where the page uses one, otherwise over a device of `devices/bench`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::bench::Device;
use crate::support::netns::Net;
use crate::support::serving::Serving;
use pktgen_testing::{Need, skip};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the blocks of a page in a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let open = format!("```{language}\n");
    let parts = page.split(&open).skip(1);
    parts.map(|part| part.split("```").next().expect("the end of a block").to_owned()).collect()
}

/// The place where commands run: the host in one namespace, devices in the other.
struct Place {
    net: Net,
    folder: tempfile::TempDir,
}

impl Place {
    /// Returns a command of the page for execution in a namespace.
    fn command(&self, space: &str, line: &str) -> Command {
        let before = self.net.inside(space);
        let binary = Path::new(env!("CARGO_BIN_EXE_pktgen")).parent().expect("a folder");
        let mut path = std::ffi::OsString::from(binary);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new(&before[0]);
        command.args(&before[1..]).args(["sh", "-c", &format!("exec {line}")]);
        command.current_dir(self.folder.path()).env("PATH", path);
        command
    }

    /// Runs a command of the host, which must succeed; a comparison must have a verdict.
    fn run(&self, line: &str) {
        let output = self.command("h", line).output().expect("sh runs");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        // On a disturbed machine a run has cautions, which the diagnosis reports without naming a cause.
        let undecided = line.starts_with("pktgen diagnose ") && said.contains("nothing wrong was found");
        if line.starts_with("pktgen report ") {
            // The stand-in that forwards has a faster link, so that either device may be the better one.
            assert!(matches!(output.status.code(), Some(0 | 1)), "{line}\n{said}");
            assert!(!said.contains("seed: not compared") && !said.contains("seeds: not compared"), "{line}\n{said}");
            return;
        }
        assert_eq!(output.status.code(), Some(if undecided { 4 } else { 0 }), "{line}\n{said}");
    }

    /// Starts the device for a command of the page.
    fn device(&self, line: &str) -> Device {
        let aggregates = ["--protocol", "olaf-strict", "--first", "10.20.0.1", "--workers", "27", "--mbps", "10"];
        let clusters = ["--per-cluster", "3", "--group", "239.20.0.0"];
        let aggregates = [&aggregates[..], &clusters].concat();
        let forwards = ["--fault", "forward"];
        let own = if line.contains("target.program=forward") { &forwards[..] } else { &aggregates[..] };
        Device::start(&self.net, &[&["--in", "eth3", "--out", "eth4"], own].concat())
    }
}

#[test]
fn every_command_works_as_written() {
    let cables = [(("h", "eth1"), ("e", "eth3")), (("e", "eth4"), ("h", "eth2"))];
    let net = match Net::make("guide", &["h", "e"], &cables) {
        Err(why) => return skip(Need::Netns, "the operator's guide between namespaces", why),
        Ok(net) => net,
    };
    let place = Place { net, folder: tempfile::tempdir().expect("a temporary folder") };
    let page = fs::read_to_string(root().join("docs/operator-guide.md")).expect("the page");
    let experiment = &blocks(&page, "toml")[0];
    fs::write(place.folder.path().join("EXP.toml"), experiment).expect("writable");
    let profile = root().join("configs/hardware/alveo-u55c-olaf.toml");
    fs::copy(profile, place.folder.path().join("my-device.toml")).expect("a profile");
    let shown = blocks(&page, "sh").concat();
    let (mut stand_in, mut server) = (None, None);
    let mut kinds = std::collections::BTreeSet::new();
    for line in shown.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[0], "pktgen", "{line}");
        kinds.insert(words[1]);
        let sends = words[1] == "replay" && !line.contains("--dry-run");
        match words[1] {
            "target" => stand_in = Some(Serving::start(place.command("e", line), "target")),
            "capture" => server = Some(Serving::start(place.command("h", line), "capture")),
            _ => {
                let device = (sends && stand_in.is_none()).then(|| place.device(line));
                place.run(line);
                if let Some(device) = device {
                    // The server part continues until no more frames arrive.
                    assert_eq!(server.take().map_or(0, Serving::end), 0, "{line}");
                    let counted = device.stop();
                    assert!(counted.of("received") > 0.0, "{line}");
                    // The operator's reading of the device's port counters.
                    if words.windows(2).any(|pair| pair == ["--out", "run"]) {
                        fs::write(place.folder.path().join("counted.json"), counted.text()).expect("writable");
                    }
                }
                if sends {
                    assert_eq!(stand_in.take().map_or(0, Serving::end), 0, "{line}");
                }
            }
        }
    }
    let all = ["analyze", "capture", "device", "diagnose", "doctor", "merge", "replay", "report", "target"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
}
