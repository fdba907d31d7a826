//! A black box: the software device in a process and namespace of its own, on strict layouts, without a header of ours.
//! The results of lanes and of the sender's log equal the books that the device keeps and that the run does not read.

use std::path::{Path, PathBuf};

use crate::support::decoded::{agrees, without_books};
use crate::support::netns::Net;
use crate::support::serving::Serving;
use crate::support::wired;
use crate::support::wired::{is_disturbed, is_whole, manifest, number, pktgen, said, serving};
use pktgen_records::provenance::{Answer, Provenance};
use pktgen_records::run::RunData;
use pktgen_testing::{Need, skip, undisturbed};

const STRICT: &str = "transport.on_wire=strict";
const LANES: &str = "format.lanes=true";
const PACKETS: &str = "transport.kind=af_packet";
/// For a run on a host that keeps up.
const PACKETS_MIN: u64 = 1500;
const FOUR: &str = "transport.interfaces=[\"w0\",\"d0\",\"d1\",\"s0\"]";
const TWO: &str = "transport.interfaces=[\"w0\",\"d0\"]";

fn olaf() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/olaf/table1-wires.toml").display().to_string()
}

/// Runs workers, device and server of Table 1's experiment, each in its namespace, and joins their parts.
fn olaf_parts(net: &Net, folder: &Path, run: &str, set: &[&str]) -> PathBuf {
    let dirs: [PathBuf; 4] = ["workers", "device", "server", "whole"].map(|name| folder.join(name));
    let texts = dirs.each_ref().map(|dir| dir.display().to_string());
    // A host that is interrupted for a moment records arrivals late: lanes must tell apart more updates than can wait in the device.
    let set = [&[PACKETS, FOUR, STRICT, LANES, "format.lanes_window=352"][..], set].concat();
    let part = |space: &str, part: &str, out: &str| {
        let words = [part, &olaf(), "--run", run, "--out", out, "--idle", "3s", "--for", "300s"];
        Serving::start(pktgen(&net.inside(space), &words, &set), part)
    };
    let (server, device) = (part("s", "capture", &texts[2]), part("d", "target", &texts[1]));
    let words = ["-q", "replay", &olaf(), "--role", "workers", "--run", run, "--out", &texts[0]];
    let output = pktgen(&net.inside("w"), &words, &set).output().expect("it runs");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
    let ended = (output.status.code(), device.end(), server.end());
    let words = ["-q", "merge", &texts[0], &texts[1], &texts[2], "-o", &texts[3]];
    let output = pktgen(&[], &words, &[]).output().expect("it runs");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
    assert!(ended == (Some(0), 0, 0) || is_disturbed(&manifest(&dirs[3])), "{ended:?}");
    dirs[3].clone()
}

/// Compares the totals of packets without names with the books and with what the ledger found by content. Returns the
/// number of packets and of ambiguous ones.
fn balances_agree(dir: &Path) -> (u64, u64) {
    let run = RunData::open(dir).expect("readable");
    let records = &*run.records.as_ref().expect("records").whole().expect("readable");
    let layout = run.manifest.lanes.as_ref().expect("lanes");
    let lanes = run.lanes.as_ref().expect("lanes");
    let found = Provenance::resolve(&run.manifest, layout, &without_books(records), lanes).expect("it resolves");
    let (account, balance) = (&found.account, &run.manifest.balance);
    assert_eq!(found.packets(|answer| *answer == Answer::Contradiction), 0);
    assert_eq!(account.sent, balance.sent);
    let unidentified = found.unidentified();
    assert_eq!(account.alone + account.merged + unidentified, balance.delivered_alone + balance.delivered_merged);
    let ended = balance.subsumed + balance.outranked + balance.dropped_total();
    assert_eq!(account.overtaken + account.missing + account.unclear - unidentified, ended, "{account:?} {balance:?}");
    let ambiguous = found.packets(|answer| matches!(answer, Answer::Ambiguous(_)));
    if ambiguous == 0 {
        assert_eq!((account.alone, account.merged), (balance.delivered_alone, balance.delivered_merged));
    }
    assert!(balance.subsumed > 0 && balance.delivered_merged > 1000, "{balance:?}");
    (found.packets(|answer| *answer != Answer::Other), ambiguous)
}

#[test]
fn olaf_is_decoded_with_replacement_and_filter() {
    let cables = [(("w", "w0"), ("d", "d0")), (("d", "d1"), ("s", "s0"))];
    let net = match Net::make("blackbox", &["w", "d", "s"], &cables) {
        Err(why) => return skip(Need::Netns, "af_packet between namespaces", why),
        Ok(net) => net,
    };
    let (mut packets, mut ambiguous, mut outranked) = (0, 0, 0);
    for (run, filter) in
        [("Olaf,rate=40Mbps,seed=1", "true"), ("Olaf,rate=20Mbps,seed=2", "true"), ("Olaf,rate=20Mbps,seed=3", "false")]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // A run in which a busy host lost frames is reported as invalid and repeated. So is one in which the host caused bursts: its
        // packets have more members, more of their sums are ambiguous, and they wait longer than lanes can tell updates apart.
        let whole = undisturbed("black boxes of OLAF", |i| {
            let own = folder.path().join(i.to_string());
            std::fs::create_dir(&own).expect("a folder");
            let whole = olaf_parts(&net, &own, run, &[&format!("target.reward_filter={filter}")]);
            let manifest = manifest(&whole);
            (is_whole(&manifest) && number(&manifest["counters"]["packets_received"]) > PACKETS_MIN).then_some(whole)
        });
        let Some(whole) = whole else { return };
        let (own, unclear) = balances_agree(&whole);
        (packets, ambiguous) = (packets + own, ambiguous + unclear);
        outranked += number(&manifest(&whole)["balance"]["outranked"]);
    }
    assert!(outranked > 100, "the filter was at work: {outranked}");
    assert!(packets > 3000 && ambiguous * 1000 < packets, "{ambiguous} of {packets} packets are ambiguous");
}

#[test]
fn sums_of_training_are_decoded() {
    let net = match Net::make("blackrounds", &["w", "d"], &[(("w", "w0"), ("d", "d0"))]) {
        Err(why) => return skip(Need::Netns, "af_packet between namespaces", why),
        Ok(net) => net,
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stragglers = [
        "workload.scale=0.002",
        "workload.elements=256",
        "workload.straggler_probability=0.4",
        "workload.typical=300ms",
    ];
    const ROCE: &str = "transport.on_wire=roce";
    for (i, (name, layout, more)) in [
        ("switchml", STRICT, &["workload.scale=0.002"][..]),
        ("switchml", ROCE, &["workload.scale=0.002"]),
        ("trio-ml", STRICT, &stragglers),
    ]
    .into_iter()
    .enumerate()
    {
        let set = [&[PACKETS, TWO, layout, LANES, "workload.iterations=3"][..], more].concat();
        let whole = undisturbed(&format!("a black box of {name}"), |attempt| {
            let dirs = ["workers", "device", "whole"].map(|part| folder.path().join(format!("{i}-{part}-{attempt}")));
            let texts = dirs.each_ref().map(|dir| dir.display().to_string());
            let device = serving(&net.inside("d"), "target", name, &dirs[1], &set);
            let words = ["-q", "replay", &wired::config(name), "--role", "workers", "--out", &texts[0]];
            let output = pktgen(&net.inside("w"), &words, &set).output().expect("it runs");
            assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {}", said(&output));
            let ended = (output.status.code(), device.end());
            let output =
                pktgen(&[], &["-q", "merge", &texts[0], &texts[1], "-o", &texts[2]], &[]).output().expect("it runs");
            assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {}", said(&output));
            let is_whole = is_whole(&manifest(&dirs[2]));
            assert!(ended == (Some(0), 0) || !is_whole, "{name}: {ended:?}");
            is_whole.then(|| dirs[2].clone())
        });
        let Some(whole) = whole else { continue };
        let (packets, ambiguous) = agrees(&RunData::open(&whole).expect("readable"));
        assert!(packets > 50 && ambiguous == 0, "{name}: {ambiguous} of {packets}");
    }
}
