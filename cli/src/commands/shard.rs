//! `pktgen replay --shard`: runs one shard of a sweep, which can be resumed.

use std::path::Path;

use pktgen_core::Result;
use pktgen_core::record::RunState;
use pktgen_core::shard::Shard;
use pktgen_realtime::run::Experiment;

use crate::commands::experiment::{say_unused, say_validity};
use crate::schemas;
use crate::ui::{Ui, live, stop_flag};

/// Runs the shard into `out` and prints the results; reports are only for the whole sweep. Returns the exit code.
pub(super) fn run(experiment: &Experiment, shard: Shard, out: &Path, jobs: Option<usize>, ui: &Ui) -> Result<u8> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = stop_flag();
    let mine = (0..experiment.runs.len() as u64).filter(|run| shard.takes(*run)).count();
    let bar = ui.bar("replaying", mine as u64);
    let progress = |runs: usize, progress| {
        bar.set_position(runs as u64);
        bar.set_message(format!("runs, {},", live(&progress)));
    };
    let say = |text: &str| bar.suspend(|| ui.note(text));
    let share = experiment.execute_shard(shard, out, jobs.unwrap_or(cores), &stop, &progress, &say);
    bar.finish_and_clear();
    let share = share?;
    say_unused(experiment.unused(), ui);
    let finished = share.finished.iter().filter(|run| run.state == RunState::Finished).count();
    let (runs, planned, kept, redone) = (share.runs, share.planned, share.kept, share.redone);
    if kept + redone > 0 {
        ui.note(&format!("{}: {kept} runs were finished already, {redone} were begun anew", out.display()));
    }
    let valid = say_validity(&share.finished, ui);
    ui.result(&if ui.json() {
        let object = serde_json::json!({
            "out": out.display().to_string(), "shard": shard.to_string(), "planned": planned, "runs": runs, "finished": finished, "kept": kept,
            "redone": redone, "valid": valid,
        });
        schemas::SHARD.stamp(&object.to_string())
    } else {
        ui.detail(&format!("shard {shard}: {finished} of {runs} runs, of the sweep's {planned}"));
        out.display().to_string()
    });
    if finished < runs {
        ui.reason(&format!("interrupted after {finished} of {runs} runs; the same command goes on from there"));
    }
    Ok(u8::from(finished < runs || !valid))
}
