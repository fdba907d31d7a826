//! Drives the workers of synchronous training by hand against a naive model of one worker and a device that tracks
//! contributors, with random jobs, windows, stragglers, hosts, losses and disturbances.

mod device;
mod limits;
mod model;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pktgen_core::record::{Iteration, PacketId, Reply};
use pktgen_core::time::{NEVER, NS, Time};
use pktgen_switchml::format as switchml;
use pktgen_trio_ml::format as trio_ml;
use pktgen_wire::wire::frame::{
    Datagram, ETHERNET_MIN, HEAD, SERVER_IP, group_ip, has_udp_checksum, source_ip, target_ip, worker_ip,
};
use pktgen_workload::dense::Dense;
use proptest::prelude::*;

use device::{Came, Device, Made, framed, payload_of};
use model::Model;
use pktgen_engine::endpoint::rounds::ALL_WORKERS;
use pktgen_engine::endpoint::{Crew, Facts, Host, Outgoing, Workers};
use pktgen_engine::frame::{BURST, Frame, Kind, Pool};
use setup::{SCALE, Setup, setups};

/// Time of a frame on its host's link.
const WIRE: Time = 20 * NS;
/// One-way delay.
const DELAY: Time = 100 * NS;
/// A block ages out after one to two times this period (§5: two visits of a timer thread); copies of a result are never as far apart.
const AGE: Time = 1500 * NS;

enum Event {
    Left(PacketId),
    Contribution(PacketId),
    Aged((u32, u32), u64),
    Result(u32, Made),
    /// A frame that is not a result; `foreign` if it belongs to nobody.
    Other {
        node: u32,
        cluster: u16,
        kind: Kind,
        frame: Vec<u8>,
        foreign: bool,
        /// The packet whose result it claims to be.
        of: Option<u32>,
    },
}

struct World {
    setup: Setup,
    endpoint: Box<dyn Workers>,
    dense: Arc<Dense>,
    facts: Facts,
    pool: Pool,
    host: Host,
    models: Vec<Model>,
    device: Device,
    events: BTreeMap<(Time, u64), Event>,
    serial: u64,
    random: u64,
    now: Time,
    /// By node: the time when its link is free, and the arrival of the last frame.
    up: BTreeMap<u32, Time>,
    down: BTreeMap<u32, Time>,
    delivered: BTreeSet<PacketId>,
    reached: BTreeSet<PacketId>,
    /// Partial results that each worker had.
    partial: BTreeSet<(u32, PacketId)>,
    foreign: u64,
}

impl World {
    fn new(setup: &Setup) -> Self {
        let (Crew { workers: endpoint, declared, .. }, dense, facts) = setup.open();
        World {
            models: (0..setup.workers()).map(|w| Model::new(setup, &dense, w)).collect(),
            pool: Pool::new(declared.frame_bytes.unwrap(), 4),
            setup: setup.clone(),
            endpoint,
            dense,
            facts,
            host: Host::default(),
            device: Device::default(),
            events: BTreeMap::new(),
            serial: 0,
            random: setup.seed,
            now: 0,
            up: BTreeMap::new(),
            down: BTreeMap::new(),
            delivered: BTreeSet::new(),
            reached: BTreeSet::new(),
            partial: BTreeSet::new(),
            foreign: 0,
        }
    }

    /// Returns a random number below `most`.
    fn draw(&mut self, most: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % most
    }

    fn at(&mut self, t: Time, event: Event) {
        self.serial += 1;
        self.events.insert((t, self.serial), event);
    }

    fn run(&mut self) {
        let mut idle = 0;
        loop {
            let (wake, next) = (self.endpoint.next_wake(), self.events.keys().next().map_or(NEVER, |(t, _)| *t));
            if wake == NEVER && next == NEVER {
                break;
            }
            assert_eq!(self.endpoint.waits(), !self.models.iter().all(Model::is_done));
            assert!(wake >= self.now || !self.setup.virtual_time, "woken in the past");
            if wake <= next {
                // On a wire they are called late, and then for everything that is due.
                let late = if self.setup.virtual_time { 0 } else { self.draw(300) as Time * NS };
                self.now = self.now.max((wake + late).min(next));
                self.endpoint.pull(self.now, &mut self.pool, &mut self.host);
                assert!(self.host.outgoing.len() <= BURST);
                idle = if self.host.outgoing.is_empty() && self.host.iterations.is_empty() { idle + 1 } else { 0 };
                assert!(idle < 10 * self.setup.workers(), "asked again and again, and nothing happens");
            } else {
                let ((t, _), event) = self.events.pop_first().unwrap();
                (self.now, idle) = (t, 0);
                self.happen(event);
            }
            self.settle();
        }
        assert!(self.models.iter().all(Model::is_done) && !self.endpoint.waits(), "it ended before its end");
        assert_eq!((&self.delivered, self.host.foreign), (&self.reached, self.foreign));
        assert_eq!(self.pool.in_use(), 0, "buffers are left");
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Left(packet) => self.leave(packet, self.now),
            Event::Contribution(packet) => match self.device.contribution(&self.setup, &self.dense, packet) {
                Came::Result(made) => self.send_down(made),
                Came::Opened(serial) => {
                    let key = (packet.worker() / self.setup.per_job, packet.seq());
                    let age = AGE + self.draw(1500) as Time * NS;
                    self.at(self.now + age, Event::Aged(key, serial));
                }
                Came::Nothing => {}
            },
            Event::Aged(key, serial) => {
                if let Some(made) = self.device.aged(&self.setup, &self.dense, key, serial) {
                    self.send_down(made);
                }
            }
            Event::Result(node, made) => self.result(node, made),
            Event::Other { cluster, of: Some(seq), .. } if self.have_contributed(cluster, seq) => {}
            Event::Other { node, cluster, kind, frame, foreign, .. } => {
                self.foreign += u64::from(foreign);
                self.hand_over(node, cluster, kind, PacketId(self.serial), &frame);
                assert!(self.host.replies.is_empty() && self.host.deliveries.is_empty());
            }
        }
    }

    fn have_contributed(&self, job: u16, seq: u32) -> bool {
        self.models.iter().filter(|model| model.job() == u32::from(job)).any(|model| model.contributed(seq))
    }

    fn leave(&mut self, packet: PacketId, t: Time) {
        self.endpoint.left(packet, t);
        self.models[packet.worker() as usize].left(packet.seq(), t);
    }

    /// Checks the endpoint's output.
    fn settle(&mut self) {
        self.models.iter_mut().for_each(|model| model.settle(self.now));
        let mut rows: Vec<Iteration> = self.host.iterations.drain(..).collect();
        for outgoing in std::mem::take(&mut self.host.outgoing) {
            // A worker may have ended an iteration and started the next within one call.
            let (worker, iteration) = (outgoing.frame.worker, outgoing.record.unwrap().seq / self.setup.blocks);
            let before = |row: &Iteration| row.worker == worker && row.iteration < iteration;
            rows.iter().filter(|row| before(row)).for_each(|row| self.models[worker as usize].wrote(row));
            rows.retain(|row| !before(row));
            self.send_up(outgoing);
        }
        rows.iter().for_each(|row| self.models[row.worker as usize].wrote(row));
        if self.endpoint.next_wake() > self.now {
            self.models.iter().for_each(|model| model.is_idle(self.now));
        }
    }

    /// Sends a frame: it waits for its host's link, leaves, and arrives at the device or is lost.
    fn send_up(&mut self, outgoing: Outgoing) {
        let (frame, row) = (outgoing.frame, outgoing.record.unwrap());
        assert_eq!(outgoing.node, self.facts.host_of[row.worker as usize]);
        assert!(frame.t <= self.now && row.t_due == frame.t && row.t_sent.is_none());
        let model = &mut self.models[row.worker as usize];
        assert_eq!((row.t_gen, frame.packet), (model.t_ready, PacketId::new(row.worker, row.seq, row.attempt)));
        model.sends(frame.t, &row);
        self.check_frame(&frame);
        self.pool.release(frame.buffer);
        let free = self.up.entry(outgoing.node).or_default();
        // On a wire, a frame that was handed over leaves later than it was due.
        let leaves = (*free).max(if self.setup.virtual_time { frame.t } else { self.now + NS });
        *free = leaves + WIRE;
        if self.setup.virtual_time {
            self.leave(frame.packet, leaves);
        } else {
            self.at(leaves, Event::Left(frame.packet));
        }
        if !self.is_lost() {
            self.at(leaves + WIRE + DELAY, Event::Contribution(frame.packet));
        }
    }

    fn is_lost(&mut self) -> bool {
        (self.draw(1000) as f64) < self.setup.loss * 1000.0
    }

    fn check_frame(&mut self, frame: &Frame) {
        let (worker, seq) = (frame.packet.worker(), frame.packet.seq());
        let (iteration, block) = (seq / self.setup.blocks, seq % self.setup.blocks);
        let (job, bytes) = (worker / self.setup.per_job, self.pool.frame(frame));
        assert_eq!((frame.worker, u32::from(frame.cluster), frame.flow), (worker, job, self.facts.server));
        assert_eq!((frame.kind, usize::from(frame.head)), (Kind::Update, HEAD));
        assert_eq!((source_ip(bytes), target_ip(bytes)), (worker_ip(worker), SERVER_IP));
        assert_eq!(has_udp_checksum(bytes), self.setup.udp_checksum);
        let payload = &bytes[HEAD..];
        let own = usize::from(self.dense.elements_of(block));
        let (values, all) = if self.setup.trio {
            let header = trio_ml::Header {
                job: job as u8,
                block,
                age_op: 0,
                last: block == self.setup.blocks - 1,
                degraded: false,
                source: (worker % self.setup.per_job) as u8,
                sources: 1,
                generation: iteration as u16,
                elements: own as u16,
            };
            assert_eq!(trio_ml::Header::parse(payload), Some(header));
            let datagram = Datagram::parse(bytes).unwrap().payload;
            assert_eq!(datagram.len(), trio_ml::HEADER + own * 4, "padding is behind the datagram");
            let padding = &payload[trio_ml::HEADER + own * 4..];
            assert!(bytes.len() >= ETHERNET_MIN && padding.iter().all(|byte| *byte == 0), "{bytes:?}");
            (trio_ml::values(payload, &header), own)
        } else {
            let header = switchml::Header {
                job: iteration as u8,
                packet: seq,
                set: (seq / self.setup.window) % 2 == 1,
                slot: (seq % self.setup.window) as u16,
                exponent: 0,
                attempt: frame.packet.attempt() as i8,
                elements: 64,
            };
            assert_eq!(switchml::Header::parse(payload), Some(header));
            (switchml::values(payload, &header), 64)
        };
        let mut expected = vec![0; all];
        self.dense.fixed(worker, iteration, block, SCALE, &mut expected[..own]);
        assert_eq!(values, expected.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<_>>());
    }

    /// Sends one copy to each host of the job's workers, in the order of the link, or one for all of them.
    fn send_down(&mut self, made: Made) {
        let job = made.job * self.setup.per_job..(made.job + 1) * self.setup.per_job;
        let nodes: BTreeSet<u32> = match made.only {
            Some(worker) => [self.facts.host_of[worker as usize]].into(),
            None if self.setup.virtual_time => job.map(|w| self.facts.host_of[w as usize]).collect(),
            None => [ALL_WORKERS].into(),
        };
        for node in nodes {
            let copies = 1 + u64::from(self.setup.disturbed && self.draw(4) == 0);
            for _ in 0..copies {
                let t = self.now + DELAY + self.draw(400) as Time * NS;
                let t = t.max(self.down.get(&node).copied().unwrap_or_default());
                self.down.insert(node, t);
                if !self.is_lost() {
                    self.at(t, Event::Result(node, made.clone()));
                }
                if self.setup.disturbed && self.draw(3) == 0 {
                    let other = self.other(node, &made);
                    self.at(t, other);
                }
            }
        }
    }

    /// Makes an event with a frame that is no result of this job.
    fn other(&mut self, node: u32, made: &Made) -> Event {
        let (setup, dense) = (self.setup.clone(), self.dense.clone());
        let (job, workers, last) = (made.job as u16, setup.per_job as u16, setup.blocks * setup.iterations);
        let mut cluster = job;
        let payload = |job: u8, seq: u32| payload_of(&setup, &dense, job, seq, workers, false);
        let (mut kind, mut foreign, mut of, mut alone) = (Kind::Result, true, None, None);
        let mut jobs_own = made.job * setup.per_job..(made.job + 1) * setup.per_job;
        let elsewhere = jobs_own.find(|w| node != ALL_WORKERS && self.facts.host_of[*w as usize] != node);
        let payload = match self.draw(8) {
            0 => (0..self.draw(9)).map(|_| self.draw(256) as u8).collect(),
            1 => {
                kind = if self.draw(2) == 0 { Kind::Control } else { Kind::Plain };
                payload(job as u8, made.seq)
            }
            2 => {
                cluster = setup.jobs as u16 + self.draw(2) as u16 * 300;
                payload(cluster as u8, made.seq)
            }
            3 if setup.trio => payload(job as u8 + 1, made.seq),
            // A result to which nobody has contributed yet.
            3 => {
                of = Some(last - 1);
                payload(job as u8, last - 1)
            }
            4 => payload(job as u8, last + self.draw(1000) as u32),
            5 if setup.trio => {
                let mut notice = vec![0; trio_ml::HEADER];
                trio_ml::Header { job: job as u8, age_op: trio_ml::STRAGGLER, ..Default::default() }.emit(&mut notice);
                foreign = false;
                notice
            }
            // A result in another slot, in the other set or of another iteration.
            5 => {
                let mut payload = payload(job as u8, made.seq);
                let mut header = switchml::Header::parse(&payload).unwrap();
                match self.draw(3) {
                    0 => header.slot += 1,
                    1 => header.set = !header.set,
                    _ => header.job ^= 1,
                }
                header.emit(&mut payload);
                payload
            }
            // A result for one worker, at the host of another.
            6 if elsewhere.is_some() => {
                alone = elsewhere.map(worker_ip);
                payload(job as u8, made.seq)
            }
            _ => vec![0xff; self.draw(20) as usize],
        };
        let to = alone.unwrap_or(group_ip(cluster));
        Event::Other { node, cluster, kind, frame: framed(to, &payload), foreign, of }
    }

    fn hand_over(&mut self, node: u32, cluster: u16, kind: Kind, packet: PacketId, bytes: &[u8]) {
        let buffer = self.pool.take();
        self.pool.bytes_mut(buffer)[..bytes.len()].copy_from_slice(bytes);
        let (len, head) = (bytes.len() as u16, HEAD as u8);
        let frame = Frame { t: self.now, packet, buffer, worker: 0, len, cluster, flow: node, head, kind };
        self.endpoint.on_burst(node, &[frame], &mut self.pool, &mut self.host);
    }

    fn result(&mut self, node: u32, made: Made) {
        let is_needed = self.models.iter().any(|model| model.job() == made.job && model.needs(made.seq));
        self.hand_over(node, made.job as u16, Kind::Result, made.id, &made.frame);
        let mut expected: Vec<Reply> = Vec::new();
        for worker in 0..self.setup.workers() {
            let here = node == ALL_WORKERS || self.facts.host_of[worker as usize] == node;
            let model = &mut self.models[worker as usize];
            if here && model.job() == made.job && made.only.is_none_or(|only| only == worker) {
                let (first, t_sent) = model.result(made.seq, made.count, made.degraded, self.now);
                expected.push(Reply {
                    t_recv: self.now,
                    t_sent,
                    worker,
                    job: made.job as u16,
                    seq: made.seq,
                    packet: made.id,
                    count: made.count,
                    degraded: made.degraded,
                    again: !first,
                });
            }
        }
        self.host.replies.sort_by_key(|reply| reply.worker);
        assert_eq!(std::mem::take(&mut self.host.replies), expected);
        // A frame for several workers that had the result came again once. A further partial result of a block is another one.
        let copies = expected.iter().filter(|reply| {
            let is_further = reply.degraded && self.partial.insert((reply.worker, reply.packet));
            reply.again && !is_further
        });
        assert_eq!(std::mem::take(&mut self.host.frames_again), u64::from(copies.count() > 0));
        self.reached.insert(made.id);
        for delivery in std::mem::take(&mut self.host.deliveries) {
            let row = delivery.row;
            assert!(self.delivered.insert(row.packet), "delivered twice: {row:?}");
            assert_eq!((row.t_recv, row.packet, row.count), (self.now, made.id, made.count));
            assert_eq!((row.cluster, row.job.map(u32::from)), (None, Some(made.job)));
            assert_eq!((row.newest_seq, row.accepted), (made.seq, is_needed));
            assert_eq!((row.bytes as usize, self.pool.frame(&delivery.frame)), (made.frame.len(), &made.frame[..]));
            self.pool.release(delivery.frame.buffer);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn workers_do_what_a_naive_model_says(setup in setups()) {
        World::new(&setup).run();
    }
}
