//! `pktgen target`: runs the software device of an experiment between two interfaces; `pktgen target check`: checks the
//! device that it launches.

use pktgen_core::{Error, Result};
use pktgen_realtime::driver::real_time::Roles;
use serde_json::json;

use crate::args::{AllowLaunch, Experiment, Target, TargetCommand};
use crate::commands::experiment::{load, open};
use crate::commands::part;
use crate::schemas;
use crate::ui::{Ui, stop_flag};

pub(super) fn run(args: Target, ui: &Ui) -> Result<u8> {
    match (args.other, args.experiment) {
        (Some(TargetCommand::Check { experiment, run, launch }), _) => check(&experiment, run.as_deref(), launch, ui),
        (None, Some(experiment)) => part::serve(&experiment, &args.tempo, args.serve, Roles::DEVICE, ui),
        (None, None) => Err(Error::config("EXPERIMENT: give the path of an experiment file, or check and such a path")),
    }
}

/// Starts, probes and stops the device of a run.
fn check(experiment: &Experiment, run: Option<&str>, launch: AllowLaunch, ui: &Ui) -> Result<u8> {
    let experiment = open(load(experiment)?)?.launching(launch.allow_launch);
    // The first run of a sweep if no name is given: all start the same device.
    let run = run.map_or_else(|| Ok(&experiment.runs[0]), |name| experiment.choose(Some(name)))?;
    // A first Ctrl-C lets the device end.
    let _ = stop_flag();
    let found = match experiment.check_device(run) {
        Err(Error::Invalid(why)) if ui.json() => {
            ui.object(&schemas::DEVICE_START, &json!({ "ready": false, "why": why }).to_string());
            return Ok(1);
        }
        other => other?,
    };
    if ui.json() {
        let (command, facts, counters, stop) = (&found.command, &found.facts, &found.counters, &found.stop);
        let line = json!({ "ready": true, "command": command, "facts": facts, "counters": counters, "stop": stop });
        ui.object(&schemas::DEVICE_START, &line.to_string());
    } else {
        if !found.command.is_empty() {
            ui.result(&format!("command        {}", found.command.join(" ")));
        }
        for (name, text) in &found.facts {
            ui.result(&format!("{:<14} {text}", name.trim_start_matches("device.").replace('_', " ")));
        }
        for (name, value) in &found.counters {
            ui.result(&format!("counter        {name} {value}"));
        }
        if !found.command.is_empty() {
            ui.result(&format!("end            {}", found.stop.as_deref().unwrap_or("as requested")));
        }
        ui.result("ready");
    }
    Ok(u8::from(found.stop.is_some()))
}
