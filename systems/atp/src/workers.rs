//! Workers of ATP (`client/p4ml_manager.cc` and `common/CC_manager.h` of the public code): a window that slides over
//! packets and adapts to congestion marks, aggregators assigned to its places by hashing, and retransmission of gaps.

use std::sync::Arc;

use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::PacketId;
use pktgen_core::registry::Named;
use pktgen_core::{Error, Result};
use pktgen_engine::endpoint::rounds::{
    Contribution, Layout, Order, ResultHead, RoundProtocol, Rounds, SERVED, Scaled, Scaling, Settings, Summing,
    Trained, WindowControl, dense_of, direction, read_scale,
};
use pktgen_engine::endpoint::{Behaviour, Crew, Facts, Identity, Protocol, Receiver, WorkerKind};
use pktgen_engine::frame::Heads;
use pktgen_wire::wire::Format;
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, group_ip, worker_ip};
use pktgen_workload::dense::Dense;
use pktgen_workload::workload::Source;

use crate::format::{
    AtpUdp, ELEMENTS, FRAME_BYTES, Header, Name, PORT, SECOND, UDP_FRAME_BYTES, WORKER_PORT, values, values_mut,
};
use crate::hash::Places;
use crate::program::WORKERS_MAX;
use crate::{keys, server};

/// Number of bytes by which a window grows.
const STEP_BYTES: u32 = 1500;

static PROTOCOL: Protocol = Protocol {
    format: "atp_udp",
    smaller: "raise topology.mtu",
    whole: false,
    identify,
    values: |payload| values(payload).unwrap_or_default(),
    element_bytes: |_| 4,
    heads: |per_job| Some(heads(per_job)),
};

/// Identifies a frame from a wire.
fn identify(bytes: &[u8], facts: &Facts) -> Option<Identity> {
    let name = Name::of(Header::parse(&bytes[HEAD..])?.key);
    direction(bytes, facts, WORKER_PORT, |worker, first| match worker {
        Some(worker) => PacketId::new(worker, name.number, name.attempt),
        None => PacketId::new(first, name.number, 0),
    })
}

/// Returns the headers of contributions, which contain their sources, and of results, which are for all workers of their jobs.
fn heads(per_job: u32) -> Heads {
    Arc::new(move |payload: &[u8], len: usize, _down: bool, head: &mut [u8; HEAD]| {
        let Some(header) = Header::parse(payload).filter(|header| header.app > 0) else { return false };
        let (job, source) = (header.app - 1, u32::from(Name::of(header.key).source));
        let (from, to) = match header.ack {
            false => ((worker_ip(u32::from(job) * per_job + source), WORKER_PORT), (SERVER_IP, PORT)),
            true => ((SERVER_IP, PORT), (group_ip(job), WORKER_PORT)),
        };
        Template::new(from, to, HEAD + len).emit(head);
        true
    })
}

/// Reads the maximum window.
pub(crate) fn read_window(section: &mut Section) -> Result<u16> {
    Ok(keys::Workers::window(section)? as u16)
}

/// Reads the number of aggregators that packets are hashed to.
pub(crate) fn read_aggregators(section: &mut Section, window: u16) -> Result<u16> {
    let all = keys::Workers::aggregators(section)? as u16;
    if all < window {
        return Err(Error::config(format!(
            "{}: {all} aggregators are fewer than the {window} places of a window, which are hashed to one each; lower \
             endpoint.window, or give {window} or more",
            section.place("aggregators")
        )));
    }
    Ok(all)
}

/// `workers = "atp"`.
pub(crate) struct AtpKind;

impl Named for AtpKind {
    fn name(&self) -> &'static str {
        "atp"
    }
    fn about(&self) -> &'static str {
        "synchronous training: packets hashed to aggregators of a switch; collisions are summed by the server"
    }
}

impl WorkerKind for AtpKind {
    fn keys(&self) -> KeyTables {
        &[keys::Workers::KEYS, Scaled::KEYS, Trained::KEYS]
    }

    fn protocol(&self) -> &'static Protocol {
        &PROTOCOL
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { program: Some("atp"), ..SERVED }
    }

    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        let dense = dense_of(source.as_ref(), self.name())?;
        let window = read_window(section)?;
        let aggregators = read_aggregators(section, window)?;
        let follows = keys::Workers::congestion_control(section)?;
        let scale = read_scale(section)?;
        let retransmit = keys::Workers::retransmit(section)?;
        let settings = Settings::read(section, facts, &dense, u32::from(window), Order::Sliding)?;
        let settings = Settings {
            retransmit: Some(retransmit.ps()),
            gaps: true,
            control: follows.then_some(WindowControl { step: STEP_BYTES / FRAME_BYTES as u32 }),
            ..settings
        };
        check(&dense)?;
        let layout = Layout::new(dense.clone(), Scaling::Fixed(scale), u32::from(window)).with_lanes(&facts.lanes);
        let places = |worker: u32| Places::new(dense.job_of(worker) + 1, window, aggregators);
        let protocol = Atp {
            workers: dense.workers_per_job() as u8,
            tensor: u32::try_from(dense.elements_total()).unwrap_or(u32::MAX),
            places: (0..dense.workers()).map(places).collect(),
        };
        Ok(Rounds::new(protocol, layout, settings, facts).crew())
    }

    fn server_keys(&self) -> KeyTables {
        &[keys::Server::KEYS]
    }

    fn server(&self, section: &mut Section, facts: &Facts) -> Result<Option<Receiver>> {
        server::open(section, facts).map(Some)
    }
}

/// Checks that packets can carry the model.
fn check(dense: &Dense) -> Result<()> {
    if usize::from(dense.elements_per_packet()) != ELEMENTS {
        return Err(Error::config(format!(
            "workload.elements: {} is no size of an ATP packet, which has {ELEMENTS} values; give {ELEMENTS}",
            dense.elements_per_packet()
        )));
    }
    if dense.workers_per_job() as usize > WORKERS_MAX {
        return Err(Error::config(format!(
            "workload.workers: {} are more than the {WORKERS_MAX} bits of a bitmap; use at most {WORKERS_MAX} per job",
            dense.workers_per_job()
        )));
    }
    Ok(())
}

struct Atp {
    /// Number of workers of a job: a result contains all of them.
    workers: u8,
    /// Number of elements of the model, which is one tensor.
    tensor: u32,
    /// By worker.
    places: Vec<Places>,
}

impl RoundProtocol for Atp {
    fn template(&self, worker: u32, frame_bytes: usize) -> Template {
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), frame_bytes)
    }

    fn frame_bytes(&self, _dense: &Dense, _block: u32) -> usize {
        UDP_FRAME_BYTES
    }

    fn emit(&self, layout: &Layout, what: &Contribution, payload: &mut [u8]) -> u32 {
        let dense = &layout.dense;
        let name = Name { number: what.seq, attempt: what.attempt, source: what.source };
        let aggregator = self.places[what.worker as usize].of(what.seq);
        let header = Header {
            bitmap: 1 << what.source,
            workers: self.workers,
            resent: what.attempt > 0,
            app: what.job + 1,
            seq: name.seq(),
            aggregator,
            second: aggregator.wrapping_add(SECOND),
            key: name.key(),
            tensor: self.tensor,
            ..Header::default()
        };
        header.emit(payload);
        let room = values_mut(payload);
        let (own, rest) = room.split_at_mut(usize::from(dense.elements_of(what.block)) * 4);
        rest.fill(0);
        let clipped = dense.fixed_be(what.worker, what.iteration, what.block, layout.scale_told(what.told), own);
        if let Some(lanes) = &layout.lanes {
            lanes.write(what.worker, what.seq, room);
        }
        clipped
    }

    fn parse(&self, layout: &Layout, payload: &[u8]) -> Option<ResultHead> {
        let header = Header::parse(payload).filter(|h| h.ack && !h.overflow && h.workers == self.workers)?;
        let name = Name::of(header.key);
        // The key of a result has no transmission and no source.
        let is_result = header.key == u64::from(name.number) && header.seq == name.seq();
        let known = is_result && name.number / layout.packets() < layout.dense.iterations();
        // Jobs count from 1 in headers.
        let job = header.app.checked_sub(1)?;
        known.then_some(ResultHead {
            job: Some(job),
            seq: name.number,
            count: u16::from(header.workers),
            degraded: false,
            exponent: 0,
            congested: header.congested,
        })
    }

    fn heard(&mut self, worker: u32, payload: &[u8]) {
        if let Some(header) = Header::parse(payload).filter(|header| header.collision) {
            self.places[worker as usize].moves(Name::of(header.key).number, header.tensor as u16);
        }
    }

    fn summing(&self) -> Summing {
        Summing { whole: true, registers: AtpUdp.facts().registers }
    }

    fn delays(&self) -> &'static str {
        "a worker of the job does not send"
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::config::Document;
    use pktgen_core::seed::Seed;

    use super::*;
    use crate::format::BYTES;

    #[test]
    fn the_key_of_a_result_is_its_number() {
        let text = "[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = 2000\nworkers = 2\njobs = 1\niterations = 2\n\
                    elements = 62\ncompute = \"20us\"\n";
        let mut document = Document::parse(text, "test").unwrap();
        let source = pktgen_workload::workload::open(&mut document, Seed(1)).unwrap().source;
        let layout = Layout::new(dense_of(source.as_ref(), "atp").unwrap(), Scaling::Fixed(1e6), 4);
        let protocol = Atp { workers: 2, tensor: 2000, places: Vec::new() };
        let name = Name { number: 3, attempt: 0, source: 0 };
        let result = Header { workers: 2, app: 1, seq: name.seq(), ack: true, ..Header::default() };
        for (key, wanted) in [
            (3, Some(3)),
            (4, None),
            (3 | 1 << 32, None),
            (3 | 1 << 40, None),
            (3 | 1 << 48, None),
            (3 | 1 << 63, None),
        ] {
            let mut payload = vec![0; BYTES];
            Header { key, ..result }.emit(&mut payload);
            assert_eq!(protocol.parse(&layout, &payload).map(|head| head.seq), wanted, "{key:#x}");
        }
    }
}
