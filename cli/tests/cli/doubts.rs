//! Valid runs that measured something other than the experiment describes: a wrong description of the device, answers
//! that do not reach their workers, a limit of the sender. Every output reports it beside the verdict.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::bench::{Device, cabled};
use crate::support::netns::Net;
use crate::support::serving::Serving;
use crate::support::wired::{manifest, pktgen, said};
use pktgen_testing::{Need, skip};
use serde_json::{Value, json};

fn net(tag: &str) -> Option<Net> {
    cabled(tag).inspect_err(|why| skip(Need::Netns, "devices between veth pairs", why)).ok()
}

fn experiment(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/support/bench/{name}.toml")).display().to_string()
}

/// Runs an experiment of the bench; returns its folder and its output.
fn run(net: &Net, name: &str, folder: &Path, set: &[&str]) -> (PathBuf, Output) {
    let out = folder.join(format!("run{}", std::fs::read_dir(folder).expect("readable").count()));
    let text = out.display().to_string();
    let words = ["replay", &experiment(name), "--no-probe", "--out", &text];
    let output = pktgen(&net.inside("h"), &words, set).output().expect("it runs");
    (out, output)
}

/// Returns the codes of the notes.
fn notes(manifest: &Value) -> Vec<String> {
    let notes = manifest["validity"]["notes"].as_array().expect("notes");
    notes.iter().map(|note| note["code"].as_str().expect("a code").to_owned()).collect()
}

const STRICT: [&str; 2] = ["format.lanes=true", "transport.on_wire=strict"];
/// Forty times the stated rate of the link, so that no stall of the sender hides the excess.
const OVERLOAD: [&str; 2] = ["schedule.offered=4Mbps", "topology.rate=100kbps"];

#[test]
fn a_device_that_knows_no_worker_and_a_link_that_is_not_there_are_told() {
    let Some(net) = net("doubtlink") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Its tables have other addresses, so all frames bypass its queue.
    let device = ["--in", "e0", "--out", "e1", "--protocol", "olaf-strict", "--mbps", "1", "--first", "10.99.0.1"];
    let device = Device::start(&net, &device);
    for set in [&[&STRICT[..], &OVERLOAD].concat()[..], &OVERLOAD] {
        let (out, output) = run(&net, "olaf", folder.path(), set);
        let found = manifest(&out);
        assert_eq!((output.status.code(), &found["validity"]["valid"]), (Some(0), &json!(true)), "{}", said(&output));
        assert_eq!(notes(&found)[0], "above_link", "{set:?}: {}", found["validity"]);
        let text = said(&output);
        let (valid, caution) = (text.find("Valid: all 1 runs"), text.find("Caution, 1 of 1 runs: more arrived than"));
        assert!(valid.is_some() && caution > valid, "{text}");
        assert!(text.contains("and no packet held more than one update"), "{text}");
        for report in ["report.md", "report.html", "report.json"] {
            let report = std::fs::read_to_string(out.join(report)).expect("a report");
            assert!(report.contains("Caution, 1 of 1 runs: more arrived than"), "{report}");
        }
    }
    drop(device);
}

#[test]
fn a_device_that_only_drops_and_is_said_to_merge_is_told() {
    let Some(net) = net("doubtmerge") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let device = ["--in", "e0", "--out", "e1", "--fault", "drop", "--share", "0.98", "--seed", "3"];
    let device = Device::start(&net, &device);
    let (out, output) =
        run(&net, "olaf", folder.path(), &[&STRICT[..], &["schedule.offered=4Mbps", "topology.rate=1Mbps"]].concat());
    let found = manifest(&out);
    assert_eq!(notes(&found)[0], "nothing_merged", "{}", found["validity"]);
    assert!(said(&output).contains("Caution, 1 of 1 runs: nothing was merged"), "{}", said(&output));
    // A device declared as forwarding may lose frames.
    let set = [
        &STRICT[..],
        &["schedule.offered=4Mbps", "topology.rate=1Mbps", "target.program=forward", "target.queue=fifo"],
    ]
    .concat();
    let (out, _) = run(&net, "olaf", folder.path(), &set);
    assert!(!notes(&manifest(&out)).contains(&"nothing_merged".to_owned()));
    device.stop();
}

#[test]
fn ages_in_a_layout_that_hides_members_are_those_of_lanes() {
    let Some(net) = net("doubtage") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let device = [
        "--in",
        "e0",
        "--out",
        "e1",
        "--protocol",
        "olaf-strict",
        "--mbps",
        "2",
        "--slots",
        "8",
        "--first",
        "10.20.0.1",
    ];
    let device = Device::start(&net, &device);
    let load = ["schedule.offered=4Mbps", "topology.rate=2Mbps"];
    let (out, output) = run(&net, "olaf", folder.path(), &[&STRICT[..], &load].concat());
    let found = manifest(&out);
    assert_eq!(found["validity"]["valid"], json!(true), "{}", said(&output));
    let metric = |out: &Path, key: &str| {
        let words =
            ["analyze", &out.display().to_string(), "--json", "--metric", key.split('/').next().expect("a metric")];
        let output = pktgen(&net.inside("h"), &words, &[]).output().expect("it runs");
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let flow = key.split('/').nth(1);
        let own = |line: &Value| line["labels"]["flow"].as_str() == flow && line["labels"]["id"].is_null();
        let mut own = lines.filter(|line| line["metric"] == key.split('/').next().unwrap_or_default() && own(line));
        own.next().unwrap_or_else(|| panic!("no {key}: {}", said(&output)))["value"].as_f64()
    };
    assert_eq!(metric(&out, "aom_mean/cluster"), None, "a packet does not say whose updates it holds");
    assert_eq!(metric(&out, "aggregation_mean"), None);
    assert!(metric(&out, "lanes_aom_mean/cluster") > Some(0.0));
    let each = metric(&out, "lanes_aggregation_mean").expect("of lanes");
    assert!(each > 1.0, "{each}: the link takes half of what is offered");
    // The rate on the cable is at most that of the device's link.
    let bps = metric(&out, "throughput_bps").expect("a rate");
    assert!(bps < 2.1e6, "{bps}");
    let received = found["counters"]["packets_received"].as_u64().expect("a count");
    assert_eq!(found["counters"]["bytes_received"].as_u64(), Some(received * 230));
    assert!(!notes(&found).contains(&"members_hidden".to_owned()));
    let summary = pktgen(&net.inside("h"), &["analyze", &out.display().to_string()], &[]).output().expect("it runs");
    let text = said(&summary);
    assert!(text.contains("updates each") && !text.contains("1.0 updates each"), "{text}");
    // Without lanes this is unknown.
    let (out, output) = run(&net, "olaf", folder.path(), &[&STRICT[1..], &load].concat());
    assert!(notes(&manifest(&out)).contains(&"members_hidden".to_owned()), "{}", said(&output));
    assert_eq!(metric(&out, "aom_mean/cluster"), None);
    device.stop();
}

#[test]
fn answers_that_do_not_reach_their_workers_are_counted() {
    let Some(net) = net("doubtacks") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    // It passes answers only to the addressed worker, whereas OLAF's device sends them to the whole cluster.
    let device = Device::start(&net, &["--in", "e0", "--out", "e1", "--fault", "forward"]);
    let (out, output) = run(&net, "olaf", folder.path(), &STRICT);
    device.stop();
    let found = manifest(&out);
    let acks = &found["unseen"]["acks"];
    let sent = acks["acks"].as_u64().expect("a count");
    assert_eq!(
        (acks["expected"].as_u64(), acks["seen"].as_u64()),
        (Some(3 * sent), Some(sent)),
        "{}",
        found["validity"]
    );
    assert!(notes(&found).contains(&"acks_missing".to_owned()));
    assert!(
        said(&output).contains(&format!("should have had {} copies and had {sent}", 3 * sent)),
        "{}",
        said(&output)
    );
    // A device through which any frames pass has no groups.
    let device = Device::start(&net, &["--in", "e0", "--out", "e1", "--fault", "forward"]);
    let (out, _) = run(&net, "olaf", folder.path(), &[&STRICT[..], &["target.profile=generic"]].concat());
    device.stop();
    let found = manifest(&out);
    assert_eq!(found["unseen"]["acks"]["expected"], found["unseen"]["acks"]["seen"], "{}", found["unseen"]);
    // The software device multicasts them.
    let (text, set) = (folder.path().join("device").display().to_string(), ["", "e0", "e1", ""]);
    let interfaces = format!("transport.interfaces={}", json!(set));
    let words = ["target", &experiment("olaf"), "--out", &text, "--idle", "3s", "--for", "300s"];
    let set = [&STRICT[..], &["target.kind=software", &interfaces]].concat();
    let serving = Serving::start(pktgen(&net.inside("e"), &words, &set), "target");
    let (out, output) = run(&net, "olaf", folder.path(), &STRICT);
    drop(serving);
    let acks = manifest(&out)["unseen"]["acks"].clone();
    assert_eq!((&acks["seen"], &acks["group"]), (&acks["expected"], &json!(true)), "{acks}: {}", said(&output));
}

#[test]
fn a_limit_of_the_sender_is_told() {
    let Some(net) = net("doubtlimit") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let switch =
        ["--in", "e0", "--protocol", "switchml", "--first", "10.40.0.1", "--workers", "4", "--group", "239.40.0.0"];
    for (limit, told) in [("transport.limit=5Mbps", true), ("transport.limit=none", false)] {
        let device = Device::start(&net, &switch);
        let (out, output) = run(&net, "switchml", folder.path(), &[limit]);
        device.stop();
        assert_eq!(notes(&manifest(&out)).contains(&"limit_decided".to_owned()), told, "{limit}: {}", said(&output));
        assert_eq!(said(&output).contains("transport.limit decided the rate"), told, "{}", said(&output));
    }
}

/// Three packets of a slot leave its last sum in set 0: without a probe of the slot, the next run would receive it again.
#[test]
fn what_a_run_left_in_slots_is_not_in_the_sums_of_the_next() {
    let Some(net) = net("doubtslots") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let switch =
        ["--in", "e0", "--protocol", "switchml", "--first", "10.40.0.1", "--workers", "4", "--group", "239.40.0.0"];
    let device = Device::start(&net, &switch);
    for again in 0..3 {
        let out = folder.path().join(format!("run{again}")).display().to_string();
        let words = ["replay", &experiment("switchml"), "--no-report", "--out", &out];
        let set = ["target.probe_timeout=60s", "workload.scale=0.0005"];
        let output = pktgen(&net.inside("h"), &words, &set).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "run {again}: {}", said(&output));
        let found = manifest(Path::new(&out));
        let probe = found["host"]["device.probe"].as_str().expect("a fact").to_owned();
        assert!(probe.contains("slots 0 to 31 came back as the right sum"), "{probe}");
        assert_eq!(probe.contains("held state of an earlier run"), again > 0, "{probe}");
        assert!(probe.contains(" frames sent, ") && probe.ends_with(" results came)"), "{probe}");
    }
    device.stop();
}

/// The software device in a separate process is treated like any other: it passes the probe, and its counters show no
/// lossy link, although the kernel also sends frames at its interfaces.
#[test]
fn the_software_device_of_another_process_passes_the_probe() {
    let Some(net) = net("doubtstandin") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, interfaces) in [
        ("switchml", r#"transport.interfaces=["", "e0"]"#),
        ("trio-ml", r#"transport.interfaces=["", "e0"]"#),
        ("olaf", r#"transport.interfaces=["", "e0", "e1", ""]"#),
    ] {
        let at = |part: &str| folder.path().join(format!("{name}-{part}")).display().to_string();
        let (device, out) = (at("device"), at("run"));
        let words = ["target", &experiment(name), "--out", &device, "--idle", "3s", "--for", "300s"];
        let serving = Serving::start(pktgen(&net.inside("e"), &words, &["target.kind=software", interfaces]), "target");
        let words = ["replay", &experiment(name), "--no-report", "--out", &out];
        let output = pktgen(&net.inside("h"), &words, &["target.probe_timeout=60s"]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
        assert!(manifest(Path::new(&out))["host"]["device.probe"].is_string(), "{name}: it was probed");
        assert_eq!(serving.end(), 0);
        let output = pktgen(&[], &["--json", "diagnose", &out, "--device", &device], &[]).output().expect("it runs");
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let causes = found["causes"].as_array().expect("causes");
        assert!(causes.iter().all(|cause| cause["code"] != "link_lost"), "{name}: {found}");
        // The probe sends more than a hundredth of what the run sends.
        let other_span = found["unknown"].to_string().contains("took more than was sent");
        assert!(name != "switchml" || !other_span, "{found}");
    }
}

#[test]
fn a_folder_of_runs_is_no_run_to_diagnose() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("sweep").display().to_string();
    let set = ["sweep.seeds=1..2", "workload.updates=5"];
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/olaf/table1.toml").display().to_string();
    let made = pktgen(&[], &["replay", &config, "--no-report", "--out", &out], &set).output().expect("it runs");
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    let output = pktgen(&[], &["diagnose", &out], &[]).output().expect("it runs");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("a diagnosis is of one: pktgen diagnose ") && text.contains("seed=2"), "{text}");
}
