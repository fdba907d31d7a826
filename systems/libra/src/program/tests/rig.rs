//! A switch with a port for every worker and one for the server, and frames for it.

use std::sync::Arc;

use crate::format::{HEADER, HOT_FRAME_MAX, HOT_PAIR, Header, Kind as Wire, PORT, WORKER_PORT, emit_hot};
use pktgen_core::config::{Section, Value};
use pktgen_core::record::PacketId;
use pktgen_core::seed::Seed;
use pktgen_core::time::Time;
use pktgen_core::topology::Population;
use pktgen_core::units::{Rate, Size};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
use pktgen_workload::sparse::layout::Layout;
use pktgen_workload::sparse::{HotFrom, Sparse, SparsePlan};

use super::super::Libra;
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::groups::{Contributor, JobPlace};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::{Context, Outbox};
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::program::{Place, Program};
use pktgen_engine::target::queue::Discipline;
use pktgen_engine::target::queue::fifo::FifoDiscipline;
use pktgen_engine::target::sparse::SparsePlace;

/// Hot parameters, in 64 registers.
pub const HOT: u32 = 200;
/// Latency of a pass through the pipeline, unless a test sets another one.
pub const LATENCY: Time = 400_000;
/// Link to the server.
pub const SERVER_LINK: u32 = 40;

/// Returns a switch for this many jobs with this many workers; a worker's port is its number.
pub fn place(jobs: u16, workers: u32) -> Place {
    let plan = SparsePlan {
        hot: HOT,
        hot_from: HotFrom::Exact,
        dense: 0,
        jobs,
        workers_per_job: workers,
        iterations: 1000,
        ..SparsePlan::of("oa", 0.001).unwrap()
    };
    let job = |job: u16| {
        let all = u32::from(job) * workers..(u32::from(job) + 1) * workers;
        let source = |(i, worker)| Contributor { id: i, worker: Some(worker), workers: 1 };
        let ports: Vec<u16> = all.clone().map(|worker| worker as u16).collect();
        JobPlace { sources: (0u8..).zip(all).map(source).collect(), own: None, port_of: ports.clone(), ports }
    };
    Place {
        node: 0,
        routes: vec![0, SERVER_LINK as u16].into(),
        workers: Arc::new(Population::regular(jobs, workers)),
        group_ports: Arc::default(),
        server: 1,
        jobs: Arc::new((0..jobs).map(job).collect()),
        sparse: Some(SparsePlace {
            sparse: Arc::new(Sparse::new(plan, Seed(1)).unwrap()),
            layout: Layout::heat(64),
            shards: Arc::default(),
            window: 256,
            asynchronous: false,
            max_recirculations: 1,
        }),
        aggregators: Arc::new(vec![0]),
        racks: None,
        flows: None,
        frame_bytes: HOT_FRAME_MAX,
        real_time: false,
        udp_checksum: false,
    }
}

/// Opens a switch with more stages than a Tofino has, since the 64 registers need these.
pub fn open(place: Place, values: &[(&str, Value)]) -> pktgen_core::Result<Libra> {
    let stages = [("stages", Value::from(21u32))];
    let values: Vec<_> = stages.iter().chain(values).map(|(key, value)| (*key, value.clone())).collect();
    Libra::open(&mut Section::of("target", &values), place)
}

/// Converts hot pairs to bytes.
pub fn hot(pairs: &[(u32, f32)]) -> Vec<u8> {
    let mut bytes = vec![0; pairs.len() * HOT_PAIR];
    emit_hot(pairs, &mut bytes);
    bytes
}

/// A departure.
#[derive(Debug, Clone)]
pub struct Left {
    pub link: u32,
    pub frame: Frame,
    pub bytes: Vec<u8>,
}

pub struct Rig {
    pub program: Libra,
    pub pool: Pool,
    pub books: Books,
    ports: Vec<Port>,
    out: Outbox,
    touched: Vec<u16>,
}

impl Rig {
    pub fn new(place: Place, values: &[(&str, Value)]) -> Self {
        let timing = PortTiming::link(Rate::from_bps(1 << 60), Size::default(), 0);
        let mut section = Section::of("target", &[]);
        let fifo = &FifoDiscipline;
        let mut port = |i| Port::new(i, fifo.open(&mut section, 1, Some(1 << 16)).unwrap(), &timing);
        Rig {
            program: open(place, values).unwrap(),
            pool: Pool::new(HOT_FRAME_MAX, 8),
            books: Books::default(),
            ports: (0..=SERVER_LINK).map(&mut port).collect(),
            out: Outbox::default(),
            touched: Vec::new(),
        }
    }

    pub fn now(&self) -> Time {
        self.program.now
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.program.counters().iter().find(|own| own.name == name).unwrap().value
    }

    pub fn frame(&mut self, worker: u32, header: Header, content: &[u8], t: Time) -> Frame {
        let len = HEAD + HEADER + content.len();
        let buffer = self.pool.take();
        let bytes = &mut self.pool.bytes_mut(buffer)[..len];
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), len).emit(bytes);
        header.emit(&mut bytes[HEAD..]);
        bytes[HEAD + HEADER..].copy_from_slice(content);
        let kind = if header.kind == Wire::Push { Kind::Update } else { Kind::Request };
        let packet = PacketId::new(worker, header.seq, header.attempt);
        let cluster = u16::from(header.job);
        Frame { t, packet, buffer, worker, len: len as u16, cluster, flow: 1, head: HEAD as u8, kind }
    }

    fn call(&mut self, act: impl FnOnce(&mut Libra, &mut Context)) {
        let mut context =
            Context::new(&mut self.pool, &mut self.books, &mut self.ports, &mut self.out, &mut self.touched);
        act(&mut self.program, &mut context);
    }

    pub fn burst(&mut self, frames: &[Frame]) {
        self.call(|program, context| program.on_burst(frames, context));
    }

    /// Returns the departures until now.
    pub fn leave(&mut self) -> Vec<Left> {
        self.ports
            .iter_mut()
            .for_each(|port| port.advance(i64::MAX / 8, &mut self.pool, &mut self.books, &mut self.out));
        // A port writes when an update leaves it; tests examine what the program writes.
        let mut left = Vec::new();
        for (link, frame) in self.out.frames.drain(..) {
            left.push(Left { link, frame, bytes: self.pool.frame(&frame).to_vec() });
            self.pool.release(frame.buffer);
        }
        left
    }

    /// Lets the switch perform its next scheduled action.
    pub fn timer(&mut self) -> Vec<Left> {
        let t = self.program.next_wake();
        self.call(|program, context| program.on_timer(t, context));
        self.leave()
    }

    /// Sends one packet; returns the output until its ACK and results have left.
    pub fn send_bytes(&mut self, worker: u32, header: Header, content: &[u8], t: Time) -> Vec<Left> {
        let frame = self.frame(worker, header, content, t);
        self.step(frame)
    }

    fn step(&mut self, frame: Frame) -> Vec<Left> {
        self.burst(&[frame]);
        self.finish()
    }

    /// Returns the output until the pipeline is empty.
    pub fn finish(&mut self) -> Vec<Left> {
        let until = self.program.line.last();
        self.call(|program, context| program.on_timer(until, context));
        self.leave()
    }

    pub fn send(&mut self, worker: u32, header: Header, pairs: &[(u32, f32)], t: Time) -> Vec<Left> {
        self.send_bytes(worker, header, &hot(pairs), t)
    }

    fn job_of(&self, worker: u32) -> u8 {
        self.program.known.sparse.job_of(worker) as u8
    }

    pub fn push(&mut self, worker: u32, number: u32, attempt: u8, pairs: &[(u32, f32)], t: Time) -> Vec<Left> {
        let header = Header { kind: Wire::Push, attempt, job: self.job_of(worker), seq: number * 2 };
        self.send(worker, header, pairs, t)
    }

    pub fn end(&mut self, worker: u32, number: u32, iteration: u32, t: Time) -> Vec<Left> {
        let header = Header { kind: Wire::End, attempt: 0, job: self.job_of(worker), seq: number * 2 };
        self.send_bytes(worker, header, &iteration.to_be_bytes(), t)
    }

    pub fn result_ack(&mut self, worker: u32, number: u32, t: Time) {
        let header = Header { kind: Wire::Ack, attempt: 0, job: self.job_of(worker), seq: number * 2 };
        assert!(self.send_bytes(worker, header, &[], t).is_empty());
    }

    /// Delivers the output of another device to this one.
    pub fn pass(&mut self, left: &Left) -> Vec<Left> {
        let buffer = self.pool.take();
        self.pool.bytes_mut(buffer)[..left.bytes.len()].copy_from_slice(&left.bytes);
        self.step(Frame { buffer, ..left.frame })
    }
}
