//! Search for the settings of `[transport]` with which this host sends fastest on an interface, or keeps deadlines best (docs/tune.md).
//!
//! Settings take turns, so that other activity of the host affects all of them, and ratios are taken within rounds.

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

/// The tuned section of an experiment.
const SECTION: &str = "transport";
/// Keys that trials set.
const SET: [&str; 7] = [
    "workload.updates",
    "workload.repeat",
    "transport.interfaces",
    "transport.pacing",
    "transport.kind",
    "transport.queues",
    "transport.zero_copy",
];
/// Keys that they also set at a requested rate.
const SET_PACED: [&str; 3] = ["transport.wait", "schedule.pps", "capture.until"];
/// With fewer rounds, the confidence of a median's interval is below 95 %.
const ROUNDS_LEAST: u32 = 6;
/// Confidence of the intervals.
const SURE: f64 = 0.95;
/// Minimum share of a requested rate that a setting must send.
const KEPT: f64 = 0.999;
/// Updates of a worker in one pass: a trial's length is in passes.
const UPDATES: u32 = 2000;
/// Maximum number of repetitions of the workload in a trial.
const PASSES_MAX: f64 = 100_000.0;
/// Maximum time of a trial's frames to the other end.
const SETTLE: Duration = Duration::from_millis(20);

/// Parameters of a tuning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TuningPlan {
    /// The interface that sends.
    pub interface: String,
    /// The interface at the other end of the cable, if it is on this host: it counts arrivals.
    pub peer: Option<String>,
    /// The rate at which deadlines are to be kept, in packets/s; none for the maximum rate.
    pub pps: Option<f64>,
    /// Rounds, in each of which every setting has a trial.
    pub rounds: u32,
    /// Length of a trial.
    pub trial: String,
}

/// The result of a setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TunedSetting {
    /// Keys and values in the notation of `--set`.
    pub set: Vec<String>,
    #[serde(skip)]
    keys: Vec<(&'static str, Value)>,
    /// Rate of each round, in packets/s.
    pub pps: Vec<f64>,
    /// The share of a requested rate that was reached.
    #[serde(skip)]
    of_rate: Vec<f64>,
    /// With a requested rate: 99 % of the lateness of frames that the host did not delay, of each round.
    pub late_p99_ns: Vec<u64>,
    /// Median rate; none without a trial.
    pub median_pps: Option<f64>,
    /// Median lateness.
    pub median_late_ns: Option<f64>,
    /// Median over the rounds of the setting's score relative to the best setting's (rates, or inverse lateness). None
    /// if it was not compared.
    pub of_best: Option<f64>,
    /// Interval of that median with at least 95 % confidence.
    pub interval: Option<[f64; 2]>,
    /// Frames that were sent in all rounds.
    pub sent: u64,
    /// Frames that did not arrive at the other end; none if that is not on this host.
    pub lost: Option<u64>,
    /// Why it cannot be used here.
    pub refused: Option<String>,
}

/// The result of a tuning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    /// The parameters.
    pub plan: TuningPlan,
    /// All settings, the simplest first.
    pub settings: Vec<TunedSetting>,
    /// Index of the chosen setting: the simplest that is not distinguishable from the best. None if none can be used.
    pub chosen: Option<usize>,
    /// Whether the user requested a stop, so that rounds are missing.
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
                Err(Error::Host(format!("--peer {peer}: there is no such interface in this network namespace")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a `--set` of a key that trials set: it would have no effect.
    fn check_set(&self, document: &Document) -> Result<()> {
        let paced = SET_PACED.into_iter().filter(|_| self.pps.is_some());
        for path in SET.into_iter().chain(paced) {
            let written = document.origin(path).filter(|origin| matches!(origin, Origin::Flag(_)));
            if let Some(written) = written {
                return Err(Error::config(format!("{written}: pktgen tune sets {path} itself; leave it out")));
            }
        }
        Ok(())
    }

    /// Returns every setting to try, the simplest first: transports that send on interfaces, with up to as many queues
    /// as the interface has and, if deadlines are kept, each waiting method.
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
            for queues in counts(most) {
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

/// Numbers of queues to try: powers of two, and all, since AF_XDP needs all queues of an interface.
fn counts(most: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1), move |n| (*n < most).then(|| (n * 2).min(most)))
}

impl TunedSetting {
    fn of(keys: Vec<(&'static str, Value)>) -> Self {
        let set = keys.iter().map(|(key, value)| format!("{SECTION}.{key}={}", value.to_label())).collect();
        TunedSetting { set, keys, ..TunedSetting::default() }
    }

    /// Returns a short name.
    pub fn name(&self) -> String {
        let named = |(key, value): &(&str, Value)| match (*key, value) {
            ("kind", kind) => Some(kind.to_label()),
            ("queues", Value::Integer(1)) => None,
            _ => Some(format!("{key} = {}", value.to_label())),
        };
        self.keys.iter().filter_map(named).collect::<Vec<_>>().join(", ")
    }

    /// Returns the score of each round: higher is better.
    fn scores(&self, paced: bool) -> Vec<f64> {
        match paced {
            true => self.late_p99_ns.iter().map(|ns| 1.0 / (*ns).max(1) as f64).collect(),
            false => self.pps.clone(),
        }
    }

    /// Records a trial, or that the setting cannot be used.
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
        let Some(wanted) = plan.pps else { return };
        self.of_rate.extend(workers.share_of(wanted));
        match workers.late_others_p99_ns.or(workers.late_p99_ns) {
            Some(ns) => self.late_p99_ns.push(ns),
            None => _ = self.refused.get_or_insert("too few frames to say how late they left".into()),
        }
    }
}

impl Tuned {
    /// Compares the usable settings, and chooses.
    fn judge(&mut self) {
        for setting in &mut self.settings {
            setting.median_pps = median(&setting.pps);
            setting.median_late_ns = median(&setting.late_p99_ns.iter().map(|ns| *ns as f64).collect::<Vec<_>>());
            if let Some((share, wanted)) = median(&setting.of_rate).zip(self.plan.pps)
                && share < KEPT
            {
                let sent = (share * wanted).floor();
                setting.refused.get_or_insert(format!("it sent {sent:.0} of {wanted:.0} packets/s"));
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

    /// Returns the chosen settings as a section of an experiment.
    pub fn section(&self) -> Option<String> {
        let chosen = &self.settings[self.chosen?];
        let lines = chosen.keys.iter().map(|(key, value)| format!("{key} = {}\n", value.to_toml()));
        Some(format!("[{SECTION}]\n{}", lines.collect::<String>()))
    }
}

/// Returns the workers' traffic.
fn workers(finished: &Finished) -> Option<&RoleSummary> {
    finished.summary.as_ref()?.workers()
}

/// Returns the interval of the median of repeats with at least 95 % confidence, for any distribution. `None` for fewer than six.
fn interval_of_median(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    // The (k + 1)-th smallest value is above the median as often as n coin tosses have at most k heads; the same at the other end.
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
    /// Sends the workers' frames of an experiment on an interface with each setting in turn. Trials are made in `out`,
    /// and removed. Calls `told` before each trial, with its number and its setting.
    pub fn tune(
        (catalogue, document): (&'static Catalogue, &Document),
        out: &Path,
        plan: &TuningPlan,
        task: &Task,
        told: &dyn Fn([usize; 2], &str),
    ) -> Result<Tuned> {
        plan.check()?;
        plan.check_set(document)?;
        let length = trial_length(&plan.trial)? as f64 / SECOND as f64;
        let settings = plan.settings()?;
        let claim = claim(out)?;
        let trial = Trial { catalogue, document, dir: &out.join("trial"), plan, task };
        let trials = settings.len() * (1 + plan.rounds as usize);
        let mut passes = vec![1; settings.len()];
        let mut tuned = Tuned { plan: plan.clone(), settings, chosen: None, interrupted: false };
        let mut of_usage = 0;
        // The first trial shows refusals, and determines the number of passes of the others: it is not compared.
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
                    claim.keep();
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
            // What settings lose or cannot show in later rounds is in the table.
            if let (true, Some(why)) = (
                round == 0 && tuned.settings.iter().all(|setting| setting.refused.is_some()),
                tuned.settings.first().and_then(|setting| setting.refused.clone()),
            ) {
                // Equal refusals are of the experiment, not of a transport.
                if of_usage == tuned.settings.len()
                    && tuned.settings.iter().all(|setting| setting.refused.as_deref() == Some(&*why))
                {
                    return Err(Error::Config(why));
                }
                let what = format!("no transport can be used on {}; the first: {why}", plan.interface);
                return Err(if of_usage == tuned.settings.len() { Error::Config(what) } else { Error::Host(what) });
            }
        }
        tuned.judge();
        claim.keep();
        Ok(tuned)
    }
}

/// The common part of trials.
struct Trial<'a> {
    catalogue: &'static Catalogue,
    document: &'a Document,
    dir: &'a Path,
    plan: &'a TuningPlan,
    task: &'a Task<'a>,
}

impl Trial<'_> {
    /// Makes a trial, at top speed with `passes` passes; returns also the arrivals at the other end.
    fn make(&self, keys: &[(&str, Value)], passes: u32) -> Result<(Finished, Option<u64>)> {
        let plan = self.plan;
        let mut document = self.document.clone();
        leave_out_models(&mut document)?;
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
        let task = Task { roles: Roles::WORKERS, is_trial: true, ..*self.task };
        let [run] = &experiment.runs[..] else {
            let runs = experiment.runs.len();
            return Err(Error::config(format!(
                "--set of [sweep]: trials are of one run, and this makes {runs}; leave it out"
            )));
        };
        // In a separate thread: a part of a run drops the privileges of its thread for good, and the next trial needs them.
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

/// Acknowledgements, which no trial sends, carry no model unless one is asked for: else they would be the longest frames, and limit the
/// size of those that are sent.
fn leave_out_models(document: &mut Document) -> Result<()> {
    const MODEL: &str = "endpoint.ack_model";
    let is_asked = [MODEL, "endpoint.workers"].iter().any(|key| document.get(key).is_some());
    let of_updates = matches!(document.get("workload.kind"), Some(Value::Text(kind)) if kind == "rl");
    if is_asked || !of_updates {
        return Ok(());
    }
    document.set(MODEL, "none".into(), Origin::Default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_carry_no_model_unless_one_is_asked_for() {
        let model = |text: &str| {
            let mut document = Document::parse(text, "x.toml").unwrap();
            leave_out_models(&mut document).unwrap();
            document.get("endpoint.ack_model").cloned()
        };
        let updates = "[workload]\nkind = \"rl\"\n";
        assert_eq!(model(updates), Some(Value::Text("none".into())));
        let asked = format!("{updates}[endpoint]\nack_model = \"average\"\n");
        assert_eq!(model(&asked), Some(Value::Text("average".into())));
        let others = format!("{updates}[endpoint]\nworkers = \"learner\"\n");
        assert_eq!([model(&others), model("[workload]\nkind = \"dense\"\n")], [None, None]);
    }

    #[test]
    fn all_queues_are_tried_too() {
        let of = |most| counts(most).collect::<Vec<_>>();
        assert_eq!((of(1), of(4), of(12)), (vec![1], vec![1, 2, 4], vec![1, 2, 4, 8, 12]));
    }

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
        // A setting that is slower in every round is distinguished.
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
        // From tables of the binomial distribution with p = 1/2.
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
    fn a_setting_that_does_not_reach_the_rate_of_the_due_times_is_refused() {
        // Few frames of a schedule have another rate than all of it.
        let mut all = tuned(&[&[92.0; 6], &[92.0; 6]]);
        all.plan.pps = Some(100.0);
        for (setting, share) in all.settings.iter_mut().zip([0.998, 0.9995]) {
            (setting.late_p99_ns, setting.of_rate) = (vec![900; 6], vec![share; 6]);
        }
        all.judge();
        let refused: Vec<_> = all.settings.iter().map(|setting| setting.refused.as_deref()).collect();
        assert_eq!((refused, all.chosen), (vec![Some("it sent 99 of 100 packets/s"), None], Some(1)));
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
