//! `pktgen init`: its output passes the checks and runs through a third-party device; it refuses what a run would
//! refuse, and without a terminal it prompts for nothing.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::bench::{Device, cabled};
use crate::support::netns::Net;
use crate::support::wired::{manifest, pktgen, said};
use pktgen_testing::{Need, skip};
use serde_json::{Value, json};

fn net(tag: &str) -> Option<Net> {
    cabled(tag).inspect_err(|why| skip(Need::Netns, "an experiment between veth pairs", why)).ok()
}

/// Runs a command in a folder of the host `h`, without a terminal.
fn run(net: &Net, folder: &Path, words: &[&str]) -> Output {
    let mut command = pktgen(&net.inside("h"), words, &[]);
    command.current_dir(folder).stdin(Stdio::null()).output().expect("it runs")
}

/// Initialises an experiment, and runs the commands that it suggests, up to the run itself.
fn initiated(net: &Net, device: &str, more: &[&str]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = ["init", "mine", "--json", "--device", device, "--workers-if", "h0"];
    let output = run(net, folder.path(), &[&words[..], more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let commands = told["commands"].as_array().expect("commands");
    let commands: Vec<_> = commands.iter().map(|command| command.as_str().expect("a command")).collect();
    assert_eq!(commands.len(), 4);
    let inside = folder.path().join("mine");
    for command in &commands[..3] {
        let words: Vec<_> = command.split(' ').skip(1).collect();
        let output = run(net, &inside, &words);
        if !words.contains(&"replay") {
            assert_eq!(output.status.code(), Some(0), "{command}: {}", said(&output));
        }
    }
    let last: Vec<_> = commands[3].split(' ').skip(1).collect();
    let output = run(net, &inside, &last);
    (folder, output)
}

#[test]
fn what_it_writes_runs_through_devices_of_others() {
    let Some(net) = net("init") else { return };
    let forwarder = &["--in", "e0", "--out", "e1", "--first", "10.0.0.1"][..];
    let switch =
        &["--in", "e0", "--protocol", "switchml", "--first", "10.40.0.1", "--workers", "4", "--group", "239.40.0.0"];
    for (device, words, more) in [
        ("generic", forwarder, &["--server-if", "h1", "--workers", "6", "--rate", "10Mbps"][..]),
        ("tofino-switchml", &switch[..], &["--workers", "4", "--rate", "1Gbps"][..]),
    ] {
        let running = Device::start(&net, words);
        let (folder, diagnosed) = initiated(&net, device, more);
        let counts = running.stop();
        let found = manifest(&folder.path().join("mine/run"));
        let busy = counts.of("overrun") + counts.of("unsent") > 0.0;
        if busy {
            continue;
        }
        assert_eq!(found["validity"]["valid"], json!(true), "{device}: {}", found["validity"]);
        assert!(counts.of("received") > 0.0 && found["balance"]["sent"].as_u64() > Some(0), "{device}: {counts:?}");
        assert!(!said(&diagnosed).contains("symptom"), "{device}: {}", said(&diagnosed));
    }
}

/// No interface is needed, and the suggested commands run as printed.
#[test]
fn a_launched_device_needs_no_interface() {
    let Ok(net) = Net::make("initlaunch", &["h"], &[]).inspect_err(|why| skip(Need::Netns, "launched devices", why))
    else {
        return;
    };
    let users = Command::new("unshare").args(["--user", "true"]).output().expect("unshare runs");
    if !users.status.success() {
        return skip(Need::Userns, "launched devices", said(&users));
    }
    let program = crate::support::bench::program().display().to_string();
    let switch = format!("'{program}' --in e0 --protocol switchml --first 10.40.0.1 --workers 4 --group 239.40.0.0");
    let card = format!("{program} --in e0 --out e1 --protocol olaf-strict --first 10.20.0.1 --mbps 20");
    for (device, launch, ports, more, certified) in [
        ("switchml", &switch, "e0", &["--workers", "4"][..], true),
        ("olaf", &card, "e0,e1", &["--workers", "9", "--rate", "20Mbps"], true),
        ("generic", &card, "e0,e1", &["--workers", "9"], false),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let words = ["init", "mine", "--json", "--device", device, "--launch", launch, "--ports", ports];
        let output = run(&net, folder.path(), &[&words[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{device}: {}", said(&output));
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(said(&output).contains("is made when the device is launched"), "{}", said(&output));
        let commands = told["commands"].as_array().expect("commands");
        let commands: Vec<_> = commands.iter().map(|command| command.as_str().expect("a command")).collect();
        assert_eq!(commands.iter().any(|command| command.starts_with("pktgen certify")), certified, "{commands:?}");
        let inside = folder.path().join("mine");
        for command in commands.iter().filter(|command| !command.contains("certify") && !command.contains("diagnose")) {
            let words: Vec<_> = command.split(' ').skip(1).take_while(|word| !word.starts_with('>')).collect();
            let output = run(&net, &inside, &words);
            assert_eq!(output.status.code(), Some(0), "{device}: {command}: {}", said(&output));
        }
        let found = manifest(&inside.join("run"));
        assert_eq!(found["validity"]["valid"], json!(true), "{device}: {}", found["validity"]);
        let doctor = run(&net, &inside, &["doctor", "experiment.toml"]);
        assert_eq!(doctor.status.code(), Some(0), "{device}: {}", said(&doctor));
        let text = std::fs::read_to_string(inside.join("experiment.toml")).expect("an experiment");
        assert!(!text.contains("\nlimit = "), "{device}: {text}");
    }
}

#[test]
fn every_system_that_it_knows_passes_its_checks() {
    let Some(net) = net("initall") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (device, has_server) in
        [("olaf", true), ("generic", true), ("libra", true), ("switchml", false), ("trio_ml", false)]
    {
        let server = if has_server { &["--server-if", "h1"][..] } else { &[] };
        let words = ["init", device, "--device", device, "--workers-if", "h0", "--workers", "4", "--rate", "20Mbps"];
        let output = run(&net, folder.path(), &[&words[..], server].concat());
        assert_eq!(output.status.code(), Some(0), "{device}: {}", said(&output));
        let checked = run(&net, &folder.path().join(device), &["replay", "experiment.toml", "--dry-run"]);
        assert_eq!(checked.status.code(), Some(0), "{device}: {}", said(&checked));
    }
}

/// A pair of virtual interfaces says 10 Gbit/s.
#[test]
fn a_rate_above_that_of_the_link_cannot_run_here() {
    let Some(net) = net("initrate") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (rate, code) in [("9Gbps", 0), ("20Gbps", 3)] {
        let words = ["init", rate, "--device", "olaf", "--workers-if", "h0", "--server-if", "h1", "--workers", "9"];
        let output = run(&net, folder.path(), &[&words[..], &["--rate", rate]].concat());
        assert_eq!(output.status.code(), Some(code), "{rate}: {}", said(&output));
        assert_eq!(said(&output).contains("h0 says that its link carries 10.000"), code == 3, "{}", said(&output));
        let doctor = run(&net, &folder.path().join(rate), &["doctor", "experiment.toml"]);
        assert_eq!(doctor.status.code(), Some(code), "{rate}: {}", said(&doctor));
    }
}

#[test]
fn what_is_missing_or_dangerous_is_named_and_nothing_is_left() {
    let Some(net) = net("initrefuse") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |words: &[&str], code: i32, says: &str| {
        let output = run(&net, folder.path(), &[&["init", "mine"][..], words].concat());
        assert!(output.status.code() == Some(code) && said(&output).contains(says), "{words:?}: {}", said(&output));
        assert!(!folder.path().join("mine").exists(), "{words:?} left something behind");
    };
    let two = ["--device", "olaf", "--workers-if", "h0"];
    let all = [&two[..], &["--server-if", "h1", "--workers", "6", "--rate", "10Mbps"]].concat();
    refused(&[], 2, "--device is missing");
    refused(&["--device", "olaf"], 2, "--workers-if is missing");
    refused(&two, 2, "--server-if is missing");
    refused(&["--device", "nothing"], 2, "there is no profile \"nothing\"");
    refused(&["--device", "switchml", "--workers-if", "h9"], 2, "h9: there is no such interface; there are h0, h1");
    refused(&["--device", "switchml", "--workers-if", "lo"], 2, "lo: it is the loopback interface");
    refused(&[&two[..], &["--server-if", "h0"]].concat(), 2, "it is the workers' interface");
    refused(&["--device", "olaf", "--ports", "e0,e1"], 2, "--launch");
    let launch = ["--device", "switchml", "--workers", "4", "--launch", "./switch --port 'e 0"];
    refused(&launch, 2, "a ' is open at its end");
    let launch = ["--device", "switchml", "--workers", "4", "--launch", "./switch", "--ports"];
    refused(&[&launch[..], &["e0,e1"]].concat(), 2, "--ports e0,e1: ");
    refused(&[&launch[..], &["e0", "--workers-if", "h0"]].concat(), 2, "--workers-if h0: the interface exists");
    refused(&[&two[..], &["--server-if", "h1", "--workers", "6", "--rate", "fast"]].concat(), 2, "--rate fast");
    refused(&[&two[..], &["--server-if", "h1", "--workers", "6", "--rate", "0bps"]].concat(), 2, "--rate 0bps");
    let fast = [&two[..], &["--server-if", "h1", "--workers", "6", "--rate", "200Gbps"]].concat();
    refused(&fast, 2, "Gbit/s in the mean, with preambles and gaps, would go to it, and it carries 100.000");
    let inside = net.inside("h");
    for words in [&["addr", "add", "10.9.9.1/24", "dev", "h1"][..], &["route", "add", "default", "via", "10.9.9.2"]] {
        let done = Command::new(&inside[0]).args(&inside[1..]).arg("ip").args(words).status().expect("ip runs");
        assert!(done.success(), "{words:?}");
    }
    refused(&all, 3, "interface h1 carries the host's default route");
}
