//! Conversion of received frames to frames of a driver.

use pktgen_wire::wire::frame::{HEAD, is_whole, tags_of, unpadded_behind};

use crate::endpoint::{Facts, Identity};
use crate::frame::{Frame, Pool};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Copies a received frame into the pool, with its time still open; `None` if it matches no known worker, and for frames of which hosts would
/// drop a part or all. Raw frames may have any content.
pub fn admit(bytes: &[u8], pool: &mut Pool, facts: &Facts) -> Option<Frame> {
    // A device may tag raw frames, which are sent unchanged, or take their tags off; others have the tags of their dialect.
    let tags = if facts.raw.is_some() { tags_of(bytes) } else { 0 };
    let (bytes, head) = (unpadded_behind(bytes, tags), HEAD + tags);
    if bytes.len() < head || bytes.len() > pool.stride() || (facts.raw.is_none() && !is_whole(bytes, tags)) {
        return None;
    }
    let Identity { packet, worker, cluster, flow, kind } = facts.protocol.identify(bytes, facts)?;
    let buffer = pool.take();
    pool.bytes_mut(buffer)[..bytes.len()].copy_from_slice(bytes);
    Some(Frame { t: 0, packet, buffer, worker, len: bytes.len() as u16, cluster, flow, head: head as u8, kind })
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
    use pktgen_core::config::Document;
    use pktgen_core::seed::Seed;
    use pktgen_core::topology::Population;
    use pktgen_wire::wire::frame::{SERVER_IP, Template, worker_ip};
    use pktgen_wire::wire::update::{Header, PORT, WORKER_PORT};
    use pktgen_workload::workload;

    use super::*;
    use crate::endpoint::open_loop::OpenLoopKind;
    use crate::endpoint::raw::RawKind;

    /// Facts of a run of raw frames, and its first frame.
    fn raw() -> (Facts, Vec<u8>) {
        let text = "[workload]\nkind = \"raw\"\nflows = 1\npackets = 1\n[schedule]\noffered = \"1Mbps\"\n";
        let mut source = workload::open(&mut Document::parse(text, "x.toml").unwrap(), Seed(1)).unwrap().source;
        let facts = Facts {
            real_time: true,
            external: true,
            raw: source.known().raw,
            ..Facts::of_test(&RawKind, source.population().clone())
        };
        let mut frame = vec![0; 60];
        source.take(&mut frame);
        (facts, frame)
    }

    #[test]
    fn tags_that_a_device_put_on_raw_frames_are_none_of_their_content() {
        let (facts, frame) = raw();
        let mut pool = Pool::new(128, 4);
        let mut content = |bytes: &[u8]| {
            let frame = admit(bytes, &mut pool, &facts).expect("a frame of a flow");
            pool.payload(&frame).to_vec()
        };
        let own = content(&frame);
        assert_eq!(own, frame[HEAD..]);
        for tags in [&[0x81, 0, 0, 5][..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]] {
            let tagged = [&frame[..12], tags, &frame[12..], &[0xee; 9]].concat();
            assert_eq!(content(&tagged), own, "{tags:?}");
        }
        assert!(admit(&frame[..HEAD - 1], &mut pool, &facts).is_none(), "cut");
    }

    #[test]
    fn frames_that_hosts_would_not_take_are_none_of_the_run() {
        let (raw, mut frame) = raw();
        let facts = Facts::of_test(&OpenLoopKind, Population::regular(1, 1));
        let mut update = [0; 256];
        let header = Header {
            flags: 0,
            cluster: 0,
            count: 1,
            worker: 0,
            seq: 0,
            generation: 0,
            attempt: 0,
            elements: 40,
            reward: 0.0,
        };
        Template::new((worker_ip(0), WORKER_PORT), (SERVER_IP, PORT), update.len()).emit(&mut update);
        header.emit_update(&mut update[HEAD..]);
        let mut pool = Pool::new(512, 4);
        assert!(admit(&update, &mut pool, &facts).is_some());
        assert!(admit(&update[..255], &mut pool, &facts).is_none(), "shorter than its packet");
        for (at, byte) in [(20, 0x20), (21, 5), (39, 0xff)] {
            let mut wrong = update;
            wrong[at] = byte;
            assert!(admit(&wrong, &mut pool, &facts).is_none(), "{at}");
        }
        // Raw frames hold what they were made to hold.
        frame[20] = 0x20;
        assert!(admit(&frame, &mut pool, &raw).is_some());
    }

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
