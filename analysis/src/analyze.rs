//! From a run dir to lines: opens it, resolves fates and ages once, and asks every metric.
//!
//! Called by the CLI's `analyze` and by [`crate::sweep`].

use std::path::Path;

use pktgen_generator::Result;
use pktgen_generator::record::{Balance, Facts, Fault, Manifest, Validity, Verified, judge};
use serde::Serialize;

use crate::age::{AgeOf, Ages};
use crate::fates::{self, Arrivals, Fates, has_sums_by_key, is_update};
use crate::goal::Goal;
use crate::line::Line;
use crate::metric::{METRICS, findings, stamps};
use crate::provenance::{Answer, Provenance};
use crate::rounds::Rounds;
use crate::run::{Records, RunData, StampColumns, StateColumns};

/// Choices of an analysis.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Which member's generation time an aggregate carries.
    pub age_of: AgeOf,
    /// Read files whatever their digests say.
    pub no_verify: bool,
}

/// What a reader of the lines must know, beside them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// For programs: a fixed word.
    pub note: &'static str,
    /// For people.
    pub text: String,
}

/// The lines of a run, and what to know about them.
#[derive(Debug, Clone)]
pub struct Measured {
    /// All metrics.
    pub lines: Vec<Line>,
    /// Such as metrics that could not be computed, and why.
    pub notes: Vec<Note>,
}

/// What the streams of a run say, resolved.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The streams.
    pub records: Records,
    /// What became of every packet.
    pub fates: Fates,
    /// Ages of all flows; none in synchronous training, whose results carry no generation time.
    pub ages: Option<Ages>,
    /// May a time at the server be compared with one at a worker?
    pub one_clock: bool,
    /// Are there sums by key, whose results do not say how many updates they represent?
    pub by_key: bool,
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
    /// Were its files compared with their digests?
    pub verified: Verified,
}

/// Is it a run of sums by key? Those alone count updates that are in several of them.
fn counts_by_key(manifest: &Manifest) -> bool {
    manifest.counters.device.contains_key("counted_twice")
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
            // Of a run in which no sum began only the counters say so.
            let by_key = counts_by_key(&run.manifest);
            let in_books = run.manifest.external.is_none() && has_sums_by_key(&records);
            let by_key = by_key || in_books;
            let arrivals = match &run.manifest.training {
                _ if by_key => Arrivals::Sums,
                Some(_) => Arrivals::Results,
                None => Arrivals::Updates,
            };
            let fates = match &run.manifest.external {
                Some(_) => Fates::resolve_unseen(&records, &run.manifest, arrivals),
                None => Fates::resolve_as(&records, arrivals),
            };
            let one_clock = has_one_clock(&run.manifest);
            let aged = run.rounds.is_none() && one_clock;
            let ages = aged.then(|| Ages::compute(&records, &fates, options.age_of)).transpose()?;
            Ok(Resolved { records, fates, ages, one_clock, by_key })
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

    /// All lines of all metrics, in the order of [`METRICS`].
    pub fn lines(&self) -> Result<Vec<Line>> {
        if self.manifest.study.is_some() {
            return Ok(findings::lines(&self.manifest).collect());
        }
        let mut out = Vec::new();
        for metric in METRICS {
            metric.compute(self, &mut out)?;
        }
        Ok(out)
    }

    /// What a reader of the lines must know: the verdict first.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let validity = self.validity();
        if !validity.is_valid() {
            notes.push(Note { note: "invalid", text: format!("the run is invalid: {}", validity.why()) });
        }
        notes.extend(validity.notes.iter().map(|note| Note { note: note.code(), text: note.to_string() }));
        notes.append(&mut self.remarks());
        notes
    }

    /// What the lines themselves ask for: metrics that could not be computed, and why.
    pub(crate) fn remarks(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if let Some(goal) = self.goal.as_ref().filter(|goal| goal.t_ps.is_none()) {
            let (updates, short, workers) = (goal.updates, goal.short(), goal.workers);
            let text = format!(
                "the goal of {updates} updates per worker was not reached: {short} of {workers} workers were short of it"
            );
            notes.push(Note { note: "goal_missed", text });
        }
        let contradicts = |found: &Provenance| found.packets(|answer| *answer == Answer::Contradiction);
        if let Some(packets) = self.provenance.as_ref().map(contradicts).filter(|packets| *packets > 0) {
            let text = format!(
                "the lanes of {packets} packets are explained by no set of updates: a device does other than format.lanes_merge \
                 says, updates wait longer than format.lanes_window, or packets were copied or damaged (docs/provenance.md)"
            );
            notes.push(Note { note: "lanes_contradict", text });
        }
        if self.resolved.as_ref().is_some_and(|resolved| !resolved.one_clock) {
            let text = "workers and server are on different hosts, and nobody knows how far their clocks are apart: one-way ages and \
                        latencies are withheld; see docs/ranks.md, and pktgen merge --clock-error"
                .to_owned();
            notes.push(Note { note: "clocks_not_comparable", text });
        }
        if let Some(why) = stamps::refusal(self) {
            let text = format!("delays by stamps are withheld: {why}; see docs/real-time.md");
            notes.push(Note { note: "stamps_not_comparable", text });
        }
        if let Some(rounds) = &self.rounds {
            notes.extend(self.notes_of_training(rounds));
        } else if self.resolved.is_none() && self.manifest.study.is_none() {
            let text = format!(
                "only the counters were read, since capture.records = \"{}\": Age-of-Model, latency and aggregation need \
                 capture.records = \"full\"",
                self.manifest.records
            );
            notes.push(Note { note: "records_not_full", text });
        }
        notes
    }

    /// The same for synchronous training.
    fn notes_of_training(&self, rounds: &Rounds) -> Vec<Note> {
        let text = "synchronous training has no Age-of-Model: its results carry no generation time".to_owned();
        let mut notes = vec![Note { note: "age_of_model_not_defined", text }];
        let training = self.manifest.training.iter();
        let planned = training
            .map(|training| [u64::from(training.jobs), u64::from(training.workers), u64::from(training.iterations)])
            .fold(0, |_, parts| parts.into_iter().fold(1, u64::saturating_mul));
        let ended = rounds.iterations.worker.len() as u64;
        if ended < planned {
            let text = format!(
                "{ended} of {planned} iterations of workers ended: times and shares are theirs, and say nothing of those \
                 that were still waiting"
            );
            notes.push(Note { note: "iterations_short", text });
        }
        if self.resolved.is_none() {
            let results = match &rounds.results {
                Some(_) => "latencies of results and recovery times are of the recorded blocks alone",
                None => "latencies of results and recovery times need at least \"every:N\"",
            };
            let text = format!(
                "only counters and iterations are complete, since capture.records = \"{}\": {results}; latency in \
                 devices and aggregation need capture.records = \"full\"",
                self.manifest.records
            );
            notes.push(Note { note: "records_not_full", text });
        }
        notes
    }

    /// May its numbers be used? What the run says about itself, and what was found in its records: those must
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

    /// Are there sums by key, whose parts do not say how many updates they represent?
    pub fn has_sums_by_key(&self) -> bool {
        self.resolved.as_ref().map_or_else(|| counts_by_key(&self.manifest), |resolved| resolved.by_key)
    }

    /// What records and counters disagree about results; none if they agree, or if only one of them speaks.
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

    /// Updates that nobody can account for: in the records, and between them and the counters of the run.
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
    pub(crate) fn balance_of_workers(&self, wanted: &dyn Fn(u32) -> bool) -> Option<Balance> {
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

/// All metrics of the run in `dir`, with default options.
pub fn analyze_run(dir: &Path) -> Result<Measured> {
    analyze_run_with(dir, Options::default())
}

/// All metrics of the run in `dir`.
pub fn analyze_run_with(dir: &Path, options: Options) -> Result<Measured> {
    let analysis = Analysis::open(dir, options)?;
    Ok(Measured { lines: analysis.lines()?, notes: analysis.notes() })
}
