//! The server of AllReduce along a plan (ATRO §III-A): it receives all flows of a message, sums them, and answers each
//! flow with the whole sum, in frames of the same size. The workers' side is in `open_loop.rs`.

use std::sync::Arc;

use pktgen_core::record::{Counter, Received};
use pktgen_core::time::Time;
use pktgen_core::topology::NodeId;
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::{SERVER_IP, Template, set_udp_checksum, source_ip};
use pktgen_wire::wire::update::{FLAG_RESULT, Header, PORT, WORKER_PORT};

use super::server::update_row;
use super::{Delivery, Facts, Host, Outgoing, Receiver, Server, ServerEnd};
use crate::frame::{Frame, Kind, Pool};
use crate::target::flows::NodeFlows;
use crate::target::gather::{Gather, GatherStep};
use crate::target::sum::Sum;

/// Maximum number of open messages per cluster: small compared with a host's memory.
const ROOM: u32 = 1 << 16;

/// The server.
pub(super) struct AllReduce {
    node: NodeId,
    flows: Arc<NodeFlows>,
    /// Open messages of each cluster, created with its first message.
    gathers: Vec<Option<Gather<Sum>>>,
    /// Headers of answers, by input.
    heads: Vec<Template>,
    udp_checksum: bool,
    open: usize,
    answered: u64,
    duplicates: u64,
    /// Messages that came too late, or found no room.
    unused: u64,
}

impl AllReduce {
    /// The server of these flows.
    pub fn open(facts: &Facts) -> Result<Self> {
        let Some(flows) = &facts.flows else {
            return Err(Error::config(
                "endpoint.allreduce = true: results go back along the flows of a plan; use a target.program that follows one \
                 (docs/reduce.md)",
            ));
        };
        if facts.real_time {
            return Err(Error::config(
                "endpoint.allreduce = true: it is for virtual time in this version; leave out transport.kind",
            ));
        }
        Ok(Self::new(facts.server, flows.at(facts.server), facts.workers.clusters_ever(), facts.udp_checksum))
    }

    /// The server, ready to run.
    pub fn receiver(self) -> Receiver {
        Receiver { answers_all: true, ..Receiver::passive(self) }
    }

    fn new(node: NodeId, flows: Arc<NodeFlows>, clusters: usize, udp_checksum: bool) -> Self {
        let head = |source| Template::new((SERVER_IP, PORT), (source, WORKER_PORT), 64);
        AllReduce {
            node,
            heads: flows.inputs().iter().map(|input| head(input.source)).collect(),
            flows,
            gathers: vec![None; clusters],
            udp_checksum,
            open: 0,
            answered: 0,
            duplicates: 0,
            unused: 0,
        }
    }

    fn receive(&mut self, frame: &Frame, pool: &mut Pool, host: &mut Host) {
        let header = Sum::header_of(frame, pool).filter(|_| frame.kind == Kind::Update);
        let input = self.flows.taken(source_ip(pool.frame(frame)));
        let Some((header, input)) = header.zip(input).filter(|(h, _)| !self.flows.members(h.cluster).is_empty()) else {
            if let Some(row) = super::server::row_of(frame, pool, self.node) {
                return host.deliveries.push(Delivery { row, frame: *frame });
            }
            host.foreign += 1;
            return pool.release(frame.buffer);
        };
        let expected = self.flows.members(header.cluster).len() as u32;
        let inputs = self.flows.inputs().len();
        let gather =
            self.gathers[usize::from(header.cluster)].get_or_insert_with(|| Gather::new(ROOM, inputs, expected));
        match gather.take(header.seq, input, header.attempt) {
            GatherStep::Opens => {
                // The delivery keeps a separate reference to the bytes.
                pool.share(frame.buffer);
                gather.keep(header.seq, Sum { frame: *frame, header });
                self.open += 1;
            }
            GatherStep::Joins => {
                if let Some(sum) = gather.kept(header.seq)
                    && sum.add(frame, header, pool).is_err()
                {
                    gather.refuse(header.seq, input, header.attempt);
                    self.unused += 1;
                }
            }
            GatherStep::Useless(_) => self.unused += 1,
            GatherStep::Copy => {
                self.duplicates += 1;
                return pool.release(frame.buffer);
            }
        }
        let whole = gather.is_whole(header.seq).then(|| gather.close(header.seq)).flatten();
        let row: Received = update_row(frame, &header, self.node);
        host.deliveries.push(Delivery { row, frame: *frame });
        if let Some(sum) = whole {
            self.open -= 1;
            self.answer(frame.t, sum, pool, host);
        }
    }

    /// Sends one copy per flow of the message's cluster.
    fn answer(&mut self, t: Time, sum: Sum, pool: &mut Pool, host: &mut Host) {
        let header = Header { flags: sum.header.flags | FLAG_RESULT, ..sum.header };
        for &input in self.flows.members(header.cluster) {
            pool.share(sum.frame.buffer);
            let buffer = pool.unshare(sum.frame.buffer);
            let frame = Frame { t, buffer, kind: Kind::Result, ..sum.frame };
            let bytes = &mut pool.bytes_mut(buffer)[..usize::from(frame.len)];
            self.heads[input as usize].emit_to_fit(bytes);
            header.emit_update(&mut bytes[usize::from(frame.head)..]);
            if self.udp_checksum {
                set_udp_checksum(bytes);
            }
            host.outgoing.push(Outgoing { node: self.node, frame, record: None });
        }
        pool.release(sum.frame.buffer);
        self.answered += 1;
    }
}

impl Server for AllReduce {
    fn on_burst(&mut self, _node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            self.receive(frame, pool, host);
        }
    }

    fn end(&self, _worked: Option<Time>) -> ServerEnd {
        let counters = vec![
            Counter::sum("answered", self.answered),
            Counter::sum("server_duplicates", self.duplicates),
            Counter::sum("server_unused", self.unused),
        ];
        ServerEnd { unfinished: None, counters, held: self.open }
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::plan::{FlowSource, Plan, PlanFlow, PlanLink, PlanNode, PlanRole};
    use pktgen_core::record::PacketId;
    use pktgen_core::topology::{Role, Topology};
    use pktgen_core::units::{Rate, Size};
    use pktgen_wire::wire::frame::{HEAD, device_ip, has_udp_checksum, target_ip, worker_ip};
    use pktgen_wire::wire::update::{UPDATE_HEAD, values};

    use super::*;
    use crate::target::flows::Flows;

    const BYTES: usize = HEAD + UPDATE_HEAD + 8;

    /// A worker at the server's switch, and an aggregator of two others.
    fn server() -> AllReduce {
        let node = |name: &str, role, workers| PlanNode { name: name.into(), role, workers };
        let flow = |source, path: &[usize]| PlanFlow { source, path: path.to_vec() };
        let nodes = vec![
            node("ps", PlanRole::Server, Vec::new()),
            node("common", PlanRole::Common, Vec::new()),
            node("sums", PlanRole::Aggregator, Vec::new()),
            node("h0", PlanRole::Host, vec![0]),
            node("h1", PlanRole::Host, vec![1, 2]),
        ];
        let ends = [(1, 0), (2, 1), (3, 1), (4, 2)];
        let links = ends.map(|(from, to)| PlanLink { from, to, rate_bps: 1, cost: None }).to_vec();
        let flows = vec![
            flow(FlowSource::Worker(0), &[3, 1, 0]),
            flow(FlowSource::Worker(1), &[4, 2]),
            flow(FlowSource::Worker(2), &[4, 2]),
            flow(FlowSource::Aggregator(2), &[2, 1, 0]),
        ];
        let plan = Plan { version: 1, placer: "hand".into(), nodes, links, flows, rate_bps: None, phi: None };
        plan.check().unwrap();
        let mut topology = Topology::default();
        for node in &plan.nodes {
            topology.add(node.name.clone(), if node.role == PlanRole::Server { Role::Server } else { Role::Device });
        }
        let rate = Rate::from_bps(1);
        ends.iter().for_each(|(a, b)| topology.connect(*a as u32, *b as u32, rate, rate, 0, Size::default()));
        let flows = Flows::new(Arc::new(plan), &topology, &[0, 0, 0]);
        AllReduce::new(0, flows.at(0), 1, true)
    }

    fn frame(pool: &mut Pool, t: Time, source: u32, worker: u32, count: u16, numbers: [f32; 2]) -> Frame {
        let buffer = pool.take();
        let bytes = &mut pool.bytes_mut(buffer)[..BYTES];
        Template::new((source, WORKER_PORT), (SERVER_IP, PORT), BYTES).emit(bytes);
        let (reward, attempt, seq) = (0.0, 0, 7);
        let header = Header { flags: 0, cluster: 0, count, worker, seq, generation: t, attempt, elements: 2, reward };
        header.emit_update(&mut bytes[HEAD..]);
        for (bytes, number) in bytes[HEAD + UPDATE_HEAD..].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *bytes = number.to_le_bytes();
        }
        let (packet, kind) = (PacketId::new(worker, seq, 0), Kind::Update);
        Frame { t, packet, buffer, worker, len: BYTES as u16, cluster: 0, flow: 0, head: HEAD as u8, kind }
    }

    #[test]
    fn every_flow_of_a_message_is_answered_with_the_whole_sum_once() {
        let (mut server, mut pool, mut host) = (server(), Pool::new(BYTES, 8), Host::default());
        let alone = frame(&mut pool, 1, worker_ip(0), 0, 1, [1.0, 2.0]);
        server.on_burst(0, &[alone], &mut pool, &mut host);
        // The driver has released it; the server still holds it.
        host.deliveries.drain(..).for_each(|delivery| pool.release(delivery.frame.buffer));
        assert!(host.outgoing.is_empty() && server.end(None).held == 1 && pool.in_use() == 1);
        let copy = frame(&mut pool, 2, worker_ip(0), 0, 1, [1.0, 2.0]);
        let sum = frame(&mut pool, 3, device_ip(2), 2, 2, [10.0, 20.0]);
        server.on_burst(0, &[copy, sum], &mut pool, &mut host);
        assert_eq!((host.deliveries.len(), host.deliveries[0].row.count, server.end(None).held), (1, 2, 0));
        let told = |out: &Outgoing| {
            let bytes = pool.frame(&out.frame);
            let header = Header::parse_update(&bytes[HEAD..]).unwrap();
            let sums = values(&bytes[HEAD..], &header).as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
            assert!(header.flags & FLAG_RESULT != 0 && has_udp_checksum(bytes) && bytes.len() == BYTES);
            (target_ip(bytes), source_ip(bytes), header.count, sums.collect::<Vec<_>>(), out.frame.t)
        };
        let answers: Vec<_> = host.outgoing.iter().map(told).collect();
        let expected = |to| (to, SERVER_IP, 3, vec![11.0, 22.0], 3);
        assert_eq!(answers, [expected(worker_ip(0)), expected(device_ip(2))]);
        assert_eq!(
            server.end(None).counters,
            [("answered", 1), ("server_duplicates", 1), ("server_unused", 0)].map(|(name, n)| Counter::sum(name, n))
        );
        // Deliveries contain the frames as received, not the server's sum.
        assert_eq!(&pool.payload(&host.deliveries[0].frame)[UPDATE_HEAD..][..4], 10.0f32.to_le_bytes());
    }
}
