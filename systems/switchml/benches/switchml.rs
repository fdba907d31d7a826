//! SwitchML's switch by itself: six workers, 256 values, every packet really summed, books written, results built and
//! sent to six ports. Additions and packets per second.
//!
//! A switch with six 100 Gbit/s ports gets 68 million of these packets/s (1076 bytes, 24 more on the line), which are
//! 17.5·10⁹ additions; one core is far below that, and a run in virtual time does not mind.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::config::Section;
use pktgen_core::record::PacketId;
use pktgen_core::topology::Population;
use pktgen_core::units::{Rate, Size};
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::groups::{Contributor, JobPlace};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::{Context, Outbox};
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::program::{Place, Program};
use pktgen_engine::target::queue::Discipline;
use pktgen_engine::target::queue::fifo::FifoDiscipline;
use pktgen_switchml::SYSTEM;
use pktgen_switchml::format::{HEADER, Header, PORT, WORKER_PORT, frame_bytes};
use pktgen_testing::Stopwatch;
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};

const WORKERS: u8 = 6;
const VALUES: u16 = 256;
/// Slots of the paper's pool (§6.1).
const SLOTS: u32 = 512;
/// Packets of one call: each worker's for eight slots.
const BURST: u32 = WORKERS as u32 * 8;

fn program() -> Box<dyn Program> {
    let source = |i: u8| Contributor { id: i, worker: Some(u32::from(i)), workers: 1 };
    let ports: Vec<u16> = (0..u16::from(WORKERS)).collect();
    let job = JobPlace { sources: (0..WORKERS).map(source).collect(), own: None, ports: ports.clone(), port_of: ports };
    let workers = Population::regular(1, u32::from(WORKERS));
    let place = Place::bare(0, workers, vec![job], frame_bytes(VALUES));
    let kind = SYSTEM.programs[0];
    kind.open(&mut Section::of("target", &[]), place).expect("valid")
}

/// The packets of all workers for the eight blocks from `block` on, in turn.
fn fill(pool: &mut Pool, burst: &mut Vec<Frame>, block: u32) {
    burst.clear();
    let len = frame_bytes(VALUES);
    for i in 0..BURST {
        let (worker, packet) = (i % u32::from(WORKERS), block + i / u32::from(WORKERS));
        let buffer = pool.take();
        let bytes = &mut pool.bytes_mut(buffer)[..len];
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), len).emit(bytes);
        let (slot, set) = ((packet % SLOTS) as u16, packet / SLOTS % 2 == 1);
        Header { job: 0, packet, set, slot, exponent: 0, attempt: 0, elements: VALUES }.emit(&mut bytes[HEAD..]);
        bytes[HEAD + HEADER..].fill(worker as u8);
        burst.push(Frame {
            t: i64::from(packet) * 100_000,
            packet: PacketId::new(worker, packet, 0),
            buffer,
            worker,
            len: len as u16,
            cluster: 0,
            flow: 0,
            head: HEAD as u8,
            kind: Kind::Update,
        });
    }
}

fn switch(c: &mut Criterion) {
    let mut program = program();
    let timing = PortTiming::link(Rate::from_bps(100_000_000_000), Size::default(), 0);
    let fifo = &FifoDiscipline;
    let mut section = Section::of("target", &[]);
    let port = |i: u8| Port::new(u32::from(i), fifo.open(&mut section, 1, None).expect("valid"), &timing);
    let mut ports: Vec<_> = (0..WORKERS).map(port).collect();
    let (mut pool, mut books, mut out, mut touched) =
        (Pool::new(frame_bytes(VALUES), 256), Books::default(), Outbox::default(), Vec::new());
    let (mut burst, mut block) = (Vec::new(), 0);
    let mut turn = |iterations: u64| {
        let mut spent = std::time::Duration::ZERO;
        for _ in 0..iterations {
            fill(&mut pool, &mut burst, block);
            block = block.wrapping_add(BURST / u32::from(WORKERS));
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
    let mut group = c.benchmark_group("switchml");
    group.throughput(Throughput::Elements(u64::from(BURST)));
    group.bench_function("packets", |b| b.iter_custom(&mut turn));
    group.throughput(Throughput::Elements(u64::from(BURST) * u64::from(VALUES)));
    group.bench_function("additions", |b| b.iter_custom(&mut turn));
    group.finish();
    let results = program.counters().iter().any(|own| own.name == "results" && own.value == u64::from(block));
    assert!(results, "every block made a result");
}

criterion_group!(benches, switch);
criterion_main!(benches);
