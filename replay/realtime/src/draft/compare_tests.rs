use pktgen_core::config::Document;
use pktgen_wire::pcap::{Form, Writer, WriterOptions};

use super::*;
use crate::run::Experiment;

const SMALL: &str = "[workload]\nclusters = 3\nworkers_per_cluster = 2\nupdates = 40\nbytes = \"256B\"\n[schedule]\noffered = \"1Gbps\"\n[transport]\nkind = \"af_packet\"\ninterfaces = [\"a\", \"b\", \"c\", \"d\"]\n";

fn plan(more: &str) -> Plan {
    let experiment =
        Experiment::open(pktgen_registry::all(), Document::parse(&format!("{SMALL}{more}"), "small").unwrap()).unwrap();
    experiment.draft(&experiment.runs[0]).unwrap()
}

/// All frames of a run, in order.
fn frames(more: &str) -> Vec<Vec<u8>> {
    let mut expected = Expected::new(plan(more)).unwrap();
    while !expected.over {
        expected.make();
    }
    let mut waiting: Vec<_> = expected.waiting.into_values().collect();
    let mut all = Vec::new();
    while waiting.iter().any(|own| !own.ahead.is_empty()) {
        all.extend(waiting.iter_mut().filter_map(|own| own.ahead.pop_front()));
    }
    all
}

fn judged(more: &str, at: At, frames: &[Vec<u8>]) -> Compared {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcap");
    let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcap)).unwrap();
    for (i, frame) in frames.iter().enumerate() {
        writer.packet(0, i as i64, frame, frame.len() as u32).unwrap();
    }
    writer.finish().unwrap();
    compare(plan(more), &path, at).unwrap()
}

#[test]
fn packets_that_were_cut_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcap");
    let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcap)).unwrap();
    writer.packet(0, 0, &frames("")[0][..128], 256).unwrap();
    writer.finish().unwrap();
    let why = compare(plan(""), &path, At::Workers).unwrap_err().to_string();
    assert!(why.contains("packet 1 was cut to 128 of 256 bytes"), "{why}");
}

/// Frames of others are skipped, whatever is left of them; what may be of the run must be whole.
#[test]
fn packets_of_others_may_be_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcap");
    let all = frames("");
    let other = |kept: usize, change: fn(&mut Vec<u8>)| {
        let mut cut = all[0][..kept].to_vec();
        change(&mut cut);
        let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcap)).unwrap();
        for (t, frame) in (0..).zip(&all[..9]) {
            writer.packet(0, t, frame, frame.len() as u32).unwrap();
        }
        writer.packet(0, 9, &cut, 256).unwrap();
        writer.finish().unwrap();
        compare(plan(""), &path, At::Workers).map(|compared| (compared.right, compared.wrong, compared.others)).ok()
    };
    let from = |frame: &mut Vec<u8>| frame[26..30].copy_from_slice(&[192, 168, 1, 1]);
    assert_eq!(other(128, from), Some((9, 0, 1)));
    let over_ipv6 = |frame: &mut Vec<u8>| frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    assert_eq!(other(20, over_ipv6), Some((9, 0, 1)));
    // Of the run; and so little of it that it may be.
    assert_eq!((other(128, |_| ()), other(20, |_| ()), other(12, |_| ())), (None, None, None));
}

/// The field that is wrong in the first wrong packet.
fn field(compared: &Compared) -> String {
    match &compared.first {
        Some(Wrong { mistake: Mistake::Field { field, .. }, .. }) => field.clone(),
        other => panic!("{other:?}"),
    }
}

const FORMS: [&str; 3] =
    ["", "on_wire = \"strict\"\n", "on_wire = \"strict\"\n[target]\nprofile = \"alveo-u55c-olaf\"\n"];

#[test]
fn what_was_sent_is_right_in_every_form_and_gaps_are_counted() {
    for form in FORMS {
        let all = frames(form);
        assert_eq!(all.len(), 240);
        let whole = judged(form, At::Workers, &all);
        assert_eq!(
            (whole.right, whole.wrong, whole.passed_over, whole.others),
            (240, 0, Some(0), 0),
            "{form} {whole:?}"
        );
        let fewer: Vec<_> =
            all.iter().enumerate().filter(|(i, _)| i % 7 != 3).map(|(_, frame)| frame.clone()).collect();
        let gaps = judged(form, At::Workers, &fewer);
        assert_eq!((gaps.right, gaps.wrong), (fewer.len() as u64, 0), "{form} {gaps:?}");
        assert!(gaps.passed_over > Some(20));
        // What the capture ends before, and a worker of which nothing is there, are missing, too.
        assert_eq!(judged(form, At::Workers, &all[..100]).passed_over, Some(140));
        let source = source_of(&all[0]);
        let others: Vec<_> = all.iter().filter(|frame| source_of(frame) != source).cloned().collect();
        assert_eq!(judged(form, At::Workers, &others).passed_over, Some(40));
        // What nobody of the run sends is others'.
        let mut strange = all[0].clone();
        let at = if strange[12] == 0x81 { 30 } else { 26 };
        strange[at..at + 4].copy_from_slice(&[9, 9, 9, 9]);
        assert_eq!(judged(form, At::Workers, &[strange.clone()]).others, 1);
        // So does the probe before a run, which uses the address of a worker. Later frames are recognised.
        let mut probe = all[0].clone();
        let payload = if probe[12] == 0x81 { 46 } else { 42 };
        probe[payload..payload + 20].copy_from_slice(b"pktgen launch probe ");
        let after = judged(form, At::Workers, &[&[strange, probe][..], &all].concat());
        assert_eq!((after.others, after.right, after.wrong), (2, 240, 0), "{form} {after:?}");
    }
}

/// What stands behind the damage is not known.
#[test]
fn frames_that_are_not_there_are_counted_only_in_whole_captures() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcap");
    let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcap)).unwrap();
    for (t, frame) in (0..).zip(&frames("")[..100]) {
        writer.packet(0, t, frame, frame.len() as u32).unwrap();
    }
    writer.finish().unwrap();
    let compared = || {
        let compared = compare(plan(""), &path, At::Workers).unwrap();
        (compared.right, compared.damage.is_some(), compared.passed_over)
    };
    assert_eq!(compared(), (100, false, Some(140)));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(compared(), (99, true, None));
}

#[test]
fn reordered_packets_are_right_and_counted() {
    for form in FORMS {
        let all = frames(form);
        let mut swapped = all.clone();
        let other = (1..all.len()).find(|at| source_of(&all[*at]) == source_of(&all[0])).expect("more of this sender");
        swapped.swap(0, other);
        let found = judged(form, At::Workers, &swapped);
        assert_eq!(
            (found.right, found.wrong, found.reordered, found.passed_over),
            (240, 0, 1, Some(0)),
            "{form} {found:?}"
        );
        // Backwards, all but the first of each of six senders are behind a later one.
        let backwards: Vec<_> = all.iter().rev().cloned().collect();
        let found = judged(form, At::Workers, &backwards);
        assert_eq!(
            (found.right, found.wrong, found.reordered, found.passed_over),
            (240, 0, 234, Some(0)),
            "{form} {found:?}"
        );
        // One that is missing stays missing.
        swapped.remove(other);
        let found = judged(form, At::Workers, &swapped);
        assert_eq!(
            (found.right, found.wrong, found.reordered, found.passed_over),
            (239, 0, 0, Some(1)),
            "{form} {found:?}"
        );
    }
}

#[test]
fn every_byte_that_is_wrong_is_named_by_its_field() {
    for form in FORMS {
        let all = frames(form);
        let tag = if all[5][12] == 0x81 { 4 } else { 0 };
        let begin = 42 + tag;
        for byte in (0..all[5].len()).step_by(3).chain([26 + tag, 30 + tag, 36 + tag, begin, begin + 5]) {
            // The source determines the sender.
            if (26 + tag..30 + tag).contains(&byte) || (12..14 + tag).contains(&byte) {
                continue;
            }
            let mut damaged = all.clone();
            damaged[5][byte] ^= 0x10;
            let found = judged(form, At::Workers, &damaged);
            // Bits that the format does not read belong to no field.
            let unread = tag == 0 && form.is_empty() && byte == begin + 23;
            assert_eq!(found.wrong, u64::from(!unread), "{form} byte {byte}: {found:?}");
            let Some(first) = found.first else { continue };
            assert_eq!(first.packet, 6);
            let expected = match byte - if byte >= 14 { tag } else { 0 } {
                0..6 => "eth.dst",
                6..12 => "eth.src",
                14 => "ip.version",
                30..34 => "ip.dst",
                36..38 => "udp.dst",
                _ => "",
            };
            let Mistake::Field { field, byte: at, expected: should, found } = &first.mistake else {
                panic!("{first:?}")
            };
            assert!(field.starts_with(expected), "byte {byte}: {first:?}");
            assert!((*at..at + 8).contains(&byte) && should != found, "byte {byte}: {first:?}");
        }
    }
    let mut damaged = frames("");
    damaged[5][42 + 30 + 4 * 17] ^= 1;
    assert_eq!(field(&judged("", At::Workers, &damaged)), "olaf.gradient[17]");
    damaged[5].truncate(200);
    assert_eq!(judged("", At::Workers, &damaged[5..6]).wrong, 1);
}

#[test]
fn behind_the_device_what_it_rewrites_does_not_count() {
    let form = FORMS[2];
    let mut all = frames(form);
    let tag = if all[0][12] == 0x81 { 4 } else { 0 };
    for frame in &mut all {
        // The card sums payloads, and the destination is the server's group.
        let len = frame.len();
        frame[len - 1] ^= 0x3f;
        frame[30 + tag] ^= 1;
    }
    let found = judged(form, At::Server, &all);
    assert_eq!((found.wrong, found.right), (0, 240), "{found:?}");
    all[8][36 + tag] ^= 1;
    let found = judged(form, At::Server, &all);
    assert_eq!((found.first.as_ref().unwrap().packet, field(&found).as_str()), (9, "udp.dst"));
}

#[test]
fn behind_a_device_that_keeps_payloads_every_bit_of_them_counts() {
    for form in ["", "on_wire = \"strict\"\n"] {
        let all = frames(form);
        let mut damaged = all.clone();
        let last = damaged[7].len() - 1;
        damaged[7][last] ^= 0x10;
        let found = judged(form, At::Server, &damaged);
        assert_eq!((found.wrong, found.right), (1, 239), "{form}: {found:?}");
        assert_eq!(found.first.as_ref().unwrap().packet, 8, "{form}");
        assert!(field(&found).ends_with("gradient[45]"), "{form}: {found:?}");
        let found = judged(form, At::Server, &all);
        assert_eq!((found.wrong, found.right, found.copies), (0, 240, 0), "{form}: {found:?}");
    }
    let mut renamed = frames("");
    renamed[7][42 + 9] ^= 1;
    assert_eq!(field(&judged("", At::Server, &renamed)), "olaf.worker");
}

#[test]
fn a_copy_is_called_a_copy() {
    for form in FORMS {
        for at in [At::Workers, At::Server] {
            let mut all = frames(form);
            all.insert(20, all[4].clone());
            all.push(all[240].clone());
            let found = judged(form, at, &all);
            assert_eq!((found.right, found.wrong, found.copies), (240, 2, 2), "{form} {found:?}");
            assert_eq!(found.first.unwrap().to_string(), "packet 21 is a copy of packet 5");
        }
    }
    // One that differs from all, after all of its sender's frames.
    let mut all = frames("");
    let mut more = all[0].clone();
    more[60] ^= 1;
    all.push(more);
    assert_eq!(
        judged("", At::Workers, &all).first.unwrap().to_string(),
        "packet 241 is more than this sender should send"
    );
}
