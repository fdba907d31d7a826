//! Synchronous training on wires, one cable and no server: whole runs in one process, and in parts, over the transports of
//! this host. Packet sockets run on a veth pair in network namespaces that the test makes and removes; where it may not,
//! it says SKIPPED and why.

use std::path::Path;

use crate::support::loopback::addresses;
use crate::support::netns::Net;
use crate::support::wired::{config, in_parts, is_whole, lead, manifest, number, pktgen, replay, said};
use pktgen_testing::{Need, skip, undisturbed};
use serde_json::Value;

const WORKERS: u64 = 4;
const ITERATIONS: u64 = 5;
const TWO: &str = "transport.interfaces=[\"w0\",\"d0\"]";
/// What frames of 1024 gradients need: 4150 B with the Ethernet header, which the MTU does not count.
const MTU: &str = "4136";

/// Packets per worker over all iterations: SwitchML sends a window more, to agree on exponents.
fn blocks(manifest: &Value) -> u64 {
    let (blocks, window) = (number(&manifest["training"]["blocks"]), number(&manifest["training"]["window"]));
    let is_switchml = manifest["config"].as_str().expect("a configuration").contains("workers = \"switchml\"");
    (blocks + if is_switchml { lead(window, blocks) } else { 0 }) * ITERATIONS
}

/// Checks that every contribution is in a result, and that every result was right and reached every worker once.
fn is_complete(what: &str, manifest: &Value) {
    assert_eq!(manifest["validity"]["valid"], true, "{what}: {}", manifest["validity"]);
    let (balance, counters, blocks) = (&manifest["balance"], &manifest["counters"], blocks(manifest));
    assert!(blocks > 1000, "{what}: {blocks} blocks");
    assert_eq!(number(&balance["sent"]), WORKERS * blocks, "{what}: {balance}");
    assert_eq!(number(&balance["delivered_merged"]), WORKERS * blocks, "{what}: {balance}");
    assert_eq!((number(&balance["unknown"]), number(&balance["in_flight"])), (0, 0), "{what}: {balance}");
    assert_eq!((number(&counters["sums_ok"]), number(&counters["sums_wrong"])), (blocks, 0), "{what}");
    assert_eq!((number(&counters["replies"]), number(&counters["foreign"])), (WORKERS * blocks, 0), "{what}");
    assert_eq!(counters["packets_received"], counters["sums_ok"], "{what}");
}

/// Runs until nothing was lost or late: a machine that stops for a moment may spoil a run. Whatever a run says, its sums
/// are right.
fn runs(before: &[String], name: &str, set: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let what = format!("{name}, {set:?}");
    undisturbed(&format!("training on wires, {what}"), |i| {
        let out = folder.path().join(i.to_string());
        let output = replay(before, name, &out, set);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{what}: {}", said(&output));
        let manifest = manifest(&out);
        assert_eq!(number(&manifest["counters"]["sums_wrong"]), 0, "{what}");
        let degraded = manifest["counters"]["device"]["degraded"].as_u64().unwrap_or(0);
        (is_whole(&manifest) && degraded == 0).then(|| is_complete(&what, &manifest))
    });
}

#[test]
fn every_sum_is_right_over_every_transport() {
    runs(&[], "trio-ml", &["transport.kind=ring"]);
    runs(&[], "trio-ml", &["transport.kind=udp"]);
    runs(&[], "switchml", &["transport.kind=ring"]);
    match Net::make("rounds", &["all"], &[(("all", "w0"), ("all", "d0"))]) {
        Err(why) => skip(Need::Netns, "af_packet, af_xdp and xdp_live on a veth pair", why),
        Ok(net) => {
            let inside = net.inside("all");
            too_small(&inside);
            net.set_mtu("all", "w0", MTU);
            // The other end silently drops frames larger than its own MTU, so it is checked before anything is sent.
            one_end_is_too_small(&inside);
            net.set_mtu("all", "d0", MTU);
            for (name, kind, elements) in [
                ("trio-ml", "af_packet", "1024"),
                ("trio-ml", "af_xdp", "256"),
                ("trio-ml", "af_xdp", "896"),
                ("trio-ml", "xdp_live", "512"),
                ("switchml", "af_packet", "256"),
                ("switchml", "af_xdp", "256"),
                ("switchml", "xdp_live", "256"),
            ] {
                let (kind, elements) = (format!("transport.kind={kind}"), format!("workload.elements={elements}"));
                // The large frames are few: as many as of the others.
                runs(&inside, name, &[&kind, &elements, TWO, "workload.scale=0.02"]);
            }
            interfaces(&inside);
        }
    }
}

fn refused(before: &[String], set: &[&str], code: i32, parts: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = replay(before, "trio-ml", &folder.path().join("out"), set);
    assert_eq!(output.status.code(), Some(code), "{set:?}: {}", said(&output));
    for part in parts {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
}

/// An MTU of 1500 is refused with what would be needed, by the run and by `pktgen doctor`.
fn too_small(before: &[String]) {
    let packet = ["transport.kind=af_packet", TWO];
    refused(before, &packet, 3, &["interface w0, which takes 1514", "workload.elements", "ip link set w0 mtu 4136"]);
    refused(before, &["transport.kind=af_xdp", TWO, "workload.elements=896"], 3, &["ip link set w0 mtu 3624"]);
    let output = pktgen(before, &["doctor", &config("trio-ml")], &packet).output().expect("it runs");
    let text = said(&output);
    assert!(!output.status.success() && text.contains("ip link set d0 mtu 4136; or lower workload.elements"), "{text}");
}

fn one_end_is_too_small(before: &[String]) {
    refused(before, &["transport.kind=af_packet", TWO], 3, &["interface d0, which takes 1514"]);
}

/// Two names, or four of which the upper two are empty.
fn interfaces(before: &[String]) {
    let packet = "transport.kind=af_packet";
    let names = |names: &str| format!("transport.interfaces=[{names}]");
    runs(before, "switchml", &[packet, &names("\"w0\",\"d0\",\"\",\"\"")]);
    refused(before, &[packet], 2, &["that of workers is needed", "give two"]);
    refused(before, &[packet, &names("\"w0\"")], 2, &["that of device.down is needed", "give two"]);
    refused(before, &[packet, &names("\"w0\",\"d0\",\"d1\",\"s0\"")], 2, &["nothing is sent on \"d1\"", "no server"]);
    refused(before, &["transport.kind=af_xdp", TWO], 2, &["which carries 3840", "workload.elements"]);
}

/// One of four workers sleeps at the beginning of every iteration, longer than the device waits: the others get what
/// they sum up to, one timeout after they sent or later; in virtual time it is not later than two (`replay/realtime/tests/realtime/trio.rs`).
#[test]
fn a_straggler_is_left_out_and_those_who_contributed_are_summed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let set = [
        "transport.kind=ring",
        "workload.stragglers=fixed",
        "workload.straggler_probability=1.0",
        "workload.straggler_delay=[1.0,1.0]",
        "workload.delay_points=1",
        "workload.typical=400ms",
        "workload.iterations=2",
        "workload.scale=0.002",
        "target.timeout=60ms",
        "report.metrics=[\"recovery_time_min\",\"recovery_time_max\",\"results_degraded\",\"sources_mean\"]",
    ];
    // A host that pauses may take the straggler's contributions before those that wait are too old.
    let found = undisturbed("a straggler that is left out", |i| {
        let out = folder.path().join(i.to_string());
        let words = ["-q", "replay", &config("trio-ml"), "--out", &out.display().to_string()];
        let output = pktgen(&[], &words, &set).output().expect("it runs");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
        let manifest = manifest(&out);
        assert_eq!(number(&manifest["counters"]["sums_wrong"]), 0, "{}", manifest["counters"]);
        let all = manifest["counters"]["device"]["degraded"] == manifest["counters"]["sums_ok"];
        (is_whole(&manifest) && all).then_some((out, manifest))
    });
    let Some((out, manifest)) = found else { return };
    let (balance, counters) = (&manifest["balance"], &manifest["counters"]);
    let blocks = number(&manifest["training"]["blocks"]) * 2;
    assert_eq!(manifest["validity"]["valid"], true, "{}", manifest["validity"]);
    // The results of an iteration are there when the straggler wakes up, so it sends nothing of it.
    assert_eq!((number(&counters["sums_ok"]), number(&counters["sums_wrong"])), (blocks, 0), "{counters}");
    assert_eq!(counters["device"]["degraded"], counters["sums_ok"], "{counters}");
    assert_eq!(number(&balance["delivered_merged"]), (WORKERS - 1) * blocks, "{balance}");
    assert_eq!((number(&balance["unknown"]), number(&balance["in_flight"])), (0, 0), "{balance}");
    assert_eq!(number(&counters["replies"]), WORKERS * blocks, "the straggler hears them, too");
    let times = recovery_ms(&out);
    assert!(times.0 > 60.0 && times.1 >= times.0, "{times:?}");
}

/// What is lost on the way is left out by Trio-ML's timers, and sent again by SwitchML's workers; and nobody ends while
/// others compute, however short `linger` is.
#[test]
fn losses_and_long_computations_end_no_run_early() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |name: &str, set: &[&str]| {
        undisturbed(&format!("{name}, {set:?}"), |i| {
            let out = folder.path().join(format!("{name}-{}-{i}", set.len()));
            let output = replay(&[], name, &out, set);
            assert!(matches!(output.status.code(), Some(0 | 1)), "{name}, {set:?}: {}", said(&output));
            let manifest = manifest(&out);
            is_whole(&manifest).then_some(manifest)
        })
    };
    let set = ["transport.fault_loss=0.002", "transport.fault_at=up", "target.timeout=20ms"];
    let Some(lossy) = run("trio-ml", &set) else { return };
    let (balance, counters) = (&lossy["balance"], &lossy["counters"]);
    let (lost, sent) = (number(&balance["dropped"]["fault"]), number(&balance["sent"]));
    assert!(lost > 0 && number(&counters["device"]["degraded"]) > 0, "{counters}");
    assert_eq!(number(&balance["delivered_merged"]) + number(&balance["delivered_alone"]) + lost, sent, "{balance}");
    assert_eq!((number(&balance["in_flight"]), number(&counters["sums_wrong"])), (0, 0));
    assert!(number(&counters["sums_ok"]) >= blocks(&lossy), "{counters}");
    let set = ["transport.fault_loss=0.001", "endpoint.retransmit=20ms"];
    let Some(again) = run("switchml", &set) else { return };
    assert!(number(&again["balance"]["retransmitted"]) > 0, "{}", again["balance"]);
    assert_eq!(number(&again["counters"]["sums_ok"]), blocks(&again), "{}", again["counters"]);
    let slow = ["workload.compute=300ms", "workload.iterations=2", "transport.linger=50ms", "workload.scale=0.002"];
    let Some(slow) = run("trio-ml", &slow) else { return };
    assert_eq!(slow["balance"]["sent"], slow["balance"]["generated"]);
    assert_eq!(number(&slow["counters"]["replies"]), WORKERS * 2 * number(&slow["training"]["blocks"]));
}

/// Returns the shortest and longest recovery in ms, from the report.
fn recovery_ms(dir: &Path) -> (f64, f64) {
    let report: Value =
        serde_json::from_slice(&std::fs::read(dir.join("report.json")).expect("a report")).expect("JSON");
    let of = |column: usize| {
        let cell = &report["rows"][0]["cells"][column]["ours"]["median"];
        cell.as_f64().unwrap_or_else(|| panic!("column {column} in {report}")) / 1e6
    };
    (of(0), of(1))
}

#[test]
fn workers_and_device_in_processes_of_their_own_are_a_whole_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |what: &str, spaces: &[Vec<String>], name: &str, set: &[&str]| {
        let found = undisturbed(&format!("training in parts, {what}"), |i| {
            let dir = in_parts(&folder.path().join(format!("{what}-{i}")), spaces, &[&config(name)], set)?;
            let manifest = manifest(&dir);
            let degraded = manifest["counters"]["device"]["degraded"].as_u64().unwrap_or(0);
            (degraded == 0).then_some((dir, manifest))
        });
        let Some((dir, manifest)) = found else { return };
        is_complete(what, &manifest);
        assert_eq!(manifest.get("part"), None, "a whole run");
        for file in ["iterations.parquet", "results.parquet", "received.parquet", "lateness.hlog"] {
            assert!(dir.join(file).exists(), "{what}: {file}");
        }
        let output = pktgen(&[], &["-q", "report", &dir.display().to_string()], &[]).output().expect("it runs");
        assert!(output.status.success(), "{what}: {}", said(&output));
    };
    run("udp", &[vec![], vec![]], "trio-ml", &["transport.kind=udp", &addresses(2)]);
    refused_parts(folder.path());
    match Net::make("roundparts", &["w", "d"], &[(("w", "w0"), ("d", "d0"))]) {
        Err(why) => skip(Need::Netns, "af_packet and af_xdp between namespaces", why),
        Ok(net) => {
            net.set_mtu("w", "w0", MTU);
            net.set_mtu("d", "d0", MTU);
            let spaces = ["w", "d"].map(|space| net.inside(space));
            run("af_packet", &spaces, "trio-ml", &["transport.kind=af_packet", TWO]);
            run("af_xdp", &spaces, "switchml", &["transport.kind=af_xdp", TWO]);
        }
    }
}

/// There is no server part; workers without a device end and report it.
fn refused_parts(folder: &Path) {
    let at = |name: &str| folder.join(name).display().to_string();
    let trio = config("trio-ml");
    let refused = |words: &[&str], set: &[&str], code: i32, part: &str| {
        let output = pktgen(&[], words, set).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    };
    let (addresses, udp) = (addresses(2), "transport.kind=udp");
    refused(&["capture", &trio, "--out", &at("server")], &[udp, &addresses], 2, "its parts are workers and device");
    refused(&["target", &trio, "--out", &at("no-address")], &[udp], 2, "need two");
    refused(
        &["merge", &at("udp-0/workers"), "-o", &at("m1")],
        &[],
        2,
        "the device part is missing; give the run dirs of both",
    );
    refused(&["merge", &at("udp-0/device"), "-o", &at("m2")], &[], 2, "the workers part is missing");
    let words = ["replay", &trio, "--role", "workers", "--out", &at("alone")];
    refused(&words, &[udp, &addresses], 1, "4 workers wait for results that do not come");
}
