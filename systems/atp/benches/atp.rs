//! ATP's switch by itself: eight workers, 62 values, every packet really summed, books written, sums sent on and results sent back to
//! eight ports. Packets per second, results included.
//!
//! A switch with eight 100 Gbit/s ports gets 294 million of these packets/s (316 bytes, 24 more on the line); one core is far below
//! that, and a run in virtual time does not mind.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_atp::SYSTEM;
use pktgen_atp::format::{BYTES, Header, Name, PORT, WORKER_PORT};
use pktgen_core::config::Section;
use pktgen_core::record::PacketId;
use pktgen_core::topology::{NO_PORT, Population};
use pktgen_core::units::{Rate, Size};
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::groups::{Contributor, JobPlace};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::{Context, Outbox};
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::program::{Place, Program};
use pktgen_engine::target::queue::Fifo;
use pktgen_testing::Stopwatch;
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, group_ip, worker_ip};

const WORKERS: u8 = 8;
const FRAME: usize = HEAD + BYTES;
/// Numbers of one call: each has a packet of every worker and a result.
const NUMBERS: u32 = 6;

fn program() -> Box<dyn Program> {
    let source = |i: u8| Contributor { id: i, worker: Some(u32::from(i)), workers: 1 };
    let ports: Vec<u16> = (1..=u16::from(WORKERS)).collect();
    let job =
        JobPlace { sources: (0..WORKERS).map(source).collect(), own: Some(0), ports: ports.clone(), port_of: ports };
    let workers = Population::regular(1, u32::from(WORKERS));
    let place = Place { server: 1, routes: vec![NO_PORT, 0].into(), ..Place::bare(0, workers, vec![job], FRAME) };
    SYSTEM.programs[0].open(&mut Section::of("target", &[]), place).expect("valid")
}

/// A packet of a number: of a worker, or the result.
fn frame(pool: &mut Pool, number: u32, worker: Option<u8>) -> Frame {
    let buffer = pool.take();
    let bytes = &mut pool.bytes_mut(buffer)[..FRAME];
    let name = Name { number, attempt: 0, source: worker.unwrap_or(0) };
    let (from, to) = match worker {
        Some(worker) => ((worker_ip(worker.into()), WORKER_PORT), (SERVER_IP, PORT)),
        None => ((SERVER_IP, PORT), (group_ip(0), WORKER_PORT)),
    };
    Template::new(from, to, FRAME).emit(bytes);
    let (bitmap, aggregator) = (1 << worker.unwrap_or(0), (number % 100) as u16);
    let (app, seq, key, ack) = (1, name.seq(), name.key(), worker.is_none());
    Header { bitmap, workers: WORKERS, app, seq, aggregator, key, ack, ..Header::default() }.emit(&mut bytes[HEAD..]);
    Frame {
        t: i64::from(number) * 1_000_000,
        packet: PacketId::new(worker.unwrap_or(0).into(), number, 0),
        buffer,
        worker: worker.unwrap_or(0).into(),
        len: FRAME as u16,
        cluster: 0,
        flow: 1,
        head: HEAD as u8,
        kind: if worker.is_some() { Kind::Update } else { Kind::Result },
    }
}

fn switch(c: &mut Criterion) {
    let mut program = program();
    let timing = PortTiming::link(Rate::from_bps(100_000_000_000), Size::default(), 0);
    let timing = PortTiming { bypass_slots: 64, ..timing };
    let port = |link: u8| Port::new(link.into(), Box::new(Fifo::new(64, false)), &timing);
    let mut ports: Vec<_> = (0..=WORKERS).map(port).collect();
    let (mut pool, mut books, mut out, mut touched) =
        (Pool::new(FRAME, 256), Books::default(), Outbox::default(), Vec::new());
    let (mut burst, mut number) = (Vec::new(), 0u32);
    let mut turn = |iterations: u64| {
        let mut spent = std::time::Duration::ZERO;
        for _ in 0..iterations {
            burst.clear();
            for own in number..number + NUMBERS {
                burst.extend((0..WORKERS).map(Some).chain([None]).map(|worker| frame(&mut pool, own, worker)));
            }
            number += NUMBERS;
            books.rows.clear();
            touched.clear();
            let watch = Stopwatch::start();
            let mut context = Context::new(&mut pool, &mut books, &mut ports, &mut out, &mut touched);
            program.on_burst(&burst, &mut context);
            for (_, frame) in out.frames.drain(..) {
                pool.release(frame.buffer);
            }
            spent += watch.elapsed();
        }
        spent
    };
    let mut group = c.benchmark_group("atp");
    group.throughput(Throughput::Elements(u64::from(NUMBERS) * u64::from(WORKERS)));
    group.bench_function("packets", |b| b.iter_custom(&mut turn));
    group.finish();
    let whole = program.counters().iter().any(|own| own.name == "sums_whole" && own.value == u64::from(number));
    assert!(whole, "every number made a sum");
}

criterion_group!(benches, switch);
criterion_main!(benches);
