//! Sparse training on wires: workers that wait for results of a switch and of a server, over the transports of this host,
//! in one process and in parts. Interfaces are veth pairs in network namespaces that the test makes and removes; where it
//! may not, it says SKIPPED and why.

use std::path::{Path, PathBuf};

use crate::support::netns::Net;
use crate::support::wired;
use crate::support::wired::{config, in_parts, manifest, number, pktgen, replay, said, serving};
use pktgen_testing::{Need, skip, undisturbed};
use serde_json::Value;

const WORKERS: u64 = 4;
const ITERATIONS: u64 = 10;
const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";
const ASYNC: &str = "endpoint.mode=async";

/// A counter of the device or, as `server.NAME`, of the server.
fn counter(manifest: &Value, name: &str) -> u64 {
    number(&manifest["counters"]["device"][name])
}

/// Checks that every push was summed once, by the switch or the server, every sum was right, and all workers have finished.
fn is_exact(what: &str, manifest: &Value) {
    assert_eq!(manifest["validity"]["valid"], true, "{what}: {}", manifest["validity"]);
    let (balance, counters) = (&manifest["balance"], &manifest["counters"]);
    let of = |name: &str| balance[name].as_u64().unwrap_or(0);
    let dropped: u64 = balance["dropped"].as_object().map_or(0, |map| map.values().map(number).sum());
    assert_eq!(of("generated") + of("retransmitted"), of("sent"), "{what}: {balance}");
    assert_eq!(of("delivered_alone") + of("delivered_merged") + dropped, of("sent"), "{what}: {balance}");
    assert_eq!((of("unknown"), of("in_flight")), (0, 0), "{what}: {balance}");
    assert_eq!((number(&counters["sums_wrong"]), number(&counters["foreign"])), (0, 0), "{what}");
    assert_eq!(counters["sums_ok"], counters["packets_received"], "{what}");
    let settings = manifest["config"].as_str().expect("a configuration");
    if settings.contains("workers = \"libra\"") {
        assert_eq!((counter(manifest, "counted_twice"), counter(manifest, "never_counted")), (0, 0), "{what}");
        assert!(of("delivered_merged") > 3000, "{what}: {balance}");
        // Every iteration has a sum; where nobody waits for others there is one, at the end.
        let sums = if settings.contains("mode = \"async\"") { 1 } else { ITERATIONS };
        assert_eq!((counter(manifest, "sums"), counter(manifest, "ends")), (sums, WORKERS * sums), "{what}");
        // Packets that the switch did not sum were accepted once by the server; and every result is delivered once.
        let cold = of("generated") - of("delivered_merged");
        assert_eq!(number(&counters["accepted"]), counter(manifest, "results") + cold, "{what}: {counters}");
    } else {
        assert_eq!(number(&counters["accepted"]), of("generated"), "{what}: {counters}");
    }
}

/// Why a run may be made again: the machine stopped for so long that a ring or a socket was full, or that a packet was sent 15
/// times without an ACK.
const STOPPED: [&str; 2] = ["lost frames outside the device", "the workers stopped early"];

/// Repeats the run until the machine does not pause. In every run the sums are right, no packet is in two of them or in
/// none, and the books account for every packet.
fn runs(before: &[String], set: &[&str]) -> Option<Value> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let what = format!("{set:?}");
    undisturbed("sparse training on wires", |i| {
        let out = folder.path().join(i.to_string());
        let output = replay(before, "libra", &out, set);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{what}: {}", said(&output));
        let manifest = manifest(&out);
        let (balance, counters) = (&manifest["balance"], &manifest["counters"]);
        assert_eq!(number(&counters["sums_wrong"]), 0, "{what}");
        assert_eq!(balance.get("unknown").map_or(0, number), 0, "{what}: {balance}");
        for name in ["counted_twice", "never_counted"] {
            assert_eq!(counters["device"].get(name).map_or(0, number), 0, "{what}: {name}");
        }
        let reasons = manifest["validity"].to_string();
        (output.status.success() || !STOPPED.iter().any(|why| reasons.contains(why))).then(|| {
            is_exact(&what, &manifest);
            manifest
        })
    })
}

#[test]
fn every_sum_is_right_over_every_transport() {
    runs(&[], &[]);
    runs(&[], &[ASYNC]);
    if let Some(baseline) = runs(&[], &["endpoint.workers=ps_lite", "target.program=forward"]) {
        assert_eq!(baseline["balance"].get("delivered_merged").map_or(0, number), 0);
    }
    refused(&[], &["transport.kind=udp"], 2, &["nothing in the packets of these workers says which one", "af_packet"]);
    match Net::make("sparse", &["all"], &[(("all", "w0"), ("all", "d0")), (("all", "d1"), ("all", "s0"))]) {
        Err(why) => skip(Need::Netns, "af_packet, af_xdp and xdp_live on veth pairs", why),
        Ok(net) => {
            let inside = net.inside("all");
            for kind in ["af_packet", "af_xdp", "xdp_live"] {
                let kind = format!("transport.kind={kind}");
                runs(&inside, &[&kind, FOUR]);
                runs(&inside, &[&kind, FOUR, ASYNC]);
            }
            let large = "endpoint.cold_bytes=4000";
            let packet = "transport.kind=af_packet";
            refused(&inside, &[packet, FOUR, large], 3, &["which takes 1514", "lower endpoint.cold_bytes"]);
            refused(
                &inside,
                &["transport.kind=af_xdp", FOUR, large],
                2,
                &["which carries 3840; lower endpoint.cold_bytes"],
            );
        }
    }
}

fn refused(before: &[String], set: &[&str], code: i32, parts: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = replay(before, "libra", &folder.path().join("out"), set);
    assert_eq!(output.status.code(), Some(code), "{set:?}: {}", said(&output));
    for part in parts {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
}

/// Whatever a network loses, copies or delays, every update is in one sum: what is not acknowledged is sent again, and what
/// was summed is known.
#[test]
fn what_is_lost_copied_or_overtaken_is_summed_once() {
    for mode in ["endpoint.mode=sync", ASYNC] {
        let faulty =
            |set: &[&str]| runs(&[], &[&[mode, "endpoint.timeout=5ms", "target.result_timeout=5ms"], set].concat());
        let Some(lossy) = faulty(&["transport.fault_loss=0.02"]) else { return };
        assert!(number(&lossy["balance"]["dropped"]["fault"]) > 0 && number(&lossy["balance"]["retransmitted"]) > 0);
        assert!(counter(&lossy, "server.duplicates") + counter(&lossy, "duplicates") > 0, "ACKs were lost, too");
        let Some(copied) = faulty(&["transport.fault_duplicate=0.05"]) else { return };
        assert!(counter(&copied, "copies") > 0, "{mode}: {}", copied["counters"]);
        faulty(&["transport.fault_loss=0.02", "transport.fault_duplicate=0.02", "transport.fault_reorder=0.05"]);
    }
}

/// Checks that workers and device are not joined without the server, which has sums of its own.
fn needs_the_server(folder: &Path) {
    let [device, workers, two] = ["device", "workers", "two"].map(|name| folder.join(name).display().to_string());
    let output = pktgen(&[], &["merge", &device, &workers, "-o", &two], &[]).output().expect("it runs");
    assert!(!output.status.success() && said(&output).contains("the server part is missing"), "{}", said(&output));
}

/// The same parts as if each had been on a host of its own, with a clock that is some time ahead of the workers'.
fn of_several_hosts(folder: &Path) -> PathBuf {
    let dirs = ["workers", "device", "server", "apart"].map(|name| folder.join(name));
    for (dir, ahead_ms) in [(&dirs[1], 30i64), (&dirs[2], -40)] {
        let mut manifest = manifest(dir);
        manifest["host"]["clock.boot_id"] = dir.display().to_string().into();
        let anchor = manifest["anchor_unix_ns"].as_i64().expect("a time") + ahead_ms * 1_000_000;
        manifest["anchor_unix_ns"] = anchor.into();
        let manifest = pktgen_core::record::digest::seal(&manifest.to_string());
        std::fs::write(dir.join("manifest.json"), manifest).expect("writable");
    }
    let texts = dirs.each_ref().map(|dir| dir.display().to_string());
    let words = ["-q", "merge", &texts[0], &texts[1], &texts[2], "-o", &texts[3]];
    let output = pktgen(&[], &words, &[]).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    dirs[3].clone()
}

#[test]
fn workers_device_and_server_in_processes_of_their_own_are_a_whole_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cables = [(("w", "w0"), ("d", "d0")), (("d", "d1"), ("s", "s0"))];
    match Net::make("sparseparts", &["w", "d", "s"], &cables) {
        Err(why) => skip(Need::Netns, "af_packet and af_xdp between namespaces", why),
        Ok(net) => {
            let spaces = ["w", "d", "s"].map(|space| net.inside(space));
            for set in [["transport.kind=af_packet", FOUR, "capture.pcap=true"], ["transport.kind=af_xdp", FOUR, ASYNC]]
            {
                let dir = undisturbed(&format!("sparse training in parts, {set:?}"), |i| {
                    in_parts(&folder.path().join(format!("{}-{i}", set[0])), &spaces, &[&config("libra")], &set)
                });
                let Some(dir) = dir else { continue };
                let parts = dir.parent().expect("its folder");
                needs_the_server(parts);
                let manifest = manifest(&dir);
                is_exact(set[0], &manifest);
                assert_eq!(manifest.get("part"), None, "a whole run");
                let apart = wired::manifest(&of_several_hosts(parts));
                is_exact("clocks that differ", &apart);
                assert_eq!(apart["balance"], manifest["balance"]);
                // The parts of a sum reached workers, what is cold the server: both are in the records.
                let balance = &manifest["balance"];
                assert!(
                    number(&balance["delivered_alone"]) > 0 && number(&balance["delivered_merged"]) > 0,
                    "{balance}"
                );
                for file in ["iterations.parquet", "received.parquet", "lateness.hlog"] {
                    assert!(dir.join(file).exists(), "{set:?}: {file}");
                }
                assert_eq!(dir.join("capture.pcapng").exists(), set[2].starts_with("capture"), "what the server saw");
                let output = pktgen(&[], &["-q", "report", &dir.display().to_string()], &[]).output().expect("it runs");
                assert!(output.status.success(), "{set:?}: {}", said(&output));
            }
        }
    }
}

/// Runs the switch in a separate process, unknown to workers and server; returns the manifest of their run.
fn black_box(net: &Net, folder: &Path, device: &[&str], workers: &[&str]) -> Value {
    let wire = ["transport.kind=af_packet", FOUR];
    let set = [&wire, device].concat();
    let device = serving(&net.inside("d"), "target", &[&config("libra")], &folder.join("device"), &set);
    let external = ["target.kind=external", "target.profile=generic", "target.probe_timeout=60s"];
    let out = folder.join("out");
    let output = replay(&net.inside("h"), "libra", &out, &[&wire[..], &external, workers].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{workers:?}: {}", said(&output));
    device.end();
    manifest(&out)
}

#[test]
fn hot_sums_of_a_device_without_books_are_checked_by_key() {
    let net = match Net::make("sparsebox", &["h", "d"], &[(("h", "w0"), ("d", "d0")), (("d", "d1"), ("h", "s0"))]) {
        Err(why) => return skip(Need::Netns, "af_packet between namespaces", why),
        Ok(net) => net,
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let own = |name: &str| {
        let own = folder.path().join(name);
        std::fs::create_dir(&own).expect("a folder");
        own
    };
    let checked = |manifest: &Value| number(&manifest["unseen"]["checked_by_key"]);
    let notes = |manifest: &Value| manifest["validity"]["notes"].to_string();
    let wrong = |manifest: &Value| number(&manifest["counters"]["sums_wrong"]);
    let right = undisturbed("a switch without books", |i| {
        let manifest = black_box(&net, &own(&format!("right-{i}")), &[], &[]);
        assert_eq!(wrong(&manifest), 0, "{manifest}");
        (manifest["validity"]["valid"] == true).then_some(manifest)
    });
    let Some(right) = right else { return };
    assert!(checked(&right) > 1000 && notes(&right).contains("keys_checked"), "{right}");
    assert!(right["counters"]["device"].get("counted_twice").is_none(), "no books say it: {}", right["counters"]);
    // Iterations without a hot pair have sums without an opener, of which nothing was added.
    let few = ["workload.pairs=1", "workload.dense=0", "workload.hot_share=0.35", "workload.iterations=40"];
    let few = undisturbed("iterations without hot pairs", |i| {
        let manifest = black_box(&net, &own(&format!("few-{i}")), &few, &few);
        assert_eq!((wrong(&manifest), manifest["strangers"].as_u64().unwrap_or(0)), (0, 0), "{manifest}");
        (manifest["validity"]["valid"] == true).then_some(manifest)
    });
    let Some(few) = few else { return };
    assert!((1..40).contains(&checked(&few)), "some iterations have no hot pair: {few}");
    // Additions by tables are no additions of f32s.
    let off = black_box(&net, &own("off"), &["target.add=tables"], &["target.add=exact"]);
    assert!(wrong(&off) > 100 && counter(&off, "hot_sums_off") == wrong(&off), "{off}");
    assert!(off["validity"]["faults"].to_string().contains("wrong_sums"), "{}", off["validity"]);
    // A pull returns the current values.
    let open = black_box(&net, &own("async"), &[ASYNC], &[ASYNC]);
    assert!(notes(&open).contains("keys_not_checked") && wrong(&open) == 0, "{}", open["validity"]);
}
