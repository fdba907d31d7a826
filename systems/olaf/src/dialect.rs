//! OLAF's frames without this project's header: the worker follows from the addresses, the cluster from the experiment
//! (§7, "Uplink"); the rest is lost.
//!
//! An arriving update gets as its number the count of frames of its worker at this end so far. Behind a lossless cable this is the true
//! number, since every worker sends every update once; at the server it identifies nothing, since some updates were merged on the way. Its
//! generation time is the time of arrival, its count 1, and [`FLAG_HEADLESS`] marks it.

use std::sync::Arc;

use crate::strict::{self as strict, Update};
use pktgen_core::record::NO_CLUSTER;
use pktgen_core::time::Time;
use pktgen_core::topology::Population;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{
    HEAD, Ip, SERVER_IP, group_of, payload, refit, set_source, source_ip, target_ip, target_port, worker_ip, worker_of,
};
use pktgen_wire::wire::update::{self, FLAG_HEADLESS, FLAG_STAMPED, Header, Status};

use pktgen_engine::dialect::{Dialect, DialectKind, Traffic};

/// Its entry in listings.
pub static KIND: DialectKind = DialectKind {
    word: "strict",
    format: "olaf",
    on_wire: strict::NAME,
    device: "olaf",
    growth: 0,
    // Padding is not sent.
    length: |bytes| HEAD + strict::UPDATE_HEAD + update::elements_in(bytes.max(update::FRAME_MIN)) * 4,
    headless: true,
    open: |traffic| Ok(Some(Box::new(OlafDialect::new(traffic)?))),
};

/// State of one end.
struct OlafDialect {
    workers: Arc<Population>,
    /// One worker of each cluster, for ACKs to all of them.
    first_of: Vec<Option<u32>>,
    /// Number of frames of each worker.
    seen: Vec<u32>,
}

impl OlafDialect {
    fn new(traffic: &Traffic) -> Result<Self> {
        let workers = traffic.workers.clone();
        if !traffic.plain {
            return Err(Error::config(
                "transport.on_wire = \"strict\": strict updates are identified by counting them, so each must be sent once, and an \
                 ACK does not say which update it is for; use endpoint.workers = \"open_loop\" without a plan, or on_wire = \"ours\"",
            ));
        }
        if let Some(change) = workers.moves.first() {
            return Err(Error::config(format!(
                "transport.on_wire = \"strict\": worker {} moves to cluster {} during the run, and a strict update does not say which \
                 cluster it is of; leave the moves out, or use on_wire = \"ours\"",
                change.worker, change.cluster
            )));
        }
        let mut first_of = vec![None; workers.clusters_ever()];
        for (worker, cluster) in workers.cluster_of.iter().enumerate() {
            if let Some(first) = first_of.get_mut(usize::from(*cluster)) {
                first.get_or_insert(worker as u32);
            }
        }
        Ok(OlafDialect { first_of, seen: vec![0; workers.len()], workers })
    }

    fn worker(&self, ip: Ip) -> Option<u32> {
        worker_of(ip, self.workers.len())
    }

    fn update_inward(&mut self, frame: &[u8], payload: &[u8], now: Time, out: &mut [u8]) -> Option<usize> {
        let worker = self.worker(source_ip(frame))?;
        let cluster = self.workers.cluster_of[worker as usize];
        let update = Update::parse(payload).filter(|_| cluster != NO_CLUSTER)?;
        let len = HEAD + update::UPDATE_HEAD + usize::from(update.elements) * 4;
        let out = out.get_mut(..len)?;
        let seen = &mut self.seen[worker as usize];
        let header = Header {
            flags: FLAG_HEADLESS,
            cluster,
            count: 1,
            worker,
            seq: *seen,
            generation: now,
            attempt: 0,
            elements: update.elements,
            reward: update.reward,
        };
        *seen = seen.wrapping_add(1);
        out[..HEAD].copy_from_slice(&frame[..HEAD]);
        header.emit_update(&mut out[HEAD..]);
        out[HEAD + update::UPDATE_HEAD..].copy_from_slice(&payload[strict::UPDATE_HEAD..]);
        refit(out, (update::WORKER_PORT, update::PORT));
        Some(len)
    }

    fn ack_inward(&self, frame: &[u8], payload: &[u8], now: Time, out: &mut [u8]) -> Option<usize> {
        let target = target_ip(frame);
        let (cluster, worker) = match group_of(target) {
            Some(cluster) => (cluster, (*self.first_of.get(usize::from(cluster))?)?),
            None => {
                let worker = self.worker(target)?;
                (self.workers.cluster_of[worker as usize], worker)
            }
        };
        let ack = strict::Ack::parse(payload)?;
        let len = HEAD + update::ACK_HEAD + usize::from(ack.elements) * 4;
        let out = out.get_mut(..len)?;
        // A device addresses ACKs to the group when it stamps them.
        let stamped = FLAG_STAMPED * u8::from(group_of(target).is_some());
        let header = Header {
            flags: FLAG_HEADLESS | stamped,
            cluster,
            count: 1,
            worker,
            seq: 0,
            generation: now,
            attempt: 0,
            elements: ack.elements,
            reward: 0.0,
        };
        out[..HEAD].copy_from_slice(&frame[..HEAD]);
        let status = Status { occupancy: ack.occupancy, active: ack.active, capacity: 0 };
        update::Ack { header, status }.emit(&mut out[HEAD..]);
        out[HEAD + update::ACK_HEAD..].copy_from_slice(&payload[strict::ACK_HEAD..]);
        refit(out, (update::PORT, update::WORKER_PORT));
        Some(len)
    }
}

impl Dialect for OlafDialect {
    fn outward(&mut self, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        let payload = payload(frame)?;
        if let Some(header) = Header::parse_update(payload) {
            let sender = self.worker(source_ip(frame))?;
            let values = update::values(payload, &header);
            let len = HEAD + strict::UPDATE_HEAD + values.len();
            let out = out.get_mut(..len)?;
            out[..HEAD].copy_from_slice(&frame[..HEAD]);
            Update { reward: header.reward, elements: header.elements }.emit(&mut out[HEAD..]);
            out[HEAD + strict::UPDATE_HEAD..].copy_from_slice(values);
            // An aggregate is identified by its newest member, so it has that worker's address.
            if header.worker != sender && (header.worker as usize) < self.workers.len() {
                set_source(out, worker_ip(header.worker));
            }
            refit(out, (strict::WORKER_PORT, strict::PORT));
            return Some(len);
        }
        let update::Ack { header, status } = update::Ack::parse(payload)?;
        let model = &payload[update::ACK_HEAD..][..usize::from(header.elements) * 4];
        let len = HEAD + strict::ACK_HEAD + model.len();
        let out = out.get_mut(..len)?;
        out[..HEAD].copy_from_slice(&frame[..HEAD]);
        strict::Ack::of(status, header.elements).emit(&mut out[HEAD..]);
        out[HEAD + strict::ACK_HEAD..].copy_from_slice(model);
        refit(out, (strict::PORT, strict::WORKER_PORT));
        Some(len)
    }

    fn inward_whole(&mut self, frame: &[u8], now: Time, out: &mut [u8]) -> Option<usize> {
        let payload = payload(frame)?;
        match target_port(frame) {
            strict::PORT => self.update_inward(frame, payload, now, out),
            strict::WORKER_PORT if source_ip(frame) == SERVER_IP => self.ack_inward(frame, payload, now, out),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::topology::Move;
    use pktgen_wire::wire::frame::{Datagram, Template, group_ip, set_udp_checksum};

    use super::*;

    /// Two clusters of three workers.
    fn traffic() -> Traffic {
        Traffic { workers: Arc::new(Population::regular(2, 3)), format: "olaf", packets: 0, window: 0, plain: true }
    }

    fn dialect() -> OlafDialect {
        OlafDialect::new(&traffic()).unwrap()
    }

    fn header(worker: u32) -> Header {
        Header {
            flags: update::FLAG_MERGED,
            cluster: 1,
            count: 3,
            worker,
            seq: 70,
            generation: 8,
            attempt: 2,
            elements: 2,
            reward: -1.5,
        }
    }

    const VALUES: [u8; 8] = [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0];

    /// Returns an update with newest member worker 5 in the frame of worker 4, with padding.
    fn update() -> Vec<u8> {
        let mut frame = vec![0; HEAD + update::UPDATE_HEAD + 8 + 3];
        Template::new((worker_ip(4), update::WORKER_PORT), (SERVER_IP, update::PORT), frame.len()).emit(&mut frame);
        header(5).emit_update(&mut frame[HEAD..]);
        frame[HEAD + update::UPDATE_HEAD..][..8].copy_from_slice(&VALUES);
        set_udp_checksum(&mut frame);
        frame
    }

    fn ack(to: Ip) -> Vec<u8> {
        let mut frame = vec![0; HEAD + update::ACK_HEAD + 8];
        Template::new((SERVER_IP, update::PORT), (to, update::WORKER_PORT), frame.len()).emit(&mut frame);
        let status = Status { occupancy: 3, active: 2, capacity: 8 };
        update::Ack { header: header(4), status }.emit(&mut frame[HEAD..]);
        frame[HEAD + update::ACK_HEAD..].copy_from_slice(&VALUES);
        frame
    }

    fn through(dialect: &mut OlafDialect, frame: &[u8], now: Time) -> (Vec<u8>, Vec<u8>) {
        let (mut strict, mut back) = (vec![0xee; 200], vec![0xee; 200]);
        let len = dialect.outward(frame, &mut strict).unwrap();
        strict.truncate(len);
        let len = dialect.inward(&strict, now, &mut back).unwrap();
        back.truncate(len);
        (strict, back)
    }

    #[test]
    fn an_update_loses_all_but_its_sender_its_reward_and_its_gradients() {
        let mut dialect = dialect();
        let (strict, back) = through(&mut dialect, &update(), 123);
        let datagram = Datagram::parse(&strict).unwrap();
        assert_eq!((datagram.src, datagram.dst), (worker_ip(5), SERVER_IP), "the newest member's address");
        assert_eq!((datagram.src_port, datagram.dst_port), (strict::WORKER_PORT, strict::PORT));
        assert_eq!(datagram.payload, [&(-1.5f32).to_le_bytes()[..], &VALUES].concat());
        let mut checked = strict.clone();
        refit(&mut checked, (strict::WORKER_PORT, strict::PORT));
        assert_eq!(checked, strict, "checksums are right");
        let found = Header::parse_update(payload(&back).unwrap()).unwrap();
        let expected = Header { flags: FLAG_HEADLESS, count: 1, seq: 0, generation: 123, attempt: 0, ..header(5) };
        assert_eq!((found, update::values(payload(&back).unwrap(), &found)), (expected, &VALUES[..]));
        // Frames are counted per worker.
        assert_eq!(Header::parse_update(payload(&through(&mut dialect, &update(), 200).1).unwrap()).unwrap().seq, 1);
        let mut other = strict;
        set_source(&mut other, worker_ip(0));
        refit(&mut other, (strict::WORKER_PORT, strict::PORT));
        let mut out = vec![0; 200];
        let len = dialect.inward(&other, 300, &mut out).unwrap();
        let found = Header::parse_update(payload(&out[..len]).unwrap()).unwrap();
        assert_eq!((found.worker, found.cluster, found.seq), (0, 0, 0));
        // A capture of a role contains the frames on the cable.
        let ours = out[..len].to_vec();
        let again = dialect.outward(&ours, &mut out).unwrap();
        assert_eq!(out[..again], other);
    }

    #[test]
    fn an_ack_keeps_the_queue_and_the_model() {
        for (to, worker, flags) in [(group_ip(1), 3, FLAG_HEADLESS | FLAG_STAMPED), (worker_ip(4), 4, FLAG_HEADLESS)] {
            let (strict, back) = through(&mut dialect(), &ack(to), 50);
            assert_eq!(strict[HEAD..], [&[0, 0, 3, 0, 2][..], &VALUES].concat());
            let found = update::Ack::parse(payload(&back).unwrap()).unwrap();
            assert_eq!((found.header.worker, found.header.cluster, found.header.flags), (worker, 1, flags));
            assert_eq!(found.status, Status { occupancy: 3, active: 2, capacity: 0 });
            assert_eq!(payload(&back).unwrap()[update::ACK_HEAD..], VALUES);
        }
    }

    #[test]
    fn what_is_no_frame_of_the_format_is_left_alone() {
        let mut dialect = dialect();
        let (strict, _) = through(&mut dialect, &update(), 0);
        let mut out = vec![0; 200];
        assert_eq!(dialect.inward(&update(), 0, &mut out), None, "with our header");
        assert_eq!(dialect.outward(&strict, &mut out), None, "without");
        assert_eq!(dialect.inward(&strict, 0, &mut [0; 79]), None, "larger than the run's frames");
        for len in 0..strict.len() {
            assert_eq!(dialect.inward(&strict[..len], 0, &mut out), None, "cut at {len}");
        }
        let mut odd = strict.clone();
        odd.push(0);
        refit(&mut odd, (strict::WORKER_PORT, strict::PORT));
        assert_eq!(dialect.inward(&odd, 0, &mut out), None, "not whole gradients");
        let mut stranger = strict.clone();
        set_source(&mut stranger, worker_ip(6));
        refit(&mut stranger, (strict::WORKER_PORT, strict::PORT));
        assert_eq!(dialect.inward(&stranger, 0, &mut out), None, "of no worker of this run");
        // Ethernet's padding to 60 bytes is not a gradient.
        let mut padded = strict.clone();
        padded.resize(64, 0);
        assert_eq!(dialect.inward(&padded, 0, &mut out), Some(HEAD + update::UPDATE_HEAD + 8));
    }

    #[test]
    fn moving_workers_are_refused() {
        let mut traffic = traffic();
        Arc::make_mut(&mut traffic.workers).moves.push(Move { at: 5, worker: 1, cluster: 1 });
        let error = OlafDialect::new(&traffic).err().unwrap().to_string();
        assert!(error.contains("worker 1 moves to cluster 1"), "{error}");
    }
}
