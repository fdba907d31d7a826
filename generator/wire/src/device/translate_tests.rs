//! Tests of [`super`]: round trips, and checksums recomputed by another parser.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;
use crate::device::{Address, Mac};
use crate::wire::frame::{Template, set_udp_checksum};

/// Checks the checksums against those that `etherparse` computes from the whole packet.
fn checksums_are_right(frame: &[u8]) {
    let sliced = SlicedPacket::from_ethernet(frame).expect("a packet");
    let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("no IPv4: {frame:02x?}") };
    assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
    let Some(TransportSlice::Udp(udp)) = &sliced.transport else { panic!("no UDP") };
    if udp.checksum() != 0 {
        let computed = udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).expect("a sum");
        assert_eq!(if computed == 0 { 0xffff } else { computed }, udp.checksum());
    }
}

/// Formats with two different ports, with one, and with none.
static FACTS: [FormatFacts; 3] = [
    FormatFacts { ports: Some((48_501, 48_500)), ..FormatFacts::new((64, 1500)) },
    FormatFacts { ports: Some((12_000, 12_000)), ..FormatFacts::new((64, 1500)) },
    FormatFacts::new((0, 1500)),
];

fn station(ip: u32, mac: u64) -> Station {
    let [_, _, rest @ ..] = mac.to_be_bytes();
    Station { ip: Address(ip), mac: Mac(rest) }
}

prop_compose! {
    /// Addresses of all kinds: arbitrary distinct ones, including those of words of ones and zeros.
    fn maps()(
        base in prop_oneof![Just(0u32), Just(0x0a00_0001), Just(0xffff_0000), Just(0x0000_ffff), any::<u32>()],
        groups in 0xe000_0000u32..0xefff_ff00,
        vlan in prop_oneof![Just(0u16), 1u16..4095],
        to_device: bool, routed: bool, count in 1u32..6, clusters in 1u32..4,
        worker_port in prop::option::of(any::<u16>()), port in prop::option::of(any::<u16>()),
        mac in 0u64..1 << 47,
    ) -> Addresses {
        // Addresses outside the multicast range.
        let base = if base >> 28 == 0xe { base ^ 0x8000_0000 } else { base };
        let ip = |n: u32| { let ip = base.wrapping_add(n * 7); if ip >> 28 == 0xe { ip ^ 0x4000_0000 } else { ip } };
        Addresses {
            workers: (0..count).map(|n| station(ip(n), mac + u64::from(n))).collect(),
            groups: (0..clusters).map(|n| station(groups + n, 0x0100_5e00_0000 + u64::from(n))).collect(),
            server: Some(station(ip(100), mac + 100)),
            device: Some(station(ip(101), mac + 101)),
            to_device,
            hop: if routed { Hop::Device } else { Hop::Direct },
            vlan,
            worker_port,
            port,
        }
    }
}

proptest! {
    #[test]
    fn there_and_back_is_the_same_and_checksums_are_right(
        addresses in maps(), format in prop::sample::select(FACTS.iter().collect::<Vec<_>>()),
        which: u32, down: bool, group: bool, upper: bool, checksum: bool, payload in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let places = if upper { [CableEnd::Server, CableEnd::DeviceUp] } else { [CableEnd::Workers, CableEnd::DeviceDown] };
        // Downward frames leave at the server's end and at the device's lower end, and arrive at the workers' end and at its upper end.
        let (sender, receiver) = if down == upper { (places[0], places[1]) } else { (places[1], places[0]) };
        let (worker_port, port) = format.ports.unwrap_or((5, 6));
        let worker = (worker_ip(which % addresses.workers.len() as u32), worker_port);
        let many = (group_ip((which % addresses.groups.len() as u32) as u16), worker_port);
        let peer = (SERVER_IP, port);
        let (src, dst) = match (down, group) { (false, _) => (worker, peer), (true, true) => (peer, many), (true, false) => (peer, worker) };
        let mut frame = vec![0; HEAD + payload.len()];
        let len = frame.len();
        Template::new(src, dst, len).emit(&mut frame);
        frame[HEAD..].copy_from_slice(&payload);
        if checksum {
            set_udp_checksum(&mut frame);
        }
        let (out, back) = (Translator::new(&addresses, format, sender), Translator::new(&addresses, format, receiver));
        let mut wire = vec![0xee; len + GROWTH_MAX];
        let sent = out.outward(&frame, &mut wire).expect("of this run");
        prop_assert_eq!(sent, len + out.growth());
        checksums_are_right(&wire[..sent]);
        let outer = crate::wire::frame::Datagram::parse(&wire[..sent]).expect("a datagram");
        let expected = if src.0 == SERVER_IP { out.peer.expect("a peer") } else { addresses.workers[(src.0 - worker_ip(0)) as usize] };
        prop_assert_eq!(outer.src, expected.ip.0);
        if format.ports.is_some() {
            let (from, to) = if down { (addresses.port, addresses.worker_port) } else { (addresses.worker_port, addresses.port) };
            prop_assert_eq!((outer.src_port, outer.dst_port), (from.unwrap_or(src.1), to.unwrap_or(dst.1)));
        }
        if addresses.vlan > 0 {
            prop_assert_eq!(&wire[12..16], &[0x81, 0, (addresses.vlan >> 8) as u8, addresses.vlan as u8]);
        }
        let mut again = vec![0xee; len + GROWTH_MAX];
        prop_assert_eq!(back.inward(&wire[..sent], &mut again), Some(len));
        prop_assert_eq!(&again[..len], &frame[..]);
    }

    #[test]
    fn any_bytes_pass_or_are_left_alone(addresses in maps(), bytes in prop::collection::vec(any::<u8>(), 0..120), patch: bool) {
        let mut bytes = bytes;
        if patch && bytes.len() > 24 {
            bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
            bytes[23] = 17;
        }
        let translator = Translator::new(&addresses, &FACTS[0], CableEnd::Workers);
        let mut out = vec![0; bytes.len() + GROWTH_MAX];
        let _ = translator.outward(&bytes, &mut out);
        let _ = translator.inward(&bytes, &mut out);
        // A buffer that is too short must not cause a panic either.
        let _ = translator.outward(&bytes, &mut []);
    }
}

#[test]
fn other_networks_frames_and_fragments_are_left_alone() {
    let addresses = Addresses {
        workers: vec![station(1, 1)],
        groups: Vec::new(),
        server: Some(station(2, 2)),
        device: None,
        to_device: false,
        hop: Hop::Direct,
        vlan: 7,
        worker_port: None,
        port: None,
    };
    let translator = Translator::new(&addresses, &FACTS[0], CableEnd::Workers);
    let mut frame = vec![0; 60];
    Template::new((worker_ip(0), 1), (SERVER_IP, 2), 60).emit(&mut frame);
    let (mut wire, mut back) = ([0; 64], [0; 64]);
    assert_eq!(translator.outward(&frame, &mut wire), Some(64));
    assert_eq!(translator.inward(&wire, &mut back), Some(60));
    // The tag was removed by a card.
    let mut bare = wire[..12].to_vec();
    bare.extend(&wire[16..]);
    assert_eq!(translator.inward(&bare, &mut back), Some(60));
    // The priority is not part of the VLAN number.
    let mut other = wire;
    other[14] |= 0xe0;
    assert_eq!(translator.inward(&other, &mut back), Some(60));
    other[15] = 8;
    assert_eq!(translator.inward(&other, &mut back), None);
    let mut fragment = wire;
    fragment[16 + 8] |= 0x20;
    assert_eq!(translator.inward(&fragment, &mut back), None);
    Template::new((worker_ip(1), 1), (SERVER_IP, 2), 60).emit(&mut frame);
    assert_eq!(translator.outward(&frame, &mut wire), None, "there is no worker 1");
}

/// A worker of 172.30.0.1 and a server of 172.30.9.9, with VLAN 7 and a port of their own.
fn own_addresses() -> Addresses {
    Addresses {
        workers: vec![station(0xac1e_0001, 0x0a00_0000_0001)],
        groups: vec![station(0xef01_0101, 0x0100_5e01_0101)],
        server: Some(station(0xac1e_0909, 0x0a00_0000_0009)),
        device: None,
        to_device: false,
        hop: Hop::Direct,
        vlan: 7,
        worker_port: Some(7001),
        port: Some(7000),
    }
}

#[test]
fn one_address_that_is_not_of_this_run_leaves_the_others_readable() {
    let translator = Translator::new(&own_addresses(), &FACTS[0], CableEnd::Server);
    let (mut frame, mut wire, mut back) = (vec![0; 60], [0; 64], [0; 64]);
    Template::new((worker_ip(0), 48_501), (SERVER_IP, 48_500), 60).emit(&mut frame);
    set_udp_checksum(&mut frame);
    assert_eq!(Translator::new(&own_addresses(), &FACTS[0], CableEnd::DeviceUp).outward(&frame, &mut wire), Some(64));
    // Another destination, and its checksums.
    let mut odd = wire;
    let mut bare = [&odd[..12], &odd[16..]].concat();
    bare[30..34].copy_from_slice(&[172, 30, 9, 8]);
    crate::wire::frame::set_ip_checksum(&mut bare);
    set_udp_checksum(&mut bare);
    odd[16..].copy_from_slice(&bare[12..]);
    assert_eq!(translator.inward(&odd, &mut back), None);
    assert_eq!(translator.inward_odd(&odd, &mut back), Some(60));
    checksums_are_right(&back[..60]);
    assert_eq!((&back[6..12], &back[26..30]), (&frame[6..12], &frame[26..30]));
    assert_eq!((&back[30..34], &back[34..38]), (&[172, 30, 9, 8][..], &frame[34..38]));
    // Ours on the cable would be mistaken.
    bare[30..34].copy_from_slice(&worker_ip(0).to_be_bytes());
    odd[16..].copy_from_slice(&bare[12..]);
    assert_eq!(translator.inward_odd(&odd, &mut back), None);
}

#[test]
fn unfinished_checksums_stay_unfinished() {
    use crate::wire::frame::{Checksums, checksums};
    let translator = Translator::new(&own_addresses(), &FACTS[0], CableEnd::DeviceUp);
    let back = Translator::new(&own_addresses(), &FACTS[0], CableEnd::Server);
    let mut frame = vec![0; 60];
    Template::new((worker_ip(0), 48_501), (SERVER_IP, 48_500), 60).emit(&mut frame);
    let sum = pseudo_sum(&frame);
    frame[40..42].copy_from_slice(&sum);
    assert_eq!(checksums(&frame), Checksums::Unfinished);
    let (mut wire, mut again) = ([0; 64], [0; 64]);
    translator.outward(&frame, &mut wire).expect("of this run");
    assert_eq!(checksums(&wire), Checksums::Unfinished);
    back.inward(&wire, &mut again).expect("of this run");
    assert_eq!(&again[..60], &frame[..]);
}

#[test]
fn where_tags_are_seen_a_missing_one_is_missing() {
    let translator = Translator::new(&own_addresses(), &FACTS[0], CableEnd::DeviceUp);
    let mut frame = vec![0; 60];
    Template::new((worker_ip(0), 48_501), (SERVER_IP, 48_500), 60).emit(&mut frame);
    let (mut wire, mut back) = ([0; 64], [0; 64]);
    translator.outward(&frame, &mut wire).expect("of this run");
    let bare = [&wire[..12], &wire[16..]].concat();
    let server = Translator::new(&own_addresses(), &FACTS[0], CableEnd::Server);
    for (sees, of_bare) in [(false, Some(60)), (true, None)] {
        let server = server.clone().seeing_tags(sees);
        assert_eq!((server.inward(&bare, &mut back), server.inward(&wire, &mut back)), (of_bare, Some(60)));
    }
}

#[test]
fn what_is_said_of_our_addresses_is_said_of_the_profiles() {
    let translator = Translator::new(&own_addresses(), &FACTS[0], CableEnd::Workers);
    let text =
        |text: &str, is_port| translator.outer_text(text, PlaceText { is_port, is_ethernet: !is_port, comes: false });
    assert_eq!(text("10.0.0.1", false).as_deref(), Some("172.30.0.1"));
    assert_eq!(text("02:00:0a:00:00:01", false).as_deref(), Some("0a:00:00:00:00:01"));
    assert_eq!(text("02000a000001", false).as_deref(), Some("0a:00:00:00:00:01"));
    assert_eq!((text("48500", true).as_deref(), text("48500", false)), (Some("7000"), None));
    for unknown in ["10.0.0.2", "172.30.0.1", "a frame of 60 bytes", "02:00:0a:00:00:09", ""] {
        assert_eq!(text(unknown, false), None, "{unknown}");
    }
}

#[test]
fn what_was_observed_is_said_as_it_was_on_the_cable() {
    let translator = Translator::new(&own_addresses(), &FACTS[0], CableEnd::Workers);
    let port = PlaceText { is_port: true, is_ethernet: false, comes: false };
    let mac = PlaceText { is_port: false, is_ethernet: true, comes: false };
    let ip = PlaceText { is_ethernet: false, ..mac };
    for (place, ours, cable) in [
        // Of the profile: right. Ours: as they were. Those of the other side, too.
        (port, ["48501", "7001"], ["7001", "48501"]),
        (port, ["48500", "7000"], ["7000", "48500"]),
        (port, ["48500", "7001"], ["7000", "7001"]),
        (port, ["48500", "48501"], ["7000", "48501"]),
        (port, ["48500", "9"], ["7000", "9"]),
        (mac, ["02:00:0a:00:00:01", "0a:00:00:00:00:01"], ["0a:00:00:00:00:01", "02:00:0a:00:00:01"]),
        (mac, ["02:00:c6:12:00:01", "0a:00:00:00:00:01"], ["0a:00:00:00:00:09", "0a:00:00:00:00:01"]),
        (mac, ["02:00:c6:12:00:01", "02:00:0a:00:00:01"], ["0a:00:00:00:00:09", "02:00:0a:00:00:01"]),
        (ip, ["10.0.0.1", "10.0.0.2"], ["172.30.0.1", "10.0.0.2"]),
        (ip, ["10.0.0.1", "10.0.0.1"], ["172.30.0.1", "172.30.0.1"]),
    ] {
        assert_eq!(translator.outer_texts(ours, place), cable, "{ours:?}");
    }
}

/// A device that answers to our numbers instead of the profile's is as wrong as any other.
#[test]
fn our_own_ports_and_ethernet_addresses_are_wrong_on_a_cable_of_the_profile() {
    let translator = Translator::new(&own_addresses(), &FACTS[0], CableEnd::DeviceUp);
    let server = Translator::new(&own_addresses(), &FACTS[0], CableEnd::Server);
    let mut frame = vec![0; 60];
    Template::new((worker_ip(0), 48_501), (SERVER_IP, 48_500), 60).emit(&mut frame);
    let (mut wire, mut back) = ([0; 64], [0; 64]);
    translator.outward(&frame, &mut wire).expect("of this run");
    let right = wire;
    server.inward(&wire, &mut back).expect("of this run");
    assert_eq!(&back[..60], &frame[..]);
    for (at, ours) in [(38, &frame[34..36]), (40, &frame[36..38]), (0, &frame[..6]), (6, &frame[6..12])] {
        wire = right;
        wire[at..at + ours.len()].copy_from_slice(ours);
        server.inward(&wire, &mut back).expect("of this run");
        let inside = if at < 12 { at } else { at - 4 };
        assert_eq!(&back[inside..inside + ours.len()], &right[at..at + ours.len()], "shown as what is wrong: {at}");
    }
}

#[test]
fn a_finished_checksum_that_looks_unfinished_is_exchanged_as_finished() {
    use crate::wire::frame::{Checksums, checksums};
    let mut frame = vec![0; 60];
    Template::new((worker_ip(0), 48_501), (SERVER_IP, 48_500), 60).emit(&mut frame);
    let found = (1..=u16::MAX).any(|n| {
        frame[50..52].copy_from_slice(&n.to_be_bytes());
        set_udp_checksum(&mut frame);
        frame[40..42] == pseudo_sum(&frame)
    });
    assert!(found && checksums(&frame) == Checksums::Fit);
    let mut wire = [0; 64];
    Translator::new(&own_addresses(), &FACTS[0], CableEnd::Workers).outward(&frame, &mut wire).expect("of this run");
    assert_eq!(checksums(&wire), Checksums::Fit);
}
