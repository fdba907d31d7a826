//! The queue of ATP's switch: first in, first out. Packets that leave while many frames wait are marked in their own
//! header and in that of IPv4 (`do_comp_qdepth`, `modify_ecn` and `modify_ipv4_ecn` of the public program).

use pktgen_core::Result;
use pktgen_core::config::{KeyTables, Section};
use pktgen_core::registry::Named;
use pktgen_wire::wire::frame::{HEAD, has_udp_checksum, mark_congestion, payload, set_udp_checksum};

use crate::format::Header;
use crate::keys::{Queueing, SLOTS};
use pktgen_engine::target::queue::fifo::read_slots;
use pktgen_engine::target::queue::{Discipline, Fifo, Queue};

/// `queue = "atp"`.
pub(crate) struct AtpQueue;

impl Named for AtpQueue {
    fn name(&self) -> &'static str {
        "atp"
    }
    fn about(&self) -> &'static str {
        "first in, first out; marks departing frames in a long queue, also in ATP's header"
    }
}

impl Discipline for AtpQueue {
    fn keys(&self) -> KeyTables {
        &[Queueing::KEYS]
    }

    fn slots(&self) -> u32 {
        SLOTS
    }

    fn open(&self, section: &mut Section, _clusters: usize, slots: Option<u32>) -> Result<Box<dyn Queue>> {
        let (slots, hold) = read_slots(section, slots, self.slots())?;
        Ok(Box::new(Fifo::new(slots, hold).marking(Queueing::mark_at(section)?, mark)))
    }
}

/// Marks a frame.
fn mark(frame: &mut [u8]) {
    mark_congestion(frame);
    let Some(header) = payload(frame).and_then(Header::parse).filter(|header| !header.congested) else { return };
    Header { congested: true, ..header }.emit(&mut frame[HEAD..]);
    if has_udp_checksum(frame) {
        set_udp_checksum(frame);
    }
}

#[cfg(test)]
mod tests {
    use pktgen_wire::wire::frame::{SERVER_IP, Template, is_congestion_marked, worker_ip};

    use super::*;
    use crate::format::{PORT, UDP_FRAME_BYTES, WORKER_PORT, values_mut};

    #[test]
    fn a_mark_changes_the_two_flags_and_checksums_only() {
        let mut frame = vec![0; UDP_FRAME_BYTES];
        Template::new((worker_ip(3), WORKER_PORT), (SERVER_IP, PORT), frame.len()).emit(&mut frame);
        let header = Header { bitmap: 8, workers: 5, app: 1, seq: 9, key: 77, ..Header::default() };
        header.emit(&mut frame[HEAD..]);
        values_mut(&mut frame[HEAD..]).fill(9);
        set_udp_checksum(&mut frame);
        let before = frame.clone();
        mark(&mut frame);
        assert!(is_congestion_marked(&frame));
        assert_eq!(Header::parse(&frame[HEAD..]), Some(Header { congested: true, ..header }));
        let mut fits = frame.clone();
        set_udp_checksum(&mut fits);
        assert_eq!(fits, frame);
        let changed: Vec<_> = (0..frame.len()).filter(|i| frame[*i] != before[*i]).collect();
        assert!(changed.iter().all(|i| [15, 24, 25, 40, 41, HEAD + 5].contains(i)), "{changed:?}");
        // Other packets are marked as IPv4 or not at all.
        let mut other = before[..HEAD + 8].to_vec();
        mark(&mut other);
        assert_eq!(other[HEAD..], before[HEAD..HEAD + 8]);
        mark(&mut [0; 3]);
    }
}
