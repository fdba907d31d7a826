//! `pktgen tune` on a veth pair in a network namespace that the test makes and removes. Where it may not, it says SKIPPED and why.
//! Which setting is fastest is the host's affair: what is asserted is that all are told apart, and that the answer can be used.

use std::process::{Command, Output};

use crate::support::netns::Net;
use pktgen_testing::{Need, skip, undisturbed};
use serde_json::Value;

fn tune(net: &Net, args: &[&str]) -> Output {
    let inside = net.inside("all");
    let mut command = Command::new(&inside[0]);
    command.args(&inside[1..]).arg(env!("CARGO_BIN_EXE_pktgen")).args(["-q", "tune"]).args(args);
    command.output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn settings_of_an_interface_are_measured_and_one_is_written() {
    let cables = [(("all", "w0"), ("all", "p0"))];
    let net = match Net::make("tune", &["all"], &cables) {
        Ok(net) => net,
        Err(why) => return skip(Need::Netns, "pktgen tune on a veth pair", why),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    deadlines(&net, folder.path());
    refusals(&net);
    largest_frames(&net, folder.path());
    let chosen = undisturbed("the settings that pktgen tune chooses", |i| {
        let out = folder.path().join(format!("top{i}"));
        top_speed(&net, &out).then_some(out)
    });
    let Some(out) = chosen else { return };
    // The output is a section that an experiment can contain.
    let section = std::fs::read_to_string(out.join("transport.toml")).expect("written");
    let experiment = folder.path().join("own.toml");
    let text = format!(
        "name = \"own\"\n[workload]\nupdates = 10\n[schedule]\noffered = \"1Gbps\"\n{section}pacing = \"top\"\ninterfaces = [\"w0\", \"\", \"\", \"\"]\n"
    );
    std::fs::write(&experiment, text).expect("writable");
    let inside = net.inside("all");
    let part = folder.path().join("part");
    let replayed = Command::new(&inside[0])
        .args(&inside[1..])
        .arg(env!("CARGO_BIN_EXE_pktgen"))
        .args(["-q", "replay", "--role", "workers", "--out"])
        .args([&part, &experiment])
        .output()
        .expect("it runs");
    assert_eq!(replayed.status.code(), Some(0), "{}", said(&replayed));
}

/// All settings are measured; whether one was chosen. A veth drops what a busy host does not take in time: then none is, which
/// the exit code says.
fn top_speed(net: &Net, out: &std::path::Path) -> bool {
    let few = ["--rounds", "6", "--trial", "20ms", "--json", "--peer", "p0"];
    let output = tune(net, &[&["w0", "--out", &out.display().to_string()][..], &few].concat());
    let tuned: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
    let chosen = tuned["chosen"].as_u64();
    assert_eq!(output.status.code(), Some(i32::from(chosen.is_none())), "{}", said(&output));
    let kept: Value = serde_json::from_slice(&std::fs::read(out.join("tuning.json")).expect("kept")).expect("JSON");
    assert_eq!(tuned, kept);
    let settings = tuned["settings"].as_array().expect("settings");
    let of = |kind: &str| {
        let word = Value::from(format!("transport.kind={kind}"));
        settings.iter().filter(move |setting| setting["set"].as_array().is_some_and(|set| set.contains(&word)))
    };
    assert!(["af_packet", "af_xdp", "xdp_live"].iter().all(|kind| of(kind).count() > 0), "{tuned}");
    // A veth has no zero copy, and takes no live frames where its peer has no program.
    let refused: Vec<&str> = settings.iter().filter_map(|setting| setting["refused"].as_str()).collect();
    assert!(refused.iter().any(|why| why.contains("no zero copy")), "{refused:?}");
    let packets = of("af_packet").next().expect("af_packet");
    assert_eq!(packets["pps"].as_array().map(Vec::len), Some(6), "{packets}");
    // Frames are counted on arrival.
    assert!(packets["sent"].as_u64() >= Some(6 * 27 * 2000), "{packets}");
    assert_eq!(packets["lost"].as_u64().map(|lost| lost > 0), Some(packets["refused"].is_string()), "{packets}");
    let Some(chosen) = chosen.map(|at| &settings[at as usize]) else { return false };
    assert!(chosen["refused"].is_null() && chosen["of_best"].as_f64() > Some(0.0), "{chosen}");
    true
}

fn deadlines(net: &Net, folder: &std::path::Path) {
    let out = folder.join("paced").display().to_string();
    let output = tune(net, &["w0", "--pps", "5k", "--rounds", "6", "--trial", "50ms", "--json", "--out", &out]);
    let tuned: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
    let settings = tuned["settings"].as_array().expect("settings");
    let ways = |way: &str| {
        let word = Value::from(format!("transport.wait={way}"));
        settings.iter().filter(move |setting| setting["set"].as_array().is_some_and(|set| set.contains(&word)))
    };
    assert!(ways("block").count() > 0 && ways("block").count() == ways("spin").count(), "{tuned}");
    let first = &settings[0];
    assert_eq!(first["late_p99_ns"].as_array().map(Vec::len), Some(6), "{first}");
    // A host that cannot keep the rate reports it, and chooses nothing.
    let chosen = tuned["chosen"].as_u64();
    assert_eq!(output.status.code(), Some(i32::from(chosen.is_none())), "{}", said(&output));
}

/// Frames as long as the MTU can be sent: an acknowledgement of them, which no trial sends, would be longer.
fn largest_frames(net: &Net, folder: &std::path::Path) {
    let out = folder.join("largest").display().to_string();
    let output = tune(net, &["w0", "--bytes", "1514B", "--rounds", "6", "--trial", "1ms", "--json", "--out", &out]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}: {}", output.status, said(&output));
    let tuned: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
    let first = tuned["settings"][0].as_object().unwrap_or_else(|| panic!("{tuned}"));
    assert!(first.get("refused").is_some_and(Value::is_null), "{tuned}");
}

fn refusals(net: &Net) {
    for (args, code, part) in [
        (&["nothing0"][..], 3, "there is no interface \"nothing0\""),
        (&["w0", "--rounds", "5"], 2, "6 to 1000"),
        (&["w0", "--pps", "0.5"], 2, "1 to 1e9"),
        (&["w0", "--trial", "1us"], 2, "--trial 1us"),
        (&["w0", "--rounds", "6", "--trial", "1ms", "--peer", "nothing1"], 3, "nothing1"),
        (&["w0", "--pps", "100M", "--rounds", "6"], 3, "allow_above_link"),
        // Keys that trials set already, and flags that tune does not have, are no advice.
        (
            &["w0", "--rounds", "6", "--bytes", "1515B"],
            3,
            "takes 1514 this way; lower workload.bytes, or raise the MTU",
        ),
        (&["w0", "--rounds", "6", "--set", "sweep.seeds=1..3"], 2, "pktgen: --set of [sweep]: trials are of one run"),
        // What no setting accepts is a fault of the experiment, which is all that is said.
        (&["w0", "--rounds", "6", "--set", "nosuch.key=1"], 2, "pktgen: --set nosuch.key=1: unknown section or key"),
        (&["w0", "--rounds", "6", "--bytes", "10B"], 2, "pktgen: --bytes 10B: workload.bytes"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out = folder.path().join("out").display().to_string();
        let output = tune(net, &[args, &["--out", &out]].concat());
        assert!(output.status.code() == Some(code) && said(&output).contains(part), "{args:?}: {}", said(&output));
        let left = std::fs::read_dir(&out).into_iter().flatten().count();
        assert_eq!(left, 0, "{args:?} leaves nothing");
    }
}
