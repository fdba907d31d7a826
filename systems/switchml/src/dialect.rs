//! SwitchML's frames as the public client writes them: packets are numbered within a job, which is an iteration here,
//! and the second exponent is 0, so the number of the transmission is lost.
//!
//! The job number has 8 bits on the wire. Workers of a job are within a window of each other, so the job closest to
//! their latest one is assumed.

pub(crate) mod roce;

use std::sync::Arc;

use crate::format::Header;
use pktgen_core::time::Time;
use pktgen_core::topology::Population;
use pktgen_wire::wire::frame::{
    HEAD, group_of, has_udp_checksum, payload, set_udp_checksum, source_ip, target_ip, worker_of,
};

use pktgen_engine::dialect::{Dialect, DialectKind, Traffic};

/// Its entry in listings.
pub static KIND: DialectKind = DialectKind {
    word: "strict",
    format: "switchml",
    on_wire: "switchml",
    device: "switchml",
    growth: 0,
    length: |bytes| bytes,
    headless: false,
    open: |traffic| Ok(Some(Box::new(SwitchMlDialect::new(traffic)))),
};

/// State of one end.
struct SwitchMlDialect {
    workers: Arc<Population>,
    /// Packets of an iteration.
    packets: u32,
    /// The latest iteration of each group of workers.
    latest: Vec<u32>,
}

impl SwitchMlDialect {
    fn new(traffic: &Traffic) -> Self {
        let workers = traffic.workers.clone();
        SwitchMlDialect { packets: traffic.packets.max(1), latest: vec![0; workers.clusters_ever()], workers }
    }
}

impl SwitchMlDialect {
    /// Returns the group that a frame belongs to.
    fn group(&self, frame: &[u8]) -> Option<usize> {
        let of_worker = |ip| worker_of(ip, self.workers.len()).map(|w| self.workers.cluster_of[w as usize]);
        let target = target_ip(frame);
        of_worker(source_ip(frame)).or_else(|| of_worker(target)).or_else(|| group_of(target)).map(usize::from)
    }
}

/// Copies the frame with another header.
fn with(header: &Header, frame: &[u8], out: &mut [u8]) -> Option<usize> {
    let out = out.get_mut(..frame.len())?;
    out.copy_from_slice(frame);
    header.emit(&mut out[HEAD..]);
    if has_udp_checksum(out) {
        set_udp_checksum(out);
    }
    Some(frame.len())
}

impl Dialect for SwitchMlDialect {
    fn outward(&mut self, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        let header = Header::parse(payload(frame)?)?;
        // A switch echoes the number of a packet that does not belong to the job, as sent by probes.
        let (latest, iteration) = (*self.latest.get(self.group(frame)?)?, header.packet / self.packets);
        if iteration as u8 != header.job || iteration > latest.saturating_add(128) {
            return None;
        }
        with(&header.strict(self.packets), frame, out)
    }

    fn inward_whole(&mut self, frame: &[u8], _now: Time, out: &mut [u8]) -> Option<usize> {
        let header = Header::parse(payload(frame)?)?;
        let group = self.group(frame)?;
        let latest = self.latest.get_mut(group)?;
        let (header, job) = header.out_of_strict(self.packets, *latest)?;
        *latest = job.max(*latest);
        with(&header, frame, out)
    }
}

#[cfg(test)]
mod tests {
    use crate::format::{PORT, WORKER_PORT, frame_bytes};
    use pktgen_wire::wire::frame::{SERVER_IP, Template, group_ip, worker_ip};

    use super::*;

    const PACKETS: u32 = 100;

    fn dialect() -> SwitchMlDialect {
        let workers = Arc::new(Population::regular(1, 4));
        SwitchMlDialect::new(&Traffic { workers, format: "switchml", packets: PACKETS, window: 0, plain: false })
    }

    fn packet(iteration: u32, index: u32, attempt: i8, back: bool) -> Vec<u8> {
        let mut frame = vec![0; frame_bytes(64)];
        let (worker, switch) = ((worker_ip(2), WORKER_PORT), (SERVER_IP, PORT));
        match back {
            false => Template::new(worker, switch, frame.len()).emit(&mut frame),
            true => Template::new(switch, (group_ip(0), WORKER_PORT), frame.len()).emit(&mut frame),
        }
        let packet = iteration * PACKETS + index;
        let header = Header { job: iteration as u8, packet, attempt, elements: 64, ..Header::default() };
        header.emit(&mut frame[HEAD..]);
        set_udp_checksum(&mut frame);
        frame
    }

    #[test]
    fn numbers_are_those_of_the_client_on_the_wire_and_ours_again_behind_it() {
        let mut dialect = dialect();
        let (mut strict, mut back) = (vec![0; 400], vec![0; 400]);
        for iteration in 0..700 {
            for (index, attempt, down) in [(0, 0, false), (7, 3, false), (PACKETS - 1, 0, true)] {
                let frame = packet(iteration, index, attempt, down);
                let len = dialect.outward(&frame, &mut strict).unwrap();
                let on_wire = Header::parse(&strict[HEAD..len]).unwrap();
                assert_eq!((on_wire.packet, on_wire.attempt, on_wire.job), (index, 0, iteration as u8));
                assert_eq!(dialect.inward(&strict[..len], 0, &mut back), Some(len));
                assert_eq!(back[..len], packet(iteration, index, 0, down), "but for which transmission it is");
            }
        }
        // A worker that is an iteration behind is one behind.
        let len = dialect.outward(&packet(698, 5, 0, false), &mut strict).unwrap();
        dialect.inward(&strict[..len], 0, &mut back).unwrap();
        assert_eq!(back[..len], packet(698, 5, 0, false));
    }

    #[test]
    fn what_is_no_packet_of_the_job_is_left_alone() {
        let mut dialect = dialect();
        let mut out = vec![0; 400];
        assert_eq!(dialect.inward(&[7; 308], 0, &mut out), None);
        for (down, number) in [(false, PACKETS * 7), (true, PACKETS * 7), (false, 0xffff_0001), (true, 0xffff_0001)] {
            let mut frame = packet(0, 0, 0, down);
            Header { packet: number, elements: 64, ..Header::default() }.emit(&mut frame[HEAD..]);
            assert_eq!(dialect.inward(&frame, 0, &mut out), None, "no packet of the job");
            assert_eq!(dialect.outward(&frame, &mut out), None, "its number is echoed");
        }
        assert_eq!(dialect.inward(&packet(0, PACKETS, 0, false), 0, &mut out), None, "a job has so many packets");
        assert_eq!(dialect.outward(&packet(0, 0, 0, false)[..200], &mut out), None, "cut");
    }
}
