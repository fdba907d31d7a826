//! A device that sums nothing: it tracks contributors and returns whole and partial results.

use std::collections::{BTreeMap, BTreeSet};

use pktgen_core::record::PacketId;
use pktgen_switchml::format as switchml;
use pktgen_trio_ml::format as trio_ml;
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, group_ip, worker_ip};
use pktgen_workload::dense::Dense;

use super::setup::Setup;

/// A result in transit.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub id: PacketId,
    pub job: u32,
    pub seq: u32,
    pub count: u16,
    pub degraded: bool,
    /// The only recipient, if any.
    pub only: Option<u32>,
    pub frame: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Record {
    serial: u64,
    id: PacketId,
    from: BTreeSet<u32>,
    done: bool,
}

#[derive(Default)]
pub(super) struct Device {
    records: BTreeMap<(u32, u32), Record>,
    serial: u64,
}

/// The effect of a contribution.
pub(super) enum Came {
    Result(Made),
    /// The first contribution to a block, which starts to age.
    Opened(u64),
    Nothing,
}

impl Device {
    /// Handles a contribution.
    pub fn contribution(&mut self, setup: &Setup, dense: &Dense, packet: PacketId) -> Came {
        let (worker, seq) = (packet.worker(), packet.seq());
        let key = (worker / setup.per_job, seq);
        self.serial += 1;
        let fresh = Record { serial: self.serial, id: packet, from: BTreeSet::new(), done: false };
        let record = self.records.entry(key).or_insert_with(|| fresh.clone());
        if record.done && setup.trio {
            // The block aged out without this contribution, which opens a new record.
            *record = fresh;
        }
        let first = record.from.is_empty();
        if !record.from.insert(worker) {
            assert!(!setup.trio, "nothing is sent twice");
            let answer = record.done.then(|| made(setup, dense, key, record.id, setup.per_job as u16, Some(worker)));
            return answer.map_or(Came::Nothing, Came::Result);
        }
        if record.from.len() as u32 == setup.per_job {
            record.done = true;
            return Came::Result(made(setup, dense, key, record.id, setup.per_job as u16, None));
        }
        if first && setup.trio { Came::Opened(record.serial) } else { Came::Nothing }
    }

    /// Handles the ageing of the record with this number.
    pub fn aged(&mut self, setup: &Setup, dense: &Dense, key: (u32, u32), serial: u64) -> Option<Made> {
        let record = self.records.get_mut(&key).filter(|record| record.serial == serial && !record.done)?;
        record.done = true;
        Some(made(setup, dense, key, record.id, record.from.len() as u16, None))
    }
}

fn made(setup: &Setup, dense: &Dense, key: (u32, u32), id: PacketId, count: u16, only: Option<u32>) -> Made {
    let (job, seq) = key;
    let degraded = u32::from(count) < setup.per_job;
    let payload = payload_of(setup, dense, job as u8, seq, count, degraded);
    let ip = only.map_or(group_ip(job as u16), worker_ip);
    Made { id, job, seq, count, degraded, only, frame: framed(ip, &payload) }
}

/// Returns a frame from the device to `ip`.
pub(super) fn framed(ip: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEAD + payload.len()];
    Template::new((SERVER_IP, 1), (ip, 2), frame.len()).emit(&mut frame);
    frame[HEAD..].copy_from_slice(payload);
    frame
}

/// Returns the payload of a result whose values are all 0.
pub(super) fn payload_of(setup: &Setup, dense: &Dense, job: u8, seq: u32, count: u16, degraded: bool) -> Vec<u8> {
    let (iteration, block) = (seq / setup.blocks, seq % setup.blocks);
    if setup.trio {
        let elements = dense.elements_of(block);
        let mut payload = vec![0; trio_ml::HEADER + usize::from(elements) * 4];
        let header = trio_ml::Header {
            job,
            block,
            age_op: if degraded { trio_ml::AGED } else { trio_ml::AGE_NONE },
            last: block + 1 == setup.blocks,
            degraded,
            source: 0,
            sources: count as u8,
            generation: iteration as u16,
            elements,
        };
        header.emit(&mut payload);
        return payload;
    }
    let elements = setup.elements() as u16;
    let mut payload = vec![0; switchml::HEADER + usize::from(elements) * 4];
    let header = switchml::Header {
        job: iteration as u8,
        packet: seq,
        set: (seq / setup.window) % 2 == 1,
        slot: (seq % setup.window) as u16,
        elements,
        ..switchml::Header::default()
    };
    header.emit(&mut payload);
    payload
}
