//! A black box: the software device in a process and namespace of its own, on strict layouts, without a header of ours.
//! The results of lanes and of the sender's log equal the books that the device keeps and that the run does not read.

use std::path::Path;

use crate::support::decoded::{agrees, without_books};
use crate::support::netns::Net;
use crate::support::wired::{config, in_parts, manifest, number};
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
    let spaces = ["w", "d", "s"].map(|space| net.inside(space));
    let (mut packets, mut ambiguous, mut outranked) = (0, 0, 0);
    for (run, filter) in
        [("Olaf,rate=40Mbps,seed=1", "true"), ("Olaf,rate=20Mbps,seed=2", "true"), ("Olaf,rate=20Mbps,seed=3", "false")]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let filter = format!("target.reward_filter={filter}");
        // A host that is interrupted for a moment records arrivals late: lanes must tell apart more updates than can wait in the device.
        let set = [PACKETS, FOUR, STRICT, LANES, "format.lanes_window=352", &filter];
        // A run in which a busy host lost frames is reported as invalid and repeated. So is one in which the host caused bursts: its
        // packets have more members, more of their sums are ambiguous, and they wait longer than lanes can tell updates apart.
        let whole = undisturbed("black boxes of OLAF", |i| {
            let whole = in_parts(&folder.path().join(i.to_string()), &spaces, &[&olaf(), "--run", run], &set)?;
            (number(&manifest(&whole)["counters"]["packets_received"]) > PACKETS_MIN).then_some(whole)
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
    let spaces = ["w", "d"].map(|space| net.inside(space));
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
            in_parts(&folder.path().join(format!("{i}-{attempt}")), &spaces, &[&config(name)], &set)
        });
        let Some(whole) = whole else { continue };
        let (packets, ambiguous) = agrees(&RunData::open(&whole).expect("readable"));
        assert!(packets > 50 && ambiguous == 0, "{name}: {ambiguous} of {packets}");
    }
}
