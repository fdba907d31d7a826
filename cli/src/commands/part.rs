//! One part of a run in this process: `pktgen replay --role workers`, `pktgen target`, `pktgen capture EXPERIMENT`.

use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use pktgen_core::shard::Shard;
use pktgen_core::time::{SECOND, Time};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};
use pktgen_realtime::driver::real_time::{Roles, Serve};
use pktgen_realtime::run::{Experiment, Task};

use crate::args;
use crate::commands::experiment::{OutFolder, load, open, say_roles, say_unused, say_validity};
use crate::commands::live::Live;
use crate::commands::tempo;
use crate::ui::{Ui, stop_flag};

/// Runs a serving part, given by `experiment`.
pub(super) fn serve(
    experiment: &args::Experiment,
    tempo: &args::Tempo,
    serve: args::Serve,
    roles: Roles,
    ui: &Ui,
) -> Result<u8> {
    let mut document = load(experiment)?;
    let changes = tempo::apply(tempo, &experiment.set, &mut document)?;
    let experiment = open(document)?;
    tempo::check(&changes, &experiment.runs)?;
    run(experiment, serve, roles, ui)
}

/// When to report that nothing has arrived yet.
const WAIT_SAID: Time = 5 * SECOND;

pub(super) fn run(experiment: Experiment, serve: args::Serve, roles: Roles, ui: &Ui) -> Result<u8> {
    let steers = [(serve.looking.control.is_some(), "--control"), (serve.looking.hold, "--hold")];
    if let Some((_, flag)) = steers.into_iter().find(|(given, _)| *given && !roles.workers) {
        let what = format!("{flag}: only workers can be controlled, and this part has none; leave it out");
        return Err(Error::config(what));
    }
    let stop = stop_flag();
    let transports =
        || experiment.transports_of_part(experiment.choose(serve.run.as_deref())?, roles, Shard::WHOLE, false);
    let looking = Live::new(&serve.looking, transports, roles.workers, stop.clone(), ui)?;
    let experiment = looking.watch(experiment);
    let run = experiment.choose(serve.run.as_deref())?;
    let out = OutFolder::of(serve.out, &format!("{}-{}", experiment.name, roles.part().unwrap_or("run")))?;
    let bar = looking.bar(ui.spinner(roles.part().unwrap_or("running")));
    // Others may start their parts once the threads of this one run.
    let ready = AtomicBool::new(false);
    let (came, waiting) = (AtomicBool::new(roles == Roles::WORKERS), AtomicBool::new(false));
    let task = Task {
        roles,
        serve: Serve::until_idle(positive("--idle", serve.idle)?, positive("--for", serve.most)?),
        progress: &|progress| {
            if !ready.swap(true, Ordering::Relaxed) && roles != Roles::WORKERS {
                looking.note("ready; Ctrl-C ends", &bar, ui);
            }
            came.fetch_or(progress.received > 0, Ordering::Relaxed);
            if progress.t > WAIT_SAID && !came.load(Ordering::Relaxed) && !waiting.swap(true, Ordering::Relaxed) {
                looking.note("no frame came yet; waiting for the first one (--idle or --for ends it)", &bar, ui);
            }
            looking.tell("", &progress, &bar, ui);
        },
        ..Task::whole(&stop)
    };
    let finished = experiment.execute_part(run, &out, &task);
    bar.finish_and_clear();
    let written = looking.end(ui);
    let finished = finished?;
    say_unused(experiment.unused(), ui);
    say_roles(slice::from_ref(&finished), ui);
    let valid = say_validity(slice::from_ref(&finished), ui);
    ui.wrote(&out);
    let nothing = serve.idle.is_some() && !came.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed);
    if nothing {
        ui.error("no frame came; start the other parts within 60 s, or name a longer --idle");
    }
    Ok(u8::from(!valid || nothing).max(written))
}

pub(super) fn positive(flag: &str, span: Option<Span>) -> Result<Option<Time>> {
    match span {
        Some(span) if span.ps() <= 0 => Err(Error::config(format!("{flag} {span}: give more than 0, as 2s"))),
        span => Ok(span.map(Span::ps)),
    }
}
