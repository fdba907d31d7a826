//! Clauses of Libra against our switch, and against one in C: in virtual time, in lockstep and on wires.

use super::{in_lockstep, text_lines, with};
use crate::support::bench::{Device, cabled};
use crate::support::text;
use crate::support::wired::{pktgen, said};
use pktgen_testing::{Need, skip};

/// Sparse training: two jobs of four workers around a switch, and a parameter server.
pub(super) const SPARSE: &str = r#"
name = "sparse"
[workload]
kind = "sparse"
model = "oa"
scale = 0.05
workers = 4
iterations = 30
compute = "1ms"
[topology]
kind = "star"
[endpoint]
workers = "libra"
window = 128
cold_bytes = 1400
[target]
program = "libra"
"#;

/// Arguments of the switch in C.
const SWITCH: [&str; 4] = ["--protocol", "libra", "--workers", "4"];

#[test]
fn our_switch_of_libra_conforms_in_virtual_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("x.toml");
    std::fs::write(&file, SPARSE).expect("writable");
    let file = file.display().to_string();
    for (n, (set, exempt)) in [
        (&["workload.jobs=2", "workload.workers=8"][..], &[][..]),
        (&["target.add=exact", "endpoint.window=4"], &["libra-jobs"]),
        (&["target.repeat_writes=paper"], &["libra-copied", "libra-jobs"]),
        (&["target.repeat_writes=bloom", "workload.workers=2"], &["libra-copied", "libra-late", "libra-jobs"]),
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.path().join(n.to_string()).display().to_string();
        let output = pktgen(&[], &["certify", &file, "--json", "--repeats", "10", "--out", &out], set).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{set:?}: {}", said(&output));
        let lines = text_lines(&output.stdout);
        let (clauses, whole) = lines.split_at(lines.len() - 1);
        assert_eq!(whole[0]["conforms"], true);
        assert_eq!(with(clauses, "not_applicable"), exempt, "{set:?}");
        assert_eq!(with(clauses, "passed").len() + exempt.len(), clauses.len());
    }
}

/// Links on which clauses would miss the results of a right switch are refused. With shorter ones, a single clause cannot be decided, and
/// names the timeout with which it can.
#[test]
fn links_on_which_clauses_would_miss_results_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("x.toml"), folder.path().join("out"));
    std::fs::write(&file, SPARSE).expect("writable");
    let (file, path) = (file.display().to_string(), out.display().to_string());
    let certify = |set: &[&str]| {
        let words = ["certify", &file, "--json", "--repeats", "1", "--out", &path];
        pktgen(&[], &words, set).output().expect("it runs")
    };
    for slow in ["topology.delay=1ms", "topology.host_rate=10Mbps"] {
        let output = certify(&[slow]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{slow}: {said}");
        assert!(said.contains("target.result_timeout = 1ms: results take"), "{slow}: {said}");
        assert!(!out.exists(), "{slow}");
    }
    let lines = text_lines(&certify(&["topology.delay=620us"]).stdout);
    let (clauses, _) = lines.split_at(lines.len() - 1);
    assert_eq!((with(clauses, "failed"), with(clauses, "not_decidable")), (vec![], vec!["libra-result-resent"]));
    let resent = clauses.iter().find(|line| line["clause"] == "libra-result-resent");
    let why = resent.and_then(|line| line["why"].as_str()).unwrap_or_default();
    assert!(why.contains("come again after 1ms; raise target.result_timeout to 3.101ms or more"), "{why}");
    std::fs::remove_dir_all(&out).expect("a certificate");
    let output = certify(&["topology.delay=620us", "target.result_timeout=3.101ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_switch_of_libra_in_lockstep_conforms_or_fails_the_clause_that_names_its_fault() {
    let switch = [&["--ports", "5", "--up", "4"], &SWITCH[..]].concat();
    let (code, lines, said) = in_lockstep("libra", &[&switch[..], &["--timeout-ms", "1"]].concat(), &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(with(&lines, "passed").len() > 30, "{said}");
    // Frames are observed at the device: links do not count, and a switch that sends no results fails.
    for (needs, expected) in [("4", 0), ("5", 1)] {
        let words = [&switch[..], &["--timeout-ms", "1", "--needs", needs]].concat();
        let (code, lines, said) = in_lockstep("libra", &words, &["topology.delay=1ms"]);
        assert_eq!(code, Some(expected), "{needs}: {said}");
        assert_eq!(with(&lines, "failed").contains(&"libra-sum"), expected == 1, "{needs}: {said}");
    }
    for (words, clause) in [
        (&["--timeout-ms", "1", "--wrong", "1"][..], "libra-sum"),
        (&["--timeout-ms", "1", "--stale", "1"], "libra-reuse"),
        (&["--timeout-ms", "1", "--twice", "0.5"], "libra-sum"),
        (&["--timeout-ms", "1", "--needs", "3"], "libra-complete"),
        (&["--timeout-ms", "0"], "libra-result-resent"),
        (&["--timeout-ms", "1", "--copies", "port"], "libra-ack-addresses"),
        (&["--timeout-ms", "1", "--copies", "checksum"], "libra-ack-headers"),
    ] {
        let (code, lines, said) = in_lockstep("libra", &[&switch[..], words].concat(), &[]);
        assert!(code == Some(1) && with(&lines, "failed").contains(&clause), "{words:?}: {said}");
    }
}

#[test]
fn a_switch_of_libra_in_c_conforms_on_wires() {
    let net = match cabled("certify-libra") {
        Ok(net) => net,
        Err(why) => return skip(Need::Netns, "a switch of Libra in C is certified", &why),
    };
    let words = ["--in", "e0", "--out", "e1", "--first", "10.30.0.1", "--group", "239.30.0.0", "--timeout-ms", "250"];
    let device = Device::start(&net, &[&words[..], &SWITCH].concat());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, out) = (folder.path().join("x.toml"), folder.path().join("out").display().to_string());
    let target =
        "[target]\nkind = \"external\"\nprofile = \"tofino-libra\"\nadd = \"exact\"\nresult_timeout = \"250ms\"\n";
    let wires = "[transport]\nkind = \"af_packet\"\ninterfaces = [\"h0\", \"\", \"\", \"h1\"]\nwait = \"block\"\n";
    let experiment = SPARSE.replace("[target]\nprogram = \"libra\"\n", &format!("{target}{wires}"));
    std::fs::write(&file, experiment).expect("writable");
    let file = file.display().to_string();
    let words = ["certify", &file, "--json", "--out", &out, "--repeats", "1"];
    let output = pktgen(&net.inside("h"), &words, &[]).output().expect("it runs");
    drop(device);
    let lines = text_lines(&output.stdout);
    assert_eq!(with(&lines, "failed"), [""; 0], "{} {}", text(&output.stdout), said(&output));
    assert!(with(&lines, "passed").len() > 28, "{}", said(&output));
}
