//! Starting the threads of a run, and waiting for them.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use pktgen_core::record::Fault;
use pktgen_core::time::{MS, NS, Time};
use pktgen_core::topology::{NodeId, Topology};
use pktgen_core::{Error, Result};
use pktgen_wire::wire::update::FORMAT;

use super::attached::{Attached, FrameSet};
use super::device::{Cables, DeviceRole};
use super::feed::{Chunks, Feeder};
use super::pump::{self, Pump};
use super::roles::Placement;
use super::server::ServerRole;
use super::workers::WorkersRole;
use super::{AckTally, Progress, RealOutcome, Roles, Serve, Shared, thread};
use crate::capture::{RunDir, WorkerRows};
use crate::clock::RunClock;
use crate::endpoint::Facts;
use crate::ledger::Ledger;
use crate::live::Ends;
use crate::parts::Parts;
use crate::steer::Steering;
use crate::transport::gather::{Over, Receiver, Tally, gather, imbalance};
use crate::transport::middleware::{self, ChecksumTally, Site, checked};
use crate::transport::{End, Nowhere, Pacing, Ports, TransportPlan, Wire};

/// Interval of progress reports.
const TELL: Time = 100 * MS;
/// Delay of the beginning of time after the threads are started.
const LEAD: Time = 20 * MS;

/// Threads that rows of sent frames keep busy: one generates them, one writes them.
const ROW_THREADS: usize = 2;

/// The settings of a run in real time, besides its parts.
pub(crate) struct RunOrder<'a> {
    /// `[transport]`.
    pub plan: &'a TransportPlan,
    /// Roles of this process.
    pub roles: Roles,
    /// Conditions for the end of a process without workers.
    pub serve: Serve,
    /// Returns the clock once everything is ready; without it, time begins shortly after.
    pub begin: Option<&'a dyn Fn() -> Result<RunClock>>,
    /// Cut-off time of the workers.
    pub until: Time,
    /// Set when the user requests a stop.
    pub stop: &'a AtomicBool,
    /// Steering, if permitted.
    pub steering: Option<&'a Steering>,
    /// Called with the progress of the run.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

impl RunOrder<'_> {
    /// Returns a wire that also checks checksums, if the frames come from a foreign device and none was sent with a wrong one.
    fn read_by(&self, wire: Box<dyn Wire>, facts: &Facts, checksums: &Arc<ChecksumTally>) -> Box<dyn Wire> {
        let of_others = !self.roles.device && self.plan.kind.capabilities().heads;
        let sent_so = facts.raw.as_ref().is_some_and(|flows| flows.has_misfits());
        if of_others && !sent_so { checked(wire, checksums.clone()) } else { wire }
    }
}

/// The host's resources for the roles of a process: acquired before anything of the run is written.
pub(crate) struct OpenedRoles {
    node: NodeId,
    placement: Placement,
    wires: Vec<Wires>,
    /// Frames attached for the workers, by queue.
    attached: Option<Vec<Attached>>,
}

/// The wires of an end: one for each queue with a separate thread.
type Wires = Vec<Box<dyn Wire>>;

/// Opens the wires of `roles`, and attaches `set` for the workers if that is possible.
pub(crate) fn open(parts: &Parts, plan: &TransportPlan, roles: Roles, set: Option<&FrameSet>) -> Result<OpenedRoles> {
    let node = only_device(&parts.topology)?;
    let lanes = lanes(parts, plan);
    let apart = |end: End| match end {
        End::Workers => lanes > 1,
        // Upward traffic returns as ACKs, if at all.
        End::DeviceUp => false,
        End::DeviceDown | End::Server => plan.queues > 1,
    };
    let placement = Placement::new(plan, &roles.threads(lanes as usize, plan.queues as usize))?;
    let ends = roles.ends(has_server(parts));
    let opened = plan.kind.open(plan, &ends, plan.wire_bytes(parts.frame_bytes))?;
    let used = |(end, ports): (&End, Ports)| if apart(*end) { ports.apart() } else { vec![ports.whole()] };
    let wires: Vec<Wires> = ends.iter().zip(opened).map(used).collect();
    let attached = match (set, &wires[..]) {
        (Some(set), [workers, ..]) if roles.workers => set.attach(plan, workers.len(), stride(&parts.facts))?,
        _ => None,
    };
    Ok(OpenedRoles { node, placement, wires, attached })
}

/// Returns the n of "every n-th worker" of this process. Values far above the number of workers are refused elsewhere.
fn stride(facts: &Facts) -> u32 {
    u32::try_from(facts.share.of()).unwrap_or(1)
}

/// Returns the number of queues for which the workers have a thread.
fn lanes(parts: &Parts, plan: &TransportPlan) -> u32 {
    if plan.queues > 1 && sends_apart(parts, plan) { plan.queues } else { 1 }
}

/// Returns the number of sending and receiving threads of `roles`.
pub fn threads(parts: &Parts, plan: &TransportPlan, roles: Roles) -> usize {
    roles.threads(lanes(parts, plan) as usize, plan.queues as usize).len()
}

/// Returns whether each queue of the workers may have a sending thread. Workers that react are one endpoint, some middleware supports one
/// wire only, and an interface may have fewer queues to send from: then one thread sends, on the first queue.
fn sends_apart(parts: &Parts, plan: &TransportPlan) -> bool {
    let mut of_one_wire = plan.middleware.declaring(|it| it.one_wire);
    !parts.declared.reacts && of_one_wire.next().is_none() && plan.sends_from_all()
}

/// Returns whether there is a server; without one the device has one cable.
fn has_server(parts: &Parts) -> bool {
    parts.topology.servers().next().is_some()
}

/// Runs the roles of this process until everything has arrived, `until`, `stop`, or an error of a role, which is
/// returned together with the results so far. Publishes live statistics to `watched`, if set.
pub(crate) fn run(
    parts: Parts,
    opened: OpenedRoles,
    order: &RunOrder,
    watched: Option<Ends>,
    dir: &mut RunDir,
) -> Result<(RealOutcome, Option<Error>)> {
    let OpenedRoles { node, placement, wires, attached } = opened;
    let mode = attached.as_ref().and_then(|all| Some(("attached.workers".to_owned(), all.first()?.port.mode())));
    // Threads started from here on, including those of the records, avoid the roles' cores.
    let _back = placement.step_aside()?;
    if order.roles.part().is_some() {
        // A whole run may be one of a sweep, whose next run opens wires again; a part needs no more than what files need.
        let keep = [order.plan.kind.keeps(), &thread::FOR_FILES].concat();
        thread::drop_privileges(&keep).map_err(no_rights_dropped)?;
    }
    let (mut roles, ledger) = RunRoles::new(parts, node, (wires, attached, placement.leaves(ROW_THREADS)), order, dir)?;
    if let Some(watched) = watched {
        roles.show(watched);
    }
    if let Some(steering) = order.steering {
        steering.begin(&roles.clock);
    }
    let shared = Shared::new(roles.clock.clone(), order, roles.pumps());
    // Threads started now drop theirs for good. This one takes them again, for the files of the end, which may be another user's, and the
    // next run of a sweep.
    let resting = thread::rest_privileges().map_err(no_rights_dropped)?;
    roles.run(&shared, &placement, order.progress)?;
    drop(resting);
    let mut facts = std::mem::take(&mut roles.modes);
    facts.extend(mode);
    facts.push(("cores".into(), placement.describe()));
    let mut outcome = RealOutcome::new(facts, &shared, ledger)?;
    outcome.notes.extend_from_slice(placement.notes());
    roles.count(&mut outcome)?;
    let failure = shared.failure();
    outcome.faults.extend(failure.as_ref().map(|failure| Fault::RoleFailed { why: failure.to_string() }));
    Ok((outcome, failure))
}

/// The senders of the workers.
enum Senders<'a> {
    /// Independent of arrivals: frames are made ahead of time.
    Open(Box<Feeder>, Vec<Pump>, WorkerRows<'a>),
    /// Arrivals may change what is sent.
    Closed(Box<WorkersRole<'a>>),
}

/// The roles of this process, ready to start.
struct RunRoles<'a> {
    clock: RunClock,
    /// Actual modes of the wires, for the manifest.
    modes: Vec<(String, String)>,
    /// Checksums of frames of a device outside this process.
    checksums: Arc<ChecksumTally>,
    workers: Option<Senders<'a>>,
    device: Option<(Box<DeviceRole<'a>>, Others)>,
    server: Option<(Box<ServerRole<'a>>, Others)>,
}

/// The receivers of a role's other queues, in addition to its thread.
#[derive(Default)]
struct Others {
    receivers: Vec<Receiver>,
    tally: Option<Tally>,
    /// Taken by the role's thread, with whose end the receivers end.
    over: Option<Over>,
}

impl Others {
    /// Combines a role's ports into one wire and its further receivers.
    fn of(mut ports: Wires, end: End, longest: usize) -> Result<(Box<dyn Wire>, Self)> {
        if ports.len() == 1 {
            return Ok((ports.remove(0), Others::default()));
        }
        // Longer foreign frames are passed on cut, and still too long to be taken for ours: pools have buffers in steps of 64 bytes.
        let (gathered, receivers) = gather(ports, end.name(), longest + 64)?;
        let others = Others { receivers, tally: Some(gathered.tally()), over: Some(gathered.over()) };
        Ok((Box::new(gathered), others))
    }

    /// Starts the receivers, each on the next core.
    fn start<'scope, 'env>(
        &'env mut self,
        scope: &'scope Scope<'scope, 'env>,
        threads: &mut Handles<'scope>,
        (shared, placement): (&'scope Shared, &'scope Placement),
        next: &mut dyn FnMut() -> usize,
    ) -> Result<()> {
        for receiver in &mut self.receivers {
            let core = next();
            start(scope, threads, "receiver", shared, move || {
                placement.settle(core)?;
                receiver.run(&shared.clock, shared.plan.wait, &shared.failed)
            })?;
        }
        Ok(())
    }
}

/// Makes the sending threads of an open loop, one per wire; they and the feeder follow `steering`. Frames of at most
/// `dated` bytes carry their generation times.
fn pumps(
    feeder: &mut Feeder,
    lanes: impl ExactSizeIterator<Item = (Box<dyn Wire>, Chunks)>,
    steering: Option<&Steering>,
    dated: Option<usize>,
    acks: &AckTally,
) -> Vec<Pump> {
    let mut followers = steering.map_or_else(Vec::new, |steering| steering.followers(lanes.len() + 1));
    // The last follower is the first to learn of a change.
    feeder.follow(followers.pop());
    let mut followers = followers.into_iter().map(|it| match dated {
        Some(frame_bytes) => it.dating(frame_bytes),
        None => it,
    });
    lanes.map(|(wire, chunks)| Pump::new(wire, chunks, followers.next(), acks.clone())).collect()
}

/// Starts the run's clock, or takes that of the file being read.
fn start_clock(order: &RunOrder, dir: &mut RunDir) -> Result<RunClock> {
    Ok(match (order.plan.kind.capabilities().own_time, order.begin) {
        (false, None) => dir.start_clock(LEAD),
        (false, Some(begin)) => dir.use_clock(begin()?),
        (true, _) => {
            let file = order.plan.file_clock.clone();
            let anchor = file.anchor_unix_ns();
            dir.use_clock(RunClock::of_file(file, anchor))
        }
    })
}

impl<'a> RunRoles<'a> {
    /// Makes the roles and the account, which is settled after they end, and starts the clock.
    fn new(
        parts: Parts,
        node: NodeId,
        (wires, attached, aside): (Vec<Wires>, Option<Vec<Attached>>, bool),
        order: &RunOrder,
        dir: &'a mut RunDir,
    ) -> Result<(Self, Ledger)> {
        let ends = order.roles.ends(has_server(&parts));
        let traffic = parts.traffic();
        let Parts { topology, mut devices, workers, declared, receiver, ledger, frame_bytes, changes, facts, .. } =
            parts;
        // Frames of an open loop are made before time begins, so that the first ones are not late.
        let paced = order.plan.pacing == Pacing::Deadlines;
        let (fed, reacting) = match (order.roles.workers, declared.reacts) {
            (true, false) => {
                let lanes = wires.first().map_or(1, Vec::len);
                let (queues, attached) = ((lanes, stride(&facts)), attached.is_some());
                let large_calls = order.plan.kind.capabilities().quantum_ns > 0;
                (Some(Feeder::new(workers, frame_bytes, order.until, paced, queues, attached, large_calls)?), None)
            }
            (true, true) => (None, Some(workers)),
            (false, _) => (None, None),
        };
        let clock = start_clock(order, dir)?;
        let (frame_max, outer, dialect) =
            (order.plan.wire_bytes(frame_bytes), order.plan.outer.clone(), order.plan.dialect);
        let site =
            Site { clock: clock.clone(), seed: facts.seed, frame_max, folder: dir.path(), traffic, outer, dialect };
        let checksums = Arc::new(ChecksumTally::default());
        let read_by = |wire| order.read_by(wire, &facts, &checksums);
        let wrap = |end, wire| middleware::wrap(&order.plan.middleware, end, &site, read_by(wire));
        let Wrapped { lanes, modes, mut wires } = Wrapped::new(&ends, wires, wrap, frame_max)?;
        let mut wire = || wires.next().ok_or_else(|| Error::Invalid("a wire is missing; please report this".into()));
        let sides = dir.sides()?;
        let workers = match (fed, reacting, lanes) {
            (Some((mut feeder, chunks)), _, lanes) => {
                let dated = (facts.protocol.format == FORMAT).then_some(frame_bytes);
                feeder.write_aside(aside);
                let acks = AckTally::of(&facts.workers);
                let mut pumps = pumps(&mut feeder, lanes.into_iter().zip(chunks), order.steering, dated, &acks);
                pumps.iter_mut().zip(attached.into_iter().flatten()).for_each(|(pump, own)| pump.attach(own));
                Some(Senders::Open(Box::new(feeder), pumps, sides.workers))
            }
            (_, Some(workers), mut lanes) if !lanes.is_empty() => {
                let wire = lanes.remove(0);
                let mut made = WorkersRole::new(workers, wire, frame_bytes, sides.workers, order.until, facts.clone())?;
                made.cap(order.steering.and_then(Steering::cap));
                Some(Senders::Closed(Box::new(made)))
            }
            _ => None,
        };
        let device = match (order.roles.device, devices[node as usize].take()) {
            (true, Some(device)) => {
                let (down, others) = wire()?;
                let up = if ends.contains(&End::DeviceUp) { wire()?.0 } else { Box::new(Nowhere) };
                let cables = Cables { down, up };
                let role = DeviceRole::new(device, &topology, node, &facts, cables, frame_bytes, changes, sides.device);
                Some((Box::new(role), others))
            }
            _ => None,
        };
        let server = match (order.roles.server, sides.server) {
            (true, Some(rows)) => {
                let (wire, others) = wire()?;
                Some((Box::new(ServerRole::new(receiver.server, facts, wire, frame_bytes, rows)), others))
            }
            _ => None,
        };
        Ok((RunRoles { clock, modes, checksums, workers, device, server }, ledger))
    }

    /// Connects senders and receivers to live statistics.
    fn show(&mut self, Ends { sent, feed, results, .. }: Ends) {
        let (server, workers) = if self.server.is_some() { (Some(feed), results) } else { (None, Some(feed)) };
        match &mut self.workers {
            Some(Senders::Open(feeder, pumps, _)) => {
                let lanes = sent.lanes(pumps.len());
                pumps.iter_mut().zip(lanes).for_each(|(pump, lane)| pump.show(Some(lane)));
                feeder.show(sent);
            }
            Some(Senders::Closed(endpoints)) => endpoints.show(sent, workers),
            None => {}
        }
        if let (Some((role, _)), Some(feed)) = (&mut self.server, server) {
            role.show(feed);
        }
    }

    /// Returns the number of sending threads of an open loop.
    fn pumps(&self) -> usize {
        match &self.workers {
            Some(Senders::Open(_, pumps, _)) => pumps.len(),
            _ => 0,
        }
    }

    /// Starts the threads, reports their progress, and waits for them.
    fn run(&mut self, shared: &Shared, placement: &Placement, progress: &(dyn Fn(Progress) + Sync)) -> Result<()> {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            // Cores are numbered by role, in the order in which they are listed.
            let mut roles = 0..;
            let mut next = || roles.next().unwrap_or_default();
            match &mut self.workers {
                Some(Senders::Open(feeder, pumps, rows)) => {
                    for pump in pumps {
                        let (core, over) = (next(), pump::Over::of(shared));
                        start(scope, &mut threads, "workers", shared, move || {
                            placement.settle(core)?;
                            pump.run(shared, over)
                        })?;
                    }
                    start(scope, &mut threads, "feeder", shared, move || feeder.run(shared, rows))?;
                }
                Some(Senders::Closed(workers)) => {
                    let core = next();
                    start(scope, &mut threads, "workers", shared, move || {
                        placement.settle(core)?;
                        workers.run(shared)
                    })?;
                }
                None => {}
            }
            if let Some((device, others)) = &mut self.device {
                let (core, over) = (next(), others.over.take());
                start(scope, &mut threads, "device", shared, move || {
                    let _over = over;
                    placement.settle(core)?;
                    device.run(shared)
                })?;
                others.start(scope, &mut threads, (shared, placement), &mut next)?;
            }
            if let Some((server, others)) = &mut self.server {
                let (core, over) = (next(), others.over.take());
                start(scope, &mut threads, "server", shared, move || {
                    let _over = over;
                    placement.settle(core)?;
                    server.run(shared)
                })?;
                others.start(scope, &mut threads, (shared, placement), &mut next)?;
            }
            let told = scope.spawn(|| tell(&ended, shared, progress));
            let result = join(threads);
            ended.store(true, Ordering::Relaxed);
            told.thread().unpark();
            told.join().map_err(stopped)?;
            progress(Progress { over: true, ..shared.progress() });
            result
        })
    }

    fn count(&mut self, outcome: &mut RealOutcome) -> Result<()> {
        match &mut self.workers {
            Some(Senders::Open(feeder, pumps, _)) => {
                feeder.count(outcome)?;
                pump::count(pumps, |queue| feeder.late_ns(queue), outcome);
            }
            Some(Senders::Closed(workers)) => workers.count(outcome),
            None => {}
        }
        let mut tallies = Vec::new();
        if let Some((device, others)) = &mut self.device {
            device.count(outcome);
            tallies.extend(others.tally.take());
        }
        if let Some((server, others)) = &mut self.server {
            server.count(outcome);
            tallies.extend(others.tally.take());
        }
        outcome.checksums(&self.checksums);
        outcome.queues.extend(tallies.iter().flat_map(Tally::queues));
        outcome.notes.extend(imbalance(&outcome.queues));
        Ok(())
    }
}

/// The wires of a process, with their middleware.
struct Wrapped {
    /// The workers' wires, one for each queue with a thread.
    lanes: Wires,
    /// Actual modes, for the manifest.
    modes: Vec<(String, String)>,
    /// The other wires, in order.
    wires: std::vec::IntoIter<(Box<dyn Wire>, Others)>,
}

impl Wrapped {
    fn new(
        ends: &[End],
        wires: Vec<Wires>,
        around: impl Fn(End, Box<dyn Wire>) -> Result<Box<dyn Wire>>,
        longest: usize,
    ) -> Result<Self> {
        let (mut lanes, mut modes, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (end, ports) in ends.iter().copied().zip(wires) {
            let name = format!("wire.{}", end.name());
            if end == End::Workers {
                lanes = ports.into_iter().map(|wire| around(end, wire)).collect::<Result<_>>()?;
                let mode = lanes.first().map_or(String::new(), |wire| wire.mode());
                let count = lanes.len();
                let apart =
                    if count > 1 { format!("; {count} queues that send, with a thread each") } else { String::new() };
                modes.push((name, mode + &apart));
                continue;
            }
            let (wire, beside) = Others::of(ports, end, longest)?;
            let wire = around(end, wire)?;
            modes.push((name, wire.mode()));
            others.push((wire, beside));
        }
        Ok(Wrapped { lanes, modes, wires: others.into_iter() })
    }
}

/// Ends the other threads of the run if this one panics.
struct Failing<'a>(&'a Shared<'a>, bool);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.failed.store(true, Ordering::Relaxed);
        }
    }
}

type Handles<'scope> = Vec<ScopedJoinHandle<'scope, ()>>;

/// Starts a thread of the run. If it fails, the others end after receiving what is under way.
fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    threads: &mut Handles<'scope>,
    name: &str,
    shared: &'scope Shared,
    role: impl FnOnce() -> Result<()> + Send + 'scope,
) -> Result<()> {
    let guarded = move || {
        let ready = thread::wake_on_time().map_err(|e| Error::Host(format!("this host does not wake on time: {e}")));
        let mut failing = Failing(shared, true);
        let result = ready.and_then(|()| drop_rights(shared.plan)).and_then(|()| role());
        failing.1 = false;
        result.unwrap_or_else(|error| shared.give_up(error));
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, guarded);
    let thread = thread.map_err(|e| {
        shared.failed.store(true, Ordering::Relaxed);
        Error::Host(format!("this host cannot start a thread: {e}"))
    })?;
    threads.push(thread);
    Ok(())
}

/// Reports the progress of the run every tenth of a second of its time until it has `ended`. Drawing and serving reports must
/// not take a core from a role.
fn tell(ended: &AtomicBool, shared: &Shared, progress: &(dyn Fn(Progress) + Sync)) {
    // If this is refused, it runs with normal priority; the roles fail if privileges cannot be dropped.
    let _ = (thread::give_way(), thread::drop_privileges(&[]));
    while !ended.load(Ordering::Relaxed) {
        let rest = TELL - shared.clock.now() % TELL;
        std::thread::park_timeout(Duration::from_nanos((rest / NS).max(1) as u64));
        progress(shared.progress());
    }
}

/// Waits for the threads.
fn join(threads: Handles) -> Result<()> {
    let results: Vec<_> = threads.into_iter().map(|thread| thread.join().map_err(stopped)).collect();
    results.into_iter().collect()
}

fn stopped(_: Box<dyn Any + Send>) -> Error {
    Error::Invalid("a thread of the run stopped unexpectedly; please report this".into())
}

/// Drops the privileges that were needed to open the wires.
fn drop_rights(plan: &TransportPlan) -> Result<()> {
    thread::drop_privileges(plan.kind.keeps()).map_err(no_rights_dropped)
}

fn no_rights_dropped(error: std::io::Error) -> Error {
    Error::Host(format!("this host does not let a thread give up its privileges: {error}"))
}

/// Returns the device, if there is only one: several on one machine would share two cables.
pub(crate) fn only_device(topology: &Topology) -> Result<NodeId> {
    topology.only_device().map_err(|_| {
        Error::config(
            "topology: in real time there is one device between workers and server; use kind = \"bottleneck\", or \"star\" without \
             standby, \"rack\" with engines = 1, or virtual time",
        )
    })
}
