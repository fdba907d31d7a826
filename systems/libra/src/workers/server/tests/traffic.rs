//! Workers over a network that loses, copies and reorders, and a model that adds accepted packets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::format::Kind as What;
use pktgen_core::time::Time;
use proptest::prelude::*;

use super::super::super::seen::Seen;
use super::bed::{Bed, Told, US};
use pktgen_engine::endpoint::Server;

const JOBS: u16 = 2;
const PER_JOB: u32 = 3;
const ITERATIONS: u32 = 4;
const WINDOW: u32 = 5;

type Pairs = Vec<(u64, f32)>;

/// A simple generator of differing numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) % n
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A worker as defined in `docs/libra.md`.
struct Worker {
    id: u32,
    iteration: u32,
    /// Pushes of the iteration by number, then its end.
    pushes: Vec<(u32, Pairs)>,
    end: u32,
    acked: BTreeSet<u32>,
    results: BTreeMap<u32, Pairs>,
    seen: Seen,
    attempts: HashMap<u32, u8>,
}

impl Worker {
    fn begin(&mut self, dice: &mut Dice) {
        let first = self.end + 1;
        let count = [0, 1, 3, 17][dice.below(4) as usize];
        let pairs = |dice: &mut Dice| -> Pairs {
            (0..dice.below(6)).map(|_| (dice.below(12), dice.below(1000) as f32 * 0.013 - 6.0)).collect()
        };
        self.pushes = (first..first + count).map(|number| (number, pairs(dice))).collect();
        self.end = first + count;
    }

    fn is_done(&self) -> bool {
        self.iteration == ITERATIONS
    }

    /// Sends one packet that may be sent, for the first time or again.
    fn send(&mut self, t: Time, dice: &mut Dice, to_server: &mut Vec<Message>) {
        let _ = t;
        let oldest = self.pushes.iter().map(|(number, _)| *number).find(|number| !self.acked.contains(number));
        let message = match oldest {
            Some(oldest) => {
                let number = oldest + dice.below(u64::from(WINDOW)) as u32;
                if number >= self.end || self.acked.contains(&number) {
                    return;
                }
                Message::Push(self.id, number, self.attempt(number))
            }
            None if !self.acked.contains(&self.end) => Message::End(self.id, self.end, self.iteration),
            None => return,
        };
        to_server.push(message);
    }

    fn attempt(&mut self, number: u32) -> u8 {
        let attempt = self.attempts.entry(number).and_modify(|n| *n = (*n + 1).min(15)).or_default();
        *attempt
    }

    fn hear(&mut self, told: &Told, to_server: &mut Vec<Message>) {
        let number = told.header.seq >> 1;
        match told.header.kind {
            What::Ack => {
                self.acked.insert(number);
            }
            What::Result => {
                let known = self.results.contains_key(&number);
                assert_eq!(self.seen.first(number), !known, "the server keeps to the window");
                let pairs = self.results.entry(number).or_insert_with(|| told.pairs.clone());
                assert_eq!(*pairs, told.pairs, "a result that is sent again is the same");
                to_server.push(Message::Ack(self.id, number));
            }
            other => panic!("{other:?}"),
        }
    }

    fn advance(&mut self, dice: &mut Dice) {
        if !self.is_done()
            && self.acked.contains(&self.end)
            && self.pushes.iter().all(|(number, _)| self.results.contains_key(number))
        {
            self.iteration += 1;
            self.begin(dice);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Message {
    Push(u32, u32, u8),
    End(u32, u32, u32),
    Ack(u32, u32),
}

/// Removes some packets in flight, in any order; the network loses and copies.
fn arrivals<T: Clone>(under_way: &mut Vec<T>, dice: &mut Dice, loss: u64) -> Vec<T> {
    let mut arrived = Vec::new();
    for _ in 0..under_way.len().div_ceil(2) {
        let message = under_way.swap_remove(dice.below(under_way.len() as u64) as usize);
        if dice.percent(15) {
            under_way.push(message.clone());
        }
        if !dice.percent(loss) {
            arrived.push(message);
        }
    }
    arrived
}

/// The pushes by worker and number, and the sums of each job's iterations, added in the order of acceptance.
#[derive(Default)]
struct Model {
    pushed: HashMap<(u32, u32), (u32, Pairs)>,
    sums: HashMap<(u32, u32), BTreeMap<u64, f32>>,
    accepted: BTreeSet<(u32, u32)>,
}

impl Model {
    fn accept(&mut self, worker: u32, number: u32) {
        assert!(self.accepted.insert((worker, number)), "worker {worker} number {number} is summed twice");
        let (iteration, pairs) = &self.pushed[&(worker, number)];
        let sums = self.sums.entry((worker / PER_JOB, *iteration)).or_default();
        for (key, value) in pairs {
            *sums.entry(*key).or_insert(0.0) += value;
        }
    }

    fn check(&self, workers: &[Worker]) {
        for (&(worker, number), (iteration, pairs)) in &self.pushed {
            let sums = &self.sums[&(worker / PER_JOB, *iteration)];
            let bits =
                |pairs: &mut dyn Iterator<Item = (u64, f32)>| pairs.map(|(k, v)| (k, v.to_bits())).collect::<Vec<_>>();
            let wanted = bits(&mut pairs.iter().map(|(key, _)| (*key, sums[key])));
            let got = &workers[worker as usize].results[&number];
            assert_eq!(bits(&mut got.iter().copied()), wanted, "worker {worker} number {number}");
        }
    }
}

fn run(seed: u64, loss: u64, rate: &str) {
    let mut dice = Dice(seed);
    let window = WINDOW.to_string();
    let keys = [("service_rate", rate), ("timeout", "40us"), ("cold_window", &window[..])];
    let mut bed = Bed::new(JOBS, PER_JOB, &keys, false);
    let worker = |id| Worker {
        id,
        iteration: 0,
        pushes: Vec::new(),
        // The first number is 0.
        end: u32::MAX,
        acked: BTreeSet::new(),
        results: BTreeMap::new(),
        seen: Seen::new(WINDOW),
        attempts: HashMap::new(),
    };
    let mut workers: Vec<_> = (0..u32::from(JOBS) * PER_JOB).map(worker).collect();
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut model = Model::default();
    for worker in &mut workers {
        worker.end = 0;
        worker.begin(&mut dice);
        // Number 0 is a push, too.
        worker.pushes.insert(0, (0, vec![(3, 1.5)]));
    }
    let mut rows = 0;
    for step in 1.. {
        assert!(step < 200_000, "it does not end");
        let t = step * US;
        for worker in &mut workers {
            worker.advance(&mut dice);
            if !worker.is_done() {
                for (number, pairs) in &worker.pushes {
                    model.pushed.entry((worker.id, *number)).or_insert_with(|| (worker.iteration, pairs.clone()));
                }
                worker.send(t, &mut dice, &mut up);
            }
        }
        for message in arrivals(&mut up, &mut dice, loss) {
            match message {
                Message::Push(worker, number, attempt) => {
                    let pairs = model.pushed[&(worker, number)].1.clone();
                    bed.push(t, worker, number << 1 | 1, attempt, &pairs);
                }
                Message::End(worker, number, iteration) => bed.end(t, worker, number << 1 | 1, iteration),
                Message::Ack(worker, number) => bed.ack(t, worker, number << 1 | 1),
            }
        }
        for row in &bed.rows[rows..] {
            if row.accepted {
                model.accept(row.newest_worker, row.newest_seq >> 1);
            }
        }
        rows = bed.rows.len();
        down.extend(bed.out(t));
        for told in arrivals(&mut down, &mut dice, loss) {
            workers[told.worker as usize].hear(&told, &mut up);
        }
        if workers.iter().all(Worker::is_done) && up.is_empty() && down.is_empty() && bed.server.next_wake() > 1 << 60 {
            break;
        }
    }
    assert_eq!(model.accepted.len(), model.pushed.len(), "every push is summed");
    model.check(&workers);
    assert_eq!(bed.counter("duplicates") as usize, bed.rows.len() - model.accepted.len());
    assert_eq!(bed.counter("results") as usize, model.pushed.len());
    assert_eq!((bed.host.foreign, bed.server.unfinished()), (0, None));
    bed.is_over();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_push_is_summed_once_and_answered(seed: u64, loss in 0u64..30, rate in prop::sample::select(vec!["0", "1000000", "10000000"])) {
        run(seed, loss, rate);
    }
}
