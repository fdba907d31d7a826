//! One device with ports, controlled by tests.

use crate::format::{Header, PORT, frame_bytes, values};
use pktgen_core::config::{Section, Value};
use pktgen_core::record::{Action, Book, PacketId, Reason};
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::{NO_PORT, Population};
use pktgen_core::units::{Rate, Size};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};

use super::super::TrioMlKind;
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::groups::{Contributor, JobPlace};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::{Context, Outbox};
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::program::{Place, Program, ProgramKind};
use pktgen_engine::target::queue::{Fifo, Queue};

/// Maximum number of gradients.
pub const ROOM: u16 = 32;

/// A frame in tests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plain {
    pub header: [u32; 9],
    pub values: Vec<i32>,
}

/// Returns a header in a form that can be sorted.
pub fn key(h: &Header) -> [u32; 9] {
    [
        h.job.into(),
        h.block,
        h.generation.into(),
        h.source.into(),
        h.sources.into(),
        h.elements.into(),
        h.age_op.into(),
        h.last.into(),
        h.degraded.into(),
    ]
}

/// A row without its node.
pub type Row = (Time, PacketId, Action, Option<PacketId>, Option<Reason>);

pub fn row(book: &Book) -> Row {
    (book.t, book.packet_in, book.action, book.packet_out, book.reason)
}

/// A contribution: time, header, gradients, and id.
#[derive(Debug, Clone)]
pub struct Input {
    pub t: Time,
    pub header: Header,
    pub values: Vec<i32>,
    pub packet: PacketId,
}

/// Returns a job at a device with sources (id, workers); a source that represents several workers is a device.
pub fn job(sources: &[(u8, u8)], own: Option<u8>, ports: &[u16]) -> JobPlace {
    let sources = sources.iter().map(|&(id, workers)| Contributor {
        id,
        worker: (workers == 1).then_some(u32::from(id)),
        workers,
    });
    // Trio-ML never answers a single worker.
    JobPlace { sources: sources.collect(), own, ports: ports.to_vec(), port_of: Vec::new() }
}

/// The device is node 0; the top of the network is node 0 or, with `own`, node 1, to which port 0 leads.
pub fn place(jobs: Vec<JobPlace>) -> Place {
    let below = jobs.iter().any(|job| job.own.is_some());
    let routes = if below { vec![NO_PORT, 0] } else { vec![NO_PORT] }.into();
    let bare = Place::bare(0, Population::regular(1, 6), jobs, frame_bytes(ROOM));
    Place { routes, server: u32::from(below), ..bare }
}

pub struct Rig {
    pub program: Box<dyn Program>,
    pub ports: Vec<Port>,
    pub pool: Pool,
    pub books: Books,
    pub out: Outbox,
    pub touched: Vec<u16>,
}

impl Rig {
    pub fn new(jobs: Vec<JobPlace>, keys: &[(&str, Value)]) -> Self {
        let ports = 1 + jobs.iter().flat_map(|job| job.ports.iter().copied()).max().unwrap_or(0);
        let program = TrioMlKind.open(&mut Section::of("target", keys), place(jobs)).unwrap();
        let timing =
            PortTiming { bypass_slots: 1 << 20, ..PortTiming::link(Rate::from_bps(1 << 40), Size::default(), 0) };
        let queue = || Box::new(Fifo::new(1 << 20, true)) as Box<dyn Queue>;
        Rig {
            program,
            ports: (0..ports).map(|link| Port::new(u32::from(link), queue(), &timing)).collect(),
            pool: Pool::new(frame_bytes(ROOM), 4),
            books: Books::default(),
            out: Outbox::default(),
            touched: Vec::new(),
        }
    }

    pub fn frame(&mut self, input: &Input) -> Frame {
        let len = frame_bytes(input.values.len() as u16).max(60);
        let buffer = self.pool.take();
        let bytes = &mut self.pool.bytes_mut(buffer)[..len];
        bytes.fill(0);
        Template::new((worker_ip(0), PORT), (SERVER_IP, PORT), len).emit(bytes);
        Header { elements: input.values.len() as u16, ..input.header }.emit(&mut bytes[HEAD..]);
        for (out, value) in bytes[HEAD + 12..].as_chunks_mut::<4>().0.iter_mut().zip(&input.values) {
            *out = value.to_be_bytes();
        }
        Frame {
            t: input.t,
            packet: input.packet,
            buffer,
            worker: 0,
            len: len as u16,
            cluster: u16::from(input.header.job),
            flow: 0,
            head: HEAD as u8,
            kind: Kind::Update,
        }
    }

    pub fn burst(&mut self, frames: &[Frame]) {
        let mut context =
            Context::new(&mut self.pool, &mut self.books, &mut self.ports, &mut self.out, &mut self.touched);
        self.program.on_burst(frames, &mut context);
    }

    pub fn offer(&mut self, input: &Input) {
        let frame = self.frame(input);
        self.burst(&[frame]);
    }

    /// Calls the program at all requested times up to and including `t`.
    pub fn pass(&mut self, t: Time) {
        while self.program.next_wake() <= t && self.program.next_wake() != NEVER {
            let wake = self.program.next_wake();
            let mut context =
                Context::new(&mut self.pool, &mut self.books, &mut self.ports, &mut self.out, &mut self.touched);
            self.program.on_timer(wake, &mut context);
        }
    }

    /// Calls the program until it requests no more calls.
    pub fn finish(&mut self) {
        self.pass(NEVER);
        assert_eq!(self.program.next_wake(), NEVER);
        self.flush();
    }

    fn flush(&mut self) {
        for port in &mut self.ports {
            port.advance(NEVER - 1, &mut self.pool, &mut self.books, &mut self.out);
        }
    }

    /// Returns the frames that left so far, by link, in order; releases their buffers.
    pub fn sent(&mut self) -> Vec<(u32, Plain)> {
        self.flush();
        let mut sent = Vec::new();
        for (link, frame) in self.out.frames.drain(..) {
            sent.push((link, plain(&self.pool, &frame)));
            self.pool.release(frame.buffer);
        }
        sent.sort_by_key(|(link, _)| *link);
        sent
    }

    pub fn rows(&self) -> Vec<Row> {
        self.books.rows.iter().map(row).collect()
    }

    /// Returns the reasons of dropped packets in order.
    pub fn drops(&self) -> Vec<Reason> {
        self.books.rows.iter().filter_map(|row| row.reason).collect()
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.program.counters().iter().find(|own| own.name == name).unwrap().value
    }
}

pub fn plain(pool: &Pool, frame: &Frame) -> Plain {
    let payload = pool.payload(frame);
    let header = Header::parse(payload).unwrap();
    let values = values(payload, &header).as_chunks::<4>().0.iter().map(|b| i32::from_be_bytes(*b)).collect();
    Plain { header: key(&header), values }
}
