//! Workers that push, end and wait for results over a network that loses, duplicates and delays everything, compared
//! with two simple models: one receives the arrivals at the switch, the other knows only the workers' gradients.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use crate::format::{HEADER, Header, Kind as Wire, ResultHead, hot_pairs, pairs};
use pktgen_core::seed::{Seed, Stream};
use pktgen_core::time::{NEVER, Time};
use pktgen_wire::wire::frame::{HEAD, group_of, target_ip, worker_of};
use rand::RngExt;

use super::super::Program;
use super::rig::{HOT, Rig, hot, place};
use pktgen_engine::target::sparse::Adder;

const US: Time = 1_000_000;
const JOBS: u16 = 2;
const WORKERS: u32 = 3;
const ITERATIONS: u32 = 6;
const WINDOW: u32 = 16;
const TIMEOUT: Time = 40 * US;

/// Probabilities of network faults in percent.
#[derive(Debug, Clone, Copy)]
struct Faults {
    loss: u32,
    double: u32,
    /// Delayed so much that others overtake it.
    slow: u32,
    /// Delayed beyond its iteration.
    stray: u32,
}

/// A packet without acknowledgement.
struct Out {
    seq: u32,
    wire: Wire,
    content: Vec<u8>,
    attempt: u8,
    due: Time,
}

/// A worker in the simplest form that follows the protocol.
#[derive(Default)]
struct Worker {
    iteration: u32,
    number: u32,
    waiting: VecDeque<(Wire, Vec<u8>)>,
    out: VecDeque<Out>,
    ended: bool,
    /// Number of the first result of this iteration, and the results received.
    first: u32,
    parts: BTreeMap<u32, (u16, Vec<(u32, f32)>)>,
    /// The sums of each finished iteration.
    sums: Vec<Vec<(u32, f32)>>,
}

/// Sums by key in the order of arrival: a list of accepted packets, a map per job.
struct Model {
    adder: Adder,
    seen: BTreeSet<(u32, u32)>,
    sums: Vec<BTreeMap<u32, f32>>,
    ended: Vec<BTreeSet<u32>>,
    results: Vec<Vec<Vec<(u32, f32)>>>,
    last: BTreeMap<u32, u32>,
}

impl Model {
    fn arrives(&mut self, worker: u32, header: &Header, content: &[u8]) {
        let job = usize::from(header.job);
        match header.kind {
            Wire::Push if self.seen.insert((worker, header.seq)) => {
                for (index, value) in hot_pairs(content) {
                    let sum = self.sums[job].entry(index).or_default();
                    *sum = self.adder.add(*sum, value);
                }
            }
            Wire::End => {
                let iteration = u32::from_be_bytes(content.try_into().unwrap());
                if self.last.get(&worker).is_none_or(|last| iteration > *last) {
                    self.last.insert(worker, iteration);
                    self.ended[job].insert(worker);
                }
                if self.ended[job].len() == WORKERS as usize {
                    self.ended[job].clear();
                    let all = std::mem::take(&mut self.sums[job]);
                    self.results[job].push(all.into_iter().filter(|(_, sum)| *sum != 0.0).collect());
                }
            }
            _ => {}
        }
    }
}

/// Time, order, recipient (`None`: the switch), sender, and bytes.
type Event = (Time, u64, Option<u32>, u32, Vec<u8>);

struct World {
    rig: Rig,
    workers: Vec<Worker>,
    model: Model,
    faults: Faults,
    digits: bool,
    random: Stream,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    trained: Vec<Vec<BTreeMap<u32, f64>>>,
}

impl World {
    fn new(seed: u64, faults: Faults, digits: bool, writes: &str, bloom_bits: u32) -> Self {
        let add = if digits { "exact" } else { "tables" };
        let mut place = place(JOBS, WORKERS);
        place.sparse.as_mut().unwrap().window = WINDOW;
        let keys = [
            ("repeat_writes", writes.into()),
            ("add", add.into()),
            ("bloom_bits", bloom_bits.into()),
            ("records", WINDOW.into()),
            ("result_timeout", "50us".into()),
        ];
        let rig = Rig::new(place, &keys);
        let jobs = usize::from(JOBS);
        let model = Model {
            adder: rig.program.limits().adder.unwrap(),
            seen: BTreeSet::new(),
            sums: vec![BTreeMap::new(); jobs],
            ended: vec![BTreeSet::new(); jobs],
            results: vec![Vec::new(); jobs],
            last: BTreeMap::new(),
        };
        let mut world = World {
            rig,
            workers: (0..WORKERS * u32::from(JOBS)).map(|_| Worker::default()).collect(),
            model,
            faults,
            digits,
            random: Seed(seed).stream("test", 0, 0),
            events: BinaryHeap::new(),
            order: 0,
            trained: vec![vec![BTreeMap::new(); ITERATIONS as usize]; jobs],
        };
        (0..world.workers.len() as u32).for_each(|worker| world.compute(worker));
        world
    }

    /// Creates the pushes of a worker's iteration.
    fn compute(&mut self, worker: u32) {
        let own = &mut self.workers[worker as usize];
        for _ in 0..self.random.random_range(0..40) {
            let register = self.random.random_range(0..40u32);
            let mut pushed = Vec::new();
            for i in 0..self.random.random_range(1..4u32) {
                let index = (register * 5 + i * 7) % HOT;
                let value = match self.digits {
                    true => self.random.random_range(1..9) as f32,
                    false => self.random.random_range(-1.0f32..1.0),
                };
                let truth = &mut self.trained[(worker / WORKERS) as usize][own.iteration as usize];
                *truth.entry(index).or_default() += f64::from(value);
                pushed.push((index, value));
            }
            own.waiting.push_back((Wire::Push, hot(&pushed)));
        }
        own.ended = false;
    }

    fn carry(&mut self, t: Time, to: Option<u32>, from: u32, bytes: &[u8]) {
        let Faults { loss, double, slow, stray } = self.faults;
        let copies = match self.random.random_range(0..100) {
            draw if draw < loss => 0,
            draw if draw < loss + double => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let delay = match self.random.random_range(0..100) {
                draw if draw < slow => self.random.random_range(0..60 * US),
                draw if draw < slow + stray => self.random.random_range(0..3000 * US),
                _ => US,
            };
            self.order += 1;
            self.events.push(Reverse((t + delay, self.order, to, from, bytes.to_vec())));
        }
    }

    /// Sends everything that a worker may send.
    fn act(&mut self, worker: u32, t: Time) {
        let job = (worker / WORKERS) as u8;
        loop {
            let own = &mut self.workers[worker as usize];
            if own.waiting.is_empty() && own.out.is_empty() && !own.ended && own.iteration < ITERATIONS {
                own.ended = true;
                own.waiting.push_back((Wire::End, own.iteration.to_be_bytes().to_vec()));
            }
            let oldest = own.out.front().map_or(own.number, |out| out.seq / 2);
            if own.number < oldest + WINDOW
                && let Some((wire, content)) = own.waiting.pop_front()
            {
                own.out.push_back(Out { seq: own.number * 2, wire, content, attempt: 0, due: t });
                own.number += 1;
            }
            let Some(out) = own.out.iter_mut().find(|out| out.due <= t) else { break };
            let header = Header { kind: out.wire, attempt: out.attempt, job, seq: out.seq };
            out.due = t + TIMEOUT * (1 << out.attempt.min(4));
            out.attempt = (out.attempt + 1).min(15);
            let mut bytes = vec![0; HEADER];
            header.emit(&mut bytes);
            bytes.extend(&out.content);
            self.carry(t, None, worker, &bytes);
        }
    }

    fn hear(&mut self, worker: u32, payload: &[u8], t: Time) {
        let header = Header::parse(payload).unwrap();
        if u32::from(header.job) != worker / WORKERS {
            return;
        }
        let own = &mut self.workers[worker as usize];
        if header.kind == Wire::Ack {
            own.out.retain(|out| out.seq != header.seq);
            return self.act(worker, t);
        }
        let (head, number) = (ResultHead::parse(payload).unwrap(), header.seq / 2);
        if number >= own.first {
            own.parts.insert(number, (head.parts, hot_pairs(pairs(payload)).collect()));
        }
        let all = own.parts.first_key_value().is_some_and(|(_, (parts, _))| own.parts.len() == usize::from(*parts));
        let mut ack = vec![0; HEADER];
        Header { kind: Wire::Ack, attempt: 0, ..header }.emit(&mut ack);
        self.carry(t, None, worker, &ack);
        if all {
            let own = &mut self.workers[worker as usize];
            let parts = std::mem::take(&mut own.parts);
            own.first += parts.len() as u32;
            own.sums.push(parts.into_values().flat_map(|(_, pairs)| pairs).collect());
            own.out.clear();
            own.iteration += 1;
            if own.iteration < ITERATIONS {
                self.compute(worker);
            }
            self.act(worker, t);
        }
    }

    fn step(&mut self) -> bool {
        let arrival = self.events.peek().map_or(NEVER, |Reverse((t, ..))| *t);
        let timer = self.rig.program.next_wake();
        let (due, worker) = (0u32..)
            .zip(&self.workers)
            .map(|(i, own)| (own.out.iter().map(|out| out.due).min().unwrap_or(NEVER), i))
            .min()
            .unwrap();
        let t = arrival.min(timer).min(due);
        if t == NEVER {
            return false;
        }
        let left = if timer == t {
            self.rig.timer()
        } else if due == t {
            self.act(worker, t);
            Vec::new()
        } else {
            let Some(Reverse((_, _, to, from, payload))) = self.events.pop() else { return false };
            match to {
                Some(worker) => {
                    self.hear(worker, &payload, t);
                    Vec::new()
                }
                None => {
                    let header = Header::parse(&payload).unwrap();
                    self.model.arrives(from, &header, &payload[HEADER..]);
                    let frame = self.rig.frame(from, header, &payload[HEADER..], t);
                    self.rig.burst(&[frame]);
                    self.rig.leave()
                }
            }
        };
        for left in left {
            let payload = left.bytes[HEAD..].to_vec();
            let target = target_ip(&left.bytes);
            let to = match group_of(target) {
                Some(_) => left.link,
                None => worker_of(target, self.workers.len()).unwrap(),
            };
            self.carry(left.frame.t, Some(to), 0, &payload);
        }
        true
    }

    fn run(&mut self) {
        (0..self.workers.len() as u32).for_each(|worker| self.act(worker, 0));
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 2_000_000, "it never ends");
        }
        assert!(self.workers.iter().all(|own| own.iteration == ITERATIONS), "all are done");
        assert_eq!(self.rig.pool.in_use(), 0);
    }

    /// Returns the number of values in results that differ from the workers' sums.
    fn wrong(&self) -> usize {
        let one = |(worker, own): (usize, &Worker)| -> usize {
            let trained = &self.trained[worker / WORKERS as usize];
            let wrong = |(sums, truth): (&Vec<(u32, f32)>, &BTreeMap<u32, f64>)| {
                let sums: BTreeMap<u32, f64> = sums.iter().map(|(index, sum)| (*index, f64::from(*sum))).collect();
                (0..HOT).filter(|index| sums.get(index) != truth.get(index)).count()
            };
            own.sums.iter().zip(trained).map(wrong).sum()
        };
        self.workers.iter().enumerate().map(one).sum()
    }
}

const FAULTS: [Faults; 4] = [
    Faults { loss: 0, double: 0, slow: 0, stray: 0 },
    Faults { loss: 10, double: 5, slow: 0, stray: 0 },
    Faults { loss: 0, double: 10, slow: 30, stray: 3 },
    Faults { loss: 15, double: 15, slow: 20, stray: 3 },
];

#[test]
fn strict_counts_every_packet_once_whatever_the_network_does() {
    for (seed, faults) in (0u64..).zip(FAULTS.iter().cycle()).take(24) {
        let mut world = World::new(seed, *faults, true, "strict", 64);
        world.run();
        assert_eq!(world.wrong(), 0, "seed {seed}, {faults:?}");
        let merged = world.rig.books.rows.iter().filter(|row| row.packet_out.is_some()).count();
        assert_eq!(merged, world.model.seen.len(), "each update is in the books once");
        assert_eq!(["repeated", "mistaken", "beyond_window"].map(|name| world.rig.counter(name)), [0; 3]);
    }
}

#[test]
fn sums_by_tables_are_those_of_the_model_bit_for_bit() {
    for (seed, faults) in (100u64..).zip(FAULTS.iter().cycle()).take(12) {
        let mut world = World::new(seed, *faults, false, "strict", 64);
        world.run();
        for (worker, own) in world.workers.iter().enumerate() {
            let results = &world.model.results[worker / WORKERS as usize];
            let bits = |sums: &[(u32, f32)]| sums.iter().map(|(i, x)| (*i, x.to_bits())).collect::<Vec<_>>();
            assert_eq!(own.sums.len(), results.len());
            own.sums
                .iter()
                .zip(results)
                .for_each(|(own, of)| assert_eq!(bits(own), bits(of), "seed {seed}, {faults:?}"));
        }
    }
}

/// LIBRA §3.6 checks only packets marked as resent: packets duplicated by the network, and originals that arrive after
/// their own retransmission, are added again. A filter also drops packets for good if it is small.
#[test]
fn the_papers_records_count_wrong_where_the_network_reorders_and_ours_do_not() {
    let total = |writes, faults: Faults, bits| {
        let runs = (0..6).map(|seed| {
            let mut world = World::new(seed, faults, true, writes, bits);
            world.run();
            let counts = ["repeated", "mistaken"].map(|name| world.rig.counter(name));
            [world.wrong() as u64, counts[0], counts[1]]
        });
        runs.fold([0; 3], |sum, run| [sum[0] + run[0], sum[1] + run[1], sum[2] + run[2]])
    };
    let loss = Faults { loss: 15, double: 0, slow: 0, stray: 0 };
    assert_eq!(total("paper", loss, 64), [0; 3], "loss alone is what it was made for");
    assert_eq!(total("bloom", loss, 1 << 17), [0; 3]);
    let [wrong, _, mistaken] = total("bloom", loss, 64);
    assert!(wrong > 100 && mistaken > 100, "a filter of 64 bits: {wrong}, {mistaken}");
    for writes in ["paper", "bloom"] {
        let [wrong, repeated, _] = total(writes, FAULTS[3], 1 << 17);
        assert!(wrong > 100 && repeated > 100, "{writes}: {wrong}, {repeated}");
    }
    assert_eq!(total("strict", FAULTS[3], 64), [0; 3]);
}
