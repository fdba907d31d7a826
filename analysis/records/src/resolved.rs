//! A run, opened: fates and ages resolved once, ready for metrics, and whether its numbers may be used.
//!
//! Metrics read [`Analysis`]; [`crate::analyze`] asks them.

use std::path::Path;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::record::{Balance, Facts, Family, Fault, Manifest, Validity, Verified, judge};
use pktgen_workload::study::Study;

use crate::age::{AgeOf, Ages};
use crate::arrivals::ServerTally;
use crate::column::NumberList;
use crate::fates::{self, Tallies, is_update};
use crate::firsts::Firsts;
use crate::goal::Goal;
use crate::learning::Learned;
use crate::memory::MemoryBound;
use crate::pass::{Found, Pass};
use crate::provenance::Provenance;
use crate::rounds::Rounds;
use crate::run::{RunData, StampColumns, StateColumns};
use crate::stream::Streams;
use crate::user::{UserLines, UserMetrics};

/// Choices of an analysis.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Which member's generation time an aggregate carries.
    pub age_of: AgeOf,
    /// Read files whatever their digests say.
    pub no_verify: bool,
    /// How much memory it may take.
    pub memory: MemoryBound,
    /// Studies beside those of the stages: reports know their metrics.
    pub studies: &'static [&'static dyn Study],
    /// What answers metrics of an experiment's own; without it they have no values.
    pub user_metrics: UserAnswers,
}

/// Whether and by what metrics of an experiment's own are answered.
#[derive(Debug, Clone, Copy, Default)]
pub enum UserAnswers {
    /// They are left out.
    #[default]
    LeftOut,
    /// This build cannot.
    NotBuilt,
    /// By this.
    By(&'static dyn UserMetrics),
}

/// What the streams of a run say, resolved.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The streams, for what is asked of rows.
    pub streams: Streams,
    found: Found,
    /// Whether a time at the server may be compared with one at a worker.
    pub one_clock: bool,
    /// What the account is of.
    pub family: Family,
}

impl Resolved {
    /// Ages of all clusters and workers; none in synchronous training, whose results carry no generation time.
    pub fn ages(&self) -> Option<&Ages> {
        self.found.ages.as_ref()
    }

    /// Time in devices, from arrival to departure, of every packet and device that it passed, in ps.
    pub fn device_ps(&self) -> &NumberList {
        &self.found.device_ps
    }

    /// From a worker to the server, in ps, of every received packet whose departure is known; none without a common clock.
    pub fn host_ps(&self) -> &NumberList {
        &self.found.host_ps
    }

    /// What arrived at the server.
    pub fn arrivals(&self) -> &ServerTally {
        &self.found.arrivals
    }

    /// Deliveries of a packet that had been delivered before.
    pub fn duplicates(&self) -> u64 {
        self.found.duplicates
    }

    /// Packets whose members are not those that their lanes say.
    pub(crate) fn lanes_wrong(&self) -> u64 {
        self.found.lanes_wrong
    }

    pub(crate) fn learned(&self) -> Option<&Learned> {
        self.found.learned.as_ref()
    }

    /// Of a run to a goal: what was represented first, and who sent.
    pub(crate) fn firsts(&self) -> Option<(&Firsts, &Tallies)> {
        Some((self.found.firsts.as_ref()?, &self.found.tallies))
    }

    /// The balance over the packets that `wanted` chooses by their worker and by whether they are updates.
    fn balance_of(&self, wanted: impl Fn(u32, bool) -> bool) -> Balance {
        let mut balance = self.found.tallies.balance_of(wanted);
        balance.unknown += self.found.contradictions as i64;
        balance
    }
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
    /// Metrics of the experiment's own.
    pub user: UserLines,
    /// Whether its files were compared with their digests.
    pub verified: Verified,
}

/// Are what was sent and what was received in the same time? Those who joined the parts of a run say if not.
fn has_one_clock(manifest: &Manifest) -> bool {
    let domain = |column: &str| manifest.clocks.get(column);
    let received = domain("received.t_recv_ps");
    received.is_none() || received == domain("sent.t_sent_ps")
}

/// Whether frames were sent as they are: no model is in them, so nothing has an age.
pub(crate) fn sends_raw_frames(manifest: &Manifest) -> bool {
    let config = Document::parse(&manifest.config, "config");
    config.is_ok_and(|config| config.get("workload.kind").is_some_and(|kind| kind.to_label() == "raw"))
}

impl Analysis {
    /// Resolves `run`.
    pub fn new(run: RunData, options: Options) -> Result<Analysis> {
        // Lanes are read without the names that packets have, or get by what they hold.
        let held = match (&run.lanes, &run.records) {
            (Some(_), Some(streams)) => Some(streams.whole()?),
            _ => None,
        };
        let provenance = match (&run.manifest.lanes, &run.lanes, &held) {
            (Some(layout), Some(lanes), Some(records)) => {
                Some(Provenance::resolve(&run.manifest, layout, records, lanes)?)
            }
            _ => None,
        };
        let one_clock = has_one_clock(&run.manifest);
        let read = |streams: Streams| -> Result<Resolved> {
            let lanes = provenance.as_ref().zip(held.as_ref()).map(|(found, records)| found.named(records));
            let pass = Pass {
                manifest: &run.manifest,
                streams: &streams,
                names: run.names.as_ref(),
                plausible: run.plausible().filter(|_| matches!(streams, Streams::Files(_))),
                age_of: options.age_of,
                aged: run.rounds.is_none() && one_clock && !sends_raw_frames(&run.manifest),
                one_clock,
                lanes,
                held_max: options.memory.held_max(&streams)?,
            };
            let found = pass.read()?;
            Ok(Resolved { found, one_clock, family: run.manifest.family(), streams })
        };
        let resolved = run.records.clone().map(read).transpose()?;
        let goal = Goal::find(&run.manifest, resolved.as_ref().and_then(Resolved::firsts));
        let RunData { manifest, states, rounds, stamps, verified, .. } = run;
        let user = UserLines::default();
        Ok(Analysis { manifest, resolved, goal, states, rounds, provenance, stamps, user, verified })
    }

    /// Opens and resolves the run in `dir`.
    pub fn open(dir: &Path, options: Options) -> Result<Analysis> {
        let mut analysis = Analysis::new(RunData::open_bounded(dir, options.no_verify, options.memory)?, options)?;
        analysis.user = UserLines::of(dir, &analysis.manifest, options.user_metrics, options.memory);
        Ok(analysis)
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

    /// Whether packets may hold several updates and do not say which: what depends on members has no value then, but of lanes.
    pub fn hides_members(&self) -> bool {
        Facts::of(&self.manifest).hides_members()
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
            Some(resolved) => resolved.balance_of(|_, _| true),
            None => {
                let mut all = self.balance_where(true);
                fates::add(&mut all, &self.balance_where(false));
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
        let (ours, others) = resolved.found.tallies.balances(theirs.len());
        others + ours.iter().zip(theirs).map(|(ours, theirs)| fates::difference(ours, theirs)).sum::<u64>()
    }

    /// The balance of updates, without background traffic: from the records where there are any, else from
    /// the manifest.
    pub fn balance(&self) -> Balance {
        self.balance_where(true)
    }

    /// The balance of updates, or of background traffic.
    pub(crate) fn balance_where(&self, updates: bool) -> Balance {
        match &self.resolved {
            Some(resolved) => resolved.balance_of(|_, update| update == updates),
            None => counted(&self.manifest, updates),
        }
    }

    /// The balance of the workers that `wanted` chooses; none if the run was killed and kept no records.
    pub fn balance_of_workers(&self, wanted: &dyn Fn(u32) -> bool) -> Option<Balance> {
        if let Some(resolved) = &self.resolved {
            return Some(resolved.balance_of(|worker, _| wanted(worker)));
        }
        let mut sum = Balance::default();
        let chosen = self.manifest.balance_by_worker.iter().zip(0u32..).filter(|(_, worker)| wanted(*worker));
        chosen.for_each(|(balance, _)| fates::add(&mut sum, balance));
        (!self.manifest.balance_by_worker.is_empty()).then_some(sum)
    }
}

/// The workers' balances in the manifest, summed over those of updates, or of background traffic. A manifest without
/// them (the run was killed) has the total only, which then stands for the updates.
fn counted(manifest: &Manifest, updates: bool) -> Balance {
    if manifest.balance_by_worker.is_empty() {
        return if updates { manifest.balance.clone() } else { Balance::default() };
    }
    let mut sum = Balance::default();
    for (worker, balance) in manifest.balance_by_worker.iter().enumerate() {
        // A worker without a cluster in the manifest is taken for one that sends updates.
        if is_update(manifest.clusters.get(worker).copied().unwrap_or(0)) == updates {
            fates::add(&mut sum, balance);
        }
    }
    sum
}
