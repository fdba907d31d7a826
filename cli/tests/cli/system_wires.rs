//! Systems' experiments for wires: every `configs/<system>/wires.toml` over every transport of this host, in one process.

use std::path::Path;

use crate::support::netns::Net;
use crate::support::root;
use crate::support::wired::{is_whole, manifest, number, replay, said};
use pktgen_testing::{Need, skip, undisturbed};

const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";

/// Repeats the run until nothing is lost or late. In every run, sums and results are right.
fn runs(before: &[String], name: &str, set: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let what = format!("{name}, {set:?}");
    undisturbed(&format!("a system on wires, {what}"), |i| {
        let out = folder.path().join(i.to_string());
        let output = replay(before, name, &out, set);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{what}: {}", said(&output));
        let manifest = manifest(&out);
        let (counters, balance) = (&manifest["counters"], &manifest["balance"]);
        assert_eq!(number(&counters["sums_wrong"]), 0, "{what}");
        assert_eq!(counters["device"]["results_wrong"].as_u64().unwrap_or(0), 0, "{what}");
        is_whole(&manifest).then(|| {
            assert!(number(&balance["sent"]) > 100, "{what}: {balance}");
            assert_eq!((number(&balance["unknown"]), number(&balance["in_flight"])), (0, 0), "{what}: {balance}");
            assert!(number(&counters["sums_ok"]) > 0, "{what}");
        })
    });
}

/// Experiments of systems for wires, as names beside those of `configs/wires`, and one of these, so that there is one.
fn experiments() -> Vec<String> {
    let folders =
        std::fs::read_dir(root().join("configs")).expect("configs").map(|folder| folder.expect("an entry").path());
    let with = folders.filter(|folder| folder.join("wires.toml").is_file());
    let name = |folder: &Path| Some(format!("../{}/wires", folder.file_name()?.to_str()?));
    let mut all: Vec<String> = with.filter_map(|folder| name(&folder)).chain(["libra".to_owned()]).collect();
    all.sort();
    all
}

#[test]
fn experiments_of_systems_run_over_every_transport() {
    let all = experiments();
    for name in &all {
        runs(&[], name, &["transport.kind=ring"]);
    }
    let of_systems = || all.iter().filter(|name| name.starts_with("../"));
    for name in of_systems() {
        runs(&[], name, &["transport.kind=udp"]);
    }
    match Net::make("systems", &["all"], &[(("all", "w0"), ("all", "d0")), (("all", "d1"), ("all", "s0"))]) {
        Err(why) => skip(Need::Netns, "systems over af_packet, af_xdp and xdp_live on a veth pair", why),
        Ok(net) => {
            let inside = net.inside("all");
            for name in of_systems() {
                for kind in ["af_packet", "af_xdp", "xdp_live"] {
                    runs(&inside, name, &[&format!("transport.kind={kind}"), FOUR]);
                }
            }
        }
    }
}
