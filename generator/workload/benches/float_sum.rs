//! Sums of floats as a switch with lookup tables makes them, of gradients in arrays of one packet and of many.
//!
//! Goal: 100 million a second on one core, so that models of switches never wait for their arithmetic.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::seed::Seed;
use pktgen_workload::gradient::GradientPool;
use pktgen_workload::sparse::float::Tables;

fn gradients(n: usize) -> Vec<f32> {
    let mut bytes = vec![0; n * 4];
    GradientPool::new(Seed(1), n).fill(1, 2, &mut bytes);
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn sums(c: &mut Criterion) {
    let tables = Tables::new();
    let all = gradients(1 << 17);
    let mut group = c.benchmark_group("float_sum");
    for n in [1usize << 10, 1 << 16] {
        group.throughput(Throughput::Elements(n as u64));
        let mut out = vec![0.0; n];
        let mut at = 0;
        // Other operands every time, so that no branch is learnt by heart.
        let mut next = || {
            at = (at + n) % (1 << 16);
            (&all[at..at + n], &all[(1 << 16) + at..][..n.min((1 << 16) - at)])
        };
        for (name, merged) in [("tables", true), ("seven_lookups", false)] {
            group.bench_function(BenchmarkId::new(name, n), |b| {
                b.iter(|| {
                    let (x, y) = next();
                    for ((to, x), y) in out.iter_mut().zip(x).zip(y) {
                        *to = if merged { tables.add(*x, *y) } else { tables.add_by_seven(*x, *y) };
                    }
                    out[n / 2]
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, sums);
criterion_main!(benches);
