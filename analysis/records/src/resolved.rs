//! A run, opened: fates and ages resolved once, ready for metrics, and whether its numbers may be used.
//!
//! Metrics read [`Analysis`]; [`crate::analyze`] asks them.

use std::path::Path;

use pktgen_core::Result;
use pktgen_core::record::{Balance, Facts, Family, Fault, Manifest, Validity, Verified, judge};
use pktgen_workload::study::Study;

use crate::age::{AgeOf, Ages};
use crate::fates::{self, Fates, is_update};
use crate::goal::Goal;
use crate::provenance::Provenance;
use crate::rounds::Rounds;
use crate::run::{Records, RunData, StampColumns, StateColumns};

/// Choices of an analysis.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Which member's generation time an aggregate carries.
    pub age_of: AgeOf,
    /// Read files whatever their digests say.
    pub no_verify: bool,
    /// Studies beside those of the stages: reports know their metrics.
    pub studies: &'static [&'static dyn Study],
}

/// What the streams of a run say, resolved.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The streams.
    pub records: Records,
    /// What became of every packet.
    pub fates: Fates,
    /// Ages of all clusters and workers; none in synchronous training, whose results carry no generation time.
    pub ages: Option<Ages>,
    /// Whether a time at the server may be compared with one at a worker.
    pub one_clock: bool,
    /// What the account is of.
    pub family: Family,
}

/// A run, ready for metrics.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The manifest.
    pub manifest: Manifest,
    /// The resolved streams; none unless every transmission was recorded.
    pub resolved: Option<Resolved>,
    /// How far it came; none unless it had a goal.
    pub goal: Option<Goal>,
    /// What workers under transmission control knew and did; none unless the run asked for it.
    pub states: Option<StateColumns>,
    /// Iterations and results; none unless it is synchronous training.
    pub rounds: Option<Rounds>,
    /// What the lanes of packets say; none unless updates carried any.
    pub provenance: Option<Provenance>,
    /// What the kernel or a card stamped; none unless the run asked for it.
    pub stamps: Option<StampColumns>,
    /// Whether its files were compared with their digests.
    pub verified: Verified,
}

/// Are what was sent and what was received in the same time? Those who joined the parts of a run say if not.
fn has_one_clock(manifest: &Manifest) -> bool {
    let domain = |column: &str| manifest.clocks.get(column);
    let received = domain("received.t_recv_ps");
    received.is_none() || received == domain("sent.t_sent_ps")
}

impl Analysis {
    /// Resolves `run`.
    pub fn new(run: RunData, options: Options) -> Result<Analysis> {
        let resolve = |records: Records| -> Result<Resolved> {
            let family = run.manifest.family();
            let fates = match &run.manifest.external {
                Some(_) => Fates::resolve_unseen(&records, &run.manifest, family),
                None => Fates::resolve_as(&records, family),
            };
            let one_clock = has_one_clock(&run.manifest);
            let aged = run.rounds.is_none() && one_clock;
            let ages = aged.then(|| Ages::compute(&records, &fates, options.age_of)).transpose()?;
            Ok(Resolved { records, fates, ages, one_clock, family })
        };
        // Lanes are read without the names that packets have, or get by what they hold.
        let provenance = match (&run.manifest.lanes, &run.lanes, &run.records) {
            (Some(layout), Some(lanes), Some(records)) => {
                Some(Provenance::resolve(&run.manifest, layout, records, lanes)?)
            }
            _ => None,
        };
        let named = run.records.map(|mut records| {
            run.names.into_iter().for_each(|names| records.name(names));
            records
        });
        let resolved = named.map(resolve).transpose()?;
        let goal = Goal::find(&run.manifest, resolved.as_ref());
        let RunData { manifest, states, rounds, stamps, verified, .. } = run;
        Ok(Analysis { manifest, resolved, goal, states, rounds, provenance, stamps, verified })
    }

    /// Opens and resolves the run in `dir`.
    pub fn open(dir: &Path, options: Options) -> Result<Analysis> {
        Analysis::new(RunData::open_with(dir, options.no_verify)?, options)
    }

    /// Whether its numbers may be used. What the run says about itself, and what was found in its records: those must
    /// close, and say what its counters say.
    pub fn validity(&self) -> Validity {
        let mut facts = Facts::of(&self.manifest);
        let unknown = self.unknown();
        let disagree = (unknown > 0.0).then_some(Fault::RecordsDisagree { updates: unknown as u64 });
        let goal = self.goal.as_ref().and_then(|goal| goal.conflict.clone());
        let goal = goal.map(|why| Fault::GoalDisagrees { why });
        facts.incidents.faults.extend(disagree.into_iter().chain(goal).chain(self.conflict_of_results()));
        facts.incidents.notes.extend(self.verified.note());
        judge(&facts)
    }

    /// Whether pairs are summed by key. The parts of such a sum do not say how many updates they represent.
    pub fn has_sums_by_key(&self) -> bool {
        self.manifest.family() == Family::Pairs
    }

    /// What records and counters disagree about results; none if they agree, or if only one of them has a value.
    fn conflict_of_results(&self) -> Option<Fault> {
        let recorded = self.rounds.as_ref()?.results.as_ref()?.t_recv_ps.len() as u64;
        let counted = self.manifest.counters.replies;
        if self.resolved.is_none() || self.was_killed() || recorded == counted {
            return None;
        }
        Some(Fault::ResultsDisagree { rows: recorded, replies: counted })
    }

    /// A killed run has records and no counters to compare them with.
    fn was_killed(&self) -> bool {
        self.manifest.balance_by_worker.is_empty() && self.manifest.balance == Balance::default()
    }

    /// Updates that cannot be accounted for: in the records, and between them and the counters of the run.
    pub fn unknown(&self) -> f64 {
        let theirs = &self.manifest.balance;
        let ours = match &self.resolved {
            Some(resolved) => resolved.fates.balance(),
            None => {
                let mut all = self.balance_where(is_update);
                fates::add(&mut all, &self.balance_where(|cluster| !is_update(cluster)));
                all
            }
        };
        // Without records the workers' balances repeat what the total says about itself.
        let own = if self.resolved.is_some() { ours.unknown.unsigned_abs() as f64 } else { 0.0 };
        if self.resolved.is_some() && self.was_killed() {
            return own;
        }
        let total = own + theirs.unknown.unsigned_abs() as f64 + fates::difference(&ours, theirs) as f64;
        if total > 0.0 { total } else { self.unknown_by_worker() as f64 }
    }

    /// Updates about which the records and the manifest's balances of workers disagree.
    fn unknown_by_worker(&self) -> u64 {
        let Some(resolved) = &self.resolved else { return 0 };
        let theirs = &self.manifest.balance_by_worker;
        let (ours, others) = resolved.fates.balances(&resolved.records.sent.worker, theirs.len());
        others + ours.iter().zip(theirs).map(|(ours, theirs)| fates::difference(ours, theirs)).sum::<u64>()
    }

    /// The balance of updates, without background traffic: from the records where there are any, else from
    /// the manifest.
    pub fn balance(&self) -> Balance {
        self.balance_where(is_update)
    }

    /// The balance of the traffic of the clusters that `wanted` chooses.
    pub(crate) fn balance_where(&self, wanted: fn(u16) -> bool) -> Balance {
        match &self.resolved {
            Some(resolved) => resolved.fates.balance_of(|packet| wanted(resolved.records.sent.cluster[packet])),
            None => counted(&self.manifest, wanted),
        }
    }

    /// The balance of the workers that `wanted` chooses; none if the run was killed and kept no records.
    pub fn balance_of_workers(&self, wanted: &dyn Fn(u32) -> bool) -> Option<Balance> {
        if let Some(resolved) = &self.resolved {
            return Some(resolved.fates.balance_of(|packet| wanted(resolved.records.sent.worker[packet])));
        }
        let mut sum = Balance::default();
        let chosen = self.manifest.balance_by_worker.iter().zip(0u32..).filter(|(_, worker)| wanted(*worker));
        chosen.for_each(|(balance, _)| fates::add(&mut sum, balance));
        (!self.manifest.balance_by_worker.is_empty()).then_some(sum)
    }
}

/// The workers' balances in the manifest, summed over the clusters that `wanted` chooses. A manifest without
/// them (the run was killed) has the total only, which then stands for the updates.
fn counted(manifest: &Manifest, wanted: fn(u16) -> bool) -> Balance {
    if manifest.balance_by_worker.is_empty() {
        return if wanted(0) { manifest.balance.clone() } else { Balance::default() };
    }
    let mut sum = Balance::default();
    for (worker, balance) in manifest.balance_by_worker.iter().enumerate() {
        // A worker without a cluster in the manifest is taken for one that sends updates.
        if wanted(manifest.clusters.get(worker).copied().unwrap_or(0)) {
            fates::add(&mut sum, balance);
        }
    }
    sum
}
