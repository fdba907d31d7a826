//! Features of AF_XDP alone: several queues of an interface, and zero copy on request.

use std::net::UdpSocket;

use pktgen_core::Error;
use pktgen_realtime::clock::Stopwatch;
use pktgen_realtime::transport::{End, Wire};
use pktgen_testing::HANG;
use pktgen_wire::wire::frame::HEAD;

use crate::support::cases::{BURST, Case, LIVE, XDP, carry, drain, two};
use crate::support::namespace::{FOUR, any_program_attached, cables, in_namespace, ip};

/// Returns ordinary sockets on the workers' interface: one flow each, which the kernel spreads over the queues.
fn flows(count: usize) -> Vec<UdpSocket> {
    ip(&format!("addr add 10.77.0.1/24 dev {}", FOUR[0]));
    ip(&format!("neigh add 10.77.0.2 lladdr 02:00:0a:4d:00:02 dev {}", FOUR[0]));
    let open = || {
        let socket = UdpSocket::bind("10.77.0.1:0").expect("a socket");
        socket.connect("10.77.0.2:9").expect("a destination");
        socket
    };
    (0..count).map(|_| open()).collect()
}

/// Asserts that every datagram of every flow is received immediately, in order within its flow, and on more than one queue.
fn hears_all(wire: &mut dyn Wire) {
    const ROUNDS: u16 = 100;
    let flows = flows(64);
    let mut next = vec![0u16; flows.len()];
    for round in 0..ROUNDS {
        for (number, flow) in (0u16..).zip(&flows) {
            flow.send(&[number.to_be_bytes(), round.to_be_bytes()].concat()).expect("sends");
            let watch = Stopwatch::start();
            wire.wait(HANG.as_nanos() as u64).expect("waits");
            assert!(watch.elapsed() < HANG, "hang guard: whichever the queue, it wakes us");
            let got = wire.receive(9, &mut |arrival| {
                let word = |at: usize| u16::from_be_bytes([arrival.bytes[HEAD + at], arrival.bytes[HEAD + at + 1]]);
                assert_eq!((word(0), word(2)), (number, round));
                next[usize::from(number)] += 1;
            });
            assert_eq!(got.expect("receives").frames, 1);
        }
    }
    assert!(next.iter().all(|count| *count == ROUNDS));
    let counters = wire.counters();
    assert_eq!((counters.received, counters.receive_dropped), (64 * u64::from(ROUNDS), 0));
    let notes = wire.notes();
    let [(key, value)] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!(key, "queues.device.down");
    let counts: Vec<u64> = value.trim_start_matches("received ").split(", ").map(|n| n.parse().unwrap()).collect();
    assert!(counts.len() == 2 && counts.iter().all(|n| *n > 0), "{value}");
    assert_eq!(counts.iter().sum::<u64>(), counters.received);
}

#[test]
fn all_queues_of_an_interface_are_heard() {
    in_namespace(module_path!(), "all_queues_of_an_interface_are_heard", || {
        cables(1500, "numrxqueues 2 numtxqueues 2");
        let Some(mut wires) = XDP.or_skip(XDP.try_open(1514, |plan| plan.queues = 2)) else { return };
        assert!(wires[1].mode().contains("2 queues"), "{}", wires[1].mode());
        hears_all(&mut *wires[End::DeviceDown as usize]);
        for (from, to) in [(End::Workers, End::DeviceDown), (End::Server, End::DeviceUp)] {
            let (from, to) = two(&mut wires, from, to);
            carry(from, to, 50_000, XDP.window, 1514);
        }
        drop(wires);
        assert!(!any_program_attached());
        let Some(mut wires) = LIVE.or_skip(LIVE.try_open(1514, |plan| plan.queues = 2)) else { return };
        let (from, to) = two(&mut wires, End::Workers, End::DeviceDown);
        // Live frames go to the queue of the core that sends them. Send burst by burst, so that frames do not overtake
        // each other when a thread moves to another core.
        carry(from, to, 50_000, BURST, 1514);
        assert!(wires[0].mode().contains("2 queues"), "{}", wires[0].mode());
    });
}

/// With both queues full, every lost frame is counted once, and the queues work as before afterwards.
#[test]
fn what_full_queues_lose_is_counted() {
    in_namespace(module_path!(), "what_full_queues_lose_is_counted", || {
        cables(1500, "numrxqueues 2 numtxqueues 2");
        let Some(mut wires) = XDP.or_skip(XDP.try_open(1514, |plan| plan.queues = 2)) else { return };
        let flows = flows(64);
        let wire = &mut *wires[End::DeviceDown as usize];
        let mut total = 0;
        for _ in 0..2 {
            for _ in 0..500 {
                flows.iter().for_each(|flow| _ = flow.send(&[7; 300]).expect("sends"));
            }
            total += 500 * 64;
            let got = drain(wire, &mut |_| ());
            assert!(got > 4096, "more than one queue holds: {got}");
            let counters = wire.counters();
            assert_eq!(counters.received + counters.receive_dropped, total, "{counters:?}");
            assert!(counters.receive_dropped > 0);
        }
    });
}

#[test]
fn an_interface_that_goes_down_is_an_error_of_its_end() {
    in_namespace(module_path!(), "an_interface_that_goes_down_is_an_error_of_its_end", || {
        for queues in [1, 2] {
            cables(1500, &format!("numrxqueues {queues} numtxqueues {queues}"));
            let Some(mut wires) = XDP.or_skip(XDP.try_open(1514, |plan| plan.queues = queues)) else { return };
            let wire = &mut *wires[End::DeviceDown as usize];
            wire.wait(0).expect("it is up");
            ip(&format!("link set {} down", FOUR[1]));
            let why = wire.wait(1_000_000).expect_err("it is down").to_string();
            assert!(why.contains(&format!("{}: cannot receive", FOUR[1])), "{queues}: {why}");
            drop(wires);
            ip(&format!("link del {}", FOUR[0]));
            ip(&format!("link del {}", FOUR[2]));
        }
    });
}

fn refusal(case: Case, queues: u32, zero_copy: bool) -> String {
    let opened = case.try_open(1514, |plan| (plan.queues, plan.zero_copy) = (queues, zero_copy));
    match opened.map(|wires| wires[0].mode()) {
        Err(Error::Host(why)) => why,
        other => panic!("it is refused as the host's: {other:?}"),
    }
}

#[test]
fn queues_that_are_not_there_or_not_heard_are_refused_with_both_numbers() {
    in_namespace(module_path!(), "queues_that_are_not_there_or_not_heard_are_refused_with_both_numbers", || {
        cables(1500, "numrxqueues 2 numtxqueues 2");
        let names = |why: &str| FOUR.iter().any(|name| why.contains(name));
        for case in [XDP, LIVE] {
            let why = refusal(case, 3, false);
            assert!(why.contains("queues = 3") && why.contains("has 2 receive queues") && names(&why), "{why}");
            let why = refusal(case, 1, false);
            assert!(["has 2", "queues = 1", "queues = 2", "rx 1 tx 1"].iter().all(|p| why.contains(p)), "{why}");
        }
        assert!(!any_program_attached(), "nothing was begun");
    });
}

#[test]
fn zero_copy_is_refused_where_a_driver_has_none_and_all_is_free_afterwards() {
    in_namespace(module_path!(), "zero_copy_is_refused_where_a_driver_has_none_and_all_is_free_afterwards", || {
        cables(1500, "");
        let Some(wires) = XDP.open(1514) else { return };
        assert!(wires[0].mode().contains(": copy"), "{}", wires[0].mode());
        drop(wires);
        let why = refusal(XDP, 1, true);
        assert!([FOUR[0], "no zero copy", "transport.zero_copy"].iter().all(|part| why.contains(part)), "{why}");
        assert!(!any_program_attached());
        assert!(XDP.try_open(1514, |_| ()).is_ok(), "the queue is free");
    });
}
