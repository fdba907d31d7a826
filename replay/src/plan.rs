//! From an experiment to something that can run: every section is read and checked before anything is
//! sent.

use std::sync::Arc;

use pktgen_generator::config::{Document, Origin, SECTIONS, Section, Value};
use pktgen_generator::lanes::{self, Lanes};
use pktgen_generator::record::{Family, NO_CLUSTER, Note, Planned, Training};
use pktgen_generator::registry::find;
use pktgen_generator::seed::Seed;
use pktgen_generator::shard::Shard;
use pktgen_generator::time::{NEVER, Serialiser, Time};
use pktgen_generator::topology::{self, Link, Node, NodeId, Population, Role, Topology};
use pktgen_generator::units::Span;
use pktgen_generator::wire::FORMATS;
use pktgen_generator::wire::olaf::{ACK_HEAD, FRAME_MIN, UPDATE_HEAD, elements_in};
use pktgen_generator::workload::{self, Opened, Source};
use pktgen_generator::{Error, Result};

use crate::capture::{Records, Wanted};
use crate::driver::virtual_time::Simulation;
use crate::endpoint::{ENDPOINTS, Endpoint, Facts, Server, Standby, WorkerKind};
use crate::external::{Hardware, may_merge};
use crate::groups::{GroupPorts, Groups, JobPlace, Regroup};
use crate::ledger::{Evidence, Goal, Ledger, Subject};
use crate::parts::Parts;
use crate::reduction;
use crate::target::device::Device;
use crate::target::flows::Flows;
use crate::target::port::{Port, PortTiming};
use crate::target::program::{PROGRAMS, Place, ProgramKind};
use crate::target::queue::QUEUES;
use crate::target::sparse::{Adder, SparsePlace};
use crate::transport::TransportPlan;
use crate::transport::middleware::ON_WIRE;

/// A run, ready to start. `E` is the driver with everything in it, or the parts for one.
pub struct Plan<E = Simulation> {
    /// What runs.
    pub engine: E,
    /// What its account is of.
    pub family: Family,
    /// How frames move.
    pub transport: TransportPlan,
    /// What its reader must know beforehand.
    pub remarks: Vec<Note>,
    /// When it is cut off.
    pub until: Time,
    /// Which rows are recorded.
    pub records: Records,
    /// Are workers' states recorded?
    pub states: bool,
    /// What is trained, if workers aggregate in iterations, without a server.
    pub training: Option<Training>,
    /// The plan along which devices reduce, if they do.
    pub planned: Option<Planned>,
    /// What makes the lanes of updates, where they carry any.
    pub lanes: Option<Arc<Lanes>>,
    /// Are the packets at the server captured?
    pub pcap: bool,
    /// Hash of the trace or of what it is made from.
    pub trace_hash: String,
    /// Workers and clusters.
    pub workers: Arc<Population>,
    /// Updates that every worker must have represented at the server, if that ends the run.
    pub goal: Option<u32>,
    /// Names of nodes.
    pub nodes: Vec<String>,
    /// The hardware that it is for, if it names any.
    pub hardware: Option<Hardware>,
    /// The resolved configuration.
    pub config: String,
}

/// Plans a run in virtual time.
pub fn plan(document: Document, seed: u64) -> Result<Plan> {
    let plan = prepare(document, seed)?;
    if plan.is_real_time() {
        return Err(Error::config(format!(
            "transport.kind = \"{}\" is in real time; use virtual here",
            plan.transport.kind.name()
        )));
    }
    Ok(plan.map(Simulation::new))
}

/// The updates of a run, anew: to settle an account.
pub fn source(mut document: Document, seed: u64) -> Result<Box<dyn Source>> {
    let source = workload::open(&mut document, Seed(seed))?.source;
    let (_, kind) = read_workers(&mut document)?;
    Ok(match read_format(&mut document, kind, source.as_ref())?.1 {
        Some(lanes) => lanes.over(source),
        None => source,
    })
}

/// The controller of a network, and what it watches.
fn standby(topology: &Topology) -> Option<Standby> {
    let controller = topology.controller()?;
    let beside = topology.servers().next().and_then(|server| topology.ports(server).next());
    let switch = beside.map_or(0, |(_, link)| link.to);
    Some(Standby { controller, switch, aggregators: topology.aggregators().into() })
}

/// The updates of this share of the workers.
fn open_share(document: &mut Document, seed: u64, share: Shard) -> Result<Opened> {
    read_top(document, seed)?;
    let opened = workload::open(document, Seed(seed))?;
    if share == Shard::WHOLE {
        return Ok(opened);
    }
    let (source, workers) = (&opened.source, opened.source.population().len());
    if source.dense().is_some() || source.sparse().is_some() || source.learning().is_some() {
        return Err(Error::config(format!(
            "share {share} of the workers: those that train in iterations wait for each other's results and are all in one process; \
             use one sender, or workers that do not (endpoint.workers = \"open_loop\", \"transmission_control\", \"retransmit\")"
        )));
    }
    if share.of() > workers as u64 {
        return Err(Error::config(format!(
            "share {share} of the workers: there are {workers}, so at most {workers} senders; start fewer ranks"
        )));
    }
    Ok(Opened { source: workload::share(opened.source, share), ..opened })
}

/// Reads all sections but `sweep`, `report` and `paper`, which belong to the sweep.
pub fn prepare(document: Document, seed: u64) -> Result<Plan<Parts>> {
    prepare_share(document, seed, Shard::WHOLE)
}

/// The same where this process has a share of the workers.
pub fn prepare_share(mut document: Document, seed: u64, share: Shard) -> Result<Plan<Parts>> {
    let hardware = Hardware::named(&mut document)?;
    let opened = open_share(&mut document, seed, share)?;
    let workers = Arc::new(opened.source.population().clone());
    let frame_max = frame_max(opened.source.as_ref());
    let (endpoint, kind) = read_workers(&mut document)?;
    let (udp_checksum, lanes) = read_format(&mut document, kind, opened.source.as_ref())?;
    let mut transport = TransportPlan::read(&mut document)?;
    let topology = topology::open(&mut document, &workers)?;
    let capture = read_capture(&mut document)?.checked(opened.endless, &workers, kind)?;
    let facts = Facts {
        kind,
        training: opened.source.dense().map_or((0, 0), |dense| (dense.workers_per_job(), dense.blocks())),
        host_of: Arc::new(topology.host_of(workers.len())),
        flows: reduction::flows(&document, &topology, &workers)?,
        workers: workers.clone(),
        server: topology.sink().unwrap_or_default(),
        standby: standby(&topology),
        host_rate_bps: host_rate_bps(&topology),
        real_time: transport.kind.capabilities().real_time,
        udp_checksum,
        seed: Seed(seed),
        round_trip: round_trip(&topology, frame_max as u32),
        states: capture.states,
        share,
        lanes: lanes.clone(),
        learning: opened.source.learning(),
    };
    fit(&mut transport, &facts, &topology);
    let (senders, receiver) = read_endpoints(&mut document, endpoint, kind, &facts, laned(&lanes, opened.source))?;
    let mut training = senders.training();
    let frame_bytes = senders.frame_bytes().unwrap_or(frame_max + ACK_HEAD - UPDATE_HEAD);
    let (devices, changes, mut remarks) =
        read_devices(&mut document, &topology, &facts, Asked { frame_bytes, sparse: senders.sparse() }, &capture)?;
    remarks.extend(training.as_mut().map_or(Ok(None), |training| check_room(training, &devices))?);
    let subject =
        subject(senders.as_ref(), &devices, elements_in(frame_max), capture.goal, (&transport, &facts), &mut remarks);
    document.finish(SECTIONS)?;
    let config = document.resolved();
    Plan {
        family: subject.family(),
        nodes: topology.nodes.iter().map(|n| n.name.clone()).collect(),
        planned: reduction::planned(&facts, &topology, frame_max, receiver.as_ref()),
        engine: Parts {
            topology,
            devices,
            senders,
            receiver,
            ledger: Ledger::open(workers.len(), subject, evidence(hardware.as_ref(), &config, &workers)),
            elements: elements_in(frame_max),
            frame_bytes,
            changes,
            facts,
            faults: transport.faults,
        },
        transport,
        remarks,
        until: capture.until,
        goal: capture.goal,
        records: capture.records,
        states: capture.states,
        training,
        lanes,
        pcap: capture.pcap,
        trace_hash: opened.hash,
        workers,
        hardware,
        config,
    }
    .fit_hardware()
}

/// Bytes of the largest frame: an ACK with the model has a longer header than the update it answers.
fn frame_max(source: &dyn Source) -> usize {
    (source.frame_max() as usize).max(FRAME_MIN)
}

/// The books of devices, unless these are hardware.
fn evidence<'a>(hardware: Option<&Hardware>, config: &str, workers: &'a Population) -> Evidence<'a> {
    match hardware.is_some_and(|hardware| hardware.external) {
        true => Evidence::Nothing { workers, merges: may_merge(config) },
        false => Evidence::Books,
    }
}

/// `[endpoint]`, and which workers it asks for.
fn read_workers(document: &mut Document) -> Result<(Section, &'static dyn WorkerKind)> {
    let mut endpoint = document.section("endpoint")?;
    let name: String = endpoint.get("workers", "open_loop")?;
    let kind = find(ENDPOINTS, "worker endpoint", &name, &endpoint.place("workers"))?;
    Ok((endpoint, kind))
}

/// The updates with their lanes, where they carry any.
fn laned(lanes: &Option<Arc<Lanes>>, source: Box<dyn Source>) -> Box<dyn Source> {
    match lanes {
        Some(lanes) => lanes.over(source),
        None => source,
    }
}

/// Tells the transport what frames are and whether there is a server.
fn fit(transport: &mut TransportPlan, facts: &Facts, topology: &Topology) {
    transport.heads = facts.kind.heads(facts);
    transport.smaller = facts.kind.smaller();
    transport.has_server = topology.servers().next().is_some();
}

/// What a run accounts for: results or pairs where workers know what contributions are, else updates, with a remark if these lose
/// their names on the way to the server.
fn subject(
    senders: &dyn Endpoint,
    devices: &[Option<Device>],
    elements: usize,
    goal: Option<u32>,
    (transport, facts): (&TransportPlan, &Facts),
    remarks: &mut Vec<Note>,
) -> Subject {
    if let Some(content) = senders.content() {
        return Subject::Results(content);
    }
    if let Some(pairs) = senders.pairs() {
        let adder = devices.iter().flatten().find_map(|device| device.program.adder()).unwrap_or(Adder::Exact);
        return Subject::Pairs(pairs, adder);
    }
    let named = facts.kind.format() != "olaf" || !transport.middleware.names().any(|name| name == ON_WIRE);
    if !named {
        remarks.push(Note::Headless {});
    }
    let goal = goal.map(|n| Goal::new(n, facts.workers.cluster_of.iter().map(|c| *c != NO_CLUSTER)));
    Subject::Updates { elements, goal, named }
}

/// What stands at the top of an experiment, and sections that a run does not read.
pub(crate) fn read_top(document: &mut Document, seed: u64) -> Result<()> {
    document.top("name", "unnamed")?;
    document.top("about", "")?;
    // Resolved as what this run uses, so that its configuration repeats it.
    document.set("seed", Value::Integer(seed as i64), Origin::Default)?;
    document.top("seed", "")?;
    document.forget("sweep");
    // `pktgen verify` reads it; a run does not.
    drop(document.section("verify")?);
    Ok(())
}

/// Devices by node, what the control plane tells them, and what a reader must know.
type Made = (Vec<Option<Device>>, Vec<Regroup>, Vec<Note>);

/// What workers ask of devices.
struct Asked {
    frame_bytes: usize,
    sparse: Option<SparsePlace>,
}

/// Makes the devices.
fn read_devices(
    document: &mut Document,
    topology: &Topology,
    facts: &Facts,
    asked: Asked,
    capture: &Capture,
) -> Result<Made> {
    let mut target = document.section("target")?;
    let devices = Devices::read(&mut target, topology, facts, asked)?;
    let remarks = remarks(facts.kind.listens(), devices.tells_congestion(&target)?, &devices, capture);
    let changes = Groups::new(topology, &devices.routes, facts).changes(facts);
    let devices = devices.build_all(&mut target, topology)?;
    for discipline in QUEUES {
        target.allow(discipline.keys());
    }
    for program in PROGRAMS {
        target.allow(program.keys());
    }
    document.close(target)?;
    Ok((devices, changes, remarks))
}

/// Do the windows of workers fit their devices? Where a block that has no room is lost for good, they must; where others go
/// on without it, the reader is told.
fn check_room(training: &mut Training, devices: &[Option<Device>]) -> Result<Option<Note>> {
    training.timeout_ps = devices.iter().flatten().filter_map(|device| device.program.timeout()).min();
    let few = devices.iter().flatten().find_map(|device| device.program.jobs().filter(|(n, _)| *n < training.jobs));
    if let Some((served, remedy)) = few {
        return Err(Error::config(format!(
            "workload.jobs = {}: the device serves {served}, and the workers of others would wait for ever; {remedy}",
            training.jobs
        )));
    }
    let rooms = devices.iter().flatten().filter_map(|device| device.program.room().zip(Some(device.program.timeout())));
    let Some(((room, key), timeout)) = rooms.min_by_key(|((room, _), _)| *room) else { return Ok(None) };
    if training.window <= room {
        return Ok(None);
    }
    let text = format!(
        "workers have up to {} blocks outstanding and {key} = {room}: what has no room is dropped, and nobody sends it again; lower \
         the workers' window (endpoint.window, endpoint.pool) or raise {key}",
        training.window
    );
    if timeout.is_some() { Ok(Some(Note::Room { why: text })) } else { Err(Error::config(text)) }
}

/// What a reader of the run must know beforehand.
fn remarks(listens: bool, told: bool, devices: &Devices, capture: &Capture) -> Vec<Note> {
    let mut remarks = Vec::new();
    if listens && !told {
        let (program, queue) = (devices.program.to_owned(), devices.queue.to_owned());
        remarks.push(Note::NoCongestionSignal { program, queue });
    }
    if capture.states && !listens {
        remarks.push(Note::StatesUnused {});
    }
    remarks
}

impl<E> Plan<E> {
    /// What its run dir keeps.
    pub fn wanted(&self) -> Wanted {
        let (rounds, server) = (self.training.is_some(), self.transport.has_server);
        // In real time, transport.tap has what left.
        let pcap_sent = self.pcap && !self.is_real_time();
        let lanes = self.lanes.as_ref().map(|lanes| (lanes.form(), lanes.count()));
        let (states, pcap) = (self.states, self.pcap);
        let (stamps, departures) = self.transport.wants_stamps();
        // Where there are no books, sums are checked by the members that lanes prove.
        let external = self.hardware.as_ref().is_some_and(|own| own.external);
        let payloads = external && self.lanes.as_ref().is_some_and(|lanes| lanes.layout().proves_sums());
        Wanted { records: self.records, states, rounds, server, pcap, pcap_sent, lanes, payloads, stamps, departures }
    }

    /// Does it run in real time?
    pub fn is_real_time(&self) -> bool {
        self.transport.kind.capabilities().real_time
    }

    /// The same plan for what `with` makes of its parts.
    pub fn map<F>(self, with: impl FnOnce(E) -> F) -> Plan<F> {
        Plan {
            engine: with(self.engine),
            family: self.family,
            transport: self.transport,
            remarks: self.remarks,
            until: self.until,
            goal: self.goal,
            records: self.records,
            states: self.states,
            training: self.training,
            planned: self.planned,
            lanes: self.lanes,
            pcap: self.pcap,
            trace_hash: self.trace_hash,
            workers: self.workers,
            nodes: self.nodes,
            hardware: self.hardware,
            config: self.config,
        }
    }
}

/// Opens the workers' endpoint and the server.
fn read_endpoints(
    document: &mut Document,
    mut section: Section,
    kind: &dyn WorkerKind,
    facts: &Facts,
    source: Box<dyn Source>,
) -> Result<(Box<dyn Endpoint>, Box<dyn Endpoint>)> {
    let senders = kind.open(&mut section, facts, source)?;
    let answering = Server::open(&mut section, facts)?;
    let receiver = kind.server(&mut section, facts)?.unwrap_or_else(|| Box::new(answering));
    for kind in ENDPOINTS {
        section.allow(kind.keys());
        section.allow(kind.server_keys());
    }
    document.close(section)?;
    Ok((senders, receiver))
}

/// Longest time from sending a frame of `bytes` to the arrival of an ACK of that size where nothing waits.
fn round_trip(topology: &Topology, bytes: u32) -> Time {
    let routes = topology.routes();
    let Some(server) = topology.sink() else { return 0 };
    let one_way = |from: NodeId, to: NodeId| -> Time {
        let (mut at, mut time) = (from, 0);
        while at != to {
            let port = routes[usize::from(at)][usize::from(to)];
            let Some((_, link)) = topology.ports(at).nth(usize::from(port)) else { return 0 };
            time += Serialiser::new(link.rate, link.overhead).take(bytes) + link.delay;
            at = link.to;
        }
        time
    };
    let hosts = topology.nodes.iter().enumerate().filter(|(_, n)| matches!(n.role, Role::Host(_)));
    hosts.map(|(id, _)| one_way(id as NodeId, server) + one_way(server, id as NodeId)).max().unwrap_or(0)
}

/// The rate of the slowest link from a host.
fn host_rate_bps(topology: &Topology) -> u64 {
    let from_host = |link: &&Link| matches!(topology.nodes[usize::from(link.from)].role, Role::Host(_));
    topology.links.iter().filter(from_host).map(|link| link.rate.bps()).min().unwrap_or(0)
}

/// Workers, device and network must go together.
fn agree(kind: &dyn WorkerKind, program: &dyn ProgramKind, topology: &Topology) -> Result<()> {
    let (workers, device) = (kind.name(), program.name());
    match program.format() {
        Some(format) if format != kind.format() => {
            return Err(Error::config(format!(
                "endpoint.workers = \"{workers}\" speaks {} and target.program = \"{device}\" speaks {format}; choose two that speak the same",
                kind.format()
            )));
        }
        None if kind.needs_results() => {
            return Err(Error::config(format!(
                "endpoint.workers = \"{workers}\" waits for results, and target.program = \"{device}\" makes none; use program = \"{}\"",
                kind.format()
            )));
        }
        _ => {}
    }
    match (kind.has_server(), topology.servers().next()) {
        (false, Some(_)) => Err(Error::config(format!(
            "endpoint.workers = \"{workers}\": results go back to the workers, and this topology has a server; use topology.kind = \"rack\""
        ))),
        (true, None) => Err(Error::config(format!(
            "endpoint.workers = \"{workers}\" sends to a server, and this topology has none; use topology.kind = \"bottleneck\", \"star\", \"multi_hop\" or \"custom\""
        ))),
        _ => Ok(()),
    }
}

/// The wire format, which is that of the workers unless the experiment names it; are UDP checksums filled in, and what makes
/// the lanes of what `source` sends, if it has any?
fn read_format(
    document: &mut Document,
    kind: &dyn WorkerKind,
    source: &dyn Source,
) -> Result<(bool, Option<Arc<Lanes>>)> {
    let mut section = document.section("format")?;
    let name: String = section.get("kind", kind.format())?;
    let format = find(FORMATS, "wire format", &name, &section.place("kind"))?;
    if format.name() != kind.format() {
        return Err(Error::config(format!(
            "{}: \"{name}\" is not what endpoint.workers = \"{}\" speaks, which is \"{}\"; leave format.kind out, or change one of them",
            section.place("kind"),
            kind.name(),
            kind.format()
        )));
    }
    let udp_checksum = section.get("udp_checksum", false)?;
    let lanes = lanes::read(&mut section, format.name(), source)?;
    document.close(section)?;
    Ok((udp_checksum, lanes))
}

/// `[capture]`.
struct Capture {
    records: Records,
    states: bool,
    pcap: bool,
    until: Time,
    goal: Option<u32>,
}

impl Capture {
    /// Can the run end, and reach its goal?
    fn checked(self, endless: bool, workers: &Population, kind: &dyn WorkerKind) -> Result<Self> {
        if self.goal.is_some() && kind.is_synchronous() {
            return Err(Error::config(format!(
                "capture.goal counts updates at a server, and endpoint.workers = \"{}\" has none; use workload.iterations",
                kind.name()
            )));
        }
        if endless && self.goal.is_none() && self.until == NEVER {
            return Err(Error::config(
                "workload.repeat = 0 has no end: give capture.goal, capture.until, schedule.stop, or a number of passes",
            ));
        }
        if self.goal.is_some() && workers.cluster_of.iter().all(|cluster| *cluster == NO_CLUSTER) {
            return Err(Error::config("capture.goal needs workers that send updates; this workload has none"));
        }
        Ok(self)
    }
}

fn read_capture(document: &mut Document) -> Result<Capture> {
    let mut section = document.section("capture")?;
    let records: String = section.get("records", "full")?;
    let records = records.parse().map_err(|e| Error::config(format!("{}: {e}", section.place("records"))))?;
    let states = section.get("states", false)?;
    let pcap = section.get("pcap", false)?;
    let until: Option<Span> = section.get_opt("until")?;
    let goal: Option<u32> = section.get_opt("goal")?;
    if goal == Some(0) {
        return Err(Error::config(format!("{}: a goal of 0 updates is reached at once", section.place("goal"))));
    }
    document.close(section)?;
    Ok(Capture { records, states, pcap, until: until.map_or(NEVER, Span::ps), goal })
}

/// How the devices of a run are made.
struct Devices {
    jobs: Vec<Arc<Vec<JobPlace>>>,
    frame_bytes: usize,
    sparse: Option<SparsePlace>,
    aggregators: Arc<Vec<NodeId>>,
    flows: Option<Arc<Flows>>,
    real_time: bool,
    udp_checksum: bool,
    program: String,
    queue: String,
    timing: PortTiming,
    routes: Vec<Arc<Vec<u16>>>,
    group_ports: Vec<Arc<GroupPorts>>,
    workers: Arc<Population>,
    server: NodeId,
}

impl Devices {
    fn read(section: &mut Section, topology: &Topology, facts: &Facts, asked: Asked) -> Result<Self> {
        let synchronous = facts.kind.is_synchronous();
        let external = section.choose("kind", "software", &[("software", false), ("external", true)])?;
        if section.get_opt::<String>("profile")?.is_none() && external {
            return Err(Error::config(format!(
                "{}: external hardware has a profile; give target.profile (`pktgen device list`), or use kind = \"software\"",
                section.place("kind")
            )));
        }
        let program: String = section.get("program", facts.kind.program())?;
        let chosen = find(PROGRAMS, "program", &program, &section.place("program"))?;
        let queue: String = section.get("queue", if synchronous { "fifo" } else { chosen.queue() })?;
        agree(facts.kind, chosen, topology)?;
        // A window of results may wait for a worker's link: a router's packet memory holds them.
        let timing = PortTiming::read(section, if synchronous { 1 << 20 } else { 1024 })?;
        let routes: Vec<_> = topology.routes().into_iter().map(Arc::new).collect();
        let groups = Groups::new(topology, &routes, facts);
        let mut jobs = if synchronous { groups.jobs() } else { vec![Vec::new(); topology.nodes.len()] };
        if facts.real_time {
            // All workers are at the end of one cable.
            jobs.iter_mut().flatten().for_each(|job| job.ports.truncate(1));
        }
        let group_ports = groups.tables();
        Ok(Devices {
            jobs: jobs.into_iter().map(Arc::new).collect(),
            frame_bytes: asked.frame_bytes,
            sparse: asked.sparse,
            aggregators: Arc::new(topology.aggregators()),
            flows: facts.flows.clone(),
            real_time: facts.real_time,
            udp_checksum: facts.udp_checksum,
            program,
            queue,
            timing,
            routes,
            group_ports,
            workers: facts.workers.clone(),
            server: facts.server,
        })
    }

    /// Do devices stamp the number of active clusters into ACKs?
    fn tells_congestion(&self, section: &Section) -> Result<bool> {
        let program = find(PROGRAMS, "program", &self.program, &section.place("program"))?;
        let discipline = find(QUEUES, "queue", &self.queue, &section.place("queue"))?;
        Ok(program.identifies() && discipline.needs_identified())
    }

    /// The devices of a topology, by node.
    fn build_all(&self, section: &mut Section, topology: &Topology) -> Result<Vec<Option<Device>>> {
        let one = |(id, node): (usize, &Node)| -> Result<Option<Device>> {
            let links: Vec<_> = topology.ports(id as NodeId).map(|(i, link)| (i as u32, link)).collect();
            (node.role == Role::Device).then(|| self.build(section, id as NodeId, &links)).transpose()
        };
        topology.nodes.iter().enumerate().map(one).collect()
    }

    fn build(&self, section: &mut Section, node: NodeId, links: &[(u32, &Link)]) -> Result<Device> {
        let place = Place {
            node,
            routes: self.routes[usize::from(node)].clone(),
            workers: self.workers.clone(),
            group_ports: self.group_ports[usize::from(node)].clone(),
            server: self.server,
            jobs: self.jobs[usize::from(node)].clone(),
            frame_bytes: self.frame_bytes,
            sparse: self.sparse.clone(),
            aggregators: self.aggregators.clone(),
            flows: self.flows.as_ref().map(|flows| flows.at(node)),
            real_time: self.real_time,
            udp_checksum: self.udp_checksum,
        };
        let program = find(PROGRAMS, "program", &self.program, &section.place("program"))?;
        let discipline = find(QUEUES, "queue", &self.queue, &section.place("queue"))?;
        if discipline.needs_identified() && !program.identifies() {
            return Err(Error::config(format!(
                "{}: the queue \"{}\" needs a program that identifies updates, and \"{}\" does not; choose program = \"olaf\", or queue = \"fifo\"",
                section.place("queue"),
                self.queue,
                self.program
            )));
        }
        let program = program.open(section, place)?;
        // What goes down to the workers is acknowledgements: a plain queue on a plain link.
        let plain_queue = find(QUEUES, "queue", "fifo", "downlink")?;
        let mut ports = Vec::with_capacity(links.len());
        for (index, link) in links {
            let up = self.routes[usize::from(node)][usize::from(self.server)] == ports.len() as u16;
            let line =
                PortTiming { rate: link.rate, overhead: link.overhead, delay: link.delay, ..self.timing.clone() };
            let plain = PortTiming {
                bypass_slots: self.timing.bypass_slots,
                ..PortTiming::link(link.rate, link.overhead, link.delay)
            };
            let (discipline, timing) = if up { (discipline, &line) } else { (plain_queue, &plain) };
            let queue = discipline.open(section, self.workers.clusters_ever(), link.slots)?;
            ports.push(Port::new(*index, queue, timing));
        }
        Ok(Device::new(node, program, ports))
    }
}
