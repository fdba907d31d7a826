//! Libra's switch by itself: eight workers, packets of 192 bytes with 18 pairs, every pair really added, books written,
//! every packet acknowledged. Packets per second, with the seven tables and as a processor adds.
//!
//! A switch with eight 100 Gbit/s ports gets 463 million of these packets/s (192 bytes, 24 more on the line); one core is far
//! below that, and a run in virtual time does not mind.

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pktgen_core::config::Section;
use pktgen_core::record::PacketId;
use pktgen_core::seed::Seed;
use pktgen_core::topology::Population;
use pktgen_core::units::{Rate, Size};
use pktgen_engine::frame::{BURST, Frame, Kind, Pool};
use pktgen_engine::groups::{Contributor, JobPlace};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::{Context, Outbox};
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::program::{Place, Program};
use pktgen_engine::target::queue::Discipline;
use pktgen_engine::target::queue::fifo::FifoDiscipline;
use pktgen_engine::target::sparse::{Adder, SparsePlace};
use pktgen_libra::SYSTEM;
use pktgen_libra::format::{HEADER, HOT_FRAME_MAX, HOT_PAIRS, Header, Kind as Wire, PORT, WORKER_PORT, emit_hot};
use pktgen_testing::Stopwatch;
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};
use pktgen_workload::sparse::layout::Layout;
use pktgen_workload::sparse::packaging::{Packaging, Packer};
use pktgen_workload::sparse::{Batch, Sparse, SparsePlan};

const WORKERS: u32 = 8;
const REGISTERS: u32 = 28;

fn program(sparse: &Arc<Sparse>, add: &str) -> Box<dyn Program> {
    let source = |i: u32| Contributor { id: i as u8, worker: Some(i), workers: 1 };
    let ports: Vec<u16> = (0..WORKERS as u16).collect();
    let job = JobPlace { sources: (0..WORKERS).map(source).collect(), own: None, ports: ports.clone(), port_of: ports };
    let known = SparsePlace {
        sparse: sparse.clone(),
        layout: Layout::heat(REGISTERS),
        shards: Arc::default(),
        window: 512,
        asynchronous: false,
        max_recirculations: 1,
    };
    let place = Place {
        routes: (0..WORKERS as u16).collect::<Vec<_>>().into(),
        sparse: Some(known),
        aggregators: Arc::new(vec![0]),
        ..Place::bare(0, Population::regular(1, WORKERS), vec![job], HOT_FRAME_MAX)
    };
    let kind = SYSTEM.programs[0];
    kind.open(&mut Section::of("target", &[("add", add.into())]), place).expect("valid")
}

/// Full packets of a worker's batches, as Algorithm 1 packs them.
fn packets(sparse: &Sparse) -> Vec<Vec<(u32, f32)>> {
    let (mut batch, mut packer) = (Batch::default(), Packer::new(HOT_PAIRS, REGISTERS).recirculating_at_most(1));
    let mut full = Vec::new();
    for iteration in 0..2 {
        sparse.batch(0, iteration, &mut batch);
        let packed = packer.pack(&batch.hot, &Layout::heat(REGISTERS), Packaging::Algorithm1);
        full.extend(packed.iter().filter(|packet| packet.len() == HOT_PAIRS).map(<[_]>::to_vec));
    }
    full
}

/// The next packet of each worker in turn.
fn fill(pool: &mut Pool, burst: &mut Vec<Frame>, number: u32, packets: &[Vec<(u32, f32)>]) {
    burst.clear();
    for i in 0..BURST as u32 {
        let (worker, number) = (i % WORKERS, number + i / WORKERS);
        let buffer = pool.take();
        let bytes = &mut pool.bytes_mut(buffer)[..HOT_FRAME_MAX];
        Template::new((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), HOT_FRAME_MAX).emit(bytes);
        Header { kind: Wire::Push, attempt: 0, job: 0, seq: number << 1 }.emit(&mut bytes[HEAD..]);
        emit_hot(&packets[(number * WORKERS + worker) as usize % packets.len()], &mut bytes[HEAD + HEADER..]);
        burst.push(Frame {
            t: i64::from(number) * 100_000,
            packet: PacketId::new(worker, number << 1, 0),
            buffer,
            worker,
            len: HOT_FRAME_MAX as u16,
            cluster: 0,
            flow: 0,
            head: HEAD as u8,
            kind: Kind::Update,
        });
    }
}

fn switch(c: &mut Criterion) {
    let sparse = Arc::new(Sparse::new(SparsePlan::of("oa", 1.0).expect("known"), Seed(1)).expect("valid"));
    let packets = packets(&sparse);
    let mut group = c.benchmark_group("libra");
    group.throughput(Throughput::Elements(BURST as u64));
    for add in ["tables", "exact"] {
        let mut program = program(&sparse, add);
        let timing = PortTiming::link(Rate::from_bps(100_000_000_000), Size::default(), 0);
        let fifo = &FifoDiscipline;
        let mut section = Section::of("target", &[]);
        let slots = Some(1 << 16);
        let port = |i: u32| Port::new(i, fifo.open(&mut section, 1, slots).expect("valid"), &timing);
        let mut ports: Vec<_> = (0..WORKERS).map(port).collect();
        let (mut pool, mut books, mut out, mut touched) =
            (Pool::new(HOT_FRAME_MAX, 256), Books::default(), Outbox::default(), Vec::new());
        let (mut burst, mut number) = (Vec::new(), 0u32);
        let mut turn = |iterations: u64| {
            let mut spent = std::time::Duration::ZERO;
            for _ in 0..iterations {
                fill(&mut pool, &mut burst, number, &packets);
                number += BURST as u32 / WORKERS;
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
        group.bench_function(format!("packets, {add}"), |b| b.iter_custom(&mut turn));
        let taken = program.counters().iter().find(|own| own.name == "packets").map_or(0, |own| own.value);
        assert_eq!(taken, u64::from(number) * u64::from(WORKERS), "every packet was summed");
    }
    group.finish();
}

/// The sums alone: pairs of full packets, added to the registers of the model.
fn adder(c: &mut Criterion) {
    let sparse = Arc::new(Sparse::new(SparsePlan::of("oa", 1.0).expect("known"), Seed(1)).expect("valid"));
    let packets = packets(&sparse);
    let mut group = c.benchmark_group("libra");
    group.throughput(Throughput::Elements(HOT_PAIRS as u64));
    for (name, adder) in [("tables", Adder::tables()), ("exact", Adder::Exact)] {
        let (mut registers, mut next) = (vec![0.0; sparse.hot().len() as usize], packets.iter().cycle());
        group.bench_function(format!("sums, {name}"), |b| {
            b.iter(|| adder.add_all(&mut registers, next.next().expect("a cycle")));
        });
    }
    group.finish();
}

criterion_group!(benches, adder, switch);
criterion_main!(benches);
