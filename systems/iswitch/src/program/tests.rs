//! Tests of one switch, by hand and with a simple model.

use pktgen_core::config::Value;
use pktgen_core::record::Book;
use pktgen_core::units::{Rate, Size};
use pktgen_engine::frame::Pool;
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::Outbox;
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::queue::Fifo;
use pktgen_wire::wire::frame::{Template, worker_ip};
use pktgen_wire::wire::update::{FLAG_MERGED, PORT, Status, UPDATE_HEAD, WORKER_PORT, values};
use proptest::prelude::*;

use super::*;

const BYTES: usize = HEAD + UPDATE_HEAD + 8;
const WORKERS: u32 = 6;

/// Three clusters of two workers on one host, port 0; the server, node 2, is at port 1.
struct Rig {
    program: Box<dyn Program>,
    pool: Pool,
    books: Books,
    ports: Vec<Port>,
    out: Outbox,
}

/// A packet: its sender, number, generation time, and contents.
#[derive(Clone, Copy, Debug)]
struct Part {
    worker: u32,
    seq: u32,
    cluster: u16,
    generation: Time,
    numbers: [f32; 2],
}

fn part(worker: u32, seq: u32) -> Part {
    let numbers = [1.0 + worker as f32, 0.5];
    Part { worker, seq, cluster: (worker / 2) as u16, generation: i64::from(seq), numbers }
}

/// A sum that left: time, cluster, count, whether it was partial, the newest member, the bits of the numbers.
type Left = (Time, u16, u16, bool, PacketId, Vec<u32>);

fn place() -> Place {
    Place {
        routes: vec![0, pktgen_core::topology::NO_PORT, 1].into(),
        server: 2,
        group_ports: Arc::new(vec![vec![0]; 3].into()),
        ..Place::bare(1, Population::regular(3, 2), Vec::new(), BYTES)
    }
}

impl Rig {
    fn new(keys: &[(&str, Value)]) -> Rig {
        let program = IswitchKind.open(&mut Section::of("target", keys), place()).unwrap();
        let timing = PortTiming::link(Rate::from_bps(1_000_000_000_000), Size::default(), 0);
        let ports = (0..2).map(|link| Port::new(link, Box::new(Fifo::new(1024, true)), &timing)).collect();
        Rig { program, pool: Pool::new(BYTES, 8), books: Books::default(), ports, out: Outbox::default() }
    }

    fn frame(&mut self, t: Time, part: Part) -> Frame {
        let Part { worker, seq, cluster, generation, numbers } = part;
        let buffer = self.pool.take();
        let bytes = &mut self.pool.bytes_mut(buffer)[..BYTES];
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), BYTES).emit(bytes);
        let (flags, count, attempt, elements, reward) = (0, 1, 0, 2, worker as f32);
        let header = Header { flags, cluster, count, worker, seq, generation, attempt, elements, reward };
        header.emit_update(&mut bytes[HEAD..]);
        for (bytes, number) in bytes[HEAD + UPDATE_HEAD..].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *bytes = number.to_le_bytes();
        }
        let (packet, len, head) = (PacketId::new(worker, seq, 0), BYTES as u16, HEAD as u8);
        Frame { t, packet, buffer, worker, len, cluster, flow: 2, head, kind: Kind::Update }
    }

    fn give(&mut self, frame: Frame) {
        let mut touched = Vec::new();
        let mut context = Context::new(&mut self.pool, &mut self.books, &mut self.ports, &mut self.out, &mut touched);
        self.program.on_burst(&[frame], &mut context);
    }

    fn send(&mut self, t: Time, part: Part) {
        let frame = self.frame(t, part);
        self.give(frame);
    }

    /// Returns all frames that left, with their ports.
    fn frames(&mut self) -> Vec<(u32, Frame)> {
        for port in &mut self.ports {
            port.advance(i64::MAX / 8, &mut self.pool, &mut self.books, &mut self.out);
        }
        self.out.frames.drain(..).collect()
    }

    /// Returns the sums that left and releases their buffers.
    fn left(&mut self) -> Vec<(u16, u16, bool, PacketId, Vec<u32>)> {
        let frames = self.frames();
        let read = |(_, frame): (u32, Frame)| {
            let payload = self.pool.payload(&frame);
            let header = Header::parse_update(payload).unwrap();
            assert_eq!(header.packet(), frame.packet);
            assert_eq!(header.flags & FLAG_MERGED != 0, header.count > 1);
            let numbers = values(payload, &header).as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
            self.pool.release(frame.buffer);
            (header.cluster, header.count, header.flags & FLAG_PARTIAL != 0, frame.packet, numbers)
        };
        frames.into_iter().map(read).collect()
    }

    fn counter(&self, name: &str) -> u64 {
        self.program.counters().iter().find(|own| own.name == name).unwrap().value
    }

    fn dropped(&self) -> Vec<(PacketId, Reason)> {
        let row = |row: &Book| Some((row.packet_in, row.reason?));
        self.books.rows.iter().filter_map(row).collect()
    }
}

fn bits(numbers: [f32; 2]) -> Vec<u32> {
    numbers.map(f32::to_bits).to_vec()
}

#[test]
fn a_sum_leaves_with_the_contribution_that_reaches_the_threshold() {
    let mut rig = Rig::new(&[("threshold", 3u32.into())]);
    rig.send(1, part(0, 0));
    rig.send(2, part(1, 0));
    rig.send(3, part(2, 0));
    assert!(rig.left().is_empty() && rig.program.held() == 2);
    // A worker that is already in the sum is added again.
    rig.send(4, part(0, 1));
    assert_eq!(rig.left(), [(0, 3, false, PacketId::new(0, 1, 0), bits([4.0, 1.5]))]);
    assert_eq!((rig.counter("sums"), rig.counter("open_at_end"), rig.program.next_wake()), (1, 1, NEVER));
}

#[test]
fn the_threshold_is_all_workers_of_a_cluster_if_none_is_set() {
    let mut rig = Rig::new(&[]);
    rig.send(1, part(0, 0));
    rig.send(2, part(1, 0));
    assert_eq!(rig.left(), [(0, 2, false, PacketId::new(1, 0, 0), bits([3.0, 1.0]))]);
}

#[test]
fn old_sums_leave_partial_at_their_deadline() {
    let mut rig = Rig::new(&[("timeout", "1ns".into())]);
    rig.send(5, part(2, 0));
    rig.send(7, part(0, 0));
    assert_eq!(rig.program.next_wake(), 1005);
    rig.send(1006, part(4, 0));
    assert_eq!(rig.left(), [(1, 1, true, PacketId::new(2, 0, 0), bits([3.0, 0.5]))]);
    assert_eq!((rig.counter("sums_partial"), rig.program.next_wake()), (1, 1007));
}

#[test]
fn sums_with_the_same_deadline_leave_in_the_order_in_which_they_were_opened() {
    let mut rig = Rig::new(&[("timeout", "1ns".into())]);
    // The first sum of cluster 0 is complete; the second is opened after that of cluster 1.
    for part in [part(0, 0), part(2, 0), part(1, 0), part(0, 1)] {
        rig.send(5, part);
    }
    assert_eq!((rig.program.held(), rig.program.next_wake()), (2, 1005));
    rig.send(1006, part(4, 0));
    let left: Vec<_> = rig.left().into_iter().map(|(cluster, count, partial, ..)| (cluster, count, partial)).collect();
    assert_eq!(left, [(0, 2, false), (1, 1, true), (0, 1, true)]);
    assert_eq!((rig.counter("open_at_end"), rig.program.next_wake()), (1, 2006));
}

/// A sum that stays open is in front of the deadlines of all that complete meanwhile: at most two per cluster are kept.
#[test]
fn deadlines_of_sums_that_left_are_bounded() {
    let mut rig = Rig::new(&[]);
    let mut program = Iswitch::open(&mut Section::of("target", &[("timeout", "1ms".into())]), place()).unwrap();
    let give = |program: &mut Iswitch, rig: &mut Rig, t: Time, part: Part| {
        let (frame, mut touched) = (rig.frame(t, part), Vec::new());
        let mut context = Context::new(&mut rig.pool, &mut rig.books, &mut rig.ports, &mut rig.out, &mut touched);
        program.on_burst(&[frame], &mut context);
    };
    give(&mut program, &mut rig, 1, part(2, 0));
    let mut longest = 0;
    for seq in 0..40 {
        for worker in [0, 1] {
            give(&mut program, &mut rig, 2 + Time::from(seq), part(worker, seq));
        }
        assert_eq!(rig.left().len(), 1);
        longest = longest.max(program.deadlines.len());
    }
    assert_eq!((longest, program.held(), program.next_wake()), (2 * 3, 1, 1 + pktgen_core::time::MS));
}

#[test]
fn copies_are_left_out_and_what_is_unknown_is_refused() {
    let mut rig = Rig::new(&[]);
    rig.send(1, part(0, 0));
    rig.send(2, part(0, 0));
    rig.send(3, Part { cluster: 3, ..part(1, 0) });
    let short = rig.frame(4, part(1, 1));
    rig.give(Frame { len: 60, ..short });
    let (one, two) = (PacketId::new(1, 0, 0), PacketId::new(1, 1, 0));
    assert_eq!(rig.dropped(), [(one, Reason::UnknownJob), (two, Reason::Malformed)]);
    assert_eq!((rig.counter("copies"), rig.program.held(), rig.pool.in_use()), (1, 1, 1));
}

#[test]
fn answers_go_to_the_cluster() {
    let mut rig = Rig::new(&[]);
    let mut answer = rig.frame(0, part(2, 0));
    let bytes = &mut rig.pool.bytes_mut(answer.buffer)[..BYTES];
    Template::new((SERVER_IP, PORT), (worker_ip(2), WORKER_PORT), BYTES).emit(bytes);
    let header = Header { elements: 0, ..Header::parse_update(&bytes[HEAD..]).unwrap() };
    Ack { header, status: Status::default() }.emit(&mut bytes[HEAD..]);
    (answer.kind, answer.flow) = (Kind::Control, 0);
    rig.give(answer);
    let left = rig.frames();
    assert_eq!((left.len(), left[0].0), (1, 0));
    assert_eq!(pktgen_wire::wire::frame::target_ip(rig.pool.frame(&left[0].1)), group_ip(1));
}

#[test]
fn keys_that_cannot_be_are_named() {
    for (key, value) in [("threshold", Value::Integer(0)), ("timeout", "0us".into())] {
        let place = Place::bare(0, Population::regular(1, 1), Vec::new(), 64);
        let message = IswitchKind.open(&mut Section::of("target", &[(key, value)]), place).err().unwrap().to_string();
        assert!(message.contains(key), "{message}");
    }
}

/// A simple model of the documentation: all packets that ever arrived, and the members of open sums.
#[derive(Default)]
struct Model {
    came: Vec<Part>,
    open: Vec<(Time, u16, Vec<Part>)>,
    left: Vec<Left>,
}

impl Model {
    fn leaves(&mut self, t: Time, at: usize, partial: bool) {
        let (_, cluster, members) = self.open.remove(at);
        let mut sum = members[0].numbers;
        for part in &members[1..] {
            sum = [sum[0] + part.numbers[0], sum[1] + part.numbers[1]];
        }
        let newest = members.iter().max_by_key(|part| part.generation).unwrap();
        let packet = PacketId::new(newest.worker, newest.seq, 0);
        self.left.push((t, cluster, members.len() as u16, partial, packet, bits(sum)));
    }

    fn send(&mut self, t: Time, part: Part, threshold: usize, timeout: Time) {
        while self.open.first().is_some_and(|(since, ..)| since + timeout <= t) {
            self.leaves(self.open[0].0 + timeout, 0, true);
        }
        if part.cluster > 2 {
            return;
        }
        let own = self.came.iter().rev().filter(|other| other.worker == part.worker);
        if own.take(REMEMBERED).any(|other| other.seq == part.seq) {
            return;
        }
        self.came.push(part);
        let at = self.open.iter().position(|(_, cluster, _)| *cluster == part.cluster).unwrap_or_else(|| {
            self.open.push((t, part.cluster, Vec::new()));
            self.open.len() - 1
        });
        self.open[at].2.push(part);
        if self.open[at].2.len() >= threshold {
            self.leaves(t, at, false);
        }
    }
}

proptest! {
    #[test]
    fn it_does_what_the_model_does(
        steps in prop::collection::vec((0..WORKERS, 0u8..10, 0i64..900, 0i64..50, -1e9f32..1e9, -1.0f32..1.0), 1..150),
        threshold in 1u32..7, timeout: bool,
    ) {
        let mut keys: Vec<(&str, Value)> = vec![("threshold", threshold.into())];
        if timeout {
            keys.push(("timeout", "2ns".into()));
        }
        let (mut rig, mut model, mut t) = (Rig::new(&keys), Model::default(), 0);
        let mut sent: Vec<Part> = Vec::new();
        for (i, (worker, what, after, generation, a, b)) in steps.into_iter().enumerate() {
            let cluster = if what == 0 { 7 } else { (worker / 2) as u16 };
            let new = Part { worker, seq: i as u32, cluster, generation, numbers: [a, b] };
            // A copy of one of the last packets of any sender.
            let copied = sent.len().checked_sub(usize::from(what)).filter(|at| (1..4).contains(&what) && *at < sent.len());
            let part = copied.map_or(new, |at| sent[at]);
            if copied.is_none() {
                sent.push(part);
            }
            t += after;
            rig.send(t, part);
            model.send(t, part, threshold as usize, if timeout { 2_000 } else { i64::MAX / 8 });
        }
        let expected: Vec<_> = model.left.iter().map(|(_, c, n, p, id, bits)| (*c, *n, *p, *id, bits.clone())).collect();
        let departures = rig.left();
        prop_assert_eq!(departures, expected);
        prop_assert_eq!((rig.program.held(), rig.pool.in_use()), (model.open.len(), model.open.len()));
    }
}
