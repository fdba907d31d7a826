//! Records the frames that workers send and receive, next to an endpoint that is unaware of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use pktgen_core::record::{Iteration, PacketId};
use pktgen_core::time::Time;
use pktgen_core::topology::{NodeId, Racks};
use pktgen_engine::endpoint::{Facts, Host, Workers, WorkersEnd};
use pktgen_engine::frame::{Frame, Pool};
use pktgen_libra::format::{
    self as libra, FRESH_SHIFT, HEADER, Header, Kind, Numbers, ResultHead, cold_pairs, emit_cold, emit_hot, hot_pairs,
};
use pktgen_wire::wire::frame::{group_of, target_ip, worker_of};

use super::cases::Case;

/// Index or key, and value.
pub type Values = Vec<(u64, f32)>;

/// A packet with results of the switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub head: ResultHead,
    pub values: Values,
}

/// The observed frames.
#[derive(Debug, Default)]
pub struct Seen {
    /// Racks with a parameter server.
    pub racks: u8,
    pub servers: u32,
    /// By worker and sequence number: the iteration, and what was pushed.
    pub pushes: BTreeMap<(u32, u32), (u32, Values)>,
    /// By worker and sequence number: the iteration of a pull, and the first answer.
    pub pulls: BTreeMap<(u32, u32), (u32, Option<Values>)>,
    /// The switches' results, by job and rack (`job · racks + rack`) and number.
    pub parts: BTreeMap<(u8, u32), Part>,
    /// By worker, iteration and rack: the number of the first result and the opener of the sum of which the worker has all parts.
    pub has: BTreeMap<(u32, u32, u8), (u32, Option<PacketId>)>,
    /// By worker and rack: the parts of sums of the current iteration, by the number of their first result.
    parts_of: BTreeMap<(u32, u8), BTreeMap<u32, BTreeSet<u16>>>,
    /// The server's results, by worker and sequence number.
    pub answers: BTreeMap<(u32, u32), Values>,
    pub ended: Vec<Iteration>,
}

/// Returns the value that the worker with this number in its job contributes in a run that counts: a digit.
pub fn digit(rank: u32) -> f32 {
    (1u32 << (4 * rank)) as f32
}

/// Returns how often each of `workers` is in a sum of digits.
pub fn counts(sum: f32, workers: u32) -> Vec<u32> {
    assert!(sum >= 0.0 && sum < (1u32 << 24) as f32 && sum.fract() == 0.0, "{sum} is no sum of digits");
    (0..workers).map(|rank| sum as u32 >> (4 * rank) & 15).collect()
}

/// Returns the pairs of a packet.
fn values_of(header: &Header, payload: &[u8]) -> Values {
    let bytes = libra::pairs(payload);
    match header.is_cold() {
        true => cold_pairs(bytes).collect(),
        false => hot_pairs(bytes).map(|(index, value)| (u64::from(index), value)).collect(),
    }
}

/// The workers of a run, under observation.
pub struct Spy {
    pub inner: Box<dyn Workers>,
    pub seen: Arc<Mutex<Seen>>,
    pub facts: Facts,
    /// Whether values are replaced by digits.
    pub counting: bool,
    pub case: Case,
}

impl Spy {
    fn sends(&self, frame: &Frame, block: Option<u32>, pool: &mut Pool) {
        let payload = pool.payload_mut(frame);
        let header = Header::parse(payload).expect("workers send packets");
        let values = values_of(&header, payload);
        let (mut seen, worker) = (self.seen.lock().expect("one thread"), frame.worker);
        match header.kind {
            Kind::Push => {
                let iteration = block.expect("a push has an iteration");
                let known = seen.pushes.entry((worker, header.seq)).or_insert_with(|| (iteration, values.clone()));
                assert_eq!(*known, (iteration, values.clone()), "attempts of {worker}, {} differ", header.seq);
                if self.counting {
                    let digit = digit(worker % self.case.workers);
                    match header.is_cold() {
                        true => {
                            let pairs: Vec<_> = values.iter().map(|(key, _)| (*key, digit)).collect();
                            emit_cold(&pairs, &mut payload[HEADER..]);
                        }
                        false => {
                            let pairs: Vec<_> = values.iter().map(|(index, _)| (*index as u32, digit)).collect();
                            emit_hot(&pairs, &mut payload[HEADER..]);
                        }
                    }
                }
            }
            Kind::Pull => {
                let ended = seen.ended.iter().filter(|row| row.worker == worker).count() as u32;
                seen.pulls.entry((worker, header.seq)).or_insert((ended, None));
            }
            _ => {}
        }
    }

    fn ends(&self, rows: &[Iteration]) {
        let mut seen = self.seen.lock().expect("one thread");
        for row in rows {
            seen.has_all_of(row, &self.case);
            seen.ended.push(*row);
            seen.parts_of.retain(|(worker, _), _| *worker != row.worker);
        }
    }

    fn hears(&self, node: NodeId, frame: &Frame, pool: &Pool) {
        let payload = pool.payload(frame);
        let header = Header::parse(payload).expect("workers hear packets");
        let ip = target_ip(pool.frame(frame));
        let host_of = &self.facts.host_of;
        let hearers: Vec<u32> = match (group_of(ip), worker_of(ip, host_of.len())) {
            (Some(_), _) => {
                let first = u32::from(header.job) * self.case.workers;
                (first..first + self.case.workers).filter(|worker| host_of[*worker as usize] == node).collect()
            }
            (None, Some(worker)) => vec![worker],
            _ => panic!("a frame for nobody"),
        };
        let mut seen = self.seen.lock().expect("one thread");
        let values = values_of(&header, payload);
        match (header.kind, header.is_cold()) {
            (Kind::Result, false) => {
                let head = ResultHead::parse(payload).expect("a result has a head");
                let (rack, number) = Numbers::new(seen.servers).split(header.seq);
                let (part, rack) = (Part { head, values }, u8::try_from(rack).expect("few racks"));
                let sums = header.job * seen.racks + rack;
                // A restarted switch answers single workers, with any number, that it has no sums for them.
                if head.opener.is_some() || number >> FRESH_SHIFT == 0 {
                    let known = seen.parts.entry((sums, number)).or_insert_with(|| part.clone());
                    assert_eq!(*known, part, "copies of result {number} of job {} differ", header.job);
                }
                hearers.iter().for_each(|worker| seen.hears_result((*worker, rack), number, &head));
            }
            (Kind::Result | Kind::Pull, _) => {
                let place = (hearers[0], header.seq);
                if let Some((_, first)) = seen.pulls.get_mut(&place) {
                    first.get_or_insert(values);
                } else {
                    let known = seen.answers.entry(place).or_insert_with(|| values.clone());
                    assert_eq!(*known, values, "copies of the answer to {place:?} differ");
                }
            }
            _ => {}
        }
    }
}

impl Workers for Spy {
    fn next_wake(&self) -> Time {
        self.inner.next_wake()
    }

    fn waits(&self) -> bool {
        self.inner.waits()
    }

    fn pull(&mut self, until: Time, pool: &mut Pool, host: &mut Host) {
        let (before, ended) = (host.outgoing.len(), host.iterations.len());
        self.inner.pull(until, pool, host);
        for outgoing in &host.outgoing[before..] {
            self.sends(&outgoing.frame, outgoing.record.and_then(|row| row.block), pool);
        }
        self.ends(&host.iterations[ended..]);
    }

    fn on_burst(&mut self, node: NodeId, burst: &[Frame], pool: &mut Pool, host: &mut Host) {
        for frame in burst {
            self.hears(node, frame, pool);
            let before = host.iterations.len();
            self.inner.on_burst(node, std::slice::from_ref(frame), pool, host);
            self.ends(&host.iterations[before..]);
        }
    }

    fn left(&mut self, packet: PacketId, t: Time) {
        self.inner.left(packet, t);
    }

    fn end(&self) -> WorkersEnd {
        self.inner.end()
    }
}

impl Seen {
    /// Returns an empty record for a network with these servers.
    pub fn of(racks: &Racks) -> Self {
        Seen { racks: racks.devices.len() as u8, servers: racks.servers.len() as u32, ..Seen::default() }
    }

    /// Returns the numbers of one rack's results, for each iteration of a job.
    pub fn results_of(&self, job: u8) -> Vec<std::ops::Range<u32>> {
        let (mut all, mut next) = (Vec::new(), 0);
        while let Some(first) = self.parts.get(&(job, next)) {
            let range = next..next + u32::from(first.head.parts);
            for (number, part) in range.clone().zip(0u16..) {
                if let Some(known) = self.parts.get(&(job, number)) {
                    let (known, parts) = (known.head, first.head.parts);
                    assert_eq!((known.part, known.parts), (part, parts), "result {number} of job {job}");
                }
            }
            next = range.end;
            all.push(range);
        }
        assert!(self.parts.range((job, next)..(job + 1, 0)).next().is_none(), "results of job {job} after a gap");
        all
    }

    /// Collects the parts of one sum per iteration for a worker. A part from a switch that started later discards the parts of others.
    fn hears_result(&mut self, (worker, rack): (u32, u8), number: u32, head: &ResultHead) {
        let iteration = self.ended.iter().filter(|row| row.worker == worker).count() as u32;
        if head.iteration != iteration || self.has.contains_key(&(worker, iteration, rack)) {
            return;
        }
        let (own, first) = (self.parts_of.entry((worker, rack)).or_default(), number - u32::from(head.part));
        if own.keys().any(|known| known >> FRESH_SHIFT > first >> FRESH_SHIFT) {
            return;
        }
        own.retain(|known, _| known >> FRESH_SHIFT == first >> FRESH_SHIFT);
        let parts = own.entry(first).or_default();
        parts.insert(head.part);
        if parts.len() == usize::from(head.parts) {
            self.has.insert((worker, iteration, rack), (first, head.opener));
        }
    }

    /// Checks that a worker ends an iteration only with everything that belongs to it.
    fn has_all_of(&self, row: &Iteration, case: &Case) {
        let (worker, iteration) = (row.worker, row.iteration);
        let before = self.ended.iter().filter(|row| row.worker == worker).count() as u32;
        assert_eq!(before, iteration, "worker {worker} ends each iteration once, in order");
        // Asynchronous workers get the results of all training at its end.
        let result = !case.asynchronous || iteration + 1 == case.iterations;
        let mut pushed = vec![0; usize::from(self.racks)];
        for (place, (of, _)) in self.pushes.range((worker, 0)..(worker + 1, 0)) {
            if place.1 & 1 == 0 && *of == iteration {
                pushed[Numbers::new(self.servers).split(place.1).0 as usize] += 1;
            }
            let cold = place.1 & 1 == 1 && *of == iteration && !case.asynchronous;
            assert!(!cold || self.answers.contains_key(place), "{place:?} has no answer");
        }
        if result && case.hot {
            let has =
                |rack| self.has.get(&(worker, iteration, rack)).expect("nobody ends an iteration without results");
            let missed = (0..self.racks).any(|rack| has(rack).1.is_none() && pushed[usize::from(rack)] > 0);
            assert_eq!((row.missed, row.sources == 0), (missed, missed || row.sent == 0), "{row:?}");
        } else {
            assert!(!row.missed);
        }
    }
}
