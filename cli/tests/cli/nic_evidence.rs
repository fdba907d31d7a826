//! The results of `make nic-evidence` on a veth pair in a network namespace that the test makes and removes. If that is
//! not permitted, it prints SKIPPED and the reason.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::netns::Net;
use pktgen_testing::{Need, skip};

/// The sender that the script uses, which is built with the workspace's tests.
fn blast() -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_BIN_EXE_pktgen")).with_file_name("examples").join("blast");
    let missing = || format!("{} is not built: cargo build --release -p pktgen-realtime --examples", path.display());
    if path.exists() { Ok(path.clone()) } else { Err(missing()) }
}

/// Runs the script inside a namespace, with a small workload.
fn evidence(before: &[String], out: &Path, blast: &Path, set: &[(&str, &str)]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/nic-evidence");
    let small = [
        ("SIZES", "256"),
        ("ROUNDS", "1"),
        ("UPDATES", "1000"),
        ("PASSES", "1"),
        ("PPS", "10000"),
        ("SECONDS_EACH", "1"),
        ("COUNT", "20000"),
        ("RATES", "50000"),
    ];
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).arg(script).env("PKTGEN", env!("CARGO_BIN_EXE_pktgen")).env("BLAST", blast);
    command.env("OUT", out).envs(small).envs(set.iter().copied()).output().expect("it runs")
}

fn place() -> Option<(Net, PathBuf)> {
    let found = blast().and_then(|blast| {
        let able = Command::new("ethtool").arg("--version").output().map_err(|e| format!("ethtool does not run: {e}"));
        let net = able.and_then(|_| Net::make("evidence", &["host"], &[(("host", "c0"), ("host", "c1"))]));
        net.map(|net| (net, blast))
    });
    found.map_err(|why| skip(Need::Netns, "nic-evidence on a veth pair", why)).ok()
}

fn text(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn evidence_is_complete_labelled_and_packed_and_a_default_route_is_refused() {
    let Some((net, blast)) = place() else { return };
    let inside = net.inside("host");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("found");
    // Cards have several queues. On a machine with one core, a veth has one.
    let _ = Command::new(&inside[0]).args(&inside[1..]).args(["ethtool", "-L", "c0", "rx", "2"]).output();
    let output = evidence(&inside, &out, &blast, &[("IF", "c0"), ("PEER", "c1")]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));

    let summary = text(out.join("summary.txt"));
    assert!(summary.starts_with("nic-evidence of c0: veth, not a card\n"), "{summary}");
    assert!(summary.contains("\nComplete.\n") && !summary.contains("FAILED"), "{summary}");
    // Every figure is a line with the label; skipped ones are reported.
    for kind in ["af_xdp", "af_packet", "xdp_live"] {
        let is_row = |l: &&str| l.starts_with(kind) && l.contains("packets/s sent     27000");
        let rows: Vec<_> = summary.lines().filter(is_row).collect();
        assert!(!rows.is_empty() || summary.contains(&format!("SKIPPED: {kind}")), "{kind}: {summary}");
        assert!(rows.iter().all(|l| l.contains("tx_packets +27000") && l.ends_with("[veth, not a card]")), "{rows:?}");
    }
    let late = summary.lines().find(|l| l.starts_with("round 1: ")).expect("pacing");
    assert!(late.contains("late: p50") && late.ends_with("[veth, not a card]"), "{late}");
    let heard = summary.lines().filter(|l| l.contains("captured 20000,") && l.ends_with("[c1: veth, not a card]"));
    assert!(heard.count() >= 1, "{summary}");
    for part in ["before", "after"] {
        for option in ["", "-i", "-k", "-g", "-c", "-T", "-S"] {
            let asked = text(out.join(format!("{part}/c0/ethtool{option}.txt")));
            assert!(asked.starts_with("# c0: veth, not a card\n$ ethtool") && asked.contains("# exit "), "{asked}");
        }
    }
    assert!(text(out.join("before/c0/ethtool-i.txt")).contains("driver: veth"));
    assert!(
        text(out.join("doctor.jsonl"))
            .starts_with("{\"label\":\"veth, not a card\"}\n{\"schema\":\"finding/1\",\"check\"")
    );
    assert!(text(out.join("host/kernel.txt")).contains("Linux"));

    let archive = folder.path().join("found.tar.gz");
    let listed = Command::new("tar").arg("-tzf").arg(&archive).output().expect("tar runs");
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.success());
    for name in [
        "summary.txt",
        "doctor.jsonl",
        "pacing/1/manifest.json",
        "after/c1/ethtool-S.txt",
        "captures/af_packet-50000.json",
    ] {
        assert!(names.lines().any(|l| l == format!("found/{name}")), "{name} is in {names}");
    }
    refusals(&inside, folder.path(), &blast);
}

/// Where the script must not run, it sends and writes nothing.
fn refusals(inside: &[String], folder: &Path, blast: &Path) {
    let ip = |words: &[&str]| {
        let status = Command::new(&inside[0]).args(&inside[1..]).arg("ip").args(words).status();
        assert!(status.expect("ip runs").success(), "{words:?}");
    };
    let sent = || {
        let cat = ["cat", "/sys/class/net/c0/statistics/tx_packets"];
        Command::new(&inside[0]).args(&inside[1..]).args(cat).output().expect("a count").stdout
    };
    ip(&["addr", "add", "192.0.2.1/24", "dev", "c0"]);
    ip(&["route", "add", "default", "via", "192.0.2.2", "dev", "c0"]);
    let before = sent();
    for (set, code, part) in [
        (&[("IF", "c0")][..], 3, "default route"),
        (&[("IF", "c1"), ("PEER", "c0")], 3, "default route"),
        (&[("IF", "absent0")], 3, "absent0"),
        (&[("IF", "lo")], 3, "loopback"),
        (&[], 2, "make nic-evidence IF="),
        (&[("IF", "c1"), ("COUNT", "100000000")], 2, "COUNT=10000000"),
        (&[("IF", "c1"), ("ROUNDS", "many")], 2, "\"many\""),
    ] {
        let out = folder.join("refused");
        let output = evidence(inside, &out, blast, set);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && text.contains(part), "{set:?}: {:?} {text}", output.status);
        assert!(!out.exists(), "{set:?}: nothing is written");
    }
    assert_eq!(sent(), before, "nothing is sent");
}
