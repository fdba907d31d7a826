//! Packets from the server to workers.

use std::sync::Arc;

use crate::format::{HEADER, Header, Kind as What, Numbers, PORT, WORKER_PORT};
use pktgen_core::record::{Heat, PacketId};
use pktgen_core::time::Time;
use pktgen_core::topology::{NodeId, Population};
use pktgen_wire::wire::frame::{HEAD, Template, server_ip, set_udp_checksum, worker_ip};

use pktgen_engine::endpoint::{Facts, Host, Outgoing};
use pktgen_engine::frame::{Frame, Kind, Pool};

/// Data for creating packets to workers.
pub(super) struct Outbound {
    pub(super) node: NodeId,
    /// Number of the server.
    server: u32,
    numbers: Numbers,
    workers: Arc<Population>,
    host_of: Arc<Vec<NodeId>>,
    udp_checksum: bool,
    /// Headers of packets to each worker, created when the first one is due.
    heads: Vec<Option<Template>>,
}

impl Outbound {
    /// Creates the data of the server with this number.
    pub(super) fn new(facts: &Facts, server: u32) -> Self {
        let servers = &facts.racks.servers;
        Outbound {
            node: servers.get(server as usize).copied().unwrap_or(facts.server),
            server,
            numbers: Numbers::new(servers.len() as u32),
            workers: facts.workers.clone(),
            host_of: facts.host_of.clone(),
            udp_checksum: facts.udp_checksum,
            heads: vec![None; facts.workers.len()],
        }
    }

    /// Returns the number of a cold packet among those of this server; `None` if it is for another one.
    #[inline]
    pub(super) fn number_of(&self, seq: u32) -> Option<u32> {
        let (server, number) = self.numbers.split(seq);
        (server == self.server).then_some(number)
    }

    /// Returns the sequence number of the cold packet with this number.
    #[inline]
    pub(super) fn seq(&self, number: u32) -> u32 {
        self.numbers.seq(self.server, number, Heat::Cold)
    }

    /// Returns the job of a worker; `None` if there is no such worker.
    #[inline]
    pub(super) fn job_of(&self, worker: u32) -> Option<u16> {
        self.workers.cluster_of.get(worker as usize).copied()
    }

    /// Returns `frame` directed to the worker that sent it.
    #[inline]
    pub(super) fn back(&self, frame: &Frame) -> Frame {
        Frame { flow: self.host_of[frame.worker as usize], head: HEAD as u8, kind: Kind::Control, ..*frame }
    }

    /// Creates a packet for a worker with these pairs.
    #[inline]
    pub(super) fn packet(
        &self,
        (t, worker): (Time, u32),
        kind: What,
        (attempt, seq): (u8, u32),
        pairs: &[u8],
        pool: &mut Pool,
    ) -> Frame {
        let job = self.workers.cluster_of[worker as usize];
        let frame = self.back(&Frame {
            t,
            packet: PacketId::new(worker, seq, 0),
            buffer: pool.take(),
            worker,
            len: (HEAD + HEADER + pairs.len()) as u16,
            cluster: job,
            flow: 0,
            head: 0,
            kind: Kind::Control,
        });
        let payload = pool.payload_mut(&frame);
        Header { kind, attempt, job: job as u8, seq }.emit(payload);
        payload[HEADER..].copy_from_slice(pairs);
        frame
    }

    /// Sends a packet.
    #[inline]
    pub(super) fn send(&mut self, frame: Frame, pool: &mut Pool, host: &mut Host) {
        let len = usize::from(frame.len);
        let bytes = &mut pool.bytes_mut(frame.buffer)[..len];
        let head = self.heads[frame.worker as usize].get_or_insert_with(|| {
            Template::new((server_ip(self.server), PORT), (worker_ip(frame.worker), WORKER_PORT), len)
        });
        head.emit_to_fit(bytes);
        if self.udp_checksum {
            set_udp_checksum(bytes);
        }
        host.outgoing.push(Outgoing { node: self.node, frame, record: None });
    }
}
