//! Compares the switch with a model that keeps the registers of the public program as maps and follows the P4 text line by line.

use std::collections::{BTreeMap, BTreeSet};

use pktgen_core::record::Book;
use pktgen_core::seed::Seed;
use pktgen_core::time::Time;
use pktgen_core::units::{Rate, Size};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::Outbox;
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::queue::Fifo;
use pktgen_wire::wire::frame::{SERVER_IP, Template, group_ip, mark_congestion};
use pktgen_wire::wire::integers::{emit_values, set_values};
use proptest::prelude::*;
use rand::RngExt;

use super::*;
use crate::format::{ELEMENTS, UDP_FRAME_BYTES, values};
use crate::rig::{Setup, switch};

const JOBS: u16 = 2;
const WORKERS: u32 = 3;
const AGGREGATORS: u16 = 3;

/// A packet at the switch.
#[derive(Debug, Clone)]
enum Input {
    /// From a worker of a job.
    Part {
        job: u16,
        worker: u32,
        number: u32,
        aggregator: u16,
        attempt: u8,
        value: i32,
        congested: bool,
        ip_marked: bool,
    },
    /// From the server.
    Result { job: u16, number: u32, aggregator: u16, resent: bool, overflow: bool },
}

fn input() -> impl Strategy<Value = Input> {
    // Few numbers and aggregators, one of which does not exist; values that saturate.
    let value = prop_oneof![-100i32..100, Just(i32::MAX), Just(i32::MIN), Just(i32::MAX - 3)];
    let place = (0..JOBS, 0u32..4, 0..=AGGREGATORS);
    let attempt = prop_oneof![3 => Just(0u8), 1 => 1u8..4];
    let part = (place.clone(), 0..WORKERS, attempt, value, any::<bool>(), any::<bool>()).prop_map(
        |((job, number, aggregator), worker, attempt, value, congested, ip_marked)| Input::Part {
            job,
            worker,
            number,
            aggregator,
            attempt,
            value,
            congested,
            ip_marked,
        },
    );
    let result = (place, any::<bool>(), any::<bool>()).prop_map(|((job, number, aggregator), resent, overflow)| {
        Input::Result { job, number, aggregator, resent, overflow }
    });
    prop_oneof![5 => part, 1 => result]
}

/// A departure to the server (0) or a worker's port, with header and first value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Left {
    port: u16,
    bitmap: u32,
    collision: bool,
    congested: bool,
    ack: bool,
    value: i32,
}

/// The registers, as maps.
#[derive(Default)]
struct Model {
    app_and_seq: BTreeMap<u16, (u16, u32)>,
    bitmap: BTreeMap<u16, u32>,
    agtr_time: BTreeMap<u16, u32>,
    ecn: BTreeMap<u16, bool>,
    data: BTreeMap<u16, i64>,
    /// Not in the public program: first transmissions that arrived, results that passed, and sums that left and are still present.
    seen: BTreeSet<(u16, u32, u32)>,
    passed: BTreeSet<(u16, u32)>,
    resent: BTreeSet<(u16, u32, u32, u8)>,
}

fn saturating(register: i64, value: i32) -> i64 {
    let (most, least) = (i64::from(i32::MAX), i64::from(i32::MIN));
    // condition_hi and condition_lo of the stateful units.
    if register < most && register > -most { (register + i64::from(value)).clamp(least, most) } else { register }
}

impl Model {
    fn clean(&mut self, at: u16) {
        self.app_and_seq.remove(&at);
        self.bitmap.remove(&at);
        self.agtr_time.remove(&at);
        self.ecn.remove(&at);
    }

    fn take(&mut self, input: &Input) -> Vec<Left> {
        match *input {
            Input::Result { job, number, aggregator, resent, overflow } => {
                if !overflow || resent {
                    self.passed.insert((job, number));
                    if self.app_and_seq.get(&aggregator) == Some(&(job, number)) {
                        self.clean(aggregator);
                    }
                }
                let ports = (u32::from(job) * WORKERS..(u32::from(job) + 1) * WORKERS).map(|worker| worker as u16 + 1);
                let all = |port| Left { port, bitmap: 1, collision: false, congested: false, ack: true, value: 5 };
                ports.map(all).collect()
            }
            Input::Part { job, worker, number, aggregator, attempt, value, congested, ip_marked } => {
                let (own, bit, marked) = ((job, number), 1 << worker, congested || ip_marked);
                let alone = Left { port: 0, bitmap: bit, collision: false, congested, ack: false, value };
                let there = self.app_and_seq.get(&aggregator).copied();
                if attempt == 0 {
                    let again = !self.seen.insert((job, number, worker));
                    let whole = there == Some(own) && self.agtr_time.get(&aggregator) == Some(&WORKERS);
                    if again && whole {
                        let (bitmap, value) = (self.bitmap[&aggregator], self.data[&aggregator] as i32);
                        let congested = marked || self.ecn.get(&aggregator) == Some(&true);
                        return vec![Left { bitmap, value, congested, ..alone }];
                    }
                    if again || self.passed.contains(&own) {
                        return Vec::new();
                    }
                    if aggregator >= AGGREGATORS || there.is_some_and(|there| there != own) {
                        return vec![Left { collision: true, congested: marked, ..alone }];
                    }
                    self.app_and_seq.insert(aggregator, own);
                    let bitmap = self.bitmap.entry(aggregator).or_default();
                    let data = self.data.entry(aggregator).or_default();
                    *data = if *bitmap == 0 { i64::from(value) } else { saturating(*data, value) };
                    *bitmap |= bit;
                    let met =
                        self.ecn.insert(aggregator, marked || self.ecn.get(&aggregator) == Some(&true)) == Some(true);
                    let time = self.agtr_time.entry(aggregator).or_default();
                    *time += 1;
                    if *time < WORKERS {
                        return Vec::new();
                    }
                    let (bitmap, value) = (self.bitmap[&aggregator], self.data[&aggregator] as i32);
                    return vec![Left { bitmap, value, congested: marked || met, ..alone }];
                }
                if !self.resent.insert((job, number, worker, attempt)) {
                    return Vec::new();
                }
                if aggregator >= AGGREGATORS || there != Some(own) {
                    return vec![alone];
                }
                let (bitmap, met) = (self.bitmap[&aggregator], self.ecn.get(&aggregator) == Some(&true));
                let left = self.agtr_time[&aggregator] == WORKERS;
                let data = self.data[&aggregator];
                self.clean(aggregator);
                if left {
                    // Our choice: what has left as a whole does not leave again under another id.
                    return vec![alone];
                }
                let sum = if bitmap & bit == 0 { saturating(data, value) } else { data };
                vec![Left { bitmap: bitmap | bit, value: sum as i32, congested: marked || met, ..alone }]
            }
        }
    }
}

struct Bed {
    program: Box<dyn Program>,
    ports: Vec<Port>,
    pool: Pool,
    books: Books,
    rows: Vec<Book>,
    now: Time,
}

impl Bed {
    fn new() -> Self {
        let (jobs, aggregators) = (JOBS, AGGREGATORS);
        let program = switch(&Setup {
            jobs,
            workers: WORKERS,
            window: 1,
            aggregators,
            loss: 0.0,
            copies: 0.0,
            way: 0,
            seed: 1,
            iterations: 1,
        });
        let timing = PortTiming::link(Rate::from_bps(1_000_000_000_000), Size::default(), 0);
        let timing = PortTiming { bypass_slots: 64, ..timing };
        let port = |link| Port::new(link, Box::new(Fifo::new(64, false)), &timing);
        let ports = (0..=u32::from(JOBS) * WORKERS).map(port).collect();
        let pool = Pool::new(UDP_FRAME_BYTES, 16);
        Bed { program, ports, pool, books: Books::default(), rows: Vec::new(), now: 0 }
    }

    fn give(&mut self, input: &Input) -> Vec<Left> {
        let (header, value, worker, kind) = match *input {
            Input::Part { job, worker, number, aggregator, attempt, value, congested, .. } => {
                let name = Name { number, attempt, source: worker as u8 };
                let header =
                    Header { bitmap: 1 << worker, resent: attempt > 0, congested, ..base(job, name, aggregator) };
                (header, value, u32::from(job) * WORKERS + worker, Kind::Update)
            }
            Input::Result { job, number, aggregator, resent, overflow } => {
                let name = Name { number, attempt: 0, source: 0 };
                let header = Header { ack: true, bitmap: 1, resent, overflow, ..base(job, name, aggregator) };
                (header, 5, u32::from(job) * WORKERS, Kind::Result)
            }
        };
        let name = Name::of(header.key);
        let buffer = self.pool.take();
        let bytes = &mut self.pool.bytes_mut(buffer)[..UDP_FRAME_BYTES];
        let (from, to) = match kind {
            Kind::Update => ((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT)),
            _ => ((SERVER_IP, PORT), (group_ip(header.app - 1), WORKER_PORT)),
        };
        Template::new(from, to, UDP_FRAME_BYTES).emit(bytes);
        header.emit(&mut bytes[HEAD..]);
        emit_values(&[value; ELEMENTS], values_mut(&mut bytes[HEAD..]));
        set_udp_checksum(bytes);
        if matches!(input, Input::Part { ip_marked: true, .. }) {
            mark_congestion(bytes);
        }
        self.now += 1_000_000;
        let (len, head) = (UDP_FRAME_BYTES as u16, HEAD as u8);
        let packet = PacketId::new(worker, name.number, name.attempt);
        let frame = Frame { t: self.now, packet, buffer, worker, len, cluster: header.app - 1, flow: 1, head, kind };
        let (mut out, mut touched) = (Outbox::default(), Vec::new());
        let mut context = Context::new(&mut self.pool, &mut self.books, &mut self.ports, &mut out, &mut touched);
        self.program.on_burst(&[frame], &mut context);
        self.ports
            .iter_mut()
            .for_each(|port| port.advance(self.now + 999_999, &mut self.pool, &mut self.books, &mut out));
        self.rows.append(&mut self.books.rows);
        let left = |(link, frame): (u32, Frame)| {
            let bytes = self.pool.frame(&frame).to_vec();
            let mut fits = bytes.clone();
            set_udp_checksum(&mut fits);
            assert_eq!(fits, bytes, "the checksum fits");
            let header = Header::parse(&bytes[HEAD..]).unwrap();
            let mut sums = [0; ELEMENTS];
            set_values(&mut sums, values(&bytes[HEAD..]).unwrap());
            assert!(sums.iter().all(|sum| *sum == sums[0]), "all values alike");
            if frame.kind == Kind::Update {
                // The id in the packet equals that in the ledger.
                let name = Name::of(header.key);
                let worker = u32::from(header.app - 1) * WORKERS + u32::from(name.source);
                assert_eq!(PacketId::new(worker, name.number, name.attempt), frame.packet);
                assert_eq!(source_ip(&bytes), worker_ip(worker));
            }
            self.pool.release(frame.buffer);
            let Header { bitmap, collision, congested, ack, .. } = header;
            Left { port: link as u16, bitmap, collision, congested, ack, value: sums[0] }
        };
        let mut all: Vec<_> = out.frames.into_iter().map(left).collect();
        all.sort_by_key(|left| left.port);
        all
    }
}

fn base(job: u16, name: Name, aggregator: u16) -> Header {
    Header { workers: WORKERS as u8, app: job + 1, seq: name.seq(), aggregator, key: name.key(), ..Header::default() }
}

proptest! {
    #[test]
    fn the_switch_is_the_model(inputs in prop::collection::vec(input(), 1..120)) {
        let (mut bed, mut model) = (Bed::new(), Model::default());
        for input in &inputs {
            let expected = model.take(input);
            prop_assert_eq!(bed.give(input), expected, "{:?}", input);
        }
        // Data is held in registers, not in frames.
        prop_assert_eq!(bed.pool.in_use(), 0);
        // Every packet joins another, is dropped, or leaves, exactly once.
        let mut ended = BTreeSet::new();
        for row in bed.rows.iter().filter(|row| matches!(row.action, Action::Merged | Action::Dropped)) {
            prop_assert!(ended.insert(row.packet_in) || row.packet_in.attempt() > 0, "{:?}", row);
        }
    }
}

/// Packets that are not from a worker below the switch are dropped with their reason.
#[test]
fn packets_of_others_are_dropped() {
    let name = Name { number: 0, attempt: 0, source: 0 };
    let good = Header { bitmap: 1, ..base(0, name, 0) };
    for (header, reason) in [
        (Header { ack: true, ..good }, Reason::Malformed),
        (Header { app: 2, ..good }, Reason::UnknownJob),
        (Header { bitmap: 2, ..good }, Reason::UnknownSource),
        (Header { bitmap: 3, ..good }, Reason::UnknownSource),
        (Header { workers: 4, ..good }, Reason::WrongCount),
    ] {
        let mut bed = Bed::new();
        let buffer = bed.pool.take();
        let bytes = &mut bed.pool.bytes_mut(buffer)[..UDP_FRAME_BYTES];
        Template::new((worker_ip(0), WORKER_PORT), (SERVER_IP, PORT), UDP_FRAME_BYTES).emit(bytes);
        header.emit(&mut bytes[HEAD..]);
        let (len, head) = (UDP_FRAME_BYTES as u16, HEAD as u8);
        let packet = PacketId::new(0, 0, 0);
        let frame = Frame { t: 1, packet, buffer, worker: 0, len, cluster: 0, flow: 1, head, kind: Kind::Update };
        let (mut out, mut touched) = (Outbox::default(), Vec::new());
        let mut context = Context::new(&mut bed.pool, &mut bed.books, &mut bed.ports, &mut out, &mut touched);
        bed.program.on_burst(&[frame], &mut context);
        assert_eq!((out.frames.len(), bed.pool.in_use()), (0, 0));
        assert_eq!(bed.books.rows[0].reason, Some(reason), "{header:?}");
    }
}

/// All copies that links make in virtual time have one id, so the first of them looks new.
#[test]
fn a_copy_of_a_retransmitted_packet_goes_no_further() {
    let name = Name { number: 0, attempt: 1, source: 0 };
    let header = Header { bitmap: 1, resent: true, ..base(0, name, 0) };
    let mut bed = Bed::new();
    let (mut out, mut touched) = (Outbox::default(), Vec::new());
    for packet in [PacketId::new(0, 0, 1), PacketId::NOBODY] {
        let buffer = bed.pool.take();
        let bytes = &mut bed.pool.bytes_mut(buffer)[..UDP_FRAME_BYTES];
        Template::new((worker_ip(0), WORKER_PORT), (SERVER_IP, PORT), UDP_FRAME_BYTES).emit(bytes);
        header.emit(&mut bytes[HEAD..]);
        let (len, head) = (UDP_FRAME_BYTES as u16, HEAD as u8);
        let frame = Frame { t: 1, packet, buffer, worker: 0, len, cluster: 0, flow: 1, head, kind: Kind::Update };
        let mut context = Context::new(&mut bed.pool, &mut bed.books, &mut bed.ports, &mut out, &mut touched);
        bed.program.on_burst(&[frame], &mut context);
    }
    bed.ports.iter_mut().for_each(|port| port.advance(999_999, &mut bed.pool, &mut bed.books, &mut out));
    let left: Vec<_> = out.frames.iter().map(|(_, frame)| frame.packet).collect();
    assert_eq!(left, [PacketId::new(0, 0, 1)]);
    let duplicates = bed.program.counters().into_iter().find(|own| own.name == "duplicates").unwrap();
    assert_eq!((duplicates.value, bed.pool.in_use()), (1, 1));
}

/// Numbers restart at 1: each is remembered until half of all numbers later, and forgotten then.
#[test]
fn numbers_are_remembered_until_half_of_all_later() {
    let mut numbers = Numbers::new();
    let seq = |number: u32| Name { number, attempt: 0, source: 0 }.seq();
    for number in 0..3 * 65_535u32 {
        assert!(!numbers.has(seq(number)), "{number} is new");
        numbers.add(seq(number));
        assert!(numbers.has(seq(number)) && numbers.has(seq(number.saturating_sub(32_000))), "{number}");
    }
}

/// Numbers that never come, and those that come late, leave nothing behind: in no cycle is a new number taken for an old one.
#[test]
fn lost_numbers_leave_nothing_behind() {
    let mut numbers = Numbers::new();
    let mut stream = Seed(4).stream("lost", 0, 0);
    let seq = |number: u32| Name { number, attempt: 0, source: 0 }.seq();
    let mut late = None;
    for number in 0..4 * 65_535u32 {
        assert!(!numbers.has(seq(number)), "{number} is new");
        if stream.random_bool(0.3) {
            late = Some(number);
            continue;
        }
        numbers.add(seq(number));
        if let Some(late) = late.take().filter(|_| stream.random_bool(0.3)) {
            numbers.add(seq(late));
            assert!(numbers.has(seq(late)) && numbers.has(seq(number)));
        }
    }
}
