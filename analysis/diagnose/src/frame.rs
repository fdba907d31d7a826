//! A captured frame as used by rules: addresses, lengths and checksums, independent of the protocol.

use std::hash::{BuildHasherDefault, Hasher};

use pktgen_wire::wire::frame::{Checksums, ipv4_checksum_fits, tags_of, udp_checksum, unpadded_behind};

/// Ethernet types.
const IPV4: u16 = 0x0800;
const UDP: u8 = 17;
/// Bits of IPv4's flags and offset that only fragments have: more fragments, and the offset.
const FRAGMENT: u16 = 0x3fff;

/// A UDP datagram over IPv4.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram<'a> {
    /// Destination Ethernet address.
    pub(crate) station: [u8; 6],
    /// Source Ethernet address.
    pub(crate) from_station: [u8; 6],
    /// VLAN tag, if it has one.
    pub(crate) tag: Option<u16>,
    /// Source address and port.
    pub(crate) src: (u32, u16),
    /// Destination address and port.
    pub(crate) dst: (u32, u16),
    /// Whether the IPv4 checksum is correct.
    pub(crate) ip_fits: bool,
    /// Number of bytes that the IPv4 header states but that are missing.
    pub(crate) lacking: usize,
    /// Whether the lengths in the IPv4 and UDP headers are consistent.
    pub(crate) agrees: bool,
    /// From the IPv4 header to the end of the datagram.
    pub(crate) packet: &'a [u8],
    /// The payload.
    pub(crate) payload: &'a [u8],
    /// All bytes after the UDP header, regardless of the lengths in headers: with padding, if any.
    pub(crate) behind: &'a [u8],
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |pair| u16::from_be_bytes([pair[0], pair[1]]))
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from(get16(bytes, at)) << 16 | u32::from(get16(bytes, at + 2))
}

/// Returns the part of a non-datagram frame that devices pass on unchanged: everything after the headers of Ethernet, with its tags, and of
/// IPv4, without padding after an IPv4 packet.
pub(crate) fn content(frame: &[u8]) -> &[u8] {
    let tags = tags_of(frame);
    let (whole, at) = (unpadded_behind(frame, tags), 14 + tags);
    let head = if get16(whole, at - 2) == IPV4 { usize::from(whole.get(at).copied().unwrap_or(0) & 15) * 4 } else { 0 };
    whole.get(at + head..).unwrap_or_default()
}

/// Returns whether a frame is a fragment of an IPv4 packet: the first has a part of the datagram, later ones have no UDP header.
pub(crate) fn is_fragment(frame: &[u8]) -> bool {
    let at = 12 + tags_of(frame);
    get16(frame, at) == IPV4
        && frame.get(at + 2).is_some_and(|first| first >> 4 == 4)
        && get16(frame, at + 8) & FRAGMENT != 0
}

impl<'a> Datagram<'a> {
    /// Parses a frame with an Ethernet header; `None` if it is not a whole UDP datagram over IPv4.
    pub(crate) fn read(frame: &'a [u8]) -> Option<Datagram<'a>> {
        let tags = tags_of(frame);
        let (at, tag) = (12 + tags, (tags > 0).then(|| get16(frame, 14) & 0xfff));
        let ip = frame.get(at + 2..)?;
        let head = usize::from(ip.first()? & 15) * 4;
        if get16(frame, at) != IPV4
            || ip[0] >> 4 != 4
            || head < 20
            || ip.len() < head + 8
            || ip[9] != UDP
            || get16(ip, 6) & FRAGMENT != 0
        {
            return None;
        }
        let total = usize::from(get16(ip, 2)).max(head + 8);
        let packet = &ip[..total.min(ip.len())];
        let whole = usize::from(get16(ip, head + 4)).max(8);
        Some(Datagram {
            station: *frame.first_chunk()?,
            from_station: *frame.get(6..)?.first_chunk()?,
            tag,
            src: (get32(ip, 12), get16(ip, head)),
            dst: (get32(ip, 16), get16(ip, head + 2)),
            ip_fits: ipv4_checksum_fits(&ip[..head]),
            lacking: (head + whole).max(total).saturating_sub(packet.len()),
            agrees: usize::from(get16(ip, 2)) == head + usize::from(get16(ip, head + 4)),
            packet,
            payload: &packet[head + 8..(head + whole).clamp(head + 8, packet.len())],
            behind: &ip[head + 8..],
        })
    }

    /// Whether the UDP checksum is correct; 0 and checksums left to the interface are accepted.
    pub(crate) fn udp_fits(&self) -> bool {
        let head = usize::from(self.packet[0] & 15) * 4;
        self.lacking > 0 || udp_checksum(self.packet, head) != Checksums::Wrong
    }
}

/// Hashes the many packet ids and digests, which nobody chooses to collide.
pub(crate) type Quick = BuildHasherDefault<QuickHasher>;

/// See [`Quick`].
#[derive(Default)]
pub(crate) struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(digest(bytes));
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Returns a digest of bytes.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    // Four lanes at once: multiplications have a long latency, and the lanes are independent.
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut lanes = [1u64, 2, 3, 4];
    for block in blocks {
        let words = block.as_chunks::<8>().0;
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let (chunks, rest) = rest.as_chunks::<8>();
    let hash = lanes.into_iter().fold(bytes.len() as u64, mix);
    let hash = chunks.iter().fold(hash, |hash, chunk| mix(hash, u64::from_le_bytes(*chunk)));
    let hash = rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)));
    hash ^ (hash >> 32)
}

/// Formats an address.
pub(crate) fn dotted((ip, port): (u32, u16)) -> String {
    let [a, b, c, d] = ip.to_be_bytes();
    format!("{a}.{b}.{c}.{d}:{port}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A frame of UDP over IPv4 with right checksums, from one address and port to another.
    pub(crate) fn datagram(tag: Option<u16>, src: (u32, u16), dst: (u32, u16), payload: &[u8]) -> Vec<u8> {
        let mac = |ip: u32| [2, 0].into_iter().chain(ip.to_be_bytes());
        let mut frame: Vec<u8> = mac(dst.0).chain(mac(src.0)).collect();
        frame.extend(tag.into_iter().flat_map(|tag| [0x8100, tag]).flat_map(u16::to_be_bytes));
        frame.extend(IPV4.to_be_bytes());
        let (len, at) = (8 + payload.len() as u16, frame.len());
        frame.extend([0x45, 0].into_iter().chain((20 + len).to_be_bytes()));
        frame.extend([0, 0, 0, 0, 64, UDP, 0, 0]);
        frame.extend(src.0.to_be_bytes().into_iter().chain(dst.0.to_be_bytes()));
        frame.extend([src.1, dst.1, len, 0].into_iter().flat_map(u16::to_be_bytes));
        frame.extend(payload);
        seal(&mut frame, at);
        frame
    }

    /// Writes both checksums of a frame whose header of IPv4 begins at `at`.
    pub(crate) fn seal(frame: &mut [u8], at: usize) {
        let sum = |words: &[u8]| {
            let pairs = words.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
            let all = pairs.sum::<u32>();
            let all = (all & 0xffff) + (all >> 16);
            !((all & 0xffff) + (all >> 16)) as u16
        };
        frame[at + 10..at + 12].fill(0);
        let own = sum(&frame[at..at + 20]);
        frame[at + 10..at + 12].copy_from_slice(&own.to_be_bytes());
        frame[at + 26..at + 28].fill(0);
        let len = (frame.len() - at - 20) as u16;
        let head = [&frame[at + 12..at + 20], &[0, UDP], &len.to_be_bytes()[..], &frame[at + 20..]].concat();
        let own = sum(&head);
        frame[at + 26..at + 28].copy_from_slice(&own.to_be_bytes());
    }

    fn frame(tag: bool) -> Vec<u8> {
        let mut frame = vec![0; 12];
        if tag {
            frame.extend([0x81, 0, 0, 7]);
        }
        frame.extend([8, 0]);
        frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0x66, 0xcb, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x12, 0x34, 0x56, 0x78, 0, 12, 0, 0, 1, 2, 3, 4]);
        frame
    }

    #[test]
    fn frames_are_read_with_and_without_a_tag_and_what_lacks_is_counted() {
        for (tag, whole) in [(None, frame(false)), (Some(7), frame(true))] {
            let datagram = Datagram::read(&whole).expect("a datagram");
            assert_eq!((datagram.tag, datagram.payload, datagram.lacking), (tag, &[1, 2, 3, 4][..], 0));
            assert!(datagram.ip_fits && datagram.udp_fits());
            assert_eq!((dotted(datagram.src), dotted(datagram.dst)), ("10.0.0.1:4660".into(), "10.0.0.2:22136".into()));
            let cut = Datagram::read(&whole[..whole.len() - 3]).expect("a datagram");
            assert_eq!((cut.payload, cut.lacking), (&[1][..], 3));
        }
        let mut wrong = frame(false);
        wrong[14 + 8] = 63;
        assert!(!Datagram::read(&wrong).expect("a datagram").ip_fits);
        wrong[14 + 20 + 6] = 1;
        assert!(!Datagram::read(&wrong).expect("a datagram").udp_fits());
    }

    #[test]
    fn fragments_are_no_datagrams() {
        for (tag, whole) in [(false, frame(false)), (true, frame(true))] {
            let at = if tag { 18 } else { 14 };
            // Don't fragment; more fragments; a later one, which begins with any bytes.
            for (flags, fragment) in [([0x40, 0], false), ([0x20, 0], true), ([0, 185], true)] {
                let mut frame = whole.clone();
                frame[at + 6..at + 8].copy_from_slice(&flags);
                assert_eq!((Datagram::read(&frame).is_none(), is_fragment(&frame)), (fragment, fragment), "{flags:?}");
            }
        }
        assert!(!is_fragment(&[]) && !is_fragment(&[0xff; 60]));
    }

    #[test]
    fn no_beginning_of_a_frame_panics() {
        let whole = frame(true);
        for len in 0..whole.len() {
            if let Some(cut) = Datagram::read(&whole[..len]) {
                assert!(cut.lacking > 0 && cut.udp_fits(), "{len} bytes");
            }
        }
    }
}
