//! A run in virtual time whose records are written.

use std::sync::atomic::AtomicBool;

use criterion::{BatchSize, Bencher};
use pktgen_engine::driver::virtual_time::Simulation;
use pktgen_realtime::capture::{RunDir, claim};
use pktgen_realtime::run::Experiment;

/// Measures the first run of an experiment with its records.
pub fn recorded(b: &mut Bencher, experiment: &Experiment) {
    let (run, stop) = (&experiment.runs[0], AtomicBool::new(false));
    b.iter_batched(
        || {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let plan = experiment.plan(run).expect("valid");
            let manifest = experiment.manifest(run, &plan);
            let recorder = RunDir::create(claim(dir.path()).expect("an empty folder"), &manifest, plan.spec.wanted())
                .expect("a run dir");
            (dir, plan, recorder)
        },
        |(dir, plan, mut recorder)| {
            let outcome = Simulation::new(plan.parts).run(plan.spec.capture.until, &stop, &mut recorder, &mut |_| {});
            (dir, recorder, outcome.map(|o| o.counters))
        },
        BatchSize::PerIteration,
    );
}
