//! A batch of 15,000 hot gradients into packets, and the passes of a packet.
//!
//! Goal: 10 million gradients per second on one core: at 18 pairs in 192 bytes that is 0.85 Gbit/s of packets. Counting
//! passes must not be slower.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::seed::{Seed, unit};
use pktgen_workload::sparse::layout::Layout;
use pktgen_workload::sparse::packaging::{PAIRS_MAX, Packaging, Packer, Pair};
use pktgen_workload::sparse::pipeline::{Scratch, passes};

const HOT: u32 = 30_000;

fn packaging(c: &mut Criterion) {
    let mut stream = Seed(1).stream("bench", 0, 0);
    let batch: Vec<Pair> = (0..HOT).filter(|_| unit(&mut stream) < 0.5).map(|index| (index, 1.0)).collect();
    for registers in [9, 32] {
        let random = Layout::random(registers, HOT.div_ceil(registers), Seed(1));
        for (name, layout) in [("heat", Layout::heat(registers)), ("random", random)] {
            let mut group = c.benchmark_group(format!("packaging_{name}_{registers}"));
            group.throughput(Throughput::Elements(batch.len() as u64));
            let mut packer = Packer::new(PAIRS_MAX, registers);
            let mut limited = packer.clone().recirculating_at_most(1);
            group.bench_function("algorithm1", |b| {
                b.iter(|| packer.pack(&batch, &layout, Packaging::Algorithm1).len());
            });
            group.bench_function("algorithm1_split", |b| {
                b.iter(|| limited.pack(&batch, &layout, Packaging::Algorithm1).len());
            });
            group.bench_function("rank_order", |b| {
                b.iter(|| packer.pack(&batch, &layout, Packaging::RankOrder).len());
            });
            let packets = packer.pack(&batch, &layout, Packaging::RankOrder);
            let mut scratch = Scratch::default();
            group.bench_function("passes", |b| {
                b.iter(|| packets.iter().map(|packet| passes(packet, &layout, &mut scratch).extra).sum::<u32>());
            });
            group.finish();
        }
    }
}

criterion_group!(benches, packaging);
criterion_main!(benches);
