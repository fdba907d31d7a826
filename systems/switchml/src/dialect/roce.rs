//! SwitchML's frames as RDMA writes over RoCEv2, with messages of one packet. A worker has a queue pair per slot, so a
//! result for all workers is a frame for each of them.
//!
//! The iteration and the number of the transmission are lost. The switch identifies a packet by slot and set, a worker's card only by the
//! queue pair; the rest is inferred as in the public client: on each pair, one packet is in flight at a time.

use std::sync::Arc;

use crate::format::{self, ELEMENTS, HEADER, Header, WORKER_PORT, WORKERS_MAX, frame_bytes};
use crate::roce::session::{PAIRS_MAX, card_key, card_pair, card_port, packet, switch_pair};
use crate::roce::{self as roce, BTH, ICRC, IMMEDIATE, Part, RETH, Way};
use pktgen_core::time::Time;
use pktgen_core::topology::Population;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{HEAD, Ip, SERVER_IP, Template, group_of, payload, source_ip, target_ip, target_port};
use pktgen_wire::wire::frame::{worker_ip, worker_of};

use super::{Dialect, DialectKind, Traffic};

/// Bytes by which a packet is longer than over UDP.
const LONGER: usize = BTH + RETH + IMMEDIATE + ICRC - HEADER;

/// Its entry in listings.
pub static KIND: DialectKind = DialectKind {
    word: "roce",
    format: "switchml",
    on_wire: roce::NAME,
    device: roce::NAME,
    growth: LONGER,
    length: |bytes| bytes + LONGER,
    headless: false,
    open: |traffic| Ok(Some(Box::new(RoceDialect::new(traffic)?))),
};

/// State of one end.
struct RoceDialect {
    workers: Arc<Population>,
    /// Workers of each job, in order, and each worker's index there.
    members: Vec<Vec<u32>>,
    ranks: Vec<u8>,
    /// Number of packets of an iteration, which is a job of the client.
    packets: u32,
    /// Number of slots, and so of queue pairs, of a worker.
    window: u32,
    /// How often each worker used each slot before: at the workers' end by the last departure, at the device's by the last arrival.
    used: Vec<u32>,
}

impl RoceDialect {
    fn new(traffic: &Traffic) -> Result<Self> {
        let (workers, window) = (traffic.workers.clone(), traffic.window);
        if !(1..=PAIRS_MAX).contains(&window) {
            return Err(Error::config(format!(
                "transport.on_wire = \"roce\": {window} packets under way are as many queue pairs of each worker, and the switch \
                 distinguishes {PAIRS_MAX}; give endpoint.pool = 1 to {PAIRS_MAX}"
            )));
        }
        let mut members = vec![Vec::new(); workers.clusters_ever()];
        let mut ranks = Vec::with_capacity(workers.len());
        for (worker, job) in workers.cluster_of.iter().enumerate() {
            let Some(own) = members.get_mut(usize::from(*job)) else {
                return Err(Error::config(format!(
                    "transport.on_wire = \"roce\": worker {worker} is of no job, so it has no queue pairs"
                )));
            };
            ranks.push(own.len() as u8);
            own.push(worker as u32);
            if own.len() > WORKERS_MAX {
                return Err(Error::config(format!(
                    "transport.on_wire = \"roce\": job {job} has more than {WORKERS_MAX} workers, and a queue pair of the switch has 5 \
                     bits for the worker; lower workload.workers"
                )));
            }
        }
        let used = vec![0; workers.len() * window as usize];
        Ok(RoceDialect { members, ranks, packets: traffic.packets.max(1), window, used, workers })
    }

    fn worker(&self, ip: Ip) -> Option<u32> {
        worker_of(ip, self.workers.len())
    }

    fn used(&mut self, worker: u32, slot: u16) -> Option<&mut u32> {
        let slot = Some(u32::from(slot)).filter(|slot| *slot < self.window)?;
        self.used.get_mut((worker * self.window + slot) as usize)
    }

    /// Returns the first of these uses of a slot whose packet has this number in its job, with the packet.
    fn find(&self, uses: [Option<u32>; 3], slot: u16, message: u16) -> Option<(u32, u32)> {
        let packet = |used: u32| used.checked_mul(self.window)?.checked_add(slot.into());
        let mut all = uses.into_iter().flatten().filter_map(|used| Some((used, packet(used)?)));
        all.find(|(_, packet)| (packet % self.packets) as u16 == message)
    }

    /// Returns the worker that sent a packet, and its header: that of the latest use of the slot again, of the next one
    /// in the other set, or of one that was overtaken.
    fn contribution(&mut self, frame: &[u8], header: &roce::Header) -> Option<(u32, Header)> {
        let worker = self.worker(source_ip(frame)).filter(|_| target_ip(frame) == SERVER_IP)?;
        let (slot, set) = (u16::try_from(header.target.key >> 1).ok()?, header.target.key & 1 == 1);
        if header.pair != switch_pair(self.ranks[worker as usize], slot) {
            return None;
        }
        let latest = *self.used(worker, slot)?;
        let uses = [Some(latest), latest.checked_add(1), latest.checked_sub(1)];
        let uses = uses.map(|used| used.filter(|used| used & 1 == u32::from(set)));
        let (used, packet) = self.find(uses, slot, header.immediate.message)?;
        *self.used(worker, slot)? = latest.max(used);
        Some((worker, self.header(packet, slot, set, header)))
    }

    /// Returns the worker that a result is for, and its header: that of the packet last sent on the pair, or of the one before.
    fn result(&mut self, frame: &[u8], header: &roce::Header) -> Option<(u32, Header)> {
        let worker = self.worker(target_ip(frame)).filter(|_| source_ip(frame) == SERVER_IP)?;
        let (rank, slot) = (self.ranks[worker as usize], header.pair as u16);
        if (header.pair, header.target.key) != (card_pair(rank, slot), card_key(rank)) {
            return None;
        }
        let latest = *self.used(worker, slot)?;
        let (used, packet) = self.find([Some(latest), latest.checked_sub(1), None], slot, header.immediate.message)?;
        Some((worker, self.header(packet, slot, used & 1 == 1, header)))
    }

    fn header(&self, packet: u32, slot: u16, set: bool, header: &roce::Header) -> Header {
        Header {
            job: (packet / self.packets) as u8,
            packet,
            set,
            slot,
            exponent: header.immediate.exponents[0],
            attempt: 0,
            elements: header.elements,
        }
    }
}

impl Dialect for RoceDialect {
    fn copies(&self, frame: &[u8]) -> usize {
        let members = group_of(target_ip(frame)).and_then(|job| self.members.get(usize::from(job)));
        let is_result = source_ip(frame) == SERVER_IP && payload(frame).and_then(Header::parse).is_some();
        members.filter(|_| is_result).map_or(1, |members| members.len().max(1))
    }

    fn outward(&mut self, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        self.copy(frame, 0, out)
    }

    fn copy(&mut self, frame: &[u8], copy: usize, out: &mut [u8]) -> Option<usize> {
        let payload = payload(frame)?;
        let header = Header::parse(payload)?;
        let (source, target) = (source_ip(frame), target_ip(frame));
        let back = source == SERVER_IP;
        let worker = match (back, group_of(target)) {
            (false, _) => self.worker(source)?,
            (true, None) => self.worker(target)?,
            (true, Some(job)) => *self.members.get(usize::from(job))?.get(copy)?,
        };
        let used = header.packet / self.window;
        let (rank, known) = (self.ranks[worker as usize], self.used(worker, header.slot)?);
        let (way, target) = if back {
            (Way::ToWorker { worker: rank.into() }, worker_ip(worker))
        } else {
            *known = used;
            (Way::ToSwitch { port: card_port(rank) }, target)
        };
        let written = packet(&header, rank, used, (header.packet % self.packets) as u16, back);
        let len = HEAD + written.payload_bytes();
        roce::emit_frame(way, source, target, &written, format::values(payload, &header), out.get_mut(..len)?);
        Some(len)
    }

    fn inward_whole(&mut self, frame: &[u8], _now: Time, out: &mut [u8]) -> Option<usize> {
        let payload = payload(frame).filter(|_| target_port(frame) == roce::PORT)?;
        let header = roce::Header::parse(payload)?;
        if header.part != Part::OnlyImmediate || !ELEMENTS.contains(&header.elements) {
            return None;
        }
        let switch = (SERVER_IP, format::PORT);
        let (source, target, ours) = match self.contribution(frame, &header) {
            Some((worker, ours)) => ((worker_ip(worker), WORKER_PORT), switch, ours),
            None => {
                let (worker, ours) = self.result(frame, &header)?;
                (switch, (worker_ip(worker), WORKER_PORT), ours)
            }
        };
        let out = out.get_mut(..frame_bytes(header.elements))?;
        Template::new(source, target, out.len()).emit(out);
        ours.emit(&mut out[HEAD..]);
        out[HEAD + HEADER..].copy_from_slice(roce::values(payload, &header));
        Some(out.len())
    }
}

#[cfg(test)]
#[path = "roce_tests.rs"]
mod tests;
