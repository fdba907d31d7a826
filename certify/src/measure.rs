//! Carries out performance clauses: measures, and compares with goals.

use pktgen_core::time::{MS, SECOND, Time, US};
use pktgen_core::{Error, Result};
use pktgen_engine::clause::{LoadAccount, LoadMeasure, LoadPhase, OfferedLoad};
use pktgen_realtime::run::{Attempt, JudgedTrial, Limiter, RateFound, Search, search_trials};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::certificate::ClauseVerdict;
use crate::profile::MeasurePlan;
use crate::trial::{MadeTrial, NoTrial, TrialMaker};

/// The maximum tried rate, per second.
const TO_PPS: f64 = 1e8;
/// Maximum number of loads that a search tries.
const TRIALS: u32 = 200;
/// Minimum number of frames, or of rounds of them, in a trial.
const LEAST: u64 = 10;
/// On wires, if at most one in this many frames was not sent in time, the trial gives no decision on the device.
const LATE_SHARE: u64 = 100;
/// Maximum length of trials in virtual time, and the factor by which they are lengthened.
const LONGEST: Time = 100 * SECOND;
const LONGER: i64 = 10;
/// Shares of the throughput at which latency is measured, in percent.
pub(crate) const SHARES: [u32; 3] = [10, 50, 90];
/// The overload, as a share of the highest rate without loss (RFC 2544, 26.5), and the load that follows it.
const OVERLOAD: [f64; 2] = [1.1, 0.5];
/// Load offered to clusters that share, as a share of the lossless rate of those that do not.
const SHARING: f64 = 1.5;

/// Shares of the throughput at which ages are measured, in percent.
pub(crate) const AGED: [u32; 5] = [10, 50, 100, 150, 200];

/// A measured number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredNumber {
    /// Its name.
    pub name: String,
    /// Its value; none if it could not be measured.
    pub value: Option<f64>,
    /// Its unit; empty for a share.
    pub unit: String,
    /// The reason why there is none, or what limited it, if not the device.
    pub why: Option<String>,
}

impl MeasuredNumber {
    fn of(name: impl Into<String>, value: impl Into<Option<f64>>, unit: &str) -> Self {
        MeasuredNumber { name: name.into(), value: value.into(), unit: unit.into(), why: None }
    }

    fn none(name: impl Into<String>, unit: &str, why: impl Into<String>) -> Self {
        MeasuredNumber { name: name.into(), value: None, unit: unit.into(), why: Some(why.into()) }
    }

    /// Returns the number in words, for example "lower_bound 123 contributions/s".
    pub fn words(&self) -> String {
        let gap = if self.unit.is_empty() { "" } else { " " };
        match (self.value, &self.why) {
            (Some(value), None) => format!("{} {}{gap}{}", self.name, number(value), self.unit),
            (Some(value), Some(why)) => format!("{} {}{gap}{} ({why})", self.name, number(value), self.unit),
            (None, why) => format!("{} not decidable ({})", self.name, why.as_deref().unwrap_or("no value")),
        }
    }
}

/// Formats a number for lines and tables.
pub(crate) fn number(value: f64) -> String {
    let digits = if value == value.trunc() || value.abs() >= 1000.0 { 0 } else { 3 };
    format!("{value:.digits$}")
}

/// The result of a performance clause.
pub(crate) struct MeasureResult {
    pub(crate) verdict: ClauseVerdict,
    /// Why it is not decidable or failed.
    pub(crate) why: String,
    pub(crate) measured: Vec<MeasuredNumber>,
    /// All trials.
    pub(crate) trials: Value,
}

impl MeasureResult {
    fn not_decidable(why: impl Into<String>, trials: Value) -> Self {
        MeasureResult { verdict: ClauseVerdict::NotDecidable, why: why.into(), measured: Vec::new(), trials }
    }

    fn stopped(stop: NoTrial, trials: Value) -> Self {
        match stop {
            NoTrial::Impossible(why) => Self::not_decidable(why, trials),
            NoTrial::Ended(why) => MeasureResult {
                verdict: ClauseVerdict::Failed,
                why: format!("the device: expected runs on until it is to quit, observed {why}"),
                measured: Vec::new(),
                trials,
            },
        }
    }

    /// Returns the measurements, judged if there is a goal: the number must be at least (or at most) the goal.
    fn judged(measured: Vec<MeasuredNumber>, trials: Value, goal: Option<GoalCheck>) -> Self {
        let mut own = MeasureResult { verdict: ClauseVerdict::Measured, why: String::new(), measured, trials };
        let Some(GoalCheck { key, name, goal, at_least, is_open }) = goal else { return own };
        let value = own.measured.iter().find(|it| it.name == name).and_then(|it| it.value);
        let bound = if at_least { "at least" } else { "at most" };
        let is_met = value.map(|value| if at_least { value >= goal } else { value <= goal });
        (own.verdict, own.why) = match (is_met, is_open) {
            (Some(true), _) => (ClauseVerdict::Passed, String::new()),
            (Some(false), false) => {
                let observed = value.unwrap_or_default();
                (
                    ClauseVerdict::Failed,
                    format!("{name}: expected {bound} {goal} (certify.{key}), observed {observed:.3}"),
                )
            }
            _ => (
                ClauseVerdict::NotDecidable,
                format!("{name}: whether it is {bound} {goal} (certify.{key}) was not measured"),
            ),
        };
        own
    }
}

/// The goal for a number.
struct GoalCheck {
    key: &'static str,
    name: &'static str,
    goal: f64,
    at_least: bool,
    /// What does not meet it may do so beyond what this bench can measure.
    is_open: bool,
}

/// Measurements of earlier clauses of the certificate.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Earlier {
    pub(crate) throughput: Option<f64>,
    /// The length of its trials.
    pub(crate) trial: Option<Time>,
    pub(crate) shortest_burst: Option<u64>,
}

fn micros(time: Time) -> f64 {
    time as f64 / US as f64
}

/// Returns a trial as evidence.
fn said(pps: Option<f64>, trial: &MadeTrial) -> Value {
    let LoadAccount { offered, forwarded, unsent, wrong, merged, replaced, untold, .. } = trial.account;
    json!({
        "pps": pps, "offered": offered, "forwarded": forwarded, "unsent": unsent, "wrong": wrong, "merged": merged,
        "replaced": replaced, "untold": untold, "lost": trial.account.lost(), "bench_limit": trial.bench_limit,
    })
}

/// Carries out a performance clause.
pub(crate) fn carry_out(
    measure: LoadMeasure,
    repeats: u32,
    maker: &mut TrialMaker,
    plan: &MeasurePlan,
    earlier: Earlier,
) -> Result<MeasureResult> {
    match measure {
        LoadMeasure::Throughput => throughput(maker, plan),
        LoadMeasure::Burst => bursts(maker, plan, repeats),
        LoadMeasure::Repeats => recovery_of_results(maker, plan, repeats, earlier),
        other => {
            let Some(pps) = earlier.throughput else {
                let why = "the throughput was not measured in this certificate; take its clause, too";
                return Ok(MeasureResult::not_decidable(why, Value::Null));
            };
            // Trials have the length that the throughput needed.
            let longer = earlier.trial.map_or(1, |trial| trial / plan.goal.trial_ps.max(1)).max(1);
            let plan = plan.longer(longer);
            match other {
                LoadMeasure::Latency => latency(maker, &plan, repeats, pps),
                LoadMeasure::Overload => overload(maker, &plan, repeats, pps),
                LoadMeasure::Isolation => isolation(maker, &plan, pps),
                LoadMeasure::Age => ages(maker, &plan, repeats, pps),
                _ => sharing(maker, &plan, pps),
            }
        }
    }
}

/// Judges whether a trial kept to its rate; `on_wires`, a stall of the host may have prevented it.
fn judge(trial: &MadeTrial, allowed: f64, on_wires: bool) -> JudgedTrial {
    let account = &trial.account;
    let loss = account.loss();
    let (lost, unsent, offered) = (account.lost() + account.wrong, account.unsent, account.offered);
    let attempt = match &trial.bench_limit {
        _ if account.last_back.is_none() => Attempt::NothingBack,
        // All sent frames were forwarded, and the end of the schedule is within the permitted lateness of a bench.
        None if on_wires && loss > allowed && lost == 0 && unsent > 0 && unsent * LATE_SHARE <= offered => {
            Attempt::Failed(
                format!(
                    "the bench or the loop stalled: all that was sent was forwarded, and the last {unsent} of {offered} were not sent in time"
                ),
                Limiter::Host,
            )
        }
        // The losses are within the goal, although the bench may have caused some.
        Some(_) if trial.is_offered && loss <= allowed => Attempt::Passed(format!("{} forwarded", account.forwarded)),
        Some(why) => Attempt::Failed(why.clone(), Limiter::Host),
        None if loss > allowed => Attempt::Failed(
            format!("{} of {} were not forwarded", account.offered - account.forwarded, account.offered),
            Limiter::Device,
        ),
        None => Attempt::Passed(format!("{} forwarded", account.forwarded)),
    };
    let is_known = trial.bench_limit.is_none() || matches!(attempt, Attempt::Passed(_));
    JudgedTrial { attempt, loss: is_known.then_some(loss) }
}

/// The end of a search by trials of one length.
enum SearchEnd {
    Found(Box<RateFound>),
    /// The trials are too short, with the reason.
    TooShort(String),
    Stopped(NoTrial),
}

/// The rate forwarded by a trial that lost none of its sent frames, and its offered rate.
#[derive(Debug, Clone, Copy)]
struct Forwarded {
    offered_pps: f64,
    pps: f64,
}

impl Forwarded {
    fn of(offered_pps: f64, account: &LoadAccount, length: Time) -> Self {
        let span = account.last_back.unwrap_or_default().max(length);
        Forwarded { offered_pps, pps: account.forwarded as f64 * SECOND as f64 / span as f64 }
    }
}

/// Returns the reason why a bound is invalid: another trial forwarded more.
fn contradicted(upper: f64, precision: f64, all: &[Forwarded], unit: &str) -> Option<String> {
    let most = all.iter().copied().max_by(|a, b| a.pps.total_cmp(&b.pps))?;
    (most.pps > upper * (1.0 + precision)).then(|| {
        format!(
            "not monotonic: trials at {upper:.0} {unit} failed, and one at {:.0} {unit} forwarded {:.0} {unit}; the host stalled, or the device is not steady",
            most.offered_pps, most.pps
        )
    })
}

/// Runs a search. `all` collects all trials, and `forwarded` the rates forwarded by those of this length.
fn search_once(
    maker: &mut TrialMaker,
    plan: &MeasurePlan,
    all: &mut Vec<Value>,
    forwarded: &mut Vec<Forwarded>,
) -> Result<SearchEnd> {
    forwarded.clear();
    let on_wires = maker.ground.patience > 0;
    let (length, step) = (plan.goal.trial_ps, (maker.model.step)(maker.ground).max(1));
    // In milliseconds.
    let said_length = length as f64 / MS as f64;
    let least = LEAST * step;
    let search = Search {
        from_pps: plan.from_pps.max(2.0 * (least * SECOND as u64) as f64 / length as f64).min(TO_PPS),
        to_pps: TO_PPS,
        precision: plan.precision,
        confirm: 0,
        trials: TRIALS,
        goal: Some(plan.goal),
    };
    // For rates that passed: how long after the trial frames came back.
    let (mut end, mut tails) = (None, Vec::new());
    let found = search_trials(&search, length, 1.0, &mut |pps, draw| {
        let phase = LoadPhase::rate(pps, length);
        if phase.count < least {
            end = Some(SearchEnd::TooShort(format!(
                "trials of {said_length} ms have fewer than {least} {} at {pps:.1} per second; give a longer certify.trial",
                maker.model.unit
            )));
            return Ok(None);
        }
        let trial = match maker.one(OfferedLoad::of(phase, draw))? {
            Ok(trial) => trial,
            Err(stop) => {
                end = Some(SearchEnd::Stopped(stop));
                return Ok(None);
            }
        };
        all.push(said(Some(pps), &trial));
        let LoadAccount { forwarded: through, unsent, offered, .. } = trial.account;
        // A lossy device may forward more at higher rates; a loop without loss was only stalled at lower ones.
        if through + unsent == offered {
            forwarded.push(Forwarded::of(pps, &trial.account, length));
        }
        let judged = judge(&trial, plan.goal.loss, on_wires);
        if let (Attempt::Passed(_), Some(last)) = (&judged.attempt, trial.account.last_back) {
            tails.push((pps, last - length));
        }
        Ok(Some(judged))
    })?;
    let tail = tails.iter().filter(|(pps, _)| Some(*pps) == found.pps).map(|(_, tail)| *tail).max();
    Ok(match (end, tail) {
        (Some(end), _) => end,
        // Frames still in the device at the end of a trial have not passed at its rate.
        (None, Some(tail)) if tail as f64 > length as f64 * plan.precision => SearchEnd::TooShort(format!(
            "frames came back until {:.3} ms behind trials of {said_length} ms, which is above certify.precision; give a longer certify.trial",
            tail as f64 / MS as f64
        )),
        _ => SearchEnd::Found(Box::new(found)),
    })
}

fn throughput(maker: &mut TrialMaker, plan: &MeasurePlan) -> Result<MeasureResult> {
    let (mut plan, mut all, mut forwarded) = (*plan, Vec::new(), Vec::new());
    let found = loop {
        match search_once(maker, &plan, &mut all, &mut forwarded)? {
            SearchEnd::Found(found) => break found,
            SearchEnd::TooShort(_) if plan.may_lengthen && plan.goal.trial_ps < LONGEST => plan = plan.longer(LONGER),
            SearchEnd::TooShort(why) => return Ok(MeasureResult::not_decidable(why, json!(all))),
            SearchEnd::Stopped(stop) => return Ok(MeasureResult::stopped(stop, json!(all))),
        }
    };
    let unit = format!("{}/s", maker.model.unit);
    let mut trials = serde_json::to_value(&found).map_err(|e| Error::Invalid(e.to_string()))?;
    trials["accounts"] = json!(all);
    let last = found.trials.iter().rfind(|trial| !trial.passed).map(|trial| trial.why.clone());
    let Some(lower) = found.pps else {
        let why = format!("{}: {}", found.ended, last.unwrap_or_default());
        return Ok(MeasureResult::not_decidable(why, trials));
    };
    // A failure of the bench is no bound of the device, nor is one that another trial contradicts.
    let no_bound = found.failed_pps.and_then(|upper| match found.limited_by {
        Some(Limiter::Device) => contradicted(upper, plan.precision, &forwarded, &unit),
        _ => Some(last.unwrap_or_default()),
    });
    let is_open = found.failed_pps.is_none() || no_bound.is_some();
    let upper = match (found.failed_pps, &no_bound) {
        (Some(upper), None) => MeasuredNumber::of("upper_bound", upper, &unit),
        (Some(_), Some(why)) => MeasuredNumber::none("upper_bound", &unit, why),
        (None, _) => MeasuredNumber::none("upper_bound", &unit, found.ended.clone()),
    };
    let least = no_bound.map(|_| "at least: what ended the search is not the device's".to_owned());
    let measured = vec![
        MeasuredNumber { why: least, ..MeasuredNumber::of("lower_bound", lower, &unit) },
        upper,
        MeasuredNumber::of("conditional_throughput", found.conditional_pps, &unit),
        MeasuredNumber::of("trial", plan.goal.trial_ps as f64 / MS as f64, "ms"),
    ];
    let goal =
        plan.throughput.map(|goal| GoalCheck { key: "throughput", name: "lower_bound", goal, at_least: true, is_open });
    Ok(MeasureResult::judged(measured, trials, goal))
}

/// Returns the longest burst without loss, between one that passed and one that did not.
fn longest_burst(
    maker: &mut TrialMaker,
    longest: u64,
    all: &mut Vec<Value>,
) -> Result<std::result::Result<u64, NoTrial>> {
    let step = (maker.model.step)(maker.ground).max(1);
    let (mut low, mut high) = (0, longest / step + 1);
    // Try the maximum first: most devices pass it.
    let mut at = longest / step;
    while high - low > 1 {
        let trial = match maker.one(OfferedLoad::of(LoadPhase::burst(at * step), 0))? {
            Ok(trial) => trial,
            Err(stop) => return Ok(Err(stop)),
        };
        all.push(said(None, &trial));
        if let Some(why) = trial.bench_limit {
            return Ok(Err(NoTrial::Impossible(why)));
        }
        let end = if trial.account.forwarded == trial.account.offered { &mut low } else { &mut high };
        *end = at;
        at = low.midpoint(high);
    }
    Ok(Ok(low * step))
}

fn bursts(maker: &mut TrialMaker, plan: &MeasurePlan, repeats: u32) -> Result<MeasureResult> {
    let (longest, limit) = (maker.model.longest)(maker.ground, maker.memory);
    let unit = maker.model.unit;
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        match longest_burst(maker, longest, &mut all)? {
            Ok(burst) => found.push(burst),
            Err(stop) => return Ok(MeasureResult::stopped(stop, json!(all))),
        }
    }
    let (Some(shortest), Some(most)) = (found.iter().min().copied(), found.iter().max().copied()) else {
        return Ok(MeasureResult::not_decidable("no burst was tried", json!(all)));
    };
    let mean = found.iter().sum::<u64>() as f64 / found.len() as f64;
    let variance = found.iter().map(|one| (*one as f64 - mean).powi(2)).sum::<f64>() / found.len() as f64;
    let is_open = shortest == longest;
    let mut measured = vec![
        MeasuredNumber::of("shortest", shortest as f64, unit),
        MeasuredNumber::of("average", mean, unit),
        MeasuredNumber::of("longest", most as f64, unit),
        MeasuredNumber::of("standard_deviation", variance.sqrt(), unit),
    ];
    if is_open {
        measured.push(MeasuredNumber::none("limit", unit, format!("bursts of {longest} came through, and {limit}")));
    } else {
        measured.push(MeasuredNumber::of("limit", most as f64, unit));
    }
    let goal = plan.burst.map(|goal| goal as f64);
    let goal = goal.map(|goal| GoalCheck { key: "burst", name: "shortest", goal, at_least: true, is_open });
    Ok(MeasureResult::judged(measured, json!({ "bursts": found, "accounts": all }), goal))
}

/// Latency of several trials at one rate.
#[derive(Default)]
struct LatencyOfTrials {
    middles: Vec<Time>,
    tails: Vec<Time>,
    range: Option<(Time, Time)>,
    offered: u64,
    forwarded: u64,
}

impl LatencyOfTrials {
    fn add(&mut self, mut account: LoadAccount) {
        self.middles.extend(account.latency.quantile(0.5));
        self.tails.extend(account.latency.quantile(0.99));
        if let Some((low, high)) = account.latency.range() {
            let (a, b) = self.range.unwrap_or((low, high));
            self.range = Some((a.min(low), b.max(high)));
        }
        self.offered += account.offered;
        self.forwarded += account.forwarded;
    }

    fn measured(&self, at: &str) -> Vec<MeasuredNumber> {
        let mean =
            |all: &[Time]| (!all.is_empty()).then(|| all.iter().copied().map(micros).sum::<f64>() / all.len() as f64);
        let number = |name: &str, value: Option<f64>| match value {
            Some(value) => MeasuredNumber::of(format!("{name}_{at}"), value, "µs"),
            None => MeasuredNumber::none(format!("{name}_{at}"), "µs", "nothing came back"),
        };
        vec![
            number("least", self.range.map(|range| micros(range.0))),
            number("p50", mean(&self.middles)),
            number("p99", mean(&self.tails)),
            number("most", self.range.map(|range| micros(range.1))),
            MeasuredNumber::of(format!("loss_{at}"), 1.0 - self.forwarded as f64 / self.offered.max(1) as f64, ""),
        ]
    }
}

fn latency(maker: &mut TrialMaker, plan: &MeasurePlan, repeats: u32, pps: f64) -> Result<MeasureResult> {
    let (mut measured, mut all) = (Vec::new(), Vec::new());
    for share in SHARES {
        let (rate, mut own, mut limit) = (pps * f64::from(share) / 100.0, LatencyOfTrials::default(), None);
        for _ in 0..repeats {
            let trial = match maker.one(OfferedLoad::of(LoadPhase::rate(rate, plan.goal.trial_ps), 0))? {
                Ok(trial) => trial,
                Err(stop) => return Ok(MeasureResult::stopped(stop, json!(all))),
            };
            all.push(said(Some(rate), &trial));
            match trial.bench_limit {
                None => own.add(trial.account),
                Some(why) => limit = Some(why),
            }
        }
        // One trial that the bench did not spoil is enough.
        if let Some(why) = limit.filter(|_| own.offered == 0) {
            return Ok(MeasureResult::not_decidable(why, json!(all)));
        }
        measured.extend(own.measured(&format!("at_{share}")));
    }
    let goal = plan.latency.map(micros);
    let goal = goal.map(|goal| GoalCheck { key: "latency", name: "p99_at_50", goal, at_least: false, is_open: false });
    Ok(MeasureResult::judged(measured, json!(all), goal))
}

/// Returns the longest of some recoveries, judged by its goal.
fn recoveries(mut measured: Vec<MeasuredNumber>, times: &[Time], all: Vec<Value>, plan: &MeasurePlan) -> MeasureResult {
    let mean = times.iter().copied().map(micros).sum::<f64>() / times.len().max(1) as f64;
    measured.push(MeasuredNumber::of("average", mean, "µs"));
    measured.push(MeasuredNumber::of("longest", times.iter().copied().max().map(micros), "µs"));
    let goal = plan.recovery.map(micros);
    let goal = goal.map(|goal| GoalCheck { key: "recovery", name: "longest", goal, at_least: false, is_open: false });
    MeasureResult::judged(measured, json!(all), goal)
}

fn recovery_of_results(
    maker: &mut TrialMaker,
    plan: &MeasurePlan,
    repeats: u32,
    earlier: Earlier,
) -> Result<MeasureResult> {
    let (longest, _) = (maker.model.longest)(maker.ground, maker.memory);
    let burst = earlier.shortest_burst.map_or(longest, |burst| burst.min(longest));
    let (mut times, mut all) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        let trial = match maker.lost_results(OfferedLoad::of(LoadPhase::burst(burst), 0))? {
            Ok(trial) => trial,
            Err(stop) => return Ok(MeasureResult::stopped(stop, json!(all))),
        };
        all.push(said(None, &trial));
        let LoadAccount { offered, forwarded, wrong, last_back, .. } = trial.account;
        match (trial.bench_limit, last_back) {
            (Some(why), _) => return Ok(MeasureResult::not_decidable(why, json!(all))),
            (None, Some(time)) if forwarded == offered => times.push(time),
            _ => {
                let why = format!(
                    "of {offered} contributions whose results were lost {forwarded} had right results again, and {wrong} wrong ones"
                );
                return Ok(MeasureResult::not_decidable(why, json!(all)));
            }
        }
    }
    Ok(recoveries(vec![MeasuredNumber::of("window", burst as f64, maker.model.unit)], &times, all, plan))
}

fn overload(maker: &mut TrialMaker, plan: &MeasurePlan, repeats: u32, pps: f64) -> Result<MeasureResult> {
    let length = plan.goal.trial_ps;
    let (mut times, mut all, mut lost) = (Vec::new(), Vec::new(), 0);
    for _ in 0..repeats {
        let phases = OVERLOAD.map(|share| LoadPhase::rate(pps * share, length)).to_vec();
        let load = OfferedLoad { phases, ..OfferedLoad::of(LoadPhase::burst(0), 0) };
        let last = load.count().checked_sub(1).and_then(|n| load.due(n)).unwrap_or_default();
        let trial = match maker.one(load)? {
            Ok(trial) => trial,
            Err(stop) => return Ok(MeasureResult::stopped(stop, json!(all))),
        };
        all.push(said(Some(pps), &trial));
        let why = match (trial.bench_limit, trial.account.last_lost) {
            (Some(why), _) => why,
            (None, None) => format!("nothing was lost at {} % of the throughput", OVERLOAD[0] * 100.0),
            (None, Some(t)) if t >= last => "the last that was sent was lost, too".to_owned(),
            (None, Some(t)) => {
                times.push((t - length).max(0));
                lost += trial.account.offered - trial.account.forwarded;
                continue;
            }
        };
        return Ok(MeasureResult::not_decidable(why, json!(all)));
    }
    Ok(recoveries(vec![MeasuredNumber::of("lost", lost as f64, maker.model.unit)], &times, all, plan))
}

fn isolation(maker: &mut TrialMaker, plan: &MeasurePlan, pps: f64) -> Result<MeasureResult> {
    let length = plan.goal.trial_ps;
    let load = OfferedLoad::of(LoadPhase::rate(pps / 2.0, length), 0);
    let other = OfferedLoad { job: 1, ..OfferedLoad::of(LoadPhase::rate(pps * 2.0, length), 1) };
    let made = [maker.one(load.clone())?, maker.one_beside(load, other)?];
    let (mut measured, mut all) = (Vec::new(), Vec::new());
    for (trial, name) in made.into_iter().zip(["alone", "beside"]) {
        let trial = match trial {
            Ok(trial) => trial,
            Err(stop) => return Ok(MeasureResult::stopped(stop, json!(all))),
        };
        all.push(said(Some(pps / 2.0), &trial));
        if let Some(why) = trial.bench_limit {
            return Ok(MeasureResult::not_decidable(format!("{name}: {why}"), json!(all)));
        }
        let mut own = LatencyOfTrials::default();
        own.add(trial.account);
        measured.extend(own.measured(name));
    }
    Ok(MeasureResult::judged(measured, json!(all), None))
}

fn sharing(maker: &mut TrialMaker, plan: &MeasurePlan, pps: f64) -> Result<MeasureResult> {
    let rate = pps * SHARING;
    let load = OfferedLoad { shares: true, ..OfferedLoad::of(LoadPhase::rate(rate, plan.goal.trial_ps), 0) };
    let trial = match maker.one(load)? {
        Ok(trial) => trial,
        Err(stop) => return Ok(MeasureResult::stopped(stop, Value::Null)),
    };
    let all = json!([said(Some(rate), &trial)]);
    if let Some(why) = trial.bench_limit {
        return Ok(MeasureResult::not_decidable(why, all));
    }
    let account = &trial.account;
    let share = |name, count: u64| MeasuredNumber::of(name, count as f64 / account.offered.max(1) as f64, "");
    let measured = vec![
        MeasuredNumber::of("offered", account.offered as f64, maker.model.unit),
        share("unmerged", account.forwarded),
        share("merged", account.merged),
        share("replaced", account.replaced),
        share("lost", account.lost()),
        share("replaced_or_lost", account.untold),
        share("wrong", account.wrong),
    ];
    Ok(MeasureResult::judged(measured, all, None))
}

/// Measures the Age-of-Model of the clusters at several rates: the mean of all, and that of the cluster with the
/// highest, over the repeats.
fn ages(maker: &mut TrialMaker, plan: &MeasurePlan, repeats: u32, pps: f64) -> Result<MeasureResult> {
    let (mut measured, mut all) = (Vec::new(), Vec::new());
    for share in AGED {
        let (rate, mut means, mut oldest, mut limit) = (pps * f64::from(share) / 100.0, Vec::new(), Vec::new(), None);
        for draw in 0..repeats {
            let phase = LoadPhase::rate(rate, plan.goal.trial_ps);
            let trial = match maker.one(OfferedLoad { shares: true, ..OfferedLoad::of(phase, draw.into()) })? {
                Ok(trial) => trial,
                Err(stop) => return Ok(MeasureResult::stopped(stop, json!(all))),
            };
            all.push(said(Some(rate), &trial));
            let ages = &trial.account.ages;
            match trial.bench_limit {
                Some(why) => limit = Some(why),
                None if ages.is_empty() => limit = Some("nothing was sent for longer than an instant".to_owned()),
                None => {
                    means.push(ages.iter().sum::<f64>() / ages.len() as f64 / US as f64);
                    oldest.push(ages.iter().copied().fold(0.0, f64::max) / US as f64);
                }
            }
        }
        for (name, values) in [("age", means), ("oldest", oldest)] {
            let (name, count) = (format!("{name}_at_{share}"), values.len() as f64);
            measured.push(match limit.clone().filter(|_| values.is_empty()) {
                Some(why) => MeasuredNumber::none(name, "µs", why),
                None => MeasuredNumber::of(name, values.iter().sum::<f64>() / count, "µs"),
            });
        }
    }
    Ok(MeasureResult::judged(measured, json!(all), None))
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
