//! Workers of a job in a performance trial: a paced closed loop over all slots of the pool.
//!
//! Contribution n is that of worker `n % workers` to packet `n / workers`; packets take the slots in turn. A worker
//! sends its contributions in order, each when it is due and not before it has the previous result of its slot. Nothing
//! is sent again during a trial.

use pktgen_core::seed::mix;
use pktgen_core::time::Time;
use pktgen_engine::clause::{LoadAccount, LoadModel, LoadWorkers, OfferedLoad, ProbeGround, ProbeMemory};
use pktgen_wire::wire::frame::{Datagram, HEAD, Ip, SERVER_IP, Template, group_ip, worker_ip};
use pktgen_wire::wire::integers::emit_values;

use super::switch::{SPOILED, elements, jobs, key, pool};
use crate::format::{HEADER, Header, PORT, WORKER_PORT, frame_bytes, values};

/// The load model of devices.
pub(super) static LOAD: LoadModel = LoadModel {
    unit: "contributions",
    longest: |ground, memory| {
        let workers = ground.members(jobs(ground).first().copied().unwrap_or_default()).len();
        ((workers * slots(ground, memory, 0).len()) as u64, "the window, which is the pool, ends there")
    },
    step: |ground| ground.members(jobs(ground).first().copied().unwrap_or_default()).len().max(1) as u64,
    open: |ground, memory, load| Ok(Box::new(Contributors::new(ground, memory, load)?)),
};

/// Returns the slots of a job whose state is known, with the number of complete rounds of each.
fn slots(ground: &ProbeGround, memory: &ProbeMemory, job: u16) -> Vec<(u16, u64)> {
    let rounds = |slot| (slot, memory.get(&key(job, slot)).copied().unwrap_or_default());
    (0..pool(ground)).map(rounds).filter(|(_, rounds)| *rounds != SPOILED).collect()
}

/// A slot used by the trial.
#[derive(Debug, Clone, Default)]
struct Place {
    slot: u16,
    /// Number of complete rounds before the trial.
    before: u64,
    /// Number of workers that have the result in progress, and its sums.
    done: usize,
    expected: Option<(i32, i32)>,
    is_wrong: bool,
    /// When the last contribution to a round of either set left.
    last_in: [Time; 2],
}

/// The workers of a job.
struct Contributors {
    job: u16,
    workers: Vec<u32>,
    ports: Vec<u16>,
    elements: u16,
    pool: u16,
    load: OfferedLoad,
    length: Time,
    places: Vec<Place>,
    /// Number of packets that each worker has sent.
    sent: Vec<u64>,
    /// When each worker may send its next contribution; `None` if it waits for a result.
    ready: Vec<Option<Time>>,
    /// When each worker received the result that it last waited for.
    freed: Vec<Time>,
    /// Number of results that each worker has of each place: by worker, then place.
    have: Vec<u64>,
    /// The worker that sends the next frame.
    chosen: usize,
    /// Number of packets of the trial.
    packets: u64,
    frame: Vec<u8>,
    numbers: Vec<i32>,
    account: LoadAccount,
}

impl Contributors {
    fn new(ground: &ProbeGround, memory: &ProbeMemory, load: OfferedLoad) -> Result<Self, String> {
        let all = jobs(ground);
        let job = *all.get(load.job).ok_or_else(|| format!("the experiment has {} jobs", all.len()))?;
        let workers = ground.members(job);
        let place = |(slot, before)| Place { slot, before, ..Place::default() };
        let places: Vec<_> = slots(ground, memory, job).into_iter().map(place).collect();
        if places.is_empty() {
            return Err("no slot of the pool is in a known state; start the device anew".into());
        }
        let (elements, count) = (elements(ground), workers.len());
        let mut own = Contributors {
            job,
            ports: workers.iter().map(|it| ground.port_towards(*it)).collect(),
            elements,
            pool: pool(ground),
            length: load.length(),
            sent: vec![0; count],
            ready: Vec::new(),
            freed: vec![0; count],
            have: vec![0; count * places.len()],
            chosen: 0,
            packets: load.count() / count as u64,
            frame: vec![0; frame_bytes(elements)],
            numbers: vec![0; usize::from(elements)],
            account: LoadAccount::default(),
            workers,
            places,
            load,
        };
        own.account.offered = own.packets * count as u64;
        own.ready = (0..count).map(|n| own.due(n)).collect();
        Ok(own)
    }

    /// Returns when the next contribution of the n-th worker is due.
    fn due(&self, n: usize) -> Option<Time> {
        let packet = self.sent[n];
        (packet < self.packets).then(|| self.load.due(packet * self.workers.len() as u64 + n as u64)).flatten()
    }

    /// Returns place and round of a packet.
    fn at(&self, packet: u64) -> (usize, u64) {
        let window = self.places.len() as u64;
        ((packet % window) as usize, packet / window)
    }

    /// Returns the contents of a contribution: its first value, and the step between values.
    fn content(&self, n: usize, packet: u64) -> (i32, i32) {
        let bits = mix(mix(self.load.draw ^ u64::from(self.workers[n]) << 40) ^ packet);
        (bits as i32, (bits >> 32) as i32)
    }

    /// Determines when the n-th worker may send its next contribution.
    fn look(&mut self, n: usize) {
        let (place, round) = self.at(self.sent[n]);
        let has = self.have[n * self.places.len() + place] >= round;
        self.ready[n] = self.due(n).filter(|_| has).map(|due| due.max(self.freed[n]));
    }

    fn header(&self, place: usize, round: u64) -> Header {
        let Place { slot, before, .. } = self.places[place];
        let round = before + round;
        Header {
            elements: self.elements,
            job: self.job as u8,
            packet: (round as u32).wrapping_mul(u32::from(self.pool)).wrapping_add(u32::from(slot)),
            set: round % 2 == 1,
            slot,
            exponent: 0,
            attempt: 0,
        }
    }

    /// Writes a contribution into the frame.
    fn write(&mut self, n: usize, packet: u64) {
        let (place, round) = self.at(packet);
        let header = self.header(place, round);
        let (first, step) = self.content(n, packet);
        let mut value = first;
        for number in &mut self.numbers {
            *number = value;
            value = value.wrapping_add(step);
        }
        let len = self.frame.len();
        Template::new((worker_ip(self.workers[n]), WORKER_PORT), (SERVER_IP, PORT), len).emit(&mut self.frame);
        header.emit(&mut self.frame[HEAD..]);
        emit_values(&self.numbers, &mut self.frame[HEAD + HEADER..]);
    }

    /// Records a copy of the result of a place at the n-th worker.
    fn arrive(&mut self, n: usize, place: usize, t: Time, payload: &[u8], header: &Header) {
        let (window, workers) = (self.places.len(), self.workers.len());
        let round = self.have[n * window + place];
        let packet = round * window as u64 + place as u64;
        if *header != (Header { exponent: header.exponent, attempt: header.attempt, ..self.header(place, round) }) {
            return;
        }
        let expected = self.places[place].expected.unwrap_or_else(|| {
            let add = |(a, b): (i32, i32), (c, d): (i32, i32)| (a.wrapping_add(c), b.wrapping_add(d));
            (0..workers).map(|n| self.content(n, packet)).fold((0, 0), add)
        });
        let (mut value, step) = expected;
        let is_right = values(payload, header).as_chunks::<4>().0.iter().all(|four| {
            let is_same = i32::from_be_bytes(*four) == value;
            value = value.wrapping_add(step);
            is_same
        });
        self.have[n * window + place] = round + 1;
        let own = &mut self.places[place];
        self.account.latency.add(t - own.last_in[(round % 2) as usize]);
        self.account.last_back = Some(t);
        (own.expected, own.is_wrong, own.done) = (Some(expected), own.is_wrong || !is_right, own.done + 1);
        if own.done == workers {
            let of = if own.is_wrong { &mut self.account.wrong } else { &mut self.account.forwarded };
            *of += workers as u64;
            (own.expected, own.is_wrong, own.done) = (None, false, 0);
        }
        if self.ready[n].is_none() {
            self.freed[n] = t;
            self.look(n);
        }
    }

    /// Returns the first round of a place that not all workers have, if a contribution to it left.
    fn open_round(&self, place: usize) -> Option<u64> {
        let window = self.places.len() as u64;
        let round = (0..self.workers.len()).map(|n| self.have[n * self.places.len() + place]).min()?;
        let packet = round * window + place as u64;
        self.sent.iter().any(|sent| *sent > packet).then_some(round)
    }
}

impl LoadWorkers for Contributors {
    fn next(&mut self) -> Option<Time> {
        let workers = self.workers.len() as u64;
        let order = |n: usize| self.sent[n] * workers + n as u64;
        let all = self.ready.iter().enumerate().filter_map(|(n, ready)| Some(((*ready)?, order(n), n)));
        let (t, _, n) = all.min()?;
        // A worker that waits for a result past the end sends nothing more.
        if t >= self.length {
            return None;
        }
        self.chosen = n;
        Some(t)
    }

    fn send(&mut self, t: Time) -> (u16, &[u8]) {
        let n = self.chosen;
        let packet = self.sent[n];
        self.write(n, packet);
        let (place, round) = self.at(packet);
        self.places[place].last_in[(round % 2) as usize] = t;
        self.sent[n] += 1;
        self.look(n);
        (self.ports[n], &self.frame)
    }

    fn take(&mut self, t: Time, port: u16, bytes: &[u8]) {
        let Some(datagram) = Datagram::parse(bytes).filter(|datagram| datagram.src == SERVER_IP) else { return };
        let Some(header) = Header::parse(datagram.payload) else { return };
        let Ok(place) = self.places.binary_search_by_key(&header.slot, |place| place.slot) else { return };
        let group: Ip = group_ip(self.job);
        for n in 0..self.workers.len() {
            let is_meant = datagram.dst == group || datagram.dst == worker_ip(self.workers[n]);
            if is_meant && self.ports[n] == port {
                self.arrive(n, place, t, datagram.payload, &header);
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.account.forwarded + self.account.wrong == self.sent.iter().sum::<u64>()
    }

    fn account(&mut self) -> LoadAccount {
        let mut account = self.account.clone();
        account.unsent = account.offered - self.sent.iter().sum::<u64>();
        account
    }

    fn asks(&mut self) -> Vec<(u16, Vec<u8>)> {
        let mut all = Vec::new();
        let window = self.places.len();
        for place in 0..window {
            let Some(round) = self.open_round(place) else { continue };
            let packet = round * window as u64 + place as u64;
            for n in 0..self.workers.len() {
                if self.have[n * window + place] <= round {
                    self.write(n, packet);
                    all.push((self.ports[n], self.frame.clone()));
                }
            }
        }
        all
    }

    fn leave(&mut self, memory: &mut ProbeMemory) {
        let window = self.places.len();
        for (at, place) in self.places.iter().enumerate() {
            let rounds = place.before + self.have[at];
            let is_even = (0..self.workers.len()).all(|n| self.have[n * window + at] == self.have[at]);
            let known = is_even && self.open_round(at).is_none();
            memory.insert(key(self.job, place.slot), if known { rounds } else { SPOILED });
        }
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
