//! Captures analysed: packets per second from a file in the page cache, as `pktgen analyze` reads it.

use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pktgen_capture::{CapturePlan, analyze_captures};
use pktgen_registry::all;
use pktgen_wire::pcap::{Form, Writer, WriterOptions};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
use pktgen_wire::wire::update::{Header, PORT, WORKER_PORT, elements_in};

const BYTES: usize = 256;
const WORKERS: u32 = 27;

/// A capture at the server of `packets` frames of 256 B, as of 27 workers in 9 clusters at 40 Gbit/s.
fn capture(path: &Path, form: Form, packets: u32) {
    let mut writer = Writer::create(path, WriterOptions::new(form)).expect("a file");
    let mut frame = vec![0xa5; BYTES];
    for i in 0..packets {
        let (worker, seq) = (i % WORKERS, i / WORKERS);
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), BYTES).emit(&mut frame);
        let t = i64::from(i) * 51_200;
        let generation = t - 1_000_000 - i64::from(i.wrapping_mul(2_654_435_761) >> 12);
        let (cluster, elements) = ((worker / 3) as u16, elements_in(BYTES) as u16);
        let header = Header { flags: 0, cluster, count: 1, worker, seq, generation, attempt: 0, elements, reward: 0.0 };
        header.emit_update(&mut frame[HEAD..]);
        writer.packet(0, t, &frame, BYTES as u32).expect("a packet");
    }
    writer.finish().expect("a whole file");
}

fn analyse(path: &Path) -> usize {
    let plan = CapturePlan::new(all().protocols.formats, vec![path.to_owned()], Vec::new());
    analyze_captures(&plan, &mut |_, _| ()).expect("metrics").lines.len()
}

/// The lower bound: every byte of the file copied out of the page cache, by the reader's size.
fn read(path: &Path) -> u64 {
    let mut file = std::fs::File::open(path).expect("a file");
    let (mut buffer, mut bytes) = (vec![0; 64 << 10], 0);
    loop {
        match std::io::Read::read(&mut file, &mut buffer).expect("bytes") {
            0 => return bytes,
            n => bytes += n as u64,
        }
    }
}

fn captures(c: &mut Criterion) {
    // Run once by the tests, where fewer do.
    let packets: u32 =
        if cfg!(debug_assertions) || std::env::args().any(|arg| arg == "--test") { 10_000 } else { 4_000_000 };
    let dir = tempfile::tempdir().expect("a folder");
    let mut group = c.benchmark_group("analyze");
    group.throughput(Throughput::Elements(packets.into())).sample_size(10);
    for (name, form) in [("pcap", Form::Pcap), ("pcapng", Form::Pcapng)] {
        let path = dir.path().join(name);
        capture(&path, form, packets);
        group.bench_with_input(BenchmarkId::from_parameter(name), &path, |b, path| b.iter(|| analyse(path)));
        group.bench_with_input(BenchmarkId::new("read alone", name), &path, |b, path| b.iter(|| read(path)));
    }
    group.finish();
}

criterion_group!(benches, captures);
criterion_main!(benches);
