//! Clauses of Trio-ML against our router, and against one in C: in virtual time, in lockstep and on wires.

use std::path::Path;

use pktgen_testing::{Need, skip};

use super::{in_lockstep, text_lines, with};
use crate::support::bench::{Device, SWITCHML, cabled};
use crate::support::text;
use crate::support::wired::{pktgen, said};

/// Clauses that do not apply to one job with timers and a table that is larger than what is tested.
const NOT_HERE: [&str; 3] = ["trio-ml-jobs", "trio-ml-patient", "trio-ml-released"];
/// Arguments of the router in C.
const ROUTER: [&str; 4] = ["--protocol", "trio-ml", "--workers", "4"];

#[test]
fn our_router_conforms_in_virtual_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("x.toml");
    std::fs::write(&file, SWITCHML.replace("\"switchml\"\npool = 32", "\"trio_ml\"\nwindow = 32")).expect("writable");
    let file = file.display().to_string();
    for (n, (set, exempt)) in [
        (&["workload.jobs=2"][..], &["trio-ml-patient", "trio-ml-released"][..]),
        (&["target.tombstones=true", "target.chip=none"], &NOT_HERE),
        // As many blocks as are under way at once; from 33 on the bits of their numbers are tested.
        (&["target.block_cnt_max=33"], &["trio-ml-jobs", "trio-ml-patient"]),
        // Ethernet pads frames of one gradient.
        (
            &["workload.elements=1"],
            &["trio-ml-sizes", "trio-ml-jobs", "trio-ml-patient", "trio-ml-released", "trio-ml-longer"],
        ),
        // It notifies of every straggler.
        (&["target.straggler_min=1", "target.straggler_interval=1ms"], &NOT_HERE),
        // Results that are long under way, and as many as wait for a slow link.
        (&["topology.delay=10ms"], &NOT_HERE),
        (&["target.timeout=1ms", "topology.delay=2ms"], &NOT_HERE),
        (&["topology.host_rate=2Mbps"], &NOT_HERE),
        (
            &["workload.jobs=2", "target.mitigation=false"],
            &[
                "trio-ml-aged",
                "trio-ml-partial",
                "trio-ml-partial-receivers",
                "trio-ml-touched",
                "trio-ml-after-aging",
                "trio-ml-late",
                "trio-ml-released",
            ],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.path().join(n.to_string()).display().to_string();
        let output = pktgen(&[], &["certify", &file, "--json", "--repeats", "20", "--out", &out], set).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{set:?}: {}", said(&output));
        let lines = text_lines(&output.stdout);
        let (clauses, whole) = lines.split_at(lines.len() - 1);
        assert_eq!(whole[0]["conforms"], true);
        assert_eq!(with(clauses, "not_applicable"), exempt, "{set:?}");
        assert_eq!(with(clauses, "passed").len() + exempt.len(), clauses.len());
    }
}

#[test]
fn a_router_in_lockstep_conforms_or_fails_the_clause_that_names_its_fault() {
    let router = [&["--ports", "4"], &ROUTER[..]].concat();
    // With a small table all clauses for one job apply.
    for (set, exempt) in [(&["target.block_cnt_max=40"][..], &NOT_HERE[..2]), (&[], &NOT_HERE[..])] {
        let (code, lines, said) = in_lockstep("trio_ml", &[&router[..], &["--timeout-ms", "10"]].concat(), set);
        assert_eq!((code, with(&lines, "not_applicable")), (Some(0), exempt.to_vec()), "{said}");
    }
    for (words, clause) in [
        (&["--timeout-ms", "3"][..], "trio-ml-aged"),
        (&["--timeout-ms", "40"], "trio-ml-partial"),
        (&["--timeout-ms", "10", "--wrong", "1"], "trio-ml-sum"),
        (&["--timeout-ms", "10", "--stale", "1"], "trio-ml-reuse"),
        (&["--timeout-ms", "10", "--twice", "0.5"], "trio-ml-sum"),
        (&["--timeout-ms", "10", "--early", "1"], "trio-ml-complete"),
        (&["--timeout-ms", "10", "--copies", "value"], "trio-ml-sum"),
        (&["--timeout-ms", "10", "--copies", "port"], "trio-ml-addresses"),
        (&["--timeout-ms", "10", "--copies", "checksum"], "trio-ml-headers"),
    ] {
        let (code, lines, said) = in_lockstep("trio_ml", &[&router[..], words].concat(), &[]);
        assert!(code == Some(1) && with(&lines, "failed").contains(&clause), "{words:?}: {said}");
    }
    // Without timers it behaves as the experiment specifies, if that disables them.
    let (code, lines, said) = in_lockstep("trio_ml", &router, &["target.mitigation=false"]);
    assert!(code == Some(0) && with(&lines, "passed").contains(&"trio-ml-patient"), "{said}");
}

#[test]
fn a_router_in_c_conforms_on_wires() {
    let net = match cabled("certify-trio") {
        Ok(net) => net,
        Err(why) => return skip(Need::Netns, "a router in C is certified", &why),
    };
    let words = ["--in", "e0", "--first", "10.50.0.1", "--group", "239.50.0.0", "--timeout-ms", "250"];
    let device = Device::start(&net, &[&words[..], &ROUTER].concat());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiment = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/support/bench/trio-ml.toml");
    let (experiment, out) = (experiment.display().to_string(), folder.path().join("out").display().to_string());
    // A busy host does not determine how late a block ages.
    let words = ["certify", &experiment, "--json", "--out", &out, "--repeats", "1", "--except", "trio-ml-aged"];
    let output = pktgen(&net.inside("h"), &words, &["target.timeout=250ms"]).output().expect("it runs");
    drop(device);
    let lines = text_lines(&output.stdout);
    assert_eq!(with(&lines, "failed"), [""; 0], "{} {}", text(&output.stdout), said(&output));
    assert!(with(&lines, "passed").len() > 20, "{}", said(&output));
}
