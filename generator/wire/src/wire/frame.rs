//! Ethernet, IPv4 and UDP around a payload, and the addresses in use (our choice).
//!
//! Workers have 10.0.0.0/8, devices 172.16.0.0/16, parameter servers 198.18.0.1 and up, background traffic
//! 198.19.0.0/16 (the ranges reserved for benchmarks), clusters the multicast groups 239.192.0.0/16. Headers are
//! written from a [`Template`] made once per sender; the hot path copies 42 bytes.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

use crate::record::PacketId;
pub use crate::topology::FRAME_MAX;
use crate::topology::NodeId;

/// Ethernet 14, IPv4 20, UDP 8 bytes. (OLAF §7 counts 304 bits for them; they are 336.)
pub const HEAD: usize = 42;
/// Ethernet pads shorter frames to this length, behind the datagram.
pub const ETHERNET_MIN: usize = 60;
/// End of the IPv4 header, before UDP.
pub(crate) const IP_END: usize = field::IP.end;

mod field {
    use std::ops::Range;
    pub(crate) const ETH_DST: Range<usize> = 0..6;
    pub(crate) const ETH_SRC: Range<usize> = 6..12;
    pub(crate) const ETH_TYPE: Range<usize> = 12..14;
    pub const IP: Range<usize> = 14..34;
    /// DSCP and ECN.
    pub(crate) const IP_SERVICE: usize = 15;
    pub(crate) const IP_LENGTH: Range<usize> = 16..18;
    pub(crate) const IP_CHECKSUM: Range<usize> = 24..26;
    pub(crate) const IP_SRC: Range<usize> = 26..30;
    pub(crate) const IP_DST: Range<usize> = 30..34;
    pub(crate) const UDP_SRC: Range<usize> = 34..36;
    pub(crate) const UDP_DST: Range<usize> = 36..38;
    pub(crate) const UDP_LENGTH: Range<usize> = 38..40;
    pub(crate) const UDP_CHECKSUM: Range<usize> = 40..42;
}

/// An IPv4 address as a number.
pub type Ip = u32;

/// Address of the first parameter server.
pub const SERVER_IP: Ip = 0xc612_0001;

/// Returns the address of a parameter server by number; the first has [`SERVER_IP`].
#[inline]
pub const fn server_ip(server: u32) -> Ip {
    SERVER_IP + server
}

/// Returns the address of a worker. Ids are below 2²⁴ − 2.
#[inline]
pub const fn worker_ip(worker: u32) -> Ip {
    0x0a00_0001 + worker
}

/// Returns the worker with this address, if it is one of the first `workers`.
#[inline]
pub fn worker_of(ip: Ip, workers: usize) -> Option<u32> {
    let worker = ip.wrapping_sub(0x0a00_0001);
    ((worker as usize) < workers).then_some(worker)
}

/// Returns the worker with this address, for any number of workers.
#[inline]
pub fn any_worker(ip: Ip) -> Option<u32> {
    worker_of(ip, PacketId::WORKERS_MAX as usize)
}

/// Returns the address of a device, the source of packets that it creates. Devices are among the first 2¹⁶ nodes.
#[inline]
pub const fn device_ip(node: NodeId) -> Ip {
    0xac10_0000 | node & 0xffff
}

/// Returns the device with this address.
#[inline]
pub const fn device_of(ip: Ip) -> Option<NodeId> {
    if ip & 0xffff_0000 == 0xac10_0000 { Some(ip & 0xffff) } else { None }
}

/// Returns the source address of background traffic: outside the workers' range, so that devices do not recognise it.
pub const fn background_ip(worker: u32) -> Ip {
    0xc613_0000 | (worker & 0xffff)
}

/// Returns the multicast group of a cluster.
pub const fn group_ip(cluster: u16) -> Ip {
    0xefc0_0000 | cluster as u32
}

/// Returns the Ethernet address for an IPv4 address: the multicast mapping, or a local address that contains it.
pub const fn mac_of(ip: Ip) -> [u8; 6] {
    let b = ip.to_be_bytes();
    if b[0] >= 224 && b[0] < 240 {
        [0x01, 0x00, 0x5e, b[1] & 0x7f, b[2], b[3]]
    } else {
        [0x02, 0x00, b[0], b[1], b[2], b[3]]
    }
}

/// Prepared headers of one sender.
#[derive(Debug, Clone)]
pub struct Template {
    head: [u8; HEAD],
}

impl Template {
    /// Headers for UDP from `src` to `dst` in frames of `frame_bytes`.
    pub fn new(src: (Ip, u16), dst: (Ip, u16), frame_bytes: usize) -> Self {
        let mut head = [0u8; HEAD];
        head[field::ETH_DST].copy_from_slice(&mac_of(dst.0));
        head[field::ETH_SRC].copy_from_slice(&mac_of(src.0));
        head[field::ETH_TYPE].copy_from_slice(&[0x08, 0x00]);
        // Version 4, 5 words; no id, don't fragment; TTL 64; UDP.
        head[field::IP].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        head[field::IP_SRC].copy_from_slice(&src.0.to_be_bytes());
        head[field::IP_DST].copy_from_slice(&dst.0.to_be_bytes());
        head[field::UDP_SRC].copy_from_slice(&src.1.to_be_bytes());
        head[field::UDP_DST].copy_from_slice(&dst.1.to_be_bytes());
        let mut template = Template { head };
        template.set_length(frame_bytes);
        template
    }

    /// Sets these Ethernet addresses.
    pub fn between(mut self, from: [u8; 6], to: [u8; 6]) -> Self {
        self.head[field::ETH_DST].copy_from_slice(&to);
        self.head[field::ETH_SRC].copy_from_slice(&from);
        self
    }

    /// Sets the frame length to `frame_bytes`.
    pub fn set_length(&mut self, frame_bytes: usize) {
        let ip = (frame_bytes - 14) as u16;
        self.head[field::IP_LENGTH].copy_from_slice(&ip.to_be_bytes());
        self.head[field::UDP_LENGTH].copy_from_slice(&(ip - 20).to_be_bytes());
        set_ip_checksum(&mut self.head);
    }

    /// Returns the frame length according to the headers.
    #[inline]
    pub fn frame_bytes(&self) -> usize {
        usize::from(u16::from_be_bytes([self.head[16], self.head[17]])) + 14
    }

    /// Writes the headers with UDP checksum 0, which means none.
    #[inline]
    pub fn emit(&self, frame: &mut [u8]) {
        frame[..HEAD].copy_from_slice(&self.head);
    }

    /// Writes headers for the length of `frame`. Lengths change rarely, so the checksum is rarely recomputed.
    #[inline]
    pub fn emit_to_fit(&mut self, frame: &mut [u8]) {
        if self.frame_bytes() != frame.len() {
            self.set_length(frame.len());
        }
        self.emit(frame);
    }
}

/// Fills in the IPv4 checksum of a frame with our headers.
pub fn set_ip_checksum(frame: &mut [u8]) {
    frame[field::IP_CHECKSUM].copy_from_slice(&[0, 0]);
    let sum = checksum(0, &frame[field::IP]);
    frame[field::IP_CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the sum of big-endian words; a last single byte is the upper half of a word.
fn sum_of_words(bytes: &[u8]) -> u32 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let whole: u32 = pairs.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum();
    whole + rest.first().map_or(0, |byte| u32::from(*byte) << 8)
}

/// Ones' complement checksum over `bytes` of one packet, starting from the sum `start`.
fn checksum(start: u32, bytes: &[u8]) -> u16 {
    let mut sum = start + sum_of_words(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Fills in the UDP checksum of a frame with our headers.
pub fn set_udp_checksum(frame: &mut [u8]) {
    frame[field::UDP_CHECKSUM].copy_from_slice(&[0, 0]);
    let pseudo = sum_of_words(&frame[26..34]) + 17 + sum_of_words(&frame[38..40]);
    let sum = match checksum(pseudo, &frame[34..]) {
        0 => 0xffff, // 0 would mean "no checksum".
        sum => sum,
    };
    frame[field::UDP_CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

/// Returns a frame without padding after its IPv4 packet: Ethernet frames have at least 60 bytes, and cards pad shorter ones.
#[inline]
pub fn unpadded(bytes: &[u8]) -> &[u8] {
    unpadded_behind(bytes, 0)
}

/// The same for a frame with `tags` bytes of VLAN tags.
#[inline]
pub fn unpadded_behind(bytes: &[u8], tags: usize) -> &[u8] {
    let Some([0x08, 0x00, _, _, high, low]) = bytes.get(12 + tags..18 + tags) else { return bytes };
    let len = 14 + tags + usize::from(u16::from_be_bytes([*high, *low]));
    if len < HEAD + tags { bytes } else { bytes.get(..len).unwrap_or(bytes) }
}

/// Returns a frame with the padding that a short one has on a cable; `room` is zero.
pub fn padded<'a>(bytes: &'a [u8], room: &'a mut [u8; ETHERNET_MIN]) -> &'a [u8] {
    match room.get_mut(..bytes.len()) {
        Some(packet) => {
            packet.copy_from_slice(bytes);
            room
        }
        None => bytes,
    }
}

/// Bytes of VLAN tags that a device may add to a frame: two.
pub const TAGS_MAX: usize = 8;

/// Returns the bytes of the VLAN tags behind the addresses of Ethernet, at most those of 16 tags.
#[inline]
pub fn tags_of(frame: &[u8]) -> usize {
    const MOST: usize = 64;
    let mut tags = 0;
    while tags < MOST && matches!(frame.get(12 + tags..14 + tags), Some([0x81, 0x00] | [0x88, 0xa8])) {
        tags += 4;
    }
    tags
}

/// Returns whether an IPv4 frame with `tags` bytes of VLAN tags holds all of its datagram: hosts drop what is shorter than its lengths say, and
/// keep fragments back. Other packets, and frames cut within their headers, are left to others to refuse.
#[inline]
pub fn is_whole(bytes: &[u8], tags: usize) -> bool {
    let Some([0x08, 0x00, packet @ ..]) = bytes.get(12 + tags..).filter(|packet| packet.len() >= 30) else {
        return true;
    };
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (head, total) = (usize::from(packet[0] & 15) * 4, usize::from(word(2)));
    if word(6) & 0x3fff != 0 || total > packet.len() {
        return false;
    }
    let datagram = packet.get(head + 4..head + 6).map(|len| usize::from(u16::from_be_bytes([len[0], len[1]])));
    packet[9] != 17 || datagram.is_none_or(|len| len >= 8 && head + len <= total)
}

/// Result of checking the IPv4 and UDP checksums of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// They are correct. Also the result for UDP checksum 0 (none), for other packets and for cut frames.
    Fit,
    /// The UDP checksum is the sum of the pseudo header: a kernel left the rest to an interface, which did not complete it
    /// (virtual interfaces never do).
    Unfinished,
    /// One is wrong: hosts drop the frame.
    Wrong,
}

/// Checks the checksums of a frame.
pub fn checksums(frame: &[u8]) -> Checksums {
    let word = |at: usize| frame.get(at..at + 2).map_or(0, |pair| u16::from_be_bytes([pair[0], pair[1]]));
    let at = 12 + tags_of(frame);
    let Some(packet) = frame.get(at + 2..).filter(|packet| word(at) == 0x0800 && packet.len() >= 20) else {
        return Checksums::Fit;
    };
    let (head, total) = (usize::from(packet[0] & 15) * 4, usize::from(word(at + 4)));
    let Some(packet) = packet.get(..total).filter(|packet| (20..=packet.len()).contains(&head)) else {
        return Checksums::Fit;
    };
    if !ipv4_checksum_fits(&packet[..head]) {
        return Checksums::Wrong;
    }
    let is_fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
    let is_udp = packet[9] == 17 && !is_fragment && packet.len() >= head + 8;
    if is_udp { udp_checksum(packet, head) } else { Checksums::Fit }
}

/// Returns whether the checksum of an IPv4 header is correct.
pub fn ipv4_checksum_fits(header: &[u8]) -> bool {
    checksum(0, header) == 0
}

/// Checks the UDP checksum in a whole IPv4 packet with a header of `head` bytes. 0 means none.
pub fn udp_checksum(packet: &[u8], head: usize) -> Checksums {
    let udp = &packet[head..];
    let len = sum_of_words(&udp[4..6]);
    // Bytes of the IPv4 packet beyond the datagram do not count.
    let udp = udp.get(..(len as usize).max(8)).unwrap_or(udp);
    let pseudo = sum_of_words(&packet[12..20]) + 17 + len;
    let written = u16::from_be_bytes([udp[6], udp[7]]);
    match written {
        0 => Checksums::Fit,
        _ if checksum(pseudo, udp) == 0 => Checksums::Fit,
        _ if written == !checksum(pseudo, &[]) => Checksums::Unfinished,
        _ => Checksums::Wrong,
    }
}

/// Returns whether the frame has a UDP checksum.
#[inline]
pub fn has_udp_checksum(frame: &[u8]) -> bool {
    frame[40] != 0 || frame[41] != 0
}

/// Congestion experienced (RFC 3168): both ECN bits are set.
const CONGESTED: u8 = 0b11;

/// Sets the congestion mark (RFC 3168) in an IPv4 frame with our fixed headers. Other frames are unchanged.
pub fn mark_congestion(frame: &mut [u8]) {
    if source_ip(frame) != 0 && !is_congestion_marked(frame) {
        frame[field::IP_SERVICE] |= CONGESTED;
        set_ip_checksum(frame);
    }
}

/// Returns whether a frame has the congestion mark.
#[inline]
pub fn is_congestion_marked(frame: &[u8]) -> bool {
    frame.get(field::IP_SERVICE).is_some_and(|service| service & CONGESTED == CONGESTED)
}

/// Changes the destination to `ip`, including Ethernet address and checksums.
pub fn readdress(frame: &mut [u8], ip: Ip) {
    frame[field::ETH_DST].copy_from_slice(&mac_of(ip));
    frame[field::IP_DST].copy_from_slice(&ip.to_be_bytes());
    set_ip_checksum(frame);
    if has_udp_checksum(frame) {
        set_udp_checksum(frame);
    }
}

/// Changes the source to `ip`, including the Ethernet address; checksums are left to [`refit`].
pub fn set_source(frame: &mut [u8], ip: Ip) {
    frame[field::ETH_SRC].copy_from_slice(&mac_of(ip));
    frame[field::IP_SRC].copy_from_slice(&ip.to_be_bytes());
}

/// Corrects lengths and checksums in a frame whose head was copied from another one, and sets its ports, source first.
/// A missing UDP checksum stays missing.
pub fn refit(frame: &mut [u8], ports: (u16, u16)) {
    let ip = (frame.len() - 14) as u16;
    frame[field::IP_LENGTH].copy_from_slice(&ip.to_be_bytes());
    frame[field::UDP_LENGTH].copy_from_slice(&(ip - 20).to_be_bytes());
    frame[field::UDP_SRC].copy_from_slice(&ports.0.to_be_bytes());
    frame[field::UDP_DST].copy_from_slice(&ports.1.to_be_bytes());
    set_ip_checksum(frame);
    if has_udp_checksum(frame) {
        set_udp_checksum(frame);
    }
}

/// Returns the payload of a frame with our fixed headers, by the UDP length; `None` for other or cut frames.
#[inline]
pub fn payload(frame: &[u8]) -> Option<&[u8]> {
    let [high, low] = *frame.get(field::UDP_LENGTH)?.first_chunk()?;
    let len = usize::from(u16::from_be_bytes([high, low])).checked_sub(8)?;
    if source_ip(frame) == 0 { None } else { frame.get(HEAD..HEAD + len) }
}

/// Returns the destination port of a frame with our fixed headers; 0 for shorter frames.
#[inline]
pub fn target_port(frame: &[u8]) -> u16 {
    match frame.get(field::UDP_DST) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

/// Returns the destination address of a frame with our fixed headers; 0 for shorter frames.
#[inline]
pub fn target_ip(frame: &[u8]) -> Ip {
    match frame.get(field::IP_DST) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

/// Returns the cluster whose multicast group this is.
#[inline]
pub const fn group_of(ip: Ip) -> Option<u16> {
    if ip & 0xffff_0000 == 0xefc0_0000 { Some(ip as u16) } else { None }
}

/// Returns the source address of a frame with our fixed headers; 0 for other frames.
#[inline]
pub fn source_ip(frame: &[u8]) -> Ip {
    match frame.get(12..HEAD) {
        Some(&[0x08, 0x00, 0x45, _, _, _, _, _, _, _, _, 17, _, _, a, b, c, d, ..]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

/// A UDP datagram found in any frame, behind VLAN tags and options and without padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// IPv4 source.
    pub src: Ip,
    /// IPv4 destination.
    pub dst: Ip,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Its payload.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Parses a frame; `None` if it holds no UDP over IPv4.
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let sliced = SlicedPacket::from_ethernet(frame).ok()?;
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else { return None };
        let Some(TransportSlice::Udp(udp)) = &sliced.transport else { return None };
        Some(Datagram {
            src: u32::from_be_bytes(ip.header().source()),
            dst: u32::from_be_bytes(ip.header().destination()),
            src_port: udp.source_port(),
            dst_port: udp.destination_port(),
            payload: udp.payload(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<u8> {
        let mut frame = vec![0xa5; 60];
        Template::new((worker_ip(5), 1000), (SERVER_IP, 2000), 60).emit(&mut frame);
        frame
    }

    #[test]
    fn headers_by_hand() {
        let frame = example();
        #[rustfmt::skip]
        let expected = [
            0x02, 0x00, 198, 18, 0, 1,  0x02, 0x00, 10, 0, 0, 6,  0x08, 0x00,
            0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0x60, 0xa5, 10, 0, 0, 6, 198, 18, 0, 1,
            0x03, 0xe8, 0x07, 0xd0, 0, 26, 0, 0,
        ];
        assert_eq!(&frame[..24], &expected[..24]);
        assert_eq!(&frame[26..42], &expected[26..42]);
        assert_eq!(checksum(0, &frame[14..34]), 0, "the header's own checksum makes its sum vanish");
        assert!(frame[42..].iter().all(|b| *b == 0xa5));
    }

    #[test]
    fn a_second_reader_agrees() {
        let mut frame = example();
        readdress(&mut frame, group_ip(3));
        set_udp_checksum(&mut frame);
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("no IPv4") };
        assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
        let Some(TransportSlice::Udp(udp)) = &sliced.transport else { panic!("no UDP") };
        let computed = udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap();
        assert_eq!(computed, udp.checksum());
        let datagram = Datagram::parse(&frame).unwrap();
        assert_eq!((datagram.src, datagram.dst), (worker_ip(5), group_ip(3)));
        assert_eq!((datagram.src_port, datagram.dst_port, datagram.payload.len()), (1000, 2000, 18));
        assert_eq!(source_ip(&frame), worker_ip(5));
        assert_eq!(&frame[..6], &[0x01, 0x00, 0x5e, 0x40, 0, 3]);
    }

    #[test]
    fn a_head_is_refitted() {
        let mut frame = example();
        set_udp_checksum(&mut frame);
        assert_eq!((payload(&frame).map(<[u8]>::len), target_port(&frame)), (Some(18), 2000));
        frame.truncate(50);
        assert_eq!(payload(&frame), None, "cut");
        set_source(&mut frame, worker_ip(9));
        refit(&mut frame, (7, 8));
        let mut expected = vec![0xa5; 50];
        Template::new((worker_ip(9), 7), (SERVER_IP, 8), 50).emit(&mut expected);
        set_udp_checksum(&mut expected);
        assert_eq!(frame, expected);
        frame[40..42].fill(0);
        refit(&mut frame, (7, 9));
        assert_eq!((has_udp_checksum(&frame), payload(&frame), payload(&[0; 60])), (false, Some(&[0xa5; 8][..]), None));
    }

    #[test]
    fn only_known_workers_are_workers() {
        assert_eq!(worker_of(worker_ip(7), 8), Some(7));
        assert_eq!(worker_of(worker_ip(8), 8), None);
        assert_eq!(worker_of(background_ip(3), 1 << 24), None);
        assert_eq!(worker_of(SERVER_IP, 1 << 24), None);
        assert_eq!(source_ip(&[0; 64]), 0);
    }

    #[test]
    fn what_follows_the_packet_is_no_part_of_it() {
        for len in [HEAD, 48, 59, 60, 1500] {
            let mut frame = vec![0; len];
            Template::new((0x0a00_0001, 1), (0x0a00_0002, 2), len).emit(&mut frame);
            let whole = frame.clone();
            frame.resize(len.max(60) + 4, 0xee);
            assert_eq!(unpadded(&frame), whole);
            assert_eq!(unpadded(&whole), whole);
            assert_eq!(unpadded(&whole[..HEAD - 1]), &whole[..HEAD - 1], "cut, and left to others to refuse");
        }
        let mut tagged = vec![0; 60];
        Template::new((0x0a00_0001, 1), (0x0a00_0002, 2), 48).emit(&mut tagged);
        assert_eq!(tags_of(&tagged), 0);
        tagged.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0x00, 0, 6]);
        assert_eq!((tags_of(&tagged), unpadded_behind(&tagged, 8).len(), unpadded(&tagged).len()), (8, 56, 68));
        assert_eq!((tags_of(&tagged[..13]), tags_of(&[0x81u8, 0].repeat(100))), (0, 64), "cut, and tags only");
        let mut frame = vec![0; 60];
        assert_eq!(unpadded(&frame).len(), 60, "no IPv4 packet");
        Template::new((0x0a00_0001, 1), (0x0a00_0002, 2), 48).emit(&mut frame);
        frame[16..18].copy_from_slice(&3u16.to_be_bytes());
        assert_eq!(unpadded(&frame).len(), 60, "a length that cannot be");
    }

    #[test]
    fn datagrams_of_which_a_part_is_missing_are_not_whole() {
        let frame = |bytes: usize, change: &[(usize, u16)]| {
            let mut frame = vec![0; 120];
            Template::new((0x0a00_0001, 1), (0x0a00_0002, 2), 100).emit(&mut frame);
            frame.truncate(bytes);
            for (at, word) in change {
                frame[*at..at + 2].copy_from_slice(&word.to_be_bytes());
            }
            frame
        };
        // A datagram of 66 bytes in a packet of 86.
        let (ip, fragment, udp) = (16, 20, 38);
        let whole = [
            frame(100, &[]),
            frame(120, &[]),
            frame(100, &[(udp, 60)]),
            frame(100, &[(udp, 8)]),
            frame(100, &[(fragment, 0x4000)]),
            frame(40, &[]),
            frame(100, &[(12, 0x86dd), (ip, 200)]),
            frame(100, &[(22, 0x4006), (udp, 0)]),
        ];
        for (i, frame) in whole.iter().enumerate() {
            assert!(is_whole(frame, 0), "{i}");
        }
        for (i, change) in
            [(ip, 87), (ip, 486), (ip, 80), (udp, 67), (udp, 7), (udp, 0), (fragment, 0x2000), (fragment, 5)]
                .into_iter()
                .enumerate()
        {
            let frame = frame(100, &[change]);
            assert!(!is_whole(&frame, 0), "{i}");
            let mut tagged = frame.clone();
            tagged.splice(12..12, [0x81, 0, 0, 5]);
            assert!(!is_whole(&tagged, 4) && is_whole(&tagged, 0), "{i}");
        }
        assert!(!is_whole(&frame(99, &[]), 0), "cut within its values");
    }

    #[test]
    fn wrong_checksums_are_found_and_others_are_left_alone() {
        let mut frame = vec![0; 64];
        Template::new((0x0a00_0001, 1), (0x0a00_0002, 2), 64).emit(&mut frame);
        assert!(checksums(&frame) == Checksums::Fit, "none of UDP");
        set_udp_checksum(&mut frame);
        let mut tagged = frame.clone();
        tagged.splice(12..12, [0x81, 0x00, 0, 7]);
        let mut padded = frame.clone();
        padded.extend([0xee; 5]);
        for (whole, skip) in [(&frame, 0), (&tagged, 4), (&padded, 0)] {
            assert!(checksums(whole) == Checksums::Fit);
            for at in [22, 26, 34, 41, 50, 63] {
                let mut wrong = whole.clone();
                wrong[at + skip] ^= 1;
                assert!(checksums(&wrong) == Checksums::Wrong, "{at}");
            }
        }
        assert!((0..frame.len()).all(|len| checksums(&frame[..len]) == Checksums::Fit), "cut: nothing is said");
        // The value of a kernel that leaves the rest to an interface: 10.0.0.1 + 10.0.0.2 + 17 + 30, carries added.
        let mut unfinished = frame.clone();
        unfinished[40..42].copy_from_slice(&(0x0a00u16 + 1 + 0x0a00 + 2 + 17 + 30).to_be_bytes());
        assert_eq!(checksums(&unfinished), Checksums::Unfinished);
        let mut behind = frame.clone();
        behind.extend([0xee; 6]);
        behind[17] += 6;
        set_ip_checksum(&mut behind);
        assert!(checksums(&behind) == Checksums::Fit, "bytes of the IPv4 packet behind the datagram");
        behind[63] ^= 1;
        assert!(checksums(&behind) == Checksums::Wrong, "the datagram's last byte");
        frame[12] = 0x86;
        assert!(checksums(&frame) == Checksums::Fit, "no IPv4");
    }
}
