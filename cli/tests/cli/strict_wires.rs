//! Strict layouts on wires: nothing of ours in any frame, and the account closes all the same. Packet sockets run on veth
//! pairs in network namespaces that the test makes and removes; where it may not, it says SKIPPED and why.

use std::path::Path;

use crate::support::netns::Net;
use crate::support::wired::{config, datagrams, in_parts, is_whole, manifest, number, pktgen, replay, said, trained};
use pktgen_olaf::strict::{Ack, PORT, UPDATE_HEAD, Update};
use pktgen_switchml::format as switchml;
use pktgen_testing::{Need, skip, undisturbed};
use pktgen_wire::wire::frame::{SERVER_IP, group_of, worker_of};
use serde_json::Value;

const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";
const TWO: &str = "transport.interfaces=[\"w0\",\"d0\"]";
const STRICT: &str = "transport.on_wire=strict";
const OLAF: &str = "Olaf,rate=40Mbps,seed=1";
const FORWARD: &str = "FIFO,rate=40Mbps,seed=1";
/// Gradients of an update of 256 bytes with our header, and what its strict frame has.
const GRADIENTS: u16 = 46;
/// The minimum number of packets. A host that pauses causes bursts, in which more updates are merged: a third of the
/// usual number may arrive.
const PACKETS_MIN: u64 = 100;
const FRAME: usize = 42 + UPDATE_HEAD + 46 * 4;

fn olaf() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/olaf/table1-wires.toml").display().to_string()
}

/// Checks that every update has its fate, and that every received packet contains the sum of its members.
fn is_settled(what: &str, manifest: &Value) {
    let (balance, counters) = (&manifest["balance"], &manifest["counters"]);
    assert_eq!(manifest["validity"]["valid"], true, "{what}: {}", manifest["validity"]);
    assert_eq!((number(&balance["unknown"]), number(&balance["in_flight"])), (0, 0), "{what}: {balance}");
    assert!(
        number(&balance["delivered_merged"]) + number(&balance["delivered_alone"]) > PACKETS_MIN,
        "{what}: {balance}"
    );
    assert!(number(&counters["sums_ok"]) > PACKETS_MIN, "{what}: {counters}");
    assert_eq!(counters["sums_ok"], counters["packets_received"], "{what}: {counters}");
    assert_eq!((number(&counters["sums_wrong"]), number(&counters["foreign"])), (0, 0), "{what}: {counters}");
    let notes = manifest["validity"]["notes"].as_array().expect("notes");
    assert!(notes.iter().any(|note| note["code"] == "headless"), "{what}: {notes:?}");
}

/// Checks that there are only strict updates and ACKs; returns the updates' payloads.
fn strict_updates(file: &Path) -> Vec<Vec<u8>> {
    let mut updates = Vec::new();
    let all = datagrams(file, |datagram, len| {
        if datagram.dst == SERVER_IP {
            let update = Update::parse(datagram.payload).expect("an update");
            assert_eq!((datagram.dst_port, update.elements, len), (PORT, GRADIENTS, FRAME));
            assert!(worker_of(datagram.src, 27).is_some(), "{:#x}", datagram.src);
            updates.push(datagram.payload.to_vec());
        } else {
            assert!(group_of(datagram.dst).is_some() || worker_of(datagram.dst, 27).is_some());
            assert_eq!(Ack::parse(datagram.payload).map(|ack| ack.elements), Some(GRADIENTS));
        }
    });
    assert!(
        updates.len() as u64 > PACKETS_MIN && all >= updates.len(),
        "{}: {} of {all}",
        file.display(),
        updates.len()
    );
    updates
}

/// Effects of a busy machine, a cut run or frames lost by the kernel, lead to a repetition; a wrong sum never does.
fn runs(before: &[String], run: &str, set: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    undisturbed("strict updates on wires", |i| {
        let out = folder.path().join(i.to_string());
        let text = out.display().to_string();
        let words = ["-q", "replay", &olaf(), "--no-report", "--run", run, "--out", &text];
        let more = [STRICT, "capture.pcap=true", "transport.tap=tap.pcapng"];
        let output = pktgen(before, &words, &[set, &more].concat()).output().expect("it runs");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{set:?}: {}", said(&output));
        let manifest = manifest(&out);
        assert_eq!(number(&manifest["counters"]["sums_wrong"]), 0, "{set:?}");
        if !is_whole(&manifest) {
            return None;
        }
        is_settled(&format!("{set:?}"), &manifest);
        // The server's capture equals the frames of its cable, byte for byte, and those that the device sent.
        let captured = strict_updates(&out.join("capture.pcapng"));
        assert_eq!(captured.len() as u64, number(&manifest["counters"]["packets_received"]));
        assert_eq!(captured, strict_updates(&out.join("tap-server.pcapng")));
        assert_eq!(captured, strict_updates(&out.join("tap-device-up.pcapng")));
        assert_eq!(strict_updates(&out.join("tap-workers.pcapng")).len() as u64, number(&manifest["balance"]["sent"]));
        Some(())
    });
}

#[test]
fn updates_without_our_header_are_accounted_for() {
    runs(&[], OLAF, &["transport.kind=ring"]);
    runs(&[], FORWARD, &["transport.kind=ring", "format.udp_checksum=true"]);
    let cables = [(("all", "w0"), ("all", "d0")), (("all", "d1"), ("all", "s0"))];
    match Net::make("strict", &["all"], &cables) {
        Err(why) => skip(Need::Netns, "af_packet and af_xdp on veth pairs", why),
        Ok(net) => {
            let inside = net.inside("all");
            for kind in ["af_packet", "af_xdp"] {
                runs(&inside, OLAF, &[&format!("transport.kind={kind}"), FOUR]);
            }
        }
    }
}

#[test]
fn a_device_in_a_process_of_its_own_needs_no_header_of_ours() {
    let cables = [(("w", "w0"), ("d", "d0")), (("d", "d1"), ("s", "s0"))];
    let net = match Net::make("strictparts", &["w", "d", "s"], &cables) {
        Err(why) => return skip(Need::Netns, "af_packet between namespaces", why),
        Ok(net) => net,
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let spaces = ["w", "d", "s"].map(|space| net.inside(space));
    let set = ["transport.kind=af_packet", FOUR, STRICT, "capture.pcap=true"];
    undisturbed("strict updates in parts", |i| {
        let own = folder.path().join(i.to_string());
        let whole = in_parts(&own, &spaces, &[&olaf(), "--run", OLAF], &set)?;
        is_settled("parts", &manifest(&whole));
        strict_updates(&own.join("server/capture.pcapng"));
        Some(())
    });
}

/// Numbers and exponents on the wire are those of the public client.
fn are_the_clients(out: &Path, packets: u64) {
    let mut jobs = Vec::new();
    let seen = datagrams(&out.join("tap-device-down.pcapng"), |datagram, _| {
        let header = switchml::Header::parse(datagram.payload).expect("a packet");
        assert_eq!(header.attempt, 0, "the client never writes the second exponent");
        assert!(u64::from(header.packet) < packets, "{header:?}");
        jobs.push(header.job);
    });
    jobs.sort_unstable();
    jobs.dedup();
    // Contributions of four workers; and one result for all of them.
    assert_eq!((jobs, seen as u64), ((0..5).collect(), packets * 5 * 5));
}

#[test]
fn synchronous_training_is_as_the_public_code_has_it() {
    trained(&[], &["transport.kind=ring", STRICT], are_the_clients);
    let folder = tempfile::tempdir().expect("a temporary folder");
    undisturbed("Trio-ML over sockets", |i| {
        let out = folder.path().join(i.to_string());
        let output = replay(&[], "trio-ml", &out, &[STRICT, "transport.kind=udp", "workload.scale=0.002"]);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "its own layout is strict, and names its workers: {}", said(&output));
        is_whole(&manifest(&out)).then_some(())
    });
    match Net::make("strictrounds", &["all"], &[(("all", "w0"), ("all", "d0"))]) {
        Err(why) => skip(Need::Netns, "af_packet on a veth pair", why),
        Ok(net) => trained(&net.inside("all"), &["transport.kind=af_packet", TWO, STRICT], are_the_clients),
    }
}

#[test]
fn what_strict_layouts_cannot_carry_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let libra = config("libra");
    let ring = "transport.kind=ring";
    let olaf = olaf();
    let cases = [
        (&olaf, &["transport.kind=virtual", STRICT][..], "middleware \"on_wire\" needs wires"),
        (&olaf, &["transport.kind=udp", STRICT], "only the payload travels"),
        (&olaf, &[ring, STRICT, "endpoint.workers=retransmit"], "each must be sent once"),
        (&olaf, &[ring, "transport.on_wire=bare"], "\"bare\" is no way to write frames"),
        (&libra, &[ring, STRICT], "no layout is published for libra"),
    ];
    for (i, (file, set, part)) in cases.into_iter().enumerate() {
        let out = folder.path().join(i.to_string()).display().to_string();
        let mut words = vec!["-q", "replay", file, "--no-report", "--out", &out];
        if *file == olaf {
            words.extend(["--run", OLAF]);
        }
        let output = pktgen(&[], &words, set).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{set:?}: {}", said(&output));
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
}
