//! The Olaf queue by itself: packets offered per second, payloads really summed, books written.
//!
//! Goal: 24 million packets/s of 256 bytes on one core (the paper's FPGA runs at 50 Gbit/s, 24.4 million).
//! Two offered for each one taken, nine clusters of three workers, eight slots.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::record::PacketId;
use pktgen_engine::frame::{BURST, Frame, Kind, Pool};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::queue::Queue;
use pktgen_olaf::queue::{MergedReward, OlafQueue, OlafSettings};
use pktgen_wire::wire::frame::HEAD;
use pktgen_wire::wire::update::{Header, UPDATE_HEAD, elements_in};

const BYTES: usize = 256;

/// Frames of one burst, workers in turn; the bytes of each slot stay valid from burst to burst.
fn fill(pool: &mut Pool, burst: &mut Vec<Frame>, seq: &mut u32) {
    burst.clear();
    for i in 0..BURST as u32 {
        let worker = (*seq + i) % 27;
        let header = Header {
            flags: 0,
            cluster: (worker / 3) as u16,
            count: 1,
            worker,
            seq: *seq,
            generation: i64::from(*seq),
            attempt: 0,
            elements: elements_in(BYTES) as u16,
            reward: 0.0,
        };
        let frame = Frame {
            t: i64::from(*seq),
            packet: PacketId::new(worker, *seq, 0),
            buffer: pool.take(),
            worker,
            len: BYTES as u16,
            cluster: header.cluster,
            flow: 0,
            head: HEAD as u8,
            kind: Kind::Update,
        };
        header.emit_update(&mut pool.bytes_mut(frame.buffer)[HEAD..BYTES]);
        // Small numbers, so that sums of sums stay finite for as long as the bench runs.
        if *seq < 1 << 16 {
            for value in pool.bytes_mut(frame.buffer)[HEAD + UPDATE_HEAD..BYTES].as_chunks_mut::<4>().0 {
                *value = 1e-30f32.to_le_bytes();
            }
        }
        burst.push(frame);
        *seq += 1;
    }
}

fn queue(c: &mut Criterion) {
    let settings = OlafSettings {
        slots: 8,
        hold_slot: true,
        threshold: Some(1.5),
        merged_reward: MergedReward::Mean,
        active_window: i64::MAX,
    };
    let mut group = c.benchmark_group("olaf_queue");
    group.throughput(Throughput::Elements(BURST as u64));
    let (mut pool, mut books, mut burst, mut seq) = (Pool::new(BYTES, 256), Books::default(), Vec::new(), 0);
    let mut queue = OlafQueue::new(settings, 9);
    group.bench_function("offer_256B", |b| {
        b.iter_custom(|iterations| {
            let mut spent = std::time::Duration::ZERO;
            for _ in 0..iterations {
                fill(&mut pool, &mut burst, &mut seq);
                books.rows.clear();
                let watch = pktgen_testing::Stopwatch::start();
                for two in burst.chunks(2) {
                    queue.enqueue(two, &mut pool, &mut books);
                    queue.release();
                    if let Some(out) = queue.dequeue(two[1].t, &mut pool) {
                        pool.release(out.buffer);
                    }
                }
                spent += watch.elapsed();
            }
            spent
        });
    });
    group.finish();
}

criterion_group!(benches, queue);
criterion_main!(benches);
