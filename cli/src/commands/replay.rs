//! `pktgen replay`: runs an experiment, then reports.

use pktgen_core::{Error, Result};
use pktgen_realtime::driver::real_time::Roles;
use pktgen_realtime::run::refuse_study;

use crate::args;
use crate::args::{Looking, Replay};
use crate::commands::experiment::{OutFolder, execute, load, open};
use crate::commands::{dry_run, find_rate, part, ranks, rfc2544, shard, tempo};
use crate::ui::Ui;

pub(super) fn run(args: Replay, ui: &Ui) -> Result<u8> {
    let mut document = load(&args.experiment)?;
    let changes = tempo::apply(&args.tempo, &args.experiment.set, &mut document)?;
    let experiment = open(document.clone())?.launching(args.launch.allow_launch).probing(!args.no_probe);
    tempo::check(&changes, &experiment.runs)?;
    let experiment = match &args.run {
        // A search chooses the run itself.
        Some(name) if args.print_config || !args.find.find_rate => experiment.only(name)?,
        _ => experiment,
    };
    experiment.overrides_without_effect().iter().for_each(|text| ui.note(&format!("note: {text}")));
    if args.print_config {
        ui.result(experiment.config(&experiment.runs[0])?.trim_end());
        return Ok(0);
    }
    if args.dry_run || args.find.find_rate || args.shard.is_some() {
        refuse_looking(&args.looking)?;
    }
    if args.dry_run {
        return dry_run::run(&experiment, args.frames.into(), ui);
    }
    if args.find.find_rate {
        refuse_study(&document)?;
        let out = OutFolder::of(args.out.clone(), &format!("{}-rate", experiment.name))?;
        if let Some(sizes) = &args.find.rfc2544 {
            return rfc2544::run(&document, &args, sizes, &out, ui);
        }
        return find_rate::run(&document, &args, &out, ui);
    }
    if let Some(rank) = args.ranks.rank {
        return ranks::run(experiment, rank, &args, ui);
    }
    if args.role.is_some() {
        let serve = args::Serve { out: args.out, run: args.run, idle: None, most: None, looking: args.looking };
        return part::run(experiment, serve, Roles::WORKERS, ui);
    }
    let out = OutFolder::of(args.out, &experiment.name)?;
    let jobs = args.jobs.map(usize::from);
    match args.shard {
        Some(shard) => shard::run(&experiment, shard, &out, jobs, ui),
        None => execute(experiment, &out, jobs, !args.no_report, &args.looking, ui),
    }
}

/// Refuses flags that watch or control a run, for commands that do not.
fn refuse_looking(flags: &Looking) -> Result<()> {
    match flags.first() {
        Some(flag) => {
            Err(Error::config(format!("{flag}: it is not for --dry-run, --find-rate and --shard; leave it out")))
        }
        None => Ok(()),
    }
}
