//! Building Olaf frames of 256 bytes with distinct headers and gradients.
//!
//! Goal: 45 million/s on one core, the line rate of 100 Gbit/s Ethernet (44.64 million with FCS, preamble and gap).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::seed::Seed;
use pktgen_core::topology::Population;
use pktgen_wire::wire::frame::HEAD;
use pktgen_wire::wire::update::{UPDATE_HEAD, elements_in};
use pktgen_workload::gradient::GradientPool;
use pktgen_workload::workload::Update;
use pktgen_workload::workload::build::Builder;

const BYTES: usize = 256;
const BURST: usize = 64;

fn build(c: &mut Criterion) {
    let workers = Population::regular(9, 3);
    let mut builder = Builder::new(&workers, false);
    let pool = GradientPool::new(Seed(1), elements_in(BYTES));
    let mut frames = vec![[0u8; BYTES]; BURST];
    let mut seq = 0u32;
    let mut group = c.benchmark_group("build");
    group.throughput(Throughput::Elements(BURST as u64));
    group.bench_function("olaf_256B", |b| {
        b.iter(|| {
            for frame in &mut frames {
                let worker = seq % 27;
                let update = Update {
                    t_gen: i64::from(seq),
                    cluster: (worker / 3) as u16,
                    worker,
                    seq,
                    bytes: BYTES as u32,
                    reward: Some(1.0),
                    iteration: None,
                };
                builder.emit(&update, 0, frame);
                pool.fill(worker, seq, &mut frame[HEAD + UPDATE_HEAD..]);
                seq = seq.wrapping_add(1);
            }
            frames[0][60]
        });
    });
    group.finish();
}

criterion_group!(benches, build);
criterion_main!(benches);
