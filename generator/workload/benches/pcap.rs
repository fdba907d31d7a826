//! Writing and reading captures of frames of 256 bytes, in memory: what the formats cost, without a disk.

use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, Mutex};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_wire::pcap::{Form, Reader, Writer, WriterOptions};

const BYTES: usize = 256;
const PACKETS: u64 = 100_000;

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn write(form: Form, memory: &Memory) {
    memory.0.lock().unwrap().clear();
    let mut writer = Writer::new(Box::new(memory.clone()), Path::new("x"), WriterOptions::new(form)).unwrap();
    let frame = [7; BYTES];
    for i in 0..PACKETS {
        writer.packet(0, i as i64 * 51_200, &frame, BYTES as u32).unwrap();
    }
    writer.finish().unwrap();
}

fn captures(c: &mut Criterion) {
    let mut group = c.benchmark_group("pcap");
    group.throughput(Throughput::Elements(PACKETS));
    for (name, form) in [("pcap", Form::Pcap), ("pcapng", Form::Pcapng)] {
        let memory = Memory::default();
        group.bench_function(format!("write_{name}"), |b| b.iter(|| write(form, &memory)));
        let file: Arc<[u8]> = memory.0.lock().unwrap().as_slice().into();
        group.bench_function(format!("read_{name}"), |b| {
            b.iter(|| {
                let mut reader = Reader::from_read(Cursor::new(file.clone()), Path::new("x")).unwrap();
                let mut count = 0;
                while let Some(packet) = reader.next().unwrap() {
                    count += u64::from(packet.bytes[0] == 7);
                }
                assert_eq!(count, PACKETS);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, captures);
criterion_main!(benches);
