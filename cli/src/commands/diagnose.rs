//! `pktgen diagnose`: finds out why nothing, too little or wrong sums come back.

use std::path::Path;

use pktgen_core::{Error, Result};
use pktgen_diagnose::{Certainty, Conclusion, DIAGNOSIS, Diagnosis, EvidenceItem, Symptom, diagnose, json, list, text};
use pktgen_doctor::{Host, Level, judge};
use pktgen_realtime::driver::real_time::Roles;
use pktgen_realtime::run::Experiment;
use pktgen_registry::all;
use pktgen_report::run_dirs;

use crate::args;
use crate::args::Diagnose;
use crate::commands::experiment::{load, open};
use crate::ui::{Ui, stop_flag};

/// Exit code if something is wrong and no cause is more than possible.
const CANNOT_TELL: u8 = 4;

pub(super) fn run(args: Diagnose, ui: &Ui) -> Result<u8> {
    let Some(subject) = args.subject.filter(|_| !args.list) else {
        ui.result(list().trim_end());
        return Ok(0);
    };
    let found = match subject.is_dir() {
        true if !args.set.is_empty() => {
            return Err(Error::config("--set: a run has its settings; leave it out, or name an experiment file"));
        }
        true if args.launch.allow_launch => {
            return Err(Error::config("--allow-launch: a run has ended; leave it out, or name an experiment file"));
        }
        true => of_run(&subject, args.device.as_deref(), args.no_verify).map_err(unread)?,
        false if args.device.is_some() => {
            return Err(Error::config("--device: an experiment has not run yet; leave it out, or name a run dir"));
        }
        false if args.no_verify => {
            return Err(Error::config("--no-verify: an experiment has no files yet; leave it out, or name a run dir"));
        }
        false => {
            let document = load(&args::Experiment { experiment: subject, set: args.set })?;
            of_experiment(&open(document)?.launching(args.launch.allow_launch), args.launch.allow_launch)?
        }
    };
    match ui.json() {
        true => ui.object(&DIAGNOSIS, &json(&found).to_string()),
        false => ui.result(text(&found).trim_end()),
    }
    Ok(match found.answer() {
        Conclusion::Healthy => 0,
        Conclusion::Found => 1,
        Conclusion::CannotTell => CANNOT_TELL,
    })
}

/// Diagnoses the run in `run`.
fn of_run(run: &Path, device: Option<&Path>, no_verify: bool) -> Result<Diagnosis> {
    one_run(run, no_verify)?;
    diagnose(run, device, &all().protocols, no_verify)
}

/// Returns the error of a run that could not be read: exit code 1 would say that a cause was found.
fn unread(error: Error) -> Error {
    match error.exit_code() {
        1 => Error::config(error.to_string()),
        _ => error,
    }
}

/// Refuses a folder of several runs, as a diagnosis is about one, and a run whose manifest is missing or differs from that listed by
/// the `sweep.json` beside it.
fn one_run(folder: &Path, no_verify: bool) -> Result<()> {
    if !folder.join("sweep.json").exists() {
        return Ok(());
    }
    let runs = run_dirs(folder, no_verify)?;
    let own = runs.iter().find(|run| run.dir == folder);
    if own.is_some() || folder.join("manifest.json").exists() {
        return own.map_or(Ok(()), |run| run.check(no_verify));
    }
    let began = runs.iter().filter(|run| run.dir.join("manifest.json").exists());
    let all: Vec<_> = began.map(|run| run.dir.display().to_string()).collect();
    let Some(first) = all.first() else {
        // Each of them fails: it never began, or its manifest is missing.
        return runs.iter().try_for_each(|run| run.check(no_verify));
    };
    Err(Error::config(format!(
        "{}: it holds {} runs, and a diagnosis is of one: pktgen diagnose {first}; there are: {}{}",
        folder.display(),
        all.len(),
        all[..all.len().min(8)].join(" "),
        if all.len() > 8 { " ..." } else { "" }
    )))
}

/// Finds what would prevent an experiment from running: the host, and the device that it starts, if that is permitted.
fn of_experiment(experiment: &Experiment, may_launch: bool) -> Result<Diagnosis> {
    let mut found = Diagnosis::default();
    // The ports of a launched device are created when it starts.
    let launches = experiment.launches(&experiment.runs[0])?;
    let findings = if launches { Vec::new() } else { judge(experiment, Roles::ALL, &Host::this())?.findings };
    for finding in findings {
        if finding.level == Level::Cannot {
            let says = format!("{}: {}; {}", finding.value, finding.why, finding.remedy);
            found.add("cannot_run", Certainty::Certain, EvidenceItem::new(finding.subject.as_str(), says));
        }
    }
    if launches && may_launch {
        for run in &experiment.runs[..1] {
            // A first Ctrl-C lets the device end.
            let _ = stop_flag();
            match experiment.check_device(run) {
                Err(Error::Invalid(why)) => {
                    found.add("device_not_ready", Certainty::Certain, EvidenceItem::new("pktgen target check", why))
                }
                Err(Error::Host(why)) => {
                    found.add("cannot_run", Certainty::Certain, EvidenceItem::new("pktgen target check", why))
                }
                other => drop(other?),
            }
        }
    } else if launches {
        found.unknown.push("whether the device does what it should: --allow-launch starts and probes it".into());
    }
    if let Some(first) = found.causes.first() {
        found.symptoms.push(Symptom { code: "before_run", text: first.cause.what.to_owned() });
    }
    Ok(found)
}
