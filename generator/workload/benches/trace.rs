//! Building Olaf frames of 256 bytes from a trace in memory that repeats: recorded times, numbers, rewards and gradients.
//!
//! Goal: 45 million/s on one core, the line rate of 100 Gbit/s Ethernet (44.64 million with FCS, preamble and gap). Beside it, in the same
//! run: what copying frames of 256 bytes costs, the lower bound.

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::config::Document;
use pktgen_core::seed::Seed;
use pktgen_workload::trace::synthesise;
use pktgen_workload::workload::build::Builder;
use pktgen_workload::workload::{Source, open};

const BYTES: usize = 256;
const BURST: usize = 64;

fn source(text: &str) -> Box<dyn Source> {
    open(&mut Document::parse(text, "bench").expect("it parses"), Seed(1)).expect("it opens").source
}

/// A trace of 27 workers with gradients, of as many updates as the recorded one: 1.9 MB in memory.
fn record(path: &Path) {
    let text = "[workload]\nupdates = 288\nbytes = \"256B\"\n[schedule]\nkind = \"poisson\"\nperiod = \"1ms\"\n";
    synthesise(source(text).as_mut(), path, true, Default::default(), &mut |_| {}).expect("it is written");
}

fn replay(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    record(&path);
    let mut frames = vec![[0u8; BYTES]; BURST];
    let other = vec![[1u8; BYTES]; 7_776];
    let mut group = c.benchmark_group("trace");
    group.throughput(Throughput::Elements(BURST as u64));
    let mut repeating = source(&format!("[workload]\ntrace = {path:?}\nrepeat = 0\n"));
    let mut builder = Builder::new(repeating.population(), false);
    group.bench_function("in_memory_256B", |b| {
        b.iter(|| {
            for frame in &mut frames {
                let update = *repeating.peek().expect("it has no end");
                builder.next(repeating.as_mut(), &update, 0, frame);
            }
            frames[0][60]
        });
    });
    let mut at = 0;
    group.bench_function("copy_256B", |b| {
        b.iter(|| {
            for frame in &mut frames {
                frame.copy_from_slice(&other[at]);
                at = (at + 1) % other.len();
            }
            frames[0][60]
        });
    });
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
