//! Workers, switch and server in a network that loses, copies and delays frames: every iteration ends, every result is
//! correct, and the account balances.

use std::collections::BTreeMap;
use std::sync::Arc;

use pktgen_core::config::{Document, Section, Value};
use pktgen_core::record::{Action, Book, PacketId, Reason, SumOk};
use pktgen_core::seed::{Seed, Stream, unit};
use pktgen_core::time::{NEVER, Time};
use pktgen_core::topology::{NodeId, Population};
use pktgen_core::units::{Rate, Size};
use pktgen_engine::endpoint::{Crew, Facts, Host, Payloads, Receiver, WorkerKind};
use pktgen_engine::frame::{BURST, Frame, Kind, Pool};
use pktgen_engine::groups::{Contributor, JobPlace};
use pktgen_engine::ledger::{Evidence, Ledger, Receipt, Subject, total};
use pktgen_engine::target::books::Books;
use pktgen_engine::target::context::{Context, Outbox};
use pktgen_engine::target::port::{Port, PortTiming};
use pktgen_engine::target::program::{Place, Program, ProgramKind};
use pktgen_engine::target::queue::Fifo;
use proptest::prelude::*;
use rand::RngExt;

use crate::format::UDP_FRAME_BYTES;

const SWITCH: NodeId = 0;
const SERVER: NodeId = 1;
const US: Time = 1_000_000;

/// Parameters of a test experiment.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) jobs: u16,
    pub(crate) workers: u32,
    pub(crate) window: u32,
    pub(crate) aggregators: u16,
    /// Probabilities that a frame is lost or copied on a link.
    pub(crate) loss: f64,
    pub(crate) copies: f64,
    /// Maximum delay of a link; the minimum is 1 us.
    pub(crate) way: Time,
    pub(crate) seed: u64,
    pub(crate) iterations: u32,
}

/// Returns the facts of endpoints.
pub(crate) fn facts(setup: &Setup) -> Facts {
    let workers = Population::regular(setup.jobs, setup.workers);
    Facts {
        kind: &crate::workers::AtpKind,
        protocol: crate::workers::AtpKind.protocol(),
        training: (setup.workers, 0),
        host_of: Arc::new((2..2 + workers.len() as u32).collect()),
        workers: Arc::new(workers),
        server: SERVER,
        racks: Arc::default(),
        flows: None,
        standby: None,
        udp_checksum: true,
        seed: Seed(setup.seed),
        host_rate_bps: 1_000_000_000,
        real_time: false,
        external: false,
        round_trip: 0,
        states: false,
        share: pktgen_core::shard::Shard::WHOLE,
        lanes: None,
        learning: None,
        raw: None,
    }
}

/// Creates a switch of the jobs, with the server at port 0 and worker `w` at port `w + 1`.
pub(crate) fn switch(setup: &Setup) -> Box<dyn Program> {
    let job = |job: u32| {
        let members: Vec<u32> = (job * setup.workers..(job + 1) * setup.workers).collect();
        let ports: Vec<u16> = members.iter().map(|worker| *worker as u16 + 1).collect();
        let source = |(id, worker): (usize, &u32)| Contributor { id: id as u8, worker: Some(*worker), workers: 1 };
        JobPlace {
            sources: members.iter().enumerate().map(source).collect(),
            own: Some(0),
            ports: ports.clone(),
            port_of: ports,
        }
    };
    let jobs = (0..u32::from(setup.jobs)).map(job).collect();
    let workers = Population::regular(setup.jobs, setup.workers);
    let place = Place {
        server: SERVER,
        routes: vec![pktgen_core::topology::NO_PORT, 0].into(),
        ..Place::bare(SWITCH, workers, jobs, UDP_FRAME_BYTES)
    };
    let mut section = Section::of("target", &[("aggregators", Value::Integer(setup.aggregators.into()))]);
    crate::program::AtpKind.open(&mut section, place).unwrap()
}

fn crew(setup: &Setup, facts: &Facts) -> (Crew, Receiver, u64) {
    let text = format!(
        "[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = 2000\nworkers = {}\njobs = {}\niterations = {}\nelements = 62\n\
         compute = \"20us\"\n",
        setup.workers, setup.jobs, setup.iterations
    );
    let source =
        pktgen_workload::workload::open(&mut Document::parse(&text, "test").unwrap(), Seed(setup.seed)).unwrap().source;
    let dense = source.known().dense().unwrap();
    let numbers = u64::from(dense.blocks()) * u64::from(dense.iterations());
    let keys = [
        ("window", Value::Integer(setup.window.into())),
        ("aggregators", Value::Integer(setup.aggregators.max(1).into())),
    ];
    let mut section = Section::of("endpoint", &keys);
    let crew = crate::workers::AtpKind.open(&mut section, facts, source).unwrap();
    let receiver = crate::workers::AtpKind.server(&mut section, facts).unwrap().unwrap();
    (crew, receiver, numbers * u64::from(setup.jobs))
}

/// A frame and its next node.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    node: NodeId,
    frame: Frame,
}

struct Network {
    setup: Setup,
    /// Frames in flight by time and order.
    under_way: BTreeMap<(Time, u64), Arrival>,
    order: u64,
    random: Stream,
    pool: Pool,
    ledger: Ledger,
    ports: Vec<Port>,
    books: Books,
    wrong: u64,
}

impl Network {
    /// Sends a frame to a node.
    fn carry(&mut self, node: NodeId, frame: Frame) {
        if unit(&mut self.random) < self.setup.loss {
            if frame.kind == Kind::Update {
                self.drop(&frame);
            }
            return self.pool.release(frame.buffer);
        }
        if unit(&mut self.random) < self.setup.copies {
            self.pool.share(frame.buffer);
            let buffer = self.pool.unshare(frame.buffer);
            // As in virtual time, a copy of a contribution on its way to the server has no sender. One on its way to the switch may
            // overtake its original here, and keeps its id.
            let unsent = node == SERVER && frame.kind == Kind::Update;
            let packet = if unsent { PacketId::NOBODY } else { frame.packet };
            self.put(node, Frame { buffer, packet, ..frame });
        }
        self.put(node, frame);
    }

    fn put(&mut self, node: NodeId, frame: Frame) {
        self.order += 1;
        let t = frame.t + self.random.random_range(US..=self.setup.way.max(US));
        self.under_way.insert((t, self.order), Arrival { node, frame: Frame { t, ..frame } });
    }

    fn drop(&mut self, frame: &Frame) {
        let (t, packet_in, reason) = (frame.t, frame.packet, Some(Reason::Fault));
        self.ledger.book(&Book { t, node: 0, packet_in, action: Action::Dropped, packet_out: None, reason });
    }

    /// Delivers frames to the switch.
    fn at_switch(&mut self, program: &mut dyn Program, frame: Frame) {
        let (mut out, mut touched) = (Outbox::default(), Vec::new());
        let mut context = Context::new(&mut self.pool, &mut self.books, &mut self.ports, &mut out, &mut touched);
        program.on_burst(&[frame], &mut context);
        for port in &mut self.ports {
            port.advance(frame.t + US, &mut self.pool, &mut self.books, &mut out);
        }
        for row in self.books.rows.drain(..) {
            self.ledger.book(&row);
        }
        for (link, frame) in out.frames {
            self.carry(if link == 0 { SERVER } else { link as NodeId + 1 }, frame);
        }
    }

    /// Handles the output of workers or server.
    fn settle(&mut self, host: &mut Host, mut left: impl FnMut(PacketId, Time)) {
        for outgoing in host.outgoing.drain(..) {
            let frame = outgoing.frame;
            if outgoing.record.is_some() {
                self.ledger.sent(frame.packet, None, &[]);
                left(frame.packet, frame.t);
            }
            self.carry(SWITCH, frame);
        }
        for delivery in host.deliveries.drain(..) {
            if delivery.row.packet == PacketId::NOBODY {
                self.pool.release(delivery.frame.buffer);
                continue;
            }
            let values = crate::format::values(self.pool.payload(&delivery.frame)).unwrap();
            self.wrong += u64::from(self.ledger.received(&Receipt::of(&delivery.row, values)) != SumOk::Yes);
            self.pool.release(delivery.frame.buffer);
        }
        host.iterations.clear();
        host.replies.clear();
    }
}

/// Runs an experiment to its end; returns the counters of workers, switch and server.
fn run(setup: &Setup) -> BTreeMap<&'static str, u64> {
    let facts = facts(setup);
    let (Crew { mut workers, payloads, .. }, Receiver { mut server, .. }, numbers) = crew(setup, &facts);
    let Payloads::Results(content) = payloads else { panic!("results") };
    let timing = PortTiming::link(Rate::from_bps(1_000_000_000_000), Size::default(), 0);
    let timing = PortTiming { bypass_slots: 1 << 12, ..timing };
    let port = |link| Port::new(link, Box::new(Fifo::new(1 << 12, false)), &timing);
    let mut program = switch(setup);
    let mut net = Network {
        setup: setup.clone(),
        under_way: BTreeMap::new(),
        order: 0,
        random: Seed(setup.seed).stream("network", 0, 0),
        pool: Pool::new(UDP_FRAME_BYTES, 64),
        ledger: Ledger::open(facts.workers.len(), Subject::Results { content, exact: true }, Evidence::Books),
        ports: (0..=facts.workers.len() as u32).map(port).collect(),
        books: Books::default(),
        wrong: 0,
    };
    let mut host = Host::default();
    for _ in 0..4_000_000 {
        let arrival = net.under_way.first_key_value().map_or(NEVER, |((t, _), _)| *t);
        let wake = workers.next_wake();
        if wake.min(arrival) == NEVER {
            break;
        }
        if wake <= arrival {
            workers.pull(wake, &mut net.pool, &mut host);
            assert!(host.outgoing.len() <= BURST);
            net.settle(&mut host, |packet, t| workers.left(packet, t));
            continue;
        }
        let Some((_, Arrival { node, frame })) = net.under_way.pop_first() else { unreachable!() };
        match node {
            SWITCH => net.at_switch(program.as_mut(), frame),
            SERVER => {
                server.on_burst(SERVER, &[frame], &mut net.pool, &mut host);
                net.settle(&mut host, |_, _| {});
            }
            node => {
                workers.on_burst(node, &[frame], &mut net.pool, &mut host);
                net.settle(&mut host, |packet, t| workers.left(packet, t));
            }
        }
    }
    assert!(!workers.waits(), "{:?} {setup:?}", workers.end().unfinished);
    let end = workers.end();
    let counters: BTreeMap<_, _> = [end.counters.clone(), program.counters(), server.end(None).counters]
        .concat()
        .into_iter()
        .map(|own| (own.name, own.value))
        .collect();
    assert_eq!((end.wrong_results, counters["results_right"], net.wrong), (0, numbers, 0), "{setup:?}");
    let balance = total(&net.ledger.close());
    let rest = (net.ledger.strangers(), balance.unknown, balance.in_flight, net.pool.in_use());
    assert_eq!(rest, (0, 0, 0, 0), "{setup:?} {counters:?}");
    counters
}

fn setup() -> impl Strategy<Value = Setup> {
    let chance = prop_oneof![Just(0.0), 0.0..0.1f64];
    let sizes = (1u16..4, 1u32..6, 1u32..40);
    (sizes, 0u16..160, chance.clone(), chance, prop_oneof![Just(US), US..60 * US], any::<u64>()).prop_map(
        |((jobs, workers, window), aggregators, loss, copies, way, seed)| {
            let aggregators = if aggregators == 0 { 0 } else { aggregators.max(window as u16) };
            Setup {
                jobs,
                workers,
                window: window.min(aggregators.max(1).into()),
                aggregators,
                loss,
                copies,
                way,
                seed,
                iterations: 3,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_iteration_ends_with_right_results_in_any_network(setup in setup()) {
        run(&setup);
    }
}

/// In a reliable network a single job never collides, and the server receives one packet of each number.
#[test]
fn one_job_is_summed_in_the_switch() {
    let setup = Setup {
        jobs: 1,
        workers: 5,
        window: 20,
        aggregators: 50,
        loss: 0.0,
        copies: 0.0,
        way: US,
        seed: 3,
        iterations: 3,
    };
    let counters = run(&setup);
    let (packets, whole) = (counters["packets"], counters["sums_whole"]);
    assert_eq!((packets, counters["collisions"], counters["server.packets"]), (whole * 5, 0, whole));
    assert_eq!((counters["server.results"], counters["sums_flushed"], counters["aggregators_at_end"]), (whole, 0, 0));
    assert_eq!(counters["aggregators_max"], 20, "a window of them");
}

/// Without aggregators the server adds up everything.
#[test]
fn without_aggregators_the_server_sums_all() {
    let setup = Setup {
        jobs: 2,
        workers: 3,
        window: 8,
        aggregators: 0,
        loss: 0.0,
        copies: 0.0,
        way: US,
        seed: 3,
        iterations: 3,
    };
    let setup = Setup { window: 1, ..setup };
    let counters = run(&setup);
    assert_eq!(counters["server.parts"], counters["packets"]);
    assert_eq!(counters["collisions"], counters["packets"]);
}

/// Numbers on the wire restart after 65,535.
#[test]
fn numbers_begin_again() {
    let setup = Setup {
        jobs: 1,
        workers: 2,
        window: 9,
        aggregators: 9,
        loss: 0.001,
        copies: 0.001,
        way: 9 * US,
        seed: 5,
        iterations: 2100,
    };
    let counters = run(&setup);
    assert!(counters["results_right"] > 65_535, "{counters:?}");
    assert!(counters["sums_flushed"] > 0 && counters["duplicates"] > 0, "{counters:?}");
}
