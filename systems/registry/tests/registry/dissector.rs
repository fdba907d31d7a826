//! Layouts agree with the formats' own readers, and so does the Wireshark dissector generated from them: on random
//! packets of every message, and on damaged and truncated ones.

use std::path::{Path, PathBuf};

use crate::support::make::{Random, damage, payload};
use crate::support::parsed::parsed;
use crate::support::tshark::{Packet, compare, packets, show_all, tshark};
use crate::support::{Said, by_layout};
use pktgen_atp::format as atp_ml;
use pktgen_registry::all;
use pktgen_wire::pcap::{Form, Writer, WriterOptions};
use pktgen_wire::wire::Format;
use pktgen_wire::wire::dissector;
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
use pktgen_wire::wire::layout::Rest;
use proptest::prelude::*;

/// Asserts that the layout and the reader accept the same payloads with the same contents.
fn agree(format: &dyn Format, payload: &[u8]) -> Option<Said> {
    let (decoded, said) = (format.layout().decode(payload), parsed(format.name(), payload));
    assert_eq!(decoded.is_some(), said.is_some(), "{}: {}: {payload:02x?}", format.name(), format.print(payload));
    let (decoded, said) = (decoded?, said?);
    assert_eq!(by_layout(&decoded, &said), said, "{} {}", format.name(), decoded.message.name);
    assert!(format.round_trip(payload).is_some(), "{} {}", format.name(), decoded.message.name);
    Some(said)
}

proptest! {
    #[test]
    fn layouts_agree_with_readers_on_every_message(seed: u64) {
        let mut random = Random(seed);
        for format in all().protocols.formats {
            for message in format.layout().messages {
                let mut payload = payload(format.layout(), message, 300, &mut random);
                let decoded = format.layout().decode(&payload);
                prop_assert_eq!(decoded.map(|d| d.message.name), Some(message.name), "{}", format.name());
                prop_assert!(agree(*format, &payload).is_some());
                for _ in 0..4 {
                    damage(&mut payload, &mut random);
                    agree(*format, &payload);
                }
            }
        }
    }

    #[test]
    fn layouts_agree_with_readers_on_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        for format in all().protocols.formats {
            agree(*format, &bytes);
        }
    }
}

fn frame(payload: &[u8], ports: (u16, u16)) -> Vec<u8> {
    let mut frame = vec![0; HEAD + payload.len()];
    Template::new((worker_ip(1), ports.0), (SERVER_IP, ports.1), frame.len()).emit(&mut frame);
    frame[HEAD..].copy_from_slice(payload);
    frame
}

/// Returns a frame of the format, identified by its ports or its Ethernet type.
fn framed(format: &dyn Format, payload: &[u8]) -> Vec<u8> {
    if format.ether_type().is_none() {
        return frame(payload, ports(format));
    }
    let mut head = vec![0; atp_ml::HEAD];
    atp_ml::emit_head(&mut head, [2; 6], atp_ml::Towards::Server, 1, worker_ip(1), SERVER_IP);
    [&head, payload].concat()
}

/// Writes a capture of frames, each cut to `snap` bytes, and the dissector beside it.
fn write(folder: &Path, frames: &[Vec<u8>], snap: impl Fn(usize) -> usize) -> PathBuf {
    std::fs::write(folder.join("pktgen.lua"), dissector::lua(all().protocols.formats)).unwrap();
    let path = folder.join("x.pcapng");
    let mut writer = Writer::create(&path, WriterOptions::new(Form::Pcapng)).unwrap();
    for (i, frame) in frames.iter().enumerate() {
        let kept = frame.len().min(snap(i));
        writer.packet(0, i as i64 * 1000, &frame[..kept], frame.len() as u32).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// Returns the format's own ports, or one that it shares.
fn ports(format: &dyn Format) -> (u16, u16) {
    match format.layout().ports {
        [(first, last), ..] => (*last, *first),
        [] => (OTHER, format.layout().shared_ports[0]),
    }
}

/// A port that no format uses.
const OTHER: u16 = 40_002;

fn names() -> Vec<&'static str> {
    all().protocols.formats.iter().map(|format| format.name()).collect()
}

/// Returns what tshark shows of frames by `format`; a shared port is assigned to it by an option. None if tshark is not installed.
fn shown(format: &dyn Format, frames: &[Vec<u8>], snap: impl Fn(usize) -> usize) -> Option<Vec<Packet>> {
    let told = match (format.layout().ports, format.layout().shared_ports) {
        ([], [port, ..]) => vec!["-d".to_owned(), format!("udp.port=={port},{}", format.name())],
        _ => Vec::new(),
    };
    shown_by(format, frames, snap, told)
}

/// The same, with only the options `told`.
fn shown_by(
    format: &dyn Format,
    frames: &[Vec<u8>],
    snap: impl Fn(usize) -> usize,
    told: Vec<String>,
) -> Option<Vec<Packet>> {
    let folder = tempfile::tempdir().unwrap();
    let capture = write(folder.path(), frames, snap);
    let all = [show_all(&names()), told].concat();
    let args: Vec<&str> = ["-T", "pdml"].into_iter().chain(all.iter().map(String::as_str)).collect();
    let packets = packets(&tshark(folder.path(), &capture, &args)?, format.name());
    assert_eq!(packets.len(), frames.len());
    Some(packets)
}

fn item_names(format: &dyn Format, payload: &[u8]) -> Vec<&'static str> {
    match format.layout().decode(payload).map(|decoded| decoded.message.rest) {
        Some(Rest::Items { fields, .. }) => fields.iter().map(|field| field.name).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn tshark_shows_every_field_of_every_message() {
    for format in all().protocols.formats {
        let mut random = Random(1);
        let messages = format.layout().messages.iter();
        let payloads: Vec<_> = messages
            .flat_map(|message| (0..8).map(move |i| (message, i * 5)))
            .map(|(message, most)| payload(format.layout(), message, most, &mut random))
            .collect();
        let frames: Vec<_> = payloads.iter().map(|payload| framed(*format, payload)).collect();
        let Some(shown) = shown(*format, &frames, |_| usize::MAX) else { return };
        for (i, (payload, packet)) in payloads.iter().zip(&shown).enumerate() {
            let what = format!("{} packet {i}", format.name());
            let said = parsed(format.name(), payload).unwrap();
            assert!(packet.experts.is_empty(), "{what}: {:?}", packet.experts);
            compare(packet, &said, &item_names(*format, payload), &what);
        }
    }
}

#[test]
fn tshark_marks_what_the_reader_refuses_and_nothing_else() {
    for format in all().protocols.formats {
        let mut random = Random(2);
        let mut payloads = vec![vec![0]];
        for message in format.layout().messages {
            for _ in 0..200 / format.layout().messages.len() {
                let mut payload = payload(format.layout(), message, 20, &mut random);
                damage(&mut payload, &mut random);
                // tshark shows no datagram without a payload.
                payloads.extend((!payload.is_empty()).then_some(payload));
            }
        }
        let frames: Vec<_> = payloads.iter().map(|payload| framed(*format, payload)).collect();
        let Some(shown) = shown(*format, &frames, |_| usize::MAX) else { return };
        let mut refused = 0;
        for (payload, packet) in payloads.iter().zip(&shown) {
            let good = parsed(format.name(), payload).is_some();
            refused += usize::from(!good);
            let what = format!("{}: {:?} {payload:02x?}", format.name(), packet.experts);
            assert_eq!(packet.experts.is_empty(), good, "{what}");
            assert!(!packet.experts.iter().any(|expert| expert == "snapped"), "{what}");
        }
        assert!(refused > 10 && refused < payloads.len(), "{refused} of {}", payloads.len());
    }
}

#[test]
fn snapped_packets_are_shown_as_far_as_they_go() {
    for format in all().protocols.formats {
        let mut random = Random(3);
        let messages = format.layout().messages.iter().enumerate();
        let payloads: Vec<_> = messages
            .filter(|(i, _)| i % 5 < 2)
            .map(|(_, message)| payload(format.layout(), message, 12, &mut random))
            .flat_map(|payload| std::iter::repeat_n(payload, 70))
            .collect();
        let frames: Vec<_> = payloads.iter().map(|payload| framed(*format, payload)).collect();
        let head = frames[0].len() - payloads[0].len();
        let Some(shown) = shown(*format, &frames, |i| head + i % 70) else { return };
        for (i, (payload, packet)) in payloads.iter().zip(&shown).enumerate() {
            let kept = (i % 70).min(payload.len());
            let what = format!("{}: {kept} of {} bytes: {:?}", format.name(), payload.len(), packet.experts);
            // For an empty payload nothing is shown.
            let wanted: &[&str] = if kept == payload.len() || kept == 0 { &[] } else { &["snapped"] };
            assert!(packet.experts == wanted || (kept == 0 && packet.experts == ["snapped"]), "{what}");
            let said = parsed(format.name(), payload).unwrap();
            assert!(
                packet.fields.len() <= said.fields.len() + said.tail.len() + 3 + said.items.len() * 2 + 1,
                "{what}"
            );
            let seen = |name: &str| packet.fields.iter().find(|field| field.name == name);
            for placed in format.layout().decode(payload).unwrap().fields {
                let end = (placed.placed.first + placed.placed.field.bits).div_ceil(8);
                let name = placed.placed.field.name;
                assert!(kept >= end || end <= 26 || seen(name).is_none(), "{what}: {name}");
            }
        }
    }
}

/// Formats that can be recognised are found on any port, and nothing else is taken for one. SwitchML's workers also use
/// a port that belongs to another protocol.
#[test]
fn packets_are_found_on_other_ports_and_others_are_left_alone() {
    let mut random = Random(4);
    for format in all().protocols.formats {
        let layout = format.layout();
        let payload = payload(layout, &layout.messages[0], 40, &mut random);
        let mut exact = payload.clone();
        while format.layout().decode(&exact[..exact.len() - 1]).is_some() {
            exact.pop();
        }
        let odd = frame(&exact, (40_001, OTHER));
        let nothing = frame(&[7; 90], (40_001, OTHER));
        let own = layout.ports.first().map_or(OTHER, |range| range.0);
        let shared: Vec<_> = layout.shared_ports.iter().map(|port| frame(&exact, (*port, own))).collect();
        let foreign: Vec<_> = layout.shared_ports.iter().map(|port| frame(&[7; 90], (*port, OTHER))).collect();
        let frames = [vec![odd, nothing], shared.clone(), foreign].concat();
        let Some(shown) = shown_by(*format, &frames, |_| usize::MAX, Vec::new()) else { return };
        let found: Vec<_> = shown.iter().map(|packet| !packet.fields.is_empty()).collect();
        let wanted: Vec<_> =
            (0..frames.len()).map(|i| (i == 0 && layout.telling) || (2..2 + shared.len()).contains(&i)).collect();
        assert_eq!(found, wanted, "{}", format.name());
    }
}

/// InfiniBand's dissector marks a packet that ends within its headers.
#[test]
fn malformed_packets_of_other_protocols_are_no_errors_of_the_dissector() {
    const ROCE: u16 = 4791;
    // The first header of an RDMA write, without the second.
    let cut = frame(&[0x2a, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 5], (40_001, ROCE));
    let mut formats = all().protocols.formats.iter();
    let format = formats.find(|format| format.layout().shared_ports.contains(&ROCE)).expect("a format over RoCE");
    let folder = tempfile::tempdir().unwrap();
    let capture = write(folder.path(), &[cut], |_| usize::MAX);
    let Some(pdml) = tshark(folder.path(), &capture, &["-T", "pdml"]) else { return };
    assert!(pdml.contains("_ws.malformed") && !pdml.contains("Lua Error"), "{pdml}");
    assert!(!pdml.contains("name=\"rpc\"") && !pdml.contains(&format!("name=\"{}.", format.name())), "{pdml}");
}

/// Wireshark itself handles tags and IPv6: the dissector is found behind them.
#[test]
fn packets_are_found_behind_tags_and_ipv6() {
    let format = all().protocols.formats[0];
    let mut random = Random(5);
    let payload = payload(format.layout(), &format.layout().messages[0], 40, &mut random);
    let plain = frame(&payload, ports(format));
    let tag = |frame: &[u8], kind: u16| [&frame[..12], &kind.to_be_bytes(), &[0, 5], &frame[12..]].concat();
    let mut six = [&plain[..12], &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    six.extend([((payload.len() + 8) as u16).to_be_bytes(), [17, 64]].concat());
    six.extend([0xfd; 32]);
    six.extend(&plain[34..]);
    let frames = vec![tag(&plain, 0x8100), tag(&tag(&plain, 0x8100), 0x88a8), six];
    let Some(shown) = shown(format, &frames, |_| usize::MAX) else { return };
    let said = parsed(format.name(), &payload).unwrap();
    for (i, packet) in shown.iter().enumerate() {
        assert!(packet.experts.is_empty());
        compare(packet, &said, &item_names(format, &payload), &format!("frame {i}"));
    }
}

#[test]
fn the_number_of_items_is_a_preference_and_the_summary_is_short() {
    let format = all().protocols.formats[0];
    let mut random = Random(6);
    let message = &format.layout().messages[0];
    let payload = std::iter::repeat_with(|| payload(format.layout(), message, 100, &mut random))
        .find(|payload| parsed("olaf", payload).is_some_and(|said| said.items.len() == 50))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let capture = write(folder.path(), &[frame(&payload, ports(format))], |_| usize::MAX);
    let Some(text) = tshark(folder.path(), &capture, &["-o", "olaf.items:3", "-V"]) else { return };
    assert!(text.contains("gradients: 50, 3 of them shown") && text.contains("[2] gradient: "), "{text}");
    assert!(!text.contains("[3] gradient: "), "{text}");
    let text =
        tshark(folder.path(), &capture, &["-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info"]).unwrap();
    let said = parsed("olaf", &payload).unwrap();
    let word = |name: &str| {
        let value = said.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| *value);
        let Some(pktgen_wire::wire::layout::Value::Int(number)) = value else { panic!("{name}") };
        format!("{name} {number}")
    };
    let wanted = ["cluster", "worker", "seq", "attempt", "count", "elements"].map(word).join(" ");
    assert!(text.starts_with(&format!("olaf\tupdate {wanted}")), "{text}");
}
