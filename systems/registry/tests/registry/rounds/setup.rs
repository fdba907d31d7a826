//! Setup of a run by hand: protocol, jobs, places of the workers, transport of the frames.

use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::{Document, Section, Value};
use pktgen_core::seed::Seed;
use pktgen_core::time::{NS, Time};
use pktgen_workload::dense::Dense;
use pktgen_workload::workload;
use proptest::prelude::*;

use pktgen_engine::endpoint::{Crew, Facts, WorkerKind};

/// One random run.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub trio: bool,
    pub jobs: u32,
    pub per_job: u32,
    pub blocks: u32,
    /// Number of elements missing from the last block.
    pub short: u32,
    pub iterations: u32,
    pub window: u32,
    pub missed: &'static str,
    pub compute_ns: u32,
    pub straggler_probability: f64,
    pub one_straggler: bool,
    /// Whether sleeps are multiples of measured iteration times.
    pub measured: bool,
    /// SwitchML only.
    pub retransmit_ns: Option<u32>,
    /// Loss of contributions and copies of results; SwitchML with retransmission only.
    pub loss: f64,
    /// Number of hosts: ids of workers on the same host are this far apart.
    pub hosts: u32,
    /// Whether the endpoint learns at once when a frame will leave and at which host a result arrives.
    pub virtual_time: bool,
    pub udp_checksum: bool,
    /// Whether copies and frames that are no results are inserted.
    pub disturbed: bool,
    pub seed: u64,
}

pub(super) fn setups() -> impl Strategy<Value = Setup> {
    let shape = (1u32..4, 1u32..6, prop_oneof![Just(1u32), 2u32..8, 8u32..80], 0u32..5, 1u32..7);
    let pace = (
        prop_oneof![Just(1u32), 2u32..9, Just(64)],
        prop::sample::select(vec!["skip", "join", "compute", "abandon"]),
        prop_oneof![Just(0u32), 1u32..4000],
        prop_oneof![Just(0.0), 0.0..1.0f64],
        any::<bool>(),
        prop::option::of(1000u32..9000),
        prop_oneof![Just(0.0), 0.0..0.3f64],
    );
    let rest = (any::<bool>(), 1u32..8, any::<bool>(), any::<bool>(), any::<[bool; 2]>(), any::<u64>());
    (shape, pace, rest).prop_map(|(shape, pace, rest)| {
        let (jobs, per_job, blocks, short, iterations) = shape;
        let (window, missed, compute_ns, straggler_probability, one_straggler, retransmit_ns, loss) = pace;
        let (trio, hosts, virtual_time, udp_checksum, [disturbed, measured], seed) = rest;
        let retransmit_ns = retransmit_ns.filter(|_| !trio);
        // A block has 128 transmissions (the wire's counter of attempts): its timeouts must last longer than a straggler's sleep, which is
        // up to six times a measured iteration, including that iteration's losses and timeouts.
        let (blocks, retransmit_ns) = match (measured, retransmit_ns) {
            (true, Some(ns)) => (blocks.min(4), Some(ns.max(4000))),
            _ => (blocks, retransmit_ns),
        };
        Setup {
            trio,
            jobs,
            per_job,
            blocks,
            short,
            iterations,
            window,
            missed,
            compute_ns,
            straggler_probability,
            one_straggler,
            measured,
            retransmit_ns,
            loss: if retransmit_ns.is_some() { loss } else { 0.0 },
            hosts,
            virtual_time,
            udp_checksum,
            disturbed,
            seed,
        }
    })
}

/// The value of `endpoint.scale`: contributions are clipped now and then, and sums wrap.
pub(super) const SCALE: f32 = 1e6;

impl Setup {
    pub fn workers(&self) -> u32 {
        self.jobs * self.per_job
    }

    pub fn elements(&self) -> u32 {
        if self.trio { 5 } else { 64 }
    }

    pub fn retransmit(&self) -> Option<Time> {
        self.retransmit_ns.map(|ns| Time::from(ns) * NS)
    }

    /// Opens the workers; also returns their workload and facts.
    pub fn open(&self) -> (Crew, Arc<Dense>, Facts) {
        let text = format!(
            "name = \"x\"\n[workload]\nkind = \"dense\"\nmodel = \"custom\"\nparameters = {}\nworkers = {}\njobs = {}\n\
             iterations = {}\nelements = {}\ncompute = \"{}ns\"\ncompute_jitter = 0.3\n{}\
             straggler_probability = {}\nstragglers = \"{}\"\n",
            self.blocks * self.elements() - self.short,
            self.per_job,
            self.jobs,
            self.iterations,
            self.elements(),
            self.compute_ns,
            if self.measured { "" } else { "typical = \"4us\"\n" },
            self.straggler_probability,
            if self.one_straggler { "one" } else { "each" },
        );
        let kind: &'static dyn WorkerKind = if self.trio { workers("trio_ml") } else { workers("switchml") };
        let mut keys = vec![("missed", Value::from(self.missed)), ("scale", Value::Float(f64::from(SCALE)))];
        keys.push((if self.trio { "window" } else { "pool" }, Value::Integer(i64::from(self.window))));
        if !self.trio {
            keys.push(("scaling", Value::from("fixed")));
        }
        if self.measured {
            keys.push(("typical", Value::from("measured")));
        }
        if let Some(ns) = self.retransmit_ns {
            keys.push(("retransmit", Value::from(format!("{ns}ns").as_str())));
        }
        open(&text, kind, &keys, self.hosts, self.udp_checksum)
    }
}

/// Opens workers of `kind` that train the workload in `text`, on `hosts` hosts behind the device, which is node 0.
pub(super) fn open(
    text: &str,
    kind: &'static dyn WorkerKind,
    keys: &[(&str, Value)],
    hosts: u32,
    udp_checksum: bool,
) -> (Crew, Arc<Dense>, Facts) {
    let (crew, dense, facts) = try_open(text, kind, keys, hosts, udp_checksum);
    (crew.unwrap(), dense, facts)
}

/// As [`open`], with the refusal of workers that cannot train the workload.
pub(super) fn try_open(
    text: &str,
    kind: &'static dyn WorkerKind,
    keys: &[(&str, Value)],
    hosts: u32,
    udp_checksum: bool,
) -> (Result<Crew>, Arc<Dense>, Facts) {
    let source = workload::open(&mut Document::parse(text, "test").unwrap(), Seed(7)).unwrap().source;
    let dense = source.known().dense().unwrap();
    let facts = Facts {
        kind,
        protocol: kind.protocol(),
        training: (dense.workers_per_job(), dense.blocks()),
        workers: Arc::new(source.population().clone()),
        host_of: Arc::new((0..dense.workers()).map(|w| 1 + w % hosts).collect()),
        server: 0,
        racks: Arc::default(),
        flows: None,
        standby: None,
        udp_checksum,
        seed: Seed(7),
        host_rate_bps: 1_000_000_000,
        real_time: false,
        external: false,
        round_trip: 0,
        states: false,
        share: pktgen_core::shard::Shard::WHOLE,
        lanes: None,
        learning: None,
        raw: None,
    };
    let crew = kind.open(&mut Section::of("endpoint", keys), &facts, source);
    (crew, dense, facts)
}

/// Returns the kind of workers with this name.
pub(super) fn workers(name: &str) -> &'static dyn WorkerKind {
    *pktgen_registry::all().workers.iter().find(|kind| kind.name() == name).expect("they are listed")
}
