//! The server of AllReduce along a plan (ATRO §III-A): it takes all flows of a message, sums them, and answers each with
//! the whole sum, in frames as large as those that came. What workers do with it is in `open_loop.rs`.

use std::sync::Arc;

use pktgen_generator::record::Received;
use pktgen_generator::time::{NEVER, Time};
use pktgen_generator::topology::NodeId;
use pktgen_generator::wire::frame::{SERVER_IP, Template, set_udp_checksum, source_ip};
use pktgen_generator::wire::olaf::{FLAG_RESULT, Header, PORT, WORKER_PORT};
use pktgen_generator::{Error, Result};

use super::server::update_row;
use super::{Delivery, Endpoint, Facts, Host, Outgoing};
use crate::frame::{Frame, Kind, Pool};
use crate::target::flows::NodeFlows;
use crate::target::gather::{Gather, Verdict};
use crate::target::sum::Sum;

/// Messages of a cluster that may be open: as many as a host's memory holds without thinking of it.
const ROOM: u32 = 1 << 16;

/// The server.
pub(super) struct AllReduce {
    node: NodeId,
    flows: Arc<NodeFlows>,
    /// By cluster, made when its first message comes.
    gathers: Vec<Option<Gather<Sum>>>,
    /// Headers of answers, by input.
    heads: Vec<Template>,
    udp_checksum: bool,
    open: usize,
    answered: u64,
    duplicates: u64,
    /// What came too late, or found no room.
    unused: u64,
}

impl AllReduce {
    /// The server of these flows.
    pub fn open(facts: &Facts) -> Result<Self> {
        let Some(flows) = &facts.flows else {
            return Err(Error::config(
                "endpoint.allreduce = true: answers go back along the flows of a plan; use target.program = \"reduce\"",
            ));
        };
        if facts.real_time {
            return Err(Error::config(
                "endpoint.allreduce = true: it is for virtual time in this version; leave out transport.kind",
            ));
        }
        let flows = flows.at(facts.server);
        let head = |source| Template::new((SERVER_IP, PORT), (source, WORKER_PORT), 64);
        Ok(AllReduce {
            node: facts.server,
            heads: flows.inputs().iter().map(|input| head(input.source)).collect(),
            flows,
            gathers: vec![None; facts.workers.clusters_ever()],
            udp_checksum: facts.udp_checksum,
            open: 0,
            answered: 0,
            duplicates: 0,
            unused: 0,
        })
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
            Verdict::Opens => {
                // The delivery keeps its own hold on the bytes.
                pool.share(frame.buffer);
                gather.keep(header.seq, Sum { frame: *frame, header });
                self.open += 1;
            }
            Verdict::Joins => {
                if let Some(sum) = gather.kept(header.seq)
                    && sum.add(frame, header, pool).is_err()
                {
                    self.unused += 1;
                }
            }
            Verdict::Useless(_) => self.unused += 1,
            Verdict::Copy => {
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

    /// One copy for each flow of the message's cluster.
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

impl Endpoint for AllReduce {
    fn next_wake(&self) -> Time {
        NEVER
    }

    fn reacts(&self) -> bool {
        true
    }

    fn pull(&mut self, _until: Time, _pool: &mut Pool, _host: &mut Host) {}

    fn on_burst(&mut self, _node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            self.receive(frame, pool, host);
        }
    }

    fn held(&self) -> usize {
        self.open
    }

    fn answers_all(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("answered", self.answered), ("server_duplicates", self.duplicates), ("server_unused", self.unused)]
    }
}
