//! Frames that hosts and routers of a link send to each other by themselves; they are no answers of a device.

use pktgen_wire::wire::frame::target_ip;

/// Position of a frame's type, and the type of IPv4.
const TYPE: std::ops::Range<usize> = 12..14;
const IPV4: [u8; 2] = [0x08, 0x00];
/// Multicast groups of a link, which no router forwards (RFC 5771): the first 24 bits.
const LOCAL_GROUPS: u32 = 0xe0_0000;
/// The broadcast address of a link (RFC 919).
const BROADCAST: u32 = u32::MAX;

/// Returns whether a frame without a VLAN tag contains IPv4.
pub(crate) fn is_ipv4(frame: &[u8]) -> bool {
    frame.get(TYPE) == Some(&IPV4[..])
}

/// Returns whether an IPv4 frame is addressed to the hosts or routers of its link: IGMP, OSPF, VRRP, mDNS, DHCP.
pub(crate) fn is_of_link(frame: &[u8]) -> bool {
    let to = target_ip(frame);
    is_ipv4(frame) && (to >> 8 == LOCAL_GROUPS || to == BROADCAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_to_groups_of_the_link_and_broadcasts_are_no_answers() {
        let frame = |kind: [u8; 2], to: [u8; 4]| {
            let mut frame = vec![0; 60];
            frame[12..14].copy_from_slice(&kind);
            frame[30..34].copy_from_slice(&to);
            is_of_link(&frame)
        };
        // Hosts, routers, OSPF, VRRP, IGMP, mDNS, and the last group of a link.
        for group in [1, 2, 5, 18, 22, 251, 255] {
            assert!(frame([8, 0], [224, 0, 0, group]), "{group}");
        }
        assert!(frame([8, 0], [255, 255, 255, 255]));
        for to in [[10, 0, 0, 1], [198, 18, 0, 1], [224, 0, 1, 1], [239, 192, 0, 0], [10, 0, 0, 255], [223, 0, 0, 1]] {
            assert!(!frame([8, 0], to), "{to:?}");
        }
        assert!(!frame([0x86, 0xdd], [224, 0, 0, 1]));
        assert!(!is_of_link(&[0xff; 20]));
    }
}
