//! Properties that every program, queue and topology must have under any input, derived from the registries.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pktgen_core::Result;
use pktgen_core::config::{Document, Section, names_of};
use pktgen_core::plan;
use pktgen_core::record::{Book, PacketId, Received, Sent};
use pktgen_core::seed::Seed;
use pktgen_core::topology::{Population, Role, Topology};
use pktgen_core::units::{Rate, Size};
use pktgen_engine::driver::virtual_time::{Outcome, Simulation};
use pktgen_engine::frame::{Frame, Kind, Pool};
use pktgen_engine::ledger::total;
use pktgen_engine::recorder::Recorder;
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::{Context, Outbox};
use pktgen_engine::target::flows::{Flows, NodeFlows};
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::program::{Place, ProgramKind};
use pktgen_engine::target::queue::Discipline;
use pktgen_engine::target::sparse::SparsePlace;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_wire::wire::frame::{
    HEAD, SERVER_IP, Template, background_ip, has_udp_checksum, set_udp_checksum, worker_ip,
};
use pktgen_wire::wire::update::{Ack, FORMAT, Header, PORT, Status, UPDATE_HEAD, WORKER_PORT, elements_in};
use pktgen_workload::gradient;
use pktgen_workload::sparse::layout::Layout;
use pktgen_workload::sparse::{Sparse, SparsePlan};
use proptest::prelude::*;

/// Returns a device between a host (port 0) and a server (port 1), for three clusters of two workers.
fn place() -> Place {
    Place {
        node: 1,
        routes: vec![0, u16::MAX, 1].into(),
        workers: Arc::new(Population::regular(3, 2)),
        group_ports: Arc::new(vec![vec![0]; 3].into()),
        server: 2,
        jobs: Arc::new(Vec::new()),
        sparse: Some(sparse()),
        aggregators: Arc::new(vec![1]),
        racks: None,
        flows: Some(flows()),
        frame_bytes: 128,
        real_time: false,
        udp_checksum: false,
    }
}

/// Returns the flows for a program that reduces: all workers' flows end at the device.
fn flows() -> Arc<NodeFlows> {
    let mut topology = Topology::default();
    let ends = [Role::Host((0..6).collect()), Role::Device, Role::Server].map(|role| {
        let name = format!("{role:?}");
        topology.add(name, role)
    });
    let rate = Rate::from_bps(40_000_000_000);
    topology.connect(ends[0], ends[1], rate, rate, 0, Size::default());
    topology.connect(ends[1], ends[2], rate, rate, 0, Size::default());
    let routes = topology.routes();
    let ports: Vec<_> = (0..topology.nodes.len() as u32).map(|node| routes.port(node, 2)).collect();
    let plan = plan::Plan::of_network(&topology, &ports, None, |_| true).unwrap();
    Flows::new(Arc::new(plan), &topology, &Population::regular(3, 2).cluster_of).at(1)
}

/// Returns the setup for a program that sums pairs.
fn sparse() -> SparsePlace {
    let plan = SparsePlan { jobs: 3, workers_per_job: 2, ..SparsePlan::of("oa", 0.0001).unwrap() };
    SparsePlace {
        sparse: Arc::new(Sparse::new(plan, Seed(1)).unwrap()),
        layout: Layout::heat(4),
        shards: Arc::default(),
        window: 16,
        asynchronous: false,
        max_recirculations: 1,
    }
}

/// Keeps every row as text for comparing runs.
#[derive(Default, PartialEq, Debug)]
struct Rows(Vec<String>);

impl Recorder for Rows {
    fn sent(&mut self, row: &Sent) -> Result<()> {
        self.0.push(format!("{row:?}"));
        Ok(())
    }
    fn book(&mut self, row: &Book) -> Result<()> {
        self.0.push(format!("{row:?}"));
        Ok(())
    }
    fn received(&mut self, row: &Received, frame: &[u8]) -> Result<()> {
        self.0.push(format!("{row:?} {frame:02x?}"));
        Ok(())
    }
}

fn simulate(text: &str) -> (Rows, Outcome) {
    let experiment = Experiment::open(all(), Document::parse(text, "test").unwrap()).unwrap();
    let plan = experiment.plan(&experiment.runs[0]).unwrap();
    let mut rows = Rows::default();
    let outcome = Simulation::new(plan.parts)
        .run(plan.spec.capture.until, &AtomicBool::new(false), &mut rows, &mut |_| {})
        .unwrap();
    (rows, outcome)
}

/// Returns the programs and queues that can be combined.
fn pairs() -> Vec<(&'static dyn ProgramKind, &'static dyn Discipline)> {
    all()
        .programs
        .iter()
        .flat_map(|program| all().queues.iter().map(move |queue| (*program, *queue)))
        .filter(|(program, queue)| program.identifies() || !queue.needs_identified())
        .collect()
}

const TOPOLOGIES: [&str; 4] = [
    "kind = \"bottleneck\"\nrate = \"20Gbps\"",
    "kind = \"bottleneck\"\nrate = \"5Gbps\"\ndelay = \"300ns\"\noverhead = \"24B\"",
    "kind = \"multi_hop\"\nhost_rate = \"10Gbps\"\nleaf_rates = [\"8Gbps\", \"8Gbps\"]\nroot_rate = \"6Gbps\"\ndownlink_rate = \"10Gbps\"",
    // One cluster behind two devices: an ACK must reach both and never turn back.
    "kind = \"custom\"\ndevices = [\"A\", \"B\", \"R\"]\nhosts = [\"h0 0-2\", \"h1 3-5\"]\nlinks = [\"h0 A 9Gbps\", \"h1 B 9Gbps\", \"A R 7Gbps\", \"B R 7Gbps\", \"R ps 5Gbps\"]",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_run_balances_sums_right_and_repeats(
        which in 0usize..TOPOLOGIES.len(), clusters in prop::sample::select(vec![1u32, 2, 3]), seed in 0u64..1000,
        slots in 1u32..6, hold: bool, filter: bool, burst in 1u32..40, efficiency in prop::sample::select(vec![1.0, 0.7]),
        background: bool, engine: bool,
    ) {
        // A program with a format of its own needs workers that use it; its own tests have them.
        let speaks = |program: &dyn ProgramKind| program.format().is_none_or(|format| format == FORMAT);
        for (program, queue) in pairs().into_iter().filter(|(program, _)| speaks(*program)) {
            // Incomplete sums leave at a timeout.
            let held = names_of(program.keys()).any(|key| key == "timeout");
            let timeout = if held { "timeout = \"3us\"\n" } else { "" };
            let extra = if background { "background_rate = \"1Gbps\"\nbackground_bytes = \"99B\"\n" } else { "" };
            let background = if which == 0 { extra } else { "" };
            let engine = if engine { "engine_rate = \"30Gbps\"\nengine_buffer = 3\nblock_time = \"4ns\"\npacket_gap = \"7ns\"\n" } else { "" };
            let text = format!(
                "seed = {seed}\n[workload]\nclusters = {clusters}\nworkers_per_cluster = {}\nupdates = 30\n{background}\
                 [schedule]\nkind = \"on_off\"\nburst = {burst}\npeak = \"40Gbps\"\noffered = \"25Gbps\"\n\
                 [topology]\n{}\n[target]\nprogram = \"{}\"\nqueue = \"{}\"\nslots = {slots}\nslot_in_transmission = {hold}\n\
                 reward_filter = {filter}\ndequeue_efficiency = {efficiency:?}\n{timeout}{engine}",
                6 / clusters, TOPOLOGIES[which], program.name(), queue.name(),
            );
            let (rows, mut outcome) = simulate(&text);
            let balance = total(&outcome.ledger.close());
            prop_assert_eq!((balance.unknown, balance.in_flight, outcome.ledger.strangers(), outcome.leaked), (0, 0, 0, 0));
            prop_assert!(balance.sent >= 180);
            prop_assert_eq!(outcome.counters.sums_ok, outcome.counters.packets_received);
            prop_assert_eq!(outcome.counters.foreign, 0);
            // Each ACK reaches a worker's host, and each host of its cluster at most once.
            let (acks, arrived) = (outcome.counters.acks_sent, outcome.counters.acks_received);
            prop_assert!(arrived + outcome.counters.acks_dropped >= acks && arrived <= acks * 6, "{} {}", acks, arrived);
            prop_assert_eq!(rows, simulate(&text).0);
        }
    }
}

/// Returns frames of all kinds for one device between a host (port 0) and a server (port 1).
fn frames(kinds: &[(u8, u32)], pool: &mut Pool) -> Vec<Frame> {
    let values = gradient::GradientPool::new(Seed(1), elements_in(128));
    let make = |(i, (kind, worker)): (usize, &(u8, u32))| {
        let (worker, seq, bytes) = (*worker, i as u32, 128usize);
        let buffer = pool.take();
        let frame = &mut pool.bytes_mut(buffer)[..bytes];
        frame.fill(0xa5);
        let header = Header {
            flags: 0,
            cluster: (worker / 2) as u16,
            count: 1,
            worker,
            seq,
            generation: i as i64,
            attempt: 0,
            elements: elements_in(bytes) as u16,
            reward: f32::from(*kind),
        };
        let (src, dst, flow, what) = match kind {
            0..=5 => ((worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), 2, Kind::Update),
            6 => ((background_ip(worker), 9), (SERVER_IP, 9), 2, Kind::Plain),
            _ => ((SERVER_IP, PORT), (worker_ip(worker), WORKER_PORT), 0, Kind::Control),
        };
        Template::new(src, dst, bytes).emit(frame);
        match what {
            Kind::Update => {
                header.emit_update(&mut frame[HEAD..]);
                values.fill(worker, seq, &mut frame[HEAD + UPDATE_HEAD..]);
            }
            Kind::Control => {
                Ack { header: Header { elements: 0, ..header }, status: Status::default() }.emit(&mut frame[HEAD..])
            }
            Kind::Plain | Kind::Result | Kind::Request => {}
        }
        Frame {
            t: i as i64 * 9_000,
            packet: PacketId::new(worker, seq, 0),
            buffer,
            worker,
            len: bytes as u16,
            cluster: (worker / 2) as u16,
            flow,
            head: HEAD as u8,
            kind: what,
        }
    };
    kinds.iter().enumerate().map(make).collect()
}

/// Link, time and bytes of a frame that left a device.
type Left = (u32, i64, Vec<u8>);

/// Feeds bursts of these sizes to a device; returns its books and every frame that left it.
fn device(
    program: &dyn ProgramKind,
    queue: &dyn Discipline,
    kinds: &[(u8, u32)],
    sizes: &[usize],
) -> (Vec<Book>, Vec<Left>) {
    let mut section = Section::of("target", &[("slots", 2u32.into())]);
    let mut program = program.open(&mut section, place()).unwrap();
    let timing = PortTiming::link(Rate::from_bps(40_000_000_000), Size::default(), 100);
    let mut ports: Vec<_> =
        (0..2).map(|link| Port::new(link, queue.open(&mut section, 3, None).unwrap(), &timing)).collect();
    let (mut pool, mut books, mut out, mut touched) =
        (Pool::new(128, 8), Books::default(), Outbox::default(), Vec::new());
    let frames = frames(kinds, &mut pool);
    let (mut rest, mut sizes) = (&frames[..], sizes.iter().cycle());
    while !rest.is_empty() {
        let size = sizes.next().copied().unwrap_or(1).min(rest.len());
        let mut context = Context::new(&mut pool, &mut books, &mut ports, &mut out, &mut touched);
        program.on_burst(&rest[..size], &mut context);
        rest = &rest[size..];
    }
    for port in &mut ports {
        port.advance(i64::MAX / 8, &mut pool, &mut books, &mut out);
    }
    // Ports are independent lines: the driver sets the order between them.
    let mut left: Vec<_> = out.frames.iter().map(|(link, f)| (*link, f.t, pool.frame(f).to_vec())).collect();
    left.sort_by_key(|(link, t, _)| (*link, *t));
    (books.rows, left)
}

proptest! {
    // Each case goes through all programs with all their queues, three times.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn splitting_a_burst_anywhere_changes_no_verdict_byte_or_book(
        kinds in prop::collection::vec((0u8..9, 0u32..6), 1..60), sizes in prop::collection::vec(1usize..8, 1..20),
    ) {
        for (program, queue) in pairs() {
            let whole = device(program, queue, &kinds, &[kinds.len()]);
            let split = device(program, queue, &kinds, &sizes);
            let single = device(program, queue, &kinds, &[1]);
            prop_assert_eq!(&whole.1, &split.1);
            prop_assert_eq!(&whole.1, &single.1);
            prop_assert_eq!(&whole.0, &split.0);
            prop_assert_eq!(&whole.0, &single.0);
        }
    }

    #[test]
    fn arbitrary_bytes_pass_through_or_drop_but_never_panic(
        packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 42..120), 0u16..4, 0u8..3), 1..30),
    ) {
        for (program, queue) in pairs() {
            let mut section = Section::of("target", &[("slots", 2u32.into())]);
            let mut program = program.open(&mut section, place()).unwrap();
            let timing = PortTiming::link(Rate::from_bps(1_000_000), Size::default(), 0);
            let mut ports: Vec<_> =
                (0..2).map(|link| Port::new(link, queue.open(&mut section, 3, None).unwrap(), &timing)).collect();
            let (mut pool, mut books, mut out, mut touched) =
                (Pool::new(128, 8), Books::default(), Outbox::default(), Vec::new());
            for (i, (bytes, flow, head)) in packets.iter().enumerate() {
                let buffer = pool.take();
                let frame = &mut pool.bytes_mut(buffer)[..bytes.len()];
                frame.copy_from_slice(bytes);
                // Some frames look like a worker's or the server's, so that they reach the parsers.
                match head {
                    1 => Template::new((worker_ip(1), 1), (SERVER_IP, 2), bytes.len()).emit(frame),
                    2 => Template::new((SERVER_IP, 1), (worker_ip(1), 2), bytes.len()).emit(frame),
                    _ => {}
                }
                let frame = Frame {
                    t: i as i64, packet: PacketId::new(0, i as u32, 0), buffer, worker: 0, len: bytes.len() as u16,
                    cluster: *flow, flow: u32::from(*flow), head: HEAD as u8, kind: Kind::Update,
                };
                let mut context = Context::new(&mut pool, &mut books, &mut ports, &mut out, &mut touched);
                program.on_burst(&[frame], &mut context);
            }
            for port in &mut ports {
                port.advance(i64::MAX / 8, &mut pool, &mut books, &mut out);
            }
            for (_, frame) in out.frames.drain(..) {
                pool.release(frame.buffer);
            }
            prop_assert_eq!(pool.in_use(), 0, "every frame left or was dropped");
        }
    }
}

/// Checks the checksum of every frame at the server.
struct Checksums(u64);

impl Recorder for Checksums {
    fn sent(&mut self, _: &Sent) -> Result<()> {
        Ok(())
    }
    fn book(&mut self, _: &Book) -> Result<()> {
        Ok(())
    }
    fn received(&mut self, row: &Received, frame: &[u8]) -> Result<()> {
        assert!(has_udp_checksum(frame));
        let mut again = frame.to_vec();
        set_udp_checksum(&mut again);
        assert_eq!(again, frame, "the checksum is right, merged or not");
        self.0 += u64::from(row.count > 1);
        Ok(())
    }
}

#[test]
fn checksums_are_right_where_they_are_asked_for() {
    let text = "[workload]\nupdates = 50\n[schedule]\nkind = \"poisson\"\noffered = \"60Gbps\"\n[topology]\nrate = \"20Gbps\"\n[format]\nudp_checksum = true\n";
    let experiment = Experiment::open(all(), Document::parse(text, "test").unwrap()).unwrap();
    let plan = experiment.plan(&experiment.runs[0]).unwrap();
    let mut checksums = Checksums(0);
    Simulation::new(plan.parts)
        .run(plan.spec.capture.until, &AtomicBool::new(false), &mut checksums, &mut |_| {})
        .unwrap();
    assert!(checksums.0 > 10, "merged updates were among them");
}

#[test]
fn ports_without_a_worker_are_never_used_for_acks() {
    // A cluster behind two devices: at most three ACK copies per delivery, and the run ends.
    let text = format!(
        "[workload]\nclusters = 1\nworkers_per_cluster = 6\nupdates = 10\n[schedule]\nkind = \"poisson\"\nperiod = \"1us\"\n[topology]\n{}\n",
        TOPOLOGIES[3]
    );
    let (_, outcome) = simulate(&text);
    assert!(outcome.counters.acks_sent > 0);
    assert_eq!(outcome.counters.acks_received, 2 * outcome.counters.acks_sent, "one copy for each of the two hosts");
}

#[test]
fn a_run_that_would_never_end_is_stopped_at_the_horizon() {
    let text = "[workload]\nupdates = 5000\n[schedule]\nkind = \"poisson\"\nperiod = \"1ns\"\n[topology]\ningress_rate = \"1bps\"\n";
    let (_, outcome) = simulate(text);
    assert!(outcome.beyond_horizon);
}

#[test]
fn a_cut_run_knows_nothing_of_what_comes_after() {
    let text = "[workload]\nupdates = 200\n[schedule]\nkind = \"constant\"\noffered = \"60Gbps\"\n[capture]\nuntil = \"500ns\"\n";
    let experiment = Experiment::open(all(), Document::parse(text, "test").unwrap()).unwrap();
    let plan = experiment.plan(&experiment.runs[0]).unwrap();
    let mut rows = Rows::default();
    let mut outcome = Simulation::new(plan.parts)
        .run(plan.spec.capture.until, &AtomicBool::new(false), &mut rows, &mut |_| {})
        .unwrap();
    let balance = total(&outcome.ledger.close());
    assert!(outcome.cut && (10..25).contains(&balance.sent), "about 15 updates exist by then: {}", balance.sent);
    assert_eq!(balance.unknown, 0);
    // A slow link at the host changes the arrivals, but not the generated updates.
    let experiment = Experiment::open(
        all(),
        Document::parse(&format!("{text}[topology]\ningress_rate = \"1Gbps\"\n"), "test").unwrap(),
    )
    .unwrap();
    let plan = experiment.plan(&experiment.runs[0]).unwrap();
    let mut outcome = Simulation::new(plan.parts)
        .run(plan.spec.capture.until, &AtomicBool::new(false), &mut rows, &mut |_| {})
        .unwrap();
    let slow = total(&outcome.ledger.close());
    assert_eq!((slow.generated, slow.unknown), (balance.generated, 0));
    assert!(slow.in_flight > balance.in_flight);
}
