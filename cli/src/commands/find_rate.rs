//! `pktgen replay --find-rate`: finds the highest rate that an experiment sustains.

use std::path::Path;

use pktgen_core::config::{Document, Run};
use pktgen_core::record::Fault;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_realtime::capture::Records;
use pktgen_realtime::run::{
    Attempt, Experiment, Finished, JudgedTrial, Limiter, LoadClass, RateFound, Search, SearchGoal, Searched, Task,
};
use pktgen_records::analyze_run;
use pktgen_registry::all;

use crate::args::{FindRate, Replay};
use crate::schemas;
use crate::ui::{Ui, live, stop_flag};

/// Default share of time in trials with high loss, if only --sum is given.
const EXCEED: f64 = 0.5;
/// Default number of trials in the sum, if only --exceed is given.
const TRIALS: i64 = 21;

/// Limits that a trial must observe.
pub(super) struct Limits {
    pub(super) loss: f64,
    pub(super) aom_ns: Option<f64>,
}

pub(super) fn run(document: &Document, replay: &Replay, out: &Path, ui: &Ui) -> Result<u8> {
    let args = &replay.find;
    let limits = limits(args)?;
    let goal = goal(args)?;
    let search = Search {
        from_pps: args.from,
        to_pps: args.to,
        precision: args.precision,
        // A goal has its own repeats.
        confirm: if goal.is_some() { 0 } else { args.confirm },
        trials: args.trials,
        goal,
    };
    let (run, may_launch) = (replay.run.as_deref(), replay.launch.allow_launch);
    let searched = Searched { catalogue: all(), document, run, may_launch };
    let experiment = Experiment::open(all(), document.clone())?;
    let chosen = experiment.choose(run)?;
    if limits.aom_ns.is_some() {
        check_ages(&experiment, chosen)?;
    }
    if !replay.no_probe {
        experiment.probe_device(chosen)?;
    }
    let stop = stop_flag();
    let bar = ui.spinner("trial");
    let progress = |p: &_| bar.set_message(live(p));
    let task = Task { progress: &|p| progress(&p), ..Task::whole(&stop) };
    let mut judge = |finished: &Finished| {
        let judged = judge(finished, &limits)?;
        bar.suspend(|| ui.detail(&format!("{}: {:?}", finished.dir.display(), judged.attempt)));
        Ok(judged)
    };
    let found = Experiment::find_rate(searched, out, &search, &args.trial, &task, &mut judge);
    bar.finish_and_clear();
    let found = found?;
    tell(&found, ui);
    Ok(u8::from(!found.confirmed))
}

fn limits(args: &FindRate) -> Result<Limits> {
    if !(0.0..=1.0).contains(&args.loss) {
        return Err(Error::config(format!("--loss {}: a share from 0 to 1 is possible", args.loss)));
    }
    let aom_ns = match &args.aom {
        None => None,
        Some(text) => {
            let span: Span = text.parse().map_err(|e| Error::config(format!("--aom {text}: {e}")))?;
            Some(span.ps() as f64 / 1e3)
        }
    };
    Ok(Limits { loss: args.loss, aom_ns })
}

/// Refuses a limit of the Age-of-Model for a run without all records, of which no age is known.
fn check_ages(experiment: &Experiment, run: &Run) -> Result<()> {
    let records = experiment.prepare(run)?.spec.capture.records;
    if records == Records::Full {
        return Ok(());
    }
    Err(Error::config(format!(
        "--aom: the Age-of-Model needs capture.records = \"full\", not \"{records}\"; change it, or leave out --aom"
    )))
}

/// Returns the goal of RFC 9971, if rates have more than one trial.
fn goal(args: &FindRate) -> Result<Option<SearchGoal>> {
    if args.exceed.is_none() && args.sum.is_none() {
        return Ok(None);
    }
    let span =
        |flag: &str, text: &str| text.parse().map(Span::ps).map_err(|e| Error::config(format!("--{flag} {text}: {e}")));
    let trial_ps = span("trial", &args.trial)?;
    let sum_ps = args.sum.as_deref().map_or(Ok(TRIALS * trial_ps), |text| span("sum", text))?;
    Ok(Some(SearchGoal { loss: args.loss, exceed: args.exceed.unwrap_or(EXCEED), trial_ps, sum_ps }))
}

/// Decides whether a trial observed the limits, with the reason or the margin. An unusable trial counts as complete loss.
pub(super) fn judge(finished: &Finished, limits: &Limits) -> Result<JudgedTrial> {
    let all = |attempt| Ok(JudgedTrial { attempt, loss: None });
    let validity = &finished.validity;
    if validity.faults.iter().any(|fault| matches!(fault, Fault::NothingReceived { .. } | Fault::NothingMatched { .. }))
    {
        return all(Attempt::NothingBack);
    }
    if !validity.is_valid() {
        let host = validity.faults.iter().any(Fault::loses_frames);
        return all(Attempt::Failed(validity.why(), if host { Limiter::Host } else { Limiter::Device }));
    }
    let failed = |why| Attempt::Failed(why, Limiter::Device);
    let (lost, sent) = match lost(finished)? {
        Ok(counts) => counts,
        Err(why) => return all(failed(why)),
    };
    let loss = lost as f64 / sent.max(1) as f64;
    if loss > limits.loss {
        let why = format!("loss {loss:.6}: {lost} of {sent} lost");
        return Ok(JudgedTrial { attempt: failed(why), loss: Some(loss) });
    }
    let mut told = format!("loss {loss:.6} of {sent} sent");
    if let Some(limit) = limits.aom_ns {
        let measured = analyze_run(&finished.dir)?;
        let mean = |line: &&pktgen_records::Line| {
            line.metric == "aom_mean"
                && line.labels.get("flow").is_some_and(|flow| flow == "cluster")
                && !line.labels.contains_key("id")
        };
        let age = measured.lines.iter().find(mean).and_then(|line| line.value);
        match age {
            Some(age) if age <= limit => told += &format!(", AoM {:.3} ms", age / 1e6),
            Some(age) => return all(failed(format!("AoM {:.3} ms is above the limit", age / 1e6))),
            None if finished.updates.delivered_alone + finished.updates.delivered_merged > 0 => {
                return Err(Error::config(
                    "--aom: this run has no Age-of-Model of clusters: its packets have no updates, or do not name them; leave out --aom",
                ));
            }
            None => return all(failed("nothing was delivered, so there is no AoM".into())),
        }
    }
    Ok(JudgedTrial { attempt: Attempt::Passed(told), loss: Some(loss) })
}

/// Returns how many of how many transmissions of updates were lost, or why that is unknown: from the ledger; without one, from
/// updates that are not represented at the server, using lanes if the device may merge.
fn lost(finished: &Finished) -> Result<Result<(u64, u64), String>> {
    let balance = &finished.updates;
    let Some(unseen) = &finished.unseen else { return Ok(Ok((balance.dropped_total(), balance.sent))) };
    let lines = if unseen.merges { analyze_run(&finished.dir)?.lines } else { Vec::new() };
    let count = |metric: &str| lines.iter().find(|line| line.metric == metric).and_then(|line| line.value);
    let Some(sent) = count("lanes_sent") else { return Ok(Ok((balance.unaccounted, balance.sent))) };
    let unclear = count("lanes_unclear").unwrap_or(0.0) + count("lanes_contradictions").unwrap_or(0.0);
    if unclear > 0.0 {
        return Ok(Err(format!("lanes do not identify {unclear} packets or updates (docs/provenance.md)")));
    }
    let lost = count("lanes_overtaken").unwrap_or(0.0) + count("lanes_missing").unwrap_or(0.0);
    Ok(Ok((lost as u64, sent as u64)))
}

fn tell(found: &RateFound, ui: &Ui) {
    if ui.json() {
        ui.object(&schemas::RATE, &serde_json::to_string(found).unwrap_or_default());
        return;
    }
    for trial in &found.trials {
        let what = if trial.confirms { "again " } else { "" };
        let passed = if trial.passed { "passed" } else { "failed" };
        ui.result(&format!("{:>14.1} packets/s {what}{passed}: {}", trial.pps, trial.why));
    }
    let limit = match (found.failed_pps, found.limited_by) {
        (None, None) => "no rate failed, so neither device nor host limits it".to_owned(),
        (None, Some(_)) => "limit of the device".to_owned(),
        (Some(pps), Some(Limiter::Host)) => format!("{pps:.1} failed: limit of this host, not of the device"),
        (Some(pps), _) => format!("{pps:.1} failed: limit of the device"),
    };
    if found.goal.is_some() {
        return tell_bounds(found, &limit, ui);
    }
    ui.result(&match found.pps {
        Some(pps) if found.confirmed && !found.trials.iter().any(|trial| trial.confirms) => {
            format!("highest rate: {pps:.1} packets/s, by one trial (--confirm 0); {limit}")
        }
        Some(pps) if found.confirmed => format!("highest rate: {pps:.1} packets/s, confirmed; {limit}"),
        Some(pps) => format!("highest rate that passed: {pps:.1} packets/s, not confirmed: {}; {limit}", found.ended),
        None if found.failed_pps.is_none() => format!("no rate passed: {}", found.ended),
        None => format!("no rate passed: {}; {limit}", found.ended),
    });
}

/// Prints the result of a search with a goal, in the terms of RFC 9971.
fn tell_bounds(found: &RateFound, limit: &str, ui: &Ui) {
    let trials: usize = found.loads.iter().map(|load| load.trials.len()).sum();
    let undecided = found.loads.iter().any(|load| load.class == LoadClass::Undecided);
    let bound = |pps: Option<f64>| pps.map_or("none".to_owned(), |pps| format!("{pps:.1} packets/s"));
    ui.result(&format!("relevant lower bound: {}", bound(found.pps)));
    ui.result(&format!("relevant upper bound: {}", bound(found.failed_pps)));
    ui.result(&format!("conditional throughput: {}", bound(found.conditional_pps)));
    let more = if undecided { "; a load is undecided" } else { "" };
    ui.result(&format!("{} loads, {trials} trials: {}{more}; {limit}", found.loads.len(), found.ended));
}
