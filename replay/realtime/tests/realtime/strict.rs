//! Strict layouts over rings: no frame has a header of ours, and the balance still closes, because received frames are
//! identified by their contents (docs/strict.md). On packet sockets: `cli/tests/cli/strict_wires.rs`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use pktgen_core::config::Document;
use pktgen_core::record::{Manifest, Note};
use pktgen_olaf::strict::{Ack, UPDATE_HEAD, Update};
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_switchml::format as switchml;
use pktgen_switchml::roce::{self as roce, session};
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, source_ip, target_ip, worker_of};
use pktgen_workload::dense::tensor::lead;

fn run(text: &str, dir: &Path) -> Result<Manifest, String> {
    let experiment = Experiment::open(all(), Document::parse(text, "test").unwrap()).unwrap();
    experiment.execute(dir, 1, &AtomicBool::new(false), &|_, _| {}).map_err(|e| e.to_string())?;
    Ok(serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap())
}

/// Returns an experiment that sends for a fifth of a second at three times the output's rate.
fn olaf(target: &str, more: &str) -> String {
    format!(
        "name = \"strict\"\n[workload]\nupdates = 200\n[schedule]\njitter = 0.3\noffered = \"60Mbps\"\n\
         [topology]\nrate = \"30Mbps\"\n[target]\n{target}\n\
         [transport]\nkind = \"ring\"\nlinger = \"1s\"\non_wire = \"strict\"\ntap = \"tap.pcapng\"\n{more}\n\
         [capture]\npcap = true\n"
    )
}

fn frames(file: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(file).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next().unwrap() {
        assert_eq!(packet.len as usize, packet.bytes.len());
        frames.push(packet.bytes.to_vec());
    }
    frames
}

/// Returns the updates in a file of frames, all of them strict.
fn updates(file: &Path) -> Vec<Vec<u8>> {
    let is_update = |frame: &Vec<u8>| {
        let payload = &frame[HEAD..];
        if target_ip(frame) != SERVER_IP {
            assert_eq!(Ack::parse(payload).map(|ack| ack.elements), Some(46), "{payload:02x?}");
            return false;
        }
        assert_eq!(Update::parse(payload).map(|update| update.elements), Some(46), "{payload:02x?}");
        assert_eq!(frame.len(), HEAD + UPDATE_HEAD + 46 * 4);
        assert!(worker_of(source_ip(frame), 27).is_some());
        true
    };
    frames(file).into_iter().filter(is_update).collect()
}

#[test]
fn updates_are_known_by_what_they_hold() {
    let olaf_queue = "program = \"olaf\"\nqueue = \"olaf\"\nslots = 8\nreward_threshold = 1.5";
    let fifo = "program = \"forward\"\nqueue = \"fifo\"\nslots = 8";
    for target in [olaf_queue, fifo] {
        let folder = tempfile::tempdir().unwrap();
        let manifest = run(&olaf(target, ""), folder.path()).unwrap();
        let (balance, counters) = (&manifest.balance, &manifest.counters);
        assert!(manifest.validity.is_valid(), "{:?}", manifest.validity);
        assert!(manifest.validity.notes.contains(&Note::Headless {}));
        assert_eq!((balance.sent, balance.in_flight, balance.unknown), (27 * 200, 0, 0), "{balance:?}");
        assert!(counters.packets_received > 0 && counters.sums_ok == counters.packets_received, "{counters:?}");
        assert_eq!((counters.sums_wrong, counters.foreign), (0, 0));
        assert_eq!(balance.delivered_merged > 0, target == olaf_queue, "{balance:?}");
        let of = |name: &str| updates(&folder.path().join(name));
        let captured = of("capture.pcapng");
        assert_eq!(captured.len() as u64, counters.packets_received);
        assert!(captured == of("tap-server.pcapng") && captured == of("tap-device-up.pcapng"));
        assert_eq!(of("tap-workers.pcapng").len() as u64, balance.sent);
    }
}

/// A change that a fault makes in a strict frame is noticed: its sum belongs to nobody.
#[test]
fn a_damaged_payload_is_nobodys() {
    let folder = tempfile::tempdir().unwrap();
    let target = "program = \"forward\"\nqueue = \"fifo\"\nslots = 8";
    let manifest = run(&olaf(target, "fault_corrupt = 0.05\nfault_at = \"up\""), folder.path()).unwrap();
    let counters = &manifest.counters;
    assert!(counters.sums_ok > 0 && counters.sums_ok < counters.packets_received, "{counters:?}");
    assert!(!manifest.validity.is_valid() && manifest.balance.in_flight > 0, "{:?}", manifest.balance);
}

/// Returns an experiment of training over SwitchML, three iterations of four workers.
fn switchml(transport: &str) -> String {
    format!(
        "name = \"strict\"\n[workload]\nkind = \"dense\"\nmodel = \"resnet50\"\nscale = 0.002\nworkers = 4\n\
         iterations = 3\nelements = 256\n[topology]\nkind = \"rack\"\n[endpoint]\nworkers = \"switchml\"\npool = 64\n{transport}"
    )
}

const RING: &str = "[transport]\nkind = \"ring\"\nlinger = \"1s\"\ntap = \"tap.pcapng\"\n";

/// Asserts that every sum is right; returns the packets of an iteration.
fn packets_of(manifest: &Manifest) -> u64 {
    assert!(manifest.validity.is_valid(), "{:?}", manifest.validity);
    let training = manifest.training.as_ref().unwrap();
    let packets = u64::from(training.blocks + lead(training.window, training.blocks));
    assert_eq!((manifest.counters.sums_ok, manifest.counters.sums_wrong), (packets * 3, 0));
    assert_eq!((manifest.counters.foreign, manifest.balance.in_flight), (0, 0));
    packets
}

#[test]
fn packets_of_switchml_are_those_of_its_public_client() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = run(&switchml(&format!("{RING}on_wire = \"strict\"\n")), folder.path()).unwrap();
    let packets = packets_of(&manifest);
    let (mut jobs, mut highest) = (Vec::new(), 0);
    for frame in frames(&folder.path().join("tap-workers.pcapng")) {
        let header = switchml::Header::parse(&frame[HEAD..]).unwrap();
        assert_eq!(header.attempt, 0, "the client never writes the second exponent");
        jobs.push(header.job);
        highest = highest.max(header.packet);
    }
    jobs.dedup();
    assert_eq!((u64::from(highest), jobs.first(), jobs.last()), (packets - 1, Some(&0), Some(&2)));
}

/// A run over RoCEv2 gives the results of one in virtual time, and both ends number packets as cards and the switch do.
#[test]
fn packets_of_switchml_over_roce_are_rdma_writes() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = run(&switchml(&format!("{RING}on_wire = \"roce\"\n")), &folder.path().join("roce")).unwrap();
    let packets = packets_of(&manifest);
    let virtual_time = run(&switchml(""), &folder.path().join("virtual")).unwrap();
    assert_eq!(packets_of(&virtual_time), packets);
    assert_eq!((manifest.balance.sent, manifest.counters.packets_received), (packets * 12, packets * 3));
    assert_eq!(virtual_time.balance, manifest.balance);
    // The next number of each queue pair, by its direction.
    let (mut next, mut seen): (HashMap<(bool, u32), u32>, [u64; 2]) = Default::default();
    for frame in frames(&folder.path().join("roce/tap-device-down.pcapng")) {
        let payload = &frame[HEAD..];
        let header = roce::Header::parse(payload).unwrap();
        assert_eq!((header.part, header.elements, frame.len()), (roce::Part::OnlyImmediate, 256, 1102));
        assert_eq!(roce::icrc(&frame), frame.last_chunk().copied());
        assert!(u64::from(header.immediate.message) < packets && header.immediate.exponents[1] == 0, "{header:?}");
        let back = source_ip(&frame) == SERVER_IP;
        let worker = worker_of(if back { target_ip(&frame) } else { source_ip(&frame) }, 4).unwrap() as u8;
        let slot = header.pair as u16;
        let own = session::card_pair(worker, slot);
        assert_eq!(header.pair, if back { own } else { session::switch_pair(worker, slot) });
        assert_eq!(header.target.address, session::address(slot, 256));
        let expected = next.entry((back, own)).or_insert(session::first_psn(own));
        assert_eq!(header.psn, *expected, "{header:?}");
        *expected = roce::after(*expected);
        seen[usize::from(back)] += 1;
    }
    assert_eq!(seen, [packets * 12; 2], "a result for each worker");
}

#[test]
fn what_cannot_be_strict_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = olaf("program = \"olaf\"", "").replace("[topology]", "[endpoint]\nworkers = \"retransmit\"\n[topology]");
    let error = run(&text, &folder.path().join("run")).err().unwrap();
    assert!(error.contains("each must be sent once"), "{error}");
    let text = olaf("program = \"olaf\"", "").replace("tap = \"tap.pcapng\"\n", "").replace("\"ring\"", "\"udp\"");
    let error = run(&text, &folder.path().join("udp")).err().unwrap();
    assert!(error.contains("only the payload travels"), "{error}");
    let refused = [
        (
            switchml(&format!("{RING}on_wire = \"roce\"\n[target]\npool = 600\n")).replace("pool = 64", "pool = 513"),
            "513 packets under way",
        ),
        (switchml("[transport]\nkind = \"udp\"\non_wire = \"roce\"\n"), "udp"),
        (switchml("[transport]\non_wire = \"roce\"\n"), "virtual time has none"),
        (olaf("program = \"olaf\"", "").replace("\"strict\"\ntap", "\"roce\"\ntap"), "no layout is published for olaf"),
    ];
    for (i, (text, part)) in refused.into_iter().enumerate() {
        let error = run(&text, &folder.path().join(i.to_string())).err().unwrap();
        assert!(error.contains(part), "{error}");
    }
}
