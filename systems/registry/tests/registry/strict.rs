//! Compares layouts without a header of ours with frames made by hand: both directions byte for byte, every field by
//! itself, and tshark's results for lengths, checksums and RoCEv2.

use std::path::Path;
use std::process::Command;

use crate::golden::{FRAMES, Golden, Values};
use crate::support::tshark::tshark;
use pktgen_atp::format as atp_ml;
use pktgen_core::registry::find;
use pktgen_olaf::strict as olaf_strict;
use pktgen_olaf::strict::{ACK_HEAD, Ack, UPDATE_HEAD, Update};
use pktgen_registry::all;
use pktgen_switchml::format as switchml;
use pktgen_switchml::roce::{self as roce, Immediate, Message, Way, key_of, pair_of};
use pktgen_testing::{Need, skip};
use pktgen_trio_ml::format as trio_ml;
use pktgen_wire::pcap::{Form, Writer, WriterOptions};
use pktgen_wire::wire::frame::{HEAD, Ip, SERVER_IP, Template, group_ip, mac_of, set_udp_checksum, worker_ip};
use pktgen_wire::wire::layout::{Kind, Placed, place};
use pktgen_wire::wire::sight::{Look, What, look};
use pktgen_wire::wire::{Format, dissector, integers};

const WORKER: Ip = worker_ip(2);

/// Returns a UDP frame: headers, the bytes before the values, and the values.
fn over_udp(from: (Ip, u16), to: (Ip, u16), checked: bool, head: &[u8], values: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEAD + head.len() + values.len()];
    Template::new(from, to, frame.len()).emit(&mut frame);
    frame[HEAD..HEAD + head.len()].copy_from_slice(head);
    frame[HEAD + head.len()..].copy_from_slice(values);
    if checked {
        set_udp_checksum(&mut frame);
    }
    frame
}

fn written<const N: usize>(emit: impl FnOnce(&mut [u8])) -> [u8; N] {
    let mut head = [0xa5; N];
    emit(&mut head);
    head
}

fn olaf(name: &str) -> Vec<u8> {
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let (server, worker) = (olaf_strict::PORT, olaf_strict::WORKER_PORT);
    if name.ends_with("update") {
        let head = written::<UPDATE_HEAD>(|head| Update { reward: 1.5, elements: 3 }.emit(head));
        over_udp((WORKER, worker), (SERVER_IP, server), true, &head, &floats(&[0.5, -2.0, 3.25]))
    } else {
        let head = written::<ACK_HEAD>(|head| Ack { occupancy: 0x01_0203, active: 9, elements: 1 }.emit(head));
        over_udp((SERVER_IP, server), (group_ip(7), worker), true, &head, &floats(&[1.0]))
    }
}

fn switchml(name: &str) -> Vec<u8> {
    let (server, worker) = ((SERVER_IP, switchml::PORT), (WORKER, switchml::WORKER_PORT));
    let own = switchml::Header { job: 7, attempt: 3, ..switchml::Header::default() };
    // Numbers as our endpoints assign them: job 7 of 0x2000000 packets each (or of 8), the 4th transmission. The frame
    // shows neither the job's offset nor the transmission.
    let (header, packets) = if name.ends_with("contribution") {
        let own = switchml::Header { set: true, slot: 0x1234, exponent: -3, elements: 64, ..own };
        (switchml::Header { packet: 7 * 0x0200_0000 + 0x0102_0304, ..own }, 0x0200_0000)
    } else {
        (switchml::Header { packet: 7 * 8 + 5, slot: 0x42, exponent: 4, elements: 256, ..own }, 8)
    };
    let head = written::<{ switchml::HEADER }>(|head| header.strict(packets).emit(head));
    let values = Values::Integers(header.elements.into()).bytes();
    match name.ends_with("contribution") {
        true => over_udp(worker, server, true, &head, &values),
        false => over_udp(server, worker, false, &head, &values),
    }
}

fn trio(name: &str) -> Vec<u8> {
    let (server, worker) = ((SERVER_IP, trio_ml::PORT), (WORKER, trio_ml::PORT));
    let all = trio_ml::Header { job: 1, block: 0x12345, generation: 0x203, ..trio_ml::Header::default() };
    let (header, sums): (_, &[i32]) = match name {
        "trio contribution" => {
            (trio_ml::Header { last: true, source: 2, sources: 1, elements: 3, ..all }, &[1_000_000, -1, 7])
        }
        "trio result" => (trio_ml::Header { sources: 6, elements: 2, ..all }, &[6, -6]),
        _ => {
            let aged = trio_ml::Header { age_op: trio_ml::AGED, degraded: true, ..all };
            (trio_ml::Header { source: 3, sources: 5, elements: 2, ..aged }, &[5, -5])
        }
    };
    let head = written::<{ trio_ml::HEADER }>(|head| header.emit(head));
    let mut values = vec![0; sums.len() * 4];
    integers::emit_values(sums, &mut values);
    match name == "trio contribution" {
        true => over_udp(worker, server, true, &head, &values),
        false => over_udp(server, (group_ip(7), trio_ml::PORT), true, &head, &values),
    }
}

fn roce_frame(name: &str) -> Vec<u8> {
    let up = name.ends_with("switch");
    let only = name.contains("only");
    let immediate = Immediate { message: 0x1234, exponents: [-3, 5] };
    let all =
        Message { address: 0x1122_3344_5566_7788, immediate, packets: if only { 1 } else { 3 }, ..Message::default() };
    let message = match up {
        true => Message { pair: pair_of(2, 5), psn: if only { 9 } else { 0xff_fffe }, key: key_of(0x102, true), ..all },
        false => {
            Message { pair: 0x0a_bcde, psn: if only { 0x13 } else { 0x10 }, key: 0xcafe_0001, migration: true, ..all }
        }
    };
    let index = if name.contains("middle") { 1 } else { 2 * u32::from(name.contains("last")) };
    let header = message.header(index, if only { 256 } else { 64 });
    let values = Values::Integers(header.elements.into()).bytes();
    let mut frame = vec![0; HEAD + header.payload_bytes()];
    match up {
        true => roce::emit_frame(Way::ToSwitch { port: 0xc123 }, WORKER, SERVER_IP, &header, &values, &mut frame),
        false => roce::emit_frame(Way::ToWorker { worker: 2 }, SERVER_IP, WORKER, &header, &values, &mut frame),
    }
    frame
}

fn atp(name: &str) -> Vec<u8> {
    use atp_ml::{Header, Towards};
    let all = Header { workers: 8, server: 1, app: 3, seq: 7, aggregator: 0x123, ..Header::default() };
    let all = Header { second: 0x123 + atp_ml::SECOND, key: 0x1122_3344_5566_7788, tensor: 62_000, ..all };
    let (header, values) = match name {
        "atp data" => (Header { bitmap: 1 << 2, ..all }, Values::Millionths),
        "atp ack" => (Header { bitmap: 0xff, congested: true, collision: true, ack: true, ..all }, Values::Millionths),
        _ => (Header { bitmap: 1 << 2, seq: 8, overflow: true, resent: true, ..all }, Values::Floats),
    };
    let mut frame = vec![0; atp_ml::FRAME_BYTES];
    match header.ack {
        false => atp_ml::emit_head(&mut frame, mac_of(WORKER), Towards::Server, 1, WORKER, SERVER_IP),
        true => atp_ml::emit_head(&mut frame, mac_of(SERVER_IP), Towards::Workers, 1, SERVER_IP, WORKER),
    }
    let layer = &mut frame[atp_ml::HEAD..];
    header.emit(layer);
    atp_ml::values_mut(layer).copy_from_slice(&values.bytes());
    frame
}

/// Returns the frame made by our encoders.
fn encoded(golden: &Golden) -> Vec<u8> {
    match golden.format {
        "olaf_strict" => olaf(golden.name),
        "switchml" => switchml(golden.name),
        "trio_ml" => trio(golden.name),
        "switchml_roce" => roce_frame(golden.name),
        "atp_ml" => atp(golden.name),
        other => panic!("{other} has no encoder here"),
    }
}

fn payload(frame: &[u8]) -> (usize, &[u8]) {
    match look(1, frame) {
        Look::Udp(datagram) | Look::Layer(_, datagram) => (frame.len() - datagram.payload.len(), datagram.payload),
        other => panic!("{other:?}"),
    }
}

#[test]
fn encoders_make_the_frames_that_were_made_by_hand() {
    for golden in FRAMES {
        assert_eq!(encoded(golden), golden.frame(), "{}", golden.name);
    }
}

/// Returns the output of our decoders for a payload, to the last bit: header, values, and whether its checksum is right.
fn said(format: &str, frame: &[u8]) -> Option<String> {
    let (_, payload) = payload(frame);
    Some(match format {
        "olaf_strict" if Update::parse(payload).is_some() => {
            format!("{:?} {:?}", Update::parse(payload)?, &payload[UPDATE_HEAD..])
        }
        "olaf_strict" => format!("{:?} {:?}", Ack::parse(payload)?, &payload[ACK_HEAD..]),
        "switchml" => {
            let header = switchml::Header::parse(payload)?;
            format!("{header:?} {:?}", switchml::values(payload, &header))
        }
        "trio_ml" => {
            let header = trio_ml::Header::parse(payload)?;
            format!("{header:?} {:?}", trio_ml::values(payload, &header))
        }
        "switchml_roce" => {
            let header = roce::Header::parse(payload)?;
            let checksum = (roce::icrc(frame)?, *payload.last_chunk::<4>()?);
            format!("{header:?} {:?} {}", roce::values(payload, &header), checksum.0 == checksum.1)
        }
        "atp_ml" => format!("{:?} {:?}", atp_ml::Header::parse(payload)?, atp_ml::values(payload)?),
        other => panic!("{other} has no decoder here"),
    })
}

/// Returns whether a bit has no meaning. Of RoCEv2's unused bits, the checksum excludes only those beside the congestion bits.
fn is_unused(format: &dyn Format, at: usize, bit: usize) -> bool {
    let unused = |placed: &Placed| {
        let bits = placed.first..placed.first + placed.field.bits;
        placed.field.kind == Kind::Unused && bits.contains(&(at * 8 + 7 - bit))
    };
    let alone = format.name() == roce::NAME && at != 4;
    !alone && place(format.layout().head.iter(), 0).iter().any(unused)
}

#[test]
fn decoders_read_them_and_a_change_of_any_bit_is_seen() {
    for golden in FRAMES {
        let frame = golden.frame();
        let right = said(golden.format, &frame).unwrap_or_else(|| panic!("{} is not read", golden.name));
        let format = find(all().protocols.formats, "format", golden.format, "here").unwrap();
        let (head, payload) = payload(&frame);
        assert_eq!(format.round_trip(payload).as_deref(), Some(payload), "{}", golden.name);
        assert!(!format.print(payload).starts_with("not "), "{}", golden.name);
        for at in 0..payload.len() {
            for bit in 0..8 {
                let mut other = frame.clone();
                other[head + at] ^= 1 << bit;
                let same = said(golden.format, &other).as_deref() == Some(&right);
                assert_eq!(same, is_unused(format, at, bit), "{}: bit {bit} of byte {at}", golden.name);
            }
        }
    }
}

/// Compares the fields with those in the hex one by one, without using our own encoders.
#[test]
fn decoders_say_what_the_tables_say() {
    let of = |name: &str| FRAMES.iter().find(|golden| golden.name == name).expect(name).frame();
    let layer = |name: &str| of(name)[payload(&of(name)).0..].to_vec();
    assert_eq!(Update::parse(&layer("olaf update")), Some(Update { reward: 1.5, elements: 3 }));
    assert_eq!(Ack::parse(&layer("olaf ack")), Some(Ack { occupancy: 0x01_0203, active: 9, elements: 1 }));
    let header = switchml::Header::parse(&layer("switchml contribution")).unwrap();
    assert_eq!((header.job, header.packet, header.set, header.slot), (7, 0x0102_0304, true, 0x1234));
    assert_eq!((header.exponent, header.attempt, header.elements), (-3, 0, 64));
    let header = roce::Header::parse(&layer("roce last, to the switch")).unwrap();
    assert_eq!((header.part, header.psn, header.pair), (roce::Part::LastImmediate, 0, 0x2_0005));
    assert_eq!(header.immediate, Immediate { message: 0x1234, exponents: [-3, 5] });
    let header = roce::Header::parse(&layer("roce first, to the worker")).unwrap();
    assert_eq!((header.target.key, header.target.length, header.migration), (0xcafe_0001, 768, true));
    let header = trio_ml::Header::parse(&layer("trio aged result")).unwrap();
    assert_eq!((header.block, header.age_op, header.degraded, header.sources), (0x12345, 1, true, 5));
    let header = atp_ml::Header::parse(&layer("atp overflow")).unwrap();
    assert_eq!((header.overflow, header.resent, header.seq, header.second), (true, true, 8, 0x4f43));
    assert_eq!((header.key, header.tensor, header.bitmap), (0x1122_3344_5566_7788, 62_000, 4));
}

/// Checks the slots of the three packets of a message, as the switch assigns them.
#[test]
fn a_message_of_the_frames_has_three_slots() {
    let mut receiver = roce::Receiver::default();
    let places: Vec<_> = ["first", "middle", "last"]
        .iter()
        .map(|part| {
            let name = format!("roce {part}, to the switch");
            let frame = FRAMES.iter().find(|golden| golden.name == name).unwrap().frame();
            receiver.take(&roce::Header::parse(payload(&frame).1).unwrap()).unwrap()
        })
        .map(|place| (place.slot, place.set, place.ends))
        .collect();
    assert_eq!(places, [(0x102, true, false), (0x103, true, false), (0x104, true, true)]);
}

/// Checks that a capture of the frames identifies senders by their addresses.
#[test]
fn addresses_say_who_sent_it() {
    for golden in FRAMES {
        let format = find(all().protocols.formats, "format", golden.format, "here").unwrap();
        let frame = golden.frame();
        let (Look::Udp(datagram) | Look::Layer(_, datagram)) = look(1, &frame) else { panic!("{}", golden.name) };
        let sight = format.sight(&datagram).unwrap_or_else(|| panic!("{}", golden.name));
        let up = ["update", "contribution", "switch", "data", "overflow"].iter().any(|end| golden.name.ends_with(end));
        assert_eq!(sight.what == What::Update, up, "{}", golden.name);
        if up {
            assert_eq!(sight.worker, Some(2), "{}", golden.name);
        }
        assert!(
            format.ether_type().is_some() || format.has_port(datagram.dst_port) || format.has_port(datagram.src_port)
        );
    }
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut writer = Writer::create(path, WriterOptions::new(Form::Pcap)).unwrap();
    for (i, frame) in frames.iter().enumerate() {
        writer.packet(0, i as i64 * 1000, frame, frame.len() as u32).unwrap();
    }
    writer.finish().unwrap();
}

/// tshark agrees on lengths and checksums, and finds nothing malformed. It has no dissector for ATP: it reports only
/// the frame's length; with our dissector, it reports every field where the layout has it (`dissector.rs`).
#[test]
fn tshark_agrees_on_lengths_and_checksums() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pktgen.lua"), dissector::lua(all().protocols.formats)).unwrap();
    let capture = folder.path().join("golden.pcap");
    write(&capture, &FRAMES.iter().map(Golden::frame).collect::<Vec<_>>());
    let fields = ["frame.len", "ip.len", "ip.checksum.status", "udp.length", "udp.checksum.status", "_ws.malformed"];
    let options = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields"];
    let args: Vec<_> = options.into_iter().chain(fields.iter().flat_map(|field| ["-e", *field])).collect();
    let Some(text) = tshark(folder.path(), &capture, &args) else { return };
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), FRAMES.len(), "{text}");
    for (golden, line) in FRAMES.iter().zip(&lines) {
        let len = golden.frame().len();
        // 1 is good, 3 is none.
        let udp = if golden.format == "switchml_roce" || golden.name == "switchml reply" { 3 } else { 1 };
        let expected = match golden.format {
            "atp_ml" => format!("{len}\t\t\t\t\t"),
            _ => format!("{len}\t{}\t1\t{}\t{udp}\t", len - 14, len - 34),
        };
        assert_eq!(*line, expected, "{}", golden.name);
    }
    let Some(text) = tshark(folder.path(), &capture, &["-q", "-z", "expert"]) else { return };
    assert!(!text.contains("Errors (") && !text.contains("Warn"), "{text}");
}

/// Wireshark's own InfiniBand dissector agrees on every field of ours, and on the place of the checksum.
#[test]
fn wiresharks_reader_of_infiniband_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("roce.pcap");
    let all: Vec<_> = FRAMES.iter().filter(|golden| golden.format == "switchml_roce").collect();
    write(&capture, &all.iter().map(|golden| golden.frame()).collect::<Vec<_>>());
    let names = ["opcode", "m", "padcnt", "p_key", "destqp", "psn"].map(|name| format!("infiniband.bth.{name}"));
    let more = ["reth.va", "reth.r_key", "reth.dmalen", "immdt", "invariant.crc"].map(|n| format!("infiniband.{n}"));
    let mut command = Command::new("tshark");
    // Without user settings, and without our dissector.
    command.env("WIRESHARK_CONFIG_DIR", folder.path().join("none")).env("LC_ALL", "C.UTF-8");
    command.args(["-n", "-r"]).arg(&capture).args(["-T", "fields", "-E", "occurrence=f"]);
    command.args(names.iter().chain(&more).flat_map(|name| ["-e", name]));
    let output = match command.output() {
        Err(error) => return skip(Need::Tshark, "RoCEv2 as tshark reads it", error),
        Ok(output) => output,
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None if text == "True" => 1,
        None if text == "False" => 0,
        None => text.parse().unwrap_or_else(|e| panic!("{text}: {e}")),
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), all.len(), "{text}");
    for (golden, line) in all.iter().zip(text.lines()) {
        let frame = golden.frame();
        let header = roce::Header::parse(payload(&frame).1).unwrap();
        let shown: Vec<_> = line.split('\t').collect();
        let bth = [header.part as u64, header.migration.into(), 0, 0xffff, header.pair.into(), header.psn.into()];
        assert_eq!(shown[..6].iter().map(|text| number(text)).collect::<Vec<_>>(), bth, "{}: {line}", golden.name);
        if header.part.is_first() {
            let reth = [header.target.address, header.target.key.into(), header.target.length.into()];
            assert_eq!(shown[6..9].iter().map(|text| number(text)).collect::<Vec<_>>(), reth, "{}", golden.name);
        } else {
            assert_eq!(shown[6..9], [""; 3], "{}", golden.name);
        }
        let immediate = if header.part.is_last() { "3412fd05" } else { "" };
        assert_eq!(shown[9].replace(':', ""), immediate, "{}", golden.name);
        let end = u32::from_be_bytes(*frame.last_chunk().unwrap());
        assert_eq!(number(shown[10]), u64::from(end), "{}", golden.name);
    }
}
