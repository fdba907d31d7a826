//! Tests of reading and writing, against captures of a simple encoder.

use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::encode::{Block, Described, EncodedCapture, ExpectedPacket, Given, Section, classic, given, ng, section};
use super::*;
use crate::time::{HORIZON, NS, SECOND, US};
use crate::{Error, Result};

/// Returns a few bytes at a time, as a pipe may.
struct Trickle(Cursor<Vec<u8>>, usize);

impl Read for Trickle {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let few = into.len().min(self.1);
        self.0.read(&mut into[..few])
    }
}

/// Reads every packet up to the end or the error.
fn read_by(bytes: &[u8], few: usize) -> (Vec<ExpectedPacket>, Result<()>) {
    let mut found = Vec::new();
    let end = Reader::from_read(Trickle(Cursor::new(bytes.to_vec()), few), Path::new("x")).and_then(|mut reader| {
        let end = loop {
            match reader.next() {
                Ok(Some(packet)) => {
                    let Packet { section, interface, time, len, bytes, .. } = packet;
                    found.push(ExpectedPacket { section, interface, time, len, bytes: bytes.to_vec() });
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        assert!(matches!(reader.next(), Ok(None)), "after the end or an error there is nothing");
        end
    });
    (found, end)
}

fn read(bytes: &[u8]) -> (Vec<ExpectedPacket>, Result<()>) {
    read_by(bytes, usize::MAX)
}

fn all(made: &EncodedCapture) -> Vec<ExpectedPacket> {
    made.within(usize::MAX)
}

/// Cuts a capture at every length: whole packets before the cut are read, then the error names the start of the cut record.
fn cut_everywhere(made: &EncodedCapture) {
    for length in 0..made.file.len() {
        let (found, end) = read(&made.file[..length]);
        assert_eq!(found, made.within(length), "cut at {length}");
        if made.ends.contains(&length) {
            end.unwrap_or_else(|error| panic!("cut at {length}, between records: {error}"));
            continue;
        }
        let begin = made.ends.iter().copied().filter(|end| *end < length).max().unwrap_or(0);
        match end.unwrap_err() {
            Error::Data { what, .. } => {
                assert!(what.starts_with(&format!("damaged at byte {begin}: ")), "cut at {length}: {what}")
            }
            other => panic!("cut at {length}: {other}"),
        }
    }
}

/// A file in memory, written by a [`Writer`].
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

fn forms() -> impl Strategy<Value = (Form, Precision)> {
    prop_oneof![
        Just((Form::Pcap, Precision::Micro)),
        Just((Form::Pcap, Precision::Nano)),
        Just((Form::Pcapng, Precision::Micro)),
        Just((Form::Pcapng, Precision::Nano)),
    ]
}

proptest! {
    #[test]
    fn pcap_is_read_as_it_was_made(big: bool, nano: bool, packets in prop::collection::vec(given(), 0..12), few in 1usize..50) {
        let made = classic(big, nano, &packets);
        for (found, end) in [read(&made.file), read_by(&made.file, few)] {
            end.unwrap();
            prop_assert_eq!(found, all(&made));
        }
    }

    #[test]
    fn pcapng_is_read_as_it_was_made(sections in prop::collection::vec(section(), 1..4), few in 1usize..50) {
        let made = ng(&sections);
        for (found, end) in [read(&made.file), read_by(&made.file, few)] {
            end.unwrap();
            prop_assert_eq!(found, all(&made));
        }
    }

    #[test]
    fn what_is_written_is_read(
        (form, precision) in forms(),
        anchor in prop_oneof![Just(0u64), 1_600_000_000_000_000_000u64..2_000_000_000_000_000_000],
        snap in prop_oneof![Just(0u32), 1u32..30],
        remainders: bool,
        packets in prop::collection::vec((0i64..HORIZON, 0u32..3, prop::collection::vec(any::<u8>(), 0..40), 0u32..99), 0..12),
    ) {
        let names = if form == Form::Pcap { vec![String::new()] } else { vec!["a".into(), String::new(), "eth0".into()] };
        let options = WriterOptions { precision, snap, anchor_unix_ns: anchor, interfaces: names, remainders, ..WriterOptions::new(form) };
        let file = Shared::default();
        let mut writer = Writer::new(Box::new(file.clone()), Path::new("x"), options).unwrap();
        for (t, interface, bytes, cut) in &packets {
            writer.packet(*interface, *t, bytes, bytes.len() as u32 + cut).unwrap();
        }
        writer.finish().unwrap();
        let (found, end) = read(&file.bytes());
        end.unwrap();
        let tick = match (precision, remainders && form == Form::Pcapng) {
            (Precision::Micro, _) => US,
            (Precision::Nano, false) => NS,
            (Precision::Nano, true) => 1,
        };
        let expected: Vec<_> = packets.iter().map(|(t, interface, bytes, cut)| {
            let ps = i128::from(anchor) * 1000 + i128::from(*t);
            ExpectedPacket {
                section: 0,
                interface: if form == Form::Pcap { 0 } else { *interface },
                time: Some(Stamp::from_unix_ps(ps - ps % i128::from(tick))),
                len: bytes.len() as u32 + cut,
                bytes: bytes[..bytes.len().min(if snap == 0 { usize::MAX } else { snap as usize })].to_vec(),
            }
        }).collect();
        prop_assert_eq!(found, expected);
        let reader = Reader::from_read(Cursor::new(file.bytes()), Path::new("x")).unwrap();
        prop_assert_eq!(reader.noted_anchor_unix_ns(), (form == Form::Pcapng).then_some(anchor));
    }

    #[test]
    fn arbitrary_bytes_never_panic(head in 0usize..5, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let heads: [&[u8]; 5] = [
            &[],
            &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0],
            &[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a],
            &[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d],
        ];
        let _ = read(&[heads[head], &bytes].concat());
    }

    /// After a change at any place, the packets before it are read unchanged.
    #[test]
    fn damage_spares_what_is_before_it(
        sections in prop::collection::vec(section(), 1..3),
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 1..6),
    ) {
        let mut made = ng(&sections);
        let at = at.index(made.file.len());
        let end = made.file.len().min(at + with.len());
        made.file[at..end].copy_from_slice(&with[..end - at]);
        let before = made.within(at);
        let (found, _) = read(&made.file);
        prop_assert!(found.len() >= before.len());
        prop_assert_eq!(&found[..before.len()], &before);
    }
}

/// A packet of every kind, in both byte orders.
fn small(big: bool) -> [Section; 2] {
    let given = |fill, len| Given { ticks: 1_700_000_000_123_456_789, bytes: vec![fill; len], cut: 9 };
    let described = |resolution, snap| Described { resolution, offset: None, snap, name: Some("eth0".into()) };
    let blocks = vec![
        Block::Enhanced { interface: 0, given: given(1, 5), options: true },
        Block::Unknown { kind: 5, words: 3 },
        Block::Simple { given: given(2, 4) },
        Block::Obsolete { interface: 1, given: given(3, 7) },
    ];
    let interfaces = vec![described(Some(9), 4), described(None, 0)];
    let first = Section { big, interfaces, blocks: blocks.clone(), options: true };
    [first.clone(), Section { big: !big, options: false, ..first }]
}

#[test]
fn cut_at_every_byte_the_whole_packets_before_are_read_and_the_error_says_where() {
    for big in [false, true] {
        let packets = [3, 0, 6].map(|len| Given { ticks: 1_700_000_000_000_007, bytes: vec![7; len], cut: 1 });
        cut_everywhere(&classic(big, big, &packets));
        cut_everywhere(&ng(&small(big)));
    }
}

#[test]
fn damage_is_named() {
    let made = ng(&small(false));
    let first_packet = made.ends[2];
    for (at, with, says) in [
        (first_packet + 4, 13u32, "lengths are multiples of 4"),
        (first_packet + 4, 0xffff_fff0, "are believed"),
        (first_packet + 4, 60, "before and"),
        (first_packet + 8, 2, "a packet of interface 2, and 2 are described"),
        (first_packet + 20, 99, "a packet of 99 bytes in a block that has room for"),
    ] {
        let mut file = made.file.clone();
        file[at..at + 4].copy_from_slice(&with.to_le_bytes());
        let (found, end) = read(&file);
        assert!(found.is_empty());
        let message = end.unwrap_err().to_string();
        assert!(
            message.contains(&format!("x: damaged at byte {first_packet}: ")) && message.contains(says),
            "{message}"
        );
    }
    for (file, says) in [
        (&b""[..], "no capture fits in 0 bytes"),
        (
            b"PK\x03\x04....",
            "neither pcap nor pcapng, plain or packed by gzip or Zstandard: it begins with 50 4b 03 04",
        ),
        (b"\x34\xcd\xb2\xa1\x02\0\x04\0................", "\"modified\" pcap"),
        (b"\xd4\xc3\xb2\xa1\x03\0\x04\0................", "pcap version 3.4 is not read"),
    ] {
        let message = read(file).1.unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn golden_bytes_of_pcap() {
    let file = Shared::default();
    let options = WriterOptions { snap: 5, anchor_unix_ns: 1_000_000_001, ..WriterOptions::new(Form::Pcap) };
    let mut writer = Writer::new(Box::new(file.clone()), Path::new("x"), options).unwrap();
    writer.packet(0, 2 * SECOND + 3_999, b"abcdef", 6).unwrap();
    writer.finish().unwrap();
    #[rustfmt::skip]
    let golden = [
        0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0,
        3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, b'a', b'b', b'c', b'd', b'e',
    ];
    assert_eq!(file.bytes(), golden);
}

#[test]
fn golden_bytes_of_pcapng() {
    let file = Shared::default();
    let options = WriterOptions {
        anchor_unix_ns: 7_000_000_001,
        interfaces: vec!["up".into()],
        ..WriterOptions::new(Form::Pcapng)
    };
    let mut writer = Writer::new(Box::new(file.clone()), Path::new("x"), options).unwrap();
    writer.packet(0, 8_589_934_592_999, b"abcdef", 6).unwrap();
    writer.finish().unwrap();
    let text = b"anchor_unix_ns=7000000001: the run's times count from here";
    let mut golden = vec![0x0a, 0x0d, 0x0d, 0x0a, 96, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
    golden.extend([0xff; 8]);
    golden.extend([1, 0, 58, 0]);
    golden.extend(text);
    golden.extend([0, 0, 0, 0, 0, 0, 96, 0, 0, 0]);
    #[rustfmt::skip]
    golden.extend([
        1, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2, 0, b'u', b'p', 0, 0, 9, 0, 1, 0, 9, 0, 0, 0,
        0, 0, 0, 0, 40, 0, 0, 0,
        6, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0x1, 0x86, 0x3b, 0xa1, 6, 0, 0, 0, 6, 0, 0, 0,
        b'a', b'b', b'c', b'd', b'e', b'f', 0, 0, 40, 0, 0, 0,
    ]);
    assert_eq!(file.bytes(), golden);
}

/// A file has at any time only whole packets, so that it can be read if the process is killed.
#[test]
fn what_is_passed_on_ends_with_a_whole_packet() {
    for (form, remainders) in [(Form::Pcap, false), (Form::Pcapng, false), (Form::Pcapng, true)] {
        let file = Shared::default();
        let options = WriterOptions { remainders, ..WriterOptions::new(form) };
        let mut writer = Writer::new(Box::new(file.clone()), Path::new("x"), options).unwrap();
        let (mut parts, mut before) = (0, 0);
        for len in (60..1500_usize).cycle().take(2000) {
            writer.packet(0, 1, &[7_u8; 1500][..len], len as u32).unwrap();
            let now = file.0.lock().unwrap().len();
            if now > before {
                (parts, before) = (parts + 1, now);
                read(&file.bytes()).1.unwrap_or_else(|error| panic!("{form:?}, {now} bytes: {error}"));
            }
        }
        assert!(parts > 3, "{form:?}: {parts} parts");
    }
}

#[test]
fn what_a_form_cannot_keep_is_refused() {
    let open = |options| Writer::new(Box::new(Vec::new()), Path::new("x.pcap"), options);
    let two = WriterOptions { interfaces: vec!["a".into(), "b".into()], ..WriterOptions::new(Form::Pcap) };
    let message = open(two).err().unwrap().to_string();
    assert!(message.contains("write pcapng"), "{message}");
    let none = WriterOptions { interfaces: Vec::new(), ..WriterOptions::new(Form::Pcapng) };
    assert!(matches!(open(none), Err(Error::Config(_))));
    let mut writer = open(WriterOptions::new(Form::Pcap)).unwrap();
    assert!(matches!(writer.packet(0, -1, b"", 0), Err(Error::Data { .. })), "before 1970");
    writer.set_anchor(5_000_000_000_000_000_000, true);
    assert!(matches!(writer.packet(0, 0, b"", 0), Err(Error::Data { .. })), "after 2106");
    let mut writer = open(WriterOptions::new(Form::Pcapng)).unwrap();
    assert!(matches!(writer.packet(1, 0, b"", 0), Err(Error::Data { .. })), "no such interface");
}

#[test]
fn a_new_anchor_begins_a_section() {
    let file = Shared::default();
    let mut writer = Writer::new(Box::new(file.clone()), Path::new("x"), WriterOptions::new(Form::Pcapng)).unwrap();
    writer.set_anchor(3_000, true);
    writer.packet(0, NS, b"a", 1).unwrap();
    writer.set_anchor(5_000, true);
    writer.packet(0, NS, b"b", 1).unwrap();
    writer.finish().unwrap();
    let (found, end) = read(&file.bytes());
    end.unwrap();
    let told: Vec<_> = found.iter().map(|p| (p.section, p.time.unwrap().unix_ns())).collect();
    assert_eq!(told, [(0, 3_001), (1, 5_001)]);
}

#[test]
fn a_section_that_is_not_noted_has_not_the_anchor_of_the_one_before() {
    let file = Shared::default();
    let mut writer = Writer::new(Box::new(file.clone()), Path::new("x"), WriterOptions::new(Form::Pcapng)).unwrap();
    writer.set_anchor(3_000, true);
    writer.packet(0, NS, b"a", 1).unwrap();
    writer.set_anchor(5_000, false);
    writer.packet(0, NS, b"b", 1).unwrap();
    writer.finish().unwrap();
    let mut reader = Reader::from_read(Cursor::new(file.bytes()), Path::new("x")).unwrap();
    let mut told = Vec::new();
    while let Some(packet) = reader.next().unwrap() {
        let at = packet.time.unwrap().unix_ns();
        told.push((at, reader.noted_anchor_unix_ns(), reader.anchors_differ()));
    }
    assert_eq!(told, [(3_001, Some(3_000), false), (5_001, None, true)]);
}

#[test]
fn the_anchor_is_noted_or_1970_or_the_first_packet() {
    let reader = |anchor: u64, form| {
        let file = Shared::default();
        let options = WriterOptions { anchor_unix_ns: anchor, ..WriterOptions::new(form) };
        Writer::new(Box::new(file.clone()), Path::new("x"), options).unwrap().finish().unwrap();
        Reader::from_read(Cursor::new(file.bytes()), Path::new("x")).unwrap()
    };
    let first = |ns: i64| Stamp::from_unix_ps(i128::from(ns) * 1000);
    let today = 1_700_000_000_000_000_000;
    assert_eq!(reader(today as u64, Form::Pcapng).anchor_unix_ns(first(today + 5)), today as u64);
    assert_eq!(reader(0, Form::Pcap).anchor_unix_ns(first(5_000_000_000)), 0);
    assert_eq!(reader(0, Form::Pcap).anchor_unix_ns(first(today + 5)), today as u64 + 5);
}

#[test]
fn memory_stays_flat_unless_a_packet_needs_more() {
    let packets: Vec<_> = (0..40_000).map(|i| Given { ticks: i, bytes: vec![i as u8; 200], cut: 0 }).collect();
    let made = classic(false, true, &packets);
    let mut reader = Reader::from_read(Cursor::new(made.file), Path::new("x")).unwrap();
    let mut count = 0;
    while reader.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!((count, reader.held_bytes()), (40_000, 64 << 10));
    // A declared length of 16 MB takes no memory; a packet of 1 MB takes its size, and a skipped block nothing.
    let mut claim = classic(false, true, &[]).file;
    claim.extend([0u32, 0, 16 << 20, 16 << 20].iter().flat_map(|word| word.to_le_bytes()));
    let mut reader = Reader::from_read(Cursor::new(claim), Path::new("x")).unwrap();
    assert!(reader.next().is_err());
    assert_eq!(reader.held_bytes(), 64 << 10);
    let mut sections = small(true);
    sections[0].blocks.insert(0, Block::Unknown { kind: 77, words: 10 << 20 });
    let made = ng(&sections);
    let mut reader = Reader::from_read(Cursor::new(made.file.clone()), Path::new("x")).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().bytes, [1; 5]);
    assert_eq!(reader.held_bytes(), 64 << 10);
    let large = Given { ticks: 0, bytes: vec![9; 1 << 20], cut: 0 };
    sections[0].blocks.insert(0, Block::Enhanced { interface: 0, given: large, options: false });
    let made = ng(&sections);
    let (found, end) = read(&made.file);
    end.unwrap();
    assert_eq!(found, all(&made));
}

#[test]
fn packed_captures_are_unpacked_and_progress_counts_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let made = ng(&small(true));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&made.file).unwrap();
    let zstandard = zstd::stream::encode_all(&made.file[..], 3).unwrap();
    // pzstd puts the length of each frame before it, in a frame that is skipped.
    let skipped = |magic: u8| {
        let length = (zstandard.len() as u32).to_le_bytes();
        [&[magic, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], &length, &zstandard].concat()
    };
    let packed = [made.file.clone(), gzip.finish().unwrap(), zstandard.clone(), skipped(0x50), skipped(0x5f)];
    let of_zstandard = " of what Zstandard unpacks";
    let unpacked = ["", " of what gzip unpacks", of_zstandard, of_zstandard, of_zstandard];
    for (bytes, unpacked) in packed.iter().zip(unpacked) {
        assert_eq!(no_capture(&bytes[..4]), None);
        let path = folder.path().join("x.pcapng");
        std::fs::write(&path, bytes).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let mut count = 0;
        while reader.next().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, all(&made).len());
        assert_eq!((reader.bytes_read(), reader.file_bytes()), (bytes.len() as u64, Some(bytes.len() as u64)));
        // Cut short, in every compression.
        std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        let end = Reader::open(&path).and_then(|mut reader| {
            while reader.next()?.is_some() {}
            Ok(())
        });
        match end.unwrap_err() {
            Error::Data { what, .. } => {
                assert!(what.starts_with("damaged at byte ") && what.contains(unpacked), "{what}")
            }
            other => panic!("{other}"),
        }
    }
}

/// Statistics of an interface count from the beginning and include the counts of packets; each section has separate statistics.
#[test]
fn what_was_dropped_where_a_capture_was_made_is_known() {
    let block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, body, &length].concat()
    };
    let option = |code: u16, value: u64| [&code.to_le_bytes()[..], &8u16.to_le_bytes(), &value.to_le_bytes()].concat();
    let begin = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let packet = |dropped: u64| {
        let fixed: Vec<u8> = [0u32, 0, 7, 4, 4].iter().flat_map(|word| word.to_le_bytes()).collect();
        block(6, &[&fixed[..], b"abcd", &option(4, dropped)].concat())
    };
    // The obsolete form, with the interface and the drops in one word each.
    let obsolete = |dropped: u16| {
        let words = [0u32, 7, 4, 4].iter().flat_map(|word| word.to_le_bytes());
        let fixed: Vec<u8> = [0, 0].into_iter().chain(dropped.to_le_bytes()).chain(words).collect();
        block(2, &[&fixed[..], b"abcd"].concat())
    };
    let counted = |options: &[u8]| block(5, &[&[0; 12][..], options].concat());
    let section = [block(0x0a0d_0d0a, &begin), block(1, &[1, 0, 0, 0, 0, 0, 0, 0])].concat();
    let both = |interface, host| counted(&[option(5, interface), option(7, host)].concat());
    for (blocks, dropped) in [
        (vec![packet(0)], 0),
        (vec![packet(3), packet(4)], 7),
        (vec![obsolete(0), obsolete(7), obsolete(u16::MAX)], 7),
        (vec![packet(3), both(10, 2)], 12),
        (vec![both(1, 0), packet(9), both(8, 0)], 9),
        (vec![both(1, 0), packet(0), both(8, 0), section.clone(), packet(5)], 13),
        // Damaged statistics are ignored.
        (vec![packet(1), counted(&[5, 0, 90, 0])], 1),
    ] {
        let file = [section.clone(), blocks.concat()].concat();
        let mut reader = Reader::from_read(Cursor::new(file), Path::new("x")).unwrap();
        while reader.next().unwrap().is_some() {}
        assert_eq!(reader.dropped(), dropped);
    }
}

#[test]
fn drops_behind_a_finished_capture_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcapng");
    let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcapng)).unwrap();
    writer.packet(0, 5, b"abcd", 4).unwrap();
    writer.finish().unwrap();
    Drops { unix_ns: 1_700_000_000_000_000_000, by_interface: 3, by_host: 4 }.append_to(&path).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.next().unwrap().map(|packet| packet.bytes.to_vec()), Some(b"abcd".to_vec()));
    assert!(reader.next().unwrap().is_none());
    assert_eq!(reader.dropped(), 7);
}
