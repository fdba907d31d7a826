//! `pktgen replay --find-rate`: the highest rate that an experiment stands.

use std::path::Path;

use pktgen_analysis::analyze_run;
use pktgen_generator::config::Document;
use pktgen_generator::units::Span;
use pktgen_generator::{Error, Result};
use pktgen_replay::run::{Experiment, Finished, Found, Search, Task};

use crate::args::FindRate;
use crate::ui::{Ui, live, stop_flag};

/// What a trial must keep to.
struct Limits {
    loss: f64,
    aom_ns: Option<f64>,
}

pub(super) fn run(document: &Document, run: Option<&str>, out: &Path, args: &FindRate, ui: &Ui) -> Result<u8> {
    let limits = limits(args)?;
    let search = Search {
        from_pps: args.from,
        to_pps: args.to,
        precision: args.precision,
        confirm: args.confirm,
        trials: args.trials,
    };
    let stop = stop_flag();
    let bar = ui.spinner("trial");
    let progress = |p: &_| bar.set_message(live(p));
    let task = Task { progress: &|p| progress(&p), ..Task::whole(&stop) };
    let mut judge = |finished: &Finished| -> Result<(bool, String)> {
        let verdict = judge(finished, &limits)?;
        bar.suspend(|| ui.detail(&format!("{}: {}", finished.dir.display(), verdict.1)));
        Ok(verdict)
    };
    let found = Experiment::find_rate(document, run, out, &search, &args.trial, &task, &mut judge);
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
fn judge(finished: &Finished, limits: &Limits) -> Result<(bool, String)> {
    let (balance, validity) = (&finished.balance, &finished.validity);
    if !validity.is_valid() {
        return Ok((false, validity.why()));
    }
    let dropped = balance.dropped_total();
    let loss = dropped as f64 / balance.sent.max(1) as f64;
    if loss > limits.loss {
        return Ok((false, format!("loss {loss:.6}: {dropped} of {} dropped", balance.sent)));
    }
    let mut told = format!("loss {loss:.6} of {} sent", balance.sent);
    if let Some(limit) = limits.aom_ns {
        let measured = analyze_run(&finished.dir)?;
        let mean = |line: &&pktgen_analysis::Line| {
            line.metric == "aom_mean"
                && line.labels.get("flow").is_some_and(|flow| flow == "cluster")
                && !line.labels.contains_key("id")
        };
        let age = measured.lines.iter().find(mean).and_then(|line| line.value);
        match age {
            Some(age) if age <= limit => told += &format!(", AoM {:.3} ms", age / 1e6),
            Some(age) => return Ok((false, format!("AoM {:.3} ms is above the limit", age / 1e6))),
            None => return Ok((false, "nothing was delivered, so there is no AoM".into())),
        }
    }
    Ok((true, told))
}

fn tell(found: &Found, ui: &Ui) {
    if ui.json() {
        ui.result(&serde_json::to_string(found).unwrap_or_default());
        return;
    }
    for trial in &found.trials {
        let what = if trial.confirms { "again " } else { "" };
        let passed = if trial.passed { "passed" } else { "failed" };
        ui.result(&format!("{:>14.1} packets/s {what}{passed}: {}", trial.pps, trial.why));
    }
    let above = found.failed_pps.map_or("no rate failed".to_owned(), |pps| format!("{pps:.1} failed"));
    ui.result(&match found.pps {
        Some(pps) if found.confirmed => format!("highest rate: {pps:.1} packets/s, confirmed; {above}"),
        Some(pps) => format!("highest rate that passed: {pps:.1} packets/s, not confirmed: {}; {above}", found.ended),
        None => format!("no rate passed: {}; {above}", found.ended),
    });
}
