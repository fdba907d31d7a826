//! Tests of [`super`]: packets by hand, frames that are left unchanged, and random exchanges compared with a model that knows the meaning.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::roce::session::{address, first_psn};
use crate::roce::{Header as Rdma, icrc, key_of};
use pktgen_wire::wire::frame::group_ip;
use proptest::prelude::*;

use super::*;

const PACKETS: u32 = 100;
const WINDOW: u32 = 8;

fn traffic(jobs: u16, workers: u32, packets: u32, window: u32) -> Traffic {
    let workers = Arc::new(Population::regular(jobs, workers));
    Traffic { workers, format: "switchml", packets, window, plain: false }
}

fn dialect() -> RoceDialect {
    RoceDialect::new(&traffic(2, 3, PACKETS, WINDOW)).unwrap()
}

/// Returns a frame of this project with a packet of 64 values whose bytes are all `fill`.
fn ours(source: (Ip, u16), target: (Ip, u16), header: &Header, fill: u8) -> Vec<u8> {
    let mut frame = vec![fill; frame_bytes(64)];
    Template::new(source, target, frame.len()).emit(&mut frame);
    header.emit(&mut frame[HEAD..]);
    frame
}

fn update(worker: u32, header: &Header, fill: u8) -> Vec<u8> {
    ours((worker_ip(worker), WORKER_PORT), (SERVER_IP, format::PORT), header, fill)
}

fn result(to: Ip, header: &Header, fill: u8) -> Vec<u8> {
    ours((SERVER_IP, format::PORT), (to, WORKER_PORT), header, fill)
}

/// Returns the header of the `used`th packet of its slot, counted from 0.
fn header(slot: u16, used: u32, (packets, window): (u32, u32)) -> Header {
    let packet = used * window + u32::from(slot);
    let job = (packet / packets) as u8;
    Header { job, packet, set: used % 2 == 1, slot, exponent: -7, attempt: 0, elements: 64 }
}

fn written(dialect: &mut RoceDialect, frame: &[u8], copy: usize) -> Vec<u8> {
    let mut out = vec![0xee; 400];
    let len = dialect.copy(frame, copy, &mut out).unwrap();
    out.truncate(len);
    out
}

fn read(dialect: &mut RoceDialect, frame: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![0xee; 400];
    let len = dialect.inward(frame, 5, &mut out)?;
    out.truncate(len);
    Some(out)
}

#[test]
fn a_packet_and_its_result_by_hand() {
    let (mut workers, mut device) = (dialect(), dialect());
    // The fourteenth use of slot 5: packet 109, which is the ninth of the client's second job.
    let packet = header(5, 13, (PACKETS, WINDOW));
    let sent = Header { attempt: 3, ..packet };
    *device.used(4, 5).unwrap() = 12;
    let up = written(&mut workers, &update(4, &sent, 0xa5), 0);
    assert_eq!((up.len(), source_ip(&up), target_ip(&up)), (334, worker_ip(4), SERVER_IP));
    assert_eq!((up[34..38].to_vec(), up[40..42].to_vec()), (vec![0xc0, 1, 0x12, 0xb7], vec![0, 0]));
    let rdma = Rdma::parse(payload(&up).unwrap()).unwrap();
    assert_eq!((rdma.part, rdma.pair, rdma.psn), (Part::OnlyImmediate, 0x81_0005, first_psn(0x41_0005) + 13));
    assert_eq!((rdma.target.key, rdma.target.address), (key_of(5, true), address(5, 64)));
    assert_eq!((rdma.immediate.message, rdma.immediate.exponents, rdma.elements), (9, [-7, 0], 64));
    assert_eq!(icrc(&up), up.last_chunk().copied());
    assert_eq!(read(&mut device, &up), Some(update(4, &packet, 0xa5)), "but for which transmission it is");
    // The switch has no multicast: a frame for each worker of the job.
    let all = result(group_ip(1), &packet, 0x5a);
    assert_eq!((device.copies(&all), device.copies(&result(worker_ip(4), &packet, 0))), (3, 1));
    for (copy, worker) in (3..6).enumerate() {
        let down = written(&mut device, &all, copy);
        assert_eq!((target_ip(&down), down[..6].to_vec()), (worker_ip(worker), vec![2, 0, 10, 0, 0, worker as u8 + 1]));
        assert_eq!(down[34..38], [0x80, copy as u8, 0x12, 0xb7]);
        let rdma = Rdma::parse(payload(&down).unwrap()).unwrap();
        assert_eq!((rdma.pair, rdma.target.key), (0x40_0005 | (copy as u32) << 16, 0x1000 | copy as u32));
        *workers.used(worker, 5).unwrap() = 13;
        let heard = read(&mut workers, &down).unwrap();
        assert_eq!(heard, result(worker_ip(worker), &packet, 0x5a));
        // A capture of a role contains the frames on the cable.
        assert_eq!(written(&mut workers, &heard, 0), down);
    }
}

#[test]
fn what_is_no_packet_of_the_session_is_left_alone() {
    let (mut workers, mut device) = (dialect(), dialect());
    let first = header(5, 0, (PACKETS, WINDOW));
    let up = written(&mut workers, &update(4, &first, 1), 0);
    let down = written(&mut device, &result(worker_ip(4), &first, 1), 0);
    for (dialect, frame) in [(&mut device, &up), (&mut workers, &down)] {
        assert!(read(dialect, frame).is_some());
        assert_eq!(dialect.inward(frame, 0, &mut [0; 307]), None, "larger than the run's frames");
        assert!((0..frame.len()).all(|len| read(dialect, &frame[..len]).is_none()), "cut");
        // Port, part, queue pair, key, message.
        for byte in [37, 42, 47, 48, 49, 65, 70] {
            let mut other = frame.clone();
            other[byte] ^= 0x40;
            assert_eq!(read(dialect, &other), None, "byte {byte}");
        }
    }
    let mut far = up.clone();
    far[49] = 8;
    far[65] = 16;
    assert_eq!(read(&mut device, &far), None, "a slot that no worker has");
    assert_eq!(read(&mut device, &update(4, &first, 1)), None, "with our header");
    let mut out = vec![0; 400];
    assert_eq!(device.outward(&up, &mut out), None, "without");
    assert_eq!(workers.outward(&update(6, &first, 1), &mut out), None, "of no worker of this run");
    assert_eq!(workers.outward(&update(4, &Header { slot: 8, ..first }, 1), &mut out), None, "beyond the pool");
    assert_eq!(device.copies(&[7; 60]), 1);
}

#[test]
fn sessions_that_the_switch_cannot_have_are_refused() {
    let why = |workers, window| RoceDialect::new(&traffic(1, workers, PACKETS, window)).err().map(|e| e.to_string());
    assert_eq!(why(32, 512), None);
    assert!(why(33, 8).unwrap().contains("5 bits for the worker"));
    for window in [0, 513] {
        assert!(why(2, window).unwrap().contains(&format!("{window} packets under way")));
    }
}

/// Frames on a cable, with the expected output and their meaning.
type Cable = VecDeque<(Vec<u8>, Vec<u8>, Header)>;

/// Both ends, cables that keep the order, and the meaning of every frame on them.
struct World {
    workers: RoceDialect,
    device: RoceDialect,
    shape: (u32, u32),
    per_job: u32,
    /// By worker.
    up: Vec<Cable>,
    down: Vec<Cable>,
    /// By worker and slot: how often it was used before.
    used: HashMap<(u32, u16), u32>,
    /// By job and packet: the workers that have contributed.
    summed: HashMap<(u32, u32), HashSet<u32>>,
    /// Number of results that arrived.
    heard: u32,
}

impl World {
    fn send(&mut self, worker: u32, slot: u16, attempt: i8, fill: u8) {
        let packet = header(slot, self.used.get(&(worker, slot)).copied().unwrap_or(0), self.shape);
        let frame = written(&mut self.workers, &update(worker, &Header { attempt, ..packet }, fill), 0);
        self.up[worker as usize].push_back((frame, update(worker, &packet, fill), packet));
    }

    /// Delivers the next frame of a worker to the switch, which answers correctly.
    fn rise(&mut self, worker: u32) {
        let Some((frame, expected, packet)) = self.up[worker as usize].pop_front() else { return };
        assert_eq!(read(&mut self.device, &frame), Some(expected));
        let job = worker / self.per_job;
        let members = self.summed.entry((job, packet.packet)).or_default();
        let again = !members.insert(worker);
        let receivers: Vec<u32> = match (members.len() as u32 == self.per_job, again) {
            (false, _) => return,
            (true, true) => vec![worker],
            (true, false) => (job * self.per_job..(job + 1) * self.per_job).collect(),
        };
        let fill = packet.packet as u8;
        let target = if again { worker_ip(worker) } else { group_ip(job as u16) };
        let answer = result(target, &packet, fill);
        assert_eq!(self.device.copies(&answer), receivers.len());
        for (copy, receiver) in receivers.into_iter().enumerate() {
            let frame = written(&mut self.device, &answer, copy);
            self.down[receiver as usize].push_back((frame, result(worker_ip(receiver), &packet, fill), packet));
        }
    }

    /// Delivers the next frame for a worker, which continues if it waited for it.
    fn fall(&mut self, worker: u32) {
        let Some((frame, expected, packet)) = self.down[worker as usize].pop_front() else { return };
        assert_eq!(read(&mut self.workers, &frame), Some(expected));
        let used = self.used.entry((worker, packet.slot)).or_default();
        *used += u32::from(packet.packet / self.shape.1 == *used);
        self.heard += 1;
    }
}

proptest! {
    /// Workers that send, retransmit and continue, a switch that adds up, and lossy cables: each end reads what the other meant.
    #[test]
    fn each_end_reads_what_the_other_meant(
        jobs in 1u32..3, per_job in 1u32..4, window in 1u32..6, packets in 2u32..20,
        steps in prop::collection::vec((0u8..10, any::<u8>(), any::<u8>(), 0i8..=127), 50..400),
    ) {
        // Otherwise successive packets of a slot have the same number, as each begins a job: see the test below.
        prop_assume!(window % packets != 0);
        let traffic = traffic(jobs as u16, per_job, packets, window);
        let new = || RoceDialect::new(&traffic).unwrap();
        let count = jobs * per_job;
        let cables = || (0..count).map(|_| VecDeque::new()).collect();
        let (used, summed) = (HashMap::new(), HashMap::new());
        let shape = (packets, window);
        let mut world =
            World { workers: new(), device: new(), shape, per_job, up: cables(), down: cables(), used, summed, heard: 0 };
        for (what, who, slot, attempt) in steps {
            let worker = u32::from(who) % count;
            match what {
                0..4 => world.send(worker, u16::from(slot) % window as u16, attempt, slot),
                4..7 => world.rise(worker),
                7..9 => world.fall(worker),
                _ if slot % 2 == 0 => drop(world.up[worker as usize].pop_front()),
                _ => drop(world.down[worker as usize].pop_front()),
            }
        }
    }
}

/// If every use of a slot begins a job, its packets have the same number: results are attributed to the packet sent last, as on the card.
#[test]
fn a_packet_without_a_number_of_its_own_is_known_by_what_was_sent() {
    let shape = (WINDOW, WINDOW);
    let traffic = traffic(1, 2, WINDOW, WINDOW);
    let (mut workers, mut device) = (RoceDialect::new(&traffic).unwrap(), RoceDialect::new(&traffic).unwrap());
    for used in 0..600 {
        let packet = header(3, used, shape);
        for _ in 0..2 {
            let up = written(&mut workers, &update(1, &packet, 0), 0);
            assert_eq!(read(&mut device, &up), Some(update(1, &packet, 0)), "use {used}");
        }
        let down = written(&mut device, &result(group_ip(0), &packet, 1), 1);
        assert_eq!(read(&mut workers, &down), Some(result(worker_ip(1), &packet, 1)), "use {used}");
    }
}
