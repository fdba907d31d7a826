//! Tests of the switch by hand, and compared with simple models over a network that loses, duplicates and delays packets (`faults`).

mod faults;
mod racks;
mod rig;
mod state;

use crate::format::control::{Control, What};
use crate::format::{HEADER, ResultHead, hot_pairs, pairs};
use pktgen_core::config::{Document, Value};
use pktgen_core::record::{Book, PacketId};
use pktgen_core::topology::NO_PORT;
use pktgen_wire::wire::frame::{Datagram, SERVER_IP, group_ip, set_udp_checksum, worker_ip};
use proptest::prelude::*;

use super::*;
use rig::{HOT, LATENCY, Rig, SERVER_LINK, open, place};

fn row(book: &Book) -> (Time, PacketId, Action, Option<PacketId>, Option<Reason>) {
    (book.t, book.packet_in, book.action, book.packet_out, book.reason)
}

fn id(worker: u32, number: u32, attempt: u8) -> PacketId {
    PacketId::new(worker, number * 2, attempt)
}

/// Returns header, head and pairs of a result.
fn result(bytes: &[u8]) -> (Header, ResultHead, Vec<(u32, f32)>) {
    let payload = Datagram::parse(bytes).unwrap().payload;
    let (header, head) = (Header::parse(payload).unwrap(), ResultHead::parse(payload).unwrap());
    assert_eq!(header.kind, Wire::Result);
    (header, head, hot_pairs(pairs(payload)).collect())
}

fn kind(bytes: &[u8]) -> Wire {
    Header::parse(&bytes[HEAD..]).unwrap().kind
}

#[test]
fn an_iteration_by_hand() {
    let mut rig = Rig::new(place(1, 2), &[]);
    let opened = rig.push(1, 0, 0, &[(3, 1.0), (70, 0.5)], 10);
    assert_eq!((opened.len(), opened[0].link, opened[0].bytes.len()), (1, 1, 48));
    let ack = Datagram::parse(&opened[0].bytes).unwrap();
    assert_eq!((ack.dst, kind(&opened[0].bytes), opened[0].frame.kind), (worker_ip(1), Wire::Ack, Kind::Control));
    assert_eq!(opened[0].frame.t, 10 + LATENCY);
    // Indices 3 and 67 are in the same of 64 registers: one more pass, and 88 bytes on the recirculation port.
    let twice = rig.push(0, 0, 0, &[(3, 2.0), (67, 1.0)], 20);
    assert_eq!(twice[0].frame.t, 10 + LATENCY + 2 * LATENCY + 7_040, "the clock stands at the ACK before");
    // A further attempt is a duplicate and acknowledged; a copy made by the network has no row.
    assert_eq!(kind(&rig.push(0, 0, 1, &[(3, 2.0), (67, 1.0)], 30)[0].bytes), Wire::Ack);
    assert_eq!(kind(&rig.push(0, 0, 0, &[(3, 2.0), (67, 1.0)], 40)[0].bytes), Wire::Ack);
    assert_eq!(rig.end(0, 1, 0, 50).len(), 1);
    assert_eq!(rig.end(0, 1, 0, 60).len(), 1, "acknowledged again");
    let all = rig.end(1, 1, 0, 70);
    assert_eq!(all.iter().map(|left| left.link).collect::<Vec<_>>(), [1, 0, 1], "an ACK, and the result to both");
    let (header, head, sums) = result(&all[1].bytes);
    assert_eq!(
        (header.seq, header.attempt, head),
        (0, 0, ResultHead { part: 0, parts: 1, iteration: 0, opener: Some(id(1, 0, 0)) })
    );
    assert_eq!(sums, [(3, 3.0), (67, 1.0), (70, 0.5)]);
    assert_eq!((all[1].frame.kind, all[1].frame.packet), (Kind::Result, id(1, 0, 0)));
    assert_eq!(Datagram::parse(&all[1].bytes).unwrap().dst, group_ip(0));
    use Action::{Departed, Dropped, Merged};
    let rows: Vec<_> = rig.books.rows.iter().map(row).collect();
    assert_eq!(rows[0], (10, id(1, 0, 0), Merged, Some(id(1, 0, 0)), None));
    assert_eq!(rows[1], (10 + LATENCY, id(0, 0, 0), Merged, Some(id(1, 0, 0)), None));
    assert_eq!((rows[2].1, rows[2].2, rows[2].4), (id(0, 0, 1), Dropped, Some(Reason::Duplicate)));
    assert_eq!((rows[3].1, rows[3].2, rows.len()), (id(1, 0, 0), Departed, 4));
    // Only added packets are recirculated: once, though that packet arrived three times.
    let counts = [
        "packets",
        "added",
        "pairs",
        "acks",
        "duplicates",
        "copies",
        "recirculations",
        "passes_max",
        "ends",
        "results",
    ];
    assert_eq!(counts.map(|name| rig.counter(name)), [4, 2, 4, 7, 1, 1, 1, 2, 2, 1]);
}

#[test]
fn what_no_worker_acknowledges_is_sent_again_to_those_alone_and_given_up_in_the_end() {
    let mut rig = Rig::new(place(1, 3), &[("result_timeout", "1us".into()), ("cpu_latency", "5us".into())]);
    rig.push(0, 0, 0, &[(1, 1.0)], 0);
    (0..3).for_each(|worker| _ = rig.end(worker, u32::from(worker == 0), 0, 0));
    rig.result_ack(1, 0, rig.now());
    let (mut sent, mut times) = (Vec::new(), Vec::new());
    while rig.program.next_wake() != pktgen_core::time::NEVER {
        times.push(rig.program.next_wake());
        let left = rig.timer();
        sent.extend(left);
    }
    assert_eq!(sent.len(), 2 * 15);
    for (i, left) in sent.iter().enumerate() {
        let (header, head, sums) = result(&left.bytes);
        let worker = [0, 2][i % 2];
        assert_eq!((header.attempt, left.link, left.frame.worker), ((i / 2 + 1) as u8, worker, worker));
        assert_eq!((Datagram::parse(&left.bytes).unwrap().dst, head.opener), (worker_ip(worker), Some(id(0, 0, 0))));
        assert_eq!(sums, [(1, 1.0)]);
    }
    assert_eq!((rig.counter("results_resent"), rig.counter("results_given_up")), (30, 2));
    let last = sent[29].frame.t - sent[27].frame.t;
    assert_eq!(last, 16_000_000 + 5_000_000 + LATENCY, "doubled up to 16 times, from when the CPU has sent it");
    // Late ACKs of any kind change nothing.
    rig.result_ack(0, 0, rig.now());
    rig.result_ack(0, 77, rig.now());
    assert_eq!(rig.pool.in_use(), 0);
}

#[test]
fn an_iteration_without_pushes_ends_with_a_result_that_no_book_knows() {
    let mut rig = Rig::new(place(1, 2), &[]);
    rig.end(0, 0, 0, 0);
    let all = rig.end(1, 0, 0, 0);
    let (header, head, sums) = result(&all[1].bytes);
    assert_eq!((header.seq, head, sums.len()), (0, ResultHead { part: 0, parts: 1, iteration: 0, opener: None }, 0));
    assert!(all.iter().all(|left| left.frame.kind == Kind::Control) && rig.books.rows.is_empty());
    // The end of the next iteration shows that a worker has all results of this one.
    rig.end(0, 1, 1, rig.now());
    rig.end(1, 1, 1, rig.now());
    let left: Vec<_> = (0..2).flat_map(|_| rig.timer()).collect();
    assert!(left.len() == 2 && left.iter().all(|left| result(&left.bytes).0.seq == 2), "only the second is sent again");
}

#[test]
fn what_the_switch_does_not_take_is_dropped_by_name_or_goes_on() {
    let mut rig = Rig::new(place(2, 1), &[("records", 512u32.into())]);
    let push = |worker, job, seq| (worker, Header { kind: Wire::Push, attempt: 0, job, seq });
    let cases = [
        (push(5, 0, 0), 1, Reason::UnknownSource),
        (push(0, 1, 0), 1, Reason::UnknownSource),
        (push(0, 2, 0), 1, Reason::UnknownJob),
        (push(0, 0, 0), HOT, Reason::Malformed),
        (push(0, 0, 1024), 1, Reason::TableFull),
    ];
    for ((worker, header), index, _) in cases {
        assert_eq!(rig.send(worker, header, &[(index, 1.0)], 0).len(), 0);
    }
    // Three parameters of one register take three passes, but a packet may be recirculated only once.
    assert_eq!(rig.push(0, 0, 0, &[(0, 1.0), (64, 1.0), (128, 1.0)], 0).len(), 0);
    let mut reasons: Vec<_> = cases.iter().map(|case| Some(case.2)).collect();
    reasons.push(Some(Reason::Malformed));
    assert_eq!(rig.books.rows.iter().map(|row| row.reason).collect::<Vec<_>>(), reasons);
    assert_eq!((rig.counter("too_many_passes"), rig.counter("beyond_window"), rig.counter("acks")), (1, 1, 0));
    // Cold packets are forwarded to the server unchanged.
    let cold = Header { kind: Wire::Push, attempt: 0, job: 0, seq: 1 };
    let left = rig.send_bytes(0, cold, &[7; 24], 0);
    assert_eq!((left.len(), left[0].link, &left[0].bytes[HEAD + HEADER..]), (1, SERVER_LINK, &[7; 24][..]));
    assert_eq!(rig.pool.in_use(), 0);
}

#[test]
fn pulls_are_turned_around_with_the_registers_in_them() {
    let mut place = place(1, 2);
    place.sparse.as_mut().unwrap().asynchronous = true;
    let mut rig = Rig::new(place, &[]);
    rig.push(0, 0, 0, &[(5, 1.5), (9, 2.0)], 0);
    for attempt in [0, 0, 1] {
        let header = Header { kind: Wire::Pull, attempt, job: 0, seq: 0 };
        let left = rig.send(1, header, &[(9, 0.0), (8, 0.0), (5, 0.0)], rig.now());
        assert_eq!((left.len(), left[0].link, left[0].frame.kind), (1, 1, Kind::Control));
        let datagram = Datagram::parse(&left[0].bytes).unwrap();
        assert_eq!((Header::parse(datagram.payload), datagram.dst), (Some(header), worker_ip(1)));
        assert!(hot_pairs(pairs(datagram.payload)).eq([(9, 2.0), (8, 0.0), (5, 1.5)]));
    }
    assert_eq!((rig.counter("pulls"), rig.books.rows.len()), (3, 1));
}

#[test]
fn beside_standby_switches_the_middle_only_steers() {
    // Nodes 5 and 6 add up; their ports are 4 and 5 of node 0.
    let beside = |node| {
        let mut place = place(1, 2);
        place.node = node;
        place.aggregators = std::sync::Arc::new(vec![5, 6]);
        place.routes = vec![NO_PORT, SERVER_LINK as u16, NO_PORT, NO_PORT, NO_PORT, 0, 1].into();
        if node != 0 {
            place.jobs = std::sync::Arc::default();
        }
        place
    };
    let mut middle = Rig::new(beside(0), &[]);
    assert_eq!((middle.program.role, middle.push(0, 0, 0, &[(1, 1.0)], 0)[0].link), (Role::Steers, 0));
    middle.program.activate(6);
    middle.program.activate(3);
    let left = middle.push(0, 1, 0, &[(1, 1.0)], 0);
    assert_eq!((left[0].link, left[0].frame.kind), (1, Kind::Update), "on to the other one, as it is");
    assert_eq!(
        middle.send_bytes(0, Header { kind: Wire::Push, attempt: 0, job: 0, seq: 1 }, &[], 0)[0].link,
        SERVER_LINK
    );
    // The answer of one of them comes back the same way, and the middle device finds the workers.
    let mut sums = Rig::new(beside(5), &[]);
    let ack = sums.push(0, 0, 0, &[(1, 1.0)], 0).remove(0);
    assert_eq!(ack.link, SERVER_LINK);
    assert_eq!(middle.pass(&ack)[0].link, 0);
    sums.end(0, 1, 0, sums.now());
    let all = sums.end(1, 0, 0, sums.now());
    assert_eq!(all.len(), 2, "one ACK, and one result for all");
    assert_eq!(middle.pass(&all[1]).iter().map(|left| left.link).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(middle.counter("memory_bytes"), 0);
}

#[test]
fn a_switch_that_began_is_prepared_again_in_a_later_change() {
    // Node 6 is a standby switch beside node 5, and the controller is at the server.
    let mut place = place(1, 2);
    (place.node, place.aggregators) = (6, std::sync::Arc::new(vec![5, 6]));
    place.routes = vec![NO_PORT, SERVER_LINK as u16, NO_PORT, NO_PORT, NO_PORT, NO_PORT, NO_PORT].into();
    let mut rig = Rig::new(place, &[]);
    let mut ask = |session, what| {
        let control = Control { from: 1, to: 6, session, what };
        let mut content = vec![0; control.len()];
        control.emit(&mut content);
        let header = Header { kind: Wire::Control, attempt: 0, job: 0, seq: 0 };
        let frame = Frame { flow: 6, ..rig.frame(0, header, &content, rig.now()) };
        rig.burst(&[frame]);
        let left = rig.finish();
        let answers = left.iter().map(|left| Control::parse(&left.bytes[HEAD + HEADER..]).unwrap());
        answers.map(|answer| (answer.session, format!("{:?}", answer.what))).collect::<Vec<_>>()
    };
    let answer = |session, what: &str| vec![(session, what.to_owned())];
    for (session, fresh) in [(1, false), (3, true)] {
        assert_eq!(ask(session, What::Prepare { fresh }), answer(session, "Prepared"));
        assert_eq!(ask(session, What::Begin), answer(session, "Begun"));
        assert_eq!(ask(session + 1, What::Prepare { fresh }), answer(session + 1, "Prepared"));
    }
    assert_eq!(rig.program.failover.duty, Duty::Restoring);
}

#[test]
fn settings_that_cannot_be_are_refused_with_the_way_out() {
    let fails = |place: Place, values: &[(&str, Value)], parts: &[&str]| {
        let Err(error) = open(place, values) else { panic!("accepted: {values:?}") };
        let message = error.to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    fails(Place { sparse: None, ..place(1, 1) }, &[], &["target.program", "endpoint.workers"]);
    fails(
        place(2, 1),
        &[("memory", "1kB".into())],
        &["target.memory", "125", "2 jobs", "workload.hot is 200", "1600 B"],
    );
    assert!(open(place(2, 1), &[("memory", "1600B".into())]).is_ok());
    fails(place(1, 1), &[("add", "fast".into())], &["target.add", "tables, exact"]);
    fails(place(1, 1), &[("repeat_writes", "no".into())], &["target.repeat_writes", "strict", "paper", "bloom"]);
    fails(place(1, 1), &[("records", 100u32.into())], &["target.records", "256", "endpoint.window"]);
    fails(place(1, 1), &[("bloom_bits", 8u32.into())], &["target.bloom_bits", "64 to"]);
    fails(place(1, 1), &[("bloom_hashes", 0u32.into())], &["target.bloom_hashes", "1 to 16"]);
    fails(place(1, 1), &[("pass_latency", "2s".into())], &["target.pass_latency", "1s"]);
    fails(place(1, 1), &[("result_timeout", "0s".into())], &["target.result_timeout", "1s"]);
    let twelve =
        Libra::open(&mut Section::of("target", &[]), place(1, 1)).err().expect("64 registers are too many").to_string();
    for part in ["target.stages: 12", "64 registers", "21", "28 endpoint.registers or fewer"] {
        assert!(twelve.contains(part), "{twelve}");
    }
    // The place of the key in a file is named once.
    let mut document = Document::parse("[target]\nstages = 1\n", "x.toml").unwrap();
    let one = Libra::open(&mut document.section("target").unwrap(), place(1, 1)).err().expect("one stage").to_string();
    assert!(one.starts_with("x.toml:2:") && one.ends_with("; say with target.stages how many the switch has"));
    fails(place(1, 1), &[("stages", 0u32.into())], &["target.stages", "1 to 1000"]);
}

#[test]
fn what_is_recirculated_waits_for_the_port_that_leads_back() {
    // One after another, each twice through the pipeline: (42 + 6 + 2 · 8 + 24) bytes take 704 ns at 1 Gbit/s.
    let acks = |rate: &str| {
        let mut rig = Rig::new(place(1, 2), &[("recirculation_rate", rate.into())]);
        let frames = [0, 1].map(|worker| {
            let header = Header { kind: Wire::Push, attempt: 0, job: 0, seq: 0 };
            rig.frame(worker, header, &rig::hot(&[(3, 1.0), (67, 1.0)]), 0)
        });
        rig.burst(&frames);
        assert_eq!(rig.finish().len(), 2, "ACKs");
        (rig.now(), rig.counter("recirculated_bytes"), rig.counter("recirculation_wait_max_ns"))
    };
    assert_eq!(acks("1Gbps"), (400_000 + 2 * 704_000 + 400_000, 2 * 88, 704));
    assert_eq!(acks("0bps"), (800_000, 2 * 88, 0));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_dropped_or_summed_and_never_panic(
        packets in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 1..150), 0u32..5, 0u8..5, 0u8..160, 0u8..5, any::<u16>()), 1..40),
        writes in prop::sample::select(vec!["strict", "paper", "bloom"]), checksum: bool,
    ) {
        let place = Place { udp_checksum: checksum, ..place(2, 2) };
        let mut rig = Rig::new(place, &[("repeat_writes", writes.into()), ("bloom_bits", 64u32.into())]);
        for (i, (bytes, worker, what, at, kind, noise)) in packets.iter().enumerate() {
            let wire = [Wire::Push, Wire::End, Wire::Ack, Wire::Pull, Wire::Control][usize::from(noise % 5)];
            let header = Header { kind: wire, attempt: (noise >> 4) as u8 % 3, job: (noise >> 8) as u8 % 3, seq: u32::from(noise >> 10) };
            let content: &[u8] = if wire == Wire::End { &[0, 0, 0, 1] } else { &bytes[..bytes.len() / 8 * 8] };
            let frame = rig.frame(*worker, header, if wire == Wire::Ack { &[] } else { content }, i as Time);
            let frame = match what {
                0 => {
                    rig.pool.bytes_mut(frame.buffer)[..bytes.len()].copy_from_slice(bytes);
                    Frame { len: bytes.len() as u16, head: (*at).min(bytes.len() as u8), ..frame }
                }
                1 => {
                    rig.pool.bytes_mut(frame.buffer)[usize::from(*at)] = bytes[0];
                    frame
                }
                2 => {
                    let kinds = [Kind::Update, Kind::Plain, Kind::Control, Kind::Result, Kind::Request];
                    Frame { kind: kinds[usize::from(*kind)], ..frame }
                }
                3 => Frame { len: frame.len - u16::from(*at).min(frame.len), head: frame.head.min((frame.len - u16::from(*at).min(frame.len)) as u8), ..frame },
                _ => frame,
            };
            rig.burst(&[frame]);
        }
        let mut left = rig.leave();
        while rig.program.next_wake() != pktgen_core::time::NEVER {
            left.extend(rig.timer());
        }
        prop_assert_eq!(rig.pool.in_use(), 0);
        for left in left.iter().filter(|left| checksum && source_ip(&left.bytes) == SERVER_IP) {
            let mut again = left.bytes.clone();
            set_udp_checksum(&mut again);
            prop_assert_eq!(&again, &left.bytes);
        }
    }

    /// The output and the records of a switch do not depend on how arrivals are split into bursts.
    #[test]
    fn splitting_a_burst_changes_nothing(
        packets in prop::collection::vec((0u32..4, 0u32..6, 0u8..3, 0u32..HOT, 0u8..8), 1..60),
        sizes in prop::collection::vec(1usize..8, 1..20),
    ) {
        let run = |sizes: &[usize]| {
            let mut rig = Rig::new(place(2, 2), &[]);
            let frames: Vec<_> = packets.iter().enumerate().map(|(i, &(worker, number, attempt, index, what))| {
                let kind = match what { 0 => Wire::End, 1 => Wire::Pull, 2 => Wire::Ack, _ => Wire::Push };
                let header = Header { kind, attempt, job: (worker / 2) as u8, seq: number * 2 };
                let content = rig::hot(&[(index, number as f32 + 1.0), (index / 2, 2.0)]);
                let content: &[u8] = match kind { Wire::End => &number.to_be_bytes(), Wire::Ack => &[], _ => &content };
                rig.frame(worker, header, content, i as Time * 150_000)
            }).collect();
            let (mut rest, mut sizes) = (&frames[..], sizes.iter().cycle());
            while !rest.is_empty() {
                let size = sizes.next().copied().unwrap_or(1).min(rest.len());
                rig.burst(&rest[..size]);
                rest = &rest[size..];
            }
            let mut left = rig.leave();
            while rig.program.next_wake() != pktgen_core::time::NEVER {
                left.extend(rig.timer());
            }
            left.sort_by_key(|left| (left.link, left.frame.t));
            let left: Vec<_> = left.into_iter().map(|left| (left.link, left.frame.t, left.bytes)).collect();
            (left, rig.books.rows.iter().map(row).collect::<Vec<_>>())
        };
        let whole = run(&[packets.len()]);
        prop_assert_eq!(&whole, &run(&sizes));
        prop_assert_eq!(&whole, &run(&[1]));
    }
}
