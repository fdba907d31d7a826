//! A run whose device is started by a command: before its wires are opened; watched while frames move; ended after them.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use pktgen_core::config::Run;
use pktgen_core::record::{Fault, LOCKSTEP_COUNTER, Note};
use pktgen_core::time::{NS, Time};
use pktgen_core::{Error, Result};

use super::conclude::EXACTNESS;
use super::{Experiment, Task, simulated};
use crate::driver::real_time::{Progress, RealOutcome, RunOrder, drop_privileges};
use crate::launch::{LaunchedDevice, probe_before};
use crate::live::{DeviceCounts, DeviceSlot};
use crate::plan::Plan;
use crate::target::remote::Remote;

impl Experiment {
    /// Permits the experiment to run the commands of `[target.launch]`.
    pub fn launching(self, may: bool) -> Self {
        Experiment { may_launch: may, ..self }
    }

    /// Sets whether hardware is probed before every run.
    pub fn probing(self, probes: bool) -> Self {
        Experiment { probes, ..self }
    }

    /// Probes the hardware of a run in real time if this process has all its ends. Returns the evidence of its presence.
    pub(super) fn probe(&self, plan: &Plan, task: &Task) -> Result<Option<String>> {
        let whole = task.meeting.is_none() && task.roles.part().is_none();
        match self.probes && whole && plan.spec.is_real_time() && plan.spec.launch.is_none() {
            true => probe_before(&plan.spec, plan.parts.frame_bytes),
            false => Ok(None),
        }
    }

    /// Refuses commands that are not permitted.
    pub(super) fn check_launch(&self, plan: &Plan) -> Result<()> {
        match &plan.spec.launch {
            Some(launch) if plan.spec.is_real_time() && !self.may_launch => Err(Error::config(format!(
                "target.launch.command: the experiment runs a command, {:?}; check it, and allow it by --allow-launch",
                launch.command
            ))),
            _ => Ok(()),
        }
    }

    /// Starts the device of a plan in real time, if it is a command, and waits until it is ready.
    pub fn start_device(&self, plan: &Plan) -> Result<Option<LaunchedDevice>> {
        if plan.spec.launch.is_none() || !plan.spec.is_real_time() {
            return Ok(None);
        }
        self.check_launch(plan)?;
        LaunchedDevice::start(&plan.spec, plan.parts.frame_bytes)
    }

    /// Starts the device of a plan in virtual time, or waits for it, if it is another process.
    pub fn couple_device(&self, plan: &Plan, seed: u64) -> Result<Option<Box<dyn Remote>>> {
        Ok(simulated::open(plan, seed, self.may_launch)?.map(|coupling| coupling.remote))
    }
}

/// The result of `pktgen target check`.
#[derive(Debug, Clone, serde::Serialize)]
pub struct DeviceCheck {
    /// The device's command.
    pub command: Vec<String>,
    /// Facts about its environment, and the evidence that it is ready.
    pub facts: BTreeMap<String, String>,
    /// Its counters when it became ready.
    pub counters: BTreeMap<String, u64>,
    /// What was wrong with its end, if anything.
    pub stop: Option<String>,
}

impl Experiment {
    /// Returns whether a run starts its device.
    pub fn launches(&self, run: &Run) -> Result<bool> {
        let spec = self.prepare(run)?.spec;
        Ok(spec.launch.is_some() || spec.transport.lockstep.is_some_and(|own| own.is_started()))
    }

    /// Probes the hardware of a run if this process has all its ends and the experiment does not start it.
    pub fn probe_device(&self, run: &Run) -> Result<Option<String>> {
        let plan = self.prepare(run)?;
        if !plan.spec.is_real_time() || plan.spec.launch.is_some() {
            return Ok(None);
        }
        probe_before(&plan.spec, plan.parts.frame_bytes)
    }

    /// Starts the device of a run, waits until it is ready, and ends it; or probes the existing one.
    pub fn check_device(&self, run: &Run) -> Result<DeviceCheck> {
        let plan = self.prepare(run)?;
        if let Some(lockstep) = &plan.spec.transport.lockstep {
            return self.check_coupled(run, lockstep.words().to_vec());
        }
        let Some(launch) = &plan.spec.launch else {
            let found = self.probe_device(run)?.ok_or_else(|| {
                Error::config(
                    "target.kind: there is no device to probe: the experiment starts none ([target.launch]), and has none by \
                     target.kind = \"external\", target.probe and transport.interfaces (docs/launch.md)",
                )
            })?;
            let facts = BTreeMap::from([("device.probe".to_owned(), found)]);
            return Ok(DeviceCheck { command: Vec::new(), facts, counters: BTreeMap::new(), stop: None });
        };
        let command = launch.command.clone();
        let device = self.start_device(&plan)?;
        let facts = device.as_ref().map(LaunchedDevice::facts).unwrap_or_default();
        let counters = device.as_ref().map(|device| device.counted().clone()).unwrap_or_default();
        let stop = device.map_or(Ok(None), LaunchedDevice::stop)?;
        Ok(DeviceCheck { command, facts, counters, stop })
    }

    /// Checks a device in lockstep: it connects, greets, counts and ends.
    fn check_coupled(&self, run: &Run, command: Vec<String>) -> Result<DeviceCheck> {
        let broken = |why: Error| match why {
            Error::Config(_) => why,
            why => Error::Invalid(why.to_string()),
        };
        let plan = self.plan(run)?;
        let mut remote = self.couple_device(&plan, run.seed).map_err(broken)?;
        let counted = remote.as_mut().map_or(Ok(Vec::new()), |remote| remote.end()).map_err(broken)?;
        let facts = BTreeMap::from([("device.lockstep".to_owned(), "it connected, greeted and ended".to_owned())]);
        Ok(DeviceCheck { command, facts, counters: counted.into_iter().collect(), stop: None })
    }
}

/// Calls `work` with an order that also ends when the device does. Publishes the device's counters to `counts`, if set, at its interval.
pub(super) fn attend<R>(
    device: Option<&LaunchedDevice>,
    order: &RunOrder,
    counts: Option<(DeviceSlot, Time)>,
    work: impl FnOnce(&RunOrder) -> R,
) -> R {
    let Some(device) = device else { return work(order) };
    let stop = AtomicBool::new(order.stop.load(Ordering::Relaxed));
    let latest = AtomicI64::new(0);
    let progress = |progress: Progress| {
        if order.stop.load(Ordering::Relaxed) || device.is_dead() {
            stop.store(true, Ordering::Relaxed);
        }
        latest.store(progress.t, Ordering::Relaxed);
        (order.progress)(progress);
    };
    let order = RunOrder { stop: &stop, progress: &progress, ..*order };
    let Some((slot, every)) = counts.filter(|_| device.counts()) else { return work(&order) };
    publish(
        &slot,
        Some(DeviceCounts { t: 0, counts: device.counted().keys().map(|name| (name.clone(), 0)).collect() }),
    );
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let _ = drop_privileges(&[]);
            loop {
                std::thread::park_timeout(Duration::from_nanos((every / NS) as u64));
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let t = latest.load(Ordering::Relaxed);
                publish(&slot, device.grown().map(|counts| DeviceCounts { t, counts }));
            }
        });
        let result = work(&order);
        ended.store(true, Ordering::Relaxed);
        asker.thread().unpark();
        result
    })
}

fn publish(slot: &DeviceSlot, counts: Option<DeviceCounts>) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = counts;
}

/// Takes the counters of a run's device, and ends it. An earlier end of the device is a fault of the run, not an interruption by the user.
pub(super) fn dismiss(device: Option<LaunchedDevice>, outcome: &mut RealOutcome) {
    let Some(device) = device else { return };
    if let Some(why) = device.death() {
        outcome.interrupted = false;
        outcome.faults.push(Fault::DeviceEnded { why });
        return;
    }
    let (counted, wrong) = device.counted_since();
    add(&mut outcome.counters.device, counted);
    outcome.notes.extend(wrong.map(|why| Note::DeviceCounters { why }));
    let wrong = device.stop().unwrap_or_else(|error| Some(error.to_string()));
    outcome.notes.extend(wrong.map(|why| Note::DeviceStop { why }));
}

/// Adds counters of the device to `own` ones of the run; a name that the run has, or gives later, counts there for itself. Every counter
/// keeps its value, with as many prefixes as it takes.
fn add(own: &mut BTreeMap<String, u64>, counted: BTreeMap<String, u64>) {
    for (mut name, n) in counted {
        while own.contains_key(&name) || EXACTNESS.contains(&name.as_str()) {
            name.insert_str(0, LOCKSTEP_COUNTER);
        }
        own.insert(name, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_device_do_not_replace_those_of_the_run() {
        let of = |all: &[(&str, u64)]| all.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<BTreeMap<_, _>>();
        let mut own = of(&[("server.packets", 36)]);
        add(&mut own, of(&[("server.packets", 8), ("received", 5), ("never_counted", 7)]));
        let all = [("device.server.packets", 8), ("device.never_counted", 7), ("received", 5), ("server.packets", 36)];
        assert_eq!(own, of(&all));
        let mut own = of(&[("server.packets", 36)]);
        add(&mut own, of(&[("device.never_counted", 3), ("never_counted", 7)]));
        let all = [("device.device.never_counted", 7), ("device.never_counted", 3), ("server.packets", 36)];
        assert_eq!(own, of(&all));
    }
}
