//! A run in virtual time: simulated and concluded; settled from its records if a device in another process kept no books.

use pktgen_core::Result;
use pktgen_core::record::{Fault, Manifest, Unseen};
use pktgen_core::seed::drawn;
use pktgen_core::time::HORIZON;
use pktgen_workload::workload::Source;

use super::Task;
use super::conclude::conclude;
use super::declared::Declared;
use super::large_pages::use_large_pages;
use super::real::settle_outcome;
use crate::capture::{Records, RunDir, write_manifest};
use crate::driver::real_time::Progress;
use crate::driver::virtual_time::Simulation;
use crate::lockstep::Coupling;
use crate::plan::Plan;

/// A worker's backlog is recorded when it is made, with its later departures: all sent rows are settled before received ones.
const SLACK: i64 = HORIZON / 2;

/// Starts the device of `plan`, if it is a process and its start is allowed.
pub(super) fn open(plan: &Plan, seed: u64, launches: bool) -> Result<Option<Coupling>> {
    let Some(lockstep) = &plan.spec.transport.lockstep else { return Ok(None) };
    lockstep.check_allowed(launches)?;
    lockstep.open(plan, seed).map(Some)
}

/// Runs `plan` and writes its run dir. `before` is the number of random numbers drawn before planning.
pub(super) fn run(
    plan: Plan,
    coupling: Option<Coupling>,
    source: &dyn Fn() -> Result<Box<dyn Source>>,
    manifest: &mut Manifest,
    mut recorder: RunDir,
    task: &Task,
    before: u64,
) -> Result<()> {
    let (until, records) = (plan.spec.capture.until, plan.spec.capture.records);
    let declared = Declared::of(&plan, task);
    let (remote, acks) = coupling.map(|own| ((own.node, own.remote), own.acks)).unzip();
    let nodes = plan.parts.topology.nodes.len();
    let simulation = Simulation::beside(plan.parts, remote);
    use_large_pages(nodes);
    let mut told = |sent| (task.progress)(Progress { sent, ..Progress::default() });
    let mut outcome = simulation.run(until, task.stop, &mut recorder, &mut told)?;
    manifest.uses_chance = drawn() != before;
    let Some(acks) = acks else {
        conclude(manifest, outcome);
        return recorder.finish(manifest);
    };
    let (sent, ends) = acks.ends();
    manifest.unseen = declared.map(|declared| Unseen { acks: declared.acks(sent, &ends), ..Unseen::default() });
    let (path, files) = recorder.close()?;
    manifest.files = files;
    if records == Records::Full {
        settle_outcome(manifest, &path, source, outcome, SLACK)?;
    } else {
        outcome.faults.push(Fault::NotSettled { records: records.to_string() });
        conclude(manifest, outcome);
    }
    write_manifest(&path, manifest)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use pktgen_core::config::Document;
    use serde_json::{Value, json};

    use crate::run::Experiment;
    use crate::steer::Steering;

    const SMALL: &str = "workload.updates = 3\nworkload.bytes = \"256B\"\nschedule.offered = \"1Gbps\"\n\
        target.queue = \"fifo\"\n";

    /// `pktgen control` finds it by the run folder, to end the sweep.
    #[test]
    fn a_run_names_the_control_socket_of_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let host = |name: &str, socket: Option<PathBuf>| {
            let steering = Steering::new(stop.clone(), Arc::default(), false, socket, Box::new(|_, _| {}));
            let document = Document::parse(SMALL, "x.toml").unwrap();
            let experiment = Experiment::open(pktgen_registry::all(), document).unwrap().steered_by(Arc::new(steering));
            let out = folder.path().join(name);
            experiment.execute(&out, 1, &stop, &|_, _| {}).unwrap();
            let manifest: Value = serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap();
            manifest["host"].clone()
        };
        assert_eq!(host("without", None), json!({}));
        assert_eq!(host("with", Some("c.sock".into())), json!({ "control.socket": "c.sock" }));
    }
}
