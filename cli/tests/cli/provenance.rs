//! Provenance of whole runs: what lanes and the sender's log tell equals the books, which are kept aside. Nothing that a
//! device or a header says of a packet's identity is read on the way.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::support::decoded::{agrees, wrong};
use crate::support::netns::Net;
use pktgen_core::config::Document;
use pktgen_realtime::run::Experiment;
use pktgen_records::model::Fates;
use pktgen_records::provenance::{Answer, Provenance};
use pktgen_records::run::RunData;
use pktgen_testing::{Need, skip, undisturbed};

/// The runs of an experiment, its text in `configs` with these flags.
fn runs(config: &str, flags: &[&str], out: &Path) -> Vec<RunData> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(config);
    let text = fs::read_to_string(path).expect("the config");
    let mut document = Document::parse(&text, config).expect("it parses");
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    document.overlay(std::iter::empty(), &flags).expect("flags fit");
    let experiment = Experiment::open(pktgen_registry::all(), document).expect("an experiment");
    let finished = experiment.execute(out, 1, &AtomicBool::new(false), &|_, _| {}).expect("it runs");
    finished.iter().map(|run| RunData::open(&run.dir).expect("readable")).collect()
}

/// All runs agree, and less than one packet in a thousand is ambiguous. Returns merged updates of all.
fn all_agree(runs: &[RunData]) -> u64 {
    let (packets, ambiguous) = runs.iter().map(agrees).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    assert!(packets > 0 && ambiguous * 1000 < packets, "{ambiguous} of {packets}");
    runs.iter().map(|run| run.manifest.balance.delivered_merged).sum()
}

#[test]
fn table_1_is_decoded_with_replacement_and_filter() {
    let dir = tempfile::tempdir().expect("a folder");
    let flags = ["format.lanes=true", "sweep.seeds=1..2", "target.reward_filter=true", "target.reward_threshold=1.5"];
    let runs = runs("olaf/table1.toml", &flags, &dir.path().join("run"));
    assert_eq!(runs.len(), 2 * 3 * 4);
    assert!(all_agree(&runs) > 50_000);
    let sum = |of: fn(&RunData) -> u64| runs.iter().map(of).sum::<u64>();
    assert!(sum(|run| run.manifest.balance.subsumed) > 1000, "newer ones replace");
    assert!(sum(|run| run.manifest.balance.outranked) > 1000, "higher rewards replace");
    assert!(sum(|run| run.manifest.balance.dropped_total()) > 10_000);
}

#[test]
fn several_devices_transmission_control_and_retransmission() {
    let dir = tempfile::tempdir().expect("a folder");
    let small = ["format.lanes=true", "sweep.seeds=1..1", "workload.updates=40"];
    assert!(all_agree(&runs("olaf/table2.toml", &small, &dir.path().join("table2"))) > 0);
    let mut retransmit = small.to_vec();
    retransmit.extend(["endpoint.workers=retransmit", "sweep.axes.topology.rate=[\"5Gbps\"]"]);
    retransmit.extend(["workload.cluster_sigma=1.1", "schedule.kind=constant", "schedule.jitter=0.3"]);
    let runs = runs("olaf/table1.toml", &retransmit, &dir.path().join("retransmit"));
    assert!(runs.iter().any(|run| run.manifest.balance.retransmitted > 0));
    // Packets that were retransmitted many times may have many explanations; no given one is wrong.
    let (packets, ambiguous) = runs.iter().map(agrees).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    assert!(packets > 300 && ambiguous * 3 < packets, "{ambiguous} of {packets}");
}

#[test]
fn real_time_over_rings() {
    let dir = tempfile::tempdir().expect("a folder");
    // Hosts that pause for a moment record arrivals late.
    let flags = [
        "format.lanes=true",
        "format.lanes_window=128",
        "sweep.seeds=1..1",
        "workload.updates=100",
        "sweep.axes.topology.rate=[\"20Mbps\"]",
    ];
    let training = ["format.lanes=true", "workload.iterations=2"];
    for (config, flags, merged) in [
        ("olaf/table1-wires.toml", &flags[..], 100),
        ("wires/switchml.toml", &training, 0),
        ("wires/trio-ml.toml", &training, 0),
    ] {
        // As below.
        undisturbed("packets over rings are told apart", |attempt| {
            let runs = runs(config, flags, &dir.path().join(format!("{attempt}-{}", config.replace('/', "-"))));
            let (packets, ambiguous) = runs.iter().map(agrees).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
            assert!(packets > 0, "{config}");
            assert!(runs.iter().map(|run| run.manifest.balance.delivered_merged).sum::<u64>() > merged, "{config}");
            (ambiguous * 1000 < packets).then_some(())
        });
    }
}

/// Packet sockets on veth pairs: only the frames at the server's interface are known of the device.
#[test]
fn real_time_over_packet_sockets_in_a_namespace() {
    let cables = [(("all", "w0"), ("all", "d0")), (("all", "d1"), ("all", "s0"))];
    let net = match Net::make("lanes", &["all"], &cables) {
        Err(why) => return skip(Need::Netns, "lanes over packet sockets", why),
        Ok(net) => net,
    };
    let dir = tempfile::tempdir().expect("a folder");
    for (config, name) in [("olaf/table1-wires.toml", "Olaf,rate=20Mbps,seed=1"), ("wires/switchml.toml", "")] {
        // If a busy host interrupts a thread for long, packets become ambiguous, and the run is repeated. None may ever be wrong.
        undisturbed("packets over packet sockets are told apart", |attempt| {
            let out = dir.path().join(format!("{attempt}-{}", config.replace('/', "-")));
            let (packets, ambiguous) = agrees(&over_packet_sockets(&net, config, name, &out));
            (packets > 100 && ambiguous * 1000 < packets).then_some(())
        });
    }
}

/// Runs in a namespace, with lanes.
fn over_packet_sockets(net: &Net, config: &str, name: &str, out: &Path) -> RunData {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(config).display().to_string();
    let before = net.inside("all");
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).args([env!("CARGO_BIN_EXE_pktgen"), "-q", "replay", &path, "--no-report"]);
    command.args(["--out", &out.display().to_string(), "--set", "format.lanes=true"]);
    let interfaces = match config {
        "wires/switchml.toml" => "[\"w0\",\"d0\"]",
        _ => "[\"w0\",\"d0\",\"d1\",\"s0\"]",
    };
    command.args(["--set", "transport.kind=af_packet", "--set", &format!("transport.interfaces={interfaces}")]);
    if !name.is_empty() {
        command.args(["--set", "sweep.seeds=\"1\"", "--set", "sweep.axes.topology.rate=[\"20Mbps\"]"]);
        command.args(["--set", "format.lanes_window=128"]);
    }
    let output = command.output().expect("it runs");
    // The caller checks whether it is valid.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{config}: {}", String::from_utf8_lossy(&output.stderr));
    RunData::open(&out.join(name)).expect("readable")
}

/// Runs synchronous training in virtual time.
fn training(workers: &str, more: &[&str], dir: &Path) -> Vec<RunData> {
    let config = if workers == "trio_ml" { "wires/trio-ml.toml" } else { "wires/switchml.toml" };
    let flags = [&["format.lanes=true", "transport.kind=virtual"], more].concat();
    runs(config, &flags, &dir.join(workers))
}

#[test]
fn synchronous_training_with_stragglers_and_losses() {
    let dir = tempfile::tempdir().expect("a folder");
    let flags =
        ["workload.straggler_probability=0.5", "workload.typical=20ms", "target.timeout=2ms", "workload.workers=6"];
    let trio = training("trio_ml", &flags, dir.path());
    all_agree(&trio);
    let sources = |run: &RunData| {
        let records = run.records.as_ref().expect("records").whole().expect("readable");
        records.received.count.clone()
    };
    let partial = trio.iter().flat_map(sources).filter(|sources| *sources < 6).count();
    assert!(partial > 100, "results without stragglers: {partial}");
    // One window of packets ahead of the model contains only lanes.
    let switchml = training("switchml", &["workload.workers=7"], dir.path());
    assert!(all_agree(&switchml) > 10_000);
}

/// Swapped members of the books are detected: the comparison can fail.
#[test]
fn a_wrong_member_would_be_seen() {
    let dir = tempfile::tempdir().expect("a folder");
    let flags = ["format.lanes=true", "transport.kind=virtual", "sweep.seeds=1..1", "workload.updates=20"];
    let runs = runs("olaf/table1-wires.toml", &flags, &dir.path().join("run"));
    let run = runs.last().expect("a run");
    let records = &*run.records.as_ref().expect("records").whole().expect("readable");
    let layout = run.manifest.lanes.as_ref().expect("lanes");
    let found =
        Provenance::resolve(&run.manifest, layout, records, run.lanes.as_ref().expect("lanes")).expect("it resolves");
    let mut fates = Fates::resolve(records);
    assert_eq!(wrong(&found, records, &fates), 0);
    let members = fates.members.len();
    fates.members.swap(0, members - 1);
    assert_eq!(wrong(&found, records, &fates), 2);
    // Lanes that were made with another log give no information.
    let mut other = records.clone();
    other.sent.seq.iter_mut().for_each(|seq| *seq += 1000);
    let found =
        Provenance::resolve(&run.manifest, layout, &other, run.lanes.as_ref().expect("lanes")).expect("it resolves");
    assert_eq!(found.packets(|answer| *answer == Answer::Known), 0);
}
