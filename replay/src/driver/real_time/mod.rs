//! Real time: workers, device and server as threads on wires, with the programs, queues, endpoints and records of
//! virtual time.
//!
//! Every thread reads the one clock of the run, hands what arrived to its state machine with the time, and sends what
//! comes out when it is due. Fates and sums are settled afterwards, from the records ([`crate::settle`]).

mod device;
mod frames;
mod server;
mod workers;

use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use pktgen_generator::record::Counters;
use pktgen_generator::time::Time;
use pktgen_generator::topology::{NodeId, Role, Topology};
use pktgen_generator::{Error, Result};

use crate::capture::RunDir;
use crate::clock::RunClock;
use crate::plan::Parts;
use crate::transport::{End, TransportPlan, Wait, Wire, WireCounters};

/// How a run in real time ended.
pub struct RealOutcome {
    /// Totals.
    pub counters: Counters,
    /// How late frames left, in ns.
    pub lateness: Histogram<u64>,
    /// Frames that were too late and were not sent.
    pub skipped: u64,
    /// Reasons against the run's numbers.
    pub faults: Vec<String>,
    /// Facts for the manifest.
    pub facts: Vec<(String, String)>,
    /// The user stopped it.
    pub interrupted: bool,
    /// The configured end came first.
    pub cut: bool,
}

/// What all threads share.
struct Shared<'a> {
    clock: RunClock,
    plan: &'a TransportPlan,
    /// The user wants an end.
    stop: &'a AtomicBool,
    /// The workers have sent everything.
    sent_all: AtomicBool,
    /// A thread failed: all end.
    failed: AtomicBool,
}

/// Threads of a run.
pub(crate) const THREADS: usize = 3;

impl Shared<'_> {
    /// Nothing is due before `next`.
    fn idle(&self, wire: &mut dyn Wire, next: Time) -> Result<()> {
        match self.plan.wait {
            Wait::Spin => std::hint::spin_loop(),
            Wait::Block => {
                // A sleep may last 50 us longer than asked for: the rest is spun.
                let gap_ns = (next - self.clock.now()).clamp(0, 1_000_000_000) / 1000;
                if gap_ns > 60_000 {
                    wire.wait((gap_ns as u64 - 50_000).min(1_000_000))?;
                } else {
                    std::hint::spin_loop();
                }
            }
        }
        Ok(())
    }

    /// Has a role nothing more to expect, `quiet_since` being when it last had something to do?
    fn over(&self, quiet_since: Time) -> bool {
        self.failed.load(Ordering::Relaxed)
            || self.sent_all.load(Ordering::Acquire) && self.clock.now() - quiet_since > self.plan.linger
    }
}

/// Runs workers, one device and a server in this process until everything has arrived, `until`, or `stop`.
pub fn run(
    parts: Parts,
    plan: &TransportPlan,
    until: Time,
    stop: &AtomicBool,
    dir: &mut RunDir,
    progress: &dyn Fn(u64),
) -> Result<RealOutcome> {
    let node = only_device(&parts.topology)?;
    check_cores(plan)?;
    let ends = plan.kind.open(plan, &End::ALL, parts.frame_bytes)?;
    let Ok([workers_wire, down, up, server_wire]) = <[_; 4]>::try_from(ends) else {
        unreachable!("four were asked for")
    };
    let modes = [("wire.workers", workers_wire.mode()), ("wire.server", server_wire.mode())];
    let Parts { topology, mut devices, senders, receiver, frame_bytes, changes, facts, .. } = parts;
    let Some(device) = devices[usize::from(node)].take() else { unreachable!("devices are built") };
    let shared = Shared {
        clock: dir.start_clock(),
        plan,
        stop,
        sent_all: AtomicBool::new(false),
        failed: AtomicBool::new(false),
    };
    let sides = dir.sides();
    let mut worker_role = workers::Workers::new(senders, workers_wire, frame_bytes, sides.workers, until)?;
    let mut device_role =
        device::DeviceRole::new(device, &topology, node, &facts, down, up, frame_bytes, changes, sides.device);
    let mut server_role = server::ServerRole::new(receiver, &facts, server_wire, frame_bytes, sides.server);
    std::thread::scope(|scope| -> Result<()> {
        let device = scope.spawn(|| guarded(&shared, || device_role.run(&shared, &facts)));
        let server = scope.spawn(|| guarded(&shared, || server_role.run(&shared)));
        let workers = guarded(&shared, || worker_role.run(&shared, &facts, progress));
        let gone = || Error::Invalid("a thread of the run stopped unexpectedly; please report this".into());
        let others = [device, server].map(|thread| thread.join().unwrap_or_else(|_| Err(gone())));
        workers.and(others.into_iter().collect())
    })?;
    let mut outcome = RealOutcome {
        counters: Counters::default(),
        lateness: worker_role.lateness.clone(),
        skipped: worker_role.skipped,
        faults: worker_role.faults.clone(),
        facts: modes.map(|(key, mode)| (key.to_owned(), mode)).into(),
        interrupted: stop.load(Ordering::Relaxed),
        cut: worker_role.cut,
    };
    worker_role.count(&mut outcome);
    device_role.count(&mut outcome);
    server_role.count(&mut outcome);
    outcome.counters.end_ps = shared.clock.now();
    Ok(outcome)
}

/// Runs a role; if it fails, the others end too.
fn guarded(shared: &Shared, role: impl FnOnce() -> Result<()>) -> Result<()> {
    let result = role();
    if result.is_err() {
        shared.failed.store(true, Ordering::Relaxed);
    }
    result
}

/// The device, if there is one only: more of them on one machine would share two cables.
pub(crate) fn only_device(topology: &Topology) -> Result<NodeId> {
    let mut devices = topology.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Device);
    match (devices.next(), devices.next()) {
        (Some((id, _)), None) => Ok(id as NodeId),
        _ => Err(Error::config(
            "topology: in real time there is one device between workers and server; use kind = \"bottleneck\", or virtual time",
        )),
    }
}

/// Spinning threads need a core each.
fn check_cores(plan: &TransportPlan) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if plan.wait == Wait::Spin && THREADS > cores {
        return Err(Error::Host(format!(
            "transport.wait = \"spin\" needs a core for each of {THREADS} threads, and there are {cores}; use wait = \"block\""
        )));
    }
    Ok(())
}

/// What a wire lost.
fn lost(name: &str, counters: WireCounters, outcome: &mut RealOutcome) {
    outcome.facts.push((
        format!("frames.{name}"),
        format!(
            "sent {}, received {}, dropped on the way out {}, dropped before they were read {}",
            counters.sent, counters.received, counters.send_dropped, counters.receive_dropped
        ),
    ));
    if counters.receive_dropped + counters.send_dropped > 0 {
        outcome.faults.push(format!(
            "{name} lost frames outside the device: {} on the way out, {} before they were read",
            counters.send_dropped, counters.receive_dropped
        ));
    }
}
