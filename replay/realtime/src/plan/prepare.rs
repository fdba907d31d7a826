//! Planning of a run from an experiment: every section is read and checked before anything is sent.

use std::sync::Arc;

use pktgen_core::config::{Document, Origin, SECTIONS, Section, UNNAMED, Value};
use pktgen_core::record::{NO_CLUSTER, Note};
use pktgen_core::registry::find;
use pktgen_core::seed::Seed;
use pktgen_core::shard::Shard;
use pktgen_core::topology::{self, Population, Routes, Topology};
use pktgen_core::{Error, Result};
use pktgen_wire::wire::frame::HEAD;
use pktgen_wire::wire::update::{FRAME_MIN, elements_in};
use pktgen_workload::lanes::{self, Lanes};
use pktgen_workload::workload::{self, Opened, Source};

use super::capture::read_capture;
use super::devices::read_devices;
use super::network::{host_rate_bps, round_trip, standby};
use super::{Plan, Spec};
use crate::catalogue::Catalogue;
use crate::endpoint::sender::{SMALLER_ACKS, SMALLER_MODELS, UPDATES};
use crate::endpoint::{Crew, Facts, Payloads, Receiver, UpdateServer, WorkerKind, raw, server};
use crate::external::{Hardware, may_merge};
use crate::ledger::{Evidence, Goal, Ledger, Subject};
use crate::parts::Parts;
use crate::reduction;
use crate::target::device::Device;
use crate::target::sparse::Adder;
use crate::transport::{Frames, Transport, TransportPlan};

/// Plans a run in virtual time.
pub fn plan(catalogue: &'static Catalogue, document: Document, seed: u64) -> Result<Plan> {
    let plan = prepare(catalogue, document, seed)?;
    if plan.spec.is_real_time() {
        return Err(Error::config(format!(
            "transport.kind = \"{}\" is in real time; use virtual here",
            plan.spec.transport.kind.name()
        )));
    }
    Ok(plan)
}

/// Reopens the updates of a run, to settle an account.
pub fn source(catalogue: &'static Catalogue, mut document: Document, seed: u64) -> Result<Box<dyn Source>> {
    let source = workload::open(&mut document, Seed(seed))?.source;
    let (_, kind) = read_workers(catalogue, &mut document, source.as_ref())?;
    let (_, lanes) = read_format(catalogue, &mut document, kind, source.as_ref())?;
    Ok(laned(&lanes, source))
}

/// Opens the updates of this share of the workers.
fn open_share(catalogue: &Catalogue, document: &mut Document, seed: u64, share: Shard) -> Result<Opened> {
    read_top(document, seed)?;
    let opened = workload::open(document, Seed(seed))?;
    if share == Shard::WHOLE {
        return Ok(opened);
    }
    let (source, workers) = (&opened.source, opened.source.population().len());
    if source.known().is_driven() {
        return Err(Error::config(format!(
            "share {share} of the workers: those that train in iterations wait for each other's results and are all in one process; \
             use one sender, or workers that do not (endpoint.workers = {})",
            catalogue.names_of_workers(|own| !own.synchronous && !own.learns)
        )));
    }
    if share.of() > workers as u64 {
        return Err(Error::config(format!(
            "share {share} of the workers: there are {workers}, so at most {workers} senders; start fewer ranks"
        )));
    }
    Ok(Opened { source: workload::share(opened.source, share), ..opened })
}

/// Reads all sections except `sweep`, `report` and `paper`, which belong to the sweep.
pub fn prepare(catalogue: &'static Catalogue, document: Document, seed: u64) -> Result<Plan> {
    of_share(catalogue, document, seed, Shard::WHOLE)
}

/// The senders of a run and its hardware.
struct Senders {
    hardware: Option<Hardware>,
    opened: Opened,
    workers: Arc<Population>,
    frame_max: usize,
    update_max: usize,
    endpoint: Section,
    kind: &'static dyn WorkerKind,
}

/// Reads the senders.
fn read_senders(catalogue: &Catalogue, document: &mut Document, seed: u64, share: Shard) -> Result<Senders> {
    let hardware = Hardware::named(catalogue, document)?;
    let opened = open_share(catalogue, document, seed, share)?;
    let workers = Arc::new(opened.source.population().clone());
    let known = opened.source.known();
    // Updates have at least one gradient.
    let [frame_max, update_max] = [known.frame_max, known.update_max].map(|bytes| (bytes as usize).max(FRAME_MIN));
    let (endpoint, kind) = read_workers(catalogue, document, opened.source.as_ref())?;
    Ok(Senders { hardware, opened, workers, frame_max, update_max, endpoint, kind })
}

/// Plans a run for a process with a share of the workers.
pub(crate) fn of_share(catalogue: &'static Catalogue, document: Document, seed: u64, share: Shard) -> Result<Plan> {
    let plan = planned(catalogue, document, seed, share)?;
    let transport = &plan.spec.transport;
    let can = transport.kind.capabilities();
    if share == Shard::WHOLE || can.heads || !can.real_time {
        return Ok(plan);
    }
    Err(Error::config(format!(
        "share {share} of the workers: with transport.kind = \"{}\" a device has one socket for all workers, connected to one sender; \
         use one rank of workers, or several over interfaces (af_packet, af_xdp)",
        transport.kind.name()
    )))
}

fn planned(catalogue: &'static Catalogue, mut document: Document, seed: u64, share: Shard) -> Result<Plan> {
    let Senders { hardware, opened, workers, frame_max, update_max, endpoint, kind } =
        read_senders(catalogue, &mut document, seed, share)?;
    let (udp_checksum, lanes) = read_format(catalogue, &mut document, kind, opened.source.as_ref())?;
    let (topology, routes) = read_network(&mut document, &workers, kind)?;
    let mut transport = read_transport(catalogue, &mut document, kind, &opened, &topology, hardware.as_ref())?;
    let capture = read_capture(&mut document)?.checked(opened.endless, &workers, kind)?;
    let answer = server::ack_bytes(&endpoint, update_max as u32);
    let facts = Facts {
        kind,
        protocol: kind.protocol(),
        training: opened.source.known().dense().map_or((0, 0), |dense| (dense.workers_per_job(), dense.blocks())),
        host_of: Arc::new(topology.host_of(workers.len())),
        flows: reduction::flows(catalogue, &document, &topology, &workers)?,
        workers: workers.clone(),
        server: topology.sink().unwrap_or_default(),
        racks: Arc::new(topology.racks()),
        standby: standby(&topology),
        host_rate_bps: host_rate_bps(&topology),
        real_time: transport.kind.capabilities().real_time,
        external: transport.lockstep.is_some() || hardware.as_ref().is_some_and(|own| own.external),
        udp_checksum,
        seed: Seed(seed),
        round_trip: round_trip(&topology, &routes, &workers, update_max as u32, answer),
        states: capture.states,
        share,
        lanes: lanes.clone(),
        learning: opened.source.known().learning(),
        raw: opened.source.known().raw,
    };
    let (Crew { workers: crew, mut declared, payloads }, receiver) =
        read_endpoints(catalogue, &mut document, endpoint, &facts, laned(&lanes, opened.source))?;
    let frame_bytes = largest(declared.frame_bytes, (frame_max, answer as usize), &facts, &mut transport);
    let mut set = read_devices(catalogue, &mut document, (&topology, &routes), &facts, frame_bytes, &mut declared)?;
    let basis = Basis { facts: &facts, transport: &transport, devices: &set.devices, frame_max, goal: capture.goal };
    let subject = basis.subject(payloads, &mut set.remarks);
    document.finish(SECTIONS)?;
    let spec = Spec {
        catalogue,
        family: subject.family(),
        nodes: topology.nodes.iter().map(|n| n.name.clone()).collect(),
        planned: reduction::planned(&facts, &topology, update_max, receiver.answers_all),
        remarks: set.remarks,
        capture,
        training: declared.training.clone(),
        lanes,
        trace_hash: opened.hash,
        workers: workers.clone(),
        launch: set.launch.filter(|_| hardware.as_ref().is_some_and(|own| own.external)),
        hardware,
        probing: set.probing,
        raw: kind.protocol().whole,
        config: document.resolved(),
        unused: document.unused().to_vec(),
        transport,
    };
    let parts = Parts {
        topology,
        devices: set.devices,
        workers: crew,
        elements: declared.elements.unwrap_or(elements(&facts, frame_max)),
        declared,
        receiver,
        ledger: Ledger::open(workers.len(), subject, evidence(&spec)),
        frame_bytes,
        changes: set.changes,
        facts,
        faults: spec.transport.faults,
    };
    Plan { spec, parts }.fit_hardware()
}

/// Returns the largest frame: as declared, or that of workers with frames of up to `frame_max` bytes and a server that answers them with
/// `answer`. Advice for smaller ones names acknowledgements only if they are the longest, and can be shorter.
fn largest(
    declared: Option<usize>,
    (frame_max, answer): (usize, usize),
    facts: &Facts,
    transport: &mut TransportPlan,
) -> usize {
    match facts.learning {
        _ if !std::ptr::eq(facts.protocol, &UPDATES) => {}
        Some(_) => transport.smaller = SMALLER_MODELS,
        None if answer > frame_max.max(server::ACK_MIN) => transport.smaller = SMALLER_ACKS,
        None => {}
    }
    // Raw frames are not answered.
    declared.unwrap_or(if facts.protocol.whole { frame_max } else { frame_max.max(answer) })
}

/// Reads the network and its routes. Refuses results at hosts that rows of records cannot name.
fn read_network(
    document: &mut Document,
    workers: &Population,
    kind: &dyn WorkerKind,
) -> Result<(Topology, Arc<Routes>)> {
    let topology = topology::open(document, workers)?;
    let nodes = topology.nodes.len();
    if kind.behaviour().synchronous && nodes > topology::NODES {
        return Err(Error::config(format!(
            "topology: {nodes} nodes, and results at workers are recorded of the first {}; have fewer workers or switches, or \
             workers that do not wait for results",
            topology::NODES
        )));
    }
    let routes = topology.routes();
    Ok((topology, routes))
}

/// Checks that raw frames go to hardware, which keeps no books: they contain no ids.
fn check_raw(
    kind: &dyn WorkerKind,
    source: &dyn Source,
    transport: &dyn Transport,
    hardware: Option<&Hardware>,
) -> Result<()> {
    let raw = source.known().raw.is_some();
    if raw != kind.protocol().whole {
        return Err(Error::config(format!(
            "endpoint.workers = \"{}\": frames of workload.kind = \"raw\" can be sent by workers = \"raw\" only; \
             leave it out",
            kind.name()
        )));
    }
    let external = hardware.is_some_and(|own| own.external);
    if raw && !(external && transport.capabilities().real_time && transport.capabilities().heads) {
        return Err(Error::config(format!(
            "workload.kind = \"raw\": raw frames need a device without books and a transport of whole frames: \
             target.kind = \"external\" with af_packet, af_xdp, xdp_live or pcap, and not transport.kind = \"{}\"{}",
            transport.name(),
            if external { "" } else { " with a device in this process" }
        )));
    }
    Ok(())
}

/// Returns the gradients of the largest frame; for raw frames, its words.
fn elements(facts: &Facts, frame_max: usize) -> usize {
    if facts.protocol.whole { (frame_max - HEAD).div_ceil(4) } else { elements_in(frame_max) }
}

/// The basis of a run's account.
struct Basis<'a> {
    facts: &'a Facts,
    transport: &'a TransportPlan,
    devices: &'a [Option<Device>],
    /// Length of the longest frame with an update.
    frame_max: usize,
    /// Goal of every worker that sends updates, if there is one.
    goal: Option<u32>,
}

impl Basis<'_> {
    /// Returns the subject of the account: updates, with a note if they lose their ids on the way to the server, or
    /// payloads that can be recomputed. Ids are exact where no frame is read from a wire.
    fn subject(&self, payloads: Payloads, remarks: &mut Vec<Note>) -> Subject {
        let facts = self.facts;
        match payloads {
            Payloads::Updates => {
                let named = !facts.protocol.whole && self.transport.dialect.is_none_or(|dialect| !dialect.headless);
                remarks.extend((!named).then_some(Note::Headless {}));
                let elements = elements(facts, self.frame_max);
                Subject::Updates { elements, goal: goal(self.goal, &facts.workers), named }
            }
            Payloads::Results(content) => Subject::Results { content, exact: !facts.real_time },
            Payloads::Pairs(pairs) => Subject::Pairs(pairs, adder(self.devices)),
        }
    }
}

/// Returns the evidence of a run's account.
fn evidence(spec: &Spec) -> Evidence<'_> {
    match spec.is_external() {
        true => Evidence::Nothing {
            workers: &spec.workers,
            merges: may_merge(&spec.config),
            at_server: spec.transport.has_server,
        },
        false => Evidence::Books,
    }
}

/// A goal of `n` updates for every worker that sends any.
fn goal(n: Option<u32>, workers: &Population) -> Option<Goal> {
    n.map(|n| Goal::new(n, workers.cluster_of.iter().map(|cluster| *cluster != NO_CLUSTER)))
}

/// Returns the devices' floating-point adder.
fn adder(devices: &[Option<Device>]) -> Adder {
    devices.iter().flatten().find_map(|device| device.program.limits().adder).unwrap_or(Adder::Exact)
}

/// Reads `[endpoint]`, and finds the kind of workers that it names.
fn read_workers(
    catalogue: &Catalogue,
    document: &mut Document,
    source: &dyn Source,
) -> Result<(Section, &'static dyn WorkerKind)> {
    let mut endpoint = document.section("endpoint")?;
    let default = if source.known().raw.is_some() { raw::NAME } else { catalogue.defaults.workers };
    let name: String = endpoint.get("workers", default)?;
    let kind = find(catalogue.workers, "worker endpoint", &name, &endpoint.place("workers"))?;
    Ok((endpoint, kind))
}

/// Adds lanes to the updates, if they have any.
fn laned(lanes: &Option<Arc<Lanes>>, source: Box<dyn Source>) -> Box<dyn Source> {
    match lanes {
        Some(lanes) => lanes.over(source),
        None => source,
    }
}

/// Reads `[transport]`, for the frames of these workers.
fn read_transport(
    catalogue: &'static Catalogue,
    document: &mut Document,
    kind: &dyn WorkerKind,
    opened: &Opened,
    topology: &Topology,
    hardware: Option<&Hardware>,
) -> Result<TransportPlan> {
    let (protocol, external) = (kind.protocol(), hardware.is_some_and(|own| own.external));
    let frames = Frames {
        catalogue,
        format: protocol.format,
        heads: (protocol.heads)(opened.source.known().dense().map_or(0, |dense| dense.workers_per_job())),
        smaller: protocol.smaller,
        has_server: topology.servers().next().is_some(),
        // Impossible addresses are refused together with everything else that does not fit the profile.
        addresses: hardware.and_then(|own| own.profile.addressing.resolve(opened.source.population()).ok()),
        external,
    };
    let plan = TransportPlan::read(document, frames)?;
    let wired = plan.kind.capabilities().real_time && plan.lockstep.is_none();
    if wired && external && plan.middleware.has("fault") {
        return Err(Error::config(
            "transport.fault_loss and its like act at the ends of pktgen's own device, and this one is external: nothing would be lost; \
             leave them out, and make faults on the cable (tc qdisc add dev PORT root netem loss 1%)",
        ));
    }
    check_raw(kind, opened.source.as_ref(), plan.kind, hardware)?;
    Ok(plan)
}

/// Reads the top-level keys of an experiment, and sections that a run ignores.
pub(crate) fn read_top(document: &mut Document, seed: u64) -> Result<()> {
    document.top("name", UNNAMED)?;
    document.top("about", "")?;
    // Resolved to the seed of this run, so that its configuration repeats it.
    document.set("seed", Value::Integer(seed as i64), Origin::Default)?;
    document.top("seed", "")?;
    document.forget("sweep");
    // Commands of these names read them; a run does not.
    ["verify", "certify", "calibrate"].iter().try_for_each(|section| document.leave(section))
}

/// Opens the workers and the server.
fn read_endpoints(
    catalogue: &Catalogue,
    document: &mut Document,
    mut section: Section,
    facts: &Facts,
    source: Box<dyn Source>,
) -> Result<(Crew, Receiver)> {
    let crew = facts.kind.open(&mut section, facts, source)?;
    // Its keys are read, and checked, for any server.
    let answering = UpdateServer::open(&mut section, facts)?;
    let receiver = facts.kind.server(&mut section, facts)?.unwrap_or_else(|| Receiver::passive(answering));
    for kind in catalogue.workers {
        section.allow(kind.keys());
        section.allow(kind.server_keys());
    }
    document.close(section)?;
    Ok((crew, receiver))
}

/// Reads the wire format, which is that of the workers unless the experiment names it. Returns whether UDP checksums
/// are filled in, and the generator of the lanes of what `source` sends, if it has any.
fn read_format(
    catalogue: &Catalogue,
    document: &mut Document,
    kind: &dyn WorkerKind,
    source: &dyn Source,
) -> Result<(bool, Option<Arc<Lanes>>)> {
    let mut section = document.section("format")?;
    let spoken = kind.protocol().format;
    let name: String = section.get("kind", spoken)?;
    if kind.protocol().whole && name == spoken {
        document.close(section)?;
        return Ok((false, None));
    }
    let format = catalogue.format(&name, &section.place("kind"))?;
    if format.name() != spoken {
        return Err(Error::config(format!(
            "{}: \"{name}\" does not match endpoint.workers = \"{}\", which use \"{}\"; leave format.kind out, or change one of them",
            section.place("kind"),
            kind.name(),
            spoken
        )));
    }
    let udp_checksum = section.get("udp_checksum", false)?;
    let lanes = lanes::read(&mut section, format, catalogue.protocols.formats, source)?;
    document.close(section)?;
    Ok((udp_checksum, lanes))
}
