//! Workers that send every update when it is generated, whatever comes back.

use std::sync::Arc;

use pktgen_generator::Result;
use pktgen_generator::config::Section;
use pktgen_generator::record::{NO_CLUSTER, PacketId, Sent};
use pktgen_generator::registry::Named;
use pktgen_generator::time::{NEVER, Time};
use pktgen_generator::topology::NodeId;
use pktgen_generator::wire::build::Builder;
use pktgen_generator::wire::frame::HEAD;
use pktgen_generator::wire::olaf::is_ack;
use pktgen_generator::workload::{Source, Update};

use super::{Endpoint, Facts, Host, Outgoing, WorkerKind};
use crate::frame::{BURST, Frame, Kind, Pool};

/// `workers = "open_loop"`.
pub struct OpenLoopKind;

impl Named for OpenLoopKind {
    fn name(&self) -> &'static str {
        "open_loop"
    }
    fn about(&self) -> &'static str {
        "workers send every update when it is generated"
    }
}

impl WorkerKind for OpenLoopKind {
    fn open(&self, _section: &mut Section, facts: &Facts, source: Box<dyn Source>) -> Result<Box<dyn Endpoint>> {
        let builder = Builder::new(&facts.workers, facts.udp_checksum);
        Ok(Box::new(OpenLoop { source, builder, host_of: facts.host_of.clone(), server: facts.server }))
    }
}

struct OpenLoop {
    source: Box<dyn Source>,
    builder: Builder,
    host_of: Arc<Vec<NodeId>>,
    server: NodeId,
}

impl OpenLoop {
    #[inline]
    fn send(&mut self, update: &Update, pool: &mut Pool, host: &mut Host) {
        let buffer = pool.take();
        let bytes = &mut pool.bytes_mut(buffer)[..update.bytes as usize];
        self.builder.next(self.source.as_mut(), update, 0, bytes);
        let kind = if update.cluster == NO_CLUSTER { Kind::Plain } else { Kind::Update };
        let frame = Frame {
            t: update.t_gen,
            packet: PacketId::new(update.worker, update.seq, 0),
            buffer,
            worker: update.worker,
            len: update.bytes as u16,
            cluster: update.cluster,
            flow: self.server,
            head: HEAD as u8,
            kind,
        };
        let record = Sent {
            t_gen: update.t_gen,
            t_due: update.t_gen,
            t_sent: None,
            cluster: update.cluster,
            worker: update.worker,
            seq: update.seq,
            attempt: 0,
            block: update.iteration,
            bytes: update.bytes,
            reward: update.reward,
        };
        host.outgoing.push(Outgoing { node: self.host_of[update.worker as usize], frame, record: Some(record) });
    }
}

impl Endpoint for OpenLoop {
    fn next_wake(&self) -> Time {
        self.source.peek().map_or(NEVER, |u| u.t_gen)
    }

    fn reacts(&self) -> bool {
        false
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        for _ in 0..BURST {
            let Some(update) = self.source.peek().copied().filter(|u| u.t_gen <= until) else { break };
            self.send(&update, pool, host);
        }
    }

    fn on_burst(&mut self, _node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            if is_ack(pool.payload(frame)) {
                host.acks_received += 1;
            } else {
                host.foreign += 1;
            }
            pool.release(frame.buffer);
        }
    }

    fn failure(&self) -> Option<String> {
        self.source.failure().map(str::to_owned)
    }
}
