//! Raw frames, which are sent unchanged, and their receiver (docs/raw.md).
//!
//! A raw frame has no id. A received frame is assigned to its flow by its addresses, and to its packet by its content.

use std::sync::Arc;

use pktgen_core::config::{KeyTables, Section};
use pktgen_core::record::PacketId;
use pktgen_core::registry::Named;
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::NodeId;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::HEAD;
use pktgen_workload::workload::Source;

use super::roster::received;
use super::sender::row;
use super::{
    Behaviour, Crew, Delivery, Facts, Host, Identity, Outgoing, Protocol, Receiver, Server, ServerEnd, WorkerKind,
    Workers, WorkersEnd,
};
use crate::frame::{BURST, Frame, Kind, Pool};

/// Name of these workers, and of their workload.
pub const NAME: &str = "raw";

/// `workers = "raw"`.
pub struct RawKind;

/// The protocol of raw frames.
static RAW: Protocol = Protocol {
    format: NAME,
    smaller: "lower workload.sizes, or leave long frames out of the capture",
    whole: true,
    identify,
    values: |payload| payload,
    element_bytes: |_| 4,
    heads: |_| None,
};

fn identify(bytes: &[u8], facts: &Facts) -> Option<Identity> {
    let worker = facts.raw.as_ref()?.of(bytes)?;
    let packet = PacketId::new(worker, 0, 0);
    Some(Identity { packet, worker, cluster: 0, flow: facts.server, kind: Kind::Update })
}

impl Named for RawKind {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "raw frames: sent unchanged, counted on arrival (workload.kind = \"raw\")"
    }
}

impl WorkerKind for RawKind {
    fn keys(&self) -> KeyTables {
        &[]
    }

    fn protocol(&self) -> &'static Protocol {
        &RAW
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { program: Some("forward"), ..Behaviour::ASYNCHRONOUS }
    }

    fn open(&self, section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Crew> {
        if facts.raw.is_none() {
            return Err(Error::config(format!(
                "{}: workers \"raw\" send frames as they are, which workload.kind = \"raw\" has",
                section.place("workers")
            )));
        }
        let workers = RawWorkers { source, host_of: facts.host_of.clone(), server: facts.server };
        Ok(Crew::of_updates(workers, false))
    }

    fn server(&self, _section: &mut Section, facts: &Facts) -> Result<Option<Receiver>> {
        Ok(Some(Receiver::passive(RawServer { node: facts.server })))
    }
}

struct RawWorkers {
    source: Box<dyn Source>,
    host_of: Arc<Vec<NodeId>>,
    server: NodeId,
}

impl Workers for RawWorkers {
    fn next_wake(&self) -> Time {
        self.source.peek().map_or(NEVER, |update| update.t_gen)
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        for _ in 0..BURST {
            let Some(update) = self.source.peek().copied().filter(|update| update.t_gen <= until) else { break };
            let buffer = pool.take();
            self.source.take(&mut pool.bytes_mut(buffer)[..update.bytes as usize]);
            let frame = Frame {
                t: update.t_gen,
                packet: PacketId::new(update.worker, update.seq, 0),
                buffer,
                worker: update.worker,
                len: update.bytes as u16,
                cluster: 0,
                flow: self.server,
                head: HEAD as u8,
                kind: Kind::Update,
            };
            let record = Some(row(&update, 0, update.t_gen));
            host.outgoing.push(Outgoing { node: self.host_of[update.worker as usize], frame, record });
        }
    }

    fn on_burst(&mut self, _node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        host.foreign += burst.len() as u64;
        burst.iter().for_each(|frame| pool.release(frame.buffer));
    }

    fn end(&self) -> WorkersEnd {
        WorkersEnd { failure: self.source.failure().map(str::to_owned), ..WorkersEnd::default() }
    }
}

/// Counts frames.
struct RawServer {
    node: NodeId,
}

impl Server for RawServer {
    fn on_burst(&mut self, _node: NodeId, burst: &[Frame], _pool: &mut Pool, host: &mut Host) {
        let delivery = |frame: &Frame| Delivery { row: received(frame, self.node), frame: *frame };
        host.deliveries.extend(burst.iter().map(delivery));
    }

    fn end(&self, _worked: Option<Time>) -> ServerEnd {
        ServerEnd::default()
    }
}
