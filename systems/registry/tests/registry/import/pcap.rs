//! Imports of captures: of frames from our own builder, and of frames assembled here.

use super::*;
use pktgen_atp::format as atp_ml;
use pktgen_core::topology::Population;
use pktgen_libra::format as libra;
use pktgen_olaf::strict as olaf_strict;
use pktgen_switchml::format as switchml;
use pktgen_switchml::roce;
use pktgen_trio_ml::format as trio_ml;
use pktgen_wire::pcap::{Form, Precision, Writer, WriterOptions};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, mac_of, worker_ip};
use pktgen_wire::wire::update::{Ack, FLAG_MERGED, Header, PORT, Status, UPDATE_HEAD, WORKER_PORT, elements_in};
use pktgen_workload::workload::build::Builder;

fn plain() -> ImportOptions {
    ImportOptions { formats: all().protocols.formats, ..ImportOptions::default() }
}

/// Returns an OLAF frame with a changed header.
fn frame(update: &Update, values: &[f32], attempt: u8, change: impl Fn(&mut Header)) -> Vec<u8> {
    let elements = elements_in(update.bytes as usize) as u16;
    let mut header = Header {
        flags: 0,
        cluster: update.cluster,
        count: 1,
        worker: update.worker,
        seq: update.seq,
        generation: update.t_gen,
        attempt,
        elements,
        reward: update.reward.unwrap_or(0.0),
    };
    change(&mut header);
    let mut payload = vec![0; update.bytes as usize - HEAD];
    header.emit_update(&mut payload);
    for (place, value) in payload[UPDATE_HEAD..].chunks_exact_mut(4).zip(values) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    udp((worker_ip(update.worker), WORKER_PORT), (SERVER_IP, PORT), &payload)
}

pub(super) fn udp(from: (u32, u16), to: (u32, u16), payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEAD + payload.len()];
    Template::new(from, to, frame.len()).emit(&mut frame);
    frame[HEAD..].copy_from_slice(payload);
    frame
}

fn ack(worker: u32) -> Vec<u8> {
    let mut payload = vec![0; pktgen_wire::wire::update::ACK_HEAD];
    let header =
        Header { flags: 0, cluster: 0, count: 1, worker, seq: 0, generation: 0, attempt: 0, elements: 0, reward: 0.0 };
    Ack { header, status: Status::default() }.emit(&mut payload);
    udp((SERVER_IP, PORT), (worker_ip(worker), WORKER_PORT), &payload)
}

/// Writes a capture of frames, each with its time and cut to `snap` bytes (0: whole).
fn write(path: &Path, form: Form, anchor_unix_ns: u64, frames: &[(i64, Vec<u8>)], snap: u32) {
    let options = WriterOptions { precision: Precision::Nano, snap, anchor_unix_ns, ..WriterOptions::new(form) };
    let mut writer = Writer::create(path, options).unwrap();
    for (t, frame) in frames {
        writer
            .packet(
                0,
                *t,
                &frame[..frame.len().min(if snap == 0 { usize::MAX } else { snap as usize })],
                frame.len() as u32,
            )
            .unwrap();
    }
    writer.finish().unwrap();
}

/// Writes the workers' frames: the story, all sent 9 ns after generation and the last first, with acknowledgements,
/// copies and foreign frames.
pub(super) fn olaf(path: &Path, form: Form) {
    let mut frames = Vec::new();
    for (i, (update, values)) in story(60).iter().enumerate().rev() {
        frames.push((update.t_gen + 9_000, frame(update, values, 0, |_| ())));
        if i % 10 == 3 {
            frames.push((update.t_gen + 20_000, frame(update, values, 1, |_| ())));
            frames.push((update.t_gen + 30_000, ack(update.worker)));
        }
    }
    frames.push((1, frames[0].1.clone()));
    frames.push((2, udp((1, 53), (2, 53), b"a question")));
    frames.push((3, vec![0xff; 60]));
    write(path, form, 1_700_000_000_000_000_000, &frames, 0);
}

#[test]
fn updates_of_olaf_come_back_exactly_and_in_order() {
    let folder = Folder::new();
    olaf(&folder.path("a.pcapng"), Form::Pcapng);
    olaf(&folder.path("b.pcap"), Form::Pcap);
    for name in ["a.pcapng", "b.pcap"] {
        let (imported, notes) = folder.import(&[name], &plain()).unwrap();
        assert_eq!(imported, story(60), "{name}");
        assert_eq!(notes["passed_over"], "6 ack, 1 duplicate, 1 foreign, 1 other, 6 retransmission");
        assert_eq!((notes["wire"].as_str(), notes["time"].as_str()), ("olaf", "of generation, as headers say"));
    }
    // Both files together give the same updates: one repeats those of the other.
    assert_eq!(folder.import(&["a.pcapng", "b.pcap"], &plain()).unwrap().0, story(60));
}

/// A worker that restarted uses its numbers again, with other generation times; retransmissions have the same ones.
#[test]
fn numbers_that_begin_anew_are_other_updates() {
    let folder = Folder::new();
    let (first, late) = (story(30), 1_000_000_000);
    let begin = |(u, values): &(Update, Vec<f32>), attempt: u8, later: i64| {
        let update = Update { t_gen: u.t_gen + later, ..*u };
        (update.t_gen, frame(&update, values, attempt, |_| ()))
    };
    let mut frames: Vec<_> = [0, late].iter().flat_map(|later| first.iter().map(|row| begin(row, 0, *later))).collect();
    // Whichever transmission comes first in the file, the other one is no copy.
    frames.insert(0, begin(&first[0], 1, 0));
    frames.push(begin(&first[5], 1, 0));
    frames.push(begin(&first[6], 0, 0));
    write(&folder.path("a.pcap"), Form::Pcap, 0, &frames, 0);
    let (imported, notes) = folder.import(&["a.pcap"], &plain()).unwrap();
    assert_eq!(imported.len(), 2 * first.len());
    assert_eq!(notes["passed_over"], "1 duplicate, 2 retransmission");
    assert!(notes["anew"].contains("these workers began anew") && !notes.contains_key("seq"), "{notes:?}");
}

#[test]
fn what_the_builder_of_runs_sends_is_what_is_imported() {
    let updates: Vec<_> = story(40).into_iter().map(|(update, _)| update).collect();
    let mut builder = Builder::new(&Population { cluster_of: vec![0, 0, 1, 1], moves: Vec::new() }, true);
    let frames = updates.iter().map(|update| {
        let mut frame = vec![0; update.bytes as usize];
        builder.emit(update, 0, &mut frame);
        (update.t_gen, frame)
    });
    let folder = Folder::new();
    write(&folder.path("a.pcap"), Form::Pcap, 0, &frames.collect::<Vec<_>>(), 0);
    let imported = folder.import(&["a.pcap"], &plain()).unwrap().0;
    assert_eq!(imported.into_iter().map(|(update, _)| update).collect::<Vec<_>>(), updates);
}

#[test]
fn workers_and_numbers_become_dense_and_what_was_cut_is_said() {
    let folder = Folder::new();
    let late =
        |(u, v): &(Update, Vec<f32>)| frame(&Update { worker: u.worker * 3 + 5, seq: u.seq + 2, ..*u }, v, 0, |_| ());
    let frames: Vec<_> = story(30).iter().filter(|(u, _)| u.seq != 1).map(|row| (row.0.t_gen, late(row))).collect();
    write(&folder.path("a.pcapng"), Form::Pcapng, 0, &frames, 80);
    let (imported, notes) = folder.import(&["a.pcapng"], &plain()).unwrap();
    let whole: Vec<_> = story(30).into_iter().filter(|(u, _)| u.seq != 1).collect();
    assert_eq!(imported.len(), whole.len());
    for ((a, values), (b, all)) in imported.iter().zip(&whole) {
        let expected = Update { seq: if b.seq == 0 { 0 } else { b.seq - 1 }, ..*b };
        assert_eq!((a, values.len()), (&expected, if b.bytes > 80 { 0 } else { all.len() }));
    }
    assert_eq!(notes["workers"], "0 is 5, 1 is 8, 2 is 11, 3 is 14");
    // Numbers of the four workers begin with 2, and later ones are missing.
    assert_eq!(notes["seq"], "made dense; 12 numbers are not in the capture");
    assert!(
        notes["values"].starts_with("left out of ") && notes["values"].ends_with("cut short"),
        "{}",
        notes["values"]
    );
}

/// One capture has the beginnings of packets, the other all of them, or whole retransmissions.
#[test]
fn whole_packets_replace_cut_ones_in_any_order_of_files() {
    for attempt in [0, 1] {
        let frames = |attempt: u8| -> Vec<_> {
            story(30).iter().map(|(u, values)| (u.t_gen, frame(u, values, attempt, |_| ()))).collect()
        };
        let folder = Folder::new();
        write(&folder.path("cut.pcap"), Form::Pcap, 0, &frames(0), 80);
        write(&folder.path("whole.pcap"), Form::Pcap, 0, &frames(attempt), 0);
        for names in [["cut.pcap", "whole.pcap"], ["whole.pcap", "cut.pcap"]] {
            let (imported, notes) = folder.import(&names, &plain()).unwrap();
            assert_eq!(imported, story(30), "{names:?}");
            assert!(!notes.contains_key("values"), "{names:?}: {notes:?}");
            let copies = if attempt == 0 { "30 duplicate" } else { "30 retransmission" };
            assert_eq!(notes["passed_over"], copies, "{names:?}");
        }
    }
}

#[test]
fn strict_layouts_say_only_what_their_bytes_say() {
    let folder = Folder::new();
    let payload = [0.5f32, 1.0, -2.0].map(f32::to_le_bytes).concat();
    let ports = (olaf_strict::WORKER_PORT, olaf_strict::PORT);
    // Foreign addresses, the higher one first.
    let frames = [(0xc0a8_0007, 5_000), (0xc0a8_0002, 7_000), (0xc0a8_0007, 8_000)];
    let frames = frames.map(|(ip, t)| (t, udp((ip, ports.0), (SERVER_IP, ports.1), &payload)));
    write(&folder.path("a.pcap"), Form::Pcap, 1_700_000_000_000_000_000, &frames, 0);
    let (imported, notes) = folder.import(&["a.pcap"], &plain()).unwrap();
    let seen: Vec<_> =
        imported.iter().map(|(u, v)| (u.t_gen, u.worker, u.seq, u.cluster, u.reward, u.bytes, v.as_slice())).collect();
    let of = |t, worker, seq| (t, worker, seq, 0, Some(0.5), 80, &[1.0f32, -2.0][..]);
    assert_eq!(seen, [of(0, 1, 0), of(2_000, 0, 0), of(3_000, 1, 1)]);
    assert_eq!(notes["workers"], "0 is 192.168.0.2, 1 is 192.168.0.7");
    let header = trio_ml::Header {
        job: 3,
        block: 9,
        age_op: 0,
        last: false,
        degraded: false,
        source: 1,
        sources: 1,
        generation: 4,
        elements: 20,
    };
    let mut payload = vec![0; trio_ml::HEADER + 80];
    header.emit(&mut payload);
    let trio = |source| {
        let mut payload = payload.clone();
        trio_ml::Header { source, ..header }.emit(&mut payload);
        udp((worker_ip(source.into()), 1), (0xac10_0001, trio_ml::PORT), &payload)
    };
    let frames = [(5_000, trio(0)), (6_000, trio(1)), (7_000, trio(0))];
    write(&folder.path("b.pcap"), Form::Pcap, 0, &frames, 0);
    let (imported, notes) = folder.import(&["b.pcap"], &plain()).unwrap();
    let seen: Vec<_> = imported.iter().map(|(u, v)| (u.t_gen, u.worker, u.seq, u.cluster, u.reward, v.len())).collect();
    assert_eq!(seen, [(0, 0, 0, 3, None, 0), (1_000, 1, 0, 3, None, 0), (2_000, 0, 1, 3, None, 0)]);
    assert_eq!(imported[0].0.bytes as usize, HEAD + trio_ml::HEADER + 80);
    // Packets need not be in the order of time: the earliest is the start.
    let frames = [(6_000, trio(1)), (5_000, trio(0)), (7_000, trio(0))];
    write(&folder.path("c.pcap"), Form::Pcap, 1_700_000_000_000_000_000, &frames, 0);
    let times: Vec<_> =
        folder.import(&["c.pcap"], &plain()).unwrap().0.iter().map(|(u, _)| (u.t_gen, u.worker)).collect();
    assert_eq!(times, [(0, 0), (1_000, 1), (2_000, 0)]);
    assert_eq!(
        (notes["wire"].as_str(), notes["values"].as_str()),
        ("trio_ml", "left out: the packets have none as floats")
    );
}

/// A board without a real-time clock begins in 1970; a run in virtual time, too, but its file notes its start.
#[test]
fn captured_times_count_from_the_earliest_packet_or_the_start_that_is_noted() {
    let packet = udp((worker_ip(1), olaf_strict::WORKER_PORT), (SERVER_IP, olaf_strict::PORT), &[0; 60]);
    for days in [0, 25, 27, 20_000] {
        for (form, first, from) in
            [(Form::Pcap, 0, "its earliest packet"), (Form::Pcapng, 7_000, "the start of the run")]
        {
            let folder = Folder::new();
            let frames = [(9_000, packet.clone()), (7_000, packet.clone())];
            write(&folder.path("a.pcap"), form, days * 86_400_000_000_000, &frames, 0);
            let (imported, notes) = folder.import(&["a.pcap"], &plain()).unwrap();
            let times: Vec<_> = imported.iter().map(|(update, _)| update.t_gen).collect();
            assert_eq!(times, [first, first + 2_000], "{form:?}, {days} days after 1970");
            assert_eq!(notes["time"], format!("of capture, from {from}"), "{form:?}, {days} days after 1970");
        }
    }
}

/// Sections may be of several runs, and follow each other in any order.
#[test]
fn captured_times_count_from_the_earliest_packet_if_sections_note_different_starts() {
    let packet = udp((worker_ip(1), olaf_strict::WORKER_PORT), (SERVER_IP, olaf_strict::PORT), &[0; 60]);
    let (first, later) = (1_700_000_000_000_000_000, 1_700_001_000_000_000_000);
    // The runs are 1000 s apart; packets are 5 ns after the start of each.
    let apart = [0, 1_000_000_000_000_000];
    for (notes, origin, from) in [
        ([(first, true), (later, true)], 0, "its earliest packet"),
        ([(later, true), (first, true)], 0, "its earliest packet"),
        ([(first, true), (later, false)], 0, "its earliest packet"),
        ([(first, true), (first, true)], 5_000, "the start of the run"),
    ] {
        let folder = Folder::new();
        let options = WriterOptions { anchor_unix_ns: notes[0].0, ..WriterOptions::new(Form::Pcapng) };
        let mut writer = Writer::create(&folder.path("a.pcapng"), options).unwrap();
        for (anchor_unix_ns, noted) in notes {
            writer.set_anchor(anchor_unix_ns, noted);
            writer.packet(0, 5_000, &packet, packet.len() as u32).unwrap();
        }
        writer.finish().unwrap();
        let (imported, told) = folder.import(&["a.pcapng"], &plain()).unwrap();
        let times: Vec<_> = imported.iter().map(|(update, _)| update.t_gen).collect();
        let expected = if notes[0].0 == notes[1].0 { [0; 2] } else { apart };
        assert_eq!(times, expected.map(|t| t + origin), "{notes:?}");
        assert_eq!(told["time"], format!("of capture, from {from}"), "{notes:?}");
    }
}

/// Stamps may be finer than a nanosecond.
#[test]
fn captured_times_count_from_the_earliest_picosecond() {
    let folder = Folder::new();
    let anchor_unix_ns = 1_700_000_000_000_000_000;
    let options = WriterOptions { remainders: true, noted: false, anchor_unix_ns, ..WriterOptions::new(Form::Pcapng) };
    let mut writer = Writer::create(&folder.path("a.pcapng"), options).unwrap();
    let packet = udp((worker_ip(1), olaf_strict::WORKER_PORT), (SERVER_IP, olaf_strict::PORT), &[0; 60]);
    for t in [7_555, 9_554] {
        writer.packet(0, t, &packet, packet.len() as u32).unwrap();
    }
    writer.finish().unwrap();
    let imported = folder.import(&["a.pcapng"], &plain()).unwrap().0;
    assert_eq!(imported.iter().map(|(update, _)| update.t_gen).collect::<Vec<_>>(), [0, 1_999]);
}

/// Trio-ML numbers workers within their job, so another job has the same numbers.
#[test]
fn jobs_that_share_numbers_have_workers_of_their_own() {
    let frame = |job, source| {
        let header = trio_ml::Header {
            job,
            block: 9,
            age_op: 0,
            last: false,
            degraded: false,
            source,
            sources: 1,
            generation: 4,
            elements: 20,
        };
        let mut payload = vec![0; trio_ml::HEADER + 80];
        header.emit(&mut payload);
        udp((worker_ip(u32::from(job) * 8 + u32::from(source)), 1), (0xac10_0001, trio_ml::PORT), &payload)
    };
    let folder = Folder::new();
    let frames = [(5_000, frame(4, 0)), (6_000, frame(2, 1)), (7_000, frame(2, 0)), (8_000, frame(4, 0))];
    write(&folder.path("a.pcap"), Form::Pcap, 0, &frames, 0);
    let (imported, notes) = folder.import(&["a.pcap"], &plain()).unwrap();
    let seen: Vec<_> = imported.iter().map(|(u, _)| (u.t_gen, u.worker, u.seq, u.cluster)).collect();
    assert_eq!(seen, [(0, 2, 0, 4), (1_000, 1, 0, 2), (2_000, 0, 0, 2), (3_000, 2, 1, 4)]);
    assert_eq!(notes["workers"], "0 is 0 of job 2, 1 is 1 of job 2, 2 is 0 of job 4");
}

#[test]
fn what_is_wrong_is_named_by_packet() {
    let story = story(12);
    let good = |i: usize| (story[i].0.t_gen, frame(&story[i].0, &story[i].1, 0, |_| ()));
    let bad = |change: fn(&mut Header)| (0, frame(&story[0].0, &story[0].1, 0, change));
    let strict = udp((worker_ip(1), olaf_strict::WORKER_PORT), (SERVER_IP, olaf_strict::PORT), &[0; 60]);
    for (frames, words) in [
        (vec![], &["no updates", "no packets", "--wire"][..]),
        (vec![(0, ack(0)), (0, vec![0; 60])], &["no updates", "1 ack, 1 other", "--wire"]),
        (vec![good(0), bad(|h| h.count = 3)], &["packet 2: an aggregate of 3 updates", "before the device"]),
        (vec![bad(|h| h.flags = FLAG_MERGED)], &["packet 1: an aggregate of 1 updates"]),
        (vec![bad(|h| h.generation = -7)], &["packet 1: its time is -7 ps", "from 0 to"]),
        (vec![bad(|h| h.generation = i64::MAX)], &["packet 1: its time is 9223372036854775807 ps"]),
        (
            vec![good(0), bad(|h| (h.seq, h.generation) = (9, 0)), good(6)],
            &["packet 3: update 2 of worker 0", "after its update 9 (packet 2)"],
        ),
        (
            vec![good(0), (0, frame(&Update { cluster: 5, ..story[2].0 }, &story[2].1, 0, |_| ()))],
            &["packet 2: row 1: worker 0 is in clusters 0 and 5"],
        ),
        (
            vec![(0, frame(&story[0].0, &[f32::NAN], 0, |_| ()))],
            &["packet 1: row 0: a value or reward is not a finite number"],
        ),
        (vec![good(0), (9, strict)], &["packet 2: olaf_strict, after updates of olaf", "--wire"]),
    ] {
        let folder = Folder::new();
        write(&folder.path("a.pcap"), Form::Pcap, 0, &frames, 0);
        folder.refuses(&["a.pcap"], &plain(), words);
    }
    let folder = Folder::new();
    olaf(&folder.path("a.pcapng"), Form::Pcapng);
    let bytes = std::fs::read(folder.path("a.pcapng")).unwrap();
    Folder::with("a.pcapng", &bytes[..bytes.len() - 3]).refuses(&["a.pcapng"], &plain(), &["damaged at byte"]);
    Folder::with("a.pcap", b"no capture").refuses(&["a.pcap"], &plain(), &["neither pcap nor pcapng"]);
    // The error names the file among several.
    write(
        &folder.path("b.pcap"),
        Form::Pcap,
        0,
        &[(0, frame(&Update { cluster: 5, ..story[0].0 }, &[], 0, |h| h.seq = 99))],
        0,
    );
    folder.refuses(&["a.pcapng", "b.pcap"], &plain(), &["update 1 of worker 0", "(b.pcap: packet 1)"]);
}

#[test]
fn jobs_of_switchml_are_tensors_and_no_clusters() {
    let packet = |job: u8, attempt: i8| {
        let header = switchml::Header { job, packet: 7, set: false, slot: 0, exponent: 0, attempt, elements: 64 };
        let mut payload = vec![0; switchml::HEADER + 64 * 4];
        header.emit(&mut payload);
        udp((worker_ip(0), 1), (SERVER_IP, switchml::PORT), &payload)
    };
    let folder = Folder::new();
    let frames = [(1_000, packet(4, 0)), (2_000, packet(4, 1)), (3_000, packet(5, 0))];
    write(&folder.path("a.pcap"), Form::Pcap, 0, &frames, 0);
    let (imported, notes) = folder.import(&["a.pcap"], &plain()).unwrap();
    assert_eq!(
        imported.iter().map(|(u, _)| (u.t_gen, u.seq, u.cluster)).collect::<Vec<_>>(),
        [(0, 0, 0), (2_000, 1, 0)]
    );
    assert_eq!(notes["passed_over"], "1 retransmission");
}

/// Returns a contribution of ATP, which is over IPv4 without UDP.
fn atp() -> Vec<u8> {
    let mut frame = vec![0; atp_ml::FRAME_BYTES];
    let worker = worker_ip(2);
    atp_ml::emit_head(&mut frame, mac_of(worker), atp_ml::Towards::Server, 1, worker, SERVER_IP);
    let header = atp_ml::Header { bitmap: 1 << 2, workers: 8, app: 3, seq: 7, ..atp_ml::Header::default() };
    header.emit(&mut frame[atp_ml::HEAD..]);
    frame
}

/// A mirror port repeats each packet. Of packets that are cut, the number has 16 bits, so it comes again.
#[test]
fn packets_that_were_captured_twice_are_one_update() {
    let atp_udp = |number: u32| {
        let name = atp_ml::Name { number, attempt: 0, source: 0 };
        let (seq, key) = (name.seq(), name.key());
        let mut payload = vec![0; atp_ml::BYTES];
        atp_ml::Header { bitmap: 1, workers: 2, app: 1, seq, key, ..atp_ml::Header::default() }.emit(&mut payload);
        udp((worker_ip(2), atp_ml::WORKER_PORT), (SERVER_IP, atp_ml::PORT), &payload)
    };
    let numbers: Vec<u32> = (0..1200).chain([3 + 65_535]).collect();
    let mut frames = Vec::new();
    // Two runs, with the same numbers.
    for begin in [0, 2_000_000_000_000] {
        for (n, number) in (0i64..).zip(&numbers) {
            frames.extend([0, 5_000].map(|later| (begin + n * 10_000 + later, atp_udp(*number))));
        }
    }
    for snap in [0, 128] {
        let folder = Folder::new();
        write(&folder.path("a.pcap"), Form::Pcap, 0, &frames, snap);
        let (imported, notes) = folder.import(&["a.pcap"], &plain()).unwrap();
        assert_eq!((imported.len(), notes["passed_over"].as_str()), (2402, "2402 duplicate"), "{snap}");
    }
}

/// A worker of Libra counts for each of its servers.
#[test]
fn pushes_to_two_servers_are_no_copies() {
    let push = |server: u32, seq: u32| {
        let mut payload = vec![0; 2];
        payload.extend(seq.to_be_bytes());
        for parameter in 0u32..8 {
            payload.extend(parameter.to_be_bytes());
            payload.extend(1f32.to_be_bytes());
        }
        udp((worker_ip(2), libra::WORKER_PORT), (server, libra::PORT), &payload)
    };
    let mut frames = Vec::new();
    for n in 0..20u32 {
        for (later, server) in [(0, SERVER_IP), (300_000, SERVER_IP + 1)] {
            frames.extend([0, 5_000].map(|copy| (i64::from(n) * 1_000_000 + later + copy, push(server, 2 * n))));
        }
    }
    let folder = Folder::new();
    write(&folder.path("a.pcap"), Form::Pcap, 0, &frames, 0);
    let (imported, notes) = folder.import(&["a.pcap"], &plain()).unwrap();
    assert_eq!((imported.len(), notes["passed_over"].as_str()), (40, "40 duplicate"));
}

/// Without UDP, too, tags of networks are no part of a frame.
#[test]
fn a_tag_before_a_frame_without_udp_is_not_in_its_length() {
    let mut tagged = atp();
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    for (frame, snap) in [(atp(), 0), (tagged.clone(), 0), (tagged, 120)] {
        let folder = Folder::new();
        write(&folder.path("a.pcap"), Form::Pcap, 0, &[(1_000, frame)], snap);
        let imported = folder.import(&["a.pcap"], &plain()).unwrap().0;
        assert_eq!(imported.iter().map(|(update, _)| update.bytes as usize).collect::<Vec<_>>(), [atp_ml::FRAME_BYTES]);
    }
}

/// They say their length nowhere. A frame check sequence behind a packet is no part of it.
#[test]
fn frames_without_udp_of_another_length_are_no_updates() {
    let folder = Folder::new();
    let checked = [atp(), vec![7; 4]].concat();
    let frames = [(1_000, atp()), (2_000, atp()[..82].to_vec()), (3_000, checked)];
    write(&folder.path("a.pcap"), Form::Pcap, 0, &frames, 0);
    let (imported, notes) = folder.import(&["a.pcap"], &plain()).unwrap();
    assert_eq!(notes["passed_over"].as_str(), "1 foreign");
    let bytes: Vec<_> = imported.iter().map(|(update, _)| update.bytes as usize).collect();
    assert_eq!(bytes, [atp_ml::FRAME_BYTES; 2]);
}

/// A format without UDP is not sought in datagrams, and a format over UDP not in frames of other Ethernet types.
#[test]
fn a_given_format_is_sought_only_where_it_can_be() {
    let (update, values) = &story(1)[0];
    let olaf = (1_000, frame(update, values, 0, |_| ()));
    let question = (3_000, udp((1, 53), (2, 53), &[0; 300]));
    for (wire, frames, passed) in
        [("olaf", [olaf, (2_000, atp())], "1 other"), ("atp_ml", [(2_000, atp()), question], "1 foreign")]
    {
        let folder = Folder::new();
        write(&folder.path("a.pcap"), Form::Pcap, 0, &frames, 0);
        let wire = all().protocols.formats.iter().copied().find(|format| format.name() == wire);
        let (imported, notes) = folder.import(&["a.pcap"], &ImportOptions { wire, ..plain() }).unwrap();
        assert_eq!((imported.len(), notes["passed_over"].as_str()), (1, passed));
    }
}

/// Returns a frame of RoCE without values that matter: a contribution of a worker, or its result.
fn roce_frame(back: bool, worker: u32, switch: u32) -> Vec<u8> {
    let message = roce::Message { pair: roce::pair_of(2, 5), migration: back, ..roce::Message::default() };
    let header = message.header(0, 64);
    let mut frame = vec![0; HEAD + header.payload_bytes()];
    let (way, source, target) = match back {
        false => (roce::Way::ToSwitch { port: 0xc123 }, worker, switch),
        true => (roce::Way::ToWorker { worker: 2 }, switch, worker),
    };
    roce::emit_frame(way, source, target, &header, &[0; 256], &mut frame);
    frame
}

/// Returns the datagram of a frame after a header of IPv6.
fn over_ipv6(frame: &[u8]) -> Vec<u8> {
    let datagram = &frame[34..];
    let mut over = [&frame[..12], &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    over.extend((datagram.len() as u16).to_be_bytes());
    over.extend([17, 64]);
    over.extend([1; 32]);
    over.extend(datagram);
    over
}

/// Over IPv6, addresses show neither the direction of Trio-ML's packets nor the workers of RoCE.
#[test]
fn what_only_addresses_show_is_not_taken_from_ipv6() {
    let mut payload = vec![0; trio_ml::HEADER + 8];
    trio_ml::Header { sources: 1, elements: 2, ..Default::default() }.emit(&mut payload);
    let trio = udp((worker_ip(2), trio_ml::PORT), (SERVER_IP, trio_ml::PORT), &payload);
    let roce = roce_frame(false, worker_ip(2), SERVER_IP);
    for (frame, words) in [
        (trio, &["no updates", "1 foreign"][..]),
        (roce, &["neither switchml_roce nor an IPv4 address says who sent it"]),
    ] {
        let folder = Folder::new();
        write(&folder.path("six.pcap"), Form::Pcap, 0, &[(1_000, over_ipv6(&frame))], 0);
        folder.refuses(&["six.pcap"], &plain(), words);
        write(&folder.path("four.pcap"), Form::Pcap, 0, &[(1_000, frame)], 0);
        assert_eq!(folder.import(&["four.pcap"], &plain()).unwrap().0.len(), 1);
    }
}

/// Results of RoCE are no updates, whatever addresses the hosts have.
#[test]
fn results_over_roce_are_known_in_every_network() {
    for (worker, switch) in [(worker_ip(2), SERVER_IP), (0xc0a8_0703, 0xc0a8_07fe), (0x0a28_0003, 0x0a28_00fe)] {
        let frames = [(1_000, roce_frame(false, worker, switch)), (2_000, roce_frame(true, worker, switch))];
        let folder = Folder::new();
        write(&folder.path("a.pcap"), Form::Pcap, 0, &frames, 0);
        let (imported, notes) = folder.import(&["a.pcap"], &plain()).unwrap();
        assert_eq!((imported.len(), notes["passed_over"].as_str()), (1, "1 result"), "{worker:#x}");
    }
}
