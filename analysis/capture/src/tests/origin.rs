//! Tests of the origin of times in files that do not note it.

use super::*;

const DAY_NS: u64 = 86_400 * 1_000_000_000;
/// A day of 2023.
const BEGIN_NS: u64 = 1_700_000_000 * 1_000_000_000;

/// A frame of ARP.
fn arp() -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x06]);
    frame
}

/// Writes a file without a note: a frame at `stray_ns` since 1970, then those of `sent` from `begin_ns` on.
fn file(path: &Path, (stray_ns, stray): (u64, &[u8]), begin_ns: u64, sent: &[(i64, Vec<u8>)]) {
    let mut writer = Writer::create(path, WriterOptions::new(Form::Pcap)).unwrap();
    writer.packet_at(0, stray_ns, stray, stray.len() as u32).unwrap();
    writer.set_anchor(begin_ns, false);
    sent.iter().for_each(|(t, frame)| writer.packet(0, *t, frame, frame.len() as u32).unwrap());
    writer.finish().unwrap();
}

fn notes_of<'a>(measured: &'a Measured, code: &str) -> Vec<&'a str> {
    measured.notes.iter().filter(|note| note.note == code).map(|note| &note.text[..]).collect()
}

/// A host that was not connected captured a frame long before, or did so before its clock was set.
#[test]
fn frames_of_other_protocols_are_no_origin_of_times() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["sent.pcap", "received.pcap"].map(|name| dir.path().join(name));
    let sides = some(0, 100_000);
    for stray_ns in [0, BEGIN_NS - 27 * DAY_NS, BEGIN_NS - DAY_NS, BEGIN_NS] {
        for strays in [[stray_ns, BEGIN_NS], [BEGIN_NS, stray_ns], [stray_ns; 2]] {
            for ((name, sent), stray_ns) in names.iter().zip(&sides).zip(strays) {
                file(name, (stray_ns, &arp()), BEGIN_NS, sent);
            }
            let alone = CapturePlan::new(all().protocols.formats, vec![names[1].clone()], Vec::new());
            let stated = CapturePlan { anchor: Some(Anchor(BEGIN_NS)), ..both(&names) };
            for plan in [both(&names), alone, stated] {
                let measured = analysed(&plan);
                assert_eq!(value(&measured.lines, "received"), Some(20.0), "{strays:?} {:?}", measured.notes);
                let sent = (!plan.sender.is_empty()).then(|| value(&measured.lines, "sent"));
                assert!(sent.is_none_or(|sent| sent == Some(20.0)), "{strays:?} {:?}", measured.notes);
                assert!(notes_of(&measured, "not_counted").is_empty(), "{strays:?} {:?}", measured.notes);
            }
        }
    }
    // Virtual times with a frame of today, and files of one side with one of 1970.
    let one = |files: &[PathBuf]| analysed(&CapturePlan::new(all().protocols.formats, files.into(), Vec::new()));
    file(&names[0], (BEGIN_NS, &arp()), 0, &sides[0]);
    assert!(notes_of(&one(&names[..1]), "clocks")[0].contains("taken to be virtual"));
    let halves = [&sides[1][..10], &sides[1][10..]];
    for ((name, half), stray_ns) in names.iter().zip(halves).zip([0, BEGIN_NS]) {
        file(name, (stray_ns, &arp()), BEGIN_NS, half);
    }
    assert_eq!(value(&one(&names).lines, "received"), Some(20.0));
}

#[test]
fn packets_far_from_the_origin_of_times_ask_for_another_origin() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcap");
    let [_, received] = some(0, 100_000);
    let update = frame_of(&Sent { worker: 9, seq: 0, t_gen: 0, t_sent: 0, arrives: None }, 1);
    let mut question = update.clone();
    question[34..38].copy_from_slice(&[0, 53, 0, 53]);
    let analysed = |anchor: Option<u64>| {
        let plan = CapturePlan::new(all().protocols.formats, vec![path.clone()], Vec::new());
        analysed(&CapturePlan { anchor: anchor.map(Anchor), ..plan })
    };
    // An update of a run before.
    file(&path, (BEGIN_NS - 27 * DAY_NS, &update), BEGIN_NS, &received);
    let early = analysed(None);
    assert_eq!(value(&early.lines, "received"), Some(1.0));
    let notes = notes_of(&early, "not_counted");
    let expected = "c.pcap: 20 packets are more than 26 days from the origin of times, 1697667200 s after 1970";
    assert!(notes.len() == 1 && notes[0].contains(expected) && notes[0].contains("--anchor NS"), "{notes:?}");
    let stated = analysed(Some(BEGIN_NS));
    assert_eq!(value(&stated.lines, "received"), Some(20.0));
    assert!(notes_of(&stated, "not_counted")[0].contains("1 packets are more than 26 days"), "{:?}", stated.notes);
    // Nothing is counted: the origin is the cause, and no format.
    for stray in [&arp(), &question] {
        file(&path, (BEGIN_NS, stray), BEGIN_NS, &received);
        let wrong = analysed(Some(0));
        let expected = "no packet could be counted, of 21: the other notes say why";
        assert_eq!(notes_of(&wrong, "nothing_found"), [expected], "{:?}", wrong.notes);
        assert!(wrong.notes.iter().all(|note| !note.text.contains("--format")), "{:?}", wrong.notes);
    }
}
