//! Trio-ML's program by itself: gradient additions per second, payloads really summed, books and Results written.
//!
//! Goal: 2·10⁹ additions/s on one core. Four sources send 1024 gradients per block; the chip's time is not modelled, and
//! what leaves is released at once, as a link does in the end.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::config::Section;
use pktgen_core::record::{Counter, PacketId};
use pktgen_core::time::NEVER;
use pktgen_core::topology::{NO_PORT, Population};
use pktgen_core::units::{Rate, Size};
use pktgen_engine::frame::{BURST, Frame, Kind, Pool};
use pktgen_engine::groups::{Contributor, JobPlace};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::{Context, Outbox};
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::program::{Place, Program};
use pktgen_engine::target::queue::Fifo;
use pktgen_trio_ml::SYSTEM;
use pktgen_trio_ml::format::{HEADER, Header, PORT, frame_bytes};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};

const SOURCES: u32 = 4;
const GRADIENTS: u16 = 1024;
const BYTES: usize = frame_bytes(GRADIENTS);

fn program() -> Box<dyn Program> {
    let sources = (0..SOURCES).map(|id| Contributor { id: id as u8, worker: Some(id), workers: 1 }).collect();
    let job = JobPlace { sources, own: None, ports: vec![0, 1, 2, 3], port_of: Vec::new() };
    let bare = Place::bare(0, Population::regular(1, SOURCES), vec![job], BYTES);
    let place = Place { routes: vec![NO_PORT].into(), ..bare };
    let mut section = Section::of("target", &[("chip", "none".into())]);
    let kind = SYSTEM.programs[0];
    kind.open(&mut section, place).expect("the place is right")
}

/// The contributions of a burst's blocks, block by block; nothing but headers is written anew each time.
fn fill(pool: &mut Pool, burst: &mut Vec<Frame>, seq: &mut u32) {
    burst.clear();
    for _ in 0..BURST as u32 {
        let (block, source) = (*seq / SOURCES, *seq % SOURCES);
        let buffer = pool.take();
        let bytes = &mut pool.bytes_mut(buffer)[..BYTES];
        Template::new((worker_ip(source), PORT), (SERVER_IP, PORT), BYTES).emit(bytes);
        let header = Header { block, source: source as u8, sources: 1, elements: GRADIENTS, ..Default::default() };
        header.emit(&mut bytes[HEAD..]);
        if *seq < 1 << 12 {
            bytes[HEAD + HEADER..].fill(block as u8);
        }
        burst.push(Frame {
            t: i64::from(*seq) * 1000,
            packet: PacketId::new(source, block, 0),
            buffer,
            worker: source,
            len: BYTES as u16,
            cluster: 0,
            flow: 0,
            head: HEAD as u8,
            kind: Kind::Update,
        });
        *seq += 1;
    }
}

fn trio_ml(c: &mut Criterion) {
    let mut group = c.benchmark_group("trio_ml");
    group.throughput(Throughput::Elements(BURST as u64 * u64::from(GRADIENTS)));
    let timing = PortTiming::link(Rate::from_bps(400_000_000_000_000), Size::default(), 0);
    let mut ports: Vec<_> = (0..SOURCES).map(|link| Port::new(link, Box::new(Fifo::new(64, true)), &timing)).collect();
    let (mut program, mut pool, mut books) = (program(), Pool::new(BYTES, 256), Books::default());
    let (mut out, mut touched) = (Outbox::default(), Vec::new());
    let (mut burst, mut seq) = (Vec::new(), 0);
    group.bench_function("4x1024", |b| {
        b.iter_custom(|iterations| {
            let mut spent = std::time::Duration::ZERO;
            for _ in 0..iterations {
                fill(&mut pool, &mut burst, &mut seq);
                books.rows.clear();
                touched.clear();
                let watch = pktgen_testing::Stopwatch::start();
                let mut context = Context::new(&mut pool, &mut books, &mut ports, &mut out, &mut touched);
                program.on_burst(&burst, &mut context);
                let end = burst.last().map_or(0, |frame| frame.t) + 999;
                ports.iter_mut().for_each(|port| port.advance(end, &mut pool, &mut books, &mut out));
                out.frames.drain(..).for_each(|(_, frame)| pool.release(frame.buffer));
                spent += watch.elapsed();
            }
            spent
        });
    });
    assert!(
        program.counters().contains(&Counter::sum("degraded", 0)) && program.next_wake() == NEVER,
        "all blocks were complete"
    );
    group.finish();
}

criterion_group!(benches, trio_ml);
criterion_main!(benches);
