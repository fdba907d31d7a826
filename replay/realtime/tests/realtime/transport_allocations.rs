//! Sending and receiving allocate nothing, on any transport.

use crate::support::cases::{Case, LIVE, PACKET_BLOCKS, PACKET_CALLS, RING, UDP, XDP, two};
use crate::support::counting;
use crate::support::frames::fill;
use crate::support::namespace::{cables, in_namespace};
use pktgen_realtime::transport::{End, TransportPlan, Wire};

/// Sends 10,000 frames in bursts and receives them; returns the number of allocations.
fn exchange(from: &mut dyn Wire, to: &mut dyn Wire) -> u64 {
    const BURST: usize = 100;
    let mut frame = [0; 700];
    fill(&mut frame, 1);
    let frames: [&[u8]; BURST] = [&frame; BURST];
    let before = counting::of_this_thread();
    for _ in 0..100 {
        let (mut sent, mut received, mut idle) = (0, 0, 0);
        while sent < BURST {
            sent += from.send(&frames[sent..]).expect("sends").taken;
        }
        while received < BURST && idle < 200 {
            let more = to.receive(BURST, &mut |arrival| assert_eq!(arrival.len, 700)).expect("receives").frames;
            received += more;
            idle += usize::from(more == 0);
            if more == 0 {
                to.wait(10_000_000).expect("waits");
            }
        }
        assert_eq!(received, BURST, "{}", to.mode());
    }
    counting::of_this_thread() - before
}

fn allocates_nothing(case: Case, queues: u32) {
    allocates_nothing_with(case, |plan| plan.queues = queues);
}

/// Stamps every seventh frame of the workers when it leaves.
fn marks_without_allocating(case: Case) {
    allocates_nothing_with(case, |plan| plan.sent_stamps_every = 7);
}

fn allocates_nothing_with(case: Case, change: impl FnOnce(&mut TransportPlan)) {
    let Some(mut wires) = case.or_skip(case.try_open(1514, change)) else { return };
    for (from, to) in [(End::Workers, End::DeviceDown), (End::Server, End::DeviceUp)] {
        let (from, to) = two(&mut wires, from, to);
        assert_eq!(exchange(from, to), 0, "{}", from.mode());
    }
}

#[test]
fn the_counter_counts() {
    let before = counting::of_this_thread();
    drop(std::hint::black_box(vec![1; 100]));
    assert_eq!(counting::of_this_thread() - before, 1);
}

#[test]
fn without_interfaces() {
    allocates_nothing(RING, 1);
    allocates_nothing(UDP, 1);
    marks_without_allocating(UDP);
}

#[test]
fn on_interfaces() {
    in_namespace(module_path!(), "on_interfaces", || {
        cables(1500, "");
        [PACKET_CALLS, PACKET_BLOCKS, XDP, LIVE].into_iter().for_each(|case| allocates_nothing(case, 1));
        marks_without_allocating(PACKET_CALLS);
    });
}

#[test]
fn on_several_queues() {
    in_namespace(module_path!(), "on_several_queues", || {
        cables(1500, "numrxqueues 2 numtxqueues 2");
        [PACKET_CALLS, PACKET_BLOCKS, XDP, LIVE].into_iter().for_each(|case| allocates_nothing(case, 2));
    });
}
