//! Virtual time, end to end: worker packets per second through one bottleneck, every record written.
//!
//! Goal: 3 million worker packets/s on one core with full records (Arrow IPC), sums verified, ACKs sent. The second
//! group leaves the records out, so that the difference is their price. Not measured: turning the
//! records into Parquet at the end of a run.

mod recorded;

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use criterion::{BatchSize, Bencher, Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::record::{Book, Received, Sent};
use pktgen_engine::driver::virtual_time::Simulation;
use pktgen_engine::recorder::Recorder;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use recorded::recorded;

const PACKETS: u64 = 27 * 20_000;

fn experiment(queue: &str, program: &str) -> Experiment {
    let text = format!(
        "[workload]\nupdates = 20000\ncluster_sigma = 0.3\n[schedule]\nkind = \"constant\"\njitter = 0.3\noffered = \"60Gbps\"\n\
         [topology]\nrate = \"40Gbps\"\n[target]\nprogram = \"{program}\"\nqueue = \"{queue}\"\n"
    );
    Experiment::open(all(), Document::parse(&text, "bench").expect("valid")).expect("valid")
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

/// Measures the first run of an experiment without records.
fn unrecorded(b: &mut Bencher, experiment: &Experiment) {
    let stop = AtomicBool::new(false);
    b.iter_batched(
        || {
            let plan = experiment.plan(&experiment.runs[0]).expect("valid");
            (Simulation::new(plan.parts), plan.spec.capture.until)
        },
        |(run, until)| run.run(until, &stop, &mut Nothing, &mut |_| {}).map(|o| o.counters),
        BatchSize::PerIteration,
    );
}

fn driver(c: &mut Criterion) {
    let mut group = c.benchmark_group("virtual_time");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(10);
    for (name, queue, program) in [("olaf", "olaf", "olaf"), ("fifo", "fifo", "forward")] {
        let experiment = experiment(queue, program);
        group.bench_function(format!("{name}/no_records"), |b| unrecorded(b, &experiment));
        group.bench_function(format!("{name}/full_records"), |b| recorded(b, &experiment));
    }
    group.finish();
}

/// OLAF's Figure 9: 100 hosts, three devices, updates of 1 kB. Goal: 2.5 million worker packets/s with FIFO on one
/// core, 30 times ns-3 (`scripts/ns3/compare` measures both in one run).
fn multi_hop(c: &mut Criterion) {
    const UPDATES: u64 = 5000;
    let mut group = c.benchmark_group("multi_hop");
    group.throughput(Throughput::Elements(100 * UPDATES)).sample_size(10);
    for (name, program, queue, workers) in [
        ("fifo", "forward", "fifo", "open_loop"),
        ("olaf", "olaf", "olaf", "open_loop"),
        ("olaf_tc", "olaf", "olaf", "transmission_control"),
    ] {
        let text = format!(
            "[workload]\nclusters = 10\nworkers_per_cluster = 10\nupdates = {UPDATES}\nbytes = \"1000B\"\n\
             [schedule]\nperiod = \"100ms\"\njitter = 0.1\n[topology]\nkind = \"multi_hop\"\n\
             [target]\nprogram = \"{program}\"\nqueue = \"{queue}\"\nslot_in_transmission = false\n\
             [endpoint]\nworkers = \"{workers}\"\n"
        );
        let experiment = Experiment::open(all(), Document::parse(&text, "bench").expect("valid")).expect("valid");
        group.bench_function(name, |b| unrecorded(b, &experiment));
    }
    group.finish();
}

criterion_group!(benches, driver, multi_hop);
criterion_main!(benches);
