//! An opened run: fates and ages are resolved once for all metrics, with the verdict on whether its numbers may be used.
//!
//! Metrics read [`Analysis`]; [`crate::analyze`] calls them.

use std::path::Path;

use pktgen_core::Result;
use pktgen_core::config::Document;
use pktgen_core::record::{Balance, Facts, Family, Fault, Manifest, Note, Validity, Verified, judge};
use pktgen_workload::study::Study;

use crate::age::{AgeOf, Ages, FlowAge};
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

/// Options of an analysis.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Which member's generation time an aggregate carries.
    pub age_of: AgeOf,
    /// Reads files without checking their digests.
    pub no_verify: bool,
    /// Memory limit.
    pub memory: MemoryBound,
    /// Studies in addition to those of the stages, whose metrics reports know.
    pub studies: &'static [&'static dyn Study],
    /// How an experiment's own metrics are computed; by default they have no values.
    pub user_metrics: UserAnswers,
}

/// Whether and how an experiment's own metrics are computed.
#[derive(Debug, Clone, Copy, Default)]
pub enum UserAnswers {
    /// They are omitted.
    #[default]
    LeftOut,
    /// This build does not support them.
    NotBuilt,
    /// By this implementation.
    By(&'static dyn UserMetrics),
}

/// The resolved streams of a run.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The streams, for access to rows.
    pub streams: Streams,
    found: Found,
    /// Which member's generation time an aggregate carries.
    age_of: AgeOf,
    /// Kind of the account.
    pub family: Family,
}

impl Resolved {
    /// Returns the ages of all clusters and workers; `None` in synchronous training, whose results carry no generation time, and at top speed.
    pub fn ages(&self) -> Option<&Ages> {
        self.found.ages.as_ref()
    }

    /// Returns the time in devices, from arrival to departure, of every packet and device that it passed, in ps.
    pub fn device_ps(&self) -> &NumberList {
        &self.found.device_ps
    }

    /// Returns the times from worker to server in ps of every received packet whose departure is known; empty without a common clock.
    pub fn host_ps(&self) -> &NumberList {
        &self.found.host_ps
    }

    /// Returns the counts of arrivals at the server.
    pub fn arrivals(&self) -> &ServerTally {
        &self.found.arrivals
    }

    /// Returns the number of updates of which no transmission arrived or is in flight.
    pub(crate) fn updates_lost(&self) -> u64 {
        self.found.tallies.lost()
    }

    /// Returns the number of deliveries of packets that had been delivered before.
    pub fn duplicates(&self) -> u64 {
        self.found.duplicates
    }

    /// Returns the number of packets whose members differ from those according to lanes.
    pub(crate) fn lanes_wrong(&self) -> u64 {
        self.found.lanes_wrong
    }

    pub(crate) fn learned(&self) -> Option<&Learned> {
        self.found.learned.as_ref()
    }

    /// For a run to a goal: returns the first representations and the senders.
    pub(crate) fn firsts(&self) -> Option<(&Firsts, &Tallies)> {
        Some((self.found.firsts.as_ref()?, &self.found.tallies))
    }

    /// Returns the balance over the packets selected by `wanted` from their worker and whether they are updates.
    fn balance_of(&self, wanted: impl Fn(u32, bool) -> bool) -> Balance {
        let mut balance = self.found.tallies.balance_of(wanted);
        balance.unknown += self.found.contradictions as i64;
        balance
    }
}

/// A run that is ready for metrics.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The manifest.
    pub manifest: Manifest,
    /// The resolved streams; `None` unless every transmission was recorded.
    pub resolved: Option<Resolved>,
    /// Progress to the goal; `None` if it had no goal.
    pub goal: Option<Goal>,
    /// States of workers under transmission control; `None` unless the run recorded them.
    pub states: Option<StateColumns>,
    /// Iterations and results; `None` unless it is synchronous training.
    pub rounds: Option<Rounds>,
    /// Members according to lanes; `None` unless updates carried lanes.
    pub provenance: Option<Provenance>,
    /// Timestamps of the kernel or a card; `None` unless the run recorded them.
    pub stamps: Option<StampColumns>,
    /// Metrics of the experiment's own.
    pub user: UserLines,
    /// Whether its files were checked against their digests.
    pub verified: Verified,
}

/// Whether raw frames were sent: they contain no model, so nothing has an age.
pub(crate) fn sends_raw_frames(manifest: &Manifest) -> bool {
    let config = Document::parse(&manifest.config, "config");
    config.is_ok_and(|config| config.get("workload.kind").is_some_and(|kind| kind.to_label() == "raw"))
}

/// Whether what was sent can have an age: it contains a model, and its generation times mean something.
fn has_ages(manifest: &Manifest) -> bool {
    !sends_raw_frames(manifest) && !manifest.is_at_top_speed()
}

impl Analysis {
    /// Resolves `run`.
    pub fn new(run: RunData, options: Options) -> Result<Analysis> {
        // Lanes are read independently of the ids that packets have or get from their contents.
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
        let one_clock = run.manifest.has_one_clock();
        // Packets without ids are identified when the account is settled, and that of a killed run never was.
        let headless = run.manifest.incidents.notes.iter().any(|note| matches!(note, Note::Headless {}));
        let settled = !headless || run.names.is_some() || !run.manifest.balance_by_worker.is_empty();
        let read = |streams: Streams| -> Result<Resolved> {
            let lanes = provenance.as_ref().zip(held.as_ref()).map(|(found, records)| found.named(records));
            let pass = Pass {
                manifest: &run.manifest,
                streams: &streams,
                names: run.names.as_ref(),
                plausible: run.plausible().filter(|_| matches!(streams, Streams::Files(_))),
                age_of: options.age_of,
                aged: run.rounds.is_none() && one_clock && settled && has_ages(&run.manifest),
                one_clock: one_clock && settled,
                lanes,
                held_max: options.memory.held_max(&streams)?,
            };
            let found = pass.read()?;
            let family = run.manifest.family();
            Ok(Resolved { found, age_of: options.age_of, family, streams })
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

    /// Returns whether its numbers may be used, from the statements of the run itself and from its records, which must
    /// balance and agree with its counters.
    pub fn validity(&self) -> Validity {
        let mut facts = Facts::of(&self.manifest);
        // The run's own verdict has what it counted itself.
        let counted = self.manifest.strangers.saturating_add(self.manifest.balance.unknown.unsigned_abs());
        let updates = self.disagreeing(counted);
        let disagree = (updates > 0).then_some(Fault::RecordsDisagree { updates });
        let goal = self.goal.as_ref().and_then(|goal| goal.conflict.clone());
        let goal = goal.map(|why| Fault::GoalDisagrees { why });
        facts.incidents.faults.extend(disagree.into_iter().chain(goal).chain(self.conflict_of_results()));
        facts.incidents.notes.extend(self.verified.note());
        judge(&facts)
    }

    /// Whether packets may contain several updates without listing them: metrics of members then have no value, except those of lanes.
    pub fn hides_members(&self) -> bool {
        Facts::of(&self.manifest).hides_members()
    }

    /// Whether elements at the server are not known: packets hide their members, or the server counted aggregates of a software
    /// device as one update each, since their layout does not contain how many they are. Records know their members afterwards.
    pub fn hides_elements(&self) -> bool {
        let headless = |note: &Note| matches!(note, Note::Headless {});
        let counted_as_one = self.manifest.unseen.is_none() && self.manifest.incidents.notes.iter().any(headless);
        self.hides_members() || (counted_as_one && self.balance().delivered_merged > 0)
    }

    /// Whether packets may contain several updates of which they name one: the device merges and keeps no books. Metrics of the
    /// others then have no value, except those of lanes.
    pub(crate) fn names_one_member(&self) -> bool {
        self.manifest.family() == Family::Updates && self.manifest.unseen.as_ref().is_some_and(|unseen| unseen.merges)
    }

    /// Whether packets may contain updates that they do not name: as in [`Analysis::names_one_member`], or in sums by key, of which a
    /// device without books names no member. What was delivered of all updates is not known then.
    pub(crate) fn lacks_members(&self) -> bool {
        self.names_one_member() || self.has_sums_by_key() && self.manifest.external.is_some()
    }

    /// Whether nothing is known of arrivals: a part that receives was killed, and no row of it is left.
    pub(crate) fn lacks_arrivals(&self) -> bool {
        let arrivals = self.resolved.as_ref().map(Resolved::arrivals);
        let has_rows = arrivals.is_some_and(|arrivals| arrivals.packets + arrivals.background > 0);
        !has_rows && self.manifest.incidents.lacks_arrivals(&self.balance())
    }

    /// Returns the ages of clusters, if packets say of which updates they are, and arrivals are known. The oldest member and the mean of all
    /// are unknown where packets name one.
    pub fn ages(&self) -> Option<&Ages> {
        let resolved = self.resolved.as_ref()?;
        let of_all = matches!(resolved.age_of, AgeOf::Oldest | AgeOf::Mean);
        let is_unknown = self.hides_members() || self.lacks_arrivals() || (of_all && self.names_one_member());
        resolved.ages().filter(|_| !is_unknown)
    }

    /// Returns the ages of workers, if packets name all of their updates.
    pub fn ages_of_workers(&self) -> Option<&[FlowAge]> {
        self.ages().filter(|_| !self.names_one_member()).map(|ages| &ages.workers[..])
    }

    /// Returns the numbers of workers' iterations that ended and that were planned; `None` unless fewer ended.
    pub(crate) fn iterations_short(&self) -> Option<(u64, u64)> {
        let (rounds, training) = self.rounds.as_ref().zip(self.manifest.training.as_ref())?;
        let parts = [u64::from(training.jobs), u64::from(training.workers), u64::from(training.iterations)];
        let (ended, planned) = (rounds.iterations.worker.len() as u64, parts.into_iter().fold(1, u64::saturating_mul));
        (ended < planned).then_some((ended, planned))
    }

    /// Whether pairs are summed by key. The parts of such a sum do not contain how many updates they represent.
    pub fn has_sums_by_key(&self) -> bool {
        self.manifest.family() == Family::Pairs
    }

    /// Returns the disagreement of records and counters about results; `None` if they agree or only one of them has a value.
    fn conflict_of_results(&self) -> Option<Fault> {
        let recorded = self.rounds.as_ref()?.results.as_ref()?.t_recv_ps.len() as u64;
        let counted = self.manifest.counters.replies;
        if self.resolved.is_none() || self.was_killed() || recorded == counted {
            return None;
        }
        Some(Fault::ResultsDisagree { rows: recorded, replies: counted })
    }

    /// Whether the run was killed and has records but no counters to compare with.
    fn was_killed(&self) -> bool {
        self.manifest.balance_by_worker.is_empty() && self.manifest.balance == Balance::default()
    }

    /// Returns the number of updates that cannot be accounted for: within the records, and between these and the counters of the run.
    pub fn unknown(&self) -> f64 {
        self.disagreeing(0).saturating_add(self.manifest.balance.unknown.unsigned_abs()) as f64
    }

    /// Returns the number of updates that are unknown within the records, without as many as the run `counted`, and of those about which
    /// records and counters differ.
    fn disagreeing(&self, counted: u64) -> u64 {
        let theirs = &self.manifest.balance;
        let ours = match &self.resolved {
            Some(resolved) => resolved.balance_of(|_, _| true),
            None => {
                let mut all = self.balance_where(true);
                fates::add(&mut all, &self.balance_where(false));
                all
            }
        };
        // Without records, the workers' balances repeat the unknown updates of the total.
        let own = if self.resolved.is_some() { ours.unknown.unsigned_abs().saturating_sub(counted) } else { 0 };
        if self.resolved.is_some() && self.was_killed() {
            return own;
        }
        let total = own.saturating_add(fates::difference(&ours, theirs));
        if total > 0 { total } else { self.unknown_by_worker() }
    }

    /// Returns the number of updates about which the records and the workers' balances in the manifest disagree.
    fn unknown_by_worker(&self) -> u64 {
        let Some(resolved) = &self.resolved else { return 0 };
        let theirs = &self.manifest.balance_by_worker;
        let (ours, others) = resolved.found.tallies.balances(theirs.len());
        others + ours.iter().zip(theirs).map(|(ours, theirs)| fates::difference(ours, theirs)).sum::<u64>()
    }

    /// Returns the balance of updates, without background traffic: from the records if there are any, otherwise from the manifest.
    pub fn balance(&self) -> Balance {
        self.balance_where(true)
    }

    /// Returns the balance of updates or of background traffic.
    pub(crate) fn balance_where(&self, updates: bool) -> Balance {
        match &self.resolved {
            Some(resolved) => resolved.balance_of(|_, update| update == updates),
            None => counted(&self.manifest, updates),
        }
    }

    /// Returns the balance of the workers selected by `wanted`; `None` if the run was killed and has no records.
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

/// Returns the sum of the workers' balances in the manifest for updates or for background traffic. A manifest without
/// these (the run was killed) has only the total, which is used for updates.
fn counted(manifest: &Manifest, updates: bool) -> Balance {
    if manifest.balance_by_worker.is_empty() {
        return if updates { manifest.balance.clone() } else { Balance::default() };
    }
    let mut sum = Balance::default();
    for (worker, balance) in manifest.balance_by_worker.iter().enumerate() {
        // A worker without a cluster in the manifest is assumed to send updates.
        if is_update(manifest.clusters.get(worker).copied().unwrap_or(0)) == updates {
            fates::add(&mut sum, balance);
        }
    }
    sum
}
