//! Interoperability: other tools read our files, and we read theirs.

use std::path::Path;
use std::process::Command;

use pktgen_testing::{Need, skip};

use super::*;
use crate::time::NS;

/// Runs a tool; reports and returns `None` if it is not installed.
fn run(tool: &str, args: &[&str]) -> Option<String> {
    match Command::new(tool).args(args).output() {
        Err(error) => {
            let need = Need::of_program(tool).expect("a need");
            skip(need, &format!("our captures, read by {tool}"), error);
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{tool} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
    }
}

const ANCHOR: u64 = 1_700_000_000_123_456_789;
const FORMS: [(Form, Precision); 4] = [
    (Form::Pcap, Precision::Micro),
    (Form::Pcap, Precision::Nano),
    (Form::Pcapng, Precision::Micro),
    (Form::Pcapng, Precision::Nano),
];

/// Writes twenty Ethernet frames, cut at 64 bytes.
fn write(path: &Path, form: Form, precision: Precision) {
    let options = WriterOptions { precision, snap: 64, anchor_unix_ns: ANCHOR, ..WriterOptions::new(form) };
    let mut writer = Writer::create(path, options).unwrap();
    for i in 0..20u8 {
        let mut frame = vec![i; 60 + usize::from(i)];
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        writer.packet(0, time(i), &frame, frame.len() as u32).unwrap();
    }
    writer.finish().unwrap();
}

fn time(i: u8) -> i64 {
    i64::from(i) * 1_234_567_891
}

/// Returns the ns since 1970 that a file of this precision preserves.
fn kept(i: u8, precision: Precision) -> u64 {
    let ns = ANCHOR + (time(i) / NS) as u64;
    if precision == Precision::Micro { ns / 1000 * 1000 } else { ns }
}

#[test]
fn tcpdump_reads_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    for (form, precision) in FORMS {
        let path = folder.path().join("x");
        write(&path, form, precision);
        let args = ["-r", path.to_str().unwrap(), "-tt", "--nano", "-nn", "-e"];
        let Some(text) = run("tcpdump", &args) else { return };
        let lines: Vec<_> = text.lines().filter(|line| line.contains("ethertype")).collect();
        assert_eq!(lines.len(), 20, "{form:?} {precision:?}: {text}");
        for (i, line) in (0..20).zip(lines) {
            let ns = kept(i, precision);
            let stamp = format!("{}.{:09} ", ns / 1_000_000_000, ns % 1_000_000_000);
            assert!(line.starts_with(&stamp), "{form:?} {precision:?}: {stamp} {line}");
            assert!(line.contains(&format!("length {}", 60 + i)), "{line}");
        }
    }
}

#[test]
fn tshark_and_capinfos_read_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    for (form, precision) in FORMS {
        let path = folder.path().join("x");
        write(&path, form, precision);
        let name = path.to_str().unwrap();
        let fields = ["-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len"];
        let args = [&["-r", name, "-T", "fields"][..], &fields].concat();
        let Some(text) = run("tshark", &args) else { return };
        let expected: String = (0..20)
            .map(|i| {
                let ns = kept(i, precision);
                let len = 60 + u32::from(i);
                format!("{}.{:09}\t{len}\t{}\n", ns / 1_000_000_000, ns % 1_000_000_000, len.min(64))
            })
            .collect();
        assert_eq!(text, expected, "{form:?} {precision:?}");
        let Some(text) = run("capinfos", &["-c", "-M", name]) else { return };
        assert!(text.contains("Number of packets:   20"), "{text}");
    }
}

#[test]
fn we_read_what_tcpdump_and_editcap_write() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
    write(&ours, Form::Pcapng, Precision::Nano);
    let (from, to) = (ours.to_str().unwrap(), theirs.to_str().unwrap());
    let conversions: [(&str, &[&str], Precision); 5] = [
        ("tcpdump", &["-r", from, "-w", to], Precision::Micro),
        ("tcpdump", &["-r", from, "-w", to, "--nano"], Precision::Nano),
        ("editcap", &["-F", "pcap", from, to], Precision::Micro),
        ("editcap", &["-F", "nsecpcap", from, to], Precision::Nano),
        ("editcap", &["-F", "pcapng", from, to], Precision::Nano),
    ];
    for (tool, args, precision) in conversions {
        if run(tool, args).is_none() {
            continue;
        }
        let mut reader = Reader::open(&theirs).unwrap();
        for i in 0..20u8 {
            let packet = reader.next().unwrap().unwrap();
            assert_eq!(packet.time.unwrap().unix_ns() as u64, kept(i, precision), "{tool} {args:?}");
            assert_eq!(
                (packet.len, packet.bytes.len(), packet.bytes[20]),
                (60 + u32::from(i), 64.min(60 + usize::from(i)), i)
            );
        }
        assert!(reader.next().unwrap().is_none());
    }
}
