//! Certificates of devices that the experiment starts.

use super::*;
use pktgen_wire::pcap::Reader;

#[test]
fn a_launched_switch_is_certified_and_started_anew_for_each_clause() {
    let Some(bench) = prepare("launchcertify", "switchml", "command = [\"true\"]") else { return };
    let switch = "DEVICE --in e0 --protocol switchml --first 10.40.0.1 --workers 4 --group 239.40.0.0";
    let certify = |script: &str, name: &str, words: &[&str]| {
        bench.write("switchml", &format!("{}\nready = \"round\"\n", bench.sh_at(&["e0"], script)));
        let out = bench.folder.path().join(name).display().to_string();
        let words = [&["certify", "EXPERIMENT", "--json", "--out", &out], words].concat();
        // A tap of the experiment is ignored: it has one file, whereas each clause starts a new device.
        bench.command(&words, &["transport.tap=tap.pcapng", "target.check=true"]).output().expect("it runs")
    };
    let clauses = ["--clause", "switchml-sum", "--clause", "switchml-truncated", "--clause", "switchml-reuse"];
    let refused = certify(&format!("exec {switch}"), "refused", &clauses);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("--allow-launch"), "{}", said(&refused));
    let allowed = [&clauses[..], &["--allow-launch"]].concat();
    let output = certify(&format!("exec {switch}"), "whole", &allowed);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("transport.tap is ignored"), "{}", said(&output));
    // A capture contains the frames of the cable.
    let wrong = certify(&format!("exec {switch}"), "wrong", &["--clause", "switchml-late", "--allow-launch"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
    // The device has no command that prints its counters: its output at the end is reported.
    let line = String::from_utf8_lossy(&wrong.stdout).into_owned();
    assert!(line.contains("\"counted\":{") && line.contains("fits target.check = false"), "{line}");
    let mut reader = Reader::open(&bench.folder.path().join("wrong/switchml-late.pcapng")).expect("a capture");
    let (mut frames, mut ports) = (0, BTreeSet::new());
    while let Some(packet) = reader.next().expect("readable") {
        let (from, to) = (&packet.bytes[26..30], &packet.bytes[30..34]);
        assert!(
            from.starts_with(&[10, 40]) && (to.starts_with(&[10, 40]) || to.starts_with(&[239, 40])),
            "{from:?} {to:?}"
        );
        frames += 1;
        ports.insert(packet.interface);
    }
    assert!(frames > 4 && ports.len() == 2, "{frames} at {ports:?}");
    assert_eq!(bench.left(), Vec::<String>::new());
    // A device that ends by itself fails the clause in progress; the next repeat starts a new one.
    let words = ["--clause", "switchml-sum", "--repeats", "150", "--allow-launch"];
    let dies = certify(&format!("{switch} & {}; kill $!; exit 4", awaits(200)), "dies", &words);
    assert_eq!(dies.status.code(), Some(1), "{}", said(&dies));
    let lines = String::from_utf8_lossy(&dies.stdout).into_owned();
    assert!(lines.contains("the device: expected runs on, observed"), "{lines}{}", said(&dies));
    assert_eq!(bench.left(), Vec::<String>::new());
}
