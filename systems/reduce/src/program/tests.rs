//! Tests of one aggregator by hand: sums, refusals, and timeouts.

use pktgen_core::config::Value;
use pktgen_core::plan::{FlowSource, Plan, PlanFlow, PlanLink, PlanNode, PlanRole};
use pktgen_core::record::{Book, PacketId};
use pktgen_core::time::{SECOND, US};
use pktgen_core::topology::{Population, Role, Topology};
use pktgen_core::units::{Rate, Size};
use pktgen_wire::wire::frame::{HEAD, worker_ip};
use pktgen_wire::wire::update::{FLAG_RESULT, UPDATE_HEAD, values};

use super::*;
use pktgen_engine::frame::Pool;
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::Outbox;
use pktgen_engine::target::flows::Flows;
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::queue::Fifo;

const BYTES: usize = HEAD + UPDATE_HEAD + 8;
const DEVICE: u32 = 1;
const PS: u32 = 2;

/// Three workers of cluster 0 and one of cluster 1 on one host, port 0; the server is at port 1.
struct Rig {
    program: Reduce,
    pool: Pool,
    books: Books,
    ports: Vec<Port>,
    out: Outbox,
}

/// A worker's packet: its number, attempt, and claimed source.
#[derive(Clone, Copy)]
struct Part {
    worker: u32,
    seq: u32,
    attempt: u8,
    cluster: u16,
}

fn part(worker: u32, seq: u32) -> Part {
    Part { worker, seq, attempt: 0, cluster: u16::from(worker == 3) }
}

impl Rig {
    fn new(keys: &[(&str, Value)]) -> Rig {
        let node = |name: &str, role, workers| PlanNode { name: name.into(), role, workers };
        let flow = |source, path: &[usize]| PlanFlow { source, path: path.to_vec() };
        let mut flows: Vec<_> = (0..4).map(|worker| flow(FlowSource::Worker(worker), &[0, 1])).collect();
        flows.push(flow(FlowSource::Aggregator(1), &[1, 2]));
        let plan = Plan {
            version: 1,
            placer: "hand".into(),
            nodes: vec![
                node("h", PlanRole::Host, vec![0, 1, 2, 3]),
                node("sums", PlanRole::Aggregator, Vec::new()),
                node("ps", PlanRole::Server, Vec::new()),
            ],
            links: [(0, 1), (1, 2)].map(|(from, to)| PlanLink { from, to, rate_bps: 1, cost: None }).to_vec(),
            flows,
            rate_bps: None,
            phi: None,
        };
        let mut topology = Topology::default();
        let (host, device) = (topology.add("h", Role::Host(vec![0, 1, 2, 3])), topology.add("sums", Role::Device));
        let server = topology.add("ps", Role::Server);
        let rate = Rate::from_bps(1_000_000_000_000);
        topology.connect(host, device, rate, rate, 0, Size::default());
        topology.connect(device, server, rate, rate, 0, Size::default());
        let cluster_of = vec![0, 0, 0, 1];
        let flows = Flows::new(Arc::new(plan), &topology, &cluster_of);
        let workers = Population { cluster_of, moves: Vec::new() };
        let place = Place {
            routes: vec![0, pktgen_core::topology::NO_PORT, 1].into(),
            server: PS,
            flows: Some(flows.at(DEVICE)),
            ..Place::bare(DEVICE, workers, Vec::new(), BYTES)
        };
        let program = Reduce::open(&mut Section::of("target", keys), place).unwrap();
        let timing = PortTiming::link(rate, Size::default(), 0);
        let ports = (0..2).map(|link| Port::new(link, Box::new(Fifo::new(64, true)), &timing)).collect();
        Rig { program, pool: Pool::new(BYTES, 8), books: Books::default(), ports, out: Outbox::default() }
    }

    fn frame(&mut self, t: Time, part: Part, numbers: [f32; 2]) -> Frame {
        let Part { worker, seq, attempt, cluster } = part;
        let buffer = self.pool.take();
        let bytes = &mut self.pool.bytes_mut(buffer)[..BYTES];
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), BYTES).emit(bytes);
        let header = Header {
            flags: 0,
            cluster,
            count: 1,
            worker,
            seq,
            generation: t,
            attempt,
            elements: 2,
            reward: worker as f32,
        };
        header.emit_update(&mut bytes[HEAD..]);
        for (bytes, number) in bytes[HEAD + UPDATE_HEAD..].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *bytes = number.to_le_bytes();
        }
        let packet = PacketId::new(worker, seq, attempt);
        let (len, head, kind) = (BYTES as u16, HEAD as u8, Kind::Update);
        Frame { t, packet, buffer, worker, len, cluster, flow: PS, head, kind }
    }

    fn give(&mut self, frame: Frame) {
        let (mut touched, frames) = (Vec::new(), [frame]);
        let mut context = Context::new(&mut self.pool, &mut self.books, &mut self.ports, &mut self.out, &mut touched);
        self.program.on_burst(&frames, &mut context);
    }

    fn send(&mut self, t: Time, part: Part) {
        let frame = self.frame(t, part, [1.0 + part.worker as f32, 0.5]);
        self.give(frame);
    }

    /// Returns all frames that left, with their ports.
    fn left(&mut self) -> Vec<(u32, Frame)> {
        for port in &mut self.ports {
            port.advance(i64::MAX / 8, &mut self.pool, &mut self.books, &mut self.out);
        }
        self.out.frames.drain(..).collect()
    }

    fn counter(&self, name: &str) -> u64 {
        self.program.counters().iter().find(|own| own.name == name).unwrap().value
    }

    /// Returns the reasons for dropped packets.
    fn dropped(&self) -> Vec<(PacketId, Reason)> {
        let row = |row: &Book| Some((row.packet_in, row.reason?));
        self.books.rows.iter().filter_map(row).collect()
    }
}

fn sums(rig: &Rig, frame: &Frame) -> Vec<f32> {
    let payload = rig.pool.payload(frame);
    let header = Header::parse_update(payload).unwrap();
    values(payload, &header).as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

#[test]
fn a_sum_leaves_once_when_all_inputs_of_its_cluster_have_come() {
    let mut rig = Rig::new(&[]);
    rig.send(1, part(1, 0));
    rig.send(2, part(0, 0));
    assert!(rig.left().is_empty() && rig.program.held() == 1);
    // The other cluster has one worker: its packet leaves alone under the device's address.
    rig.send(3, part(3, 0));
    rig.send(4, part(2, 0));
    let left = rig.left();
    let said = |rig: &Rig, frame: &Frame| {
        let header = Header::parse_update(rig.pool.payload(frame)).unwrap();
        (header.cluster, header.count, header.worker, header.reward, source_ip(rig.pool.frame(frame)))
    };
    assert_eq!(left.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(said(&rig, &left[0].1), (1, 1, 3, 3.0, device_ip(DEVICE)));
    assert_eq!(said(&rig, &left[1].1), (0, 3, 2, 1.0, device_ip(DEVICE)));
    assert_eq!((sums(&rig, &left[1].1), left[1].1.packet), (vec![6.0, 1.5], PacketId::new(2, 0, 0)));
    assert_eq!((rig.counter("sums"), rig.program.held()), (2, 0));
    let merged = rig.books.rows.iter().filter(|row| row.action == Action::Merged).count();
    assert_eq!(merged, 2);
}

#[test]
fn what_comes_twice_is_not_summed_twice() {
    let mut rig = Rig::new(&[]);
    rig.send(1, part(0, 0));
    // A copy made by the network has no row, since the packet has one fate. Another attempt has its own.
    rig.send(2, part(0, 0));
    rig.send(3, Part { attempt: 1, ..part(0, 0) });
    rig.send(4, part(1, 0));
    rig.send(5, part(2, 0));
    rig.send(6, part(1, 0));
    let left = rig.left();
    assert_eq!((left.len(), sums(&rig, &left[0].1)), (1, vec![6.0, 1.5]));
    assert_eq!(rig.dropped(), [(PacketId::new(0, 0, 1), Reason::Duplicate)]);
    assert_eq!(rig.counter("duplicates"), 3);
    assert_eq!(rig.pool.in_use(), 1);
}

#[test]
fn messages_without_room_are_dropped() {
    let mut rig = Rig::new(&[("open_messages", 2u32.into())]);
    for seq in 0..3 {
        rig.send(i64::from(seq), part(0, seq));
    }
    // The copy that the network made of a refused packet has no row.
    rig.send(3, part(0, 2));
    assert_eq!((rig.dropped(), rig.program.held()), (vec![(PacketId::new(0, 2, 0), Reason::TableFull)], 2));
    for worker in [1, 2] {
        rig.send(9, part(worker, 0));
    }
    rig.send(10, Part { attempt: 1, ..part(0, 2) });
    for _ in 0..2 {
        rig.send(11, Part { attempt: 1, ..part(0, 0) });
    }
    assert_eq!(rig.dropped()[1..], [(PacketId::new(0, 0, 1), Reason::Stale)]);
    assert_eq!((rig.counter("no_room"), rig.counter("late"), rig.counter("open_at_end")), (1, 1, 2));
}

#[test]
fn partial_sums_leave_after_a_timeout_and_say_so() {
    let mut rig = Rig::new(&[("timeout", "2us".into())]);
    rig.send(0, part(0, 0));
    rig.send(US, part(1, 0));
    rig.send(US, part(0, 1));
    assert_eq!(rig.program.next_wake(), 2 * US);
    for worker in [1, 2] {
        rig.send(US + 1, part(worker, 1));
    }
    let whole = rig.left();
    assert_eq!(whole.len(), 1);
    // An arrival after the deadline finds the message closed, whether or not a timer was called.
    rig.send(3 * US, part(2, 0));
    let left = rig.left();
    let header = Header::parse_update(rig.pool.payload(&left[0].1)).unwrap();
    assert_eq!((left.len(), header.count, header.flags & FLAG_PARTIAL != 0), (1, 2, true));
    assert_eq!(Header::parse_update(rig.pool.payload(&whole[0].1)).unwrap().flags & FLAG_PARTIAL, 0);
    assert_eq!((rig.dropped(), rig.program.next_wake()), (vec![(PacketId::new(2, 0, 0), Reason::Late)], NEVER));
    // So do further attempts: the device never had this part.
    for attempt in [1, 1, 2] {
        rig.send(4 * US, Part { attempt, ..part(2, 0) });
    }
    assert_eq!(rig.dropped()[1..], [1, 2].map(|attempt| (PacketId::new(2, 0, attempt), Reason::Late)));
    assert_eq!((rig.counter("sums_partial"), rig.counter("sums"), rig.counter("late")), (1, 2, 3));
}

#[test]
fn timeouts_are_longer_than_those_below_together() {
    assert_eq!([0, 1, 2, 3, 4].map(|levels| timeout_of(5 * US, levels)), [5, 5, 10, 20, 40].map(|n| n * US));
    assert_eq!([64, 65, u32::MAX].map(|levels| timeout_of(5 * US, levels)), [Time::MAX; 3]);
}

#[test]
fn a_part_of_another_size_does_not_count_as_arrived() {
    let mut rig = Rig::new(&[]);
    let give = |rig: &mut Rig, attempt| {
        let frame = rig.frame(1, Part { attempt, ..part(1, 0) }, [2.0, 0.5]);
        let bytes = &mut rig.pool.bytes_mut(frame.buffer)[HEAD..BYTES];
        let header = Header::parse_update(bytes).unwrap();
        Header { elements: 1, ..header }.emit_update(bytes);
        rig.give(frame);
    };
    rig.send(0, part(0, 0));
    for attempt in [0, 0, 1] {
        give(&mut rig, attempt);
    }
    rig.send(2, part(2, 0));
    let left = rig.left();
    let header = Header::parse_update(rig.pool.payload(&left[0].1)).unwrap();
    assert_eq!((left.len(), header.count, header.flags & FLAG_PARTIAL != 0), (1, 2, true));
    give(&mut rig, 2);
    let reasons = [Reason::WrongCount, Reason::WrongCount, Reason::Late];
    let expected: Vec<_> = (0..3).zip(reasons).map(|(attempt, why)| (PacketId::new(1, 0, attempt), why)).collect();
    assert_eq!((rig.dropped(), rig.counter("duplicates")), (expected, 1));
}

/// Message 0 waits for its other parts, while thousands of later messages come and go.
#[test]
fn deadlines_do_not_pile_up_behind_an_open_message() {
    let mut rig = Rig::new(&[("timeout", "1s".into())]);
    rig.send(0, part(0, 0));
    // Every 1024th message has the cell of message 0.
    for seq in (1..5000u32).filter(|seq| seq % 1024 != 0) {
        for worker in 0..3 {
            rig.send(i64::from(seq), part(worker, seq));
        }
        for (_, frame) in rig.left() {
            rig.pool.release(frame.buffer);
        }
        assert!(rig.program.deadlines.len() <= DEADLINES_KEPT, "{seq}");
    }
    assert_eq!((rig.program.next_wake(), rig.program.held()), (SECOND, 1));
    assert_eq!(rig.counter("sums"), 4995);
}

#[test]
fn what_does_not_belong_is_refused() {
    let mut rig = Rig::new(&[]);
    rig.send(0, Part { cluster: 1, ..part(0, 0) });
    rig.send(0, Part { cluster: 9, ..part(0, 1) });
    let short = rig.frame(1, part(1, 2), [0.0; 2]);
    let damaged = Frame { len: 60, ..short };
    rig.give(damaged);
    let stranger = rig.frame(2, part(0, 3), [0.0; 2]);
    let len = usize::from(stranger.len);
    Template::new((worker_ip(77), 1), (SERVER_IP, 2), len).emit(&mut rig.pool.bytes_mut(stranger.buffer)[..len]);
    rig.give(stranger);
    let reasons: Vec<_> = rig.dropped().into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons, [Reason::UnknownJob, Reason::UnknownJob, Reason::Malformed, Reason::NoRoute]);
    assert_eq!(rig.pool.in_use(), 0);
}

#[test]
fn answers_are_copied_to_every_input_of_their_cluster() {
    let mut rig = Rig::new(&[]);
    let mut answer = rig.frame(0, part(0, 0), [3.0, 4.0]);
    let bytes = &mut rig.pool.bytes_mut(answer.buffer)[..BYTES];
    Template::new((SERVER_IP, PORT), (device_ip(DEVICE), WORKER_PORT), BYTES).emit(bytes);
    let header = Header::parse_update(&bytes[HEAD..]).unwrap();
    Header { flags: FLAG_RESULT, ..header }.emit_update(&mut bytes[HEAD..]);
    answer.kind = Kind::Result;
    rig.give(answer);
    let left = rig.left();
    let to: Vec<_> = left.iter().map(|(port, frame)| (*port, target_ip(rig.pool.frame(frame)))).collect();
    assert_eq!(to, [0, 1, 2].map(|worker| (0, worker_ip(worker))));
    assert!(left.iter().all(|(_, frame)| sums(&rig, frame) == [3.0, 4.0]));
    assert!(rig.books.rows.is_empty(), "answers have no place in the books");
}

#[test]
fn keys_that_cannot_be_are_named() {
    for (key, value, part) in [
        ("open_messages", Value::Integer(0), "open_messages"),
        ("timeout", "0us".into(), "timeout"),
        ("aggregators", "SW1".into(), "no list"),
    ] {
        let place = Place::bare(0, Population::regular(1, 1), Vec::new(), 64);
        let message = ReduceKind.open(&mut Section::of("target", &[(key, value)]), place).err().unwrap().to_string();
        assert!(message.contains(part), "{message}");
    }
}
