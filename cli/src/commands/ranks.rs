//! `pktgen replay --rank`: one of several processes that execute a run together.

use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pktgen_core::Result;
use pktgen_realtime::driver::real_time::Serve;
use pktgen_realtime::run::{Experiment, Meeting, RankCrew, RankFlag};

use crate::args::Replay;
use crate::commands::experiment::{OutFolder, say_roles, say_unused, say_validity};
use crate::commands::live::Live;
use crate::commands::merge;
use crate::commands::part::positive;
use crate::ui::{Ui, stop_flag};

pub(super) fn run(experiment: Experiment, rank: RankFlag, args: &Replay, ui: &Ui) -> Result<u8> {
    let flags = &args.ranks;
    let place = rank.place(&|name| std::env::var(name).ok())?;
    let crew = RankCrew::new(place, flags.roles.as_deref())?;
    let stop = stop_flag();
    let (role, share) = (crew.role(), crew.share());
    let transports = || experiment.transports_of_part(experiment.choose(args.run.as_deref())?, role, share, true);
    let looking = Live::new(&args.looking, transports, role.workers, stop.clone(), ui)?;
    let experiment = looking.watch(experiment);
    let run = experiment.choose(args.run.as_deref())?;
    let out = OutFolder::of(args.out.clone(), &experiment.name)?;
    let wait = positive("--wait-ranks", Some(flags.wait_ranks))?.unwrap_or_default();
    let serve =
        Serve { idle: positive("--idle", Some(flags.idle))?, first: None, most: positive("--for", flags.most)? };
    let meeting = Meeting::new(crew, &out, Duration::from_nanos((wait / 1000) as u64), flags.start_at);
    let first = meeting.crew().place().rank == 0;
    let bar = looking.bar(ui.spinner(&format!("rank {}", meeting.crew().place().rank)));
    let progress = |progress| looking.tell("", &progress, &bar, ui);
    let finished = experiment.execute_rank(run, &meeting, serve, &stop, &progress);
    bar.finish_and_clear();
    let written = looking.end(ui);
    let finished = finished?;
    say_unused(experiment.unused(), ui);
    say_roles(slice::from_ref(&finished), ui);
    let valid = say_validity(slice::from_ref(&finished), ui);
    if !(first && flags.merge) {
        ui.wrote(&finished.dir);
        return Ok(u8::from(!valid).max(written));
    }
    // The signal that ended the run does not end this wait; another one ends the program.
    let unset = AtomicBool::new(false);
    meeting.wait_for_ends(if stop.load(Ordering::Relaxed) { &unset } else { &stop })?;
    let (dirs, whole) = meeting.parts();
    Ok(merge::parts(&dirs, &whole, None, false, ui)?.max(u8::from(!valid)).max(written))
}
