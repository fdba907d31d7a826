//! Errors of commands that were told to be quiet.

use std::fs;

use crate::captured::updates;
use crate::support::{pktgen, text};
use pktgen_wire::wire::update::PORT;

#[test]
fn failures_say_why_however_quiet() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    updates(&folder.join("whole.pcap"), 100, PORT);
    updates(&folder.join("dns.pcap"), 10, 53);
    updates(&folder.join("header.pcap"), 0, PORT);
    let whole = fs::read(folder.join("whole.pcap")).expect("a capture");
    fs::write(folder.join("cut.pcap"), &whole[..whole.len() - 7]).expect("writable");
    fs::write(folder.join("bad.toml"), "[workload]\nclusters = 0\n").expect("writable");
    let cases: [(&[&str], i32, &str); 12] = [
        (&["analyze", "dns.pcap"], 1, "no packet is of a known format"),
        (&["analyze", "header.pcap"], 1, "there is no packet"),
        (&["analyze", "cut.pcap"], 1, "damaged at byte"),
        (&["analyze", "nosuch.pcap"], 2, "no such file or folder: nosuch.pcap"),
        (&["analyze", "whole.pcap", "--metric", "aom"], 2, "--metric aom: no such metric"),
        (
            &["analyze", "dns.pcap", "--metric", "received"],
            1,
            "--metric received: has no value in these captures: no packet is of",
        ),
        (&["report", "nosuch"], 2, "nosuch"),
        (&["report", "whole.pcap"], 2, "whole.pcap: it is a capture and no run; analyze it: pktgen analyze whole.pcap"),
        (&["replay", "bad.toml"], 2, "clusters"),
        (
            &["replay", "whole.pcap"],
            2,
            "EXPERIMENT whole.pcap: it is a capture and no experiment; analyze it: pktgen analyze",
        ),
        (&["diagnose", "whole.pcap"], 2, "EXPERIMENT whole.pcap: it is a capture and no experiment; analyze it"),
        (&["merge", "nosuch", "other", "-o", "all"], 2, "nosuch"),
    ];
    for (words, code, why) in cases {
        for quiet in [&["-q"][..], &["-q", "--json"]] {
            let output = pktgen(folder, &[quiet, words].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
            assert!(said.contains(why), "{words:?}: {said}");
        }
    }
    // A run dir has no use for the flags of captures; tables hold what these gave.
    fs::create_dir(folder.join("run")).expect("a folder");
    fs::write(folder.join("run/manifest.json"), "{}").expect("writable");
    assert!(pktgen(folder, &["analyze", "whole.pcap", "--tables", "rows"]).status.success());
    let flags = ["--format", "olaf", "--anchor", "5", "--offset", "1s", "--tables", "more"];
    for (path, more, said) in
        [("run", &["--forwards"][..], ", --forwards: for captures only"), ("rows", &[], ": rows has")]
    {
        let output = pktgen(folder, &[&["analyze", path][..], &flags, more].concat());
        let expected = format!("--format, --anchor, --offset, --tables{said}");
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(&expected), "{}", text(&output.stderr));
    }
    let output = pktgen(folder, &["report", "rows"]);
    let expected = "rows: it has tables of captures and no runs; analyze them: pktgen analyze rows";
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    // Success prints nothing.
    let output = pktgen(folder, &["-q", "analyze", "whole.pcap"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn an_unreadable_run_hides_no_other_and_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let experiment = "name = \"two\"\n[workload]\nclusters = 2\nworkers_per_cluster = 2\nupdates = 10\n\
        [schedule]\nkind = \"poisson\"\noffered = \"1Gbps\"\n[target]\nprogram = \"olaf\"\n[sweep]\nseeds = \"1..2\"\n";
    fs::write(folder.join("x.toml"), experiment).expect("writable");
    let output = pktgen(folder, &["-q", "replay", "x.toml", "--no-report", "--out", "s"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fs::remove_file(folder.join("s/seed=1/sent.parquet")).expect("there");
    let output = pktgen(folder, &["analyze", "s", "--metric", "only_there"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("s/seed=1 was not analysed") && said.contains("no such metric"), "{said}");
    let output = pktgen(folder, &["analyze", "s", "--wrong"]);
    let (listed, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(listed.starts_with("s/seed=2: ") && !listed.contains("s/seed=1"), "{listed}");
    assert!(said.contains("s/seed=1 was not checked"), "{said}");
    fs::remove_file(folder.join("s/seed=2/sent.parquet")).expect("there");
    let output = pktgen(folder, &["analyze", "s", "--wrong"]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("pktgen: s/seed=1 was not checked"), "{said}");
    assert!(said.contains("s/seed=2/sent.parquet") && !said.contains("s/seed=2 was not checked"), "{said}");
}
