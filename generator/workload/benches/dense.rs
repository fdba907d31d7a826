//! Gradients of a block of 1024 elements: floats, and whole numbers as switches add them.
//!
//! Goal: 0.35 µs for whole numbers, in host and in network order: 4 KB at 100 Gbit/s last 0.33 µs. Blocks with
//! something to clip may take longer.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::seed::Seed;
use pktgen_workload::dense::fixed::{ATP_SCALE, scale_of};
use pktgen_workload::dense::{Dense, DensePlan};

fn content(c: &mut Criterion) {
    let Ok(dense) = Dense::new(DensePlan::default(), Seed(1)) else { panic!("the default plan is one") };
    let elements = usize::from(dense.elements_per_packet());
    let (mut numbers, mut bytes) = (vec![0i32; elements], vec![0u8; elements * 4]);
    let mut floats = vec![0f32; elements];
    // All blocks but the last, which is shorter.
    let blocks = dense.blocks() - 1;
    let mut at = 0u32;
    let mut next = move || {
        at = (at + 1) % (blocks * 6);
        (at % 6, at / 6)
    };
    let mut group = c.benchmark_group("dense_1024");
    group.throughput(Throughput::Elements(elements as u64));
    group.bench_function("floats", |b| {
        b.iter(|| {
            let (worker, block) = next();
            dense.floats(worker, 0, block, &mut floats);
            floats[1]
        });
    });
    for (name, by_exponent) in [("atp", false), ("exponent", true)] {
        let scale = |worker, block| {
            if by_exponent { scale_of(dense.exponent(worker, 0, block), 6) as f32 } else { ATP_SCALE }
        };
        group.bench_function(format!("fixed_{name}"), |b| {
            b.iter(|| {
                let (worker, block) = next();
                dense.fixed(worker, 0, block, scale(worker, block), &mut numbers) + numbers[1] as u32
            });
        });
        group.bench_function(format!("fixed_be_{name}"), |b| {
            b.iter(|| {
                let (worker, block) = next();
                dense.fixed_be(worker, 0, block, scale(worker, block), &mut bytes) + u32::from(bytes[1])
            });
        });
    }
    group.bench_function("fixed_clipped", |b| {
        b.iter(|| {
            let (worker, block) = next();
            dense.fixed(worker, 0, block, 1e12, &mut numbers)
        });
    });
    group.finish();
}

criterion_group!(benches, content);
criterion_main!(benches);
