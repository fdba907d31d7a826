//! An iteration of synchronous training in virtual time: ResNet50 by six workers, every block summed and verified.
//!
//! Goal: 150,000 packets of 1024 gradients (Trio-ML) in under 1 s on one core, records and all. `hierarchy` is the paper's
//! testbed: two engines with three servers each, a third on top.

mod recorded;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::config::Document;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use recorded::recorded;

fn iteration(c: &mut Criterion) {
    let mut group = c.benchmark_group("resnet50_iteration");
    group.sample_size(10);
    for (name, workers, engines, elements, records) in [
        ("trio_ml/no_records", "trio_ml", 1, 1024, "none"),
        ("trio_ml/full_records", "trio_ml", 1, 1024, "full"),
        ("trio_ml/hierarchy", "trio_ml", 2, 1024, "none"),
        ("switchml/no_records", "switchml", 1, 256, "none"),
    ] {
        let text = format!(
            "[workload]\nkind = \"dense\"\nmodel = \"resnet50\"\nworkers = 6\niterations = 1\nelements = {elements}\n\
             compute = \"100ms\"\n[topology]\nkind = \"rack\"\nengines = {engines}\n[endpoint]\nworkers = \"{workers}\"\n\
             [capture]\nrecords = \"{records}\"\n"
        );
        let experiment = Experiment::open(all(), Document::parse(&text, "bench").expect("valid")).expect("valid");
        let run = &experiment.runs[0];
        let packets = experiment.plan(run).expect("valid").spec.training.map_or(0, |t| u64::from(t.blocks * t.workers));
        group.throughput(Throughput::Elements(packets));
        group.bench_function(name, |b| recorded(b, &experiment));
    }
    group.finish();
}

criterion_group!(benches, iteration);
criterion_main!(benches);
