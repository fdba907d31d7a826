//! Batches of sparse models, per pair.
//!
//! Goal: 150 ns per pair, with hot parameters known or identified.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::seed::Seed;
use pktgen_workload::sparse::{Batch, HotFrom, Sparse, SparsePlan};

fn batches(c: &mut Criterion) {
    let mut group = c.benchmark_group("sparse_batch");
    for (model, scale, hot_from) in [
        ("oa", 1.0, HotFrom::Exact),
        ("oa", 0.01, HotFrom::Exact),
        ("oa", 1.0, HotFrom::Sample),
        ("ncf", 1.0, HotFrom::Exact),
    ] {
        let Ok(plan) = SparsePlan::of(model, scale) else { panic!("{model} is a model") };
        let Ok(sparse) = Sparse::new(SparsePlan { hot_from, ..plan }, Seed(1)) else { panic!("{model} is a plan") };
        let mut batch = Batch::default();
        let mut iteration = 0;
        group.throughput(Throughput::Elements((sparse.pairs() + sparse.dense()).into()));
        group.bench_function(format!("{model}_{scale}_{hot_from:?}"), |b| {
            b.iter(|| {
                iteration += 1;
                sparse.batch(iteration % 8, iteration / 8, &mut batch);
                batch.cold.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, batches);
criterion_main!(benches);
