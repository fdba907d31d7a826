//! Tests of what packets of given formats show.

use pktgen_wire::wire::Format;
use pktgen_wire::wire::update::FLAG_HEADLESS;

use super::super::input::{Input, Tally};
use super::*;

fn format(name: &str) -> &'static dyn Format {
    all().protocols.formats.iter().copied().find(|format| format.name() == name).expect("a format")
}

/// Returns a contribution of ATP, which is over IPv4 without UDP.
fn atp() -> Vec<u8> {
    let facts = format("atp_ml").facts();
    let mut frame = vec![0; facts.frame_bytes.0];
    Template::new((worker_ip(2), 0), (SERVER_IP, 0), frame.len()).emit(&mut frame);
    frame[12..14].copy_from_slice(&facts.ether_type.expect("an Ethernet type").to_be_bytes());
    // The header begins after IPv4.
    frame[34..].fill(0);
    frame
}

/// Returns the formats of the events in a capture, and the counts of the other packets.
fn events(path: &Path, given: Option<&'static dyn Format>) -> (Vec<&'static str>, Tally) {
    let formats = all().protocols.formats;
    let mut input = Input::open(path, Side::Server, formats, given).unwrap();
    let mut events = Vec::new();
    input.fill(&mut events, 100);
    let names = events.iter().map(|event| formats[usize::from(event.format)].name()).collect();
    (names, input.into_facts(Verified::Whole).tally)
}

/// A format without UDP is not sought in datagrams, and a format over UDP not in frames of other Ethernet types.
#[test]
fn only_packets_that_can_be_of_the_given_format_are_read_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let mut question = vec![0; HEAD + 300];
    Template::new((worker_ip(1), 53), (SERVER_IP, 53), question.len()).emit(&mut question);
    let update = frame_of(&Sent { worker: 1, seq: 0, t_gen: 0, t_sent: 0, arrives: None }, 1);
    write(&path, &[(1000, update), (2000, atp()), (3000, question)]);
    for (given, names, other, foreign) in
        [(None, &["olaf", "atp_ml"][..], 0, 1), (Some("olaf"), &["olaf"], 1, 1), (Some("atp_ml"), &["atp_ml"], 0, 2)]
    {
        let (found, tally) = events(&path, given.map(format));
        assert_eq!((&found[..], tally.other, tally.foreign, tally.misfits), (names, other, foreign, 0), "{given:?}");
    }
}

/// A format is proposed to who gave none; of one that was given no packet may be.
#[test]
fn a_format_that_was_given_is_not_proposed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let mut frame = vec![0; HEAD + 300];
    Template::new((worker_ip(1), 53), (SERVER_IP, 53), frame.len()).emit(&mut frame);
    write(&path, &[(1000, frame)]);
    let found = |given: Option<&str>| {
        let plan = CapturePlan::new(all().protocols.formats, vec![path.clone()], Vec::new());
        let measured = analysed(&CapturePlan { format: given.map(format), ..plan });
        let note = measured.notes.into_iter().find(|note| note.note == "nothing_found");
        note.expect("a note").text
    };
    assert!(found(None).starts_with("no packet is of a known format; if ports are others, name it: --format"));
    assert_eq!(found(Some("atp_ml")), "no packet is of atp_ml; leave --format out, or name another one");
}

/// Numbers, times and counts that a run restored are no content of the packets; their workers are in the senders' captures, with our header.
#[test]
fn packets_that_came_without_our_header_show_no_more_than_on_the_wire() {
    let dir = tempfile::tempdir().unwrap();
    let mut sides = some(0, 100);
    sides[1].iter_mut().for_each(|(_, frame)| frame[HEAD + 1] |= FLAG_HEADLESS);
    let measured = of_sides(dir.path(), &sides);
    let (found, tally) = events(&dir.path().join("received.pcapng"), None);
    assert_eq!((found, tally.early), (vec!["olaf_strict"; 20], 0));
    let invented = ["aggregation_mean", "aom_mean", "merged", "represented", "missing", "updates_per_s"];
    let named = |line: &Line| invented.iter().any(|metric| line.metric == *metric);
    assert!(!measured.lines.iter().any(named), "{:?}", measured.lines);
    assert_eq!((value(&measured.lines, "sent"), value(&measured.lines, "received")), (Some(20.0), Some(20.0)));
    let noted = |code: &str| measured.notes.iter().any(|note| note.note == code);
    let expected = [true, true, false];
    let codes = ["deliveries_unknown", "age_of_model_not_defined", "senders_incomplete"];
    assert_eq!(codes.map(noted), expected, "{:?}", measured.notes);
    // Of one of the three workers nothing was sent.
    sides[0] = sides[0].iter().skip(1).step_by(3).chain(sides[0].iter().skip(2).step_by(3)).cloned().collect();
    sides[0].sort_by_key(|(t, _)| *t);
    let measured = of_sides(dir.path(), &sides);
    assert!(measured.notes.iter().any(|note| note.note == "senders_incomplete"), "{:?}", measured.notes);
}

/// The Ethernet type names the format. A frame without UDP says its length nowhere: that on the wire counts.
#[test]
fn frames_without_udp_have_the_length_of_their_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let mut frame = atp();
    let whole = frame.len();
    frame.extend([7; 5]);
    // A frame check sequence does not count. Kept bytes and length on the wire; packets that count, cannot be read, and do not fit.
    for (kept, len, counted) in [
        (whole, whole, (1, 0, 0)),
        (128, whole, (1, 0, 0)),
        (40, whole, (0, 1, 0)),
        (40, 40, (0, 0, 1)),
        (82, 82, (0, 0, 1)),
        (whole + 4, whole + 4, (1, 0, 0)),
        (whole + 2, whole + 4, (1, 0, 0)),
        (128, whole + 4, (1, 0, 0)),
        (40, whole + 4, (0, 1, 0)),
        (whole + 5, whole + 5, (0, 0, 1)),
    ] {
        let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcapng)).unwrap();
        writer.packet(0, 1000, &frame[..kept], len as u32).unwrap();
        writer.finish().unwrap();
        let (found, tally) = events(&path, None);
        assert_eq!((found.len(), tally.unreadable, tally.misfits), counted, "{kept} of {len}");
        assert_eq!(tally.foreign, tally.misfits);
    }
}

/// However little of a packet was kept: ports of no format name none, unless a format was specified.
#[test]
fn a_cut_packet_on_ports_of_no_format_is_foreign() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let mut question = vec![0; HEAD + 300];
    Template::new((worker_ip(1), 53), (SERVER_IP, 53), question.len()).emit(&mut question);
    let update = frame_of(&Sent { worker: 1, seq: 0, t_gen: 0, t_sent: 0, arrives: None }, 1);
    for (frame, kept, given, counted) in [
        (&question, HEAD + 54, None, (0, 1)),
        (&question, HEAD + 54, Some("olaf"), (1, 0)),
        (&update, HEAD + 20, None, (1, 0)),
    ] {
        write(&path, &[(1000, frame[..kept].to_vec())]);
        let (_, tally) = events(&path, given.map(format));
        assert_eq!((tally.unreadable, tally.foreign), counted, "{kept} {given:?}");
    }
}

/// Updates without numbers and generation times are the same packet only by chance.
#[test]
fn formats_without_generation_times_give_no_offset() {
    let dir = tempfile::tempdir().unwrap();
    let (own_port, server_port) = format("olaf_strict").facts().ports.expect("ports");
    let packet = |from: (u32, u16), to: (u32, u16), bytes: usize| {
        let mut frame = vec![0; HEAD + bytes];
        Template::new(from, to, frame.len()).emit(&mut frame);
        frame
    };
    let (worker, server) = ((worker_ip(1), own_port), (SERVER_IP, server_port));
    // The length of an acknowledgement is a multiple of four and one.
    let (update, ack) = (packet(worker, server, 40), packet(server, worker, 41));
    let names = ["sent.pcap", "received.pcap"].map(|name| dir.path().join(name));
    // The clocks agree; the server's capture begins a second earlier.
    let (start, second) = (2_000_000_000_000, 1_000_000_000_000);
    for (name, first) in names.iter().zip([start, start - second]) {
        let options = WriterOptions { anchor_unix_ns: 1_700_000_000_000_000_000, ..WriterOptions::new(Form::Pcap) };
        let mut writer = Writer::create(name, options).unwrap();
        for n in [first, start + 1_000_000, start + 2_000_000] {
            writer.packet(0, n, &update, update.len() as u32).unwrap();
            writer.packet(0, n + 500_000, &ack, ack.len() as u32).unwrap();
        }
        writer.finish().unwrap();
    }
    let measured = analysed(&both(&names));
    assert!(measured.lines.iter().all(|line| !line.metric.starts_with("clock_")), "{:?}", measured.lines);
    // Nor do they show which of them were sent again.
    let measured = analysed(&CapturePlan { forwards: true, ..both(&names) });
    let counted = ["sent", "retransmissions", "represented", "missing", "loss"];
    let expected = [Some(3.0), None, Some(3.0), None, Some(0.0)];
    assert_eq!(counted.map(|metric| value(&measured.lines, metric)), expected);
    assert!(measured.notes.iter().any(|note| note.note == "transmissions_unknown"), "{:?}", measured.notes);
}

#[test]
fn heads_of_cooked_captures_are_no_bytes_of_frames() {
    let dir = tempfile::tempdir().unwrap();
    let measured = |link: Option<(u16, usize)>| {
        let path = dir.path().join(format!("{link:?}.pcap"));
        let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcap)).unwrap();
        for (t, mut frame) in some(0, 100)[1].clone() {
            if let Some((_, head)) = link {
                // Of both versions the protocol is where the other has no meaning for the reader.
                frame.splice(..14, (0..head).map(|at| if [0, head - 2].contains(&at) { 8 } else { 0 }));
            }
            writer.packet(0, t * 1000, &frame, frame.len() as u32).unwrap();
        }
        writer.finish().unwrap();
        let mut file = std::fs::read(&path).unwrap();
        if let Some((kind, _)) = link {
            file[20..22].copy_from_slice(&kind.to_le_bytes());
        }
        std::fs::write(&path, file).unwrap();
        let plan = CapturePlan::new(all().protocols.formats, vec![path], Vec::new());
        let lines = analysed(&plan).lines;
        ["throughput_bps", "captured_bytes"].map(|metric| {
            lines.iter().find(|line| line.metric == metric).unwrap_or_else(|| panic!("no {metric}")).value
        })
    };
    let plain = measured(None);
    assert!(plain.iter().all(Option::is_some), "{plain:?}");
    assert_eq!([measured(Some((276, 20))), measured(Some((113, 16)))], [plain, plain]);
}

/// Packets of two runs have two origins of times, in two files or in one: a generation time of one is no time of the other.
#[test]
fn files_of_runs_with_other_origins_give_no_ages() {
    let dir = tempfile::tempdir().unwrap();
    let measured = |anchors: [u64; 2], joined: bool| {
        let paths = anchors.iter().enumerate().map(|(n, &anchor_unix_ns)| {
            let path = dir.path().join(format!("{n}.pcapng"));
            let options = WriterOptions { anchor_unix_ns, ..WriterOptions::new(Form::Pcapng) };
            let mut writer = Writer::create(&path, options).unwrap();
            let frames = &some(n as i64 * 1_000_000, 2_000_000)[1];
            frames.iter().for_each(|(t, frame)| writer.packet(0, *t, frame, frame.len() as u32).unwrap());
            writer.finish().unwrap();
            path
        });
        let mut paths: Vec<PathBuf> = paths.collect();
        if joined {
            let files: Vec<_> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
            std::fs::write(&paths[0], files.concat()).unwrap();
            paths.truncate(1);
        }
        analysed(&CapturePlan::new(all().protocols.formats, paths, Vec::new()))
    };
    let ages =
        |measured: &Measured| measured.lines.iter().any(|line| line.metric == "aom_mean" && line.value.is_some());
    let begin = 1_700_000_000_000_000_000;
    for joined in [false, true] {
        assert!(ages(&measured([begin; 2], joined)), "{joined}");
        let others = measured([begin, begin + 3_600_000_000_000], joined);
        assert!(!ages(&others), "{joined}");
        let of_runs = others.notes.iter().any(|note| note.text.contains("a file has packets of several runs"));
        assert_eq!(of_runs, joined, "{:?}", others.notes);
    }
}

/// Two jobs with the same worker numbers, in a file each; or one job, captured twice.
#[test]
fn files_of_jobs_that_share_worker_numbers_are_not_one_job() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["one.pcapng", "other.pcapng"].map(|name| dir.path().join(name));
    let measured = |addresses: [u32; 2]| {
        for (path, address) in paths.iter().zip(addresses) {
            let frame = |seq: u32| {
                let update = Sent { worker: 1, seq, t_gen: i64::from(seq) * 1000, t_sent: 0, arrives: None };
                let mut frame = frame_of(&update, 1);
                frame[26..30].copy_from_slice(&worker_ip(address).to_be_bytes());
                set_ip_checksum(&mut frame);
                (i64::from(seq) * 1000 + 500, frame)
            };
            write(path, &(0..10).map(frame).collect::<Vec<_>>());
        }
        analysed(&CapturePlan::new(all().protocols.formats, paths.to_vec(), Vec::new()))
    };
    let has = |measured: &Measured| {
        let names = ["represented", "duplicates", "received", "aom_mean"];
        names.map(|name| measured.lines.iter().any(|line| line.metric == name))
    };
    assert_eq!((has(&measured([1, 1])), has(&measured([1, 99]))), ([true; 4], [false; 4]));
}

/// Returns a packet of ATP over UDP with the contributions of `count` workers, from `worker` on.
fn atp_udp(worker: u32, number: u32, count: u16) -> Vec<u8> {
    let facts = format("atp_udp").facts();
    let (own, port) = facts.ports.expect("ports");
    let mut frame = vec![0; facts.frame_bytes.0];
    Template::new((worker_ip(worker), own), (SERVER_IP, port), frame.len()).emit(&mut frame);
    let bitmap = ((1u32 << count) - 1) << worker;
    frame[HEAD..HEAD + 4].copy_from_slice(&bitmap.to_be_bytes());
    // The job, and the number in the key.
    frame[HEAD + 7] = 1;
    let key = frame.len() - 12;
    frame[key..key + 4].copy_from_slice(&number.to_le_bytes());
    frame
}

/// A device merges 20 updates of each of two workers, and forwards the last ones alone.
#[test]
fn packets_with_several_updates_among_what_was_sent_may_be_of_exchanged_files() {
    let dir = tempfile::tempdir().unwrap();
    let olaf = |worker: u32, seq: u32, count: u16| {
        frame_of(&Sent { worker, seq, t_gen: i64::from(seq) * 1000, t_sent: 0, arrives: None }, count)
    };
    let packets: [&dyn Fn(u32, u32, u16) -> Vec<u8>; 2] = [&olaf, &atp_udp];
    for packet in packets {
        let alone = |seq: u32, later: i64| {
            [0u32, 1].map(|worker| (i64::from(seq) * 1000 + i64::from(worker) + later, packet(worker, seq, 1)))
        };
        let workers: Vec<_> = (0..21).flat_map(|seq| alone(seq, 0)).collect();
        let merged = (0..20u32).map(|seq| (i64::from(seq) * 1000 + 500, packet(0, seq, 2)));
        let server: Vec<_> = merged.chain(alone(20, 500)).collect();
        let incomplete = |sides: [&[(i64, Vec<u8>)]; 2]| {
            let notes = of_sides(dir.path(), &sides.map(<[_]>::to_vec)).notes;
            notes.into_iter().find(|note| note.note == "senders_incomplete").map(|note| note.text)
        };
        assert_eq!(incomplete([&workers, &server]), None);
        let text = incomplete([&server, &workers]).expect("a note");
        assert!(text.contains("20 packets of the senders' captures have several updates"), "{text}");
        assert!(text.ends_with("or the files are exchanged (--sent takes those of the workers)"), "{text}");
        let text = incomplete([&workers[40..], &server]).expect("a note");
        assert!(!text.contains("exchanged"), "{text}");
    }
}

/// Returns a contribution to a sum of SwitchML, or a copy of its result.
fn switchml(is_result: bool, worker: u32, packet: u32) -> Vec<u8> {
    let (own, port) = format("switchml").facts().ports.expect("ports");
    let mut frame = vec![0; HEAD + 10 + 256];
    let (worker, server) = ((worker_ip(worker), own), (SERVER_IP, port));
    let (from, to) = if is_result { (server, worker) } else { (worker, server) };
    Template::new(from, to, frame.len()).emit(&mut frame);
    let slot = ((packet / 4 % 2) as u16) << 15 | (packet % 4) as u16;
    frame[HEAD..HEAD + 2].copy_from_slice(&[0x11, 7]);
    frame[HEAD + 2..HEAD + 6].copy_from_slice(&packet.to_le_bytes());
    frame[HEAD + 6..HEAD + 8].copy_from_slice(&slot.to_be_bytes());
    frame
}

/// Slots are used again: without the order of packets, copies of results look like results of the next sums.
#[test]
fn sums_in_slots_are_not_counted_out_of_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut sides = [false, true].map(|is_result| {
        let packets = (0..200u32).flat_map(|packet| [1, 2].map(|worker| (packet, worker)));
        let frame = |(packet, worker): (u32, u32)| {
            let t = i64::from(packet) * 1000 + i64::from(worker) + if is_result { 500 } else { 0 };
            (t, switchml(is_result, worker, packet))
        };
        packets.map(frame).collect::<Vec<_>>()
    });
    let counted = |measured: &Measured| ["received", "retransmissions"].map(|metric| value(&measured.lines, metric));
    assert_eq!(counted(&of_sides(dir.path(), &sides)), [Some(200.0), Some(0.0)]);
    sides[0].reverse();
    sides[1].rotate_left(7);
    assert_eq!(counted(&of_sides(dir.path(), &sides)), [Some(200.0), Some(0.0)]);
    let names = ["sent.pcapng", "received.pcapng"].map(|name| dir.path().join(name));
    let small = analysed(&CapturePlan { memory: 10, ..both(&names) });
    assert_eq!(value(&small.lines, "retransmissions"), None);
    assert!(small.lines.iter().all(|line| !["received", "merged", "missing"].contains(&&*line.metric)));
    let note = small.notes.iter().find(|note| note.note == "deliveries_unknown").expect("a note");
    assert!(note.text.contains("of switchml have the numbers of earlier ones"), "{}", note.text);
}

/// A file may say that as many packets were dropped as a number can hold, and be damaged, too.
#[test]
fn a_count_of_drops_without_bound_leaves_gaps_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let mut frames = some(0, 100)[1].clone();
    // A number is missing.
    frames.remove(9);
    write(&path, &frames);
    let gaps = || {
        let measured = analysed(&CapturePlan::new(all().protocols.formats, vec![path.clone()], Vec::new()));
        value(&measured.lines, "numbers_missing")
    };
    assert_eq!(gaps(), Some(1.0));
    // A block of statistics of interface 0 with `isb_ifdrop`, and the beginning of another block.
    let words = [5u32, 40, 0, 0, 0, 5 | 8 << 16, u32::MAX, u32::MAX, 0, 40];
    let mut file = std::fs::read(&path).unwrap();
    file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    file.extend([6, 0, 0, 0, 80]);
    std::fs::write(&path, file).unwrap();
    assert_eq!(gaps(), None);
}

/// Our pcapng files note the origin of virtual time; other forms of them begin in 1970 all the same.
#[test]
fn virtual_times_are_of_one_clock_where_one_file_notes_it() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["sent.pcapng", "received.pcap"].map(|name| dir.path().join(name));
    let clocks = |anchor_unix_ns: u64| {
        for ((name, form), frames) in names.iter().zip([Form::Pcapng, Form::Pcap]).zip(some(0, 5_000_000)) {
            let anchor_unix_ns = if matches!(form, Form::Pcapng) { anchor_unix_ns } else { 0 };
            let mut writer =
                Writer::create(name, WriterOptions { anchor_unix_ns, ..WriterOptions::new(form) }).unwrap();
            frames.iter().for_each(|(t, frame)| writer.packet(0, *t, frame, frame.len() as u32).unwrap());
            writer.finish().unwrap();
        }
        let measured = analysed(&both(&names));
        let has_ages = measured.lines.iter().any(|line| line.metric == "aom_mean" && line.value.is_some());
        let note = measured.notes.into_iter().find(|note| note.note == "clocks").expect("a note");
        (has_ages, note.text)
    };
    assert_eq!(clocks(0), (true, "times are virtual: one clock".to_owned()));
    let (has_ages, about) = clocks(1_700_000_000_000_000_000);
    assert!(!has_ages && about.contains("withheld"), "{about}");
}

/// Returns the datagram of an IPv4 frame over IPv6, with addresses that end as those of IPv4.
fn over_ipv6(frame: &[u8]) -> Vec<u8> {
    let (source, target, datagram) = (&frame[26..30], &frame[30..34], &frame[34..]);
    let length = (datagram.len() as u16).to_be_bytes();
    let head = [&frame[..12], &[0x86, 0xdd, 0x60, 0, 0, 0], &length, &[17, 64]].concat();
    [&head[..], &[0xfd; 12], source, &[0xfd; 12], target, datagram].concat()
}

#[test]
fn senders_over_ipv6_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let packets = (0..200u32).flat_map(|packet| [1, 2].map(|worker| (packet, worker)));
    let at = |packet: u32, worker: u32| i64::from(packet) * 1000 + i64::from(worker);
    let mut sent: Vec<_> = packets.clone().map(|(p, w)| (at(p, w), switchml(false, w, p))).collect();
    // Some contributions are sent again.
    let again = packets.clone().filter(|(packet, _)| packet % 10 == 3);
    sent.extend(again.map(|(p, w)| (at(p, w) + 50, switchml(false, w, p))));
    sent.sort_by_key(|(t, _)| *t);
    let received = packets.map(|(p, w)| (at(p, w) + 500, switchml(true, w, p))).collect();
    let sums = [sent, received];
    let changed = |sides: &[Vec<(i64, Vec<u8>)>; 2]| {
        let over =
            |frames: &Vec<(i64, Vec<u8>)>| frames.iter().map(|(t, frame)| (*t, over_ipv6(frame))).collect::<Vec<_>>();
        sides.each_ref().map(over)
    };
    for sides in [changed(&sums), sums] {
        let measured = of_sides(dir.path(), &sides);
        let counted = ["sent", "retransmissions", "received", "merged", "missing"];
        let expected = [440.0, 40.0, 200.0, 400.0, 0.0].map(Some);
        assert_eq!(counted.map(|metric| value(&measured.lines, metric)), expected, "{:?}", measured.notes);
    }
    // Another host has the number of a worker.
    let mut updates = changed(&some(0, 100));
    assert_eq!(value(&of_sides(dir.path(), &updates).lines, "sent"), Some(20.0));
    updates[0][19].1[14 + 8] ^= 1;
    assert_eq!(value(&of_sides(dir.path(), &updates).lines, "sent"), None);
}
