//! `pktgen replay --find-rate`: the highest rate that an experiment stands.

use std::path::Path;

use pktgen_core::config::Document;
use pktgen_core::record::Fault;
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_realtime::run::{Attempt, Experiment, Finished, Limiter, RateFound, Search, Searched, Task};
use pktgen_records::analyze_run;
use pktgen_registry::all;

use crate::args::{FindRate, Replay};
use crate::schemas;
use crate::ui::{Ui, live, stop_flag};

/// What a trial must keep to.
struct Limits {
    loss: f64,
    aom_ns: Option<f64>,
}

pub(super) fn run(document: &Document, replay: &Replay, out: &Path, ui: &Ui) -> Result<u8> {
    let args = &replay.find;
    let limits = limits(args)?;
    let search = Search {
        from_pps: args.from,
        to_pps: args.to,
        precision: args.precision,
        confirm: args.confirm,
        trials: args.trials,
    };
    let (run, may_launch) = (replay.run.as_deref(), replay.launch.allow_launch);
    let searched = Searched { catalogue: all(), document, run, may_launch };
    let stop = stop_flag();
    let bar = ui.spinner("trial");
    let progress = |p: &_| bar.set_message(live(p));
    let task = Task { progress: &|p| progress(&p), ..Task::whole(&stop) };
    let mut judge = |finished: &Finished| {
        let attempt = judge(finished, &limits)?;
        bar.suspend(|| ui.detail(&format!("{}: {attempt:?}", finished.dir.display())));
        Ok(attempt)
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

/// Did the trial keep to the limits, and why not, or how well?
fn judge(finished: &Finished, limits: &Limits) -> Result<Attempt> {
    let validity = &finished.validity;
    if validity.faults.iter().any(|fault| matches!(fault, Fault::NothingReceived { .. })) {
        return Ok(Attempt::NothingBack);
    }
    if !validity.is_valid() {
        let host = validity.faults.iter().any(Fault::loses_frames);
        return Ok(Attempt::Failed(validity.why(), if host { Limiter::Host } else { Limiter::Device }));
    }
    let failed = |why| Ok(Attempt::Failed(why, Limiter::Device));
    let (lost, sent) = match lost(finished)? {
        Ok(counts) => counts,
        Err(why) => return failed(why),
    };
    let loss = lost as f64 / sent.max(1) as f64;
    if loss > limits.loss {
        return failed(format!("loss {loss:.6}: {lost} of {sent} lost"));
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
            Some(age) => return failed(format!("AoM {:.3} ms is above the limit", age / 1e6)),
            None => return failed("nothing was delivered, so there is no AoM".into()),
        }
    }
    Ok(Attempt::Passed(told))
}

/// How many of how many transmissions were lost, or why that is unknown: by the books; without them what is not represented at the
/// server, from lanes where the device may merge.
fn lost(finished: &Finished) -> Result<Result<(u64, u64), String>> {
    let balance = &finished.balance;
    let Some(unseen) = &finished.unseen else { return Ok(Ok((balance.dropped_total(), balance.sent))) };
    let lines = if unseen.merges { analyze_run(&finished.dir)?.lines } else { Vec::new() };
    let count = |metric: &str| lines.iter().find(|line| line.metric == metric).and_then(|line| line.value);
    let Some(sent) = count("lanes_sent") else { return Ok(Ok((balance.unaccounted, balance.sent))) };
    let unclear = count("lanes_unclear").unwrap_or(0.0) + count("lanes_contradictions").unwrap_or(0.0);
    if unclear > 0.0 {
        return Ok(Err(format!("lanes do not explain {unclear} packets or updates (docs/provenance.md)")));
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
        (None, _) => "no rate failed, so neither device nor host limits it".to_owned(),
        (Some(pps), Some(Limiter::Host)) => format!("{pps:.1} failed: limit of this host, not of the device"),
        (Some(pps), _) => format!("{pps:.1} failed: limit of the device"),
    };
    ui.result(&match found.pps {
        Some(pps) if found.confirmed => format!("highest rate: {pps:.1} packets/s, confirmed; {limit}"),
        Some(pps) => format!("highest rate that passed: {pps:.1} packets/s, not confirmed: {}; {limit}", found.ended),
        None if found.failed_pps.is_none() => format!("no rate passed: {}", found.ended),
        None => format!("no rate passed: {}; {limit}", found.ended),
    });
}
