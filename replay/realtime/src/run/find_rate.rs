//! Search for the highest rate that an experiment sustains: trials between a rate that passed and one that failed, then confirmation.

mod goal;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use pktgen_core::config::{Document, Run};
use pktgen_core::record::Fault;
use pktgen_core::time::{MS, Time};
use pktgen_core::units::Span;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_workload::lanes::Detail;
use serde::Serialize;

use super::points::{files, placed};
use super::{Experiment, Finished, Task};
use crate::capture::claim;
use crate::catalogue::Catalogue;
use crate::driver::real_time::Roles;
use crate::external::may_merge;

pub use goal::{LoadClass, SearchGoal, TrialLoss};

/// Parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Search {
    /// First rate to try, in packets/s.
    pub from_pps: f64,
    /// Highest rate to try.
    pub to_pps: f64,
    /// Maximum distance of the rates between which the limit lies, relative to the lower one.
    pub precision: f64,
    /// Further trials that the rate must pass.
    pub confirm: u32,
    /// Maximum number of rates to try.
    pub trials: u32,
    /// Requirement on several trials of a rate; none if one trial decides.
    pub goal: Option<SearchGoal>,
}

/// The experiment whose highest rate is searched.
#[derive(Clone, Copy)]
pub struct Searched<'a> {
    /// The available systems.
    pub catalogue: &'static Catalogue,
    /// The experiment.
    pub document: &'a Document,
    /// Folder name of the run, if there are several.
    pub run: Option<&'a str>,
    /// Whether it may run the commands of `[target.launch]`, for each trial.
    pub may_launch: bool,
}

impl Search {
    fn check(&self) -> Result<()> {
        let Search { from_pps: from, to_pps: to, precision, trials, .. } = *self;
        if !(from > 0.0 && to >= from && to <= 1e9) {
            return Err(Error::config(format!(
                "rates from {from} to {to} packets/s: give --from above 0 and --to from there to 1e9"
            )));
        }
        if !(0.001..=1.0).contains(&precision) {
            return Err(Error::config(format!("--precision {precision}: 0.001 to 1 are possible")));
        }
        if trials == 0 {
            return Err(Error::config("--trials 0: give at least 1"));
        }
        Ok(())
    }
}

/// The limiting component of a failed rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limiter {
    /// The device lost too much, or its updates came too late.
    Device,
    /// This host, or the transport, sent or received too slowly.
    Host,
}

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum Attempt {
    /// It kept the limits; with the measurement.
    Passed(String),
    /// It exceeded a limit; with the reason and the limiting component.
    Failed(String, Limiter),
    /// Nothing that was sent arrived.
    NothingBack,
}

/// A judged trial.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedTrial {
    /// Its outcome.
    pub attempt: Attempt,
    /// Share of due packets that did not arrive; none if unknown, which counts as all.
    pub loss: Option<f64>,
}

/// Trials at one rate (RFC 9971).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RateLoad {
    /// The rate, in packets/s.
    pub pps: f64,
    /// Its classification by the trials.
    pub class: LoadClass,
    /// The trials.
    pub trials: Vec<TrialLoss>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Target rate, in packets/s.
    pub pps: f64,
    /// Whether it passed.
    pub passed: bool,
    /// Why it failed, or what was measured.
    pub why: String,
    /// Whether it was to confirm a rate.
    pub confirms: bool,
    /// The limiting component, if it failed.
    pub limited_by: Option<Limiter>,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RateFound {
    /// Highest rate that passed and was confirmed, in packets/s; none if no trial passed.
    pub pps: Option<f64>,
    /// Lowest rate that failed; none if none did.
    pub failed_pps: Option<f64>,
    /// Whether the rate was confirmed as often as requested.
    pub confirmed: bool,
    /// The limiting component at the rate that failed, or the device if nothing came back; none if no rate failed.
    pub limited_by: Option<Limiter>,
    /// Reason of the end of the search.
    pub ended: String,
    /// All trials, in order; with a goal all rates.
    pub trials: Vec<Trial>,
    /// The requirement on a rate in several trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<SearchGoal>,
    /// Conditional throughput at the highest rate that passed, in packets/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditional_pps: Option<f64>,
    /// The trials at each rate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<RateLoad>,
}

/// Searches between rates that passed and failed: doubles from below until a trial fails, then halves the gap, then confirms. A rate that
/// is not confirmed counts as failed. `attempt` makes a trial at a rate; `None` if the user requests a stop. If nothing comes back at the
/// first trial, there is no device to search. Below `least` packets/s a trial is not meaningful.
pub fn search(
    plan: &Search,
    least: f64,
    mut attempt: impl FnMut(f64, u32) -> Result<Option<Attempt>>,
) -> Result<RateFound> {
    plan.check()?;
    let mut found = RateFound { goal: plan.goal, ..RateFound::default() };
    // Rates that passed, ascending; the last is the candidate.
    let mut passed: Vec<f64> = Vec::new();
    let mut confirmations = 0;
    loop {
        let (low, high) = (passed.last().copied(), found.failed_pps);
        let close = |low: f64, high: f64| high <= low * (1.0 + plan.precision);
        let (pps, confirms) = match (low, high) {
            (None, None) => (plan.from_pps, false),
            (Some(low), None) if low >= plan.to_pps => (low, true),
            (Some(low), None) => ((low * 2.0).min(plan.to_pps), false),
            (None, Some(high)) if high <= least => {
                found.ended = format!(
                    "no rate down to {high:.1} packets/s passed; below it a trial has too few packets: give a longer --trial"
                );
                return Ok(found);
            }
            (None, Some(high)) => ((high / 4.0).max(least), false),
            (Some(low), Some(high)) if close(low, high) => (low, true),
            (Some(low), Some(high)) => ((low * high).sqrt(), false),
        };
        found.pps = low;
        found.confirmed = confirms && confirmations >= plan.confirm;
        if found.confirmed {
            found.ended = match high {
                Some(_) => "the limit is between the two rates".into(),
                None => "the highest rate allowed passed".into(),
            };
            return Ok(found);
        }
        if found.trials.len() as u32 >= plan.trials {
            found.ended = format!("{} trials were not enough", plan.trials);
            return Ok(found);
        }
        let Some(attempt) = attempt(pps, found.trials.len() as u32)? else {
            found.ended = "interrupted".into();
            return Ok(found);
        };
        let nothing = attempt == Attempt::NothingBack;
        let (ok, why, limited_by) = match attempt {
            Attempt::Passed(why) => (true, why, None),
            Attempt::Failed(why, by) => (false, why, Some(by)),
            Attempt::NothingBack => (false, NOTHING_BACK.to_owned(), Some(Limiter::Device)),
        };
        found.trials.push(Trial { pps, passed: ok, why, confirms, limited_by });
        if nothing && found.trials.len() == 1 {
            found.limited_by = limited_by;
            found.ended = NOTHING_BACK.into();
            return Ok(found);
        }
        match (ok, confirms) {
            (true, true) => confirmations += 1,
            (true, false) => passed.push(pps),
            (false, _) => {
                passed.retain(|rate| *rate < pps);
                (found.failed_pps, found.limited_by) = (Some(pps), limited_by);
            }
        }
        if !(ok && confirms) {
            confirmations = 0;
        }
    }
}

/// Makes a trial at a rate, with its number among those of its rate; `None` if the user requests a stop.
type MakeTrial<'a> = dyn FnMut(f64, u64) -> Result<Option<JudgedTrial>> + 'a;

/// Searches with trials of this length: with a goal, one rate is tried until it is classified. Below `least` packets/s
/// trials are not meaningful.
pub fn search_trials(plan: &Search, length: Time, least: f64, trial: &mut MakeTrial) -> Result<RateFound> {
    plan.goal.as_ref().map_or(Ok(()), SearchGoal::check)?;
    let mut loads: Vec<RateLoad> = Vec::new();
    let mut found = search(plan, least, |pps, _| match &plan.goal {
        None => Ok(trial(pps, 0)?.map(|judged| judged.attempt)),
        Some(goal) => classified((pps, length), goal, &mut loads, trial),
    })?;
    if let (Some(goal), Some(pps)) = (&plan.goal, found.pps) {
        let at = loads.iter().rfind(|load| load.pps == pps);
        found.conditional_pps = at.and_then(|load| goal.throughput(pps, &load.trials));
    }
    found.loads = loads;
    Ok(found)
}

/// Makes trials at a rate until it is classified, and appends them to `loads`; `None` if the user requests a stop.
fn classified(
    (pps, length): (f64, Time),
    goal: &SearchGoal,
    loads: &mut Vec<RateLoad>,
    trial: &mut MakeTrial,
) -> Result<Option<Attempt>> {
    let mut load = RateLoad { pps, class: LoadClass::Undecided, trials: Vec::new() };
    // The last reason of each limiter, and the trials with those of the host as passed.
    let (mut of_host, mut of_device, mut without_host) = (None, None, Vec::new());
    while load.class == LoadClass::Undecided {
        let Some(JudgedTrial { attempt, loss }) = trial(pps, load.trials.len() as u64)? else {
            loads.push(load);
            return Ok(None);
        };
        if attempt == Attempt::NothingBack && loads.is_empty() && load.trials.is_empty() {
            return Ok(Some(attempt));
        }
        let judged = TrialLoss { duration_ps: length, loss: loss.unwrap_or(1.0) };
        let is_of_host = matches!(attempt, Attempt::Failed(_, Limiter::Host));
        load.trials.push(judged);
        without_host.push(TrialLoss { loss: if is_of_host { 0.0 } else { judged.loss }, ..judged });
        load.class = goal.classify(&load.trials);
        match attempt {
            Attempt::Failed(why, Limiter::Host) => of_host = Some((why, Limiter::Host)),
            Attempt::Failed(why, Limiter::Device) => of_device = Some((why, Limiter::Device)),
            Attempt::NothingBack => of_device = Some((NOTHING_BACK.to_owned(), Limiter::Device)),
            Attempt::Passed(_) => {}
        }
    }
    // A rate is beyond the device only if its own losses miss the goal.
    let last = match goal.classify(&without_host) {
        LoadClass::Upper => of_device.or(of_host),
        _ => of_host.or(of_device),
    };
    let high = load.trials.iter().filter(|trial| trial.loss > goal.loss).count();
    let why = format!("{high} of {} trials lost more than {}", load.trials.len(), goal.loss);
    let attempt = match (load.class, last) {
        (LoadClass::Upper, Some((reason, by))) => Attempt::Failed(format!("{why}; the last: {reason}"), by),
        _ => Attempt::Passed(why),
    };
    loads.push(load);
    Ok(Some(attempt))
}

impl Experiment {
    /// Searches the highest rate at which `judge` passes a run. Each trial lasts `span` (such as "2s"), with its
    /// workload repeated as necessary; run dirs of trials are in `out`, and removed when they are no longer needed.
    /// With a goal, one rate is tried, each time with another seed, until it is classified.
    pub fn find_rate(
        searched: Searched,
        out: &Path,
        plan: &Search,
        span: &str,
        task: &Task,
        judge: &mut dyn FnMut(&Finished) -> Result<JudgedTrial>,
    ) -> Result<RateFound> {
        let length = trial_length(span)?;
        check_axes(searched)?;
        check_knowable(searched)?;
        let _claim = claim(out)?;
        let mut trials = Trials { searched, out, span, length, task, judge, number: 0, kept: [None, None] };
        let found = search_trials(plan, length, least(length), &mut |pps, seeds| trials.one(pps, seeds))?;
        let path = out.join("find-rate.json");
        let text = serde_json::to_string_pretty(&found).map_err(|e| Error::data(&path, e.to_string()))?;
        write_whole(&path, text + "\n")?;
        Ok(found)
    }
}

/// The trials of a search.
struct Trials<'a> {
    searched: Searched<'a>,
    out: &'a Path,
    span: &'a str,
    length: Time,
    task: &'a Task<'a>,
    judge: &'a mut dyn FnMut(&Finished) -> Result<JudgedTrial>,
    /// Number of the next trial.
    number: u32,
    /// The last failed and the last passed trial, which show the limit.
    kept: [Option<(f64, PathBuf)>; 2],
}

impl Trials<'_> {
    /// Makes a trial at a rate, with the seed offset `seeds`; `None` if the user requests a stop. Repeats it if a stall
    /// of this host explains the loss.
    fn one(&mut self, pps: f64, seeds: u64) -> Result<Option<JudgedTrial>> {
        let mut stalled = 0;
        loop {
            let Some((mut judged, stall)) = self.attempt(pps, seeds)? else { return Ok(None) };
            if let (Attempt::Failed(why, by), Some(stall)) = (&mut judged.attempt, stall) {
                stalled += 1;
                if stalled < ATTEMPTS {
                    continue;
                }
                *why += &format!("; {stall}, which explains it, and so in {} trials before", ATTEMPTS - 1);
                *by = Limiter::Host;
            }
            return Ok(Some(judged));
        }
    }

    /// Makes one attempt at a trial. Returns the stall that explains its losses, if any.
    fn attempt(&mut self, pps: f64, seeds: u64) -> Result<Option<(JudgedTrial, Option<String>)>> {
        let Searched { catalogue, document, run, may_launch } = self.searched;
        let mut document = document.clone();
        document.overlay(std::iter::empty(), &of_rate(pps, self.span))?;
        let experiment = Experiment::open(catalogue, document)?.launching(may_launch);
        let chosen: &Run = experiment.choose(run)?;
        let run = Run { seed: chosen.seed.saturating_add(seeds), ..chosen.clone() };
        let dir = self.out.join(format!("trial-{:02}", self.number));
        self.number += 1;
        let finished = match experiment.run_one(&run, &dir, self.task) {
            // A rate that the host refuses counts as failed; at the first trial it is a general error.
            Err(Error::Host(why)) if self.number > 1 => {
                let failed = JudgedTrial { attempt: Attempt::Failed(why, Limiter::Host), loss: None };
                return Ok(Some((failed, None)));
            }
            other => other?,
        };
        if self.task.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let judged = match offered(&finished, pps, self.length)? {
            Some(why) => JudgedTrial { attempt: Attempt::Failed(why, Limiter::Host), loss: None },
            None => (self.judge)(&finished)?,
        };
        let passed = matches!(judged.attempt, Attempt::Passed(_));
        if let Some((_, old)) = self.kept[usize::from(passed)].replace((pps, dir)) {
            std::fs::remove_dir_all(&old).map_err(Error::io("remove", &old))?;
        }
        let stall = judged.loss.and_then(|loss| stall(&finished, pps, loss));
        Ok(Some((judged, stall)))
    }
}

/// Returns the length of a trial.
pub(super) fn trial_length(span: &str) -> Result<Time> {
    let length: Span = span.parse().map_err(|e| Error::config(format!("--trial {span}: {e}")))?;
    if length.ps() < MS {
        return Err(Error::config(format!("--trial {span}: a trial of less than 1ms says nothing; 2s is the default")));
    }
    Ok(length.ps())
}

/// Refuses a sweep over what a trial sets: all trials would be equal.
fn check_axes(Searched { catalogue, document, run, .. }: Searched) -> Result<()> {
    const OWN: [&str; 5] = ["schedule.pps", "schedule.speed", "workload.repeat", "capture.until", "transport.pacing"];
    let experiment = Experiment::open(catalogue, document.clone())?;
    let run = experiment.choose(run)?;
    match run.set.iter().find(|(key, _)| OWN.contains(&key.as_str())) {
        Some((key, _)) => {
            Err(Error::config(format!("--find-rate: the sweep sets {key}, which a trial sets itself; leave it out")))
        }
        None => Ok(()),
    }
}

/// Refuses workers without a rate, files that all trials would write, and a device with unknown losses.
fn check_knowable(Searched { catalogue, document, run, may_launch }: Searched) -> Result<()> {
    let experiment = Experiment::open(catalogue, document.clone())?.launching(may_launch);
    let plan = experiment.prepare(experiment.choose(run)?)?;
    experiment.check_launch(&plan)?;
    plan.check_wires(Roles::ALL)?;
    plan.check_together(Roles::ALL)?;
    let [one, other] = ["trial-00", "trial-01"];
    if let Some((key, file)) = files(&plan).find(|(_, file)| placed(one, file) == placed(other, file)) {
        return Err(Error::config(format!(
            "transport.{key}: every trial of --find-rate would write \"{file}\"; give a name without a folder, which is in the run dir of \
             each trial"
        )));
    }
    if plan.spec.training.is_some() {
        return Err(Error::config(
            "--find-rate: workers of synchronous training send as results come back, at no rate of their own; their windows decide: sweep \
             endpoint.window or endpoint.pool, or replay their updates as a trace (pktgen trace convert)",
        ));
    }
    let names = plan.spec.lanes.as_ref().is_some_and(|lanes| lanes.layout().detail == Detail::Which);
    if !plan.spec.is_external() || !may_merge(&plan.spec.config) || names {
        return Ok(());
    }
    Err(Error::config(
        "--find-rate: the device keeps no books (target.kind = \"external\") and may merge updates, so its losses are unknown; \
         set format.lanes = \"which\", or declare a device that only forwards: target.program = \"forward\", target.queue = \"fifo\"",
    ))
}

/// The message if nothing that was sent arrived.
const NOTHING_BACK: &str = "nothing came back";

/// Maximum attempts at a trial whose losses are explained by a stall of this host.
const ATTEMPTS: usize = 3;

/// Returns the stall of this host that explains such a loss, if there was one: frames due during it leave in one burst,
/// which exceeds the target rate.
fn stall(finished: &Finished, pps: f64, loss: f64) -> Option<String> {
    let late_ns = finished.summary.as_ref()?.roles.iter().find_map(|role| role.late_max_ns)?;
    let burst = (late_ns as f64 / 1e9 * pps).floor();
    let explains = loss > 0.0 && burst > 1.0 && burst >= loss * finished.updates.sent as f64;
    explains.then(|| format!("frames left up to {:.1} ms late, {burst:.0} of them in a burst", late_ns as f64 / 1e6))
}

/// Minimum number of updates of a trial.
const LEAST: f64 = 20.0;

/// Returns the minimum rate of trials of this length, in packets/s: [`offered`] tolerates a tenth of the due updates plus one.
fn least(length: Time) -> f64 {
    ((LEAST + 1.0) / 0.9 / (length as f64 / 1e12)).max(1.0)
}

/// Returns why a trial did not offer its rate, if so: it is then not evidence about the device. A trial with too few
/// updates is an error, because any rate would pass it.
fn offered(finished: &Finished, pps: f64, length: Time) -> Result<Option<String>> {
    // It ended as soon as the host was late: that is an answer about this rate.
    let aborted = |fault: &&Fault| matches!(fault, Fault::TooLateAborted { .. });
    if let Some(fault) = finished.validity.faults.iter().find(aborted) {
        return Ok(Some(fault.to_string()));
    }
    let (generated, due) = (finished.updates.generated as f64, pps * length as f64 / 1e12);
    if generated < LEAST || generated < due * 0.9 - 1.0 {
        return Err(Error::config(format!(
            "a trial at {pps:.1} packets/s generated {generated} updates of {due:.0}: give a longer --trial or a higher --from, and \
             leave out what ends the workload early (capture.goal, schedule.stop)"
        )));
    }
    Ok(slower(finished, pps))
}

/// The keys of a trial at a rate.
pub(super) fn of_rate(pps: f64, span: impl std::fmt::Display) -> [String; 4] {
    [
        format!("schedule.pps={pps:.6}"),
        "workload.repeat=0".to_owned(),
        format!("capture.until={span}"),
        "transport.pacing=deadlines".to_owned(),
    ]
}

/// Says that the workers did not reach the rate, if so.
pub(super) fn slower(finished: &Finished, pps: f64) -> Option<String> {
    let share = finished.summary.as_ref()?.workers()?.share_of(pps).filter(|share| *share < 0.99)?;
    let achieved = share * pps;
    Some(format!("the workers achieved {achieved:.1} packets/s: this host or transport sends no faster"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAN: Search = Search { from_pps: 1000.0, to_pps: 1e6, precision: 0.01, confirm: 2, trials: 60, goal: None };

    fn stands(passed: bool) -> Attempt {
        if passed { Attempt::Passed(String::new()) } else { Attempt::Failed("lost".into(), Limiter::Device) }
    }

    proptest! {
        /// Any limit is found with the requested precision.
        #[test]
        fn the_limit_is_between_the_two_rates(limit in 1.5f64..2e6) {
            let found = search(&PLAN, 1.0, |pps, _| Ok(Some(stands(pps <= limit)))).unwrap();
            let pps = found.pps.unwrap();
            prop_assert!(found.confirmed && pps <= limit);
            match found.failed_pps {
                Some(failed) => {
                    prop_assert!(failed > limit && failed <= pps * 1.01 && found.limited_by == Some(Limiter::Device));
                }
                None => prop_assert!(limit >= 1e6 && pps == 1e6 && found.limited_by.is_none()),
            }
            prop_assert_eq!(found.trials.iter().filter(|t| t.confirms && t.passed).count(), 2);
        }
    }

    #[test]
    fn a_rate_that_is_not_confirmed_has_failed() {
        let mut first = true;
        let found = search(&PLAN, 1.0, |pps, number| {
            let lucky = pps > 40_000.0 && pps <= 50_000.0;
            first = number < 14;
            Ok(Some(stands(pps <= 40_000.0 || lucky && first)))
        })
        .unwrap();
        assert!(found.confirmed && found.pps.unwrap() <= 50_000.0, "{found:?}");
        assert!(found.trials.len() as u32 <= PLAN.trials);
        let never = search(&PLAN, 1.0, |_, _| Ok(Some(stands(false)))).unwrap();
        assert!(never.pps.is_none() && !never.confirmed && never.ended.contains("no rate"), "{never:?}");
        let lowest = never.trials.last().expect("a trial").pps;
        assert_eq!(lowest, 1.0);
        let few = search(&PLAN, 480.0, |_, _| Ok(Some(stands(false)))).unwrap();
        assert_eq!(few.trials.iter().map(|trial| trial.pps).collect::<Vec<_>>(), [1000.0, 480.0]);
        assert!(few.ended.contains("480.0 packets/s") && few.ended.contains("--trial"), "{few:?}");
        let short = search(&Search { trials: 3, ..PLAN }, 1.0, |_, _| Ok(Some(stands(true)))).unwrap();
        assert!(!short.confirmed && short.ended.contains("3 trials"), "{short:?}");
        assert!(search(&Search { precision: 0.0, ..PLAN }, 1.0, |_, _| Ok(None)).is_err());
    }

    #[test]
    fn nothing_at_first_ends_the_search_and_nothing_later_is_a_limit() {
        let none = search(&PLAN, 1.0, |_, _| Ok(Some(Attempt::NothingBack))).unwrap();
        assert_eq!((none.trials.len(), none.pps, none.ended.as_str()), (1, None, NOTHING_BACK));
        assert_eq!((none.failed_pps, none.limited_by), (None, Some(Limiter::Device)));
        let later = search(&PLAN, 1.0, |pps, _| {
            Ok(Some(if pps > 5000.0 { Attempt::NothingBack } else { Attempt::Passed(String::new()) }))
        })
        .unwrap();
        assert!(later.confirmed && later.limited_by == Some(Limiter::Device), "{later:?}");
        let host = search(&PLAN, 1.0, |pps, _| {
            let slow = Attempt::Failed("slow".into(), Limiter::Host);
            Ok(Some(if pps > 5000.0 { slow } else { Attempt::Passed(String::new()) }))
        });
        assert_eq!(host.unwrap().limited_by, Some(Limiter::Host));
    }

    /// The goal permits one of two trials to lose: one loss of the device is no limit of it, whichever trial the host spoils.
    #[test]
    fn a_rate_is_limited_by_the_device_only_if_its_own_losses_miss_the_goal() {
        const HOST: (Limiter, Option<f64>) = (Limiter::Host, None);
        const DEVICE: (Limiter, Option<f64>) = (Limiter::Device, Some(0.1));
        let length = 1_000_000_000_000;
        let goal = SearchGoal { loss: 0.0, exceed: 0.5, trial_ps: length, sum_ps: 2 * length };
        let plan = Search { goal: Some(goal), ..PLAN };
        for (trials, limiter) in [
            ([HOST, DEVICE], Limiter::Host),
            ([DEVICE, HOST], Limiter::Host),
            ([DEVICE, DEVICE], Limiter::Device),
            ([HOST, HOST], Limiter::Host),
        ] {
            let found = search_trials(&plan, length, 1.0, &mut |pps, number| {
                if pps <= 5000.0 {
                    return Ok(Some(JudgedTrial { attempt: Attempt::Passed(String::new()), loss: Some(0.0) }));
                }
                let (by, loss) = trials[number as usize];
                Ok(Some(JudgedTrial { attempt: Attempt::Failed("lost".into(), by), loss }))
            })
            .unwrap();
            assert_eq!(found.limited_by, Some(limiter), "{trials:?}");
        }
    }
}
