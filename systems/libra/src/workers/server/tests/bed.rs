//! A server, packets for it, and its output.

use crate::format::{self, COLD_PAIR, HEADER, Header, Kind as What};
use pktgen_core::config::{Section, Value};
use pktgen_core::record::{PacketId, Received};
use pktgen_core::time::Time;
use pktgen_core::topology::Population;
use pktgen_wire::wire::frame::{FRAME_MAX, HEAD};

use super::super::SparseServer;
use pktgen_engine::endpoint::open_loop::OpenLoopKind;
use pktgen_engine::endpoint::{Facts, Host, Server};
use pktgen_engine::frame::{Frame, Kind, Pool};

pub(super) const US: Time = 1_000_000;

/// A packet of the server.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) t: Time,
    pub(super) worker: u32,
    pub(super) header: Header,
    pub(super) pairs: Vec<(u64, f32)>,
}

pub(super) struct Bed {
    pub(super) server: SparseServer,
    pub(super) pool: Pool,
    pub(super) host: Host,
    pub(super) rows: Vec<Received>,
}

pub(super) fn open(
    jobs: u16,
    per_job: u32,
    keys: &[(&str, &str)],
    asynchronous: bool,
    real_time: bool,
) -> pktgen_core::Result<SparseServer> {
    let facts =
        Facts { real_time, host_rate_bps: 0, ..Facts::of_test(&OpenLoopKind, Population::regular(jobs, per_job)) };
    let value = |text: &str| text.parse().map_or_else(|_| Value::from(text), Value::Integer);
    let keys: Vec<_> = keys.iter().map(|(key, text)| (*key, value(text))).collect();
    super::super::open(&mut Section::of("endpoint", &keys), &facts, asynchronous)
}

impl Bed {
    pub(super) fn new(jobs: u16, per_job: u32, keys: &[(&str, &str)], asynchronous: bool) -> Self {
        let server = open(jobs, per_job, keys, asynchronous, false).unwrap();
        Bed { server, pool: Pool::new(FRAME_MAX, 8), host: Host::default(), rows: Vec::new() }
    }

    /// Delivers a packet.
    pub(super) fn give(&mut self, t: Time, worker: u32, header: Header, rest: &[u8], kind: Kind) {
        self.advance(t - 1);
        let frame = Frame {
            t,
            packet: PacketId::new(worker, header.seq, header.attempt),
            buffer: self.pool.take(),
            worker,
            len: (HEAD + HEADER + rest.len()) as u16,
            cluster: u16::from(header.job),
            flow: 0,
            head: HEAD as u8,
            kind,
        };
        let payload = self.pool.payload_mut(&frame);
        header.emit(payload);
        payload[HEADER..].copy_from_slice(rest);
        self.server.on_burst(0, &[frame], &mut self.pool, &mut self.host);
        for delivery in self.host.deliveries.drain(..) {
            self.rows.push(delivery.row);
            self.pool.release(delivery.frame.buffer);
        }
    }

    fn header(&self, kind: What, attempt: u8, worker: u32, seq: u32) -> Header {
        Header { kind, attempt, job: self.server.outbound.job_of(worker).unwrap() as u8, seq }
    }

    pub(super) fn push(&mut self, t: Time, worker: u32, seq: u32, attempt: u8, pairs: &[(u64, f32)]) {
        let mut bytes = vec![0; pairs.len() * COLD_PAIR];
        format::emit_cold(pairs, &mut bytes);
        self.give(t, worker, self.header(What::Push, attempt, worker, seq), &bytes, Kind::Update);
    }

    pub(super) fn pull(&mut self, t: Time, worker: u32, seq: u32, attempt: u8, keys: &[u64]) {
        let pairs: Vec<_> = keys.iter().map(|key| (*key, 0.0)).collect();
        let mut bytes = vec![0; pairs.len() * COLD_PAIR];
        format::emit_cold(&pairs, &mut bytes);
        self.give(t, worker, self.header(What::Pull, attempt, worker, seq), &bytes, Kind::Request);
    }

    pub(super) fn end(&mut self, t: Time, worker: u32, seq: u32, iteration: u32) {
        let header = self.header(What::End, 0, worker, seq);
        self.give(t, worker, header, &iteration.to_be_bytes(), Kind::Request);
    }

    pub(super) fn ack(&mut self, t: Time, worker: u32, seq: u32) {
        self.give(t, worker, self.header(What::Ack, 0, worker, seq), &[], Kind::Request);
    }

    /// Delivers a packet of a job that the worker does not belong to.
    pub(super) fn other_job(&mut self, t: Time, worker: u32, seq: u32) {
        let header = self.header(What::Ack, 0, worker, seq);
        self.give(t, worker, Header { job: header.job + 1, ..header }, &[], Kind::Request);
    }

    /// Calls the server at all requested times, like a driver.
    pub(super) fn advance(&mut self, until: Time) {
        let mut sent = std::mem::take(&mut self.host.outgoing);
        while self.server.next_wake() <= until {
            self.server.pull(self.server.next_wake(), &mut self.pool, &mut self.host);
            sent.append(&mut self.host.outgoing);
        }
        self.host.outgoing = sent;
    }

    /// Returns the output of the server by `until`, in the order of departure.
    pub(super) fn out(&mut self, until: Time) -> Vec<Told> {
        self.advance(until);
        let mut told: Vec<Told> = Vec::new();
        for outgoing in std::mem::take(&mut self.host.outgoing) {
            let frame = outgoing.frame;
            let payload = self.pool.payload(&frame);
            let header = Header::parse(payload).unwrap();
            let pairs = match header.kind {
                What::Result => format::cold_pairs(format::pairs(payload)).collect(),
                _ => Vec::new(),
            };
            assert!(told.last().is_none_or(|before| before.t <= frame.t), "a link is first in, first out");
            told.push(Told { t: frame.t, worker: frame.worker, header, pairs });
            self.pool.release(frame.buffer);
        }
        told
    }

    pub(super) fn counter(&self, name: &str) -> u64 {
        let counters = self.server.end(None).counters;
        counters.iter().find(|own| own.name.strip_prefix("server.") == Some(name)).unwrap().value
    }

    /// Checks that nothing keeps the run alive and no buffer is held.
    pub(super) fn is_over(&mut self) {
        assert_eq!(self.server.next_wake(), pktgen_core::time::NEVER);
        assert_eq!(self.pool.in_use(), 0);
    }
}

/// Returns the packets of one kind.
pub(super) fn packets(told: &[Told], kind: What) -> Vec<Told> {
    told.iter().filter(|packet| packet.header.kind == kind).cloned().collect()
}
