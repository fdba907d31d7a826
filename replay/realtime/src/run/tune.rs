//! The settings of `[transport]` with which this host sends fastest on an interface, or keeps deadlines best (docs/tune.md).
//!
//! Settings take turns: what the host does meanwhile it does to all of them, and ratios are taken within rounds.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pktgen_core::config::{Document, Origin, Value};
use pktgen_core::time::SECOND;
use pktgen_core::{Error, Result};
use serde::Serialize;

use super::find_rate::trial_length;
use super::{Experiment, Finished, RoleSummary, Task};
use crate::capture::claim;
use crate::catalogue::Catalogue;
use crate::driver::real_time::Roles;
use crate::transport::{End, InterfaceReading, TRANSPORTS, queues_to_send};

/// The section of an experiment that is tuned.
const SECTION: &str = "transport";
/// With fewer rounds, the interval of a median is less than 95 % sure.
const ROUNDS_LEAST: u32 = 6;
/// How sure the intervals are.
const SURE: f64 = 0.95;
/// A setting must send at least this share of a rate that is asked for.
const KEPT: f64 = 0.999;
/// Updates of a worker in one pass: a trial's length is in passes.
const UPDATES: u32 = 2000;
/// A trial repeats the workload at most so often.
const PASSES_MAX: f64 = 100_000.0;
/// How long frames of a trial may take to the other end.
const SETTLE: Duration = Duration::from_millis(20);

/// What is tuned, and how long.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TuningPlan {
    /// The interface that sends.
    pub interface: String,
    /// The interface at the other end of the cable, where it is on this host: it says what arrived.
    pub peer: Option<String>,
    /// The rate at which deadlines are to be kept, in packets/s; none for as fast as possible.
    pub pps: Option<f64>,
    /// Rounds, in each of which every setting has a trial.
    pub rounds: u32,
    /// How long a trial takes.
    pub trial: String,
}

/// What a setting reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TunedSetting {
    /// Keys and values, as `--set` takes them.
    pub set: Vec<String>,
    #[serde(skip)]
    keys: Vec<(&'static str, Value)>,
    /// Rate of each round, in packets/s.
    pub pps: Vec<f64>,
    /// With a rate that was asked for: how late frames left that the host did not make late, 99 %, of each round.
    pub late_p99_ns: Vec<u64>,
    /// Their medians; none without a trial.
    pub median_pps: Option<f64>,
    /// The same of lateness.
    pub median_late_ns: Option<f64>,
    /// Median over the rounds of what is compared, over the best setting's: rates, or lateness the other way round. None if it was not compared.
    pub of_best: Option<f64>,
    /// What that median lies between, at least 95 % sure.
    pub interval: Option<[f64; 2]>,
    /// Frames that were sent in all rounds.
    pub sent: u64,
    /// How many of them did not arrive at the other end; none if that is not on this host.
    pub lost: Option<u64>,
    /// Why it cannot be used here.
    pub refused: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    /// What was wanted.
    pub plan: TuningPlan,
    /// All settings, the simplest first.
    pub settings: Vec<TunedSetting>,
    /// Which of them to use: the simplest that cannot be told from the best. None if none can be used.
    pub chosen: Option<usize>,
    /// The user requested a stop: rounds are missing.
    pub interrupted: bool,
}

impl TuningPlan {
    fn check(&self) -> Result<()> {
        let TuningPlan { rounds, pps, peer, .. } = self;
        if !(ROUNDS_LEAST..=1000).contains(rounds) {
            return Err(Error::config(format!(
                "--rounds {rounds}: {ROUNDS_LEAST} to 1000 are possible; fewer do not reach 95 % confidence"
            )));
        }
        if let Some(pps) = pps.filter(|pps| !(1.0..=1e9).contains(pps)) {
            return Err(Error::config(format!("--pps {pps}: 1 to 1e9 packets/s are possible")));
        }
        match peer {
            Some(peer) if *peer == self.interface => Err(Error::config(format!(
                "--peer {peer}: it is the interface itself; name the other end of its cable"
            ))),
            Some(peer) if InterfaceReading::of(peer).is_none() => {
                Err(Error::config(format!("--peer {peer}: there is no such interface in this network namespace")))
            }
            _ => Ok(()),
        }
    }

    /// Every setting that is tried, the simplest first: transports that send on interfaces, with as many queues as the interface has
    /// and, where deadlines are kept, each way to wait.
    fn settings(&self) -> Result<Vec<TunedSetting>> {
        let sending = queues_to_send(&self.interface)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        // At top speed nothing waits.
        let waits: &[Option<&str>] = if self.pps.is_some() { &[Some("block"), Some("spin")] } else { &[None] };
        let mut all = Vec::new();
        for kind in TRANSPORTS {
            let can = kind.capabilities();
            if !can.real_time || !can.heads || can.in_process || can.own_time {
                continue;
            }
            let most = if kind.has_queues() { sending.min(cores).max(1) } else { 1 };
            let queues = std::iter::successors(Some(1u32), |n| Some(n * 2)).take_while(|n| *n <= most);
            for queues in queues {
                for zero_copy in [false, true].into_iter().take(1 + usize::from(can.zero_copy)) {
                    for wait in waits {
                        let mut keys: Vec<(_, Value)> = vec![("kind", kind.name().into()), ("queues", queues.into())];
                        keys.extend(wait.map(|wait| ("wait", wait.into())));
                        if zero_copy {
                            keys.push(("zero_copy", true.into()));
                        }
                        all.push(TunedSetting::of(keys));
                    }
                }
            }
        }
        Ok(all)
    }
}

impl TunedSetting {
    fn of(keys: Vec<(&'static str, Value)>) -> Self {
        let set = keys.iter().map(|(key, value)| format!("{SECTION}.{key}={}", value.to_label())).collect();
        TunedSetting { set, keys, ..TunedSetting::default() }
    }

    /// In a few words.
    pub fn name(&self) -> String {
        let named = |(key, value): &(&str, Value)| match (*key, value) {
            ("kind", kind) => Some(kind.to_label()),
            ("queues", Value::Integer(1)) => None,
            _ => Some(format!("{key} = {}", value.to_label())),
        };
        self.keys.iter().filter_map(named).collect::<Vec<_>>().join(", ")
    }

    /// What is compared in each round: the higher, the better.
    fn scores(&self, paced: bool) -> Vec<f64> {
        match paced {
            true => self.late_p99_ns.iter().map(|ns| 1.0 / (*ns).max(1) as f64).collect(),
            false => self.pps.clone(),
        }
    }

    /// Counts a trial, or finds that the setting cannot be used.
    fn count(&mut self, finished: &Finished, plan: &TuningPlan, arrived: Option<u64>) {
        let Some((workers, achieved)) = workers(finished).and_then(|workers| Some((workers, workers.pps?))) else {
            self.refused.get_or_insert("too few frames left to say how fast".into());
            return;
        };
        self.pps.push(achieved);
        self.sent += workers.frames_sent;
        if let Some(arrived) = arrived {
            *self.lost.get_or_insert(0) += workers.frames_sent.saturating_sub(arrived);
        }
        if let Some(lost) = finished.validity.faults.iter().find(|fault| fault.loses_frames()) {
            self.refused.get_or_insert(lost.to_string());
        }
        if plan.pps.is_none() {
            return;
        }
        match workers.late_others_p99_ns.or(workers.late_p99_ns) {
            Some(ns) => self.late_p99_ns.push(ns),
            None => _ = self.refused.get_or_insert("too few frames to say how late they left".into()),
        }
    }
}

impl Tuned {
    /// Compares the settings that can be used, and chooses.
    fn judge(&mut self) {
        for setting in &mut self.settings {
            setting.median_pps = median(&setting.pps);
            setting.median_late_ns = median(&setting.late_p99_ns.iter().map(|ns| *ns as f64).collect::<Vec<_>>());
            if let Some((achieved, wanted)) = setting.median_pps.zip(self.plan.pps)
                && achieved < wanted * KEPT
            {
                setting.refused.get_or_insert(format!("it sent {achieved:.0} of {wanted:.0} packets/s"));
            }
            if let Some(lost) = setting.lost.filter(|lost| *lost > 0) {
                let sent = setting.sent;
                setting.refused.get_or_insert(format!("{lost} of {sent} frames did not arrive at the other end"));
            }
        }
        let paced = self.plan.pps.is_some();
        let scores: Vec<Vec<f64>> = self.settings.iter().map(|setting| setting.scores(paced)).collect();
        let rounds = |at: &usize| self.settings[*at].refused.is_none() && !scores[*at].is_empty();
        let middle = |at: usize| median(&scores[at]).unwrap_or(0.0);
        let usable: Vec<usize> = (0..scores.len()).filter(rounds).collect();
        let best = usable.iter().copied().max_by(|a, b| middle(*a).total_cmp(&middle(*b)));
        let Some(best) = best else { return };
        for &at in &usable {
            let ratios: Vec<f64> = scores[at].iter().zip(&scores[best]).map(|(own, best)| own / best).collect();
            let setting = &mut self.settings[at];
            setting.of_best = median(&ratios);
            setting.interval = interval_of_median(ratios);
        }
        let alike = |at: &usize| self.settings[*at].interval.is_none_or(|[_, high]| high >= 1.0);
        self.chosen = if self.interrupted { None } else { usable.iter().copied().find(alike) };
    }

    /// The chosen settings as a section of an experiment.
    pub fn section(&self) -> Option<String> {
        let chosen = &self.settings[self.chosen?];
        let lines = chosen.keys.iter().map(|(key, value)| format!("{key} = {}\n", value.to_toml()));
        Some(format!("[{SECTION}]\n{}", lines.collect::<String>()))
    }
}

/// What the workers sent.
fn workers(finished: &Finished) -> Option<&RoleSummary> {
    finished.summary.as_ref()?.workers()
}

/// What the median of repeats lies between, at least 95 % sure, whatever their distribution is. None of fewer than six.
fn interval_of_median(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    // The (k + 1)-th smallest value is above the median as often as n throws of a coin have at most k heads; the same at the other end.
    let (mut term, mut below, mut inside) = (0.5f64.powi(n as i32), 0.0, 0);
    for k in 0..n / 2 {
        below += term;
        if 1.0 - 2.0 * below < SURE {
            break;
        }
        inside = k + 1;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    let first = inside.checked_sub(1)?;
    Some([values[first], values[n - 1 - first]])
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

impl Experiment {
    /// Sends the workers' frames of an experiment on an interface with each setting in turn. Trials are made in `out`, and removed. `told`
    /// is called before each trial, with its number among all and what it tries.
    pub fn tune(
        (catalogue, document): (&'static Catalogue, &Document),
        out: &Path,
        plan: &TuningPlan,
        task: &Task,
        told: &dyn Fn([usize; 2], &str),
    ) -> Result<Tuned> {
        plan.check()?;
        let length = trial_length(&plan.trial)? as f64 / SECOND as f64;
        let settings = plan.settings()?;
        let _claim = claim(out)?;
        let trial = Trial { catalogue, document, dir: &out.join("trial"), plan, task };
        let trials = settings.len() * (1 + plan.rounds as usize);
        let mut passes = vec![1; settings.len()];
        let mut tuned = Tuned { plan: plan.clone(), settings, chosen: None, interrupted: false };
        let mut of_usage = 0;
        // The first trial shows what is refused, and how many passes the others have: it is not compared.
        for round in 0..=plan.rounds as usize {
            for (at, setting) in tuned.settings.iter_mut().enumerate() {
                if setting.refused.is_some() {
                    continue;
                }
                told([round * passes.len() + at, trials], &setting.name());
                let made = trial.make(&setting.keys, passes[at]);
                if task.stop.load(Ordering::Relaxed) {
                    tuned.interrupted = true;
                    tuned.judge();
                    return Ok(tuned);
                }
                match made {
                    Ok((finished, arrived)) if round > 0 => setting.count(&finished, plan, arrived),
                    Ok((finished, _)) => {
                        let lasted = workers(&finished).and_then(|workers| workers.duration_s).unwrap_or(length);
                        passes[at] = (length / lasted).ceil().clamp(1.0, PASSES_MAX) as u32;
                    }
                    Err(error @ (Error::Host(_) | Error::Config(_))) => {
                        of_usage += usize::from(matches!(error, Error::Config(_)));
                        setting.refused = Some(error.to_string());
                    }
                    Err(other) => return Err(other),
                }
            }
        }
        if let (true, Some(why)) = (
            tuned.settings.iter().all(|setting| setting.refused.is_some()),
            tuned.settings.first().and_then(|setting| setting.refused.clone()),
        ) {
            let what = format!("no transport can be used on {}; the first: {why}", plan.interface);
            return Err(if of_usage == tuned.settings.len() { Error::Config(what) } else { Error::Host(what) });
        }
        tuned.judge();
        Ok(tuned)
    }
}

/// What trials have in common.
struct Trial<'a> {
    catalogue: &'static Catalogue,
    document: &'a Document,
    dir: &'a Path,
    plan: &'a TuningPlan,
    task: &'a Task<'a>,
}

impl Trial<'_> {
    /// A trial, at top speed of so many passes, and what arrived at the other end.
    fn make(&self, keys: &[(&str, Value)], passes: u32) -> Result<(Finished, Option<u64>)> {
        let plan = self.plan;
        let mut document = self.document.clone();
        let origin = || Origin::Flag("pktgen tune".into());
        let ends: &[&str] = &[&plan.interface, "", "", ""];
        let pacing = if plan.pps.is_some() { "deadlines" } else { "top" };
        document.set("workload.updates", UPDATES.into(), origin())?;
        document.set("workload.repeat", if plan.pps.is_some() { 0 } else { passes }.into(), origin())?;
        let own = [("interfaces", ends.into()), ("pacing", pacing.into())];
        for (key, value) in own.into_iter().chain(keys.iter().cloned()) {
            document.set(&format!("{SECTION}.{key}"), value, origin())?;
        }
        if let Some(pps) = plan.pps {
            document.set("schedule.pps", format!("{pps:.6}").into(), origin())?;
            document.set("capture.until", plan.trial.as_str().into(), origin())?;
        }
        let experiment = Experiment::open(self.catalogue, document)?;
        let peer = plan.peer.as_deref().and_then(InterfaceReading::of);
        let task = Task { roles: Roles::WORKERS, ..*self.task };
        let run = experiment.choose(None)?;
        // On a thread of its own: a part of a run gives up the rights of its thread for good, and the next trial needs them.
        let work = || experiment.execute_part(run, self.dir, &task);
        let made = std::thread::scope(|scope| scope.spawn(work).join())
            .unwrap_or_else(|_| Err(Error::Invalid("a trial panicked; please report this".into())));
        let arrived = peer.map(|before| {
            std::thread::sleep(SETTLE);
            before.since(End::Server.name()).rx_packets
        });
        if self.dir.exists() {
            std::fs::remove_dir_all(self.dir).map_err(Error::io("remove", self.dir))?;
        }
        Ok((made?, arrived))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuned(rates: &[&[f64]]) -> Tuned {
        let setting = |rates: &&[f64]| TunedSetting { pps: rates.to_vec(), ..TunedSetting::default() };
        let plan = TuningPlan { interface: "w0".into(), peer: None, pps: None, rounds: 6, trial: "1s".into() };
        Tuned { plan, settings: rates.iter().map(setting).collect(), chosen: None, interrupted: false }
    }

    #[test]
    fn the_simplest_that_cannot_be_told_from_the_best_is_chosen() {
        let noisy = [9.0, 11.0, 10.0, 10.5, 9.5, 10.0];
        let mut all = tuned(&[&[5.0; 6], &noisy, &[10.4; 6]]);
        all.judge();
        assert_eq!(all.chosen, Some(1), "{all:?}");
        assert_eq!(all.settings[0].of_best, Some(5.0 / 10.4));
        // What is slower in every round is told from it.
        let slower = noisy.map(|rate| rate * 0.99);
        let mut all = tuned(&[&slower, &noisy]);
        all.judge();
        assert_eq!((all.chosen, all.settings[0].interval.map(|[_, high]| high < 1.0)), (Some(1), Some(true)));
    }

    #[test]
    fn what_loses_is_not_chosen_and_neither_is_half_a_round() {
        let mut all = tuned(&[&[10.0; 6], &[8.0; 6]]);
        (all.settings[0].lost, all.settings[0].sent) = (Some(1), 60);
        all.judge();
        assert_eq!(all.chosen, Some(1));
        assert!(all.settings[0].refused.as_deref().is_some_and(|why| why.starts_with("1 of 60 frames")));
        let mut cut = tuned(&[&[10.0; 2], &[8.0]]);
        cut.interrupted = true;
        cut.judge();
        assert_eq!((cut.chosen, cut.settings[0].interval), (None, None));
    }

    #[test]
    fn intervals_of_a_median_leave_outliers_out_where_there_are_enough_rounds() {
        // From tables of the binomial distribution at 1/2.
        for (n, first) in [(6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (17, 4), (20, 5), (100, 39)] {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            assert_eq!(interval_of_median(values), Some([f64::from(first), f64::from(n - 1 - first)]), "{n}");
        }
        assert_eq!(interval_of_median(vec![1.0; 5]), None);
    }

    #[test]
    fn less_lateness_is_better() {
        let mut all = tuned(&[&[1.0; 6], &[1.0; 6]]);
        all.plan.pps = Some(1.0);
        all.settings[0].late_p99_ns = vec![900; 6];
        all.settings[1].late_p99_ns = vec![300; 6];
        all.judge();
        assert_eq!((all.chosen, all.settings[0].of_best), (Some(1), Some(1.0 / 3.0)));
    }

    #[test]
    fn a_section_is_one_that_an_experiment_can_have() {
        let keys = vec![("kind", Value::from("af_xdp")), ("queues", 2u32.into()), ("zero_copy", true.into())];
        let mut all = tuned(&[&[1.0; 6]]);
        all.settings[0].keys.clone_from(&keys);
        all.judge();
        let text = all.section().unwrap();
        let read = Document::parse(&text, "tuned.toml").unwrap();
        assert!(keys.iter().all(|(key, value)| read.get(&format!("transport.{key}")) == Some(value)), "{text}");
        assert_eq!(all.settings[0].name(), "af_xdp, queues = 2, zero_copy = true");
    }
}
