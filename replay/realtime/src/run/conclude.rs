//! The end of a run: closes its account, completes the manifest, and judges the run.

use std::path::Path;

use pktgen_core::record::{Balance, Facts, Fault, Manifest, NO_CLUSTER, Note, RunState, Unseen, judge};

use super::Finished;
use crate::driver::virtual_time::Outcome;
use crate::endpoint::rounds::RESULTS_OVERFLOWED;
use crate::ledger::total;

/// Counters of a run with an account of exact updates: those counted twice, and never.
pub(super) const EXACTNESS: [&str; 2] = ["counted_twice", "never_counted"];

impl Finished {
    /// Returns the run in `dir` with this manifest, without the traffic of a process.
    pub(super) fn of(dir: &Path, manifest: Manifest) -> Finished {
        Finished {
            dir: dir.to_owned(),
            updates: of_updates(&manifest),
            labels: manifest.labels,
            seed: manifest.seed,
            summary: None,
            balance: manifest.balance,
            unseen: manifest.unseen,
            validity: manifest.validity,
            state: manifest.state,
        }
    }
}

/// Returns the balance of the workers that have a cluster; of all, if none has one.
fn of_updates(manifest: &Manifest) -> Balance {
    let has_cluster = |worker: usize| manifest.clusters.get(worker) != Some(&NO_CLUSTER);
    let by_worker = manifest.balance_by_worker.iter().enumerate();
    let own: Vec<Balance> =
        by_worker.filter(|(worker, _)| has_cluster(*worker)).map(|(_, balance)| balance.clone()).collect();
    if own.is_empty() { manifest.balance.clone() } else { total(&own) }
}

/// Fills in what is known only at the end, and judges the run.
pub(super) fn conclude(manifest: &mut Manifest, outcome: Outcome) {
    let Outcome {
        counters,
        mut ledger,
        interrupted,
        cut,
        source_failure,
        beyond_horizon,
        mut faults,
        note,
        leaked,
        ..
    } = outcome;
    let by_worker = ledger.close();
    manifest.balance = total(&by_worker);
    manifest.balance_by_worker = by_worker;
    manifest.strangers = ledger.strangers();
    // The counts at the ends of cables are not known to the ledger.
    let Unseen { load, acks, .. } = manifest.unseen.take().unwrap_or_default();
    manifest.unseen = ledger.unseen().map(|own| Unseen { load, acks, ..own });
    manifest.counters = counters;
    // Of the results of a server its workers know, of those of a device its account.
    manifest.counters.scaling_error_ppb = manifest.counters.scaling_error_ppb.or(ledger.scaling_error_ppb());
    if let Some(exact) = ledger.exactness() {
        let counts = EXACTNESS.into_iter().zip([exact.twice, exact.never]);
        manifest.counters.device.extend(counts.map(|(name, n)| (name.to_owned(), n)));
    }
    let own = &mut manifest.incidents;
    if beyond_horizon {
        own.faults.push(Fault::BeyondHorizon {});
    }
    if leaked > 0 {
        own.faults.push(Fault::Leaked { frames: leaked as u64 });
    }
    own.faults.append(&mut faults);
    own.notes.extend(note);
    own.faults.extend(source_failure.map(|why| Fault::WorkersStopped { why }));
    // Sums of a device, or results of a server that added the rest.
    let at_workers = manifest.counters.device.get(RESULTS_OVERFLOWED).copied().unwrap_or(0);
    let packets = ledger.overflowed().max(at_workers);
    if packets > 0 {
        own.notes.push(Note::Overflowed { packets });
    }
    if cut {
        own.notes.insert(0, Note::CutOff { in_flight: manifest.balance.in_flight });
    }
    manifest.state = if interrupted { RunState::Interrupted } else { RunState::Finished };
    manifest.validity = judge(&Facts::of(manifest));
}
