//! Frames and times through files.

use pktgen_core::config::Document;
use pktgen_core::time::{MS, SECOND};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::transport::Frames;

/// Longest frame that is sent: shorter than those of foreign captures.
const FRAME_MAX: usize = 200;

/// `[transport]` with two files of these names in `folder`.
fn plan(folder: &TempDir, names: [&str; 2]) -> TransportPlan {
    let [a, b] = names.map(|name| folder.path().join(name).display().to_string());
    let text = format!("[transport]\nkind = \"pcap\"\nfiles = [\"{a}\", \"{b}\"]\n");
    TransportPlan::read(&mut Document::parse(&text, "test").unwrap(), Frames::default()).unwrap()
}

fn open(plan: &TransportPlan, ends: &[End]) -> Vec<Box<dyn Wire>> {
    plan.kind.open(plan, ends, FRAME_MAX).unwrap().into_iter().map(Ports::whole).collect()
}

/// Returns whether the file has ended, without taking a frame.
fn ended(wire: &mut Box<dyn Wire>) -> bool {
    wire.receive(0, &mut |_| {}).unwrap().ended
}

/// Writes frames at their times and closes the file.
fn write(plan: &TransportPlan, end: End, frames: &[(Time, Vec<u8>)]) {
    let mut wire = open(plan, &[end]).remove(0);
    for (t, frame) in frames {
        plan.file_clock.wait_until(*t);
        assert_eq!(wire.send(&[frame]).unwrap().taken, 1);
    }
    wire.flush(0).unwrap();
    assert_eq!(wire.counters().sent, frames.len() as u64);
}

/// Reads as a role does: takes arrivals, and waits without any.
fn read(plan: &TransportPlan, wire: &mut dyn Wire, timeout_ns: u64) -> Vec<(Time, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        let now = plan.file_clock.now();
        let got = wire.receive(3, &mut |arrival| found.push((now, arrival.bytes.to_vec()))).unwrap();
        match (got.ended, got.frames) {
            (true, _) => return found,
            (false, 0) => wire.wait(timeout_ns).unwrap(),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// From role to role, in either form: the same frames, at the same times, for any waiting times.
    #[test]
    fn frames_and_times_go_from_role_to_role(
        gaps in prop::collection::vec((0i64..3_000_000, prop::collection::vec(any::<u8>(), 1..40)), 1..30),
        timeout_ns in 1_000u64..1_000_000,
        names in prop_oneof![Just(["a.pcap", "b.pcapng"]), Just(["a.pcapng", "b.pcap"])],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut t = 0;
        let frames: Vec<_> = gaps.into_iter().map(|(gap, frame)| { t += gap * NS; (t, frame) }).collect();
        let plan = plan(&folder, names);
        write(&plan, End::Workers, &frames);
        let Ok([mut down, mut up]) = <[_; 2]>::try_from(open(&plan, &[End::DeviceDown, End::DeviceUp])) else { panic!() };
        let mut seen = Vec::new();
        loop {
            let now = plan.file_clock.now();
            let got = down.receive(2, &mut |arrival| {
                seen.push((now, arrival.bytes.to_vec()));
                up.send(&[arrival.bytes]).unwrap();
            }).unwrap();
            if got.ended {
                break;
            }
            if got.frames == 0 {
                // A wait on either ends when a frame arrives on the other.
                up.wait(timeout_ns).unwrap();
            }
        }
        prop_assert_eq!(&seen, &frames);
        drop(up);
        let mut server = open(&plan, &[End::Server]).remove(0);
        prop_assert_eq!(read(&plan, server.as_mut(), timeout_ns), frames);
    }
}

#[test]
fn waiting_moves_time_to_the_next_frame_or_by_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&folder, ["a.pcapng", "b.pcapng"]);
    write(&plan, End::Workers, &[(5 * MS, vec![1; 20]), (5 * MS, vec![2; 20]), (9 * MS, vec![3; 20])]);
    let mut wire = open(&plan, &[End::DeviceDown]).remove(0);
    let take = |wire: &mut Box<dyn Wire>, most| {
        let mut found = Vec::new();
        wire.receive(most, &mut |arrival| found.push(arrival.bytes[0])).unwrap();
        found
    };
    assert_eq!(plan.file_clock.now(), 0, "opening begins anew");
    assert!(take(&mut wire, 9).is_empty(), "nothing has arrived at 0");
    wire.wait(2_000_000).unwrap();
    assert_eq!(plan.file_clock.now(), 2 * MS);
    wire.wait(60_000_000).unwrap();
    assert_eq!(plan.file_clock.now(), 5 * MS, "the first frame");
    assert_eq!(take(&mut wire, 1), [1]);
    wire.wait(60_000_000).unwrap();
    assert_eq!(plan.file_clock.now(), 5 * MS, "the second is there already");
    assert_eq!(take(&mut wire, 9), [2]);
    assert!(!ended(&mut wire));
    wire.wait(60_000_000).unwrap();
    assert_eq!(take(&mut wire, 9), [3]);
    assert!(ended(&mut wire));
    wire.wait(7).unwrap();
    assert_eq!(plan.file_clock.now(), 9 * MS + 7 * NS, "after the end only the timeout counts");
    assert_eq!(wire.counters().received, 3);
    wire.send(&[&[0; 20]]).unwrap();
    let notes = wire.notes();
    let said = |start: &str| notes.iter().find(|(name, _)| name.starts_with(start)).map(|(_, value)| value.as_str());
    assert_eq!(said("pcap.dropped."), Some("1"), "{notes:?}");
    assert_eq!(said("pcap.anchor_unix_ns."), Some("0"), "the files of this test count from 1970: {notes:?}");
}

/// A foreign capture, with recent times.
fn capture(path: &Path, times: &[Time], link: Option<u8>, damaged: bool) {
    let options = WriterOptions { anchor_unix_ns: 1_700_000_000_000_000_000, ..WriterOptions::new(Form::Pcap) };
    let mut writer = Writer::create(path, options).unwrap();
    for (i, t) in times.iter().enumerate() {
        writer.packet(0, *t, &[i as u8; 300], 400).unwrap();
    }
    writer.finish().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    if let Some(link) = link {
        bytes[20] = link;
    }
    if damaged {
        bytes.truncate(bytes.len() - 1);
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_capture_begins_at_its_first_frame_and_its_anchor_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&folder, ["a.pcap", "b.pcapng"]);
    // The third has an earlier time than the second: it arrives together with it.
    capture(Path::new(&plan.files[0]), &[3 * SECOND, 5 * SECOND, 4 * SECOND], None, false);
    let Ok([mut down, mut up]) = <[_; 2]>::try_from(open(&plan, &[End::DeviceDown, End::DeviceUp])) else { panic!() };
    let mut found = Vec::new();
    loop {
        let now = plan.file_clock.now();
        let each = &mut |arrival: Arrival<'_>| {
            found.push((now, arrival.bytes[0], arrival.bytes.len(), arrival.len));
            up.send(&[arrival.bytes]).unwrap();
        };
        match down.receive(9, each).unwrap() {
            Found { ended: true, .. } => break,
            Found { frames: 0, .. } => down.wait(1_000_000_000).unwrap(),
            _ => {}
        }
    }
    let cut = (FRAME_MAX + BEYOND, 400);
    assert_eq!(found, [(0, 0, cut.0, cut.1), (2 * SECOND, 1, cut.0, cut.1), (2 * SECOND, 2, cut.0, cut.1)]);
    assert_eq!(plan.file_clock.anchor_unix_ns(), 1_700_000_003_000_000_000);
    drop(up);
    let mut server = open(&plan, &[End::Server]).remove(0);
    assert_eq!(plan.file_clock.anchor_unix_ns(), 1_700_000_003_000_000_000, "noted in the file");
    let times: Vec<_> = read(&plan, server.as_mut(), 1_000_000_000).into_iter().map(|(t, _)| t).collect();
    assert_eq!(times, [0, 2 * SECOND, 2 * SECOND]);
}

#[test]
fn damage_comes_after_the_frames_before_it_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&folder, ["a.pcap", "b.pcap"]);
    let path = Path::new(&plan.files[0]);
    let first = |wire: &mut Box<dyn Wire>| {
        wire.receive(9, &mut |_| {}).map(|found| found.frames).map_err(|error| error.to_string())
    };
    capture(path, &[0, SECOND], None, true);
    let mut wire = open(&plan, &[End::DeviceDown]).remove(0);
    assert_eq!(first(&mut wire), Ok(1));
    assert!(!ended(&mut wire));
    wire.wait(1_000_000_000).unwrap();
    let message = first(&mut wire).unwrap_err();
    assert!(
        message.contains("damaged at byte 340: a packet's record has 316 bytes, and the file ends after 315"),
        "{message}"
    );
    assert!(ended(&mut wire));
    assert_eq!(first(&mut wire), Ok(0));
    for (times, link, says) in [
        (&[0][..], Some(113), "link type 113; only Ethernet"),
        (&[0, 40 * 86_400 * SECOND], None, "more than 26 days after the beginning"),
    ] {
        capture(path, times, link, false);
        let mut wire = open(&plan, &[End::DeviceDown]).remove(0);
        let message = first(&mut wire).and_then(|_| first(&mut wire)).unwrap_err();
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |plan: &TransportPlan, ends: &[End]| match plan.kind.open(plan, ends, FRAME_MAX) {
        Err(Error::Config(message)) => message,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened"),
    };
    let fine = plan(&folder, ["a.pcapng", "b.pcapng"]);
    let message = refusal(&fine, &End::ALL);
    assert!(message.contains("one after the other: pktgen replay --role workers, pktgen target, pktgen capture"));
    let message = refusal(&TransportPlan { files: vec!["a.pcapng".into()], ..fine.clone() }, &[End::Server]);
    assert!(message.contains("transport.files has 1 names, and that of the cable of server is needed"), "{message}");
    let message = refusal(&plan(&folder, ["a.cap", ""]), &[End::Workers]);
    assert!(message.contains("ends in .pcap or .pcapng"), "{message}");
    write(&fine, End::Workers, &[]);
    let message = refusal(&fine, &[End::Workers]);
    assert!(message.contains("exists, and may be all there is"), "{message}");
    let mut empty = open(&fine, &[End::DeviceDown]).remove(0);
    assert!(ended(&mut empty), "a file without frames");
}
