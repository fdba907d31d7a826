//! Tests the device against queueing theory and the paper's Figure 5 as described in §6.
//!
//! These tests drive a port directly, with the queue and the link of the real device: they choose only arrivals and service times.

use pktgen_core::age::Sawtooth;
use pktgen_core::record::PacketId;
use pktgen_core::seed::{Seed, Stream};
use pktgen_core::time::{NEVER, Time};
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::queue::{Fifo, Queue};
use pktgen_olaf::queue::{MergedReward, OlafQueue, OlafSettings};
use pktgen_wire::wire::frame::HEAD;
use pktgen_wire::wire::update::{Header, UPDATE_HEAD};
use rand::RngExt;

const BYTES: usize = HEAD + UPDATE_HEAD + 4;

fn frame(seq: u32, t: Time, pool: &mut Pool) -> Frame {
    let buffer = pool.take();
    let header =
        Header { flags: 0, cluster: 0, count: 1, worker: 0, seq, generation: t, attempt: 0, elements: 1, reward: 0.0 };
    header.emit_update(&mut pool.bytes_mut(buffer)[HEAD..BYTES]);
    Frame {
        t,
        packet: PacketId::new(0, seq, 0),
        buffer,
        worker: 0,
        len: BYTES as u16,
        cluster: 0,
        flow: 0,
        head: HEAD as u8,
        kind: Kind::Update,
    }
}

/// Serves one worker's updates at `arrivals`, one at a time; returns its sawtooth.
fn serve(queue: &mut dyn Queue, arrivals: impl Iterator<Item = Time>, mut service: impl FnMut() -> Time) -> Sawtooth {
    let (mut pool, mut books, mut saw) = (Pool::new(BYTES, 64), Books::default(), Sawtooth::default());
    let mut in_service: Option<(Time, Frame)> = None;
    let mut start = |queue: &mut dyn Queue, now: Time, pool: &mut Pool| {
        queue.dequeue(now, pool).map(|frame| (now + service(), frame))
    };
    let mut arrivals = arrivals.enumerate().peekable();
    loop {
        let next = arrivals.peek().map_or(NEVER, |(_, t)| *t);
        match in_service {
            Some((end, frame)) if end <= next => {
                let generation = Header::parse_update(pool.payload(&frame)).unwrap().generation;
                saw.delivered(end, generation);
                pool.release(frame.buffer);
                queue.release();
                in_service = start(queue, end, &mut pool);
            }
            _ => {
                let Some((seq, t)) = arrivals.next() else { break };
                saw.generated(t);
                let frame = frame(seq as u32, t, &mut pool);
                queue.enqueue(&[frame], &mut pool, &mut books);
                books.rows.clear();
                if in_service.is_none() {
                    in_service = start(queue, t, &mut pool);
                }
            }
        }
    }
    saw
}

const UNIT: f64 = 1e6;
const UPDATES: usize = 1_000_000;

fn exponential(stream: &mut Stream, mean: f64) -> Time {
    let unit: f64 = stream.random();
    (-(1.0 - unit).ln() * mean * UNIT) as Time
}

fn poisson(rate: f64, seed: u64) -> impl Iterator<Item = Time> {
    let (mut stream, mut t) = (Seed(seed).stream("arrivals", 0, 0), 0);
    (0..UPDATES).map(move |_| {
        t += exponential(&mut stream, 1.0 / rate);
        t
    })
}

fn close(measured: Option<f64>, theory: f64, what: &str) {
    let measured = measured.unwrap() / UNIT;
    assert!((measured / theory - 1.0).abs() < 0.01, "{what}: {measured} against {theory}");
}

fn olaf() -> OlafQueue {
    let settings = OlafSettings {
        slots: 8,
        hold_slot: true,
        threshold: None,
        merged_reward: MergedReward::Mean,
        active_window: NEVER,
    };
    OlafQueue::new(settings, 1)
}

#[test]
fn the_olaf_queue_of_one_worker_is_m_m_1_2_star() {
    for rho in [0.5, 1.0, 2.0] {
        let mut stream = Seed(11).stream("service", 0, 0);
        let saw = serve(&mut olaf(), poisson(rho, 5), || exponential(&mut stream, 1.0));
        let r = rho;
        let theory = 1.0 + 1.0 / r + r * r * (1.0 + 3.0 * r + r * r) / ((1.0 + r + r * r) * (1.0 + r) * (1.0 + r));
        close(saw.mean(), theory, &format!("M/M/1/2* at rho {rho}"));
    }
}

#[test]
fn fifo_is_m_m_1_and_m_d_1_and_d_d_1() {
    let fifo = || Fifo::new(1 << 20, true);
    let r = 0.53f64;
    let mut stream = Seed(12).stream("service", 0, 0);
    let saw = serve(&mut fifo(), poisson(r, 6), || exponential(&mut stream, 1.0));
    close(saw.mean(), 1.0 + 1.0 / r + r * r / (1.0 - r), "M/M/1");
    close(saw.peak_mean(), 1.0 / r + 1.0 / (1.0 - r), "M/M/1 peak");
    let saw = serve(&mut fifo(), poisson(r, 7), || UNIT as Time);
    close(saw.mean(), 0.5 + 1.0 / (2.0 * (1.0 - r)) + (1.0 - r) * r.exp() / r, "M/D/1");
    let period = (UNIT / r) as Time;
    let saw = serve(&mut fifo(), (0..UPDATES as Time).map(|i| i * period), || UNIT as Time);
    close(saw.mean(), 1.0 / (2.0 * r) + 1.0, "D/D/1");
}

#[test]
fn figure_5_as_described_in_section_6() {
    // Updates 1 to 3 arrive after the previous one has left: no aggregation. Update 4 waits behind another
    // cluster when 5 arrives, so they leave as one, at D(4); the age falls to that of A(5).
    let service = 10;
    let arrivals = [0, 20, 40, 62, 66, 90];
    let blocked_until = [10, 30, 50, 80, 80, 100];
    let mut saw = Sawtooth::default();
    let (mut pool, mut books, mut queue) = (Pool::new(BYTES, 8), Books::default(), olaf());
    let mut delivered = Vec::new();
    for (i, (&a, &d)) in arrivals.iter().zip(&blocked_until).enumerate() {
        saw.generated(a);
        let frame = frame(i as u32, a, &mut pool);
        queue.enqueue(&[frame], &mut pool, &mut books);
        // Update 4 is still waiting when update 5 arrives: it leaves with it.
        if i == 3 {
            continue;
        }
        let out = queue.dequeue(d - service, &mut pool).unwrap();
        let generation = Header::parse_update(pool.payload(&out)).unwrap().generation;
        saw.delivered(d, generation);
        delivered.push((d, generation));
        queue.release();
    }
    assert_eq!(delivered, [(10, 0), (30, 20), (50, 40), (80, 66), (100, 90)]);
    // Peaks, Δp(k) = D(k) − A(l): 30 − 0, 50 − 20, 80 − 40, 100 − 66.
    assert_eq!(saw.peak_mean(), Some((30.0 + 30.0 + 40.0 + 34.0) / 4.0));
    assert_eq!(saw.peak_max(), 40);
    // Area under the sawtooth: 0→30, 10→30, 10→40, 14→34.
    let area = (900.0 + (900.0 - 100.0) + (1600.0 - 100.0) + (34.0 * 34.0 - 14.0 * 14.0)) / 2.0;
    assert_eq!(saw.mean(), Some(area / 100.0));
}
