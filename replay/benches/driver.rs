//! Virtual time, end to end: worker packets per second through one bottleneck, every record written.
//!
//! Goal: 3 million worker packets/s on one core with full records (Arrow IPC), sums verified, ACKs sent. The second
//! group leaves the records out, so that the difference is their price. Not measured: turning the
//! records into Parquet at the end of a run.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pktgen_generator::Result;
use pktgen_generator::config::Document;
use pktgen_generator::record::{Book, Received, Sent};
use pktgen_replay::capture::RunDir;
use pktgen_replay::driver::virtual_time::Recorder;
use pktgen_replay::run::Experiment;

const PACKETS: u64 = 27 * 20_000;

fn experiment(queue: &str, program: &str) -> Experiment {
    let text = format!(
        "[workload]\nupdates = 20000\ncluster_sigma = 0.3\n[schedule]\nkind = \"constant\"\njitter = 0.3\noffered = \"60Gbps\"\n\
         [topology]\nrate = \"40Gbps\"\n[target]\nprogram = \"{program}\"\nqueue = \"{queue}\"\n"
    );
    Experiment::open(Document::parse(&text, "bench").expect("valid")).expect("valid")
}

struct Nothing;

impl Recorder for Nothing {
    fn sent(&mut self, row: &Sent) -> Result<()> {
        black_box(row);
        Ok(())
    }
    fn book(&mut self, row: &Book) -> Result<()> {
        black_box(row);
        Ok(())
    }
    fn received(&mut self, row: &Received, frame: &[u8]) -> Result<()> {
        black_box((row, frame));
        Ok(())
    }
}

fn driver(c: &mut Criterion) {
    let stop = AtomicBool::new(false);
    let mut group = c.benchmark_group("virtual_time");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(10);
    for (name, queue, program) in [("olaf", "olaf", "olaf"), ("fifo", "fifo", "forward")] {
        let experiment = experiment(queue, program);
        let run = &experiment.runs[0];
        group.bench_function(format!("{name}/no_records"), |b| {
            b.iter_batched(
                || experiment.plan(run).expect("valid"),
                |plan| plan.simulation.run(plan.until, &stop, &mut Nothing, &mut |_| {}).map(|o| o.counters),
                BatchSize::PerIteration,
            );
        });
        group.bench_function(format!("{name}/full_records"), |b| {
            b.iter_batched(
                || {
                    let dir = tempfile::tempdir().expect("a temporary folder");
                    let plan = experiment.plan(run).expect("valid");
                    let manifest = experiment.manifest(run, &plan);
                    let recorder = RunDir::create(dir.path(), &manifest, plan.records, false).expect("a run dir");
                    (dir, plan, recorder)
                },
                |(dir, plan, mut recorder)| {
                    let outcome = plan.simulation.run(plan.until, &stop, &mut recorder, &mut |_| {});
                    (dir, recorder, outcome.map(|o| o.counters))
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, driver);
criterion_main!(benches);
