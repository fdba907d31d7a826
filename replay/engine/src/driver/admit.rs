//! Conversion of received frames to frames of a driver.

use pktgen_wire::wire::frame::{HEAD, unpadded};

use crate::endpoint::{Facts, Identity};
use crate::frame::{Frame, Pool};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Copies a received frame into the pool, with its time still open; `None` if it matches no known worker.
pub fn admit(bytes: &[u8], pool: &mut Pool, facts: &Facts) -> Option<Frame> {
    let bytes = unpadded(bytes);
    if bytes.len() < HEAD || bytes.len() > pool.stride() {
        return None;
    }
    let Identity { packet, worker, cluster, flow, kind } = facts.protocol.identify(bytes, facts)?;
    let buffer = pool.take();
    pool.bytes_mut(buffer)[..bytes.len()].copy_from_slice(bytes);
    Some(Frame { t: 0, packet, buffer, worker, len: bytes.len() as u16, cluster, flow, head: HEAD as u8, kind })
}

/// Returns the number of foreign packets that a rejected frame counts as: 0 for neighbour discovery of the hosts on a
/// link (ARP, ICMPv6, LLDP).
pub fn strangers(bytes: &[u8]) -> u64 {
    let icmp6 = |bytes: &[u8]| match bytes.get(ETHERNET + 6) {
        // Multicast listener reports have a hop-by-hop header first.
        Some(0) => bytes.get(ETHERNET + 40) == Some(&58),
        next => next == Some(&58),
    };
    let quiet = match bytes.get(ETHERNET - 2..ETHERNET) {
        Some([0x08, 0x06] | [0x88, 0xcc]) => true,
        Some([0x86, 0xdd]) => icmp6(bytes),
        _ => false,
    };
    u64::from(!quiet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stacks_of_a_link_say_to_each_other_is_no_packet_of_somebody() {
        let frame = |kind: [u8; 2], next: u8, inner: u8| {
            let mut frame = vec![0; 86];
            frame[12..14].copy_from_slice(&kind);
            (frame[20], frame[54]) = (next, inner);
            strangers(&frame)
        };
        assert_eq!([frame([0x08, 0x06], 0, 0), frame([0x88, 0xcc], 0, 0)], [0, 0]);
        assert_eq!(
            [frame([0x86, 0xdd], 58, 0), frame([0x86, 0xdd], 0, 58)],
            [0, 0],
            "neighbours, and reports of groups"
        );
        assert_eq!([frame([0x86, 0xdd], 17, 58), frame([0x86, 0xdd], 0, 17), frame([0x08, 0x00], 58, 58)], [1, 1, 1]);
        assert_eq!([strangers(&[]), strangers(&[0; 14]), strangers(&[0x86; 14])], [1, 1, 1], "cut");
    }
}
