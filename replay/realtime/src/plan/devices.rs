//! `[target]`: the devices of a network.

use std::sync::Arc;

use pktgen_core::config::{Document, Section};
use pktgen_core::record::Note;
use pktgen_core::registry::{Named, find};
use pktgen_core::topology::{Link, Node, NodeId, Population, Role, Routes, Topology};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

use crate::catalogue::Catalogue;
use crate::endpoint::{Declaration, Facts, WorkerKind};
use crate::groups::{GroupPorts, Groups, JobPlace, Regroup};
use crate::launch::{Launch, Probing};
use crate::racks::{self, DeviceRacks};
use crate::target::device::Device;
use crate::target::flows::Flows;
use crate::target::port::{Port, PortTiming};
use crate::target::program::{Place, ProgramKind};
use crate::target::queue::{Discipline, Slots, fifo::FifoDiscipline};
use crate::target::sparse::SparsePlace;

/// The devices of a run.
pub(super) struct DeviceSet {
    /// Devices by node.
    pub devices: Vec<Option<Device>>,
    /// Events of the control plane.
    pub changes: Vec<Regroup>,
    /// Notes for readers of the run.
    pub remarks: Vec<Note>,
    /// How the device is started, if by a command.
    pub launch: Option<Launch>,
    /// How hardware is probed before a run.
    pub probing: Probing,
}

/// Makes the devices, for frames of at most `frame_bytes`.
pub(super) fn read_devices(
    catalogue: &Catalogue,
    document: &mut Document,
    (topology, routes): (&Topology, &Arc<Routes>),
    facts: &Facts,
    frame_bytes: usize,
    declared: &mut Declaration,
) -> Result<DeviceSet> {
    let coupled = !facts.real_time && document.get("target.lockstep").is_some();
    let mut target = document.section("target")?;
    target.allow_elsewhere("lockstep");
    check_kind(&mut target, coupled)?;
    let devices =
        Devices::read(catalogue, &mut target, (topology, routes), facts, frame_bytes, declared.sparse.as_ref())?;
    let mut remarks = Vec::new();
    if facts.kind.behaviour().listens && !devices.tells_congestion() {
        let (program, queue) = (devices.program.name().to_owned(), devices.queue.name().to_owned());
        remarks.push(Note::NoCongestionSignal { program, queue });
    }
    remarks.extend((facts.states && !facts.kind.behaviour().listens).then_some(Note::StatesUnused {}));
    let launch = Launch::of(&mut target)?;
    let probing = Probing::read(&mut target)?;
    let changes = Groups::new(topology, &devices.routes, facts).changes(facts);
    let devices = devices.build_all(&mut target, topology)?;
    for discipline in catalogue.queues {
        target.allow(discipline.keys());
    }
    for program in catalogue.programs {
        target.allow(program.keys());
    }
    document.close(target)?;
    remarks.extend(check_room(declared, &devices)?);
    remarks.extend(check_silence(declared, &devices));
    remarks.extend(check_results(declared, &devices));
    Ok(DeviceSet { devices, changes, remarks, launch, probing })
}

/// Checks that jobs, packets and windows of workers fit their devices. If a block without room is lost for good, they must fit; if
/// workers go on without it, a note is returned.
fn check_room(declared: &mut Declaration, devices: &[Option<Device>]) -> Result<Option<Note>> {
    let Some(training) = &mut declared.training else { return Ok(None) };
    let limits: Vec<_> = devices.iter().flatten().map(|device| device.program.limits()).collect();
    training.timeout_ps = limits.iter().filter_map(|own| own.timeout).min();
    if let Some((served, remedy)) = limits.iter().find_map(|own| own.jobs.filter(|(n, _)| *n < training.jobs)) {
        return Err(Error::config(format!(
            "workload.jobs = {}: the device serves {served}, and other jobs would never complete; {remedy}",
            training.jobs
        )));
    }
    // A model may be smaller than a packet.
    let elements = declared.elements.map_or(0, |elements| training.elements.min(elements as u64));
    if let Some((most, key)) =
        limits.iter().filter_map(|own| own.elements).find(|(most, _)| u64::from(*most) < elements)
    {
        return Err(Error::config(format!(
            "workload.elements: packets have {elements} elements and {key} = {most}: the device would drop them; lower workload.elements \
             or raise {key}"
        )));
    }
    let rooms = limits.iter().filter_map(|own| Some((own.room?, own.timeout)));
    let Some(((room, key), timeout)) = rooms.min_by_key(|((room, _), _)| *room) else { return Ok(None) };
    if training.window <= room {
        return Ok(None);
    }
    let text = format!(
        "workers have up to {} blocks outstanding and {key} = {room}: blocks beyond that are dropped and never retransmitted; lower \
         the workers' window (endpoint.window, endpoint.pool) or raise {key}",
        training.window
    );
    if timeout.is_some() { Ok(Some(Note::Room { why: text })) } else { Err(Error::config(text)) }
}

/// Returns a note if workers send blocks again so early that devices may wait for ever: between two packets of a block there must be
/// a whole interval of the timer of each device, so the longest one decides.
fn check_silence(declared: &Declaration, devices: &[Option<Device>]) -> Option<Note> {
    let every = declared.retransmit?;
    let silences = devices.iter().flatten().filter_map(|device| device.program.limits().silence);
    let (silence, key) = silences.max_by_key(|(silence, _)| *silence)?;
    let [every_text, silence_text] = [every, silence].map(|time| Span::from_ps(time).to_string());
    (every < silence.saturating_mul(2)).then(|| Note::EarlyRetransmission {
        every: every_text,
        key: key.to_owned(),
        silence: silence_text,
    })
}

/// Returns a note if workers send blocks again whose results devices do not repeat.
fn check_results(declared: &Declaration, devices: &[Option<Device>]) -> Option<Note> {
    declared.retransmit?;
    let key = devices.iter().flatten().find_map(|device| device.program.limits().final_results)?;
    Some(Note::FinalResults { key: key.to_owned() })
}

/// Checks that the device is known: external hardware by its profile, unless a process is `coupled` in its place.
fn check_kind(section: &mut Section, coupled: bool) -> Result<()> {
    let external = section.choose("kind", "software", &[("software", false, ""), ("external", true, "")])?;
    if section.get_opt::<String>("profile")?.is_none() && external && !coupled {
        return Err(Error::config(format!(
            "{}: external hardware has a profile; give target.profile (`pktgen device list`), or use kind = \"software\"",
            section.place("kind")
        )));
    }
    Ok(())
}

/// Checks that workers, device and network are compatible.
fn agree(kind: &dyn WorkerKind, program: &dyn ProgramKind, topology: &Topology) -> Result<()> {
    let (workers, device) = (kind.name(), program.name());
    let (spoken, behaviour) = (kind.protocol().format, kind.behaviour());
    match program.format() {
        Some(format) if format != spoken => {
            return Err(Error::config(format!(
                "endpoint.workers = \"{workers}\" uses {spoken} and target.program = \"{device}\" uses {format}; choose two of one format"
            )));
        }
        None if behaviour.needs_results => {
            return Err(Error::config(format!(
                "endpoint.workers = \"{workers}\" waits for results, and target.program = \"{device}\" makes none; use program = \"{}\"",
                behaviour.program.unwrap_or(spoken)
            )));
        }
        _ => {}
    }
    match (behaviour.has_server, topology.servers().next()) {
        (false, Some(_)) => Err(Error::config(format!(
            "endpoint.workers = \"{workers}\": results go back to the workers, and this topology has a server; use topology.kind = \"rack\""
        ))),
        (true, None) => Err(Error::config(format!(
            "endpoint.workers = \"{workers}\" sends to a server, and this topology has none; use topology.kind = \"bottleneck\", \"star\", \"multi_hop\" or \"custom\""
        ))),
        _ => Ok(()),
    }
}

/// The construction of the devices of a run.
struct Devices {
    jobs: Vec<Arc<Vec<JobPlace>>>,
    frame_bytes: usize,
    sparse: Option<SparsePlace>,
    racks: DeviceRacks,
    flows: Option<Arc<Flows>>,
    real_time: bool,
    udp_checksum: bool,
    program: &'static dyn ProgramKind,
    queue: &'static dyn Discipline,
    /// Programs that look up the clusters of updates.
    identifying: Vec<&'static str>,
    timing: PortTiming,
    routes: Arc<Routes>,
    group_ports: Vec<Arc<GroupPorts>>,
    workers: Arc<Population>,
    /// One more than the highest cluster.
    clusters: usize,
    server: NodeId,
    servers: Vec<NodeId>,
}

/// Frames that a switch port can hold if windows of all workers may meet: 20 MB and more, as in shared buffers.
const DEEP_SLOTS: u32 = 65_536;

impl Devices {
    fn read(
        catalogue: &Catalogue,
        section: &mut Section,
        (topology, routes): (&Topology, &Arc<Routes>),
        facts: &Facts,
        frame_bytes: usize,
        sparse: Option<&SparsePlace>,
    ) -> Result<Self> {
        let synchronous = facts.kind.behaviour().synchronous;
        let program = section.get("program", facts.kind.behaviour().program.unwrap_or(catalogue.defaults.program))?;
        let program: String = program;
        let program = find(catalogue.programs, "program", &program, &section.place("program"))?;
        let queue: String = section.get("queue", program.queue())?;
        let queue = find(catalogue.queues, "queue", &queue, &section.place("queue"))?;
        agree(facts.kind, program, topology)?;
        racks::check(facts, &catalogue.names_of_workers(|behaviour| behaviour.several_servers))?;
        // A window of results may wait for a worker's link: a router's packet memory holds them.
        let timing = PortTiming::read(section, if synchronous { 1 << 20 } else { 1024 })?;
        let groups = Groups::new(topology, routes, facts);
        let jobs = if synchronous { groups.jobs() } else { vec![Vec::new(); topology.nodes.len()] };
        let group_ports = groups.tables();
        // All queues read the key again: this default precedes theirs, also in the resolved configuration. A written value is without
        // effect, and remains unread, where the topology states the slots of all ports.
        let is_stated = |link: &Link| link.slots.is_some() || topology.nodes[link.from as usize].role != Role::Device;
        if !(section.has("slots") && topology.links.iter().all(is_stated)) {
            let default = if facts.kind.behaviour().several_servers { DEEP_SLOTS } else { queue.slots() };
            Slots::slots(section, default)?;
        }
        Ok(Devices {
            jobs: jobs.into_iter().map(Arc::new).collect(),
            frame_bytes,
            sparse: sparse.cloned(),
            racks: DeviceRacks::new(topology, routes, facts, sparse.is_some()),
            flows: facts.flows.clone(),
            real_time: facts.real_time,
            udp_checksum: facts.udp_checksum,
            program,
            queue,
            identifying: catalogue.programs.iter().filter(|one| one.identifies()).map(|one| one.name()).collect(),
            timing,
            routes: routes.clone(),
            group_ports,
            workers: facts.workers.clone(),
            clusters: facts.workers.clusters_ever(),
            server: facts.server,
            servers: topology.servers().chain(topology.top).collect(),
        })
    }

    /// Returns whether devices stamp the number of active clusters into ACKs.
    fn tells_congestion(&self) -> bool {
        self.program.identifies() && self.queue.needs_identified()
    }

    /// Makes the devices of a topology, by node.
    fn build_all(&self, section: &mut Section, topology: &Topology) -> Result<Vec<Option<Device>>> {
        let exits = topology.exits();
        let one = |(id, node): (usize, &Node)| -> Result<Option<Device>> {
            let id = id as NodeId;
            let links = || exits.of(id).iter().map(|link| (*link, &topology.links[*link as usize])).collect::<Vec<_>>();
            (node.role == Role::Device).then(|| self.build(section, id, &links())).transpose()
        };
        topology.nodes.iter().enumerate().map(one).collect()
    }

    fn build(&self, section: &mut Section, node: NodeId, links: &[(u32, &Link)]) -> Result<Device> {
        let place = Place {
            node,
            routes: self.routes.at(node),
            workers: self.workers.clone(),
            group_ports: self.group_ports[node as usize].clone(),
            server: self.server,
            jobs: self.jobs[node as usize].clone(),
            frame_bytes: self.frame_bytes,
            sparse: self.sparse.clone(),
            aggregators: self.racks.aggregators[node as usize].clone(),
            racks: self.racks.places[node as usize].clone(),
            flows: self.flows.as_ref().map(|flows| flows.at(node)),
            real_time: self.real_time,
            udp_checksum: self.udp_checksum,
        };
        let (program, discipline) = (self.program, self.queue);
        if discipline.needs_identified() && !program.identifies() {
            return Err(Error::config(format!(
                "{}: the queue \"{}\" needs a program that identifies updates, and \"{}\" does not; choose program = \"{}\", or queue = \"{}\"",
                section.place("queue"),
                discipline.name(),
                program.name(),
                self.identifying.join("\" or \""),
                FifoDiscipline.name()
            )));
        }
        let program = program.open(section, place)?;
        // Acknowledgements go down to the workers through a plain queue on a plain link. In real time, those that arrive while this
        // process has no core are found together, although they were sequential on the cable: all of them find room.
        let together = self.real_time.then_some(DEEP_SLOTS);
        let plain_queue: &dyn Discipline = &FifoDiscipline;
        let mut ports = Vec::with_capacity(links.len());
        for (index, link) in links {
            let is_way = |server: &NodeId| self.routes.port(node, *server) == ports.len() as u16;
            // The flows of a plan need not take the shortest way.
            let carries = |flows: &Arc<Flows>| flows.at(node).leads_up(ports.len() as u16);
            let up = self.servers.iter().any(is_way) || self.flows.as_ref().is_some_and(carries);
            let line =
                PortTiming { rate: link.rate, overhead: link.overhead, delay: link.delay, ..self.timing.clone() };
            let plain = PortTiming {
                bypass_slots: self.timing.bypass_slots,
                ..PortTiming::link(link.rate, link.overhead, link.delay)
            };
            let (discipline, timing) = if up { (discipline, &line) } else { (plain_queue, &plain) };
            let room = link.slots.or(together.filter(|_| !up));
            let queue = discipline.open(section, self.clusters, room)?;
            ports.push(Port::new(*index, queue, timing));
        }
        Ok(Device::new(node, program, ports))
    }
}
