//! `pktgen dissector` on captures of our own runs: tshark shows the values of the formats' readers, field by field.

use std::path::Path;
use std::process::Command;

use crate::support::captures;
use crate::support::packets::parsed::parsed;
use crate::support::packets::tshark::{compare, packets, show_all, tshark};
use crate::support::tools;
use pktgen_core::registry::find;
use pktgen_registry::all;
use pktgen_wire::pcap::Reader;
use pktgen_wire::wire::frame::Datagram;
use pktgen_wire::wire::layout::{Rest, Value};

fn dissector(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pktgen")).arg("dissector").args(args).output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the payloads of a capture, all of which must be of the format.
fn payloads(file: &Path, format: &str) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(file).expect("a capture");
    let mut all = Vec::new();
    while let Some(packet) = reader.next().expect("a packet") {
        let datagram = Datagram::parse(packet.bytes).expect("a datagram");
        assert!(parsed(format, datagram.payload).is_some(), "{}: packet {}", file.display(), all.len());
        all.push(datagram.payload.to_vec());
    }
    assert!(all.len() > 10, "{}: {}", file.display(), all.len());
    all
}

/// Compares all fields of the first packets, including items.
fn in_detail(folder: &Path, file: &Path, format: &'static str, payloads: &[Vec<u8>]) -> Option<()> {
    let layout = find(all().protocols.formats, "format", format, "here").expect("a format").layout();
    let all = show_all(&[format]);
    let args: Vec<&str> = ["-c", "20", "-T", "pdml"].into_iter().chain(all.iter().map(String::as_str)).collect();
    let shown = packets(&tshark(folder, file, &args)?, format);
    assert_eq!(shown.len(), payloads.len().min(20));
    for (i, (packet, payload)) in shown.iter().zip(payloads).enumerate() {
        let what = format!("{}: packet {i}", file.display());
        assert!(packet.experts.is_empty(), "{what}: {:?}", packet.experts);
        let items: Vec<_> = match layout.decode(payload).expect("a message").message.rest {
            Rest::Items { fields, .. } => fields.iter().map(|field| field.name).collect(),
            _ => Vec::new(),
        };
        compare(packet, &parsed(format, payload).expect("a message"), &items, &what);
    }
    Some(())
}

/// Compares the fields before the items, of all packets.
fn in_short(folder: &Path, file: &Path, format: &'static str, payloads: &[Vec<u8>]) -> Option<()> {
    let head = find(all().protocols.formats, "format", format, "here").expect("a format").layout().head;
    let said = parsed(format, &payloads[0]).expect("a message");
    let names: Vec<_> = head.iter().map(|f| f.name).filter(|n| said.fields.iter().any(|(name, _)| name == n)).collect();
    let fields: Vec<String> = names.iter().map(|name| format!("{format}.{name}")).collect();
    let none = format!("{format}.items:0");
    let mut args = vec!["-o", &none, "-T", "fields"];
    args.extend(fields.iter().flat_map(|field| ["-e", field]));
    let text = tshark(folder, file, &args)?;
    assert_eq!(text.lines().count(), payloads.len());
    for (line, payload) in text.lines().zip(payloads) {
        let said = parsed(format, payload).expect("a message");
        let ours: Vec<_> = names
            .iter()
            .map(|name| match said.fields.iter().find(|(given, _)| given == name) {
                Some((_, Value::Int(number))) => number.to_string(),
                other => panic!("{name}: {other:?}"),
            })
            .collect();
        let theirs: Vec<_> = line.split('\t').map(|text| text.replace("True", "1").replace("False", "0")).collect();
        assert_eq!(theirs, ours, "{}", file.display());
    }
    Some(())
}

#[test]
fn tshark_shows_our_runs_as_our_readers_read_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("pktgen.lua"), dissector(&[])).expect("writable");
    let mut seen = Vec::new();
    for (format, file) in [captures::runs(folder.path()), captures::taps(folder.path())].concat() {
        let payloads = payloads(&file, format);
        if in_detail(folder.path(), &file, format, &payloads).is_none() {
            return;
        }
        // Taps record the same packets again.
        if file.ends_with("capture.pcapng") {
            in_short(folder.path(), &file, format, &payloads).expect("tshark is there");
            tools::is_clean(&file, folder.path()).expect("tshark is there");
        }
        let layout = find(all().protocols.formats, "format", format, "here").expect("a format").layout();
        seen.extend(payloads.iter().map(|payload| layout.decode(payload).expect("a message").message.name));
    }
    for name in
        ["update", "ack", "gradients", "256 values", "push hot", "push cold", "result hot", "result cold", "end"]
    {
        assert!(seen.contains(&name), "no {name} was seen");
    }
}

#[test]
fn every_format_is_in_the_tables() {
    let text = dissector(&["--tables"]);
    for format in all().protocols.formats {
        assert!(text.contains(&format!("{}: {}", format.name(), pktgen_core::registry::Named::about(*format))));
    }
}

/// Between these marks, docs/wireshark.md shows tshark's output for a run.
const MARKS: [&str; 2] = ["<!-- tshark -->\n```text\n", "```\n<!-- end of tshark -->"];

#[test]
fn the_page_shows_what_tshark_prints() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("pktgen.lua"), dissector(&[])).expect("writable");
    let (_, file) = captures::runs(folder.path()).remove(0);
    let args = [
        "-c",
        "40",
        "-T",
        "fields",
        "-e",
        "_ws.col.No.",
        "-e",
        "ip.src",
        "-e",
        "_ws.col.Protocol",
        "-e",
        "_ws.col.Info",
    ];
    let Some(lines) = tshark(folder.path(), &file, &args) else { return };
    let lines: String = lines.lines().skip(35).map(|line| format!("{line}\n")).collect();
    let detail = tshark(folder.path(), &file, &["-c", "1", "-o", "olaf.items:3", "-O", "olaf"]).expect("it is there");
    let (_, detail) = detail.split_once("pktgen olaf").expect("a tree");
    let fresh = format!("{}\npktgen olaf{}\n", lines.replace('\t', "  "), detail.trim_end());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/wireshark.md");
    let text = std::fs::read_to_string(&path).expect("docs/wireshark.md");
    let start = text.find(MARKS[0]).expect("a mark") + MARKS[0].len();
    let end = start + text[start..].find(MARKS[1]).expect("the other mark");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, [&text[..start], &fresh, &text[end..]].concat()).expect("writable");
    } else {
        assert_eq!(
            text[start..end],
            fresh,
            "docs/wireshark.md is old; run with UPDATE_DOCS=1 and review the difference"
        );
    }
}
