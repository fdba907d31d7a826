//! Compares the switch with a simple model, and tests corner cases by hand. `client` has clients that lose packets.

mod client;
mod model;

use std::sync::Arc;

use pktgen_core::config::Value;
use pktgen_core::record::{Book, PacketId};
use pktgen_core::topology::Population;
use pktgen_core::units::{Rate, Size};
use pktgen_wire::wire::frame::{Datagram, set_udp_checksum, target_ip};
use proptest::prelude::*;

use super::*;
use pktgen_engine::groups::Contributor;
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::Outbox;
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::queue::Discipline;
use pktgen_engine::target::queue::fifo::FifoDiscipline;

const N: u16 = 64;
const LATENCY: Time = 1_000_000;

/// One device and a port for every worker; all jobs have the same number of workers.
struct Rig {
    program: Box<dyn Program>,
    pool: Pool,
    books: Books,
    ports: Vec<Port>,
    out: Outbox,
    touched: Vec<u16>,
}

/// A departure: link and bytes.
type Left = (u32, Vec<u8>);

/// The port of a worker differs from its number.
fn port_of(worker: u32, workers: usize) -> u16 {
    (workers as u32 - 1 - worker) as u16
}

fn place(jobs: &[u8]) -> Place {
    let cluster_of: Vec<u16> =
        jobs.iter().enumerate().flat_map(|(job, n)| std::iter::repeat_n(job as u16, usize::from(*n))).collect();
    let all = cluster_of.len();
    let job = |job: usize| {
        let workers = (0..all as u32).filter(|w| usize::from(cluster_of[*w as usize]) == job);
        let sources = workers
            .clone()
            .enumerate()
            .map(|(i, w)| Contributor { id: i as u8, worker: Some(w), workers: 1 })
            .collect();
        let port_of: Vec<u16> = workers.map(|w| port_of(w, all)).collect();
        let mut ports = port_of.clone();
        ports.sort_unstable();
        JobPlace { sources, own: None, ports, port_of }
    };
    let jobs = (0..jobs.len()).map(job).collect();
    Place::bare(0, Population { cluster_of, moves: Vec::new() }, jobs, 0)
}

fn open(place: Place, values: &[(&str, Value)]) -> Result<Box<dyn Program>> {
    let kind = &SwitchMlKind;
    kind.open(&mut Section::of("target", values), place)
}

fn keys(pool: u32, check: bool, several: bool) -> Vec<(&'static str, Value)> {
    let jobs = if several { "several" } else { "one" };
    vec![("pool", pool.into()), ("check", check.into()), ("jobs", jobs.into()), ("elements", 64u32.into())]
}

impl Rig {
    fn new(place: Place, values: &[(&str, Value)]) -> Self {
        let count = place.workers.len();
        let program = open(place, values).unwrap();
        let timing = PortTiming::link(Rate::from_bps(1 << 60), Size::default(), 0);
        let mut section = Section::of("target", &[]);
        let fifo = &FifoDiscipline;
        let ports =
            (0..count).map(|i| Port::new(i as u32, fifo.open(&mut section, 1, None).unwrap(), &timing)).collect();
        let pool = Pool::new(frame_bytes(256), 8);
        Rig { program, pool, books: Books::default(), ports, out: Outbox::default(), touched: Vec::new() }
    }

    fn frame(&mut self, worker: u32, job: u16, header: Header, t: Time, packet: PacketId) -> Frame {
        let len = frame_bytes(header.elements);
        let buffer = self.pool.take();
        let bytes = &mut self.pool.bytes_mut(buffer)[..len];
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), len).emit(bytes);
        header.emit(&mut bytes[HEAD..]);
        let content: Vec<i32> = (0..header.elements).map(|i| value(worker, header.packet, i)).collect();
        emit_values(&content, &mut bytes[HEAD + HEADER..]);
        set_udp_checksum(bytes);
        let (len, head) = (len as u16, HEAD as u8);
        Frame { t, packet, buffer, worker, len, cluster: job, flow: 0, head, kind: Kind::Update }
    }

    fn burst(&mut self, frames: &[Frame]) {
        let mut context =
            Context::new(&mut self.pool, &mut self.books, &mut self.ports, &mut self.out, &mut self.touched);
        self.program.on_burst(frames, &mut context);
    }

    fn timer(&mut self, t: Time) {
        let mut context =
            Context::new(&mut self.pool, &mut self.books, &mut self.ports, &mut self.out, &mut self.touched);
        self.program.on_timer(t, &mut context);
    }

    /// Lets everything in flight leave; checks that nothing is forgotten.
    fn finish(&mut self) -> Vec<Left> {
        while self.program.next_wake() != NEVER {
            self.timer(self.program.next_wake());
        }
        let left = self.left(NEVER - 1);
        assert_eq!(self.pool.in_use(), 0, "every frame was released");
        left
    }

    /// Returns what has left by `t`.
    fn left(&mut self, t: Time) -> Vec<Left> {
        for port in &mut self.ports {
            port.advance(t, &mut self.pool, &mut self.books, &mut self.out);
        }
        let mut left = Vec::new();
        for (link, frame) in self.out.frames.drain(..) {
            assert_eq!(frame.kind, Kind::Result);
            left.push((link, self.pool.frame(&frame).to_vec()));
            self.pool.release(frame.buffer);
        }
        left.sort_by_key(|(link, _)| *link);
        left
    }

    /// Sends one packet of job 0 and waits for its effects.
    fn one(&mut self, worker: u32, number: u32, t: Time, attempt: u8) -> Vec<Left> {
        let frame = self.frame(worker, 0, packet(number, 1), t, PacketId::new(worker, number, attempt));
        self.burst(&[frame]);
        self.finish()
    }

    fn counter(&self, name: &str) -> u64 {
        self.program.counters().iter().find(|own| own.name == name).unwrap().value
    }

    fn reasons(&self) -> Vec<Option<Reason>> {
        self.books.rows.iter().map(|row| row.reason).collect()
    }
}

/// Returns the values of a worker's packet: large, so that sums wrap around.
fn value(worker: u32, number: u32, i: u16) -> i32 {
    (worker * 31 + number * 7 + u32::from(i) + 1).wrapping_mul(0x9e37_79b1) as i32
}

fn exponent(worker: u32, number: u32) -> i8 {
    (worker * 37 + number * 11) as i8
}

fn second(worker: u32, number: u32) -> i8 {
    (worker * 91 + number * 5) as i8
}

/// Returns the header of the packet with this number in a window of `pool`.
fn packet(number: u32, pool: u32) -> Header {
    let (slot, set) = ((number % pool) as u16, number / pool % 2 == 1);
    Header { job: 9, packet: number, set, slot, exponent: 0, attempt: 0, elements: N }
}

/// Returns header and values of a result.
fn read(bytes: &[u8]) -> (Header, Vec<i32>) {
    let payload = Datagram::parse(bytes).unwrap().payload;
    let header = Header::parse(payload).unwrap();
    let sums = values(payload, &header).as_chunks::<4>().0.iter().map(|b| i32::from_be_bytes(*b)).collect();
    (header, sums)
}

/// Returns the sum of these workers' packets.
fn sum(workers: impl Iterator<Item = u32> + Clone, number: u32, elements: u16) -> Vec<i32> {
    let one = |i| workers.clone().map(|w| i64::from(value(w, number, i))).sum::<i64>() as i32;
    (0..elements).map(one).collect()
}

fn row(book: &Book) -> (Time, PacketId, Action, Option<PacketId>, Option<Reason>) {
    (book.t, book.packet_in, book.action, book.packet_out, book.reason)
}

fn id(worker: u32, number: u32, attempt: u8) -> PacketId {
    PacketId::new(worker, number, attempt)
}

#[test]
fn a_sum_goes_to_everyone_and_a_late_question_is_answered_alone() {
    let mut rig = Rig::new(place(&[3]), &keys(1, true, false));
    for worker in [2, 0] {
        assert_eq!(rig.one(worker, 0, Time::from(worker), 0), []);
    }
    assert_eq!(rig.one(2, 0, 10, 1), [], "the sum is not complete");
    let all = rig.one(1, 0, 20, 0);
    assert_eq!(all.iter().map(|(link, _)| *link).collect::<Vec<_>>(), [0, 1, 2]);
    for (_, bytes) in &all {
        assert_eq!(read(bytes).1, sum(0..3, 0, N));
        let datagram = Datagram::parse(bytes).unwrap();
        assert_eq!((datagram.src, datagram.src_port), (SERVER_IP, PORT));
        assert_eq!((datagram.dst, datagram.dst_port, &bytes[40..42]), (group_ip(0), WORKER_PORT, &[0, 0][..]));
    }
    let alone = rig.one(2, 0, 5_000_000, 2);
    assert_eq!((alone.len(), alone[0].0, target_ip(&alone[0].1)), (1, 0, worker_ip(2)));
    assert_eq!(read(&alone[0].1), read(&all[0].1));
    use Action::{Departed, Dropped, Merged, Queued};
    let duplicate = Some(Reason::Duplicate);
    let rows: Vec<_> = rig.books.rows.iter().map(row).collect();
    // Time never goes back: worker 0 arrived at 0, after worker 2 at 2 and the time of its result in the pipeline.
    let expected = [
        (2, id(2, 0, 0), Queued, None, None),
        (2, id(0, 0, 0), Queued, None, None),
        (10, id(2, 0, 1), Dropped, None, duplicate),
        (20, id(1, 0, 0), Queued, None, None),
        (20, id(1, 0, 0), Merged, Some(id(0, 0, 0)), None),
        (20, id(2, 0, 0), Merged, Some(id(0, 0, 0)), None),
        (20 + LATENCY, id(0, 0, 0), Departed, None, None),
        (5_000_000, id(2, 0, 2), Dropped, None, duplicate),
    ];
    assert_eq!(rows, expected);
    let counts = ["packets", "results", "duplicates_answered", "duplicates_dropped", "stale", "slots_max"];
    assert_eq!(counts.map(|name| rig.counter(name)), [5, 1, 1, 1, 0, 1]);
}

#[test]
fn a_very_late_duplicate_ruins_the_papers_switch_and_not_ours() {
    for check in [false, true] {
        let mut rig = Rig::new(place(&[2]), &keys(1, check, false));
        let mut results = Vec::new();
        // Packet 0 is done and worker 0 has moved on when its first attempt arrives again.
        for (t, (worker, number, attempt)) in
            [(0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 0), (0, 1, 1), (1, 1, 0)].into_iter().enumerate()
        {
            results.extend(rig.one(worker, number, t as Time * 2 * LATENCY, attempt));
        }
        let of_one: Vec<_> = results.iter().map(|(_, b)| read(b)).filter(|(h, _)| h.packet == 1).collect();
        assert_eq!(of_one.iter().all(|(_, got)| *got == sum(0..2, 1, N)), check);
        assert_eq!((rig.counter("stale"), rig.counter("overwritten")), if check { (1, 0) } else { (0, 1) });
    }
}

#[test]
fn a_job_of_one_worker_gets_its_own_values_back() {
    let mut rig = Rig::new(place(&[1]), &keys(2, false, false));
    for (i, (number, results)) in [(0, 1), (0, 1), (2, 1), (2, 1), (4, 1)].into_iter().enumerate() {
        let frame = rig.frame(0, 0, packet(number, 2), i as Time, id(0, number, i as u8));
        rig.burst(&[frame]);
        let left = rig.finish();
        assert_eq!(left.len(), results);
        assert_eq!(read(&left[0].1).1, sum(0..1, number, N));
    }
    assert_eq!((rig.counter("results"), rig.counter("duplicates_answered"), rig.counter("slots_max")), (3, 2, 0));
}

#[test]
fn what_no_slot_takes_is_dropped_by_name() {
    let mut rig = Rig::new(place(&[2, 1]), &keys(4, true, false));
    let good = packet(0, 4);
    let cases = [
        (0, 0, Header { slot: 4, ..good }, Reason::TableFull),
        (0, 0, Header { elements: 256, ..good }, Reason::WrongCount),
        (2, 1, good, Reason::UnknownJob),
        (0, 7, good, Reason::UnknownJob),
        (3, 0, good, Reason::UnknownSource),
        (2, 0, good, Reason::UnknownSource),
    ];
    for (i, (worker, job, header, _)) in cases.into_iter().enumerate() {
        let frame = rig.frame(worker, job, header, i as Time, id(worker, i as u32, 0));
        rig.burst(&[frame]);
    }
    let frame = rig.frame(0, 0, good, 9, id(0, 9, 0));
    rig.burst(&[Frame { kind: Kind::Plain, ..frame }]);
    let mut expected: Vec<_> = cases.iter().map(|case| Some(case.3)).collect();
    expected.push(Some(Reason::Malformed));
    assert_eq!(rig.reasons(), expected);
    rig.finish();
    // With several jobs, each has its own pool.
    let mut rig = Rig::new(place(&[1, 1]), &keys(1, true, true));
    for job in 0..2 {
        let frame = rig.frame(job, job as u16, packet(0, 1), 0, id(job, 0, 0));
        rig.burst(&[frame]);
        let left = rig.finish();
        assert_eq!((left.len(), left[0].0, read(&left[0].1).1), (1, 1 - job, sum(job..job + 1, 0, N)));
        assert_eq!(target_ip(&left[0].1), group_ip(job as u16));
    }
}

#[test]
fn settings_that_cannot_be_are_refused_with_the_way_out() {
    let fails = |place: Place, values: &[(&str, Value)], parts: &[&str]| {
        let Err(error) = open(place, values) else { panic!("accepted: {values:?}") };
        let message = error.to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    fails(place(&[2]), &[("pool", 0u32.into())], &["target.pool", "1 to 8192"]);
    fails(place(&[2]), &[("pool", 8193u32.into())], &["target.pool", "8193"]);
    fails(place(&[2]), &[("elements", 128u32.into())], &["target.elements", "64 or 256"]);
    fails(place(&[2]), &[("jobs", "two".into())], &["target.jobs", "several"]);
    fails(place(&[2]), &[("pipeline_latency", "2s".into())], &["target.pipeline_latency", "1s"]);
    fails(place(&[33]), &[], &["33", "workers_per_cluster = 32"]);
    fails(place(&[1, 33]), &[("jobs", "several".into())], &["job 1 has 33"]);
    assert!(open(place(&[32, 33]), &[]).is_ok(), "the second job is not configured");
    let sent = Place { frame_bytes: frame_bytes(64), ..place(&[2]) };
    fails(sent.clone(), &[("elements", 256u32.into())], &["target.elements", "workers send: 64"]);
    assert!(open(sent, &[]).is_ok());
    for upper in [true, false] {
        let mut below = place(&[2, 2]);
        let job = &mut Arc::make_mut(&mut below.jobs)[1];
        match upper {
            true => job.own = Some(0),
            false => job.sources[1].worker = None,
        }
        fails(below, &[], &["job 1", "no hierarchy", "engines = 1", "trio_ml"]);
    }
}

#[test]
fn results_take_the_pipelines_time_in_virtual_time_only() {
    for (real_time, departs) in [(false, 3_000), (true, 0)] {
        let place = Place { real_time, ..place(&[1]) };
        let mut values = keys(1, true, false);
        values.push(("pipeline_latency", "3ns".into()));
        let mut rig = Rig::new(place, &values);
        let frame = rig.frame(0, 0, packet(0, 1), 0, id(0, 0, 0));
        rig.burst(&[frame]);
        assert_eq!(rig.program.next_wake(), if real_time { NEVER } else { 3_000 });
        rig.finish();
        assert_eq!(rig.books.rows.last().map(|row| row.t), Some(departs));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_dropped_or_summed_and_never_panic(
        packets in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 1..120), 0u16..4, 0u8..5, 0u8..120, 0u8..4, any::<u16>()), 1..40),
        check: bool,
    ) {
        let mut rig = Rig::new(place(&[1, 2]), &keys(3, check, true));
        for (i, (bytes, job, what, head, kind, noise)) in packets.iter().enumerate() {
            let worker = u32::from(*noise % 4);
            // Most are packets with a few bytes changed, so that every check is executed.
            let frame = rig.frame(worker, *job, packet(u32::from(noise % 9), 3), i as Time, id(worker, i as u32, 0));
            let frame = match what {
                0 => {
                    rig.pool.bytes_mut(frame.buffer)[..bytes.len()].copy_from_slice(bytes);
                    Frame { len: bytes.len() as u16, head: (*head).min(bytes.len() as u8), ..frame }
                }
                1 => {
                    rig.pool.bytes_mut(frame.buffer)[usize::from(*head)] = bytes[0];
                    frame
                }
                2 => Frame { kind: [Kind::Update, Kind::Plain, Kind::Control, Kind::Result][usize::from(*kind)], ..frame },
                3 => Frame { len: frame.len - u16::from(*head), ..frame },
                _ => frame,
            };
            rig.burst(&[frame]);
        }
        rig.finish();
    }
}
