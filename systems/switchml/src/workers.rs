//! Workers of SwitchML: every packet has a slot of the switch and is sent when the result of the previous packet in the
//! slot has arrived (the public client; `docs/switchml.md`).

use crate::format::{self, ELEMENTS, HEADER, Header, POOL_MAX, PORT, WORKER_PORT, WORKERS_MAX};
use pktgen_core::config::{KeyTables, Section, settings};
use pktgen_core::record::PacketId;
use pktgen_core::registry::Named;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
use pktgen_workload::dense::Dense;
use pktgen_workload::workload::Source;

use pktgen_engine::endpoint::rounds::{
    Again, BEHAVIOUR, Contribution, Layout, Order, ResultHead, RoundProtocol, Rounds, Scaled, Scalings, Settings,
    Summing, Trained, dense_of, direction, read_scaling,
};
use pktgen_engine::endpoint::{Behaviour, Crew, Facts, Identity, Protocol, Registers, WorkerKind};

static PROTOCOL: Protocol = Protocol {
    format: "switchml",
    smaller: "lower workload.elements",
    whole: false,
    identify,
    values: |payload| Header::parse(payload).map_or(&[], |header| format::values(payload, &header)),
    element_bytes: |_| 4,
    heads: |_| None,
};

/// Identifies a frame from a wire.
fn identify(bytes: &[u8], facts: &Facts) -> Option<Identity> {
    let header = Header::parse(&bytes[HEAD..])?;
    // A result contains all workers and is identified by the packet of the first.
    direction(bytes, facts, WORKER_PORT, |worker, first| {
        let attempt = if worker.is_some() { header.attempt.unsigned_abs() } else { 0 };
        PacketId::new(worker.unwrap_or(first), header.packet, attempt)
    })
}

/// `workers = "switchml"`.
pub(crate) struct SwitchMlKind;

impl Named for SwitchMlKind {
    fn name(&self) -> &'static str {
        "switchml"
    }
    fn about(&self) -> &'static str {
        "synchronous training: packets in slots of a switch, which waits for all workers"
    }
}

settings! {
    /// What it reads from `[endpoint]` beside what all synchronous workers do.
    keys Pool {
        /// Slots per set; a worker uses one per packet in flight. Trio §6.1: SwitchML-256 has 512.
        pool: u32 = 512 in 1..=u32::from(POOL_MAX);
    }
}

impl WorkerKind for SwitchMlKind {
    fn keys(&self) -> KeyTables {
        &[Pool::KEYS, Scalings::KEYS, Scaled::KEYS, Again::KEYS, Trained::KEYS]
    }

    fn protocol(&self) -> &'static Protocol {
        &PROTOCOL
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { program: Some("switchml"), common: &["pool"], ours: &["check"], ..BEHAVIOUR }
    }

    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        let dense = dense_of(source.as_ref(), self.name())?;
        let pool = Pool::pool(section)?;
        let scaling = read_scaling(section)?;
        let retransmit = Again::retransmit(section)?.map(Span::ps);
        let layout = Layout::new(dense.clone(), scaling, pool).with_lanes(&facts.lanes);
        // The exponent of a packet's values arrives with the result of the packet a window before.
        let window = if layout.lead() > 0 { layout.lead() } else { pool };
        let mut settings = Settings { retransmit, ..Settings::read(section, facts, &dense, window, Order::Slots)? };
        // Slots are numbered over the whole pool.
        settings.training.window = pool;
        let elements = dense.elements_per_packet();
        if !ELEMENTS.contains(&elements) {
            return Err(Error::config(format!(
                "workload.elements: {elements} is no size of a SwitchML packet; use one of {ELEMENTS:?}"
            )));
        }
        if dense.workers_per_job() as usize > WORKERS_MAX {
            return Err(Error::config(format!(
                "workload.workers: {} are more than the {WORKERS_MAX} bits of a slot's bitmap; use at most {WORKERS_MAX} per job",
                dense.workers_per_job()
            )));
        }
        // The packets of one iteration alone may be too many.
        let packets = u64::from(dense.blocks()) + u64::from(layout.lead());
        if u64::from(dense.iterations()) * packets > u64::from(u32::MAX) {
            return Err(Error::config(format!(
                "workload.iterations: {} iterations of {packets} packets are more than the 32 bits of packet numbers tell apart; use fewer \
                 iterations, more workload.elements or a smaller model",
                dense.iterations()
            )));
        }
        let workers = dense.workers_per_job() as u16;
        Ok(Rounds::new(SwitchMl { workers, pool }, layout, settings, facts).crew())
    }
}

struct SwitchMl {
    /// Number of workers of a job: a result contains all of them.
    workers: u16,
    pool: u32,
}

impl SwitchMl {
    /// Returns set and slot of a packet by its number.
    fn place(&self, packet: u32) -> (bool, u16) {
        (packet / self.pool % 2 == 1, (packet % self.pool) as u16)
    }
}

impl RoundProtocol for SwitchMl {
    fn template(&self, worker: u32, frame_bytes: usize) -> Template {
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), frame_bytes)
    }

    fn frame_bytes(&self, dense: &Dense, _block: u32) -> usize {
        format::frame_bytes(dense.elements_per_packet())
    }

    fn emit(&self, layout: &Layout, what: &Contribution, payload: &mut [u8]) -> u32 {
        let dense = &layout.dense;
        let elements = dense.elements_per_packet();
        // Slots and sets continue over iterations: no worker may restart at 0 while others are a set behind.
        let (set, slot) = self.place(what.seq);
        let header = Header {
            job: what.iteration as u8,
            packet: what.seq,
            set,
            slot,
            exponent: layout.exponent(what.worker, what.iteration, what.block),
            attempt: what.attempt.min(i8::MAX as u8) as i8,
            elements,
        };
        header.emit(payload);
        let room = &mut payload[HEADER..HEADER + usize::from(elements) * 4];
        let clipped = match layout.block_of(what.block) {
            None => {
                room.fill(0);
                0
            }
            Some(block) => {
                let (values, rest) = room.split_at_mut(usize::from(dense.elements_of(block)) * 4);
                rest.fill(0);
                dense.fixed_be(what.worker, what.iteration, block, layout.scale_told(what.told), values)
            }
        };
        if let Some(lanes) = &layout.lanes {
            lanes.write(what.worker, what.seq, room);
        }
        clipped
    }

    fn parse(&self, layout: &Layout, payload: &[u8]) -> Option<ResultHead> {
        let dense = &layout.dense;
        let header = Header::parse(payload)?;
        let fits = header.elements == dense.elements_per_packet();
        // A result has the job, slot and set of its contributions.
        let iteration = header.packet / layout.packets();
        let placed = (header.set, header.slot) == self.place(header.packet) && header.job == iteration as u8;
        (fits && iteration < dense.iterations() && placed).then_some(ResultHead {
            job: None,
            seq: header.packet,
            count: self.workers,
            degraded: false,
            exponent: header.exponent,
            congested: false,
        })
    }

    fn delays(&self) -> &'static str {
        "a worker of the job does not send"
    }

    fn summing(&self) -> Summing {
        Summing { whole: true, registers: Registers::Wrap }
    }
}
