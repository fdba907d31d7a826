//! The invariant CRC of RoCEv2: over everything that routers do not change.
//!
//! It is Ethernet's CRC-32 over 8 bytes of ones in place of a header that RoCEv2 lacks, then from the IPv4 header to
//! the last byte before the checksum, where variable bytes count as ones: type of service, TTL and checksum of IPv4,
//! UDP's checksum, and the BTH's byte with the congestion bits. On the wire, its lowest byte is first. The tests
//! contain packets whose checksum was computed by other implementations.

use flate2::Crc;

use super::{BTH, ICRC};
use pktgen_wire::wire::frame::HEAD;

/// Number of bytes of ones before the IPv4 header.
const ONES: usize = 8;
/// Length of the Ethernet header.
const ETHERNET: usize = 14;
/// Bytes that may change on the way, counted from the IPv4 header.
const CHANGING: [usize; 7] = [1, 8, 10, 11, 26, 27, 32];

/// Returns the checksum of a frame with an IPv4 header without options, in the form of its last four bytes; `None` if it is too short.
pub fn icrc(frame: &[u8]) -> Option<[u8; ICRC]> {
    let covered = frame.len().checked_sub(ICRC)?;
    let mut head = [0xff; ONES + HEAD - ETHERNET + BTH];
    let own = &mut head[ONES..];
    own.copy_from_slice(frame.get(ETHERNET..HEAD + BTH)?);
    CHANGING.iter().for_each(|at| own[*at] = 0xff);
    let mut crc = Crc::new();
    crc.update(&head);
    crc.update(frame.get(HEAD + BTH..covered)?);
    Some(crc.sum().to_le_bytes())
}

/// Writes the checksum at the end of a frame.
pub(crate) fn set_icrc(frame: &mut [u8]) {
    if let (Some(icrc), Some(end)) = (icrc(frame), frame.last_chunk_mut::<ICRC>()) {
        *end = icrc;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SwitchMlRoce, Way, emit_frame, session};
    use super::*;
    use pktgen_wire::device::{Address, Addresses, CableEnd, GROWTH_MAX, Hop, Mac, Station, Translator};
    use pktgen_wire::wire::Format;
    use pktgen_wire::wire::frame::{SERVER_IP, worker_ip};

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.chars().filter(char::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap()).collect()
    }

    /// A congestion notification sent by a ConnectX-4 Lx, and a packet of the unreliable connected service; both are
    /// examples from scapy's tests (`test/contrib/roce.uts`).
    fn of_others() -> [Vec<u8>; 2] {
        [
            bytes(
                "e41d2dab2bc2 7cfe90643b32 0800 45c2003c718c4000401191610a0011010a001201 000012b700280000 \
                 8100ffff4000011800000000 00000000000000000000000000000000 82fd002a",
            ),
            bytes(
                "248a07a8fa22 248a07a8fa22 0800 4501004004784000 4011b4d5 c0a80007c0a80007 c00012b7002caca2 \
                 2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000 78f353f3",
            ),
        ]
    }

    #[test]
    fn packets_of_others_have_the_checksum_that_we_find() {
        for frame in of_others() {
            assert_eq!(icrc(&frame).unwrap(), *frame.last_chunk().unwrap());
        }
    }

    #[test]
    fn what_routers_change_does_not_count_and_everything_else_does() {
        let [frame, _] = of_others();
        let right = icrc(&frame).unwrap();
        for at in 0..frame.len() - ICRC {
            let mut other = frame.clone();
            other[at] ^= 0x10;
            let free = at < ETHERNET || CHANGING.contains(&(at - ETHERNET));
            assert_eq!(icrc(&other).unwrap() == right, free, "byte {at}");
        }
        let mut made = frame.clone();
        made[frame.len() - ICRC..].fill(0);
        set_icrc(&mut made);
        assert_eq!(made, frame);
        assert!((0..HEAD + BTH + ICRC).all(|len| icrc(&frame[..len]).is_none()));
    }

    fn station(ip: u32, mac: u8) -> Station {
        Station { ip: Address(ip), mac: Mac([2, 0, 0, 0, 0, mac]) }
    }

    /// The checksum covers addresses, so it is correct for those on the wire, also after a VLAN tag.
    #[test]
    fn a_frame_is_sealed_anew_for_other_addresses() {
        for vlan in [0, 7] {
            let addresses = Addresses {
                workers: vec![station(0x0a28_0001, 1)],
                groups: Vec::new(),
                server: None,
                device: Some(station(0x0a28_00fe, 2)),
                to_device: true,
                hop: Hop::Direct,
                vlan,
                worker_port: Some(4000),
                port: Some(48864),
            };
            let translator = Translator::new(&addresses, SwitchMlRoce.facts(), CableEnd::Workers);
            let header = crate::format::Header { elements: 64, ..Default::default() };
            let packet = session::packet(&header, 0, 0, 0, false);
            let mut frame = vec![0; HEAD + packet.payload_bytes()];
            emit_frame(Way::ToSwitch { port: 0xc000 }, worker_ip(0), SERVER_IP, &packet, &[7; 256], &mut frame);
            let mut wire = vec![0; frame.len() + GROWTH_MAX];
            let len = translator.outward(&frame, &mut wire).expect("of this run");
            let wire = &wire[len - frame.len()..len];
            assert_eq!(icrc(wire), wire.last_chunk().copied());
            assert_ne!(wire.last_chunk::<4>(), frame.last_chunk::<4>());
            assert_eq!(wire[34..38], frame[34..38], "its ports are RoCEv2's, whatever the profile says of UDP");
        }
    }
}
