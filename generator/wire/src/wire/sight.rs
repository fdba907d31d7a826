//! Classification of captured packets: found in any frame, whole or cut short.
//!
//! Captures come from anywhere: with VLAN tags, over IPv6, cut after some bytes, from interfaces without Ethernet. This module skips the
//! headers around a payload, and [`super::Format::sight`] derives from the payload's header what it means to a passive observer.

use etherparse::{IpNumber, LaxNetSlice, LaxSlicedPacket, TransportSlice};

use super::frame::{HEAD, Ip};
use crate::pcap::Packet;
use crate::time::Time;

/// Supported link types, by their number in captures.
const ETHERNET: u16 = 1;
const RAW_IP: [u16; 4] = [12, 14, 101, 228];
const RAW_IP6: u16 = 229;
/// Linux cooked mode (`-i any`): a header of 16 bytes whose last two are the protocol.
const COOKED: u16 = 113;
/// Linux cooked mode, version 2: 20 bytes that begin with the protocol.
const COOKED2: u16 = 276;
const UDP: u8 = 17;
const UDP_HEAD: usize = 8;
/// An IPv4 header without options.
const IP_HEAD: usize = 20;
/// Position of the source in an IPv6 header.
const IP6_SOURCE: usize = 8;
/// An Ethernet header without tags.
const ETHERNET_HEAD: u32 = 14;

/// Returns the length of the Ethernet frame of a packet whose capture has `len` bytes: links of other types have another head, or none.
#[inline]
pub fn frame_bytes(link_type: u16, len: u32) -> u32 {
    let head = match link_type {
        COOKED => 16,
        COOKED2 => 20,
        raw if raw == RAW_IP6 || RAW_IP.contains(&raw) => 0,
        _ => return len,
    };
    len.saturating_sub(head).saturating_add(ETHERNET_HEAD)
}

/// The purpose of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Updates on their way to a server, or to a device that sums them.
    Update,
    /// A sum on its way back to the workers.
    Result,
    /// An acknowledgement.
    Ack,
    /// Any other packet of a protocol.
    Control,
}

impl What {
    /// All purposes.
    pub const ALL: [What; 4] = [What::Update, What::Result, What::Ack, What::Control];

    /// Returns the name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            What::Update => "update",
            What::Result => "result",
            What::Ack => "ack",
            What::Control => "control",
        }
    }
}

/// The captured packets of a format that deliver updates, and whether they state how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Updates that reach a server; each states how many it represents.
    Updates,
    /// Updates that reach a server without stating how many they represent.
    UncountedUpdates,
    /// Results; each states how many sources its sum has.
    Results,
    /// Results, each with one update of every worker of the job.
    ResultsOfAll,
    /// Results that do not state how many updates they represent.
    Unsaid,
}

/// The rule that distinguishes a reused number of a sum from a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// `round` counts the sums of a place, cluster and `seq`, modulo 2¹⁶: a round after the last one is new.
    Rounds,
    /// `round` is a slot that has one sum after the other: a number is new if the slot had another sum since.
    Slots,
    /// `seq` restarts from 0 for every tensor, and retransmissions are marked.
    Sequences,
}

/// What packets of updates show of their transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptMarks {
    /// Retransmissions are marked, or the numbers of sums show them.
    Marked,
    /// Every packet has its number at the worker and its attempt. The attempt is exact up to this one.
    Numbered(u8),
    /// Retransmissions look like other updates.
    Hidden,
}

/// What a passive observer learns from one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// Its purpose.
    pub what: What,
    /// Cluster or job.
    pub cluster: u16,
    /// Sender or addressed worker; of an aggregate that of the newest member. None if neither payload nor address contains it.
    pub worker: Option<u32>,
    /// Number of the update, block or packet at that worker.
    pub seq: u32,
    /// With cluster and `seq`, the number of a sum, the same in all its contributions and results: the iteration, or
    /// the slot. 0 if updates have separate numbers.
    pub round: u16,
    /// 0 for a first transmission.
    pub attempt: u8,
    /// Generation time in the time of its run; none if the format does not carry it.
    pub generation: Option<Time>,
    /// Number of updates that it represents.
    pub count: u16,
    /// Number of its gradients.
    pub elements: u16,
}

/// A UDP datagram in a captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// IPv4 source; 0 over IPv6.
    pub src: Ip,
    /// IPv4 destination; 0 over IPv6.
    pub dst: Ip,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// The kept part of the payload.
    pub payload: &'a [u8],
    /// Original length of the payload.
    pub whole: usize,
    /// The source if it came over IPv6.
    pub six: Option<&'a [u8; 16]>,
}

/// The content of a captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look<'a> {
    /// A datagram.
    Udp(Datagram<'a>),
    /// The content after an IPv4 header in frames of a separate Ethernet type (ATP): without ports, and with the length
    /// of the rest of the frame, since it does not contain its length (`Format::packet_in`).
    Layer(u16, Datagram<'a>),
    /// A fragment of UDP or of an unknown protocol, with unknown content.
    Fragment,
    /// Too little was kept, or it is too damaged, to be identified. It may be UDP.
    Unreadable,
    /// Something else: ARP, TCP.
    Other,
    /// A packet of an unsupported link type.
    Link,
}

/// Parses the headers of a captured packet, of which only the beginning may have been kept.
#[inline]
pub fn look_at<'a>(packet: &Packet<'a>) -> Look<'a> {
    let found = look(packet.link_type, packet.bytes);
    let Look::Layer(kind, datagram) = found else { return found };
    let cut = (packet.len as usize).saturating_sub(packet.bytes.len());
    Look::Layer(kind, Datagram { whole: datagram.whole + cut, ..datagram })
}

/// Parses the headers of a whole packet, or of the kept bytes of one whose length is in its UDP header.
#[inline]
pub fn look(link_type: u16, bytes: &[u8]) -> Look<'_> {
    glance(link_type, bytes).map_or_else(|| look_closely(link_type, bytes), Look::Udp)
}

/// Fast path of [`look`], which covers almost all packets; `None` where only [`look`] can decide.
#[inline]
pub fn glance(link_type: u16, bytes: &[u8]) -> Option<Datagram<'_>> {
    let head = bytes.first_chunk::<HEAD>()?;
    (link_type == ETHERNET && is_plain(head)).then(|| plain(head, bytes))
}

/// Returns whether it is Ethernet without tags, IPv4 without options and fragments, and UDP: almost all packets.
#[inline]
fn is_plain(head: &[u8; HEAD]) -> bool {
    head[12] == 0x08 && head[13] == 0x00 && head[14] == 0x45 && head[23] == UDP && (head[20] & 0x3f) | head[21] == 0
}

#[inline]
fn plain<'a>(head: &[u8; HEAD], bytes: &'a [u8]) -> Datagram<'a> {
    let u16 = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let u32 = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    // Ethernet pads short frames, so the UDP length counts.
    let whole = usize::from(u16(38)).saturating_sub(UDP_HEAD);
    let kept = &bytes[HEAD..];
    let payload = &kept[..kept.len().min(whole)];
    Datagram { src: u32(26), dst: u32(30), src_port: u16(34), dst_port: u16(36), payload, whole, six: None }
}

#[cold]
fn look_closely(link_type: u16, bytes: &[u8]) -> Look<'_> {
    let by_type = |at: usize, head: usize| {
        let kind = bytes.get(at..at + 2).map(|kind| u16::from_be_bytes([kind[0], kind[1]]))?;
        Some(LaxSlicedPacket::from_ether_type(kind.into(), bytes.get(head..)?))
    };
    let sliced = match link_type {
        ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok(),
        COOKED => by_type(14, 16),
        COOKED2 => by_type(0, 20),
        RAW_IP6 => LaxSlicedPacket::from_ip(bytes).ok(),
        raw if RAW_IP.contains(&raw) => LaxSlicedPacket::from_ip(bytes).ok(),
        _ => return Look::Link,
    };
    let Some(mut sliced) = sliced else { return Look::Unreadable };
    // The parser follows three tags at a time.
    while let Some(rest) = sliced.ether_payload().filter(|rest| sliced.stop_err.is_none() && is_tag(rest.ether_type.0))
    {
        sliced = LaxSlicedPacket::from_ether_type(rest.ether_type, rest.payload);
    }
    let (src, dst, six) = match &sliced.net {
        Some(net) if net.ip_payload_ref().is_some_and(|payload| !may_be_udp(payload.ip_number)) => return Look::Other,
        Some(LaxNetSlice::Ipv4(ip)) if ip.is_payload_fragmented() => return Look::Fragment,
        Some(LaxNetSlice::Ipv6(ip)) if ip.is_payload_fragmented() => return Look::Fragment,
        Some(LaxNetSlice::Ipv4(ip)) => {
            (u32::from_be_bytes(ip.header().source()), u32::from_be_bytes(ip.header().destination()), None)
        }
        Some(LaxNetSlice::Ipv6(ip)) => (0, 0, ip.header().slice()[IP6_SOURCE..].first_chunk::<16>()),
        Some(_) => return Look::Other,
        None if sliced.stop_err.is_some() => return Look::Unreadable,
        None => return layer(&sliced),
    };
    match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => {
            let whole = usize::from(udp.length()).saturating_sub(UDP_HEAD);
            let payload = udp.payload();
            let payload = &payload[..payload.len().min(whole)];
            Look::Udp(Datagram {
                src,
                dst,
                src_port: udp.source_port(),
                dst_port: udp.destination_port(),
                payload,
                whole,
                six,
            })
        }
        Some(_) => Look::Other,
        None if sliced.stop_err.is_some() => Look::Unreadable,
        None => Look::Other,
    }
}

/// Returns whether the protocol after the headers that were parsed is UDP, or unknown: the number is that of an extension header that was cut.
fn may_be_udp(protocol: IpNumber) -> bool {
    protocol.0 == UDP || protocol.is_ipv6_ext_header_value()
}

/// Returns whether an Ethernet type is that of a VLAN tag.
const fn is_tag(kind: u16) -> bool {
    matches!(kind, 0x8100 | 0x88a8 | 0x9100)
}

/// Parses IPv4 under an Ethernet type that a format may use.
fn layer<'a>(sliced: &LaxSlicedPacket<'a>) -> Look<'a> {
    let Some(payload) = sliced.ether_payload() else { return Look::Other };
    let (kind, bytes) = (payload.ether_type.0, payload.payload);
    let head = bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
    if head < IP_HEAD || bytes.len() < head || bytes[0] >> 4 != 4 {
        return Look::Other;
    }
    let ip = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let payload = &bytes[head..];
    Look::Layer(
        kind,
        Datagram { src: ip(12), dst: ip(16), src_port: 0, dst_port: 0, payload, whole: payload.len(), six: None },
    )
}

#[cfg(test)]
mod tests {
    use super::super::frame::{SERVER_IP, Template, worker_ip};
    use super::super::update::{Header, PORT, UPDATE_HEAD, WORKER_PORT, elements_in};
    use super::*;
    use proptest::prelude::*;

    /// A payload with our header, which its parser accepts.
    fn payload(frame_bytes: usize) -> Vec<u8> {
        let elements = elements_in(frame_bytes) as u16;
        let header = Header {
            flags: 0,
            cluster: 7,
            count: 2,
            worker: 5,
            seq: 9,
            generation: 77,
            attempt: 1,
            elements,
            reward: 0.5,
        };
        let mut payload = vec![0; UPDATE_HEAD + usize::from(elements) * 4];
        header.emit_update(&mut payload);
        payload
    }

    /// A frame: Ethernet with these tags, IPv4 or IPv6, UDP.
    fn frame(tags: &[u16], six: bool, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![2; 12];
        tags.iter().for_each(|tag| out.extend([tag.to_be_bytes(), [0, 7]].concat()));
        let length = (UDP_HEAD + payload.len()) as u16;
        if six {
            out.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            out.extend(length.to_be_bytes());
            out.extend([UDP, 64]);
            out.extend([1; 32]);
        } else {
            out.extend([8, 0, 0x45, 0]);
            out.extend((length + 20).to_be_bytes());
            out.extend([0, 0, 0x40, 0, 64, UDP, 0, 0, 10, 0, 0, 6, 198, 18, 0, 1]);
        }
        [WORKER_PORT, PORT, length, 0].iter().for_each(|word| out.extend(word.to_be_bytes()));
        [&out[..], payload].concat()
    }

    /// Returns our header, and the length of the payload.
    fn seen(link_type: u16, bytes: &[u8]) -> Option<(Header, usize)> {
        match look(link_type, bytes) {
            Look::Udp(datagram) => Some((Header::peek(datagram.payload)?, datagram.whole)),
            _ => None,
        }
    }

    #[test]
    fn headers_of_every_kind_are_looked_through() {
        let payload = payload(256);
        let expected = || (Header::peek(&payload).expect("a header"), payload.len());
        let frames = [
            frame(&[], false, &payload),
            frame(&[], true, &payload),
            frame(&[0x8100], false, &payload),
            frame(&[0x88a8, 0x8100], false, &payload),
            frame(&[0x88a8, 0x8100], true, &payload),
            frame(&[0x9100, 0x88a8, 0x8100], false, &payload),
            frame(&[0x88a8, 0x88a8, 0x8100, 0x8100], false, &payload),
            frame(&[0x8100; 16], true, &payload),
        ];
        for (case, frame) in frames.iter().enumerate() {
            assert_eq!(seen(1, frame), Some(expected()), "case {case}");
            // Cut anywhere after the header, it is read the same; before, not at all.
            let head = frame.len() - payload.len() + UPDATE_HEAD;
            for kept in 0..frame.len() {
                assert_eq!(seen(1, &frame[..kept]), (kept >= head).then(expected), "case {case}, {kept} bytes");
            }
        }
        // The same without Ethernet, and in cooked mode.
        let ip = &frames[0][14..];
        assert_eq!(seen(101, ip), Some(expected()));
        assert_eq!(seen(229, &frames[1][14..]), Some(expected()));
        let cooked = |head: usize, at: usize| {
            let mut out = vec![0; head];
            out[at..at + 2].copy_from_slice(&[8, 0]);
            [&out[..], ip].concat()
        };
        assert_eq!((seen(113, &cooked(16, 14)), seen(276, &cooked(20, 0))), (Some(expected()), Some(expected())));
        assert_eq!(look(147, &frames[0]), Look::Link);
    }

    #[test]
    fn sources_over_ipv6_are_read() {
        let mut frame = frame(&[0x8100], true, &payload(256));
        let source = 14 + 4 + IP6_SOURCE;
        frame[source..source + 16].copy_from_slice(&[7; 16]);
        let Look::Udp(datagram) = look(1, &frame) else { panic!("no datagram") };
        assert_eq!((datagram.six, datagram.src, datagram.dst), (Some(&[7; 16]), 0, 0));
    }

    #[test]
    fn padding_is_no_payload_and_fragments_are_named() {
        let mut frame = vec![0u8; 60];
        Template::new((worker_ip(1), 1), (SERVER_IP, 2), 50).emit(&mut frame);
        let Look::Udp(datagram) = look(1, &frame) else { panic!("no datagram") };
        assert_eq!((datagram.payload.len(), datagram.whole, datagram.dst), (8, 8, SERVER_IP));
        frame[20] = 0x20;
        assert_eq!(look(1, &frame), Look::Fragment);
        (frame[20], frame[21]) = (0, 9);
        assert_eq!(look(1, &frame), Look::Fragment);
        assert_eq!((look(1, &frame[..9]), look(1, &[])), (Look::Unreadable, Look::Unreadable));
        frame[21] = 0;
        frame[12] = 0x86;
        assert!(matches!(look(1, &frame), Look::Layer(0x8600, _)), "some format may have this type");
        frame[14] = 0x60;
        assert_eq!(look(1, &frame), Look::Other);
    }

    /// No format is over TCP or ICMP: their packets hold no updates, whole, cut or in fragments.
    #[test]
    fn cut_packets_and_fragments_of_other_protocols_are_no_updates() {
        let (tcp, icmp, icmp6, fragment) = (6, 1, 58, 44);
        let kind = |bytes: &[u8]| match look(ETHERNET, bytes) {
            Look::Fragment => "fragment",
            Look::Unreadable => "unreadable",
            Look::Other => "other",
            _ => "read",
        };
        let four = |protocol: u8, flags: [u8; 2], kept: usize| {
            let mut frame = frame(&[], false, &payload(256));
            frame[20..22].copy_from_slice(&flags);
            frame[23] = protocol;
            kind(&frame[..kept])
        };
        let cases = [
            ([0x20, 0], 80, "fragment"),
            ([0, 9], 80, "fragment"),
            ([0x20, 0], 36, "fragment"),
            ([0, 0], 36, "unreadable"),
        ];
        for (flags, kept, udp) in cases {
            let found = [UDP, tcp, icmp].map(|protocol| four(protocol, flags, kept));
            assert_eq!(found, [udp, "other", "other"], "{flags:?}, {kept} bytes");
        }
        // Over IPv6 the protocol is after the extension headers: here after one for fragments, behind which 8 bytes or none are kept.
        let six = |protocol: u8, offset: [u8; 2], kept: usize| {
            let mut frame = frame(&[], true, &payload(256));
            frame[20] = fragment;
            frame[54..62].copy_from_slice(&[protocol, 0, offset[0], offset[1], 0, 0, 0, 1]);
            kind(&frame[..kept])
        };
        for (offset, kept) in [([0, 1], 70), ([0, 80], 70), ([0, 1], 62)] {
            let found = [UDP, tcp, icmp6].map(|protocol| six(protocol, offset, kept));
            assert_eq!(found, ["fragment", "other", "other"], "{offset:?}, {kept} bytes");
        }
        assert_eq!(six(tcp, [0, 1], 58), "unreadable", "the protocol was cut");
    }

    proptest! {
        #[test]
        fn the_short_way_and_the_long_way_agree(mut bytes in prop::collection::vec(any::<u8>(), 0..120), plain: bool) {
            if plain && bytes.len() > 23 {
                bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
                bytes[23] = UDP;
                (bytes[20], bytes[21]) = (0x40, 0);
            }
            // The slow path uses the IPv4 length, the fast one the UDP length: results must be equal only if both agree.
            let agree = bytes.len() >= HEAD && {
                let (ip, udp) = ([bytes[16], bytes[17]], [bytes[38], bytes[39]]);
                u16::from_be_bytes(ip) == u16::from_be_bytes(udp).saturating_add(20) && u16::from_be_bytes(udp) >= 8
            };
            let (short, long) = (look(1, &bytes), look_closely(1, &bytes));
            if agree || !matches!(short, Look::Udp(_)) {
                prop_assert_eq!(short, long);
            }
        }
    }
}
