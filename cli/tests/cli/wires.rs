//! Table 1 on wires: the transports of this host against virtual time. Packet sockets run on veth pairs in a network
//! namespace that the test makes and removes; where it may not, it says SKIPPED and why.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::netns::Net;
use pktgen_testing::{Need, skip, undisturbed};
use serde_json::Value;

const VARIANTS: [&str; 2] = ["FIFO", "Olaf"];

fn config() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/olaf/table1-wires.toml").display().to_string()
}

/// Runs a replay of one seed at one rate, with the command prefix `before`.
fn replay(before: &[&str], out: &Path, set: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_pktgen");
    let mut words: Vec<&str> = before.to_vec();
    words.push(binary);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["-q", "replay", &config(), "--out", &out.display().to_string()]);
    command.args(["--set", "sweep.seeds=\"1\"", "--set", "sweep.axes.topology.rate=[\"40Mbps\"]"]);
    command.args(set.iter().flat_map(|set| ["--set", set])).output().expect("it runs")
}

/// Returns the losses of both variants, after checking that the runs are sound; none if frames were lost outside the
/// device because the machine paused, which the run must report itself.
fn losses(before: &[&str], set: &[&str]) -> Option<[f64; 2]> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let output = replay(before, &out, set);
    // 1 where a machine that stops for a moment makes the ages of one seed worse than FIFO's; runs must be valid all the same.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{set:?}: {}", String::from_utf8_lossy(&output.stdout));
    let manifests = VARIANTS.map(|variant| {
        let path = out.join(format!("{variant},rate=40Mbps,seed=1/manifest.json"));
        serde_json::from_slice::<Value>(&std::fs::read(path).expect("a manifest")).expect("JSON")
    });
    let lost = |manifest: &Value| {
        let reasons = manifest["validity"]["faults"].to_string();
        manifest["validity"]["valid"] == false && reasons.contains("lost frames outside the device")
    };
    if manifests.iter().any(lost) {
        return None;
    }
    Some(manifests.map(|manifest| {
        assert_eq!(manifest["validity"]["valid"], true, "{set:?}: {}", manifest["validity"]);
        let (balance, counters) = (&manifest["balance"], &manifest["counters"]);
        assert_eq!((&balance["unknown"], &balance["in_flight"]), (&Value::from(0), &Value::from(0)));
        assert_eq!(counters["sums_ok"], counters["packets_received"]);
        let dropped: f64 = balance["dropped"].as_object().expect("drops").values().filter_map(Value::as_f64).sum();
        dropped / balance["sent"].as_f64().expect("sent")
    }))
}

/// On wires within 10 points of virtual time (3 on an idle machine), and in the same order. A machine that stops for a
/// moment may spoil a run, which is then repeated; in every other run everything must be accounted for.
fn agrees(kind: &str, before: &[&str], set: &[&str], expected: [f64; 2]) {
    undisturbed(&format!("losses over {kind} are those of virtual time"), |_| {
        let found = losses(before, set)?;
        let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.10);
        (near && found[0] > 3.0 * found[1]).then_some(())
    });
}

const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";

#[test]
fn the_device_on_wires_loses_what_it_loses_in_virtual_time() {
    let expected = losses(&[], &["transport.kind=virtual"]).expect("nothing is lost outside");
    for kind in ["ring", "udp"] {
        agrees(kind, &[], &[&format!("transport.kind={kind}")], expected);
    }
    let cables = [(("all", "w0"), ("all", "d0")), (("all", "d1"), ("all", "s0"))];
    match Net::make("wires", &["all"], &cables) {
        Err(why) => skip(Need::Netns, "af_packet, af_xdp and xdp_live on veth pairs", why),
        Ok(net) => {
            let before = net.inside("all");
            let before: Vec<_> = before.iter().map(String::as_str).collect();
            for kind in ["af_packet", "af_xdp", "xdp_live"] {
                agrees(kind, &before, &[&format!("transport.kind={kind}"), FOUR], expected);
            }
            refusals(&before);
        }
    }
}

/// Checks what must not be sent, and where.
fn refusals(before: &[&str]) {
    let packet = "transport.kind=af_packet";
    let swapped = FOUR.replace("w0", "nowhere0");
    let last = before[before.len() - 1];
    let route = ["-n", last, "route", "add", "default", "dev", "s0"];
    for (set, code, part) in [
        (vec![packet], 2, "give four"),
        (vec![packet, &swapped], 3, "no interface \"nowhere0\""),
        (vec![packet, FOUR, "workload.bytes=9000B"], 3, "which takes 1514"),
        (vec![packet, FOUR, "transport.wait=spin"], 3, "transport.wait"),
        (vec![packet, FOUR], 3, "default route"),
    ] {
        if part == "default route" {
            assert!(Command::new("ip").args(route).status().expect("ip runs").success());
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if part == "transport.wait" && cores > 2 {
            continue;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = replay(before, &folder.path().join("out"), &set);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{part}: {said}");
        assert!(said.contains(part), "{part}: {said}");
    }
}
