//! Clients like the public ones: a window over slots and sets, clocked by results, with retransmission. Packets and
//! results are lost at random, and in one network they overtake each other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use pktgen_core::seed::{Seed, Stream, unit};
use rand::RngExt;

use super::*;

/// Maximum delay of a packet in the network that keeps the order.
const WAY: Time = 2_000_000;
const TIMEOUT: Time = 3 * WAY;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet arrives at the switch.
    Packet { worker: u32, number: u32, attempt: u8 },
    /// A result arrives at a worker.
    Result { worker: u32, bytes: Vec<u8> },
    /// A worker checks whether it has the result.
    Timeout { worker: u32, number: u32 },
    /// The switch requested to be called.
    Wake,
}

struct Network {
    rig: Rig,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    order: u64,
    random: Stream,
    loss: f64,
    /// Whether packets overtake each other.
    jumbled: bool,
    workers: u8,
    window: u32,
    packets: u32,
    attempts: BTreeMap<(u32, u32), u8>,
    done: BTreeSet<(u32, u32)>,
    lost: u64,
}

impl Network {
    fn put(&mut self, t: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse((t, self.order, event)));
    }

    /// Delivers a packet or a result, or loses it.
    fn carry(&mut self, t: Time, event: Event) {
        if unit(&mut self.random) < self.loss {
            self.lost += 1;
            return;
        }
        let way = if self.jumbled { self.random.random_range(1..20 * WAY) } else { WAY };
        self.put(t + way, event);
    }

    fn send(&mut self, t: Time, worker: u32, number: u32) {
        let attempts = self.attempts.entry((worker, number)).or_default();
        let attempt = *attempts;
        *attempts = attempts.saturating_add(1);
        self.carry(t, Event::Packet { worker, number, attempt });
        self.put(t + TIMEOUT, Event::Timeout { worker, number });
    }

    fn on_result(&mut self, t: Time, worker: u32, bytes: &[u8]) {
        let (header, sums) = read(bytes);
        assert_eq!(sums, sum(0..u32::from(self.workers), header.packet, N), "packet {}", header.packet);
        let next = header.packet + self.window;
        if self.done.insert((worker, header.packet)) && next < self.packets {
            self.send(t, worker, next);
        }
    }

    fn step(&mut self, t: Time, event: Event) {
        match event {
            Event::Packet { worker, number, attempt } => {
                let header = packet(number, self.window);
                let frame = self.rig.frame(worker, 0, header, t, id(worker, number, attempt));
                self.rig.burst(&[frame]);
            }
            Event::Result { worker, bytes } => self.on_result(t, worker, &bytes),
            Event::Timeout { worker, number } if !self.done.contains(&(worker, number)) => self.send(t, worker, number),
            Event::Timeout { .. } => {}
            Event::Wake => {
                if self.rig.program.next_wake() <= t {
                    self.rig.timer(t);
                }
            }
        }
        for (link, bytes) in self.rig.left(t) {
            let worker = u32::from(self.workers) - 1 - link;
            self.carry(t, Event::Result { worker, bytes });
        }
        let ports = self.rig.ports.iter().map(Port::wake);
        let next = ports.chain([self.rig.program.next_wake()]).min().unwrap_or(NEVER);
        if next != NEVER {
            self.put(next.max(t), Event::Wake);
        }
    }

    /// Runs until every worker finishes all packets.
    fn run(mut self) -> Self {
        for number in 0..self.window.min(self.packets) {
            (0..u32::from(self.workers)).for_each(|worker| self.send(Time::from(worker), worker, number));
        }
        let mut steps = 0;
        while let Some(Reverse((t, _, event))) = self.events.pop() {
            self.step(t, event);
            steps += 1;
            assert!(steps < 1_000_000, "it does not end: {} of {} done", self.done.len(), self.packets);
        }
        assert_eq!(self.done.len() as u32, self.packets * u32::from(self.workers));
        assert_eq!((self.rig.pool.in_use(), self.rig.counter("results")), (0, u64::from(self.packets)));
        assert!(self.rig.books.rows.is_sorted_by_key(|row| row.t));
        self
    }
}

fn network(seed: u64, workers: u8, window: u32, packets: u32, loss: f64, check: bool, jumbled: bool) -> Network {
    Network {
        rig: Rig::new(place(&[workers]), &keys(window, check, false)),
        events: BinaryHeap::new(),
        order: 0,
        random: Seed(seed).stream("network", 0, 0),
        loss,
        jumbled,
        workers,
        window,
        packets,
        attempts: BTreeMap::new(),
        done: BTreeSet::new(),
        lost: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn versions_finish_every_packet_whatever_is_lost(
        seed: u64, workers in 1u8..7, window in 1u32..9, packets in 1u32..60, loss in 0.0f64..0.5, check: bool,
    ) {
        let run = network(seed, workers, window, packets, loss, check, false).run();
        prop_assert_eq!((run.rig.counter("stale"), run.rig.counter("overwritten")), (0, 0), "order is kept");
    }

    #[test]
    fn with_the_check_nor_does_overtaking_harm(
        seed: u64, workers in 1u8..7, window in 1u32..9, packets in 1u32..60, loss in 0.0f64..0.4,
    ) {
        network(seed, workers, window, packets, loss, true, true).run();
    }
}

#[test]
fn these_networks_do_lose_and_overtake() {
    let plain = network(1, 4, 4, 200, 0.3, false, false).run();
    assert!(plain.lost > 500 && plain.rig.counter("duplicates_answered") > 50, "{}", plain.lost);
    let jumbled = network(1, 4, 4, 200, 0.3, true, true).run();
    assert!(jumbled.rig.counter("stale") > 50 && jumbled.rig.counter("duplicates_dropped") > 50);
}
