//! An iteration of synchronous training in virtual time: ResNet50 by six workers, every block summed and verified.
//!
//! Goal: 150,000 packets of 1024 gradients (Trio-ML) in under 1 s on one core, records and all. `hierarchy` is the paper's
//! testbed: two engines with three servers each, a third on top.

use std::sync::atomic::AtomicBool;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::config::Document;
use pktgen_engine::driver::virtual_time::Simulation;
use pktgen_realtime::capture::{RunDir, claim};
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;

fn iteration(c: &mut Criterion) {
    let stop = AtomicBool::new(false);
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
        group.bench_function(name, |b| {
            b.iter_batched(
                || {
                    let dir = tempfile::tempdir().expect("a temporary folder");
                    let plan = experiment.plan(run).expect("valid");
                    let manifest = experiment.manifest(run, &plan);
                    let recorder =
                        RunDir::create(claim(dir.path()).expect("an empty folder"), &manifest, plan.spec.wanted())
                            .expect("a run dir");
                    (dir, plan, recorder)
                },
                |(dir, plan, mut recorder)| {
                    let outcome =
                        Simulation::new(plan.parts).run(plan.spec.capture.until, &stop, &mut recorder, &mut |_| {});
                    (dir, recorder, outcome.map(|o| o.counters))
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, iteration);
criterion_main!(benches);
