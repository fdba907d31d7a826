//! A run in real time: driven, closed, settled, concluded.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pktgen_generator::record::{Manifest, NO_CLUSTER};
use pktgen_generator::time::NS;
use pktgen_generator::workload::Source;
use pktgen_generator::{Error, Result};

use super::conclude;
use crate::capture::lateness::{describe, write_lateness};
use crate::capture::{Records, RunDir, write_manifest};
use crate::driver::real_time;
use crate::driver::virtual_time::Outcome;
use crate::ledger::Ledger;
use crate::plan::{Parts, Plan};
use crate::settle::settle;

/// Refuses what real time cannot do, before anything is sent.
pub(super) fn check(plan: &Plan<Parts>) -> Result<()> {
    let kind = plan.transport.kind;
    let most = kind.capabilities().frame_max;
    if plan.engine.frame_bytes > most {
        return Err(Error::config(format!(
            "frames of up to {} bytes do not fit transport \"{}\", which carries {most}; lower workload.bytes, or set \
             endpoint.ack_model = \"none\"",
            plan.engine.frame_bytes,
            kind.name()
        )));
    }
    if plan.records != Records::Full {
        return Err(Error::config(
            "capture.records: in real time the balance is settled from the records; use \"full\"",
        ));
    }
    if plan.goal.is_some() {
        return Err(Error::config("capture.goal is for virtual time; use capture.until"));
    }
    if plan.workers.cluster_of.contains(&NO_CLUSTER) {
        return Err(Error::config(
            "workload: background traffic says nothing of itself on a real wire; it is for virtual time",
        ));
    }
    Ok(())
}

/// Runs `plan` and writes its run dir.
pub(super) fn run(
    plan: Plan<Parts>,
    mut source: Box<dyn Source>,
    manifest: &mut Manifest,
    mut dir: RunDir,
    stop: &AtomicBool,
    progress: &dyn Fn(u64),
) -> Result<()> {
    let (transport, until) = (plan.transport.clone(), plan.until);
    let (workers, elements) = (plan.workers.len(), plan.engine.elements);
    let mut outcome = real_time::run(plan.engine, &transport, until, stop, &mut dir, progress)?;
    manifest.anchor_unix_ns = dir.clock().anchor_unix_ns();
    let path = dir.close()?;
    let length = Duration::from_nanos((outcome.counters.end_ps / NS).max(0) as u64);
    write_lateness(&path, &outcome.lateness, length)?;
    let settled = settle(&path, source.as_mut(), Ledger::new(workers, elements, None))?;
    let (yes, no) = (settled.sums[0], settled.sums[1]);
    (outcome.counters.sums_ok, outcome.counters.sums_wrong) = (yes, no);
    if settled.unknown > 0 {
        outcome.faults.push(format!("{} updates were sent that the workload does not have", settled.unknown));
    }
    manifest.host.extend(outcome.facts);
    manifest.host.insert("lateness".into(), describe(&outcome.lateness));
    if outcome.skipped > 0 {
        manifest.validity.reasons.push(format!("note: {} frames were too late and were not sent", outcome.skipped));
    }
    conclude(
        manifest,
        Outcome {
            counters: outcome.counters,
            ledger: settled.ledger,
            interrupted: outcome.interrupted,
            cut: outcome.cut,
            beyond_horizon: false,
            goal_reached: false,
            source_failure: None,
            faults: outcome.faults,
            leaked: 0,
        },
    );
    let lost = manifest.balance.in_flight;
    if lost > 0 && !outcome.interrupted {
        manifest.validity.valid = false;
        manifest
            .validity
            .reasons
            .insert(0, format!("{lost} updates vanished between the roles; raise transport.linger?"));
    }
    write_manifest(&path, manifest)
}
